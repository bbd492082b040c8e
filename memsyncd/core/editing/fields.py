"""The fields of a topic, which are the sections of a note, and what they are worth together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from memsyncd.core.editing.kinds import KindDefaults, find_importance
from memsyncd.core.model import compute_salience


class Nested(Protocol):
    """The property of a section that `list_fields` needs."""

    @property
    def level(self) -> int: ...


class Weighed(Nested, Protocol):
    """The properties of a section on which the salience of its topic depends."""

    @property
    def anchor(self) -> str: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def importance(self) -> float | None: ...


N = TypeVar("N", bound=Nested)


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
    """Return the salience of a topic. Without fields, its whole text counts as one field."""
    parts = [part for _, part in list_fields(sections)] or ([sections] if sections else [])
    return round(compute_salience([weigh_field(part, kinds, accesses) for part in parts]), 4)


def weigh_field(
    part: Sequence[Weighed], kinds: Mapping[str, KindDefaults], accesses: Mapping[str, int]
) -> tuple[float, int]:
    """Return the importance of a field, and how often it or a section beneath it was recalled."""
    importance = find_importance(kinds, part[0].kind, part[0].importance)
    if not accesses:
        return importance, 0
    return importance, sum(accesses.get(section.anchor, 0) for section in part)
