"""Archives and restores memories by a plan, archives memories past their time, and promotes
memories to the project's note.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import Addition
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import ARCHIVED, Meta
from memsyncd.core.search.filters import Filters
from memsyncd.core.upkeep import (
    find_promoted,
    make_promotion,
)
from memsyncd.engine.additions import append_additions, choose_note
from memsyncd.engine.edit import Put
from memsyncd.engine.memories import (
    PLAN_LIMIT_S,
    Memory,
    find_anchors,
    find_paths,
    list_memories,
    list_named,
    read_memory,
)
from memsyncd.engine.metadata import Valuation
from memsyncd.engine.plan import complete_filters
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.files.read import read_text_file
from memsyncd.operations import sections
from memsyncd.operations.call import Call
from memsyncd.operations.plans import (
    Act,
    Page,
    Planned,
    Select,
    Verdict,
    carry_out,
    find_protection,
    keep_up,
    make_plan,
)
from memsyncd.operations.upkeep.declare import (
    ArchiveParams,
    CleanupParams,
    Promoted,
    PromotedMemory,
    PromoteParams,
    UpkeepParams,
    Upkept,
)
from memsyncd.operations.upkeep.rules import Rule, plan_by_rule
from memsyncd.store.pool import Reader
from memsyncd.store.sections import (
    OutlinedNote,
    StoredSection,
    read_levels,
    read_outlines,
    read_section,
)

NO_FILTERS = sections.Filters()


def plan_archive(
    workspace: Workspace,
    config: Config,
    params: ArchiveParams,
    valuation: Valuation,
    *,
    is_short: bool = False,
) -> Planned:
    """Plan to archive memories that are named, pass the filters, or have a worth below a limit. If
    the request selects nothing, the configured limit of worth selects, and `is_short` is as for
    `plan_by_rule`.
    """
    below = params.below
    rule = Rule(config=config, valuation=valuation, below=below, is_protected_first=True)
    if not _is_selecting(params):
        rule = replace(rule, below=config.memory.archive_below if below is None else below)
        return _plan_by_rule(workspace, "archive", rule, params, is_short=is_short)
    selected = _select_anchors(workspace, config, params, valuation)

    def judge(memory: Memory) -> Verdict | None:
        if selected is not None and memory.head.anchor not in selected:
            return None
        if below is not None:
            return rule.judge_memory(memory)
        refusal = find_protection(memory, config)
        return ("skip", refusal) if refusal else ("change", "named")

    among = find_paths(params.anchors or selected)
    select, page = select_named(params.anchors), Page(params.offset, params.limit)
    return make_plan(workspace, "archive", judge, valuation, select, among, page)


def plan_restore(
    workspace: Workspace, config: Config, params: ArchiveParams, valuation: Valuation
) -> Planned:
    """Plan to restore the archived memories that are named or pass the filters."""
    if not _is_selecting(params):
        hint = "name anchors, a path or filters; undo takes a whole change set back"
        raise BadRequest("no memory to restore is selected", hint=hint)
    if params.below is not None:
        raise BadRequest("restore takes no `below`", hint="name anchors, a path or filters")
    selected = _select_anchors(workspace, config, params, valuation)

    def judge(memory: Memory) -> Verdict | None:
        has_archived = any(section.status == ARCHIVED for section in memory.sections)
        is_selected = selected is None or memory.head.anchor in selected
        return ("change", "named") if has_archived and is_selected else None

    among = find_paths(params.anchors or selected)
    select, page = select_named(params.anchors), Page(params.offset, params.limit)
    return make_plan(workspace, "restore", judge, valuation, select, among, page)


def plan_cleanup(
    workspace: Workspace,
    config: Config,
    params: CleanupParams,
    valuation: Valuation,
    *,
    is_short: bool = False,
) -> Planned:
    """Plan to archive memories past their time: expired, ephemeral and session memories, and on
    request memories whose worth is below a limit. `is_short` is as for `plan_by_rule`.
    """
    rule = Rule(
        config=config,
        valuation=valuation,
        below=params.below,
        limits_s={"ephemeral": config.memory.ephemeral_s, "session": config.memory.session_s},
        is_expiring=True,
    )
    return _plan_by_rule(workspace, "cleanup", rule, params, is_short=is_short)


def _plan_by_rule(
    workspace: Workspace, act: Act, rule: Rule, params: UpkeepParams, *, is_short: bool
) -> Planned:
    page = Page(params.offset, params.limit)
    return plan_by_rule(workspace, act, rule, page, is_whole=params.apply, is_short=is_short)


def select_named(anchors: Sequence[str]) -> Select:
    """Return a function that selects the named memories of notes, or every memory."""

    def select(notes: Sequence[OutlinedNote], paths: Collection[str]) -> Iterator[Memory]:
        if not anchors:
            return list_memories(notes)
        looked_up = {*paths}
        return list_named(
            notes, [anchor for anchor in anchors if anchor.rpartition("#")[0] in looked_up]
        )

    return select


def _is_selecting(params: ArchiveParams) -> bool:
    return bool(params.anchors or params.path is not None or params.filters != NO_FILTERS)


def _select_anchors(
    workspace: Workspace, config: Config, params: ArchiveParams, valuation: Valuation
) -> set[str] | None:
    """Return the anchors that the path and the filters select; None if there are neither."""
    if params.path is None and params.filters == NO_FILTERS:
        return None
    if params.filters.include_archived or params.filters.include_expired:
        hint = "leave include_archived and include_expired out"
        raise BadRequest("archived and expired memories are always included", hint=hint)
    if params.anchors:
        hint = "leave out the anchors, or the path and the filters"
        raise BadRequest("name either anchors or a path and filters", hint=hint)
    filters = complete_filters(params.filters, config, valuation.now_s, valuation.accesses)
    filters = replace(filters, includes_archived=True, includes_expired=True)
    return find_anchors(workspace, filters, path=params.path)


TASK_SUMMARY = "summary"


class PromotePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The new bytes of the project's note, and the memories that it gets."""

    digest: str
    puts: tuple[Put, ...]
    promoted: list[PromotedMemory]


