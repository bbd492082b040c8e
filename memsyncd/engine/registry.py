"""Keep the registered workspaces and their names, and find the workspace of a path.

The configuration registers some and `workspace.add` others, which are kept in `workspaces.json` in
the state folder. Two spellings of one folder are one workspace: real paths, and device and inode,
are compared.

A collection is a folder of an agent in which each project has memory; the projects' memory folders
are registered like any other. So is a linked git worktree that holds memory itself, with the
settings of the main one's workspace, when a path in it is first named.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import ValidationError
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.changes.watchplan import NO_INCLUDES, Watch, plan_watches
from memsyncd.core.paths import list_project_folders, name_project_memory, slug_project
from memsyncd.engine.workspace import Entry, Settings
from memsyncd.errors import (
    AmbiguousWorkspace,
    BadRequest,
    Conflict,
    MemsyncdError,
    StoreFailed,
    WorkspaceNotFound,
)
from memsyncd.files.folder_kinds import (
    CLAUDE_CODE,
    PROJECT_MEMORY,
    PROJECTS,
    AgentProject,
    FolderKind,
    find_agent_globs,
    find_inner_vaults,
    find_memory_owner,
    recognise_place,
)
from memsyncd.files.scope import (
    Root,
    find_identity,
    find_nearest_root,
    find_owner,
    find_present,
    find_root_refusal,
    find_shared_folder,
    find_worktree,
    find_worktree_trouble,
    has_memory,
    make_root,
)

VERSION = 1
SAVED_FIELDS = (
    "id name root include exclude read_only preset memory_dir is_user_wide collection project main"
).split()
NAME_LIMIT_CHARACTERS = 80
Sharing = Literal["shared", "own"]
COLLECTION_NAME = "claude-code"
DEFAULT_SETTINGS = Settings()
DEFAULT_PLACES = Entry(id="", name="", root="").memory_places


class FolderCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The folder at a path. `registered` is the id of the workspace that is the same folder, if
    there is one.

    `kind` is what the folder is, None if it may not be added. `place` is the kind that a new
    workspace has, or a workspace whose folder has become a vault; None for other workspaces.
    `vaults` are vaults right beneath it, and `rules` has the instructions for agents in it.
    `worktree` is the real path that was named, if it is in a linked git worktree: either it shares
    the memory of `root`, or it is `root` itself, and `main` is the id of the main worktree's
    workspace.
    """

    root: Root
    refusal: MemsyncdError | None
    registered: str | None
    kind: FolderKind | None
    place: FolderKind | None
    vaults: tuple[str, ...]
    rules: tuple[str, ...]
    worktree: str
    main: str


