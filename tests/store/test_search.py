from __future__ import annotations

import math
from collections.abc import Callable

import apsw
import pytest

from memsyncd.core.model import Span
from memsyncd.core.search.filters import NO_FILTERS, Filters
from memsyncd.core.search.ranking import ChunkRow
from memsyncd.errors import NotFresh
from memsyncd.store.filters import MAX_LISTED_CHUNKS, compile_filters, compile_match_filters
from memsyncd.store.index import Index, PutNote
from memsyncd.store.pool import MEMO_LIMIT
from memsyncd.store.search import (
    N_TIES,
    count_matching,
    estimate_passing,
    find_candidates,
    find_holding,
    is_matching,
    read_words,
)
from memsyncd.store.sections import find_stating, read_sections
from memsyncd.store.texts import read_texts

Put = Callable[..., PutNote]

NOW_S = 1.8e9
FIND_REDIS = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'redis'"


@pytest.fixture
def filled(index: Index, put: Put) -> Index:
    index.apply([
        put("MEMORY.md", "---\nkind: decision\ntags: [auth, Two Words]\n---\n# Cache\nredis is hot\n\n# Disk\nit is cold\n"),
        put(".memories/api/notes.md", "# Cache\n<!-- memory: {kind: error, importance: 0.5} -->\nredis timeout #Auth\n"),
        put(".memories/api-old.md", "redis was slow\n"),
        put(".memories/b.txt", "cold redis disk\n"),
    ])  # fmt: skip
    return index


def find(index: Index, match: str, filters: Filters = NO_FILTERS, *, limit: int = 100) -> list[str]:
    """`path:start-end` of each match, the best first."""
    with index.pool.acquire(5) as reader:
        candidates = find_candidates(reader, match, filters, limit=limit).make_candidates()
    return [
        f"{c.path}:{c.span.start}-{c.span.end}"
        for c in sorted(candidates, key=lambda c: (-c.stemmed, c.path, c.span))
    ]


def find_paths(index: Index, match: str, **filters: tuple[str, ...]) -> list[str]:
    return sorted({place.rpartition(":")[0] for place in find(index, match, Filters(**filters))})


