"""What `similar` and `duplicates` tell of the sections that they find."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from memsyncd.config import MemoryConfig
from memsyncd.core.search.similarity import TEXTS_A_STEP, CopyFinder, find_features
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.similar import find_nearly_same
from memsyncd.errors import BadRequest, NoteNotFound, NotFresh
from memsyncd.operations.sections import Filters
from memsyncd.operations.similar import run as similar
from memsyncd.operations.similar.declare import (
    Duplicates,
    DuplicatesParams,
    SimilarParams,
    SimilarSections,
)
from memsyncd.operations.similar.run import find_duplicates, find_similar
from memsyncd.store.connection import CancellationToken
from tests.engine.concepts import ConceptVectors
from tests.engine.conftest import SEARCH_POLICY, search_in

TEXT = "Redis gives up after 30 s; we saw the timeout in staging."
NOTE = f"# Project\n\n## Timeout\n\n{TEXT}\n\n## Summary\n\n- {TEXT}\n- Parsers are slow.\n"


def test_a_similar_section_has_its_own_lines_where_a_passage_goes_on(bench: Any) -> None:
    bench.config = SEARCH_POLICY
    bench.write("MEMORY.md", NOTE)
    bench.rebuild()
    hits = search_in([bench.workspace], TEXT).hits
    assert [(hit.anchor, hit.end_line) for hit in hits] == [("MEMORY.md#project/timeout", 10)]
    found = find_similar(
        bench.workspace, SimilarParams(text=TEXT), SEARCH_POLICY, RunOptions(now_s=1.0)
    ).sections
    assert [(each.anchor, each.start_line, each.end_line) for each in found] == [
        ("MEMORY.md#project/timeout", 3, 6),
        ("MEMORY.md#project/summary", 7, 10),
    ]


def ask(bench: Any, **params: Any) -> SimilarSections:
    return find_similar(
        bench.workspace, SimilarParams(**params), SEARCH_POLICY, RunOptions(now_s=1.0)
    )


def plan(bench: Any, **params: Any) -> Duplicates:
    request = DuplicatesParams(**params)
    return find_duplicates(bench.workspace, request, SEARCH_POLICY, RunOptions(now_s=1.0))


@pytest.fixture
def garage(bench: Any) -> Any:
    bench.config = SEARCH_POLICY
    bench.write("MEMORY.md", "# Garage\n\nThe automobile needs tyres.\n")
    bench.write(
        ".memories/a.md",
        "# A\n\n## Trip\n<!-- memory: {topic: travel} -->\n\nWe go by car.\n\n"
        "## Food\n<!-- memory: {topic: travel} -->\n\nBread for the vehicle.\n\n## Rest\n\nSleep.\n",
    )
    bench.write(".memories/b.md", "# B\n\nA physician.\n\n## Sold\n\nPayment of an invoice.\n")
    bench.write(".memories/c.md", "---\nstatus: archived\n---\n# C\n\nThe vehicle was sold.\n")
    bench.rebuild()
    bench.workspace.vectors = ConceptVectors(bench.workspace)
    return bench


def test_with_vectors_the_nearest_sections_are_similar_without_a_common_word(garage: Any) -> None:
    answer = ask(garage, text="driving", min_similarity=0.9)
    anchors = {section.anchor for section in answer.sections}
    assert anchors == {"MEMORY.md#garage", ".memories/a.md#a/trip", ".memories/a.md#a/food"}
    assert answer.semantic == "ready"
    assert all(0.9 <= section.similarity <= 1 for section in answer.sections)
    trip = next(section for section in answer.sections if section.anchor.endswith("trip"))
    assert (trip.start_line, trip.end_line) == (3, 7)
    with_archived = ask(garage, text="driving", min_similarity=0.9, include_archived=True)
    assert ".memories/c.md#c" in {section.anchor for section in with_archived.sections}


def test_a_section_is_not_similar_to_itself(garage: Any) -> None:
    answer = ask(garage, anchor="MEMORY.md#garage", min_similarity=0.9)
    assert {section.anchor for section in answer.sections} == {
        ".memories/a.md#a/trip",
        ".memories/a.md#a/food",
    }
    assert len(ask(garage, anchor="MEMORY.md#garage", min_similarity=0.9, limit=1).sections) == 1


def test_the_neighbours_of_a_topic_are_of_other_topics(garage: Any) -> None:
    answer = ask(garage, topic="travel", min_similarity=0.9)
    assert [section.anchor for section in answer.sections] == ["MEMORY.md#garage"]
    with pytest.raises(NoteNotFound, match="no section has the topic tax"):
        ask(garage, topic="tax")
    with pytest.raises(BadRequest, match="name one of anchor, text and topic"):
        ask(garage, topic="travel", text="car")


def test_a_note_is_a_topic_by_its_title(bench: Any) -> None:
    bench.open()
    bench.write(
        ".memories/redis.md", "# Redis pool\n\nThe pool of redis has no limit of sockets.\n"
    )
    bench.write(".memories/other.md", "# Other\n\nThe pool of redis has no limit of connections.\n")
    bench.rebuild()
    similar = ask(bench, topic="redis pool", min_similarity=0.1)
    assert [section.path for section in similar.sections] == [".memories/other.md"]


def test_without_vectors_the_words_of_a_topic_are_compared(bench: Any) -> None:
    bench.config = SEARCH_POLICY
    text = "Redis gives up after thirty seconds in staging."
    bench.write("MEMORY.md", f"# One\n<!-- memory: {{topic: redis}} -->\n\n{text}\n")
    bench.write(".memories/two.md", f"# Two\n\n{text}\n\n## Three\n\nApples are ripe.\n")
    bench.rebuild()
    answer = ask(bench, topic="redis")
    assert [section.anchor for section in answer.sections] == [".memories/two.md#two"]
    assert answer.semantic == "off"


def test_the_nearest_are_as_many_as_wanted_and_the_most_similar(garage: Any) -> None:
    for text, least in (("driving", 5), ("The physician has bread for the vehicle.", 2)):
        every = ask(garage, text=text, min_similarity=0.0, limit=200).sections
        assert len(every) >= least
        for n in range(1, len(every) + 2):
            assert ask(garage, text=text, nearest=n).sections == every[:n]
        garage.workspace.vectors.of.clear()  # then words are compared
    with pytest.raises(BadRequest, match="no least similarity"):
        ask(garage, text="driving", nearest=3, min_similarity=0.1)


def test_the_topics_near_to_a_topic_are_results(bench: Any) -> None:
    bench.config = SEARCH_POLICY
    texts = {
        "redis": ("The pool of redis waits for free sockets.", "A timeout of redis is a payment."),
        "postgres": ("The pool of postgres waits for free sockets.", "Rows are locked in sqlite."),
        "garden": ("The sockets of the garden are free.", "A vehicle carries the soil."),
        "music": ("A violin has four strings.", "Drums are loud."),
    }
    parts = [
        f"## {topic} {number}\n<!-- memory: {{topic: {topic}}} -->\n\n{text}\n\n"
        for topic, several in texts.items()
        for number, text in enumerate(several)
    ]
    bench.write(".memories/log.md", "# Log\n\n" + "".join(parts))
    bench.rebuild()
    nearest = ask(bench, topic="Redis", nearest=5).topics
    assert [topic.topic for topic in nearest][:2] == ["postgres", "garden"]
    assert [topic.n_sections for topic in nearest][:2] == [2, 2]
    assert nearest[0].anchor == ".memories/log.md#log/postgres-0"
    assert nearest[0].similarity > nearest[1].similarity
    assert [topic.topic for topic in ask(bench, topic="redis").topics] == [
        topic.topic for topic in nearest if topic.similarity >= 0.3
    ]
    assert len(ask(bench, topic="redis", nearest=1).topics) == 1
    assert ask(bench, text="pool", nearest=3).topics == []
    bench.workspace.vectors = ConceptVectors(bench.workspace)
    nearest = ask(bench, topic="postgres", nearest=9).topics
    assert {topic.topic for topic in nearest} == {"redis", "garden", "music", "Log"}
    similarities = [topic.similarity for topic in nearest]
    assert similarities == sorted(similarities, reverse=True)


COPY = "The connection pool of the service waits for thirty seconds and then gives up at once."


def test_near_copies_are_grouped_the_longest_first_and_nothing_changes(bench: Any) -> None:
    bench.config = SEARCH_POLICY
    bench.write("MEMORY.md", f"# Pool\n\n{COPY}\n\n# Apples\n\nApples are ripe in September.\n")
    bench.write(".memories/pool.md", f"# Pool\n\n{COPY} Seen in staging.\n")
    bench.write(".memories/old.md", f"---\nstatus: archived\n---\n# Pool\n\n{COPY}\n")
    bench.rebuild()
    before = bench.workspace.condition.generation
    groups = plan(bench)
    [group] = groups.groups
    assert [section.anchor for section in group.sections] == [
        ".memories/pool.md#pool",
        "MEMORY.md#pool",
    ]
    assert [section.similarity for section in group.sections] == [1.0, group.similarity]
    assert (group.sections[1].start_line, group.sections[1].end_line) == (1, 4)
    assert group.similarity > 0.7
    assert group.cosine is None
    assert groups.n_groups == 1
    assert "memsyncd archive" in groups.how_to_merge
    assert bench.workspace.condition.generation == before
    assert plan(bench, filters=Filters(path=["MEMORY.md"])).groups == []
    assert plan(bench, min_similarity=0.99).groups == []


def test_vectors_find_copies_in_other_words(garage: Any) -> None:
    first = "The automobile must be repaired in the garage before winter comes."
    other = "The vehicle must get a repair at the garage before the winter."
    garage.fill({".memories/x.md": f"# X\n\n{first}\n", ".memories/y.md": f"# Y\n\n{other}\n"})
    assert plan(garage, min_similarity=0.7).groups == []
    garage.workspace.vectors = ConceptVectors(garage.workspace)
    groups = plan(garage, min_similarity=0.7)
    [group] = groups.groups
    assert {section.anchor for section in group.sections} == {
        ".memories/x.md#x",
        ".memories/y.md#y",
    }
    assert group.cosine is not None
    assert group.cosine > 0.9
    assert groups.semantic == "ready"


def test_notes_are_compared_in_steps_that_tell_how_far_they_are_and_end_with_the_request(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.config = SEARCH_POLICY
    for number in range(5):
        bench.write(f".memories/{number}.md", f"# Note {number}\n\n{TEXT}\n")
    bench.rebuild()
    monkeypatch.setattr(similar, "NOTES_PER_READ", 2)
    token, notices = CancellationToken(), []
    set_notice = bench.workspace.set_notice

    def note(code: str, text: str) -> None:
        if code == similar.PLAN_NOTICE:
            notices.append(text)
        set_notice(code, text)
        if text == "reading notes: 2 of 5":
            # A save is indexed between two steps.
            bench.write(".memories/4.md", "# Note 4\n\nIt is another text now.\n")
            bench.sync()

    monkeypatch.setattr(bench.workspace, "set_notice", note)
    [group] = token.run(lambda: plan(bench)).groups
    assert [section.path for section in group.sections] == [
        f".memories/{number}.md" for number in range(4)
    ]
    progress = [*(f"reading notes: {n} of 5" for n in (0, 2, 4)), "comparing: 0 of 5"]
    assert [*dict.fromkeys(notices)] == [*progress, ""]
    assert not bench.workspace.condition.notices
    token.cancel()
    with pytest.raises(NotFresh):
        token.run(lambda: plan(bench))
    assert not bench.workspace.condition.notices


def test_each_part_of_a_comparison_asks_often_whether_its_client_is_still_there() -> None:
    finder, steps = CopyFinder(0.7), []
    for number in range(5 * TEXTS_A_STEP):
        finder.add(find_features(" ".join(f"word{(number + at) % 90}" for at in range(20))))
    finder.find(steps.append)
    assert len(steps) > 2 * 5
    assert steps == sorted(steps)


def test_a_large_group_names_its_longest_sections_and_counts_all(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.config = SEARCH_POLICY
    for number in range(5):
        bench.write(f".memories/{number}.md", f"# Note {number}\n\n{TEXT}\n")
    bench.rebuild()
    whole = plan(bench).groups[0]
    monkeypatch.setattr(similar, "MAX_COPIES", 2)
    [group] = plan(bench).groups
    assert (group.sections, group.n_sections) == (whole.sections[:2], 5)


def test_two_thousand_sections_are_not_too_many(bench: Any) -> None:
    bench.config = SEARCH_POLICY
    sections = "".join(f"## Part {n}\n\nEntry {n} alone.\n\n" for n in range(2_001))
    bench.write("MEMORY.md", f"# Log\n\n{sections}## Timeout\n\n{TEXT}\n\n## Again\n\n{TEXT}\n")
    bench.rebuild()
    [group] = plan(bench, min_similarity=0.9).groups
    assert {section.anchor for section in group.sections} == {
        "MEMORY.md#log/timeout",
        "MEMORY.md#log/again",
    }


def test_what_nearly_exists_is_found_by_its_rarest_words_among_many_sections(bench: Any) -> None:
    common = "".join(
        f"## Note {n}\n\nThe service restarts when the pool number {n} waits.\n\n"
        for n in range(250)
    )
    bench.write(".memories/many.md", f"# Many\n\n{common}")
    fact = "The pool waits at most 25 s, since Redis gives up after 30 s."
    bench.write(".memories/redis.md", f"# Redis\n\n## Timeouts\n\n{fact}\n")
    old = "---\nstatus: archived\n---\n# Old\n\n## Timeouts\n\n"
    bench.fill({".memories/old.md": f"{old}{fact}\n"})
    find = partial(find_nearly_same, bench.workspace, config=bench.config, now_s=1.0, limit=5)
    again = fact.replace("at most", "no more than")
    assert [section.anchor for section in find(text=again)] == [".memories/redis.md#redis/timeouts"]
    assert find(text="The service restarts when Redis waits for apples and pears.") == []
    (same, *_) = find(text="The service restarts when the pool number 7 waits.")
    assert same.heading == ["Many", "Note 7"]
    assert find(text="!? ...") == []
    strict = replace(bench.config, memory=MemoryConfig(similar_from=1.0))
    assert find(text=again, config=strict) == []


def test_no_statement_waits_while_all_vectors_are_compared(
    garage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_held = 0
    acquire, pairs = garage.workspace.acquire, garage.workspace.vectors.pairs
    found: list[Any] = []

    @contextlib.contextmanager
    def count_held(seconds: float) -> Iterator[Any]:
        nonlocal n_held
        with acquire(seconds) as reader:
            n_held += 1
            yield reader
            n_held -= 1

    def find_pairs(at_least: float, limit: int) -> Any:
        assert n_held == 0  # its time limit would run
        found.append(pairs(at_least, limit))
        return found[-1]

    monkeypatch.setattr(garage.workspace, "acquire", count_held)
    monkeypatch.setattr(garage.workspace.vectors, "pairs", find_pairs)
    assert plan(garage).semantic == "ready"
    assert len(found) == 1
