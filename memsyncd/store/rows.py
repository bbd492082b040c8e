"""Convert a note to the rows of index.db, and write the rows that differ when it changes.

Everything here runs inside the writer's transaction. Rows of new notes are collected and flushed
together (`Rows`), which makes a first index cheap. A changed note is compared with its stored rows,
so that only changed text reaches FTS5. Ids are assigned here, since there is only one writer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
import msgspec

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
    "INSERT INTO files(id, path, digest, size, mtime_ns, ctime_ns, inode, device, read_at_ns,"
    " lines, title, day, kind, tags) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    " ON CONFLICT(id) DO UPDATE SET path=excluded.path, digest=excluded.digest,"
    " size=excluded.size, mtime_ns=excluded.mtime_ns, ctime_ns=excluded.ctime_ns,"
    " inode=excluded.inode, device=excluded.device, read_at_ns=excluded.read_at_ns,"
    " lines=excluded.lines, title=excluded.title, day=excluded.day, kind=excluded.kind,"
    " tags=excluded.tags"
)
_SECTION_COLUMNS = (
    "file, anchor, heading, level, start_line, end_line, kind, importance, priority, lifecycle,"
    " status, task, session, source, created, expires, day, extra"
)
_SECTION = (
    f"INSERT INTO sections(id, {_SECTION_COLUMNS}) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_SECTION_UPDATE = (
    f"UPDATE sections SET ({_SECTION_COLUMNS}) = (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) WHERE id = ?"
)
_TAG = "INSERT OR IGNORE INTO tags(section, tag) VALUES(?,?)"
_LINK = "INSERT INTO links(section, line, target, heading, relation) VALUES(?,?,?,?,?)"
_PROBLEM = "INSERT INTO problems(file, line, code, problem, hint) VALUES(?,?,?,?,?)"
_SENSITIVE_LINES = "INSERT INTO secrets(file, start_line, end_line, what) VALUES(?,?,?,?)"
_CHUNK = (
    "INSERT INTO chunks(id, file, section, start_line, end_line, tokens, digest)"
    " VALUES(?,?,?,?,?,?,?)"
)
_CHUNKS_OF_FILE = (
    "SELECT id, section, digest, start_line, end_line FROM chunks WHERE file = ?"
    " ORDER BY start_line, id"
)
_FTS = "INSERT INTO chunks_fts(rowid, heading, text, tags, subwords) VALUES(?,?,?,?,?)"
_EXACT = "INSERT INTO chunks_exact(rowid, heading, text, tags, subwords) VALUES(?,?,?,?,?)"

_to_json = json.JSONEncoder(ensure_ascii=False).encode


class Rows(msgspec.Struct):
    """Rows to insert, one list for each table, flushed in an order that foreign keys allow."""

    files: list[Row] = msgspec.field(default_factory=list)
    sections: list[Row] = msgspec.field(default_factory=list)
    tags: list[Row] = msgspec.field(default_factory=list)
    links: list[Row] = msgspec.field(default_factory=list)
    problems: list[Row] = msgspec.field(default_factory=list)
    secrets: list[Row] = msgspec.field(default_factory=list)
    chunks: list[Row] = msgspec.field(default_factory=list)
    fts: list[Row] = msgspec.field(default_factory=list)

    def flush(self, connection: apsw.Connection) -> None:
        tables = (
            (self.files, _FILE), (self.sections, _SECTION), (self.tags, _TAG), (self.links, _LINK),
            (self.problems, _PROBLEM), (self.secrets, _SENSITIVE_LINES), (self.chunks, _CHUNK),
            (self.fts, _FTS, _EXACT),
        )  # fmt: skip
        for rows, *statements in tables:
            if rows:
                for statement in statements:
                    connection.executemany(statement, rows)
                rows.clear()


class Ids(msgspec.Struct):
    """The next free ids."""

    file: int
    section: int
    chunk: int

    @classmethod
    def read(cls, connection: apsw.Connection) -> Ids:
        tables = ("files", "sections", "chunks")
        return cls(
            *(1 + (connection.execute(f"SELECT max(id) FROM {table}").get or 0) for table in tables)
        )


class FtsRow(NamedTuple):
    """The FTS5 columns of a chunk. `digest` covers all three: a changed heading is a change."""

    heading: str
    text: str
    tags: str
    digest: str


def add_note(rows: Rows, ids: Ids, note: Note, stat: FileStat, read_at_ns: int) -> int:
    """Collect the rows of a new note; return the number of chunks."""
    file_id, ids.file = ids.file, ids.file + 1
    rows.files.append(_file_row(file_id, note, stat, read_at_ns))
    section_ids = {}
    for section in note.sections:
        section_ids[section.anchor], ids.section = ids.section, ids.section + 1
        rows.sections.append((section_ids[section.anchor], *_section_row(file_id, section)))
    _collect_details(rows, file_id, note, section_ids)
    for chunk, fts_row in zip(note.chunks, make_fts_rows(note), strict=True):
        _collect_chunk(rows, ids, file_id, section_ids[chunk.anchor], chunk, fts_row)
    return len(note.chunks)


def change_note(
    connection: apsw.Connection, ids: Ids, file_id: int, note: Note, stat: FileStat, read_at_ns: int
) -> RowChanges:
    """Change the rows of file `file_id` to those of `note`, writing only differences; return the
    changes of its chunks.
    """
    rows = Rows()
    rows.files.append(_file_row(file_id, note, stat, read_at_ns))
    rows.flush(connection)
    section_ids, removed = _change_sections(connection, ids, file_id, note.sections)
    fts_rows = make_fts_rows(note)
    existing = [
        ExistingRow(id=row[0], content=(row[1], row[2]), place=(row[3], row[4]))
        for row in connection.execute(_CHUNKS_OF_FILE, (file_id,))
    ]
    expected = [
        ((section_ids[chunk.anchor], row.digest), (chunk.span.start, chunk.span.end))
        for chunk, row in zip(note.chunks, fts_rows, strict=True)
    ]
    plan = plan_row_changes(existing, expected)
    _delete_chunks(connection, plan.deleted)
    places = [(*expected[index][1], chunk_id) for index, chunk_id in plan.shifted]
    if places:
        statement = "UPDATE chunks SET start_line = ?, end_line = ? WHERE id = ?"
        connection.executemany(statement, places)
    for index in plan.inserted:
        chunk = note.chunks[index]
        _collect_chunk(rows, ids, file_id, section_ids[chunk.anchor], chunk, fts_rows[index])
    if removed:
        keys = [(section_id,) for section_id in removed]
        connection.executemany("DELETE FROM sections WHERE id = ?", keys)
    _collect_details(rows, file_id, note, section_ids)
    rows.flush(connection)
    return plan


def drop_note(connection: apsw.Connection, file_id: int) -> int:
    """Delete a file's rows in all tables; return the number of chunks."""
    chunk_ids = [
        row[0] for row in connection.execute("SELECT id FROM chunks WHERE file = ?", (file_id,))
    ]
    _delete_chunks(connection, chunk_ids)
    connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
    return len(chunk_ids)


