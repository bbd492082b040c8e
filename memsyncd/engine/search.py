"""Search workspaces: parse the query, find candidates, rank and join them, read and highlight.

A search of one workspace queries the store twice, for candidates with their ranking features
and for what the answer shows; `core` ranks in between and renders afterwards. Both reads see
one committed generation. Notes that a fresh scan no longer found (`RunOptions.absent`) are left
out, although the index still has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import accumulate, chain
from typing import Final, NamedTuple, TypedDict, TypeVar

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import KindDefaults, find_kind
from memsyncd.core.guard.secrets import is_redacted
from memsyncd.core.model import CHOICES, find_choice
from memsyncd.core.search.dates import DAY_FORM, parse_day
from memsyncd.core.search.filters import (
    Filters,
    fold_value,
    list_compared_keys,
    name_comparisons,
    parse_condition,
)
from memsyncd.core.search.passages import Matcher, find_matches, highlight, strip_title
from memsyncd.core.search.query import (
    Form,
    Query,
    Term,
    compile_must_not,
    compile_positive,
    compile_spellings,
    find_query_problems,
    parse_query,
)
from memsyncd.core.search.ranking import (
    DEFAULT_RANKING,
    N_CANDIDATES,
    Passage,
    fill_passages,
    rank_passages,
)
from memsyncd.engine.candidates import (
    HURRIED,
    AskedQuestion,
    MatchedChunks,
    begin_question,
    count_terms,
    find_exact_ratio,
    find_visible,
    make_boost,
    make_patterns,
    prepare_vectors,
)
from memsyncd.engine.clock import find_local_day
from memsyncd.engine.commands import list_held_commands, spare_commands
from memsyncd.engine.explain import HURRIED_CPU_S, Question, explain_nothing
from memsyncd.engine.federation import SearchPart, describe_vectors, merge_search_parts
from memsyncd.engine.marking import mark_hits
from memsyncd.engine.metadata import (
    NO_ACCESSES,
    Valuation,
    complete_tiers,
    describe_meta,
    make_valuation,
)
from memsyncd.engine.redaction import (
    read_redacted_sections,
    read_redacted_titles,
    redact_texts,
)
from memsyncd.engine.relations import complete_hits, make_related_reader
from memsyncd.engine.workspace import Workspace, index_fingerprint
from memsyncd.errors import BadRequest, MemsyncdError, NotFresh
from memsyncd.operations import sections
from memsyncd.operations.fields import SectionPlace
from memsyncd.operations.search.declare import ContextParams, Hit, SearchAnswer, SearchParams
from memsyncd.store.lookup import count_keys
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    MATCHES_PER_LOOKUP,
    Excluded,
    PassageWords,
    find_holding,
    read_words,
)
from memsyncd.store.sections import HitSection, find_separate, find_stating
from memsyncd.store.texts import read_texts

Asked = TypeVar("Asked", SearchParams, ContextParams)
# Neighbours join into passages, so many hits need many more chunks.
CANDIDATES_PER_HIT = 10
# Orders that the hits are in anyway.
UNORDERED: Final = ("relevance", "file")
# Limit for reading the hits of a hurried search. Milliseconds are enough; it guards against a disk
# that hangs.
READ_S = 1.0
# From so many matches on that would be passed over, the words of the hits are read instead.
READ_WORDS_FROM = 10_000
# About how many chunks match a word of an index that is so small that they are not counted.
UNCOUNTED_MATCHES = 200


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the daemon runs a search or builds a context, besides the parameters of the client.

    `absent` are notes that must not be shown: workspace ids and paths. If `within` is not empty,
    only notes at or in these places are. `now_s` is seconds since 1970. `timeout_s` is None for the
    request's own limit, or the configured one.

    `is_hurried`: raise NotFresh at once if there is much to look up, be it to find hits or to
    explain why there is none. The limit then counts for finding alone; reading the hits never takes
    long.
    """

    now_s: float = 0.0
    timeout_s: float | None = None
    absent: frozenset[tuple[str, str]] = msgspec.field(default_factory=frozenset)
    within: tuple[str, ...] = ()
    is_hurried: bool = False
    # The accesses of the sections of the one workspace that is read, by anchor: on them depends the
    # decay.
    accesses: Mapping[str, int] = msgspec.field(default_factory=dict)
    # The commands of the query that a passage holds; None if that was not looked up yet.
    commands: frozenset[str] | None = None

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

    Raises BadRequest, NotFresh (out of time), and what `Workspace.acquire` raises.
    """
    if options.is_hurried and prepare_vectors(workspaces, params.query, options.now_s):
        raise NotFresh(HURRIED)  # the vector process may take milliseconds
    params, options = prepare_question(workspaces, params, config, options)
    question = make_question(params, config, options)
    searched = () if question.is_empty else workspaces
    is_merged = len(searched) > 1
    parts = [
        search_part(workspace, question, params, config, options, is_merged=is_merged)
        for workspace in searched
    ]
    answer = merge_search_parts(parts, question.query, params, config)
    if answer is not None and not lacks_words(answer, question):
        return answer
    return explain_search(workspaces, question, answer, parts)


def lacks_words(answer: SearchAnswer, question: Question) -> bool:
    """True if vectors alone found the hits: the words may be mistyped."""
    has_words = bool(question.match and answer.hits)
    return has_words and not any(hit.matched or hit.matched_related for hit in answer.hits)


def explain_search(
    workspaces: Sequence[Workspace],
    question: Question,
    answer: SearchAnswer | None,
    parts: Sequence[SearchPart],
) -> SearchAnswer:
    """Make the answer of a search that finds nothing in these workspaces, or complete that of one
    that finds none of the words. `parts` are what was found in each workspace.
    """
    reason = explain_nothing(workspaces, question)
    if answer is not None:
        return replace(answer, did_you_mean=reason.did_you_mean)
    return SearchAnswer(
        hits=[],
        relaxed=False,
        why_empty=reason.why,
        did_you_mean=reason.did_you_mean,
        **describe_vectors([part.vectors for part in parts]),
    )


def may_name_commands(params: SearchParams | ContextParams) -> bool:
    """True if an exclusion in the query may be an option of a command, as in `git commit -m`."""
    return "-" in params.query and bool(parse_query(params.query).commands)


def must_prepare(params: SearchParams | ContextParams) -> bool:
    """True if it depends on the notes how the query is read: if it compares (`rating>=7`), or may
    name commands.
    """
    return may_name_commands(params) or bool(list_compared_keys(params.query))


def prepare_question(
    workspaces: Sequence[Workspace], params: Asked, config: Config, options: RunOptions
) -> tuple[Asked, RunOptions]:
    """Look up in the workspaces how to read the query.

    Raises NotFresh if the request is hurried and there is anything to look up, BadRequest, and what
    `Workspace.acquire` raises.
    """
    if not must_prepare(params):
        return params, options
    params = _read_comparisons(workspaces, params, config, options)
    if options.commands is None and may_name_commands(params):
        options = replace(options, commands=find_commands(workspaces, params, config, options))
    return params, options


def find_commands(
    workspaces: Sequence[Workspace],
    params: SearchParams | ContextParams,
    config: Config,
    options: RunOptions,
) -> frozenset[str]:
    """Return the commands of the query that any of the workspaces holds.

    Raises BadRequest, and NotFresh if the request is hurried and there is any to read.
    """
    question = make_question(params, config, options)
    cpu_s = HURRIED_CPU_S if question.is_hurried else math.inf
    held: set[str] = set()
    for workspace in workspaces:
        try:
            with workspace.acquire(question.timeout_s, cpu_s) as reader:
                held |= list_held_commands(reader, question)
        except MemsyncdError:
            if question.is_hurried:
                raise
            continue  # the search of this workspace says why, and others may hold some
    return frozenset(held)


def _read_comparisons(
    workspaces: Sequence[Workspace], params: Asked, config: Config, options: RunOptions
) -> Asked:
    """Return the parameters with `meta:` before each comparison in the query, such as `rating>=7`,
    of a key that a note has. Raises what `Workspace.acquire` raises.
    """
    if not list_compared_keys(params.query):
        return params
    if options.is_hurried:
        raise NotFresh(HURRIED)  # the keys are in all notes
    keys: set[str] = set()
    for workspace in workspaces:
        with workspace.acquire(options.limit_s(params, config)) as reader:
            keys.update(fold_value(key) for key, _ in count_keys(reader))
    return replace(params, query=name_comparisons(params.query, keys))


def make_question(
    params: SearchParams | ContextParams, config: Config, options: RunOptions
) -> Question:
    """Parse and compile the query and the filters of a request. Raises BadRequest."""
    today = find_local_day(options.now_s)
    filters, query = read_filters(params.filters, today), parse_query(params.query, today)
    query = query.add_phrases(options.commands or ())
    return Question(
        text=params.query,
        query=query,
        match=compile_positive(query),
        must_not=Excluded(compile_must_not(query)),
        filters=_complete(
            filters.join(query.filters).join(Filters(paths=options.within)),
            config,
            make_valuation(config, options.now_s, options.accesses),
        ),
        fingerprint=index_fingerprint(config),
        absent=options.absent,
        is_hurried=options.is_hurried,
        timeout_s=options.limit_s(params, config),
    )


class QueryReport(TypedDict):
    """The fields of an answer that say how its query was read."""

    query_problems: list[str]
    excluded: list[str]


NOTHING_TO_SAY = QueryReport(query_problems=[], excluded=[])


def describe_query(params: SearchParams | ContextParams, now_s: float) -> QueryReport:
    """Describe what of the query does not count as it was typed, and what it excludes."""
    today = find_local_day(now_s)
    return QueryReport(
        query_problems=find_query_problems(params.query, today),
        excluded=list(parse_query(params.query, today).excluded) if "-" in params.query else [],
    )


def _complete(filters: Filters, config: Config, valuation: Valuation) -> Filters:
    """Add what decides which sections have expired, the importance of those that state none, and
    their tiers.
    """
    filters, now_s = complete_tiers(filters, valuation), valuation.now_s
    if filters.min_importance is None and filters.and_ is None:
        return replace(filters, now_s=now_s)
    kinds = [(name, kind.importance) for name, kind in config.kinds.items()]
    rest = ("", find_kind({}, None).importance)
    and_ = filters.and_ and _complete(filters.and_, config, valuation)
    return replace(filters, now_s=now_s, kind_importance=(*kinds, rest), and_=and_)


def complete_filters(
    filters: sections.Filters,
    config: Config,
    now_s: float,
    accesses: Mapping[str, int] = NO_ACCESSES,
) -> Filters:
    """Parse the filters of a request at this time. Raises what `read_filters` raises."""
    parsed = read_filters(filters, find_local_day(now_s))
    return _complete(parsed, config, make_valuation(config, now_s, accesses))


def read_filters(filters: sections.Filters, today: date) -> Filters:
    """Parse the filters of a request, with days relative to `today`.

    Raises BadRequest for a value that is empty or cannot be read, with the name of its filter.
    """
    for name in ("kind", "tag", "path", "section", "task", "session", "source", "status", "has"):
        _refuse_empty(name, getattr(filters, name))
    _refuse_empty("related_to", filters.related_to)
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
        priorities=_read_choices("priority", filters.priority),
        lifecycles=_read_choices("lifecycle", filters.lifecycle),
        statuses=tuple(filters.status),
        metas=tuple(_read_condition(text, today) for text in filters.meta),
        keys=tuple(map(str.strip, filters.has)),
        related_to=tuple(filters.related_to),
        tiers=_read_choices("tier", filters.tier),
        min_importance=filters.min_importance,
        is_archived=filters.archived,
        is_expired=filters.expired,
        includes_archived=filters.include_archived,
        includes_expired=filters.include_expired,
    )


def _refuse_empty(name: str, values: Sequence[str]) -> None:
    if not all(map(str.strip, values)):
        raise BadRequest(f"filter `{name}` has an empty value", hint="name one, or leave it out")


def _read_choices(name: str, values: Sequence[str]) -> tuple[str, ...]:
    found = []
    for value in values:
        choice = find_choice(name, value)
        if choice is None:
            raise BadRequest(
                f"filter `{name}` is none of {', '.join(CHOICES[name])}: {value[:40]}",
                hint="use one of these",
            )
        found.append(choice)
    return tuple(found)


def _read_condition(text: str, today: date) -> str:
    condition = parse_condition(text, today)
    if condition is None:
        raise BadRequest(
            f"filter `meta` is neither KEY=VALUE nor a comparison: {text[:40]}",
            hint="write for example owner=infra, rating>=7 or due<2026-12-01",
        )
    return "".join(condition)


def _read_day(name: str, text: str | None, today: date) -> str | None:
    if text is None:
        return None
    day = parse_day(text, today)
    if day is None:
        raise BadRequest(
            f"filter `{name}` is no date: {text[:40]}",
            hint=f"write {DAY_FORM}",
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
    """Search one workspace; raises as `search`. With `is_merged`, also count what it takes to merge
    its hits with others.
    """
    n_hits = params.limit or config.search.max_results
    n_candidates = max(N_CANDIDATES, CANDIDATES_PER_HIT * n_hits)
    # Filters alone rank nothing: the order decides among all that were found.
    n_passages = n_hits if question.match or params.sort in UNORDERED else n_candidates
    asked = begin_question(workspace, question, DEFAULT_RANKING)
    cpu_s = HURRIED_CPU_S if question.is_hurried else math.inf
    with workspace.acquire(question.timeout_s, cpu_s) as reader:
        asked = spare_commands(reader, asked)
        find = partial(
            _find_passages, reader, workspace, params, config, options, n_candidates=n_candidates
        )
        found, passages = find(asked, limit=n_passages)
        n_strict = len(passages)
        if n_strict < n_hits and asked.relaxed is not None:
            found, more = find(asked.relaxed, limit=n_hits)
            passages = fill_passages(passages, more, limit=n_hits)
        gains = found.vectors.gains
        merged_counts = count_terms(reader, question.query, workspace, gains) if is_merged else None
        if question.is_hurried:
            reader.allow(READ_S)
        hits = [
            _make_hit(
                workspace, one, config.kinds, options.now_s, found, is_explained=params.explain
            )
            for one in _read_hits(reader, question.query, found, passages, config)
        ]
        related = make_related_reader(reader, config, question, workspace.id, options.now_s)
        sections = [one.sections for one in passages]
        hits = complete_hits(reader, hits, sections, params.follow, related)
        hits = mark_hits(reader, _name_sections(reader, hits, passages, config), config)
    valuation = make_valuation(config, options.now_s, options.accesses)
    if params.explain:
        hits = [_add_value(hit, valuation) for hit in hits]
    ordered = _order_hits(passages, hits, n_strict)
    return SearchPart(
        workspace_name=workspace.entry.name,
        root=workspace.entry.root,
        hits=[one.hit for one in ordered],
        # What lacks a phrase has no higher score than what holds it.
        raw_scores=[*accumulate((one.raw_score for one in ordered), min)],
        semantic_shares=[one.semantic_share for one in ordered],
        nearest=_find_nearest(passages, found.vectors.cosines),
        vectors=found.vectors,
        valuation=valuation,
        counts=merged_counts,
    )


def _name_sections(
    reader: Reader, hits: Sequence[Hit], passages: Sequence[Passage], config: Config
) -> list[Hit]:
    """Add to each hit of several sections their names and lines."""
    joined = {section for one in passages for section in one.spans}
    titles = read_redacted_titles(reader, joined, config) if joined else {}
    return [
        replace(
            hit,
            sections=[
                SectionPlace(
                    anchor=titles[section].anchor,
                    path=hit.path,
                    start_line=span.start,
                    end_line=span.end,
                    heading=list(titles[section].heading),
                )
                for section, span in one.spans.items()
            ],
        )
        if one.spans
        else hit
        for hit, one in zip(hits, passages, strict=True)
    ]


class _FoundHit(NamedTuple):
    raw_score: float
    hit: Hit
    semantic_share: float


def _order_hits(passages: Sequence[Passage], hits: Sequence[Hit], n_strict: int) -> list[_FoundHit]:
    found = [
        _FoundHit(one.best.raw_score, hit, one.best.candidate.semantic_share)
        for one, hit in zip(passages, hits, strict=True)
    ]
    strict, others = found[:n_strict], found[n_strict:]
    return [*sorted(strict, key=_order_hit), *sorted(others, key=_order_hit)]


def _find_nearest(passages: Sequence[Passage], cosines: Mapping[int, float]) -> float:
    """Return the highest cosine of a passage's best chunk, 0 without vectors."""
    return max((cosines.get(one.best.candidate.chunk, 0.0) for one in passages), default=0.0)


