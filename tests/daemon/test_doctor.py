"""`memsyncd doctor` against real faults: each fault is made, found, and corrected by the remedy
that is named.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from memsyncd.cli.main import main
from memsyncd.client import Client
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

NO_DAEMON, NOT_FOUND = 3, 4
WAIT_S = 45.0


@dataclass(frozen=True)
class Report:
    """What `memsyncd doctor --json` printed, and its exit status."""

    status: int
    reported: dict[str, Any]

    def findings(self, check: str) -> list[dict[str, str]]:
        return [finding for finding in self.reported["findings"] if finding["check"] == check]

    def level(self, check: str) -> str | None:
        """The worst level of a check."""
        levels = [finding["level"] for finding in self.findings(check)]
        return next(
            (level for level in ("error", "warning", "info", "ok") if level in levels), None
        )

    def remedy(self, check: str) -> str:
        """The remedy of the worst finding of a check."""
        return next(
            finding["remedy"]
            for finding in self.findings(check)
            if finding["level"] == self.level(check)
        )


def do(home: Home, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The same within this process: the result of a command does not depend on its process."""
    message, complained = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(message),
        redirect_stderr(complained),
    ):
        for name in set(os.environ) - home.env.keys() - env.keys():
            patch.delenv(name)
        for name, value in {**home.env, **env}.items():
            patch.setenv(name, value)
        status = main(words)
    return subprocess.CompletedProcess(words, status, message.getvalue(), complained.getvalue())


def examine(home: Home, *words: str, **env: str) -> Report:
    done = do(home, "doctor", "--json", *words, **env)
    assert done.stdout, done.stderr
    report = Report(done.returncode, json.loads(done.stdout))
    asks = [
        finding
        for finding in report.reported["findings"]
        if finding["level"] in ("warning", "error")
    ]
    assert all(finding["remedy"] for finding in asks), asks
    assert report.status in ((1,) if asks else (0,)) or report.reported["daemon"] is None
    return report


def index_of(place: Place) -> Path:
    return place.home.folder / "cache" / "memsyncd" / place.id / "index.db"


SHIFT = "UPDATE chunks SET start_line = start_line + 7, end_line = end_line + 7"


def records_of(place: Place) -> Path:
    return place.home.folder / "state" / "memsyncd" / place.id / "records.db"


