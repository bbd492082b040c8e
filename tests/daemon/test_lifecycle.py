"""Start, operation and stop of the daemon, as people and programs see them from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client import Client
from memsyncd.errors import MemsyncdError, NoDaemon, Unsafe
from tests.daemon.conftest import wait_until

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

# A guard: an idle machine takes five seconds at most, whatever clients are connected.
STOP_S = 45.0
WAIT_S = 45.0
N_MANY = 800


@pytest.fixture
def own(make_home: Callable[[], Home]) -> Home:
    """A home for one test, whose daemon that test starts and stops."""
    return make_home()


@pytest.fixture
def memory(own: Home) -> Path:
    """A folder with a note in it."""
    root = own.make_folder()
    (root / "MEMORY.md").write_text("# Memory\n\nlarch\n")
    return root


def is_answering(socket_path: str) -> bool:
    """A socket's file exists a moment before anything listens."""
    try:
        with Client(socket_path, WAIT_S) as client:
            return bool(client.call("ping"))
    except NoDaemon:
        return False


# --- configuration ---


# Other errors of a configuration are refused where it is read: tests/config.
BROKEN = {
    "[sync]\ndebounce = 5\n": (":2: sync.debounce: no such key", "debounce_ms"),
    '[[workspace]]\npath = "/"\n': ("workspace /", "project"),
    f'[socket]\npath = "/{"x" * 200}"\n': ("201 bytes, 107 are possible", "MEMSYNCD_SOCKET"),
}


@pytest.mark.parametrize("text", BROKEN)
def test_an_invalid_configuration_is_refused_with_its_line_and_a_remedy(
    own: Home, text: str
) -> None:
    own.config.write_text(text)
    done = own.run("run")
    assert (done.returncode, done.stdout) == (78, "")
    where, remedy = BROKEN[text]
    assert where in done.stderr
    assert remedy in done.stderr
    assert "→" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_restart_with_an_invalid_configuration_keeps_the_daemon(own: Home) -> None:
    daemon = own.start()
    own.config.write_text("[sync]\ndebounce = 5\n")
    done = own.run("restart")
    assert done.returncode == 78
    assert "debounce_ms" in done.stderr
    with daemon.client() as client:
        assert client.call("ping")["pid"] == daemon.process.pid


def test_the_socket_must_not_be_inside_a_workspace_given_at_the_start(
    own: Home, memory: Path
) -> None:
    done = own.run("run", str(memory), MEMSYNCD_SOCKET=str(memory / "s.sock"))
    assert done.returncode == 78
    assert "inside the workspace" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [*own.folder.rglob("workspaces.json")]


# --- none, one, two ---


def test_a_second_daemon_exits_with_6_and_the_first_keeps_its_socket(
    home: Home, daemon: Daemon
) -> None:
    before = os.stat(home.socket_path)
    second = home.run("run")
    assert second.returncode == 6
    assert str(daemon.process.pid) in second.stderr
    assert os.path.samestat(before, os.stat(home.socket_path))
    with daemon.client() as client:
        assert client.call("ping")["pid"] == daemon.process.pid


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_only_the_owner_can_access_sockets_and_databases_with_any_umask(
    own: Home, memory: Path, umask: int
) -> None:
    previous = os.umask(umask)
    try:
        daemon = own.start()
    finally:
        os.umask(previous)
    with daemon.client() as client:
        client.call("workspace.add", path=str(memory))
        client.call("search", query="larch", wait="disk")
    made = [
        path
        for top in ("run", "state", "cache")
        for path in (own.folder / top / "memsyncd").rglob("*")
    ]
    made += [own.folder / top / "memsyncd" for top in ("run", "state", "cache")]
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in made if path.is_dir()}
    assert modes == {0o700}
    assert {stat.S_IMODE(path.lstat().st_mode) & 0o077 for path in made} == {0}
    assert stat.S_IMODE(os.lstat(own.socket_path).st_mode) == 0o600


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["start"], id="start"),
        pytest.param(
            ["service", "install", "--no-start"], id="service", marks=pytest.mark.needs("systemctl")
        ),
    ],
)
def test_files_that_a_command_creates_are_not_writable_for_others_with_any_umask(
    own: Home, words: list[str]
) -> None:
    env = {
        name: value for name, value in own.env.items() if not name.startswith(("XDG_", "MEMSYNCD_"))
    }
    there = {*own.folder.rglob("*")}
    subprocess.run(
        [sys.executable, "-m", "memsyncd", *words],
        env=env,
        umask=0,
        capture_output=True,
        timeout=30,
        check=False,
    )
    try:
        made = [
            path for path in own.folder.rglob("*") if path not in there and not path.is_symlink()
        ]
        assert made
        assert {stat.S_IMODE(path.stat().st_mode) & 0o022 for path in made} == {0}
    finally:
        subprocess.run(
            [sys.executable, "-m", "memsyncd", "stop"],
            env=env,
            capture_output=True,
            timeout=30,
            check=False,
        )


