"""Convert a note to the rows of index.db; when a note changes, write only the rows that differ.

All functions run inside the writer's transaction. Rows of new notes are collected and flushed
together (`Rows`), which makes a first index cheap. A changed note is compared with its stored rows,
so only changed text reaches FTS5. This module assigns the ids, because there is only one writer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import apsw
import msgspec

from memsyncd.core.changes.diff import ExistingRow, FileStat, RowChanges, plan_row_changes
from memsyncd.core.digest import digest_to_bytes
from memsyncd.core.editing.kinds import DEFAULT_KINDS, KindDefaults
from memsyncd.core.markdown.links import list_names, make_id_key, make_key
from memsyncd.core.model import (
    ARCHIVED,
    ID_KEY,
    Chunk,
    Meta,
    Note,
    NotePatch,
    Section,
    count_tokens,
    find_moment,
    find_with_text,
    parse_expiry,
    path_words,
)
from memsyncd.core.search.dates import find_heading_date, find_note_date, find_stated_date
from memsyncd.core.search.filters import fold_value, split_list, strip_links
from memsyncd.core.search.words import MarkBlanker, SubwordFinder, blank_marks, fold, space_out
from memsyncd.store.counts import (
    COLUMNS,
    COUNTED_OF_NOTE,
    SECTION_FACTS,
    CountChanges,
    NoteFacts,
    SectionFacts,
    find_day,
)
from memsyncd.store.details import Details, Row, delete_differing, read_details
from memsyncd.store.outlooks import OUTLOOK_COLUMNS, Outlooks, OutlookSection
from memsyncd.store.targets import LinkChanges, forget_links, number_key, pack_name, settle_links
from memsyncd.store.texts import TEXTS_OF_FILE, make_blocks
from memsyncd.store.topics import TOPIC_COLUMNS, value_note, value_topics

PINNED_TAG = "pinned"
NO_STANDING = ("", None, None, False)

_INT_MAX = 2**63 - 1
_WRAP = 2**64
_EARLIEST_NS = -(2**61)  # 1896

FILE_COLUMNS = (
    "id, path, digest, size, mtime_ns, ctime_ns, inode, device, read_at_ns, generation, lines,"
    " title, day, kind, tags, topic, extra, is_blank"
)
_VALUE_COLUMNS = "salience, latest, salience_all, latest_all"
N_VALUE_COLUMNS = len(_VALUE_COLUMNS.split(","))
_FILE_VALUES = ",".join("?" * len(FILE_COLUMNS.split(",")))
_FILE = f"INSERT INTO files({FILE_COLUMNS}, {_VALUE_COLUMNS}) VALUES({_FILE_VALUES},?,?,?,?)"
_VALUE_NUMBERS = ",".join(f"?{_FILE_VALUES.count('?') + n}" for n in range(1, 5))
# The first value is the id.
_FILE_UPDATE = "UPDATE files SET {} WHERE id = ?1".format(
    ", ".join(f"{name} = ?{n}" for n, name in enumerate(FILE_COLUMNS.split(", "), 1) if n > 1)
)
# For a change of text alone: it leaves the columns of most indexes as they are.
_N_OF_STAT = FILE_COLUMNS.split(", ").index("title")
_TEXT_OF_FILE_UPDATE = "UPDATE files SET {} WHERE id = ?1".format(
    ", ".join(
        f"{name} = ?{n}"
        for n, name in enumerate(FILE_COLUMNS.split(", ")[:_N_OF_STAT], 1)
        if name not in ("id", "path")
    )
)
_VALUED_FILE_UPDATE = _FILE_UPDATE.replace(
    " WHERE", f", ({_VALUE_COLUMNS}) = ({_VALUE_NUMBERS}) WHERE"
)
_SECTION_COLUMNS = (
    "file, slugs, heading, level, start_line, end_line, kind, importance, priority, lifecycle,"
    " status, task, session, source, created, updated, expires, day, topic, moment, at, is_empty,"
    " extra, outlook"
)
NAMES_OF_SECTION = _SECTION_COLUMNS.split(", ")
_get_counted_columns = itemgetter(
    *map(NAMES_OF_SECTION.index, (*COLUMNS, "day", "expires", "extra", "is_empty", "at"))
)
_get_counted_of_file = itemgetter(*map(FILE_COLUMNS.split(", ").index, COUNTED_OF_NOTE))
_TASK, _SESSION, _AT = map(SectionFacts._fields.index, ("task", "session", "at"))
_get_topic_columns = itemgetter(*map(NAMES_OF_SECTION.index, TOPIC_COLUMNS))
_get_outlook_columns = itemgetter(*map(NAMES_OF_SECTION.index, OUTLOOK_COLUMNS))
_SECTION_VALUES = ",".join("?" * len(NAMES_OF_SECTION))
_SECTION = f"INSERT INTO sections(id, {_SECTION_COLUMNS}) VALUES(?,{_SECTION_VALUES})"
_OF_FILE = "file = ?"
_SECTIONS_OF_FILE = (
    f"SELECT id, {_SECTION_COLUMNS} FROM sections WHERE {_OF_FILE} ORDER BY start_line"
)
_STANDINGS_OF_FILE = (
    "SELECT d.mark, d.kind, d.importance, d.is_archived FROM standing_files x"
    " JOIN standings d ON d.id = x.standing WHERE x.file = ?"
)
_SAVED = "SELECT mtime_ns, day FROM files WHERE id = ?"
_UNDATED = "SELECT id, updated, created FROM sections WHERE file = ? AND day IS NULL AND moment = ?"
_MOVE_UNDATED = "UPDATE sections SET at = ? WHERE file = ? AND day IS NULL AND created IS NULL"
_TAG = "INSERT OR IGNORE INTO tags(section, tag) VALUES(?,?)"
_STANDING = "INSERT OR IGNORE INTO standings(mark, kind, importance, is_archived) VALUES(?,?,?,?)"
_STANDING_FILE = (
    "INSERT OR IGNORE INTO standing_files(file, mtime_ns, standing)"
    " SELECT ?, ?, id FROM standings WHERE mark = ? AND coalesce(kind, '') = coalesce(?, '')"
    " AND coalesce(importance, -1) = coalesce(?, -1) AND is_archived = ?"
)
_KEYWORD = "INSERT OR IGNORE INTO keywords(section, keyword) VALUES(?,?)"
_NAME = "INSERT INTO names(file, name, key) VALUES(?,?,?)"
_BLOCK = "INSERT INTO blocks(section, name) VALUES(?,?)"
_PROBLEM = "INSERT INTO problems(file, line, code, problem, hint) VALUES(?,?,?,?,?)"
_SENSITIVE_LINES = "INSERT INTO secrets(file, start_line, end_line, what) VALUES(?,?,?,?)"
_CHUNK = (
    "INSERT INTO chunks(id, file, section, start_line, end_line, part, front_lines, tokens, digest)"
    " VALUES(?,?,?,?,?,?,?,?,?)"
)
_CHUNK_ROW = "SELECT id, section, digest, start_line, end_line, part, front_lines FROM chunks"
_CHUNKS_OF_FILE = f"{_CHUNK_ROW} WHERE file = ? ORDER BY start_line, id"
_TEXT = "INSERT INTO texts(file, start_line, end_line, data) VALUES(?,?,?,?)"
# Sections, chunks or blocks of text of a file that begin at the first line ? or later, and before
# the second.
_OF_LINES = "file = ? AND start_line >= ? AND start_line < ?"
_SECTIONS_OF_LINES = (
    f"SELECT id, {_SECTION_COLUMNS} FROM sections WHERE {_OF_LINES} ORDER BY start_line"
)
_CHUNKS_OF_LINES = f"{_CHUNK_ROW} WHERE {_OF_LINES} ORDER BY start_line, id"
_FACTS_OF_LINES = f"SELECT {SECTION_FACTS} FROM sections s WHERE {_OF_LINES}"
# A note may have thousands of sections, and most of them are counted alike.
_FACTS_BESIDE_LINES = (
    f"SELECT DISTINCT {SECTION_FACTS} FROM sections s"
    " WHERE file = ? AND NOT (start_line >= ? AND start_line < ?)"
)
_CHANGED_FILE = f"SELECT {FILE_COLUMNS}, {_VALUE_COLUMNS} FROM files WHERE id = ?"
_NOTE_FACTS = f"SELECT {', '.join(COUNTED_OF_NOTE)} FROM files WHERE id = ?"
_SHIFT_LINKS = (
    "UPDATE links SET line = line + :n WHERE section IN"
    " (SELECT id FROM sections WHERE file = :file AND start_line >= :after)"
)
_SHIFT = (
    "UPDATE {table} SET start_line = start_line + :n, end_line = end_line + :n"
    " WHERE file = :file AND start_line >= :after"
)
# The block of the line above a change is rewritten too. Otherwise a line that is inserted between
# two blocks would become a block of its own.
_KEPT_BLOCKS = (
    "SELECT max(end_line) FILTER (WHERE end_line < ?2 - 1),"
    " min(start_line) FILTER (WHERE start_line >= ?3) FROM texts WHERE file = ?1"
)
_DELETE_BLOCKS = "DELETE FROM texts WHERE file = ? AND start_line > ? AND start_line < ?"
_FTS_COLUMNS = "rowid, heading, text, tags, subwords, properties"
_FTS = f"INSERT INTO chunks_fts({_FTS_COLUMNS}) VALUES(?,?,?,?,?,?)"
_EXACT = f"INSERT INTO chunks_exact({_FTS_COLUMNS}) VALUES(?,?,?,?,?,?)"

_to_json = json.JSONEncoder(ensure_ascii=False).encode
# Headings repeat: sections repeat the headings above them, and notes of a kind have equal headings.
_word_to_json = lru_cache(maxsize=1024)(_to_json)


class Rows(msgspec.Struct):
    """Rows to insert, in a list for each table. The flush has an order that foreign keys allow.

    The chunks in `deleted` are deleted first. `changed` are existing files for which rows were
    collected: the rows must be flushed before such a file is read. The changed files in `recounted`
    are counted after the flush, and the files in `valued` are valued by `kinds`. `generation` is
    the one that the transaction makes.
    """

    files: list[Row] = msgspec.field(default_factory=list)
    sections: list[Row] = msgspec.field(default_factory=list)
    tags: list[Row] = msgspec.field(default_factory=list)
    standings: set[Row] = msgspec.field(default_factory=set)
    standing_files: list[Row] = msgspec.field(default_factory=list)
    keywords: list[Row] = msgspec.field(default_factory=list)
    links: list[Row] = msgspec.field(default_factory=list)
    names: list[Row] = msgspec.field(default_factory=list)
    blocks: list[Row] = msgspec.field(default_factory=list)
    problems: list[Row] = msgspec.field(default_factory=list)
    secrets: list[Row] = msgspec.field(default_factory=list)
    texts: list[Row] = msgspec.field(default_factory=list)
    chunks: list[Row] = msgspec.field(default_factory=list)
    fts: list[Row] = msgspec.field(default_factory=list)
    deleted: list[int] = msgspec.field(default_factory=list)
    changed: set[int] = msgspec.field(default_factory=set)
    leading: LinkChanges = msgspec.field(default_factory=LinkChanges)
    recounted: set[int] = msgspec.field(default_factory=set)
    counts: CountChanges | None = None
    valued: set[int] = msgspec.field(default_factory=set)
    outlooks: Outlooks = msgspec.field(default_factory=Outlooks)
    generation: int = 0
    kinds: Mapping[str, KindDefaults] = DEFAULT_KINDS

    def begin_change(self, connection: apsw.Connection, file_id: int) -> None:
        """Flush if rows of this file were collected. Call it before reading and changing a file."""
        if file_id in self.changed:
            self.flush(connection)
        self.changed.add(file_id)

    def collect(self, file_id: int, path: str, details: Details) -> None:
        """Collect rows of details of a note."""
        for table, added in details.items():
            if added:
                getattr(self, table).extend(added)
        for section, *_ in details.get("links", ()):
            self.leading.sources[section] = file_id, path

    def flush(self, connection: apsw.Connection) -> None:
        # FTS5 writes a segment whenever a row has a smaller id than the row before, and then has to
        # merge the segments. So deletions come before insertions, and both are ordered by id.
        self.changed.clear()
        self.outlooks.write(connection)
        _delete_chunks(connection, self.deleted)
        self.deleted.clear()
        tables: tuple[tuple[list[Row] | set[Row], *tuple[str, ...]], ...] = (
            (self.files, _FILE), (self.sections, _SECTION), (self.tags, _TAG),
            (self.standings, _STANDING), (self.standing_files, _STANDING_FILE),
            (self.keywords, _KEYWORD),
            (self.names, _NAME), (self.blocks, _BLOCK), (self.problems, _PROBLEM),
            (self.secrets, _SENSITIVE_LINES), (self.texts, _TEXT),
            (self.chunks, _CHUNK), (self.fts, _FTS, _EXACT),
        )  # fmt: skip
        for rows, *statements in tables:
            if rows:
                for statement in statements:
                    connection.executemany(statement, rows)
                rows.clear()
        settle_links(connection, self.leading, self.links)
        self.links.clear()
        if self.counts is not None:
            for file_id in self.recounted:
                self.counts.add_stored(file_id)
            self.counts.write()
            if self.valued:
                value_topics(connection, self.valued, self.kinds)
        self.recounted.clear()
        self.valued.clear()


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
    """The FTS5 columns of a chunk. `digest` covers them all: a new heading changes the chunk."""

    heading: str
    text: str
    tags: str
    properties: str
    digest: bytes


def add_note(rows: Rows, ids: Ids, note: Note, stat: FileStat, read_at_ns: int) -> int:
    """Collect the rows of a new note; return the number of chunks."""
    file_id, ids.file = ids.file, ids.file + 1
    file_row = _file_row(rows, file_id, note, stat, read_at_ns)
    section_rows = _judge(rows, _make_section_rows(file_id, note, stat))
    rows.files.append((*file_row, *_value(rows, file_row, section_rows)))
    section_ids = {section.anchor: n for n, section in enumerate(note.sections, ids.section)}
    rows.sections.extend((n, *row) for n, row in enumerate(section_rows, ids.section))
    ids.section += len(section_rows)
    if rows.counts is not None:
        rows.counts.add(_get_counted_of_file(file_row), _list_facts(note, section_rows))
    details = _list_details(file_id, note, section_ids)
    rows.collect(file_id, note.path, details)
    _note_changes(rows.leading, file_id, {}, details, are_links_new=bool(note.links))
    rows.leading.new.add(file_id)
    if standings := _find_standings(note):
        _collect_standings(rows, file_id, standings, stat)
    rows.texts.extend((file_id, *block) for block in make_blocks(note.text, note.n_lines))
    _collect_chunks(rows, ids, file_id, note, section_ids)
    return len(note.chunks)


def change_note(
    connection: apsw.Connection,
    rows: Rows,
    ids: Ids,
    file_id: int,
    note: Note,
    stat: FileStat,
    read_at_ns: int,
) -> RowChanges:
    """Change the rows of file `file_id` to the rows of `note`; only differences are written.

    Returns the changes of its chunks, which are collected in `rows`.
    """
    before: Any = connection.execute(_CHANGED_FILE, (file_id,)).fetchone()
    is_moved = before[1] != note.path
    if is_moved:
        forget_links(connection, rows.leading, before[1])
    # The file's row is written at once: another note of the transaction may take its former path.
    file_row = _file_row(rows, file_id, note, stat, read_at_ns)
    section_rows = _judge(rows, _make_section_rows(file_id, note, stat))
    _change_file(connection, before, (*file_row, *_value(rows, file_row, section_rows)))
    existing_sections = connection.execute(_SECTIONS_OF_FILE, (file_id,)).fetchall()
    details = read_details(connection, _OF_FILE, (file_id,))
    if rows.counts is not None:
        rows.counts.subtract(
            _get_counted_of_file(before), _list_stored_facts(existing_sections, details["tags"])
        )
        rows.counts.add(_get_counted_of_file(file_row), _list_facts(note, section_rows))
    sections = _change_sections(connection, ids, note, section_rows, existing_sections)
    _change_text(connection, file_id, note)
    existing = [
        ExistingRow(id=row[0], content=(row[1], row[2]), place=row[3:])
        for row in connection.execute(_CHUNKS_OF_FILE, (file_id,))
    ]
    plan = _change_chunks(connection, rows, ids, file_id, note, sections.ids, existing)
    _delete_sections(connection, sections.removed)
    _change_details(connection, rows, file_id, note, sections, details, is_moved=is_moved)
    standings = _find_standings(note)
    if {*connection.execute(_STANDINGS_OF_FILE, (file_id,))} != standings:
        connection.execute("DELETE FROM standing_files WHERE file = ?", (file_id,))
        _collect_standings(rows, file_id, standings, stat)
    elif standings:
        move_standings(connection, file_id, stat)
    return plan


def _change_file(connection: apsw.Connection, old: Row, new: Row) -> None:
    """Change the row of a file, with its values."""
    n_columns = len(FILE_COLUMNS.split(", "))
    if old[n_columns:] != new[n_columns:]:
        connection.execute(_VALUED_FILE_UPDATE, new)
    elif old[1] != new[1] or old[_N_OF_STAT:] != new[_N_OF_STAT:]:
        connection.execute(_FILE_UPDATE, new[:n_columns])
    else:
        connection.execute(_TEXT_OF_FILE_UPDATE, new[:_N_OF_STAT])


def patch_note(
    connection: apsw.Connection,
    rows: Rows,
    ids: Ids,
    file_id: int,
    patch: NotePatch,
    stat: FileStat,
    read_at_ns: int,
) -> tuple[RowChanges, int, int]:
    """Change the rows of file `file_id` by a patch.

    Returns the changes of the chunks in the patch, the number of other chunks that moved, and the
    number of sections that were added, less those that were removed.
    """
    note = patch.note
    lines = (file_id, patch.start, patch.old_after)
    existing_sections: list[Row] = connection.execute(_SECTIONS_OF_LINES, lines).fetchall()
    # The patch may have a part of a memory only: its outlook is found below.
    outlooks = {row[2]: row[-1] for row in existing_sections}
    file_row = _file_row(rows, file_id, note, stat, read_at_ns)
    section_rows = list(_make_section_rows(file_id, note, stat))
    _count_patch(connection, rows, file_row, section_rows, patch)
    details = read_details(connection, _OF_LINES, lines)
    existing = [
        ExistingRow(id=row[0], content=(row[1], row[2]), place=row[3:])
        for row in connection.execute(_CHUNKS_OF_LINES, lines)
    ]
    n_moved = _shift_below(connection, file_id, patch)
    is_moved = move_moments(connection, file_id, stat)
    judged = [(*row, outlooks.get(row[1])) for row in section_rows]
    sections = _change_sections(connection, ids, note, judged, existing_sections)
    plan = _change_chunks(connection, rows, ids, file_id, note, sections.ids, existing)
    _delete_sections(connection, sections.removed)
    if sections.is_parted or not sections.changed.isdisjoint(OUTLOOK_COLUMNS):
        after = patch.old_after + patch.n_shift
        rows.outlooks.update_note(connection, file_id, patch.start, after)
    if is_moved or sections.is_parted or not sections.changed.isdisjoint(TOPIC_COLUMNS):
        rows.valued.add(file_id)
    _patch_text(connection, file_id, patch)
    connection.execute(_FILE_UPDATE, file_row)
    _change_details(connection, rows, file_id, note, sections, details)
    # The standings of the other sections of the file stay.
    move_standings(connection, file_id, stat)
    _collect_standings(rows, file_id, _find_standings(note), stat)
    return plan, n_moved, len(note.sections) - len(existing_sections)


def _shift_below(connection: apsw.Connection, file_id: int, patch: NotePatch) -> int:
    """Move all rows below a patch; return the number of moved chunks."""
    if not patch.n_shift:
        return 0
    after = {"file": file_id, "after": patch.old_after, "n": patch.n_shift}
    connection.execute(_SHIFT_LINKS, after)
    connection.execute(_SHIFT.format(table="sections"), after)
    connection.execute(_SHIFT.format(table="chunks"), after)
    return connection.changes()


def _count_patch(
    connection: apsw.Connection,
    rows: Rows,
    file_row: Row,
    section_rows: Sequence[Row],
    patch: NotePatch,
) -> None:
    """Count a note that is about to be patched to these rows. Most patches change nothing by which
    it is counted but its size.
    """
    if rows.counts is None:
        return
    file_id = file_row[0]
    lines = (file_id, patch.start, patch.old_after)
    old: Any = connection.execute(_FACTS_OF_LINES, lines).fetchall()
    new = _list_facts(patch.note, section_rows)
    [note_before] = connection.execute(_NOTE_FACTS, (file_id,))
    note = _get_counted_of_file(file_row)
    # Sections beside the patch that state no time get another time on another day.
    is_same_day = find_day(note_before[2]) == find_day(note[2])
    if not is_same_day or NoteFacts.make(note_before, ()) != NoteFacts.make(note, ()):
        rows.counts.subtract_stored(file_id)
        rows.recounted.add(file_id)
    elif Counter(old) == Counter(new):
        rows.counts.add_bytes(file_id, note[0], note[1] - note_before[1])
    else:
        others: Any = connection.execute(_FACTS_BESIDE_LINES, lines)
        rows.counts.change_sections(note, note_before[1], old, new, others)


def _list_facts(note: Note, section_rows: Sequence[Row]) -> list[Row]:
    """Return what the sections of a note, whose rows have no ids, are counted by."""
    return [
        _make_facts(row, section.meta.tags)
        for section, row in zip(note.sections, section_rows, strict=True)
    ]


def _list_stored_facts(section_rows: Sequence[Row], tag_rows: Sequence[Row]) -> list[Row]:
    """Return what the sections with these rows, which begin with their ids, are counted by."""
    tags: dict[int, list[str]] = {}
    for section, tag in tag_rows:
        tags.setdefault(section, []).append(tag)
    return [_make_facts(row[1:], tags.get(row[0], ())) for row in section_rows]


def _make_facts(row: Row, tags: Collection[str]) -> Row:
    joined = "\x1f".join(sorted({*tags})) if tags else None
    facts = (*_get_counted_columns(row), joined)
    if facts[_TASK] or facts[_SESSION]:
        return facts
    return (*facts[:_AT], None, *facts[_AT + 1 :])


def _judge(rows: Rows, section_rows: Iterable[Row]) -> list[Row]:
    """Add the column `outlook` to the rows of all sections of a note."""
    judged = list(section_rows)
    sections = [OutlookSection._make(_get_outlook_columns(row)) for row in judged]
    outlooks = rows.outlooks.find(sections)
    return [(*row, outlooks.get(at)) for at, row in enumerate(judged)]


def _value(rows: Rows, file_row: Row, section_rows: Sequence[Row]) -> Row:
    """Return the values of a note in `_VALUE_COLUMNS`."""
    path, _, mtime_ns, _, _ = _get_counted_of_file(file_row)
    sections: list[Any] = [*map(_get_topic_columns, section_rows)]
    return value_note(path, mtime_ns, sections, rows.kinds)


def move_moments(connection: apsw.Connection, file_id: int, stat: FileStat) -> bool:
    """Change the times of the sections of a file that state no time, if it was saved on another day
    than before; return whether a moment has changed. Call it before the file's row is changed.
    """
    before: Any = connection.execute(_SAVED, (file_id,)).fetchone()
    old_ns, day = before
    new_ns = stat_row(stat)[1]
    if day is None and find_day(old_ns) != find_day(new_ns):
        connection.execute(_MOVE_UNDATED, (find_day(new_ns), file_id))
    old = find_moment(None, None, day, old_ns)
    if old == find_moment(None, None, day, new_ns):
        return False
    rows: list[Any] = connection.execute(_UNDATED, (file_id, old)).fetchall()
    moments = [
        (find_moment(updated, created, None, new_ns), section_id)
        for section_id, updated, created in rows
    ]
    connection.executemany("UPDATE sections SET moment = ? WHERE id = ?", moments)
    return True


def move_standings(connection: apsw.Connection, file_id: int, stat: FileStat) -> None:
    """Change the time with which the standings of a file are listed."""
    statement = "UPDATE standing_files SET mtime_ns = ? WHERE file = ?"
    connection.execute(statement, (stat_row(stat)[1], file_id))


def drop_note(connection: apsw.Connection, rows: Rows, file_id: int, path: str) -> int:
    """Delete a file's rows in all tables; return the number of chunks.

    The chunks are deleted when `rows` are flushed.
    """
    chunk_ids = [
        row[0] for row in connection.execute("SELECT id FROM chunks WHERE file = ?", (file_id,))
    ]
    rows.deleted += chunk_ids
    details = read_details(connection, _OF_FILE, (file_id,))
    are_links_lost = bool(details["links"])
    _note_changes(rows.leading, file_id, details, {}, are_links_new=are_links_lost)
    forget_links(connection, rows.leading, path)
    connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
    return len(chunk_ids)


def _change_details(
    connection: apsw.Connection,
    rows: Rows,
    file_id: int,
    note: Note,
    sections: _SectionChanges,
    before: Details,
    *,
    is_moved: bool = False,
) -> None:
    """Delete the details that differ from those of the note, and collect the new ones. `before`
    are the stored details of the sections that may have changed.
    """
    after = _list_details(file_id, note, sections.ids)
    added, are_links_new = delete_differing(connection, before, after, is_moved=is_moved)
    rows.collect(file_id, note.path, added)
    _note_changes(
        rows.leading,
        file_id,
        before,
        after,
        are_links_new=are_links_new,
        is_moved=is_moved,
        is_parted=sections.is_parted,
    )


def _change_chunks(
    connection: apsw.Connection,
    rows: Rows,
    ids: Ids,
    file_id: int,
    note: Note,
    section_ids: dict[str, int],
    existing: list[ExistingRow],
) -> RowChanges:
    """Move existing chunks, and collect the chunks to delete and the new chunks."""
    expected = [
        (
            (section_ids[chunk.anchor], row.digest),
            (chunk.start, chunk.end, chunk.part, chunk.n_front_lines),
        )
        for chunk, row in zip(note.chunks, make_fts_rows(note), strict=True)
    ]
    plan = plan_row_changes(existing, expected)
    rows.deleted += plan.deleted
    places = [(*expected[index][1], chunk_id) for index, chunk_id in plan.shifted]
    if places:
        columns = "start_line = ?, end_line = ?, part = ?, front_lines = ?"
        connection.executemany(f"UPDATE chunks SET {columns} WHERE id = ?", places)
    _collect_chunks(rows, ids, file_id, note, section_ids, only=plan.inserted)
    return plan


def _delete_chunks(connection: apsw.Connection, chunk_ids: Collection[int]) -> None:
    if chunk_ids:
        keys = [(chunk_id,) for chunk_id in sorted(chunk_ids)]
        connection.executemany("DELETE FROM chunks_fts WHERE rowid = ?", keys)
        connection.executemany("DELETE FROM chunks_exact WHERE rowid = ?", keys)
        connection.executemany("DELETE FROM chunks WHERE id = ?", keys)


def stat_row(stat: FileStat) -> Row:
    """Return the stat as columns of `files`.

    SQLite's integers are signed: large inodes of some file systems and times after 2262 wrap.
    """
    return tuple(number if number <= _INT_MAX else number - _WRAP for number in stat)


def read_stat_row(row: Sequence[int]) -> FileStat:
    """Return the stat from the columns that `stat_row` has made.

    A time before _EARLIEST_NS has wrapped, because no file system has such times. Other values are
    never negative.
    """
    size_bytes, mtime_ns, ctime_ns, inode, device = row
    mtime_ns, ctime_ns = (
        time_ns if time_ns >= _EARLIEST_NS else time_ns + _WRAP for time_ns in (mtime_ns, ctime_ns)
    )
    return FileStat(size_bytes, mtime_ns, ctime_ns, inode % _WRAP, device % _WRAP)


def make_fts_rows(note: Note) -> list[FtsRow]:
    """Return the FTS5 columns of each chunk.

    These are the words of its path and headings, its text, the section's tags, and the front matter
    whose words find it.
    """
    columns = _make_columns(note)
    return [
        _make_fts_row(chunk.text, _add_front_matter(columns[chunk.anchor], note, chunk))
        for chunk in note.chunks
    ]


class _Columns(NamedTuple):
    """The FTS5 columns of a chunk beside its text and subwords, and the folded texts in them whose
    subwords are indexed. Most chunks of a section have the same.
    """

    heading: str
    tags: str
    titles: tuple[str, ...]
    properties: str = ""


def _make_columns(note: Note) -> dict[str, _Columns]:
    """Return the common columns of the chunks of each section, by anchor."""
    words = " ".join((path_words(note.path), *note.aliases))
    names = " ".join((note.path, *note.aliases))
    title = _find_further_title(note, words)
    columns: dict[str, _Columns] = {}
    for s in note.sections:
        titles = (title, *s.heading) if title and s.heading[:1] != (title,) else s.heading
        heading = space_out(fold(" ".join((words, *titles))))
        tags = space_out(fold(" ".join(s.meta.tags)))
        columns[s.anchor] = _Columns(heading, tags, tuple(map(fold, (names, *titles))))
    return columns


def _add_front_matter(columns: _Columns, note: Note, chunk: Chunk) -> _Columns:
    """Add the words of the front matter to the columns of the chunk that they find."""
    if not chunk.n_front_lines:
        return columns
    lines = note.text.split("\n", chunk.n_front_lines)[: chunk.n_front_lines]
    front = blank_marks(fold("\n".join(lines)))
    return columns._replace(titles=(*columns.titles, front), properties=space_out(front))


def _find_further_title(note: Note, words: str) -> str:
    """Return the title that the front matter states; empty if `words` contain it."""
    stated = dict(note.meta.extra).get("title") if note.meta.extra else None
    if not stated or {*path_words(note.title).lower().split()} <= {*words.lower().split()}:
        return ""
    return note.title


def _make_fts_row(text: str, columns: _Columns) -> FtsRow:
    heading, tags, _, properties = columns
    return FtsRow(heading, text, tags, properties, _digest_columns(columns, text))


def _digest_columns(columns: _Columns, text: str) -> bytes:
    heading, tags, _, properties = columns
    return digest_to_bytes(f"{heading}\x1f{tags}\x1f{text}\x1f{properties}")


class _SectionChanges(NamedTuple):
    """The changes of sections: the id of each anchor, the ids of sections to remove, the columns
    that have changed, and whether there are other sections than before, or in another order.
    """

    ids: dict[str, int]
    removed: list[int]
    changed: frozenset[str]
    is_parted: bool


def _change_sections(
    connection: apsw.Connection,
    ids: Ids,
    note: Note,
    section_rows: Sequence[Row],
    existing_rows: Sequence[Row],
) -> _SectionChanges:
    """Write sections that are new or differ. `existing_rows` begin with ids, in order of lines."""
    existing = {row[2]: row for row in existing_rows}
    slugs_before = [*existing]
    section_ids: dict[str, int] = {}
    added: list[Row] = []
    kept: list[tuple[Row, Row]] = []
    for section, row in zip(note.sections, section_rows, strict=True):
        old = existing.pop(row[1], None)
        if old is None:
            section_ids[section.anchor], ids.section = ids.section, ids.section + 1
            added.append((section_ids[section.anchor], *row))
        else:
            section_ids[section.anchor] = old[0]
            kept.append((old, row))
    changed = _update_sections(connection, kept)
    if added:
        connection.executemany(_SECTION, added)
    n_path = len(note.path) + 1
    is_parted = slugs_before != [section.anchor[n_path:] for section in note.sections]
    removed = [row[0] for row in existing.values()]
    return _SectionChanges(section_ids, removed, changed, is_parted)


def _delete_sections(connection: apsw.Connection, section_ids: Sequence[int]) -> None:
    if section_ids:
        keys = [(section_id,) for section_id in section_ids]
        connection.executemany("DELETE FROM sections WHERE id = ?", keys)


def _update_sections(
    connection: apsw.Connection, changes: Iterable[tuple[Row, Row]]
) -> frozenset[str]:
    """Change sections from the first of each pair of rows, which begins with the id, to the second;
    return the columns that have changed. Only the indexes of these columns are written.
    """
    changed: dict[tuple[str, ...], list[Row]] = {}
    for (section_id, *old), row in changes:
        if tuple(old) != row:
            differing = [at for at, value in enumerate(row) if value != old[at]]
            columns = tuple(NAMES_OF_SECTION[at] for at in differing)
            values = (*(row[at] for at in differing), section_id)
            changed.setdefault(columns, []).append(values)
    for columns, rows in changed.items():
        assigned = ", ".join(f"{column} = ?" for column in columns)
        connection.executemany(f"UPDATE sections SET {assigned} WHERE id = ?", rows)
    return frozenset(chain.from_iterable(changed))


def _change_text(connection: apsw.Connection, file_id: int, note: Note) -> None:
    blocks = list(make_blocks(note.text, note.n_lines))
    if connection.execute(TEXTS_OF_FILE, (file_id,)).fetchall() != blocks:
        connection.execute("DELETE FROM texts WHERE file = ?", (file_id,))
        connection.executemany(_TEXT, [(file_id, *block) for block in blocks])


def _patch_text(connection: apsw.Connection, file_id: int, patch: NotePatch) -> None:
    """Rewrite the blocks that hold a changed line, and move the blocks beneath them."""
    kept = connection.execute(_KEPT_BLOCKS, (file_id, patch.first_changed, patch.old_same)).get
    last_above, first_below = kept[0] or 0, kept[1] or patch.note.n_lines - patch.n_shift + 1
    of_file = (file_id, last_above, first_below)
    connection.execute(_DELETE_BLOCKS, of_file)
    if patch.n_shift:
        after = {"file": file_id, "after": first_below, "n": patch.n_shift}
        connection.execute(_SHIFT.format(table="texts"), after)
    lines = patch.note.text.split("\n")[last_above : first_below - 1 + patch.n_shift]
    # The last line gets an end too, because it may be empty.
    blocks = make_blocks("".join(f"{line}\n" for line in lines), len(lines))
    rows = [(file_id, start + last_above, end + last_above, data) for start, end, data in blocks]
    connection.executemany(_TEXT, rows)


def _list_details(file_id: int, note: Note, section_ids: dict[str, int]) -> Details:
    tags: list[Row] = []
    keywords: list[Row] = []
    for section in note.sections:
        section_id = section_ids[section.anchor]
        tags.extend((section_id, tag) for tag in section.meta.tags)
        for key, value in section.meta.extra:
            if key.lower() == "keywords":
                words = {fold_value(word): word for word in map(strip_links, split_list(value))}
                keywords.extend((section_id, word) for word in words.values())
    blocks: list[Row] = [(section_ids[block.anchor], block.name) for block in note.block_names]
    blocks += [(section_ids[section.anchor], key) for section, key in _list_ids(note)]
    return {
        "tags": tags,
        "keywords": keywords,
        "links": [*_list_links(note, section_ids)],
        "blocks": blocks,
        "problems": [(file_id, p.line, p.code, p.problem, p.hint) for p in note.problems],
        "secrets": [(file_id, s.span.start, s.span.end, s.what) for s in note.secrets],
        "names": [(file_id, *pack_name(name)) for name in _list_names(note)],
    }  # fmt: skip


def _list_links(note: Note, section_ids: dict[str, int]) -> Iterator[Row]:
    last: dict[str, int] = {}
    for k in note.links:
        n = last[k.anchor] = last.get(k.anchor, -1) + 1
        key = make_key(k.target)
        yield (
            section_ids[k.anchor], n, k.line, k.target, k.heading, k.relation, k.kind,
            number_key(key) if key else None,
        )  # fmt: skip


def _note_changes(
    changes: LinkChanges,
    file_id: int,
    old: Details,
    new: Details,
    *,
    are_links_new: bool,
    is_moved: bool = False,
    is_parted: bool = False,
) -> None:
    """Note which links may lead elsewhere after a note has changed."""
    names, blocks = (
        ({*old.get(table, ())}, {*new.get(table, ())}) for table in ("names", "blocks")
    )
    changed = names[0] | names[1] if is_moved else names[0] ^ names[1]
    changes.keys.update(key for _, _, key in changed)
    changed = blocks[0] | blocks[1] if is_moved or is_parted else blocks[0] ^ blocks[1]
    # A name that begins with `^` is a name within its note.
    changes.keys.update(name for _, name in changed if name[:1] != "^")
    if is_parted or any(name[:1] == "^" for _, name in blocks[0] ^ blocks[1]):
        changes.parted.add(file_id)
    if are_links_new:
        changes.linking.add(file_id)


def _find_standings(note: Note) -> set[Row]:
    # Most sections have the metadata of the note.
    metas = {id(section.meta): section.meta for section in note.sections}
    standings: set[Row] = {*map(_find_standing, metas.values())}
    standings.discard(NO_STANDING)
    return standings


def _collect_standings(rows: Rows, file_id: int, standings: set[Row], stat: FileStat) -> None:
    mtime_ns = stat_row(stat)[1]
    rows.standings |= standings
    rows.standing_files.extend((file_id, mtime_ns, *standing) for standing in standings)


def _find_standing(meta: Meta) -> tuple[str, str | None, float | None, bool]:
    """Return the values that decide whether a section is worth knowing without a question."""
    if any(tag.lower() == PINNED_TAG for tag in meta.tags):
        mark = "pinned"
    else:
        mark = "project" if meta.lifecycle == "project" else ""
    is_archived = meta.status == ARCHIVED
    if not mark and meta.kind is None and meta.importance is None:
        return NO_STANDING
    return mark, meta.kind, meta.importance, is_archived


def _list_ids(note: Note) -> Iterator[tuple[Section, str]]:
    """Yield the sections that state an id of their own, with its key: a link names them by it."""
    of_note = frozenset(note.meta.extra)
    for section in note.sections:
        if section.meta.extra is not note.meta.extra:
            for pair in section.meta.extra:
                if pair[0].lower() == ID_KEY and pair not in of_note:
                    key = make_id_key(pair[1])
                    if key:
                        yield section, key


def _list_names(note: Note) -> Sequence[str]:
    stated = [value for key, value in note.meta.extra if key.lower() == ID_KEY]
    return list_names(note.path, note.title, (*note.aliases, *stated))


def _collect_chunks(
    rows: Rows,
    ids: Ids,
    file_id: int,
    note: Note,
    section_ids: dict[str, int],
    only: Sequence[int] | None = None,
) -> None:
    """Collect the rows of the note's chunks; `only` limits them to the chunks at these indexes."""
    chunks = note.chunks if only is None else [note.chunks[index] for index in only]
    if not chunks:
        return
    columns = _make_columns(note)
    first, text_of_chunks = 1, note.text
    if only is not None:  # a few lines of a large note
        first = min(chunk.start for chunk in chunks)
        last = max(chunk.end for chunk in chunks)
        text_of_chunks = "\n".join(note.text.split("\n")[first - 1 : last])
    folded = fold(text_of_chunks)
    is_folding = folded is not text_of_chunks
    blanker = MarkBlanker(folded)
    find_subwords = SubwordFinder(blanker.whole).find
    add_chunk, add_fts = rows.chunks.append, rows.fts.append
    for chunk_id, chunk in enumerate(chunks, ids.chunk):
        text, start, anchor = chunk.text, chunk.start, chunk.anchor
        of_chunk = columns[anchor]
        if chunk.n_front_lines:
            of_chunk = _add_front_matter(of_chunk, note, chunk)
        add_chunk((
            chunk_id, file_id, section_ids[anchor], start, chunk.end, chunk.part,
            chunk.n_front_lines, count_tokens(text), _digest_columns(of_chunk, text),
        ))  # fmt: skip
        if is_folding:
            text = fold(text)
        if blanker.has_marks:
            text = blanker.blank(text)
        heading, tags, titles, properties = of_chunk
        subwords = find_subwords(titles, text, start - first + 1)
        add_fts((chunk_id, heading, space_out(text), tags, subwords, properties))
    ids.chunk += len(chunks)


