"""Search workspaces: parse the query, find candidates, rank and join them, read and highlight.

A search of one workspace queries the store twice, for candidates with their ranking features
and for what the answer shows; `core` ranks in between and renders afterwards. Both reads see
one committed generation. Notes that a fresh scan no longer found (`RunOptions.absent`) are left
out, although the index still has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.search.highlight import Matcher, TermPattern, highlight, strip_title
from memsyncd.core.search.query import (
    Filters,
    Form,
    Query,
    Term,
    compile_must_not,
    compile_positive,
    compile_term,
    drop_terms,
    parse_day,
    parse_query,
)
from memsyncd.core.search.ranking import (
    DEFAULT_RANKING,
    N_CANDIDATES,
    Candidate,
    Passage,
    Ranked,
    RankingPolicy,
    apply_boosts,
    join_passages,
    normalize_scores,
    rank_candidates,
)
from memsyncd.engine.explain import Question, explain_nothing
from memsyncd.engine.redaction import read_redacted
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NotFresh
from memsyncd.protocol import search as protocol
from memsyncd.protocol.search import ContextParams, Hit, SearchAnswer, SearchParams
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    HitSection,
    find_candidates,
    find_filtered,
    find_matching,
    is_frequent,
    read_ranking_features,
)

# From this size on a common word costs milliseconds: FTS5 ranks every chunk that contains it.
LARGE_INDEX_CHUNKS = 8_000
# Terms times chunks. A search for more takes longer than a hurried search may, more often than not.
MAX_HURRIED_LOOKUPS = 40_000
# Neighbours join into passages, so many hits need many more chunks.
CANDIDATES_PER_HIT = 10
# Limit for reading the hits of a hurried search. Milliseconds are enough; it guards against a disk
# that hangs.
READ_S = 1.0


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the daemon runs a search or builds a context, besides the parameters of the client.

    `absent` are notes that must not be shown: workspace ids and paths. `now_s` is seconds since
    1970. `timeout_s` is None for the request's own limit, or the configured one.

    `is_hurried`: raise NotFresh at once if there is much to look up, and instead of explaining why
    there is no hit. The limit then counts for finding alone; reading the hits never takes long.
    """

    now_s: float = 0.0
    timeout_s: float | None = None
    absent: frozenset[tuple[str, str]] = msgspec.field(default_factory=frozenset)
    is_hurried: bool = False

    def limit_s(self, params: SearchParams | ContextParams, config: Config) -> float:
        """The time that the request may take."""
        if self.timeout_s is not None:
            return self.timeout_s
        return params.timeout_ms / 1000 if params.timeout_ms else config.search.timeout_s


DEFAULT_OPTIONS = RunOptions()


class _FoundHit(NamedTuple):
    """A hit with what orders hits of several workspaces."""

    raw_score: float
    workspace_name: str
    hit: Hit


def search(
    workspaces: Sequence[Workspace],
    params: SearchParams,
    config: Config,
    options: RunOptions = DEFAULT_OPTIONS,
) -> SearchAnswer:
    """Search one workspace, or several as one.

    Raises BadRequest, TooLarge, NotFresh (out of time), and what `Workspace.acquire` raises.
    """
    question = make_question(params, options)
    query = question.query
    if options.is_hurried:
        _check_effort(workspaces, query)
    found = [
        one
        for workspace in workspaces
        if not question.is_empty
        for one in _search_one(workspace, question, params, config, options)
    ]
    if found:
        return _answer(found, query, params, config)
    if options.is_hurried:
        raise NotFresh("there is no hit, and no time to explain why")
    reason = explain_nothing(workspaces, question, options.limit_s(params, config))
    return SearchAnswer(
        hits=[], relaxed=False, why_empty=reason.why, did_you_mean=reason.did_you_mean
    )


def make_question(params: SearchParams | ContextParams, options: RunOptions) -> Question:
    """Parse and compile the query and the filters of a request. Raises BadRequest and TooLarge."""
    filters, query = read_filters(params.filters), parse_query(params.query)
    return Question(
        text=params.query,
        query=query,
        match=compile_positive(query),
        must_not=compile_must_not(query),
        filters=filters.join(query.filters),
        absent=options.absent,
    )


