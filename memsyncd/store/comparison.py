"""Does the index say of a note what reading it anew says? Row by row, in words of the note: ids are left out.

The rows that should stand are made by the same functions that write them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from memsyncd.core.changes.diff import Recorded
from memsyncd.core.model import Note
from memsyncd.store.notes import Ids, Row, Rows, add_note, read_stat_row
from memsyncd.store.readers import Reader

_RECORDED = "SELECT size, mtime_ns, ctime_ns, inode, device, digest, read_at_ns FROM files WHERE path = ?"
_STANDING = {
    "file": "SELECT digest, size, lines, title, day, kind, tags FROM files WHERE path = ?",
    "sections": "SELECT s.anchor, s.heading, s.level, s.start_line, s.end_line, s.kind, s.importance, s.priority, s.lifecycle,"
    " s.status, s.task, s.session, s.source, s.created, s.expires, s.day, s.extra"
    " FROM files f JOIN sections s ON s.file = f.id WHERE f.path = ?",
    "tags": "SELECT s.anchor, t.tag FROM files f JOIN sections s ON s.file = f.id JOIN tags t ON t.section = s.id"
    " WHERE f.path = ?",
    "links": "SELECT s.anchor, l.line, l.target, l.heading, l.relation FROM files f JOIN sections s ON s.file = f.id"
    " JOIN links l ON l.section = s.id WHERE f.path = ?",
    "problems": "SELECT p.line, p.code, p.problem, p.hint FROM files f JOIN problems p ON p.file = f.id WHERE f.path = ?",
    "secrets": "SELECT s.start_line, s.end_line, s.what FROM files f JOIN secrets s ON s.file = f.id WHERE f.path = ?",
    "chunks": "SELECT s.anchor, c.start_line, c.end_line, c.tokens, c.digest, t.heading, t.text, t.tags, t.parts"
    " FROM files f JOIN chunks c ON c.file = f.id JOIN sections s ON s.id = c.section"
    " LEFT JOIN chunks_fts t ON t.rowid = c.id WHERE f.path = ?",
}
_EXACT_WITHOUT_CHUNK = "SELECT count(*) FROM chunks_exact_docsize WHERE id NOT IN (SELECT id FROM chunks)"
_FTS_WITHOUT_CHUNK = "SELECT count(*) FROM chunks_fts_docsize WHERE id NOT IN (SELECT id FROM chunks)"
_CHUNK_WITHOUT_EXACT = "SELECT count(*) FROM chunks WHERE id NOT IN (SELECT id FROM chunks_exact_docsize)"
_OTHER_SIZES = "SELECT count(*) FROM chunks_fts_docsize a JOIN chunks_exact_docsize b ON b.id = a.id WHERE a.sz <> b.sz"
_CHUNK_ASTRAY = "SELECT count(*) FROM chunks c JOIN sections s ON s.id = c.section WHERE s.file <> c.file"
_ASTRAY = {
    "text of chunks that are gone can still be found": _FTS_WITHOUT_CHUNK,
    "words of chunks that are gone can still be found": _EXACT_WITHOUT_CHUNK,
    "chunks cannot be found by their words as they are written": _CHUNK_WITHOUT_EXACT,
    "chunks have other words as they are written than as they are stemmed": _OTHER_SIZES,
    "chunks stand under sections of other notes": _CHUNK_ASTRAY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`part` of a note, such as its chunks, of which the index lacks some rows and has others that it should not."""

    part: str
    n_lacking: int
    n_surplus: int


def read_paths(reader: Reader) -> list[str]:
    """Every note that is indexed."""
    return [str(row[0]) for row in reader.rows("SELECT path FROM files ORDER BY path")]


def read_recorded(reader: Reader, path: str) -> Recorded | None:
    """What the index recorded of a note's file, if it has the note."""
    rows = reader.rows(_RECORDED, (path,))
    if not rows:
        return None
    *stat, digest, read_at_ns = rows[0]
    return Recorded(stat=read_stat_row(stat), digest=str(digest), read_at_ns=int(read_at_ns))


def compare_note(reader: Reader, note: Note, recorded: Recorded) -> list[Difference]:
    """In which parts the rows of this note are not those of `note`, read from a file of which `recorded` tells."""
    wanted = _find_wanted(note, recorded)
    found = []
    for part, statement in _STANDING.items():
        should, stand = Counter(wanted[part]), Counter(reader.rows(statement, (note.path,)))
        if should != stand:
            found.append(Difference(part=part, n_lacking=(should - stand).total(), n_surplus=(stand - should).total()))
    return found


def find_strays(reader: Reader) -> list[str]:
    """What the index holds that belongs to no note, in words."""
    counted = {what: int(reader.rows(statement)[0][0]) for what, statement in _ASTRAY.items()}
    strays = [f"{what} ({n:,})" for what, n in counted.items() if n]
    n_lost = _count_lost_words(reader)
    return [*strays, f"words as they are written cannot be found, or are found too often ({n_lost:,})"] if n_lost else strays


def _count_lost_words(reader: Reader) -> int:
    """By how many words the index of words as they are written differs from what it says of its chunks' sizes.

    Neither the text nor the words of that table can be compared by FTS5 itself, since it has no text; the sizes can be, with
    those of the other table, which FTS5 does compare with its text.
    """
    indexed = int(reader.rows("SELECT coalesce(sum(cnt), 0) FROM words_exact")[0][0])
    counted = sum(sum(read_varints(row[0])) for row in reader.rows("SELECT sz FROM chunks_exact_docsize"))
    return abs(indexed - counted)


def read_varints(data: bytes) -> list[int]:
    """SQLite's varints, one after the other: seven bits a byte, the high bit says that more follow."""
    numbers, number = [], 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    return numbers


def _find_wanted(note: Note, recorded: Recorded) -> dict[str, list[Row]]:
    rows = Rows()
    add_note(rows, Ids(0, 0, 0), note, recorded.stat, recorded.read_at_ns)
    anchors = {row[0]: row[2] for row in rows.sections}
    file = rows.files[0]
    texts = {row[0]: row[1:] for row in rows.fts}
    return {
        "file": [(file[2], file[3], *file[9:])],
        "sections": [row[2:] for row in rows.sections],
        "tags": list(dict.fromkeys((anchors[row[0]], row[1]) for row in rows.tags)),
        "links": list(_with_anchors(rows.links, anchors)),
        "problems": [row[1:] for row in rows.problems],
        "secrets": [row[1:] for row in rows.secrets],
        "chunks": [(anchors[row[2]], *row[3:], *texts[row[0]]) for row in rows.chunks],
    }


def _with_anchors(rows: Iterable[Row], anchors: dict[Any, str]) -> Iterable[Row]:
    return ((anchors[row[0]], *row[1:]) for row in rows)
