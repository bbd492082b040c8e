"""Search workspaces: parse the query, find candidates, rank and join them, read and highlight.

A search of one workspace queries the store twice, for candidates with their ranking features
and for what the answer shows; `core` ranks in between and renders afterwards. Both reads see
one committed generation. Notes that a fresh scan no longer found (`RunOptions.absent`) are left
out, although the index still has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import KindDefaults, find_kind
from memsyncd.core.guard.secrets import is_redacted
from memsyncd.core.search.dates import parse_day
from memsyncd.core.search.highlight import (
    Matcher,
    TermPattern,
    find_matches,
    highlight,
    strip_title,
)
from memsyncd.core.search.merging import TermCounts
from memsyncd.core.search.query import (
    Filters,
    Form,
    Query,
    Term,
    choose_rarest,
    compile_must_not,
    compile_positive,
    compile_selection,
    compile_term,
    drop_terms,
    parse_query,
)
from memsyncd.core.search.ranking import (
    DEFAULT_RANKING,
    N_CANDIDATES,
    FoundChunks,
    Passage,
    Ranked,
    RankingPolicy,
    apply_boosts,
    bound_exact_ratio,
    rank_candidates,
    rank_passages,
)
from memsyncd.engine.clock import find_local_day
from memsyncd.engine.explain import Question, explain_nothing
from memsyncd.engine.merging import SearchPart, merge_search_parts
from memsyncd.engine.metadata import (
    NO_ACCESSES,
    Valuation,
    complete_tiers,
    describe_meta,
    make_valuation,
)
from memsyncd.engine.redaction import read_redacted_sections, read_redacted_texts
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NotFresh
from memsyncd.protocol import search as protocol
from memsyncd.protocol.search import ContextParams, Hit, SearchAnswer, SearchParams
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    HitSection,
    count_matching,
    find_candidates,
    find_filtered,
    find_holding,
    read_ranking_features,
)

# From this size on a common word costs milliseconds: FTS5 ranks every chunk that contains it.
LARGE_INDEX_CHUNKS = 8_000
# On a large index, words in more than one of so many chunks are not looked for.
COMMON_SHARE = 10
# The rarest words of a question select chunks as long as they match so many together, or such a
# share of the index; see `choose_rarest`. Of the next ones, two have to occur together. With a
# tenth as many, the first five hits of 364 questions about 108,687 chunks hold a point less of the
# evidence; with these, the hits of 1,461 questions hold as much as with four times as many.
SELECTING_MATCHES = 5_000
SELECTING_SHARE = 20
MAX_PAIRED = 6
# If fewer are selected, four times as many matches may be, then all words select.
ENOUGH_SELECTED = 200
# Matches of all terms together, and terms. A search for more takes longer than a hurried search
# may, more often than not.
MAX_HURRIED_MATCHES = 2_000
MAX_HURRIED_TERMS = 8
HURRIED = "there is more to look up than a hurried search may"
# Neighbours join into passages, so many hits need many more chunks.
CANDIDATES_PER_HIT = 10
# Orders that the hits are in anyway.
UNORDERED: Final = ("relevance", "file")
# Limit for reading the hits of a hurried search. Milliseconds are enough; it guards against a disk
# that hangs.
READ_S = 1.0


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the daemon runs a search or builds a context, besides the parameters of the client.

    `absent` are notes that must not be shown: workspace ids and paths. `now_s` is seconds since
    1970. `timeout_s` is None for the request's own limit, or the configured one.

    `is_hurried`: raise NotFresh at once if there is much to look up, be it to find hits or to
    explain why there is none. The limit then counts for finding alone; reading the hits never takes
    long.
    """

    now_s: float = 0.0
    timeout_s: float | None = None
    absent: frozenset[tuple[str, str]] = msgspec.field(default_factory=frozenset)
    is_hurried: bool = False
    # The accesses of sections, by anchor, on which their decay depends.
    accesses: Mapping[str, int] = msgspec.field(default_factory=dict)

    def limit_s(self, params: SearchParams | ContextParams, config: Config) -> float:
        """The time that the request may take."""
        if self.timeout_s is not None:
            return self.timeout_s
        return params.timeout_ms / 1000 if params.timeout_ms else config.search.timeout_s


