"""Recognise the kind of a folder with notes: a vault, an agent's memory, or a repository.

In a vault and in the memory folder of an agent every note is memory, and new memories are written
there too. In any other folder `MEMORY.md` and `.memories/` are memory, and the instructions for
agents beside them are read only.

`list_projects` lists the memory folders of Claude Code's projects; `find_places` finds the places
with notes that the tools of this user know.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal
from urllib.parse import unquote

import msgspec

from memsyncd.core.paths import (
    MEMORY_FOLDER,
    RULE_GLOBS,
    find_glob_refusal,
    find_project,
    has_wildcard,
    is_note_name,
)
from memsyncd.dirs import expand_home

Preset = Literal["memory", "vault", "claude-code"]
# Claude Code's folder for its projects, and the memory folder in the folder of a project.
PROJECTS, PROJECT_MEMORY = "projects", "memory"
CLAUDE_CODE = "Claude Code"
# The instructions and rules of a repository for agents.
AGENT_GLOBS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", *RULE_GLOBS)
# Each tool, an entry that it makes in its vaults, and the folders of its own backups there.
VAULT_TOOLS = (
    ("Obsidian", ".obsidian", ()),
    ("Logseq", "logseq/config.edn", ("logseq/bak", "logseq/version-files")),
    ("zk", ".zk", ()),
    ("Foam", ".foam", ()),
    ("Foam", ".vscode/foam.json", ()),
)
# Some Foam vaults have one mark only: these settings of VS Code recommend Foam's extension.
FOAM_SETTINGS = ".vscode/extensions.json"
SETTINGS_LIMIT_BYTES = 64 * 1024
# The most entries of a folder among which vaults are looked for, and the most vaults.
LISTED_LIMIT, INNER_LIMIT = 200, 3
_FOAM_RECOMMENDED = re.compile(
    r'"recommendations"\s*:\s*\[[^\]]*"foam\.foam-vscode"', re.IGNORECASE
)


# Obsidian names its folder of templates in the first file; Logseq names its hidden pages in the
# second.
OBSIDIAN_TEMPLATES, LOGSEQ_CONFIG = ".obsidian/templates.json", "logseq/config.edn"
_EDN_TEXT_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|;[^\n]*')
_LOGSEQ_HIDDEN = re.compile(r':hidden\s*\[((?:\s|,|"[^"\\]*")*)\]')


class FolderKind(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of a folder: `what` describes it to people; the others are workspace settings."""

    what: str
    preset: Preset = "memory"
    exclude: tuple[str, ...] = ()
    memory_dir: str = ""


def recognise_place(root: str) -> FolderKind:
    """Recognise the folder at a real path by the entries of tools in it; may block."""
    agent_folder = root.removesuffix(f"/{PROJECTS}")
    is_claude = os.path.basename(agent_folder) == ".claude"
    if is_claude and os.path.isdir(f"{agent_folder}/{PROJECTS}"):
        return FolderKind(what=f"projects of {CLAUDE_CODE}", preset="claude-code")
    own = MEMORY_FOLDER if os.path.isdir(f"{root}/{MEMORY_FOLDER}") else ""
    if agent := find_memory_owner(root):
        return FolderKind(what=f"memory folder of {agent}", preset="vault", memory_dir=own)
    for tool, mark, backups in VAULT_TOOLS:
        if os.path.lexists(f"{root}/{mark}"):
            what, exclude = f"{tool} vault", (*backups, *_read_hidden(root, tool))
            return FolderKind(what=what, preset="vault", exclude=exclude, memory_dir=own)
    if _is_for_foam(root):
        return FolderKind(what="Foam vault", preset="vault", memory_dir=own)
    is_gemini = os.path.basename(root) == ".gemini"
    what = "memory of Gemini CLI" if is_gemini else "MEMORY.md and .memories/"
    return FolderKind(what=what)


def recognise_vault(root: str) -> FolderKind | None:
    """Recognise a vault at a real path; None for any other folder. May block."""
    kind = recognise_place(root)
    return kind if kind.what.endswith(" vault") else None


