"""The commands of one capability.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations

from memsyncd.terminal.actions import call_operation, load_action, load_parser
from memsyncd.terminal.parser import (
    IDS,
    JSON,
    ALL,
    JSON_LINES,
    PATHS,
    Argument,
    Command,
    Option,
    make_format,
    make_group,
    parse_fraction,
    parse_pair,
    parse_whole,
)


def make_signal_send() -> Command:
    return Command(
        call_operation("signals", "signal.send", show="show_sent"),
        summary="send a signal to agents, sessions or tasks",
        arguments=(
            Argument("content", "TEXT", "the message", field="content"),
        ),
        options=(
            Option("--type TYPE", "such as completion, blocked, question (default note)", field="type"),
            Option("--agent NAME…", "to this agent; NAME@MACHINE on another machine of the shared memory", name="agents", field="agents"),
            Option("--session ID…", "to this session, or SESSION@MACHINE", name="sessions", field="sessions"),
            Option("--task ID…", "to everybody on this task, or TASK@MACHINE", name="tasks", field="tasks"),
            Option("--everyone", "to everybody on this machine but the sender", field="everyone"),
            Option("--key KEY", "send it only once, even if this command is repeated", field="key"),
            Option("--expires TIME", "after this time nobody receives it: 30m, 12h, 7d", name="expires_s", parse=load_parser("signals", "parse_lifetime"), field="expires_s"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the sender's name (default cli)", field="client"),
            JSON,
        ),
        examples=("memsyncd signal send --task WU-124 --type completion 'WU-123 is done'", "memsyncd signal send --agent claude-code@desktop 'the tests pass here'"),
        gone={"--all": "to everybody: --everyone"},
    )


def make_signal_inbox() -> Command:
    return Command(
        load_action("signals", "show_inbox"),
        summary="list the signals to an agent, a session or a task",
        options=(
            Option("--agent NAME", "the agent that reads", field="agent"),
            Option("--session ID", "the session that reads", field="session"),
            Option("--task ID", "the task that the signals are about", field="task"),
            Option("--type TYPE", "only signals of this type, such as completion, blocked or question", field="type"),
            Option("--include-read", "acknowledged ones too", field="include_read"),
            Option("-n --limit N", "at most so many results (default 50)", field="limit"),
            Option("--ack", "acknowledge the listed signals"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            make_format(("id", "at", "sender", "type", "content", "to", "expires_at", "acked_at", "receipts", "claimed_by", "travel")),
            JSON,
        ),
        examples=("memsyncd signal inbox --agent claude --task WU-124 --ack",),
        in_each=True,
        lists="signals",
    )


def make_signal_watch() -> Command:
    return Command(
        load_action("signals", "watch_signals"),
        summary="print signals as they arrive, the unread ones first",
        options=(
            Option("--agent NAME", "the agent that reads", field="agent"),
            Option("--session ID", "the session that reads", field="session"),
            Option("--task ID", "the task that the signals are about", field="task"),
            Option("--type TYPE", "only signals of this type, such as completion, blocked or question", field="type"),
            Option("--ack", "acknowledge the printed signals"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd signal watch --agent claude --ack",),
    )


def make_signal_outbox() -> Command:
    return Command(
        call_operation("signals", "signal.outbox", show="show_signals", found="signals"),
        summary="list the signals that were sent, and who has read them",
        options=(
            Option("--everyone", "of all senders", field="everyone"),
            Option("-n --limit N", "at most so many results (default 50)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the sender's name (default cli)", field="client"),
            ALL,
            make_format(("id", "at", "sender", "type", "content", "to", "expires_at", "acked_at", "receipts", "claimed_by", "travel")),
            JSON,
        ),
        examples=("memsyncd signal outbox --everyone",),
        in_each=True,
        lists="signals",
    )


def make_signal_ack() -> Command:
    return Command(
        call_operation("signals", "signal.ack", show="show_acked", prepare="take_numbers", found="acked already"),
        summary="acknowledge signals, so that this reader receives them no more",
        arguments=(
            Argument("signals", "NUMBER…", "the numbers of the signals", field="signals"),
        ),
        options=(
            Option("--agent NAME", "the agent that reads", field="agent"),
            Option("--session ID", "the session that reads", field="session"),
            Option("--task ID", "the task that the signals are about", field="task"),
            Option("--claim", "take them, so that no other reader gets them", field="claim"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd signal ack 12 13 --agent claude", "memsyncd signal ack 14 --claim --agent claude --task WU-124"),
    )


def make_signal() -> Command:
    return make_group(
        "signal",
        {
            "send": make_signal_send(),
            "inbox": make_signal_inbox(),
            "watch": make_signal_watch(),
            "outbox": make_signal_outbox(),
            "ack": make_signal_ack(),
        },
        ("memsyncd signal send --agent reviewer 'ready for review'", "memsyncd signal inbox --agent reviewer --ack"),
    )
