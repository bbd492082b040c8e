from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from memsyncd.core.editing.additions import CONTENT_LIMIT_CHARS, MADE_HEADING_CHARS, Addition, check_addition, make_heading
from memsyncd.errors import BadRequest, TooLarge

FULL = Addition(
    content="We chose Postgres.",
    summary="Database",
    kind="Decision",
    importance=0.9,
    priority="p1",
    lifecycle="Project",
    source="interview",
    task="WU-12",
    session="s-1",
    created="2026-11-22T01:43:24Z",
    tags=("#auth", "two words"),
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"summary": "", "kind": None, "importance": None, "priority": None, "lifecycle": None, "source": None, "task": None},
        {"importance": 0},
        {"importance": 1.0},
        {"kind": "tool_run"},
        {"kind": "entscheidung-größe"},
        {"created": "2026-11-22"},
        {"created": "2026-11-22 01:43"},
        {"created": "2026-11-22T01:43:24.123+02:00"},
        {"tags": ()},
        {"tags": ("a, b", "c: d", "[e]", "日本")},
        {"content": "x" * CONTENT_LIMIT_CHARS},
        {"content": "\n\n    code\n"},
    ],
)
def test_what_can_be_remembered_passes(changes: dict[str, Any]) -> None:
    check_addition(replace(FULL, **changes))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", ""),
        ("content", " \n\t\u00a0"),
        ("content", "a\0b"),
        ("content", "a\ud800"),
        ("content", "x" * (CONTENT_LIMIT_CHARS + 1)),
        ("summary", "two\nlines"),
        ("summary", "two\u2028lines"),
        ("summary", "x" * 201),
        ("summary", "***"),
        ("summary", "\udc00"),
        ("kind", ""),
        ("kind", "two words"),
        ("kind", "a:b"),
        ("kind", "-x"),
        ("kind", "null"),
        ("kind", "x" * 201),
        ("importance", 1.01),
        ("importance", -0.1),
        ("importance", math.nan),
        ("importance", math.inf),
        ("priority", "P4"),
        ("priority", ""),
        ("lifecycle", "forever"),
        ("source", "a\nb"),
        ("task", "~"),
        ("task", " "),
        ("session", "x" * 201),
        ("created", "yesterday"),
        ("created", "2026-02-30"),
        ("created", "2026-11"),
        ("tags", ("",)),
        ("tags", ("#",)),
        ("tags", ("a\nb",)),
        ("tags", ("a",) * 33),
        ("tags", ("x" * 201,)),
    ],
)
def test_what_cannot_be_is_named(field: str, value: object) -> None:
    with pytest.raises(BadRequest) as refused:
        check_addition(replace(FULL, **{field: value}))  # type: ignore[arg-type]
    assert refused.value.message.startswith(f"{field}")
    assert refused.value.hint


def test_what_is_too_long_is_too_large() -> None:
    with pytest.raises(TooLarge):
        check_addition(replace(FULL, content="x" * (CONTENT_LIMIT_CHARS + 1)))


@pytest.mark.parametrize(
    ("content", "heading"),
    [
        ("We chose Postgres because of its row locks.", "We chose Postgres because of its row locks"),
        ("We chose Postgres. It has row locks.", "We chose Postgres"),
        ("Use v1.2 of the client! Not v1.1.", "Use v1.2 of the client!"),
        ("Use e.g. Redis. Or so.", "Use e.g. Redis"),
        ("... and so on", "... and so on"),
        ("\n\n- [ ] Rotate the **keys**\n- more", "Rotate the keys"),
        ("> quoted words", "quoted words"),
        ("1. first", "first"),
        ("# Redis timeouts\n\nThey come from DNS.", "Redis timeouts"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("---\n***\n===", "Note"),
        ("[[redis-timeouts]] and `code`", "redis-timeouts and code"),
        ("今日は良い天気です。明日は雨です。", "今日は良い天気です"),
        ("word " * 30, ("word " * 14).strip() + "…"),
        ("x" * 200, "x" * MADE_HEADING_CHARS + "…"),
    ],
)
def test_a_heading_is_made_from_what_the_content_begins_with(content: str, heading: str) -> None:
    assert make_heading(Addition(content=content)) == heading


def test_a_summary_is_the_heading() -> None:
    assert make_heading(replace(FULL, summary="  Which   database? ")) == "Which database?"


def test_a_heading_of_no_words_is_the_kind() -> None:
    assert make_heading(Addition(content="---", kind="insight")) == "insight"
