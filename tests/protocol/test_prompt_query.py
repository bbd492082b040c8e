"""A prompt becomes a query that the daemon accepts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.query import QUERY_LIMIT, parse_query
from memsyncd.protocol.prompt_query import QUERY_CHARACTERS, make_query


@given(st.text(max_size=3000))
def test_any_prompt_becomes_a_query_of_plain_words(text: str) -> None:
    query = make_query(text)
    assert len(query) <= QUERY_CHARACTERS == QUERY_LIMIT
    parsed = parse_query(query)
    assert not any(term for term in parsed.must_not)
    assert parsed.must == ()


@pytest.mark.parametrize(
    "prompt",
    [" ".join(f"word{n}" for n in range(900)), "w" * 3000, "\N{BLACK SQUARE}" * 3000 + " w"],
)
def test_a_prompt_of_any_length_becomes_a_query_that_is_accepted(prompt: str) -> None:
    assert parse_query(make_query(prompt)).positive


def test_each_word_counts_once_and_what_is_no_word_not_at_all() -> None:
    assert make_query('Why: "redis" -> -redis ... cach*?!') == "Why redis cach*?!"
    assert make_query("-- *** ->") == ""


def test_a_prompt_of_stopwords_alone_in_any_language_is_no_query() -> None:
    vague = "and now?|Und jetzt?|What's that?|Und?|¿Y por qué?|et où ?|E poi?|а потом?"
    assert [query for prompt in vague.split("|") if (query := make_query(prompt))] == []
    for prompt in ("and the to-do", "Und der Cache?"):
        assert make_query(prompt) == prompt
