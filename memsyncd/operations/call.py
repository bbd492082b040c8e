"""One call of an operation by one client: everything that its function may use.

The dispatcher (`server/dispatch`) makes it. No operation imports the server.
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
    """One call of an operation. `now_s` is the time of its arrival, since the epoch."""

    @property
    def workspace(self) -> Workspace:
        """The workspace that the parameters name. Raises WorkspaceNotFound."""

    @property
    def config(self) -> Config: ...

    @property
    def now_s(self) -> float: ...

    @property
    def writer(self) -> str:
        """The name for the history: that of the parameters, else that of the connection."""

    @property
    def stamp(self) -> dict[str, str]:
        """Who makes a change and when, as the keyword arguments `client` and `at` of decisions."""

    async def open(self) -> Workspace:
        """Return the workspace, once its index can be read unless that takes too long."""

    async def wait_until_recovered(self) -> None:
        """Wait until an edit that a crash has interrupted is completed or rolled back."""

    async def read(self, read: Callable[[], T], *, on_disk: bool = False) -> T:
        """Return what `read` returns, in a thread; `on_disk` if it reads notes."""

    async def run_job(self, job: JobFactory[T], *, is_write: bool = False) -> T:
        """Return the result of a job of the worker. Raises Busy if its turn does not come."""

    async def edit(self, decide: Decide[T]) -> EditOutcome[T]:
        """Carry out a decision on the worker: the disk, the history and the index."""

    async def add_section(self, **fields: Any) -> Added:
        """Append a section with these fields of `note.add` to the workspace that the parameters
        name, in the name of the call's writer: one change set.
        """

    async def run_edit(self, job: JobFactory[EditOutcome[T]]) -> EditOutcome[T]:
        """Return the outcome of a job that edits by itself, since it needs records to decide."""

    def tidy_later(self) -> None:
        """Have the databases give up after a while the room of what was deleted."""

    async def find_near(
        self, find: Callable[..., list[SimilarSection]], on_similar: OnSimilar
    ) -> list[SimilarSection]:
        """Find sections that say nearly what is to be written."""

    async def scan(self) -> None:
        """Scan the workspace, and wait until the changes are indexed. Raises NotFresh."""

    def watch_freshness(self) -> Callable[[], Freshness]:
        """Return a call for after a read that begins now; it returns how current the answer is."""

    def note_accesses(self, anchors: Sequence[str], params: TrackedParams) -> None:
        """Count an access of each of these sections, after the answer, if that is wanted."""

    def notify_signal(self, signal: Signal) -> None:
        """Send a signal of the workspace to the subscriptions of its addressees."""

    def describe_write(self, outcome: EditOutcome[Any]) -> dict[str, Any]:
        """The fields of `Written`, which every answer to a write has."""


async def read_saved(call: Call, read: Callable[[], T]) -> T:
    """Return what `read` returns; if a note is not there, read again after a scan: it may have been
    saved a moment ago.
    """
    try:
        return await call.read(read)
    except NoteNotFound:
        await call.scan()
        return await call.read(read)
