"""What comes of a question, and of waiting? A list, a text and an iterator that know more than their items."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    from memsyncd.client.answers import Changed, ContextPart, Freshness, Hit
    from memsyncd.client.connection import Client


class Hits(list["Hit"]):
    """What a search found, best first.

    `relaxed` is true if no hit holds every word. Without hits, `why_empty` says why, and `did_you_mean` what may have been meant.
    """

    __slots__ = ("did_you_mean", "freshness", "relaxed", "why_empty")

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer["hits"])
        self.relaxed: bool = answer["relaxed"]
        self.why_empty: str | None = answer["why_empty"]
        self.did_you_mean: str | None = answer["did_you_mean"]
        self.freshness: Freshness = answer["freshness"]


class Block(str):
    """Markdown for a prompt, empty if nothing is relevant; then `why_empty` says why.

    `included` and `left_out` name places, best first; `tokens` is what the text takes, at 4 characters a token.
    """

    __slots__ = ("freshness", "included", "left_out", "tokens", "why_empty")

    tokens: int
    included: list[ContextPart]
    left_out: list[ContextPart]
    why_empty: str | None
    freshness: Freshness

    def __new__(cls, answer: dict[str, Any]) -> Self:
        block = super().__new__(cls, answer["text"])
        for name in cls.__slots__:
            setattr(block, name, answer[name])
        return block


class Changes:
    """Changes of the index as they happen, for ever. Closing it, or leaving its `with`, ends the subscription."""

    __slots__ = ("_connection", "_notifications")

    def __init__(self, connection: Client, timeout_s: float | None) -> None:
        self._connection = connection
        self._notifications = connection.notifications(timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Changed:
        """Wait for the next one. Raises NoAnswer if there is none for so long, NoDaemon if the daemon goes away."""
        method, change = next(self._notifications)
        while method != "changed":
            method, change = next(self._notifications)
        found: Any = change
        changed: Changed = found
        return changed

    def close(self) -> None:
        self._connection.close()
