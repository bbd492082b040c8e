"""Runs reads for clients on the query threads in fair turns; says which the event loop may try.

The time of a read counts from its request's arrival. One that is overdue before a slot is free is
refused then and does not run. A read of a workspace's disk takes no slot: the disk may block it,
and the query threads run one of each workspace at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from memsyncd.config import Config
from memsyncd.core.scheduling import FairQueue, Flow
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import FolderCheck
from memsyncd.engine.worker import QueryPool
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.engine.workspaces import PathPlace, Workspaces
from memsyncd.errors import Busy, MemsyncdError, NotFresh, StoreFailed
from memsyncd.files.scan import NoteCount, count_notes
from memsyncd.files.scope import is_within_folder
from memsyncd.server.listen import check_outside
from memsyncd.server.session import Session, current_request
from memsyncd.server.waits import (
    OPEN_S,
    STALL_HINT,
    make_stall_error,
    wait_for_work,
    wait_unless_stalled,
    wait_until_open,
)
from memsyncd.store.connection import CancellationToken

if TYPE_CHECKING:
    from memsyncd.files.folder_kinds import KnownPlace

REST_FACTOR = 10
"""After a failed try on the event loop the next one waits for the try's duration times this."""
DISK_TIMEOUT_S = 30.0
"""How long a read waits for its disk; a read of a disk that is known to be stalled is refused."""
FIND_TIMEOUT_S, ADD_TIMEOUT_S, LIST_TIMEOUT_S = 2.0, 5.0, 1.0

Waiter = asyncio.Future[Any]
"""The future of a waiting read; its result is the `Started` of the queue."""
T = TypeVar("T")


class Reads:
    """Runs reads on `threads`, at most `max_running` at once, for the client of the request."""

    def __init__(
        self, workspaces: Workspaces, threads: QueryPool, clock: Clock, max_running: int
    ) -> None:
        self.threads = threads
        self._workspaces = workspaces
        self._clock = clock
        self._queue = ReadQueue(max_running)
        self.n_pending = 0
        """Reads that wait or run."""
        workspaces.stalls.add_pool(threads.pool)

    async def run(
        self,
        read: Callable[[], T],
        end_s: float = math.inf,
        *,
        disk_of: Workspace | None = None,
    ) -> T:
        """Return what `read` returns. It is stopped when the client leaves, and at `end_s`.

        A read of a workspace's disk names the workspace. Raises NotFresh if no slot is free until
        `end_s`, or if that disk does not answer. A damaged index is reported for its repair.
        """
        self.n_pending += 1
        try:
            if disk_of is not None:
                return await self._read_disk(disk_of, read, end_s)
            origin = current_request.get()
            flow: Flow[Waiter] = origin.session.reads if origin else Flow()
            async with self._queue.slot(flow, end_s) as slot:
                left_s = end_s - self._clock.now_s()
                token = CancellationToken(left_s, is_long=slot.is_long)
                return await self._run_in_thread(read, token, slot)
        except StoreFailed as failure:
            self._workspaces.scheduler.report_damage(failure)
            raise
        finally:
            self.n_pending -= 1

    async def _run_in_thread(
        self, read: Callable[[], T], token: CancellationToken, slot: Slot
    ) -> T:
        def run() -> T:
            # Processor time: a read that waits for other threads is not a long one.
            began_s = time.thread_time()
            try:
                return token.run(read)
            finally:
                slot.took_s = time.thread_time() - began_s

        try:
            return await asyncio.wrap_future(self.threads.submit(run))
        finally:
            token.cancel()

    async def _read_disk(self, workspace: Workspace, read: Callable[[], T], end_s: float) -> T:
        if self._workspaces.stalls.is_stalled(workspace):
            raise make_stall_error(workspace)
        token = CancellationToken(end_s - self._clock.now_s())
        future = self.threads.read_disk(workspace.id, partial(token.run, read))
        try:
            waiting = asyncio.wrap_future(future)
            if await wait_unless_stalled(self._workspaces, workspace, waiting, DISK_TIMEOUT_S):
                return waiting.result()
            if self._workspaces.stalls.is_stalled(workspace):
                raise make_stall_error(workspace)
            raise NotFresh(
                f"reading the notes took longer than {DISK_TIMEOUT_S:.0f} s and was given up",
                hint="name fewer notes, or narrow what is asked for",
            )
        finally:
            token.cancel()
            future.cancel()


class Slot:
    """The place of a running read. Its holder sets `took_s`, by which the queue orders reads.

    `is_long` says whether the client's reads were long so far.
    """

    __slots__ = ("is_long", "took_s")

    def __init__(self, *, is_long: bool) -> None:
        self.is_long = is_long
        self.took_s: float | None = None


