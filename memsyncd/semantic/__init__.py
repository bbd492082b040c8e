"""Semantic search: vectors of chunks, and how near they are to a question.

Searches use `VectorSearch`; each workspace has its own. The daemon never imports numpy: the model
and the vectors are in a separate process, which ends when nobody asks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from memsyncd.operations.semantic.declare import SemanticStatus


class Cosines(NamedTuple):
    """How near chunks are to a question. Their ids are the rowids of index.db.

    A chunk that has no vector, or is not allowed, is not in `of`, even if it is a candidate.
    """

    of: dict[int, float]
    """The cosines of the candidates and of the nearest allowed chunks."""
    median: float
    """The median over all allowed chunks that have a vector."""
    highest: float


class PendingCosines(Protocol):
    """A question that the process is embedding. Without a call of `select` it is forgotten."""

    def select(
        self, candidates: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> None:
        """Ask for the cosines of `candidates` and of the `nearest` nearest chunks among `allowed`
        (None: all). Returns at once.
        """
        ...

    def finish(self, deadline_s: float) -> Cosines | None:
        """Wait for the selected cosines until `deadline_s` on the monotonic clock.

        `[semantic] question_ms` may end the wait earlier. Returns None if semantic search is off,
        late or failed, or if no allowed chunk has a vector: then words alone answer. Never raises.
        """
        ...

    @property
    def reason(self) -> str:
        """The reason why `finish` has returned None; empty if no allowed chunk has a vector."""
        ...


class VectorSearch(Protocol):
    """The vectors of a workspace. Several threads may call its methods at once; none raises.

    Methods that may return None wait for the process, so do not call them on the event loop.
    """

    def status(self) -> SemanticStatus:
        """Return the state from the last report of the process. It takes microseconds."""
        ...

    def prepare(self, question: str) -> None:
        """Make the process embed a question that will follow with `begin`, for any workspaces.

        It never blocks, so it may be called on the event loop.
        """
        ...

    def begin(self, question: str) -> PendingCosines:
        """Make the process embed a question. Returns at once, so that FTS5 can search meanwhile."""
        ...

    def of_chunks(
        self, chunks: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> Cosines | None:
        """Return the chunks nearest to the mean of `chunks`, without these. Embeds nothing."""
        ...

    def pairs(self, at_least: float, limit: int) -> list[tuple[int, int, float]] | None:
        """Return pairs of chunks with a cosine of at least `at_least`, the nearest first.

        It may take seconds.
        """
        ...


class NoVectors:
    """Semantic search that is off; `reason` says why."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self._status = SemanticStatus(state="off", reason=reason or None)

    def status(self) -> SemanticStatus:
        return self._status

    def prepare(self, question: str) -> None:
        del question

    def begin(self, question: str) -> PendingCosines:
        del question
        return self

    def select(
        self, candidates: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> None:
        del candidates, allowed, nearest

    def finish(self, deadline_s: float) -> Cosines | None:
        del deadline_s
        return None

    def of_chunks(
        self, chunks: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> Cosines | None:
        del chunks, allowed, nearest
        return None

    def pairs(self, at_least: float, limit: int) -> list[tuple[int, int, float]] | None:
        del at_least, limit
        return None
