"""Another process fills an index: it is followed, ended, started again and done without."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from memsyncd.engine import index_process, rebuild
from memsyncd.engine.external_changes import sync_and_record
from memsyncd.engine.index_process import IndexProcess, running_pids
from memsyncd.engine.index_worker import Filled, FillFailed, FillProgress, FillRequest
from memsyncd.engine.sync import SyncRequest
from memsyncd.engine.worker import Pause, WorkerPool
from memsyncd.engine.workspace import index_fingerprint
from memsyncd.errors import StoreFailed, WorkspaceNotFound
from tests.engine.conftest import Bench, take
from tests.proc import list_open_files

BULK_BYTES = 1000
N_NOTES = 40
LIMIT_S = 60.0
SILENT_S = 2.0


def until(is_so: Callable[[], object], complaint: str) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end_s, complaint
        time.sleep(0.01)


def exists(pid: int) -> bool:
    """True also for a process that has ended and that nobody has waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def write_notes(bench: Bench, n_notes: int = N_NOTES, word: str = "larch") -> None:
    for number in range(n_notes):
        bench.write(f".memories/{number}.md", f"# Note {number}\n\n{word} {number}\n" * 4)


def update(bench: Bench) -> Any:
    """Sync as the scheduler asks for it."""
    request = SyncRequest(bulk_bytes=BULK_BYTES)
    return rebuild.update_index(bench.workspace, bench.config, bench.clock, request)


def count(bench: Bench, word: str) -> int:
    match = (
        "SELECT count(DISTINCT file) FROM chunks WHERE id IN"
        " (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?)"
    )
    return int(bench.ask(match, word)[0][0])


def make_request(bench: Bench, **fields: Any) -> FillRequest:
    known = {
        "parent_pid": os.getpid(),
        "index_path": str(bench.workspace.index_path.with_name("apart.db")),
        "fingerprint": index_fingerprint(bench.config),
        "generation": 0,
        "entry": bench.workspace.entry,
        "config": bench.config,
    }
    return FillRequest(**(known | fields))


@pytest.fixture
def start() -> Iterator[Callable[[FillRequest], IndexProcess]]:
    started: list[IndexProcess] = []

    def start(request: FillRequest) -> IndexProcess:
        started.append(IndexProcess(request, lambda _: None))
        return started[-1]

    yield start
    for process in started:
        process.cancel()
        wait([process.ended], LIMIT_S)
    until(lambda: not running_pids(), "a process is left")


@pytest.fixture
def stopped(start: Any, bench: Bench) -> tuple[IndexProcess, int]:
    """A process that has been stopped (SIGSTOP) before it could do anything."""
    write_notes(bench)
    process = start(make_request(bench))
    until(running_pids, "no process was started")
    (pid,) = running_pids()
    os.kill(pid, signal.SIGSTOP)
    return process, pid


# --- one process --------------------------------------------------------------------------------


def test_a_process_fills_a_new_index_and_reports_its_progress(start: Any, bench: Bench) -> None:
    write_notes(bench, 100)
    seen: list[FillProgress] = []
    process = IndexProcess(make_request(bench, generation=7), seen.append)
    filled = process.ended.result(LIMIT_S)
    assert isinstance(filled, Filled)
    assert sorted(filled.added) == sorted(f".memories/{number}.md" for number in range(100))
    assert seen[-1].counts.files == 100
    assert seen[-1].generation > 7
    assert seen[-1].index_bytes > 0
    assert not running_pids()


def test_a_failure_of_the_store_is_reported_with_its_class(start: Any, bench: Bench) -> None:
    folder = bench.root / "file"
    folder.write_text("no folder")
    failed = start(make_request(bench, index_path=str(folder / "index.db"))).ended.result(LIMIT_S)
    assert isinstance(failed, FillFailed)
    assert failed.code == StoreFailed.code
    assert failed.hint


def test_a_process_of_another_version_writes_nothing(start: Any, bench: Bench) -> None:
    write_notes(bench)
    request = make_request(bench, fingerprint="of an older version")
    failed = start(request).ended.result(LIMIT_S)
    assert isinstance(failed, FillFailed)
    assert "another version" in failed.message
    assert not Path(request.index_path).exists()


def test_a_program_that_cannot_be_started_is_reported(
    start: Any, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_process.sys, "executable", "/nonexistent/python")
    died = start(make_request(bench)).ended.result(LIMIT_S)
    assert "could not be started" in died.message


