"""What did one scan see? Values only: each note's stat, what could not be looked at, and what was odd.

What a scan could not look at is named (`failed_folders`, `unreadable_files`), so that nobody takes it for deleted.
Making a snapshot is left to `workspace.scan`, comparing one with what was recorded to `core.changes.diff`.


Which notes must be read again, and what has changed since they were recorded?

The rule is git's for racy entries: a read is saved only if size, both times and inode are those recorded *and* the record was
made so long after these times that a later change would show. What a scan could not look at is never taken for deleted.
Scanning and reading are left to `workspace`, keeping the records to `store`.

A round: `find_suspects` → read `to_read` → `track_missing` → `plan_changes`. Look again at `pending_deletes` once the grace is over.


Which of a note's rows stay, which only move, which are written? Decided by content, never by line number.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from memsyncd.core.model import Problem

# --- snapshot ----------------------------------------------------------------------------------

RootState = Literal["present", "missing", "unreadable"]


class FileStat(NamedTuple):
    """What lstat says of a note (of the target, for a followed link). A tuple, since a scan makes one for every file."""

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    def is_same_as(self, other: FileStat) -> bool:
        """True if no field that tells of a change differs. Device numbers are left out: they may differ after a reboot."""
        return self[:4] == other[:4]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What one scan saw. Paths are relative to the root unless said otherwise.

    `files` holds every note seen. `failed_folders` could not be listed, `unreadable_files` stand there but cannot be looked at now
    (evicted to a cloud): what is recorded beneath or of them stays. `link_folders`, absolute, are where targets of links lie,
    or would if they were there. `only` names the paths that the scan was restricted to (each with what lies beneath it); None
    means everything.
    """

    root_state: RootState
    root_identity: tuple[int, int] | None = None
    files: Mapping[str, FileStat]
    failed_folders: frozenset[str] = frozenset()
    unreadable_files: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    link_folders: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    def is_in_scope(self, path: str) -> bool:
        """True if this scan was asked about `path`."""
        return self.only is None or is_within(path, self.only)

    def is_observed(self, path: str) -> bool:
        """True if this scan can tell whether a note stands at `path`: it was asked for, and nothing on the way to it failed."""
        if self.root_state != "present" or path in self.unreadable_files or not self.is_in_scope(path):
            return False
        return not (self.failed_folders and is_within(path, self.failed_folders))


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


# --- diff --------------------------------------------------------------------------------------

GRAIN_NS = 2_000_000_000
"""The coarsest clock of a file system in use (FAT's 2 s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What is known of a note: its stat and digest when it was read at `read_at_ns` (wall clock, ns since 1970)."""

    stat: FileStat
    digest: str
    read_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """Paths in order: `to_read` may have changed, `vanished` are recorded but stand there no more."""

    to_read: tuple[str, ...]
    vanished: tuple[str, ...]
    n_unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Since when recorded notes are missing; `sure` are those that the scan at hand looked for. Keep it for the next round."""

    since_s: Mapping[str, float]
    sure: frozenset[str]


NOTHING_MISSING = Missing(since_s={}, sure=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """What to do to the records; each path stands in one field at most, each field is in order.

    `touched` have the same bytes and need a new record only. `moved` are (old, new) with the same bytes. `pending_deletes` are
    missing for too short a time, or were not looked for in this round.
    """

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    gone: tuple[str, ...] = ()
    pending_deletes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing has to be written."""
        return not (self.added or self.modified or self.touched or self.moved or self.gone)


def is_disk_away(devices: Collection[int], snapshot: Snapshot) -> bool:
    """True if there were notes, on these disks, now there are none, and the root lies on another disk than any of them did.

    Then their disk is more likely not mounted than they all deleted, unless the folder holds some memory.
    """
    if not devices or snapshot.root_state != "present" or snapshot.root_identity is None:
        return False
    if snapshot.files or snapshot.failed_folders or snapshot.unreadable_files:
        return False
    return snapshot.root_identity[0] not in devices


def find_suspects(
    recorded: Mapping[str, Recorded], snapshot: Snapshot, *, is_full: bool = False, grain_ns: int = GRAIN_NS
) -> Suspects:
    """Compare records with a scan. With `is_full` every note seen is to be read, whatever its stat says."""
    to_read = []
    for path, stat in snapshot.files.items():
        known = None if is_full else recorded.get(path)
        if known is None or not (known.stat == stat or known.stat.is_same_as(stat)) or is_racy(known, grain_ns):
            to_read.append(path)
    return Suspects(
        to_read=tuple(sorted(to_read)),
        vanished=tuple(sorted(_find_vanished(recorded, snapshot))),
        n_unchanged=len(snapshot.files) - len(to_read),
    )


def is_racy(record: Recorded, grain_ns: int = GRAIN_NS) -> bool:
    """True if the note may have changed since it was read without its stat showing it.

    An mtime later than the read was set by a tool (`touch -d`, rsync), which moved ctime too: then ctime alone decides, or such a
    note would be read at every scan for ever.
    """
    _, mtime_ns, ctime_ns, _, _ = record.stat
    return record.read_at_ns <= ctime_ns + grain_ns or mtime_ns <= record.read_at_ns <= mtime_ns + grain_ns


