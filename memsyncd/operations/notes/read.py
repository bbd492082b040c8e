"""Read parts of notes, render notes, and list them.

Positions come from the index, text from the disk as it is now. `read_place` says whether the two
still agree, so that its caller can sync the note and read again. Nothing here writes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import DEFAULT_KINDS, KindDefaults
from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.model import WORTH_ORDERS, Span
from memsyncd.core.paths import NOTE_SUFFIXES, NotePath, parse_note_path
from memsyncd.core.search.filters import Filters
from memsyncd.engine.browse import (
    READ_LIMIT_S,
    advise_missing,
    find_spelling,
    find_stored_section,
    suggest_note,
)
from memsyncd.engine.metadata import (
    NO_ACCESSES,
    NO_META,
    Valuation,
    bind_sort_keys,
    describe_meta,
    find_order,
    make_valuation,
)
from memsyncd.engine.plan import RunOptions, add_accesses, complete_filters
from memsyncd.engine.redaction import must_redact, redact_notes
from memsyncd.engine.relations import find_newest
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound, TooLarge, make_reply_error
from memsyncd.files.read import ReadFile, read_note_file
from memsyncd.operations.call import Call
from memsyncd.operations.notes.declare import (
    FolderInfo,
    FolderListing,
    FolderParams,
    GetParams,
    Got,
    Listing,
    ListParams,
    NoteInfo,
    NoteNameInfo,
    Rendered,
    RenderedTexts,
    RenderParams,
    RenderTextsParams,
    SectionInfo,
)
from memsyncd.operations.pages import NotePlace, decode_cursor, encode_cursor
from memsyncd.store.folders import find_by_name, list_entries, read_names
from memsyncd.store.lookup import StoredNote, stream_notes
from memsyncd.store.pages import OrderName, PageOrder, find_page
from memsyncd.store.pool import MEMO_LIMIT, Reader
from memsyncd.store.sections import (
    StoredSection,
    read_digest,
    read_sections_of,
)


async def read_part(call: Call, params: GetParams) -> Got:
    """Read a section or lines. If the index has another text of the note, it is synced first."""
    workspace = await call.open()
    now_ns = int(call.now_s * 1e9)
    read = partial(read_place, workspace, params, now_ns=now_ns, kinds=call.config.kinds)
    place: tuple[Got, bool] | None = None
    with contextlib.suppress(NoteNotFound):
        place = await call.read(read, on_disk=True)
    if place is None:
        from memsyncd.engine.places import resolve_names

        resolve = partial(resolve_names, workspace, params, ("anchor", "path"))
        named = await call.read(resolve)
        if named != params:
            return await read_part(call, named)
    if place is None or not place[1]:
        # The note may have been saved a moment ago; its anchors and lines are known once it is
        # indexed.
        await call.scan()
        place = await call.read(read, on_disk=True)
    got = place[0]
    call.note_accesses([got.anchor or got.path], params)
    return got


async def render(call: Call, params: RenderParams) -> Rendered:
    """Render the lines around a line, or all of a short note, as HTML."""
    # A daemon whose panel nobody opens never renders.
    from memsyncd.core.markdown.render import find_window, render_html

    place = GetParams(path=params.path, workspace=params.workspace, track_access=False)
    got = await read_part(call, place)
    lines = got.text.split("\n")
    first, last = find_window(lines, params.line)
    html = await call.read(lambda: render_html(lines[first - 1 : last], first))
    return Rendered(
        workspace=got.workspace,
        path=got.path,
        digest=got.digest,
        n_lines=got.n_lines,
        start_line=first,
        end_line=min(last, got.n_lines),
        html=html,
    )


async def render_texts(call: Call, params: RenderTextsParams) -> RenderedTexts:
    """Render each text as HTML."""
    from memsyncd.core.markdown.render import render_html

    workspace = await call.open()
    htmls = await call.read(lambda: [render_html(text.split("\n"), 1) for text in params.texts])
    return RenderedTexts(workspace=workspace.id, htmls=htmls)


async def list_all(call: Call, params: ListParams) -> Listing:
    """List notes; in a linked worktree also the notes that it shares, by absolute paths."""
    workspace, shared = await call.open(), call.shared
    owners = [] if shared is None else [await call.open(shared.owner)]
    listed = [workspace, *owners]
    read_freshness = call.watch_freshness(*owners)

    def read(place: NotePlace, limit: int, max_bytes: int) -> NotePage:
        options = add_accesses(listed[place.part], params, RunOptions(now_s=place.now_s))
        return list_notes(
            listed[place.part],
            call.config,
            replace(params, limit=limit),
            now_s=place.now_s,
            accesses=options.accesses,
            max_bytes=max_bytes,
            after=place,
        )

    place = decode_cursor(params.cursor) or NotePlace("")
    place = replace(place, now_s=place.now_s or call.now_s, part=min(place.part, len(listed) - 1))
    notes: list[NoteInfo] = []
    cursor = None
    max_bytes = call.max_reply_bytes // 2
    while len(notes) < params.limit:
        limit = params.limit - len(notes)
        try:
            page = await call.read(partial(read, place, limit, max_bytes))
        except TooLarge:
            if not notes:
                raise
            break
        max_bytes -= page.n_bytes
        if place.part and shared is not None:
            root = listed[place.part].entry.root
            notes += [name_absolutely(root, each) for each in page.notes if shared.has(each.path)]
        else:
            notes += page.notes
        if page.after is None and place.part + 1 == len(listed):
            cursor = None
            break
        if page.after is None:
            place = NotePlace("", now_s=place.now_s, part=place.part + 1)
        else:
            place = replace(page.after, now_s=place.now_s, part=place.part)
        cursor = encode_cursor(place)
        if page.after is not None and len(page.notes) < limit:
            break
    return Listing(workspace=workspace.id, notes=notes, cursor=cursor, freshness=read_freshness())


# --- folders --------------------------------------------------------------------------------------


async def list_folder(call: Call, params: FolderParams) -> FolderListing:
    """List the folders and notes right in a folder, or the notes with words in their names."""
    workspace = await call.open()
    return await call.read(partial(read_folder, workspace, call.config, params))


def read_folder(workspace: Workspace, config: Config, params: FolderParams) -> FolderListing:
    """Read one page. Raises BadRequest for a cursor of another method, and the errors of
    `Workspace.acquire`.
    """
    place = decode_cursor(params.cursor)
    after = place.path if place is not None else ""
    words, limit = params.words.split(), params.limit
    folders: list[FolderInfo] = []
    with workspace.acquire(READ_LIMIT_S) as reader:
        if words:
            notes = find_by_name(reader, words, after=after, limit=limit + 1)
            last = notes[limit - 1].path if len(notes) > limit else None
        else:
            folder = params.folder.strip("/")
            entries = list_entries(reader, folder, after=after, limit=limit + 1)
            last = entries[limit - 1].path if len(entries) > limit else None
            paths = [entry.path for entry in entries[:limit] if not entry.is_folder]
            notes = read_names(reader, paths)
            folders += [
                FolderInfo(path=entry.path, n_notes=entry.n_notes)
                for entry in entries[:limit]
                if entry.is_folder
            ]
        show = redact if must_redact(reader, config) else str
    return FolderListing(
        workspace=workspace.id,
        folders=folders,
        notes=[
            NoteNameInfo(
                path=note.path,
                title=show(note.title),
                kind=note.kind and show(note.kind),
                tags=[show(tag) for tag in note.tags],
            )
            for note in notes[:limit]
        ],
        cursor=encode_cursor(NotePlace(last)) if last is not None else None,
    )


# --- parts of a note ------------------------------------------------------------------------------


def read_place(
    workspace: Workspace,
    params: GetParams,
    *,
    now_ns: int,
    kinds: Mapping[str, KindDefaults] = DEFAULT_KINDS,
) -> tuple[Got, bool]:
    """Read a section or lines; an end beyond the note's end is cut.

    The second value is False if the note has changed since it was indexed, which moves anchors.
    Raises BadRequest, PathRefused, NoteNotFound, and the errors of `Workspace.acquire`.
    """
    _check_place(params)
    path, section, digest, counts, newest = _find_place(workspace, params)
    if digest is None and not workspace.scope.is_note(path.text):
        more = "; to index more: memsyncd add . --include GLOB"
        is_other = path.name.lower().endswith(NOTE_SUFFIXES)
        raise NoteNotFound(
            f"{path.text} is not a note of this workspace",
            hint=suggest_note(workspace, path.text)
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
        superseded_by=newest if named else None,
    )
    return got, file.record.digest == digest


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
) -> tuple[NotePath, StoredSection | None, str | None, tuple[int, int], str | None]:
    """Look up the note, the section, the note's digest as indexed, the numbers of links, and the
    memory that supersedes the section, in one generation.
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
            within = (each for each in sections if each.span.start <= line <= each.span.end)
            section = next(within, None)
        counts = _count_links(reader, path.text, params.anchor)
        newest = find_newest(reader, [section.anchor] if section is not None else [])
    return path, section, digest, counts, next(iter(newest.values()), None)


