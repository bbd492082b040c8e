r"""Merge the parts of a section: its metadata and its text. `merge` calls this for each section.

Both sides are compared with the older version, the base. A change of one side is taken. If both
sides have changed a key, the value of the newer side is taken, and lists keep the items of both
sides without the items that a side has removed. Lines that both sides have changed cannot be
merged: the result is None. Items that both sides have added to a list all stay.

Lines have no line ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import groupby, pairwise, takewhile
from typing import Final, TypeVar

import msgspec

from memsyncd.core.editing.additions import quote_values
from memsyncd.core.editing.topics import ITEM_OF_LINK, KEY_LINE, read_pairs
from memsyncd.core.editing.unified_diff import compare_lines
from memsyncd.core.markdown.frontmatter import list_tags, load_yaml
from memsyncd.core.markdown.parse import DATED_VALUE
from memsyncd.core.markdown.scanner import ITEM, split_blocks
from memsyncd.core.model import ARCHIVED

Lines = tuple[str, ...]

V = TypeVar("V")


def choose(base: V, ours: V, theirs: V) -> V | None:
    """The value of the only side that has changed it; None if both have changed it differently."""
    if theirs in (ours, base):
        return ours
    return theirs if ours == base else None


# --- Metadata -------------------------------------------------------------------------------------

Stated = Mapping[str, Lines]
"""Metadata by key in lower case. A value is lines of YAML that include the key."""

_COMMENT = re.compile(r"\s*<!--\s*memory:\s*(.*?)\s*-->\s*", re.DOTALL)
_TAGS: Final = frozenset({"tags", "tag", "keywords", "aliases", "alias"})
_LAST_KEYS: Final = ("status", "former_status")


def read_comment(lines: Lines) -> dict[str, Lines] | None:
    """Return the metadata of a memory comment; None if it cannot be read or written again."""
    if not lines:
        return {}
    match = _COMMENT.fullmatch("\n".join(lines))
    pairs = read_pairs(match[1]) if match else None
    if pairs is None or len({key.lower() for key in pairs}) < len(pairs):
        return None
    return {key.lower(): (f"{key}: {value}",) for key, value in pairs.items()}


def write_comment(pairs: Stated) -> Lines:
    """Return a memory comment; no line without metadata."""
    if not pairs:
        return ()
    inner = ", ".join(" ".join(pairs[key]) for key in _order_keys(pairs))
    return (f"<!-- memory: {{{inner}}} -->",)


def merge_comment(base: Lines, ours: Lines, theirs: Lines, *, newer: int) -> Lines | None:
    """Merge memory comments key by key; None if they cannot be read. Both sides have changed the
    section. `newer` is positive if ours is newer than theirs, negative if theirs is, else 0.
    """
    merged = _merge_stated(read_comment, (base, ours, theirs), newer)
    return merged if merged is None or isinstance(merged, tuple) else write_comment(merged)


def merge_front(base: Lines, ours: Lines, theirs: Lines, *, newer: int) -> Lines | None:
    """Merge front matter, including its `---` lines, key by key; None if it cannot be read. Both
    sides have changed the note. `newer` is as for `merge_comment`.
    """
    merged = _merge_stated(_read_front, (base, ours, theirs), newer)
    if merged is None or isinstance(merged, tuple):
        return merged
    if not merged:
        return ()
    fences = ours or theirs
    return (fences[0], *(line for lines in merged.values() for line in lines), fences[-1])


def _merge_stated(
    read: Callable[[Lines], Stated | None], sides: tuple[Lines, Lines, Lines], newer: int
) -> Lines | Stated | None:
    """Merge metadata that `read` reads; the lines of a side if it has all changes."""
    base, ours, theirs = sides
    stated = [read(lines) for lines in sides]
    if stated[0] is None or stated[1] is None or stated[2] is None:
        return choose(base, ours, theirs)
    left, right = _revive(stated[0], stated[1], stated[2])
    if (left, right) == (stated[1], stated[2]):
        chosen = choose(base, ours, theirs)
        if chosen is not None:
            return chosen
    if left == right == stated[0]:
        return base
    if left == stated[0] and right == stated[2]:
        return theirs
    if right == stated[0] and left == stated[1]:
        return ours
    return _merge_pairs(stated[0], left, right, newer)


def _read_front(lines: Lines) -> dict[str, Lines] | None:
    """The metadata of front matter; None if a key occurs twice."""
    pairs: dict[str, Lines] = {}
    name = ""
    for line in lines[1:-1]:
        if match := KEY_LINE.match(line):
            name = match[1].lower()
            if name in pairs:
                return None
        pairs[name] = (*pairs.get(name, ()), line)
    return pairs


def _order_keys(pairs: Stated) -> list[str]:
    # Restoring an archived section expects the status at the end, and the former status after it.
    first = [key for key in pairs if key not in _LAST_KEYS]
    return [*first, *(key for key in _LAST_KEYS if key in pairs)]


def _revive(base: Stated, ours: Stated, theirs: Stated) -> tuple[Stated, Stated]:
    """If one side has archived what the other has changed, the change counts: return the sides with
    the status of the other side.
    """
    is_old, is_ours, is_theirs = (_is_archived(pairs) for pairs in (base, ours, theirs))
    if is_old or is_ours == is_theirs:
        return ours, theirs
    return (_with_status(ours, theirs), theirs) if is_ours else (ours, _with_status(theirs, ours))


def _is_archived(pairs: Stated) -> bool:
    stated = _load(pairs.get("status", ()))
    return isinstance(stated, str) and stated.lower() == ARCHIVED


def _with_status(pairs: Stated, other: Stated) -> Stated:
    status = {key: other[key] for key in _LAST_KEYS if key in other}
    return {key: lines for key, lines in pairs.items() if key not in _LAST_KEYS} | status


def _merge_pairs(base: Stated, ours: Stated, theirs: Stated, newer: int) -> dict[str, Lines]:
    merged: dict[str, Lines] = {}
    keys = dict.fromkeys((*base, *sorted({*ours, *theirs} - base.keys())), ())
    for key in _order_keys(keys):
        sides = [side.get(key, ()) for side in (base, ours, theirs)]
        value = choose(sides[0], sides[1], sides[2])
        if value is None:
            value = _merge_value(key, sides[0], sides[1], sides[2], newer)
        if value:
            merged[key] = value
    return merged


def _merge_value(key: str, base: Lines, ours: Lines, theirs: Lines, newer: int) -> Lines:
    """Merge a key that both sides have changed."""
    if not (ours and theirs):
        return ours or theirs
    if (merged := _merge_list(key, base, ours, theirs)) is not None:
        return merged
    if key == "created":
        return min(ours, theirs)
    return max((newer, ours), (-newer, theirs))[1]


def _merge_list(key: str, base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Keep the items that no side has removed, and add the items that one or both have added; None
    for a value that is no list of texts.
    """
    before, left, right = (_read_list(key, lines) for lines in (base, ours, theirs))
    if left is None or right is None:
        return None
    old = before or []
    merged = [text for text in old if text in left and text in right]
    merged += sorted({*left, *right} - {*old})
    name = ours[0].partition(":")[0]
    return (f"{name}: {quote_values(merged) or '[]'}",)


