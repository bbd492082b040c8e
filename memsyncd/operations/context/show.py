"""`memsyncd context`: print memory for a prompt."""

from __future__ import annotations

from memsyncd.terminal.actions import send_to_several
from memsyncd.terminal.console import (
    report_answer,
    show_answer,
)
from memsyncd.terminal.format import render_count
from memsyncd.terminal.terminal import clean, clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console


def context(args: Args, console: Console) -> int:
    """Print memory for a prompt."""
    params = {**args.params, "query": " ".join(args.query) or None}
    answer = send_to_several("context", params, args, console)
    return show_answer(answer, args, console, _show_block, found="text")


def _show_block(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    if answer["text"]:
        terminal.print(clean(answer["text"]), hang=0)
    else:
        terminal.report(f"no context: {clean_line(answer['why_empty'])}")
    if answer["text"] and answer["n_left_out"]:
        n_sections = render_count(answer["n_left_out"], "place")
        weaker = (
            f" and {render_count(answer['unranked'], 'weaker match', 'weaker matches')}"
            if answer["unranked"]
            else ""
        )
        summary = f"{answer['tokens']:,} tokens; without {n_sections} more{weaker},"
        summary += " see --json and --max-tokens"
        terminal.note(summary)
    for line in _list_sources(clean_values(answer)):
        terminal.note(line)
    report_answer(answer, console)


def _list_sources(answer: dict[str, Any]) -> list[str]:
    """List each label of a workspace in the block, with the folder from which its paths start."""
    included = {part["workspace"] for part in answer["included"]}
    every = answer["workspaces"]
    is_labelled = sum(not workspace["user"] for workspace in every) > 1
    return [
        f"[{'user-wide' if workspace['user'] else workspace['name']}]  {workspace['root']}"
        for workspace in every
        if workspace["id"] in included and (workspace["user"] or is_labelled)
    ]
