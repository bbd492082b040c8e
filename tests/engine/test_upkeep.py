"""Memories are archived, restored and cleaned up by a plan, which is carried out as it was shown."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsyncd.config import Config
from memsyncd.core.paths import Globs
from memsyncd.engine.metadata import make_valuation
from memsyncd.errors import BadRequest, Conflict, NoteNotFound, NotFresh
from memsyncd.files.read import read_text_file
from memsyncd.operations import plans
from memsyncd.operations.links.declare import LinksParams
from memsyncd.operations.links.run import find_links
from memsyncd.operations.notes.declare import ListParams
from memsyncd.operations.notes.read import list_notes
from memsyncd.operations.plans import make_planned_decision, preview
from memsyncd.operations.recall.declare import RecallAnswer, RecallParams
from memsyncd.operations.recall.run import recall
from memsyncd.operations.sections import Filters
from memsyncd.operations.upkeep import rules
from memsyncd.operations.upkeep import run as upkeep
from memsyncd.operations.upkeep.declare import (
    ArchiveParams,
    CleanupParams,
    PromoteParams,
    UpkeepPlan,
)
from memsyncd.operations.upkeep.run import (
    make_promote_planner,
    plan_archive,
    plan_cleanup,
    plan_restore,
    select_named,
)
from memsyncd.store.accesses import AccessCount
from memsyncd.store.connection import CancellationToken
from memsyncd.store.sections import read_outlines
from tests.engine.conftest import build_block, carry_out_plan, search_in

NOW = datetime.fromisoformat("2026-11-20T12:00")
NOW_S = NOW.timestamp()
PLANS = {"archive": plan_archive, "restore": plan_restore, "cleanup": plan_cleanup}


def aged(n_days: float) -> str:
    return (NOW - timedelta(days=n_days)).isoformat(timespec="minutes")


def make_section(name: str, n_days: float, more: str = "") -> str:
    meta = f"created: {aged(n_days)}{', ' + more if more else ''}"
    return f"## {name}\n<!-- memory: {{{meta}}} -->\n\nabout the {name}\n\n"


LOG = "# Log\n\n" + "".join(
    make_section(*section)
    for section in (
        ("Fresh", 1), ("Stale", 200), ("Decided", 200, "lifecycle: project"),
        ("Failure", 5000, "kind: error"), ("Gone", 300, "status: archived"), ("Warm", 30),
    )
)  # fmt: skip


@pytest.fixture
def log(bench: Any) -> Any:
    bench.fill({".memories/log.md": LOG + "### Part of Warm\n\ndetail\n"})
    return bench


def make_plan(bench: Any, act: str, *, is_short: bool = False, **params: Any) -> Any:
    kind = CleanupParams if act == "cleanup" else ArchiveParams
    plan: Any = PLANS[act]
    plan = partial(plan, is_short=True) if is_short else plan
    return partial(
        plan, bench.workspace, bench.config, kind(**params), make_valuation(bench.config, NOW_S)
    )


def show(bench: Any, act: str = "archive", **params: Any) -> UpkeepPlan:
    return preview(bench.workspace, make_plan(bench, act, **params)())


def apply(bench: Any, act: str = "archive", plan: str | None = None, **params: Any) -> Any:
    kind = CleanupParams if act == "cleanup" else ArchiveParams
    method: Any = PLANS[act]
    request: Any = kind(apply=True, plan=plan, **params)
    planning = partial(method, bench.workspace, bench.config, request)
    return carry_out_plan(bench, act, request, planning, now_s=NOW_S)


def names(items: Any) -> list[str]:
    return [item.heading[-1] for item in items]


def find(bench: Any, query: str = "about", **more: Any) -> set[str]:
    hits = search_in([bench.workspace], query, now_s=NOW_S, limit=50, **more).hits
    return {hit.heading[-1] for hit in hits}


def test_what_is_worth_little_is_archived_and_nothing_protected(log: Any) -> None:
    plan = show(log)
    assert names(plan.archived) == ["Stale"]
    assert {item.heading[-1]: item.reason for item in plan.skipped} == {
        "Decided": "its lifecycle is project",
        "Failure": "its kind, error, is protected",
        "Gone": "it is archived already",
    }
    assert names(plan.retained) == ["Fresh", "Warm"]
    assert (plan.archived[0].tier, plan.archived[0].reason) == ("cold", "worth")


def test_an_applied_plan_equals_the_shown_one_and_one_undo_takes_it_back(log: Any) -> None:
    before = log.files()
    shown = show(log, below=0.5)
    assert log.files() == before
    outcome = apply(log, plan=shown.plan, below=0.5)
    assert all(getattr(outcome, name) == getattr(shown, name) for name in shown.__struct_fields__)
    assert names(shown.archived) == ["Stale", "Warm"]
    assert log.files() != before
    assert [revision.command for revision in log.past()[:1]] == ["archive"]
    log.undo(change_set=outcome.change_set)
    assert log.files() == before


def test_archived_memories_are_left_out_by_default(log: Any) -> None:
    apply(log, path=".memories/log.md")
    hidden = {"Stale", "Fresh", "Warm", "Gone"}
    assert find(log) == {"Decided", "Failure"}
    assert hidden <= find(log, filters=Filters(include_archived=True))
    listed = list_notes(log.workspace, Config(), ListParams(), now_s=NOW_S).notes
    shown = {section.heading[-1] for note in listed for section in note.sections}
    assert not shown & hidden
    assert "Part of Warm" not in shown
    assert "about the Stale" not in build_block(log.workspace, now_s=NOW_S).text
    every = ListParams(filters=Filters(include_archived=True))
    listed = list_notes(log.workspace, Config(), every, now_s=NOW_S).notes
    assert hidden <= {section.heading[-1] for note in listed for section in note.sections}


def test_restoring_gives_the_same_bytes(log: Any) -> None:
    before = log.files()
    shown = show(log, path=".memories/log.md")
    apply(log, path=".memories/log.md")
    assert names(shown.archived) == ["Fresh", "Stale", "Warm"]
    two = Filters(section=["Stale", "Fresh"])
    outcome = apply(log, "restore", plan=show(log, "restore", filters=two).plan, filters=two)
    assert names(outcome.restored) == ["Fresh", "Stale"]
    assert log.files() != before
    apply(log, "restore", anchors=[".memories/log.md#log/warm"])
    assert log.files() == before


def test_memories_are_archived_by_name_with_what_is_beneath_them(log: Any) -> None:
    plan = show(log, anchors=[".memories/log.md#log/warm"])
    assert (names(plan.archived), plan.retained, plan.skipped) == (["Warm"], [], [])
    assert plan.archived[0].reason == "named"
    apply(log, anchors=[".memories/log.md#log/warm"])
    assert b"Part of Warm\n<!-- memory: {status: archived} -->" in log.files()[".memories/log.md"]
    assert names(show(log, anchors=[".memories/log.md#log/decided"]).skipped) == ["Decided"]
    with pytest.raises(NoteNotFound, match="#log/none"):
        show(log, anchors=[".memories/log.md#log/none"])
    with pytest.raises(BadRequest):
        show(log, anchors=[".memories/log.md#log/warm"], path="**")
    with pytest.raises(BadRequest, match="no memory to restore is selected"):
        show(log, "restore")


def test_filters_select_and_a_limit_chooses_among_them(log: Any) -> None:
    old = Filters(before="2026-11-01")
    assert names(show(log, filters=old).archived) == ["Stale", "Warm"]
    plan = show(log, filters=old, below=0.1)
    assert (names(plan.archived), names(plan.retained)) == (["Stale"], ["Warm"])


def test_a_plan_that_is_out_of_date_is_refused(log: Any) -> None:
    shown = show(log)
    log.fill({".memories/log.md": LOG + make_section("Other", 300)})
    before = log.files()
    with pytest.raises(Conflict, match="since this was planned"):
        apply(log, plan=shown.plan)
    assert log.files() == before
    named = {"anchors": [".memories/log.md#log/other"]}
    shown = show(log, **named)
    log.fill({".memories/log.md": LOG})
    with pytest.raises(Conflict, match="since this was planned"):
        apply(log, plan=shown.plan, **named)
    with pytest.raises(NoteNotFound):
        apply(log, **named)
    shown = show(log)
    log.fill({".memories/log.md": LOG.replace("about the Stale", "about another")})
    with pytest.raises(Conflict, match="since this was planned"):
        apply(log, plan=shown.plan)
    shown = show(log)
    log.fill({".memories/beside.md": "# Beside\n\nOther notes may change meanwhile.\n"})
    assert apply(log, plan=shown.plan).plan == shown.plan


def test_a_name_that_no_plan_has_is_refused_in_words(log: Any) -> None:
    by_rule, by_name = (show(log, **more).plan for more in ({}, {"path": ".memories/log.md"}))
    digest = by_rule.rpartition("-")[2]
    before = log.files()
    for name in ("deadbeef", digest, f"-{digest}", f"x-{digest}", by_name):
        with pytest.raises(Conflict, match=f"^{name} is not the name of a plan"):
            apply(log, plan=name)
    for name in ("deadbeef", by_rule):
        with pytest.raises(Conflict, match=f"^{name} is not the name of a plan"):
            apply(log, plan=name, path=".memories/log.md")
    with pytest.raises(Conflict, match=f"is not {by_name[::-1]} now: notes have changed"):
        apply(log, plan=by_name[::-1], path=".memories/log.md")
    assert log.files() == before


def test_a_note_that_is_not_indexed_yet_is_not_changed(log: Any) -> None:
    log.write(".memories/log.md", LOG + "more\n")
    before = log.files()
    with pytest.raises(Conflict, match="a moment ago"):
        apply(log)
    assert log.files() == before


@pytest.fixture
def many(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Seven notes with an old and a new memory, of which few are read or changed at a time."""
    monkeypatch.setattr(plans, "NOTES_PER_READ", 2)
    monkeypatch.setattr(plans, "NOTES_PER_EDIT", 3)
    for number in range(7):
        sections = make_section(f"Old {number}", 300) + make_section(f"New {number}", 1)
        bench.write(f".memories/n{number}.md", f"# N\n\n{sections}")
    bench.sync()
    return bench


