"""The service as systemd runs it: installed, ready, hanging, activated, removed."""

from __future__ import annotations

import json
import signal
import stat
import sys
from typing import TYPE_CHECKING

from memsyncd.client import Client
from tests.service.conftest import WAIT_S, make_trees, wait_until

if TYPE_CHECKING:
    from tests.service.conftest import Manager


def is_found(user: Manager, word: str) -> bool:
    done = user.memsyncd("search", word, "--all", "--wait", "--json")
    return done.returncode == 0 and bool(json.loads(done.stdout)["hits"])


def find_left(user: Manager) -> list[str]:
    """The files in the folder of units, links that enable one included."""
    return (
        sorted(str(path.relative_to(user.units)) for path in user.units.rglob("*"))
        if user.units.exists()
        else []
    )


def uninstall(user: Manager) -> None:
    """Check that none of our files is left, and all others are."""
    (user.units / "other.service").write_text("[Service]\nExecStart=/bin/true\n")
    done = user.memsyncd("service", "uninstall")
    assert done.returncode == 0
    assert f"removed {user.units}/memsyncd.service" in done.stdout
    assert find_left(user) == ["other.service"]
    assert (user.show("LoadState"), user.show("MainPID")) == ("not-found", "0")
    assert not user.socket_path.exists()
    assert "nothing was changed" in user.memsyncd("service", "uninstall").stderr


