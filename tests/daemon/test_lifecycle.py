"""How the daemon begins, goes on and ends, seen by those who start it, talk to it and stop it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Client
from memsyncd.errors import MemsyncdError, NoDaemon

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

STOP_S = 5.0
WAIT_S = 10.0


@pytest.fixture
def own(make_home: Callable[[], Home]) -> Home:
    """A home for one test, whose daemon that test starts and ends."""
    return make_home()


@pytest.fixture
def memory(own: Home) -> Path:
    """A folder with a note in it."""
    root = own.make_folder()
    (root / "MEMORY.md").write_text("# Memory\n\nlarch\n")
    return root


def call(home: Home, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "memsyncd", *words],
        env=home.env | env,
        cwd=home.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def is_answering(socket_path: str) -> bool:
    """A socket's file is there a moment before anybody listens."""
    try:
        with Client(socket_path, WAIT_S) as client:
            return bool(client.call("ping"))
    except NoDaemon:
        return False


def wait_for(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.02)


# --- configuration ---


BROKEN = {
    "[sync]\ndebounce = 5\n": (":2: sync.debounce: no such key", "debounce_ms"),
    '[sync]\n\ndebounce_ms = "fast"\n': (":3: sync.debounce_ms:", "whole number"),
    "[sync]\ndebounce_ms = -1\n": (":2: sync.debounce_ms:", ">= 0"),
    "[sync\n": (":1: not TOML", "line"),
    "[sink]\nx = 1\n": (":1: sink: no such section", "sync"),
    '[log]\nlevel = "loud"\n': (":2: log.level:", "warning"),
    "[chunking]\nmax_tokens = 50\n": (":2: chunking.max_tokens: overlap (70) is not less than max_tokens (50)", "mend"),
    '[[workspace]]\npath = "notes"\n': (":2: workspace.0.path:", "absolute"),
    '[[workspace]]\npath = "/var/tmp"\ninclude = ["**/*.md"]\n': (":3: workspace.0.include:", "**/*.md"),
    '[[workspace]]\npath = "/"\n': ("workspace /", "project"),
    '[[workspace]]\npath = "~"\n': ("this folder holds far more than one project", "project"),
    f'[socket]\npath = "/{"x" * 200}"\n': ("201 bytes, 107 are possible", "MEMSYNCD_SOCKET"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_configuration_is_refused_with_its_place_and_a_remedy(own: Home, text: str) -> None:
    own.config.write_text(text)
    done = call(own, "run")
    assert (done.returncode, done.stdout) == (78, "")
    where, remedy = BROKEN[text]
    assert where in done.stderr
    assert remedy in done.stderr
    assert "→" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_variable_is_refused_by_its_name(own: Home) -> None:
    done = call(own, "run", MEMSYNCD_SYNC_DEBOUNCE_MS="soon")
    assert done.returncode == 78
    assert "MEMSYNCD_SYNC_DEBOUNCE_MS" in done.stderr


def test_a_start_in_the_background_that_fails_says_why_and_leaves_with_the_same_status(own: Home) -> None:
    own.config.write_text("[sync]\ndebounce = 5\n")
    done = call(own, "start")
    assert done.returncode == 78
    assert "debounce_ms" in done.stderr


def test_the_socket_may_not_lie_in_a_workspace_given_at_the_start(own: Home, memory: Path) -> None:
    done = call(own, "run", str(memory), MEMSYNCD_SOCKET=str(memory / "s.sock"))
    assert done.returncode == 78
    assert "inside the workspace" in done.stderr
    assert "Traceback" not in done.stderr
    with own.start().client() as client:
        assert client.call("workspace.list")["workspaces"] == []


# --- none, one, two ---


@pytest.mark.parametrize(
    "words",
    [("status",), ("search", "x"), ("list",), ("add", "w1/proj"), ("sync",), ("problems",), ("get", "MEMORY.md"), ("watch",)],
)
def test_without_a_daemon_every_question_ends_with_3_and_says_how_to_start_one(
    own: Home, memory: Path, words: tuple[str, ...]
) -> None:
    done = call(own, *words)
    assert (done.returncode, done.stdout) == (3, "")
    assert "memsyncd start" in done.stderr


def test_a_second_daemon_ends_with_6_and_the_first_goes_on_with_its_socket(own: Home) -> None:
    first = own.start()
    before = os.stat(own.socket_path)
    second = call(own, "run")
    assert second.returncode == 6
    assert str(first.process.pid) in second.stderr
    assert os.path.samestat(before, os.stat(own.socket_path))
    with first.client() as client:
        assert client.call("ping")["pid"] == first.process.pid
    assert first.stop() == 0
    assert not os.path.exists(own.socket_path)


def test_a_daemon_that_crashed_is_followed_by_one_that_takes_its_socket(own: Home, memory: Path) -> None:
    first = own.start()
    with first.client() as client:
        client.call("workspace.add", path=str(memory))
        client.call("search", query="larch", wait="disk")
    first.kill()
    assert os.path.exists(own.socket_path)
    (memory / "MEMORY.md").write_text("maple\n")
    second = own.start()
    with second.client() as client:
        assert client.call("search", query="maple", wait="disk")["hits"]
        assert not client.call("search", query="larch")["hits"]
    assert second.stop() == 0


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_may_enter_whatever_the_umask(own: Home, memory: Path, umask: int) -> None:
    previous = os.umask(umask)
    try:
        daemon = own.start()
    finally:
        os.umask(previous)
    with daemon.client() as client:
        client.call("workspace.add", path=str(memory))
        client.call("search", query="larch", wait="disk")
    made = [path for top in ("run", "state", "cache") for path in (own.folder / top / "memsyncd").rglob("*")]
    made += [own.folder / top / "memsyncd" for top in ("run", "state", "cache")]
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in made if path.is_dir()}
    assert modes == {0o700}
    assert {stat.S_IMODE(path.lstat().st_mode) & 0o077 for path in made} == {0}
    assert stat.S_IMODE(os.lstat(own.socket_path).st_mode) == 0o600
    assert daemon.stop() == 0


@pytest.mark.parametrize("words", [["start"], ["service", "install", "--no-start"]], ids=lambda words: words[0])
def test_nobody_else_may_write_to_what_a_command_makes_for_its_user_whatever_the_umask(own: Home, words: list[str]) -> None:
    env = {name: value for name, value in own.env.items() if not name.startswith(("XDG_", "MEMSYNCD_"))}
    there = {*own.folder.rglob("*")}
    subprocess.run([sys.executable, "-m", "memsyncd", *words], env=env, umask=0, capture_output=True, timeout=30, check=False)
    try:
        made = [path for path in own.folder.rglob("*") if path not in there and not path.is_symlink()]
        assert made
        assert {stat.S_IMODE(path.stat().st_mode) & 0o022 for path in made} == {0}
    finally:
        subprocess.run([sys.executable, "-m", "memsyncd", "stop"], env=env, capture_output=True, timeout=30, check=False)


def test_a_runtime_folder_that_others_may_enter_is_made_private_or_refused(own: Home) -> None:
    folder = Path(own.socket_path).parent
    folder.mkdir()
    folder.chmod(0o777)
    done = subprocess.Popen([sys.executable, "-m", "memsyncd", "run"], env=own.env, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: done.poll() is not None or is_answering(own.socket_path))
        assert done.poll() == 6 or stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        done.terminate()
        done.communicate(timeout=10)


# --- the end ---


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order_and_soon_though_clients_of_all_sorts_are_connected(own: Home, memory: Path, number: int) -> None:
    daemon = own.start()
    clients = [daemon.client() for _ in range(10)]
    clients[0].call("workspace.add", path=str(memory))
    clients[1].call("subscribe")
    with socket.socket(socket.AF_UNIX) as half, socket.socket(socket.AF_UNIX) as deaf:
        half.connect(own.socket_path)
        half.sendall(b'{"jsonrpc":"2.0",')
        deaf.connect(own.socket_path)
        deaf.sendall(b'{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}\n' * 50)
        waiting = request("search", query="x", min_generation=10**6, timeout_ms=60_000)
        clients[2]._socket.sendall(waiting)
        began_s = time.monotonic()
        daemon.process.send_signal(number)
        assert daemon.process.wait(WAIT_S) == 0
        assert time.monotonic() - began_s < STOP_S
    assert "Traceback" not in own.log.read_text()
    assert not os.path.exists(own.socket_path)
    answer = json.loads(clients[2]._socket.recv(65536).splitlines()[0])
    assert answer["error"]["data"]["code"] == "shutting_down"
    for client in clients:
        client.close()


def test_it_ends_soon_in_the_middle_of_a_first_index_and_goes_on_at_the_next_start(own: Home, memory: Path) -> None:
    make_many(memory, 1500)
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(memory))
        wait_for(lambda: workspace_status(client)["pending"] > 0)
        began_s = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - began_s < STOP_S
    assert "Traceback" not in own.log.read_text()
    again = own.start()
    with again.client() as client:
        assert client.call("search", query="last1499", wait="disk", timeout_ms=60_000)["hits"]
        assert workspace_status(client)["files"] == 1501
    assert again.stop() == 0


