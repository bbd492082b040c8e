"""Print changes as they are indexed: `memsyncd watch`."""

from __future__ import annotations

import time

from memsyncd.errors import WorkspaceNotFound
from memsyncd.terminal.format import render_count
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.terminal import Paint

N_PATHS_SHOWN = 6


def watch_changes(args: Args, console: Console) -> int:
    """Print each change until Ctrl-C."""
    names = {
        info["id"]: clean_line(info["name"])
        for info in console.call("workspace.list")["workspaces"]
    }
    answer = _subscribe(args, console)
    terminal = console.terminal
    watched = ", ".join(
        f"{names.get(key, key)} (generation {n})" for key, n in answer["generations"].items()
    )
    terminal.note(f"watching {watched or 'all future workspaces'}; Ctrl-C ends")
    for method, change in console.client.notifications():
        if method != "changed":
            continue
        if args.json:
            terminal.print_json(change)
        else:
            terminal.print(
                render_change(
                    clean_values(change), names, terminal.paint, clock=time.strftime("%H:%M:%S")
                )
            )
        terminal.out.flush()
    return 0


def _subscribe(args: Args, console: Console) -> dict[str, Any]:
    paths = args.params.get("paths")
    if args.all:
        return console.call("subscribe", paths=paths)
    if args.workspace is not None:
        return console.call(
            "subscribe", paths=paths, workspace=console.name_workspace(args.workspace)
        )
    try:
        return console.call("subscribe", paths=paths, workspace=console.cwd or None)
    except WorkspaceNotFound:
        return console.call("subscribe", paths=paths)


def render_change(
    change: dict[str, Any], names: dict[str, str], paint: Paint, *, clock: str
) -> str:
    """Render `12:03:44 notes generation 43 3 chunks .memories/redis.md`."""
    paths = [clean_line(path) for path in change["paths"]]
    listed = ", ".join(paths[:N_PATHS_SHOWN])
    if len(paths) > N_PATHS_SHOWN:
        listed += f" and {len(paths) - N_PATHS_SHOWN:,} more"
    if not change["complete"]:
        listed += "  (older changes are missing: search again)"
    return "  ".join(
        [
            paint("dim", clock),
            paint("bold", names.get(change["workspace"], change["workspace"])),
            f"generation {change['generation']}",
            render_count(change["chunks"], "chunk"),
            listed,
        ]
    )
