"""Find and replace the bytes of one section of a note, and keep a text within its section.

A section's own bytes begin with the line of its heading and end with its last line that is not
blank. They stop before the next heading of any level, and do not include a byte order mark. The
blank lines after them are not its own bytes, so text that is added there changes no section above.

A text stays within its section if its headings are deeper than the section's, and if its fences and
comments are closed. The same parser that reads notes tests this: it must find a heading after the
text. If a text still does not stay within its section, it is put into a fence.

`match_sections` follows sections from one text of a note to the next.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from operator import attrgetter

import msgspec

from memsyncd.core.markdown.decode import decode_note, is_utf16
from memsyncd.core.markdown.frontmatter import find_front_matter, find_section_meta
from memsyncd.core.markdown.scanner import (
    FENCE,
    HEADING,
    HTML,
    Block,
    split_blocks,
    split_paragraphs,
)
from memsyncd.core.markdown.sections import RawSection, split_sections
from memsyncd.core.memories import SECTION_LEVEL
from memsyncd.core.paths import is_plain
from memsyncd.errors import BadRequest, EditRefused, NoteNotFound

LINE_ENDS = ("\n", "\r\n", "\r")


class NoteText(msgspec.Struct, frozen=True, kw_only=True):
    """A note's text as it is, and its byte order mark. `open_text` makes it."""

    mark: bytes
    text: str

    @property
    def line_end(self) -> str:
        r"""The line end that most of its lines have; `\n` if no line has one."""
        n_pairs = self.text.count("\r\n")
        counts = (self.text.count("\n") - n_pairs, n_pairs, self.text.count("\r") - n_pairs)
        return LINE_ENDS[counts.index(max(counts))]

    def to_bytes(self, text: str) -> bytes:
        """Return the bytes of another text, with the byte order mark of this note."""
        return self.mark + text.encode("utf-8", "surrogateescape")


def open_text(path: str, data: bytes) -> NoteText:
    """Decode a note's bytes for an edit.

    Raises EditRefused for UTF-16, which must not be mixed with UTF-8.
    """
    if is_utf16(data):
        raise EditRefused(f"{path} is UTF-16 and cannot be edited", hint="save it as UTF-8 first")
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return NoteText(mark=mark, text=data[len(mark) :].decode("utf-8", "surrogateescape"))


def check_text(name: str, text: str) -> None:
    """Raise BadRequest if the text cannot be written as UTF-8. `name` is the parameter's name."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"{name} is not valid Unicode", hint="it holds half of a surrogate pair"
        ) from error


def unify_line_ends(text: str) -> str:
    r"""The same text with `\n` for every line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def write_line_ends(text: str, line_end: str) -> str:
    r"""Replace the `\n` line ends of a text by `line_end`."""
    return text if line_end == "\n" else text.replace("\n", line_end)


class UnifiedText:
    r"""A text with `\n` for every line end. `raw_offset` converts its offsets to raw offsets.

    Offsets count characters.
    """

    __slots__ = ("_pairs", "text")

    def __init__(self, raw: str) -> None:
        self.text = unify_line_ends(raw)
        # The offset of each pair in `text`: the i-th pair, from 0, has lost i characters before it.
        self._pairs = (
            [match.start() - at for at, match in enumerate(re.finditer("\r\n", raw))]
            if "\r\n" in raw
            else []
        )

    def raw_offset(self, offset: int) -> int:
        """The offset in the raw text. It is never between the two characters of one line end."""
        return offset + bisect_left(self._pairs, offset)


def join_texts(*texts: str) -> str:
    r"""Concatenate texts. If one ends with `\r` and the next begins with `\n`, another `\n` is put
    between them, so that they stay two line ends.
    """
    whole: list[str] = []
    last = ""
    for text in texts:
        if last == "\r" and text.startswith("\n"):
            whole.append("\n")
        whole.append(text)
        last = text[-1:] or last
    return "".join(whole)


def count_lines(unified: str) -> int:
    """The number of lines as an editor counts them: a last line without a line end counts, and an
    empty text after the last line end does not.
    """
    return unified.count("\n") + (not unified.endswith("\n") and unified != "")


# --- The bytes of a section -----------------------------------------------------------------------

_LINE_END = re.compile(rb"\r\n|\r|\n")


