"""What may be written to an index? A closed union: every write is one of these, and the writer matches them all."""

from __future__ import annotations

from dataclasses import dataclass

from memsyncd.core.changes.diff import FileStat
from memsyncd.core.model import Note


@dataclass(frozen=True, slots=True, kw_only=True)
class PutNote:
    """The note is new or its bytes changed: only what differs from the index is written.

    `moved_from` names the path that the note had before; its rows are taken over and only what shows the path is rewritten.
    """

    note: Note
    stat: FileStat
    read_at_ns: int
    moved_from: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchNote:
    """The bytes are the same, what stat says of them is not."""

    path: str
    stat: FileStat
    read_at_ns: int


@dataclass(frozen=True, slots=True)
class DropNote:
    """The note is gone."""

    path: str


Update = PutNote | TouchNote | DropNote


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one transaction did. `paths` are the notes whose content, place or existence changed."""

    generation: int
    paths: tuple[str, ...] = ()
    upserted: int = 0
    deleted: int = 0
    kept: int = 0
    moved: int = 0
    """Chunks whose lines or path changed and whose text did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much an index holds; `problems` are those of its notes."""

    files: int = 0
    sections: int = 0
    chunks: int = 0
    problems: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            files=self.files + other.files,
            sections=self.sections + other.sections,
            chunks=self.chunks + other.chunks,
            problems=self.problems + other.problems,
        )

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            files=self.files - other.files,
            sections=self.sections - other.sections,
            chunks=self.chunks - other.chunks,
            problems=self.problems - other.problems,
        )
