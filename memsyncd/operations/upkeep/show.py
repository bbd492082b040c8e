"""Print the changes of archiving, restoring, cleaning up and promoting."""

from __future__ import annotations

from memsyncd.terminal.parser import parse_number
from memsyncd.terminal.places import find_memories
from memsyncd.terminal.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


def name_memories(args: Args, console: Console) -> dict[str, Any]:
    """Return the parameters that name memories by their anchors, and their workspace."""
    return find_memories(args.anchors, console) if args.anchors else {}


def parse_worth(text: str) -> float:
    return parse_number(text, 100)


def show_plan(answer: dict[str, Any], _args: Args, console: Console) -> None:
    """Print the memories that a request changes, or would change."""
    _print_items(answer, console)
    if (answer["n_archived"] or answer["n_restored"]) and not answer["is_applied"]:
        console.report_plan(answer["plan"])


def _print_items(answer: dict[str, Any], console: Console) -> None:
    terminal = console.terminal
    cleaned = clean_values(answer)
    will = "" if answer["is_applied"] else "would be "
    for name in ("archived", "restored", "skipped"):
        for item in cleaned[name]:
            word = name if name == "skipped" else will + name
            marks = f"{item['tier']} {item['worth']:.3g}, {item['reason']}"
            terminal.print(
                f"{word}  {terminal.paint('bold blue', item['anchor'])}"
                f"  {terminal.paint('dim', marks)}"
            )
    names = ("archived", "restored", "skipped")
    n_unnamed = sum(answer[f"n_{name}"] - len(answer[name]) for name in names)
    if n_unnamed:
        terminal.report(f"{n_unnamed:,} more are not named: see --limit and --offset")
    terminal.report(describe_plan(answer) + console.render_undo(answer, "; take it back with: "))


def describe_plan(answer: dict[str, Any]) -> str:
    """Return how many memories a request changes, or would change, and how many stay."""
    will = "" if answer["is_applied"] else "would be "
    changed = [
        f"{answer[f'n_{name}']:,} {will}{name}"
        for name in ("archived", "restored")
        if answer[f"n_{name}"]
    ]
    left = [
        f"{answer[f'n_{name}']:,} {name}" for name in ("retained", "skipped") if answer[f"n_{name}"]
    ]
    if not changed:
        return f"nothing to do: {', '.join(left)}" if left else "nothing to do"
    return ", ".join([*changed, *left])


def show_promoted(answer: dict[str, Any], _args: Args, console: Console) -> None:
    """Print the memories that were promoted, or would be."""
    verb = "promoted" if answer["is_applied"] else "would be promoted"
    for memory in clean_values(answer)["promoted"]:
        state = verb if memory["is_new"] else "was promoted before"
        place = console.terminal.paint("bold blue", memory["anchor"] or memory["path"])
        console.terminal.print(f"{memory['source']}  {state}: {place}")
    if any(memory["is_new"] for memory in answer["promoted"]) and not answer["is_applied"]:
        console.report_plan(answer["plan"])