def test_a_long_plan_is_named_by_pages_and_carried_out_in_portions(
    many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = show(many)
    assert names(whole.archived) == [f"Old {number}" for number in range(7)]
    assert (whole.n_archived, whole.n_retained, whole.n_skipped) == (7, 7, 0)
    tried: list[str] = []

    def note_read(scope: Any, path: Any) -> Any:
        tried.append(path.text)
        return read_text_file(scope, path)

    monkeypatch.setattr(plans, "read_text_file", note_read)
    pages = [show(many, limit=3, offset=offset) for offset in (0, 3, 6)]
    assert len(tried) == 7
    assert [item for page in pages for item in page.archived] == whole.archived
    assert [item for page in pages for item in page.retained] == whole.retained
    assert {(page.plan, page.n_archived, page.n_retained) for page in pages} == {(whole.plan, 7, 7)}
    before = many.files()
    done = apply(many, plan=whole.plan, limit=2)
    assert (done.n_archived, len(done.archived)) == (7, 2)
    assert show(many).archived == []
    many.undo(change_set=done.change_set)
    assert many.files() == before


def test_a_note_that_is_saved_while_a_plan_is_carried_out_ends_it(many: Any) -> None:
    many.write(".memories/n5.md", "saved meanwhile\n")
    with pytest.raises(Conflict, match=r"3 of 7 notes were changed; .*n5.md was saved a moment"):
        apply(many)
    many.sync()
    assert names(apply(many).archived) == ["Old 3", "Old 4", "Old 6"]


def test_a_plan_tells_how_far_it_is_and_ends_when_its_client_leaves(many: Any) -> None:
    token = CancellationToken()
    told: list[str] = []

    def judge(_memory: object) -> None:
        told.append(many.workspace.condition.notices[plans.PLAN_NOTICE])
        if len(told) == 5:
            token.cancel()

    valuation = make_valuation(many.config, NOW_S)
    select = select_named(())
    make = partial(plans.make_plan, many.workspace, "archive", judge, valuation, select, None)
    with pytest.raises(NotFresh):
        token.run(partial(make, plans.Page()))
    assert told == ["planning: 0 of 7 notes"] * 4 + ["planning: 2 of 7 notes"] * 4
    assert plans.PLAN_NOTICE not in many.workspace.condition.notices


def test_accesses_keep_a_memory(log: Any) -> None:
    params = ArchiveParams(below=0.3)
    plan = partial(plan_archive, log.workspace, log.config, params)
    valuation = make_valuation(log.config, NOW_S)
    assert names(preview(log.workspace, plan(valuation)).archived) == ["Stale", "Warm"]
    counts = {".memories/log.md#log/warm": 50}
    valuation = make_valuation(log.config, NOW_S, counts)
    assert names(preview(log.workspace, plan(valuation)).archived) == ["Stale"]


HEADS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["error", "decision", "tool_run", "weird"]),
        "lifecycle": st.sampled_from(["ephemeral", "session", "task", "project"]),
        "importance": st.sampled_from([0, 0.1, 1]),
        "priority": st.sampled_from(["P0", "P3"]),
        "status": st.sampled_from(["archived", "open"]),
        "created": st.floats(0.0, 400.0).map(aged) | st.just("2026-11-13"),
        "expires": st.floats(-2.0, 2.0).map(aged) | st.just("2026-11-20"),
    },
)
NOTES = st.lists(st.lists(st.tuples(st.integers(1, 3), HEADS), max_size=4), max_size=6)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    NOTES,
    st.sampled_from(["archive", "cleanup"]),
    st.sampled_from([None, 0.0, 0.1, 0.7]),
    st.integers(0, 3),
    st.integers(0, 4),
    st.sampled_from([0, 1_000]),
)
def test_a_rule_is_planned_as_if_each_memory_were_judged(
    bench: Any,
    monkeypatch: pytest.MonkeyPatch,
    notes: list[list[tuple[int, dict[str, Any]]]],
    act: str,
    below: float | None,
    offset: int,
    limit: int,
    most: int,
) -> None:
    monkeypatch.setattr(rules, "MAX_LISTED", most)
    texts = {f".memories/n{number}.md": "" for number in range(6)}
    for number, sections in enumerate(notes):
        for at, (level, meta) in enumerate(sections):
            pairs = ", ".join(f"{key}: {value}" for key, value in meta.items())
            texts[f".memories/n{number}.md"] += (
                f"{'#' * level} Part {at}\n<!-- memory: {{{pairs}}} -->\n\ntext {at}\n\n"
            )
    bench.fill(texts)
    counts = {".memories/n0.md#part-0": 40, ".memories/n1.md#part-1": 1}
    valuation = make_valuation(bench.config, NOW_S, counts)
    judged: list[Any] = []
    plan_by_rule = rules.plan_by_rule

    def note_rule(workspace: Any, act: Any, rule: Any, page: Any, **more: Any) -> Any:
        judged.append(rule.judge_memory)
        return plan_by_rule(workspace, act, rule, page, **more)

    monkeypatch.setattr(upkeep, "plan_by_rule", note_rule)
    kind = CleanupParams if act == "cleanup" else ArchiveParams
    by_rule, whole = (
        PLANS[act](
            bench.workspace,
            bench.config,
            kind(below=below, offset=offset, limit=limit, apply=is_applied),
            valuation,
        )
        for is_applied in (False, True)
    )
    page, select = plans.Page(offset, limit), select_named(())
    make = partial(plans.make_plan, bench.workspace, act, judged[0], valuation, select, None)
    expected = make(page)
    for plan in (by_rule, whole):
        assert msgspec.structs.replace(plan.describe({}), plan="") == msgspec.structs.replace(
            expected.describe({}), plan=""
        )
    assert whole.notes == expected.notes
    assert whole.name == by_rule.name
    whole.check(by_rule.name)
    with pytest.raises(Conflict):
        whole.check(f"{bench.workspace.index.generation - 1}-0")


