"""Errors without a manager, without systemd, without the journal, without an installed service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.service.conftest import Manager

TOOLS = ("systemctl", "journalctl", "sh")


def make_path(folder: Path, *left_out: str) -> str:
    """Return a PATH with the needed programs of the system, except some."""
    folder.mkdir(exist_ok=True)
    for tool in TOOLS:
        path = shutil.which(tool)
        if tool not in left_out and path:
            (folder / tool).symlink_to(path)
    return str(folder)


def find_left(user: Manager) -> list[str]:
    """Return the files in the folder of units."""
    return (
        sorted(str(path.relative_to(user.units)) for path in user.units.rglob("*"))
        if user.units.exists()
        else []
    )


def test_without_a_manager_the_service_is_installed_with_a_hint(user: Manager) -> None:
    nowhere = {"XDG_RUNTIME_DIR": str(user.folder / "nowhere")}
    done = user.memsyncd("service", "install", **nowhere)
    assert done.returncode == 3, done.stderr
    assert "sudo loginctl enable-linger " in done.stderr
    assert "Traceback" not in done.stderr
    assert find_left(user) == [
        "default.target.wants",
        "default.target.wants/memsyncd.service",
        "memsyncd.service",
    ]
    status = user.memsyncd("service", "status", **nowhere)
    assert status.returncode == 3
    assert "installed, but not running: no systemd manager runs for you" in status.stdout
    reported = json.loads(user.memsyncd("service", "status", "--json", **nowhere).stdout)
    assert (
        reported["installed"],
        reported["enabled"],
        reported["is_current"],
        reported["state"],
    ) == (
        True,
        True,
        True,
        "unknown",
    )
    assert "enable-linger" in reported["absence"]
    assert user.memsyncd("service", "restart", **nowhere).returncode == 3
    gone = user.memsyncd("service", "uninstall", **nowhere)
    assert gone.returncode == 0
    assert "no supervisor could be asked to stop a running daemon: memsyncd stop" in gone.stderr
    assert find_left(user) == []


@pytest.mark.parametrize("folder", ["", "relative"])
def test_a_folder_of_configuration_that_xdg_ignores_does_not_keep_the_service_from_enabling(
    user: Manager, folder: str
) -> None:
    env = {"XDG_RUNTIME_DIR": str(user.folder / "nowhere"), "XDG_CONFIG_HOME": folder}
    done = user.memsyncd("service", "install", **env)
    assert done.returncode == 3, done.stderr
    assert "default.target.wants/memsyncd.service" in find_left(user)
    assert json.loads(user.memsyncd("service", "status", "--json", **env).stdout)["enabled"]
    assert user.memsyncd("service", "uninstall", **env).returncode == 0
    assert find_left(user) == []


def test_without_systemd_as_init_the_alternative_is_named(user: Manager) -> None:
    script = (
        f"mount -t tmpfs none /run/systemd && exec {sys.executable} -m memsyncd service install"
    )
    done = user.do(
        "unshare", "--mount", "sh", "-c", script, XDG_RUNTIME_DIR=str(user.folder / "nowhere")
    )
    assert done.returncode == 3, done.stderr
    assert "as in a container; use instead: memsyncd start" in done.stderr
    assert "loginctl" not in done.stderr


def test_without_systemd_daemons_start_in_the_background(tmp_path: Path) -> None:
    env = {
        "PATH": make_path(tmp_path / "bin", "systemctl"),
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
    }
    env["PYTHONPATH"] = os.pathsep.join(
        filter(None, (os.getcwd(), os.environ.get("PYTHONPATH", "")))
    )

    def memsyncd(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "memsyncd", *words]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    try:
        for command in ("start", "restart"):
            done = memsyncd(command)
            assert done.returncode == 0, done.stderr
            assert "runs in the background" in done.stderr
        assert memsyncd("doctor").returncode == 0
        for action in ("install", "status", "logs", "restart", "uninstall"):
            done = memsyncd("service", action)
            assert done.returncode == 2
            assert "this system has no systemd" in done.stderr
            assert "use `memsyncd start`" in done.stderr
    finally:
        assert memsyncd("stop").returncode == 0


def test_a_log_that_cannot_be_shown_is_reported_with_the_command_that_shows_it(
    user: Manager,
) -> None:
    assert user.memsyncd("service", "install", "--no-start").returncode == 0
    path = make_path(user.folder / "bin", "journalctl")
    done = user.do("env", f"PATH={path}", sys.executable, "-m", "memsyncd", "service", "logs")
    shutil.rmtree(path)
    assert done.returncode == 2
    assert "journalctl is not installed" in done.stderr
    assert "systemctl --user status memsyncd.service" in done.stderr


def test_a_closed_pipe_ends_the_log_output(user: Manager) -> None:
    log = user.folder / ".local/state/memsyncd/daemon.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line\n" * 100_000)
    logs = f"{sys.executable} -m memsyncd service logs -n 100000"
    script = f"{logs} | true; echo ${{PIPESTATUS[0]}}"
    done = user.do("bash", "-c", script)
    assert done.stdout.splitlines()[-1] == "141", done.stdout + done.stderr


def test_without_an_installation_the_log_of_a_background_daemon_is_shown(user: Manager) -> None:
    log = user.folder / ".local/state/memsyncd/daemon.log"
    log.parent.mkdir(parents=True)
    log.write_text("first\nsecond\nthird\n")
    done = user.memsyncd("service", "logs", "-n", "2")
    assert (done.returncode, done.stdout) == (0, "second\nthird\n")
    assert f"no service is installed; a background daemon writes its log to {log}" in done.stderr


def test_without_an_installation_every_command_reports_that(user: Manager) -> None:
    for action, status, message in (
        ("status", 3, "memsyncd service install"),
        ("restart", 3, "memsyncd service install"),
        ("logs", 1, "daemon.log"),
        ("uninstall", 0, "nothing was changed"),
    ):
        done = user.memsyncd("service", action)
        assert done.returncode == status
        assert message in done.stdout + done.stderr
    assert find_left(user) == []
