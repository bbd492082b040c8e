"""How does a query become hits?

Parse, compile, fetch candidates, rank and join them, read what is shown, light the matched words. A query runs against one
committed generation; notes that a fresh scan did not find any more (`hidden`) are left out though the index still has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memsyncd.core.recall.query import Query, Term, compile_query, parse_query
from memsyncd.core.recall.ranking import N_CANDIDATES, Passage, rank_passages
from memsyncd.core.recall.snippet import render_snippet
from memsyncd.core.span import Span
from memsyncd.engine.policies import SearchPolicy
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import Busy
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
    """One search. `hidden` are paths that must not be shown."""

    query: str
    filters: Filters = NO_FILTERS
    limit: int = 10
    min_score: float = 0.0
    timeout_s: float = 1.0
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One passage of an answer. `matched` are the words as typed that it holds."""

    workspace: Workspace
    section: ShownSection
    path: str
    span: Span
    snippet: str
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
    """Search one workspace, or several as one. Raises TooLarge, NotFresh (out of time) and what the store raises."""
    query = parse_query(asked.query)
    match = compile_query(query)
    if not match:
        return Found(hits=(), is_relaxed=False, why_empty="the query holds no word to look for")
    hits: list[Hit] = []
    reasons: list[str] = []
    for workspace in workspaces:
        found, reason = _search_one(workspace, query, match, asked, policy)
        hits += found
        reasons += [reason] if reason else []
    hits.sort(key=lambda hit: (-hit.score, hit.workspace.entry.name, hit.path, hit.span))
    hits = hits[: asked.limit]
    all_words = {term.text for term in query.positive}
    is_relaxed = bool(hits) and (query.n_dropped > 0 or not any(set(hit.matched) >= all_words for hit in hits))
    return Found(hits=tuple(hits), is_relaxed=is_relaxed, why_empty=None if hits else "; ".join(dict.fromkeys(reasons)))


def _search_one(workspace: Workspace, query: Query, match: str, asked: Asked, policy: SearchPolicy) -> tuple[list[Hit], str]:
    readers = workspace.readers
    if readers is None:
        raise Busy("the index is being opened", hint="ask again in a moment, or look at: memsyncd status")
    with readers.lend(asked.timeout_s) as reader:
        candidates = find_candidates(reader, match, asked.filters, limit=max(N_CANDIDATES, asked.limit))
        visible = [candidate for candidate in candidates if candidate.path not in asked.hidden]
        passages = rank_passages(visible, limit=asked.limit, passage_tokens=policy.passage_tokens, min_score=asked.min_score)
        if not passages:
            return [], _explain_nothing(reader, workspace, match, asked, n_candidates=len(visible))
        return _read_hits(reader, workspace, query, passages), ""


def _read_hits(reader: Reader, workspace: Workspace, query: Query, passages: Sequence[Passage]) -> list[Hit]:
    sections = read_sections(reader, {passage.best.section for passage in passages})
    texts = read_texts(reader, [candidate.chunk for passage in passages for candidate in passage.chunks])
    stems = [(term, _stem(reader, term)) for term in query.positive]
    return [_hit(reader, workspace, passage, sections[passage.best.section], texts, stems) for passage in passages]


Stemmed = tuple[Term, tuple[str, ...]]


def _stem(reader: Reader, term: Term) -> tuple[str, ...]:
    return tuple(word for _, _, word in reader.tokenize(" ".join(term.words)))


def _hit(
    reader: Reader,
    workspace: Workspace,
    passage: Passage,
    section: ShownSection,
    texts: dict[int, ShownText],
    stems: Sequence[Stemmed],
) -> Hit:
    best = texts[passage.best.chunk]
    matched: dict[str, None] = {}
    lit: list[tuple[int, int]] = []
    for candidate in passage.chunks:
        shown = texts[candidate.chunk]
        tokens = reader.tokenize(shown.text)
        around = reader.tokenize(f"{shown.heading} {shown.tags}")
        for term, words in stems:
            places = _find_term(tokens, term, words)
            if places or _find_term(around, term, words):
                matched[term.text] = None
            if shown is best:
                lit += places
    return Hit(
        workspace=workspace,
        section=section,
        path=passage.best.path,
        span=passage.span,
        snippet=render_snippet(best.text, _to_characters(best.text, lit)),
        score=passage.score,
        matched=tuple(term.text for term, _ in stems if term.text in matched),
        parts={"bm25": round(-passage.best.cost, 4), "chunks": float(len(passage.chunks))},
    )


def _find_term(tokens: Sequence[tuple[int, int, str]], term: Term, words: tuple[str, ...]) -> list[tuple[int, int]]:
    """Byte places where the words of a term stand in a row."""
    if not words:
        return []
    is_prefix = term.form.value == "prefix"
    found = []
    for at in range(len(tokens) - len(words) + 1):
        row = tokens[at : at + len(words)]
        if all(token[2] == word for token, word in zip(row[:-1], words[:-1], strict=True)):
            last = row[-1][2]
            if last == words[-1] or (is_prefix and last.startswith(words[-1])):
                found.append((row[0][0], row[-1][1]))
    return found


def _to_characters(text: str, places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Byte places of the text's UTF-8 as places of characters, in order."""
    if text.isascii():
        return sorted(set(places))
    data = text.encode("utf-8", "replace")
    return sorted({(len(data[:start].decode()), len(data[:end].decode())) for start, end in places})


def _explain_nothing(reader: Reader, workspace: Workspace, match: str, asked: Asked, *, n_candidates: int) -> str:
    condition = workspace.condition
    if condition.counts.files == 0:
        if condition.state == "indexing":
            return "the first index is still being made"
        if condition.state == "missing":
            return "the workspace's folder is missing"
        return "no note is indexed yet: save one as MEMORY.md or under .memories/"
    if n_candidates:
        return f"every match scores below min_score {asked.min_score}"
    if not asked.filters.is_empty and is_matching(reader, match):
        return "notes match, and the filters (kind, tag, path) leave none of them"
    if asked.hidden:
        return "the only notes that match were deleted just now"
    if condition.pending or condition.state == "indexing":
        return f"no indexed note matches; {condition.pending} are still to be read"
    return "no note holds any of these words" if " OR " in match or " " not in match else "no note matches"
