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


def make_history_purge() -> Command:
    return Command(
        call_operation("history", "history.purge", show="show_purged", prepare="find_purged", found="revisions"),
        summary="erase earlier texts for good; notes stay unchanged",
        arguments=(
            Argument("target", "[ANCHOR|PATH|N]", "all revisions of a section, a note or a folder; or those of change N"),
        ),
        options=(
            Option("--change-set N", "delete the revisions of change N; the number alone means the same", field="change_set"),
            Option("--containing TEXT", "delete revisions whose text contained this; - reads it from stdin", field="containing"),
            Option("--everything", "delete every revision of the workspace", name="all", field="all"),
            Option("-y --yes", "erase the whole history without a question"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd history purge --containing - < pasted-token.txt", "memsyncd history purge .memories/draft.md", "memsyncd history purge --everything --yes"),
        gone={"--all": "every revision of the workspace: --everything", "--revision": "the number of a change, from memsyncd history: --change-set N"},
    )


def make_history() -> Command:
    return Command(
        call_operation("history", "history", show="show_revisions", prepare="find_target", found="revisions"),
        arguments=(
            Argument("target", "[ANCHOR|PATH|N]", "a section, a note or a folder, or the number of a change; by default the whole workspace"),
        ),
        options=(
            Option("--writer TEXT", "only changes by this writer; '' for other programs", field="writer"),
            Option("--since TIME", "only changes since then: 30min, 12h, 7d, last week, or a day such as 2026-03-01", field="since"),
            Option("--until TIME", "only changes until then; a day, a week, a month or a year counts as a whole", field="until"),
            Option("--change-set N", "only change N; the number alone means the same", field="change_set"),
            Option("-n --limit N", "at most N lines (default 20)", field="limit"),
            Option("--before N", "only changes older than N", name="before_change_set", field="before_change_set"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            PATHS,
            make_format(("change_set", "revision", "at", "client", "command", "path", "old_path", "old_digest", "new_digest", "old_bytes", "new_bytes", "is_kept", "undo")),
            JSON,
        ),
        examples=("memsyncd history", "memsyncd history .memories/redis.md -n 5", "memsyncd history 42", "memsyncd history --since monday --until yesterday", "memsyncd history 'MEMORY.md#redis/timeouts'"),
        in_each=True,
        lists="revisions",
        commands={"purge": make_history_purge()},
    )


def make_diff() -> Command:
    return Command(
        call_operation("history", "diff", show="show_diff", prepare="find_change", found="diff"),
        arguments=(
            Argument("target", "[ANCHOR|PATH|N]", "a section, a note, or the number of a change, from memsyncd history"),
        ),
        options=(
            Option("--change-set N", "change N; the number alone means the same, for all of its notes", field="change_set"),
            Option("--to-now", "up to the present text instead of the text after the change", field="to_now"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd diff .memories/redis.md", "memsyncd diff 42", "memsyncd diff 42 --to-now"),
        gone={"--revision": "the number of a change, from memsyncd history: --change-set N"},
    )


def make_undo() -> Command:
    return Command(
        load_action("history", "undo"),
        arguments=(
            Argument("target", "[ANCHOR|PATH|N]", "a section, a note, or the number of a change, from memsyncd history"),
        ),
        options=(
            Option("--change-set N", "change N; the number alone means the same, for all of its notes; with a note, only the change of this note", field="change_set"),
            Option("--to N", "restore the named note or section as it was right after change N, whatever has changed it since", field="to"),
            Option("-y --yes", "undo without a question, even if that deletes a note that memsyncd did not make, or undoes changes of other programs to several notes", name="confirm", field="confirm"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd undo .memories/redis.md", "memsyncd undo 42", "memsyncd undo .memories/redis.md --to 38", "memsyncd undo 'MEMORY.md#redis/timeouts'"),
        gone={"--revision": "the number of a change, from memsyncd history: --change-set N"},
    )
