"""Opens the daemon's Unix socket, and its port on the loopback interface with a token.

`memsyncd.lock` makes sure that one daemon owns its folders. A stale socket file, on which no
process answers, is removed at the start. At the end the daemon removes its own socket file, unless
another file has taken its place. The file of a socket that systemd passed on is never removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import stat
import sys
import time
from collections.abc import Iterable, Iterator

from memsyncd.errors import AlreadyRunning, BadConfig, Unsafe
from memsyncd.lock import has_listener

PATH_LIMIT_BYTES = 103 if sys.platform == "darwin" else 107
"""The longest path of a Unix socket: sun_path without its closing NUL."""
BACKLOG = 256
# Longer than another daemon takes to replace a stale socket in the same folder.
FOLDER_TRIES, FOLDER_POLL_S = 150, 0.01

_PATH_HINT = (
    "set MEMSYNCD_SOCKET, or `path` under [socket], "
    "to a short absolute path in a folder of your own"
)
_UNIT_HINT = (
    "the socket unit is out of date; write it again: memsyncd service install --on-demand --replace"
)
_TAKEN_HINT = "end it with `memsyncd stop`, or name another path with MEMSYNCD_SOCKET"
_REMOVE_HINT = "see what it is and remove it"

_Identity = tuple[int, int, int]


class OwnedSocket:
    """A listening socket and its file, until `close`.

    The file of a socket that `is_inherited` belongs to systemd.
    """

    __slots__ = ("_identity", "_is_closed", "_is_inherited", "path", "sock")

    def __init__(self, sock: socket.socket, path: str, *, is_inherited: bool = False) -> None:
        self.sock = sock
        self.path = path
        self._is_inherited = is_inherited
        self._is_closed = False
        self._identity = _find_identity(path)

    def is_ours(self) -> bool:
        """True while the path leads to this socket. If not, no new client finds this daemon."""
        return self._identity is not None and _find_identity(self.path) == self._identity

    def rebind(self) -> socket.socket:
        """Listen at the path again after its file was removed; return the new socket.

        The old socket is not closed. Raises the errors of `open_socket`, such as AlreadyRunning if
        another daemon answers there now.
        """
        _make_folder(os.path.dirname(self.path))
        self.sock = _replace_stale(self.path)
        self._is_inherited = False
        self._identity = _find_identity(self.path)
        return self.sock

    def close(self) -> None:
        """Close the socket, and remove its file if it is still ours. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.is_ours() and not self._is_inherited:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self.sock.close()


def open_socket(path: str, *, inherited: socket.socket | None = None) -> OwnedSocket:
    """Bind and listen at `path`, for this user alone.

    An `inherited` socket that listens there is used as it is. Raises BadConfig for a path that a
    socket cannot have, or that differs from the inherited socket's; Unsafe for a folder or file
    that another user may have created or can reach; AlreadyRunning while another process answers
    there.
    """
    check_path(path)
    _make_folder(os.path.dirname(path))
    if inherited is not None:
        _check_inherited(inherited, path)
        return OwnedSocket(inherited, path, is_inherited=True)
    return OwnedSocket(_replace_stale(path), path)


def check_path(path: str) -> None:
    """Raise BadConfig unless a Unix socket can have this path."""
    n_bytes = len(os.fsencode(path))
    if not os.path.isabs(path) or "\0" in path or path.endswith("/"):
        raise BadConfig(f"not an absolute path of a file: {path!r}", hint=_PATH_HINT)
    if n_bytes > PATH_LIMIT_BYTES:
        message = f"the socket's path has {n_bytes} bytes, {PATH_LIMIT_BYTES} are possible: {path}"
        raise BadConfig(message, hint=_PATH_HINT)


def check_outside(path: str, roots: Iterable[str]) -> None:
    """Raise BadConfig if the socket is in one of these folders.

    A daemon must not change a folder that it watches.
    """
    folder = os.path.realpath(os.path.dirname(path))
    for root in roots:
        real_root = os.path.realpath(root)
        if os.path.commonpath((folder, real_root)) == real_root:
            message = f"the socket {path} would be inside the workspace {root}"
            raise BadConfig(message, hint=_PATH_HINT)


# --- the folder ---


def _make_folder(folder: str) -> None:
    """Create the folder with mode 0700; check that an existing one is private to this user."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        status = os.lstat(folder)
    except OSError as error:
        message = f"cannot make the socket's folder {folder}: {error.strerror}"
        raise BadConfig(message, hint=_PATH_HINT) from None
    if stat.S_ISLNK(status.st_mode):
        message = f"the socket's folder is a link: {folder}"
        raise Unsafe(message, hint="name the folder that it leads to")
    if not stat.S_ISDIR(status.st_mode):
        raise Unsafe(f"not a folder: {folder}", hint=_PATH_HINT)
    if status.st_uid != os.geteuid():
        message = f"the socket's folder belongs to user {status.st_uid}: {folder}"
        raise Unsafe(message, hint=_PATH_HINT)
    if status.st_mode & 0o022:
        mode = stat.S_IMODE(status.st_mode)
        message = f"others may write to the socket's folder (mode {mode:04o}): {folder}"
        raise Unsafe(message, hint=f"chmod 700 {folder}")


# --- the socket's file ---


def _find_identity(path: str) -> _Identity | None:
    """Return the identity of the file at this path; None if there is none.

    The time tells files apart that had the same inode number at different times.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _replace_stale(path: str) -> socket.socket:
    """Listen at the path in place of a stale file. If two daemons start at once, such as daemons of
    two state folders, they take turns, and the second one finds the first.
    """
    with _alone_in(os.path.dirname(path)):
        _remove_stale(path)
        return _bind(path)


