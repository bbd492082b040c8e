"""What does a walk over the disk meet, entry by entry? The working half of a scan.

The rule: folders wait on a list, so no depth of nesting is too much; links wait until all else is known, lead only where they
may, and what they lead to is taken in once, and not at all if it is a note under its own path. One entry's failure ends one entry
and is named. When to walk, and what a walk's findings mean together, is left to `scan`.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from memsyncd.core.changes.diff import FileStat
from memsyncd.core.model import Problem
from memsyncd.core.notepath import MEMORY_FILE, MEMORY_FOLDER, find_refusal, is_note_name
from memsyncd.workspace.confine import LIST_FLAGS, Target, find_awaited, find_target
from memsyncd.workspace.names import has_control, has_twin, is_conflict_copy, is_leftover, is_utf8
from memsyncd.workspace.oddities import odd
from memsyncd.workspace.scope import ANY_DEPTH, IncludePlace, Scope, is_memory
from memsyncd.workspace.stats import CAN_BE_DATALESS, file_stat, is_dataless


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """A folder still to be listed: its path in the workspace, where it lies on the disk, how much deeper to go."""

    path: str
    place: str
    depth: int
    is_linked: bool = False


@dataclass(slots=True)
class Walk:
    """One scan under way: what it has found so far. `links` are still to be followed.

    `unindexed` are files that lie among the notes and whose names are no notes' names.
    """

    scope: Scope
    files: dict[str, FileStat] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    unindexed: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    link_folders: set[str] = field(default_factory=set)
    followed: set[str] = field(default_factory=set)

    def look_at(self, path: str) -> None:
        """Take in what stands at `path`, if that can be memory; for the root everything."""
        if path == "":
            self._enter(MEMORY_FILE, depth=0)
            self._enter(MEMORY_FOLDER, depth=ANY_DEPTH)
        elif find_refusal(path):
            return
        elif is_memory(path):
            self._enter(path, depth=ANY_DEPTH)
            return
        for place in self.scope.include_places:
            self._look_at_included(path, place)

    def follow_links(self) -> None:
        """Take in what the links found so far lead to, and those found on the way."""
        while self.links:
            batch, self.links = sorted(set(self.links)), []
            for path in batch:
                self._follow(path)

    def _look_at_included(self, path: str, place: IncludePlace) -> None:
        if path in ("", place.path) or place.path.startswith(f"{path}/"):
            self._enter(place.path, depth=place.depth)
        elif not place.path or path.startswith(f"{place.path}/"):
            n_deeper = path[len(place.path) :].strip("/").count("/") + 1
            if n_deeper <= place.depth + 1:
                self._enter(path, depth=place.depth - n_deeper)

    def _enter(self, path: str, *, depth: int) -> None:
        """Take in one path of which only the text is known yet."""
        place = f"{self.scope.root}/{path}" if path else self.scope.root
        folder = os.path.dirname(place) if path else place
        try:
            if os.path.realpath(folder) != folder:
                self.links.append(path)
                return
            stat = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._fail(path, error)
            return
        if modes.S_ISDIR(stat.st_mode):
            self._walk(_Folder(path=path, place=place, depth=depth))
        elif modes.S_ISLNK(stat.st_mode):
            self.links.append(path)
        elif path == MEMORY_FOLDER:
            self.problems.append(odd(path, "not_a_folder"))
        elif self.scope.is_note(path):
            self._take_regular(path, stat)

    def _take_regular(self, path: str, stat: os.stat_result) -> None:
        """Take in what the scope would have as a note, if it is a file."""
        if modes.S_ISREG(stat.st_mode):
            self._take(path, stat)
        else:
            self.problems.append(odd(path, "not_a_file"))

    def _walk(self, top: _Folder) -> None:
        if top.path == MEMORY_FILE:
            self.problems.append(odd(top.path, "not_a_file"))
            return
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            if folder.depth >= 0 and not self.scope.exclude.matches(folder.path):
                self._list(folder, waiting)

    def _list(self, folder: _Folder, waiting: list[_Folder]) -> None:
        try:
            fd = os.open(folder.place, LIST_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._fail(folder.path, error)
            return
        try:
            with os.scandir(fd) as found:
                self._take_entries(folder, found, waiting)
        except OSError as error:
            self._fail(folder.path, error)
        finally:
            os.close(fd)

    def _take_entries(self, folder: _Folder, entries: Iterable[os.DirEntry[str]], waiting: list[_Folder]) -> None:
        if folder.is_linked:
            self.link_folders.add(folder.place)
        is_wanted = self._choose_filter(folder)
        files, max_plain_bytes = self.files, -1 if CAN_BE_DATALESS else self.scope.max_file_bytes
        prefix = f"{folder.path}/" if folder.path else ""
        for entry in entries:
            path = prefix + entry.name
            try:
                if not is_note_name(entry.name):
                    self._take_other(folder, path, entry, waiting)
                elif not entry.is_file(follow_symlinks=False):
                    self._take_strange(folder, path, entry, waiting)
                elif is_wanted is None or is_wanted(path):
                    stat = entry.stat(follow_symlinks=False)
                    if stat.st_size <= max_plain_bytes and path.isascii() and path.isprintable() and "conflict" not in path:
                        files[path] = file_stat(stat)  # as nearly every file does, without a call: this line is what a scan costs
                    else:
                        self._take(path, stat)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._hold(path, "unreadable_file", error)

    def _choose_filter(self, folder: _Folder) -> Callable[[str], bool] | None:
        """What decides over names in this folder; None if every note's name is wanted, which is quick."""
        if folder.is_linked:
            return lambda path: self.scope.is_wanted(path) and self._is_first(f"{folder.place}/{path.rpartition('/')[2]}")
        if is_memory(folder.path) and not self.scope.exclude.patterns:
            return None
        return self.scope.is_wanted

    def _is_first(self, real: str) -> bool:
        """True once for each real file that a link leads to, and never for what is a note under its own path."""
        inside = real.removeprefix(f"{self.scope.root}/")
        if real in self.followed or (inside != real and self.scope.is_note(inside)):
            return False
        self.followed.add(real)
        return True

    def _take_other(self, folder: _Folder, path: str, entry: os.DirEntry[str], waiting: list[_Folder]) -> None:
        """An entry whose name is no note's: folders and links to folders matter, and what somebody may take for a note."""
        if entry.name[0] == ".":
            self._take_hidden(folder, entry.name)
        elif entry.is_file(follow_symlinks=False):
            if is_memory(folder.path) and not (folder.is_linked or is_leftover(entry.name) or self.scope.exclude.matches(path)):
                self.unindexed.add(path)
        elif entry.is_dir(follow_symlinks=False) or _leads_to_folder(entry):
            self._take_strange(folder, path, entry, waiting)

    def _take_strange(self, folder: _Folder, path: str, entry: os.DirEntry[str], waiting: list[_Folder]) -> None:
        """A folder, a link, or what no note can be."""
        if not is_utf8(entry.name):
            self.problems.append(odd(path, "bad_name"))
        elif entry.is_dir(follow_symlinks=False):
            waiting.append(
                _Folder(path=path, place=f"{folder.place}/{entry.name}", depth=folder.depth - 1, is_linked=folder.is_linked)
            )
        elif self.scope.exclude.matches(path):
            return
        elif entry.is_symlink():
            self.links.append(path)
        elif self.scope.is_wanted(path):
            self.problems.append(odd(path, "not_a_file"))

    def _take_hidden(self, folder: _Folder, name: str) -> None:
        """`.NAME.icloud` stands for the evicted file NAME; every other hidden name is none of ours."""
        if name.endswith(".icloud") and is_note_name(name[1 : -len(".icloud")]):
            self._hold(f"{folder.path}/{name[1 : -len('.icloud')]}", "evicted")

    def _take(self, path: str, stat: os.stat_result) -> None:
        """Take in a regular file of whose path the scope approves."""
        if not (path.isascii() and path.isprintable()) and not self._is_named_well(path, stat):
            return
        if stat.st_size > self.scope.max_file_bytes:
            self.problems.append(odd(path, "too_large", why=f"{stat.st_size} bytes"))
        elif CAN_BE_DATALESS and is_dataless(stat):
            self._hold(path, "evicted")
        else:
            self.files[path] = file_stat(stat)
            if "conflict" in path and is_conflict_copy(path):
                self.problems.append(odd(path, "sync_conflict"))

    def _is_named_well(self, path: str, stat: os.stat_result) -> bool:
        if not is_utf8(path):
            self.problems.append(odd(path, "bad_name"))
            return False
        if has_control(path):
            self.problems.append(odd(path, "odd_name"))
        if has_twin(f"{self.scope.root}/{path}", stat.st_ino):
            self.problems.append(odd(path, "twin_names"))
        return True

    def _follow(self, path: str) -> None:
        place = f"{self.scope.root}/{path}"
        try:
            target = find_target(place, (self.scope.root, *self.scope.allow_links_to))
            if target is None:
                self.problems.append(odd(path, "link_outside"))
            else:
                self._take_target(path, target, os.stat(target.real_path, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            self.link_folders |= find_awaited(place, (self.scope.root, *self.scope.allow_links_to))
            if is_note_name(os.path.basename(path)) and os.path.lexists(place):
                self.problems.append(odd(path, "link_broken"))
        except OSError as error:
            if error.errno == errno.ELOOP:
                self.problems.append(odd(path, "link_loop"))
            else:
                self._hold(path, "unreadable_file", error)

    def _take_target(self, path: str, target: Target, stat: os.stat_result) -> None:
        real = target.real_path
        if not modes.S_ISDIR(stat.st_mode):
            if self.scope.is_note(path) and self._is_first(real):
                self.link_folders.add(os.path.dirname(real))
                self._take_regular(path, stat)
            return
        above = os.path.realpath(os.path.dirname(f"{self.scope.root}/{path}"))
        if f"{above}/".startswith(f"{real}/"):
            self.problems.append(odd(path, "link_loop"))
        elif real not in self.followed and not self._is_scanned_anyway(target):
            self.followed.add(real)
            self._walk(_Folder(path=path, place=real, depth=ANY_DEPTH, is_linked=True))

    def _is_scanned_anyway(self, target: Target) -> bool:
        return target.folder == self.scope.root and is_memory(target.path) and not find_refusal(target.path)

    def _fail(self, path: str, error: OSError) -> None:
        self.failed.add(path)
        self.problems.append(odd(path or ".", "unreadable_folder", why=error.strerror or ""))

    def _hold(self, path: str, code: str, error: OSError | None = None) -> None:
        self.held.add(path)
        self.problems.append(odd(path, code, why=(error and error.strerror) or ""))


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """True for a link to a folder. One whose end cannot be looked at is followed too, to be named or awaited."""
    try:
        return entry.is_symlink() and modes.S_ISDIR(entry.stat().st_mode)
    except OSError:
        return True
