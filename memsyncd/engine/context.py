"""Builds a block of markdown for a prompt, for a query or for the start of a session.

For a query, candidates are ranked as in a search, left unjoined, and cut to the lines that match;
without one, pinned, lasting and recent notes are offered. `core.search.context` decides which parts
fit the budget. All reads see the same committed generation of the index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import OTHER_KINDS
from memsyncd.core.model import CONFLICT_KEY, QUARTERS_PER_TOKEN, WORTH_ORDERS, count_tokens
from memsyncd.core.search.context import (
    SAME,
    Budget,
    ContextBlock,
    ContextChunk,
    ContextLines,
    ReadChunks,
    build_block,
    count_title_lines,
)
from memsyncd.core.search.federation import (
    FoundLines,
    RawHit,
    TermCounts,
    compare_raw_scores,
    find_repeated,
    interleave_by_size,
)
from memsyncd.core.search.passages import (
    LABEL_TOKENS,
    Matcher,
    ScoredPassage,
    StartChunk,
    TermPattern,
    WeighTexts,
    choose_labels,
    compute_rarities,
    find_start_place,
    limit_start_chunks,
    order_start_chunks,
    select_passages,
    weigh_texts,
)
from memsyncd.core.search.plan import SearchPlan
from memsyncd.core.search.query import QUERY_LIMIT, compile_query
from memsyncd.core.search.ranking import DEFAULT_RANKING, Candidate, RankingPolicy
from memsyncd.core.search.words import fold, space_out
from memsyncd.engine.candidates import (
    NO_VECTORS,
    UsedVectors,
    begin_vectors,
    count_terms,
    make_patterns,
    rank,
)
from memsyncd.engine.explain import explain_empty_index, explain_nothing
from memsyncd.engine.metadata import (
    describe_meta,
    describe_metas,
    find_order,
    list_stated,
    make_valuation,
    name_note,
)
from memsyncd.engine.plan import (
    RunOptions,
    make_search_plan,
    read_query,
    spare_commands,
)
from memsyncd.engine.redaction import ShownReader
from memsyncd.engine.relations import (
    RelatedReader,
    find_contradictions,
    find_relations,
    make_related_reader,
)
from memsyncd.engine.search import describe_vectors
from memsyncd.engine.work import WorkMemories, WorkReader, WorkRequest
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.first_notes import is_first_text
from memsyncd.operations.context.declare import (
    ContextAnswer,
    ContextParams,
    ContextPart,
    LeftOutPart,
)
from memsyncd.operations.sections import (
    MOST_LEFT_OUT,
    Sort,
    describe_conflict,
    describe_contradictions,
)
from memsyncd.store.lookup import count_matches
from memsyncd.store.pool import Reader
from memsyncd.store.search import FoundFamily, count_matching
from memsyncd.store.sections import HitSection, count_blank_lines_before, has_problem
from memsyncd.store.starts import StartPolicy, find_start_chunks
from memsyncd.store.texts import read_front_matter

MATCH = "match"
RELATED = "related"
# A block shows lines of fewer chunks than a search needs for its passages, so only the best of the
# ranked chunks have their texts read. With 200 ranked chunks, the first 500 tokens lose 0.4 points
# of the evidence of chats; with 500 they gain nothing.
N_CONTEXT_CANDIDATES = 300
N_READ = 200
# A note's best chunk counts this much more for its other chunks than in a search, because evidence
# lies together. Measured on chats and documents: the first 500 tokens contain half a point more of
# the evidence.
NOTE_FACTOR = 2.0
# The most and the fewest candidates of each reason for the start of a session. A context of 50,000
# tokens holds some 500 chunks; hardly any label and text have fewer tokens than the last number.
N_START_CHUNKS, LEAST_START_CHUNKS, LEAST_CHUNK_TOKENS = 600, 100, 20
# Few chunks have fewer tokens: a budget divided by this is more chunks than a block can show.
MIN_CHUNK_TOKENS = 50
SortKey = tuple[object, ...]
FoundChunk = tuple[int, ContextChunk]
"""A chunk with the number of its section in the index."""
# The budget is divided by this number for the user-wide workspace; its parts have this label.
USER_SHARE = 4
USER_LABEL = "user-wide"
NO_ROOM = "the budget has no room for a single line: ask with a larger one"


NO_MEMORIES = WorkMemories((), {})
# As long as other chunks need it, memories of the project, task and session take no more of the
# room than this share.
MEMORY_SHARE = 0.6


class ContextOffer(msgspec.Struct, frozen=True, kw_only=True):
    """The offer of one workspace to a block, within the whole budget, best first.

    `parts` describe the included lines, in order of the block. `raw_hits` and `counts` belong to a
    query whose block is merged with others. `n_further` counts candidates that were not read. In a
    linked worktree, shown paths begin with `root` if they are not relative to that worktree.
    """

    entry: Entry
    block: ContextBlock
    parts: Sequence[ContextPart]
    memories: WorkMemories = NO_MEMORIES
    raw_hits: Sequence[RawHit] = ()
    counts: TermCounts | None = None
    n_unranked: int = 0
    n_further: int = 0
    vectors: UsedVectors = NO_VECTORS
    why_empty: str | None = None
    root: str = ""
    keys: Sequence[SortKey] = ()
    """The keys by which the parts get their room, if the request names an order."""

    @property
    def n_left_out(self) -> int:
        return len(self.block.omitted) + self.n_further + self.memories.n_further


def offer_context(
    workspace: Workspace,
    params: ContextParams,
    config: Config,
    options: RunOptions,
    *,
    is_merged: bool = False,
    is_user_wide: bool = False,
    is_elsewhere: bool = False,
) -> ContextOffer:
    """Find the offer of a workspace for a block. Raises as `search`.

    With `is_merged`, also compute the values that merging the offer with others needs. With
    `is_user_wide`, offer pinned notes and preferences for a part of the budget. With
    `is_elsewhere`, paths are shown with the root, for a linked worktree that shares these notes.
    """
    params, options = read_query([workspace], params, config, options)
    plan = make_search_plan(params, config, options, _make_ranking())
    has_words = not is_user_wide and _has_words(plan)
    budget = _share_budget(params, 1 / USER_SHARE if is_user_wide else 1.0)
    counts, raw_hits = None, list[RawHit]()
    if has_words:
        plan = begin_vectors(workspace, plan)
    with workspace.acquire(plan.timeout_s) as reader:
        shows = ShownReader(reader, plan, config)
        if has_words:
            plan = spare_commands(reader, plan) if plan.query.commands else plan
            matching, n_empty = _find_matching(shows, workspace, plan, budget), 0
        else:
            most = _limit_tokens(params, budget)
            matching, n_empty = _find_start(shows, workspace, plan, most, is_user_wide)
        chunks, relations, keys = _complete(shows, workspace, matching.chunks, params, plan, budget)
        block = build_block(
            [chunk for _, chunk in chunks],
            budget,
            # The user-wide workspace's part has neither heading nor mark of its own.
            heading="" if is_user_wide else params.heading,
            is_marked=_is_marked(params, config) and not is_user_wide,
            read=matching.read,
        )
        memories = read_memories(WorkReader(reader, config, plan.now_s), workspace, params, plan)
        if has_words and is_merged:
            counts = count_terms(reader, plan, workspace, matching.vectors.gains)
            raw_hits = _find_raw_hits(reader, plan, matching, block, relations)
        metas = _read_metas(shows, chunks, block)
    why = NO_ROOM if chunks else _explain(workspace, plan, n_empty, has_words=has_words)
    return ContextOffer(
        entry=workspace.entry,
        block=block,
        parts=_describe_included(workspace, block, metas, config, plan.now_s, relations),
        memories=memories,
        raw_hits=raw_hits,
        counts=counts,
        n_unranked=matching.n_unranked,
        n_further=matching.n_further,
        vectors=matching.vectors,
        why_empty=None if block.text or is_user_wide else why,
        root=workspace.entry.root if is_elsewhere else "",
        keys=_list_keys(block, keys) if keys else (),
    )


def _is_marked(params: ContextParams, config: Config) -> bool:
    return params.mark and config.guard.has_instructions


def _complete(
    shows: ShownReader,
    workspace: Workspace,
    chunks: list[FoundChunk],
    params: ContextParams,
    plan: SearchPlan,
    budget: Budget,
) -> tuple[list[FoundChunk], Relations, Mapping[str, SortKey]]:
    """Order the chunks as the request wants, and add the sections that relations lead to. Return
    the keys of the order, too.
    """
    reader, config = shows.reader, shows.config
    chunks, keys = _sort_chunks(shows, workspace, chunks, params.sort, plan)
    related = make_related_reader(reader, config, plan, workspace.entry.id, plan.now_s)
    chunks, relations = _follow(shows, chunks, params.follow, related, budget)
    chunks = _add_contradictions(reader, chunks, relations)
    return _mark_conflicts(shows, chunks), relations, keys


def _sort_chunks(
    shows: ShownReader,
    workspace: Workspace,
    chunks: list[FoundChunk],
    sort: Sort,
    plan: SearchPlan,
) -> tuple[list[FoundChunk], dict[str, SortKey]]:
    """Return the chunks in this order, in which they are also shown, and the key of each section.
    Chunks that match a query are only shown in this order, and have no keys.
    """
    config = shows.config
    if sort == "relevance":
        return chunks, {}
    order = find_order(sort, make_valuation(config, plan.now_s, plan.accesses))
    sections = shows.read_sections({number for number, _ in chunks})
    keys: dict[str, SortKey] = {}
    for number, chunk in chunks:
        place = (chunk.path, chunk.span.start)
        if order is None:
            keys.setdefault(chunk.anchor, place)
            continue
        lines = ContextLines(chunk=chunk, span=chunk.span, reason=chunk.reason)
        part = ContextPart(
            workspace=workspace.entry.id,
            **_describe_place(lines),
            title=name_note(sections[number]),
            **describe_meta(sections[number], config.kinds, plan.now_s),
        )
        keys.setdefault(chunk.anchor, (*order(part), *place))
    ranks = {anchor: rank for rank, anchor in enumerate(sorted(keys, key=keys.__getitem__))}
    placed = [
        (number, replace(chunk, place=(0, float(ranks[chunk.anchor])), share=1.0))
        for number, chunk in chunks
    ]
    if any(chunk.reason == MATCH for _, chunk in placed):
        return placed, {}
    # The better chunks of a section stay first.
    return sorted(placed, key=lambda pair: pair[1].place), keys


def _make_ranking() -> RankingPolicy:
    return replace(DEFAULT_RANKING, note=NOTE_FACTOR * DEFAULT_RANKING.note)


def _has_words(plan: SearchPlan) -> bool:
    """True if the query has more than filters."""
    # A text of a single word that is too long is shortened to nothing.
    return bool(plan.query.text.strip()) or len(plan.text) > QUERY_LIMIT


def _list_keys(block: ContextBlock, keys_of: Mapping[str, SortKey]) -> list[SortKey]:
    """Return the key of each part; a part to which a relation leads has the key of the part before
    it.
    """
    keys: list[SortKey] = []
    for part in block.included:
        keys.append(keys_of.get(part.chunk.anchor, keys[-1] if keys else ()))
    return keys


def _share_budget(params: ContextParams, share: float) -> Budget:
    max_bytes = params.max_bytes and int(params.max_bytes * share)
    return Budget(max_tokens=int(params.max_tokens * share), max_bytes=max_bytes)


def _limit_tokens(params: ContextParams, budget: Budget) -> int | None:
    """Return the tokens for which a session start needs chunks; None if it needs all of them, to
    sort them.
    """
    return budget.max_tokens if params.sort == "relevance" else None


def _is_for_all(chunk: ContextChunk) -> bool:
    return chunk.reason in ("MEMORY.md", "pinned") or chunk.kind == "preference"


# --- one block of all offers --------------------------------------------------------------------


def merge_offers(
    offers: Sequence[ContextOffer],
    params: ContextParams,
    config: Config,
    user_wide: ContextOffer | None = None,
    news: str = "",
) -> ContextAnswer:
    """Build one block of the offers of workspaces, with `news` at its top. `user_wide` is shown
    last, but gets its room, at most a quarter, first. If the best part of the answer has no room
    then, it comes first.

    Each workspace's own order is kept. Labels name the workspaces if there are several.
    """
    is_alone = len(offers) == 1 and not offers[0].root
    added = [] if user_wide is None else [*range(len(user_wide.parts))]
    is_working = bool(news) or any(offer.memories.chunks for offer in offers)
    if is_alone and not added and not is_working:
        return _answer_alone(offers[0])
    of_user = [_place(user_wide, at, len(offers), USER_LABEL) for at in added if user_wide]
    placed = _place_offers(offers, of_user, params.heading if is_working else "")
    block = build_block(
        [each.chunk for each in placed],
        Budget(max_tokens=params.max_tokens, max_bytes=params.max_bytes),
        heading="" if is_working else params.heading,
        news=news,
        is_marked=_is_marked(params, config),
        n_added=len(of_user),
    )
    places = {each.chunk.anchor: each for each in reversed(placed)}
    omitted = [
        places[each.chunk.anchor].describe_left_out(
            replace(each, reason=f"{SAME} {places[each.same_as].part.anchor}")
            if each.same_as
            else each
        )
        for each in block.omitted[:MOST_LEFT_OUT]
    ]
    by_offers = (part for offer in offers for part in _list_left_out(offer))
    omitted += islice(by_offers, MOST_LEFT_OUT - len(omitted))
    first = offers[0] if offers else user_wide
    reasons = dict.fromkeys(offer.why_empty for offer in offers if offer.why_empty)
    return ContextAnswer(
        workspace=first.entry.id if first else "",
        text=block.text,
        tokens=block.n_tokens,
        included=[places[each.chunk.anchor].describe(each) for each in block.included],
        left_out=omitted,
        n_left_out=len(block.omitted) + sum(offer.n_left_out for offer in offers),
        unranked=sum(offer.n_unranked for offer in offers),
        why_empty=None if block.text else "; ".join(reasons) or NO_ROOM,
        task=next((offer.memories.task for offer in offers if offer.memories.task), None),
        **describe_vectors([offer.vectors for offer in offers]),
    )


def _place_offers(
    offers: Sequence[ContextOffer], of_user: Sequence[_Placed], part: str
) -> list[_Placed]:
    """Return the chunks of all offers, behind those of the user-wide workspace, in the order of
    filling. `part` is the heading of all but the memories.
    """
    least = 1 / USER_SHARE if of_user else 0.0
    labels = [offer.entry.name if len(offers) > 1 else "" for offer in offers]
    own = [
        _place(offers[at], number, at, labels[at])
        for at, number in _leave_out_repeated(offers, _order_lines(offers))
    ]
    memories = [
        placed_part
        for offer, label in zip(offers, labels, strict=True)
        for placed_part in _place_memories(offer, label)
    ]
    # Each workspace has its share of the room that the user-wide workspace and memories leave.
    most = least + (1 - least) * (MEMORY_SHARE if own else 1) if memories else least
    placed = [each.limit(least + (most - least) * each.chunk.share) for each in memories]
    placed += [each.limit(most + (1 - most) * each.chunk.share).show_in(part) for each in own]
    placed.sort(key=lambda placed_part: placed_part.chunk.share)
    return [*(each.limit(least).show_in(part) for each in of_user), *placed]


def _answer_alone(offer: ContextOffer) -> ContextAnswer:
    return ContextAnswer(
        workspace=offer.entry.id,
        text=offer.block.text,
        tokens=offer.block.n_tokens,
        included=list(offer.parts),
        left_out=_list_left_out(offer),
        n_left_out=offer.n_left_out,
        unranked=offer.n_unranked,
        why_empty=offer.why_empty,
        task=offer.memories.task,
        **describe_vectors([offer.vectors]),
    )


def _list_left_out(offer: ContextOffer) -> list[LeftOutPart]:
    return [
        LeftOutPart(workspace=offer.entry.id, **_describe_place(part), kind=part.chunk.kind)
        for part in offer.block.omitted[:MOST_LEFT_OUT]
    ]


def _order_lines(offers: Sequence[ContextOffer]) -> list[tuple[int, int]]:
    """Return offer and position of each offered chunk, in the order of filling."""
    if any(offer.keys for offer in offers):
        keyed = [
            (key, at, i) for at, offer in enumerate(offers) for i, key in enumerate(offer.keys)
        ]
        return [(at, number) for _, at, number in sorted(keyed)]
    if all(offer.counts is None for offer in offers):
        sizes = [
            [count_tokens(part.chunk.text) + LABEL_TOKENS for part in offer.block.included]
            for offer in offers
        ]
        return interleave_by_size(sizes)
    scores = compare_raw_scores(
        [(offer.counts or TermCounts(0), offer.raw_hits) for offer in offers],
        DEFAULT_RANKING.semantic,
    )
    scored = [(-score, at, i) for at, part in enumerate(scores) for i, score in enumerate(part)]
    return [(at, number) for _, at, number in sorted(scored)]


def _leave_out_repeated(
    offers: Sequence[ContextOffer], order: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Leave out lines that the workspace of an inner folder offers as well."""
    lines = [(offers[at].entry.root, offers[at].block.included[number]) for at, number in order]
    repeated = find_repeated(
        [
            FoundLines(folder, place.chunk.path, place.span.start, place.span.end)
            for folder, place in lines
        ]
    )
    return [place for index, place in enumerate(order) if index not in repeated]


