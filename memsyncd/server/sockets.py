"""How does a daemon come to own its socket, and nobody else's? Lock first, look who answers, only then bind.

The lock file is never unlinked: between one daemon's unlink and another's open, two could hold "the" lock. A socket's file is
removed only if nobody answers on it, or at the end if it is still the one made here; never if it is lent by who started this
process. What goes over it is left to `unix`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import sys
from collections.abc import Iterable, Iterator

from memsyncd.errors import AlreadyRunning, BadConfig, Unsafe

PATH_LIMIT_BYTES = 103 if sys.platform == "darwin" else 107
"""Of a Unix socket's path: sun_path without its closing NUL."""
BACKLOG = 256
POKE_TIMEOUT_S = 1.0

_PATH_HINT = "set MEMSYNCD_SOCKET, or `path` under [socket], to a short absolute path in a folder of your own"
_LENT_HINT = "the socket unit is out of date; write it anew: memsyncd service install --on-demand"
_RUNNING_HINT = "use it as it is, or end it with `memsyncd stop`"

_Identity = tuple[int, int, int]


class OwnedSocket:
    """A listening socket, its file and the lock on it, until `close`. The file of one that `is_lent` is its lender's."""

    __slots__ = ("_identity", "_is_lent", "_lock_fd", "path", "sock")

    def __init__(self, sock: socket.socket, path: str, lock_fd: int, *, is_lent: bool = False) -> None:
        self.sock = sock
        self.path = path
        self._is_lent = is_lent
        self._lock_fd = lock_fd
        self._identity = _find_identity(path)

    def is_ours(self) -> bool:
        """True while the path names the socket made here. If not, clients cannot find this daemon any more."""
        return self._identity is not None and _find_identity(self.path) == self._identity

    def rebind(self) -> socket.socket:
        """Listen at the path anew after its file was taken away, and give the socket to serve; the old one is not closed.

        Raises as `open_socket` does, AlreadyRunning if another daemon answers there by now.
        """
        _make_folder(os.path.dirname(self.path))
        _clear_stale(self.path)
        self.sock = _bind(self.path)
        self._is_lent = False
        self._identity = _find_identity(self.path)
        return self.sock

    def close(self) -> None:
        """Close the socket, remove its file if that is still ours, then let go of the lock. Again: nothing."""
        if self._lock_fd < 0:
            return
        if self.is_ours() and not self._is_lent:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self.sock.close()
        os.close(self._lock_fd)
        self._lock_fd = -1


def open_socket(path: str, lock_path: str, *, lent: socket.socket | None = None) -> OwnedSocket:
    """Lock, then bind and listen at `path`, for this user alone; or take the socket that is `lent` and listens there already.

    Raises BadConfig for a path that cannot be a socket's, or is not the lent one's; Unsafe for a folder or file that others could
    have put there or could reach; AlreadyRunning, with `pid` in its data if that is known, while another daemon lives.
    """
    check_path(path)
    for folder in {os.path.dirname(path), os.path.dirname(lock_path)}:
        _make_folder(folder)
    lock_fd = _take_lock(lock_path)
    try:
        if lent is not None:
            _check_lent(lent, path)
            return OwnedSocket(lent, path, lock_fd, is_lent=True)
        _clear_stale(path)
        return OwnedSocket(_bind(path), path, lock_fd)
    except BaseException:
        os.close(lock_fd)
        raise


def check_path(path: str, *, limit_bytes: int = PATH_LIMIT_BYTES) -> None:
    """Raise BadConfig unless a Unix socket can have this path."""
    n_bytes = len(os.fsencode(path))
    if not os.path.isabs(path) or "\0" in path or path.endswith("/"):
        raise BadConfig(f"not an absolute path of a file: {path!r}", hint=_PATH_HINT)
    if n_bytes > limit_bytes:
        raise BadConfig(f"the socket's path has {n_bytes} bytes, {limit_bytes} are possible: {path}", hint=_PATH_HINT)


def check_outside(path: str, roots: Iterable[str]) -> None:
    """Raise BadConfig if the socket would lie in one of these folders: what is watched is no place for what changes by itself."""
    folder = os.path.realpath(os.path.dirname(path))
    for root in roots:
        real_root = os.path.realpath(root)
        if os.path.commonpath((folder, real_root)) == real_root:
            raise BadConfig(f"the socket {path} would lie inside the workspace {root}", hint=_PATH_HINT)


# --- folder and lock ------------------------------------------------------------------------------------------------


