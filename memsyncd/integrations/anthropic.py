"""Claude's memory tool for Anthropic's SDK; the daemon executes the six commands.

    from anthropic import Anthropic
    from memsyncd.integrations.anthropic import MemsyncdMemoryTool
    from memsyncd.integrations.instructions import INSTRUCTIONS

    memory = MemsyncdMemoryTool("~/code/api")
    client = with_memory(Anthropic(), "~/code/api")
    runner = client.beta.messages.tool_runner(..., system=INSTRUCTIONS, tools=[memory])

`with_memory` works for every client of the SDK: sync, async, and of Amazon Bedrock; and for
`create`, `stream` and `tool_runner`. Before each request it puts the memory that belongs to it,
under `## Memory Context`; `chat_context` says how. `memory.remember` writes the decisions of a
turn.

An error of the daemon becomes a ToolError with the same message, byte for byte, which the model
reads. The `__cause__` is the error itself, with its hint. Each command opens its own connection.
That costs a tenth of a millisecond, little beside a write's wait for the disk, and there is nothing
to close, to share between threads, or to reconnect after a restart of the daemon. The async tool
calls the daemon in a thread, like the SDK's own tool, so that the event loop of anyio goes on. A
command that was sent is executed even if its caller is cancelled.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from memsyncd.client import TIMEOUT_S, Memsyncd, connect
from memsyncd.client.words import name_workspace
from memsyncd.client.workspace import choose_workspace
from memsyncd.errors import MemsyncdError
from memsyncd.integrations.chat_context import (
    BEGINNING,
    MAX_TOKENS,
    Conversation,
    MemoryContext,
    OnFailure,
)
from memsyncd.integrations.chat_context import TIMEOUT_S as CONTEXT_S

try:
    from anthropic import Middleware
    from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anyio.to_thread import run_sync
except ImportError as error:
    raise ImportError(
        "memsyncd.integrations.anthropic needs Anthropic's SDK, version 2.12 or newer:"
        " pip install 'memsyncd[anthropic]'",
        name=error.name,
        path=error.path,
    ) from error

if TYPE_CHECKING:
    from anthropic import APIRequest, APIResponse, AsyncAPIResponse, AsyncCallNext, CallNext
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818Command,
    )

    from memsyncd.client.types import Added

Dialect = Literal["docs", "sdk"]

CLIENT = "anthropic"
CLEARED = "All memory cleared"
# The client waits so much longer than the daemon, so that it gets the daemon's report if the daemon
# gives up: nothing has changed then.
MARGIN_S = 1.0
LONGEST_MS = 600_000
MAX_CONVERSATIONS = 1024
MESSAGES = frozenset({"/v1/messages", "/v1/messages/count_tokens"})
PARAMETERS = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


# --- context ------------------------------------------------------------------------------------


class HasMiddleware(Protocol):
    """A client of the SDK: sync or async, for Anthropic or for a cloud with its models."""

    def with_middleware(self, *middleware: Middleware) -> Self: ...


ClientT = TypeVar("ClientT", bound=HasMiddleware)


def with_memory(
    client: ClientT,
    workspace: str | os.PathLike[str] | None = None,
    *,
    query: str | None = None,
    max_tokens: int = MAX_TOKENS,
    timeout_s: float = CONTEXT_S,
    on_failure: OnFailure | None = None,
) -> ClientT:
    """Return a client that puts memory into its requests; `MemoryContext` has the same parameters.

    `client` does not change, nor do the messages that a program passes. The memory is looked up
    again for each request, also within a loop of tools.
    """
    context = MemoryContext(
        workspace, query=query, max_tokens=max_tokens, timeout_s=timeout_s, on_failure=on_failure
    )
    return client.with_middleware(MemoryMiddleware(context))


class MemoryMiddleware(Middleware):
    """Inserts memory into each request for a message, and into each request that counts tokens.

    In the SDK's loop of tools the server keeps the conversation; a request has only the new
    messages and the id of the last reply. So this class remembers the conversation of each reply by
    its id. The id of a streamed reply is not known here; then the last conversation of the same
    thread or task is used.
    """

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self._conversations: OrderedDict[str, Conversation] = OrderedDict()

    def handle(self, request: APIRequest, call_next: CallNext) -> APIResponse[Any]:
        if not _is_for_message(request):
            return call_next(request)
        request, conversation = self._insert(request, self._find_last())
        _last.set((id(self), conversation))
        response = call_next(request)
        if _is_kept_by_server(request) and not request.stream:
            self._keep(response.read(), conversation)
        return response

    async def handle_async(
        self, request: APIRequest, call_next: AsyncCallNext
    ) -> AsyncAPIResponse[Any]:
        if not _is_for_message(request):
            return await call_next(request)
        request, conversation = await run_sync(self._insert, request, self._find_last())
        _last.set((id(self), conversation))
        response = await call_next(request)
        if _is_kept_by_server(request) and not request.stream:
            self._keep(await response.read(), conversation)
        return response

    def _find_last(self) -> Conversation:
        owner, conversation = _last.get()
        return conversation if owner == id(self) else BEGINNING

    def _insert(self, request: APIRequest, last: Conversation) -> tuple[APIRequest, Conversation]:
        body: Any = request.json
        before, thread = BEGINNING, body.get("thread")
        if _is_kept_by_server(request) and thread.get("type") == "continue":
            before = self._conversations.get(str(thread.get("previous_message_id")), last)
        messages, conversation = self._context.extend(before, body["messages"])
        return request.copy(body={**body, "messages": messages}), conversation

    def _keep(self, answer: bytes, conversation: Conversation) -> None:
        try:
            message = json.loads(answer)
        except ValueError:
            return
        if isinstance(message, dict) and isinstance(message.get("id"), str):
            self._conversations[message["id"]] = conversation
            while len(self._conversations) > MAX_CONVERSATIONS:
                self._conversations.popitem(last=False)


# The last conversation of this thread or task, with the id of the middleware that saw it.
_last: ContextVar[tuple[int, Conversation]] = ContextVar("_last", default=(0, BEGINNING))


def _is_kept_by_server(request: APIRequest) -> bool:
    body: Any = request.json
    return isinstance(body.get("thread"), dict)


def _is_for_message(request: APIRequest) -> bool:
    body = request.json
    is_post = request.method.lower() == "post" and request.url.partition("?")[0] in MESSAGES
    return is_post and isinstance(body, dict) and isinstance(body.get("messages"), list)


# --- the memory tool ----------------------------------------------------------------------------


class MemsyncdMemoryTool(BetaAbstractMemoryTool):
    """Anthropic's memory tool on one workspace. `/memories` is its folder `.memories/`, and
    `/memories/MEMORY.md` its MEMORY.md.

    `workspace` is a name, an id or a path inside it; by default it is the workspace of the current
    folder, else the only workspace. `client` is the writer's name in the history. Anthropic's
    documents and its SDK's own tool word some answers differently; `dialect` selects the wording.
    `timeout_s` limits a command; None means the daemon's own limit. The six commands raise
    ToolError.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        client: str = CLIENT,
        dialect: Dialect = "docs",
        timeout_s: float | None = TIMEOUT_S,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._notes = _Notes(workspace, client=client, dialect=dialect, timeout_s=timeout_s)

    def _execute(self, command: BetaMemoryTool20250818Command) -> str:
        return self._notes.execute(command)

    view = create = str_replace = insert = delete = rename = _execute

    def remember(self, content: str, **section: Any) -> Added:
        """Append a section, such as a decision, with the parameters of `Memsyncd.add`.

        A model cannot call this. Raises MemsyncdError.
        """
        return self._notes.remember(content, **section)

    def clear_all_memory(self) -> str:
        """Remove every note of memory. History keeps them, and `undo` restores them. A model cannot
        call this.
        """
        return self._notes.clear()


class AsyncMemsyncdMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same tool for `AsyncAnthropic`."""

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        client: str = CLIENT,
        dialect: Dialect = "docs",
        timeout_s: float | None = TIMEOUT_S,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._notes = _Notes(workspace, client=client, dialect=dialect, timeout_s=timeout_s)

    async def _execute(self, command: BetaMemoryTool20250818Command) -> str:
        return await run_sync(self._notes.execute, command)

    view = create = str_replace = insert = delete = rename = _execute

    async def remember(self, content: str, **section: Any) -> Added:
        """Append a section, such as a decision, with the parameters of `Memsyncd.add`.

        A model cannot call this. Raises MemsyncdError.
        """
        return await run_sync(partial(self._notes.remember, content, **section))

    async def clear_all_memory(self) -> str:
        """Remove every note of memory. History keeps them, and `undo` restores them. A model cannot
        call this.
        """
        return await run_sync(self._notes.clear)


class _Notes:
    """The notes of one workspace, through the daemon."""

    __slots__ = ("_client", "_dialect", "_timeout_ms", "_timeout_s", "_workspace")

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None,
        *,
        client: str,
        dialect: Dialect,
        timeout_s: float | None,
    ) -> None:
        self._workspace = None if workspace is None else name_workspace(workspace)
        self._client = client
        self._dialect = dialect
        self._timeout_s = None if timeout_s is None else timeout_s + MARGIN_S
        self._timeout_ms = (
            None if timeout_s is None else min(max(int(timeout_s * 1000), 1), LONGEST_MS)
        )

    def execute(self, command: BetaMemoryTool20250818Command) -> str:
        # A model may send anything. The command's own parameters go to the daemon, which checks
        # them. Other parameters are left out, as in the SDK, so that no model takes another name or
        # reaches another workspace.
        params = {name: getattr(command, name, None) for name in PARAMETERS[command.command]}
        params |= {
            "command": command.command,
            "dialect": self._dialect,
            "timeout_ms": self._timeout_ms,
        }
        return str(self._call("memory", params)["text"])

    def remember(self, content: str, **section: Any) -> Added:
        timeout_s = LONGEST_MS / 1000 if self._timeout_s is None else self._timeout_s - MARGIN_S
        with Memsyncd(self._workspace, client=self._client, timeout_s=timeout_s) as memory:
            return memory.add(content, **section)

    def clear(self) -> str:
        self._call("memory.clear", {"confirm": True})
        return CLEARED

    def _call(self, method: str, params: dict[str, object]) -> dict[str, object]:
        try:
            with connect(timeout_s=self._timeout_s) as client:
                where = choose_workspace(client, self._workspace)
                return client.call(method, **params, client=self._client, workspace=where)
        except MemsyncdError as error:
            raise ToolError(error.message) from error