def _read_file(workspace: Workspace, path: NotePath, now_ns: int) -> ReadFile:
    outcome = read_note_file(workspace.scope, path, now_ns=now_ns)
    if isinstance(outcome, ReadFile):
        return outcome
    problem = outcome.problem
    raise NoteNotFound(
        f"{path.text} cannot be read: {problem.problem}"
        if problem
        else f"{path.text} is not there",
        hint=problem.hint if problem else advise_missing(workspace, path.text),
    )


def _cut_span(
    params: GetParams, path: NotePath, section: StoredSection | None, n_lines: int
) -> Span:
    if params.path is not None and (params.start_line or 1) > n_lines:
        raise BadRequest(f"{path.text} has {n_lines} lines", hint=f"ask for lines 1 to {n_lines}")
    whole = section.span if section is not None and params.anchor is not None else Span(1, n_lines)
    start = min(params.start_line or whole.start, n_lines)
    return Span(start, max(start, min(params.end_line or whole.end, n_lines)))


_ORDER_NAMES: Mapping[str, OrderName] = {
    "importance": "importance",
    "priority": "priority",
    "recency": "recency",
    **dict.fromkeys(WORTH_ORDERS, "worth"),
}


class NotePage(NamedTuple):
    """Some notes of a list, their size as JSON, and the place of the last one if more follow."""

    notes: list[NoteInfo]
    n_bytes: int
    after: NotePlace | None