# --- the end ---


def test_the_daemon_stops_cleanly_and_soon_with_clients_of_all_kinds_connected(
    own: Home, memory: Path
) -> None:
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
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(WAIT_S) == 0
        assert time.monotonic() - began_s < STOP_S
    assert "Traceback" not in own.log.read_text()
    assert not os.path.exists(own.socket_path)
    answer = json.loads(clients[2]._socket.recv(65536).splitlines()[0])
    assert answer["error"]["data"]["code"] == "shutting_down"
    for client in clients:
        client.close()


def test_a_first_index_reports_progress_stops_soon_and_continues_at_the_next_start(
    own: Home, memory: Path
) -> None:
    make_many(memory, N_MANY)
    daemon = own.start()
    seen: set[int] = set()
    with daemon.client() as client:
        client.call("workspace.add", path=str(memory))
        while len(seen) < 5:
            status = workspace_status(client)
            assert status["state"] == "indexing"
            seen.add(status["pending"])
            time.sleep(0.005)
        began_s = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - began_s < STOP_S
    assert max(seen) > N_MANY / 2
    assert "Traceback" not in own.log.read_text()
    with own.start().client() as client:
        assert client.call("search", query=f"last{N_MANY - 1}", wait="disk", timeout_ms=60_000)[
            "hits"
        ]
        status = workspace_status(client)
    assert (status["state"], status["files"]) == ("ready", N_MANY + 1)


def test_the_daemon_keeps_running_when_its_output_has_no_reader(own: Home, memory: Path) -> None:
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "memsyncd", "run", str(memory)],
        env=own.env,
        stderr=writer,
        stdout=writer,
    )
    os.close(writer)
    os.close(reader)
    try:
        wait_until(lambda: is_answering(own.socket_path))
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


def test_the_daemon_starts_without_stdin_stdout_and_stderr(own: Home, memory: Path) -> None:
    command = f'exec "{sys.executable}" -m memsyncd run "{memory}" <&- >&- 2>&-'
    process = subprocess.Popen(["sh", "-c", command], env=own.env)
    try:
        wait_until(lambda: process.poll() is not None or is_answering(own.socket_path))
        assert process.poll() is None
        with Client(own.socket_path, WAIT_S) as client:
            assert client.call("search", query="larch", wait="disk")["hits"]
    finally:
        process.terminate()
        assert process.wait(WAIT_S) == 0


# --- while it runs ---


def put_in_place_of(path: str) -> socket.socket:
    """A socket of another program, listening where the path leads from now on."""
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"{path}.new")
    sock.listen()
    os.rename(f"{path}.new", path)
    return sock


def test_a_deleted_or_stale_socket_is_bound_again_and_that_of_another_daemon_is_left_alone(
    own: Home,
) -> None:
    own.config.write_text("[sync]\nreconcile_s = 0.2\n")
    daemon = own.start()
    for tamper in (
        lambda: os.unlink(own.socket_path),
        lambda: put_in_place_of(own.socket_path).close(),
    ):
        tamper()
        wait_until(lambda: is_answering(own.socket_path))
        with daemon.client() as client:
            assert client.call("ping")["pid"] == daemon.process.pid
        assert stat.S_IMODE(os.lstat(own.socket_path).st_mode) == 0o600
    wait_until(lambda: own.log.read_text().count("socket_rebound") == 2)
    with put_in_place_of(own.socket_path) as other:
        theirs = os.lstat(own.socket_path).st_ino
        assert daemon.process.wait(WAIT_S) == 0
        assert "socket_lost" in own.log.read_text()
        assert os.lstat(own.socket_path).st_ino == theirs
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(own.socket_path)
        other.accept()[0].close()