def test_the_command_line_stops_what_it_started(own: Home, memory: Path) -> None:
    started = call(own, "start", str(memory))
    assert started.returncode == 0, started.stderr
    assert call(own, "search", "--wait", "larch").returncode == 0
    assert call(own, "start").returncode == 0
    stopped = call(own, "stop")
    assert (stopped.returncode, stopped.stdout) == (0, "")
    assert call(own, "status").returncode == 3
    assert call(own, "stop").returncode == 0


def test_it_lives_on_when_nobody_reads_what_it_says(own: Home, memory: Path) -> None:
    reader, writer = os.pipe()
    process = subprocess.Popen([sys.executable, "-m", "memsyncd", "run", str(memory)], env=own.env, stderr=writer, stdout=writer)
    os.close(writer)
    os.close(reader)
    try:
        wait_for(lambda: is_answering(own.socket_path))
        with Client(own.socket_path, WAIT_S) as client:
            for word in ("maple", "hazel"):
                (memory / "MEMORY.md").write_text(f"{word}\n")
                assert client.call("search", query=word, wait="disk")["hits"]
            (memory / "MEMORY.md").unlink()
            client.call("sync")
            assert client.call("ping")["pid"] == process.pid
    finally:
        process.terminate()
        assert process.wait(WAIT_S) == 0


