"""What changes while the folders to be watched are still being planned? A real house whose watcher's thread is kept busy."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.registry import Registry
from memsyncd.engine.workspaces import Workspaces

WAIT_S = 20.0


def test_a_links_target_that_goes_before_it_is_watched_is_missed_at_once(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "proj"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / ".memories").mkdir()
    (root / "docs" / "deep" / "real.md").write_text("larch")
    is_planning = threading.Event()

    async def live() -> None:
        house = open_house(tmp_path)
        workspace = house.add(str(root), name="", include=(), exclude=())
        n_files = lambda: workspace.condition.counts.files  # noqa: E731
        await wait_for(lambda: workspace.condition.state == "ready" and house.watching.watcher.n_watches == 2)
        await asyncio.wrap_future(house.watching.take_turn())

        house.watching._pool.call(is_planning.wait)
        (root / ".memories" / "link.md").symlink_to("../docs/deep/real.md")
        await wait_for(lambda: n_files() == 1)
        shutil.rmtree(root / "docs")
        is_planning.set()

        await wait_for(lambda: n_files() == 0)
        await asyncio.get_running_loop().run_in_executor(None, house.stop)

    asyncio.run(live())


def test_a_doubt_amid_a_check_is_checked_once_more(tmp_path: Path) -> None:
    """It may concern folders that the check has been at already."""
    root = tmp_path.resolve() / "proj"
    (root / ".memories").mkdir(parents=True)
    calls: list[float] = []

    async def live() -> None:
        house = open_house(tmp_path)
        workspace = house.add(str(root), name="", include=(), exclude=())
        watching = house.watching
        await wait_for(lambda: workspace.condition.state == "ready" and watching.watcher.n_watches == 2)
        check = watching.watcher.check

        def check_and_doubt(now_s: float) -> tuple[str, ...]:
            calls.append(now_s)
            if len(calls) == 1:
                n_before = watching.n_doubts
                watching._doubt_from_thread("amid it")
                while watching.n_doubts == n_before:
                    time.sleep(0.001)
            return check(now_s)

        watching.watcher.check = check_and_doubt  # type: ignore[method-assign]
        watching.doubt("first")
        await wait_for(lambda: len(calls) > 0)
        await asyncio.wrap_future(watching.take_turn())
        await asyncio.sleep(0)
        await asyncio.wrap_future(watching.take_turn())
        await asyncio.get_running_loop().run_in_executor(None, house.stop)

    asyncio.run(live())
    assert len(calls) == 2


def open_house(folder: Path) -> Workspaces:
    """One whose clock makes it look at nothing."""
    house = Workspaces(
        registry=Registry(folder / "workspaces.json", home="/nowhere", uid=os.geteuid()),
        state_dir=folder / "state",
        cache_dir=folder / "cache",
        policy=SyncPolicy(reconcile_s=3600.0, delete_grace_s=0.1),
        clock=Clock(now_s=time.monotonic, wall_ns=time.time_ns),
    )
    house.start(())
    return house


async def wait_for(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.02)
