"""Reads parts of notes, and lists notes and problems.

Positions come from the index, text from the disk as it is now. `read_place` says whether the two
still agree, so that the caller can sync the note and read again. Nothing here writes.
"""

from __future__ import annotations

import contextlib
import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from unicodedata import normalize

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import DEFAULT_KINDS, KindDefaults
from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.model import Problem, Span
from memsyncd.core.paths import NOTE_SUFFIXES, NotePath, parse_note_path
from memsyncd.core.search.query import EVERYTHING, Filters
from memsyncd.engine.checks import find_remedy
from memsyncd.engine.metadata import (
    NO_ACCESSES,
    NO_META,
    Valuation,
    advise_unknown_kind,
    describe_meta,
    find_order,
    make_valuation,
)
from memsyncd.engine.redaction import redact_notes
from memsyncd.engine.search import complete_filters
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound, make_reply_error
from memsyncd.files.read import ReadFile, read_note_file
from memsyncd.files.scope import Scope, is_within_folder
from memsyncd.operations.notes.declare import GetParams, Got, ListParams, NoteInfo, SectionInfo
from memsyncd.operations.status.declare import ProblemInfo
from memsyncd.store.lookup import (
    StoredNote,
    StoredSection,
    find_places_of_kinds,
    read_anchors,
    read_digest,
    read_problems,
    read_section,
    read_sections_of,
    stream_notes,
)
from memsyncd.store.pool import MEMO_LIMIT, Reader

READ_LIMIT_S = 2.0
NamingParams = TypeVar("NamingParams", bound=msgspec.Struct)
LINKS_LIMIT_S = 10.0
"""For reading and resolving all links of a workspace: 0.5 s for 30,000 notes."""

# --- parts of a note ----------------------------------------------------------------------------


def read_place(
    workspace: Workspace,
    params: GetParams,
    *,
    now_ns: int,
    kinds: Mapping[str, KindDefaults] = DEFAULT_KINDS,
) -> tuple[Got, bool]:
    """Read a section or lines; an end beyond the note's end is cut.

    The second value is False if the note has changed since it was indexed, which moves anchors.
    Raises BadRequest, PathRefused, NoteNotFound, and what `Workspace.acquire` raises.
    """
    _check_place(params)
    path, section, digest, counts = _find_place(workspace, params)
    if digest is None and not workspace.scope.is_note(path.text):
        more = "; to index more: memsyncd add . --include GLOB"
        is_other = path.name.lower().endswith(NOTE_SUFFIXES)
        raise NoteNotFound(
            f"{path.text} is not a note of this workspace",
            hint=_suggest_note(workspace, path.text)
            or f"list them with: memsyncd list --notes{more if is_other else ''}",
        )
    file = _read_file(workspace, path, now_ns)
    lines = decode_note(path.text, file.data).lines
    named = section if params.anchor is not None or params.start_line is not None else None
    span = _cut_span(params, path, named, max(1, len(lines)))
    # A note that is not indexed yet states nothing.
    meta = section or replace(NO_META, mtime_ns=file.record.stat.mtime_ns)
    got = Got(
        workspace=workspace.id,
        anchor=named.anchor if named else None,
        path=path.text,
        start_line=span.start,
        end_line=span.end,
        text="\n".join(lines[span.start - 1 : span.end]),
        digest=file.record.digest,
        heading=list(named.heading) if named else [],
        **describe_meta(meta, kinds, now_ns / 1e9),
        n_lines=max(1, len(lines)),
        n_links=counts[0],
        n_backlinks=counts[1],
    )
    return got, file.record.digest == digest


