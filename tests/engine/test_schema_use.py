"""Each table and column of index.db and records.db is read by something that uses its value.

SQLite's authorizer names each column that a statement reads. Writing a note compares its rows with
those in the index, and `doctor --verify` compares all of them: both read columns that nothing uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apsw
import pytest

from memsyncd.config import Config
from memsyncd.core.search.filters import EVERYTHING
from memsyncd.core.search.filters import Filters as Conditions
from memsyncd.engine.accesses import note_accesses, store_accesses
from memsyncd.engine.answers import note_answer
from memsyncd.engine.browse import find_problems
from memsyncd.engine.metadata import bind_sort_keys, make_valuation
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.agents.declare import LogAgentsParams
from memsyncd.operations.agents.run import read_log
from memsyncd.operations.inbox import read_inbox
from memsyncd.operations.links.declare import LinksParams
from memsyncd.operations.links.run import find_links
from memsyncd.operations.notes.declare import GetParams, ListParams
from memsyncd.operations.notes.read import list_notes, read_place
from memsyncd.operations.sections import Filters
from memsyncd.operations.share.post import deliver, read_sent
from memsyncd.operations.signals.declare import SignalInboxParams, SignalSendParams
from memsyncd.operations.signals.run import send_signal
from memsyncd.operations.stats.declare import AccessStatsParams, StatsParams
from memsyncd.operations.stats.run import compute_access_stats, compute_stats
from memsyncd.operations.topics.declare import TopicListParams
from memsyncd.operations.topics.run import list_topics
from memsyncd.operations.travel import SignalLine, SignalLines
from memsyncd.operations.upkeep.declare import ArchiveParams
from memsyncd.operations.upkeep.run import plan_archive
from memsyncd.store import pages
from memsyncd.store.pages import PageOrder
from memsyncd.store.work import find_first_groups
from tests.engine.conftest import SEARCH_POLICY, Bench, build_block, search_in, take
from tests.engine.test_answers import REDIS
from tests.engine.test_answers import make as make_agent_answer

Columns = set[tuple[str, str]]

NOTE = """---
title: Release
kind: decision
tags: [ops]
task: T-1
created: 2026-03-01
importance: 0.95
pinned: true
---
# Deploy

redis answers, token = ghp_16C7e42F292c6912E7710c838347Ae178B4a

## Part

