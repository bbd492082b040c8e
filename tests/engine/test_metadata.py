"""The metadata of notes and sections is returned by search, get, list and context."""

from __future__ import annotations

import math
import os
from datetime import datetime
from typing import Any

import msgspec
import pytest

from memsyncd.core.editing.kinds import DEFAULT_KINDS
from memsyncd.engine.metadata import advise_unknown_kind, find_similar_kind
from memsyncd.errors import BadRequest
from memsyncd.operations.notes.declare import GetParams, ListParams
from memsyncd.operations.notes.read import list_notes, read_place
from memsyncd.operations.sections import Filters, SectionMeta, Sort
from memsyncd.operations.stats.declare import StatsParams
from memsyncd.operations.stats.run import compute_stats
from tests.engine.conftest import SEARCH_POLICY, build_block, search_in

NOTE = """---
title: Pool
kind: decision
tags: [ops]
task: WU-7
session: s-1
source: review
priority: P1
lifecycle: task
created: 2026-03-01
updated: 2026-04-02
expires: 2026-12-31
status: in-progress
reviewers: [ann, bo]
Owner: infra
---
# Pool

Thirty connections.

## Sizes
<!-- memory: {importance: 0.9, kind: error, Owner: me, colour: blue, created: 2026-05-06, status: active} -->

Each one takes 10 MB.
"""
OF_NOTE = {
    "kind": "decision", "tags": ["ops"], "importance": 0.7, "is_importance_stated": False,
    "priority": "P1", "lifecycle": "task", "task": "WU-7", "session": "s-1", "source": "review",
    "created": "2026-03-01", "updated": "2026-04-02", "expires": "2026-12-31", "is_expired": False,
    "status": "in-progress", "day": "2026-03-01", "is_day_of_file": False, "is_day_of_name": False,
    "meta": {"title": "Pool", "reviewers": "ann, bo", "Owner": "infra"},
}  # fmt: skip
OF_SECTION = {
    **OF_NOTE, "kind": "error", "importance": 0.9, "is_importance_stated": True,
    "created": "2026-05-06", "status": "active", "day": "2026-05-06",
    "meta": {"title": "Pool", "reviewers": "ann, bo", "Owner": "me", "colour": "blue"},
}  # fmt: skip
NOW_S = datetime.fromisoformat("2026-11-20T12:00").timestamp()
SECTION = "MEMORY.md#pool/sizes"


@pytest.fixture
def filled(bench: Any) -> Any:
    bench.fill({"MEMORY.md": NOTE})
    return bench


def read_meta(one: SectionMeta) -> dict[str, Any]:
    return {name: getattr(one, name) for name in SectionMeta.__struct_fields__}


def get(bench: Any, **place: Any) -> dict[str, Any]:
    read, _ = read_place(bench.workspace, GetParams(**place), now_ns=int(NOW_S * 1e9))
    return read_meta(read)


def test_every_answer_has_the_metadata_of_a_section_over_that_of_its_note(filled: Any) -> None:
    [hit] = search_in([filled.workspace], "thirty", now_s=NOW_S).hits
    assert read_meta(hit) == OF_NOTE
    [hit] = search_in([filled.workspace], "takes", now_s=NOW_S).hits
    assert read_meta(hit) == OF_SECTION
    assert get(filled, anchor=SECTION) == OF_SECTION
    assert get(filled, path="MEMORY.md", start_line=21) == OF_SECTION
    assert get(filled, path="MEMORY.md") == OF_NOTE
    [note] = list_notes(filled.workspace, SEARCH_POLICY, ListParams(), now_s=NOW_S).notes
    assert [read_meta(section) for section in note.sections] == [OF_NOTE, OF_NOTE, OF_SECTION]
    built = build_block(filled.workspace, "takes", now_s=NOW_S)
    assert [read_meta(piece) for piece in built.included] == [OF_SECTION]
    assert msgspec.json.decode(msgspec.json.encode(built.included[0]))["meta"] == OF_SECTION["meta"]


