"""The fields of a topic, which are the sections of a note, and what they are worth together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from memsyncd.core.editing.kinds import KindDefaults, find_importance
from memsyncd.core.memories import Placed, Weighed
from memsyncd.core.model import compute_worth

N = TypeVar("N", bound=Placed)


def find_title(sections: Sequence[N]) -> N | None:
    """Return the section of the title: the first heading, if it is the only one of level 1; None
    if there is none.
    """
    headed = [section for section in sections if section.level]
    tops = [section for section in headed if section.level == 1]
    return tops[0] if len(tops) == 1 and headed[0] is tops[0] else None


def list_fields(sections: Sequence[N]) -> Iterator[tuple[N, Sequence[N]]]:
    """Yield the fields of a note, each with a list of itself and all sections beneath it."""
    title = find_title(sections)
    at = 0
    while at < len(sections):
        head, after = sections[at], at + 1
        if head.level and head is not title:
            while after < len(sections) and sections[after].level > head.level:
                after += 1
            yield head, sections[at:after]
        at = after


def value_topic(
    sections: Sequence[Weighed], kinds: Mapping[str, KindDefaults], accesses: Mapping[str, int]
) -> float:
    """Return the worth of a topic: the mean worth of its fields. Without fields, its whole text
    counts as one field; without sections the worth is 0.
    """
    parts = [part for _, part in list_fields(sections)] or ([sections] if sections else [])
    each = [value_field(part, kinds, accesses) for part in parts]
    return round(sum(each) / len(each), 4) if each else 0.0


def value_field(
    part: Sequence[Weighed], kinds: Mapping[str, KindDefaults], accesses: Mapping[str, int]
) -> float:
    """Return the worth of a field as if it were new, because a topic does not age: so an index can
    keep it. Accesses of the sections beneath the field count for it.
    """
    importance = find_importance(kinds, part[0].kind, part[0].importance)
    return _value_new(count_field(part, accesses), part[0].priority, importance)


# A note may have thousands of fields, and most of them have the same.
@lru_cache(maxsize=256)
def _value_new(n_accesses: int, priority: str | None, importance: float) -> float:
    return compute_worth(
        age_s=0.0, half_life=1.0, n_accesses=n_accesses, priority=priority, importance=importance
    ).value


def count_field(part: Sequence[Weighed], accesses: Mapping[str, int]) -> int:
    """Return how often a field or a section beneath it was recalled."""
    return sum(accesses.get(section.anchor, 0) for section in part) if accesses else 0
