"""Leave out of a whole folder what its `.gitignore` files ignore, and folders that hold no notes.

`WorkspaceRules` decides for the scans of one workspace. It reads a `.gitignore` file at each scan
and keeps its rules as long as its text stays the same, so that a scan need not match the names of
notes that an earlier one has selected by the same rules.

The rules of a folder apply to all folders beneath, and the nearest file decides first. They begin
again at the top of another git repository, such as a submodule. Files above the workspace's root
are not read: the root was named by its user.

A linked git worktree is left out where its main one is in the same workspace: it holds the same
notes, as another branch has them.
"""

from __future__ import annotations

import os
from collections.abc import Collection

import msgspec

from memsyncd.core.paths import (
    BUILD_FILES,
    IGNORE_FILE,
    PRUNED_MARKERS,
    IgnoreRules,
    is_build_output,
    is_pruned_content,
    is_pruned_path,
)
from memsyncd.files.confined import FILE_FLAGS, closing_fd
from memsyncd.files.scope import find_checkout

# A longer file is cut. Compiling 64 KiB of patterns takes about 100 ms.
IGNORE_LIMIT_BYTES = 64 * 1024
_PROBED = (*PRUNED_MARKERS, *BUILD_FILES, IGNORE_FILE, ".git")


class IgnoreFile(msgspec.Struct, frozen=True, eq=False):
    """A `.gitignore` file, and the one that applies where it says nothing."""

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
    """What applies to the entries of one folder; `build_files` are those of build tools in it."""

    ignore: IgnoreFile | None = None
    build_files: frozenset[str] = frozenset()

    def is_ignored(self, path: str) -> bool:
        """True if a file or link is ignored."""
        return self.ignore is not None and self.ignore.is_ignored(path, is_folder=False)

    def is_pruned(self, path: str) -> bool:
        """True if a folder is left out for another reason than its name."""
        if is_build_output(path.rpartition("/")[2], self.build_files):
            return True
        return self.ignore is not None and self.ignore.is_ignored(path, is_folder=True)


NO_RULES = FolderRules()


class WorkspaceRules:
    """Decides for one workspace what is left out. Used by one scan at a time.

    `pruned` has the folders that a scan has left out for another reason than their name.
    """

    def __init__(self) -> None:
        self.pruned: set[str] = set()
        self._files: dict[str, IgnoreFile] = {}
        # The rules by which every known note of a folder has been selected.
        self._verified: dict[str, IgnoreFile | None] = {}
        self._verified_now: dict[str, IgnoreFile | None] = {}

    def begin(self) -> None:
        self.pruned = set()
        self._verified_now = {}

    def end_whole(self) -> None:
        """Keep what a scan of the whole workspace has found out."""
        self._verified = self._verified_now

    def enter(
        self, root: str, path: str, real_path: str, above: FolderRules, names: Collection[str]
    ) -> FolderRules | None:
        """Return the rules for the entries `names` of a folder; None if it is left out itself.

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
        """True if the folder at this path is left out by the rules of the folder it is in."""
        if is_pruned_path(path):
            return True
        is_pruned = rules.is_pruned(path)
        if is_pruned:
            self.pruned.add(path)
        return is_pruned

    def find_rules(self, root: str, folder: str) -> FolderRules | None:
        """Return the rules for the entries of a folder; None if it, or one above, is left out."""
        rules = self.enter(root, "", root, NO_RULES, _probe(root))
        path = ""
        for name in folder.split("/") if folder else ():
            path = f"{path}/{name}" if path else name
            if rules is None or self.is_pruned(path, rules):
                return None
            rules = self.enter(root, path, f"{root}/{path}", rules, _probe(f"{root}/{path}"))
        return rules

    def is_verified(self, folder: str, rules: FolderRules) -> bool:
        """True if all known notes of the folder are selected by these rules."""
        return folder in self._verified and self._verified[folder] is rules.ignore

    def note_verified(self, folder: str, rules: FolderRules) -> None:
        self._verified_now[folder] = rules.ignore

    def _is_other_branch(self, root: str, folder: str, names: Collection[str]) -> bool:
        """True for a linked worktree if the main one is scanned as a part of the same workspace."""
        main = find_checkout(folder) if ".git" in names else None
        if main is None or not f"{main}/".startswith(f"{root}/") or folder == root:
            return False
        return self.find_rules(root, main[len(root) + 1 :]) is not None

    def _read(self, path: str, real_path: str, above: IgnoreFile | None) -> IgnoreFile | None:
        known = self._files.get(path)
        text = _read_ignore_file(f"{real_path}/{IGNORE_FILE}")
        if text is None:  # it keeps its rules while it cannot be read
            return known or above
        if known is None or known.text != text or known.above is not above:
            rules = IgnoreRules.parse(text.decode("utf-8", "surrogateescape"))
            known = self._files[path] = IgnoreFile(path, text, rules, above)
        return known


def _probe(folder: str) -> list[str]:
    """Return those entries of a folder that say something about the others."""
    return [name for name in _PROBED if os.path.lexists(f"{folder}/{name}")]


def _read_ignore_file(path: str) -> bytes | None:
    try:
        with closing_fd(os.open(path, FILE_FLAGS)) as fd:
            return os.read(fd, IGNORE_LIMIT_BYTES)
    except OSError:
        return None
