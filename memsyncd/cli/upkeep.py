"""Check notes, and care for memories as they age: `memsyncd check`, `archive`, `unarchive`,
`cleanup`, `promote`, `recall`.
"""

from __future__ import annotations

from memsyncd.cli.search import FILTERS, FOLLOW, take_filters
from memsyncd.operations.upkeep.show import CHANGED, plan_params, show_plan
from memsyncd.terminal.answers import report_query
from memsyncd.terminal.console import CLIENT_OPTION, call_method, make_action, show_answer
from memsyncd.terminal.format import render_contradictions, render_count
from memsyncd.terminal.parser import (
    JSON,
    TIMEOUT,
    Argument,
    Command,
    Option,
    make_workspace_option,
    parse_number,
)
from memsyncd.terminal.places import find_among, find_memories
from memsyncd.terminal.terminal import clean, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.terminal import Paint

# --- check --------------------------------------------------------------------------------------

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


# --- archive, unarchive, cleanup ----------------------------------------------------------------


def _select(args: Args, console: Console) -> dict[str, Any]:
    anchors = find_memories(args.anchors, console) if args.anchors else {}
    return {**take_filters(args, console), **anchors, **plan_params(args, console)}


def _read_limit(text: str) -> float:
    return parse_number(text, 100)


# --- promote, recall ----------------------------------------------------------------------------


def _name_memory(args: Args, console: Console) -> dict[str, Any]:
    if args.anchor is None:
        return {}
    found = find_memories([args.anchor], console)
    return {"anchor": found["anchors"][0], "workspace": found["workspace"]}


def _show_promoted(answer: dict[str, Any], args: Args, console: Console) -> None:
    for one in clean_values(answer)["promoted"]:
        verb = "would be promoted" if args.dry_run else "promoted"
        state = verb if one["is_new"] else "was promoted before"
        place = console.terminal.paint("bold blue", one["anchor"] or one["path"])
        console.terminal.print(f"{one['source']}  {state}: {place}")


def _render_recalled(one: dict[str, Any], paint: Paint) -> str:
    """Render the anchor of a memory, what led to it, and its contradictions."""
    led = f"{one['relation']} of {one['related_to']}" if one["relation"] else ""
    marks = [paint("cyan", led) if led else "", *render_contradictions(one, paint, root="", cwd="")]
    return "  ".join(filter(None, (paint("bold blue", one["anchor"]), *marks)))


def _show_recalled(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    for one in answer["memories"]:
        terminal.print(_render_recalled(clean_values(one), terminal.paint))
        if one.get("mark"):
            terminal.print(terminal.paint("yellow", one["mark"]))
        terminal.print(f"{clean(one['text'])}\n")
    stage = f"found by {answer['stage']}" if answer["stage"] else "nothing is found"
    report_query(answer, console)
    left = f", {answer['left_out']} left out" if answer["left_out"] else ""
    terminal.report(f"{stage}: {render_count(len(answer['memories']), 'section')}{left}")


_BELOW = Option("--below N", "those worth less than this", parse=_read_limit)
_ANCHORS = Argument("anchors", "[ANCHOR…]", "memories by their anchors")
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
        make_action("archive", show_plan, found=CHANGED, make_params=_select),
        arguments=(_ANCHORS,),
        options=(_BELOW, *FILTERS, *_PLANNED),
        examples=(
            "memsyncd archive",
            "memsyncd archive --kind tool_run --before 30d --apply",
            "memsyncd archive '.memories/runs.md#runs/build' --apply",
        ),
    ),
    "unarchive": Command(
        make_action("archive.restore", show_plan, found=CHANGED, make_params=_select),
        arguments=(_ANCHORS,),
        options=(*FILTERS, *_PLANNED),
        examples=("memsyncd unarchive --kind tool_run", "memsyncd unarchive --path '**' --apply"),
    ),
    "promote": Command(
        make_action("promote", _show_promoted, make_params=_name_memory),
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
        make_action("recall", _show_recalled, found="memories"),
        arguments=(Argument("keywords", "[KEYWORD…]", "any of these keywords"),),
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
        make_action("cleanup", show_plan, found=CHANGED, make_params=plan_params),
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
