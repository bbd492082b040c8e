r"""Which bytes of a note are one section's, and what are the note's bytes with others in their place?

A section's own bytes run from its heading's line to the end of its last line that is not blank, before the next heading of any
level; a byte order mark is none of them. Blank lines after it set off what follows, so adding something there changes no section
above it. UTF-16 notes have sections too, whose bytes are counted in their own units.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from itertools import accumulate

from memsyncd.core.markdown.blocks import split_paragraphs
from memsyncd.core.markdown.frontmatter import find_front_matter
from memsyncd.core.markdown.lines import decode_note
from memsyncd.core.markdown.outline import split_blocks
from memsyncd.core.markdown.sections import RawSection, split_sections
from memsyncd.core.notepath import is_plain
from memsyncd.errors import NoteNotFound

_LINE_END = re.compile(rb"\r\n|\r|\n")
_WIDE_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)")
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def find_section_bytes(path: str, data: bytes, anchor: str) -> tuple[int, int] | None:
    """Byte offsets [start, end) of a section's own lines; None if the note has no section of this anchor."""
    place = _find_place(path, data, anchor)
    return place[:2] if place else None


def replace_section(path: str, data: bytes, anchor: str, by: bytes) -> bytes:
    """The note with these bytes for the section's own. Raises NoteNotFound if there is no such section.

    Empty ones take it out with the blank lines after it, the last section of a note with those above it. A section that ended a
    note without a newline and now stands above another gets one.
    """
    place = _find_place(path, data, anchor)
    if place is None:
        raise NoteNotFound(f"no section {anchor}", hint="memsyncd list shows the sections of a note")
    start, end, next_start = place
    if by:
        return b"".join((data[:start], by, _find_missing_end(data, by, data[end:]), data[end:]))
    if next_start < len(data):
        return data[:start] + data[next_start:]
    return data[: _find_text_end(data, _find_line_offsets(data), start)]


def split_note_sections(path: str, data: bytes) -> list[RawSection]:
    """The sections of a note as its parser cuts them."""
    lines = decode_note(path, data).lines
    if is_plain(path):
        return split_sections(path, lines, split_paragraphs(lines), has_top=False)
    n_front_lines = find_front_matter(path, lines).n_lines
    return split_sections(path, lines, split_blocks(lines, n_front_lines), has_top=n_front_lines > 0)


def _find_place(path: str, data: bytes, anchor: str) -> tuple[int, int, int] | None:
    """Where a section begins, where its last line that is not blank ends, and where the next section begins."""
    for section in split_note_sections(path, data):
        if section.anchor == anchor:
            offsets = _find_line_offsets(data)
            start, next_start = offsets[section.start], offsets[section.end]
            return start, max(start, _find_text_end(data, offsets, next_start)), next_start
    return None


def _find_text_end(data: bytes, offsets: list[int], end: int) -> int:
    """Where the last line before `end` ends that is not blank; 0 if there is none."""
    codec = _find_wide_codec(data) or "utf-8"
    at = bisect_left(offsets, end)
    while at and not data[offsets[at - 1] : offsets[at]].decode(codec, "replace").strip():
        at -= 1
    return offsets[at] if at else 0


def _find_line_offsets(data: bytes) -> list[int]:
    """The offset at which each line begins, as `decode_note` counts lines, and the note's length after them."""
    codec = _find_wide_codec(data)
    offsets = _find_wide_starts(data, codec) if codec else _find_starts(data)
    return offsets if offsets[-1] == len(data) else [*offsets, len(data)]


def _find_starts(data: bytes) -> list[int]:
    first = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    return [first, *(found.end() for found in _LINE_END.finditer(data, first))]


def _find_wide_starts(data: bytes, codec: str) -> list[int]:
    text = data[2 : len(data) - len(data) % 2].decode(codec, "surrogatepass")
    lines = (line[0] for line in _WIDE_LINE.finditer(text))
    return list(accumulate((len(line.encode(codec, "surrogatepass")) for line in lines), initial=2))


def _find_wide_codec(data: bytes) -> str:
    return next((codec for mark, codec in _WIDE.items() if data.startswith(mark)), "")


def _find_missing_end(data: bytes, by: bytes, after: bytes) -> bytes:
    """The end that the last of `by`'s lines lacks, as the note has them; nothing is missing where nothing follows."""
    codec = _find_wide_codec(data) or "utf-8"
    if not by or not after or by.endswith(tuple(end.encode(codec) for end in "\n\r")):
        return b""
    pair = "\r\n".encode(codec)
    return pair if pair in data else "\n".encode(codec)
