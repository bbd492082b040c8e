"""Find the memories of a note, and the values by which plans judge them.

A memory is a section of the first or second level without others of the second level beneath it,
with all sections beneath it. Text before the first heading, and a title, are no memories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from memsyncd.core.model import ARCHIVED

SECTION_LEVEL: Final = 2
"""The level of the heading of a memory that is appended to a note."""


class Placed(Protocol):
    """A section of a note: its anchor, or what stands after the `#` of it."""

    @property
    def anchor(self) -> str: ...
    @property
    def level(self) -> int: ...


class Weighed(Placed, Protocol):
    """A section with the metadata on which its worth depends."""

    @property
    def kind(self) -> str | None: ...
    @property
    def priority(self) -> str | None: ...
    @property
    def importance(self) -> float | None: ...


class Stating(Weighed, Protocol):
    """A section with the metadata by which plans judge it."""

    @property
    def lifecycle(self) -> str | None: ...
    @property
    def status(self) -> str | None: ...


class Outlook(NamedTuple):
    """The values by which plans judge a memory, beside its age, its expiry and its accesses. The
    first four are of its first section; `kinds` has the kinds of all its sections, each once, in
    the order of the sections.
    """

    lifecycle: str | None
    kind: str | None
    priority: str | None
    importance: float | None
    kinds: tuple[str, ...]
    is_project: bool
    """True if the lifecycle of any section is `project`."""
    is_archived: bool
    """True if all sections are archived."""


def split_memories(sections: Sequence[Placed]) -> Iterator[tuple[int, int]]:
    """Yield the positions at which the memories of a note begin and end, by line. The end is the
    position after the last section.
    """
    at = 0
    while at < len(sections):
        after = find_end(sections, at)
        is_title = any(section.level <= SECTION_LEVEL for section in sections[at + 1 : after])
        if sections[at].level and not is_title:
            yield at, after
        at = at + 1 if is_title else after


def find_end(sections: Sequence[Placed], at: int) -> int:
    """Return where the sections beneath the one at `at` end."""
    level, beneath = sections[at].level, f"{sections[at].anchor}/"
    after = at + 1
    while after < len(sections) and (
        sections[after].level > level > 0 and sections[after].anchor.startswith(beneath)
    ):
        after += 1
    return after


def find_outlook(memory: Sequence[Stating]) -> Outlook:
    """Return the outlook of a memory, which consists of these sections."""
    head = memory[0]
    if len(memory) == 1:
        kinds: tuple[str, ...] = (head.kind,) if head.kind else ()
        is_project, is_archived = head.lifecycle == "project", head.status == ARCHIVED
    else:
        kinds = tuple(dict.fromkeys(section.kind for section in memory if section.kind))
        is_project = any(section.lifecycle == "project" for section in memory)
        is_archived = all(section.status == ARCHIVED for section in memory)
    stated = head.lifecycle, head.kind, head.priority, head.importance
    return Outlook(*stated, kinds, is_project, is_archived)
