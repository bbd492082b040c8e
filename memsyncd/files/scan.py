"""Find the notes of a workspace and report problems of its files; no note is read.

A folder that cannot be listed is reported as failed, and a file that cannot be examined as
unreadable. A root that is missing, unreadable or replaced during the scan is not an empty root. So
`core.changes.diff` deletes nothing for any of these failures.

A whole folder of notes is scanned like any include, without the entries that `WorkspaceRules`
leave out.

`Walk` keeps folders on a stack, so recursion does not limit the depth of folders. Links are
followed last, only to allowed folders, and each target once; a target that is a note under its own
path is skipped. The failure of an entry is reported, and the scan goes on with the next entry.

`find_mounts` finds the disks with notes, beneath the root or where links lead; `find_away` returns
the disks that are not mounted now.
"""

from __future__ import annotations

import errno
import heapq
import os
import re
import stat as modes
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from memsyncd.core.changes.diff import (
    SHADOWED,
    FileStat,
    KnownStats,
    RootState,
    Snapshot,
    has_ordinary_name,
    hash_stat,
    is_within,
    join_names,
)
from memsyncd.core.changes.watchplan import ANY_DEPTH, Include
from memsyncd.core.model import Problem
from memsyncd.core.paths import (
    BUILD_FILES,
    IGNORE_FILE,
    MEMORY_FILE,
    MEMORY_FOLDER,
    PRUNED_MARKERS,
    IgnoreRules,
    find_refusal,
    is_build_output,
    is_conflict_copy,
    is_memory,
    is_note_name,
    is_pruned_content,
    is_pruned_path,
    is_rule_folder,
    is_rule_path,
)
from memsyncd.files.confined import (
    FILE_FLAGS,
    LIST_FLAGS,
    ConfinedPath,
    closing_fd,
    find_missing_target_folder,
    find_target,
)
from memsyncd.files.read import CAN_BE_DATALESS, file_stat, is_dataless, problem
from memsyncd.files.scope import (
    Scope,
    find_checkout,
    has_control,
    has_twin,
    identify,
    is_leftover,
    is_utf8,
    is_within_folder,
)

# A longer file is cut. Compiling 64 KiB of patterns takes about 100 ms.
IGNORE_LIMIT_BYTES = 64 * 1024
_PROBED = (*PRUNED_MARKERS, *BUILD_FILES, IGNORE_FILE, ".git")


class IgnoreFile(msgspec.Struct, frozen=True, eq=False):
    """A `.gitignore` file; `above` is the file that decides where this one says nothing."""

    folder: str
    text: bytes
    rules: IgnoreRules
    above: IgnoreFile | None

    def is_ignored(self, path: str, *, is_folder: bool) -> bool:
        """True if this file, or one above, ignores the entry at this path from the root."""
        file: IgnoreFile | None = self
        while file is not None:
            inside = path[len(file.folder) + 1 :] if file.folder else path
            decision = file.rules.decide(inside, is_folder=is_folder)
            if decision is not None:
                return decision
            file = file.above
        return False


class FolderRules(msgspec.Struct, frozen=True):
    """The rules for the entries of one folder; `build_files` are the files of build tools in it."""

    ignore: IgnoreFile | None = None
    build_files: frozenset[str] = frozenset()

    def is_ignored(self, path: str) -> bool:
        """True if a file or link is ignored."""
        return self.ignore is not None and self.ignore.is_ignored(path, is_folder=False)

    def is_pruned(self, path: str) -> bool:
        """True if a folder is left out for a reason other than its name."""
        if is_build_output(path.rpartition("/")[2], self.build_files):
            return True
        return self.ignore is not None and self.ignore.is_ignored(path, is_folder=True)


NO_RULES = FolderRules()


