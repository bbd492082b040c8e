"""`memsyncd ui`: open the panel in a browser, or with `--terminal` in the terminal."""

from __future__ import annotations

import os

from memsyncd.dirs import find_user_dirs
from memsyncd.errors import BadConfig, BadRequest, WorkspaceNotFound
from memsyncd.terminal.console import show_answer
from memsyncd.terminal.parser import JSON, Command, Option, make_workspace_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console

REDIRECT = """<!doctype html><html><head><meta charset="utf-8">
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url={url}">
<title>memsyncd</title></head></html>
"""


def _open(args: Args, console: Console) -> int:
    if args.terminal:
        return _open_in_terminal(args, console)
    answer = console.call("panel.open")
    if workspace := _find_workspace(args, console):
        answer["url"] += f"&w={workspace}"
    return show_answer(answer, args, console, _show_address)


def _find_workspace(args: Args, console: Console) -> str:
    """Return the id of the named workspace, else of the current folder's; empty if it is in none.
    Raises WorkspaceNotFound for a name that no workspace has.
    """
    if args.workspace:
        return str(console.find_workspace(args.workspace)["id"])
    if not console.cwd:
        return ""
    try:
        return str(console.call("status", workspace=console.cwd)["workspaces"][0]["id"])
    except (WorkspaceNotFound, IndexError):
        return ""


def _show_address(answer: dict[str, Any], args: Args, console: Console) -> None:
    url = str(answer["url"])
    is_opened = not args.print and can_show(console.env) and _show(url, console)
    console.terminal.print(url)
    console.terminal.report(describe_next(url, console.env, is_opened=is_opened))


def _open_in_terminal(args: Args, console: Console) -> int:
    if args.json or args.print:
        raise BadRequest(
            "--terminal cannot be used with --print or --json", hint="use only one of them"
        )
    if not (os.isatty(0) and os.isatty(1)) or console.env.get("TERM", "dumb") == "dumb":
        raise BadRequest(
            "--terminal needs a terminal for its keys and its screen",
            hint="over ssh: ssh -t HOST memsyncd ui --terminal; in a script: memsyncd search",
        )
    try:
        # Textual is imported late, because its import takes longer than any other command.
        from memsyncd.cli.tui.app import run_app
    except ModuleNotFoundError:
        raise BadConfig(
            "--terminal needs a library that is not installed: textual",
            hint="run: pip install 'memsyncd[terminal]'",
        ) from None
    workspace = _find_workspace(args, console)
    if not workspace:
        workspace = next((info["id"] for info in console.call("status")["workspaces"]), "")
    console.close()
    return run_app(console.env, workspace)


def can_show(env: Mapping[str, str]) -> bool:
    """Return whether a browser would appear on the user's own screen; False over ssh."""
    if env.get("SSH_CONNECTION"):
        return False
    return os.uname().sysname == "Darwin" or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))


def describe_next(url: str, env: Mapping[str, str], *, is_opened: bool) -> str:
    """Return the line that tells the user how to open the address."""
    port = url.split(":")[2].partition("/")[0]
    if is_opened:
        return "your browser opens the panel; if it does not, open this address within a minute"
    if env.get("SSH_CONNECTION"):
        return (
            f"within a minute, run this on your own machine and open the address there: "
            f"ssh -L {port}:127.0.0.1:{port} HOST"
        )
    return "open this address in a browser within a minute; it works only once"


def _show(url: str, console: Console) -> bool:
    """Open a browser on a file that redirects to the address. Return whether a browser was opened.

    Other users of the machine can see the arguments of a browser, but not this file.
    """
    import webbrowser

    path = f"{find_user_dirs(console.env).state_dir}/panel.html"
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(REDIRECT.format(url=url))
        return webbrowser.open(f"file://{path}")
    except OSError:
        return False


COMMANDS = {
    "ui": Command(
        _open,
        options=(
            Option("--terminal", "use the terminal, even over ssh; needs memsyncd[terminal]"),
            make_workspace_option("the workspace to show"),
            Option("--print", "print the address and do not open a browser"),
            JSON,
        ),
        examples=("memsyncd ui", "memsyncd ui -w notes --terminal", "memsyncd ui --print"),
    ),
}