def write(path: Path, *statements: str) -> None:
    """Write to the index as another program would."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def damage(path: Path) -> None:
    """Overwrite pages in the middle of the file."""
    for name in (path, path.with_name(f"{path.name}-wal")):
        if name.exists() and name.stat().st_size > 8192:
            file = os.open(name, os.O_RDWR)
            start = 4096 if name == path else 0
            os.pwrite(file, b"\xa5" * (name.stat().st_size - start), start)
            os.close(file)


# --- all is well ----------------------------------------------------------------------------------


def test_a_healthy_installation_passes_all_checks(home: Home, place: Place) -> None:
    report = examine(home, "--verify", place.id)
    well = """
        daemon two_daemons version socket config folders
        folder watcher missed_events freshness problems index
        records verify
    """.split()
    assert {check: report.level(check) for check in well} == dict.fromkeys(well, "ok")
    [verified] = report.findings("verify")
    assert "2 notes" in verified["what"]
    assert report.reported["daemon"]["pid"] == place.daemon.process.pid


def test_all_workspaces_are_examined_by_default(
    home: Home, place: Place, make_place: Callable[..., Place]
) -> None:
    other = make_place(home.make_folder())
    both = {finding["workspace"] for finding in examine(home).reported["findings"]}
    assert {place.id, other.id} <= both
    ids = {finding["workspace"] for finding in examine(home, str(other.root)).reported["findings"]}
    assert ids == {other.id, None}
    assert do(home, "doctor", "nowhere").returncode == NOT_FOUND
    nobody = examine(home, MEMSYNCD_SOCKET="/nowhere/m.sock")
    assert (nobody.level("daemon"), nobody.level("socket")) == ("ok", "warning")


# --- databases ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def make_quiet(make_home: Callable[..., Home]) -> Callable[[], Home]:
    """Start a daemon that makes no scans, so that no fault is repaired before it is found."""

    def make() -> Home:
        home = make_home("[sync]\nenabled = false\n")
        home.start()
        return home

    return make


@pytest.fixture(scope="module")
def quiet_home(make_quiet: Callable[[], Home]) -> Home:
    return make_quiet()


@pytest.fixture
def unscanned(quiet_home: Home) -> Iterator[UnscannedWorkspace]:
    unscanned = UnscannedWorkspace(quiet_home)
    yield unscanned
    with Client(quiet_home.socket_path, WAIT_S) as client:
        client.call("workspace.remove", workspace=unscanned.id)


class UnscannedWorkspace:
    """A workspace that no scan reads."""

    def __init__(self, home: Home) -> None:
        root = home.make_folder()
        (root / ".memories").mkdir()
        for number in range(40):
            (root / ".memories" / f"{number}.md").write_text(
                f"# Note {number}\n\nlarch {number}\n" * 20
            )
        with Client(home.socket_path, WAIT_S) as client:
            self.id = client.call("workspace.add", path=str(root))["workspaces"][0]["id"]
            client.call("sync", workspace=self.id)
        self.home = home
        self.index = home.folder / "cache" / "memsyncd" / self.id / "index.db"
        self.records = home.folder / "state" / "memsyncd" / self.id / "records.db"

    def examine(self, *words: str) -> Report:
        return examine(self.home, *words, self.id)

    def levels(self) -> list[str]:
        return [finding["level"] for finding in self.examine().findings("index")]

    def check_repaired(self) -> None:
        wait_until(lambda: "ok" in self.levels(), "it did not heal")
        report = self.examine("--verify")
        assert (report.status, report.level("verify")) == (0, "ok")
        assert any("rebuilt" in finding["what"] for finding in report.findings("index"))


def delete(path: Path) -> None:
    path.unlink()


def replace_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


@pytest.mark.parametrize("harm", [damage, delete, replace_by_a_copy])
def test_a_damaged_deleted_or_replaced_index_is_found_and_rebuilt(
    unscanned: UnscannedWorkspace, harm: Callable[[Path], None]
) -> None:
    harm(unscanned.index)
    report = unscanned.examine("--verify")
    assert (report.status, report.level("index")) == (1, "error")
    unscanned.check_repaired()


def test_an_index_that_another_program_wrote_is_found_by_verify_and_correct_after_a_reindex(
    unscanned: UnscannedWorkspace,
) -> None:
    write(unscanned.index, SHIFT)
    report = examine(unscanned.home, "--verify")
    assert report.level("verify") == "error"
    assert "memsyncd reindex" in report.remedy("verify")
    assert do(unscanned.home, "reindex").returncode == 0
    assert examine(unscanned.home, "--verify").level("verify") == "ok"


def test_between_two_starts_damaged_records_are_set_aside_and_a_foreign_index_is_found(
    make_quiet: Callable[[], Home],
) -> None:
    home = make_quiet()
    unscanned = UnscannedWorkspace(home)
    damage(unscanned.records)
    assert examine(home).level("records") == "error"
    assert do(home, "stop").returncode == 0
    write(unscanned.index, SHIFT)
    home.start()
    wait_until(lambda: examine(home).level("index") == "ok", "it was not opened")
    report = examine(home, "--verify")
    assert report.level("verify") == "error"
    assert "memsyncd reindex" in report.remedy("verify")
    assert report.level("records") == "warning"
    [aside] = [
        finding["where"] for finding in report.findings("records") if finding["level"] == "warning"
    ]
    Path(aside).rename(home.folder / "kept-elsewhere")
    assert do(home, "reindex").returncode == 0
    healed = examine(home, "--verify")
    assert [healed.level(check) for check in ("verify", "index", "records")] == ["ok", "info", "ok"]


# --- index and disk -------------------------------------------------------------------------------


def test_unscanned_notes_are_indexed_by_verify(
    make_home: Callable[..., Home],
) -> None:
    home = make_home("[sync]\nsync_on_change = false\nreconcile_s = 3600\n")
    daemon = home.start()
    root = home.make_folder()
    (root / "MEMORY.md").write_text("# Memory\n")
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        wait_until(
            lambda: client.call("status")["workspaces"][0]["state"] == "ready",
            "it never became ready",
        )
        (root / "MEMORY.md").write_text("# Memory\n\nlarch\n")
        report = examine(home, "--verify")
        assert report.level("watcher") == "info"
        assert {finding["level"] for finding in report.findings("verify")} == {"info", "ok"}
        assert client.call("search", query="larch")["hits"]


def test_verify_during_saves_finds_no_difference_and_delays_no_client(
    home: Home, place: Place
) -> None:
    notes = [place.root / ".memories" / f"busy{number}.md" for number in range(60)]
    for note in notes:
        note.write_text("# Busy\n\nfirst words\n" * 10)
    place.wait_equal()
    is_over = threading.Event()

    def save() -> None:
        count = 0
        while not is_over.wait(0.01):
            count += 1
            notes[count % len(notes)].write_text(f"# Busy\n\nwords {count}\n" * (1 + count % 20))

    saver = threading.Thread(target=save)
    saver.start()
    try:
        with place.daemon.client() as client:
            requested = client.send("doctor", workspace=place.id, verify=True)
            assert place.find("keepsake") == {"MEMORY.md"}
            report = client.wait(requested, timeout_s=WAIT_S)
    finally:
        is_over.set()
        saver.join()
    verified = [finding for finding in report["findings"] if finding["check"] == "verify"]
    assert verified
    assert "error" not in {finding["level"] for finding in verified}, verified
    place.wait_equal()
    assert examine(home, "--verify", place.id).level("verify") == "ok"


def test_problems_of_notes_are_grouped_by_kind(home: Home, place: Place) -> None:
    memories = place.root / ".memories"
    (memories / "large.md").write_text("x" * 3_000_000)
    (memories / "context (conflicted copy 2026-03-04).md").write_text("# Context\n\nother\n")
    (memories / "merge.md").write_text("# M\n\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n")
    (memories / "link.md").symlink_to("/etc/hostname")
    place.find("x", wait="disk")
    report = examine(home, place.id)
    levels = {
        check: report.level(check)
        for check in ("notes_skipped", "sync_conflict", "conflict_markers")
    }
    assert levels == dict.fromkeys(levels, "warning")
    where = " ".join(finding["where"] for finding in report.reported["findings"])
    assert all(name in where for name in ("large.md", "conflicted copy", "merge.md:3", "link.md"))
    assert "/etc/hostname" not in json.dumps(report.reported)


def test_a_missing_folder_is_found_and_healthy_again_after_its_return(
    home: Home, place: Place
) -> None:
    aside = place.root.with_name("aside")
    place.root.rename(aside)
    place.wait(lambda: place.status()["state"] == "missing", "it was not missed")
    assert examine(home, "--verify", place.id).level("folder") == "error"
    aside.rename(place.root)
    place.wait(lambda: place.status()["state"] == "ready", "it did not come back")
    assert examine(home, "--verify", place.id).level("folder") == "ok"


# --- the daemon and its socket --------------------------------------------------------------------


def test_permissions_for_other_users_are_found_and_corrected_by_the_remedy(
    home: Home, place: Place
) -> None:
    socket, folder = Path(home.socket_path), index_of(place).parent
    socket.chmod(0o666)
    folder.chmod(0o755)
    records_of(place).chmod(0o644)
    report = examine(home, place.id)
    assert (report.level("socket"), report.level("folders")) == ("error", "warning")
    for finding in (*report.findings("socket"), *report.findings("folders")):
        subprocess.run(["/bin/sh", "-c", finding["remedy"]], check=True)
    healed = examine(home, place.id)
    assert (healed.level("socket"), healed.level("folders")) == ("ok", "ok")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_second_daemon_on_the_same_files_is_found(home: Home, place: Place) -> None:
    other = str(home.folder / "run" / "memsyncd" / "other.sock")
    env = {**home.env, "MEMSYNCD_SOCKET": other}
    locks = [home.folder / name / "memsyncd" / "daemon.lock" for name in ("state", "cache")]
    for lock in locks:
        lock.rename(lock.with_suffix(".aside"))
    with subprocess.Popen(
        [sys.executable, "-m", "memsyncd", "run"], env=env, stderr=subprocess.DEVNULL
    ) as second:
        try:
            wait_until(lambda: os.path.exists(other), "the second daemon did not start")
            for lock in locks:  # the second one is like a version without locks
                lock.with_suffix(".aside").replace(lock)
            # A daemon on a busy machine may answer a ping too late to be counted, each time anew.
            end_it = f"kill {second.pid}"
            wait_until(
                lambda: end_it in str(examine(home, place.id).findings("two_daemons")),
                "doctor did not name the second daemon",
            )
            warning = f"a second daemon (pid {second.pid}, version "
            wait_until(
                lambda: all(part in do(home, "status").stderr for part in (warning, end_it)),
                "status did not name the second daemon",
            )
        finally:
            second.terminate()
    assert examine(home, place.id).level("two_daemons") == "ok"


@pytest.mark.skipif(
    sys.platform != "linux", reason="needs /proc, and elsewhere a full queue refuses at once"
)
def test_a_stopped_daemon_is_distinguished_from_an_ended_one_with_any_number_of_waiting_clients(
    make_home: Callable[[], Home],
) -> None:
    home = make_home()
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(home.make_folder()))
        client.call("search", query="x", wait="disk")
    daemon.process.send_signal(signal.SIGSTOP)
    stopped = examine(home)
    go_on = f"kill -CONT {daemon.process.pid}"
    assert (stopped.status, stopped.level("daemon"), stopped.remedy("daemon")) == (
        NO_DAEMON,
        "error",
        f"resume it: {go_on}",
    )
    waiting = []
    with contextlib.suppress(BlockingIOError):
        while True:
            waiting.append(socket.socket(socket.AF_UNIX))
            waiting[-1].settimeout(0)
            waiting[-1].connect(home.socket_path)
    crowded = examine(home)
    assert (crowded.status, crowded.remedy("daemon")) == (NO_DAEMON, stopped.remedy("daemon"))
    for client in waiting:
        client.close()
    subprocess.run(["/bin/sh", "-c", go_on], check=True)
    # It handles all disconnected clients before this one.
    wait_until(lambda: examine(home).level("daemon") == "ok", "it did not go on")
    elsewhere = examine(home, XDG_RUNTIME_DIR=str(home.folder))
    assert elsewhere.findings("daemon")[0]["where"] == home.socket_path
    daemon.kill()
    gone = examine(home)
    assert (gone.status, gone.level("socket")) == (NO_DAEMON, "info")
    assert any("no daemon runs" in finding["what"] for finding in gone.findings("daemon"))


def test_without_a_daemon_the_checks_of_the_machine_run(make_home: Callable[[], Home]) -> None:
    home = make_home()
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(home.make_folder()), name="first")
    assert daemon.stop() == 0
    report = examine(home)
    assert (report.status, report.level("daemon"), report.level("disk")) == (
        NO_DAEMON,
        "error",
        "ok",
    )
    assert do(home, "doctor", "first").returncode == NO_DAEMON
    home.config.chmod(0o666)
    assert examine(home).level("config") == "error"
    home.config.chmod(0o600)
    home.config.write_text("[sync]\ndebonce_ms = 3\n")
    assert "debounce_ms" in examine(home).findings("config")[0]["what"]
