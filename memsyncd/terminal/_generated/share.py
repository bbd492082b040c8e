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


def make_share_init() -> Command:
    return Command(
        load_action("share", "set_up_sharing"),
        summary="make the memory folder a repository, show what would be pushed, and ask",
        arguments=(
            Argument("remote", "[REMOTE]", "the address of the other repository, as git takes it", field="remote"),
        ),
        options=(
            Option("--user", "the user-wide memory", field="user"),
            Option("-y --yes", "do it without a question"),
            Option("--plan", "only show what would be pushed"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd share init git@example.org:me/memory.git", "memsyncd share init --user ~/backup/memory.git --yes"),
        gone={"--dry-run": "leave it out: without --apply, only the plan is shown"},
    )


def make_share_on() -> Command:
    return Command(
        load_action("share", "begin_sharing"),
        summary="commit, fetch and push by itself",
        options=(
            Option("--user", "the user-wide memory", field="user"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd share on",),
    )


def make_share_off() -> Command:
    return Command(
        load_action("share", "end_sharing"),
        summary="stop; the repository stays as it is",
        options=(
            Option("--user", "the user-wide memory", field="user"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd share off",),
    )


def make_share_status() -> Command:
    return Command(
        load_action("share", "show_shared"),
        summary="show what is shared, what stays back, and when the remote answered last",
        options=(
            Option("--user", "the user-wide memory", field="user"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            JSON,
        ),
        examples=("memsyncd share status",),
        in_each=True,
    )


def make_share_now() -> Command:
    return Command(
        load_action("share", "share_now"),
        summary="commit, fetch, merge and push now",
        options=(
            Option("--user", "the user-wide memory", field="user"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd share now",),
    )


def make_share_pull() -> Command:
    return Command(
        load_action("share", "share_pull"),
        summary="commit, fetch and merge now, and push nothing",
        options=(
            Option("--user", "the user-wide memory", field="user"),
            Option("--once", "leave no daemon behind"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd share pull --once",),
    )


def make_share_log() -> Command:
    return Command(
        load_action("share", "show_log"),
        summary="list what came from which machine and writer",
        options=(
            Option("--user", "the user-wide memory", field="user"),
            Option("-n --limit N", "at most so many results (default 20)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            JSON,
        ),
        examples=("memsyncd share log -n 5",),
        in_each=True,
    )


def make_share() -> Command:
    return make_group(
        "share",
        {
            "init": make_share_init(),
            "on": make_share_on(),
            "off": make_share_off(),
            "status": make_share_status(),
            "now": make_share_now(),
            "pull": make_share_pull(),
            "log": make_share_log(),
        },
        ("memsyncd share init git@example.org:me/memory.git", "memsyncd share status", "memsyncd share pull --once"),
    )
