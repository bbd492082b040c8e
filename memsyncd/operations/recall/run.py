"""Recalls memories by criteria, without a query: by keywords, by topic and kind, then by words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import find_importance
from memsyncd.core.guard.secrets import redact
from memsyncd.core.model import QUARTERS_PER_TOKEN, count_tokens
from memsyncd.core.search.context import shorten
from memsyncd.engine.accesses import find_accesses
from memsyncd.engine.marking import mark_text
from memsyncd.engine.memories import (
    PLAN_LIMIT_S,
    Memory,
    list_memories,
    list_named,
    read_first_memories,
    read_memory,
)
from memsyncd.engine.metadata import describe_meta, find_stored_moment_s
from memsyncd.engine.plan import NOTHING_TO_SAY, RunOptions, complete_filters, describe_query
from memsyncd.engine.redaction import must_redact, redact_section
from memsyncd.engine.relations import (
    Contradictions,
    RelatedReader,
    find_contradictions,
    find_relations,
)
from memsyncd.engine.search import search
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest
from memsyncd.operations.call import Call
from memsyncd.operations.recall.declare import Recalled, RecalledMemory, RecallParams, RecallStage
from memsyncd.operations.search.declare import SearchParams, list_anchors
from memsyncd.operations.sections import Filters
from memsyncd.store.accesses import AccessCount
from memsyncd.store.lookup import OutlinedNote, OutlinedSection, read_outlines
from memsyncd.store.sections import read_section

# The most memories that are read from the disk for an answer, and that words find.
N_READ = 200
N_FOUND = 50
# The most sections whose order is compared.
N_RANKED = 500
Outlined = Memory[OutlinedSection]
# The comment of a section below its heading; the answer has its fields.
_COMMENT = re.compile(
    r"\A([^\n]*\n(?:[ ]{0,3}(?:=+|-+)[ \t]*\n)?)\s*<!--\s*memory:.*?-->[ \t]*\n?", re.DOTALL
)
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?:(?!---[ \t]*\n).*\n)*---\s*")


def recall(
    workspace: Workspace,
    config: Config,
    params: RecallParams,
    now_s: float,
    accessed: Mapping[str, AccessCount] | None = None,
) -> Recalled:
    """Recall the memories of the first stage that has any, as many as the budget holds, the most
    important first. Equally important memories come by their last access (`accessed`: by anchor),
    or by their last update if they have none.

    Raises BadRequest without a criterion.
    """
    if not (params.keywords or params.topic or params.kind or params.text.strip()):
        hint = "give keywords, a topic, a kind or a text"
        raise BadRequest("recall: there is no criterion", hint=hint)
    times = accessed or {}
    options = RunOptions(now_s=now_s, accesses={key: access.count for key, access in times.items()})
    found = _find_stage(workspace, config, params, options, [*times])
    memories = [memory for memory in found.memories if not _is_front_matter(workspace, memory)]

    def order(memory: Outlined) -> tuple[object, ...]:
        head = memory.head
        last = times.get(head.anchor)
        last_s = last.last_at_s if last else find_stored_moment_s(head)
        importance = find_importance(config.kinds, head.kind, head.importance)
        return -importance, -last_s, memory.path, head.span.start

    memories.sort(key=order)
    origins: dict[str, dict[str, str]] = {}
    if params.follow:
        memories, origins = _follow(workspace, config, params, memories, now_s)
    places = {memory.head.anchor: at for at, memory in enumerate(memories)}
    if found.best is not None:  # the best match gets its room before more important memories
        memories.sort(key=lambda memory: found.best not in _list_anchors(memory))
    filled = sorted(
        _fill(workspace, config, params, memories), key=lambda text: places[text.head.anchor]
    )
    recalled = _describe(workspace, config, filled, origins, now_s)
    return Recalled(
        workspace=workspace.id,
        stage=found.stage,
        memories=recalled,
        tokens=sum(memory.tokens for memory in recalled),
        left_out=len(memories) - len(recalled),
        **(describe_query(found.request, now_s) if found.request else NOTHING_TO_SAY),
    )


class _Stage(NamedTuple):
    """The first stage with memories. The stage of words has the request of the search, and its best
    match.
    """

    stage: RecallStage | None
    memories: list[Outlined]
    request: SearchParams | None = None
    best: str | None = None


class _Text(NamedTuple):
    """The text of a memory as the answer shows it."""

    head: OutlinedSection
    path: str
    end_line: int
    text: str
    n_tokens: int


def _is_front_matter(workspace: Workspace, memory: Outlined) -> bool:
    """True for the lines before the first heading if they are front matter alone: no memory."""
    if memory.head.level or not memory.head.is_empty:
        return False
    return _FRONT_MATTER.fullmatch(read_memory(workspace, memory) or "") is not None


def _list_anchors(memory: Outlined) -> list[str]:
    return [section.anchor for section in memory.sections]


def _read_notes_of(workspace: Workspace, anchors: Iterable[str]) -> list[OutlinedNote]:
    """Read the notes of these sections with the outlines of all of their sections."""
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        return read_outlines(reader, anchors)


def _find_stage(
    workspace: Workspace,
    config: Config,
    params: RecallParams,
    options: RunOptions,
    accessed: Sequence[str],
) -> _Stage:
    for stage, narrowed in _list_stages(params):
        filters = complete_filters(params.filters, config, options.now_s, options.accesses)
        for narrower in narrowed:
            filters = filters.join(complete_filters(narrower, config, options.now_s))
        memories = read_first_memories(
            workspace, filters, config.kinds, limit=N_RANKED, accessed=accessed[:N_RANKED]
        )
        if memories:
            return _Stage(stage, memories)
    text = params.text.strip() or " ".join(params.keywords)
    if not text:
        return _Stage(None, [])
    request = SearchParams(query=text, limit=N_FOUND, filters=params.filters)
    answer = search([workspace], request, config, options)
    anchors = list(dict.fromkeys(anchor for hit in answer.hits for anchor in list_anchors(hit)))
    if not anchors:
        return _Stage(None, [], request)
    notes = _read_notes_of(workspace, anchors)
    # A save that was indexed meanwhile may have removed memories.
    indexed = {section.anchor for note in notes for section in note.sections}
    named = [*list_named(notes, indexed.intersection(anchors))]
    return _Stage("words", named, request, anchors[0])


def _list_stages(params: RecallParams) -> Iterator[tuple[RecallStage, list[Filters]]]:
    """Yield the stages that find memories by metadata, with filters that must all hold."""
    criteria = [Filters(kind=[params.kind])] if params.kind is not None else []
    criteria += [Filters(topic=[params.topic])] if params.topic else []
    if params.keywords:
        yield (
            "keywords",
            [*criteria, Filters(tag=[*params.keywords])],
        )
    if criteria:
        yield "topic and kind", criteria


def _follow(
    workspace: Workspace,
    config: Config,
    params: RecallParams,
    memories: Sequence[Outlined],
    now_s: float,
) -> tuple[list[Outlined], dict[str, dict[str, str]]]:
    """Put the memories to which relations lead right behind the memory that has the relations. Also
    return the origin of each, `relation` and `related_to`, by anchor.
    """
    filters = complete_filters(params.filters, config, now_s)
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        relations = find_relations(
            reader, [memory.head.anchor for memory in memories], params.follow
        )
        related = RelatedReader(reader, config, filters, now_s)
        ways = {
            head: [
                (target.relation.name, target.list_anchors())
                for target in related.read(relations.get(head, ()))
            ]
            for head in (memory.head.anchor for memory in memories)
        }
    leading = {anchor for each in ways.values() for _, anchors in each for anchor in anchors}
    by_anchor = {
        section.anchor: memory
        for memory in [*list_memories(_read_notes_of(workspace, leading)), *memories]
        for section in memory.sections
    }
    ordered: dict[str, Outlined] = {}
    origins: dict[str, dict[str, str]] = {}
    for memory in memories:
        head = memory.head.anchor
        ordered.setdefault(head, memory)
        for relation, anchors in ways[head]:
            for anchor in anchors:
                other = by_anchor.get(anchor)
                if other is not None and other.head.anchor != head:
                    ordered.setdefault(other.head.anchor, other)
                    way = {"relation": relation, "related_to": head}
                    origins.setdefault(other.head.anchor, way)
    return [*ordered.values()], origins


def _describe(
    workspace: Workspace,
    config: Config,
    filled: Sequence[_Text],
    origins: Mapping[str, Mapping[str, str]],
    now_s: float,
) -> list[RecalledMemory]:
    """Describe the memories that are still indexed, each with the relation that led to it, and its
    contradictions.
    """
    none = Contradictions([], [], [], [], "")
    recalled: list[RecalledMemory] = []
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        contradictions = find_contradictions(reader, [each.head.anchor for each in filled])
        is_masking = must_redact(reader, config)
        for text in filled:
            anchor = text.head.anchor
            stored = read_section(reader, anchor)
            if stored is None:
                continue
            section = redact_section(stored[1]) if is_masking else stored[1]
            recalled.append(
                RecalledMemory(
                    anchor=anchor,
                    path=text.path,
                    start_line=text.head.span.start,
                    end_line=text.end_line,
                    heading=list(section.heading),
                    mark=mark_text(text.text, "the text below", config),
                    text=text.text,
                    tokens=text.n_tokens,
                    relation=origins[anchor]["relation"] if anchor in origins else None,
                    related_to=origins[anchor]["related_to"] if anchor in origins else None,
                    **describe_meta(section, config.kinds, now_s),
                    **contradictions.get(anchor, none)._asdict(),
                )
            )
    return recalled


def _fill(
    workspace: Workspace, config: Config, params: RecallParams, memories: Sequence[Outlined]
) -> Iterator[_Text]:
    """Yield the memories that the budget holds, in their order; the first is cut if need be."""
    left = params.max_tokens
    is_first = True
    for memory in memories[:N_READ]:
        if left == 0:
            return
        text = read_memory(workspace, memory)
        if text is None:
            continue
        text = _COMMENT.sub(r"\1", text, count=1)
        text = redact(text) if config.guard.is_masking else text
        if is_first:
            text = shorten(text, left * QUARTERS_PER_TOKEN)
        is_first = False
        n_tokens = count_tokens(text)
        if n_tokens > left:
            continue
        left -= n_tokens
        yield _Text(memory.head, memory.path, memory.sections[-1].span.end, text, n_tokens)


# --- the operation ------------------------------------------------------------------------------


async def answer(call: Call, params: RecallParams) -> Recalled:
    workspace = await call.open()

    def read() -> Recalled:
        return recall(workspace, call.config, params, call.now_s, find_accesses(workspace))

    read_freshness = call.watch_freshness()
    recalled = await call.read(read, on_disk=True)
    call.note_accesses([memory.anchor for memory in recalled.memories], params)
    return replace(recalled, freshness=read_freshness())
