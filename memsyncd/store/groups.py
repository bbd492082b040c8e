"""Keep in index.db when each task and each session has its last section, so that the latest are
found without a look at all sections.

The row of a task or a session in `counts` has the largest `at` of its visible sections with a text:
`last` without archived sections, `last_all` with them. `is_ended` is 1 if a section at `last_all`
records the end of a session. Like the counts, they hold for the moment `counted` in `meta`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import apsw

from memsyncd.core.model import ARCHIVED
from memsyncd.core.search.tasks import ENDED

GROUPED = ("task", "session")
GroupName = tuple[str, str]
"""A field of `GROUPED` and a name."""

_SECTION = (
    "SELECT at FROM sections WHERE {field} COLLATE NOCASE = :name AND {field} = :name"
    " AND is_empty IS NULL AND (expires IS NULL OR expires > iif(expires LIKE '%Z', :utc, :local))"
)
_LAST = (
    f"SELECT ({_SECTION} AND status IS NOT 'archived' ORDER BY at DESC LIMIT 1),"
    f" ({_SECTION} ORDER BY at DESC LIMIT 1)"
)
_END = f"{_SECTION} AND at = :last_all AND kind = 'session' AND lower(status) = '{ENDED}' LIMIT 1"
_READ = "SELECT last, last_all, is_ended FROM counts WHERE field = ? AND value = ?"
_PUT = "UPDATE counts SET last = ?, last_all = ?, is_ended = ? WHERE field = ? AND value = ?"


class GroupTimes(NamedTuple):
    """The columns of `counts` for a task or a session; no times without visible sections."""

    last: str | None = None
    last_all: str | None = None
    is_ended: int | None = None

    def join(self, other: GroupTimes) -> GroupTimes:
        """Return the times of all sections of both."""
        last = max(self.last or "", other.last or "") or None
        # An end counts if no section is later.
        ends = ((times.last_all or "", times.is_ended or 0) for times in (self, other))
        last_all, is_ended = max(ends)
        return GroupTimes(last, last_all or None, is_ended or None)

    def may_lose(self, lost: GroupTimes) -> bool:
        """True if the times may be those of sections that were lost."""
        return bool(
            (lost.last and lost.last == self.last)
            or (lost.last_all and lost.last_all == self.last_all)
        )


class GroupChanges:
    """Collects the tasks and sessions whose sections change in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._sections: Counter[tuple[GroupName, GroupTimes]] = Counter()
        """How many sections with these times each group has gained; less than 0 for lost ones."""
        self.changed: set[GroupName] = set()
        """The groups whose times are computed by their sections."""

    def add(self, group: GroupName, at: str, kind: str | None, status: str, *, n: int) -> None:
        """Note `n` visible sections that a group has gained, or has lost if `n` is less than 0."""
        is_end = kind == "session" and status.lower() == ENDED
        times = GroupTimes(None if status == ARCHIVED else at, at, is_end or None)
        self._sections[group, times] += n

    def write(self, utc: str, local: str) -> None:
        """Write the times of the groups, as of a moment. The sections are in the database."""
        gained: dict[GroupName, GroupTimes] = {}
        lost: dict[GroupName, GroupTimes] = {}
        for (group, times), n in self._sections.items():
            if n:
                side = gained if n > 0 else lost
                side[group] = side.get(group, GroupTimes()).join(times)
        rows: list[tuple[str | int | None, ...]] = []
        for group in {*gained, *lost, *self.changed}:
            row = self._connection.execute(_READ, group).fetchone()
            if row is None:
                continue  # it has lost its last section
            before = GroupTimes(*row)
            if group in self.changed or before.may_lose(lost.get(group, GroupTimes())):
                after = compute_times(self._connection.execute, group, utc, local)
            else:
                after = before.join(gained.get(group, GroupTimes()))
            if after != before:
                rows.append((*after, *group))
        self._sections.clear()
        self.changed.clear()
        if rows:
            self._connection.executemany(_PUT, rows)


def compute_times(
    execute: Callable[[str, dict[str, Any]], Iterable[Any]], group: GroupName, utc: str, local: str
) -> GroupTimes:
    """Return the times of a group, as of a moment, by its sections."""
    field, name = group
    bound = {"name": name, "utc": utc, "local": local}
    [(last, last_all)] = execute(_LAST.format(field=field), bound)
    if last_all is None:
        return GroupTimes()
    ends = execute(_END.format(field=field), {**bound, "last_all": last_all})
    return GroupTimes(last, last_all, 1 if list(ends) else None)
