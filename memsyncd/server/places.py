"""Find the workspaces that requests name, by paths, files and linked worktrees.

Every access to a path may block on a disk that does not answer, so it runs on the query threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from memsyncd.config import Config
from memsyncd.engine.clock import read_activity
from memsyncd.engine.registry import FolderCheck
from memsyncd.engine.worker import QueryPool
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.engine.workspaces import PathPlace, Workspaces
from memsyncd.errors import Busy, MemsyncdError
from memsyncd.files.scan import NoteCount, count_notes
from memsyncd.files.scope import is_within_folder

if TYPE_CHECKING:
    from memsyncd.files.folder_kinds import KnownPlace
import posixpath
from collections.abc import Iterable

from msgspec.structs import replace as replace_fields

from memsyncd.core.paths import MEMORY_FILE, NOTE_SUFFIXES
from memsyncd.errors import BadRequest
from memsyncd.operations.table import OPERATIONS
from memsyncd.server.listen import check_outside
from memsyncd.server.reads import (
    OPEN_S,
    STALL_HINT,
    make_stall_error,
    wait_for_work,
    wait_until_open,
)

FIND_TIMEOUT_S, ADD_TIMEOUT_S, LIST_TIMEOUT_S = 2.0, 5.0, 1.0
T = TypeVar("T")


class NamedWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace that a request means; and the folder that the request names, if this is in a
    linked worktree which shares all memory of `workspace`.

    If a linked worktree holds memory itself, `main` is the workspace of the main worktree, and
    `shared` are the files and folders of `main` that it shares.
    """

    workspace: Workspace
    worktree: str = ""
    main: Workspace | None = None
    shared: tuple[str, ...] = ()

    def choose_owner(self, path: str) -> Workspace:
        """Return the workspace in which a path from the root is."""
        is_shared = any(is_within_folder(path, place) for place in self.shared)
        return self.main if self.main is not None and is_shared else self.workspace


