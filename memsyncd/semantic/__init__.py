"""Semantic search: vectors of chunks, and how near they are to a question.

What searches use is `VectorSearch`, of which each workspace has one. The daemon never imports
numpy: the model and the vectors are in a process of their own, which ends when nobody asks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from memsyncd.operations.semantic.declare import SemanticStatus


class Cosines(NamedTuple):
    """How near chunks are to a question, by their ids, which are the rowids of index.db.

    A chunk without a vector is not in `of`, nor one that is not allowed, even if it was asked for.
    """

    of: dict[int, float]
    """Of all candidates asked for, and of the nearest chunks that are allowed."""
    median: float
    """Over all allowed chunks that have a vector."""
    highest: float


class PendingCosines(Protocol):
    """A question that the process embeds meanwhile. Without `select` it is forgotten."""

    def select(
        self, candidates: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> None:
        """Ask for the cosines of `candidates` and of the `nearest` nearest chunks among `allowed`
        (None: all). Returns at once.
        """
        ...

    def finish(self, deadline_s: float) -> Cosines | None:
        """Wait for the cosines that were asked for; `deadline_s` is on the monotonic clock, and
        `[semantic] question_ms` may end the waiting before it.

        Returns None if it is off, late or failed, or no allowed chunk has a vector: lexical search
        answers alone. Never raises.
        """
        ...

    @property
    def reason(self) -> str:
        """Why `finish` has returned None; empty if no allowed chunk has a vector."""
        ...


class VectorSearch(Protocol):
    """The vectors of one workspace. Its methods may be called from several threads at once, and
    never raise; those that return None wait for the process, so not on the event loop.
    """

    def status(self) -> SemanticStatus:
        """Costs microseconds: what the last report of the process says."""
        ...

    def prepare(self, question: str) -> None:
        """Have a question embedded that one or several workspaces will be asked with `begin`. Never
        blocks, so it may be called on the event loop.
        """
        ...

    def begin(self, question: str) -> PendingCosines:
        """Have a question embedded; returns at once, so that FTS5 searches meanwhile."""
        ...

    def of_chunks(
        self, chunks: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> Cosines | None:
        """Return the chunks nearest to the mean of these, which are left out; embeds nothing."""
        ...

    def pairs(self, at_least: float, limit: int) -> list[tuple[int, int, float]] | None:
        """Return pairs of chunks with such a cosine, the nearest first; may take seconds."""
        ...


class NoVectors:
    """Semantic search that is off, for `reason`."""

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
