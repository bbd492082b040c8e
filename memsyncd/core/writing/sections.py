r"""Which bytes of a note are one section's, and what are the note's bytes with others in their place?

A section's own bytes run from its heading's line to before the next heading of any level, line ends included, a byte order mark
not. UTF-16 notes have sections too, whose bytes are counted in their own units.
"""

from __future__ import annotations

import codecs
import re
from itertools import accumulate

from memsyncd.core.markdown.blocks import Block, find_paragraphs
from memsyncd.core.markdown.frontmatter import NO_FRONT_MATTER, find_front_matter
from memsyncd.core.markdown.lines import decode_note
from memsyncd.core.markdown.outline import find_blocks
from memsyncd.core.markdown.parse import PLAIN_SUFFIX
from memsyncd.core.markdown.sections import Part, find_parts
from memsyncd.errors import NoteNotFound

_LINE_END = re.compile(rb"\r\n|\r|\n")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def find_section_bytes(path: str, data: bytes, anchor: str) -> tuple[int, int] | None:
    """Byte offsets [start, end) of a section's own lines; None if the note has no section of this anchor."""
    for part in find_note_parts(path, data):
        if part.anchor == anchor:
            offsets = _find_line_offsets(data)
            return offsets[part.start], offsets[part.end]
    return None


def replace_section(path: str, data: bytes, anchor: str, by: bytes) -> bytes:
    """The note with these bytes for the section's own; empty ones take it out. Raises NoteNotFound if there is no such section.

    A section that ended the note without a newline and now stands above another gets one.
    """
    found = find_section_bytes(path, data, anchor)
    if found is None:
        raise NoteNotFound(f"no section {anchor}", hint="memsyncd list shows the sections of a note")
    start, end = found
    return b"".join((data[:start], by, _find_missing_end(data, by, data[end:]), data[end:]))


def find_note_parts(path: str, data: bytes) -> list[Part]:
    """The sections of a note as its parser cuts them."""
    lines = decode_note(path, data).lines
    if path.endswith(PLAIN_SUFFIX):
        return find_parts(path, lines, find_paragraphs(lines), has_top=False)
    front = find_front_matter(path, lines) if lines else NO_FRONT_MATTER
    blocks: list[Block] = find_blocks(lines, front.n_lines)
    return find_parts(path, lines, blocks, has_top=front.n_lines > 0)


def _find_line_offsets(data: bytes) -> list[int]:
    """The offset at which each line begins, as `decode_note` counts lines, and the note's length after them."""
    for mark, codec in _UTF16.items():
        if data.startswith(mark):
            return _find_wide_offsets(data, codec)
    first = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    offsets = [first, *(found.end() for found in _LINE_END.finditer(data, first))]
    return offsets if offsets[-1] == len(data) and len(offsets) > 1 else [*offsets, len(data)]


def _find_wide_offsets(data: bytes, codec: str) -> list[int]:
    text = data[2 : len(data) - len(data) % 2].decode(codec, "surrogatepass")
    sizes = [len(line[0].encode(codec, "surrogatepass")) for line in _LINE.finditer(text)]
    offsets = list(accumulate(sizes, initial=2))
    return [*offsets[:-1], len(data)]


def _find_missing_end(data: bytes, by: bytes, after: bytes) -> bytes:
    if not by or not after or by.endswith((b"\n", b"\r")):
        return b""
    found = _LINE_END.search(data)
    return found[0] if found else b"\n"
