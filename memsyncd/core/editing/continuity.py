"""Follow sections from one text of a note to the next.

A section is named by its note's path and its slugs, the part of its anchor after `#`. A change of
the note may change the slugs: a heading is renamed, a section moves below another, or the first of
two equal headings is removed. `match_sections` finds the new slugs of each section of the old text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

import msgspec

from memsyncd.core.editing.sections import split_note_sections
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import find_section_meta
from memsyncd.core.markdown.sections import RawSection


class SectionTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What a section is recognised by. `own_id` is the `id` in its comment, empty if there is none;
    `body` is the text below its heading.
    """

    slugs: str
    own_id: str
    body: str


class SectionMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The new slugs by the old ones, and the sections of either text that have no counterpart."""

    slugs: dict[str, str]
    removed: tuple[SectionTrace, ...]
    added: tuple[SectionTrace, ...]


def trace_sections(path: str, data: bytes | None) -> list[SectionTrace]:
    """Return the sections of a text in their order, none without a text."""
    if data is None:
        return []
    lines = decode_note(path, data).lines
    return [
        SectionTrace(
            slugs=section.anchor.rpartition("#")[2],
            own_id=_read_id(path, lines, section),
            body="\n".join(lines[section.start + bool(section.level) : section.end]).strip(),
        )
        for section in split_note_sections(path, data)
    ]


def match_sections(old: Sequence[SectionTrace], new: Sequence[SectionTrace]) -> SectionMatch:
    """Match sections by their id, by slugs and body, by body, by slugs, and by their place.

    The body comes before the slugs, because equal headings of a note are numbered: without the
    first of them, the slugs of the second are those of the first before.
    """
    found: dict[int, int] = {}
    for key in _KEYS:
        _match_by(key, old, new, found)
    _match_by_place(len(old), len(new), found)
    taken = set(found.values())
    return SectionMatch(
        slugs={old[at].slugs: new[to].slugs for at, to in found.items()},
        removed=tuple(one for at, one in enumerate(old) if at not in found),
        added=tuple(one for at, one in enumerate(new) if at not in taken),
    )


def match_moved(
    removed: Sequence[SectionTrace], added: Sequence[SectionTrace]
) -> list[tuple[int, int]]:
    """Pair sections that left one note with those that another gained, by their id or body.

    Returns the places in both sequences.
    """
    found: dict[int, int] = {}
    for key in (_by_id, _by_body):
        _match_by(key, removed, added, found)
    return sorted(found.items())


def _by_id(one: SectionTrace) -> Hashable:
    return one.own_id or None


def _by_slugs_and_body(one: SectionTrace) -> Hashable:
    return one.slugs, one.body


def _by_body(one: SectionTrace) -> Hashable:
    return one.body or None


def _by_slugs(one: SectionTrace) -> Hashable:
    return one.slugs


_Key = Callable[[SectionTrace], Hashable]
_KEYS: tuple[_Key, ...] = (_by_id, _by_slugs_and_body, _by_body, _by_slugs)


def _match_by(
    key: _Key, old: Sequence[SectionTrace], new: Sequence[SectionTrace], found: dict[int, int]
) -> None:
    """Match the sections without a counterpart that have this key in common, in their order."""
    taken = set(found.values())
    waiting: dict[Hashable, list[int]] = {}
    for at, one in enumerate(new):
        if at not in taken and (value := key(one)) is not None:
            waiting.setdefault(value, []).append(at)
    for at, one in enumerate(old):
        if at not in found and (places := waiting.get(key(one))):
            found[at] = places.pop(0)


def _match_by_place(n_old: int, n_new: int, found: dict[int, int]) -> None:
    """Match what is left between the same two neighbours, if both texts have as many there."""
    taken = set(found.values())
    # A neighbour on either side: before the first section and after the last.
    ends = [(-1, -1), *sorted(found.items()), (n_old, n_new)]
    for (start, new_start), (end, new_end) in pairwise(ends):
        left = [at for at in range(start + 1, end) if at not in found]
        new_left = [at for at in range(new_start + 1, new_end) if at not in taken]
        if len(left) == len(new_left):
            found.update(zip(left, new_left, strict=True))
            taken.update(new_left)  # where sections have changed places, ranges overlap


def _read_id(path: str, lines: Sequence[str], section: RawSection) -> str:
    if not section.level:
        return ""  # that of the front matter is the note's
    meta, _ = find_section_meta(path, lines, section.start + 1, section.end)
    return dict(meta.extra).get("id", "")
