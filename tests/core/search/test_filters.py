from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.filters import (
    PropertyCondition,
    is_passing,
    name_comparisons,
    parse_condition,
    split_list,
    strip_links,
)


def test_conditions_are_a_key_a_sign_and_a_value() -> None:
    for text, condition in (
        ("owner=Ann Lee", ("owner", "=", "Ann Lee")),
        (" Due Date = [[2026-03-01]] ", ("Due Date", "=", "2026-03-01")),
        ("a=b=c", ("a", "=", "b=c")),
        ("a=>b", ("a", "=", ">b")),
        ("rating>=7", ("rating", ">=", "7")),
        ("rating < -7.5", ("rating", "<", "-7.5")),
        ("due<2026-3", ("due", "<", "2026-03-01")),
        ("due>yesterday", ("due", ">", "2026-11-22")),
        *((text, None) for text in ("", "a", "a=", "=b", "a>", "a>b", "a=[[]]", ">7")),
    ):
        assert parse_condition(text, date(2026, 11, 23)) == (
            condition and PropertyCondition(*condition)
        ), text


def test_values_are_compared_as_texts_numbers_or_days() -> None:
    for value, sign, wanted, passes in (
        ("Ann Lee", "=", "ann lee", True),
        ("ÄNN, Bob", "=", "änn", True),
        ("Ann, Bob ,Cy", "=", "bob, cy", True),
        ("Ann Lee", "=", "ann", False),
        ("7", "=", "7.0", False),
        ("7", ">=", "7", True),
        ("10", ">", "9", True),
        ("6, 8", ">", "7", True),
        ("7 of 10", ">", "1", False),
        ("", "<", "1", False),
        ("1982", "<", "2000", True),
        ("1982-06-25", "<", "2000", True),
        ("2000-06-25", ">", "2000", False),
        ("2000-06-25", "<=", "2000", True),
        ("2026-03-01T10:00", ">=", "2026-03-01", True),
        ("2026", "<", "2026-03-01", False),
        ("2025", "<", "2026-03-01", True),
        ("2026-02", "<", "2026-03-01", True),
        ("soon", "<", "2026-03-01", False),
    ):
        assert is_passing(value, sign, wanted) == passes, value


def test_links_are_the_names_that_they_hold() -> None:
    for value, stripped in (
        ("[[Ridley Scott]]", "Ridley Scott"),
        ("[[a/b#c|d]], [[e]] and f", "a/b, e and f"),
        ("[1], [[2]", "[1], [[2]"),
    ):
        assert strip_links(value) == stripped, value


@given(st.text(), st.sampled_from(["=", ">=", "<=", ">", "<"]), st.text())
def test_every_text_has_an_answer(value: str, sign: str, wanted: str) -> None:
    assert is_passing(value, sign, wanted) in (True, False)
    assert all(is_passing(value, "=", each) for each in split_list(value))
    condition = parse_condition(f"{value}{sign}{wanted}")
    assert condition is None or parse_condition("".join(condition)) == condition


def test_comparisons_of_known_keys_are_named() -> None:
    for text, named in (
        ("films rating>=7", "films meta:rating>=7"),
        ("Rating>=7 -year<2000, x", "meta:Rating>=7 -meta:year<2000, x"),
        ("seen>=2026-02", "meta:seen>=2026-02"),
        ("python>=3.11 rating>=7", "python>=3.11 meta:rating>=7"),
        ('"rating>=7" a rating>=x rating>', '"rating>=7" a rating>=x rating>'),
        ("meta:rating>=7 a->b <rating> x.rating>7", "meta:rating>=7 a->b <rating> x.rating>7"),
    ):
        assert name_comparisons(text, {"rating", "year", "seen"}) == named, text
