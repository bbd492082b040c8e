"""Did who started this process hand it a listening socket, as systemd does once a client has connected?

The protocol is that of sd_listen_fds(3): descriptors from 3 on, meant for the process that `LISTEN_PID` names. What is not
exactly one listening Unix stream socket is refused by its name: to serve something else would leave clients without an answer.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping

from memsyncd.errors import BadConfig

FIRST_DESCRIPTOR = 3
NAMES = ("memsyncd", "memsyncd.socket")
"""How a socket unit may call it: by `FileDescriptorName=`, or without one by its own name."""
VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")

_HINT = "hand over the one socket that memsyncd.socket describes, or none"


def take_lent_socket(env: Mapping[str, str], pid: int) -> socket.socket | None:
    """The socket that was handed over to process `pid`, None if none was. Its path is for others to check.

    Raises BadConfig for anything but one listening Unix stream socket of the right name.
    """
    if env.get("LISTEN_PID") != str(pid):
        return None
    count, name = env.get("LISTEN_FDS", ""), env.get("LISTEN_FDNAMES", NAMES[0])
    if count == "0":
        return None
    if count != "1" or name not in NAMES:
        raise BadConfig(f"one socket called {NAMES[0]} is taken, but LISTEN_FDS={count} LISTEN_FDNAMES={name}", hint=_HINT)
    return _take(FIRST_DESCRIPTOR)


def _take(descriptor: int) -> socket.socket:
    try:
        is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        is_socket = False
    if not is_socket:
        raise BadConfig(f"what was handed over as descriptor {descriptor} is no socket", hint=_HINT)
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - it has no other form
    sock = socket.socket(fileno=descriptor)
    if (sock.family, sock.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
        raise _refuse(sock, "is no Unix stream socket")
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise _refuse(sock, "does not listen")
    return sock


def _refuse(sock: socket.socket, what: str) -> BadConfig:
    sock.detach()
    return BadConfig(f"the socket that was handed over {what}", hint=_HINT)
