"""Recognise what kind of place for notes a folder is: a vault, an agent's memory, or a repository.

Vaults and the memory folders of agents are whole folders of notes, to which memories are written as
well. In any other folder `MEMORY.md` and `.memories/` are memory, and the instructions for agents
that lie beside them are read only.
"""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from memsyncd.core.notepath import MEMORY_FOLDER

Preset = Literal["memory", "vault"]
AGENT_FILES = ("AGENTS.md", "CLAUDE.md")
# Each tool with an entry that it makes in its vaults, and the folders of its own backups there.
VAULT_TOOLS = (
    ("Obsidian", ".obsidian", ()),
    ("Logseq", "logseq/config.edn", ("logseq/bak", "logseq/version-files")),
    ("zk", ".zk", ()),
    ("Foam", ".foam", ()),
    ("Foam", ".vscode/foam.json", ()),
)


class FolderKind(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder was recognised as, for people, and the settings of a workspace there."""

    what: str
    preset: Preset = "memory"
    exclude: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    memory_dir: str = ""


def recognise_place(root: str) -> FolderKind:
    """Recognise the folder at a real path by the entries of tools in it; may block."""
    own = MEMORY_FOLDER if os.path.isdir(f"{root}/{MEMORY_FOLDER}") else ""
    if is_claude_memory(root):
        return FolderKind(what="memory folder of Claude Code", preset="vault", memory_dir=own)
    for tool, mark, backups in VAULT_TOOLS:
        if os.path.lexists(f"{root}/{mark}"):
            what = f"{tool} vault"
            return FolderKind(what=what, preset="vault", exclude=backups, memory_dir=own)
    read_only = tuple(name for name in AGENT_FILES if os.path.isfile(f"{root}/{name}"))
    return FolderKind(what="MEMORY.md and .memories/", read_only=read_only)


def is_claude_memory(root: str) -> bool:
    """True for `.claude/projects/*/memory`."""
    parts = root.split("/")
    return parts[-1] == "memory" and parts[-4:-2] == [".claude", "projects"]
