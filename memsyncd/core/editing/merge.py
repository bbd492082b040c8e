r"""Merge two versions of a note by their sections.

Both versions, ours and theirs, come from one older note, the base, and are compared with it. Each
version is searched for the sections of the base, by id, time of creation, text and heading. A
change that only one version has made is taken. If both versions have added sections, all of these
stay. `merge_parts` merges the metadata and the text of a section that both versions have changed. A
section that one version has deleted stays if the other has changed it.

If both versions have changed the same heading or the same lines, both texts stay: the newer in its
place, and the other below it as a section of its own, whose comment names the first section by
`conflict`. So a merge mixes no two sections, loses no text, and writes no marks of git. The result
does not depend on the side. A note that cannot be merged so is refused.

Lines end at `\n` here. A note with other line ends keeps them if all its lines have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NoReturn

import msgspec
from msgspec.structs import replace

from memsyncd.core.editing.additions import quote_value
from memsyncd.core.editing.merge_parts import (
    Lines,
    choose,
    holds_only_values,
    merge_comment,
    merge_front,
    merge_lines,
    merge_text,
    read_comment,
    write_comment,
)
from memsyncd.core.editing.sections import (
    NoteText,
    make_heading_line,
    open_text,
    unify_line_ends,
)
from memsyncd.core.markdown.frontmatter import (
    find_front_matter,
    find_section_meta,
    is_memory_comment,
)
from memsyncd.core.markdown.scanner import HEADING, HTML, Block, split_blocks
from memsyncd.core.markdown.sections import RawSection, heading_text, split_sections
from memsyncd.core.memories import SECTION_LEVEL
from memsyncd.core.model import CONFLICT_KEY, EMPTY_META, ID_KEY, Meta, find_moment
from memsyncd.core.paths import is_markdown
from memsyncd.errors import EditRefused

TOP: Final = "#"
"""The name of the text before the first heading in the `conflict` of a section."""

_TOP_HEADING: Final = "The text before the first heading"


class MergedNote(msgspec.Struct, frozen=True, kw_only=True):
    """A merged note, and the anchors of the sections that this merge has marked as a conflict."""

    data: bytes
    conflicts: tuple[str, ...]


def merge_notes(
    path: str, base: bytes, ours: bytes, theirs: bytes, saved_s: tuple[int, int] = (0, 0)
) -> MergedNote:
    """Merge two versions of the note at `path`; `base` is empty if both versions created it. The
    result is the same if ours and theirs change places, with their times.

    `saved_s` is when ours and theirs were saved, in seconds since 1970. It decides which version
    is newer where the notes state no different times.

    Raises EditRefused if both versions have changed a note that cannot be merged.
    """
    whole = choose(base, ours, theirs)
    if whole is not None:
        return MergedNote(data=whole, conflicts=())
    sides = sorted(zip((ours, theirs), saved_s, strict=True))
    notes = [open_text(path, data) for data in (base, *(data for data, _ in sides))]
    line_end, texts = _unify(notes)
    mark = choose(*(note.mark for note in notes))
    if is_markdown(path):
        lines, conflicts = _merge_sections(path, texts, later_s=sides[0][1] - sides[1][1])
    else:
        merged = merge_lines(*(_split_lines(text) for text in texts))
        if merged is None:
            _refuse(path, "both versions have changed the same lines")
        lines, conflicts = merged, []
    text = line_end.join(lines)
    is_ended = choose(*(text.endswith("\n") or not text for text in texts))
    if lines and is_ended:
        text += line_end
    written = notes[1].to_bytes(text).removeprefix(notes[1].mark)
    return MergedNote(data=(mark or b"") + written, conflicts=tuple(conflicts))


def _refuse(path: str, why: str) -> NoReturn:
    hint = "keep one of its versions, or merge them in an editor"
    raise EditRefused(f"{path} cannot be merged: {why}", hint=hint)


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
    return choose(ends[0] if notes[0].text else ends[1], *ends[1:]) or ends[1], texts


def _split_lines(text: str) -> Lines:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return tuple(lines)


# --- The parts of a note --------------------------------------------------------------------------


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """A section: the lines of its heading, its comment and its text, and the blank lines after it.

    The first part of each note has no heading, and may be empty. `moment` is the time of its last
    change as it states it, in seconds since 1970; 0 if it states none. `mark` is the `conflict` of
    its comment.
    """

    slugs: str
    level: int
    name: str
    heading: Lines
    comment: Lines
    body: Lines
    gap: Lines
    is_last: bool
    created: str
    moment: int
    own_id: str
    mark: str

    @property
    def own(self) -> Lines:
        return self.heading + self.comment + self.body


class _Version(msgspec.Struct, frozen=True):
    """A version of a note: the lines of its front matter, its sections in order, and for each the
    number of its parent section, -1 for the first.
    """

    front: Lines
    moment: int
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
    front = find_front_matter(path, seen)
    n_front = front.n_lines
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
    moment = find_moment(front.meta.updated, front.meta.created, None, 0)
    return _Version(lines[:n_front], moment, parts, _find_parents([part.level for part in parts]))


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
    meta = EMPTY_META
    if blocks and blocks[0].kind == HTML and is_memory_comment(lines[blocks[0].start]):
        comment = "\n".join(lines[blocks[0].start : blocks[0].end]).rstrip()
        if comment.endswith("-->"):
            after = blocks[0].end
            meta = _read_meta(path, lines[text_start:after])
    extra = dict(meta.extra)
    return _Part(
        slugs=headed[0].anchor.rpartition("#")[2] if headed else "",
        level=headed[0].level if headed else 0,
        name=heading_text(lines, headed[1]) if headed else "",
        heading=lines[start:text_start],
        comment=lines[text_start:after],
        body=lines[after : max(after, last)],
        gap=lines[max(after, last) : end],
        is_last=end == len(lines),
        created=meta.created or "",
        moment=find_moment(meta.updated, meta.created, None, 0),
        own_id=extra.get(ID_KEY, "") if headed else "",
        mark=extra.get(CONFLICT_KEY, ""),
    )


# The versions of a note have most comments in common.
@lru_cache(maxsize=4096)
def _read_meta(path: str, comment: Lines) -> Meta:
    return find_section_meta(path, comment, 0, len(comment))[0]


# --- Matching sections ----------------------------------------------------------------------------

_MOMENT_CHARS: Final = len("2026-11-23T04:10:00Z")

_Key = Callable[[_Part], Hashable]
"""Returns a feature by which sections match; None for a section without this feature."""


def _by_id(part: _Part) -> Hashable:
    return part.own_id or None


def _by_whole(part: _Part) -> Hashable:
    return part.own


def _by_creation(part: _Part) -> Hashable:
    return (part.created, part.name, bool(part.mark)) if part.created else None


def _by_time(part: _Part) -> Hashable:
    # A day is not enough: two different sections may be created on the same day.
    return (part.created, bool(part.mark)) if len(part.created) >= _MOMENT_CHARS else None


def _by_text(part: _Part) -> Hashable:
    return (part.comment, part.body) if part.body else None


def _by_heading(part: _Part) -> Hashable:
    return part.level, part.name, part.created, bool(part.mark)


_SURE: Final = (_by_id, _by_whole, _by_creation, _by_time, _by_text)
# Several sections of a note may share one of the next features, and a section that has changed
# still has some of these features. So they match only sections between the same two matched
# sections.
_NEAR: Final = (_by_whole, _by_creation, _by_text, _by_heading)


def _match(old: Sequence[_Part], new: Sequence[_Part]) -> dict[int, int]:
    """Map the number of a section in the base to the number of the same section in a version."""
    matches = {0: 0}
    for key in _SURE:
        _match_alone(key, old, new, matches)
    for key in _NEAR:
        _match_near(key, old, new, matches)
    _match_alone(_by_heading, old, new, matches)
    return matches


def _match_alone(
    key: _Key,
    old: Sequence[_Part],
    new: Sequence[_Part],
    matches: dict[int, int],
    left_out: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset()),
) -> None:
    """Match the sections that alone have a feature in both versions. `left_out` are the numbers of
    the sections in each version that are not matched.
    """
    taken = {*matches.values(), *left_out[1]}
    left = (at for at in range(len(old)) if at not in matches and at not in left_out[0])
    olds = _group(key, old, left)
    news = _group(key, new, (at for at in range(len(new)) if at not in taken))
    for value, places in olds.items():
        _pair(old, new, places, news.get(value, []), matches, most=1)


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
    """True unless two sections state different ids or different times of creation, or one of them
    is the other text of a conflict.
    """
    stated = ((part.own_id, other.own_id), (part.created, other.created))
    is_same = all(not (left and right) or left == right for left, right in stated)
    return is_same and bool(part.mark) == bool(other.mark)


class _Entry(msgspec.Struct, frozen=True):
    """A section of the merge: its numbers in base, ours and theirs; None where it is missing."""

    base: int | None
    ours: int | None
    theirs: int | None


class _Notes(msgspec.Struct, frozen=True):
    """The three versions of a note. `later_s` is how much later ours was saved than theirs; 0 if
    this is unknown.
    """

    base: _Version
    ours: _Version
    theirs: _Version
    later_s: int

    def pick(self, entry: _Entry) -> tuple[_Part | None, _Part | None, _Part | None]:
        return (
            None if entry.base is None else self.base.parts[entry.base],
            None if entry.ours is None else self.ours.parts[entry.ours],
            None if entry.theirs is None else self.theirs.parts[entry.theirs],
        )


def _find_entries(notes: _Notes) -> tuple[dict[int, _Entry], dict[int, _Entry]]:
    """Return the entries of ours and the entries of theirs, by the number of the section."""
    base, ours, theirs = notes.base.parts, notes.ours.parts, notes.theirs.parts
    to_ours, to_theirs = _match(base, ours), _match(base, theirs)
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
    """Match sections that both versions have added: by their id, or their time and heading,
    anywhere; by other features beneath the same section. Two memories may have one time alone.
    """
    ours, theirs = notes.ours.parts, notes.theirs.parts
    beneath = _group_added(notes.ours, to_ours), _group_added(notes.theirs, to_theirs)
    parents = [(to_ours[at], to_theirs[at]) for at in to_ours if at in to_theirs]
    matches = dict(parents)
    old = frozenset(to_ours.values()), frozenset(to_theirs.values())
    # Versions without a common one share most of their sections.
    has_base = any(part.own for part in notes.base.parts)
    for key in (_by_id, _by_creation, *(() if has_base else (_by_whole,))):
        _match_alone(key, ours, theirs, matches, left_out=old)
    parents = [*matches.items()]
    for parent, other_parent in parents:
        left, right = beneath[0].get(parent, []), beneath[1].get(other_parent, [])
        for key in (_by_whole, _by_creation, _by_field, _by_title, _by_own_text):
            taken = set(matches.values())
            mine = _group(key, ours, (at for at in left if at not in matches))
            other = _group(key, theirs, (at for at in right if at not in taken))
            for value, places in mine.items():
                pairs = zip(places, other.get(value, []), strict=False)
                same = [pair for pair in pairs if _may_be_same(ours[pair[0]], theirs[pair[1]])]
                matches.update(same)
                parents += same  # the loop goes on with the sections beneath them
    return {at: to for at, to in matches.items() if at not in old[0]}


def _group_added(version: _Version, of_base: Mapping[int, int]) -> dict[int, list[int]]:
    """The sections that a version has added, by the number of their parent section."""
    old = set(of_base.values())
    groups: dict[int, list[int]] = {}
    for at, parent in enumerate(version.parents):
        if at not in old:
            groups.setdefault(parent, []).append(at)
    return groups


def _by_field(part: _Part) -> Hashable:
    """Match fields by their name. A field is a section that holds dated values and nothing else."""
    return (part.level, part.name) if holds_only_values(part.body) else None


def _by_title(part: _Part) -> Hashable:
    return part.name if part.level == 1 else None


def _by_own_text(part: _Part) -> Hashable:
    return (part.level, part.name, part.body) if not part.created else None


# --- The order of sections ------------------------------------------------------------------------


def _order(notes: _Notes, ours: Mapping[int, _Entry], theirs: Mapping[int, _Entry]) -> list[_Entry]:
    """Return all sections in order. The order is the order of the only version that has moved
    sections, else of the version with more sections. A section that only one version has keeps its
    place in that version: it comes after the same common section.
    """
    orders = [
        [
            entry
            for at in sorted(side)
            if (entry := side[at]).ours is not None and entry.theirs is not None
        ]
        for side in (ours, theirs)
    ]
    bases = [[entry.base for entry in order if entry.base is not None] for order in orders]
    in_base = sorted(bases[0])
    moved = [order != in_base for order in bases]
    is_theirs = len(theirs) > len(ours) if moved[0] == moved[1] else moved[1]
    common = orders[is_theirs]
    runs = _find_runs(notes.ours, ours), _find_runs(notes.theirs, theirs)
    ordered: list[_Entry] = []
    for entry in common:
        ordered.append(entry)
        ordered += _merge_runs(*(run.get(entry, []) for run in runs))
    return ordered


class _Unit(msgspec.Struct, frozen=True):
    """A section that only one version has, with the sections beneath it."""

    level: int
    entries: list[_Entry]
    order: tuple[int, Lines]
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
            created = find_moment(part.created, None, None, 0)
            units.append(_Unit(part.level, [entry], (created, part.own)))
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


class _Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A text that is written below the section with which it is in conflict. `stated` is None for a
    comment that cannot be read; it stays as a part of the text.
    """

    heading: Lines
    stated: Mapping[str, Lines] | None
    body: Lines

    def write(self, mark: str) -> Lines:
        pairs = {key: lines for key, lines in (self.stated or {}).items() if key != ID_KEY}
        marked = {**pairs, CONFLICT_KEY: (f"{CONFLICT_KEY}: {quote_value(mark)}",)}
        return self.heading + write_comment(marked) + self.body


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """A section of the merge. `copy` is the other text of a conflict; its comment has no mark."""

    entry: _Entry | None
    own: Lines
    gap: Lines
    level: int
    copy: _Copy | None = None