def list_notes(
    workspace: Workspace,
    config: Config,
    params: ListParams,
    *,
    now_s: float = 0.0,
    accesses: Mapping[str, int] = NO_ACCESSES,
    max_bytes: float = math.inf,
    after: NotePlace | None = None,
) -> NotePage:
    """List notes with their sections, also expired sections; a page of at most `params.limit` notes
    that follow the place `after`.

    A page ends before its notes take more than `max_bytes` as JSON: notes are described one by one,
    so that no more is in memory. Raises TooLarge if its first note takes more.
    """
    valuation = make_valuation(config, now_s, accesses)
    filters = _list_filters(params, config, now_s, accesses)
    order = find_order(params.sort, valuation)
    page_order = PageOrder()
    if order is not None:
        page_order = PageOrder(_ORDER_NAMES[params.sort], bind_sort_keys(valuation))
    if after is not None and after.path:
        page_order = page_order._replace(after=(after.key, after.path))
    notes: list[NoteInfo] = []
    n_bytes = 0
    with workspace.acquire(READ_LIMIT_S) as reader:
        places = find_page(reader, filters, page_order, path=params.path, limit=params.limit + 1)
        paths = [path for path, _ in places[: params.limit]]
        has_sections = params.sections or params.explain
        listed = _stream_in_order(reader, paths, filters, has_sections=has_sections)
        for stored in redact_notes(reader, listed, config, has_sections=has_sections):
            shown = stored if has_sections else replace(stored, sections=())
            note = _make_note_info(shown, config.kinds, now_s)
            if params.explain:
                note.sections[:] = [
                    _explain_section(section, valuation) for section in note.sections
                ]
                note = replace(note, worth=_find_best(note.sections))
            if not params.sections:
                note.sections.clear()
            elif order is not None:
                note.sections.sort(key=order)
            n_of_note = len(_to_json(note)) + len(",")
            if n_bytes + n_of_note > max_bytes:
                if not notes:
                    raise make_reply_error(int(max_bytes))
                break
            n_bytes += n_of_note
            notes.append(note)
    if not notes or notes[-1].path == places[-1][0]:
        return NotePage(notes, n_bytes, None)
    path = notes[-1].path
    return NotePage(notes, n_bytes, NotePlace(path, dict(places)[path]))


# So many notes are in memory at once.
PORTION = 20


def _stream_in_order(
    reader: Reader, paths: Sequence[str], filters: Filters, *, has_sections: bool
) -> Iterator[StoredNote]:
    """Yield the notes at these paths in their order."""
    for at in range(0, len(paths), PORTION):
        part = paths[at : at + PORTION]
        stored = stream_notes(reader, among=part, filters=filters, has_sections=has_sections)
        notes = {note.path: note for note in stored}
        yield from (notes[path] for path in part if path in notes)


_to_json = msgspec.json.Encoder().encode


def name_absolutely(root: str, note: NoteInfo) -> NoteInfo:
    """Return a note with its path, and the anchors of its sections, from the root of the disk."""
    sections = [replace(section, anchor=f"{root}/{section.anchor}") for section in note.sections]
    return replace(note, path=f"{root}/{note.path}", sections=sections)


def _find_best(sections: Sequence[SectionInfo]) -> float | None:
    return max((each.worth for each in sections if each.worth is not None), default=None)


def _explain_section(section: SectionInfo, valuation: Valuation) -> SectionInfo:
    worth = valuation.compute(section).value
    return replace(
        section,
        explain=valuation.explain(section),
        worth=round(worth, 4),
        tier=valuation.find_tier(worth),
    )


def _list_filters(
    params: ListParams, config: Config, now_s: float, accesses: Mapping[str, int]
) -> Filters:
    """Return the filters of a list, which does not leave out expired sections."""
    requested = complete_filters(params.filters, config, now_s, accesses)
    kinds = (params.kind,) if params.kind is not None else ()
    tags = (params.tag,) if params.tag is not None else ()
    own = Filters(kinds=kinds, tags=tags)
    joined = requested.join(own) if not own.is_empty else requested
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
        sections=[_make_section_info(section, kinds, now_s) for section in note.sections],
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


def _count_links(reader: Reader, path: str, anchor: str | None) -> tuple[int, int]:
    """Count the links from and to a note, or a section of it with its subsections."""
    from memsyncd.store.links import StoredLinks

    start = path if anchor is None else anchor
    # Ten thousand links to one note take 0.1 s.
    remembered: dict[str, tuple[int, int]] = reader.memo.setdefault("links", {})
    if start not in remembered:
        if len(remembered) >= MEMO_LIMIT:
            remembered.clear()
        links = StoredLinks(reader)
        n_out, n_in = (len(links.walk(start, direction=each)) for each in ("out", "in"))
        remembered[start] = n_out, n_in
    return remembered[start]
