from __future__ import annotations

import re
import time

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.search.highlight import (
    MARK,
    WINDOW_CHARACTERS,
    Matcher,
    TermPattern,
    Token,
    render_snippet,
    sort_ranges,
    strip_title,
    to_character_ranges,
)
from memsyncd.store.schema import TOKENIZER

# --- Matches --------------------------------------------------------------------------------------


def tokenize(text: str) -> list[Token]:
    """The words of a text with their ranges in bytes; the index's own tokenizer also folds and
    stems.
    """
    return [
        (len(text[: found.start()].encode()), len(text[: found.end()].encode()), found.group())
        for found in re.finditer(r"\w+", text)
    ]


def find(text: str, *wanted: tuple[str, bool]) -> dict[int, list[str]]:
    """The parts of the text that each pattern of words matches; True marks a pattern whose last
    word is only a beginning.
    """
    matcher = Matcher([TermPattern(tuple(words.split()), is_prefix) for words, is_prefix in wanted])
    data = text.encode()
    return {
        index: [data[a:b].decode() for a, b in places]
        for index, places in matcher.find(tokenize(text)).items()
    }


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("a cache is a cache", ("cache", False), ["cache", "cache"]),
        ("a cache", ("disk", False), None),
        ("caches", ("cache", False), None),
        ("caches and cached", ("cache", True), ["caches", "cached"]),
        ("redis - timeout, redis", ("redis timeout", False), ["redis - timeout"]),
        ("redis timeouts", ("redis timeout", False), None),
        ("redis timeouts", ("redis timeout", True), ["redis timeouts"]),
        ("redis", ("redis timeout", False), None),
        ("redis", ("redis timeout", True), None),
        ("a a a", ("a a", False), ["a a", "a a"]),
        ("anything", ("", False), None),
        ("anything", ("", True), None),
    ],
)
def test_a_term_matches_at_these_places(
    text: str, wanted: tuple[str, bool], found: list[str] | None
) -> None:
    assert find(text, wanted).get(0) == found


def test_each_term_is_identified_by_its_own_index() -> None:
    assert find("red blue", ("green", False), ("blue", False), ("re", True)) == {
        1: ["blue"],
        2: ["red"],
    }


@given(
    st.lists(st.sampled_from(["a", "ab", "b", "é"]), max_size=12),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=3),
)
def test_a_row_of_words_is_found_exactly_at_its_place(words: list[str], wanted: list[str]) -> None:
    n_places = sum(words[at : at + len(wanted)] == wanted for at in range(len(words)))
    assert len(find(" ".join(words), (" ".join(wanted), False)).get(0, [])) == n_places


PATTERNS = st.builds(
    TermPattern,
    st.lists(st.sampled_from("abc"), max_size=2).map(tuple),
    st.booleans(),
    st.frozensets(st.sampled_from(["ab", "b", "é"]), max_size=2),
)


@given(
    st.lists(st.sampled_from(["a", "ab", "b", "é"]), max_size=12),
    st.lists(PATTERNS, max_size=4),
)
def test_words_without_places_hold_the_same_terms_in_the_same_order(
    words: list[str], patterns: list[TermPattern]
) -> None:
    matcher = Matcher(patterns)
    assert [*matcher.find_terms(words)] == [*matcher.find(tokenize(" ".join(words)))]


def test_a_term_is_found_in_either_spelling() -> None:
    matcher = Matcher(
        [
            TermPattern(("cache",), is_prefix=False),
            TermPattern(("v1", "2"), is_prefix=False, spelling=("1", "2")),
        ]
    )
    assert matcher.find(tokenize("v1 2, cache 1 2")) == {1: [(0, 4), (12, 15)], 0: [(6, 11)]}
    assert [*matcher.find_terms("a 1 2 cache".split())] == [1, 0]


