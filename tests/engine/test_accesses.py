"""Counts of accesses stay at their sections through edits and renames of notes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.config import AccessConfig, HistoryConfig
from memsyncd.core.editing.sections import match_sections, trace_sections
from memsyncd.core.markdown.frontmatter import parse_meta
from memsyncd.core.markdown.scanner import Block
from memsyncd.core.markdown.sections import heading_text
from memsyncd.core.model import Meta, Problem
from memsyncd.engine import accesses
from memsyncd.engine.accesses import (
    find_accesses,
    note_accesses,
    store_accesses,
)
from memsyncd.engine.additions import make_addition_decision
from memsyncd.engine.external_changes import prune_slice
from memsyncd.errors import NoteNotFound, StoreFull
from memsyncd.operations.history.declare import PurgeParams
from memsyncd.operations.history.run import purge
from memsyncd.operations.notes.declare import NewSection
from memsyncd.operations.revisions import parse_target
from memsyncd.operations.stats.declare import AccessStatsParams
from memsyncd.operations.stats.run import compute_access_stats
from tests.engine.conftest import Bench, take

NOTE = "# Redis\n\n## Timeouts\n\nRaise them to 5 s.\n\n## Ports\n\n6379 everywhere.\n"
TIMEOUTS = ".memories/redis.md#redis/timeouts"
PORTS = ".memories/redis.md#redis/ports"


@pytest.fixture
def kept(bench: Bench) -> Bench:
    """A workspace with one note, all of which the history knows."""
    bench.write(".memories/redis.md", NOTE)
    bench.update()
    bench.see()
    return bench


def note(bench: Bench, *anchors: str, session: str | None = None, at_s: float = 1.0) -> None:
    note_accesses(bench.workspace, anchors, session=session, at_s=at_s)


def store(bench: Bench) -> None:
    take(store_accesses(bench.workspace, bench.config, bench.clock))


def count(bench: Bench, path: str | None = None, slugs: str | None = None) -> dict[str, int]:
    """The counts by anchor; of sections that no note has now, the anchor ends with a `?`."""
    params = AccessStatsParams(limit=200)
    job = compute_access_stats(
        bench.workspace, bench.config, bench.clock, path=path, slugs=slugs, params=params
    )
    stats = take(job)
    assert stats.accesses == sum(row.count for row in stats.counts)
    return {row.anchor + "?" * (not row.is_indexed): row.count for row in stats.counts}


def test_accesses_are_counted_and_a_session_counts_once(kept: Bench) -> None:
    note(kept, TIMEOUTS, PORTS)
    note(kept, TIMEOUTS, at_s=7.0)
    for _ in range(3):
        note(kept, PORTS, session="s1", at_s=3.0)
        store(kept)
    assert count(kept) == {TIMEOUTS: 2, PORTS: 2}
    assert find_accesses(kept.workspace)[TIMEOUTS].last_at_s == 7.0
    note(kept, PORTS, session="s1", at_s=9.0)
    assert count(kept, ".memories/redis.md", "redis/ports") == {PORTS: 2}
    assert find_accesses(kept.workspace)[PORTS].last_at_s == 9.0


def test_a_whole_note_counts_each_of_its_sections(kept: Bench) -> None:
    note(kept, ".memories/redis.md")
    assert count(kept) == {".memories/redis.md#redis": 1, TIMEOUTS: 1, PORTS: 1}


@pytest.mark.parametrize(
    ("path", "slugs", "hint"),
    [
        (".memories/redis.md", "redis/timeout", "did you mean .memories/redis.md#redis/timeouts?"),
        (".memories/redis.md", "zebra", "list sections with: memsyncd list --sections"),
        ("redis.md", "redis/ports", "did you mean .memories/redis.md?"),
        (
            "zebra.md",
            None,
            "list notes with: memsyncd list --notes; if it was removed: memsyncd undo NOTE",
        ),
    ],
)
def test_a_place_that_never_was_is_an_error_with_near_names(
    kept: Bench, path: str, slugs: str | None, hint: str
) -> None:
    anchor = None if slugs is None else f"{path}#{slugs}"
    for ask in (
        lambda: count(kept, path, slugs),
        lambda: kept.past(path if anchor is None else None, anchor),
    ):
        with pytest.raises(NoteNotFound) as refused:
            ask()
        assert refused.value.hint == hint


def test_a_place_without_accesses_or_changes_has_none(kept: Bench) -> None:
    assert count(kept, ".memories/redis.md", "redis/ports") == {}
    assert count(kept, ".memories") == {}
    kept.write(".memories/redis.md", NOTE.replace("Ports", "Doors"))
    kept.follow()
    assert kept.past(anchor=PORTS)


def test_counts_follow_a_renamed_heading_and_an_edited_text(kept: Bench) -> None:
    note(kept, TIMEOUTS, PORTS, PORTS)
    kept.write(".memories/redis.md", NOTE.replace("Timeouts", "Time limits"))
    kept.follow()
    note(kept, ".memories/redis.md#redis/time-limits")
    kept.write(".memories/redis.md", NOTE.replace("Timeouts", "Time limits").replace("5 s", "9 s"))
    kept.follow()
    assert count(kept) == {".memories/redis.md#redis/time-limits": 2, PORTS: 1}


def test_counts_follow_a_note_that_a_client_or_another_program_renames(kept: Bench) -> None:
    note(kept, TIMEOUTS)
    kept.memory("rename", old_path="/memories/redis.md", new_path="/memories/cache.md")
    kept.root.joinpath(".memories/cache.md").rename(kept.root / ".memories/store.md")
    kept.follow()
    assert count(kept) == {".memories/store.md#redis/timeouts": 1}


def test_an_access_noted_before_a_rename_and_stored_after_it_is_not_lost(kept: Bench) -> None:
    note(kept, TIMEOUTS)
    store(kept)
    note(kept, TIMEOUTS)
    kept.memory("rename", old_path="/memories/redis.md", new_path="/memories/cache.md")
    note(kept, ".memories/cache.md#redis/timeouts")
    assert count(kept) == {".memories/cache.md#redis/timeouts": 3}


def test_an_access_is_not_counted_for_an_earlier_note_of_the_same_path(kept: Bench) -> None:
    kept.memory("rename", old_path="/memories/redis.md", new_path="/memories/cache.md")
    kept.write(".memories/redis.md", NOTE.replace("6379", "6380"))
    kept.follow()
    note(kept, TIMEOUTS)
    assert count(kept) == {TIMEOUTS: 1}


def test_counts_of_two_notes_that_swap_their_paths_are_swapped(kept: Bench) -> None:
    kept.write(".memories/other.md", "# Other\n\nAnother note altogether.\n")
    kept.follow()
    note(kept, TIMEOUTS, ".memories/other.md#other")
    note(kept, TIMEOUTS)
    store(kept)
    place = kept.root / ".memories"
    (place / "redis.md").rename(place / "kept")
    (place / "other.md").rename(place / "redis.md")
    (place / "kept").rename(place / "other.md")
    kept.follow()
    counts = count(kept)
    assert sum(counts.values()) == 3
    assert counts[".memories/redis.md#other"] == 1
    assert counts[".memories/other.md#redis/timeouts"] == 2


def test_a_section_that_moves_to_another_note_in_one_change_set_takes_its_count(
    kept: Bench,
) -> None:
    note(kept, TIMEOUTS)
    kept.write(".memories/redis.md", "# Redis\n\n## Ports\n\n6379 everywhere.\n")
    kept.write(".memories/limits.md", "# Limits\n\n## Of Redis\n\nRaise them to 5 s.\n")
    kept.follow()
    assert count(kept) == {".memories/limits.md#limits/of-redis": 1}


def test_a_deleted_section_keeps_its_count_until_it_comes_back(kept: Bench) -> None:
    note(kept, TIMEOUTS)
    kept.memory("delete", "/memories/redis.md")
    assert count(kept) == {f"{TIMEOUTS}?": 1}
    kept.undo(path=".memories/redis.md")
    assert count(kept) == {TIMEOUTS: 1}


def test_counts_survive_a_new_index_and_the_pruning_of_revisions(kept: Bench) -> None:
    note(kept, TIMEOUTS)
    kept.config = replace(kept.config, history=HistoryConfig(max_revisions=1))
    for heading in ("A", "B", "C"):
        kept.write(".memories/redis.md", f"# Redis\n\n## {heading}\n\nRaise them to 5 s.\n")
        kept.follow()
        kept.write(".memories/redis.md", f"# Redis\n\n## {heading}\n\nSet {heading}.\n")
        kept.follow()
        take(prune_slice(kept.workspace, kept.config, kept.clock))
    assert len(kept.past(".memories/redis.md")) == 1
    kept.rebuild()
    assert count(kept) == {".memories/redis.md#redis/c": 1}


def test_only_so_many_sections_are_counted_and_the_oldest_go_first(kept: Bench) -> None:
    kept.config = replace(kept.config, access=AccessConfig(max_sections=2))
    for at, anchor in enumerate((PORTS, TIMEOUTS, ".memories/redis.md#redis")):
        note(kept, anchor, at_s=float(at))
        store(kept)
    assert count(kept).keys() == {TIMEOUTS, ".memories/redis.md#redis"}


def test_purging_erases_the_counts_of_the_place_or_with_the_text(kept: Bench) -> None:
    def erase(**fields: Any) -> int:
        params = PurgeParams(**fields)
        target = parse_target(params)
        purged = take(purge(kept.workspace, kept.config, kept.clock, target, params))
        return purged.access_counts  # type: ignore[no-any-return]

    note(kept, TIMEOUTS, PORTS, ".memories/redis.md#redis", session="hunter2")
    assert erase(containing="hunter2") == 0
    note(kept, PORTS)
    assert erase(containing="Timeouts") == 1
    assert erase(anchor=PORTS) == 1
    assert erase(path=".memories/redis.md") == 1
    assert count(kept) == {}


def test_sections_are_matched() -> None:
    for before, after, expected in (
        ("# A\n\nx\n\n# A\n\ny\n", "# A\n\ny\n", {"a-2": "a"}),
        ("# A\n\nx\n", "# B\n\nx\n", {"a": "b"}),
        ("# A\n\nx\n\n# B\n\ny\n", "# B\n\ny\n\n# C\n\nx\n", {"a": "c", "b": "b"}),
        ("# A\n\nx\n\n# B\n\ny\n", "# New\n\nz\n\n# B\n\ny\n", {"a": "new", "b": "b"}),
        ("# A\n\nx\n", "# A\n\nx\n\n# B\n\nx\n", {"a": "a"}),
        (
            "# A\n<!-- memory: {id: 7} -->\n\nx\n\n# B\n\ny\n",
            "# B\n\nx\n\n# Z\n<!-- memory: {id: 7} -->\n\nw\n",
            {"a": "z", "b": "b"},
        ),
    ):
        old, new = (trace_sections("n.md", text.encode()) for text in (before, after))
        assert match_sections(old, new).slugs == expected, before


SECTIONS = st.lists(
    st.tuples(st.sampled_from(["A", "B", "C", "D"]), st.sampled_from(["x", "y", "z", ""])),
    max_size=5,
)


def render(sections: list[tuple[str, str]]) -> str:
    return "".join(f"# {heading}\n\n{body}\n\n" for heading, body in sections)


@given(SECTIONS, SECTIONS)
@example([("A", "y"), ("A", "z"), ("A", "x"), ("A", "x")], [("A", "x"), ("A", ""), ("A", "z")])
def test_each_section_has_one_counterpart_at_most(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    old, new = (trace_sections("n.md", render(sections).encode()) for sections in (before, after))
    match = match_sections(old, new)
    assert len(set(match.slugs.values())) == len(match.slugs)
    assert match.slugs.keys() | {trace.slugs for trace in match.removed} == {
        trace.slugs for trace in old
    }
    if before == after:
        assert match.slugs == {trace.slugs: trace.slugs for trace in old}


NAMES = st.sampled_from(["one", "two", "three"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("access"), NAMES, st.sampled_from("abcd")),
        st.tuples(st.just("edit"), NAMES, SECTIONS),
        st.tuples(st.just("save"), NAMES, SECTIONS),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("move"), NAMES, NAMES),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("store")),
        st.tuples(st.just("reindex")),
    ),
    max_size=12,
)


@given(STEPS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_sequence_of_accesses_edits_moves_and_reindexes_loses_a_count(
    make_bench: Callable[..., Bench], steps: list[tuple[Any, ...]]
) -> None:
    test_no_sequence_of_accesses_edits_moves_and_reindexes_loses_a_count.n += 1  # type: ignore[attr-defined]
    number = test_no_sequence_of_accesses_edits_moves_and_reindexes_loses_a_count.n  # type: ignore[attr-defined]
    bench = make_bench(f"project{number}")
    bench.open()
    bench.update()
    bench.see()
    n_noted = 0
    for name, *words in steps:
        with contextlib.suppress(ValueError):
            n_noted += STEP[name](bench, *words)
    assert sum(count(bench).values()) == n_noted
    bench.workspace.close()


test_no_sequence_of_accesses_edits_moves_and_reindexes_loses_a_count.n = 0  # type: ignore[attr-defined]


def place(bench: Bench, name: str) -> Any:
    return bench.root / ".memories" / f"{name}.md"


def access(bench: Bench, name: str, slugs: str) -> int:
    note(bench, f".memories/{name}.md#{slugs}")
    return 1


def edit(bench: Bench, name: str, sections: list[tuple[str, str]]) -> int:
    path = f"/memories/{name}.md"
    if place(bench, name).exists():
        bench.memory("insert", path, insert_line=0, insert_text=render(sections[:1]) + "\n")
    else:
        bench.memory("create", path, file_text=render(sections))
    return 0


def save(bench: Bench, name: str, sections: list[tuple[str, str]]) -> int:
    place(bench, name).write_text(render(sections))
    bench.follow()
    return 0


def rename(bench: Bench, old: str, new: str) -> int:
    if place(bench, old).exists() and not place(bench, new).exists():
        bench.memory("rename", old_path=f"/memories/{old}.md", new_path=f"/memories/{new}.md")
    return 0


def move(bench: Bench, old: str, new: str) -> int:
    if place(bench, old).exists():
        place(bench, old).rename(place(bench, new))
        bench.follow()
    return 0


def delete(bench: Bench, name: str) -> int:
    if place(bench, name).exists():
        bench.memory("delete", f"/memories/{name}.md")
    return 0


def store_now(bench: Bench) -> int:
    store(bench)
    return 0


def reindex(bench: Bench) -> int:
    bench.rebuild()
    return 0


STEP: dict[str, Callable[..., int]] = {
    "access": access,
    "edit": edit,
    "save": save,
    "rename": rename,
    "move": move,
    "delete": delete,
    "store": store_now,
    "reindex": reindex,
}


def test_counts_are_told_while_they_cannot_be_stored(
    kept: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(kept, TIMEOUTS)
    assert count(kept) == {TIMEOUTS: 1}
    note(kept, TIMEOUTS, session="s")
    note(kept, PORTS)

    def fail(*_: Any, **__: Any) -> None:
        raise StoreFull("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(accesses, "store_noted", fail)
        for _ in range(2):
            assert count(kept) == {TIMEOUTS: 2, PORTS: 1}
    assert count(kept) == {TIMEOUTS: 2, PORTS: 1}


def test_an_append_to_a_long_note_parses_only_its_own_sections(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = [f"## S {n}\n<!-- memory: {{kind: bug}} -->\n\ntext {n}\n\n" for n in range(300)]
    bench.write(".memories/long.md", "# Long\n\n" + "".join(sections))
    bench.update()
    bench.see()
    note(bench, ".memories/long.md#long/s-7")
    store(bench)
    headings, comments = [], []

    def read_heading(lines: list[str], block: Block) -> str:
        headings.append(lines[block.start])
        return heading_text(lines, block)

    def read_comment(path: str, text: str, line: int) -> tuple[Meta, tuple[Problem, ...]]:
        comments.append(line)
        return parse_meta(path, text, line)

    monkeypatch.setattr("memsyncd.core.markdown.sections.heading_text", read_heading)
    monkeypatch.setattr("memsyncd.core.markdown.frontmatter.parse_meta", read_comment)
    section = NewSection(content="new", note=".memories/long.md", summary="S 7", kind="error")
    decide = make_addition_decision(
        bench.workspace, bench.config, [section], command="note.add", client="test", at="2026-01-02"
    )
    [added] = bench.edit(decide).answer
    assert added.anchor == ".memories/long.md#long/s-7-2"
    store(bench)
    assert count(bench) == {".memories/long.md#long/s-7": 1}
    # The edit and the index parse the last section and the new one, and following the counts none.
    assert {*headings} == {"## S 299", "## S 7"}
    assert len(headings) <= 4
    assert len(comments) <= 2
