"""Parameters, results and operations of search by meaning: its state, its vectors."""

from __future__ import annotations

from typing import Literal

from memsyncd.operations.fields import (
    Result,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    ALL_BY_DEFAULT,
    FINDS,
    Command,
    CommandGroup,
    Operation,
    Shape,
)

SemanticState = Literal["off", "partial", "ready"]


class SemanticStatus(Result, frozen=True, kw_only=True):
    """How much of a workspace semantic search covers.

    In the state `partial` some chunks have no vector yet, or the model is being loaded; existing
    vectors count. If the state is `ready` but `loaded` is false, the idle process has ended, and
    the next question starts it.
    """

    state: SemanticState
    pending: int = 0
    """How many chunks have no vector of the embedder."""
    total: int = 0
    """How many chunks the index has."""
    embedder: str | None = None
    """The name of the model; null if semantic search is off."""
    loaded: bool = False
    """True if the model and the vectors are in memory, so that the next question is compared with
    the vectors. Until then, answers depend on words alone and say `off`."""
    reason: str | None = None
    """Why semantic search is off, partial or not loaded, and what to do."""
    failed: bool = False
    """True if `reason` is a failure. It is reported once, and nothing is tried again by itself."""


class SemanticWarmParams(WorkspaceParams, frozen=True, kw_only=True):
    again: bool = False
    """Make all vectors again, not only the missing ones."""


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
    """Null while the process does not run: it ends when it is idle."""
    workspaces: list[WorkspaceVectorsInfo]
    reason: str | None = None
    """Why semantic search is off for all workspaces although it is enabled, and what to do."""


# --- the operations ---------------------------------------------------------------------------

_ALL = "only this workspace: a name, an id or a folder in it; by default all"
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
        # `enable` and `disable` change the configuration file, then wait until this reports it.
        command=(
            Command(
                words="semantic status",
                extra=(ALL_BY_DEFAULT,),
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
        summary="Begin to make the missing vectors, or all vectors again; return at once.",
        shape=Shape.DAEMON,
        run="semantic.run:warm",
        errors=FINDS,
        worktree="own",
        command=Command(
            words="semantic warm",
            extra=(ALL_BY_DEFAULT,),
            summary="make the vectors that are missing now, and load the model",
            help={"again": "make all vectors again", "workspace": _ALL},
            action="wait_for_vectors",
            examples=("memsyncd semantic warm", "memsyncd semantic warm --again"),
        ),
    ),
)
