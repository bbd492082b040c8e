"""Watch folders with inotify, and report what watchdog loses without a word.

watchdog reads the descriptor and turns the kernel's events into its own. Which watch descriptor
belongs to which folder is kept here, in a `WatchGroup` for each watched folder:

- A walk opens each folder, adds a watch to what it has opened, and only then lists it. Names are
  opened from the top folder's descriptor, so renaming anything above the tree cannot lose a folder.
- A folder that is created or moved is walked again, at both ends of a move.
- `WatchGroup.walk` repeats the whole walk at any time. The kernel returns the same descriptor for
  the same folder, so a walk that changes nothing costs nothing but its system calls.

Overflow of the queue, death of the reader or of an emitter, a folder that is moved, unmounted or
cannot be watched: each is reported, as a doubt or as an unwatched folder. watchdog has a thread for
each watch, whose work the reader does here.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from watchdog.events import FileSystemEvent
from watchdog.observers import inotify_c
from watchdog.observers.api import DEFAULT_OBSERVER_TIMEOUT, BaseObserver, EventQueue, ObservedWatch
from watchdog.observers.inotify import InotifyEmitter
from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    Watch,
    WatchDescriptor,
)
from watchdog.observers.inotify_move_event_grouper import GroupedInotifyEvent, PathedInotifyEvent
from watchdog.utils import Seconds

from memsyncd.watch.doubts import OnDoubt, OnUnwatched, is_worth_telling

JOIN_LIMIT_S = 5.0
PATIENCE_MS = 20
NO_WAIT = float("-inf")
ATTEMPTS = 20
"""How often one folder is entered anew because the other thread changed the table meanwhile."""
OPEN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
HAS_PROC = os.path.isdir("/proc/self/fd")
CREATED_FILE = InotifyConstants.IN_CREATE
CREATED_FOLDER = Mask(InotifyConstants.IN_CREATE | InotifyConstants.IN_ISDIR)


class Reader(InotifyFD):
    """The one thread that reads inotify for all workspaces."""

    def __init__(self, on_doubt: OnDoubt, on_unwatched: OnUnwatched) -> None:
        super().__init__()
        self.name = "memsyncd-inotify"
        self._on_doubt = on_doubt
        self._on_unwatched = on_unwatched
        self._has_failed = self._is_running = self._is_released = False
        self._n_removed = 0
        self._holding: dict[int, WatchGroup] = {}
        """Groups in which first halves of moves wait, by identity."""

    def hold(self, group: WatchGroup) -> None:
        """Come back to a group as soon as what it holds back is due."""
        self._holding[id(group)] = group

    def watch(self, folder: int, path: bytes, group: WatchGroup) -> WatchDescriptor:
        """Watch an open folder for a group. Raises OSError.

        No lock is held while the kernel looks at the disk: a disk that hangs would stop the reader.
        """
        while True:
            n_removed = self._n_removed
            wd = _add_watch(self._inotify_fd, folder, path, group.mask)
            with self._lock:
                if self._closed:
                    raise OSError(errno.EBADF, os.strerror(errno.EBADF))
                # Else the kernel's watch may have been removed between its answer and this line.
                if n_removed == self._n_removed:
                    watch = self._watch_for_wd.get(wd)
                    if watch is None:
                        watch = self._watch_for_wd[wd] = Watch(wd, group.mask, path)
                    watch.callbacks[CallbackId(id(group))] = group
                    return wd

    def unwatch(self, wds: Collection[WatchDescriptor], group: WatchGroup) -> None:
        """End a group's share in these watches; those that no other group uses are removed."""
        with self._lock:
            for wd in wds:
                watch = self._watch_for_wd.get(wd)
                if watch is None or watch.callbacks.pop(CallbackId(id(group)), None) is None:
                    continue
                if not watch.is_used and not self._closed:
                    del self._watch_for_wd[wd]
                    self._n_removed += 1
                    inotify_c.inotify_rm_watch(self._inotify_fd, wd)

    def report_unwatched(self, path: bytes, code: int) -> None:
        """Report a folder that cannot be watched, unless it is merely gone."""
        if is_worth_telling(code):
            self._on_unwatched(os.fsdecode(path), code)

    def run(self) -> None:
        self._is_running = True
        try:
            super().run()
        except Exception as error:  # noqa: BLE001  its end ends all watching, and nobody else reports it
            self._has_failed = True
            self._on_doubt(f"the inotify reader died: {error!r}")
        finally:
            with self._lock:
                self._is_running = self._is_reading = False
                if self._closed:
                    self._close_resources()

    def is_alive(self) -> bool:
        # Those who hear the doubt check at once, while the thread has still to end.
        return super().is_alive() and not self._has_failed

    def read_events(self, *, event_buffer_size: int = 65_536) -> list[InotifyEvent]:
        holding, self._holding = self._holding, {}
        for group in holding.values():
            group.hand_on()
        return super().read_events(event_buffer_size=event_buffer_size)

    def _check_inotify_fd(self) -> bool:
        assert self._poller is not None, "every Linux has poll(2)"
        ready = self._poller.poll(PATIENCE_MS if self._holding else None)
        return any(fd == self._inotify_fd for fd, _ in ready)

    def handle_event(self, event: InotifyEvent) -> None:
        super().handle_event(event)
        if event.is_queue_overflow:
            self._on_doubt("the inotify queue overflowed")

    def _close_resources(self) -> None:
        # While it handles events the reader may add watches by the descriptor's number, which must
        # not be another file's by then: it closes the files itself when it ends.
        is_in_use = self._is_running and threading.current_thread() is not self
        if not is_in_use and not self._is_released:
            self._is_released = True
            super()._close_resources()

    @classmethod
    def _create_inotify_fd(cls) -> int:
        fd = super()._create_inotify_fd()
        os.set_inheritable(fd, False)  # noqa: FBT003  its only form
        return fd


