from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsyncd.cli.figures import (
    measure,
    pad,
    render_age,
    render_bar,
    render_count,
    render_duration,
    render_size,
    render_table,
    shorten,
)


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
    [(None, "never"), (99.5, "just now"), (101.0, "just now"), (97.0, "3 s ago"), (58.0, "42 s ago"), (5.0, "1 min ago")],
)
def test_ages_are_coarse(at: float | None, text: str) -> None:
    assert render_age(at, 100.0) == text


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("記憶", 4), ("é", 1), ("", 0)])
def test_wide_characters_take_two_columns_and_marks_none(text: str, columns: int) -> None:
    assert measure(text) == columns


@settings(deadline=None, max_examples=100)
@given(st.text(), st.integers(1, 30))
def test_shortened_text_fits(text: str, width: int) -> None:
    assert measure(shorten(text, width)) <= width


def test_shortened_text_says_that_it_is() -> None:
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("記憶記憶", 5) == "記憶…"
    assert shorten("abcd", 4) == "abcd"


def test_columns_line_up_in_any_script() -> None:
    assert ["".join(row) for row in render_table([["a", "x"], ["記憶", "y"], ["b"]])] == ["a     x", "記憶  y", "b"]
    assert render_table([]) == []


def test_padding_counts_columns() -> None:
    assert pad("記", 4) == "記  "


@pytest.mark.parametrize(("done", "total", "filled"), [(0, 10, 0), (5, 10, 5), (10, 10, 10), (12, 10, 10), (0, 0, 10)])
def test_the_bar_is_as_full_as_the_work_is_done(done: int, total: int, filled: int) -> None:
    bar = render_bar(done, total, 10)
    assert (bar.count("━"), len(bar)) == (filled, 10)
