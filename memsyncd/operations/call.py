"""The interface of one call of an operation: everything that its `run` may use.

The dispatcher (`server/dispatch`) implements it, so that no operation imports the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from memsyncd.config import Config
from memsyncd.engine.edit import Decide, EditOutcome
from memsyncd.engine.scheduler import JobFactory
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NoteNotFound
from memsyncd.operations.fields import Freshness, OnSimilar, TrackedParams
from memsyncd.operations.notes.declare import Added
from memsyncd.operations.signals.declare import Signal
from memsyncd.operations.similar.declare import SimilarSection

T = TypeVar("T")


class Call(Protocol):
    """One call of an operation by one client. `now_s` is when it arrived, in seconds since 1970."""

    @property
    def workspace(self) -> Workspace:
        """The workspace that the parameters name. Raises WorkspaceNotFound."""

    @property
    def config(self) -> Config: ...

    @property
    def now_s(self) -> float: ...

    @property
    def writer(self) -> str:
        """The writer's name for the history: `client` of the parameters, else of the connection."""

    @property
    def stamp(self) -> dict[str, str]:
        """The writer and the time of a change: the arguments `client` and `at` of decisions."""

    async def open(self) -> Workspace:
        """Return the workspace when its index can be read, or after a time limit."""

    async def wait_until_recovered(self) -> None:
        """Wait until an edit that a crash has interrupted is completed or rolled back."""

    async def read(self, read: Callable[[], T], *, on_disk: bool = False) -> T:
        """Call `read` in a thread and return its result. `on_disk` says that it reads notes."""

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

    def watch_freshness(self) -> Callable[[], Freshness]:
        """Return a function to call after a read that begins now: it returns its freshness."""

    def note_accesses(self, anchors: Sequence[str], params: TrackedParams) -> None:
        """Count an access of each of these sections after the answer, unless the caller forbids."""

    def notify_signal(self, signal: Signal) -> None:
        """Send a signal to the subscriptions of its addressees."""

    def describe_write(self, outcome: EditOutcome[Any]) -> dict[str, Any]:
        """Return the fields of `Written`, which every answer to a write has."""


async def read_saved(call: Call, read: Callable[[], T]) -> T:
    """Return the result of `read`. If it raises NoteNotFound, scan and read again, because the note
    may have been saved a moment ago.
    """
    try:
        return await call.read(read)
    except NoteNotFound:
        await call.scan()
        return await call.read(read)
