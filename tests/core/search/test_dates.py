from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.model import EMPTY_META, Meta
from memsyncd.core.search.dates import NamedDate, find_named_dates, find_note_date, fit_dates


@pytest.mark.parametrize(
    ("question", "named"),
    [
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
    ],
)
def test_the_dates_in_a_question_are_found(question: str, named: list[NamedDate]) -> None:
    assert list(find_named_dates(question)) == named


@pytest.mark.parametrize(
    ("question", "day", "fit"),
    [
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
    ],
)
def test_the_fit_of_a_day_to_a_named_date_is_graded(
    question: str, day: str | None, fit: float
) -> None:
    assert fit_dates(find_named_dates(question), day) == fit


def test_a_notes_day_is_the_stated_one_or_that_of_its_name() -> None:
    assert find_note_date("log/2023-05-07-session.md", EMPTY_META) == "2023-05-07"
    assert find_note_date("log/2023-05-07.md", Meta(created="2024-01-02T10:00:00Z")) == "2024-01-02"
    assert find_note_date("log/a.md", Meta(extra=(("Date", "2024/1/2"),))) == "2024-01-02"
    assert find_note_date("session_20230507.md", EMPTY_META) == "2023-05-07"
    assert find_note_date("2023-05.md", EMPTY_META) == "2023-05-01"
    assert find_note_date("2023-05-07/a.md", EMPTY_META) is None
    assert find_note_date("build-20231399.md", EMPTY_META) is None
    assert find_note_date("2023-02-31.md", EMPTY_META) is None


@given(st.text())
def test_any_text_can_be_a_question_or_a_file_name(text: str) -> None:
    for named in find_named_dates(text):
        assert 0.0 <= named.fit(date(2024, 2, 29)) <= 1.0
    find_note_date(text, Meta(created=text))
