"""Count what is in memory: `memsyncd stats`."""

from __future__ import annotations

from memsyncd.cli.format import render_count, render_freshness, render_size, render_table
from memsyncd.cli.parser import JSON, Command, Option, make_workspace_option, parse_count
from memsyncd.cli.search import FILTERS, NOTHING_FOUND, filters_from
from memsyncd.cli.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.cli.console import Console

GROUPS: Final = (
    "kind",
    "tag",
    "task",
    "month",
    "size",
    "session",
    "source",
    "priority",
    "lifecycle",
    "status",
)
# Columns of the longest bar.
BAR: Final = 24


def _stats(args: Args, console: Console) -> int:
    answer = console.call_on(
        args.workspace,
        "stats",
        filters=filters_from(args),
        by=args.by or None,
        limit=args.limit,
    )
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print_counts(clean_values(answer), console)
    return 0 if answer["sections"] else NOTHING_FOUND


def _print_counts(answer: dict[str, Any], console: Console) -> None:
    terminal, paint = console.terminal, console.terminal.paint
    sections, notes = answer["sections"], answer["notes"]
    terminal.print(
        f"{render_count(sections, 'section')} in {render_count(notes, 'note')},"
        f" {render_size(answer['bytes'])}"
    )
    for group, counts in answer["counts"].items():
        if any(one["value"] is not None for one in counts):
            terminal.print()
            terminal.print(paint("bold", f"by {group}"))
            for line in _render_counts(counts):
                terminal.print(line)
    if stale := render_freshness(answer["freshness"]):
        terminal.report(terminal.err_paint("yellow", stale))


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


def _read_group(text: str) -> str:
    if text not in GROUPS:
        raise ValueError(f"expected one of {', '.join(GROUPS)}")
    return text


COMMANDS = {
    "stats": Command(
        _stats,
        options=(
            Option(
                "--by",
                "count by kind, tag, task, month, size (these by default), session, source,"
                " priority, lifecycle or status",
                metavar="G",
                parse=_read_group,
                is_repeated=True,
            ),
            Option(
                "-n --limit",
                "at most N values of each (default 20)",
                metavar="N",
                parse=parse_count,
            ),
            *FILTERS,
            make_workspace_option("count in this workspace"),
            JSON,
        ),
        examples=(
            "memsyncd stats",
            "memsyncd stats --by task --after 'last month'",
            "memsyncd stats --kind decision --by month --json",
        ),
    ),
}