class Registry:
    """The registered workspaces, by id, and the collections. Not thread-safe."""

    def __init__(self, file: Path, *, home: str, uid: int) -> None:
        self._file = file
        self._home = home
        self._uid = uid
        self.entries: dict[str, Entry] = {}
        self.collections: dict[str, Entry] = {}

    def read(self, configured: Iterable[Entry]) -> str:
        """Load the configured workspaces and those added before.

        Sets a damaged file aside and returns a description of it, or "". Raises StoreFailed if the
        file cannot be read, because the next addition would replace it.
        """
        added, trouble = self._read_file()
        self._set(added, configured)
        return trouble

    def configure(self, configured: Iterable[Entry]) -> None:
        """Replace the configured workspaces; those that were added stay."""
        every = (*self.collections.values(), *self.entries.values())
        self._set([entry for entry in every if _is_saved(entry)], configured)

    def _set(self, saved: Iterable[Entry], configured: Iterable[Entry]) -> None:
        """Replace all entries. A member stays while its collection is there and does not exclude
        it, a linked worktree while the workspace of the main one is there. The user-wide workspace
        of the configuration takes the place of one that was added.
        """
        configured = list(configured)
        if any(entry.is_user_wide for entry in configured):
            saved = [replace(entry, is_user_wide=False) for entry in saved]
        every = {entry.id: entry for entry in (*saved, *configured)}
        self.collections = {key: entry for key, entry in every.items() if entry.is_collection}
        self.entries = {}
        for key, entry in every.items():
            collection = self.collections.get(entry.collection)
            if entry.collection and collection is not None:
                if not is_left_out(collection, find_slug(entry)):
                    self.entries[key] = replace(entry, source=collection.source)
            elif not (entry.collection or entry.is_collection or entry.main):
                self.entries[key] = entry
        for key, entry in every.items():
            main = self.entries.get(entry.main)
            if main is not None:
                self.entries[key] = _follow_main(main, entry)

    def check_folder(
        self, path: str, silent: Collection[str] = (), sharing: Sharing = "shared"
    ) -> FolderCheck:
        """Resolve a path and check its folder; from any thread, because it may block.

        In a linked worktree that shares the memory of the main one, the folder is the main
        worktree's, unless the linked one is registered itself or holds memory. Does not touch the
        folders of the workspaces in `silent`. Raises BadRequest for a path that cannot be written
        in a response.
        """
        root = make_root(os.path.expanduser(path))
        worktree = main = ""
        roots = self._list_roots()
        if sharing == "shared" and root.path not in roots:
            shared = find_shared_folder(root.path, roots)
            owner = roots.get(shared or "")
            is_own = find_present(root.path, owner.memory_places if owner else DEFAULT_PLACES)
            if is_own and owner is not None:
                worktree, main = root.path, owner.id
            elif shared is not None and not is_own:
                worktree, root = root.path, make_root(shared)
        registered = self._find_same_folder(root.path, silent)
        refusal = find_root_refusal(root.path, home=self._home, uid=self._uid)
        kind = None if refusal else recognise_place(root.path)
        return FolderCheck(
            root=root,
            refusal=refusal,
            registered=registered.id if registered is not None else None,
            kind=kind,
            place=kind if kind is None or registered is None else _find_change(registered),
            vaults=() if refusal else find_inner_vaults(root.path),
            rules=() if refusal else find_agent_globs(root.path),
            worktree=worktree,
            main=main,
        )

    def _list_roots(self) -> dict[str, Entry]:
        """Return the workspaces by root, without linked worktrees: whether a worktree is a
        workspace is found out each time, because another branch may be checked out.
        """
        return {entry.root: entry for entry in self.entries.values() if not entry.main}

    def make_entry(
        self,
        path: str,
        settings: Settings = DEFAULT_SETTINGS,
        *,
        seen: Root | None = None,
        place: FolderKind | None = None,
    ) -> Entry:
        """Make an entry for the folder at `path`, which need not exist.

        The settings of `place` replace empty ones, and its excluded globs join others, unless
        other globs to include or another preset are given.

        Raises BadRequest for an invalid name, path or glob. Does not access the disk if `seen`
        is given.
        """
        _check_name(settings.name)
        root = seen or make_root(os.path.expanduser(path))
        named = replace(settings, name=settings.name or root.name)
        entry = Entry(id=root.id, root=root.path, **asdict(named))
        if place is not None and not entry.include and entry.preset in ("", place.preset):
            entry = replace(
                entry,
                preset=place.preset,
                exclude=_join_globs(place.exclude, entry.exclude),
                memory_dir=entry.memory_dir or place.memory_dir,
            )
        if entry.is_collection:
            return _make_collection(entry, settings.name)
        entry.scope(Config())  # which refuses invalid globs
        return entry

    def add(self, entry: Entry, seen: FolderCheck | None = None) -> Entry:
        """Register a folder and write the file. For a registered folder, change its name and globs.

        Globs change only if some are given. Raises BadRequest, Unsafe (see `find_root_refusal`),
        Conflict (the name is taken, or the configuration registers the folder) or StoreFailed (the
        file cannot be written); nothing has changed then.
        """
        seen = seen or self.check_folder(entry.root)
        if seen.refusal is not None:
            raise seen.refusal
        if entry.is_collection:
            return self._add_collection(entry)
        registered = self.entries.get(seen.registered or "")
        if registered is not None:
            # A linked worktree that is added with settings of its own no longer has the main one's.
            merged = _merge(registered, entry, os.path.basename(entry.root))
            kind = seen.kind
            if entry.exclude and not merged.include and kind and kind.preset == merged.preset:
                merged = replace(merged, exclude=_join_globs(kind.exclude, entry.exclude))
            entry = replace(merged, main="")
        elif entry.name == os.path.basename(entry.root):
            # A default name gets a number if another folder has it, such as a second `notes`.
            entry = replace(entry, name=self._free_name(entry.name))
        self._check_free(entry)
        self._check_user_wide(entry)
        self._save({**self.entries, entry.id: entry})
        return entry

    def _check_user_wide(self, entry: Entry) -> None:
        others = [
            other for other in self.entries.values() if other.is_user_wide and other.id != entry.id
        ]
        if entry.is_user_wide and others:
            hint = f"remove it first: memsyncd remove {others[0].name}"
            if others[0].source == "config":
                hint = "change it in the configuration: memsyncd config path"
            raise Conflict(f"{others[0].name} is the user-wide workspace already", hint=hint)

    def _check_free(self, entry: Entry) -> None:
        """Raise Conflict if another workspace or collection has this name."""
        if any(
            entry.name in (other.name, other.id) and other.id != entry.id
            for other in (*self.entries.values(), *self.collections.values())
        ):
            raise Conflict(
                f"another workspace is called {entry.name}", hint="give another name with --name"
            )

    # --- linked worktrees ---

    def note_worktree(self, main: Entry, folder: str) -> Entry:
        """Register a folder, by its real path, in a linked worktree of the repository of `main`,
        with its settings. Writes the file if that changes anything; raises StoreFailed.
        """
        root = make_root(folder, is_real=True)
        registered = self.entries.get(root.id)
        if registered is not None and not registered.main:
            return registered
        name = (
            registered.name if registered else self._free_name(name_worktree(main.name, root.name))
        )
        named = replace(main, id=root.id, root=root.path, name=name, main=main.id)
        entry = _follow_main(main, named)
        if entry != registered:
            self._save({**self.entries, entry.id: entry})
        return entry

    # --- collections ---

    def _add_collection(self, entry: Entry) -> Entry:
        registered = self.collections.get(entry.id)
        if registered is not None:
            entry = _merge(registered, entry, COLLECTION_NAME)
        elif entry.name == COLLECTION_NAME:
            entry = replace(entry, name=self._free_name(COLLECTION_NAME))
        self._check_free(entry)
        self._save(self.entries, {**self.collections, entry.id: entry})
        return entry

    def note_projects(self, collection: Entry, projects: Iterable[AgentProject]) -> list[Entry]:
        """Register the memory folders of these projects; return the workspaces that are new.

        Notes the paths of projects that were unknown. Raises StoreFailed.
        """
        entries, fresh = dict(self.entries), []
        for project in projects:
            root = f"{collection.root}/{project.slug}/{PROJECT_MEMORY}"
            entry = make_root(root, is_real=True)
            registered = entries.get(entry.id)
            if registered is None and not is_left_out(collection, project.slug):
                name = name_project_memory(project.path, project.slug, self._home)
                entries[entry.id] = Entry(
                    id=entry.id,
                    name=_free_name(name, [*entries.values(), *self.collections.values()]),
                    root=entry.path,
                    preset="vault",
                    source=collection.source,
                    collection=collection.id,
                    project=project.path,
                )
                fresh.append(entries[entry.id])
            elif registered is not None and project.path not in ("", registered.project):
                entries[entry.id] = replace(registered, project=project.path)
        if entries != self.entries:
            self._save(entries)
        return fresh

    def find_collection(self, text: str) -> Entry | None:
        """Return the collection with this name, id or path; the agent's folder above may be named,
        too.
        """
        path = os.path.normpath(os.path.expanduser(text))
        places = (path, f"{path}/{PROJECTS}")
        each = self.collections.values()
        return next(
            (
                collection
                for collection in each
                if text in (collection.name, collection.id) or collection.root in places
            ),
            None,
        )

    def _find_project_memory(self, path: str) -> Entry | None:
        """The memory folder of the agent's project that a path belongs to; may block."""
        slugs = {slug: entry for entry in self.entries.values() if (slug := find_slug(entry))}
        if not slugs:
            return None
        real, home = os.path.realpath(path), os.path.realpath(self._home)
        worktree = find_worktree(real)
        main = worktree.main if worktree else None
        homes = [real, *([worktree.in_tree(real, main)] if worktree and main else [])]
        folders = (folder for start in homes for folder in list_project_folders(start, home))
        return next(
            (slugs[slug] for folder in folders if (slug := slug_project(folder)) in slugs), None
        )

    def find_refusal(self, entry: Entry) -> MemsyncdError | None:
        """As `find_root_refusal`."""
        return find_root_refusal(entry.root, home=self._home, uid=self._uid)

    def remove(self, entry: Entry) -> None:
        """Forget a workspace, or a collection with its workspaces.

        The collection of a workspace excludes it from now on. Raises Conflict if the configuration
        registers it, StoreFailed if the file is not writable.
        """
        if entry.source == "config":
            hint = "remove it there: memsyncd config path"
            if entry.collection:
                hint = f'exclude it there, exclude = ["{find_slug(entry)}"]: memsyncd config path'
            raise Conflict(f"{entry.name} is in the configuration", hint=hint)
        left = {key: other for key, other in self.entries.items() if key != entry.id}
        if entry.is_collection:
            left = {key: other for key, other in left.items() if other.collection != entry.id}
        left = {key: other for key, other in left.items() if other.main != entry.id}
        collections = {key: other for key, other in self.collections.items() if key != entry.id}
        collection = collections.get(entry.collection)
        if collection is not None:  # or the next listing would add it again
            exclude = (*collection.exclude, find_slug(entry))
            collections[collection.id] = replace(collection, exclude=exclude)
        self._save(left, collections)

    def find(self, text: str | None, sharing: Sharing = "shared") -> Entry:
        """The workspace with this name or id, or the one that contains this path.

        `sharing` says whether a linked worktree shares the memory of the main one. None finds the
        only workspace. Raises WorkspaceNotFound, or Conflict if several have this name.
        """
        if text is None:
            return self._find_only()
        if text in self.entries:
            return self.entries[text]
        named = sorted(entry.id for entry in self.entries.values() if entry.name == text)
        if len(named) == 1:
            return self.entries[named[0]]
        if named:  # the configuration gave a name that an added workspace had already
            raise Conflict(
                f"{len(named)} workspaces are called {text[:80]}",
                hint=f"name one by its id: {', '.join(named)}",
            )
        if text.startswith(("/", "~")) and "\0" not in text:
            roots = self._list_roots()
            if text in roots:
                return roots[text]
            path = os.path.expanduser(text)
            owner = find_owner(path, roots, sharing)
            if owner is not None:
                return roots[owner]
            memory = self._find_project_memory(path)
            if memory is not None:
                return memory
            raise WorkspaceNotFound(
                "this path is in no workspace",
                hint=find_worktree_trouble(os.path.realpath(path))
                or "add the folder with: memsyncd add PATH",
            )
        names = (
            ", ".join(sorted(entry.name for entry in self.entries.values()))
            or "there is none yet: memsyncd add PATH"
        )
        raise WorkspaceNotFound(f"no workspace is called {text[:80]}", hint=f"known: {names}")

    def _find_only(self) -> Entry:
        # Memory of an agent's projects, of the user and of linked worktrees is meant where it is
        # named, or where there is no other.
        every = list(self.entries.values())
        own = [
            entry for entry in every if not (entry.collection or entry.is_user_wide or entry.main)
        ]
        chosen = own or every
        if len(chosen) == 1:
            return chosen[0]
        if not self.entries:
            raise WorkspaceNotFound(
                "there is no workspace yet", hint="add a folder with: memsyncd add PATH"
            )
        names = ", ".join(sorted(entry.name for entry in self.entries.values()))
        raise AmbiguousWorkspace("there are several workspaces", hint=f"name one: {names}")

    def find_near(self, path: str) -> Entry | None:
        """The workspace that contains a path by its text alone, without links and worktrees."""
        roots = {entry.root: entry for entry in self.entries.values()}
        nearest = find_nearest_root(os.path.normpath(os.path.expanduser(path)), roots)
        return None if nearest is None else roots[nearest]

    def _find_same_folder(self, root: str, silent: Collection[str]) -> Entry | None:
        entries = tuple(self.entries.values())
        same = next((entry for entry in entries if entry.root == root), None)
        identity = find_identity(root) if same is None else None
        if identity is None:
            return same
        others = (entry for entry in entries if entry.id not in silent)
        return next((entry for entry in others if find_identity(entry.root) == identity), None)

    def _free_name(self, name: str) -> str:
        return _free_name(name, [*self.entries.values(), *self.collections.values()])

    def _read_file(self) -> tuple[list[Entry], str]:
        try:
            rows = json.loads(self._file.read_text(encoding="utf-8"))["workspaces"]
            return [_read_row(row) for row in rows], ""
        except FileNotFoundError:
            return [], ""
        except OSError as error:
            hint = "check the rights of the state folder"
            raise StoreFailed(
                f"{self._file.name} cannot be read: {error.strerror}", hint=hint
            ) from error
        except (ValueError, TypeError, KeyError, ValidationError, BadRequest) as error:
            aside = self._file.with_suffix(".damaged")
            with contextlib.suppress(OSError):
                self._file.rename(aside)
            return (
                [],
                (
                    f"{self._file.name} could not be read ({type(error).__name__})"
                    f" and was set aside as {aside.name}"
                ),
            )

    def _save(self, entries: dict[str, Entry], collections: dict[str, Entry] | None = None) -> None:
        collections = self.collections if collections is None else collections
        try:
            self._write_file((*collections.values(), *entries.values()))
        except OSError as error:
            hint = "check the space left and the rights of the state folder"
            raise StoreFailed(
                f"{self._file.name} cannot be written: {error.strerror}", hint=hint
            ) from error
        self.entries, self.collections = entries, collections

    def _write_file(self, entries: Iterable[Entry]) -> None:
        rows = [
            {name: getattr(entry, name) for name in SAVED_FIELDS}
            for entry in entries
            if _is_saved(entry)
        ]
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._file.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as stream:
            json.dump(
                {"version": VERSION, "workspaces": rows}, stream, ensure_ascii=False, indent=1
            )
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self._file)


