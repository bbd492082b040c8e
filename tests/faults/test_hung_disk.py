"""The disk of a workspace does not answer: all others are indexed and found.

The stalled workspace is reported with the reason.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon.conftest import wait_until
from tests.faults.conftest import Launch, code_of, connect

if TYPE_CHECKING:
    from memsyncd.client import Client
    from tests.daemon.conftest import Home

# A guard: ten seconds until a disk counts as stalled, and more for a busy machine.
LIMIT_S = 60.0
STOP_S = 15.0
# A guard for another workspace while a disk hangs: two seconds until a thread is detached, and as
# above.
OTHER_S = 20.0


class Namespace:
    """Mounts that are visible only in their namespace."""

    def __init__(self) -> None:
        command = [
            "unshare",
            "-m",
            "--propagation",
            "private",
            sys.executable,
            str(Path(__file__).with_name("hung_disk.py")),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            self.close()
            pytest.skip("no mount namespace can be made here")

    @property
    def prefix(self) -> list[str]:
        """The beginning of a command that runs inside the namespace."""
        return ["nsenter", "-t", str(self._process.pid), "-m", "--"]

    def hang(self, folder: Path) -> None:
        if (message := self._do("hang", folder)) != "done":
            pytest.skip(f"no FUSE file system can be mounted here: {message}")

    def release(self, folder: Path) -> None:
        assert self._do("release", folder) == "done"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _do(self, action: str, folder: Path) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{action} {folder}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    if not Path("/dev/fuse").exists() or not shutil.which("nsenter") or not shutil.which("unshare"):
        pytest.skip("needs /dev/fuse, unshare and nsenter")
    made = Namespace()
    yield made
    made.close()


@pytest.fixture
def patrol(make_home: Callable[..., Home]) -> Home:
    """A home whose daemon reconciles every two seconds."""
    return make_home("[sync]\nreconcile_s = 2\n")


def fill(root: Path, word: str) -> Path:
    (root / ".memories").mkdir(parents=True, exist_ok=True)
    (root / ".memories" / "first.md").write_text(f"# First\n\n{word}\n")
    return root


def add(client: Client, root: Path) -> str:
    added = client.call("workspace.add", path=str(root))["workspaces"][0]["id"]
    wait_until(
        lambda: status(client, added)["state"] == "ready", "it never became ready", limit_s=LIMIT_S
    )
    return str(added)


def status(client: Client, workspace: str) -> dict[str, Any]:
    return dict(client.call("status", workspace=workspace)["workspaces"][0])


def find(client: Client, workspace: str, word: str) -> list[str]:
    return [hit["path"] for hit in client.call("search", query=word, workspace=workspace)["hits"]]


def save(client: Client, workspace: str, root: Path, word: str) -> None:
    """Save a note, and check that it is found."""
    (root / ".memories" / f"{word}.md").write_text(f"# New\n\n{word}\n")
    wait_until(lambda: bool(find(client, workspace, word)), f"{word} is not found", limit_s=OTHER_S)


def wait_for_stalled(client: Client, workspace: str) -> dict[str, Any]:
    wait_until(
        lambda: status(client, workspace)["state"] == "stalled", "nothing is said", limit_s=LIMIT_S
    )
    return status(client, workspace)


def end(process: subprocess.Popen[bytes]) -> None:
    """Check that the daemon stops cleanly, and soon."""
    began_s = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(4 * STOP_S) == 0
    assert time.monotonic() - began_s < STOP_S


def refusal_of(action: Callable[[], object]) -> tuple[str, float]:
    """Return the error code, and the seconds until it came."""
    began_s = time.monotonic()
    return code_of(action), time.monotonic() - began_s


def test_a_disk_that_hangs_stalls_its_own_workspace_alone(
    patrol: Home, namespace: Namespace, launch: Launch
) -> None:
    hung, well = fill(patrol.make_folder(), "larch"), fill(patrol.make_folder(), "maple")
    process = launch(patrol, namespace.prefix)
    with connect(patrol) as client:
        a, b = add(client, hung), add(client, well)
        namespace.hang(hung / ".memories")
        time.sleep(2.5)  # until the next reconcile waits for the disk
        save(client, b, well, "hazel")
        reported = wait_for_stalled(client, a)
        assert any(
            str(hung) in reason and "has not answered for" in reason
            for reason in reported["reasons"]
        )
        save(client, b, well, "rowan")
        assert status(client, b)["state"] == "ready"
        answer = client.call("search", query="larch", workspace=a)
        assert [hit["path"] for hit in answer["hits"]] == [".memories/first.md"]
        assert answer["freshness"]["state"] == "stalled"
        assert "has not answered for" in answer["freshness"]["reason"]
        findings = client.call("doctor")["findings"]
        [stalled] = [finding for finding in findings if "has not answered for" in finding["what"]]
        assert (stalled["level"], stalled["workspace"]) == ("error", a)
        assert stalled["remedy"]
    end(process)


def test_requests_to_the_stalled_workspace_fail_soon_and_delay_no_other(
    patrol: Home, namespace: Namespace, launch: Launch
) -> None:
    hung, well = fill(patrol.make_folder(), "larch"), fill(patrol.make_folder(), "maple")
    launch(patrol, namespace.prefix)
    with connect(patrol) as client, connect(patrol) as other:
        a, b = add(client, hung), add(client, well)
        namespace.hang(hung / ".memories")
        wait_for_stalled(client, a)
        actions: dict[str, Callable[[], object]] = {
            "get": lambda: client.call("get", workspace=a, path=".memories/first.md"),
            "view": lambda: client.call(
                "memory", workspace=a, command="view", path="/memories/first.md"
            ),
            "create": lambda: client.call(
                "memory",
                workspace=a,
                command="create",
                path="/memories/second.md",
                file_text="oak\n",
            ),
            "add": lambda: client.call("note.add", workspace=a, content="oak"),
            "wait": lambda: client.call(
                "search", workspace=a, query="larch", wait="disk", timeout_ms=500
            ),
        }
        for name, action in actions.items():
            code, seconds = refusal_of(action)
            assert code in ("busy", "timeout"), name
            assert seconds < OTHER_S, name
            assert find(other, b, "maple") == [".memories/first.md"]
        both = {"workspace": [a, b], "wait": "disk", "timeout_ms": 4000}
        answer = client.call("search", query="larch OR maple", **both)
        assert {hit["workspace"] for hit in answer["hits"]} == {b}
        left_out, answering = answer["workspaces"]
        assert (left_out["id"], left_out["code"], answering["failure"]) == (a, "timeout", None)
        assert "has not answered for" in left_out["failure"]
        assert client.call("context", query="maple", **both)["text"]
        recalled = client.call("recall", text="larch OR maple", **both)
        assert {memory["workspace"] for memory in recalled["memories"]} == {b}
        assert "has not answered for" in recalled["workspaces"][0]["failure"]
        # It reads only the indexes, which do not lie on the disk that hangs.
        assert not any(
            workspace["failure"]
            for workspace in client.call("patterns", workspace=[a, b])["workspaces"]
        )
        # A path may be anywhere: neither the hung disk nor its error may block the loop.
        assert client.call("search", workspace=str(hung / ".memories"), query="larch")["hits"]
        assert other.call("search", workspace=str(well / ".memories"), query="maple")["hits"]
        third = fill(patrol.make_folder(), "hazel")
        save(client, add(client, third), third, "rowan")
        assert len(client.call("workspace.list")["workspaces"]) == 3
        namespace.release(hung / ".memories")
        wait_until(
            lambda: status(client, a)["state"] == "ready" and not status(client, a)["reasons"],
            "it did not recover",
            limit_s=LIMIT_S,
        )
        assert not (hung / ".memories" / "second.md").exists()
        assert client.call("history", workspace=a)["revisions"] == []
        save(client, a, hung, "alder")


def test_the_daemon_stops_soon_while_clients_wait_for_the_disk_and_closes_the_other_workspaces(
    patrol: Home, namespace: Namespace, launch: Launch
) -> None:
    hung, well = fill(patrol.make_folder(), "larch"), fill(patrol.make_folder(), "maple")
    process = launch(patrol, namespace.prefix)
    with connect(patrol) as client, contextlib.ExitStack() as waiting:
        a, b = add(client, hung), add(client, well)
        namespace.hang(hung / ".memories")
        path = {"path": ".memories/first.md"}
        for method, params in (
            ("get", path),
            ("get", path),
            ("memory", {"command": "create", "path": "/memories/second.md", "file_text": "oak\n"}),
            ("sync", {}),
        ):
            ask = waiting.enter_context(socket.socket(socket.AF_UNIX))
            ask.connect(patrol.socket_path)
            request = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": method,
                "params": {"workspace": a, **params},
            }
            ask.sendall(json.dumps(request).encode() + b"\n")
        assert find(client, b, "maple") == [".memories/first.md"]
        queue = lambda: client.call("metrics")["queue"]  # noqa: E731
        wait_until(
            lambda: queue()["in_threads"] == 2 and queue()["worker_jobs"] >= 2, "nobody waits"
        )
        end(process)
    databases = sorted(
        path.name
        for path in (patrol.folder / "cache").rglob("*")
        if b in path.parts and path.is_file()
    )
    assert databases == ["index.db", "index.db-check"], "the index of the other was not closed"
    assert {
        path.name
        for path in (patrol.folder / "state").rglob("*")
        if b in path.parts and path.is_file()
    } == {"records.db", "records.db-check"}
    namespace.release(hung / ".memories")
    process = launch(patrol, namespace.prefix)
    with connect(patrol) as client:
        wait_until(
            lambda: status(client, a)["state"] == "ready", "it did not recover", limit_s=LIMIT_S
        )
        assert not (hung / ".memories" / "second.md").exists()
        assert client.call("history", workspace=a)["revisions"] == []
    end(process)


@pytest.mark.parametrize("place", [".memories", "."])
def test_a_daemon_that_starts_while_a_disk_hangs_serves_the_others(
    patrol: Home, namespace: Namespace, launch: Launch, place: str
) -> None:
    hung, well = fill(patrol.make_folder(), "larch"), fill(patrol.make_folder(), "maple")
    process = launch(patrol, namespace.prefix)
    with connect(patrol) as client:
        a, b = add(client, hung), add(client, well)
    end(process)
    namespace.hang(hung / place)
    process = launch(patrol, namespace.prefix)
    with connect(patrol) as client:
        wait_until(
            lambda: status(client, b)["state"] == "ready", "the other is not ready", limit_s=OTHER_S
        )
        save(client, b, well, "hazel")
        wait_for_stalled(client, a)
        assert find(client, a, "larch") == [".memories/first.md"]
        namespace.release(hung / place)
        wait_until(
            lambda: status(client, a)["state"] == "ready", "it did not recover", limit_s=LIMIT_S
        )
        save(client, a, hung, "alder")
    end(process)


def test_the_doctor_names_a_disk_that_hangs_and_does_not_wait_for_it(
    patrol: Home, namespace: Namespace, launch: Launch
) -> None:
    hung, well = fill(patrol.make_folder(), "larch"), fill(patrol.make_folder(), "maple")
    launch(patrol, namespace.prefix)
    with connect(patrol) as client:
        a = add(client, hung)
        add(client, well)
        namespace.hang(hung)
        wait_for_stalled(client, a)
    command = [*namespace.prefix, sys.executable, "-m", "memsyncd", "doctor", "--json"]
    done = subprocess.run(
        command, env=patrol.env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    findings = json.loads(done.stdout)["findings"]
    silent = [
        finding
        for finding in findings
        if finding["level"] == "error" and finding["check"] == "folder"
    ]
    assert silent, findings
    assert {finding["workspace"] for finding in silent} == {a}


def test_an_examination_of_all_notes_that_begins_as_a_disk_hangs_ends_with_the_finding(
    make_home: Callable[..., Home], namespace: Namespace, launch: Launch
) -> None:
    home = make_home("[sync]\nreconcile_s = 3600\n")
    hung, well = fill(home.make_folder(), "larch"), fill(home.make_folder(), "maple")
    launch(home, namespace.prefix)
    with connect(home) as client, connect(home) as other:
        a, b = add(client, hung), add(client, well)
        namespace.hang(hung / ".memories")
        findings = client.call("doctor", verify=True)["findings"]
        of_hung = [
            finding
            for finding in findings
            if finding["workspace"] == a and finding["check"] == "verify"
        ]
        assert of_hung, findings
        assert "has not answered for" in of_hung[0]["what"]
        assert status(other, a)["state"] == "stalled"
        save(other, b, well, "hazel")
        # As with a later hang: the disk is a finding, and nothing more is read.
        again = client.call("doctor", verify=True)["findings"]
        messages = [finding["what"] for finding in again if finding["workspace"] == a]
        assert any("has not answered for" in message for message in messages)


def test_a_daemon_whose_configuration_names_a_folder_on_a_hung_disk_starts_and_ends(
    patrol: Home, namespace: Namespace, launch: Launch
) -> None:
    hung, well = fill(patrol.make_folder(), "larch"), fill(patrol.make_folder(), "maple")
    tables = [
        f'[[workspace]]\npath = "{root}"\nname = "{name}"\n'
        for name, root in (("a", hung), ("b", well))
    ]
    patrol.config.write_text("[sync]\nreconcile_s = 2\n" + "".join(tables))
    namespace.hang(hung)
    process = launch(patrol, namespace.prefix)
    with connect(patrol) as client:
        wait_until(
            lambda: status(client, "b")["state"] == "ready",
            "the other is not ready",
            limit_s=OTHER_S,
        )
        save(client, "b", well, "hazel")
        assert status(client, "a")["state"] in ("indexing", "stalled")
        process.send_signal(signal.SIGHUP)
        save(client, "b", well, "rowan")
    end(process)