_Sections = list[_Written]


def _merge_sections(path: str, texts: Sequence[str], *, later_s: int) -> tuple[Lines, list[str]]:
    """Merge base, ours and theirs. Returns the lines, and the anchors of the sections that are
    marked as a conflict.
    """
    base, ours, theirs = (_split(path, _split_lines(text)) for text in texts)
    notes = _Notes(base, ours, theirs, later_s)
    front = merge_front(
        notes.base.front,
        notes.ours.front,
        notes.theirs.front,
        newer=notes.ours.moment - notes.theirs.moment or later_s,
    )
    if front is None:
        _refuse(path, "both versions have changed front matter that cannot be read")
    entries = _find_entries(notes)
    kept = _find_kept(notes, *entries)
    merged = (
        _merge_entry(notes, entry, is_kept=entry in kept) for entry in _order(notes, *entries)
    )
    written = [section for section in merged if section is not None]
    copied = _insert_copies(path, front, _place_under_parents(notes, entries, written))
    lines = _join(front, [section for section, _ in copied])
    parsed = _split(path, lines)
    # An open fence or comment would swallow the sections after it.
    is_same = [section.own for section in parsed.parts] == [section.own for section, _ in copied]
    if parsed.front != front or not is_same:
        _refuse(path, "sections of both versions would run into each other")
    parts = zip(copied, parsed.parts, strict=True)
    return lines, [f"{path}#{part.slugs}" for (_, is_copy), part in parts if is_copy]


