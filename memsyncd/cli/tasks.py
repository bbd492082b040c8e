"""Tasks and sessions of agents: `memsyncd task`, `session`, `triage` and `profile`."""

from __future__ import annotations

from memsyncd.terminal.console import CLIENT_OPTION, make_action
from memsyncd.terminal.format import render_count
from memsyncd.terminal.parser import (
    JSON,
    NO_MARK,
    Argument,
    Command,
    Option,
    make_group,
    make_workspace_option,
    parse_pair,
    take_mark,
)
from memsyncd.terminal.terminal import clean, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console


def _show_items(answer: dict[str, Any], console: Console) -> None:
    for one in clean_values(answer["items"]):
        marks = [one["priority"], one["kind"], one["task"], one["status"], *one["heading"][-1:]]
        place = console.render_place(one, answer["workspace"])
        console.terminal.print("  ".join(filter(None, (place, *marks))))


def _show_text(answer: dict[str, Any], _args: Args, console: Console) -> None:
    if answer["text"]:
        console.terminal.print(clean(answer["text"]).removesuffix("\n"))
    else:
        console.terminal.report("there is nothing yet")


# --- task ---------------------------------------------------------------------------------------


def _show_ready(answer: dict[str, Any], _args: Args, console: Console) -> None:
    _show_items(answer, console)
    console.terminal.report(f"{answer['n_ready']:,} ready, {answer['blocked']:,} blocked")


def _show_list(answer: dict[str, Any], _args: Args, console: Console) -> None:
    _show_items(answer, console)
    if not answer["items"]:
        console.terminal.report("no section has this task")


def _show_checkpoint(answer: dict[str, Any], _args: Args, console: Console) -> None:
    console.print_place(answer, answer["workspace"])


def _show_summary(answer: dict[str, Any], args: Args, console: Console) -> None:
    _show_text(answer, args, console)
    if answer["added"]:
        added, paint = clean_values(answer["added"]), console.terminal.err_paint
        place = console.render_place(added, answer["workspace"], paint)
        console.terminal.report(f"written to {place}")


# --- session, triage, profile -------------------------------------------------------------------


def _show_start(answer: dict[str, Any], _args: Args, console: Console) -> None:
    console.print_place(answer["added"], answer["workspace"])
    if answer["text"]:
        console.terminal.print(clean(answer["text"]).removesuffix("\n"))


def _show_triage(answer: dict[str, Any], args: Args, console: Console) -> None:
    _show_items(answer, console)
    counts = f"{answer['open']:,} open, {answer['closed']:,} closed"
    console.terminal.report(f"{counts}, {answer['untriaged']:,} without a task")
    if answer["promoted"] is not None:
        console.print_place(answer["promoted"], answer["workspace"])
    elif args.promote:
        console.terminal.report("the task has this section already")


def _show_profile(answer: dict[str, Any], _args: Args, console: Console) -> None:
    _show_items(answer, console)
    tags = ", ".join(f"{tag} {n}" for tag, n in clean_values(answer["tags"]).items())
    sections, notes = answer["sections"], answer["notes"]
    counted = f"{render_count(sections, 'section')} in {render_count(notes, 'note')}"
    console.terminal.report(counted + (f"; tags: {tags}" if tags else ""))


_TASK: Final = Argument("task", "TASK", "the task, such as WU-123")
_ARCHIVED: Final = Option("--include-archived", "archived sections too")
_BYTES: Final = Option("--max-bytes N", "at most N bytes")
_LIMIT: Final = Option("-n --limit N", "at most N sections")
_OF_TASK: Final = Option("--task ID", "the task")
_AGENT: Final = Option("--agent NAME", "show the signals to this agent, too")
_SHARED: Final = (make_workspace_option("in this workspace"), JSON)

_TASK_COMMANDS = {
    "ready": Command(
        make_action("task.ready", _show_ready, found="items"),
        summary="list what can be worked on: P0 first, then the oldest",
        arguments=(Argument("task", "[TASK]", "the task; without one, all"),),
        options=(_ARCHIVED, _LIMIT, *_SHARED),
        examples=("memsyncd task ready WU-123",),
    ),
    "list": Command(
        make_action("task.list", _show_list, found="items"),
        summary="list all sections of a task, by path and line",
        arguments=(_TASK,),
        options=(_ARCHIVED, *_SHARED),
        examples=("memsyncd task list WU-123",),
    ),
    "context": Command(
        make_action("task.context", _show_text, found="text", make_params=take_mark),
        summary="print profile, summaries, task and discoveries for a prompt",
        arguments=(_TASK,),
        options=(
            _BYTES,
            Option("--sort S", "each part by recency (default) or decay"),
            _ARCHIVED,
            NO_MARK,
            *_SHARED,
        ),
        examples=("memsyncd task context WU-123 --max-bytes 4096",),
    ),
    "checkpoint": Command(
        make_action(
            "task.checkpoint",
            _show_checkpoint,
            make_params=lambda args, _console: {"metadata": dict(args.metadata)},
        ),
        summary="append the progress of a task or session",
        arguments=(Argument("content", "TEXT", "what is done, and what is next"),),
        options=(
            _OF_TASK,
            Option("--session ID", "the session"),
            Option(
                "--meta KEY=VALUE…", "such as milestone=ports", parse=parse_pair, name="metadata"
            ),
            CLIENT_OPTION,
            *_SHARED,
        ),
        examples=("memsyncd task checkpoint 'Criteria 1-3 are met.' --task WU-123",),
    ),
    "summarize": Command(
        make_action(
            "task.summarize",
            _show_summary,
            found="text",
            make_params=lambda args, _console: {"write": None, "dry_run": not args.write},
        ),
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
        make_action("session.start", _show_start, make_params=take_mark),
        summary="record that a session begins",
        arguments=(
            Argument("session", "SESSION", "the session's id"),
            Argument("content", "[TEXT]", "what it is to do"),
        ),
        options=(_OF_TASK, _AGENT, _BYTES, NO_MARK, CLIENT_OPTION, *_SHARED),
        examples=("memsyncd session start s-7 'Finish the ports.' --task WU-123",),
    ),
    "resume": Command(
        make_action("session.resume", _show_text, found="text", make_params=take_mark),
        summary="print what restores an agent after its context was cleared",
        arguments=(Argument("session", "[SESSION]", "the session's id"),),
        options=(_OF_TASK, _AGENT, _BYTES, NO_MARK, *_SHARED),
        examples=("memsyncd session resume s-7 --agent claude",),
    ),
}


COMMANDS = {
    "task": make_group(
        "task", _TASK_COMMANDS, ("memsyncd task ready WU-123", "memsyncd task context WU-123")
    ),
    "session": make_group("session", _SESSION_COMMANDS, ("memsyncd session resume s-7",)),
    "triage": Command(
        make_action("triage", _show_triage, found="open closed"),
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
        make_action("profile", _show_profile, found="items"),
        options=(
            Option("--tag T…", "only sections with this tag"),
            _ARCHIVED,
            _LIMIT,
            *_SHARED,
        ),
        examples=("memsyncd profile", "memsyncd profile --tag decision --limit 5"),
    ),
}
