from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Sequence
from random import Random

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.core.model import Span
from memsyncd.core.search.context import ContextChunk
from memsyncd.core.search.passages import (
    ALL_WORDS,
    LASTING_SHARE,
    LEAD_SHARE,
    MARK,
    MEMORY_SHARE,
    START_REASONS,
    STOPWORD_WEIGHT,
    VERBATIM,
    WINDOW_CHARACTERS,
    WORDS_SHARE,
    Matcher,
    RunFinder,
    ScoredPassage,
    StartChunk,
    StartReason,
    TermPattern,
    Token,
    compute_rarity,
    find_lead,
    join_words,
    order_start_chunks,
    render_snippet,
    score_lines,
    select_passages,
    sort_ranges,
    strip_title,
    to_character_ranges,
)
from memsyncd.store.schema import TOKENIZER

# --- Passages for a question ----------------------------------------------------------------------

BLANK_LINES = frozenset({4, 9, 10})


def line_of(number: int) -> str:
    return "" if number in BLANK_LINES else f"line {number}"


def make_passage(
    start: int,
    end: int,
    strength: float = 1.0,
    *,
    section: str = "a.md#one",
    n_blanks_before: int = 0,
) -> ScoredPassage:
    text = "\n".join(map(line_of, range(start, end + 1)))
    chunk = ContextChunk(
        path=section.partition("#")[0],
        anchor=section,
        heading=("One",),
        kind=None,
        span=Span(start, end),
        text=text,
        reason="match",
        n_blanks_before=n_blanks_before,
    )
    return ScoredPassage(chunk=chunk, raw_score=strength, semantic_share=0.0)


def nothing(texts: Sequence[str]) -> list[float]:
    return [0.0] * len(texts)


def spans(chunks: list[ContextChunk]) -> list[tuple[int, int]]:
    return [(chunk.span.start, chunk.span.end) for chunk in chunks]


# --- splitting ------------------------------------------------------------------------------------


def test_only_sections_with_a_strong_chunk_are_read() -> None:
    passages = [
        make_passage(1, 3, 10.0),
        make_passage(3, 5, 1.0),
        make_passage(1, 2, 2.0, section="b.md#one"),
    ]
    unread = [
        replace(passage, chunk=replace(passage.chunk, text="", unread=number))
        for number, passage in enumerate(passages, 1)
    ]
    asked: list[int] = []

    def read(chunks: Sequence[ContextChunk]) -> list[ContextChunk]:
        asked.extend(chunk.unread for chunk in chunks)
        return [passages[chunk.unread - 1].chunk for chunk in chunks]

    *chunks, weak, other = select_passages(unread, nothing, read)
    assert asked == [1, 2]
    assert [*chunks, weak] == select_passages(passages[:2], nothing)
    assert other == unread[2].chunk


def test_chunks_that_overlap_are_cut_where_one_begins_or_ends() -> None:
    chunks = select_passages(
        [make_passage(1, 3, 8.0), make_passage(2, 7, 10.0), make_passage(6, 8, 5.0)], nothing
    )
    assert spans(chunks) == [(2, 4), (5, 5), (6, 7), (1, 1), (8, 8)]


def test_blank_lines_go_with_the_lines_before_them() -> None:
    assert spans(select_passages([make_passage(1, 3), make_passage(1, 8)], nothing)) == [
        (1, 4),
        (5, 8),
    ]


def test_a_passage_at_the_beginning_of_a_chunk_keeps_the_blank_lines_before_it() -> None:
    [first, second] = select_passages(
        [make_passage(11, 13, n_blanks_before=2), make_passage(13, 14)], nothing
    )[:2]
    assert (first.n_blanks_before, second.n_blanks_before) == (2, 0)


def test_chunks_of_different_sections_do_not_cut_each_other() -> None:
    chunks = select_passages([make_passage(1, 3), make_passage(2, 3, section="b.md#one")], nothing)
    assert [(chunk.path, *place) for chunk, place in zip(chunks, spans(chunks), strict=True)] == [
        ("a.md", 1, 3),
        ("b.md", 2, 3),
    ]


