"""Put what memory holds on a request into the messages of a chat, before the request.

    context = MemoryContext("~/code/api", max_tokens=800)
    send(messages=context.insert(messages))

`insert` returns new messages; those of the caller stay as they are. A block, once sent, stays in
its place in later requests of the same conversation and keeps its bytes, so that the provider's
prompt cache holds. What has changed since is added to the newest message alone, during a loop of
tools, too: below the results, as a block that says that it replaces the one above. Nothing is added
where memory holds nothing on the request, or the same as the block above.

A daemon that does not answer within `timeout_s` does not break the chat: the request goes out
without a new block. The logger `memsyncd.integrations` gets one warning when that begins and a line
when it ends; `on_failure` is called with each error.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from memsyncd.client import NoAnswer, connect
from memsyncd.client.words import name_workspace
from memsyncd.client.workspace import choose_workspace
from memsyncd.errors import MemsyncdError, NotFresh
from memsyncd.protocol.prompt_query import make_query

MessageFormat = Literal["anthropic", "openai", "bedrock"]
OnFailure = Callable[[MemsyncdError], None]

HEADING = "## Memory Context"
REPLACING = f"{HEADING} (replaces the one above)"
MAX_TOKENS = 1000
BUDGETS = range(100, 50_001)
"""What the daemon accepts as `max_tokens`."""
TIMEOUT_S = 2.0
# The block and the request are texts of their own, which providers join without a blank line.
SEPARATOR, SEPARATOR_TOKENS = "\n\n", 1
MAX_REMEMBERED = 4096
"""Messages whose blocks are remembered; of a longer history the oldest lose them."""
# Where a caller marks what the provider shall cache. The marks move from request to request.
CACHE_MARKS = frozenset({"cache_control", "cachePoint"})

logger = logging.getLogger("memsyncd.integrations")


class Conversation(NamedTuple):
    """The messages of a conversation so far: their digest, what the user asked last, and the last
    block.
    """

    key: bytes
    request: str
    shown: str


BEGINNING = Conversation(b"", "", "")


class MemoryContext:
    """Inserts the block for one workspace into the messages of any number of conversations.

    `workspace` is a name, an id or a path inside one; by default that of the current folder, else
    the only one. `query` is what to look up; None for the text of the request, empty for what every
    session should know. `max_tokens` limits each block. It can be shared between threads. Raises
    ValueError for a budget that the daemon does not accept.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        query: str | None = None,
        max_tokens: int = MAX_TOKENS,
        timeout_s: float = TIMEOUT_S,
        on_failure: OnFailure | None = None,
    ) -> None:
        if max_tokens not in BUDGETS:
            raise ValueError(f"max_tokens is from {BUDGETS[0]} to {BUDGETS[-1]}, not {max_tokens}")
        self._workspace = None if workspace is None else name_workspace(workspace)
        self._query = query
        self._max_tokens = max_tokens
        self._timeout_s = timeout_s
        self._on_failure = on_failure
        self._has_failed = False
        self._blocks: OrderedDict[bytes, str] = OrderedDict()
        self._lock = threading.Lock()

    def insert(
        self, messages: Sequence[Mapping[str, Any]], form: MessageFormat = "anthropic"
    ) -> list[Mapping[str, Any]]:
        """Return the messages of a request with the blocks of memory in them."""
        return self.extend(BEGINNING, messages, form)[0]

    def extend(
        self,
        conversation: Conversation,
        messages: Sequence[Mapping[str, Any]],
        form: MessageFormat = "anthropic",
    ) -> tuple[list[Mapping[str, Any]], Conversation]:
        """As `insert`, for messages that follow a conversation which the provider keeps.

        Also returns the conversation with these messages.
        """
        sent = list(messages)
        newest = max((i for i, one in enumerate(messages) if one.get("role") == "user"), default=-1)
        for index, message in enumerate(messages):
            if message.get("role") != "user":
                continue
            text = _read_text(message)
            key = _make_key(conversation.key, message)
            block = self._find_block(key)
            if index == newest and (block is None or index == len(messages) - 1):
                made = self._make_block(
                    text or conversation.request, conversation.shown, is_new=bool(text)
                )
                block = block if made is None else made
                self._keep_block(key, block or "")
            if block:
                sent[index] = _insert_block(message, block + SEPARATOR, form)
            conversation = Conversation(
                key, text or conversation.request, block or conversation.shown
            )
        return sent, conversation

    def _make_block(self, request: str, shown: str, *, is_new: bool) -> str | None:
        """Return the block for a request, empty if it is `shown` already; None if there is no
        answer.
        """
        query = make_query(request) if self._query is None else self._query
        if not query and self._query is None:
            return ""
        try:
            found = self._ask(query)
        except MemsyncdError as error:
            self._report(error)
            return None
        self._report(None)
        block = found.replace(REPLACING, HEADING, 1)
        if block == shown.replace(REPLACING, HEADING, 1):
            return ""
        return block if is_new or not shown else found

    def _ask(self, query: str) -> str:
        """Return the block of what the disk has now; if that takes long, of what is indexed."""
        params: dict[str, Any] = {
            "query": query,
            "max_tokens": max(self._max_tokens - SEPARATOR_TOKENS, BUDGETS[0]),
            "heading": REPLACING,
        }
        wait_ms = max(int(self._timeout_s * 500), 1)
        with connect(timeout_s=self._timeout_s) as client:
            params["workspace"] = choose_workspace(client, self._workspace)
            try:
                found = client.call("context", **params, wait="disk", timeout_ms=wait_ms)
            except NoAnswer:
                raise
            except NotFresh:
                found = client.call("context", **params)
        return str(found["text"])

    def _report(self, error: MemsyncdError | None) -> None:
        had_failed, self._has_failed = self._has_failed, error is not None
        if error is None:
            if had_failed:
                logger.info("memory is in the requests again")
            return
        if not had_failed:
            logger.warning("requests go without memory: %s; %s", error.message, error.hint)
        if self._on_failure is not None:
            self._on_failure(error)

    def _find_block(self, key: bytes) -> str | None:
        with self._lock:
            if key in self._blocks:
                self._blocks.move_to_end(key)
            return self._blocks.get(key)

    def _keep_block(self, key: bytes, block: str) -> None:
        with self._lock:
            self._blocks[key] = block
            self._blocks.move_to_end(key)
            while len(self._blocks) > MAX_REMEMBERED:
                self._blocks.popitem(last=False)


