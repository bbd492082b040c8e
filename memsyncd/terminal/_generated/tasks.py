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


def make_task_ready() -> Command:
    return Command(
        call_operation("tasks", "task.ready", show="show_ready", found="items"),
        summary="list what can be worked on: P0 first, then the oldest",
        arguments=(
            Argument("task", "[TASK]", "the task, such as WU-123; by default all tasks", field="task"),
        ),
        options=(
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("-n --limit N", "at most so many results (default 50)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            IDS,
            PATHS,
            make_format(("kind", "tags", "importance", "is_importance_stated", "priority", "lifecycle", "task", "session", "source", "created", "updated", "expires", "is_expired", "status", "day", "is_day_of_file", "is_day_of_name", "meta", "id", "anchor", "path", "start_line", "end_line", "title", "heading", "text")),
            JSON,
        ),
        examples=("memsyncd task ready WU-123",),
        in_each=True,
        lists="items",
    )


def make_task_list() -> Command:
    return Command(
        call_operation("tasks", "task.list", show="show_list", found="items tasks"),
        summary="list tasks, or all sections of one",
        arguments=(
            Argument("task", "[TASK]", "the task, such as WU-123; without it, all tasks are listed", field="task"),
        ),
        options=(
            Option("-n --limit N", "at most so many tasks, if no task is named (default 100)", field="limit"),
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            IDS,
            PATHS,
            make_format(("kind", "tags", "importance", "is_importance_stated", "priority", "lifecycle", "task", "session", "source", "created", "updated", "expires", "is_expired", "status", "day", "is_day_of_file", "is_day_of_name", "meta", "id", "anchor", "path", "start_line", "end_line", "title", "heading", "text", "name", "sections", "open", "first", "last", "tasks", "is_ended")),
            JSON,
        ),
        examples=("memsyncd task list", "memsyncd task list WU-123"),
        in_each=True,
        lists="items tasks",
    )


def make_task_context() -> Command:
    return Command(
        call_operation("tasks", "task.context", show="show_text", found="text"),
        summary="print profile, summaries, task and discoveries for a prompt",
        arguments=(
            Argument("task", "[TASK]", "the task, such as WU-123", field="task"),
        ),
        options=(
            Option("--max-bytes N", "at most so many bytes (default 4096)", parse=parse_whole, field="max_bytes"),
            Option("--sort S", "order each part by recency or by worth, whose former name is decay (default recency)", choices=("recency", "worth", "decay"), field="sort"),
            Option("--no-mark", "without the warning about orders in notes", name="mark", value=False, field="mark"),
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            JSON,
        ),
        examples=("memsyncd task context WU-123 --max-bytes 4096",),
        in_each=True,
    )


def make_task_checkpoint() -> Command:
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


def make_task_summarize() -> Command:
    return Command(
        call_operation("tasks", "task.summarize", show="show_summary", found="text"),
        summary="print a summary of a task; --apply keeps it",
        arguments=(
            Argument("task", "[TASK]", "the task, such as WU-123", field="task"),
        ),
        options=(
            Option("--content TEXT", "the summary that the caller has made; without it, sentences of the sections are chosen", field="content"),
            Option("--max-bytes N", "at most so many bytes (default 1000)", parse=parse_whole, field="max_bytes"),
            Option("--apply", "append the summary as a section", field="apply"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd task summarize WU-123 --apply",),
        gone={"--dry-run": "leave it out: without --apply, only the plan is shown", "--write": "write --apply, as for every plan"},
    )


def make_task() -> Command:
    return make_group(
        "task",
        {
            "ready": make_task_ready(),
            "list": make_task_list(),
            "context": make_task_context(),
            "checkpoint": make_task_checkpoint(),
            "summarize": make_task_summarize(),
        },
        ("memsyncd task ready WU-123", "memsyncd task context WU-123"),
    )


def make_session_start() -> Command:
    return Command(
        call_operation("tasks", "session.start", show="show_start"),
        summary="record that a session begins",
        arguments=(
            Argument("session", "[SESSION]", "the session's id", field="session"),
            Argument("content", "[TEXT]", "the work that the session is to do", field="content"),
        ),
        options=(
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--agent NAME", "show the signals to this agent, besides the signals to the session and the task", field="agent"),
            Option("--max-bytes N", "at most so many bytes (default 4096)", parse=parse_whole, field="max_bytes"),
            Option("--no-mark", "without the warning about orders in notes", name="mark", value=False, field="mark"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd session start s-7 'Finish the ports.' --task WU-123",),
    )


def make_session_list() -> Command:
    return Command(
        call_operation("tasks", "session.list", show="show_sessions", found="sessions"),
        summary="list the sessions that have not ended",
        options=(
            Option("--include-ended", "ended sessions, too", field="include_ended"),
            Option("-n --limit N", "at most so many results (default 50)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            make_format(("name", "sections", "open", "first", "last", "tasks", "is_ended")),
            JSON,
        ),
        examples=("memsyncd session list --include-ended",),
        in_each=True,
        lists="sessions",
    )


def make_session_end() -> Command:
    return Command(
        call_operation("tasks", "session.end", show="show_checkpoint"),
        summary="record that a session ends",
        arguments=(
            Argument("session", "[SESSION]", "the session's id; by default MEMSYNCD_SESSION", field="session"),
            Argument("content", "[TEXT]", "what was reached, and what is next; by default only the end is recorded", field="content"),
        ),
        options=(
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            JSON,
        ),
        examples=("memsyncd session end s-7 'The ports are done.'",),
    )


def make_session_resume() -> Command:
    return Command(
        call_operation("tasks", "session.resume", show="show_text", found="text"),
        summary="print what restores an agent after its context was cleared",
        arguments=(
            Argument("session", "[SESSION]", "the session's id", field="session"),
        ),
        options=(
            Option("--task ID", "the task, such as WU-123", field="task"),
            Option("--agent NAME", "show the signals to this agent, besides the signals to the session and the task", field="agent"),
            Option("--max-bytes N", "at most so many bytes (default 4096)", parse=parse_whole, field="max_bytes"),
            Option("--no-mark", "without the warning about orders in notes", name="mark", value=False, field="mark"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            JSON,
        ),
        examples=("memsyncd session resume s-7 --agent claude",),
        in_each=True,
    )


def make_session() -> Command:
    return make_group(
        "session",
        {
            "start": make_session_start(),
            "list": make_session_list(),
            "end": make_session_end(),
            "resume": make_session_resume(),
        },
        ("memsyncd session resume s-7",),
    )


def make_triage() -> Command:
    return Command(
        call_operation("tasks", "triage", show="show_triage", found="open closed"),
        options=(
            Option("--tag T…", "sections with this tag, by default bug", field="tag"),
            Option("--promote ANCHOR", "make a task of this section: a new section that links to it", field="promote"),
            Option("--task ID", "the name of the task to make", field="task"),
            Option("--priority P", "the priority of the task to make, P0 to P3", field="priority"),
            Option("-n --limit N", "at most so many results (default 50)", field="limit"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            Option("--client NAME", "the writer's name in the history (default cli)", field="client"),
            Option("--timeout-ms MS", "give up after this long", field="timeout_ms"),
            ALL,
            IDS,
            PATHS,
            make_format(("kind", "tags", "importance", "is_importance_stated", "priority", "lifecycle", "task", "session", "source", "created", "updated", "expires", "is_expired", "status", "day", "is_day_of_file", "is_day_of_name", "meta", "id", "anchor", "path", "start_line", "end_line", "title", "heading", "text")),
            JSON,
        ),
        examples=("memsyncd triage", "memsyncd triage --promote '.memories/errors.md#timeouts' --task WU-130"),
        in_each=True,
        lists="items",
    )


def make_profile() -> Command:
    return Command(
        call_operation("tasks", "profile", show="show_profile", found="items"),
        options=(
            Option("--tag T…", "only sections with one of these tags", field="tag"),
            Option("-n --limit N", "at most so many results (default 20)", field="limit"),
            Option("--include-archived", "archived sections too", field="include_archived"),
            Option("-w --workspace WS", "the workspace: a name, an id or a folder in it; by default the current folder's", field="workspace"),
            ALL,
            PATHS,
            make_format(("kind", "tags", "importance", "is_importance_stated", "priority", "lifecycle", "task", "session", "source", "created", "updated", "expires", "is_expired", "status", "day", "is_day_of_file", "is_day_of_name", "meta", "id", "anchor", "path", "start_line", "end_line", "title", "heading", "text")),
            JSON,
        ),
        examples=("memsyncd profile", "memsyncd profile --tag decision --limit 5"),
        in_each=True,
        lists="items",
    )
