"""Parameters and results of the methods for tasks and sessions of agents."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    AddedSection,
    Limit,
    Name,
    Result,
    TaskName,
    TrackedParams,
    Values,
    Word,
    WorkspaceParams,
    WriteParams,
    Written,
)
from memsyncd.operations.notes.declare import Added
from memsyncd.operations.operation import (
    READS,
    TOOL_WORKSPACE,
    WRITES,
    Command,
    CommandGroup,
    Operation,
    Paths,
    Python,
    Shape,
    Tool,
    ToolAction,
    ToolArgument,
)
from memsyncd.operations.sections import FoundSection

BlockBytes = Annotated[int, msgspec.Meta(ge=200, le=1_000_000)]


class TaskSection(FoundSection, frozen=True, kw_only=True):
    """A section of a task, with its text without heading and comment."""

    text: str


class TaskReadyParams(WorkspaceParams, frozen=True, kw_only=True):
    task: TaskName | None = None
    """The task, such as `WU-123`; by default all tasks."""
    include_archived: bool = False
    """Archived sections too."""
    limit: Limit = 50


class TaskReady(Result, frozen=True, kw_only=True):
    workspace: str
    items: list[TaskSection]
    """The open sections that are not blocked, P0 first, then the oldest. Sessions, checkpoints and
    summaries are left out: they record work that was done."""
    n_ready: int
    """How many sections can be worked on, also beyond `limit`. If more than 2,000 sections are
    open, only the status tells which are blocked."""
    blocked: int
    """How many sections were left out because they are blocked: their status is `blocked`, or
    their `blocked_by`, in metadata or a typed link, names a task, section or note that is not
    done."""


class TaskListParams(WorkspaceParams, frozen=True, kw_only=True):
    task: TaskName | None = None
    """The task, such as `WU-123`; without it, all tasks are listed."""
    limit: Limit = 100
    """At most so many tasks, if no task is named."""
    include_archived: bool = False
    """Archived sections too."""


class WorkGroup(Result, frozen=True, kw_only=True):
    """A task or a session with its sections."""

    name: str
    sections: int
    open: int
    """How many sections can be worked on or are blocked."""
    first: str
    """When the first section was created, in ISO form."""
    last: str
    """When the last section was created or updated, in ISO form."""
    tasks: list[str]
    """The tasks of a session; empty for a task."""
    is_ended: bool
    """True for a session that `session.end` has ended."""


class TaskSections(Result, frozen=True, kw_only=True):
    workspace: str
    items: list[TaskSection]
    """All sections of the task, by path and line; empty if no task is named."""
    tasks: list[WorkGroup]
    """Without a named task: the tasks, the latest first; empty otherwise."""
    n_tasks: int
    """How many tasks there are, also beyond `limit`; 0 if a task is named."""


class CheckpointParams(WriteParams, frozen=True, kw_only=True):
    """Progress that an agent can go on from; `session.resume` shows the last one."""

    content: str
    """The progress: what is done, and what is next."""
    task: TaskName | None = None
    session: Word | None = None
    metadata: dict[Word, Word] = msgspec.field(default_factory=dict)
    """Keys of the section's own, such as `milestone=ports`. `filters.meta` finds sections by
    them."""


class TaskContextParams(TrackedParams, frozen=True, kw_only=True):
    task: TaskName
    max_bytes: BlockBytes = 4096
    sort: Literal["recency", "worth", "decay"] = "recency"
    """Order each part by recency or by worth, whose former name is `decay`. With `recency`, the
    profile still begins with its most important section."""
    mark: bool = True
    """Begin the text with a warning if it tries to instruct its reader."""
    include_archived: bool = False
    """Archived sections too."""
    workspace: Name | None = None


class MemoryBlock(Result, frozen=True, kw_only=True):
    """A block as `context` makes it, of the memories of a task or session alone. The same notes
    always give the same text.
    """

    workspace: str
    text: str
    """Empty if there is no memory of it, and no signal."""
    included: list[str]
    """The anchors of the sections in the text."""
    left_out: list[str]
    """The anchors of the first 20 sections for which there was no room, or whose text or promotion
    the block has already."""
    n_left_out: int
    """How many sections are left out in all."""


class TaskContext(MemoryBlock, frozen=True, kw_only=True):
    """Profile, summaries, task and discoveries, in this order."""

    bytes: int


class TaskSummarizeParams(WriteParams, frozen=True, kw_only=True):
    """Summarise a task's open and closed sections, except earlier summaries."""

    task: TaskName
    content: str | None = None
    """The summary that the caller has made; without it, sentences of the sections are chosen."""
    max_bytes: BlockBytes = 1000
    apply: bool = False
    """Write the summary as a section of kind `summary`; otherwise only return it."""


