"""`memsyncd add`, `remove` and `list`: which folders are indexed, and which notes are in them?"""

from __future__ import annotations

import os

from memsyncd.cli.figures import render_count, render_table
from memsyncd.cli.grammar import JSON, Argument, Command, Option, name_workspace_option
from memsyncd.cli.init import find_folder
from memsyncd.cli.places import find_roots, show_lines, show_path
from memsyncd.cli.progress import show_until_indexed
from memsyncd.cli.render import render_freshness, render_tags
from memsyncd.cli.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console
    from memsyncd.cli.terminal import Paint

NOTHING_FOUND = 1


def _add(args: Args, console: Console) -> int:
    answer = console.ask(
        "workspace.add",
        path=find_folder(args.path),
        name=args.name,
        include=args.include or None,
        exclude=args.exclude or None,
    )
    if args.json:
        console.terminal.print_json(answer)
        return 0
    show_until_indexed(console)
    _print_workspaces(answer, console)
    if not all(info["has_memory"] or info["include"] for info in answer["workspaces"]):
        console.terminal.say(
            f"nothing to index there yet: `memsyncd init {clean_line(args.path)}` makes a MEMORY.md to begin with"
        )
    return 0


def _remove(args: Args, console: Console) -> int:
    answer = console.ask("workspace.remove", workspace=console.name_workspace(args.workspace))
    if args.json:
        console.terminal.print_json(answer)
    else:
        console.terminal.say(f"{clean_line(args.workspace)} is watched no more; its notes are untouched")
    return 0


def _list(args: Args, console: Console) -> int:
    # A filter or a workspace makes sense of notes alone, so it asks for them.
    if args.notes or args.sections or args.path or args.kind or args.tag or args.workspace:
        return _list_notes(args, console)
    answer = console.ask("workspace.list")
    if args.json:
        console.terminal.print_json(answer)
    elif args.names:
        for info in clean_values(answer)["workspaces"]:
            console.terminal.print(info["name"])
    elif answer["workspaces"]:
        _print_workspaces(answer, console)
    else:
        console.terminal.say("no workspace yet; add a folder with `memsyncd add PATH`")
    return 0


def _list_notes(args: Args, console: Console) -> int:
    answer = console.ask_about(args.workspace, "list", path=args.path, kind=args.kind, tag=args.tag)
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
    else:
        roots = find_roots(clean_values(console.ask("workspace.list"))["workspaces"])
        for line in _render_notes(
            clean_values(answer), roots, console, has_sections=bool(args.sections or args.kind or args.tag)
        ):
            terminal.print(line)
        _say_rest(answer, console)
    return 0 if answer["notes"] else NOTHING_FOUND


def _say_rest(answer: dict[str, Any], console: Console) -> None:
    if not answer["notes"]:
        console.terminal.say("no notes")
    freshness = render_freshness(answer["freshness"])
    if freshness:
        console.terminal.say(console.terminal.err_paint("yellow", freshness))


def _print_workspaces(answer: dict[str, Any], console: Console) -> None:
    paint = console.terminal.paint
    rows = [_render_workspace(info) for info in clean_values(answer)["workspaces"]]
    for name, *rest in render_table(rows):
        console.terminal.print(paint("bold", name) + "".join(rest))


def _render_workspace(info: dict[str, Any]) -> list[str]:
    globs = [*info["include"], *("!" + glob for glob in info["exclude"])]
    return [info["name"], info["root"], info["id"] + "".join("  " + glob for glob in globs)]


def _render_notes(answer: dict[str, Any], roots: dict[str, str], console: Console, *, has_sections: bool) -> list[str]:
    root = roots.get(answer["workspace"], "")
    paint = console.terminal.paint
    rows = [_render_note(note, root, console.cwd) for note in answer["notes"]]
    lines: list[str] = []
    for note, (path, *rest) in zip(answer["notes"], render_table(rows), strict=True):
        name = path.rstrip()
        linked = paint.link(paint("bold blue", name), os.path.join(root, note["path"]), 1)
        lines.append(linked + path[len(name) :] + "".join(rest))
        if has_sections:
            lines += [_render_section(section, paint) for section in note["sections"]]
    return [line.rstrip() for line in lines]


def _render_note(note: dict[str, Any], root: str, cwd: str) -> list[str]:
    marks = "  ".join(filter(None, [note["kind"] or "", render_tags(note["tags"])]))
    return [show_path(note["path"], root, cwd), note["title"], render_count(note["n_lines"], "line"), marks]


def _render_section(section: dict[str, Any], paint: Paint) -> str:
    lines = show_lines(section["start_line"], section["end_line"])
    title = section["heading"][-1] if section["heading"] else "(before the first heading)"
    marks = "  ".join(filter(None, [section["kind"] or "", render_tags(section["tags"]), section["status"] or ""]))
    return f"{paint('dim', f'{lines:>12}')}  {'  ' * max(section['level'] - 1, 0)}{title}  {paint('cyan', marks)}"


COMMANDS = {
    "add": Command(
        _add,
        arguments=(Argument("path", "PATH", "the folder"),),
        options=(
            Option("--name", "what to call it; by default the folder's name", metavar="N"),
            Option("--include", "index these too, such as 'docs/**/*.md'", metavar="G", is_repeated=True),
            Option("--exclude", "leave these out", metavar="G", is_repeated=True),
            JSON,
        ),
        examples=("memsyncd add .", "memsyncd add ~/code/api --include 'docs/**/*.md' --include CLAUDE.md"),
    ),
    "remove": Command(
        _remove,
        arguments=(Argument("workspace", "WS", "a name, an id or the folder"),),
        options=(JSON,),
        examples=("memsyncd remove notes", "memsyncd remove ~/notes"),
    ),
    "list": Command(
        _list,
        options=(
            Option("--names", "print the workspaces' names and nothing else"),
            Option("--notes", "list the notes of a workspace"),
            Option("--sections", "list notes with their sections"),
            Option("--path", "only this note, folder or glob", metavar="P"),
            Option("--kind", "only this kind, such as decision", metavar="K"),
            Option("--tag", "only with this tag", metavar="T"),
            name_workspace_option(),
            JSON,
        ),
        examples=("memsyncd list", "memsyncd list --notes --kind decision", "memsyncd list -w notes --sections"),
    ),
}
