"""A passage that holds a command as a question names it is found in spite of the dash, on a real
index; each exclusion is named, and a question of any length is answered.
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


def find_numbers(bench: Any, query: str, limit: int = 50) -> list[int]:
    answer = search_in([bench.workspace], query, timeout_s=30, limit=limit)
    return [int(hit.path.removesuffix(".md").rpartition("-")[2]) for hit in answer.hits]


def list_excluded(query: str) -> list[str]:
    return describe_query(SearchParams(query=query), 0.0)["excluded"]


ATOMS = st.sampled_from(["tar", "git", "commit", "x", "m", "Straße", "数据库", "超时", "C++"])
PARTS = st.tuples(st.sampled_from(["", "", "-", "--"]), ATOMS).map("".join)
TEXTS = st.lists(PARTS, min_size=1, max_size=6).map(" ".join)


@few
@given(st.lists(TEXTS, min_size=1, max_size=4), st.data())
def test_what_holds_the_typed_text_is_found_though_a_dash_excludes(
    make: Callable[[Sequence[str]], Any], texts: list[str], data: st.DataObject
) -> None:
    bench = make(texts)
    words = data.draw(st.sampled_from(texts)).split()
    start = data.draw(st.integers(0, len(words) - 1))
    typed = " ".join(words[start : data.draw(st.integers(start + 1, len(words)))])
    held = {number for number, text in enumerate(texts) if f" {typed} " in f" {text} "}
    found = find_numbers(bench, typed)
    assert held <= {*found}
    excluded = {word for word in typed.split() if word[0] == "-" != word[1]}
    assert sorted(list_excluded(typed)) == sorted(excluded)


@few
@given(
    st.lists(st.lists(ATOMS, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=4), ATOMS
)
def test_an_excluded_word_hides_each_passage_that_holds_it_without_a_dash(
    make: Callable[[Sequence[str]], Any], texts: list[str], word: str
) -> None:
    bench = make(texts)
    held = {number for number, text in enumerate(texts) if word in text.split()}
    assert not held & {*find_numbers(bench, f"gamma -{word}")}


def test_a_command_comes_first_and_other_passages_with_the_option_stay_hidden(
    make: Callable[[Sequence[str]], Any],
) -> None:
    others = ["git commit often, git commit early"] * 30
    texts = [*others, "an m in git commit", "Run `git commit -m msg`.", "then git commit -m -z x"]
    bench = make(texts)
    assert find_numbers(bench, "git commit -m", limit=5)[:2] in ([31, 32], [32, 31])
    assert find_numbers(bench, "how do I use git commit -m", limit=5)[0] in (31, 32)
    assert 30 not in find_numbers(bench, "git commit -m")
    assert 32 not in find_numbers(bench, "git commit -m -x")
    assert {*find_numbers(bench, "-m")} == {31, 32}
    assert find_numbers(bench, "-early") == []
    block = build_block(bench.workspace, "git commit -m")
    assert "git commit -m msg" in block.text
    assert "an m in" not in block.text
    assert 31 in find_numbers(bench, '"git commit" -m')


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
    find_numbers(bench, query)
    report = describe_query(SearchParams(query=query), 0.0)
    said = [problem for problem in report["query_problems"] if "is shortened to" in problem]
    assert bool(said) == (len(query) > QUERY_LIMIT)
