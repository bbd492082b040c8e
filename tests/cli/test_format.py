from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.search.ranking import Candidate, Ranked
from memsyncd.terminal.format import (
    render_age,
    render_bar,
    render_count,
    render_duration,
    render_explanation,
    render_freshness,
    render_hit,
    render_size,
    render_snippet,
    truncate,
)
from memsyncd.terminal.terminal import Paint
from memsyncd.terminal.wrap import break_line, display_width, render_table
from tests.cli.test_screen_width import fits, list_unbroken

PLAIN = Paint()
COLOUR = Paint(has_colour=True)

HIT: dict[str, Any] = {
    "priority": None,
    "task": None,
    "status": None,
    "is_expired": False,
    "workspace": "notes-1",
    "anchor": ".memories/redis.md#redis/timeouts",
    "path": ".memories/redis.md",
    "start_line": 4,
    "end_line": 6,
    "heading": ["Redis", "Timeouts"],
    "snippet": "The **redis** timeout is 5 s",
    "score": 0.874,
    "kind": "decision",
    "tags": ["redis", "ops"],
    "importance": None,
    "digest": "0",
    "matched": ["redis", "timeout"],
    "contradicts": [],
    "contradicted_by": [],
    "supersedes": [],
    "superseded_by": [],
    "since": "",
    "related": [],
    "explain": {"stemmed": 12.3456, "exact": 3.0},
}


def render(hit: dict[str, Any], paint: Paint = PLAIN, *, width: int = 0) -> str:
    return render_hit(hit, paint, root="/w", cwd="/w", width=width)


def test_a_hit_shows_its_contradictions_and_the_targets_of_its_relations() -> None:
    related = {**HIT, "relation": "resolved_by", "snippet": "Raise the limit.", "tags": []}
    relations = {"contradicts": ["a.md#old"], "contradicted_by": ["b.md"], "related": [related]}
    hit = {**HIT, **relations, "explain": None}
    assert render(hit).splitlines()[2:] == [
        "  contradicts a.md#old",
        "  contradicted by b.md",
        "  resolved_by → .memories/redis.md:4-6  Redis › Timeouts  decision",
        "    Raise the limit.",
    ]


def test_a_terminal_shows_a_bar_beside_the_score() -> None:
    assert render(HIT, width=80).splitlines()[0].endswith("  ━━━━━━── 0.87")
    assert render(HIT | {"score": 1.0}, width=80).splitlines()[0].endswith("  ━━━━━━━━ 1.00")
    assert render(HIT | {"score": 0.0001}, width=80).splitlines()[0].endswith("  ──────── <0.01")


def test_an_explanation_has_three_lines_and_leaves_out_parts_that_change_nothing() -> None:
    score = {"stems": 12.3456, "family": 0.0, "run": 2.0, "day": 1.1, "importance": 1.0}
    worth = {"decay_recency": 0.5, "decay_accesses": 1.0, "decay_importance": 0.8}
    hit = HIT | {
        "explain": {**score, "worth": 0.4, **worth, "decay_score": 0.4, "chunks": 2.0},
        "matched_related": ["socket"],
    }
    assert render_explanation(hit) == [
        "words  redis, timeout; socket by related words",
        "score  stems 12.3 + words in a row 2 × day 1.1",
        "worth  0.40 = recency 0.50 × accesses 1.00 × importance 0.80",
    ]
    assert render(hit).splitlines()[2:] == ["  " + line for line in render_explanation(hit)]
    common = render_explanation(HIT | {"explain": {"stems": 0.0}})[1]
    assert common == "score  near 0: most passages have these words"


def test_an_explanation_knows_every_part_of_a_score() -> None:
    candidate = Candidate(1, 1, 1, "a.md", 1, 2, 3, None, 1.0, 0.5, 0.1, 0.2)
    boosts = {"importance": 2.0, "recency": 2.0, "decay": 2.0}
    parts = Ranked(candidate, 1.0, 0.5, 0.1, 0.1, 2.0, boosts).parts
    score = render_explanation(HIT | {"explain": parts})[1]
    assert score.count(" + ") + score.count(" × ") + 1 == sum(
        round(part, 2) != 0 for part in parts.values()
    )


def test_matches_are_coloured_or_marked_on_a_terminal_and_plain_elsewhere() -> None:
    snippet = "a **redis** b"
    marked = Paint(has_marks=True)
    assert list(render_snippet(snippet, COLOUR, width=0)) == ["  a \x1b[1;33mredis\x1b[0m b"]
    assert list(render_snippet(snippet, marked, width=0)) == ["  a **redis** b"]
    assert list(render_snippet(snippet, PLAIN, width=0)) == ["  a redis b"]


