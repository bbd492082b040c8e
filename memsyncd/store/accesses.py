"""Count in records.db how often sections were recalled, and keep the counts at their sections.

A row has the note's path and the section's slugs, which are the part of its anchor after `#`. Rows
are valid as of a revision of the history, the cursor. When somebody needs the counts, `relocate`
applies the changes that later revisions made to notes and headings; so a save of a note costs
nothing here.
A session counts once for each section; accesses without a session count each time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apsw
import msgspec

from memsyncd.store.connection import transaction, translating_errors

# The path of a note, and the slugs of a section.
SectionKey = tuple[str, str]
# The number of sessions that are remembered for all sections together: 10 MB. The oldest go first.
MAX_SESSIONS = 200_000
# If more revisions than this, without a section that has a count, follow the cursor, it advances.
SKIP_AFTER = 256
# Keys in `meta`: the revision as of which the rows are valid, and the last move that was applied.
_CURSOR, _MOVE_CURSOR = "accesses_revision", "accesses_move"
NO_LIMIT = 2**63 - 1
# A path that no note has. Rows have it while they are relocated.
_NOWHERE = "\0"

_ADD = """
INSERT INTO accesses(path, section, count, last_at) VALUES(?1, ?2, ?3, ?4)
ON CONFLICT(path, section) DO UPDATE SET
  count = count + excluded.count, last_at = max(last_at, excluded.last_at)
