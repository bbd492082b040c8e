"""Recalls memories by criteria, without a query: by keywords, by topic and kind, then by words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import find_importance
from memsyncd.core.guard.secrets import redact
from memsyncd.core.model import QUARTERS_PER_TOKEN, count_tokens
from memsyncd.core.search.context import shorten
from memsyncd.core.search.filters import EVERYTHING
from memsyncd.engine.accesses import find_accesses
from memsyncd.engine.marking import mark_text
from memsyncd.engine.memories import (
    PLAN_LIMIT_S,
    Memory,
    find_anchors,
    find_paths,
    list_memories,
    list_named,
    read_memory,
)
from memsyncd.engine.metadata import describe_meta, find_stored_moment_s
from memsyncd.engine.plan import NOTHING_TO_SAY, RunOptions, complete_filters, describe_query
from memsyncd.engine.redaction import redact_notes
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
from memsyncd.store.lookup import StoredNote, stream_notes

# The most memories that are read from the disk for an answer, and that words find.
N_READ = 200
N_FOUND = 50
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
    stage, anchors, request = _find_stage(workspace, config, params, options)
    notes = _read_notes_of(workspace, config, anchors)
    # A save that was indexed meanwhile may have removed memories.
    indexed = {section.anchor for note in notes for section in note.sections}
    named = list_named(notes, [anchor for anchor in anchors if anchor in indexed])
    memories = [memory for memory in named if not _is_front_matter(workspace, memory)]

    def order(memory: Memory) -> tuple[object, ...]:
        head = memory.head
        last = times.get(head.anchor)
        last_s = last.last_at_s if last else find_stored_moment_s(head)
        importance = find_importance(config.kinds, head.kind, head.importance)
        return -importance, -last_s, memory.note.path, head.span.start

    memories.sort(key=order)
    origins: dict[str, dict[str, str]] = {}
    if params.follow:
        memories, origins = _follow(workspace, config, params, memories, now_s)
    places = {memory.head.anchor: at for at, memory in enumerate(memories)}
    if stage == "words":  # the best match gets its room before more important memories
        memories.sort(key=lambda memory: anchors[0] not in _list_anchors(memory))
    filled = [*_fill(workspace, config, params, memories, now_s)]
    filled.sort(key=lambda memory: places[memory.anchor])
    recalled = _complete(workspace, filled, origins)
    return Recalled(
        workspace=workspace.id,
        stage=stage,
        memories=recalled,
        tokens=sum(memory.tokens for memory in recalled),
        left_out=len(memories) - len(recalled),
        **(describe_query(request, now_s) if request else NOTHING_TO_SAY),
    )


def _is_front_matter(workspace: Workspace, memory: Memory) -> bool:
    """True for the lines before the first heading if they are front matter alone: no memory."""
    if memory.head.level:
        return False
    return _FRONT_MATTER.fullmatch(read_memory(workspace, memory) or "") is not None


def _list_anchors(memory: Memory) -> list[str]:
    return [section.anchor for section in memory.sections]


def _read_notes_of(
    workspace: Workspace, config: Config, anchors: Iterable[str]
) -> list[StoredNote]:
    """Read the notes of these sections with all of their sections, redacted if need be."""
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        notes = stream_notes(reader, among=find_paths(anchors), filters=EVERYTHING)
        return list(redact_notes(reader, notes, config))


def _find_stage(
    workspace: Workspace, config: Config, params: RecallParams, options: RunOptions
) -> tuple[RecallStage | None, list[str], SearchParams | None]:
    """Return the first stage with memories, their anchors, and the parameters of the search for
    words if there was one.
    """
    for stage, narrowed in _list_stages(params):
        filters = complete_filters(params.filters, config, options.now_s, options.accesses)
        for narrower in narrowed:
            filters = filters.join(complete_filters(narrower, config, options.now_s))
        passing = find_anchors(workspace, filters)
        if passing:
            return stage, [*passing], None
    text = params.text.strip() or " ".join(params.keywords)
    if not text:
        return None, [], None
    request = SearchParams(query=text, limit=N_FOUND, filters=params.filters)
    answer = search([workspace], request, config, options)
    anchors = list(dict.fromkeys(anchor for hit in answer.hits for anchor in list_anchors(hit)))
    return ("words" if anchors else None), anchors, request


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
    memories: Sequence[Memory],
    now_s: float,
) -> tuple[list[Memory], dict[str, dict[str, str]]]:
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
        for memory in [*list_memories(_read_notes_of(workspace, config, leading)), *memories]
        for section in memory.sections
    }
    ordered: dict[str, Memory] = {}
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


def _complete(
    workspace: Workspace,
    memories: Sequence[RecalledMemory],
    origins: Mapping[str, Mapping[str, str]],
) -> list[RecalledMemory]:
    """Add to memories the relation that led to them, and their contradictions."""
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        contradictions = find_contradictions(reader, [memory.anchor for memory in memories])
    none = Contradictions([], [], [], [], "")
    return [
        replace(
            memory,
            **origins.get(memory.anchor, {}),
            **contradictions.get(memory.anchor, none)._asdict(),
        )
        for memory in memories
    ]


def _fill(
    workspace: Workspace,
    config: Config,
    params: RecallParams,
    memories: Sequence[Memory],
    now_s: float,
) -> Iterator[RecalledMemory]:
    """Yield the memories that the budget holds, in their order; the first is cut if need be."""
    left = params.max_tokens
    is_first = True
    for n_read, memory in enumerate(memories):
        if n_read == N_READ:
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
        head = memory.head
        yield RecalledMemory(
            anchor=head.anchor,
            path=memory.note.path,
            start_line=head.span.start,
            end_line=memory.sections[-1].span.end,
            heading=list(head.heading),
            mark=mark_text(text, "the text below", config),
            text=text,
            tokens=n_tokens,
            **describe_meta(head, config.kinds, now_s),
        )


# --- the operation ------------------------------------------------------------------------------


async def answer(call: Call, params: RecallParams) -> Recalled:
    workspace = await call.open()

    def read() -> Recalled:
        return recall(workspace, call.config, params, call.now_s, find_accesses(workspace))

    read_freshness = call.watch_freshness()
    recalled = await call.read(read, on_disk=True)
    call.note_accesses([memory.anchor for memory in recalled.memories], params)
    return replace(recalled, freshness=read_freshness())
