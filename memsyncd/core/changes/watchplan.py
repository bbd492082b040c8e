"""Plan which folders to watch in order to see every change to a workspace's memory: as few as
possible, and a whole tree only where an include glob asks for it.

These folders are watched: the root, without the folders beneath it; `.memories` and all folders
beneath it; and for each include the folder at which its fixed part ends. For an include that begins
with a wildcard over folders, the whole root is watched, without the folders that scans leave out
(`core/paths`, `.gitignore`). For a folder that does not exist yet, the nearest existing folder
above it is watched. The module also decides which events there can matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from memsyncd.core.paths import (
    IGNORE_FILE,
    MEMORY_FILE,
    MEMORY_FOLDER,
    NO_GLOBS,
    NOTE_SUFFIXES,
    WILDCARDS,
    Globs,
    find_glob_refusal,
    has_wildcard,
    is_note_name,
    is_pruned_path,
    is_rule_path,
)
from memsyncd.errors import BadRequest

ANY_DEPTH = 1_000_000
INCLUDE_HINT = (
    "write it from the root on and end it as notes do: README.md, docs/**/*.md or **/*.md"
)


class Watch(msgspec.Struct, frozen=True, order=True):
    """One folder to watch, by its real absolute path.

    An event in a link's target folder concerns the whole workspace. A pruned watch is recursive,
    and leaves out the folders that scans leave out.
    """

    folder: str
    is_recursive: bool
    is_link_target: bool = False
    is_pruned: bool = False


class Include(msgspec.Struct, frozen=True, kw_only=True):
    """An include glob: the `path` before its wildcards, and how many folders deep its matches may
    lie beneath this path. Without wildcards `path` is the path of a file.
    """

    pattern: str
    path: str
    depth: int

    @property
    def folder(self) -> str:
        """The folder that holds all matches; empty for the root. Unless `depth` is 0, matches may
        lie in folders beneath it.
        """
        return self.path.rpartition("/")[0] if self.path == self.pattern else self.path

    @property
    def is_whole(self) -> bool:
        """True if its matches may lie in any folder beneath the root."""
        return self.depth > 0 and not self.path


class Includes(msgspec.Struct, frozen=True):
    """A workspace's include globs, sorted by where their matches may lie."""

    places: tuple[Include, ...] = ()
    """One include for each path and depth: all that a scan has to walk."""
    named: tuple[Include, ...] = ()
    """The includes that name a folder, or files of the root."""
    named_globs: Globs = NO_GLOBS
    """The globs of `named`."""
    whole: Globs = NO_GLOBS
    """The globs that reach into every folder."""

    @classmethod
    def parse(cls, patterns: Iterable[str]) -> Includes:
        """Raises BadRequest, which names the first pattern that cannot be an include, and why."""
        each = [parse_include(pattern) for pattern in patterns]
        places = {(include.path, include.depth): include for include in each}
        named = tuple(include for include in each if not include.is_whole)
        whole = (include for include in each if include.is_whole)
        globs = (Globs.parse(include.pattern for include in group) for group in (named, whole))
        return cls(tuple(places[key] for key in sorted(places)), named, *globs)


NO_INCLUDES = Includes()


def parse_include(pattern: str) -> Include:
    """Convert one glob to an Include.

    Raises BadRequest with the reason of `find_include_refusal`.
    """
    reason = find_include_refusal(pattern)
    if reason:
        raise BadRequest(f"include {pattern!r} refused: {reason}", hint=INCLUDE_HINT)
    pattern = _tidy(pattern)
    parts = pattern.split("/")
    n_fixed = next((at for at, part in enumerate(parts) if has_wildcard(part)), len(parts))
    depth = ANY_DEPTH if "**" in parts else max(0, len(parts) - n_fixed - 1)
    return Include(pattern=pattern, path="/".join(parts[:n_fixed]), depth=depth)


def find_include_refusal(pattern: str) -> str:
    """The reason why this glob cannot be an include; empty if it can."""
    reason = find_glob_refusal(pattern)
    if reason:
        return reason
    if is_rule_path(_tidy(pattern)):
        return ""
    parts = _tidy(pattern).split("/")
    if any(part.startswith(".") for part in parts):
        return "it holds a hidden name"
    if not _can_be_note(parts[-1]):
        return (
            "it cannot match a note: names of notes end in .md, .markdown or .txt; for a folder "
            "write folder/**"
        )
    return ""


