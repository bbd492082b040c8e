"""What is in a note? Its bytes become one Note: sections, chunks, links, metadata, and problems for whatever is odd.

Reading never fails. Which lines are blocks, what a section is and how it is cut are the affairs of the modules beside this one;
here they are put together, once, in order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import fields, replace

from memsyncd.core.digest import digest_bytes
from memsyncd.core.guard.warnings import DEFAULT_GUARD, GuardPolicy, find_warnings
from memsyncd.core.markdown.blocks import FENCE, HTML, Block, find_paragraphs
from memsyncd.core.markdown.chunks import ChunkPolicy, Packer
from memsyncd.core.markdown.frontmatter import NO_FRONT_MATTER, find_distinct_tags, find_front_matter, find_section_meta
from memsyncd.core.markdown.lines import Decoded, decode_note
from memsyncd.core.markdown.links import Mention, find_mentions
from memsyncd.core.markdown.outline import find_blocks
from memsyncd.core.markdown.sections import Part, find_parts
from memsyncd.core.note import EMPTY_META, Chunk, Link, Meta, Note, Problem, Section
from memsyncd.core.notepath import NotePath, is_plain
from memsyncd.core.span import span_from_map

DEFAULT_POLICY = ChunkPolicy()
TITLE_LIMIT_CHARS = 300

_FRONT_MATTER_KIND = "front_matter"
_CONFLICT_MARKS = ("<<<<<<< ", "=======", ">>>>>>> ")
_SINGLE_FIELDS = tuple(field.name for field in fields(Meta) if field.name not in ("tags", "extra"))


def parse_note(path: NotePath, data: bytes, policy: ChunkPolicy = DEFAULT_POLICY, guard: GuardPolicy = DEFAULT_GUARD) -> Note:
    """Read a note from the bytes of its file. Never raises; spans are lines of the file as it is."""
    decoded = decode_note(path.text, data)
    lines = decoded.lines
    has_paragraphs = is_plain(path.text)
    front = NO_FRONT_MATTER if has_paragraphs else find_front_matter(path.text, lines)
    blocks = find_paragraphs(lines) if has_paragraphs else find_blocks(lines, front.n_lines)
    parts = find_parts(path.text, lines, blocks, has_top=front.n_lines > 0)
    mentions = find_mentions(decoded.text, lines, blocks)
    sections, problems = _make_sections(path.text, lines, parts, front.meta, mentions)
    warned = find_warnings(path.text, decoded.text, guard)
    packer = Packer(lines, policy, is_ascii=decoded.text.isascii())
    return Note(
        path=path.text,
        digest=digest_bytes(data),
        n_lines=len(lines),
        title=_find_title(path, front.meta, parts),
        meta=front.meta,
        sections=sections,
        chunks=_make_chunks(packer, parts, front.n_lines),
        links=_make_links(parts, mentions),
        problems=(
            *decoded.problems,
            *front.problems,
            *problems,
            *_find_conflicts(path.text, decoded),
            *_find_odd_blocks(path.text, lines, blocks),
            *warned.problems,
        ),
        secrets=warned.secrets,
    )


def _make_sections(
    path: str, lines: Sequence[str], parts: Sequence[Part], note_meta: Meta, mentions: Sequence[Mention]
) -> tuple[tuple[Section, ...], list[Problem]]:
    tags = _group_tags(parts, mentions)
    sections: list[Section] = []
    problems: list[Problem] = []
    for at, part in enumerate(parts):
        meta = note_meta
        if part.blocks and part.blocks[0].kind == HTML:
            said, odd = find_section_meta(path, lines, part.blocks[0].start, part.end)
            meta = _merge(note_meta, said)
            problems.extend(odd)
        if at in tags:
            meta = replace(meta, tags=find_distinct_tags((*meta.tags, *tags[at])))
        span = span_from_map((part.start, part.end))
        sections.append(Section(anchor=part.anchor, heading=part.heading, level=part.level, span=span, meta=meta))
    return tuple(sections), problems


def _merge(note: Meta, said: Meta) -> Meta:
    """What the section says over what the note says; the tags of both; extra keys of both, the section's winning."""
    if EMPTY_META in (said, note):
        return note if said == EMPTY_META else said
    over = {name: value for name in _SINGLE_FIELDS if (value := getattr(said, name)) is not None}
    extra = tuple({**dict(note.extra), **dict(said.extra)}.items())
    return replace(note, **over, tags=find_distinct_tags((*note.tags, *said.tags)), extra=extra)