def _order_hit(found: _FoundHit) -> tuple[float, str, int, int]:
    hit = found.hit
    return -found.raw_score, hit.path, hit.start_line, hit.end_line


def _find_passages(
    reader: Reader,
    workspace: Workspace,
    params: SearchParams,
    config: Config,
    options: RunOptions,
    asked: AskedQuestion,
    *,
    n_candidates: int,
    limit: int,
) -> tuple[MatchedChunks, Sequence[Passage]]:
    """Find the best passages of one workspace."""
    query = asked.question.query
    found = find_visible(reader, workspace, asked, n_candidates)
    # A hit that stands for several sections has no metadata to be selected or ordered by.
    is_apart = asked.question.filters.asks_for_metadata or params.sort not in UNORDERED
    find_apart = partial(find_separate if is_apart else find_stating, reader)
    passages = rank_passages(
        found.chunks._replace(find_apart=find_apart),
        query.days,
        asked.ranking,
        limit=limit,
        passage_tokens=config.search.passage_tokens,
        find_exact_ratio=find_exact_ratio(reader, query, workspace, found.counts),
        boost=make_boost(reader, found.chunks, config, options.now_s, query.identifiers),
    )
    return found, passages


# --- hits ---------------------------------------------------------------------------------------


class _ReadHit(NamedTuple):
    """A passage with what the index has of it."""

    passage: Passage
    section: HitSection
    snippet: str
    matched: list[str]
    related: list[str]