@given(
    st.lists(st.sampled_from(["Caches", "cache", "dies", "ies", "as", "É", "Émile", "v1", "x"])),
    st.lists(st.sampled_from(["cache", "di", "i", "as", "emil", "e", "v1", "z"]), min_size=1),
    st.booleans(),
)
def test_words_that_may_not_match_do_not(
    words: list[str], wanted: list[str], is_prefix: bool
) -> None:
    matcher = Matcher([TermPattern((word,), is_prefix) for word in wanted])
    stem = apsw.Connection(":memory:").fts5_tokenizer(TOKENIZER.split()[0], TOKENIZER.split()[1:])
    stems = stem(
        " ".join(words).encode(),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    assert len(stems) == len(words)
    possible = [stems[at] for at in matcher.select(words)]
    assert matcher.find_terms(possible) == matcher.find_terms(stems)


@given(st.text(alphabet="aé日\U0001f600 ", max_size=40))
def test_places_in_bytes_become_places_of_the_same_characters(text: str) -> None:
    data = text.encode()
    byte_places = [(start, end) for start, end, _ in tokenize(text)]
    places = to_character_ranges(text, byte_places)
    assert [text[start:end] for start, end in places] == [
        data[start:end].decode() for start, end in byte_places
    ]


@pytest.mark.parametrize("text", ["redis timeout", "rédis timeout"])
def test_of_matches_with_one_start_the_longest_comes_first(text: str) -> None:
    n_bytes = len(text.encode())
    places = sort_ranges(to_character_ranges(text, [(0, 5), (0, n_bytes), (0, 5)]))
    assert places[0] == (0, len(text))
    assert len(places) == 2


# --- Snippets -------------------------------------------------------------------------------------

prose = st.text(alphabet=st.sampled_from("ab é日*\n\t_."), max_size=600)


@st.composite
def texts_with_matches(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    """A text, and ranges of words in it, as a tokenizer would return them: no white space or stars
    at their ends.
    """
    text = draw(prose)
    words = [(found.start(), found.end()) for found in re.finditer(r"[abé日]+", text)]
    return text, sorted(draw(st.sets(st.sampled_from(words), max_size=20))) if words else []


def test_a_short_text_is_shown_whole_with_its_matches_marked() -> None:
    assert render_snippet("the cache is cold", [(4, 9)]) == "the **cache** is cold"


def test_white_space_is_folded() -> None:
    assert render_snippet("# Cache\n\n\tis   cold\n", [(2, 7)]) == "# **Cache** is cold"


@pytest.mark.parametrize(
    ("text", "match", "snippet"),
    [
        ("a **bold** word", (11, 15), "a bold **word**"),
        ("a **bold** word", (4, 8), "a **bold** word"),
        ("a ***bold*** word", (5, 9), "a **bold** word"),
        ("an *odd* word", (4, 7), "an **odd** word"),
        ("two **red cats** here", (6, 14), "two **red cats** here"),
        ("two red **cats** here", (4, 14), "two **red cats** here"),
    ],
)
def test_asterisks_of_the_text_are_not_taken_for_marks(
    text: str, match: tuple[int, int], snippet: str
) -> None:
    assert render_snippet(text, [match]) == snippet


def test_a_long_text_is_cut_at_words_around_the_match_and_marked() -> None:
    words = [f"word{number}" for number in range(300)]
    text = " ".join(words)
    at = text.index("word150")
    snippet = render_snippet(text, [(at, at + 7)])
    assert "**word150**" in snippet
    assert snippet.startswith("…word")
    assert snippet.endswith("…")
    assert set(snippet.strip("…").replace(MARK, "").split()) <= set(words)
    assert len(snippet) <= WINDOW_CHARACTERS + 2 + 2 * len(MARK)


def test_the_window_contains_most_matches() -> None:
    text = "cache " + "x " * 300 + "cache and cache " + "y " * 300
    places = [(found.start(), found.end()) for found in re.finditer("cache", text)]
    assert render_snippet(text, places).count("**cache**") == 2


def test_thousands_of_matches_in_one_giant_line_take_linear_time() -> None:
    text = "filler " * 10_000 + "filler filler"
    places = [(found.start(), found.end()) for found in re.finditer("filler", text)]
    began_s = time.thread_time()
    assert render_snippet(text, places).startswith("**filler** **filler**")
    assert time.thread_time() - began_s < 1.0


def test_a_match_at_either_end_is_shown() -> None:
    text = f"first {'x ' * 400}last"
    assert render_snippet(text, [(0, 5)]).startswith("**first** x")
    assert render_snippet(text, [(len(text) - 4, len(text))]).endswith("x **last**")


def test_a_text_without_spaces_is_cut_as_well() -> None:
    text = "日" * 5000
    snippet = render_snippet(text, [(2500, 2502)])
    assert "**日日**" in snippet
    assert len(snippet) <= WINDOW_CHARACTERS + 10


@given(texts_with_matches())
def test_every_second_part_between_marks_is_a_match_and_nothing_else_is(
    given_text: tuple[str, list[tuple[int, int]]],
) -> None:
    text, matches = given_text
    pieces = render_snippet(text, matches).split(MARK)
    assert len(pieces) % 2 == 1
    words = {text[start:end] for start, end in matches}
    assert set(pieces[1::2]) <= words
    assert not any(set(piece) & set("\n\t") for piece in pieces)


@given(texts_with_matches())
def test_a_text_with_a_match_shows_at_least_one(
    given_text: tuple[str, list[tuple[int, int]]],
) -> None:
    text, matches = given_text
    # A word as long as the window itself does not fit together with the text before it.
    if matches and max(end - start for start, end in matches) < WINDOW_CHARACTERS // 3:
        assert MARK in render_snippet(text, matches)


@given(texts_with_matches())
def test_a_snippet_keeps_to_its_window(given_text: tuple[str, list[tuple[int, int]]]) -> None:
    text, matches = given_text
    assert len(render_snippet(text, matches).replace(MARK, "")) <= WINDOW_CHARACTERS + 2


@given(texts_with_matches())
def test_a_text_that_fits_loses_no_word(given_text: tuple[str, list[tuple[int, int]]]) -> None:
    text, matches = given_text
    if len(text) <= WINDOW_CHARACTERS:
        assert re.findall(r"[abé日_.]", render_snippet(text, matches)) == re.findall(
            r"[abé日_.]", text
        )


@pytest.mark.parametrize(
    ("text", "heading", "body"),
    [
        ("# Notes\n\nThe parser", "Notes", "The parser"),
        ("## `A` b\n<!-- memory: {kind: x,\n tags: [a]} -->\n\nbody text", "A b", "body text"),
        ("Title\n=====\n\nbody", "Title", "body"),
        ("# Only heading", "Only heading", ""),
        ("the second chunk\nof it", "Notes", "the second chunk\nof it"),
        ("- x\n---\nfoo", "Notes", "- x\n---\nfoo"),
        ("## Not\nesbody", "Notes", "## Not\nesbody"),
        ("## Notes 2\nbody", "Notes", "## Notes 2\nbody"),
        ("before any heading", "", "before any heading"),
    ],
)
def test_a_snippet_does_not_repeat_the_title_of_its_section(
    text: str, heading: str, body: str
) -> None:
    assert strip_title(text, heading) == body


def test_matches_that_overlap_or_touch_are_marked_together() -> None:
    assert render_snippet("用数据库的", [(1, 3), (2, 4)]) == "用**数据库**的"
    assert render_snippet("a getUser b", [(2, 5), (5, 9)]) == "a **getUser** b"
    assert render_snippet("a b", [(0, 1), (2, 3)]) == "**a** **b**"
