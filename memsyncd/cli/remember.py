"""`memsyncd remember`: what is worth knowing next time? A section, appended to a note, from words or from a pipe."""

from __future__ import annotations

import os

from memsyncd.cli.grammar import JSON, TIMEOUT, Argument, Command, Option, name_workspace_option, read_share
from memsyncd.cli.memory import CLIENT, CLIENT_OPTION, WRITE_MS, say_unless_indexed
from memsyncd.cli.places import find_roots, show_path, show_span
from memsyncd.cli.stdin import STDIN, read_text
from memsyncd.cli.subject import find_writable
from memsyncd.cli.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console


def _act(args: Args, console: Console) -> int:
    content = read_text(" ".join(args.text) if args.text else None, console, is_piped=args.stdin)
    roots = find_roots(console.ask("workspace.list")["workspaces"])
    root, note = (None, None) if args.note is None else find_writable(args.note, console, roots)
    console.wait_for(args.timeout_ms or WRITE_MS)
    said = {name: getattr(args, name) for name in _SAID}
    answer = console.ask_about(
        args.workspace or root,
        "note.add",
        content=content,
        tags=args.tag,
        note=note,
        client=args.client or CLIENT,
        timeout_ms=args.timeout_ms,
        **said,
    )
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_place(clean_values(answer), roots.get(answer["workspace"], ""), console)
        say_unless_indexed(answer, console)
    return 0


def _print_place(answer: dict[str, Any], root: str, console: Console) -> None:
    paint = console.terminal.paint
    place = show_span(show_path(answer["path"], root, console.cwd), answer["start_line"], answer["end_line"])
    console.terminal.print(paint.link(paint("bold blue", place), os.path.join(root, answer["path"]), answer["start_line"]))


_SAID = ("summary", "kind", "importance", "priority", "lifecycle", "source", "task", "session", "created")

COMMANDS = {
    "remember": Command(
        _act,
        arguments=(Argument("text", "TEXT", "what to remember; - or none for what is piped in", many="any"),),
        options=(
            Option("--summary", "the heading; by default what the text begins with", metavar="S"),
            Option("--kind", "what sort of memory, such as decision; says which note, too", metavar="K"),
            Option("--tag", "mark it with this tag", metavar="T", is_repeated=True),
            Option("--note", "append it to this note", metavar="PATH"),
            Option("--importance", "from 0 to 1; by default that of its kind", metavar="S", read=read_share),
            Option("--priority", "P0, P1, P2 or P3", metavar="P"),
            Option("--lifecycle", "ephemeral, session, task or project", metavar="L"),
            Option("--source", "where it comes from", metavar="TEXT"),
            Option("--task", "the task that it belongs to", metavar="ID"),
            Option("--session", "the session that it belongs to", metavar="ID"),
            Option("--created", "its day or time, if not now", metavar="DAY"),
            STDIN,
            name_workspace_option("remember it in this workspace"),
            CLIENT_OPTION,
            TIMEOUT,
            JSON,
        ),
        examples=(
            "memsyncd remember 'Redis gives up after 30 s' --kind decision --tag redis",
            "git log -1 --format=%B | memsyncd remember --summary 'What was released' --note releases.md",
        ),
    )
}
