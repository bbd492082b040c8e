from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsyncd.operations.search.declare import SearchAnswer
from memsyncd.operations.sections import Filters
from tests.engine.conftest import search_in


def ask(bench: Any, query: str, **more: Any) -> SearchAnswer:
    return search_in([bench.workspace], query, **more)


def why(bench: Any, query: str, **more: Any) -> str:
    answer = ask(bench, query, **more)
    assert not answer.hits
    assert answer.why_empty
    return answer.why_empty


def settle(bench: Any) -> None:
    """Update the condition of the workspace as a daemon would."""
    workspace = bench.workspace
    workspace.condition = workspace.condition.__class__(
        is_indexing=False, counts=workspace.index.counts
    )


@pytest.fixture
def filled(bench: Any) -> Any:
    bench.fill(
        {
            "MEMORY.md": "# Cache\nredis is hot\n\n# Disk\nthe disk is cold and the connection closed\n",
            ".memories/errors.md": "---\nkind: error\ntags: [ops]\n---\n# Timeouts\nredis timeout after a cold start\n",
            ".memories/2024-05-07.md": "# Kubernetes\nthe authentication of kubernetes\n",
            ".memories/old.md": "---\nstatus: archived\n---\n# Old\nthe kraken sleeps\n",
        }
    )
    settle(bench)
    return bench


# --- words that stand nowhere -----------------------------------------------------------------------------------------


IN_VAIN = [
    ("nowhere", "no note contains the word nowhere"),
    ("nowhere zebra", "no note contains any of these words: nowhere, zebra"),
    ('"start redis"', 'no note contains "start redis", in this order'),
    ('"zebra redis" zebra', 'no note contains "zebra redis", in this order'),
    (
        '"redis timeout" "is cold"',
        'no passage contains all of "redis timeout", "is cold", though each occurs somewhere',
    ),
    ("disk -cold", "1 passage matches, and -cold leaves none"),
    ("redis -hot -timeout", "2 passages match, and -hot -timeout leaves none"),
    ('"zebra a" "zebra b"', 'no note contains any of these: "zebra a", "zebra b", in this order'),
    ("zeb*", "no note contains zeb*"),
    (
        "zza zzb zzc zzd zze zzf zzg zzh zzi zzj",
        "no note contains any of these words: zza, zzb, zzc, zzd, zze, zzf, zzg, zzh, 2 more",
    ),
    ("x" * 90, f"no note contains the word {'x' * 48}…"),
    ("", "the query has no word to search for"),
    ("-redis", "the query has no word to search for, only words to leave out"),
    ("kind:none tag:ops", "nothing that is indexed passes kind:none and tag:ops"),
    ("kind:errors", "nothing that is indexed passes kind:errors; similar: error"),
    ("tag:opss", "nothing that is indexed passes tag:opss; similar: ops"),
    ("path:old", "nothing that is indexed passes path:old; similar: .memories/old.md"),
    ("path:olt.md", "nothing that is indexed passes path:olt.md; similar: .memories/old.md"),
    ("path:zebra/**", "nothing that is indexed passes path:zebra/**"),
    ("redis path:old", "2 passages match, and path:old leaves none; similar: .memories/old.md"),
    ("kind:error -ops", "the query has no word to search for, only words to leave out"),
]


def test_an_empty_answer_names_absent_words(filled: Any) -> None:
    assert [(query, why(filled, query)) for query, _ in IN_VAIN] == IN_VAIN


NEAR = [
    ("conection", "connection", "connection"),
    ("Kubrenetes", "kubernetes", "kubernetes"),
    ("edis", "redis", "redis"),
    ("kubrenetes conection", "kubernetes, connection", "kubernetes connection"),
    ("what about the conection, though?", "connection", "what about the connection, though?"),
    ('"rediss timeout" zebra', "redis", '"redis timeout" zebra'),
    ("kubrenetes -redis", "kubernetes", "kubernetes -redis"),
]


def test_similar_words_are_named_and_the_query_is_corrected(filled: Any) -> None:
    results = [(query, ask(filled, query)) for query, _, _ in NEAR]
    reported = [
        (
            query,
            str(result.why_empty).partition("; similar words in notes: ")[2],
            result.did_you_mean,
        )
        for query, result in results
    ]
    assert reported == NEAR
    assert not [meant for _, _, meant in NEAR if not ask(filled, meant).hits]


