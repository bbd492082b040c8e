"""Which of a note's rows stay, which only move, which are written? Decided by content, never by line number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingRow:
    """A row as stored: its id, what identifies its content, and where it stands."""

    id: int
    content: Hashable
    place: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """Indexes of `wanted` and ids of standing rows; together they name every one of both exactly once.

    `kept` and `shifted` pair an index with the id that already has its content; a shifted one stands elsewhere now.
    """

    kept: tuple[tuple[int, int], ...]
    shifted: tuple[tuple[int, int], ...]
    inserted: tuple[int, ...]
    deleted: tuple[int, ...]


def plan_row_changes(standing: Iterable[ExistingRow], wanted: Sequence[tuple[Hashable, Hashable]]) -> RowChanges:
    """Pair each wanted `(content, place)` with a standing row of the same content; twins pair in order."""
    waiting: dict[Hashable, list[ExistingRow]] = defaultdict(list)
    for row in standing:
        waiting[row.content].append(row)
    for rows in waiting.values():
        rows.reverse()
    kept: list[tuple[int, int]] = []
    shifted: list[tuple[int, int]] = []
    inserted: list[int] = []
    for index, (content, place) in enumerate(wanted):
        if not waiting.get(content):
            inserted.append(index)
            continue
        row = waiting[content].pop()
        (kept if row.place == place else shifted).append((index, row.id))
    deleted = [row.id for rows in waiting.values() for row in rows]
    return RowChanges(kept=tuple(kept), shifted=tuple(shifted), inserted=tuple(inserted), deleted=tuple(sorted(deleted)))
