"""Check notes, and care for memories as they age: `memsyncd check`, `archive`, `unarchive`,
`cleanup`.
"""

from __future__ import annotations

from memsyncd.cli.format import render_count, render_path
from memsyncd.cli.notes import CLIENT, CLIENT_OPTION, WRITE_MS, report_unless_indexed
from memsyncd.cli.parser import (
    JSON,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_workspace_option,
)
from memsyncd.cli.search import FILTERS, NOTHING_FOUND, filters_from
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


# --- archive, unarchive, cleanup ----------------------------------------------------------------


def _archive(args: Args, console: Console) -> int:
    return _keep_up("archive", args, console, **_read_selection(args), below=args.below)


def _unarchive(args: Args, console: Console) -> int:
    return _keep_up("archive.restore", args, console, **_read_selection(args))


def _clean_up(args: Args, console: Console) -> int:
    return _keep_up("cleanup", args, console, below=args.below)


def _read_selection(args: Args) -> dict[str, object]:
    filters = filters_from(args) or {}
    return {"anchors": args.anchor or None, "filters": filters or None}


def _keep_up(method: str, args: Args, console: Console, **params: object) -> int:
    console.set_timeout_ms(args.timeout_ms or WRITE_MS)
    answer = console.call_on(
        args.workspace,
        method,
        **params,
        dry_run=not args.apply,
        plan=args.plan,
        client=args.client or CLIENT,
        timeout_ms=args.timeout_ms,
    )
    n_changed = len(answer["archived"]) + len(answer["restored"])
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_plan(answer, console)
        if n_changed and not args.apply:
            plan = f"--apply --plan {answer['plan']}"
            console.terminal.report(f"dry run: nothing was changed; do it with {plan}")
        report_unless_indexed(answer, console)
    return 0 if n_changed else NOTHING_FOUND


def _print_plan(answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    shown = clean_values(answer)
    will = "" if answer["is_applied"] else "would be "
    for name in ("archived", "restored", "skipped"):
        for item in shown[name]:
            word = name if name == "skipped" else will + name
            marks = f"{item['tier']} {item['decay']:.3g}, {item['reason']}"
            terminal.print(
                f"{word}  {terminal.paint('bold blue', item['anchor'])}"
                f"  {terminal.paint('dim', marks)}"
            )
    counts = [(len(answer[name]), name) for name in ("archived", "restored", "retained", "skipped")]
    told = ", ".join(f"{n} {name}" for n, name in counts if n)
    undo = f"; take it back with: memsyncd undo --change-set {answer['change_set']}"
    terminal.report((told or "nothing to do") + (undo if answer["change_set"] else ""))


def _read_limit(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise ValueError("expected a number from 0 to 100, such as 0.1")
    return number


_BELOW = Option("--below", "those worth less than this", metavar="N", parse=_read_limit)
_ANCHORS = Argument("anchor", "ANCHOR", "memories by their anchors", many="any")
_PLANNED = (
    Option("--apply", "do it; otherwise only what would change is shown"),
    Option("--plan", "only if the plan is still this one, as a dry run shows", metavar="DIGEST"),
    make_workspace_option(),
    CLIENT_OPTION,
    TIMEOUT,
    JSON,
)

COMMANDS = {
    "archive": Command(
        _archive,
        arguments=(_ANCHORS,),
        options=(_BELOW, *FILTERS, *_PLANNED),
        examples=(
            "memsyncd archive",
            "memsyncd archive --kind tool_run --before 30d --apply",
            "memsyncd archive '.memories/runs.md#runs/build' --apply",
        ),
    ),
    "unarchive": Command(
        _unarchive,
        arguments=(_ANCHORS,),
        options=(*FILTERS, *_PLANNED),
        examples=("memsyncd unarchive --kind tool_run", "memsyncd unarchive --path '**' --apply"),
    ),
    "cleanup": Command(
        _clean_up,
        options=(_BELOW, *_PLANNED),
        examples=("memsyncd cleanup", "memsyncd cleanup --below 0.1 --apply"),
    ),
    "check": Command(
        _check,
        arguments=(
            Argument("path", "PATH", "a note, folder or glob; by default all", many="optional"),
        ),
        options=(make_workspace_option("check in this workspace"), JSON),
        examples=("memsyncd check", "memsyncd check .memories/decisions.md"),
    ),
}
