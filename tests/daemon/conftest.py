"""A daemon as a user has it: a process of its own, in a home of its own, on the real disk.

Its home lies under /var/tmp, since editors save differently beneath /tmp, and since a socket's path
must be short.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from memsyncd.client import Client
from memsyncd.client.memory import Memsyncd
from memsyncd.core.digest import digest_bytes
from memsyncd.errors import MemsyncdError, NoDaemon
from memsyncd.operations.table import OPERATIONS

# The fixtures, which conftest.py of other folders import with `*`.
__all__ = [
    "common_daemon",
    "common_home",
    "daemon",
    "home",
    "make_home",
    "make_place",
    "own",
    "place",
    "pytest_runtest_makereport",
    "root",
]

REPOSITORY = Path(__file__).resolve().parents[2]
START_S = 60.0
STOP_S = 45.0
# A guard against hanging on a busy machine; the promised time is measured separately.
WAIT_S = 45.0
POLL_S, SELDOM_S = 0.01, 0.05
LOG_LINES_SHOWN = 60


class Daemon:
    """One process of `memsyncd run`; `program` are the words that start memsyncd."""

    def __init__(
        self,
        env: dict[str, str],
        socket_path: str,
        log: Path,
        program: tuple[str, ...],
    ) -> None:
        self._socket_path, self._log = socket_path, log
        with log.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, *program, "run"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        wait_until(self._is_answering, f"no answer on {socket_path}", limit_s=START_S)

    def client(self) -> Client:
        return Client(self._socket_path, WAIT_S)

    def stop(self) -> int:
        """Stop it as systemd does, and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it like a crash: nothing is flushed or logged."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _is_answering(self) -> bool:
        assert self.process.poll() is None, f"the daemon ended at once:\n{self._log.read_text()}"
        try:
            with self.client() as client:
                return bool(client.call("ping")["pid"] == self.process.pid)
        except NoDaemon:
            return False


