"""`memsyncd get`: what does this section, note or line say?"""

from __future__ import annotations

import os

from memsyncd.cli.grammar import JSON, Argument, Command, name_workspace_option
from memsyncd.cli.places import find_own_note, find_roots, parse_target, show_path, show_span
from memsyncd.cli.terminal import clean, clean_values
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console


def _act(args: Args, console: Console) -> int:
    target = parse_target(args.target)
    if (target.end_line or 0) < (target.start_line or 0) or target.start_line == 0:
        raise BadRequest(f"no such lines: {args.target}", hint="lines count from 1, and the first comes first: PATH:12-18")
    roots = find_roots(console.ask("workspace.list")["workspaces"])
    root, path = find_own_note(target.path, console.cwd, list(roots.values()))
    workspace = args.workspace or root
    if target.heading is None:
        answer = console.ask_about(workspace, "get", path=path, start_line=target.start_line, end_line=target.end_line)
    else:
        answer = console.ask_about(workspace, "get", anchor=f"{path}#{target.heading}")
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_text(answer, roots.get(answer["workspace"], ""), console)
    return 0


def _print_text(answer: dict[str, Any], root: str, console: Console) -> None:
    terminal = console.terminal
    if terminal.is_shown and terminal.is_talk_shown:
        terminal.say(_render_title(clean_values(answer), root, console))
    terminal.print(clean(answer["text"]).removesuffix("\n"))


def _render_title(answer: dict[str, Any], root: str, console: Console) -> str:
    paint = console.terminal.err_paint
    place = show_span(show_path(answer["path"], root, console.cwd), answer["start_line"], answer["end_line"])
    linked = paint.link(paint("bold blue", place), os.path.join(root, answer["path"]), answer["start_line"])
    marks = " ".join([answer["kind"] or "", *("#" + tag for tag in answer["tags"])]).strip()
    trail = " › ".join(answer["heading"])
    return "  ".join(filter(None, [linked, trail, paint("cyan", marks), paint("dim", f"of {answer['n_lines']} lines")]))


COMMANDS = {
    "get": Command(
        _act,
        arguments=(Argument("target", "ANCHOR|PATH[:A[-B]]", "a section's anchor, or a note with or without its lines"),),
        options=(name_workspace_option("the note's workspace"), JSON),
        examples=(
            "memsyncd get .memories/redis.md:12-18",
            "memsyncd get '.memories/redis.md#redis/timeouts'",
            "memsyncd get MEMORY.md",
        ),
    )
}
