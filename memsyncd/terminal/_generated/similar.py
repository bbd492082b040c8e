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


def make_similar() -> Command:
    return Command(
        load_action("similar", "ask_for_similar"),
        arguments=(
            Argument("anchor", "[NOTE|SECTION]", "a section, PATH#heading, or a note", field="anchor"),
        ),
        options=(
            Option("--text TEXT", "compare this text", field="text"),
            Option("--topic TOPIC", "list the topics that are similar to this one", field="topic"),
            Option("--min-similarity S", "from 0 to 1; from 0.7 of the words in common, texts say nearly the same", parse=parse_fraction, field="min_similarity"),
            Option("-n --limit N", "at most so many sections or groups", field="limit"),
            Option("-k --nearest N", "the N nearest, however far they are", field="nearest"),
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("--stdin", "compare a text read from stdin"),
            Option("--duplicates", "plan which sections to merge: groups of near copies"),
            Option("--path P…", "with --duplicates: only this note, folder or glob"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            IDS,
            PATHS,
            make_format(("kind", "tags", "importance", "is_importance_stated", "priority", "lifecycle", "task", "session", "source", "created", "updated", "expires", "is_expired", "status", "day", "is_day_of_file", "is_day_of_name", "meta", "id", "anchor", "path", "start_line", "end_line", "title", "heading", "workspace", "digest", "similarity", "topic", "n_sections")),
            JSON,
        ),
        examples=("memsyncd similar '.memories/errors.md#redis-timeouts'", "memsyncd similar .memories/errors.md", "memsyncd similar --text 'Redis gives up after 30 s.'", "memsyncd similar --topic redis -k 3", "memsyncd similar --duplicates --path .memories"),
        in_each=True,
        lists="sections topics",
    )


def make_patterns() -> Command:
    return Command(
        call_operation("similar", "patterns", show="show_patterns", prepare="compare_all", found="patterns"),
        options=(
            Option("--kind K…", "only of this kind", field="kind"),
            Option("--topic TEXT", "only of this topic", field="topic"),
            Option("--min-similarity S", "from 0.1 to 1 (default 0.5)", parse=parse_fraction, field="min_similarity"),
            Option("--by KEY", "compare different values of this key, such as source.client, instead of workspaces", field="by"),
            Option("--min-workspaces N", "only patterns of at least so many workspaces, or values of the key by (default 2)", parse=parse_whole, field="min_workspaces"),
            Option("-n --limit N", "at most so many patterns (default 20)", field="limit"),
            Option("--all", "all workspaces, which is the default"),
            Option("-w --workspace WS…", "compare these workspaces: a name, an id or a folder in it; by default all", field="workspace"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            make_format(("kind", "topic", "similarity", "n_workspaces", "values", "sections")),
            JSON,
        ),
        examples=("memsyncd patterns", "memsyncd patterns --kind error --min-workspaces 3", "memsyncd patterns -w api -w web --topic redis", "memsyncd patterns -w consulting --by source.client"),
        lists="patterns",
    )
