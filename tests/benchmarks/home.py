"""The folder and the process of a daemon that is measured."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from memsyncd.client import Client
from memsyncd.errors import NoDaemon

REPOSITORY = Path(__file__).resolve().parents[2]
START_S = 30.0
READY_S = 300.0
TIMEOUT_S = 60.0


class Home:
    """A user's folders and the daemon that runs in them."""

    def __init__(self, folder: Path, config: str) -> None:
        self.folder = folder
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "MEMSYNCD_CONFIG": str(folder / "config.toml"),
        }
        (folder / "run").mkdir(mode=0o700)
        (folder / "config.toml").write_text(config)
        self._start()

    def _start(self) -> None:
        with (self.folder / "daemon.log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "memsyncd", "run"], env=self.env, stdout=log, stderr=log
            )
        self.pid = self._daemon.pid
        self._wait_until_it_answers()

    def restart(self) -> None:
        """Stop the daemon and start another; return when that answers."""
        self.stop()
        self._start()

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
        """Wait until all workspaces are indexed."""
        with self.client() as client:
            end_s = time.monotonic() + READY_S
            while any(
                one["state"] != "ready" or one["pending"]
                for one in client.call("status")["workspaces"]
            ):
                if time.monotonic() > end_s:
                    raise TimeoutError(f"a workspace was not indexed in {READY_S} s")
                time.sleep(0.05)

    def index_path(self) -> Path:
        """The one index that there is."""
        return next(self.folder.glob(".cache/memsyncd/*/index.db"))

    def make_workspace(self, name: str, n_notes: int) -> Path:
        """A workspace with some small notes."""
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
                time.sleep(0.02)


@contextlib.contextmanager
def running(config: str = "") -> Iterator[Home]:
    """A daemon in a home of its own, which is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="memsyncd-", dir="/var/tmp"))
    try:
        home = Home(folder, config)
        try:
            yield home
        finally:
            home.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
