"""The calls of `Memsyncd` by which agents keep track of what they read.

    with Memsyncd("~/code/api", client="release-bot", session="2026-11-23-a") as memory:
        memory.context("database")
        memory.get(".memories/redis.md#redis/timeouts")
        for one in memory.access_stats(".memories/redis.md")["counts"]:
            print(one["count"], one["anchor"])

An access counts for the section that was returned, once for each session. Calls without a session
count each time.
"""

from __future__ import annotations

from memsyncd.client.anchors import read_target
from memsyncd.client.connection import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from memsyncd.client.memory import WorkspaceConnection
    from memsyncd.client.types import AccessStats


class AgentMethods(Closing):
    """The part of `Memsyncd` for agents.

    `session` names the caller's session. Each method raises what `Memsyncd` raises.
    """

    def __init__(self, connection: WorkspaceConnection, session: str | None) -> None:
        self._connection = connection
        self._session = session

    def access_stats(
        self,
        target: str | None = None,
        *,
        sort: Literal["count", "last"] = "count",
        limit: int = 20,
    ) -> AccessStats:
        """Return how often the sections of a note, a folder or the workspace were recalled, or one
        section with those beneath it; the most often or the most recently recalled first.
        """
        params = read_target(target) | {"sort": sort, "limit": limit}
        stats: AccessStats = self._connection.ask("access.stats", params)
        return stats

    def record_access(self, *anchors: str) -> None:
        """Count accesses of sections that were read without memsyncd."""
        params = {"anchors": list(anchors), "caller_session": self._session}
        self._connection.ask("access.record", params)