# --- messages -----------------------------------------------------------------------------------


def _make_key(before: bytes, message: Mapping[str, Any]) -> bytes:
    """Return a digest of a message of the user and of those of the user before it.

    Not of the model's messages, which callers send back in several forms.
    """
    content = [part for part in map(_drop_marks, _list_parts(message)) if part != {}]
    text = json.dumps(content, sort_keys=True, default=repr)
    return hashlib.blake2b(before + text.encode(), digest_size=16).digest()


def _list_parts(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}]
    return list(content) if isinstance(content, Sequence) else []


def _drop_marks(part: Any) -> Any:
    """Return a part without the caller's marks, in the one form that a text has in all forms."""
    if not isinstance(part, Mapping):
        return part
    if _is_text(part):
        return {"text": part["text"]}
    return {name: value for name, value in part.items() if name not in CACHE_MARKS}


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and isinstance(part.get("text"), str)
        and part.get("type", "text") == "text"
    )


def _read_text(message: Mapping[str, Any]) -> str:
    """Return the user's own text in a message; empty for one with nothing but results of tools."""
    return "\n".join(part["text"] for part in _list_parts(message) if _is_text(part)).strip()


def _insert_block(message: Mapping[str, Any], block: str, form: MessageFormat) -> dict[str, Any]:
    """Return the message with the block before its text, after results of tools, which providers
    demand first.
    """
    text: dict[str, Any] = {"text": block}
    made = text if form == "bedrock" else {"type": "text", **text}
    content = message.get("content")
    parts = list(content) if not isinstance(content, str) and content else []
    if isinstance(content, str):
        whole: dict[str, Any] = {"text": content}
        parts = [whole if form == "bedrock" else {"type": "text", **whole}]
    at = max((index + 1 for index, part in enumerate(parts) if _is_result(part)), default=0)
    # A mark of the cache after the results stays behind them.
    while at and at < len(parts) and _drop_marks(parts[at]) == {}:
        at += 1
    return {**message, "content": [*parts[:at], made, *parts[at:]]}


def _is_result(part: Any) -> bool:
    return isinstance(part, Mapping) and (
        "toolResult" in part or part.get("type") in ("tool_result", "mcp_tool_result")
    )