def test_candidates_have_their_positions_and_raw_scores(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        candidates = find_candidates(reader, '"hot"', NO_FILTERS, limit=10)
        [candidate] = candidates.make_candidates()
        section = read_sections(reader, [candidate.section])[candidate.section]
        text = read_texts(reader, [candidate.chunk])[candidate.chunk]
    assert (candidate.path, candidate.span) == ("MEMORY.md", Span(5, 6))
    assert candidate.stemmed > 0
    assert candidate.exact > 0
    assert candidate.n_tokens == 5
    assert (section.anchor, section.heading, section.kind) == (
        "MEMORY.md#cache",
        ("Cache",),
        "decision",
    )
    assert section.tags == ("Two Words", "auth")
    assert section.digest == filled.recorded()["MEMORY.md"].digest
    assert text == "# Cache\nredis is hot"


NOTES_OF_WORDS = {
    "MEMORY.md": "---\ntags: [auth, Two Words]\n---\n# The loadConfig caches\nredis.getUserName ran\n",
    ".memories/api-notes/x7qk-Größe.md": "# C++ und Maße\n設計書 in Straßen #läuft\n",
    ".memories/titled.md": "---\ntitle: Another runningTitle\n---\n# Heading\nplain words\n",
    ".memories/callout.md": "# Marks\n> [!warning]- Watch out\n> the disk ^ref-1\n",
    ".memories/no-title.txt": f"one {'long ' * 200} line\n",
    ".memories/same.md": "---\naliases: [An Idea]\n---\n# An idea\ntext\n",
}


def test_the_words_of_a_chunk_are_those_of_the_index(index: Index, put: Put) -> None:
    index.apply([put(path, text) for path, text in NOTES_OF_WORDS.items()])
    index.apply([put(".memories/named.md", "---\naliases: [fooBar]\n---\n# A\nb\n# C\nd\n")])
    connection = apsw.Connection(str(index.path))
    connection.execute(
        "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, chunks_fts, instance)"
    )
    indexed: dict[int, set[str]] = {}
    for chunk, word in connection.execute("SELECT doc, term FROM temp.words"):
        indexed.setdefault(chunk, set()).add(word)
    connection.close()
    with index.pool.acquire(5) as reader:
        paths = dict(reader.rows("SELECT c.id, path FROM chunks c JOIN files f ON f.id = c.file"))
        passages = [[chunk] for chunk in indexed]
        passages += [
            [each for each, of in paths.items() if of == path] for path in {*paths.values()}
        ]
        results = read_words(reader, read_texts(reader, [*indexed]), passages)
    for chunks, words in zip(passages, results, strict=True):
        if words is None:
            assert paths[chunks[0]] == ".memories/named.md"
            continue
        whole = set().union(*(indexed[chunk] for chunk in chunks))
        assert words.certain <= whole <= words.possible, chunks
        # Whether front matter states the title is not looked up.
        assert words.certain == whole or paths[chunks[0]] == ".memories/titled.md"
    assert None in results


def test_the_chunks_that_contain_a_term_in_any_column_are_returned(
    filled: Index,
) -> None:
    with filled.pool.acquire(5) as reader:
        candidates = find_candidates(reader, '"redis" OR "disk"', NO_FILTERS, limit=10)
        chunks = {candidate.chunk: candidate.path for candidate in candidates.make_candidates()}
        terms = ("cache", "auth", "redis", "slow", "nowhere")
        phrases = [f'"{term}"' for term in terms]
        holding = find_holding(reader, phrases, chunks, 0)
        assert find_holding(reader, phrases, chunks, 1_000_000) == holding
        assert find_holding(reader, [], chunks, 0) == find_holding(reader, phrases, [], 0) == {}
        some = [chunk for chunk, path in chunks.items() if path.endswith(".txt")]
        few = find_holding(reader, ['"redis"'], some, 0)
        # As many as a query may have.
        many = find_holding(reader, ['"nowhere"'] * 62 + ['"disk"', '"redis"'], chunks, 0)
    held_by = {
        term: {chunk for chunk, having in holding.items() if at in having}
        for at, term in enumerate(terms)
    }
    assert sorted(chunks[chunk] for chunk in held_by["cache"]) == [
        ".memories/api/notes.md",
        "MEMORY.md",
    ]
    assert sorted({chunks[chunk] for chunk in held_by["auth"]}) == [
        ".memories/api/notes.md",
        "MEMORY.md",
    ]
    assert [chunks[chunk] for chunk in held_by["slow"]] == [".memories/api-old.md"]
    assert not held_by["nowhere"]
    assert [chunks[chunk] for chunk in few] == [".memories/b.txt"]
    assert {chunk for chunk, having in many.items() if having[-1] == 63} == held_by["redis"]


def test_text_headings_paths_and_tags_are_searched(filled: Index) -> None:
    assert find_paths(filled, '"slow"') == [".memories/api-old.md"]
    assert find_paths(filled, '"cache"') == [".memories/api/notes.md", "MEMORY.md"]
    assert find_paths(filled, '"api"') == [".memories/api-old.md", ".memories/api/notes.md"]
    assert find_paths(filled, '"auth"') == [".memories/api/notes.md", "MEMORY.md"]


def test_only_the_best_matches_are_candidates(filled: Index) -> None:
    everything = find(filled, '"redis"')
    assert len(everything) == 4
    assert find(filled, '"redis"', limit=2) == everything[:2]


LET_THROUGH = [
    ({"kinds": ("decision",)}, ["MEMORY.md"]),
    ({"kinds": ("Decision", "error")}, [".memories/api/notes.md", "MEMORY.md"]),
    ({"kinds": ("none",)}, []),
    ({"tags": ("auth",)}, [".memories/api/notes.md", "MEMORY.md"]),
    ({"tags": ("#AUTH",)}, [".memories/api/notes.md", "MEMORY.md"]),
    ({"tags": ("two words",)}, ["MEMORY.md"]),
    ({"tags": ("auth",), "kinds": ("error",)}, [".memories/api/notes.md"]),
    ({"paths": ("MEMORY.md",)}, ["MEMORY.md"]),
    ({"paths": (".memories/api",)}, [".memories/api/notes.md"]),
    ({"paths": (".memories/api/",)}, [".memories/api/notes.md"]),
    ({"paths": (".memories/*.md",)}, [".memories/api-old.md"]),
    ({"paths": ("**/*.txt", "MEMORY.md")}, [".memories/b.txt", "MEMORY.md"]),
    ({"paths": ("none",)}, []),
]


def test_filters_select_what_they_name(filled: Index) -> None:
    assert [
        (filters, find_paths(filled, '"redis"', **filters)) for filters, _ in LET_THROUGH
    ] == LET_THROUGH


def test_filters_apply_before_the_best_are_selected(index: Index, put: Put) -> None:
    index.apply([put(f".memories/{number}.md", "redis redis redis") for number in range(20)])
    index.apply([put("MEMORY.md", f"redis {'and much else besides ' * 20}")])
    assert find(index, '"redis"', Filters(paths=("MEMORY.md",)), limit=3) == ["MEMORY.md:1-1"]


def test_the_existence_of_a_match_is_reported_without_filters(filled: Index) -> None:
    with filled.pool.acquire(5) as reader:
        assert is_matching(reader, '"redis"')
        assert not is_matching(reader, '"nowhere"')


def test_a_query_past_its_deadline_is_stopped_and_its_reader_stays_usable(
    index: Index, put: Put
) -> None:
    text = "\n".join("## a\n\na b c d e f g h\n" for _ in range(60))
    index.apply([put(f".memories/{number}.md", text) for number in range(60)])
    match = " OR ".join(f'"{word} {other}"' for word in "abcdefgh" for other in "abcdefgh")
    with pytest.raises(NotFresh), index.pool.acquire(0.001) as reader:
        find_candidates(reader, match, NO_FILTERS, limit=200)
    with index.pool.acquire(30) as again:
        assert again is reader
        assert find_candidates(again, '"a b"', NO_FILTERS, limit=5).rows


def test_a_search_gets_a_few_rows_from_sqlite_however_many_chunks_it_finds(
    index: Index, put: Put
) -> None:
    index.apply([put(f".memories/{n}.md", f"larch {'hazel ' * (n % 7)}") for n in range(900)])
    rows: list[object] = []
    with index.pool.acquire(30) as reader:
        reader.connection.row_trace = lambda _, row: rows.append(row) or row
        found = find_candidates(reader, '"larch" OR "hazel"', NO_FILTERS, limit=600)
        found.make_candidates()
        reader.connection.row_trace = None
    assert len(found.rows) >= 600
    assert len(rows) < 20


def test_matches_are_counted_up_to_a_limit(filled: Index) -> None:
    n_redis = len(find(filled, '"redis"'))
    assert n_redis > 1
    with filled.pool.acquire(5) as reader:
        matches = ['"redis"', '"nowhere"', '"hot"']
        assert count_matching(reader, matches, most=100) == [n_redis, 0, 1]
        assert count_matching(reader, matches, most=1) == [1, 0, 1]
        assert count_matching(reader, [], most=1) == []


def test_words_that_select_leave_the_scores_of_the_chosen_as_they_are(filled: Index) -> None:
    either = '"redis" OR "disk" OR "cold"'
    with filled.pool.acquire(5) as reader:
        everything = find_candidates(reader, either, NO_FILTERS, limit=10)
        chosen = find_candidates(reader, either, NO_FILTERS, limit=10, selecting='"cold"')
    scores = {candidate.chunk: candidate for candidate in everything.make_candidates()}
    assert len(chosen.rows) == 2
    for candidate in chosen.make_candidates():
        assert candidate == scores[candidate.chunk]


def test_chunks_that_hold_the_exact_words_score_higher_than_those_with_their_stems(
    index: Index, put: Put
) -> None:
    index.apply([put("MEMORY.md", "running"), put(".memories/a.md", "runs")])
    with index.pool.acquire(5) as reader:
        candidates = find_candidates(reader, '"runs"', NO_FILTERS, limit=10)
    exact = {candidate.path: candidate.exact for candidate in candidates.make_candidates()}
    assert exact["MEMORY.md"] == 0.0
    assert exact[".memories/a.md"] > 0.0


@pytest.mark.parametrize("is_reversed", [False, True])
def test_of_many_chunks_with_equal_scores_the_first_by_path_are_found(
    index: Index, put: Put, is_reversed: bool
) -> None:
    paths = sorted((f".memories/{n:03}.md" for n in range(N_TIES + 20)), reverse=is_reversed)
    for path in paths:
        index.apply([put(path, "redis")])
    index.apply(
        [put("best.md", "redis redis redis"), put(".memories/long.md", "redis " + "x " * 99)]
    )
    assert find(index, '"redis"', limit=4) == [
        f"{path}:1-1" for path in ["best.md", *sorted(paths)[:3]]
    ]


@pytest.mark.parametrize("share_and_spare", [(0.5, 1.3), (0.0, 1.0), (0.0, 0.01), (2.0, 1.3)])
@pytest.mark.parametrize("hidden", [0, 1, 3, 39, 40])
def test_filters_checked_for_the_best_matches_find_what_listed_ones_find(
    index: Index,
    put: Put,
    monkeypatch: pytest.MonkeyPatch,
    hidden: int,
    share_and_spare: tuple[float, float],
) -> None:
    """In each 40 notes `hidden` are archived or have expired; many texts are equal."""
    for number in range(N_TIES + 60):
        hiding = ("status: archived\n", "expires: 2020-01-01\n")[number % 2]
        front = f"---\nkind: tip\n{hiding if number * 7 % 40 < hidden else ''}---\n"
        text = f"{'redis ' * (1 + number % 3)}{'disk ' * (number % 4)}"
        index.apply([put(f".memories/{number % 5}/{number}.md", f"{front}# A\n{text}")])
    filters = [Filters(now_s=NOW_S), Filters(now_s=NOW_S, paths=(".memories/1",), kinds=("tip",))]

    def find_rows(*, is_listed: bool) -> list[list[ChunkRow]]:
        for name in ("MAX_LISTED_CHUNKS", "MAX_LISTED_HIDDEN"):
            monkeypatch.setattr(f"memsyncd.store.filters.{name}", 2_000 if is_listed else -1)
        with index.pool.acquire(5) as reader:
            reader.memo.clear()
            return [
                find_candidates(
                    reader, match, each, limit=limit, selecting=selecting, n_matching=n_matching
                ).rows
                for match in ('"redis"', '"redis" OR "disk"', '"nowhere"')
                for each in filters
                for limit in (1, 40, 300)
                for selecting in ("", '"disk"')
                for n_matching in (0, math.inf)
            ]

    for name, value in zip(("LEAST_PASSING", "SPARE_ROWS"), share_and_spare, strict=True):
        monkeypatch.setattr(f"memsyncd.store.search.{name}", value)
    assert find_rows(is_listed=False) == find_rows(is_listed=True)


def test_the_share_that_passes_a_filter_is_that_of_a_sample(
    index: Index, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(32):
        kind = "tip" if number % 4 == 1 else "decision"
        index.apply([put(f".memories/{number}.md", f"---\nkind: {kind}\n---\nredis")])
    monkeypatch.setattr("memsyncd.store.filters.MAX_LISTED_CHUNKS", -1)
    with index.pool.acquire(5) as reader:
        for kind, share in (("tip", 0.25), ("decision", 0.75), ("error", 0.0)):
            allowed = compile_match_filters(reader, Filters(kinds=(kind,)))
            assert estimate_passing(reader, allowed) == share


@pytest.mark.parametrize("limit", [1, 3, 40, 41, 300])
def test_few_matches_are_found_in_the_same_order_as_many(
    index: Index, put: Put, limit: int
) -> None:
    texts = [f"{'redis ' * (1 + n % 4)}{'disk ' * (n % 3)}" for n in range(N_TIES + 60)]
    index.apply([put(f".memories/{number}.md", text) for number, text in enumerate(texts)])
    filters = Filters(paths=(".memories/1*.md",))
    with index.pool.acquire(5) as reader:
        for match in ('"redis"', '"redis" OR "disk"', '"nowhere"'):
            for each in (NO_FILTERS, filters):
                few = find_candidates(reader, match, each, limit=limit, n_matching=0)
                assert few.rows == find_candidates(reader, match, each, limit=limit).rows


def test_of_too_many_chunks_with_equal_scores_as_many_are_found_as_were_asked_for(
    index: Index, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memsyncd.store.search.MAX_TIED", 10)
    monkeypatch.setattr("memsyncd.store.search.N_TIES", 0)
    index.apply([put(f".memories/{number}.md", "redis") for number in range(N_TIES + 20)])
    index.apply([put("best.md", "redis redis redis")])
    places = find(index, '"redis"', limit=5)
    assert places[0] == "best.md:1-1"
    assert len(places) == 5


def test_a_broad_filter_that_checks_each_match_finds_what_a_listed_one_finds(
    index: Index, put: Put
) -> None:
    n_notes = MAX_LISTED_CHUNKS + 10
    many = [put(f".memories/a/{number}.md", f"redis {number}") for number in range(n_notes)]
    index.apply([*many, put(".memories/b.md", "redis"), put("MEMORY.md", "redis")])
    broad, narrow = Filters(paths=(".memories/a",)), Filters(paths=(".memories/b.md",))
    with index.pool.acquire(30) as reader:
        for filters, is_listed in ((broad, False), (narrow, True)):
            passing = compile_match_filters(reader, filters)
            assert bool(passing.listed) is is_listed
            results = [
                {row[0] for row in reader.rows(f"{FIND_REDIS} {sql}", bound)}
                for sql, bound in (
                    (passing.allowed, passing.bindings),
                    compile_filters(reader, filters),
                )
            ]
            assert results[0] == results[1]
            assert len(results[0]) == (1 if is_listed else n_notes)


def test_it_is_remembered_of_many_sections_whether_they_state_metadata(
    index: Index, put: Put
) -> None:
    index.apply([put("MEMORY.md", "".join(f"# H{n}\ntext\n" for n in range(3 * MEMO_LIMIT)))])
    with index.pool.acquire(5) as reader:
        ids = [number for (number,) in reader.rows("SELECT id FROM sections ORDER BY id")]
        portions = [ids[at : at + MEMO_LIMIT] for at in range(0, len(ids), MEMO_LIMIT)]
        for portion in portions:
            assert find_stating(reader, portion) == []
        assert reader.memo["states"].keys() == {*ids}
