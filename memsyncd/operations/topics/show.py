"""Topics, which are notes, and their fields, which are sections: `memsyncd topic`."""

from __future__ import annotations

from memsyncd.terminal.console import report_similar
from memsyncd.terminal.format import render_count
from memsyncd.terminal.parser import parse_pair
from memsyncd.terminal.terminal import clean, clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


# --- reading ------------------------------------------------------------------------------------


def show_topics(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    for one in clean_values(answer)["topics"]:
        place = console.render_place(one, answer["workspace"])
        fields = terminal.paint("dim", ", ".join(one["fields"]))
        terminal.print(f"{one['salience']:.2f}  {place}  {one['title']}  {fields}".rstrip())
    left = answer["n_topics"] - len(answer["topics"])
    more = f", {left} more with --limit" if left else ""
    terminal.report(render_count(answer["n_topics"], "topic") + more)


def show_topic(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, shown = console.terminal, clean_values(answer)
    tags = "".join(f"  #{tag}" for tag in shown["tags"])
    state = "  archived" if shown["status"] == "archived" else ""
    place = console.render_place(shown, answer["workspace"])
    terminal.print(f"{shown['title']}  {place}  {shown['salience']:.2f}{tags}{state}")
    if answer["summary"]:
        terminal.print(clean(answer["summary"]))
    for one in shown["relations"]:
        terminal.print(f"{one['kind']} → {one['to']}")
    for raw, one in zip(answer["fields"], shown["fields"], strict=True):
        place = console.render_place({**one, "path": shown["path"]}, answer["workspace"])
        terminal.print(f"\n{terminal.paint('bold', one['name'])}  {one['salience']:.2f}  {place}")
        for value in raw["values"]:
            _print_value(value["at"], value["text"], console)


def _print_value(at: str | None, text: str, console: Console, mark: str = "") -> None:
    lines = clean(text).split("\n")
    time = console.terminal.paint("dim", at or "")
    console.terminal.print("  ".join(filter(None, (time, mark, lines[0]))))
    for line in lines[1:]:
        console.terminal.print(f"  {line}".rstrip())


def show_history(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for one in answer["values"]:
        is_external = one["revision"] and one["command"] != "first_seen"
        writer = clean_line(one["client"] or ("external" if is_external else ""))
        number = str(one["revision"] or "")
        mark = "  ".join(filter(None, (number, writer, "" if one["is_current"] else "earlier")))
        _print_value(one["at"], one["text"], console, mark)
    if not answer["is_complete"]:
        numbers = [one["revision"] for one in answer["values"] if one["revision"]]
        page = f"are older than these (--before {numbers[-1]}), or " if numbers else ""
        console.terminal.note(f"earlier values, if any, {page}are not in the history any more")


# --- writing ------------------------------------------------------------------------------------


def make_patch(args: Args, _console: Console) -> dict[str, Any]:
    """Return the lists that change; the empty word alone stands for none."""
    words = {name: getattr(args, name) for name in ("tags", "keywords")}
    return {name: [word for word in given if word] for name, given in words.items() if given}


def show_written(answer: dict[str, Any], _args: Args, console: Console) -> None:
    shown = clean_values(answer)
    if answer["action"] == "unchanged":
        console.terminal.report(f"{shown['path']} says that already: nothing was changed")
    elif answer["action"] == "reported":
        console.terminal.report("nothing was written")
    else:
        console.print_place(answer, answer["workspace"])
    if answer.get("n_dropped"):
        left = render_count(answer["n_dropped"], "earlier value")
        console.terminal.report(
            f"{left} left the note; the history keeps what [history] allows:"
            " memsyncd topic history TOPIC FIELD"
        )
    report_similar(answer, console)


def parse_pair_or_name(text: str) -> tuple[str, str]:
    """Parse a name with a value; an empty value removes what has the name."""
    return parse_pair(text, may_be_empty=True)


def parse_relation(text: str) -> dict[str, str]:
    """Parse `resolved_by=redis-timeouts`, or a note that is related."""
    kind, equals, to = text.partition("=")
    return {"kind": kind.strip() if equals else "related", "to": (to or kind).strip()}