DEFAULT_OPTIONS = RunOptions()


def search(
    workspaces: Sequence[Workspace],
    params: SearchParams,
    config: Config,
    options: RunOptions = DEFAULT_OPTIONS,
) -> SearchAnswer:
    """Search one workspace after the other; the answer has the hits of all.

    Raises BadRequest, TooLarge, NotFresh (out of time), and what `Workspace.acquire` raises.
    """
    question = make_question(params, config, options)
    searched = () if question.is_empty else workspaces
    is_merged = len(searched) > 1
    parts = [
        search_part(workspace, question, params, config, options, is_merged=is_merged)
        for workspace in searched
    ]
    valuation = make_valuation(config, options.now_s, options.accesses)
    answer = merge_search_parts(parts, question.query, params, config, valuation)
    return answer or explain_search(workspaces, question, params, config, options)


def explain_search(
    workspaces: Sequence[Workspace],
    question: Question,
    params: SearchParams,
    config: Config,
    options: RunOptions,
) -> SearchAnswer:
    """Make the answer of a search that finds nothing in these workspaces."""
    reason = explain_nothing(workspaces, question, options.limit_s(params, config))
    return SearchAnswer(
        hits=[], relaxed=False, why_empty=reason.why, did_you_mean=reason.did_you_mean
    )


def make_question(
    params: SearchParams | ContextParams, config: Config, options: RunOptions
) -> Question:
    """Parse and compile the query and the filters of a request. Raises BadRequest and TooLarge."""
    today = find_local_day(options.now_s)
    filters, query = read_filters(params.filters, today), parse_query(params.query, today)
    return Question(
        text=params.query,
        query=query,
        match=compile_positive(query),
        must_not=compile_must_not(query),
        filters=_complete(filters.join(query.filters), config, options.now_s, options.accesses),
        absent=options.absent,
        is_hurried=options.is_hurried,
    )


def _complete(
    filters: Filters, config: Config, now_s: float, accesses: Mapping[str, int] = NO_ACCESSES
) -> Filters:
    """Add what decides which sections have expired, the importance of those that state none, and
    their tiers.
    """
    valuation = make_valuation(config, now_s, accesses)
    return _complete_one(filters, config, valuation)


def _complete_one(filters: Filters, config: Config, valuation: Valuation) -> Filters:
    filters, now_s = complete_tiers(filters, valuation), valuation.now_s
    if filters.min_importance is None and filters.and_ is None:
        return replace(filters, now_s=now_s)
    kinds = [(name, kind.importance) for name, kind in config.kinds.items()]
    rest = ("", find_kind({}, None).importance)
    and_ = filters.and_ and _complete_one(filters.and_, config, valuation)
    return replace(filters, now_s=now_s, kind_importance=(*kinds, rest), and_=and_)


def complete_filters(
    filters: protocol.Filters,
    config: Config,
    now_s: float,
    accesses: Mapping[str, int] = NO_ACCESSES,
) -> Filters:
    """Parse the filters of a request at this time. Raises what `read_filters` raises."""
    return _complete(read_filters(filters, find_local_day(now_s)), config, now_s, accesses)


def read_filters(filters: protocol.Filters, today: date) -> Filters:
    """Parse the filters of a request, with days relative to `today`.

    Raises BadRequest for a value that cannot be read, with the name of its filter.
    """
    return Filters(
        kinds=tuple(filters.kind),
        tags=tuple(filters.tag),
        paths=tuple(filters.path),
        sections=tuple(filters.section),
        tasks=tuple(filters.task),
        after=_read_day("after", filters.after, today),
        before=_read_day("before", filters.before, today),
        sessions=tuple(filters.session),
        sources=tuple(filters.source),
        priorities=tuple(filters.priority),
        lifecycles=tuple(filters.lifecycle),
        statuses=tuple(filters.status),
        metas=tuple(map(_read_pair, filters.meta)),
        tiers=tuple(filters.tier),
        min_importance=filters.min_importance,
        is_archived=filters.archived,
        is_expired=filters.expired,
        includes_archived=filters.include_archived,
        includes_expired=filters.include_expired,
    )


