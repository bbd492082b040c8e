"""Search workspaces: find candidates by a plan, rank and join them, read and highlight the hits.

A search of one workspace queries the store twice: for candidates with their ranking features, and
for the texts of the answer; `core` ranks in between and renders afterwards. Both reads see the same
committed generation. Notes that a fresh scan no longer found (`RunOptions.absent`) are left out,
although the index still has them.

Searches of several workspaces are independent: a search that fails or is slow does not affect the
others. `core.search.federation` says how their hits are ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import KindDefaults
from memsyncd.core.guard.injection import PROMPT_INJECTION
from memsyncd.core.guard.secrets import is_redacted
from memsyncd.core.model import WORTH_ORDERS
from memsyncd.core.search.federation import (
    FoundLines,
    RawHit,
    TermCounts,
    compare_raw_scores,
    find_repeated,
)
from memsyncd.core.search.passages import (
    Matcher,
    TextWords,
    choose_labels,
    find_text_words,
    highlight,
    strip_title,
)
from memsyncd.core.search.plan import PlannedTerm, SearchPlan
from memsyncd.core.search.query import Form, Term
from memsyncd.core.search.ranking import (
    DEFAULT_RANKING,
    N_CANDIDATES,
    Passage,
    fill_passages,
    list_semantic_shares,
    normalize_scores,
    rank_passages,
)
from memsyncd.core.search.words import FAMILY_WEIGHT, fold, space_out
from memsyncd.engine.candidates import (
    MatchedChunks,
    UsedVectors,
    begin_vectors,
    count_terms,
    find_visible,
    make_boost,
    make_exact_bound,
    make_patterns,
    prepare_vectors,
)
from memsyncd.engine.explain import explain_nothing
from memsyncd.engine.marking import mark_text
from memsyncd.engine.metadata import (
    Valuation,
    describe_metas,
    find_order,
    list_stated,
    make_valuation,
    name_note,
)
from memsyncd.engine.plan import (
    DEFAULT_OPTIONS,
    RunOptions,
    acquire,
    make_search_plan,
    read_query,
    spare_commands,
)
from memsyncd.engine.redaction import redact_sections, redact_texts
from memsyncd.engine.relations import complete_hits, make_related_reader
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NotFresh
from memsyncd.operations.fields import SectionPlace
from memsyncd.operations.search.declare import Hit, SearchAnswer, SearchParams
from memsyncd.operations.sections import Sort
from memsyncd.store.candidates import HURRIED
from memsyncd.store.pool import ENTRY_BYTES, Reader
from memsyncd.store.search import MATCHES_PER_LOOKUP, PassageWords, find_holding, read_words
from memsyncd.store.sections import (
    HitSection,
    find_stating,
    has_problem,
    read_sections,
)
from memsyncd.store.texts import has_secrets, read_texts

# Neighbours join into passages, so a search needs more chunks than hits.
CANDIDATES_PER_HIT = 10
# The orders that hits have without sorting.
UNORDERED: Final = ("relevance", "file")
# Limit for reading the hits of a hurried search. Milliseconds are enough; it guards against a disk
# that hangs.
READ_S = 1.0
# If a look-up would pass over more matches than this, the words of the hits are read instead.
READ_WORDS_FROM = 10_000
# Estimate of the chunks that match a word in a small index, where they are not counted.
UNCOUNTED_MATCHES = 200


def search(
    workspaces: Sequence[Workspace],
    params: SearchParams,
    config: Config,
    options: RunOptions = DEFAULT_OPTIONS,
) -> SearchAnswer:
    """Search one workspace after the other; the answer has the hits of all.

    Raises BadRequest, NotFresh (out of time), and the errors of `Workspace.acquire`.
    """
    if options.is_hurried and prepare_vectors(workspaces, params.query, options.now_s):
        raise NotFresh(HURRIED)  # the vector process may take milliseconds
    params, options = read_query(workspaces, params, config, options)
    plan = make_search_plan(params, config, options)
    searched = () if plan.is_empty else workspaces
    is_merged = len(searched) > 1
    parts = [
        search_part(workspace, plan, params, config, is_merged=is_merged) for workspace in searched
    ]
    return join_parts(parts, workspaces, plan, params, config)


def join_parts(
    parts: Sequence[SearchPart],
    workspaces: Sequence[Workspace],
    plan: SearchPlan,
    params: SearchParams,
    config: Config,
) -> SearchAnswer:
    """Make one answer of the parts of workspaces. If there is no hit, or only vectors found hits,
    the answer explains why, for these workspaces.
    """
    answer = merge_parts(parts, plan, params, config)
    if answer is not None and not _lacks_words(answer, plan):
        return answer
    plan = next((part.plan for part in parts if part.plan.is_hurried), plan)
    reason = explain_nothing(workspaces, plan)
    if answer is not None:
        return replace(answer, did_you_mean=reason.did_you_mean)
    return SearchAnswer(
        hits=[],
        relaxed=False,
        why_empty=reason.why,
        did_you_mean=reason.did_you_mean,
        **describe_vectors([part.vectors for part in parts]),
    )


def _lacks_words(answer: SearchAnswer, plan: SearchPlan) -> bool:
    """True if only vectors found the hits: the words may be mistyped."""
    has_words = bool(plan.match and answer.hits)
    return has_words and not any(hit.matched or hit.matched_related for hit in answer.hits)


# --- one workspace --------------------------------------------------------------------------------


class SearchPart(msgspec.Struct, frozen=True, kw_only=True):
    """The hits of one workspace, best first, with their raw scores. `root` is its folder.

    `counts` is None in a search of one workspace, which needs none. `valuation` has the accesses of
    this workspace. `semantic_shares` are shares of the hits' scores, `nearest` is the highest
    cosine of a hit. `plan` has the limits of the search, which hold for its explanation as well.
    """

    workspace_name: str
    root: str
    hits: Sequence[Hit]
    raw_scores: Sequence[float]
    semantic_shares: Sequence[float]
    valuation: Valuation
    counts: TermCounts | None
    nearest: float
    vectors: UsedVectors
    plan: SearchPlan


def search_part(
    workspace: Workspace, plan: SearchPlan, params: SearchParams, config: Config, *, is_merged: bool
) -> SearchPart:
    """Search one workspace; raises as `search`. With `is_merged`, also make the counts that merging
    its hits with others needs.
    """
    n_hits = params.limit or config.search.max_results
    n_candidates = max(N_CANDIDATES, CANDIDATES_PER_HIT * n_hits)
    # Filters alone rank nothing: the order decides among all chunks found.
    n_passages = n_hits if plan.match or params.sort in UNORDERED else n_candidates
    # A hit that stands for several sections has no metadata to be selected or ordered by.
    is_apart = plan.asks_for_metadata or params.sort not in UNORDERED
    plan = begin_vectors(workspace, plan)
    with acquire(workspace, plan) as reader:
        if plan.query.commands:
            plan = spare_commands(reader, plan)
        find = partial(_find_passages, reader, workspace, config, n_candidates, is_apart)
        matched, passages = find(plan, limit=n_passages)
        n_strict = len(passages)
        if n_strict < n_hits and plan.relaxed is not None:
            matched, more = find(plan.relaxed, limit=n_hits)
            passages = fill_passages(passages, more, limit=n_hits)
        gains = matched.vectors.gains
        merged_counts = count_terms(reader, plan, workspace, gains) if is_merged else None
        if plan.is_hurried:
            reader.allow(READ_S)
        read = _read_hits(reader, plan, matched, passages, config)
        hits = _make_hits(workspace, read, config.kinds, plan.now_s)
        related = make_related_reader(reader, config, plan, workspace.id, plan.now_s)
        sections = [passage.sections for passage in passages]
        hits = complete_hits(reader, hits, sections, params.follow, related, workspace)
        # Looking for marks and names takes time, so not every search does it.
        if has_problem(reader, PROMPT_INJECTION):
            hits = [replace(hit, mark=_find_mark(hit, config)) for hit in hits]
        if any(passage.spans for passage in passages):
            hits = _name_sections(reader, plan, hits, passages)
    valuation = make_valuation(config, plan.now_s, plan.accesses)
    if params.explain:
        hits = [
            _explain_hit(hit, passage, matched.vectors.cosines, valuation)
            for hit, passage in zip(hits, passages, strict=True)
        ]
    ordered = _order_hits(passages, hits, n_strict)
    return SearchPart(
        workspace_name=workspace.entry.name,
        root=workspace.entry.root,
        hits=[ranked.hit for ranked in ordered],
        # A hit without a phrase never outranks one with it.
        raw_scores=[*accumulate((ranked.raw_score for ranked in ordered), min)],
        semantic_shares=[ranked.semantic_share for ranked in ordered],
        nearest=_find_nearest(passages, matched.vectors.cosines),
        vectors=matched.vectors,
        valuation=valuation,
        counts=merged_counts,
        plan=plan,
    )


def _name_sections(
    reader: Reader, plan: SearchPlan, hits: Sequence[Hit], passages: Sequence[Passage]
) -> list[Hit]:
    """Add to each hit of several sections their names and lines."""
    joined = {section for passage in passages for section in passage.spans}
    sections = _read_shown_sections(reader, plan, joined)
    return [
        replace(
            hit,
            sections=[
                SectionPlace(
                    anchor=sections[section].section.anchor,
                    path=hit.path,
                    start_line=span.start,
                    end_line=span.end,
                    heading=list(sections[section].section.heading),
                )
                for section, span in passage.spans.items()
            ],
        )
        if passage.spans
        else hit
        for hit, passage in zip(hits, passages, strict=True)
    ]


class _RankedHit(NamedTuple):
    raw_score: float
    hit: Hit
    semantic_share: float


def _order_hits(
    passages: Sequence[Passage], hits: Sequence[Hit], n_strict: int
) -> list[_RankedHit]:
    ranked = [
        _RankedHit(passage.best.raw_score, hit, share)
        for passage, hit, share in zip(passages, hits, list_semantic_shares(passages), strict=True)
    ]
    strict, others = ranked[:n_strict], ranked[n_strict:]
    return [*sorted(strict, key=_order_hit), *sorted(others, key=_order_hit)]


def _find_nearest(passages: Sequence[Passage], cosines: Mapping[int, float]) -> float:
    """Return the highest cosine of a passage's best chunk, 0 without vectors."""
    if not cosines:
        return 0.0
    chunks = [passage.best.candidate.chunk for passage in passages]
    return max((cosines.get(chunk, 0.0) for chunk in chunks), default=0.0)


