"""Changes during the planning of watches, and blocked disks, with real workspaces."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import itertools
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from watchdog.observers import inotify_c

from memsyncd.config import Config, SyncConfig
from memsyncd.core.turns import StallPolicy
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import Registry
from memsyncd.engine.watching import CheckResult
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import DEFAULT_STALLS, Workspaces
from memsyncd.watch import targets

WAIT_S = 60.0
HANG_LIMIT_S = 120.0


def test_a_links_target_deleted_before_it_is_watched_is_noticed_at_once(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "proj"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / ".memories").mkdir()
    (root / "docs" / "deep" / "real.md").write_text("larch")
    is_planning = threading.Event()

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path)
        workspace = workspaces.add(str(root))
        n_files = lambda: workspace.condition.counts.files  # noqa: E731
        await wait_for(
            lambda: (
                workspace.condition.state == "ready" and workspaces.watching.watcher.n_watches == 2
            )
        )
        await asyncio.wrap_future(workspaces.watching.probe())

        workspaces.watching._pool.call(is_planning.wait)
        (root / ".memories" / "link.md").symlink_to("../docs/deep/real.md")
        await wait_for(lambda: n_files() == 1)
        shutil.rmtree(root / "docs")
        is_planning.set()

        await wait_for(lambda: n_files() == 0)
        await asyncio.get_running_loop().run_in_executor(None, workspaces.stop)

    asyncio.run(scenario())


def test_a_workspace_is_scanned_once_when_it_is_opened_after_its_folders_are_watched(
    tmp_path: Path,
) -> None:
    """A scan beside the walk of the watcher would have to be repeated."""
    is_planning = threading.Event()

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path)
        workspaces.watching._pool.call(is_planning.wait)
        workspace = add_workspace(workspaces, tmp_path / "a")
        await wait_for(lambda: workspace.opening is not None and workspace.opening.done())
        await asyncio.wrap_future(workspaces.heartbeat())
        assert workspace.condition.scanned_s is None

        is_planning.set()
        await wait_for(lambda: workspace.condition.state == "ready")
        await asyncio.wrap_future(workspaces.watching.probe())
        await asyncio.wrap_future(workspaces.heartbeat())
        assert workspaces.counters(workspace).syncs.n == 1
        assert workspaces.watching.watcher.n_watches == 2
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(scenario())


def test_a_workspace_is_scanned_though_its_folders_cannot_be_watched_yet(tmp_path: Path) -> None:
    gate = threading.Event()

    async def scenario() -> None:
        workspaces = open_workspaces(
            tmp_path, stall_policy=StallPolicy(takeover_s=0.2, stalled_s=60.0)
        )
        workspaces.watching._pool.call(lambda: gate.wait(HANG_LIMIT_S), "another disk")
        workspaces.watching._pool.call(lambda: gate.wait(HANG_LIMIT_S), workspaces.watching._key)
        workspace = add_workspace(workspaces, tmp_path / "a")
        await wait_for(lambda: workspace.condition.state == "ready")
        assert workspaces.watching.watcher.n_watches == 0
        (tmp_path / "a" / ".memories" / "second.md").write_text("maple")
        gate.set()
        await wait_for(lambda: workspace.condition.counts.files == 2)
        await asyncio.to_thread(workspaces.stop)

    try:
        asyncio.run(scenario())
    finally:
        gate.set()


def test_events_lost_during_a_check_lead_to_another_check(tmp_path: Path) -> None:
    """They may concern folders that were checked already."""
    root = tmp_path.resolve() / "proj"
    (root / ".memories").mkdir(parents=True)
    calls: list[float] = []

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path)
        workspace = workspaces.add(str(root))
        watching = workspaces.watching
        await wait_for(
            lambda: workspace.condition.state == "ready" and watching.watcher.n_watches == 2
        )
        check = watching.watcher.check

        def check_and_lose(now_s: float) -> tuple[str, ...]:
            calls.append(now_s)
            if len(calls) == 1:
                n_before = watching.n_losses
                watching._report_from_thread("meanwhile")
                while watching.n_losses == n_before:
                    time.sleep(0.001)
            return check(now_s)

        watching.watcher.check = check_and_lose  # type: ignore[method-assign]
        watching.report_events_lost("first")
        await wait_for(lambda: len(calls) > 0)
        await asyncio.wrap_future(watching.probe())
        await asyncio.sleep(0)
        await asyncio.wrap_future(watching.probe())
        await asyncio.get_running_loop().run_in_executor(None, workspaces.stop)

    asyncio.run(scenario())
    assert len(calls) == 2


def test_a_watcher_that_cannot_be_made_is_logged_once_until_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        ctypes.set_errno(errno.EMFILE)
        return -1

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path)
        workspace = add_workspace(workspaces, tmp_path / "a")
        watching = workspaces.watching
        done: list[CheckResult] = []
        checked = watching._checked

        def count(result: CheckResult) -> None:
            checked(result)
            done.append(result)

        watching._checked = count  # type: ignore[method-assign]

        async def check_often(now_s: float) -> None:
            watching.watcher.rebuild(now_s)
            for _ in range(3):
                n_before = len(done)
                watching.supervise()
                await wait_for(lambda n_before=n_before: len(done) > n_before)

        await wait_for(lambda: watching.health(workspace).mode == "events")
        monkeypatch.setattr(inotify_c, "inotify_init", refuse)
        await check_often(1e6)
        assert watching.health(workspace).mode == "timed"
        monkeypatch.undo()
        await check_often(2e6)
        assert watching.health(workspace).mode == "events"
        monkeypatch.setattr(inotify_c, "inotify_init", refuse)
        await check_often(3e6)
        await asyncio.to_thread(workspaces.stop)

    with capture_logs() as logged:
        asyncio.run(scenario())
    events = [line["event"] for line in logged if line["event"].startswith("watch_")]
    assert events == ["watch_degraded", "watch_degraded"]


@pytest.mark.parametrize("is_reconcile", [False, True])
@pytest.mark.parametrize("n_checks", [1, 2])
def test_a_hanging_disk_blocks_only_its_own_workspace_while_others_are_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_checks: int, is_reconcile: bool
) -> None:
    """Before the watcher watches the folders of one workspace, it checks all others' folders."""
    gate = threading.Event()
    n_stats = itertools.count()
    stat_identity = targets._stat_identity

    def block(folder: str) -> tuple[int, int] | None:
        # The disk answers each new watcher once, so that the check of its folder hangs.
        if folder == str(tmp_path / "a") and next(n_stats) % 2:
            gate.wait(HANG_LIMIT_S)
        return stat_identity(folder)

    async def scenario() -> None:
        workspaces = open_workspaces(
            tmp_path, stall_policy=StallPolicy(takeover_s=0.2, stalled_s=0.6)
        )
        a, b = (add_workspace(workspaces, tmp_path / name) for name in ("a", "b"))
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 4)
        monkeypatch.setattr(targets, "_stat_identity", block)
        for _ in range(n_checks):
            if is_reconcile:
                workspaces.scheduler.reconcile(workspaces.watching.prepare_check())
            else:
                workspaces.watching.supervise()
        await wait_for(lambda: workspaces.watching.health(a).mode == "timed")
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 2)
        (tmp_path / "b" / ".memories" / "second.md").write_text("maple")
        await wait_for(lambda: b.condition.counts.files == 2)
        assert workspaces.watching.health(b).mode == "events"
        monkeypatch.setattr(targets, "_stat_identity", stat_identity)
        gate.set()
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 4)
        assert workspaces.watching.health(a).mode == "events"
        await asyncio.to_thread(workspaces.stop)

    try:
        asyncio.run(scenario())
    finally:
        gate.set()


