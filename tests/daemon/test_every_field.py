"""No field of any method is accepted and ignored.

Each method is called in two workspaces with the same notes, in one of them with one more field. The
answers, the notes, the history or the counts of accesses differ, or `ELSEWHERE` says what the field
does instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import FieldInfo, fields

from memsyncd.errors import MemsyncdError
from memsyncd.operations.notes.declare import NewSection
from memsyncd.operations.pages import NotePlace, encode_cursor
from memsyncd.operations.sections import Filters
from memsyncd.operations.table import OPERATIONS
from tests.daemon.conftest import Daemon, Home, Place
from tests.daemon.test_mcp import connect

pytestmark = pytest.mark.shared_daemon

NOTES = {
    "MEMORY.md": "# Memory\n\nThe first hour. See [[redis]].\n",
    "README.md": "# Proj\n\nWhat it is for.\n",
    ".memories/redis.md": """\
---
title: Redis
tags: [cache]
---
# Redis

- part_of [[platform]]

## Timeouts
<!-- memory: {kind: error, tags: [cache, bug], importance: 0.9, priority: P1, lifecycle: task, \
source: interview, task: T-1, session: s-1, topic: auth, keywords: [pool], status: open, \
created: 2026-01-31, owner: infra} -->
Redis gives up after thirty seconds of waiting for a pool.