def _order_hit(ranked: _RankedHit) -> tuple[float, str, int, int]:
    hit = ranked.hit
    return -ranked.raw_score, hit.path, hit.start_line, hit.end_line


def _find_passages(
    reader: Reader,
    workspace: Workspace,
    config: Config,
    n_candidates: int,
    is_apart: bool,
    plan: SearchPlan,
    *,
    limit: int,
) -> tuple[MatchedChunks, Sequence[Passage]]:
    """Find the best passages of one workspace. With `is_apart`, sections join with no others."""
    matched = find_visible(reader, workspace, plan, n_candidates)
    passages = rank_passages(
        matched.chunks._replace(find_apart=partial(_find_apart, reader, is_apart)),
        plan.query.days,
        plan.ranking,
        limit=limit,
        passage_tokens=config.search.passage_tokens,
        find_exact_ratio=make_exact_bound(reader, workspace, plan, matched)
        if matched.chunks.exact is None
        else None,
        boost=make_boost(reader, matched.chunks, plan, config),
    )
    return matched, passages


def _find_apart(reader: Reader, is_apart: bool, sections: Collection[int]) -> list[int]:
    return [*sections] if is_apart else find_stating(reader, sections)


# --- hits ---------------------------------------------------------------------------------------


class _ReadHit(NamedTuple):
    """A passage with the section, snippet and terms that the index has for it."""

    passage: Passage
    section: HitSection
    snippet: str
    labels: list[str]
    matched: list[str]
    related: list[str]


