"""The interface of one call of an operation: everything that its `run` may use.

The dispatcher (`server/dispatch`) implements it, so that no operation imports the server.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from memsyncd.config import Config
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import MemsyncdError, NoteNotFound

if TYPE_CHECKING:
    # These import the editing of notes, which the first searches need not wait for.
    from memsyncd.engine.edit import Decide, EditOutcome
    from memsyncd.engine.scheduler import JobFactory
    from memsyncd.operations.agents.declare import AgentAnswer
    from memsyncd.operations.fields import Freshness, OnSimilar, TrackedParams
    from memsyncd.operations.notes.declare import Added
    from memsyncd.operations.share.background import MemorySharing
    from memsyncd.operations.signals.declare import Signal
    from memsyncd.operations.similar.declare import SimilarSection

T = TypeVar("T")
Part = TypeVar("Part")
Answer = TypeVar("Answer")


class SharedMemory(msgspec.Struct, frozen=True):
    """The workspace that owns a part of what a linked worktree has: the files and folders `paths`,
    from the root.
    """

    owner: Workspace
    paths: tuple[str, ...]

    def has(self, path: str) -> bool:
        """True if a path from the root is shared."""
        return any(path == each or path.startswith(f"{each}/") for each in self.paths)


class Call(Protocol):
    """One call of an operation by one client. `now_s` is when it arrived, in seconds since 1970."""

    @property
    def workspace(self) -> Workspace:
        """The workspace that the parameters name. Raises WorkspaceNotFound."""

    @property
    def shared(self) -> SharedMemory | None:
        """The memory that the workspace, a linked worktree, shares with another; None for none."""

    @property
    def config(self) -> Config: ...

    @property
    def now_s(self) -> float: ...

    @property
    def max_reply_bytes(self) -> int:
        """An answer may not be larger, as JSON."""

    @property
    def writer(self) -> str:
        """The writer's name for the history: `client` of the parameters, else of the connection."""

    @property
    def sharing(self) -> MemorySharing:
        """The memories that are shared with other machines."""

    @property
    def stamp(self) -> dict[str, str]:
        """The writer and the time of a change: the arguments `client` and `at` of decisions."""

    async def open(self, workspace: Workspace | None = None) -> Workspace:
        """Return the workspace, or another one, when its index can be read, or after a time
        limit.
        """

    async def wait_until_recovered(self) -> None:
        """Wait until an edit that a crash has interrupted is completed or rolled back."""

    async def read(
        self, read: Callable[[], T], *, on_disk: bool = False, is_long: bool = False
    ) -> T:
        """Call `read` in a thread and return its result. `on_disk` says that it reads notes;
        `is_long` that its time grows with the workspace, and that it reads in steps. Raises
        NotFresh when the time of the request, its `timeout_ms`, is over.
        """

    async def run_job(self, job: JobFactory[T], *, is_write: bool = False) -> T:
        """Run a job on the worker and return its result. Raises Busy if its turn does not come."""

    async def edit(self, decide: Decide[T]) -> EditOutcome[T]:
        """Carry out a decision on the worker: change the disk, the history and the index."""

    async def add_section(self, **fields: Any) -> Added:
        """Append a section to the workspace that the parameters name, as one change set of the
        call's writer. `fields` are parameters of `note.add`.
        """

    async def run_edit(self, job: JobFactory[EditOutcome[T]]) -> EditOutcome[T]:
        """Run a job that edits by itself, because it needs records.db to decide."""

    def tidy_later(self) -> None:
        """Have the databases free the room of deleted rows after a while."""

    async def find_near(
        self, find: Callable[..., list[SimilarSection]], on_similar: OnSimilar
    ) -> list[SimilarSection]:
        """Call `find` for sections that are similar to the new text. If `on_similar` is `add`, the
        search is short, and a failure gives no sections.
        """

    async def scan(self) -> None:
        """Scan the workspace, and wait until the changes are indexed. Raises NotFresh."""

    def watch_freshness(self, *others: Workspace) -> Callable[[], Freshness]:
        """Return a function to call after a read that begins now: it returns its freshness, also
        for other workspaces that were read.
        """

    def note_accesses(self, anchors: Sequence[str], params: TrackedParams) -> None:
        """Count an access of each of these sections after the answer, unless the caller forbids."""

    def notify_signal(self, signal: Signal) -> None:
        """Send a signal to the subscriptions of its addressees."""

    def note_answer(self, answer: AgentAnswer) -> None:
        """Note what an agent was given or has written, for `log.agents`."""

    def describe_write(self, outcome: EditOutcome[Any]) -> dict[str, Any]:
        """Return the fields of `Written`, which every answer to a write has."""


async def read_saved(call: Call, read: Callable[[], T], *, on_disk: bool = False) -> T:
    """Return the result of `read`. If it raises NoteNotFound, scan and read again, because the note
    may have been saved a moment ago. `on_disk` says that it reads notes.
    """
    try:
        return await call.read(read, on_disk=on_disk)
    except NoteNotFound:
        await call.scan()
        return await call.read(read, on_disk=on_disk)


# --- questions ------------------------------------------------------------------------------------


class WorkspacePart(msgspec.Struct, Generic[Part], frozen=True, kw_only=True):
    """The part of an answer that one workspace gives, or the error for which it is left out."""

    workspace: Workspace
    value: Part | None = None
    error: MemsyncdError | None = None


Questions = Generator[
    Callable[[Workspace, RunOptions], Part], Sequence[WorkspacePart[Part]], Answer
]
"""The steps of an operation that one or several workspaces answer: it yields the function that
reads one of them, and gets the parts of all."""


class JoinedCall(Protocol):
    """One call of an operation of `Shape.JOIN`; its function may run in any thread.

    `workspaces` were named, `user_wide` joins them if the parameters ask for it.
    """

    @property
    def workspaces(self) -> Sequence[Workspace]: ...

    @property
    def user_wide(self) -> Workspace | None: ...

    @property
    def is_several(self) -> bool:
        """True if the workspaces are read one by one, each in a part of the time."""

    @property
    def config(self) -> Config: ...

    @property
    def options(self) -> RunOptions:
        """The options of a read of one workspace alone."""

    def is_linked(self, workspace: Workspace) -> bool:
        """True if a linked worktree was named that is, or shares memory of, the workspace."""

    def list_shared(self, workspace: Workspace) -> tuple[str, ...]:
        """Return the files and folders to read of a workspace whose memory a named linked worktree
        shares; empty for all.
        """

    def note_accesses(self, sections: Iterable[tuple[str, str]]) -> None:
        """Count an access of sections, each by its workspace's id and its anchor."""

    def run_job(self, workspace: Workspace, job: JobFactory[T]) -> T:
        """Run a job on the worker, and wait for its result. Raises Busy if its turn does not
        come.
        """
