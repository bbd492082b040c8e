"""What lies in a folder of memory, for a person or model that looks into it?

The rule: regular files and folders of any suffix; nothing hidden, nothing excluded, no name that a NotePath cannot hold. A link
is shown as what it leads to, if that is where links may lead. Unlike `walk`, which finds notes for the index, this shows what may
be asked for by its path.
"""

from __future__ import annotations

import contextlib
import os
import stat as modes
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from memsyncd.core.notepath import MEMORY_FILE, MEMORY_FOLDER, NotePath, find_refusal
from memsyncd.errors import PathRefused
from memsyncd.workspace.confine import NotRegularError, Target, open_beneath, open_folder_beneath
from memsyncd.workspace.failures import name_failure
from memsyncd.workspace.scope import Scope
from memsyncd.workspace.textfiles import check_root, find_place, resolve

UNSHOWN_FOLDERS = frozenset({"node_modules"})
NOTHING_THERE = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A file or folder under the path by which it is asked for. A folder's size is that of all files shown beneath it."""

    path: NotePath
    size_bytes: int
    is_folder: bool


def is_folder(scope: Scope, path: NotePath) -> bool:
    """True if a folder is there, or a link to one. Raises PathRefused as `read_text_file` does."""
    place = find_place(scope, path)
    try:
        return modes.S_ISDIR(_stat_beneath(place).st_mode)
    except NotRegularError:
        return False
    except NOTHING_THERE:
        check_root(scope)
        return False
    except OSError as error:
        raise name_failure(path, error) from error


def list_folder(scope: Scope, path: NotePath | None, *, depth: int) -> list[Listed]:
    """What lies in a folder, `depth` levels of it, by path, without the folder itself; empty if none is there.

    None stands for all memory: the root's `MEMORY.md` and what is in `.memories`, without a `MEMORY.md` there, which no tool can
    name. Raises PathRefused as `read_text_file` does, Unwritable if the folder cannot be listed.
    """
    top = path or NotePath(MEMORY_FOLDER)
    look = _Look(scope, unshown=UNSHOWN_FOLDERS, is_linking=True)
    found = {one.path.text: one for one in look.walk(top)}
    if top in look.failed:
        raise name_failure(top, look.failed[top])
    if path is None:
        found.pop(f"{MEMORY_FOLDER}/{MEMORY_FILE}", None)
        found |= {one.path.text: one for one in _find_memory_file(scope)}
    sizes = _sum_up(found.values())
    return [
        replace(one, size_bytes=sizes[text] if one.is_folder else one.size_bytes)
        for text, one in sorted(found.items())
        if text.removeprefix(f"{top.text}/").count("/") < depth
    ]


def find_files(scope: Scope, path: NotePath | None) -> list[NotePath]:
    """Every regular file beneath a folder, or all of memory for None, by path. Links are passed over, and so is what is hidden.

    Raises PathRefused as `read_text_file` does, Unwritable if a folder cannot be listed.
    """
    top = path or NotePath(MEMORY_FOLDER)
    look = _Look(scope, unshown=frozenset(), is_linking=False)
    found = [one.path for one in look.walk(top) if not one.is_folder]
    for folder, error in look.failed.items():
        raise name_failure(folder, error)
    if path is None:
        found += [one.path for one in _find_memory_file(scope)]
    return sorted(found)


@dataclass(slots=True)
class _Look:
    """One look at what lies beneath a folder. `failed` has the folders that could not be listed."""

    scope: Scope
    unshown: frozenset[str]
    is_linking: bool
    failed: dict[NotePath, OSError] = field(default_factory=dict)
    followed: set[str] = field(default_factory=set)

    def walk(self, top: NotePath) -> Iterator[Listed]:
        waiting = deque([(top, find_place(self.scope, top))])
        while waiting:
            path, place = waiting.popleft()
            try:
                entries = _list_entries(place)
            except NOTHING_THERE:
                check_root(self.scope)
                continue
            except OSError as error:
                self.failed[path] = error
                continue
            for name, stat in sorted(entries):
                yield from self._look_at(NotePath(f"{path.text}/{name}"), place, stat, waiting)

    def _look_at(
        self, path: NotePath, above: Target, stat: os.stat_result, waiting: deque[tuple[NotePath, Target]]
    ) -> Iterator[Listed]:
        if path.name in self.unshown or find_refusal(path.text) or self.scope.exclude.matches(path.text):
            return
        place = Target(above.folder, f"{above.path}/{path.name}" if above.path else path.name)
        if modes.S_ISLNK(stat.st_mode):
            try:
                place = resolve(self.scope, path)
                stat = _stat_beneath(place)
            except (OSError, PathRefused):
                return
            if not self.is_linking or (modes.S_ISDIR(stat.st_mode) and not self._is_first(above, place)):
                return
        if modes.S_ISDIR(stat.st_mode):
            waiting.append((path, place))
            yield Listed(path=path, size_bytes=0, is_folder=True)
        elif modes.S_ISREG(stat.st_mode):
            yield Listed(path=path, size_bytes=stat.st_size, is_folder=False)

    def _is_first(self, above: Target, place: Target) -> bool:
        """True once for each folder that a link leads to, and never for one that the link itself lies in."""
        if f"{above.real_path}/".startswith(f"{place.real_path}/") or place.real_path in self.followed:
            return False
        self.followed.add(place.real_path)
        return True


def _list_entries(place: Target) -> list[tuple[str, os.stat_result]]:
    """Names and what stands under them, looked at within the open folder; what goes away meanwhile is left out."""
    fd = open_folder_beneath(place.folder, place.path)
    found = []
    try:
        for name in os.listdir(fd):
            with contextlib.suppress(FileNotFoundError):
                found.append((name, os.lstat(name, dir_fd=fd)))
    finally:
        os.close(fd)
    return found


def _stat_beneath(place: Target) -> os.stat_result:
    """The stat of a folder or regular file, opened confined. Raises OSError."""
    try:
        fd = open_folder_beneath(place.folder, place.path)
    except NotADirectoryError:
        fd = open_beneath(place.folder, place.path)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def _find_memory_file(scope: Scope) -> list[Listed]:
    path = NotePath(MEMORY_FILE)
    try:
        stat = _stat_beneath(find_place(scope, path))
    except (OSError, PathRefused):
        return []
    return [Listed(path=path, size_bytes=stat.st_size, is_folder=False)] if modes.S_ISREG(stat.st_mode) else []


def _sum_up(found: Iterable[Listed]) -> Counter[str]:
    """The bytes of all files beneath each folder."""
    sizes: Counter[str] = Counter()
    for one in found:
        parts = one.path.parts[:-1] if not one.is_folder else ()
        for end in range(1, len(parts) + 1):
            sizes["/".join(parts[:end])] += one.size_bytes
    return sizes
