"""List the content of folders of memory, for callers who name files by path.

`list_folder` and `find_files` show regular files of any suffix and folders; nothing hidden, nothing
excluded, no name that a NotePath cannot hold. A link is shown as its target where links may lead.
`list_tree` lists everything beneath an open folder and follows no link, so that `remove_tree` can
remove it without leaving it. `scan` has its own walk: it finds notes for the index, and its time
per file is most of the cost of a scan.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat as modes
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

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
MOST_LISTED = 1_000_000_000
NOT_FOUND = (FileNotFoundError, NotADirectoryError)


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A listed file or folder; `place` is where a folder is, None for a file. The size of a folder
    is the sum of the files beneath it, 0 until it is measured.
    """

    path: NotePath
    size_bytes: int = 0
    place: ConfinedPath | None = None

    @property
    def is_folder(self) -> bool:
        return self.place is not None


class ListedFolder(NamedTuple):
    """The entries of a folder by path, without the folder itself, and its size. `is_cut` is True
    if it has more entries.
    """

    entries: list[Listed]
    size_bytes: int
    is_cut: bool


Measure = Callable[[Sequence[str]], Mapping[str, int]]
"""Returns the sizes of folders by their paths from the root; a folder may be left out."""


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


def list_folder(
    scope: Scope,
    path: NotePath | None,
    *,
    depth: int,
    most: int = MOST_LISTED,
    measure: Measure = lambda _: {},
) -> ListedFolder:
    """List `depth` levels of a folder by path; empty if it is missing.

    If there are more than `most` entries, only the upper levels are listed that have no more; of a
    first level that has more the first by name. The size of a folder is the sum of its listed
    entries. If they are not listed, `measure` says it, or all files beneath it are looked up.

    None means all memory, which is the content of the memory folder. If that is `.memories`, its
    own `MEMORY.md` is omitted, because the memory tool cannot name it, and the root's `MEMORY.md`
    is added. Raises PathRefused as `read_text_file` does, Unwritable for a folder that cannot be
    listed.
    """
    top = path or NotePath(scope.memory_dir)
    walk = _ListingWalk(scope, unshown=PRUNED_NAMES, has_links=True)
    place = walk.find_top(top)
    first = walk.read(top, place, most=most + 1)  # its MEMORY.md may be omitted
    if top in walk.failed:
        raise translate_error(top, walk.failed[top])
    if path is None and top.text == MEMORY_FOLDER:
        first = [entry for entry in first if entry.path.text != f"{MEMORY_FOLDER}/{MEMORY_FILE}"]
        first = sorted([*first, *_find_memory_file(scope)], key=lambda entry: entry.path.name)
    is_cut = is_first_cut = len(first) > most
    levels = [first[:most]]
    n_left = most - len(first)
    while len(levels) < depth and not is_cut:
        folders = [(each.path, each.place) for each in levels[-1] if each.place is not None]
        for folder in folders:
            n_left -= walk.count(*folder, most=n_left + 1)
            is_cut = n_left < 0
            if is_cut:
                break
        else:
            levels.append([entry for folder in folders for entry in walk.read(*folder)])
    unlisted = [entry for entry in levels[-1] if entry.is_folder]
    if is_first_cut:
        unlisted.append(Listed(path=top, place=place))
    sizes = _measure_folders(scope, unlisted, measure)
    size_bytes = sizes[top.text]
    entries = [_measure(entry, sizes) for level in reversed(levels) for entry in level]
    if not is_first_cut:
        size_bytes = sum(sizes[entry.path.text] for entry in first)
    return ListedFolder(sorted(entries, key=lambda entry: entry.path), size_bytes, is_cut)


def _measure(entry: Listed, sizes: Counter[str]) -> Listed:
    """Return an entry with its size, and add this to the size of its folder. `sizes` has the sums
    of what is beneath it.
    """
    path = entry.path
    if entry.is_folder:
        entry = replace(entry, size_bytes=sizes[path.text])
    else:
        sizes[path.text] = entry.size_bytes
    sizes[path.folder] += entry.size_bytes
    return entry


