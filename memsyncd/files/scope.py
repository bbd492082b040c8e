"""Decide which folders are workspaces and which files in them are notes.

- `Scope`: `MEMORY.md`, notes beneath `.memories/` and the files that include globs add, and the
  folder to which memories are written. It decides by path alone; `scan` and `read` check the file
  itself (a folder, a link, too many bytes), and `scan.WorkspaceRules` apply `.gitignore` files.
- File names: UTF-8, control characters, conflict copies, temporary files of other tools.
- `Root`: the folder of a workspace, as a real path. These folders are refused: `/`, the home
  folder or a folder above it, another user's folder, `/proc`, `/sys` and `/dev`.
- A path belongs to the nearest root above it. In a linked git worktree without a root of its own,
  it belongs to the root of the same path in the main worktree. A worktree that itself holds memory
  is a workspace of its own (`find_present`).
"""

from __future__ import annotations

import itertools
import os
import re
import stat as modes
import unicodedata
from collections.abc import Collection, Iterable
from typing import Literal

import msgspec

from memsyncd.core.changes.watchplan import NO_INCLUDES, Includes
from memsyncd.core.digest import digest_text
from memsyncd.core.paths import (
    MEMORY_FILE,
    MEMORY_FOLDER,
    NO_GLOBS,
    Globs,
    Worktree,
    find_refusal,
    has_wildcard,
    identify_worktree,
    is_instruction,
    is_memory,
    is_note_name,
    is_pruned_path,
    is_rule_path,
    read_pointer,
)
from memsyncd.errors import BadRequest, MemsyncdError, Unsafe

SLUG_LIMIT_CHARACTERS = 40
POINTER_LIMIT_BYTES = 4096
WORKTREE_LIMIT = 1000


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The notes of one workspace. `root` and `allow_links_to` are real paths; see `parse_scope`.

    memsyncd never writes to notes that `read_only` matches. `memory_dir` is the folder of the
    memory tool and of new notes; empty for the root.
    """

    root: str
    includes: Includes = NO_INCLUDES
    exclude: Globs = NO_GLOBS
    read_only: Globs = NO_GLOBS
    memory_dir: str = MEMORY_FOLDER
    max_file_bytes: int
    allow_links_to: tuple[str, ...] = ()

    @property
    def allowed_folders(self) -> tuple[str, ...]:
        """The real folders in which the target of a link may be."""
        return (self.root, *self.allow_links_to)

    @property
    def selection(self) -> str:
        """A text for the settings that select notes; if it differs, other files may be notes."""
        patterns = (self.includes.named_globs, self.includes.whole, self.exclude)
        chosen = [list(globs.patterns) for globs in patterns]
        return f"{chosen} {self.max_file_bytes} {list(self.allow_links_to)}"

    def is_note(self, path: str) -> bool:
        """True if a file at this path, relative to the root, is a note of this workspace."""
        is_named = is_note_name(path.rpartition("/")[2]) or is_rule_path(path)
        return is_named and not find_refusal(path) and self.is_selected(path)

    def is_read_only(self, path: str) -> bool:
        """True if no note at this path may be written or created, and none may be moved to it.

        Rules and instructions for agents belong to people, unless an include names exactly this
        file.
        """
        if self.read_only.matches(path) or is_rule_path(path):
            return True
        return is_instruction(path) and path not in self.includes.named_globs.patterns

    def is_selected(self, path: str) -> bool:
        """True if this path is memory or an include glob matches it, and no exclude glob does.

        The suffix of the name is not checked.
        """
        is_included = self.is_named(path) or self.is_in_whole(path)
        return is_included and not self.exclude.matches(path)

    def is_named(self, path: str) -> bool:
        """True for `MEMORY.md`, paths in `.memories/`, and paths that an include matches.

        Includes over every folder (`**`) do not count.
        """
        return is_memory(path) or self.includes.named_globs.matches(path)

    @property
    def takes_all(self) -> bool:
        """True if every note is selected in every folder that is not left out."""
        return "**" in self.includes.whole.patterns and not self.exclude.patterns

    def is_in_whole(self, path: str) -> bool:
        """True if a glob over every folder matches this path and no name in it is left out."""
        return self.includes.whole.matches(path) and not is_pruned_path(path)

    def is_memory(self, path: str) -> bool:
        """True for paths of memory, whatever the suffix: the memory tool may use them."""
        if is_memory(path):
            return True
        return is_within_folder(path, self.memory_dir) and not is_pruned_path(path)


def parse_scope(
    root: str,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    read_only: Iterable[str] = (),
    memory_dir: str = MEMORY_FOLDER,
    max_file_bytes: int,
    allow_links_to: Iterable[str] = (),
) -> Scope:
    """Make the scope of a real path from the configuration.

    Notes that `read_only` matches and notes of the memory folder are included. Raises BadRequest
    for a bad glob.
    """
    read_only, memory_dir = tuple(read_only), parse_memory_dir(memory_dir)
    of_folder = f"{memory_dir}/**" if memory_dir else "**"
    own = () if is_memory(memory_dir) else (of_folder,)
    return Scope(
        root=root,
        includes=Includes.parse(dict.fromkeys((*include, *read_only, *own))),
        exclude=Globs.parse_excludes(exclude),
        read_only=Globs.parse(read_only),
        memory_dir=memory_dir,
        max_file_bytes=max_file_bytes,
        allow_links_to=tuple(os.path.realpath(folder) for folder in allow_links_to),
    )


def parse_memory_dir(text: str) -> str:
    """Return the path of a memory folder; empty for the root. Raises BadRequest if refused."""
    folder = text.removeprefix("./").rstrip("/")
    if folder in ("", "."):
        return ""
    reason = find_refusal(folder) or ("it holds a wildcard" if has_wildcard(folder) else "")
    if reason or folder == MEMORY_FILE:
        reason = reason or "it is a note"
        hint = "name a folder beneath the workspace's root, or . for the root itself"
        raise BadRequest(f"memory_dir {text!r} refused: {reason}", hint=hint)
    return folder


def is_within_folder(path: str, folder: str) -> bool:
    """True for a folder and paths beneath it; the empty folder is the root."""
    return not folder or f"{path}/".startswith(f"{folder}/")


# --- file names ---------------------------------------------------------------------------------

# Line ends, escape sequences and changes of direction make a name look like another name.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# Emacs, and hidden names.
LEFTOVER_STARTS = ("#", ".")
# Backups, vim, VS Code, JetBrains, downloads.
LEFTOVER_ENDS = tuple(
    "~ .swp .swo .swn .swx .tmp .vsctmp ___jb_tmp___ ___jb_old___ .part .crdownload .lock".split()
)


def is_utf8(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= char <= "\udcff" for char in name)


def show_name(text: str) -> str:
    """Return the text with bytes that are not UTF-8 replaced, so that it can be encoded."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def has_control(path: str) -> bool:
    """True if the path holds a character that makes it look like another path."""
    return CONTROL.search(path) is not None


