"""Parameters and results of the methods by which agents send each other signals.

A signal is addressed to agents, sessions or tasks. Whoever reads is named by the first of agent,
session and task in the request: each reader acknowledges for itself, so that a signal to a task
reaches each agent that works on it once.
"""

from __future__ import annotations

from typing import Annotated

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
from memsyncd.operations.operation import READS, Notification, Operation, ToolAction
from memsyncd.operations.tasks.agent_tool import AGENT_TOOL

SignalText = Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
SignalType = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
SignalId = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Addressees = Annotated[list[Word], msgspec.Meta(max_length=32)]
Lifetime = Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)]


class SignalSendParams(WorkspaceParams, frozen=True, kw_only=True):
    """At least one agent, session or task. Each one named gets the signal."""

    content: SignalText
    type: SignalType = "note"
    """Any word, such as `completion`, `blocked` or `question`."""
    agents: Addressees = msgspec.field(default_factory=list)
    sessions: Addressees = msgspec.field(default_factory=list)
    tasks: Addressees = msgspec.field(default_factory=list)
    key: Word | None = None
    """The sender's own name for the signal: sending it again with this key changes nothing, so that
    a sender may repeat a request whose answer it has not seen."""
    expires_s: Lifetime | None = None
    """Seconds after which nobody receives it any more; by default `signal.max_age_days`."""
    client: ClientName | None = None
    """The sender's name, by which `signal.outbox` lists it."""


class SignalReader(Params, frozen=True, kw_only=True):
    """Whoever reads: signals to any of these, acknowledged by the first that is given."""

    agent: Word | None = None
    session: Word | None = None
    task: Word | None = None

    @property
    def addresses(self) -> list[str]:
        """The addresses whose signals are meant."""
        named = (("agent", self.agent), ("session", self.session), ("task", self.task))
        return [f"{kind}:{name}" for kind, name in named if name]


class SignalInboxParams(SignalReader, frozen=True, kw_only=True):
    type: SignalType | None = None
    include_read: bool = False
    """Acknowledged signals too, after the others."""
    limit: Limit = 50
    workspace: Name | None = None


class SignalAckParams(SignalReader, frozen=True, kw_only=True):
    signals: Annotated[list[SignalId], msgspec.Meta(min_length=1, max_length=1000)]
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
    """One signal. Its ids grow in the order of sending."""

    id: int
    at: float
    sender: str
    type: str
    content: str
    to: list[str]
    """`agent:NAME`, `session:ID` and `task:ID`."""
    expires_at: float
    acked_at: float | None
    """When the reader acknowledged it; null if it is unread, and in an outbox."""
    receipts: list[SignalReceipt] = msgspec.field(default_factory=list)
    """In an outbox: who has acknowledged it."""


class SignalSent(Result, frozen=True, kw_only=True):
    workspace: str
    signal: Signal
    is_new: bool
    """False if the sender has sent a signal with this `key` before, which is the one returned."""


class SignalBox(Result, frozen=True, kw_only=True):
    workspace: str
    signals: list[Signal]
    """An inbox begins with the unread ones, the oldest first; an outbox with the latest."""
    unread: int
    """Before `limit`; 0 in an outbox."""


class SignalsAcked(Result, frozen=True, kw_only=True):
    workspace: str
    acked: list[int]
    """Acknowledged now for the first time."""
    already: list[int]
    unknown: list[int]
    """Expired, erased, or addressed to others."""


class SignalNotice(Result, frozen=True, kw_only=True):
    """Parameters of the notification `signal`."""

    subscription: str
    workspace: str
    signal: Signal


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="signal.send",
        params=SignalSendParams,
        result=SignalSent,
        summary="Send a signal to agents, sessions or tasks.",
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
            },
        ),
        text="signals.text:render_sent",
    ),
    Operation(
        name="signal.inbox",
        params=SignalInboxParams,
        result=SignalBox,
        summary="List the signals to an agent, a session or a task, unread first.",
        errors=READS,
        route="GET /v1/signals",
        reads=True,
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="inbox",
            fields={"task": "task", "session": "session", "agent": "agent"},
        ),
        text="signals.text:render_signals",
    ),
    Operation(
        name="signal.outbox",
        params=SignalOutboxParams,
        result=SignalBox,
        summary="List the signals that were sent, and who has acknowledged them.",
        errors=READS,
        route="GET /v1/signals/sent",
        reads=True,
    ),
    Operation(
        name="signal.ack",
        params=SignalAckParams,
        result=SignalsAcked,
        summary="Acknowledge signals, so that this reader receives them no more.",
        errors=READS,
        route="POST /v1/signals/ack",
        tool=ToolAction(
            tool=AGENT_TOOL,
            name="ack",
            fields={"signals": "signals", "task": "task", "session": "session", "agent": "agent"},
        ),
        text="signals.text:render_acked",
    ),
)

NOTIFICATIONS = {
    "signal": Notification(
        SignalNotice, "A signal was sent; sent to subscribers that are its addressees."
    )
}
