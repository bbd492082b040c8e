"""Offer the MEMORY.md of a branch to the contexts of its linked git worktree, and read its notes.

A worktree shares the memory of the main one. Where its branch has another MEMORY.md than the one
that is indexed, a context shows the branch's instead. It is small and read for each context, so it
is not indexed; for a query its chunks are ordered by the words that they hold. Files of the
worktree are read by their absolute paths.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.model import ARCHIVED, Note, Section, Span
from memsyncd.core.notepath import MEMORY_FILE, NotePath, parse_note_path
from memsyncd.core.search.context import ContextChunk
from memsyncd.engine.metadata import NO_META, describe_meta
from memsyncd.engine.redaction import redact_chunk, redact_section
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.files.read import ReadFile, read_note_file
from memsyncd.files.scope import Scope, parse_scope
from memsyncd.protocol.search import ContextPart, GetParams, Got
from memsyncd.store.lookup import StoredSection, read_digest
from memsyncd.store.pool import Reader
from memsyncd.store.search import ChunkSecrets

READ_LIMIT_S = 2.0
BRANCH_LABEL = "this branch"


class BranchMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The MEMORY.md, or another note, of a worktree. `path` is its absolute path."""

    path: str
    note: Note
    modified_ns: int
    lines: Sequence[str]


def read_branch_memory(folder: str, config: Config) -> BranchMemory | None:
    """Read the MEMORY.md in a folder of a worktree; None if there is none. Blocks on its disk."""
    scope = parse_scope(folder, max_file_bytes=config.sync.max_file_bytes)
    return _read_branch_note(scope, parse_note_path(MEMORY_FILE), config)


def _read_branch_note(scope: Scope, path: NotePath, config: Config) -> BranchMemory | None:
    # No start of the daemon needs the parser.
    from memsyncd.core.markdown.parse import parse_note

    read = read_note_file(scope, path, now_ns=time.time_ns())
    if not isinstance(read, ReadFile):
        return None
    return BranchMemory(
        path=os.path.join(scope.root, path.text),
        note=parse_note(read.path, read.data, config.chunking, config.guard),
        modified_ns=read.record.stat.mtime_ns,
        lines=decode_note(path.text, read.data).lines,
    )


def read_branch_place(
    workspace: Workspace, folder: str, params: GetParams, config: Config, now_s: float
) -> Got | None:
    """Read a section or lines of a file in a folder of a worktree; an end beyond the file's end is
    cut. None if there is no such note, or if the index has exactly this text.

    Raises BadRequest, PathRefused and NoteNotFound, and what `Workspace.acquire` raises.
    """
    text = params.path or (params.anchor or "").rpartition("#")[0]
    path = parse_note_path(text)
    scope = replace(workspace.scope, root=folder, allow_links_to=())
    branch = _read_branch_note(scope, path, config) if scope.is_note(text) else None
    if branch is None:
        return None
    with workspace.acquire(READ_LIMIT_S) as reader:
        if read_digest(reader, text) == branch.note.digest:
            return None
    return _cut_branch_place(workspace, branch, params, config, now_s)


def _cut_branch_place(
    workspace: Workspace, branch: BranchMemory, params: GetParams, config: Config, now_s: float
) -> Got:
    n_lines = max(1, len(branch.lines))
    if (params.start_line or 1) > n_lines:
        raise BadRequest(f"{branch.path} has {n_lines} lines", hint=f"ask for lines 1 to {n_lines}")
    section = _find_branch_section(branch, params)
    whole = section.span if section and params.anchor is not None else Span(1, n_lines)
    start = params.start_line or whole.start
    end = max(start, min(params.end_line or whole.end, n_lines))
    is_part = params.anchor is not None or params.start_line is not None
    named = section if is_part else None
    meta = _describe_section(section, branch, config) if section else NO_META
    return Got(
        workspace=workspace.id,
        anchor=_name_branch_anchor(branch, named.anchor) if named else None,
        path=branch.path,
        start_line=start,
        end_line=end,
        text="\n".join(branch.lines[start - 1 : end]),
        digest=branch.note.digest,
        heading=list(named.heading) if named else [],
        **describe_meta(meta, config.kinds, now_s),
        n_lines=n_lines,
        n_links=0,
        n_backlinks=0,
    )


