"""Tasks and sessions of agents: `memsyncd task`, `session`, `triage` and `profile`."""

from __future__ import annotations

from memsyncd.cli.console import NOTHING_FOUND
from memsyncd.cli.format import render_count
from memsyncd.cli.notes import CLIENT, CLIENT_OPTION
from memsyncd.cli.parser import (
    JSON,
    Argument,
    Command,
    Option,
    make_group,
    make_workspace_option,
    parse_pair,
)
from memsyncd.cli.terminal import clean, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console


def _show_items(items: list[dict[str, Any]], console: Console) -> None:
    paint = console.terminal.paint
    for one in clean_values({"items": items})["items"]:
        place = f"{one['path']}:{one['start_line']}-{one['end_line']}"
        marks = [one["priority"], one["kind"], one["task"], one["status"]]
        heading = one["heading"][-1] if one["heading"] else ""
        said = "  ".join(filter(None, (*marks, heading)))
        console.terminal.print(f"{paint('bold blue', place)}  {said}")


def _answer_block(answer: dict[str, Any], args: Args, console: Console) -> int:
    """Print the text of an answer; status 1 if it is empty."""
    if args.json:
        console.terminal.print_json(answer)
    elif answer["text"]:
        console.terminal.print(clean(answer["text"]).removesuffix("\n"))
    else:
        console.terminal.report("there is nothing yet")
    return 0 if answer["text"] else NOTHING_FOUND


# --- task ---------------------------------------------------------------------------------------


def _ready(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "task.ready",
        task=args.task,
        include_archived=args.include_archived,
        limit=args.limit,
    )
    if args.json:
        console.terminal.print_json(answer)
    else:
        _show_items(answer["items"], console)
        console.terminal.report(f"{answer['n_ready']:,} ready, {answer['blocked']:,} blocked")
    return 0 if answer["items"] else NOTHING_FOUND


def _list(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace, "task.list", task=args.task, include_archived=args.include_archived
    )
    if args.json:
        console.terminal.print_json(answer)
    else:
        _show_items(answer["items"], console)
        if not answer["items"]:
            console.terminal.report("no section has this task")
    return 0 if answer["items"] else NOTHING_FOUND


def _context(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "task.context",
        task=args.task,
        max_bytes=args.max_bytes,
        sort=args.sort,
        include_archived=args.include_archived,
    )
    return _answer_block(answer, args, console)


def _checkpoint(args: Args, console: Console) -> int:
    metadata = dict(args.meta)
    answer = console.call_on(
        args.workspace,
        "task.checkpoint",
        content=args.text,
        task=args.task,
        session=args.session,
        metadata=metadata or None,
        client=args.client or CLIENT,
    )
    _print_added(answer, answer, args, console)
    return 0


def _summarize(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "task.summarize",
        task=args.task,
        max_bytes=args.max_bytes,
        dry_run=not args.write,
        client=args.client or CLIENT,
    )
    status = _answer_block(answer, args, console)
    if answer["added"] and not args.json:
        added = answer["added"]
        console.terminal.report(f"written to {added['path']}:{added['start_line']}")
    return status


def _print_added(
    answer: dict[str, Any], added: dict[str, Any], args: Args, console: Console
) -> None:
    if args.json:
        console.terminal.print_json(answer)
    else:
        console.terminal.print(f"{added['path']}:{added['start_line']}-{added['end_line']}")


# --- session ------------------------------------------------------------------------------------


def _start(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "session.start",
        session=args.session,
        task=args.task,
        content=args.text,
        agent=args.agent,
        max_bytes=args.max_bytes,
        client=args.client or CLIENT,
    )
    _print_added(answer, answer["added"], args, console)
    if not args.json and answer["text"]:
        console.terminal.print(clean(answer["text"]).removesuffix("\n"))
    return 0


def _resume(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "session.resume",
        session=args.session,
        task=args.task,
        agent=args.agent,
        max_bytes=args.max_bytes,
    )
    return _answer_block(answer, args, console)


# --- triage, profile ----------------------------------------------------------------------------


def _triage(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "triage",
        tag=args.tag or None,
        promote=args.promote,
        task=args.task,
        priority=args.priority,
        limit=args.limit,
        client=args.client or CLIENT,
    )
    if args.json:
        console.terminal.print_json(answer)
        return 0
    _show_items(answer["items"], console)
    counts = f"{answer['open']:,} open, {answer['closed']:,} closed"
    console.terminal.report(f"{counts}, {answer['untriaged']:,} without a task")
    if answer["promoted"] is not None:
        _print_added(answer, answer["promoted"], args, console)
    elif args.promote:
        console.terminal.report("the task has this section already")
    return 0 if answer["open"] or answer["closed"] else NOTHING_FOUND