def plan_watches(
    root: str,
    includes: Includes,
    *,
    is_folder: Callable[[str], bool],
    link_folders: Iterable[str] = (),
    is_scanned: bool = True,
) -> frozenset[Watch]:
    """The folders to watch now. `root` is a real absolute path.

    Unless the workspace `is_scanned`, it is unknown which folders are pruned, so the whole tree is
    not watched.

    `is_folder` returns whether a real folder, and no link, is at an absolute path now. Plan again
    when its answer changes. `link_folders` are the absolute folders of the targets of links; for a
    missing folder the nearest existing folder above it is watched.
    """
    if not is_folder(root):
        return frozenset({Watch(_nearest_folder(root, is_folder), is_recursive=False)})
    is_whole = bool(includes.whole.patterns) and is_scanned
    planned = {root: False}
    memory_folder = _join(root, MEMORY_FOLDER)
    if is_folder(memory_folder):
        planned[memory_folder] = True
    for include in includes.named:
        for folder, is_recursive in _plan_include(root, include):
            if not is_folder(folder):
                break
            planned[folder] = planned.get(folder, False) or is_recursive
    # A pruned watch covers no other watch: it may leave out a folder that an include names.
    own = {
        Watch(folder, is_recursive)
        for folder, is_recursive in planned.items()
        if not _is_covered(folder, planned) and not (is_whole and folder == root)
    } | ({Watch(root, is_recursive=True, is_pruned=True)} if is_whole else set())
    ancestors = {_nearest_folder(folder, is_folder) for folder in link_folders}
    return frozenset(
        own | {Watch(folder, is_recursive=False, is_link_target=True) for folder in ancestors}
    )


def is_relevant(
    path: str, *, is_folder: bool, includes: Includes = NO_INCLUDES, excludes: Globs = NO_GLOBS
) -> bool:
    """True if an event on this path could matter to the workspace's memory. The path begins at the
    root; an empty path is the root itself.
    """
    if path in ("", MEMORY_FILE, MEMORY_FOLDER):
        return True
    if excludes.matches(path):
        return False
    if _may_be_whole(path, includes, is_folder=is_folder):
        return True
    if path.startswith(MEMORY_FOLDER + "/"):
        return _is_plain(path[len(MEMORY_FOLDER) + 1 :]) and (
            is_folder or is_note_name(_name(path))
        )
    is_file = (_is_plain(path) and is_note_name(_name(path))) or is_rule_path(path)
    if not is_folder and is_file and includes.named_globs.matches(path):
        return True
    return any(_is_on_the_way(path, include, is_folder=is_folder) for include in includes.named)


def is_ignore_file(path: str, includes: Includes) -> bool:
    """True for a `.gitignore` that may change which notes the workspace has."""
    return bool(includes.whole.patterns) and _name(path) == IGNORE_FILE


def _may_be_whole(path: str, includes: Includes, *, is_folder: bool) -> bool:
    """True if an include that reaches into every folder makes this path matter."""
    folder, _, name = path.rpartition("/")
    if not includes.whole.patterns or is_pruned_path(folder):
        return False
    if name == IGNORE_FILE:
        return True
    is_entered = is_folder and not is_pruned_path(name)
    return is_entered or (is_note_name(name) and includes.whole.matches(path))


def _tidy(pattern: str) -> str:
    pattern = pattern.removeprefix("./")
    return pattern + "**" if pattern.endswith("/") else pattern


def _can_be_note(part: str) -> bool:
    """True if the text after the last wildcard of a name could end a note's name."""
    tail = WILDCARDS.split(part)[-1].rpartition("]")[2].lower()
    if not has_wildcard(part):
        return is_note_name(part)
    return any(suffix.endswith(tail) or tail.endswith(suffix) for suffix in NOTE_SUFFIXES)


def _plan_include(root: str, include: Include) -> Iterable[tuple[str, bool]]:
    """Yield each folder from the root to the include's folder, and whether its watch is recursive.
    The folders between are needed, because a renaming is an event in the folder above.
    """
    parts = include.folder.split("/") if include.folder else []
    for depth in range(1, len(parts) + 1):
        yield _join(root, "/".join(parts[:depth])), include.depth > 0 and depth == len(parts)


def _nearest_folder(folder: str, is_folder: Callable[[str], bool]) -> str:
    while folder not in ("", "/") and not is_folder(folder):
        folder = folder.rpartition("/")[0]
    return folder or "/"


def _is_covered(folder: str, planned: dict[str, bool]) -> bool:
    """True if a recursive watch above covers the folder. A second watch would share its descriptor,
    and each event would arrive twice.
    """
    return any(
        is_recursive and folder.startswith(f"{above}/") for above, is_recursive in planned.items()
    )


def _is_on_the_way(path: str, include: Include, *, is_folder: bool) -> bool:
    folder = include.folder
    if folder == path or folder.startswith(f"{path}/"):
        return True
    is_beneath = not folder or path.startswith(f"{folder}/")
    inside = path[len(folder) :].lstrip("/")
    return is_folder and include.depth > 0 and is_beneath and _is_plain(inside)


def _is_plain(path: str) -> bool:
    return not path.startswith(".") and "/." not in path


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _join(folder: str, path: str) -> str:
    return f"{folder.rstrip('/')}/{path}"
