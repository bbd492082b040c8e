"""Print counts of sections, and how often sections were recalled."""

from __future__ import annotations

import time

from memsyncd.terminal.format import (
    render_age,
    render_count,
    render_path,
    render_size,
)
from memsyncd.terminal.places import find_named
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console

# The length of the longest bar, in columns.
BAR: Final = 24


_TITLES = {"size": "size of the note"}


def show_counts(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, paint, answer = console.terminal, console.terminal.paint, clean_values(answer)
    sections, notes = answer["sections"], answer["notes"]
    terminal.print(
        f"{render_count(sections, 'section')} in {render_count(notes, 'note')},"
        f" {render_size(answer['bytes'])}"
    )
    for group, counts in answer["counts"].items():
        if any(entry["value"] is not None for entry in counts):
            terminal.print()
            terminal.print(paint("bold", f"by {_TITLES.get(group, group)}"))
            terminal.print_table(_list_counts(counts))


def _list_counts(counts: list[dict[str, Any]]) -> list[list[str]]:
    most = max(entry["sections"] for entry in counts)
    width = len(f"{most:,}")
    return [
        [
            f"  {'(none)' if entry['value'] is None else entry['value']}",
            f"{entry['sections']:>{width},}",
            "━" * max(1, entry["sections"] * BAR // most),
        ]
        for entry in counts
    ]


# --- accesses -------------------------------------------------------------------------------------


def name_place(args: Args, console: Console) -> dict[str, Any]:
    """Return the parameters that name a section, note or folder, and its workspace."""
    return find_named(args.target, console)


def show_accesses(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, paint = console.terminal, console.terminal.paint
    root = clean_line(console.roots.get(answer["workspace"], ""))
    rows = [
        [
            f"{section['count']:,}",
            render_age(section["last_at"], time.time()),
            render_path(section["anchor"], root, console.cwd),
            "" if section["is_indexed"] else paint("yellow", "no such section now"),
        ]
        for section in clean_values(answer["counts"])
    ]
    terminal.print_table(rows)
    counted = render_count(answer["sections"], "section")
    terminal.report(f"{render_count(answer['accesses'], 'access', 'accesses')} of {counted}")
