"""Check notes, and care for memories as they age: `memsyncd check`."""

from __future__ import annotations

from memsyncd.cli.format import render_count, render_path
from memsyncd.cli.parser import JSON, Argument, Command, make_workspace_option
from memsyncd.cli.targets import find_workspace_note, roots_by_id
from memsyncd.cli.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console

# --- check --------------------------------------------------------------------------------------

FAULTS_FOUND = 1


def _check(args: Args, console: Console) -> int:
    root, path = None, None
    roots = roots_by_id(console.call("workspace.list")["workspaces"])
    if args.path is not None:
        root, path = find_workspace_note(args.path, console.cwd, list(roots.values()))
    answer = console.call_on(args.workspace or root, "validate", path=path)
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
        return 0 if answer["is_valid"] else FAULTS_FOUND
    for fault in clean_values(answer)["faults"]:
        root = roots.get(answer["workspace"], "")
        terminal.print(_render_fault(fault, render_path(fault["path"], root, console.cwd), console))
    n_faults = render_count(len(answer["faults"]), "fault")
    terminal.report(f"{render_count(answer['checked'], 'section')} checked, {n_faults}")
    return 0 if answer["is_valid"] else FAULTS_FOUND


def _render_fault(fault: dict[str, Any], path: str, console: Console) -> str:
    paint = console.terminal.paint
    place = f"{path}:{fault['line']}" if fault["line"] else path
    field = f"{fault['field']} " if fault["field"] else ""
    return f"{paint('bold blue', place)}  {field}{fault['problem']}; {paint('dim', fault['hint'])}"


COMMANDS = {
    "check": Command(
        _check,
        arguments=(
            Argument("path", "PATH", "a note, folder or glob; by default all", many="optional"),
        ),
        options=(make_workspace_option("check in this workspace"), JSON),
        examples=("memsyncd check", "memsyncd check .memories/decisions.md"),
    ),
}