def _read_hits(
    reader: Reader,
    query: Query,
    found: MatchedChunks,
    passages: Sequence[Passage],
    config: Config,
) -> list[_ReadHit]:
    if not passages:
        return []
    options = [*map(_list_options, passages)]
    each = [*chain.from_iterable(options)]
    sections = read_redacted_sections(reader, {section for _, section in each}, config)
    is_reading = _must_read_words(query, found, len(passages))
    chunks = [passage.chunks for passage in passages]
    read = [*chain.from_iterable(chunks)] if is_reading else []
    texts = read_texts(reader, read or [chunk for chunk, _ in each])
    redacted = redact_texts(reader, {chunk: texts[chunk] for chunk, _ in each}, config)
    shown = [_choose_shown(some, redacted, sections) for some in options]
    bodies = [body for _, body in shown]
    patterns = make_patterns(reader, query, found.families)
    matcher = Matcher(patterns)
    matches = [find_matches(body, matcher, reader.tokenize) for body in bodies]
    # A label in place of a secret is not in the index.
    single = {at for at, one in enumerate(patterns) if len(one.words) == 1 >= len(one.spelling)}
    known = [
        set() if is_redacted(body) else single.intersection(one)
        for one, body in zip(matches, bodies, strict=True)
    ]
    related = _find_related(found, passages)
    sure = [indices - others for indices, others in zip(known, related, strict=True)]
    words = read_words(reader, texts, chunks) if is_reading else [None] * len(chunks)
    held = _find_held(reader, query, found, chunks, sure, words)
    names = [term.text for term in query.positive]
    return [
        _ReadHit(
            passage,
            section,
            highlight(body, ranges),
            matched=[names[index] for index in sorted(indices)],
            related=[names[index] for index in sorted(others - indices)],
        )
        for passage, (section, body), ranges, indices, others in zip(
            passages, shown, matches, held, related, strict=True
        )
    ]


