"""Recognise what kind of place for notes a folder is: a vault, an agent's memory, or a repository;
list the memory folders of Claude Code's projects.

Vaults and the memory folders of agents are whole folders of notes, to which memories are written as
well. In any other folder `MEMORY.md` and `.memories/` are memory, and the instructions for agents
that are beside them are read only.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from memsyncd.core.paths import (
    MEMORY_FOLDER,
    RULE_GLOBS,
    find_glob_refusal,
    find_project,
    has_wildcard,
    is_note_name,
)

Preset = Literal["memory", "vault", "claude-code"]
# Claude Code's folder for its projects, and that of the memory in the folder of a project.
PROJECTS, PROJECT_MEMORY = "projects", "memory"
CLAUDE_CODE = "Claude Code"
# The instructions and rules of a repository for agents.
AGENT_GLOBS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", *RULE_GLOBS)
# Each tool with an entry that it makes in its vaults, and the folders of its own backups there.
VAULT_TOOLS = (
    ("Obsidian", ".obsidian", ()),
    ("Logseq", "logseq/config.edn", ("logseq/bak", "logseq/version-files")),
    ("zk", ".zk", ()),
    ("Foam", ".foam", ()),
    ("Foam", ".vscode/foam.json", ()),
)
# A folder for Foam may have no other mark than that VS Code is to recommend its extension there.
FOAM_SETTINGS = ".vscode/extensions.json"
SETTINGS_LIMIT_BYTES = 64 * 1024
_FOAM_RECOMMENDED = re.compile(
    r'"recommendations"\s*:\s*\[[^\]]*"foam\.foam-vscode"', re.IGNORECASE
)


# The files in which Obsidian names its folder of templates, and Logseq the pages that it hides.
OBSIDIAN_TEMPLATES, LOGSEQ_CONFIG = ".obsidian/templates.json", "logseq/config.edn"
_EDN_TEXT_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|;[^\n]*')
_LOGSEQ_HIDDEN = re.compile(r':hidden\s*\[((?:\s|,|"[^"\\]*")*)\]')


class FolderKind(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder was recognised as, for people, and the settings of a workspace there."""

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


def _read_hidden(root: str, tool: str) -> list[str]:
    """Read which notes and folders the settings of a vault keep out of its searches: templates of
    Obsidian, hidden pages of Logseq. What these settings cannot mean is left out.
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
    # The check is needed because to open a FIFO waits for its writer.
    return read_start(path, SETTINGS_LIMIT_BYTES) if os.path.isfile(path) else ""


def find_memory_owner(root: str) -> str:
    """Return the agent that keeps its memory at this path, or an empty string."""
    parts = root.split("/")
    if parts[-1] == PROJECT_MEMORY and parts[-4:-2] == [".claude", PROJECTS]:
        return CLAUDE_CODE
    return "Codex" if parts[-2:] == [".codex", "memories"] else ""


def find_agent_globs(root: str) -> tuple[str, ...]:
    """Return those of AGENT_GLOBS of which the file, or the folder, is there; may block."""
    return tuple(
        glob for glob in AGENT_GLOBS if os.path.exists(f"{root}/{glob.partition('/**')[0]}")
    )


# --- projects of Claude Code --------------------------------------------------------------------

TRANSCRIPT_LIMIT_BYTES = 64 * 1024
TRANSCRIPTS_LIMIT = 3
# Folders without notes are watched for their first one: those that changed last.
AWAITED_LIMIT = 100


class AgentProject(msgspec.Struct, frozen=True):
    """A project with memories: the name of its folder, and its path, empty if unknown."""

    slug: str
    path: str


class ProjectListing(msgspec.Struct, frozen=True):
    """The projects that have notes; the folders, from the listed one on, to await notes in."""

    projects: tuple[AgentProject, ...]
    awaited: frozenset[str]


def list_projects(folder: str, known: Mapping[str, str]) -> ProjectListing | None:
    """List the projects in Claude Code's folder for them; None if it cannot be listed. May block.

    `known` has the paths of projects by slug: their transcripts are not read again.
    """
    projects: list[AgentProject] = []
    empty: list[tuple[int, str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    continue
                if _has_notes(f"{entry.path}/{PROJECT_MEMORY}"):
                    path = known.get(entry.name) or _read_project(entry.path, entry.name)
                    projects.append(AgentProject(entry.name, path))
                else:
                    empty.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
    except OSError:
        return None
    recent = [name for _, name in sorted(empty, reverse=True)[:AWAITED_LIMIT]]
    awaited = {*recent, *(f"{name}/{PROJECT_MEMORY}" for name in recent)}
    return ProjectListing(tuple(sorted(projects, key=lambda one: one.slug)), frozenset(awaited))


def _has_notes(folder: str) -> bool:
    """True for a folder of this user's own with a note, or a folder, in it; links do not count."""
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
    """Return the path of a project by its latest transcripts; empty if none tells it."""
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
    return next((found for start in starts if (found := find_project(start, slug))), "")


def read_start(path: str, limit_bytes: int) -> str:
    """Return the beginning of a file as text; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit_bytes).decode("utf-8", "replace")
    except OSError:
        return ""