class TaskSummary(Result, frozen=True, kw_only=True):
    workspace: str
    text: str
    sources: list[str]
    """The anchors of the sections that the summary is made of."""
    added: AddedSection | None
    """The new section. Null without `apply`, if there is nothing to summarise, and if the task has
    this summary already."""


class SessionStartParams(WriteParams, frozen=True, kw_only=True):
    session: TaskName
    task: TaskName | None = None
    content: str = ""
    """The work that the session is to do."""
    agent: Word | None = None
    """Show the signals to this agent, besides the signals to the session and the task."""
    max_bytes: BlockBytes = 4096
    mark: bool = True
    """Begin the text with a warning if it tries to instruct its reader."""


class SessionStarted(Written, frozen=True, kw_only=True):
    added: AddedSection
    """The section that records the beginning."""
    text: str
    """The block that `session.resume` returns."""


class SessionListParams(WorkspaceParams, frozen=True, kw_only=True):
    include_ended: bool = False
    """Sessions that have ended, too."""
    limit: Limit = 50


class SessionList(Result, frozen=True, kw_only=True):
    workspace: str
    sessions: list[WorkGroup]
    """The latest first."""
    n_sessions: int
    """How many sessions there are, also beyond `limit`."""


class SessionEndParams(WriteParams, frozen=True, kw_only=True):
    session: TaskName
    task: TaskName | None = None
    content: str = ""
    """What was reached, and what is next; by default only the end is recorded."""


class SessionResumeParams(WorkspaceParams, frozen=True, kw_only=True):
    """At least a session or a task must be named. Without a task, the latest section of the session
    that states a task names it.
    """

    session: TaskName | None = None
    task: TaskName | None = None
    agent: Word | None = None
    """Show the signals to this agent, besides the signals to the session and the task."""
    max_bytes: BlockBytes = 4096
    mark: bool = True
    """Begin the text with a warning if it tries to instruct its reader."""


class SessionBlock(MemoryBlock, frozen=True, kw_only=True):
    """Unread signals, goal, last checkpoint, summary, open discoveries, and sections to work on."""

    task: str | None
    signals: list[int]
    """The numbers of the unread signals. They stay unread until they are acknowledged."""


class TriageParams(WriteParams, frozen=True, kw_only=True):
    tag: Values = msgspec.field(default_factory=lambda: ["bug"])
    """Sections with this tag, by default `bug`."""
    promote: Name | None = None
    """The anchor of a section to make a task of: a new section with `task` links to it."""
    task: TaskName | None = None
    """The name of the task to make."""
    priority: Word | None = None
    """The priority of the task to make, `P0` to `P3`."""
    limit: Limit = 50


class Triage(Result, frozen=True, kw_only=True):
    workspace: str
    open: int
    closed: int
    untriaged: int
    """How many open sections have no task."""
    by_priority: dict[str, int]
    """The open sections by priority; sections without one count under `none`."""
    next: TaskSection | None
    """The first open section without a task: P0 first, then the oldest."""
    items: list[TaskSection]
    """The open sections, in the same order."""
    promoted: AddedSection | None
    """The new section; null if nothing was to be promoted, or the task has it already."""


class ProfileParams(WorkspaceParams, frozen=True, kw_only=True):
    tag: Values = msgspec.field(default_factory=list)
    """Only sections with one of these tags."""
    limit: Limit = 20
    include_archived: bool = False
    """Archived sections too."""


class Profile(Result, frozen=True, kw_only=True):
    """The sections that hold for the whole project: their lifecycle is `project`."""

    workspace: str
    items: list[TaskSection]
    """The most important first."""
    tags: dict[str, int]
    """The commonest 100 tags of all sections with their counts, the commonest first."""
    kinds: dict[str, int]
    sections: int
    """How many sections there are, also beyond `limit`."""
    notes: int


# --- the operations ---------------------------------------------------------------------------

