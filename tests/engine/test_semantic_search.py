"""What vectors add to the answers of `search`, `context` and `similar`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from memsyncd.errors import NotFresh
from memsyncd.operations.search.declare import SearchAnswer
from memsyncd.operations.sections import Filters
from tests.engine.concepts import ConceptVectors, PendingQuestion
from tests.engine.conftest import SEARCH_POLICY, Bench, build_block, search_in

NOTES = {
    "MEMORY.md": "# Garage\n\nThe automobile needs new tyres.\n",
    ".memories/health.md": "# Health\n\nThe physician is in on Mondays.\n",
    ".memories/plans.md": "# Plans\n\nA car is a plan, and a car is a car.\n",
    ".memories/quotes.md": "# Quotes\n\nThey said: the best car ever.\n",
    ".memories/misc.md": "# Misc\n\nGreen paint dries slowly.\n\n## Other\n\nSay hello.\n",
    ".memories/old.md": "---\nstatus: archived\n---\n# Old\n\nThe vehicle was sold.\n",
}


@pytest.fixture
def garage(make_bench: Callable[..., Bench]) -> Bench:
    return open_garage(make_bench)


def open_garage(make_bench: Callable[..., Bench]) -> Bench:
    bench = make_bench()
    bench.config = SEARCH_POLICY
    bench.open()
    for path, text in NOTES.items():
        bench.write(path, text)
    bench.rebuild()
    bench.workspace.vectors = ConceptVectors(bench.workspace)
    return bench


def ask(bench: Bench, query: str, **more: Any) -> SearchAnswer:
    return search_in([bench.workspace], query, **more)


def list_paths(found: SearchAnswer) -> list[str]:
    return [hit.path for hit in found.hits]


def test_a_chunk_without_any_word_of_the_question_is_found_and_says_so(garage: Bench) -> None:
    answer = ask(garage, "vehicle")
    assert {"MEMORY.md", ".memories/plans.md", ".memories/quotes.md"} == {*list_paths(answer)[:3]}
    assert answer.semantic == "ready"
    assert [hit.matched for hit in answer.hits[:3]] == [[], [], []]
    hit = next(hit for hit in answer.hits if hit.path == "MEMORY.md")
    assert hit.snippet == "The automobile needs new tyres."
    assert answer.hits[0].score == pytest.approx(answer.hits[0].explain["cosine"], abs=0.001)  # type: ignore[index]
    assert answer.relaxed


def test_words_and_vector_add_up_and_are_explained(garage: Bench) -> None:
    answer = ask(garage, "car tyres")
    assert answer.hits[0].path == "MEMORY.md"
    assert answer.hits[0].matched == ["tyres"]
    parts = answer.hits[0].explain
    assert parts is not None
    assert parts["stems"] > 0
    assert parts["semantic"] > 0
    assert 0 < parts["cosine"] <= 1


def test_filters_apply_to_what_vectors_find(garage: Bench) -> None:
    assert ".memories/old.md" not in list_paths(ask(garage, "automobile"))
    archived = ask(garage, "automobile", filters=Filters(archived=True))
    assert list_paths(archived) == [".memories/old.md"]
    in_plans = ask(garage, "automobile", filters=Filters(path=["plans.md"]))
    assert list_paths(in_plans) == [".memories/plans.md"]
    assert ".memories/quotes.md" not in list_paths(ask(garage, "vehicle -ever"))


def test_the_day_that_a_question_names_outweighs_what_is_near(garage: Bench) -> None:
    garage.write(".memories/20240925.md", "# Log\n\nSkipper Oddvar, a calm morning.\n")
    garage.write(".memories/20241003.md", "# Log\n\nSkipper Runa, automobile aboard.\n")
    garage.sync()
    garage.workspace.vectors = ConceptVectors(garage.workspace)
    question = "skipper with the vehicle on 25 September 2024"
    assert list_paths(ask(garage, question))[0] == ".memories/20240925.md"
    block = build_block(garage.workspace, question)
    assert block.included[0].path == ".memories/20240925.md"
    assert list_paths(ask(garage, "skipper with the vehicle"))[0] == ".memories/20241003.md"


def test_a_phrase_in_a_sentence_comes_first_and_vectors_fill_up(garage: Bench) -> None:
    paths = list_paths(ask(garage, 'who had the "best car" or vehicle'))
    assert paths[0] == ".memories/quotes.md"
    assert "MEMORY.md" in paths


@pytest.mark.parametrize("query", ["car", "the best car ever", "physician", "kind:error", "hello"])
def test_without_vectors_in_time_words_decide_alone_and_the_answer_says_so(
    garage: Bench, query: str
) -> None:
    vectors = garage.workspace.vectors
    assert isinstance(vectors, ConceptVectors)
    vectors.is_late = True
    late = ask(garage, query)
    assert (late.semantic, late.semantic_pending) == ("off", 0)
    bench_without = type(garage.workspace)(
        garage.workspace.entry, garage.config, index_path=garage.root, records_path=garage.root
    )
    garage.workspace.vectors = bench_without.vectors
    assert late.semantic_reason == (None if query == "kind:error" else "it is late")
    assert ask(garage, query) == msgspec.structs.replace(late, semantic_reason=None)


def test_an_answer_says_how_many_chunks_have_no_vector_yet(garage: Bench) -> None:
    garage.workspace.vectors = ConceptVectors(garage.workspace, only=["automobile", "physician"])
    pending = garage.workspace.vectors.status().pending
    assert pending > 0
    answer = ask(garage, "vehicle")
    assert (answer.semantic, answer.semantic_pending) == ("partial", pending)
    assert list_paths(answer)[0] == "MEMORY.md"
    # Without a vector, its words still find a chunk.
    assert ".memories/plans.md" in list_paths(ask(garage, "plan"))
    block = build_block(garage.workspace, "vehicle")
    assert (block.semantic, block.semantic_pending) == ("partial", pending)


def test_a_note_without_a_vector_yet_keeps_the_place_that_its_words_give_it(garage: Bench) -> None:
    garage.write(".memories/new.md", "# New\n\nThe tyres of the car are flat.\n")
    garage.rebuild()
    garage.workspace.vectors = ConceptVectors(garage.workspace, only=["automobile", "physician"])
    answer = ask(garage, "car tyres")
    assert answer.semantic == "partial"
    assert list_paths(answer)[0] == ".memories/new.md"


def test_what_is_not_near_and_what_is_a_heading_alone_is_not_found(garage: Bench) -> None:
    garage.fill(
        {".memories/vehicles.md": "# Vehicle\n\n## Automobile\n\nOld tyres are in the shed.\n"}
    )
    garage.workspace.vectors = ConceptVectors(garage.workspace)
    assert "Vehicle" not in [hit.snippet for hit in ask(garage, "driving").hits]
    nothing = garage.workspace.vectors
    nothing.of = dict.fromkeys(nothing.of, (0.0, 0.0, 1.0, 0.0, 0.0, 0.0))
    answer = ask(garage, "vehicle quux")
    assert [hit.path for hit in answer.hits] == [".memories/vehicles.md"]
    nothing.of[min(nothing.of)] = (0.0, 0.1, 1.0, 0.0, 0.0, 0.0)
    assert ask(garage, "physician-quux quux").hits == []


def test_a_mistyped_word_is_suggested_though_vectors_find_something(garage: Bench) -> None:
    answer = ask(garage, "phisician")
    assert answer.hits
    assert answer.did_you_mean == "physician"


def test_filters_alone_ask_no_vectors(garage: Bench) -> None:
    answer = ask(garage, "path:plans.md")
    assert list_paths(answer) == [".memories/plans.md"]
    assert answer.semantic == "off"


def test_a_search_on_the_event_loop_does_not_wait_for_vectors(garage: Bench) -> None:
    with pytest.raises(NotFresh):
        ask(garage, "automobile", is_hurried=True)


def test_a_context_includes_what_only_vectors_find(garage: Bench) -> None:
    block = build_block(garage.workspace, "vehicle")
    assert "The automobile needs new tyres." in block.text
    assert "sold" not in block.text
    assert block.semantic == "ready"
    assert block.unranked == 0


class SavingVectors(ConceptVectors):
    """Vectors for which a note is saved, and the index replaced, whenever a question is begun."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.workspace)
        self._bench = bench
        self.saved: list[str] = []

    def begin(self, question: str) -> PendingQuestion:
        self.saved.append(f".memories/saved-{len(self.saved)}.md")
        text = f"# Saved\n\nThe best car is a new vehicle, number {len(self.saved)}.\n"
        self._bench.write(self.saved[-1], text)
        self._bench.rebuild()
        return super().begin(question)


