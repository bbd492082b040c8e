"""Answers requests about tasks and sessions from the sections in the index, and appends sections:
checkpoints, summaries, beginnings of sessions, and tasks made of other sections.

A section is appended as by `note.add`: it is one change set, which one undo takes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.sections import add_links
from memsyncd.core.guard.secrets import redact
from memsyncd.core.model import WORTH_ORDERS
from memsyncd.core.search.context import Budget, build_block
from memsyncd.core.search.tasks import (
    CLOSED,
    ENDED,
    FINISHED,
    describe_beginning,
    find_ready,
    summarize,
)
from memsyncd.core.upkeep import DISCOVERED_FROM
from memsyncd.engine.clock import Clock
from memsyncd.engine.metadata import bind_sort_keys, make_valuation
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.redaction import must_redact
from memsyncd.engine.work import (
    CHECKPOINT,
    WorkMemories,
    WorkRequest,
    WorkSection,
    WorkSections,
    list_items,
    list_sections,
    reading_work,
)
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.operations.call import Call
from memsyncd.operations.fields import AddedSection
from memsyncd.operations.inbox import read_inbox, render_news
from memsyncd.operations.notes.declare import Added
from memsyncd.operations.sections import MOST_LEFT_OUT, Filters
from memsyncd.operations.signals.declare import Signal, SignalInboxParams
from memsyncd.operations.tasks.declare import (
    CheckpointParams,
    Profile,
    ProfileParams,
    SessionBlock,
    SessionEndParams,
    SessionList,
    SessionListParams,
    SessionResumeParams,
    SessionStarted,
    SessionStartParams,
    TaskContext,
    TaskContextParams,
    TaskListParams,
    TaskReady,
    TaskReadyParams,
    TaskSections,
    TaskSummarizeParams,
    TaskSummary,
    Triage,
    TriageParams,
    WorkGroup,
)
from memsyncd.store import work as stored
from memsyncd.store.answers import AnswerFilter
from memsyncd.store.counts import KeptCounts

SUMMARY_CHARS = 60
# A profile names so many tags at most.
MOST_TAGS = 100
# So many sessions whose names begin alike are looked at, to find the meant one.
MOST_NAMED = 1000


# --- tasks --------------------------------------------------------------------------------------


def _read_sections(call: Call, filters: Filters) -> WorkSections:
    with reading_work(call.workspace, call.config, call.now_s) as work:
        return work.read(filters)


def list_ready(call: Call, params: TaskReadyParams) -> TaskReady:
    closed = FINISHED if params.include_archived else CLOSED
    with reading_work(call.workspace, call.config, call.now_s) as work:
        if params.task is None:
            ready, n_ready, n_blocked = work.find_first_ready(
                limit=params.limit, closed=closed, includes_archived=params.include_archived
            )
        else:
            filters = Filters(task=[params.task], include_archived=params.include_archived)
            items = work.outline_with_blockers(filters)
            ready, n_blocked = find_ready([*items.values()], params.task, closed=closed)
            n_ready = len(ready)
        shown = work.describe(ready[: params.limit])
    return TaskReady(
        workspace=call.workspace.id,
        items=shown,
        n_ready=n_ready,
        blocked=n_blocked,
    )


def list_task(call: Call, params: TaskListParams) -> TaskSections:
    """List the sections of a task, or the latest tasks."""
    if params.task is None:
        filters = Filters(include_archived=params.include_archived)
        with reading_work(call.workspace, call.config, call.now_s) as work:
            groups, n_tasks = work.find_first_groups("task", filters, limit=params.limit)
        return TaskSections(
            workspace=call.workspace.id,
            items=[],
            # A task goes on when a session that worked on it has ended.
            tasks=[replace(_describe_group(group), is_ended=False) for group in groups],
            n_tasks=n_tasks,
        )
    filters = Filters(task=[params.task], include_archived=params.include_archived)
    sections = _read_sections(call, filters)
    return TaskSections(
        workspace=call.workspace.id,
        items=list_sections(sections, list_items(sections)),
        tasks=[],
        n_tasks=0,
    )


def _describe_group(group: stored.GroupCounts) -> WorkGroup:
    return WorkGroup(
        name=group.name,
        sections=group.n_sections,
        open=group.n_open,
        first=group.first,
        last=group.last,
        tasks=list(group.tasks),
        is_ended=bool(group.is_ended),
    )


async def make_context(call: Call, params: TaskContextParams) -> TaskContext:
    await call.open()
    context = await call.read(partial(build_task_context, call, params))
    call.note_accesses(context.included, params)
    return context


def build_task_context(call: Call, params: TaskContextParams) -> TaskContext:
    request = WorkRequest(
        task=params.task,
        has_profile=True,
        is_whole=True,
        is_by_worth=params.sort in WORTH_ORDERS,
        include_archived=params.include_archived,
    )
    block = _build_block(call, _read_memories(call, request, params), params)
    return TaskContext(**block, bytes=len(block["text"].encode()))


def _read_memories(
    call: Call, request: WorkRequest, params: TaskContextParams | SessionResumeParams
) -> WorkMemories:
    with reading_work(call.workspace, call.config, call.now_s) as work:
        return work.read_memories(call.workspace, request, max_bytes=params.max_bytes)


def _build_block(
    call: Call,
    memories: WorkMemories,
    params: TaskContextParams | SessionResumeParams,
    heading: str = "",
    news: str = "",
) -> dict[str, Any]:
    """Build the block of memories alone; return the fields of `MemoryBlock`."""
    block = build_block(
        memories.chunks,
        # No text has more tokens than bytes.
        Budget(max_tokens=params.max_bytes, max_bytes=params.max_bytes),
        heading=heading,
        news=news,
        is_marked=params.mark and call.config.guard.has_instructions,
    )
    included = dict.fromkeys(lines.chunk.anchor for lines in block.included)
    every = dict.fromkeys(chunk.anchor for chunk in memories.chunks)
    left_out = [anchor for anchor in every if anchor not in included]
    return {
        "workspace": call.workspace.id,
        "text": block.text,
        "included": list(included),
        "left_out": left_out[:MOST_LEFT_OUT],
        "n_left_out": len(left_out) + memories.n_further,
    }


async def add_checkpoint(call: Call, params: CheckpointParams) -> Added:
    """Append a checkpoint. Raises BadRequest if neither a task nor a session is named."""
    if params.task is None and params.session is None:
        hint = "name a task or a session"
        raise BadRequest("a checkpoint needs a task or a session, and none is named", hint=hint)
    return await call.add_section(
        content=params.content,
        kind=CHECKPOINT,
        metadata=params.metadata,
        task=params.task,
        session=params.session,
        lifecycle="task" if params.task else "session",
    )


async def summarize_task(call: Call, params: TaskSummarizeParams) -> TaskSummary:
    """Return the summary; append it with `apply`, unless the task has it already."""
    await call.open()
    summary, is_new = await call.read(partial(make_summary, call, params))
    if not params.apply or not is_new:
        return summary
    added = await call.add_section(
        content=summary.text.strip(),
        summary=f"Summary of {params.task}",
        kind="summary",
        task=params.task,
        lifecycle="task",
    )
    return replace(summary, added=_take_place(added))


def make_summary(call: Call, params: TaskSummarizeParams) -> tuple[TaskSummary, bool]:
    """Return the summary, and whether the task does not have it yet."""
    items = list_items(_read_sections(call, Filters(task=[params.task])))
    sources = [item for item in items if item.kind != "summary"]
    text = params.content or summarize(sources, max_bytes=params.max_bytes)
    is_known = any(item.kind == "summary" and item.body == text.strip() for item in items)
    summary = TaskSummary(
        workspace=call.workspace.id,
        text=text,
        sources=[item.anchor for item in sources],
        added=None,
    )
    return summary, bool(text.strip()) and not is_known


def _take_place(added: Added) -> AddedSection:
    """Return only the place of an added section."""
    return msgspec.convert(added, AddedSection, from_attributes=True)


def compute_profile(call: Call, params: ProfileParams) -> Profile:
    filters = Filters(tag=params.tag, include_archived=params.include_archived)
    keys = bind_sort_keys(make_valuation(call.config, call.now_s))
    with reading_work(call.workspace, call.config, call.now_s) as work:
        project = work.open_project(filters)
        shown = work.describe(project.find_first("importance", keys, most=params.limit))
        n_sections, n_notes = project.count()
        kinds, tags = project.count_values(most_tags=MOST_TAGS)
        show = redact if must_redact(work.reader, call.config) else str
    return Profile(
        workspace=call.workspace.id,
        items=shown,
        tags=_order_counts(tags, show, most=MOST_TAGS),
        kinds=_order_counts(kinds, show),
        sections=n_sections,
        notes=n_notes,
    )


def _order_counts(
    counts: Mapping[str, int], show: Callable[[str], str] = str, *, most: int | None = None
) -> dict[str, int]:
    """Return the commonest values first."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return {show(value): n for value, n in ordered[:most]}