def _profile(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "profile",
        tag=args.tag or None,
        limit=args.limit,
        include_archived=args.include_archived,
    )
    if args.json:
        console.terminal.print_json(answer)
    else:
        _show_items(answer["items"], console)
        tags = ", ".join(f"{tag} {n}" for tag, n in clean_values(answer["tags"]).items())
        console.terminal.report(
            f"{render_count(answer['sections'], 'section')} in"
            f" {render_count(answer['notes'], 'note')}" + (f"; tags: {tags}" if tags else "")
        )
    return 0 if answer["items"] else NOTHING_FOUND


_TASK: Final = Argument("task", "TASK", "the task, such as WU-123")
_ARCHIVED: Final = Option("--include-archived", "archived sections too")
_BYTES: Final = Option("--max-bytes N", "at most N bytes")
_LIMIT: Final = Option("-n --limit N", "at most N sections")
_OF_TASK: Final = Option("--task ID", "the task")
_AGENT: Final = Option("--agent NAME", "show the signals to this agent, too")
_SHARED: Final = (make_workspace_option("in this workspace"), JSON)

_TASK_COMMANDS = {
    "ready": Command(
        _ready,
        summary="list what can be worked on: P0 first, then the oldest",
        arguments=(Argument("task", "[TASK]", "the task; without one, all"),),
        options=(_ARCHIVED, _LIMIT, *_SHARED),
        examples=("memsyncd task ready WU-123",),
    ),
    "list": Command(
        _list,
        summary="list all sections of a task, by path and line",
        arguments=(_TASK,),
        options=(_ARCHIVED, *_SHARED),
        examples=("memsyncd task list WU-123",),
    ),
    "context": Command(
        _context,
        summary="print profile, summaries, task and discoveries for a prompt",
        arguments=(_TASK,),
        options=(
            _BYTES,
            Option("--sort S", "each part by recency (default) or decay"),
            _ARCHIVED,
            *_SHARED,
        ),
        examples=("memsyncd task context WU-123 --max-bytes 4096",),
    ),
    "checkpoint": Command(
        _checkpoint,
        summary="append the progress of a task or session",
        arguments=(Argument("text", "TEXT", "what is done, and what is next"),),
        options=(
            _OF_TASK,
            Option("--session ID", "the session"),
            Option("--meta KEY=VALUE…", "such as milestone=ports", parse=parse_pair),
            CLIENT_OPTION,
            *_SHARED,
        ),
        examples=("memsyncd task checkpoint 'Criteria 1-3 are met.' --task WU-123",),
    ),
    "summarize": Command(
        _summarize,
        summary="print a summary of a task; --write keeps it",
        arguments=(_TASK,),
        options=(
            Option("--write", "append the summary as a section"),
            _BYTES,
            CLIENT_OPTION,
            *_SHARED,
        ),
        examples=("memsyncd task summarize WU-123 --write",),
    ),
}
_SESSION_COMMANDS = {
    "start": Command(
        _start,
        summary="record that a session begins",
        arguments=(
            Argument("session", "SESSION", "the session's id"),
            Argument("text", "[TEXT]", "what it is to do"),
        ),
        options=(_OF_TASK, _AGENT, _BYTES, CLIENT_OPTION, *_SHARED),
        examples=("memsyncd session start s-7 'Finish the ports.' --task WU-123",),
    ),
    "resume": Command(
        _resume,
        summary="print what restores an agent after its context was cleared",
        arguments=(Argument("session", "[SESSION]", "the session's id"),),
        options=(_OF_TASK, _AGENT, _BYTES, *_SHARED),
        examples=("memsyncd session resume s-7 --agent claude",),
    ),
}

COMMANDS = {
    "task": make_group(
        "task", _TASK_COMMANDS, ("memsyncd task ready WU-123", "memsyncd task context WU-123")
    ),
    "session": make_group("session", _SESSION_COMMANDS, ("memsyncd session resume s-7",)),
    "triage": Command(
        _triage,
        options=(
            Option("--tag T…", "sections with this tag (default bug)"),
            Option("--promote ANCHOR", "make a task of this section"),
            Option("--task ID", "the name of the task"),
            Option("--priority P", "its priority, P0 to P3"),
            _LIMIT,
            CLIENT_OPTION,
            *_SHARED,
        ),
        examples=(
            "memsyncd triage",
            "memsyncd triage --promote '.memories/errors.md#timeouts' --task WU-130",
        ),
    ),
    "profile": Command(
        _profile,
        options=(
            Option("--tag T…", "only sections with this tag"),
            _ARCHIVED,
            _LIMIT,
            *_SHARED,
        ),
        examples=("memsyncd profile", "memsyncd profile --tag decision --limit 5"),
    ),
}
