"""Which methods does the socket offer, and what goes into and comes out of each?

`METHODS` is the table that the parser, discovery, the handlers and the documents are made from; the structs themselves stand
in `params` and `results`, those of writing and history in `writing`, of `doctor` and `metrics` in their own.
"""

from __future__ import annotations

import msgspec

from memsyncd.wire.doctor import DoctorParams, DoctorResult
from memsyncd.wire.metrics import MetricsParams, MetricsResult
from memsyncd.wire.params import (
    AddParams,
    ContextParams,
    GetParams,
    ListParams,
    NoParams,
    Params,
    RemoveParams,
    SearchParams,
    SubscribeParams,
    SyncParams,
    UnsubscribeParams,
    WorkspaceParams,
)
from memsyncd.wire.results import (
    Changed,
    ContextResult,
    Discovery,
    Got,
    Listing,
    Pong,
    Problems,
    SearchResult,
    Status,
    Subscribed,
    SyncReport,
    Unsubscribed,
    Workspaces,
)
from memsyncd.wire.writing import (
    Added,
    AddedMany,
    Backup,
    BackupParams,
    Cleared,
    ClearParams,
    Diff,
    DiffParams,
    History,
    HistoryParams,
    MemoryParams,
    MemoryResult,
    NoteAddManyParams,
    NoteAddParams,
    Purged,
    PurgeParams,
    Restored,
    RestoreParams,
    Undone,
    UndoParams,
)


class Method(msgspec.Struct, frozen=True):
    """One row of the table: what goes in, what comes out, what it is for."""

    params: type[Params]
    result: type[msgspec.Struct]
    summary: str


class Notification(msgspec.Struct, frozen=True):
    """One row of the table of what the daemon says unasked."""

    params: type[msgspec.Struct]
    summary: str


METHODS: dict[str, Method] = {
    "ping": Method(NoParams, Pong, "Say who answers."),
    "rpc.discover": Method(NoParams, Discovery, "Describe these methods as an OpenRPC document."),
    "status": Method(WorkspaceParams, Status, "Say how the daemon and its workspaces are."),
    "metrics": Method(MetricsParams, MetricsResult, "Count what was asked and done, how long it took and what it takes."),
    "workspace.add": Method(AddParams, Workspaces, "Watch and index a folder."),
    "workspace.remove": Method(RemoveParams, Workspaces, "Stop watching a folder and drop its index; notes stay."),
    "workspace.list": Method(NoParams, Workspaces, "List the workspaces."),
    "sync": Method(SyncParams, SyncReport, "Make the index say what the disk says, and say what changed."),
    "search": Method(SearchParams, SearchResult, "Find passages by words and phrases."),
    "context": Method(ContextParams, ContextResult, "Make a block of memory for a prompt, within a budget."),
    "get": Method(GetParams, Got, "Read a section, a note or some of its lines."),
    "list": Method(ListParams, Listing, "List notes and sections."),
    "memory": Method(MemoryParams, MemoryResult, "Carry out one command of the memory tool."),
    "memory.clear": Method(ClearParams, Cleared, "Remove every note of memory; `undo` brings them back."),
    "note.add": Method(NoteAddParams, Added, "Append a section to a note."),
    "note.add_many": Method(NoteAddManyParams, AddedMany, "Append several sections, all or none."),
    "history": Method(HistoryParams, History, "List what changed in notes, when, and who wrote it."),
    "history.purge": Method(PurgeParams, Purged, "Forget revisions for good, such as those that hold a secret."),
    "diff": Method(DiffParams, Diff, "Show what a revision changed."),
    "undo": Method(UndoParams, Undone, "Put back what stood before a revision, if nothing has changed it since."),
    "records.backup": Method(BackupParams, Backup, "Copy a workspace's history into a temporary file."),
    "records.restore": Method(RestoreParams, Restored, "Put a backup in the place of a workspace's history; notes stay."),
    "problems": Method(WorkspaceParams, Problems, "List what is odd about notes and folders."),
    "doctor": Method(DoctorParams, DoctorResult, "Examine workspaces: what is not well, and what to do about it."),
    "subscribe": Method(SubscribeParams, Subscribed, "Be told of changes by `changed` notifications."),
    "unsubscribe": Method(UnsubscribeParams, Unsubscribed, "Be told no more."),
}

NOTIFICATIONS: dict[str, Notification] = {
    "changed": Notification(Changed, "An index has changed; sent to those who have subscribed."),
}
