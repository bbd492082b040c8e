"""Send and read signals between agents: `memsyncd signal`."""

from __future__ import annotations

import time

from memsyncd.cli.console import CLIENT, call_method, make_action, show_answer
from memsyncd.cli.format import render_age
from memsyncd.cli.parser import JSON, Argument, Command, Option, make_group, make_workspace_option
from memsyncd.cli.terminal import clean_line, clean_values
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console

UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _show_sent(answer: dict[str, Any], _args: Args, console: Console) -> None:
    number = answer["signal"]["id"]
    console.terminal.print(f"signal {number}" + ("" if answer["is_new"] else ", sent before"))


def _show_inbox(args: Args, console: Console) -> int:
    answer = call_method(args, console, "signal.inbox", all=None, ack=None, include_read=args.all)
    status = show_answer(answer, args, console, _show, found="signals")
    unread = [one["id"] for one in answer["signals"] if one["acked_at"] is None]
    if args.ack and unread:
        reader = {"agent": args.agent, "session": args.session, "task": args.task}
        console.call_on(args.workspace, "signal.ack", **reader, signals=unread)
    return status


def _show_acked(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for name, label in _ACKED.items():
        if answer[name]:
            console.terminal.print(f"{label}: {', '.join(map(str, answer[name]))}")


_ACKED = {"acked": "acknowledged", "already": "acknowledged before", "unknown": "unknown"}


def _show(answer: dict[str, Any], _args: Args, console: Console) -> None:
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
        make_action("signal.send", _show_sent),
        summary="send a signal to agents, sessions or tasks",
        arguments=(Argument("content", "TEXT", "what to tell them"),),
        options=(
            Option("--agent NAME…", "to this agent", name="agents"),
            Option("--session ID…", "to this session", name="sessions"),
            Option("--task ID…", "to everybody on this task", name="tasks"),
            _TYPE,
            Option("--key KEY", "send it once, however often this is repeated"),
            Option(
                "--expires TIME",
                "after this time nobody receives it: 30m, 12h, 7d",
                parse=_read_lifetime,
                name="expires_s",
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
        make_action(
            "signal.outbox",
            _show,
            found="signals",
            make_params=lambda args, _console: {"all": None, "everyone": args.all},
        ),
        summary="list the signals that were sent, and who has read them",
        options=(_SENDER, Option("--all", "of all senders"), _LIMIT, *_SHARED),
        examples=("memsyncd signal outbox --all",),
    ),
    "ack": Command(
        make_action(
            "signal.ack",
            _show_acked,
            found="acked already",
            make_params=lambda args, _console: {"signals": [*map(_read_number, args.signals)]},
        ),
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
