"""How do records leave a workspace, and come into another?

Jobs for the lane, a page at a time, so that neither needs to be held whole. What is exported is settled; what is imported comes
into records that know what every note says, so that it is known what comes after what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memsyncd.engine.edit import EditOutcome
from memsyncd.engine.history import open_history
from memsyncd.engine.indexing import check_wanted, update_index
from memsyncd.engine.lane import Steps
from memsyncd.engine.opening import open_records
from memsyncd.engine.outside import see_all
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.recovery import recover
from memsyncd.engine.sync import SyncDone, SyncRequest
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import BadRequest, NotFresh, StoreFailed
from memsyncd.store.arrivals import Taken
from memsyncd.store.entries import Entry, TextPiece
from memsyncd.store.export import STAGES, TIPS, Place
from memsyncd.store.records import Records

PAGE_BYTES = 512 * 1024
"""Of texts and all else; the last piece of text may go over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some entries, and where to go on, None if these are the last. `n_damaged` texts of the page cannot be read any more."""

    entries: list[Entry]
    after: str | None
    n_damaged: int


def export_page(workspace: Workspace, _policy: SyncPolicy, clock: Clock, *, after: str | None) -> Steps[Page]:
    """The page that begins where the one before said. Raises BadRequest if none can have said so, StoreFailed without records."""
    place = Place() if after is None else _parse_place(after)
    export = _open(workspace, clock).export()
    entries: list[Entry] = []
    n_bytes = 0
    for at, entry in export.iter_entries(place):
        if n_bytes > PAGE_BYTES:
            return Page(entries=entries, after=f"{at.stage}/{at.n_given}/{at.key}", n_damaged=export.n_damaged)
        entries.append(entry)
        n_bytes += len(entry.data) if isinstance(entry, TextPiece) else len(repr(entry))
        yield
    return Page(entries=entries, after=None, n_damaged=export.n_damaged)


def take_page(
    workspace: Workspace, policy: SyncPolicy, clock: Clock, *, entries: Sequence[Entry], client: str
) -> Steps[EditOutcome[Taken]]:
    """Take what is new of these. Raises BadRequest if no history is kept or a text is not itself, NotFresh without a folder.

    It counts as no change: else what is to be forgotten by its age could go before all that belongs to it has come.
    """
    history = open_history(workspace, policy, clock)
    synced: SyncDone | None = None
    if not history.is_complete:
        synced = yield from update_index(workspace, policy, clock, SyncRequest())
        if synced.root_state != "present":
            raise NotFresh("the workspace's folder is missing", hint="bring it back, then import once more")
        yield from see_all(workspace, policy, clock)
    taken = _open(workspace, clock).arrivals.take(entries, at_s=clock.wall_s(), client=client)
    return EditOutcome(answer=taken, synced=synced)


def _open(workspace: Workspace, clock: Clock) -> Records:
    """Its records, settled, whether history is kept on or not."""
    check_wanted(workspace)
    open_records(workspace, clock)
    if workspace.records is None:
        raise StoreFailed("records.db cannot be opened", hint="see what is wrong with: memsyncd status")
    recover(workspace, clock)
    return workspace.records


def _parse_place(text: str) -> Place:
    stage, _, rest = text.partition("/")
    n_given, _, key = rest.partition("/")
    is_number = key.isdecimal() and len(key) < 20
    if stage not in STAGES or not (n_given.isdecimal() and len(n_given) < 20) or not (stage == TIPS or is_number):
        raise BadRequest("no page ended there", hint="give `after` as the page before said it")
    return Place(stage=stage, key=key, n_given=int(n_given))
