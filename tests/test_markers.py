"""Tests of the real process are left to `-m life`; tests whose program is missing are skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import (
    STARTS_PROGRAMS,
    TESTS,
    WITHOUT_PROCESSES,
    arrange,
    may_be_chosen,
    order_places,
)
from tests.programs import find_missing, succeeds

# Each test starts its own pytest, which is slow on a busy machine.
pytestmark = pytest.mark.timeout(300)

REPOSITORY = Path(__file__).parents[1]
MISSING = "no-program-of-this-name"
LONG = "tests/faults/test_fuzz.py::test_coverage_guided_fuzzing_finds_no_failure"
TEST_SOURCE = f"""
import pytest

@pytest.mark.needs("sh", "{MISSING}")
def test_with_a_program_that_is_missing():
    raise AssertionError("it ran")

@pytest.mark.needs("sh")
def test_with_a_program_that_is_there():
    pass
"""


def run_pytest(*words: str) -> str:
    """Return the output of pytest, configured like this project, but with a single process."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-q",
        "-c",
        str(REPOSITORY / "pyproject.toml"),
        *words,
    ]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), (
        done.stdout + done.stderr
    )
    return done.stdout


def test_a_test_whose_program_is_missing_is_skipped_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text(TEST_SOURCE)
    printed = run_pytest(
        "-p", "tests.conftest", f"--rootdir={tmp_path}", str(tmp_path / "test_story.py")
    )
    assert f"not installed: {MISSING}\n" in printed
    assert "1 passed, 1 skipped" in printed


@pytest.mark.life
@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        # Each test is of one kind, and only the long test is no end-to-end test.
        ((), set()),
        (
            ("-m", "life"),
            {
                "tests/daemon/test_display.py",
                "tests/faults/test_fuzz.py",
                "tests/service/test_file_systems.py",
            },
        ),
    ],
)
def test_end_to_end_tests_and_soaks_run_only_on_request(
    words: tuple[str, ...], chosen: set[str]
) -> None:
    files = (
        "tests/daemon/test_display.py",
        "tests/faults/test_fuzz.py",
        "tests/service/test_file_systems.py",
    )
    tests = [
        line for line in run_pytest("--collect-only", *words, *files).splitlines() if "::" in line
    ]
    assert {LONG if test.startswith(LONG) else test.partition("::")[0] for test in tests} == chosen


@pytest.mark.parametrize(
    ("marks", "left_out"),
    [
        ("not soak and not life and not clients", {"daemon/test_idle.py", "service/test_units.py"}),
        ("life", {"core/test_model.py", "cli/test_note_arguments.py"}),
        ("soak", set()),
        ("life or soak", set()),
    ],
)
def test_a_run_of_all_tests_imports_no_module_without_a_chosen_test(
    marks: str, left_out: set[str], pytestconfig: pytest.Config
) -> None:
    addopts = pytestconfig.getini("addopts")
    assert addopts[addopts.index("-m") + 1] == WITHOUT_PROCESSES
    modules = {
        "daemon/test_idle.py",
        "service/test_units.py",
        "core/test_model.py",
        "cli/test_note_arguments.py",
        "cli/test_transcripts.py",  # bears the mark by itself
        "watch/test_every_folder.py",  # some of its tests bear it
    }
    assert {module for module in modules if not may_be_chosen(TESTS / module, marks)} == left_out


@pytest.mark.parametrize(
    ("n_workers", "order"),
    [
        (1, "longest, slow imports, first, third, second, fourth"),
        # Each worker has a stretch of the same length.
        (2, "longest, first, third, slow imports, second, fourth"),
        (3, "longest, first, slow imports, third, second, fourth"),
    ],
)
def test_long_tests_and_slow_imports_come_first_and_tests_of_a_folder_stay_together(
    request: pytest.FixtureRequest, n_workers: int, order: str
) -> None:
    def make(path: str, name: str) -> pytest.Function:
        parent = pytest.Module.from_parent(request.session, path=TESTS / path)
        return pytest.Function.from_parent(parent, name=name, callobj=lambda: None)

    items = [
        make("b/test_1.py", "first"),
        make("a/test_1.py", "second"),
        make("b/test_2.py", "third"),
        make("a/test_1.py", "longest"),
        make("integrations/test_1.py", "slow imports"),
        make("a/test_2.py", "fourth"),
    ]
    items[3].add_marker("run_first")
    arrange(items, n_workers)  # type: ignore[arg-type]
    assert ", ".join(item.name for item in items) == order


@pytest.mark.life
def test_tests_that_may_run_programs_are_chosen_by_their_modules_beside_the_end_to_end_tests() -> (
    None
):
    modules = (
        "tests/cli/test_note_arguments.py",
        "tests/core/test_model.py",
        "tests/core/test_globs.py",
        "tests/daemon/test_display.py",
        "tests/watch/test_every_folder.py",  # some of its tests are end to end
    )
    options = ("--collect-only", "-m", "not soak and not clients", "--may-run-programs")
    tests = [line for line in run_pytest(*options, *modules).splitlines() if "::" in line]
    assert {test.partition("::")[0] for test in tests} == {
        "tests/cli/test_note_arguments.py",
        "tests/daemon/test_display.py",
        "tests/watch/test_every_folder.py",
    }
    assert len([test for test in tests if "test_every_folder" in test]) == 2


@pytest.mark.parametrize(
    ("source", "may_run"),
    [
        ('subprocess.run(["git", "init"])', True),
        ("subprocess.Popen(\n    command, stdin=subprocess.PIPE\n)", True),
        ("asyncio.create_subprocess_exec(program)", True),
        ('@pytest.mark.needs("git")', True),
        ("pty.openpty()", True),
        ('subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL)', False),
        ("subprocess.Popen(\n    (sys.executable, *words), stdout=subprocess.PIPE\n)", False),
        ("except subprocess.TimeoutExpired:", False),
        ('asyncio.create_subprocess_exec(sys.executable, "-c", code)', False),
        ('subprocess.run(["rm", "-rf", folder])', False),
    ],
)
def test_a_module_that_starts_only_this_python_needs_no_programs(
    source: str, *, may_run: bool
) -> None:
    assert bool(STARTS_PROGRAMS.search(source)) is may_run


def test_each_worker_begins_to_collect_elsewhere_and_collects_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "4")
    orders = [order_places(worker) for worker in ("gw0", "gw1", "gw2", "gw3")]
    assert len({order[0] for order in orders}) == 4
    modules = {str(path) for path in TESTS.glob("**/test_*.py")}
    for order in orders:
        assert sorted(order) == orders[0] == order_places("")
        assert all(path.startswith(tuple(order)) for path in modules)


def test_a_command_succeeds_only_if_it_is_there_and_ends_with_0() -> None:
    assert succeeds("true")
    assert not succeeds("false")
    assert not succeeds(MISSING)
    assert find_missing("sh", MISSING) == [MISSING]