def _read_row(row: dict[str, Any]) -> Entry:
    """Raises TypeError, ValueError, ValidationError or BadRequest for a row not made by
    `_write_file`. Rows of older versions lack some fields.
    """
    entry = msgspec.convert({key: row[key] for key in SAVED_FIELDS if key in row}, Entry)
    if not entry.is_collection:
        entry.scope(Config())  # which refuses invalid globs
    return entry


def _is_saved(entry: Entry) -> bool:
    """True if the file keeps the entry: also the members of a collection of the configuration."""
    return entry.source == "added" or bool(entry.collection)


def _make_collection(entry: Entry, name: str) -> Entry:
    """Make the entry of a collection from one for the agent's folder, or for its projects."""
    if entry.is_user_wide:
        hint = "name one folder of notes, or leave out the preset"
        raise BadRequest("the projects of an agent cannot be the user-wide workspace", hint=hint)
    if entry.include or entry.read_only or entry.memory_dir or entry.allow_links_to:
        hint = "leave these out, or add one folder with --preset vault"
        message = "the preset claude-code takes exclude alone: it is for folders of projects"
        raise BadRequest(message, hint=hint)
    path = entry.root
    if os.path.basename(path) != PROJECTS:
        path = f"{path}/{PROJECTS}"
    root = make_root(path, is_real=True)
    return replace(entry, id=root.id, root=root.path, name=name or COLLECTION_NAME)


