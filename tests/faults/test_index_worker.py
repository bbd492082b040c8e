"""The process that indexes for the daemon is killed, stopped and starved of space.

Nothing is lost, nothing is left behind, and the daemon goes on answering.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.errors import NotFresh
from tests.daemon.conftest import list_digests, read_notes, wait_until
from tests.faults.conftest import Launch, connect
from tests.faults.test_hung_disk import Namespace
from tests.proc import find_children, read_file

if TYPE_CHECKING:
    from memsyncd.client import Client
    from tests.daemon.conftest import Home

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="finds processes in Linux's /proc"
)

Mount = Callable[[Path, str], None]
N_NOTES = 300
# A guard against hanging on a busy machine, for a process with the lowest priority.
LIMIT_S = 120.0
STOP_S = 15.0
TURN_S = 0.05
WORKER = "memsyncd.engine.index_worker"


def write_many(root: Path, n_notes: int = N_NOTES) -> None:
    """Write more text than the daemon indexes by itself; `larch` is in each note."""
    chance = random.Random(1)
    words = [f"{chance.getrandbits(24):x}" for _ in range(2000)]
    folder = root / ".memories"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(n_notes):
        parts = "\n\n".join(
            f"## Part {part}\n\n{' '.join(chance.choices(words, k=150))}" for part in range(9)
        )
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nlarch\n\n{parts}\n")


def is_alive(pid: int) -> bool:
    """False also for a process that has ended and that nobody has waited for yet."""
    stat = read_file(f"/proc/{pid}/stat")
    return bool(stat) and ") Z " not in stat


def are_gone(pids: list[int]) -> bool:
    return not any(map(is_alive, pids))


def status(client: Client) -> dict[str, Any]:
    return dict(client.call("status")["workspaces"][0])


def stop_worker(pid: int, known: Collection[int] = ()) -> int:
    """Wait until a process has started its worker, and stop the worker.

    This waits until the worker runs its own program: before, its parent does not go on.
    """
    found: list[int] = []

    def has_begun() -> bool:
        found[:] = [
            child
            for child in find_children(pid)
            if child not in known and WORKER in read_file(f"/proc/{child}/cmdline")
        ]
        return bool(found)

    wait_until(has_begun, "no process was started", limit_s=LIMIT_S)
    os.kill(found[0], signal.SIGSTOP)
    return found[0]


def wait_ready(client: Client, root: Path) -> None:
    def is_whole() -> bool:
        now = status(client)
        if now["state"] != "ready" or now["pending"]:
            return False
        try:
            listed = list_digests(client)
        except NotFresh:
            return False  # on a busy machine its time limit may pass
        return listed == read_notes(root)

    wait_until(is_whole, "the index does not equal the disk", limit_s=LIMIT_S)


@contextmanager
def indexing(home: Home) -> Iterator[tuple[Any, Client, Path, int]]:
    """A daemon whose first index has begun, and the process that fills it, stopped."""
    root = home.make_folder()
    write_many(root)
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        worker = stop_worker(daemon.process.pid)
        yield daemon, client, root, worker


def begin_rebuild(root: Path, client: Client, pid: int) -> int:
    """Index, and begin to rebuild; the process is stopped."""
    client.call("workspace.add", path=str(root))
    wait_ready(client, root)
    wait_until(lambda: not find_children(pid), "a process is left")
    ask_for_rebuild(client)
    return stop_worker(pid)


def ask_for_rebuild(client: Client) -> None:
    with pytest.raises(NotFresh):
        client.call("sync", rebuild=True, timeout_ms=1)


def test_a_first_index_answers_with_what_it_has_and_leaves_no_process_behind(own: Home) -> None:
    root = own.make_folder()
    write_many(root)
    daemon = own.start()
    pid = daemon.process.pid
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        worker = stop_worker(pid)

        def has_some() -> bool:
            # It runs in short turns, so that it has not finished before the test looks.
            os.kill(worker, signal.SIGCONT)
            time.sleep(TURN_S)
            os.kill(worker, signal.SIGSTOP)
            return bool(status(client)["files"] > 0)

        wait_until(has_some, "no note was found before the end", limit_s=LIMIT_S)
        some = status(client)
        assert 0 < some["files"] < N_NOTES
        assert some["state"] == "indexing"
        assert some["pending"] > 0
        assert 0 < len(list_digests(client)) < N_NOTES
        assert client.call("search", query="larch")["hits"]
        assert WORKER in read_file(f"/proc/{worker}/cmdline")
        process = client.call("metrics")["process"]
        assert process["index_workers"] == 1
        assert process["index_workers_rss_bytes"] > 1_000_000
        os.kill(worker, signal.SIGCONT)
        wait_ready(client, root)
        wait_until(lambda: not find_children(pid), "a process is left")
        process = client.call("metrics")["process"]
        assert process["index_workers"] == process["index_workers_rss_bytes"] == 0
    assert daemon.stop() == 0
    assert "index_worker_failed" not in own.log.read_text()


@pytest.mark.parametrize("n_deaths", [1, 2])
def test_a_killed_process_is_replaced_and_the_index_is_whole(own: Home, n_deaths: int) -> None:
    with indexing(own) as (daemon, client, root, _):
        killed: set[int] = set()
        while len(killed) < n_deaths:
            killed.add(worker := stop_worker(daemon.process.pid, known=killed))
            os.kill(worker, signal.SIGKILL)
        wait_ready(client, root)
        wait_until(lambda: not find_children(daemon.process.pid), "a process is left")
    assert daemon.stop() == 0
    assert own.log.read_text().count("index_worker_failed") == n_deaths


def test_the_process_ends_with_a_daemon_that_is_killed_and_the_next_one_goes_on(own: Home) -> None:
    with indexing(own) as (daemon, _, root, worker):
        os.kill(worker, signal.SIGCONT)
        daemon.kill()
        wait_until(lambda: not is_alive(worker), "it outlived the daemon")
    daemon = own.start()
    with daemon.client() as client:
        wait_ready(client, root)
    assert daemon.stop() == 0
    assert "index_corrupt" not in own.log.read_text()


def test_a_stop_does_not_wait_for_the_process(own: Home) -> None:
    with indexing(own) as (daemon, _, _, worker):
        began_s = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - began_s < STOP_S
        wait_until(lambda: not is_alive(worker), "the process is left")


def test_a_signal_to_the_whole_group_stops_the_daemon_cleanly(own: Home) -> None:
    with indexing(own) as (daemon, _, _, worker):
        os.kill(worker, signal.SIGCONT)
        os.kill(worker, signal.SIGTERM)
        assert daemon.stop() == 0
        wait_until(lambda: not is_alive(worker), "the process is left")
    assert "index_worker_failed" not in own.log.read_text()


def test_removing_a_workspace_ends_its_process(own: Home) -> None:
    with indexing(own) as (daemon, client, _, worker):
        client.call("workspace.remove", workspace=status(client)["id"])
        wait_until(lambda: not find_children(daemon.process.pid), "it goes on")
        wait_until(lambda: not is_alive(worker), "the process is left")
        # Unlike pathlib's glob, this one goes on if a folder disappears meanwhile.
        cache = own.folder / "cache" / "memsyncd"
        wait_until(lambda: not glob(f"{cache}/*/index.db*"), "its index is left")
        assert not client.call("status")["workspaces"]
    assert daemon.stop() == 0


def test_saves_and_writes_during_a_rebuild_are_found_at_once_and_stay_found(own: Home) -> None:
    root = own.make_folder()
    write_many(root)
    daemon = own.start()
    with daemon.client() as client:
        worker = begin_rebuild(root, client, daemon.process.pid)
        (root / ".memories" / "3.md").write_text("# Note 3\n\nspruce\n")
        wait_until(
            lambda: (
                [hit["path"] for hit in client.call("search", query="spruce")["hits"]]
                == [".memories/3.md"]
            ),
            "the save was not found",
        )
        client.call("memory", command="create", path="/memories/new.md", file_text="hornbeam\n")
        assert client.call("search", query="hornbeam")["hits"]
        assert client.call("search", query="spruce", wait="disk")["hits"]
        assert status(client)["state"] == "indexing"
        os.kill(worker, signal.SIGCONT)
        while status(client)["state"] == "indexing":
            assert client.call("search", query="spruce")["hits"]
            assert client.call("search", query="hornbeam")["hits"]
        wait_ready(client, root)
        assert client.call("search", query="spruce")["hits"]
        assert client.call("search", query="hornbeam")["hits"]
    assert daemon.stop() == 0
    assert own.log.read_text().count("index_rebuilt") == 1


def test_a_rebuild_that_is_asked_for_twice_is_one(own: Home) -> None:
    root = own.make_folder()
    write_many(root)
    daemon = own.start()
    with daemon.client() as client:
        worker = begin_rebuild(root, client, daemon.process.pid)
        ask_for_rebuild(client)
        assert find_children(daemon.process.pid) == [worker]
        os.kill(worker, signal.SIGCONT)
        wait_ready(client, root)
    assert daemon.stop() == 0
    assert own.log.read_text().count("index_rebuilt") == 1


def test_a_full_disk_under_the_process_is_reported_and_waited_for(own: Home, mount: Mount) -> None:
    disk, root = own.folder / "disk", own.make_folder()
    mount(disk, "4m")
    own.env |= {"XDG_CACHE_HOME": str(disk / "cache")}
    write_many(root)
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        wait_until(
            lambda: any(
                reason.startswith("the disk is full") for reason in status(client)["reasons"]
            ),
            "it was not reported",
            limit_s=LIMIT_S,
        )
        wait_until(lambda: not find_children(daemon.process.pid), "a process is left")
        assert client.call("search", query="larch") is not None
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        client.call("sync", timeout_ms=round(LIMIT_S * 1000))
        wait_ready(client, root)
    assert daemon.stop() == 0
    assert "Traceback" not in own.log.read_text()
    assert "index_worker_failed" not in own.log.read_text()


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_process_that_is_stopped_for_long_stalls_its_workspace_and_is_replaced(
    own: Home,
) -> None:
    with indexing(own) as (daemon, client, root, worker):
        wait_until(lambda: status(client)["state"] == "stalled", "not reported", limit_s=LIMIT_S)
        wait_until(lambda: not is_alive(worker), "it was not killed", limit_s=2 * LIMIT_S)
        wait_ready(client, root)
    assert daemon.stop() == 0
    assert "made no progress" in own.log.read_text()


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_disk_that_hangs_under_the_process_stalls_its_own_workspace_alone(
    own: Home, launch: Launch
) -> None:
    namespace = Namespace()
    try:
        root, other = own.make_folder(), own.make_folder()
        write_many(root)
        process = launch(own, namespace.prefix)
        with connect(own) as client:
            pid = client.call("ping")["pid"]
            client.call("workspace.add", path=str(root))
            worker = stop_worker(pid)
            namespace.hang(root)
            os.kill(worker, signal.SIGCONT)
            wait_until(
                lambda: status(client)["state"] == "stalled", "not reported", limit_s=LIMIT_S
            )
            write_many(other)
            added = client.call("workspace.add", path=str(other))["workspaces"][0]["id"]
            wait_until(
                lambda: len(list_digests(client, workspace=added)) == N_NOTES,
                "the other workspace has to wait",
                limit_s=LIMIT_S,
            )
            namespace.release(root)
            wait_until(
                lambda: all(
                    workspace["state"] == "ready" and workspace["files"] == N_NOTES
                    for workspace in client.call("status")["workspaces"]
                ),
                "it did not recover",
                limit_s=LIMIT_S,
            )
        assert process.poll() is None
    finally:
        namespace.close()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(12))
def test_kills_of_process_and_daemon_at_any_moment_lose_nothing(own: Home, seed: int) -> None:
    chance, root = random.Random(seed), own.make_folder()
    write_many(root)
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
    for _ in range(4):
        time.sleep(chance.uniform(0, 1.5))
        children = find_children(daemon.process.pid)
        if children and chance.random() < 0.5:
            os.kill(children[0], signal.SIGKILL)
        elif chance.random() < 0.5:
            daemon.kill()
            wait_until(partial(are_gone, children), "a process is left")
            daemon = own.start()
        else:
            (root / ".memories" / f"{chance.randrange(N_NOTES)}.md").write_text("spruce\n")
    with daemon.client() as client:
        wait_ready(client, root)
    assert daemon.stop() == 0
    assert "index_corrupt" not in own.log.read_text()
