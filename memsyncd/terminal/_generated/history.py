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
)


def make_history_purge() -> Command:
    return Command(
        call_operation("history", "history.purge", show="show_purged", prepare="find_purged", found="revisions"),
        summary="delete revisions for good; notes stay unchanged",
        arguments=(
            Argument("target", "[ANCHOR|PATH]", "all revisions of a section, a note or a folder"),
        ),
        options=(
            Option("--revision N", "delete revision N", field="revision"),
            Option("--containing TEXT", "delete revisions whose text contained this; - reads it from stdin", field="containing"),
            Option("--everything", "delete every revision of the workspace", name="all", field="all"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd history purge --containing - < pasted-token.txt", "memsyncd history purge .memories/draft.md"),
        gone={"--all": "every revision of the workspace: --everything"},
    )


def make_history() -> Command:
    return Command(
        call_operation("history", "history", show="show_revisions", prepare="find_target", found="revisions"),
        arguments=(
            Argument("target", "[ANCHOR|PATH]", "a section, a note or a folder; by default the whole workspace"),
        ),
        options=(
            Option("--writer TEXT", "only changes by this writer; '' for other programs", field="writer"),
            Option("--since TIME", "only changes since then: 30min, 12h, 7d, last week, or a day such as 2026-03-01", field="since"),
            Option("--until TIME", "only changes until then; a day, a week, a month or a year counts as a whole", field="until"),
            Option("-n --limit N", "at most N revisions (default 20)", field="limit"),
            Option("--before N", "only revisions older than N", field="before"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            PATHS,
            make_format(("revision", "change_set", "at", "client", "command", "path", "old_path", "old_digest", "new_digest", "old_bytes", "new_bytes", "is_kept", "undo")),
            JSON,
        ),
        examples=("memsyncd history", "memsyncd history .memories/redis.md -n 5", "memsyncd history --since monday --until yesterday", "memsyncd history 'MEMORY.md#redis/timeouts'"),
        in_each=True,
        lists="revisions",
        commands={"purge": make_history_purge()},
    )


def make_diff() -> Command:
    return Command(
        call_operation("history", "diff", show="show_diff", prepare="find_change", found="diff"),
        arguments=(
            Argument("target", "[ANCHOR|PATH|N]", "a section, a note, or the number of a revision"),
        ),
        options=(
            Option("--revision N", "revision N; the number alone means the same", field="revision"),
            Option("--to-now", "up to the present text instead of the revision's", field="to_now"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd diff .memories/redis.md", "memsyncd diff 42", "memsyncd diff 42 --to-now"),
    )


def make_undo() -> Command:
    return Command(
        load_action("history", "undo"),
        arguments=(
            Argument("target", "[ANCHOR|PATH|N]", "a section, a note, or the number of a revision"),
        ),
        options=(
            Option("--revision N", "revision N; the number alone means the same", field="revision"),
            Option("--change-set N", "all changes of change set N, such as renaming a folder", field="change_set"),
            Option("-y --yes", "undo without a question, even if that deletes a note that memsyncd did not make, or undoes changes of other programs to several notes", name="confirm", field="confirm"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd undo .memories/redis.md", "memsyncd undo 42", "memsyncd undo 'MEMORY.md#redis/timeouts'"),
    )