def _insert_copies(
    path: str, front: Lines, written: Sequence[_Written]
) -> list[tuple[_Written, bool]]:
    """Insert the other text of each conflict below its section and the sections beneath that.
    Returns each section, with True if it is such a text. A text that a former merge has inserted is
    not inserted again.
    """
    sections = [(section, -1) for section in written]
    maybe_marked = (
        section.own for section in written if any(CONFLICT_KEY in line for line in section.own)
    )
    parts = [_split(path, own).parts[-1] for own in maybe_marked]
    former = {(part.heading, part.body) for part in parts if part.mark}
    for at in reversed(range(len(written))):
        copy = written[at].copy
        if copy is None or (copy.heading, copy.body) in former:
            continue
        level = max(written[at].level, SECTION_LEVEL)
        after = _find_end(written, at) if written[at].level else len(sections)
        gap = sections[after - 1][0].gap or ("",)
        sections[after - 1] = (replace(sections[after - 1][0], gap=gap), sections[after - 1][1])
        own = copy.write(TOP)
        sections.insert(after, (_Written(entry=None, own=own, gap=gap, level=level), at))
    slugs = _split(path, _join(front, [section for section, _ in sections])).parts
    if len(slugs) != len(sections):
        return [(section, of >= 0) for section, of in sections]
    names = [part.slugs for part, (_, of) in zip(slugs, sections, strict=True) if of < 0]
    marked: list[tuple[_Written, bool]] = []
    for section, of in sections:
        copy = written[of].copy if of >= 0 else None
        own = section.own if copy is None else copy.write(names[of] or TOP)
        marked.append((replace(section, own=own), copy is not None))
    return marked


