"""Read who is at the other end of a Unix socket, and whether it still is there."""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from typing import Protocol

_UCRED = struct.Struct("3i")  # Linux: pid, uid, gid
_XUCRED = struct.Struct("=2I")  # macOS: version, uid; the rest is not used
_XUCRED_BYTES = 76
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2


class PeerSocket(Protocol):
    """The methods of asyncio's TransportSocket that are used here."""

    def fileno(self) -> int: ...

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def read_peer(sock: PeerSocket) -> tuple[int, int]:
    """Return the uid and pid of the peer, from the kernel.

    Raises OSError if the kernel does not report them: then the peer must not be trusted.
    """
    if sys.platform == "darwin":
        credentials = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)
        uid = _XUCRED.unpack_from(credentials)[1]
        pid = struct.unpack("i", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))[0]
    else:
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        pid, uid, _ = _UCRED.unpack(credentials)
    return uid, pid


def is_own_user(uid: int) -> bool:
    """True for the user of this process. Root is no exception: it can become that user."""
    return uid == os.geteuid()


def has_hung_up(sock: PeerSocket) -> bool:
    """True if a peer that has ended its side does not read either: no answer can reach it."""
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    closed = select.POLLHUP | select.POLLERR | select.POLLNVAL
    return any(events & closed for _, events in poll.poll(0))