def name_from_root(scope: Scope, params: NamingParams, *, may_be_folder: bool) -> NamingParams:
    """Return the parameters with paths of the memory tool as paths from the root; without a path
    for the memory folder that is the root. Raises PathRefused, and BadRequest for a folder unless
    it may be one.
    """
    changes: dict[str, Any] = {}
    if path := getattr(params, "path", None):
        changes["path"] = _name_from_root(scope, path, "", may_be_folder=may_be_folder) or None
    if anchor := getattr(params, "anchor", None):
        changes["anchor"] = _name_anchor(scope, anchor)
    if anchors := getattr(params, "anchors", None):
        changes["anchors"] = [_name_anchor(scope, one) for one in anchors]
    return replace(params, **changes)


def _name_anchor(scope: Scope, anchor: str) -> str:
    path, mark, heading = anchor.partition("#")
    return _name_from_root(scope, path, f"{mark}{heading}", may_be_folder=False)


def _name_from_root(scope: Scope, path: str, end: str, *, may_be_folder: bool) -> str:
    if not path.startswith("/"):
        return f"{path}{end}"
    from memsyncd.core.editing.memory_tool import MEMORIES, parse_memory_path

    if not is_within_folder(path, MEMORIES):
        return f"{path}{end}"
    note = parse_memory_path(path, scope.memory_dir).note
    if note is None and may_be_folder:
        return scope.memory_dir
    if note is None:
        raise BadRequest("a folder is no note", hint="name a note in it, such as /memories/a.md")
    return f"{note.text}{end}"


def _check_place(params: GetParams) -> None:
    if (params.anchor is None) == (params.path is None):
        raise BadRequest(
            "name either an anchor or a path", hint='for example {"anchor": "MEMORY.md#setup"}'
        )
    start, end = params.start_line, params.end_line
    if start is not None and end is not None and end < start:
        raise BadRequest(f"lines {start} to {end} end before they begin", hint="swap the two")


def _find_place(
    workspace: Workspace, params: GetParams
) -> tuple[NotePath, StoredSection | None, str | None, tuple[int, int]]:
    """Look up the note, the section, the note's digest as indexed and the numbers of links, in one
    generation.
    """
    with workspace.acquire(READ_LIMIT_S) as reader:
        section = None
        if params.anchor is not None:
            text, section = find_stored_section(reader, params.anchor)
            path = parse_note_path(text)
        else:
            path = NotePath(find_spelling(reader, parse_note_path(params.path or "").text))
        digest = read_digest(reader, path.text)
        if section is None:
            sections = read_sections_of(reader, path.text)
            line = params.start_line or 1
            within = (one for one in sections if one.span.start <= line <= one.span.end)
            section = next(within, None)
        counts = _count_links(reader, path.text, params.anchor)
    return path, section, digest, counts


def find_stored_section(reader: Reader, anchor: str) -> tuple[str, StoredSection]:
    """Return a note's path and its section. Raises NoteNotFound with the nearest anchor."""
    note, mark, heading = anchor.rpartition("#")
    found = read_section(reader, f"{find_spelling(reader, note)}{mark}{heading}")
    if found is None:
        hint = suggest_anchor(anchor, read_anchors(reader, anchor.rpartition("#")[0]))
        raise NoteNotFound(f"no section {anchor}", hint=hint)
    return found


def require_place(workspace: Workspace, path: str, heading: str | None) -> None:
    """Raise NoteNotFound, with the most similar name, if the index has no such section, note or
    folder; not while there is no index.
    """
    if workspace.readers is None:
        return
    with workspace.acquire(READ_LIMIT_S) as reader:
        spelling = find_spelling(reader, path)
        # A path that is not there is looked for in the memory folder, too.
        stored = stream_notes(reader, path=spelling, filters=EVERYTHING, has_sections=False)
        is_stored = any(is_within_folder(note.path, spelling) for note in stored)
        if is_stored and heading:
            find_stored_section(reader, f"{path}#{heading}")
    if not is_stored:
        hint = _suggest_note(workspace, path) or "list notes with: memsyncd list --notes"
        raise NoteNotFound(f"there is no note at {path}", hint=hint)