def _find_end(written: Sequence[_Written], at: int) -> int:
    """The place after a section and the sections beneath it."""
    end = at + 1
    while end < len(written) and written[end].level > written[at].level:
        end += 1
    return end


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


def _merge_entry(notes: _Notes, entry: _Entry, *, is_kept: bool) -> _Written | None:
    """Merge a section; None if it is deleted."""
    base, ours, theirs = notes.pick(entry)
    if ours is not None and theirs is not None:
        gap = _merge_gap(base, ours, theirs)
        return _merge_part(base, ours, theirs, entry, gap, later_s=notes.later_s)
    part = ours or theirs
    if part is None or (base is not None and not is_kept):
        return None
    gap = ("",) if part.is_last and not part.gap else part.gap
    return _Written(entry=entry, own=part.own, gap=gap, level=part.level)


def _merge_gap(base: _Part | None, ours: _Part, theirs: _Part) -> Lines:
    """The blank lines between a section and the next one."""
    if ours.is_last or theirs.is_last:
        part = theirs if ours.is_last else ours
        return part.gap if not part.is_last else part.gap or ("",)
    longest = max(ours.gap, theirs.gap, key=len)
    if base is None or base.is_last:
        return longest
    chosen = choose(base.gap, ours.gap, theirs.gap)
    return longest if chosen is None else chosen


