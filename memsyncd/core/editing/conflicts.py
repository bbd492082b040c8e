"""Settle a conflict: two texts of one section, which a merge has left in a note.

`merge` writes the second text as a section of its own below the first. The comment of this section
names the first by `conflict`. To settle the conflict keeps one of the texts, in the place and with
the metadata of the first section, or both as two sections.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from memsyncd.core.editing.memories import remove_sections
from memsyncd.core.editing.merge import TOP
from memsyncd.core.editing.metadata import change_comment, read_section_meta
from memsyncd.core.editing.sections import (
    find_heading_end,
    find_sections_bytes,
    make_heading_line,
    open_text,
    replace_section,
    split_note_sections,
)
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import find_front_matter, find_section_meta
from memsyncd.core.markdown.scanner import HTML
from memsyncd.core.markdown.sections import RawSection
from memsyncd.core.model import CONFLICT_KEY, EMPTY_META
from memsyncd.errors import EditRefused, NoteNotFound

WhichText = Literal["this", "other", "both"]

_COMMENT = re.compile(
    rb"(?:[ \t]*(?:\r\n|\r|\n))*[ \t]*<!--\s*memory:.*?-->[ \t]*(?:\r\n|\r|\n|\Z)", re.DOTALL
)
_LINE_END = re.compile(rb"\r\n|\r|\n|\Z")
_HINT: Final = "settle it with your editor: leave one text, and remove `conflict` from its comment"
_SECTION_HINT: Final = "name the section of a conflict; list them with: memsyncd problems"


class SettledConflict(msgspec.Struct, frozen=True, kw_only=True):
    """A note after a conflict in it is settled. `kept` are the sections that are left of it.
    `anchors` has the new anchor of each section by its old one; the anchor of a removed text leads
    to the section in whose place the other text is.
    """

    data: bytes
    kept: tuple[str, ...]
    anchors: Mapping[str, str]


def settle_conflict(path: str, data: bytes, anchor: str, keep: WhichText) -> SettledConflict:
    """WhichText the text of this section, the other text of the conflict, or both texts.

    Raises NoteNotFound without this section, EditRefused if it is in no conflict, if there are
    several other texts, or if other sections would change.
    """
    open_text(path, data)  # raises EditRefused for a note that cannot be edited
    sections = split_note_sections(path, data)
    if all(section.anchor != anchor for section in sections):
        if anchor == f"{path}#":
            raise EditRefused(f"{path} has no text above its headings", hint=_SECTION_HINT)
        hint = "list sections with: memsyncd list --sections"
        raise NoteNotFound(f"no section {anchor}", hint=hint)
    first, seconds = _find_texts(path, data, sections, anchor)
    if keep == "both":
        for second in seconds:
            data = _unmark(path, data, second)
        return SettledConflict(data=data, kept=(first, *seconds), anchors={})
    chosen = first if (anchor == first) is (keep == "this") else seconds[0]
    if chosen != first and len(seconds) > 1:
        hint = f"name the text to keep: {', '.join(seconds)}"
        raise EditRefused(f"{anchor} has {len(seconds)} other texts", hint=hint)
    before = [section.anchor for section in sections if section.anchor not in seconds]
    left = remove_sections(path, data, seconds)
    place = _list_anchors(path, left)[before.index(first)]
    if chosen != first:
        left = _take_text(path, left, place, data, {each.anchor: each for each in sections}, chosen)
    after = _list_anchors(path, left)
    if len(after) != len(before):
        raise EditRefused(f"{path}: other sections would change", hint=_HINT)
    anchors = dict(zip(before, after, strict=True))
    anchors |= dict.fromkeys(seconds, anchors[first])
    return SettledConflict(data=left, kept=(anchors[first],), anchors=anchors)


def _find_texts(
    path: str, data: bytes, sections: Sequence[RawSection], anchor: str
) -> tuple[str, list[str]]:
    """Return the first section of the conflict of a section, and its other texts: the named one, or
    all if the first is named.
    """
    lines = decode_note(path, data).lines
    marks: dict[str, str] = {}
    for section in sections:
        if section.level and section.blocks[0].kind == HTML:
            meta, _ = find_section_meta(path, lines, section.blocks[0].start, section.end)
            if mark := dict(meta.extra).get(CONFLICT_KEY):
                marks[section.anchor] = f"{path}#{'' if mark == TOP else mark}"
    if anchor in marks:
        first = marks[anchor]
        if first == anchor or all(section.anchor != first for section in sections):
            raise EditRefused(f"{anchor} names no other section in its comment", hint=_HINT)
        return first, [anchor]
    seconds = [second for second, first in marks.items() if first == anchor]
    if not seconds:
        text = f"the text above the headings of {path}" if anchor == f"{path}#" else anchor
        raise EditRefused(f"{text} is in no conflict", hint=_SECTION_HINT)
    return anchor, seconds


def _unmark(path: str, data: bytes, anchor: str) -> bytes:
    meta = read_section_meta(path, data, anchor)
    if [key for key, _ in meta.extra] != [CONFLICT_KEY] or replace(meta, extra=()) != EMPTY_META:
        return change_comment(path, data, anchor, {CONFLICT_KEY: ""})
    # The text below may begin with a comment that cannot be read.
    lead, _, text = _split_own(path, data[slice(*find_sections_bytes(path, data)[anchor])])
    return replace_section(path, data, anchor, lead + text)


def _list_anchors(path: str, data: bytes) -> list[str]:
    return [section.anchor for section in split_note_sections(path, data)]


def _take_text(
    path: str,
    left: bytes,
    place: str,
    data: bytes,
    sections: Mapping[str, RawSection],
    chosen: str,
) -> bytes:
    """Return the note `left` with the text that the section `chosen` of the note `data` has as text
    of the section `place`, whose metadata stay.
    """
    places = find_sections_bytes(path, left)
    lead, comment, _ = _split_own(path, left[slice(*places[place])])
    own = data[slice(*find_sections_bytes(path, data)[chosen])]
    new_lead, _, text = _split_own(path, own)
    section = next(each for each in split_note_sections(path, left) if each.anchor == place)
    line_end = open_text(path, left).line_end.encode()
    other = sections[chosen]
    if section.level and section.heading[-1] != other.heading[-1]:
        heading = make_heading_line(section.level, other.heading[-1]).encode() + line_end
        lead = new_lead if section.level == other.level else heading
    if _COMMENT.match(text):
        comment = b""  # the text keeps the comment that could not be merged
    if lead and not lead.endswith((b"\n", b"\r")):
        lead += line_end
    changed = replace_section(path, left, place, lead + comment + text)
    others = [_list_others(path, each, at) for each, at in _place_both(path, left, changed, place)]
    if others[0] != others[1]:
        raise EditRefused(f"{path}: other sections would change", hint=_HINT)
    return changed


def _place_both(path: str, old: bytes, new: bytes, anchor: str) -> list[tuple[bytes, int]]:
    at = _list_anchors(path, old).index(anchor)
    return [(old, at), (new, at)]


def _list_others(path: str, data: bytes, at: int) -> list[bytes]:
    texts = [data[slice(*place)] for place in find_sections_bytes(path, data).values()]
    return [*texts[:at], *texts[at + 1 :]]


def _split_own(path: str, own: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a section's own bytes into its heading, or front matter, its comment and its text."""
    head = find_heading_end(path, own)
    if head is None:
        n_lines = find_front_matter(path, decode_note(path, own).lines).n_lines
        ends = [0, *(match.end() for match in _LINE_END.finditer(own))]
        return own[: ends[n_lines]], b"", own[ends[n_lines] :]
    match = _COMMENT.match(own, head)
    after = match.end() if match else head
    return own[:head], own[head:after], own[after:]
