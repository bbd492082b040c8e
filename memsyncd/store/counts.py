"""Keep in index.db how many sections and notes have each value of their metadata, and read this.

A row of `counts` has four numbers for a value of a field: `n` sections and `n_notes` notes without
archived and expired sections, and `n_all` and `n_notes_all` with them. A commit adds the numbers of
the notes that it writes, and subtracts the numbers that they had. Which sections have expired
depends on the time: `n` and `n_notes` hold for the moment `counted` in `meta`, which a commit moves
to its own time. This moment is kept with its local time, because the zone may change. A question at
another time corrects them by the notes with a section that has expired in between.

A folder has the bytes of the notes beneath it as `n`, and their number as `n_all`. The sections of
the project and the open sections of tasks, if they have a text, are fields of their own. The times
of tasks and sessions are in the same rows (`store/groups`).
"""

from __future__ import annotations

import itertools
import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

import apsw
import msgspec

from memsyncd.core.model import ARCHIVED
from memsyncd.core.paths import is_markdown
from memsyncd.core.search.filters import fold_value, split_list
from memsyncd.core.search.tasks import BLOCKED, CLOSED, FINISHED, PROJECT, RECORDS
from memsyncd.store.groups import GROUPED, GroupChanges
from memsyncd.store.pool import Reader

COLUMNS = ("kind", "task", "session", "source", "priority", "lifecycle", "status")
"""The columns of sections that are fields by themselves."""
TOTAL, BYTES, TOPICS = "total", "bytes", "topics"
OF_PROJECT, KIND_OF_PROJECT, TAG_OF_PROJECT = "project", "kind of project", "tag of project"
WORK = "open work"
FOLDER = "folder"
META = "meta"
NO_KIND = "none"
NO_VALUE = "\0"
"""Stands for sections without a value. No text of a note has this sign."""
# The sizes of groups, in powers of 4 from 1,024 bytes: `0-1 KiB`, `1-4 KiB`.
SIZES = tuple((most * 1024, f"{most // 4}-{most} KiB") for most in (1, 4, 16, 64, 256))
LARGEST = "over 256 KiB"
_SIZE_LIMITS = [most for most, _ in SIZES]
_GROUPS_OF_SIZES = [*(name for _, name in SIZES), LARGEST]
_FEW_VALUES = frozenset(
    (
        TOTAL,
        BYTES,
        TOPICS,
        "kind",
        "priority",
        "lifecycle",
        "status",
        "month",
        "size",
        "link",
        "dangling",
        OF_PROJECT,
        KIND_OF_PROJECT,
        WORK,
        FOLDER,
        "ambiguous",
    )
)
# The spellings of a value whose case does not count. The spelling without capitals has no row.
_SPELLING = "spelling:"
_WORK_OF_TAG = "work of tag:"

Key = tuple[str, str]
ValueNumbers = tuple[int, int, int, int]
Sums = dict[Key, ValueNumbers]
Execute = Callable[[str, tuple[Any, ...]], Iterable[tuple[Any, ...]]]

SECTION_FACTS = (
    f"{', '.join(f's.{name}' for name in COLUMNS)}, s.day, s.expires, s.extra, s.is_empty,"
    " iif(s.task IS NULL AND s.session IS NULL, NULL, s.at),"
    " (SELECT group_concat(tag, char(31) ORDER BY tag) FROM tags WHERE section = s.id)"
)
COUNTED_OF_NOTE = ("path", "size", "mtime_ns", "day", "extra")
"""The columns of files by which a note is counted."""
_NOTE = f"SELECT {', '.join(COUNTED_OF_NOTE)} FROM files WHERE id = ?"
_SECTIONS = f"SELECT {SECTION_FACTS} FROM sections s WHERE s.file = ?"
_EXPIRING = "SELECT DISTINCT file FROM sections WHERE expires > ? AND expires <= ?"
_COUNTED = "SELECT value FROM meta WHERE key = 'counted'"
_PUT_COUNTED = "INSERT OR REPLACE INTO meta(key, value) VALUES('counted', ?)"
_ADD = (
    "INSERT INTO counts(field, value, n, n_notes, n_all, n_notes_all, is_many)"
    " VALUES(?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT(field, value) DO UPDATE SET n = n + excluded.n,"
    " n_notes = n_notes + excluded.n_notes, n_all = n_all + excluded.n_all,"
    " n_notes_all = n_notes_all + excluded.n_notes_all"
)
_FIRST = "SELECT first FROM counts WHERE field = 'kind' AND value = ?"
_PUT_FIRST = "UPDATE counts SET first = ? WHERE field = 'kind' AND value = ?"
_FIND_FIRST = (
    "UPDATE counts SET first = (SELECT min(f.path) FROM sections s JOIN files f ON f.id = s.file"
    " WHERE s.kind = ?1) WHERE field = 'kind' AND value = ?1"
)
_HAS_VISIBLE = (
    "SELECT EXISTS(SELECT 1 FROM sections WHERE file = ? AND status IS NOT 'archived'"
    " AND (expires IS NULL OR expires > iif(expires LIKE '%Z', ?, ?)))"
)
_DROP_EMPTY = "DELETE FROM counts WHERE field = ? AND value = ? AND n_all = 0"

