"""Recalls memories by criteria, without a query: by keywords, by topic and kind, then by words.

Each workspace offers the memories that fit the whole budget. The answer has the offers of the first
stage at which any workspace finds memories, as many as the budget holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import find_importance
from memsyncd.core.guard.injection import PROMPT_INJECTION
from memsyncd.core.guard.secrets import redact
from memsyncd.core.model import QUARTERS_PER_TOKEN, count_tokens
from memsyncd.core.search import filters as conditions
from memsyncd.core.search.context import shorten
from memsyncd.core.search.federation import FoundLines, find_repeated
from memsyncd.core.search.plan import SearchPlan
from memsyncd.engine.accesses import find_accesses
from memsyncd.engine.marking import mark_text
from memsyncd.engine.memories import read_first_memories
from memsyncd.engine.metadata import describe_meta, find_stored_moment_s, name_note
from memsyncd.engine.plan import (
    NOTHING_TO_SAY,
    RunOptions,
    complete_filters,
    describe_query,
    make_search_plan,
    read_query,
)
from memsyncd.engine.redaction import must_redact, read_redacted_sections
from memsyncd.engine.relations import (
    Contradictions,
    RelatedReader,
    find_contradictions,
    find_relations,
)
from memsyncd.engine.search import SearchPart, join_parts, search_part
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest
from memsyncd.operations.call import JoinedCall, Questions
from memsyncd.operations.recall.declare import (
    RecallAnswer,
    RecalledMemory,
    RecallParams,
    RecallStage,
)
from memsyncd.operations.search.declare import SearchParams, list_anchors
from memsyncd.operations.sections import Filters
from memsyncd.store.accesses import AccessCount
from memsyncd.store.pool import Reader
from memsyncd.store.sections import (
    MemoryLines,
    has_problem,
    read_named_memories,
)
from memsyncd.store.texts import NoteLines, read_lines

# The most memories of a workspace whose texts are read, so many at a time, and that words find.
N_READ, PORTION = 200, 16
N_FOUND = 50
# The most sections whose order is compared.
N_RANKED = 500
# The comment of a section below its heading; the answer has its fields.
_COMMENT = re.compile(
    r"\A([^\n]*\n(?:[ ]{0,3}(?:=+|-+)[ \t]*\n)?)\s*<!--\s*memory:.*?-->[ \t]*\n?", re.DOTALL
)
STAGES: Sequence[RecallStage] = ("keywords", "topic and kind", "words")
MemoryOrder = tuple[object, ...]


class _Words(NamedTuple):
    """The search of the last stage, the same in each workspace."""

    params: SearchParams
    plan: SearchPlan
    commands: frozenset[str] | None


class RecallPart(msgspec.Struct, frozen=True, kw_only=True):
    """The memories that one workspace offers, the most important first, each with its order, and
    the number of memories that it has found. `searched` is its search for words.
    """

    workspace: Workspace
    stage: RecallStage | None = None
    offered: Sequence[tuple[MemoryOrder, RecalledMemory]] = ()
    n_found: int = 0
    searched: SearchPart | None = None


def answer_recall(call: JoinedCall, params: RecallParams) -> Questions[RecallPart, RecallAnswer]:
    """Recall memories of each workspace, and join them."""
    words = _plan_words(call.workspaces, call.config, params, call.options)

    def read(workspace: Workspace, options: RunOptions) -> RecallPart:
        options = replace(options, within=call.list_shared(workspace))
        accessed = find_accesses(workspace)
        return _recall_part(workspace, call.config, params, words, options, accessed)

    parts = yield read
    values = [part.value for part in parts if part.value is not None]
    answer = _join(values, call.config, params, words, call.options.now_s)
    if params.track_access:
        call.note_accesses([(memory.workspace, memory.anchor) for memory in answer.memories])
    return answer


def recall(
    workspace: Workspace,
    config: Config,
    params: RecallParams,
    now_s: float,
    accessed: Mapping[str, AccessCount] | None = None,
) -> RecallAnswer:
    """Recall the memories of one workspace. Equally important memories come by their last access
    (`accessed`: by anchor), or by their last update if they have none.

    Raises BadRequest without a criterion.
    """
    return recall_from([(workspace, accessed or {})], config, params, now_s)


def recall_from(
    workspaces: Sequence[tuple[Workspace, Mapping[str, AccessCount]]],
    config: Config,
    params: RecallParams,
    now_s: float,
) -> RecallAnswer:
    """Recall memories of one workspace after the other, each with its accesses."""
    options = RunOptions(now_s=now_s)
    words = _plan_words([workspace for workspace, _ in workspaces], config, params, options)
    parts = [
        _recall_part(workspace, config, params, words, options, accessed)
        for workspace, accessed in workspaces
    ]
    return _join(parts, config, params, words, now_s)


def _plan_words(
    workspaces: Sequence[Workspace], config: Config, params: RecallParams, options: RunOptions
) -> _Words | None:
    """Plan the search for words; None without words. Raises BadRequest without a criterion."""
    text = params.text.strip() or " ".join(params.keywords)
    if not (text or params.topic or params.kind):
        hint = "give keywords, a topic, a kind or a text"
        raise BadRequest("recall: there is no criterion", hint=hint)
    if not text:
        return None
    request = SearchParams(
        query=text, limit=N_FOUND, filters=params.filters, timeout_ms=params.timeout_ms
    )
    request, options = read_query(workspaces, request, config, options)
    return _Words(request, make_search_plan(request, config, options), options.commands)


# --- one workspace --------------------------------------------------------------------------------


def _recall_part(
    workspace: Workspace,
    config: Config,
    params: RecallParams,
    words: _Words | None,
    options: RunOptions,
    accessed: Mapping[str, AccessCount],
) -> RecallPart:
    """Find the memories of the first stage that has any, and offer those which the budget holds."""
    options = replace(options, accesses={key: access.count for key, access in accessed.items()})
    limit_s = options.limit_s(params, config)
    with workspace.acquire(limit_s) as reader:
        offer = _Offer(reader, workspace, config, params, options)
        for stage, narrowed in _list_stages(params):
            memories = offer.find(narrowed, [*accessed])
            if memories:
                return offer.make(stage, memories, accessed)
    if words is None:
        return RecallPart(workspace=workspace)
    own = replace(options, commands=words.commands)
    plan = make_search_plan(words.params, config, own)
    searched = search_part(workspace, plan, words.params, config, is_merged=True)
    anchors = list(dict.fromkeys(each for hit in searched.hits for each in list_anchors(hit)))
    with workspace.acquire(limit_s) as reader:
        offer = _Offer(reader, workspace, config, params, options)
        part = offer.make("words", read_named_memories(reader, anchors), accessed, anchors[:1])
    return replace(part, searched=searched)


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


class _Offer(NamedTuple):
    """Makes the offer of one workspace, from one snapshot of its index."""

    reader: Reader
    workspace: Workspace
    config: Config
    params: RecallParams
    options: RunOptions

    def find(self, narrowed: Iterable[Filters], accessed: Sequence[str]) -> list[MemoryLines]:
        """Return the memories of the most important sections that pass the filters of the request
        and these.
        """
        config, options = self.config, self.options
        filters = complete_filters(self.params.filters, config, options.now_s, options.accesses)
        for narrower in narrowed:
            filters = filters.join(complete_filters(narrower, config, options.now_s))
        if options.within:
            filters = filters.join(conditions.Filters(paths=options.within))
        return read_first_memories(
            self.reader, filters, config.kinds, limit=N_RANKED, accessed=accessed[:N_RANKED]
        )

    def make(
        self,
        stage: RecallStage,
        memories: Iterable[MemoryLines],
        accessed: Mapping[str, AccessCount],
        best: Sequence[str] = (),
    ) -> RecallPart:
        """Offer these memories. The memory of the section `best`, if any, gets its room first."""
        ordered = self._sort(self._leave_out(memories), accessed)
        origins: dict[str, dict[str, Any]] = {}
        if self.params.follow:
            ordered, origins = self._follow(ordered)
        by_room = sorted(ordered, key=lambda pair: not any(map(pair[1].has, best)))
        filled = {memory.anchor: text for memory, text in self._fill(by_room)}
        contradictions = find_contradictions(self.reader, filled)
        sections = read_redacted_sections(
            self.reader,
            [memory.section for _, memory in ordered if memory.anchor in filled],
            self.config,
        )
        is_marked = has_problem(self.reader, PROMPT_INJECTION)
        none = Contradictions([], [], [], [], "")
        return RecallPart(
            workspace=self.workspace,
            stage=stage if ordered else None,
            offered=[
                (
                    order,
                    RecalledMemory(
                        workspace=self.workspace.id,
                        anchor=memory.anchor,
                        path=memory.path,
                        start_line=memory.start_line,
                        end_line=memory.end_line,
                        title=name_note(sections[memory.section]),
                        heading=list(sections[memory.section].heading),
                        mark=mark_text(text, "the text below", self.config) if is_marked else "",
                        text=text,
                        tokens=count_tokens(text),
                        **describe_meta(
                            sections[memory.section], self.config.kinds, self.options.now_s
                        ),
                        **origins.get(memory.anchor, {}),
                        **contradictions.get(memory.anchor, none)._asdict(),
                    ),
                )
                for order, memory in ordered
                if (text := filled.get(memory.anchor)) is not None
            ],
            n_found=len(ordered),
        )

    def _leave_out(self, memories: Iterable[MemoryLines]) -> list[MemoryLines]:
        """Leave out absent notes, and sections with neither a text nor a heading."""
        absent, here = self.options.absent, self.workspace.id
        return [
            memory
            for memory in memories
            if (here, memory.path) not in absent and (memory.level or not memory.is_empty)
        ]

    def _sort(
        self, memories: Iterable[MemoryLines], accessed: Mapping[str, AccessCount]
    ) -> list[tuple[MemoryOrder, MemoryLines]]:
        """Return memories with their orders, the most important first."""

        def find_order(memory: MemoryLines) -> MemoryOrder:
            last = accessed.get(memory.anchor)
            last_s = last.last_at_s if last else find_stored_moment_s(memory)
            importance = find_importance(self.config.kinds, memory.kind, memory.importance)
            return -importance, -last_s, memory.path, memory.start_line

        return sorted((find_order(memory), memory) for memory in memories)

    def _follow(
        self, ordered: Sequence[tuple[MemoryOrder, MemoryLines]]
    ) -> tuple[list[tuple[MemoryOrder, MemoryLines]], dict[str, dict[str, Any]]]:
        """Put the memories to which relations lead right behind the memory that has the relations,
        with its order. Also return the origin of each, `relation` and `related_to`, by anchor.
        """
        heads = [memory.anchor for _, memory in ordered[:N_READ]]
        filters = complete_filters(self.params.filters, self.config, self.options.now_s)
        related = RelatedReader(self.reader, self.config, filters, self.options.now_s)
        relations = find_relations(self.reader, heads, self.params.follow)
        ways = {
            head: [
                (target.relation.name, target.list_anchors())
                for target in related.read(relations.get(head, ()))
            ]
            for head in heads
        }
        leading = {anchor for each in ways.values() for _, anchors in each for anchor in anchors}
        targets = [
            *(memory for _, memory in ordered),
            *read_named_memories(self.reader, leading),
        ]
        by_anchor = {
            anchor: next(memory for memory in targets if memory.has(anchor)) for anchor in leading
        }
        placed: dict[str, tuple[MemoryOrder, MemoryLines]] = {}
        origins: dict[str, dict[str, Any]] = {}
        for order, memory in ordered:
            head = memory.anchor
            placed.setdefault(head, (order, memory))
            for relation, anchors in ways.get(head, ()):
                for other in (by_anchor[anchor] for anchor in anchors):
                    if other.anchor != head:
                        placed.setdefault(other.anchor, (order, other))
                        way = {"relation": relation, "related_to": head}
                        origins.setdefault(other.anchor, way)
        return [*placed.values()], origins

    def _fill(
        self, ordered: Sequence[tuple[MemoryOrder, MemoryLines]]
    ) -> Iterator[tuple[MemoryLines, str]]:
        """Yield the memories that the budget holds, with their texts; the first is cut if need be.
        No more texts are read when it is full.
        """
        left = self.params.max_tokens
        for at in range(0, min(len(ordered), N_READ), PORTION):
            portion = [memory for _, memory in ordered[at : min(at + PORTION, N_READ)]]
            for number, text in enumerate(self._read_texts(portion)):
                shown = _COMMENT.sub(r"\1", text, count=1)
                if at + number == 0:
                    shown = shorten(shown, left * QUARTERS_PER_TOKEN)
                n_tokens = count_tokens(shown)
                if n_tokens <= left:
                    left -= n_tokens
                    yield portion[number], shown
            if not left:
                return

    def _read_texts(self, memories: Sequence[MemoryLines]) -> list[str]:
        """Read the texts of memories, redacted if need be."""
        places = [NoteLines(memory.path, memory.start_line, memory.end_line) for memory in memories]
        texts = read_lines(self.reader, places) if places else []
        return [*map(redact, texts)] if must_redact(self.reader, self.config) else texts


# --- several workspaces ---------------------------------------------------------------------------


def _join(
    parts: Sequence[RecallPart],
    config: Config,
    params: RecallParams,
    words: _Words | None,
    now_s: float,
) -> RecallAnswer:
    """Join the offers of the first stage at which any workspace has found memories."""
    stage = next((each for each in STAGES if any(part.stage == each for part in parts)), None)
    joined = [part for part in parts if part.stage == stage] if stage else []
    offered = [
        ((*order, number, at), part, memory)
        for number, part in enumerate(joined)
        for at, (order, memory) in enumerate(part.offered)
    ]
    repeated = find_repeated(
        [
            FoundLines(part.workspace.entry.root, memory.path, memory.start_line, memory.end_line)
            for _, part, memory in offered
        ]
    )
    offered = [each for number, each in enumerate(offered) if number not in repeated]
    offered.sort(key=lambda each: each[0])
    best = _find_best(joined, words, config) if stage == "words" else None
    by_room = sorted(offered, key=lambda each: not (best and _has(each[2], *best)))
    left, fitting = params.max_tokens, []
    for order, _, memory in by_room:
        if memory.tokens <= left:
            left -= memory.tokens
            fitting.append((order, memory))
    memories = [memory for _, memory in sorted(fitting, key=lambda each: each[0])]
    is_searched = words is not None and stage in ("words", None)
    return RecallAnswer(
        stage=stage,
        memories=memories,
        tokens=params.max_tokens - left,
        left_out=sum(part.n_found for part in joined) - len(repeated) - len(memories),
        **(describe_query(words.params, now_s) if words and is_searched else NOTHING_TO_SAY),
    )


def _find_best(
    parts: Sequence[RecallPart], words: _Words | None, config: Config
) -> tuple[str, str] | None:
    """Return the workspace and the section of the best hit of all searches."""
    searched = [part.searched for part in parts if part.searched is not None]
    if words is None or not any(each.hits for each in searched):
        return None
    workspaces = [part.workspace for part in parts]
    hit = join_parts(searched, workspaces, words.plan, words.params, config).hits[0]
    return hit.workspace, hit.anchor


def _has(memory: RecalledMemory, workspace: str, anchor: str) -> bool:
    is_beneath = bool(memory.heading) and anchor.startswith(f"{memory.anchor}/")
    return memory.workspace == workspace and (memory.anchor == anchor or is_beneath)