def _read_hits(
    reader: Reader,
    plan: SearchPlan,
    matched: MatchedChunks,
    passages: Sequence[Passage],
    config: Config,
) -> list[_ReadHit]:
    if not passages:
        return []
    options = [*map(_list_options, passages)]
    each = {chunk: section for some in options for chunk, section in some}
    chunks = [passage.chunks for passage in passages]
    words: Sequence[PassageWords | None] = [None] * len(chunks)
    if _must_read_words(plan, matched, len(passages)):
        texts = read_texts(reader, [*chain.from_iterable(chunks)])
        words = read_words(reader, texts, chunks)
    related = _find_related(matched, passages)
    patterns = make_patterns(reader, plan, matched.families)
    # The sections that `_name_sections` names are read by the same statement.
    joined = {section for passage in passages for section in passage.spans}
    sections = _read_shown_sections(reader, plan, joined.union(each.values()))
    shown = _read_shown(reader, plan, config, each, sections)
    choices = [_choose_shown(some, shown) for some in options]
    matcher = Matcher(patterns)
    matches = [shown[chunk].words.find(matcher) for chunk, _ in choices]
    # A label in place of a secret is not in the index.
    single = {at for at, term in enumerate(patterns) if len(term.words) == 1 >= len(term.spelling)}
    certain = [
        set() if shown[chunk].is_redacted else single.intersection(ranges)
        for ranges, (chunk, _) in zip(matches, choices, strict=True)
    ]
    sure = [indices - others for indices, others in zip(certain, related, strict=True)]
    indices_of_terms = _find_held(reader, plan, matched, chunks, sure, words)
    names = [planned.term.text for planned in plan.terms]
    return [
        _ReadHit(
            passage,
            sections[number].section,
            highlight(shown[chunk].text, ranges),
            labels=_choose_labels(reader, sections[number], matcher),
            matched=[names[index] for index in sorted(indices)],
            related=[names[index] for index in sorted(others - indices)],
        )
        for passage, (chunk, number), ranges, indices, others in zip(
            passages, choices, matches, indices_of_terms, related, strict=True
        )
    ]


