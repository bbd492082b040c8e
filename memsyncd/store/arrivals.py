"""How do records of another records.db come into this one, so that nothing of either is lost, however often they come?

A revision is there already if when, by whom and to what it happened is all the same. New ones take their place by time: those
that come after them get new numbers, and no number ever comes to mean another revision. A text is taken only if something here
names it. What a note said there, if no revision here knows that it ever did, becomes a revision of an act `import`, which
leads to what it says here: undoing that brings it back.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from memsyncd.core.digest import digest_bytes
from memsyncd.errors import BadRequest
from memsyncd.store.blobs import Blobs
from memsyncd.store.connection import transaction
from memsyncd.store.entries import Entry, Move, PastChange, TextPiece, Tip
from memsyncd.store.history import Heads

COMMAND = "import"
"""The command of an act that was made of what notes said elsewhere."""
_FROM_THE_START = "import the file from its start"

_FIND_ACTS = "SELECT id FROM acts WHERE at = ? AND client = ? AND command = ? AND path = ? AND new_path IS ? ORDER BY id"
_IS_KNOWN = "SELECT 1 FROM revisions WHERE act = ? AND path = ? AND old_path IS ? AND old_digest IS ? AND new_digest IS ?"
_ADD_ACT = "INSERT INTO acts(at, client, command, path, new_path) VALUES(?,?,?,?,?) RETURNING id"
_ADD_REVISION = "INSERT INTO revisions(act, path, old_path, old_digest, new_digest, state) VALUES(?,?,?,?,?,'done') RETURNING id"
_LATER = """
SELECT at, revisions.id FROM revisions JOIN acts ON acts.id = act
WHERE revisions.id >= (SELECT min(later.id) FROM acts JOIN revisions AS later ON later.act = acts.id WHERE at > ?)
  AND revisions.id < ?
ORDER BY revisions.id
"""
_PUT_LAST = (
    "INSERT INTO revisions(act, path, old_path, old_digest, new_digest, state)"
    " SELECT act, path, old_path, old_digest, new_digest, state FROM revisions WHERE id = ?"
)
_ADD_MOVE = """
INSERT INTO moves(old_path, new_path, digest, seen_at) SELECT ?1, ?2, ?3, ?4
WHERE NOT EXISTS(SELECT 1 FROM moves WHERE new_path = ?2 AND old_path = ?1 AND digest = ?3 AND seen_at = ?4)
"""
_HAS_SAID = """
SELECT EXISTS(SELECT 1 FROM revisions WHERE old_digest = ?2 AND ?1 IN (path, old_path))
  OR EXISTS(SELECT 1 FROM revisions WHERE new_digest = ?2 AND ?1 IN (path, old_path))
