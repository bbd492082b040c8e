"""The ways for programs to ask the daemon: `connect` for any method, `Memsyncd` for one workspace and its memory.

    from memsyncd.client import Memsyncd

    with Memsyncd("~/code/api") as memory:
        memory.add("Redis gives up after 30 s.", kind="decision", tags=["redis"])
        for hit in memory.search("redis timeout"):
            print(hit["path"], hit["start_line"], hit["snippet"])

Only the standard library is imported, and `Memsyncd` only by those who name it.
"""

from __future__ import annotations

from memsyncd.client.connection import TIMEOUT_S, Client, NoAnswer, connect, find_sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsyncd.client.memory import Memsyncd

__all__ = ["TIMEOUT_S", "Client", "Memsyncd", "NoAnswer", "connect", "find_sockets"]


def __getattr__(name: str) -> object:
    # Hooks and shells pay for every module, and ask for a connection alone.
    if name == "Memsyncd":
        from memsyncd.client.memory import Memsyncd

        return Memsyncd
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