def _choose_labels(reader: Reader, shown: _ShownSection, matcher: Matcher) -> list[str]:
    """Return the properties of a section to show, those that hold words of the query first."""
    if not matcher.find_terms(shown.words.split(" ")):
        return shown.labels

    def matches(text: str) -> bool:
        return bool(matcher.find_terms(reader.split(space_out(fold(text)))))

    return choose_labels(list_stated(shown.section), shown.section.extra, matches)


def _shows_redacted(reader: Reader, plan: SearchPlan) -> str:
    """Return how answers are redacted: equal for plans that show the same; empty for as it is."""
    is_redacting = plan.is_masking and has_secrets(reader, plan.fingerprint)
    return plan.fingerprint if is_redacting else ""


class _ShownSection(NamedTuple):
    """The section of a hit, the properties that the hit shows if none of them holds a word of the
    query, and the words of all properties, joined by blanks.
    """

    section: HitSection
    labels: list[str]
    words: str


# About what a section of a hit takes.
_SECTION_BYTES = 1_200


def _read_shown_sections(
    reader: Reader, plan: SearchPlan, ids: Collection[int]
) -> Mapping[int, _ShownSection]:
    """Read the sections of hits by their numbers, redacted if need be; keep them for other
    searches.
    """
    redacting = _shows_redacted(reader, plan)

    def read(missing: Sequence[int]) -> Mapping[int, _ShownSection]:
        sections: Mapping[int, HitSection] = read_sections(reader, missing)
        if redacting:
            sections = redact_sections(sections)
        return {number: show(section) for number, section in sections.items()}

    def show(section: HitSection) -> _ShownSection:
        stated = list_stated(section)
        labels = choose_labels(stated, section.extra, lambda _: False)
        pairs = (*stated.items(), *section.extra.items())
        words = reader.split(space_out(fold("\n".join(f"{key}: {value}" for key, value in pairs))))
        return _ShownSection(section, labels, " ".join(words))

    return reader.keep(
        ("section", redacting), ids, read, lambda some: _SECTION_BYTES + 2 * len(some.words)
    )


class _ShownChunk(NamedTuple):
    """The text of a chunk that a hit shows: without its heading, unless it has nothing else; and
    its words.

    With `is_redacted`, a label stands in it for a secret.
    """

    text: str
    is_heading: bool
    is_redacted: bool
    words: TextWords


