"""Define what one client, or all of them together, may use of the server."""

from __future__ import annotations

from memsyncd.config import SocketConfig


class Limits(SocketConfig, frozen=True, kw_only=True):
    """What one client, or all of them together, may use: the configured limits and those that have
    no key. A time of 0 s means: no limit.
    """

    # Requests of one client without an answer; at this many its further lines wait unread.
    max_pending_per_client: int = 32
    max_reply_bytes: int = 8 * 1024 * 1024
    # Unfinished lines and unread answers of all clients; beyond it the largest is dropped.
    max_buffered_bytes: int = 64 * 1024 * 1024
    # How long a client may leave a full buffer wholly unread.
    write_timeout_s: float = 30.0
    idle_timeout_s: float = 0.0
