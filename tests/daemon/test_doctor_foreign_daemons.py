"""`memsyncd doctor` where the program on the socket is another version or not memsyncd: it ends in
time and reports that.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memsyncd
from tests.daemon.test_doctor import NO_DAEMON, Report, do

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

PING = {"pid": os.getpid(), "version": "0.0.9", "protocol": memsyncd.PROTOCOL}
UNUSUAL = {
    "level": "fatal",
    "check": "engine",
    "what": "it burns",
    "where": "",
    "remedy": "run",
    "workspace": None,
    "colour": "red",
}
Answers = dict[str, dict[str, Any] | None]


@contextmanager
def stand_in(home: Home, answers: Answers) -> Iterator[None]:
    """Listen on the socket with these answers; other methods get an error, None no answer at all."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        Path(home.socket_path).parent.mkdir(mode=0o700, exist_ok=True)
        server.bind(home.socket_path)
        Path(home.socket_path).chmod(0o600)
        server.listen()

        def serve(client: socket.socket) -> None:
            with client:
                for line in client.makefile("rb"):
                    request = json.loads(line)
                    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
                    if request["method"] not in answers:
                        answer["error"] = {
                            "code": -32601,
                            "message": f"no such method: {request['method']}",
                        }
                    elif (result := answers[request["method"]]) is not None:
                        answer["result"] = result
                    else:
                        continue
                    client.sendall(json.dumps(answer).encode() + b"\n")

        def accept() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)
    Path(home.socket_path).unlink()


@pytest.mark.parametrize(
    ("answers", "status", "message"),
    [
        ({"ping": PING}, 1, "no such method: workspace.list"),
        (
            {"ping": PING, "workspace.list": {"workspaces": [{"id": "a"}]}},
            1,
            "its answer is incomplete",
        ),
        (
            {"ping": PING, "workspace.list": {"workspaces": []}, "status": {}},
            1,
            "its answer has no `config`",
        ),
        pytest.param(
            {"ping": PING, "workspace.list": None},
            1,
            "did not answer within",
            marks=pytest.mark.soak,
        ),
        ({"ping": {}}, NO_DAEMON, "another program answers"),
        ({}, NO_DAEMON, "no such method: ping"),
        pytest.param({"ping": None}, NO_DAEMON, "did not answer within", marks=pytest.mark.soak),
    ],
)
def test_a_daemon_that_answers_little_is_found_and_other_checks_run(
    make_home: Callable[[], Home], answers: Answers, status: int, message: str
) -> None:
    home = make_home()
    with stand_in(home, answers):
        done = do(home, "doctor", "--json")
    assert done.stdout, done.stderr
    report = Report(done.returncode, json.loads(done.stdout))
    assert report.status == status
    found = [finding for finding in report.findings("daemon") if finding["level"] == "error"]
    assert [finding for finding in found if message in finding["what"]]
    assert all(finding["remedy"] for finding in found)
    assert (report.level("version") == "warning") == (status == 1)
    assert report.level("disk") in ("ok", "warning")


def test_findings_of_another_version_are_shown_in_its_format(
    make_home: Callable[[], Home],
) -> None:
    home = make_home()
    workspace = {"id": "a-1", "name": "a", "root": str(home.make_folder())}
    listed = {"workspaces": [workspace], "config": str(home.config)}
    with stand_in(
        home,
        {
            "ping": PING,
            "workspace.list": listed,
            "status": listed,
            "doctor": {"findings": [UNUSUAL]},
        },
    ):
        shown, reported = do(home, "doctor"), do(home, "doctor", "--json")
    assert "it burns" in shown.stdout
    assert Report(reported.returncode, json.loads(reported.stdout)).level("engine") == "warning"
    assert reported.returncode == 1
