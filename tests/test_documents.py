"""The documents describe what exists: every method, command, key and event.

They begin with two commands.
"""

from __future__ import annotations

import os
import plistlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import memsyncd
from memsyncd.cli.commands import ENTRIES
from memsyncd.cli.doctor.checks import TABLE as MACHINE_CHECKS
from memsyncd.config import TABLES, Config
from memsyncd.core.editing.kinds import DEFAULT_KINDS
from memsyncd.engine.checks import PROBLEM_CHECKS
from memsyncd.engine.checks import TABLE as STATE_CHECKS
from memsyncd.logs import Event
from memsyncd.operations.generate import METHODS_PAGE, render_methods
from memsyncd.operations.sections import Filters
from memsyncd.operations.table import OPERATIONS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "memsyncd" / "ARCHITECTURE.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "memsyncd" / "REFERENCE.md").read_text(encoding="utf-8")
PROMISES = (ROOT / "tests" / "PROMISES.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "memsyncd" / "GUIDE.md").read_text(encoding="utf-8")
EVERYTHING = README + GUIDE + ARCHITECTURE + REFERENCE
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SERVICE = ROOT / "systemd" / "memsyncd.service"


def test_the_page_of_methods_is_the_one_that_is_generated() -> None:
    page = METHODS_PAGE.read_text(encoding="utf-8")
    assert page == render_methods(OPERATIONS.values()), (
        "run: python -m memsyncd.operations.generate"
    )


def test_every_command_is_documented() -> None:
    commands = GUIDE.partition("\nCommands: ")[2].partition("`memsyncd COMMAND --help`")[0]
    assert set(re.findall(r"`([\w-]+)`", commands)) == set(ENTRIES)


def test_every_check_of_the_doctor_is_documented_and_no_other() -> None:
    checks = {row[1] for row in (*MACHINE_CHECKS.values(), *STATE_CHECKS.values())}
    checks |= {check for _, check in PROBLEM_CHECKS.values()}
    table = REFERENCE.partition("## What doctor checks")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == checks - {""}


def test_every_filter_is_documented_as_a_word_and_is_a_flag() -> None:
    words = {
        name: {
            "archived": "is:archived",
            "expired": "is:expired",
            "min_importance": "importance:",
            "min_worth": "worth:",
        }.get(name, f"{name}:")
        for name in Filters.__struct_fields__
        if not name.startswith("include_")
    }
    assert not [name for name, word in words.items() if f"`{word}" not in GUIDE]


def test_the_guide_lists_every_kind_with_its_note_importance_and_half_life() -> None:
    table = GUIDE.partition("| kind | note | importance | half-life |")[2].partition("\n\n")[0]
    listed = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert listed == [
        [
            f"`{name}`",
            kind.append_to.removeprefix(".memories/"),
            f"{kind.importance:g}",
            f"{kind.half_life:g} d" + ", never archived" * kind.protected,
        ]
        for name, kind in DEFAULT_KINDS.items()
    ]


def test_no_missing_command_is_documented() -> None:
    assert set(re.findall(r"`memsyncd ([a-z][a-z-]+)", EVERYTHING)) <= {*ENTRIES, "help"}


def test_every_invariant_names_an_existing_test() -> None:
    table = ARCHITECTURE.partition("## Invariants")[2].partition("\n## ")[0]
    rows = [line.split("|")[3] for line in table.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) == 14
    named = [re.findall(r"`([\w/]+\.py)`", row) for row in rows]
    assert all(named)
    assert not [name for names in named for name in names if not (ROOT / "tests" / name).is_file()]


def test_every_promise_names_existing_tests() -> None:
    table = PROMISES.partition("## What is promised")[2].partition("\n## ")[0]
    promises = [
        re.findall(r"`([\w/]+\.py)::(test_\w+)`", line)
        for line in table.splitlines()
        if line.startswith("| **")
    ]
    assert len(promises) == 14
    assert all(len(tests) > 2 for tests in promises)
    texts = {
        file: (ROOT / "tests" / file).read_text(encoding="utf-8")
        for tests in promises
        for file, _ in tests
    }
    assert not [
        f"{file}::{name}"
        for tests in promises
        for file, name in tests
        if f"def {name}(" not in texts[file]
    ]


def test_ci_runs_both_commands_of_the_first_screen_and_the_tests_that_the_second_leaves_out() -> (
    None
):
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    others = '-m "not soak and not clients" --may-run-programs'
    assert all(words in ci for words in ("find_command 1", "find_command 2", others))
    assert "`pytest -m life`" in README


@pytest.mark.parametrize("programs", [{}, {"apt-get": 100, "id": 0}, {"apt-get": 0, "id": 0}])
def test_set_up_without_python_or_rights_ends_with_one_sentence_that_says_what_is_needed(
    tmp_path: Path, programs: dict[str, int]
) -> None:
    for name, status in {"python3": 1, **programs}.items():
        said = "1000" if name == "id" else "E: Could not open lock file"
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{said}'\nexit {status}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", ROOT / ".ci" / "venv"],
        cwd=tmp_path, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (last,) = done.stderr.splitlines()
    assert last.startswith("memsyncd needs Python 3.11 or newer with its module venv; install that")


def test_every_event_of_the_log_is_documented_and_no_other() -> None:
    table = REFERENCE.partition("## What the log may say")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(Event)


def test_every_package_is_in_the_map() -> None:
    rooms = {
        path.name + "/" if path.is_dir() else path.name for path in (ROOT / "memsyncd").iterdir()
    }
    unsaid = {
        "__init__.py",
        "__main__.py",
        "__pycache__/",
        "py.typed",
        "ARCHITECTURE.md",
        "GUIDE.md",
        "MIGRATING.md",
    }
    table = ARCHITECTURE.partition("| room |")[2].partition("\n\n")[0]
    assert not [room for room in rooms - unsaid if f"`{room}`" not in table]


def test_the_modules_on_the_page_exist() -> None:
    rooms = "core|store|server|engine|watch|protocol|files|semantic|operations|cli"
    page = ARCHITECTURE.partition("## Invariants")[0]
    named = re.findall(rf"(?:`|→ )((?:{rooms})/[\w/]+?)(?:\.py)?(?:`| )", page)
    assert len(named) > 20
    places = [ROOT / "memsyncd" / name for name in named]
    assert not [path for path in places if not (path.is_dir() or path.with_suffix(".py").is_file())]


def test_the_readme_is_read_in_a_minute() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 100


def test_the_first_screen_has_exactly_two_commands() -> None:
    first_screen = README.partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)\n```$", first_screen, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    assert all("\n" not in block for block in blocks)
    run, test = blocks
    assert "memsyncd run" in run
    assert "pytest" in test
    assert README.count("```sh\n") == 2


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "memsyncd/ARCHITECTURE.md",
        "memsyncd/GUIDE.md",
        "memsyncd/REFERENCE.md",
        "tests/PROMISES.md",
        "memsyncd/MIGRATING.md",
        "CHANGELOG.md",
    ],
)
def test_links_between_files_resolve(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", text)
    assert not [link for link in links if not (ROOT / name).parent.joinpath(link).exists()]


def test_the_layers_of_the_map_are_those_that_are_checked() -> None:
    contracts = {
        contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]
    }
    drawn = re.search(r"^ +layers: +(.+)$", ARCHITECTURE, flags=re.MULTILINE)
    assert drawn is not None
    checked = [
        {name.strip(" ()") for name in re.split(r"[|:]", layer)}
        for layer in contracts["layers"]["layers"]
    ]
    order = [name for layer in re.split(" > ", drawn[1]) for name in layer.split(" | ")]
    ranks = {name: rank for rank, layer in enumerate(checked) for name in layer}
    assert set(order) == set(ranks) - {"__main__"}
    assert [ranks[name] for name in order] == sorted(ranks[name] for name in order)