def find_sections_bytes(path: str, data: bytes) -> dict[str, tuple[int, int]]:
    """Byte offsets [start, end) of the own lines of every section, by anchor; empty for UTF-16."""
    return {anchor: place[:2] for anchor, place in _find_places(path, data).items()}


def replace_section(path: str, data: bytes, anchor: str, by: bytes) -> bytes:
    """Replace the section's own bytes with the bytes `by`, and return the new note.

    Raises NoteNotFound if there is no such section. Empty bytes remove the section and the blank
    lines after it, or the blank lines above it if it is the last section of the note. A newline is
    added if `by` has none at its end and more text follows.
    """
    place = _find_places(path, data).get(anchor)
    if place is None:
        raise NoteNotFound(
            f"no section {anchor}", hint="list sections with: memsyncd list --sections"
        )
    start, end, next_start = place
    if by:
        return b"".join((data[:start], by, _missing_line_end(data, by, data[end:]), data[end:]))
    if next_start < len(data):
        return data[:start] + data[next_start:]
    return data[: _text_end(data, _line_offsets(data), start)]


def find_heading_end(path: str, own: bytes) -> int | None:
    """Return the offset after the heading of a section; None without a heading."""
    lines = decode_note(path, own).lines
    blocks = split_blocks(lines)
    if not blocks or blocks[0].kind != HEADING or blocks[0].start:
        return None
    ends = [match.end() for match in re.finditer(rb"\r\n|\r|\n|\Z", own)]
    return ends[blocks[0].end - 1]


def split_note_sections(path: str, data: bytes) -> list[RawSection]:
    """The sections of a note, as `parse_note` splits them."""
    lines = decode_note(path, data).lines
    if is_plain(path):
        return split_sections(path, lines, split_paragraphs(lines), has_top=False)
    n_front_lines = find_front_matter(path, lines).n_lines
    return split_sections(
        path, lines, split_blocks(lines, n_front_lines), has_top=n_front_lines > 0
    )


def _find_places(path: str, data: bytes) -> dict[str, tuple[int, int, int]]:
    """Three byte offsets for each section, by anchor: its beginning, the end of its last line that
    is not blank, and the beginning of the next section.
    """
    if is_utf16(data):
        return {}
    offsets = _line_offsets(data)
    return {
        section.anchor: (
            offsets[section.start],
            max(offsets[section.start], _text_end(data, offsets, offsets[section.end])),
            offsets[section.end],
        )
        for section in split_note_sections(path, data)
    }


def _text_end(data: bytes, offsets: list[int], end: int) -> int:
    """The end of the last line before `end` that is not blank; 0 if there is none."""
    at = bisect_left(offsets, end)
    while at and not data[offsets[at - 1] : offsets[at]].decode("utf-8", "replace").strip():
        at -= 1
    return offsets[at] if at else 0


def _line_offsets(data: bytes) -> list[int]:
    """The offset of each line, as `decode_note` counts lines, followed by the note's length."""
    first = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    offsets = [first, *(match.end() for match in _LINE_END.finditer(data, first))]
    return offsets if offsets[-1] == len(data) else [*offsets, len(data)]


def _missing_line_end(data: bytes, by: bytes, after: bytes) -> bytes:
    """Return the line end to add after `by`, as the note writes line ends. Return empty bytes if
    none is missing, or if no text follows.
    """
    if not by or not after or by.endswith((b"\n", b"\r")):
        return b""
    return b"\r\n" if b"\r\n" in data else b"\n"


# --- Keeping a text within its section ------------------------------------------------------------

_DEEPEST_LEVEL = 6
_PROBE = f"{'#' * SECTION_LEVEL} probe"
_ATX = re.compile(r" {0,3}#{1,6}(?=[ \t]|$)")
_CLOSING_MARKS = re.compile(r"(?:(?<=[ \t])|^)#+$")
_FENCE_MARK = re.compile(r" {0,3}(`{3,}|~{3,})")
_TICKS = re.compile(r"`+")
_HTML_ENDS = (
    (re.compile(r" {0,3}<!--"), "-->"),
    (re.compile(r" {0,3}<\?"), "?>"),
    (re.compile(r" {0,3}<!\[CDATA\["), "]]>"),
    (re.compile(r" {0,3}<![A-Za-z]"), ">"),
    (re.compile(r" {0,3}<script\b", re.IGNORECASE), "</script>"),
    (re.compile(r" {0,3}<pre\b", re.IGNORECASE), "</pre>"),
    (re.compile(r" {0,3}<style\b", re.IGNORECASE), "</style>"),
    (re.compile(r" {0,3}<textarea\b", re.IGNORECASE), "</textarea>"),
)


