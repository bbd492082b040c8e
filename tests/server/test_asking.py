from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.errors import MemsyncdError, NotFresh, StoreCorrupt
from memsyncd.operations.call import WorkspacePart
from memsyncd.server.asking import N_CONCURRENT, Federation, describe_workspace_part
from memsyncd.server.places import NamedWorkspace

CLOCK = Clock(now_s=time.monotonic, wall_ns=time.time_ns)
LIMIT_S = 30.0
Read = Callable[[Workspace, RunOptions], str]


async def prepare(_workspace: Workspace) -> RunOptions:
    return RunOptions()


async def run_in_thread(read: Any, _end_s: float) -> Any:
    return await asyncio.to_thread(read)


@pytest.fixture
def workspaces(tmp_path: Path) -> list[Workspace]:
    return [
        Workspace(
            Entry(id=f"{name}-1", name=name, root=str(tmp_path / name)),
            Config(),
            index_path=tmp_path / name / "index.db",
            records_path=tmp_path / name / "records.db",
        )
        for name in ("one", "two", "three", "four", "five")
    ]


def ask(
    workspaces: list[Workspace],
    read: Read,
    *,
    limit_s: float = LIMIT_S,
    prepare: Callable[[Workspace], Awaitable[RunOptions]] = prepare,
) -> list[WorkspacePart[str]]:
    federation = Federation(run_in_thread, CLOCK)
    end_s = time.monotonic() + limit_s
    return asyncio.run(federation.ask_each(workspaces, prepare, read, end_s))


def read_name(workspace: Workspace, _options: RunOptions) -> str:
    return workspace.entry.name


def test_all_answer_in_the_order_of_the_request(workspaces: list[Workspace]) -> None:
    parts = ask(workspaces, read_name)
    assert [part.value for part in parts] == ["one", "two", "three", "four", "five"]
    assert ask([], read_name) == []


def test_at_most_two_are_read_at_a_time(workspaces: list[Workspace]) -> None:
    running: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    def read(workspace: Workspace, _options: RunOptions) -> str:
        with lock:
            running.append(1)
            most.append(len(running))
        time.sleep(0.01)
        with lock:
            running.pop()
        return workspace.entry.name

    ask(workspaces, read)
    assert max(most) <= N_CONCURRENT


def test_one_that_fails_is_left_out_with_the_reason(workspaces: list[Workspace]) -> None:
    def read(workspace: Workspace, options: RunOptions) -> str:
        if workspace.entry.name == "two":
            raise StoreCorrupt("index.db is damaged", hint="it is rebuilt")
        return read_name(workspace, options)

    parts = ask(workspaces, read)
    assert [part.value for part in parts] == ["one", None, "three", "four", "five"]
    linked = {"one-1": NamedWorkspace(workspace=workspaces[0], worktree="/linked")}
    named = [describe_workspace_part(part.workspace, linked, part.error) for part in parts]
    assert [one.failure for one in named if one.failure] == ["index.db is damaged: it is rebuilt"]
    assert [one.code for one in named] == [None, "store_corrupt", None, None, None]
    assert [one.worktree for one in named] == ["/linked", None, None, None, None]


def test_one_that_cannot_be_prepared_is_left_out(workspaces: list[Workspace]) -> None:
    async def wait(workspace: Workspace) -> RunOptions:
        if workspace.entry.name == "one":
            raise NotFresh("the disk does not answer")
        return RunOptions()

    parts = ask(workspaces, read_name, prepare=wait)
    assert [part.value for part in parts] == [None, "two", "three", "four", "five"]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


def test_those_that_never_return_take_no_time_from_the_others(
    workspaces: list[Workspace], gate: threading.Event
) -> None:
    stuck = {"one", "two"}

    def read(workspace: Workspace, options: RunOptions) -> str:
        if workspace.entry.name in stuck:
            gate.wait(LIMIT_S)
        return read_name(workspace, options)

    async def tell() -> list[WorkspacePart[str]]:
        try:
            federation = Federation(run_in_thread, CLOCK)
            end_s = time.monotonic() + 3.0
            return await federation.ask_each(workspaces, prepare, read, end_s)
        finally:
            gate.set()  # the loop waits for its threads

    parts = asyncio.run(tell())
    assert [part.value for part in parts] == [None, None, "three", "four", "five"]
    assert {part.error.code for part in parts if part.error} == {"timeout"}


def test_a_slow_one_is_asked_again_with_the_time_that_is_left(workspaces: list[Workspace]) -> None:
    limits: list[float] = []

    def read(workspace: Workspace, options: RunOptions) -> str:
        if workspace.entry.name == "two":
            limits.append(options.timeout_s or 0.0)
            if len(limits) == 1:
                raise NotFresh("out of time")
        return read_name(workspace, options)

    assert [part.value for part in ask(workspaces, read)][1] == "two"
    first, second = limits
    assert second > 2 * first


def test_without_any_answer_the_first_error_is_raised(workspaces: list[Workspace]) -> None:
    def read(workspace: Workspace, _options: RunOptions) -> str:
        raise StoreCorrupt(workspace.entry.name)

    with pytest.raises(MemsyncdError) as caught:
        ask(workspaces, read)
    assert caught.value.message == "one"
