"""The doctor beside a disk of notes that does not answer, the worker that waits for the disk, and a
daemon that accepts no more clients.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.service.conftest import wait_until

if TYPE_CHECKING:
    from tests.service.conftest import Manager


def examine(user: Manager, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit status and the findings that are not ok. The doctor may take no longer than
    WAIT_S.
    """
    done = user.memsyncd("doctor", "--json", *words)
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    return done.returncode, [
        finding for finding in findings if finding["level"] in ("warning", "error")
    ]


@pytest.mark.soak
def test_a_worker_that_waits_for_a_dead_disk_is_found_until_the_disk_is_detached(
    installed: Manager,
) -> None:
    far = installed.folder / "trees" / ".memories" / "far"
    far.mkdir(exist_ok=True)
    installed.memsyncd("sync")
    with installed.hang(far):
        installed.memsyncd("sync", "-w", "trees", "--timeout-ms", "100")
        wait_until(
            lambda: "has not answered for" in str(examine(installed)), installed.log.read_text
        )
        status, findings = examine(installed, "--verify")
        assert status == 1
        [stuck] = [finding for finding in findings if "has not answered for" in finding["what"]]
        assert (stuck["level"], stuck["check"]) == ("error", "folder")
        assert "umount -l" in stuck["remedy"]
        assert not [finding for finding in findings if "stands still" in finding["what"]]
    wait_until(lambda: examine(installed) == (0, []), lambda: str(examine(installed)))


@pytest.mark.soak
def test_a_folder_on_a_hanging_disk_is_named_and_without_a_daemon_not_waited_for(
    installed: Manager,
) -> None:
    root = installed.folder / "trees"
    with installed.hang(root):
        status, findings = examine(installed)
        assert status == 1
        [silent] = [finding for finding in findings if finding["where"] == str(root)]
        assert (silent["level"], silent["check"]) == ("error", "folder")
        assert "does not answer" in silent["what"]
        installed.do("systemctl", "--user", "kill", "--signal=KILL", "memsyncd")
        installed.do("systemctl", "--user", "stop", "memsyncd")
        assert examine(installed)[0] == 3
    assert installed.memsyncd("start").returncode == 0
    wait_until(lambda: examine(installed) == (0, []), lambda: str(examine(installed)))


def test_a_daemon_at_its_client_limit_is_not_reported_as_dead(
    user: Manager,
) -> None:
    user.memsyncd("service", "install", MEMSYNCD_SOCKET_MAX_CLIENTS="1")
    # A client with a pending request is not dropped for another.
    script = "import sys; from memsyncd.client import connect; c = connect(); print(c.call('ping'), flush=True); sys.stdin.read()"
    with user.begin(sys.executable, "-c", script):
        status, findings = examine(user)
        assert status == 3
        [full] = [finding for finding in findings if finding["check"] == "daemon"]
        assert "raise max_clients" in full["remedy"]
        assert "kill" not in full["remedy"]
    wait_until(lambda: examine(user)[0] != 3, lambda: str(examine(user)))