def test_it_starts_without_stdin_stdout_and_stderr(own: Home, memory: Path) -> None:
    command = f'exec "{sys.executable}" -m memsyncd run "{memory}" <&- >&- 2>&-'
    process = subprocess.Popen(["sh", "-c", command], env=own.env)
    try:
        wait_for(lambda: process.poll() is not None or is_answering(own.socket_path))
        assert process.poll() is None
        with Client(own.socket_path, WAIT_S) as client:
            assert client.call("search", query="larch", wait="disk")["hits"]
    finally:
        process.terminate()
        assert process.wait(WAIT_S) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full, which is a full disk")
def test_it_lives_on_when_its_log_cannot_be_written(own: Home, memory: Path) -> None:
    with open("/dev/full", "w") as full:
        process = subprocess.Popen([sys.executable, "-m", "memsyncd", "run", str(memory)], env=own.env, stderr=full, stdout=full)
    try:
        wait_for(lambda: is_answering(own.socket_path))
        with Client(own.socket_path, WAIT_S) as client:
            (memory / "MEMORY.md").write_text("maple\n")
            assert client.call("search", query="maple", wait="disk")["hits"]
    finally:
        process.terminate()
        assert process.wait(WAIT_S) == 0


def test_the_log_holds_neither_notes_nor_questions(own: Home, memory: Path) -> None:
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(memory))
        client.call("search", query="larch whispered", wait="disk")
        with pytest.raises(MemsyncdError):
            client.call("search", query="shouted " * 500)
    assert daemon.stop() == 0
    log = own.log.read_text()
    assert not any(word in log for word in ("larch", "whispered", "shouted"))
    assert all("event" in json.loads(line) for line in log.splitlines())