def test_importance_is_that_of_the_kind_where_none_is_stated(bench: Any) -> None:
    for kind, defaults in DEFAULT_KINDS.items():
        bench.fill({f".memories/{kind}.md": f"---\nkind: {kind.upper()}\n---\nword{kind}\n"})
        [hit] = search_in([bench.workspace], f"word{kind} path:.memories/{kind}.md").hits
        assert (hit.importance, hit.is_importance_stated) == (defaults.importance, False)
    bench.fill({"MEMORY.md": "plain\n"})
    [hit] = search_in([bench.workspace], "plain").hits
    assert (hit.kind, hit.importance, hit.is_importance_stated) == (None, 0.5, False)


def test_a_note_without_a_date_has_the_day_of_saving_and_says_so(bench: Any) -> None:
    saved_s = datetime.fromisoformat("2025-06-07T08:09").timestamp()
    os.utime(bench.write("MEMORY.md", "plain\n"), (saved_s, saved_s))
    os.utime(bench.write(".memories/2024-01-02.md", "plain\n"), (saved_s, saved_s))
    bench.sync()
    os.utime(
        bench.write(".memories/b.md", "---\ndate: 2024-01-03\n---\nplain\n"), (saved_s, saved_s)
    )
    bench.sync()
    assert {
        hit.path: (hit.day, hit.is_day_of_file, hit.is_day_of_name)
        for hit in search_in([bench.workspace], "plain").hits
    } == {
        "MEMORY.md": ("2025-06-07", True, False),
        ".memories/2024-01-02.md": ("2024-01-02", False, True),
        ".memories/b.md": ("2024-01-03", False, False),
    }


def test_fields_in_prose_and_aliases_are_metadata_that_is_found(bench: Any) -> None:
    bench.fill(
        {
            "MEMORY.md": "---\naliases: [Zanzibar]\n---\n# A\nowner:: ann\n\n# B\ntext [by:: bo]\n",
            ".memories/log.md": "alias:: Timbuktu\nowner:: cy\ntags:: [[red]], blue\n\n- text\n",
        }
    )

    def find(query: str) -> set[str]:
        return {hit.anchor for hit in search_in([bench.workspace], query).hits}

    assert find("meta:owner=ann") == {"MEMORY.md#a"}
    assert find("meta:by=bo") == {"MEMORY.md#b"}
    assert find("meta:owner=cy tag:blue tag:red") == {".memories/log.md#"}
    assert find("zanzibar section:B") == {"MEMORY.md#b"}
    assert find("timbuktu") == {".memories/log.md#"}


def test_marks_for_programs_are_no_words(bench: Any) -> None:
    text = "> [!warning]- Hot\n> stove ^blk-7\n\n- see ((0b0c7a3e-1111-2222-3333-444455556666))\n"
    bench.fill({"MEMORY.md": text})
    for word, is_found in (
        ("stove", True),
        ("hot", True),
        ("warning", False),
        ("blk", False),
        ("0b0c7a3e", False),
    ):
        assert bool(search_in([bench.workspace], word).hits) is is_found, word


def test_metadata_follows_an_edit_of_the_front_matter_and_of_a_comment(filled: Any) -> None:
    filled.fill({"MEMORY.md": NOTE.replace("infra", "data").replace("colour: blue, ", "")})
    assert get(filled, anchor="MEMORY.md#pool")["meta"]["Owner"] == "data"
    own = {"title": "Pool", "reviewers": "ann, bo", "Owner": "me"}
    assert get(filled, anchor=SECTION)["meta"] == own
    filled.fill({"MEMORY.md": NOTE.partition("---\n# Pool")[2]})
    assert get(filled, path="MEMORY.md")["meta"] == {}


def test_secrets_in_metadata_are_redacted_where_it_is_shown(bench: Any) -> None:
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    bench.fill(
        {"MEMORY.md": f"---\nsource: {token}\npassword: Hunter2!x9Qz\nbuild: {token}\n---\nplain\n"}
    )
    [hit] = search_in([bench.workspace], "plain").hits
    [note] = list_notes(bench.workspace, SEARCH_POLICY, ListParams()).notes
    built = build_block(bench.workspace, "plain")
    for answer in (hit, note, built.included[0]):
        text = msgspec.json.encode(answer).decode()
        assert token not in text
        assert "Hunter2" not in text