def test_a_large_tree_that_is_slow_to_walk_again_does_not_count_as_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        (tmp_path / "a" / ".memories" / f"{number}").mkdir(parents=True)
    add_watch = inotify_c.inotify_add_watch

    def add_slowly(fd: int, path: bytes, mask: int) -> object:
        time.sleep(0.1)
        return add_watch(fd, path, mask)

    async def scenario() -> None:
        workspaces = open_workspaces(
            tmp_path, stall_policy=StallPolicy(takeover_s=0.2, stalled_s=5.0)
        )
        add_workspace(workspaces, tmp_path / "a")
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 10)
        first = workspaces.watching.watcher
        monkeypatch.setattr(inotify_c, "inotify_add_watch", add_slowly)
        workspaces.watching.supervise()
        task = workspaces.watching._pool.call(
            lambda: None, workspaces.watching._key
        )  # behind the check
        await asyncio.wrap_future(task)
        assert workspaces.watching.watcher is first
        assert workspaces.watching.n_losses == 0
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(scenario())


def test_a_folder_event_on_a_disk_that_hangs_delays_no_event_of_another_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    add_watch = inotify_c.inotify_add_watch
    hanging = [os.fsencode(tmp_path / "a" / ".memories" / name) for name in ("one", "two")]

    def block(fd: int, path: bytes, mask: int) -> object:
        if os.path.realpath(path) in hanging:
            gate.wait(HANG_LIMIT_S)
        return add_watch(fd, path, mask)

    async def scenario() -> None:
        workspaces = open_workspaces(
            tmp_path, stall_policy=StallPolicy(takeover_s=0.2, stalled_s=0.6)
        )
        a, b = (add_workspace(workspaces, tmp_path / name) for name in ("a", "b"))
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 4)
        monkeypatch.setattr(inotify_c, "inotify_add_watch", block)
        for folder in hanging:
            os.mkdir(folder)
        (tmp_path / "b" / ".memories" / "deep").mkdir()
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 5)
        (tmp_path / "b" / ".memories" / "deep" / "second.md").write_text("maple")
        await wait_for(lambda: b.condition.counts.files == 2)
        gate.set()
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 7)
        (tmp_path / "a" / ".memories" / "two" / "second.md").write_text("maple")
        await wait_for(lambda: a.condition.counts.files == 2)
        assert await asyncio.to_thread(workspaces.stop)

    try:
        asyncio.run(scenario())
    finally:
        gate.set()


def add_workspace(workspaces: Workspaces, root: Path) -> Workspace:
    """Add a workspace with one note."""
    (root / ".memories").mkdir(parents=True, exist_ok=True)
    (root / ".memories" / "first.md").write_text("larch")
    return workspaces.add(str(root))


def open_workspaces(
    folder: Path, *, stall_policy: StallPolicy = DEFAULT_STALLS, delete_grace_ms: int = 100
) -> Workspaces:
    """Workspaces without timed scans."""
    workspaces = Workspaces(
        registry=Registry(folder / "workspaces.json", home="/nowhere", uid=os.geteuid()),
        state_dir=folder / "state",
        cache_dir=folder / "cache",
        config=Config(sync=SyncConfig(reconcile_s=3600.0, delete_grace_ms=delete_grace_ms)),
        clock=Clock(now_s=time.monotonic, wall_ns=time.time_ns),
        stall_policy=stall_policy,
    )
    workspaces.start(())
    return workspaces


async def wait_for(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.02)