# --- while it runs ---


def test_a_first_index_of_many_notes_tells_how_far_it_is_and_keeps_nobody_waiting(own: Home, memory: Path) -> None:
    make_many(memory, 1500)
    daemon = own.start()
    seen, slowest_s = [], 0.0
    with daemon.client() as client:
        client.call("workspace.add", path=str(memory))
        while True:
            began_s = time.monotonic()
            status = workspace_status(client)
            slowest_s = max(slowest_s, time.monotonic() - began_s)
            if status["state"] == "ready":
                break
            assert status["state"] == "indexing"
            seen.append(status["pending"])
            time.sleep(0.01)
    assert slowest_s < 0.5  # a guard: what is promised is 50 ms on a machine with nothing else to do
    assert max(seen) > 1000
    assert len(set(seen)) > 5
    assert status["files"] == 1501
    assert daemon.stop() == 0


def test_a_socket_that_somebody_deletes_is_bound_anew_or_the_field_left(own: Home, memory: Path) -> None:
    own.config.write_text("[sync]\nreconcile_s = 1\n")
    daemon = own.start()
    os.unlink(own.socket_path)
    wait_for(lambda: is_answering(own.socket_path))
    with daemon.client() as client:
        assert client.call("ping")["pid"] == daemon.process.pid
    assert daemon.stop() == 0


def put_in_place_of(path: str) -> socket.socket:
    """A socket of somebody else's, listening where the path leads from now on."""
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"{path}.new")
    sock.listen()
    os.rename(f"{path}.new", path)
    return sock


def test_a_socket_that_was_replaced_by_a_dead_one_is_bound_anew(own: Home, memory: Path) -> None:
    own.config.write_text("[sync]\nreconcile_s = 1\n")
    daemon = own.start()
    put_in_place_of(own.socket_path).close()
    wait_for(lambda: is_answering(own.socket_path))
    with daemon.client() as client:
        assert client.call("ping")["pid"] == daemon.process.pid
    assert stat.S_IMODE(os.lstat(own.socket_path).st_mode) == 0o600
    assert "socket_rebound" in own.log.read_text()
    assert daemon.stop() == 0


def test_a_daemon_whose_place_somebody_else_has_taken_says_so_ends_and_leaves_it_alone(own: Home, memory: Path) -> None:
    own.config.write_text("[sync]\nreconcile_s = 1\n")
    daemon = own.start()
    with put_in_place_of(own.socket_path) as other:
        theirs = os.lstat(own.socket_path).st_ino
        wait_for(lambda: daemon.process.poll() is not None)
        assert daemon.process.returncode == 0
        assert "socket_lost" in own.log.read_text()
        assert os.lstat(own.socket_path).st_ino == theirs
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(own.socket_path)
        other.accept()[0].close()


@pytest.fixture
def reloaded(own: Home, memory: Path) -> Iterator[tuple[Home, Daemon, Client, Path]]:
    daemon = own.start()
    client = daemon.client()
    client.call("workspace.add", path=str(memory))
    yield own, daemon, client, memory
    client.close()
    assert daemon.stop() == 0


