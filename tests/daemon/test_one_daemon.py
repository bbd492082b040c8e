"""One daemon for each state folder, whatever the environment of those who start it or look for it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

import memsyncd
from memsyncd.client import OtherVersion, connect
from memsyncd.client.memory import Memsyncd
from memsyncd.dirs import find_user_dirs
from memsyncd.errors import NoDaemon, NoteNotFound
from memsyncd.lock import is_held
from tests.daemon.conftest import wait_until
from tests.daemon.test_doctor_foreign_daemons import Answers, stand_in

if TYPE_CHECKING:
    from memsyncd.client.types import RevisionInfo
    from tests.daemon.conftest import Home

WAIT_S = 90.0
RACE_S = 0.4
"""About as long as a daemon takes to take its locks: two that start within it race for them."""
SAMPLE_S = 0.005
REFUSED = 6
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
PROGRAM = [sys.executable, "-m", "memsyncd"]

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")


@pytest.fixture
def own(make_home: Callable[[], Home]) -> Home:
    return make_home()


@pytest.fixture
def root(own: Home) -> Path:
    """A configured workspace."""
    root = own.make_folder()
    (root / "MEMORY.md").write_text("# Larch\n\nA tree.\n")
    # All changes of one note are kept.
    own.config.write_text(f'[history]\nmax_revisions = 10000\n[[workspace]]\npath = "{root}"\n')
    return root


@pytest.fixture
def envs(own: Home) -> Iterator[dict[str, dict[str, str]]]:
    """Environments of one home. Cron, ssh and some agents give the `bare` one."""
    names = ("PATH", "PYTHONPATH", "LANG", "HOME", "MEMSYNCD_CONFIG")
    bare = {name: own.env[name] for name in names}
    yield {
        "bare": bare,
        "runtime": bare | {"XDG_RUNTIME_DIR": own.env["XDG_RUNTIME_DIR"]},
        "named": bare | {"MEMSYNCD_SOCKET": str(own.folder / "named.sock")},
    }
    # Else the command might find a daemon of the user who runs the tests.
    if is_held(find_user_dirs(bare).lock_paths):
        call(bare, "stop")


def call(env: dict[str, str], *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words],
        env=env,
        input=text,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def find_pid(env: dict[str, str]) -> int:
    """Return the pid of the daemon that answers this environment, 0 if none does."""
    try:
        with connect(env=env, timeout_s=WAIT_S) as client:
            return int(client.call("ping")["pid"])
    except NoDaemon:
        return 0


def has_databases(pid: int) -> bool:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for name in names:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{name}").endswith((".db", ".db-wal")):
                return True
    return False


# --- who has the folders is found -----------------------------------------------------------------


@pytest.mark.parametrize("first", ["bare", "runtime", "named"])
def test_every_environment_finds_the_daemon_and_none_starts_another(
    envs: dict[str, dict[str, str]], root: Path, first: str
) -> None:
    started = call(envs[first], "start")
    assert started.returncode == 0, started.stderr
    pid = find_pid(envs[first])
    for env in envs.values():
        again = call(env, "start")
        assert (again.returncode, f"runs already (pid {pid}), on /" in again.stderr) == (0, True)
        refused = call(env, "run")
        assert refused.returncode == REFUSED
        assert f"process {pid}, on /" in refused.stderr
        assert "memsyncd stop" in refused.stderr
        assert "A tree" in call(env, "search", "larch", "-w", str(root), "--wait").stdout
        with Memsyncd(root, env=env) as memory:
            assert memory.search("larch")
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        assert "serverInfo" in call(env, "mcp", text=json.dumps(hello) + "\n").stdout
        given = json.dumps({"cwd": str(root)})
        assert "A tree" in call(env, "hook", "session-start", text=given).stdout
        assert find_pid(env) == pid
    last = envs["runtime" if first == "bare" else "bare"]
    assert f"(pid {pid})" in call(last, "stop").stderr
    assert [find_pid(env) for env in envs.values()] == [0, 0, 0]


def test_a_daemon_that_shares_the_indexes_alone_is_used_and_named(
    envs: dict[str, dict[str, str]], own: Home, root: Path
) -> None:
    other = envs["bare"] | {"XDG_STATE_HOME": str(own.folder / "elsewhere")}
    assert call(envs["runtime"], "start").returncode == 0
    refused = call(other, "run")
    assert refused.returncode == REFUSED
    status = call(other, "status")
    assert status.returncode == 0
    assert f"state elsewhere than in {other['XDG_STATE_HOME']}/memsyncd" in status.stderr
    assert "A tree" in call(other, "search", "larch", "-w", str(root), "--wait").stdout


@needs_proc
def test_daemons_of_one_home_with_other_folders_are_named(
    envs: dict[str, dict[str, str]], own: Home
) -> None:
    kept = {
        name: str(own.folder / f"other-{name.lower()}")
        for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")
    }
    other = envs["runtime"] | kept
    assert call(envs["bare"], "start").returncode == 0
    assert call(other, "start").returncode == 0
    try:
        # Both share the runtime folder: a client without it finds its own.
        assert find_pid(envs["bare"]) != find_pid(other)
        said = call(envs["bare"], "status").stderr
        assert f"another daemon (pid {find_pid(other)}, version " in said
        assert kept["XDG_STATE_HOME"] in said
        examined = json.loads(call(envs["bare"], "doctor", "--json").stdout)
        named = [finding for finding in examined["findings"] if finding["check"] == "two_daemons"]
        assert any("another daemon" in finding["what"] for finding in named)
    finally:
        call(other, "stop")


def test_a_lock_that_was_removed_comes_back_and_one_that_another_has_ends_the_daemon(
    envs: dict[str, dict[str, str]], own: Home
) -> None:
    own.config.write_text("[sync]\nreconcile_s = 0.2\n")
    process = subprocess.Popen([*PROGRAM, "run"], env=envs["runtime"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: find_pid(envs["runtime"]) == process.pid, "it did not start")
        lock = own.folder / ".local" / "state" / "memsyncd" / "daemon.lock"
        lock.unlink()
        wait_until(lock.exists, "it does not lock again")
        wait_until(lambda: find_pid(envs["bare"]) == process.pid, "nobody finds it")
        # A second daemon that has the folders ends the first.
        hold = (
            "import os, sys, time; from memsyncd.lock import FolderLocks, Holder\n"
            "os.unlink(sys.argv[1])\n"
            "locks = FolderLocks(sys.argv[1:], Holder(os.getpid(), '0', '/nowhere/m.sock'))\n"
            "print(flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", hold, str(lock)],
            env=envs["bare"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"\n"
            assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()


def list_revisions(memory: Memsyncd) -> list[RevisionInfo]:
    revisions: list[RevisionInfo] = []
    while part := memory.history(
        limit=200, before=revisions[-1]["revision"] if revisions else None
    ):
        revisions += part
    return revisions


# --- starts at random moments ---------------------------------------------------------------------


class Starts:
    """Starts daemons in several environments, kills some, and counts what it sees.

    A thread looks all the time how many of them have databases open.
    """

    def __init__(self, envs: dict[str, dict[str, str]], seed: int) -> None:
        self._envs = envs
        self._random = random.Random(seed)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.counts = {"starts": 0, "kills": 0, "refused": 0, "answers": 0, "looks": 0}
        self.most_at_once = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        for process in self._processes:
            process.kill()
            process.wait()

    def _look(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            pids = [process.pid for process in tuple(self._processes)]
            self.most_at_once = max(self.most_at_once, sum(map(has_databases, pids)))
            self.counts["looks"] += 1

    def race(self) -> int:
        """Start two daemons in two environments and, at some moment, kill the daemon that ran, or
        one of the two; return the pid of the daemon that is left.
        """
        names = self._random.sample(sorted(self._envs), 2)
        actions: list[Callable[[], None]] = [lambda name=name: self._start(name) for name in names]
        if self._random.random() < 0.6:
            actions.append(self._kill)
        for action in self._random.sample(actions, len(actions)):
            time.sleep(self._random.random() * RACE_S)
            action()
        wait_until(lambda: len(self._settle()) <= 1, "two daemons run", limit_s=WAIT_S)
        while not self._settle():  # the one that had refused the others was killed
            self._start(self._random.choice(sorted(self._envs)))
            wait_until(self._is_settled, "no daemon answers", limit_s=WAIT_S)
        [left] = self._settle()
        wait_until(self._is_settled, "the daemon does not answer", limit_s=WAIT_S)
        return left.pid

    def ask(self, pid: int, word: str, root: Path) -> None:
        """Write in one environment, and find it in every one."""
        with Memsyncd(root, env=self._envs[self._random.choice(sorted(self._envs))]) as memory:
            memory.add(f"The {word} is here.", summary=word)
        for env in self._envs.values():
            with connect(env=env, timeout_s=WAIT_S) as client:
                assert client.call("ping")["pid"] == pid
                answer = client.call("search", query=word, workspace=str(root), wait="disk")
                assert len(answer["hits"]) == 1
                self.counts["answers"] += 1

    def _start(self, name: str) -> None:
        self.counts["starts"] += 1
        self._processes.append(
            subprocess.Popen(
                [*PROGRAM, "run"],
                env=self._envs[name],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    def _kill(self) -> None:
        running = [process for process in self._processes if process.poll() is None]
        if running:
            self.counts["kills"] += 1
            chosen = self._random.choice(running)
            chosen.kill()
            chosen.wait()
            self._processes.remove(chosen)

    def _settle(self) -> list[subprocess.Popen[bytes]]:
        """Return the daemons that run. A daemon that has ended was refused."""
        for process in tuple(self._processes):
            if process.poll() is not None:
                assert process.returncode == REFUSED
                self.counts["refused"] += 1
                self._processes.remove(process)
        return list(self._processes)

    def _is_settled(self) -> bool:
        left = self._settle()
        return not left or all(find_pid(env) == left[0].pid for env in self._envs.values())


@needs_proc
@pytest.mark.parametrize(
    "n_races",
    [
        4,
        pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_daemons_that_start_at_random_moments_in_two_environments_never_share_a_state(
    envs: dict[str, dict[str, str]], root: Path, n_races: int
) -> None:
    with Starts(envs, seed=n_races) as starts:
        for number in range(n_races):
            starts.ask(starts.race(), f"tree{number}x", root)
        counts, most_at_once = starts.counts, starts.most_at_once
        with Memsyncd(root, env=envs["bare"]) as memory:
            revisions = list_revisions(memory)
        examined = json.loads(call(envs["bare"], "doctor", "--verify", "--json").stdout)
    print(json.dumps(counts))
    assert most_at_once == 1
    assert counts["answers"] == n_races * len(envs)
    assert [revision["client"] for revision in revisions].count("python") == n_races
    external = {row["path"] for row in revisions if row["command"] == "external"}
    assert external <= {"MEMORY.md"}
    levels = {finding["level"] for finding in examined["findings"]}
    assert levels <= {"ok", "info"}


@needs_proc
def test_agents_and_hooks_that_all_begin_at_once_share_the_daemon_that_one_of_them_starts(
    envs: dict[str, dict[str, str]], root: Path
) -> None:
    assert call(envs["bare"], "start").returncode == 0
    assert call(envs["bare"], "search", "larch", "-w", str(root), "--wait").returncode == 0
    assert call(envs["bare"], "stop").returncode == 0
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    given = {"mcp": json.dumps(hello) + "\n", "hook session-start": json.dumps({"cwd": str(root)})}
    answers: list[tuple[str, str]] = []

    def ask(env: dict[str, str], words: str) -> None:
        more = ("--timeout-ms", str(int(WAIT_S * 1000))) if words.startswith("hook") else ()
        answers.append((words, call(env, *words.split(), *more, text=given[words]).stdout))

    threads = [
        threading.Thread(target=ask, args=(env, words)) for env in envs.values() for words in given
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(threads)
    for words, answer in answers:
        assert ("A tree" if words.startswith("hook") else "serverInfo") in answer
    pids = {find_pid(env) for env in envs.values()}
    assert len(pids) == 1
    assert 0 not in pids


# --- another version ------------------------------------------------------------------------------

OLDER = "import memsyncd, sys; memsyncd.__version__ = '0.0.9'; from memsyncd.cli.main import main; main(['run'])"


@pytest.fixture
def older(envs: dict[str, dict[str, str]], root: Path) -> Iterator[dict[str, str]]:
    """The environment of a daemon like this one, but of another version."""
    assert root
    env = envs["runtime"]
    process = subprocess.Popen(
        [sys.executable, "-c", OLDER], env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: find_pid(env) == process.pid, "it did not start")
    yield env
    process.terminate()
    assert process.wait(WAIT_S) == 0


VERSIONS = f"the daemon is version 0.0.9, this program {memsyncd.__version__}"


def test_what_a_daemon_of_another_version_does_not_know_is_said_to_be_that(
    older: dict[str, str], root: Path
) -> None:
    with connect(env=older, timeout_s=WAIT_S) as client:
        assert client.call("search", query="larch", workspace=str(root), wait="disk")["hits"]
        requests: list[tuple[str, dict[str, Any]]] = [
            ("no.such", {}),
            ("search", {"query": "larch", "colour": "red"}),
            ("search", {"query": "larch", "wait": "never"}),
        ]
        for method, params in requests:
            with pytest.raises(OtherVersion) as caught:
                client.call(method, **params)
            assert VERSIONS in caught.value.message
            assert "`memsyncd restart`" in caught.value.hint
        answer = client.call("status")
        with pytest.raises(OtherVersion):
            answer["what is new"]
        with pytest.raises(NoteNotFound):  # both understand this method
            client.call("get", path="none.md", workspace=str(root))


def test_commands_agents_and_checks_name_another_version(older: dict[str, str]) -> None:
    assert VERSIONS in call(older, "status").stderr
    assert VERSIONS in call(older, "start").stderr
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    said = call(older, "mcp", text=json.dumps(hello) + "\n")
    assert VERSIONS in said.stderr
    assert "serverInfo" in said.stdout
    connected = call(older, "integrate", "gemini", "--yes")
    assert connected.returncode == 1, connected.stderr
    assert f"this is {memsyncd.__version__}: memsyncd restart" in connected.stdout
    assert VERSIONS in call(older, "integrate", "gemini", "--check").stderr
    examined = json.loads(call(older, "doctor", "--json").stdout)
    levels = [row["level"] for row in examined["findings"] if row["check"] == "version"]
    assert levels == ["warning"]


def test_an_answer_of_another_form_is_no_bug_but_another_version(own: Home) -> None:
    pong = {"pid": os.getpid(), "version": "0.0.9", "protocol": memsyncd.PROTOCOL}
    hit = {"path": "a.md"}  # most of its fields are not there
    answers: Answers = {
        "ping": pong,
        "search": {"hits": [hit], "workspaces": [], "freshness": {}, "relaxed": False},
        "context": {},
        "note.add": {},
        "workspace.list": {},
    }
    with stand_in(own, answers):
        for words in (["search", "x"], ["context", "x"], ["remember", "x"], ["list"]):
            done = call(own.env, *words)
            assert VERSIONS in done.stderr, (words, done.stderr)
            assert "`memsyncd restart`" in done.stderr
            assert "bug" not in done.stderr
            assert done.returncode == REFUSED