class _Placed(NamedTuple):
    """A chunk as a block of several workspaces shows it, and its part in its workspace's offer."""

    chunk: ContextChunk
    part: ContextPart

    def limit(self, share: float) -> _Placed:
        return self._replace(chunk=replace(self.chunk, share=share))

    def show_in(self, part: str) -> _Placed:
        return self._replace(chunk=replace(self.chunk, part=" ".join(part.split())))

    def describe(self, lines: ContextLines) -> ContextPart:
        return replace(self.part, start_line=lines.span.start, end_line=lines.span.end)

    def describe_left_out(self, omitted: ContextLines) -> LeftOutPart:
        place = {
            **_describe_place(omitted),
            "anchor": self.part.anchor,
            "path": self.part.path,
        }
        return LeftOutPart(workspace=self.part.workspace, **place, kind=self.part.kind)


def _place(offer: ContextOffer, number: int, group: int, label: str) -> _Placed:
    """Return a chunk of an offer with the lines that its own block includes, and its workspace."""
    lines = offer.block.included[number]
    chunk, texts = lines.chunk, lines.chunk.text.split("\n")
    if len(texts) == chunk.span.n_lines:  # the lines of a giant line are unknown
        text = "\n".join(texts[: lines.span.n_lines])
        chunk = replace(chunk, span=lines.span, text=text)
    return _Placed(_label(offer, replace(chunk, group=group), label), offer.parts[number])


