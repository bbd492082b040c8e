"""Which paths have rung, and when is it time to answer?

Events come on watchdog's thread and are handed to the loop, many at a time. There the debouncer says when each workspace's are
settled. What rang since the last full look began is remembered, so that a look can tell which changes no event had announced.
Some come late: watchdog holds what may be half of a move, and a busy machine the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Iterable

from memsyncd.core.changes.debounce import DebouncePolicy, Debouncer, Settled
from memsyncd.engine.policies import Clock

RUNG_LIMIT = 4096
"""Paths remembered a workspace; beyond it the root itself counts as rung."""
LATE_S = 1.0
"""How long an event may take; a change that a look finds first is unannounced only after that."""
ROOT = ""

_Heard = tuple[str, str, bool, bool]


class Doorbells:
    """Gathers events and calls `on_settled` on the loop it was made on, once for each workspace that is due."""

    def __init__(self, policy: DebouncePolicy, clock: Clock, on_settled: Callable[[Settled[str]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._on_settled = on_settled
        self._debouncer: Debouncer[str] = Debouncer(policy)
        self._lock = threading.Lock()
        self._heard: list[_Heard] = []
        self._rung: dict[str, dict[str, float]] = {}
        """Of each workspace the paths, with when they rang last."""
        self._timer: asyncio.TimerHandle | None = None

    def set_policy(self, policy: DebouncePolicy) -> None:
        """Go on by another policy; what was pending is forgotten, so ring all."""
        self._debouncer = Debouncer(policy)

    def ring(self, workspace_id: str, path: str, *, is_finished: bool, is_folder: bool) -> None:
        """A path is dirty; from any thread."""
        with self._lock:
            self._heard.append((workspace_id, path, is_finished, is_folder))
            is_first = len(self._heard) == 1
        if is_first:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._take)

    def ring_all(self, workspace_ids: Iterable[str]) -> None:
        """Everything may be dirty; on the loop."""
        for workspace_id in workspace_ids:
            self._debouncer.push_all(workspace_id, self._clock.now_s())
        self._arm()

    def find_unannounced(self, workspace_id: str, paths: list[str], tell: Callable[[list[str]], None]) -> None:
        """Tell those of `paths` that have not rung since the last full look, nor a folder above them; later, if there are any."""
        if not self._choose_silent(workspace_id, paths):
            tell([])
        else:
            self._loop.call_later(LATE_S, lambda: tell(self._choose_silent(workspace_id, paths)))

    def _choose_silent(self, workspace_id: str, paths: list[str]) -> list[str]:
        rung = self._rung.get(workspace_id, {})
        return [path for path in paths if not _is_announced(path, rung)]

    def forget_rung(self, workspace_id: str, began_s: float) -> None:
        """A full look that began at `began_s` is over: what rang before that it has seen. What may be asked for late is kept."""
        before_s = min(began_s, self._clock.now_s() - 2 * LATE_S)
        rung = self._rung.pop(workspace_id, {})
        kept = {path: rung_s for path, rung_s in rung.items() if rung_s >= before_s}
        if kept:
            self._rung[workspace_id] = kept

    def forget(self, workspace_id: str) -> None:
        self._debouncer.drop(workspace_id)
        self._rung.pop(workspace_id, None)

    def _take(self) -> None:
        now_s = self._clock.now_s()
        with self._lock:
            heard, self._heard = self._heard, []
        for workspace_id, path, is_finished, is_folder in heard:
            rung = self._rung.setdefault(workspace_id, {})
            rung[path if len(rung) < RUNG_LIMIT or path in rung else ROOT] = now_s
            self._debouncer.push(workspace_id, path, now_s, is_finished=is_finished, is_folder=is_folder)
        self._answer()

    def _answer(self) -> None:
        for settled in self._debouncer.pop_settled(self._clock.now_s()):
            self._on_settled(settled)
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_s = self._debouncer.next_deadline_s()
        if deadline_s is not None:
            self._timer = self._loop.call_later(max(0.0, deadline_s - self._clock.now_s()), self._answer)


def _is_announced(path: str, rung: Collection[str]) -> bool:
    while path not in rung:
        if path == ROOT:
            return False
        path = path.rpartition("/")[0]
    return True
