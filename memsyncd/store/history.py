"""Record what notes contained before, and who changed them when.

A change set is a request of a client; a revision is the change that it made to a single note.
Before a file is changed, its change set is recorded as intended, with the text on the disk and the
new text. Afterwards it is settled: the disk shows what has happened. Changes by other programs are
recorded when they are noticed, as change sets without a client. A note that existed before it was
noticed gets a revision of the command FIRST_SEEN, which no undo takes back. The head of a note is
its last known digest, with the attributes of its file; the text of a head is kept, so that the next
external change has a former text.

Every method of `History` is a single commit, which is on the disk when the method returns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import apsw
import msgspec

from memsyncd.core.digest import digest_bytes
from memsyncd.core.model import Attributes
from memsyncd.errors import StoreFull
from memsyncd.store.blobs import Blobs
from memsyncd.store.connection import transaction, translating_errors
from memsyncd.store.integrity import FileGuard
from memsyncd.store.pool import encode_numbers

# --- revisions ----------------------------------------------------------------------------------

_COLUMNS = """
SELECT revisions.id, change_set, at, client, command, revisions.path, old_path, old_digest,
  new_digest, old.size, new.size, old_mode, old_mtime_ns, new_mode, new_mtime_ns
FROM revisions JOIN change_sets ON change_sets.id = change_set
LEFT JOIN blobs AS old ON old.digest = old_digest
LEFT JOIN blobs AS new ON new.digest = new_digest
"""
# Before a rename, a note's history continues under its former path. The history of a folder
# continues in the same way for each note in it.
_TRAIL = """
WITH RECURSIVE steps(path, before) AS (
  SELECT :path, :end
  UNION
  SELECT path, :end FROM revisions WHERE path >= :path || '/' AND path < :path || '0'
  UNION
  SELECT old_path, :end FROM revisions WHERE old_path >= :path || '/' AND old_path < :path || '0'
  UNION
  SELECT old_path, id FROM steps CROSS JOIN revisions
  WHERE revisions.path = steps.path AND id < before AND old_path IS NOT NULL AND state = 'done'
), trail(path, before) AS (
  SELECT path, max(before) FROM steps GROUP BY path
)
"""
_OF_TRAIL = """revisions.id IN (
  SELECT id FROM trail CROSS JOIN revisions WHERE revisions.path = trail.path AND id < before
  UNION SELECT id FROM trail CROSS JOIN revisions WHERE old_path = trail.path AND id < before
)"""
_BEFORE_CHANGE_SET = """change_set <> :before_change_set AND revisions.id < (
  SELECT max(id) FROM revisions WHERE change_set = :before_change_set
)"""
_IS_INTENDED = (
    "revisions.id IN"
    " (SELECT id FROM revisions INDEXED BY revisions_intended WHERE state = 'intended')"
)
# The command of the change set ?1, if at least one of its notes was not changed by a later request.
# Change sets without a client are no requests.
_LAST_CHANGE = """
SELECT command FROM change_sets WHERE id = ?1 AND EXISTS(
  SELECT 1 FROM revisions AS part WHERE part.change_set = ?1 AND NOT EXISTS(
    SELECT 1 FROM revisions AS later JOIN change_sets AS other ON other.id = later.change_set
    WHERE part.path IN (later.path, later.old_path) AND later.id > part.id
    AND other.command NOT IN ('external', 'first_seen')
  )
)
"""
_END = 2**63 - 1
# The columns of attributes that are not known.
UNKNOWN = (None, None)
NO_ATTRIBUTES: Mapping[str, Attributes] = {}


class Revision(msgspec.Struct, frozen=True):
    """One change of one note.

    A digest is None for no file; `old_path` is the path before a move. `old_bytes` and `new_bytes`
    are sizes of texts; None if there is no text or if it is no longer kept. `is_kept` is true if
    every text of the revision is stored and not known to be damaged. `client` is empty for an
    external change. Attributes are None where they are not known.
    """

    id: int
    change_set: int
    at_s: float
    client: str
    command: str
    path: str
    old_path: str | None
    old_digest: str | None
    new_digest: str | None
    old_bytes: int | None
    new_bytes: int | None
    is_kept: bool
    old_attributes: Attributes | None = None
    new_attributes: Attributes | None = None


class RevisionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions for revisions; None is no condition.

    `before` excludes the revision with this number and all later ones, `before_change_set` all
    revisions of this change set, and revisions later than its last. `writer` is the client.
    Times are in seconds since 1970: at `since_s` or later, and earlier than `until_s`.
    """

    revision: int | None = None
    change_set: int | None = None
    before: int | None = None
    before_change_set: int | None = None
    writer: str | None = None
    since_s: float | None = None
    until_s: float | None = None