- resolved_by [[platform#Pool]]

## Sockets
<!-- memory: {kind: error, tags: [bug], importance: 1.0, priority: P0, task: T-1, topic: auth, \
created: 2026-01-30} -->
Redis gives up after thirty seconds of waiting for sockets.
""",
    ".memories/platform.md": """\
# Platform

It runs everything, and redis. See [[nowhere]].

## Pool
<!-- memory: {kind: decision, lifecycle: project, tags: [rule], created: 2025-02-01} -->
A pool of ten waits for redis.

## Queue
<!-- memory: {kind: decision, created: 2026-02-01} -->
Ten jobs wait in a queue.

## Summary
<!-- memory: {kind: summary, task: T-1, created: 2026-02-02} -->
Half of redis is done, and ten of its jobs wait for the other half of the work.

## Old
<!-- memory: {kind: decision, task: T-1, lifecycle: project, status: archived, tags: [bug], \
created: 2026-02-03} -->
A pool of ten waits for redis.

## Past
<!-- memory: {kind: decision, task: T-1, session: s-1, expires: 2026-02-05, \
created: 2026-02-03} -->
Half of redis is done, and ten of its jobs wait for the other half of the work.
""",
    ".memories/shelf.md": """\
---
status: archived
---
# Shelf

Old things.
""",
    ".memories/forks.md": """\
# Forks

## Road

To the left.

## Road
<!-- memory: {conflict: forks/road} -->

To the right.
""",
    "docs.txt": "Docs\n====\n\nHow it is used.\n",
    ".memories/log.md": """\
# Log

## Status

- 2026-03-02T00:00:00Z Second.
- 2026-03-01T00:00:00Z First.
""",
}
ROAD, OTHER_ROAD = ".memories/forks.md#forks/road", ".memories/forks.md#forks/road-2"
REDIS, LOG = ".memories/redis.md", ".memories/log.md"
ERROR, SOCKETS = f"{REDIS}#redis/timeouts", f"{REDIS}#redis/sockets"
SUMMARY = ".memories/platform.md#platform/summary"
POOL, OLD = ".memories/platform.md#platform/pool", ".memories/platform.md#platform/old"
TEXT = "Redis gives up after thirty seconds of waiting for sockets."


# Ids, and times that differ from call to call, are not compared.
_UNSTABLE = frozenset(
    "workspace workspaces generation freshness synced_at modified_at at duration_ms plan last_at"
    " subscription generations id sections_at recorded_at started_at".split()
)
_NOW = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?\b")

# A method with these parameters answers something; `workspace` is added.
BASE: dict[str, dict[str, Any]] = {
    "search": {"query": "redis"},
    "context": {"query": "redis", "user": False},
    "get": {"path": REDIS},
    "render": {"path": REDIS},
    "render.texts": {"texts": ["A *kite*."]},
    "similar": {"text": TEXT, "min_similarity": 0.1},
    "duplicates": {"min_similarity": 0.1},
    "links": {"path": REDIS},
    "access.record": {"anchors": [ERROR]},
    "memory": {"command": "rename", "old_path": "/memories/redis.md", "new_path": "/memories/r.md"},
    "memory.clear": {"confirm": True},
    "note.add": {"content": "A new thing about kites."},
    "note.add_many": {"items": [{"content": "A new thing about kites."}]},
    "memory.set": {"anchors": [ERROR]},
    "memory.done": {"anchors": [ERROR]},
    "memory.relate": {"anchor": ERROR, "relation": "informs", "to": POOL},
    "memory.forget": {"anchors": [POOL]},
    "memory.replace": {"anchor": ERROR, "content": "It waits no more."},
    "memory.choose": {"anchor": ROAD, "keep": "this"},
    "capture": {"step": "build", "error": "exit 2"},
    "archive": {"anchors": [SOCKETS]},
    "archive.restore": {"anchors": [OLD]},
    "promote": {"anchor": POOL, "tag": "decision"},
    "recall": {"kind": "decision"},
    "topic.get": {"topic": "platform"},
    "topic.create": {"title": "Kites"},
    "topic.patch": {"topic": "redis", "title": "The Redis"},
    "topic.archive": {"topics": ["log"]},
    "topic.restore": {"topics": ["log"]},
    "field.append": {"topic": "log", "field": "Status", "content": "Third."},
    "field.history": {"topic": "log", "field": "Status"},
    "history.purge": {"path": LOG},
    "diff": {"path": LOG},
    "undo": {"path": LOG},
    "task.list": {"task": "T-1"},
    "task.context": {"task": "T-1"},
    "task.checkpoint": {"content": "Half.", "task": "T-2"},
    "task.summarize": {"task": "T-1"},
    "session.start": {"session": "s-9"},
    "session.resume": {"session": "s-1"},
    "session.end": {"session": "s-1"},
    "signal.send": {"content": "done", "agents": ["ann"]},
    "signal.inbox": {"agent": "bob"},
    "signal.ack": {"agent": "bob", "signals": [1]},
}
# Values that change something wherever a field has this name.
VALUES: dict[str, Any] = {
    "client": "ann",
    "apply": True,
    "limit": 1,
    "offset": 1,
    "importance": 0.1,
    "kind": "decision",
    "tags": ["new"],
    "tag": ["rule"],
    "priority": "P0",
    "lifecycle": "project",
    "source": "book",
    "task": "T-7",
    "wu_id": "T-7",
    "session": "s-7",
    "topic": "wind",
    "keywords": ["air"],
    "scope": "here",
    "status": "blocked",
    "relations": ["informs=platform"],
    "created": "2020-01-01",
    "updated": "2020-01-01",
    "expires": "2999-01-01",
    "metadata": {"owner": "ann"},
    "summary": "Kites",
    "note": "other",
    "include_archived": True,
    "plan": "another",
    "if_digest": "another",
    "track_access": True,
    "explain": True,
    "sort": "worth",
    "follow": ["resolved_by", "part_of"],
    "max_bytes": 300,
    "max_tokens": 100,
    "below": 0.5,
    "path": ".memories/platform.md",
    "agent": "bob",
    "type": "blocked",
}


ON, OFF = True, False


class With:
    """A value together with other parameters than `BASE` has."""

    def __init__(self, value: Any, **base: Any) -> None:
        self.value, self.base = value, base


CHANGES: dict[tuple[str, str], Any] = {
    ("search", "query"): With("pool"),
    ("search", "min_score"): 0.9,
    ("search", "sort"): With("file", query="kind:decision,error,summary"),
    ("search", "limit"): With(1, query="kind:decision,error,summary"),
    ("context", "track_access"): With(OFF, query="redis"),
    ("context", "query"): With("hour"),
    ("context", "heading"): "## Mine",
    ("context", "task"): "T-1",
    ("context", "session"): "s-1",
    ("context", "profile"): True,
    ("context", "agent"): "bob",
    ("get", "anchor"): With(ERROR),
    ("get", "start_line"): 9,
    ("get", "end_line"): 9,
    ("get", "track_access"): With(OFF, anchor=ERROR),
    ("render", "line"): 9,
    ("list", "sections"): False,
    ("list", "kind"): "error",
    ("list", "tag"): "rule",
    ("stats", "by"): ["priority"],
    ("similar", "anchor"): With(ERROR, min_similarity=0.1),
    ("similar", "text"): With("A pool of ten.", min_similarity=0.1),
    ("similar", "topic"): With("auth", min_similarity=0.1),
    ("similar", "min_similarity"): With(0.99, text=TEXT),
    ("duplicates", "min_similarity"): With(0.1),
    ("similar", "limit"): With(1, text="Redis waits for a pool of ten.", min_similarity=0.01),
    ("similar", "nearest"): With(50, text="Redis waits for a pool of ten."),
    ("similar", "include_archived"): With(ON, text="A pool of ten waits for redis."),
    ("duplicates", "limit"): With(1, min_similarity=0.5, filters={"include_archived": True}),
    ("links", "path"): With(REDIS),
    ("links", "anchor"): With(ERROR),
    ("links", "direction"): "in",
    ("links", "relation"): ["part_of"],
    ("links", "depth"): 3,
    ("links", "format"): "dot",
    ("links", "dangling"): With(ON),
    ("links", "orphans"): With(ON),
    ("links", "offset"): 1,
    ("access.stats", "anchor"): ERROR,
    ("access.stats", "path"): ".memories/platform.md",
    ("access.record", "anchors"): With([SOCKETS]),
    ("access.record", "caller_session"): "s-7",
    ("note.add", "on_similar"): With("report", content=TEXT),
    ("memory.set", "anchors"): With([SOCKETS], status="done"),
    ("memory.set", "filters"): With({"kind": ["error"]}, status="done"),
    ("memory.set", "apply"): With(OFF, anchors=[ERROR], status="done"),
    ("memory.set", "plan"): With("another", anchors=[ERROR], status="done"),
    ("memory.set", "if_digest"): With("another", anchors=[ERROR], status="done"),
    ("memory.set", "client"): With("ann", anchors=[ERROR], status="done"),
    ("memory.set", "add_tags"): ["new"],
    ("memory.set", "remove_tags"): ["cache"],
    ("memory.set", "add_keywords"): ["air"],
    ("memory.set", "remove_keywords"): ["pool"],
    ("memory.set", "relate"): [{"to": POOL}],
    ("memory.set", "unrelate"): [{"kind": "resolved_by", "to": POOL}],
    ("memory.set", "title"): "Waiting",
    ("memory.set", "clear"): ["importance"],
    ("memory.relate", "remove"): With(ON, anchor=ERROR, relation="resolved_by", to=POOL),
    ("memory.choose", "anchor"): With(OTHER_ROAD, keep="this"),
    ("memory.choose", "keep"): "other",
    ("memory.forget", "anchors"): With([POOL]),
    ("memory.forget", "filters"): With({"kind": ["summary"]}),
    ("memory.forget", "apply"): OFF,
    ("memory.forget", "purge"): With(ON, anchors=[POOL], confirm=True),
    ("memory.forget", "unlink"): ON,
    ("memory.forget", "confirm"): With(ON, anchors=[ERROR]),
    ("validate", "section"): {"content": ""},
    ("validate", "path"): REDIS,
    ("capture", "artifacts"): [{"content": "A report.", "path": "r.md"}],
    ("capture", "error"): With("exit 2", step="build", answers={"a": "b"}),
    ("capture", "answers"): {"a": "b"},
    ("capture", "run_id"): "r-1",
    ("capture", "overview"): With("All", step="build", artifacts=[{"content": "A report."}]),
    ("capture", "trigger"): "failure",
    ("index_project", "sources"): [{"path": "docs.txt"}],
    ("index_project", "client"): With("ann", apply=True),
    ("index_project", "plan"): With("another", apply=True),
    ("archive", "anchors"): With([SOCKETS]),
    ("archive", "path"): With(REDIS),
    ("archive", "below"): With(0.9, path=REDIS),
    ("archive", "filters"): With({"kind": ["error"]}),
    ("archive.restore", "anchors"): With([OLD]),
    ("archive.restore", "path"): With(".memories/platform.md"),
    ("archive.restore", "filters"): With({"tag": ["bug"]}),
    ("cleanup", "below"): 0.99,
    ("cleanup", "offset"): With(1, below=0.99),
    ("topic.restore", "offset"): With(1, topics=["shelf"]),
    ("list", "cursor"): encode_cursor(NotePlace(REDIS)),
    ("list.folder", "folder"): ".memories",
    ("list.folder", "words"): "redis",
    ("list.folder", "cursor"): With(encode_cursor(NotePlace(REDIS)), folder=".memories"),
    ("cleanup", "apply"): With(OFF, below=0.99),
    ("cleanup", "client"): With("ann", below=0.99, apply=True),
    ("cleanup", "plan"): With("another", below=0.99, apply=True),
    ("promote", "anchor"): With(ERROR, tag="decision"),
    ("promote", "task"): With("T-1", tag="decision"),
    ("promote", "tag"): With("pattern", anchor=POOL),
    ("promote", "note"): "other.md",
    ("promote", "client"): With("ann", anchor=POOL, tag="decision", apply=True),
    ("promote", "plan"): With("another", anchor=POOL, tag="decision", apply=True),
    ("recall", "keywords"): With(["pool"]),
    ("recall", "topic"): With("auth"),
    ("recall", "kind"): With("error"),
    ("recall", "text"): With("kites and ten", keywords=["none"]),
    ("recall", "follow"): With(["resolved_by"], kind="error"),
    ("recall", "max_tokens"): With(100, text="redis pool ten queue half jobs"),
    ("topic.list", "sort"): "file",
    ("topic.create", "title"): With("Winds"),
    ("topic.create", "summary"): "A text.",
    ("topic.create", "fields"): {"Status": "new"},
    ("topic.create", "relations"): [{"to": "redis"}],
    ("topic.create", "on_similar"): With("report", title="Redis"),
    ("topic.patch", "title"): With("Another", topic="redis"),
    ("topic.patch", "summary"): "A text.",
    ("topic.patch", "relate"): [{"to": "log"}],
    ("topic.patch", "unrelate"): [{"kind": "part_of", "to": "platform"}],
    ("topic.archive", "topics"): With(["redis"]),
    ("topic.restore", "topics"): With(["redis"]),
    ("topic.restore", "apply"): With(OFF, topics=["shelf"]),
    ("topic.restore", "client"): With("ann", topics=["shelf"], apply=True),
    ("topic.restore", "plan"): With("another", topics=["shelf"], apply=True),
    ("topic.archive", "client"): With("ann", topics=["log"], apply=True),
    ("topic.archive", "plan"): With("another", topics=["log"], apply=True),
    ("archive", "client"): With("ann", anchors=[SUMMARY], apply=True),
    ("archive", "apply"): With(OFF, anchors=[SUMMARY]),
    ("archive", "plan"): With("another", anchors=[SUMMARY], apply=True),
    ("archive.restore", "client"): With("ann", anchors=[OLD], apply=True),
    ("archive.restore", "plan"): With("another", anchors=[OLD], apply=True),
    ("topic.get", "track_access"): With(OFF, topic="platform"),
    ("field.append", "content"): With("Fourth.", topic="log", field="Status"),
    ("field.append", "field"): With("State", topic="log", content="Third."),
    ("field.append", "keep"): 1,
    ("field.append", "on_similar"): With("report", topic="log", field="x", content=TEXT),
    ("field.history", "before"): 1,
    ("history", "anchor"): ERROR,
    ("history", "path"): REDIS,
    ("history", "before"): 2,
    ("history", "change_set"): 1,
    ("history", "before_change_set"): 2,
    ("history", "writer"): "nobody",
    ("history", "since"): "2999-01-01",
    ("history", "until"): "2000-01-01",
    ("history.purge", "anchor"): With(LOG + "#log/status"),
    ("history.purge", "revision"): 999,
    ("history.purge", "change_set"): 999,
    ("history.purge", "containing"): "nothing has this",
    ("history.purge", "all"): With(ON),
    ("diff", "anchor"): With(LOG + "#log/status"),
    ("diff", "revision"): With(1),
    ("diff", "change_set"): 1,
    ("diff", "to_now"): With(ON, revision=1),
    ("undo", "anchor"): With(LOG + "#log/status"),
    ("undo", "revision"): 999,
    ("undo", "change_set"): With(999),
    ("undo", "to"): 1,
    ("task.context", "track_access"): With(OFF, task="T-1"),
    ("task.context", "sort"): "worth",
    ("task.checkpoint", "content"): With("All.", task="T-2"),
    ("task.checkpoint", "task"): With("T-3", session="s-1"),
    ("task.summarize", "content"): "It is done.",
    ("task.summarize", "max_bytes"): 200,
    ("session.start", "content"): "Go on.",
    ("session.end", "content"): "The pool has a limit.",
    ("session.resume", "task"): With("T-1"),
    ("session.resume", "session"): With("s-1"),
    ("triage", "promote"): With(ERROR, task="T-9"),
    ("triage", "task"): With("T-9", promote=ERROR),
    ("triage", "priority"): With("P0", promote=ERROR, task="T-9"),
    ("triage", "client"): With("ann", promote=ERROR, task="T-9"),
    ("triage", "limit"): With(1),
    ("profile", "tag"): ["none"],
    ("profile", "limit"): With(1, include_archived=True),
    ("signal.send", "sessions"): ["s-1"],
    ("signal.send", "tasks"): ["T-1"],
    ("signal.send", "agents"): ["ann", "cid"],
    ("signal.send", "everyone"): True,
    ("signal.send", "key"): With("k-1", content="first", agents=["bob"]),
    ("signal.inbox", "agent"): With("bob", task="T-1"),
    ("signal.inbox", "session"): "s-2",
    ("signal.inbox", "task"): "T-2",
    ("signal.inbox", "include_read"): True,
    ("signal.outbox", "everyone"): True,
    ("signal.outbox", "client"): "prep",
    ("signal.outbox", "limit"): With(1, everyone=True),
    ("log.agents", "since"): "2999-01-01",
    ("log.agents", "before"): 1,
}
# Filters that change the hits of a search.
FILTERS: dict[str, Any] = {
    "kind": ["error"],
    "tag": ["cache"],
    "path": [REDIS],
    "section": ["Pool"],
    "task": ["T-1"],
    "session": ["s-1"],
    "source": ["interview"],
    "topic": ["Redis"],
    "priority": ["P1"],
    "lifecycle": ["project"],
    "status": ["open"],
    "meta": ["owner=infra"],
    "has": ["owner"],
    "related_to": ["log"],
    "tier": ["hot"],
    "min_importance": 0.8,
    "min_worth": 1.0,
    "after": "2026-01-01",
    "before": "2025-12-31",
    "archived": True,
    "expired": True,
    "include_archived": True,
    "include_expired": True,
}
# Effects of fields that no difference shows here.
ELSEWHERE = {
    "workspace": "chooses the workspace, which each call names",
    "timeout_ms": "limits the time",
    "caller_session": "counts a session once; tests/engine/test_accesses.py",
    "wait": "waits for the disk; tests/daemon/test_requests.py",
    "min_generation": "waits for a generation; tests/daemon/test_requests.py",
    "mark": "marks orders in notes; tests/engine/test_marking.py",
    "undo confirm": "answers a question; tests/engine/test_first_sight.py",
    "context user": "adds the user-wide workspace; tests/daemon/test_several_workspaces.py",
    "access.stats sort": "orders equal times; tests/engine/test_accesses.py",
    "links sort": "orders links; tests/store/test_links.py",
    "render line": "chooses the part of a long note; tests/core/markdown",
    "task.list limit": "limits the tasks if none is named; tests/store/test_work.py",
    "session.list include_ended": "lists ended sessions; tests/cli/transcripts/tasks.txt",
    "signal.send expires_s": "limits how long it is received; tests/engine/test_signals.py",
    "memory.clear confirm": "must be true",
    "list filters.include_expired": "expired sections are always listed",
}
# Methods whose effects are elsewhere than in two workspaces with the same notes.
UNWALKED = {
    "memory.import": "tests/daemon/test_transfer.py",
    "memory.export": "tests/daemon/test_transfer.py",
    "memory": "tests/engine/test_memory_tool.py: a command takes its own parameters alone",
    "workspace.add": "tests/daemon/test_workspaces.py",
    "workspace.remove": "tests/daemon/test_workspaces.py",
    "workspace.discover": "tests/daemon/test_places.py",
    "sync": "tests/daemon/test_requests.py",
    "metrics": "tests/daemon/test_metrics.py",
    "patterns": "tests/daemon/test_patterns.py",
    "semantic.warm": "tests/daemon/test_semantic.py",
    "records.restore": "tests/daemon/test_backup.py",
    "doctor": "tests/daemon/test_doctor.py",
    "subscribe": "tests/daemon/test_subscriptions.py",
    "unsubscribe": "tests/daemon/test_subscriptions.py",
    "signal.ack": "tests/engine/test_signals.py",
    **dict.fromkeys(
        ("share.init", "share.switch", "share.status", "share.now", "share.log"),
        "tests/daemon/test_share.py",
    ),
}
READING = frozenset(
    """
    search context get render list stats similar duplicates links access.stats validate recall
    topic.list topic.get field.history history diff task.ready task.list task.context
    session.resume profile signal.inbox signal.outbox log.agents
    """.split()
)


Case = tuple[str, str, Any, dict[str, Any]]
"""The method, the field, its value and the other parameters."""


def list_cases() -> Iterator[Case]:
    for method, declared in OPERATIONS.items():
        if method not in UNWALKED:
            for field in fields(declared.params):
                yield from _list_cases_of(method, field)


def _list_cases_of(method: str, field: FieldInfo) -> Iterator[Case]:
    name, base = field.name, BASE.get(method, {})
    if field.type is Filters and (method, name) not in CHANGES:
        for part, value in FILTERS.items():
            yield method, f"{name}.{part}", {part: value}, base
    elif method == "note.add_many" and name == "items":
        for section in fields(NewSection):
            if not section.required:
                value = {**base[name][0], section.name: VALUES[section.name]}
                yield method, f"{name}.{section.name}", [value], base
    elif not field.required and not {name, f"{method} {name}"} & set(ELSEWHERE):
        change = CHANGES.get((method, name), VALUES.get(name))
        is_other = isinstance(change, With)
        yield method, name, *((change.value, change.base) if is_other else (change, base))


CASES = [case for case in list_cases() if f"{case[0]} {case[1]}" not in ELSEWHERE]


def make_stable(value: Any, *names: str) -> Any:
    """Return an answer without the values that differ from call to call."""
    if isinstance(value, dict):
        return {
            key: make_stable(part, *names) for key, part in value.items() if key not in _UNSTABLE
        }
    if isinstance(value, list):
        return [make_stable(part, *names) for part in value]
    if not isinstance(value, str):
        return value
    for name in names:
        value = value.replace(name, "NAME")
    return _NOW.sub("NOW", value)


class Bench:
    """Makes workspaces with the same notes and history, and calls methods in them."""

    def __init__(self, home: Home, daemon: Daemon) -> None:
        self._home, self._daemon = home, daemon
        self._to_read: Place | None = None

    def close(self) -> None:
        if self._to_read is not None:
            self._to_read.close()

    def make(self) -> Place:
        root = self._home.make_folder()
        for path, text in NOTES.items():
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text(text)
        place = Place(self._home, self._daemon, root)

        def call(method: str, **params: object) -> None:
            place.client.call(method, workspace=place.id, **params)

        for text in ("Number 1.", "Number 2."):
            append = {"topic": "log", "field": "Status", "content": text, "client": "prep"}
            call("field.append", **append)
        for sender in ("ann", "ann", "prep"):
            call("signal.send", content=sender, agents=["bob"], client=sender)
        call("signal.send", content="stuck", type="blocked", agents=["bob"])
        call("signal.send", content="both", sessions=["s-2"], tasks=["T-2"])
        call("signal.ack", agent="bob", signals=[1])
        call("access.record", anchors=[SOCKETS, SOCKETS])
        call("access.record", anchors=[ERROR])
        with connect(self._home.socket_path) as agent:
            for client, session in (("bob", "s-7"), ("ann", "s-8")):
                named = {"client": client, "session_id": session, "cwd": str(root)}
                agent.use("memory_hook", prompt="redis", **named)
        return place

    def call(self, method: str, params: dict[str, Any], *, only_reads: bool) -> tuple[Any, ...]:
        """Return the answer and, unless the call only reads, the notes and records after it."""
        if only_reads:
            self._to_read = self._to_read or self.make()
            return (self._ask(self._to_read, method, params),)
        place = self.make()
        try:
            return self._ask(place, method, params), *self._look(place)
        finally:
            place.close()

    def _ask(self, place: Place, method: str, params: dict[str, Any]) -> Any:
        try:
            answer = place.client.call(method, workspace=place.id, **params)
        except MemsyncdError as error:
            answer = {"error": error.code, "message": error.message}
        return make_stable(answer, str(place.root), place.id)

    def _look(self, place: Place) -> tuple[Any, ...]:
        """The notes, the history, the signals and the counts of accesses."""
        files = {
            str(path.relative_to(place.root)): path.read_text()
            for path in sorted(place.root.rglob("*"))
            if path.is_file()
        }
        call = place.client.call
        revisions = call("history", workspace=place.id)["revisions"]
        return (
            make_stable(files),
            [(revision["client"], revision["command"], revision["path"]) for revision in revisions],
            make_stable(call("signal.outbox", workspace=place.id, everyone=True)),
            make_stable(call("access.stats", workspace=place.id)),
        )


def test_every_field_has_a_value_that_should_change_something() -> None:
    assert [f"{method}: {name}" for method, name, value, _ in CASES if value is None] == []


@pytest.fixture(scope="module")
def bench(home: Home, daemon: Daemon) -> Iterator[Bench]:
    made = Bench(home, daemon)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("method", "field", "value", "base"), CASES, ids=[f"{case[0]}: {case[1]}" for case in CASES]
)
def test_a_field_changes_the_answer_or_what_is_kept(
    bench: Bench, method: str, field: str, value: Any, base: dict[str, Any]
) -> None:
    name = field.partition(".")[0]
    only_reads = method in READING and field != "track_access"
    # A part of a field takes the place of another value of this field.
    without = base if name != field else {key: part for key, part in base.items() if key != name}
    answers = [
        bench.call(method, params, only_reads=only_reads)
        for params in (without, {**base, name: value})
    ]
    assert answers[0] != answers[1]
