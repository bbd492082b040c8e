"""Offer the MEMORY.md of a branch to the contexts of its linked git worktree.

A worktree shares the memory of the main one. Where its branch has another MEMORY.md than the one
that is indexed, a context shows the branch's instead. It is small and read for each context, so it
is not indexed; for a query its chunks are ordered by the words that they hold.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.guard.secrets import redact
from memsyncd.core.model import Note, Section, Span
from memsyncd.core.notepath import MEMORY_FILE, parse_note_path
from memsyncd.core.search.context import ContextChunk
from memsyncd.engine.metadata import NO_META, describe_meta
from memsyncd.engine.redaction import redact_chunk
from memsyncd.engine.workspace import Workspace
from memsyncd.files.read import ReadFile, read_note_file
from memsyncd.files.scope import parse_scope
from memsyncd.protocol.search import ContextPart
from memsyncd.store.lookup import read_digest
from memsyncd.store.metadata import StoredMeta
from memsyncd.store.pool import Reader
from memsyncd.store.search import ChunkSecrets

BRANCH_LABEL = "this branch"
ARCHIVED = "archived"


class BranchMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The MEMORY.md of a worktree. `path` is its absolute path."""

    path: str
    note: Note
    modified_ns: int


def read_branch_memory(folder: str, config: Config) -> BranchMemory | None:
    """Read the MEMORY.md in a folder of a worktree; None if there is none. Blocks on its disk."""
    # No start of the daemon needs the parser.
    from memsyncd.core.markdown.parse import parse_note

    scope = parse_scope(folder, max_file_bytes=config.sync.max_file_bytes)
    read = read_note_file(scope, parse_note_path(MEMORY_FILE), now_ns=time.time_ns())
    if not isinstance(read, ReadFile):
        return None
    note = parse_note(read.path, read.data, config.chunking, config.guard)
    path = os.path.join(folder, MEMORY_FILE)
    return BranchMemory(path=path, note=note, modified_ns=read.record.stat.mtime_ns)


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
    sections = {section.anchor: section for section in branch.note.sections}
    shown = [
        ContextChunk(
            path=MEMORY_FILE,
            anchor=chunk.anchor,
            heading=_redact_all(sections[chunk.anchor].heading, config),
            kind=sections[chunk.anchor].meta.kind,
            span=chunk.span,
            text=_redact(chunk.text, branch.note, chunk.start, chunk.end, config),
            reason=reason,
        )
        for chunk in branch.note.chunks
        if sections[chunk.anchor].meta.status != ARCHIVED
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
        anchor=f"{branch.path}{chunk.anchor.removeprefix(MEMORY_FILE)}",
        path=branch.path,
        start_line=chunk.span.start,
        end_line=chunk.span.end,
        heading=list(chunk.heading),
        reason=chunk.reason,
        **describe_meta(_make_meta(section, branch, config), config.kinds, now_s),
    )


def _make_meta(section: Section, branch: BranchMemory, config: Config) -> StoredMeta:
    stated = asdict(section.meta)
    shown = {name: _redact_value(value, config) for name, value in stated.items()}
    extra = {key: _redact_value(text, config) for key, text in section.meta.extra}
    return replace(NO_META, **{**shown, "extra": extra}, mtime_ns=branch.modified_ns)


def _redact_value(value: Any, config: Config) -> Any:
    if isinstance(value, tuple):
        return tuple(_redact_value(one, config) for one in value)
    return redact(value) if isinstance(value, str) and config.guard.is_masking else value


def _redact_all(names: Sequence[str], config: Config) -> tuple[str, ...]:
    return tuple(redact(name) if config.guard.is_masking else name for name in names)


def _redact(text: str, note: Note, start: int, end: int, config: Config) -> str:
    if not config.guard.is_masking:
        return text
    secrets = [one for one in note.secrets if one.span.start <= end and start <= one.span.end]
    is_partial = len(text.split("\n")) != end - start + 1
    if not secrets:
        return redact(text)
    held = ChunkSecrets(span=Span(start, end), is_partial=is_partial, secrets=secrets)
    return redact_chunk(text, held)
