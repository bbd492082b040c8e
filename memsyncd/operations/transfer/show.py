"""Import memories, and export them: `memsyncd import`, `memsyncd export`."""

from __future__ import annotations

import os

from memsyncd.errors import BadRequest
from memsyncd.terminal.format import render_count
from memsyncd.terminal.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console

N_LISTED = 20


def name_file(args: Args, _console: Console) -> dict[str, Any]:
    """Return the file as an absolute path: the daemon has a folder of its own."""
    return {"file": os.path.abspath(os.path.expanduser(args.file))}


def choose_format(args: Args, console: Console) -> dict[str, Any]:
    """Return the file and the format. Raises BadRequest for two formats."""
    if args.jsonl and args.sqlite:
        raise BadRequest("--jsonl and --sqlite do not go together", hint="use only one of them")
    return {**name_file(args, console), "format": "sqlite" if args.sqlite else "jsonl"}


def show_imported(answer: dict[str, Any], _args: Args, console: Console) -> None:
    """Print the sections by note, and the items that are left out."""
    terminal, answer = console.terminal, clean_values(answer)
    notes: dict[str, int] = {}
    for section in answer["added"]:
        notes[section["path"]] = notes.get(section["path"], 0) + 1
    for path, number in notes.items():
        terminal.print(f"{path}  {render_count(number, 'memory', 'memories')}")
    if answer["n_added"] > len(answer["added"]):
        terminal.print(f"and {answer['n_added'] - len(answer['added']):,} more")
    for item in answer["left_out"][:N_LISTED]:
        terminal.warn(f"left out: {item['place']}: {item['reason']}")
    if answer["n_left_out"] > N_LISTED:
        terminal.warn(f"left out: {answer['n_left_out'] - N_LISTED:,} more; --json lists them")
    terminal.report(_summarize(answer) + console.render_undo(answer, "; take it back with: "))


def _summarize(answer: dict[str, Any]) -> str:
    done = "imported" if answer["is_applied"] else "would be imported"
    parts = [
        f"{render_count(answer['n_added'], 'memory', 'memories')} {done}",
        f"{render_count(answer['n_relations'], 'relation')}" if answer["n_relations"] else "",
        f"{answer['n_unchanged']:,} there already" if answer["n_unchanged"] else "",
    ]
    return ", ".join(filter(None, parts))


def show_exported(answer: dict[str, Any], _args: Args, console: Console) -> None:
    answer = clean_values(answer)
    for item in answer["left_out"][:N_LISTED]:
        console.terminal.warn(f"left out: {item['place']}: {item['reason']}")
    number = render_count(answer["n_memories"], "memory", "memories")
    console.terminal.report(f"{number} written to {answer['path']}")