def is_leftover(name: str) -> bool:
    """True for temporary files of editors, agents and other tools."""
    if name.startswith(LEFTOVER_STARTS) or name.endswith(LEFTOVER_ENDS) or ".tmp." in name:
        return True
    # Vim creates `4913` to test whether a folder is writable; `sed -i` writes `sed` and letters.
    return name == "4913" or (name.startswith("sed") and name[3:].isalnum())


def has_twin(path: str, inode: int) -> bool:
    """True if the same name in another Unicode normalization is another file of the folder."""
    folder, _, name = path.rpartition("/")
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, name)
        try:
            if other != name and os.lstat(f"{folder}/{other}").st_ino != inode:
                return True
        except OSError:
            continue
    return False


# --- roots --------------------------------------------------------------------------------------

NOT_SLUG = re.compile(r"[^a-z0-9]+")


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """The root of a workspace. `id` depends on the real path alone; `name` is shown to people."""

    id: str
    name: str
    path: str


def make_root(path: str, *, is_real: bool = False) -> Root:
    """Make the root at `path`, which may be missing; it has the folder's name.

    With `is_real` the path is taken as a real path and no disk is accessed. Raises BadRequest for a
    path that is not UTF-8, because JSON cannot hold it.
    """
    real = os.path.normpath(path) if is_real else os.path.realpath(path)
    try:
        real.encode()
    except UnicodeEncodeError:
        raise BadRequest("the folder's path is not valid UTF-8", hint="rename the folder") from None
    folder = os.path.basename(real)
    return Root(id=f"{_slug(folder)}-{digest_text(real)[:8]}", name=folder, path=real)