def _file_row(rows: Rows, file_id: int, note: Note, stat: FileStat, read_at_ns: int) -> Row:
    return (
        file_id, note.path, note.digest, *stat_row(stat), read_at_ns, rows.generation,
        note.n_lines, note.title, find_note_date(note.path, note.meta), note.meta.kind,
        to_json_list(note.meta.tags) if note.meta.tags else "",
        _find_topic(_list_pairs(note.meta.extra)) or None, _encode_extra(note.meta.extra),
        None if note.sections else 1,
    )  # fmt: skip


def _make_section_rows(file_id: int, note: Note, stat: FileStat) -> Iterator[Row]:
    """Yield the columns of each section, without its id and its outlook."""
    n_path = len(note.path) + 1
    # Most sections have the metadata of the note, so the date is not read again for each of them.
    days: dict[tuple[str | None, int], str | None] = {}
    moments: dict[tuple[str | None, ...], int] = {}
    of_note = frozenset(note.meta.extra)
    day_of_note = find_stated_date(note.meta)
    day_of_file, mtime_ns = find_note_date(note.path, note.meta), stat_row(stat)[1]
    day_of_save = find_day(mtime_ns)
    with_text = find_with_text(note)
    for section in note.sections:
        meta = section.meta
        key = meta.created, id(meta.extra)
        if key not in days:
            days[key] = find_stated_date(meta)
        day = days[key]
        # A day that the section itself states comes first, then its headings, then its note.
        if day == day_of_note:
            day = find_heading_date(section.heading) or day
        times = meta.updated, meta.created, day or day_of_file
        if times not in moments:
            moments[times] = find_moment(*times, mtime_ns)
        own = None if meta.extra is note.meta.extra else _list_pairs(meta.extra, beside=of_note)
        yield (
            file_id, section.anchor[n_path:], to_json_list(section.heading), section.level,
            section.start, section.end, meta.kind, meta.importance, meta.priority,
            meta.lifecycle, meta.status, meta.task, meta.session, meta.source, meta.created,
            meta.updated, meta.expires and parse_expiry(meta.expires), day,
            _find_topic(own) if own else None, moments[times],
            meta.created or day or day_of_file or day_of_save,
            None if section.anchor in with_text else 1,
            _to_json(own) if own else None,
        )  # fmt: skip


Pairs = tuple[tuple[str, str], ...]

# Hits return the values of front matter, which may be texts of 64 KiB: each is cut to this length.
MAX_EXTRA_CHARS = 1000


def _encode_extra(extra: Pairs) -> str | None:
    """Encode the pairs; None if there are none."""
    return _to_json(_list_pairs(extra)) if extra else None


def _list_pairs(extra: Pairs, *, beside: Collection[tuple[str, str]] = ()) -> dict[str, str]:
    """Return the pairs that are not in `beside`, as they are stored."""
    return {
        key: strip_links(value[:MAX_EXTRA_CHARS])
        for key, value in extra
        if (key, value) not in beside
    }


def _find_topic(pairs: dict[str, str]) -> str | None:
    topic = pairs.get("topic")
    return pairs.get("Topic") if topic is None else topic


def to_json_list(words: Sequence[str]) -> str:
    # The encoder is faster for a single string than for a list, and each section has a heading.
    return f"[{', '.join(map(_word_to_json, words))}]"
