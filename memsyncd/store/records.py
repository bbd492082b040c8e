"""Open and write records.db, which holds the data that cannot be rebuilt from the notes.

Numbered migrations keep everything, and every commit is on the disk before its caller gets an
answer. A file that is damaged or belongs to another workspace is moved aside under another name,
never deleted; a file of a newer program is refused.

The numbers of revisions, change sets and signals are never given twice, although a restored or new
file does not know all the numbers that were given. A client that has a number of the former file
would otherwise name another thing. So a file continues after the highest numbers of the files that
it replaces.

The table `workspace` names the owner in one row: the workspace's id, its root and, since version 3,
the root's inode. Older versions allowed several workspaces to open the same file; such a file has
several rows until one of these workspaces opens it again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import apsw
import msgspec
from msgspec.structs import replace

from memsyncd.errors import Busy, StoreCorrupt, StoreFailed
from memsyncd.operations.signals.declare import EVERYONE
from memsyncd.store.accesses import Accesses
from memsyncd.store.answers import Answers
from memsyncd.store.blobs import Blobs
from memsyncd.store.connection import (
    Durability,
    check_readable,
    open_reader,
    open_writer,
    release_memory,
    transaction,
    translate_error,
    translating_errors,
)
from memsyncd.store.history import History
from memsyncd.store.integrity import (
    ASIDE_MARK,
    CheckState,
    Ending,
    FileGuard,
    Tampering,
    forget_checks,
    measure_file,
)
from memsyncd.store.schema import MIGRATIONS, run_migration

_COLUMNS = "SELECT id, at, sender, type, content, expires_at FROM signals"
_ADD = """
INSERT INTO signals(at, sender, key, type, content, expires_at) VALUES(?,?,?,?,?,?) RETURNING id
"""
# The sender of a signal to all does not receive it.
_ARE_ADDRESSED = f"""
id IN (
  SELECT signal FROM signal_addressees
  WHERE address IN (SELECT value FROM json_each(:to) UNION ALL SELECT '{EVERYONE}')
)
AND ('agent:' || sender <> :reader OR EXISTS(
  SELECT 1 FROM signal_addressees
  WHERE signal = id AND address IN (SELECT value FROM json_each(:to))
))
AND expires_at > :now_s AND (:type IS NULL OR type = :type)
"""
_ACKED = "(SELECT at FROM signal_receipts WHERE signal = id AND reader = :reader)"
_CLAIMED = "EXISTS(SELECT 1 FROM signal_claims WHERE signal = id AND reader <> :reader)"
# Every addressee has a receipt; for a task and for all, at least one reader. A signal that has yet
# to go to another machine stays.
_DROP_READ = f"""
DELETE FROM signals WHERE id IN (
  SELECT id FROM signals WHERE NOT EXISTS(
    SELECT 1 FROM signal_addressees WHERE signal = id AND address NOT GLOB 'task:*'
    AND address <> '{EVERYONE}'
    AND address NOT IN (SELECT reader FROM signal_receipts WHERE signal = id)
  ) AND EXISTS(SELECT 1 FROM signal_receipts WHERE signal = id)
  AND NOT EXISTS(SELECT 1 FROM sent_signals WHERE signal = id AND travel = 'waiting')
  ORDER BY id LIMIT ?
)
"""


_DROP_READERS = "DELETE FROM signal_readers WHERE id <= (SELECT max(id) FROM signal_readers) - ?"
MOST_READERS = 1000
"""Each session of an agent has an address of its own."""
Travel = Literal["waiting", "committed", "pushed"]
"""How far a signal to another machine has come."""
MOST_SENT = 1000
"""So many signals to other machines may wait until they expire."""
FORGET_RECEIVED_S = 86_400.0
"""The id of a received signal is kept so long after its end, because a clock may be set back."""


class StoredSignal(msgspec.Struct, frozen=True):
    """A signal. The first fields have the order of `_COLUMNS`.

    `acked_at_s` is set in an answer to a reader, `receipts` in an answer to the sender.
    """

    id: int
    at_s: float
    sender: str
    type: str
    content: str
    expires_at_s: float
    addresses: tuple[str, ...]
    acked_at_s: float | None = None
    receipts: tuple[tuple[str, float], ...] = ()
    claimed_by: str | None = None
    travel: Travel | None = None


class SentSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal to other machines: its id on all machines, its addresses there, and how far it has
    come.
    """

    line: str
    key: str | None
    addresses: tuple[str, ...]
    travel: Travel
    signal: StoredSignal


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of signals by the effect that an acknowledgement had: `acked` now for the first time,
    `already` before, `claimed` by another reader, whom `claimed_by` names in the same order.
    """

    acked: list[int]
    already: list[int]
    claimed: list[int]
    claimed_by: list[str]


class NewSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal to send. `key` is the sender's own name for it, or None.

    `line` is its id on all machines, if it comes from or goes to another one. `elsewhere` are its
    addresses on other machines.
    """

    sender: str
    key: str | None
    type: str
    content: str
    addresses: tuple[str, ...]
    at_s: float
    expires_at_s: float
    line: str = ""
    elsewhere: tuple[str, ...] = ()


