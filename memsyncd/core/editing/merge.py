r"""Merge two versions of a note by their sections.

Both versions, ours and theirs, come from one older note, the base, and are compared with it. Each
version is searched for the sections of the base, by id, time of creation, text and heading. A
change that only one version has made is taken. If both versions have added sections, or values to a
field, all of these stay. Metadata are merged key by key; the result has the tags of both versions
and the newer `updated`. `merge_lines` merges lines of a section that both versions have changed.

A merge never mixes two sections. It puts git's conflict markers around as few lines as possible in
three cases: both versions change the same heading, key or lines; one version deletes a section that
the other changes; the parser would not find the same sections in the merged note.

Lines end at `\n` here. A note with other line ends keeps them if all its lines have the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple, TypeVar

import msgspec

from memsyncd.core.editing.additions import quote_values
from memsyncd.core.editing.sections import NoteText, open_text, unify_line_ends
from memsyncd.core.editing.topics import KEY_LINE, read_pairs
from memsyncd.core.markdown.frontmatter import (
    find_front_matter,
    find_section_meta,
    is_memory_comment,
    load_yaml,
)
from memsyncd.core.markdown.parse import DATED_VALUE
from memsyncd.core.markdown.scanner import HEADING, HTML, ITEM, Block, split_blocks
from memsyncd.core.markdown.sections import RawSection, heading_text, split_sections
from memsyncd.core.paths import is_markdown
from memsyncd.errors import EditRefused

OURS: Final = "ours"
THEIRS: Final = "theirs"

Lines = tuple[str, ...]


class MergedLines(NamedTuple):
    """Merged lines; with git's markers if both sides have changed the same lines."""

    lines: Lines
    has_conflict: bool


MergeLines = Callable[[Lines, Lines, Lines], MergedLines]
"""Merges three lists of lines: base, ours and theirs."""


class MergedNote(msgspec.Struct, frozen=True, kw_only=True):
    """A merged note, and the names of the sections with a conflict: headings or descriptions."""

    data: bytes
    conflicts: tuple[str, ...]


def mark_conflict(ours: Sequence[str], theirs: Sequence[str]) -> Lines:
    """Put the lines of both sides between git's markers; equal lines at both ends stay outside."""
    first = 0
    while first < min(len(ours), len(theirs)) and ours[first] == theirs[first]:
        first += 1
    last = 0
    most = min(len(ours), len(theirs)) - first
    while last < most and ours[-1 - last] == theirs[-1 - last]:
        last += 1
    end, end_theirs = len(ours) - last, len(theirs) - last
    marked = (f"<<<<<<< {OURS}", *ours[first:end], "=======", *theirs[first:end_theirs])
    return (*ours[:first], *marked, f">>>>>>> {THEIRS}", *ours[end:])


def merge_texts(base: Lines, ours: Lines, theirs: Lines) -> MergedLines:
    """If only one side differs from the base, take that side. If both sides differ, mark a
    conflict. This `MergeLines` does not need git.
    """
    chosen = _choose(base, ours, theirs)
    if chosen is not None:
        return MergedLines(chosen, has_conflict=False)
    return MergedLines(mark_conflict(ours, theirs), has_conflict=True)


def merge_notes(
    path: str,
    base: bytes,
    ours: bytes,
    theirs: bytes,
    *,
    merge_lines: MergeLines = merge_texts,
) -> MergedNote:
    """Merge two versions of the note at `path`; `base` is empty if both versions created it."""
    whole = _choose(base, ours, theirs)
    if whole is not None:
        return MergedNote(data=whole, conflicts=())
    try:
        notes = [open_text(path, data) for data in (base, ours, theirs)]
    except EditRefused:
        # Conflict markers are UTF-8 and would damage a note in UTF-16.
        return MergedNote(data=ours, conflicts=("the whole note, which is UTF-16",))
    line_end, texts = _unify(notes)
    mark = _choose(*(note.mark for note in notes))
    if is_markdown(path):
        lines, conflicts = _merge_sections(path, texts, merge_lines)
    else:
        merged = merge_lines(*(_split_lines(text) for text in texts))
        lines, conflicts = merged.lines, ["the text"] if merged.has_conflict else []
    text = line_end.join(lines)
    is_ended = _choose(*(text.endswith("\n") or not text for text in texts))
    if lines and (is_ended or conflicts):
        text += line_end
    written = notes[1].to_bytes(text).removeprefix(notes[1].mark)
    return MergedNote(data=(mark or b"") + written, conflicts=tuple(conflicts))


