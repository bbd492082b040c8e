"""What the doctor says of the service: each state made under a real manager, and ended by what is advised."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Any

from tests.service.conftest import wait_until

if TYPE_CHECKING:
    from tests.service.conftest import Manager


def examine(user: Manager, **env: str) -> list[dict[str, Any]]:
    """What is found of the service."""
    findings = json.loads(user.memsyncd("doctor", "--json", **env).stdout)["findings"]
    return [finding for finding in findings if finding["check"] == "service"]


def is_well(user: Manager) -> bool:
    return [finding["level"] for finding in examine(user)] == ["ok"] and user.memsyncd("doctor").returncode == 0


def follow(user: Manager, finding: dict[str, Any]) -> None:
    """Do what is advised: the last command that the remedy names."""
    command = re.findall(r"memsyncd (?:service )?(?:install|restart)", finding["remedy"])[-1]
    done = user.memsyncd(*command.split()[1:])
    assert done.returncode == 0, done.stderr


def test_one_that_runs_is_well(installed: Manager) -> None:
    assert is_well(installed)
    assert installed.memsyncd("service", "install", "--on-demand").returncode == 0
    assert installed.do("systemctl", "--user", "stop", "memsyncd.service").returncode == 0
    # What it said last, that it stops, is not what it says.
    assert "it says" not in installed.memsyncd("service", "status").stdout
    assert is_well(installed)


def test_none_that_is_installed_is_worth_knowing(user: Manager) -> None:
    assert user.memsyncd("start").returncode == 0
    [finding] = examine(user)
    assert finding["level"] == "info"
    follow(user, finding)
    assert is_well(user)


def test_one_that_was_stopped_is_found(installed: Manager) -> None:
    assert installed.memsyncd("stop").returncode == 0
    [finding] = examine(installed)
    assert (finding["level"], "does not run" in finding["what"]) == ("error", True)
    follow(installed, finding)
    assert is_well(installed)


def test_one_that_failed_is_found_with_where_its_reason_stands(installed: Manager) -> None:
    config = installed.folder / ".config" / "memsyncd" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[sync]\ndebouce_ms = 5\n")
    assert installed.memsyncd("service", "restart").returncode == 70
    done = installed.memsyncd("doctor", "--json")
    findings = {finding["check"]: finding for finding in json.loads(done.stdout)["findings"] if finding["level"] == "error"}
    assert done.returncode == 3
    assert "failed" in findings["service"]["what"]
    assert "debouce_ms" in findings["config"]["what"]
    assert "debouce_ms" in installed.memsyncd("service", "logs").stdout
    config.unlink()
    follow(installed, findings["service"])
    assert is_well(installed)


def test_one_that_does_not_start_by_itself_is_found(installed: Manager) -> None:
    assert installed.do("systemctl", "--user", "disable", "memsyncd").returncode == 0
    [finding] = examine(installed)
    assert (finding["level"], "does not start by itself" in finding["what"]) == ("warning", True)
    follow(installed, finding)
    assert is_well(installed)


def test_a_daemon_beside_it_is_found(user: Manager) -> None:
    assert user.memsyncd("start").returncode == 0
    assert user.memsyncd("service", "install", "--no-start").returncode == 0
    [finding] = examine(user)
    assert (finding["level"], "is not the service's" in finding["what"]) == ("warning", True)
    follow(user, finding)
    assert is_well(user)


def test_another_environment_is_found(installed: Manager) -> None:
    [finding] = examine(installed, MEMSYNCD_LOG_LEVEL="debug")
    assert (finding["level"], "not those of this program and environment" in finding["what"]) == ("warning", True)
    assert installed.memsyncd("service", "install", MEMSYNCD_LOG_LEVEL="debug").returncode == 0
    assert [each["level"] for each in examine(installed, MEMSYNCD_LOG_LEVEL="debug")] == ["ok"]


def test_one_that_crashes_again_and_again_is_found_and_mended(installed: Manager) -> None:
    installed.drop_in("[Unit]\nStartLimitIntervalSec=300\nStartLimitBurst=2\n[Service]\nRestartSec=100ms\n")
    installed.do("systemctl", "--user", "daemon-reload")
    for _ in range(4):
        if installed.show("ActiveState") == "failed":
            break
        pid = installed.kill(signal.SIGKILL)
        wait_until(
            lambda pid=pid: installed.show("ActiveState") == "failed" or installed.show("MainPID") not in ("0", str(pid)),
            installed.log.read_text,
        )
    finding = next(each for each in examine(installed) if each["level"] == "error")
    assert "failed" in finding["what"]
    follow(installed, finding)
    wait_until(lambda: installed.memsyncd("doctor").returncode == 0, installed.log.read_text)


def test_one_that_fails_for_its_first_client_is_found_and_mended(user: Manager) -> None:
    assert user.memsyncd("service", "install", "--on-demand").returncode == 0
    config = user.folder / ".config" / "memsyncd" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[sync]\ndebouce_ms = 5\n")
    assert user.memsyncd("status").returncode == 3
    wait_until(lambda: user.show("ActiveState") == "failed", user.log.read_text)
    finding = next(each for each in examine(user) if each["level"] == "error")
    assert "failed" in finding["what"]
    told = user.memsyncd("service", "status")
    assert (told.returncode, "memsyncd config check" in told.stdout) == (3, True)
    assert json.loads(user.memsyncd("service", "status", "--json").stdout)["is_current"] is None
    config.unlink()
    follow(user, finding)
    assert user.show("ActiveState", "memsyncd.socket") == "active"
    wait_until(lambda: is_well(user), user.log.read_text)


def test_a_reload_that_is_refused_leaves_it_running_and_is_found(installed: Manager) -> None:
    pid = installed.show("MainPID")
    config = installed.folder / ".config" / "memsyncd" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[sync]\ndebouce_ms = 5\n")
    assert installed.do("systemctl", "--user", "reload", "memsyncd").returncode == 0
    wait_until(lambda: "config_refused" in installed.memsyncd("service", "logs").stdout, installed.log.read_text)
    wait_until(lambda: installed.show("ActiveState") == "active", installed.log.read_text)
    assert installed.show("MainPID") == pid
    report = installed.memsyncd("doctor", "--json")
    assert report.returncode == 1
    assert {finding["check"] for finding in json.loads(report.stdout)["findings"] if finding["level"] == "error"} == {"config"}
    config.unlink()
    assert installed.do("systemctl", "--user", "reload", "memsyncd").returncode == 0
    wait_until(lambda: is_well(installed), installed.log.read_text)
