"""`memsyncd config`: what is configured, is it right, and where does it lie?

No daemon is asked, since a broken file may be why none runs.
"""

from __future__ import annotations

import os
import sys

from memsyncd.cli.grammar import Argument, Command
from memsyncd.cli.terminal import clean, clean_line
from memsyncd.dirs import CONFIG_VARIABLE, find_dirs
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.cli.console import Console
    from memsyncd.config import Loaded


def _act(args: Args, console: Console) -> int:
    path = _find_file(args.file, console)
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
        examples=("memsyncd config show", "memsyncd config check", '$EDITOR "$(memsyncd config path)"'),
    )
}
