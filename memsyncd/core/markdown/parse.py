"""Parse a note's bytes into one Note: sections, chunks, links, metadata and problems.

Parsing never fails. The other modules of this package split blocks, sections and chunks; this
module combines them, once, in order.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from memsyncd.core.digest import digest_bytes
from memsyncd.core.guard.warnings import NO_WARNINGS, GuardPolicy, find_warnings
from memsyncd.core.markdown.chunks import ChunkPolicy, Packer
from memsyncd.core.markdown.decode import Decoded, decode_note
from memsyncd.core.markdown.frontmatter import (
    NO_FRONT_MATTER,
    distinct_tags,
    find_front_matter,
    find_section_meta,
    is_memory_comment,
    list_tags,
    merge_meta,
)
from memsyncd.core.markdown.links import Mention, find_mentions
from memsyncd.core.markdown.scanner import (
    FENCE,
    FRONT_MATTER,
    HTML,
    ITEM,
    Block,
    split_blocks,
    split_paragraphs,
)
from memsyncd.core.markdown.sections import RawSection, split_sections
from memsyncd.core.model import (
    BlockName,
    Chunk,
    Link,
    Meta,
    Note,
    Problem,
    Section,
)
from memsyncd.core.notepath import NotePath, is_plain

TITLE_LIMIT_CHARS = 300

DATED_VALUE = re.compile(r"- (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)(?: (.*))?")
"""The first line of a value that was appended to a field: its time, and text."""

_CONFLICT_MARKS = ("<<<<<<< ", "=======", ">>>>>>> ")
# Fields by which Logseq knows a block, or how to show it.
_SHOWING_FIELDS = frozenset(("id", "collapsed", "heading", "background-color", "ls-type"))


def parse_note(
    path: NotePath, data: bytes, policy: ChunkPolicy, guard: GuardPolicy | None = None
) -> Note:
    """Parse a note from the bytes of its file; without a guard its warnings are not looked for.

    Raises for no bytes; spans are lines of the file as it is.
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
        chunks=make_chunks(packer, raw_sections, front.n_lines),
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
    """Make the sections, and report what is wrong with their own metadata."""
    tags, fields = _group_stated(placed)
    sections: list[Section] = []
    problems: list[Problem] = []
    for at, raw in enumerate(raw_sections):
        meta = note_meta
        if raw.blocks and raw.blocks[0].kind == HTML:
            stated, found = find_section_meta(path, lines, raw.blocks[0].start, raw.end)
            meta = merge_meta(note_meta, stated)
            problems.extend(found)
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


def _find_unread_comments(
    path: str, lines: Sequence[str], blocks: Sequence[Block]
) -> Iterator[Problem]:
    """Report the memory comments of a section that are not read: they are often another section's,
    left there by a merge.
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
    """Return the time of the newest dated value of a section, empty if it has none.

    A comment that stated it would make two branches that append to one field conflict.
    """
    items = (block.start for block in blocks if block.kind == ITEM)
    found = (DATED_VALUE.fullmatch(lines[at]) for at in items if lines[at].startswith("- 2"))
    return max((value[1] for value in found if value), default="")


# A mention, and the index of the section that holds its line.
PlacedMention = tuple[int, Mention]


def place_mentions(
    raw_sections: Sequence[RawSection], mentions: Sequence[Mention]
) -> list[PlacedMention]:
    starts = [raw.start for raw in raw_sections]
    return [(bisect_right(starts, one.line - 1) - 1, one) for one in mentions]


def _group_stated(
    placed: Sequence[PlacedMention],
) -> tuple[dict[int, list[str]], dict[int, dict[str, str]]]:
    """The tags and the fields in prose, by the index of their section. The values of a field that
    is stated twice are joined.
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
    """Make the names of blocks, each of the section that holds its line."""
    return tuple(
        BlockName(raw_sections[at].anchor, one.line, one.block) for at, one in placed if one.block
    )


def make_links(
    raw_sections: Sequence[RawSection], placed: Sequence[PlacedMention]
) -> tuple[Link, ...]:
    """Make the links, each of the section that holds its line."""
    return tuple(
        Link(raw_sections[at].anchor, one.line, one.target, one.heading, one.relation, one.kind)
        for at, one in placed
        if one.is_link
    )


def make_chunks(
    packer: Packer, raw_sections: Sequence[RawSection], n_front_lines: int
) -> tuple[Chunk, ...]:
    """Front matter is a chunk of its own, so that every line can be found and no other text is
    mixed with it.
    """
    chunks: list[Chunk] = []
    if n_front_lines:
        chunks.extend(
            packer.pack(raw_sections[0].anchor, 0, [Block(0, n_front_lines, FRONT_MATTER)])
        )
    for raw in raw_sections:
        if raw.blocks:
            chunks.extend(
                packer.pack(
                    raw.anchor, raw.start if raw.heading else raw.blocks[0].start, raw.blocks
                )
            )
    return tuple(chunks)


def _note_title(path: NotePath, meta: Meta, raw_sections: Sequence[RawSection]) -> str:
    """The front matter's title, else the first heading, else the name of an agent's memory, else
    the file's name without its suffix.
    """
    stated = dict(meta.extra)
    title = stated.get("title", "").strip() or next(
        (raw.heading[-1] for raw in raw_sections if raw.heading and raw.heading[-1]), ""
    )
    if not title and "description" in stated:
        title = stated.get("name", "").strip()
    return title[:TITLE_LIMIT_CHARS] or path.name.rpartition(".")[0] or path.name


def find_unclosed_block(path: str, lines: Sequence[str], blocks: Sequence[Block]) -> list[Problem]:
    """Report a fence or comment that nothing closes.

    It takes in the rest of the note, so it can only be the last block.
    """
    problems: list[Problem] = []
    last = blocks[-1] if blocks else None
    if last and last.kind == FENCE and not _is_closed_fence(lines, last):
        hint = "close it; the rest of the note is code"
        found = ("unclosed_fence", "a fence is never closed", hint)
        problems.append(Problem(path, last.start + 1, *found))
    if (
        last
        and last.kind == HTML
        and lines[last.start].lstrip().startswith("<!--")
        and "-->" not in lines[last.end - 1]
    ):
        hint = "close it with `-->`; the rest of the note is a comment"
        found = ("unclosed_comment", "a comment is never closed", hint)
        problems.append(Problem(path, last.start + 1, *found))
    return problems


def _is_closed_fence(lines: Sequence[str], block: Block) -> bool:
    opening, closing = lines[block.start].lstrip(), lines[block.end - 1].strip()
    mark = opening[:1]
    n_marks = len(opening) - len(opening.lstrip(mark))
    return block.end > block.start + 1 and len(closing) >= n_marks and not closing.strip(mark)


def find_conflicts(path: str, decoded: Decoded) -> list[Problem]:
    """One problem for the first conflict that git left: `<<<<<<<`, `=======` and `>>>>>>>` in
    order.
    """
    if not all(mark in decoded.text for mark in _CONFLICT_MARKS):
        return []
    n_seen, first = 0, 0
    for at, line in enumerate(decoded.lines):
        if line.startswith(_CONFLICT_MARKS[n_seen]):
            first = at if n_seen == 0 else first
            n_seen += 1
            if n_seen == len(_CONFLICT_MARKS):
                found = ("conflict_markers", "holds git conflict markers", "resolve the conflict")
                return [Problem(path, first + 1, *found)]
    return []
