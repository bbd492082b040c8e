"""How does a query become hits?

Parse, compile, fetch candidates, rank and join them, read what is shown, light the matched words. A query runs against one
committed generation; notes that a fresh scan did not find any more (`hidden`) are left out though the index still has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memsyncd.core.recall.match import Matcher, Wanted, to_characters
from memsyncd.core.recall.query import Form, Query, Term, compile_query, parse_query
from memsyncd.core.recall.ranking import N_CANDIDATES, Passage, rank_passages, score_strengths
from memsyncd.core.recall.snippet import find_body, render_snippet
from memsyncd.core.span import Span
from memsyncd.engine.policies import SearchPolicy
from memsyncd.engine.workspaces import Workspace
from memsyncd.store.readers import Reader
from memsyncd.store.search import (
    NO_FILTERS,
    Filters,
    ShownSection,
    ShownText,
    find_candidates,
    is_matching,
    read_sections,
    read_texts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One search. `hidden` are notes that must not be shown: workspace ids and paths."""

    query: str
    filters: Filters = NO_FILTERS
    limit: int = 10
    min_score: float = 0.0
    timeout_s: float = 1.0
    hidden: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One passage of an answer. `matched` are the words as typed that it holds."""

    workspace: Workspace
    section: ShownSection
    path: str
    span: Span
    snippet: str
    strength: float
    score: float
    matched: tuple[str, ...]
    parts: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An answer. `is_relaxed` if no hit holds every word; `why_empty` says why there is none."""

    hits: tuple[Hit, ...]
    is_relaxed: bool
    why_empty: str | None


def search(workspaces: Sequence[Workspace], asked: Asked, policy: SearchPolicy) -> Found:
    """Search one workspace, or several as one. Raises TooLarge, NotFresh (out of time), and as `Workspace.lend`."""
    query = parse_query(asked.query)
    match = compile_query(query)
    if not match:
        return Found(hits=(), is_relaxed=False, why_empty="the query holds no word to look for")
    hits: list[Hit] = []
    reasons: list[str] = [] if workspaces else ["there is no workspace yet: add a folder with memsyncd add PATH"]
    for workspace in workspaces:
        found, reason = _search_one(workspace, query, match, asked, policy)
        hits += found
        reasons += [reason] if reason else []
    n_terms = len(query.positive) + query.n_dropped
    hits.sort(key=lambda hit: (-hit.strength, hit.workspace.entry.name, hit.path, hit.span))
    scored = _score(hits[: asked.limit], n_terms, asked.min_score)
    if hits and not scored:
        reasons.append(f"every match scores below min_score {asked.min_score}")
    is_relaxed = bool(scored) and all(len(hit.matched) < n_terms for hit in scored)
    return Found(hits=scored, is_relaxed=is_relaxed, why_empty=None if scored else "; ".join(dict.fromkeys(reasons)))


def _score(hits: Sequence[Hit], n_terms: int, min_score: float) -> tuple[Hit, ...]:
    if not hits:
        return ()
    scores = score_strengths([hit.strength for hit in hits], coverage=max(len(hit.matched) for hit in hits) / n_terms)
    scored = (replace(hit, score=score) for hit, score in zip(hits, scores, strict=True))
    return tuple(hit for hit in scored if hit.score >= min_score)


def _search_one(workspace: Workspace, query: Query, match: str, asked: Asked, policy: SearchPolicy) -> tuple[list[Hit], str]:
    with workspace.lend(asked.timeout_s) as reader:
        candidates = find_candidates(reader, match, asked.filters, limit=max(N_CANDIDATES, asked.limit))
        visible = [candidate for candidate in candidates if (workspace.id, candidate.path) not in asked.hidden]
        passages = rank_passages(visible, limit=asked.limit, passage_tokens=policy.passage_tokens)
        if not passages:
            return [], _explain_nothing(reader, workspace, match, asked, is_hidden=bool(candidates))
        return _read_hits(reader, workspace, query, passages), ""


def _read_hits(reader: Reader, workspace: Workspace, query: Query, passages: Sequence[Passage]) -> list[Hit]:
    sections = read_sections(reader, {passage.best.section for passage in passages})
    texts = read_texts(reader, [candidate.chunk for passage in passages for candidate in passage.chunks])
    matcher = Matcher([_stem(reader, term) for term in query.positive])
    return [_hit(reader, workspace, passage, sections[passage.best.section], texts, query, matcher) for passage in passages]


def _stem(reader: Reader, term: Term) -> Wanted:
    words = tuple(word for _, _, word in reader.tokenize(" ".join(term.words)))
    return Wanted(words, term.form is Form.PREFIX)


def _hit(
    reader: Reader,
    workspace: Workspace,
    passage: Passage,
    section: ShownSection,
    texts: dict[int, ShownText],
    query: Query,
    matcher: Matcher,
) -> Hit:
    best = texts[passage.best.chunk]
    body = find_body(best.text, section.heading[-1] if section.heading else "")
    lit = matcher.find(reader.tokenize(body))
    matched = set(lit)
    for candidate in passage.chunks:
        if len(matched) == len(query.positive):
            break
        shown = texts[candidate.chunk]
        matched.update(matcher.find(reader.tokenize(f"{shown.heading} {shown.tags}")))
        if shown is not best or body != best.text:
            matched.update(matcher.find(reader.tokenize(shown.text)))
    return Hit(
        workspace=workspace,
        section=section,
        path=passage.best.path,
        span=passage.span,
        snippet=render_snippet(body, to_characters(body, [place for places in lit.values() for place in places])),
        strength=passage.strength,
        score=1.0,
        matched=tuple(term.text for index, term in enumerate(query.positive) if index in matched),
        parts={"bm25": round(passage.strength, 4), "chunks": float(len(passage.chunks))},
    )


def _explain_nothing(reader: Reader, workspace: Workspace, match: str, asked: Asked, *, is_hidden: bool) -> str:
    condition = workspace.condition
    trouble = "; ".join(condition.faults.values())
    if condition.counts.files == 0:
        if condition.state == "indexing":
            return "the first index is still being made"
        if condition.state == "missing":
            return "the workspace's folder is missing"
        if trouble:
            return f"no note is indexed: {trouble}"
        return "no note is indexed yet: save one as MEMORY.md or under .memories/"
    if is_hidden:
        return "the only notes that match were deleted just now"
    if not asked.filters.is_empty and is_matching(reader, match):
        return f"notes match, and the filters ({', '.join(asked.filters.words)}) leave none of them"
    if condition.pending or condition.state == "indexing":
        return f"no indexed note matches; {condition.pending} are still to be read{': ' if trouble else ''}{trouble}"
    return "no note holds any of these words" if " OR " in match or " " not in match else "no note matches"