def _read_pair(text: str) -> str:
    key, _, value = text.partition("=")
    if not key.strip() or not value.strip():
        raise BadRequest(
            f"filter `meta` is not KEY=VALUE: {text[:40]}", hint="write for example owner=infra"
        )
    return text


def _read_day(name: str, text: str | None, today: date) -> str | None:
    if text is None:
        return None
    day = parse_day(text, today)
    if day is None:
        raise BadRequest(
            f"filter `{name}` is no date: {text[:40]}",
            hint="write a day, month or year such as 2026-03-01, or yesterday, 7d, last week",
        )
    return day


# --- one workspace ------------------------------------------------------------------------------


def search_part(
    workspace: Workspace,
    question: Question,
    params: SearchParams,
    config: Config,
    options: RunOptions,
    *,
    is_merged: bool,
) -> SearchPart:
    """Search one workspace. `is_merged`: also count what it takes to merge its hits with others.

    Raises as `search`.
    """
    n_hits = params.limit or config.search.max_results
    with workspace.acquire(options.limit_s(params, config)) as reader:
        n_candidates = max(N_CANDIDATES, CANDIDATES_PER_HIT * n_hits)
        counts = _count_terms(
            reader, question.query, workspace.condition.counts.chunks, is_hurried=options.is_hurried
        )
        merged_counts = count_terms(reader, question.query, workspace) if is_merged else None
        if counts and not any(counts.values()):
            return SearchPart(
                workspace_name=workspace.entry.name, hits=[], raw_scores=[], counts=merged_counts
            )
        found = _find_visible(reader, workspace, question, n_candidates, counts)
        passages = rank_passages(
            found,
            question.query.days,
            DEFAULT_RANKING,
            # Filters alone rank nothing: the order decides among all that were found.
            limit=n_hits if question.match or params.sort in UNORDERED else n_candidates,
            passage_tokens=config.search.passage_tokens,
            find_exact_ratio=_find_exact_ratio(reader, question.query, workspace),
            boost=_make_boost(reader, found, config, options.now_s),
        )
        if options.is_hurried:
            reader.allow(READ_S)
        hits = [
            _make_hit(workspace, one, config.kinds, options.now_s, is_explained=params.explain)
            for one in _read_hits(reader, question.query, counts, passages, config)
        ]
    if params.explain:
        valuation = make_valuation(config, options.now_s, options.accesses)
        hits = [
            replace(hit, explain={**(hit.explain or {}), **valuation.explain(hit)}) for hit in hits
        ]
    found_hits = list(zip([one.best.raw_score for one in passages], hits, strict=True))
    found_hits.sort(key=_order_hit)
    return SearchPart(
        workspace_name=workspace.entry.name,
        hits=[hit for _, hit in found_hits],
        raw_scores=[raw_score for raw_score, _ in found_hits],
        counts=merged_counts,
    )


def _order_hit(found: tuple[float, Hit]) -> tuple[float, str, int, int]:
    raw_score, hit = found
    return -raw_score, hit.path, hit.start_line, hit.end_line


def count_terms(reader: Reader, query: Query, workspace: Workspace) -> TermCounts:
    """Count the chunks of a workspace, and those that each term of the query matches."""
    n_chunks = workspace.condition.counts.chunks
    matches = [compile_term(term) for term in query.positive]
    return TermCounts(n_chunks, tuple(count_matching(reader, matches, most=n_chunks)))


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
    """Rank the chunks of one workspace that match, unjoined, best first: the best `limit`."""
    counts = _count_terms(
        reader, question.query, workspace.condition.counts.chunks, is_hurried=False
    )
    found = _find_visible(reader, workspace, question, limit, counts)
    boost = _make_boost(reader, found, config, now_s)
    ranked = rank_candidates(found.make_candidates(), question.query.days, ranking)
    return boost(ranked) if boost else ranked


