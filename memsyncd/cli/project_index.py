"""Keep summaries of a project's files in memory: `memsyncd index-project`, `memsyncd sources`."""

from __future__ import annotations

from memsyncd.cli.calls import CLIENT_OPTION, make_action
from memsyncd.cli.format import render_count, render_table
from memsyncd.cli.parser import JSON, TIMEOUT, Command, Option, make_workspace_option
from memsyncd.cli.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.cli.console import Console


def _show_changes(answer: dict[str, Any], args: Args, console: Console) -> None:
    terminal, answer = console.terminal, clean_values(answer)
    for one in answer["sources"]:
        terminal.print(f"{one['action']:<9}  {one['path']}")
    for one in answer["skipped"]:
        terminal.report(f"not read: {one['reason']}")
    changed = [one for one in answer["sources"] if one["action"] != "unchanged"]
    if not answer["sources"]:
        terminal.report("no source is here; memsyncd sources lists those that are looked for")
    elif not changed:
        terminal.report(f"nothing new: {answer['note']} is up to date")
    elif args.dry_run:
        terminal.report(f"{render_count(len(changed), 'section')} of {answer['note']} would change")
    else:
        terminal.report(f"written to {answer['note']}")


def _show_sources(answer: dict[str, Any], _args: Args, console: Console) -> None:
    rows = [
        [one["path"], ", ".join(one["tags"]), " ".join(one["files"]) or "-"]
        for one in clean_values(answer["sources"])
    ]
    for row in render_table([["source", "tags", "files here"], *rows]):
        console.terminal.print("".join(row))


def _parse_source(text: str) -> dict[str, Any]:
    path, *tags = (part.strip() for part in text.split("="))
    if not path or len(tags) > 1:
        raise ValueError("expected PATH or PATH=TAG,TAG")
    return {"path": path, "tags": [tag for tag in "".join(tags).split(",") if tag]}


COMMANDS = {
    "index-project": Command(
        make_action("index_project", _show_changes),
        options=(
            Option("--dry-run", "change nothing; print what would be done"),
            Option(
                "--source PATH[=TAG,TAG]…",
                "summarise this file as well; wildcards may stand in its last part",
                parse=_parse_source,
                name="sources",
            ),
            make_workspace_option("summarise the files of this workspace"),
            CLIENT_OPTION,
            TIMEOUT,
            JSON,
        ),
        examples=(
            "memsyncd index-project --dry-run",
            "memsyncd index-project --source docs/rules.md=index:invariants",
        ),
    ),
    "sources": Command(
        make_action("sources", _show_sources),
        options=(make_workspace_option("list those of this workspace"), JSON),
        examples=("memsyncd sources",),
    ),
}
