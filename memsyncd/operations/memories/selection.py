"""Finds the memories that an operation is about, the links to them, and describes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.metadata import read_section_meta
from memsyncd.core.markdown.links import Mention, make_key
from memsyncd.core.markdown.sections import RawSection
from memsyncd.core.model import ARCHIVED, Section
from memsyncd.core.upkeep import archive_sections
from memsyncd.engine.accesses import count_accesses
from memsyncd.engine.additions import choose_note
from memsyncd.engine.browse import LIST_NOTES
from memsyncd.engine.edit import Delete, Put
from memsyncd.engine.memories import PLAN_LIMIT_S, find_anchors, find_paths, list_memories
from memsyncd.engine.places import find_named_place
from memsyncd.engine.plan import complete_filters
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, Conflict, EditRefused, NoteNotFound
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.operations.memories.declare import MemoryItem, SelectParams
from memsyncd.operations.sections import Filters
from memsyncd.store.links import StoredLinks
from memsyncd.store.sections import read_digest, read_outlines

NO_FILTERS = Filters()
WAY_OUT: Final = "split the note"

# --- the memories of a request ------------------------------------------------------------------


class Selected(NamedTuple):
    """The memories of a note: their anchors, None for the note itself, and the digest of the
    indexed note if lines or filters selected them.
    """

    anchors: tuple[str | None, ...]
    digest: str | None


def select_memories(
    workspace: Workspace,
    config: Config,
    params: SelectParams,
    now_s: float,
    *,
    is_removal: bool = False,
) -> dict[str, Selected]:
    """Return the memories that are named, or that pass the filters, by note. For a removal, a path
    stands for no note of this name in another folder.

    Raises BadRequest without names and filters, or with both; NoteNotFound for an unknown name.
    """
    if params.anchors and params.filters != NO_FILTERS:
        hint = "leave out the names, or the filters"
        raise BadRequest("name either memories or filters", hint=hint)
    if params.anchors:
        return find_named_memories(workspace, params.anchors, is_removal=is_removal)
    if params.filters == NO_FILTERS:
        hint = "name an anchor, lines, a note or a title; or filters such as a task"
        raise BadRequest("no memory is named", hint=hint)
    filters = complete_filters(params.filters, config, now_s, count_accesses(workspace))
    passing = find_anchors(workspace, filters)
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        notes = read_outlines(reader, find_paths(passing) or ())
    selected: dict[str, Selected] = {}
    for memory in list_memories(notes):
        if memory.head.anchor in passing:
            path = memory.path
            before = selected.get(path, Selected((), memory.digest))
            selected[path] = before._replace(anchors=(*before.anchors, memory.head.anchor))
    return selected


def find_named_memories(
    workspace: Workspace, names: Sequence[str], *, is_removal: bool = False
) -> dict[str, Selected]:
    """Return the memories with these names, by note. Raises NoteNotFound, BadRequest."""
    selected: dict[str, Selected] = {}
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        for name in names:
            place = find_named_place(reader, workspace.scope, name, is_removal=is_removal)
            # The text above the first heading stands for the note itself.
            is_top = place.anchor == f"{place.path}#"
            anchor = None if is_top else place.anchor
            before = selected.get(place.path, Selected((), None))
            digest = read_digest(reader, place.path) if place.is_by_lines else before.digest
            anchors = tuple(dict.fromkeys((*before.anchors, anchor)))
            selected[place.path] = Selected(anchors, digest)
    return selected


def read_selected(workspace: Workspace, config: Config, path: str, selected: Selected) -> TextFile:
    """Read a note that is to be changed. Raises PathRefused if it must not be changed, Conflict if
    its lines are not as indexed, NoteNotFound if it is gone.
    """
    note = choose_note(workspace.scope, config, note=f"./{path}")
    file = read_text_file(workspace.scope, note)
    if file is None:
        raise NoteNotFound(f"{path} is not there", hint=LIST_NOTES)
    if selected.digest is not None and file.digest != selected.digest:
        raise Conflict(f"{path} was saved a moment ago", hint="try again once it is indexed")
    return file


def archive_memory(path: str, data: bytes, memory: Sequence[RawSection], hint: str = "") -> bytes:
    """Archive the sections of a memory that are not archived yet. Raises EditRefused with the hint
    if a section cannot be archived.
    """
    own = (section.anchor for section in memory)
    left = [each for each in own if read_section_meta(path, data, each).status != ARCHIVED]
    archived, refused = archive_sections(path, data, left)
    for name, reason in refused.items():
        raise EditRefused(f"{name}: {reason}", hint=hint)
    return archived


# --- links ------------------------------------------------------------------------------------


def resolve_mention(links: StoredLinks, source: str, mention: Mention) -> str | None:
    """Return the anchor or path to which a link in the note `source` leads."""
    return links.resolver.resolve(source, mention.target, mention.heading, mention.kind)


def identify_place(links: StoredLinks, source: str, to: str) -> str:
    """Return the anchor or path that `to` names, else its key."""
    target, _, heading = to.partition("#")
    return links.resolver.resolve(source, target, heading) or make_key(to)


# --- descriptions -----------------------------------------------------------------------------


def describe_memory(path: str, data: bytes, section: Section | None, n_lines: int) -> MemoryItem:
    """Describe a section of a note, or the note itself."""
    return MemoryItem(
        anchor=section.anchor if section else path,
        path=path,
        start_line=section.start if section else 1,
        end_line=section.end if section else max(1, n_lines),
        heading=list(section.heading) if section else [],
        kind=section.meta.kind if section else None,
        digest=digest_bytes(data),
    )


def digest_changes(changes: Sequence[Put | Delete]) -> str:
    """Return a digest of all changed notes, with their present and their new texts; a deleted note
    has no new text.
    """
    notes = [
        (change.path.text, change.was.digest if change.was else "", digest_bytes(change.data))
        if isinstance(change, Put)
        else (change.path.text, *(file.digest for file in change.was.values()))
        for change in changes
    ]
    return digest_bytes(json.dumps(notes).encode())
