"""How does one note become rows, and what of them is rewritten when the note changes?

Runs inside the writer's transaction. Rows of new notes are collected and flushed together (`Rows`), which is what makes a cold
index cheap; a changed note is compared with what stands, so that only changed text reaches FTS5. Ids are given out here:
the writer is alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apsw

from memsyncd.core.changes.diff import ExistingRow, FileStat, RowChanges, plan_row_changes
from memsyncd.core.digest import digest_text
from memsyncd.core.model import Chunk, Note, Section, count_tokens, path_words, title_words
from memsyncd.core.search.dates import find_note_date, find_stated_date
from memsyncd.core.search.words import find_subwords

Row = tuple[Any, ...]

_INT_MAX = 2**63 - 1
_WRAP = 2**64
_EARLIEST_NS = -(2**61)  # 1896

_FILE = (
    "INSERT INTO files(id, path, digest, size, mtime_ns, ctime_ns, inode, device, read_at_ns, lines, title, day, kind, tags)"
    " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    " ON CONFLICT(id) DO UPDATE SET path=excluded.path, digest=excluded.digest, size=excluded.size, mtime_ns=excluded.mtime_ns,"
    " ctime_ns=excluded.ctime_ns, inode=excluded.inode, device=excluded.device, read_at_ns=excluded.read_at_ns,"
    " lines=excluded.lines, title=excluded.title, day=excluded.day, kind=excluded.kind, tags=excluded.tags"
)
_SECTION_COLUMNS = (
    "file, anchor, heading, level, start_line, end_line, kind, importance, priority, lifecycle, status, task, session, source,"
    " created, expires, day, extra"
)
_SECTION = f"INSERT INTO sections(id, {_SECTION_COLUMNS}) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_SECTION_UPDATE = f"UPDATE sections SET ({_SECTION_COLUMNS}) = (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) WHERE id = ?"
_TAG = "INSERT OR IGNORE INTO tags(section, tag) VALUES(?,?)"
_LINK = "INSERT INTO links(section, line, target, heading, relation) VALUES(?,?,?,?,?)"
_PROBLEM = "INSERT INTO problems(file, line, code, problem, hint) VALUES(?,?,?,?,?)"
_LINES = "INSERT INTO secrets(file, start_line, end_line, what) VALUES(?,?,?,?)"
_CHUNK = "INSERT INTO chunks(id, file, section, start_line, end_line, tokens, digest) VALUES(?,?,?,?,?,?,?)"
_FTS = "INSERT INTO chunks_fts(rowid, heading, text, tags, parts) VALUES(?,?,?,?,?)"
_EXACT = "INSERT INTO chunks_exact(rowid, heading, text, tags, parts) VALUES(?,?,?,?,?)"

_to_json = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(slots=True)
class Rows:
    """Rows waiting to be inserted, a list a table, flushed in an order that foreign keys allow."""

    files: list[Row] = field(default_factory=list)
    sections: list[Row] = field(default_factory=list)
    tags: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)
    problems: list[Row] = field(default_factory=list)
    secrets: list[Row] = field(default_factory=list)
    chunks: list[Row] = field(default_factory=list)
    fts: list[Row] = field(default_factory=list)

    def flush(self, connection: apsw.Connection) -> None:
        tables = (
            (self.files, _FILE), (self.sections, _SECTION), (self.tags, _TAG), (self.links, _LINK),
            (self.problems, _PROBLEM), (self.secrets, _LINES), (self.chunks, _CHUNK), (self.fts, _FTS, _EXACT),
        )  # fmt: skip
        for rows, *statements in tables:
            if rows:
                for statement in statements:
                    connection.executemany(statement, rows)
                rows.clear()


@dataclass(slots=True)
class Ids:
    """The next free ids."""

    file: int
    section: int
    chunk: int

    @classmethod
    def read(cls, connection: apsw.Connection) -> Ids:
        tables = ("files", "sections", "chunks")
        return cls(*(1 + (connection.execute(f"SELECT max(id) FROM {table}").get or 0) for table in tables))


class Indexed(NamedTuple):
    """A chunk as FTS5 holds it. `digest` is over all three columns, so that a changed heading is a change too."""

    heading: str
    text: str
    tags: str
    digest: str


def add_note(rows: Rows, ids: Ids, note: Note, stat: FileStat, read_at_ns: int) -> int:
    """Collect the rows of a note that has none yet; returns the number of chunks."""
    file_id, ids.file = ids.file, ids.file + 1
    rows.files.append(_file_row(file_id, note, stat, read_at_ns))
    section_ids = {}
    for section in note.sections:
        section_ids[section.anchor], ids.section = ids.section, ids.section + 1
        rows.sections.append((section_ids[section.anchor], *_section_row(file_id, section)))
    _collect_around(rows, file_id, note, section_ids)
    for chunk, indexed in zip(note.chunks, find_indexed(note), strict=True):
        _collect_chunk(rows, ids, file_id, section_ids[chunk.anchor], chunk, indexed)
    return len(note.chunks)


def change_note(connection: apsw.Connection, ids: Ids, file_id: int, note: Note, stat: FileStat, read_at_ns: int) -> RowChanges:
    """Make the rows of file `file_id` say what `note` says, writing only what differs; returns what became of the chunks."""
    rows = Rows()
    rows.files.append(_file_row(file_id, note, stat, read_at_ns))
    rows.flush(connection)
    section_ids, gone = _change_sections(connection, ids, file_id, note.sections)
    indexed = find_indexed(note)
    standing = [
        ExistingRow(id=row[0], content=(row[1], row[2]), place=(row[3], row[4]))
        for row in connection.execute(
            "SELECT id, section, digest, start_line, end_line FROM chunks WHERE file = ? ORDER BY start_line, id", (file_id,)
        )
    ]
    wanted = [
        ((section_ids[chunk.anchor], piece.digest), (chunk.span.start, chunk.span.end))
        for chunk, piece in zip(note.chunks, indexed, strict=True)
    ]
    plan = plan_row_changes(standing, wanted)
    delete_chunks(connection, plan.deleted)
    places = [(*wanted[index][1], chunk_id) for index, chunk_id in plan.shifted]
    if places:
        connection.executemany("UPDATE chunks SET start_line = ?, end_line = ? WHERE id = ?", places)
    for index in plan.inserted:
        chunk = note.chunks[index]
        _collect_chunk(rows, ids, file_id, section_ids[chunk.anchor], chunk, indexed[index])
    if gone:
        connection.executemany("DELETE FROM sections WHERE id = ?", [(section_id,) for section_id in gone])
    _collect_around(rows, file_id, note, section_ids)
    rows.flush(connection)
    return plan


def drop_note(connection: apsw.Connection, file_id: int) -> int:
    """Delete a file's rows everywhere; returns the number of chunks."""
    chunk_ids = [row[0] for row in connection.execute("SELECT id FROM chunks WHERE file = ?", (file_id,))]
    delete_chunks(connection, chunk_ids)
    connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
    return len(chunk_ids)


