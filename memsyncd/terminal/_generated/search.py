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


def make_search() -> Command:
    return Command(
        load_action("search", "search"),
        arguments=(
            Argument("query", "QUERY…", 'words, "phrases", -not, prefix*, and filters as words', field="query"),
        ),
        options=(
            Option("-n --limit N", "at most N hits (default 10)", field="limit"),
            Option("--min-score S", "only hits with at least this score, from 0 to 1", parse=parse_fraction, field="min_score"),
            Option("--sort S", "the order of the hits: relevance (default), worth, importance, priority, recency, file or decay", choices=("relevance", "worth", "importance", "priority", "recency", "file", "decay"), field="sort"),
            Option("--wait", "first index everything that is on disk now", value="disk", field="wait"),
            Option("--explain", "say in three lines why a hit was found; --json has all parts", field="explain"),
            Option("--follow R…", "show the sections to which this relation leads, such as resolved_by: each hit comes with the sections to which its typed links lead", field="follow"),
            Option("--all", "search all workspaces"),
            Option("--open N", "open the first hit, or the Nth, in $VISUAL or $EDITOR", bare=1),
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
            Option("-w --workspace WS…", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            IDS,
            PATHS,
            make_format(("kind", "tags", "importance", "is_importance_stated", "priority", "lifecycle", "task", "session", "source", "created", "updated", "expires", "is_expired", "status", "day", "is_day_of_file", "is_day_of_name", "meta", "id", "anchor", "path", "start_line", "end_line", "title", "heading", "contradicts", "contradicted_by", "supersedes", "superseded_by", "since", "workspace", "sections", "snippet", "labels", "mark", "score", "digest", "matched", "matched_related", "related", "explain", "worth")),
            JSON,
        ),
        examples=("memsyncd search redis timeout", 'memsyncd search \'why did we choose "connection pool"\' -draft', "memsyncd search token --kind decision --wait --json", "memsyncd search token --all --open", "memsyncd search token -w api -w web", "memsyncd search redis timeout --kind error --follow resolved_by"),
        lists="hits",
        keeps_exclusions=True,
        query_filters=("kind:K", "tag:T", "path:P", "section:TEXT", "task:ID", "session:ID", "source:TEXT", "topic:TEXT", "priority:P", "lifecycle:L", "status:S", "meta:KEY=VALUE", "has:KEY", "related_to:NOTE", "tier:T", "is:archived", "importance:S", "worth:S", "after:DAY", "before:DAY"),
    )
