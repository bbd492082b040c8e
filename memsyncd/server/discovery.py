"""Answers `workspace.discover`: the places on this machine that have notes, and how to add each."""

from __future__ import annotations

import os
import shlex
from functools import partial

from memsyncd.engine.clock import Clock
from memsyncd.engine.registry import FolderCheck
from memsyncd.engine.workspace import Entry, Settings
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest, MemsyncdError
from memsyncd.files.discovery import KnownPlace, ToolFolders, find_places
from memsyncd.operations.workspaces.declare import AddParams, Discovered, DiscoverParams, FoundPlace
from memsyncd.server.reads import PathLookup
from memsyncd.server.session import Session

# For all places together; the notes of later ones are not counted.
DISCOVER_S = 3.0


class PlaceFinder:
    """Finds places for clients."""

    def __init__(self, workspaces: Workspaces, clock: Clock, places: PathLookup) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._places = places

    async def discover(self, _session: Session, params: DiscoverParams) -> Discovered:
        """Find the places. Raises BadRequest for a relative path, Busy if a disk stalls."""
        end_s = self._clock.now_s() + DISCOVER_S
        folders = _choose_folders(params)
        found = await self._places.find_places(partial(find_places, folders), folders.home)
        return Discovered(places=[await self._describe(place, end_s) for place in found])

    async def _describe(self, place: KnownPlace, end_s: float) -> FoundPlace:
        refusal, n_notes, is_complete, name = "", 0, False, None
        settings = Settings(preset=place.preset or "")
        try:
            seen = await self._places.check_new(place.path)
            refusal = seen.refusal.message if seen.refusal is not None else ""
            entry = self._workspaces.make_entry(place.path, seen, settings)
            known = self._find_known(entry, seen)
            if known is not None:
                name = known.name
            left_s = max(end_s - self._clock.now_s(), 0.0)
            counted = _count_projects(entry) if entry.is_collection else known or entry
            config = self._workspaces.config
            count = await self._places.count_notes(counted, config, left_s)
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

    def _find_known(self, entry: Entry, seen: FolderCheck) -> Entry | None:
        if entry.is_collection:
            collection = self._workspaces.collections.get(entry.id)
            return None if collection is None else collection.entry
        workspace = self._workspaces.by_id.get(seen.known or "")
        return None if workspace is None else workspace.entry


def _choose_folders(params: DiscoverParams) -> ToolFolders:
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
    """A workspace with the notes of all projects of a collection, to count them."""
    return Entry(
        id=collection.id, name=collection.name, root=collection.root, include=("*/memory/**",)
    )


def render_command(params: AddParams) -> str:
    """The command that does the same as `workspace.add` with these parameters."""
    words = ["memsyncd", "add", params.path]
    words += ["--name", params.name] if params.name else []
    words += ["--preset", params.preset] if params.preset else []
    return shlex.join(words)
