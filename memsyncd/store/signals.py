"""Keep signals between agents in records.db, and who has acknowledged them.

Each method is one commit, which is on the disk when the method returns. A signal stays until it
expires, so that each reader of a task receives it; at the limit, signals that nobody waits for go
first, and then sending is refused rather than a signal dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import apsw
import msgspec

from memsyncd.errors import Busy
from memsyncd.store.connection import transaction, translating_errors

_COLUMNS = "SELECT id, at, sender, type, content, expires_at FROM signals"
_ADD = """
INSERT INTO signals(at, sender, key, type, content, expires_at) VALUES(?,?,?,?,?,?) RETURNING id
"""
_ARE_ADDRESSED = """
id IN (SELECT signal FROM signal_addressees WHERE address IN (SELECT value FROM json_each(:to)))
AND expires_at > :now_s AND (:type IS NULL OR type = :type)
"""
_ACKED = "(SELECT at FROM signal_receipts WHERE signal = id AND reader = :reader)"
# Every addressee has a receipt; of a task, at least one reader.
_DROP_READ = """
DELETE FROM signals WHERE id IN (
  SELECT id FROM signals WHERE NOT EXISTS(
    SELECT 1 FROM signal_addressees WHERE signal = id AND address NOT GLOB 'task:*'
    AND address NOT IN (SELECT reader FROM signal_receipts WHERE signal = id)
  ) AND EXISTS(SELECT 1 FROM signal_receipts WHERE signal = id)
  ORDER BY id LIMIT ?
)
"""


class StoredSignal(msgspec.Struct, frozen=True):
    """A signal, in the order of `_COLUMNS`; `acked_at_s` is set for the reader that asked,
    `receipts` for its sender.
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


class NewSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal to send. `key` is the sender's own name for it, None for none."""

    sender: str
    key: str | None
    type: str
    content: str
    addresses: tuple[str, ...]
    at_s: float
    expires_at_s: float


class Signals:
    """The signals in a records.db, for the writer's thread.

    Methods raise the classes of `translating_errors`.
    """

    def __init__(self, writer: apsw.Connection) -> None:
        self._writer = writer

    def send(self, new: NewSignal, *, max_signals: int) -> tuple[StoredSignal, bool]:
        """Store a signal; return it, and False if the sender has sent one with this key before.

        Raises Busy if as many signals wait as may.
        """
        with transaction(self._writer):
            known = "SELECT id FROM signals WHERE sender = ? AND key = ?"
            id_ = self._writer.execute(known, (new.sender, new.key)).get
            if id_ is not None:
                return self._read([int(id_)])[0], False
            self._make_room(max_signals, new.at_s)
            row = (new.at_s, new.sender, new.key, new.type, new.content, new.expires_at_s)
            id_ = int(self._writer.execute(_ADD, row).get)
            self._writer.executemany(
                "INSERT INTO signal_addressees VALUES(?, ?)",
                ((id_, address) for address in dict.fromkeys(new.addresses)),
            )
            return self._read([id_])[0], True

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
        """Return the signals to any of these addresses, the unread ones of this reader first, and
        how many are unread.
        """
        bindings = {
            "to": _as_json(addresses),
            "now_s": now_s,
            "type": type_,
            "reader": reader,
            "limit": limit,
        }
        unread = f"{_ARE_ADDRESSED} AND {_ACKED} IS NULL"
        where = _ARE_ADDRESSED if is_with_read else unread
        order = f"ORDER BY {_ACKED} IS NOT NULL, id LIMIT :limit"
        with translating_errors():
            statement = f"SELECT id, {_ACKED} FROM signals WHERE {where} {order}"
            rows: list[Any] = self._writer.execute(statement, bindings).fetchall()
            n = self._writer.execute(f"SELECT count(*) FROM signals WHERE {unread}", bindings).get
            found = self._read([id_ for id_, _ in rows])
        acked = dict(rows)
        return [msgspec.structs.replace(one, acked_at_s=acked[one.id]) for one in found], int(n)

    def find_sent(self, sender: str | None, *, limit: int) -> list[StoredSignal]:
        """Return the signals of a sender, or of all, the latest first, with their receipts."""
        with translating_errors():
            statement = (
                "SELECT id FROM signals WHERE ?1 IS NULL OR sender = ?1 ORDER BY id DESC LIMIT ?2"
            )
            rows: list[Any] = self._writer.execute(statement, (sender, limit)).fetchall()
            return self._read([id_ for (id_,) in rows])

    def ack(
        self, ids: Sequence[int], addresses: Collection[str], *, reader: str, now_s: float
    ) -> tuple[list[int], list[int]]:
        """Record that the reader has these signals. Return those that are acknowledged now for the
        first time, and those that were before; others are not addressed to it.
        """
        addressed = (
            f"SELECT id, {_ACKED} FROM signals WHERE {_ARE_ADDRESSED}"
            " AND id IN (SELECT value FROM json_each(:ids))"
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
            new = sorted(id_ for id_, acked_at_s in rows if acked_at_s is None)
            self._writer.executemany(
                "INSERT INTO signal_receipts VALUES(?, ?, ?)", ((id_, reader, now_s) for id_ in new)
            )
        return new, sorted(id_ for id_, acked_at_s in rows if acked_at_s is not None)

    def purge(self, containing: str | None = None) -> int:
        """Erase all signals, or those whose content contains the text; return their number."""
        with transaction(self._writer):
            n_before = self._count()
            statement = "DELETE FROM signals WHERE ?1 IS NULL OR instr(content, ?1)"
            self._writer.execute(statement, (containing,))
            return n_before - self._count()

    def _count(self) -> int:
        return int(self._writer.execute("SELECT count(*) FROM signals").get)

    def _read(self, ids: Sequence[int]) -> list[StoredSignal]:
        """Read signals in this order."""
        found = []
        for id_ in ids:
            [row] = self._writer.execute(f"{_COLUMNS} WHERE id = ?", (id_,)).fetchall()
            to = "SELECT address FROM signal_addressees WHERE signal = ? ORDER BY address"
            by = "SELECT reader, at FROM signal_receipts WHERE signal = ? ORDER BY at, reader"
            addresses: list[Any] = self._writer.execute(to, (id_,)).fetchall()
            receipts: list[Any] = self._writer.execute(by, (id_,)).fetchall()
            to_whom = tuple(address for (address,) in addresses)
            fields: Any = (*row, to_whom, None, tuple(receipts))
            found.append(StoredSignal(*fields))
        return found


def _as_json(values: Collection[str] | Sequence[int]) -> str:
    return msgspec.json.encode(list(values)).decode()
