"""A workspace whose disk does not answer is stalled and affects no other; with short limits."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import apsw
import pytest
from watchdog.observers.api import BaseObserver

from memsyncd.config import Config, SyncConfig
from memsyncd.core.turns import StallPolicy
from memsyncd.daemon.systemd import Liveness, make_probes
from memsyncd.engine import watching
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import Registry
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace, read_freshness
from memsyncd.engine.workspaces import Workspaces

LIMIT_S = 60.0
CONFIG = Config(sync=SyncConfig(delete_grace_ms=100))
CLOCK = Clock(now_s=time.monotonic, wall_ns=time.time_ns)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """The event that blocked steps wait for."""
    made = threading.Event()
    yield made
    made.set()


async def wait_for(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not is_so():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.01)


POLICY = StallPolicy(takeover_s=0.2, stalled_s=0.6)


def run_scenario(
    folder: Path,
    scenario: Callable[[Workspaces, Workspace, Workspace], Awaitable[None]],
    policy: StallPolicy = POLICY,
) -> None:
    """Run two workspaces, each with a note."""
    for name in ("a", "b"):
        (folder / name / ".memories").mkdir(parents=True)
        (folder / name / ".memories" / "first.md").write_text("larch\n")

    async def run() -> None:
        workspaces = Workspaces(
            registry=Registry(folder / "workspaces.json", home="/nowhere", uid=os.geteuid()),
            state_dir=folder / "state",
            cache_dir=folder / "cache",
            config=CONFIG,
            clock=CLOCK,
            stall_policy=policy,
        )
        workspaces.start(())
        add = workspaces.add
        await scenario(workspaces, add(str(folder / "a")), add(str(folder / "b")))
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(run())


def hold(gate: threading.Event) -> Job[None]:
    gate.wait(LIMIT_S)
    yield


def is_ready(workspace: Workspace, n_notes: int) -> bool:
    fresh = read_freshness(workspace, CONFIG, now_s=time.monotonic())
    return (fresh.state, fresh.pending, workspace.condition.counts.files) == ("ready", 0, n_notes)


def save(workspace: Workspace, name: str) -> None:
    Path(workspace.entry.root, ".memories", name).write_text("maple\n")


def test_a_job_that_blocks_stalls_its_workspace_which_recovers_by_itself(
    tmp_path: Path, gate: threading.Event
) -> None:
    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(lambda: is_ready(a, 1) and is_ready(b, 1))
        workspaces.scheduler._submit(a, partial(hold, gate), lambda _workspace, _result: None)
        save(b, "second.md")
        await wait_for(lambda: is_ready(b, 2))
        await wait_for(lambda: a.condition.state == "stalled")
        fresh = read_freshness(a, CONFIG, now_s=time.monotonic())
        assert (fresh.state, fresh.pending) == ("stalled", 1)
        assert fresh.reasons[0].startswith(f"the disk under {a.entry.root} has not answered for ")
        save(a, "second.md")
        save(b, "third.md")
        await wait_for(lambda: is_ready(b, 3))
        gate.set()
        await wait_for(lambda: is_ready(a, 2))
        assert dict(a.condition.faults) == {}
        save(a, "third.md")
        await wait_for(lambda: is_ready(a, 3))

    run_scenario(tmp_path, scenario)


def compute(_folder: Path, may_end: threading.Event) -> Job[None]:
    while not may_end.is_set():
        sum(range(1000))
    yield


def wait_for_transaction(folder: Path, may_end: threading.Event) -> Job[None]:
    """Wait for a lock of SQLite that another connection of this process has."""
    path = str(folder / "locked.db")
    writer, waiter = apsw.Connection(path), apsw.Connection(path)
    writer.execute("BEGIN IMMEDIATE")
    waiter.set_busy_timeout(1_000)
    while not may_end.is_set():
        with contextlib.suppress(apsw.BusyError):
            waiter.execute("BEGIN IMMEDIATE")
    writer.close()
    waiter.close()
    yield


def wait_for_processor(folder: Path, may_end: threading.Event) -> Job[None]:
    """Compute beside threads that take the interpreter's lock from this one all the time."""
    threads = [threading.Thread(target=lambda: list(compute(folder, may_end))) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield from compute(folder, may_end)
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("work", [compute, wait_for_transaction, wait_for_processor])
def test_a_job_that_works_for_long_stalls_nothing(
    tmp_path: Path, work: Callable[[Path, threading.Event], Job[None]]
) -> None:
    policy = StallPolicy(takeover_s=0.3, stalled_s=1.5)
    may_end = threading.Event()

    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(lambda: is_ready(a, 1) and is_ready(b, 1))
        start = partial(work, tmp_path, may_end)
        job = workspaces.scheduler._submit(a, start, lambda _workspace, _result: None)
        end_s, states = time.monotonic() + 3 * policy.stalled_s, set()
        while time.monotonic() < end_s:
            states.add(a.condition.state)
            await asyncio.sleep(0.05)
        assert states == {"ready"}
        save(b, "second.md")
        await wait_for(lambda: is_ready(b, 2))
        may_end.set()
        await asyncio.wrap_future(job)

    run_scenario(tmp_path, scenario, policy)


class HungDisk:
    """Within `with`, SQLite's writes to files whose paths contain `word` wait for `gate`."""

    def __init__(self, word: str, gate: threading.Event) -> None:
        self._word, self._gate = word, gate
        self._vfs = apsw.VFS("hung", "unix")
        real = ctypes.CDLL(None, use_errno=True).pwrite64
        kinds = (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64)
        real.restype, *real.argtypes = kinds

        def write(file: int, data: int, n_bytes: int, offset: int) -> int:
            if self._word in os.readlink(f"/proc/self/fd/{file}"):
                self._gate.wait(LIMIT_S)
            return int(real(file, data, n_bytes, offset))

        self._write = ctypes.CFUNCTYPE(*kinds, use_errno=True)(write)

    def __enter__(self) -> None:
        call = ctypes.cast(self._write, ctypes.c_void_p).value
        assert self._vfs.xSetSystemCall("pwrite64", call)

    def __exit__(self, *_: object) -> None:
        self._vfs.xSetSystemCall("pwrite64", 0)
        self._vfs.unregister()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which file is written")
@pytest.mark.parametrize("name", ["index", "records"])
def test_a_writer_that_waits_for_the_disk_of_a_database_names_it_and_makes_no_progress(
    tmp_path: Path, gate: threading.Event, name: str
) -> None:
    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(lambda: is_ready(a, 1) and is_ready(b, 1))
        await wait_for(lambda: workspaces.count_jobs() == 0)
        with ThreadPoolExecutor() as threads:
            liveness = Liveness(make_probes(workspaces, threads), {})
            assert await liveness.find_stalled(LIMIT_S) == ()
            with HungDisk(f"{a.id}/{name}.db", gate):
                save(a, "second.md")
                await wait_for(lambda: a.condition.state == "stalled")
                fresh = read_freshness(a, CONFIG, now_s=time.monotonic())
                path = a.index_path if name == "index" else a.records_path
                hung = f"the disk under {path}, a database of {a.entry.root}"
                assert any(reason.startswith(hung) for reason in fresh.reasons)
                assert "databases" in await liveness.find_stalled(0.05)
                save(b, "second.md")
                await wait_for(lambda: is_ready(b, 2))
                assert "databases" in await liveness.find_stalled(0.05)
                gate.set()
                await wait_for(lambda: is_ready(a, 2))
                await wait_for(lambda: not a.condition.faults)
            assert await liveness.find_stalled(LIMIT_S) == ()

    run_scenario(tmp_path, scenario)


def test_a_workspace_whose_own_disk_hangs_is_no_reason_to_restart(
    tmp_path: Path, gate: threading.Event
) -> None:
    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(lambda: is_ready(a, 1) and is_ready(b, 1))
        workspaces.scheduler._submit(a, partial(hold, gate), lambda _workspace, _result: None)
        await wait_for(lambda: a.condition.state == "stalled")
        with ThreadPoolExecutor() as threads:
            liveness = Liveness(make_probes(workspaces, threads), {})
            assert await liveness.find_stalled(LIMIT_S) == ()
        gate.set()

    run_scenario(tmp_path, scenario)


def test_planning_that_blocks_does_not_keep_other_workspaces_from_being_watched(
    tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_folder = watching._is_folder

    def block(path: str) -> bool:
        if path.startswith(str(tmp_path / "a")):
            gate.wait(LIMIT_S)
        return is_folder(path)

    monkeypatch.setattr(watching, "_is_folder", block)

    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 2)
        save(b, "second.md")
        await wait_for(lambda: is_ready(b, 2))
        assert workspaces.watching.health(a).mode == "timed"
        gate.set()
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 4)
        save(a, "second.md")
        await wait_for(lambda: is_ready(a, 2))
        assert workspaces.watching.health(a).mode == "events"

    run_scenario(tmp_path, scenario)