def _read_shown(
    reader: Reader,
    plan: SearchPlan,
    config: Config,
    chunks: Mapping[int, int],
    sections: Mapping[int, _ShownSection],
) -> Mapping[int, _ShownChunk]:
    """Read the texts that hits show, by chunk, redacted if need be; keep them for other searches.
    `chunks` has their sections.
    """
    redacting = _shows_redacted(reader, plan)

    def read(missing: Sequence[int]) -> dict[int, _ShownChunk]:
        texts: Mapping[int, str] = read_texts(reader, missing)
        if redacting:
            texts = redact_texts(reader, texts, config)
        headings = [(sections[chunks[chunk]].section.heading or ("",))[-1] for chunk in texts]
        bodies = [*map(strip_title, texts.values(), headings)]
        shown = [body or text for body, text in zip(bodies, texts.values(), strict=True)]
        words = find_text_words(shown, reader.tokenize_all)
        return {
            chunk: _ShownChunk(text, not body, bool(redacting) and is_redacted(text), of_text)
            for chunk, text, body, of_text in zip(texts, shown, bodies, words, strict=True)
        }

    return reader.keep(("shown", redacting), chunks, read, _count_bytes)


def _count_bytes(shown: _ShownChunk) -> int:
    """About what a kept chunk takes."""
    words = shown.words
    n_places = len(words.places) + len(words.subword_places)
    return ENTRY_BYTES + 2 * len(shown.text) + 10 * n_places


def _choose_shown(
    options: Sequence[tuple[int, int]], shown: Mapping[int, _ShownChunk]
) -> tuple[int, int]:
    """Return the first chunk, with its section, that says more than its heading; if all are only
    headings, the first.
    """
    return next((pair for pair in options if not shown[pair[0]].is_heading), options[0])


# A chunk with more tokens is more than a heading.
_MAX_HEADING_TOKENS = 40


def _list_options(passage: Passage) -> list[tuple[int, int]]:
    """Return the chunks that a passage may show, with their sections: the strongest, and the next
    chunk if the strongest may be only a heading.
    """
    n_options = 2 if passage.best.candidate.n_tokens <= _MAX_HEADING_TOKENS else 1
    return [*zip(passage.chunks[:n_options], passage.sections[:n_options], strict=True)]


def _find_related(matched: MatchedChunks, passages: Sequence[Passage]) -> list[set[int]]:
    """Return for each passage the indices of the terms whose related words it contains."""
    families = matched.chunks.related
    return [
        {index for index, gains in families.items() if not gains.keys().isdisjoint(passage.chunks)}
        for passage in passages
    ]


def _must_read_words(plan: SearchPlan, matched: MatchedChunks, n_passages: int) -> bool:
    """True if the words of all chunks of the passages take less time to read than to look up."""
    most = MATCHES_PER_LOOKUP * n_passages * len(plan.terms)
    if most <= READ_WORDS_FROM:
        return False
    return _count_matches(matched, [planned.term for planned in plan.terms]) > READ_WORDS_FROM


def _find_held(
    reader: Reader,
    plan: SearchPlan,
    matched: MatchedChunks,
    chunks: Sequence[Sequence[int]],
    certain: Sequence[set[int]],
    words: Sequence[PassageWords | None],
) -> list[set[int]]:
    """Return for each passage the indices of the terms that any of its `chunks` contains.

    `certain` are the terms that it is known to contain. The others are found among its `words` if
    these were read, else by the index.
    """
    if len(plan.terms) == 1 and not matched.chunks.related:
        return [set() if matched.chunks.wordless.issuperset(some) else {0} for some in chunks]
    terms_of_passages = [set(indices) for indices in certain]
    terms, left = _read_terms(reader, plan, chunks, terms_of_passages, words)
    if not terms:
        return terms_of_passages
    spelt = [(index, match) for index, term in terms.items() for match in term.spellings]
    n_matching = _count_matches(matched, [term.term for term in terms.values()])
    holding = find_holding(reader, [phrase for _, phrase in spelt], left, n_matching)
    for some, indices in zip(chunks, terms_of_passages, strict=True):
        for chunk in some:
            if chunk in holding:
                indices.update([spelt[at][0] for at in holding[chunk]])
    return terms_of_passages