def make_promote_planner(
    workspace: Workspace, config: Config, params: PromoteParams, *, at: str
) -> Callable[[], PromotePlan]:
    """Return a function that plans to promote. A memory that was promoted with the same tag stays
    as it is.

    Raises BadRequest and PathRefused at once, not when the plan is made.
    """
    tag = params.tag.strip().lstrip("#").casefold()
    if tag not in config.memory.promotion_tags:
        tags = ", ".join(config.memory.promotion_tags)
        raise BadRequest(f"tag: is none of {tags}", hint="use one of these, or configure others")
    if (params.anchor is None) == (params.task is None):
        raise BadRequest("name either an anchor or a task", hint="leave one of the two out")
    named = params.note or config.memory.promote_to
    path = choose_note(workspace.scope, config, note=named)
    if params.anchor is not None and params.anchor.rpartition("#")[0] == path.text:
        hint = "name another note, or change its tags and its lifecycle there"
        raise BadRequest(f"{params.anchor} is in {path.text} already", hint=hint)

    def plan() -> PromotePlan:
        memories = _find_memories(workspace, params)
        file = read_text_file(workspace.scope, path)
        present = parse_note(path, file.data, config.chunking).sections if file else ()
        promoted: list[PromotedMemory] = []
        additions: list[Addition] = []
        for memory in memories:
            source, heading = memory.head.anchor, memory.head.heading
            is_in_note = memory.path == path.text
            anchor = source if is_in_note else find_promoted(present, source, tag)
            if anchor is None:
                additions.append(_make_addition(workspace, memory, tag))
            promoted.append(
                PromotedMemory(
                    source=source,
                    heading=heading[-1] if heading else "",
                    anchor=anchor,
                    path=path.text,
                    is_new=anchor is None,
                )
            )
        paths = [path] * len(additions)
        puts, added = append_additions(workspace, additions, paths, at)
        new = iter(added)
        answer = [
            replace(memory, anchor=next(new).anchor) if memory.is_new and params.apply else memory
            for memory in promoted
        ]
        # Without the time, which the new bytes have: a plan is the same whenever it is made.
        sources = [(memory.head.anchor, memory.digest) for memory in memories]
        parts = (tag, path.text, file.digest if file else "", sources)
        digest = digest_bytes(msgspec.json.encode(parts))
        return PromotePlan(digest=digest, puts=puts, promoted=answer)

    return plan