def test_a_large_tree_that_takes_long_to_watch_is_still_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = BaseObserver.schedule

    def take_long(self: BaseObserver, *args: object, **options: object) -> object:
        time.sleep(0.12)  # for four folders longer than a step may take here
        return schedule(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(BaseObserver, "schedule", take_long)

    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 4)
        save(a, "second.md")
        save(b, "second.md")
        await wait_for(lambda: is_ready(a, 2) and is_ready(b, 2))
        assert [workspaces.watching.health(workspace).mode for workspace in (a, b)] == [
            "events",
            "events",
        ]

    run_scenario(tmp_path, scenario)


def test_a_watcher_that_blocks_is_replaced_by_one_without_the_workspace_that_blocks_it(
    tmp_path: Path, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_plans, called = watching.Watcher.set_plans, set[watching.Watcher]()

    def block(self: watching.Watcher, plans: dict[str, watching.Plan]) -> frozenset[str]:
        called.add(self)
        if any(plan.root == str(tmp_path / "a") for plan in plans.values()):
            with self._lock:
                gate.wait(LIMIT_S)
        return set_plans(self, plans)

    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(
            lambda: is_ready(a, 1) and is_ready(b, 1) and workspaces.watching.watcher.n_watches == 4
        )
        monkeypatch.setattr(watching.Watcher, "set_plans", block)
        first = workspaces.watching.watcher
        workspaces.watching.supervise()
        # The first new watcher is blocked, too, and names the workspace.
        await wait_for(
            lambda: (
                workspaces.watching.watcher.n_watches == 2
                and workspaces.watching.watcher is not first
            )
        )
        save(b, "second.md")
        await wait_for(lambda: is_ready(b, 2))
        gate.set()
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 4)
        save(a, "second.md")
        await wait_for(lambda: is_ready(a, 2))
        replaced = {first, *called} - {workspaces.watching.watcher}
        await wait_for(lambda: all(watcher.observer_name == "none" for watcher in replaced))

    run_scenario(tmp_path, scenario)