class Signals:
    """The signals in a records.db, for the writer's thread.

    Methods raise the classes of `translating_errors`.
    """

    def __init__(self, writer: apsw.Connection) -> None:
        self._writer = writer

    def send(self, new: NewSignal, *, max_signals: int) -> tuple[StoredSignal, bool]:
        """Store a signal; return it, and True.

        If the sender has already sent a signal with this key, that signal and False are returned.
        Raises Busy if `max_signals` signals wait, or MOST_SENT to other machines.
        """
        with transaction(self._writer):
            earlier = self._find_key(new)
            if earlier is not None:
                return self._read([earlier])[0], False
            self._make_room(max_signals, new.at_s)
            if new.elsewhere and self._count("sent_signals") >= MOST_SENT:
                hint = "they go when they expire: give a shorter time with expires_s"
                raise Busy(f"{MOST_SENT:,} signals to other machines wait", hint=hint)
            id_ = self._add(new)
            if new.elsewhere:
                row = (id_, new.line, _as_json(new.elsewhere))
                self._writer.execute("INSERT INTO sent_signals VALUES(?, ?, ?, 'waiting')", row)
            return self._read([id_])[0], True

    def _find_key(self, new: NewSignal) -> int | None:
        statement = "SELECT id FROM signals WHERE sender = ? AND key = ?"
        id_ = self._writer.execute(statement, (new.sender, new.key)).get
        return None if id_ is None else int(id_)

    def _add(self, new: NewSignal) -> int:
        row = (new.at_s, new.sender, new.key, new.type, new.content, new.expires_at_s)
        id_ = int(self._writer.execute(_ADD, row).get)
        self._writer.executemany(
            "INSERT INTO signal_addressees VALUES(?, ?)",
            ((id_, address) for address in dict.fromkeys(new.addresses)),
        )
        return id_

    def receive(
        self, signals: Iterable[NewSignal], *, now_s: float, max_signals: int
    ) -> tuple[list[StoredSignal], bool]:
        """Store the signals of other machines that were not received before, and have not expired,
        all in one commit. Return them, and False if not all have room.
        """
        received: list[int] = []
        with transaction(self._writer):
            old_s = now_s - FORGET_RECEIVED_S
            self._writer.execute("DELETE FROM received_signals WHERE expires_at <= ?", (old_s,))
            for new in signals:
                earlier = "SELECT 1 FROM received_signals WHERE line = ?"
                if new.expires_at_s <= now_s or self._writer.execute(earlier, (new.line,)).get:
                    continue
                if self._find_key(new) is None:
                    try:
                        self._make_room(max_signals, now_s)
                    except Busy:
                        return self._read(received), False
                    received.append(self._add(new))
                row = (new.line, new.expires_at_s)
                self._writer.execute("INSERT INTO received_signals VALUES(?, ?)", row)
            return self._read(received), True

    def list_sent_elsewhere(self, now_s: float) -> list[SentSignal]:
        """Return the signals to other machines that have not expired, in the order of sending."""
        statement = """
        SELECT id, line, key, addresses, travel FROM sent_signals JOIN signals ON signal = id
        WHERE expires_at > ? ORDER BY id
        """
        with translating_errors():
            rows: list[Any] = self._writer.execute(statement, (now_s,)).fetchall()
            signals = self._read([row[0] for row in rows])
        return [
            SentSignal(
                line=line,
                key=key,
                addresses=msgspec.json.decode(addresses, type=tuple[str, ...]),
                travel=travel,
                signal=signal,
            )
            for signal, (_, line, key, addresses, travel) in zip(signals, rows, strict=True)
        ]

    def note_travel(self, lines: Collection[str], travel: Travel) -> None:
        """Record how far signals to other machines have come."""
        with transaction(self._writer):
            statement = "UPDATE sent_signals SET travel = ? WHERE line = ?"
            self._writer.executemany(statement, ((travel, line) for line in lines))

    def _make_room(self, max_signals: int, now_s: float) -> None:
        self._writer.execute("DELETE FROM signals WHERE expires_at <= ?", (now_s,))
        n_over = self._count() + 1 - max_signals
        if n_over > 0:
            self._writer.execute(_DROP_READ, (n_over,))
        if self._count() >= max_signals:
            raise Busy(
                f"{max_signals:,} signals wait to be read",
                hint="acknowledge some, or raise signal.max_signals in the configuration",
            )

    def find(
        self,
        addresses: Collection[str],
        *,
        reader: str,
        now_s: float,
        type_: str | None = None,
        is_with_read: bool = False,
        limit: int = -1,
    ) -> tuple[list[StoredSignal], int]:
        """Return the signals to any of these addresses, and how many of them are unread.

        Signals that this reader has not read come first.
        """
        bindings = {
            "to": _as_json(addresses),
            "now_s": now_s,
            "type": type_,
            "reader": reader,
            "limit": limit,
        }
        unread = f"{_ARE_ADDRESSED} AND {_ACKED} IS NULL AND NOT {_CLAIMED}"
        where = _ARE_ADDRESSED if is_with_read else unread
        order = f"ORDER BY {_ACKED} IS NOT NULL, id LIMIT :limit"
        with translating_errors():
            statement = f"SELECT id, {_ACKED} FROM signals WHERE {where} {order}"
            rows: list[Any] = self._writer.execute(statement, bindings).fetchall()
            n = self._writer.execute(f"SELECT count(*) FROM signals WHERE {unread}", bindings).get
            signals = self._read([id_ for id_, _ in rows])
        acked = dict(rows)
        signals = [
            msgspec.structs.replace(signal, acked_at_s=acked[signal.id]) for signal in signals
        ]
        return signals, int(n)

    def find_sent(self, sender: str | None, *, limit: int) -> list[StoredSignal]:
        """Return the signals of a sender (None: of all) with their receipts, the latest first."""
        with translating_errors():
            statement = (
                "SELECT id FROM signals WHERE ?1 IS NULL OR sender = ?1 ORDER BY id DESC LIMIT ?2"
            )
            rows: list[Any] = self._writer.execute(statement, (sender, limit)).fetchall()
            return self._read([id_ for (id_,) in rows])

    def note_readers(self, readers: Iterable[str]) -> None:
        """Remember addresses that signals are read as, the last MOST_READERS."""
        with transaction(self._writer):
            statement = "INSERT OR IGNORE INTO signal_readers(reader) VALUES(?)"
            self._writer.executemany(statement, [(reader,) for reader in readers])
            # An address that goes and is read as again comes back.
            self._writer.execute(_DROP_READERS, (MOST_READERS,))

    def list_readers(self) -> list[str]:
        """Return the addresses that signals have been read as."""
        with translating_errors():
            statement = "SELECT reader FROM signal_readers ORDER BY reader"
            return [str(reader) for (reader,) in self._writer.execute(statement)]

    def ack(
        self,
        ids: Sequence[int],
        addresses: Collection[str],
        *,
        reader: str,
        now_s: float,
        is_claim: bool = False,
    ) -> Acknowledged:
        """Record that the reader has these signals; with `is_claim` it alone has them from now on,
        unless another reader has acknowledged or claimed them. Signals to others are left out.
        """
        other = "SELECT reader FROM {table} WHERE signal = id AND reader <> :reader"
        takers = [f"({other.format(table='signal_claims')})"]
        if is_claim:
            takers.append(f"({other.format(table='signal_receipts')} ORDER BY at LIMIT 1)")
        addressed = (
            f"SELECT id, {_ACKED}, coalesce({', '.join([*takers, 'NULL'])}) FROM signals"
            f" WHERE {_ARE_ADDRESSED} AND id IN (SELECT value FROM json_each(:ids))"
        )
        bindings = {
            "to": _as_json(addresses),
            "now_s": now_s,
            "type": None,
            "reader": reader,
            "ids": _as_json(ids),
        }
        with transaction(self._writer):
            rows: list[Any] = self._writer.execute(addressed, bindings).fetchall()
            free = [(id_, acked_at_s) for id_, acked_at_s, taker in rows if taker is None]
            new = sorted(id_ for id_, acked_at_s in free if acked_at_s is None)
            receipts = [(id_, reader, now_s) for id_ in new]
            self._writer.executemany("INSERT INTO signal_receipts VALUES(?, ?, ?)", receipts)
            if is_claim:
                claims = [(id_, reader) for id_, _ in free]
                self._writer.executemany("INSERT OR IGNORE INTO signal_claims VALUES(?, ?)", claims)
        taken = sorted((id_, taker) for id_, _, taker in rows if taker is not None)
        return Acknowledged(
            acked=new,
            already=sorted(id_ for id_, acked_at_s in free if acked_at_s is not None),
            claimed=[id_ for id_, _ in taken],
            claimed_by=[taker for _, taker in taken],
        )

    def purge(self, containing: str | None = None) -> int:
        """Erase the signals that contain the text (None: all signals); return their number."""
        with transaction(self._writer):
            n_before = self._count()
            statement = "DELETE FROM signals WHERE ?1 IS NULL OR instr(content, ?1)"
            self._writer.execute(statement, (containing,))
            return n_before - self._count()

    def _count(self, table: str = "signals") -> int:
        return int(self._writer.execute(f"SELECT count(*) FROM {table}").get)

    def _read(self, ids: Sequence[int]) -> list[StoredSignal]:
        """Read signals in the order of `ids`."""
        signals = []
        for id_ in ids:
            [row] = self._writer.execute(f"{_COLUMNS} WHERE id = ?", (id_,)).fetchall()
            to = "SELECT address FROM signal_addressees WHERE signal = ? ORDER BY address"
            by = "SELECT reader, at FROM signal_receipts WHERE signal = ? ORDER BY at, reader"
            addresses: list[Any] = self._writer.execute(to, (id_,)).fetchall()
            receipts: list[Any] = self._writer.execute(by, (id_,)).fetchall()
            claim = "SELECT reader FROM signal_claims WHERE signal = ?"
            claimed_by = self._writer.execute(claim, (id_,)).get
            travel = "SELECT travel FROM sent_signals WHERE signal = ?"
            state = self._writer.execute(travel, (id_,)).get
            to_whom = tuple(address for (address,) in addresses)
            fields: Any = (*row, to_whom, None, tuple(receipts), claimed_by, state)
            signals.append(StoredSignal(*fields))
        return signals


