"""Read the signals to an agent, a session or a task. An inbox, a resumed session and a subscription
need them.
"""

from __future__ import annotations

from collections.abc import Sequence

from memsyncd.config import Config
from memsyncd.core.guard.secrets import redact
from memsyncd.core.model import QUARTERS_PER_TOKEN
from memsyncd.core.search.context import shorten
from memsyncd.engine.clock import Clock
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest
from memsyncd.operations.signals.declare import (
    Signal,
    SignalBox,
    SignalInboxParams,
    SignalReader,
    SignalReceipt,
)
from memsyncd.store.records import StoredSignal

# A longer signal is cut.
SIGNAL_BYTES = 300
# Signals take at most this share of a block.
SIGNAL_SHARE = 0.25
READER_HINT = "name an agent, a session or a task, such as --agent builder"


def name_reader(params: SignalReader) -> str:
    """Return the address of the reader: the agent, else the session, else the task. Raises
    BadRequest if none is named.
    """
    if not params.addresses:
        raise BadRequest("the reader of the signals is not named", hint=READER_HINT)
    return params.addresses[0]


def read_inbox(
    workspace: Workspace, config: Config, clock: Clock, params: SignalInboxParams
) -> Job[SignalBox]:
    """List the signals to a reader, the unread ones first. Raises StoreFailed."""
    reader, now_s = name_reader(params), clock.wall_s()
    stored = require_records(workspace, clock).signals
    stored.note_readers(params.addresses)
    signals, n_unread = stored.find(
        params.addresses,
        reader=reader,
        now_s=now_s,
        type_=params.type,
        is_with_read=params.include_read,
        limit=params.limit,
    )
    yield
    return make_box(workspace, config, signals, n_unread=n_unread)


def make_box(
    workspace: Workspace,
    config: Config,
    signals: Sequence[StoredSignal],
    *,
    n_unread: int = 0,
    has_receipts: bool = False,
) -> SignalBox:
    described = [describe_signal(signal, config, has_receipts=has_receipts) for signal in signals]
    return SignalBox(workspace=workspace.id, signals=described, unread=n_unread)


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
        claimed_by=stored.claimed_by,
        travel=stored.travel,
    )


def render_news(signals: Sequence[Signal], max_bytes: int) -> str:
    """Return the unread signals as the part of a block of `max_bytes`: as many as have room; empty
    for none.
    """
    lines = ["## Signals"]
    left = int(max_bytes * SIGNAL_SHARE) - len(lines[0])
    for signal in signals:
        text = " ".join(signal.content.split())
        line = f"- {signal.id} {signal.type} from {signal.sender}: {text}"
        line = shorten(line, QUARTERS_PER_TOKEN * SIGNAL_BYTES, SIGNAL_BYTES)
        if len(line.encode()) >= left:
            break
        lines.append(line)
        left -= len(line.encode()) + 1
    return "\n".join(lines) if len(lines) > 1 else ""