def find_inner_vaults(root: str) -> tuple[str, ...]:
    """Return the vaults right beneath a folder that is none, at most INNER_LIMIT; may block."""
    try:
        with os.scandir(root) as entries:
            folders = sorted(
                entry.path
                for entry in islice(entries, LISTED_LIMIT)
                if entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return ()
    return tuple(islice(filter(recognise_vault, folders), INNER_LIMIT))


def _read_hidden(root: str, tool: str) -> list[str]:
    """Read which notes and folders a vault's settings keep out of its searches.

    These are templates of Obsidian and hidden pages of Logseq. Values that cannot be a path within
    the vault are omitted.
    """
    named: list[object] = []
    if tool == "Obsidian":
        try:
            settings = json.loads(_read_settings(f"{root}/{OBSIDIAN_TEMPLATES}"))
        except ValueError:
            return []
        named = [settings.get("folder")] if isinstance(settings, dict) else []
    elif tool == "Logseq":
        config = _EDN_TEXT_OR_COMMENT.sub(r"\1", _read_settings(f"{root}/{LOGSEQ_CONFIG}"))
        hidden = _LOGSEQ_HIDDEN.search(config)
        named = [*re.findall(r'"([^"]*)"', hidden[1])] if hidden else []
    paths = (text.strip().strip("/") for text in named if isinstance(text, str))
    return [path for path in paths if not (find_glob_refusal(path) or has_wildcard(path))]


def _is_for_foam(root: str) -> bool:
    return bool(_FOAM_RECOMMENDED.search(_read_settings(f"{root}/{FOAM_SETTINGS}")))


def _read_settings(path: str) -> str:
    # The check is needed because opening a FIFO waits for its writer.
    return read_start(path, SETTINGS_LIMIT_BYTES) if os.path.isfile(path) else ""


def find_memory_owner(root: str) -> str:
    """Return the agent that keeps its memory at this path, or an empty string."""
    parts = root.split("/")
    if parts[-1] == PROJECT_MEMORY and parts[-4:-2] == [".claude", PROJECTS]:
        return CLAUDE_CODE
    return "Codex" if parts[-2:] == [".codex", "memories"] else ""


def find_agent_globs(root: str) -> tuple[str, ...]:
    """Return the globs of AGENT_GLOBS whose file or folder exists; may block."""
    return tuple(
        glob for glob in AGENT_GLOBS if os.path.exists(f"{root}/{glob.partition('/**')[0]}")
    )


# --- projects of Claude Code --------------------------------------------------------------------

TRANSCRIPT_LIMIT_BYTES = 64 * 1024
TRANSCRIPTS_LIMIT = 3
# At most this many folders without notes are watched for a first note: the latest changed ones.
AWAITED_LIMIT = 100


class AgentProject(msgspec.Struct, frozen=True):
    """A project with memories: the name of its folder, and its path (empty if unknown)."""

    slug: str
    path: str


class ProjectListing(msgspec.Struct, frozen=True):
    """The projects that have notes, and the folders in which a first note is awaited.

    The awaited folders are named from the listed folder.
    """

    projects: tuple[AgentProject, ...]
    awaited: frozenset[str]


def list_projects(folder: str, known_paths: Mapping[str, str]) -> ProjectListing | None:
    """List the projects in Claude Code's folder for them; None if it cannot be listed. May block.

    `known_paths` has the paths of projects by slug; the transcripts of these are not read again.
    """
    projects: list[AgentProject] = []
    empty: list[tuple[int, str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if _has_notes(f"{entry.path}/{PROJECT_MEMORY}"):
                    path = known_paths.get(entry.name) or _read_project(entry.path, entry.name)
                    projects.append(AgentProject(entry.name, path))
                else:
                    empty.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
    except OSError:
        return None
    recent = [name for _, name in sorted(empty, reverse=True)[:AWAITED_LIMIT]]
    awaited = {*recent, *(f"{name}/{PROJECT_MEMORY}" for name in recent)}
    return ProjectListing(
        tuple(sorted(projects, key=lambda project: project.slug)), frozenset(awaited)
    )


def _has_notes(folder: str) -> bool:
    """True if this user owns the folder and it holds a note or a folder; links do not count."""
    try:
        if os.path.islink(folder) or os.stat(folder).st_uid != os.geteuid():
            return False
        with os.scandir(folder) as entries:
            return any(
                is_note_name(entry.name)
                or (entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."))
                for entry in entries
            )
    except OSError:
        return False


def _read_project(folder: str, slug: str) -> str:
    """Return the path of a project from its latest transcripts; empty if none names it."""
    try:
        with os.scandir(folder) as entries:
            transcripts = [
                (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path)
                for entry in entries
                if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return ""
    latest = [path for _, path in sorted(transcripts, reverse=True)[:TRANSCRIPTS_LIMIT]]
    starts = (read_start(path, TRANSCRIPT_LIMIT_BYTES) for path in latest)
    return next((path for start in starts if (path := find_project(start, slug))), "")


def read_start(path: str, limit_bytes: int) -> str:
    """Return the beginning of a file as text; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit_bytes).decode("utf-8", "replace")
    except OSError:
        return ""


READ_LIMIT_BYTES = 1 << 20
PLACES_LIMIT = 200
GRAPH_START, GRAPH_END = "logseq_local_", ".transit"
# Obsidian's list of vaults, where Obsidian is a Flatpak, a snap, or an application of macOS.
OBSIDIAN_FILES = (
    ".var/app/md.obsidian.Obsidian/config/obsidian/obsidian.json",
    "snap/obsidian/current/.config/obsidian/obsidian.json",
    "Library/Application Support/obsidian/obsidian.json",
)


class ToolFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders in which tools keep their files; environment variables may change them.

    `here` is the folder whose vault and repository are searched for too; empty for none.
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
    """Find the places with notes; each folder once, each with a name of its own. May block."""
    places: dict[str, KnownPlace] = {}
    names: dict[str, int] = {}
    for place in _find_all(folders):
        real = os.path.realpath(place.path)
        if real in places or len(places) >= PLACES_LIMIT or not os.path.isdir(real):
            continue
        number = names[place.name] = names.get(place.name, 0) + 1
        name = place.name if number == 1 else f"{place.name}-{number}"
        places[real] = msgspec.structs.replace(place, name=name, path=real)
    return list(places.values())


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
    """Find the vault at or above the folder `here`.

    Its tool may not have listed it: it may have come by `git clone` or from another computer.
    """
    top = here
    while top not in ("/", home):
        if kind := recognise_vault(os.path.realpath(top)):
            name = os.path.basename(top)
            yield KnownPlace(name=name, what=kind.what, path=top, preset=kind.preset)
            return
        top = os.path.dirname(top)


def _find_repository(here: str, home: str) -> Iterator[KnownPlace]:
    """Find the repository at or above the folder, else the folder, if it has rules for agents."""
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
    """Return the folders in Obsidian's list of vaults; none if the list is damaged."""
    try:
        vaults = json.loads(text)["vaults"].values()
        return [vault["path"] for vault in vaults if isinstance(vault["path"], str)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def parse_graph_name(name: str) -> str:
    """Return the folder of a graph from the name of Logseq's file for it; empty for other files."""
    if not (name.startswith(GRAPH_START) and name.endswith(GRAPH_END)):
        return ""
    coded = name[len(GRAPH_START) : -len(GRAPH_END)]
    return unquote(coded.replace("++", "/").replace("+3A+", ":"))


def parse_zk_notebook(text: str) -> str:
    """Return the folder of the default notebook in zk's configuration; empty without one."""
    try:
        folder = tomllib.loads(text).get("notebook", {}).get("dir", "")
    except (tomllib.TOMLDecodeError, AttributeError, RecursionError):
        return ""
    return folder if isinstance(folder, str) else ""