"""
_NEIGHBOUR = """
SELECT old_digest FROM revisions WHERE new_digest = ?1 AND old_digest IS NOT NULL AND old_digest <> ?1
"""


@dataclass(slots=True, kw_only=True)
class Taken:
    """What was new. `n_renumbered` revisions were here, come after one that is new, and have other numbers now."""

    n_revisions: int = 0
    n_texts: int = 0
    n_moves: int = 0
    n_renumbered: int = 0


@dataclass(slots=True)
class _Arriving:
    """A text of which some pieces are here; `data` is None if it is not wanted."""

    digest: str
    data: bytearray | None
    n_bytes: int = 0


class Arrivals:
    """Takes entries into one records.db, for the writer's thread."""

    def __init__(self, writer: apsw.Connection, texts: Blobs, tips: Heads) -> None:
        self._writer = writer
        self._texts = texts
        self._tips = tips
        self._arriving: _Arriving | None = None

    def take(self, entries: Sequence[Entry], *, at_s: float, client: str) -> Taken:
        """Take what is new of them, in one commit. The entries of an export come in its order, cut anywhere.

        Raises BadRequest for a text that is not whole or not itself, and the classes of `translating_errors`; nothing is taken.
        """
        taken = Taken()
        try:
            with transaction(self._writer):
                self._add_changes([one for one in entries if isinstance(one, PastChange)], taken)
                self._add_tips(
                    [one for one in entries if isinstance(one, Tip)], (at_s, client), taken
                )
                self._add_moves([one for one in entries if isinstance(one, Move)], taken)
                for piece in entries:
                    if isinstance(piece, TextPiece):
                        taken.n_texts += self._take_piece(piece)
        except BaseException:
            self._arriving = None
            raise
        return taken

    def _add_changes(self, changes: Iterable[PastChange], taken: Taken) -> None:
        added = [
            (change.at_s, number)
            for change in changes
            if (number := self._add_change(change)) is not None
        ]
        if added:
            taken.n_revisions += len(added)
            taken.n_renumbered += self._order(added)

    def _add_change(self, change: PastChange) -> int | None:
        """Its number, or None if it is known."""
        act_row = (change.at_s, change.client, change.command, change.named, change.new_named)
        row = (change.path, change.old_path, change.old_digest, change.new_digest)
        acts = [found[0] for found in self._read(_FIND_ACTS, *act_row)]
        if any(self._read(_IS_KNOWN, act, *row) for act in acts):
            return None
        act = acts[-1] if acts else self._writer.execute(_ADD_ACT, act_row).get
        return int(self._writer.execute(_ADD_REVISION, (act, *row)).get)

    def _order(self, added: list[tuple[float, int]]) -> int:
        """Put what comes after what was added behind it, each in its own order; how many that were here before."""
        first_added = added[0][1]
        later = self._read(_LATER, min(at for at, _ in added), first_added)
        last, n_renumbered, is_displaced = 0, 0, False
        for _, number in heapq.merge(_rise(later), _rise(added)) if later else ():
            is_displaced = is_displaced or number < last
            last = number
            if is_displaced:
                self._writer.execute(_PUT_LAST, (number,))
                self._writer.execute("DELETE FROM revisions WHERE id = ?", (number,))
                n_renumbered += number < first_added
        return n_renumbered

    def _add_tips(self, tips: Iterable[Tip], row: tuple[float, str], taken: Taken) -> None:
        """Make known what notes said elsewhere and never did here."""
        stands = {tip.path: self._tips.find(tip.path) for tip in tips}
        unknown = [
            tip
            for tip in tips
            if stands[tip.path] != tip.digest
            and not self._writer.execute(_HAS_SAID, (tip.path, tip.digest)).get
        ]
        if not unknown:
            return
        act = self._writer.execute(
            _ADD_ACT, (*row, COMMAND, unknown[0].path if len(unknown) == 1 else "", None)
        ).get
        for tip in unknown:
            self._writer.execute(
                _ADD_REVISION, (act, tip.path, None, tip.digest, stands[tip.path])
            ).fetchall()
        taken.n_revisions += len(unknown)

    def _add_moves(self, moves: Iterable[Move], taken: Taken) -> None:
        for move in moves:
            self._writer.execute(
                _ADD_MOVE, (move.old_path, move.new_path, move.digest, move.seen_at_s)
            )
            taken.n_moves += self._writer.changes()

    def _take_piece(self, piece: TextPiece) -> bool:
        """Whether a text that was not here is whole with it."""
        if piece.offset == 0:
            is_wanted = self._texts.is_used(piece.digest) and self._texts.read(piece.digest) is None
            self._arriving = _Arriving(piece.digest, bytearray() if is_wanted else None)
        arriving = self._arriving
        if arriving is None or arriving.digest != piece.digest or arriving.n_bytes != piece.offset:
            raise BadRequest(
                f"the text {piece.digest} does not go on where it ended", hint=_FROM_THE_START
            )
        arriving.n_bytes += len(piece.data)
        if arriving.data is not None:
            arriving.data += piece.data
        if arriving.n_bytes < piece.size:
            return False
        self._arriving = None
        if arriving.data is None:
            return False
        self._keep(piece.digest, bytes(arriving.data))
        return True

    def _keep(self, digest: str, data: bytes) -> None:
        if digest_bytes(data) != digest:
            raise BadRequest(
                f"the text {digest} is not what its digest says",
                hint="the file is damaged: export it anew",
            )
        like = self._read(_NEIGHBOUR, digest)
        self._texts.keep(data, like=like[0][0] if like else None)

    def _read(self, statement: str, *bindings: object) -> list[Any]:
        return self._writer.execute(statement, bindings).fetchall()


def _rise(rows: Iterable[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """Time and number of revisions in their order, by times that never go back, though a clock may have."""
    latest_s = 0.0
    for at_s, number in rows:
        latest_s = max(latest_s, at_s)
        yield latest_s, number