# With a phrase a question is begun twice: as it is, and relaxed.
@pytest.mark.parametrize(("query", "n_begun"), [("new vehicle", 1), ('new "best bike" vehicle', 2)])
def test_a_question_is_begun_before_the_index_is_read(
    garage: Bench, query: str, n_begun: int
) -> None:
    garage.workspace.vectors = vectors = SavingVectors(garage)
    results = {*list_paths(ask(garage, query))}
    assert len(vectors.saved) == n_begun
    assert results >= {*vectors.saved}
    block = build_block(garage.workspace, query)
    assert len(vectors.saved) == 2 * n_begun
    assert {part.path for part in block.included} >= {*vectors.saved}


def test_several_workspaces_compare_words_and_vectors(make_bench: Callable[..., Bench]) -> None:
    one, other = open_garage(make_bench), make_bench("other")
    other.config = SEARCH_POLICY
    other.open()
    other.write("MEMORY.md", "# Boat\n\nThe invoice for the budget.\n\n# Tyres\n\nNo tyres.\n")
    other.rebuild()
    other.workspace.vectors = ConceptVectors(other.workspace)
    answer = search_in([one.workspace, other.workspace], "vehicle")
    assert answer.semantic == "ready"
    best = answer.hits[0]
    assert best.workspace == one.workspace.id
    # A section that is not near in the other workspace is not lifted by being the nearest there.
    others = [hit.score for hit in answer.hits if hit.workspace == other.workspace.id]
    assert all(score < best.score / 2 for score in others)
    answer = search_in([one.workspace, other.workspace], "invoice")
    assert answer.hits[0].workspace == other.workspace.id