def track_missing(
    was: Missing, recorded: Mapping[str, Recorded], snapshot: Snapshot, vanished: Collection[str], *, now_s: float
) -> Missing:
    """Bring what was missing up to date with a scan and its `vanished`.

    A note that this scan was not asked about stays missing since when it was. One that it was asked about and could not look at
    is no longer known to be missing: its grace begins anew when it can be looked at again.
    """
    if snapshot.root_state != "present":
        return NOTHING_MISSING
    since_s = {path: was.since_s.get(path, now_s) for path in vanished}
    for path, first_s in was.since_s.items():
        if path in recorded and path not in since_s and not snapshot.is_in_scope(path):
            since_s[path] = first_s
    return Missing(since_s=since_s, sure=frozenset(vanished))


def plan_changes(
    recorded: Mapping[str, Recorded], read: Mapping[str, Recorded], missing: Missing, *, now_s: float, grace_s: float
) -> ChangeSet:
    """Turn what was read (a fresh record for each note that could be) and what is missing into changes.

    A missing note goes at once if its bytes stand under a new path, else when it has been missing for `grace_s`.
    """
    absent = [path for path in sorted(missing.since_s) if path in recorded and path not in read]
    fresh = [path for path in sorted(read) if path not in recorded]
    both = [path for path in sorted(read) if path in recorded]
    moved = _pair_moves([(path, recorded[path].digest) for path in absent], [(path, read[path].digest) for path in fresh])
    old, new = {pair[0] for pair in moved}, {pair[1] for pair in moved}
    due = {path for path in missing.sure if now_s - missing.since_s[path] >= grace_s}
    return ChangeSet(
        added=tuple(path for path in fresh if path not in new),
        modified=tuple(path for path in both if recorded[path].digest != read[path].digest),
        touched=tuple(path for path in both if _is_touched(recorded[path], read[path])),
        moved=moved,
        gone=tuple(path for path in absent if path not in old and path in due),
        pending_deletes=tuple(path for path in absent if path not in old and path not in due),
    )


def _find_vanished(recorded: Mapping[str, Recorded], snapshot: Snapshot) -> Iterable[str]:
    if snapshot.root_state != "present":
        return ()
    return (path for path in _find_asked(recorded, snapshot) if path not in snapshot.files and snapshot.is_observed(path))


def _find_asked(recorded: Mapping[str, Recorded], snapshot: Snapshot) -> Iterable[str]:
    """Recorded paths that may have vanished. Saving one note among thousands costs one look-up, not a walk of the records."""
    if snapshot.only is None or "" in snapshot.only:
        return recorded
    absent = frozenset(path for path in snapshot.only if path not in snapshot.files)
    if not absent:
        return ()
    beneath = tuple(f"{path}/" for path in absent)
    return (path for path in recorded if path in absent or path.startswith(beneath))


def _is_touched(was: Recorded, now: Recorded) -> bool:
    """Same bytes, and a new record is worth writing: another stat, or the same one known for sure at last."""
    return was.digest == now.digest and (was.stat != now.stat or (is_racy(was) and not is_racy(now)))


Place = tuple[str, str]
"""A path and the digest of what stands there."""


def _pair_moves(absent: list[Place], fresh: list[Place]) -> tuple[tuple[str, str], ...]:
    """Pair paths of the same digest one to one: those that keep their base name first, the rest in order."""
    named = _pair_by(absent, fresh, lambda place: (place[1], place[0].rpartition("/")[2]))
    old, new = {pair[0] for pair in named}, {pair[1] for pair in named}
    left = [place for place in absent if place[0] not in old]
    rest = _pair_by(left, [place for place in fresh if place[0] not in new], lambda place: place[1])
    return tuple(sorted(named + rest))


def _pair_by(absent: list[Place], fresh: list[Place], key: Callable[[Place], object]) -> list[tuple[str, str]]:
    places: dict[object, deque[str]] = defaultdict(deque)
    for place in fresh:
        places[key(place)].append(place[0])
    return [(place[0], places[key(place)].popleft()) for place in absent if places.get(key(place))]


# --- rewrite -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingRow:
    """A row as stored: its id, what identifies its content, and where it stands."""

    id: int
    content: Hashable
    place: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """Indexes of `wanted` and ids of standing rows; together they name every one of both exactly once.

    `kept` and `shifted` pair an index with the id that already has its content; a shifted one stands elsewhere now.
    """

    kept: tuple[tuple[int, int], ...]
    shifted: tuple[tuple[int, int], ...]
    inserted: tuple[int, ...]
    deleted: tuple[int, ...]


def plan_row_changes(standing: Iterable[ExistingRow], wanted: Sequence[tuple[Hashable, Hashable]]) -> RowChanges:
    """Pair each wanted `(content, place)` with a standing row of the same content; twins pair in order."""
    waiting: dict[Hashable, list[ExistingRow]] = defaultdict(list)
    for row in standing:
        waiting[row.content].append(row)
    for rows in waiting.values():
        rows.reverse()
    kept: list[tuple[int, int]] = []
    shifted: list[tuple[int, int]] = []
    inserted: list[int] = []
    for index, (content, place) in enumerate(wanted):
        if not waiting.get(content):
            inserted.append(index)
            continue
        row = waiting[content].pop()
        (kept if row.place == place else shifted).append((index, row.id))
    deleted = [row.id for rows in waiting.values() for row in rows]
    return RowChanges(kept=tuple(kept), shifted=tuple(shifted), inserted=tuple(inserted), deleted=tuple(sorted(deleted)))