def find_spelling(reader: Reader, path: str) -> str:
    """Return the path as the index has it: macOS stores accents decomposed, and people type them
    composed.
    """
    spellings = [path, *(normalize(form, path) for form in ("NFC", "NFD") if not path.isascii())]
    return next((text for text in spellings if read_digest(reader, text) is not None), path)


def _read_file(workspace: Workspace, path: NotePath, now_ns: int) -> ReadFile:
    outcome = read_note_file(workspace.scope, path, now_ns=now_ns)
    if isinstance(outcome, ReadFile):
        return outcome
    problem = outcome.problem
    raise NoteNotFound(
        f"{path.text} cannot be read: {problem.problem}"
        if problem
        else f"{path.text} is not there",
        hint=problem.hint
        if problem
        else _suggest_note(workspace, path.text) or "list notes with: memsyncd list --notes",
    )


def _suggest_note(workspace: Workspace, path: str) -> str:
    """The hint that names the note with this name or the most similar one; empty without one."""
    from memsyncd.store.links import StoredLinks

    with workspace.acquire(READ_LIMIT_S) as reader:
        names = StoredLinks(reader).names
        found = names.find("", path) or names.find_similar(path)
    return f"did you mean {redact(found)}?" if found and found != path else ""


def _cut_span(
    params: GetParams, path: NotePath, section: StoredSection | None, n_lines: int
) -> Span:
    if params.path is not None and (params.start_line or 1) > n_lines:
        raise BadRequest(f"{path.text} has {n_lines} lines", hint=f"ask for lines 1 to {n_lines}")
    whole = section.span if section is not None and params.anchor is not None else Span(1, n_lines)
    start = min(params.start_line or whole.start, n_lines)
    return Span(start, max(start, min(params.end_line or whole.end, n_lines)))


def suggest_anchor(anchor: str, anchors: list[str]) -> str:
    """Return the hint that names the most similar of these anchors."""
    note, _, slug = anchor.rpartition("#")  # the note is the same, and must not make them similar
    slugs = [one.rpartition("#")[2] for one in anchors]
    near = difflib.get_close_matches(slug, slugs, n=1, cutoff=0.4)
    hint = "list sections with: memsyncd list --sections"
    return f"did you mean {note}#{near[0]}?" if near else hint


# --- notes --------------------------------------------------------------------------------------


def list_notes(
    workspace: Workspace,
    config: Config,
    params: ListParams,
    *,
    now_s: float = 0.0,
    accesses: Mapping[str, int] = NO_ACCESSES,
    max_bytes: float = math.inf,
) -> list[NoteInfo]:
    """List notes with their sections, expired ones too.

    Raises TooLarge as soon as they take more than `max_bytes` as JSON: they are read and described
    one by one, and no more is in memory.
    """
    valuation = make_valuation(config, now_s, accesses)
    filters = _list_filters(params, config, now_s, accesses)
    order = find_order(params.sort, valuation)
    # Sections are read if they are shown, or if the order of the notes comes from them.
    has_sections = params.sections or order is not None
    listed: list[tuple[list[tuple[object, ...]], NoteInfo]] = []
    n_bytes = 0
    with (
        workspace.acquire(READ_LIMIT_S) as reader,
        contextlib.closing(
            stream_notes(reader, path=params.path, filters=filters, has_sections=has_sections)
        ) as found,
    ):
        for stored in redact_notes(reader, found, config, has_sections=params.sections):
            note = _make_note_info(stored, config.kinds, now_s)
            if params.explain:
                note.sections[:] = [_explain_section(one, valuation) for one in note.sections]
            if order is not None:
                note.sections.sort(key=order)
            listed.append(([order(one) for one in note.sections[:1]] if order else [], note))
            if not params.sections:
                note.sections.clear()
            n_bytes += len(_to_json(note)) + len(",")
            if n_bytes > max_bytes:
                raise make_reply_error(int(max_bytes))
    listed.sort(key=lambda one: (one[0], one[1].path))
    return [note for _, note in listed]


_to_json = msgspec.json.Encoder().encode


