"""Check that a text names a note or folder in a workspace.

Every path that comes in as text passes through here.
"""

from __future__ import annotations

import re

import msgspec

from memsyncd.errors import PathRefused

MEMORY_FILE = "MEMORY.md"
MEMORY_FOLDER = ".memories"
MARKDOWN_SUFFIXES = (".md", ".markdown")
PLAIN_SUFFIX = ".txt"
# In lower case; names may have any case.
NOTE_SUFFIXES = (*MARKDOWN_SUFFIXES, PLAIN_SUFFIX)
NAME_LIMIT_BYTES = 255
PATH_LIMIT_BYTES = 4096

# The rules for coding agents that have hidden names in a repository. They are notes if an include
# glob names them, and read-only whatever names them.
RULE_GLOBS = (
    ".cursorrules",
    ".cursor/rules/**/*.mdc",
    ".github/copilot-instructions.md",
    ".github/instructions/**/*.instructions.md",
)
# Agents read these in any folder, whatever the case of their names on some disks.
INSTRUCTION_NAMES = frozenset(
    {"agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md"}
)
_RULE_FOLDER = r"\.(?:cursor/rules|github/instructions)(?:/[^/.][^/]*)*"
_RULE_FOLDERS = re.compile(rf"\.cursor|\.github|{_RULE_FOLDER}")
_RULES = re.compile(
    r"\.cursorrules|\.github/copilot-instructions\.md"
    r"|\.cursor/rules(?:/[^/.][^/]*)*/[^/.][^/]*\.mdc"
    r"|\.github/instructions(?:/[^/.][^/]*)*/[^/.][^/]*\.instructions\.md"
)
# The forms of Syncthing; of Dropbox, Nextcloud and Obsidian; of ownCloud and of `write.restore`.
_CONFLICT_COPY = re.compile(
    r"\.sync-conflict-\d[\w-]*|[ _-]*\((?:[^()/]*[ _-])?conflicted copy[^()/]*\)"
    r"|[ _-]*[( _-]conflicted copy[^./]*|_conflict-\d[\d-]*",
    re.IGNORECASE,
)
_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class NotePath(msgspec.Struct, frozen=True, order=True):
    """A path beneath a workspace's root: `/` between parts, no `.` or `..`, nothing hidden but
    `.memories` itself and the rules of agents.

    Only `parse_note_path` makes one, so a NotePath names something inside the workspace as far as
    its text can tell.
    """

    text: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.text.split("/"))

    @property
    def name(self) -> str:
        return self.text.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The folder's text, empty for the root."""
        return self.text.rpartition("/")[0]


def parse_note_path(text: str) -> NotePath:
    """Convert text to a NotePath, or raise PathRefused naming the rule that it breaks.

    A leading `./` is accepted.
    """
    text = text.removeprefix("./")
    reason = find_refusal(text)
    if reason:
        raise PathRefused(
            f"path refused: {reason}",
            hint="name a note by its path below the workspace's root, such as .memories/context.md",
        )
    return NotePath(text)


def show_path(text: str) -> str:
    """The path for display within a text of several lines: control characters become U+FFFD, so
    that the path cannot add a line.
    """
    return text if text.isprintable() else _BREAKING.sub("\ufffd", text)


def find_refusal(text: str) -> str:
    """The reason why this text is not a path beneath a root, or an empty string."""
    if not text:
        return "it is empty"
    if "\0" in text:
        return "it holds a NUL"
    if text.startswith("/"):
        return "it is absolute"
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return "it is not valid UTF-8"
    if size > PATH_LIMIT_BYTES:
        return f"it is over {PATH_LIMIT_BYTES} bytes"
    may_be_hidden = is_rule_path(text)
    for depth, part in enumerate(text.split("/")):
        reason = _find_part_refusal(part, depth, may_be_hidden=may_be_hidden)
        if reason:
            return reason
    return ""


def _find_part_refusal(part: str, depth: int, *, may_be_hidden: bool) -> str:
    if part in ("", ".", ".."):
        return "it holds an empty part, `.` or `..`"
    if part.startswith(".") and not (depth == 0 and (may_be_hidden or part == MEMORY_FOLDER)):
        return "it holds a hidden name"
    if len(part.encode("utf-8")) > NAME_LIMIT_BYTES:
        return f"it holds a name over {NAME_LIMIT_BYTES} bytes"
    return ""


def is_memory(path: str) -> bool:
    """True for `MEMORY.md`, `.memories` and paths beneath `.memories`."""
    return path in (MEMORY_FILE, MEMORY_FOLDER) or path.startswith(f"{MEMORY_FOLDER}/")


def is_rule_path(path: str) -> bool:
    """True if a file at this path, or each that a glob matches, holds rules for an agent."""
    return path.startswith((".cursor", ".github/")) and _RULES.fullmatch(path) is not None


def is_instruction(path: str) -> bool:
    """True if the name of a file at this path is one of instructions for agents."""
    return path.rpartition("/")[2].lower() in INSTRUCTION_NAMES


def is_rule_folder(path: str) -> bool:
    """True for the folders that may hold such files, and for those on the way to them."""
    return path.startswith((".cursor", ".github")) and _RULE_FOLDERS.fullmatch(path) is not None


def is_note_name(name: str) -> bool:
    """True if a file of this base name could be a note: a note's suffix, not hidden. Backups of
    editors end otherwise, such as `note.md~` and Emacs's `#note.md#`.
    """
    return name.lower().endswith(NOTE_SUFFIXES) and not name.startswith(".")


def is_conflict_copy(path: str) -> bool:
    """True for the name of a copy that a program has made of two versions of a note."""
    return "conflict" in path.lower() and _CONFLICT_COPY.search(path) is not None


def find_copied(path: str) -> str:
    """Return the path of the note of which there is a conflict copy at `path`; empty for others."""
    return _CONFLICT_COPY.sub("", path) if is_conflict_copy(path) else ""


def is_markdown(path: str) -> bool:
    """True if the note of this path or name may have headings."""
    return path.lower().endswith(MARKDOWN_SUFFIXES)


def is_plain(path: str) -> bool:
    """True if the note of this path or name has paragraphs only."""
    return path.lower().endswith(PLAIN_SUFFIX)
