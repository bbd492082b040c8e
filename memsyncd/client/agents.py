"""The calls of `Memsyncd` by which agents keep track of what they read, and signal each other.

with Memsyncd("~/code/api", client="builder", session="2026-11-23-a") as memory:
memory.get(".memories/redis.md#redis/timeouts")
print(memory.access_stats(".memories/redis.md")["counts"])
memory.send_signal("WU-123 is done", type="completion", task="WU-124")

with Memsyncd("~/code/api", client="reviewer") as memory:
for signal in memory.inbox(agent="reviewer", task="WU-124"):
print(signal["sender"], signal["content"])
memory.ack_signals(signal["id"], agent="reviewer", task="WU-124")
"""

from __future__ import annotations

from memsyncd.client.anchors import read_target
from memsyncd.client.connection import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, Literal

    from memsyncd.client.memory import WorkspaceConnection
    from memsyncd.client.types import AccessStats, Signal, SignalsAcked, SignalSent, Words


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

    # --- signals ---

    def send_signal(
        self,
        content: str,
        *,
        type: str = "note",  # noqa: A002  as the protocol names it
        agent: Words = (),
        session: Words = (),
        task: Words = (),
        key: str | None = None,
        expires_s: float | None = None,
    ) -> SignalSent:
        """Send a signal to agents, sessions or tasks; each one named gets it.

        Repeating the call with the same `key` sends nothing more. Raises Busy if as many signals
        wait to be read as may.
        """
        params = {
            "content": content,
            "type": type,
            "agent": _read_words(agent),
            "session": _read_words(session),
            "task": _read_words(task),
            "key": key,
            "expires_s": expires_s,
            "client": self._connection.client_name,
        }
        sent: SignalSent = self._connection.ask("signal.send", params)
        return sent

    def inbox(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        task: str | None = None,
        type: str | None = None,  # noqa: A002  as the protocol names it
        include_read: bool = False,
        limit: int = 50,
    ) -> list[Signal]:
        """Return the signals to an agent, a session or a task, the unread ones first."""
        params = {
            "agent": agent,
            "session": session,
            "task": task,
            "type": type,
            "include_read": include_read,
            "limit": limit,
        }
        found: list[Signal] = self._connection.ask("signal.inbox", params)["signals"]
        return found

    def outbox(self, *, everyone: bool = False, limit: int = 50) -> list[Signal]:
        """Return the signals that this client has sent, the latest first, with their receipts."""
        params = {"client": self._connection.client_name, "everyone": everyone, "limit": limit}
        found: list[Signal] = self._connection.ask("signal.outbox", params)["signals"]
        return found

    def ack_signals(
        self,
        *signals: int,
        agent: str | None = None,
        session: str | None = None,
        task: str | None = None,
    ) -> SignalsAcked:
        """Acknowledge signals, by their ids: the reader, which is the agent, else the session, else
        the task, receives them no more.
        """
        params = {"signals": list(signals), "agent": agent, "session": session, "task": task}
        acked: SignalsAcked = self._connection.ask("signal.ack", params)
        return acked

    def watch_signals(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        task: str | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Signal]:
        """Yield the unread signals to a reader, then each new one as it is sent.

        The iterator has a connection of its own, until it is closed. With `timeout_s`, waiting
        longer for a signal raises NoAnswer.
        """
        reader = {"agent": agent, "session": session, "task": task}
        given = {name: value for name, value in reader.items() if value is not None}
        connection = self._connection.connect()
        try:
            connection.call("subscribe", workspace=self._connection.workspace, signals=given)
            for method, params in connection.notifications(timeout_s=timeout_s):
                notice: Any = params
                if method == "signal":
                    yield notice["signal"]
        finally:
            connection.close()


def _read_words(words: Words) -> Sequence[str]:
    return [words] if isinstance(words, str) else list(words)
