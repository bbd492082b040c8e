"""Define what is known of a note before an edit, and the change that the edit makes.

`patch` parses edits; the store, which reads and writes these values, needs no parser for that.
"""

from __future__ import annotations

import msgspec

from memsyncd.core.model import Note


class OutlineSection(msgspec.Struct, frozen=True, gc=False):
    """A section as it was before the edit; `start` is its first line, 1-based."""

    anchor: str
    heading: tuple[str, ...]
    level: int
    start: int


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a note as it was before the edit. `text` has LF for every line end, and none
    after the last line. `problems` are the codes of its problems.
    """

    text: str
    title: str
    sections: tuple[OutlineSection, ...]
    problems: frozenset[str]


class NotePatch(msgspec.Struct, frozen=True, kw_only=True):
    """The change of a note whose headings stay the same.

    `note` is the whole note as it is now, but has the sections, chunks and links of lines from
    `start` on and, before the edit, to before `old_after` only. What follows moves by `n_shift`
    lines. The lines before `first_changed` and, before the edit, those from `old_same` on are the
    same. All lines are 1-based.
    """

    note: Note
    start: int
    old_after: int
    n_shift: int
    first_changed: int
    old_same: int