def _place_memories(offer: ContextOffer, label: str) -> Iterator[_Placed]:
    """Yield the memories of an offer as a block of several workspaces shows them."""
    for chunk in offer.memories.chunks:
        section = asdict(offer.memories.sections[chunk.anchor].section)
        del section["text"]
        part = ContextPart(workspace=offer.entry.id, reason=chunk.reason, **section)
        yield _Placed(_label(offer, chunk, label), part)


def _label(offer: ContextOffer, chunk: ContextChunk, label: str) -> ContextChunk:
    """Label a chunk of a workspace. Two workspaces may have the same anchors."""
    before = f"{offer.entry.id}\n{label}\n"
    memory = chunk.memory
    if memory and memory.source:
        memory = memory._replace(source=before + memory.source)
    return replace(
        chunk,
        anchor=before + chunk.anchor,
        path=f"{offer.root}/{chunk.path}" if offer.root else chunk.path,
        workspace=label,
        memory=memory,
    )


# --- memories of the project, a task or a session -------------------------------------------------


def read_memories(
    work: WorkReader, workspace: Workspace, params: ContextParams, plan: SearchPlan
) -> WorkMemories:
    """Read the memories that a request names: all of its task and session, and the profile."""
    is_named = bool(params.task or params.session)
    if not (is_named or params.profile):
        return NO_MEMORIES
    request = WorkRequest(
        task=params.task,
        session=params.session,
        has_profile=params.profile or bool(params.task),
        is_resuming=is_named,
        is_whole=is_named,
        is_by_worth=params.sort in WORTH_ORDERS,
        base=plan.filters,
    )
    max_bytes = params.max_bytes or params.max_tokens * QUARTERS_PER_TOKEN
    memories = work.read_memories(workspace, request, max_bytes=max_bytes)
    visible = [chunk for chunk in memories.chunks if (workspace.id, chunk.path) not in plan.absent]
    return memories._replace(chunks=visible)


