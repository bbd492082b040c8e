"""Filters as options, for commands that are not generated."""

from __future__ import annotations

from memsyncd.terminal.parser import KINDS, Option, parse_fraction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Final


# --- filters ------------------------------------------------------------------------------------

FILTERS: Final = (
    Option("--kind K…", f"only this kind: {KINDS}"),
    Option("--tag T…", "only with this tag"),
    Option("--path P…", "only this note, folder or glob"),
    Option("--section S…", "only below this heading or anchor"),
    Option("--task ID…", "only of this task"),
    Option("--session ID…", "only of this session"),
    Option("--source S…", "only from this source"),
    Option("--priority P…", "only of this priority, P0 to P3"),
    Option("--lifecycle L…", "only ephemeral, session, task or project"),
    Option("--status S…", "only of this status"),
    Option("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares"),
    Option("--has KEY…", "only with any value of this key"),
    Option("--related-to NOTE…", "only notes linked to or from this one"),
    Option("--tier T…", "only hot, warm or cold by age and importance"),
    Option(
        "--min-importance I", "only of this importance or more, from 0 to 1", parse=parse_fraction
    ),
    Option("--after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'"),
    Option("--before DAY", "only before this day, month or year"),
    Option("--archived", "only archived sections, which are left out otherwise"),
    Option("--expired", "only expired sections, which are left out otherwise"),
    Option("--include-archived", "archived sections too"),
    Option("--include-expired", "expired sections too"),
)


def filters_from(args: Args) -> dict[str, object] | None:
    """Return the parameter `filters` for the options, None if none was given."""
    given = {option.name: getattr(args, option.name) for option in FILTERS}
    # An empty text is no filter that was left out: the daemon refuses it.
    return {name: value for name, value in given.items() if value or value == ""} or None


FOLLOW: Final = Option("--follow R…", "show what this relation leads to: resolved_by")
SORTS: Final = ("relevance", "decay", "importance", "priority", "recency", "file")
SORT: Final = Option("--sort S", "by decay, importance, priority, recency or file", choices=SORTS)
