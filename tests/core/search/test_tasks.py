"""Memories of a task are ordered, rendered within bytes, and summarised."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.core.model import Span
from memsyncd.core.search.context import (
    Budget,
    ContextBlock,
    ContextChunk,
    build_block,
    build_context_block,
)
from memsyncd.core.search.tasks import (
    FINISHED,
    TaskItem,
    find_ready,
    list_memory_parts,
    make_memory_chunks,
    order_profile,
    summarize,
)


def make(anchor: str, **fields: object) -> TaskItem:
    given_fields = {
        "path": "tasks.md",
        "start_line": 1,
        "end_line": 3,
        "body_line": 2,
        "heading": anchor,
        "body": f"Text of {anchor}.",
        "kind": "note",
        "priority": None,
        "task": "T",
        "lifecycle": None,
        "status": "",
        "tags": (),
        "importance": 0.5,
        "time": "2026-03-01",
    }
    return TaskItem(anchor=anchor, **{**given_fields, **fields})  # type: ignore[arg-type]


def build(items: list[TaskItem], max_bytes: int = 4096, **wanted: Any) -> ContextBlock:
    """Build the block of a task and of the sections about the whole project."""
    wanted = {"is_whole": True, **wanted}
    parts = list_memory_parts(items, items, task="T", **wanted)
    chunks = make_memory_chunks(parts, max_bytes=max_bytes)
    return build_context_block(
        chunks, Budget(max_tokens=max_bytes, max_bytes=max_bytes), heading=""
    )


def list_included(block: ContextBlock) -> list[str]:
    return [*dict.fromkeys(lines.chunk.anchor for lines in block.included)]


def test_ready_sections_are_ordered_by_priority_and_then_age() -> None:
    items = [
        make("late", priority="P1", time="2026-03-02"),
        make("none"),
        make("early", priority="P1"),
        make("urgent", priority="P0", time="2026-04-01"),
        make("done", status="done", priority="P0"),
        make("past", kind="checkpoint", priority="P0"),
        make("other", task="U", priority="P0"),
    ]
    ready, n_blocked = find_ready(items, "T")
    assert [item.anchor for item in ready] == ["urgent", "early", "late", "none"]
    assert n_blocked == 0
    assert {item.anchor for item in find_ready(items, None)[0]} >= {"other", "urgent"}


def test_archived_sections_are_ready_and_in_the_profile_if_they_are_asked_for() -> None:
    items = [
        make("new"),
        make("old", status="archived", time="2026-03-02"),
        make("done", status="done"),
    ]
    assert [item.anchor for item in find_ready(items, "T")[0]] == ["new"]
    found, n_blocked = find_ready(items, "T", closed=FINISHED)
    assert ([result.anchor for result in found], n_blocked) == (["new", "old"], 0)
    lasting = [replace(item, lifecycle="project") for item in items]
    assert {item.anchor for item in order_profile(lasting)} == {"new", "old"}


def test_blocked_sections_are_left_out_until_what_blocks_them_is_done() -> None:
    blocked = make("blocked", status="blocked")
    waiting = make("waiting", blocked_by=("U", "n.md#a"))
    unknown = make("unknown", blocked_by=("nobody",))
    before = [blocked, waiting, unknown, make("u", task="U", status="open")]
    assert find_ready(before, "T") == ([], 3)
    after = [
        blocked,
        waiting,
        unknown,
        make("u", task="U", status="done"),
        make("n.md#a", task="", status="fixed"),
    ]
    assert find_ready(after, "T") == ([waiting], 2)
    of_note = make("of_note", blocked_by=(after[-1].path,))
    assert find_ready([of_note], "T") == ([], 1)
    assert find_ready([of_note, after[-1]], "T") == ([of_note], 0)


def test_the_groups_of_a_task_are_in_their_order_and_newest_first_or_by_value() -> None:
    items = [
        make("old", time="2026-01-01", kind="checkpoint"),
        make("new", time="2026-05-01"),
        make("found", kind="discovery"),
        make("sum", kind="summary"),
        make("lasting", task="", lifecycle="project", importance=0.6),
        make("lasting2", task="", lifecycle="project", importance=0.9),
    ]
    every = {"task": "T", "is_whole": True}
    parts = list_memory_parts(items, items, **every)
    assert [[item.anchor for item in part.items] for part in parts] == [
        ["lasting2", "lasting"],
        ["sum"],
        ["new", "old"],
        ["found"],
    ]
    by_value = list_memory_parts(
        items, items, **every, value=lambda each: -len(each.anchor) - ("w" in each.anchor)
    )
    assert [item.anchor for item in by_value[2].items] == ["old", "new"]


ITEMS = st.lists(
    st.builds(
        lambda n, kind, body, lifecycle, source: make(
            f"a{n}",
            start_line=n,
            body_line=n + 1,
            kind=kind,
            body=body,
            lifecycle=lifecycle,
            source=source,
        ),
        st.integers(1, 50),
        st.sampled_from(["note", "summary", "discovery", "checkpoint"]),
        st.text(max_size=900),
        st.sampled_from([None, "project"]),
        st.sampled_from(["", "a1", "a2"]),
    ),
    max_size=12,
    unique_by=lambda each: each.anchor,
)


@given(ITEMS, st.integers(200, 3000), st.booleans(), st.randoms())
def test_a_block_is_within_its_bytes_and_names_each_section_whatever_their_order(
    items: list[TaskItem], max_bytes: int, is_resuming: bool, random: object
) -> None:
    block = build(items, max_bytes, is_resuming=is_resuming)
    assert len(block.text.encode()) <= max_bytes
    named = {lines.chunk.anchor for lines in (*block.included, *block.omitted)}
    assert named == {item.anchor for item in items}
    assert bool(block.text) == bool(block.included)
    # A section is left out for another only if the block has that one.
    assert {lines.same_as for lines in block.omitted} - {""} <= {*list_included(block)}
    titles = [line for line in block.text.splitlines() if line.startswith("## ")]
    assert len(titles) == len({*titles})
    shuffled = [*items]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert build(shuffled, max_bytes, is_resuming=is_resuming) == block


@given(ITEMS, st.integers(0, 2000))
def test_a_summary_is_made_of_sentences_within_its_bytes(
    items: list[TaskItem], max_bytes: int
) -> None:
    text = summarize(items, max_bytes=max_bytes)
    assert len(text.encode()) <= max_bytes
    assert summarize(items, max_bytes=max_bytes) == text


def test_a_summary_has_the_sentences_with_frequent_words_in_their_order() -> None:
    items = [
        make("a", body="The redis pool leaks sockets. It was a sunny day."),
        make("b", body="The redis pool needs a limit of sockets.", start_line=9),
    ]
    assert summarize(items, max_bytes=120) == (
        "- The redis pool leaks sockets. (tasks.md:1)\n"
        "- The redis pool needs a limit of sockets. (tasks.md:9)\n"
    )


def test_a_heading_that_begins_the_text_is_shown_once() -> None:
    items = [
        make("a", heading="Pool is full", body="Pool is full\nsince noon", priority="P0"),
        make(
            "b",
            heading="A long sentence about…",
            body="A long sentence about pools.",
            priority="P1",
            conflict="conflict with tasks",
        ),
        make("c", heading="Summary", body="Pool is full.", priority="P2"),
        make("d", heading="", body="No heading.", priority="P3"),
    ]
    text = build(items).text
    assert "(2026-03-01, note, P1, conflict with tasks)" in text
    labels = [
        (label.removeprefix("### ").partition(" · ")[0].partition("(")[0].strip(), said)
        for label, _, said in (
            text.partition("\n") for text in text.split("\n\n") if text[:3] == "###"
        )
    ]
    assert labels == [
        ("", "Pool is full\nsince noon"),
        ("", "A long sentence about pools."),
        ("Summary", "Pool is full."),
        ("", "No heading."),
    ]


def test_nothing_gives_an_empty_block_profile_and_summary() -> None:
    assert build([]).text == ""
    assert order_profile([]) == []
    assert summarize([], max_bytes=100) == ""


POOL = "The pool needs a limit of twenty sockets."
LINK = "- discovered_from [[tasks.md#Pool]]"


def render(*items: TaskItem, max_bytes: int = 4096) -> tuple[str, tuple[str, ...]]:
    block = build([*items], max_bytes)
    return block.text, tuple(list_included(block))


def test_a_fact_stands_in_a_block_once_however_often_it_was_promoted_or_summarised() -> None:
    source = make("tasks.md#pool", heading="Pool", body=POOL, kind="discovery")
    promoted = make(
        "project.md#pool",
        heading="Pool",
        body=f"{POOL}\n\n{LINK}",
        lifecycle="project",
        task="",
        source=source.anchor,
    )
    again = replace(promoted, anchor="project.md#pool-2", time="2026-03-02")
    summary = make("tasks.md#sum", heading="Summary", body=f"- {POOL} (tasks.md:1)", kind="summary")
    text, included = render(source, promoted, again, summary)
    assert (text.count("twenty sockets"), included) == (1, (again.anchor,))
    assert "discovered_from" not in text
    text, included = render(source, summary)
    assert (text.count("twenty sockets"), included) == (1, (summary.anchor,))
    longer = replace(summary, body=f"{summary.body}\n- It leaks at night, too. (tasks.md:9)")
    assert render(source, promoted, longer)[1] == (promoted.anchor, longer.anchor)
    # A changed source has been promoted before, in other words.
    changed = replace(promoted, body=f"No pool may have more than twenty sockets.\n\n{LINK}")
    assert render(source, changed)[1] == (changed.anchor,)


def test_work_and_short_or_longer_texts_are_shown_beside_what_mentions_them() -> None:
    summary = make("sum", heading="Summary", body=f"- {POOL} (tasks.md:1)", kind="summary")
    others = [
        make("work", heading="Pool", body=POOL, priority="P1"),
        make("open", heading="Pool", body=POOL, status="open"),
        make("short", heading="Pool", body="The pool."),
        make("longer", heading="Pool", body=f"{POOL} It leaks."),
    ]
    for item in others:
        assert {*render(summary, item)[1]} == {"sum", item.anchor}


def test_what_a_cut_entry_does_not_show_is_not_left_out() -> None:
    summary = make("sum", heading="Summary", body=f"{'Words of it. ' * 99}{POOL}", kind="summary")
    item = make("own", heading="Pool", body=POOL)
    assert render(summary, item)[1] == ("sum", "own")


def test_the_metadata_of_a_checkpoint_is_shown_and_not_summarised() -> None:
    item = make("one", heading="Ports", body="The ports are defined.", stated="milestone: ports")
    assert "defined. (milestone: ports)" in render(item)[0]
    assert summarize([item], max_bytes=500) == "- The ports are defined. (tasks.md:1)\n"
    linked = replace(item, body=f"The ports are defined.\n\n{LINK}")
    assert summarize([linked], max_bytes=500) == "- The ports are defined. (tasks.md:1)\n"


NAMES = st.sampled_from(["", "WU-1", "WU-2"])
WORK = st.lists(
    st.tuples(
        NAMES,
        st.sampled_from(["s-1", "s-2", ""]),
        st.sampled_from(["session", "note"]),
        st.sampled_from(["", "done"]),
        st.integers(1, 9),
    ),
    max_size=12,
)


@given(ITEMS, st.integers(300, 4000), st.data())
def test_lines_of_memories_and_of_other_chunks_stand_in_a_block_once(
    items: list[TaskItem], max_bytes: int, data: st.DataObject
) -> None:
    # Each line is its own, so that it is known where it comes from.
    items = [
        replace(
            item,
            body="\n".join(f"{item.anchor} says fact {n} of it." for n in range(item.start_line)),
            source="",
        )
        for item in items
    ]
    parts = list_memory_parts(items, items, task="T", is_whole=True, is_resuming=True)
    memories = make_memory_chunks(parts, max_bytes=max_bytes)
    pieces = [
        ContextChunk(
            path=item.path,
            anchor=item.anchor,
            heading=(item.heading,),
            kind=item.kind,
            span=Span(item.body_line, item.body_line + item.start_line - 1),
            text=item.body,
            reason="match",
            part="## Prior Knowledge",
        )
        for item in items
        if data.draw(st.booleans())
    ]
    budget = Budget(max_tokens=max_bytes // 4, max_bytes=max_bytes)
    block = build_block([*memories, *pieces], budget)
    lines = [line.rstrip("…") for line in block.text.splitlines() if " says fact " in line]
    assert len(lines) == len({*lines})
    assert len(block.text.encode()) <= max_bytes
    assert block.n_tokens <= budget.max_tokens