def _find_memories(workspace: Workspace, params: PromoteParams) -> Sequence[Memory]:
    if params.anchor is not None:
        passing = {params.anchor}
    else:
        filters = Filters(kinds=(TASK_SUMMARY,), tasks=(params.task or "",))
        passing = find_anchors(workspace, filters)
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        notes = read_outlines(reader, find_paths(passing) or ())
    if params.anchor is not None:
        return [*list_named(notes, [params.anchor])]
    memories = [memory for memory in list_memories(notes) if memory.head.anchor in passing]
    if not memories:
        hint = f"see its memories with: memsyncd list --task {params.task}"
        raise NoteNotFound(f"task {params.task} has no summaries", hint=hint)
    return memories


def _make_addition(workspace: Workspace, memory: Memory, tag: str) -> Addition:
    head, path = memory.head, memory.path
    text = read_memory(workspace, memory)
    if text is None:
        raise _make_gone_error(path, head.anchor)
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        stored = read_section(reader, head.anchor)
    if stored is None:
        raise _make_gone_error(path, head.anchor)
    heading, meta = head.heading[-1] if head.heading else "", _make_meta(stored[1])
    return make_promotion(path, head.anchor, heading, text.split("\n"), meta, tag)


def _make_gone_error(path: str, anchor: str) -> NoteNotFound:
    hint = "try again once it is indexed"
    return NoteNotFound(f"{path} no longer has {anchor}", hint=hint)


def _make_meta(section: StoredSection) -> Meta:
    return Meta(
        kind=section.kind,
        tags=section.tags,
        importance=section.importance,
        priority=section.priority,
        source=section.source,
        extra=tuple(section.extra.items()),
    )


# --- the operations -----------------------------------------------------------------------------


async def _name_sections(call: Call, params: ArchiveParams) -> ArchiveParams:
    """Return the parameters with the outermost sections of each note that is named by its path."""
    if all("#" in anchor for anchor in params.anchors):
        return params
    workspace = await call.open()

    def read() -> list[str]:
        with workspace.acquire(PLAN_LIMIT_S) as reader:
            return [
                anchor
                for named in params.anchors
                for anchor in ([named] if "#" in named else _list_outermost(reader, named))
            ]

    return replace(params, anchors=await call.read(read))


def _list_outermost(reader: Reader, path: str) -> list[str]:
    """Return the sections of a note that are beneath no other; the path itself without any."""
    outermost: list[str] = []
    for anchor, level in read_levels(reader, path):
        if level and not (outermost and anchor.startswith(f"{outermost[-1]}/")):
            outermost.append(anchor)
    return outermost or [path]


async def archive(call: Call, params: ArchiveParams) -> Upkept:
    params = await _name_sections(call, params)
    plan = partial(plan_archive, call.workspace, call.config, params)
    short_plan = None if params.apply or _is_selecting(params) else partial(plan, is_short=True)
    return await keep_up(
        call, "archive", params, plan, is_long=not params.anchors, short_plan=short_plan
    )


async def restore(call: Call, params: ArchiveParams) -> Upkept:
    params = await _name_sections(call, params)
    plan = partial(plan_restore, call.workspace, call.config, params)
    return await keep_up(call, "archive.restore", params, plan, is_long=not params.anchors)


async def clean_up(call: Call, params: CleanupParams) -> Upkept:
    plan = partial(plan_cleanup, call.workspace, call.config, params)
    short_plan = None if params.apply else partial(plan, is_short=True)
    return await keep_up(call, "cleanup", params, plan, is_long=True, short_plan=short_plan)


async def promote(call: Call, params: PromoteParams) -> Promoted:
    workspace = await call.open()
    plan = make_promote_planner(workspace, call.config, params, at=call.stamp["at"])
    outcome = await carry_out(call, "promote", plan, is_applied=params.apply, digest=params.plan)
    return Promoted(
        is_applied=params.apply,
        plan=outcome.answer.digest,
        promoted=outcome.answer.promoted,
        **call.describe_write(outcome),
    )
