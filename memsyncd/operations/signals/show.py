"""Print and acknowledge signals between agents: `memsyncd signal`."""

from __future__ import annotations

import time

from memsyncd.errors import BadRequest
from memsyncd.terminal.actions import send
from memsyncd.terminal.console import show_answer
from memsyncd.terminal.format import render_age
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console

UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_lifetime(text: str) -> float:
    """Parse `90s`, `30m`, `12h` or `7d`; return seconds. Raises ValueError."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in UNITS_S:
        raise ValueError("expected a time such as 90s, 30m, 12h or 7d")
    return float(int(number) * UNITS_S[unit])


def show_sent(answer: dict[str, Any], _args: Args, console: Console) -> None:
    number = answer["signal"]["id"]
    console.terminal.print(f"signal {number}" + ("" if answer["is_new"] else ", sent before"))


def show_inbox(args: Args, console: Console) -> int:
    """List signals. With `--ack`, acknowledge them after they were printed."""
    answer = send("signal.inbox", args.params, args, console)
    status = show_answer(answer, args, console, show_signals, found="signals")
    unread = [signal["id"] for signal in answer["signals"] if signal["acked_at"] is None]
    if args.ack and unread:
        reader = {name: args.params.get(name) for name in ("agent", "session", "task")}
        send("signal.ack", {**reader, "signals": unread}, args, console)
    return status


def show_signals(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for signal in clean_values(answer["signals"]):
        _print_signal(signal, console)
    if not answer["signals"]:
        console.terminal.report("no signals")


def _print_signal(signal: dict[str, Any], console: Console) -> None:
    terminal, paint = console.terminal, console.terminal.paint
    is_read = signal["acked_at"] is not None or signal["receipts"]
    mark = "" if is_read else "* "
    head = (
        f"{mark} {signal['id']}  {signal['type']}  {signal['sender']} → {', '.join(signal['to'])}"
    )
    readers = ", ".join(receipt["reader"] for receipt in signal["receipts"])
    age = render_age(signal["at"], time.time())
    more = f"{age}; read by {readers}" if readers else age
    terminal.print(f"{paint('bold', clean_line(head))}  {paint('dim', more)}")
    for line in signal["content"].splitlines():
        terminal.print(f"    {line}")


def take_numbers(args: Args, _console: Console) -> dict[str, Any]:
    """Return the numbers of signals. Raises BadRequest for a word that is not a number."""
    for word in args.signals:
        if not word.isdecimal():
            hint = "see: memsyncd signal inbox"
            raise BadRequest(f"no number of a signal: {word}", hint=hint)
    return {"signals": [int(word) for word in args.signals]}


_ACKED: Final = {"acked": "acknowledged", "already": "acknowledged before", "unknown": "unknown"}


def show_acked(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for name, label in _ACKED.items():
        if answer[name]:
            console.terminal.print(f"{label}: {', '.join(map(str, answer[name]))}")
