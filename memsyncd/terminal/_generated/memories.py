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


def make_set() -> Command:
    return Command(
        call_operation("memories", "memory.set", show="show_set", prepare="make_set", found="changed unchanged"),
        arguments=(
            Argument("anchors", "[ANCHOR…]", "memories: anchors, notes, lines of notes such as MEMORY.md:12-18, or titles", field="anchors"),
        ),
        options=(
            Option("--apply", "do it for all that pass the filters; otherwise their plan is shown", field="apply"),
            Option("--plan DIGEST", "only if the plan still has this digest, which a call without apply returns as plan", field="plan"),
            Option("--status S", "the status: open, doing, blocked, done, archived, or a word of your own", field="status"),
            Option("--priority P", "P0 to P3", field="priority"),
            Option("--importance S", "from 0 to 1", parse=parse_fraction, field="importance"),
            Option("--kind K", "the kind of memory, one word such as decision; the memory stays in its note", field="kind"),
            Option("--tag T…", "a tag of the memory; all others are removed", name="tags", field="tags"),
            Option("--add-tag T…", "a tag to add", name="add_tags", field="add_tags"),
            Option("--remove-tag T…", "a tag to remove", name="remove_tags", field="remove_tags"),
            Option("--keyword K…", "a keyword of the memory; all others are removed", name="keywords", field="keywords"),
            Option("--add-keyword K…", "a keyword to add", name="add_keywords", field="add_keywords"),
            Option("--remove-keyword K…", "a keyword to remove", name="remove_keywords", field="remove_keywords"),
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--session ID", "the session of an agent", field="session"),
            Option("--topic TEXT", "the topic", field="topic"),
            Option("--lifecycle L", "ephemeral, session, task or project", field="lifecycle"),
            Option("--expires DAY", "a day or a time; from then on searches leave the memory out", field="expires"),
            Option("--source TEXT", "the origin of the memory", field="source"),
            Option("--meta KEY=VALUE…", "metadata of your own; KEY= removes it", name="metadata", parse=load_parser("memories", "topics:parse_pair_or_name"), field="metadata", collect=dict),
            Option("--relate KIND=ANCHOR…", "a relation to add, such as resolves=MEMORY.md#setup; an existing relation stays", parse=load_parser("memories", "topics:parse_relation"), field="relate"),
            Option("--unrelate KIND=ANCHOR…", "a relation to remove", parse=load_parser("memories", "topics:parse_relation"), field="unrelate"),
            Option("--title T", "the heading of the section; links to it are changed with it", field="title"),
            Option("--clear FIELD…", "the name of a field to remove, such as expires or importance", field="clear"),
            Option("--if-digest DIGEST", "write only if the note still has this digest; otherwise nothing is done", field="if_digest"),
            Option("--dry-run", "show the plan only, of named memories too", value=False, field="apply"),
            Option("--where-kind K…", "only of this kind: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", name="where_kind", field="filters.kind"),
            Option("--where-tag T…", "only with this tag or keyword", name="where_tag", field="filters.tag"),
            Option("--where-path P…", "only this note, folder or glob", name="where_path", field="filters.path"),
            Option("--where-section TEXT…", "only below this heading or anchor", name="where_section", field="filters.section"),
            Option("--where-task ID…", "only of this task", name="where_task", field="filters.task"),
            Option("--where-session ID…", "only of this session", name="where_session", field="filters.session"),
            Option("--where-source TEXT…", "only from this source", name="where_source", field="filters.source"),
            Option("--where-topic TEXT…", "only of this topic", name="where_topic", field="filters.topic"),
            Option("--where-priority P…", "only of this priority, P0 to P3", name="where_priority", field="filters.priority"),
            Option("--where-lifecycle L…", "only ephemeral, session, task or project", name="where_lifecycle", field="filters.lifecycle"),
            Option("--where-status S…", "only of this status", name="where_status", field="filters.status"),
            Option("--where-meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares", name="where_meta", field="filters.meta"),
            Option("--where-has KEY…", "only with any value of this key", name="where_has", field="filters.has"),
            Option("--where-related-to NOTE…", "only notes linked to or from this one", name="where_related_to", field="filters.related_to"),
            Option("--where-tier T…", "only hot, warm or cold: the names of the worth", name="where_tier", field="filters.tier"),
            Option("--where-min-worth S", "only of this worth or more: the worth falls with age, and rises with importance and accesses", name="where_min_worth", parse=parse_fraction, field="filters.min_worth"),
            Option("--where-min-importance S", "only of this importance or more, from 0 to 1", name="where_min_importance", parse=parse_fraction, field="filters.min_importance"),
            Option("--where-after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'", name="where_after", field="filters.after"),
            Option("--where-before DAY", "only before this day, month or year", name="where_before", field="filters.before"),
            Option("--where-archived", "only archived sections, which are left out otherwise", name="where_archived", field="filters.archived"),
            Option("--where-expired", "only expired sections, which are left out otherwise", name="where_expired", field="filters.expired"),
            Option("--where-include-archived", "archived sections too", name="where_include_archived", field="filters.include_archived"),
            Option("--where-include-expired", "expired sections too", name="where_include_expired", field="filters.include_expired"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd set '.memories/errors.md#errors/pool' --status done", "memsyncd set MEMORY.md:12-18 --priority P0 --add-tag redis --clear expires", "memsyncd set 'Pool waits' --relate 'resolves=.memories/errors.md#errors/pool'", "memsyncd set --where-task PAY-7 --where-kind discovery --status done --apply"),
    )


def make_done() -> Command:
    return Command(
        call_operation("memories", "memory.done", show="show_set", prepare="upkeep:name_memories"),
        arguments=(
            Argument("anchors", "ANCHOR…", "memories: anchors, notes, lines of notes such as MEMORY.md:12-18, or titles", field="anchors"),
        ),
        options=(
            Option("--if-digest DIGEST", "write only if the note still has this digest; otherwise nothing is done", field="if_digest"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd done '.memories/discoveries.md#discoveries/pool'",),
    )


def make_relate() -> Command:
    return Command(
        call_operation("memories", "memory.relate", show="show_set", prepare="name_related"),
        arguments=(
            Argument("anchor", "ANCHOR", "the memory: an anchor, a note, lines of a note, or a title", field="anchor"),
            Argument("relation", "RELATION", "one word such as resolves, caused_by, contradicts, supersedes", field="relation"),
            Argument("to", "ANCHOR", "the memory to which the relation leads, named like the first", field="to"),
        ),
        options=(
            Option("--remove", "remove the relation instead", field="remove"),
            Option("--if-digest DIGEST", "write only if the note still has this digest; otherwise nothing is done", field="if_digest"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd relate .memories/decisions.md:3-9 resolves '.memories/errors.md#pool'",),
    )


def make_choose() -> Command:
    return Command(
        call_operation("memories", "memory.choose", show="show_set", prepare="name_memory"),
        arguments=(
            Argument("anchor", "ANCHOR", "one of the two sections: an anchor, lines of a note, or a title", field="anchor"),
        ),
        options=(
            Option("--keep WHICH", "the text to keep: this, the text of the section that is named; the other; or both, as two memories", choices=("this", "other", "both"), field="keep"),
            Option("--if-digest DIGEST", "write only if the note still has this digest; otherwise nothing is done", field="if_digest"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd choose '.memories/decisions.md#decisions/pool-2' --keep this", "memsyncd choose MEMORY.md:20-24 --keep both"),
    )


def make_forget() -> Command:
    return Command(
        load_action("memories", "ask_and_forget"),
        arguments=(
            Argument("anchors", "[ANCHOR…]", "memories: anchors, notes, lines of notes such as MEMORY.md:12-18, or titles", field="anchors"),
        ),
        options=(
            Option("--apply", "do it for all that pass the filters; otherwise their plan is shown", field="apply"),
            Option("--plan DIGEST", "only if the plan still has this digest, which a call without apply returns as plan", field="plan"),
            Option("--purge", "remove them from the history, too, with every earlier text of their notes that holds them: no undo brings them back", field="purge"),
            Option("--unlink", "remove the links to them, too; by default the answer only names these links", field="unlink"),
            Option("-y --yes", "do not ask about protected kinds, sections beneath, notes, or purging", name="confirm", field="confirm"),
            Option("--if-digest DIGEST", "write only if the note still has this digest; otherwise nothing is done", field="if_digest"),
            Option("--dry-run", "show the plan only, of named memories too", value=False, field="apply"),
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
        examples=("memsyncd forget '.memories/preferences.md#preferences/mail-hours'", "memsyncd forget MEMORY.md:12-18 --unlink", "memsyncd forget --task PAY-7 --kind tool_run --apply", "memsyncd forget 'Pasted token' --purge --yes"),
    )


def make_replace() -> Command:
    return Command(
        call_operation("memories", "memory.replace", show="show_replaced", prepare="name_memory", stdin="content"),
        arguments=(
            Argument("anchor", "ANCHOR", "one memory; there are no filters, because one text replaces one memory. Archive several with: memsyncd set --where-task T --status archived", field="anchor"),
            Argument("content", "[TEXT…]", "the new text; - or none to read it from stdin", field="content"),
        ),
        options=(
            Option("--summary S", "the heading; by default the former heading, or, if that was the beginning of the former text, the beginning of the new text", field="summary"),
            Option("--kind K", "the kind; by default the kind of the former memory, and so are all further fields", field="kind"),
            Option("--tag T…", "a tag; the tags of the former memory are left out", name="tags", field="tags"),
            Option("--keyword K…", "a keyword; the keywords of the former memory are left out", name="keywords", field="keywords"),
            Option("--importance S", "from 0 to 1; by default the importance of the kind", parse=parse_fraction, field="importance"),
            Option("--priority P", "P0 to P3", field="priority"),
            Option("--lifecycle L", "ephemeral, session, task or project", field="lifecycle"),
            Option("--source TEXT", "where the memory comes from", field="source"),
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--session ID", "the session of an agent", field="session"),
            Option("--topic TEXT", "the topic", field="topic"),
            Option("--expires DAY", "a day or a time; from then on searches leave the memory out; by default none", field="expires"),
            Option("--note PATH", "the note for the new memory; by default the note of the former memory", field="note"),
            Option("--if-digest DIGEST", "write only if the note still has this digest; otherwise nothing is done", field="if_digest"),
            Option("--stdin", "read the text from stdin, like TEXT -"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd replace 'Pool size' 'The pool has 20 connections since March.'", "memsyncd replace .memories/decisions.md:3-9 - < decision.md"),
    )
