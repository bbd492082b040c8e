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


def make_archive() -> Command:
    return Command(
        call_operation("upkeep", "archive", show="show_plan", prepare="name_memories", found="n_archived n_restored", is_long=True),
        arguments=(
            Argument("anchors", "[ANCHOR…]", "memories by their anchors", field="anchors"),
        ),
        options=(
            Option("--apply", "do it; otherwise only print what would change", field="apply"),
            Option("--plan DIGEST", "carry out only this plan, by the digest that a call without apply returned", field="plan"),
            Option("-n --limit N", "name at most so many memories of each list; the plan has all of them (default 100)", field="limit"),
            Option("--offset N", "leave out the first so many memories of each list", field="offset"),
            Option("--below S", "only memories whose worth is below this; if nothing else selects memories, by default memory.archive_below of the configuration, 0.1", parse=load_parser("upkeep", "parse_worth"), field="below"),
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
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd archive", "memsyncd archive --kind tool_run --before 30d --apply", "memsyncd archive '.memories/runs.md#runs/build' --apply"),
        gone={"--dry-run": "leave it out: without --apply, only the plan is shown"},
    )


def make_unarchive() -> Command:
    return Command(
        call_operation("upkeep", "archive.restore", show="show_plan", prepare="name_memories", found="n_archived n_restored", is_long=True),
        arguments=(
            Argument("anchors", "[ANCHOR…]", "memories by their anchors", field="anchors"),
        ),
        options=(
            Option("--apply", "do it; otherwise only print what would change", field="apply"),
            Option("--plan DIGEST", "carry out only this plan, by the digest that a call without apply returned", field="plan"),
            Option("-n --limit N", "name at most so many memories of each list; the plan has all of them (default 100)", field="limit"),
            Option("--offset N", "leave out the first so many memories of each list", field="offset"),
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
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd unarchive --kind tool_run", "memsyncd unarchive --path '**' --apply"),
        gone={"--dry-run": "leave it out: without --apply, only the plan is shown"},
    )


def make_cleanup() -> Command:
    return Command(
        call_operation("upkeep", "cleanup", show="show_plan", found="n_archived n_restored", is_long=True),
        options=(
            Option("--apply", "do it; otherwise only print what would change", field="apply"),
            Option("--plan DIGEST", "carry out only this plan, by the digest that a call without apply returned", field="plan"),
            Option("-n --limit N", "name at most so many memories of each list; the plan has all of them (default 100)", field="limit"),
            Option("--offset N", "leave out the first so many memories of each list", field="offset"),
            Option("--below S", "also archive memories whose worth is below this", parse=load_parser("upkeep", "parse_worth"), field="below"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd cleanup", "memsyncd cleanup --below 0.1 --apply"),
        gone={"--dry-run": "leave it out: without --apply, only the plan is shown"},
    )


def make_promote() -> Command:
    return Command(
        call_operation("upkeep", "promote", show="show_promoted", places=("anchor", "note")),
        arguments=(
            Argument("anchor", "[ANCHOR]", "a memory by its anchor", field="anchor"),
        ),
        options=(
            Option("--apply", "do it; otherwise only print what would change", field="apply"),
            Option("--plan DIGEST", "carry out only this plan, by the digest that a call without apply returned", field="plan"),
            Option("--task ID", "all summaries of this task instead", field="task"),
            Option("--tag T", "decision, convention, pattern, pitfall, interface, invariant, faq, or the tags that the configuration names", field="tag"),
            Option("--note PATH", "the note to promote to; by default the configured note, .memories/project.md", field="note"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd promote '.memories/summaries.md#summaries/retries' --tag pattern", "memsyncd promote --task WU-123 --tag decision --apply"),
        gone={"--dry-run": "leave it out: without --apply, only the plan is shown"},
    )