def delete_chunks(connection: apsw.Connection, chunk_ids: list[int] | tuple[int, ...]) -> None:
    if chunk_ids:
        keys = [(chunk_id,) for chunk_id in chunk_ids]
        connection.executemany("DELETE FROM chunks_fts WHERE rowid = ?", keys)
        connection.executemany("DELETE FROM chunks_exact WHERE rowid = ?", keys)
        connection.executemany("DELETE FROM chunks WHERE id = ?", keys)


def stat_row(stat: FileStat) -> Row:
    """What `files` says of a file's stat. SQLite's integers have a sign: odd file systems' inodes and times after 2262 wrap."""
    return tuple(number if number <= _INT_MAX else number - _WRAP for number in stat)


def read_stat_row(row: Sequence[int]) -> FileStat:
    """The stat that `stat_row` was made of. A time below all that file systems know has wrapped; nothing else is negative."""
    size_bytes, mtime_ns, ctime_ns, inode, device = row
    mtime_ns, ctime_ns = (time_ns if time_ns >= _EARLIEST_NS else time_ns + _WRAP for time_ns in (mtime_ns, ctime_ns))
    return FileStat(size_bytes, mtime_ns, ctime_ns, inode % _WRAP, device % _WRAP)


def find_indexed(note: Note) -> list[Indexed]:
    """What FTS5 is given for each chunk: path words and breadcrumb as heading, the text, the section's tags."""
    words = path_words(note.path)
    faces = {s.anchor: (title_words(words, s.heading), " ".join(s.meta.tags)) for s in note.sections}
    return [_indexed(chunk, *faces[chunk.anchor]) for chunk in note.chunks]