def find_slug(entry: Entry) -> str:
    """Return the name of the project's folder in which a memory folder of Claude Code lies, or
    "".
    """
    is_memory = bool(entry.collection) or find_memory_owner(entry.root) == CLAUDE_CODE
    return os.path.basename(os.path.dirname(entry.root)) if is_memory else ""


def _free_name(name: str, others: Collection[Entry]) -> str:
    taken = {entry.name for entry in others}
    names = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(free for free in names if free not in taken)


def name_worktree(main: str, folder: str) -> str:
    """Name the workspace of a linked worktree after the main one's and the folder."""
    if not folder.isprintable():
        folder = "worktree"
    name = folder if folder.startswith(main) else f"{main}-{folder}"
    return name[:NAME_LIMIT_CHARACTERS]


def _follow_main(main: Entry, worktree: Entry) -> Entry:
    """Return the entry of a linked worktree with the present settings of the main one's."""
    return replace(
        worktree,
        include=main.include,
        exclude=main.exclude,
        read_only=main.read_only,
        preset=main.preset,
        memory_dir=main.memory_dir,
        allow_links_to=main.allow_links_to,
        is_user_wide=False,
        collection="",
        project="",
        source="added",
    )


def _find_change(registered: Entry) -> FolderKind | None:
    return None if has_memory(registered.root) else registered.recognise_vault()


