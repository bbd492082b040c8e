"""Re-chunk a changed note: parse and chunk only the sections that an edit changed.

The lines that the old and the new text share at their beginning and end are found first. Parsing
begins at the last ATX heading before the first changed line, and ends at the first ATX heading
after the last one: nothing above such a heading depends on what follows it, and nothing beneath it
on what precedes it. An edit that changes the headings themselves, or a note whose problems depend
on more than these lines, is parsed whole: `rechunk_note` returns None. A test compares the outcome
with `parse_note`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from memsyncd.core.digest import digest_bytes
from memsyncd.core.guard.warnings import NO_WARNINGS, GuardPolicy, find_warnings
from memsyncd.core.markdown.blockrules import heading_level
from memsyncd.core.markdown.chunks import ChunkPolicy, Packer
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import find_front_matter
from memsyncd.core.markdown.links import find_definitions, find_mentions
from memsyncd.core.markdown.parse import (
    find_conflicts,
    find_unclosed_block,
    make_block_names,
    make_chunks,
    make_links,
    make_sections,
    place_mentions,
)
from memsyncd.core.markdown.scanner import HEADING, Block, split_blocks
from memsyncd.core.markdown.sections import RawSection, heading_text
from memsyncd.core.model import Note, NotePatch, Outline, OutlineSection
from memsyncd.core.notepath import NotePath, is_plain

# Problems that are found again in the whole text. Others are found section by section.
_WHOLE_PROBLEMS = frozenset(
    ("bom", "nul", "not_utf8", "cr_line_ends", "long_line", "conflict_markers")
)


def rechunk_note(
    path: NotePath,
    data: bytes,
    old: Outline,
    policy: ChunkPolicy,
    guard: GuardPolicy | None = None,
) -> NotePatch | None:
    """Parse the sections that differ from those of `old`; None if the note must be parsed whole."""
    if is_plain(path.text) or not old.problems <= _WHOLE_PROBLEMS:
        return None
    decoded = decode_note(path.text, data)
    lines, text = decoded.lines, decoded.text.removesuffix("\n")
    if not lines or not old.text or (lines and not lines[-1]):
        return None
    before, after = _find_same_lines(old.text, text)
    if find_definitions(old.text) != find_definitions(text):
        return None  # the links of any section may lead elsewhere
    old_lines = old.text.count("\n") + 1
    n_shift = len(lines) - old_lines
    first = _find_first(old.sections, lines, before)
    if first is None:
        return None
    found = _scan(lines, old.sections, first, old_lines - after, n_shift)
    if found is None:
        return None
    raw_sections, old_after, blocks = found
    front = find_front_matter(path.text, lines)
    placed = place_mentions(raw_sections, find_mentions(decoded.text, lines, blocks))
    sections, problems = make_sections(path.text, lines, raw_sections, front.meta, placed)
    if old_after > old_lines:
        problems = [*problems, *find_unclosed_block(path.text, lines, blocks)]
    # Lines that were none may become front matter by an end further below.
    if problems or front.problems or front.n_lines > raw_sections[0].start:
        return None
    warned = find_warnings(path.text, decoded.text, guard) if guard else NO_WARNINGS
    part = slice(raw_sections[0].start, raw_sections[-1].end)
    packer = Packer(lines, policy, part=part)
    note = Note(
        path=path.text,
        digest=digest_bytes(data),
        n_lines=len(lines),
        title=old.title,
        aliases=front.aliases,
        meta=front.meta,
        sections=sections,
        chunks=make_chunks(packer, raw_sections, 0),
        links=make_links(raw_sections, placed),
        block_names=make_block_names(raw_sections, placed),
        problems=(*decoded.problems, *find_conflicts(path.text, decoded), *warned.problems),
        secrets=warned.secrets,
        text=decoded.text,
    )
    return NotePatch(
        note=note,
        start=raw_sections[0].start + 1,
        old_after=old_after,
        n_shift=n_shift,
        first_changed=before + 1,
        old_same=old_lines - after + 1,
    )


def _find_same_lines(old: str, new: str) -> tuple[int, int]:
    """The number of whole lines at the beginning and at the end that are the same in both."""
    most = min(len(old), len(new))
    prefix = _find_most(most, lambda n: new.startswith(old[:n]))
    suffix = _find_most(most - prefix, lambda n: new.endswith(old[len(old) - n :]))
    # The line at which the texts part differs, and so does the first of the shared end unless a
    # line begins there in both.
    before = old.count("\n", 0, prefix)
    return before, old.count("\n", len(old) - suffix)


def _find_most(most: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to `most` for which `holds`, which holds for all smaller ones."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if holds(middle):
            least = middle
        else:
            most = middle - 1
    return least


def _find_first(
    sections: Sequence[OutlineSection], lines: Sequence[str], n_same: int
) -> int | None:
    """The last section with an ATX heading among the first `n_same` lines, which are the same."""
    starts = [section.start for section in sections]
    for at in range(bisect_left(starts, n_same + 1) - 1, -1, -1):
        if sections[at].level and heading_level(lines[starts[at] - 1]):
            return at
    return None


def _scan(
    lines: Sequence[str],
    sections: Sequence[OutlineSection],
    first: int,
    n_before_same: int,
    n_shift: int,
) -> tuple[list[RawSection], int, list[Block]] | None:
    """The sections from `first` on, to the first heading among the lines after the change; the line
    after them before the edit; and their blocks. None if their headings changed.
    """
    starts = [section.start for section in sections]
    after = bisect_left(starts, n_before_same + 1, first + 1)
    while after < len(sections) and not heading_level(lines[starts[after] - 1 + n_shift]):
        after += 1
    start = starts[first] - 1
    if after < len(sections):
        end = starts[after] - 1 + n_shift
        blocks = split_blocks(lines[: end + 1], start)
        if blocks and blocks[-1].kind == HEADING and blocks[-1].start == end:
            found = _name_sections(lines, blocks[:-1], sections[first:after], end)
            return None if found is None else (found, starts[after], blocks[:-1])
    blocks = split_blocks(lines, start)
    found = _name_sections(lines, blocks, sections[first:], len(lines))
    return None if found is None else (found, len(lines) - n_shift + 1, blocks)


def _name_sections(
    lines: Sequence[str], blocks: Sequence[Block], known: Sequence[OutlineSection], end: int
) -> list[RawSection] | None:
    """The sections of the blocks with the names that they had; None if a heading changed."""
    heads = [at for at, block in enumerate(blocks) if block.kind == HEADING]
    if len(heads) != len(known) or heads[:1] != [0]:
        return None
    found: list[RawSection] = []
    for section, at, after in zip(known, heads, [*heads[1:], len(blocks)], strict=True):
        head = blocks[at]
        if head.level != section.level or heading_text(lines, head) != section.heading[-1]:
            return None
        stop = blocks[after].start if after < len(blocks) else end
        beneath = blocks[at + 1 : after] or [head]
        found.append(
            RawSection(section.anchor, section.heading, head.level, head.start, stop, beneath)
        )
    return found
