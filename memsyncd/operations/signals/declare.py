"""Parameters and results of the methods by which agents send each other signals.

A signal is addressed to agents, sessions or tasks. A request names its reader by an agent, a
session or a task; the first of these that it names is the reader. Each reader acknowledges for
itself, so that a signal to a task reaches each agent that works on the task once.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    ClientName,
    Limit,
    Name,
    Params,
    Result,
    Word,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    READS,
    Command,
    CommandGroup,
    Extra,
    Notification,
    Operation,
    Python,
    Shape,
    ToolAction,
)
from memsyncd.operations.tasks.declare import AGENT_TOOL

EVERYONE = "everyone"
"""The address of a signal to all."""
SignalText = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
SignalType = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
SignalId = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Addressees = Annotated[list[Word], msgspec.Meta(max_length=32)]
Lifetime = Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]


class SignalSendParams(WorkspaceParams, frozen=True, kw_only=True):
    """At least one agent, session or task must be named, or all. Each of them gets the signal. On
    another machine that shares the memory, it is named `NAME@MACHINE`.
    """

    content: SignalText
    """The message."""
    type: SignalType = "note"
    """Any word, such as `completion`, `blocked` or `question`."""
    agents: Addressees = msgspec.field(default_factory=list)
    """To this agent."""
    sessions: Addressees = msgspec.field(default_factory=list)
    """To this session."""
    tasks: Addressees = msgspec.field(default_factory=list)
    """To everybody on this task."""
    everyone: bool = False
    """To every other agent, session and task of this machine."""
    key: Word | None = None
    """The sender's own name for the signal. Sending it again with this key changes nothing, so a
    sender may repeat a request whose answer it has not seen."""
    expires_s: Lifetime | None = None
    """Seconds after which nobody receives it any more; by default `signal.max_age_days`."""
    client: ClientName | None = None
    """The sender's name, by which `signal.outbox` lists it."""


class SignalReader(Params, frozen=True, kw_only=True):
    """A reader. It receives the signals to the agent, the session and the task that are named; the
    first of these acknowledges them.
    """

    agent: Word | None = None
    """The agent that reads."""
    session: Word | None = None
    """The session that reads."""
    task: Word | None = None
    """The task that the signals are about."""

    @property
    def addresses(self) -> list[str]:
        """The addresses of the reader, such as `agent:NAME`."""
        named = (("agent", self.agent), ("session", self.session), ("task", self.task))
        return [f"{kind}:{name}" for kind, name in named if name]


class SignalInboxParams(SignalReader, frozen=True, kw_only=True):
    type: SignalType | None = None
    """Only signals of this type, such as `completion`, `blocked` or `question`."""
    include_read: bool = False
    """Acknowledged signals too, after the others."""
    limit: Limit = 50
    workspace: Name | None = None


class SignalAckParams(SignalReader, frozen=True, kw_only=True):
    signals: Annotated[list[SignalId], msgspec.Meta(min_length=1, max_length=1000)]
    """The numbers of the signals."""
    claim: bool = False
    """Take them: one of several readers gets each, and no other reader sees it from then on."""
    workspace: Name | None = None


class SignalOutboxParams(WorkspaceParams, frozen=True, kw_only=True):
    client: ClientName | None = None
    """The sender; by default the caller."""
    everyone: bool = False
    """The signals of all senders."""
    limit: Limit = 50


class SignalReceipt(Result, frozen=True, kw_only=True):
    reader: str
    """`agent:NAME`, `session:ID` or `task:ID`."""
    at: float


class Signal(Result, frozen=True, kw_only=True):
    """One signal. Ids grow in the order of sending."""

    id: int
    at: float
    sender: str
    type: str
    content: str
    to: list[str]
    """The addresses: `agent:NAME`, `session:ID`, `task:ID`, `everyone`."""
    expires_at: float
    acked_at: float | None
    """When the reader acknowledged it; null if it is unread, and in every outbox."""
    receipts: list[SignalReceipt] = msgspec.field(default_factory=list)
    """In an outbox, the readers that have acknowledged it; otherwise empty."""
    claimed_by: str | None = None
    """The reader that took it for itself alone; null if nobody has."""
    travel: Literal["waiting", "committed", "pushed"] | None = None
    """How far a signal to another machine has come; null for any other signal."""


