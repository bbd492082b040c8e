"""Requests to faulty workspaces: real workspaces on the real disk, on this loop."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from memsyncd.config import Config, SyncConfig
from memsyncd.daemon.resources import read_process_stats
from memsyncd.engine import explain, rebuild
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import Registry
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.worker import Job, QueryPool
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import StoreCorrupt
from memsyncd.operations.changes.declare import SubscribeParams
from memsyncd.operations.context.declare import ContextParams
from memsyncd.operations.daemon import Facts, Load, ServerCounters
from memsyncd.operations.fields import Params
from memsyncd.operations.links.declare import LinksParams
from memsyncd.operations.notes import read as notes_read
from memsyncd.operations.notes.declare import GetParams, ListParams
from memsyncd.operations.search.declare import SearchParams
from memsyncd.operations.semantic.declare import SemanticStatus
from memsyncd.operations.stats.declare import StatsParams
from memsyncd.operations.status.declare import PanelAddress, ProblemsParams
from memsyncd.semantic import NoVectors
from memsyncd.server import asking
from memsyncd.server.handlers import Handlers
from memsyncd.server.reads import Reads
from memsyncd.server.session import Limits, Session
from memsyncd.store.index import Index
from memsyncd.store.lookup import find_similar_words

CLOCK = Clock(now_s=time.monotonic, wall_ns=time.time_ns)
LIMIT_S = 60.0


async def refuse_panel() -> PanelAddress:
    raise AssertionError("no test opens the panel")


class HandlersBench:
    """A client of the handlers, and the objects behind them."""

    def __init__(self, folder: Path, config: Config) -> None:
        registry = Registry(folder / "workspaces.json", home="/nowhere", uid=os.geteuid())
        self.workspaces = Workspaces(
            registry=registry, state_dir=folder, cache_dir=folder, config=config, clock=CLOCK
        )
        self.workspaces.start([])
        self.threads = QueryPool(1)
        self.counts = ServerCounters()
        facts = Facts(
            read_rss=lambda _pid: 0,
            pid=1, socket=str(folder / "run/s"), find_config=lambda: "", sqlite="", started_at_s=0.0,
            read_process=read_process_stats, open_panel=refuse_panel, read_load=lambda: Load(n_clients=1, n_running=2, n_waiting=3, counts=self.counts),
        )  # fmt: skip
        self.handlers = Handlers(
            self.workspaces,
            CLOCK,
            Reads(self.workspaces, self.threads, CLOCK, 1),
            facts,
            Limits(),
        )
        self.subscriptions = self.handlers._subscriptions
        self._session = Session(session_id=1, peer_pid=1, send=lambda _line: True)

    async def ask(self, method: str, params: Params) -> Any:
        outcome = self.handlers.dispatch(self._session, method, params)
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def add(self, root: Path) -> Workspace:
        workspace = self.workspaces.add(str(root))
        await wait_for(lambda: workspace.condition.state == "ready")
        return workspace

    def close(self) -> None:
        self.workspaces.stop()
        self.threads.shutdown()


class PreparedVectors(NoVectors):
    """Notes what is prepared; words alone answer."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[str] = []

    def status(self) -> SemanticStatus:
        return SemanticStatus(state="ready")

    def prepare(self, question: str) -> None:
        self.prepared.append(question)


async def wait_for(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not is_so():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.01)


def run(
    folder: Path,
    *scenarios: Callable[[HandlersBench], Awaitable[None]],
    config: Config = Config(),  # noqa: B008  it cannot be changed
) -> None:
    """Each scenario has its own objects of a daemon; files stay."""

    async def run_scenario(scenario: Callable[[HandlersBench], Awaitable[None]]) -> None:
        bench = HandlersBench(folder, config)
        try:
            await scenario(bench)
        finally:
            await asyncio.get_running_loop().run_in_executor(None, bench.close)

    for scenario in scenarios:
        asyncio.run(run_scenario(scenario))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    root.mkdir()
    (root / "MEMORY.md").write_text("# Redis\n\nthe cache is hot\n")
    return root


