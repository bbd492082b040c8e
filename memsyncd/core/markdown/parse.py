"""Parse a note's bytes into one Note: sections, chunks, links, metadata and problems.

Parsing never fails. The other modules of this package split blocks, sections and chunks, and this
module combines their results. After an edit, `rechunk_note` parses only the changed sections.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from memsyncd.core.digest import digest_bytes
from memsyncd.core.guard.injection import (
    NO_WARNINGS,
    PROMPT_INJECTION,
    SECRET,
    GuardPolicy,
    find_warnings,
)
from memsyncd.core.markdown.decode import Decoded, decode_note
from memsyncd.core.markdown.frontmatter import (
    NO_FRONT_MATTER,
    FrontMatter,
    distinct_tags,
    find_front_matter,
    find_section_meta,
    is_memory_comment,
    list_tags,
    merge_meta,
)
from memsyncd.core.markdown.links import Mention, find_definitions, find_mentions
from memsyncd.core.markdown.scanner import (
    FENCE,
    HEADING,
    HTML,
    ITEM,
    Block,
    heading_level,
    split_blocks,
    split_paragraphs,
)
from memsyncd.core.markdown.sections import (
    ChunkPolicy,
    NamedSection,
    Packer,
    RawSection,
    find_parents,
    split_sections,
    split_sections_below,
)
from memsyncd.core.model import (
    CONFLICT_KEY,
    BlockName,
    Chunk,
    Link,
    Meta,
    Note,
    NotePatch,
    Outline,
    OutlineSection,
    Problem,
    Section,
)
from memsyncd.core.paths import NotePath, is_plain
from memsyncd.own_texts import is_own_section

TITLE_LIMIT_CHARS = 300

DATED_VALUE = re.compile(r"- (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)(?: (.*))?")
"""The first line of a value that was appended to a field: its time and its text."""

_CONFLICT_MARKS = ("<<<<<<< ", "=======", ">>>>>>> ")
# Fields that Logseq writes for itself: a block's id, and how to show the block.
_SHOWING_FIELDS = frozenset(("id", "collapsed", "heading", "background-color", "ls-type"))


def parse_note(
    path: NotePath, data: bytes, policy: ChunkPolicy, guard: GuardPolicy | None = None
) -> Note:
    """Parse a note from the bytes of its file. Without a guard, no secrets or injections are
    reported.

    Never raises. Spans are lines of the file as it is.
    """
    decoded = decode_note(path.text, data)
    lines = decoded.lines
    has_paragraphs = is_plain(path.text)
    front = NO_FRONT_MATTER if has_paragraphs else find_front_matter(path.text, lines)
    blocks = split_paragraphs(lines) if has_paragraphs else split_blocks(lines, front.n_lines)
    raw_sections = split_sections(path.text, lines, blocks, has_top=front.n_lines > 0)
    all_blocks = [*front.blocks, *blocks]
    placed = place_mentions(raw_sections, find_mentions(decoded.text, lines, all_blocks))
    sections, problems = make_sections(path.text, lines, raw_sections, front.meta, placed)
    warned = find_warnings(path.text, decoded.text, guard) if guard else NO_WARNINGS
    packer = Packer(lines, policy)
    return Note(
        path=path.text,
        digest=digest_bytes(data),
        n_lines=len(lines),
        title=_note_title(path, front.meta, raw_sections),
        aliases=front.aliases,
        meta=front.meta,
        sections=sections,
        chunks=make_chunks(packer, lines, raw_sections, front.n_all_lines),
        links=make_links(raw_sections, placed),
        block_names=make_block_names(raw_sections, placed),
        problems=(
            *decoded.problems,
            *front.problems,
            *problems,
            *find_conflicts(path.text, decoded),
            *find_unclosed_block(path.text, lines, blocks),
            *warned.problems,
        ),
        secrets=warned.secrets,
        text=decoded.text,
    )


def make_sections(
    path: str,
    lines: Sequence[str],
    raw_sections: Sequence[RawSection],
    note_meta: Meta,
    placed: Sequence[PlacedMention],
) -> tuple[tuple[Section, ...], list[Problem]]:
    """Make the sections, and report the defects of their own metadata."""
    tags, fields = _group_stated(placed)
    sections: list[Section] = []
    problems: list[Problem] = []
    for at, raw in enumerate(raw_sections):
        meta = note_meta
        if raw.blocks and raw.blocks[0].kind == HTML:
            stated, own_problems = find_section_meta(path, lines, raw.blocks[0].start, raw.end)
            meta = merge_meta(note_meta, stated)
            problems.extend(own_problems)
            if dict(stated.extra).get(CONFLICT_KEY):
                problems.append(_describe_conflict(path, raw))
        problems.extend(_find_unread_comments(path, lines, raw.blocks))
        newest = _find_newest_value(lines, raw.blocks)
        if newest and newest > (meta.updated or ""):
            meta = replace(meta, updated=newest)
        if at in fields:
            meta = replace(meta, extra=tuple({**dict(meta.extra), **fields[at]}.items()))
        if at in tags:
            meta = replace(meta, tags=distinct_tags((*meta.tags, *tags[at])))
        end = max(raw.end, raw.start + 1)
        sections.append(Section(raw.anchor, raw.heading, raw.level, raw.start + 1, end, meta))
    return tuple(sections), problems


def _describe_conflict(path: str, raw: RawSection) -> Problem:
    hint = f"keep this, other or both: memsyncd choose {shlex.quote(raw.anchor)} --keep this"
    problem = "two versions of a section have different texts; this is the second"
    return Problem(path, raw.start + 1, "conflict", problem, hint)


def _find_unread_comments(
    path: str, lines: Sequence[str], blocks: Sequence[Block]
) -> Iterator[Problem]:
    """Report the memory comments of a section that are not read. Often a merge has left the comment
    of another section there.
    """
    has_own = blocks[:1] and blocks[0].kind == HTML and is_memory_comment(lines[blocks[0].start])
    for block in blocks[1:]:
        if block.kind == HTML and is_memory_comment(lines[block.start]):
            line = block.start + 1
            if has_own:
                problem = "a second memory comment in one section is not read"
                hint = "move it below the heading of its own section, or merge the two"
                yield Problem(path, line, "second_comment", problem, hint)
            else:
                problem = "a memory comment that is not directly below its heading is not read"
                hint = "move it below the heading that it is about"
                yield Problem(path, line, "misplaced_comment", problem, hint)


def _find_newest_value(lines: Sequence[str], blocks: Sequence[Block]) -> str:
    """Return the time of the newest dated value of a section; empty if it has none.

    The section's comment does not state this time: two branches that append to one field would
    conflict.
    """
    items = (block.start for block in blocks if block.kind == ITEM)
    matches = (DATED_VALUE.fullmatch(lines[at]) for at in items if lines[at].startswith("- 2"))
    return max((value[1] for value in matches if value), default="")


# The index of the section that holds the line of a mention, and the mention.
PlacedMention = tuple[int, Mention]


def place_mentions(
    raw_sections: Sequence[RawSection], mentions: Sequence[Mention]
) -> list[PlacedMention]:
    starts = [raw.start for raw in raw_sections]
    return [(bisect_right(starts, mention.line - 1) - 1, mention) for mention in mentions]


def _group_stated(
    placed: Sequence[PlacedMention],
) -> tuple[dict[int, list[str]], dict[int, dict[str, str]]]:
    """The tags and the fields in prose, by the index of their section. If a field is stated twice,
    its values are joined.
    """
    tags: dict[int, list[str]] = {}
    fields: dict[int, dict[str, str]] = {}
    for at, mention in placed:
        if mention.is_link or mention.block:
            continue
        if mention.field is None:
            tags.setdefault(at, []).append(mention.tag)
            continue
        key, value = mention.field
        if key.lower() in ("tag", "tags"):
            tags.setdefault(at, []).extend(list_tags(value))
        elif key.lower() not in _SHOWING_FIELDS and not key.lower().startswith("logseq"):
            of_section = fields.setdefault(at, {})
            of_section[key] = f"{of_section[key]}, {value}" if key in of_section else value
    return tags, fields


def make_block_names(
    raw_sections: Sequence[RawSection], placed: Sequence[PlacedMention]
) -> tuple[BlockName, ...]:
    """Make the names of blocks, each with the anchor of the section that holds its line."""
    return tuple(
        BlockName(raw_sections[at].anchor, mention.line, mention.block)
        for at, mention in placed
        if mention.block
    )


def make_links(
    raw_sections: Sequence[RawSection], placed: Sequence[PlacedMention]
) -> tuple[Link, ...]:
    """Make the links, each with the anchor of the section that holds its line."""
    return tuple(
        Link(
            raw_sections[at].anchor,
            mention.line,
            mention.target,
            mention.heading,
            mention.relation,
            mention.kind,
        )
        for at, mention in placed
        if mention.is_link
    )


def make_chunks(
    packer: Packer, lines: Sequence[str], raw_sections: Sequence[RawSection], n_front_lines: int
) -> tuple[Chunk, ...]:
    """Make the chunks of the sections, the first for the front matter, too. A section that memsyncd
    has written for agents has no chunk.
    """
    chunks: list[Chunk] = []
    for raw in raw_sections:
        blocks = raw.blocks
        if raw.heading and is_own_section(raw.heading[-1], lines[raw.start : raw.end]):
            continue
        if blocks and blocks[0].start < n_front_lines:
            blocks = [*_leave_out_lines(blocks, n_front_lines)]
        if blocks:
            start = raw.start if raw.heading else blocks[0].start
            chunks.extend(packer.pack(raw.anchor, start, blocks))
    if n_front_lines and chunks:
        chunks[0] = replace(chunks[0], n_front_lines=n_front_lines)
    elif n_front_lines:
        anchor = raw_sections[0].anchor
        chunks = [Chunk(anchor, 1, n_front_lines, "", n_front_lines=n_front_lines)]
    return tuple(chunks)


def _leave_out_lines(blocks: Iterable[Block], first: int) -> Iterator[Block]:
    """Yield the blocks from line `first` on; properties may begin a block."""
    for block in blocks:
        if block.end > first:
            yield block._replace(start=max(block.start, first))


def _note_title(path: NotePath, meta: Meta, raw_sections: Sequence[NamedSection]) -> str:
    """The title in the front matter, else the first heading of level 1, else the `name` of an
    agent's memory (a note with a `description`), else the file's name without its suffix.
    """
    stated = dict(meta.extra)
    title = stated.get("title", "").strip() or next(
        (raw.heading[-1] for raw in raw_sections if raw.level == 1 and raw.heading[-1]), ""
    )
    if not title and "description" in stated:
        title = stated.get("name", "").strip()
    return title[:TITLE_LIMIT_CHARS] or path.name.rpartition(".")[0] or path.name


def find_unclosed_block(path: str, lines: Sequence[str], blocks: Sequence[Block]) -> list[Problem]:
    """Report a fence or comment that is never closed.

    It extends to the end of the note, so only the last block can be one.
    """
    problems: list[Problem] = []
    last = blocks[-1] if blocks else None
    if last and last.kind == FENCE and not _is_closed_fence(lines, last):
        hint = "close it; the rest of the note is code"
        details = ("unclosed_fence", "a fence is never closed", hint)
        problems.append(Problem(path, last.start + 1, *details))
    if (
        last
        and last.kind == HTML
        and lines[last.start].lstrip().startswith("<!--")
        and "-->" not in lines[last.end - 1]
    ):
        hint = "close it with `-->`; the rest of the note is a comment"
        details = ("unclosed_comment", "a comment is never closed", hint)
        problems.append(Problem(path, last.start + 1, *details))
    return problems


def _is_closed_fence(lines: Sequence[str], block: Block) -> bool:
    opening, closing = lines[block.start].lstrip(), lines[block.end - 1].strip()
    mark = opening[:1]
    n_marks = len(opening) - len(opening.lstrip(mark))
    return block.end > block.start + 1 and len(closing) >= n_marks and not closing.strip(mark)


def find_conflicts(path: str, decoded: Decoded) -> list[Problem]:
    """Report the first conflict that git left: lines that begin with `<<<<<<<`, `=======` and
    `>>>>>>>`, in this order.
    """
    if not all(mark in decoded.text for mark in _CONFLICT_MARKS):
        return []
    n_seen, first = 0, 0
    for at, line in enumerate(decoded.lines):
        if line.startswith(_CONFLICT_MARKS[n_seen]):
            first = at if n_seen == 0 else first
            n_seen += 1
            if n_seen == len(_CONFLICT_MARKS):
                details = ("conflict_markers", "holds git conflict markers", "resolve the conflict")
                return [Problem(path, first + 1, *details)]
    return []


# Problems that `rechunk_note` finds again, because it looks for them in the whole text. It cannot
# find the other problems outside of the sections that it parses.
_WHOLE_PROBLEMS = frozenset(
    (
        *("bom", "nul", "not_utf8", "cr_line_ends", "long_line", "conflict_markers"),
        *(SECRET, PROMPT_INJECTION),
    )
)


def rechunk_note(
    path: NotePath,
    data: bytes,
    old: Outline,
    policy: ChunkPolicy,
    guard: GuardPolicy | None = None,
) -> NotePatch | None:
    """Parse only the sections that the edit changed; None if the whole note must be parsed."""
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
    scanned = _scan(path.text, lines, old.sections, first, old_lines - after, n_shift)
    if scanned is None:
        return None
    raw_sections, old_after, blocks = scanned
    below = [section for section in old.sections[first:] if section.start >= old_after]
    front = find_front_matter(path.text, lines)
    placed = place_mentions(raw_sections, find_mentions(decoded.text, lines, blocks))
    sections, problems = make_sections(path.text, lines, raw_sections, front.meta, placed)
    if old_after > old_lines:
        problems = [*problems, *find_unclosed_block(path.text, lines, blocks)]
    is_found_above = _has_chunk(lines, old.sections[: first + 1], front)
    if problems or front.problems or (front.n_all_lines and not is_found_above):
        return None
    warned = find_warnings(path.text, decoded.text, guard) if guard else NO_WARNINGS
    packer = Packer(lines, policy, part=slice(raw_sections[0].start, raw_sections[-1].end))
    note = Note(
        path=path.text,
        digest=digest_bytes(data),
        n_lines=len(lines),
        title=_note_title(path, front.meta, [*old.sections[:first], *raw_sections, *below]),
        aliases=front.aliases,
        meta=front.meta,
        sections=sections,
        chunks=make_chunks(packer, lines, raw_sections, 0),
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


def _has_chunk(
    lines: Sequence[str], sections: Sequence[OutlineSection], front: FrontMatter
) -> bool:
    """True if any of the first sections of a note but the last has a chunk, below front matter. A
    `---` may turn lines of sections into front matter, whose words find the first chunk.
    """
    first = front.n_all_lines
    return any(
        any(map(str.strip, lines[max(section.start - 1, first) : after.start - 1]))
        and not (
            section.heading
            and is_own_section(section.heading[-1], lines[section.start - 1 : after.start - 1])
        )
        for section, after in pairwise(sections)
    )


def _find_same_lines(old: str, new: str) -> tuple[int, int]:
    """The numbers of whole lines that are the same in both texts, at the beginning and at the
    end.
    """
    most = min(len(old), len(new))
    prefix = _find_most(most, lambda start, end: new.startswith(old[start:end], start))
    suffix = _find_most(
        most - prefix,
        lambda start, end: new.endswith(
            old[len(old) - end : len(old) - start], 0, len(new) - start
        ),
    )
    # The line in which the texts part differs. So does the first line of the shared end, unless a
    # line begins there in both texts.
    before = old.count("\n", 0, prefix)
    return before, old.count("\n", len(old) - suffix)


# Characters that are compared at once.
_COMPARED = 65_536


def _find_most(most: int, is_same: Callable[[int, int], bool]) -> int:
    """Count the characters up to `most` until the first that differs. `is_same(start, end)` is true
    if the characters from `start` to before `end` are the same; each is compared once or twice.
    """
    least = 0
    while least < most and is_same(least, min(least + _COMPARED, most)):
        least = min(least + _COMPARED, most)
    most = min(least + _COMPARED, most)
    while least < most:
        middle = (least + most + 1) // 2
        if is_same(least, middle):
            least = middle
        else:
            most = middle - 1
    return least


def _find_first(
    sections: Sequence[OutlineSection], lines: Sequence[str], n_same: int
) -> int | None:
    """The index of the last section whose ATX heading is within the first `n_same` lines, which are
    unchanged; None if there is none.
    """
    starts = [section.start for section in sections]
    for at in range(bisect_left(starts, n_same + 1) - 1, -1, -1):
        if sections[at].level and heading_level(lines[starts[at] - 1]):
            return at
    return None


def _scan(
    path: str,
    lines: Sequence[str],
    sections: Sequence[OutlineSection],
    first: int,
    n_before_same: int,
    n_shift: int,
) -> tuple[list[RawSection], int, list[Block]] | None:
    """Split the sections from `first` on, to the first heading after the change below which no
    section gets another name, or to the end of the note. Returns the sections, the line after them
    in the old text (1-based), and their blocks; None if they do not begin with a heading.
    """
    starts = [section.start for section in sections]
    after = bisect_left(starts, n_before_same + 1, first + 1)
    while after < len(sections) and not heading_level(lines[starts[after] - 1 + n_shift]):
        after += 1
    start = starts[first] - 1
    if after < len(sections):
        end = starts[after] - 1 + n_shift
        blocks = split_blocks(lines[: end + 1], start)
        is_heading = bool(blocks) and blocks[-1].kind == HEADING and blocks[-1].start == end
        if is_heading and blocks[0].kind == HEADING:
            above = sections[:first]
            raw = split_sections_below(path, lines, blocks[:-1], end, above)
            if _keeps_names(above, sections[first:after], raw, sections[after:]):
                return raw, starts[after], blocks[:-1]
    blocks = split_blocks(lines, start)
    if not blocks or blocks[0].kind != HEADING:
        return None
    raw = split_sections_below(path, lines, blocks, len(lines), sections[:first])
    return raw, len(lines) - n_shift + 1, blocks


_NUMBERS = re.compile(r"(?:-\d+)+$")


def _keeps_names(
    above: Sequence[OutlineSection],
    old: Sequence[OutlineSection],
    new: Sequence[RawSection],
    below: Sequence[OutlineSection],
) -> bool:
    """True if the sections below keep their names when `old` sections of a note become `new`."""
    before, after = ([section.anchor for section in sections] for sections in (old, new))
    if before == after and [*map(_get_head, old)] == [*map(_get_head, new)]:
        return True
    level = below[0].level
    around = (find_parents([*above, *sections]) for sections in (old, new))
    old_parents, new_parents = ([each for each in parents if each[0] < level] for parents in around)
    if old_parents != new_parents:
        return False
    # Equal names are numbered in order of lines.
    changed = {_NUMBERS.sub("", anchor) for anchor in {*before} ^ {*after}}
    return changed.isdisjoint(_NUMBERS.sub("", section.anchor) for section in below)


def _get_head(section: OutlineSection | RawSection) -> tuple[int, tuple[str, ...]]:
    return section.level, section.heading
