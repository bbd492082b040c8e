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


def make_remember() -> Command:
    return Command(
        call_operation("notes", "note.add", show="show_added", stdin="content", places=("note",)),
        arguments=(
            Argument("content", "[TEXT…]", "the text; - or none to read it from stdin", field="content"),
        ),
        options=(
            Option("--summary S", "the heading; by default the beginning of the text", field="summary"),
            Option("--kind K", "the kind of memory, which selects the note: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="kind"),
            Option("--tag T…", "add this tag", name="tags", field="tags"),
            Option("--importance S", "from 0 to 1; by default the importance of the kind", parse=parse_fraction, field="importance"),
            Option("--priority P", "P0, P1, P2 or P3", field="priority"),
            Option("--lifecycle L", "ephemeral, session, task or project", field="lifecycle"),
            Option("--status S", "the status, such as open, doing, blocked or done; a section without status counts as open", field="status"),
            Option("--source TEXT", "the source", field="source"),
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--session ID", "the session of an agent", field="session"),
            Option("--topic TEXT", "the topic, of at most 100 characters", field="topic"),
            Option("--keyword K…", "a keyword; at most 20", name="keywords", field="keywords"),
            Option("--scope TEXT", "session reads as the lifecycle; any other scope is your own", field="scope"),
            Option("--created DAY", "the day or time, if not now", field="created"),
            Option("--updated DAY", "the day or time of the last change", field="updated"),
            Option("--expires DAY", "a day or a time; from then on searches leave the section out", field="expires"),
            Option("--meta KEY=VALUE…", "add metadata of your own", name="metadata", parse=parse_pair, field="metadata", collect=dict),
            Option("--relate KIND=ANCHOR…", "a relation to another memory, such as resolves=MEMORY.md#setup: a typed link at the end of the text", name="relations", field="relations"),
            Option("--note PATH", "append to this note", field="note"),
            Option("--on-similar DO", "if something says nearly the same: add (default), append to it, or only report it", choices=("add", "append", "report"), field="on_similar"),
            Option("--stdin", "read the text from stdin, like TEXT -"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd remember 'Redis gives up after 30 s' --kind decision --tag redis", "git log -1 --format=%B | memsyncd remember --summary 'Release' --note releases.md"),
    )


def make_memory_view() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", prepare="make_view", fixed={"command": "view"}, places=("path",)),
        summary="print a note with line numbers, or list a folder",
        arguments=(
            Argument("path", "[NOTE]", "a note or folder; by default /memories", field="path"),
        ),
        options=(
            Option("--range A-B", "only lines A to B; A- for all from A on", name="view_range", parse=load_parser("notes", "read_range"), field="view_range"),
            Option("--dialect D", "answer as Anthropic's documents say (docs) or as its SDK does (sdk)", choices=("docs", "sdk"), field="dialect"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd memory view", "memsyncd memory view /memories/decisions.md --range 1-20"),
    )


def make_memory_create() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", stdin="file_text", fixed={"command": "create"}, places=("path",)),
        summary="create a note",
        arguments=(
            Argument("path", "NOTE", "a path that begins with /memories; /memories/MEMORY.md is the workspace's MEMORY.md", field="path"),
            Argument("file_text", "[TEXT]", "the text; - or none to read it from stdin", field="file_text"),
        ),
        options=(
            Option("--if-digest DIGEST", "only if the note still has this digest, as shown by --json", field="if_digest"),
            Option("--dialect D", "answer as Anthropic's documents say (docs) or as its SDK does (sdk)", choices=("docs", "sdk"), field="dialect"),
            Option("--stdin", "read the text from stdin, like TEXT -"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd memory create /memories/redis.md '# Redis'", "memsyncd memory create /memories/redis.md < redis.md"),
    )


def make_memory_str_replace() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", prepare="make_replacement", fixed={"command": "str_replace"}, places=("path",)),
        summary="replace a text that occurs exactly once in a note",
        arguments=(
            Argument("path", "NOTE", "a path that begins with /memories; /memories/MEMORY.md is the workspace's MEMORY.md", field="path"),
            Argument("old_str", "OLD", "the present text; - to read it from stdin", field="old_str"),
            Argument("new_str", "[NEW]", "the new text, '' for none; - or none to read it from stdin", field="new_str"),
        ),
        options=(
            Option("--if-digest DIGEST", "only if the note still has this digest, as shown by --json", field="if_digest"),
            Option("--dialect D", "answer as Anthropic's documents say (docs) or as its SDK does (sdk)", choices=("docs", "sdk"), field="dialect"),
            Option("--stdin", "read the text from stdin, like TEXT -"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd memory str_replace /memories/redis.md '30 s' '45 s'",),
    )


def make_memory_insert() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", prepare="make_insertion", fixed={"command": "insert"}, places=("path",)),
        summary="insert a text after a line; 0 is before the first",
        arguments=(
            Argument("path", "NOTE", "a path that begins with /memories; /memories/MEMORY.md is the workspace's MEMORY.md", field="path"),
            Argument("insert_line", "LINE", "after this line", field="insert_line"),
            Argument("insert_text", "[TEXT]", "the text; - or none to read it from stdin", field="insert_text"),
        ),
        options=(
            Option("--if-digest DIGEST", "only if the note still has this digest, as shown by --json", field="if_digest"),
            Option("--dialect D", "answer as Anthropic's documents say (docs) or as its SDK does (sdk)", choices=("docs", "sdk"), field="dialect"),
            Option("--stdin", "read the text from stdin, like TEXT -"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd memory insert /memories/redis.md 12 '- a new item'",),
    )


def make_memory_delete() -> Command:
    return Command(
        load_action("notes", "ask_and_delete"),
        summary="delete a note, or a folder with its contents",
        arguments=(
            Argument("path", "NOTE", "a path that begins with /memories; /memories/MEMORY.md is the workspace's MEMORY.md", field="path"),
        ),
        options=(
            Option("-y --yes", "delete text that others have written without a question", name="confirm", field="confirm"),
            Option("--if-digest DIGEST", "only if the note still has this digest, as shown by --json", field="if_digest"),
            Option("--dialect D", "answer as Anthropic's documents say (docs) or as its SDK does (sdk)", choices=("docs", "sdk"), field="dialect"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd memory delete /memories/redis.md", "memsyncd memory delete /memories/old --yes"),
    )


def make_memory_rename() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_moved", fixed={"command": "rename"}, places=("old_path", "new_path")),
        summary="move a note or a folder",
        arguments=(
            Argument("old_path", "OLD", "its path, /memories/…", field="old_path"),
            Argument("new_path", "NEW", "its new path", field="new_path"),
        ),
        options=(
            Option("--update-links", "change the links of all notes so that they stay right", field="update_links"),
            Option("--dry-run", "only name the notes whose links would be updated", name="apply", value=False, field="apply"),
            Option("--if-digest DIGEST", "only if the note still has this digest, as shown by --json", field="if_digest"),
            Option("--dialect D", "answer as Anthropic's documents say (docs) or as its SDK does (sdk)", choices=("docs", "sdk"), field="dialect"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd memory rename /memories/draft.md /memories/redis.md", "memsyncd memory rename Draft Redis --update-links --dry-run"),
    )


def make_memory() -> Command:
    return make_group(
        "memory",
        {
            "view": make_memory_view(),
            "create": make_memory_create(),
            "str_replace": make_memory_str_replace(),
            "insert": make_memory_insert(),
            "delete": make_memory_delete(),
            "rename": make_memory_rename(),
        },
        ("memsyncd memory view", "memsyncd memory create /memories/redis.md < redis.md"),
    )


def make_clear() -> Command:
    return Command(
        load_action("notes", "clear"),
        options=(
            Option("-y --yes", "do not ask", name="confirm", field="confirm"),
            Option("-w --workspace WS", "remove the notes of this workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd clear", "memsyncd clear -w scratch --yes"),
    )


def make_check() -> Command:
    return Command(
        call_operation("notes", "validate", show="show_faults", found="is_valid", places=("path",)),
        arguments=(
            Argument("path", "[PATH]", "a note, folder or glob; by default all", field="path"),
        ),
        options=(
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            PATHS,
            make_format(("field", "problem", "hint", "path", "line")),
            JSON,
        ),
        examples=("memsyncd check", "memsyncd check .memories/decisions.md"),
        in_each=True,
        lists="faults",
    )


def make_get() -> Command:
    return Command(
        load_action("notes", "get"),
        arguments=(
            Argument("target", "ANCHOR|PATH[:A[-B]]", "a section's anchor, or a note, or some of its lines"),
        ),
        options=(
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd get .memories/redis.md:12-18", "memsyncd get '.memories/redis.md#redis/timeouts'", "memsyncd get MEMORY.md"),
    )


def make_list() -> Command:
    return Command(
        load_action("notes", "workspaces:list_workspaces_or_notes"),
        options=(
            Option("--sort S", "by worth, importance, priority, recency or file: relevance, worth, importance, priority, recency, file (default) or decay", choices=("relevance", "worth", "importance", "priority", "recency", "file", "decay"), field="sort"),
            Option("--explain", "show the worth of each section with its factors, and its tier", field="explain"),
            Option("-n --limit N", "the most notes of one answer (default 100)", field="limit"),
            Option("--cursor TEXT", "the cursor of an answer, to get the notes that follow", field="cursor"),
            Option("--names", "print only the names of the workspaces"),
            Option("--notes", "list the notes of a workspace"),
            Option("--sections", "list notes with their sections"),
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
            IDS,
            PATHS,
            make_format(("path", "title", "digest", "size_bytes", "modified_at", "n_lines", "kind", "tags", "sections", "worth")),
            JSON,
        ),
        examples=("memsyncd list", "memsyncd list --notes --kind decision", "memsyncd list -w notes --sections"),
        in_each=True,
        lists="notes",
    )