class WorkspaceRules:
    """Decides which entries of a workspace are left out. Only one scan at a time uses it.

    `pruned` has the folders that a scan has left out for a reason other than their name.
    """

    def __init__(self) -> None:
        self.pruned: set[str] = set()
        self._files: dict[str, IgnoreFile] = {}
        # By folder: the rules that have selected every known note of the folder.
        self._verified: dict[str, IgnoreFile | None] = {}
        self._verified_now: dict[str, IgnoreFile | None] = {}

    def begin(self) -> None:
        self.pruned = set()
        self._verified_now = {}

    def end_whole(self) -> None:
        """Keep the results of a scan of the whole workspace."""
        self._verified = self._verified_now

    def enter(
        self, root: str, path: str, real_path: str, above: FolderRules, names: Collection[str]
    ) -> FolderRules | None:
        """Return the rules for the entries `names` of a folder; None if the folder is left out.

        The empty path is the root, which is never left out.
        """
        if path and (is_pruned_content(names) or self._is_other_branch(root, real_path, names)):
            self.pruned.add(path)
            return None
        ignore = above.ignore if not path or ".git" not in names else None
        if IGNORE_FILE in names:
            ignore = self._read(path, real_path, ignore)
        build_files = BUILD_FILES.intersection(names)
        if not build_files and ignore is above.ignore and not above.build_files:
            return above
        return FolderRules(ignore, build_files)

    def is_pruned(self, path: str, rules: FolderRules) -> bool:
        """True if `rules`, the rules of the folder above, leave out the folder at this path."""
        if is_pruned_path(path):
            return True
        is_pruned = rules.is_pruned(path)
        if is_pruned:
            self.pruned.add(path)
        return is_pruned

    def find_rules(self, root: str, folder: str) -> FolderRules | None:
        """Return the rules for a folder's entries; None if it or a folder above is left out."""
        rules = self.enter(root, "", root, NO_RULES, _probe(root))
        path = ""
        for name in folder.split("/") if folder else ():
            path = f"{path}/{name}" if path else name
            if rules is None or self.is_pruned(path, rules):
                return None
            rules = self.enter(root, path, f"{root}/{path}", rules, _probe(f"{root}/{path}"))
        return rules

    def is_verified(self, folder: str, rules: FolderRules) -> bool:
        """True if these rules select all known notes of the folder."""
        return folder in self._verified and self._verified[folder] is rules.ignore

    def note_verified(self, folder: str, rules: FolderRules) -> None:
        self._verified_now[folder] = rules.ignore

    def _is_other_branch(self, root: str, folder: str, names: Collection[str]) -> bool:
        """True for a linked worktree whose main worktree is scanned in the same workspace."""
        main = find_checkout(folder) if ".git" in names else None
        if main is None or not f"{main}/".startswith(f"{root}/") or folder == root:
            return False
        return self.find_rules(root, main[len(root) + 1 :]) is not None

    def _read(self, path: str, real_path: str, above: IgnoreFile | None) -> IgnoreFile | None:
        file = self._files.get(path)
        text = _read_ignore_file(f"{real_path}/{IGNORE_FILE}")
        if text is None:  # the rules stay while the file cannot be read
            return file or above
        if file is None or file.text != text or file.above is not above:
            rules = IgnoreRules.parse(text.decode("utf-8", "surrogateescape"))
            file = self._files[path] = IgnoreFile(path, text, rules, above)
        return file


def _probe(folder: str) -> list[str]:
    """Return the entries of a folder that decide about the other entries."""
    return [name for name in _PROBED if os.path.lexists(f"{folder}/{name}")]


def _read_ignore_file(path: str) -> bytes | None:
    try:
        with closing_fd(os.open(path, FILE_FLAGS)) as fd:
            return os.read(fd, IGNORE_LIMIT_BYTES)
    except OSError:
        return None


N_ATTEMPTS = 3
N_EXAMPLES = 3
NOTHING_KNOWN = KnownStats()
ALL_SAME: frozenset[str] = frozenset()


def scan(
    scope: Scope,
    only: Collection[str] | None = None,
    *,
    known: KnownStats = NOTHING_KNOWN,
    ignore_rules: WorkspaceRules | None = None,
    away: frozenset[str] = frozenset(),
) -> Snapshot:
    """Scan the whole workspace, or the paths in `only` (relative to the root) and beneath them.

    No state of the disk raises an error. If a link is within `only`, the whole workspace is
    scanned, because the notes of one link depend on the other links. The snapshot's `only` has the
    scanned paths; paths that no note can have are omitted. A note in a listed folder whose stat
    equals the `known` stat is skipped, and is not in the snapshot's `not_skipped`. `ignore_rules`
    belong to the workspace and are kept from scan to scan. `away` are mount points without their
    disks, which are folders that cannot be listed now.
    """
    ignore_rules = ignore_rules or WorkspaceRules()
    requested = None
    if only is not None:
        requested = frozenset(path for path in only if not path or not _is_refused(path))
    before = stat_root(scope.root)
    for _ in range(N_ATTEMPTS):
        if before[0] != "present":
            break
        snapshot = _scan_once(scope, before[1], requested, known, ignore_rules, away)
        after = stat_root(scope.root)
        if after == before:
            return snapshot
        before = after
    state: RootState = "unreadable" if before[0] == "present" else before[0]
    return Snapshot(root_state=state, files={}, not_skipped=set(known), only=requested)


