"""Workspaces of any size from one generator, and a counter of the work that one call does.

A workspace of `n_notes` has four sections a note, with kinds, tags, keywords, tasks, sessions,
topics, priorities, statuses, lifecycles, expiries, links, typed relations and dangling links. A
common word is in a tenth of the sections, other words are in one of a hundred. A larger workspace
begins with the notes of the smaller one, and whatever belongs together has the same size in both: a
task, a session, a topic and a keyword have the sections of ten notes.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec

GROUP = 10
"""So many notes share a task, a session, a topic and a keyword."""
SECTIONS_A_NOTE = 4
NOTES = ".memories/areas"
_KINDS = ("decision", "bug", "convention", "summary", "tool_run", "pitfall", "insight")
_LIFECYCLES = ("project", "task", "session", "ephemeral")
_STATUSES = ("open", "done", "blocked", "in progress")
_WORDS = (
    "cache pool retry queue socket thread index token parser broker shard replica lease quorum"
    " ledger batch cursor window digest schema"
).split()


def name_note(number: int) -> str:
    """The path of a note from the root. A folder has the notes of one group."""
    return f"{NOTES}/area-{number // GROUP}/note-{number}.md"


def name_word(number: int) -> str:
    """A word that no other note has, and that begins no other word."""
    syllables = ("ba", "be", "bi", "bo", "bu", "da", "de", "di", "do", "du")
    return "".join(syllables[int(digit)] for digit in f"{number:05}")


def _name_rare(number: int) -> str:
    syllables = ("ka", "ke", "ki", "ko", "ku", "la", "le", "li", "lo", "lu")
    return "".join(syllables[int(digit)] for digit in f"{number % 1000:03}")


def make_note(number: int) -> str:
    """The text of a note; it depends on nothing but the number."""
    group = number // GROUP
    lines = [
        f"# Note {number}",
        "",
        f"It is about {name_word(number)} and {name_word(90_000 + group)}.",
        "",
    ]
    for at in range(3):
        n = number * 3 + at
        day = f"2025-{n % 12 + 1:02}-{n % 28 + 1:02}"
        metadata = {
            "kind": _KINDS[n % len(_KINDS)],
            "tags": f"[tag-{n % 5}, group-tag-{group}, {'bug' if n % 7 == 1 else 'idea'}]",
            "keywords": f"[key-{group}, common]",
            "task": f"T-{group}",
            "session": f"S-{group}",
            "topic": f"topic-{group}",
            "priority": f"P{n % 4}",
            "status": _STATUSES[n % len(_STATUSES)],
            "lifecycle": _LIFECYCLES[n % len(_LIFECYCLES)],
            "importance": f"{n % 10 / 10}",
            "created": day,
        }
        if n % 4 == 0:
            metadata["expires"] = f"20{24 + n % 8}-06-01"
        pairs = ", ".join(f"{key}: {value}" for key, value in metadata.items())
        common = _WORDS[n % len(_WORDS)], _WORDS[n // len(_WORDS) % len(_WORDS)]
        words = " ".join([*common, *(_name_rare(n * step + step) for step in range(1, 10))])
        lines += [
            f"## Part {at} of {number}",
            f"<!-- memory: {{{pairs}}} -->",
            "",
            f"The {words} of part {at} of {name_word(number)}.",
            f"See [[note-{max(0, number - 1)}]] and [[lost-{n}]].",
            f"- related_to [[note-{max(0, number - 2)}]]",
            "",
        ]
    return "\n".join(lines)


def write_notes(root: Path, n_notes: int) -> None:
    """Write a workspace of `n_notes` notes into an empty folder."""
    for number in range(n_notes):
        place = root / name_note(number)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(make_note(number))
    (root / "MEMORY.md").write_text("# Project\n\nThe cache is hot, and [[note-1]] says why.\n")
    (root / "README.md").write_text("# Service\n\nIt serves.\n")


NOTE = name_note(12)
AREA = "/memories/areas/area-1"
WORD, GROUP_WORD = name_word(12), name_word(90_001)
SECTION = f"{NOTE}#note-12/part-1-of-12"
# How reading operations are called, by the name of the operation and a word for the case. Each
# answer is bounded by the parameters, or by the sections of one task, topic, note or keyword.
CALLS: dict[str, dict[str, Any]] = {
    "status": {},
    "workspace.list": {},
    "doctor": {},
    "problems": {},
    "metrics": {},
    "search": {"query": WORD},
    "search several words": {"query": f"{WORD} {GROUP_WORD} cache"},
    "search by tag": {"query": "cache", "filters": {"tag": ["group-tag-1"]}},
    "search by task": {"query": "cache", "filters": {"task": ["T-1"]}},
    "search for nothing": {"query": f"{WORD} cache", "filters": {"tag": ["nowhere"]}},
    "search for a common word": {"query": "cache"},
    "context": {},
    "context of a question": {"query": f"{WORD} {GROUP_WORD}"},
    "recall by keywords": {"keywords": ["key-1"]},
    "recall by topic": {"topic": "topic-1"},
    "recall by kind": {"kind": "decision"},
    "memory view of a note": {"command": "view", "path": f"{AREA}/note-12.md"},
    "memory view of the folder": {"command": "view", "path": "/memories"},
    "validate": {"path": NOTE},
    "get": {"anchor": SECTION},
    "render": {"path": NOTE},
    "render.texts": {"texts": ["A *kite*."]},
    "list.folder": {"folder": ".memories/areas", "limit": 5},
    "list.folder by words": {"words": "note", "limit": 5},
    "list": {},
    "list of a note with sections": {"path": NOTE, "sections": True},
    "list by tag": {"tag": "group-tag-1"},
    "list by kind": {"kind": "decision"},
    "list by worth": {"sort": "decay", "sections": True},
    "links": {"limit": 5},
    "links of the most linked notes": {"limit": 5, "sort": "most"},
    "links orphans": {"orphans": True, "limit": 1},
    "links of a note": {"path": NOTE},
    "links dangling": {"dangling": True, "limit": 5},
    "links of three steps": {"path": NOTE, "depth": 3, "limit": 5},
    "similar": {"anchor": SECTION, "limit": 5},
    "patterns": {"workspace": "*"},
    "duplicates": {"limit": 5},
    "stats": {},
    "stats by tag": {"by": ["tag"], "limit": 5},
    "stats of a task": {"filters": {"task": ["T-1"]}},
    "access.stats": {"limit": 5},
    "sources": {},
    "history": {"limit": 5},
    "history of a note": {"path": NOTE, "limit": 5},
    "diff": {"path": NOTE},
    "archive": {"limit": 5},
    "archive of a task": {"filters": {"task": ["T-1"]}, "limit": 5},
    "cleanup": {"limit": 5},
    "topic.list": {"limit": 5},
    "topic.list by recency": {"limit": 5, "sort": "recency"},
    "topic.get": {"topic": NOTE},
    "field.history": {"topic": NOTE, "field": "Part 1 of 12", "limit": 5},
    "task.ready": {"limit": 5},
    "task.ready of a task": {"task": "T-1", "limit": 5},
    "task.list": {"task": "T-1"},
    "task.list of all tasks": {},
    "task.context": {"task": "T-1"},
    "session.list": {"limit": 5},
    "session.resume": {"session": "S-1"},
    "triage": {"limit": 5},
    "profile": {"limit": 5},
    "signal.inbox": {"agent": "a-1", "limit": 5},
    "signal.outbox": {"limit": 5},
    "log.agents": {"limit": 5},
}

FLOORS = {"steps": 1_000, "rows": 50, "files": 10, "bytes": 1_000}
"""The units of work, each with an amount that no call needs to stay below."""

# FTS5 looks up each word in each segment. How many segments there are depends on the last saves.
_PER_SEGMENT = re.compile(r"^SELECT pgno FROM 'main'\.'\w+_idx'")


class Work(msgspec.Struct):
    """The work of a call, in units that do not depend on the machine."""

    steps: int = 0
    """Steps of SQLite's virtual machine, also in the statements within FTS5."""
    rows: int = 0
    """Rows that statements gave, also within FTS5."""
    files: int = 0
    """Files and folders that were opened."""
    bytes: int = 0
    """The size of the answer as JSON."""
    statements: Counter[str] = msgspec.field(default_factory=Counter)
    """The steps of each statement."""

    def compare(self, larger: Work) -> float:
        """How many times more work the same call does in a larger workspace.

        Less of a unit than its floor counts as the floor.
        """
        return max(
            getattr(larger, unit) / max(floor, getattr(self, unit))
            for unit, floor in FLOORS.items()
        )

    def describe(self) -> str:
        units = ", ".join(f"{getattr(self, unit):,} {unit}" for unit in FLOORS)
        return "\n".join(
            [units, *(f"    {n:,}: {sql[:400]}" for sql, n in self.statements.most_common(3))]
        )


