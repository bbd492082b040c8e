"""Faults of the process: suspension, an unread log, few descriptors, a clock that is set back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Client
from memsyncd.daemon.resources import OPEN_FILES_NEEDED
from memsyncd.errors import MemsyncdError
from tests.daemon.conftest import REPOSITORY, list_digests, read_notes, wait_until
from tests.faults.conftest import connect
from tests.programs import FILE_CLOCK

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place
    from tests.faults.conftest import Launch

pytestmark = pytest.mark.shared_daemon

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
DAY_S = 86400


def status(client: Client) -> dict[str, Any]:
    return dict(client.call("status")["workspaces"][0])


def find(client: Client, word: str, **options: object) -> list[str]:
    return [hit["path"] for hit in client.call("search", query=word, **options)["hits"]]


def equals_disk(client: Client, root: Path) -> bool:
    return list_digests(client) == read_notes(root)


@pytest.mark.skipif(not QUEUE.exists(), reason="needs inotify")
def test_changes_during_a_sleep_are_found_after_an_overflow_of_the_event_queue(
    place: Place,
) -> None:
    notes = [place.root / ".memories" / f"{number}.md" for number in range(2)]
    for note in notes:
        note.write_text("larch\n")
    place.wait_equal()
    asking = place.daemon.client()
    place.daemon.process.send_signal(signal.SIGSTOP)
    try:
        # The kernel merges two equal events in a row, so two notes alternate.
        for number in range(int(QUEUE.read_text()) // 2 + 1000):
            for note in notes:
                os.utime(note, (number, number))
        for note in notes:
            note.write_text("maple\n")
        (place.root / ".memories" / "late.md").write_text("hazel\n")
        asking._socket.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    finally:
        place.daemon.process.send_signal(signal.SIGCONT)
    assert b"memsyncd" in asking._socket.recv(4096)
    asking.close()
    place.wait_found("hazel", ".memories/late.md")
    place.wait_equal()
    place.wait(lambda: place.status()["state"] == "ready", "it did not recover")
    place.wait(lambda: "overflow" in place.home.log.read_text(), "the overflow is not reported")


def test_the_daemon_keeps_running_when_its_log_has_no_reader(own: Home, launch: Launch) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 8192)
    own.config.write_text('[sync]\nreconcile_s = 1\n[log]\nlevel = "debug"\n')
    root = own.make_folder()
    launch(own, stderr=writer)
    os.close(writer)
    try:
        with connect(own) as client:
            client.call("workspace.add", path=str(root))
            for number in range(30):
                (root / "MEMORY.md").write_text(f"word{number}\n")
                assert find(client, f"word{number}", wait="disk") == ["MEMORY.md"]
        assert len(os.read(reader, 1_000_000)) > 2000
    finally:
        os.close(reader)


def test_without_free_descriptors_the_daemon_serves_its_clients_reports_unreadable_notes_and_recovers(
    own: Home, launch: Launch
) -> None:
    root = own.make_folder()
    (root / ".memories").mkdir()
    for number in range(5):
        (root / ".memories" / f"{number}.md").write_text(f"larch number{number}\n")
    process = launch(own, ["sh", "-c", f'ulimit -n {OPEN_FILES_NEEDED}; exec "$@"', "sh"])
    with connect(own) as client, contextlib.ExitStack() as others:
        client.call("workspace.add", path=str(root))
        assert len(find(client, "larch", wait="disk")) == 5
        wait_until(lambda: take_file(own, others, process.pid), "its files did not run out")
        (root / ".memories" / "0.md").write_text("maple\n")
        # The scan does what it can: notes without a known change are kept.
        for _ in range(3):
            assert client.call("ping")["pid"] == process.pid
            assert {f".memories/{number}.md" for number in range(1, 5)} <= set(
                find(client, "larch")
            )
            sync_if_possible(client)
        assert (
            find(client, "maple") == [".memories/0.md"]
            or status(client)["state"] != "ready"
            or client.call("problems")["problems"]
        )
        others.close()
        wait_until(lambda: find(client, "maple") == [".memories/0.md"], "it did not go on")
        wait_until(
            lambda: equals_disk(client, root) and status(client)["state"] == "ready",
            "it did not recover",
        )
        with connect(own) as newcomer:
            assert newcomer.call("ping")["pid"] == process.pid
    assert own.log.read_text().count("no file is left") == 1
    assert "Traceback" not in own.log.read_text()


def take_file(home: Home, others: contextlib.ExitStack, pid: int) -> bool:
    """Connect again; return true if the daemon has no free descriptor."""
    others.enter_context(Client(home.socket_path, 1.0))
    return len(os.listdir(f"/proc/{pid}/fd")) >= OPEN_FILES_NEEDED


def sync_if_possible(client: Client) -> None:
    try:
        client.call("sync", timeout_ms=2000)
    except MemsyncdError as failure:
        assert failure.hint  # noqa: PT017 - either will do


def test_a_clock_set_back_or_forward_hides_no_change(own: Home) -> None:
    offset, aside = own.folder / "offset", own.folder / "offset.new"
    offset.write_text("0")
    (own.folder / "clock").mkdir()
    (own.folder / "clock" / "sitecustomize.py").write_text(FILE_CLOCK)
    own.env |= {"PYTHONPATH": f"{own.folder / 'clock'}:{REPOSITORY}", "CLOCK_OFFSET_S": str(offset)}
    root = own.make_folder()
    note = root / "MEMORY.md"
    note.write_text("word000\n")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        find(client, "word000", wait="disk")
        for number, days in enumerate((-1, -400, 1), start=1):
            # The file is replaced in one step, because the daemon reads it whenever it reads its clock.
            aside.write_text(str(days * DAY_S))
            aside.replace(offset)
            note.write_text(f"word{number:03}\n")
            wait_until(
                lambda number=number: find(client, f"word{number:03}") == ["MEMORY.md"],
                "a save was not found",
            )
            # The file gets the time of the clock and its former size.
            note.write_text(f"more{number:03}\n")
            os.utime(note, (time.time() + days * DAY_S,) * 2)
            assert find(client, f"more{number:03}", wait="disk") == ["MEMORY.md"]
            client.call(
                "memory",
                command="insert",
                path="/memories/MEMORY.md",
                insert_line=0,
                insert_text=f"mine{number:03}",
            )
            client.call("undo", path="MEMORY.md")
            assert note.read_text() == f"more{number:03}\n"
        wait_until(
            lambda: status(client)["state"] == "ready" and equals_disk(client, root),
            "it is not ready",
        )
        assert status(client)["missed_events"] == 0
    assert daemon.stop() == 0
    assert "Traceback" not in own.log.read_text()