kubernetes [[unfinished](, see [[Release#^part]] and [[gone]]

the part ^part
"""
BLOCK = "0b0c7a3e-1111-2222-3333-444455556666"
ALL_FILTERS = Filters(
    kind=["decision"],
    tag=["ops"],
    path=["MEMORY.md"],
    section=["deploy"],
    task=["T-1"],
    topic=["release"],
    after="2026",
    before="2027",
)
# Both databases are ordinary SQLite files for other programs to read (the `sqlite3` shell).
UNREAD = {
    # The names in the request; revisions have only the notes that it changed.
    "change_sets": ("path", "new_path"),
    # A changed note is compared by these, so that few rows are written.
    "chunks": ("digest",),
    "workspace": ("created_at",),
}


FROM_AWAY = SignalLine(
    id="1",
    at=1.0,
    machine="away",
    writer="b",
    to=("agent:a@here",),
    type="note",
    text="done",
    expires=1e11,
)
RECORDS_TABLES = frozenset(
    {
        "access_sessions",
        "agent_answers",
        "answer_sections",
        "accesses",
        "blobs",
        "change_sets",
        "heads",
        "moves",
        "revisions",
        "signal_addressees",
        "signal_receipts",
        "signals",
        "workspace",
    }
)


class Recorder:
    """Collects the columns that statements read, of `tables` only if that is set."""

    def __init__(self) -> None:
        self.tables: frozenset[str] | None = None
        self.columns: Columns = set()

    def watch(self, connection: apsw.Connection) -> None:
        connection.authorizer = self._authorize

    def _authorize(self, action: int, table: str, column: str, *_where: object) -> int:
        if action == apsw.SQLITE_READ and (self.tables is None or table in self.tables):
            self.columns.add((table, column))
        return apsw.SQLITE_OK


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    apsw.connection_hooks.append(recorder.watch)
    yield recorder
    apsw.connection_hooks.remove(recorder.watch)


def test_each_column_is_read_by_something_that_uses_it(
    make_bench: Callable[..., Bench], recorder: Recorder
) -> None:
    bench = make_bench()
    recorder.tables = RECORDS_TABLES
    bench.open()
    change(bench)
    # A connection authorizes a statement once, so that all are opened again.
    bench.workspace.close()
    recorder.tables = None
    bench.open()
    ask(bench)
    kept = {(table, column) for table, columns in UNREAD.items() for column in columns}
    assert sorted(find_columns(bench) - recorder.columns - kept) == []
    assert sorted(kept & recorder.columns) == []


def change(bench: Bench) -> None:
    """Have notes written, renamed and undone."""
    bench.write("MEMORY.md", NOTE)
    bench.write(".memories/b.md", "one two\n")
    bench.follow()
    bench.memory("str_replace", "/memories/b.md", old_str="two", new_str="three")
    bench.memory("rename", old_path="/memories/b.md", new_path="/memories/c.md")
    (bench.root / ".memories/c.md").rename(bench.root / ".memories/d.md")
    bench.sync()
    bench.see()
    bench.memory("create", "/memories/e.md", file_text="four\n")
    bench.undo(".memories/e.md")
    note_accesses(bench.workspace, [".memories/d.md#"], session="s", at_s=1.0)
    take(store_accesses(bench.workspace, bench.config, bench.clock))
    note_answer(bench.workspace, bench.config.agents, make_agent_answer("search"))
    take(store_accesses(bench.workspace, bench.config, bench.clock))
    send = SignalSendParams(content="done", agents=["a"], key="k")
    take(send_signal(bench.workspace, bench.config, bench.clock, send, sender="b"))


def ask(bench: Bench) -> None:
    """Send the queries that read the index and the history, and scan the files."""
    workspace = bench.workspace
    for query in ("redis", '"redis answers"', "redis kubernetes", "nowhere", "redsi"):
        for filters in (Filters(), ALL_FILTERS, Filters(archived=True)):
            search_in([workspace], query, bench.config, filters=filters)
            build_block(workspace, query, filters=filters)
    build_block(workspace)
    [note, *_] = list_notes(workspace, SEARCH_POLICY, ListParams(kind="decision", tag="ops")).notes
    read_place(workspace, GetParams(anchor=note.sections[0].anchor), now_ns=1)
    assert list_notes(workspace, SEARCH_POLICY, ListParams(sort="worth")).notes
    find_links(workspace, SEARCH_POLICY, LinksParams(path="MEMORY.md"))
    find_links(workspace, SEARCH_POLICY, LinksParams(dangling=True))
    for is_all in (False, True):
        params = TopicListParams(sort="recency", include_archived=is_all)
        assert list_topics(workspace, SEARCH_POLICY, params, now_s=1.0).topics
    count_sections_of(workspace)
    plan_upkeep(workspace, bench.config)
    find_latest(workspace)
    find_problems(workspace)
    # Its name and its block are the targets of links.
    bench.write(
        ".memories/gone.md", f"[[Release#^part]] and (({BLOCK}))\n\n- block\n  id:: {BLOCK}\n"
    )
    bench.past()
    bench.sync(is_full=True)
    find_links(workspace, SEARCH_POLICY, LinksParams())
    params = AccessStatsParams()
    counting = compute_access_stats(
        workspace, bench.config, bench.clock, path=None, slugs=None, params=params
    )
    assert take(counting).accesses == 1
    send = SignalSendParams(content="done", agents=["a"], key="k")
    assert not take(send_signal(workspace, bench.config, bench.clock, send, sender="b")).is_new
    read = SignalInboxParams(agent="a")
    assert take(read_inbox(workspace, bench.config, bench.clock, read)).unread == 1
    here = take(read_sent(workspace, bench.config, bench.clock))
    exchanged = {"lines": SignalLines(signals={"1": FROM_AWAY}), "machine": "here", "here": here}
    taken = deliver(workspace, bench.config, bench.clock, **exchanged, is_pushed=True)
    assert take(taken)[1]
    log = take(read_log(workspace, bench.config, bench.clock, LogAgentsParams()))
    assert [answer.sections for answer in log.answers] == [[REDIS]]


def find_latest(workspace: Workspace) -> None:
    with workspace.acquire(1.0) as reader, pytest.MonkeyPatch.context() as patch:
        for filters in (Conditions(), Conditions(includes_archived=True)):
            assert find_first_groups(reader, filters, "task", most=1)[1] == 1
        patch.setattr(pages, "_are_few", lambda *_: False)
        order = PageOrder("worth", bind_sort_keys(make_valuation(SEARCH_POLICY, 1.0)))
        assert pages.find_page(reader, EVERYTHING, order, path=None, limit=9)


def count_sections_of(workspace: Workspace) -> None:
    stats = StatsParams(filters=Filters(include_archived=True, include_expired=True))
    for params in (StatsParams(), stats):
        compute_stats(workspace, SEARCH_POLICY, params, now_s=1.0, accesses={})


def plan_upkeep(workspace: Workspace, config: Config) -> None:
    valuation = make_valuation(config, 1.0)
    for params in (ArchiveParams(), ArchiveParams(filters=Filters(kind=["decision"]))):
        plan_archive(workspace, config, params, valuation)


def find_columns(bench: Bench) -> Columns:
    """The columns of all tables but FTS5's, whose words are read by MATCH."""
    tables = "SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main'"
    found: Columns = set()
    for part in (bench.workspace.index, bench.workspace.records):
        connection = part._writer
        for (table,) in connection.execute(tables).fetchall():
            columns = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            found |= {(table, column) for (column,) in columns if not table.startswith("sqlite_")}
    return found
