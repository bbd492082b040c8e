"""The folders that one watch covers, and which of the kernel's watches belongs to which folder."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from watchdog.observers.inotify_c import InotifyConstants, InotifyEvent, Mask, WatchDescriptor
from watchdog.observers.inotify_move_event_grouper import GroupedInotifyEvent, PathedInotifyEvent

from memsyncd.watch.health import OnEventsLost, is_worth_reporting
from memsyncd.watch.inotify_reader import PATIENCE_MS, Reader

NO_WAIT = float("-inf")
# How often one folder is opened again because another thread changed the table meanwhile.
ATTEMPTS = 20
OPEN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATED_FILE = InotifyConstants.IN_CREATE
CREATED_FOLDER = Mask(InotifyConstants.IN_CREATE | InotifyConstants.IN_ISDIR)


class MoveGrouper:
    """Holds back a move's first half until the second comes, PATIENCE_MS at most, and what follows
    it.

    The kernel queues both in one go. Halves that are not brought together ring as a deletion and a
    creation, which does. Nobody waits in here: the reader asks again when it is time.
    """

    def __init__(self) -> None:
        self._held: list[tuple[float, GroupedInotifyEvent]] = []

    def put_event(self, event: PathedInotifyEvent) -> None:
        first = self.find_first_half(event.ev.cookie) if event.ev.is_moved_to else None
        if first is None:
            self._held.append((time.monotonic() if event.ev.is_moved_from else NO_WAIT, event))
        else:
            self._held = [one for one in self._held if one[1] is not first]
            self._held.append((NO_WAIT, (first, event)))

    def take_ready(self) -> list[GroupedInotifyEvent]:
        """What is held back no longer, in order."""
        due_s = time.monotonic() - PATIENCE_MS / 1000
        waiting = (at for at, (since_s, _) in enumerate(self._held) if since_s > due_s)
        n_ready = next(waiting, len(self._held))
        ready, self._held = self._held[:n_ready], self._held[n_ready:]
        return [event for _, event in ready]

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def find_first_half(self, cookie: int) -> PathedInotifyEvent | None:
        halves = (event for _, event in self._held if isinstance(event, PathedInotifyEvent))
        return next(
            (one for one in halves if one.ev.is_moved_from and one.ev.cookie == cookie), None
        )

    def clear(self) -> None:
        self._held.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """A watched folder: its path, device and inode, and the group's count when it was last seen
    there.
    """

    path: bytes
    identity: tuple[int, int]
    stamp: int


@dataclass(slots=True, kw_only=True)
class _Walked:
    """What a walk has found. `since` is the group's count when it began.

    `fresh` are the watches that are new, `moved` the known ones met at another path. `unreadable`
    are folders that are there and could not be entered: what is watched beneath them stays so.
    """

    since: int
    fresh: list[WatchDescriptor] = field(default_factory=list)
    moved: list[WatchDescriptor] = field(default_factory=list)
    unreadable: list[bytes] = field(default_factory=list)


class WatchGroup:
    """One folder, with all folders beneath it if it is recursive, and where each of them is now.

    Events come on the reader's thread, which follows them; `walk` may be called on another one. The
    table says for each watch descriptor where its folder was when it was last seen. A folder that
    has moved since is corrected by the event of its move, which is still to come. `on_ready(event)`
    is called on the reader's thread.
    """

    def __init__(
        self,
        reader: Reader,
        path: bytes,
        mask: Mask,
        *,
        is_recursive: bool,
        on_ready: Callable[[GroupedInotifyEvent], None],
        on_events_lost: OnEventsLost,
    ) -> None:
        """Raises OSError if the folder itself cannot be watched."""
        self.path, self.mask = path, mask
        self._reader = reader
        self._is_recursive = is_recursive
        self._on_ready = on_ready
        self._on_events_lost = on_events_lost
        self._lock = threading.Lock()
        self._is_active = True
        self._held = MoveGrouper()
        self._folders: dict[WatchDescriptor, _Folder] = {}
        self._wds: dict[bytes, WatchDescriptor] = {}
        self._stamp = 0
        """Counts the changes to both tables."""
        try:
            self.walk()
        except OSError:
            self.deactivate()
            raise

    def walk(self) -> bool:
        """Watch all folders there are now, and no others. True if that changed anything.

        Raises OSError if the group's own folder cannot be entered; then nothing has changed.
        """
        walked = _Walked(since=self._stamp)
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
        """False if the kernel no longer watches the group's own folder: it was deleted or
        unmounted.
        """
        return self.path in self._wds

    def deactivate(self) -> None:
        """End all watches; no more events come."""
        with self._lock:
            self._is_active = False
            self._reader.unwatch(self._folders.keys(), self)
            self._folders.clear()
            self._wds.clear()
            self._held.clear()

    # --- on the reader's thread ---

    def on_event(self, event: InotifyEvent) -> None:
        folder = self._folders.get(event.wd)
        if folder is None:
            return
        path = os.path.join(folder.path, event.name) if event.name else folder.path
        created = self._follow(event, path) if event.name and event.is_directory else []
        with self._lock:
            for one in (PathedInotifyEvent(event, path), *created):
                self._held.put_event(one)
        self.hand_on()

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        with self._lock:
            self._drop(wd)

    def on_queue_overflow(self) -> None:
        # What was lost is found by the walk and the scan that follow the reader's doubt.
        with self._lock:
            self._held.clear()

    def hand_on(self) -> None:
        """Give away what is held back no longer; the reader comes again for the rest."""
        with self._lock:
            ready = self._held.take_ready()
            if self._held.is_holding:
                self._reader.hold(self.hand_on)
        for one in ready:
            if self._is_active:
                self._on_ready(one)
            if isinstance(one, PathedInotifyEvent) and one.ev.is_moved_from and one.ev.is_directory:
                # It left the tree: later events would come under a path where it no longer is.
                self._walk_entries(one.path)

    def _follow(self, event: InotifyEvent, path: bytes) -> list[PathedInotifyEvent]:
        """Watch what is now where a folder came. Returns events for what lies in a created one."""
        if event.is_moved_to:
            first = self._held.find_first_half(event.cookie)
            self._walk_entries(path, *([] if first is None else [first.path]))
        elif event.is_create:
            # What was created in it before it was watched has told nobody.
            return [one for wd in self._walk_entries(path) for one in self._list_as_created(wd)]
        return []

    def _list_as_created(self, wd: WatchDescriptor) -> Iterator[PathedInotifyEvent]:
        folder = self._folders.get(wd)
        if folder is None:
            return
        with contextlib.suppress(OSError), os.scandir(folder.path) as entries:
            for one in entries:
                mask = CREATED_FOLDER if one.is_dir(follow_symlinks=False) else CREATED_FILE
                event = InotifyEvent(wd, mask, 0, os.path.basename(one.path))
                yield PathedInotifyEvent(event, one.path)

    def _walk_entries(self, *paths: bytes) -> list[WatchDescriptor]:
        """Watch what is now at these paths, with all beneath. Returns the watches that are new."""
        if not (self._is_recursive and self._is_active):
            return []
        walked = _Walked(since=self._stamp)
        # Beneath a new name nothing was known, so most storms need no search of the whole table.
        new = {path for path in paths if path not in self._wds}
        tops = [self._walk_entry(path, walked) for path in paths]
        for top in tops:
            if top is not None and top not in new:
                self._forget_unseen(top, walked)
        return walked.fresh

    def _walk_entry(self, path: bytes, walked: _Walked) -> bytes | None:
        """Walk what is at a path beneath a watched folder that is in its place, and return that
        path.

        If the folder above has moved, the path means nothing, and what the event told of may stand
        anywhere: so the folder above that is walked, and so on. None if the group's own has moved.
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
        """The watched folder that is known under this path, opened; None unless it is still
        there.
        """
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
        """Watch these entries of an open folder, which is at `path`, and all folders beneath
        them.
        """
        # By a list, so that no depth is too much, and from one descriptor, so that few are open.
        while names:
            name = names.pop()
            place = os.path.join(path, name)
            try:
                fd = self._enter(base, name, place, walked)
            except OSError as error:
                if is_worth_reporting(error.errno or 0):
                    walked.unreadable.append(place)
                self._reader.report_unwatched(place, error.errno or 0)
                continue
            try:
                names += (os.path.join(name, deeper) for deeper in _list_folders(fd))
            except OSError as error:
                walked.unreadable.append(place)
                self._reader.report_unwatched(place, error.errno or 0)
            finally:
                os.close(fd)

    def _enter(self, base: int | None, name: bytes, path: bytes, walked: _Walked) -> int:
        """Open a folder and watch it, in this order. Returns its descriptor; raises OSError."""
        for _ in range(ATTEMPTS):
            stamp = self._stamp
            fd = os.open(name, OPEN_FLAGS, dir_fd=base)
            try:
                wd = self._reader.watch(fd, path, self, self.mask)
                if self._note(wd, path, _identify(fd), stamp=stamp, walked=walked):
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
        """Write down where a folder is. False if the tables have changed since it was opened.

        Then it may have moved before that change, and its event be over: it must be opened again.
        """
        with self._lock:
            known = self._folders.get(wd)
            if not self._is_active or stamp != self._stamp:
                if known is None:
                    self._stamp += 1  # another thread may have been given the same watch just now
                    self._reader.unwatch([wd], self)
                if not self._is_active:
                    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
                return False
            if known is not None and known.stamp > walked.since:
                return True  # mounted at two places: the first one counts
            if known is None:
                walked.fresh.append(wd)
            elif known.path != path:
                walked.moved.append(wd)
            self._drop(wd)
            self._folders[wd] = _Folder(path=path, identity=identity, stamp=self._stamp)
            self._wds[path] = wd
            return True

    def _drop(self, wd: WatchDescriptor) -> None:
        """Forget a folder, under the lock."""
        self._stamp += 1
        known = self._folders.pop(wd, None)
        if known is not None and self._wds.get(known.path) == wd:
            del self._wds[known.path]

    def _forget_unseen(self, top: bytes, walked: _Walked) -> None:
        """Let go of the folders at and beneath `top` that a walk has not met there.

        One that has moved within the tree meanwhile is watched again at the event of its move.
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
        return [os.fsencode(one.name) for one in entries if one.is_dir(follow_symlinks=False)]


def _identify(fd: int) -> tuple[int, int]:
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino


def _is_within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")