def _find_visible(
    reader: Reader,
    workspace: Workspace,
    question: Question,
    limit: int,
    counts: Mapping[Term, int],
) -> FoundChunks:
    """Find the chunks of one workspace that match, without those of notes that are absent."""
    found = _find_candidates(reader, question, workspace.condition.counts.chunks, limit, counts)
    absent = {path for workspace_id, path in question.absent if workspace_id == workspace.id}
    if not absent:
        return found
    files = found.read_files({row[1] for row in found.rows})
    return found._replace(rows=[row for row in found.rows if files[row[1]][0] not in absent])


def _make_boost(
    reader: Reader, found: FoundChunks, config: Config, now_s: float
) -> Callable[[Sequence[Ranked]], list[Ranked]] | None:
    if not config.search.has_boosts:
        return None
    features = read_ranking_features(reader, [row[0] for row in found.rows])
    return lambda ranked: apply_boosts(ranked, features, config.search, config.kinds, now_s)


def _find_exact_ratio(
    reader: Reader, query: Query, workspace: Workspace
) -> Callable[[], float] | None:
    """Return the function that bounds what exact words score; None for what has no such bound.

    A chunk holds no exact word more often than its stem, but some prefixes.
    """
    if any(term.form is Form.PREFIX for term in query.positive):
        return None
    most = workspace.condition.counts.chunks
    matches = [compile_term(term) for term in query.positive]
    return lambda: bound_exact_ratio(
        most,
        count_matching(reader, matches, most=most),
        count_matching(reader, matches, most=most, is_exact=True),
    )


def _count_terms(
    reader: Reader, query: Query, n_chunks: int, *, is_hurried: bool
) -> dict[Term, int]:
    """Count the matches of each term, on a small index of none, as far as it matters how many.

    Raises NotFresh if there is more to look up than a hurried search may.
    """
    most = n_chunks // COMMON_SHARE
    if is_hurried:
        if len(query.positive) > MAX_HURRIED_TERMS:
            raise NotFresh(HURRIED)
        most = MAX_HURRIED_MATCHES
    elif n_chunks < LARGE_INDEX_CHUNKS or len(query.positive) < 2:
        return {}
    matches = [compile_term(term) for term in query.positive]
    counts = count_matching(reader, matches, most=most + 1)
    if is_hurried and sum(counts) > most:
        raise NotFresh(HURRIED)
    return dict(zip(query.positive, counts, strict=True))


def _find_candidates(
    reader: Reader, question: Question, n_chunks: int, limit: int, counts: Mapping[Term, int]
) -> FoundChunks:
    query, filters, must_not = question.query, question.filters, question.must_not
    if not question.match:
        return find_filtered(reader, filters, must_not, limit=limit)
    if n_chunks >= LARGE_INDEX_CHUNKS and len(query.should) > 1:
        for rare, selecting in _find_rare(query, counts, n_chunks):
            found = find_candidates(
                reader, rare, filters, limit=limit, must_not=must_not, selecting=selecting
            )
            # Rare words may occur nowhere, or nowhere that passes the filters; then common words
            # decide.
            if len(found.rows) >= min(limit, ENOUGH_SELECTED) or (found.rows and not selecting):
                return found
    return find_candidates(reader, question.match, filters, limit=limit, must_not=must_not)


