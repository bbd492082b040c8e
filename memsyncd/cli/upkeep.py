"""Check notes: `memsyncd check`."""

from __future__ import annotations

from memsyncd.terminal.console import call_method, show_answer
from memsyncd.terminal.format import render_count
from memsyncd.terminal.parser import (
    JSON,
    Argument,
    Command,
    make_workspace_option,
)
from memsyncd.terminal.places import find_among
from memsyncd.terminal.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console

FAULTS_FOUND = 1


def _check(args: Args, console: Console) -> int:
    answer = call_method(args, console, "validate", **find_among(args.path, console))
    show_answer(answer, args, console, _show_faults)
    return 0 if answer["is_valid"] else FAULTS_FOUND


def _show_faults(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    for fault in clean_values(answer["faults"]):
        lines = {"start_line": fault["line"], "end_line": fault["line"]}
        place = console.render_place({"path": fault["path"], **lines}, answer["workspace"])
        field = f"{fault['field']} " if fault["field"] else ""
        hint = terminal.paint("dim", fault["hint"])
        terminal.print(f"{place}  {field}{fault['problem']}; {hint}")
    n_faults = render_count(len(answer["faults"]), "fault")
    terminal.report(f"{render_count(answer['checked'], 'section')} checked, {n_faults}")


COMMANDS = {
    "check": Command(
        _check,
        arguments=(Argument("path", "[PATH]", "a note, folder or glob; by default all"),),
        options=(make_workspace_option("check in this workspace"), JSON),
        examples=("memsyncd check", "memsyncd check .memories/decisions.md"),
    ),
}
