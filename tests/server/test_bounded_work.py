"""No reading call does more work in a workspace with ten times as many notes, and no write.

Each reading operation of the table is called in two workspaces of one generator, right after a
save, so that nothing is remembered from an earlier call. Work is counted, not timed: steps and rows
of SQLite, opened files, bytes of the answer (`tests/growing`). An operation whose work grows stands
in `GROWING` with the reason; a call that no longer grows must leave `GROWING`.

To measure a method while you mend it: `pytest -n 0 -s tests/server/test_bounded_work.py -k
task.ready` prints its work in both workspaces.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memsyncd.config import Config, SyncConfig
from memsyncd.engine import scheduler, workspaces
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.notes.declare import MemoryParams, NoteAddParams
from memsyncd.operations.signals.declare import SignalSendParams
from memsyncd.operations.table import OPERATIONS
from memsyncd.store import connection
from tests.growing import (
    AREA,
    CALLS,
    GROUP,
    NOTE,
    SECTION,
    Work,
    WorkCounter,
    name_note,
    write_notes,
)
from tests.server.test_handlers import HandlersBench

N_SMALL, N_LARGE = 60, 600
MOST = 2.5
"""A call that does more than so many times the work grows with the workspace."""
N_TRIES = 3

# These read everything by their purpose: `records.backup` and `memory.export` copy it, `sync` scans
# the disk. `memory.import` reads the user's file, and `share.…` asks git.
WHOLE = {"records.backup", "memory.export", "sync", "memory.import", "share.log", "share.status"}

MATCHES = "bm25 reads each passage that has one of the words"
GROWING: dict[str, str] = {
    "search for nothing": "counts up to 1,000 matches, and the tags of these",
    "search for a common word": MATCHES,
    "recall by kind": "compares up to 500 sections of the kind, and reads up to 200 of them",
    "list by kind": "sorts up to 2,000 sections of the kind",
    "similar": MATCHES,
    "duplicates": "compares all sections, some at a time",
    "access.stats": "sorts all sections that were recalled",
    "topic.list": "reads the sections of recalled topics until no other can be among the first",
    "archive": "sorts the places of up to 2,000 memories of each list",
    "cleanup": "sorts the places of up to 2,000 memories of each list",
    "signal.inbox": "counts all unread signals to the agent",
}
"""The calls whose work grows with the workspace, each with the reason."""

PAGES = {"list", "list by worth", "task.list of all tasks"}
"""The calls whose usual page is larger than the small workspace. They get a page of five."""


Call = tuple[str, dict[str, Any]]
"""A method and its parameters."""


_note_accesses = workspaces.Workspaces.note_accesses


class Grown:
    """A home with one workspace, and the counter of its work."""

    def __init__(
        self, folder: Path, n_notes: int, runner: asyncio.Runner, counter: WorkCounter
    ) -> None:
        self._counter = counter
        self._runner = runner
        self._n_saves = 0
        self._root = folder / "notes"
        self._root.mkdir(parents=True)
        write_notes(self._root, n_notes)
        self._bench, self._workspace = runner.run(self._open(folder, n_notes))

    async def _open(self, folder: Path, n_notes: int) -> tuple[HandlersBench, Workspace]:
        bench = HandlersBench(folder, Config(sync=SyncConfig(reconcile_s=86_400)))
        bench.workspaces.scheduler.checks.stop(0)
        workspace = await bench.add(self._root)
        anchors = [name_note(number) + "#" for number in range(n_notes)]
        # Other homes may have replaced the method.
        _note_accesses(bench.workspaces, workspace, anchors, session="S-1")
        bench.workspaces._store_accesses(workspace)
        for number in range(n_notes // GROUP):
            params = SignalSendParams(content=f"signal {number}", agents=["a-1"], client="a-2")
            await bench.ask("signal.send", params)
        change = MemoryParams(
            command="insert",
            path=f"/{NOTE.replace('.memories', 'memories')}",
            insert_line=3,
            insert_text="It was changed.\n",
        )
        await bench.ask("memory", change)
        section = NoteAddParams(note=UNDONE, content="It is taken back.")
        await bench.ask("note.add", section)
        return bench, workspace

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        operation = OPERATIONS[method]
        return await self._bench.ask(method, msgspec.convert(params, operation.params))

    async def _save(self) -> None:
        """Save a note, and wait until that is indexed and recorded.

        Its text stays, because each new text would make FTS5 look at one more place for each word.
        """
        self._n_saves += 1
        text = f"---\nrating: {self._n_saves}\n---\n\n# Saved\n\nThe text stays.\n"
        (self._root / ".memories/saved.md").write_text(text)
        await asyncio.wrap_future(self._bench.workspaces.scheduler.scan(self._workspace))
        while self._bench.workspaces.scheduler._worker.is_busy:  # noqa: ASYNC110  no event tells it
            await asyncio.sleep(0.001)

    def measure(self, call: Call, inverse: Call | None = None) -> Work:
        """Return the work of a call right after a save. Its modules have been imported before: it
        is called twice, and `inverse` takes the first call back.
        """

        async def run() -> Work:
            await self._call(*call)
            if inverse is not None:
                await self._call(*inverse)
            await self._save()
            with self._counter.counting() as work:
                result = await self._call(*call)
            if inverse is not None:
                await self._call(*inverse)
            work.bytes = len(msgspec.json.encode(result))
            return work

        return self._runner.run(run())

    def close(self) -> None:
        self._bench.close()


@contextlib.contextmanager
def growing(factory: pytest.TempPathFactory) -> Iterator[tuple[Grown, Grown]]:
    counter = WorkCounter()
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner, counter.watch():
        # Nothing else may read or write beside a call that is measured.
        patch.setattr(scheduler, "TIDY_AFTER_S", 86_400.0)
        patch.setattr(workspaces, "FLUSH_S", 86_400.0)
        # No call is interrupted and begun again, so that the work does not depend on the time.
        patch.setattr(connection, "set_deadline", lambda *_: None)
        small, large = (
            Grown(factory.mktemp(f"of-{n_notes}"), n_notes, runner, counter)
            for n_notes in (N_SMALL, N_LARGE)
        )
        # Accesses by the calls would be most of all accesses in the small workspace.
        patch.setattr(workspaces.Workspaces, "note_accesses", lambda *_, **__: None)
        yield small, large
        small.close()
        large.close()


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Grown, Grown]]:
    with growing(tmp_path_factory) as both:
        yield both


@pytest.fixture(scope="module")
def changed_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Grown, Grown]]:
    """Homes whose notes the writes change, so that no read depends on the order of the tests."""
    with growing(tmp_path_factory) as both:
        yield both


@pytest.mark.parametrize("case", CALLS)
def test_a_reading_call_does_no_more_work_in_a_larger_workspace(
    case: str, homes: tuple[Grown, Grown]
) -> None:
    method = case.split(maxsplit=1)[0]
    params = CALLS[case] | ({"limit": 5} if case in PAGES else {})
    for _ in range(N_TRIES):
        small, large = (home.measure((method, params)) for home in homes)
        growth = small.compare(large)
        print(f"\n{case}: {growth:.1f} times: {small.describe()}\n  and {large.describe()}")
        if (growth > MOST) == (case in GROWING):
            break  # otherwise other work may have come between, and it is measured again
    if case in GROWING:
        assert growth > MOST, f"take {case!r} out of GROWING: its work no longer grows"
    else:
        assert growth <= MOST


def test_each_reading_operation_says_how_it_is_called() -> None:
    reading = {
        name
        for name, operation in OPERATIONS.items()
        if (operation.reads or operation.reads_if) and name not in WHOLE
    }
    assert sorted(reading - {case.split(maxsplit=1)[0] for case in CALLS}) == []
    assert sorted(GROWING.keys() - CALLS.keys()) == []


def rename(old: str, new: str) -> Call:
    return "memory", {"command": "rename", "old_path": old, "new_path": new, "update_links": True}


def change(**selected: Any) -> tuple[Call, Call]:
    """Make memories pinned, and take that back."""
    params = {**selected, "apply": True}
    return ("memory.set", params | {"add_tags": ["pinned"]}), (
        "memory.set",
        params | {"remove_tags": ["pinned"]},
    )


INSERT: Call = (
    "memory",
    {
        "command": "insert",
        "path": f"{AREA}/note-12.md",
        "insert_line": 3,
        "insert_text": "A.\n",
    },
)
ADDED = {"note": NOTE, "content": "It was added.", "kind": "bug", "task": "T-1"}
UNDONE = name_note(25)
# Each write with the call that takes it back.
WRITES: dict[str, tuple[Call, Call | None]] = {
    "a note is renamed": (
        rename(f"{AREA}/note-12.md", f"{AREA}/other.md"),
        rename(f"{AREA}/other.md", f"{AREA}/note-12.md"),
    ),
    "a folder is renamed": (rename(AREA, "/memories/other"), rename("/memories/other", AREA)),
    "a line is added": (INSERT, INSERT),
    "a section is added": (("note.add", ADDED), ("undo", {"path": NOTE})),
    "sections are added": (
        ("note.add_many", {"items": [ADDED, ADDED]}),
        ("undo", {"path": NOTE}),
    ),
    "a change is undone": (("undo", {"path": UNDONE}), ("note.add", ADDED | {"note": UNDONE})),
    "a memory is changed": change(anchors=[SECTION]),
    "the memories of a task are changed": change(filters={"task": ["T-1"]}),
    "a session begins": (("session.start", {"session": "S-new", "task": "T-1"}), None),
    "progress is saved": (
        ("task.checkpoint", {"content": "It runs.", "session": "S-1", "task": "T-1"}),
        None,
    ),
    "a signal is sent": (("signal.send", {"content": "Done.", "agents": ["a-9"]}), None),
}


@pytest.mark.parametrize("case", WRITES)
def test_a_write_does_no_more_work_in_a_larger_workspace(
    case: str, changed_homes: tuple[Grown, Grown]
) -> None:
    for _ in range(N_TRIES):
        small, large = (home.measure(*WRITES[case]) for home in changed_homes)
        print(
            f"\n{case}: {small.compare(large):.1f} times: {small.describe()}\n  and {large.describe()}"
        )
        if small.compare(large) <= MOST:
            break  # otherwise a sync may have come between, and it is measured again
    assert small.compare(large) <= MOST
