"""A workspace on the real disk, whose jobs run at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memsyncd.config import ChunkingConfig, Config
from memsyncd.engine import external_changes
from memsyncd.engine.clock import Clock
from memsyncd.engine.context import merge_offers, offer_context
from memsyncd.engine.edit import edit_workspace
from memsyncd.engine.external_changes import record_all, sync_and_record
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.rebuild import (
    close_workspace,
    open_workspace,
    rebuild_index,
)
from memsyncd.engine.search import search
from memsyncd.engine.sync import SyncDone, SyncRequest, sync_workspace
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.operations.context.declare import ContextAnswer, ContextParams
from memsyncd.operations.history.declare import HistoryParams, RevisionInfo, UndoParams
from memsyncd.operations.history.run import list_revisions
from memsyncd.operations.history.undo import undo_revisions
from memsyncd.operations.notes.declare import MemoryParams
from memsyncd.operations.notes.run import Answer, make_decision, view
from memsyncd.operations.plans import keep_up
from memsyncd.operations.revisions import parse_target
from memsyncd.operations.search.declare import SearchAnswer, SearchParams
from memsyncd.store.texts import read_note_text

# A guard against hanging.
PAUSE_LIMIT_S = 50.0
POLICY = Config(chunking=ChunkingConfig(max_tokens=20, overlap=0))


SEARCH_POLICY = Config()
RUN_OPTIONS = frozenset({"now_s", "timeout_s", "absent", "is_hurried", "accesses"})
# A busy machine takes longer than a client would wait.
PATIENT = {"timeout_s": 30.0}


def search_in(
    workspaces: Sequence[Workspace], query: str, config: Config = SEARCH_POLICY, **more: Any
) -> SearchAnswer:
    """Search; `more` are fields of the request or of the run options. Scores are explained."""
    options = PATIENT | {name: more.pop(name) for name in RUN_OPTIONS & more.keys()}
    params = SearchParams(query=query, explain=True, **more)
    return search(workspaces, params, config, RunOptions(**options))


def build_block(
    workspace: Workspace, query: str = "", config: Config = SEARCH_POLICY, **more: Any
) -> ContextAnswer:
    options = PATIENT | {name: more.pop(name) for name in RUN_OPTIONS & more.keys()}
    params = ContextParams(query=query, **more)
    return merge_offers(
        [offer_context(workspace, params, config, RunOptions(**options))], params, config
    )


def make_call(workspace: Workspace, config: Config, *, now_s: float) -> Any:
    """Make the part of a call with which operations read."""
    return SimpleNamespace(workspace=workspace, config=config, now_s=now_s)


def take(steps: Generator[Any, None, Any]) -> Any:
    """Take all steps of a job, wait where it pauses, and give its result."""
    while True:
        try:
            pause = next(steps)
        except StopIteration as end:
            return end.value
        if pause is not None:
            wait([pause.ended], PAUSE_LIMIT_S)


READ_ON = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
print("reading", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def other_program_reading(path: Path) -> Iterator[None]:
    command = [sys.executable, "-c", READ_ON, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reading\n"
        yield
        reader.communicate()


@pytest.fixture(autouse=True)
def give_time_to_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a test stands still between a save and its record, while a file's times are
    real: a loaded machine may take longer than the daemon allows.
    """
    monkeypatch.setattr(external_changes, "CREATION_NS", 600 * 10**9)