def test_colours_and_links_end_with_a_line_and_begin_again_on_the_next() -> None:
    red, link, end = "\x1b[31m", "\x1b]8;;file:///a\x1b\\", "\x1b]8;;\x1b\\"
    assert break_line(f"aaa {red}bbb ccc\x1b[0m ddd", 8) == [
        f"aaa {red}bbb\x1b[0m",
        f"  {red}ccc\x1b[0m",
        "  ddd",
    ]
    assert break_line(f"{link}aaa bbb{end}", 4, 0) == [f"{link}aaa{end}", f"{link}bbb{end}"]


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("- aa bb", "  bb"),
        ("  3. aa aaaa bb", "     bb"),
        ("aa aa bb", "bb"),
        ("  aa aa bb", "  bb"),
        ("     7\taa aaaa aaaa bbb", "        bbb"),
    ],
)
def test_the_rest_of_an_item_stands_behind_its_mark(line: str, rest: str) -> None:
    assert break_line(line, len(line) - 1, 0)[-1] == rest


@given(
    st.text(alphabet="ab *-\t記é", max_size=60),
    st.integers(4, 30),
    st.integers(0, 4),
)
def test_a_broken_line_keeps_its_words_and_fits_unless_a_word_does_not(
    text: str, width: int, hang: int
) -> None:
    lines = break_line(COLOUR("red", text), width, hang)
    plain = [re.sub(r"\x1b\[\d*m", "", line) for line in lines]
    words = [word for line in plain for word in list_unbroken(line)]
    assert words == list_unbroken(text.replace("\t", " "))
    assert all(fits(line, width) for line in plain)


@pytest.mark.parametrize(
    ("freshness", "text"),
    [
        ({"pending": 0, "state": "ready"}, ""),
        ({"pending": 1, "state": "ready"}, "1 note not indexed yet; --wait includes them"),
        ({"pending": 0, "state": "degraded"}, "the workspace is degraded; see `memsyncd status`"),
    ],
)
def test_freshness_is_printed_unless_it_is_ready(freshness: dict[str, Any], text: str) -> None:
    assert render_freshness(freshness, can_wait=True) == text
    text = text.replace("--wait includes them", "to wait for them: memsyncd sync")
    assert render_freshness(freshness, can_wait=False) == text


@pytest.mark.parametrize(("n", "text"), [(0, "0 notes"), (1, "1 note"), (1204, "1,204 notes")])
def test_counts_have_their_plural_and_thousands(n: int, text: str) -> None:
    assert render_count(n, "note") == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (2_100_000, "2.1 MB"),
        (99_960_000, "100 MB"),
        (999_600_000, "1.0 GB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_sizes_have_two_or_three_figures(size: int, text: str) -> None:
    assert render_size(size) == text


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0 ms"),
        (-1, "0 ms"),
        (0.18, "180 ms"),
        (4.25, "4.2 s"),
        (42, "42 s"),
        (60, "1 min"),
        (75, "1 min 15 s"),
        (3 * 3600 + 12 * 60 + 5, "3 h 12 min"),
        (86_400 * 9 + 3600, "9 d 1 h"),
    ],
)
def test_durations_have_their_two_largest_units(duration: float, text: str) -> None:
    assert render_duration(duration) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (None, "never"),
        (99.5, "just now"),
        (101.0, "just now"),
        (97.0, "3 s ago"),
        (58.0, "42 s ago"),
        (5.0, "1 min ago"),
    ],
)
def test_ages_are_coarse(at: float | None, text: str) -> None:
    assert render_age(at, 100.0) == text


@given(st.text(), st.integers(1, 30))
@example("abcd", 4)
@example("記憶記憶", 5)
def test_shortened_text_fits_and_ends_with_an_ellipsis(text: str, width: int) -> None:
    shortened = truncate(text, width)
    assert display_width(shortened) <= width
    if display_width(text) <= width:
        assert shortened == text
    else:
        assert text.startswith(shortened.removesuffix("…"))
        assert shortened.endswith("…")


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("記憶", 4), ("é", 1), ("", 0)])
def test_wide_characters_take_two_columns_and_marks_none(text: str, columns: int) -> None:
    assert display_width(text) == columns


def test_columns_line_up_in_any_script() -> None:
    assert ["".join(row) for row in render_table([["a", "x"], ["記憶", "y"], ["b"]])] == [
        "a     x",
        "記憶  y",
        "b",
    ]
    # A wide cell moves only its own row.
    assert ["".join(row) for row in render_table([["aaaa", "x"], ["b", "y"]], 3)] == [
        "aaaa  x",
        "b  y",
    ]
    assert render_table([]) == []


@pytest.mark.parametrize(
    ("done", "total", "filled"), [(0, 10, 0), (5, 10, 5), (10, 10, 10), (12, 10, 10), (0, 0, 10)]
)
def test_the_bar_is_filled_in_proportion_to_the_progress(
    done: int, total: int, filled: int
) -> None:
    bar = render_bar(done, total, 10)
    assert (bar.count("━"), len(bar)) == (filled, 10)
