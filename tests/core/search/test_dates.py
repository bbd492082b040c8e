from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memsyncd.core.model import EMPTY_META, Meta
from memsyncd.core.search.dates import (
    NamedDate,
    find_heading_date,
    find_named_dates,
    find_note_date,
    fit_dates,
    parse_day,
    parse_last_day,
)


def test_the_dates_in_a_question_are_found() -> None:
    for question, named in (
        ("what happened on 7 May 2023?", [NamedDate(2023, 5, 7)]),
        ("on the 7th of May, 2023", [NamedDate(2023, 5, 7)]),
        ("May 7th, 2023", [NamedDate(2023, 5, 7)]),
        ("2023-05-07 and 2024/1/2", [NamedDate(2023, 5, 7), NamedDate(2024, 1, 2)]),
        ("in 2023-05", [NamedDate(2023, 5, None)]),
        ("September 2022", [NamedDate(2022, 9, None)]),
        ("Dec 24", [NamedDate(None, 12, 24)]),
        ("may I march on", []),
        ("2023-99-01", []),
        ("version 1.2.3", []),
    ):
        assert list(find_named_dates(question)) == named, question


def test_the_fit_of_a_day_to_a_named_date_is_graded() -> None:
    for question, day, fit in (
        ("7 May 2023", "2023-05-07", 1.0),
        ("7 May 2023", "2023-05-14", 0.5),
        ("7 May 2023", "2023-05-15", 0.0),
        ("7 May 2023", "2023-05-06", 0.0),
        ("7 May", "2021-05-07", 1.0),
        ("May 2023", "2023-05-31", 1.0),
        ("May 2023", "2022-05-31", 0.0),
        ("31 February 2023", "2023-02-28", 0.0),
        ("7 May 2023", None, 0.0),
        ("7 May 2023", "yesterday", 0.0),
    ):
        assert fit_dates(find_named_dates(question), day) == fit, question


def test_a_notes_day_is_the_stated_one_or_that_of_its_name() -> None:
    assert find_note_date("log/2023-05-07-session.md", EMPTY_META) == "2023-05-07"
    assert find_note_date("log/2023-05-07.md", Meta(created="2024-01-02T10:00:00Z")) == "2024-01-02"
    assert find_note_date("log/a.md", Meta(extra=(("Date", "2024/1/2"),))) == "2024-01-02"
    assert find_note_date("session_20230507.md", EMPTY_META) == "2023-05-07"
    assert find_note_date("2023-05.md", EMPTY_META) == "2023-05-01"
    assert find_note_date("2023-05-07/a.md", EMPTY_META) is None
    assert find_note_date("build-20231399.md", EMPTY_META) is None
    assert find_note_date("2023-02-31.md", EMPTY_META) is None


def test_a_heading_of_a_day_has_that_day() -> None:
    for heading, day in (
        ("2026-03-01", "2026-03-01"),
        ("2026-03-01T10:00 Deploy", "2026-03-01"),
        ("**2026/3/1**: deploy", "2026-03-01"),
        ("Sunday 2026-03-01", "2026-03-01"),
        ("Monday, 2 March 2026", "2026-03-02"),
        ("Mar 1st, 2026", "2026-03-01"),
        ("[1.2.0] - 2026-03-01", "2026-03-01"),
        ("1.2.0 (2026-03-01)", "2026-03-01"),
        ("Version 2 — 5 June 2024", "2024-06-05"),
        ("Why the plan of 2026-03-01 failed", None),
        ("2026-03-01-draft", None),
        ("2026.3.1.4", None),
        ("2026-03", None),
        ("2026-02-31", None),
        ("Plan", None),
    ):
        assert find_heading_date(["Log", heading]) == day, heading
        assert find_heading_date([heading, "deeper"]) == day, heading
        assert find_heading_date(["2020-01-01", heading]) == (day or "2020-01-01"), heading


@given(
    st.text()
    | st.lists(st.sampled_from(["2026-03-01", "1 May 2020", " - ", "(", "x", "T1"])).map("".join)
)
def test_any_text_can_be_a_heading(text: str) -> None:
    find_heading_date([text])


@given(st.text())
def test_any_text_can_be_a_question_or_a_file_name(text: str) -> None:
    for named in find_named_dates(text):
        assert 0.0 <= named.fit(date(2024, 2, 29)) <= 1.0
    find_note_date(text, Meta(created=text))