def test_a_query_is_suggested_only_if_it_has_hits_under_the_same_filters(
    filled: Any,
) -> None:
    assert ask(filled, "timeuot", filters=Filters(kind=["error"])).did_you_mean == "timeout"
    assert ask(filled, "timeuot", filters=Filters(kind=["decision"])).did_you_mean is None
    assert ask(filled, "kubrenetes kind:error").did_you_mean is None
    assert ask(filled, "timeuot kind:error").did_you_mean == "timeout kind:error"


def test_an_answer_with_hits_suggests_nothing(filled: Any) -> None:
    answer = ask(filled, "redis conection")
    assert answer.hits
    assert (answer.why_empty, answer.did_you_mean) == (None, None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet='redisconnhtu "-*:_1日é', max_size=30))
def test_any_query_has_hits_or_a_reason_and_a_suggestion_has_hits(filled: Any, query: str) -> None:
    answer = ask(filled, query)
    assert bool(answer.hits) == (answer.why_empty is None)
    if answer.did_you_mean is not None:
        assert ask(filled, answer.did_you_mean).hits


# --- filters that leave nothing ---------------------------------------------------------------------------------------


FILTERED_OUT = [
    (
        "timeout",
        {"kind": ["decision"]},
        "1 passage matches, and kind:decision leaves none; what matches has the kind error",
    ),
    (
        "disk",
        {"kind": ["a", "b"]},
        "1 passage matches, and kind:a or b leaves none; what matches has no kind",
    ),
    (
        "timeout",
        {"tag": ["x"]},
        "1 passage matches, and tag:x leaves none; what matches has the tag ops",
    ),
    (
        "timeout",
        {"tag": ["#osp"]},
        "1 passage matches, and tag:#osp leaves none; what matches has the tag ops; similar: ops",
    ),
    (
        "disk",
        {"kind": ["Erorr", "error"]},
        "1 passage matches, and kind:Erorr or error leaves none; what matches has no kind; similar: error",
    ),
    (
        "disk",
        {"kind": ["error"]},
        "1 passage matches, and kind:error leaves none; what matches has no kind",
    ),
    ("timeout", {"path": ["MEMORY.md"]}, "1 passage matches, and path:MEMORY.md leaves none"),
    (
        "timeout",
        {"path": ["/a.md"]},
        "1 passage matches, and path:/a.md leaves none; a path begins at the workspace's root, as docs/plan.md",
    ),
    (
        "redis",
        {"kind": ["error"], "path": ["MEMORY.md"]},
        "2 passages match: kind:error leaves 1, path:MEMORY.md leaves 1, together none",
    ),
    (
        "redis",
        {"tag": ["nope"], "path": ["MEMORY.md"]},
        "2 passages match: tag:nope leaves none, path:MEMORY.md leaves 1; what matches has the tag ops",
    ),
    ("timeout -tag:ops", {}, "1 passage matches, and -tag:ops leaves none"),
    (
        "kraken",
        {},
        "1 passage matches, in archived sections only: ask with is:archived to see them",
    ),
    ("redis", {"archived": True}, "2 passages match, and is:archived leaves none"),
    (
        "kraken path:.memories/old.md",
        {},
        "1 passage matches, and what passes path:.memories/old.md is in archived sections only: ask with is:archived to see them",
    ),
]


HIDDEN = [
    ("milk is:archived", "in expired sections only: ask with is:expired to see them"),
    ("milk is:expired", "in archived sections only: ask with is:archived to see them"),
    ("milk tag:dairy", "in expired sections only: ask with is:expired is:archived to see them"),
    ("is:archived tag:dairy", "in expired sections only: ask with is:expired to see them"),
    ("tag:dairy", "in expired sections only: ask with is:expired is:archived to see them"),
]


def test_what_filters_leave_in_hidden_sections_is_named(bench: Any) -> None:
    bench.write("MEMORY.md", "# Disk\nthe disk is cold\n")
    bench.write(
        ".memories/old.md",
        "---\nstatus: archived\nexpires: 2020-01-01\ntags: [dairy]\n---\nsour milk\n",
    )
    bench.sync()
    settle(bench)
    now_s = 1_800_000_000.0
    for query, reason in HIDDEN:
        results = why(bench, query, now_s=now_s)
        assert results.endswith(reason), (query, results)
        added = " ".join(word for word in ("is:expired", "is:archived") if word in reason)
        assert ask(bench, f"{query} {added}", now_s=now_s).hits


