"""`memsyncd config`: what is configured, is it right, and where does it lie?

No daemon is asked, since a broken file may be why none runs.
"""

from __future__ import annotations

import os
import sys

from memsyncd.cli.grammar import JSON, Argument, Command
from memsyncd.cli.terminal import clean, clean_line
from memsyncd.dirs import CONFIG_VARIABLE, find_dirs
from memsyncd.errors import BadConfig, BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console
    from memsyncd.config import Loaded


def _act(args: Args, console: Console) -> int:
    path = _find_file(args.file, console)
    if args.json:
        return _act_as_json(args, console, path)
    if args.action == "path":
        console.terminal.print(clean_line(path) if console.terminal.is_shown else path)
        return 0
    loaded = _load(path, console, is_named=args.file is not None)
    if args.action == "show":
        from memsyncd.config import render_config

        console.terminal.print(clean(render_config(loaded)).rstrip("\n"))
    else:
        found = "is fine" if loaded.is_file_found else "does not exist; defaults and environment are fine"
        console.terminal.say(f"{clean_line(path)} {found}")
    return 0


def _act_as_json(args: Args, console: Console, path: str) -> int:
    """The same for programs: what is wrong goes to stdout, too, with the same exit status."""
    told: dict[str, Any] = {"path": path}
    status = 0
    if args.action != "path":
        try:
            loaded = _load(path, console, is_named=args.file is not None)
        except BadConfig as error:
            told |= {"is_fine": False, "wrong": error.data.get("lines", [error.message])}
            status = error.exit_status
        else:
            told |= {"is_fine": True, "is_file_found": loaded.is_file_found, "warnings": list(loaded.warnings)}
            if args.action == "show":
                import tomllib

                from memsyncd.config import render_config

                told |= {"values": tomllib.loads(render_config(loaded)), "origins": dict(loaded.origins)}
    console.terminal.print_json(told)
    return status


def _find_file(named: str | None, console: Console) -> str:
    if named is None:
        home = console.env.get("HOME") or os.path.expanduser("~")
        return find_dirs(console.env, home, sys.platform).config_file
    if not os.path.isabs(named) and not console.cwd:
        raise BadRequest("the current folder is gone", hint="name the file by its full path")
    return os.path.join(console.cwd, named)


def _load(path: str, console: Console, *, is_named: bool) -> Loaded:
    from memsyncd.config import load_config

    # A file that was named must be there, as if the environment had named it.
    env = {**console.env, CONFIG_VARIABLE: path} if is_named else console.env
    loaded = load_config(path, env)
    for warning in loaded.warnings:
        console.terminal.say(console.terminal.err_paint("yellow", f"warning: {clean_line(warning)}"))
    return loaded


_ACTIONS = "show: every value and where it comes from; check: say what is wrong; path: where the file lies"

COMMANDS = {
    "config": Command(
        _act,
        arguments=(
            Argument("action", "ACTION", _ACTIONS, choices=("show", "check", "path")),
            Argument("file", "FILE", "another file than the usual one", many="optional"),
        ),
        options=(JSON,),
        examples=("memsyncd config show", "memsyncd config check", '$EDITOR "$(memsyncd config path)"'),
    )
}
