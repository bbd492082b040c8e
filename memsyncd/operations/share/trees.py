"""Merge the trees of two commits: which text each note has, and under which path.

A tree maps the path of a file to the id of its bytes. Each side is compared with the base. A note
that only one side has changed, moved or deleted follows that side; a change outlasts a deletion.
The result is the same from both sides. The texts of notes that both sides have changed are merged
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

FileTree = Mapping[str, str]
"""The id of the bytes of each file, by path."""
Moves = Mapping[str, str]
"""The new path of each file that one side has moved, by its path in the base."""


class Sides(msgspec.Struct, frozen=True, order=True):
    """A file of the merged tree: the ids of its bytes in the base and on both sides; empty where it
    is not there. Both sides are there if their texts must be merged.
    """

    base: str
    ours: str
    theirs: str

    @property
    def chosen(self) -> str:
        """The id of the only bytes that count; empty if both sides must be merged."""
        if not self.ours or self.ours == self.base:
            return self.theirs or self.ours
        return self.ours if self.theirs in ("", self.base, self.ours) else ""


def merge_trees(
    base: FileTree, ours: FileTree, theirs: FileTree, moved_ours: Moves, moved_theirs: Moves
) -> dict[str, Sides]:
    """Return the files of the merged tree, by path."""
    merged: dict[str, Sides] = {}
    seen_ours: set[str] = set()
    seen_theirs: set[str] = set()
    for path, blob in base.items():
        our_path = _follow(path, ours, moved_ours)
        their_path = _follow(path, theirs, moved_theirs)
        seen_ours.add(our_path)
        seen_theirs.add(their_path)
        sides = Sides(blob, ours.get(our_path, ""), theirs.get(their_path, ""))
        if not (sides.ours or sides.theirs) or _is_deleted(path, our_path, their_path, sides):
            continue
        _add(merged, _choose_path(path, our_path, their_path), sides)
    for path in sorted({*ours, *theirs}):
        new_ours = ours.get(path, "") if path not in seen_ours else ""
        new_theirs = theirs.get(path, "") if path not in seen_theirs else ""
        if new_ours or new_theirs:
            _add(merged, path, Sides("", new_ours, new_theirs))
    return merged


def merge_links(base: FileTree, ours: FileTree, theirs: FileTree) -> dict[str, str]:
    """Return what is no file in the merged tree, by path. If both sides changed it, one change
    stays.
    """
    merged: dict[str, str] = {}
    for path in {*ours, *theirs}:
        old, first, second = (side.get(path, "") for side in (base, ours, theirs))
        link = second if first == old else first if second == old else max(first, second)
        if link:
            merged[path] = link
    return merged


def _follow(path: str, side: FileTree, moves: Moves) -> str:
    """Return the path of a file of the base on one side; empty if it is not there."""
    moved = moves.get(path, "")
    if moved in side:
        return moved
    return path if path in side else ""


def _is_deleted(path: str, ours: str, theirs: str, sides: Sides) -> bool:
    """True if one side has deleted the file and the other has left it as it was."""
    if not ours:
        return theirs == path and sides.theirs == sides.base
    return not theirs and ours == path and sides.ours == sides.base


def _choose_path(path: str, ours: str, theirs: str) -> str:
    """Return the path that one side has given a file; of two paths, the first in their order."""
    moved = sorted(each for each in {ours, theirs} if each and each != path)
    return moved[0] if moved else path


def _add(merged: dict[str, Sides], path: str, sides: Sides) -> None:
    """Add a file. If the path has one already, both texts are merged without a base."""
    other = merged.get(path)
    if other is None:
        merged[path] = sides
        return
    texts = [*_list_texts(other), *_list_texts(sides)]
    first, last = texts[0], texts[-1]
    if len(texts) <= 2:
        merged[path] = Sides("", first, last)
        return
    # Three or four texts of two files: one of the files goes to a path of its own.
    second, merged[path] = sorted((other, sides), key=lambda each: [*_list_texts(each)])
    stem, dot, suffix = path.rpartition(".")
    _add(merged, f"{stem or path}-2{dot}{suffix if stem else ''}", second)


def _list_texts(sides: Sides) -> Iterator[str]:
    yield from sorted({sides.chosen} if sides.chosen else {sides.ours, sides.theirs})