def make_heading_line(level: int, text: str) -> str:
    """A heading of this text, as one line. A `#` at its end is escaped, because it would be a
    closing mark.
    """
    text = " ".join(text.split())
    return f"{'#' * level} {_CLOSING_MARKS.sub(lambda marks: chr(92) + marks[0], text)}".rstrip()


def contain(lines: Sequence[str]) -> list[str]:
    """Return the lines, and change only the lines that would not stay within their section."""
    kept = _push_headings(lines)
    kept += find_closing_lines(kept)
    return kept if _is_contained(kept) else _put_into_fence(lines)


def add_links(text: str, links: Sequence[str]) -> str:
    """Return a text with these items of a list below it. A fence or comment that the text leaves
    open is closed, because links in it would be none.
    """
    lines = unify_line_ends(text).rstrip().split("\n")
    return "\n".join([*contain(lines), "", *links])


def find_closing_lines(lines: Sequence[str], first: int = 0) -> list[str]:
    """Return the lines to add so that the parser reads a heading below as one; usually none."""
    probed = split_blocks([*lines, "", _PROBE], first)
    if probed and probed[-1].kind == HEADING and probed[-1].start == len(lines) + 1:
        return []
    blocks = split_blocks(lines, first)
    return [_closing_line(lines, blocks[-1])] if blocks else []


def _closing_line(lines: Sequence[str], block: Block) -> str:
    opening = lines[block.start]
    if block.kind == FENCE and (fence := _FENCE_MARK.match(opening)):
        return fence[1]
    if block.kind == HTML:
        return next((end for start, end in _HTML_ENDS if start.match(opening)), "")
    return ""


def _push_headings(lines: Sequence[str]) -> list[str]:
    heads = [block for block in split_blocks(lines) if block.kind == HEADING]
    n_more = SECTION_LEVEL + 1 - min((head.level for head in heads), default=_DEEPEST_LEVEL)
    if n_more <= 0:
        return list(lines)
    pushed: list[str] = []
    done = 0
    for head in heads:
        level = min(head.level + n_more, _DEEPEST_LEVEL)
        pushed += [*lines[done : head.start], _push_heading(lines[head.start : head.end], level)]
        done = head.end
    return [*pushed, *lines[done:]]


def _push_heading(lines: Sequence[str], level: int) -> str:
    if len(lines) == 1:
        return _ATX.sub("#" * level, lines[0])
    return make_heading_line(level, " ".join(line.strip() for line in lines[:-1]))


def _is_contained(lines: Sequence[str]) -> bool:
    whole = [_PROBE, "<!-- memory: {} -->", *lines, "", _PROBE]
    heads = [block for block in split_blocks(whole) if block.kind == HEADING]
    levels = [head.level for head in heads[1:-1]]
    return (
        len(heads) > 1
        and heads[0].start == 0
        and heads[-1].start == len(whole) - 1
        and all(level > SECTION_LEVEL for level in levels)
    )


def _put_into_fence(lines: Sequence[str]) -> list[str]:
    longest = max((len(ticks) for line in lines for ticks in _TICKS.findall(line)), default=0)
    mark = "`" * max(longest + 1, 3)
    return [mark, *lines, mark]


# --- Sections followed from one text of a note to the next ----------------------------------------
# A section is named by its note's path and its slugs, the part of its anchor after `#`. A change of
# the note may change the slugs: a heading is renamed, a section moves below another, or the first
# of two equal headings is removed. `match_sections` finds the new slugs of each section of the old
# text.


