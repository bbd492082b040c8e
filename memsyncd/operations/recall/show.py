"""Show recalled memories."""

from __future__ import annotations

from memsyncd.terminal.console import report_query
from memsyncd.terminal.format import render_contradictions, render_count
from memsyncd.terminal.terminal import clean, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.terminal import Paint


def _render_recalled(memory: dict[str, Any], paint: Paint) -> str:
    """Render the anchor of a memory, the relation that led to it, and its contradictions."""
    led = f"{memory['relation']} of {memory['related_to']}" if memory["relation"] else ""
    contradictions = render_contradictions(memory, paint, root="", cwd="")
    marks = [paint("cyan", led) if led else "", *contradictions]
    return "  ".join(filter(None, (paint("bold blue", memory["anchor"]), *marks)))


def show_recalled(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    for memory in answer["memories"]:
        terminal.print(_render_recalled(clean_values(memory), terminal.paint))
        if memory.get("mark"):
            terminal.print(terminal.paint("yellow", memory["mark"]))
        terminal.print(f"{clean(memory['text'])}\n")
    stage = f"found by {answer['stage']}" if answer["stage"] else "nothing is found"
    report_query(answer, console)
    left = f", {answer['left_out']} left out" if answer["left_out"] else ""
    terminal.report(f"{stage}: {render_count(len(answer['memories']), 'section')}{left}")
