"""Parameters, results and operations: the answers that hooks and tools gave to agents."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import Limit, Name, Result, Word, WorkspaceParams
from memsyncd.operations.operation import (
    READS,
    Command,
    CommandGroup,
    Extra,
    Notification,
    Operation,
    Python,
    Shape,
)

AnswerId = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
GIVEN_BEFORE, NO_ROOM, REPEATED = "given before", "no room", "repeated"
"""Reasons for which an answer leaves out a section: the session has it, the budget is full, or the
answer has the same text already."""
UNRANKED, UNANSWERED = "ranked lower", "workspace without an answer"


class LogAgentsParams(WorkspaceParams, frozen=True, kw_only=True):
    session: Word | None = None
    """Only answers to this session; the first characters of its name are enough."""
    agent: Word | None = None
    """Only answers to this agent, or to this client, such as `claude-code`; the first characters of
    its name are enough."""
    since: Name | None = None
    """Only answers since then: `30min`, `12h`, `7d`, `last week`, or a day such as `2026-03-01`."""
    before: AnswerId | None = None
    """Only answers before this one."""
    limit: Limit = 20


class AnswerSection(Result, frozen=True, kw_only=True):
    """Lines of a note in an answer to an agent, as they were at that time."""

    act: Literal["given", "written", "left out"]
    """`given` to the agent, `written` by it, or `left out` of the answer."""
    anchor: str
    """The section, or the path of a note."""
    path: str
    heading: str = ""
    """The headings that lead to the section, with ` › ` between them."""
    start_line: int | None = None
    end_line: int | None = None
    workspace: str | None = None
    """The id of its workspace; null for the workspace of the log."""
    tokens: int | None = None
    """The tokens of its text in the answer, if it was given and they are known."""
    reason: str = ""
    """Why it was left out: `given before`, `no room`, `repeated`."""


class AgentAnswer(Result, frozen=True, kw_only=True):
    """An answer of a hook or a tool to an agent."""

    id: AnswerId
    """Its time in microseconds since 1970."""
    at: float
    client: str
    """The program of the agent, such as `claude-code`."""
    agent: str
    """The name that the agent has given itself, else its client's."""
    session: str
    """The client's name for its session, else the session that the agent has named, else
    `mcp-20261128-172311-4242`: when its connection began, and its process."""
    call: str
    """The hook, such as `session-start`, or the tool with its action, such as `memory_agent
    recall`."""
    tokens: int
    """The tokens of the whole answer."""
    summary: str
    """The answer in a few words, such as `3 notes, 412 tokens`."""
    sections: list[AnswerSection] = msgspec.field(default_factory=list)
    """The first 100 sections that were given, written or left out."""
    unlisted: int = 0
    """How many further sections there were."""
    left_out: dict[str, int] = msgspec.field(default_factory=dict)
    """How many sections were left out, by reason; also sections that are not listed."""
    signals: int = 0
    """How many signals a hook has shown."""
    change_set: int | None = None
    """The change set of what the agent has written, which `undo` takes."""
    failure: str | None = None
    """The code of the error, if there was one."""
    query: str | None = None
    """The prompt or the query; null unless `agents.prompts` of the configuration is true."""

    def sum_up(self) -> str:
        """Return the answer in a few words: `1 signal, 3 notes, 412 tokens`, `wrote 1 section, 20
        tokens`, `nothing`.
        """
        notes = {(each.workspace, each.path) for each in self.sections if each.act == "given"}
        n_written = sum(section.act == "written" for section in self.sections)
        more = "+" if self.unlisted else ""
        parts = [f"failed: {self.failure.replace('_', ' ')}"] if self.failure else []
        parts += [_count(self.signals, "signal")] if self.signals else []
        parts += [_count(len(notes), "note", more)] if notes else []
        if self.change_set is not None or n_written:
            parts.append(f"wrote {_count(n_written, 'section', more)}" if n_written else "wrote")
        if not parts:
            parts.append("no note" if self.tokens else "nothing")
        return ", ".join([*parts, *([_count(self.tokens, "token")] if self.tokens else [])])


def _count(n: int, what: str, more: str = "") -> str:
    return f"{n:,}{more} {what}{'' if n == 1 and not more else 's'}"


class AgentSession(Result, frozen=True, kw_only=True):
    """The answers to one session of an agent that pass the filters."""

    client: str
    agent: str
    session: str
    first_at: float
    last_at: float
    answers: int
    tokens: int
    writes: int
    """How many answers say that something was written."""


class AgentLog(Result, frozen=True, kw_only=True):
    workspace: str
    sessions: list[AgentSession]
    """The last 200 sessions, the latest first."""
    answers: list[AgentAnswer]
    """The latest first."""
    has_more: bool
    """True if there are older answers; `before` asks for them."""


class AnswerNotice(Result, frozen=True, kw_only=True):
    """Parameters of the notification `answered`."""

    subscription: str
    workspace: str
    answer: AgentAnswer


# --- the operations ---------------------------------------------------------------------------

COMMAND_GROUPS = (
    CommandGroup(
        words="log",
        group="Maintain",
        summary="show what memory has given to agents",
        examples=("memsyncd log agents --follow",),
    ),
)
OPERATIONS = (
    Operation(
        name="log.agents",
        params=LogAgentsParams,
        result=AgentLog,
        summary="List the answers that hooks and tools gave to agents.",
        shape=Shape.STEPS,
        run="agents.run:list_answers",
        errors=READS,
        route="GET /v1/agents",
        reads=True,
        worktree="writes",
        command=Command(
            words="log agents",
            summary="list what hooks and tools gave to agents, and what agents wrote",
            usages={"since": "--since TIME", "before": "--before N"},
            help={"limit": "the last N answers (default 20)"},
            extra=(Extra(usage="-f --follow", help="go on with new answers, until Ctrl-C"),),
            action="show_agent_log",
            examples=(
                "memsyncd log agents",
                "memsyncd log agents --agent codex --since 2h",
                "memsyncd log agents --session 3f2a --follow",
            ),
        ),
        python=Python(name="agent_log", doc="The latest answers come first."),
    ),
)
NOTIFICATIONS = {
    "answered": Notification(
        AnswerNotice,
        "A hook or a tool has answered an agent. Subscribers with `agents` receive it.",
    )
}
