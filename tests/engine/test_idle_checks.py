"""Databases are checked in full when nothing else is to be done, and damage is reported."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from memsyncd.engine import checks
from memsyncd.engine.checks import IdleChecks

WAIT_S = 60.0


class Checked:
    """Idle checks on a loop, their findings, and a switch that makes the worker busy."""

    def __init__(self) -> None:
        self.found: list[tuple[object, str]] = []
        self.is_busy = False
        self.n_asked = 0
        self.checks = IdleChecks(
            self._ask, lambda _w, database, what: self.found.append((database, what))
        )

    def _ask(self) -> bool:
        self.n_asked += 1
        return self.is_busy


def is_checking() -> bool:
    return any(thread.name == "memsyncd-check" for thread in threading.enumerate())


async def wait_until(is_so: Callable[[], object]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.01)


@pytest.fixture
def bench(make_bench: Callable[..., Any]) -> Any:
    """A workspace whose daemon was killed: all of its index is due."""
    bench = make_bench()
    for number in range(300):
        bench.write(f".memories/{number}.md", f"# Note {number}\n\nlarch number{number}\n")
    bench.open()
    bench.follow()
    bench.workspace.index.checks._checks.clear()
    return bench


def harm(bench: Any) -> None:
    other = apsw.Connection(str(bench.workspace.index_path))
    other.execute("UPDATE chunks_fts_data SET block = randomblob(length(block)) WHERE id > 10")
    other.close()


def test_all_that_is_due_is_checked_once_and_the_thread_ends(bench: Any) -> None:
    async def story() -> None:
        checked = Checked()
        index = bench.workspace.index
        assert len(index.checks.due()) == 3
        checked.checks.start(bench.workspace)
        await wait_until(lambda: not index.checks.due() and not is_checking())
        assert checked.found == []
        n_asked = checked.n_asked
        checked.checks.start(bench.workspace)
        assert not is_checking()
        assert checked.n_asked == n_asked > 0

    asyncio.run(story())


def test_damage_is_reported_and_not_taken_for_checked(bench: Any) -> None:
    async def story() -> None:
        checked = Checked()
        harm(bench)
        checked.checks.start(bench.workspace)
        await wait_until(lambda: checked.found)
        ((database, what),) = checked.found
        assert database is bench.workspace.index
        assert "chunks_fts" in what
        assert "chunks_fts" in bench.workspace.index.checks.due()

    asyncio.run(story())


def test_a_check_yields_to_work_and_begins_again_when_that_is_done(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MAX_SLEEP_S", 0.2)

    async def story() -> None:
        checked = Checked()
        checked.is_busy = True
        checked.checks.start(bench.workspace)
        await wait_until(lambda: checked.n_asked)
        await wait_until(lambda: not is_checking())
        assert len(bench.workspace.index.checks.due()) == 3
        checked.is_busy = False
        checked.checks.start(bench.workspace)
        await wait_until(lambda: not bench.workspace.index.checks.due())

    asyncio.run(story())


def test_a_check_ends_with_the_daemon_and_with_its_index(bench: Any) -> None:
    async def story() -> None:
        checked = Checked()
        checked.is_busy = True
        checked.checks.start(bench.workspace)
        await wait_until(lambda: checked.n_asked)
        bench.workspace.close_index()
        await wait_until(lambda: not is_checking())
        other = Checked()
        bench.open()
        bench.workspace.index.checks._checks.clear()
        other.is_busy = True
        other.checks.start(bench.workspace)
        await wait_until(lambda: other.n_asked)
        assert other.checks.stop(WAIT_S)
        assert not is_checking()
        other.checks.start(bench.workspace)
        assert not is_checking()

    asyncio.run(story())
