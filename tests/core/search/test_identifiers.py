from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.identifiers import (
    IDENTIFIER_WEIGHT,
    MAX_IDENTIFIERS,
    IdentifierMatcher,
    find_identifiers,
)

NAMES = st.from_regex(r"[a-z]{2,6}([-._][a-z]{2,6}){1,3}", fullmatch=True)
WHOLE = 1 + IDENTIFIER_WEIGHT


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("what does `--no-build` do", ("no-build",)),
        ("is --frozen allowed?", ("frozen",)),
        ("where is tool.uv.sources read.", ("tool.uv.sources",)),
        ("MAX_SIZE and maxSize, max_size", ("max_size", "maxsize")),
        ("who calls std::vec::new in src/main.rs?", ("std::vec::new", "src/main.rs")),
        ("`jj log` in `FAQ.md`", ("jj log", "faq.md")),
        ("who cooks on Friday, and what?", ()),
        ("`x` and `--y`", ()),
    ],
)
def test_names_of_code_are_found_in_a_question(text: str, names: tuple[str, ...]) -> None:
    assert find_identifiers(text) == names


def test_a_question_has_so_many_names_at_most() -> None:
    text = " ".join(f"key_{number}" for number in range(40))
    assert len(find_identifiers(text)) == MAX_IDENTIFIERS


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("Set `--no-build` first.", WHOLE),
        ("Set `uv sync --no-build` first.", WHOLE),
        ("```sh\nuv sync --no-build\n```\n", WHOLE),
        ("~~~\n--No-Build", WHOLE),
        ("``a ` --no-build``", WHOLE),
        ("Set --no-build first.", 1.0),
        ("Set `--no-build-isolation` first.", 1.0),
        ("Set `--no-build.x` or `x-no-build` first.", 1.0),
        ("A `no` and a build", 1.0),
        ("a `b` no-build `c`", 1.0),
        ("", 1.0),
    ],
)
def test_a_name_counts_where_it_is_whole_and_in_code(text: str, factor: float) -> None:
    assert IdentifierMatcher(["no-build"]).compute_factor(text) == pytest.approx(factor)


def test_the_name_of_a_note_counts_as_its_code() -> None:
    matcher = IdentifierMatcher(["faq.md", "jj log"])
    assert matcher.compute_factor("text", "docs/FAQ.md") == pytest.approx(1 + IDENTIFIER_WEIGHT / 2)
    assert matcher.compute_factor("text", "docs/OLDFAQ.md") == 1.0
    assert matcher.compute_factor("see `jj log`", "FAQ.md") == pytest.approx(WHOLE)


@given(name=NAMES, before=st.text("ab .,\n", max_size=8), after=st.text("ab .,\n", max_size=8))
def test_a_name_in_backticks_is_found_in_a_question_and_in_a_text(
    name: str, before: str, after: str
) -> None:
    text = f"{before}`{name}`{after}"
    assert name in find_identifiers(text)
    assert IdentifierMatcher([name]).compute_factor(text) == pytest.approx(WHOLE)


@given(name=NAMES, more=st.sampled_from(["-x", ".x", "x", "_"]))
def test_a_part_of_a_longer_name_is_not_the_name(name: str, more: str) -> None:
    assert IdentifierMatcher([name]).compute_factor(f"`{name}{more}`") == 1.0


@given(st.text(max_size=60), st.lists(NAMES, min_size=1, max_size=4), st.text(max_size=20))
def test_a_factor_is_bounded_for_any_text(text: str, names: list[str], path: str) -> None:
    assert 1.0 <= IdentifierMatcher(names).compute_factor(text, path) <= WHOLE + 1e-9
