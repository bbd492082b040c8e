"""A quoted phrase is found where a note has it, and nowhere else: on a real index."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsyncd.config import Config
from tests.engine.conftest import search_in

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


def find_numbers(bench: Any, query: str) -> set[int]:
    answer = search_in([bench.workspace], query, timeout_s=30, limit=50)
    return {int(hit.path.removesuffix(".md").rpartition("-")[2]) for hit in answer.hits}


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


@pytest.mark.parametrize(
    ("text", "phrase", "is_found"),
    [
        ("alpha beta 快速 gamma", "alpha 快速", False),
        ("alpha beta 快速 gamma", "beta 快速", True),
        ("一个好的东西。另外 作用域插槽", "一个，作用域插槽", False),
        ("一个好的东西。另外 作用域插槽", "东西，另外作用域", True),
        ("使用Redis缓存", "用Redis缓", True),
        ("使用Redis缓存", "Redis缓存", True),
        ("速 b 使", "速使", False),
        ("httpGet and useState", "get use", False),
    ],
)
def test_a_phrase_of_mixed_scripts_is_found_in_order(
    make: Callable[[Sequence[str]], Any], text: str, phrase: str, *, is_found: bool
) -> None:
    bench = make([text, "other"])
    assert find_numbers(bench, f'"{phrase}"') == ({0} if is_found else set())
    assert find_numbers(bench, f'gamma -"{phrase}"') == ({1} if is_found else {0, 1})