ON_A_TERMINAL = """
import os, pty, sys
pid, terminal = pty.fork()
if not pid:
    os.execv(sys.argv[2], sys.argv[2:])
os.write(terminal, sys.argv[1].encode() + b"\\n")
try:
    while data := os.read(terminal, 4096):
        os.write(1, data)
except OSError:
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_integrate_offers_the_service_in_its_question(user: Manager) -> None:
    integrate = ("-m", "memsyncd", "integrate", "gemini")
    settings = user.folder / ".gemini" / "settings.json"

    def answer(word: str) -> str:
        done = user.do(sys.executable, "-c", ON_A_TERMINAL, word, sys.executable, *integrate)
        assert (done.returncode == 0) == settings.exists(), done.stdout
        return done.stdout

    assert "s  memsyncd starts at each login" in answer("n")
    assert find_left(user) == []
    assert "start memsyncd at each login: memsyncd service install" in answer("y")
    assert find_left(user) == []
    settings.unlink()
    assert "memsyncd runs as a service (pid " in answer("ys")
    assert user.show("ActiveState") == "active"
    settings.unlink()
    # Nothing is offered that is there already.
    screen = answer("y")
    assert "[y/N; yr: all of it; d: show the text]" in screen
    assert "service" not in screen
    user.memsyncd("service", "uninstall")
    settings.unlink()
    done = user.memsyncd("integrate", "gemini", "--yes")
    assert "memsyncd service install" in done.stderr
    assert find_left(user) == []
    done = user.memsyncd("integrate", "gemini", "--service")
    assert done.returncode == 0, done.stderr
    assert "nothing to change: connected" in done.stderr
    assert user.show("ActiveState") == "active"
    settings.unlink()
    settings.parent.rmdir()


def test_an_installed_service_runs_reports_its_status_survives_reinstallation_and_uninstalls_completely(
    user: Manager,
) -> None:
    done = user.memsyncd("service", "install")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"wrote {user.units}/memsyncd.service"
    assert "memsyncd runs as a service (pid " in done.stderr
    assert user.show("ActiveState") == "active"
    assert user.memsyncd("status").returncode == 0
    wait_until(lambda: user.show("StatusText") == "0 workspaces, 0 notes", user.log.read_text)
    assert find_left(user) == [
        "default.target.wants",
        "default.target.wants/memsyncd.service",
        "memsyncd.service",
    ]
    assert stat.S_IMODE((user.units / "memsyncd.service").stat().st_mode) == 0o600
    status = json.loads(user.memsyncd("service", "status", "--json").stdout)
    assert status["pid"] == int(user.show("MainPID"))
    assert (status["state"], status["enabled"], status["is_current"], status["installed"]) == (
        "active",
        True,
        True,
        True,
    )
    again = user.memsyncd("service", "install")
    assert again.returncode == 0
    assert again.stdout.startswith("kept ")
    assert int(user.show("MainPID")) == status["pid"]
    uninstall(user)


def test_printing_writes_nothing(user: Manager) -> None:
    done = user.memsyncd("service", "install", "--print", "--on-demand")
    assert done.returncode == 0
    assert f"# {user.units}/memsyncd.service" in done.stdout
    assert "ListenStream=%t/memsyncd/memsyncd.sock" in done.stdout
    assert find_left(user) == []


def test_notes_are_written_through_the_service_and_status_and_log_report_it(
    installed: Manager,
) -> None:
    done = installed.memsyncd(
        "memory", "create", "/memories/oak.md", "# Oak quercus", "-w", "trees"
    )
    assert done.returncode == 0, done.stderr
    assert (installed.folder / "trees" / ".memories" / "oak.md").read_text().startswith("# Oak")
    assert is_found(installed, "quercus")
    wait_until(
        lambda: installed.show("StatusText").startswith("1 workspace, "), installed.log.read_text
    )
    assert installed.memsyncd("remove", "trees").returncode == 0
    wait_until(
        lambda: installed.show("StatusText") == "0 workspaces, 0 notes", installed.log.read_text
    )
    log = installed.memsyncd("service", "logs", "-n", "20").stdout
    assert "workspace_added" in log
    assert len(log.splitlines()) <= 20
    assert len(installed.memsyncd("service", "logs", "-n", "1").stdout.splitlines()) <= 1


def test_the_panel_and_the_port_for_http_are_served_by_the_service(installed: Manager) -> None:
    config = installed.folder / ".config" / "memsyncd" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    for text in ("", '[http]\nlisten = "127.0.0.1:0"\n', '[http]\nlisten = "[::1]:0"\n'):
        config.write_text(text)
        done = installed.memsyncd("service", "restart")
        assert done.returncode == 0, done.stderr
        opened = installed.memsyncd("ui", "--print")
        assert opened.returncode == 0, opened.stderr
        read = f"import urllib.request; print(urllib.request.urlopen('{opened.stdout.strip()}').read())"
        page = installed.do(sys.executable, "-c", read)
        assert "<title>memsyncd" in page.stdout, page.stderr


def test_start_and_restart_use_the_service_which_answers_as_soon_as_it_is_active(
    installed: Manager,
) -> None:
    pid = installed.show("MainPID")
    done = installed.memsyncd("restart")
    assert "memsyncd runs as a service (pid " in done.stderr
    assert installed.show("MainPID") not in {pid, "0"}
    assert installed.memsyncd("stop").returncode == 0
    wait_until(lambda: installed.show("ActiveState") == "inactive", installed.log.read_text)
    done = installed.memsyncd("start")
    assert installed.memsyncd("search", "larch", "-w", "trees").returncode == 0
    assert "memsyncd runs as a service (pid " in done.stderr
    assert installed.show("ActiveState") == "active"


def test_a_hanging_daemon_is_restarted_and_one_with_a_dead_disk_is_not(
    user: Manager,
) -> None:
    root = make_trees(user)
    (root / ".memories" / "far").mkdir()
    user.drop_in("[Service]\nWatchdogSec=3\nRestartSec=200ms\n")
    assert user.memsyncd("service", "install").returncode == 0
    assert user.memsyncd("add", str(root)).returncode == 0
    pid = str(user.kill(signal.SIGSTOP))
    wait_until(
        lambda: user.show("ActiveState") == "active" and user.show("MainPID") not in ("0", pid),
        user.log.read_text,
    )
    assert is_found(user, "larch")
    pid, n_restarts = user.show("MainPID"), int(user.show("NRestarts"))
    assert n_restarts >= 1
    with user.hang(root / ".memories" / "far"):
        user.memsyncd("sync", "-w", "trees", "--timeout-ms", "100")
        # Ten seconds pass until then: three times the watchdog's limit.
        wait_until(lambda: "stalled" in user.memsyncd("status").stdout, user.log.read_text)
        assert user.memsyncd("search", "larch", "-w", "trees").returncode == 0
        assert user.show("MainPID") == pid
    assert int(user.show("NRestarts")) == n_restarts


def test_the_service_starts_when_a_client_connects_and_uninstalls_completely(user: Manager) -> None:
    done = user.memsyncd("service", "install", "--on-demand")
    assert done.returncode == 0, done.stderr
    assert user.show("ActiveState") == "inactive"
    assert stat.S_IMODE(user.socket_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(user.socket_path.parent.stat().st_mode) == 0o700
    status = user.memsyncd("service", "status")
    assert "it starts when a client connects" in status.stdout
    assert status.returncode == 0
    with Client(str(user.socket_path), WAIT_S) as client:
        assert client.call("ping")["pid"] == int(user.show("MainPID"))
    wait_until(lambda: user.show("ActiveState") == "active", user.log.read_text)
    assert user.do("systemctl", "--user", "stop", "memsyncd.service").returncode == 0
    assert user.socket_path.is_socket()
    uninstall(user)


def test_a_unit_of_another_author_is_shown_and_left_unless_asked(user: Manager) -> None:
    user.units.mkdir(parents=True)
    own = user.units / "memsyncd.service"
    text = "[Service]\nExecStart=/bin/sleep 1000\n"
    own.write_text(text)
    assert user.do("systemctl", "--user", "daemon-reload").returncode == 0
    assert user.do("systemctl", "--user", "start", "memsyncd").returncode == 0
    done = user.memsyncd("service", "install")
    assert done.returncode == 6
    assert "-ExecStart=/bin/sleep 1000\n+ExecStart=" in done.stdout.replace("+Type=notify\n", "")
    assert "memsyncd service install --replace" in done.stderr
    assert user.memsyncd("service", "uninstall").stdout == ""
    assert user.show("ActiveState") == "active"
    assert own.read_text() == text
    done = user.memsyncd("service", "install", "--replace")
    assert done.returncode == 0, done.stderr
    assert "-ExecStart=/bin/sleep 1000" in done.stdout
    assert f"wrote {own}" in done.stdout
    assert json.loads(user.memsyncd("status", "--json").stdout)["pid"] == int(user.show("MainPID"))


def test_an_edited_unit_is_left_and_runs_as_it_is(installed: Manager) -> None:
    unit = installed.units / "memsyncd.service"
    edited = unit.read_text().replace("Nice=5", "Nice=7")
    unit.write_text(edited)
    done = installed.memsyncd("service", "install", "--on-demand")
    assert (done.returncode, "-Nice=7\n+Nice=5" in done.stdout) == (6, True), done.stdout
    assert "memsyncd service install --on-demand --replace" in done.stderr
    assert find_left(installed)[-1] == "memsyncd.service"
    assert installed.do("systemctl", "--user", "daemon-reload").returncode == 0
    assert installed.memsyncd("service", "restart").returncode == 0
    assert unit.read_text() == edited
    assert installed.show("Nice") == "7"


def test_a_manager_with_another_home_is_named_and_nothing_is_written(user: Manager) -> None:
    other = user.folder / "other"
    other.mkdir()
    done = user.memsyncd("service", "install", HOME=str(other))
    assert done.returncode == 2
    assert f"reads no units in {other}/.config/systemd/user" in done.stderr
    assert "systemctl --user show-environment" in done.stderr
    assert list(other.iterdir()) == []
    named = user.memsyncd(
        "service", "install", "--no-start", XDG_CONFIG_HOME=str(user.folder / ".config")
    )
    assert named.returncode == 0
    assert user.units.joinpath("memsyncd.service").exists()
    assert user.memsyncd("service", "uninstall").returncode == 0