_PLAIN = re.compile(r'^[^"\\]+$')

_decode = msgspec.json.Decoder(dict[str, str]).decode


def _encode(values: Sequence[str]) -> str:
    return msgspec.json.encode(values).decode()


SectionRow = tuple[Any, ...]
"""The values of `SectionFacts`."""


class SectionFacts(NamedTuple):
    """The values by which a section is counted, in the order of `SECTION_FACTS`. `extra` is JSON,
    `tags` are sorted and have a separator between them. `at` is None without a task or session.
    """

    kind: str | None
    task: str | None
    session: str | None
    source: str | None
    priority: str | None
    lifecycle: str | None
    status: str | None
    day: str | None
    expires: str | None
    extra: str | None
    is_empty: int | None
    at: str | None
    tags: str | None

    @property
    def groups(self) -> Iterator[Key]:
        """The task and the session, if it has a text."""
        if self.at is not None and not self.is_empty:
            if self.task:
                yield "task", self.task
            if self.session:
                yield "session", self.session


class NoteFacts(NamedTuple):
    """The values by which a note is counted, besides its path and its exact size. Notes with equal
    facts are counted together, and a change that leaves the facts of a note as they are changes no
    count.
    """

    is_topic: bool
    month: str
    """The month in which the note was saved."""
    size: str
    """The name of its group in `SIZES`."""
    day: str | None
    extra: str | None
    sections: frozenset[tuple[SectionFacts, int]]
    """Its sections, each with the number of sections that are alike."""

    @classmethod
    def make(cls, columns: tuple[Any, ...], sections: Iterable[SectionRow]) -> NoteFacts:
        """`columns` are `COUNTED_OF_NOTE`."""
        path, size, mtime_ns, day, extra = columns
        # Most sections of a note are alike.
        alike = frozenset((SectionFacts._make(row), n) for row, n in Counter(sections).items())
        month, group = find_day(mtime_ns)[: len("2026-03")], find_size(size)
        return cls(is_markdown(path), month, group, day, extra, alike)

    @property
    def kinds(self) -> set[str]:
        return {section.kind for section, _ in self.sections if section.kind}


class Moment(NamedTuple):
    """A time, as texts that are compared with expiries: in UTC and in local time."""

    utc: str
    local: str

    @classmethod
    def at(cls, now_s: float) -> Moment:
        utc = datetime.fromtimestamp(now_s, UTC).replace(tzinfo=None)
        local = datetime.fromtimestamp(now_s)  # noqa: DTZ006  days and times of people
        return cls(f"{utc.isoformat(timespec='seconds')}Z", local.isoformat(timespec="seconds"))

    @classmethod
    def read(cls, counted: str | None) -> Moment:
        """Return the moment that `meta` has, or the earliest without one."""
        return cls(*counted.split()) if counted else cls.at(0.0)

    def render(self) -> str:
        return " ".join(self)

    def has_expired(self, expires: str | None) -> bool:
        return expires is not None and expires <= (self.utc if expires[-1:] == "Z" else self.local)


# --- notes that are alike -----------------------------------------------------------------------