class SignalSent(Result, frozen=True, kw_only=True):
    workspace: str
    signal: Signal
    is_new: bool
    """False if the sender has sent a signal with this `key` before; `signal` is the earlier one."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """Addressees that nobody has ever read signals as, with a similar name that somebody has, and
    the machines that share the memory."""


class SignalBox(Result, frozen=True, kw_only=True):
    workspace: str
    signals: list[Signal]
    """An inbox lists the unread signals first, the oldest of them first; an outbox lists the latest
    first."""
    unread: int
    """How many are unread, also beyond `limit`; 0 in an outbox."""


class SignalsAcked(Result, frozen=True, kw_only=True):
    workspace: str
    acked: list[int]
    """Signals that this reader acknowledged now."""
    already: list[int]
    """Signals that this reader had acknowledged before."""
    claimed: list[int]
    """Taken by another reader; with `claim` acknowledged by another reader, too."""
    claimed_by: list[str] = msgspec.field(default_factory=list)
    """That reader for each of `claimed`, such as `agent:tester`."""
    unknown: list[int]
    """Signals that are expired, erased, or addressed to others."""


class SignalNotice(Result, frozen=True, kw_only=True):
    """Parameters of the notification `signal`."""

    subscription: str
    workspace: str
    signal: Signal


# --- the operations ---------------------------------------------------------------------------

COMMAND_GROUPS = (
    CommandGroup(
        words="signal",
        group="Write",
        summary="send and read signals between agents",
        examples=(
            "memsyncd signal send --agent reviewer 'ready for review'",
            "memsyncd signal inbox --agent reviewer --ack",
        ),
    ),
)
OPERATIONS = (
    Operation(
        name="signal.send",
        params=SignalSendParams,
        result=SignalSent,
        summary="Send a signal to agents, sessions or tasks.",
        shape=Shape.STEPS,
        run="signals.run:send",
        errors=READS,
        route="POST /v1/signals/send",
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="send",
            fields={
                "content": "content",
                "task": "tasks",
                "session": "sessions",
                "agent": "agents",
                "all": "everyone",
                "type": "type",
                "key": "key",
            },
        ),
        text="signals.text:render_sent",
        command=Command(
            words="signal send",
            arguments=("content TEXT",),
            usages={
                "type": "--type TYPE",
                "key": "--key KEY",
                "expires_s": "--expires TIME",
            },
            gone={"--all": "to everybody: --everyone"},
            help={
                "agents": "to this agent; NAME@MACHINE on another machine of the shared memory",
                "sessions": "to this session, or SESSION@MACHINE",
                "tasks": "to everybody on this task, or TASK@MACHINE",
                "everyone": "to everybody on this machine but the sender",
                "type": "such as completion, blocked, question (default note)",
                "key": "send it only once, even if this command is repeated",
                "expires_s": "after this time nobody receives it: 30m, 12h, 7d",
                "client": "the sender's name (default cli)",
            },
            parse={"expires_s": "parse_lifetime"},
            show="show_sent",
            examples=(
                "memsyncd signal send --task WU-124 --type completion 'WU-123 is done'",
                "memsyncd signal send --agent claude-code@desktop 'the tests pass here'",
            ),
        ),
        python=Python(
            name="send_signal",
            positional=("content",),
            rename={"agents": "agent", "sessions": "session", "tasks": "task"},
            doc="Each of them gets it. Raises Busy if too many signals wait to be read.",
        ),
    ),
    Operation(
        name="signal.inbox",
        params=SignalInboxParams,
        result=SignalBox,
        summary="List the signals to an agent, a session or a task, unread first.",
        shape=Shape.STEPS,
        run="signals.run:list_inbox",
        errors=READS,
        route="GET /v1/signals",
        reads=True,
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="inbox",
            fields={"task": "task", "session": "session", "agent": "agent", "type": "type"},
        ),
        text="signals.text:render_signals",
        command=(
            Command(
                words="signal inbox",
                lists="signals",
                summary="list the signals to an agent, a session or a task",
                usages={"type": "--type TYPE"},
                help={"include_read": "acknowledged ones too"},
                extra=(Extra(usage="--ack", help="acknowledge the listed signals"),),
                action="show_inbox",
                examples=("memsyncd signal inbox --agent claude --task WU-124 --ack",),
            ),
            Command(
                words="signal watch",
                summary="print signals as they arrive, the unread ones first",
                usages={"type": "--type TYPE"},
                omit=("include_read", "limit", "all"),
                extra=(Extra(usage="--ack", help="acknowledge the printed signals"),),
                action="watch_signals",
                examples=("memsyncd signal watch --agent claude --ack",),
            ),
        ),
        python=Python(name="inbox", returns="signals"),
    ),
    Operation(
        name="signal.outbox",
        params=SignalOutboxParams,
        result=SignalBox,
        summary="List the signals that were sent, and who has acknowledged them.",
        shape=Shape.STEPS,
        run="signals.run:list_outbox",
        errors=READS,
        route="GET /v1/signals/sent",
        reads=True,
        tool=ToolAction(tool=AGENT_TOOL, name="outbox", fields={"agent": "client"}),
        text="signals.text:render_sent_signals",
        command=Command(
            words="signal outbox",
            lists="signals",
            summary="list the signals that were sent, and who has read them",
            help={"client": "the sender's name (default cli)", "everyone": "of all senders"},
            show="show_signals",
            found="signals",
            examples=("memsyncd signal outbox --everyone",),
        ),
        python=Python(name="outbox", returns="signals", doc="The latest come first."),
    ),
    Operation(
        name="signal.ack",
        params=SignalAckParams,
        result=SignalsAcked,
        summary="Acknowledge signals, so that this reader receives them no more.",
        shape=Shape.STEPS,
        run="signals.run:ack",
        errors=READS,
        route="POST /v1/signals/ack",
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="ack",
            fields={
                "signals": "signals",
                "claim": "claim",
                "task": "task",
                "session": "session",
                "agent": "agent",
            },
        ),
        text="signals.text:render_acked",
        command=Command(
            words="signal ack",
            arguments=("signals NUMBER…",),
            help={"claim": "take them, so that no other reader gets them"},
            prepare="take_numbers",
            show="show_acked",
            found="acked already",
            examples=(
                "memsyncd signal ack 12 13 --agent claude",
                "memsyncd signal ack 14 --claim --agent claude --task WU-124",
            ),
        ),
        python=Python(
            name="ack_signals",
            positional=("*signals",),
            doc="The reader is the agent, else the session, else the task.",
        ),
    ),
)

NOTIFICATIONS = {
    "signal": Notification(
        SignalNotice, "A signal was sent. Subscribers that are among its addressees receive this."
    )
}
