"""Find the links and tags in a note's prose.

Links are `[[note]]`, `[[note#heading]]`, `[[note|shown]]`, relative markdown links to notes, and
typed links: a list item that consists of a lower-case word and a link, `- resolved_by
[[redis-timeouts]]`. Tags are `#words`, but no colours (`#fff`), numbers (`#12`), fragments of
addresses or heading marks. Code is skipped. The caller resolves links to notes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from memsyncd.core.markdown.scanner import CODE, FENCE, HEADING, ITEM, QUOTE, Block
from memsyncd.core.notepath import NOTE_SUFFIXES

TEXT_LIMIT_CHARS = 500

_WIKI = r"\[\[(?P<wiki>[^\[\]\n]{1,500})\]\]"
_RELATIVE = r"\]\([ \t]*(?:<(?P<angle>[^<>\n]{1,500})>|(?P<plain>[^\s()<>]{1,500}))"
_LINK = re.compile(f"{_WIKI}|{_RELATIVE}")
# The look-behind follows the `#`, so that the search can skip to the next `#`.
_TAG = re.compile(r"#(?<![^\s(\[{,;]#)([^\W\d_][\w/-]{0,99})")
_COLOUR = re.compile(r"[0-9a-fA-F]{3}(?:[0-9a-fA-F]{3})?|(?=[a-fA-F]*[0-9])(?:[0-9a-fA-F]{4}){1,2}")
_RELATION = re.compile(
    r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?([a-z][a-z0-9_]{0,63}):?[ \t]+\Z"
)
_AFTER_TYPED = re.compile(r"[ \t]*(?:\([^)\n]*\)[ \t]*)?\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")
_MAYBE_RELATIVE = re.compile(rf"\]\([ \t]*+<?+(?!{_SCHEME.pattern})")
_BACKTICKS = re.compile(r"`+")


class Mention(msgspec.Struct, frozen=True, kw_only=True):
    """A link or a tag on a line (1-based).

    A tag has only `tag`; a link within its own note has an empty `target`.
    """

    line: int
    target: str = ""
    heading: str = ""
    relation: str = ""
    tag: str = ""


class LinkTarget(NamedTuple):
    """The target of a link as it is written, without heading and label.

    Offsets are those of the note's text. `is_encoded`: in a markdown link without `<>`, where some
    characters must be percent-encoded.
    """

    start: int
    end: int
    text: str
    is_wiki: bool
    is_encoded: bool


def find_link_targets(
    text: str, lines: Sequence[str], blocks: Sequence[Block]
) -> Iterator[LinkTarget]:
    """The targets of all links in the blocks that name another note, in order."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for at in sorted({mention.line - 1 for mention in find_mentions(text, lines, blocks)}):
        line = lines[at]
        prose = _blank_out(line, _find_code_spans(line)) if "`" in line else line
        for found in _LINK.finditer(prose):
            mention = _make_link(line, at + 1, found)
            if mention is None or not mention.target:
                continue
            group = found.lastgroup or ""
            start = starts[at] + line.index(mention.target, found.start(group))
            yield LinkTarget(
                start=start,
                end=start + len(mention.target),
                text=mention.target,
                is_wiki=group == "wiki",
                is_encoded=group == "plain",
            )


def find_mentions(text: str, lines: Sequence[str], blocks: Sequence[Block]) -> list[Mention]:
    """All links and tags in the blocks, in order of lines.

    `text` is the whole note, and shows at once if there are none.
    """
    if not _may_mention(text):
        return []
    places = [
        at
        for at, line in enumerate(lines)
        if ("#" in line or "](" in line or "[[" in line) and _may_mention(line)
    ]
    mentions: list[Mention] = []
    for block in blocks if places else ():
        first = bisect_left(places, block.start)
        if first < len(places) and places[first] < block.end and block.kind not in (FENCE, CODE):
            mentions.extend(_find_in_block(lines, block))
    return mentions


