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


def make_stats() -> Command:
    return Command(
        call_operation("stats", "stats", show="show_counts", found="sections"),
        options=(
            Option("--by G…", "count by kind, tag, task, month, size (the default), session, source, priority, lifecycle, status, meta (other keys) or meta:KEY (its values)", field="by"),
            Option("-n --limit N", "at most so many values of each group (default 20)", field="limit"),
            Option("--kind K…", "only of this kind: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="filters.kind"),
            Option("--tag T…", "only with this tag or keyword", field="filters.tag"),
            Option("--path P…", "only this note, folder or glob", field="filters.path"),
            Option("--section TEXT…", "only below this heading or anchor", field="filters.section"),
            Option("--task ID…", "only of this task", field="filters.task"),
            Option("--session ID…", "only of this session", field="filters.session"),
            Option("--source TEXT…", "only from this source", field="filters.source"),
            Option("--topic TEXT…", "only of this topic", field="filters.topic"),
            Option("--priority P…", "only of this priority, P0 to P3", field="filters.priority"),
            Option("--lifecycle L…", "only ephemeral, session, task or project", field="filters.lifecycle"),
            Option("--status S…", "only of this status", field="filters.status"),
            Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares", field="filters.meta"),
            Option("--has KEY…", "only with any value of this key", field="filters.has"),
            Option("--related-to NOTE…", "only notes linked to or from this one", field="filters.related_to"),
            Option("--tier T…", "only hot, warm or cold: the names of the worth", field="filters.tier"),
            Option("--min-worth S", "only of this worth or more: the worth falls with age, and rises with importance and accesses", parse=parse_fraction, field="filters.min_worth"),
            Option("--min-importance S", "only of this importance or more, from 0 to 1", parse=parse_fraction, field="filters.min_importance"),
            Option("--after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'", field="filters.after"),
            Option("--before DAY", "only before this day, month or year", field="filters.before"),
            Option("--archived", "only archived sections, which are left out otherwise", field="filters.archived"),
            Option("--expired", "only expired sections, which are left out otherwise", field="filters.expired"),
            Option("--include-archived", "archived sections too", field="filters.include_archived"),
            Option("--include-expired", "expired sections too", field="filters.include_expired"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            JSON,
        ),
        examples=("memsyncd stats", "memsyncd stats --by task --after 'last month'", "memsyncd stats --kind decision --by month --json", "memsyncd stats --by meta:owner"),
        in_each=True,
    )


def make_accesses() -> Command:
    return Command(
        call_operation("stats", "access.stats", show="show_accesses", prepare="name_place", found="counts"),
        arguments=(
            Argument("target", "[ANCHOR|PATH]", "a section, note or folder; without one, the whole workspace"),
        ),
        options=(
            Option("-n --limit N", "at most so many sections (default 20)", field="limit"),
            Option("--last", "the most recently recalled first, not the most often", value="last", field="sort"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            PATHS,
            make_format(("anchor", "count", "sessions", "last_at", "is_indexed")),
            JSON,
        ),
        examples=("memsyncd accesses", "memsyncd accesses .memories/redis.md --last", "memsyncd accesses '.memories/errors.md#timeouts' --json"),
        in_each=True,
        lists="counts",
    )
