"""The plan of a search: everything that the search of one workspace depends on, made once.

The store finds candidates by it, the ranking scores them, and an empty answer is explained by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.core.search.filters import Filters
from memsyncd.core.search.passages import RunFinder
from memsyncd.core.search.query import (
    Form,
    Query,
    Term,
    compile_must_not,
    compile_positive,
    compile_spellings,
    compile_term,
)
from memsyncd.core.search.ranking import RankingPolicy
from memsyncd.core.search.words import is_unspaced


class Excluded(NamedTuple):
    """The FTS5 expression for the chunks that a query excludes, empty if it excludes none, and the
    chunks that the search finds although they match this expression.
    """

    match: str = ""
    spared: Sequence[int] = ()


NOTHING_EXCLUDED = Excluded()


class PlannedTerm(NamedTuple):
    """A term to look for, with the FTS5 expressions of its spellings and of all of them together.

    `family_word` is the word whose related words count as well, empty if none do.
    """

    term: Term
    spellings: Sequence[str]
    match: str
    family_word: str
    form: Form
    words: str
    """The words of the term, joined by blanks."""
    spelling: str
    """The words of its other spelling; empty if it has none."""


class SearchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a search or a context.

    `text` is the query as typed, `match` the FTS5 expression that ranks. `filters` are all filters
    that must hold, with the filters of the query. `has_conditions` is False without any filter.
    """

    text: str
    query: Query
    terms: tuple[PlannedTerm, ...]
    match: str
    must_not: Excluded
    filters: Filters
    has_conditions: bool
    asks_for_metadata: bool
    """True if the filters select by more than the place of a section."""
    ranking: RankingPolicy

    timeout_s: float
    """The time that the request may take."""
    is_hurried: bool
    """Raise NotFresh at once if there is much to look up, to find hits or to explain why there are
    none."""
    now_s: float
    """Seconds since 1970."""
    accesses: Mapping[str, int]
    """How often each section was accessed, by anchor: worth depends on it."""
    absent: frozenset[tuple[str, str]]
    """Notes that a fresh scan no longer found: workspace ids and paths."""
    fingerprint: str
    """The fingerprint of an index that is made as configured."""
    is_masking: bool
    """True if secrets are masked in the answer."""
    is_boosted: bool
    """True if importance, recency or decay count in the ranking."""
    finder: RunFinder
    """Finds words of the question in a row."""

    pending: Any = None
    """The cosines of the question, while it is being embedded: a `semantic.PendingCosines`."""
    lexical_reason: str = ""
    """Why vectors take no part; None if they do, or if semantic search is switched off."""
    relaxed: SearchPlan | None = None
    """The plan for notes that lack a phrase of a sentence; None for phrases alone."""

    @property
    def is_empty(self) -> bool:
        """True if there is neither a word to search for nor a filter."""
        return not (self.terms or self.has_conditions)

    def is_absent(self, workspace_id: str, path: str) -> bool:
        return (workspace_id, path) in self.absent

    def hurry(self, timeout_s: float) -> SearchPlan:
        """Return the plan of a hurried search, which may take this time."""
        relaxed = self.relaxed.hurry(timeout_s) if self.relaxed else None
        return replace(self, is_hurried=True, timeout_s=timeout_s, relaxed=relaxed)

    def spare(self, chunks: Sequence[int]) -> SearchPlan:
        """Return the plan that excludes none of these chunks."""
        must_not = self.must_not._replace(spared=chunks)
        relaxed = self.relaxed.spare(chunks) if self.relaxed else None
        return replace(self, must_not=must_not, relaxed=relaxed)


def plan_search(
    text: str, query: Query, filters: Filters, ranking: RankingPolicy, **limits: Any
) -> SearchPlan:
    """Compile a parsed query and all of its filters. `limits` are further fields of the plan."""
    plan = SearchPlan(
        text=text,
        query=query,
        terms=_plan_terms(query),
        match=compile_positive(query),
        must_not=Excluded(compile_must_not(query)) if query.must_not else NOTHING_EXCLUDED,
        filters=filters,
        has_conditions=not filters.is_empty,
        asks_for_metadata=filters.asks_for_metadata,
        ranking=ranking,
        finder=RunFinder(
            query.plain_text, [word for term in query.positive for word in term.words]
        ),
        **limits,
    )
    relaxed = query.relaxed
    if relaxed is None:
        return plan
    # The terms are the same, in the same order.
    return replace(plan, relaxed=replace(plan, query=relaxed, match=compile_positive(relaxed)))


def _plan_terms(query: Query) -> tuple[PlannedTerm, ...]:
    return tuple(
        PlannedTerm(
            term,
            compile_spellings(term),
            compile_term(term),
            _find_family_word(term, query),
            term.form,
            " ".join(term.words),
            term.spelling,
        )
        for term in query.positive
    )


def _find_family_word(term: Term, query: Query) -> str:
    if term.form is not Form.WORD or len(term.words) != 1 or is_unspaced(term.words[0]):
        return ""
    word = term.words[0]
    # A name of code has no relatives.
    return "" if word.lower() in query.identifiers else word
