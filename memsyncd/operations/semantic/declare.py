"""Parameters, results and operations of search by meaning: its state, its vectors."""

from __future__ import annotations

from typing import Literal

from memsyncd.operations.fields import (
    Result,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    FINDS,
    Command,
    CommandGroup,
    Operation,
    Shape,
)

SemanticState = Literal["off", "partial", "ready"]


class SemanticStatus(Result, frozen=True, kw_only=True):
    """How much of a workspace semantic search covers.

    `partial`: some chunks have no vector yet, or the model is being loaded; what there is counts.
    `ready` and not `loaded`: the process has ended, idle; the next question starts it.
    """

    state: SemanticState
    pending: int = 0
    """Chunks without a vector of the embedder."""
    total: int = 0
    """Chunks of the index."""
    embedder: str | None = None
    """The name of the model; null if it is off."""
    loaded: bool = False
    """The next question is compared. Until the model and the vectors are in memory, words alone
    answer, and the answer says `off`.
    """
    reason: str | None = None
    """Why it is off, partial or not loaded, and what to do."""
    failed: bool = False
    """The reason is a failure, which is reported once: it does not go on by itself."""


class SemanticWarmParams(WorkspaceParams, frozen=True, kw_only=True):
    again: bool = False
    """Make all vectors again, not only those that are missing."""


class WorkspaceVectorsInfo(Result, frozen=True, kw_only=True):
    workspace: str
    name: str
    semantic: SemanticStatus


class VectorProcessInfo(Result, frozen=True, kw_only=True):
    """The process that holds the model and the vectors."""

    pid: int
    rss_bytes: int


class SemanticReport(Result, frozen=True, kw_only=True):
    enabled: bool
    """`[semantic] enabled` of the configuration."""
    process: VectorProcessInfo | None
    """null while nothing is asked of it: it ends when idle."""
    workspaces: list[WorkspaceVectorsInfo]
    reason: str | None = None
    """Why it is off for all workspaces although it is enabled, and what to do."""


# --- the operations ---------------------------------------------------------------------------

_ALL = "of this workspace alone: a name, an id or a folder in it; of all by default"
COMMAND_GROUPS = (
    CommandGroup(
        words="semantic",
        group="Maintain",
        summary="search by meaning, too: status, enable, disable, warm",
        examples=("memsyncd semantic enable", "memsyncd semantic status"),
    ),
)
OPERATIONS = (
    Operation(
        name="semantic.status",
        params=WorkspaceParams,
        result=SemanticReport,
        summary="Report how much of the workspaces semantic search covers.",
        shape=Shape.DAEMON,
        run="semantic.run:describe_coverage",
        errors=FINDS,
        worktree="own",
        # To switch is to change the configuration, and to wait until this operation says so.
        command=(
            Command(
                words="semantic status",
                summary="show how much of each workspace it covers",
                help={"workspace": _ALL},
                action="show_coverage",
                examples=("memsyncd semantic status",),
            ),
            Command(
                words="semantic enable",
                summary="switch it on in the configuration file",
                omit=("workspace",),
                action="switch_on",
                examples=("memsyncd semantic enable",),
            ),
            Command(
                words="semantic disable",
                summary="switch it off, and delete the vectors",
                omit=("workspace",),
                action="switch_off",
                examples=("memsyncd semantic disable",),
            ),
        ),
    ),
    Operation(
        name="semantic.warm",
        params=SemanticWarmParams,
        result=SemanticReport,
        summary="Make the vectors that are missing now, or all again; returns at once.",
        shape=Shape.DAEMON,
        run="semantic.run:warm",
        errors=FINDS,
        worktree="own",
        command=Command(
            words="semantic warm",
            summary="make the vectors that are missing now, and load the model",
            help={"again": "make all vectors again", "workspace": _ALL},
            action="wait_for_vectors",
            examples=("memsyncd semantic warm", "memsyncd semantic warm --again"),
        ),
    ),
)
