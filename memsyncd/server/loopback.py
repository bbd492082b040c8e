"""Opens the port of the loopback interface, and reads or creates the token that its clients send.

Every user of the machine can connect to a port, so each request must have the token, which only the
owner of the file can read. The file is kept over restarts: clients have the token in their
configuration.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import stat

from memsyncd.errors import BadConfig, Unsafe
from memsyncd.server.listen import BACKLOG

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
        # A port is free again as soon as its daemon has ended.
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
    """Return the token in this file, which is created if there is none.

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
    """Create the file whole: nobody ever reads a part of a token."""
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
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            message = f"the file of the token is not a file of yours: {path}"
            raise Unsafe(message, hint="see what it is and remove it")
        if found.st_mode & 0o077:
            mode = stat.S_IMODE(found.st_mode)
            message = f"others may read the file of the token (mode {mode:04o}): {path}"
            hint = "remove it; the next start creates another token"
            raise Unsafe(message, hint=hint)
        text = stream.read(1024)
    if not _TOKEN.fullmatch(text):
        hint = "remove it; the next start creates another token"
        raise Unsafe(f"the file holds no token of 32 characters or more: {path}", hint=hint)
    return text.strip()
