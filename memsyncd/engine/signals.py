"""Sends, lists and acknowledges signals between agents. Everything here is a job of the worker."""

from __future__ import annotations

from collections.abc import Sequence

from memsyncd.config import Config
from memsyncd.core.guard.secrets import redact
from memsyncd.engine.clock import Clock
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest
from memsyncd.operations.signals.declare import (
    Signal,
    SignalAckParams,
    SignalBox,
    SignalInboxParams,
    SignalOutboxParams,
    SignalReader,
    SignalReceipt,
    SignalsAcked,
    SignalSendParams,
    SignalSent,
)
from memsyncd.store.signals import NewSignal, StoredSignal

NAME_ONE = "name an agent, a session or a task"


def list_addresses(params: SignalSendParams) -> tuple[str, ...]:
    """Return the addresses of a new signal. Raises BadRequest if there are none, or for `*`."""
    if "*" in (*params.agents, *params.sessions, *params.tasks):
        raise BadRequest("`*` is nobody's name: there is no signal to all", hint=NAME_ONE)
    named = (("agent", params.agents), ("session", params.sessions), ("task", params.tasks))
    addresses = tuple(f"{kind}:{name}" for kind, names in named for name in names if name)
    if not addresses:
        raise BadRequest("the signal has no addressee", hint=NAME_ONE)
    return addresses


def name_reader(params: SignalReader) -> str:
    """Return who acknowledges: the agent, else the session, else the task. Raises BadRequest."""
    if not params.addresses:
        raise BadRequest("the reader of the signals is not named", hint=NAME_ONE)
    return params.addresses[0]


def send_signal(
    workspace: Workspace, config: Config, clock: Clock, params: SignalSendParams, *, sender: str
) -> Job[SignalSent]:
    """Store a signal, unless its sender has sent it before. Raises Busy, StoreFailed."""
    signals = require_records(workspace, clock).signals
    now_s = clock.wall_s()
    lifetime_s = config.signal.max_age_s if params.expires_s is None else params.expires_s
    new = NewSignal(
        sender=sender,
        key=params.key,
        type=params.type,
        content=params.content,
        addresses=list_addresses(params),
        at_s=now_s,
        expires_at_s=now_s + lifetime_s,
    )
    stored, is_new = signals.send(new, max_signals=config.signal.max_signals)
    yield
    signal = describe_signal(stored, config, has_receipts=False)
    return SignalSent(workspace=workspace.id, signal=signal, is_new=is_new)


def read_inbox(
    workspace: Workspace, config: Config, clock: Clock, params: SignalInboxParams
) -> Job[SignalBox]:
    """List the signals to a reader, unread first. Raises StoreFailed."""
    found, n_unread = require_records(workspace, clock).signals.find(
        params.addresses,
        reader=name_reader(params),
        now_s=clock.wall_s(),
        type_=params.type,
        is_with_read=params.include_read,
        limit=params.limit,
    )
    yield
    return _make_box(workspace, config, found, n_unread=n_unread)


def read_outbox(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    params: SignalOutboxParams,
    *,
    sender: str,
) -> Job[SignalBox]:
    """List the signals that a sender has sent, with their receipts. Raises StoreFailed."""
    signals = require_records(workspace, clock).signals
    found = signals.find_sent(None if params.everyone else sender, limit=params.limit)
    yield
    return _make_box(workspace, config, found, has_receipts=True)


def ack_signals(
    workspace: Workspace, _config: Config, clock: Clock, params: SignalAckParams
) -> Job[SignalsAcked]:
    """Acknowledge signals for a reader, all in one commit. Raises StoreFailed."""
    acked, already = require_records(workspace, clock).signals.ack(
        params.signals, params.addresses, reader=name_reader(params), now_s=clock.wall_s()
    )
    yield
    known = {*acked, *already}
    return SignalsAcked(
        workspace=workspace.id,
        acked=acked,
        already=already,
        unknown=[one for one in dict.fromkeys(params.signals) if one not in known],
    )


def describe_signal(stored: StoredSignal, config: Config, *, has_receipts: bool) -> Signal:
    receipts = stored.receipts if has_receipts else ()
    return Signal(
        id=stored.id,
        at=stored.at_s,
        sender=stored.sender,
        type=stored.type,
        content=redact(stored.content) if config.guard.is_masking else stored.content,
        to=list(stored.addresses),
        expires_at=stored.expires_at_s,
        acked_at=stored.acked_at_s,
        receipts=[SignalReceipt(reader=reader, at=at_s) for reader, at_s in receipts],
    )


def _make_box(
    workspace: Workspace,
    config: Config,
    found: Sequence[StoredSignal],
    *,
    n_unread: int = 0,
    has_receipts: bool = False,
) -> SignalBox:
    signals = [describe_signal(one, config, has_receipts=has_receipts) for one in found]
    return SignalBox(workspace=workspace.id, signals=signals, unread=n_unread)