def _delete_chunks(connection: apsw.Connection, chunk_ids: list[int] | tuple[int, ...]) -> None:
    if chunk_ids:
        keys = [(chunk_id,) for chunk_id in chunk_ids]
        connection.executemany("DELETE FROM chunks_fts WHERE rowid = ?", keys)
        connection.executemany("DELETE FROM chunks_exact WHERE rowid = ?", keys)
        connection.executemany("DELETE FROM chunks WHERE id = ?", keys)


def stat_row(stat: FileStat) -> Row:
    """Return the stat as columns of `files`.

    SQLite's integers are signed: large inodes of some file systems and times after 2262 wrap.
    """
    return tuple(number if number <= _INT_MAX else number - _WRAP for number in stat)


def read_stat_row(row: Sequence[int]) -> FileStat:
    """Return the stat that `stat_row` was given.

    Times before _EARLIEST_NS have wrapped, since file systems have none; nothing else is negative.
    """
    size_bytes, mtime_ns, ctime_ns, inode, device = row
    mtime_ns, ctime_ns = (
        time_ns if time_ns >= _EARLIEST_NS else time_ns + _WRAP for time_ns in (mtime_ns, ctime_ns)
    )
    return FileStat(size_bytes, mtime_ns, ctime_ns, inode % _WRAP, device % _WRAP)