EVERY_REVISION = RevisionFilter()


def _read_revision(row: Any, damaged: set[str]) -> Revision:
    change, (old_mode, old_mtime_ns, new_mode, new_mtime_ns) = row[:-4], row[-4:]
    old_digest, new_digest, old_bytes, new_bytes = change[-4:]
    sides = ((old_digest, old_bytes), (new_digest, new_bytes))
    is_kept = all(
        digest is None or (size is not None and digest not in damaged) for digest, size in sides
    )
    attributes = _read_attributes(old_mode, old_mtime_ns), _read_attributes(new_mode, new_mtime_ns)
    fields: Any = (*change, is_kept, *attributes)
    return Revision(*fields)


def _read_attributes(mode: int | None, mtime_ns: int | None) -> Attributes | None:
    return None if mode is None or mtime_ns is None else Attributes(mode, mtime_ns)


# --- history ------------------------------------------------------------------------------------

# The commands of change sets without a client: another program changed the notes, or the notes
# existed before they were noticed.
EXTERNAL, FIRST_SEEN = "external", "first_seen"
# A call of `prune` drops at most so many revisions, so that writers need not wait long.
PRUNE_STEP = 200
# Keys in `meta`: the scope whose notes have all been observed; and a mark that purged text may
# still be in free pages of the file.
_COMPLETE, UNWIPED = "is_complete", "is_unwiped"
# The prefix of a key in `meta` for each change set that has happened only in part.
_HALF_DONE = "half_done/"

_ADD_CHANGE_SET = (
    "INSERT INTO change_sets(at, client, command, path, new_path) VALUES(?,?,?,?,?) RETURNING id"
)
_HAS_CHANGE_SET = "SELECT id FROM change_sets WHERE id = ?"
_ADD_REVISION = """INSERT INTO revisions
(change_set, path, old_path, old_digest, new_digest, state,
  old_mode, old_mtime_ns, new_mode, new_mtime_ns) VALUES(?,?,?,?,?,?,?,?,?,?)"""
_TOO_OLD = """
SELECT revisions.id FROM change_sets JOIN revisions ON change_set = change_sets.id
WHERE at < ? AND state = 'done' ORDER BY revisions.id LIMIT ?
"""
_NOTES_WITH_MANY = "SELECT path FROM revisions GROUP BY path HAVING count(*) > ? LIMIT ?"
_TOO_MANY = """
SELECT id FROM (
  SELECT id FROM revisions WHERE path = ? AND state = 'done' ORDER BY id DESC LIMIT -1 OFFSET ?
) ORDER BY id LIMIT ?
"""
_DIGESTS_OF = """
SELECT old_digest FROM revisions WHERE id IN (SELECT value FROM json_each(?1))
AND old_digest IS NOT NULL
UNION SELECT new_digest FROM revisions WHERE id IN (SELECT value FROM json_each(?1))
AND new_digest IS NOT NULL
"""
# True if a head or another revision than these names a text.
_IS_NAMED_BESIDE = """
WITH these(id) AS (SELECT value FROM json_each(?2))
SELECT EXISTS(SELECT 1 FROM heads WHERE digest = ?1)
OR EXISTS(SELECT 1 FROM revisions WHERE old_digest = ?1 AND id NOT IN these)
OR EXISTS(SELECT 1 FROM revisions WHERE new_digest = ?1 AND id NOT IN these)
"""
_DROP_REVISION = "DELETE FROM revisions WHERE id = ? RETURNING change_set, old_digest, new_digest"
_DROP_EMPTY_CHANGE_SET = """DELETE FROM change_sets
WHERE id = ?1 AND NOT EXISTS(SELECT 1 FROM revisions WHERE change_set = ?1)"""