def name_absolutely(root: str, note: NoteInfo) -> NoteInfo:
    """Return a note with its path, and the anchors of its sections, from the root of the disk."""
    sections = [replace(one, anchor=f"{root}/{one.anchor}") for one in note.sections]
    return replace(note, path=f"{root}/{note.path}", sections=sections)


def _explain_section(one: SectionInfo, valuation: Valuation) -> SectionInfo:
    score = valuation.compute(one).score
    return replace(one, explain=valuation.explain(one), tier=valuation.find_tier(score))


def _list_filters(
    params: ListParams, config: Config, now_s: float, accesses: Mapping[str, int]
) -> Filters:
    """Return the filters of a list, which does not leave out expired sections."""
    given = complete_filters(params.filters, config, now_s, accesses)
    kinds = (params.kind,) if params.kind is not None else ()
    tags = (params.tag,) if params.tag is not None else ()
    own = Filters(kinds=kinds, tags=tags)
    joined = given.join(own) if not own.is_empty else given
    return replace(joined, includes_expired=True)


def _make_note_info(note: StoredNote, kinds: Mapping[str, KindDefaults], now_s: float) -> NoteInfo:
    return NoteInfo(
        path=note.path,
        title=note.title,
        digest=note.digest,
        size_bytes=note.size_bytes,
        modified_at=note.mtime_ns / 1e9,
        n_lines=note.n_lines,
        kind=note.kind,
        tags=list(note.tags),
        sections=[_make_section_info(one, kinds, now_s) for one in note.sections],
    )


def _make_section_info(
    section: StoredSection, kinds: Mapping[str, KindDefaults], now_s: float
) -> SectionInfo:
    return SectionInfo(
        anchor=section.anchor,
        heading=list(section.heading),
        level=section.level,
        start_line=section.span.start,
        end_line=section.span.end,
        **describe_meta(section, kinds, now_s),
    )


# --- links --------------------------------------------------------------------------------------


def _count_links(reader: Reader, path: str, anchor: str | None) -> tuple[int, int]:
    """Count the links from and to a note, or a section of it and those beneath."""
    from memsyncd.store.links import StoredLinks

    start = path if anchor is None else anchor
    # Ten thousand links to one note take 0.1 s.
    known: dict[str, tuple[int, int]] = reader.memo.setdefault("links", {})
    if start not in known:
        if len(known) >= MEMO_LIMIT:
            known.clear()
        links = StoredLinks(reader)
        n_out, n_in = (len(links.walk(start, direction=each)) for each in ("out", "in"))
        known[start] = n_out, n_in
    return known[start]


# --- problems -----------------------------------------------------------------------------------


def find_problems(
    workspace: Workspace, kinds: Mapping[str, KindDefaults] = DEFAULT_KINDS
) -> list[ProblemInfo]:
    """List the faults of the workspace (with an empty path), then the problems of folders and
    notes. A kind that is not in `kinds` is one problem, however many sections have it.
    """
    condition = workspace.condition
    faults = [
        Problem("", 0, code, text, find_remedy(code, workspace.entry.name))
        for code, text in (*sorted(condition.faults.items()), *sorted(condition.notices.items()))
    ]
    problems = [*condition.scan_problems]
    if workspace.readers is not None:
        with workspace.acquire(READ_LIMIT_S) as reader:
            problems += [*read_problems(reader), *_find_unknown_kinds(reader, kinds)]
    problems.sort(key=lambda one: (one.path, one.line, one.code))
    return [ProblemInfo(workspace=workspace.id, **asdict(one)) for one in (*faults, *problems)]


def _find_unknown_kinds(reader: Reader, kinds: Mapping[str, KindDefaults]) -> Iterator[Problem]:
    for kind, n_sections, path in find_places_of_kinds(reader):
        if kind not in kinds:
            what = f"kind `{redact(kind)}` is not configured; sections with it: {n_sections}"
            yield Problem(path, 0, "unknown_kind", what, advise_unknown_kind(kinds, kind))