def test_a_hangup_reloads_the_configuration_and_a_wrong_one_changes_nothing(
    reloaded: tuple[Home, Daemon, Client, Path],
) -> None:
    home, daemon, client, memory = reloaded
    more = home.make_folder()
    (more / "MEMORY.md").write_text("maple\n")

    def reload(text: str) -> None:
        home.config.write_text(text)
        daemon.process.send_signal(signal.SIGHUP)

    reload(f'[[workspace]]\npath = "{more}"\nname = "more"\n')
    wait_for(lambda: len(client.call("workspace.list")["workspaces"]) == 2)
    assert client.call("search", query="maple", workspace="more", wait="disk")["hits"]
    with pytest.raises(MemsyncdError, match="configuration"):
        client.call("workspace.remove", workspace="more")

    reload(f'[[workspace]]\npath = "{more}"\nname = "more"\n[search]\nmax_result = 1\n')
    wait_for(lambda: "config_refused" in home.log.read_text())
    assert "max_results" in home.log.read_text()
    assert len(client.call("workspace.list")["workspaces"]) == 2
    assert client.call("search", query="larch", workspace=str(memory), wait="disk")["hits"]

    reload(f'[[workspace]]\npath = "{home.folder / "run"}"\n')
    wait_for(lambda: "inside the workspace" in home.log.read_text())
    assert len(client.call("workspace.list")["workspaces"]) == 2

    reload("[search]\nmax_results = 1\n")
    wait_for(lambda: len(client.call("workspace.list")["workspaces"]) == 1)
    for number in range(3):
        (memory / f"MEMORY{number}.md").write_text("larch\n")
    (memory / ".memories").mkdir()
    for number in range(3):
        (memory / ".memories" / f"{number}.md").write_text("larch\n")
    assert len(client.call("search", query="larch", wait="disk")["hits"]) == 1


def test_a_changed_configuration_is_taken_up_without_being_told(own: Home, memory: Path) -> None:
    own.config.write_text("[sync]\nreconcile_s = 1\n")
    daemon = own.start()
    own.config.write_text(f'[sync]\nreconcile_s = 1\n[[workspace]]\npath = "{memory}"\n')
    with daemon.client() as client:
        wait_for(lambda: len(client.call("workspace.list")["workspaces"]) == 1)
        assert client.call("search", query="larch", wait="disk")["hits"]
    assert daemon.stop() == 0


def test_switched_off_only_a_sync_that_is_asked_for_changes_the_index(own: Home, memory: Path) -> None:
    own.config.write_text("[sync]\nenabled = false\nreconcile_s = 1\n")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(memory))
        wait_for(lambda: workspace_status(client)["state"] == "ready")
        time.sleep(1.5)
        assert not client.call("search", query="larch")["hits"]
        assert workspace_status(client)["watcher"] == "off"
        assert client.call("sync")["added"] == 1
        assert client.call("search", query="larch")["hits"]
        (memory / "MEMORY.md").write_text("maple\n")
        time.sleep(1.5)
        assert not client.call("search", query="maple")["hits"]
        assert client.call("search", query="maple", wait="disk")["hits"]
    assert daemon.stop() == 0


def test_without_watching_a_timed_look_finds_what_was_saved(own: Home, memory: Path) -> None:
    own.config.write_text("[sync]\nsync_on_change = false\nreconcile_s = 1\n")
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(memory))
        client.call("search", query="at once")  # though the index is not yet open
        wait_for(lambda: bool(client.call("search", query="larch")["hits"]))
        (memory / "MEMORY.md").write_text("maple\n")
        wait_for(lambda: bool(client.call("search", query="maple")["hits"]))
        status = workspace_status(client)
        assert (status["state"], status["watcher"], status["missed_events"]) == ("ready", "off", 0)
    assert daemon.stop() == 0


def workspace_status(client: Client) -> dict[str, Any]:
    return dict(client.call("status")["workspaces"][0])


def request(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 99, "method": method, "params": params}).encode() + b"\n"


def make_many(root: Path, n_notes: int) -> None:
    for number in range(n_notes):
        note = root / ".memories" / f"day{number % 30}" / f"{number}.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text("".join(f"## Part {part}\n\nsome words of part {part}\n\n" for part in range(8)) + f"last{number}\n")
