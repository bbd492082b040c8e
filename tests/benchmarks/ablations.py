"""Switch off one ranking parameter at a time, so that the gate of our own questions must fail.

`ABLATIONS` lists every parameter that decides the order of answers. An ablation replaces constants
of modules for the time of a `with`; the engine runs in this process and answers as over a socket.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType

import msgspec

from memsyncd.config import Config, SearchConfig
from memsyncd.core.search import dates, passages, query, words
from memsyncd.core.search.ranking import DEFAULT_RANKING
from memsyncd.engine import candidates, context, plan, search
from memsyncd.store import candidates as word_candidates
from memsyncd.store import search as store_search

# Any positive number below a day: a question's date then fits notes of that very day alone.
SAME_DAY = 0.5
FEW_CANDIDATES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """One parameter switched off.

    `constants` are new values by module and name, `ranking` of fields of `RankingPolicy`, `config`
    of fields of `SearchConfig`. `is_search` and `is_context` tell which answers are measured.
    `category` names the questions of our own set that need the parameter.
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
        rankings = [(module, "DEFAULT_RANKING", ranking) for module in (plan, search, context)]
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
    weights = f"{store_search.TEXT_WEIGHT}, {heading}, {tags}, {parts}"
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
        constants=((word_candidates, "FAMILY_OWN_CHUNKS", 0),),
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
        name="words in a row",
        category="in-a-row",
        constants=((word_candidates, "RUN_WEIGHT", 0.0),),
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
        name="passage tokens", category="crowded", config={"passage_tokens": 0}, is_context=False
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
# For searches with vectors.
SEMANTIC_ABLATIONS = (
    Ablation(name="semantic", category="german", ranking={"semantic": 0.0}),
    Ablation(name="semantic, other languages", category="chinese", ranking={"semantic": 0.0}),
    Ablation(name="nearest chunks", category="german", constants=((candidates, "N_NEAREST", 0),)),
    Ablation(name="fused day", category="day", ranking={"fused_day": 0.0}),
    Ablation(name="fused later", category="busy-day", ranking={"fused_later": 1.0}),
    Ablation(name="fused day as day", category="day", ranking={"fused_day": DEFAULT_RANKING.day}),
)
NO_ABLATION = Ablation(name="as it is", category="")

# More than the largest of the budgets, because labels take room as well.