# A heading alone is short.
_MAX_HEADING_TOKENS = 40


def _list_options(passage: Passage) -> list[tuple[int, int]]:
    """Return the chunks that a passage may show, with their sections: the strongest, and the next
    one if that may be a heading alone.
    """
    n_options = 2 if passage.best.candidate.n_tokens <= _MAX_HEADING_TOKENS else 1
    return [*zip(passage.chunks[:n_options], passage.sections[:n_options], strict=True)]


def _choose_shown(
    options: Sequence[tuple[int, int]],
    texts: Mapping[int, str],
    sections: Mapping[int, HitSection],
) -> tuple[HitSection, str]:
    """Return the section of the first chunk that says more than its heading, and what it says; of
    headings alone the first.
    """
    for chunk, section in options:
        body = strip_title(texts[chunk], (sections[section].heading or ("",))[-1])
        if body:
            return sections[section], body
    chunk, section = options[0]
    return sections[section], texts[chunk]


def _find_related(found: MatchedChunks, passages: Sequence[Passage]) -> list[set[int]]:
    """Return for each passage the indices of the terms of which it contains related words."""
    families = found.chunks.related
    return [
        {index for index, gains in families.items() if not gains.keys().isdisjoint(passage.chunks)}
        for passage in passages
    ]


def _must_read_words(query: Query, found: MatchedChunks, n_passages: int) -> bool:
    """True if the words of all chunks of the passages take less time to read than to look up."""
    most = MATCHES_PER_LOOKUP * n_passages * len(query.positive)
    return min(most, _count_matches(found, query.positive)) > READ_WORDS_FROM


