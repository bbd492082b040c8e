"""The interface of the daemon: everything that an operation about all workspaces may use.

The server (`server/handlers`) implements it, so that no operation imports the server.
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
    from memsyncd.operations.share.background import MemorySharing

T = TypeVar("T")


class MethodCounters(msgspec.Struct):
    """Counters of the requests of one method."""

    answered: DurationHistogram = msgspec.field(default_factory=DurationHistogram)
    """Durations from the arrival of a request until its answer was ready."""
    failed: dict[str, int] = msgspec.field(default_factory=dict)
    """How many requests failed, by the code of the error."""
    n_abandoned: int = 0
    """How many requests lost their client before the answer."""


class ServerCounters(msgspec.Struct):
    """Counters of requests and connections since the start. Their size in memory stays the same."""

    requests: int = 0
    failed_requests: int = 0
    accepted: int = 0
    """Connections that were admitted."""
    refused: int = 0
    """Connections that were refused: of another user, or above the limit."""
    dropped: int = 0
    """Connections that were cut: of slow readers, with unfinished lines, and idle ones whose place
    another client needed."""
    methods: defaultdict[str, MethodCounters] = msgspec.field(
        default_factory=lambda: defaultdict(MethodCounters)
    )

    def add(self, method: str, took_s: float, code: str, *, is_abandoned: bool) -> None:
        """Count a request. `code` is the code of its error; it is empty for a result."""
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
    """Facts about the daemon. The functions are called for each request."""

    pid: int
    socket: str
    find_config: Callable[[], str]
    """Returns the path of the configuration, and whether the file exists, as a text."""
    sqlite: str
    started_at_s: float
    read_process: Callable[[], ProcessMetrics]
    read_load: Callable[[], Load]
    find_http: Callable[[], tuple[str, str] | None] = lambda: None
    """Returns the URL of the port and the file with its token; None while no port is open."""
    open_panel: Callable[[], Awaitable[PanelAddress]]
    read_rss: Callable[[int], int]
    find_socket_problem: Callable[[], str] = lambda: ""
    find_lock_problem: Callable[[], str] = lambda: ""


class Folders(Protocol):
    """Examines folders. Each method raises Busy if the disk does not answer."""

    async def check_new(self, path: str) -> FolderCheck:
        """Check a folder that is to be added. Raises BadConfig and BadRequest."""

    async def count_notes(self, entry: Entry, config: Config, limit_s: float) -> NoteCount:
        """Count the notes that the workspace would have, for at most about `limit_s`."""

    async def detect_memory(self, workspaces: list[Workspace]) -> None:
        """Detect which workspaces have memory. It stays unknown if the disk does not answer."""

    async def find_places(
        self, find: Callable[[], list[KnownPlace]], home: str
    ) -> list[KnownPlace]:
        """Call `find`, which looks in `home` for the places of tools, and return its result."""

    async def list_shared(self, worktree: Workspace) -> list[str]:
        """Return the absolute paths that a linked worktree shares with the main worktree."""


class Daemon(Protocol):
    """The daemon. `count_reads` counts the reads for clients that are in threads."""

    @property
    def workspaces(self) -> Workspaces: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def places(self) -> Folders: ...

    @property
    def sharing(self) -> MemorySharing: ...

    def count_reads(self) -> int: ...

    async def read(self, read: Callable[[], T]) -> T:
        """Call `read` in a thread and return its result."""

    async def finish(self, workspace: Workspace, work: Future[T], limit_s: float) -> T:
        """Return the result of work on a workspace's disk. Raises NotFresh after `limit_s`, or as
        soon as the disk stalls.
        """