def _find_rare(
    query: Query, counts: Mapping[Term, int], n_chunks: int
) -> Iterator[tuple[str, str]]:
    """Yield what to look for on a large index, and the words of it that select, if not all do.

    Words that more than a tenth of the chunks contain are left out. Of the others the rarest
    select chunks, and so do two of the next ones together; all of them rank.
    """
    common = {term for term in query.should if counts[term] > n_chunks // COMMON_SHARE}
    rare = drop_terms(query, common)
    expression = compile_positive(rare)
    most = max(SELECTING_MATCHES, n_chunks // SELECTING_SHARE)
    selections = [] if query.must else [_compile_selecting(rare, counts, most * n) for n in (1, 4)]
    for selecting in dict.fromkeys(filter(None, selections)):
        yield expression, selecting
    yield expression, ""


def _compile_selecting(query: Query, counts: Mapping[Term, int], most: int) -> str:
    """The expression for what the rarest words select, with about `most` matches; empty if it would
    not leave out most matches, since to select takes time, too.
    """
    chosen = choose_rarest(query.should, [counts[term] for term in query.should], most=most)
    if sum(map(counts.__getitem__, chosen)) > most:
        chosen = ()  # even the rarest word is frequent: two have to occur together
    others = sorted({*query.should} - {*chosen}, key=lambda term: (counts[term], term.text))
    if sum(map(counts.__getitem__, others)) <= sum(map(counts.__getitem__, chosen)):
        return ""
    return compile_selection(chosen, others[:MAX_PAIRED])


# --- hits ---------------------------------------------------------------------------------------


class _ReadHit(NamedTuple):
    """A passage with what the index has of it."""

    passage: Passage
    section: HitSection
    snippet: str
    matched: list[str]


def _read_hits(
    reader: Reader,
    query: Query,
    counts: Mapping[Term, int],
    passages: Sequence[Passage],
    config: Config,
) -> list[_ReadHit]:
    if not passages:
        return []
    best = [passage.best.candidate for passage in passages]
    shown_sections = read_redacted_sections(reader, {one.section for one in best}, config)
    shown_texts = read_redacted_texts(reader, best, config)
    patterns = [make_pattern(reader, term) for term in query.positive]
    matcher = Matcher(patterns)
    titles = [(shown_sections[one.section].heading or ("",))[-1] for one in best]
    bodies = [
        strip_title(shown_texts[one.chunk], title) for one, title in zip(best, titles, strict=True)
    ]
    found = [find_matches(body, matcher, reader.tokenize) for body in bodies]
    # A label in place of a secret is not in the index.
    known = [
        {index for index in one if len(patterns[index].words) == 1 and not is_redacted(body)}
        for one, body in zip(found, bodies, strict=True)
    ]
    held = _find_held(reader, query, counts, passages, known)
    return [
        _ReadHit(
            passage,
            shown_sections[passage.best.candidate.section],
            highlight(body, ranges),
            [term.text for index, term in enumerate(query.positive) if index in indices],
        )
        for passage, body, ranges, indices in zip(passages, bodies, found, held, strict=True)
    ]


def _find_held(
    reader: Reader,
    query: Query,
    counts: Mapping[Term, int],
    passages: Sequence[Passage],
    known: Sequence[set[int]],
) -> list[set[int]]:
    """Return for each passage the indices of the terms that any of its chunks contains; of `known`
    ones it is certain.

    Of the others the index knows: titles, tags and the other chunks would have to be read for it.
    """
    if len(query.positive) == 1:
        return [{0} for _ in passages]
    held = [set(indices) for indices in known]
    chunks = [[one.chunk for one in passage.chunks] for passage in passages]
    wanted: list[tuple[str, list[int], int]] = []
    for index, term in enumerate(query.positive):
        left = [some for some, indices in zip(chunks, held, strict=True) if index not in indices]
        wanted.append((compile_term(term), [*chain.from_iterable(left)], counts.get(term, 0)))
    for index, having in enumerate(find_holding(reader, wanted)):
        for some, indices in zip(chunks, held, strict=True):
            if not having.isdisjoint(some):
                indices.add(index)
    return held


def _make_hit(
    workspace: Workspace,
    read: _ReadHit,
    kinds: Mapping[str, KindDefaults],
    now_s: float,
    *,
    is_explained: bool,
) -> Hit:
    """Make a hit whose score is 1 until all hits of the search are known."""
    passage, section, snippet, matched = read
    return Hit(
        workspace=workspace.id,
        anchor=section.anchor,
        path=passage.best.candidate.path,
        start_line=passage.span.start,
        end_line=passage.span.end,
        heading=list(section.heading),
        snippet=snippet,
        score=1.0,
        **describe_meta(section, kinds, now_s),
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
