"""Render signals as text for a model."""

from __future__ import annotations

from collections.abc import Sequence

from memsyncd.operations.search.text import FindWarning
from memsyncd.operations.sections import mark_warning
from memsyncd.operations.signals import declare as signals

TRAVELS = {
    "waiting": "leaves with the next exchange of memories",
    "committed": "committed, not pushed yet",
    "pushed": "pushed to the other machines",
}


def render_signals(box: signals.SignalBox, find_warning: FindWarning) -> str:
    """Return a line for each signal, below a warning if it tries to instruct its reader."""
    lines: list[str] = []
    for signal in box.signals:
        warning = find_warning(signal.content)
        lines += [mark_warning(warning, "the signal below")] if warning else []
        read = " (read)" if signal.acked_at is not None else ""
        text = " ".join(signal.content.split())
        lines.append(f"{signal.id} {signal.type} from {signal.sender}{read}: {text}")
    return "\n".join(lines) if lines else "No signals."


def render_sent_signals(box: signals.SignalBox, _find_warning: FindWarning) -> str:
    """Return a line for each signal that an agent has sent: to whom, and who has read it."""
    lines = []
    for signal in box.signals:
        readers = ", ".join(receipt.reader for receipt in signal.receipts)
        read = f"read by {readers}" if readers else "read by nobody yet"
        if signal.travel and not readers:
            read = TRAVELS[signal.travel]
        text = " ".join(signal.content.split())
        lines.append(f"{signal.id} {signal.type} to {', '.join(signal.to)}, {read}: {text}")
    return "\n".join(lines) if lines else "No signals were sent."


def render_sent(sent: signals.SignalSent, _find_warning: FindWarning) -> str:
    text = f"Sent as {sent.signal.id} to {', '.join(sent.signal.to)}"
    if sent.signal.travel:
        text += f"; it {TRAVELS['waiting']}"
    return "\n".join([text, *(f"Note: {warning}" for warning in sent.warnings)])


def render_acked(acked: signals.SignalsAcked, _find_warning: FindWarning) -> str:
    unknown = f"; not found: {_list_numbers(acked.unknown)}" if acked.unknown else ""
    taken = zip(acked.claimed, acked.claimed_by, strict=True)
    claimed = "".join(f"; {number} is taken by {reader}" for number, reader in taken)
    done = _list_numbers([*acked.acked, *acked.already]) or "none"
    return f"Acknowledged: {done}{claimed}{unknown}"


def _list_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