def test_a_long_value_is_cut(bench: Any) -> None:
    bench.fill({"MEMORY.md": f"---\nlog: {'x' * 50_000}\n---\nplain\n"})
    assert get(bench, path="MEMORY.md")["meta"] == {"log": "x" * 1000}


# --- filters --------------------------------------------------------------------------------------

OTHERS = {
    "plain.md": "the pool\n",
    "low.md": "---\nkind: session\n---\nthe pool\n",
    "old.md": "---\nstatus: archived\n---\nthe pool\n",
    "day.md": "---\nexpires: 2026-11-20\n---\nthe pool\n",
    "tomorrow.md": "---\nexpires: 2026-11-21\n---\nthe pool\n",
    "zone.md": "---\nexpires: 1999-01-01T00:00+01:00\nstatus: archived\n---\nthe pool\n",
    "list.md": "---\nOwner: [infra, data]\npriority: P0\nsession: s-é\n---\nthe pool\n",
}
LIVE = {"MEMORY.md", "plain.md", "low.md", "tomorrow.md", "list.md"}
FILTERED = [
    ("pool", LIVE),
    ("pool is:archived", {"old.md"}),
    ("pool is:expired", {"day.md"}),
    ("pool is:expired is:archived", {"zone.md"}),
    ("pool status:archived", {"old.md"}),
    ("pool status:In-Progress", {"MEMORY.md"}),
    ("pool priority:p1", {"MEMORY.md"}),
    ("pool priority:P0 priority:P1", {"MEMORY.md", "list.md"}),
    ("pool -priority:P0", LIVE - {"list.md"}),
    ("pool lifecycle:TASK source:review session:S-1", {"MEMORY.md"}),
    ("pool session:s-É", {"list.md"}),
    ("pool meta:owner=INFRA", {"MEMORY.md", "list.md"}),
    ("pool meta:owner=data", {"list.md"}),
    ("pool meta:owner=dat", set()),
    ("takes meta:owner=infra", set()),
    ("takes meta:owner=me meta:owner=you", {"MEMORY.md"}),
    ("pool importance:0.5", {"MEMORY.md", "plain.md", "tomorrow.md", "list.md"}),
    ("pool importance:0.7", {"MEMORY.md"}),
    ("thirty importance:0.71", set()),
    ("takes importance:.9", {"MEMORY.md"}),
    ("importance:0.9", {"MEMORY.md"}),
    ("source:review", {"MEMORY.md"}),
    ("is:expired", {"day.md"}),
]


@pytest.fixture
def many(filled: Any) -> Any:
    for name, text in OTHERS.items():
        filled.write(f".memories/{name}", text)
    filled.sync()
    return filled


def find(bench: Any, query: str, **filters: Any) -> set[str]:
    answer = search_in([bench.workspace], query, filters=Filters(**filters), now_s=NOW_S)
    return {hit.path.rpartition("/")[2] for hit in answer.hits}


def test_metadata_selects_sections_and_expired_ones_are_left_out(many: Any) -> None:
    assert [(query, find(many, query)) for query, _ in FILTERED] == FILTERED


def test_archived_and_expired_sections_are_included_on_request(many: Any) -> None:
    assert find(many, "pool", include_archived=True) == LIVE | {"old.md"}
    assert find(many, "pool", include_expired=True) == LIVE | {"day.md"}
    everything = {"MEMORY.md", *OTHERS}
    assert find(many, "pool", include_archived=True, include_expired=True) == everything
    assert find(many, "pool", include_expired=True, kind=["decision"]) == {"MEMORY.md"}