# --- triage -------------------------------------------------------------------------------------


async def triage(call: Call, params: TriageParams) -> Triage:
    """Count the sections with the tags, and make a task of the section to promote, if any."""
    await call.open()
    counted, fields = await call.read(partial(plan_triage, call, params))
    if fields is None:
        return counted
    added = await call.add_section(**fields)
    return replace(counted, promoted=_take_place(added))


def plan_triage(call: Call, params: TriageParams) -> tuple[Triage, dict[str, Any] | None]:
    """Count the sections with the tags, and return the parameters of `note.add` for the task to
    make, or None if there is nothing to write.

    Raises BadRequest if only one of the task and the section to promote is named, and NoteNotFound
    if there is no such section.
    """
    if params.promote is None and (params.task or params.priority) is not None:
        hint = "name its section with --promote (promote)"
        raise BadRequest("task and priority need a section to promote", hint=hint)
    filters = Filters(tag=params.tag)
    with reading_work(call.workspace, call.config, call.now_s) as work:
        sections = work.open_waiting(filters)
        counts = sections.count()
        first = sections.find_first(most=params.limit)
        waiting = sections.find_first(most=1, is_waiting=True)
        items = work.describe([*waiting, *first])
        promoted = work.read_one(filters, params.promote) if params.promote is not None else None
    opened = [count for count in counts if count.is_open]
    counted = Triage(
        workspace=call.workspace.id,
        open=sum(count.n for count in opened),
        closed=sum(count.n for count in counts if not count.is_open),
        untriaged=sum(count.n for count in opened if count.is_waiting),
        by_priority=_order_counts(_sum_by_priority(opened)),
        next=items[0] if waiting else None,
        items=items[len(waiting) :],
        promoted=None,
    )
    if params.promote is None:
        return counted, None
    if params.task is None:
        raise BadRequest("the task has no name", hint="give it one with --task (task)")
    if promoted is None:
        tags = ", ".join(params.tag)
        raise NoteNotFound(f"no section {params.promote} with the tag {tags}", hint="see: triage")
    return counted, _make_task(call, promoted, params)


