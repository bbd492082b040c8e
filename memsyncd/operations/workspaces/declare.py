"""Parameters, results and operations: add, find, list, sync and remove workspaces."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.errors import BadConfig, Busy
from memsyncd.operations.fields import (
    Name,
    NoParams,
    Params,
    Result,
    TimeoutMs,
    Value,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    OPENS,
    READS,
    WRITES,
    Command,
    Extra,
    Operation,
    Shape,
    Tool,
    ToolArgument,
)

Globs = Annotated[list[Value], msgspec.Meta(max_length=100)]


class CollectionInfo(Result, frozen=True, kw_only=True):
    """A folder of an agent. The memory folder of each project in it is a workspace."""

    id: str
    name: str
    root: str
    preset: Literal["claude-code"]
    exclude: list[str]
    """Globs: projects whose folder has such a name are left out."""
    source: Literal["config", "added"]
    is_missing: bool
    """True if the folder cannot be listed."""
    workspaces: list[str]
    """The ids of its workspaces."""


class AddParams(Params, frozen=True, kw_only=True):
    path: Name
    """The folder, by its absolute path."""
    name: Name | None = None
    """The workspace's name; by default the folder's name."""
    preset: Literal["memory", "vault", "claude-code"] | None = None
    """`memory`: MEMORY.md and .memories/; `vault`: every note; `claude-code`: the memory of each
    project; by default the kind of the folder decides. With `claude-code`, the path is Claude
    Code's folder, and each project's memory folder in it becomes a workspace. Without a preset,
    `include` means `memory`."""
    include: Globs = msgspec.field(default_factory=list)
    """Also index these, such as 'docs/**/*.md'; the globs named before are dropped."""
    exclude: Globs = msgspec.field(default_factory=list)
    """Do not index these files; the globs named before are dropped, but the folders that a vault
    itself leaves out, such as Obsidian's templates, stay left out unless `include` is given."""
    read_only: Globs = msgspec.field(default_factory=list)
    """Also index these, and never write to them; the globs named before are dropped."""
    memory_dir: Value | None = None
    """The folder to write memories to; `.` for the path itself. It is relative to the path."""
    user: bool = False
    """Make it the user-wide workspace, whose pinned notes and preferences join every context."""


class RemoveParams(Params, frozen=True, kw_only=True):
    workspace: Name


class WorkspaceInfo(Result, frozen=True, kw_only=True):
    id: str
    name: str
    root: str
    include: list[str]
    exclude: list[str]
    read_only: list[str]
    preset: Literal["memory", "vault"]
    memory_dir: str
    """The folder of the memory tool and of new notes, relative to `root`; `.` for `root` itself."""
    user: bool
    """True if it is the user-wide workspace."""
    source: Literal["config", "added"]
    has_memory: bool
    collection: str | None
    """The id of the collection to which it belongs."""
    main: str | None
    """For a linked git worktree that has memory itself: the id of the main worktree's workspace.
    The linked worktree becomes a workspace when a path in it is first named, until its folder is
    gone."""
    project: str | None
    """The path of the project whose agent keeps its memory here, if it is known. The path leads to
    this workspace, unless it lies in a workspace of its own."""


class WorkspaceList(Result, frozen=True, kw_only=True):
    workspaces: list[WorkspaceInfo]
    collections: list[CollectionInfo]


class Found(Result, frozen=True, kw_only=True):
    what: str
    """The kind of folder that was recognised."""
    notes: int
    """How many notes the workspace has."""
    is_complete: bool
    """False if there may be more `notes` or `others`: not all could be counted within seconds."""
    others: int
    """If the workspace has no note: how many notes lie beneath the folder."""
    namesakes: list[str] = msgspec.field(default_factory=list)
    """If there is no memory: files such as `memory.md` and `pkg/MEMORY.md`, which are not read as
    memory."""
    vaults: list[str] = msgspec.field(default_factory=list)
    """If the folder is no vault itself: the vaults right beneath it, at most 3."""
    read_only: list[str]
    """The globs of the workspace's read-only notes, and its existing instructions for agents."""
    dropped: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """The globs of `include`, `exclude` and `read_only` that the workspace had before the request,
    and has no longer."""
    worktree: str | None = None
    """The linked git worktree, if the request named one. It is the workspace if it has memory
    itself; otherwise it shares the memory of the workspace."""
    shared: list[str] = msgspec.field(default_factory=list)
    """Absolute paths of files and folders: a linked worktree with memory of its own shares these
    with the main worktree."""


class AddedWorkspaces(Result, frozen=True, kw_only=True):
    workspaces: list[WorkspaceInfo]
    found: Found
    collections: list[CollectionInfo]
    """The collection that was added; then `workspaces` are the workspaces in it."""


class DiscoverParams(Params, frozen=True, kw_only=True):
    path: Name | None = None
    """A folder; the rules for agents of its repository are listed."""
    claude_dir: Name | None = None
    """Claude Code's folder, if it is not `~/.claude`."""
    codex_dir: Name | None = None
    """Codex's folder, if it is not `~/.codex`."""
    config_dir: Name | None = None
    """The folder with the configurations of programs, if it is not `~/.config`."""
    zk_dir: Name | None = None
    """zk's notebook, if zk's own configuration does not name it."""


class FoundPlace(Result, frozen=True, kw_only=True):
    """A place on this machine that has notes."""

    name: str
    what: str
    path: str
    notes: int
    is_complete: bool
    """False if there may be more notes than could be counted within seconds."""
    workspace: str | None
    """The name of its workspace or collection; null if it is not watched."""
    refusal: str
    """Why it cannot be added; empty if it can."""
    add: AddParams | None
    """The parameters of `workspace.add` that add it; null if it is watched or cannot be added."""
    command: str
    """The command that adds it, as `add` does; else empty."""


