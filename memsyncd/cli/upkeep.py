"""Check notes, and recall memories: `memsyncd check` and `recall`."""

from __future__ import annotations

from memsyncd.cli.search import FOLLOW, report_query
from memsyncd.terminal.answers import report_query
from memsyncd.terminal.console import call_method, make_action, show_answer
from memsyncd.terminal.format import render_contradictions, render_count
from memsyncd.terminal.parser import (
    JSON,
    Argument,
    Command,
    Option,
    make_workspace_option,
)
from memsyncd.terminal.places import find_among
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


# --- recall -------------------------------------------------------------------------------------


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


COMMANDS = {
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
    "check": Command(
        _check,
        arguments=(Argument("path", "[PATH]", "a note, folder or glob; by default all"),),
        options=(make_workspace_option("check in this workspace"), JSON),
        examples=("memsyncd check", "memsyncd check .memories/decisions.md"),
    ),
}
