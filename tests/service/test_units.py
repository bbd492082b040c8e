"""The content of the units: linted by systemd itself, with the lines that must not be lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.cli.service_files import (
    MARK,
    Program,
    find_program,
    find_socket_path,
    is_ours,
    remove_own,
    render_difference,
    write_service_file,
)
from memsyncd.cli.service_units import render_service, render_socket
from memsyncd.errors import AlreadyRunning, BadConfig

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "memsyncd" / "REFERENCE.md").read_text(encoding="utf-8")
PROGRAM = Program((sys.executable, "-P", "-m", "memsyncd", "run"), {})


def read_settings(unit: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", unit, flags=re.MULTILINE))


def analyze(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "memsyncd.service").write_text(render_service(PROGRAM))
    (tmp_path / "memsyncd.socket").write_text(
        render_socket("/run/user/1000/memsyncd/memsyncd.sock", "/run/user/1000")
    )
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    command = ["systemd-analyze", "--user", "--no-pager", *words]
    return subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def measure_exposure(tmp_path: Path, unit: str) -> float:
    (tmp_path / "measured.service").write_text(unit)
    done = analyze(tmp_path, "security", "--offline=true", "./measured.service")
    level = re.search(r"Overall exposure level .*: (\d\.\d) ", done.stdout)
    assert level is not None, done.stdout[-400:] + done.stderr
    return float(level[1])


@pytest.mark.needs("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    done = analyze(tmp_path, "verify", "./memsyncd.service", "./memsyncd.socket")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.needs("systemd-analyze")
def test_the_exposure_that_the_reference_states_is_not_exceeded(tmp_path: Path) -> None:
    reported = re.search(
        r"scores (\d\.\d) .* without settings\s+scores\s+(\d\.\d).*told so, the score is\s+(\d\.\d)",
        REFERENCE,
        re.DOTALL,
    )
    assert reported is not None
    ours, bare, unprivileged = map(float, reported.groups())
    unit = render_service(PROGRAM)
    command = re.search(r"^ExecStart=.*$", unit, re.MULTILINE)
    assert command is not None
    assert measure_exposure(tmp_path, unit) <= ours
    assert measure_exposure(tmp_path, f"[Service]\n{command[0]}\n") >= bare
    assert (
        measure_exposure(
            tmp_path, unit.replace("[Service]", "[Service]\nUser=me\nCapabilityBoundingSet=")
        )
        <= unprivileged
    )


def test_the_unit_waits_for_readiness_and_restarts_after_failures_that_a_restart_can_repair() -> (
    None
):
    unit = read_settings(render_service(PROGRAM))
    assert unit["Type"] == "notify"
    assert unit["Restart"] == "on-failure"
    assert float(unit["WatchdogSec"]) >= 60
    assert {AlreadyRunning.exit_status, BadConfig.exit_status} == set(
        map(int, unit["RestartPreventExitStatus"].split())
    )
    assert "HUP" in unit["ExecReload"]


def test_the_unit_leaves_notes_writable_at_any_path_and_state_in_the_xdg_folders() -> None:
    unit = read_settings(render_service(PROGRAM))
    assert not unit.keys() & {
        "ProtectHome",
        "ProtectSystem",
        "PrivateTmp",
        "ReadOnlyPaths",
        "StateDirectory",
        "RuntimeDirectory",
    }


def test_the_socket_is_for_its_user_alone() -> None:
    unit = read_settings(render_socket("/run/user/7/memsyncd/memsyncd.sock", "/run/user/7"))
    assert (unit["SocketMode"], unit["DirectoryMode"]) == ("0600", "0700")
    assert unit["ListenStream"] == "%t/memsyncd/memsyncd.sock"
    assert (
        read_settings(render_socket("/srv/50%/m.sock", "/run/user/7"))["ListenStream"]
        == "/srv/50%%/m.sock"
    )


@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1))
def test_no_path_ends_its_line(text: str) -> None:
    plain, unusual = (
        render_service(Program(("x",), {})),
        render_service(Program((text,), {"MEMSYNCD_CONFIG": text})),
    )
    assert len(unusual.split("\n")) == len(plain.split("\n")) + 1


def test_the_program_is_this_one_wherever_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "memsyncd").mkdir()
    (tmp_path / "memsyncd" / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    words, env = find_program(os.environ)
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [*words[:-1], "--version"],
        cwd=tmp_path,
        env=bare | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("memsyncd "), done.stderr


def test_variables_that_configure_the_daemon_are_passed_on() -> None:
    wanted = {
        "XDG_STATE_HOME": "/s",
        "MEMSYNCD_SYNC_DEBOUNCE_MS": "50",
        "MEMSYNCD_CONFIG": "/c.toml",
    }
    left = {
        "MEMSYNCD_TRACEBACK": "1",
        "XDG_CACHE_HOME": "relative",
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    env = find_program(wanted | left).env
    env.pop("PYTHONPATH", None)
    assert env == wanted


def test_the_socket_is_where_the_service_will_listen(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert (
        find_socket_path(Program((), {}), home, "/run/user/7")
        == "/run/user/7/memsyncd/memsyncd.sock"
    )
    named = Program((), {"MEMSYNCD_SOCKET": "/srv/m.sock"})
    assert find_socket_path(named, home, "/run/user/7") == "/srv/m.sock"
    config = tmp_path / "c.toml"
    config.write_text("[socket]\npath = '/srv/configured.sock'\n")
    configured = Program((), {"MEMSYNCD_CONFIG": str(config)})
    assert find_socket_path(configured, home, "/run/user/7") == "/srv/configured.sock"
    config.write_text("[socket]\npth = '/srv/configured.sock'\n")
    with pytest.raises(BadConfig):
        find_socket_path(configured, home, "/run/user/7")


def test_a_file_is_described_before_it_is_replaced_and_only_one_with_our_mark_is_removed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "units" / "memsyncd.service"
    text = f"# {MARK}\n1\n"
    assert render_difference(str(path), text) == ""
    assert write_service_file(str(path), text)
    assert not write_service_file(str(path), text)
    assert is_ours(str(path))
    assert [file.name for file in path.parent.iterdir()] == ["memsyncd.service"]
    assert render_difference(str(path), text) == ""
    path.write_text("theirs\n")
    difference = render_difference(str(path), text).splitlines()
    assert difference[-3:] == ["-theirs", f"+# {MARK}", "+1"]
    assert not remove_own(str(path))
    assert write_service_file(str(path), text)
    assert remove_own(str(path))


def test_a_link_is_no_file_of_ours_whatever_its_target(tmp_path: Path) -> None:
    path, target = tmp_path / "memsyncd.service", tmp_path / "target"
    target.write_text(f"# {MARK}\n")
    path.symlink_to(target)
    assert "-# Written by" in render_difference(str(path), "other\n")
    assert not remove_own(str(path))
    assert path.is_symlink()
    assert write_service_file(str(path), "other\n")
    assert target.read_text() == f"# {MARK}\n"