def _find_branch_section(branch: BranchMemory, params: GetParams) -> Section | None:
    """Return the section that is named, or that of the first line. Raises NoteNotFound."""
    if params.anchor is None:
        line = params.start_line or 1
        within = (one for one in branch.note.sections if one.span.start <= line <= one.span.end)
        return next(within, None)
    found = next((one for one in branch.note.sections if one.anchor == params.anchor), None)
    if found is None:
        hint = "name the path without a heading to read the whole file"
        raise NoteNotFound(f"no such section in {branch.path}", hint=hint)
    return found


def _name_branch_anchor(branch: BranchMemory, anchor: str) -> str:
    return f"{branch.path}#{anchor.rpartition('#')[2]}"


def differs_from_index(reader: Reader, branch: BranchMemory) -> bool:
    """True unless the index has exactly this text as MEMORY.md."""
    return read_digest(reader, MEMORY_FILE) != branch.note.digest


def list_branch_chunks(
    branch: BranchMemory, config: Config, weigh: Callable[[str], float] | None, reason: str
) -> list[ContextChunk]:
    """Return the chunks of the branch's MEMORY.md that a context may show, best first.

    `weigh` returns the weight of a text for a query, 0 for one that is not to be shown; without
    it all are shown, in order.
    """
    sections = {
        section.anchor: _describe_section(section, branch, config)
        for section in branch.note.sections
    }
    shown = [
        ContextChunk(
            path=MEMORY_FILE,
            anchor=chunk.anchor,
            heading=sections[chunk.anchor].heading,
            kind=sections[chunk.anchor].kind,
            span=chunk.span,
            text=_redact(chunk.text, branch.note, chunk.start, chunk.end, config),
            reason=reason,
        )
        for chunk in branch.note.chunks
        if sections[chunk.anchor].status != ARCHIVED
    ]
    if weigh is None:
        return shown
    weights = [weigh(chunk.text) for chunk in shown]
    found = [number for number, weight in enumerate(weights) if weight > 0]
    return [shown[number] for number in sorted(found, key=lambda number: -weights[number])]


def describe_branch_part(
    workspace: Workspace,
    branch: BranchMemory,
    chunk: ContextChunk,
    config: Config,
    now_s: float,
) -> ContextPart:
    """Describe a chunk of the branch's MEMORY.md, by the path of the file itself."""
    section = next(one for one in branch.note.sections if one.anchor == chunk.anchor)
    return ContextPart(
        workspace=workspace.id,
        anchor=_name_branch_anchor(branch, chunk.anchor),
        path=branch.path,
        start_line=chunk.span.start,
        end_line=chunk.span.end,
        heading=list(chunk.heading),
        reason=chunk.reason,
        **describe_meta(_describe_section(section, branch, config), config.kinds, now_s),
    )


def _describe_section(section: Section, branch: BranchMemory, config: Config) -> StoredSection:
    """Describe a section as if it were indexed, as it may be shown."""
    stated = {**asdict(section.meta), "extra": dict(section.meta.extra)}
    stored = StoredSection(
        anchor=section.anchor,
        heading=section.heading,
        level=section.level,
        span=section.span,
        day=None,
        is_day_of_name=False,
        mtime_ns=branch.modified_ns,
        **stated,
    )
    return redact_section(stored) if config.guard.is_masking else stored


def _redact(text: str, note: Note, start: int, end: int, config: Config) -> str:
    if not config.guard.is_masking:
        return text
    secrets = [one for one in note.secrets if one.span.start <= end and start <= one.span.end]
    is_partial = len(text.split("\n")) != end - start + 1
    if not secrets:
        return redact(text)
    held = ChunkSecrets(span=Span(start, end), is_partial=is_partial, secrets=secrets)
    return redact_chunk(text, held)