def stat_root(root: str) -> tuple[RootState, tuple[int, int] | None]:
    """Return the root's state and, if it is present, its device and inode."""
    try:
        stat = os.lstat(root)
        if modes.S_ISDIR(stat.st_mode):
            os.stat(f"{root}/.")
    except (FileNotFoundError, NotADirectoryError):
        return "missing", None
    except OSError:
        return "unreadable", None
    return ("present", identify(stat)) if modes.S_ISDIR(stat.st_mode) else ("missing", None)


def _scan_once(
    scope: Scope,
    identity: tuple[int, int] | None,
    only: frozenset[str] | None,
    known: KnownStats,
    ignore_rules: WorkspaceRules,
    away: frozenset[str],
) -> Snapshot:
    walk = Walk(scope, known, ignore_rules, away=away)
    walk.fail_away()
    ignore_rules.begin()
    for path in ("",) if only is None else only:
        walk.visit(path)
    if walk.links and only is not None:
        return _scan_once(scope, identity, None, known, ignore_rules, away)
    walk.follow_links()
    if only is None:
        ignore_rules.end_whole()
    _report_not_indexed(walk, only)
    not_skipped = walk.find_not_skipped()
    return Snapshot(
        root_state="present",
        root_identity=identity,
        files=walk.files,
        not_skipped=not_skipped,
        n_unchanged=len(known) - len(not_skipped),
        failed_folders=frozenset(walk.failed),
        unreadable_files=frozenset(walk.unreadable),
        problems=tuple(
            sorted(set(walk.problems), key=lambda problem: (problem.path, problem.code))
        ),
        link_folders=frozenset(walk.link_folders),
        pruned_folders=frozenset(ignore_rules.pruned),
        away=away,
        only=only,
    )


def _report_not_indexed(walk: Walk, only: frozenset[str] | None) -> None:
    """Report files that no search finds, and a note that the memory tool cannot reach."""
    if SHADOWED in walk.files and walk.scope.memory_dir == MEMORY_FOLDER:
        walk.report(SHADOWED, "shadowed")
    # A single problem counts all such files, so a scan of a part cannot make it.
    is_whole = only is None or not only.isdisjoint(("", MEMORY_FOLDER))
    if walk.unindexed and is_whole:
        first = heapq.nsmallest(N_EXAMPLES, walk.unindexed)
        examples = ", ".join(path.removeprefix(f"{MEMORY_FOLDER}/") for path in first)
        more = ", ..." if len(walk.unindexed) > N_EXAMPLES else ""
        walk.report(MEMORY_FOLDER, "not_indexed", why=f"{len(walk.unindexed)}: {examples}{more}")


class TooManyError(Exception):
    """A count was not finished in time."""


MEMORY_NAME = MEMORY_FILE.lower()
NAMESAKES_LIMIT = 5


class NoteCount(msgspec.Struct, frozen=True):
    """The number of notes that a scan would find; `is_complete` is false if there are more.

    `namesakes` are notes whose name is MEMORY.md in any case, at most NAMESAKES_LIMIT.
    """

    n_notes: int
    is_complete: bool
    namesakes: tuple[str, ...] = ()


def count_notes(scope: Scope, *, limit_s: float) -> NoteCount:
    """Count the notes of a workspace, for at most about `limit_s`."""
    walk = Walk(scope, NOTHING_KNOWN, deadline_s=time.monotonic() + limit_s)
    try:
        walk.visit("")
        walk.follow_links()
        is_complete = True
    except TooManyError:
        is_complete = False
    named = (path for path in walk.files if path.rpartition("/")[2].lower() == MEMORY_NAME)
    return NoteCount(len(walk.files), is_complete, tuple(sorted(named)[:NAMESAKES_LIMIT]))


