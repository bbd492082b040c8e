"""Send and read signals between agents: `memsyncd signal`."""

from __future__ import annotations

import time

from memsyncd.cli.console import NOTHING_FOUND
from memsyncd.cli.format import render_age
from memsyncd.cli.notes import CLIENT
from memsyncd.cli.parser import (
    JSON,
    Argument,
    Command,
    Option,
    make_group,
    make_workspace_option,
)
from memsyncd.cli.terminal import clean_line, clean_values
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console

UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _send(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "signal.send",
        content=args.text,
        type=args.type,
        agents=args.agent or None,
        sessions=args.session or None,
        tasks=args.task or None,
        key=args.key,
        expires_s=args.expires,
        client=args.client or CLIENT,
    )
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
        return 0
    number = answer["signal"]["id"]
    terminal.print(f"signal {number}" if answer["is_new"] else f"signal {number}, sent before")
    return 0


def _show_inbox(args: Args, console: Console) -> int:
    reader = {"agent": args.agent, "session": args.session, "task": args.task}
    answer = console.call_on(
        args.workspace,
        "signal.inbox",
        **reader,
        type=args.type,
        include_read=args.all,
        limit=args.limit,
    )
    _show(answer, args, console)
    unread = [one["id"] for one in answer["signals"] if one["acked_at"] is None]
    if args.ack and unread:
        console.call_on(args.workspace, "signal.ack", **reader, signals=unread)
    return 0 if answer["signals"] else NOTHING_FOUND


def _show_outbox(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "signal.outbox",
        client=args.client or CLIENT,
        everyone=args.all,
        limit=args.limit,
    )
    _show(answer, args, console)
    return 0 if answer["signals"] else NOTHING_FOUND


def _ack(args: Args, console: Console) -> int:
    reader = {"agent": args.agent, "session": args.session, "task": args.task}
    numbers = [_read_number(text) for text in args.signals]
    answer = console.call_on(args.workspace, "signal.ack", **reader, signals=numbers)
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
    else:
        for name in ("acked", "already", "unknown"):
            if answer[name]:
                label = {"acked": "acknowledged", "already": "acknowledged before"}.get(name, name)
                terminal.print(f"{label}: {', '.join(map(str, answer[name]))}")
    return 0 if answer["acked"] or answer["already"] else NOTHING_FOUND


def _show(answer: dict[str, Any], args: Args, console: Console) -> None:
    if args.json:
        console.terminal.print_json(answer)
        return
    for signal in clean_values(answer)["signals"]:
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
    readers = ", ".join(one["reader"] for one in signal["receipts"])
    age = render_age(signal["at"], time.time())
    more = f"{age}; read by {readers}" if readers else age
    terminal.print(f"{paint('bold', clean_line(head))}  {paint('dim', more)}")
    for line in signal["content"].splitlines():
        terminal.print(f"    {line}")


def _read_number(text: str) -> int:
    if not text.isdecimal():
        raise BadRequest(f"no number of a signal: {text}", hint="see: memsyncd signal inbox")
    return int(text)


def _read_lifetime(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in UNITS_S:
        raise ValueError("expected a time such as 90s, 30m, 12h or 7d")
    return float(int(number) * UNITS_S[unit])


_READER: Final = (
    Option("--agent NAME", "the agent that reads"),
    Option("--session ID", "the session that reads"),
    Option("--task ID", "the task that the signals are about"),
)
_LIMIT: Final = Option("-n --limit N", "at most N signals (default 50)")
_TYPE: Final = Option("--type TYPE", "such as completion, blocked, question")
_SENDER: Final = Option("--client NAME", f"the sender's name (default {CLIENT})")
_SHARED: Final = (make_workspace_option("in this workspace"), JSON)

_SIGNAL_COMMANDS = {
    "send": Command(
        _send,
        summary="send a signal to agents, sessions or tasks",
        arguments=(Argument("text", "TEXT", "what to tell them"),),
        options=(
            Option("--agent NAME…", "to this agent"),
            Option("--session ID…", "to this session"),
            Option("--task ID…", "to everybody on this task"),
            _TYPE,
            Option("--key KEY", "send it once, however often this is repeated"),
            Option(
                "--expires TIME",
                "after this time nobody receives it: 30m, 12h, 7d",
                parse=_read_lifetime,
            ),
            _SENDER,
            *_SHARED,
        ),
        examples=("memsyncd signal send --task WU-124 --type completion 'WU-123 is done'",),
    ),
    "inbox": Command(
        _show_inbox,
        summary="list the signals to an agent, a session or a task",
        options=(
            *_READER,
            _TYPE,
            Option("--all", "acknowledged ones too"),
            Option("--ack", "acknowledge what is listed"),
            _LIMIT,
            *_SHARED,
        ),
        examples=("memsyncd signal inbox --agent claude --task WU-124 --ack",),
    ),
    "outbox": Command(
        _show_outbox,
        summary="list the signals that were sent, and who has read them",
        options=(_SENDER, Option("--all", "of all senders"), _LIMIT, *_SHARED),
        examples=("memsyncd signal outbox --all",),
    ),
    "ack": Command(
        _ack,
        summary="acknowledge signals, so that this reader receives them no more",
        arguments=(Argument("signals", "NUMBER…", "the signals' numbers"),),
        options=(*_READER, *_SHARED),
        examples=("memsyncd signal ack 12 13 --agent claude",),
    ),
}

COMMANDS = {
    "signal": make_group(
        "signal",
        _SIGNAL_COMMANDS,
        (
            "memsyncd signal send --agent reviewer 'ready for review'",
            "memsyncd signal inbox --agent reviewer --ack",
        ),
    ),
}
