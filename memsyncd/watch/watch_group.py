"""Map the kernel's watches to folders, for a folder and all folders beneath it.

The kernel watches single folders and reports a watch descriptor and a name. A `WatchGroup` keeps
the table from descriptors to paths:

- A walk opens each folder, adds a watch to the open folder, and only then lists it. It opens names
  from the top folder's descriptor, so a rename above the tree cannot lose a folder.
- A folder that is created or moved is walked again, at both ends of a move.
- Folders that `WatchLimits` leaves out are not entered. At its limit no further folder is watched;
  this is reported once for the group.
- `WatchGroup.walk` repeats the whole walk at any time. The kernel returns the same descriptor for
  the same folder, so a walk that changes nothing costs only its system calls.

A walk reads the disk, so after an event it does not run on the reader's thread. Later events of the
group wait for the walk, because their paths depend on it; events of other groups do not wait.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec
from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, Mask, WatchDescriptor
from watchdog.observers.inotify_move_event_grouper import GroupedInotifyEvent, PathedInotifyEvent

from memsyncd.watch.health import Backlog, OnEventsLost, RunLater, is_worth_reporting
from memsyncd.watch.inotify_reader import PAIR_LIMIT_MS, EventReader

NO_WAIT = float("-inf")
# How often a folder is opened again because another thread changed the table meanwhile.
ATTEMPTS = 20
OPEN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATED_FILE = InotifyConstants.IN_CREATE
CREATED_FOLDER = Mask(InotifyConstants.IN_CREATE | InotifyConstants.IN_ISDIR)

# An event, or both halves of a move.
PairedEvent: TypeAlias = InotifyEvent | tuple[InotifyEvent, InotifyEvent]


class MovePairer:
    """Pairs the two halves of each move.

    It holds the first half back until the second comes, for at most PAIR_LIMIT_MS, and with it all
    events that follow it. Halves that stay alone count as a deletion and a creation, which has the
    same result. No call waits: the reader calls `pop_ready` again when it is time.
    """

    def __init__(self) -> None:
        self._held: list[tuple[float, PairedEvent]] = []

    def put(self, event: InotifyEvent) -> None:
        first = self._find_first_half(event.cookie) if event.is_moved_to else None
        if first is None:
            self._held.append((time.monotonic() if event.is_moved_from else NO_WAIT, event))
        else:
            self._held = [entry for entry in self._held if entry[1] is not first]
            self._held.append((NO_WAIT, (first, event)))

    def pop_ready(self) -> list[PairedEvent]:
        """Remove and return the events that are no longer held back, in order."""
        due_s = time.monotonic() - PAIR_LIMIT_MS / 1000
        not_due = (at for at, (since_s, _) in enumerate(self._held) if since_s > due_s)
        n_ready = next(not_due, len(self._held))
        ready, self._held = self._held[:n_ready], self._held[n_ready:]
        return [event for _, event in ready]

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def clear(self) -> None:
        self._held.clear()

    def _find_first_half(self, cookie: int) -> InotifyEvent | None:
        halves = (event for _, event in self._held if isinstance(event, InotifyEvent))
        return next((half for half in halves if half.is_moved_from and half.cookie == cookie), None)


class WatchLimits(msgspec.Struct, frozen=True):
    """The limits of a recursive watch: which folders it leaves out, and how many it may have.

    `is_pruned` gets the absolute path of a folder; it is None if no path is left out.
    """

    is_pruned: Callable[[str], bool] | None
    n_folders: int


class _Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A watched folder: path, device and inode, and the group's count when it was last seen."""

    path: bytes
    identity: tuple[int, int]
    stamp: int


class _Walked(msgspec.Struct, kw_only=True):
    """The result of a walk. `since` is the group's count when the walk began.

    `fresh` are new watches; `moved` are older watches whose folder was met at another path.
    `unreadable` are folders that exist and could not be entered: the watches beneath them stay.
    `is_whole` is true for a walk of the whole group.
    """

    since: int
    is_whole: bool = False
    fresh: list[WatchDescriptor] = msgspec.field(default_factory=list)
    moved: list[WatchDescriptor] = msgspec.field(default_factory=list)
    unreadable: list[bytes] = msgspec.field(default_factory=list)


