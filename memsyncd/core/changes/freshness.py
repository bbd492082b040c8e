"""Decide whether an index may be behind its disk: paths that no scan has covered yet, and scans
that are overdue.

Time comes in as `now_s`; nothing here reads a disk.
"""

from __future__ import annotations

from collections.abc import Collection

UNSCANNED_LIMIT = 4096
"""Paths remembered; beyond it the root itself counts as changed."""
ROOT = ""
OVERDUE_SLACK_S = 30.0
"""How much later than planned a full scan may end: a busy machine, a long job of another
workspace."""


class UnscannedPaths:
    """Paths that events announced, until a scan that began after the event has covered them.

    Not for several threads at once, but `len` may be asked on any.
    """

    __slots__ = ("_announced_s",)

    def __init__(self) -> None:
        self._announced_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._announced_s)

    def add(self, path: str, now_s: float) -> None:
        announced_s = self._announced_s
        announced_s[path if len(announced_s) < UNSCANNED_LIMIT or path in announced_s else ROOT] = (
            now_s
        )

    def settle(self, paths: Collection[str] | None, began_s: float) -> None:
        """A scan of these paths, or of everything, that began at `began_s` is over."""
        if not self._announced_s:
            return
        for path in list(self._announced_s if paths is None else paths):
            if self._announced_s.get(path, began_s) <= began_s:
                self._announced_s.pop(path, None)


def describe_overdue(scanned_s: float | None, now_s: float, reconcile_s: float) -> str:
    """The message if the last full scan, which began at `scanned_s`, is too long ago; empty if it
    is not.
    """
    if scanned_s is None or now_s - scanned_s <= reconcile_s + OVERDUE_SLACK_S:
        return ""
    age = f"{now_s - scanned_s:,.0f} s"
    return f"the last full scan began {age} ago, one is due every {reconcile_s:g} s"