def make_fts_rows(note: Note) -> list[FtsRow]:
    """Return the FTS5 columns of each chunk: the words of its path and headings, its text, and the
    section's tags.
    """
    words = path_words(note.path)
    columns = {
        s.anchor: (title_words(words, s.heading), " ".join(s.meta.tags)) for s in note.sections
    }
    return [_make_fts_row(chunk, *columns[chunk.anchor]) for chunk in note.chunks]


def _make_fts_row(chunk: Chunk, heading: str, tags: str) -> FtsRow:
    digest = digest_text(f"{heading}\x1f{tags}\x1f{chunk.digest}")
    return FtsRow(heading=heading, text=chunk.text, tags=tags, digest=digest)


def _change_sections(
    connection: apsw.Connection, ids: Ids, file_id: int, sections: tuple[Section, ...]
) -> tuple[dict[str, int], list[int]]:
    """Write sections that are new or differ; return the id of each anchor, and the ids of sections
    to remove.
    """
    columns = f"SELECT id, {_SECTION_COLUMNS} FROM sections WHERE file = ?"
    existing = {row[2]: row for row in connection.execute(columns, (file_id,))}
    section_ids: dict[str, int] = {}
    added, changed = [], []
    for section in sections:
        row = _section_row(file_id, section)
        old = existing.pop(section.anchor, None)
        if old is None:
            section_ids[section.anchor], ids.section = ids.section, ids.section + 1
            added.append((section_ids[section.anchor], *row))
        else:
            section_ids[section.anchor] = old[0]
            if old[1:] != row:
                changed.append((*row, old[0]))
    if changed:
        connection.executemany(_SECTION_UPDATE, changed)
    if added:
        connection.executemany(_SECTION, added)
    for table in ("tags", "links"):
        of_file = "section IN (SELECT id FROM sections WHERE file = ?)"
        connection.execute(f"DELETE FROM {table} WHERE {of_file}", (file_id,))
    for table in ("problems", "secrets"):
        connection.execute(f"DELETE FROM {table} WHERE file = ?", (file_id,))
    return section_ids, [row[0] for row in existing.values()]


def _collect_details(rows: Rows, file_id: int, note: Note, section_ids: dict[str, int]) -> None:
    for section in note.sections:
        rows.tags.extend((section_ids[section.anchor], tag) for tag in section.meta.tags)
    rows.links.extend(
        (section_ids[k.anchor], k.line, k.target, k.heading, k.relation) for k in note.links
    )
    rows.problems.extend((file_id, p.line, p.code, p.problem, p.hint) for p in note.problems)
    rows.secrets.extend((file_id, s.span.start, s.span.end, s.what) for s in note.secrets)


def _collect_chunk(
    rows: Rows, ids: Ids, file_id: int, section_id: int, chunk: Chunk, fts_row: FtsRow
) -> None:
    chunk_id, ids.chunk = ids.chunk, ids.chunk + 1
    n_tokens = count_tokens(chunk.text)
    place = (chunk.span.start, chunk.span.end)
    rows.chunks.append((chunk_id, file_id, section_id, *place, n_tokens, fts_row.digest))
    subwords = find_subwords(f"{fts_row.heading}\n{fts_row.text}")
    rows.fts.append((chunk_id, fts_row.heading, fts_row.text, fts_row.tags, subwords))


def _file_row(file_id: int, note: Note, stat: FileStat, read_at_ns: int) -> Row:
    return (
        file_id, note.path, note.digest, *stat_row(stat), read_at_ns,
        note.n_lines, note.title, find_note_date(note.path, note.meta), note.meta.kind,
        to_json_list(note.meta.tags) if note.meta.tags else "",
    )  # fmt: skip


def _section_row(file_id: int, section: Section) -> Row:
    meta = section.meta
    return (
        file_id, section.anchor, to_json_list(section.heading), section.level,
        section.span.start, section.span.end, meta.kind, meta.importance, meta.priority,
        meta.lifecycle, meta.status, meta.task, meta.session, meta.source, meta.created,
        meta.expires, find_stated_date(meta), _to_json(meta.extra) if meta.extra else "",
    )  # fmt: skip


def to_json_list(words: Sequence[str]) -> str:
    # The encoder is faster for one string than for a list, and each section has a heading.
    return f"[{', '.join(map(_to_json, words))}]"