def test_a_section_expires_at_its_time(bench: Any) -> None:
    bench.write("MEMORY.md", "---\nexpires: 2026-11-20T12:00:01\n---\nthe pool\n")
    bench.write(".memories/utc.md", "---\nexpires: 2026-11-20T12:00:01Z\n---\nthe pool\n")
    bench.sync()
    utc_s = datetime.fromisoformat("2026-11-20T12:00:01+00:00").timestamp()
    for at_s, path in ((NOW_S + 1, "MEMORY.md"), (utc_s, "utc.md")):
        for passed_s, is_found in ((-1, True), (0, False)):
            answer = search_in([bench.workspace], f"pool path:{path}", now_s=at_s + passed_s)
            assert bool(answer.hits) == is_found
    assert build_block(bench.workspace, now_s=utc_s - 86_400).text
    assert not build_block(bench.workspace, now_s=max(utc_s, NOW_S) + 1).text


def test_an_answer_without_hits_says_that_what_matches_has_expired(bench: Any) -> None:
    bench.fill({"MEMORY.md": OTHERS["day.md"]})
    answer = search_in([bench.workspace], "pool", now_s=NOW_S)
    assert "is:expired" in (answer.why_empty or "")
    bench.fill({"MEMORY.md": OTHERS["zone.md"]})
    answer = search_in([bench.workspace], "pool", now_s=NOW_S)
    assert "is:expired is:archived" in (answer.why_empty or "")
    answer = search_in([bench.workspace], "pool source:x", now_s=NOW_S)
    assert "source:x leaves none" in (answer.why_empty or "")


def test_a_mistyped_kind_has_a_similar_one() -> None:
    for kind, similar in (
        ("desicion", "decision"),
        ("decisions", "decision"),
        ("Eror", "error"),
        ("decision", None),
        ("Decision", None),
        ("rumour", None),
        ("", None),
        (None, None),
    ):
        assert find_similar_kind(DEFAULT_KINDS, kind) == similar, kind


def test_an_unknown_kind_is_advised_with_a_similar_one() -> None:
    assert advise_unknown_kind(DEFAULT_KINDS, "desicion").startswith("write decision, or add ")
    assert advise_unknown_kind(DEFAULT_KINDS, "rumour").startswith("correct the word, or add ")


# --- order, lists and counts ----------------------------------------------------------------------

BY: list[tuple[Sort, list[str]]] = [
    ("importance", ["MEMORY.md", "list.md", "plain.md", "tomorrow.md", "low.md"]),
    ("priority", ["list.md", "MEMORY.md", "plain.md", "tomorrow.md", "low.md"]),
    ("recency", ["list.md", "plain.md", "low.md", "tomorrow.md", "MEMORY.md"]),
    ("file", ["list.md", "low.md", "plain.md", "tomorrow.md", "MEMORY.md"]),
]


def save_days(bench: Any) -> None:
    """Give the notes without a date a day each."""
    for day, name in enumerate(("tomorrow.md", "low.md", "plain.md", "list.md"), 10):
        saved_s = datetime.fromisoformat(f"2026-11-{day}").timestamp()
        os.utime(bench.root / ".memories" / name, (saved_s, saved_s))
    bench.sync()


def test_hits_are_ordered_by_metadata(many: Any) -> None:
    save_days(many)
    for sort, wanted in BY:
        ordered = [
            hit.path.rpartition("/")[2]
            for hit in search_in([many.workspace], "path:**", sort=sort, now_s=NOW_S).hits
        ]
        # The note has a second section, which is an error.
        assert list(dict.fromkeys(ordered)) == wanted, sort
        by_words = search_in([many.workspace], "pool", sort=sort, now_s=NOW_S).hits
        assert {hit.path for hit in by_words} == {
            hit.path for hit in search_in([many.workspace], "pool", now_s=NOW_S).hits
        }
    [first] = search_in([many.workspace], "path:**", sort="priority", limit=1, now_s=NOW_S).hits
    assert first.priority == "P0"


def test_notes_are_listed_by_metadata_with_expired_and_without_archived_ones(many: Any) -> None:
    save_days(many)

    def names(**params: Any) -> list[str]:
        listed = list_notes(many.workspace, SEARCH_POLICY, ListParams(**params), now_s=NOW_S).notes
        return [note.path.rpartition("/")[2] for note in listed]

    every = {"MEMORY.md", *OTHERS}
    assert set(names()) == every - {"old.md", "zone.md"}
    assert set(names(filters=Filters(include_archived=True))) == every
    assert names(filters=Filters(priority=["P0"])) == ["list.md"]
    assert names(filters=Filters(archived=True)) == ["old.md", "zone.md"]
    assert names(kind="session", filters=Filters(after="2026-11-11")) == ["low.md"]
    assert names(kind="session", filters=Filters(after="2026-11-12")) == []
    assert [name for name in names(sort="recency") if name in LIVE] == dict(BY)["recency"]