def is_extended(path: str, old: bytes, new: bytes) -> bool:
    """True if the new text is the old text with more below a blank line: then each section of the
    old text keeps its name, and none needs to be followed.
    """
    if is_utf16(old) or not new.startswith(old):
        return False
    added = new[len(old) :]
    is_apart = old.endswith((b"\n\n", b"\n\r\n", b"\r\r")) or (
        added.startswith(b"\n") and old.endswith(b"\n")
    )
    is_apart = is_apart or (added.startswith(b"\r") and old.endswith((b"\n", b"\r")))
    if not is_apart or not old.removeprefix(codecs.BOM_UTF8).startswith(b"---"):
        return is_apart
    # The addition may close front matter.
    before, after = (find_front_matter(path, decode_note(path, each).lines) for each in (old, new))
    return before.n_lines == after.n_lines


class SectionTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The features by which a section is recognised. `own_id` is the `id` in its comment, empty if
    there is none. `body` is the text below its heading.
    """

    slugs: str
    own_id: str
    body: str


class SectionMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The new slugs by the old slugs, and the sections of each text without a counterpart."""

    slugs: dict[str, str]
    removed: tuple[SectionTrace, ...]
    added: tuple[SectionTrace, ...]


def trace_sections(path: str, data: bytes | None) -> list[SectionTrace]:
    """Return the sections of a text in their order; an empty list for None."""
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

    The body comes before the slugs, because equal headings of a note are numbered: if the first of
    two is removed, the second gets the slugs that the first had.
    """
    matches: dict[int, int] = {}
    for key in _KEYS:
        _match_by(key, old, new, matches)
    _match_by_place(len(old), len(new), matches)
    taken = set(matches.values())
    return SectionMatch(
        slugs={old[at].slugs: new[to].slugs for at, to in matches.items()},
        removed=tuple(section for at, section in enumerate(old) if at not in matches),
        added=tuple(section for at, section in enumerate(new) if at not in taken),
    )


def match_moved(
    removed: Sequence[SectionTrace], added: Sequence[SectionTrace]
) -> list[tuple[int, int]]:
    """Pair the sections that one note lost with the sections that another gained, by their id or
    body.

    Returns pairs of indices in both sequences.
    """
    matches: dict[int, int] = {}
    for key in (_by_id, _by_body):
        _match_by(key, removed, added, matches)
    return sorted(matches.items())


_Key = Callable[[SectionTrace], Hashable]
"""Returns a feature by which sections match; None for a section without this feature."""


def _by_id(section: SectionTrace) -> Hashable:
    return section.own_id or None


def _by_body(section: SectionTrace) -> Hashable:
    return section.body or None


_KEYS: tuple[_Key, ...] = (_by_id, attrgetter("slugs", "body"), _by_body, attrgetter("slugs"))


def _match_by(
    key: _Key, old: Sequence[SectionTrace], new: Sequence[SectionTrace], matches: dict[int, int]
) -> None:
    """Match sections that have no counterpart yet and have the same key, in their order."""
    taken = set(matches.values())
    waiting: dict[Hashable, list[int]] = {}
    for at, section in enumerate(new):
        if at not in taken and (value := key(section)) is not None:
            waiting.setdefault(value, []).append(at)
    for at, section in enumerate(old):
        if at not in matches and (places := waiting.get(key(section))):
            matches[at] = places.pop(0)


def _match_by_place(n_old: int, n_new: int, matches: dict[int, int]) -> None:
    """Match the remaining sections between the same two neighbours, if their number is the same in
    both texts.
    """
    taken = set(matches.values())
    # One pair stands before the first section and one after the last, so each has two neighbours.
    ends = [(-1, -1), *sorted(matches.items()), (n_old, n_new)]
    for (start, new_start), (end, new_end) in pairwise(ends):
        left = [at for at in range(start + 1, end) if at not in matches]
        new_left = [at for at in range(new_start + 1, new_end) if at not in taken]
        if len(left) == len(new_left):
            matches.update(zip(left, new_left, strict=True))
            taken.update(new_left)  # ranges overlap where sections have changed places


def _read_id(path: str, lines: Sequence[str], section: RawSection) -> str:
    # An id in the front matter belongs to the note, and most comments state none.
    if not section.level or section.blocks[0].kind != HTML:
        return ""
    comment = section.blocks[0]
    if not any("id" in line.lower() for line in lines[comment.start : comment.end]):
        return ""
    meta, _ = find_section_meta(path, lines, section.start + 1, section.end)
    return dict(meta.extra).get("id", "")
