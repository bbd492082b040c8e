"""Everything that an operation about the daemon and its workspaces may use.

The server (`server/handlers`) makes it. No operation imports the server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from memsyncd.config import Config
from memsyncd.core.histogram import DurationHistogram
from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import FolderCheck
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.files.scan import NoteCount
from memsyncd.operations.status.declare import PanelAddress, ProcessMetrics

if TYPE_CHECKING:
    from memsyncd.files.folder_kinds import KnownPlace

T = TypeVar("T")


class MethodCounters(msgspec.Struct):
    """Requests of one method."""

    answered: DurationHistogram = msgspec.field(default_factory=DurationHistogram)
    """From the arrival of each answered request until its answer was ready."""
    failed: dict[str, int] = msgspec.field(default_factory=dict)
    """By the error's code."""
    n_abandoned: int = 0


class ServerCounters(msgspec.Struct):
    """Requests and connections since the start. The memory does not grow with their number."""

    requests: int = 0
    failed_requests: int = 0
    accepted: int = 0
    """Connections that were admitted."""
    refused: int = 0
    """Connections that were refused: another user's, or one too many."""
    dropped: int = 0
    """Connections that were cut: slow readers, unfinished lines, idle ones that others replace."""
    methods: defaultdict[str, MethodCounters] = msgspec.field(
        default_factory=lambda: defaultdict(MethodCounters)
    )

    def add(self, method: str, took_s: float, code: str, *, is_abandoned: bool) -> None:
        """Count a request. `code` is that of its error, empty for a result."""
        counters = self.methods[method]
        if is_abandoned:
            counters.n_abandoned += 1
            return
        counters.answered.add(took_s)
        if code:
            self.failed_requests += 1
            counters.failed[code] = counters.failed.get(code, 0) + 1


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The server's current load, and its counters since the start."""

    n_clients: int
    n_running: int
    n_waiting: int
    counts: ServerCounters


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the daemon; the callables are called for each request."""

    pid: int
    socket: str
    find_config: Callable[[], str]
    """The configuration's path, and whether there is a file."""
    sqlite: str
    started_at_s: float
    read_process: Callable[[], ProcessMetrics]
    read_load: Callable[[], Load]
    find_http: Callable[[], tuple[str, str] | None] = lambda: None
    """The URL of the port and the file of its token, once a port is open."""
    open_panel: Callable[[], Awaitable[PanelAddress]]
    read_rss: Callable[[int], int]
    find_socket_problem: Callable[[], str] = lambda: ""
    find_lock_problem: Callable[[], str] = lambda: ""


class Folders(Protocol):
    """Looks at folders, whose disks may not answer: each raises Busy then."""

    async def check_new(self, path: str) -> FolderCheck:
        """Check a folder that is to be added. Raises BadConfig and BadRequest."""

    async def count_notes(self, entry: Entry, config: Config, limit_s: float) -> NoteCount:
        """Count the notes that the workspace would have, for at most about `limit_s`."""

    async def detect_memory(self, workspaces: list[Workspace]) -> None:
        """Detect which workspaces have memory; it stays unknown where the disk does not answer."""

    async def find_places(
        self, find: Callable[[], list[KnownPlace]], home: str
    ) -> list[KnownPlace]:
        """Call a function that looks for places of tools."""

    async def list_shared(self, worktree: Workspace) -> list[str]:
        """Return the absolute paths that a linked worktree shares with the main one."""


class Daemon(Protocol):
    """The daemon. `count_reads` counts the reads of clients that are in threads."""

    @property
    def workspaces(self) -> Workspaces: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def places(self) -> Folders: ...

    def count_reads(self) -> int: ...

    async def read(self, read: Callable[[], T]) -> T:
        """Return what `read` returns, in a thread."""

    async def finish(self, workspace: Workspace, work: Future[T], limit_s: float) -> T:
        """Return the result of work on a workspace's disk. Raises NotFresh if it takes longer, or
        as soon as the disk stalls.
        """
