"""Counts that commits keep equal counts of all sections, after any changes and at any time."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.core.editing.fields import value_topic
from memsyncd.core.editing.kinds import DEFAULT_KINDS
from memsyncd.core.search.filters import EVERYTHING, NO_FILTERS, Filters
from memsyncd.core.search.tasks import ENDED, FINISHED, RECORDS
from memsyncd.operations.stats.declare import GROUPS
from memsyncd.store.counts import FOLDER, find_day, find_places_of_kinds, measure_folders
from memsyncd.store.index import DropNote, Index, PutNote, TouchNote, Update
from memsyncd.store.integrity import compare_note, read_recorded
from memsyncd.store.lookup import count_passing, count_sections, stream_notes
from memsyncd.store.pool import Reader
from memsyncd.store.topics import TopicRow, Topics, value_note
from memsyncd.store.work import (
    OutlinedWork,
    ProjectSections,
    WaitingSections,
    count_open_work,
    find_first_groups,
    find_open_work,
    stream_work,
)
from tests.store.conftest import make_patch

Put = Callable[..., PutNote]
DAY_S = 86_400
BEGAN_S = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
METAS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["decision", "error", "session"]),
        "task": st.sampled_from(["T-1", "T-2", "t-1"]),
        "session": st.sampled_from(["S-1", "S-2"]),
        "lifecycle": st.sampled_from(["project", "task"]),
        "importance": st.sampled_from(["0.2", "0.9"]),
        "priority": st.sampled_from(["P0", "P2"]),
        "status": st.sampled_from(["open", "archived", "Done", "blocked"]),
        "expires": st.sampled_from(["2026-03-02", "2026-03-04T10:00:00Z", "2026-03-05T01:00:00"]),
        "created": st.sampled_from(["2026-02-03", "2025-12-31"]),
        "tags": st.sampled_from(["[db/sql, ops]", "[db]", "[a/b/c]"]),
        "owner": st.sampled_from(["ann", "ann, bob", "carl"]),
        "Keywords": st.sampled_from(["[x, y]", "[y]"]),
    },
)
PATHS = st.sampled_from(["a.md", "b.md", "2025-06-07.md", "f/c.md"])
NOTES = st.tuples(METAS, st.lists(METAS, max_size=3), st.sampled_from([1, 300]))
STEPS = st.lists(
    st.tuples(
        st.dictionaries(PATHS, NOTES, max_size=3),
        st.dictionaries(PATHS, st.sampled_from(["drop", "move", "touch"]), max_size=2),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40)
@given(steps=STEPS, days_later=st.integers(-3, 5))
def test_kept_counts_are_the_counts_of_all_sections(
    steps: list[
        tuple[dict[str, tuple[dict[str, str], list[dict[str, str]], int]], dict[str, str], int]
    ],
    days_later: int,
    put: Put,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "index.db", "f" * 32)
        disk: dict[str, str] = {}
        now_s = BEGAN_S
        for notes, others, days in steps:
            now_s += days * DAY_S
            updates: list[Update] = []
            for path, action in others.items():
                if path not in disk:
                    continue
                text = disk.pop(path)
                if action == "drop":
                    updates.append(DropNote(path))
                else:
                    new = f"moved/{path}" if action == "move" else path
                    moved = save(put(new, text, moved_from=path), now_s)
                    disk[new] = text
                    updates.append(
                        moved
                        if action == "move"
                        else TouchNote(path=path, stat=moved.stat, read_at_ns=moved.read_at_ns)
                    )
            index.apply(updates)
            texts = {path: render(*note) for path, note in notes.items() if path not in others}
            puts = {path: save(put(path, text), now_s) for path, text in texts.items()}
            index.apply(
                [(path in disk and make_patch(index, each)) or each for path, each in puts.items()]
            )
            disk |= texts
        try:
            with index.pool.acquire(10.0) as reader:
                for at_s in (now_s, now_s + days_later * DAY_S):
                    check(reader, replace(NO_FILTERS, now_s=at_s))
                    check(reader, replace(EVERYTHING, now_s=at_s))
                places = reader.rows(
                    "SELECT s.kind, count(*), min(f.path) FROM sections s"
                    " JOIN files f ON f.id = s.file WHERE s.kind IS NOT NULL GROUP BY 1 ORDER BY 1"
                )
                assert find_places_of_kinds(reader) == places
                check_folders(reader)
                for is_all in (False, True):
                    check_topics(reader, is_all=is_all)
                for at_s in (now_s, now_s + days_later * DAY_S):
                    check_work(reader, at_s)
        finally:
            index.close()


# --- days and zones -------------------------------------------------------------------------------

# In the night after it, clocks in Berlin go back at 3:00, which is 1:00 in UTC.
EVENING_S = datetime(2026, 10, 24, 20, tzinfo=UTC).timestamp()
SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "task": st.sampled_from(["T-1", "T-2"]),
        "status": st.sampled_from(["open", "archived"]),
        "expires": st.sampled_from(
            ["2026-10-25T02:30:00", "2026-10-25", "2026-10-26", "2026-10-25T01:20:00Z"]
        ),
    },
)
SAVES = st.lists(
    st.tuples(
        st.sampled_from(["Europe/Berlin", "UTC", "Asia/Tokyo", "America/New_York"]),
        st.sampled_from([15, 45, 300, 1440]),
        st.sampled_from(["a.md", "b.md"]),
        st.sampled_from(["patch", "touch", "drop"]),
    ),
    min_size=1,
    max_size=6,
)
CLOCK_BACK = [("Europe/Berlin", minutes, "b.md", "touch") for minutes in (285, 25, 30)]
MOVED = [("UTC", 15, "b.md", "touch"), ("Asia/Tokyo", 15, "b.md", "touch")]
NEXT_DAY = [
    ("UTC", 15, "a.md", "touch"),
    ("UTC", 1440, "a.md", "patch"),
    ("UTC", 1, "a.md", "drop"),
]


@contextlib.contextmanager
def restoring_zone() -> Iterator[None]:
    before = os.environ.get("TZ")
    try:
        yield
    finally:
        set_zone(before)


def set_zone(name: str | None) -> None:
    """Set the time zone of this process."""
    os.environ.pop("TZ", None)
    if name is not None:
        os.environ["TZ"] = name
    time.tzset()
    find_day.cache_clear()


@given(notes=st.tuples(*[st.lists(SECTIONS, max_size=2)] * 2), saves=SAVES)
@example(notes=([{"expires": "2026-10-25T02:30:00"}], []), saves=CLOCK_BACK)
@example(notes=([{"task": "T-1", "expires": "2026-10-25"}], []), saves=MOVED)
@example(notes=([{"task": "T-1"}], [{"task": "T-1", "status": "archived"}]), saves=NEXT_DAY)
def test_kept_counts_follow_patches_and_the_clock_in_any_zone(
    notes: tuple[list[dict[str, str]], ...],
    saves: list[tuple[str, int, str, str]],
    put: Put,
) -> None:
    now_s = EVENING_S
    disk = {path: render({}, note, 1) for path, note in zip(["a.md", "b.md"], notes, strict=True)}
    with restoring_zone(), tempfile.TemporaryDirectory() as folder:
        set_zone(saves[0][0])
        index = Index(Path(folder) / "index.db", "f" * 32)
        index.apply([save(put(path, text), now_s) for path, text in disk.items()])
        try:
            for name, minutes, path, action in saves:
                set_zone(name)
                now_s += minutes * 60
                if action == "patch" and path in disk:
                    disk[path] = disk[path].replace("# Note\n\n", "# Note\n\nmore ")
                saved = save(put(path, disk.get(path, "")), now_s)
                if path not in disk:
                    index.apply([saved])
                    disk[path] = ""
                elif action == "drop":
                    index.apply([DropNote(path)])
                    del disk[path]
                elif action == "touch":
                    touch = TouchNote(path=path, stat=saved.stat, read_at_ns=saved.read_at_ns)
                    index.apply([touch])
                else:
                    index.apply([make_patch(index, saved) or saved])
                with index.pool.acquire(10.0) as reader:
                    check_folders(reader)
                    for at_s in (now_s, now_s + 35 * 60):
                        check(reader, Filters(now_s=at_s))
                        check_work(reader, at_s)
                    for each, text in disk.items():
                        recorded = read_recorded(reader, each)
                        assert recorded is not None
                        assert compare_note(reader, put(each, text).note, recorded) == []
        finally:
            index.close()


# --- by reading all sections ----------------------------------------------------------------------


def check(reader: Reader, filters: Filters) -> None:
    groups = [*GROUPS, "meta", "meta:owner", "meta:KEYWORDS"]
    for most in (2, 100):
        kept = count_sections(reader, filters, groups, most=most)
        counted = count_passing(reader, filters, groups, most=most)
        assert kept == counted


def check_folders(reader: Reader) -> None:
    sizes: Counter[str] = Counter()
    for path, size in reader.rows("SELECT path, size FROM files"):
        above = path
        while above:
            above = above.rpartition("/")[0]
            sizes[above] += size
    assert measure_folders(reader, [*sizes, "nowhere"]) == sizes
    rows = reader.rows("SELECT value FROM counts WHERE field = ?", (FOLDER,))
    assert {folder for (folder,) in rows} == sizes.keys()


def test_a_note_that_grows_section_by_section_leaves_nothing_in_memory_of_its_earlier_lengths() -> (
    None
):
    sections: list[TopicRow] = [(f"s-{n}", 2, "decision", None, None, None, n) for n in range(600)]
    tracemalloc.start()
    try:
        for n in range(1, len(sections)):
            value_note("decisions.md", 0, sections[:n], DEFAULT_KINDS)
        kept_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept_bytes < 100_000


def check_topics(reader: Reader, *, is_all: bool) -> None:
    """Check that topics are listed as they are valued by all of their sections."""
    filters = replace(EVERYTHING, includes_archived=is_all)
    notes = {note.path: note for note in stream_notes(reader, filters=filters)}
    salience = {path: value_topic(note.sections, DEFAULT_KINDS, {}) for path, note in notes.items()}
    moments: dict[str, int] = dict(
        reader.rows(
            "SELECT f.path, max(s.moment) FROM files f JOIN sections s ON s.file = f.id"
            " WHERE ? OR s.status IS NOT 'archived' GROUP BY 1",
            (is_all,),
        )
    )
    by_salience = sorted(notes, key=lambda path: (-salience[path], path))
    by_moment = sorted(notes, key=lambda path: (-moments[path], path))
    for limit in (1, 100):
        topics = Topics(reader, is_all=is_all)
        orders = {"worth": by_salience, "recency": by_moment, "file": sorted(notes)}
        for order, paths in orders.items():
            listed = [(path, salience[path]) for path in paths[:limit]]
            assert topics.list_first(order, limit=limit) == listed
        assert topics.count() == len(notes)
        files = [row[0] for row in reader.rows("SELECT id FROM files")][:2]
        among = Topics(reader, is_all=is_all, files=files)
        assert len(among.list_first("worth", limit=9)) == among.count()


def check_work(reader: Reader, now_s: float) -> None:
    """Check what is kept of tasks, sessions and the project by reading all sections."""
    visible = Filters(now_s=now_s)
    with_archived = replace(visible, includes_archived=True)
    sections = read_work(reader, visible)
    all_sections = read_work(reader, with_archived)
    work = [
        each
        for each in sections
        if each.task and not is_finished(each) and each.kind not in RECORDS
    ]
    n_blocked = sum(each.status == "blocked" for each in work)
    assert count_open_work(reader, visible) == (len(work), n_blocked)
    order = sorted(work, key=lambda each: (each.priority or "P9", each.at, each.place))
    first = find_open_work(reader, visible, most=2)
    assert first == [each for each in order if each.status != "blocked"][:2]
    for task in (None, "T-1"):
        of_project = [
            each
            for each in sections
            if each.lifecycle == "project"
            and not is_finished(each)
            and (task is None or each.task != task)
        ]
        project = ProjectSections(reader, visible, other_than=task)
        assert project.count_sections() == len(of_project)
        assert project.count() == (len(of_project), len({each.path for each in of_project}))
        kinds, _ = project.count_values(most_tags=9)
        assert kinds == Counter(each.kind or "none" for each in of_project)
        tagged = replace(visible, lifecycles=("project",))
        by_sql = ProjectSections(reader, tagged, other_than=task)
        for most in (1, 9):
            both = (each.count_values(most_tags=most) for each in (project, by_sql))
            first, second = ([[*counts.items()] for counts in pair] for pair in both)
            assert first == second
    for tag in ("db", "#OPS", "a", "a/b", "x", "nowhere"):
        check_tag(reader, tag, now_s)
    check_groups(reader, visible, "task", sections, sections)
    check_groups(reader, with_archived, "task", all_sections, all_sections)
    check_groups(reader, with_archived, "session", all_sections, all_sections)


def check_tag(reader: Reader, tag: str, now_s: float) -> None:
    """Check the kept counts of a tag, and the walk in the order of an index, by SQL."""
    kept, by_sql = (
        WaitingSections(reader, Filters(tags=(tag,), now_s=now_s), "supersedes") for _ in range(2)
    )
    by_sql._tag = None
    assert sorted(kept.count(), key=repr) == sorted(by_sql.count(), key=repr)
    if kept._tag is None:
        return  # it is a keyword as well
    for is_waiting in (False, True):
        opened = [
            each for each in kept.count() if each.is_open and (each.is_waiting or not is_waiting)
        ]
        for most in (1, 9):
            expected = by_sql.find_first(most=most, is_waiting=is_waiting)
            assert kept.find_first(most=most, is_waiting=is_waiting) == expected
            assert kept._find_in_order(opened, most) == expected


def check_groups(
    reader: Reader,
    filters: Filters,
    field: Literal["task", "session"],
    sections: list[OutlinedWork],
    all_sections: list[OutlinedWork],
) -> None:
    """Check the latest tasks or sessions; an end counts by `all_sections`."""
    last: dict[str, str] = {}
    for each in sections:
        if name := getattr(each, field):
            last[name] = max(last.get(name, ""), each.at)
    ended = {
        name
        for name in last
        for each in all_sections
        if (getattr(each, field), each.at) == (name, last[name])
        and each.kind == "session"
        and (each.status or "").lower() == ENDED
    }
    names = sorted(last)
    names.sort(key=lambda name: last[name], reverse=True)
    for has_ended in (True, False) if filters.includes_archived else (True,):
        expected = [name for name in names if has_ended or name not in ended]
        groups, n_groups = find_first_groups(reader, filters, field, has_ended=has_ended, most=2)
        assert [(each.name, each.last) for each in groups] == [
            (name, last[name]) for name in expected[:2]
        ]
        assert n_groups == len(expected)
        if filters.includes_archived:
            assert [bool(each.is_ended) for each in groups] == [
                each.name in ended for each in groups
            ]


def read_work(reader: Reader, filters: Filters) -> list[OutlinedWork]:
    with stream_work(reader, filters) as rows:
        return list(rows)


def is_finished(work: OutlinedWork) -> bool:
    return (work.status or "").lower() in FINISHED


def save(update: PutNote, now_s: float) -> PutNote:
    """Let a note be saved now."""
    now_ns = int(now_s * 1e9)
    return replace(update, stat=update.stat._replace(mtime_ns=now_ns), read_at_ns=now_ns)


def render(meta: dict[str, str], sections: list[dict[str, str]], n_words: int) -> str:
    front = "".join(f"{key}: {value}\n" for key, value in meta.items())
    text = f"---\n{front}---\n# Note\n\n{'word ' * n_words}\n" if front else "# Note\n\ntext\n"
    # It supersedes a section, which triage leaves out.
    text += "\n- supersedes [[a#Part 0]]\n" if n_words > 1 else ""
    for number, own in enumerate(sections):
        pairs = ", ".join(f"{key}: {value}" for key, value in own.items())
        comment = f"<!-- memory: {{{pairs}}} -->\n" if own else ""
        text += f"\n## Part {number}\n{comment}\ntext\n"
    return text