def _read_metas(
    shows: ShownReader, chunks: Sequence[FoundChunk], block: ContextBlock
) -> list[HitSection]:
    """Read the sections of the included parts of a block, in its order."""
    ids = {chunk.anchor: section for section, chunk in chunks}
    numbers = [ids[part.chunk.anchor] for part in block.included]
    sections = shows.read_sections(set(numbers))
    return [sections[number] for number in numbers]


def _describe_included(
    workspace: Workspace,
    block: ContextBlock,
    sections: Sequence[HitSection],
    config: Config,
    now_s: float,
    relations: Relations,
) -> list[ContextPart]:
    """Describe the included parts of a block, in its order."""
    places = [_describe_place(part) for part in block.included]
    return [
        ContextPart(
            workspace=workspace.entry.id,
            **place,
            **relations.get(place["anchor"], _UNRELATED),
            title=name_note(section),
            **meta,
        )
        for place, section, meta in zip(
            places, sections, describe_metas(sections, config.kinds, now_s), strict=True
        )
    ]


def _describe_place(part: ContextLines) -> dict[str, Any]:
    return {
        "anchor": part.chunk.anchor,
        "path": part.chunk.path,
        "start_line": part.span.start,
        "end_line": part.span.end,
        "heading": list(part.chunk.heading),
        "reason": part.reason,
    }


