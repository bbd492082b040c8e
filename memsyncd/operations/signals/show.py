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

TRAVELS: Final = {
    "waiting": "leaves with the next exchange (memsyncd share now)",
    "committed": "committed, not pushed yet",
    "pushed": "pushed",
}
UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_lifetime(text: str) -> float:
    """Parse `90s`, `30m`, `12h` or `7d`; return seconds. Raises ValueError."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in UNITS_S:
        raise ValueError("expected a time such as 90s, 30m, 12h or 7d")
    return float(int(number) * UNITS_S[unit])


def show_sent(answer: dict[str, Any], _args: Args, console: Console) -> None:
    signal = answer["signal"]
    told = "" if answer["is_new"] else ", sent before"
    told += f"; {TRAVELS[signal['travel']]}" if signal.get("travel") else ""
    console.terminal.print(f"signal {signal['id']}{told}")
    for warning in clean_values(answer["warnings"]):
        console.terminal.warn(warning)


def show_inbox(args: Args, console: Console) -> int:
    """List signals. With `--ack`, acknowledge them after they were printed."""
    answer = send("signal.inbox", args.params, args, console)
    status = show_answer(answer, args, console, show_signals, found="signals")
    unread = [signal["id"] for signal in answer["signals"] if signal["acked_at"] is None]
    if args.ack and unread:
        reader = {name: args.params.get(name) for name in ("agent", "session", "task")}
        send("signal.ack", {**reader, "signals": unread}, args, console)
    return status


def watch_signals(args: Args, console: Console) -> int:
    """Print signals as they arrive, until Ctrl-C; with `--ack` acknowledge each after it."""
    reader = {name: args.params.get(name) for name in ("agent", "session", "task")}
    if not any(reader.values()):
        hint = "name an agent, a session or a task, such as --agent builder"
        raise BadRequest("the reader of the signals is not named", hint=hint)
    workspace = console.name_workspace(args.workspace) if args.workspace else console.cwd or None
    console.call("subscribe", workspace=workspace, signals=reader)
    console.terminal.note("waiting for signals; Ctrl-C ends")
    for method, notice in console.client.notifications():
        if method != "signal" or args.params.get("type") not in (None, notice["signal"]["type"]):
            continue
        if args.json:
            console.terminal.print_json(notice)
        else:
            _print_signal(clean_values(notice["signal"]), console)
        console.terminal.out.flush()
        if args.ack:
            number = notice["signal"]["id"]
            console.call("signal.ack", workspace=workspace, signals=[number], **reader)
    return 0


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
    age, claimed_by = render_age(signal["at"], time.time()), signal["claimed_by"]
    more = f"{age}; read by {readers}" if readers else age
    more += f"; taken by {claimed_by}" if claimed_by else ""
    more += f"; {TRAVELS[signal['travel']]}" if signal.get("travel") else ""
    terminal.print(f"{paint('bold', clean_line(head))}  {paint('dim', more)}")
    for line in signal["content"].splitlines():
        terminal.print(f"    {line}", hang=0)


def take_numbers(args: Args, _console: Console) -> dict[str, Any]:
    """Return the numbers of signals. Raises BadRequest for a word that is not a number."""
    for word in args.signals:
        if not word.isdecimal():
            hint = "see: memsyncd signal inbox"
            raise BadRequest(f"no number of a signal: {word}", hint=hint)
    return {"signals": [int(word) for word in args.signals]}


_ACKED: Final = {
    "acked": "acknowledged",
    "already": "acknowledged before",
    "unknown": "no such signal for this reader",
}


def show_acked(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for name, label in _ACKED.items():
        if answer[name]:
            console.terminal.print(f"{label}: {', '.join(map(str, answer[name]))}")
    for number, reader in zip(answer["claimed"], answer["claimed_by"], strict=True):
        console.terminal.print(f"taken by {clean_line(reader)}: {number}")