def test_filters_that_leave_nothing_are_named_with_existing_values(filled: Any) -> None:
    reported = [
        (query, filters, why(filled, query, filters=Filters(**filters)))
        for query, filters, _ in FILTERED_OUT
    ]
    assert reported == FILTERED_OUT


def test_date_filters_that_leave_nothing_explain_dates(filled: Any) -> None:
    assert "after:2025-01-01 leaves none; the date of a section is" in why(
        filled, "kubernetes", filters=Filters(after="2025-01-01")
    )


def test_filters_in_the_query_and_as_parameters_are_explained_alike(filled: Any) -> None:
    reason = why(filled, "redis kind:error", filters=Filters(path=["MEMORY.md"]))
    assert "kind:error leaves 1" in reason
    assert "path:MEMORY.md leaves 1" in reason


# --- nothing to look in, and not everything read ----------------------------------------------------------------------


def test_a_match_deleted_just_now_is_reported_as_deleted(filled: Any) -> None:
    absent = frozenset({("project-1", ".memories/errors.md")})
    assert "deleted just now" in why(filled, "timeout", absent=absent)
    assert why(filled, "nowhere", absent=absent) == "no note contains the word nowhere"


def test_an_empty_index_reports_whether_it_is_still_being_built(bench: Any) -> None:
    assert "still being made" in why(bench, "redis")
    settle(bench)
    assert "no note is indexed yet" in why(bench, "redis")
    bench.root.rename(bench.root.with_name("away"))
    bench.sync()
    assert "missing" in why(bench, "redis")


def test_unread_notes_are_counted(filled: Any) -> None:
    workspace = filled.workspace
    workspace.condition = workspace.condition.__class__(
        is_indexing=False, counts=workspace.index.counts, pending=3
    )
    assert why(filled, "nowhere") == "no note contains the word nowhere; 3 are still to be read"


def test_notes_that_are_not_indexed_are_named(filled: Any) -> None:
    (filled.root / ".memories" / "log.md").write_text("nowhere\n" * 300_000)
    filled.sync()
    text = "no note contains the word nowhere; .memories/log.md: it is over max_file_bytes"
    assert why(filled, "nowhere").startswith(text)
    (filled.root / ".memories" / "more.md").write_text("nowhere\n" * 300_000)
    filled.sync()
    assert why(filled, "nowhere").endswith("; 1 more: memsyncd problems")


def test_each_of_several_workspaces_has_its_own_reason(filled: Any, make_bench: Any) -> None:
    other = make_bench("other")
    other.open()
    other.fill({"MEMORY.md": "---\nkind: note\n---\nunlike redis\n"})
    settle(other)
    both = [filled.workspace, other.workspace]
    answer = search_in(both, "redis kind:zzz")
    assert answer.why_empty == (
        "in project: 2 passages match, and kind:zzz leaves none; what matches has the kind error"
        "; in other: 1 passage matches, and kind:zzz leaves none; what matches has the kind note"
    )
    assert search_in(both, "nowhere").why_empty == "no note contains the word nowhere"
    assert search_in(both, "unlkie").did_you_mean == "unlike"


def test_values_and_keys_of_properties_that_nothing_has_name_similar_ones(filled: Any) -> None:
    film = '---\ndirector: ["[[Ridley Scott]]"]\nrating: 7\n---\nzebras\n'
    filled.fill({".memories/film.md": film})
    for query, similar in (
        ('meta:director="Ridly Scott"', 'meta:director="Ridley Scott"'),
        ('zebras meta:Director="ridly scott"', 'meta:Director="Ridley Scott"'),
        ("meta:directr=x", "meta:director=x"),
        ("meta:ratin>=7", "meta:rating>=7"),
        ("has:ratin", "has:rating"),
        ("related_to:errrors", ".memories/errors.md"),
        ("zebras related_to:resolved_by=errrors", ".memories/errors.md"),
        ("meta:director=Kubrick", ""),
        ("meta:rating>=8", ""),
    ):
        assert why(filled, query).partition("; similar: ")[2] == similar


def test_a_note_of_a_relation_that_is_not_there_is_named(filled: Any) -> None:
    said = "; there is no note quagga"
    assert why(filled, "related_to:quagga").endswith(said)
    assert why(filled, "redis related_to:resolved_by=quagga").endswith(said)
    assert "there is no note" not in why(filled, "redis related_to:MEMORY")
