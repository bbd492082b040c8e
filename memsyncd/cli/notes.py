"""Read and write notes: `memsyncd get`, `remember`, `memory`, `clear`, `capture`, `index-project`
and `sources`.
"""

from __future__ import annotations

import contextlib
import os
import sys

from memsyncd.errors import BadRequest, WorkspaceNotFound
from memsyncd.terminal.console import CLIENT_OPTION, call_method, can_ask, make_action, show_answer
from memsyncd.terminal.format import render_count, render_meta
from memsyncd.terminal.parser import (
    JSON,
    KINDS,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_group,
    make_workspace_option,
    parse_fraction,
    parse_pair,
)
from memsyncd.terminal.places import find_workspace_note, parse_target
from memsyncd.terminal.terminal import clean, clean_line, clean_values
from memsyncd.terminal.texts import DASH, read_stdin, read_text, read_typed
from memsyncd.terminal.written import report_similar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console, MakeParams
    from memsyncd.terminal.parser import Action
    from memsyncd.terminal.places import Target


STDIN: Final = Option("--stdin", "read the text from stdin, like TEXT -")


# --- get ----------------------------------------------------------------------------------------


def _get(args: Args, console: Console) -> int:
    target = parse_target(args.target)
    if (target.end_line or 0) < (target.start_line or 0) or target.start_line == 0:
        raise BadRequest(
            f"no such lines: {args.target}",
            hint="give the first line, from 1, then the last: PATH:12-18",
        )
    root, path = find_workspace_note(target.path, console.cwd, list(console.roots.values()))
    answer = None
    full = os.path.join(console.cwd, path)
    if root is None and args.workspace is None and os.path.lexists(full):
        # In a linked worktree, the file that the branch has here.
        with contextlib.suppress(WorkspaceNotFound):
            answer = _call_get(target, full, console.cwd, console)
    if answer is None:
        answer = _call_get(target, path, args.workspace or root, console)
    return show_answer(answer, args, console, _show_note)


def _call_get(target: Target, path: str, workspace: str | None, console: Console) -> dict[str, Any]:
    if target.heading is not None:
        return console.call_on(workspace, "get", anchor=f"{path}#{target.heading}")
    lines = {"start_line": target.start_line, "end_line": target.end_line}
    return console.call_on(workspace, "get", path=path, **lines)