def test_the_process_has_low_priority_and_no_file_of_its_parent(
    stopped: tuple[IndexProcess, int], bench: Bench
) -> None:
    process, pid = stopped
    os.kill(pid, signal.SIGCONT)
    until(lambda: os.getpriority(os.PRIO_PROCESS, pid) >= 10, "its priority was not lowered")
    os.kill(pid, signal.SIGSTOP)
    proc = Path(f"/proc/{pid}")
    if not proc.exists():
        pytest.skip("only Linux shows the files of another process")
    others, own = list_open_files(pid), list_open_files(os.getpid())
    messages = os.readlink(f"/proc/self/fd/{process._process.stdout.fileno()}")
    assert not {file for file in own & others - {messages} if not file.startswith("/dev/")}
    assert b"memsyncd.engine.index_worker" in (proc / "cmdline").read_bytes()


def test_a_cancelled_process_ends_at_once_and_is_waited_for(
    stopped: tuple[IndexProcess, int],
) -> None:
    process, pid = stopped
    process.cancel()
    process.ended.result(LIMIT_S)
    assert not exists(pid)


def test_a_process_without_progress_is_killed(
    stopped: tuple[IndexProcess, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, pid = stopped
    # A stopped process may have waited for a processor until this very moment.
    before_s = max(process.pause().read_progress_s(), time.monotonic())
    monkeypatch.setattr(index_process, "KILL_AFTER_S", 0.5)
    monkeypatch.setattr(index_process, "SILENT_S", 0.2)
    os.kill(pid, signal.SIGCONT)
    until(lambda: process.pause().read_progress_s() > before_s or process.ended.done(), "mute")
    with contextlib.suppress(ProcessLookupError):  # it is at its end
        os.kill(pid, signal.SIGSTOP)
    process.ended.result(LIMIT_S)
    assert not exists(pid)


def test_a_process_that_waits_for_a_processor_is_not_without_progress(
    stopped: tuple[IndexProcess, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, pid = stopped
    began_s, n_read = time.monotonic(), []

    def read_busy_s(process_id: int) -> float:
        n_read.append(process_id)
        return time.monotonic()

    monkeypatch.setattr(index_process, "read_busy_s", read_busy_s)
    assert process.pause().read_progress_s() >= began_s
    monkeypatch.setattr(index_process, "KILL_AFTER_S", 0.1)
    monkeypatch.setattr(index_process, "SILENT_S", 0.1)
    os.kill(pid, signal.SIGCONT)
    assert isinstance(process.ended.result(LIMIT_S), Filled)
    assert set(n_read) == {pid}


def test_the_next_process_waits_for_its_turn_but_not_for_a_silent_one(
    request: pytest.FixtureRequest, start: Any, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_process, "SILENT_S", SILENT_S)
    silent, _ = request.getfixturevalue("stopped")
    other = start(make_request(bench, index_path=str(bench.workspace.index_path) + "2"))
    assert isinstance(other.ended.result(LIMIT_S), Filled)
    # Without waiting it would have ended in less.
    assert time.monotonic() - silent.pause().read_progress_s() > SILENT_S


def test_a_waiting_process_that_is_cancelled_is_never_started(
    stopped: tuple[IndexProcess, int], start: Any, bench: Bench
) -> None:
    _, pid = stopped
    other = start(make_request(bench))
    other.cancel()
    other.ended.result(LIMIT_S)
    assert running_pids() == [pid]


# --- a sync and a rebuild -----------------------------------------------------------------------


def pause_of(steps: Any) -> Pause:
    """Take steps up to a pause."""
    while True:
        pause = next(steps)
        if isinstance(pause, Pause):
            return pause


def test_many_new_notes_are_indexed_by_a_process_and_reported_as_any(bench: Bench) -> None:
    write_notes(bench)
    generation = bench.workspace.index.generation
    steps = update(bench)
    pause = pause_of(steps)
    assert bench.workspace.index is None
    assert count(bench, "larch") in range(N_NOTES + 1)
    wait([pause.ended], LIMIT_S)
    done = take(steps)
    assert len(done.added) == len(done.paths) == N_NOTES
    assert done.n_upserted > 0
    assert done.generation == bench.workspace.condition.generation > generation
    assert bench.workspace.condition.counts.files == N_NOTES
    assert len(bench.paths()) == N_NOTES
    assert bench.workspace.index.find_damage() == ""
    assert bench.workspace.index.file_guard.find_tampering() is None
    bench.write("MEMORY.md", "afterwards")
    assert bench.sync().paths == ["MEMORY.md"]


def test_few_new_notes_and_many_changed_ones_are_indexed_here(bench: Bench) -> None:
    bench.write("MEMORY.md", "few")
    assert not [outcome for outcome in update(bench) if outcome is not None]
    bench.workspace.close_index()
    take(update(bench))
    write_notes(bench)
    take(update(bench))
    write_notes(bench, word="spruce")
    assert not [outcome for outcome in update(bench) if outcome is not None]
    assert count(bench, "spruce") == N_NOTES


def test_notes_are_not_taken_for_new_while_others_are_missing(bench: Bench) -> None:
    write_notes(bench)
    take(update(bench))
    (bench.root / ".memories").rename(bench.root / "elsewhere")
    (bench.root / ".memories").mkdir()
    (bench.root / "elsewhere").rename(bench.root / ".memories" / "moved")
    done = take(update(bench))
    assert len(done.moved) == N_NOTES


def test_what_is_new_in_a_filled_index_reaches_the_history(bench: Bench) -> None:
    bench.write("MEMORY.md", "first")
    bench.follow()
    bench.see()
    write_notes(bench)
    request = SyncRequest(bulk_bytes=BULK_BYTES)
    take(sync_and_record(bench.workspace, bench.config, bench.clock, request))
    (revision,) = bench.past(".memories/3.md")
    assert (revision.command, revision.old_digest) == ("external", None)


def kill_each(n_deaths: int, pids: list[int]) -> None:
    """Kill the next processes that are started."""
    for _ in range(n_deaths):
        until(lambda: set(running_pids()) - set(pids), "no process was started")
        (pid,) = set(running_pids()) - set(pids)
        pids.append(pid)
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("n_deaths", "last_words"), [(1, "it is started again"), (2, "the daemon indexes by itself")]
)
def test_a_process_that_is_killed_is_started_again_and_then_done_without(
    bench: Bench, n_deaths: int, last_words: str
) -> None:
    write_notes(bench, 400)
    killing = threading.Thread(target=partial(kill_each, n_deaths, []))
    killing.start()
    with capture_logs() as logged:
        done = take(update(bench))
    killing.join()
    lines = [line for line in logged if line["event"] == "index_worker_failed"]
    assert len(lines) == n_deaths
    assert "was killed by signal 9" in lines[-1]["reason"]
    assert last_words in lines[-1]["reason"]
    assert len(done.added) == len(bench.paths()) == 400
    assert bench.workspace.index.find_damage() == ""


def test_a_rebuild_of_much_is_filled_apart_and_has_what_was_saved_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "BULK_BYTES", BULK_BYTES)
    write_notes(bench)
    generation = bench.sync().generation
    filling = rebuild.fill_new_index(bench.workspace, bench.config)
    pause = pause_of(filling)
    bench.write(".memories/3.md", "spruce")
    bench.write(".memories/late.md", "spruce")
    (bench.root / ".memories" / "4.md").unlink()
    assert bench.sync().paths
    assert count(bench, "spruce") == 2
    wait([pause.ended], LIMIT_S)
    # After it has read everything.
    bench.write(".memories/5.md", "spruce")
    filled = take(filling)
    assert isinstance(filled, Filled)
    done = take(rebuild.rebuild_index(bench.workspace, bench.config, bench.clock, filled))
    assert count(bench, "spruce") == 3
    assert ".memories/4.md" not in bench.paths()
    assert done.generation == bench.workspace.condition.generation > generation
    names = {path.name for path in bench.workspace.index_path.parent.iterdir()}
    assert not [name for name in names if "new" in name]


def test_a_rebuild_without_an_open_index_pauses_its_workspace(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "BULK_BYTES", BULK_BYTES)
    write_notes(bench)
    steps = rebuild.rebuild_index(bench.workspace, bench.config, bench.clock)
    wait([pause_of(steps).ended], LIMIT_S)
    take(steps)
    assert count(bench, "larch") == N_NOTES


def test_an_abandoned_fill_leaves_no_process_and_no_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "BULK_BYTES", BULK_BYTES)
    write_notes(bench)
    bench.sync()
    filling = rebuild.fill_new_index(bench.workspace, bench.config)
    pause_of(filling)
    until(running_pids, "no process was started")
    filling.close()
    assert not running_pids()
    assert not rebuild.rebuild_path(bench.workspace).exists()


def test_removing_a_workspace_ends_its_process_and_its_job(bench: Bench) -> None:
    write_notes(bench)
    worker = WorkerPool("test")
    try:
        job = worker.submit("a", lambda: update(bench))
        until(running_pids, "no process was started")
        os.kill(running_pids()[0], signal.SIGSTOP)  # so that it cannot end by itself first
        bench.workspace.cancel()
        with pytest.raises(WorkspaceNotFound):
            job.result(LIMIT_S)
        assert not running_pids()
    finally:
        worker.stop(LIMIT_S)


def test_a_failure_of_the_store_leaves_the_index_open_for_the_next_sync(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notes(bench)
    fill = index_process.FillRequest

    def make_elsewhere(**fields: Any) -> FillRequest:
        return fill(**fields | {"index_path": "/dev/null/index.db"})

    monkeypatch.setattr(index_process, "FillRequest", make_elsewhere)
    with pytest.raises(StoreFailed):
        take(update(bench))
    assert bench.workspace.index is not None
    monkeypatch.undo()
    take(update(bench))
    assert count(bench, "larch") == N_NOTES