def _sum_by_priority(counts: Iterable[stored.PriorityCount]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for count in counts:
        sums[count.priority or "none"] += count.n
    return sums


def _make_task(call: Call, promoted: WorkSection, params: TriageParams) -> dict[str, Any] | None:
    item, section = promoted
    link = f"- {DISCOVERED_FROM} [[{item.path}#{item.heading}]]"
    of_task = Filters(task=[params.task or ""])
    for existing, _ in _read_sections(call, of_task).values():
        if link in existing.body:
            return None  # it was promoted before
    return {
        "content": add_links(section.text, [link]),
        "summary": item.heading[:200],
        "task": params.task,
        "priority": params.priority or item.priority,
        "lifecycle": "task",
        "tags": list(item.tags),
    }


# --- sessions -----------------------------------------------------------------------------------


async def start_session(call: Call, params: SessionStartParams) -> SessionStarted:
    """Append a section that records the beginning, and return it with the session's block."""
    added = await call.add_section(
        content=params.content or describe_beginning(params.session, params.task),
        summary=f"Session {params.session}"[:SUMMARY_CHARS],
        kind="session",
        session=params.session,
        task=params.task,
        lifecycle="session",
    )
    resume = SessionResumeParams(
        session=params.session,
        task=params.task,
        agent=params.agent,
        max_bytes=params.max_bytes,
        mark=params.mark,
        workspace=params.workspace,
    )
    block = await resume_session(call, resume)
    return SessionStarted(
        workspace=added.workspace,
        generation=added.generation,
        is_indexed=added.is_indexed,
        change_set=added.change_set,
        added=_take_place(added),
        text=block.text,
    )


def list_sessions(call: Call, params: SessionListParams) -> SessionList:
    filters = Filters(include_archived=True)
    with reading_work(call.workspace, call.config, call.now_s) as work:
        groups, n_sessions = work.find_first_groups(
            "session", filters, has_ended=params.include_ended, limit=params.limit
        )
    return SessionList(
        workspace=call.workspace.id,
        sessions=[_describe_group(group) for group in groups],
        n_sessions=n_sessions,
    )


async def end_session(call: Call, params: SessionEndParams) -> Added:
    """Append a section that records the end of a session; its status says so. Raises NoteNotFound
    if neither a memory nor an answer to an agent knows the session.
    """
    await call.open()
    read_freshness = call.watch_freshness()
    others = await call.read(partial(find_others, call, params.session))
    fresh = read_freshness()
    # A note that is not indexed yet may name the session.
    is_unknown = others is not None and fresh.state == "ready" and not fresh.pending
    if is_unknown and not await call.run_job(partial(has_answers, name=params.session)):
        similar = get_close_matches(params.session, others or (), n=1)
        hint = f"did you mean {similar[0]}?" if similar else "see: memsyncd session list"
        raise NoteNotFound(f"no session {params.session}", hint=hint)
    return await call.add_section(
        content=params.content or f"Session {params.session} ended.",
        summary=f"End of session {params.session}"[:SUMMARY_CHARS],
        kind="session",
        status=ENDED,
        session=params.session,
        task=params.task,
        lifecycle="session",
    )


def find_others(call: Call, session: str) -> list[str] | None:
    """Return the latest sessions if no section names this session; None if one does."""
    with reading_work(call.workspace, call.config, call.now_s) as work:
        if any(KeptCounts(work.reader).read("session", session)):
            return None
        latest, _ = work.find_first_groups("session", Filters(include_archived=True), limit=50)
    return [group.name for group in latest]


def has_answers(workspace: Workspace, _config: Config, clock: Clock, *, name: str) -> Job[bool]:
    """True if an agent in this session was answered, as by a hook. Raises StoreFailed."""
    with workspace.answers.lock:
        noted = [answer.session for answer in workspace.answers.noted]
    stored = require_records(workspace, clock).answers.find_sessions(
        AnswerFilter(session=name), limit=MOST_NAMED
    )
    yield
    return name in (*noted, *(each.session for each in stored))


async def resume_session(call: Call, params: SessionResumeParams) -> SessionBlock:
    """Return the block that restores an agent after its context was cleared, with the unread
    signals to the agent, the session and its task. Raises BadRequest if neither a session nor a
    task is named.
    """
    if params.session is None and params.task is None:
        raise BadRequest("nothing to resume is named", hint="name a session or a task")
    await call.open()
    memories = await call.read(partial(read_session, call, params))
    inbox = SignalInboxParams(agent=params.agent, session=params.session, task=memories.task)
    box = await call.run_job(partial(read_inbox, params=inbox), is_write=True)
    return await call.read(partial(build_session_block, call, params, memories, box.signals))


def read_session(call: Call, params: SessionResumeParams) -> WorkMemories:
    request = WorkRequest(task=params.task, session=params.session, is_resuming=True)
    return _read_memories(call, request, params)


def build_session_block(
    call: Call,
    params: SessionResumeParams,
    memories: WorkMemories,
    signals: Sequence[Signal] = (),
) -> SessionBlock:
    names = {"task": memories.task, "session": params.session}
    title = ", ".join(f"{word} {name}" for word, name in names.items() if name)
    news = render_news(signals, params.max_bytes)
    block = _build_block(call, memories, params, f"# Resuming {title}", news)
    return SessionBlock(**block, task=memories.task, signals=[signal.id for signal in signals])