def test_chunks_of_a_giant_line_are_not_split() -> None:
    whole = make_passage(1, 3)
    part = ScoredPassage(
        chunk=replace(whole.chunk, text="half of a line"), raw_score=2.0, semantic_share=0.0
    )
    assert select_passages([part, whole], nothing) == [part.chunk, whole.chunk]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 20),
            st.integers(0, 6),
            st.floats(0, 9),
            st.sampled_from(["a.md#x", "a.md#y"]),
        ),
        max_size=12,
    )
)
def test_every_line_is_shown_once_among_the_strong_and_none_is_lost(
    rows: list[tuple[int, int, float, str]],
) -> None:
    passages = [
        make_passage(start, start + more, strength, section=section)
        for start, more, strength, section in rows
    ]
    passages.sort(key=lambda each: -each.raw_score)
    chunks = select_passages(passages, nothing)
    assert find_lines(chunks) == find_lines([passage.chunk for passage in passages])
    for chunk in chunks:
        assert chunk.text == "\n".join(map(line_of, range(chunk.span.start, chunk.span.end + 1)))
    weak = [
        passage.chunk for passage in passages if passage.raw_score < 0.4 * passages[0].raw_score
    ]
    strong = chunks[: len(chunks) - len(weak)]
    assert chunks[len(strong) :] == weak
    if passages and passages[0].raw_score > 0:
        for strong_chunk, other in itertools.combinations(strong, 2):
            assert (
                strong_chunk.anchor != other.anchor
                or strong_chunk.span.end < other.span.start
                or other.span.end < strong_chunk.span.start
            )


def find_lines(chunks: list[ContextChunk]) -> set[tuple[str, int]]:
    return {
        (chunk.anchor, line)
        for chunk in chunks
        for line in range(chunk.span.start, chunk.span.end + 1)
    }


# --- order ----------------------------------------------------------------------------------------


def test_passages_with_the_words_come_before_their_neighbours() -> None:
    def weigh(texts: Sequence[str]) -> list[float]:
        return [0.3 if "7" in text else 0.0 for text in texts]

    assert spans(select_passages([make_passage(1, 7, 10.0), make_passage(5, 6, 9.0)], weigh)) == [
        (7, 7),
        (1, 4),
        (5, 6),
    ]


def test_weak_chunks_come_last_whatever_they_contain() -> None:
    def weigh(texts: Sequence[str]) -> list[float]:
        return [0.45 if "7" in text else 0.0 for text in texts]

    assert spans(select_passages([make_passage(1, 3, 10.0), make_passage(7, 8, 3.9)], weigh)) == [
        (1, 3),
        (7, 8),
    ]


def test_equal_passages_are_ordered_by_note_and_line() -> None:
    passages = [
        make_passage(5, 6, section="b.md#x"),
        make_passage(7, 8, section="a.md#x"),
        make_passage(1, 2, section="a.md#y"),
    ]
    assert spans(select_passages(passages, nothing)) == [(1, 2), (7, 8), (5, 6)]


def test_chunks_without_raw_scores_keep_their_order() -> None:
    passages = [make_passage(5, 8, 0.0), make_passage(1, 7, 0.0)]
    assert select_passages(passages, lambda texts: [1.0] * len(texts)) == [
        passage.chunk for passage in passages
    ]
    assert select_passages([], nothing) == []


# --- bonuses of lines -----------------------------------------------------------------------------


def test_a_rarer_word_weighs_more() -> None:
    rarities = [compute_rarity(100, n_holding) for n_holding in range(101)]
    assert rarities == sorted(rarities, reverse=True)
    assert rarities[-1] == compute_rarity(0, 0) == pytest.approx(0.000001)


