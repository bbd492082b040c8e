from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsyncd.config import Config, SearchConfig
from memsyncd.core.search.words import FAMILY_WEIGHT, IDENTIFIER_WEIGHT
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, Busy, NotFresh, StoreCorrupt
from memsyncd.operations.search.declare import SearchAnswer
from memsyncd.operations.sections import Filters
from memsyncd.store.pool import Reader
from tests.engine.conftest import build_block, search_in


def ask(bench: Any, query: str, **more: Any) -> SearchAnswer:
    return search_in([bench.workspace], query, **more)


def places(found: SearchAnswer) -> list[str]:
    return [f"{hit.path}:{hit.start_line}-{hit.end_line}" for hit in found.hits]


@pytest.fixture
def filled(bench: Any) -> Any:
    bench.write("MEMORY.md", "# Cache\nredis is hot\n\n# Disk\nthe disk is cold\n")
    bench.write(
        ".memories/errors.md",
        "---\nkind: error\ntags: [ops]\n---\n# Timeouts\nredis timeout after a cold start\n",
    )
    bench.write(".memories/plain.txt", "nothing of the kind\n")
    bench.sync()
    return bench


def test_a_hit_has_its_position_and_its_text(filled: Any) -> None:
    [hit] = ask(filled, "timeout").hits
    assert (hit.path, hit.start_line, hit.end_line) == (".memories/errors.md", 5, 6)
    assert (hit.anchor, hit.heading, hit.kind) == (
        ".memories/errors.md#timeouts",
        ["Timeouts"],
        "error",
    )
    assert hit.snippet == "redis **timeout** after a cold start"
    assert hit.matched == ["timeout"]
    assert hit.score == 1.0
    assert hit.digest == filled.workspace.index.recorded()[hit.path].digest


def test_the_note_with_more_of_the_words_comes_first_and_lists_them(filled: Any) -> None:
    answer = ask(filled, "How does the redis timeout behave?")
    assert [hit.path for hit in answer.hits] == [".memories/errors.md", "MEMORY.md"]
    assert [hit.matched for hit in answer.hits] == [["redis", "timeout"], ["redis"]]
    assert answer.relaxed
    assert answer.hits[0].score < 1