def _read_terms(
    reader: Reader,
    plan: SearchPlan,
    chunks: Sequence[Sequence[int]],
    terms_of_passages: Sequence[set[int]],
    words: Sequence[PassageWords | None],
) -> tuple[dict[int, PlannedTerm], set[int]]:
    """Add the terms that the words of each passage contain to its set in `terms_of_passages`.
    Return the terms that words cannot decide, by their indices, and the chunks that may hold them.
    """
    has_words = any(words)
    terms: dict[int, PlannedTerm] = {}
    left: set[int] = set()
    for index, planned in enumerate(plan.terms):
        spellings = _split_spellings(reader, planned.term) if has_words else ()
        for some, indices, of_passage in zip(chunks, terms_of_passages, words, strict=True):
            if index not in indices:
                is_held = None if of_passage is None else _is_held(spellings, of_passage)
                if is_held:
                    indices.add(index)
                elif is_held is None:
                    terms[index] = planned
                    left.update(some)
    return terms, left


def _count_matches(matched: MatchedChunks, terms: Iterable[Term]) -> int:
    """The sum of the chunks that match each term, about."""
    return sum(matched.counts.get(term, UNCOUNTED_MATCHES) for term in terms)


def _split_spellings(reader: Reader, term: Term) -> list[list[str]]:
    """Return the words of each spelling of a term as the index has them; empty for a term that only
    the index can look up.
    """
    if term.form is Form.PREFIX or term.note_name:
        return [[]]
    return [reader.split(text) for text in (" ".join(term.words), term.spelling) if text]


def _is_held(spellings: Sequence[Sequence[str]], words: PassageWords) -> bool | None:
    """Return whether a passage with these words contains a term; None if this depends on the order
    or the beginnings of words.
    """
    for spelling in spellings:
        if len(spelling) == 1 and spelling[0] in words.certain:
            return True
    return None if any(map(words.possible.issuperset, spellings)) else False


def _make_hits(
    workspace: Workspace, read: Sequence[_ReadHit], kinds: Mapping[str, KindDefaults], now_s: float
) -> list[Hit]:
    """Make hits whose score is 1 until all hits of the search are known."""
    metas = describe_metas([each.section for each in read], kinds, now_s)
    return [
        Hit(
            workspace=workspace.id,
            anchor=each.section.anchor,
            path=each.passage.best.candidate.path,
            start_line=each.passage.span.start,
            end_line=each.passage.span.end,
            title=name_note(each.section),
            heading=list(each.section.heading),
            snippet=each.snippet,
            labels=each.labels,
            score=1.0,
            **meta,
            digest=each.section.digest,
            matched=each.matched,
            matched_related=each.related,
        )
        for each, meta in zip(read, metas, strict=True)
    ]


def _explain_hit(
    hit: Hit, passage: Passage, cosines: Mapping[int, float], valuation: Valuation
) -> Hit:
    """Add to a hit the parts of its score, and its worth."""
    parts = {name: round(part, 4) for name, part in passage.best.parts.items()}
    chunk = passage.best.candidate.chunk
    cosine = {"cosine": round(cosines[chunk], 4)} if chunk in cosines else {}
    n_chunks = {"chunks": float(len(passage.chunks))}
    worth = valuation.explain(hit)
    explain = {**parts, **cosine, **n_chunks, **worth}
    return replace(hit, explain=explain, worth=worth.get("worth"))


def _find_mark(hit: Hit, config: Config) -> str:
    texts = [*hit.heading, hit.snippet, *(section.snippet for section in hit.related)]
    # The marks of matched words would hide a phrase.
    return mark_text("\n".join(texts).replace("**", ""), "the snippet below", config)


# --- several workspaces ---------------------------------------------------------------------------


def merge_parts(
    parts: Sequence[SearchPart],
    plan: SearchPlan,
    params: SearchParams,
    config: Config,
) -> SearchAnswer | None:
    """Order the hits of all workspaces, scale their scores and drop those below the minimum.

    None if there is no hit.
    """
    n_terms = len(plan.terms) + plan.query.n_dropped
    merged = _merge(parts, plan)
    if not merged:
        return None
    order = _find_order(parts, params.sort)
    if order and not n_terms:
        merged.sort(key=lambda pair: order(pair[1]))
    nearest = max((part.nearest for part in parts), default=0.0)
    scored = _scale(merged[: params.limit or config.search.max_results], n_terms, nearest)
    min_score = config.search.min_score if params.min_score is None else params.min_score
    hits = [hit for hit in scored if hit.score >= min_score]
    best = scored[0].score
    if order:
        hits.sort(key=order)
    return SearchAnswer(
        hits=hits,
        relaxed=bool(hits) and all(len(hit.matched) < n_terms for hit in hits),
        why_empty=None
        if hits
        else f"every match scores below min_score {min_score}; the best scores {best}",
        did_you_mean=None,
        **describe_vectors([part.vectors for part in parts]),
    )


