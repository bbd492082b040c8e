"""Runs the jobs that write: one step at a time, of all workspaces in turn.

Longer steps of one workspace lose their place to another thread, see `workers`; jobs of one workspace never overlap.
"""

from __future__ import annotations

from collections.abc import Callable

from memsyncd.core.scheduling import StallPolicy
from memsyncd.engine.workers import Steps, WorkerPool

__all__ = ["Lane", "Steps", "take_a_step"]


class Lane(WorkerPool):
    """A pool with one place, whose thread is there from the beginning."""

    def __init__(
        self, name: str, *, policy: StallPolicy | None = None, on_returned: Callable[[str], None] = lambda _key: None
    ) -> None:
        super().__init__(name, policy=policy, on_returned=on_returned)
        with self._changed:
            self._begin_thread()


def take_a_step() -> Steps[None]:
    """The shortest job that a lane can have."""
    yield