V = TypeVar("V")


def _choose(base: V, ours: V, theirs: V) -> V | None:
    """The value of the only side that has changed it; None if both have changed it differently."""
    if theirs in (ours, base):
        return ours
    return theirs if ours == base else None


def _unify(notes: Sequence[NoteText]) -> tuple[str, list[str]]:
    r"""Return the line end to write, and the texts with `\n`. If one text mixes several line ends,
    all texts stay as they are.
    """
    texts = [unify_line_ends(note.text) for note in notes]
    ends = [note.line_end for note in notes]
    is_uniform = all(
        text.replace("\n", end) == note.text
        for text, note, end in zip(texts, notes, ends, strict=True)
    )
    if not is_uniform:
        return "\n", [note.text for note in notes]
    return _choose(ends[0] if notes[0].text else ends[1], *ends[1:]) or ends[1], texts


def _split_lines(text: str) -> Lines:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return tuple(lines)


# --- The parts of a note --------------------------------------------------------------------------


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """A section: the lines of its heading, its comment and its text, and the blank lines after it.

    The first part of each note has no heading, and may be empty.
    """

    level: int
    name: str
    heading: Lines
    comment: Lines
    body: Lines
    gap: Lines
    is_last: bool
    created: str
    own_id: str

    @property
    def own(self) -> Lines:
        return self.heading + self.comment + self.body


class _Version(msgspec.Struct, frozen=True):
    """A version of a note: the lines of its front matter, its sections in order, and for each the
    number of its parent section, -1 for the first.
    """

    front: Lines
    parts: list[_Part]
    parents: list[int]


def _find_parents(levels: Sequence[int]) -> list[int]:
    parents: list[int] = []
    above: list[int] = []
    for at, level in enumerate(levels):
        while above and levels[above[-1]] >= level:
            above.pop()
        parents.append(above[-1] if above else -1)
        above.append(at)
    return parents


def _split(path: str, lines: Lines) -> _Version:
    # The index replaces each NUL. The parser must see the same text here.
    seen = [line.replace("\0", "\ufffd") for line in lines]
    n_front = find_front_matter(path, seen).n_lines
    blocks = split_blocks(seen, n_front)
    sections = [
        section for section in split_sections(path, seen, blocks, has_top=True) if section.level
    ]
    heads = {block.start: block for block in blocks if block.kind == HEADING}
    first = sections[0].start if sections else len(lines)
    top = [block for block in blocks if block.start < first]
    parts = [_make_part(path, lines, n_front, n_front, first, top, None)]
    for section in sections:
        head = heads[section.start]
        beneath = [block for block in section.blocks if block is not head]
        parts.append(
            _make_part(path, lines, section.start, head.end, section.end, beneath, (section, head))
        )
    return _Version(lines[:n_front], parts, _find_parents([part.level for part in parts]))


def _make_part(
    path: str,
    lines: Lines,
    start: int,
    text_start: int,
    end: int,
    blocks: Sequence[Block],
    headed: tuple[RawSection, Block] | None,
) -> _Part:
    last = end
    while last > text_start and not lines[last - 1].strip():
        last -= 1
    after = text_start
    meta: dict[str, str] = {}
    if blocks and blocks[0].kind == HTML and is_memory_comment(lines[blocks[0].start]):
        comment = "\n".join(lines[blocks[0].start : blocks[0].end]).rstrip()
        if comment.endswith("-->"):
            after = blocks[0].end
            stated, _ = find_section_meta(path, lines, text_start, after)
            meta = {"created": stated.created or "", "id": dict(stated.extra).get("id", "")}
    return _Part(
        level=headed[0].level if headed else 0,
        name=heading_text(lines, headed[1]) if headed else "",
        heading=lines[start:text_start],
        comment=lines[text_start:after],
        body=lines[after : max(after, last)],
        gap=lines[max(after, last) : end],
        is_last=end == len(lines),
        created=meta.get("created", ""),
        own_id=meta.get("id", "") if headed else "",
    )


