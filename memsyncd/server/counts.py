"""What have clients asked since the start, what came of it, and how long did it take? Fixed memory, whatever they ask."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from memsyncd.core.histogram import DurationHistogram
from memsyncd.server.session import Session

NO_METHOD = "invalid"
"""Stands for the method of what could not be read as a request of one."""
ABANDONED = "client_gone"
"""Stands for the code of a request whose client did not wait for the answer."""


class Answered(NamedTuple):
    """How one request ended: `code` is that of its error, empty for a result. `error` is one of ours that has no name."""

    session: Session
    method: str
    took_s: float
    code: str
    error: Exception | None = None


@dataclass(slots=True)
class MethodCount:
    """Requests of one method."""

    answered: DurationHistogram = field(default_factory=DurationHistogram)
    """Of all that had an answer, from its request's arrival until it was ready."""
    failed: dict[str, int] = field(default_factory=dict)
    """By the error's code."""
    n_abandoned: int = 0


@dataclass(slots=True)
class Counts:
    """What has happened since the start."""

    requests: int = 0
    failed_requests: int = 0
    accepted: int = 0
    """Connections that were let in."""
    refused: int = 0
    """Connections turned away: another user's, or one too many."""
    dropped: int = 0
    """Connections cut: slow readers, unfinished lines, silent ones in the way of others."""
    methods: defaultdict[str, MethodCount] = field(default_factory=lambda: defaultdict(MethodCount))

    def note(self, answered: Answered) -> None:
        """Count a request that has ended."""
        method = self.methods[answered.method]
        if answered.code == ABANDONED:
            method.n_abandoned += 1
            return
        method.answered.add(answered.took_s)
        if answered.code:
            self.failed_requests += 1
            method.failed[answered.code] = method.failed.get(answered.code, 0) + 1
