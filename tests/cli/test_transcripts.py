"""Commands and their output, against the real daemon, as a person would see them.

In a transcript a shell runs a line that begins with `$ `. The next lines are its expected output:
`! ` marks lines of stderr, `[n]` the exit status if it is not 0, and `<word>` stands for any text.
Lines that begin with `// ` are remarks.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import memsyncd
from memsyncd.client.connection import Client

pytestmark = pytest.mark.life

PACKAGE_HOME = str(Path(memsyncd.__file__).parents[1])
TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
MAX_SCREEN_BYTES = 1 << 20
# A guard against hanging on busy machines.
SHELL_S = 50


class ShellSession:
    """A home of its own, and a shell in it in which `memsyncd` is the program under test."""

    def __init__(self, home: Path, run_dir: str) -> None:
        # The folder of the notes, and the user's home unless a test has another home.
        self.home = self.cwd = home
        programs = home / "bin"
        programs.mkdir()
        program = programs / "memsyncd"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memsyncd "$@"\n')
        program.chmod(0o755)
        self.env = {
            "HOME": str(home),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": PACKAGE_HOME,
            "PYTHONUTF8": "1",
            "XDG_RUNTIME_DIR": run_dir,
            "COLUMNS": "80",
        }

    def do(self, line: str) -> subprocess.CompletedProcess[str]:
        command = ["/bin/sh", "-c", line]
        return subprocess.run(
            command,
            cwd=self.cwd,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=SHELL_S,
        )

    def tell(self, line: str) -> list[str]:
        """Run the line and return its output in the form of a transcript."""
        word, _, rest = line.partition(" ")
        if word == "cd":
            self.cwd = (self.cwd / rest).resolve()
            return []
        self.wait_until_indexed()
        done = self.do(line)
        status = [f"[{done.returncode}]"] if done.returncode else []
        return [
            *done.stdout.splitlines(),
            *(f"! {each}" for each in done.stderr.splitlines()),
            *status,
        ]

    def wait_until_indexed(self) -> None:
        """Wait until no event of an earlier line waits for a scan, because answers would report it."""
        path = Path(self.env["XDG_RUNTIME_DIR"]) / "memsyncd" / "memsyncd.sock"
        if not path.exists():
            return
        with Client(str(path), SHELL_S) as client:
            end_s = time.monotonic() + SHELL_S
            while any(info["pending"] for info in client.call("status")["workspaces"]):
                assert time.monotonic() < end_s, "an event waits for a scan"
                time.sleep(0.01)

    def show(self, line: str, *, interrupt_after: str = "", types: str = "") -> str:
        """Run the line on a terminal and return its output. `types` is typed at once; Ctrl-C is
        pressed once the output has the text `interrupt_after`.
        """
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}"],
            cwd=self.cwd,
            env=self.env,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)
        os.write(leader, types.encode())
        screen = b""
        with open(leader, "rb", buffering=0) as terminal:
            while len(screen) < MAX_SCREEN_BYTES:
                try:
                    piece = terminal.read(4096)
                except OSError:  # on Linux, after the last writer has closed
                    break
                if not piece:
                    break
                screen += piece
                if interrupt_after and interrupt_after.encode() in screen:
                    # To all processes on the terminal, as Ctrl-C does.
                    os.killpg(process.pid, signal.SIGINT)
                    interrupt_after = ""
        process.wait(SHELL_S)
        return screen.decode().replace("\r\n", "\n")


@contextlib.contextmanager
def sit_down(home: Path) -> Iterator[ShellSession]:
    # A socket's path may be no longer than 107 bytes, so its folder has a short name.
    run_dir = tempfile.mkdtemp(prefix="m")
    shell = ShellSession(home, run_dir)
    yield shell
    shell.cwd = home
    shell.do("memsyncd stop")
    shutil.rmtree(run_dir)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ShellSession]:
    with sit_down(tmp_path.resolve()) as shell:
        yield shell


@pytest.fixture(scope="module")
def base_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShellSession]:
    with sit_down(tmp_path_factory.mktemp("h").resolve()) as shell:
        assert shell.do("memsyncd start").returncode == 0
        yield shell


@pytest.fixture
def session(base_session: ShellSession, tmp_path: Path) -> Iterator[ShellSession]:
    """A session with a running daemon that has no workspaces."""
    session = copy.copy(base_session)
    session.home = session.cwd = tmp_path.resolve()
    session.env = dict(base_session.env)
    yield session
    for name in base_session.do("memsyncd list --names").stdout.split():
        assert base_session.do(f"memsyncd remove {name}").returncode == 0


def read_steps(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each line to run, with its expected output."""
    steps: list[tuple[str, list[str]]] = []
    for text in path.read_text().splitlines():
        if text.startswith("$ "):
            steps.append((text[2:], []))
        elif steps and not text.startswith("// "):
            steps[-1][1].append(text)
    yield from steps


