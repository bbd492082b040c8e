"""How does a query become hits?

Parse, compile, fetch candidates, rank and join them, read what is shown, light the matched words. A
query runs against one committed generation; notes that a fresh scan did not find any more
(`hidden`) are left out though the index still has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memsyncd.core.model import Span
from memsyncd.core.search.highlight import (
    Matcher,
    TermPattern,
    TextRange,
    render_snippet,
    sort_ranges,
    strip_title,
    to_character_ranges,
)
from memsyncd.core.search.query import (
    NO_FILTERS,
    Filters,
    Form,
    Query,
    Term,
    compile_must_not,
    compile_positive,
    compile_term,
    drop_terms,
    parse_query,
)
from memsyncd.core.search.ranking import (
    N_CANDIDATES,
    Passage,
    Ranked,
    apply_boosts,
    join_passages,
    normalize_scores,
    rank_candidates,
)
from memsyncd.core.search.words import find_subword_ranges
from memsyncd.engine.explain import Question, explain_nothing
from memsyncd.engine.masking import mask_sections, mask_texts
from memsyncd.engine.policies import SearchPolicy
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NotFresh
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    HitSection,
    find_candidates,
    find_filtered,
    find_matching,
    is_frequent,
    read_ranking_features,
    read_sections,
    read_texts,
)

LARGE_INDEX_CHUNKS = 8_000
"""From here on a common word costs milliseconds: FTS5 ranks every chunk that holds it."""
HURRIED_LOOKUPS = 40_000
"""Terms times chunks: a search for more takes longer than a hurry allows, more often than not."""
CANDIDATES_A_HIT = 10
"""Neighbours join into passages: many hits need many more chunks to be made of."""

READ_S = 1.0
"""For reading the hits that were found in a hurry. Some milliseconds do; this is for a disk that
hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One search. `hidden` are notes that must not be shown: workspace ids and paths. `now_s` is
    seconds since 1970.

    `is_hurried`: raise NotFresh at once if there is much to look up, and rather than take the time
    to say why there is no hit. The time is then for finding alone: to read what was found never
    takes long.
    """

    query: str
    filters: Filters = NO_FILTERS
    limit: int = 10
    min_score: float = 0.0
    timeout_s: float = 1.0
    hidden: frozenset[tuple[str, str]] = frozenset()
    is_hurried: bool = False
    now_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One passage of an answer. `matched` are the words as typed that it holds."""

    workspace: Workspace
    section: HitSection
    path: str
    span: Span
    snippet: str
    strength: float
    score: float
    matched: tuple[str, ...]
    parts: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An answer. `is_relaxed` if no hit holds every word; `why_empty` says why there is none,
    `did_you_mean` what finds one.
    """

    hits: tuple[Hit, ...]
    is_relaxed: bool
    why_empty: str | None
    did_you_mean: str | None = None


def search(workspaces: Sequence[Workspace], asked: Asked, policy: SearchPolicy) -> Found:
    """Search one workspace, or several as one. Raises TooLarge, NotFresh (out of time), and as
    `Workspace.lend`.
    """
    query = parse_query(asked.query)
    asked = replace(asked, filters=asked.filters.join(query.filters))
    if (
        asked.is_hurried
        and len(query.positive) * sum(w.condition.counts.chunks for w in workspaces)
        > HURRIED_LOOKUPS
    ):
        raise NotFresh("there is more to look up than can be done in a hurry")
    is_asked = bool(query.positive) or not asked.filters.is_empty
    hits = [
        hit
        for workspace in workspaces
        if is_asked
        for hit in _search_one(workspace, query, asked, policy)
    ]
    if not hits:
        if asked.is_hurried:
            raise NotFresh("there is no hit, and no time to say why")
        question = Question(
            text=asked.query, query=query, filters=asked.filters, hidden=asked.hidden
        )
        nothing = explain_nothing(workspaces, question, asked.timeout_s)
        return Found(hits=(), is_relaxed=False, why_empty=nothing.why, did_you_mean=nothing.meant)
    n_terms = len(query.positive) + query.n_dropped
    hits.sort(key=lambda hit: (-hit.strength, hit.workspace.entry.name, hit.path, hit.span))
    scored = _score(hits[: asked.limit], n_terms)
    shown = tuple(hit for hit in scored if hit.score >= asked.min_score)
    is_relaxed = bool(shown) and all(len(hit.matched) < n_terms for hit in shown)
    why_empty = (
        None
        if shown
        else f"every match scores below min_score {asked.min_score}; the best scores {scored[0].score}"
    )
    return Found(hits=shown, is_relaxed=is_relaxed, why_empty=why_empty)


def _score(hits: Sequence[Hit], n_terms: int) -> list[Hit]:
    if n_terms:
        coverage = max(len(hit.matched) for hit in hits) / n_terms
        scores = normalize_scores([hit.strength for hit in hits], coverage=coverage)
    else:  # filters alone say nothing of better and worse
        scores = (1.0,) * len(hits)
    return [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]


def rank(
    reader: Reader,
    workspace: Workspace,
    query: Query,
    asked: Asked,
    policy: SearchPolicy,
    *,
    limit: int,
) -> list[Ranked]:
    """What a query finds in one workspace, unjoined, the strongest first: `limit` of each leg.
    `asked` has all filters.
    """
    match, unwanted = compile_positive(query), compile_must_not(query)
    if match:
        rare = _compile_rare(reader, query, workspace.condition.counts.chunks)
        candidates = (
            find_candidates(reader, rare, asked.filters, limit=limit, must_not=unwanted)
            if rare
            else []
        )
        # Rare words may stand nowhere, or nowhere that filters let through: what common ones find
        # is an answer then.
        candidates = candidates or find_candidates(
            reader, match, asked.filters, limit=limit, must_not=unwanted
        )
    else:
        candidates = find_filtered(reader, asked.filters, unwanted, limit=limit)
    hidden = {path for hidden_in, path in asked.hidden if hidden_in == workspace.id}
    visible = [candidate for candidate in candidates if candidate.path not in hidden]
    ranked = rank_candidates(visible, query.days, policy.ranking)
    if policy.leanings.is_off:
        return ranked
    return apply_boosts(
        ranked,
        read_ranking_features(reader, [one.chunk for one in visible]),
        policy.leanings,
        asked.now_s,
    )


def _search_one(
    workspace: Workspace, query: Query, asked: Asked, policy: SearchPolicy
) -> list[Hit]:
    with workspace.acquire(asked.timeout_s) as reader:
        ranked = rank(
            reader,
            workspace,
            query,
            asked,
            policy,
            limit=max(N_CANDIDATES, CANDIDATES_A_HIT * asked.limit),
        )
        passages = join_passages(ranked, limit=asked.limit, passage_tokens=policy.passage_tokens)
        if asked.is_hurried:
            reader.allow(READ_S)
        return _read_hits(reader, workspace, query, passages, policy)


def _compile_rare(reader: Reader, query: Query, n_chunks: int) -> str:
    """On a large index the query without words that stand in more than a tenth of it; empty on
    others.
    """
    if n_chunks < LARGE_INDEX_CHUNKS or len(query.should) < 2:
        return ""
    most = n_chunks // 10
    return compile_positive(
        drop_terms(
            query,
            [term for term in query.should if is_frequent(reader, compile_term(term), most=most)],
        )
    )


def _read_hits(
    reader: Reader,
    workspace: Workspace,
    query: Query,
    passages: Sequence[Passage],
    policy: SearchPolicy,
) -> list[Hit]:
    if not passages:
        return []
    sections = mask_sections(
        reader,
        read_sections(reader, {passage.best.candidate.section for passage in passages}),
        policy,
    )
    texts = mask_texts(
        reader, read_texts(reader, [passage.best.candidate.chunk for passage in passages]), policy
    )
    chunks = [candidate.chunk for passage in passages for candidate in passage.chunks]
    # The index knows at once which of them hold a term; their texts, which overlap, would have to
    # be cut into words for it.
    holders = [
        (term.text, find_matching(reader, compile_term(term), chunks)) for term in query.positive
    ]
    matcher = Matcher([find_wanted(reader, term) for term in query.positive])
    return [
        Hit(
            workspace=workspace,
            section=(section := sections[passage.best.candidate.section]),
            path=passage.best.candidate.path,
            span=passage.span,
            snippet=_render_snippet(
                reader, matcher, section, texts[passage.best.candidate.chunk].text
            ),
            strength=passage.best.raw_score,
            score=1.0,
            matched=tuple(
                word for word, held_by in holders if any(c.chunk in held_by for c in passage.chunks)
            ),
            parts={
                **{name: round(part, 4) for name, part in passage.best.parts.items()},
                "chunks": float(len(passage.chunks)),
            },
        )
        for passage in passages
    ]


def _render_snippet(reader: Reader, matcher: Matcher, section: HitSection, text: str) -> str:
    body = strip_title(text, section.heading[-1] if section.heading else "")
    return render_snippet(body, sort_ranges(_find_places(reader, matcher, body)))


def _find_places(reader: Reader, matcher: Matcher, text: str) -> Iterator[TextRange]:
    """Where terms stand, in characters: among the tokenizer's words, and among those that are
    indexed beside them.
    """
    for places in matcher.find(reader.tokenize(text)).values():
        yield from to_character_ranges(text, places)
    parts = find_subword_ranges(text)
    if parts:
        stems = reader.tokenize(" ".join(part[2] for part in parts))
        if len(stems) == len(parts):
            tokens = [
                (start, end, stem[2]) for (start, end, _), stem in zip(parts, stems, strict=True)
            ]
            for places in matcher.find(tokens).values():
                yield from places


def find_wanted(reader: Reader, term: Term) -> TermPattern:
    """A term as the index's tokenizer sees it."""
    words = tuple(word for _, _, word in reader.tokenize(" ".join(term.words)))
    return TermPattern(words, term.form is Form.PREFIX)