class MoveGrouper:
    """Holds back a move's first half until the second comes, PATIENCE_MS at most, and what follows it.

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
        return next((one for one in halves if one.ev.is_moved_from and one.ev.cookie == cookie), None)

    def clear(self) -> None:
        self._held.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """A watched folder: its path, device and inode, and the group's count when it was last seen there."""

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
        on_doubt: OnDoubt,
    ) -> None:
        """Raises OSError if the folder itself cannot be watched."""
        self.path, self.mask = path, mask
        self._reader = reader
        self._is_recursive = is_recursive
        self._on_ready = on_ready
        self._on_doubt = on_doubt
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
        """False if the kernel no longer watches the group's own folder: it was deleted or unmounted."""
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
                self._reader.hold(self)
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
        """Walk what is at a path beneath a watched folder that is in its place, and return that path.

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
            self._on_doubt("a watched folder is not where it was")
        return None

    @contextlib.contextmanager
    def _open_in_place(self, path: bytes) -> Iterator[int | None]:
        """The watched folder that is known under this path, opened; None unless it is still there."""
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
        """Watch these entries of an open folder, which is at `path`, and all folders beneath them."""
        # By a list, so that no depth is too much, and from one descriptor, so that few are open.
        while names:
            name = names.pop()
            place = os.path.join(path, name)
            try:
                fd = self._enter(base, name, place, walked)
            except OSError as error:
                if is_worth_telling(error.errno or 0):
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
                wd = self._reader.watch(fd, path, self)
                if self._note(wd, path, _identify(fd), stamp=stamp, walked=walked):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _note(self, wd: WatchDescriptor, path: bytes, identity: tuple[int, int], *, stamp: int, walked: _Walked) -> bool:
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


class Emitter(InotifyEmitter):
    """Turns inotify's events into watchdog's, for one watch.

    To watchdog it is a thread that waits for events of the reader's. Here the reader calls it itself: a thread a folder would be
    hundreds that do nothing.
    """

    def __init__(
        self,
        event_queue: EventQueue,
        watch: ObservedWatch,
        *,
        on_doubt: OnDoubt,
        reader: Reader,
        timeout: Seconds = DEFAULT_OBSERVER_TIMEOUT,
        event_filter: list[type[FileSystemEvent]] | None = None,
    ) -> None:
        super().__init__(event_queue, watch, timeout=timeout, event_filter=event_filter, inotify_fd=reader)
        self._reader = reader
        self._on_doubt = on_doubt
        self._has_failed = False
        self._group: WatchGroup | None = None

    def start(self) -> None:
        """Raises OSError for a folder that cannot be watched."""
        self._group = WatchGroup(
            self._reader,
            os.fsencode(self.watch.path),
            self.get_event_mask_from_filter(),
            is_recursive=self.watch.is_recursive,
            on_ready=self._take,
            on_doubt=self._on_doubt,
        )

    def on_thread_stop(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.deactivate()

    def is_alive(self) -> bool:
        return self.should_keep_running() and not self._has_failed

    @property
    def has_watch(self) -> bool:
        return self._group is not None and self._group.has_watch

    def walk(self) -> bool:
        """As WatchGroup.walk; False once stopped."""
        group = self._group
        return group is not None and group.walk()

    def _take(self, event: GroupedInotifyEvent) -> None:
        if self.is_alive():
            try:
                self.build_and_queue_event(event)
            except Exception as error:  # noqa: BLE001  it would end the reader, and with it all watching
                self._has_failed = True
                self._on_doubt(f"an emitter died: {error!r}")

    def get_event_mask_from_filter(self) -> Mask:
        return Mask(super().get_event_mask_from_filter() | InotifyConstants.IN_MOVE_SELF)

    def build_and_queue_event(self, event: GroupedInotifyEvent, *, full_events: bool = False) -> None:
        super().build_and_queue_event(event, full_events=full_events)
        if not isinstance(event, PathedInotifyEvent):
            return
        is_own = event.path == os.fsencode(self.watch.path)
        if event.ev.mask & InotifyConstants.IN_UNMOUNT:
            self._on_doubt("a watched folder was unmounted")
        elif is_own and (event.ev.is_move_self or event.ev.is_delete_self):
            self._on_doubt("a watched folder was moved or deleted")


class LinuxObserver(BaseObserver):
    """One inotify instance and one dispatching thread for all watches."""

    system = "inotify"

    def __init__(self, on_doubt: OnDoubt, on_unwatched: OnUnwatched) -> None:
        self.reader = Reader(on_doubt, on_unwatched)
        self.reader.start()
        super().__init__(Emitter, reader=self.reader, on_doubt=on_doubt)
        self.name = "memsyncd-events"

    @property
    def n_watches(self) -> int:
        """How many of the kernel's watches are held."""
        return len(self.reader._watch_for_wd)

    def on_thread_stop(self) -> None:
        super().on_thread_stop()
        self.reader.stop()
        self.reader.join(JOIN_LIMIT_S)


def _add_watch(inotify: int, folder: int, path: bytes, mask: Mask) -> WatchDescriptor:
    """Add a watch to an open folder, or to what is at its path where there is no /proc."""
    flags = InotifyConstants.IN_ONLYDIR
    if HAS_PROC:
        path = b"/proc/self/fd/%d" % folder
    else:
        flags = Mask(flags | InotifyConstants.IN_DONT_FOLLOW)
    wd = inotify_c.inotify_add_watch(inotify, path, mask | flags)
    if wd == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return wd


def _list_folders(fd: int) -> list[bytes]:
    with os.scandir(fd) as entries:
        return [os.fsencode(one.name) for one in entries if one.is_dir(follow_symlinks=False)]


def _identify(fd: int) -> tuple[int, int]:
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino


def _is_within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")