def find_pattern(wanted: list[str], home: Path) -> str:
    text = "\n".join(wanted).strip("\n").replace("<home>", str(home))
    return re.sub(r"<[a-z]+>", ".*", re.escape(text))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: str(path.stem))
def test_the_output_equals_the_transcript(shell: ShellSession, path: Path) -> None:
    for line, wanted in read_steps(path):
        reported = "\n".join(shell.tell(line)).strip("\n")
        pattern = find_pattern(wanted, shell.home)
        assert re.fullmatch(pattern, reported), f"$ {line}\n{reported}\n--- wanted\n" + "\n".join(
            wanted
        )


def test_the_console_of_the_readme_is_as_it_says(shell: ShellSession) -> None:
    readme = Path(memsyncd.__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```console\n(.*?)^ *```$", readme, flags=re.MULTILINE | re.DOTALL)
    shell.do("memsyncd init ~/demo && memsyncd start ~/demo && memsyncd sync -w demo")
    shell.cwd = shell.home / "demo"
    steps = [step for block in blocks for step in textwrap.dedent(block)[2:].split("\n$ ")]
    replayed = 0
    for step in steps:
        line, _, wanted = step.partition("\n")
        # Agents and remotes have tests of their own.
        if line.startswith("cd ") or "integrate" in line or "memsyncd share" in line:
            continue
        reported = "\n".join(each.removeprefix("! ") for each in shell.tell(line))
        # Times, scores and numbers of changes depend on how fast the commands follow each other.
        pattern = re.sub(r"just\\ now|\d\\\.\d\d|(?<=set\\ )\d+", ".*", re.escape(wanted.strip()))
        assert re.fullmatch(pattern, reported), f"$ {line}\n{reported}\n--- wanted\n{wanted}"
        replayed += 1
    assert replayed == 7


def write_note(shell: ShellSession, path: str, text: str) -> None:
    file = shell.home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_terminal_shows_matched_words_highlighted_and_positions_as_links(
    session: ShellSession,
) -> None:
    write_note(session, "notes/MEMORY.md", "# Redis\n\nThe pool waits.\n")
    assert session.do("memsyncd start notes").returncode == 0
    session.cwd = session.home / "notes"
    session.do("memsyncd sync")
    screen = session.show("memsyncd search pool")
    assert f"\x1b]8;;file://{os.uname().nodename}{session.home}/notes/MEMORY.md#" in screen
    assert "\x1b[1;34mMEMORY.md:" in screen
    assert "The \x1b[1;33mpool\x1b[0m waits." in screen


def test_a_terminal_shows_a_diff_in_colours_and_positions_as_links(session: ShellSession) -> None:
    write_note(session, "notes/MEMORY.md", "# M\n\nold\n")
    assert session.do("memsyncd start notes").returncode == 0
    session.cwd = session.home / "notes"
    assert session.do("memsyncd memory str_replace /memories/MEMORY.md old new").returncode == 0
    screen = session.show("memsyncd diff MEMORY.md")
    assert "\x1b[31m-old\x1b[0m\n\x1b[32m+new\x1b[0m\n" in screen
    assert (
        f"\x1b]8;;file://{os.uname().nodename}{session.home}/notes/.memories/x.md#3"
        in session.show("memsyncd remember y --note x")
    )


def test_a_text_and_an_answer_can_be_typed_on_the_terminal(session: ShellSession) -> None:
    write_note(session, "notes/MEMORY.md", "# M\n")
    assert session.do("memsyncd start notes").returncode == 0
    screen = session.show("memsyncd remember - -w notes", types="typed by hand\n\x04")
    assert "Ctrl-D" in screen
    assert "typed by hand" in (session.home / "notes/.memories/notes.md").read_text()
    screen = session.show("memsyncd history purge --everything -w notes", types="n\n")
    assert "erase it? [y/N]" in screen
    assert "nothing was purged" in screen
    assert "note.add" in session.do("memsyncd history -w notes").stdout


def write_notes_that_take_seconds(session: ShellSession) -> None:
    """Write 1,500 notes of 15 sections. To index them takes several polls on any machine."""
    for n in range(1500):
        sections = "".join(f"## Part {i} of {n}\n\nmany words of text {i}\n\n" for i in range(15))
        write_note(session, f"notes/.memories/{n}.md", f"# Note {n}\n\n{sections}")


def test_the_progress_of_a_first_index_is_drawn_on_a_terminal_and_erased(
    session: ShellSession,
) -> None:
    write_notes_that_take_seconds(session)
    screen = session.show("memsyncd start notes")
    assert re.search(r"indexing .*notes.* [\d,]+/[\d,]+ notes", screen)
    assert screen.endswith("\r\x1b[K")
    assert "1,500 notes" in session.do("memsyncd status").stdout
    assert "indexing" in session.show("memsyncd reindex -w notes")


def test_an_interrupt_ends_the_drawing_of_progress_but_not_the_indexing(
    session: ShellSession,
) -> None:
    write_notes_that_take_seconds(session)
    line = """sh -c 'trap : INT; memsyncd start notes; echo "status $?"'"""
    screen = session.show(line, interrupt_after="indexing")
    assert screen.endswith(
        "indexing continues in the background; see `memsyncd status`\nstatus 130\n"
    )
    session.do("memsyncd sync -w notes")
    assert "1,500 notes" in session.do("memsyncd status").stdout


def test_watching_prints_a_line_for_each_change_until_interrupted(session: ShellSession) -> None:
    write_note(session, "notes/MEMORY.md", "# M\n\nBegin.\n")
    assert session.do("memsyncd start notes").returncode == 0
    session.do("memsyncd sync")
    is_over = threading.Event()

    def save() -> None:
        """Save again and again, because the command shows no save before it watches."""
        number = 0
        while not is_over.wait(1):
            number += 1
            write_note(session, "notes/.memories/new.md", f"# New\n\nKafka {number}.\n")

    saver = threading.Thread(target=save)
    saver.start()
    try:
        screen = session.show("memsyncd watch", interrupt_after="new.md")
    finally:
        is_over.set()
        saver.join()
    assert screen.startswith("\x1b[2mwatching notes (generation ")
    assert re.search(
        r"\d\d:\d\d:\d\d.*notes.*generation \d+  \d+ chunks?  \.memories/new\.md\n", screen
    )


def test_watching_exits_with_3_when_the_daemon_ends(shell: ShellSession) -> None:
    assert shell.do("memsyncd start").returncode == 0
    stopper = threading.Timer(1.0, shell.do, ["memsyncd stop"])
    stopper.start()
    done = shell.do("memsyncd watch --all")
    stopper.join()
    assert done.returncode == 3
    assert done.stderr.startswith("watching all future workspaces")


def test_a_daemon_that_cannot_start_reports_the_reason_and_its_exit_status(
    shell: ShellSession,
) -> None:
    write_note(shell, ".config/memsyncd/config.toml", "[sync]\ndebouce_ms = 5\n")
    done = shell.do("memsyncd start")
    assert done.returncode == 78
    assert "the daemon stopped at once" in done.stderr
    assert "config.toml:2: sync.debouce_ms" in done.stderr


def test_many_concurrent_starts_run_one_daemon(shell: ShellSession) -> None:
    for n in (1, 2, 3):
        write_note(shell, f"notes{n}/MEMORY.md", "# M\n")
    done = shell.do(
        "for n in 1 2 3; do memsyncd start notes$n & done; wait; memsyncd list --names | sort"
    )
    assert done.stdout.split() == ["notes1", "notes2", "notes3"]
    assert len(set(re.findall(r"pid (\d+)", done.stderr))) == 1, done.stderr
    assert done.returncode == 0
    assert shell.do("memsyncd stop; sleep 0.5; memsyncd status").returncode == 3


def test_the_foreground_creates_first_notes_on_request_and_stops_cleanly_on_an_interrupt(
    shell: ShellSession,
) -> None:
    (shell.home / "notes").mkdir()
    screen = shell.show("memsyncd run --init notes", interrupt_after="ready")
    assert "Traceback" not in screen
    assert "notes" in screen
    assert (shell.home / "notes" / ".memories" / "context.md").exists()
    assert shell.do("memsyncd status").returncode == 3


def test_an_old_long_log_is_rotated(shell: ShellSession) -> None:
    log = shell.home / ".local" / "state" / "memsyncd" / "daemon.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * (5 << 20))
    assert shell.do("memsyncd start").returncode == 0
    assert log.stat().st_size < 1 << 20
    assert log.stat().st_mode & 0o777 == 0o600
    assert (log.parent / "daemon.log.1").stat().st_size == 5 << 20