def _find_held(
    reader: Reader,
    query: Query,
    found: MatchedChunks,
    chunks: Sequence[Sequence[int]],
    known: Sequence[set[int]],
    words: Sequence[PassageWords | None],
) -> list[set[int]]:
    """Return for each passage the indices of the terms that any of its `chunks` contains; of
    `known` ones it is certain.

    Of the others its `words` tell, if they are known, else the index.
    """
    if len(query.positive) == 1 and not found.chunks.related:
        return [set() if found.chunks.wordless.issuperset(some) else {0} for some in chunks]
    held = [set(indices) for indices in known]
    has_words = any(words)
    terms: dict[int, Term] = {}
    left: set[int] = set()
    for index, term in enumerate(query.positive):
        spellings = _split_spellings(reader, term) if has_words else ()
        for some, indices, of_passage in zip(chunks, held, words, strict=True):
            if index not in indices:
                is_held = None if of_passage is None else _is_held(spellings, of_passage)
                if is_held:
                    indices.add(index)
                elif is_held is None:
                    terms[index] = term
                    left.update(some)
    spelt = [(index, one) for index, term in terms.items() for one in compile_spellings(term)]
    n_matching = _count_matches(found, terms.values())
    holding = find_holding(reader, [phrase for _, phrase in spelt], left, n_matching)
    for some, indices in zip(chunks, held, strict=True):
        for chunk in some:
            if chunk in holding:
                indices.update([spelt[at][0] for at in holding[chunk]])
    return held


