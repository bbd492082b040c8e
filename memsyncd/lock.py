"""Let one daemon own a state folder and a cache folder, and find the daemon that owns them.

Each folder has a file that the daemon keeps locked, and in which it writes where it listens. The
system releases the lock, however the process ends. The text of a killed daemon stays, and costs a
client a failed connection. The file is never unlinked: between the unlink of a daemon and the open
of another, two daemons could each hold "the" lock.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from memsyncd.errors import AlreadyRunning, BadConfig, Unsafe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT_BYTES = 4096
# A command that looks for a running daemon shares the lock for a moment, so the daemon tries again.
TRIES, POLL_S = 5, 0.01
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})
"""The errors of a file system without locks."""
PROBE_TIMEOUT_S = 1.0

RUNNING_HINT = "use it as it is, or end it with `memsyncd stop`"
_REMOVE_HINT = "see what it is and remove it"


# This is no dataclass: importing `dataclasses` takes a client longer than its request.
class Holder:
    """The daemon that a lock file names."""

    __slots__ = ("pid", "socket_path", "version")

    def __init__(self, pid: int, version: str, socket_path: str) -> None:
        self.pid = pid
        self.version = version
        self.socket_path = socket_path

    def render(self) -> bytes:
        return b"%d\n%s\n%s\n" % (
            self.pid,
            self.version.encode(),
            os.fsencode(self.socket_path),
        )


def parse_holder(text: bytes) -> Holder | None:
    """Return the daemon that the text of a lock file names; None for any other text."""
    pid, _, rest = text.partition(b"\n")
    version, _, path = rest.partition(b"\n")
    if not (pid.isdigit() and path.startswith(b"/") and path.endswith(b"\n")):
        return None
    return Holder(int(pid), version.decode("ascii", "replace"), os.fsdecode(path[:-1]))


def read_holder(path: str) -> Holder | None:
    """Return the daemon that the lock file names, or None. The daemon may have ended."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return parse_holder(os.read(fd, LIMIT_BYTES))
    except OSError:
        return None
    finally:
        os.close(fd)


def is_held(paths: Iterable[str]) -> bool:
    """Return whether a process holds the lock of one of these files."""
    return any(_is_held(path) for path in paths)


def _is_held(path: str) -> bool:
    import fcntl  # imported here because most commands never need it

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


# --- the daemon's side --------------------------------------------------------------------------


class FolderLocks:
    """The locks of a daemon on its folders, until `close` or the end of the process.

    `problem` says why a folder is not locked, or why its lock file names nobody; empty if all is
    well. Child processes do not inherit the locks.
    """

    def __init__(self, paths: Iterable[str], holder: Holder) -> None:
        """Lock the folders. Raises AlreadyRunning if another daemon has a folder.

        The error has the `pid` and `socket` of that daemon if they are known. Raises Unsafe if a
        lock file is a link or not a regular file.
        """
        self._holder = holder
        self._paths = tuple(paths)
        self._fds: dict[str, int] = {}
        self._problems: dict[str, str] = {}
        try:
            for path in self._paths:
                self._lock(path)
        except BaseException:
            self.close()
            raise

    @property
    def problem(self) -> str:
        return "; ".join(self._problems.values())

    def renew(self) -> None:
        """Lock again each file that was removed or replaced meanwhile, or that could not be opened.

        Raises AlreadyRunning if another daemon has locked one meanwhile; Unsafe as the constructor.
        """
        for path in self._paths:
            fd = self._fds.get(path)
            if fd is None or _is_replaced(fd, path):
                self._lock(path)
                if fd is not None and self._fds[path] != fd:
                    os.close(fd)

    def close(self) -> None:
        """Release the locks. The files stay, without text."""
        while self._fds:
            _, fd = self._fds.popitem()
            _write(fd, b"")
            os.close(fd)

    def _lock(self, path: str) -> None:
        folder = os.path.dirname(path)
        self._problems.pop(path, None)
        try:
            fd = _open(path)
        except OSError as error:
            _refuse_second(path)
            self._problems[path] = _describe_unlocked(folder, str(error.strerror))
            return
        try:
            reason = _acquire(fd, path)
            if reason:
                _refuse_second(path)
                self._problems[path] = _describe_unlocked(folder, reason)
        except BaseException:
            os.close(fd)
            raise
        self._fds[path] = fd
        reason = _write(fd, self._holder.render())
        if reason:
            unsaid = f"{path} cannot be written ({reason}): clients may not find this daemon"
            self._problems.setdefault(path, unsaid)


def _describe_unlocked(folder: str, reason: str) -> str:
    return f"{folder} cannot be locked ({reason}): a second daemon could start on it"


def _refuse_second(path: str) -> None:
    """Raise AlreadyRunning if the daemon that an unlocked file names answers."""
    holder = read_holder(path)
    if holder is not None and holder.pid != os.getpid() and has_listener(holder.socket_path):
        raise make_running_error(holder)


def _open(path: str) -> int:
    """Open a lock file. Raises OSError, and Unsafe if it is not a regular file."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno == errno.EROFS:  # an existing file can still be locked
            return os.open(path, flags & ~(os.O_RDWR | os.O_CREAT))
        if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}:
            raise _make_unsafe(path) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _make_unsafe(path)
    return fd


def _acquire(fd: int, path: str) -> str:
    """Take the lock. Return why the file system has no locks; empty if it has.

    Raises AlreadyRunning if another process has the lock.
    """
    import fcntl

    for n_left in reversed(range(TRIES)):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not n_left:
                raise make_running_error(parse_holder(os.pread(fd, LIMIT_BYTES, 0))) from None
            time.sleep(POLL_S)
        except OSError as error:
            if error.errno in NO_LOCKS:
                return str(error.strerror)
            message = f"cannot lock {path}: {error.strerror}"
            raise BadConfig(message, hint=_REMOVE_HINT) from None
        else:
            break
    return ""


def _write(fd: int, text: bytes) -> str:
    """Replace the text. Return why that is impossible; empty if it succeeded."""
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, text, 0)
    except OSError as error:
        is_read_only = error.errno in {errno.EBADF, errno.EINVAL}  # it was opened read-only
        return os.strerror(errno.EROFS) if is_read_only else str(error.strerror)
    return ""


def _is_replaced(fd: int, path: str) -> bool:
    """True if the path has another file or none. A file that cannot be examined counts as equal."""
    try:
        return not os.path.samestat(os.fstat(fd), os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _make_unsafe(path: str) -> Unsafe:
    return Unsafe(f"the lock file is not a regular file: {path}", hint=_REMOVE_HINT)


def make_running_error(holder: Holder | None) -> AlreadyRunning:
    """Make the error of a daemon that finds another daemon."""
    if holder is None:
        return AlreadyRunning("memsyncd is already running", hint=RUNNING_HINT)
    message = f"memsyncd is already running, as process {holder.pid}, on {holder.socket_path}"
    return AlreadyRunning(message, hint=RUNNING_HINT, pid=holder.pid, socket=holder.socket_path)


def has_listener(path: str) -> bool:
    """Return whether a process holds this socket open, even if it is too busy to accept."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_TIMEOUT_S)
        try:
            probe.connect(path)
        except OSError as error:
            return error.errno not in {errno.ECONNREFUSED, errno.ENOENT}
    return True
