"""Write and check notes: `memsyncd memory`, `remember`, `clear` and `check`."""

from __future__ import annotations

import contextlib
import os
import sys

from memsyncd.errors import BadRequest, WorkspaceNotFound
from memsyncd.headings import join_headings
from memsyncd.terminal.actions import send, send_confirmed
from memsyncd.terminal.console import (
    DASH,
    can_ask,
    read_stdin,
    read_text,
    report_similar,
    show_answer,
)
from memsyncd.terminal.format import render_count, render_meta
from memsyncd.terminal.places import (
    MEMORIES,
    find_workspace_note,
    parse_target,
    resolve_places,
)
from memsyncd.terminal.terminal import clean, clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.places import Target


# --- memory -------------------------------------------------------------------------------------


def make_view(args: Args, _console: Console) -> dict[str, Any]:
    return {} if args.path else {"path": MEMORIES}


def make_replacement(args: Args, console: Console) -> dict[str, Any]:
    """Return both texts. Raises BadRequest if both are to come from stdin."""
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
    return {"old_str": old, "new_str": new}


def _drop_newline(text: str) -> str:
    """Remove the newline at the end of piped text, like a shell's `$(…)`."""
    return text.removesuffix("\n")


def make_insertion(args: Args, console: Console) -> dict[str, Any]:
    """Return the line and the text. Raises BadRequest for a line that is no number."""
    if not args.insert_line.isdecimal():
        raise BadRequest(
            f"memory insert: LINE is not a number: {args.insert_line}",
            hint="count lines from 1; 0 inserts before the first",
        )
    text = read_text(args.insert_text, console, is_piped=args.stdin)
    return {"insert_line": int(args.insert_line), "insert_text": text}


def ask_and_delete(args: Args, console: Console) -> int:
    """Delete a note or folder. If others have written text of it, ask first."""
    params = {"command": "delete", "confirm": False, **args.params}
    params |= resolve_places(params, ("path",), console)
    answer = send_confirmed("memory", params, args, console, question="delete it?")
    return show_answer(answer, args, console, show_moved)


def show_moved(answer: dict[str, Any], args: Args, console: Console) -> None:
    """Print the answer to a deletion or a rename, and how to take it back."""
    show_memory(answer, args, console)
    if undo := console.render_undo(answer, "to revert this: "):
        console.terminal.report(undo)


def show_memory(answer: dict[str, Any], args: Args, console: Console) -> None:
    terminal = console.terminal
    clean_answer = clean_values(answer)
    is_planned = not args.params.get("apply", True)
    if is_planned:
        terminal.report("nothing was changed; leave --dry-run out to do it")
    else:
        terminal.print(clean(answer["text"]).removesuffix("\n"), hang=0)
    for path in clean_answer["updated_links"]:
        terminal.print(f"{'would update' if is_planned else 'updated'} the links of {path}")
    for path in clean_answer["skipped_links"]:
        terminal.warn(
            f"{path} keeps its links: it is read only here, or was saved meanwhile; "
            "change them by hand"
        )
    # A daemon that was started before an update does not send this field.
    if not answer.get("is_searched", True):
        terminal.warn("kept, but not searched: only names in .md, .markdown and .txt are")


def read_range(text: str) -> list[int]:
    """Parse `12-18`, or `12-` for all from line 12 on. Raises ValueError."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or not (last.isdecimal() or not last):
        raise ValueError("expected lines such as 12-18, or 12- for all from line 12 on")
    return [int(first), int(last) if last else -1 if dash else int(first)]


# --- remember -----------------------------------------------------------------------------------


def show_added(answer: dict[str, Any], args: Args, console: Console) -> None:
    if answer["action"] == "reported":
        console.terminal.report("nothing was written")
    else:
        console.print_place(answer, answer["workspace"])
    report_similar(answer, console)
    _report_similar_kind(answer, args.kind, console)


def _report_similar_kind(answer: dict[str, Any], kind: str, console: Console) -> None:
    # A daemon that was started before an update does not send this field.
    similar = answer.get("similar_kind")
    if similar or answer.get("is_kind_unknown"):
        advice = f"did you mean {similar}?" if similar else "it can be added as [kinds.NAME]"
        console.terminal.warn(clean_line(f"the kind {kind} is not configured; {advice}"))
    undo = console.render_undo(answer) if similar and answer["action"] == "added" else ""
    if undo:
        console.terminal.report(f"to write it so instead: {undo}, then --kind {similar}")


# --- clear --------------------------------------------------------------------------------------


def clear(args: Args, console: Console) -> int:
    """Remove every note of memory, after a question unless `--yes` is given."""
    workspace = console.find_workspace(args.workspace, to_write=True)
    if not args.confirm:
        _confirm_clear(clean_values(workspace), console)
    params = args.params | {"confirm": True, "workspace": workspace["id"]}
    answer = send("memory.clear", params, args, console)
    return show_answer(answer, args, console, show_cleared)


def show_cleared(answer: dict[str, Any], _args: Args, console: Console) -> None:
    removed = render_count(answer["removed"], "note")
    undo = console.render_undo(answer, "; restore them with: ")
    console.terminal.report(f"{removed} removed{undo}")


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


# --- check --------------------------------------------------------------------------------------


def show_faults(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    for fault in clean_values(answer["faults"]):
        lines = {"start_line": fault["line"], "end_line": fault["line"]}
        place = console.render_place({"path": fault["path"], **lines}, answer["workspace"])
        field = f"{fault['field']} " if fault["field"] else ""
        hint = terminal.paint("dim", fault["hint"])
        terminal.print(f"{place}  {field}{fault['problem']}; {hint}")
    n_faults = render_count(len(answer["faults"]), "fault")
    terminal.report(f"{render_count(answer['checked'], 'section')} checked, {n_faults}")


# --- get ----------------------------------------------------------------------------------------


def get(args: Args, console: Console) -> int:
    """Print a section, a note or some of its lines."""
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
    if answer.get("superseded_by"):
        terminal.report(f"superseded by {clean_line(answer['superseded_by'])}")
    terminal.print(clean(answer["text"]).removesuffix("\n"), hang=0)


def _render_title(answer: dict[str, Any], console: Console) -> str:
    paint = console.terminal.err_paint
    place = console.render_place(answer, answer["workspace"], paint)
    trail = join_headings(answer["heading"])
    size = f"of {answer['n_lines']} lines"
    if answer["n_links"] or answer["n_backlinks"]:
        size += f"; links: {answer['n_links']} from it, {answer['n_backlinks']} to it"
    parts = [place, trail, paint("cyan", render_meta(answer)), paint("dim", size)]
    return "  ".join(filter(None, parts))
