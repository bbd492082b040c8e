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


def make_context() -> Command:
    return Command(
        load_action("context", "context"),
        arguments=(
            Argument("query", "[QUERY…]", "the subject; without one, the context of a new session", field="query"),
        ),
        options=(
            Option("--task ID", "begin with the memories of this task: the profile, the last checkpoint, summaries, what can be worked on, discoveries and all others", field="task"),
            Option("--session ID", "begin with the memories of this session, and of the task that it names last", field="session"),
            Option("--profile", "begin with what holds for the whole project: the sections whose lifecycle is project", field="profile"),
            Option("--agent NAME", "show the unread signals to this agent, the session and the task at the top", field="agent"),
            Option("--max-tokens N", "the most tokens, from 100 to 50,000 (default 2000)", parse=parse_whole, field="max_tokens"),
            Option("--max-bytes N", "the most bytes of the block", parse=parse_whole, field="max_bytes"),
            Option("--sort S", "the order in which the block shows sections: relevance (default), worth, importance, priority, recency, file or decay", choices=("relevance", "worth", "importance", "priority", "recency", "file", "decay"), field="sort"),
            Option("--heading TEXT", "the first line (default '## Prior Knowledge'); '' for none", field="heading"),
            Option("--no-mark", "without the warning about orders in notes", name="mark", value=False, field="mark"),
            Option("--follow R…", "show the sections to which this relation leads, such as resolved_by", field="follow"),
            Option("--no-user", "without the user-wide workspace", name="user", value=False, field="user"),
            Option("--wait", "first index everything that is on disk now", value="disk", field="wait"),
            Option("--all", "use all workspaces"),
            Option("--kind K…", "only of this kind: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="filters.kind"),
            Option("--tag T…", "only with this tag or keyword", field="filters.tag"),
            Option("--path P…", "only this note, folder or glob", field="filters.path"),
            Option("--section TEXT…", "only below this heading or anchor", field="filters.section"),
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
            PATHS,
            make_format(("kind", "tags", "importance", "is_importance_stated", "priority", "lifecycle", "task", "session", "source", "created", "updated", "expires", "is_expired", "status", "day", "is_day_of_file", "is_day_of_name", "meta", "id", "anchor", "path", "start_line", "end_line", "title", "heading", "contradicts", "contradicted_by", "supersedes", "superseded_by", "since", "workspace", "reason", "relation", "related_to")),
            JSON,
        ),
        examples=("memsyncd context", "memsyncd context why postgres --max-tokens 500", "memsyncd context --task WU-123 --max-tokens 1000", "memsyncd context --kind decision --heading '## Decisions so far'"),
        gone={"-n": "-n counts hits or lines; tokens are: --max-tokens N"},
        lists="included",
        keeps_exclusions=True,
        query_filters=("kind:K", "tag:T", "path:P", "section:TEXT", "source:TEXT", "topic:TEXT", "priority:P", "lifecycle:L", "status:S", "meta:KEY=VALUE", "has:KEY", "related_to:NOTE", "tier:T", "is:archived", "importance:S", "worth:S", "after:DAY", "before:DAY"),
    )