RETURNING id
"""
_TOUCH = """
UPDATE accesses SET last_at = max(last_at, ?) WHERE path = ? AND section = ? RETURNING id
"""
_ADD_SESSION = """
INSERT INTO access_sessions(access, session, at) VALUES(?1, ?2, ?3)
ON CONFLICT(access, session) DO UPDATE SET at = max(at, excluded.at)
"""
_KNOWS_SESSION = """
SELECT 1 FROM access_sessions JOIN accesses ON accesses.id = access
WHERE path = ? AND section = ? AND session = ?
"""
_NEXT_CHANGE_SET = """
SELECT change_set FROM revisions WHERE id > ? AND id <= ? AND (
  EXISTS(SELECT 1 FROM accesses WHERE accesses.path = revisions.path)
  OR EXISTS(SELECT 1 FROM accesses WHERE accesses.path = revisions.old_path)
) ORDER BY id LIMIT 1
"""
_OF_CHANGE_SET = """
SELECT revisions.id, revisions.path, old_path, old_digest, new_digest, command
FROM revisions JOIN change_sets ON change_sets.id = change_set
WHERE change_set = ? ORDER BY revisions.id
"""
_NEXT_MOVES = """
SELECT id, old_path, new_path FROM moves WHERE id > ? ORDER BY id
"""
_MERGE = """
UPDATE accesses SET last_at = max(last_at, ?3), count = count + ?2 - (
  SELECT count(*) FROM access_sessions AS own JOIN access_sessions AS other
  ON other.session = own.session WHERE own.access = ?1 AND other.access = ?4
) WHERE id = ?1
"""
_MERGE_SESSIONS = """
INSERT INTO access_sessions SELECT ?1, session, at FROM access_sessions WHERE access = ?2
ON CONFLICT(access, session) DO UPDATE SET at = max(at, excluded.at)
"""
_TRIM = """
DELETE FROM accesses WHERE id IN (
  SELECT id FROM accesses ORDER BY last_at, id
  LIMIT max(0, (SELECT count(*) FROM accesses) - ?)
)
"""
_TRIM_SESSIONS = """
DELETE FROM access_sessions WHERE (access, session) IN (
  SELECT access, session FROM access_sessions ORDER BY at
  LIMIT max(0, (SELECT count(*) FROM access_sessions) - ?)
)
"""
_OF_PLACE = """
(?1 IS NULL OR path = ?1 OR path >= ?1 || '/' AND path < ?1 || '0') AND
(?2 IS NULL OR section = ?2 OR section >= ?2 || '/' AND section < ?2 || '0')
"""


class AccessCount(msgspec.Struct, frozen=True):
    """How often a section was recalled, and the time of the last recall."""

    count: int
    last_at_s: float


class Recalls(msgspec.Struct, kw_only=True):
    """Accesses of a section that are not stored yet: `n` without a session, and the sessions."""

    n: int = 0
    sessions: set[str] = msgspec.field(default_factory=set)
    last_at_s: float = 0.0


class NoteRevision(NamedTuple):
    """The change that a change set made to a note; a digest is None for no file."""

    id: int
    path: str
    old_path: str | None
    old_digest: str | None
    new_digest: str | None
    command: str


class SectionAccess(msgspec.Struct, frozen=True):
    """A stored count. `n_sessions` is the number of counted sessions that are still remembered."""

    path: str
    slugs: str
    count: int
    last_at_s: float
    n_sessions: int


class Accesses:
    """The counts in a records.db, for the writer's thread.

    Methods that write must be called inside `changing`. All raise the classes of
    `translating_errors`.
    """

    def __init__(self, writer: apsw.Connection) -> None:
        self._writer = writer
        with translating_errors():
            # While no cursor is stored, there are no rows that earlier revisions could concern.
            self._first = {
                _CURSOR: self._last("revisions"),
                _MOVE_CURSOR: self._last("moves"),
            }

    def changing(self) -> contextlib.AbstractContextManager[None]:
        """Return the context of a transaction."""
        return transaction(self._writer)

    @contextlib.contextmanager
    def supposing(
        self, recalls: Mapping[SectionKey, Recalls], *, max_sections: int
    ) -> Iterator[None]:
        """Let the body read the counts as if these accesses were stored; then roll back."""
        if not recalls:
            yield
            return
        with translating_errors():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                as_of = self._read_cursor(_CURSOR)
                self.add(recalls, as_of=as_of, max_sections=max_sections)
                yield
            finally:
                self._writer.execute("ROLLBACK")

    # --- counting ---

    def add(self, recalls: Mapping[SectionKey, Recalls], *, as_of: int, max_sections: int) -> None:
        """Add accesses of sections; the names of the sections are those as of revision `as_of`.

        The rows must be valid as of that revision. Counts of the sections whose last recall is
        longest ago are dropped, so that `max_sections` remain.
        """
        self.set_cursor(revision=max(as_of, self._read_cursor(_CURSOR)))
        for (path, slugs), recall in recalls.items():
            new = [name for name in recall.sessions if not self._knows(path, slugs, name)]
            n = recall.n + len(new)
            # If nothing counts anew, the sessions are remembered, so the row exists.
            id_ = (
                self._writer.execute(_ADD, (path, slugs, n, recall.last_at_s)).get
                if n
                else self._writer.execute(_TOUCH, (recall.last_at_s, path, slugs)).get
            )
            sessions = ((id_, name, recall.last_at_s) for name in recall.sessions)
            self._writer.executemany(_ADD_SESSION, sessions)
        self._writer.execute(_TRIM, (max_sections,))
        self._writer.execute(_TRIM_SESSIONS, (MAX_SESSIONS,))

    def _knows(self, path: str, slugs: str, session: str) -> bool:
        return self._writer.execute(_KNOWS_SESSION, (path, slugs, session)).get is not None

    def skip_unrelated(self) -> None:
        """Advance the cursor after `next_change_set` found nothing, if that saves enough work."""
        last = self._last("revisions")
        if last - self._read_cursor(_CURSOR) > SKIP_AFTER:
            with transaction(self._writer):
                self.set_cursor(revision=last)

    def _last(self, table: str) -> int:
        return int(self._writer.execute(f"SELECT coalesce(max(id), 0) FROM {table}").get)

    # --- following the notes ---

    def next_change_set(self, up_to: int) -> list[NoteRevision]:
        """Return the revisions of the first change set after the cursor that concerns a row.

        Only change sets with such a revision at `up_to` or before count. Empty if there is none.
        """
        with translating_errors():
            cursor = self._read_cursor(_CURSOR)
            number = self._writer.execute(_NEXT_CHANGE_SET, (cursor, up_to)).get
            rows: list[Any] = self._writer.execute(_OF_CHANGE_SET, (number,)).fetchall()
        return [NoteRevision._make(row) for row in rows]

    def next_moves(self) -> list[tuple[int, str, str]]:
        """Return number, old and new path of the moves of notes after the cursor."""
        with translating_errors():
            cursor = self._read_cursor(_MOVE_CURSOR)
            rows: list[Any] = self._writer.execute(_NEXT_MOVES, (cursor,)).fetchall()
            return rows

    def set_cursor(self, revision: int | None = None, move: int | None = None) -> None:
        """Record that the rows are valid as of this revision and this move."""
        for key, value in ((_CURSOR, revision), (_MOVE_CURSOR, move)):
            if value is not None:
                statement = "INSERT OR REPLACE INTO meta VALUES(?, ?)"
                self._writer.execute(statement, (key, str(value)))

    def _read_cursor(self, key: str) -> int:
        stored = self._writer.execute("SELECT value FROM meta WHERE key = ?", (key,)).get
        return self._first[key] if stored is None else int(stored)

    def find_slugs(self, path: str) -> set[str]:
        """Return the sections of a note that have a count."""
        with translating_errors():
            rows = self._writer.execute("SELECT section FROM accesses WHERE path = ?", (path,))
            return {str(row[0]) for row in rows.fetchall()}

    def relocate(self, moves: Iterable[tuple[SectionKey, SectionKey]]) -> None:
        """Move counts to other sections, all at the same time: two notes may have swapped paths.

        If a section already has a count, it gets the sum; a session that both have counts once.
        """
        waiting: list[tuple[int, SectionKey]] = []
        for old, new in moves:
            if old == new:
                continue
            statement = "SELECT id FROM accesses WHERE path = ? AND section = ?"
            id_ = self._writer.execute(statement, old).get
            if id_ is not None:
                away = "UPDATE accesses SET path = ?, section = ? WHERE id = ?"
                self._writer.execute(away, (_NOWHERE, str(id_), id_))
                waiting.append((int(id_), new))
        for id_, new in waiting:
            self._put(id_, new)

    def _put(self, id_: int, key: SectionKey) -> None:
        there = "SELECT id FROM accesses WHERE path = ? AND section = ?"
        present = self._writer.execute(there, key).get
        if present is None:
            arrive = "UPDATE accesses SET path = ?, section = ? WHERE id = ?"
            self._writer.execute(arrive, (*key, id_))
            return
        read = "SELECT count, last_at FROM accesses WHERE id = ?"
        [(count, last_at_s)] = self._writer.execute(read, (id_,)).fetchall()
        self._writer.execute(_MERGE, (present, count, last_at_s, id_))
        self._writer.execute(_MERGE_SESSIONS, (present, id_))
        self._writer.execute("DELETE FROM accesses WHERE id = ?", (id_,))

    # --- reading ---

    def find(
        self,
        *,
        path: str | None = None,
        slugs: str | None = None,
        is_by_time: bool = False,
        limit: int = -1,
    ) -> list[SectionAccess]:
        """Return the counts of a note or folder, or of a section and the sections beneath it.

        The largest come first; with `is_by_time` the latest.
        """
        order = "last_at DESC, count DESC" if is_by_time else "count DESC, last_at DESC"
        statement = (
            "SELECT path, section, count, last_at,"
            " (SELECT count(*) FROM access_sessions WHERE access = id)"
            f" FROM accesses WHERE {_OF_PLACE} ORDER BY {order}, path, section LIMIT ?3"
        )
        with translating_errors():
            rows: list[Any] = self._writer.execute(statement, (path, slugs, limit)).fetchall()
        return [SectionAccess(*row) for row in rows]

    def total(self, *, path: str | None = None, slugs: str | None = None) -> tuple[int, int]:
        """Return the number of sections with a count, and the sum of the counts."""
        statement = f"SELECT count(*), coalesce(sum(count), 0) FROM accesses WHERE {_OF_PLACE}"
        with translating_errors():
            rows: list[Any] = self._writer.execute(statement, (path, slugs)).fetchall()
        [(n_sections, n)] = rows
        return n_sections, n

    # --- purge ---

    def purge(
        self, *, path: str | None = None, slugs: str | None = None, words: Sequence[str] = ()
    ) -> int:
        """Drop counts and return the number of sections.

        With `words`, every count is dropped whose path, section or session contains one of them.
        Otherwise the counts of a place are dropped, as in `find`; without a place, all counts.
        """
        with transaction(self._writer):
            n_before = self._count()
            if not words:
                self._writer.execute(f"DELETE FROM accesses WHERE {_OF_PLACE}", (path, slugs))
            for word in words:
                self._writer.execute("DELETE FROM access_sessions WHERE instr(session, ?)", (word,))
                statement = "DELETE FROM accesses WHERE instr(path, ?1) OR instr(section, ?1)"
                self._writer.execute(statement, (word,))
            return n_before - self._count()

    def _count(self) -> int:
        return int(self._writer.execute("SELECT count(*) FROM accesses").get)


def read_all_accesses(connection: apsw.Connection) -> dict[str, AccessCount]:
    """Return every count by the section's anchor. Raises apsw's exceptions."""
    rows = connection.execute("SELECT path, section, count, last_at FROM accesses")
    return {f"{path}#{slugs}": AccessCount(count, at_s) for path, slugs, count, at_s in rows}
