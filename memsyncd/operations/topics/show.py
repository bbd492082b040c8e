"""Print topics, which are notes, and their fields, which are sections: `memsyncd topic`."""

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
    rows = [
        [
            f"{topic['worth']:.2f}",
            console.render_place(topic, answer["workspace"]),
            topic["title"],
            terminal.paint("dim", ", ".join(topic["fields"])),
        ]
        for topic in clean_values(answer)["topics"]
    ]
    terminal.print_table(rows)
    left = answer["n_topics"] - len(answer["topics"])
    more = f", {left} more with --limit" if left else ""
    terminal.report(render_count(answer["n_topics"], "topic") + more)


def show_topic(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, topic = console.terminal, clean_values(answer)
    tags = "".join(f"  #{tag}" for tag in topic["tags"])
    state = "  archived" if topic["status"] == "archived" else ""
    place = console.render_place(topic, answer["workspace"])
    terminal.print(f"{topic['title']}  {place}  {topic['worth']:.2f}{tags}{state}")
    if answer["summary"]:
        terminal.print(clean(answer["summary"]), hang=0)
    for relation in topic["relations"]:
        terminal.print(f"{relation['kind']} → {relation['to']}")
    for raw, field in zip(answer["fields"], topic["fields"], strict=True):
        place = console.render_place({**field, "path": topic["path"]}, answer["workspace"])
        terminal.print(f"\n{terminal.paint('bold', field['name'])}  {field['worth']:.2f}  {place}")
        for value in raw["values"]:
            _print_value(value["at"], value["text"], console)


def _print_value(at: str | None, text: str, console: Console, mark: str = "") -> None:
    lines = clean(text).split("\n")
    time = console.terminal.paint("dim", at or "")
    console.terminal.print("  ".join(filter(None, (time, mark, lines[0]))))
    for line in lines[1:]:
        console.terminal.print(f"  {line}".rstrip(), hang=0)


def show_history(answer: dict[str, Any], _args: Args, console: Console) -> None:
    for value in answer["values"]:
        is_external = value["revision"] and value["command"] != "first_seen"
        writer = clean_line(value["client"] or ("external" if is_external else ""))
        number = str(value["revision"] or "")
        mark = "  ".join(filter(None, (number, writer, "" if value["is_current"] else "earlier")))
        _print_value(value["at"], value["text"], console, mark)
    if not answer["is_complete"]:
        numbers = [value["revision"] for value in answer["values"] if value["revision"]]
        page = f"are older than these (--before {numbers[-1]}), or " if numbers else ""
        console.terminal.note(f"earlier values, if any, {page}are not in the history any more")


# --- writing ------------------------------------------------------------------------------------


def make_patch(args: Args, _console: Console) -> dict[str, Any]:
    """Return the lists that change. A single empty word stands for the empty list."""
    lists = {name: getattr(args, name) for name in ("tags", "keywords")}
    return {name: [word for word in words if word] for name, words in lists.items() if words}


def show_written(answer: dict[str, Any], _args: Args, console: Console) -> None:
    written = clean_values(answer)
    if answer["action"] == "unchanged":
        console.terminal.report(f"{written['path']} says that already: nothing was changed")
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
    """Parse `NAME=TEXT`. An empty text says that the name is to be removed."""
    return parse_pair(text, may_be_empty=True)


def parse_relation(text: str) -> dict[str, str]:
    """Parse `resolved_by=redis-timeouts`, or the name of a related note."""
    kind, equals, to = text.partition("=")
    return {"kind": kind.strip() if equals else "related", "to": (to or kind).strip()}
