"""The system gives no more watches: the daemon reports that and its remedy, reconciles instead, and
recovers.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Client
from memsyncd.errors import NoDaemon
from tests.daemon.conftest import wait_until
from tests.programs import succeeds

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

LIMIT = "/proc/sys/user/max_inotify_watches"
OWN_USERS = ["unshare", "--user", "--map-root-user"]
WAIT_S = 60.0


def is_limit_ours() -> bool:
    """True if a process can be given few watches without taking any from others: a user namespace
    has a limit of its own."""
    return succeeds(*OWN_USERS, "sh", "-c", f"echo 8 > {LIMIT}")


pytestmark = [
    pytest.mark.needs("nsenter"),
    pytest.mark.skipif(
        not is_limit_ours(),
        reason="needs Linux with user namespaces, to limit nobody else's watches",
    ),
]


@pytest.fixture
def limited(make_home: Callable[..., Home]) -> Iterator[tuple[Home, subprocess.Popen[bytes]]]:
    home = make_home("[sync]\nreconcile_s = 0.3\n")
    script = f'echo 8 > {LIMIT}; exec "{sys.executable}" -m memsyncd run'
    with home.log.open("ab") as log:
        process = subprocess.Popen(
            [*OWN_USERS, "sh", "-c", script],
            env=home.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    yield home, process
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, home.read_log()


def connect(home: Home) -> Client:
    found: list[Client] = []

    def is_up() -> bool:
        try:
            found.append(Client(home.socket_path, WAIT_S))
        except NoDaemon:
            return False
        return True

    wait_until(is_up, "no daemon came up")
    return found[0]


def test_without_free_watches_the_daemon_reports_a_remedy_finds_saves_by_reconciles_and_recovers(
    limited: tuple[Home, subprocess.Popen[bytes]],
) -> None:
    home, process = limited
    root = home.make_folder()
    for number in range(20):
        (root / ".memories" / f"d{number}").mkdir(parents=True)
        (root / ".memories" / f"d{number}" / "note.md").write_text(f"larch number{number}\n")
    with connect(home) as client:
        client.call("workspace.add", path=str(root))

        def status() -> dict[str, Any]:
            return dict(client.call("status")["workspaces"][0])

        def find(word: str) -> list[str]:
            return [hit["path"] for hit in client.call("search", query=word)["hits"]]

        wait_until(
            lambda: any("max_user_watches" in reason for reason in status()["reasons"]),
            "the limit is not named",
        )
        wait_until(lambda: status()["state"] == "degraded", "it is called ready")
        assert status()["watcher"] == "timed"
        assert any(
            "watch limit" in problem["problem"] for problem in client.call("problems")["problems"]
        )
        for number in range(20):
            (root / ".memories" / f"d{number}" / "note.md").write_text(f"maple number{number}\n")
        wait_until(lambda: not find("larch"), "reconciles did not find what was saved")

        more = [
            "nsenter",
            "--user",
            "--preserve-credentials",
            "--target",
            str(process.pid),
            "sh",
            "-c",
            f"echo 1000 > {LIMIT}",
        ]
        subprocess.run(more, check=True, capture_output=True)

        def is_healed() -> bool:
            for number in range(20):
                (root / ".memories" / f"d{number}" / "note.md").write_text(
                    f"rowan {time.monotonic_ns()}\n"
                )
            return bool(status()["state"] == "ready")

        # Three scans in a row that find unannounced changes are a reason to retry at once.
        wait_until(is_healed, "it did not heal")
        wait_until(lambda: status()["watcher"] != "timed", "it does not watch by events")
        client.call("sync")
        missed = status()["missed_events"]
        for number in range(20):
            (root / ".memories" / f"d{number}" / "note.md").write_text(f"hazel number{number}\n")
        wait_until(lambda: not find("rowan"), "saves were not found")
        assert status()["missed_events"] == missed
