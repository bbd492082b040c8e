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


def make_topic_list() -> Command:
    return Command(
        call_operation("topics", "topic.list", show="show_topics", found="topics", places=("path",)),
        summary="list topics, which are notes, with their fields and their worth",
        arguments=(
            Argument("path", "[PATH]", "only notes at this path, folder or glob", field="path"),
        ),
        options=(
            Option("--sort S", "the worthiest first, the latest first, or by path (file); salience is the former name of worth: worth (default), recency, file or salience", choices=("worth", "recency", "file", "salience"), field="sort"),
            Option("--include-archived", "archived ones too", field="include_archived"),
            Option("-n --limit N", "at most so many results (default 50)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            PATHS,
            make_format(("kind", "tags", "importance", "is_importance_stated", "priority", "lifecycle", "task", "session", "source", "created", "updated", "expires", "is_expired", "status", "day", "is_day_of_file", "is_day_of_name", "meta", "path", "title", "digest", "modified_at", "fields", "worth", "salience", "accesses")),
            JSON,
        ),
        examples=("memsyncd topic list", "memsyncd topic list .memories/services --sort recency"),
        in_each=True,
        lists="topics",
    )


def make_topic_get() -> Command:
    return Command(
        call_operation("topics", "topic.get", show="show_topic"),
        summary="read a topic: its summary, its fields with their values, and its relations",
        arguments=(
            Argument("topic", "TOPIC", "a note by its path, its name in the memory folder, its title or an alias", field="topic"),
        ),
        options=(
            Option("--include-archived", "archived fields too", field="include_archived"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd topic get auth-service", "memsyncd topic get 'Auth service' --json"),
    )


def make_topic_create() -> Command:
    return Command(
        call_operation("topics", "topic.create", show="show_written"),
        summary="create a note for a topic, with fields and relations",
        arguments=(
            Argument("title", "TITLE", "its title, at most 200 characters long", field="title"),
            Argument("summary", "[TEXT]", "the text below the title", field="summary"),
        ),
        options=(
            Option("--field NAME=TEXT…", "a field by its name, with its first value", name="fields", parse=load_parser("topics", "parse_pair_or_name"), field="fields", collect=dict),
            Option("--relate KIND=NOTE…", "a relation, such as resolved_by=redis-timeouts", name="relations", parse=load_parser("topics", "parse_relation"), field="relations"),
            Option("--kind K", "the kind of memory, one word such as decision", field="kind"),
            Option("--tag T…", "a word to filter by", name="tags", field="tags"),
            Option("--importance S", "from 0 to 1; by default the importance of the kind", parse=parse_fraction, field="importance"),
            Option("--priority P", "P0 to P3", field="priority"),
            Option("--lifecycle L", "ephemeral, session, task or project", field="lifecycle"),
            Option("--source TEXT", "where the memory comes from", field="source"),
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--session ID", "the session of an agent", field="session"),
            Option("--scope TEXT", "session reads as the lifecycle; any other scope is your own", field="scope"),
            Option("--keyword K…", "a word that recall finds it by; at most 20", name="keywords", field="keywords"),
            Option("--expires DAY", "a day or a time: from then on, searches leave it out", field="expires"),
            Option("--meta KEY=VALUE…", "keys of your own", name="metadata", parse=load_parser("topics", "parse_pair_or_name"), field="metadata", collect=dict),
            Option("--note PATH", "the note to create; by default a note in the memory folder, named after the title", field="note"),
            Option("--on-similar DO", "if a topic or section says nearly the same: add creates the topic, append appends summary and fields to the topic that exists, report writes nothing (default add)", choices=("add", "append", "report"), field="on_similar"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic create 'Auth service' 'Who you are.' --field 'Status=Redis 7'",),
    )


def make_topic_patch() -> Command:
    return Command(
        call_operation("topics", "topic.patch", show="show_written", prepare="make_patch"),
        summary="change title, summary, metadata or relations; '' removes one",
        arguments=(
            Argument("topic", "TOPIC", "the note by its path, its name in the memory folder, its title or an alias", field="topic"),
        ),
        options=(
            Option("--title TEXT", "the title; it is kept in the front matter, so that the anchors of the sections stay", field="title"),
            Option("--summary TEXT", "the text below the title; its relations stay", field="summary"),
            Option("--kind K", "the kind of memory, one word such as decision", field="kind"),
            Option("--tag T…", "a tag that it is to have; tags that are not named are removed", name="tags", field="tags"),
            Option("--importance S", "from 0 to 1; by default it stays as it is", parse=parse_fraction, field="importance"),
            Option("--priority P", "P0 to P3", field="priority"),
            Option("--lifecycle L", "ephemeral, session, task or project", field="lifecycle"),
            Option("--source TEXT", "where the memory comes from", field="source"),
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--session ID", "the session of an agent", field="session"),
            Option("--scope TEXT", "session reads as the lifecycle; any other scope is your own", field="scope"),
            Option("--keyword K…", "a word that recall finds it by; at most 20", name="keywords", field="keywords"),
            Option("--expires DAY", "a day or a time: from then on, searches leave it out", field="expires"),
            Option("--meta KEY=VALUE…", "keys of your own; an empty text removes a key", name="metadata", parse=load_parser("topics", "parse_pair_or_name"), field="metadata", collect=dict),
            Option("--relate KIND=NOTE…", "a relation to add, such as resolved_by=redis-timeouts; an existing one stays as it is", parse=load_parser("topics", "parse_relation"), field="relate"),
            Option("--unrelate KIND=NOTE…", "a relation to remove", parse=load_parser("topics", "parse_relation"), field="unrelate"),
            Option("--if-digest DIGEST", "write only if the note still has this digest; otherwise nothing is done", field="if_digest"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic patch auth-service --importance 0.9 --relate part_of=platform",),
    )


def make_topic_archive() -> Command:
    return Command(
        call_operation("topics", "topic.archive", show="upkeep:show_plan", found="archived restored"),
        summary="archive whole topics; its plan first",
        arguments=(
            Argument("topics", "TOPIC…", "notes by their path, their name in the memory folder, their title or an alias", field="topics"),
        ),
        options=(
            Option("--apply", "do it; otherwise only print what would change", field="apply"),
            Option("--plan DIGEST", "carry out only this plan, by the digest that a call without apply returned", field="plan"),
            Option("-n --limit N", "name at most so many memories of each list; the plan has all of them (default 100)", field="limit"),
            Option("--offset N", "leave out the first so many memories of each list", field="offset"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic archive auth-service --apply",),
        gone={"--dry-run": "leave it out: without --apply, only the plan is shown"},
    )


def make_topic_restore() -> Command:
    return Command(
        call_operation("topics", "topic.restore", show="upkeep:show_plan", found="archived restored"),
        summary="restore archived topics, byte for byte",
        arguments=(
            Argument("topics", "TOPIC…", "notes by their path, their name in the memory folder, their title or an alias", field="topics"),
        ),
        options=(
            Option("--apply", "do it; otherwise only print what would change", field="apply"),
            Option("--plan DIGEST", "carry out only this plan, by the digest that a call without apply returned", field="plan"),
            Option("-n --limit N", "name at most so many memories of each list; the plan has all of them (default 100)", field="limit"),
            Option("--offset N", "leave out the first so many memories of each list", field="offset"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic restore auth-service --apply",),
        gone={"--dry-run": "leave it out: without --apply, only the plan is shown"},
    )


def make_topic_append() -> Command:
    return Command(
        call_operation("topics", "field.append", show="show_written", stdin="content"),
        summary="append a value to a field of a topic, above the earlier ones",
        arguments=(
            Argument("topic", "TOPIC", "the note by its path, its name in the memory folder, its title or an alias", field="topic"),
            Argument("field", "FIELD", "the heading of a section, or its anchor", field="field"),
            Argument("content", "[TEXT…]", "the value; - or none to read it from stdin", field="content"),
        ),
        options=(
            Option("--kind K", "the kind of the field; by default it stays as it is", field="kind"),
            Option("--tag T…", "a tag that the field gets in addition to its tags", name="tags", field="tags"),
            Option("--importance S", "from 0 to 1; by default it stays as it is", parse=parse_fraction, field="importance"),
            Option("--source TEXT", "where the memory comes from", field="source"),
            Option("--keep N", "so many values stay in the note, by default memory.field_values of the configuration; field.history has the others", field="keep"),
            Option("--on-similar DO", "if a section says nearly the same: add appends to the named field, append appends to that section, report writes nothing (default add)", choices=("add", "append", "report"), field="on_similar"),
            Option("--if-digest DIGEST", "write only if the note still has this digest; otherwise nothing is done", field="if_digest"),
            Option("--stdin", "read the text from stdin, like TEXT -"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic append auth-service Status 'Redis 8 runs in production.'",),
    )


def make_topic_history() -> Command:
    return Command(
        call_operation("topics", "field.history", show="show_history", found="values"),
        summary="list the present and earlier values of a field, the newest first",
        arguments=(
            Argument("topic", "TOPIC", "the note by its path, its name in the memory folder, its title or an alias", field="topic"),
            Argument("field", "FIELD", "the heading of a section, or its anchor", field="field"),
        ),
        options=(
            Option("-n --limit N", "at most so many results (default 50)", field="limit"),
            Option("--before N", "only values of revisions older than this one", field="before"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            make_format(("at", "text", "is_current", "revision", "change_set", "recorded_at", "client", "command")),
            JSON,
        ),
        examples=("memsyncd topic history auth-service Status",),
        lists="values",
    )


def make_topic() -> Command:
    return make_group(
        "topic",
        {
            "list": make_topic_list(),
            "get": make_topic_get(),
            "create": make_topic_create(),
            "patch": make_topic_patch(),
            "archive": make_topic_archive(),
            "restore": make_topic_restore(),
            "append": make_topic_append(),
            "history": make_topic_history(),
        },
        ("memsyncd topic list", "memsyncd topic append auth-service Status 'Redis 8'"),
    )