def test_sections_are_counted_by_metadata(many: Any) -> None:
    save_days(many)

    def count(**params: Any) -> dict[str, Any]:
        counted = compute_stats(
            many.workspace, SEARCH_POLICY, StatsParams(**params), now_s=NOW_S, accesses={}
        )
        groups = {
            group: [(row.value, row.sections, row.notes) for row in counts]
            for group, counts in counted["counts"].items()
        }
        return {**counted, "counts": groups}

    everything = count(by=["kind", "tag", "task", "month", "size", "status"])
    assert (everything["sections"], everything["notes"]) == (7, 5)
    sizes = [(many.root / "MEMORY.md").stat().st_size]
    sizes += [len(OTHERS[name].encode()) for name in LIVE - {"MEMORY.md"}]
    assert everything["bytes"] == sum(sizes)
    assert everything["counts"] == {
        "kind": [(None, 3, 3), ("decision", 2, 1), ("error", 1, 1), ("session", 1, 1)],
        "tag": [(None, 4, 4), ("ops", 3, 1)],
        "task": [(None, 4, 4), ("WU-7", 3, 1)],
        "month": [("2026-11", 4, 4), ("2026-05", 1, 1), ("2026-03", 2, 1)],
        "size": [("0-1 KiB", 7, 5)],
        "status": [(None, 4, 4), ("in-progress", 2, 1), ("active", 1, 1)],
    }
    assert count(by=["kind"], filters=Filters(kind=["error"]))["counts"] == {
        "kind": [("error", 1, 1)]
    }
    assert count(by=["kind"], limit=1)["counts"] == {"kind": [(None, 3, 3)]}
    assert count(filters=Filters(task=["none"]))["sections"] == 0


# --- worth ----------------------------------------------------------------------------------------

DECAYING = {
    "New": "created: 2026-11-20T12:00, priority: P2",
    "Month": "created: 2020-01-01, updated: 2026-10-21T12:00, priority: P0",
    "Old": "created: 2026-05-20T12:00, kind: error",
}


@pytest.fixture
def aging(bench: Any) -> Any:
    for name, meta in DECAYING.items():
        text = f"# {name}\n<!-- memory: {{{meta}}} -->\n\nabout the {name}\n"
        bench.write(f".memories/{name.lower()}.md", text)
    bench.sync()
    return bench


def list_worth(bench: Any, now_s: float = NOW_S, **more: Any) -> dict[str, Any]:
    params = ListParams(explain=True, **more)
    listed = list_notes(bench.workspace, SEARCH_POLICY, params, now_s=now_s).notes
    return {section.heading[-1]: section for note in listed for section in note.sections}


def test_worth_is_that_of_the_last_update_with_the_half_life_of_the_kind(aging: Any) -> None:
    listed = list_worth(aging)
    assert listed["New"].explain == {
        "worth": 1.0, "decay_score": 1.0,
        "decay_recency": 1.0, "decay_accesses": 1.0, "decay_importance": 1.0,
    }  # fmt: skip
    assert listed["Month"].explain["decay_recency"] == pytest.approx(math.exp(-1), abs=1e-4)
    assert listed["Month"].explain["worth"] == pytest.approx(2 * math.exp(-1), abs=1e-4)
    n_days = (NOW_S - datetime.fromisoformat("2026-05-20T12:00").timestamp()) / 86_400
    half_life = DEFAULT_KINDS["error"].half_life
    recency = math.exp(-n_days / half_life)
    assert listed["Old"].explain["decay_recency"] == pytest.approx(recency, abs=1e-4)
    assert listed["Old"].explain["decay_importance"] == pytest.approx(0.9 / 0.7, abs=1e-4)
    [hit] = search_in([aging.workspace], "month", now_s=NOW_S).hits
    assert listed["Month"].explain.items() <= (hit.explain or {}).items()


