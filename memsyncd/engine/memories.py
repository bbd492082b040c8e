"""Find memories in notes as indexed, and read their text from the disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.kinds import KindDefaults, find_kind
from memsyncd.core.editing.sections import find_sections_bytes
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.memories import find_end, split_memories
from memsyncd.core.paths import NotePath
from memsyncd.core.search.filters import Filters
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NoteNotFound
from memsyncd.files.read import read_text_file
from memsyncd.store.lookup import (
    find_first_places,
    find_named_places,
    find_passing,
    stream_sections,
)
from memsyncd.store.pool import Reader
from memsyncd.store.sections import (
    MemoryLines,
    OutlinedNote,
    OutlinedSection,
    read_memories_of,
)

PLAN_LIMIT_S = 10.0


class Memory(msgspec.Struct, frozen=True):
    """A section with the sections beneath it, in the note with this digest and this generation as
    indexed.
    """

    path: str
    digest: str
    generation: int
    sections: tuple[OutlinedSection, ...]
    is_whole: bool = False
    """All of the note."""

    @property
    def head(self) -> OutlinedSection:
        return self.sections[0]


def list_memories(notes: Iterable[OutlinedNote]) -> Iterator[Memory]:
    """Yield the memories of notes."""
    for note in notes:
        for start, end in split_memories(note.sections):
            yield Memory(note.path, note.digest, note.generation, note.sections[start:end])


def list_named(notes: Iterable[OutlinedNote], anchors: Iterable[str]) -> Iterator[Memory]:
    """Yield the named sections, each with all beneath it. Raises NoteNotFound for a section
    that is missing.
    """
    named = set(anchors)
    for note in notes:
        positions = [at for at, section in enumerate(note.sections) if section.anchor in named]
        done = 0
        for at in positions:
            if at >= done:
                done = find_end(note.sections, at)
                yield Memory(note.path, note.digest, note.generation, note.sections[at:done])
        named -= {note.sections[at].anchor for at in positions}
    if named:
        hint = "list sections with: memsyncd list --sections"
        raise NoteNotFound(f"no section {min(named)}", hint=hint)


class _Anchor(NamedTuple):
    anchor: str


def find_anchors(workspace: Workspace, filters: Filters, *, path: str | None = None) -> set[str]:
    """Return the anchors of the sections that pass filters."""
    with (
        workspace.acquire(PLAN_LIMIT_S) as reader,
        stream_sections(reader, _Anchor, filters=filters, path=path) as sections,
    ):
        return {section.anchor for section in sections}


def read_first_memories(
    reader: Reader,
    filters: Filters,
    kinds: Mapping[str, KindDefaults],
    *,
    limit: int,
    accessed: Sequence[str] = (),
) -> list[MemoryLines]:
    """Return the memories of the sections that pass the filters, each with all beneath it. Of more
    than `limit` sections, these are the most important and latest ones, and the `accessed` ones.
    """
    importances = {name: kind.importance for name, kind in kinds.items()}
    importances[""] = find_kind({}, None).importance
    places, are_all = find_first_places(reader, filters, importances, limit=limit)
    if are_all:
        return read_memories_of(reader, (place.section for place in places))
    named = {*places, *find_named_places(reader, filters, accessed)}
    # A section beneath another one that passes belongs to its memory.
    above = {place for each in named for place in each.list_above()}
    sections = {place.section for place in named}
    passing = {place.section for place in find_passing(reader, filters, above)}
    memories = read_memories_of(reader, sections | passing)
    return [memory for memory in memories if memory.section in sections]


def find_paths(anchors: Iterable[str] | None) -> set[str] | None:
    """Return the paths of the notes of sections; None, which stands for all, for None."""
    return None if anchors is None else {anchor.rpartition("#")[0] for anchor in anchors}


def read_memory(workspace: Workspace, memory: Memory) -> str | None:
    """Read the text of a memory from the disk as it is now; None if it is not there any more."""
    path = memory.path
    file = read_text_file(workspace.scope, NotePath(path))
    if file is None:
        return None
    if digest_bytes(file.data) == memory.digest:
        lines = decode_note(path, file.data).lines
        return "\n".join(lines[memory.head.start_line - 1 : memory.sections[-1].end_line])
    places = find_sections_bytes(path, file.data)
    spans = [places[section.anchor] for section in memory.sections if section.anchor in places]
    if not spans:
        return None
    return "\n".join(decode_note(path, file.data[spans[0][0] : spans[-1][1]]).lines)
