"""Memories of other systems become sections, and nothing of them is dropped without a word."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.editing.additions import append_section, find_faults
from memsyncd.core.editing.transfer import (
    ForeignMemory,
    ForeignRelation,
    choose_headings,
    make_memory_addition,
    parse_json_lines,
    read_claude_mem,
    read_flowstate,
    read_fogsift,
    read_lumenflow,
    read_own_lines,
    resolve_relations,
    rewrite_mentions,
    strip_comment,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    "id content type kind lifecycle tags keywords metadata created_at wu_id importance priority"
    " status source relations accesses summary from_id to_id other".split()
)
ROWS = st.dictionaries(NAMES, VALUES, max_size=10)


@given(st.lists(ROWS, max_size=5))
def test_any_rows_become_sections_that_can_be_written_or_are_named(rows: list[Any]) -> None:
    text = "\n".join(json.dumps(row) for row in rows)
    for read in (read_own_lines, read_lumenflow):
        memories, left_out = read(text)
        for memory in memories:
            assert find_faults(make_memory_addition(memory, "")) == []
            data, [span], _ = append_section(
                "a.md", None, [make_memory_addition(memory, "")], at="2026-01-01"
            )
            assert span.start > 1
            assert data.endswith(b"\n")
        assert all(place and reason for place, reason in left_out)
    for row in rows:
        tables = {
            name: [{**row, **{key: row.get(key) for key in keys}}]
            for name, keys in {
                "fragments": ["id"],
                "memories": [],
                "observations": [],
                "session_summaries": [],
            }.items()
        }
        for read_tables in (read_fogsift, read_flowstate, read_claude_mem):
            for memory in read_tables(tables).memories:
                assert find_faults(make_memory_addition(memory, "")) == []


def test_a_line_that_is_no_object_is_named_with_its_number() -> None:
    rows, left_out = parse_json_lines('{"content": "a"}\n\n[1]\nno json\n')
    assert [number for number, _ in rows] == [1]
    assert [place for place, _ in left_out] == ["line 3", "line 4"]


def test_lumenflows_nodes_keep_their_fields_and_a_later_line_replaces_an_earlier_one() -> None:
    node = {
        "id": "mem-abc1",
        "type": "discovery",
        "lifecycle": "wu",
        "content": "The adapter hides a second socket.",
        "created_at": "2025-01-15T10:00:00Z",
        "updated_at": "2025-01-16T10:00:00Z",
        "wu_id": "WU-123",
        "session_id": "s-1",
        "tags": ["ports"],
        "metadata": {
            "priority": "P1",
            "status": "archived",
            "milestone": "ports-complete",
            "access": {"count": 3, "last_accessed_at": "2025-02-01T00:00:00Z"},
        },
    }
    lines = [
        {**node, "content": "An earlier text."},
        node,
        {"from_id": "mem-abc1", "to_id": "mem-def2", "type": "discovered_from"},
        {"id": "mem-def2", "type": "note", "content": "Second.", "color": "red"},
        {"id": "mem-ghi3", "type": "note", "content": " "},
        {"from_id": "mem-none", "to_id": "mem-def2", "type": "blocks"},
    ]
    memories, left_out = read_lumenflow("\n".join(map(json.dumps, lines)))
    assert memories[0] == ForeignMemory(
        id="mem-abc1",
        alias="mem-abc1",
        content="The adapter hides a second socket.",
        kind="discovery",
        lifecycle="task",
        task="WU-123",
        session="s-1",
        tags=("ports",),
        status="archived",
        priority="P1",
        created="2025-01-15T10:00:00Z",
        updated="2025-01-16T10:00:00Z",
        metadata={"milestone": "ports-complete"},
        relations=(ForeignRelation("discovered_from", "mem-def2"),),
        accesses=3,
        accessed="2025-02-01T00:00:00Z",
    )
    assert [memory.id for memory in memories] == ["mem-abc1", "mem-def2"]
    assert left_out == [
        ("line 4", "color has no place"),
        ("line 5", "has no text"),
        ("mem-none", "has relations, and no memory with this id"),
    ]


def test_fogsifts_fragments_have_their_keywords_source_and_links() -> None:
    tables = {
        "fragments": [
            {
                "id": "f1",
                "content": "Redis ran out of sockets.",
                "topic": "redis",
                "type": "error",
                "importance": 0.9,
                "scope": "permanent",
                "created_at": "2025-03-01 10:00:00",
                "last_referenced": "2025-04-01 10:00:00",
                "reference_count": 4,
                "source": '{"client": "acme", "date": "2025-03-01"}',
            },
            {
                "id": "f2",
                "content": "Limit the pool.",
                "type": "solution_approach",
                "importance": 7,
            },
        ],
        "keywords": [{"fragment_id": "f1", "keyword": "redis"}],
        "links": [{"from_id": "f1", "to_id": "f2", "relation_type": "resolved_by"}],
    }
    memories, left_out = read_fogsift(tables)
    assert memories[0].source == {"client": "acme", "date": "2025-03-01"}
    assert (memories[0].keywords, memories[0].accesses) == (("redis",), 4)
    assert memories[0].relations == (ForeignRelation("resolved_by", "f2"),)
    assert (memories[1].kind, memories[1].importance) == ("solution_approach", None)
    assert left_out == [("fragment f2", "importance is 7, which has no place")]


def test_flowstates_memories_have_their_tags_and_run() -> None:
    row = {
        "id": "abc",
        "kind": "research",
        "content": "Streams keep state.",
        "summary": "Kafka Streams",
        "source": "research/report.md",
        "tags": '["kafka", "streams"]',
        "run_id": "run-1",
        "created_at": 1_735_725_600,
    }
    [memory] = read_flowstate({"memories": [row]}).memories
    assert (memory.summary, memory.tags) == ("Kafka Streams", ("kafka", "streams"))
    assert (memory.run_id, memory.created) == ("run-1", "2025-01-01T10:00:00Z")


def test_claude_mems_observations_and_summaries_become_memories() -> None:
    tables = {
        "observations": [
            {
                "id": 7,
                "memory_session_id": "s-1",
                "project": "shop",
                "type": "bugfix",
                "title": "Sockets leak",
                "narrative": "The pool never closed them.",
                "facts": '["50 per minute"]',
                "concepts": '["gotcha"]',
                "files_modified": '["pool.py"]',
                "created_at": "2025-12-10T10:00:00Z",
            }
        ],
        "session_summaries": [{"id": 1, "request": "Fix the leak", "learned": "Close it."}],
    }
    first, second = read_claude_mem(tables).memories
    assert first.content == "The pool never closed them.\n\n- 50 per minute"
    assert (first.kind, first.tags, first.keywords) == ("insight", ("bugfix",), ("gotcha",))
    assert first.source == {"project": "shop", "file": "pool.py"}
    assert (second.kind, second.summary, second.content) == (
        "summary",
        "Fix the leak",
        "Learned: Close it.",
    )


def test_headings_of_a_note_differ() -> None:
    memories = [ForeignMemory(id=str(n), content="Same.", note="a.md") for n in range(3)]
    other = ForeignMemory(id="x", content="Same.", note="b.md")
    assert choose_headings([*memories, other], {"a.md": ["same"]}) == [
        "Same (2)",
        "Same (3)",
        "Same (4)",
        "Same",
    ]


def test_relations_and_mentions_lead_to_the_sections_of_their_memories() -> None:
    memory = ForeignMemory(
        id="a",
        content="",
        relations=(ForeignRelation("informs", "b"), ForeignRelation("blocks", "gone")),
    )
    targets = {"b": ".memories/notes.md#B"}
    assert resolve_relations(memory, targets) == (
        [ForeignRelation("informs", ".memories/notes.md#B")],
        [ForeignRelation("blocks", "gone")],
    )
    assert rewrite_mentions("See [[b]] and [[c]].", targets) == (
        "See [[.memories/notes.md#B]] and [[c]]."
    )


def test_the_comment_of_a_section_alone_is_dropped() -> None:
    lines = ["", "<!-- memory: {kind: note,", "tags: [a]} -->", "", "Text.", "<!-- memory: {} -->"]
    assert strip_comment(lines) == ["", "Text.", "<!-- memory: {} -->"]
    assert strip_comment(["Text."]) == ["Text."]
    assert strip_comment([""]) == [""]
