"""The table of methods and notifications, and the OpenRPC document generated from it.

The parser, the handlers, the routes of HTTP, the tools of MCP and the documents read `METHODS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from memsyncd.errors import (
    AlreadyExists,
    AmbiguousWorkspace,
    BadConfig,
    BadRequest,
    Busy,
    ConfirmationNeeded,
    Conflict,
    EditRefused,
    IndexUnfit,
    MemsyncdError,
    NoteNotFound,
    NotFound,
    NotFresh,
    PathRefused,
    ShuttingDown,
    StoreCorrupt,
    StoreFailed,
    StoreFull,
    TooLarge,
    Unsafe,
    Unwritable,
    WorkspaceNotFound,
)
from memsyncd.protocol import (
    memory,
    metrics,
    operations,
    search,
    signals,
    tasks,
    topics,
)
from memsyncd.protocol.fields import NoParams, Params, WorkspaceParams

OPENRPC_VERSION = "1.3.2"


Errors = tuple[type[MemsyncdError], ...]

EVERY_METHOD: Errors = (BadRequest, TooLarge, ShuttingDown, MemsyncdError)
"""The errors of each method besides its own; the last is an internal error."""
_FINDS: Errors = (WorkspaceNotFound, AmbiguousWorkspace, NotFresh, Busy)
_STORES: Errors = (StoreFailed, StoreCorrupt, IndexUnfit, StoreFull)
_READS: Errors = (*_FINDS, *_STORES)
_OPENS: Errors = (*_READS, NoteNotFound, PathRefused, Unwritable, Unsafe)
_WRITES: Errors = (*_OPENS, Conflict, AlreadyExists, EditRefused)


class Method(msgspec.Struct, frozen=True):
    """One method: its parameters, its result, its purpose, its errors."""

    params: type[Params]
    result: type[msgspec.Struct]
    summary: str
    own_errors: Errors = ()
    route: str = ""
    """The verb and path of HTTP that carry it out, if there is one besides `POST /rpc`."""

    @property
    def errors(self) -> Errors:
        return (*EVERY_METHOD, *self.own_errors)


class Notification(msgspec.Struct, frozen=True):
    """One notification that the daemon sends: its parameters and its purpose."""

    params: type[msgspec.Struct]
    summary: str


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """The OpenRPC document, as plain data."""

    openrpc: str
    info: dict[str, str]
    methods: list[dict[str, Any]]
    components: dict[str, Any]
    notifications: list[dict[str, Any]] = msgspec.field(name="x-notifications")
    """OpenRPC does not describe notifications."""


METHODS: dict[str, Method] = {
    "ping": Method(NoParams, operations.Pong, "Name the daemon and its version."),
    "rpc.discover": Method(NoParams, Discovery, "Describe these methods as an OpenRPC document."),
    "status": Method(
        WorkspaceParams,
        operations.Status,
        "Report the state of the daemon and its workspaces.",
        _FINDS,
        route="GET /v1/status",
    ),
    "metrics": Method(
        metrics.MetricsParams,
        metrics.MetricsResult,
        "Return counters and durations of requests, syncs and writes, and the process's resources.",
        route="GET /metrics",
    ),
    "panel.open": Method(
        NoParams,
        operations.PanelAddress,
        "Open a port for the panel, and return an address that opens it once.",
        (BadConfig, Unsafe),
    ),
    "log.tail": Method(NoParams, operations.LogTail, "Return the last lines of the daemon's log."),
    "workspace.add": Method(
        operations.AddParams,
        operations.AddedWorkspaces,
        "Watch and index a folder.",
        (*_WRITES, BadConfig),
    ),
    "workspace.remove": Method(
        operations.RemoveParams,
        operations.WorkspaceList,
        "Stop watching a folder and drop its index; its notes stay.",
        _READS,
    ),
    "workspace.discover": Method(
        operations.DiscoverParams,
        operations.Discovered,
        "Find memories of agents, vaults and rules for agents on this machine.",
        (Busy,),
    ),
    "workspace.list": Method(NoParams, operations.WorkspaceList, "List the workspaces."),
    "sync": Method(
        operations.SyncParams,
        operations.SyncReport,
        "Update the index from the disk and report the changes.",
        _OPENS,
    ),
    "search": Method(
        search.SearchParams,
        search.SearchResult,
        "Find passages by words, phrases and filters.",
        _READS,
        route="GET /v1/search",
    ),
    "context": Method(
        search.ContextParams,
        search.ContextResult,
        "Make a block of memory for a prompt, within a budget.",
        _READS,
        route="GET /v1/context",
    ),
    "get": Method(
        search.GetParams,
        search.Got,
        "Read a section, a note or some of its lines.",
        _OPENS,
        route="GET /v1/get",
    ),
    "render": Method(
        search.RenderParams,
        search.Rendered,
        "Render a note as HTML for a page, with the file's line numbers.",
        _OPENS,
    ),
    "list": Method(
        search.ListParams, search.Listing, "List notes and sections.", _READS, route="GET /v1/list"
    ),
    "stats": Method(
        search.StatsParams,
        search.MemoryStats,
        "Count sections and notes by kind, tag, task, month, size and other metadata.",
        _READS,
        route="GET /v1/stats",
    ),
    "similar": Method(
        search.SimilarParams,
        search.SimilarSections,
        "Find the sections that say nearly what a section or a text says.",
        _OPENS,
        route="GET /v1/similar",
    ),
    "patterns": Method(
        search.PatternsParams,
        search.Patterns,
        "List what recurs in several workspaces: the same kind and topic, similar texts.",
        _READS,
        route="GET /v1/patterns",
    ),
    "duplicates": Method(
        search.DuplicatesParams,
        search.Duplicates,
        "Plan which sections to merge: groups of near copies. Nothing is changed.",
        _READS,
        route="GET /v1/duplicates",
    ),
    "semantic.status": Method(
        WorkspaceParams,
        operations.SemanticReport,
        "Report how much of the workspaces semantic search covers.",
        _FINDS,
    ),
    "semantic.warm": Method(
        operations.SemanticWarmParams,
        operations.SemanticReport,
        "Make the vectors that are missing now, or all again; returns at once.",
        _FINDS,
    ),
    "links": Method(
        search.LinksParams,
        search.Links,
        "List the links of a note or section, to it and from it, or those that lead to no note.",
        _OPENS,
        route="GET /v1/links",
    ),
    "access.stats": Method(
        search.AccessStatsParams,
        search.AccessStats,
        "Count how often sections were recalled, and when last.",
        _OPENS,
        route="GET /v1/accesses",
    ),
    "access.record": Method(
        search.AccessParams,
        search.RecordedAccesses,
        "Count accesses that the caller has noticed itself.",
        (*_READS, NoteNotFound),
    ),
    "memory": Method(
        memory.MemoryParams,
        memory.MemoryResult,
        "Carry out one command of the memory tool.",
        _WRITES,
    ),
    "memory.clear": Method(
        memory.ClearParams,
        memory.Cleared,
        "Remove every note of memory; `undo` restores them.",
        _WRITES,
    ),
    "note.add": Method(
        memory.NoteAddParams,
        memory.Added,
        "Append a section to a note.",
        _WRITES,
        route="POST /v1/remember",
    ),
    "note.add_many": Method(
        memory.NoteAddManyParams, memory.AddedMany, "Append several sections, all or none.", _WRITES
    ),
    "validate": Method(
        memory.ValidateParams,
        memory.Validation,
        "Check a section before it is written, or notes; name everything that is wrong.",
        _READS,
    ),
    "capture": Method(
        memory.CaptureParams,
        memory.Captured,
        "Append what a step of a run produced: artifacts, its failure, answers.",
        _WRITES,
        route="POST /v1/capture",
    ),
    "index_project": Method(
        memory.IndexProjectParams,
        memory.ProjectIndexed,
        "Summarise the README, manifests and other files of a project in one note.",
        _WRITES,
    ),
    "sources": Method(
        WorkspaceParams,
        memory.Sources,
        "List the files that `index_project` summarises.",
        _OPENS,
    ),
    "archive": Method(
        memory.ArchiveParams,
        memory.Upkept,
        "Archive memories by name, by filters or by decay: searches leave them out then.",
        _WRITES,
    ),
    "archive.restore": Method(
        memory.ArchiveParams, memory.Upkept, "Restore archived memories, byte for byte.", _WRITES
    ),
    "promote": Method(
        memory.PromoteParams,
        memory.Promoted,
        "Copy a memory, or a task's summaries, to the project's note; twice is as once.",
        _WRITES,
    ),
    "recall": Method(
        search.RecallParams,
        search.Recalled,
        "Recall memories by keywords, topic and kind, within a budget of tokens.",
        _READS,
        route="GET /v1/recall",
    ),
    "cleanup": Method(
        memory.CleanupParams,
        memory.Upkept,
        "Archive memories past their time: expired and ephemeral ones, those of sessions.",
        _WRITES,
    ),
    "topic.list": Method(
        topics.TopicListParams,
        topics.TopicList,
        "List topics, which are notes, with their fields and their salience.",
        _READS,
        route="GET /v1/topics",
    ),
    "topic.get": Method(
        topics.TopicGetParams,
        topics.Topic,
        "Read a topic: its summary, its fields with their values, its relations.",
        _OPENS,
        route="GET /v1/topics/get",
    ),
    "topic.create": Method(
        topics.TopicCreateParams,
        topics.TopicWritten,
        "Create a note for a topic, with fields and relations.",
        _WRITES,
        route="POST /v1/topics/create",
    ),
    "topic.patch": Method(
        topics.TopicPatchParams,
        topics.TopicWritten,
        "Change metadata, summary and relations of a topic; the rest stays.",
        _WRITES,
        route="POST /v1/topics/patch",
    ),
    "topic.archive": Method(
        topics.TopicArchiveParams,
        memory.Upkept,
        "Archive whole topics: searches leave them out then.",
        _WRITES,
    ),
    "topic.restore": Method(
        topics.TopicArchiveParams,
        memory.Upkept,
        "Restore archived topics, byte for byte.",
        _WRITES,
    ),
    "field.append": Method(
        topics.FieldAppendParams,
        topics.FieldAppended,
        "Append a value to a field of a topic, above the earlier ones.",
        _WRITES,
        route="POST /v1/topics/append",
    ),
    "field.history": Method(
        topics.FieldHistoryParams,
        topics.FieldHistory,
        "List the values that a field has and had, the newest first.",
        _OPENS,
        route="GET /v1/topics/history",
    ),
    "history": Method(
        memory.HistoryParams,
        memory.History,
        "List the changes of notes with time and writer.",
        _OPENS,
    ),
    "history.purge": Method(
        memory.PurgeParams,
        memory.Purged,
        "Erase revisions for good, such as those that hold a secret.",
        _OPENS,
    ),
    "diff": Method(memory.DiffParams, memory.Diff, "Show the change of a revision.", _OPENS),
    "undo": Method(
        memory.UndoParams,
        memory.Undone,
        "Restore the text before a revision, unless it has changed since.",
        (*_WRITES, ConfirmationNeeded),
    ),
    "task.ready": Method(
        tasks.TaskReadyParams,
        tasks.TaskReady,
        "List the sections of a task that can be worked on, P0 first, then the oldest.",
        _READS,
        route="GET /v1/tasks/ready",
    ),
    "task.list": Method(
        tasks.TaskListParams,
        tasks.TaskSections,
        "List all sections of a task, by path and line.",
        _READS,
        route="GET /v1/tasks",
    ),
    "task.context": Method(
        tasks.TaskContextParams,
        tasks.TaskContext,
        "Make a block of profile, summaries, task and discoveries for a prompt.",
        _READS,
        route="GET /v1/tasks/context",
    ),
    "task.checkpoint": Method(
        tasks.CheckpointParams,
        memory.Added,
        "Append the progress of a task or session.",
        _WRITES,
    ),
    "task.summarize": Method(
        tasks.TaskSummarizeParams,
        tasks.TaskSummary,
        "Summarise a task; write the summary unless it is a dry run, which is the default.",
        _WRITES,
    ),
    "session.start": Method(
        tasks.SessionStartParams,
        tasks.SessionStarted,
        "Record that a session begins, and return what it needs to know.",
        _WRITES,
    ),
    "session.resume": Method(
        tasks.SessionResumeParams,
        tasks.SessionBlock,
        "Make the block that restores an agent after its context was cleared.",
        _READS,
        route="GET /v1/sessions/resume",
    ),
    "triage": Method(
        tasks.TriageParams,
        tasks.Triage,
        "Count the sections that are tagged as bugs, name the next, or make a task of one.",
        _WRITES,
    ),
    "profile": Method(
        tasks.ProfileParams,
        tasks.Profile,
        "List what holds for the whole project, with its tags and kinds.",
        _READS,
        route="GET /v1/profile",
    ),
    "signal.send": Method(
        signals.SignalSendParams,
        signals.SignalSent,
        "Send a signal to agents, sessions or tasks.",
        _READS,
        route="POST /v1/signals/send",
    ),
    "signal.inbox": Method(
        signals.SignalInboxParams,
        signals.SignalBox,
        "List the signals to an agent, a session or a task, unread first.",
        _READS,
        route="GET /v1/signals",
    ),
    "signal.outbox": Method(
        signals.SignalOutboxParams,
        signals.SignalBox,
        "List the signals that were sent, and who has acknowledged them.",
        _READS,
        route="GET /v1/signals/sent",
    ),
    "signal.ack": Method(
        signals.SignalAckParams,
        signals.SignalsAcked,
        "Acknowledge signals, so that this reader receives them no more.",
        _READS,
        route="POST /v1/signals/ack",
    ),
    "records.backup": Method(
        WorkspaceParams,
        memory.Backup,
        "Copy a workspace's history into a temporary file.",
        _WRITES,
    ),
    "records.restore": Method(
        memory.RestoreParams,
        memory.Restored,
        "Replace a workspace's history by a backup; its notes stay.",
        _WRITES,
    ),
    "problems": Method(
        WorkspaceParams, search.Problems, "List the problems of notes and folders.", _READS
    ),
    "doctor": Method(
        operations.DoctorParams,
        operations.DoctorResult,
        "Examine workspaces and give a remedy for each finding.",
        _OPENS,
    ),
    "subscribe": Method(
        search.SubscribeParams,
        search.Subscribed,
        "Receive `changed` notifications, or `signal` notifications.",
        _FINDS,
        route="GET /v1/events",
    ),
    "unsubscribe": Method(
        search.UnsubscribeParams, search.Unsubscribed, "End a subscription.", (NotFound,)
    ),
}

NOTIFICATIONS: dict[str, Notification] = {
    "changed": Notification(search.Changed, "An index has changed; sent to subscribers."),
    "signal": Notification(
        signals.SignalNotice, "A signal was sent; sent to subscribers that are its addressees."
    ),
}

_REFERENCE = "#/components/schemas/{name}"
_ERROR = "#/components/errors/{name}"
_DESCRIPTION = "One JSON value a line over a Unix socket, as JSON-RPC 2.0; parameters by name."


@cache
def describe_methods(version: str) -> Discovery:
    """Return the OpenRPC document for this version of memsyncd. It is cached: do not change it."""
    structs = [part for method in METHODS.values() for part in (method.params, method.result)]
    structs += [notification.params for notification in NOTIFICATIONS.values()]
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REFERENCE)
    return Discovery(
        openrpc=OPENRPC_VERSION,
        info={"title": "memsyncd", "version": version, "description": _DESCRIPTION},
        methods=[_describe_method(name, method, schemas) for name, method in METHODS.items()],
        components={"schemas": schemas, "errors": dict(sorted(_describe_errors().items()))},
        notifications=[
            {"name": name, "summary": one.summary, "params": _list_params(one.params, schemas)}
            for name, one in NOTIFICATIONS.items()
        ],
    )


def _describe_method(name: str, method: Method, schemas: dict[str, Any]) -> dict[str, object]:
    result = method.result.__name__
    return {
        "name": name,
        "summary": method.summary,
        "paramStructure": "by-name",
        "params": _list_params(method.params, schemas),
        "result": {"name": result, "schema": {"$ref": _REFERENCE.format(name=result)}},
        "errors": [{"$ref": _ERROR.format(name=error.code)} for error in method.errors],
        **({"x-http": method.route} if method.route else {}),
    }


def _list_params(params: type[msgspec.Struct], schemas: dict[str, Any]) -> list[dict[str, object]]:
    schema = schemas[params.__name__]
    required = schema.get("required", ())
    listed: list[dict[str, object]] = [
        {"name": name, "required": name in required, "schema": part}
        for name, part in schema["properties"].items()
    ]
    return sorted(listed, key=lambda param: not param["required"])  # OpenRPC: required ones first


def _describe_errors() -> dict[str, dict[str, object]]:
    """Return the numeric code of each `data.code`."""
    return {
        error.code: {"code": error.rpc_code, "message": error.code.replace("_", " ")}
        for error in find_errors()
    }


def find_errors() -> Iterator[type[MemsyncdError]]:
    """Yield every error that can be sent."""
    classes: list[type[MemsyncdError]] = [MemsyncdError]
    while classes:
        error = classes.pop()
        if error.__module__ != MemsyncdError.__module__:
            continue  # an error of a front end, which is never sent
        yield error
        classes.extend(error.__subclasses__())
