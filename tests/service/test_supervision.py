"""States of the service and their findings. Each test makes a state under a real manager and follows
the remedy.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.service.conftest import make_trees, wait_until

if TYPE_CHECKING:
    from tests.service.conftest import Manager


def examine(user: Manager, **env: str) -> list[dict[str, Any]]:
    """Return the findings about the service."""
    findings = json.loads(user.memsyncd("doctor", "--json", **env).stdout)["findings"]
    return [finding for finding in findings if finding["check"] == "service"]


def is_well(user: Manager) -> bool:
    """Return whether the doctor has no finding, about the service or otherwise."""
    done = user.memsyncd("doctor", "--json")
    levels = [
        finding["level"]
        for finding in json.loads(done.stdout)["findings"]
        if finding["check"] == "service"
    ]
    return (done.returncode, levels) == (0, ["ok"])


def follow(user: Manager, finding: dict[str, Any]) -> None:
    """Run the last command that the remedy names."""
    command = re.findall(
        r"memsyncd (?:service )?(?:install|restart)(?: --replace)?", finding["remedy"]
    )[-1]
    done = user.memsyncd(*command.split()[1:])
    assert done.returncode == 0, done.stderr


def write_config(user: Manager, text: str) -> Path:
    config = user.folder / ".config" / "memsyncd" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text)
    return config


def find_left(user: Manager) -> list[str]:
    """Return the files in the folder of units, including links that enable a unit."""
    return sorted(str(path.relative_to(user.units)) for path in user.units.rglob("*"))


def test_one_kind_of_start_replaces_the_other_and_both_are_healthy(
    installed: Manager,
) -> None:
    assert installed.memsyncd("service", "install", "--on-demand").returncode == 0
    assert installed.show("ActiveState", "memsyncd.socket") == "active"
    # The last status of the stopped daemon is not reported.
    assert "it says" not in installed.memsyncd("service", "status").stdout
    assert is_well(installed)
    assert installed.show("ActiveState") == "active"
    assert installed.memsyncd("search", "larch", "-w", "trees", "--wait").returncode == 0
    done = installed.memsyncd("service", "install")
    assert done.returncode == 0, done.stderr
    assert find_left(installed) == [
        "default.target.wants",
        "default.target.wants/memsyncd.service",
        "memsyncd.service",
    ]
    assert is_well(installed)


def test_a_daemon_outside_the_service_is_found_and_the_service_replaces_it(
    user: Manager,
) -> None:
    assert user.memsyncd("start").returncode == 0
    [finding] = examine(user)
    assert (finding["level"], "memsyncd service install" in finding["remedy"]) == ("info", True)
    done = user.memsyncd("service", "install")
    assert done.returncode == 0, done.stderr
    assert "stopped the daemon that ran outside the service" in done.stderr
    assert user.show("ActiveState") == "active"
    assert is_well(user)


def test_a_daemon_beside_an_unstarted_service_is_found_and_a_restart_replaces_it(
    user: Manager,
) -> None:
    assert user.memsyncd("start").returncode == 0
    assert user.memsyncd("service", "install", "--no-start").returncode == 0
    assert (user.show("ActiveState"), user.show("UnitFileState")) == ("inactive", "enabled")
    status = user.memsyncd("service", "status")
    assert status.returncode == 3
    assert "a daemon outside the service answers (pid " in status.stdout
    [finding] = examine(user)
    assert (finding["level"], "is not the service's" in finding["what"]) == ("warning", True)
    assert "memsyncd service restart" in finding["remedy"]
    follow(user, finding)
    assert user.memsyncd("service", "status").returncode == 0
    assert is_well(user)


def test_a_stopped_or_disabled_service_is_found(user: Manager) -> None:
    assert user.memsyncd("service", "install").returncode == 0
    assert user.do("systemctl", "--user", "disable", "memsyncd").returncode == 0
    [finding] = examine(user)
    assert (finding["level"], "does not start by itself" in finding["what"]) == ("warning", True)
    follow(user, finding)
    assert is_well(user)
    assert user.memsyncd("stop").returncode == 0
    assert user.memsyncd("service", "status").returncode == 3
    [finding] = examine(user)
    assert (finding["level"], "does not run" in finding["what"]) == ("error", True)
    follow(user, finding)
    assert is_well(user)


def test_a_service_with_an_invalid_configuration_is_tried_once_and_found_with_its_log(
    user: Manager,
) -> None:
    assert user.memsyncd("service", "install").returncode == 0
    config = write_config(user, "[sync]\ndebouce_ms = 5\n")
    done = user.memsyncd("service", "restart")
    assert done.returncode == 70
    assert "memsyncd service logs" in done.stderr
    assert (user.show("ActiveState"), user.show("ExecMainStatus"), user.show("NRestarts")) == (
        "failed",
        "78",
        "0",
    )
    # With an invalid configuration it is not installed either.
    assert user.memsyncd("service", "install", "--on-demand").returncode == 78
    done = user.memsyncd("doctor", "--json")
    findings = {
        finding["check"]: finding
        for finding in json.loads(done.stdout)["findings"]
        if finding["level"] == "error"
    }
    assert done.returncode == 3
    assert "failed" in findings["service"]["what"]
    assert "debouce_ms" in findings["config"]["what"]
    # The journal may get the log late.
    wait_until(lambda: "debouce_ms" in user.memsyncd("service", "logs").stdout, user.log.read_text)
    config.unlink()
    follow(user, findings["service"])
    assert is_well(user)


def test_another_environment_is_found_and_installing_with_it_restarts_the_service(
    installed: Manager,
) -> None:
    pid = installed.show("MainPID")
    [finding] = examine(installed, MEMSYNCD_LOG_LEVEL="debug")
    assert (finding["level"], "do not match this program and environment" in finding["what"]) == (
        "warning",
        True,
    )
    assert "memsyncd service install --replace" in finding["remedy"]
    done = installed.memsyncd("service", "install", MEMSYNCD_LOG_LEVEL="debug")
    assert (done.returncode, installed.show("MainPID")) == (6, pid)
    assert "+Environment=MEMSYNCD_LOG_LEVEL=debug" in done.stdout
    done = installed.memsyncd("service", "install", "--replace", MEMSYNCD_LOG_LEVEL="debug")
    assert done.returncode == 0, done.stderr
    assert installed.show("MainPID") != pid
    assert (
        "Environment=MEMSYNCD_LOG_LEVEL=debug" in (installed.units / "memsyncd.service").read_text()
    )
    assert [each["level"] for each in examine(installed, MEMSYNCD_LOG_LEVEL="debug")] == ["ok"]
    status = installed.memsyncd("service", "status")
    assert (status.returncode, "its files do not match this program" in status.stdout) == (0, True)


def test_a_crashing_service_is_restarted_and_one_that_crashes_repeatedly_is_found_and_repaired(
    user: Manager,
) -> None:
    root = make_trees(user)
    user.drop_in(
        "[Unit]\nStartLimitIntervalSec=600\nStartLimitBurst=2\n[Service]\nRestartSec=100ms\n"
    )
    assert user.memsyncd("service", "install").returncode == 0
    assert user.memsyncd("add", str(root)).returncode == 0
    pid = str(user.kill(signal.SIGKILL))
    wait_until(
        lambda: user.show("ActiveState") == "active" and user.show("MainPID") not in ("0", pid),
        user.log.read_text,
    )
    assert user.show("NRestarts") == "1"
    assert user.memsyncd("search", "larch", "-w", "trees", "--wait").returncode == 0
    assert "restarted 1 time" in user.memsyncd("service", "status").stdout
    user.kill(signal.SIGKILL)
    wait_until(lambda: user.show("ActiveState") == "failed", user.log.read_text)
    finding = next(each for each in examine(user) if each["level"] == "error")
    assert "failed" in finding["what"]
    follow(user, finding)
    wait_until(lambda: user.memsyncd("doctor").returncode == 0, user.log.read_text)


def test_a_service_that_fails_for_its_first_client_is_found_and_repaired(user: Manager) -> None:
    # A waiting client starts it again and again, as often as the limit allows.
    user.drop_in("[Unit]\nStartLimitBurst=2\n")
    assert user.memsyncd("service", "install", "--on-demand").returncode == 0
    config = write_config(user, "[sync]\ndebouce_ms = 5\n")
    assert user.memsyncd("status").returncode == 3
    wait_until(lambda: user.show("ActiveState") == "failed", user.log.read_text)
    finding = next(each for each in examine(user) if each["level"] == "error")
    assert "failed" in finding["what"]
    reported = user.memsyncd("service", "status")
    assert (reported.returncode, "memsyncd config check" in reported.stdout) == (3, True)
    assert json.loads(user.memsyncd("service", "status", "--json").stdout)["is_current"] is None
    config.unlink()
    follow(user, finding)
    assert user.show("ActiveState", "memsyncd.socket") == "active"
    wait_until(lambda: is_well(user), user.log.read_text)


def test_a_reload_uses_hangup_and_a_refused_one_keeps_it_running_and_is_found(
    installed: Manager,
) -> None:
    pid = installed.show("MainPID")
    for text, event in (
        ("[search]\nmax_results = 3\n", "config_reloaded"),
        ("[sync]\ndebouce_ms = 5\n", "config_refused"),
    ):
        config = write_config(installed, text)
        assert installed.do("systemctl", "--user", "reload", "memsyncd").returncode == 0
        wait_until(lambda event=event: event in installed.log_of_service(), installed.log.read_text)
        wait_until(lambda: installed.show("ActiveState") == "active", installed.log.read_text)
        assert installed.show("MainPID") == pid
    report = installed.memsyncd("doctor", "--json")
    assert report.returncode == 1
    assert {
        finding["check"]
        for finding in json.loads(report.stdout)["findings"]
        if finding["level"] == "error"
    } == {"config"}
    config.unlink()
    assert installed.do("systemctl", "--user", "reload", "memsyncd").returncode == 0
    wait_until(lambda: is_well(installed), installed.log.read_text)
