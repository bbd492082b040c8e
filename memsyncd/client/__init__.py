"""Clients of the daemon: `connect` for any method, `Memsyncd` for the memory of one workspace.

    from memsyncd.client import Memsyncd

    with Memsyncd("~/code/api") as memory:
        memory.add("Redis gives up after 30 s.", kind="decision", tags=["redis"])
        for hit in memory.search("redis timeout"):
            print(hit["path"], hit["start_line"], hit["snippet"])

Only the standard library is imported; `Memsyncd` is imported on first use.
"""

from __future__ import annotations

from memsyncd.client.connection import (
    TIMEOUT_S,
    Client,
    NoAnswer,
    OtherVersion,
    connect,
    find_sockets,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsyncd.client.memory import Memsyncd

__all__ = ["TIMEOUT_S", "Client", "Memsyncd", "NoAnswer", "OtherVersion", "connect", "find_sockets"]


def __getattr__(name: str) -> object:
    # The command line needs only a connection and pays for every module that is imported.
    if name == "Memsyncd":
        from memsyncd.client.memory import Memsyncd

        return Memsyncd
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