@contextlib.contextmanager
def _alone_in(folder: str) -> Iterator[None]:
    """Hold a lock on the folder, if its file system supports locks."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(FOLDER_TRIES):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(FOLDER_POLL_S)
            except OSError:
                break
            else:
                break
        yield
    finally:
        os.close(fd)


def _remove_stale(path: str) -> None:
    """Remove a socket file on which no process answers.

    Raises AlreadyRunning if a process answers, Unsafe if the file is not a socket of this user.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        message = f"the file at the socket's path is no socket: {path}"
        raise Unsafe(message, hint=_REMOVE_HINT)
    if status.st_uid != os.geteuid():
        raise Unsafe(f"the socket {path} belongs to user {status.st_uid}", hint=_PATH_HINT)
    if has_listener(path):
        message = f"another process answers on {path}: a daemon of another version or state folder"
        raise AlreadyRunning(message, hint=_TAKEN_HINT)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _check_inherited(sock: socket.socket, path: str) -> None:
    """Check that clients find this socket at `path`, and that it is private to this user."""
    name = sock.getsockname()
    identity = _find_identity(path)
    if not isinstance(name, str) or identity is None or _find_identity(name) != identity:
        message = f"the inherited socket is at {name!r}, clients expect it at {path}"
        raise BadConfig(message, hint=_UNIT_HINT)
    status = os.lstat(path)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        message = f"others may reach the socket {path} (user {status.st_uid}, mode {mode:04o})"
        raise Unsafe(message, hint=_UNIT_HINT)


def _bind(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _private_mode(sock):
            sock.bind(path)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise BadConfig(f"cannot listen on {path}: {error.strerror}", hint=_PATH_HINT) from None
    return sock


@contextlib.contextmanager
def _private_mode(sock: socket.socket) -> Iterator[None]:
    """Let the socket's file have the mode 0600 from its first moment."""
    try:
        os.fchmod(sock.fileno(), 0o600)  # Linux creates the file with the unbound socket's mode
    except OSError:
        # The umask is the last resort, because all threads share it.
        before = os.umask(0o177)
        try:
            yield
        finally:
            os.umask(before)
    else:
        yield


# --- The port of the loopback interface -----------------------------------------------------------
# Every user of the machine can connect to a port, so each request must carry the token, which only
# the owner of its file can read. The file survives restarts, because clients have the token in
# their configuration.

TOKEN_BYTES = 32
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]{32,512}\s*")
_PORT_HINT = "name another port as `listen` under [http], or none"


def open_port(address: tuple[str, int]) -> socket.socket:
    """Bind this address and port; raises BadConfig if that is not possible."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise BadConfig(f"cannot listen on {host}: {error.strerror}", hint=_PORT_HINT) from None
    try:
        # So that the port is free again as soon as its daemon has ended.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        message = f"cannot listen on {host} port {port}: {error.strerror}"
        raise BadConfig(message, hint=_PORT_HINT) from None
    return sock


def make_url(sock: socket.socket) -> str:
    """Return the URL of a bound port."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def load_token(path: str) -> bytes:
    """Return the token in this file; create the file if there is none.

    Raises Unsafe if others can read the file or it holds no token, BadConfig if it cannot be read.
    """
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if not os.path.lexists(path):
            _create_token(path)
        return _read_token(path)
    except OSError as error:
        message = f"cannot use the file of the token {path}: {error.strerror}"
        raise BadConfig(message, hint="remove it; the next start creates another one") from None


def _create_token(path: str) -> None:
    """Create the file in one step, so that no program reads a part of a token."""
    import secrets  # late: needed once in the life of a token

    temporary = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o600)
    try:
        with open(file, "wb") as stream:
            stream.write(secrets.token_urlsafe(TOKEN_BYTES).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _read_token(path: str) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            message = f"the file of the token is not a file of yours: {path}"
            raise Unsafe(message, hint="see what it is and remove it")
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            message = f"others may read the file of the token (mode {mode:04o}): {path}"
            hint = "remove it; the next start creates another token"
            raise Unsafe(message, hint=hint)
        text = stream.read(1024)
    if not _TOKEN.fullmatch(text):
        hint = "remove it; the next start creates another token"
        raise Unsafe(f"the file holds no token of 32 characters or more: {path}", hint=hint)
    return text.strip()