def find_root_refusal(path: str, *, home: str, uid: int) -> MemsyncdError | None:
    """Return the error that forbids the real path `path` as a root of the user `uid`, or None."""
    real_home = os.path.realpath(home)
    if _is_made_by_system(path):
        hint = "name a folder on a disk"
        return BadRequest(
            "the system makes the files of this folder: they hold no notes", hint=hint
        )
    if path == "/" or f"{real_home}/".startswith(f"{path}/"):
        hint = "name the project's own folder"
        return BadRequest("this folder holds far more than one project", hint=hint)
    try:
        stat = os.stat(path)
    except OSError as error:
        return BadRequest(f"folder cannot be opened: {error.strerror}", hint="check the path")
    if not os.path.isdir(path):
        hint = "name the folder that holds MEMORY.md or .memories/"
        return BadRequest("this is not a folder", hint=hint)
    if stat.st_uid != uid:
        hint = "run memsyncd as its owner, or copy the notes"
        return Unsafe("this folder belongs to another user", hint=hint)
    return None


def _is_made_by_system(path: str) -> bool:
    """True for folders of processes, the kernel and devices; /dev/shm holds ordinary files."""
    if is_within_folder(path, "/dev/shm"):  # noqa: S108  nothing is written there
        return False
    return any(is_within_folder(path, folder) for folder in ("/proc", "/sys", "/dev"))


