"""Parameters, results and operations: notifications of changed indexes."""

from __future__ import annotations

import msgspec

from memsyncd.errors import NotFound
from memsyncd.operations.fields import (
    Name,
    Params,
    Result,
    Values,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    FINDS,
    Command,
    Extra,
    Notification,
    Operation,
)
from memsyncd.operations.signals.declare import SignalReader


class SubscribeParams(WorkspaceParams, frozen=True, kw_only=True):
    paths: Values = msgspec.field(default_factory=list)
    """Only notes that match. The value is a glob; without one, all notes match."""
    since: int | None = None
    """First send the changes after this generation (needs `workspace`)."""
    signals: SignalReader = SignalReader()
    """If an agent, a session or a task is named: send signals to these instead of changes, the
    unread signals first."""
    agents: bool = False
    """Send what hooks and tools answer to agents, instead of changes."""


class Subscribed(Result, frozen=True, kw_only=True):
    subscription: str
    generations: dict[str, int]


class UnsubscribeParams(Params, frozen=True, kw_only=True):
    subscription: Name


class Unsubscribed(Result, frozen=True, kw_only=True):
    subscription: str


class Changed(Result, frozen=True, kw_only=True):
    """Parameters of the notification `changed`."""

    subscription: str
    workspace: str
    generation: int
    paths: list[str]
    chunks: int
    """How many chunks were written or deleted."""
    complete: bool = True
    """False if older changes are no longer known, so that the client should list or search
    again."""
    listing: bool = False
    """True if notes were added, removed or moved, so that a list of notes has changed."""


NOTIFICATIONS = {
    "changed": Notification(Changed, "An index has changed. Subscribers receive this.")
}


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="subscribe",
        params=SubscribeParams,
        result=Subscribed,
        summary="Receive notifications: `changed`, or `signal`, or `answered`.",
        errors=FINDS,
        route="GET /v1/events",
        worktree="own",
        streams=True,
        command=Command(
            words="watch",
            group="Find",
            summary="print changes as they are indexed, one a line",
            usages={"paths": "--path G…"},
            help={
                "workspace": "watch this workspace: a name, an id or a folder in it; by default "
                "the current folder's"
            },
            omit=("since", "signals", "agents"),
            extra=(Extra(usage="--all", help="watch all workspaces"),),
            action="watch_changes",
            examples=("memsyncd watch", "memsyncd watch --all --json"),
        ),
    ),
    Operation(
        name="unsubscribe",
        params=UnsubscribeParams,
        result=Unsubscribed,
        summary="End a subscription.",
        errors=(NotFound,),
        streams=True,
    ),
)
