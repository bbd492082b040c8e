from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.spelling import N_SUGGESTIONS, edit_distance, fold_word, suggest_words

WORDS = st.text(alphabet="abcd", max_size=8)


def near(word: str, *known: str) -> tuple[str, ...]:
    return suggest_words(word, [(other, 1) for other in known])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("conection", "connection"),
        ("connnection", "connection"),
        ("conmection", "connection"),
        ("passwrod", "password"),
        ("Kubernets", "kubernetes"),
        ("edis", "redis"),
        ("erdis", "redis"),
        ("cafe", "café"),
        ("auth", "authentication"),
        ("postgresql", "postgres"),
        ("zürich", "zurch"),
    ],
)
def test_the_intended_word_is_suggested(typed: str, meant: str) -> None:
    meant = fold_word(meant)
    found = near(typed, "unlike", "another", "thing", meant)
    assert found == ((meant,) if meant != fold_word(typed) else ())


@pytest.mark.parametrize(
    ("typed", "other"),
    [
        ("redis", "media"),  # two letters of five
        ("no", "on"),
        ("2024", "2025"),
        ("v12", "v13"),
        ("dec0054", "dec0053"),
        ("x" * 50, "x" * 49),
        ("car", "card game"),
        ("同期", "同時"),
    ],
)
def test_words_without_a_typing_error_between_them_are_not_suggested(
    typed: str, other: str
) -> None:
    assert near(typed, other) == ()


def test_a_word_is_not_suggested_for_itself() -> None:
    assert near("redis", "redis") == ()


def test_the_fewest_edits_come_first_then_the_same_first_letter_then_the_commoner() -> None:
    known = [("bessions", 90), ("sessions", 1), ("session", 5), ("sesions", 9), ("sxssionx", 99)]
    assert suggest_words("sesssions", known) == ("sessions",)
    assert suggest_words("sesssions", [*known[:1], *known[2:]]) == (
        "sesions",
        "session",
        "bessions",
    )


def test_no_more_suggestions_are_returned_than_are_of_use() -> None:
    known = [(f"word{letter}", 1) for letter in "abcdefgh"]
    assert len(suggest_words("wordx", known)) == N_SUGGESTIONS


@given(WORDS, WORDS)
def test_the_edit_distance_is_a_metric_and_the_bound_only_cuts_it(one: str, other: str) -> None:
    edits = edit_distance(one, other, 20)
    assert edits == edit_distance(other, one, 20)
    assert (edits == 0) == (one == other)
    assert abs(len(one) - len(other)) <= edits <= max(len(one), len(other))
    assert [edit_distance(one, other, most) for most in range(4)] == [
        min(edits, most + 1) for most in range(4)
    ]


def count_edits(one: str, other: str) -> int:
    """The edits by the whole table of beginnings, without any shortcut."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i, letter in enumerate(one, 1):
        for j, theirs in enumerate(other, 1):
            ways = [table[i - 1, j] + 1, table[i, j - 1] + 1]
            ways.append(table[i - 1, j - 1] + (letter != theirs))
            if i > 1 < j and letter == other[j - 2] and one[i - 2] == theirs:
                ways.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(ways)
    return table[len(one), len(other)]


@given(WORDS, WORDS, st.integers(0, 4))
def test_the_edit_distance_is_that_of_the_whole_table(one: str, other: str, most: int) -> None:
    assert edit_distance(one, other, most) == min(count_edits(one, other), most + 1)


@given(WORDS, st.integers(0, 7), st.sampled_from(["drop", "double", "swap", "change"]))
def test_a_typing_error_is_one_edit(word: str, at: int, slip: str) -> None:
    if at + 1 >= len(word):
        return
    head, here, rest = word[:at], word[at], word[at + 1 :]
    slipped = {
        "drop": head + rest,
        "double": head + here * 2 + rest,
        "swap": head + rest[0] + here + rest[1:],
    }
    assert edit_distance(word, slipped.get(slip, f"{head}x{rest}"), 3) <= 1


@given(st.text(), st.lists(st.tuples(st.text(min_size=1), st.integers(0, 5))))
def test_suggestions_for_any_text_are_known_words(word: str, known: list[tuple[str, int]]) -> None:
    found = suggest_words(word, known)
    assert set(found) <= {other for other, _ in known}
    assert fold_word(word) not in found
    assert found == suggest_words(word, reversed(known))