def count_alike(facts: NoteFacts, moment: Moment, *, n: int, n_bytes: int) -> Sums:
    """Return the numbers that `n` notes with these facts, with `n_bytes` together, add."""
    hidden = {
        section
        for section, _ in facts.sections
        if section.status == ARCHIVED or moment.has_expired(section.expires)
    }
    sums: Sums = {}
    if facts.sections:
        is_any_visible = len(hidden) < len(facts.sections)
        sums[BYTES, ""] = (n_bytes if is_any_visible else 0, 0, n_bytes, 0)
    if n == 0:
        return sums
    every: Counter[Key] = Counter()
    hiding: Counter[Key] = Counter()
    for section, n_alike in facts.sections:
        keys = _list_keys(section, facts.month, facts.size, facts.day, facts.extra)
        _count_keys(every, keys, n_alike)
        if section in hidden:
            _count_keys(hiding, keys, n_alike)
    for key, n_alike in every.items():
        n_visible = n_alike - hiding[key] if hiding else n_alike
        sums[key] = (n * n_visible, n if n_visible else 0, n * n_alike, n)
    if facts.is_topic:
        # A topic may be empty, and stays if its sections have expired.
        is_whole = not facts.sections or any(
            section.status != ARCHIVED for section, _ in facts.sections
        )
        sums[TOPICS, ""] = (n * is_whole, 0, n, 0)
    return sums


def _find_keys(
    wanted: set[Key],
    sections: Sequence[SectionFacts],
    month: str,
    size: str,
    day: str | None,
    extra: str | None,
) -> set[Key]:
    """Return the wanted keys by which any of the sections counts, as `_list_keys` lists them. Not
    all keys of each section are listed: most sections of a note have few values in common columns,
    and free metadata of their own.
    """
    found: set[Key] = set()
    for at, column in enumerate(COLUMNS):
        if values := {value for field, value in wanted if field == column}:
            present = {section[at] or NO_VALUE for section in sections}
            found.update((column, value) for value in values & present)
    left = {key for key in wanted if key[0] not in COLUMNS}
    of_meta = {key for key in left if key[0].removeprefix(_SPELLING).startswith(META)}
    if left != of_meta:
        shapes = {
            section._replace(
                task=section.task and "x", session=None, source=None, expires=None, at=None,
                day=section.day and section.day[:7], extra=None,
            )
            for section in sections
        }  # fmt: skip
        for shape in shapes:
            found |= left & {*_list_keys(shape, month, size, day, None)}
    extras = {section.extra for section in sections}
    for own in _find_extras(of_meta, extra, extras) if of_meta else ():
        found |= of_meta & {*_list_meta_keys(extra, own)}
    return found


def _find_extras(
    keys: Iterable[Key], of_note: str | None, extras: Iterable[str | None]
) -> Iterator[str | None]:
    """Yield the free metadata of sections that may have any of these keys."""
    words = {value.partition("\x1f")[0] for _, value in keys}
    # A word of plain letters stands in the JSON as it is.
    if not all(word.isascii() and word.isprintable() and _PLAIN.search(word) for word in words):
        yield from extras
        return
    folded = fold_value(of_note or "")
    if any(word in folded for word in words):
        yield from extras
        return
    for own in extras:
        if own:
            folded = fold_value(own)
            if any(word in folded for word in words):
                yield own


def _count_keys(counts: Counter[Key], keys: tuple[Key, ...], n: int) -> None:
    if n == 1:
        counts.update(keys)  # in C
    else:
        counts.update(dict.fromkeys(keys, n))


@lru_cache(maxsize=256)
def _list_keys(
    section: SectionFacts, month: str, size: str, day: str | None, extra: str | None
) -> tuple[Key, ...]:
    """Return the keys by which a section counts; all but `section` are facts of its note."""
    values: tuple[Any, ...] = section[: len(COLUMNS)]
    columns = zip(COLUMNS, (value or NO_VALUE for value in values), strict=True)
    own_day = section.day or day
    return (
        (TOTAL, ""),
        *columns,
        ("month", own_day[:7] if own_day else month),
        ("size", size),
        *_list_tag_keys(section.tags),
        *_list_work_keys(section),
        *(_list_meta_keys(extra, section.extra) if extra or section.extra else ()),
    )


