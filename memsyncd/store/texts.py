"""How is what notes said kept, so that a hundred versions take little more room than one?

Each text once, by its digest. The newest of a note stands whole, an older one as a delta on the next; after `HEIGHT_LIMIT` in a
row one stays whole, so that reading the oldest stays quick and damage does not spread. What is read is checked by its digest: a
text that does not come out right is damaged, and nobody gets it. When a text goes, those that stood on it are put on another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import apsw

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.deltas import DeltaBroken, apply_delta, make_delta
from memsyncd.errors import StoreFailed

HEIGHT_LIMIT = 64

_PUT = (
    "INSERT INTO texts(digest, size, data) VALUES(?,?,?)"
    " ON CONFLICT(digest) DO UPDATE SET size = excluded.size, base = NULL, data = excluded.data"
)
_IS_USED = (
    "SELECT EXISTS(SELECT 1 FROM tips WHERE digest = ?1) OR EXISTS(SELECT 1 FROM revisions WHERE old_digest = ?1)"
    " OR EXISTS(SELECT 1 FROM revisions WHERE new_digest = ?1)"
)


class Texts:
    """The table `texts`. Methods that write belong inside a transaction; apsw's own exceptions are for the caller to name."""

    def __init__(self, writer: apsw.Connection) -> None:
        self._writer = writer
        self.damaged: set[str] = set()

    def keep(self, data: bytes) -> str:
        """Have this text; its digest. One that is there but damaged is mended by it."""
        digest = digest_bytes(data)
        stored = self.read(digest)
        if stored is None:
            self._writer.execute(_PUT, (digest, len(data), make_delta(b"", data)))
            # What stands on it may be readable again.
            self.damaged.clear()
        elif stored != data:
            raise StoreFailed("two different texts have one digest", hint="change one of them a little")
        return digest

    def read(self, digest: str) -> bytes | None:
        """The text, or None if it is not there or, then also in `damaged`, does not come out right."""
        deltas: list[bytes] = []
        passed: set[str] = set()
        at: str | None = digest
        while at is not None and at not in passed:
            row = self._writer.execute("SELECT base, data FROM texts WHERE digest = ?", (at,)).fetchone()
            if row is None:
                break
            passed.add(at)
            at, delta = row
            deltas.append(delta)
        if not deltas:
            return None
        text = _build(deltas) if at is None else None
        if text is None or digest_bytes(text) != digest:
            self.damaged.add(digest)
            return None
        self.damaged.discard(digest)
        return text

    def lean(self, older: str, newer: str) -> None:
        """Keep a whole text as a delta on the one that came after it, where that is smaller."""
        row = self._writer.execute("SELECT base, height, length(data) FROM texts WHERE digest = ?", (older,)).fetchone()
        if older == newer or row is None or row[0] is not None or row[1] >= HEIGHT_LIMIT:
            return
        old_text, new_text = self.read(older), self.read(newer)
        if old_text is None or new_text is None:
            return
        delta = make_delta(new_text, old_text)
        if len(delta) >= row[2]:
            return
        # Only on a whole text: else two that alternate would come to stand on each other.
        if self._writer.execute("SELECT base FROM texts WHERE digest = ?", (newer,)).get is not None:
            self._writer.execute("UPDATE texts SET base = NULL, data = ? WHERE digest = ?", (make_delta(b"", new_text), newer))
        self._writer.execute("UPDATE texts SET base = ?, data = ? WHERE digest = ?", (newer, delta, older))
        self._writer.execute("UPDATE texts SET height = max(height, ?) WHERE digest = ?", (row[1] + 1, newer))

    def drop_unused(self, digests: Iterable[str]) -> int:
        """Drop those that are no tip and in no revision; how many that were."""
        return self.drop([digest for digest in sorted(set(digests)) if not self.is_used(digest)])

    def is_used(self, digest: str) -> bool:
        """Whether it is a tip, or in a revision."""
        return bool(self._writer.execute(_IS_USED, (digest,)).get)

    def drop(self, digests: Collection[str]) -> int:
        """Drop these, whoever names them, and what cannot be read without them; how many there were."""
        doomed = set(digests)
        n_lost = (
            self.drop([digest for digest in self._find_standing_on(doomed) if not self._move(digest, doomed)]) if doomed else 0
        )
        before = self._writer.total_changes()
        self._writer.executemany("DELETE FROM texts WHERE digest = ?", ((digest,) for digest in sorted(doomed)))
        self.damaged -= doomed
        return n_lost + self._writer.total_changes() - before

    def _find_standing_on(self, doomed: set[str]) -> list[str]:
        rows = (self._writer.execute("SELECT digest FROM texts WHERE base = ?", (base,)).fetchall() for base in sorted(doomed))
        return [str(row[0]) for of_base in rows for row in of_base if row[0] not in doomed]

    def _move(self, digest: str, doomed: set[str]) -> bool:
        """Put a text on the next one that stays, or make it whole. False if it cannot be read."""
        text = self.read(digest)
        if text is None:
            return False
        base: str | None = digest
        while base is not None and (base == digest or base in doomed):
            base = self._writer.execute("SELECT base FROM texts WHERE digest = ?", (base,)).get
        data = make_delta(b"", text)
        base_text = self.read(base) if base is not None else None
        if base_text is None or len(delta := make_delta(base_text, text)) >= len(data):
            base = None
        else:
            data = delta
        self._writer.execute("UPDATE texts SET base = ?, data = ? WHERE digest = ?", (base, data, digest))
        return True


def _build(deltas: list[bytes]) -> bytes | None:
    text = b""
    try:
        for delta in reversed(deltas):
            text = apply_delta(text, delta)
    except DeltaBroken:
        return None
    return text