def _make_folder(folder: str) -> None:
    """Make it 0700 if it is missing; if it is there, see that it is ours and that nobody else can put things into it."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError as error:
        raise BadConfig(f"cannot make the socket's folder {folder}: {error.strerror}", hint=_PATH_HINT) from None
    if stat.S_ISLNK(found.st_mode):
        raise Unsafe(f"the socket's folder is a link: {folder}", hint="name the folder that it leads to")
    if not stat.S_ISDIR(found.st_mode):
        raise Unsafe(f"not a folder: {folder}", hint=_PATH_HINT)
    if found.st_uid != os.geteuid():
        raise Unsafe(f"the socket's folder belongs to user {found.st_uid}: {folder}", hint=_PATH_HINT)
    if found.st_mode & 0o022:
        mode = stat.S_IMODE(found.st_mode)
        raise Unsafe(f"others may write to the socket's folder (mode {mode:04o}): {folder}", hint=f"chmod 700 {folder}")


def _take_lock(lock_path: str) -> int:
    """The descriptor that holds the lock for as long as it is open. It is not inherited by children."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        lock_fd = os.open(lock_path, flags, 0o600)
    except OSError as error:
        raise Unsafe(f"cannot open the lock file {lock_path}: {error.strerror}", hint="see what it is and remove it") from None
    try:
        _lock(lock_fd, lock_path)
        os.ftruncate(lock_fd, 0)
        os.pwrite(lock_fd, b"%d\n" % os.getpid(), 0)
    except BaseException:
        os.close(lock_fd)
        raise
    return lock_fd


def _lock(lock_fd: int, lock_path: str) -> None:
    if not stat.S_ISREG(os.fstat(lock_fd).st_mode):
        raise Unsafe(f"the lock file is not a regular file: {lock_path}", hint="see what it is and remove it")
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _already_running(_read_pid(lock_fd)) from None
    except OSError as error:
        raise BadConfig(f"cannot lock {lock_path}: {error.strerror}", hint=_PATH_HINT) from None


def _read_pid(lock_fd: int) -> int | None:
    """Who holds the lock; None if that one has not written its number yet."""
    text = os.pread(lock_fd, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _already_running(pid: int | None) -> AlreadyRunning:
    if pid is None:
        return AlreadyRunning("memsyncd is already running", hint=_RUNNING_HINT)
    return AlreadyRunning(f"memsyncd is already running, as process {pid}", hint=_RUNNING_HINT, pid=pid)


# --- the socket's file ----------------------------------------------------------------------------------------------


def _find_identity(path: str) -> _Identity | None:
    """Which file is at this path; None if there is none. The time tells apart files that got the same number in turn."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _clear_stale(path: str) -> None:
    """Remove a socket that nobody answers on. Raises AlreadyRunning if somebody does, Unsafe if it is no socket of ours."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise Unsafe(f"what is at the socket's path is no socket: {path}", hint="see what it is and remove it")
    if found.st_uid != os.geteuid():
        raise Unsafe(f"the socket {path} belongs to user {found.st_uid}", hint=_PATH_HINT)
    if _has_answer(path):
        raise _already_running(None)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _check_lent(sock: socket.socket, path: str) -> None:
    """See that the socket is the one that clients find at `path`, and that nobody else can reach it."""
    name = sock.getsockname()
    if not isinstance(name, str) or _find_identity(path) is None or _find_identity(name) != _find_identity(path):
        raise BadConfig(f"the socket that was handed over lies at {name!r}, clients look for it at {path}", hint=_LENT_HINT)
    found = os.lstat(path)
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise Unsafe(f"others may reach the socket {path} (user {found.st_uid}, mode {mode:04o})", hint=_LENT_HINT)


def _has_answer(path: str) -> bool:
    """Whether a process holds this socket open; one that is too busy to accept does, too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as poker:
        poker.settimeout(POKE_TIMEOUT_S)
        try:
            poker.connect(path)
        except OSError as error:
            return error.errno not in {errno.ECONNREFUSED, errno.ENOENT}
    return True


def _bind(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _private(sock):
            sock.bind(path)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise BadConfig(f"cannot listen on {path}: {error.strerror}", hint=_PATH_HINT) from None
    return sock


@contextlib.contextmanager
def _private(sock: socket.socket) -> Iterator[None]:
    """See to it that the socket's file is 0600 from its first moment. The umask, which all threads share, is the last resort."""
    try:
        os.fchmod(sock.fileno(), 0o600)  # Linux makes the file with the mode of the unbound socket
    except OSError:
        before = os.umask(0o177)
        try:
            yield
        finally:
            os.umask(before)
    else:
        yield