def damage_table(index_path: Path, table: str) -> None:
    with apsw.Connection(str(index_path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
        n_bytes = connection.pragma("page_size")
    connection.close()
    with index_path.open("r+b") as file:
        file.seek((page - 1) * n_bytes)
        file.write(b"\xee" * n_bytes)


@pytest.mark.parametrize(
    ("method", "params", "table"),
    [
        ("list", ListParams(), "sections"),
        ("get", GetParams(anchor="MEMORY.md#redis"), "sections"),
        ("problems", ProblemsParams(), "problems"),
        ("context", ContextParams(), "sections"),
    ],
)
def test_damage_that_any_read_finds_is_repaired(
    tmp_path: Path, root: Path, method: str, params: Params, table: str
) -> None:
    async def index(bench: HandlersBench) -> None:
        await bench.add(root)

    async def meet(bench: HandlersBench) -> None:
        workspace = bench.workspaces.find(None)
        await wait_for(lambda: workspace.condition.state == "ready")
        damage_table(workspace.index_path, table)
        with pytest.raises(StoreCorrupt):
            await bench.ask(method, params)
        await wait_for(lambda: workspace.condition.n_rebuilds > 0)
        await bench.ask(method, params)

    run(tmp_path, index, meet)


@pytest.mark.parametrize("has_time", [True, False])
def test_a_search_waits_a_moment_for_a_save_that_is_being_indexed(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, has_time: bool
) -> None:
    monkeypatch.setattr(asking, "SAVE_WAIT_S", LIMIT_S if has_time else 0.001)
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> Job[None]:
        is_held.set()
        assert is_over.wait(LIMIT_S)
        yield

    async def search(bench: HandlersBench) -> None:
        workspace = await bench.add(root)
        await wait_for(lambda: workspace.is_recorded and not bench.workspaces.count_jobs())
        bench.workspaces.prepare(hold)
        await wait_for(is_held.is_set)
        (root / "saved.md").write_text("# Larch\n")
        (root / "saved.md").rename(root / "MEMORY.md")
        # The folder may not be watched yet.
        bench.workspaces.scheduler.on_event(
            workspace.id, "MEMORY.md", is_finished=True, is_folder=False
        )
        await wait_for(lambda: bench.workspaces.scheduler.find_save(workspace) is not None)
        workspace.vectors = vectors = PreparedVectors()
        search = asyncio.ensure_future(bench.ask("search", SearchParams(query="larch")))
        if has_time:
            await asyncio.sleep(0)
            assert not search.done()
            assert vectors.prepared == ["larch"]  # its vector is made while the save is indexed
            is_over.set()
        assert len((await search).hits) == has_time
        is_over.set()

    run(tmp_path, search)


def test_a_quick_search_that_has_waited_for_the_disk_takes_no_thread(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "LOOP_BUDGET_S", LIMIT_S)

    async def search(bench: HandlersBench) -> None:
        await bench.add(root)
        await wait_for(lambda: not bench.workspaces.count_jobs())
        n_before = bench.threads.n_done
        (root / "MEMORY.md").write_text("# Larch\n")
        found = await bench.ask("search", SearchParams(query="larch", wait="disk"))
        assert len(found.hits) == 1
        assert bench.threads.n_done == n_before

    run(tmp_path, search)


@pytest.mark.skipif(sys.platform != "linux", reason="only inotify tells of events to come")
def test_the_first_search_after_a_save_finds_it(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "SAVE_WAIT_S", LIMIT_S)

    async def save_and_search(bench: HandlersBench, number: int) -> int:
        (root / "saved.tmp").write_text(f"# Larch\n\nthe word is larch{number}\n")
        (root / "saved.tmp").rename(root / "MEMORY.md")
        return len((await bench.ask("search", SearchParams(query=f"larch{number}"))).hits)

    async def search(bench: HandlersBench) -> None:
        await bench.add(root)
        numbers, watcher = itertools.count(), bench.workspaces.watching.watcher
        handle = watcher._on_event

        def handle_slowly(*event: Any) -> None:
            time.sleep(0.005)
            handle(*event)

        watcher._on_event = handle_slowly
        async with asyncio.timeout(LIMIT_S):
            # The folder may not be watched yet.
            while not await save_and_search(bench, next(numbers)):
                await wait_for(lambda: not bench.workspaces.count_jobs())
        assert [await save_and_search(bench, next(numbers)) for _ in range(10)] == [1] * 10

    run(tmp_path, search, config=Config(sync=SyncConfig(debounce_ms=0)))


@pytest.mark.skipif(sys.platform != "linux", reason="only inotify tells of events to come")
def test_an_answer_from_before_the_event_of_a_save_is_handled_says_that_a_note_is_pending(
    tmp_path: Path, root: Path
) -> None:
    async def search(bench: HandlersBench) -> None:
        workspace = await bench.add(root)
        other = tmp_path / "other"
        other.mkdir()
        (other / "MEMORY.md").write_text("# Birch\n")
        await bench.add(other)
        is_holding, is_over = threading.Event(), threading.Event()
        watcher = bench.workspaces.watching.watcher
        handle = watcher._on_event

        def hold(*event: Any) -> None:
            is_holding.set()
            assert is_over.wait(LIMIT_S)
            handle(*event)

        def save(text: str) -> None:
            (root / "MEMORY.md").write_text(f"# {text}\n")

        await wait_for(lambda: workspace.condition.state == "ready")
        await wait_for(lambda: not workspace.pending and not bench.workspaces.count_jobs())
        watcher._on_event = hold
        async with asyncio.timeout(LIMIT_S):
            # The folder may not be watched yet.
            for number in itertools.count():
                save(f"larch{number}")
                if is_holding.is_set():
                    break
                await asyncio.sleep(0.01)
        await wait_for(lambda: not bench.workspaces.count_jobs())
        save(f"larch{(number := number + 1)}")
        found = await bench.ask(
            "search", SearchParams(query=f"larch{number}", workspace=workspace.id)
        )
        others = [
            await bench.ask(
                "context", ContextParams(query=f"larch{number}", workspace=workspace.id)
            ),
            await bench.ask("list", ListParams(workspace=workspace.id)),
            await bench.ask("stats", StatsParams(workspace=workspace.id)),
            await bench.ask("links", LinksParams(workspace=workspace.id)),
            await bench.ask("search", SearchParams(query=f"larch{number}", workspace="*")),
            await bench.ask("context", ContextParams(query=f"larch{number}", workspace="*")),
        ]
        is_over.set()
        assert not found.hits
        pending = [one.freshness.pending for one in (found, *others)]
        assert pending[:5] == [1] * 5
        # A note that was read just after it was saved is read again, in the other folder as well.
        assert all(1 <= one <= 2 for one in pending[5:])
        assert {*map(type, pending)} == {int}

    run(tmp_path, search)


def test_a_list_has_the_generation_that_it_was_read_from(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = notes_read.list_notes

    async def ask(bench: HandlersBench) -> None:
        workspace = await bench.add(root)
        await wait_for(lambda: not workspace.pending and not bench.workspaces.count_jobs())
        generation = workspace.condition.generation

        def read_and_sync(*args: Any, **options: Any) -> Any:
            notes = read(*args, **options)
            (root / "MEMORY.md").write_text("# Larch\n")
            bench.workspaces.scheduler.sync(workspace).result(LIMIT_S)
            return notes

        monkeypatch.setattr(notes_read, "list_notes", read_and_sync)
        listed = await bench.ask("list", ListParams())
        assert workspace.condition.generation > generation
        assert listed.freshness.generation == generation

    run(tmp_path, ask)


def test_a_generation_reached_before_a_restart_is_found_as_soon_as_the_index_is_open(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = 0

    async def index(bench: HandlersBench) -> None:
        nonlocal reached
        workspace = await bench.add(root)
        reached = workspace.condition.generation
        assert reached > 0

    async def ask_at_once(bench: HandlersBench) -> None:
        found = await bench.ask(
            "search", SearchParams(query="cache", min_generation=reached, timeout_ms=3000)
        )
        assert [hit.path for hit in found.hits] == ["MEMORY.md"]

    def open_slowly(*args: Any, **options: Any) -> Index:
        time.sleep(0.2)
        return Index(*args, **options)

    run(tmp_path, index)
    monkeypatch.setattr(rebuild, "Index", open_slowly)
    run(tmp_path, ask_at_once)


def test_similar_words_are_looked_up_off_the_event_loop(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[bool] = []

    def find(*args: Any) -> Any:
        places.append(threading.current_thread() is threading.main_thread())
        return find_similar_words(*args)

    async def ask(bench: HandlersBench) -> None:
        await bench.add(root)
        assert (await bench.ask("search", SearchParams(query="cahce"))).did_you_mean == "cache"
        assert places == [False]

    monkeypatch.setattr(explain, "find_similar_words", find)
    run(tmp_path, ask)


def test_a_search_of_all_workspaces_without_one_is_an_error(tmp_path: Path) -> None:
    async def ask(bench: HandlersBench) -> None:
        found = await bench.ask("search", SearchParams(query="cache", workspace="*"))
        assert found.hits == []
        assert "no workspace" in found.why_empty

    run(tmp_path, ask)


def make_done(generation: int) -> SyncDone:
    return SyncDone(started_at_s=0.0, began_s=0.0, generation=generation, paths=["MEMORY.md"])


def read_sent(sent: list[bytes]) -> list[int]:
    return [json.loads(line)["params"]["generation"] for line in sent]


@pytest.mark.parametrize("is_early", [False, True])
def test_a_sync_that_a_subscription_has_caught_up_with_is_not_sent_again(
    tmp_path: Path, root: Path, is_early: bool
) -> None:
    """Early: its end is notified before the changes that were missed are sent."""

    async def scenario(bench: HandlersBench) -> None:
        workspace = await bench.add(root)
        (root / "MEMORY.md").write_text("# Larch\n")
        await asyncio.wrap_future(bench.workspaces.scheduler.sync(workspace))
        last = workspace.condition.generation
        sent: list[bytes] = []
        session = Session(session_id=2, peer_pid=1, send=lambda line: not sent.append(line))
        params = SubscribeParams(workspace=workspace.id, since=last - 1)
        bench.subscriptions.subscribe(session, params)
        if is_early:
            bench.subscriptions._notify(workspace, make_done(last))
        await asyncio.sleep(0)
        assert read_sent(sent) == [last]
        # The ends of two syncs are notified late: the first is a part of what was sent.
        for number in (last, last + 1):
            bench.subscriptions._notify(workspace, make_done(number))
        assert read_sent(sent) == [last, last + 1]

    run(tmp_path, scenario)


def test_a_sync_whose_generation_a_subscriber_knows_is_not_sent(tmp_path: Path, root: Path) -> None:
    async def scenario(bench: HandlersBench) -> None:
        workspace = await bench.add(root)
        last = workspace.condition.generation
        sent: list[bytes] = []
        session = Session(session_id=2, peer_pid=1, send=lambda line: not sent.append(line))
        params = SubscribeParams(workspace=workspace.id, since=last)
        bench.subscriptions.subscribe(session, params)
        await asyncio.sleep(0)
        for number in (last, last + 1):
            bench.subscriptions._notify(workspace, make_done(number))
        assert read_sent(sent) == [last + 1]

    run(tmp_path, scenario)


def test_a_folder_that_is_added_again_is_notified_from_its_first_generation(
    tmp_path: Path, root: Path
) -> None:
    async def scenario(bench: HandlersBench) -> None:
        workspace = await bench.add(root)
        for number in range(3):
            (root / "MEMORY.md").write_text(f"# Larch {number}\n")
            await asyncio.wrap_future(bench.workspaces.scheduler.sync(workspace))
        sent: list[bytes] = []
        session = Session(session_id=2, peer_pid=1, send=lambda line: not sent.append(line))
        params = SubscribeParams(workspace=workspace.id, since=1)
        bench.subscriptions.subscribe(session, params)
        await asyncio.sleep(0)
        bench.workspaces.remove(workspace)
        again = await bench.add(root)
        assert again.id == workspace.id
        await wait_for(lambda: len(sent) > 1)
        assert read_sent(sent)[1] == again.condition.generation < read_sent(sent)[0]

    run(tmp_path, scenario)


async def read_generations(reader: asyncio.StreamReader, n: int) -> list[int]:
    """The generations of the next changes of a stream of events."""
    found: list[int] = []
    name = ""
    while len(found) < n:
        field, _, value = (await reader.readline()).decode().strip().partition(": ")
        name = value if field == "event" else name
        if (field, name) == ("data", "changed"):
            found.append(json.loads(value)["generation"])
    return found


@pytest.mark.parametrize("is_early", [False, True])
def test_a_stream_that_resumes_gets_no_sync_again_whose_end_is_notified_late(
    tmp_path: Path, root: Path, serve_at: Any, is_early: bool
) -> None:
    """Early: before the stream has sent what was missed."""

    async def scenario(bench: HandlersBench) -> None:
        workspace = await bench.add(root)
        (root / "MEMORY.md").write_text("# Larch\n")
        await asyncio.wrap_future(bench.workspaces.scheduler.sync(workspace))
        last = workspace.condition.generation
        head = f"GET /v1/events HTTP/1.1\r\nHost: d\r\nLast-Event-ID: {workspace.id}:{last - 1},absent:7\r\n\r\n"
        async with serve_at(tmp_path, handlers=bench.handlers) as serving, asyncio.timeout(LIMIT_S):
            client = await serving.connect()
            client.writer.write(head.encode())
            if is_early:
                while not bench.subscriptions._subscriptions:  # noqa: ASYNC110  has no event
                    await asyncio.sleep(0)
                bench.subscriptions._notify(workspace, make_done(last))
            found = await read_generations(client.reader, 1)
            for number in (last, last + 1):
                bench.subscriptions._notify(workspace, make_done(number))
            found += await read_generations(client.reader, 1)
            assert found == [last, last + 1]

    run(tmp_path, scenario)
