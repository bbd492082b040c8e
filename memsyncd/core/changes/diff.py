"""Compare a scan with the records: which notes to read again, and what has changed.

The rule is git's for racy entries. A note is not read again only if size, both times and inode
equal the record, *and* if the record was made so long after these times that a later change would
show. A path that a scan could not observe is named (`failed_folders`, `unreadable_files`) and is
never taken for deleted. `files` scans and reads, `store` keeps the records.

A sync calls `find_suspects`, reads `to_read`, and calls `track_missing` and `plan_changes`. It
scans `pending_deletes` again after the grace period. `plan_row_changes` then decides which rows of
a changed note stay, which move and which are written: by content, never by line number.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import Literal, NamedTuple

import msgspec

from memsyncd.core.model import Problem
from memsyncd.core.paths import MEMORY_FILE, MEMORY_FOLDER, is_note_name, is_rule_path

# --- The result of a scan -------------------------------------------------------------------------

RootState = Literal["present", "missing", "unreadable"]


class FileStat(NamedTuple):
    """The result of lstat for a note; for a followed link, of its target.

    It is a tuple, because a scan makes one for every file.
    """

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    def is_same_as(self, other: FileStat) -> bool:
        """True if no field that shows a change differs.

        Device numbers are ignored: they may differ after a reboot.
        """
        return self[:4] == other[:4]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one scan. Paths are relative to the root unless stated otherwise.

    The caller of a scan passes the stats that it knows. `files` has every note that was seen,
    except the `n_unchanged` notes with a known stat. `not_skipped` has the other notes whose stat
    the caller passed: they have changed, were not seen, or their stat is NEVER_SAME.

    `failed_folders` could not be listed. `unreadable_files` exist but cannot be read now (evicted
    to a cloud), and may be links to folders. The records of both, and of paths beneath them, stay.
    `link_folders` are the absolute folders of the targets of links, whether or not the targets
    exist. `away` are mount points without their disks. `only` names the paths to which the scan was
    restricted, each with everything beneath it; None means no restriction.
    """

    root_state: RootState
    root_identity: tuple[int, int] | None = None
    files: Mapping[str, FileStat]
    not_skipped: Collection[str] = ()
    n_unchanged: int = 0
    failed_folders: frozenset[str] = frozenset()
    unreadable_files: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    link_folders: frozenset[str] = frozenset()
    pruned_folders: frozenset[str] = frozenset()
    away: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    @property
    def has_notes(self) -> bool:
        """True if any note was seen."""
        return bool(self.files or self.n_unchanged)

    def is_in_scope(self, path: str) -> bool:
        """True if `path` was in the scope of this scan."""
        return self.only is None or is_within(path, self.only)

    def is_observed(self, path: str) -> bool:
        """True if this scan shows whether a note exists at `path`: the path was in scope, and no
        folder above it failed.
        """
        if self.root_state != "present" or not self.is_in_scope(path):
            return False
        # An unreadable file may be a link to a folder: its records lie beneath it.
        failures = (self.failed_folders, self.unreadable_files)
        return not any(failed and is_within(path, failed) for failed in failures)


def is_within(path: str, places: frozenset[str]) -> bool:
    """True if `path` is one of `places` or lies beneath one; an empty place is the root."""
    if path in places or "" in places:
        return True
    end = path.rfind("/")
    while end > 0:
        if path[:end] in places:
            return True
        end = path.rfind("/", 0, end)
    return False


# --- Changes of files -----------------------------------------------------------------------------

# The coarsest clock of a file system in use (FAT's 2 s).
GRAIN_NS = 2_000_000_000


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a note: its stat and digest at the time `read_at_ns`, when it was read (wall
    clock, ns since 1970).
    """

    stat: FileStat
    digest: str
    read_at_ns: int


class Suspects(msgspec.Struct, frozen=True, kw_only=True):
    """Sorted paths: notes in `to_read` may have changed; notes in `vanished` have a record and no
    longer exist.
    """

    to_read: tuple[str, ...]
    vanished: tuple[str, ...]
    n_unchanged: int


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded notes that are missing, with the time in seconds since when. The next sync needs it.

    `sure` has the notes for which the last scan looked.
    """

    since_s: Mapping[str, float]
    sure: frozenset[str]


