"""Memories are promoted once to the project's note, with a link to their source."""

from __future__ import annotations

from typing import Any

import pytest

from memsyncd.config import Config
from memsyncd.engine.browse import find_links, list_notes
from memsyncd.engine.promote import make_promote_decision
from memsyncd.engine.recall import recall
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.protocol.search import Filters, LinksParams, ListParams, Recalled, RecallParams
from memsyncd.protocol.upkeep import PromoteParams
from memsyncd.store.accesses import AccessCount

AT = "2026-03-01T12:00:00Z"
NOW_S = 1_772_366_400.0
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
    bench.write(".memories/runs.md", RUNS)
    bench.sync()
    return bench


def promote(bench: Any, **params: Any) -> Any:
    decide = make_promote_decision(
        bench.workspace, bench.config, PromoteParams(**params), client="test", at=AT
    )
    return bench.edit(decide)


def test_a_memory_is_promoted_with_its_text_a_tag_and_a_link_to_its_source(runs: Any) -> None:
    [promoted] = promote(runs, anchor=SOURCE, tag="pattern").answer
    assert promoted.is_new
    assert promoted.anchor == ".memories/project.md#project/retries-help"
    text = runs.files()[".memories/project.md"].decode()
    assert "Three retries are enough." in text
    assert "With a pause between them." in text
    listed = list_notes(runs.workspace, Config(), ListParams(path=".memories/project.md"))
    section = next(one for one in listed[0].sections if one.anchor == promoted.anchor)
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
    [again] = promote(runs, anchor=SOURCE, tag="#Pattern").answer
    assert (again.anchor, again.is_new) == (once.answer[0].anchor, False)
    assert runs.files() == files
    [other] = promote(runs, anchor=SOURCE, tag="decision").answer
    assert other.is_new
    runs.undo(path=".memories/project.md")
    assert runs.files() == files
    runs.undo(change_set=once.change_set)
    assert runs.files() == before


def test_the_summaries_of_a_task_are_promoted_in_one_change_set(runs: Any) -> None:
    before = runs.files()
    dry = promote(runs, task="WU-1", tag="decision", dry_run=True).answer
    assert runs.files() == before
    outcome = promote(runs, task="wu-1", tag="decision")
    assert [one.heading for one in outcome.answer] == ["Retries help", "Pool size"]
    assert [one.source for one in dry] == [one.source for one in outcome.answer]
    assert all(not one.is_new for one in promote(runs, task="WU-1", tag="decision").answer)
    runs.undo(change_set=outcome.change_set)
    assert runs.files() == before


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
    bench.write(".memories/fragments.md", FRAGMENTS)
    bench.sync()
    return bench


def ask(bench: Any, accessed: dict[str, AccessCount] | None = None, **params: Any) -> Recalled:
    return recall(bench.workspace, bench.config, RecallParams(**params), NOW_S, accessed)


def name(found: Recalled) -> list[str]:
    return [one.heading[-1] for one in found.memories]


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
    bench.write("MEMORY.md", section.format("One", 1) + section.format("Two", 2))
    bench.sync()
    assert name(ask(bench, topic="x")) == ["Two", "One"]
    assert name(ask(bench, {"MEMORY.md#one": AccessCount(1, NOW_S)}, topic="x")) == ["One", "Two"]


def test_a_recall_keeps_within_its_budget(bench: Any) -> None:
    section = "## Part {}\n<!-- memory: {{topic: x}} -->\n\n" + "word " * 40 + "\n\n"
    bench.write("MEMORY.md", "".join(section.format(number) for number in range(9)))
    bench.sync()
    found = ask(bench, topic="x", max_tokens=200)
    assert 0 < found.tokens <= 200
    assert (len(found.memories) + found.left_out, found.left_out > 0) == (9, True)
    assert found == ask(bench, topic="x", max_tokens=200)
