from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from memsyncd.cli.background import terminate_and_wait

WAITS = "import time; print(flush=True); time.sleep(60)"
STAYS = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " print(flush=True); time.sleep(60)"
)


@pytest.fixture
def start() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def begin(code: str, started: list[subprocess.Popen[bytes]]) -> int:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    started.append(process)
    assert process.stdout is not None
    process.stdout.readline()
    return process.pid


def test_a_process_that_ends_on_request_counts_as_ended_even_as_a_zombie(
    start: list[subprocess.Popen[bytes]],
) -> None:
    if not hasattr(os, "pidfd_open"):
        pytest.skip("needs pidfd_open")
    assert terminate_and_wait(begin(WAITS, start), 20)


def test_a_stopped_process_ends_on_request(start: list[subprocess.Popen[bytes]]) -> None:
    pid = begin(WAITS, start)
    os.kill(pid, signal.SIGSTOP)
    assert terminate_and_wait(pid, 20)


def test_a_process_that_does_not_end_is_reported(start: list[subprocess.Popen[bytes]]) -> None:
    assert not terminate_and_wait(begin(STAYS, start), 0.1)


def test_a_process_that_has_ended_already_counts_as_ended(
    start: list[subprocess.Popen[bytes]],
) -> None:
    pid = begin("print(flush=True)", start)
    start[0].wait()
    assert terminate_and_wait(pid, 1)


def test_without_process_handles_their_numbers_are_checked(
    start: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert not terminate_and_wait(begin(STAYS, start), 0.1)
    gone = begin("print(flush=True)", start)
    start[1].wait()
    assert terminate_and_wait(gone, 1)