# --- days relative to today -----------------------------------------------------------------------

# A week and a year before the first day, and after the last, there are still days.
days = st.dates(date(100, 1, 1), date(9999, 12, 31))
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
UNITS = ("week", "month", "year")


def parse(text: str, today: date) -> date:
    day = parse_day(text, today)
    assert day is not None, text
    return date.fromisoformat(day)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("today", "2026-03-31"),
        ("Yesterday", "2026-03-30"),
        ("monday", "2026-03-30"),
        ("tue", "2026-03-31"),
        ("wednesday", "2026-03-25"),
        ("7d", "2026-03-24"),
        ("2w", "2026-03-17"),
        ("1m", "2026-02-28"),
        ("13 m", "2025-02-28"),
        ("1y", "2025-03-31"),
        ("this week", "2026-03-30"),
        ("last week", "2026-03-23"),
        ("last-week", "2026-03-23"),
        ("this month", "2026-03-01"),
        ("last month", "2026-02-01"),
        ("LAST_YEAR", "2025-01-01"),
        ("2026-03", "2026-03-01"),
    ],
)
def test_days_are_read_as_people_type_them(text: str, day: str) -> None:
    assert parse_day(text, date(2026, 3, 31)) == day  # a Tuesday


@given(days, st.sampled_from(("week", "month", "year")), st.booleans())
def test_a_period_ends_on_the_day_before_the_next(today: date, unit: str, is_last: bool) -> None:
    named = f"{'LAST' if is_last else 'this'}_{unit}"
    last = date.fromisoformat(parse_last_day(named, today) or "")
    assume(last < date.max)
    assert parse(named, today) <= last
    assert parse(f"this {unit}", last + timedelta(days=1)) == last + timedelta(days=1)
    assert parse(f"this {unit}", last) == parse(named, today)
    for absolute in (f"{last.year:04}", f"{last.year:04}-{last.month}")[unit == "month" :]:
        end = date.fromisoformat(parse_last_day(absolute, today) or "")
        assert end.year == last.year
        assert (end + timedelta(days=1)).day == 1
    assert parse_last_day("7d", today) == parse_day("7d", today)
    assert parse_last_day("tomorrow", today) is None


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "mo", "mond", "7", "d", "-7d", "last", "last day", "next week", "99999y"],
)
def test_other_words_are_no_day(text: str) -> None:
    assert parse_day(text, date(2026, 3, 31)) is None


@given(days, st.integers(0, 10_000))
def test_so_many_days_or_weeks_ago_are_that_day_minus_them(today: date, n: int) -> None:
    assert parse(f"{n}d", today) == today - timedelta(days=n)
    assert parse_day(f"{n}w", today) == parse_day(f"{7 * n}d", today)


@given(days, st.integers(0, 1000))
def test_months_ago_are_in_the_month_so_many_before(today: date, n: int) -> None:
    day = parse(f"{n}m", today)
    assert (today.year - day.year) * 12 + today.month - day.month == n
    assert day.day <= today.day
    assert parse_day(f"{n // 12}y", today) == parse_day(f"{n // 12 * 12}m", today)


@given(days, st.sampled_from(WEEKDAYS))
def test_a_weekday_is_the_latest_up_to_today(today: date, name: str) -> None:
    day = parse(name, today)
    assert WEEKDAYS[day.weekday()] == name
    assert timedelta() <= today - day < timedelta(days=7)
    assert parse(name[:3], today) == day


@given(days, st.sampled_from(UNITS))
def test_periods_are_in_order_and_hold_every_day_between_them(today: date, unit: str) -> None:
    this, last = parse(f"this {unit}", today), parse(f"last {unit}", today)
    assert last < this <= today
    # The day before this period lies in the last one, and both say so.
    assert parse(f"this {unit}", this - timedelta(days=1)) == last
    assert parse(f"this {unit}", this) == this


@given(st.dates(), st.text(alphabet="0123456789dwmy lastiekonhr-", max_size=12))
def test_any_text_is_a_calendar_day_up_to_today_or_none(today: date, text: str) -> None:
    relative = parse_day(text, today)
    if relative is not None and relative != parse_day(text):
        assert date.fromisoformat(relative) <= today