# --- relations ----------------------------------------------------------------------------------

Relations = dict[str, dict[str, Any]]
"""Fields of `ContextPart` by the anchor of a section: `relation`, `related_to`, `contradicts`,
`contradicted_by`."""
_UNRELATED: dict[str, Any] = {}
# The budget is divided by this number for the sections to which relations lead.
RELATED_SHARE = 2


def _follow(
    shows: ShownReader,
    chunks: Sequence[FoundChunk],
    names: Sequence[str],
    related: RelatedReader,
    budget: Budget,
) -> tuple[list[FoundChunk], Relations]:
    """Insert the sections to which a section's relations lead behind its first chunk, labelled."""
    if not names:
        return [*chunks], {}
    by_anchor = find_relations(shows.reader, (chunk.anchor for _, chunk in chunks), names)
    followed: list[FoundChunk] = []
    relations: Relations = {}
    labels: dict[str, str] = {}
    left = budget.max_tokens // RELATED_SHARE
    for section, chunk in chunks:
        followed.append((section, chunk))
        # Each place comes once; the places of the best section come first.
        for target in related.read(by_anchor.pop(chunk.anchor, ())):
            read = _read_chunks(shows, [(each, RELATED) for each in target.chunks])
            n_tokens = sum(count_tokens(each.text) + LABEL_TOKENS for _, each in read)
            if n_tokens > left:
                continue
            left -= n_tokens
            followed += [
                (number, replace(each, place=chunk.place, group=chunk.group))
                for number, each in read
            ]
            name = chunk.heading[-1] if chunk.heading else chunk.path
            for _, each in read:
                labels.setdefault(each.anchor, f"{name} {target.relation.name} this")
                relations.setdefault(
                    each.anchor, {"relation": target.relation.name, "related_to": chunk.anchor}
                )
    labelled = [
        (section, replace(chunk, relation=labels.get(chunk.anchor, "")))
        for section, chunk in followed
    ]
    return labelled, relations


