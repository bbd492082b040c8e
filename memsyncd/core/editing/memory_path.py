"""Parse and render paths of the memory tool: `/memories` is the workspace's memory folder.

That is `.memories/`, and then `/memories/MEMORY.md` is the workspace's MEMORY.md; or another
folder, or the root of a vault, and then every path beneath it has the same path in `/memories`.

The rule: a path names an entry beneath `/memories` as it is written, or it is refused. Nothing is
decoded, normalised or resolved, so a spelling that another program might convert to `..`, `/` or a
backslash is refused. Only spellings that cannot lead elsewhere are accepted: doubled slashes, `.`
between slashes, a slash at the end.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NoReturn

import msgspec

from memsyncd.core.notepath import (
    MEMORY_FILE,
    MEMORY_FOLDER,
    PATH_LIMIT_BYTES,
    NotePath,
    find_refusal,
    parse_note_path,
)
from memsyncd.errors import PathRefused

MEMORIES: Final = "/memories"
SHOWN_PATH_CHARS: Final = 200

_ENCODED = re.compile(r"%(?:25)*(?:2e|2f|5c|00|c0|c1)", re.IGNORECASE)
_SEPARATORS = "./\\"
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_HINT = "name a note by its path beneath /memories, such as /memories/decisions.md"


class MemoryPath(msgspec.Struct, frozen=True):
    """A path of the memory tool in its one spelling, without a slash at the end.

    `note` is None for `/memories` itself. Made by `parse_memory_path` only.
    """

    text: str
    note: NotePath | None


def parse_memory_path(text: str, folder: str = MEMORY_FOLDER) -> MemoryPath:
    """Convert text to a MemoryPath, or raise PathRefused naming the rule that it breaks.

    `folder` is the memory folder's path from the root, empty for the root.
    """
    if text != MEMORIES and not text.startswith(f"{MEMORIES}/"):
        raise PathRefused(f"Path must start with {MEMORIES}, got: {_shorten(text)}", hint=_HINT)
    reason = _find_refusal(text)
    if reason:
        _refuse(text, reason)
    parts = [part for part in text[len(MEMORIES) :].split("/") if part not in ("", ".")]
    if ".." in parts or "\\" in text:
        raise PathRefused(f"Path {_shorten(text)} would escape {MEMORIES} directory", hint=_HINT)
    if not parts:
        return MemoryPath(MEMORIES, None)
    return MemoryPath("/".join((MEMORIES, *parts)), _parse_parts(text, parts, folder))


def parse_file_path(text: str, folder: str = MEMORY_FOLDER) -> MemoryPath:
    """Convert the text of a path at which a file is to be made, or raise PathRefused: a slash at
    the end names a folder.
    """
    path = parse_memory_path(text, folder)
    if path.note is not None and text.endswith("/"):
        _refuse(text, "the slash at its end names a folder, and this would be a file")
    return path


def show_memory_path(path: NotePath, folder: str = MEMORY_FOLDER) -> str:
    """The path by which the memory tool names a note or folder.

    Raises PathRefused for a path that is not beneath `/memories`. `.memories/MEMORY.md` gets the
    same name as the workspace's MEMORY.md, since it has no other.
    """
    if folder == MEMORY_FOLDER and path.text == MEMORY_FILE:
        return f"{MEMORIES}/{MEMORY_FILE}"
    inside = path.text.removeprefix(f"{folder}/") if folder else path.text
    if folder and inside == path.text:
        raise PathRefused(f"path refused: it is not beneath {MEMORIES}", hint=_HINT)
    return f"{MEMORIES}/{inside}"


def _parse_parts(text: str, parts: list[str], folder: str) -> NotePath:
    if folder == MEMORY_FOLDER and parts == [MEMORY_FILE]:
        return NotePath(MEMORY_FILE)
    if folder in ("", MEMORY_FOLDER) and parts[0] == MEMORY_FILE and len(parts) > 1:
        _refuse(text, f"{MEMORY_FILE} is a note, not a folder")
    within = "/".join((folder, *parts)) if folder else "/".join(parts)
    reason = find_refusal(within)
    if reason:
        _refuse(text, reason)
    return parse_note_path(within)


def _find_refusal(text: str) -> str:
    if len(text) > PATH_LIMIT_BYTES:
        return f"it is over {PATH_LIMIT_BYTES} bytes"
    if any(unicodedata.category(char) in _UNPRINTABLE for char in text):
        return "it holds a control character"
    if _ENCODED.search(text):
        return "it holds an encoded dot, slash or NUL"
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text)
        if any(plain.count(mark) != text.count(mark) for mark in _SEPARATORS):
            return "it contains a character that looks like a dot or slash"
    return ""


def _refuse(text: str, reason: str) -> NoReturn:
    raise PathRefused(f"Path {_shorten(text)} refused: {reason}", hint=_HINT)


def _shorten(text: str) -> str:
    """The received text in a form that can be sent back."""
    shown = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return shown if len(shown) <= SHOWN_PATH_CHARS else shown[:SHOWN_PATH_CHARS] + "…"