OBSTACLES: dict[str, Callable[[Path], object]] = {
    "file": lambda path: path.write_text("not ours"),
    "folder": lambda path: (path / "more").mkdir(parents=True),
    "link": lambda path: path.symlink_to("/nowhere/at/all"),
}


def clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path)


@pytest.mark.parametrize("put", OBSTACLES.values(), ids=OBSTACLES)
def test_another_file_at_the_path_of_the_socket_is_reported_until_it_is_removed(
    own: Home, put: Callable[[Path], object]
) -> None:
    own.config.write_text("[sync]\nreconcile_s = 0.2\n")
    daemon, path = own.start(), Path(own.socket_path)
    with daemon.client() as client:
        assert client.call("status")["socket_problem"] is None
        path.unlink()
        put(path)
        wait_until(lambda: client.call("status")["socket_problem"])
        assert "no socket" in client.call("status")["socket_problem"]
        [found] = [
            finding for finding in client.call("doctor")["findings"] if finding["check"] == "socket"
        ]
        assert (found["level"], found["where"]) == ("error", own.socket_path)
        assert "remove what is at the socket" in found["remedy"]
        n_looks = client.call("metrics")["uptime_s"]
        wait_until(lambda: client.call("metrics")["uptime_s"] > n_looks + 1)
        assert os.path.lexists(path)
        assert daemon.process.poll() is None
        assert own.log.read_text().count("socket_blocked") == 1
        clear(path)
        wait_until(lambda: is_answering(own.socket_path))
        wait_until(lambda: client.call("status")["socket_problem"] is None)
    wait_until(lambda: "socket_rebound" in own.log.read_text())
    assert daemon.stop() == 0


@pytest.mark.parametrize("put", OBSTACLES.values(), ids=OBSTACLES)
def test_a_daemon_refuses_to_start_over_a_file_that_is_not_a_socket(
    own: Home, put: Callable[[Path], object]
) -> None:
    path = Path(own.socket_path)
    path.parent.mkdir(mode=0o700)
    put(path)
    command = [sys.executable, "-m", "memsyncd", "run"]
    done = subprocess.run(
        command, env=own.env, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == Unsafe.exit_status
    assert str(path) in done.stderr
    assert "remove it" in done.stderr
    assert os.path.lexists(path)


def test_a_hangup_reloads_the_configuration_and_an_invalid_one_changes_nothing(
    own: Home, memory: Path
) -> None:
    # A named file must exist; this one is made while the daemon runs.
    del own.env["MEMSYNCD_CONFIG"]
    own.config = Path(own.env["XDG_CONFIG_HOME"]) / "memsyncd" / "config.toml"
    own.config.parent.mkdir(parents=True)
    daemon = own.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(memory))
        more = own.make_folder()
        (more / "MEMORY.md").write_text("maple\n")
        assert client.call("status")["config"] == f"{own.config} (none: defaults)"

        def reload(text: str) -> None:
            own.config.write_text(text)
            daemon.process.send_signal(signal.SIGHUP)

        reload(f'[[workspace]]\npath = "{more}"\nname = "more"\n')
        wait_until(lambda: len(client.call("workspace.list")["workspaces"]) == 2)
        assert client.call("status")["config"] == str(own.config)
        assert client.call("search", query="maple", workspace="more", wait="disk")["hits"]
        with pytest.raises(MemsyncdError, match="configuration"):
            client.call("workspace.remove", workspace="more")

        reload(f'[[workspace]]\npath = "{more}"\nname = "more"\n[search]\nmax_result = 1\n')
        wait_until(lambda: "config_refused" in own.log.read_text())
        assert "max_results" in own.log.read_text()
        assert client.call("status")["config"].startswith(f"{own.config} (refused since it changed")
        assert len(client.call("workspace.list")["workspaces"]) == 2
        assert client.call("search", query="larch", workspace=str(memory), wait="disk")["hits"]

        reload(f'[[workspace]]\npath = "{own.folder / "run"}"\n')
        wait_until(lambda: "inside the workspace" in own.log.read_text())
        assert len(client.call("workspace.list")["workspaces"]) == 2

        reload("[search]\nmax_results = 1\n")
        wait_until(lambda: len(client.call("workspace.list")["workspaces"]) == 1)
        assert client.call("status")["config"] == str(own.config)
        for number in range(3):
            (memory / f"MEMORY{number}.md").write_text("larch\n")
        (memory / ".memories").mkdir()
        for number in range(3):
            (memory / ".memories" / f"{number}.md").write_text("larch\n")
        assert len(client.call("search", query="larch", wait="disk")["hits"]) == 1


