"""Two editors save while the daemon replaces the note: every displaced text is in the note or in
the history.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.conftest import write_first_notes
from tests.proc import list_names, read_file

DELAY_US = 400_000
LIMIT_S = 45.0

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None, reason="only strace can delay one system call"
)


@pytest.fixture
def slow_renames(home: Any, daemon: Any) -> Iterator[None]:
    """The daemon's exchanges of names are delayed before and after they happen."""
    inject = f"inject=renameat2:delay_enter={DELAY_US}:delay_exit={DELAY_US}"
    words = [
        "strace",
        "-f",
        "-q",
        "-p",
        str(daemon.process.pid),
        "-e",
        "trace=renameat2",
        "-e",
        inject,
    ]
    log = home.folder / "strace.log"
    with log.open("wb") as stream:
        tracer = subprocess.Popen(words, stderr=stream, stdin=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + LIMIT_S
        while not is_traced(daemon.process.pid):
            if tracer.poll() is not None or time.monotonic() > deadline_s:
                pytest.skip(f"strace may not trace here: {log.read_text()[:200]}")
            time.sleep(0.01)
        yield
    finally:
        tracer.terminate()
        tracer.wait()


def is_traced(pid: int) -> bool:
    """True once every thread of the process has a tracer."""
    threads = list_names(pid, "task")
    texts = [read_file(f"/proc/{pid}/task/{thread}/status") for thread in threads]
    return all("TracerPid:\t0\n" not in text for text in texts)


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline_s, "what was waited for did not come"
        time.sleep(0.001)


def save(note: Path, text: str) -> None:
    fresh = note.with_name("editor.tmp")
    fresh.write_text(text)
    fresh.replace(note)


@pytest.mark.timeout(300)
def test_no_save_is_lost_between_two_editors_and_a_slow_exchange(
    root: Path, make_place: Any, request: pytest.FixtureRequest
) -> None:
    write_first_notes(root)
    place, note = make_place(root), root / "MEMORY.md"
    place.client.call("history", workspace=place.id)
    request.getfixturevalue("slow_renames")

    def write() -> None:
        with place.daemon.client() as client:
            client.call(
                "memory",
                workspace=place.id,
                command="insert",
                path="/memories/MEMORY.md",
                insert_line=0,
                insert_text="ours",
            )

    writer = threading.Thread(target=write)
    writer.start()
    wait_for(lambda: any(root.glob(".memsyncd-*.tmp")))
    # The bytes are on the disk once the exchange is under way.
    time.sleep(DELAY_US / 4e6)
    save(note, "saved by editor 1\n")
    wait_for(lambda: "ours" in note.read_text())
    seen = note.read_text()
    wait_for(lambda: "editor 1" in note.read_text())
    save(note, f"{seen}saved by editor 2\n")
    writer.join()
    place.client.call("sync", workspace=place.id)
    revisions = place.client.call("history", workspace=place.id, path="MEMORY.md", limit=50)[
        "revisions"
    ]
    diffs = [
        place.client.call(
            "diff", workspace=place.id, path="MEMORY.md", revision=revision["revision"]
        )["diff"]
        for revision in revisions
    ]
    assert any("+saved by editor 1" in diff for diff in diffs)
    assert "saved by editor 2" in note.read_text()
    assert sorted(file.name for file in root.iterdir()) == [".memories", "MEMORY.md"]
