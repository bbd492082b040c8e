"""What is there in a records.db to be handed on, and where does it go on after a pause?

Revisions in their order, then tips, then moves. A text follows the first revision that names it, or the first tip if none does,
so that nothing needs to be remembered from one page to the next: what is written or forgotten meanwhile leaves no gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apsw

from memsyncd.core.editing.pieces import cut_pieces
from memsyncd.store.blobs import Blobs
from memsyncd.store.connection import translating_errors
from memsyncd.store.entries import Entry, Move, PastChange, TextPiece, Tip

REVISIONS, TIPS, MOVES = "revisions", "tips", "moves"
STAGES = (REVISIONS, TIPS, MOVES)
_BATCH = 50

_REVISIONS = """
SELECT revisions.id, at, client, command, acts.path, new_path, revisions.path, old_path, old_digest, new_digest
FROM revisions JOIN acts ON acts.id = act WHERE revisions.id >= ? AND state = 'done' ORDER BY revisions.id LIMIT ?
"""
_FIRST_REVISION = """
SELECT min(id) FROM (
  SELECT id FROM revisions WHERE old_digest = ?1 AND state = 'done'
  UNION ALL SELECT id FROM revisions WHERE new_digest = ?1 AND state = 'done'
)
"""
_FIRST_TIP = "SELECT min(path) FROM heads WHERE digest = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to go on: in a stage, from the revision, move (by number) or tip (by path) `key` on.

    Its first `n_given` entries are passed over.
    """

    stage: str = REVISIONS
    key: str = ""
    n_given: int = 0


class Export:
    """Reads out one records.db, for the writer's thread. `n_damaged` counts texts that did not come out right."""

    def __init__(self, connection: apsw.Connection, texts: Blobs) -> None:
        self._connection = connection
        self._texts = texts
        self.n_damaged = 0

    def iter_entries(self, place: Place) -> Iterator[tuple[Place, Entry]]:
        """Every entry from there on, with its own place. Raises the classes of `translating_errors`."""
        for stage in STAGES[STAGES.index(place.stage) :]:
            begun = place if stage == place.stage else Place(stage=stage)
            for key, entries in self._iter_groups(stage, begun.key):
                n_given = begun.n_given if key == begun.key else 0
                for number, entry in enumerate(entries):
                    if number >= n_given:
                        yield Place(stage=stage, key=key, n_given=number), entry

    def _iter_groups(self, stage: str, key: str) -> Iterator[tuple[str, Iterator[Entry]]]:
        if stage == REVISIONS:
            return self._iter_revisions(int(key or 0))
        return self._iter_tips(key) if stage == TIPS else self._iter_moves(int(key or 0))

    def _iter_revisions(self, number: int) -> Iterator[tuple[str, Iterator[Entry]]]:
        while rows := self._read(_REVISIONS, number, _BATCH):
            for id_, *columns in rows:
                yield str(id_), self._iter_revision(id_, columns)
                number = id_ + 1

    def _iter_revision(self, id_: int, columns: list[Any]) -> Iterator[Entry]:
        at_s, client, command, named, new_named, path, old_path, old_digest, new_digest = columns
        yield PastChange(
            at_s=at_s,
            client=client,
            command=command,
            named=named,
            new_named=new_named,
            path=path,
            old_path=old_path,
            old_digest=old_digest,
            new_digest=new_digest,
        )
        for digest in dict.fromkeys((old_digest, new_digest)):
            if digest is not None and self._read(_FIRST_REVISION, digest)[0][0] == id_:
                yield from self._iter_text(digest)

    def _iter_tips(self, path: str) -> Iterator[tuple[str, Iterator[Entry]]]:
        for tip_path, digest in self._read(
            "SELECT path, digest FROM heads WHERE path >= ? ORDER BY path", path
        ):
            yield tip_path, self._iter_tip(tip_path, digest)

    def _iter_tip(self, path: str, digest: str) -> Iterator[Entry]:
        yield Tip(path=path, digest=digest)
        if (
            self._read(_FIRST_REVISION, digest)[0][0] is None
            and self._read(_FIRST_TIP, digest)[0][0] == path
        ):
            yield from self._iter_text(digest)

    def _iter_moves(self, number: int) -> Iterator[tuple[str, Iterator[Entry]]]:
        statement = (
            "SELECT id, old_path, new_path, digest, seen_at FROM moves WHERE id >= ? ORDER BY id"
        )
        for id_, old_path, new_path, digest, seen_at in self._read(statement, number):
            yield (
                str(id_),
                iter(
                    [Move(old_path=old_path, new_path=new_path, digest=digest, seen_at_s=seen_at)]
                ),
            )

    def _iter_text(self, digest: str) -> Iterator[Entry]:
        with translating_errors():
            data = self._texts.read(digest)
        if data is None:
            self.n_damaged += digest in self._texts.damaged
            return
        for offset, piece in cut_pieces(data):
            yield TextPiece(digest=digest, size=len(data), offset=offset, data=piece)

    def _read(self, statement: str, *bindings: object) -> list[Any]:
        with translating_errors():
            return self._connection.execute(statement, bindings).fetchall()