def _may_mention(text: str) -> bool:
    """False if a text, of one line or several, has neither a link to a note nor a tag.

    Most links lead elsewhere and are not examined.
    """
    return (
        "[[" in text
        or ("](" in text and bool(_MAYBE_RELATIVE.search(text)))
        or ("#" in text and bool(_TAG.search(text)))
    )


def _find_in_block(lines: Sequence[str], block: Block) -> Iterator[Mention]:
    fence, may_nest = "", block.kind in (ITEM, QUOTE)
    for at in range(block.start, block.end):
        line = lines[at]
        if may_nest and (fence or "```" in line or "~~~" in line):
            fence, is_code = _follow_fence(line, fence)
            if is_code:
                continue
        if _may_mention(line):
            yield from _find_in_line(line, at + 1, is_heading=block.kind == HEADING)


def _follow_fence(line: str, fence: str) -> tuple[str, bool]:
    """The fence that is open after this line of a list item or quote, and whether the line belongs
    to a fence.
    """
    mark = line.lstrip(" \t>-+*.)0123456789")
    run = mark[: len(mark) - len(mark.lstrip(mark[0]))] if mark[:3] in ("```", "~~~") else ""
    if not fence:
        is_opening = bool(run) and not (run[0] == "`" and "`" in mark[len(run) :])
        return (run, True) if is_opening else ("", False)
    is_closing = run.startswith(fence) and not mark[len(run) :].strip()
    return ("" if is_closing else fence), True


def _find_in_line(line: str, number: int, *, is_heading: bool) -> Iterator[Mention]:
    prose = _blank_out(line, _find_code_spans(line)) if "`" in line else line
    links = list(_LINK.finditer(prose))
    for found in links:
        mention = _make_link(line, number, found)
        if mention:
            yield mention
    if is_heading or "#" not in prose:
        return
    for found in _TAG.finditer(_blank_out(prose, [link.span() for link in links])):
        tag = found[1].rstrip("-/")
        if not _COLOUR.fullmatch(tag):
            yield Mention(line=number, tag=tag)


def _make_link(line: str, number: int, found: re.Match[str]) -> Mention | None:
    wiki = found["wiki"]
    if wiki is not None:
        target, _, heading = wiki.split("|", 1)[0].strip().partition("#")
        relation = _find_relation(line, found)
        return (
            Mention(line=number, target=target.strip(), heading=heading.strip(), relation=relation)
            if target or heading
            else None
        )
    written = (found["angle"] or found["plain"]).strip()
    target, _, heading = written.partition("#")
    if (
        _SCHEME.match(target)
        or (target and not target.lower().endswith(NOTE_SUFFIXES))
        or not written
    ):
        return None
    return Mention(line=number, target=target, heading=heading) if target or heading else None


def _find_relation(line: str, found: re.Match[str]) -> str:
    before = _RELATION.match(line[: found.start()]) if found.start() <= TEXT_LIMIT_CHARS else None
    return before[1] if before and _AFTER_TYPED.match(line[found.end() :]) else ""


def _find_code_spans(line: str) -> list[tuple[int, int]]:
    """Code spans: from a run of backticks to the next run of the same length."""
    runs = [found.span() for found in _BACKTICKS.finditer(line)]
    next_alike: list[int] = [0] * len(runs)
    latest: dict[int, int] = {}
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at][1] - runs[at][0]
        next_alike[at] = latest.get(length, 0)
        latest[length] = at
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(runs):
        closing = next_alike[at]
        if closing:
            spans.append((runs[at][0], runs[closing][1]))
            at = closing
        at += 1
    return spans


def _blank_out(line: str, spans: Sequence[tuple[int, int]]) -> str:
    """The line with NULs, which no decoded note contains, in place of the spans."""
    chars: list[str] = []
    done = 0
    for start, end in spans:
        chars += (line[done:start], "\0" * (end - start))
        done = end
    return "".join((*chars, line[done:]))
