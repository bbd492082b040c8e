"""When is looked, and how often? A real house, whose lane and watcher's thread do what a test makes them do."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from memsyncd.engine.sync import SyncDone
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from tests.engine.test_watching import open_house, wait_for


def test_timed_looks_do_not_pile_up_behind_a_lane_that_is_held_up(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "proj"
    (root / ".memories").mkdir(parents=True)
    is_over = threading.Event()

    def hold() -> Job[None]:
        is_over.wait()
        yield

    async def live() -> None:
        house = open_house(tmp_path)
        workspace = house.add(str(root), name="", include=(), exclude=())
        await wait_for(lambda: workspace.condition.state == "ready" and not house.count_jobs())
        held = house._worker.submit("another", hold)
        told: list[int] = []
        for number in range(5):
            house.scheduler.reconcile(then=lambda number=number: told.append(number))
        assert house.count_jobs() == 2
        is_over.set()
        await asyncio.wrap_future(held)
        await wait_for(lambda: sorted(told) == [0, 1, 2, 3, 4])
        n_syncs = house.counters(workspace).syncs.n
        house.scheduler.reconcile(then=lambda: told.append(5))
        await wait_for(lambda: 5 in told)
        assert house.counters(workspace).syncs.n == n_syncs + 1
        await asyncio.get_running_loop().run_in_executor(None, house.stop)

    asyncio.run(live())


def test_a_save_is_synced_before_the_first_recording_of_all_notes_ends(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "proj"
    (root / ".memories").mkdir(parents=True)
    for number in range(3000):
        (root / ".memories" / f"{number}.md").write_text(f"note {number}\n")

    async def live() -> None:
        house = open_house(tmp_path)
        told: list[bool] = []

        def save(workspace: Workspace, _done: SyncDone) -> None:
            """As soon as all notes are indexed; recording them is the next job by then."""
            if not told:
                told.append(workspace.is_recorded)
                (root / ".memories" / "0.md").write_text("saved\n")
                house.scheduler.sync(workspace).add_done_callback(lambda _: told.append(workspace.is_recorded))

        house.listen(save)
        workspace = house.add(str(root), name="", include=(), exclude=())
        await wait_for(lambda: len(told) == 2)
        assert told == [False, False]
        await wait_for(lambda: workspace.is_recorded)
        await wait_for(lambda: not house.count_jobs() and not workspace.condition.n_unrecorded)
        await asyncio.get_running_loop().run_in_executor(None, house.stop)

    asyncio.run(live())