@dataclass(kw_only=True)
class Bench:
    """One workspace, its folder, and a clock that the test sets."""

    root: Path
    workspace: Workspace
    config: Config = POLICY
    now_s: float = 1000.0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(now_s=lambda: self.now_s, wall_ns=time.time_ns)

    def write(self, path: str, text: str | bytes) -> Path:
        """Save a note as another program; an event announces it."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        self.announce(path)
        return place

    def fill(self, notes: Mapping[str, str | bytes]) -> SyncDone:
        """Save notes, and sync."""
        for path, text in notes.items():
            self.write(path, text)
        return self.sync()

    def announce(self, path: str) -> None:
        self.workspace.note_unscanned(path, self.now_s)

    def open(self) -> str:
        return take(open_workspace(self.workspace, self.config, self.clock))

    def sync(self, *only: str, is_full: bool = False, grace_s: float = 0.0) -> SyncDone:
        return take(self.start_sync(*only, is_full=is_full, grace_s=grace_s))

    def start_sync(
        self, *only: str, is_full: bool = False, grace_s: float = 0.0
    ) -> Generator[None, None, SyncDone]:
        request = SyncRequest(only=frozenset(only) or None, is_full=is_full, grace_s=grace_s)
        return sync_workspace(self.workspace, self.config, self.clock, request)

    def update(self) -> SyncDone:
        """Sync as the scheduler does, or build an index first."""
        return self.follow()

    def close_for_good(self) -> None:
        take(close_workspace(self.workspace))

    def rebuild(self) -> SyncDone:
        return take(rebuild_index(self.workspace, self.config, self.clock))

    def edit(self, decide: Any) -> Any:
        return take(edit_workspace(self.workspace, self.config, self.clock, decide))

    def memory(self, command: str, path: str | None = None, **parameters: Any) -> Answer:
        """Run one command of the memory tool to its end."""
        params = MemoryParams(command=command, path=path, **parameters)  # type: ignore[arg-type]
        if command == "view":
            return view(self.workspace, params)
        return self.edit(make_decision(self.workspace, self.config, params)).answer  # type: ignore[no-any-return]

    def past(
        self, path: str | None = None, anchor: str | None = None, limit: int = 100, **more: Any
    ) -> list[RevisionInfo]:
        params = HistoryParams(anchor=anchor, path=path, limit=limit, **more)
        target = parse_target(params)
        return take(list_revisions(self.workspace, self.config, self.clock, target, params))  # type: ignore[no-any-return]

    def undo(
        self,
        path: str | None = None,
        anchor: str | None = None,
        revision: int | None = None,
        change_set: int | None = None,
        to: int | None = None,
        confirm: bool = False,
    ) -> Any:
        params = UndoParams(
            path=path,
            anchor=anchor,
            revision=revision,
            change_set=change_set,
            to=to,
            client="test",
            confirm=confirm,
        )
        return take(
            undo_revisions(self.workspace, self.config, self.clock, parse_target(params), params)
        )

    def see(self) -> None:
        """Record the texts of all notes."""
        take(record_all(self.workspace, self.config, self.clock))

    def follow(self, *only: str) -> SyncDone:
        """Sync as the scheduler does, and record what it found."""
        return take(self.start_following(*only))  # type: ignore[no-any-return]

    def start_following(self, *only: str) -> Generator[None, None, SyncDone]:
        return sync_and_record(
            self.workspace, self.config, self.clock, SyncRequest(only=frozenset(only) or None)
        )

    def files(self) -> dict[str, bytes]:
        """The content of the disk."""
        found = (place for place in self.root.rglob("*") if place.is_file())
        return {str(place.relative_to(self.root)): place.read_bytes() for place in found}

    def ask(self, statement: str, *bindings: object) -> list[tuple[Any, ...]]:
        assert self.workspace.readers is not None
        with self.workspace.readers.acquire(5) as reader:
            return reader.rows(statement, bindings)

    def paths(self) -> list[str]:
        """The paths of the notes that the index has."""
        return [row[0] for row in self.ask("SELECT path FROM files ORDER BY path")]

    def texts(self) -> dict[str, str]:
        """Path and text of notes that are not empty."""
        assert self.workspace.readers is not None
        with self.workspace.readers.acquire(5) as reader:
            texts = {path: read_note_text(reader, path) for path in self.paths()}
        return {path: text for path, text in texts.items() if text}


def carry_out_plan(bench: Bench, act: Any, params: Any, plan: Any, *, now_s: float) -> Any:
    """Carry out a plan as the dispatcher does, on this thread."""

    async def run(read: Any, **_: Any) -> Any:
        return read()

    async def edit(decide: Any) -> Any:
        return bench.edit(decide)

    async def open_now() -> Any:
        return bench.workspace

    call: Any = SimpleNamespace(
        open=open_now,
        read=run,
        edit=edit,
        config=bench.config,
        now_s=now_s,
        writer="test",
        describe_write=lambda outcome: {
            "workspace": "w",
            "generation": 1,
            "is_indexed": outcome.failure is None,
            "change_set": outcome.change_set,
        },
    )
    return asyncio.run(keep_up(call, act, params, plan, is_long=True))


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(name: str = "project", *, id: str = "", **entry: Any) -> Bench:  # noqa: A002  as the entry names it
        root = Path(os.path.realpath(tmp_path)) / name
        (root / ".memories").mkdir(parents=True)
        workspace = Workspace(
            Entry(id=id or f"{name}-1", name=name, root=str(root), **entry),
            POLICY,
            index_path=tmp_path / "cache" / name / "index.db",
            records_path=tmp_path / "state" / name / "records.db",
        )
        made.append(Bench(root=root, workspace=workspace))
        return made[-1]

    yield make
    for bench in made:
        bench.workspace.close()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """An open workspace without notes."""
    bench = make_bench()
    bench.open()
    return bench