def _group_tags(parts: Sequence[Part], mentions: Sequence[Mention]) -> dict[int, list[str]]:
    """The tags in prose, by the place of their section among the parts."""
    starts = [part.start for part in parts]
    tags: dict[int, list[str]] = {}
    for mention in mentions:
        if mention.tag:
            tags.setdefault(bisect_right(starts, mention.line - 1) - 1, []).append(mention.tag)
    return tags


def _make_links(parts: Sequence[Part], mentions: Sequence[Mention]) -> tuple[Link, ...]:
    starts = [part.start for part in parts]
    return tuple(
        Link(
            anchor=parts[bisect_right(starts, mention.line - 1) - 1].anchor,
            line=mention.line,
            target=mention.target,
            heading=mention.heading,
            relation=mention.relation,
        )
        for mention in mentions
        if not mention.tag
    )


def _make_chunks(packer: Packer, parts: Sequence[Part], n_front_lines: int) -> tuple[Chunk, ...]:
    """Front matter is a chunk of its own, so that every line is found and no text is mixed with it."""
    chunks: list[Chunk] = []
    if n_front_lines:
        chunks.extend(packer.pack(parts[0].anchor, 0, [Block(0, n_front_lines, _FRONT_MATTER_KIND)]))
    for part in parts:
        if part.blocks:
            chunks.extend(packer.pack(part.anchor, part.start if part.heading else part.blocks[0].start, part.blocks))
    return tuple(chunks)


def _find_title(path: NotePath, meta: Meta, parts: Sequence[Part]) -> str:
    """The front matter's title, else the first heading, else the file's name without its suffix."""
    said = dict(meta.extra).get("title", "").strip()
    title = said or next((part.heading[-1] for part in parts if part.heading and part.heading[-1]), "")
    return title[:TITLE_LIMIT_CHARS] or path.name.rpartition(".")[0]


def _find_odd_blocks(path: str, lines: Sequence[str], blocks: Sequence[Block]) -> list[Problem]:
    """A fence or comment that nothing closes: it swallows the rest, so it can only be the last block."""
    problems: list[Problem] = []
    last = blocks[-1] if blocks else None
    if last and last.kind == FENCE and not _is_closed_fence(lines, last):
        problems.append(
            _odd(path, last.start + 1, "unclosed_fence", "a fence is never closed", "close it; the rest of the note is code")
        )
    if last and last.kind == HTML and lines[last.start].lstrip().startswith("<!--") and "-->" not in lines[last.end - 1]:
        hint = "close it with `-->`; the rest of the note is a comment"
        problems.append(_odd(path, last.start + 1, "unclosed_comment", "a comment is never closed", hint))
    return problems


def _is_closed_fence(lines: Sequence[str], block: Block) -> bool:
    opening, closing = lines[block.start].lstrip(), lines[block.end - 1].strip()
    mark = opening[:1]
    n_marks = len(opening) - len(opening.lstrip(mark))
    return block.end > block.start + 1 and len(closing) >= n_marks and not closing.strip(mark)


def _find_conflicts(path: str, decoded: Decoded) -> list[Problem]:
    """One problem for the first conflict that git left: `<<<<<<<`, `=======` and `>>>>>>>` in order."""
    if not all(mark in decoded.text for mark in _CONFLICT_MARKS):
        return []
    wanted, first = 0, 0
    for at, line in enumerate(decoded.lines):
        if line.startswith(_CONFLICT_MARKS[wanted]):
            first = at if wanted == 0 else first
            wanted += 1
            if wanted == len(_CONFLICT_MARKS):
                return [_odd(path, first + 1, "conflict_markers", "holds git conflict markers", "resolve the conflict")]
    return []


def _odd(path: str, line: int, code: str, problem: str, hint: str) -> Problem:
    return Problem(path=path, line=line, code=code, problem=problem, hint=hint)