# --- Matching sections ----------------------------------------------------------------------------

_MOMENT_CHARS: Final = len("2026-11-23T04:10:00Z")

_Key = Callable[[_Part], Hashable]
"""Returns a feature by which sections match; None for a section without this feature."""


def _by_id(part: _Part) -> Hashable:
    return part.own_id or None


def _by_whole(part: _Part) -> Hashable:
    return part.own


def _by_creation(part: _Part) -> Hashable:
    return (part.created, part.name) if part.created else None


def _by_time(part: _Part) -> Hashable:
    # A day is not enough: two different sections may be created on the same day.
    return part.created if len(part.created) >= _MOMENT_CHARS else None


def _by_text(part: _Part) -> Hashable:
    return (part.comment, part.body) if part.body else None


def _by_heading(part: _Part) -> Hashable:
    return part.level, part.name, part.created


_SURE: Final = (_by_id, _by_whole, _by_creation, _by_time, _by_text)
# Several sections of a note may share one of the next features, and a section that has changed
# still has some of these features. So they match only sections between the same two matched
# sections.
_NEAR: Final = (_by_whole, _by_creation, _by_text, _by_heading)


def _match(old: Sequence[_Part], new: Sequence[_Part]) -> dict[int, int]:
    """Map the number of a section in the base to the number of the same section in a version."""
    matches = {0: 0}
    for key in _SURE:
        taken = set(matches.values())
        olds = _group(key, old, (at for at in range(len(old)) if at not in matches))
        news = _group(key, new, (at for at in range(len(new)) if at not in taken))
        for value, places in olds.items():
            _pair(old, new, places, news.get(value, []), matches, most=1)
    for key in _NEAR:
        _match_near(key, old, new, matches)
    return matches


def _match_near(
    key: _Key, old: Sequence[_Part], new: Sequence[_Part], matches: dict[int, int]
) -> None:
    taken = set(matches.values())
    ends = [*sorted(matches.items()), (len(old), len(new))]
    for (first, new_first), (last, new_last) in pairwise(ends):
        olds = _group(key, old, range(first + 1, last))
        news = _group(key, new, (at for at in range(new_first + 1, new_last) if at not in taken))
        for value, places in olds.items():
            others = news.get(value, [])
            _pair(old, new, places, others, matches, most=len(places))


def _group(
    key: _Key, parts: Sequence[_Part], places: Iterator[int] | range
) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for at in places:
        if (value := key(parts[at])) is not None:
            groups.setdefault(value, []).append(at)
    return groups


def _pair(
    old: Sequence[_Part],
    new: Sequence[_Part],
    places: Sequence[int],
    others: Sequence[int],
    matches: dict[int, int],
    *,
    most: int,
) -> None:
    """Match two lists of sections in order, if they have the same length, at most `most`, and each
    pair may be the same section.
    """
    if len(places) != len(others) or len(places) > most:
        return
    if all(_may_be_same(old[at], new[to]) for at, to in zip(places, others, strict=True)):
        matches.update(zip(places, others, strict=True))


def _may_be_same(part: _Part, other: _Part) -> bool:
    """True unless two sections state different ids or different times of creation."""
    stated = ((part.own_id, other.own_id), (part.created, other.created))
    return all(not (left and right) or left == right for left, right in stated)


class _Entry(msgspec.Struct, frozen=True):
    """A section of the merge: its numbers in base, ours and theirs; None where it is missing."""

    base: int | None
    ours: int | None
    theirs: int | None


