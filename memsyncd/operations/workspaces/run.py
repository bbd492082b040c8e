"""Adds, finds, lists, syncs and removes workspaces.

Before a folder is added, its notes are counted and its kind is recognised. `discover` finds places
in which tools on this machine keep notes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memsyncd.core.paths import Globs, is_instruction
from memsyncd.engine.registry import DEFAULT_SETTINGS, FolderCheck
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workspace import Entry, Settings, Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest, MemsyncdError
from memsyncd.files.scan import NoteCount
from memsyncd.operations.daemon import Daemon
from memsyncd.operations.fields import NoParams
from memsyncd.operations.workspace_info import describe_collection, describe_collections
from memsyncd.operations.workspaces.declare import (
    AddedWorkspaces,
    AddParams,
    ChunkCounts,
    Discovered,
    DiscoverParams,
    Failed,
    Found,
    FoundPlace,
    RemoveParams,
    SyncParams,
    SyncReport,
    WorkspaceInfo,
    WorkspaceList,
)

if TYPE_CHECKING:
    from memsyncd.files.folder_kinds import KnownPlace, ToolFolders

SYNC_S = 600.0
# The time for counting the notes of an added folder.
COUNT_S = 2.0
# Describes a repository that has instructions for agents, or notes that an include names.
WITHOUT_MEMORY = "no MEMORY.md and no .memories/ yet"
PRESET_NAMES = {
    "memory": "MEMORY.md and .memories/",
    "vault": "folder of notes",
    "claude-code": "projects of Claude Code",
}
# The time for counting the notes of all places; the notes of the last places may stay uncounted.
DISCOVER_S = 3.0


# --- add ----------------------------------------------------------------------------------------


def add(daemon: Daemon, params: AddParams) -> Awaitable[AddedWorkspaces]:
    """Add a folder as a workspace or collection. Raises BadRequest for a relative path, and if the
    folder was recognised as a vault, without a preset, and its notes could not be counted in time.
    """
    path = os.path.expanduser(params.path)
    if not path.startswith("/") or "\0" in path:
        hint = "send the folder's absolute path"
        raise BadRequest("this is not an absolute path", hint=hint)
    return _add_at(daemon, path, params)


async def _add_at(daemon: Daemon, path: str, params: AddParams) -> AddedWorkspaces:
    seen = await daemon.places.check_new(path)
    settings = Settings(
        name=params.name or "",
        include=tuple(params.include),
        exclude=tuple(params.exclude),
        read_only=tuple(params.read_only),
        preset=params.preset or "",
        memory_dir=params.memory_dir or "",
        is_user_wide=params.user,
    )
    made = daemon.workspaces.make_entry(path, seen, settings)
    if made.is_collection:
        return await _add_collection(daemon, made, seen)
    is_chosen_here = made.is_vault and params.preset is None
    registered = daemon.workspaces.by_id.get(seen.registered or "")
    before = None if registered is None else registered.entry
    count = None
    if seen.registered is None:
        count = await daemon.places.count_notes(made, daemon.workspaces.config, COUNT_S)
        if is_chosen_here and not count.is_complete:
            raise _make_size_error(made.root, count.n_notes)
    if seen.main and settings == DEFAULT_SETTINGS:
        main = daemon.workspaces.find(seen.main)
        added = daemon.workspaces.open_worktree(main, seen.root.path)
    else:
        added = daemon.workspaces.add(path, settings=settings, seen=seen)
    await daemon.places.detect_memory([added])
    contents = await _describe_found(daemon, added, seen, count)
    if before is not None:
        contents = replace(contents, dropped=_list_dropped(before, added.entry))
    if added.entry.main:
        contents = replace(contents, shared=await daemon.places.list_shared(added))
    infos = [describe_workspace(added)]
    return AddedWorkspaces(workspaces=infos, collections=[], found=contents)


def _list_dropped(before: Entry, after: Entry) -> dict[str, list[str]]:
    """Return the globs that an entry has no longer, by their setting."""
    gone: dict[str, list[str]] = {}
    for setting in ("include", "exclude", "read_only"):
        left = getattr(after, setting)
        if globs := [glob for glob in getattr(before, setting) if glob not in left]:
            gone[setting] = globs
    return gone


async def _add_collection(daemon: Daemon, made: Entry, seen: FolderCheck) -> AddedWorkspaces:
    listed = daemon.workspaces.add_collection(made, seen)
    # If the disk does not answer, the workspaces are added as soon as it does.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(listed, COUNT_S)
    collection = daemon.workspaces.collections[made.id]
    info = describe_collection(collection, daemon.workspaces)
    members = [daemon.workspaces.by_id[key] for key in info.workspaces]
    await daemon.places.detect_memory(members)
    end_s = daemon.clock.now_s() + COUNT_S
    n_notes, is_complete = 0, True
    for member in members:
        left_s = max(end_s - daemon.clock.now_s(), 0.0)
        config = daemon.workspaces.config
        count = await daemon.places.count_notes(member.entry, config, left_s)
        n_notes += count.n_notes
        is_complete = is_complete and count.is_complete
    return AddedWorkspaces(
        workspaces=[describe_workspace(member) for member in members],
        collections=[info],
        found=Found(
            what=PRESET_NAMES["claude-code"],
            notes=n_notes,
            is_complete=is_complete,
            others=0,
            read_only=[],
        ),
    )


async def _describe_found(
    daemon: Daemon, added: Workspace, seen: FolderCheck, count: NoteCount | None
) -> Found:
    if count is None:  # a known workspace may have other settings than this request
        config = daemon.workspaces.config
        count = await daemon.places.count_notes(added.entry, config, COUNT_S)
    n_others, is_complete = 0, count.is_complete
    namesakes: tuple[str, ...] = ()
    if not (added.entry.is_vault or (count.n_notes and added.has_memory)):
        whole = replace(added.entry, preset="vault")
        others = await daemon.places.count_notes(whole, daemon.workspaces.config, COUNT_S / 2)
        namesakes = () if added.has_memory else others.namesakes
        if not count.n_notes:
            n_others, is_complete = others.n_notes, others.is_complete
    preset = added.entry.preset or "memory"
    is_as_recognised = seen.kind is not None and seen.kind.preset == preset
    what = seen.kind.what if seen.kind and is_as_recognised else PRESET_NAMES[preset]
    if what == PRESET_NAMES["memory"] and added.has_memory is False and count.n_notes:
        what = WITHOUT_MEMORY
    return Found(
        what=what,
        notes=count.n_notes,
        is_complete=is_complete,
        others=n_others,
        namesakes=list(namesakes),
        vaults=[] if added.entry.is_vault else list(seen.vaults),
        read_only=_list_read_only(added.entry, seen.rules),
        worktree=seen.worktree or None,
    )


def _list_read_only(entry: Entry, rules: Iterable[str]) -> list[str]:
    """Return the read-only globs of a workspace, and the instructions for agents in its folder that
    belong to it. `rules` are all such instructions there.
    """
    exclude = Globs.parse_excludes(entry.exclude)
    own = (
        rule
        for rule in rules
        # In a vault, they are notes like others, but only people write them.
        if (rule in entry.all_read_only or (is_instruction(rule) and rule not in entry.include))
        and not exclude.matches(rule)
    )
    return list(dict.fromkeys((*entry.read_only, *own)))


def _make_size_error(root: str, n_notes: int) -> BadRequest:
    message = f"{root} has more than {n_notes:,} notes: more than could be counted in {COUNT_S:g} s"
    hint = "name a folder within, or choose what to index: memsyncd add PATH --include 'docs/**'"
    return BadRequest(message, hint=hint)


# --- discover -----------------------------------------------------------------------------------


async def discover(daemon: Daemon, params: DiscoverParams) -> Discovered:
    """Find places with notes. Raises BadRequest for a relative path, Busy if a disk stalls."""
    # Late, because it loads the parser of TOML.
    from memsyncd.files.folder_kinds import find_places

    end_s = daemon.clock.now_s() + DISCOVER_S
    folders = _choose_folders(params)
    places = await daemon.places.find_places(partial(find_places, folders), folders.home)
    return Discovered(places=[await _describe_place(daemon, place, end_s) for place in places])


async def _describe_place(daemon: Daemon, place: KnownPlace, end_s: float) -> FoundPlace:
    refusal, n_notes, is_complete, name = "", 0, False, None
    settings = Settings(preset=place.preset or "")
    try:
        seen = await daemon.places.check_new(place.path)
        refusal = seen.refusal.message if seen.refusal is not None else ""
        entry = daemon.workspaces.make_entry(place.path, seen, settings)
        watched = _find_watched(daemon.workspaces, entry, seen)
        if watched is not None:
            name = watched.name
        left_s = max(end_s - daemon.clock.now_s(), 0.0)
        counted = _count_projects(entry) if entry.is_collection else watched or entry
        config = daemon.workspaces.config
        count = await daemon.places.count_notes(counted, config, left_s)
        n_notes, is_complete = count.n_notes, count.is_complete
    except MemsyncdError as failure:
        refusal = failure.message
    params = None
    if name is None and not refusal:
        params = AddParams(path=place.path, name=place.label or None, preset=place.preset)
    return FoundPlace(
        name=place.name,
        what=place.what,
        path=place.path,
        notes=n_notes,
        is_complete=is_complete,
        workspace=name,
        refusal=refusal,
        add=params,
        command="" if params is None else render_command(params),
    )


def _find_watched(workspaces: Workspaces, entry: Entry, seen: FolderCheck) -> Entry | None:
    if entry.is_collection:
        collection = workspaces.collections.get(entry.id)
        return None if collection is None else collection.entry
    workspace = workspaces.by_id.get(seen.registered or "")
    return None if workspace is None else workspace.entry


def _choose_folders(params: DiscoverParams) -> ToolFolders:
    """Return the folders of tools. The client sends the folders that its environment names, because
    the daemon's environment may differ.
    """
    from memsyncd.files.folder_kinds import ToolFolders

    home = os.path.expanduser("~")
    named = (params.path, params.claude_dir, params.codex_dir, params.config_dir, params.zk_dir)
    if any(path is not None and not path.startswith("/") for path in named):
        raise BadRequest("this is not an absolute path", hint="send absolute paths of folders")
    return ToolFolders(
        home=home,
        claude=params.claude_dir or f"{home}/.claude",
        codex=params.codex_dir or f"{home}/.codex",
        config=params.config_dir or f"{home}/.config",
        zk=params.zk_dir or "",
        here=params.path or "",
    )


def _count_projects(collection: Entry) -> Entry:
    """Return an entry that has the notes of all projects of a collection, to count them."""
    return Entry(
        id=collection.id, name=collection.name, root=collection.root, include=("*/memory/**",)
    )


def render_command(params: AddParams) -> str:
    """Return the command that does the same as `workspace.add` with these parameters."""
    words = ["memsyncd", "add", params.path]
    words += ["--name", params.name] if params.name else []
    words += ["--preset", params.preset] if params.preset else []
    return shlex.join(words)


# --- list and remove ----------------------------------------------------------------------------


async def list_workspaces(daemon: Daemon, _params: NoParams) -> WorkspaceList:
    await daemon.places.detect_memory(daemon.workspaces.sorted())
    return WorkspaceList(
        workspaces=[describe_workspace(workspace) for workspace in daemon.workspaces.sorted()],
        collections=describe_collections(daemon.workspaces),
    )


def remove(daemon: Daemon, params: RemoveParams) -> WorkspaceList:
    """Remove a workspace, or a collection with its workspaces. Raises WorkspaceNotFound."""
    workspaces = daemon.workspaces
    collection = workspaces.find_collection(params.workspace)
    if collection is not None:
        removed = describe_collection(collection, workspaces)
        gone = workspaces.remove_collection(collection)
        infos = [describe_workspace(workspace) for workspace in gone]
        return WorkspaceList(workspaces=infos, collections=[removed])
    workspace = workspaces.find(params.workspace)
    info = describe_workspace(workspace)
    workspaces.remove(workspace)
    return WorkspaceList(workspaces=[info], collections=[])


def describe_workspace(workspace: Workspace) -> WorkspaceInfo:
    entry = workspace.entry
    return WorkspaceInfo(
        id=entry.id,
        name=entry.name,
        root=entry.root,
        include=list(entry.include),
        exclude=list(entry.exclude),
        read_only=list(entry.read_only),
        preset=entry.folder_preset,
        memory_dir=entry.memory_folder,
        user=entry.is_user_wide,
        source=entry.source,
        has_memory=bool(workspace.has_memory),
        collection=entry.collection or None,
        project=entry.project or None,
        main=entry.main or None,
    )


# --- sync ---------------------------------------------------------------------------------------


async def sync(daemon: Daemon, params: SyncParams) -> SyncReport:
    """Scan or rebuild a workspace. Raises NotFresh if it takes longer than `timeout_ms`."""
    workspace = daemon.workspaces.find(params.workspace)
    scheduler = daemon.workspaces.scheduler
    work = (
        scheduler.rebuild(workspace)
        if params.rebuild
        else scheduler.sync(workspace, is_full=params.full)
    )
    limit_s = params.timeout_ms / 1000 if params.timeout_ms else SYNC_S
    return describe_sync(workspace, await daemon.finish(workspace, work, limit_s))


def describe_sync(workspace: Workspace, done: SyncDone) -> SyncReport:
    return SyncReport(
        workspace=workspace.id,
        generation=done.generation,
        added=len(done.added),
        modified=len(done.modified),
        moved=len(done.moved),
        removed=len(done.removed),
        unchanged=done.n_unchanged,
        failed=[Failed(path=each.path, problem=each.problem) for each in done.failed],
        chunks=ChunkCounts(
            upserted=done.n_upserted,
            deleted=done.n_deleted,
            kept=done.n_kept,
            moved=done.n_shifted,
        ),
        duration_ms=round(done.duration_ms, 2),
    )