def read_filters(filters: protocol.Filters) -> Filters:
    """Parse the filters of a request. Raises BadRequest for a day that is none, with its name."""
    return Filters(
        kinds=tuple(filters.kind),
        tags=tuple(filters.tag),
        paths=tuple(filters.path),
        sections=tuple(filters.section),
        tasks=tuple(filters.task),
        after=_read_day("after", filters.after),
        before=_read_day("before", filters.before),
        is_archived=filters.archived,
    )


def _read_day(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    day = parse_day(text.strip())
    if day is None:
        raise BadRequest(
            f"filter `{name}` is no date: {text[:40]}",
            hint="write a day, a month or a year, such as 2026-03-01",
        )
    return day


def _check_effort(workspaces: Sequence[Workspace], query: Query) -> None:
    n_chunks = sum(workspace.condition.counts.chunks for workspace in workspaces)
    if len(query.positive) * n_chunks > MAX_HURRIED_LOOKUPS:
        raise NotFresh("there is more to look up than a hurried search may")


def _answer(
    found: list[_FoundHit], query: Query, params: SearchParams, config: Config
) -> SearchAnswer:
    """Order the hits of all workspaces, scale their scores and drop those below the minimum."""
    n_terms = len(query.positive) + query.n_dropped
    found.sort(
        key=lambda one: (
            -one.raw_score,
            one.workspace_name,
            one.hit.path,
            one.hit.start_line,
            one.hit.end_line,
        )
    )
    scored = _scale(found[: params.limit or config.search.max_results], n_terms)
    min_score = config.search.min_score if params.min_score is None else params.min_score
    hits = [hit for hit in scored if hit.score >= min_score]
    best = scored[0].score
    return SearchAnswer(
        hits=hits,
        relaxed=bool(hits) and all(len(hit.matched) < n_terms for hit in hits),
        why_empty=None
        if hits
        else f"every match scores below min_score {min_score}; the best scores {best}",
        did_you_mean=None,
    )


def _scale(found: Sequence[_FoundHit], n_terms: int) -> list[Hit]:
    if not n_terms:  # a query of filters alone ranks nothing
        return [one.hit for one in found]
    coverage = max(len(one.hit.matched) for one in found) / n_terms
    scores = normalize_scores([one.raw_score for one in found], coverage=coverage)
    return [replace(one.hit, score=score) for one, score in zip(found, scores, strict=True)]


# --- one workspace ------------------------------------------------------------------------------


def _search_one(
    workspace: Workspace,
    question: Question,
    params: SearchParams,
    config: Config,
    options: RunOptions,
) -> list[_FoundHit]:
    n_hits = params.limit or config.search.max_results
    expressions = [(term, compile_term(term)) for term in question.query.positive]
    with workspace.acquire(options.limit_s(params, config)) as reader:
        n_candidates = max(N_CANDIDATES, CANDIDATES_PER_HIT * n_hits)
        ranked = rank(
            reader,
            workspace,
            question,
            config,
            options.now_s,
            limit=n_candidates,
            ranking=DEFAULT_RANKING,
        )
        passages = join_passages(ranked, limit=n_hits, passage_tokens=config.search.passage_tokens)
        if options.is_hurried:
            reader.allow(READ_S)
        hits = _read_hits(
            reader, workspace, expressions, passages, config, is_explained=params.explain
        )
    return [
        _FoundHit(passage.best.raw_score, workspace.entry.name, hit)
        for passage, hit in zip(passages, hits, strict=True)
    ]


def rank(
    reader: Reader,
    workspace: Workspace,
    question: Question,
    config: Config,
    now_s: float,
    *,
    limit: int,
    ranking: RankingPolicy,
) -> list[Ranked]:
    """Rank the chunks of one workspace that match, unjoined, best first: `limit` per retriever."""
    n_chunks = workspace.condition.counts.chunks
    found = _find_candidates(reader, question, n_chunks, limit)
    absent = {path for workspace_id, path in question.absent if workspace_id == workspace.id}
    candidates = [candidate for candidate in found if candidate.path not in absent]
    ranked = rank_candidates(candidates, question.query.days, ranking)
    if not config.search.has_boosts:
        return ranked
    features = read_ranking_features(reader, [one.chunk for one in candidates])
    return apply_boosts(ranked, features, config.search, config.kinds, now_s)


def _find_candidates(
    reader: Reader, question: Question, n_chunks: int, limit: int
) -> list[Candidate]:
    filters, must_not = question.filters, question.must_not
    if not question.match:
        return find_filtered(reader, filters, must_not, limit=limit)
    rare = _compile_rare(reader, question.query, n_chunks)
    if rare:
        found = find_candidates(reader, rare, filters, limit=limit, must_not=must_not)
        # Rare words may occur nowhere, or nowhere that passes the filters; then common words
        # decide.
        if found:
            return found
    return find_candidates(reader, question.match, filters, limit=limit, must_not=must_not)


def _compile_rare(reader: Reader, query: Query, n_chunks: int) -> str:
    """On a large index, compile the query without words that more than a tenth of it contains;
    empty on a small index.
    """
    if n_chunks < LARGE_INDEX_CHUNKS or len(query.should) < 2:
        return ""
    most = n_chunks // 10
    expressions = [(term, compile_term(term)) for term in query.should]
    common = [term for term, match in expressions if is_frequent(reader, match, most=most)]
    return compile_positive(drop_terms(query, common))


# --- hits ---------------------------------------------------------------------------------------


def _read_hits(
    reader: Reader,
    workspace: Workspace,
    expressions: Sequence[tuple[Term, str]],
    passages: Sequence[Passage],
    config: Config,
    *,
    is_explained: bool,
) -> list[Hit]:
    if not passages:
        return []
    best = [passage.best.candidate for passage in passages]
    chunks = [candidate.chunk for passage in passages for candidate in passage.chunks]
    # The index knows which chunks contain a term; their texts overlap and would have to be
    # tokenized for it.
    holders = [(term.text, find_matching(reader, match, chunks)) for term, match in expressions]
    patterns = [make_pattern(reader, term) for term, _ in expressions]
    shown_sections, shown_texts = read_redacted(reader, best, config)
    matcher = Matcher(patterns)
    hits = []
    for passage, candidate in zip(passages, best, strict=True):
        section = shown_sections[candidate.section]
        title = section.heading[-1] if section.heading else ""
        body = strip_title(shown_texts[candidate.chunk].text, title)
        snippet = highlight(body, matcher, reader.tokenize)
        matched = [
            text for text, found in holders if any(one.chunk in found for one in passage.chunks)
        ]
        hits.append(_make_hit(workspace, passage, section, snippet, matched, is_explained))
    return hits


def _make_hit(
    workspace: Workspace,
    passage: Passage,
    section: HitSection,
    snippet: str,
    matched: list[str],
    is_explained: bool,
) -> Hit:
    """Make a hit whose score is 1 until all hits of the search are known."""
    return Hit(
        workspace=workspace.id,
        anchor=section.anchor,
        path=passage.best.candidate.path,
        start_line=passage.span.start,
        end_line=passage.span.end,
        heading=list(section.heading),
        snippet=snippet,
        score=1.0,
        kind=section.kind,
        tags=list(section.tags),
        importance=section.importance,
        digest=section.digest,
        matched=matched,
        explain=_explain_score(passage) if is_explained else None,
    )


def _explain_score(passage: Passage) -> dict[str, float]:
    parts = {name: round(part, 4) for name, part in passage.best.parts.items()}
    return {**parts, "chunks": float(len(passage.chunks))}


def make_pattern(reader: Reader, term: Term) -> TermPattern:
    """Make the pattern of a term from its words as the index's tokenizer sees them."""
    words = tuple(word for _, _, word in reader.tokenize(" ".join(term.words)))
    return TermPattern(words, term.form is Form.PREFIX)