def _show_note(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    if terminal.is_out_terminal and terminal.is_err_terminal:
        terminal.report(_render_title(clean_values(answer), console))
    terminal.print(clean(answer["text"]).removesuffix("\n"))


def _render_title(answer: dict[str, Any], console: Console) -> str:
    paint = console.terminal.err_paint
    place = console.render_place(answer, answer["workspace"], paint)
    trail = " › ".join(answer["heading"])
    size = f"of {answer['n_lines']} lines"
    if answer["n_links"] or answer["n_backlinks"]:
        size += f"; links: {answer['n_links']} from it, {answer['n_backlinks']} to it"
    parts = [place, trail, paint("cyan", render_meta(answer)), paint("dim", size)]
    return "  ".join(filter(None, parts))


# --- memory -------------------------------------------------------------------------------------


def _make_view(args: Args, _console: Console) -> dict[str, Any]:
    return {"path": args.path or "/memories"}


def _make_note(args: Args, console: Console) -> dict[str, Any]:
    text = read_text(args.file_text, console, is_piped=args.stdin)
    return {"file_text": text, "stdin": None}


def _make_replacement(args: Args, console: Console) -> dict[str, Any]:
    old, new = args.old_str, args.new_str
    is_piped = args.stdin or new in (None, DASH)
    if old == DASH and is_piped:
        raise BadRequest(
            "OLD and NEW cannot both come from stdin", hint="give one of them as a word"
        )
    if old == DASH:
        old = _drop_newline(read_stdin(console))
    if is_piped:
        new = _drop_newline(read_text(new, console, is_piped=args.stdin))
    return {"old_str": old, "new_str": new, "stdin": None}


def _drop_newline(text: str) -> str:
    """Remove the newline at the end of piped text, like a shell's `$(…)`."""
    return text.removesuffix("\n")


def _make_insertion(args: Args, console: Console) -> dict[str, Any]:
    if not args.insert_line.isdecimal():
        raise BadRequest(
            f"memory insert: LINE is not a number: {args.insert_line}",
            hint="count lines from 1; 0 inserts before the first",
        )
    text = read_text(args.insert_text, console, is_piped=args.stdin)
    return {"insert_line": int(args.insert_line), "insert_text": text, "stdin": None}


def _call_memory(command: str, make_params: MakeParams | None = None) -> Action:
    """Make the action of one command of the memory tool."""
    return make_action(
        "memory",
        _show_memory,
        make_params=lambda args, console: {
            **(make_params(args, console) if make_params else {}),
            "command": command,
        },
    )


def _show_memory(answer: dict[str, Any], args: Args, console: Console) -> None:
    terminal = console.terminal
    shown = clean_values(answer)
    is_dry_run = getattr(args, "dry_run", False)
    if is_dry_run:
        terminal.report("dry run: nothing was changed")
    else:
        terminal.print(clean(answer["text"]).removesuffix("\n"))
    for path in shown["updated_links"]:
        terminal.print(f"{'would update' if is_dry_run else 'updated'} the links of {path}")
    if shown["updated_links"] and answer["change_set"] is not None:
        terminal.report(f"to revert all of it: memsyncd undo --change-set {answer['change_set']}")
    for path in shown["skipped_links"]:
        terminal.warn(
            f"{path} keeps its links: it is read only here, or was saved meanwhile; "
            "change them by hand"
        )
    # A daemon that was started before an update does not tell.
    if not answer.get("is_searched", True):
        terminal.warn("kept, but not searched: only names in .md, .markdown and .txt are")


def _read_range(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    if not first.isdecimal() or not (last.isdecimal() or not last):
        raise ValueError("expected lines such as 12-18, or 12- for all from line 12 on")
    return [int(first), int(last) if last else -1 if dash else int(first)]


_NOTE = Argument(
    "path",
    "NOTE",
    "a path that begins with /memories; /memories/MEMORY.md is the workspace's MEMORY.md",
)
_TEXT = "the text; - or none to read it from stdin"
_SHARED = (
    make_workspace_option(),
    Option(
        "--dialect D",
        "answer as Anthropic's documents say (docs) or as its SDK does (sdk)",
        choices=("docs", "sdk"),
    ),
    TIMEOUT,
    JSON,
)
IF_DIGEST = Option(
    "--if-digest DIGEST", "only if the note still has this digest, as shown by --json"
)
_WRITING = (IF_DIGEST, CLIENT_OPTION, *_SHARED)

_MEMORY_COMMANDS = {
    "view": Command(
        _call_memory("view", _make_view),
        summary="print a note with line numbers, or list a folder",
        arguments=(Argument("path", "[NOTE]", "a note or folder; by default /memories"),),
        options=(
            Option(
                "--range A-B",
                "only lines A to B; A- for all from A on",
                parse=_read_range,
                name="view_range",
            ),
            *_SHARED,
        ),
        examples=(
            "memsyncd memory view",
            "memsyncd memory view /memories/decisions.md --range 1-20",
        ),
    ),
    "create": Command(
        _call_memory("create", _make_note),
        summary="create a note",
        arguments=(_NOTE, Argument("file_text", "[TEXT]", _TEXT)),
        options=(STDIN, *_WRITING),
        examples=(
            "memsyncd memory create /memories/redis.md '# Redis'",
            "memsyncd memory create /memories/redis.md < redis.md",
        ),
    ),
    "str_replace": Command(
        _call_memory("str_replace", _make_replacement),
        summary="replace a text that occurs exactly once in a note",
        arguments=(
            _NOTE,
            Argument("old_str", "OLD", "the present text; - to read it from stdin"),
            Argument(
                "new_str", "[NEW]", "the new text, '' for none; - or none to read it from stdin"
            ),
        ),
        options=(STDIN, *_WRITING),
        examples=("memsyncd memory str_replace /memories/redis.md '30 s' '45 s'",),
    ),
    "insert": Command(
        _call_memory("insert", _make_insertion),
        summary="insert a text after a line; 0 is before the first",
        arguments=(
            _NOTE,
            Argument("insert_line", "LINE", "after this line"),
            Argument("insert_text", "[TEXT]", _TEXT),
        ),
        options=(STDIN, *_WRITING),
        examples=("memsyncd memory insert /memories/redis.md 12 '- a new item'",),
    ),
    "delete": Command(
        _call_memory("delete"),
        summary="delete a note, or a folder with its contents",
        arguments=(_NOTE,),
        options=_WRITING,
        examples=("memsyncd memory delete /memories/redis.md",),
    ),
    "rename": Command(
        _call_memory("rename"),
        summary="move a note or a folder",
        arguments=(
            Argument("old_path", "OLD", "its path, /memories/…"),
            Argument("new_path", "NEW", "its new path"),
        ),
        options=(
            Option("--update-links", "change the links of all notes so that they stay right"),
            Option("--dry-run", "only name the notes whose links would be updated"),
            *_WRITING,
        ),
        examples=(
            "memsyncd memory rename /memories/draft.md /memories/redis.md",
            "memsyncd memory rename /memories/a.md /memories/b.md --update-links --dry-run",
        ),
    ),
}


# --- remember -----------------------------------------------------------------------------------


def _make_section(args: Args, console: Console) -> dict[str, Any]:
    root, note = None, args.note
    if note is not None:
        root, note = find_workspace_note(note, console.cwd, list(console.roots.values()))
    return {
        "content": read_typed(args.content, console, is_piped=args.stdin),
        "stdin": None,
        "metadata": dict(args.metadata),
        "note": note,
        "workspace": root,
    }


def _show_added(answer: dict[str, Any], args: Args, console: Console) -> None:
    if answer["action"] == "reported":
        console.terminal.report("nothing was written")
    else:
        console.print_place(answer, answer["workspace"])
    report_similar(answer, console)
    _report_similar_kind(answer, args.kind, console)


def _report_similar_kind(answer: dict[str, Any], kind: str, console: Console) -> None:
    # A daemon that was started before an update sends none.
    similar = answer.get("similar_kind")
    if similar:
        text = f"the kind {kind} is not configured; did you mean {similar}?"
        console.terminal.warn(clean_line(text))
    if similar and answer["action"] == "added" and answer["change_set"]:
        undo = f"memsyncd undo --change-set {answer['change_set']}"
        console.terminal.report(f"to write it so instead: {undo}, then --kind {similar}")


TAG: Final = Option("--tag T…", "add this tag", name="tags")
SOURCE: Final = Option("--source TEXT", "the source")
# Metadata that sections and topics have alike.
STATED: Final = (
    Option("--priority P", "P0, P1, P2 or P3"),
    Option("--lifecycle L", "ephemeral, session, task or project"),
    SOURCE,
    Option("--task ID", "the task"),
    Option("--session ID", "the session"),
    Option("--scope TEXT", "the scope"),
    Option("--expires DAY", "the day or time from which searches leave it out"),
    Option("--keyword K…", "a keyword; at most 20", name="keywords"),
)
ON_SIMILAR: Final = Option(
    "--on-similar DO",
    "if something says nearly the same: add (default), append to it, or only report it",
    choices=("add", "append", "report"),
)
# --- clear --------------------------------------------------------------------------------------


def _clear(args: Args, console: Console) -> int:
    workspace = console.find_workspace(args.workspace, to_write=True)
    if not args.yes:
        _confirm_clear(clean_values(workspace), console)
    params = {"yes": None, "confirm": True, "workspace": workspace["id"]}
    answer = call_method(args, console, "memory.clear", **params)
    return show_answer(answer, args, console, _show_cleared)


def _show_cleared(answer: dict[str, Any], _args: Args, console: Console) -> None:
    undo = f"; restore them with: memsyncd undo --change-set {answer['change_set']}"
    removed = render_count(answer["removed"], "note")
    console.terminal.report(f"{removed} removed{undo if answer['change_set'] else ''}")


def _confirm_clear(workspace: dict[str, Any], console: Console) -> None:
    """Ask for the workspace's name. Raises BadRequest for another answer, or without a terminal."""
    if not can_ask():
        raise BadRequest(
            "clear removes every note of memory, and there is no terminal to ask",
            hint="add --yes to remove them without a question",
        )
    console.terminal.report(
        f"every note of memory in {workspace['root']} will be removed;"
        f" type {workspace['name']} to go on:"
    )
    if sys.stdin.readline().strip() != workspace["name"]:
        raise BadRequest("nothing was removed", hint="type the workspace's name, or add --yes")


COMMANDS = {
    "get": Command(
        _get,
        arguments=(
            Argument(
                "target",
                "ANCHOR|PATH[:A[-B]]",
                "a section's anchor, or a note, or some of its lines",
            ),
        ),
        options=(make_workspace_option("the note's workspace"), JSON),
        examples=(
            "memsyncd get .memories/redis.md:12-18",
            "memsyncd get '.memories/redis.md#redis/timeouts'",
            "memsyncd get MEMORY.md",
        ),
    ),
    "memory": make_group(
        "memory",
        _MEMORY_COMMANDS,
        ("memsyncd memory view", "memsyncd memory create /memories/redis.md < redis.md"),
    ),
    "remember": Command(
        make_action("note.add", _show_added, make_params=_make_section),
        arguments=(Argument("content", "[TEXT…]", "the text; - or none to read it from stdin"),),
        options=(
            Option("--summary S", "the heading; by default the beginning of the text"),
            Option("--kind K", f"the kind of memory, which selects the note: {KINDS}"),
            TAG,
            Option("--note PATH", "append to this note"),
            Option(
                "--importance S", "from 0 to 1; by default that of the kind", parse=parse_fraction
            ),
            *STATED,
            Option("--topic TEXT", "the topic, of at most 100 characters"),
            Option("--created DAY", "the day or time, if not now"),
            Option("--updated DAY", "the day or time of the last change"),
            Option(
                "--meta KEY=VALUE…", "add metadata of your own", parse=parse_pair, name="metadata"
            ),
            ON_SIMILAR,
            STDIN,
            make_workspace_option("remember it in this workspace"),
            CLIENT_OPTION,
            TIMEOUT,
            JSON,
        ),
        examples=(
            "memsyncd remember 'Redis gives up after 30 s' --kind decision --tag redis",
            "git log -1 --format=%B | memsyncd remember --summary 'Release' --note releases.md",
        ),
    ),
    "clear": Command(
        _clear,
        options=(
            Option("--yes", "do not ask"),
            make_workspace_option("remove the notes of this workspace"),
            CLIENT_OPTION,
            JSON,
        ),
        examples=("memsyncd clear", "memsyncd clear -w scratch --yes"),
    ),
}