class ReadQueue:
    """Lets reads wait for a slot, in the order of a fair queue; there are `max_running` slots."""

    __slots__ = ("_queue",)

    def __init__(self, max_running: int) -> None:
        self._queue: FairQueue[Waiter] = FairQueue(max_running)

    @contextlib.asynccontextmanager
    async def slot(self, flow: Flow[Waiter], end_s: float = math.inf) -> AsyncIterator[Slot]:
        """Hold a slot. Raises NotFresh if there is none until `end_s`, by the loop's clock."""
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._queue.push(flow, waiter)
        self._start_waiting()
        timer = None if end_s == math.inf else loop.call_at(end_s, _expire, waiter)
        slot = None
        try:
            started = await waiter
            if loop.time() >= end_s:
                raise overdue_error()
            slot = Slot(is_long=started.was_slow)
            yield slot
        finally:
            if timer is not None:
                timer.cancel()
            waiter.cancel()
            if waiter.cancelled() or waiter.exception() is not None:
                self._queue.remove(flow, waiter)
            else:
                self._queue.finish(waiter.result(), None if slot is None else slot.took_s)
            self._start_waiting()

    def _start_waiting(self) -> None:
        for started in iter(self._queue.start_next, None):
            if started.job.done():  # expired or cancelled: its task has not run since
                self._queue.finish(started)
            else:
                started.job.set_result(started)


def overdue_error() -> NotFresh:
    """Make the error of a request whose time was over before it could run."""
    return NotFresh(
        "the time for this request was over before it could run: other requests ran meanwhile",
        hint="ask again, send fewer requests at once, or ask with a longer timeout_ms",
    )


def _expire(waiter: Waiter) -> None:
    if not waiter.done():
        waiter.set_exception(overdue_error())


class LoopAdmission:
    """Decides which searches are tried on the event loop before they go to a thread.

    A failed try holds up all clients, and a thread repeats its work. So a client gets none while
    another request of its own waits or runs, and none while its searches take long. After a failed
    try, clients of which no short search is known get none for ten times as long as that took.
    """

    __slots__ = ("_clock", "_rest_until_s")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rest_until_s = -math.inf

    def may_try(self, session: Session, n_own: int = 0) -> bool:
        """True if a search may be tried on the event loop. `n_own` says how many of the session's
        pending requests are that search.
        """
        if session.n_pending > n_own or session.reads.is_slow:
            return False
        return session.reads.expected_s is not None or self._clock.now_s() >= self._rest_until_s

    @contextlib.contextmanager
    def trying(self, session: Session) -> Iterator[None]:
        """Measure the try inside. It has failed if it raises."""
        began_s = time.thread_time()
        try:
            yield
        except BaseException:
            took_s = time.thread_time() - began_s
            self._rest_until_s = self._clock.now_s() + REST_FACTOR * took_s
            raise
        session.reads.note(time.thread_time() - began_s)


def request_arrival_s(clock: Clock) -> float:
    """Return when the current request arrived; now, if there is none."""
    origin = current_request.get()
    return clock.now_s() if origin is None else origin.arrived_s


class NamedWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace that a request means, and the folder that was named if that is in a linked
    worktree which shares all memory of `workspace`.

    For a linked worktree that holds memory itself, `main` is the workspace of the main one, whose
    files and folders `shared` it shares.
    """

    workspace: Workspace
    worktree: str = ""
    main: Workspace | None = None
    shared: tuple[str, ...] = ()

    def choose_owner(self, path: str) -> Workspace:
        """Return the workspace in which a path from the root is."""
        is_shared = any(is_within_folder(path, place) for place in self.shared)
        return self.main if self.main is not None and is_shared else self.workspace


class PathLookup:
    """Finds the workspace of a path, and checks folders that are to be added, on `threads`.

    Every access to a path may block on a disk that does not answer. The workspace is then the one
    that the path's text names.
    """

    def __init__(self, workspaces: Workspaces, threads: QueryPool, socket_path: str) -> None:
        self._workspaces = workspaces
        self._threads = threads
        self._socket_path = socket_path

    def needs_disk(self, text: str | None) -> bool:
        """True if the disk is needed to find the workspace of this name."""
        if text is None:
            return False
        if not text.startswith(("/", "~")):
            return self._workspaces.find_worktree(text) is not None
        return not self._workspaces.is_root(text)

    async def find(self, name: str) -> NamedWorkspace:
        """Return the workspace that a path belongs to, or that of a linked worktree by its name or
        id. Raises WorkspaceNotFound.
        """
        named = self._workspaces.find_worktree(name)
        near = named or self._workspaces.find_near(name)
        if near is not None and self._workspaces.stalls.is_stalled(near):
            return NamedWorkspace(workspace=near)
        find = partial(self._workspaces.find_place, name)
        if named is not None:
            find = partial(self._workspaces.read_worktree, named)
        folder = named.entry.root if named else name
        key = folder if near is None else near.id
        try:
            place = await self._run(folder, find, FIND_TIMEOUT_S, key)
        except Busy:
            if near is None:
                raise
            return NamedWorkspace(workspace=near)
        return await self._open(place, named)

    async def _open(self, place: PathPlace, named: Workspace | None = None) -> NamedWorkspace:
        """Return what a place names. A linked worktree that is named, and not found by a path, is a
        workspace whatever it holds.
        """
        owner = self._workspaces.find(place.workspace_id)
        if not (place.present or named):
            return NamedWorkspace(workspace=owner, worktree=place.worktree)
        n_before = len(self._workspaces.by_id)
        workspace = named or self._workspaces.open_worktree(owner, place.worktree)
        if len(self._workspaces.by_id) > n_before:
            await self._index_first(workspace)
        return NamedWorkspace(workspace=workspace, main=owner, shared=place.shared)

    async def _index_first(self, workspace: Workspace) -> None:
        """Wait, not for long, until a workspace that was unknown before its request is indexed."""
        await wait_until_open([workspace], OPEN_S)
        with contextlib.suppress(MemsyncdError):  # the request itself says what is wrong
            scan = self._workspaces.scheduler.scan(workspace)
            await wait_for_work(self._workspaces, workspace, scan, OPEN_S)

    async def list_shared(self, worktree: Workspace) -> list[str]:
        """Return the absolute paths that a linked worktree shares with the main one."""
        root = self._workspaces.find(worktree.entry.main).entry.root
        named = await self.find(worktree.id)
        return [f"{root}/{place}" for place in named.shared]

    async def find_file(self, path: str) -> tuple[Workspace, str]:
        """Return the workspace of an absolute path, and the path from its root. Raises
        WorkspaceNotFound, Busy if a disk stalls, and NoteNotFound for a file of a linked worktree
        that shares all memory of the main one.
        """
        near = self._workspaces.find_near(path)
        if near is not None and self._workspaces.stalls.is_stalled(near):
            raise make_stall_error(near)
        find = partial(self._workspaces.find_file, path)
        key = path if near is None else near.id
        real, place = await self._run(path, find, FIND_TIMEOUT_S, key)
        named = await self._open(place)
        inside = real[len(place.worktree or named.workspace.entry.root) + 1 :] or "."
        return named.choose_owner(inside), inside

    async def check_new(self, path: str) -> FolderCheck:
        """Check a folder that is to be added.

        Raises BadConfig and BadRequest, and Busy if a disk does not answer.
        """
        workspaces = self._workspaces.by_id.values()
        stalled = frozenset(one.id for one in workspaces if self._workspaces.stalls.is_stalled(one))

        def check() -> FolderCheck:
            check_outside(self._socket_path, [path])
            return self._workspaces.check_folder(path, stalled)

        return await self._run(path, check, ADD_TIMEOUT_S)

    async def find_places(
        self, find: Callable[[], list[KnownPlace]], home: str
    ) -> list[KnownPlace]:
        """Call a function that looks for places of tools. Raises Busy if the disk stalls."""
        return await self._run(home, find, FIND_TIMEOUT_S)

    async def count_notes(self, entry: Entry, config: Config, limit_s: float) -> NoteCount:
        """Count the notes that the workspace would have, for at most about `limit_s`.

        Raises Busy if the disk does not answer.
        """
        count = partial(count_notes, entry.scope(config), limit_s=limit_s)
        return await self._run(entry.root, count, limit_s + LIST_TIMEOUT_S)

    async def detect_memory(self, workspaces: list[Workspace]) -> None:
        """Detect which workspaces have memory, of those where it is unknown.

        It stays unknown where the disk does not answer.
        """
        is_stalled = self._workspaces.stalls.is_stalled
        unknown = [one for one in workspaces if one.has_memory is None and not is_stalled(one)]
        checks = [
            self._run(one.entry.root, one.detect_memory, LIST_TIMEOUT_S, one.id) for one in unknown
        ]
        await asyncio.gather(*checks, return_exceptions=True)

    async def _run(
        self, path: str, read: Callable[[], T], limit_s: float, key: str | None = None
    ) -> T:
        """Return what `read` returns. Raises Busy if the disk under `path` does not answer in time.

        Reads with the same `key`, by default the path, run one after another.
        """
        try:
            future = asyncio.wrap_future(self._threads.read_disk(key or path, read))
            return await asyncio.wait_for(future, limit_s)
        except TimeoutError:
            folder = os.path.dirname(path)
            message = f"the disk under {folder}, or under another workspace, does not answer"
            raise Busy(message, hint=STALL_HINT) from None
