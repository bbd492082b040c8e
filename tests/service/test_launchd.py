"""The agent as launchd would read it: linted, its shell run for real; `launchctl` itself exists on
macOS only.
"""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memsyncd.cli.service_files import MARK, Program, is_ours
from memsyncd.cli.service_units import LABEL, Launchd, read_print, render_agent
from memsyncd.errors import BadRequest

UNUSUAL = '/opt/it\'s a "place" & <more>/$HOME/bin/python3'
READERS = {
    "plutil": ["plutil", "-convert", "binary1", "-o", "OUT", "IN"],
    "plistutil": ["plistutil", "-f", "bin", "-o", "OUT", "-i", "IN"],
}
RUNNING = """gui/501/org.memsyncd.agent = {
\tactive count = 1
\tpath = /Users/ann/Library/LaunchAgents/org.memsyncd.agent.plist
\ttype = LaunchAgent
\tstate = running

\tprogram = /bin/sh
\tdefault environment = {
\t\tstate = none
\t}
\truns = 3
\tpid = 4711
\timmediate reason = crash
\tlast exit code = 1
}
"""


def make_agent(*words: str, **env: str) -> dict[str, Any]:
    agent: dict[str, Any] = plistlib.loads(
        render_agent(Program(words or (sys.executable, "-c", "0"), env)).encode()
    )
    return agent


def test_the_agent_is_restarted_after_failures_alone_and_its_files_are_private() -> None:
    agent = make_agent()
    assert agent["Label"] == LABEL
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["RunAtLoad"] is True
    assert agent["ThrottleInterval"] >= 10
    assert agent["ExitTimeOut"] >= 10
    assert agent["ProcessType"] == "Background"
    assert agent["Umask"] == 63  # 0o077: property lists know no octal numbers
    assert "EnvironmentVariables" not in agent


def test_environment_and_unusual_paths_are_passed_unchanged() -> None:
    agent = make_agent(UNUSUAL, "run", MEMSYNCD_CONFIG="/a & b/<c>.toml")
    assert agent["EnvironmentVariables"] == {"MEMSYNCD_CONFIG": "/a & b/<c>.toml"}
    reported = subprocess.run(
        [
            "sh",
            "-c",
            agent["ProgramArguments"][-1].replace("exec ", "printf '%s|' ").partition(" 2>>")[0],
        ],
        env={"HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert reported.stdout == f"{UNUSUAL}|run|"


@pytest.mark.parametrize(
    "reader", [pytest.param(name, marks=pytest.mark.needs(name)) for name in READERS]
)
def test_other_property_list_parsers_read_the_same(tmp_path: Path, reader: str) -> None:
    program = Program((UNUSUAL, "run"), {"MEMSYNCD_CONFIG": UNUSUAL})
    places = {"IN": str(tmp_path / f"{LABEL}.plist"), "OUT": str(tmp_path / "out")}
    Path(places["IN"]).write_text(render_agent(program))
    subprocess.run(
        [places.get(word, word) for word in READERS[reader]], capture_output=True, check=True
    )
    # plistutil exits with 0 even after an error, so only its output counts.
    assert plistlib.loads(Path(places["OUT"]).read_bytes()) == make_agent(
        *program.words, **program.env
    )


def start_as_launchd_does(home: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    agent = make_agent(*words)
    return subprocess.run(
        agent["ProgramArguments"],
        env={"HOME": str(home), "PATH": os.defpath},
        umask=agent["Umask"],
        capture_output=True,
        check=False,
    )


def test_its_shell_executes_the_program_and_rotates_a_log(tmp_path: Path) -> None:
    logs = tmp_path / "Library" / "Logs"
    logs.mkdir(parents=True)
    for _ in range(2):
        done = start_as_launchd_does(
            tmp_path, sys.executable, "-c", "import sys; sys.exit('it & failed')"
        )
        assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    log = logs / "memsyncd.log"
    assert log.read_text() == "it & failed\n" * 2
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_long_log_is_rotated(tmp_path: Path) -> None:
    logs = tmp_path / "Library" / "Logs"
    logs.mkdir(parents=True)
    (logs / "memsyncd.log").write_bytes(b"x" * (4 * 1024 * 1024 + 1))
    start_as_launchd_does(tmp_path, sys.executable, "-c", "import sys; sys.exit('new')")
    assert (logs / "memsyncd.log").read_text() == "new\n"
    assert (logs / "memsyncd.log.1").stat().st_size == 4 * 1024 * 1024 + 1


def test_the_agent_is_written_to_the_folder_of_launchd_with_our_mark(tmp_path: Path) -> None:
    launchd = Launchd({"HOME": str(tmp_path)})
    files = launchd.render(Program((sys.executable, "run"), {}), is_on_demand=False)
    (path,) = files
    assert path == f"{tmp_path}/Library/LaunchAgents/{LABEL}.plist"
    assert launchd.install(files) == [path]
    assert launchd.install(files) == []
    assert launchd.is_installed()
    assert is_ours(path)
    assert MARK in Path(path).read_text()


def test_it_cannot_be_started_by_a_client(tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        Launchd({"HOME": str(tmp_path)}).render(Program((sys.executable,), {}), is_on_demand=True)


@pytest.mark.parametrize(
    ("text", "state", "pid", "restarts"),
    [
        (RUNNING, "active", 4711, 2),
        (
            RUNNING.replace("state = running", "state = not running").replace("\tpid = 4711\n", ""),
            "inactive",
            None,
            2,
        ),
        ("", "unknown", None, 0),
    ],
)
def test_the_output_of_launchctl_is_parsed(
    text: str, state: str, pid: int | None, restarts: int
) -> None:
    read = read_print(text)
    assert (read["state"], read["pid"], read["restarts"]) == (state, pid, restarts)


LAUNCHCTL = """#!/bin/sh
# After `bootout` the agent still ends: `print` shows it a few times more, and `bootstrap` fails until then.
cd "$HOME" || exit 1
left=$(cat ending 2>/dev/null || echo 0)
case "$1 $2" in
"print gui/"*/*)
    [ -e loaded ] && exit 0
    [ "$left" -gt 0 ] && echo $((left - 1)) > ending && exit 0
    exit 113 ;;
"bootout "*) rm loaded && echo 3 > ending && exit 36 ;;
"bootstrap "*) [ ! -e loaded ] && [ "$left" -eq 0 ] && touch loaded && exit 0
    echo "Bootstrap failed: 5: Input/output error" >&2
    exit 5 ;;
esac
"""


def test_an_agent_has_ended_before_it_is_loaded_again(tmp_path: Path) -> None:
    tool = tmp_path / "launchctl"
    tool.write_text(LAUNCHCTL)
    tool.chmod(0o755)
    launchd = Launchd({"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.defpath}"})
    launchd.install(launchd.render(Program((sys.executable,), {}), is_on_demand=False))
    launchd.start(is_changed=True)
    launchd.start(is_changed=True)
    assert (tmp_path / "loaded").exists()
    assert len(launchd.uninstall()) == 1
    assert not (tmp_path / "loaded").exists()
    assert launchd.uninstall() == []