def _measure_folders(scope: Scope, folders: Sequence[Listed], measure: Measure) -> Counter[str]:
    sizes = Counter(measure([folder.path.text for folder in folders]))
    for folder in folders:
        if folder.place is not None and folder.path.text not in sizes:
            walk = _ListingWalk(scope, unshown=PRUNED_NAMES, has_links=True)
            entries = walk.run(folder.path, folder.place)
            sizes[folder.path.text] = sum(entry.size_bytes for entry in entries)
    return sizes


def find_files(scope: Scope, path: NotePath | None) -> list[NotePath]:
    """Return every regular file beneath a folder, sorted by path; None means all memory.

    Links and hidden names are omitted. Raises PathRefused as `read_text_file` does, Unwritable if a
    folder cannot be listed.
    """
    top = path or NotePath(scope.memory_dir)
    walk = _ListingWalk(scope, unshown=frozenset(), has_links=False)
    entries = walk.run(top, walk.find_top(top))
    paths = [entry.path for entry in entries if not entry.is_folder]
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

    def find_top(self, top: NotePath) -> ConfinedPath:
        return find_place(self.scope, top) if top.text else ConfinedPath(self.scope.root, "")

    def run(self, top: NotePath, place: ConfinedPath) -> Iterator[Listed]:
        """Yield all entries beneath a folder."""
        queue = deque([Listed(path=top, place=place)])
        while queue:
            folder = queue.popleft()
            if folder.place is not None:
                entries = self.read(folder.path, folder.place)
                queue += (entry for entry in entries if entry.is_folder)
                yield from entries

    def read(self, path: NotePath, place: ConfinedPath, *, most: int = MOST_LISTED) -> list[Listed]:
        """Return the entries right in a folder, by name. If they are more than `most`, one more."""
        return self._open(path, place, lambda fd: self._list(path, place, fd, most + 1))

    def count(self, path: NotePath, place: ConfinedPath, *, most: int) -> int:
        """Count the entries right in a folder up to `most`, by their names alone."""

        def list_names(fd: int) -> list[str]:
            return [*itertools.islice(self._iter_names(path, os.listdir(fd)), most)]

        return len(self._open(path, place, list_names))

    def _open(self, path: NotePath, place: ConfinedPath, read: Callable[[int], list[T]]) -> list[T]:
        """Return what `read` returns for a descriptor of a folder; nothing if that is missing."""
        try:
            with closing_fd(open_folder_beneath(place.folder, place.path)) as fd:
                return read(fd)
        except NOT_FOUND:
            check_root(self.scope)
        except OSError as error:
            self.failed[path] = error
        return []

    def _list(self, path: NotePath, place: ConfinedPath, fd: int, most: int) -> list[Listed]:
        entries: list[Listed] = []
        for name in self._iter_names(path, sorted(os.listdir(fd))):
            if len(entries) == most:
                break
            inside = NotePath(f"{path.text}/{name}" if path.text else name)
            with contextlib.suppress(FileNotFoundError):  # it has vanished meanwhile
                entries += self._visit(inside, place, os.lstat(name, dir_fd=fd))
        return entries

    def _iter_names(self, folder: NotePath, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            path = f"{folder.text}/{name}" if folder.text else name
            is_hidden = name in self.unshown or (
                not is_plain_entry(path, name) and find_refusal(path)
            )
            if not is_hidden and not self.scope.exclude.matches(path):
                yield name

    def _visit(
        self, path: NotePath, parent: ConfinedPath, stat: os.stat_result
    ) -> Iterator[Listed]:
        if modes.S_ISREG(stat.st_mode):
            yield Listed(path=path, size_bytes=stat.st_size)
            return
        inside = f"{parent.path}/{path.name}" if parent.path else path.name
        place = ConfinedPath(parent.folder, inside)
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
            yield Listed(path=path, place=place)
        elif modes.S_ISREG(stat.st_mode):
            yield Listed(path=path, size_bytes=stat.st_size)

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
    return [Listed(path=path, size_bytes=stat.st_size)]


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