def test_the_version_has_one_source() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", memsyncd.__version__)


def test_the_version_grows_with_each_release() -> None:
    """By the version a client recognises an older daemon; the unreleased version is the highest."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"(?m)^## \[?(\d+)\.(\d+)\.(\d+)", changes)
    current = tuple(map(int, memsyncd.__version__.split(".")[:3]))
    latest = max((tuple(map(int, version)) for version in released), default=(0, 1, 0))
    assert current > latest if "## Unreleased" in changes else current == latest


def test_the_program_is_a_script_of_our_own_that_installers_give_their_python() -> None:
    # pip's own wrapper of an entry point imports `re` before anything else.
    assert "scripts" not in PROJECT["project"]
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["shared-scripts"] == {"memsyncd/__main__.py": "memsyncd"}
    script = ROOT / "memsyncd" / "__main__.py"
    assert re.match(r"#!\S+/env python3\n", script.read_text(encoding="utf-8"))
    assert os.access(script, os.X_OK)


def test_the_example_names_every_section() -> None:
    example = (ROOT / "config.example.toml").read_text(encoding="utf-8")
    names = [name for name in Config.__struct_fields__ if name not in TABLES]
    assert not [name for name in names if f"[{name}]" not in example]
    assert not [name for name in TABLES if f"[{name}." not in example]


def test_the_launchd_agent_runs_the_daemon_and_restarts_it_only_after_a_failure() -> None:
    agent = plistlib.loads((ROOT / "launchd" / "org.memsyncd.agent.plist").read_bytes())
    assert agent["Label"] == "org.memsyncd.agent"
    assert 'exec "$HOME/.local/bin/memsyncd" run' in agent["ProgramArguments"][-1]
    assert agent["KeepAlive"] == {"SuccessfulExit": False}


@pytest.mark.needs("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "memsyncd.service"
    unit.write_text(SERVICE.read_text().replace("%h/.local/bin/memsyncd", sys.executable))
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    command = ["systemd-analyze", "--user", "verify", str(unit)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_does_not_restart_what_would_fail_again() -> None:
    from memsyncd.errors import AlreadyRunning, BadConfig

    given_up = re.search(
        r"^RestartPreventExitStatus=(.+)$", SERVICE.read_text(), flags=re.MULTILINE
    )
    assert given_up is not None
    assert {AlreadyRunning.exit_status, BadConfig.exit_status} == set(map(int, given_up[1].split()))
