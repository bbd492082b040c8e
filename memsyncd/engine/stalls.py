"""Detect a workspace whose disk does not answer, and keep the other workspaces running.

A timer runs only while a worker pool has jobs; without jobs nothing wakes up. The pools set and
cancel it, from any thread. When it ends, each pool detaches the steps that take too long, and
workspaces with a step whose thread has even longer done nothing are reported as stalled, on the
event loop: a thread that computes does not wait for a disk. The functions that a blocked thread has
entered tell whether it waits for the disk of its workspace or of one of memsyncd's own databases.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from memsyncd.core.turns import (
    StallPolicy,
    Step,
    describe_stall,
    find_next_check_s,
    find_stalled,
)
from memsyncd.engine.job_completions import call_soon, call_when_awake
from memsyncd.engine.worker import WorkerPool
from memsyncd.engine.workspace import STALL_FAULT, Workspace
from memsyncd.logs import Event, get_log

CLOCK_MONOTONIC = 1
# The kernel takes the flags of a file for a timer.
FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
NS_PER_S = 1_000_000_000

# Seconds and nanoseconds of the interval, which is zero, then of the first time.
_Times = ctypes.c_long * 4


class Alarm(Protocol):
    """A timer that calls once on the loop; a later time replaces an earlier one."""

    def set(self, delay_s: float) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...


def make_alarm(call: Callable[[], None]) -> Alarm:
    """Make a timer on the running loop."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            return FileAlarm(call)
    return LoopAlarm(call)


class FileAlarm:
    """A timer that is a file descriptor of Linux. Any thread sets and cancels it without waking the
    loop.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        """Raises OSError, and AttributeError where the library has no such timers."""
        # The calls take less than a microsecond: to give the interpreter's lock away for them
        # would let another thread run between a job and the next.
        libc = ctypes.PyDLL(None, use_errno=True)
        self._set_time = libc.timerfd_settime
        self._fd = int(libc.timerfd_create(CLOCK_MONOTONIC, FLAGS))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no timer")
        # A loop that has ended closes nothing.
        self._close = weakref.finalize(self, os.close, self._fd)
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._fire)

    def set(self, delay_s: float) -> None:
        # A time of zero would cancel.
        seconds, ns = divmod(max(1, round(delay_s * NS_PER_S)), NS_PER_S)
        self._set(_Times(0, 0, seconds, ns))

    def cancel(self) -> None:
        self._set(_Times(0, 0, 0, 0))

    def close(self) -> None:
        """End the timer; on the loop."""
        self._loop.remove_reader(self._fd)
        self._close()

    def _set(self, times: ctypes.Array[ctypes.c_long]) -> None:
        if self._close.alive:
            self._set_time(self._fd, 0, times, None)

    def _fire(self) -> None:
        # A timer that was set again or cancelled meanwhile has nothing to read.
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
            self._call()


class LoopAlarm:
    """A timer of the loop. A thread that sets it wakes the loop."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._call = call
        self._timer: asyncio.TimerHandle | None = None

    def set(self, delay_s: float) -> None:
        if threading.get_ident() == self._thread:
            self._set(delay_s)
        else:
            call_soon(self._loop, lambda: self._set(delay_s))

    def cancel(self) -> None:
        if threading.get_ident() == self._thread:
            self.close()
        else:
            call_when_awake(self._loop, self.close)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, delay_s: float) -> None:
        self.close()
        self._timer = self._loop.call_later(delay_s, self._call)


STORE = "memsyncd.store."
# The modules of the store that use only one of the databases.
INDEX_MODULES = frozenset(("index", "rows", "texts"))
RECORDS_MODULES = frozenset(("records", "history", "blobs", "accesses", "signals", "backup"))

log = get_log("engine")