def _add_contradictions(
    reader: Reader, chunks: Sequence[FoundChunk], relations: Relations
) -> list[FoundChunk]:
    """Label sections that contradict another section, and sections that another contradicts."""
    contradictions = find_contradictions(reader, (chunk.anchor for _, chunk in chunks))
    if not contradictions:
        return list(chunks)
    labelled = []
    for section, chunk in chunks:
        if chunk.anchor in contradictions:
            relations.setdefault(chunk.anchor, {}).update(contradictions[chunk.anchor]._asdict())
            labels = [chunk.relation, describe_contradictions(*contradictions[chunk.anchor])]
            labelled.append((section, replace(chunk, relation="; ".join(filter(None, labels)))))
        else:
            labelled.append((section, chunk))
    return labelled


def _mark_conflicts(shows: ShownReader, chunks: list[FoundChunk]) -> list[FoundChunk]:
    """Label the other texts of conflicts. This costs nothing if no note has a conflict."""
    if not has_problem(shows.reader, CONFLICT_KEY):
        return chunks
    sections = shows.read_sections({number for number, _ in chunks})
    labelled = []
    for number, chunk in chunks:
        labels = [chunk.relation, describe_conflict(sections[number].extra)]
        labelled.append((number, replace(chunk, relation="; ".join(filter(None, labels)))))
    return labelled


# --- for a query --------------------------------------------------------------------------------


class _Matching(NamedTuple):
    """The best matching lines, the number of matching chunks that were not ranked, the ranked
    chunks as found, the use of vectors, the function that reads unread chunks, and the number of
    further chunks for the start of a session.
    """

    chunks: list[FoundChunk]
    n_unranked: int
    passages: Sequence[ScoredPassage]
    vectors: UsedVectors = NO_VECTORS
    read: ReadChunks = list
    n_further: int = 0


NOTHING_MATCHES = _Matching([], 0, ())


def _find_matching(
    shows: ShownReader, workspace: Workspace, plan: SearchPlan, budget: Budget
) -> _Matching:
    if not (plan.terms or plan.has_conditions):
        return NOTHING_MATCHES
    reader = shows.reader
    n_most = budget.max_tokens // MIN_CHUNK_TOKENS
    limit = max(N_CONTEXT_CANDIDATES, n_most)
    matched, vectors, families = rank(reader, workspace, plan, shows.config, limit=limit)
    ranked = matched[: max(N_READ, n_most)]
    n_chunks = workspace.condition.counts.chunks
    match = compile_query(plan.query.relaxed or plan.query)
    n_matching = count_matches(reader, match, plan.filters, most=n_chunks) if match else 0
    chosen = [(each.candidate, MATCH) for each in ranked]
    read = _make_chunk_reader(shows, chosen)
    patterns = make_patterns(reader, plan, families)
    chunks = _label_properties(shows, _describe_chunks(shows, chosen), patterns)
    passages = [
        ScoredPassage(
            chunk=chunk, raw_score=each.raw_score, semantic_share=each.candidate.semantic_share
        )
        for (_, chunk), each in zip(chunks, ranked, strict=True)
    ]
    weigh = _make_text_scorer(reader, plan, n_chunks, families)
    ids = {chunk.anchor: section for section, chunk in chunks}
    return _Matching(
        [(ids[chunk.anchor], chunk) for chunk in select_passages(passages, weigh, read)],
        max(0, n_matching - sum(each.candidate.has_words for each in ranked)),
        passages,
        vectors,
        read,
    )


