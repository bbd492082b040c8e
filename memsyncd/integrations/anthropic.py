"""Give Claude its memory tool through Anthropic's SDK; the daemon executes the six commands.

    from anthropic import Anthropic
    from memsyncd.integrations.anthropic import MemsyncdMemoryTool
    from memsyncd.integrations.instructions import INSTRUCTIONS

    memory = MemsyncdMemoryTool("~/code/api")
    runner = Anthropic().beta.messages.tool_runner(..., system=INSTRUCTIONS, tools=[memory])

An error of the daemon becomes a ToolError with its message byte for byte, which the model reads;
the error itself, with its hint, is the `__cause__`. Each command has its own connection: it costs a
tenth of a millisecond where a write waits for the disk, and there is nothing to close, to reconnect
after a restart of the daemon, or to share between threads. The async tool calls the daemon in a
thread, as the SDK's own tool does, so that the event loop of anyio goes on. A command that was sent
is executed even if its caller is cancelled.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from memsyncd.client import TIMEOUT_S, connect
from memsyncd.errors import MemsyncdError

try:
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
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818Command,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )

Dialect = Literal["docs", "sdk"]

CLIENT = "anthropic"
CLEARED = "All memory cleared"
# The client waits this much longer than the daemon lets a write wait: a daemon that gives up
# reports that nothing changed.
MARGIN_S = 1.0
LONGEST_MS = 600_000
PARAMETERS = {
    "view": ("path", "view_range"),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


class MemsyncdMemoryTool(BetaAbstractMemoryTool):
    """Anthropic's memory tool on one workspace: `/memories` is its `.memories/`,
    `/memories/MEMORY.md` its MEMORY.md.

    `workspace` is a name, an id or a path inside one; None if there is only one. `client` is the
    writer's name in the history. `dialect` selects the text of answers where they differ: that of
    Anthropic's documents, or of its SDK's own tool. `timeout_s` limits a command; None means the
    daemon's own limit. The six commands raise ToolError.
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

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return self._notes.execute(command)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return self._notes.execute(command)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return self._notes.execute(command)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return self._notes.execute(command)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return self._notes.execute(command)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return self._notes.execute(command)

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

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await run_sync(self._notes.execute, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await run_sync(self._notes.execute, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await run_sync(self._notes.execute, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await run_sync(self._notes.execute, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await run_sync(self._notes.execute, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await run_sync(self._notes.execute, command)

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
        self._workspace = (
            os.path.abspath(workspace) if isinstance(workspace, os.PathLike) else workspace
        )
        self._client = client
        self._dialect = dialect
        self._timeout_s = None if timeout_s is None else timeout_s + MARGIN_S
        self._timeout_ms = (
            None if timeout_s is None else min(max(int(timeout_s * 1000), 1), LONGEST_MS)
        )

    def execute(self, command: BetaMemoryTool20250818Command) -> str:
        # A model may send anything. The parameters of the command go to the daemon, which checks
        # them, even if missing or of the wrong type; others are left out, as in the SDK, so that no
        # model takes another name or reaches another workspace.
        given = {name: getattr(command, name, None) for name in PARAMETERS[command.command]}
        given |= {
            "command": command.command,
            "dialect": self._dialect,
            "timeout_ms": self._timeout_ms,
        }
        return str(self._call("memory", given)["text"])

    def clear(self) -> str:
        self._call("memory.clear", {"confirm": True})
        return CLEARED

    def _call(self, method: str, params: dict[str, object]) -> dict[str, object]:
        try:
            with connect(timeout_s=self._timeout_s) as client:
                return client.call(method, **params, client=self._client, workspace=self._workspace)
        except MemsyncdError as error:
            raise ToolError(error.message) from error