class Home:
    """A user's folders. `env` is the whole environment of the programs that run in them."""

    def __init__(self, folder: Path, config: str = "") -> None:
        self.folder = folder
        self.log = folder / "daemon.log"
        self.config = folder / "config.toml"
        self._daemons: list[Daemon] = []
        self._n_places = itertools.count(1)
        (folder / "run").mkdir(mode=0o700)
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "MEMSYNCD_CONFIG": str(self.config),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.config.write_text(config)

    def start(self, *program: str) -> Daemon:
        daemon = Daemon(self.env, self.socket_path, self.log, program or ("-m", "memsyncd"))
        self._daemons.append(daemon)
        return daemon

    def run(
        self, *words: object, cwd: Path | None = None, text: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of memsyncd, in the home's folder if no other is named."""
        return subprocess.run(
            [sys.executable, "-m", "memsyncd", *map(str, words)],
            env=self.env | env,
            cwd=cwd or self.folder,
            input=text,
            capture_output=True,
            text=True,
            timeout=WAIT_S * 2,
            check=False,
        )

    def make_folder(self) -> Path:
        """A new folder for a workspace, with space beside it."""
        folder = self.folder / f"w{next(self._n_places)}" / "proj"
        folder.mkdir(parents=True)
        return folder

    def read_log(self) -> str:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return "\n".join(lines[-LOG_LINES_SHOWN:])

    @property
    def socket_path(self) -> str:
        return str(self.folder / "run" / "memsyncd" / "memsyncd.sock")

    def close(self) -> None:
        for daemon in self._daemons:
            daemon.kill()
        undeclared = find_undeclared_errors(self.log)
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not undeclared, "errors that the table of methods does not list"


def find_undeclared_errors(log: Path) -> set[tuple[str, str]]:
    """The methods that failed with a code that `OPERATIONS` does not give them, by the log."""
    found = set()
    for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
        match = re.search(r'"method": "([\w.]+)".*"code": "(\w+)"', line)
        if match and match[1] in OPERATIONS and match[2] not in ("client_gone", "cancelled"):
            codes = {error.code for error in OPERATIONS[match[1]].every_error}
            found |= {(match[1], match[2])} if match[2] not in codes else set()
    return found


def list_digests(client: Client, **params: Any) -> dict[str, str]:
    """The digests of all notes in an index, by path, from all pages of the list."""
    digests: dict[str, str] = {}
    cursor = None
    while True:
        page = client.call("list", sections=False, limit=1000, cursor=cursor, **params)
        digests |= {note["path"]: note["digest"] for note in page["notes"]}
        cursor = page["cursor"]
        if cursor is None:
            return digests


class Place:
    """One workspace of a daemon, and a client connected to it."""

    def __init__(self, home: Home, daemon: Daemon, root: Path, **options: object) -> None:
        self.home, self.daemon, self.root = home, daemon, root
        self.outside = root.parent
        self.env = home.env
        self.is_closed = False
        self.client = daemon.client()
        self.id: str = self.client.call("workspace.add", path=str(root), **options)["workspaces"][
            0
        ]["id"]
        self.wait(
            lambda: (
                self.status()["state"] in ("ready", "degraded") and not self.status()["pending"]
            ),
            "it never became ready",
        )

    def status(self) -> dict[str, Any]:
        return dict(self.client.call("status", workspace=self.id)["workspaces"][0])

    def save(self, path: str, text: str) -> None:
        """Save a note in one step: a file that is written in place is empty first."""
        aside = self.outside / "aside"
        aside.write_text(text)
        aside.replace(self.root / path)

    def find(self, word: str, **options: object) -> set[str]:
        """The notes in which this word is found. A busy machine may exceed the default limit."""
        params = {"timeout_ms": 60_000, **options}
        hits = self.client.call("search", query=word, workspace=self.id, **params)["hits"]
        return {hit["path"] for hit in hits}

    def notes(self) -> dict[str, str]:
        """The content of the index: path and digest of every note."""
        return list_digests(self.client, workspace=self.id)

    def wait(self, is_so: Callable[[], bool], complaint: str) -> float:
        return wait_until(is_so, complaint)

    def wait_found(self, word: str, *paths: str) -> float:
        """Wait until the word is found in these notes and no others, without requesting a scan."""
        wanted = set(paths)
        return self.wait(
            lambda: self.find(word) == wanted, f"{word!r} was not found in {sorted(wanted)} alone"
        )

    def wait_equal(self) -> float:
        """Wait until the index equals the disk, without requesting a scan."""
        try:
            return self.wait(
                lambda: self.notes() == read_notes(self.root), "the index differs from the disk"
            )
        except AssertionError as failure:
            raise AssertionError(
                f"{failure}\nindex {self.notes()}\ndisk  {read_notes(self.root)}"
            ) from None

    def run(self, *command: str | Path, **options: Any) -> str:
        """Run a program as the user would, in the workspace."""
        words = [str(word) for word in command]
        options = {
            "cwd": self.root,
            "env": self.env,
            "timeout": WAIT_S,
            "stderr": subprocess.STDOUT,
        } | options
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, **options).stdout.decode(
            errors="replace"
        )

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.client.call("workspace.remove", workspace=self.id)
            self.client.close()


class SearchProbe:
    """Searches for a word repeatedly, and records for how long it was not found."""

    def __init__(self, place: Place, word: str) -> None:
        self._place, self._word = place, word
        self._client = place.daemon.client()
        self._is_over = threading.Event()
        self.longest_absence_s = 0.0
        self.n_looks = 0
        self.failure: MemsyncdError | None = None
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.close()

    def _watch(self) -> None:
        seen_s = time.monotonic()
        try:
            while not self._is_over.wait(POLL_S):
                began_s = time.monotonic()
                if self._client.call("search", query=self._word, workspace=self._place.id)["hits"]:
                    seen_s = time.monotonic()
                else:
                    self.longest_absence_s = max(self.longest_absence_s, began_s - seen_s)
                self.n_looks += 1
        except MemsyncdError as failure:
            self.failure = failure


def wait_until(
    is_so: Callable[[], object],
    complaint: str = "what was waited for did not come",
    *,
    limit_s: float = WAIT_S,
) -> float:
    """Poll until the condition is true and return how long that took; fail after `limit_s`."""
    began_s = time.monotonic()
    while not is_so():
        waited_s = time.monotonic() - began_s
        assert waited_s < limit_s, f"{complaint} within {limit_s} s"
        # The longer it takes, the rarer the polls: polling takes time from the awaited work.
        time.sleep(min(max(POLL_S, waited_s / 10), SELDOM_S))
    return time.monotonic() - began_s


def write_first_notes(root: Path) -> None:
    (root / "MEMORY.md").write_text("# Memory\n\nkeepsake of the first hour\n")
    (root / ".memories").mkdir()
    (root / ".memories" / "context.md").write_text("# Context\n\nbystander\n")


