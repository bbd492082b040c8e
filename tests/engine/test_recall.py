"""Recall finds memories by keywords and tags, and by the key `topic` or the title of the note."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from memsyncd.config import Config
from memsyncd.engine.memories import list_named, read_memory
from memsyncd.operations.recall.declare import RecallParams
from memsyncd.operations.recall.run import recall, recall_from
from memsyncd.store.lookup import read_note_paths
from memsyncd.store.sections import read_named_memories, read_outlines
from memsyncd.store.texts import NoteLines, read_lines

OWN = ".memories/auth-server.md#auth-server/own"
AUTH = ".memories/auth-server.md#auth-server"
TAGGED, KEYED = ".memories/log.md#log/tagged", ".memories/log.md#log/keyed"


@pytest.fixture
def filled(bench: Any) -> Any:
    bench.open()
    bench.write(
        ".memories/auth-server.md",
        "---\ncreated: 2026-01-01\n---\n# Auth server\n\n## Status\n\nIt runs.\n\n"
        "## Own\n<!-- memory: {topic: login} -->\n\nUsers log in.\n",
    )
    bench.write(
        ".memories/log.md",
        "# Log\n\n## Tagged\n<!-- memory: {tags: [Sockets]} -->\n\nNo sockets.\n\n"
        "## Keyed\n<!-- memory: {keywords: [sockets], topic: auth server} -->\n\nA limit.\n",
    )
    bench.rebuild()
    return bench


def test_memories_are_recalled_by_words_of_their_metadata(filled: Any) -> None:
    for criteria, stage, anchors in (
        ({"keywords": ["sockets"]}, "keywords", {TAGGED, KEYED}),
        ({"keywords": ["sockets"], "topic": "Auth Server"}, "keywords", {KEYED}),
        ({"topic": "login"}, "topic and kind", {OWN}),
    ):
        recalled = recall(filled.workspace, Config(), RecallParams(**criteria), 1.0)
        assert recalled.stage == stage, criteria
        assert {memory.anchor for memory in recalled.memories} == anchors, criteria


def test_the_title_of_a_note_recalls_its_sections(filled: Any) -> None:
    recalled = recall(filled.workspace, Config(), RecallParams(topic="auth server"), 1.0)
    assert recalled.stage == "topic and kind"
    # Front matter alone is no memory.
    assert {memory.anchor for memory in recalled.memories} == {AUTH, KEYED}
    assert recalled.left_out == 0


def test_a_text_below_front_matter_is_a_memory(bench: Any) -> None:
    bench.open()
    bench.write(".memories/lone.md", "---\ntopic: login\n---\nUsers log in.\n\n---\n")
    bench.rebuild()
    recalled = recall(bench.workspace, Config(), RecallParams(topic="login"), 1.0)
    assert [memory.anchor for memory in recalled.memories] == [".memories/lone.md#"]


def test_several_workspaces_recall_as_one_that_has_all_of_their_notes(make_bench: Any) -> None:
    """All texts have the same size, so that the same number of them fits."""
    rng = random.Random(11)
    whole, *parts = (make_bench(name) for name in ("whole", "one", "two", "three"))
    for bench in (whole, *parts):
        bench.open()
    for number in range(24):
        sections = "".join(
            f"## Memory {number:02}{letter}\n<!-- memory: {{kind: {rng.choice(('error', 'fact'))},"
            f" topic: {rng.choice(('auth', 'redis'))}, importance: 0.{rng.randint(1, 9)},"
            f" keywords: [{rng.choice(('pool', 'queue', 'none'))}],"
            f" updated: 2026-01-{rng.randint(1, 28):02}}} -->\n\n{'Larches lose needles. ' * 5}\n\n"
            for letter in "ab"
        )
        for bench in (whole, parts[number % 3]):
            bench.write(f".memories/note-{number:02}.md", f"# Note\n\n{sections}")
    for bench in (whole, *parts):
        bench.rebuild()
    every = [(part.workspace, {}) for part in parts]
    fitting = set()
    for keyword, topic, kind, most in product(
        (None, "pool", "queue", "nowhere"),
        (None, "auth", "cars"),
        (None, "error"),
        (100, 500, 9000),
    ):
        if keyword or topic or kind:
            params = RecallParams(
                keywords=[keyword] if keyword else [], topic=topic, kind=kind, max_tokens=most
            )
            joined, alone = (
                recall_from(workspaces, Config(), params, 1.0)
                for workspaces in (every, [(whole.workspace, {})])
            )
            assert joined.stage == alone.stage
            if joined.stage == "words":
                continue  # bm25 is of each index
            assert [memory.anchor for memory in joined.memories] == [
                memory.anchor for memory in alone.memories
            ]
            assert (joined.tokens, joined.left_out) == (alone.tokens, alone.left_out)
            assert joined.tokens <= most
            fitting.add((joined.stage, joined.left_out > 0))
    assert fitting >= set(product(("keywords", "topic and kind"), (True, False)))
    params = RecallParams(text="larches", max_tokens=300)
    found = recall_from(every, Config(), params, 1.0)
    assert found.stage == "words"
    assert 0 < found.tokens <= 300
    assert len({memory.workspace for memory in found.memories}) > 1


def test_the_lines_of_memories_are_read_from_the_index_as_from_the_disk(bench: Any) -> None:
    rng = random.Random(3)
    for number in range(6):
        lines = ["---\ntopic: x\n---\n" if number % 2 else "Before any heading.\n"]
        for at in range(30):
            title = rng.choice(("One", "Two", "One more", "Straße", "!"))
            lines.append(
                f"{'#' * rng.randint(1, 4)} {title}\n\n{'text ' * rng.randint(0, 300)}{at}\n"
            )
        bench.write(f".memories/note-{number}.md", "\n".join(lines))
    bench.rebuild()
    with bench.workspace.acquire(5.0) as reader:
        notes = read_outlines(reader, read_note_paths(reader))
        anchors = [section.anchor for note in notes for section in note.sections]
        for _ in range(20):
            named = rng.sample(anchors, 12)
            memories = read_named_memories(reader, named)
            places = [NoteLines(each.path, each.start_line, each.end_line) for each in memories]
            expected = list(list_named(notes, named))
            assert [memory.anchor for memory in memories] == [each.head.anchor for each in expected]
            assert read_lines(reader, places) == [
                read_memory(bench.workspace, memory) for memory in expected
            ]
