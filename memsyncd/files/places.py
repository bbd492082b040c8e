"""Recognise what kind of place for notes a folder is: a vault, an agent's memory, or a repository.

Vaults and the memory folders of agents are whole folders of notes, to which memories are written as
well. In any other folder `MEMORY.md` and `.memories/` are memory, and the instructions for agents
that lie beside them are read only.
"""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from memsyncd.core.notepath import MEMORY_FOLDER, RULE_GLOBS

Preset = Literal["memory", "vault"]
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
    if agent := find_memory_owner(root):
        return FolderKind(what=f"memory folder of {agent}", preset="vault", memory_dir=own)
    for tool, mark, backups in VAULT_TOOLS:
        if os.path.lexists(f"{root}/{mark}"):
            what = f"{tool} vault"
            return FolderKind(what=what, preset="vault", exclude=backups, memory_dir=own)
    is_gemini = os.path.basename(root) == ".gemini"
    what = "memory of Gemini CLI" if is_gemini else "MEMORY.md and .memories/"
    return FolderKind(what=what, read_only=find_agent_globs(root))


def find_memory_owner(root: str) -> str:
    """Return the agent that keeps its memory at this path, or an empty string."""
    parts = root.split("/")
    if parts[-1] == "memory" and parts[-4:-2] == [".claude", "projects"]:
        return "Claude Code"
    return "Codex" if parts[-2:] == [".codex", "memories"] else ""


def find_agent_globs(root: str) -> tuple[str, ...]:
    """Return those of AGENT_GLOBS of which the file, or the folder, is there; may block."""
    return tuple(
        glob for glob in AGENT_GLOBS if os.path.exists(f"{root}/{glob.partition('/**')[0]}")
    )