def test_the_status_names_the_changed_keys_that_wait_for_a_restart(own: Home) -> None:
    daemon = own.start()
    with daemon.client() as client:

        def reload(text: str) -> str:
            own.config.write_text(text)
            n_reloads = own.log.read_text().count("config_reloaded")
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: own.log.read_text().count("config_reloaded") > n_reloads)
            return str(client.call("status")["config"])

        waiting = f"{own.config} (socket.max_clients changed: memsyncd restart)"
        assert reload("[socket]\nmax_clients = 5\n") == waiting
        assert reload("[socket]\nmax_clients = 5\n[search]\nmax_results = 3\n") == waiting
        # The running daemon still has the value that is configured again.
        assert reload("[search]\nmax_results = 3\n") == str(own.config)
        assert own.log.read_text().count("takes effect after a restart") == 1


def test_with_syncing_off_only_a_requested_sync_changes_the_index(own: Home, memory: Path) -> None:
    own.config.write_text("[sync]\nenabled = false\nreconcile_s = 0.2\n")
    with own.start().client() as client:
        client.call("workspace.add", path=str(memory))
        wait_until(lambda: workspace_status(client)["state"] == "ready")
        time.sleep(0.5)
        assert not client.call("search", query="larch")["hits"]
        assert workspace_status(client)["watcher"] == "off"
        assert client.call("sync")["added"] == 1
        assert client.call("search", query="larch")["hits"]
        (memory / "MEMORY.md").write_text("maple\n")
        time.sleep(0.5)
        assert not client.call("search", query="maple")["hits"]
        assert client.call("search", query="maple", wait="disk")["hits"]


def test_a_reconcile_loads_a_changed_configuration_and_without_watching_finds_saves(
    own: Home, memory: Path
) -> None:
    config = "[sync]\nsync_on_change = false\nreconcile_s = 0.2\n"
    own.config.write_text(config)
    with own.start().client() as client:
        own.config.write_text(f'{config}[[workspace]]\npath = "{memory}"\n')
        wait_until(lambda: len(client.call("workspace.list")["workspaces"]) == 1)
        client.call("search", query="at once")  # though the index is not yet open
        wait_until(lambda: bool(client.call("search", query="larch")["hits"]))
        (memory / "MEMORY.md").write_text("maple\n")
        wait_until(lambda: bool(client.call("search", query="maple")["hits"]))
        status = workspace_status(client)
        assert (status["state"], status["watcher"], status["missed_events"]) == ("ready", "off", 0)


def workspace_status(client: Client) -> dict[str, Any]:
    return dict(client.call("status")["workspaces"][0])


def request(method: str, **params: object) -> bytes:
    return (
        json.dumps({"jsonrpc": "2.0", "id": 99, "method": method, "params": params}).encode()
        + b"\n"
    )


def make_many(root: Path, n_notes: int) -> None:
    for number in range(n_notes):
        note = root / ".memories" / f"day{number % 30}" / f"{number}.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(
            "".join(f"## Part {part}\n\nsome words of part {part}\n\n" for part in range(8))
            + f"last{number}\n"
        )
