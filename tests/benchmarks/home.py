"""Runs daemons that are measured, each in a home of its own, of this or another checkout."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memsyncd.client import Client
from memsyncd.errors import NoDaemon
from tests.benchmarks.process import read_children_peak_mb, read_cpu_s

REPOSITORY = Path(__file__).resolve().parents[2]
START_S = 60.0
READY_S = 3600.0
TIMEOUT_S = 60.0
# A daemon is quiet when it has used less than this share of a core for this time.
QUIET_SHARE, QUIET_S, QUIET_LIMIT_S = 0.01, 2.0, 600.0


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with the source of memsyncd, the Python that runs it, and its installed command."""

    folder: Path
    python: str
    command: str

    @classmethod
    def this(cls) -> Checkout:
        return cls(REPOSITORY, sys.executable, str(Path(sys.executable).with_name("memsyncd")))

    @classmethod
    def at(cls, folder: Path) -> Checkout:
        """A checkout with a `.venv` of its own. Raises SystemExit if it has none."""
        programs = folder.resolve() / ".venv" / "bin"
        if not (programs / "memsyncd").exists():
            raise SystemExit(
                f"{folder} has no .venv with memsyncd in it; "
                f"make it: cd {folder} && python3 -m venv .venv && .venv/bin/pip install -e ."
            )
        return cls(folder.resolve(), str(programs / "python"), str(programs / "memsyncd"))

    def compile(self) -> None:
        """Compile the modules, as an installer does: a daemon that does it has freed memory."""
        command = (self.python, "-m", "compileall", "-q", str(self.folder / "memsyncd"))
        subprocess.run(command, check=True)


class Home:
    """A user's folders and the daemon that runs in them."""

    def __init__(self, folder: Path, config: str, checkout: Checkout | None = None) -> None:
        self.folder = folder
        self.checkout = checkout or Checkout.this()
        self.children_peak_mb = 0.0
        """The most memory that a process which indexed for the daemon was seen to have."""
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.checkout.folder),
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "MEMSYNCD_CONFIG": str(folder / "config.toml"),
        }
        (folder / "run").mkdir(mode=0o700, exist_ok=True)
        (folder / "config.toml").write_text(config)
        self.start()

    def start(self) -> float:
        """Start the daemon; return the seconds until its first answer."""
        began_s = time.perf_counter()
        with (self.folder / "daemon.log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [self.checkout.python, "-m", "memsyncd", "run"],
                env=self.env,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        self.pid = self._daemon.pid
        self._wait_until_it_answers()
        return time.perf_counter() - began_s

    def client(self) -> Client:
        return Client(self.socket_path, TIMEOUT_S)

    @property
    def socket_path(self) -> str:
        return str(self.folder / "run" / "memsyncd" / "memsyncd.sock")

    def add(self, root: Path) -> None:
        """Register a workspace and wait until it is indexed."""
        with self.client() as client:
            client.call("workspace.add", path=str(root))
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until all workspaces are indexed and nothing is pending."""
        end_s = time.monotonic() + READY_S
        with self.client() as client:
            while not _is_ready(client):
                self.children_peak_mb = max(self.children_peak_mb, read_children_peak_mb(self.pid))
                if time.monotonic() > end_s:
                    raise TimeoutError(f"a workspace was not indexed in {READY_S} s")
                time.sleep(0.02)

    def wait_until_quiet(self) -> None:
        """Wait until the daemon uses next to no processor time: after a first index it records the
        history and merges the index.
        """
        end_s = time.monotonic() + QUIET_LIMIT_S
        while time.monotonic() < end_s:
            before_s = self.cpu_s()
            time.sleep(QUIET_S)
            if self.cpu_s() - before_s < QUIET_SHARE * QUIET_S and not self._unrecorded():
                return

    def cpu_s(self) -> float:
        return read_cpu_s(self.pid)

    def workspace(self) -> dict[str, Any]:
        """The status of the one workspace that there is."""
        with self.client() as client:
            status: dict[str, Any] = client.call("status")["workspaces"][0]
            return status

    def index_files(self) -> list[Path]:
        """The files of all indexes."""
        return list(self.folder.glob(".cache/memsyncd/*/index.db*"))

    def make_workspace(self, name: str, n_notes: int) -> Path:
        """Make a workspace with some small notes."""
        notes = self.folder / name / ".memories"
        notes.mkdir(parents=True)
        for number in range(n_notes):
            (notes / f"note-{number}.md").write_text(
                f"# Note {number}\n\nSome words that stand in note {number}.\n"
            )
        return notes.parent

    def stop(self) -> None:
        """Stop it, and wait until it has ended; a second call does nothing."""
        self._daemon.terminate()
        try:
            self._daemon.wait(START_S)
        finally:
            self._daemon.kill()

    def _unrecorded(self) -> int:
        with self.client() as client:
            return sum(
                workspace.get("unrecorded", 0) for workspace in client.call("status")["workspaces"]
            )

    def _wait_until_it_answers(self) -> None:
        end_s = time.monotonic() + START_S
        while True:
            try:
                with self.client() as client:
                    client.call("ping")
                return
            except NoDaemon:
                if self._daemon.poll() is not None or time.monotonic() > end_s:
                    raise RuntimeError((self.folder / "daemon.log").read_text()) from None
                time.sleep(0.002)


@contextlib.contextmanager
def running(config: str = "", checkout: Checkout | None = None) -> Iterator[Home]:
    """A daemon in a home of its own, which is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="memsyncd-", dir="/var/tmp"))
    try:
        home = Home(folder, config, checkout)
        try:
            yield home
        finally:
            home.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ready(client: Client) -> bool:
    return all(
        workspace["state"] == "ready" and not workspace["pending"]
        for workspace in client.call("status")["workspaces"]
    )