class WorkCounter:
    """Counts the work of all threads and of all connections opened after `watch`."""

    def __init__(self) -> None:
        self._work = Work()
        self._is_counting = False
        self._steps: dict[tuple[int, int], tuple[int, int]] = {}
        self._rows: Counter[tuple[int, int]] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Watch the connections that are opened in the block, and all files."""
        apsw.connection_hooks.append(self._watch_connection)
        sys.addaudithook(self._note_event)  # it stays to the end of the process
        try:
            yield
        finally:
            apsw.connection_hooks.remove(self._watch_connection)

    @contextlib.contextmanager
    def counting(self) -> Iterator[Work]:
        """Yield the work, which the block fills."""
        work = self._work = Work()
        self._is_counting = True
        try:
            yield work
        finally:
            self._is_counting = False

    def _watch_connection(self, connection: apsw.Connection) -> None:
        mask = apsw.SQLITE_TRACE_PROFILE | apsw.SQLITE_TRACE_ROW
        connection.trace_v2(mask, self._note_statement, id=self)

    def _note_statement(self, event: dict[str, Any]) -> None:
        key = id(event["connection"]), event["id"]
        with self._lock:
            if event["code"] == apsw.SQLITE_TRACE_ROW:
                self._rows[key] += 1
            else:
                self._note_end(key, event["sql"], event["stmt_status"])

    def _note_end(self, key: tuple[int, int], sql: str, status: dict[str, int]) -> None:
        n_runs, n_steps = status["SQLITE_STMTSTATUS_RUN"], status["SQLITE_STMTSTATUS_VM_STEP"]
        # SQLite adds up the steps of a statement that runs again, until somebody resets them.
        runs_before, steps_before = self._steps.get(key, (0, 0))
        self._steps[key] = n_runs, n_steps
        n_rows = self._rows.pop(key, 0)
        if self._is_counting and not _PER_SEGMENT.search(sql):
            has_begun_anew = n_runs <= runs_before or n_steps < steps_before
            n_new = n_steps - (0 if has_begun_anew else steps_before)
            self._work.steps += n_new
            self._work.rows += n_rows
            self._work.statements[" ".join(sql.split())] += n_new

    def _note_event(self, event: str, _arguments: object) -> None:
        if self._is_counting and event in ("open", "os.scandir", "os.listdir"):
            self._work.files += 1