def _as_json(values: Collection[str] | Sequence[int]) -> str:
    return msgspec.json.encode(list(values)).decode()


FOREIGN_MARK = ".foreign-"
REPLACED_MARK = ".replaced-"
ASIDE_MARKS = (ASIDE_MARK, FOREIGN_MARK, REPLACED_MARK)
WAL_SUFFIXES = ("-wal", "-shm", "-journal")
# After so many texts of a file that is searched, other jobs may take their turn.
STEP_BLOBS = 64
# The largest note that can be configured, and the rest of its row: a text is a single value.
TEXT_LIMIT_BYTES = 257 * 1024 * 1024

_CLAIM = """
INSERT INTO workspace(id, root, created_at, inode) VALUES(?,?,?,?)
ON CONFLICT(id) DO UPDATE SET root = excluded.root, inode = coalesce(excluded.inode, inode)
"""
_MOVES = "SELECT old_path, new_path, digest, seen_at FROM moves WHERE new_path = ? ORDER BY id DESC"
_ADD_MOVE = "INSERT INTO moves(old_path, new_path, digest, seen_at) VALUES(?,?,?,?)"
_TAKE_OVER = "UPDATE workspace SET id = ?, root = ?, inode = ?"
_DISK, _MOUNTS = "disk", "mounts"