def test_stopping_with_a_blocked_workspace_is_quick_and_closes_the_others(
    tmp_path: Path, gate: threading.Event
) -> None:
    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(lambda: is_ready(a, 1) and is_ready(b, 1))
        workspaces.scheduler._submit(a, partial(hold, gate), lambda _workspace, _result: None)
        await wait_for(lambda: a.condition.state == "stalled")
        assert not await asyncio.to_thread(workspaces.stop)
        assert b.index is None
        assert b.records is None
        assert a.index is not None

    run_scenario(tmp_path, scenario)


def test_no_timer_runs_when_no_job_is_left(tmp_path: Path) -> None:
    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(lambda: is_ready(a, 1) and is_ready(b, 1))
        await asyncio.wrap_future(workspaces.watching.probe())
        await wait_for(lambda: workspaces.count_jobs() == 0)
        save(b, "second.md")
        await wait_for(lambda: is_ready(b, 2))
        await wait_for(lambda: not workspaces.stalls.is_checking)

    run_scenario(tmp_path, scenario)


def test_an_announced_path_counts_as_pending_until_it_is_scanned(
    tmp_path: Path, gate: threading.Event
) -> None:
    async def scenario(workspaces: Workspaces, a: Workspace, b: Workspace) -> None:
        await wait_for(
            lambda: is_ready(a, 1) and is_ready(b, 1) and workspaces.watching.watcher.n_watches == 4
        )
        held = workspaces.scheduler._submit(
            a, partial(hold, gate), lambda _workspace, _result: None
        )
        save(a, "second.md")
        await wait_for(lambda: read_freshness(a, CONFIG, now_s=time.monotonic()).pending == 1)
        assert not held.done()
        gate.set()
        await wait_for(lambda: is_ready(a, 2))

    run_scenario(tmp_path, scenario)


def test_a_workspace_whose_scan_is_overdue_is_not_ready(tmp_path: Path) -> None:
    async def scenario(_workspaces: Workspaces, a: Workspace, _b: Workspace) -> None:
        await wait_for(lambda: is_ready(a, 1))
        later_s = time.monotonic() + CONFIG.sync.reconcile_s + 40
        fresh = read_freshness(a, CONFIG, now_s=later_s)
        assert fresh.state == "degraded"
        assert "a full scan is due every 30 s" in fresh.overdue

    run_scenario(tmp_path, scenario)