def test_lines_gain_by_the_share_of_words_that_they_contain() -> None:
    assert score_lines([], [3.0, 1.0], is_led=False) == 0.0
    assert score_lines([0], [3.0, 1.0], is_led=False) == pytest.approx(WORDS_SHARE * 0.75)
    assert score_lines([0, 1], [3.0, 1.0], is_led=False) == pytest.approx(WORDS_SHARE)
    assert score_lines([0, 1], [3.0, 1.0], is_led=True) == pytest.approx(WORDS_SHARE + LEAD_SHARE)


def test_a_lead_names_a_speaker_or_subject() -> None:
    for text, is_led in (
        ("- **Ann:** hello", True),
        ("**Ann** said hello", True),
        ("Ann: hello", True),
        ("1. Ann: hello", True),
        ("* Élan and Ann: hello", True),
        ("Bea: hello Ann", False),
        ("- **Bea:** hello Ann: so", False),
        ("hello Ann", False),
        ("see http://Ann", False),
        ("`x: Ann`", False),
        (f"{'so ' * 20}Ann: hello", False),
    ):
        lead = find_lead(text)
        assert text.startswith(lead), text
        assert ("Ann" in lead) == is_led, text


# --- Chunks for the start of a session ------------------------------------------------------------


def make(
    chunk: int,
    reason: StartReason,
    *,
    modified_ns: int = 1,
    n_tokens: int = 100,
    weight: float = 1.0,
    line: int = 1,
    path: str = "a.md",
) -> StartChunk:
    return StartChunk(
        chunk=chunk,
        section=chunk,
        path=path,
        span=Span(line, line),
        n_tokens=n_tokens,
        reason=reason,
        weight=weight,
        modified_ns=modified_ns,
    )


def order(*chunks: StartChunk) -> list[int]:
    return [chunk.chunk for chunk, _ in order_start_chunks(chunks)]


def test_chunks_come_in_the_order_of_their_reasons() -> None:
    chunks = [make(i, reason) for i, reason in enumerate(reversed(START_REASONS))]
    assert order(*chunks) == [4, 3, 2, 1, 0]


def test_the_newest_note_comes_first_with_its_lines_in_order() -> None:
    chunks = [
        make(1, "recent", modified_ns=1, path="old.md"),
        make(2, "recent", modified_ns=9, path="new.md", line=8),
        make(3, "recent", modified_ns=9, path="new.md", line=2),
    ]
    assert order(*chunks) == [3, 2, 1]


def test_the_most_important_pinned_chunk_comes_first() -> None:
    assert order(make(1, "pinned", weight=0.9, modified_ns=9), make(2, "pinned", weight=1.0)) == [
        2,
        1,
    ]


def test_memory_and_lasting_chunks_may_fill_a_share_of_the_block_and_recent_ones_all() -> None:
    chunks = [make(i, reason) for i, reason in enumerate(START_REASONS)]
    shares = [share for _, share in order_start_chunks(chunks)]
    assert shares == [MEMORY_SHARE, LASTING_SHARE, LASTING_SHARE, LASTING_SHARE, 1.0]


@st.composite
def chunk_lists(draw: st.DrawFn) -> list[StartChunk]:
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(START_REASONS),
                st.integers(0, 3),
                st.integers(0, 200),
                st.integers(1, 9),
            ),
            max_size=20,
        )
    )
    return [
        make(i, reason, modified_ns=modified_ns, n_tokens=n_tokens, line=line)
        for i, (reason, modified_ns, n_tokens, line) in enumerate(rows)
    ]


@given(chunk_lists(), st.randoms(use_true_random=False))
def test_ordering_loses_no_chunk_and_does_not_depend_on_input_order(
    chunks: list[StartChunk], shuffler: random.Random
) -> None:
    ordered = order_start_chunks(chunks)
    assert sorted(chunk.chunk for chunk, _ in ordered) == sorted(chunk.chunk for chunk in chunks)
    assert [share for _, share in ordered] == sorted(share for _, share in ordered)
    assert order_start_chunks(shuffler.sample(chunks, len(chunks))) == ordered


# --- Matches --------------------------------------------------------------------------------------


