"""Change, finish and relate memories: `memsyncd set`, `done`, `relate`."""

from __future__ import annotations

from memsyncd.terminal.format import render_count
from memsyncd.terminal.places import find_memories
from memsyncd.terminal.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


def name_related(args: Args, console: Console) -> dict[str, Any]:
    """Return both memories of a relation, and the workspace above them."""
    named = find_memories([args.anchor, args.to], console)
    first, second = named.pop("anchors")
    return {**named, "anchor": first, "to": second}


def make_set(args: Args, console: Console) -> dict[str, Any]:
    """Return the memories, and the lists that change; the empty word alone stands for none."""
    words = {name: getattr(args, name) for name in ("tags", "keywords")}
    lists = {name: [word for word in given if word] for name, given in words.items() if given}
    named = find_memories(args.anchors, console) if args.anchors else {}
    return {**lists, **named}


def show_set(answer: dict[str, Any], _args: Args, console: Console) -> None:
    """Print what was changed, or would be."""
    terminal, shown = console.terminal, clean_values(answer)
    is_applied = answer["is_applied"]
    for name in ("changed", "unchanged", "skipped"):
        for item in shown[name]:
            word = name if is_applied or name != "changed" else "would change"
            reason = f"  {terminal.paint('dim', item['reason'])}" if item["reason"] else ""
            place = console.render_place(item, answer["workspace"])
            heading = " › ".join(item["heading"])
            terminal.print("  ".join(filter(None, (word, place, heading))) + reason)
    for link in shown["links"]:
        lines = ", ".join(map(str, link["lines"]))
        terminal.report(f"a link to it is changed as well: {link['path']}, line {lines}")
    terminal.report(_describe(answer))
    if not is_applied and answer["changed"]:
        terminal.report(f"nothing was changed; do it with --apply --plan {answer['plan']}")


def _describe(answer: dict[str, Any]) -> str:
    counts = [f"{len(answer[name])} {name}" for name in ("unchanged", "skipped") if answer[name]]
    n_changed = render_count(len(answer["changed"]), "memory", "memories")
    undo = f"; take it back with: memsyncd undo --change-set {answer['change_set']}"
    if not answer["changed"]:
        return f"nothing to do: {', '.join(counts)}" if counts else "nothing to do"
    verb = "changed" if answer["is_applied"] else "would be changed"
    return ", ".join([f"{n_changed} {verb}", *counts]) + (undo if answer["change_set"] else "")
