"""Results of `Memsyncd` with attributes: hits, a context, an iterator over changes."""

from __future__ import annotations

from memsyncd.client.connection import Client, Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from memsyncd.client.types import (
        AnsweringWorkspace,
        Changed,
        ContextPart,
        Freshness,
        Hit,
        LeftOutPart,
    )


def _complete(answer: dict[str, Any]) -> dict[str, Any]:
    # A daemon that was started before an update lacks what has come with it.
    return {"query_problems": [], "excluded": [], **answer}


class Hits(list["Hit"]):
    """The hits of a search, best first.

    `relaxed` is true if no hit contains every word. `workspaces` are those that were searched, with
    their roots, and the failures of those that are left out. Without hits, `why_empty` gives the
    reason and `did_you_mean` a corrected query. `query_problems` tells of filters that were read as
    words, and `excluded` what the query excluded.
    """

    __slots__ = (
        "did_you_mean",
        "excluded",
        "freshness",
        "query_problems",
        "relaxed",
        "why_empty",
        "workspaces",
    )

    workspaces: list[AnsweringWorkspace]
    relaxed: bool
    query_problems: list[str]
    excluded: list[str]
    why_empty: str | None
    did_you_mean: str | None
    freshness: Freshness

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer["hits"])
        answer = _complete(answer)
        for name in self.__slots__:
            setattr(self, name, answer[name])


class ContextBlock(str):
    """Markdown for a prompt, empty if nothing is relevant; then `why_empty` gives the reason.

    `included` and `left_out` list sections, best first; `tokens` is the size of the text, at 4
    characters a token.
    """

    __slots__ = (
        "excluded",
        "freshness",
        "included",
        "left_out",
        "query_problems",
        "tokens",
        "why_empty",
        "workspaces",
    )

    tokens: int
    workspaces: list[AnsweringWorkspace]
    included: list[ContextPart]
    left_out: list[LeftOutPart]
    why_empty: str | None
    query_problems: list[str]
    excluded: list[str]
    freshness: Freshness

    def __new__(cls, answer: dict[str, Any]) -> Self:
        block = super().__new__(cls, answer["text"])
        answer = _complete(answer)
        for name in cls.__slots__:
            setattr(block, name, answer[name])
        return block


class Changes(Closing):
    """An endless iterator over changes of the index. Closing it, or leaving its `with`, ends the
    subscription.
    """

    __slots__ = ("_connection", "_notifications")

    def __init__(self, connection: Client, timeout_s: float | None) -> None:
        self._connection = connection
        self._notifications = connection.notifications(timeout_s=timeout_s)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Changed:
        """Wait for the next change. Raises NoAnswer after the timeout, NoDaemon if the daemon goes
        away.
        """
        method, change = next(self._notifications)
        while method != "changed":
            method, change = next(self._notifications)
        found: Any = change
        changed: Changed = found
        return changed

    def close(self) -> None:
        self._connection.close()