def _label_properties(
    shows: ShownReader, chunks: list[FoundChunk], patterns: Sequence[TermPattern]
) -> list[FoundChunk]:
    """Label chunks that front matter finds with its properties that hold words of the question
    which neither path nor heading has.
    """
    fronts = read_front_matter(shows.reader, [chunk.unread for _, chunk in chunks])
    found = {number: chunk for number, chunk in chunks if chunk.unread in fronts}
    matcher = Matcher(patterns)

    def find_terms(text: str) -> set[int]:
        return {*matcher.find_terms(shows.reader.split(space_out(fold(text))))}

    def is_unshown(shown: set[int], text: str) -> bool:
        return bool(find_terms(text) - shown)

    labels: dict[int, tuple[str, ...]] = {}
    for number, section in (shows.read_sections(found) if found else {}).items():
        shown = find_terms(" ".join((found[number].path, *section.heading)))
        properties = {**list_stated(section), **section.extra}
        labels[number] = tuple(choose_labels(properties, {}, partial(is_unshown, shown)))
    return [(number, replace(chunk, labels=labels.get(number, ()))) for number, chunk in chunks]


def _find_raw_hits(
    reader: Reader,
    plan: SearchPlan,
    matching: _Matching,
    block: ContextBlock,
    relations: Relations,
) -> list[RawHit]:
    """Return for each part of a block the best raw score in its section, and the terms there. A
    section that does not match has the score of the section that led to it.
    """
    matched = {passage.chunk.anchor for passage in matching.passages}
    anchors = [
        part.chunk.anchor
        if part.chunk.anchor in matched
        else relations[part.chunk.anchor]["related_to"]
        for part in block.included
    ]
    wanted = set(anchors)
    passages = [each for each in matching.passages if each.chunk.anchor in wanted]
    chunks = matching.read([passage.chunk for passage in passages])
    matcher = Matcher(make_patterns(reader, plan))
    raw_hits: dict[str, RawHit] = {}
    for passage, chunk in zip(passages, chunks, strict=True):
        before = raw_hits.get(chunk.anchor, RawHit(0.0))
        terms = before.terms.union(matcher.find_terms(reader.split(space_out(fold(chunk.text)))))
        best = RawHit(passage.raw_score, terms, passage.semantic_share)
        better = replace(before, terms=terms) if before.raw_score >= best.raw_score else best
        raw_hits[chunk.anchor] = better
    return [raw_hits[anchor] for anchor in anchors]


def _make_text_scorer(
    reader: Reader, plan: SearchPlan, n_chunks: int, families: Mapping[int, FoundFamily]
) -> WeighTexts:
    """Make the function that scores texts by the query's words in them."""
    counts = count_matching(reader, [planned.match for planned in plan.terms], most=n_chunks)
    matcher = Matcher(make_patterns(reader, plan, families))
    rarities = compute_rarities(n_chunks, counts)
    return lambda texts: weigh_texts(
        texts, matcher, rarities, reader.split_all, reader.tokenize_all
    )


# --- for the start of a session -----------------------------------------------------------------