def _join_globs(globs: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*globs, *more)))


def _merge(registered: Entry, new: Entry, default_name: str) -> Entry:
    """Return the registered entry with the settings that the new one gives. Raises Conflict if the
    configuration would have to change.
    """
    merged = replace(
        registered,
        name=new.name if new.name != default_name else registered.name,
        include=new.include or registered.include,
        exclude=new.exclude or registered.exclude,
        read_only=new.read_only or registered.read_only,
        preset=new.preset or registered.preset,
        memory_dir=new.memory_dir or registered.memory_dir,
        is_user_wide=new.is_user_wide or registered.is_user_wide,
    )
    if merged != registered and registered.source == "config":
        hint = "change it there: memsyncd config path"
        raise Conflict(f"{registered.name} is in the configuration", hint=hint)
    return merged


def _check_name(name: str) -> None:
    """Raise BadRequest for a name that is not printable, or reads as a path or all workspaces."""
    if (
        len(name) > NAME_LIMIT_CHARACTERS
        or not name.isprintable()
        or name.startswith(("/", "~"))
        or name == "*"
    ):
        raise BadRequest(
            "this cannot be a workspace's name",
            hint=f"up to {NAME_LIMIT_CHARACTERS} characters, none of control, not a path, not *",
        )


# --- collections ---