def tokenize(text: str) -> list[Token]:
    """The words of a text with their ranges in bytes; the index's own tokenizer also folds and
    stems.
    """
    return [
        (len(text[: match.start()].encode()), len(text[: match.end()].encode()), match.group())
        for match in re.finditer(r"\w+", text)
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


def test_a_term_matches_at_these_places() -> None:
    for text, wanted, found in (
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
    ):
        assert find(text, wanted).get(0) == found, text


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
    words = [(match.start(), match.end()) for match in re.finditer(r"[abé日]+", text)]
    return text, sorted(draw(st.sets(st.sampled_from(words), max_size=20))) if words else []


def test_a_short_text_is_shown_whole_with_its_matches_marked() -> None:
    assert render_snippet("the cache is cold", [(4, 9)]) == "the **cache** is cold"


def test_asterisks_of_the_text_are_not_taken_for_marks() -> None:
    for text, match, snippet in (
        ("a **bold** word", (11, 15), "a bold **word**"),
        ("a **bold** word", (4, 8), "a **bold** word"),
        ("a ***bold*** word", (5, 9), "a **bold** word"),
        ("an *odd* word", (4, 7), "an **odd** word"),
        ("two **red cats** here", (6, 14), "two **red cats** here"),
        ("two red **cats** here", (4, 14), "two **red cats** here"),
    ):
        assert render_snippet(text, [match]) == snippet, text


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
    places = [(match.start(), match.end()) for match in re.finditer("cache", text)]
    assert render_snippet(text, places).count("**cache**") == 2


def test_thousands_of_matches_in_one_giant_line_take_linear_time() -> None:
    text = "filler " * 10_000 + "filler filler"
    places = [(match.start(), match.end()) for match in re.finditer("filler", text)]
    began_s = time.thread_time()
    assert render_snippet(text, places).startswith("**filler** **filler**")
    assert time.thread_time() - began_s < 1.0


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


def test_a_snippet_does_not_repeat_the_title_of_its_section() -> None:
    for text, heading, body in (
        ("# Notes\n\nThe parser", "Notes", "The parser"),
        ("## `A` b\n<!-- memory: {kind: x,\n tags: [a]} -->\n\nbody text", "A b", "body text"),
        ("Title\n=====\n\nbody", "Title", "body"),
        ("# Only heading", "Only heading", ""),
        ("the second chunk\nof it", "Notes", "the second chunk\nof it"),
        ("- x\n---\nfoo", "Notes", "- x\n---\nfoo"),
        ("## Not\nesbody", "Notes", "## Not\nesbody"),
        ("## Notes 2\nbody", "Notes", "## Notes 2\nbody"),
        ("before any heading", "", "before any heading"),
    ):
        assert strip_title(text, heading) == body, text


def test_matches_that_overlap_or_touch_are_marked_together() -> None:
    assert render_snippet("用数据库的", [(1, 3), (2, 4)]) == "用**数据库**的"
    assert render_snippet("a getUser b", [(2, 5), (5, 9)]) == "a **getUser** b"
    assert render_snippet("a b", [(0, 1), (2, 3)]) == "**a** **b**"


# --- Runs -----------------------------------------------------------------------------------------


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


def test_the_signs_are_looked_for_only_in_texts_with_all_words() -> None:
    texts = {1: "let c = || {", 2: "let c", 3: "c let", 4: ""}
    read: list[int] = []

    def read_texts(numbers: Sequence[int]) -> dict[int, str]:
        read.extend(numbers)
        return {number: texts[number] for number in numbers}

    joined = {number: join_words(text) for number, text in texts.items()}
    counted = RunFinder("let c = || {", ["let", "c"]).measure_all(joined, read_texts)
    assert counted == {1: VERBATIM, 2: ALL_WORDS, 3: 0.0, 4: 0.0}
    assert read == [1, 2]


def test_joined_words_are_the_same_with_and_without_other_scripts() -> None:
    text = "Foo_bar-baz: `a.b`  (C3)\n\n| x |"
    assert join_words(text) == " foo bar baz a b c3 x "
    assert join_words(f"{text} é") == " foo bar baz a b c3 x é "