NOTHING_MISSING = Missing(since_s={}, sure=frozenset())


class NoteChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to make to the records. Each path is in at most one field, and each field is
    sorted.

    `touched` notes have the same bytes and need only a new record. `moved` has pairs of old and new
    path with the same bytes. `pending_deletes` have been missing for too short a time, or were not
    in the scope of this scan.
    """

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    gone: tuple[str, ...] = ()
    pending_deletes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to write."""
        return not (self.added or self.modified or self.touched or self.moved or self.gone)


def is_disk_away(devices: Collection[int], snapshot: Snapshot) -> bool:
    """True if the notes' disk is probably not mounted: notes were recorded on `devices`, the scan
    found none, and the root lies on another disk than any of them.

    An unmounted disk is then more likely than the deletion of all notes, unless the folder holds
    some memory.
    """
    if not devices or snapshot.root_state != "present" or snapshot.root_identity is None:
        return False
    if snapshot.has_notes or snapshot.failed_folders or snapshot.unreadable_files:
        return False
    return snapshot.root_identity[0] not in devices


def find_suspects(
    recorded: Mapping[str, Recorded],
    snapshot: Snapshot,
    *,
    is_full: bool = False,
) -> Suspects:
    """Compare the records with a scan.

    With `is_full` every note that was seen is to be read, whatever its stat. `recorded` needs only
    the records in the scope of the scan, and must not have the records of notes that it skipped.
    """
    to_read = []
    for path, stat in snapshot.files.items():
        record = None if is_full else recorded.get(path)
        if (
            record is None
            or not (record.stat == stat or record.stat.is_same_as(stat))
            or is_racy(record)
        ):
            to_read.append(path)
    return Suspects(
        to_read=tuple(sorted(to_read)),
        vanished=tuple(sorted(_find_vanished(recorded, snapshot))),
        n_unchanged=snapshot.n_unchanged + len(snapshot.files) - len(to_read),
    )


def is_racy(record: Recorded) -> bool:
    """True if the note may have changed since it was read without its stat showing it.

    A tool sets an mtime later than the read (`touch -d`, rsync), and this changes ctime as well.
    Then ctime alone decides, or every scan would read such a note again.
    """
    return is_racy_stat(record.stat, record.read_at_ns)


def is_racy_stat(stat: FileStat, read_at_ns: int) -> bool:
    """Like `is_racy`, for a stat without a record."""
    _, mtime_ns, ctime_ns, _, _ = stat
    return read_at_ns <= ctime_ns + GRAIN_NS or mtime_ns <= read_at_ns <= mtime_ns + GRAIN_NS


def track_missing(
    was: Missing,
    recorded: Mapping[str, Recorded],
    snapshot: Snapshot,
    vanished: Collection[str],
    *,
    now_s: float,
) -> Missing:
    """Update the missing notes with a scan and its `vanished`.

    A note outside of the scan's scope keeps the time since which it is missing. A note in scope
    that could not be observed no longer counts as missing: its grace period starts again at the
    next scan that can observe it.
    """
    if snapshot.root_state != "present":
        return NOTHING_MISSING
    since_s = {path: was.since_s.get(path, now_s) for path in vanished}
    for path, first_s in was.since_s.items():
        if path in recorded and path not in since_s and not snapshot.is_in_scope(path):
            since_s[path] = first_s
    return Missing(since_s=since_s, sure=frozenset(vanished))