class Discovered(Result, frozen=True, kw_only=True):
    places: list[FoundPlace]


class SyncParams(WorkspaceParams, frozen=True, kw_only=True):
    full: bool = False
    """Read and hash every note again, even if its size and times are unchanged."""
    rebuild: bool = False
    """Build the index again from the notes; the old index answers meanwhile."""
    timeout_ms: TimeoutMs | None = None


class Failed(Result, frozen=True, kw_only=True):
    path: str
    problem: str


class ChunkCounts(Result, frozen=True, kw_only=True):
    upserted: int
    deleted: int
    kept: int
    moved: int


class SyncReport(Result, frozen=True, kw_only=True):
    workspace: str
    generation: int
    added: int
    modified: int
    moved: int
    removed: int
    unchanged: int
    failed: list[Failed]
    chunks: ChunkCounts
    duration_ms: float


# --- the operations ---------------------------------------------------------------------------

_SYNC_HELP = {"timeout_ms": "give up after this long; by default wait until done"}
OPERATIONS = (
    Operation(
        name="workspace.add",
        params=AddParams,
        result=AddedWorkspaces,
        summary="Watch and index a folder.",
        shape=Shape.DAEMON,
        run="workspaces.run:add",
        errors=(*WRITES, BadConfig),
        changes_workspaces=True,
        command=Command(
            words="add",
            is_first=True,
            group="Set up",
            arguments=("path PATH",),
            usages={
                "name": "--name NAME",
                "preset": "--preset P",
                "include": "--include G…",
                "exclude": "--exclude G…",
                "read_only": "--read-only G…",
                "memory_dir": "--memory-dir D",
            },
            help={
                "path": "the folder",
                "exclude": (
                    "do not index these files; globs named before are dropped, but what a vault"
                    " itself leaves out stays out, unless --include is given"
                ),
                "memory_dir": "the folder to write memories to; . for PATH itself",
            },
            omit=("user",),
            prepare="name_folder",
            show="show_added_workspaces",
            examples=(
                "memsyncd add .",
                "memsyncd add ~/code/api --include 'docs/**/*.md' --read-only README.md",
                "memsyncd add ~/notes --preset vault --exclude drafts",
                "memsyncd add ~/.claude --preset claude-code",
            ),
        ),
        tool=Tool(
            name="memory_init",
            title="Begin a memory here",
            description=(
                "This folder has no memory yet: create MEMORY.md in it and index it from now on. "
                "Ask the user first. The other tools work here afterwards."
            ),
            arguments=(
                ToolArgument("path", "Absolute path of the folder; by default the current one."),
                ToolArgument("name", "A name for the workspace; by default the folder's name."),
            ),
        ),
    ),
    Operation(
        name="workspace.remove",
        params=RemoveParams,
        result=WorkspaceList,
        summary="Stop watching a folder and drop its index; its notes stay.",
        shape=Shape.DAEMON,
        run="workspaces.run:remove",
        errors=READS,
        worktree="own",
        changes_workspaces=True,
        command=Command(
            words="remove",
            group="Set up",
            summary="stop watching a folder and delete its index; notes stay",
            arguments=("workspace WS",),
            help={"workspace": "a name, an id or the folder"},
            show="show_removed",
            examples=("memsyncd remove notes", "memsyncd remove ~/notes"),
        ),
    ),
    Operation(
        name="workspace.discover",
        params=DiscoverParams,
        result=Discovered,
        summary="Find memories of agents, vaults and rules for agents on this machine.",
        shape=Shape.DAEMON,
        run="workspaces.run:discover",
        errors=(Busy,),
        command=Command(
            words="discover",
            lists="places",
            group="Set up",
            summary="list memories of agents, vaults and rules here; add them",
            # The environment names the folders.
            omit=("path", "claude_dir", "codex_dir", "config_dir", "zk_dir"),
            extra=(
                Extra(
                    name="names",
                    usage="[NAME…]",
                    help="with --add: only these places",
                    is_argument=True,
                ),
                Extra(usage="--add", help="add the named places, or all, after a question"),
                Extra(usage="-y --yes", help="add all without asking; needed without a terminal"),
            ),
            action="discover_places",
            examples=(
                "memsyncd discover",
                "memsyncd discover --add claude-code vault",
                "memsyncd discover --add --yes",
            ),
        ),
    ),
    Operation(
        name="workspace.list",
        params=NoParams,
        result=WorkspaceList,
        summary="List the workspaces.",
        shape=Shape.DAEMON,
        run="workspaces.run:list_workspaces",
    ),
    Operation(
        name="sync",
        params=SyncParams,
        result=SyncReport,
        summary="Update the index from the disk and report the changes.",
        shape=Shape.DAEMON,
        run="workspaces.run:sync",
        errors=OPENS,
        reads=True,
        worktree="own",
        waits=True,
        command=(
            Command(
                words="sync",
                group="Maintain",
                summary="bring the index up to date with the disk now",
                help=_SYNC_HELP,
                omit=("rebuild",),
                action="sync_index",
                examples=("memsyncd sync", "memsyncd sync --full -w notes"),
            ),
            Command(
                words="reindex",
                group="Maintain",
                summary="rebuild the index; searches go on meanwhile",
                help=_SYNC_HELP,
                omit=("full", "rebuild"),
                action="reindex",
                examples=("memsyncd reindex", "memsyncd reindex -w notes"),
            ),
        ),
    ),
)
