"""What did each note say when last heard of, and what is different now? The table `tips`: a path and a digest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from memsyncd.core.digest import digest_bytes

_BENEATH = """
WITH RECURSIVE beneath(digest) AS (
  SELECT ?
  UNION
  SELECT base FROM beneath JOIN texts USING(digest) WHERE base IS NOT NULL
)
SELECT path FROM tips WHERE digest IN beneath
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a note says, None if it is gone, and where it has been moved from, as far as that is known."""

    path: str
    data: bytes | None
    moved_from: str | None = None
    is_new: bool = False
    """True if it was not there before, though not every note was seen yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of one note, in digests; None for no file. `old_path` is where it was moved from."""

    path: str
    old_path: str | None = None
    old_digest: str | None
    new_digest: str | None


class Tips:
    """apsw's own exceptions are for the caller to name."""

    def __init__(self, writer: apsw.Connection) -> None:
        self._writer = writer

    def read(self) -> dict[str, str]:
        """By path."""
        rows: list[Any] = self._writer.execute("SELECT path, digest FROM tips").fetchall()
        return dict(rows)

    def is_tip(self, digest: str) -> bool:
        return self._writer.execute("SELECT 1 FROM tips WHERE digest = ?", (digest,)).get is not None

    def apply(self, changes: Sequence[Change]) -> None:
        """As if all of them had happened at once."""
        gone = [(one.old_path or one.path,) for one in changes if one.old_path is not None or one.new_digest is None]
        stands = [(one.path, one.new_digest) for one in changes if one.new_digest is not None]
        self._writer.executemany("DELETE FROM tips WHERE path = ?", gone)
        self._writer.executemany("INSERT OR REPLACE INTO tips VALUES(?,?)", stands)

    def find_changes(self, seen: Mapping[str, Seen]) -> Iterator[Change]:
        """What differs, all of it taken to have happened at once: two notes may have changed places.

        A note that another was moved over went first. One that is said to come from where none was is new.
        """
        tips = {path: self.find(path) for one in seen.values() for path in (one.path, one.moved_from) if path is not None}
        origins = {
            one.moved_from: path
            for path, one in seen.items()
            if one.data is not None and one.moved_from not in {None, path} and tips[one.moved_from or path] is not None
        }
        for path, one in seen.items():
            digest = None if one.data is None else digest_bytes(one.data)
            stood = None if path in origins else tips[path]
            if one.moved_from is not None and origins.get(one.moved_from) == path:
                if stood is not None:
                    yield Change(path=path, old_digest=stood, new_digest=None)
                yield Change(path=path, old_path=one.moved_from, old_digest=tips[one.moved_from], new_digest=digest)
            elif stood != digest:
                yield Change(path=path, old_digest=stood, new_digest=digest)

    def find(self, path: str) -> str | None:
        """One note's digest, None if there is no such note."""
        found = self._writer.execute("SELECT digest FROM tips WHERE path = ?", (path,)).get
        return None if found is None else str(found)

    def find_beneath(self, digests: Collection[str]) -> set[str]:
        """The notes that say one of these texts today, or what one of them stands on."""
        rows = (self._writer.execute(_BENEATH, (digest,)).fetchall() for digest in digests)
        return {str(row[0]) for of_digest in rows for row in of_digest}