def _find_start(
    shows: ShownReader,
    workspace: Workspace,
    plan: SearchPlan,
    most: int | None,
    is_user_wide: bool,
) -> tuple[_Matching, int]:
    """Return the chunks of a session start, and how many say nothing and are left out. With `most`,
    there are as many chunks as a block of so many tokens can show, and `n_further` counts others.
    """
    config = shows.config
    kinds = {name: kind.importance for name, kind in config.kinds.items()}
    limit = N_START_CHUNKS
    if most is not None:
        limit = min(N_START_CHUNKS, max(LEAST_START_CHUNKS, most // LEAST_CHUNK_TOKENS))
    policy = StartPolicy(kinds=kinds, other=OTHER_KINDS.importance, pin_at=config.memory.pin_at)
    starts = find_start_chunks(shows.reader, plan.filters, policy, limit=limit)
    visible = [chunk for chunk in starts if (workspace.id, chunk.path) not in plan.absent]
    ordered = order_start_chunks(visible)
    kept = ordered if most is None else limit_start_chunks(ordered, most)
    chunks, n_empty = _read_start_chunks(shows, ordered, kept)
    if is_user_wide:
        chunks = [pair for pair in chunks if _is_for_all(pair[1])]
    n_further = 0 if is_user_wide else len(ordered) - len(kept)
    return NOTHING_MATCHES._replace(chunks=chunks, n_further=n_further), n_empty


def _read_start_chunks(
    shows: ShownReader,
    ordered: Sequence[tuple[StartChunk, float]],
    kept: Sequence[tuple[StartChunk, float]],
) -> tuple[list[FoundChunk], int]:
    """Read the texts of the chunks that were kept of all; return how many say nothing and are left
    out.
    """
    described = _describe_chunks(shows, [(chunk, chunk.reason) for chunk, _ in ordered])
    parents = {
        (chunk.path, chunk.heading[:depth])
        for _, chunk in described
        for depth in range(len(chunk.heading))
    }
    numbers = {chunk.chunk for chunk, _ in kept}
    unread = [pair for pair in described if pair[1].unread in numbers]
    read = _make_chunk_reader(shows, [(chunk, chunk.reason) for chunk, _ in kept])
    texts = read([chunk for _, chunk in unread])
    # Chunks without information must not take room from others.
    placed = [
        (start.section, replace(chunk, place=find_start_place(start), share=share))
        for chunk, (start, share) in zip(texts, kept, strict=True)
        if _is_informative(chunk, parents)
    ]
    return placed, len(kept) - len(placed)


def _is_informative(chunk: ContextChunk, parents: Collection[tuple[str, tuple[str, ...]]]) -> bool:
    """False for a note of front matter alone, for the unchanged text of a first note, and for a
    heading without text that is a single word, or that the labels of its subsections show, too
    (`parents`: paths and headings).
    """
    lines = chunk.text.rstrip().split("\n")
    if not chunk.text or is_first_text(chunk.path, chunk.span.start, lines):
        return False
    is_heading = bool(chunk.heading) and count_title_lines(lines, chunk.heading[-1]) == len(lines)
    is_repeated = (chunk.path, chunk.heading) in parents
    return not (is_heading and (is_repeated or _is_one_word(chunk.heading[-1])))


def _is_one_word(heading: str) -> bool:
    """True for `Decisions`, which says nothing without a text, unlike `Never force-push`."""
    # Scripts without letter case may write a sentence without spaces.
    return len(heading.split()) == 1 and heading.lower() != heading.upper()


def _explain(workspace: Workspace, plan: SearchPlan, n_empty: int, *, has_words: bool) -> str:
    """Explain why there is no chunk for the words of the request or, without words, for the start
    of a session.
    """
    if has_words:
        return explain_nothing([workspace], plan).why
    filters = plan.filters
    if n_empty and filters.is_empty:
        return "memory has only headings and first notes yet: add what is worth knowing"
    if not workspace.condition.counts.files:
        return explain_empty_index(workspace)
    if not filters.is_empty:
        return f"there are notes, and the filters ({', '.join(filters.words)}) leave none of them"
    return (
        "all that is indexed is archived or was deleted just now:"
        " ask with is:archived for the archive"
    )


# --- chunks -------------------------------------------------------------------------------------


def _read_chunks(
    shows: ShownReader, chosen: Sequence[tuple[Candidate | StartChunk, str]]
) -> list[FoundChunk]:
    """Read chunks, each with the reason for it."""
    described = _describe_chunks(shows, chosen)
    read = _make_chunk_reader(shows, chosen)([chunk for _, chunk in described])
    return [(section, chunk) for (section, _), chunk in zip(described, read, strict=True)]


def _describe_chunks(
    shows: ShownReader, chosen: Sequence[tuple[Candidate | StartChunk, str]]
) -> list[FoundChunk]:
    """Read the fields of chunks that an answer leaves out: all but their texts."""
    titles = shows.read_titles({chunk.section for chunk, _ in chosen})
    return [
        (
            chunk.section,
            ContextChunk(
                path=chunk.path,
                anchor=titles[chunk.section].anchor,
                note=titles[chunk.section].note,
                heading=titles[chunk.section].heading,
                kind=titles[chunk.section].kind,
                day=titles[chunk.section].day or "",
                span=chunk.span,
                text="",
                reason=reason,
                unread=chunk.chunk,
            ),
        )
        for chunk, reason in chosen
    ]


def _make_chunk_reader(
    shows: ShownReader, chosen: Sequence[tuple[Candidate | StartChunk, str]]
) -> ReadChunks:
    """Make the function that reads the texts of some of these chunks."""
    sections = {chunk.chunk: chunk.section for chunk, _ in chosen}

    def read(chunks: Sequence[ContextChunk]) -> list[ContextChunk]:
        unread = [chunk.unread for chunk in chunks]
        texts = shows.read_texts(unread)
        blanks = count_blank_lines_before(shows.reader, {sections[chunk] for chunk in unread})
        return [
            replace(
                chunk,
                text=texts[chunk.unread],
                n_blanks_before=blanks.get(chunk.unread, 0),
                unread=0,
            )
            for chunk in chunks
        ]

    return read
