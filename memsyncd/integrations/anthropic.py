"""How does Claude reach the notes through Anthropic's SDK? As its memory tool, whose six commands the daemon carries out.

    from anthropic import Anthropic
    from memsyncd.integrations.anthropic import MemsyncdMemoryTool
    from memsyncd.integrations.instructions import INSTRUCTIONS

    memory = MemsyncdMemoryTool("~/code/api")
    runner = Anthropic().beta.messages.tool_runner(..., system=INSTRUCTIONS, tools=[memory])

What the daemon refuses becomes a ToolError with its message byte for byte, which the model reads; the failure itself, with its
hint, is the `__cause__`. Each command has a connection of its own: that costs a tenth of a millisecond where a write waits for
the disk, and leaves nothing to be closed, to outlive a daemon that is started anew, or to be shared by two threads. The async
tool asks in a thread, as the SDK's own does: any event loop that anyio runs on goes on meanwhile. A command that was sent is
carried out, even if who waits for it is cancelled.
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
        "memsyncd.integrations.anthropic needs Anthropic's SDK, version 2.12 or newer: pip install 'memsyncd[anthropic]'",
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
MARGIN_S = 1.0
"""An answer is waited for so much longer than a write waits for its turn: a daemon that gives up says that nothing changed."""
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
    """Anthropic's memory tool on one workspace: `/memories` is its `.memories/`, `/memories/MEMORY.md` its MEMORY.md.

    `workspace` is a name, an id or a path inside one; None if there is only one. `client` is the name that history shows for
    what is written. `dialect` says whose words to answer in where they differ: those of Anthropic's documents, or of its SDK's
    own tool. `timeout_s` is how long a command may take; None for the daemon's own limit. The six commands raise ToolError.
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
        return self._notes.carry_out(command)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return self._notes.carry_out(command)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return self._notes.carry_out(command)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return self._notes.carry_out(command)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return self._notes.carry_out(command)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return self._notes.carry_out(command)

    def clear_all_memory(self) -> str:
        """Remove every note of memory. History keeps them, and `undo` brings them back. No model can ask for this."""
        return self._notes.clear()


class AsyncMemsyncdMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`."""

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
        return await run_sync(self._notes.carry_out, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await run_sync(self._notes.carry_out, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await run_sync(self._notes.carry_out, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await run_sync(self._notes.carry_out, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await run_sync(self._notes.carry_out, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await run_sync(self._notes.carry_out, command)

    async def clear_all_memory(self) -> str:
        """Remove every note of memory. History keeps them, and `undo` brings them back. No model can ask for this."""
        return await run_sync(self._notes.clear)


class _Notes:
    """The notes of one workspace, behind the daemon."""

    __slots__ = ("_client", "_dialect", "_timeout_ms", "_timeout_s", "_workspace")

    def __init__(
        self, workspace: str | os.PathLike[str] | None, *, client: str, dialect: Dialect, timeout_s: float | None
    ) -> None:
        self._workspace = os.path.abspath(workspace) if isinstance(workspace, os.PathLike) else workspace
        self._client = client
        self._dialect = dialect
        self._timeout_s = None if timeout_s is None else timeout_s + MARGIN_S
        self._timeout_ms = None if timeout_s is None else min(max(int(timeout_s * 1000), 1), LONGEST_MS)

    def carry_out(self, command: BetaMemoryTool20250818Command) -> str:
        # A model may write anything. What the tool knows goes to the daemon to be judged, even if it is missing or of the wrong
        # kind; the rest is left out, as the SDK does it, so that no model takes another name or gets into another workspace.
        given = {name: getattr(command, name, None) for name in PARAMETERS[command.command]}
        given |= {"command": command.command, "dialect": self._dialect, "timeout_ms": self._timeout_ms}
        return str(self._ask("memory", given)["text"])

    def clear(self) -> str:
        self._ask("memory.clear", {"confirm": True})
        return CLEARED

    def _ask(self, method: str, params: dict[str, object]) -> dict[str, object]:
        try:
            with connect(timeout_s=self._timeout_s) as client:
                return client.call(method, **params, client=self._client, workspace=self._workspace)
        except MemsyncdError as error:
            raise ToolError(error.message) from error