class StallMonitor:
    """Checks the running steps of worker pools. The key of a workspace's steps is its id."""

    def __init__(
        self,
        workspaces: Mapping[str, Workspace],
        policy: StallPolicy,
        *,
        on_checked: Callable[[], None],
        on_stalled: Callable[[Workspace], None],
        on_recovered: Callable[[Workspace], None],
    ) -> None:
        """`on_checked()` is called after each check, when overdue steps have been detached."""
        self._loop = asyncio.get_running_loop()
        self._workspaces = workspaces
        self._policy = policy
        self._on_checked = on_checked
        self._on_stalled = on_stalled
        self._on_recovered = on_recovered
        self._pools: list[WorkerPool] = []
        self._lock = threading.Lock()
        self._alarm = make_alarm(self._check)
        self._is_set = False
        self._stalled: dict[str, Workspace] = {}
        self._databases: dict[str, str] = {}
        """The databases whose disks do not answer, by the ids of the workspaces that are stalled by
        them.
        """
        self._databases_answer: asyncio.Future[None] | None = None
        self._futures: dict[str, asyncio.Future[None]] = {}

    def add_pool(self, pool: WorkerPool) -> None:
        self._pools.append(pool)
        pool.on_busy, pool.on_idle = self._begin, self._end_if_idle

    @property
    def is_checking(self) -> bool:
        """True while the timer runs."""
        return self._is_set

    def _begin(self) -> None:
        """A pool has got a job: check its progress after a while. From any thread."""
        with self._lock:
            if not self._is_set:
                self._set(self._policy.takeover_s)

    def _end_if_idle(self) -> None:
        """A pool has no job any more: cancel the timer if none has. From any thread."""
        # A job that is submitted after this look sets the timer again.
        with self._lock:
            if self._is_set and not (self._stalled or self._is_busy()):
                self._is_set = False
                self._alarm.cancel()

    def _set(self, delay_s: float) -> None:
        self._is_set = True
        self._alarm.set(delay_s)

    def _is_busy(self) -> bool:
        return any(pool.is_busy for pool in self._pools)

    def note_returned(self, _key: str) -> None:
        """Check again, because a detached step has returned; from any thread."""
        call_soon(self._loop, self._check)

    def is_stalled(self, workspace: Workspace) -> bool:
        return self._stalled.get(workspace.id) is workspace

    def expect(self, workspace: Workspace) -> asyncio.Future[None]:
        """A future that is done once this workspace is stalled. Requests share it."""
        future = self._futures.setdefault(workspace.id, self._loop.create_future())
        if self.is_stalled(workspace):
            self._release(workspace)
        return future

    def probe_databases(self) -> asyncio.Future[None]:
        """A future that is done once no thread waits for the disk of a database; on the loop."""
        if self._databases_answer is None:
            self._databases_answer = self._loop.create_future()
        answer = self._databases_answer
        self._release_databases()
        return answer

    def _release_databases(self) -> None:
        if self._databases_answer is not None and not self._databases:
            if not self._databases_answer.done():
                self._databases_answer.set_result(None)
            self._databases_answer = None

    def stop(self) -> None:
        """From any thread."""
        self._alarm.cancel()
        call_soon(self._loop, self._alarm.close)

    def _check(self) -> None:
        now_s = time.monotonic()
        for pool in self._pools:
            pool.detach_overdue(now_s)
        running = find_oldest([pool.running_steps() for pool in self._pools])
        self._on_checked()
        self._report(running, find_stalled(running, now_s, self._policy), now_s)
        delay_s = find_next_check_s(running.values(), now_s, self._policy)
        with self._lock:
            if self._stalled or self._is_busy():
                self._set(delay_s)
            else:
                self._is_set = False
                self._alarm.cancel()

    def _report(
        self, running: Mapping[str, Step], stalled: Mapping[str, float], now_s: float
    ) -> None:
        """Set and clear the faults of workspaces; call back for those whose state changed."""
        workspaces = {key: self._workspaces[key] for key in stalled if key in self._workspaces}
        before, self._stalled = self._stalled, workspaces
        places = {key: find_database(running[key].thread_id, workspaces[key]) for key in workspaces}
        self._databases = {key: database for key, database in places.items() if database}
        self._release_databases()
        for key, workspace in workspaces.items():
            text = describe_stall(workspace.entry.root, now_s - stalled[key], places[key])
            workspace.set_fault(STALL_FAULT, text)
            if before.get(key) is not workspace:
                self._stall(workspace, places[key])
        for key, workspace in before.items():
            if workspaces.get(key) is not workspace:
                workspace.set_fault(STALL_FAULT, "")
                if self._workspaces.get(key) is workspace:
                    log.info(Event.WORKSPACE_RECOVERED, workspace=workspace.id)
                    self._on_recovered(workspace)

    def _stall(self, workspace: Workspace, database: str) -> None:
        root = database or workspace.entry.root
        log.error(Event.WORKSPACE_STALLED, workspace=workspace.id, root=root)
        self._release(workspace)
        self._on_stalled(workspace)

    def _release(self, workspace: Workspace) -> None:
        future = self._futures.pop(workspace.id, None)
        if future is not None:
            future.set_result(None)


def find_oldest(running: Sequence[Mapping[str, Step]]) -> dict[str, Step]:
    """Return for each key, of all pools, the step whose thread has done nothing for longest."""
    oldest: dict[str, Step] = {}
    for steps in running:
        for key, step in steps.items():
            if key not in oldest or step.silent_since_s < oldest[key].silent_since_s:
                oldest[key] = step
    return oldest


def find_database(thread_id: int, workspace: Workspace) -> str:
    """Return the path of the database of this workspace that a blocked thread reads or writes;
    empty if it does something else.
    """
    modules = iter(_list_modules(thread_id))
    innermost = next(modules, "")
    if not innermost.startswith(STORE):
        return ""
    for module in (innermost, *modules):
        name = module.removeprefix(STORE)
        if name in RECORDS_MODULES:
            return str(workspace.records_path)
        if name in INDEX_MODULES:
            break
    return str(workspace.index_path)


def _list_modules(thread_id: int) -> Iterator[str]:
    """Yield memsyncd's modules of the functions that a thread has entered, the last one first."""
    idents = {thread.native_id: thread.ident for thread in threading.enumerate()}
    frame = sys._current_frames().get(idents.get(thread_id) or 0)  # noqa: SLF001 - its only name
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("memsyncd."):
            yield name
        frame = frame.f_back