class ProjectCollection:
    """One collection while the daemon runs. `on_changed` is called on the loop after events in it.

    It is watched, without what is in the memory folders, so that a project is found once it has
    its first note; a project that disappears is a workspace whose folder is missing.
    """

    link_folders = pruned = frozenset[str]()

    def __init__(self, entry: Entry, on_changed: Callable[[], None]) -> None:
        self.entry = entry
        self.on_changed = on_changed
        self.awaited: frozenset[str] = frozenset()
        """The folders, from the root on, in which a first note would make a new workspace."""
        self.is_missing = False
        self.waiters: list[asyncio.Future[None]] = []
        """Requests to list the projects: they wait for the running listing, or for the next one."""

    @property
    def id(self) -> str:
        return self.entry.id

    def plan_watches(self, is_folder: Callable[[str], bool]) -> frozenset[Watch]:
        """The folders to watch now, each without what is in the folders beneath it."""
        root = self.entry.root
        planned = plan_watches(root, NO_INCLUDES, is_folder=is_folder)
        if not is_folder(root):
            return planned
        awaited = (f"{root}/{path}" for path in self.awaited)
        return planned | {Watch(path, is_recursive=False) for path in awaited if is_folder(path)}

    def is_pruned(self, _path: str) -> bool:
        return False


def is_project_event(path: str) -> bool:
    """True if an event at this path from the root may concern a project with memory."""
    # Not the transcripts beside the memory folder, to which an agent appends all the time.
    parts = path.split("/")
    return len(parts) < 2 or parts[1] == PROJECT_MEMORY


def is_left_out(collection: Entry, slug: str) -> bool:
    """True if a glob of the collection excludes this project."""
    return any(fnmatchcase(slug, glob) for glob in collection.exclude)
