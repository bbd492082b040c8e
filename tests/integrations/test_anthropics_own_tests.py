"""Anthropic's own tests of the SDK's memory tool, run on memsyncd's: fetched from the source
distribution, never stored here.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.daemon.conftest import Home

VERSION = importlib.metadata.version("anthropic")
TESTS = "tests/lib/tools/memory_tools/test_filesystem.py"
# Limits against a hang on a busy machine. An idle machine fetches in two seconds and runs in five.
FETCH_S, RUN_S = 120, 180
# Only the tests of the sync tool: the async tool differs only in how it waits for the daemon. One
# test that writes 5 MB is left out.
SHORT = "not Async and not too_many_lines"
# A build backend for pip. With the real backend, pip would fetch and install several packages and
# build nothing.
BUILDER = f"""
import os
def prepare_metadata_for_build_wheel(folder, settings=None):
    info = "anthropic-{VERSION}.dist-info"
    os.mkdir(os.path.join(folder, info))
    with open(os.path.join(folder, info, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: anthropic\\nVersion: {VERSION}\\n")
    return info
"""

OPENED_ELSEWHERE = (
    "replaces a method or os.open within the SDK's process; memsyncd checks and opens"
    " files in the daemon's"
)
ANY_DOTS = "refused, in other words: memsyncd takes no path with `..` in it, whatever it comes to"
NO_WORKSPACE = (
    "has the tool make its own folder and those above it; a workspace is a folder"
    " that somebody chose"
)
# The reasons by the test's name, for both classes. Tests of the daemon itself have the same subjects,
# in tests/files and here.
CANNOT_PASS = {
    "test_mkdir_parents_not_world_writable_under_permissive_umask": NO_WORKSPACE,
    "test_delete_not_allow_deleting_memories_directory[/memories/sub/..]": ANY_DOTS,
    "test_rename_not_allow_renaming_memories_directory[/memories/sub/..]": ANY_DOTS,
    "test_validate_path_returns_resolved_path_not_symlink_target": OPENED_ELSEWHERE,
    "test_read_rejects_symlink_created_after_validation[view]": OPENED_ELSEWHERE,
    "test_read_rejects_symlink_created_after_validation[str_replace]": OPENED_ELSEWHERE,
    "test_read_rejects_symlink_created_after_validation[insert]": OPENED_ELSEWHERE,
    "test_read_rejects_file_replaced_with_symlink_before_open[view]": OPENED_ELSEWHERE,
    "test_read_rejects_file_replaced_with_symlink_before_open[str_replace]": OPENED_ELSEWHERE,
    "test_read_rejects_file_replaced_with_symlink_before_open[insert]": OPENED_ELSEWHERE,
    "test_view_rejects_directory_symlink_created_after_validation": OPENED_ELSEWHERE,
}


@pytest.fixture(scope="module")
def home(make_home: Callable[[], Home]) -> Home:
    """A home whose limits allow the file of 5 MB that one test writes. Large chunks make its index
    faster.
    """
    home = make_home()
    home.config.write_text(
        "[sync]\nmax_file_bytes = 16777216\n\n[socket]\nmax_line_bytes = 16777216\n\n"
        "[chunking]\nmax_tokens = 8000\n"
    )
    return home


@pytest.fixture
def own_tests(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Anthropic's file of tests for the installed version. Skips if no package index provides it."""
    cache = getattr(request.config, "cache", None)  # it can be switched off
    folder = cache.mkdir("anthropic") if cache is not None else tmp_path
    path = folder / f"{VERSION}.py"
    if not path.exists():
        path.write_bytes(fetch(tmp_path))
    return path


def fetch(folder: Path) -> bytes:
    (folder / "hatchling").mkdir()
    (folder / "hatchling" / "build.py").write_text(BUILDER)
    wanted = [
        "--no-deps",
        "--no-build-isolation",
        "--no-binary",
        "anthropic",
        f"anthropic=={VERSION}",
    ]
    token = [
        "--retries",
        "1",
        "--timeout",
        "10",
        "--no-input",
        "--disable-pip-version-check",
        "--quiet",
    ]
    command = [sys.executable, "-m", "pip", "download", *wanted, "--dest", str(folder), *token]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=FETCH_S, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip did not fetch the source of anthropic {VERSION} within {FETCH_S} s")
    if done.returncode:
        pytest.skip(
            f"pip cannot fetch the source of anthropic {VERSION}:"
            f" {done.stderr.strip().rpartition(chr(10))[2]}"
        )
    (archive,) = folder.glob("anthropic-*.tar.gz")
    with tarfile.open(archive) as source:
        member = source.extractfile(f"anthropic-{VERSION}/{TESTS}")
        assert member is not None
        return member.read()


def run(own_tests: Path, folder: Path, socket: str, *, selected: str) -> dict[str, tuple[str, str]]:
    """The outcomes of the selected tests, by an expression of pytest's -k."""
    folder.mkdir()
    here = Path(__file__).parent
    (folder / "test_filesystem.py").write_bytes(own_tests.read_bytes())
    (folder / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\n")
    outcomes = folder / "outcomes.json"
    env = {
        **os.environ,
        "MEMSYNCD_SOCKET": socket,
        "OUTCOMES": str(outcomes),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": f"{here.parents[1]}:{here}",
        "TMPDIR": str(folder),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "anyio",
        "-p",
        "stand_in",
        "-p",
        "no:cacheprovider",
        "-q",
        "--tb=line",
    ]
    done = subprocess.run(
        [*command, "--basetemp", str(folder / "t"), "-k", selected, "test_filesystem.py"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert outcomes.exists(), done.stdout + done.stderr
    return {
        name: (outcome, why) for name, (outcome, why) in json.loads(outcomes.read_text()).items()
    }


def find_surprises(outcomes: dict[str, tuple[str, str]]) -> list[str]:
    """Failures that should pass, and passes that should fail."""
    return [
        f"{name} {outcome}: {why}"
        for name, (outcome, why) in outcomes.items()
        if (outcome == "failed") != (name.partition("::")[2] in CANNOT_PASS)
    ]


@pytest.mark.life
@pytest.mark.timeout(FETCH_S + RUN_S)
def test_all_tests_pass_except_the_known_exceptions(
    own_tests: Path, tmp_path: Path, home: Home, daemon: object
) -> None:
    outcomes = run(own_tests, tmp_path / "run", home.socket_path, selected=SHORT)
    assert find_surprises(outcomes) == []
    assert sum(outcome == "passed" for outcome, _ in outcomes.values()) > 30


@pytest.mark.soak
@pytest.mark.timeout(FETCH_S + RUN_S)
def test_both_tools_pass_also_with_much_text(
    own_tests: Path, tmp_path: Path, home: Home, daemon: object
) -> None:
    outcomes = run(own_tests, tmp_path / "run", home.socket_path, selected="")
    assert find_surprises(outcomes) == []
    assert CANNOT_PASS.keys() <= {name.partition("::")[2] for name in outcomes}
    assert sum(outcome == "passed" for outcome, _ in outcomes.values()) > 70
