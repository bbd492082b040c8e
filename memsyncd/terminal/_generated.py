"""The commands that call one operation each, and what of the operations reads.

Generated from the declarations by `python -m memsyncd.operations.generate`; do not edit.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

from memsyncd.terminal.actions import call_operation, load_action, load_parser
from memsyncd.terminal.parser import (
    JSON,
    JSON_LINES,
    Argument,
    Command,
    Option,
    make_group,
    parse_fraction,
    parse_pair,
)


READING = frozenset({"access.stats", "context", "diff", "duplicates", "field.history", "get", "history", "links", "list", "profile", "recall", "records.backup", "search", "session.resume", "signal.inbox", "signal.outbox", "similar", "sources", "stats", "status", "sync", "task.context", "task.list", "task.ready", "topic.get", "topic.list", "validate"})
"""Operations that change neither notes nor records."""
READING_IF: dict[str, dict[str, object]] = {"memory": {"command": "view"}, "triage": {"promote": None}, "topic.archive": {"dry_run": None}, "topic.restore": {"dry_run": None}, "task.summarize": {"dry_run": None}, "archive": {"dry_run": None}, "archive.restore": {"dry_run": None}, "cleanup": {"dry_run": None}}
"""Parameters with which an operation that writes only reads."""
READING_TOOLS = frozenset({"memory_search", "memory_context", "memory_get"})
"""Tools of MCP that only read."""


def _make_status() -> Command:
    return Command(
        call_operation("status", "status", show="show_status", is_wide=True),
        summary="show the state of the daemon and its workspaces",
        options=(
            Option("-w --workspace WS", "only this workspace", field="workspace"),
            JSON,
        ),
        examples=("memsyncd status", "memsyncd status -w notes --json"),
    )


def _make_problems() -> Command:
    return Command(
        call_operation("status", "problems", show="show_problems", is_wide=True),
        summary="list the problems of notes and folders",
        options=(
            Option("-w --workspace WS", "only this workspace", field="workspace"),
            JSON,
        ),
        examples=("memsyncd problems", "memsyncd problems -w ."),
    )


def _make_metrics() -> Command:
    return Command(
        load_action("status", "print_metrics"),
        summary="print the daemon's counters in Prometheus format",
        options=(
            JSON,
        ),
        examples=("memsyncd metrics", "memsyncd metrics --json"),
    )


def _make_search() -> Command:
    return Command(
        load_action("search", "search"),
        summary="find passages by words and phrases",
        arguments=(
            Argument("query", "QUERY…", 'words, "phrases", -not, prefix*, and each filter below as a word, such as kind:decision, meta:owner=infra, related_to:redis, tier:hot, is:archived, importance:0.8', field="query"),
        ),
        options=(
            Option("-n --limit N", "at most N hits (default 10)", field="limit"),
            Option("--min-score S", "only hits that score at least so much, from 0 to 1", parse=parse_fraction, field="min_score"),
            Option("--sort S", "the order of the hits: relevance (default), decay, importance, priority, recency or file", choices=("relevance", "decay", "importance", "priority", "recency", "file"), field="sort"),
            Option("--wait", "first index everything that is on disk now", value="disk", field="wait"),
            Option("--explain", "show the parts of each score", field="explain"),
            Option("--follow R…", "show what this relation leads to, such as resolved_by", field="follow"),
            Option("--all", "search all workspaces"),
            Option("--open N", "open the first hit, or the Nth, in $VISUAL or $EDITOR", bare=1),
            Option("--kind K…", "only of this kind: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="filters.kind"),
            Option("--tag T…", "only with this tag", field="filters.tag"),
            Option("--path P…", "only this note, folder or glob", field="filters.path"),
            Option("--section TEXT…", "only below this heading or anchor", field="filters.section"),
            Option("--task ID…", "only of this task", field="filters.task"),
            Option("--session ID…", "only of this session", field="filters.session"),
            Option("--source TEXT…", "only from this source", field="filters.source"),
            Option("--priority P…", "only of this priority, P0 to P3", field="filters.priority"),
            Option("--lifecycle L…", "only ephemeral, session, task or project", field="filters.lifecycle"),
            Option("--status S…", "only of this status", field="filters.status"),
            Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares", field="filters.meta"),
            Option("--has KEY…", "only with any value of this key", field="filters.has"),
            Option("--related-to NOTE…", "only notes linked to or from this one", field="filters.related_to"),
            Option("--tier T…", "only hot, warm or cold by age and importance", field="filters.tier"),
            Option("--min-importance S", "only of this importance or more, from 0 to 1", parse=parse_fraction, field="filters.min_importance"),
            Option("--after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'", field="filters.after"),
            Option("--before DAY", "only before this day, month or year", field="filters.before"),
            Option("--archived", "only archived sections, which are left out otherwise", field="filters.archived"),
            Option("--expired", "only expired sections, which are left out otherwise", field="filters.expired"),
            Option("--include-archived", "archived sections too", field="filters.include_archived"),
            Option("--include-expired", "expired sections too", field="filters.include_expired"),
            Option("-w --workspace WS…", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd search redis timeout", 'memsyncd search \'why did we choose "connection pool"\' -draft', "memsyncd search token --kind decision --wait --json", "memsyncd search token --all --open", "memsyncd search token -w api -w web", "memsyncd search redis timeout --kind error --follow resolved_by"),
        keeps_exclusions=True,
    )


def _make_context() -> Command:
    return Command(
        load_action("search", "context"),
        summary="print memory for a prompt, within a budget",
        arguments=(
            Argument("query", "[QUERY…]", "the subject; without one, the context of a new session", field="query"),
        ),
        options=(
            Option("-n --max-tokens N", "at most so many tokens, from 100 to 50,000 (default 2000)", field="max_tokens"),
            Option("--max-bytes N", "at most so many bytes as well", field="max_bytes"),
            Option("--sort S", "the order in which the block shows sections: relevance (default), decay, importance, priority, recency or file", choices=("relevance", "decay", "importance", "priority", "recency", "file"), field="sort"),
            Option("--heading TEXT", "the first line (default '## Prior Knowledge'); '' for none", field="heading"),
            Option("--no-mark", "without the line that marks orders in notes", name="mark", value=False, field="mark"),
            Option("--follow R…", "show what this relation leads to, such as resolved_by", field="follow"),
            Option("--no-user", "without the user-wide workspace", name="user", value=False, field="user"),
            Option("--wait", "first index everything that is on disk now", value="disk", field="wait"),
            Option("--all", "use all workspaces"),
            Option("--kind K…", "only of this kind: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="filters.kind"),
            Option("--tag T…", "only with this tag", field="filters.tag"),
            Option("--path P…", "only this note, folder or glob", field="filters.path"),
            Option("--section TEXT…", "only below this heading or anchor", field="filters.section"),
            Option("--task ID…", "only of this task", field="filters.task"),
            Option("--session ID…", "only of this session", field="filters.session"),
            Option("--source TEXT…", "only from this source", field="filters.source"),
            Option("--priority P…", "only of this priority, P0 to P3", field="filters.priority"),
            Option("--lifecycle L…", "only ephemeral, session, task or project", field="filters.lifecycle"),
            Option("--status S…", "only of this status", field="filters.status"),
            Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares", field="filters.meta"),
            Option("--has KEY…", "only with any value of this key", field="filters.has"),
            Option("--related-to NOTE…", "only notes linked to or from this one", field="filters.related_to"),
            Option("--tier T…", "only hot, warm or cold by age and importance", field="filters.tier"),
            Option("--min-importance S", "only of this importance or more, from 0 to 1", parse=parse_fraction, field="filters.min_importance"),
            Option("--after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'", field="filters.after"),
            Option("--before DAY", "only before this day, month or year", field="filters.before"),
            Option("--archived", "only archived sections, which are left out otherwise", field="filters.archived"),
            Option("--expired", "only expired sections, which are left out otherwise", field="filters.expired"),
            Option("--include-archived", "archived sections too", field="filters.include_archived"),
            Option("--include-expired", "expired sections too", field="filters.include_expired"),
            Option("-w --workspace WS…", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd context", "memsyncd context why postgres --max-tokens 500", "memsyncd context --kind decision --heading '## Decisions so far'"),
        keeps_exclusions=True,
    )


def _make_recall() -> Command:
    return Command(
        call_operation("recall", "recall", show="show_recalled", found="memories"),
        summary="recall memories by keywords, topic and kind, within a budget",
        arguments=(
            Argument("keywords", "[KEYWORD…]", "any of these keywords", field="keywords"),
        ),
        options=(
            Option("--topic TEXT", "of this topic", field="topic"),
            Option("--kind K", "of this kind", field="kind"),
            Option("--text TEXT", "words, if nothing else finds a memory; by default the keywords", field="text"),
            Option("--max-tokens N", "the budget of all texts together, 100 to 50,000 tokens (default 2000)", field="max_tokens"),
            Option("--follow R…", "show what this relation leads to: resolved_by", field="follow"),
            Option("--tag T…", "only with this tag", field="filters.tag"),
            Option("--path P…", "only this note, folder or glob", field="filters.path"),
            Option("--section TEXT…", "only below this heading or anchor", field="filters.section"),
            Option("--task ID…", "only of this task", field="filters.task"),
            Option("--session ID…", "only of this session", field="filters.session"),
            Option("--source TEXT…", "only from this source", field="filters.source"),
            Option("--priority P…", "only of this priority, P0 to P3", field="filters.priority"),
            Option("--lifecycle L…", "only ephemeral, session, task or project", field="filters.lifecycle"),
            Option("--status S…", "only of this status", field="filters.status"),
            Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares", field="filters.meta"),
            Option("--has KEY…", "only with any value of this key", field="filters.has"),
            Option("--related-to NOTE…", "only notes linked to or from this one", field="filters.related_to"),
            Option("--tier T…", "only hot, warm or cold by age and importance", field="filters.tier"),
            Option("--min-importance S", "only of this importance or more, from 0 to 1", parse=parse_fraction, field="filters.min_importance"),
            Option("--after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'", field="filters.after"),
            Option("--before DAY", "only before this day, month or year", field="filters.before"),
            Option("--archived", "only archived sections, which are left out otherwise", field="filters.archived"),
            Option("--expired", "only expired sections, which are left out otherwise", field="filters.expired"),
            Option("--include-archived", "archived sections too", field="filters.include_archived"),
            Option("--include-expired", "expired sections too", field="filters.include_expired"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd recall redis timeout", "memsyncd recall --topic auth --kind error --follow resolved_by"),
    )


def _make_memory_view() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", prepare="make_view", fixed={"command": "view"}),
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


def _make_memory_create() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", stdin="file_text", fixed={"command": "create"}),
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


def _make_memory_str_replace() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", prepare="make_replacement", fixed={"command": "str_replace"}),
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


def _make_memory_insert() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", prepare="make_insertion", fixed={"command": "insert"}),
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


def _make_memory_delete() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", fixed={"command": "delete"}),
        summary="delete a note, or a folder with its contents",
        arguments=(
            Argument("path", "NOTE", "a path that begins with /memories; /memories/MEMORY.md is the workspace's MEMORY.md", field="path"),
        ),
        options=(
            Option("--if-digest DIGEST", "only if the note still has this digest, as shown by --json", field="if_digest"),
            Option("--dialect D", "answer as Anthropic's documents say (docs) or as its SDK does (sdk)", choices=("docs", "sdk"), field="dialect"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd memory delete /memories/redis.md",),
    )


def _make_memory_rename() -> Command:
    return Command(
        call_operation("notes", "memory", show="show_memory", fixed={"command": "rename"}),
        summary="move a note or a folder",
        arguments=(
            Argument("old_path", "OLD", "its path, /memories/…", field="old_path"),
            Argument("new_path", "NEW", "its new path", field="new_path"),
        ),
        options=(
            Option("--update-links", "change the links of all notes so that they stay right", field="update_links"),
            Option("--dry-run", "only name the notes whose links would be updated", field="dry_run"),
            Option("--if-digest DIGEST", "only if the note still has this digest, as shown by --json", field="if_digest"),
            Option("--dialect D", "answer as Anthropic's documents say (docs) or as its SDK does (sdk)", choices=("docs", "sdk"), field="dialect"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd memory rename /memories/draft.md /memories/redis.md", "memsyncd memory rename /memories/a.md /memories/b.md --update-links --dry-run"),
    )


def _make_memory() -> Command:
    return make_group(
        "memory",
        {
            "view": _make_memory_view(),
            "create": _make_memory_create(),
            "str_replace": _make_memory_str_replace(),
            "insert": _make_memory_insert(),
            "delete": _make_memory_delete(),
            "rename": _make_memory_rename(),
        },
        ("memsyncd memory view", "memsyncd memory create /memories/redis.md < redis.md"),
    )


def _make_clear() -> Command:
    return Command(
        load_action("notes", "clear"),
        summary="remove every note of memory, after a question",
        options=(
            Option("--yes", "do not ask", name="confirm", field="confirm"),
            Option("-w --workspace WS", "remove the notes of this workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd clear", "memsyncd clear -w scratch --yes"),
    )


def _make_remember() -> Command:
    return Command(
        call_operation("notes", "note.add", show="show_added", stdin="content", places=("note",)),
        summary="append a section to the note of its kind, or to a named note",
        arguments=(
            Argument("content", "[TEXT…]", "the text; - or none to read it from stdin", field="content"),
        ),
        options=(
            Option("--summary S", "the heading; by default the beginning of the text", field="summary"),
            Option("--kind K", "the kind of memory, which selects the note: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="kind"),
            Option("--tag T…", "add this tag", name="tags", field="tags"),
            Option("--importance S", "from 0 to 1; by default that of the kind", parse=parse_fraction, field="importance"),
            Option("--priority P", "P0, P1, P2 or P3", field="priority"),
            Option("--lifecycle L", "ephemeral, session, task or project", field="lifecycle"),
            Option("--source TEXT", "the source", field="source"),
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--session ID", "the session of an agent", field="session"),
            Option("--topic TEXT", "the topic, of at most 100 characters", field="topic"),
            Option("--keyword K…", "a keyword; at most 20", name="keywords", field="keywords"),
            Option("--scope TEXT", "a scope of your own", field="scope"),
            Option("--created DAY", "the day or time, if not now", field="created"),
            Option("--updated DAY", "the day or time of the last change", field="updated"),
            Option("--expires DAY", "a day or a time, from which on searches leave it out", field="expires"),
            Option("--meta KEY=VALUE…", "add metadata of your own", name="metadata", parse=parse_pair, field="metadata", collect=dict),
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


def _make_check() -> Command:
    return Command(
        call_operation("notes", "validate", show="show_faults", found="is_valid", places=("path",)),
        summary="check notes: metadata, and what is odd about their text",
        arguments=(
            Argument("path", "[PATH]", "a note, folder or glob; by default all", field="path"),
        ),
        options=(
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd check", "memsyncd check .memories/decisions.md"),
    )


def _make_get() -> Command:
    return Command(
        load_action("notes", "get"),
        summary="print a section, a note or some of its lines",
        arguments=(
            Argument("target", "ANCHOR|PATH[:A[-B]]", "a section's anchor, or a note, or some of its lines"),
        ),
        options=(
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd get .memories/redis.md:12-18", "memsyncd get '.memories/redis.md#redis/timeouts'", "memsyncd get MEMORY.md"),
    )


def _make_list() -> Command:
    return Command(
        load_action("notes", "workspaces:list_workspaces_or_notes"),
        summary="list workspaces, or notes with --notes",
        options=(
            Option("--sort S", "by decay, importance, priority, recency or file: relevance, decay, importance, priority, recency or file (default)", choices=("relevance", "decay", "importance", "priority", "recency", "file"), field="sort"),
            Option("--explain", "show what each section is worth at its age, and its tier", field="explain"),
            Option("--names", "print only the names of the workspaces"),
            Option("--notes", "list the notes of a workspace"),
            Option("--sections", "list notes with their sections"),
            Option("--kind K…", "only of this kind: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="filters.kind"),
            Option("--tag T…", "only with this tag", field="filters.tag"),
            Option("--path P…", "only this note, folder or glob", field="filters.path"),
            Option("--section TEXT…", "only below this heading or anchor", field="filters.section"),
            Option("--task ID…", "only of this task", field="filters.task"),
            Option("--session ID…", "only of this session", field="filters.session"),
            Option("--source TEXT…", "only from this source", field="filters.source"),
            Option("--priority P…", "only of this priority, P0 to P3", field="filters.priority"),
            Option("--lifecycle L…", "only ephemeral, session, task or project", field="filters.lifecycle"),
            Option("--status S…", "only of this status", field="filters.status"),
            Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares", field="filters.meta"),
            Option("--has KEY…", "only with any value of this key", field="filters.has"),
            Option("--related-to NOTE…", "only notes linked to or from this one", field="filters.related_to"),
            Option("--tier T…", "only hot, warm or cold by age and importance", field="filters.tier"),
            Option("--min-importance S", "only of this importance or more, from 0 to 1", parse=parse_fraction, field="filters.min_importance"),
            Option("--after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'", field="filters.after"),
            Option("--before DAY", "only before this day, month or year", field="filters.before"),
            Option("--archived", "only archived sections, which are left out otherwise", field="filters.archived"),
            Option("--expired", "only expired sections, which are left out otherwise", field="filters.expired"),
            Option("--include-archived", "archived sections too", field="filters.include_archived"),
            Option("--include-expired", "expired sections too", field="filters.include_expired"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd list", "memsyncd list --notes --kind decision", "memsyncd list -w notes --sections"),
    )


def _make_links() -> Command:
    return Command(
        load_action("links", "list_links"),
        summary="list links between notes, backlinks and dangling links",
        arguments=(
            Argument("target", "[ANCHOR|PATH]", "a note or section; without one, all links of the workspace"),
        ),
        options=(
            Option("--relation R…", "only typed links of this relation, such as resolved_by", field="relation"),
            Option("--depth N", "follow links this many steps from the note or section (default 1)", field="depth"),
            Option("--format F", "draw the links as well: dot, the language of Graphviz", choices=("dot",), field="format"),
            Option("--dangling", "only links to notes that do not exist", field="dangling"),
            Option("-n --limit N", "at most so many links (default 100)", field="limit"),
            Option("--out", "only links from it"),
            Option("--backlinks", "only links to it"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd links .memories/redis.md", "memsyncd links '.memories/errors.md#timeouts' --relation resolved_by --depth 3", "memsyncd links --dangling", "memsyncd links .memories/redis.md --depth 2 --format dot | dot -Tsvg > redis.svg"),
        gone={"--format svg": "Graphviz makes one: memsyncd links … --format dot | dot -Tsvg"},
    )


def _make_similar() -> Command:
    return Command(
        load_action("similar", "ask_for_similar"),
        summary="find sections that say nearly what a section or text says",
        arguments=(
            Argument("anchor", "[SECTION]", "a section: PATH#heading", field="anchor"),
        ),
        options=(
            Option("--text TEXT", "compare this text", field="text"),
            Option("--topic TOPIC", "compare the sections of this topic", field="topic"),
            Option("--min-similarity S", "from 0 to 1; from 0.7 of the words on both say nearly the same", parse=parse_fraction, field="min_similarity"),
            Option("-n --limit N", "at most so many sections or groups", field="limit"),
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("--stdin", "compare a text read from stdin"),
            Option("--duplicates", "plan which sections to merge: groups of near copies"),
            Option("--path P…", "with --duplicates: only this note, folder or glob"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd similar '.memories/errors.md#redis-timeouts'", "memsyncd similar --text 'Redis gives up after 30 s.'", "memsyncd similar --duplicates --path .memories"),
    )


def _make_patterns() -> Command:
    return Command(
        call_operation("similar", "patterns", show="show_patterns", prepare="compare_all", found="patterns"),
        summary="list what recurs in several workspaces",
        options=(
            Option("--kind K…", "only of this kind", field="kind"),
            Option("--topic TEXT", "only of this topic", field="topic"),
            Option("--min-similarity S", "from 0.1 to 1 (default 0.5)", parse=parse_fraction, field="min_similarity"),
            Option("--min-workspaces N", "in so many workspaces at least (default 2)", field="min_workspaces"),
            Option("-n --limit N", "at most so many patterns (default 20)", field="limit"),
            Option("-w --workspace WS…", "compare these workspaces: a name, an id or a folder in it; by default all", field="workspace"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd patterns", "memsyncd patterns --kind error --min-workspaces 3", "memsyncd patterns -w api -w web --topic redis"),
    )


def _make_stats() -> Command:
    return Command(
        call_operation("stats", "stats", show="show_counts", found="sections"),
        summary="count sections by kind, tag, task, month and size",
        options=(
            Option("--by G…", "count by kind, tag, task, month, size (these by default), session, source, priority, lifecycle, status, meta (other keys) or meta:KEY (its values)", field="by"),
            Option("-n --limit N", "at most so many values of each (default 20)", field="limit"),
            Option("--kind K…", "only of this kind: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="filters.kind"),
            Option("--tag T…", "only with this tag", field="filters.tag"),
            Option("--path P…", "only this note, folder or glob", field="filters.path"),
            Option("--section TEXT…", "only below this heading or anchor", field="filters.section"),
            Option("--task ID…", "only of this task", field="filters.task"),
            Option("--session ID…", "only of this session", field="filters.session"),
            Option("--source TEXT…", "only from this source", field="filters.source"),
            Option("--priority P…", "only of this priority, P0 to P3", field="filters.priority"),
            Option("--lifecycle L…", "only ephemeral, session, task or project", field="filters.lifecycle"),
            Option("--status S…", "only of this status", field="filters.status"),
            Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares", field="filters.meta"),
            Option("--has KEY…", "only with any value of this key", field="filters.has"),
            Option("--related-to NOTE…", "only notes linked to or from this one", field="filters.related_to"),
            Option("--tier T…", "only hot, warm or cold by age and importance", field="filters.tier"),
            Option("--min-importance S", "only of this importance or more, from 0 to 1", parse=parse_fraction, field="filters.min_importance"),
            Option("--after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'", field="filters.after"),
            Option("--before DAY", "only before this day, month or year", field="filters.before"),
            Option("--archived", "only archived sections, which are left out otherwise", field="filters.archived"),
            Option("--expired", "only expired sections, which are left out otherwise", field="filters.expired"),
            Option("--include-archived", "archived sections too", field="filters.include_archived"),
            Option("--include-expired", "expired sections too", field="filters.include_expired"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd stats", "memsyncd stats --by task --after 'last month'", "memsyncd stats --kind decision --by month --json", "memsyncd stats --by meta:owner"),
    )


def _make_accesses() -> Command:
    return Command(
        call_operation("stats", "access.stats", show="show_accesses", prepare="name_place", found="counts"),
        summary="count how often sections were recalled, and when last",
        arguments=(
            Argument("target", "[ANCHOR|PATH]", "a section, note or folder; without one, the whole workspace"),
        ),
        options=(
            Option("-n --limit N", "at most so many sections (default 20)", field="limit"),
            Option("--last", "the most recently recalled first, not the most often", value="last", field="sort"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd accesses", "memsyncd accesses .memories/redis.md --last", "memsyncd accesses '.memories/errors.md#timeouts' --json"),
    )


def _make_capture() -> Command:
    return Command(
        call_operation("capture", "capture", show="show_captured", prepare="make_artifacts"),
        summary="append what a step produced: artifacts, failure, answers",
        arguments=(
            Argument("step", "STEP", "the step's name; the configuration names its kind, as [[step]]", field="step"),
            Argument("file", "[FILE…]", "a markdown file that it produced; - for stdin"),
        ),
        options=(
            Option("--error TEXT", "the step failed with this message", field="error"),
            Option("--answer QUESTION=ANSWER…", "an answer of an interview", name="answers", parse=parse_pair, field="answers", collect=dict),
            Option("--run-id ID", "the run, kept with each section", field="run_id"),
            Option("--kind K", "the kind; by default that of the step", field="kind"),
            Option("--tag T…", "add this tag", name="tags", field="tags"),
            Option("--stdin", "read an artifact from stdin, like FILE -"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd capture research report.md --run-id r-7", "memsyncd capture build --run-id r-7 --error 'exit 2: no rule to make target x'", "memsyncd capture interview --answer 'Core problem=notes are lost'"),
    )


def _make_index_project() -> Command:
    return Command(
        call_operation("project", "index_project", show="show_summaries"),
        summary="summarise README, manifests and CI of a project in one note",
        options=(
            Option("--source PATH[=TAG,TAG]…", "summarise this file as well; wildcards may stand in its last part", name="sources", parse=load_parser("project", "parse_source"), field="sources"),
            Option("--dry-run", "change nothing; print what would be done", field="dry_run"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd index-project --dry-run", "memsyncd index-project --source docs/rules.md=index:invariants"),
    )


def _make_sources() -> Command:
    return Command(
        call_operation("project", "sources", show="show_sources"),
        summary="list the files that index-project summarises",
        options=(
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd sources",),
    )


def _make_history_purge() -> Command:
    return Command(
        call_operation("history", "history.purge", show="show_purged", prepare="find_purged", found="revisions"),
        summary="delete revisions for good; notes stay unchanged",
        arguments=(
            Argument("target", "[ANCHOR|PATH]", "all revisions of a section, a note or a folder"),
        ),
        options=(
            Option("--revision N", "delete revision N", field="revision"),
            Option("--containing TEXT", "delete those whose text contained this; - reads it from stdin", field="containing"),
            Option("--all", "delete every revision of the workspace", field="all"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd history purge --containing - < pasted-token.txt", "memsyncd history purge .memories/draft.md"),
    )


def _make_history() -> Command:
    return Command(
        call_operation("history", "history", show="show_revisions", prepare="find_target", found="revisions"),
        summary="list the changes of notes, with time and writer",
        arguments=(
            Argument("target", "[ANCHOR|PATH]", "a section, a note or a folder; by default the whole workspace"),
        ),
        options=(
            Option("-n --limit N", "at most N revisions (default 20)", field="limit"),
            Option("--before N", "only revisions older than N", field="before"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd history", "memsyncd history .memories/redis.md -n 5", "memsyncd history 'MEMORY.md#redis/timeouts'"),
        commands={"purge": _make_history_purge()},
    )


def _make_diff() -> Command:
    return Command(
        call_operation("history", "diff", show="show_diff", prepare="find_change", found="diff"),
        summary="show the change of a revision",
        arguments=(
            Argument("target", "[ANCHOR|PATH|N]", "a section, a note, or the number of a revision"),
        ),
        options=(
            Option("--revision N", "revision N, as the number alone does", field="revision"),
            Option("--to-now", "up to the present text instead of the revision's", field="to_now"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd diff .memories/redis.md", "memsyncd diff 42", "memsyncd diff 42 --to-now"),
    )


def _make_undo() -> Command:
    return Command(
        load_action("history", "undo"),
        summary="restore the text from before a revision",
        arguments=(
            Argument("target", "[ANCHOR|PATH|N]", "a section, a note, or the number of a revision"),
        ),
        options=(
            Option("--revision N", "revision N, as the number alone does", field="revision"),
            Option("--change-set N", "all changes of change set N, such as renaming a folder", field="change_set"),
            Option("--yes", "undo without a question, even if that deletes a note that memsyncd did not make, or undoes changes of other programs to several notes", name="confirm", field="confirm"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd undo .memories/redis.md", "memsyncd undo 42", "memsyncd undo 'MEMORY.md#redis/timeouts'"),
    )


def _make_topic_list() -> Command:
    return Command(
        call_operation("topics", "topic.list", show="show_topics", found="topics", places=("path",)),
        summary="list topics, which are notes, with their fields and their salience",
        arguments=(
            Argument("path", "[PATH]", "only notes at this path, folder or glob", field="path"),
        ),
        options=(
            Option("--sort S", "the most salient first, the latest first, or by path: salience (default), recency or file", choices=("salience", "recency", "file"), field="sort"),
            Option("--include-archived", "archived ones too", field="include_archived"),
            Option("-n --limit N", "at most so many (default 50)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd topic list", "memsyncd topic list .memories/services --sort recency"),
    )


def _make_topic_get() -> Command:
    return Command(
        call_operation("topics", "topic.get", show="show_topic"),
        summary="read a topic: its summary, its fields with their values, its relations",
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


def _make_topic_create() -> Command:
    return Command(
        call_operation("topics", "topic.create", show="show_written"),
        summary="create a note for a topic, with fields and relations",
        arguments=(
            Argument("title", "TITLE", "its title, of at most 200 characters", field="title"),
            Argument("summary", "[TEXT]", "the text below the title", field="summary"),
        ),
        options=(
            Option("--field NAME=TEXT…", "a field by its name, with its first value", name="fields", parse=load_parser("topics", "parse_pair_or_name"), field="fields", collect=dict),
            Option("--relate KIND=NOTE…", "a relation, such as resolved_by=redis-timeouts", name="relations", parse=load_parser("topics", "parse_relation"), field="relations"),
            Option("--kind K", "the kind of memory, one word such as decision", field="kind"),
            Option("--tag T…", "a word to filter by; at most 32", name="tags", field="tags"),
            Option("--importance S", "from 0 to 1; by default that of the kind", parse=parse_fraction, field="importance"),
            Option("--priority P", "P0 to P3", field="priority"),
            Option("--lifecycle L", "ephemeral, session, task or project", field="lifecycle"),
            Option("--source TEXT", "where it comes from", field="source"),
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--session ID", "the session of an agent", field="session"),
            Option("--scope TEXT", "a scope of your own", field="scope"),
            Option("--keyword K…", "a word that recall finds it by; at most 20", name="keywords", field="keywords"),
            Option("--expires DAY", "a day or a time, from which on searches leave it out", field="expires"),
            Option("--meta KEY=VALUE…", "keys of your own", name="metadata", parse=load_parser("topics", "parse_pair_or_name"), field="metadata", collect=dict),
            Option("--note PATH", "the note to create, by default one of the memory folder that is named after the title", field="note"),
            Option("--on-similar DO", "if a topic or section says nearly the same: add creates the topic, append appends summary and fields to the topic that is there, report writes nothing (default add)", choices=("add", "append", "report"), field="on_similar"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic create 'Auth service' 'Who you are.' --field 'Status=Redis 7'",),
    )


def _make_topic_patch() -> Command:
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
            Option("--tag T…", "a tag that it is to have; others go", name="tags", field="tags"),
            Option("--importance S", "from 0 to 1; by default that of the kind", parse=parse_fraction, field="importance"),
            Option("--priority P", "P0 to P3", field="priority"),
            Option("--lifecycle L", "ephemeral, session, task or project", field="lifecycle"),
            Option("--source TEXT", "where it comes from", field="source"),
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--session ID", "the session of an agent", field="session"),
            Option("--scope TEXT", "a scope of your own", field="scope"),
            Option("--keyword K…", "a word that recall finds it by; at most 20", name="keywords", field="keywords"),
            Option("--expires DAY", "a day or a time, from which on searches leave it out", field="expires"),
            Option("--meta KEY=VALUE…", "keys of one's own; an empty text removes one", name="metadata", parse=load_parser("topics", "parse_pair_or_name"), field="metadata", collect=dict),
            Option("--relate KIND=NOTE…", "a relation to add, such as resolved_by=redis-timeouts; one that is there already stays", parse=load_parser("topics", "parse_relation"), field="relate"),
            Option("--unrelate KIND=NOTE…", "a relation to remove", parse=load_parser("topics", "parse_relation"), field="unrelate"),
            Option("--if-digest DIGEST", "only if the note still has this digest; if it has another, nothing is done", field="if_digest"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic patch auth-service --importance 0.9 --relate part_of=platform",),
    )


def _make_topic_archive() -> Command:
    return Command(
        call_operation("topics", "topic.archive", show="upkeep:show_plan", found="archived restored"),
        summary="archive whole topics; a dry run first",
        arguments=(
            Argument("topics", "TOPIC…", "notes by path, name in the memory folder, title or alias", field="topics"),
        ),
        options=(
            Option("--apply", "do it; otherwise only what would change is shown", name="dry_run", value=False, field="dry_run"),
            Option("--plan DIGEST", "only if the plan is still this one, as a dry run names it", field="plan"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic archive auth-service --apply",),
    )


def _make_topic_restore() -> Command:
    return Command(
        call_operation("topics", "topic.restore", show="upkeep:show_plan", found="archived restored"),
        summary="restore archived topics, byte for byte",
        arguments=(
            Argument("topics", "TOPIC…", "notes by path, name in the memory folder, title or alias", field="topics"),
        ),
        options=(
            Option("--apply", "do it; otherwise only what would change is shown", name="dry_run", value=False, field="dry_run"),
            Option("--plan DIGEST", "only if the plan is still this one, as a dry run names it", field="plan"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic restore auth-service --apply",),
    )


def _make_topic_append() -> Command:
    return Command(
        call_operation("topics", "field.append", show="show_written", stdin="content"),
        summary="append a value to a field of a topic, above the earlier ones",
        arguments=(
            Argument("topic", "TOPIC", "the note by its path, its name in the memory folder, its title or an alias", field="topic"),
            Argument("field", "FIELD", "the heading of a section, or its anchor", field="field"),
            Argument("content", "[TEXT…]", "the value; - or none to read it from stdin", field="content"),
        ),
        options=(
            Option("--kind K", "the kind of the field; by default it stays as it is, like the following ones", field="kind"),
            Option("--tag T…", "a tag that the field gets besides its others", name="tags", field="tags"),
            Option("--importance S", "from 0 to 1; by default that of the kind", parse=parse_fraction, field="importance"),
            Option("--source TEXT", "where it comes from", field="source"),
            Option("--keep N", "so many values stay in the note, by default memory.field_values of the configuration; the others are in field.history", field="keep"),
            Option("--on-similar DO", "if a section says nearly the same: add appends to the field that is named, append to the section that is there, report writes nothing (default add)", choices=("add", "append", "report"), field="on_similar"),
            Option("--if-digest DIGEST", "only if the note still has this digest; if it has another, nothing is done", field="if_digest"),
            Option("--stdin", "read the text from stdin, like TEXT -"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd topic append auth-service Status 'Redis 8 runs in production.'",),
    )


def _make_topic_history() -> Command:
    return Command(
        call_operation("topics", "field.history", show="show_history", found="values"),
        summary="list the values that a field has and had, the newest first",
        arguments=(
            Argument("topic", "TOPIC", "the note by its path, its name in the memory folder, its title or an alias", field="topic"),
            Argument("field", "FIELD", "the heading of a section, or its anchor", field="field"),
        ),
        options=(
            Option("-n --limit N", "at most so many (default 50)", field="limit"),
            Option("--before N", "only values of revisions older than this one", field="before"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd topic history auth-service Status",),
    )


def _make_topic() -> Command:
    return make_group(
        "topic",
        {
            "list": _make_topic_list(),
            "get": _make_topic_get(),
            "create": _make_topic_create(),
            "patch": _make_topic_patch(),
            "archive": _make_topic_archive(),
            "restore": _make_topic_restore(),
            "append": _make_topic_append(),
            "history": _make_topic_history(),
        },
        ("memsyncd topic list", "memsyncd topic append auth-service Status 'Redis 8'"),
    )


def _make_task_ready() -> Command:
    return Command(
        call_operation("tasks", "task.ready", show="show_ready", found="items"),
        summary="list what can be worked on: P0 first, then the oldest",
        arguments=(
            Argument("task", "[TASK]", "the task, such as WU-123; without one, all tasks", field="task"),
        ),
        options=(
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("-n --limit N", "at most so many (default 50)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd task ready WU-123",),
    )


def _make_task_list() -> Command:
    return Command(
        call_operation("tasks", "task.list", show="show_list", found="items"),
        summary="list all sections of a task, by path and line",
        arguments=(
            Argument("task", "TASK", "the task, such as WU-123", field="task"),
        ),
        options=(
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd task list WU-123",),
    )


def _make_task_context() -> Command:
    return Command(
        call_operation("tasks", "task.context", show="show_text", found="text"),
        summary="print profile, summaries, task and discoveries for a prompt",
        arguments=(
            Argument("task", "TASK", "the task, such as WU-123", field="task"),
        ),
        options=(
            Option("--max-bytes N", "at most so many bytes (default 4096)", field="max_bytes"),
            Option("--sort S", "each part by recency or by decay (default recency)", choices=("recency", "decay"), field="sort"),
            Option("--no-mark", "without the line that marks orders in notes", name="mark", value=False, field="mark"),
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd task context WU-123 --max-bytes 4096",),
    )


def _make_task_checkpoint() -> Command:
    return Command(
        call_operation("tasks", "task.checkpoint", show="show_checkpoint"),
        summary="append the progress of a task or session",
        arguments=(
            Argument("content", "TEXT", "the progress: what is done, and what is next", field="content"),
        ),
        options=(
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--session ID", "the session of an agent", field="session"),
            Option("--meta KEY=VALUE…", "keys of the section's own, such as milestone=ports", name="metadata", parse=parse_pair, field="metadata", collect=dict),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd task checkpoint 'Criteria 1-3 are met.' --task WU-123",),
    )


def _make_task_summarize() -> Command:
    return Command(
        call_operation("tasks", "task.summarize", show="show_summary", found="text"),
        summary="print a summary of a task; --write keeps it",
        arguments=(
            Argument("task", "TASK", "the task, such as WU-123", field="task"),
        ),
        options=(
            Option("--content TEXT", "the summary, if the caller has made it; else sentences of the sections are chosen", field="content"),
            Option("--max-bytes N", "at most so many bytes (default 1000)", field="max_bytes"),
            Option("--write", "append the summary as a section", name="dry_run", value=False, field="dry_run"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd task summarize WU-123 --write",),
    )


def _make_task() -> Command:
    return make_group(
        "task",
        {
            "ready": _make_task_ready(),
            "list": _make_task_list(),
            "context": _make_task_context(),
            "checkpoint": _make_task_checkpoint(),
            "summarize": _make_task_summarize(),
        },
        ("memsyncd task ready WU-123", "memsyncd task context WU-123"),
    )


def _make_session_start() -> Command:
    return Command(
        call_operation("tasks", "session.start", show="show_start"),
        summary="record that a session begins",
        arguments=(
            Argument("session", "SESSION", "the session's id", field="session"),
            Argument("content", "[TEXT]", "the work that the session is to do", field="content"),
        ),
        options=(
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--agent NAME", "show the signals to this agent, besides the signals to the session and the task", field="agent"),
            Option("--max-bytes N", "at most so many bytes (default 4096)", field="max_bytes"),
            Option("--no-mark", "without the line that marks orders in notes", name="mark", value=False, field="mark"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd session start s-7 'Finish the ports.' --task WU-123",),
    )


def _make_session_resume() -> Command:
    return Command(
        call_operation("tasks", "session.resume", show="show_text", found="text"),
        summary="print what restores an agent after its context was cleared",
        arguments=(
            Argument("session", "[SESSION]", "the session's id", field="session"),
        ),
        options=(
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--agent NAME", "show the signals to this agent, besides the signals to the session and the task", field="agent"),
            Option("--max-bytes N", "at most so many bytes (default 4096)", field="max_bytes"),
            Option("--no-mark", "without the line that marks orders in notes", name="mark", value=False, field="mark"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd session resume s-7 --agent claude",),
    )


def _make_session() -> Command:
    return make_group(
        "session",
        {
            "start": _make_session_start(),
            "resume": _make_session_resume(),
        },
        ("memsyncd session resume s-7",),
    )


def _make_triage() -> Command:
    return Command(
        call_operation("tasks", "triage", show="show_triage", found="open closed"),
        summary="count sections tagged as bugs, and make tasks of them",
        options=(
            Option("--tag T…", "sections with this tag, by default bug", field="tag"),
            Option("--promote ANCHOR", "make a task of this section: a new section that links to it", field="promote"),
            Option("--task ID", "the name of the task to make", field="task"),
            Option("--priority P", "its priority, P0 to P3", field="priority"),
            Option("-n --limit N", "at most so many (default 50)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd triage", "memsyncd triage --promote '.memories/errors.md#timeouts' --task WU-130"),
    )


def _make_profile() -> Command:
    return Command(
        call_operation("tasks", "profile", show="show_profile", found="items"),
        summary="list what holds for the whole project",
        options=(
            Option("--tag T…", "only sections with one of these tags", field="tag"),
            Option("-n --limit N", "at most so many (default 20)", field="limit"),
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd profile", "memsyncd profile --tag decision --limit 5"),
    )


def _make_signal_send() -> Command:
    return Command(
        call_operation("signals", "signal.send", show="show_sent"),
        summary="send a signal to agents, sessions or tasks",
        arguments=(
            Argument("content", "TEXT", "the message", field="content"),
        ),
        options=(
            Option("--type TYPE", "such as completion, blocked, question (default note)", field="type"),
            Option("--agent NAME…", "to this agent", name="agents", field="agents"),
            Option("--session ID…", "to this session", name="sessions", field="sessions"),
            Option("--task ID…", "to everybody on this task", name="tasks", field="tasks"),
            Option("--key KEY", "send it once, however often this is repeated", field="key"),
            Option("--expires TIME", "after this time nobody receives it: 30m, 12h, 7d", name="expires_s", parse=load_parser("signals", "parse_lifetime"), field="expires_s"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the sender's name (default cli)", field="client"),
            JSON,
        ),
        examples=("memsyncd signal send --task WU-124 --type completion 'WU-123 is done'",),
    )


def _make_signal_inbox() -> Command:
    return Command(
        load_action("signals", "show_inbox"),
        summary="list the signals to an agent, a session or a task",
        options=(
            Option("--agent NAME", "the agent that reads", field="agent"),
            Option("--session ID", "the session that reads", field="session"),
            Option("--task ID", "the task that the signals are about", field="task"),
            Option("--type TYPE", "only signals of this type, such as completion, blocked or question", field="type"),
            Option("--all", "acknowledged ones too", name="include_read", field="include_read"),
            Option("-n --limit N", "at most so many (default 50)", field="limit"),
            Option("--ack", "acknowledge what is listed"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd signal inbox --agent claude --task WU-124 --ack",),
    )


def _make_signal_outbox() -> Command:
    return Command(
        call_operation("signals", "signal.outbox", show="show_signals", found="signals"),
        summary="list the signals that were sent, and who has read them",
        options=(
            Option("--all", "of all senders", name="everyone", field="everyone"),
            Option("-n --limit N", "at most so many (default 50)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the sender's name (default cli)", field="client"),
            JSON,
        ),
        examples=("memsyncd signal outbox --all",),
    )


def _make_signal_ack() -> Command:
    return Command(
        call_operation("signals", "signal.ack", show="show_acked", prepare="take_numbers", found="acked already"),
        summary="acknowledge signals, so that this reader receives them no more",
        arguments=(
            Argument("signals", "NUMBER…", "the numbers of the signals", field="signals"),
        ),
        options=(
            Option("--agent NAME", "the agent that reads", field="agent"),
            Option("--session ID", "the session that reads", field="session"),
            Option("--task ID", "the task that the signals are about", field="task"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd signal ack 12 13 --agent claude",),
    )


def _make_signal() -> Command:
    return make_group(
        "signal",
        {
            "send": _make_signal_send(),
            "inbox": _make_signal_inbox(),
            "outbox": _make_signal_outbox(),
            "ack": _make_signal_ack(),
        },
        ("memsyncd signal send --agent reviewer 'ready for review'", "memsyncd signal inbox --agent reviewer --ack"),
    )


def _make_archive() -> Command:
    return Command(
        call_operation("upkeep", "archive", show="show_plan", prepare="name_memories", found="archived restored"),
        summary="archive memories by name, filters or decay; a dry run first",
        arguments=(
            Argument("anchors", "[ANCHOR…]", "memories by their anchors", field="anchors"),
        ),
        options=(
            Option("--apply", "do it; otherwise only what would change is shown", name="dry_run", value=False, field="dry_run"),
            Option("--plan DIGEST", "only if the plan is still this one, as a dry run names it", field="plan"),
            Option("--below S", "only memories whose decay is below this; if nothing else selects memories, by default that of the configuration, 0.1", parse=load_parser("upkeep", "parse_decay"), field="below"),
            Option("--kind K…", "only of this kind: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="filters.kind"),
            Option("--tag T…", "only with this tag", field="filters.tag"),
            Option("--path P…", "only this note, folder or glob", field="filters.path"),
            Option("--section TEXT…", "only below this heading or anchor", field="filters.section"),
            Option("--task ID…", "only of this task", field="filters.task"),
            Option("--session ID…", "only of this session", field="filters.session"),
            Option("--source TEXT…", "only from this source", field="filters.source"),
            Option("--priority P…", "only of this priority, P0 to P3", field="filters.priority"),
            Option("--lifecycle L…", "only ephemeral, session, task or project", field="filters.lifecycle"),
            Option("--status S…", "only of this status", field="filters.status"),
            Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares", field="filters.meta"),
            Option("--has KEY…", "only with any value of this key", field="filters.has"),
            Option("--related-to NOTE…", "only notes linked to or from this one", field="filters.related_to"),
            Option("--tier T…", "only hot, warm or cold by age and importance", field="filters.tier"),
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
    )


def _make_unarchive() -> Command:
    return Command(
        call_operation("upkeep", "archive.restore", show="show_plan", prepare="name_memories", found="archived restored"),
        summary="restore archived memories, byte for byte",
        arguments=(
            Argument("anchors", "[ANCHOR…]", "memories by their anchors", field="anchors"),
        ),
        options=(
            Option("--apply", "do it; otherwise only what would change is shown", name="dry_run", value=False, field="dry_run"),
            Option("--plan DIGEST", "only if the plan is still this one, as a dry run names it", field="plan"),
            Option("--kind K…", "only of this kind: preference, error, solution_approach, decision, research, strategy, procedure, client_pattern, insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]", field="filters.kind"),
            Option("--tag T…", "only with this tag", field="filters.tag"),
            Option("--path P…", "only this note, folder or glob", field="filters.path"),
            Option("--section TEXT…", "only below this heading or anchor", field="filters.section"),
            Option("--task ID…", "only of this task", field="filters.task"),
            Option("--session ID…", "only of this session", field="filters.session"),
            Option("--source TEXT…", "only from this source", field="filters.source"),
            Option("--priority P…", "only of this priority, P0 to P3", field="filters.priority"),
            Option("--lifecycle L…", "only ephemeral, session, task or project", field="filters.lifecycle"),
            Option("--status S…", "only of this status", field="filters.status"),
            Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares", field="filters.meta"),
            Option("--has KEY…", "only with any value of this key", field="filters.has"),
            Option("--related-to NOTE…", "only notes linked to or from this one", field="filters.related_to"),
            Option("--tier T…", "only hot, warm or cold by age and importance", field="filters.tier"),
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
    )


def _make_cleanup() -> Command:
    return Command(
        call_operation("upkeep", "cleanup", show="show_plan", found="archived restored"),
        summary="archive memories past their time; a dry run first",
        options=(
            Option("--apply", "do it; otherwise only what would change is shown", name="dry_run", value=False, field="dry_run"),
            Option("--plan DIGEST", "only if the plan is still this one, as a dry run names it", field="plan"),
            Option("--below S", "also archive memories whose decay is below this", parse=load_parser("upkeep", "parse_decay"), field="below"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd cleanup", "memsyncd cleanup --below 0.1 --apply"),
    )


def _make_promote() -> Command:
    return Command(
        call_operation("upkeep", "promote", show="show_promoted", places=("anchor", "note")),
        summary="copy a memory to the project's note, as lasting knowledge",
        arguments=(
            Argument("anchor", "[ANCHOR]", "a memory by its anchor", field="anchor"),
        ),
        options=(
            Option("--task ID", "all summaries of this task instead", field="task"),
            Option("--tag T", "decision, convention, pattern, pitfall, interface, invariant, faq, or as configured", field="tag"),
            Option("--note PATH", "the note to promote to; by default the configured one, .memories/project.md", field="note"),
            Option("--dry-run", "change nothing, and answer what would be promoted", field="dry_run"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd promote '.memories/summaries.md#summaries/retries' --tag pattern", "memsyncd promote --task WU-123 --tag decision"),
    )


def _make_add() -> Command:
    return Command(
        call_operation("workspaces", "workspace.add", show="show_added_workspaces", prepare="name_folder", is_wide=True),
        summary="watch and index a folder",
        arguments=(
            Argument("path", "PATH", "the folder", field="path"),
        ),
        options=(
            Option("--name NAME", "the workspace's name; by default the folder's", field="name"),
            Option("--preset P", "memory: MEMORY.md and .memories/; vault: every note; claude-code: the memory of each project; else the folder decides", choices=("memory", "vault", "claude-code"), field="preset"),
            Option("--include G…", "also index these, such as 'docs/**/*.md', and no longer the ones named before", field="include"),
            Option("--exclude G…", "do not index these files", field="exclude"),
            Option("--read-only G…", "also index these, and never write", field="read_only"),
            Option("--memory-dir D", "the folder to write memories to; . for PATH itself", field="memory_dir"),
            JSON,
        ),
        examples=("memsyncd add .", "memsyncd add ~/code/api --include 'docs/**/*.md' --read-only README.md", "memsyncd add ~/notes --preset vault --exclude drafts", "memsyncd add ~/.claude --preset claude-code"),
    )


def _make_remove() -> Command:
    return Command(
        call_operation("workspaces", "workspace.remove", show="show_removed", is_wide=True),
        summary="stop watching a folder and delete its index; notes stay",
        arguments=(
            Argument("workspace", "WS", "a name, an id or the folder", field="workspace"),
        ),
        options=(
            JSON,
        ),
        examples=("memsyncd remove notes", "memsyncd remove ~/notes"),
    )


def _make_discover() -> Command:
    return Command(
        load_action("workspaces", "discover_places"),
        summary="list memories of agents, vaults and rules here; add them",
        arguments=(
            Argument("names", "[NAME…]", "with --add: only these of the places"),
        ),
        options=(
            Option("--add", "add the named places, or all, after a question"),
            Option("-y --yes", "add all without asking; needed without a terminal"),
            JSON,
        ),
        examples=("memsyncd discover", "memsyncd discover --add claude-code vault", "memsyncd discover --add --yes"),
    )


def _make_sync() -> Command:
    return Command(
        load_action("workspaces", "sync_index"),
        summary="bring the index up to date with the disk now",
        options=(
            Option("--full", "read and hash every note again, even if its size and times are unchanged", field="full"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--timeout-ms MS", "give up after this long; by default wait until done", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd sync", "memsyncd sync --full -w notes"),
    )


def _make_reindex() -> Command:
    return Command(
        load_action("workspaces", "reindex"),
        summary="rebuild the index; searches go on meanwhile",
        options=(
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--timeout-ms MS", "give up after this long; by default wait until done", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd reindex", "memsyncd reindex -w notes"),
    )


def _make_watch() -> Command:
    return Command(
        load_action("changes", "watch_changes"),
        summary="print changes as they are indexed, one a line",
        options=(
            Option("--path G…", "only notes that match", name="paths", field="paths"),
            Option("--all", "watch all workspaces"),
            Option("-w --workspace WS", "watch this workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON_LINES,
        ),
        examples=("memsyncd watch", "memsyncd watch --all --json"),
    )


def _make_semantic_status() -> Command:
    return Command(
        load_action("semantic", "show_coverage"),
        summary="show how much of each workspace it covers",
        options=(
            Option("-w --workspace WS", "of this workspace alone: a name, an id or a folder in it; of all by default", field="workspace"),
            JSON,
        ),
        examples=("memsyncd semantic status",),
    )


def _make_semantic_enable() -> Command:
    return Command(
        load_action("semantic", "switch_on"),
        summary="switch it on in the configuration file",
        options=(
            JSON,
        ),
        examples=("memsyncd semantic enable",),
    )


def _make_semantic_disable() -> Command:
    return Command(
        load_action("semantic", "switch_off"),
        summary="switch it off, and delete the vectors",
        options=(
            JSON,
        ),
        examples=("memsyncd semantic disable",),
    )


def _make_semantic_warm() -> Command:
    return Command(
        load_action("semantic", "wait_for_vectors"),
        summary="make the vectors that are missing now, and load the model",
        options=(
            Option("--again", "make all vectors again", field="again"),
            Option("-w --workspace WS", "of this workspace alone: a name, an id or a folder in it; of all by default", field="workspace"),
            JSON,
        ),
        examples=("memsyncd semantic warm", "memsyncd semantic warm --again"),
    )


def _make_semantic() -> Command:
    return make_group(
        "semantic",
        {
            "status": _make_semantic_status(),
            "enable": _make_semantic_enable(),
            "disable": _make_semantic_disable(),
            "warm": _make_semantic_warm(),
        },
        ("memsyncd semantic enable", "memsyncd semantic status"),
    )


def _make_backup() -> Command:
    return Command(
        load_action("records", "save_backup"),
        summary="save the history of a workspace to a file",
        arguments=(
            Argument("file", "FILE", "the file to write; - writes it to stdout"),
        ),
        options=(
            Option("-f --force", "overwrite FILE if it exists"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd backup history.db", "memsyncd backup - -w notes | ssh host 'cat > notes.db'"),
    )


def _make_restore() -> Command:
    return Command(
        load_action("records", "restore_backup"),
        summary="put a saved history back, here or on another machine",
        arguments=(
            Argument("file", "FILE", "a file written by `memsyncd backup`; - reads it from stdin. Notes stay unchanged, and the present history is set aside, not deleted. Secrets that were purged come back only if the file still has them"),
        ),
        options=(
            Option("--adopt", "restore the history of another workspace, which is refused otherwise", field="adopt"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            JSON,
        ),
        examples=("memsyncd restore history.db", "ssh host cat notes.db | memsyncd restore - -w notes"),
        gone={"--replace": "leave it out: a restore sets the present history aside by itself"},
    )


COMMANDS: dict[str, tuple[str, str, Callable[[], Command]]] = {
    "status": ("Maintain", "show the state of the daemon and its workspaces", _make_status),
    "problems": ("Maintain", "list the problems of notes and folders", _make_problems),
    "metrics": ("Maintain", "print the daemon's counters in Prometheus format", _make_metrics),
    "search": ("Find", "find passages by words and phrases", _make_search),
    "context": ("Find", "print memory for a prompt, within a budget", _make_context),
    "recall": ("Find", "recall memories by keywords, topic and kind, within a budget", _make_recall),
    "memory": ("Write", "view and edit notes with the commands of the memory tool", _make_memory),
    "clear": ("Write", "remove every note of memory, after a question", _make_clear),
    "remember": ("Write", "append a section to the note of its kind, or to a named note", _make_remember),
    "check": ("Write", "check notes: metadata, and what is odd about their text", _make_check),
    "get": ("Find", "print a section, a note or some of its lines", _make_get),
    "list": ("Find", "list workspaces, or notes with --notes", _make_list),
    "links": ("Find", "list links between notes, backlinks and dangling links", _make_links),
    "similar": ("Find", "find sections that say nearly what a section or text says", _make_similar),
    "patterns": ("Find", "list what recurs in several workspaces", _make_patterns),
    "stats": ("Find", "count sections by kind, tag, task, month and size", _make_stats),
    "accesses": ("Find", "count how often sections were recalled, and when last", _make_accesses),
    "capture": ("Write", "append what a step produced: artifacts, failure, answers", _make_capture),
    "index-project": ("Write", "summarise README, manifests and CI of a project in one note", _make_index_project),
    "sources": ("Write", "list the files that index-project summarises", _make_sources),
    "history": ("Write", "list the changes of notes, with time and writer", _make_history),
    "diff": ("Write", "show the change of a revision", _make_diff),
    "undo": ("Write", "restore the text from before a revision", _make_undo),
    "topic": ("Write", "notes as topics with fields: append, history, archive", _make_topic),
    "task": ("Write", "list, checkpoint and summarise tasks, and print their context", _make_task),
    "session": ("Write", "begin and resume sessions of agents", _make_session),
    "triage": ("Write", "count sections tagged as bugs, and make tasks of them", _make_triage),
    "profile": ("Find", "list what holds for the whole project", _make_profile),
    "signal": ("Write", "send and read signals between agents", _make_signal),
    "archive": ("Maintain", "archive memories by name, filters or decay; a dry run first", _make_archive),
    "unarchive": ("Maintain", "restore archived memories, byte for byte", _make_unarchive),
    "cleanup": ("Maintain", "archive memories past their time; a dry run first", _make_cleanup),
    "promote": ("Write", "copy a memory to the project's note, as lasting knowledge", _make_promote),
    "add": ("Set up", "watch and index a folder", _make_add),
    "remove": ("Set up", "stop watching a folder and delete its index; notes stay", _make_remove),
    "discover": ("Set up", "list memories of agents, vaults and rules here; add them", _make_discover),
    "sync": ("Maintain", "bring the index up to date with the disk now", _make_sync),
    "reindex": ("Maintain", "rebuild the index; searches go on meanwhile", _make_reindex),
    "watch": ("Find", "print changes as they are indexed, one a line", _make_watch),
    "semantic": ("Maintain", "search by meaning, too: status, enable, disable, warm", _make_semantic),
    "backup": ("Maintain", "save the history of a workspace to a file", _make_backup),
    "restore": ("Maintain", "put a saved history back, here or on another machine", _make_restore),
}
"""The heading, the summary and the definition of each command."""