class _Notes(msgspec.Struct, frozen=True):
    """The three versions of a note."""

    base: _Version
    ours: _Version
    theirs: _Version

    def pick(self, entry: _Entry) -> tuple[_Part | None, _Part | None, _Part | None]:
        return (
            None if entry.base is None else self.base.parts[entry.base],
            None if entry.ours is None else self.ours.parts[entry.ours],
            None if entry.theirs is None else self.theirs.parts[entry.theirs],
        )


def _find_entries(notes: _Notes) -> tuple[dict[int, _Entry], dict[int, _Entry]] | None:
    """Return the entries of ours and the entries of theirs, by the number of the section. Return
    None if both versions have moved sections, each to another order.
    """
    base, ours, theirs = notes.base.parts, notes.ours.parts, notes.theirs.parts
    to_ours, to_theirs = _match(base, ours), _match(base, theirs)
    common = [at for at in range(len(base)) if at in to_ours and at in to_theirs]
    orders = [sorted(common, key=to.__getitem__) for to in (to_ours, to_theirs)]
    if _choose(common, *orders) is None:
        return None
    entries = [
        _Entry(at, to_ours.get(at), to_theirs.get(at))
        for at in range(len(base))
        if at in to_ours or at in to_theirs
    ]
    same = _match_added(notes, to_ours, to_theirs)
    old_ours, old_theirs = set(to_ours.values()), {*to_theirs.values(), *same.values()}
    new_ours = (at for at in range(len(ours)) if at not in old_ours)
    new_theirs = (at for at in range(len(theirs)) if at not in old_theirs)
    entries += [_Entry(None, at, same.get(at)) for at in new_ours]
    entries += [_Entry(None, None, at) for at in new_theirs]
    return (
        {entry.ours: entry for entry in entries if entry.ours is not None},
        {entry.theirs: entry for entry in entries if entry.theirs is not None},
    )


def _match_added(
    notes: _Notes, to_ours: Mapping[int, int], to_theirs: Mapping[int, int]
) -> dict[int, int]:
    """Match sections that both versions have added beneath the same section of the base, if they
    are the same section or the same field.
    """
    ours = _group_added(notes.ours, to_ours)
    theirs = _group_added(notes.theirs, to_theirs)
    matches: dict[int, int] = {}
    for parent in ours.keys() & theirs.keys():
        for key in (_by_id, _by_whole, _by_creation, _by_field):
            taken = set(matches.values())
            mine = _group(key, notes.ours.parts, (at for at in ours[parent] if at not in matches))
            other = _group(
                key, notes.theirs.parts, (at for at in theirs[parent] if at not in taken)
            )
            for value, places in mine.items():
                matches |= dict(zip(places, other.get(value, []), strict=False))
    in_order = sorted(matches)
    # If the versions have added the same sections in different orders, no order fits both.
    is_ordered = [matches[at] for at in in_order] == sorted(matches.values())
    return matches if is_ordered else {}


def _group_added(version: _Version, of_base: Mapping[int, int]) -> dict[int, list[int]]:
    """The sections that a version has added, by the number of their parent section in the base."""
    bases = {to: at for at, to in of_base.items()}
    groups: dict[int, list[int]] = {}
    for at, parent in enumerate(version.parents):
        if at not in bases and parent in bases:
            groups.setdefault(bases[parent], []).append(at)
    return groups


def _by_field(part: _Part) -> Hashable:
    """Match fields by their name. A field is a section that holds dated values and nothing else."""
    layout = _lay_out_values(part.body)
    is_field = layout is not None and layout.values and not (layout.before or layout.after)
    return (part.level, part.name) if is_field else None


# --- The order of sections ------------------------------------------------------------------------


