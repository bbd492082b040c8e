"""An idle daemon does nothing, and holds no more resources after load than before."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.benchmarks.idle import BUDGET
from tests.benchmarks.process import read_rss_mb
from tests.proc import count_wake_ups, count_watches, list_names

QUIET_S = 1.0
FALLS_ASLEEP_WITHIN_S = 90.0
N_CLIENTS = 10
N_MANY = 12
POLL_S = 0.5
N_LOOKS = 3
# One of the loop, one of the worker, and one in which a thread waits for the interpreter.
MAX_WAKE_UPS = 3
# The database, its -wal and -shm, and a temporary one.
N_FILES_OF_CONNECTION = 4

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


class ResourceUsage(NamedTuple):
    """The resources of a process."""

    threads: int
    fds: int
    watches: int


@pytest.fixture(scope="module")
def home(make_home: Callable[..., Any]) -> Any:
    """Its daemon makes no reconciles."""
    return make_home("[sync]\nreconcile_s = 3600\n")


@pytest.fixture
def roots(home: Any, daemon: Any) -> Iterator[list[Path]]:
    """Three workspaces."""
    roots = [fill(home.make_folder()) for _ in range(3)]
    for root in roots:
        add(daemon, root)
    yield roots
    with daemon.client() as client:
        for root in roots:
            client.call("workspace.remove", workspace=str(root))


def measure(daemon: Any) -> ResourceUsage:
    pid = daemon.process.pid
    n_threads, n_fds = len(list_names(pid, "task")), len(list_names(pid, "fd"))
    return ResourceUsage(threads=n_threads, fds=n_fds, watches=count_watches(pid))


def wait_until(is_so: Callable[[], bool], complaint: Callable[[], str], limit_s: float) -> None:
    end_s = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end_s, complaint()
        time.sleep(0.05)


def fill(root: Path) -> Path:
    folder = root / ".memories" / "sub"
    folder.mkdir(parents=True)
    (root / "MEMORY.md").write_text("# Memory\n\nkeepsake\n")
    (folder / "note.md").write_text("# Note\n\nlarch\n")
    return root


def read_state(client: Any, workspace_id: str) -> str:
    return str(client.call("status", workspace=workspace_id)["workspaces"][0]["state"])


def add(daemon: Any, root: Path) -> str:
    with daemon.client() as client:
        workspace_id = str(client.call("workspace.add", path=str(root))["workspaces"][0]["id"])
        wait_until(
            lambda: read_state(client, workspace_id) == "ready",
            lambda: "it never became ready",
            FALLS_ASLEEP_WITHIN_S,
        )
        client.call("sync", workspace=workspace_id)
    return workspace_id


def test_no_thread_wakes_up_between_reconciles(home: Any, daemon: Any, roots: list[Path]) -> None:
    def is_asleep() -> bool:
        before = count_wake_ups(daemon.process.pid)
        time.sleep(QUIET_S)
        return count_wake_ups(daemon.process.pid) == before

    # Some seconds after the last sync the index is maintained once; then nothing is left to do.
    wait_until(
        is_asleep,
        lambda: f"something wakes up again and again:\n{home.read_log()}",
        FALLS_ASLEEP_WITHIN_S,
    )


def test_reconciles_of_all_workspaces_wake_up_together_and_without_changes_log_and_write_nothing(
    make_home: Callable[..., Any],
) -> None:
    home = make_home(f"[sync]\nreconcile_s = {POLL_S}\n")
    daemon = home.start()
    for _ in range(N_MANY):
        add(daemon, fill(home.make_folder()))

    def is_calm() -> bool:
        before = count_wake_ups(daemon.process.pid)
        time.sleep(N_LOOKS * POLL_S)
        return count_wake_ups(daemon.process.pid) - before <= MAX_WAKE_UPS * N_LOOKS

    # Separate wake-ups for each would be many, and a result that wakes the loop one more.
    wait_until(
        is_calm,
        lambda: f"something wakes up again and again:\n{home.read_log()}",
        FALLS_ASLEEP_WITHIN_S,
    )
    held = measure(daemon)
    assert held.threads <= allow("threads")
    assert held.fds <= allow("open files")
    assert read_rss_mb(daemon.process.pid) <= allow("resident memory")

    indexes = [*Path(home.folder).glob("**/index.db")]
    assert len(indexes) == N_MANY
    with daemon.client() as client:

        def count_looks() -> int:
            return sum(
                int(workspace["syncs"]["total"])
                for workspace in client.call("metrics")["workspaces"]
            )

        def observe() -> tuple[str, list[int], list[int]]:
            generations = [
                workspace["generation"] for workspace in client.call("status")["workspaces"]
            ]
            return (
                home.log.read_text(),
                [index.stat().st_mtime_ns for index in indexes],
                generations,
            )

        def is_still() -> bool:
            before, n_looks = observe(), count_looks()
            wait_until(
                lambda: count_looks() >= n_looks + 3 * N_MANY,
                lambda: "nobody looked",
                FALLS_ASLEEP_WITHIN_S,
            )
            return observe() == before

        # As above: maintenance happens once meanwhile.
        wait_until(
            is_still,
            lambda: f"something is said or written again and again:\n{home.read_log()}",
            FALLS_ASLEEP_WITHIN_S,
        )


def allow(what: str) -> float:
    fixed, each = BUDGET[what]
    return fixed + each * N_MANY


def test_after_load_the_numbers_of_threads_files_and_watches_are_as_before(
    daemon: Any, roots: list[Path]
) -> None:
    be_busy(daemon, roots)
    # Only resources opened on first use may be new; from then on nothing more is opened.
    wait_until(
        lambda: measure(daemon).watches == 9,
        lambda: f"{measure(daemon)} after being busy once",
        FALLS_ASLEEP_WITHIN_S,
    )
    time.sleep(QUIET_S)
    before = measure(daemon)
    for _ in range(2):
        be_busy(daemon, roots)
    # On a busy machine one more thread of the pool may have been needed, with the files of its
    # connection; if each client or search left something, there would be ten times as many.
    most = ResourceUsage(before.threads + 1, before.fds + N_FILES_OF_CONNECTION, before.watches)
    wait_until(
        lambda: all(now <= limit for now, limit in zip(measure(daemon), most, strict=True)),
        lambda: f"{measure(daemon)}, {before} before",
        FALLS_ASLEEP_WITHIN_S,
    )


def be_busy(daemon: Any, roots: list[Path]) -> None:
    clients = [daemon.client() for _ in range(N_CLIENTS)]
    for number, client in enumerate(clients):
        root = roots[number % len(roots)]
        folder = root / ".memories" / f"for-a-while-{number}"
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "new.md").write_text(f"# New {number}\n\ncomes and goes\n")
        client.call("search", query="comes", workspace="*", wait="disk")
        client.call("note.add", content=f"remembered {number}", note="log", workspace=str(root))
        (folder / "deep" / "new.md").unlink()
        (folder / "deep").rmdir()
        folder.rmdir()
    clients[0].call("sync", rebuild=True, workspace=str(roots[0]))
    clients[0].call("workspace.remove", workspace=str(roots[1]))
    for client in clients:
        client.close()
    add(daemon, roots[1])