def _indexed(chunk: Chunk, heading: str, tags: str) -> Indexed:
    digest = digest_text(f"{heading}\x1f{tags}\x1f{chunk.digest}")
    return Indexed(heading=heading, text=chunk.text, tags=tags, digest=digest)


def _change_sections(
    connection: apsw.Connection, ids: Ids, file_id: int, sections: tuple[Section, ...]
) -> tuple[dict[str, int], list[int]]:
    """Write sections that are new or differ; returns the id of each wanted anchor, and the ids that nothing wants now."""
    columns = f"SELECT id, {_SECTION_COLUMNS} FROM sections WHERE file = ?"
    standing = {row[2]: row for row in connection.execute(columns, (file_id,))}
    section_ids: dict[str, int] = {}
    fresh, changed = [], []
    for section in sections:
        row = _section_row(file_id, section)
        old = standing.pop(section.anchor, None)
        if old is None:
            section_ids[section.anchor], ids.section = ids.section, ids.section + 1
            fresh.append((section_ids[section.anchor], *row))
        else:
            section_ids[section.anchor] = old[0]
            if old[1:] != row:
                changed.append((*row, old[0]))
    if changed:
        connection.executemany(_SECTION_UPDATE, changed)
    if fresh:
        connection.executemany(_SECTION, fresh)
    for table in ("tags", "links"):
        connection.execute(f"DELETE FROM {table} WHERE section IN (SELECT id FROM sections WHERE file = ?)", (file_id,))
    for table in ("problems", "secrets"):
        connection.execute(f"DELETE FROM {table} WHERE file = ?", (file_id,))
    return section_ids, [row[0] for row in standing.values()]


def _collect_around(rows: Rows, file_id: int, note: Note, section_ids: dict[str, int]) -> None:
    for section in note.sections:
        rows.tags.extend((section_ids[section.anchor], tag) for tag in section.meta.tags)
    rows.links.extend((section_ids[k.anchor], k.line, k.target, k.heading, k.relation) for k in note.links)
    rows.problems.extend((file_id, p.line, p.code, p.problem, p.hint) for p in note.problems)
    rows.secrets.extend((file_id, s.span.start, s.span.end, s.what) for s in note.secrets)


def _collect_chunk(rows: Rows, ids: Ids, file_id: int, section_id: int, chunk: Chunk, indexed: Indexed) -> None:
    chunk_id, ids.chunk = ids.chunk, ids.chunk + 1
    n_tokens = count_tokens(chunk.text)
    rows.chunks.append((chunk_id, file_id, section_id, chunk.span.start, chunk.span.end, n_tokens, indexed.digest))
    parts = find_subwords(f"{indexed.heading}\n{indexed.text}")
    rows.fts.append((chunk_id, indexed.heading, indexed.text, indexed.tags, parts))


def _file_row(file_id: int, note: Note, stat: FileStat, read_at_ns: int) -> Row:
    return (
        file_id, note.path, note.digest, *stat_row(stat), read_at_ns,
        note.n_lines, note.title, find_note_date(note.path, note.meta), note.meta.kind,
        list_words(note.meta.tags) if note.meta.tags else "",
    )  # fmt: skip


def _section_row(file_id: int, section: Section) -> Row:
    meta = section.meta
    return (
        file_id, section.anchor, list_words(section.heading), section.level, section.span.start,
        section.span.end, meta.kind, meta.importance, meta.priority, meta.lifecycle, meta.status, meta.task, meta.session,
        meta.source, meta.created, meta.expires, find_stated_date(meta), _to_json(meta.extra) if meta.extra else "",
    )  # fmt: skip


def list_words(words: Sequence[str]) -> str:
    """As JSON would have it. One by one is the encoder's quick way, and there is a heading for each section."""
    return f"[{', '.join(map(_to_json, words))}]"