def _place_under_parents(
    notes: _Notes, entries: tuple[Mapping[int, _Entry], Mapping[int, _Entry]], written: _Sections
) -> _Sections:
    """Move each section whose parent it has in no version beneath a parent that it has in one."""
    tried: set[_Entry | None] = set()
    while True:
        parents = _find_parents([section.level for section in written])
        for at, section in enumerate(written):
            wanted = _find_wanted_parents(notes, entries, section.entry)
            if section.entry in tried or parents[at] < 0 or written[parents[at]].entry in wanted:
                continue
            tried.add(section.entry)
            end = _find_end(written, at)
            others = [*written[:at], *written[end:]]
            place = _find_place(others, section.level, wanted)
            if place is not None:
                written = [*others[:place], *written[at:end], *others[place:]]
                break
        else:
            return written


def _find_wanted_parents(
    notes: _Notes,
    entries: tuple[Mapping[int, _Entry], Mapping[int, _Entry]],
    entry: _Entry | None,
) -> set[_Entry | None]:
    """The parents of a section in both versions."""
    if entry is None:
        return set()
    places = ((notes.ours, entries[0], entry.ours), (notes.theirs, entries[1], entry.theirs))
    return {side.get(version.parents[at]) for version, side, at in places if at is not None}


def _find_place(written: _Sections, level: int, wanted: set[_Entry | None]) -> int | None:
    """The place for a section of this level beneath one of these parents: after the sections that
    follow the parent's own text and are not above this level. None without such a parent.
    """
    for at, parent in enumerate(written):
        if parent.entry in wanted and parent.level < level:
            place = at + 1
            while place < len(written) and written[place].level >= level:
                place += 1
            return place
    return None


def _join(front: Lines, written: Sequence[_Written]) -> Lines:
    lines = list(front)
    for section in written:
        lines += section.own + section.gap
    while lines and written and not lines[-1].strip():
        lines.pop()
    return tuple(lines)


def _merge_part(
    base: _Part | None, ours: _Part, theirs: _Part, entry: _Entry, gap: Lines, *, later_s: int
) -> _Written:
    """Merge a section that both versions have."""
    own = choose(() if base is None else base.own, ours.own, theirs.own)
    if own is not None:
        level = theirs.level if own == theirs.own else ours.level
        return _Written(entry=entry, own=own, gap=gap, level=level)
    old_comment, old_body = (base.comment, base.body) if base else ((), ())
    old_heading = base.heading if base else ours.heading
    heading = choose(old_heading, ours.heading, theirs.heading)
    body = merge_text(old_body, ours.body, theirs.body)
    newer = ours.moment - theirs.moment or later_s
    comment = merge_comment(old_comment, ours.comment, theirs.comment, newer=newer)
    merged: dict[str, Any] = {}
    if heading is not None:
        changed = theirs if heading == theirs.heading else ours
        merged |= {"heading": heading, "level": changed.level, "name": changed.name}
    if comment is not None:
        merged["comment"] = comment
    if body is not None:
        merged["body"] = body
    # The newer text keeps the place; without times, an order that does not depend on the side.
    by_text = sorted((ours, theirs), key=lambda part: (part.body, part.heading))
    sides = ((theirs, ours) if newer > 0 else (ours, theirs)) if newer else by_text
    second, first = (replace(part, **merged) for part in sides)
    is_whole = heading is not None and comment is not None and body is not None
    copy = None if is_whole else _make_copy(first.level, second)
    return _Written(entry=entry, own=first.own, gap=gap, level=first.level, copy=copy)


def _make_copy(level: int, part: _Part) -> _Copy:
    """Make the other text of a conflict. The other text of a title is below it, because later
    sections of the note must stay below the title.
    """
    heading = part.heading
    if level != part.level or level < SECTION_LEVEL:
        heading = (make_heading_line(max(level, SECTION_LEVEL), part.name or _TOP_HEADING),)
    stated = read_comment(part.comment)
    body = part.body if stated is not None else part.comment + part.body
    return _Copy(heading=heading, stated=stated, body=body)