class Move(NamedTuple):
    """A note that reappeared at another path with the same bytes. Its history continues there."""

    old_path: str
    new_path: str
    digest: str
    seen_at_s: float


# --- owners -------------------------------------------------------------------------------------

# Each records.db that this process has open. Closing a second connection to one of them would drop
# the locks that the process holds on the file.
OPEN_FILES: set[Path] = set()


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace to which a records.db belongs. `inode` is the root's; None if not recorded."""

    id: str
    root: str
    inode: int | None


IsMoved = Callable[[Owner, Mapping[str, str]], bool]


def read_owners(connection: apsw.Connection) -> tuple[Owner, ...]:
    """Return the owners; none for a new file. Raises apsw's exceptions."""
    if not connection.table_exists(None, "workspace"):
        return ()
    columns = [row[1] for row in connection.execute("PRAGMA table_info(workspace)")]
    inode_column = "inode" if "inode" in columns else "NULL"
    rows = connection.execute(f"SELECT id, root, {inode_column} FROM workspace ORDER BY id")
    return tuple(
        Owner(id=str(id_), root=str(root), inode=None if inode is None else int(inode))
        for id_, root, inode in rows
    )


def peek_owners(path: Path, *, newest_version: int) -> tuple[Owner, ...]:
    """Return the owners in the file without its WAL, which may belong to another file.

    The result is empty if the file has no owner, has a newer version, or cannot be read without the
    WAL.
    """
    try:
        with contextlib.closing(_open_immutable(path)) as connection:
            is_newer = int(connection.pragma("user_version")) > newest_version
            return () if is_newer else read_owners(connection)
    except (apsw.Error, OSError, ValueError):
        return ()