def _order(notes: _Notes, ours: Mapping[int, _Entry], theirs: Mapping[int, _Entry]) -> list[_Entry]:
    """Return all sections in order. The order is that of theirs if theirs has moved sections, else
    that of ours. A section that only one version has keeps its place in that version: it comes
    after the same common section.
    """
    common = [
        entry for entry in ours.values() if entry.base is not None and entry.theirs is not None
    ]
    in_ours = sorted(common, key=lambda entry: entry.ours or 0)
    in_theirs = sorted(common, key=lambda entry: entry.theirs or 0)
    in_base = sorted(common, key=lambda entry: entry.base or 0)
    order = in_ours if in_theirs == in_base else in_theirs
    order_of_all = ours if order is in_ours else theirs
    anchors = [order_of_all[at] for at in sorted(order_of_all)]
    anchors = [entry for entry in anchors if entry.ours is not None and entry.theirs is not None]
    runs = _find_runs(notes.ours, ours), _find_runs(notes.theirs, theirs)
    ordered: list[_Entry] = []
    for anchor in anchors:
        ordered.append(anchor)
        ordered += _merge_runs(*(run.get(anchor, []) for run in runs))
    return ordered


class _Unit(msgspec.Struct, frozen=True):
    """A section that only one version has, with the sections beneath it."""

    level: int
    entries: list[_Entry]
    order: tuple[str, Lines]
    """The time of creation and the text, by which units of one level are ordered."""


def _find_runs(version: _Version, entries: Mapping[int, _Entry]) -> dict[_Entry, list[_Unit]]:
    """Return the sections that only this version has. The key of a list is the section before it
    that both versions have.
    """
    runs: dict[_Entry, list[_Unit]] = {}
    anchor = entries[0]
    for at, part in enumerate(version.parts):
        entry = entries[at]
        if entry.ours is not None and entry.theirs is not None:
            anchor = entry
            continue
        units = runs.setdefault(anchor, [])
        if units and units[-1].level < part.level:
            units[-1].entries.append(entry)
        else:
            units.append(_Unit(part.level, [entry], (part.created, part.own)))
    return runs


def _merge_runs(ours: Sequence[_Unit], theirs: Sequence[_Unit]) -> list[_Entry]:
    """Merge two runs. Deeper sections come first, because they belong to the section above.
    Sections of one level are ordered by their time of creation, so a merge on either side gives the
    same note.
    """
    merged: list[_Entry] = []
    left, right = list(ours), list(theirs)
    while left and right:
        our_unit, their_unit = left[0], right[0]
        is_theirs = (-their_unit.level, their_unit.order) < (-our_unit.level, our_unit.order)
        merged += (right if is_theirs else left).pop(0).entries
    for unit in (*left, *right):
        merged += unit.entries
    return merged


# --- Merging --------------------------------------------------------------------------------------


class _Written(NamedTuple):
    """A section of the merge: its lines, and its name if it has a conflict, else an empty text."""

    entry: _Entry
    own: Lines
    gap: Lines
    level: int
    conflict: str


def _merge_sections(
    path: str, texts: Sequence[str], merge_lines: MergeLines
) -> tuple[Lines, list[str]]:
    """Merge base, ours and theirs. Returns the lines, and the names of the sections with a
    conflict.
    """
    sides = [_split_lines(text) for text in texts]
    notes = _Notes(*(_split(path, lines) for lines in sides))
    entries = _find_entries(notes)
    if entries is None:
        return _give_up(sides[1:], "sections that both have moved")
    front, has_conflict = _merge_front(notes.base.front, notes.ours.front, notes.theirs.front)
    conflicts = ["the front matter"] if has_conflict else []
    kept = _find_kept(notes, *entries)
    written = []
    for entry in _order(notes, *entries):
        merged = _merge_entry(notes, entry, merge_lines, is_kept=entry in kept)
        if merged is not None:
            written.append(merged)
    if not _has_parents(notes, written):
        return _give_up(sides[1:], "sections that both have moved")
    lines = _join(front, written)
    conflicts += [section.conflict for section in written if section.conflict]
    if not conflicts:
        # An open fence or comment would swallow the sections after it.
        parsed = _split(path, lines)
        is_same = [section.own for section in parsed.parts] == [section.own for section in written]
        if parsed.front != front or not is_same:
            return _give_up(sides[1:], "sections that run into each other")
    return lines, conflicts