class PathLookup:
    """Finds the workspace of a path, and checks folders that are to be added, on `threads`.

    Every access to a path may block on a disk that does not answer. Then the text of the path alone
    decides which workspace it is.

    A linked worktree is examined each time that a request names a path in it, because another
    branch may be checked out by then. If its folder holds memory itself, it becomes a workspace of
    its own, with the settings of the main worktree's workspace.
    """

    def __init__(self, workspaces: Workspaces, threads: QueryPool, socket_path: str) -> None:
        self._workspaces = workspaces
        self._threads = threads
        self._socket_path = socket_path

    def needs_disk(self, text: str | None) -> bool:
        """True if the disk is needed to find the workspace of this name."""
        if text is None:
            return False
        if not text.startswith(("/", "~")):
            return self._workspaces.find_worktree(text) is not None
        return not self._workspaces.is_root(text)

    async def find(self, name: str) -> NamedWorkspace:
        """Return the workspace of a path, or of a linked worktree by its name or
        id. Raises WorkspaceNotFound.
        """
        named = self._workspaces.find_worktree(name)
        workspace = named or self._workspaces.find_near(name)
        if workspace is not None and self._workspaces.stalls.is_stalled(workspace):
            return NamedWorkspace(workspace=workspace)
        find = partial(self._workspaces.find_place, name)
        if named is not None:
            find = partial(self._workspaces.read_worktree, named)
        folder = named.entry.root if named else name
        key = folder if workspace is None else workspace.id
        try:
            place = await self._run(folder, find, FIND_TIMEOUT_S, key)
        except Busy:
            if workspace is None:
                raise
            return NamedWorkspace(workspace=workspace)
        return await self._open(place, named)

    async def _open(self, place: PathPlace, named: Workspace | None = None) -> NamedWorkspace:
        """Return the workspace of a place. A linked worktree that is named by its name or id, and
        not by a path, is a workspace whatever it holds.
        """
        owner = self._workspaces.find(place.workspace_id)
        if not (place.present or named):
            return NamedWorkspace(workspace=owner, worktree=place.worktree)
        n_before = len(self._workspaces.by_id)
        workspace = named or self._workspaces.open_worktree(owner, place.worktree)
        if len(self._workspaces.by_id) > n_before:
            await self._index_first(workspace)
        return NamedWorkspace(workspace=workspace, main=owner, shared=place.shared)

    async def _index_first(self, workspace: Workspace) -> None:
        """Wait, not for long, until a workspace that this request has added is indexed."""
        await wait_until_open([workspace], OPEN_S)
        with contextlib.suppress(MemsyncdError):  # the request itself will report the fault
            scan = self._workspaces.scheduler.scan(workspace)
            await wait_for_work(self._workspaces, workspace, scan, OPEN_S)

    async def list_shared(self, worktree: Workspace) -> list[str]:
        """Return the absolute paths that a linked worktree shares with the main worktree."""
        root = self._workspaces.find(worktree.entry.main).entry.root
        named = await self.find(worktree.id)
        return [f"{root}/{place}" for place in named.shared]

    async def find_file(self, path: str) -> tuple[Workspace, str]:
        """Return the workspace of an absolute path, and the path from its root. Raises
        WorkspaceNotFound, Busy if a disk stalls, and NoteNotFound for a file of a linked worktree
        that shares all memory of the main one.
        """
        nearest = self._workspaces.find_near(path)
        if nearest is not None and self._workspaces.stalls.is_stalled(nearest):
            raise make_stall_error(nearest)
        find = partial(self._workspaces.find_file, path)
        key = path if nearest is None else nearest.id
        real, place = await self._run(path, find, FIND_TIMEOUT_S, key)
        named = await self._open(place)
        inside = real[len(place.worktree or named.workspace.entry.root) + 1 :] or "."
        return named.choose_owner(inside), inside

    async def check_new(self, path: str) -> FolderCheck:
        """Check a folder that is to be added.

        Raises BadConfig and BadRequest, and Busy if a disk does not answer.
        """
        workspaces = self._workspaces.by_id.values()
        stalled = frozenset(
            workspace.id
            for workspace in workspaces
            if self._workspaces.stalls.is_stalled(workspace)
        )

        def check() -> FolderCheck:
            check_outside(self._socket_path, [path])
            return self._workspaces.check_folder(path, stalled)

        return await self._run(path, check, ADD_TIMEOUT_S)

    async def find_places(
        self, find: Callable[[], list[KnownPlace]], home: str
    ) -> list[KnownPlace]:
        """Call a function that looks for places of tools. Raises Busy if the disk stalls."""
        return await self._run(home, find, FIND_TIMEOUT_S)

    async def count_notes(self, entry: Entry, config: Config, limit_s: float) -> NoteCount:
        """Count the notes that the workspace would have, for at most about `limit_s`.

        Raises Busy if the disk does not answer.
        """
        count = partial(count_notes, entry.scope(config), limit_s=limit_s)
        return await self._run(entry.root, count, limit_s + LIST_TIMEOUT_S)

    async def detect_memory(self, workspaces: list[Workspace]) -> None:
        """Detect whether workspaces have memory, where this is unknown.

        It stays unknown if the disk does not answer.
        """
        is_stalled = self._workspaces.stalls.is_stalled
        unknown = [
            workspace
            for workspace in workspaces
            if workspace.has_memory is None and not is_stalled(workspace)
        ]
        checks = [
            self._run(each.entry.root, each.detect_memory, LIST_TIMEOUT_S, each.id)
            for each in unknown
        ]
        await asyncio.gather(*checks, return_exceptions=True)

    async def _run(
        self, path: str, read: Callable[[], T], limit_s: float, key: str | None = None
    ) -> T:
        """Return the result of `read`. Raises Busy if the disk under `path` does not answer: the
        thread has not begun within `limit_s`, or has done nothing for half of this time.

        Reads with the same `key`, by default the path, run one after another.
        """
        threads: list[int] = []

        def run() -> T:
            threads.append(threading.get_native_id())
            return read()

        future = asyncio.wrap_future(self._threads.read_disk(key or path, run))
        end_s = time.monotonic() + limit_s
        before: tuple[int, ...] | None = None
        try:
            while not (await asyncio.wait([future], timeout=limit_s / 2))[0]:
                # A thread that computes, or waits for a processor, waits for no disk.
                activity = read_activity(threads[0]) if threads else None
                if activity == before and (threads or time.monotonic() >= end_s):
                    folder = os.path.dirname(path)
                    message = (
                        f"the disk under {folder}, or under another workspace, does not answer"
                    )
                    raise Busy(message, hint=STALL_HINT)
                before = activity
            return future.result()
        finally:
            future.cancel()  # does nothing to a future that has a result