def plan_changes(
    recorded: Mapping[str, Recorded],
    read: Mapping[str, Recorded],
    missing: Missing,
    *,
    now_s: float,
    grace_s: float,
) -> NoteChanges:
    """Convert reads and missing notes to changes. `read` has a fresh record for each note that
    could be read.

    A missing note is moved at once if its bytes exist under a new path. Otherwise it is gone once
    it has been missing for `grace_s`.
    """
    absent = [path for path in sorted(missing.since_s) if path in recorded and path not in read]
    fresh = [path for path in sorted(read) if path not in recorded]
    both = [path for path in sorted(read) if path in recorded]
    moved = _pair_moves(
        [(path, recorded[path].digest) for path in absent],
        [(path, read[path].digest) for path in fresh],
    )
    old, new = {pair[0] for pair in moved}, {pair[1] for pair in moved}
    due = {path for path in missing.sure if now_s - missing.since_s[path] >= grace_s}
    return NoteChanges(
        added=tuple(path for path in fresh if path not in new),
        modified=tuple(path for path in both if recorded[path].digest != read[path].digest),
        touched=tuple(path for path in both if _is_touched(recorded[path], read[path])),
        moved=moved,
        gone=tuple(path for path in absent if path not in old and path in due),
        pending_deletes=tuple(path for path in absent if path not in old and path not in due),
    )


def _find_vanished(recorded: Mapping[str, Recorded], snapshot: Snapshot) -> Iterable[str]:
    # A restricted scan of a note must also look for records beneath its path, because the note may
    # have replaced a folder. `recorded` has only the records in the scope, so this costs little.
    return (path for path in recorded if path not in snapshot.files and snapshot.is_observed(path))


def _is_touched(was: Recorded, now: Recorded) -> bool:
    """True if the bytes are the same and a new record is worth writing: the stat has changed, or
    the same stat is no longer racy.
    """
    return was.digest == now.digest and (
        was.stat != now.stat or (is_racy(was) and not is_racy(now))
    )


# A path and the digest of its content.
PathDigest = tuple[str, str]


def _pair_moves(absent: list[PathDigest], fresh: list[PathDigest]) -> tuple[tuple[str, str], ...]:
    """Pair old and new paths of the same digest, each path once: first paths with the same base
    name, then the rest in order.
    """
    named = _pair_by(absent, fresh, lambda place: (place[1], place[0].rpartition("/")[2]))
    old, new = {pair[0] for pair in named}, {pair[1] for pair in named}
    left = [place for place in absent if place[0] not in old]
    rest = _pair_by(left, [place for place in fresh if place[0] not in new], lambda place: place[1])
    return tuple(sorted(named + rest))


def _pair_by(
    absent: list[PathDigest], fresh: list[PathDigest], key: Callable[[PathDigest], object]
) -> list[tuple[str, str]]:
    places: dict[object, deque[str]] = defaultdict(deque)
    for place in fresh:
        places[key(place)].append(place[0])
    return [(place[0], places[key(place)].popleft()) for place in absent if places.get(key(place))]


# --- Changes of rows ------------------------------------------------------------------------------


class ExistingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored row: its id, a key of its content, and its place."""

    id: int
    content: Hashable
    place: Hashable


class RowChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Indexes of the new rows and ids of the existing rows. Each index and each id occurs exactly
    once.

    `kept` and `shifted` pair an index with the id of an existing row with the same content. A
    shifted row has a new place.
    """

    kept: tuple[tuple[int, int], ...]
    shifted: tuple[tuple[int, int], ...]
    inserted: tuple[int, ...]
    deleted: tuple[int, ...]


def plan_row_changes(
    existing: Iterable[ExistingRow], rows: Sequence[tuple[Hashable, Hashable]]
) -> RowChanges:
    """Pair each new `(content, place)` with an existing row of the same content; duplicates pair in
    order.
    """
    unpaired: dict[Hashable, list[ExistingRow]] = defaultdict(list)
    for row in existing:
        unpaired[row.content].append(row)
    for same in unpaired.values():
        same.reverse()
    kept: list[tuple[int, int]] = []
    shifted: list[tuple[int, int]] = []
    inserted: list[int] = []
    for index, (content, place) in enumerate(rows):
        if not unpaired.get(content):
            inserted.append(index)
            continue
        row = unpaired[content].pop()
        (kept if row.place == place else shifted).append((index, row.id))
    deleted = [row.id for same in unpaired.values() for row in same]
    return RowChanges(
        kept=tuple(kept),
        shifted=tuple(shifted),
        inserted=tuple(inserted),
        deleted=tuple(sorted(deleted)),
    )


