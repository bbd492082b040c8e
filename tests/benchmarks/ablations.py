"""Switch off one ranking parameter at a time and measure what the answers lose.

`ABLATIONS` lists every parameter that decides the order of answers. An ablation replaces constants
of modules for the time of a `with`; the engine runs in this process and answers as over a socket.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import msgspec

from memsyncd.config import Config, SearchConfig
from memsyncd.core.search import dates, passages, query, words
from memsyncd.core.search.ranking import DEFAULT_RANKING
from memsyncd.engine import candidates, context, search
from memsyncd.engine.workspace import Workspace
from memsyncd.store import search as store_search
from tests.benchmarks.in_process import find_lines, find_shown, open_indexed
from tests.benchmarks.measures import find_mean, measure_answer
from tests.benchmarks.questions import Question, QuestionSet

# Any positive number below a day: a question's date then fits notes of that very day alone.
SAME_DAY = 0.5
FEW_CANDIDATES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """One parameter switched off.

    `constants` are new values by module and name, `ranking` of fields of `RankingPolicy`, `config`
    of fields of `SearchConfig`. `is_search` and `is_context` tell which answers are measured.
    `category` is that of our own questions which need the parameter.
    """

    name: str
    category: str
    constants: tuple[tuple[ModuleType, str, object], ...] = ()
    ranking: Mapping[str, float] = field(default_factory=dict)
    config: Mapping[str, int] = field(default_factory=dict)
    is_search: bool = True
    is_context: bool = True

    @contextlib.contextmanager
    def apply(self) -> Iterator[Config]:
        """Replace the constants and yield the configuration to ask with."""
        ranking = msgspec.structs.replace(DEFAULT_RANKING, **self.ranking)
        rankings = [(module, "DEFAULT_RANKING", ranking) for module in (search, context)]
        constants = (*rankings, *self.constants)
        before = [(module, name, getattr(module, name)) for module, name, _ in constants]
        try:
            for module, name, value in constants:
                setattr(module, name, value)
            yield Config(search=SearchConfig(**self.config))
        finally:
            for module, name, value in before:
                setattr(module, name, value)


def _weigh_columns(heading: float, tags: float, parts: float) -> tuple[ModuleType, str, object]:
    weights = f"{heading}, {store_search.TEXT_WEIGHT}, {tags}, {parts}"
    return store_search, "_WEIGHTS", weights


_HEADING, _TAGS, _PARTS = (
    store_search.HEADING_WEIGHT,
    store_search.TAGS_WEIGHT,
    store_search.SUBWORDS_WEIGHT,
)
_FEW = (
    (search, "N_CANDIDATES", FEW_CANDIDATES),
    (context, "N_CONTEXT_CANDIDATES", FEW_CANDIDATES),
)

ABLATIONS = (
    Ablation(
        name="heading weight", category="topic", constants=(_weigh_columns(0, _TAGS, _PARTS),)
    ),
    Ablation(
        name="tags weight", category="tagged", constants=(_weigh_columns(_HEADING, 0, _PARTS),)
    ),
    Ablation(
        name="parts weight", category="split-name", constants=(_weigh_columns(_HEADING, _TAGS, 0),)
    ),
    Ablation(name="family weight", category="family", constants=((words, "FAMILY_WEIGHT", 0.0),)),
    Ablation(
        name="family weight, other languages",
        category="inflected",
        constants=((words, "FAMILY_WEIGHT", 0.0),),
    ),
    Ablation(
        name="families of words that are in a note",
        category="word-elsewhere",
        constants=((candidates, "FAMILY_OWN_CHUNKS", 0),),
    ),
    Ablation(name="shared part", category="long-family", constants=((words, "SHARED_PART", 0.0),)),
    Ablation(
        name="shared letters",
        category="five-letters",
        constants=((words, "SHARED_LETTERS", 0),),
    ),
    Ablation(
        name="letters of a family", category="short-word", constants=((words, "MIN_LETTERS", 0),)
    ),
    Ablation(
        name="stopwords of languages",
        category="stopwords",
        constants=((query, "MIN_LANGUAGE_WORDS", 1_000),),
    ),
    Ablation(
        name="whole names of code",
        category="whole-name",
        constants=((words, "IDENTIFIER_WEIGHT", 0.0),),
    ),
    Ablation(
        name="chunks with whole names of code",
        category="whole-name",
        constants=((candidates, "IDENTIFIER_CHUNKS", 0),),
    ),
    Ablation(name="exact", category="same-stem", ranking={"exact": 0.0}),
    Ablation(name="note in search", category="same-note", ranking={"note": 0.0}, is_context=False),
    Ablation(
        name="note in context",
        category="same-note",
        constants=((context, "NOTE_FACTOR", 0.0),),
        is_search=False,
    ),
    Ablation(
        name="note factor 1",
        category="same-note",
        constants=((context, "NOTE_FACTOR", 1.0),),
        is_search=False,
    ),
    Ablation(name="neighbour bonus", category="next-paragraph", ranking={"neighbour_bonus": 0.0}),
    Ablation(name="day", category="day", ranking={"day": 0.0}),
    Ablation(name="later days", category="weekend", constants=((dates, "LATER_DAYS", SAME_DAY),)),
    Ablation(
        name="20 candidates",
        category="day",
        constants=(*_FEW, (search, "CANDIDATES_PER_HIT", 0)),
    ),
    Ablation(
        name="200 candidates",
        category="busy-day",
        constants=((search, "N_CANDIDATES", 200), (search, "CANDIDATES_PER_HIT", 0)),
        is_context=False,
    ),
    Ablation(
        name="passage tokens", category="tagged", config={"passage_tokens": 0}, is_context=False
    ),
    Ablation(
        name="words share",
        category="said-by",
        constants=((passages, "WORDS_SHARE", 0.0),),
        is_search=False,
    ),
    Ablation(
        name="lead share",
        category="said-by",
        constants=((passages, "LEAD_SHARE", 0.0),),
        is_search=False,
    ),
    # With a share of 1 only the strongest chunks are split; a share of 0 costs time alone.
    Ablation(
        name="strong share 1",
        category="said-by",
        constants=((passages, "STRONG_SHARE", 1.0),),
        is_search=False,
    ),
)
# Of searches with vectors.
SEMANTIC_ABLATIONS = (
    Ablation(name="semantic", category="german", ranking={"semantic": 0.0}),
    Ablation(name="semantic, other languages", category="chinese", ranking={"semantic": 0.0}),
    Ablation(name="nearest chunks", category="german", constants=((candidates, "N_NEAREST", 0),)),
    Ablation(name="fused day", category="day", ranking={"fused_day": 0.0}),
    Ablation(name="fused later", category="busy-day", ranking={"fused_later": 1.0}),
    Ablation(name="fused day as day", category="day", ranking={"fused_day": DEFAULT_RANKING.day}),
)
NO_ABLATION = Ablation(name="as it is", category="")

SEARCH_NAMES = ("R@5", "MRR", "T@1000")
CONTEXT_NAMES = ("T@500", "T@1000")
# More than the largest of the budgets, as labels take room as well.
CONTEXT_TOKENS = 3000

Figures = dict[str, list[float]]


def print_ablations(question_set: QuestionSet) -> None:
    """Print what each ablation changes, in points of a hundred."""
    measured = measure_ablations(question_set, (NO_ABLATION, *ABLATIONS))
    names = [f"search {name}" for name in SEARCH_NAMES] + [f"context {n}" for n in CONTEXT_NAMES]
    means = {
        ablation: {name: find_mean(values) for name, values in figures.items()}
        for ablation, figures in measured.items()
    }
    whole = means[NO_ABLATION.name]
    print(f"\n{question_set.name}: {len(question_set.questions)} questions\n")
    print(f"| | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    print(f"| as it is | {' | '.join(f'{whole[name]:.3f}' for name in names)} |")
    for ablation in ABLATIONS:
        row = means[ablation.name]
        cells = [f"{100 * (row[n] - whole[n]):+.2f}" if n in row else "–" for n in names]
        print(f"| {ablation.name} | {' | '.join(cells)} |")


def measure_ablations(
    question_set: QuestionSet, ablations: Sequence[Ablation]
) -> dict[str, Figures]:
    """The figures of every question, by the ablation's name and the figure's."""
    measured: dict[str, Figures] = {ablation.name: {} for ablation in ablations}
    for scope, notes in question_set.notes.items():
        questions = [question for question in question_set.questions if question.scope == scope]
        with (
            tempfile.TemporaryDirectory() as folder,
            open_indexed(question_set, scope, Path(folder)) as workspace,
        ):
            for ablation in ablations:
                for name, values in _measure(workspace, ablation, questions, notes).items():
                    measured[ablation.name].setdefault(name, []).extend(values)
    return measured


def _measure(
    workspace: Workspace,
    ablation: Ablation,
    questions: Sequence[Question],
    notes: Mapping[str, Sequence[str]],
) -> Figures:
    figures: Figures = {}
    with ablation.apply() as config:
        for question in questions:
            if ablation.is_search:
                found = find_lines(workspace, question, config)
                values = measure_answer(found, question.evidence, notes)
                for name in SEARCH_NAMES:
                    figures.setdefault(f"search {name}", []).append(values[name])
            if ablation.is_context:
                shown = find_shown(workspace, question, config, max_tokens=CONTEXT_TOKENS)
                values = measure_answer(shown, question.evidence, notes)
                for name in CONTEXT_NAMES:
                    figures.setdefault(f"context {name}", []).append(values[name])
    return figures
