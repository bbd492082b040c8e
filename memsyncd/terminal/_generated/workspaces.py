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


def make_add() -> Command:
    return Command(
        call_operation("workspaces", "workspace.add", show="show_added_workspaces", prepare="name_folder", is_wide=True),
        arguments=(
            Argument("path", "PATH", "the folder", field="path"),
        ),
        options=(
            Option("--name NAME", "the workspace's name; by default the folder's name", field="name"),
            Option("--preset P", "memory: MEMORY.md and .memories/; vault: every note; claude-code: the memory of each project; by default the kind of the folder decides", choices=("memory", "vault", "claude-code"), field="preset"),
            Option("--include G…", "also index these, such as 'docs/**/*.md'; the globs named before are dropped", field="include"),
            Option("--exclude G…", "do not index these files; globs named before are dropped, but what a vault itself leaves out stays out, unless --include is given", field="exclude"),
            Option("--read-only G…", "also index these, and never write to them; the globs named before are dropped", field="read_only"),
            Option("--memory-dir D", "the folder to write memories to; . for PATH itself", field="memory_dir"),
            JSON,
        ),
        examples=("memsyncd add .", "memsyncd add ~/code/api --include 'docs/**/*.md' --read-only README.md", "memsyncd add ~/notes --preset vault --exclude drafts", "memsyncd add ~/.claude --preset claude-code"),
    )


def make_remove() -> Command:
    return Command(
        call_operation("workspaces", "workspace.remove", show="show_removed", is_wide=True),
        arguments=(
            Argument("workspace", "WS", "a name, an id or the folder", field="workspace"),
        ),
        options=(
            JSON,
        ),
        examples=("memsyncd remove notes", "memsyncd remove ~/notes"),
    )


def make_discover() -> Command:
    return Command(
        load_action("workspaces", "discover_places"),
        arguments=(
            Argument("names", "[NAME…]", "with --add: only these places"),
        ),
        options=(
            Option("--add", "add the named places, or all, after a question"),
            Option("-y --yes", "add all without asking; needed without a terminal"),
            PATHS,
            make_format(("name", "what", "path", "notes", "is_complete", "workspace", "refusal", "add", "command")),
            JSON,
        ),
        examples=("memsyncd discover", "memsyncd discover --add claude-code vault", "memsyncd discover --add --yes"),
        lists="places",
    )


def make_sync() -> Command:
    return Command(
        load_action("workspaces", "sync_index"),
        options=(
            Option("--full", "read and hash every note again, even if its size and times are unchanged", field="full"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--timeout-ms MS", "give up after this long; by default wait until done", field="timeout_ms"),
            ALL,
            JSON,
        ),
        examples=("memsyncd sync", "memsyncd sync --full -w notes"),
        in_each=True,
    )


def make_reindex() -> Command:
    return Command(
        load_action("workspaces", "reindex"),
        options=(
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--timeout-ms MS", "give up after this long; by default wait until done", field="timeout_ms"),
            ALL,
            JSON,
        ),
        examples=("memsyncd reindex", "memsyncd reindex -w notes"),
        in_each=True,
    )
