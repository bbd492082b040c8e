"""A quoted phrase is found where a note has it, and nowhere else, and a command in spite of its
dash: on a real index.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsyncd.config import Config
from memsyncd.core.search.query import QUERY_LIMIT
from memsyncd.engine.plan import describe_query
from memsyncd.operations.search.declare import SearchParams
from tests.engine.conftest import build_block, search_in

MakeBench = Callable[..., Any]
few = settings(
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
numbers = itertools.count()

SPACED = "alpha beta Straße Änderung Redis v2 x_y C++ 2048 المكتب قاعدة כתב מערכת".split()
UNSPACED = [*"快速数据库データ使用설정한글ภา", "葛"]
ATOMS = st.sampled_from([*SPACED, *UNSPACED])
GAPS = st.sampled_from(
    [" ", " ", "\n", ", ", " — ", ": ", "。", "，", "、", " (", ") ", " → ", "「", "」", "·"]
)
# A word with the sign or blank after it.
Part = tuple[str, str]


@st.composite
def parts(draw: st.DrawFn) -> list[Part]:
    """Words of a note in order; between two words with spaces there is a gap."""
    atoms = draw(st.lists(ATOMS, min_size=1, max_size=14))
    row: list[Part] = []
    for atom, after in zip(atoms, [*atoms[1:], ""], strict=True):
        may_touch = atom in UNSPACED or after in UNSPACED
        is_touching = may_touch and draw(st.booleans())
        row.append((atom, "" if is_touching else draw(GAPS)))
    return row


def write(row: Sequence[Part]) -> str:
    return "".join(atom + gap for atom, gap in row)


def holds(row: Sequence[Part], run: Sequence[Part]) -> bool:
    words, wanted = [atom for atom, _ in row], [atom for atom, _ in run]
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


@pytest.fixture
def make(make_bench: MakeBench) -> Callable[[Sequence[str]], Any]:
    def make_one(texts: Sequence[str]) -> Any:
        bench = make_bench(f"project-{next(numbers)}")
        bench.config = Config()  # each note is one passage
        bench.open()
        for number, text in enumerate(texts):
            bench.write(f".memories/note-{number}.md", f"gamma {text}\n")
        bench.sync()
        return bench

    return make_one


def list_numbers(bench: Any, query: str, limit: int = 50) -> list[int]:
    answer = search_in([bench.workspace], query, timeout_s=30, limit=limit)
    return [int(hit.path.removesuffix(".md").rpartition("-")[2]) for hit in answer.hits]


def find_numbers(bench: Any, query: str) -> set[int]:
    return {*list_numbers(bench, query)}


@few
@given(st.lists(parts(), min_size=1, max_size=4), st.data())
def test_any_run_of_a_text_is_found_in_quotes_and_nothing_else_is(
    make: Callable[[Sequence[str]], Any], rows: list[list[Part]], data: st.DataObject
) -> None:
    bench = make([write(row) for row in rows])
    row = data.draw(st.sampled_from(rows))
    start = data.draw(st.integers(0, len(row) - 1))
    run = row[start : data.draw(st.integers(start + 1, len(row)))]
    if data.draw(st.booleans()):
        run = [(atom, gap or " ") for atom, gap in data.draw(st.permutations(run))]
    typed = write([*run[:-1], (run[-1][0], "")])
    held = {number for number, each in enumerate(rows) if holds(each, run)}
    answer = search_in([bench.workspace], f'"{typed}"', timeout_s=30)
    assert find_numbers(bench, f'"{typed}"') == held
    assert bool(answer.why_empty and "no note contains" in answer.why_empty) == (not held)
    assert find_numbers(bench, f'gamma -"{typed}"') == {*range(len(rows))} - held


def test_a_phrase_of_mixed_scripts_is_found_in_order(make: Callable[[Sequence[str]], Any]) -> None:
    for text, phrase, is_found in (
        ("alpha beta 快速 gamma", "alpha 快速", False),
        ("alpha beta 快速 gamma", "beta 快速", True),
        ("一个好的东西。另外 作用域插槽", "一个，作用域插槽", False),
        ("一个好的东西。另外 作用域插槽", "东西，另外作用域", True),
        ("使用Redis缓存", "用Redis缓", True),
        ("使用Redis缓存", "Redis缓存", True),
        ("速 b 使", "速使", False),
        ("httpGet and useState", "get use", False),
    ):
        bench = make([text, "other"])
        assert find_numbers(bench, f'"{phrase}"') == ({0} if is_found else set()), text
        assert find_numbers(bench, f'gamma -"{phrase}"') == ({1} if is_found else {0, 1}), text


# --- commands: a passage that holds the typed text is found though a dash excludes ---------------


def list_excluded(query: str) -> list[str]:
    return describe_query(SearchParams(query=query), 0.0)["excluded"]


COMMAND_WORDS = st.sampled_from(
    ["tar", "git", "commit", "x", "m", "Straße", "数据库", "超时", "C++"]
)


TYPED = st.tuples(st.sampled_from(["", "", "-", "--"]), COMMAND_WORDS).map("".join)


COMMANDS = st.lists(TYPED, min_size=1, max_size=6).map(" ".join)


@few
@given(st.lists(COMMANDS, min_size=1, max_size=4), st.data())
def test_what_holds_the_typed_text_is_found_though_a_dash_excludes(
    make: Callable[[Sequence[str]], Any], texts: list[str], data: st.DataObject
) -> None:
    bench = make(texts)
    words = data.draw(st.sampled_from(texts)).split()
    start = data.draw(st.integers(0, len(words) - 1))
    typed = " ".join(words[start : data.draw(st.integers(start + 1, len(words)))])
    held = {number for number, text in enumerate(texts) if f" {typed} " in f" {text} "}
    found = list_numbers(bench, typed)
    assert held <= {*found}
    excluded = {word for word in typed.split() if word[0] == "-" != word[1]}
    assert sorted(list_excluded(typed)) == sorted(excluded)


@few
@given(
    st.lists(st.lists(COMMAND_WORDS, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=4),
    COMMAND_WORDS,
)
def test_an_excluded_word_hides_each_passage_that_holds_it_without_a_dash(
    make: Callable[[Sequence[str]], Any], texts: list[str], word: str
) -> None:
    bench = make(texts)
    held = {number for number, text in enumerate(texts) if word in text.split()}
    assert not held & {*list_numbers(bench, f"gamma -{word}")}


def test_a_command_comes_first_and_other_passages_with_the_option_stay_hidden(
    make: Callable[[Sequence[str]], Any],
) -> None:
    others = ["git commit often, git commit early"] * 30
    texts = [*others, "an m in git commit", "Run `git commit -m msg`.", "then git commit -m -z x"]
    bench = make(texts)
    assert list_numbers(bench, "git commit -m", limit=5)[:2] in ([31, 32], [32, 31])
    assert list_numbers(bench, "how do I use git commit -m", limit=5)[0] in (31, 32)
    assert 30 not in list_numbers(bench, "git commit -m")
    assert 32 not in list_numbers(bench, "git commit -m -x")
    assert {*list_numbers(bench, "-m")} == {31, 32}
    assert list_numbers(bench, "-early") == []
    block = build_block(bench.workspace, "git commit -m")
    assert "git commit -m msg" in block.text
    assert "an m in" not in block.text
    assert 31 in list_numbers(bench, '"git commit" -m')


@few
@given(
    st.lists(
        st.sampled_from(
            [
                "gamma",
                "数据库",
                '"git commit"',
                "-m",
                '-"x y"',
                "w" * 1200,
                "is:archived",
                "日" * 700,
            ]
        ),
        min_size=1,
        max_size=12,
    )
)
def test_a_question_of_any_length_is_answered(
    make: Callable[[Sequence[str]], Any], words: list[str]
) -> None:
    bench = make(["git commit", "数据库"])
    query = " ".join(words * 40)
    list_numbers(bench, query)
    report = describe_query(SearchParams(query=query), 0.0)
    said = [problem for problem in report["query_problems"] if "is shortened to" in problem]
    assert bool(said) == (len(query) > QUERY_LIMIT)
