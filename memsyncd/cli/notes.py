"""Read and write notes: `memsyncd get`, `remember`, `memory`, `clear`, `capture`, `index-project`
and `sources`.
"""

from __future__ import annotations

import contextlib
import os

from memsyncd.errors import BadRequest, WorkspaceNotFound
from memsyncd.terminal.console import show_answer
from memsyncd.terminal.format import render_meta
from memsyncd.terminal.parser import (
    JSON,
    Argument,
    Command,
    make_workspace_option,
)
from memsyncd.terminal.places import find_workspace_note, parse_target
from memsyncd.terminal.terminal import clean, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.places import Target


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
}
