"""Check notes, and care for memories as they age: `memsyncd check`, `archive`, `unarchive`,
`cleanup`, `promote`, `recall`.
"""

from __future__ import annotations

from memsyncd.cli.console import NOTHING_FOUND
from memsyncd.cli.format import render_contradictions, render_count, render_path
from memsyncd.cli.note_arguments import find_workspace_note, roots_by_id
from memsyncd.cli.notes import CLIENT, CLIENT_OPTION, WRITE_MS, report_unless_indexed
from memsyncd.cli.parser import (
    JSON,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_workspace_option,
    parse_number,
)
from memsyncd.cli.search import FILTERS, FOLLOW, filters_from
from memsyncd.cli.terminal import clean, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console
    from memsyncd.cli.terminal import Paint

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
    return print_plan(answer, args, console)


def print_plan(answer: dict[str, Any], args: Args, console: Console) -> int:
    """Print what an act changes or has changed; status 1 if that is nothing."""
    n_changed = len(answer["archived"]) + len(answer["restored"])
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_items(answer, console)
        if n_changed and not args.apply:
            plan = f"--apply --plan {answer['plan']}"
            console.terminal.report(f"dry run: nothing was changed; do it with {plan}")
        report_unless_indexed(answer, console)
    return 0 if n_changed else NOTHING_FOUND


def _print_items(answer: dict[str, Any], console: Console) -> None:
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
    terminal.report(describe_plan(answer))


def describe_plan(answer: dict[str, Any]) -> str:
    """Return how many memories an act changes or has changed, and how many it leaves."""
    will = "" if answer["is_applied"] else "would be "
    changed = [
        f"{len(answer[name])} {will}{name}" for name in ("archived", "restored") if answer[name]
    ]
    left = [f"{len(answer[name])} {name}" for name in ("retained", "skipped") if answer[name]]
    if not changed:
        return f"nothing to do: {', '.join(left)}" if left else "nothing to do"
    undo = f"; take it back with: memsyncd undo --change-set {answer['change_set']}"
    return ", ".join([*changed, *left]) + (undo if answer["change_set"] else "")


def _read_limit(text: str) -> float:
    return parse_number(text, 100)


# --- promote, recall ----------------------------------------------------------------------------


def _promote(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "promote",
        anchor=args.anchor,
        task=args.task,
        tag=args.tag,
        note=args.note,
        dry_run=args.dry_run,
        client=args.client or CLIENT,
    )
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
        return 0
    for one in clean_values(answer)["promoted"]:
        verb = "would be promoted" if args.dry_run else "promoted"
        state = verb if one["is_new"] else "was promoted before"
        place = one["anchor"] or one["path"]
        terminal.print(f"{one['source']}  {state}: {terminal.paint('bold blue', place)}")
    report_unless_indexed(answer, console)
    return 0


def _render_recalled(one: dict[str, Any], paint: Paint) -> str:
    """Render the anchor of a memory, what led to it, and its contradictions."""
    led = f"{one['relation']} of {one['related_to']}" if one["relation"] else ""
    marks = [paint("cyan", led) if led else "", *render_contradictions(one, paint, root="", cwd="")]
    return "  ".join(filter(None, (paint("bold blue", one["anchor"]), *marks)))


def _recall(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "recall",
        keywords=args.keyword or None,
        topic=args.topic,
        kind=args.kind,
        text=args.text,
        max_tokens=args.max_tokens,
        follow=args.follow or None,
    )
    terminal = console.terminal
    if args.json:
        terminal.print_json(answer)
    else:
        for one in answer["memories"]:
            terminal.print(_render_recalled(clean_values(one), terminal.paint))
            terminal.print(f"{clean(one['text'])}\n")
        stage = f"found by {answer['stage']}" if answer["stage"] else "nothing is found"
        left = f", {answer['left_out']} left out" if answer["left_out"] else ""
        terminal.report(f"{stage}: {render_count(len(answer['memories']), 'section')}{left}")
    return 0 if answer["memories"] else NOTHING_FOUND


_BELOW = Option("--below N", "those worth less than this", parse=_read_limit)
_ANCHORS = Argument("anchor", "[ANCHOR…]", "memories by their anchors")
APPLY = Option("--apply", "do it; otherwise only what would change is shown")
PLAN = Option("--plan DIGEST", "only if the plan is still this one, as a dry run shows")
_PLANNED = (
    APPLY,
    PLAN,
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
    "promote": Command(
        _promote,
        arguments=(Argument("anchor", "[ANCHOR]", "a memory by its anchor"),),
        options=(
            Option("--task ID", "all summaries of this task instead"),
            Option("--tag T", "decision, convention, pattern, pitfall, …"),
            Option("--note PATH", "promote to this note"),
            Option("--dry-run", "only show what would be promoted"),
            make_workspace_option(),
            CLIENT_OPTION,
            JSON,
        ),
        examples=(
            "memsyncd promote '.memories/summaries.md#summaries/retries' --tag pattern",
            "memsyncd promote --task WU-123 --tag decision",
        ),
    ),
    "recall": Command(
        _recall,
        arguments=(Argument("keyword", "[KEYWORD…]", "any of these keywords"),),
        options=(
            Option("--topic TEXT", "of this topic"),
            Option("--kind K", "of this kind"),
            Option("--text TEXT", "words, if nothing else finds a memory"),
            Option("--max-tokens N", "the budget, 100 to 50,000 tokens (default 2,000)"),
            FOLLOW,
            make_workspace_option(),
            JSON,
        ),
        examples=(
            "memsyncd recall redis timeout",
            "memsyncd recall --topic auth --kind error --follow resolved_by",
        ),
    ),
    "cleanup": Command(
        _clean_up,
        options=(_BELOW, *_PLANNED),
        examples=("memsyncd cleanup", "memsyncd cleanup --below 0.1 --apply"),
    ),
    "check": Command(
        _check,
        arguments=(Argument("path", "[PATH]", "a note, folder or glob; by default all"),),
        options=(make_workspace_option("check in this workspace"), JSON),
        examples=("memsyncd check", "memsyncd check .memories/decisions.md"),
    ),
}