def _give_up(sides: Sequence[Lines], why: str) -> tuple[Lines, list[str]]:
    return mark_conflict(*sides), [why]


def _find_kept(
    notes: _Notes, ours: Mapping[int, _Entry], theirs: Mapping[int, _Entry]
) -> set[_Entry]:
    """Return the sections that one version has deleted although the other has changed them, or has
    added sections beneath them.
    """
    kept: set[_Entry] = set()
    for version, entries in ((notes.ours, ours), (notes.theirs, theirs)):
        for at in reversed(range(len(version.parts))):
            entry = entries[at]
            is_new = entry.base is None
            is_deleted = not is_new and (entry.ours is None or entry.theirs is None)
            base = None if entry.base is None else notes.base.parts[entry.base]
            if is_deleted and base is not None and base.own != version.parts[at].own:
                kept.add(entry)
            parent = entries.get(version.parents[at])
            is_gone = parent is not None and (parent.ours is None or parent.theirs is None)
            if parent is not None and is_gone and parent.base is not None:
                stays = is_new or not is_deleted or entry in kept
                was_beneath = _was_beneath(notes, entry, parent)
                if entry in kept or (stays and not was_beneath):
                    kept.add(parent)
    return kept


def _was_beneath(notes: _Notes, entry: _Entry, parent: _Entry) -> bool:
    if entry.base is None:
        return False
    return notes.base.parents[entry.base] == parent.base


def _merge_entry(
    notes: _Notes, entry: _Entry, merge_lines: MergeLines, *, is_kept: bool
) -> _Written | None:
    """Merge a section; None if it is deleted."""
    base, ours, theirs = notes.pick(entry)
    if ours is not None and theirs is not None:
        own, has_conflict = _merge_part(base, ours, theirs, merge_lines)
        gap = _merge_gap(base, ours, theirs)
        conflict = (ours.name or "the beginning") if has_conflict else ""
        changed = theirs if base is not None and base.level == ours.level else ours
        return _Written(entry, own, gap, changed.level, conflict)
    part = ours or theirs
    if part is None or (base is not None and not is_kept):
        return None
    gap = ("",) if part.is_last and not part.gap else part.gap
    if base is None:
        return _Written(entry, part.own, gap, part.level, "")
    own = mark_conflict(ours.own if ours else (), theirs.own if theirs else ())
    return _Written(entry, own, gap, part.level, part.name)


def _merge_gap(base: _Part | None, ours: _Part, theirs: _Part) -> Lines:
    """The blank lines between a section and the next one."""
    if ours.is_last or theirs.is_last:
        part = theirs if ours.is_last else ours
        return part.gap if not part.is_last else part.gap or ("",)
    longest = max(ours.gap, theirs.gap, key=len)
    if base is None or base.is_last:
        return longest
    chosen = _choose(base.gap, ours.gap, theirs.gap)
    return longest if chosen is None else chosen


def _has_parents(notes: _Notes, written: Sequence[_Written]) -> bool:
    """True if each section has the parent that it has in one of the versions."""
    ours = {section.entry.ours: section.entry for section in written}
    theirs = {section.entry.theirs: section.entry for section in written}
    parents = _find_parents([section.level for section in written])
    for section, parent in zip(written[1:], parents[1:], strict=True):
        now, entry = written[parent].entry, section.entry
        if entry.ours is not None and ours.get(notes.ours.parents[entry.ours]) == now:
            continue
        if entry.theirs is None or theirs.get(notes.theirs.parents[entry.theirs]) != now:
            return False
    return True


def _join(front: Lines, written: Sequence[_Written]) -> Lines:
    lines = list(front)
    for section in written:
        lines += section.own + section.gap
    while lines and written and not lines[-1].strip():
        lines.pop()
    return tuple(lines)


