"""Does somebody supervise this process, and what is said to them? Lines of sd_notify(3), in a datagram each.

Nobody supervises where `NOTIFY_SOCKET` is not set. A word that cannot be sent is lost: a supervisor that is gone is no reason to
end, and one that is there notices by itself what it does not hear.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
SEND_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Who started this process and wants to hear how it is. `watchdog_s`: it must hear so often that all is well; None: never."""

    address: str
    watchdog_s: float | None

    def tell(self, **words: object) -> None:
        """Say `READY=1`, `STATUS=…` and so on, in one message."""
        message = "\n".join(f"{name}={' '.join(str(value).split())}" for name, value in words.items())
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(SEND_TIMEOUT_S)
            sock.sendto(message.encode(), self.address)


def find_supervisor(env: Mapping[str, str], pid: int) -> Supervisor | None:
    """Who supervises process `pid`; None if nobody does. An address that begins with `@` is an abstract one."""
    address = env.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return None
    usec = env.get("WATCHDOG_USEC", "")
    is_watched = usec.isdecimal() and int(usec) > 0 and env.get("WATCHDOG_PID", str(pid)) == str(pid)
    return Supervisor(f"\0{address[1:]}" if address[0] == "@" else address, int(usec) / 1e6 if is_watched else None)