def test_accesses_raise_the_worth(aging: Any) -> None:
    [plain] = search_in([aging.workspace], "month", now_s=NOW_S).hits
    counts = {plain.anchor: 20}
    [hit] = search_in([aging.workspace], "month", now_s=NOW_S, accesses=counts).hits
    assert plain.explain
    assert hit.explain
    assert hit.explain["decay_accesses"] == pytest.approx(1 + math.log(21) / 10, abs=1e-4)
    assert hit.explain["worth"] > plain.explain["worth"]


def test_sections_are_ordered_by_worth(aging: Any) -> None:
    names = ["New", "Old", "Month"]
    for sort in ("worth", "decay"):
        hits = search_in([aging.workspace], "path:**", sort=sort, now_s=NOW_S).hits
        assert [hit.heading[-1] for hit in hits] == names
        assert [*list_worth(aging, sort=sort)] == names


def test_a_note_has_its_worth_also_without_its_sections(aging: Any) -> None:
    with_sections, without = (
        list_notes(
            aging.workspace, SEARCH_POLICY, ListParams(explain=True, sections=shown), now_s=NOW_S
        ).notes
        for shown in (True, False)
    )
    assert all(note.worth for note in with_sections)
    assert without == [msgspec.structs.replace(note, sections=[]) for note in with_sections]


def test_the_worth_of_a_section_and_its_name_are_filters(aging: Any) -> None:
    later_s = NOW_S + 60 * 86_400
    for now_s in (NOW_S, later_s):
        listed = list_worth(aging, now_s)
        tiers = {name: section.tier for name, section in listed.items()}
        for least in sorted(section.worth for section in listed.values()):
            wanted = {name for name, section in listed.items() if section.worth >= least}
            hits = search_in([aging.workspace], f"about worth:{least - 1e-4:.6f}", now_s=now_s).hits
            assert {hit.heading[-1] for hit in hits} == wanted
            filters = Filters(min_worth=least - 1e-4)
            assert list_worth(aging, now_s, filters=filters).keys() == wanted
        for tier in ("hot", "warm", "cold"):
            wanted = {name for name, found in tiers.items() if found == tier}
            for query, names in (
                (f"tier:{tier}", wanted),
                (f"worth:{tier}", wanted),
                (f"-tier:{tier}", tiers.keys() - wanted),
            ):
                hits = search_in([aging.workspace], f"about {query}", now_s=now_s).hits
                assert {hit.heading[-1] for hit in hits} == names
            filters = Filters(tier=[tier.upper()])
            assert list_worth(aging, now_s, filters=filters).keys() == wanted
    assert tiers == {"New": "cold", "Month": "cold", "Old": "hot"}
    empty = search_in([aging.workspace], "month tier:hot", now_s=later_s)
    assert "tier:hot" in str(empty.why_empty)


def test_keys_of_free_metadata_and_their_values_are_counted(bench: Any) -> None:
    bench.write(".memories/a.md", "---\nauthors: [Ann Lee, '[[Bo]]']\nnone:\n---\n# A\nx\n")
    bench.write(".memories/b.md", "---\nAuthors: bo\nrating: 7\n---\ntext\n")
    bench.sync()

    def count(*by: str) -> dict[str, list[tuple[str | None, int, int]]]:
        params = StatsParams(by=list(by))
        counted = compute_stats(bench.workspace, SEARCH_POLICY, params, now_s=NOW_S, accesses={})
        return {
            group: [(row.value, row.sections, row.notes) for row in counts]
            for group, counts in counted["counts"].items()
        }

    assert count("meta", "meta:AUTHORS", "meta:no") == {
        "meta": [("authors", 3, 2), ("rating", 1, 1)],
        "meta:AUTHORS": [("Bo", 3, 2), ("Ann Lee", 2, 1)],
        "meta:no": [],
    }
    for group in ("metas", "meta:", "owner", ""):
        with pytest.raises(BadRequest) as caught:
            count(group)
        assert "meta:KEY" in str(caught.value.hint)
