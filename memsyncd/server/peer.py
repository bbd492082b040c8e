"""Who is at the other end of a Unix socket? Its user, as the kernel says."""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from typing import Protocol

_UCRED = struct.Struct("3i")  # Linux: pid, uid, gid
_XUCRED = struct.Struct("=2I")  # macOS: version, uid; then what is of no use here
_XUCRED_BYTES = 76
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2


class PeerSocket(Protocol):
    """As much of a socket as asyncio shows of its own."""

    def fileno(self) -> int: ...

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def read_peer(sock: PeerSocket) -> tuple[int, int]:
    """The uid and pid of the peer. Raises OSError if the kernel does not say: then trust nobody."""
    if sys.platform == "darwin":
        uid = _XUCRED.unpack_from(sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES))[1]
        pid = struct.unpack("i", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))[0]
    else:
        pid, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return uid, pid


def is_own_user(uid: int) -> bool:
    """True for the user this process runs as. Root is nobody special: it can become that user if it must."""
    return uid == os.geteuid()


def is_gone(sock: PeerSocket) -> bool:
    """True if the peer, having ended its side, does not read either: nothing that is sent now would be seen."""
    poll = select.poll()
    poll.register(sock.fileno(), 0)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))