def read_notes(root: Path) -> dict[str, str]:
    """The content of the disk, read in the plainest way: path and digest of every note.

    A link counts under its own name if it leads to a file of the workspace that is not a note
    itself; tests make one such link only.
    """
    found = {}
    for place in (root / "MEMORY.md", *(root / ".memories").rglob("*")):
        real = place.resolve()
        is_elsewhere = place.is_symlink() and (
            not real.is_relative_to(root) or _is_memory(root, real)
        )
        if _is_memory(root, place) and place.is_file() and not is_elsewhere:
            found[str(place.relative_to(root))] = digest_bytes(place.read_bytes())
    return found


def _is_memory(root: Path, place: Path) -> bool:
    first, *rest = place.relative_to(root).parts
    is_inside = (first == "MEMORY.md" and not rest) or (
        first == ".memories" and not any(name[0] in ".#" for name in rest)
    )
    return is_inside and place.suffix in (".md", ".markdown", ".txt")


@pytest.fixture(scope="module")
def make_home() -> Iterator[Callable[..., Home]]:
    homes: list[Home] = []

    def make(config: str = "") -> Home:
        homes.append(Home(Path(tempfile.mkdtemp(prefix="memsyncd-", dir="/var/tmp")), config))
        return homes[-1]

    yield make
    for home in homes:
        home.close()


@pytest.fixture(scope="session")
def common_home() -> Iterator[Home]:
    home = Home(Path(tempfile.mkdtemp(prefix="memsyncd-", dir="/var/tmp")))
    yield home
    home.close()


@pytest.fixture(scope="session")
def common_daemon(common_home: Home) -> Iterator[Daemon]:
    """One daemon for all modules with the mark `shared_daemon`: a test that changes more than
    workspaces restores it."""
    daemon = common_home.start()
    yield daemon
    assert daemon.stop() == 0, common_home.read_log()


def shares_daemon(request: pytest.FixtureRequest) -> bool:
    return request.node.get_closest_marker("shared_daemon") is not None


@pytest.fixture(scope="module")
def home(request: pytest.FixtureRequest, make_home: Callable[[], Home]) -> Home:
    """The home of the module's daemon, or of the shared one if the module has the mark
    `shared_daemon`."""
    return request.getfixturevalue("common_home") if shares_daemon(request) else make_home()


@pytest.fixture
def own(make_home: Callable[..., Home]) -> Home:
    """A home for one test, whose daemon scans everything once a second."""
    return make_home("[sync]\nreconcile_s = 1\n")


@pytest.fixture(scope="module")
def daemon(request: pytest.FixtureRequest, home: Home) -> Iterator[Daemon]:
    """The module's own daemon, or the shared one if the module has the mark `shared_daemon`."""
    if shares_daemon(request):
        yield request.getfixturevalue("common_daemon")
        return
    daemon = home.start()
    yield daemon
    assert daemon.stop() == 0, home.read_log()


@pytest.fixture
def root(home: Home) -> Path:
    return home.make_folder()


@pytest.fixture
def make_place(home: Home, daemon: Daemon) -> Iterator[Callable[..., Place]]:
    """Add a folder as it is, until the end of the test."""
    places: list[Place] = []

    def make(root: Path, **options: object) -> Place:
        places.append(Place(home, daemon, root, **options))
        return places[-1]

    yield make
    for place in places:
        place.close()


@pytest.fixture
def place(root: Path, make_place: Callable[..., Place]) -> Place:
    """A workspace with a MEMORY.md and one more note, indexed."""
    write_first_notes(root)
    return make_place(root)


@pytest.fixture
def memory(place: Place) -> Iterator[Memsyncd]:
    """The memory of this workspace, as a program uses it."""
    with Memsyncd(place.root, env=place.env, client="builder") as connected:
        yield connected


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    home = getattr(item, "funcargs", {}).get("home")
    if report.failed and home is not None:
        report.sections.append(("the daemon's log", home.read_log()))
    return report


@pytest.fixture(scope="session")
def on_disk() -> Callable[[Path], dict[str, str]]:
    """`read_notes`, for tests that cannot import it."""
    return read_notes


@pytest.fixture
def watch_word(place: Place) -> Callable[[str], SearchProbe]:
    """Check that a word of this workspace is found during the `with` block."""
    return lambda word: SearchProbe(place, word)
