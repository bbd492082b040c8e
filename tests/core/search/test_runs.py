"""Words in a row: the longest run of a question's words in a text."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.runs import (
    ALL_WORDS,
    STOPWORD_WEIGHT,
    VERBATIM,
    RunFinder,
    join_words,
)

WORDS = st.sampled_from("if you have such as the of café база שלום كتاب".split())
TELLING = ["café", "база", "שלום", "كتاب", "have"]
ROWS = st.lists(WORDS, min_size=2, max_size=8)
TEXTS = st.lists(st.sampled_from("if you have such as the of café a-b".split())).map(" ".join)


@given(ROWS, TEXTS, TEXTS, st.randoms(use_true_random=False))
def test_a_text_that_holds_the_question_counts_no_less_than_one_with_its_words_shuffled(
    row: list[str], before: str, after: str, chance: Random
) -> None:
    question = " ".join(row)
    shuffled = [*row]
    chance.shuffle(shuffled)
    finder = RunFinder(question, TELLING)
    assert finder.measure(f"{before} {question} {after}") == VERBATIM
    assert finder.measure(f"{before} {' '.join(shuffled)} {after}") <= VERBATIM


@given(ROWS, TEXTS, TEXTS)
def test_more_text_counts_no_less(row: list[str], text: str, more: str) -> None:
    finder = RunFinder(" ".join(row), TELLING)
    assert finder.measure(text) <= finder.measure(f"{text} {more}")


@given(ROWS, st.lists(WORDS, max_size=12))
def test_the_weightiest_run_is_the_one_that_a_plain_search_finds(
    row: list[str], text: list[str]
) -> None:
    def weigh(words: list[str]) -> float:
        weights = [1.0 if word in TELLING else STOPWORD_WEIGHT for word in words]
        return sum(weights) - max(weights)

    runs = [
        row[at:end]
        for at in range(len(row))
        for end in range(at + 2, len(row) + 1)
        if any(row[at:end] == text[start : start + end - at] for start in range(len(text)))
    ]
    counted = RunFinder(" ".join(row), TELLING).measure(", ".join(text))
    share = max(map(weigh, runs), default=0.0) / weigh(row)
    assert counted == pytest.approx(share**2 if share < 1.0 else ALL_WORDS)


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [
        ("the following is", "See: **The following is** a list.", 1.0),
        ("the following is", "the\n> following is", 1.0),
        ("the following is", "the follow is, the following", 0.5),
        ("the following is", "there is bathe followingis", 0.0),
        ("explanation of the sluice", "an explanation of the signs", 1 / 6),
        ("explanation of the sluice", "the sluice", 1 / 12),
        ("数据库超时设置", "请看：数据库超时设置。", 1.0),
        ("数据库超时设置", "数据库的超时设置", 0.5),
        ("使用 Redis 缓存", "我们使用 redis 缓存。", 1.0),
        ("使用 Redis 缓存", "我们使用 redisx 缓存。", 0.25),
        ("إلى المكتبة", "ذهبت إِلى المكتبة", 1.0),
        ("timeout", "timeout", 0.0),
        ("…", "…", 0.0),
    ],
)
def test_runs_of_scripts(question: str, text: str, share: float) -> None:
    finder = RunFinder(question, ["following", "explanation", "sluice", "Redis", "إلى", "المكتبة"])
    whole = VERBATIM if question in text else ALL_WORDS
    assert finder.measure(text) == pytest.approx(whole if share == 1.0 else share**2)


def test_the_signs_that_were_typed_count_among_texts_with_all_words() -> None:
    finder = RunFinder("let c = || {", ["let", "c"])
    assert finder.measure("    let c = || {") == VERBATIM
    assert finder.measure("let c") == ALL_WORDS


def test_joined_words_are_the_same_with_and_without_other_scripts() -> None:
    text = "Foo_bar-baz: `a.b`  (C3)\n\n| x |"
    assert join_words(text) == " foo bar baz a b c3 x "
    assert join_words(f"{text} é") == " foo bar baz a b c3 x é "
