"""Recall finds memories by keywords and tags, and by the key `topic` or the title of the note."""

from __future__ import annotations

from typing import Any

import pytest

from memsyncd.config import Config
from memsyncd.operations.recall.declare import RecallParams
from memsyncd.operations.recall.run import recall

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


@pytest.mark.parametrize(
    ("criteria", "stage", "anchors"),
    [
        ({"keywords": ["sockets"]}, "keywords", {TAGGED, KEYED}),
        ({"keywords": ["sockets"], "topic": "Auth Server"}, "keywords", {KEYED}),
        ({"topic": "login"}, "topic and kind", {OWN}),
    ],
)
def test_memories_are_recalled_by_words_of_their_metadata(
    filled: Any, criteria: dict[str, Any], stage: str, anchors: set[str]
) -> None:
    recalled = recall(filled.workspace, Config(), RecallParams(**criteria), 1.0)
    assert recalled.stage == stage
    assert {memory.anchor for memory in recalled.memories} == anchors


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