def _stop_at(deadline_s: float, entries: Iterable[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
    for entry in entries:
        if time.monotonic() >= deadline_s:
            raise TooManyError
        yield entry


# --- the walk -----------------------------------------------------------------------------------


class _Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder to be listed: its path in the workspace, its real path, and the levels beneath it.

    If an include over every folder leads here, `rules` are the rules of the folder above.
    """

    path: str
    real_path: str
    depth: int
    is_linked: bool = False
    rules: FolderRules | None = None


class Walk(msgspec.Struct):
    """The findings of a scan in progress.

    A note whose stat equals its `known` stat is skipped; all others are in `files`. `listed` has
    the listed folders of known notes, each with the names of known notes that are not skipped:
    most often none. `links` are still to be followed. `unindexed` are files beside notes whose
    names no note can have.
    """

    scope: Scope
    known: KnownStats
    ignore_rules: WorkspaceRules = msgspec.field(default_factory=WorkspaceRules)
    files: dict[str, FileStat] = msgspec.field(default_factory=dict)
    listed: dict[str, AbstractSet[str]] = msgspec.field(default_factory=dict)
    failed: set[str] = msgspec.field(default_factory=set)
    unreadable: set[str] = msgspec.field(default_factory=set)
    problems: list[Problem] = msgspec.field(default_factory=list)
    unindexed: set[str] = msgspec.field(default_factory=set)
    refused: list[str] = msgspec.field(default_factory=list)
    """Known notes of whole folders that are not selected any more."""
    links: list[str] = msgspec.field(default_factory=list)
    link_folders: set[str] = msgspec.field(default_factory=set)
    followed: set[str] = msgspec.field(default_factory=set)
    linked: dict[str, bool] = msgspec.field(default_factory=dict)
    """Whether the path of a folder has a link in it."""
    away: frozenset[str] = frozenset()
    deadline_s: float | None = None
    """The monotonic time at which a count gives up; see `count_notes`."""

    def visit(self, path: str) -> None:
        """Add the notes at and beneath a path; the empty path is the root and adds all notes."""
        if path == "":
            self._enter(MEMORY_FILE, depth=0)
            self._enter(MEMORY_FOLDER, depth=ANY_DEPTH)
        elif _is_refused(path):
            return
        elif is_memory(path):
            self._enter(path, depth=ANY_DEPTH)
            return
        for place in self.scope.includes.places:
            self._visit_included(path, place)

    def fail_away(self) -> None:
        """Count the mount points beneath the root that lack their disks as failed."""
        start = f"{self.scope.root}/"
        for mount in self.away:
            if mount.startswith(start):
                self._fail_away(mount.removeprefix(start))

    def follow_links(self) -> None:
        """Add the targets of all links, also of links that are found on the way."""
        while self.links:
            batch, self.links = sorted(set(self.links)), []
            for path in batch:
                self._follow(path)

    def find_not_skipped(self) -> set[str]:
        """Return the known notes without the skipped ones."""
        listed, known = self.listed, self.known
        folders: dict[str, Iterable[str]] = {
            folder: listed[folder] if folder in listed else known.find(folder)
            for folder in known.folders
        }
        # A note that two include globs match is seen twice, and may change in between.
        return {*join_names(folders), *(path for path in self.files if path in self.known)}

    def report(self, path: str, code: str, *, why: str = "") -> None:
        self.problems.append(problem(path, code, why=why))

    def _visit_included(self, path: str, place: Include) -> None:
        if place.is_whole:
            folder = path.rpartition("/")[0]
            rules = self.ignore_rules.find_rules(self.scope.root, folder) if path else NO_RULES
            if rules is not None:
                self._enter(path, depth=place.depth, rules=rules)
        elif path in ("", place.path) or place.path.startswith(f"{path}/"):
            self._enter(place.path, depth=place.depth)
        elif not place.path or path.startswith(f"{place.path}/"):
            n_deeper = path[len(place.path) :].strip("/").count("/") + 1
            if n_deeper <= place.depth + 1:
                self._enter(path, depth=place.depth - n_deeper)

    def _enter(self, path: str, *, depth: int, rules: FolderRules | None = None) -> None:
        """Add the file, folder or link at a path.

        In a whole folder, `rules` are the rules for this path.
        """
        real_path = f"{self.scope.root}/{path}" if path else self.scope.root
        folder = os.path.dirname(real_path) if path else real_path
        try:
            if self._is_linked(folder):
                self.links.append(path)
                return
            stat = os.lstat(real_path)
        except (FileNotFoundError, NotADirectoryError):
            self._check_evicted(path)
            return
        except OSError as error:
            self._fail(path, error)
            return
        if self._is_left_out(path, rules, is_folder=modes.S_ISDIR(stat.st_mode)):
            return
        if modes.S_ISDIR(stat.st_mode):
            self._walk(_Folder(path=path, real_path=real_path, depth=depth, rules=rules))
        elif modes.S_ISLNK(stat.st_mode):
            self.links.append(path)
        elif path == MEMORY_FOLDER:
            self.report(path, "not_a_folder")
        elif self.scope.is_note(path):
            self._add_if_regular(path, stat)

    def _is_linked(self, folder: str) -> bool:
        # Most names to look for are in the same few folders.
        is_linked = self.linked.get(folder)
        if is_linked is None:
            is_linked = self.linked[folder] = os.path.realpath(folder) != folder
        return is_linked

    def _is_left_out(self, path: str, rules: FolderRules | None, *, is_folder: bool) -> bool:
        """True if the rules of a whole folder leave out this folder, file or link."""
        if rules is None or not path:
            return False
        if is_folder:
            return self.ignore_rules.is_pruned(path, rules)
        return not self.scope.is_named(path) and rules.is_ignored(path)

    def _add_if_regular(self, path: str, stat: os.stat_result) -> None:
        if modes.S_ISREG(stat.st_mode):
            self._add(path, stat)
        else:
            self.report(path, "not_a_file")

    # --- folders ---

    def _walk(self, top: _Folder) -> None:
        if top.path == MEMORY_FILE:
            self.report(top.path, "not_a_file")
            return
        stack, exclude = [top], self.scope.exclude
        has_excludes = bool(exclude.patterns)
        while stack:
            folder = stack.pop()
            if folder.depth >= 0 and not (has_excludes and exclude.matches(folder.path)):
                self._list(folder, stack)

    def _list(self, folder: _Folder, stack: list[_Folder]) -> None:
        try:
            fd = os.open(folder.real_path, LIST_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._fail(folder.path, error)
            return
        try:
            with os.scandir(fd) as entries:
                if folder.rules is None:
                    self._add_entries(folder, entries, stack)
                else:
                    self._add_whole_folder(folder, list(self._bound(entries)), stack)
        except OSError as error:
            self._fail(folder.path, error)
        finally:
            os.close(fd)

    def _bound(self, entries: Iterable[os.DirEntry[str]]) -> Iterable[os.DirEntry[str]]:
        return entries if self.deadline_s is None else _stop_at(self.deadline_s, entries)

    def _add_whole_folder(
        self, folder: _Folder, entries: list[os.DirEntry[str]], stack: list[_Folder]
    ) -> None:
        above = folder.rules or NO_RULES
        names = {entry.name for entry in entries}
        rules = self.ignore_rules.enter(
            self.scope.root, folder.path, folder.real_path, above, names
        )
        if rules is None:
            return
        n_before = len(self.refused)
        self._add_entries(replace(folder, rules=rules), self._bound(entries), stack)
        # Without known notes nothing shows that the rules select all of them.
        if self.known and len(self.refused) == n_before:
            self.ignore_rules.note_verified(folder.path, rules)

    def _add_entries(
        self, folder: _Folder, entries: Iterable[os.DirEntry[str]], stack: list[_Folder]
    ) -> None:
        if folder.is_linked:
            self.link_folders.add(folder.real_path)
        is_selected = self._choose_filter(folder)
        is_trusted = is_selected is None or self._is_verified(folder)
        known = self.known.find(folder.path)
        find_known = known.get
        same: list[str] = []
        max_bytes = -1 if CAN_BE_DATALESS else self.scope.max_file_bytes
        for entry in entries:
            name = entry.name
            try:
                known_hash = find_known(name)
                # Nearly every file takes this branch, which is most of the cost of a scan: it makes
                # as few calls as possible. A link or folder that replaced the note has another
                # inode or ctime.
                if known_hash and is_trusted:
                    stat = entry.stat(follow_symlinks=False)
                    if stat.st_size <= max_bytes and known_hash == _hash(stat):
                        same.append(name)
                        continue
                    self._add_entry(folder, entry, stack, known_hash, None)
                elif entry.is_dir(follow_symlinks=False) and name[0] != ".":
                    self._add_folder(folder, entry, stack)
                elif self._add_entry(folder, entry, stack, known_hash, is_selected):
                    same.append(name)
            except FileNotFoundError:
                continue
            except OSError as error:
                path = f"{folder.path}/{name}" if folder.path else name
                self._mark_unreadable(path, "unreadable_file", error)
        if known:
            others = known.keys() - same if len(same) < len(known) else ALL_SAME
            # A folder that two include globs match is listed twice.
            before = self.listed.get(folder.path)
            self.listed[folder.path] = others if before is None else before & others

    def _add_entry(
        self,
        folder: _Folder,
        entry: os.DirEntry[str],
        stack: list[_Folder],
        known_hash: int | None,
        is_selected: Callable[[str], bool] | None,
    ) -> bool:
        """Add an entry of a folder; True if it is a selected note whose stat has `known_hash`."""
        path = f"{folder.path}/{entry.name}" if folder.path else entry.name
        if not known_hash and not is_note_name(entry.name):
            self._add_other(folder, path, entry)
        elif entry.is_dir(follow_symlinks=False):
            self._add_folder(folder, entry, stack)
        elif not entry.is_file(follow_symlinks=False):
            self._add_non_regular(folder, path, entry)
        elif is_selected is None or is_selected(path):
            stat = entry.stat(follow_symlinks=False)
            max_bytes = -1 if CAN_BE_DATALESS else self.scope.max_file_bytes
            if known_hash and stat.st_size <= max_bytes and known_hash == _hash(stat):
                return True
            self._add(path, stat)
        return False

    def _choose_filter(self, folder: _Folder) -> Callable[[str], bool] | None:
        """Return the test for paths in this folder; None if all notes pass, which is faster."""
        if folder.is_linked:
            return lambda path: (
                self.scope.is_selected(path)
                and not self._is_left_out(path, folder.rules, is_folder=False)
                and self._is_first(f"{folder.real_path}/{path.rpartition('/')[2]}")
            )
        if is_memory(folder.path) and not self.scope.exclude.patterns:
            return None
        return self.scope.is_selected if folder.rules is None else self._choose_whole_filter(folder)

    def _choose_whole_filter(self, folder: _Folder) -> Callable[[str], bool] | None:
        rules, scope, known = folder.rules or NO_RULES, self.scope, self.known
        if rules.ignore is None and scope.takes_all:
            return None

        def is_selected(path: str) -> bool:
            if scope.is_selected(path) and not self._is_left_out(path, rules, is_folder=False):
                return True
            if path in known:
                self.refused.append(path)
            return False

        return is_selected

    def _is_verified(self, folder: _Folder) -> bool:
        """True if the known notes of this folder need not be matched again."""
        rules = folder.rules
        if rules is None or folder.is_linked:
            return False
        return self.ignore_rules.is_verified(folder.path, rules)

    def _add_other(self, folder: _Folder, path: str, entry: os.DirEntry[str]) -> None:
        """Handle an entry whose name no note has: a link to a folder, or another file."""
        if is_rule_path(path) and entry.is_file(follow_symlinks=False):
            if self.scope.is_selected(path):
                self._add(path, entry.stat(follow_symlinks=False))
        elif entry.name[0] == ".":
            self._check_hidden(folder, entry.name)
        elif entry.is_file(follow_symlinks=False):
            is_skipped = folder.is_linked or is_leftover(entry.name)
            is_skipped = is_skipped or self.scope.exclude.matches(path)
            if is_memory(folder.path) and not is_skipped:
                self.unindexed.add(path)
        elif _leads_to_folder(entry):
            self._add_non_regular(folder, path, entry)

    def _add_folder(self, folder: _Folder, entry: os.DirEntry[str], stack: list[_Folder]) -> None:
        name = entry.name
        path = f"{folder.path}/{name}" if folder.path else name
        if not is_utf8(name):
            self.report(path, "bad_name")
        elif not self._is_left_out(path, folder.rules, is_folder=True):
            real_path, depth = f"{folder.real_path}/{name}", folder.depth - 1
            stack.append(replace(folder, path=path, real_path=real_path, depth=depth))

    def _add_non_regular(self, folder: _Folder, path: str, entry: os.DirEntry[str]) -> None:
        """Handle a link or a special file."""
        if not is_utf8(entry.name):
            self.report(path, "bad_name")
        elif self._is_left_out(path, folder.rules, is_folder=False) or (
            self.scope.exclude.matches(path)
        ):
            return
        elif entry.is_symlink():
            self.links.append(path)
        elif self.scope.is_selected(path):
            self.report(path, "not_a_file")

    def _check_hidden(self, folder: _Folder, name: str) -> None:
        """If `name` is the stand-in `.NAME.icloud`, report the evicted note NAME."""
        evicted = name[1:].removesuffix(".icloud")
        if name.endswith(".icloud") and is_note_name(evicted):
            path = f"{folder.path}/{evicted}" if folder.path else evicted
            if self.scope.is_selected(path):
                self._mark_unreadable(path, "evicted")

    def _check_evicted(self, path: str) -> None:
        """Report a missing note as evicted if its stand-in exists."""
        folder, _, name = f"{self.scope.root}/{path}".rpartition("/")
        if self.scope.is_note(path) and os.path.lexists(f"{folder}/.{name}.icloud"):
            self._mark_unreadable(path, "evicted")

    # --- files ---

    def _add(self, path: str, stat: os.stat_result) -> None:
        """Add a regular file that the scope selects."""
        is_ordinary = has_ordinary_name(path)
        if not is_ordinary and not self._check_name(path, stat):
            return
        if stat.st_size > self.scope.max_file_bytes:
            self.report(path, "too_large", why=f"{stat.st_size} bytes")
        elif CAN_BE_DATALESS and is_dataless(stat):
            self._mark_unreadable(path, "evicted")
        else:
            self.files[path] = file_stat(stat)
            if not is_ordinary and is_conflict_copy(path):
                self.report(path, "sync_conflict")

    def _check_name(self, path: str, stat: os.stat_result) -> bool:
        """Report problems of a name; False if the name forbids indexing the file."""
        if not is_utf8(path):
            self.report(path, "bad_name")
            return False
        if has_control(path):
            self.report(path, "odd_name")
        if has_twin(f"{self.scope.root}/{path}", stat.st_ino):
            self.report(path, "twin_names")
        return True

    # --- links ---

    def _follow(self, path: str) -> None:
        full_path = f"{self.scope.root}/{path}"
        if self.away and is_within(os.path.realpath(full_path), self.away):
            self._fail_away(path)
            return
        try:
            target = find_target(full_path, self.scope.allowed_folders)
            if target is None:
                self.report(path, "link_outside")
            else:
                self._add_target(path, target, os.stat(target.real_path, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            self.link_folders |= find_missing_target_folder(full_path, self.scope.allowed_folders)
            if is_note_name(os.path.basename(path)) and os.path.lexists(full_path):
                self.report(path, "link_broken")
        except OSError as error:
            if error.errno == errno.ELOOP:
                self.report(path, "link_loop")
            else:
                self._mark_unreadable(path, "unreadable_file", error)

    def _add_target(self, path: str, target: ConfinedPath, stat: os.stat_result) -> None:
        real = target.real_path
        if not modes.S_ISDIR(stat.st_mode):
            if self.scope.is_note(path) and self._is_first(real):
                self.link_folders.add(os.path.dirname(real))
                self._add_if_regular(path, stat)
            return
        parent = os.path.realpath(os.path.dirname(f"{self.scope.root}/{path}"))
        if f"{parent}/".startswith(f"{real}/"):
            self.report(path, "link_loop")
        elif real not in self.followed and not self._is_own_folder(target):
            self.followed.add(real)
            # The link has already passed the rules of its place.
            rules = NO_RULES if self.scope.is_in_whole(f"{path}/x.md") else None
            self._walk(
                _Folder(path=path, real_path=real, depth=ANY_DEPTH, is_linked=True, rules=rules)
            )

    def _is_first(self, real: str) -> bool:
        """True the first time for each target; never for a note under its own path."""
        inside = real.removeprefix(f"{self.scope.root}/")
        if real in self.followed or (inside != real and self.scope.is_note(inside)):
            return False
        self.followed.add(real)
        return True

    def _is_own_folder(self, target: ConfinedPath) -> bool:
        """True if the target folder is scanned under its own path."""
        if target.folder != self.scope.root or find_refusal(target.path):
            return False
        return is_memory(target.path) or self._is_whole_folder(target.path)

    def _is_whole_folder(self, path: str) -> bool:
        """True if the folder at this path is in a whole folder that does not leave it out."""
        if not self.scope.is_in_whole(f"{path}/x.md"):
            return False
        rules = self.ignore_rules.find_rules(self.scope.root, path)
        return rules is not None

    # --- failures ---

    def _fail(self, path: str, error: OSError) -> None:
        self.failed.add(path)
        self.report(path or ".", "unreadable_folder", why=error.strerror or "")

    def _fail_away(self, path: str) -> None:
        self.failed.add(path)
        self.report(path, "not_mounted")

    def _mark_unreadable(self, path: str, code: str, error: OSError | None = None) -> None:
        self.unreadable.add(path)
        self.report(path, code, why=(error and error.strerror) or "")


def _is_refused(path: str) -> bool:
    return bool(find_refusal(path)) and not is_rule_folder(path)


def _hash(stat: os.stat_result) -> int:
    return hash_stat((stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """True for a link to a folder, and for a link whose target cannot be examined.

    Such a link is followed too, so that it is reported or watched.
    """
    try:
        return entry.is_symlink() and modes.S_ISDIR(entry.stat().st_mode)
    except OSError:
        return True


# --- mounts ---------------------------------------------------------------------------------------
#
# A mount point is known by its path alone: device numbers may differ after a reboot, and a bind
# mount has the number of its source. Without `/proc/self/mountinfo` no mount is known.

_MOUNTS = "/proc/self/mountinfo"
_ESCAPE = re.compile(rb"\\([0-7]{3})")


def find_mounts(
    root: str, notes: Collection[str], snapshot: Snapshot, before: Collection[str]
) -> frozenset[str]:
    """Return the mount points that hold `notes`, beneath the root or where links lead.

    `snapshot` is the full scan that has seen the notes. Mount points of `before` that were away
    during the scan, or are away now, are returned too.
    """
    # Mounts are listed first: if one is unmounted later, it is in the list or counts as away.
    mounts = {mount for mount in _list_mounts() if not is_within_folder(root, mount.rstrip("/"))}
    inside = {
        mount: f"{mount[len(root) + 1 :]}/" for mount in mounts if is_within_folder(mount, root)
    }
    used = {
        mount for mount, start in inside.items() if any(note.startswith(start) for note in notes)
    }
    links = snapshot.link_folders
    linked = {mount for mount in mounts if any(is_within_folder(folder, mount) for folder in links)}
    return frozenset(used.union(linked, snapshot.away, find_away(root, before)))


def find_away(root: str, mounts: Collection[str]) -> frozenset[str]:
    """Return the mount points at which nothing is mounted and no file lies."""
    if not mounts:
        return frozenset()
    return frozenset(mount for mount in set(mounts) - _list_mounts() if _is_vacant(root, mount))


def _is_vacant(root: str, mount: str) -> bool:
    """True if the folder of a mount point is empty or was removed with the mount.

    Beneath the root a missing folder counts as deleted, because nothing shows that it was not. In
    other places the link to it shows that.
    """
    try:
        with os.scandir(mount) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return not is_within_folder(mount, root)
    except OSError:
        return False


def _list_mounts() -> frozenset[str]:
    try:
        with open(_MOUNTS, "rb") as file:
            return _parse_mounts(file.read())
    except OSError:
        return frozenset()


@lru_cache(maxsize=1)
def _parse_mounts(table: bytes) -> frozenset[str]:
    points = [line.split(b" ", 5)[4] for line in table.split(b"\n") if line]
    # No note has a path that is not UTF-8.
    return frozenset(_ESCAPE.sub(_unescape, point).decode(errors="replace") for point in points)


def _unescape(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 8),))