def test_a_shown_plan_reads_the_notes_of_its_page(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if many memories change, and their notes come last by path."""
    for number in range(40):
        n_days = 1 if number < 25 else 400
        text = "".join(make_section(f"Part {at}", n_days) for at in range(20))
        bench.write(f".memories/n{number:02}.md", text)
    bench.sync()
    read: list[str] = []

    def note_read(reader: Any, paths: Any) -> Any:
        read.extend(paths)
        return read_outlines(reader, paths)

    for module in (plans, rules):
        monkeypatch.setattr(module, "read_outlines", note_read)
    for offset, expected in ((0, [0, 25]), (299, [14, 39])):
        read.clear()
        plan = make_plan(bench, "archive", limit=1, offset=offset, is_short=True)()
        assert (plan.n_changed, plan.n_retained) == (300, 500)
        assert sorted(read) == [f".memories/n{number:02}.md" for number in expected]


@pytest.mark.parametrize(
    ("bound", "n_days", "params"),
    [("MAX_JUDGED", 26.5, {"below": 0.3}), ("MAX_WALKED", 400, {"offset": 6})],
)
def test_a_short_read_makes_no_plan_of_many_memories(
    bench: Any, monkeypatch: pytest.MonkeyPatch, bound: str, n_days: float, params: Any
) -> None:
    """Many memories must be judged one by one, or many notes be read by path."""
    for name, n in {"MAX_LISTED": 0, "NOTES_PER_WALK": 2, "MAX_JUDGED": 8, "MAX_WALKED": 8}.items():
        monkeypatch.setattr(rules, name, n)
    bench.fill({f".memories/n{at}.md": make_section("Part", n_days) for at in range(8)})
    plan = make_plan(bench, "archive", is_short=True, **params)()
    assert plan.n_changed == 8
    monkeypatch.setattr(rules, bound, 5)
    with pytest.raises(rules.LongPlan):
        make_plan(bench, "archive", is_short=True, **params)()
    assert make_plan(bench, "archive", **params)() == plan


def test_judging_memories_one_by_one_ends_when_the_client_leaves(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.fill({f".memories/n{at}.md": make_section("Part", 26.5) for at in range(8)})
    token, judged = CancellationToken(), list[object]()
    find_moment_s = rules.find_moment_s

    def note_judged(*moments: Any) -> float:
        judged.append(moments)
        if len(judged) == 3:
            token.cancel()
        return find_moment_s(*moments)

    monkeypatch.setattr(rules, "find_moment_s", note_judged)
    with pytest.raises(NotFresh):
        token.run(make_plan(bench, "archive", below=0.3))
    assert len(judged) == 3


def test_a_read_only_note_is_skipped(log: Any) -> None:
    scope = msgspec.structs.replace(
        log.workspace.scope, read_only=Globs.parse([".memories/log.md"])
    )
    log.workspace.scope = scope
    plan = show(log)
    assert plan.archived == []
    assert "its note is read only" in {item.reason for item in plan.skipped}


def test_memories_past_their_time_are_cleaned_up(bench: Any) -> None:
    text = "# Log\n\n" + "".join(
        make_section(*section)
        for section in (
            ("Flash", 2, "lifecycle: ephemeral"), ("Spark", 0.5, "lifecycle: ephemeral"),
            ("Old session", 8, "lifecycle: session"), ("Session", 6, "lifecycle: session"),
            ("Offer", 3, f"expires: {aged(1)}"), ("Later", 3, f"expires: {aged(-1)}"),
            ("Kept", 3, f"expires: {aged(1)}, lifecycle: project"), ("Stale", 300),
        )
    )  # fmt: skip
    bench.fill({".memories/log.md": text})
    plan = show(bench, "cleanup")
    assert [(item.heading[-1], item.reason) for item in plan.archived] == [
        ("Flash", "ephemeral"), ("Old session", "session"), ("Offer", "expired"),
    ]  # fmt: skip
    assert names(plan.retained) == ["Spark", "Session"]
    assert names(plan.skipped) == ["Kept"]
    assert "Stale" in names(show(bench, "cleanup", below=0.1).archived)
    outcome = apply(bench, "cleanup", plan=plan.plan)
    assert (outcome.plan, outcome.archived) == (plan.plan, plan.archived)
    again = show(bench, "cleanup")
    assert (again.archived, names(again.skipped)) == ([], ["Kept"])
    bench.undo(change_set=outcome.change_set)
    assert bench.files()[".memories/log.md"] == text.encode()


AT = "2026-03-01T12:00:00Z"
PROMOTED_S = 1_772_366_400.0
SOURCE = ".memories/runs.md#runs/retries-help"
RUNS = """# Runs

## Retries help
<!-- memory: {kind: summary, task: WU-1, tags: [redis], topic: cache, created: 2026-02-01} -->

Three retries are enough.

### Detail

With a pause between them.

## Pool size
<!-- memory: {kind: summary, task: WU-1, created: 2026-02-02} -->

Thirty connections.

## Other
<!-- memory: {kind: note, task: WU-1} -->

Not a summary.
"""


@pytest.fixture
def runs(bench: Any) -> Any:
    bench.fill({".memories/runs.md": RUNS})
    return bench


def promote(bench: Any, **params: Any) -> Any:
    wanted = PromoteParams(apply=True, **params)
    plan = make_promote_planner(bench.workspace, bench.config, wanted, at=AT)
    return bench.edit(make_planned_decision(plan, "promote", client="test", digest=None))


def test_a_memory_is_promoted_with_its_text_a_tag_and_a_link_to_its_source(runs: Any) -> None:
    [promoted] = promote(runs, anchor=SOURCE, tag="pattern").answer.promoted
    assert promoted.is_new
    assert promoted.anchor == ".memories/project.md#project/retries-help"
    text = runs.files()[".memories/project.md"].decode()
    assert "Three retries are enough." in text
    assert "With a pause between them." in text
    listed = list_notes(runs.workspace, Config(), ListParams(path=".memories/project.md")).notes
    section = next(section for section in listed[0].sections if section.anchor == promoted.anchor)
    assert (section.lifecycle, section.kind, section.tags) == (
        "project", "summary", ["pattern", "redis"],
    )  # fmt: skip
    assert section.meta["discovered_from"] == SOURCE
    assert section.meta["topic"] == "cache"
    params = LinksParams(path=".memories/project.md", relation="discovered_from")
    [link], _ = find_links(runs.workspace, Config(), params)
    assert link.to == SOURCE
    assert runs.files()[".memories/runs.md"].decode() == RUNS


def test_promoting_twice_is_as_promoting_once_and_undo_takes_it_back(runs: Any) -> None:
    before = runs.files()
    once = promote(runs, anchor=SOURCE, tag="pattern")
    files = runs.files()
    [again] = promote(runs, anchor=SOURCE, tag="#Pattern").answer.promoted
    assert (again.anchor, again.is_new) == (once.answer.promoted[0].anchor, False)
    assert runs.files() == files
    [other] = promote(runs, anchor=SOURCE, tag="decision").answer.promoted
    assert other.is_new
    runs.undo(path=".memories/project.md")
    assert runs.files() == files
    runs.undo(change_set=once.change_set)
    assert runs.files() == before


def test_a_section_is_not_promoted_onto_its_own_note(runs: Any) -> None:
    [promoted] = promote(runs, anchor=SOURCE, tag="pattern").answer.promoted
    files = runs.files()
    with pytest.raises(BadRequest, match=r"is in \.memories/project\.md already"):
        promote(runs, anchor=promoted.anchor, tag="decision")
    for section in promote(
        runs, task="WU-1", tag="pattern", note=SOURCE.rpartition("#")[0]
    ).answer.promoted:
        assert (section.anchor, section.is_new) == (section.source, False)
    assert runs.files() == files


@pytest.mark.parametrize(
    "params",
    [
        {"anchor": SOURCE, "tag": "rumour"},
        {"tag": "faq"},
        {"anchor": SOURCE, "task": "WU-1", "tag": "faq"},
    ],
)
def test_a_promotion_without_one_source_and_a_known_tag_is_refused(
    runs: Any, params: dict[str, Any]
) -> None:
    with pytest.raises(BadRequest):
        promote(runs, **params)


def test_what_is_not_there_is_not_promoted(runs: Any) -> None:
    with pytest.raises(NoteNotFound, match="WU-9"):
        promote(runs, task="WU-9", tag="faq")
    with pytest.raises(NoteNotFound, match="#runs/none"):
        promote(runs, anchor=".memories/runs.md#runs/none", tag="faq")
    assert [*runs.files()] == [".memories/runs.md"]


# --- recall ---------------------------------------------------------------------------------------

FRAGMENTS = """# Fragments

## Pool
<!-- memory: {kind: error, topic: redis, keywords: [pool, time out], updated: 2026-02-01} -->

The pool ran dry.

## Retry
<!-- memory: {kind: procedure, topic: redis, keywords: [retry], updated: 2026-02-02} -->

Retry three times.

## Style
<!-- memory: {kind: preference, topic: code, keywords: [Pool], updated: 2026-02-03} -->

Name pools in plain words.

## Gone
<!-- memory: {kind: error, topic: redis, keywords: [pool], status: archived} -->

An old fault.
"""


@pytest.fixture
def fragments(bench: Any) -> Any:
    bench.fill({".memories/fragments.md": FRAGMENTS})
    return bench


def ask(bench: Any, accessed: dict[str, AccessCount] | None = None, **params: Any) -> RecallAnswer:
    return recall(bench.workspace, bench.config, RecallParams(**params), PROMOTED_S, accessed)


def name(found: RecallAnswer) -> list[str]:
    return [memory.heading[-1] for memory in found.memories]


def test_keywords_find_exactly_and_the_most_important_comes_first(fragments: Any) -> None:
    found = ask(fragments, keywords=["pool"])
    assert (found.stage, name(found)) == ("keywords", ["Style", "Pool"])
    assert (ask(fragments, keywords=["poo"]).stage, name(ask(fragments, keywords=["poo"]))) == (
        None, [],
    )  # fmt: skip
    assert name(ask(fragments, keywords=["TIME OUT", "none"])) == ["Pool"]
    assert name(ask(fragments, keywords=["pool"], topic="redis")) == ["Pool"]
    both = ask(fragments, keywords=["pool"], filters=Filters(include_archived=True))
    assert sorted(name(both)) == ["Gone", "Pool", "Style"]


def test_topic_and_kind_answer_where_no_keyword_does_then_words(fragments: Any) -> None:
    found = ask(fragments, keywords=["none"], topic="redis")
    assert (found.stage, name(found)) == ("topic and kind", ["Pool", "Retry"])
    assert name(ask(fragments, topic="redis", kind="procedure")) == ["Retry"]
    words = ask(fragments, keywords=["none"], text="three times")
    assert words.stage == "words"
    assert "Retry" in name(words)
    with pytest.raises(BadRequest, match="no criterion"):
        ask(fragments, text=" ")


def test_what_was_accessed_last_comes_first_among_equals(bench: Any) -> None:
    section = "## {}\n<!-- memory: {{topic: x, updated: 2026-01-0{}}} -->\n\ntext\n\n"
    bench.fill({"MEMORY.md": section.format("One", 1) + section.format("Two", 2)})
    assert name(ask(bench, topic="x")) == ["Two", "One"]
    assert name(ask(bench, {"MEMORY.md#one": AccessCount(1, PROMOTED_S)}, topic="x")) == [
        "One",
        "Two",
    ]


def test_the_best_match_is_cut_rather_than_left_out(bench: Any) -> None:
    bench.write(".memories/long.md", "# Long\n\n" + "an elephant walks " * 60 + "\n")
    bench.write(".memories/short.md", "---\nkind: error\n---\n# Short\n\nAn elephant ran.\n")
    bench.sync()
    found = ask(bench, text="elephant walks", max_tokens=100)
    assert found.tokens <= 100
    assert "an elephant walks an elephant" in found.memories[-1].text
    assert found.memories[-1].text.endswith("…")
    assert found.left_out == 1


def test_a_recalled_text_lacks_the_comment_whose_fields_the_answer_has(fragments: Any) -> None:
    [pool] = ask(fragments, keywords=["time out"]).memories
    assert pool.text == "## Pool\n\nThe pool ran dry.\n"


def test_a_recall_keeps_within_its_budget(bench: Any) -> None:
    section = "## Part {}\n<!-- memory: {{topic: x}} -->\n\n" + "word " * 40 + "\n\n"
    bench.fill({"MEMORY.md": "".join(section.format(number) for number in range(9))})
    found = ask(bench, topic="x", max_tokens=200)
    assert 0 < found.tokens <= 200
    assert (len(found.memories) + found.left_out, found.left_out > 0) == (9, True)
    assert found == ask(bench, topic="x", max_tokens=200)
