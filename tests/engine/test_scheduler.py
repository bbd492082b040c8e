"""The scheduler with real workspaces, a real worker and a real watcher."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memsyncd.core.changes.debounce import Settled
from memsyncd.engine import external_changes, rebuild, scheduler
from memsyncd.engine.index_process import running_pids
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.watching import CheckResult, WatchTask
from memsyncd.engine.worker import Job, heartbeat
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import StoreFull
from tests.engine.test_job_completions import count_turns
from tests.engine.test_watching import open_workspaces, wait_for


def make_root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "proj"
    (root / ".memories").mkdir(parents=True, exist_ok=True)
    return root


def run_ready(tmp_path: Path, scenario: Callable[[Workspaces, Workspace], Awaitable[None]]) -> None:
    """Run this on a workspace that has been indexed, and stop."""

    async def run() -> None:
        workspaces = open_workspaces(tmp_path)
        workspace = workspaces.add(str(make_root(tmp_path)))
        await wait_for(lambda: workspace.condition.state == "ready" and not workspaces.count_jobs())
        await scenario(workspaces, workspace)
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(run())


def test_reconciles_do_not_pile_up_behind_a_blocked_worker(tmp_path: Path) -> None:
    is_over = threading.Event()

    def hold() -> Job[None]:
        is_over.wait()
        yield

    async def scenario(workspaces: Workspaces, workspace: Workspace) -> None:
        held = workspaces._worker.submit("another", hold)
        checked: list[int] = []
        for number in range(5):
            workspaces.scheduler.reconcile(lambda number=number: checked.append(number))
        assert workspaces.count_jobs() == 3
        is_over.set()
        await asyncio.wrap_future(held)
        await wait_for(lambda: checked == [0])
        n_syncs = workspaces.counters(workspace).syncs.n
        workspaces.scheduler.reconcile(lambda: checked.append(5))
        await wait_for(lambda: checked == [0, 5])
        assert workspaces.counters(workspace).syncs.n == n_syncs + 1

    run_ready(tmp_path, scenario)


def test_a_reconcile_that_finds_nothing_does_not_wake_the_loop(tmp_path: Path) -> None:
    """It takes one thread, and its result is counted when something else wakes the loop."""
    roots = [tmp_path.resolve() / name for name in ("a", "b")]
    for root in roots:
        (root / ".memories").mkdir(parents=True)
        (root / ".memories" / "note.md").write_text("larch\n")
        os.utime(root / ".memories" / "note.md", (1e9, 1e9))

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path)
        added = [workspaces.add(str(root)) for root in roots]
        await wait_for(lambda: all(workspace.condition.state == "ready" for workspace in added))
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 4)
        await wait_for(lambda: all(workspace.is_recorded for workspace in added))
        # A note that was written shortly before a scan is read again by the next scan.
        for workspace in added:
            await asyncio.wrap_future(workspaces.scheduler.scan(workspace))
        await wait_for(lambda: not workspaces.count_jobs())
        await asyncio.wrap_future(workspaces.watching.probe())
        await asyncio.sleep(0.1)

        scanned_s = [workspace.condition.scanned_s for workspace in added]
        n_syncs = [workspaces.counters(workspace).syncs.n for workspace in added]
        check, threads = workspaces.watching._check, set[int]()

        def note(task: WatchTask) -> CheckResult:
            threads.add(threading.get_ident())
            return check(task)

        workspaces.watching._check = note  # type: ignore[method-assign]
        workspaces.scheduler.reconcile(workspaces.watching.prepare_check())
        # The loop has set out to sleep by the time that the thread counts its turns.
        n_turns = await count_turns(lambda: None, 0.3)
        assert n_turns <= 1
        assert threads == {worker.ident for worker in workspaces._worker._threads}
        assert all(
            (workspace.condition.scanned_s or 0) > (before or 0)
            for workspace, before in zip(added, scanned_s, strict=True)
        )
        assert [workspaces.counters(workspace).syncs.n for workspace in added] == [
            n + 1 for n in n_syncs
        ]

        (roots[0] / ".memories" / "second.md").write_text("maple\n")
        await wait_for(lambda: added[0].condition.counts.files == 2)
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(scenario())


@pytest.mark.parametrize("folder", [None, ".memories", ""])
def test_saves_do_not_pile_up_behind_a_blocked_worker(tmp_path: Path, folder: str | None) -> None:
    root = make_root(tmp_path)
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> Job[None]:
        is_held.set()
        is_over.wait()
        yield

    async def scenario(workspaces: Workspaces, workspace: Workspace) -> None:
        await asyncio.to_thread(workspaces.watching.watcher.stop)
        n_before = workspaces.counters(workspace).syncs.n

        async def save_while_busy(numbers: range) -> None:
            is_held.clear()
            is_over.clear()
            held = workspaces._worker.submit("another", hold)
            await asyncio.to_thread(is_held.wait)
            for number in numbers:
                path = f".memories/{number}.md"
                (root / path).write_text(f"note {number}\n")
                paths = frozenset({path} if folder is None else ())
                folders = frozenset(() if folder is None else {folder})
                settled = Settled(key=workspace.id, paths=paths, folders=folders)
                workspaces.scheduler._settled(settled)
            is_over.set()
            await asyncio.wrap_future(held)
            await wait_for(lambda: workspace.condition.counts.files == numbers.stop)
            # The loop counts a sync after its job has ended.
            await wait_for(lambda: workspaces.counters(workspace).syncs.n > n_before)
            await wait_for(lambda: not workspaces.count_jobs())

        await save_while_busy(range(20))
        assert workspaces.counters(workspace).syncs.n == n_before + 1
        n_before += 1
        await save_while_busy(range(20, 100))
        assert workspaces.counters(workspace).syncs.n == n_before + 1

    run_ready(tmp_path, scenario)


def test_a_changed_folder_and_an_unstable_note_cost_no_scan_of_everything(tmp_path: Path) -> None:
    memories = make_root(tmp_path) / ".memories"
    (memories / "truncated.md").write_text("larch\n")

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path, delete_grace_ms=60_000)
        workspace = workspaces.add(str(memories.parent))

        def list_notes() -> list[str]:
            with workspace.acquire(5) as reader:
                return [path for (path,) in reader.rows("SELECT path FROM files ORDER BY path")]

        async def wait_for_notes(*names: str) -> None:
            await wait_for(lambda: list_notes() == [f".memories/{name}.md" for name in names])

        await wait_for(lambda: workspace.condition.state == "ready" and workspace.is_recorded)
        await wait_for(lambda: workspaces.watching.watcher.n_watches == 2)
        await asyncio.wrap_future(workspaces.scheduler.scan(workspace))
        await wait_for(lambda: not workspaces.count_jobs())
        scanned_s = workspace.condition.scanned_s
        (memories / "a" / "b").mkdir(parents=True)
        (memories / "a" / "b" / "note.md").write_text("cedar\n")
        await wait_for_notes("a/b/note", "truncated")
        (memories / "a").rename(memories / "c")
        await wait_for_notes("c/b/note", "truncated")
        os.truncate(memories / "truncated.md", 0)
        await wait_for(lambda: workspace.condition.n_pending == 1)
        (memories / "c" / "b" / "note.md").rename(memories / "note.md")
        (memories / "c" / "b").rmdir()
        await wait_for_notes("note", "truncated")
        # It is read again and again for a second each, until it has text.
        await asyncio.sleep(1.2)
        (memories / "truncated.md").write_text("maple\n")
        await wait_for(lambda: not workspace.pending)
        assert workspace.condition.scanned_s == scanned_s
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(scenario())


def test_what_is_found_after_a_full_disk_does_not_count_as_missed(tmp_path: Path) -> None:
    root = make_root(tmp_path)

    async def scenario(workspaces: Workspaces, workspace: Workspace) -> None:
        await asyncio.to_thread(workspaces.watching.watcher.stop)

        async def find_without_event(*names: str) -> None:
            n_expected = workspace.condition.counts.files + len(names)
            for name in names:
                (root / ".memories" / name).write_text("larch\n")
            workspaces.scheduler.reconcile(lambda: None)
            await wait_for(lambda: workspace.condition.counts.files == n_expected)
            # The stopped watcher is a fault as soon as it is noticed.
            await wait_for(lambda: rebuild.FULL_FAULT not in workspace.condition.faults)

        workspaces.scheduler._failed(workspace, StoreFull("the disk is full"), 0.0)
        assert workspace.condition.state == "degraded"
        await find_without_event("retried.md")
        await find_without_event("missed.md", "missed-too.md")
        await wait_for(lambda: workspace.condition.n_missed_events > 1)
        assert workspace.condition.n_missed_events == 2

    run_ready(tmp_path, scenario)


def test_a_save_is_synced_before_the_first_recording_of_all_notes_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_changes, "SLICE_S", 0.0)  # each slice records one batch
    root = make_root(tmp_path)
    for number in range(5 * external_changes.BATCH_NOTES):
        (root / ".memories" / f"{number}.md").write_text(f"note {number}\n")

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path)
        reported: list[bool] = []

        def save(workspace: Workspace, _done: SyncDone) -> None:
            """Save once all notes are indexed, when recording them is the next job."""
            if not reported:
                reported.append(workspace.is_recorded)
                (root / ".memories" / "0.md").write_text("saved\n")
                workspaces.scheduler.sync(workspace).add_done_callback(
                    lambda _: reported.append(workspace.is_recorded)
                )

        workspaces.listen(save)
        workspace = workspaces.add(str(root))
        await wait_for(lambda: len(reported) == 2)
        assert reported == [False, False]
        await wait_for(lambda: workspace.is_recorded)
        await wait_for(lambda: not workspaces.count_jobs() and not workspace.condition.n_unrecorded)
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(scenario())


def test_the_result_of_a_save_waits_for_no_recording_and_later_jobs_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_root(tmp_path)
    is_over = threading.Event()
    record = scheduler.record_changes

    def record_late(*arguments: Any) -> Job[None]:
        assert is_over.wait(30)
        yield from record(*arguments)

    def read_history(workspace: Workspace, _config: object, _clock: object) -> Job[int]:
        yield from ()
        assert workspace.records is not None
        return len(workspace.records.history.find_revisions())

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path)
        workspace = workspaces.add(str(root))
        await wait_for(lambda: workspace.is_recorded and not workspaces.count_jobs())
        monkeypatch.setattr(scheduler, "record_changes", record_late)
        found: list[str] = []
        workspaces.listen(lambda _workspace, done: found.extend(done.paths))
        (root / "new.md").write_text("saved\n")
        (root / "new.md").rename(root / ".memories" / "note.md")
        # The folder may not be watched yet.
        workspaces.scheduler.on_event(
            workspace.id, ".memories/note.md", is_finished=True, is_folder=False
        )
        await wait_for(lambda: ".memories/note.md" in found)
        n_revisions = workspaces.scheduler.run(workspace, read_history)
        is_over.set()
        assert await asyncio.wrap_future(n_revisions) == 1
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(scenario())


def test_quiet_time_after_a_change_is_reported_so_that_memory_can_be_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "TIDY_AFTER_S", 0.1)
    root = make_root(tmp_path)

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path)
        tidied: list[bool] = []
        workspaces.scheduler.on_tidied = lambda: tidied.append(True)
        workspace = workspaces.add(str(root))
        await wait_for(lambda: workspace.is_recorded and not workspaces.count_jobs())
        await wait_for(lambda: bool(tidied))
        tidied.clear()
        (root / ".memories" / "0.md").write_text("saved\n")
        await wait_for(lambda: bool(tidied))
        assert workspace.condition.counts.files == 1
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(scenario())


def test_the_result_of_a_sync_is_freed_without_a_garbage_collection(tmp_path: Path) -> None:

    async def scenario(workspaces: Workspaces, workspace: Workspace) -> None:
        gc.disable()
        try:
            synced = weakref.ref(workspaces.scheduler.sync(workspace))
            await wait_for(lambda: not workspaces.count_jobs())
            # The worker's thread keeps its last job.
            await asyncio.wrap_future(workspaces._worker.submit("another", heartbeat))
            await wait_for(lambda: synced() is None)
        finally:
            gc.enable()

    run_ready(tmp_path, scenario)


def test_readers_keep_what_they_read_at_a_scan_for_a_request_and_not_at_a_sync(
    tmp_path: Path,
) -> None:

    async def scenario(workspaces: Workspaces, workspace: Workspace) -> None:
        with workspace.acquire(5) as reader:
            reader.memo["read"] = True
        await asyncio.wrap_future(workspaces.scheduler.scan(workspace))
        assert reader.memo
        await asyncio.wrap_future(workspaces.scheduler.sync(workspace))
        assert not reader.memo

    run_ready(tmp_path, scenario)


def test_a_rebuild_that_is_asked_for_twice_is_one_and_a_sync_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "BULK_BYTES", 1)
    root = make_root(tmp_path)
    (root / ".memories" / "0.md").write_text("larch\n")

    async def scenario(workspaces: Workspaces, workspace: Workspace) -> None:
        first = workspaces.scheduler.rebuild(workspace)
        assert workspaces.scheduler.rebuild(workspace) is first
        await wait_for(lambda: bool(running_pids()))
        (pid,) = running_pids()
        os.kill(pid, signal.SIGSTOP)
        await asyncio.wrap_future(workspaces.scheduler.sync(workspace))
        assert workspace.condition.state == "indexing"
        assert not first.done()
        os.kill(pid, signal.SIGCONT)
        done = await asyncio.wrap_future(first)
        assert done.is_rebuild
        assert workspace.condition.n_rebuilds == 1
        await wait_for(lambda: workspace.condition.state == "ready")

    run_ready(tmp_path, scenario)


def test_notes_of_a_folder_that_leaves_are_gone_though_a_note_takes_its_name_within_the_grace(
    tmp_path: Path,
) -> None:
    root = tmp_path.resolve() / "proj"
    folder, other = root / ".memories" / "a.md", root / ".memories" / "other.md"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"{number}.md").write_text(f"note {number}\n")
    other.write_text("other\n")

    async def scenario() -> None:
        workspaces = open_workspaces(tmp_path, delete_grace_ms=2000)
        workspace = workspaces.add(str(root))
        await wait_for(lambda: workspace.condition.counts.files == 4)
        await wait_for(lambda: not workspaces.count_jobs())
        folder.rename(root / "away")
        await wait_for(lambda: len(workspace.missing.since_s) == 3)
        folder.write_text("a note\n")
        await wait_for(lambda: workspace.condition.counts.files == 5)
        # Its pending delete sets the timer again, for all notes that are known to be missing.
        other.unlink()
        await wait_for(lambda: workspace.condition.counts.files == 1)
        await asyncio.to_thread(workspaces.stop)

    asyncio.run(scenario())
