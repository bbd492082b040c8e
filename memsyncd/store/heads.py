"""Keep the head of each note, its last known digest, and find what differs from it on the disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from memsyncd.core.digest import digest_bytes


class ObservedNote(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a note on the disk, None if it is gone, and its former path if it was moved.

    `is_new`: the note did not exist before, though not every note was observed yet.
    """

    path: str
    data: bytes | None
    moved_from: str | None = None
    is_new: bool = False


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One note's change, in digests; None for no file. `old_path` is its path before a move."""

    path: str
    old_path: str | None = None
    old_digest: str | None
    new_digest: str | None


class Heads:
    """The table `heads`: a path and a digest. apsw's exceptions leave untranslated."""

    def __init__(self, writer: apsw.Connection) -> None:
        self._writer = writer

    def read(self) -> dict[str, str]:
        """Return all digests by path."""
        rows: list[Any] = self._writer.execute("SELECT path, digest FROM heads").fetchall()
        return dict(rows)

    def find(self, path: str) -> str | None:
        """Return one note's digest, None if there is no such note."""
        statement = "SELECT digest FROM heads WHERE path = ?"
        found = self._writer.execute(statement, (path,)).get
        return None if found is None else str(found)

    def find_paths(self, digests: Iterable[str]) -> set[str]:
        """Return the notes that contain one of these texts."""
        statement = "SELECT path FROM heads WHERE digest = ?"
        rows = (self._writer.execute(statement, (digest,)).fetchall() for digest in digests)
        return {str(row[0]) for of_digest in rows for row in of_digest}

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes as if all had happened at once."""
        removed = [
            (one.old_path or one.path,)
            for one in changes
            if one.old_path is not None or one.new_digest is None
        ]
        written = [(one.path, one.new_digest) for one in changes if one.new_digest is not None]
        self._writer.executemany("DELETE FROM heads WHERE path = ?", removed)
        self._writer.executemany("INSERT OR REPLACE INTO heads VALUES(?,?)", written)

    def find_changes(self, observed: Mapping[str, ObservedNote]) -> Iterator[Change]:
        """Yield the differences between notes and heads, as if all had happened at once: two notes
        may have swapped paths.

        A note that another was moved over was deleted first. A note that was moved from a path
        without a head is new.
        """
        paths = {path for one in observed.values() for path in (one.path, one.moved_from) if path}
        heads = {path: self.find(path) for path in paths}
        origins = {
            one.moved_from: path
            for path, one in observed.items()
            if one.data is not None
            and one.moved_from not in {None, path}
            and heads[one.moved_from or path] is not None
        }
        for path, one in observed.items():
            digest = None if one.data is None else digest_bytes(one.data)
            old_digest = None if path in origins else heads[path]
            if one.moved_from is not None and origins.get(one.moved_from) == path:
                if old_digest is not None:
                    yield Change(path=path, old_digest=old_digest, new_digest=None)
                yield Change(
                    path=path,
                    old_path=one.moved_from,
                    old_digest=heads[one.moved_from],
                    new_digest=digest,
                )
            elif old_digest != digest:
                yield Change(path=path, old_digest=old_digest, new_digest=digest)