# --- Hashes of the stats of known notes, by which a scan skips unchanged ones ---------------------

NEVER_SAME = 0
"""Equals no stat: a scan always looks at the note, because its record is racy or its name may have
to be reported. If a stat has this hash by chance, a scan always looks at its note, too.
"""
# The memory tool cannot reach this note, and every scan reports it.
SHADOWED = f"{MEMORY_FOLDER}/{MEMORY_FILE}"


class KnownStats(MutableMapping[str, int]):
    """The hash of the stat of every recorded note, by path.

    The hashes are kept by folder and name, because a scan compares whole folders. `pack` turns each
    folder into two strings, which take a quarter of the memory of a dict. A folder is unpacked
    again when one of its notes is looked up or changes.
    """

    __slots__ = ("_folders",)

    def __init__(self, known: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        # For each folder: names joined by slashes and hashes of eight bytes; or a dict by name.
        self._folders: dict[str, tuple[str, bytes] | dict[str, int]] = {}
        self.update(known)

    @property
    def folders(self) -> Collection[str]:
        """The folders with notes; the empty path is the root."""
        return self._folders.keys()

    def find(self, folder: str) -> Mapping[str, int]:
        """Return the hashes of the notes of a folder by name."""
        notes = self._folders.get(folder)
        return _unpack(notes) if isinstance(notes, tuple) else notes or {}

    def pack(self) -> None:
        """Pack all folders, to free memory that is not needed until a note changes."""
        for folder, notes in self._folders.items():
            if isinstance(notes, dict):
                self._folders[folder] = "/".join(notes), array("q", notes.values()).tobytes()

    def __getitem__(self, path: str) -> int:
        folder, _, name = path.rpartition("/")
        return self._open(folder)[name]

    def __setitem__(self, path: str, stat_hash: int) -> None:
        folder, _, name = path.rpartition("/")
        self._folders.setdefault(folder, {})
        self._open(folder)[name] = stat_hash

    def __delitem__(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        notes = self._open(folder)
        del notes[name]
        if not notes:
            del self._folders[folder]

    def __iter__(self) -> Iterator[str]:
        for folder in self._folders:
            yield from join_names({folder: self.find(folder)})

    def __len__(self) -> int:
        return sum(map(_count, self._folders.values()))

    def __bool__(self) -> bool:
        return bool(self._folders)

    def _open(self, folder: str) -> dict[str, int]:
        notes = self._folders[folder]
        if isinstance(notes, tuple):
            notes = self._folders[folder] = _unpack(notes)
        return notes


def _unpack(notes: tuple[str, bytes]) -> dict[str, int]:
    names, hashes = notes
    return dict(zip(names.split("/"), memoryview(hashes).cast("q"), strict=True))


def _count(notes: tuple[str, bytes] | dict[str, int]) -> int:
    return len(notes[1]) // 8 if isinstance(notes, tuple) else len(notes)


def join_names(folders: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield the path of each name within its folder."""
    for folder, names in folders.items():
        yield from (f"{folder}/{name}" for name in names) if folder else names


hash_stat: Callable[[tuple[int, int, int, int]], int] = hash
"""Returns a hash of 64 bits of size, mtime_ns, ctime_ns and inode. If two stats differ in one
number by less than 2**61 - 1, their hashes differ; only -1 and -2 hash alike.
"""


def hash_record(path: str, stat: FileStat, read_at_ns: int) -> int:
    """Return the hash of the stat that the file must have for a scan to skip it, or NEVER_SAME."""
    if is_racy_stat(stat, read_at_ns) or not has_ordinary_name(path):
        return NEVER_SAME
    return hash_stat((stat.size_bytes, stat.mtime_ns, stat.ctime_ns, stat.inode))


def has_ordinary_name(path: str) -> bool:
    """True if a scan has nothing to report about the name of this note."""
    return (
        path.isascii()
        and path.isprintable()
        and "conflict" not in path.lower()
        and (is_note_name(path.rpartition("/")[2]) or is_rule_path(path))
        and path != SHADOWED
    )
