"""`memsyncd watch`: what is being indexed, as it happens? One line a change, until interrupted."""

from __future__ import annotations

import time

from memsyncd.cli.figures import render_count
from memsyncd.cli.grammar import Command, Option, name_workspace_option
from memsyncd.cli.terminal import clean_line, clean_values
from memsyncd.errors import WorkspaceNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console
    from memsyncd.cli.terminal import Paint

N_PATHS_SHOWN = 6


def _act(args: Args, console: Console) -> int:
    names = {info["id"]: clean_line(info["name"]) for info in console.ask("workspace.list")["workspaces"]}
    answer = _subscribe(args, console)
    terminal = console.terminal
    watched = ", ".join(f"{names.get(key, key)} (generation {n})" for key, n in answer["generations"].items())
    terminal.say(terminal.err_paint("dim", f"watching {watched or 'every workspace to come'}; Ctrl-C ends"))
    for method, change in console.client.notifications():
        if method != "changed":
            continue
        if args.json:
            terminal.print_json(change)
        else:
            terminal.print(render_change(clean_values(change), names, terminal.paint, clock=time.strftime("%H:%M:%S")))
        terminal.out.flush()
    return 0


def _subscribe(args: Args, console: Console) -> dict[str, Any]:
    paths = args.path or None
    if args.all:
        return console.ask("subscribe", paths=paths)
    if args.workspace is not None:
        return console.ask("subscribe", paths=paths, workspace=console.name_workspace(args.workspace))
    try:
        return console.ask("subscribe", paths=paths, workspace=console.cwd or None)
    except WorkspaceNotFound:
        return console.ask("subscribe", paths=paths)


def render_change(change: dict[str, Any], names: dict[str, str], paint: Paint, *, clock: str) -> str:
    """`12:03:44  notes  generation 43  3 chunks  .memories/redis.md`."""
    paths = [clean_line(path) for path in change["paths"]]
    shown = ", ".join(paths[:N_PATHS_SHOWN])
    if len(paths) > N_PATHS_SHOWN:
        shown += f" and {len(paths) - N_PATHS_SHOWN:,} more"
    if not change["complete"]:
        shown += "  (older changes are forgotten: search again)"
    return "  ".join(
        [
            paint("dim", clock),
            paint("bold", names.get(change["workspace"], change["workspace"])),
            f"generation {change['generation']}",
            render_count(change["chunks"], "chunk"),
            shown,
        ]
    )


COMMANDS = {
    "watch": Command(
        _act,
        options=(
            name_workspace_option("watch this workspace"),
            Option("--all", "watch all workspaces"),
            Option("--path", "only notes that match", metavar="G", is_repeated=True),
            Option("--json", "print each change as one line of JSON"),
        ),
        examples=("memsyncd watch", "memsyncd watch --all --json"),
    )
}