def _merge_part(
    base: _Part | None, ours: _Part, theirs: _Part, merge_lines: MergeLines
) -> MergedLines:
    """Merge a section that both versions have."""
    own = _choose(() if base is None else base.own, ours.own, theirs.own)
    if own is not None:
        return MergedLines(own, has_conflict=False)
    empty: tuple[Lines, Lines, Lines] = (ours.heading, (), ())
    heading, comment, body = (base.heading, base.comment, base.body) if base else empty
    chosen = _choose(body, ours.body, theirs.body)
    text = (
        _merge_body(body, ours.body, theirs.body, merge_lines)
        if chosen is None
        else MergedLines(chosen, has_conflict=False)
    )
    merged_heading = _choose(heading, ours.heading, theirs.heading)
    merged_comment = _merge_comment(comment, ours.comment, theirs.comment)
    if merged_heading is None or merged_comment is None:
        left = (merged_heading or ours.heading) + (
            ours.comment if merged_comment is None else merged_comment
        )
        right = (merged_heading or theirs.heading) + (
            theirs.comment if merged_comment is None else merged_comment
        )
        return MergedLines(mark_conflict(left, right) + text.lines, has_conflict=True)
    return MergedLines(merged_heading + merged_comment + text.lines, text.has_conflict)


# --- Metadata -------------------------------------------------------------------------------------

_COMMENT = re.compile(r"\s*<!--\s*memory:\s*(.*?)\s*-->\s*", re.DOTALL)
_LISTS: Final = frozenset({"tags", "tag", "keywords", "aliases", "alias"})

_LAST_KEYS: Final = ("status", "former_status")

_Metadata = Mapping[str, Lines]
"""Metadata by key in lower case. A value is lines of YAML that include the key."""


