"""`memsyncd undo`: can it be as it was before? Says what it took back, and how to go back in turn."""

from __future__ import annotations

import time

from memsyncd.cli.figures import render_age
from memsyncd.cli.grammar import JSON, TIMEOUT, Command, Option, name_workspace_option, read_count
from memsyncd.cli.memory import CLIENT, CLIENT_OPTION, WRITE_MS, say_unless_indexed
from memsyncd.cli.revisions import OUTSIDE, find_deed
from memsyncd.cli.subject import REVISION, TARGET, ask_about_change
from memsyncd.cli.terminal import clean_line, clean_values
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console


def _act(args: Args, console: Console) -> int:
    if not (args.target or args.revision or args.act):
        raise BadRequest("undo: name a section, a note, a revision or an act", hint="list what there is with `memsyncd history`")
    console.wait_for(args.timeout_ms or WRITE_MS)
    asked = {"act": args.act, "client": args.client or CLIENT, "timeout_ms": args.timeout_ms}
    answer = ask_about_change(args, console, "undo", **asked)
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_undone(clean_values(answer), console, named=f" -w {clean_line(args.workspace)}" if args.workspace else "")
        say_unless_indexed(answer, console)
    return 0


def _print_undone(answer: dict[str, Any], console: Console, *, named: str) -> None:
    terminal = console.terminal
    if answer["act"] is None:
        names = ", ".join(dict.fromkeys(revision["path"] for revision in answer["undone"]))
        terminal.say(f"nothing to do: it is as before already: {names}")
        return
    for revision in answer["undone"]:
        terminal.print(render_undone(revision, now_s=time.time()))
    for gone in (state["path"] for state in answer["paths"] if state["digest"] is None):
        terminal.say(terminal.err_paint("dim", f"{gone} is not there any more, as before"))
    terminal.say(terminal.err_paint("dim", f"to go back: memsyncd undo --act {answer['act']}{named}"))


def render_undone(revision: dict[str, Any], *, now_s: float) -> str:
    """`.memories/redis.md  took back revision 42: str_replace by cli, 3 min ago`."""
    path, old_path = revision["path"], revision["old_path"]
    moved = "" if old_path in (None, path) else f" → {old_path}"
    deed = f"{find_deed(revision)} by {revision['client']}" if revision["client"] else f"{find_deed(revision)} from {OUTSIDE}"
    return f"{path}{moved}  took back revision {revision['revision']}: {deed}, {render_age(revision['at'], now_s)}"


COMMANDS = {
    "undo": Command(
        _act,
        arguments=(TARGET,),
        options=(
            REVISION,
            Option("--act", "all that was done in act N, such as the renaming of a folder", metavar="N", read=read_count),
            name_workspace_option(),
            CLIENT_OPTION,
            TIMEOUT,
            JSON,
        ),
        examples=("memsyncd undo .memories/redis.md", "memsyncd undo 42", "memsyncd undo 'MEMORY.md#redis/timeouts'"),
    )
}