def peek_heads(path: Path) -> dict[str, str]:
    """Return the heads in the file without its WAL: the last known digest of each note by path."""
    try:
        with contextlib.closing(_open_immutable(path)) as connection:
            # Before version 4 the table had another name.
            table = "heads" if connection.table_exists(None, "heads") else "tips"
            rows = connection.execute(f"SELECT path, digest FROM {table}")
            return {str(note): str(digest) for note, digest in rows}
    except (apsw.Error, OSError):
        return {}


def take_over(old: Path, new: Path, own: Owner) -> None:
    """Make `own` the owner of the records.db at `old`, and move the file to `new`.

    No program may have it open, and `new` must not exist. A crash between the two steps leaves a
    file at `old` that names `own`. Raises OSError and the classes of `translating_errors`.
    """
    with contextlib.closing(open_writer(str(old), Durability.LASTING)) as connection:
        connection.set_busy_timeout(0)
        # This checkpoints and deletes the WAL, and succeeds only if no other connection is open.
        with translating_errors():
            mode = connection.pragma("journal_mode", "delete")
        if mode != "delete":
            raise StoreFailed("another program has records.db open", hint="let it end")
        # This comes before the move: the new place must never hold a file of another workspace,
        # because the notes that prove the move may change at any time.
        with transaction(connection):
            connection.execute(_TAKE_OVER, (own.id, own.root, _inode_text(own.inode)))
    new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.rename(old, new)
    forget_checks(old)


Numbers = Mapping[str, int]
"""The last number that was given in each table whose numbers clients see."""
NUMBERED = ("change_sets", "revisions", "signals")
NO_NUMBERS: Numbers = {}


def read_numbers(connection: apsw.Connection) -> Numbers:
    """Return the last numbers in a file. Raises apsw's exceptions."""
    rows: list[Any] = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    # Before version 5 change sets had another name.
    last_numbers = {"change_sets" if name == "acts" else str(name): int(seq) for name, seq in rows}
    return {name: last_numbers.get(name, 0) for name in NUMBERED}


def merge_numbers(numbers: Iterable[Numbers]) -> Numbers:
    """Return the highest number of each table."""
    all_numbers = [*numbers]
    return {name: max((last.get(name, 0) for last in all_numbers), default=0) for name in NUMBERED}


def find_numbers_beside(path: Path) -> Numbers:
    """Return the highest numbers in the files that were moved aside from `path`.

    Files that cannot be read are skipped.
    """
    numbers: list[Numbers] = []
    for mark in ASIDE_MARKS:
        for aside in path.parent.glob(f"{path.name}{mark}*"):
            with (
                contextlib.suppress(apsw.Error, OSError),
                contextlib.closing(_open_immutable(aside)) as connection,
            ):
                numbers.append(read_numbers(connection))
    return merge_numbers(numbers)


def find_foreign(path: Path) -> list[Path]:
    """Return the files of other workspaces that were moved away from `path`, oldest first."""
    files = path.parent.glob(f"{path.name}{FOREIGN_MARK}*")
    return sorted(file for file in files if not file.name.endswith(WAL_SUFFIXES))


def _open_immutable(path: Path) -> apsw.Connection:
    if not path.is_file():
        raise FileNotFoundError(str(path))
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=flags)


# --- records.db ---------------------------------------------------------------------------------


class PurgeTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The content that a purge erases.

    With `text`, everything that contains it. Otherwise the texts with these `digests`; else all
    texts that `path` has had; else everything.
    """

    text: str | None = None
    digests: Collection[str] | None = None
    path: str | None = None


def search_set_aside(path: Path, searched: PurgeTarget) -> Generator[None, None, bool | None]:
    """Return whether a file that was moved aside has content that a purge erases.

    Returns None if that is unknown because the file is damaged or has an older version. Yields
    after each STEP_BLOBS texts.
    """
    try:
        has_wal = measure_file(f"{path}-wal") > 0
        with contextlib.closing(
            open_reader(str(path)) if has_wal else _open_immutable(path)
        ) as connection:
            if not connection.table_exists(None, "blobs"):
                return None
            if searched.text is None:
                return _has_revision(connection, searched)
            return (yield from _has_text(connection, searched.text))
    except (apsw.Error, OSError, StoreFailed):
        return None


def _has_revision(connection: apsw.Connection, searched: PurgeTarget) -> bool:
    if searched.digests is not None:
        find = "SELECT 1 FROM blobs WHERE digest = ?"
        return any(connection.execute(find, (digest,)).get for digest in searched.digests)
    statement = """
    SELECT 1 FROM revisions WHERE ?1 IS NULL OR path = ?1 OR old_path = ?1
    OR path >= ?1 || '/' AND path < ?1 || '0' OR old_path >= ?1 || '/' AND old_path < ?1 || '0'
    """
    return connection.execute(statement, (searched.path,)).get is not None


# The columns that a purge by a text searches, besides the texts of notes.
_ERASED_BY_TEXT = {
    "signals": ("content",),
    "accesses": ("path", "section"),
    "agent_answers": ("query",),
    "answer_sections": ("path", "section", "heading"),
}


def _has_text(connection: apsw.Connection, text: str) -> Generator[None, None, bool | None]:
    for table, columns in _ERASED_BY_TEXT.items():
        for column in columns if connection.table_exists(None, table) else ():
            find = f"SELECT 1 FROM {table} WHERE instr({column}, ?) LIMIT 1"
            if connection.execute(find, (text,)).get:
                return True
    blobs, data = Blobs(connection), text.encode()
    digests = [str(row[0]) for row in connection.execute("SELECT digest FROM blobs")]
    for number, digest in enumerate(digests):
        if data in (blobs.read(digest) or b""):
            return True
        if number % STEP_BLOBS == 0:
            yield
    return None if blobs.damaged else False


class _ForeignError(Exception):
    """The file belongs to another workspace."""


class Records:
    """The records.db of a workspace, for the writer's thread.

    `history` holds former versions of notes and who changed them; `accesses` holds how often
    sections were recalled; `answers` holds what agents were given; `signals` holds the messages of
    agents to each other. Methods raise the classes of `translating_errors`.
    """

    def __init__(
        self,
        path: Path,
        *,
        workspace: str,
        root: str,
        now_s: float,
        inode: int | None = None,
        is_moved: IsMoved = lambda _owner, _heads: False,
        numbers: Numbers = NO_NUMBERS,
    ) -> None:
        """Open or create the file and migrate it.

        Afterwards `set_aside` names a damaged file that was moved away, and `foreign` a file of
        another workspace that was moved away. If `is_moved(owner, heads)` is true, the owner is
        this workspace under its former path; then the file is kept, and `moved_from` names the
        owner. `inode` is the root's. Numbers up to `numbers` have been given already.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self.set_aside: Path | None = None
        self.foreign: Path | None = None
        self.moved_from = ""
        self._own = Owner(id=workspace, root=root, inode=inode)
        self._numbers = numbers
        if path.is_dir():
            self.set_aside = self._move_aside(now_s, "")
        self.checks = CheckState(path)
        self._check_owner(now_s, is_moved)
        try:
            self._writer = self._open(now_s)
        except _ForeignError:
            self.foreign = self._move_aside(now_s, "", *WAL_SUFFIXES, mark=FOREIGN_MARK)
            self._writer = self._open(now_s)
        except StoreCorrupt:
            self._writer = self._open_damaged(now_s)
        self.file_guard = FileGuard(self._writer, str(path), is_foreign=self._is_foreign)
        self.history = History(self._writer, self.file_guard)
        self.accesses = Accesses(self._writer)
        self.answers = Answers(self._writer)
        self.signals = Signals(self._writer)
        disk, mounts = self._read_meta(_DISK), self._read_meta(_MOUNTS)
        self.disk = None if disk is None else int(disk)
        """The device of the notes at the last scan."""
        self.mounts: frozenset[str] = frozenset(msgspec.json.decode(mounts or "[]"))
        """The mount points of other disks with notes at the last scan."""
        OPEN_FILES.add(path)

    def _check_owner(self, now_s: float, is_moved: IsMoved) -> None:
        # The owner is read before SQLite checkpoints a WAL into the file: the WAL may belong to
        # this workspace although the file belongs to another.
        owners = peek_owners(self.path, newest_version=len(MIGRATIONS))
        if not owners or any(owner.id == self._own.id for owner in owners):
            return
        has_wal = measure_file(f"{self.path}-wal") > 0
        if len(owners) == 1 and not has_wal and is_moved(owners[0], peek_heads(self.path)):
            self.moved_from = owners[0].root
        else:
            self.foreign = self._move_aside(now_s, "", *WAL_SUFFIXES, mark=FOREIGN_MARK)

    def _open_damaged(self, now_s: float) -> apsw.Connection:
        """Open a file that seemed damaged.

        The file is moved aside only if the disk can read all of it and it still seems damaged.
        """
        self.checks.ending = Ending.DOUBTFUL
        for suffix in ("", "-wal"):
            if os.path.exists(f"{self.path}{suffix}"):
                check_readable(f"{self.path}{suffix}")
        try:
            return self._open(now_s)
        except StoreCorrupt:
            has_wal = measure_file(f"{self.path}-wal") > 0
            self.set_aside = self._move_aside(now_s, *WAL_SUFFIXES) if has_wal else None
        if self.set_aside is not None:
            # Without its WAL the file may be whole: then only the last commits are missing.
            with contextlib.suppress(StoreCorrupt):
                return self._open(now_s)
        self.set_aside = self._move_aside(now_s, "", *WAL_SUFFIXES)
        return self._open(now_s)

    def _move_aside(self, now_s: float, *suffixes: str, mark: str = ASIDE_MARK) -> Path:
        """Rename the files with these suffixes; the new name has the reason and the time."""
        aside = self.path.with_name(f"{self.path.name}{mark}{int(now_s)}")
        while any(os.path.lexists(f"{aside}{suffix}") for suffix in ("", *WAL_SUFFIXES)):
            aside = aside.with_name(f"{aside.name}x")
        for suffix in suffixes:
            if os.path.lexists(f"{self.path}{suffix}"):
                os.rename(f"{self.path}{suffix}", f"{aside}{suffix}")
        return aside

    def _open(self, now_s: float) -> apsw.Connection:
        writer = open_writer(str(self.path), Durability.LASTING)
        writer.limit(apsw.SQLITE_LIMIT_LENGTH, TEXT_LIMIT_BYTES)
        try:
            # The content cannot be rebuilt, so only a file that was closed and is untouched is
            # opened without a check. It is checked later, in idle time.
            is_checked = self.checks.ending is not Ending.CLEAN
            if is_checked and writer.execute("PRAGMA quick_check(1)").get != "ok":
                raise StoreCorrupt("records.db is damaged")
            owners = read_owners(writer)
            is_own = any(owner.id == self._own.id for owner in owners)
            if owners and not self.moved_from and not is_own:
                raise _ForeignError
            _migrate(writer)
            with transaction(writer):
                self._claim(writer, now_s)
                beside = NO_NUMBERS if owners else find_numbers_beside(self.path)
                _raise_numbers(writer, merge_numbers([self._numbers, beside]))
            self.checks.find_parts(writer)
            if is_checked:
                self.checks.note_checked()
        except apsw.Error as error:
            writer.close()
            raise translate_error(error) from error
        except BaseException:
            writer.close()
            raise
        return writer

    def _claim(self, writer: apsw.Connection, now_s: float) -> None:
        """Leave a single row in `workspace`: the row of this workspace."""
        own = self._own
        if self.moved_from:
            writer.execute("UPDATE workspace SET id = ?", (own.id,))
        writer.execute("DELETE FROM workspace WHERE id <> ?", (own.id,))
        writer.execute(_CLAIM, (own.id, own.root, now_s, _inode_text(own.inode)))

    @property
    def numbers(self) -> Numbers:
        """The last numbers that were given."""
        with translating_errors():
            return read_numbers(self._writer)

    @property
    def created_at_s(self) -> float:
        """The time at which this history began. It identifies backups, wherever the folder is."""
        with translating_errors():
            return float(self._writer.execute("SELECT min(created_at) FROM workspace").get)

    def add_moves(self, moves: Sequence[Move]) -> None:
        """Record that notes were moved."""
        with transaction(self._writer):
            rows = ((move.old_path, move.new_path, move.digest, move.seen_at_s) for move in moves)
            self._writer.executemany(_ADD_MOVE, rows)

    def has_moves(self) -> bool:
        """False if no move is recorded."""
        with translating_errors():
            return self._writer.execute("SELECT 1 FROM moves LIMIT 1").get is not None

    def find_moves(self, new_path: str) -> list[Move]:
        """Return the moves that ended at `new_path`, newest first."""
        rows: list[Any] = self._writer.execute(_MOVES, (new_path,)).fetchall()
        return [Move._make(row) for row in rows]

    def remember_disk(self, device: int | None) -> None:
        """Record the device of the notes; None if there are no notes."""
        if device != self.disk:
            self._write_meta(_DISK, None if device is None else str(device))
            self.disk = device

    def remember_mounts(self, mounts: frozenset[str]) -> None:
        """Record the mount points of other disks with notes."""
        if mounts != self.mounts:
            self._write_meta(_MOUNTS, msgspec.json.encode(sorted(mounts)).decode())
            self.mounts = mounts

    def _read_meta(self, key: str) -> str | None:
        with translating_errors():
            value = self._writer.execute("SELECT value FROM meta WHERE key = ?", (key,)).get
        return None if value is None else str(value)

    def _write_meta(self, key: str, value: str | None) -> None:
        with transaction(self._writer):
            self._writer.execute("DELETE FROM meta WHERE key = ?", (key,))
            if value is not None:
                self._writer.execute("INSERT INTO meta VALUES(?,?)", (key, value))

    def remember_inode(self, inode: int) -> None:
        """Record the root's inode, by which a moved folder is recognised."""
        if inode != self._own.inode:
            with transaction(self._writer):
                row = (str(inode), self._own.id)
                self._writer.execute("UPDATE workspace SET inode = ? WHERE id = ?", row)
            self._own = replace(self._own, inode=inode)

    def find_set_aside(self) -> list[Path]:
        """Return the files that were moved aside; a WAL is in the list only if it was moved alone.

        The files are damaged, belong to another workspace, or were replaced by a restore.
        """
        files = {
            file
            for mark in ASIDE_MARKS
            for file in self.path.parent.glob(f"{self.path.name}{mark}*")
        }
        parts = {Path(f"{file}{suffix}") for file in files for suffix in WAL_SUFFIXES}
        return sorted(files - parts)

    def close_tampered(self, tampering: Tampering, *, now_s: float) -> None:
        """Close a file that another program has changed.

        No commit is lost or written into another file. Raises the classes of `translating_errors`
        if that fails; then the file stays open.
        """
        self.checks.note_damage()
        is_written = tampering in (Tampering.TRUNCATED, Tampering.OVERWRITTEN)
        if is_written:
            # The file may now have the content of another file. Until that is known, its WAL stays
            # separate.
            self._writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        else:
            with translating_errors():
                n_frames, n_done = self._writer.wal_checkpoint()
            if n_done < n_frames:
                hint = "let it end; memsyncd continues by itself"
                raise StoreFailed("another program is reading records.db", hint=hint)
        self.close()
        if tampering is Tampering.REPLACED:
            self.file_guard.remove_wal()
        elif is_written and self._is_foreign():
            # The WAL belongs to this workspace and the file does not: each would damage the other.
            self._move_aside(now_s, *WAL_SUFFIXES)
        elif is_written and not measure_file(str(self.path)):
            # SQLite would delete a WAL beside an empty file, so all files are moved.
            self._move_aside(now_s, "", *WAL_SUFFIXES)

    def _is_foreign(self) -> bool:
        owners = peek_owners(self.path, newest_version=len(MIGRATIONS))
        return bool(owners) and all(owner.id != self._own.id for owner in owners)

    def tidy(self) -> bool:
        """Truncate the WAL and free memory. Return False if a reader keeps the WAL."""
        with translating_errors():
            release_memory(self._writer)
            return self.file_guard.tidy()

    def open_apart(self) -> apsw.Connection:
        """Open a connection that cannot write, for a check. The caller closes it."""
        return open_reader(str(self.path))

    def close(self) -> None:
        is_in_place = self.file_guard.is_in_place()
        self._writer.close()
        OPEN_FILES.discard(self.path)
        if is_in_place:
            self.checks.save_closed()


def _migrate(writer: apsw.Connection) -> None:
    version = int(writer.pragma("user_version"))
    if version > len(MIGRATIONS):
        raise StoreFailed(
            f"records.db has version {version}, newer than this program's {len(MIGRATIONS)}",
            hint="run the newer memsyncd that made it: pip install --upgrade memsyncd",
        )
    for number in range(version, len(MIGRATIONS)):
        with transaction(writer):
            run_migration(writer, MIGRATIONS[number])
            writer.pragma("user_version", number + 1)


def _raise_numbers(writer: apsw.Connection, numbers: Numbers) -> None:
    """Make the next numbers follow these, unless the file has given higher numbers."""
    own_numbers = read_numbers(writer)
    for name, last in numbers.items():
        if last > own_numbers[name]:
            writer.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            writer.execute("INSERT INTO sqlite_sequence(name, seq) VALUES(?, ?)", (name, last))


def _inode_text(inode: int | None) -> str | None:
    """Return an inode for its column, which is text: an inode may have 64 bits without a sign."""
    return None if inode is None else str(inode)
