"""Which folder is a workspace's root, and to which workspace does a path belong?

The rule: a root is a real path, resolved once. It is refused where memory cannot sensibly lie: at `/`, at the home folder or
above it, in another user's folder. A path belongs to the nearest root above it; in a linked git worktree without memory of its
own, to the main worktree's. What of a root is memory is left to `scope`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass

from memsyncd.core.digest import digest_text
from memsyncd.core.notepath import MEMORY_FILE, MEMORY_FOLDER
from memsyncd.errors import BadRequest, MemsyncdError, Unsafe
from memsyncd.workspace.worktrees import find_worktree

SLUG_LIMIT_CHARACTERS = 40
NOT_SLUG = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A workspace's root. `id` depends on the real path alone, `name` is what people call it."""

    id: str
    name: str
    path: str


def name_root(path: str, *, name: str = "", is_real: bool = False) -> Root:
    """The root at `path`, whether anything stands there or not; the folder's name is its name unless another is given.

    A path that is real looks at no disk. Raises BadRequest for a path that no answer could name.
    """
    real = os.path.normpath(path) if is_real else os.path.realpath(path)
    try:
        real.encode()
    except UnicodeEncodeError:
        raise BadRequest("the folder's path is not valid UTF-8", hint="rename the folder") from None
    folder = os.path.basename(real)
    return Root(id=f"{_slug(folder)}-{digest_text(real)[:8]}", name=name or folder, path=real)


def find_root_refusal(path: str, *, home: str, uid: int) -> MemsyncdError | None:
    """Why the real path `path` cannot be a root for the user `uid`, as an error ready to be raised, or None."""
    real_home = os.path.realpath(home)
    if path == "/" or f"{real_home}/".startswith(f"{path}/"):
        return BadRequest("this folder holds far more than one project", hint="name the project's own folder")
    try:
        stat = os.stat(path)
    except OSError as error:
        return BadRequest(f"folder cannot be opened: {error.strerror}", hint="check the path")
    if not os.path.isdir(path):
        return BadRequest("this is not a folder", hint="name the folder that holds MEMORY.md or .memories/")
    if stat.st_uid != uid:
        return Unsafe("this folder belongs to another user", hint="run memsyncd as its owner, or copy the notes")
    return None


def find_identity(path: str) -> tuple[int, int] | None:
    """Device and inode of the folder at `path`, None if there is none or it cannot be looked at."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def is_gone(path: str, inode: int | None) -> bool:
    """True if no folder is at `path`, or another than the one with this inode. What cannot be looked at is not gone.

    The device is not compared: some file systems number theirs anew each time they are mounted.
    """
    try:
        stat = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return inode not in (None, stat.st_ino)


def has_memory(root: str) -> bool:
    """True if `MEMORY.md` or `.memories/` stands in this folder."""
    return os.path.isfile(f"{root}/{MEMORY_FILE}") or os.path.isdir(f"{root}/{MEMORY_FOLDER}")


def find_owner(path: str, roots: Collection[str]) -> str | None:
    """The one of `roots` (real paths) that `path` belongs to, or None."""
    real = os.path.realpath(path)
    nearest = find_nearest_root(real, roots)
    worktree = find_worktree(real)
    if worktree is None or (nearest and _is_beneath(nearest, worktree.top)) or has_memory(worktree.top):
        return nearest
    return find_nearest_root(worktree.in_main(real), roots) or nearest


def find_nearest_root(real_path: str, roots: Collection[str]) -> str | None:
    """The longest of `roots` at or above a real path, by text alone."""
    return next((folder for folder in _find_above(real_path) if folder in roots), None)


def _find_above(path: str) -> list[str]:
    """The path itself and every folder above it, nearest first."""
    found = [path]
    while (parent := os.path.dirname(found[-1])) != found[-1]:
        found.append(parent)
    return found


def _is_beneath(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return NOT_SLUG.sub("-", plain).strip("-")[:SLUG_LIMIT_CHARACTERS].rstrip("-") or "workspace"