def _list_work_keys(section: SectionFacts) -> Iterator[Key]:
    if section.is_empty:
        return
    status = fold_ascii(section.status or "")
    if section.tags:
        is_open, is_waiting = status not in CLOSED, not section.task
        value = f"{section.priority or ''} {is_open:d} {is_waiting:d}"
        for field, tag in _list_tag_keys(section.tags):
            if field == "tag":
                yield f"{_WORK_OF_TAG}{tag}", value
    if status in FINISHED:
        return
    if section.lifecycle == PROJECT:
        yield OF_PROJECT, ""
        yield KIND_OF_PROJECT, section.kind or NO_KIND
        for tag in section.tags.split("\x1f") if section.tags else ():
            yield TAG_OF_PROJECT, tag
    if section.task is not None and section.kind not in RECORDS:
        yield WORK, BLOCKED if status == BLOCKED else ""


@lru_cache(maxsize=16)
def find_day(mtime_ns: int) -> str:
    """Return the local day of a time: `2026-03-31`."""
    try:
        return time.strftime("%Y-%m-%d", time.localtime(mtime_ns // 1_000_000_000))
    except (OverflowError, OSError, ValueError):
        return NO_VALUE


def find_size(size: int) -> str:
    return _GROUPS_OF_SIZES[bisect_right(_SIZE_LIMITS, size)]


@lru_cache(maxsize=256)
def _list_tag_keys(tags: str | None) -> tuple[Key, ...]:
    """A tag counts for the tags in which it is nested, as in the filter."""
    keys: dict[Key, None] = {}
    for tag in tags.split("\x1f") if tags else ():
        outer = tag
        while outer:
            keys.update(_spell("tag", fold_ascii(outer), outer))
            outer = outer.rpartition("/")[0].rstrip("/") if "/" in outer[1:] else ""
    return tuple(keys) or (("tag", NO_VALUE),)


@lru_cache(maxsize=256)
def _list_meta_keys(of_note: str | None, own: str | None) -> tuple[Key, ...]:
    pairs = _decode(of_note) if of_note else {}
    if own:
        pairs = {**pairs, **_decode(own)}
    keys: dict[Key, None] = {}
    for key, value in pairs.items():
        if value:
            keys.update(_spell(META, fold_value(key), key))
            for word in split_list(value):
                keys.update(_spell(name_meta_field(key), fold_value(word), word))
    return tuple(keys)


def _spell(field: str, folded: str, text: str) -> dict[Key, None]:
    keys: dict[Key, None] = {(field, folded): None}
    if text != folded:
        keys[f"{_SPELLING}{field}", f"{folded}\x1f{text}"] = None
    return keys


def _is_many(field: str, value: str) -> bool:
    """Whether this is one of perhaps many values, of which the commonest are listed."""
    is_few = field in _FEW_VALUES or field.startswith((_SPELLING, _WORK_OF_TAG))
    return not is_few and value != NO_VALUE


def name_meta_field(key: str) -> str:
    """Return the field that counts the values of a key of free metadata."""
    return f"{META}:{fold_value(key)}"


def fold_ascii(text: str) -> str:
    """As SQLite's NOCASE."""
    return (
        text.lower()
        if text.isascii()
        else "".join(char.lower() if char.isascii() else char for char in text)
    )


def read_note_counts(execute: Execute, file_id: int, moments: Sequence[Moment]) -> list[Sums]:
    """Return the numbers of a note as indexed, at each of the moments."""
    columns, facts = _read_facts(execute, file_id)
    return [count_alike(facts, moment, n=1, n_bytes=columns[1]) for moment in moments]


def _read_facts(execute: Execute, file_id: int) -> tuple[tuple[Any, ...], NoteFacts]:
    [columns] = execute(_NOTE, (file_id,))
    sections = map(SectionFacts._make, execute(_SECTIONS, (file_id,)))
    return columns, NoteFacts.make(columns, sections)


# --- commits ------------------------------------------------------------------------------------


class _AlikeNotes(msgspec.Struct):
    """The changes of notes with equal facts: the paths that no longer have these facts, and the
    paths that have them now.
    """

    n: int = 0
    n_bytes: int = 0
    lost: set[str] = msgspec.field(default_factory=set)
    gained: set[str] = msgspec.field(default_factory=set)


class CountChanges:
    """Collects the changes of counts of a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._sums: dict[Key, list[int]] = {}
        self._alike: dict[NoteFacts, _AlikeNotes] = {}
        self._folders: dict[str, tuple[int, int]] = {}
        """The bytes and the number of notes that each folder has gained right in it."""
        self._paths: dict[str, tuple[set[str], set[str]]] = {}
        """The paths of the notes that a kind has lost and gained."""
        self._times = GroupChanges(connection)
        self.moment = Moment.read(connection.execute(_COUNTED).get)

    def advance(self, now_s: float) -> None:
        """Let all counts hold for a later time. Call it before notes change."""
        before, now = self.moment, Moment.at(now_s)
        if now == before or now.utc < before.utc:
            return
        self.moment = now
        for file_id in _find_expiring(self._connection.execute, before, self.moment):
            moments = before, self.moment
            old, new = read_note_counts(self._connection.execute, file_id, moments)
            self._add(new, 1)
            self._add(old, -1)
            self._times.changed.update(key for key in old if key[0] in GROUPED)

    def add(self, columns: tuple[Any, ...], sections: Iterable[SectionRow]) -> None:
        """Add the numbers of a note; `columns` are `COUNTED_OF_NOTE`."""
        self._gain(columns, NoteFacts.make(columns, sections))

    def subtract(self, columns: tuple[Any, ...], sections: Iterable[SectionRow]) -> None:
        """Subtract the numbers that a note had."""
        self._lose(columns, NoteFacts.make(columns, sections))

    def add_stored(self, file_id: int) -> None:
        """Add the numbers of a note as it is in the database."""
        self._gain(*_read_facts(self._connection.execute, file_id))

    def subtract_stored(self, file_id: int) -> None:
        """Subtract the numbers of a note that is about to change."""
        self._lose(*_read_facts(self._connection.execute, file_id))

    def change_sections(
        self,
        columns: tuple[Any, ...],
        n_bytes_before: int,
        old: Iterable[SectionRow],
        new: Iterable[SectionRow],
        others: Iterable[SectionRow],
    ) -> None:
        """Count sections of a note as `new` that were counted as `old`, beside its other sections,
        of which equal rows may be given once. `columns` are `COUNTED_OF_NOTE`; only the size may
        differ from before, within its group.
        """
        path, size, mtime_ns, day, extra = columns
        of_note = find_day(mtime_ns)[: len("2026-03")], find_size(size), day, extra
        before, after, beside = ([*map(SectionFacts._make, rows)] for rows in (old, new, others))
        visible = [
            [section for section in sections if not self._is_hidden(section)]
            for sections in (before, after, beside)
        ]
        every, shown = (
            [
                Counter(key for section in part for key in _list_keys(section, *of_note))
                for part in parts
            ]
            for parts in ((before, after), visible[:2])
        )
        differing = every[0].keys() ^ every[1].keys()
        differing_shown = shown[0].keys() ^ shown[1].keys()
        beside_shown = _find_keys(differing | differing_shown, visible[2], *of_note)
        hidden = [section for section in beside if self._is_hidden(section)]
        beside_all = beside_shown | _find_keys(differing - beside_shown, hidden, *of_note)

        sums: Sums = {}
        for key in {*every[0], *every[1]}:
            n_notes = (key in shown[1]) - (key in shown[0]) if key not in beside_shown else 0
            n_notes_all = (key in every[1]) - (key in every[0]) if key not in beside_all else 0
            n, n_all = (counts[1][key] - counts[0][key] for counts in (shown, every))
            sums[key] = n, n_notes, n_all, n_notes_all
        were_any, are_any = bool(before or beside), bool(after or beside)
        was_shown, is_shown = (bool(part or visible[2]) for part in visible[:2])
        n_shown = size * is_shown - n_bytes_before * was_shown
        sums[BYTES, ""] = n_shown, 0, size * are_any - n_bytes_before * were_any, 0
        if is_markdown(path):
            was_whole, is_whole = (
                not (part or beside)
                or any(section.status != ARCHIVED for section in (*part, *beside))
                for part in (before, after)
            )
            sums[TOPICS, ""] = is_whole - was_whole, 0, 0, 0
        self._add(sums, 1)
        self._add_to_folder(path, size - n_bytes_before, 0)
        self._note_times(((section, 1) for section in before), -1)
        self._note_times(((section, 1) for section in after), 1)
        kinds, had, have = (
            {section.kind for section in part if section.kind} for part in (beside, before, after)
        )
        for kind in had - have - kinds:
            self._find_paths(kind)[0].add(path)
        for kind in have - had - kinds:
            self._find_paths(kind)[1].add(path)

    def add_bytes(self, file_id: int, path: str, n_bytes: int) -> None:
        """Count a note that has become longer, but is counted by nothing else than before."""
        self._add_to_folder(path, n_bytes, 0)
        is_visible = self._connection.execute(_HAS_VISIBLE, (file_id, *self.moment)).get
        self._add({(BYTES, ""): (n_bytes if is_visible else 0, 0, n_bytes, 0)}, 1)

    def write(self) -> None:
        for facts, alike in self._alike.items():
            if alike.n or alike.n_bytes:
                sums = count_alike(facts, self.moment, n=alike.n, n_bytes=alike.n_bytes)
                self._add(sums, 1)
                self._note_times(facts.sections, alike.n)
            if alike.lost != alike.gained:
                for kind in facts.kinds:
                    lost, gained = self._find_paths(kind)
                    lost |= alike.lost
                    gained |= alike.gained
        self._alike.clear()
        for folder, (n_bytes, n_notes) in self._folders.items():
            sums = {(FOLDER, each): (n_bytes, 0, n_notes, 0) for each in _list_folders(folder)}
            self._add(sums, 1)
        self._folders.clear()
        changed = [
            (field, value, *numbers, _is_many(field, value) or None)
            for (field, value), numbers in self._sums.items()
            if any(numbers)
        ]
        if changed:
            self._connection.executemany(_ADD, changed)
        if gone := [key for key, numbers in self._sums.items() if numbers[2] < 0]:
            self._connection.executemany(_DROP_EMPTY, gone)
        self._sums.clear()
        self._times.write(*self.moment)
        self._write_firsts(self._paths)
        self._paths.clear()
        self._connection.execute(_PUT_COUNTED, (self.moment.render(),))

    def _is_hidden(self, section: SectionFacts) -> bool:
        return section.status == ARCHIVED or self.moment.has_expired(section.expires)

    def _find_paths(self, kind: str) -> tuple[set[str], set[str]]:
        return self._paths.setdefault(kind, (set(), set()))

    def _note_times(self, sections: Iterable[tuple[SectionFacts, int]], n: int) -> None:
        for section, n_alike in sections:
            for group in section.groups:
                if not self.moment.has_expired(section.expires):
                    status, at = section.status or "", section.at or ""
                    self._times.add(group, at, section.kind, status, n=n * n_alike)

    def _write_firsts(self, paths: Mapping[str, tuple[set[str], set[str]]]) -> None:
        """Write the first note of each kind."""
        for kind, (lost, gained) in paths.items():
            if lost == gained:
                continue
            first = self._connection.execute(_FIRST, (kind,)).get
            if first is None or (first in lost and first not in gained):
                self._connection.execute(_FIND_FIRST, (kind,))
            elif gained and min(gained) < first:
                self._connection.execute(_PUT_FIRST, (min(gained), kind))

    def _find_alike(self, facts: NoteFacts) -> _AlikeNotes:
        return self._alike.setdefault(facts, _AlikeNotes())

    def _gain(self, columns: tuple[Any, ...], facts: NoteFacts) -> None:
        alike = self._find_alike(facts)
        alike.n += 1
        alike.n_bytes += columns[1]
        alike.gained.add(columns[0])
        self._add_to_folder(columns[0], columns[1], 1)

    def _lose(self, columns: tuple[Any, ...], facts: NoteFacts) -> None:
        alike = self._find_alike(facts)
        alike.n -= 1
        alike.n_bytes -= columns[1]
        alike.lost.add(columns[0])
        self._add_to_folder(columns[0], -columns[1], -1)

    def _add_to_folder(self, path: str, n_bytes: int, n_notes: int) -> None:
        folder = path.rpartition("/")[0]
        bytes_before, notes_before = self._folders.get(folder, (0, 0))
        self._folders[folder] = bytes_before + n_bytes, notes_before + n_notes

    def _add(self, sums: Mapping[Key, ValueNumbers], sign: int) -> None:
        for key, (n, n_notes, n_all, n_notes_all) in sums.items():
            numbers = self._sums.get(key)
            if numbers is None:
                numbers = self._sums[key] = [0, 0, 0, 0]
            numbers[0] += sign * n
            numbers[1] += sign * n_notes
            numbers[2] += sign * n_all
            numbers[3] += sign * n_notes_all


def _list_folders(folder: str) -> Iterator[str]:
    """Yield a folder, the folders above it, and the root, which is the empty path."""
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""


def _find_expiring(execute: Execute, one: Moment, other: Moment) -> Iterator[int]:
    for (file_id,) in [*execute(_EXPIRING, find_span(one, other))]:
        yield file_id


def find_span(one: Moment, other: Moment) -> tuple[str, str]:
    """Return two texts: each section that has expired at one of the moments only expires after the
    first and not after the second. Local time may go back while time goes on.
    """
    return min(*one, *other), max(*one, *other)


# --- questions ----------------------------------------------------------------------------------


def read_counted_moment(reader: Reader) -> Moment:
    """Return the moment for which the counts hold."""
    rows = reader.rows(_COUNTED)
    return Moment.read(rows[0][0] if rows else None)


MAX_KINDS = 1000
_PLACES = (
    "SELECT value, n_all, first FROM counts WHERE field = 'kind' AND first IS NOT NULL"
    f" ORDER BY value LIMIT {MAX_KINDS}"
)
_TOP = (
    "SELECT value, {n}, {notes} FROM counts WHERE field = ? AND {n} > 0 AND {those}"
    " ORDER BY {order} LIMIT ?"
)
_VALUES = "SELECT value FROM counts WHERE field = ?"
_ROW = "SELECT n, n_notes, n_all, n_notes_all FROM counts WHERE field = ? AND value = ?"
# The spellings of values, the commonest of each first, and how many sections have the value.
_SPELLINGS = (
    "SELECT v.value, c.value, c.n_all, (SELECT n_all FROM counts WHERE field = :field"
    " AND value = v.value) FROM json_each(:values) v CROSS JOIN counts c ON c.field = :spelling"
    " AND c.value > v.value || char(31) AND c.value < v.value || ' '"
    " ORDER BY v.key, c.n_all DESC, c.value"
)
_ORDERS = {"month": "value DESC"}


class KeptCounts:
    """The counts in one snapshot of an index, without the sections that are archived or have
    expired at `now_s`; of all sections without `now_s`.
    """

    def __init__(self, reader: Reader, now_s: float | None = None) -> None:
        self._reader = reader
        self._is_all = now_s is None
        self._changed: dict[Key, list[int]] = {}
        """The differences between the time of the counts and `now_s`."""
        if now_s is None:
            return
        moments = read_counted_moment(reader), Moment.at(now_s)
        if moments[0] == moments[1]:
            return
        for file_id in _find_expiring(reader.rows, *moments):
            then, now = read_note_counts(reader.rows, file_id, moments)
            for key, numbers in now.items():
                changed = self._changed.setdefault(key, [0, 0])
                for at in (0, 1):
                    changed[at] += numbers[at] - then[key][at]

    def read(self, field: str, value: str = "") -> tuple[int, int]:
        """Return the numbers of sections and notes of one value."""
        rows = self._reader.rows(_ROW, (field, value))
        n, n_notes, n_all, n_notes_all = rows[0] if rows else (0, 0, 0, 0)
        if self._is_all:
            return n_all, n_notes_all
        more, more_notes = self._changed.get((field, value), (0, 0))
        return n + more, n_notes + more_notes

    def list_work_of_tag(self, tag: str) -> Counter[tuple[str | None, int, int]]:
        """Count the sections with a text and this tag, or a tag nested in it, by their priority,
        whether they are open, and whether they have no task.
        """
        field = f"{_WORK_OF_TAG}{fold_ascii(tag)}"
        values = {value for (value,) in self._reader.rows(_VALUES, (field,))}
        values |= {value for name, value in self._changed if name == field}
        counts: Counter[tuple[str | None, int, int]] = Counter()
        for value in values:
            priority, is_open, is_waiting = value.split(" ")
            n_sections, _ = self.read(field, value)
            counts[priority or None, int(is_open), int(is_waiting)] = n_sections
        return counts

    def list(self, field: str, *, most: int) -> list[tuple[str | None, int, int]]:
        """Return the commonest values of a field with their numbers of sections and notes. Months
        and sizes keep their order.
        """
        corrected = [value for name, value in self._changed if name == field]
        those = "1"
        if field not in _FEW_VALUES:
            those = "is_many"
            corrected.append(NO_VALUE)  # no index has it
        n, notes = ("n_all", "n_notes_all") if self._is_all else ("n", "n_notes")
        order = _ORDERS.get(field, f"{n} DESC, value")
        limit = most + len(corrected)
        statement = _TOP.format(n=n, notes=notes, those=those, order=order)
        rows = self._reader.many_rows(3, statement, (field, limit))
        counts = {value: (n_sections, n_notes) for value, n_sections, n_notes in rows}
        counts |= {value: self.read(field, value) for value in corrected}
        present = [(value, *numbers) for value, numbers in counts.items() if numbers[0]]
        if field == "size":
            present.sort(key=lambda row: _GROUPS_OF_SIZES.index(row[0]))
        elif field == "month":
            present.sort(key=lambda row: row[0], reverse=True)
        else:
            present.sort(key=lambda row: (-row[1], row[0]))
        del present[most:]
        spelled = self._find_spellings(field, [value for value, *_ in present])
        return [
            (None if value == NO_VALUE else spelled.get(value, value), n_sections, n_notes)
            for value, n_sections, n_notes in present
        ]

    def _find_spellings(self, field: str, values: Sequence[str]) -> dict[str, str]:
        """Return the commonest spelling of values whose case does not count, if it is not the
        value itself.
        """
        if field != "tag" and not field.startswith(META):
            return {}
        bound = {"field": field, "spelling": f"{_SPELLING}{field}", "values": _encode([*values])}
        rows = self._reader.rows(_SPELLINGS, bound)
        spelled: dict[str, str] = {}
        for value, group in itertools.groupby(rows, itemgetter(0)):
            spellings = [row[1:] for row in group]
            [(first, n_first, n_all), *_] = spellings
            n_folded = n_all - sum(n for _, n, _ in spellings)
            if n_first > n_folded:
                spelled[value] = first[len(value) + 1 :]
        return spelled


_FOLDERS = (
    "SELECT c.value, c.n FROM json_each(?) v"
    f" CROSS JOIN counts c ON c.field = '{FOLDER}' AND c.value = v.value"
)


def measure_folders(reader: Reader, folders: Sequence[str]) -> dict[str, int]:
    """Return the bytes of all notes beneath each of these folders; the root is the empty path. A
    folder without a note is left out.
    """
    return dict(reader.many_rows(2, _FOLDERS, (_encode(folders),)))


MAX_AMBIGUOUS = 1000
"""So many ambiguous links are counted, and listed as problems."""
_AMBIGUOUS = "SELECT n FROM counts WHERE field = 'ambiguous' AND value = '*'"


def count_ambiguous(connection: apsw.Connection) -> int:
    """Count the links whose name several notes have, at most `MAX_AMBIGUOUS`."""
    n = connection.execute(_AMBIGUOUS).get
    return min(int(n or 0), MAX_AMBIGUOUS)


def list_kinds(connection: apsw.Connection) -> tuple[str, ...]:
    """Return the kinds that `find_places_of_kinds` returns."""
    return tuple(kind for kind, _, _ in connection.execute(_PLACES))


def find_places_of_kinds(reader: Reader) -> list[tuple[str, int, str]]:
    """Return each kind, the number of its sections, and the first note that has it; at most
    `MAX_KINDS` kinds.
    """
    return reader.rows(_PLACES)
