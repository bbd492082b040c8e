"""Show recalled memories."""

from __future__ import annotations

from memsyncd.terminal.actions import send_to_several
from memsyncd.terminal.console import report_left_out, report_query, show_answer
from memsyncd.terminal.format import render_contradictions, render_count, render_name
from memsyncd.terminal.terminal import clean, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.terminal import Paint


def recall_memories(args: Args, console: Console) -> int:
    """Recall memories, of one or several workspaces."""
    answer = send_to_several("recall", args.params, args, console)
    return show_answer(answer, args, console, _show_recalled, found="memories")


def _render_recalled(memory: dict[str, Any], name: str, paint: Paint) -> str:
    """Render the anchor of a memory, the name of its workspace if there are several, the relation
    that led to it, and its contradictions.
    """
    led = f"{memory['relation']} of {memory['related_to']}" if memory["relation"] else ""
    contradictions = render_contradictions(memory, paint, root="", cwd="")
    marks = [paint("cyan", led) if led else "", *contradictions]
    label = f"[{name}] " if name else ""
    names = (paint("bold blue", memory["anchor"]), render_name(memory))
    return label + "  ".join(filter(None, (*names, *marks)))


def _show_recalled(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, workspaces = console.terminal, clean_values(answer["workspaces"])
    names = {each["id"]: each["name"] for each in workspaces} if len(workspaces) > 1 else {}
    for memory in answer["memories"]:
        name = names.get(memory["workspace"], "")
        terminal.print(_render_recalled(clean_values(memory), name, terminal.paint))
        if memory.get("mark"):
            terminal.print(terminal.paint("yellow", memory["mark"]))
        terminal.print(f"{clean(memory['text'])}\n", hang=0)
    stage = f"found by {answer['stage']}" if answer["stage"] else "nothing is found"
    report_query(answer, console)
    left = f", {answer['left_out']} left out" if answer["left_out"] else ""
    terminal.report(f"{stage}: {render_count(len(answer['memories']), 'section')}{left}")
    report_left_out(answer, console)
