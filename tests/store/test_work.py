"""SQL counts, orders and groups sections as plain Python does with all of them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from memsyncd.config import Config
from memsyncd.core.editing.kinds import DEFAULT_KINDS, find_importance
from memsyncd.core.search.filters import Filters
from memsyncd.core.search.tasks import CLOSED, ENDED, FINISHED, RECORDS
from memsyncd.core.upkeep import DISCOVERED_FROM
from memsyncd.engine.metadata import bind_sort_keys, make_valuation
from memsyncd.store.index import Index, PutNote
from memsyncd.store.pool import Reader
from memsyncd.store.work import (
    GroupCounts,
    OutlinedWork,
    ProjectSections,
    WaitingSections,
    find_first_groups,
)

Put = Callable[..., PutNote]
OF_PROJECT = Filters(lifecycles=("project",), includes_archived=True, includes_expired=True)
ARCHIVED_TOO = Filters(includes_archived=True)
TAGGED = Filters(tags=("bug",), includes_archived=True, includes_expired=True)


class Stated(NamedTuple):
    """The metadata of a section, which a heading of one letter begins."""

    heading: str
    kind: str
    status: str
    priority: str
    importance: str
    task: str
    session: str
    lifecycle: str
    created: str
    tags: str
    is_empty: bool

    def write(self) -> str:
        names = ("kind", "status", "priority", "importance", "task", "session", "lifecycle")
        pairs = [f"{name}: {getattr(self, name)}" for name in names if getattr(self, name)]
        pairs += [f"created: {self.created}", f"tags: [{self.tags}]"]
        body = "" if self.is_empty else "It says so.\n"
        return f"## {self.heading}\n<!-- memory: {{{', '.join(pairs)}}} -->\n{body}\n"


def choose(*values: str) -> st.SearchStrategy[str]:
    return st.sampled_from(values)


STATED = st.builds(
    Stated,
    heading=choose("A", "B"),
    kind=choose("", "decision", "session", "checkpoint", "bug"),
    status=choose("", "done", "Done", "archived", "open", "blocked"),
    priority=choose("", "P0", "P2"),
    importance=choose("", "0.3", "0.9"),
    task=choose("", "T-1", "t-1", "T-2"),
    session=choose("", "S-1", "s-1", "S-2"),
    lifecycle=choose("", "project", "task"),
    created=choose("2026-01-01", "2026-01-02", "2026-01-03"),
    tags=choose("bug", "bug, idea", "idea"),
    is_empty=st.booleans(),
)
NOTES = st.lists(st.lists(STATED, min_size=1, max_size=4), min_size=1, max_size=4)


class Section(NamedTuple):
    """A section that has a text, with the path of its note and its first line."""

    path: str
    line: int
    stated: Stated

    @property
    def place(self) -> tuple[str, int]:
        return self.path, self.line

    @property
    def is_closed(self) -> bool:
        return self.stated.status.lower() in CLOSED


def fill(index: Index, put: Put, notes: list[list[Stated]]) -> list[Section]:
    """Put the notes into an index; return their sections that have a text."""
    sections: list[Section] = []
    updates = []
    for number, several in enumerate(notes):
        text = ""
        for stated in several:
            if not stated.is_empty:
                sections.append(Section(f"n{number}.md", text.count("\n") + 1, stated))
            text += stated.write()
        updates.append(put(f"n{number}.md", text))
    index.apply(updates)
    return sections


def list_places(rows: list[OutlinedWork]) -> list[tuple[str, int]]:
    return [(row.path, row.start_line) for row in rows]


def group(sections: list[Section], field: str) -> list[GroupCounts]:
    names: dict[str, list[Stated]] = {}
    for section in sections:
        if name := getattr(section.stated, field):
            names.setdefault(name, []).append(section.stated)
    groups = []
    for name, several in names.items():
        times = [each.created for each in several]
        ends = [
            each.created
            for each in several
            if each.kind == "session" and each.status.lower() == ENDED
        ]
        n_open = sum(
            each.status.lower() not in CLOSED and each.kind not in RECORDS for each in several
        )
        tasks = tuple(sorted({each.task for each in several} - {""}))
        last = max(times)
        groups.append(
            GroupCounts(name, len(several), n_open, min(times), last, last in ends, tasks)
        )
    groups.sort(key=lambda each: each.name)
    return sorted(groups, key=lambda each: each.last, reverse=True)


@settings(max_examples=20)
@given(notes=NOTES, most=st.integers(1, 6), field=choose("task", "session"))
def test_sections_are_counted_and_ordered_as_by_hand(
    notes: list[list[Stated]], most: int, field: Literal["task", "session"], put: Put
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "index.db", "f" * 32)
        try:
            sections = fill(index, put, notes)
            with index.pool.acquire(10.0) as reader:
                check_groups(reader, sections, field, most)
                check_project(reader, sections, most)
                check_waiting(reader, sections, most)
        finally:
            index.close()


def check_groups(
    reader: Reader, sections: list[Section], field: Literal["task", "session"], most: int
) -> None:
    groups = group(sections, field)
    assert find_first_groups(reader, ARCHIVED_TOO, field, most=most) == (
        groups[:most],
        len(groups),
    )
    going_on = [each for each in groups if not each.is_ended]
    first, n_groups = find_first_groups(reader, ARCHIVED_TOO, field, has_ended=False, most=most)
    assert first == going_on[:most]
    assert n_groups == len(going_on)


def check_project(reader: Reader, sections: list[Section], most: int) -> None:
    project = ProjectSections(reader, OF_PROJECT, other_than="T-1")
    of_project = [
        each
        for each in sections
        if each.stated.lifecycle == "project"
        and each.stated.status.lower() not in FINISHED
        and each.stated.task != "T-1"
    ]
    assert project.count() == (len(of_project), len({each.path for each in of_project}))
    kinds, tags = project.count_values(most_tags=9)
    assert kinds == Counter(each.stated.kind or "none" for each in of_project)
    assert tags == Counter(tag for each in of_project for tag in each.stated.tags.split(", "))
    of_project.sort(key=lambda each: each.place)
    of_project.sort(key=lambda each: each.stated.created, reverse=True)
    of_project.sort(key=lambda each: -rank(each.stated))
    keys = bind_sort_keys(make_valuation(Config(), 0.0))
    rows = project.find_first("importance", keys, most=most)
    assert list_places(rows) == [each.place for each in of_project[:most]]


def check_waiting(reader: Reader, sections: list[Section], most: int) -> None:
    waiting = WaitingSections(reader, TAGGED, DISCOVERED_FROM)
    tagged = [each for each in sections if "bug" in each.stated.tags]
    counts: Counter[Any] = Counter()
    for each in tagged:
        counts[each.stated.priority or None, not each.is_closed, not each.stated.task] += 1
    assert {each[:3]: each.n for each in waiting.count()} == counts
    ordered = [each for each in tagged if not each.is_closed]
    ordered.sort(key=lambda each: (each.stated.priority or "P9", each.stated.created, each.place))
    assert list_places(waiting.find_first(most=most)) == [each.place for each in ordered[:most]]
    [*alone] = (each.place for each in ordered if not each.stated.task)
    assert list_places(waiting.find_first(most=1, is_waiting=True)) == alone[:1]


def rank(stated: Stated) -> float:
    importance = float(stated.importance) if stated.importance else None
    return find_importance(DEFAULT_KINDS, stated.kind, importance)