class Intended(msgspec.Struct, frozen=True, kw_only=True):
    """The intended change of a note. `old` and `new` are whole texts; None means no file.

    `old_path` is the path before a move. `new_attributes` are for a file that is created again.
    """

    path: str
    old_path: str | None = None
    old: bytes | None
    new: bytes | None
    old_attributes: Attributes | None = None
    new_attributes: Attributes | None = None


class ObservedNote(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a note on the disk: None if it is gone. `moved_from` is its former path.

    `is_new` is true if there is evidence that another program has created the note just now.
    Without this evidence, a note without a head is taken as older.
    """

    path: str
    data: bytes | None
    moved_from: str | None = None
    is_new: bool = False
    attributes: Attributes | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A note's change, in digests; None means no file. `old_path` is its path before a move."""

    path: str
    old_path: str | None = None
    old_digest: str | None
    new_digest: str | None
    old_attributes: Attributes | None = None
    new_attributes: Attributes | None = None


class Purged(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a purge.

    `is_clean` is true if the files contain no trace of the dropped texts; otherwise another program
    is reading the files and has to end first. `digests` are the digests of the dropped texts; the
    current text of a note is never among them.
    """

    n_revisions: int
    n_texts: int
    digests: frozenset[str]
    is_clean: bool


class History:
    """The history in a records.db, for the writer's thread.

    `last_revision` is the number of the latest revision, which any thread may read. Methods raise
    the classes of `translating_errors`.
    """

    def __init__(self, writer: apsw.Connection, file_guard: FileGuard) -> None:
        self._writer = writer
        self._file_guard = file_guard
        self._blobs = Blobs(writer)
        with translating_errors():
            self._is_clean = not self._has(UNWIPED)
            self.last_revision = self._read_last()
        self._intended: set[int] | None = None
        """The change sets that are not settled; None if they are not known."""

    @property
    def is_settled(self) -> bool:
        """True if `find_intended` is known to find nothing."""
        return self._intended is not None and not self._intended

    def begin(
        self,
        *,
        at_s: float,
        client: str,
        command: str,
        path: str,
        new_path: str | None = None,
        changes: Sequence[Intended],
        continues: int | None = None,
    ) -> int:
        """Record an intended change set; return its number. The paths are as in the request.

        The changes are added to the change set `continues`, if the history has it: its earlier
        changes are settled.
        """
        # A commit may have happened although it fails.
        intended, self._intended = self._intended, None
        with transaction(self._writer):
            number = self._find_change_set(continues)
            if number is None:
                number = self._add_change_set((at_s, client, command, path, new_path))
            self._add_revisions(number, [self._keep(change) for change in changes], "intended")
        self._intended = None if intended is None else intended | {number}
        self.last_revision = self._read_last()
        return number

    def finish(self, number: int, attributes: Mapping[str, Attributes] = NO_ATTRIBUTES) -> None:
        """Record that a whole change set has happened.

        `attributes` are the attributes of the written files, by path.
        """
        happened = [revision.id for revision in self._find_intended_of(number)]
        self.settle(number, happened, attributes=attributes)

    def discard(self, number: int) -> None:
        """Record that nothing of a change set has happened."""
        self.settle(number, [])

    def forget_intended(self, number: int) -> None:
        """Drop a change set like `discard`, and wipe it from the files."""
        self.discard(number)
        with translating_errors():
            self._is_clean = self._file_guard.truncate_wal() and self._is_clean

    def settle(
        self,
        number: int,
        happened: Collection[int],
        *,
        is_half_done: bool = False,
        attributes: Mapping[str, Attributes] = NO_ATTRIBUTES,
    ) -> None:
        """Record that exactly these revisions of an intended change set have happened.

        A change set that is already settled stays as it is. `is_half_done` marks it for
        `find_half_done`.
        """
        with transaction(self._writer):
            if is_half_done and happened:
                self._mark(f"{_HALF_DONE}{number}")
            intended = self._find_intended_of(number)
            self._forget([revision.id for revision in intended if revision.id not in happened])
            statement = "UPDATE revisions SET state = 'done' WHERE change_set = ?"
            self._writer.execute(statement, (number,))
            done = _leave_out_renamed(revision for revision in intended if revision.id in happened)
            self._apply_to_heads(done, attributes)
        if self._intended is not None:
            self._intended.discard(number)

    def leave_out(self, number: int, path: str) -> None:
        """Drop the change of a note from an intended change set: it will not happen."""
        with transaction(self._writer):
            intended = self._find_intended_of(number)
            self._forget([revision.id for revision in intended if revision.path == path])

    def find_intended(self) -> list[tuple[int, list[Revision]]]:
        """Return the change sets that a crash or a full disk has left unsettled."""
        revisions = self._select_intended()
        self._intended = {revision.change_set for revision in revisions}
        groups = groupby(revisions, key=lambda revision: revision.change_set)
        return [(number, list(group)) for number, group in groups]

    def find_half_done(self) -> list[tuple[int, str]]:
        """Return number and command of the change sets that have happened only in part.

        A change set is omitted if later requests, such as an undo, have changed all its notes.
        """
        with translating_errors():
            statement = "SELECT key FROM meta WHERE key GLOB ?"
            keys: list[Any] = self._writer.execute(statement, (f"{_HALF_DONE}*",)).fetchall()
            half_done = [
                (number, self._writer.execute(_LAST_CHANGE, (number,)).get)
                for number in sorted(int(key.removeprefix(_HALF_DONE)) for (key,) in keys)
            ]
        if over := [(f"{_HALF_DONE}{number}",) for number, command in half_done if command is None]:
            with transaction(self._writer):
                self._writer.executemany("DELETE FROM meta WHERE key = ?", over)
        return [(number, str(command)) for number, command in half_done if command is not None]

    def record_external(
        self, observed: Sequence[ObservedNote], *, at_s: float, is_first: bool
    ) -> list[str]:
        """Record differences from the heads as change sets without a client.

        Returns the paths of their revisions. A note that has no head and is not new counts as first
        seen. With `is_first` such notes get a head and no revision, because many are expected.
        """
        texts = {note.path: note.data for note in observed}
        with translating_errors():
            changes = list(self._find_changes({note.path: note for note in observed}))
        if not changes:
            return []
        new = {note.path for note in observed if note.is_new}
        recorded: dict[str, list[Change]] = {EXTERNAL: [], FIRST_SEEN: []}
        for change in changes:
            if change.old_digest is not None or change.path in new:
                recorded[EXTERNAL].append(change)
            elif not is_first:
                recorded[FIRST_SEEN].append(change)
        with transaction(self._writer):
            for change in changes:
                if change.new_digest is not None and (data := texts[change.path]) is not None:
                    self._blobs.keep(data, like=change.old_digest)
            for command, revised in recorded.items():
                if revised:
                    paths = {change.path for change in revised}
                    path = revised[0].path if len(paths) == 1 else ""
                    number = self._add_change_set((at_s, "", command, path, None))
                    self._add_revisions(number, revised, "done")
            self._apply_to_heads(changes)
            self._blobs.drop_unused(
                change.old_digest for change in changes if change.old_digest is not None
            )
        self.last_revision = self._read_last()
        return list(
            dict.fromkeys(change.path for revised in recorded.values() for change in revised)
        )

    def heads(self) -> dict[str, str]:
        """Return the last known digest of each note by path."""
        with translating_errors():
            return dict(self._writer.execute("SELECT path, digest FROM heads"))

    def find_heads(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the last known digests of these notes, by path. Notes without one are omitted."""
        with translating_errors():
            heads = {path: self._find_head(path) for path in paths}
        return {path: digest for path, digest in heads.items() if digest is not None}

    def is_complete(self, scope: str) -> bool:
        """True if every note of this scope has been observed."""
        with translating_errors():
            statement = "SELECT value FROM meta WHERE key = ?"
            return bool(self._writer.execute(statement, (_COMPLETE,)).get == scope)

    def set_complete(self, scope: str) -> None:
        with transaction(self._writer):
            statement = "INSERT OR REPLACE INTO meta VALUES(?, ?)"
            self._writer.execute(statement, (_COMPLETE, scope))

    @property
    def damaged(self) -> frozenset[str]:
        """The digests of texts that were read and are damaged."""
        return frozenset(self._blobs.damaged)

    def find_damaged_heads(self) -> set[str]:
        """Return the notes whose last known text is damaged in this file."""
        with translating_errors():
            return self._find_paths_with(self._blobs.damaged)

    def restore_text(self, path: str, data: bytes) -> None:
        """Store a damaged text again, if `data` has the last known digest of the note."""
        with transaction(self._writer):
            if self._find_head(path) == digest_bytes(data):
                self._blobs.keep(data)

    def find_revisions(  # noqa: PLR0913  the conditions of RevisionFilter
        self,
        *,
        path: str | None = None,
        change_set: int | None = None,
        revision: int | None = None,
        before: int | None = None,
        before_change_set: int | None = None,
        writer: str | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
        limit: int = 20,
    ) -> list[Revision]:
        """Return settled revisions that meet every argument that is not None, newest first.

        `path` is a note or folder; it is followed back through renames. The others are as in
        `RevisionFilter`.
        """
        tests = {
            _OF_TRAIL: path,
            "revisions.id < :before": before,
            _BEFORE_CHANGE_SET: before_change_set,
            "change_set = :change_set": change_set,
            "revisions.id = :revision": revision,
            "client = :writer": writer,
            "at >= :since_s": since_s,
            "at < :until_s": until_s,
        }
        conditions = (test for test, value in tests.items() if value is not None)
        where = " AND ".join(["state = 'done'", *conditions])
        statement = f"{_COLUMNS} WHERE {where} ORDER BY revisions.id DESC LIMIT :limit"
        bindings = {
            "path": path,
            "change_set": change_set,
            "revision": revision,
            "before": before,
            "before_change_set": before_change_set,
            "writer": writer,
            "since_s": since_s,
            "until_s": until_s,
            "limit": limit,
            "end": _END,
        }
        with_trail = _TRAIL if path is not None else ""
        return self._select(f"{with_trail}{statement}", bindings)

    def _select_intended(self) -> list[Revision]:
        """Return the revisions of change sets that are not settled, in their order."""
        return self._select(f"{_COLUMNS} WHERE {_IS_INTENDED} ORDER BY revisions.id", {})

    def _select(self, statement: str, bindings: dict[str, Any]) -> list[Revision]:
        with translating_errors():
            rows = self._writer.execute(statement, bindings).fetchall()
        return [_read_revision(row, self._blobs.damaged) for row in rows]

    def read_text(self, digest: str) -> bytes | None:
        """Return the text with this digest; None if it is not kept or damaged (see `damaged`)."""
        with translating_errors():
            return self._blobs.read(digest)

    def prune(self, *, max_revisions: int, max_age_s: float, now_s: float) -> int:
        """Drop revisions that are too old, and the oldest revisions of notes that have too many.

        Returns the number of revisions that are dropped, now or, if that takes long, by a later
        call. Call it again until the number is 0.
        """
        with translating_errors():
            oldest = (now_s - max_age_s, PRUNE_STEP)
            too_old: list[Any] = self._writer.execute(_TOO_OLD, oldest).fetchall()
            dropped = [row[0] for row in too_old] or self._find_too_many(max_revisions)
        if dropped:
            with transaction(self._writer):
                if self._blobs.rebase_some(self._find_long_work(dropped)):
                    self._forget(dropped)
        if not self._is_clean:
            self._wipe()
        return len(dropped)

    def _find_long_work(self, revisions: Collection[int]) -> set[str]:
        """Return the texts that nothing but these revisions names, if one of them is the base of so
        many texts that it cannot be dropped at once; else none.
        """
        numbers = encode_numbers(revisions)
        rows: list[Any] = self._writer.execute(_DIGESTS_OF, (numbers,)).fetchall()
        digests = {str(digest) for (digest,) in rows}
        if not any(map(self._blobs.has_many_dependents, digests)):
            return set()
        return {
            digest
            for digest in digests
            if not self._writer.execute(_IS_NAMED_BESIDE, (digest, numbers)).get
        }

    def purge(self, *, revisions: Collection[int], texts: Collection[str] | None = None) -> Purged:
        """Drop revisions and `texts`; if `texts` is None, all texts of these revisions.

        Texts are dropped even if other revisions name them. The current text of a note stays,
        because the note contains it anyway.
        """
        with transaction(self._writer):
            rows = [row for id_ in revisions for row in self.find_revisions(revision=id_)]
            all_texts = {
                digest for row in rows for digest in (row.old_digest, row.new_digest) if digest
            }
            chosen = all_texts if texts is None else texts
            dropped = {digest for digest in chosen if not self._find_paths_with([digest])}
            n_texts = self._blobs.drop(dropped) + self._forget([row.id for row in rows])
            self._mark(UNWIPED)
        self._wipe()
        return Purged(
            n_revisions=len(rows),
            n_texts=n_texts,
            digests=frozenset(dropped),
            is_clean=self._is_clean,
        )

    def _find_too_many(self, max_revisions: int) -> list[int]:
        revisions: list[int] = []
        limits = (max_revisions, PRUNE_STEP)
        paths: list[Any] = self._writer.execute(_NOTES_WITH_MANY, limits).fetchall()
        for (path,) in paths:
            bound = (path, max_revisions, PRUNE_STEP - len(revisions))
            rows: list[Any] = self._writer.execute(_TOO_MANY, bound).fetchall()
            revisions += [row[0] for row in rows]
        return revisions

    def _wipe(self) -> None:
        """Rewrite the file without deleted text and truncate the WAL.

        If a step fails, a later call repeats it.
        """
        self._is_clean = False
        with contextlib.suppress(StoreFull), translating_errors():
            if self._has(UNWIPED):
                # SQLite zeroes deleted rows; it does not zero the copies that remain when it moves
                # rows within a page.
                self._writer.execute("VACUUM")
                self._writer.execute("DELETE FROM meta WHERE key = ?", (UNWIPED,))
                # VACUUM may have made the file smaller.
                self._file_guard.accept()
            self._is_clean = self._file_guard.truncate_wal()

    def _read_last(self) -> int:
        return int(self._writer.execute("SELECT coalesce(max(id), 0) FROM revisions").get)

    def _has(self, key: str) -> bool:
        return self._writer.execute("SELECT 1 FROM meta WHERE key = ?", (key,)).get is not None

    def _mark(self, key: str) -> None:
        self._writer.execute("INSERT OR IGNORE INTO meta VALUES(?, 'yes')", (key,))

    def _keep(self, change: Intended) -> Change:
        old = None if change.old is None else self._blobs.keep(change.old)
        return Change(
            path=change.path,
            old_path=change.old_path,
            old_digest=old,
            new_digest=None if change.new is None else self._blobs.keep(change.new, like=old),
            old_attributes=change.old_attributes,
            new_attributes=change.new_attributes,
        )

    def _add_change_set(self, row: tuple[float, str, str, str, str | None]) -> int:
        return int(self._writer.execute(_ADD_CHANGE_SET, row).get)

    def _find_change_set(self, number: int | None) -> int | None:
        """Return the number if the history has this change set, else None."""
        row: Any = self._writer.execute(_HAS_CHANGE_SET, (number,)).get
        return None if row is None else int(row)

    def _add_revisions(self, number: int, changes: Iterable[Change], state: str) -> None:
        rows = (
            (number, change.path, change.old_path, change.old_digest, change.new_digest, state)
            + (change.old_attributes or UNKNOWN)
            + (change.new_attributes or UNKNOWN)
            for change in changes
        )
        self._writer.executemany(_ADD_REVISION, rows)

    def _find_intended_of(self, number: int) -> list[Revision]:
        intended = self._select_intended()
        return [revision for revision in intended if revision.change_set == number]

    def _forget(self, revisions: Collection[int]) -> int:
        """Drop revisions, empty change sets and unused texts; return the number of texts."""
        change_sets: set[int] = set()
        digests: set[str] = set()
        for id_ in revisions:
            rows: list[Any] = self._writer.execute(_DROP_REVISION, (id_,)).fetchall()
            for number, *sides in rows:
                change_sets.add(number)
                digests.update(side for side in sides if side is not None)
        self._writer.executemany(_DROP_EMPTY_CHANGE_SET, ((number,) for number in change_sets))
        return self._blobs.drop_unused(digests)

    # --- heads ---

    def _find_head(self, path: str) -> str | None:
        statement = "SELECT digest FROM heads WHERE path = ?"
        digest = self._writer.execute(statement, (path,)).get
        return None if digest is None else str(digest)

    def _find_attributes(self, path: str) -> Attributes | None:
        statement = "SELECT mode, mtime_ns FROM heads WHERE path = ?"
        row = self._writer.execute(statement, (path,)).fetchone()
        return _read_attributes(*(row or UNKNOWN))

    def _find_paths_with(self, digests: Iterable[str]) -> set[str]:
        """Return the paths of the notes whose last known text has one of these digests."""
        statement = "SELECT path FROM heads WHERE digest = ?"
        rows = (self._writer.execute(statement, (digest,)).fetchall() for digest in digests)
        return {str(row[0]) for of_digest in rows for row in of_digest}

    def _apply_to_heads(
        self, changes: Sequence[Change], attributes: Mapping[str, Attributes] = NO_ATTRIBUTES
    ) -> None:
        """Apply all changes as if they had happened at the same time.

        A head whose attributes are not given keeps the attributes of the former head.
        """
        removed = [
            (change.old_path or change.path,)
            for change in changes
            if change.old_path is not None or change.new_digest is None
        ]
        written = [
            (
                change.path,
                change.new_digest,
                *(
                    attributes.get(change.path)
                    or change.new_attributes
                    or self._find_attributes(change.old_path or change.path)
                    or change.old_attributes
                    or UNKNOWN
                ),
            )
            for change in changes
            if change.new_digest is not None
        ]
        self._writer.executemany("DELETE FROM heads WHERE path = ?", removed)
        self._writer.executemany("INSERT OR REPLACE INTO heads VALUES(?,?,?,?)", written)

    def _find_changes(self, observed: Mapping[str, ObservedNote]) -> Iterator[Change]:
        """Yield the differences between notes and heads, as if all had happened at the same time.

        Two notes may have swapped paths. If a note was moved over another note, the other was
        deleted first. A note that was moved from a path without a head is new.
        """
        notes = observed.values()
        paths = {path for note in notes for path in (note.path, note.moved_from) if path}
        heads = {path: self._find_head(path) for path in paths}
        origins = {
            note.moved_from: path
            for path, note in observed.items()
            if note.data is not None
            and note.moved_from not in {None, path}
            and heads[note.moved_from or path] is not None
        }
        for path, note in observed.items():
            digest = None if note.data is None else digest_bytes(note.data)
            old_digest = None if path in origins else heads[path]
            old_attributes = None if old_digest is None else self._find_attributes(path)
            if note.moved_from is not None and origins.get(note.moved_from) == path:
                if old_digest is not None:
                    yield Change(
                        path=path,
                        old_digest=old_digest,
                        new_digest=None,
                        old_attributes=old_attributes,
                    )
                yield Change(
                    path=path,
                    old_path=note.moved_from,
                    old_digest=heads[note.moved_from],
                    new_digest=digest,
                    old_attributes=self._find_attributes(note.moved_from),
                    new_attributes=note.attributes,
                )
            elif old_digest != digest:
                yield Change(
                    path=path,
                    old_digest=old_digest,
                    new_digest=digest,
                    old_attributes=old_attributes,
                    new_attributes=note.attributes,
                )


def _leave_out_renamed(revisions: Iterable[Revision]) -> list[Change]:
    """Return the changes of a change set, without changes of notes that it renames afterwards."""
    changes: list[Change] = []
    renamed: set[str | None] = set()
    for revision in reversed([*revisions]):
        if revision.old_path is not None or revision.path not in renamed:
            changes.append(
                Change(
                    path=revision.path,
                    old_path=revision.old_path,
                    old_digest=revision.old_digest,
                    new_digest=revision.new_digest,
                    old_attributes=revision.old_attributes,
                    new_attributes=revision.new_attributes,
                )
            )
            renamed.add(revision.old_path)
    return changes[::-1]
