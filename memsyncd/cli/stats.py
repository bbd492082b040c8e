"""Count what is in memory, and how often answers returned it: `memsyncd stats`, `accesses`."""

from __future__ import annotations

import time

from memsyncd.cli.search import FILTERS, take_filters
from memsyncd.terminal.console import make_action
from memsyncd.terminal.format import (
    render_age,
    render_count,
    render_path,
    render_size,
    render_table,
)
from memsyncd.terminal.parser import JSON, Argument, Command, Option, make_workspace_option
from memsyncd.terminal.places import take_named
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console

# Columns of the longest bar.
BAR: Final = 24


_TITLES = {"size": "size of the note"}


def _show_counts(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, paint, answer = console.terminal, console.terminal.paint, clean_values(answer)
    sections, notes = answer["sections"], answer["notes"]
    terminal.print(
        f"{render_count(sections, 'section')} in {render_count(notes, 'note')},"
        f" {render_size(answer['bytes'])}"
    )
    for group, counts in answer["counts"].items():
        if any(one["value"] is not None for one in counts):
            terminal.print()
            terminal.print(paint("bold", f"by {_TITLES.get(group, group)}"))
            for line in _render_counts(counts):
                terminal.print(line)


def _render_counts(counts: list[dict[str, Any]]) -> list[str]:
    most = max(one["sections"] for one in counts)
    width = len(f"{most:,}")
    rows = [
        [
            f"  {'(none)' if one['value'] is None else one['value']}",
            f"{one['sections']:>{width},}",
            "━" * max(1, one["sections"] * BAR // most),
        ]
        for one in counts
    ]
    return ["".join(row) for row in render_table(rows)]


# --- Accesses -------------------------------------------------------------------------------------


def _place_accesses(args: Args, console: Console) -> dict[str, Any]:
    sort = "last" if args.last else "count"
    return {**take_named(args, console), "last": None, "sort": sort}


def _show_accesses(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, paint = console.terminal, console.terminal.paint
    root = clean_line(console.roots.get(answer["workspace"], ""))
    rows = [
        [
            f"{one['count']:,}",
            render_age(one["last_at"], time.time()),
            render_path(one["anchor"], root, console.cwd),
            "" if one["is_indexed"] else paint("yellow", "no such section now"),
        ]
        for one in clean_values(answer["counts"])
    ]
    for row in render_table(rows):
        terminal.print("".join(row).rstrip())
    counted = render_count(answer["sections"], "section")
    terminal.report(f"{render_count(answer['accesses'], 'access', 'accesses')} of {counted}")


COMMANDS = {
    "stats": Command(
        make_action("stats", _show_counts, found="sections", make_params=take_filters),
        options=(
            Option(
                "--by G…",
                "count by kind, tag, task, month, size (these by default), session, source,"
                " priority, lifecycle, status, meta (other keys) or meta:KEY (its values)",
            ),
            Option("-n --limit N", "at most N values of each (default 20)"),
            *FILTERS,
            make_workspace_option("count in this workspace"),
            JSON,
        ),
        examples=(
            "memsyncd stats",
            "memsyncd stats --by task --after 'last month'",
            "memsyncd stats --kind decision --by month --json",
            "memsyncd stats --by meta:owner",
        ),
    ),
    "accesses": Command(
        make_action("access.stats", _show_accesses, found="counts", make_params=_place_accesses),
        arguments=(
            Argument(
                "target",
                "[ANCHOR|PATH]",
                "a section, note or folder; without one, the whole workspace",
            ),
        ),
        options=(
            Option("--last", "the most recently recalled first, not the most often"),
            Option("-n --limit N", "at most N sections (default 20)"),
            make_workspace_option("count in this workspace"),
            JSON,
        ),
        examples=(
            "memsyncd accesses",
            "memsyncd accesses .memories/redis.md --last",
            "memsyncd accesses '.memories/errors.md#timeouts' --json",
        ),
    ),
}
