"""`memsyncd config`: show or check the configuration, or print its path.

The command asks no daemon, because an invalid file may be the reason why no daemon runs.
"""

from __future__ import annotations

import os

from memsyncd.dirs import CONFIG_VARIABLE, find_user_dirs
from memsyncd.errors import BadConfig, BadRequest
from memsyncd.terminal.console import show_answer
from memsyncd.terminal.parser import JSON, Argument, Command
from memsyncd.terminal.terminal import clean, clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.config.load import Loaded
    from memsyncd.terminal.console import Console


def _config(args: Args, console: Console) -> int:
    path = _find_file(args.file, console)
    report: dict[str, Any] = {"path": path}
    if args.action == "path":
        return show_answer(report, args, console, _show_path)
    try:
        loaded = _load(path, console, is_named=args.file is not None)
    except BadConfig as error:
        if not args.json:
            raise
        # With --json, the errors go to stdout, with the same exit status.
        wrong = error.data.get("lines", [error.message])
        console.terminal.print_json({**report, "is_fine": False, "wrong": wrong})
        return error.exit_status
    from memsyncd.config.load import render_config

    text = render_config(loaded)
    report |= {
        "is_fine": True,
        "is_file_found": loaded.is_file_found,
        "warnings": list(loaded.warnings),
    }
    if args.action == "check":
        return show_answer(report, args, console, _show_check)
    import tomllib

    report |= {"values": tomllib.loads(text), "origins": dict(loaded.origins)}
    return show_answer(
        report, args, console, lambda *_: console.terminal.print(clean(text).rstrip("\n"))
    )


def _show_path(report: dict[str, Any], _args: Args, console: Console) -> None:
    path, terminal = report["path"], console.terminal
    terminal.print(clean_line(path) if terminal.is_out_terminal else path)


def _show_check(report: dict[str, Any], _args: Args, console: Console) -> None:
    state = "does not exist; defaults and environment are valid"
    if report["is_file_found"]:
        state = "is valid"
    console.terminal.report(f"{clean_line(report['path'])} {state}")


def _find_file(named: str | None, console: Console) -> str:
    if named is None:
        return find_user_dirs(console.env).config_file
    if not os.path.isabs(named) and not console.cwd:
        raise BadRequest("the current folder was deleted", hint="give the file's absolute path")
    return os.path.join(console.cwd, named)


def _load(path: str, console: Console, *, is_named: bool) -> Loaded:
    from memsyncd.config.load import load_config

    # A file that the user names must exist, as a file in the environment variable must.
    env = {**console.env, CONFIG_VARIABLE: path} if is_named else console.env
    loaded = load_config(path, env)
    for warning in loaded.warnings:
        console.terminal.warn(f"warning: {clean_line(warning)}")
    return loaded


_ACTIONS = "show: every value and its origin; check: list the errors; path: the file's path"

COMMANDS = {
    "config": Command(
        _config,
        arguments=(
            Argument("action", "ACTION", _ACTIONS, choices=("show", "check", "path")),
            Argument("file", "[FILE]", "another file than the default one"),
        ),
        options=(JSON,),
        examples=(
            "memsyncd config show",
            "memsyncd config check",
            '$EDITOR "$(memsyncd config path)"',
        ),
    )
}
