"""Parameters and results of the methods for tasks and sessions of agents."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Limit,
    Name,
    Result,
    TrackedParams,
    Values,
    Word,
    WorkspaceParams,
    WriteParams,
)
from memsyncd.operations.notes.declare import Added
from memsyncd.operations.operation import (
    READS,
    WRITES,
    Operation,
    ToolAction,
)
from memsyncd.operations.sections import FoundSection
from memsyncd.operations.tasks.agent_tool import AGENT_TOOL
from memsyncd.operations.writes import AddedSection, Written

BlockBytes = Annotated[int, msgspec.Meta(ge=200, le=1_000_000)]
TaskName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class TaskSection(FoundSection, frozen=True, kw_only=True):
    """A section of a task, with its text without heading and comment."""

    text: str


class TaskReadyParams(WorkspaceParams, frozen=True, kw_only=True):
    task: TaskName | None = None
    """Without a task, the sections of all tasks."""
    include_archived: bool = False
    limit: Limit = 50


class TaskReady(Result, frozen=True, kw_only=True):
    workspace: str
    items: list[TaskSection]
    """Open ones, P0 first and then the oldest; records of what has happened (sessions, checkpoints,
    summaries) are no work."""
    n_ready: int
    """Before `limit`."""
    blocked: int
    """Left out: their status is `blocked`, or `blocked_by`, as metadata or a typed link, names a
    task, section or note that is not done."""


class TaskListParams(WorkspaceParams, frozen=True, kw_only=True):
    task: TaskName
    include_archived: bool = False


class TaskSections(Result, frozen=True, kw_only=True):
    workspace: str
    items: list[TaskSection]
    """By path and line."""


class CheckpointParams(WriteParams, frozen=True, kw_only=True):
    """Progress that an agent can go on from; `session.resume` shows the last one."""

    content: str
    task: TaskName | None = None
    session: Word | None = None
    metadata: dict[Word, Word] = msgspec.field(default_factory=dict)
    """Such as `milestone`: keys of the section's own, which `filters.meta` finds."""


class TaskContextParams(TrackedParams, frozen=True, kw_only=True):
    task: TaskName
    max_bytes: BlockBytes = 4096
    sort: Literal["recency", "decay"] = "recency"
    """Within each part. By `recency` the profile has the most important first."""
    mark: bool = True
    """Begin the text with a line that says so if it tries to instruct its reader."""
    include_archived: bool = False
    workspace: Name | None = None


class TaskContext(Result, frozen=True, kw_only=True):
    """Profile, summaries, task and discoveries, in this order; the same notes give one text."""

    workspace: str
    text: str
    """Empty if there is nothing."""
    bytes: int
    included: list[str]
    """Anchors."""
    left_out: list[str]
    """Anchors of what found no room."""


class TaskSummarizeParams(WriteParams, frozen=True, kw_only=True):
    """Summarise a task's open and closed sections, except earlier summaries."""

    task: TaskName
    content: str | None = None
    """The summary, if the caller has made it; else sentences of the sections are chosen."""
    max_bytes: BlockBytes = 1000
    dry_run: bool = True
    """Write nothing; otherwise the summary becomes a section of kind summary."""


class TaskSummary(Result, frozen=True, kw_only=True):
    workspace: str
    text: str
    sources: list[str]
    """Anchors."""
    added: AddedSection | None
    """Null for a dry run, without anything to summarise, and if the task has this summary."""


class SessionStartParams(WriteParams, frozen=True, kw_only=True):
    session: TaskName
    task: TaskName | None = None
    content: str = ""
    """What the session is to do."""
    agent: Word | None = None
    """Whose signals the block shows, besides those to the session and the task."""
    max_bytes: BlockBytes = 4096
    mark: bool = True
    """As in `session.resume`."""


class SessionStarted(Written, frozen=True, kw_only=True):
    added: AddedSection
    """The section that says so."""
    text: str
    """As of `session.resume`."""


class SessionResumeParams(WorkspaceParams, frozen=True, kw_only=True):
    """At least a session or a task. The task of a session is that of its latest section."""

    session: TaskName | None = None
    task: TaskName | None = None
    agent: Word | None = None
    max_bytes: BlockBytes = 4096
    mark: bool = True
    """Begin the text with a line that says so if it tries to instruct its reader."""


