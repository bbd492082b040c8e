"""What notes and sections are there, and what is odd about them? Reading index.db for lists, single sections and problems."""

from __future__ import annotations

import json
from dataclasses import dataclass

from memsyncd.core.model import Problem, Span
from memsyncd.store.filters import find_files
from memsyncd.store.readers import Reader

_FILES = "SELECT id, path, title, digest, size, mtime_ns, lines, kind, tags FROM files"
_SECTIONS = (
    "SELECT s.file, s.anchor, s.heading, s.level, s.start_line, s.end_line, s.kind, s.importance, s.status,"
    " (SELECT group_concat(tag, char(31) ORDER BY tag) FROM tags WHERE section = s.id) FROM sections s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSection:
    """A section as indexed."""

    anchor: str
    heading: tuple[str, ...]
    level: int
    span: Span
    kind: str | None
    importance: float | None
    status: str | None
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNote:
    """A note as indexed, with those of its sections that were asked for."""

    path: str
    title: str
    digest: str
    size_bytes: int
    mtime_ns: int
    n_lines: int
    kind: str | None
    tags: tuple[str, ...]
    sections: tuple[StoredSection, ...]


def read_notes(reader: Reader, *, path: str | None, kind: str | None, tag: str | None) -> list[StoredNote]:
    """Notes in order of path; `path` is a path, a folder or a glob; with `kind` or `tag` only sections that have it."""
    where = "" if path is None else " WHERE id IN (SELECT value FROM json_each(?))"
    bindings = () if path is None else (json.dumps(find_files(reader, [path])),)
    sections = _read_sections(reader, kind, tag)
    is_filtered = kind is not None or tag is not None
    notes = []
    for row in reader.rows(f"{_FILES}{where} ORDER BY path", bindings):
        shown = sections.get(row[0], ())
        if shown or not is_filtered:
            notes.append(_note(row, tuple(shown)))
    return notes


def read_section(reader: Reader, anchor: str) -> tuple[str, StoredSection] | None:
    """The path of the note and the section that has this anchor, if there is one."""
    rows = reader.rows(f"{_SECTIONS} WHERE s.anchor = ?", (anchor,))
    if not rows:
        return None
    path = reader.rows("SELECT path FROM files WHERE id = ?", (rows[0][0],))[0][0]
    return str(path), _section(rows[0])


def read_sections_of(reader: Reader, path: str) -> list[StoredSection]:
    """The sections of one note in order of lines, none if it is not indexed."""
    rows = reader.rows(f"{_SECTIONS} WHERE s.file = (SELECT id FROM files WHERE path = ?) ORDER BY s.start_line", (path,))
    return [_section(row) for row in rows]


def read_digest(reader: Reader, path: str) -> str | None:
    """The digest of a note as indexed."""
    rows = reader.rows("SELECT digest FROM files WHERE path = ?", (path,))
    return str(rows[0][0]) if rows else None


def find_near_anchors(reader: Reader, path: str) -> list[str]:
    """Anchors of a note, to suggest one."""
    return [section.anchor for section in read_sections_of(reader, path)]


def read_problems(reader: Reader) -> list[Problem]:
    """What is odd about the notes themselves, in order of path and line."""
    rows = reader.rows(
        "SELECT f.path, p.line, p.code, p.problem, p.hint FROM problems p JOIN files f ON f.id = p.file ORDER BY f.path, p.line"
    )
    return [Problem(path=row[0], line=row[1], code=row[2], problem=row[3], hint=row[4]) for row in rows]


def _read_sections(reader: Reader, kind: str | None, tag: str | None) -> dict[int, list[StoredSection]]:
    conditions, bindings = ["1"], []
    if kind is not None:
        conditions.append("s.kind = ?")
        bindings.append(kind.lower())
    if tag is not None:
        conditions.append("s.id IN (SELECT section FROM tags WHERE tag = ? COLLATE NOCASE)")
        bindings.append(tag.removeprefix("#"))
    found: dict[int, list[StoredSection]] = {}
    statement = f"{_SECTIONS} WHERE {' AND '.join(conditions)} ORDER BY s.file, s.start_line"
    for row in reader.rows(statement, tuple(bindings)):
        found.setdefault(row[0], []).append(_section(row))
    return found


def _section(row: tuple[object, ...]) -> StoredSection:
    _, anchor, heading, level, start, end, kind, importance, status, tags = row
    return StoredSection(
        anchor=str(anchor),
        heading=tuple(json.loads(str(heading))),
        level=int(str(level)),
        span=Span(int(str(start)), int(str(end))),
        kind=None if kind is None else str(kind),
        importance=None if importance is None else float(str(importance)),
        status=None if status is None else str(status),
        tags=tuple(str(tags).split("\x1f")) if tags else (),
    )


def _note(row: tuple[object, ...], sections: tuple[StoredSection, ...]) -> StoredNote:
    _, path, title, digest, size, mtime_ns, lines, kind, tags = row
    return StoredNote(
        path=str(path),
        title=str(title),
        digest=str(digest),
        size_bytes=int(str(size)),
        mtime_ns=int(str(mtime_ns)),
        n_lines=int(str(lines)),
        kind=None if kind is None else str(kind),
        tags=tuple(json.loads(str(tags))) if tags else (),
        sections=sections,
    )
