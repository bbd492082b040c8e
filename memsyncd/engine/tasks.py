"""Reads the sections of tasks and sessions from the index, and answers questions about them.

Nothing here writes: what is to be written is returned as a section to append.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.globs import has_wildcard
from memsyncd.core.guard.secrets import redact
from memsyncd.core.notepath import is_note_name
from memsyncd.core.search.tasks import (
    CLOSED,
    FINISHED,
    ItemValue,
    TaskBlock,
    TaskGroup,
    TaskItem,
    cut_text,
    find_ready,
    group_for_session,
    group_for_task,
    order_profile,
    render_block,
    summarize,
)
from memsyncd.engine.marking import list_marks
from memsyncd.engine.metadata import describe_meta, make_valuation
from memsyncd.engine.redaction import must_redact, redact_notes
from memsyncd.engine.relations import find_relations
from memsyncd.engine.search import complete_filters
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.operations.sections import Filters
from memsyncd.operations.signals.declare import Signal
from memsyncd.operations.tasks.declare import (
    Profile,
    ProfileParams,
    SessionBlock,
    SessionResumeParams,
    TaskContext,
    TaskContextParams,
    TaskListParams,
    TaskReady,
    TaskReadyParams,
    TaskSection,
    TaskSections,
    TaskSummarizeParams,
    TaskSummary,
    Triage,
    TriageParams,
)
from memsyncd.store.lookup import by_path, has_relation, read_digest, stream_notes
from memsyncd.store.pool import Reader
from memsyncd.store.texts import read_note_text

READ_LIMIT_S = 5.0
BLOCKED_BY, CHECKPOINT = "blocked_by", "checkpoint"
# The values that one filter takes.
MAX_VALUES = 32
SIGNAL_BYTES = 300
# Signals take at most this part of a session's block.
SIGNAL_SHARE = 0.25
_COMMENT = re.compile(r"\s*<!--\s*memory:.*?-->", re.DOTALL)
_NAMES = re.compile(r"[\s,\[\]]+")

Sections = dict[str, tuple[TaskItem, TaskSection]]


def read_task_sections(
    workspace: Workspace,
    config: Config,
    filters: Filters,
    *,
    now_s: float,
    has_task: bool = False,
) -> Sections:
    """Return the sections that pass the filters and say something, by anchor, in file order; with
    `has_task` only those of a task.
    """
    found: Sections = {}
    with workspace.acquire(READ_LIMIT_S) as reader:
        compiled = complete_filters(filters, config, now_s)
        is_masking = must_redact(reader, config)
        stored = stream_notes(reader, filters=compiled, has_task=has_task)
        notes = sorted((note for note in stored if note.sections), key=by_path)
        for note in redact_notes(reader, notes, config):
            lines = read_note_text(reader, note.path).split("\n")
            for section in note.sections:
                first = section.span.start - 1 + bool(section.level)
                body = _COMMENT.sub("", "\n".join(lines[first : section.span.end]), count=1).strip()
                if not body or (section.level == 0 and body.startswith("---")):
                    continue
                one = TaskSection(
                    anchor=section.anchor,
                    path=note.path,
                    start_line=section.span.start,
                    end_line=section.span.end,
                    heading=list(section.heading),
                    text=redact(body) if is_masking else body,
                    **describe_meta(section, config.kinds, now_s),
                )
                found[one.anchor] = (_make_item(one), one)
        if has_relation(reader, BLOCKED_BY):
            found = _add_linked_blockers(reader, found)
    return found


def _add_linked_blockers(reader: Reader, sections: Sections) -> Sections:
    """Add to each section what its typed links name as blocking it: sections and notes."""
    relations = find_relations(reader, sections, [BLOCKED_BY])
    return {
        anchor: (
            replace(item, blocked_by=(*item.blocked_by, *(link.to for link in relations[anchor]))),
            one,
        )
        for anchor, (item, one) in sections.items()
    }


def _read_with_blockers(
    workspace: Workspace,
    config: Config,
    *selected: Filters,
    now_s: float,
    has_task: bool = False,
) -> Sections:
    """Read what passes any of the filters, and the tasks and sections that block it."""
    found: Sections = {}
    for filters in selected:
        found |= read_task_sections(workspace, config, filters, now_s=now_s, has_task=has_task)
    names = sorted({name for item, _ in found.values() for name in item.blocked_by})
    for at in range(0, len(names), MAX_VALUES):
        part = names[at : at + MAX_VALUES]
        anchors = [name for name in part if "#" in name]
        others = [name for name in part if "#" not in name]
        tasks = [name for name in others if not is_note_name(name.rpartition("/")[2])]
        notes = _list_notes(workspace, [name for name in others if name not in tasks])
        for filters in (
            Filters(path=notes, include_archived=True),
            Filters(task=tasks, include_archived=True),
            Filters(section=anchors, include_archived=True),
        ):
            if filters.path or filters.task or filters.section:
                found = read_task_sections(workspace, config, filters, now_s=now_s) | found
    return found


def _list_notes(workspace: Workspace, names: Sequence[str]) -> list[str]:
    """Leave out names with a wildcard that no note has: a filter would take them for globs."""
    if not any(map(has_wildcard, names)):
        return [*names]
    with workspace.acquire(READ_LIMIT_S) as reader:
        return [
            name
            for name in names
            if not has_wildcard(name) or read_digest(reader, name) is not None
        ]


def _make_item(one: TaskSection) -> TaskItem:
    kind = (one.kind or "").lower()
    stated = "; ".join(f"{key}: {value}" for key, value in one.meta.items())
    return TaskItem(
        anchor=one.anchor,
        path=one.path,
        start_line=one.start_line,
        end_line=one.end_line,
        heading=one.heading[-1] if one.heading else one.path,
        # What a checkpoint states is read by people and agents, too.
        body=f"{one.text}\n({stated})" if stated and kind == CHECKPOINT else one.text,
        kind=kind,
        priority=one.priority,
        task=one.task or "",
        lifecycle=one.lifecycle,
        status=(one.status or "").lower(),
        tags=tuple(one.tags),
        importance=one.importance,
        time=one.created or one.day,
        blocked_by=tuple(name for name in _NAMES.split(one.meta.get(BLOCKED_BY, "")) if name),
    )


def _items(sections: Sections) -> list[TaskItem]:
    return [item for item, _ in sections.values()]


def _show(sections: Sections, items: Iterable[TaskItem]) -> list[TaskSection]:
    return [sections[item.anchor][1] for item in items]


# --- tasks --------------------------------------------------------------------------------------


def list_ready(
    workspace: Workspace, config: Config, params: TaskReadyParams, *, now_s: float
) -> TaskReady:
    tasks = [params.task] if params.task else []
    filters = Filters(task=tasks, include_archived=params.include_archived)
    sections = _read_with_blockers(workspace, config, filters, now_s=now_s, has_task=True)
    closed = FINISHED if params.include_archived else CLOSED
    ready, n_blocked = find_ready(_items(sections), params.task, closed=closed)
    return TaskReady(
        workspace=workspace.id,
        items=_show(sections, ready[: params.limit]),
        n_ready=len(ready),
        blocked=n_blocked,
    )


def list_task(
    workspace: Workspace, config: Config, params: TaskListParams, *, now_s: float
) -> TaskSections:
    filters = Filters(task=[params.task], include_archived=params.include_archived)
    sections = read_task_sections(workspace, config, filters, now_s=now_s)
    return TaskSections(workspace=workspace.id, items=_show(sections, _items(sections)))


def build_task_context(
    workspace: Workspace, config: Config, params: TaskContextParams, *, now_s: float
) -> TaskContext:
    sections: Sections = {}
    for own in (Filters(lifecycle=["project"]), Filters(task=[params.task])):
        filters = replace(own, include_archived=params.include_archived)
        sections |= read_task_sections(workspace, config, filters, now_s=now_s)
    value = _value_by_decay(workspace, config, sections, now_s) if params.sort == "decay" else None
    groups = group_for_task(_items(sections), params.task, value)
    block = _render_marked(groups, params, config)
    return TaskContext(
        workspace=workspace.id,
        text=block.text,
        bytes=len(block.text.encode()),
        included=list(block.included),
        left_out=list(block.left_out),
    )


def _render_marked(
    groups: Sequence[TaskGroup],
    params: TaskContextParams | SessionResumeParams,
    config: Config,
    top: str = "",
) -> TaskBlock:
    """Render a block, with a mark if it tries to instruct its reader."""
    plain = block = render_block(groups, max_bytes=params.max_bytes, top=top)
    for mark in list_marks(plain.text, config) if params.mark else ():
        marked = "\n\n".join(filter(None, (mark, top)))
        block = render_block(groups, max_bytes=params.max_bytes, top=marked)
        if bool(block.included) == bool(plain.included):
            break
    return block


def _value_by_decay(
    workspace: Workspace, config: Config, sections: Sections, now_s: float
) -> ItemValue:
    # It imports the editing of notes, which no start needs.
    from memsyncd.engine.accesses import count_accesses

    valuation = make_valuation(config, now_s, count_accesses(workspace))
    return lambda item: valuation.compute(sections[item.anchor][1]).score


def summarize_task(
    workspace: Workspace, config: Config, params: TaskSummarizeParams, *, now_s: float
) -> tuple[TaskSummary, bool]:
    """Return the summary, and whether it is one that the task does not have yet."""
    sections = read_task_sections(workspace, config, Filters(task=[params.task]), now_s=now_s)
    items = _items(sections)
    sources = [one for one in items if one.kind != "summary"]
    text = params.content or summarize(sources, max_bytes=params.max_bytes)
    is_known = any(one.kind == "summary" and one.body == text.strip() for one in items)
    summary = TaskSummary(
        workspace=workspace.id, text=text, sources=[one.anchor for one in sources], added=None
    )
    return summary, bool(text.strip()) and not is_known


def compute_profile(
    workspace: Workspace, config: Config, params: ProfileParams, *, now_s: float
) -> Profile:
    filters = Filters(
        lifecycle=["project"], tag=params.tag, include_archived=params.include_archived
    )
    sections = read_task_sections(workspace, config, filters, now_s=now_s)
    items = order_profile(_items(sections))
    return Profile(
        workspace=workspace.id,
        items=_show(sections, items[: params.limit]),
        tags=_count(tag for one in items for tag in one.tags),
        kinds=_count(one.kind or "none" for one in items),
        sections=len(items),
        notes=len({one.path for one in items}),
    )


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda one: (-one[1], one[0])))


# --- triage -------------------------------------------------------------------------------------


def triage(
    workspace: Workspace, config: Config, params: TriageParams, *, now_s: float
) -> tuple[Triage, dict[str, Any] | None]:
    """Count the sections with the tags; also return the fields of the section that makes a task of
    the one to promote, None if there is nothing to write.

    Raises BadRequest without a task, or for a task without a section to promote; NoteNotFound if
    there is no such section.
    """
    if params.promote is None and (params.task or params.priority) is not None:
        hint = "name its section with --promote (promote)"
        raise BadRequest("task and priority are those of a section to promote", hint=hint)
    sections = read_task_sections(workspace, config, Filters(tag=params.tag), now_s=now_s)
    known = _leave_out_promoted([one for one in _items(sections) if one.anchor])
    opened = [one for one in known if one.is_open]
    ordered = sorted(opened, key=lambda one: (one.priority or "P9", one.time, one.path))
    waiting = [one for one in ordered if not one.task]
    shown = Triage(
        workspace=workspace.id,
        open=len(opened),
        closed=len(known) - len(opened),
        untriaged=len(waiting),
        by_priority=_count(one.priority or "none" for one in opened),
        next=_show(sections, waiting[:1])[0] if waiting else None,
        items=_show(sections, ordered[: params.limit]),
        promoted=None,
    )
    if params.promote is None:
        return shown, None
    if params.task is None:
        raise BadRequest("the task has no name", hint="give it one with --task (task)")
    if params.promote not in sections:
        tags = ", ".join(params.tag)
        raise NoteNotFound(f"no section {params.promote} with the tag {tags}", hint="see: triage")
    return shown, _make_task(workspace, config, sections, params, now_s=now_s)


def _make_task(
    workspace: Workspace, config: Config, sections: Sections, params: TriageParams, *, now_s: float
) -> dict[str, Any] | None:
    assert params.promote is not None
    item, section = sections[params.promote]
    link = _link_to(item)
    of_task = Filters(task=[params.task or ""])
    for one, _ in read_task_sections(workspace, config, of_task, now_s=now_s).values():
        if link in one.body:
            return None  # it was promoted before
    return {
        "content": f"{section.text}\n\n{link}",
        "summary": item.heading[:200],
        "task": params.task,
        "priority": params.priority or item.priority,
        "lifecycle": "task",
        "tags": list(item.tags),
    }


def _leave_out_promoted(items: Sequence[TaskItem]) -> list[TaskItem]:
    """Leave out the sections of which tasks were made, which have their tags and link to them."""
    linked = {line for one in items for line in one.body.splitlines()}
    # The task mostly has the heading of its source. Of several sources with one heading it is not
    # known which one is linked: none is left out.
    sources = [one for one in items if _link_to(one) not in one.body]
    names = Counter(map(_link_to, sources))
    gone = {one.anchor for one in sources if _link_to(one) in linked and names[_link_to(one)] == 1}
    return [one for one in items if one.anchor not in gone]


def _link_to(item: TaskItem) -> str:
    return f"- discovered_from [[{item.path}#{item.heading}]]"


# --- sessions -----------------------------------------------------------------------------------


def build_session_block(
    workspace: Workspace,
    config: Config,
    params: SessionResumeParams,
    signals: Sequence[Signal],
    *,
    now_s: float,
) -> SessionBlock:
    """Build what restores an agent after its context was cleared. Raises BadRequest if neither a
    session nor a task is named.
    """
    if params.session is None and params.task is None:
        raise BadRequest("what to resume is not named", hint="name a session or a task")
    of_session = Filters(session=[params.session] if params.session else [])
    own = {}
    if params.session is not None:
        found = read_task_sections(workspace, config, of_session, now_s=now_s)
        own = {anchor: item for anchor, (item, _) in found.items()}
    latest = max(
        (one for one in own.values() if one.task),
        key=lambda one: (one.time, one.path, one.start_line),
        default=None,
    )
    task = params.task or (latest.task if latest else None)
    selected = [Filters(task=[task])] if task else []
    if own:
        selected.append(of_session)
    sections = _read_with_blockers(workspace, config, *selected, now_s=now_s)
    shown = _render_signals(signals, int(params.max_bytes * SIGNAL_SHARE))
    names = [f"task {task}" if task else "", f"session {params.session}" if params.session else ""]
    top = f"# Resuming {', '.join(filter(None, names))}{shown}"
    groups = group_for_session(_items(sections), task=task, session_anchors=own)
    block = _render_marked(groups, params, config, top)
    is_empty = not (block.included or signals)
    return SessionBlock(
        workspace=workspace.id,
        text="" if is_empty else block.text,
        task=task,
        included=list(block.included),
        left_out=list(block.left_out),
        signals=[one.id for one in signals],
    )


def _render_signals(signals: Sequence[Signal], room: int) -> str:
    """The unread signals as lines below a heading, as many as there is room for."""
    lines = ["\n\n## Signals"]
    left = room - len(lines[0])
    for one in signals:
        text = " ".join(one.content.split())
        line = cut_text(f"- {one.id} {one.type} from {one.sender}: {text}", SIGNAL_BYTES)
        if len(line.encode()) >= left:
            break
        lines.append(line)
        left -= len(line.encode()) + 1
    return "\n".join(lines) if len(lines) > 1 else ""
