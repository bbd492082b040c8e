"""Show the summaries of a project's files, and the files that are summarised."""

from __future__ import annotations

from memsyncd.terminal.format import render_count
from memsyncd.terminal.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


def show_summaries(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, answer = console.terminal, clean_values(answer)
    for source in answer["sources"]:
        terminal.print(f"{source['action']:<9}  {source['path']}")
    for source in answer["skipped"]:
        terminal.report(f"left out: {source['reason']}")
    changed = [source for source in answer["sources"] if source["action"] != "unchanged"]
    if not answer["sources"]:
        terminal.report("no source is here; memsyncd sources lists the files that are looked for")
    elif not changed:
        terminal.report(f"nothing new: {answer['note']} is up to date")
    elif not answer["is_applied"]:
        terminal.report(f"{render_count(len(changed), 'section')} of {answer['note']} would change")
        console.report_plan(answer["plan"])
    else:
        terminal.report(f"written to {answer['note']}")


def show_sources(answer: dict[str, Any], _args: Args, console: Console) -> None:
    rows = [
        [source["path"], ", ".join(source["tags"]), " ".join(source["files"]) or "-"]
        for source in clean_values(answer["sources"])
    ]
    console.terminal.print_table([["source", "tags", "files here"], *rows])


def parse_source(text: str) -> dict[str, Any]:
    """Parse `docs/rules.md=index:invariants,law`. Raises ValueError."""
    path, *tags = (part.strip() for part in text.split("="))
    if not path or len(tags) > 1:
        raise ValueError("expected PATH or PATH=TAG,TAG")
    return {"path": path, "tags": [tag for tag in "".join(tags).split(",") if tag]}
