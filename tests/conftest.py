"""Settings for all tests: Hypothesis, parallel processes, selection by marks, and interrupts."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from memsyncd.logs import _configure_structlog
from tests.programs import find_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parent
END_TO_END = tuple(TESTS / name for name in ("daemon", "faults", "service"))
"""The folders whose tests run the real process end to end: all of them bear the mark `life`, or
`soak`. Tests elsewhere that start processes or take long bear it by themselves."""
SLOW_IMPORTS = TESTS / "integrations"
"""Its tests import libraries that take a core some seconds, in each worker that runs one of them."""
WITHOUT_PROCESSES = "not soak and not life and not clients"
"""The marks of a run that names none, as in pyproject.toml."""

# This must come before numpy is imported: its threads wait for each other by spinning if all
# cores are busy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Otherwise each worker, and each process that a test starts, would compile its imports. A
# process that the tests start without this variable compiles the package in this checkout anyway.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

# True if all tests are collected, not only tests that the command names.
RUNS_ALL = pytest.StashKey[bool]()

# tests/test_layers.py checks that no other room of the package starts programs but Python.
ROOMS_WITH_PROGRAMS = frozenset({"cli", "integrations"})
STARTS_PROGRAMS = re.compile(
    # This Python and these programs, which a minimal Debian has, do the same whatever else is
    # installed.
    r"\b((subprocess\.(run|Popen|call|check_\w+|get\w+)|create_subprocess\w*)"
    r"\((?!\s*[\[(]?\s*(sys\.executable\b|\"(rm|mount|umount)\"))"
    r"|pty\.|needs\(|tests\.programs|which\(|spawn|os\.(exec|popen|system))"
)

# There is no deadline: a busy machine is no failure, and pytest-timeout ends a test that hangs.
# The examples of a plain run are the same each time, so a run is red only because of a change.
# `.ci/run` tries random ones.
settings.register_profile(
    "memsyncd",
    deadline=None,
    derandomize=True,
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "random",
    parent=settings.get_profile("memsyncd"),
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
    derandomize=False,
    max_examples=40,
    print_blob=True,
)
settings.register_profile("thorough", parent=settings.get_profile("random"), max_examples=2000)
settings.load_profile("memsyncd")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell makes its background jobs ignore this, and all processes that the tests start would
    # inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def configured_logs() -> None:
    """Configure structlog once, before threads do it.

    If two threads configure a logger at the same time, it keeps processors that `capture_logs` does
    not replace.
    """
    _configure_structlog()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use two workers more than there are cores; four for end-to-end tests alone.

    Most of the time these wait for a daemon, an editor or a timer.
    """
    is_waiting = runs_all(config) and config.getoption("-m") != WITHOUT_PROCESSES
    return (os.cpu_count() or 1) + (4 if is_waiting else 2)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RUNS_ALL] = runs_all(config)


def runs_all(config: pytest.Config) -> bool:
    return config.args == config.getini("testpaths")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Freeze collected items, which stay to the end, so that the garbage collector skips them."""
    if session.config.stash[RUNS_ALL]:
        session.config.args = order_places(os.environ.get("PYTEST_XDIST_WORKER", ""))
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--may-run-programs",
        action="store_true",
        help="besides end-to-end tests, run only those that may run programs of this machine",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In a run of all tests, leave out modules without a chosen test.

    Every worker would import them.
    """
    is_module = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if not is_module or not config.stash[RUNS_ALL]:
        return None
    is_chosen = may_be_chosen(collection_path, config.getoption("-m"))
    if config.getoption("--may-run-programs"):
        is_chosen = is_chosen and (
            may_run_programs(collection_path) or may_be_chosen(collection_path, "life")
        )
    return None if is_chosen else True


def order_places(worker: str) -> list[str]:
    """Return the entries of a folder; each worker (gw0, gw1, ...) begins at another place.

    The worker that imports a module first compiles it, and all workers import all modules.
    """
    places = sorted(
        str(place) for place in TESTS.iterdir() if place.is_dir() or place.name.startswith("test_")
    )
    n_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    first = int(worker.removeprefix("gw") or 0) * len(places) // n_workers
    return places[first:] + places[:first]


# This comes first, because pytest itself chooses by marks (-m) in this hook.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    # Every worker uses the same order, whatever it has collected first.
    items.sort(key=lambda item: item.path)
    for item in items:
        mark_end_to_end(item)
        skip_without_programs(item)
    if config.getoption("--may-run-programs"):
        others = [
            item
            for item in items
            if item.get_closest_marker("life") is None and not may_run_programs(item.path)
        ]
        left_out = set(others)
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=others)
    yield
    arrange(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def arrange(items: list[pytest.Item], n_workers: int) -> None:
    """Begin with the longest tests, each on its own worker, then tests with slow imports.

    The tests of a folder stay together, in their shuffled order. Each worker takes a stretch of the
    same length, which is in order: a worker that begins a long test last keeps the others waiting,
    and every worker that has tests of a folder imports the same libraries and starts the same
    programs. A worker without tests takes some from the ends of the others' stretches, so the tests
    after a long test are divided among all.
    """
    places: dict[Path, int] = {}
    for item in items:
        places.setdefault(item.path.parent, len(places))
    items.sort(key=lambda item: places[item.path.parent])
    firsts = [[item] for item in items if item.get_closest_marker("run_first")]
    placed = {first[0] for first in firsts}
    firsts.append([item for item in items if has_slow_imports(item.path) and item not in placed])
    placed.update(firsts[-1])
    others = (item for item in items if item not in placed)
    arranged: list[pytest.Item] = []
    for worker in range(n_workers):
        for first in firsts[worker::n_workers]:
            arranged += first
        n_missing = len(items) * (worker + 1) // n_workers - len(arranged)
        arranged += itertools.islice(others, max(0, n_missing))
    items[:] = arranged


@functools.cache
def has_slow_imports(module: Path) -> bool:
    return module.is_relative_to(SLOW_IMPORTS)


@functools.cache
def is_end_to_end(module: Path) -> bool:
    return any(module.is_relative_to(folder) for folder in END_TO_END)


def may_be_chosen(module: Path, marks: str) -> bool:
    """False if these marks (-m) choose no test of this module."""
    if marks == "life":
        return is_end_to_end(module) or "mark.life" in module.read_text()
    return marks != WITHOUT_PROCESSES or not is_end_to_end(module)


@functools.cache
def may_run_programs(module: Path) -> bool:
    """True if this module of tests names a way to start programs other than Python.

    The same holds if it tests a room of the package that has such a way.
    """
    is_of_room = any(module.is_relative_to(TESTS / room) for room in ROOMS_WITH_PROGRAMS)
    return is_of_room or STARTS_PROGRAMS.search(module.read_text()) is not None


def mark_end_to_end(item: pytest.Item) -> None:
    """Mark the tests of these folders with `life`, except long tests, which are run by themselves."""
    if is_end_to_end(item.path) and item.get_closest_marker("soak") is None:
        item.add_marker("life")


def skip_without_programs(item: pytest.Item) -> None:
    needed = {program for mark in item.iter_markers("needs") for program in mark.args}
    missing = find_missing(*sorted(needed))
    if missing:
        item.add_marker(pytest.mark.skip(reason=f"not installed: {', '.join(missing)}"))


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pytest's own folder under a short name.

    The path of a socket is limited to 107 bytes, and the name of a test would take thirty of them.
    """
    return tmp_path_factory.mktemp("t")