AGENT_TOOL = Tool(
    name="memory_agent",
    title="Sessions and signals",
    description=(
        "Go on where a session ended, and write to other agents. start, checkpoint, end: record "
        "progress; resume: after a clear; context: all of a task; recall: by "
        "keywords, topic, kind; send, inbox, outbox, ack: signals. Later calls may leave out task "
        "and session."
    ),
    arguments=(
        ToolArgument("action", "The action.", is_required=True),
        ToolArgument("content", "What is done and next; or the message."),
        ToolArgument("task", "For send: to its agents."),
        ToolArgument("session", "For send: to it."),
        ToolArgument("agent", "Yours; for send: to it, or NAME@MACHINE."),
        ToolArgument("all", "For send: to all here.", "everyone"),
        ToolArgument("type", "Of a signal."),
        ToolArgument("key", "For send: sent once with it."),
        ToolArgument("signals", "For ack: their numbers."),
        ToolArgument("claim", "For ack: nobody else gets them."),
        ToolArgument("keywords", "For recall.", splits_words=True),
        ToolArgument("topic", "For recall."),
        ToolArgument("kind", "For recall."),
        TOOL_WORKSPACE,
    ),
    is_always_loaded=False,
)
"""The tool of MCP whose actions are operations on tasks, sessions and signals."""
COMMAND_GROUPS = (
    CommandGroup(
        words="task",
        group="Write",
        summary="list, checkpoint and summarise tasks, and print their context",
        examples=("memsyncd task ready WU-123", "memsyncd task context WU-123"),
    ),
    CommandGroup(
        words="session",
        group="Write",
        summary="begin and resume sessions of agents",
        examples=("memsyncd session resume s-7",),
    ),
)
OPERATIONS = (
    Operation(
        name="task.ready",
        params=TaskReadyParams,
        result=TaskReady,
        summary="List the sections of a task that can be worked on, P0 first, then the oldest.",
        shape=Shape.READ,
        run="tasks.run:list_ready",
        errors=READS,
        route="GET /v1/tasks/ready",
        reads=True,
        command=Command(
            words="task ready",
            lists="items",
            has_ids=True,
            summary="list what can be worked on: P0 first, then the oldest",
            arguments=("task [TASK]",),
            show="show_ready",
            found="items",
            examples=("memsyncd task ready WU-123",),
        ),
        python=Python(name="ready", positional=("task",), doc="Blocked sections are left out."),
    ),
    Operation(
        name="task.list",
        params=TaskListParams,
        result=TaskSections,
        summary="List all sections of a task, by path and line; without a task, all tasks.",
        shape=Shape.READ,
        run="tasks.run:list_task",
        errors=READS,
        route="GET /v1/tasks",
        reads=True,
        command=Command(
            words="task list",
            lists="items tasks",
            has_ids=True,
            summary="list tasks, or all sections of one",
            arguments=("task [TASK]",),
            show="show_list",
            found="items tasks",
            examples=("memsyncd task list", "memsyncd task list WU-123"),
        ),
        python=Python(name="task_sections", positional=("task",), returns="items"),
    ),
    Operation(
        name="task.context",
        params=TaskContextParams,
        result=TaskContext,
        summary="Make a block of profile, summaries, task and discoveries for a prompt.",
        shape=Shape.STEPS,
        run="tasks.run:make_context",
        current=("task",),
        errors=READS,
        route="GET /v1/tasks/context",
        reads=True,
        tool=ToolAction(tool=AGENT_TOOL, name="context", fields={"task": "task"}),
        text="tasks.text:render_memories",
        content="answers:list_block",
        command=Command(
            words="task context",
            summary="print profile, summaries, task and discoveries for a prompt",
            arguments=("task [TASK]",),
            show="show_text",
            found="text",
            examples=("memsyncd task context WU-123 --max-bytes 4096",),
        ),
        python=Python(
            name="task_context",
            positional=("task",),
            doc="The `text` of the result is empty if there is nothing to show.",
        ),
    ),
    Operation(
        name="task.checkpoint",
        params=CheckpointParams,
        result=Added,
        summary="Append the progress of a task or session.",
        shape=Shape.STEPS,
        run="tasks.run:add_checkpoint",
        current=("task", "session"),
        errors=WRITES,
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="checkpoint",
            fields={"content": "content", "task": "task", "session": "session"},
        ),
        text="notes.text:render_added",
        command=Command(
            words="task checkpoint",
            summary="append the progress of a task or session",
            arguments=("content TEXT",),
            show="show_checkpoint",
            examples=("memsyncd task checkpoint 'Criteria 1-3 are met.' --task WU-123",),
        ),
        python=Python(
            name="checkpoint",
            positional=("content",),
            doc="Without a session, the caller's own session is meant.",
        ),
    ),
    Operation(
        name="task.summarize",
        params=TaskSummarizeParams,
        result=TaskSummary,
        summary="Summarise a task; with `apply`, write the summary as a section.",
        shape=Shape.STEPS,
        run="tasks.run:summarize_task",
        current=("task",),
        errors=WRITES,
        # The client's method is written by hand, because it may call a model for the summary.
        command=Command(
            words="task summarize",
            summary="print a summary of a task; --apply keeps it",
            arguments=("task [TASK]",),
            gone={"--write": "write --apply, as for every plan"},
            help={"apply": "append the summary as a section"},
            show="show_summary",
            found="text",
            examples=("memsyncd task summarize WU-123 --apply",),
        ),
    ),
    Operation(
        name="session.start",
        params=SessionStartParams,
        result=SessionStarted,
        summary="Record that a session begins, and return what it needs to know.",
        shape=Shape.STEPS,
        run="tasks.run:start_session",
        current=("session", "task"),
        errors=WRITES,
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="start",
            fields={"session": "session", "task": "task", "content": "content", "agent": "agent"},
        ),
        text="tasks.text:render_started",
        content="answers:list_started",
        command=Command(
            words="session start",
            summary="record that a session begins",
            arguments=("session [SESSION]", "content [TEXT]"),
            help={"session": "the session's id"},
            show="show_start",
            examples=("memsyncd session start s-7 'Finish the ports.' --task WU-123",),
        ),
        python=Python(
            name="start_session",
            positional=("session",),
            doc="The `text` of the result is the block that `resume_session` returns.",
        ),
    ),
    Operation(
        name="session.list",
        params=SessionListParams,
        result=SessionList,
        summary="List the sessions of agents, the latest first.",
        shape=Shape.READ,
        run="tasks.run:list_sessions",
        errors=READS,
        route="GET /v1/sessions",
        reads=True,
        command=Command(
            words="session list",
            lists="sessions",
            summary="list the sessions that have not ended",
            help={"include_ended": "ended sessions, too"},
            show="show_sessions",
            found="sessions",
            examples=("memsyncd session list --include-ended",),
        ),
        python=Python(name="sessions", returns="sessions"),
    ),
    Operation(
        name="session.end",
        params=SessionEndParams,
        result=Added,
        summary="Record that a session ends, with what was reached.",
        shape=Shape.STEPS,
        run="tasks.run:end_session",
        current=("session", "task"),
        errors=WRITES,
        route="POST /v1/sessions/end",
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="end",
            fields={"session": "session", "task": "task", "content": "content"},
        ),
        text="notes.text:render_added",
        command=Command(
            words="session end",
            summary="record that a session ends",
            arguments=("session [SESSION]", "content [TEXT]"),
            help={"session": "the session's id; by default MEMSYNCD_SESSION"},
            show="show_checkpoint",
            examples=("memsyncd session end s-7 'The ports are done.'",),
        ),
        python=Python(name="end_session", positional=("session",)),
    ),
    Operation(
        name="session.resume",
        params=SessionResumeParams,
        result=SessionBlock,
        summary="Make the block that restores an agent after its context was cleared.",
        shape=Shape.STEPS,
        run="tasks.run:resume_session",
        current=("session", "task"),
        errors=READS,
        route="GET /v1/sessions/resume",
        reads=True,
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="resume",
            fields={"task": "task", "session": "session", "agent": "agent"},
        ),
        text="tasks.text:render_memories",
        content="answers:list_block",
        command=Command(
            words="session resume",
            summary="print what restores an agent after its context was cleared",
            arguments=("session [SESSION]",),
            help={"session": "the session's id"},
            show="show_text",
            found="text",
            examples=("memsyncd session resume s-7 --agent claude",),
        ),
        python=Python(
            name="resume_session",
            positional=("session",),
            sends={"session": "session or (None if task else self._session)"},
            doc="Without a session and a task, the caller's own session is meant.",
        ),
    ),
    Operation(
        name="triage",
        params=TriageParams,
        result=Triage,
        summary="Count the sections tagged as bugs and name the next one, or make a task of one.",
        shape=Shape.STEPS,
        run="tasks.run:triage",
        errors=WRITES,
        reads_if={"promote": None},
        paths=Paths(resolved=("promote",)),
        command=Command(
            words="triage",
            lists="items",
            has_ids=True,
            group="Write",
            summary="count sections tagged as bugs, and make tasks of them",
            usages={"promote": "--promote ANCHOR"},
            help={"promote": "make a task of this section: a new section that links to it"},
            show="show_triage",
            found="open closed",
            examples=(
                "memsyncd triage",
                "memsyncd triage --promote '.memories/errors.md#timeouts' --task WU-130",
            ),
        ),
        python=Python(name="triage", positional=("tag",)),
    ),
    Operation(
        name="profile",
        params=ProfileParams,
        result=Profile,
        summary="List what holds for the whole project, with its tags and kinds.",
        shape=Shape.READ,
        run="tasks.run:compute_profile",
        errors=READS,
        route="GET /v1/profile",
        reads=True,
        command=Command(
            words="profile",
            lists="items",
            group="Find",
            summary="list what holds for the whole project",
            show="show_profile",
            found="items",
            examples=("memsyncd profile", "memsyncd profile --tag decision --limit 5"),
        ),
        python=Python(name="profile", doc="The most important come first."),
    ),
)