# --- notes that parameters name ------------------------------------------------------------------


def find_absolute(params: Any, fields: Iterable[str]) -> tuple[str, str]:
    """Return the first of the fields that names a note by its absolute path, and this path; both
    empty if none does.
    """
    for field in fields:
        value = str(getattr(params, field, None) or "")
        named = value.rpartition("#")[0] if field == "anchor" else value
        if named.startswith("/"):
            from memsyncd.core.editing.memory_tool import MEMORIES

            if not is_within_folder(named, MEMORIES):
                return field, named
    return "", ""


def replace_path(params: Any, field: str, path: str, workspace: Workspace) -> Any:
    """Return the parameters with the path from the workspace's root."""
    value = path
    if field == "anchor":
        value = f"{value}#{params.anchor.rpartition('#')[2]}"
    elif field == "note":
        value = f"./{value}"  # a name alone would be a note in the memory folder
    return replace_fields(params, workspace=workspace.id, **{field: value})


def _find_note_of(anchor: str) -> str:
    """Return the path of an anchor, of lines of a note, or a path itself; empty for a title."""
    # This imports YAML, which a daemon that only answers searches does without.
    from memsyncd.engine.places import NAMED_LINES

    note, mark, _ = anchor.rpartition("#")
    lines = NAMED_LINES.fullmatch(anchor)
    path = note if mark else lines["path"] if lines else anchor
    return path if path.lower().endswith(NOTE_SUFFIXES) else ""


def find_notes(params: Any, memory_dir: str) -> list[str]:
    """Return the paths, from the root, of the notes and folders that the parameters name."""
    from memsyncd.core.editing.memory_tool import MEMORIES, parse_memory_path

    texts = [getattr(params, field, None) for field in ("path", "old_path", "new_path")]
    anchors = [getattr(params, "anchor", None), *getattr(params, "anchors", ())]
    texts += [_find_note_of(anchor) for anchor in anchors if anchor]
    note = getattr(params, "note", None) or ""
    # A name alone is a note in the memory folder.
    texts.append(note if "/" in note or note == MEMORY_FILE else note and f"{memory_dir}/{note}")
    if getattr(params, "topic", None) == MEMORY_FILE:
        texts.append(MEMORY_FILE)
    paths = []
    for text in filter(None, texts):
        if is_within_folder(text, MEMORIES):
            parsed = parse_memory_path(text, memory_dir).note
            paths.append(memory_dir if parsed is None else parsed.text)
        else:
            paths.append(posixpath.normpath(text))
    return paths


def choose_owner(method: str, params: Any, name: str, named: NamedWorkspace) -> Workspace:
    """Return the workspace that a method is about in a linked worktree.

    Raises BadRequest for notes of both workspaces. Raises it for a `wide` operation without a note,
    such as an undo by the number of a revision, unless the workspace is named by its name or id.
    """
    if named.main is None or not named.shared:
        return named.workspace
    both = f"{named.workspace.entry.name} or {named.main.entry.name}"
    memory_dir = named.workspace.scope.memory_dir
    paths = find_notes(params, memory_dir)
    if len({named.choose_owner(path).id for path in paths}) > 1:
        message = "these notes are in two workspaces: the git worktree shares a part of its memory"
        raise BadRequest(message, hint=f"name notes of one at a time: {both}")
    if paths:
        return named.choose_owner(paths[0])
    worktree = OPERATIONS[method].worktree
    if worktree == "wide" and name.startswith(("/", "~")):
        message = "the git worktree shares a part of its memory: two workspaces may be meant"
        raise BadRequest(message, hint=f"name the workspace: {both}")
    return named.choose_owner(memory_dir) if worktree == "writes" else named.workspace
