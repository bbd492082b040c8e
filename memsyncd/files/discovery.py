"""Find the places with notes that tools on this machine know of: agents' memory folders, vaults,
the rules of a repository.

Only a few files and folders with known names are read; no folder is walked.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

import msgspec

from memsyncd.dirs import expand_home
from memsyncd.files.folder_kinds import (
    CLAUDE_CODE,
    PROJECTS,
    Preset,
    find_agent_globs,
    read_start,
    recognise_place,
)

READ_LIMIT_BYTES = 1 << 20
PLACES_LIMIT = 200
GRAPH_START, GRAPH_END = "logseq_local_", ".transit"
# Obsidian's list of vaults, as installed by itself, as a Flatpak, as a snap, and on macOS.
OBSIDIAN_FILES = (
    ".var/app/md.obsidian.Obsidian/config/obsidian/obsidian.json",
    "snap/obsidian/current/.config/obsidian/obsidian.json",
    "Library/Application Support/obsidian/obsidian.json",
)


class ToolFolders(msgspec.Struct, frozen=True, kw_only=True):
    """Where tools keep their things; those that an environment variable may change.

    `here` is the folder of which the repository's rules are listed, empty for none.
    """

    home: str
    claude: str
    codex: str
    config: str
    zk: str = ""
    here: str = ""


class KnownPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with notes. `preset` is empty if the folder itself decides.

    `label` names its workspace, empty for the folder's name.
    """

    name: str
    what: str
    path: str
    preset: Preset | None = None
    label: str = ""


def find_places(folders: ToolFolders) -> list[KnownPlace]:
    """Find the places, each folder once and each under a name of its own. May block."""
    found: dict[str, KnownPlace] = {}
    names: dict[str, int] = {}
    for place in _find_all(folders):
        real = os.path.realpath(place.path)
        if real in found or len(found) >= PLACES_LIMIT or not os.path.isdir(real):
            continue
        number = names[place.name] = names.get(place.name, 0) + 1
        name = place.name if number == 1 else f"{place.name}-{number}"
        found[real] = msgspec.structs.replace(place, name=name, path=real)
    return list(found.values())


def _find_all(folders: ToolFolders) -> Iterator[KnownPlace]:
    yield from _find_agents(folders)
    yield from _find_vaults(folders)
    if folders.here:
        yield from _find_vault_around(folders.here, folders.home)
        yield from _find_repository(folders.here, folders.home)


def _find_agents(folders: ToolFolders) -> Iterator[KnownPlace]:
    projects = f"{folders.claude}/{PROJECTS}"
    if os.path.isdir(projects):
        what = f"projects of {CLAUDE_CODE}"
        yield KnownPlace(name="claude-code", what=what, path=projects, preset="claude-code")
    memories = f"{folders.codex}/memories"
    if os.path.isdir(memories):
        what = "memory folder of Codex"
        yield KnownPlace(name="codex", what=what, path=memories, preset="vault", label="codex")
    gemini = f"{folders.home}/.gemini"
    if os.path.isfile(f"{gemini}/GEMINI.md"):
        yield KnownPlace(name="gemini", what="memory of Gemini CLI", path=gemini, label="gemini")


def _find_vaults(folders: ToolFolders) -> Iterator[KnownPlace]:
    lists = (f"{folders.config}/obsidian/obsidian.json", *_in_home(folders, OBSIDIAN_FILES))
    for file in lists:
        yield from _name_vaults(
            "Obsidian", parse_obsidian_vaults(read_start(file, READ_LIMIT_BYTES))
        )
    yield from _name_vaults("Logseq", _list_graphs(f"{folders.home}/.logseq/graphs"))
    settings = read_start(f"{folders.config}/zk/config.toml", READ_LIMIT_BYTES)
    notebook = folders.zk or parse_zk_notebook(settings)
    if notebook:
        path = os.path.join(folders.home, expand_home(notebook, folders.home))
        yield from _name_vaults("zk", [path])


def _find_vault_around(here: str, home: str) -> Iterator[KnownPlace]:
    """The vault that the folder is, or is in, which its tool may not have listed: one that came by
    `git clone` or from another computer.
    """
    top = here
    while top not in ("/", home):
        kind = recognise_place(os.path.realpath(top))
        if kind.what.endswith(" vault"):
            name = os.path.basename(top)
            yield KnownPlace(name=name, what=kind.what, path=top, preset=kind.preset)
            return
        top = os.path.dirname(top)


def _find_repository(here: str, home: str) -> Iterator[KnownPlace]:
    """The repository at or above the folder, or the folder itself, if it has rules for agents."""
    top = here
    while not os.path.lexists(f"{top}/.git") and top not in ("/", home):
        top = os.path.dirname(top)
    top = here if top in ("/", home) else top
    has_rules = top not in ("/", home) and bool(find_agent_globs(top))
    if has_rules and recognise_place(os.path.realpath(top)).preset == "memory":
        name, what = os.path.basename(top), "rules of this repository for agents"
        yield KnownPlace(name=name, what=what, path=top)


def _name_vaults(tool: str, paths: Iterable[str]) -> Iterator[KnownPlace]:
    for path in paths:
        name = os.path.basename(path.rstrip("/"))
        if os.path.isabs(path) and name:
            yield KnownPlace(name=name, what=f"{tool} vault", path=path, preset="vault")


def _in_home(folders: ToolFolders, paths: Iterable[str]) -> Iterator[str]:
    return (f"{folders.home}/{path}" for path in paths)


def _list_graphs(folder: str) -> list[str]:
    try:
        return [path for name in sorted(os.listdir(folder)) if (path := parse_graph_name(name))]
    except OSError:
        return []


# --- the files of tools -------------------------------------------------------------------------


def parse_obsidian_vaults(text: str) -> list[str]:
    """The folders in Obsidian's list of vaults, none if it is damaged."""
    try:
        vaults = json.loads(text)["vaults"].values()
        return [vault["path"] for vault in vaults if isinstance(vault["path"], str)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def parse_graph_name(name: str) -> str:
    """The folder of a graph by the name of Logseq's file for it; empty for any other file."""
    if not (name.startswith(GRAPH_START) and name.endswith(GRAPH_END)):
        return ""
    coded = name[len(GRAPH_START) : -len(GRAPH_END)]
    return unquote(coded.replace("++", "/").replace("+3A+", ":"))


def parse_zk_notebook(text: str) -> str:
    """The folder of the default notebook in zk's configuration; empty without one."""
    try:
        folder = tomllib.loads(text).get("notebook", {}).get("dir", "")
    except (tomllib.TOMLDecodeError, AttributeError, RecursionError):
        return ""
    return folder if isinstance(folder, str) else ""