def test_a_question_that_is_asked_again_reads_no_text_again(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    rows = Reader.rows

    def record(reader: Reader, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
        read.append(statement)
        return rows(reader, statement, *bindings)

    monkeypatch.setattr(Reader, "rows", record)
    first = ask(filled, "redis timeout of ops")
    assert [statement for statement in read if "texts t" in statement]
    read.clear()
    assert ask(filled, "redis timeout of ops") == first
    tables = ("texts t", "sections s")
    assert not [statement for statement in read if any(table in statement for table in tables)]


FOUND = [
    ('"redis timeout"', [".memories/errors.md"]),
    ('"start redis"', []),
    ("redis -timeout", ["MEMORY.md"]),
    ("time*", [".memories/errors.md"]),
    ("ops", [".memories/errors.md"]),
    ("plain", [".memories/plain.txt"]),
    ("nowhere", []),
]


def test_a_query_finds_these_notes(filled: Any) -> None:
    assert [
        (query, sorted({hit.path for hit in ask(filled, query).hits})) for query, _ in FOUND
    ] == FOUND


def test_neighbouring_chunks_are_one_hit(bench: Any) -> None:
    bench.write("MEMORY.md", "# A\nredis one\n\n# B\nredis two\n\n# C\nother\n\n# D\nredis three\n")
    bench.sync()
    assert sorted(places(ask(bench, "redis"))) == ["MEMORY.md:1-5", "MEMORY.md:10-11"]


def test_there_are_no_more_hits_than_requested_and_none_below_min_score(filled: Any) -> None:
    assert len(ask(filled, "redis cold", limit=1).hits) == 1
    assert all(hit.score >= 0.9 for hit in ask(filled, "redis timeout", min_score=0.9).hits)
    none = ask(filled, "redis timeout nowhere absent", min_score=0.99)
    assert not none.hits
    assert none.why_empty == "every match scores below min_score 0.99; the best scores 0.5"


# --- bounds and several workspaces ------------------------------------------------------------------------------------


def test_an_invalid_query_is_refused(filled: Any, make_bench: Callable[..., Any]) -> None:
    with pytest.raises(BadRequest):
        ask(filled, "redis", filters=Filters(path=["/etc/*"]))
    with pytest.raises(Busy):
        ask(make_bench("unopened"), "redis")


def test_a_query_that_runs_out_of_time_is_an_error(bench: Any) -> None:
    bench.write("MEMORY.md", "\n\n".join(f"# h{number}\na b c d e f g h" for number in range(3000)))
    bench.sync()
    with pytest.raises(NotFresh):
        ask(bench, "b c d e f g h", timeout_s=0.0001)


def test_a_hurried_search_is_refused_at_once_if_it_would_take_long(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert places(ask(filled, "redis cold", is_hurried=True)) == places(ask(filled, "redis cold"))
    with pytest.raises(NotFresh):
        ask(filled, "nowhere", is_hurried=True)
    with pytest.raises(NotFresh):
        ask(filled, "redis a1 b2 c3 d4 e5 f6 g7 h8", is_hurried=True)
    n_redis = len(ask(filled, "redis").hits)
    monkeypatch.setattr("memsyncd.store.candidates.MAX_HURRIED_MATCHES", n_redis)
    assert ask(filled, "redis", is_hurried=True).hits
    with pytest.raises(NotFresh):
        ask(filled, "redis cold", is_hurried=True)
    assert ask(filled, "redis cold").hits


def test_a_hurried_search_explains_a_miss_if_that_takes_no_time(filled: Any) -> None:
    for query in ("missing42", "missing42 v1.9.7", '"missing42 x1"', "missing42 -redis"):
        assert ask(filled, query, is_hurried=True) == ask(filled, query)
    for query in ("kind:missing", "redis kind:missing"):
        with pytest.raises(NotFresh):
            ask(filled, query, is_hurried=True)
        explained = ask(filled, query)
        assert explained.why_empty
        # An explanation is made once a generation.
        assert ask(filled, query, is_hurried=True) == explained
    filled.write(".memories/missing.md", "---\nkind: missing\n---\nredis\n")
    filled.sync(".memories/missing.md")
    assert ask(filled, "redis kind:missing", is_hurried=True).hits


def test_several_workspaces_answer_as_one(filled: Any, make_bench: Callable[..., Any]) -> None:
    other = make_bench("other")
    other.open()
    other.fill({"MEMORY.md": "redis elsewhere"})
    workspaces: list[Workspace] = [filled.workspace, other.workspace]
    answer = search_in(workspaces, "redis")
    assert {(hit.workspace, hit.path) for hit in answer.hits} == {
        ("project-1", "MEMORY.md"),
        ("project-1", ".memories/errors.md"),
        ("other-1", "MEMORY.md"),
    }
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    absent = frozenset({("project-1", "MEMORY.md")})
    answer = search_in(workspaces, "redis", absent=absent)
    assert ("other-1", "MEMORY.md") in {(hit.workspace, hit.path) for hit in answer.hits}
    assert ("project-1", "MEMORY.md") not in {(hit.workspace, hit.path) for hit in answer.hits}


def test_a_word_counts_as_much_as_it_is_rare_in_all_workspaces_together(
    make_bench: Callable[..., Any],
) -> None:
    """Alone, `deploy` counts next to nothing where each note has it."""
    many, single = make_bench("many"), make_bench("one")
    for bench, notes in ((many, 12), (single, 1)):
        bench.open()
        for number in range(notes):
            bench.write(f".memories/{number}.md", f"deploy number {number}\n")
        for number in range(20 - notes):
            bench.write(f".memories/other-{number}.md", f"nothing {number}\n")
        bench.sync()
    many.fill({".memories/best.md": "deploy deploy\n"})
    workspaces = [single.workspace, many.workspace]
    raw = {hit.workspace: hit.explain["stems"] for hit in search_in(workspaces, "deploy").hits}
    assert raw["one-1"] > 10 * raw["many-1"]
    best = search_in(workspaces, "deploy").hits[0]
    assert (best.workspace, best.path) == ("many-1", ".memories/best.md")


def test_damage_names_its_workspace(filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.workspace.index._writer.execute("DROP TABLE tags")
    with pytest.raises(StoreCorrupt) as caught:
        ask(filled, "redis")
    assert caught.value.data["workspace"] == "project-1"


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(filled: Any) -> Any:
    filled.fill(
        {
            ".memories/old.md": "---\nstatus: archived\ncreated: 2024-02-01\n---\nredis was slow\n",
            ".memories/2026-03-01.md": "# Redis\n<!-- memory: {kind: decision, task: WU-7} -->\nredis it is\n",
        }
    )
    return filled


ERRORS, DATED, OLD = ".memories/errors.md", ".memories/2026-03-01.md", ".memories/old.md"


FILTERED = [
    ("redis", {"MEMORY.md", ERRORS, DATED}),
    ("redis kind:error", {ERRORS}),
    ("redis -kind:error -path:MEMORY.md", {DATED}),
    ("redis section:timeouts", {ERRORS}),
    ("redis task:wu-7", {DATED}),
    ("redis after:2026 before:2026-04", {DATED}),
    ("redis after:2026-04", {"MEMORY.md", ERRORS}),  # without a date: the day of saving
    ("redis before:2026", set()),
    ("redis is:archived", {OLD}),
    ("redis is:archived before:2026", {OLD}),
    ("redis kind:error kind:decision", {ERRORS, DATED}),
    ("kind:decision", {DATED}),
    ("kind:decision kind:error -ops", {DATED}),
    ("is:archived", {OLD}),
    ("tag:ops path:**/*.md", {ERRORS}),
]


def test_a_query_is_filtered_by_its_own_filters(kept: Any) -> None:
    assert [
        (query, {hit.path for hit in ask(kept, query).hits}) for query, _ in FILTERED
    ] == FILTERED


def test_filters_in_the_query_and_as_parameters_must_both_match(kept: Any) -> None:
    assert not ask(kept, "redis kind:decision", filters=Filters(kind=["error"])).hits
    assert [
        hit.path for hit in ask(kept, "redis kind:decision", filters=Filters(task=["WU-7"])).hits
    ] == [DATED]


def test_filters_alone_list_what_they_select_by_path_and_line(kept: Any) -> None:
    answer = ask(kept, "-path:plain.txt")
    assert places(answer) == [f"{DATED}:1-3", f"{ERRORS}:5-6", "MEMORY.md:1-5"]
    assert {hit.score for hit in answer.hits} == {1.0}
    assert not answer.relaxed


def test_the_date_of_a_filter_has_no_effect_on_ranking(kept: Any) -> None:
    assert ask(kept, "redis after:2026-03-01").hits[0].explain["day"] == 1.0
    assert ask(kept, "redis 2026-03-01").hits[0].explain["day"] > 1.0


def test_a_filter_is_not_a_word_to_match(kept: Any) -> None:
    answer = ask(kept, "timeout kind:error")
    assert [hit.matched for hit in answer.hits] == [["timeout"]]
    assert not answer.relaxed


def test_an_excluded_word_is_excluded_in_all_its_forms_and_changes_no_other_score(
    bench: Any,
) -> None:
    bench.fill({"MEMORY.md": "redis timeout\n", ".memories/a.md": "redis has disks\n"})
    bench.fill({".memories/b.md": "redis timeout 2026\n"})
    bench.fill({".memories/c.md": "other words\n"})
    plain, without = (
        ask(bench, query) for query in ('"redis timeout" 2026', '"redis timeout" 2026 -disk')
    )
    assert [(hit.path, hit.explain) for hit in plain.hits] == [
        (hit.path, hit.explain) for hit in without.hits
    ]
    assert ".memories/a.md" not in {hit.path for hit in ask(bench, "redis -disk").hits}


words_typed = st.lists(
    st.sampled_from(["redis", "timeout", "cold", '"redis timeout"', "-hot", "nothing"]),
    min_size=1,
    max_size=4,
)
filters_typed = st.lists(
    st.sampled_from(
        [
            "kind:error",
            "kind:decision",
            "-kind:error",
            "tag:ops",
            "-path:MEMORY.md",
            "path:*.md",
            "section:cache",
        ]
    )
    | st.sampled_from(["after:2026", "before:2027", "task:WU-7"]),
    min_size=1,
    max_size=3,
    unique=True,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=words_typed, filters=filters_typed)
def test_filters_only_remove_hits_from_an_answer(
    kept: Any, words: list[str], filters: list[str]
) -> None:
    def lines(query: str) -> set[tuple[str, int]]:
        return {
            (hit.path, line)
            for hit in ask(kept, query, limit=200).hits
            for line in range(hit.start_line, hit.end_line + 1)
        }

    words = words if any(not word.startswith("-") for word in words) else [*words, "redis"]
    assert lines(" ".join([*words, *filters])) <= lines(" ".join(words))


def test_on_a_large_index_a_word_in_nearly_all_chunks_is_searched_if_the_others_find_nothing(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        bench.write(
            f".memories/{number}.md", f"a note about notes{' and redis' if number == 7 else ''}"
        )
    bench.sync()
    assert len(ask(bench, "notes redis", limit=50).hits) == 20
    monkeypatch.setattr("memsyncd.store.candidates.LARGE_INDEX_CHUNKS", 10)
    [hit] = ask(bench, "notes redis").hits
    assert (hit.path, hit.matched) == (".memories/7.md", ["notes", "redis"])
    for query in ("notes", "notes zebra"):
        assert len(ask(bench, query, limit=50).hits) == 20
    assert places(ask(bench, "notes redis path:3.md")) == [".memories/3.md:1-1"]


def test_on_a_large_index_the_rarest_words_select_and_all_words_rank(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(120):
        words = ["filler"]
        words += ["redis"] if number in (7, 50) else []
        words += ["cache"] if number % 12 == 2 else []
        bench.write(f".memories/{number}.md", " ".join(words))
    bench.sync()
    # One of the notes with the rarer word holds the other, too.
    everything = ask(bench, "redis cache", limit=50).hits
    assert len(everything) == 11
    monkeypatch.setattr("memsyncd.store.candidates.LARGE_INDEX_CHUNKS", 10)
    monkeypatch.setattr("memsyncd.engine.search.N_CANDIDATES", 2)
    monkeypatch.setattr("memsyncd.engine.search.CANDIDATES_PER_HIT", 0)
    monkeypatch.setattr("memsyncd.store.candidates.SELECTING_MATCHES", 5)
    monkeypatch.setattr("memsyncd.store.candidates.SELECTING_SHARE", 120)
    selected = ask(bench, "redis cache", limit=50).hits
    assert [(hit.path, hit.matched, hit.score) for hit in selected] == [
        (hit.path, hit.matched, hit.score) for hit in everything[:2]
    ]
    assert selected[0].matched == ["redis", "cache"]
    # Two chunks do not suffice: then all words select.
    monkeypatch.setattr("memsyncd.engine.search.N_CANDIDATES", 20)
    assert len(ask(bench, "redis cache", limit=50).hits) == len(everything)


def test_where_all_words_are_frequent_two_of_them_select(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        words = ["filler", "redis" if number % 2 else "cache"]
        words += ["redis", "cache"] if number in (4, 9) else []
        bench.write(f".memories/{number}.md", " ".join(words))
    bench.sync()
    everything = ask(bench, "redis cache", limit=50).hits
    assert len(everything) == 50
    for name, value in {
        "LARGE_INDEX_CHUNKS": 10,
        "COMMON_SHARE": 1,
        "SELECTING_MATCHES": 5,
        "SELECTING_SHARE": 120,
        "ENOUGH_SELECTED": 2,
    }.items():
        monkeypatch.setattr(f"memsyncd.store.candidates.{name}", value)
    selected = ask(bench, "redis cache", limit=50).hits
    assert [hit.path for hit in selected] == [hit.path for hit in everything[:2]]
    assert all(hit.matched == ["redis", "cache"] for hit in selected)


# --- words that are related, phrases in sentences, other languages ----------------------------------------------------


def test_a_related_word_is_found_marked_and_explained(bench: Any) -> None:
    bench.write(".memories/a.md", "# Power\n\nthe electrician comes on Monday\n")
    bench.write(".memories/b.md", "# Bread\n\nthe baker comes on Tuesday\n")
    bench.write(".memories/c.md", "# Milk\n\nthe milkman comes on Sunday\n")
    bench.sync()
    [hit] = ask(bench, "electrics").hits
    assert hit.path == ".memories/a.md"
    assert hit.snippet == "the **electrician** comes on Monday"
    assert (hit.matched, hit.matched_related) == ([], ["electrics"])
    assert hit.explain["family"] > 0
    assert (hit.explain["stems"], hit.explain["exact"]) == (0.0, 0.0)


def test_a_passage_with_the_word_ranks_before_each_with_a_relative_of_any_length(
    bench: Any,
) -> None:
    filler = "The crew paints the deck, oils the winch and checks the ropes. "
    bench.write(".memories/a.md", "Christmas party in the office.\n")
    bench.write(".memories/i.md", "invalid invalid\n")
    bench.write(".memories/b.md", "# Christmas\n\nChristmas tree.\n\n## Food\n\nChristmas cake.\n")
    for number in range(40):
        bench.write(f".memories/{number}.md", f"{filler * (number % 3)}Note {number}.\n")
    for n_lines in (1, 4, 6, 12, 20):
        bench.write(
            ".memories/c.md",
            f"{filler * n_lines}\nChristina owns billing, invalidating all.\n{filler * n_lines}\n",
        )
        bench.sync()
        for word in ("Christina", "invalidating"):
            hits = ask(bench, word).hits
            assert (hits[0].path, hits[0].matched) == (".memories/c.md", [word]), (word, n_lines)
        assert [(hit.matched, hit.matched_related) for hit in ask(bench, "Christina").hits[1:]] == [
            ([], ["Christina"]),
            ([], ["Christina"]),
        ]


def test_the_day_and_the_time_of_a_stamp_find_it(bench: Any) -> None:
    bench.write(".memories/a.md", "The deploy began at 2026-03-16T10:11:12Z and failed.\n")
    bench.write(
        ".memories/b.md", "The lists of 2026 have 03 parts, 16 pages, 10 rows and 12 notes.\n"
    )
    bench.sync()
    for asked in ("10:11:12", "10:11", "2026-03-16", "2026-03-16T10:11:12Z"):
        first = ask(bench, asked).hits[0]
        assert (first.path, first.matched_related) == (".memories/a.md", []), asked
        assert "**" in first.snippet, asked


def test_a_name_of_code_has_no_relatives(bench: Any) -> None:
    bench.write(".memories/a.md", "We post a letter to the bank each month.\n")
    bench.write(".memories/b.md", "The bank closes at noon.\n")
    bench.sync()
    assert ask(bench, "postgres").relaxed
    assert not ask(bench, "`postgres`").hits


def test_a_word_that_no_note_has_makes_an_answer_relaxed_and_its_score_low(bench: Any) -> None:
    bench.write(".memories/a.md", "We post a letter to the bank each month.\n")
    bench.write(".memories/b.md", "The bank closes at noon.\n")
    bench.sync()
    answer = ask(bench, "postgres")
    assert [(hit.matched_related, hit.score) for hit in answer.hits] == [
        (["postgres"], FAMILY_WEIGHT)
    ]
    assert answer.relaxed
    answer = ask(bench, "postgres letter")
    assert [(hit.matched, hit.matched_related) for hit in answer.hits] == [
        (["letter"], ["postgres"])
    ]
    assert answer.relaxed
    assert answer.hits[0].score == pytest.approx((1 + FAMILY_WEIGHT) / 2)


def test_a_word_beside_the_best_chunk_of_a_passage_is_no_related_one(bench: Any) -> None:
    filler = "The crew paints the deck, oils the winch and checks the ropes again. " * 8
    text = (
        f"# Power\n\nThe electrician, electricity, electrical. {filler}\n\nThe electrics. {filler}"
    )
    bench.fill({".memories/a.md": text, ".memories/c.md": "The baker has a van.\n"})
    [hit] = ask(bench, "electrics").hits
    assert (hit.matched, hit.matched_related) == (["electrics"], [])


def test_any_words_of_a_paragraph_are_found_in_quotes_also_over_the_edge_of_two_chunks(
    bench: Any,
) -> None:
    bench.config = Config()  # the chunks of others do not overlap
    words = [f"w{number:04}" for number in range(1500)]
    lines = [" ".join(words[start : start + 9]) for start in range(0, 750, 9)]
    bench.fill({".memories/a.md": "\n".join(lines) + f"\n\n{' '.join(words[756:])}\n"})
    assert bench.workspace.condition.counts.chunks > 5
    for start in [*range(0, 750, 7), *range(756, 1490, 7)]:
        phrase = " ".join(words[start : start + 6])
        assert ask(bench, f'"{phrase}"').hits, phrase


def test_words_in_a_row_rank_before_the_same_words_apart_and_explain_says_so(bench: Any) -> None:
    filler = "The crew paints the deck, oils the winch and checks the ropes. " * 4
    bench.write(".memories/a.md", f"{filler}\nIf you have a component such as: a rope.\n")
    bench.write(".memories/b.md", "component, component\n")
    for name in "cdefg":
        bench.write(f".memories/{name}.md", f"{filler}\n")
    bench.sync()
    first, second = ask(bench, "if you have a component such as:").hits
    assert (first.path, second.path) == (".memories/a.md", ".memories/b.md")
    assert first.explain["run"] > second.explain["run"] > 0


def test_the_whole_question_in_a_row_ranks_before_all_but_one_of_its_words_and_their_neighbours(
    bench: Any,
) -> None:
    nearest = "An image uses a mark rather than a name, rather than a mark or an image.\n"
    bench.write(".memories/a.md", "\n".join(f"{nearest}\n# Part {n}\n" for n in range(4)))
    bench.write(
        ".memories/b.md",
        f"{'The crew paints the deck, oils the winch and checks the ropes. ' * 12}\n"
        "Begin it with a mark rather than a name.\n",
    )
    for number in range(20):
        bench.write(f".memories/{number}.md", f"Note {number}.\n")
    bench.sync()
    assert ask(bench, "with a mark rather than a name").hits[0].path == ".memories/b.md"


def test_the_common_words_of_a_question_count_in_a_row_beside_its_only_other_word(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So the exact word is read of all that was found.
    monkeypatch.setattr("memsyncd.store.candidates.HOLDING_CHUNKS", 3)
    for number in range(24):
        bench.write(f".memories/{number:02}.md", "One line.\n")
    for number in range(6):
        bench.write(f".memories/lines-{number}.md", "Lines: short lines, long lines.\n")
    filler = "The crew paints the deck and checks the ropes. " * 8
    bench.fill({".memories/z.md": f"{filler}\nIt warns for lines that are too long.\n"})
    assert ask(bench, "for lines that are too").hits[0].path == ".memories/z.md"


def test_a_phrase_ranks_passages_that_hold_it_before_those_beneath_its_path_or_heading(
    bench: Any,
) -> None:
    filler = "The crew paints the deck, oils the winch and checks the ropes. " * 9
    sections = "".join(f"\n## Part {name}\n\nWords {name}.\n" for name in "abcdef")
    bench.write(".memories/guide/extras/render.md", f"# Drawing\n{sections}")
    bench.write(".memories/b.md", f"{filler}\nSee guide/extras/render for more.\n")
    bench.write(".memories/c.md", f"# Slow start\n{sections}")
    bench.write(".memories/d.md", f"{filler}\nThis is a slow start.\n")
    bench.sync()
    assert ask(bench, '"guide/extras/render"').hits[0].path == ".memories/b.md"
    assert {hit.path for hit in ask(bench, '"slow start"').hits[:2]} == {
        ".memories/c.md",
        ".memories/d.md",
    }


def test_the_whole_name_of_an_option_ranks_before_a_longer_one_and_explain_says_so(
    bench: Any,
) -> None:
    bench.write(".memories/a.md", "the mirror needs `--no-build-isolation` here\n")
    bench.write(".memories/b.md", "the mirror needs a long pause and `--no-build` here\n")
    bench.write(".memories/c.md", "the baker comes on Tuesday\n")
    bench.sync()
    first, second = ask(bench, "mirror `--no-build`").hits
    assert (first.path, second.path) == (".memories/b.md", ".memories/a.md")
    # The words in a row, which both have, gain nothing by it.
    assert 1.0 < first.explain["identifier"] < 1 + IDENTIFIER_WEIGHT
    assert "identifier" not in second.explain
    block = build_block(bench.workspace, "mirror `--no-build`", max_tokens=300)
    assert next(part.path for part in block.included) == ".memories/b.md"


def test_a_related_word_passes_the_filters_as_any_other(bench: Any) -> None:
    for number in range(3):
        kind = "error" if number else "decision"
        bench.write(f".memories/{number}.md", f"---\nkind: {kind}\n---\nelectrician {number}\n")
    bench.fill({".memories/old.md": "---\nstatus: archived\n---\nelectrician\n"})
    assert [hit.path for hit in ask(bench, "electrics kind:error").hits] == [
        ".memories/1.md",
        ".memories/2.md",
    ]
    assert [hit.path for hit in ask(bench, "electrics -1").hits] == [
        ".memories/0.md",
        ".memories/2.md",
    ]
    assert [hit.path for hit in ask(bench, "electrics path:.memories/old.md is:archived").hits] == [
        ".memories/old.md"
    ]
    assert ask(bench, '"electrics"').hits == []


def test_hits_with_a_quoted_phrase_come_first_and_others_follow(filled: Any) -> None:
    answer = ask(filled, 'why is there a "redis timeout" on a cold disk?')
    assert [hit.path for hit in answer.hits] == [".memories/errors.md", "MEMORY.md"]
    assert "redis timeout" in answer.hits[0].matched
    assert [hit.score for hit in answer.hits] == sorted(
        [hit.score for hit in answer.hits], reverse=True
    )


def test_a_word_is_found_as_people_write_it_otherwise_and_shown_as_the_note_has_it(
    bench: Any,
) -> None:
    for note, query, snippet in (
        ("使用Redis缓存用户会话", "redis", "使用**Redis**缓存用户会话"),
        ("エラー500が出た", "500", "エラー**500**が出た"),
        ("API를 호출", "API", "**API**를 호출"),
        ("ＡＰＩ一覧", "api", "**ＡＰＩ**一覧"),
        ("an api", "ＡＰＩ", "an **api**"),
        ("ﾃｽﾄ環境", "テスト", "**ﾃｽﾄ**環境"),
        ("the oﬃcial format", "official", "the **oﬃcial** format"),
        ("Søren asks", "soren", "**Søren** asks"),
        ("moved to v22.4.0", "22.4.0", "moved to v**22.4.0**"),
        ("moved to 22.4.0", "v22.4.0", "moved to **22.4.0**"),
        ("a re-index", "reindex", "a **re-index**"),
        ("reindex it", "re-index", "**reindex** it"),
        ("12,480 rows", "12480", "**12,480** rows"),
        ("set `MAX_RETRY_COUNT`", "maxRetryCount", "set `**MAX_RETRY_COUNT**`"),
        ("set `maxRetryCount`", "max_retry_count", "set `**maxRetryCount**`"),
        ("built as C++20", "c++", "built as **C++**20"),
        ("call getUserName first", "name", "call getUser**Name** first"),
        ("written in C++ mostly", "c++", "written in **C++** mostly"),
        ("設計は日本語で書く", "日本語", "設計は**日本語**で書く"),
        ("設計は日本語で書く", "語", "設計は日本**語で**書く"),
        ("Brot von Müller", "Mueller", "Brot von **Müller**"),
        ("Kaese von Mueller", "Müller", "Kaese von **Mueller**"),
        ("Hauptstraße", "hauptstrasse", "**Hauptstraße**"),
        ("Hauptstrasse", "Hauptstraße", "**Hauptstrasse**"),
        ("Платёж прошёл", "ПЛАТЕЖ", "**Платёж** прошёл"),
        ("Платеж прошел", "плате\u0308ж", "**Платеж** прошел"),
    ):
        bench.fill({".memories/a.md": f"{note}\n"})
        hits = [(hit.snippet, hit.matched) for hit in ask(bench, query).hits]
        assert hits == [(snippet, [query])]


def test_a_note_is_found_by_the_joined_words_of_its_name(bench: Any) -> None:
    bench.fill({".memories/pre-commit.md": "Runs ruff.\n"})
    for query in ("pre-commit", "precommit"):
        hits = ask(bench, query).hits
        assert [(hit.path, hit.matched) for hit in hits] == [(".memories/pre-commit.md", [query])]


def test_each_section_is_found_by_the_title_that_front_matter_states(bench: Any) -> None:
    text = "---\ntitle: Idempotency keys\n---\n## Why\n\nStripe repeats.\n\n## Cleanup\n\nEach night.\n"
    bench.fill({".memories/202602031530.md": text, ".memories/other.md": "# Cleanup\n\nof keys\n"})
    [best, *_] = ask(bench, "idempotency cleanup").hits
    assert (best.anchor, best.snippet) == (
        ".memories/202602031530.md#cleanup",
        "Each night.",
    )
    assert best.matched == ["idempotency", "cleanup"]


def test_a_passage_shows_what_says_more_than_a_heading(bench: Any) -> None:
    bench.write(".memories/redis.md", "# Redis\n\n## Eviction\n\nQueues need noeviction.\n")
    bench.write(".memories/empty.md", "# Redis\n")
    bench.sync()
    assert {(hit.anchor, hit.snippet) for hit in ask(bench, "redis").hits} == {
        (".memories/redis.md#redis/eviction", "Queues need noeviction."),
        (".memories/empty.md#redis", "# **Redis**"),
    }


# --- sections of one hit ----------------------------------------------------------------------------------------------

POOLS = """# Errors

## Acme
<!-- memory: {kind: error, importance: 0.9, source: acme} -->

redis lost its sockets

## Globex
<!-- memory: {kind: error, importance: 0.3, source: globex} -->

redis lost its sockets

## Initech
<!-- memory: {kind: decision, importance: 0.1, source: initech} -->

redis lost its sockets
"""
PLAIN = (
    "# Zoo\n\n## One\n\na wombat digs\n\n## Two\n\na wombat eats\n\n## Three\n\na wombat sleeps\n"
)


def test_neighbours_with_metadata_of_their_own_are_a_hit_each(bench: Any) -> None:
    bench.config = Config()
    bench.fill({".memories/errors.md": POOLS})
    hits = ask(bench, "redis sockets").hits
    assert {hit.heading[-1]: (hit.kind, hit.importance, hit.source) for hit in hits} == {
        "Acme": ("error", 0.9, "acme"),
        "Globex": ("error", 0.3, "globex"),
        "Initech": ("decision", 0.1, "initech"),
    }
    assert [hit.heading[-1] for hit in ask(bench, "kind:error").hits] == ["Acme", "Globex"]
    by_importance = ask(bench, "redis", sort="importance", limit=2).hits
    assert [hit.heading[-1] for hit in by_importance] == ["Acme", "Globex"]


def test_as_many_hits_are_found_as_memories_of_one_second_match(bench: Any) -> None:
    meta = "<!-- memory: {kind: decision, created: '2026-11-28T03:00:00Z'} -->"
    parts = [f"## Part {number}\n{meta}\n\nredis has {number}\n" for number in range(6)]
    bench.fill({".memories/decisions.md": "# Decisions\n\n" + "\n".join(parts)})
    assert len(ask(bench, "redis", limit=5).hits) == 5


def test_a_hit_of_several_sections_names_each(bench: Any) -> None:
    bench.fill({".memories/zoo.md": PLAIN})
    [hit] = ask(bench, "wombat").hits
    assert (hit.start_line, hit.end_line) == (3, 13)
    assert [
        (section.heading[-1], section.start_line, section.end_line) for section in hit.sections
    ] == [
        ("One", 3, 5),
        ("Two", 7, 9),
        ("Three", 11, 13),
    ]
    assert [section.anchor for section in hit.sections] == [
        f".memories/zoo.md#zoo/{name}" for name in ("one", "two", "three")
    ]


def test_an_order_or_a_filter_by_metadata_joins_no_sections(bench: Any) -> None:
    bench.fill({".memories/zoo.md": PLAIN})
    for more in ({"sort": "importance"}, {"filters": Filters(after="2001")}):
        hits = ask(bench, "wombat", **more).hits
        assert sorted(hit.heading[-1] for hit in hits) == ["One", "Three", "Two"], more
        assert all(hit.sections == [] for hit in hits), more


def test_front_matter_is_no_hit_beside_the_section_below_it(bench: Any) -> None:
    bench.config = Config()
    bench.fill({".memories/pool.md": "---\nkind: error\nowner: infra\n---\n## Pool\n\nIt leaks.\n"})
    for query in ("kind:error", "pool kind:error", "pool meta:owner=infra"):
        [hit] = ask(bench, query).hits
        assert (hit.start_line, hit.end_line) == (5, 7)


# --- importance and age -----------------------------------------------------------------------------------------------

DAY_S = 86_400
SAVED_S = 1_700_000_000


@pytest.fixture
def alike(bench: Any) -> Any:
    """Three notes that match alike, saved ten days apart, the oldest first by path."""
    notes = {
        "a.md": "---\nimportance: 0.9\ncreated: 2023-11-14\n---\nthe cache is redis one\n",
        "b.md": "---\nimportance: 0.1\ncreated: 2020-01-01\n---\nthe cache is redis two\n",
        "c.md": "---\nimportance: 0.5\ncreated: 2023-11-01\n---\nthe cache is redis six\n",
    }
    for number, (name, text) in enumerate(notes.items()):
        saved_s = SAVED_S - (2 - number) * 10 * DAY_S
        os.utime(bench.write(f".memories/{name}", text), (saved_s, saved_s))
    bench.sync()
    return bench


def test_importance_and_age_change_the_order_if_enabled(alike: Any) -> None:
    for boosts, order in (
        (SearchConfig(), "abc"),
        (SearchConfig(importance=0.1), "acb"),
        (SearchConfig(recency=0.1), "cba"),
        (SearchConfig(decay=0.1), "acb"),
    ):
        config = Config(search=boosts)
        hits = search_in([alike.workspace], "cache redis", config, now_s=SAVED_S).hits
        assert "".join(hit.path[len(".memories/")] for hit in hits) == order, boosts
        names = {name for name in ("importance", "recency", "decay") if getattr(boosts, name)}
        assert all(
            names == set(hit.explain) & {"importance", "recency", "decay"} for hit in hits
        ), boosts
        included = build_block(
            alike.workspace, "cache redis", config, max_tokens=500, now_s=SAVED_S
        ).included
        visible = dict.fromkeys(part.path[len(".memories/")] for part in included)
        assert "".join(visible) == order, boosts


def test_a_comparison_of_a_key_that_a_note_has_is_a_filter_and_others_are_words(bench: Any) -> None:
    bench.write(".memories/good.md", "---\nrating: 9\n---\nzebra\n")
    bench.write(".memories/bad.md", "---\nrating: 2\n---\nzebra wants python>=3.11\n")
    bench.sync()

    def find(query: str) -> set[str]:
        return {hit.path for hit in search_in([bench.workspace], query).hits}

    assert find("zebra Rating>=7") == {".memories/good.md"}
    assert find("rating<7") == {".memories/bad.md"}
    assert find("python>=3.11") == {".memories/bad.md"}
