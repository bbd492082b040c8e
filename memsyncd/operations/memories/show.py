"""Change, finish, relate and forget memories: `memsyncd set`, `done`, `relate`, `forget`."""

from __future__ import annotations

from memsyncd.headings import join_headings
from memsyncd.terminal.actions import send_confirmed
from memsyncd.terminal.console import show_answer
from memsyncd.terminal.format import render_count
from memsyncd.terminal.places import find_memories
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


def name_related(args: Args, console: Console) -> dict[str, Any]:
    """Return both memories of a relation, and their workspace."""
    named = find_memories([args.anchor, args.to], console)
    first, second = named.pop("anchors")
    return {**named, "anchor": first, "to": second}


def make_set(args: Args, console: Console) -> dict[str, Any]:
    """Return the memories, and the lists that change; a single empty word makes a list empty."""
    words = {name: getattr(args, name) for name in ("tags", "keywords")}
    lists = {
        name: [word for word in words_of_list if word]
        for name, words_of_list in words.items()
        if words_of_list
    }
    named = find_memories(args.anchors, console) if args.anchors else {}
    return {**lists, **named}


def show_set(answer: dict[str, Any], _args: Args, console: Console) -> None:
    """Print the memories that were changed, or would be."""
    terminal, clean_answer = console.terminal, clean_values(answer)
    is_applied = answer["is_applied"]
    for name in ("changed", "unchanged", "skipped"):
        for item in clean_answer[name]:
            word = name if is_applied or name != "changed" else "would change"
            reason = f"  {terminal.paint('dim', item['reason'])}" if item["reason"] else ""
            place = console.render_place(item, answer["workspace"])
            heading = join_headings(item["heading"])
            terminal.print("  ".join(filter(None, (word, place, heading))) + reason)
    for link in clean_answer["links"]:
        lines = ", ".join(map(str, link["lines"]))
        terminal.report(f"a link to it is changed as well: {link['path']}, line {lines}")
    terminal.report(_describe(answer, console))
    if not is_applied and answer["changed"]:
        console.report_plan(answer["plan"])


TAKE_BACK = "; take it back with: "


def _describe(answer: dict[str, Any], console: Console) -> str:
    counts = [f"{len(answer[name])} {name}" for name in ("unchanged", "skipped") if answer[name]]
    n_changed = render_count(len(answer["changed"]), "memory", "memories")
    if not answer["changed"]:
        return f"nothing to do: {', '.join(counts)}" if counts else "nothing to do"
    verb = "changed" if answer["is_applied"] else "would be changed"
    return ", ".join([f"{n_changed} {verb}", *counts]) + console.render_undo(answer, TAKE_BACK)


# --- forget -------------------------------------------------------------------------------------


def ask_and_forget(args: Args, console: Console) -> int:
    """Forget memories; if this must be confirmed and a terminal is there, ask first."""
    params = args.params | (find_memories(args.anchors, console) if args.anchors else {})
    answer = send_confirmed("memory.forget", params, args, console, question="forget it?")
    return show_answer(answer, args, console, show_forgotten, found="forgotten")


def show_forgotten(answer: dict[str, Any], _args: Args, console: Console) -> None:
    """Print the sections that were forgotten, or would be, and the links to them."""
    terminal, clean_answer = console.terminal, clean_values(answer)
    is_applied = answer["is_applied"]
    for name in ("forgotten", "skipped"):
        for item in clean_answer[name]:
            if _is_beginning(item, answer):
                continue
            word = name if is_applied or name == "skipped" else "would go"
            reason = f"  {terminal.paint('dim', item['reason'])}" if item["reason"] else ""
            place = console.render_place(item, answer["workspace"])
            heading = join_headings(item["heading"])
            terminal.print("  ".join(filter(None, (word, place, heading))) + reason)
    for link in clean_answer["links"]:
        lines = ", ".join(map(str, link["lines"]))
        now = "is plain text now" if is_applied else "would be plain text"
        what = now if link["is_removed"] else "stays"
        terminal.report(f"a link to {link['to']} {what}: {link['path']}, line {lines}")
    for path in clean_answer.get("removed", ()):
        terminal.report(f"the file {path} {'is removed' if is_applied else 'would be removed'}")
    n_gone = _count_gone(answer)
    if not answer["forgotten"]:
        terminal.report("nothing to forget")
    elif not is_applied:
        terminal.report(f"{n_gone} would go")
        console.report_plan(answer["plan"])
    elif answer["purged"]:
        n_revisions = render_count(answer["purged"], "revision")
        terminal.report(f"{n_gone} forgotten for ever, with {n_revisions} of the history")
        if not answer["is_clean"]:
            terminal.warn("another program is reading records.db: traces go when it stops")
    else:
        terminal.report(f"{n_gone} forgotten" + console.render_undo(answer, TAKE_BACK))


def _is_beginning(item: dict[str, Any], answer: dict[str, Any]) -> bool:
    """True for the front matter or first text of a note that goes as a whole, whose file is named
    in a line of its own.
    """
    return not item["heading"] and item["path"] in answer["removed"]


def _count_gone(answer: dict[str, Any]) -> str:
    n_sections = sum(not _is_beginning(item, answer) for item in answer["forgotten"])
    notes = render_count(len(answer["removed"]), "note") if answer["removed"] else ""
    sections = render_count(n_sections, "section") if n_sections else ""
    return " with ".join(filter(None, (notes, sections)))


# --- replace ------------------------------------------------------------------------------------


def name_memory(args: Args, console: Console) -> dict[str, Any]:
    """Return the named memory, and its workspace."""
    named = find_memories([args.anchor], console)
    return {"anchor": named["anchors"][0], "workspace": named["workspace"]}


def show_replaced(answer: dict[str, Any], _args: Args, console: Console) -> None:
    """Print the place of the new memory, and the memory that it replaces."""
    console.print_place(answer, answer["workspace"])
    archived = f"it supersedes {clean_line(answer['replaced'])}, which is archived"
    console.terminal.report(archived + console.render_undo(answer, TAKE_BACK))