def find_identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of the folder at `path`; None if it is missing or forbidden."""
    try:
        return identify(os.stat(path))
    except OSError:
        return None


def identify(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def is_gone(path: str, inode: int | None) -> bool:
    """True if there is no folder at `path`, or a folder with another inode.

    A folder that cannot be accessed is not gone. The device is not compared: some file systems
    change its number at each mount.
    """
    try:
        stat = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return inode not in (None, stat.st_ino)


def has_memory(root: str) -> bool:
    """True if this folder holds `MEMORY.md` or `.memories/`."""
    return os.path.isfile(f"{root}/{MEMORY_FILE}") or os.path.isdir(f"{root}/{MEMORY_FOLDER}")


def find_present(root: str, places: Iterable[str]) -> tuple[str, ...]:
    """Return the `places` (files and folders, named from `root`) that exist.

    An empty folder does not count, because git does not track it. Blocks on the disk.
    """
    return tuple(place for place in places if _holds_something(os.path.join(root, place)))


def _holds_something(path: str) -> bool:
    try:
        if not modes.S_ISDIR(os.stat(path).st_mode):
            return True
        with os.scandir(path) as entries:
            return next(entries, None) is not None
    except OSError:
        return False


def find_owner(
    path: str, roots: Collection[str], sharing: Literal["shared", "own"] = "shared"
) -> str | None:
    """Return the root of `roots` (real paths) to which `path` belongs, or None.

    `sharing` says whether a linked worktree without a root of its own shares the memory of the main
    worktree.
    """
    real = os.path.realpath(path)
    nearest = find_nearest_root(real, roots)
    worktree = find_worktree(real)
    if worktree is None or (nearest and is_within_folder(nearest, worktree.top)):
        return nearest
    if sharing == "shared":
        return _find_shared_owner(real, worktree, roots) or nearest
    # A linked worktree may lie within the main worktree.
    main = worktree.main
    return find_nearest_root(
        real, [root for root in roots if main is None or not is_within_folder(root, main)]
    )


def find_nearest_root(real_path: str, roots: Collection[str]) -> str | None:
    """Return the longest of `roots` at or above a real path; the disk is not read."""
    return next((folder for folder in _list_upwards(real_path) if folder in roots), None)


def _list_upwards(path: str) -> list[str]:
    """Return the path and every folder above it, nearest first."""
    folders = [path]
    while (parent := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(parent)
    return folders


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return NOT_SLUG.sub("-", plain).strip("-")[:SLUG_LIMIT_CHARACTERS].rstrip("-") or "workspace"


# --- git worktrees ------------------------------------------------------------------------------
#
# Git's files are read; git is not run.


def find_worktree(real_path: str) -> Worktree | None:
    """Return the linked worktree of a real path; None in a main worktree or in a submodule."""
    worktree = _identify(real_path)
    return None if worktree is None or worktree.trouble else worktree


def find_checkout(top: str) -> str | None:
    """Return the main worktree of the linked worktree with this top folder; None if there is none.

    A bare repository has linked worktrees only; it is recognised because it has no index.
    """
    worktree = identify_worktree(top, _read_small, os.path.realpath)
    if worktree is None or worktree.main is None or worktree.is_bare:
        return None
    return worktree.main if os.path.lexists(f"{worktree.repository}/index") else None


def find_worktree_trouble(real_path: str) -> str:
    """Return why the linked worktree of a real path cannot be followed to its repository, or ""."""
    worktree = _identify(real_path)
    return "" if worktree is None else worktree.trouble


def find_shared_folder(real_path: str, roots: Collection[str]) -> str | None:
    """Return the folder with which a folder in a linked worktree shares its memory, or None.

    It is the same path in the main worktree, if that folder exists. In a bare repository it is the
    same path in the only worktree that has a root.
    """
    worktree = find_worktree(real_path)
    if worktree is None:
        return None
    tops = _list_bare_tops(worktree) if worktree.is_bare else [worktree.main or ""]
    places = [(top, worktree.in_tree(real_path, top)) for top in tops if top != worktree.top]
    if worktree.is_bare:
        places = [(top, path) for top, path in places if _find_root_in(path, top, roots)]
    if len(places) != 1:
        return None
    place = places[0][1]
    return place if os.path.isdir(place) else None


def find_worktree_root(real_path: str, root: str) -> str:
    """Return the folder of a linked worktree that corresponds to `root`, whose memory it shares.

    The worktree is the one of `real_path`. The result is empty if the path is in no such worktree.
    """
    worktree = find_worktree(real_path)
    if worktree is None or is_within_folder(root, worktree.top):
        return ""
    # The folder of a bare repository may hold its worktrees, so their tops come first.
    tops = _list_bare_tops(worktree) if worktree.is_bare else []
    tops += [worktree.main] if worktree.main else []
    return next(
        (worktree.top + root[len(top) :] for top in tops if is_within_folder(root, top)), ""
    )


def _find_shared_owner(real_path: str, worktree: Worktree, roots: Collection[str]) -> str | None:
    """Return the root that a path in a linked worktree shares; None if there is not exactly one."""
    if worktree.main is not None:
        owner = find_nearest_root(worktree.in_tree(real_path, worktree.main), roots)
        if owner is not None:
            return owner
    if not worktree.is_bare:
        return None
    shared_roots = (
        _find_root_in(worktree.in_tree(real_path, top), top, roots)
        for top in _list_bare_tops(worktree)
    )
    owners = {owner for owner in shared_roots if owner is not None}
    return owners.pop() if len(owners) == 1 else None


def _find_root_in(real_path: str, top: str, roots: Collection[str]) -> str | None:
    """Return the nearest root above a path that is at or beneath `top`."""
    nearest = find_nearest_root(real_path, roots)
    return nearest if nearest is not None and is_within_folder(nearest, top) else None


def _list_bare_tops(worktree: Worktree) -> list[str]:
    """Return the top folders of all worktrees that a bare repository lists, in order of name."""
    try:
        with os.scandir(f"{worktree.repository}/worktrees") as entries:
            names = sorted(entry.name for entry in itertools.islice(entries, WORKTREE_LIMIT))
    except OSError:
        return []
    folders = [f"{worktree.repository}/worktrees/{name}" for name in names]
    pointers = [(folder, read_pointer(_read_small(f"{folder}/gitdir"))) for folder in folders]
    # If a worktree was moved without git, its pointer leads to a folder that does not exist.
    return [
        os.path.dirname(os.path.realpath(os.path.join(folder, pointer)))
        for folder, pointer in pointers
        if pointer is not None
    ]


def _identify(real_path: str) -> Worktree | None:
    """Return the nearest linked worktree at or above a path, or None.

    A repository within the worktree, such as a submodule, counts as a part of it.
    """
    tops = (top for top in _list_upwards(real_path) if os.path.lexists(f"{top}/.git"))
    named = (identify_worktree(top, _read_small, os.path.realpath) for top in tops)
    return next((worktree for worktree in named if worktree is not None), None)


def _read_small(path: str) -> str | None:
    """Return the first bytes of a regular file; None if there is none."""
    try:
        if not modes.S_ISREG(os.lstat(path).st_mode):
            return None
        with open(path, "rb") as file:
            return os.fsdecode(file.read(POINTER_LIMIT_BYTES))
    except (OSError, ValueError):
        return None
