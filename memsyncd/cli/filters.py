"""Which flags say what passages may come from? The same ones for each command that looks for passages."""

from __future__ import annotations

from memsyncd.cli.grammar import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Final

FILTERS: Final = (
    Option("--kind", "only this kind, such as decision", metavar="K", is_repeated=True),
    Option("--tag", "only with this tag", metavar="T", is_repeated=True),
    Option("--path", "only this note, folder or glob", metavar="P", is_repeated=True),
    Option("--section", "only beneath this heading or anchor", metavar="S", is_repeated=True),
    Option("--task", "only of this task", metavar="ID", is_repeated=True),
    Option("--after", "only of this day (2026-03-01), month or year, or later", metavar="DAY"),
    Option("--before", "only of days before this day, month or year", metavar="DAY"),
    Option("--archived", "only what is archived, which is left out otherwise"),
)


def find_filters(args: Args) -> dict[str, object] | None:
    """The parameter `filters` for what was typed, None if no flag was."""
    said = {option.name: getattr(args, option.name) for option in FILTERS}
    return {name: value for name, value in said.items() if value} or None
