"""What do the wire's filters ask of the engine? Dates are read here, so that a wrong one is refused
with its parameter's name.
"""

from __future__ import annotations

from memsyncd.core.search.query import Filters, parse_day
from memsyncd.errors import BadRequest
from memsyncd.protocol import search as params


def read_filters(asked: params.Filters) -> Filters:
    """The filters as values. Raises BadRequest for a day that is none."""
    return Filters(
        kinds=tuple(asked.kind),
        tags=tuple(asked.tag),
        paths=tuple(asked.path),
        sections=tuple(asked.section),
        tasks=tuple(asked.task),
        after=_read_day("after", asked.after),
        before=_read_day("before", asked.before),
        is_archived=asked.archived,
    )


def _read_day(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    day = parse_day(text.strip())
    if day is None:
        raise BadRequest(
            f"filter `{name}` is no date: {text[:40]}",
            hint="write a day, a month or a year, such as 2026-03-01",
        )
    return day