def describe_vectors(used: Sequence[UsedVectors]) -> dict[str, Any]:
    """Return the fields of an answer that tell how the searches of workspaces used vectors."""
    states = {use.state for use in used} or {"off"}
    return {
        "semantic": states.pop() if len(states) == 1 else "partial",
        "semantic_pending": sum(use.pending for use in used),
        "semantic_reason": next((use.reason for use in used if use.reason), None),
    }


def _find_order(
    parts: Sequence[SearchPart], sort: Sort
) -> Callable[[Hit], tuple[object, ...]] | None:
    if sort not in WORTH_ORDERS:
        return find_order(sort, parts[0].valuation)
    valuations = {part.hits[0].workspace: part.valuation for part in parts if part.hits}
    return lambda hit: (-valuations[hit.workspace].compute(hit).value,)


def _merge(parts: Sequence[SearchPart], plan: SearchPlan) -> list[tuple[float, Hit]]:
    """Return all hits with comparable raw scores, the best first, each passage of a file once."""
    scores: Sequence[Sequence[float]] = [part.raw_scores for part in parts]
    terms = _index_terms(plan) if len(parts) > 1 else {}
    if all(part.counts is not None for part in parts) and len(parts) > 1:
        scores = compare_raw_scores(
            [
                (
                    part.counts or TermCounts(0),
                    [
                        RawHit(
                            raw,
                            frozenset(i for word in _list_words(hit) for i in terms[word]),
                            share,
                        )
                        for raw, hit, share in zip(
                            part.raw_scores, part.hits, part.semantic_shares, strict=True
                        )
                    ],
                )
                for part in parts
            ],
            DEFAULT_RANKING.semantic,
        )
    scored = [
        (raw, part.workspace_name, number, hit)
        for part, raws in zip(parts, scores, strict=True)
        for number, (raw, hit) in enumerate(zip(raws, part.hits, strict=True))
    ]
    if len(parts) > 1:
        places = [
            FoundLines(part.root, hit.path, hit.start_line, hit.end_line)
            for part in parts
            for hit in part.hits
        ]
        repeated = find_repeated(places)
        scored = [entry for index, entry in enumerate(scored) if index not in repeated]
    scored.sort(key=lambda entry: (-entry[0], entry[1], entry[3].workspace, entry[2]))
    return [(raw, hit) for raw, _, _, hit in scored]


def _index_terms(plan: SearchPlan) -> dict[str, list[int]]:
    """Map the text of a term, as hits name it, to its indices: a query may hold it twice."""
    indices: dict[str, list[int]] = {}
    for index, planned in enumerate(plan.terms):
        indices.setdefault(planned.term.text, []).append(index)
    return indices


def _scale(scored: Sequence[tuple[float, Hit]], n_terms: int, nearest: float) -> list[Hit]:
    """Scale scores: the first becomes the largest share of the query's words in a hit, or `nearest`
    if this cosine is higher.
    """
    if not n_terms:  # a query of filters alone ranks nothing
        return [hit for _, hit in scored]
    coverage = max(nearest, max(_count_words(hit) for _, hit in scored) / n_terms)
    scores = normalize_scores([raw for raw, _ in scored], coverage=min(1.0, coverage))
    return [replace(hit, score=score) for (_, hit), score in zip(scored, scores, strict=True)]


def _count_words(hit: Hit) -> float:
    """The number of the query's words in a hit; related words count by their weight."""
    return len(hit.matched) + FAMILY_WEIGHT * len(hit.matched_related)


def _list_words(hit: Hit) -> list[str]:
    """The words of the query of which a hit holds the word itself or a related word."""
    return [*hit.matched, *hit.matched_related]