def _count_matches(found: MatchedChunks, terms: Iterable[Term]) -> int:
    """About how many chunks match each term, together."""
    return sum(found.counts.get(term, UNCOUNTED_MATCHES) for term in terms)


def _split_spellings(reader: Reader, term: Term) -> list[list[str]]:
    """Return the words of each spelling of a term as the index has them; none of what only the
    index can tell.
    """
    if term.form is Form.PREFIX or term.note_name:
        return [[]]
    return [reader.split(one) for one in (" ".join(term.words), term.spelling) if one]


def _is_held(spellings: Sequence[Sequence[str]], words: PassageWords) -> bool | None:
    """Return whether a passage with these words contains a term; None if that depends on their
    order, or on their beginnings.
    """
    for one in spellings:
        if len(one) == 1 and one[0] in words.certain:
            return True
    return None if any(map(words.possible.issuperset, spellings)) else False


def _make_hit(
    workspace: Workspace,
    read: _ReadHit,
    kinds: Mapping[str, KindDefaults],
    now_s: float,
    found: MatchedChunks,
    *,
    is_explained: bool,
) -> Hit:
    """Make a hit whose score is 1 until all hits of the search are known."""
    passage, section = read.passage, read.section
    return Hit(
        workspace=workspace.id,
        anchor=section.anchor,
        path=passage.best.candidate.path,
        start_line=passage.span.start,
        end_line=passage.span.end,
        heading=list(section.heading),
        snippet=read.snippet,
        score=1.0,
        **describe_meta(section, kinds, now_s),
        digest=section.digest,
        matched=read.matched,
        matched_related=read.related,
        explain=_explain_score(passage, found.vectors.cosines) if is_explained else None,
    )


def _add_value(hit: Hit, valuation: Valuation) -> Hit:
    return replace(hit, explain={**(hit.explain or {}), **valuation.explain(hit)})


def _explain_score(passage: Passage, cosines: Mapping[int, float]) -> dict[str, float]:
    parts = {name: round(part, 4) for name, part in passage.best.parts.items()}
    chunk = passage.best.candidate.chunk
    cosine = {"cosine": round(cosines[chunk], 4)} if chunk in cosines else {}
    return {**parts, **cosine, "chunks": float(len(passage.chunks))}
