"""Put the memory that belongs to a request into the messages of a chat, before the request.

    context = MemoryContext("~/code/api", max_tokens=800)
    send(messages=context.insert(messages))

`insert` returns new messages; the caller's messages do not change. In later requests of the same
conversation, a block that was sent stays in its place with the same bytes, so that the provider's
prompt cache holds. If memory has changed, only the newest message gets a new block, which says that
it replaces the block above; in a loop of tools it stands below the results. Nothing is added if
memory has nothing for the request, or the same as in the block above.

If the daemon does not answer within `timeout_s`, the chat goes on: the request is sent without a
new block. The logger `memsyncd.integrations` gets one warning when such failures begin and one line
when they end. `on_failure` is called with each error.
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
"""The values of `max_tokens` that the daemon accepts."""
TIMEOUT_S = 2.0
# The block and the request are two texts, and providers join texts without a blank line.
SEPARATOR, SEPARATOR_TOKENS = "\n\n", 1
MAX_REMEMBERED = 4096
"""Number of messages whose blocks are remembered; in a longer history the oldest lose them."""
# Keys by which a caller tells the provider what to cache. They move from request to request.
CACHE_MARKS = frozenset({"cache_control", "cachePoint"})

logger = logging.getLogger("memsyncd.integrations")


class Conversation(NamedTuple):
    """The messages of a conversation so far: their digest, the user's last request, and the last
    block.
    """

    key: bytes
    request: str
    block: str


BEGINNING = Conversation(b"", "", "")


class MemoryContext:
    """Inserts the block for one workspace into the messages of any number of conversations.

    `workspace` is a name, an id or a path inside it; by default it is the workspace of the current
    folder, else the only workspace. `query` is the query to search for: None stands for the text of
    the request, an empty query for the memory that every session should know. `max_tokens` limits
    each block. Threads can share the object. Raises ValueError for a `max_tokens` that the daemon
    does not accept.
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
        """Like `insert`, for messages that continue a conversation which the provider keeps.

        Also returns the conversation with these messages.
        """
        sent = list(messages)
        of_user = (i for i, message in enumerate(messages) if message.get("role") == "user")
        newest = max(of_user, default=-1)
        for index, message in enumerate(messages):
            if message.get("role") != "user":
                continue
            text = _read_text(message)
            key = _make_key(conversation.key, message)
            block = self._find_block(key)
            if index == newest and (block is None or index == len(messages) - 1):
                made = self._make_block(
                    text or conversation.request, conversation.block, is_new=bool(text)
                )
                block = block if made is None else made
                self._keep_block(key, block or "")
            if block:
                sent[index] = _insert_block(message, block + SEPARATOR, form)
            conversation = Conversation(
                key, text or conversation.request, block or conversation.block
            )
        return sent, conversation

    def _make_block(self, request: str, earlier: str, *, is_new: bool) -> str | None:
        """Return the block for a request. It is empty if it equals the `earlier` block, and None if
        the daemon did not answer.
        """
        query = make_query(request) if self._query is None else self._query
        if not query and self._query is None:
            return ""
        try:
            replacing = self._ask(query)
        except MemsyncdError as error:
            self._report(error)
            return None
        self._report(None)
        block = replacing.replace(REPLACING, HEADING, 1)
        if block == earlier.replace(REPLACING, HEADING, 1):
            return ""
        return block if is_new or not earlier else replacing

    def _ask(self, query: str) -> str:
        """Return the block from the notes on the disk now; if that takes long, from the index."""
        params: dict[str, Any] = {
            "query": query,
            "max_tokens": max(self._max_tokens - SEPARATOR_TOKENS, BUDGETS[0]),
            "heading": REPLACING,
        }
        wait_ms = max(int(self._timeout_s * 500), 1)
        with connect(timeout_s=self._timeout_s) as client:
            params["workspace"] = choose_workspace(client, self._workspace)
            try:
                result = client.call("context", **params, wait="disk", timeout_ms=wait_ms)
            except NoAnswer:
                raise
            except NotFresh:
                result = client.call("context", **params)
        return str(result["text"])

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
    """Return a digest of a message of the user and of the user's messages before it.

    The model's messages do not count, because callers send them back in several forms.
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
    """Return a part without the caller's cache marks. A text has the same form for each
    provider.
    """
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
    """Return the user's own text in a message; empty if the message has only results of tools."""
    return "\n".join(part["text"] for part in _list_parts(message) if _is_text(part)).strip()


def _insert_block(message: Mapping[str, Any], block: str, form: MessageFormat) -> dict[str, Any]:
    """Return the message with the block before its text, and after results of tools, because
    providers want results first.
    """
    text: dict[str, Any] = {"text": block}
    block_part = text if form == "bedrock" else {"type": "text", **text}
    content = message.get("content")
    parts = list(content) if not isinstance(content, str) and content else []
    if isinstance(content, str):
        whole: dict[str, Any] = {"text": content}
        parts = [whole if form == "bedrock" else {"type": "text", **whole}]
    at = max((index + 1 for index, part in enumerate(parts) if _is_result(part)), default=0)
    # A cache mark behind the results stays directly behind them.
    while at and at < len(parts) and _drop_marks(parts[at]) == {}:
        at += 1
    return {**message, "content": [*parts[:at], block_part, *parts[at:]]}


def _is_result(part: Any) -> bool:
    return isinstance(part, Mapping) and (
        "toolResult" in part or part.get("type") in ("tool_result", "mcp_tool_result")
    )
