"""`memsyncd ui --terminal` as a process on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("textual", reason="not installed: textual (pip install 'memsyncd[terminal]')")

from tests.daemon.conftest import WAIT_S

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

pytestmark = [pytest.mark.life, pytest.mark.shared_daemon]

STEERING = "\x1b[5m\x1b]0;forged\x07\x1b]8;;x:y\x1b\\\x9b2J\x85\u202e\u2066"
MODULE = ("-m", "memsyncd")
HIDE = """
import sys
sys.modules["textual"] = None
from memsyncd.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
WITHOUT = ("-c", HIDE)


class Terminal:
    """A process on a terminal with 80 columns and 24 rows."""

    def __init__(
        self, env: dict[str, str], cwd: Path, program: tuple[str, ...] = MODULE, term: str = ""
    ) -> None:
        self.leader, self.follower = pty.openpty()
        fcntl.ioctl(self.follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.modes = termios.tcgetattr(self.follower)
        self.output = b""
        self.process = subprocess.Popen(
            [sys.executable, *program, "ui", "--terminal"],
            env={**env, "TERM": term or "xterm-256color"},
            cwd=cwd,
            stdin=self.follower,
            stdout=self.follower,
            stderr=self.follower,
            start_new_session=True,
        )

    def write(self, keys: str) -> None:
        os.write(self.leader, keys.encode())

    def read(self) -> None:
        if select.select([self.leader], [], [], 0.05)[0]:
            self.output += os.read(self.leader, 65536)

    @property
    def text(self) -> str:
        """All output since the start, without the sequences that place and colour it."""
        # The last read may end within a character.
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.output.decode(errors="replace"))

    def wait_for(self, is_so: Callable[[], bool], complaint: str) -> None:
        began_s = time.monotonic()
        while not is_so():
            assert time.monotonic() - began_s < WAIT_S, f"{complaint}: {self.text[-2000:]!r}"
            self.read()

    def wait_text(self, text: str) -> None:
        self.wait_for(lambda: text in self.text, f"{text!r} was not shown")

    def wait_end(self) -> int:
        self.wait_for(lambda: self.process.poll() is not None, "it did not end")
        while select.select([self.leader], [], [], 0)[0]:
            self.read()
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.leader)
        os.close(self.follower)


Open = Callable[..., Terminal]


@pytest.fixture
def open_terminal() -> Iterator[Open]:
    opened: list[Terminal] = []

    def make(*words: object, **options: object) -> Terminal:
        opened.append(Terminal(*words, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for terminal in opened:
        terminal.close()


def test_a_question_is_answered_in_a_terminal_which_is_left_as_it_was(
    place: Place, open_terminal: Open
) -> None:
    text = f"# Otters {STEERING}\n\nOtters gather {STEERING} by the weir.\n"
    (place.root / ".memories" / "otters.md").write_text(text)
    place.wait_found("weir", ".memories/otters.md")
    terminal = open_terminal(place.env, place.root)
    terminal.wait_text("ready")
    terminal.write("otters weir")
    terminal.wait_text(".memories/otters.md:1-3")
    terminal.write("\r")
    terminal.wait_text("by the weir")
    terminal.wait_text("3 lines")
    terminal.write("q")
    assert terminal.wait_end() == 0
    # The alternate screen is left, the cursor shown, the mouse and pasting as before.
    for number in (b"1049", b"1000", b"2004"):
        assert terminal.output.rfind(b"\x1b[?%bl" % number) > terminal.output.rfind(
            b"\x1b[?%bh" % number
        )
    assert terminal.output.rfind(b"\x1b[?25h") > terminal.output.rfind(b"\x1b[?25l")
    assert termios.tcgetattr(terminal.follower) == terminal.modes
    output = terminal.output.decode()
    # Textual itself chooses the form of the mouse's pointer.
    output = re.sub(r"\x1b\]22;[a-z]+\x07", "", output)
    assert not re.search(r"\x1b\[5m|\x1b\]|[\x80-\x9f\u202e\u2066\x07]", output)


def test_control_c_ends_it_as_it_ends_other_commands(place: Place, open_terminal: Open) -> None:
    terminal = open_terminal(place.env, place.root)
    terminal.wait_text("ready")
    terminal.write("\x03")
    assert terminal.wait_end() == 130
    assert termios.tcgetattr(terminal.follower) == terminal.modes


def test_it_stays_while_the_daemon_is_gone_and_says_so(own: Home, open_terminal: Open) -> None:
    daemon = own.start()
    root = own.make_folder()
    (root / "MEMORY.md").write_text("# Otters\n\nOtters gather by the weir.\n")
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
        client.call("sync", workspace=str(root))
    terminal = open_terminal(own.env, root)
    terminal.wait_text("ready")
    daemon.stop()
    terminal.wait_text("no daemon")
    terminal.wait_text("memsyncd start")
    terminal.write("weir")
    daemon = own.start()
    terminal.wait_text("connected to the daemon again")
    terminal.wait_text("MEMORY.md:1-3")
    terminal.write("\x11")
    assert terminal.wait_end() == 0
    assert daemon.stop() == 0


def test_a_missing_library_a_missing_daemon_and_a_dumb_terminal_are_named_with_a_remedy(
    make_home: Callable[[], Home], open_terminal: Open
) -> None:
    home = make_home()
    for program, term, status, text in (
        (WITHOUT, "", 78, "→ run: pip install 'memsyncd[terminal]'"),
        (MODULE, "", 3, "→ start it with `memsyncd start`"),
        (MODULE, "dumb", 2, "→ over ssh: ssh -t HOST memsyncd ui --terminal"),
    ):
        terminal = open_terminal(home.env, home.folder, program, term)
        assert terminal.wait_end() == status
        assert text in terminal.text
        assert "\x1b[?1049h" not in terminal.output.decode()


def test_without_a_terminal_nothing_is_drawn(make_home: Callable[[], Home]) -> None:
    home = make_home()
    for words, status in ((["--terminal"], 2), (["--terminal", "--json"], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "memsyncd", "ui", *words],
            env=home.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (status, "")
        assert "  → " in done.stderr
