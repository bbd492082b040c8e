"""Which files of a workspace are memory? `MEMORY.md`, notes beneath `.memories/`, and what the owner's include globs add.

The rule is about names alone. What stands under such a name (a folder, a link, too many bytes) is judged by `scan` and `files`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from memsyncd.core.globs import NO_GLOBS, Globs, has_wildcard
from memsyncd.core.notepath import MEMORY_FILE, MEMORY_FOLDER, find_refusal, is_note_name

MAX_FILE_BYTES = 2 * 1024 * 1024
ANY_DEPTH = 1_000_000


@dataclass(frozen=True, slots=True)
class IncludePlace:
    """Where an include glob begins: a path without wildcards, and how many folders beneath it the glob can reach."""

    path: str
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One workspace's memory. `root` and `allow_links_to` are absolute real paths; made by `parse_scope`."""

    root: str
    include: Globs = NO_GLOBS
    exclude: Globs = NO_GLOBS
    max_file_bytes: int = MAX_FILE_BYTES
    allow_links_to: tuple[str, ...] = ()
    include_places: tuple[IncludePlace, ...] = ()

    def is_note(self, path: str) -> bool:
        """True if a file of this path, relative to the root, would be a note of this workspace."""
        return is_note_name(path.rpartition("/")[2]) and not find_refusal(path) and self.is_wanted(path)

    def is_wanted(self, path: str) -> bool:
        """True if neither the globs nor the lack of one keep this path out; its name is not looked at."""
        return (is_memory(path) or self.include.matches(path)) and not self.exclude.matches(path)


def parse_scope(
    root: str,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    max_file_bytes: int = MAX_FILE_BYTES,
    allow_links_to: Iterable[str] = (),
) -> Scope:
    """Make a scope of a canonical root and the owner's words. Raises ValueError, naming it, for a glob that cannot be."""
    globs = Globs.parse(include)
    return Scope(
        root=root,
        include=globs,
        exclude=Globs.parse_excludes(exclude),
        max_file_bytes=max_file_bytes,
        allow_links_to=tuple(os.path.realpath(folder) for folder in allow_links_to),
        include_places=tuple(sorted({_find_place(pattern) for pattern in globs.patterns}, key=lambda place: place.path)),
    )


def is_memory(path: str) -> bool:
    """True for `MEMORY.md`, `.memories` and what lies beneath it."""
    return path in (MEMORY_FILE, MEMORY_FOLDER) or path.startswith(f"{MEMORY_FOLDER}/")


def _find_place(pattern: str) -> IncludePlace:
    parts = pattern.removesuffix("/").split("/")
    n_fixed = next((at for at, part in enumerate(parts) if has_wildcard(part)), len(parts))
    is_deep = pattern.endswith("/") or "**" in parts
    place = "/".join(parts[:n_fixed])
    if place and find_refusal(place):
        raise ValueError(f"pattern {pattern!r} refused: {find_refusal(place)}")
    return IncludePlace(place, ANY_DEPTH if is_deep else max(0, len(parts) - n_fixed - 1))