class SessionBlock(Result, frozen=True, kw_only=True):
    workspace: str
    text: str
    """Task, unread signals, last checkpoint, summary, open discoveries, and what is ready."""
    task: str | None
    included: list[str]
    left_out: list[str]
    signals: list[int]
    """The unread signals; reading them here does not acknowledge them."""


class TriageParams(WriteParams, frozen=True, kw_only=True):
    tag: Values = msgspec.field(default_factory=lambda: ["bug"])
    promote: Name | None = None
    """The anchor of a section to make a task of: a new section with `task` that links to it."""
    task: TaskName | None = None
    priority: Word | None = None
    limit: Limit = 50


class Triage(Result, frozen=True, kw_only=True):
    workspace: str
    open: int
    closed: int
    untriaged: int
    """Open ones without a task."""
    by_priority: dict[str, int]
    """Of the open ones; those without a priority under `none`."""
    next: TaskSection | None
    """The open one without a task that comes first: P0 first, then the oldest."""
    items: list[TaskSection]
    """The open ones, in that order."""
    promoted: AddedSection | None
    """The new section; null if nothing was promoted now, or before."""


class ProfileParams(WorkspaceParams, frozen=True, kw_only=True):
    tag: Values = msgspec.field(default_factory=list)
    """Only sections with one of these tags."""
    limit: Limit = 20
    include_archived: bool = False


class Profile(Result, frozen=True, kw_only=True):
    """What holds for the whole project: the sections with the lifecycle `project`."""

    workspace: str
    items: list[TaskSection]
    """The most important first."""
    tags: dict[str, int]
    """Of all of them, the commonest first."""
    kinds: dict[str, int]
    sections: int
    """Before `limit`."""
    notes: int


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="task.ready",
        params=TaskReadyParams,
        result=TaskReady,
        summary="List the sections of a task that can be worked on, P0 first, then the oldest.",
        errors=READS,
        route="GET /v1/tasks/ready",
        reads=True,
    ),
    Operation(
        name="task.list",
        params=TaskListParams,
        result=TaskSections,
        summary="List all sections of a task, by path and line.",
        errors=READS,
        route="GET /v1/tasks",
        reads=True,
    ),
    Operation(
        name="task.context",
        params=TaskContextParams,
        result=TaskContext,
        summary="Make a block of profile, summaries, task and discoveries for a prompt.",
        errors=READS,
        route="GET /v1/tasks/context",
        reads=True,
    ),
    Operation(
        name="task.checkpoint",
        params=CheckpointParams,
        result=Added,
        summary="Append the progress of a task or session.",
        errors=WRITES,
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="checkpoint",
            fields={"content": "content", "task": "task", "session": "session"},
        ),
        text="notes.text:render_added",
    ),
    Operation(
        name="task.summarize",
        params=TaskSummarizeParams,
        result=TaskSummary,
        summary="Summarise a task; write the summary unless it is a dry run, which is the default.",
        errors=WRITES,
    ),
    Operation(
        name="session.start",
        params=SessionStartParams,
        result=SessionStarted,
        summary="Record that a session begins, and return what it needs to know.",
        errors=WRITES,
    ),
    Operation(
        name="session.resume",
        params=SessionResumeParams,
        result=SessionBlock,
        summary="Make the block that restores an agent after its context was cleared.",
        errors=READS,
        route="GET /v1/sessions/resume",
        reads=True,
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="resume",
            fields={"task": "task", "session": "session", "agent": "agent"},
        ),
        text="tasks.text:render_session",
    ),
    Operation(
        name="triage",
        params=TriageParams,
        result=Triage,
        summary="Count the sections that are tagged as bugs, name the next, or make a task of one.",
        errors=WRITES,
        reads_if={"promote": None},
    ),
    Operation(
        name="profile",
        params=ProfileParams,
        result=Profile,
        summary="List what holds for the whole project, with its tags and kinds.",
        errors=READS,
        route="GET /v1/profile",
        reads=True,
    ),
)
