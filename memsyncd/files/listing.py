"""List the content of folders of memory, for callers who name files by path.

`list_folder` and `find_files` show regular files of any suffix and folders; nothing hidden, nothing
excluded, no name that a NotePath cannot hold. A link is shown as its target where links may lead.
`list_tree` lists everything beneath an open folder and follows no link, so that `remove_tree` can
remove it without leaving it. `scan` has its own walk: it finds notes for the index, and its time
per file is most of the cost of a scan.
"""

from __future__ import annotations

import contextlib
import os
import stat as modes
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from memsyncd.core.paths import (
    MEMORY_FILE,
    MEMORY_FOLDER,
    NAME_LIMIT_BYTES,
    PATH_LIMIT_BYTES,
    PRUNED_NAMES,
    NotePath,
    find_refusal,
    is_memory,
)
from memsyncd.errors import PathRefused
from memsyncd.files.confined import (
    ConfinedPath,
    NotRegularError,
    closing_fd,
    open_beneath,
    open_folder_beneath,
    open_folder_in,
)
from memsyncd.files.read import check_root, find_place, resolve, translate_error
from memsyncd.files.scope import Scope

T = TypeVar("T")
NOT_FOUND = (FileNotFoundError, NotADirectoryError)


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A listed file or folder. The size of a folder is the sum of all listed files beneath it."""

    path: NotePath
    size_bytes: int
    is_folder: bool


def is_folder(scope: Scope, path: NotePath) -> bool:
    """True for a folder or a link to a folder. Raises PathRefused as `read_text_file` does."""
    place = find_place(scope, path)
    try:
        return modes.S_ISDIR(_stat_beneath(place).st_mode)
    except NotRegularError:
        return False
    except NOT_FOUND:
        check_root(scope)
        return False
    except OSError as error:
        raise translate_error(path, error) from error


def list_folder(scope: Scope, path: NotePath | None, *, depth: int) -> list[Listed]:
    """List `depth` levels of a folder by path, without the folder itself; empty if it is missing.

    None means all memory, which is the content of the memory folder. If that is `.memories`, its
    own `MEMORY.md` is omitted, because the memory tool cannot name it, and the root's `MEMORY.md`
    is added. Raises PathRefused as `read_text_file` does, Unwritable for a folder that cannot be
    listed.
    """
    top = path or NotePath(scope.memory_dir)
    walk = _ListingWalk(scope, unshown=PRUNED_NAMES, has_links=True)
    entries: dict[str, Listed] = {}
    sizes: Counter[str] = Counter()
    for entry in walk.run(top):
        text = entry.path.text
        if not entry.is_folder:
            sizes[text.rpartition("/")[0]] += entry.size_bytes
        if _inside(text, top).count("/") < depth:
            entries[text] = entry
    if top in walk.failed:
        raise translate_error(top, walk.failed[top])
    if path is None and top.text == MEMORY_FOLDER:
        entries.pop(f"{MEMORY_FOLDER}/{MEMORY_FILE}", None)
        entries |= {entry.path.text: entry for entry in _find_memory_file(scope)}
    sizes = _add_to_folders_above(sizes)
    return [
        replace(entry, size_bytes=sizes[text]) if entry.is_folder else entry
        for text, entry in sorted(entries.items())
    ]


def _inside(text: str, top: NotePath) -> str:
    return text.removeprefix(f"{top.text}/") if top.text else text


def find_files(scope: Scope, path: NotePath | None) -> list[NotePath]:
    """Return every regular file beneath a folder, sorted by path; None means all memory.

    Links and hidden names are omitted. Raises PathRefused as `read_text_file` does, Unwritable if a
    folder cannot be listed.
    """
    top = path or NotePath(scope.memory_dir)
    walk = _ListingWalk(scope, unshown=frozenset(), has_links=False)
    paths = [entry.path for entry in walk.run(top) if not entry.is_folder]
    for folder, error in walk.failed.items():
        raise translate_error(folder, error)
    if path is None and top.text == MEMORY_FOLDER:
        paths += [entry.path for entry in _find_memory_file(scope)]
    return sorted(paths)


class _ListingWalk(msgspec.Struct):
    """A walk beneath a folder. `failed` has the folders that could not be listed."""

    scope: Scope
    unshown: frozenset[str]
    has_links: bool
    failed: dict[NotePath, OSError] = msgspec.field(default_factory=dict)
    followed: set[str] = msgspec.field(default_factory=set)

    def run(self, top: NotePath) -> Iterator[Listed]:
        place = find_place(self.scope, top) if top.text else ConfinedPath(self.scope.root, "")
        queue = deque([(top, place)])
        while queue:
            path, place = queue.popleft()
            try:
                entries = _list_entries_beneath(place)
            except NOT_FOUND:
                check_root(self.scope)
                continue
            except OSError as error:
                self.failed[path] = error
                continue
            for name, stat in sorted(entries):
                inside = NotePath(f"{path.text}/{name}" if path.text else name)
                yield from self._visit(inside, place, stat, queue)

    def _visit(
        self,
        path: NotePath,
        parent: ConfinedPath,
        stat: os.stat_result,
        queue: deque[tuple[NotePath, ConfinedPath]],
    ) -> Iterator[Listed]:
        name = path.name
        is_hidden = name in self.unshown or (
            not is_plain_entry(path.text, name) and find_refusal(path.text)
        )
        if is_hidden or self.scope.exclude.matches(path.text):
            return
        if modes.S_ISREG(stat.st_mode):
            yield Listed(path=path, size_bytes=stat.st_size, is_folder=False)
            return
        place = ConfinedPath(parent.folder, f"{parent.path}/{name}" if parent.path else name)
        if modes.S_ISLNK(stat.st_mode):
            try:
                place = resolve(self.scope, path)
                stat = _stat_beneath(place)
            except (OSError, PathRefused):
                return
            is_repeated = modes.S_ISDIR(stat.st_mode) and not self._is_first(parent, place)
            if is_repeated or not self.has_links:
                return
        if modes.S_ISDIR(stat.st_mode):
            queue.append((path, place))
            yield Listed(path=path, size_bytes=0, is_folder=True)
        elif modes.S_ISREG(stat.st_mode):
            yield Listed(path=path, size_bytes=stat.st_size, is_folder=False)

    def _is_first(self, parent: ConfinedPath, place: ConfinedPath) -> bool:
        """True at the first link to a folder; False at later ones, and for folders above a link."""
        is_above = f"{parent.real_path}/".startswith(f"{place.real_path}/")
        if is_above or place.real_path in self.followed:
            return False
        self.followed.add(place.real_path)
        return True


def is_plain_entry(path: str, name: str) -> bool:
    """True if the name of an entry is certainly no reason to refuse its path.

    The folder of the entry must have passed already.
    """
    is_short = len(path) <= PATH_LIMIT_BYTES and len(name) <= NAME_LIMIT_BYTES
    is_hidden = name[0] == "." or (path[0] == "." and not is_memory(path))
    return path.isascii() and is_short and not is_hidden


def _list_entries_beneath(place: ConfinedPath) -> list[tuple[str, os.stat_result]]:
    with closing_fd(open_folder_beneath(place.folder, place.path)) as fd:
        return _list_entries(fd)


def _list_entries(fd: int) -> list[tuple[str, os.stat_result]]:
    """Return names and stats within an open folder; entries that vanish meanwhile are omitted."""
    entries = []
    for name in os.listdir(fd):
        with contextlib.suppress(FileNotFoundError):
            entries.append((name, os.lstat(name, dir_fd=fd)))
    return entries


def _stat_beneath(place: ConfinedPath) -> os.stat_result:
    """Return the stat of a folder or regular file; no link is followed. Raises OSError."""
    try:
        fd = open_folder_beneath(place.folder, place.path)
    except NotADirectoryError:
        fd = open_beneath(place.folder, place.path)
    with closing_fd(fd):
        return os.fstat(fd)


def _find_memory_file(scope: Scope) -> list[Listed]:
    path = NotePath(MEMORY_FILE)
    try:
        stat = _stat_beneath(find_place(scope, path))
    except (OSError, PathRefused):
        return []
    if not modes.S_ISREG(stat.st_mode):
        return []
    return [Listed(path=path, size_bytes=stat.st_size, is_folder=False)]


def _add_to_folders_above(sizes: Mapping[str, int]) -> Counter[str]:
    """Return the sizes of whole folders; `sizes` counts only the files directly in each folder."""
    whole: Counter[str] = Counter()
    for folder, size_bytes in sizes.items():
        path = folder
        while path:
            whole[path] += size_bytes
            path = path.rpartition("/")[0]
    return whole


# --- whole trees --------------------------------------------------------------------------------
#
# Every folder is opened from the top by descriptor and no link is followed, so nothing outside is
# listed or removed, whatever is moved or swapped meanwhile.


class Tree(msgspec.Struct):
    """Paths beneath a folder: `folders` top down, regular `files`, links and special `others`."""

    folders: list[str] = msgspec.field(default_factory=list)
    files: list[str] = msgspec.field(default_factory=list)
    others: list[str] = msgspec.field(default_factory=list)


def list_tree(folder_fd: int) -> Tree:
    """List everything beneath an open folder. Raises OSError if a folder cannot be listed."""
    tree = Tree()
    stack = [""]
    while stack:
        path = stack.pop()
        for name, stat in _within(folder_fd, path, _list_entries):
            inside = f"{path}/{name}" if path else name
            if modes.S_ISDIR(stat.st_mode):
                tree.folders.append(inside)
                stack.append(inside)
            elif modes.S_ISREG(stat.st_mode):
                tree.files.append(inside)
            else:
                tree.others.append(inside)
    return tree


def remove_tree(folder_fd: int, name: str, tree: Tree) -> None:
    """Remove the folder `name`, which holds `tree`. Raises OSError where it has changed since."""
    with closing_fd(open_folder_in(folder_fd, name)) as fd:
        for path in (*tree.files, *tree.others):
            _remove_within(fd, path, os.unlink)
        for path in sorted(tree.folders, key=lambda folder: -folder.count("/")):
            _remove_within(fd, path, os.rmdir)
    os.rmdir(name, dir_fd=folder_fd)


def _remove_within(top_fd: int, path: str, remove: Callable[..., None]) -> None:
    parent, _, name = path.rpartition("/")
    _within(top_fd, parent, lambda fd: remove(name, dir_fd=fd))


def _within(top_fd: int, path: str, run: Callable[[int], T]) -> T:
    with closing_fd(open_folder_in(top_fd, path or ".")) as fd:
        return run(fd)