class WatchGroup:
    """A folder, with all folders beneath it if it is recursive, and the current path of each.

    The table has the path at which the folder of each watch descriptor was last seen. If a folder
    has moved since, the event of that move is still to come and corrects the path. Events come on
    the reader's thread; `walk` may be called on another thread. `on_event(event)` is called on the
    reader's thread or on a thread of `run_later`.
    """

    def __init__(
        self,
        reader: EventReader,
        path: bytes,
        mask: Mask,
        *,
        is_recursive: bool,
        find_limits: Callable[[], WatchLimits],
        run_later: RunLater,
        on_event: Callable[[GroupedInotifyEvent], None],
        on_events_lost: OnEventsLost,
    ) -> None:
        """Watch the folder. Raises OSError if the folder itself cannot be watched."""
        self.path, self.mask = path, mask
        self._reader = reader
        self._is_recursive = is_recursive
        self._find_limits = find_limits
        self._on_event = on_event
        self._on_events_lost = on_events_lost
        self._lock = threading.Lock()
        self._is_active = True
        self._pairer = MovePairer()
        self._backlog: Backlog[PairedEvent] = Backlog(
            self._handle,
            key=os.fsdecode(path),
            run_later=run_later,
            on_events_lost=on_events_lost,
        )
        self._folders: dict[WatchDescriptor, _Folder] = {}
        self._wds: dict[bytes, WatchDescriptor] = {}
        # Counts the changes to both tables.
        self._stamp = 0
        try:
            self.walk()
        except OSError:
            self.deactivate()
            raise

    def walk(self) -> bool:
        """Watch exactly the folders that exist now. Return true if any watch has changed.

        Raises OSError if the group's own folder cannot be entered; then nothing has changed.
        """
        walked = _Walked(since=self._stamp, is_whole=True)
        try:
            fd = self._enter(None, self.path, self.path, walked)
        except OSError as error:
            self._reader.report_unwatched(self.path, error.errno or 0)
            raise
        try:
            if self._is_recursive:
                self._walk_beneath(fd, self.path, _list_folders(fd), walked)
        finally:
            os.close(fd)
        self._forget_unseen(self.path, walked)
        return bool(walked.fresh or walked.moved)

    @property
    def has_watch(self) -> bool:
        """False if the kernel no longer watches the group's folder: it was deleted or unmounted."""
        return self.path in self._wds

    def deactivate(self) -> None:
        """End all watches. No further events come."""
        with self._lock:
            self._is_active = False
            self._reader.unwatch(self._folders.keys(), self)
            self._folders.clear()
            self._wds.clear()
            self._pairer.clear()

    # --- on the reader's thread, which must not read the disk ---

    def on_event(self, event: InotifyEvent) -> None:
        with self._lock:
            self._pairer.put(event)
        self._pass_on()

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        # It is queued after the events of the same watch, which need its path.
        self.on_event(InotifyEvent(wd, InotifyConstants.IN_IGNORED, 0, b""))

    def on_queue_overflow(self) -> None:
        # The reader reports lost events; the walk and the scan that follow find all changes.
        with self._lock:
            self._pairer.clear()

    def _pass_on(self) -> None:
        """Handle the events that are no longer held back; the reader calls again for the others."""
        with self._lock:
            ready = self._pairer.pop_ready()
            if self._pairer.is_holding:
                self._reader.hold(self._pass_on)
        for event in ready:
            if self._backlog.is_idle and not self._needs_disk(event):
                self._handle(event)
            else:
                self._backlog.put(event)

    def _needs_disk(self, event: PairedEvent) -> bool:
        """True if folders must be watched or unwatched after this event."""
        last = event if isinstance(event, InotifyEvent) else event[1]
        is_entry = bool(last.name) and last.is_directory
        return self._is_recursive and is_entry and (last.is_create or last.is_move)

    # --- on the reader's thread, or on another thread while the group has a backlog ---

    def _handle(self, event: PairedEvent) -> None:
        """Bring the table up to date, and pass the event on with its path."""
        if isinstance(event, InotifyEvent) and event.is_ignored:
            with self._lock:
                self._drop(event.wd)
            return
        located = self._locate(event)
        if located is None:
            return
        created = self._follow(located) if self._needs_disk(event) else []
        for ready in (located, *created):
            if self._is_active:
                self._on_event(ready)

    def _locate(self, event: PairedEvent) -> GroupedInotifyEvent | None:
        """Return the event with its path, or None if its folder is not watched any more."""
        if isinstance(event, InotifyEvent):
            folder = self._folders.get(event.wd)
            if folder is None:
                return None
            path = os.path.join(folder.path, event.name) if event.name else folder.path
            return PathedInotifyEvent(event, path)
        first, second = (self._locate(half) for half in event)
        if isinstance(first, PathedInotifyEvent) and isinstance(second, PathedInotifyEvent):
            return first, second
        return first or second

    def _follow(self, event: GroupedInotifyEvent) -> list[PathedInotifyEvent]:
        """Watch the folders that are now at the paths of an event: created, moved or moved away.

        Returns events for the entries of newly watched folders, because entries that were created
        before the watch have no event. For a folder that was moved here watchdog itself makes these
        events.
        """
        if not isinstance(event, PathedInotifyEvent):
            first, second = event
            self._walk_entries(second.path, first.path, left=first.path)
            return []
        # A folder that left the tree is unwatched: its events would come under its old path.
        fresh = self._walk_entries(event.path, left=event.path if event.ev.is_moved_from else b"")
        if event.ev.is_moved_to:
            return []
        return [created for wd in fresh for created in self._list_as_created(wd)]

    def _list_as_created(self, wd: WatchDescriptor) -> Iterator[PathedInotifyEvent]:
        folder = self._folders.get(wd)
        if folder is None:
            return
        with contextlib.suppress(OSError), os.scandir(folder.path) as entries:
            for entry in entries:
                mask = CREATED_FOLDER if entry.is_dir(follow_symlinks=False) else CREATED_FILE
                event = InotifyEvent(wd, mask, 0, os.path.basename(entry.path))
                yield PathedInotifyEvent(event, entry.path)

    def _walk_entries(self, *paths: bytes, left: bytes = b"") -> list[WatchDescriptor]:
        """Watch the folders that are now at these paths and beneath. Return the new watches.

        If a folder has left one of the paths, `left` is this path.
        """
        if not self._is_active:
            return []
        walked = _Walked(since=self._stamp)
        # The table has nothing beneath a new name, so most storms need no search of the whole
        # table. The path `left` may look new although it is not: if an earlier walk has met the
        # folder at its next place, subfolders that had moved out before are still listed beneath
        # the old path.
        new = {path for path in paths if path != left and path not in self._wds}
        tops = [self._walk_entry(path, walked) for path in paths]
        for top in tops:
            if top is not None and top not in new:
                self._forget_unseen(top, walked)
        return walked.fresh

    def _walk_entry(self, path: bytes, walked: _Walked) -> bytes | None:
        """Walk the entry at a path, if the watched folder above is in its place; return the path.

        If the folder above has moved, the path means nothing and the event's entry may be anywhere.
        Then the folder above is walked instead, and so on; the path of the walked entry is
        returned. None means that the group's own folder has moved.
        """
        while path != self.path:
            parent, _, name = path.rpartition(b"/")
            with self._open_in_place(parent) as fd:
                if fd is not None:
                    self._walk_beneath(fd, parent, [name], walked)
                    return path
            path = parent
        if self._is_active:
            self._on_events_lost("a watched folder is not where it was")
        return None

    @contextlib.contextmanager
    def _open_in_place(self, path: bytes) -> Iterator[int | None]:
        """Open the watched folder with this path; None if it is not there any more."""
        wd = self._wds.get(path)
        folder = None if wd is None else self._folders.get(wd)
        fd = None
        try:
            with contextlib.suppress(OSError):
                fd = os.open(path, OPEN_FLAGS)
            is_known = fd is not None and folder is not None and _identify(fd) == folder.identity
            yield fd if is_known else None
        finally:
            if fd is not None:
                os.close(fd)

    # --- on any thread ---

    def _walk_beneath(self, base: int, path: bytes, names: list[bytes], walked: _Walked) -> None:
        """Watch these entries of the open folder at `path`, and all folders beneath them."""
        # A list instead of recursion allows any depth; names from one descriptor keep few open.
        limits = self._find_limits()
        is_pruned, start = limits.is_pruned, os.path.join(path, b"")
        is_over = False
        while names:
            name = names.pop()
            place = start + name
            if is_pruned is not None and is_pruned(os.fsdecode(place)):
                continue
            if len(self._folders) >= limits.n_folders and place not in self._wds:
                is_over = True
                continue
            try:
                fd = self._enter(base, name, place, walked)
            except OSError as error:
                if is_worth_reporting(error.errno or 0):
                    walked.unreadable.append(place)
                self._reader.report_unwatched(place, error.errno or 0)
                continue
            try:
                names += [b"%b/%b" % (name, deeper) for deeper in _list_folders(fd)]
            except OSError as error:
                walked.unreadable.append(place)
                self._reader.report_unwatched(place, error.errno or 0)
            finally:
                os.close(fd)
        if is_over:
            self._reader.report_unwatched(self.path, errno.EDQUOT)

    def _enter(self, base: int | None, name: bytes, path: bytes, walked: _Walked) -> int:
        """Open a folder, then watch it. Return its descriptor. Raises OSError."""
        for _ in range(ATTEMPTS):
            stamp = self._stamp
            fd = os.open(name, OPEN_FLAGS, dir_fd=base)
            try:
                wd = self._reader.watch(fd, path, self, self.mask)
                if self._note(wd, path, _identify(fd), stamp=stamp, walked=walked):
                    self._reader.n_walked += walked.is_whole
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _note(
        self,
        wd: WatchDescriptor,
        path: bytes,
        identity: tuple[int, int],
        *,
        stamp: int,
        walked: _Walked,
    ) -> bool:
        """Record a folder's path. Return False if the tables have changed since it was opened.

        Then the folder may have moved before that change, and the event of its move may be over, so
        it must be opened again.
        """
        with self._lock:
            recorded = self._folders.get(wd)
            if not self._is_active or stamp != self._stamp:
                if recorded is None:
                    self._stamp += 1  # another thread may have received the same watch just now
                    self._reader.unwatch([wd], self)
                if not self._is_active:
                    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
                return False
            if recorded is not None and recorded.stamp > walked.since:
                return True  # the folder is mounted at two paths: the first counts
            if recorded is None:
                walked.fresh.append(wd)
                self._stamp += 1
            else:
                if recorded.path != path:
                    walked.moved.append(wd)
                self._drop(wd)
            self._folders[wd] = _Folder(path=path, identity=identity, stamp=self._stamp)
            self._wds[path] = wd
            return True

    def _drop(self, wd: WatchDescriptor) -> None:
        """Remove a folder from the tables. The caller holds the lock."""
        self._stamp += 1
        folder = self._folders.pop(wd, None)
        if folder is not None and self._wds.get(folder.path) == wd:
            del self._wds[folder.path]

    def _forget_unseen(self, top: bytes, walked: _Walked) -> None:
        """Unwatch the folders at and beneath `top` that a walk has not met there.

        A folder that has moved within the tree meanwhile is watched again at the event of its move.
        """
        with self._lock:
            gone = [
                wd
                for wd, folder in self._folders.items()
                if folder.stamp <= walked.since
                and _is_within(folder.path, top)
                and not any(_is_within(folder.path, kept) for kept in walked.unreadable)
            ]
            for wd in gone:
                self._drop(wd)
            self._reader.unwatch(gone, self)


def _list_folders(fd: int) -> list[bytes]:
    with os.scandir(fd) as entries:
        return [os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]


def _identify(fd: int) -> tuple[int, int]:
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino


def _is_within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")