def _merge_comment(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Merge memory comments key by key; None for a conflict."""
    chosen = _choose(base, ours, theirs)
    if chosen is not None:
        return chosen
    sides = [_read_comment(lines) for lines in (base, ours, theirs)]
    if sides[0] is None or sides[1] is None or sides[2] is None:
        return None
    merged = _merge_pairs(sides[0], sides[1], sides[2])
    if merged is None:
        return None
    if not merged:
        return ()
    inner = ", ".join(" ".join(lines) for lines in merged.values())
    return (f"<!-- memory: {{{inner}}} -->",)


def _read_comment(lines: Lines) -> dict[str, Lines] | None:
    """Return the metadata of a comment; None if it cannot be read or cannot be written again."""
    if not lines:
        return {}
    match = _COMMENT.fullmatch("\n".join(lines))
    pairs = read_pairs(match[1]) if match else None
    if pairs is None or len({key.lower() for key in pairs}) < len(pairs):
        return None
    return {key.lower(): (f"{key}: {value}",) for key, value in pairs.items()}


def _merge_front(base: Lines, ours: Lines, theirs: Lines) -> MergedLines:
    """Merge front matter key by key."""
    chosen = _choose(base, ours, theirs)
    if chosen is not None:
        return MergedLines(chosen, has_conflict=False)
    sides = [_read_front(lines) for lines in (base, ours, theirs)]
    conflict = MergedLines(mark_conflict(ours, theirs), has_conflict=True)
    if sides[0] is None or sides[1] is None or sides[2] is None or not (ours and theirs):
        return conflict
    merged = _merge_pairs(sides[0], sides[1], sides[2])
    if merged is None:
        return conflict
    inner = [line for lines in merged.values() for line in lines]
    return MergedLines((ours[0], *inner, ours[-1]), has_conflict=False)


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


def _merge_pairs(base: _Metadata, ours: _Metadata, theirs: _Metadata) -> dict[str, Lines] | None:
    """Merge metadata; None if both versions have changed a key differently."""
    merged: dict[str, Lines] = {}
    new = sorted({*ours, *theirs} - base.keys())
    # Restoring an archived section expects the status at the end, and the former status after it.
    first = [key for key in (*base, *new) if key not in _LAST_KEYS]
    for key in (*first, *_LAST_KEYS):
        sides = [side.get(key, ()) for side in (base, ours, theirs)]
        value = _choose(sides[0], sides[1], sides[2])
        if value is None:
            value = _merge_value(key, sides[0], sides[1], sides[2])
        if value is None:
            return None
        if value:
            merged[key] = value
    return merged


def _merge_value(key: str, base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Merge a key that both versions have changed; None for a conflict."""
    if key in _LISTS:
        return _merge_list(base, ours, theirs)
    stated = [_load(lines) for lines in (ours, theirs)]
    if not (isinstance(stated[0], str) and isinstance(stated[1], str)):
        return None
    if key == "updated":
        return ours if stated[0] >= stated[1] else theirs
    if key == "created" and not base:
        return ours if stated[0] <= stated[1] else theirs
    return None


def _merge_list(base: Lines, ours: Lines, theirs: Lines) -> Lines | None:
    """Keep the items that no version has removed, and add the items that one or both have added."""
    lists = [_load(lines) if lines else [] for lines in (base, ours, theirs)]
    texts: list[list[str]] = []
    for values in lists:
        if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
            return None
        texts.append([str(text) for text in values])
    before, left, right = texts
    merged = [text for text in before if text in left and text in right]
    merged += sorted({*left, *right} - {*before})
    name = (ours or theirs)[0].partition(":")[0]
    return (f"{name}: {quote_values(merged) or '[]'}",)


def _load(lines: Lines) -> object:
    """The value of a key; None if it cannot be read."""
    try:
        loaded = load_yaml("\n".join(lines))
    except ValueError:
        return None
    return next(iter(loaded.values()), None) if isinstance(loaded, dict) else None


# --- The text of a section ------------------------------------------------------------------------


class _Values(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a section with dated values: the lines before and after the values, and the lines
    of each value. The key of a value is its time and its number among the values of this time.
    """

    before: Lines
    values: dict[tuple[str, int], Lines]
    after: Lines


def _merge_body(base: Lines, ours: Lines, theirs: Lines, merge_lines: MergeLines) -> MergedLines:
    """Merge the text of a section: dated values separately, other lines by `merge_lines`."""
    layouts = [_lay_out_values(lines) for lines in (base, ours, theirs)]
    if layouts[0] is None or layouts[1] is None or layouts[2] is None:
        return merge_lines(base, ours, theirs)
    values = _merge_values(layouts[0].values, layouts[1].values, layouts[2].values)
    if values is None or not (layouts[1].values and layouts[2].values):
        return merge_lines(base, ours, theirs)
    before = _merge_text([layout.before for layout in layouts if layout], merge_lines)
    after = _merge_text([layout.after for layout in layouts if layout], merge_lines)
    lines = before.lines + ("",) * bool(before.lines) + values
    lines += ("",) * bool(after.lines) + after.lines
    return MergedLines(lines, before.has_conflict or after.has_conflict)


def _merge_text(sides: Sequence[Lines], merge_lines: MergeLines) -> MergedLines:
    chosen = _choose(*sides)
    if chosen is not None:
        return MergedLines(chosen, has_conflict=False)
    return merge_lines(*sides)


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
    values: dict[tuple[str, int], Lines] = {}
    for at, same in groupby(items, key=lambda item: item[0]):
        for number, (_, block) in enumerate(same):
            values[at, number] = _trim(lines[block.start : block.end])
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
    base: Mapping[tuple[str, int], Lines],
    ours: Mapping[tuple[str, int], Lines],
    theirs: Mapping[tuple[str, int], Lines],
) -> Lines | None:
    """The lines of the values, the newest first; None if both versions have changed a value."""
    merged: list[Lines] = []
    keys = sorted({*ours, *theirs}, key=lambda key: key[1])
    for key in sorted(keys, key=lambda key: key[0], reverse=True):
        sides = base.get(key, ()), ours.get(key, ()), theirs.get(key, ())
        value = _choose(*sides)
        if value is not None:
            merged += [value] if value else []
        elif sides[0]:
            return None
        else:  # both versions have added a value with the same time
            merged += sorted(sides[1:])
    return tuple(line for value in merged for line in value)