def _read_list(key: str, lines: Lines) -> list[str] | None:
    value = _load(lines)
    if isinstance(value, str) and key in _TAGS:
        return list_tags(value)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return [str(text) for text in value]
    return None


def _load(lines: Lines) -> object:
    """The value of a key; None if it is missing or cannot be read."""
    try:
        loaded = load_yaml("\n".join(lines)) if lines else None
    except ValueError:
        return None
    return next(iter(loaded.values()), None) if isinstance(loaded, dict) else None


# --- The text of a section ------------------------------------------------------------------------


class _Values(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a section with dated values: the lines before and after the values, and the lines
    of each value, by its time.
    """

    before: Lines
    values: dict[str, tuple[Lines, ...]]
    after: Lines


def merge_text(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Merge the text of a section: dated values by their times, other text by lines. None if both
    sides have changed the same lines.
    """
    chosen = choose(base, ours, theirs)
    if chosen is not None:
        return chosen
    old, left, right = (_lay_out_values(lines) for lines in (base, ours, theirs))
    if old is None or left is None or right is None:
        return merge_lines(base, ours, theirs)
    if not (left.values and right.values):
        merged = merge_lines(base, ours, theirs)
        if merged is not None or not (left.values or right.values):
            return merged
    values = _merge_values(old.values, left.values, right.values)
    before = merge_lines(old.before, left.before, right.before)
    after = merge_lines(old.after, left.after, right.after)
    if values is None or before is None or after is None:
        return None
    lines = before + ("",) * bool(before) + values
    return lines + ("",) * bool(after) + after


def holds_only_values(lines: Lines) -> bool:
    """True if a text has dated values and nothing else."""
    layout = _lay_out_values(lines)
    return layout is not None and bool(layout.values) and not (layout.before or layout.after)


def _lay_out_values(lines: Lines) -> _Values | None:
    """Find the dated values in a text. Return None if other text or a blank line is between two
    values, or if an older value is above a newer one.
    """
    items = [
        (value[1], block)
        for block in split_blocks(lines)
        if block.kind == ITEM and (value := DATED_VALUE.fullmatch(lines[block.start]))
    ]
    if not items:
        return _Values(before=(), values={}, after=_trim(lines))
    times = [at for at, _ in items]
    is_apart = any(
        first.end != second.start or not lines[first.end - 1].strip()
        for (_, first), (_, second) in pairwise(items)
    )
    if is_apart or times != sorted(times, reverse=True):
        return None
    values = {
        at: tuple(_trim(lines[block.start : block.end]) for _, block in same)
        for at, same in groupby(items, key=lambda item: item[0])
    }
    return _Values(
        before=_trim(lines[: items[0][1].start]),
        values=values,
        after=_trim(lines[items[-1][1].end :]),
    )


def _trim(lines: Lines) -> Lines:
    """The lines without blank ones at both ends."""
    first, after = 0, len(lines)
    while first < after and not lines[first].strip():
        first += 1
    while after > first and not lines[after - 1].strip():
        after -= 1
    return lines[first:after]


def _merge_values(
    base: Mapping[str, tuple[Lines, ...]],
    ours: Mapping[str, tuple[Lines, ...]],
    theirs: Mapping[str, tuple[Lines, ...]],
) -> Lines | None:
    """The lines of the values, the newest first; None if both sides have changed a value."""
    merged: list[Lines] = []
    for at in sorted({*ours, *theirs}, reverse=True):
        old, left, right = (side.get(at, ()) for side in (base, ours, theirs))
        chosen = choose(old, left, right)
        if chosen is not None:
            merged += chosen
            continue
        if any(value not in left and value not in right for value in old):
            return None
        merged += [value for value in old if value in left and value in right]
        new = sorted({*left, *right} - {*old})
        # A value that the other side has made longer is no value of its own.
        merged += [value for value in new if not any(_begins(other, value) for other in new)]
    return tuple(line for value in merged for line in value)


def _begins(lines: Lines, other: Lines) -> bool:
    return len(lines) > len(other) and lines[: len(other)] == other


# --- Lines ----------------------------------------------------------------------------------------

_LIST_ITEM = re.compile(r"([ \t]*)[-*+][ \t]+\S")
_FENCES: Final = ("```", "~~~")


def merge_lines(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Merge lines; None if both sides have changed the same place, unless they have changed items
    of a list.
    """
    has_fence = any(line.lstrip().startswith(_FENCES) for line in (*base, *ours, *theirs))
    merged: list[str] = []
    done = (0, 0, 0)
    for shared in [*_find_shared(base, ours, theirs), (len(base), len(ours), len(theirs))]:
        pieces = [
            lines[start:end]
            for lines, start, end in zip((base, ours, theirs), done, shared, strict=True)
        ]
        piece = choose(pieces[0], pieces[1], pieces[2])
        if piece is None and not has_fence:
            piece = _merge_items(pieces[0], pieces[1], pieces[2])
        if piece is None:
            return None
        merged += [*piece, *base[shared[0] : shared[0] + 1]]
        done = (shared[0] + 1, shared[1] + 1, shared[2] + 1)
    return tuple(merged)


def _find_shared(base: Lines, ours: Lines, theirs: Lines) -> list[tuple[int, int, int]]:
    """The indices of the lines that neither side has changed, in base, ours and theirs."""
    left, right = (_map_equal(base, lines) for lines in (ours, theirs))
    return [(at, left[at], right[at]) for at in sorted(left.keys() & right.keys())]


def _map_equal(base: Lines, side: Lines) -> dict[int, int]:
    return {
        start + at: to + at
        for tag, start, end, to, _ in compare_lines(base, side)
        if tag == "equal"
        for at in range(end - start)
    }


def _merge_items(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Merge items of a list: keep the items that no side has removed, and add the new items of both
    sides. None for other lines, and if both sides have replaced an item that is no relation.
    """
    n_blank = min(_count_blank(lines) for lines in (ours, theirs)) if not base else 0
    lists = [_split_items(lines) for lines in (base, ours[n_blank:], theirs[n_blank:])]
    if lists[0] is None or lists[1] is None or lists[2] is None:
        return None
    old, left, right = lists[0], lists[1], lists[2]
    is_replaced = any(item not in left and item not in right for item in old)
    if is_replaced and not all(map(_is_relation, (*old, *left, *right))):
        return None
    kept = [item for item in old if item in left and item in right]
    first, second = sorted((left, right))
    added = [item for item in dict.fromkeys((*first, *second)) if item not in old]
    return (*ours[:n_blank], *(line for item in (*kept, *added) for line in item))


def _count_blank(lines: Lines) -> int:
    return sum(1 for _ in takewhile(lambda line: not line.strip(), lines))


def _split_items(lines: Lines) -> list[Lines] | None:
    """Return the items of a list, each with its lines; None for other lines."""
    items: list[list[str]] = []
    indent: str | None = None
    for line in lines:
        match = _LIST_ITEM.match(line)
        if match and indent in (None, match[1]):
            indent = match[1]
            items.append([line])
        elif items and indent is not None and _is_deeper(line, indent):
            items[-1].append(line)
        else:
            return None
    return [tuple(item) for item in items]


def _is_deeper(line: str, indent: str) -> bool:
    return bool(line.strip()) and line.startswith(indent) and line[len(indent)] in " \t"


def _is_relation(item: Lines) -> bool:
    return len(item) == 1 and ITEM_OF_LINK.fullmatch(item[0]) is not None and "[[" in item[0]
