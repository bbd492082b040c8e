"""The service as systemd runs it: installed, ready, killed, wedged, reloaded, activated, stopped, removed."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.service.conftest import Manager

STOP_S = 5.0
WAIT_S = 30.0
FAST_WATCHDOG = "[Service]\nWatchdogSec=3\nRestartSec=200ms\n"


def wait_until(user: Manager, is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s, user.log.read_text()[-3000:]
        time.sleep(0.05)


def is_found(user: Manager, word: str) -> bool:
    done = user.memsyncd("search", word, "--all", "--wait", "--json")
    return done.returncode == 0 and bool(json.loads(done.stdout)["hits"])


def find_left(user: Manager) -> list[str]:
    """What stands in the folder of units, links that enable one included."""
    return sorted(str(path.relative_to(user.units)) for path in user.units.rglob("*")) if user.units.exists() else []


def test_what_was_installed_runs_answers_and_says_how_it_is(user: Manager) -> None:
    done = user.memsyncd("service", "install")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"wrote {user.units}/memsyncd.service"
    assert "memsyncd runs as a service (pid " in done.stderr
    assert user.show("ActiveState") == "active"
    assert user.memsyncd("status").returncode == 0
    assert user.show("StatusText") == "0 workspaces, 0 notes"
    assert find_left(user) == ["default.target.wants", "default.target.wants/memsyncd.service", "memsyncd.service"]
    assert stat.S_IMODE((user.units / "memsyncd.service").stat().st_mode) == 0o600
    status = json.loads(user.memsyncd("service", "status", "--json").stdout)
    assert status["pid"] == int(user.show("MainPID"))
    assert (status["state"], status["enabled"], status["is_current"], status["installed"]) == ("active", True, True, True)


def test_installing_again_changes_nothing(installed: Manager) -> None:
    pid = installed.show("MainPID")
    done = installed.memsyncd("service", "install")
    assert done.returncode == 0
    assert done.stdout.startswith("kept ")
    assert installed.show("MainPID") == pid


def test_installing_with_another_environment_restarts_it_with_that(installed: Manager) -> None:
    pid = installed.show("MainPID")
    assert installed.memsyncd("service", "install", MEMSYNCD_LOG_LEVEL="debug").returncode == 0
    assert installed.show("MainPID") != pid
    assert "Environment=MEMSYNCD_LOG_LEVEL=debug" in (installed.units / "memsyncd.service").read_text()
    status = installed.memsyncd("service", "status")
    assert "its files are not those of this program" in status.stdout
    assert status.returncode == 0


def test_without_starting_it_is_installed_and_enabled_only(user: Manager) -> None:
    assert user.memsyncd("service", "install", "--no-start").returncode == 0
    assert user.show("ActiveState") == "inactive"
    assert user.show("UnitFileState") == "enabled"
    assert user.memsyncd("service", "status").returncode == 3
    assert user.memsyncd("service", "restart").returncode == 0
    assert user.memsyncd("service", "status").returncode == 0


def test_printing_writes_nothing(user: Manager) -> None:
    done = user.memsyncd("service", "install", "--print", "--on-demand")
    assert done.returncode == 0
    assert f"# {user.units}/memsyncd.service" in done.stdout
    assert "ListenStream=%t/memsyncd/memsyncd.sock" in done.stdout
    assert find_left(user) == []


def test_the_service_takes_the_place_of_a_daemon_that_runs_by_itself(user: Manager) -> None:
    assert user.memsyncd("start").returncode == 0
    done = user.memsyncd("service", "install")
    assert done.returncode == 0, done.stderr
    assert "the daemon that ran by itself was stopped" in done.stderr
    assert user.show("ActiveState") == "active"


def test_a_restart_takes_the_place_of_what_runs_beside_the_service(user: Manager) -> None:
    assert user.memsyncd("start").returncode == 0
    assert user.memsyncd("service", "install", "--no-start").returncode == 0
    status = user.memsyncd("service", "status")
    assert status.returncode == 3
    assert "a daemon that no service runs answers (pid " in status.stdout
    done = user.memsyncd("service", "restart")
    assert done.returncode == 0, done.stderr
    assert user.memsyncd("service", "status").returncode == 0


def test_start_and_restart_mean_the_service_where_one_is_installed(installed: Manager) -> None:
    pid = installed.show("MainPID")
    done = installed.memsyncd("restart")
    assert "memsyncd runs as a service (pid " in done.stderr
    assert installed.show("MainPID") not in {pid, "0"}
    assert installed.memsyncd("stop").returncode == 0
    wait_until(installed, lambda: installed.show("ActiveState") == "inactive")
    done = installed.memsyncd("start")
    assert "memsyncd runs as a service (pid " in done.stderr
    assert installed.show("ActiveState") == "active"


def test_it_is_active_only_once_it_answers(installed: Manager) -> None:
    for _ in range(3):
        assert installed.do("systemctl", "--user", "restart", "memsyncd").returncode == 0
        assert installed.memsyncd("search", "larch", "-w", "trees").returncode == 0


def test_its_status_tells_of_a_folder_that_is_looked_after_no_more(installed: Manager) -> None:
    wait_until(installed, lambda: installed.show("StatusText").startswith("1 workspace, "))
    assert installed.memsyncd("remove", "trees").returncode == 0
    wait_until(installed, lambda: installed.show("StatusText") == "0 workspaces, 0 notes")


def test_notes_can_be_written_through_it(installed: Manager) -> None:
    done = installed.memsyncd("memory", "create", "/memories/oak.md", "# Oak quercus", "-w", "trees")
    assert done.returncode == 0, done.stderr
    assert (installed.folder / "trees" / ".memories" / "oak.md").read_text().startswith("# Oak")
    assert is_found(installed, "quercus")


def test_after_a_crash_it_is_started_again_and_answers(installed: Manager) -> None:
    installed.drop_in("[Service]\nRestartSec=200ms\n")
    installed.do("systemctl", "--user", "daemon-reload")
    pid = installed.kill(signal.SIGKILL)
    wait_until(installed, lambda: installed.show("ActiveState") == "active" and installed.show("MainPID") not in ("0", str(pid)))
    assert installed.show("NRestarts") == "1"
    assert is_found(installed, "larch")
    assert "restarted 1 time" in installed.memsyncd("service", "status").stdout


def test_one_that_stands_still_is_started_again(installed: Manager) -> None:
    installed.drop_in(FAST_WATCHDOG)
    assert installed.do("systemctl", "--user", "daemon-reload").returncode == 0
    assert installed.memsyncd("service", "restart").returncode == 0
    pid = installed.kill(signal.SIGSTOP)
    wait_until(installed, lambda: installed.show("ActiveState") == "active" and installed.show("MainPID") not in ("0", str(pid)))
    assert installed.show("NRestarts") == "1"
    assert is_found(installed, "larch")


def test_one_whose_writer_hangs_on_a_dead_disk_is_started_again(installed: Manager) -> None:
    installed.drop_in(FAST_WATCHDOG)
    assert installed.do("systemctl", "--user", "daemon-reload").returncode == 0
    (installed.folder / "trees" / ".memories" / "far").mkdir(exist_ok=True)
    assert installed.memsyncd("service", "restart").returncode == 0
    assert is_found(installed, "larch")
    pid = installed.show("MainPID")
    with installed.hang(installed.folder / "trees" / ".memories" / "far"):
        installed.memsyncd("sync", "-w", "trees", "--timeout-ms", "100")
        wait_until(installed, lambda: installed.show("MainPID") not in ("0", pid))
    wait_until(installed, lambda: is_found(installed, "larch"))
    assert int(installed.show("NRestarts")) >= 1
    assert "no progress for 1 s: writer" in installed.log_of_service()


def test_a_reload_goes_by_hangup_and_ends_active(installed: Manager) -> None:
    pid = installed.show("MainPID")
    config = installed.folder / ".config" / "memsyncd" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[search]\nmax_results = 3\n")
    assert installed.do("systemctl", "--user", "reload", "memsyncd").returncode == 0
    wait_until(installed, lambda: "config_reloaded" in installed.log_of_service())
    wait_until(installed, lambda: installed.show("ActiveState") == "active")
    assert installed.show("MainPID") == pid


def test_it_stops_within_five_seconds_with_clients_connected(installed: Manager) -> None:
    command = ["nc", "-U", str(installed.socket_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as client:
        began_s = time.monotonic()
        assert installed.do("systemctl", "--user", "stop", "memsyncd").returncode == 0
        assert time.monotonic() - began_s < STOP_S
        assert client.stdin is not None
        client.stdin.close()
    assert installed.show("Result") == "success"
    assert not installed.socket_path.exists()


def test_the_log_tells_what_the_daemon_and_its_supervisor_said(installed: Manager) -> None:
    shown = installed.memsyncd("service", "logs", "-n", "20").stdout
    assert "workspace_added" in shown
    assert len(shown.splitlines()) <= 20
    assert len(installed.memsyncd("service", "logs", "-n", "1").stdout.splitlines()) <= 1


def test_a_wrong_configuration_is_not_tried_again(user: Manager) -> None:
    assert user.memsyncd("service", "install").returncode == 0
    config = user.folder / ".config" / "memsyncd" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[sync]\ndebouce_ms = 5\n")
    done = user.memsyncd("service", "restart")
    assert done.returncode == 70
    assert "memsyncd service logs" in done.stderr
    assert user.show("ExecMainStatus") == "78"
    assert user.show("ActiveState") == "failed"
    # Nor is it installed with one.
    assert user.memsyncd("service", "install", "--on-demand").returncode == 78


def test_it_starts_when_a_client_connects(user: Manager) -> None:
    done = user.memsyncd("service", "install", "--on-demand")
    assert done.returncode == 0, done.stderr
    assert user.show("ActiveState") == "inactive"
    assert stat.S_IMODE(user.socket_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(user.socket_path.parent.stat().st_mode) == 0o700
    status = user.memsyncd("service", "status")
    assert "it starts when a client connects" in status.stdout
    assert status.returncode == 0
    ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    asked = subprocess.run(
        ["nc", "-NU", str(user.socket_path)], input=ping, capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert json.loads(asked.stdout)["result"]["pid"] == int(user.show("MainPID"))
    wait_until(user, lambda: user.show("ActiveState") == "active")
    assert user.do("systemctl", "--user", "stop", "memsyncd.service").returncode == 0
    assert user.socket_path.is_socket()
    assert user.memsyncd("status").returncode == 0


def test_one_kind_of_start_takes_the_place_of_the_other(installed: Manager) -> None:
    assert installed.memsyncd("service", "install", "--on-demand").returncode == 0
    assert is_found(installed, "larch")
    assert installed.show("ActiveState", "memsyncd.socket") == "active"
    done = installed.memsyncd("service", "install")
    assert done.returncode == 0, done.stderr
    assert find_left(installed) == ["default.target.wants", "default.target.wants/memsyncd.service", "memsyncd.service"]
    assert is_found(installed, "larch")


@pytest.mark.parametrize("option", [[], ["--on-demand"]])
def test_uninstalling_leaves_nothing_of_ours_and_all_of_theirs(user: Manager, option: list[str]) -> None:
    root = user.folder / "trees"
    assert user.memsyncd("service", "install", *option).returncode == 0
    (user.units / "other.service").write_text("[Service]\nExecStart=/bin/true\n")
    done = user.memsyncd("service", "uninstall")
    assert done.returncode == 0
    assert f"removed {user.units}/memsyncd.service" in done.stdout
    assert find_left(user) == ["other.service"]
    assert user.show("LoadState") == "not-found"
    assert not user.socket_path.exists()
    assert "nothing was changed" in user.memsyncd("service", "uninstall").stderr
    assert not root.exists() or root.is_dir()


def test_a_unit_that_somebody_else_wrote_is_left_alone(user: Manager) -> None:
    user.units.mkdir(parents=True)
    own = user.units / "memsyncd.service"
    own.write_text("[Service]\nExecStart=/bin/sleep 1000\n")
    assert user.do("systemctl", "--user", "daemon-reload").returncode == 0
    assert user.do("systemctl", "--user", "start", "memsyncd").returncode == 0
    done = user.memsyncd("service", "install")
    assert done.returncode == 6
    assert "was not written by memsyncd" in done.stderr
    assert user.memsyncd("service", "uninstall").stdout == ""
    assert user.show("ActiveState") == "active"
    assert own.exists()
    user.do("systemctl", "--user", "stop", "memsyncd")
