"""Find the note, section or revision that the words of a command name.

A user types paths relative to the current folder; the daemon gets them relative to the workspace.
"""

from __future__ import annotations

import os

from memsyncd.client.words import split_anchor
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console


MEMORIES = "/memories"


class Target:
    """A target of `get`. `path` is absolute, or relative to the current folder or to the root. The
    lines are 1-based and inclusive, None for the whole note or section.
    """

    __slots__ = ("end_line", "heading", "path", "start_line")

    def __init__(
        self,
        path: str,
        *,
        heading: str | None = None,
        start_line: int | None = None,
        end_line: int | None = None,
    ) -> None:
        self.path: Final = path
        self.heading: Final = heading
        self.start_line: Final = start_line
        self.end_line: Final = end_line


def parse_target(text: str) -> Target:
    """Parse `PATH`, `PATH:A`, `PATH:A-B` or `PATH#heading/sub-heading`. No target can name a file
    that is called `a:1`.
    """
    path, _, lines = text.rpartition(":")
    first, dash, last = lines.partition("-")
    if (
        path
        and first.isdecimal()
        and (last.isdecimal() or not dash)
        and split_anchor(path)[1] is None
    ):
        return Target(path, start_line=int(first), end_line=int(last or first))
    path, heading = split_anchor(text)
    return Target(path, heading=heading)


def find_note(path: str, cwd: str, roots: Sequence[str]) -> tuple[str | None, str]:
    """Return the nearest root above the path, and the path relative to it; a dot for the root.

    Return None and the unchanged path if no root is above it. So is a relative path that names
    nothing in the current folder: the daemon reads it relative to the root of the workspace.
    """
    full = os.path.join(cwd, os.path.expanduser(path))
    if not os.path.isabs(full) or not (
        os.path.isabs(path) or path.startswith("~") or os.path.lexists(full)
    ):
        return None, path
    folder, name = os.path.split(os.path.normpath(full))
    real = os.path.join(os.path.realpath(folder), name)
    if real in roots:
        return real, "."
    owners = [root for root in roots if real.startswith(root.rstrip("/") + "/")]
    if not owners:
        return None, path
    root = max(owners, key=len)
    return root, real[len(root.rstrip("/")) + 1 :]


def find_workspace_note(path: str, cwd: str, roots: Sequence[str]) -> tuple[str | None, str]:
    """Return a root and a path as `find_note` does, but for an absolute path beneath no root its
    folder and the path itself: only the daemon knows whether they are in a worktree. Paths of the
    memory tool stay unchanged.
    """
    root, note_path = find_note(path, cwd, roots)
    if root is None and f"{note_path}/".startswith(f"{MEMORIES}/"):
        return None, note_path
    if root is None and note_path.startswith(("/", "~")):
        full = os.path.normpath(os.path.expanduser(note_path))
        return os.path.dirname(full), full
    return root, note_path


def find_among(path: str | None, console: Console) -> dict[str, Any]:
    """Return the parameter `path` for a note, folder or glob, None for a whole workspace, and the
    parameter `workspace`, None if unknown. Without a path, return no parameter.
    """
    if path is None:
        return {}
    root, note_path = find_workspace_note(path, console.cwd, list(console.roots.values()))
    return {"workspace": root, "path": None if os.path.normpath(note_path) == "." else note_path}


def find_memories(anchors: Sequence[str], console: Console) -> dict[str, Any]:
    """Return the parameter `anchors`, and the parameter `workspace`, None if unknown.

    Raises BadRequest if the anchors are in several workspaces.
    """
    places = [find_named(anchor, console) for anchor in anchors]
    texts = [place.get("anchor") or place["path"] for place in places]
    return {"anchors": texts, "workspace": _choose_root(place["workspace"] for place in places)}


def _choose_root(roots: Iterable[str | None]) -> str | None:
    """Return the only root, None if all are unknown. Raises BadRequest if there are several."""
    others = {*roots} - {None}
    if len(others) > 1:
        raise BadRequest(
            "these memories are in several workspaces",
            hint="name memories of one workspace only",
        )
    return next(iter(others), None)


def resolve_places(
    params: Mapping[str, Any], fields: Iterable[str], console: Console
) -> dict[str, Any]:
    """Return the named fields of the parameters as the daemon reads them, and the parameter
    `workspace`, None if unknown. `path` is a note, folder or glob, `anchor` a section, any other
    field a note that may be new.

    Raises BadRequest if they are in several workspaces.
    """
    resolved: dict[str, Any] = {}
    roots: list[str | None] = []
    for field in fields:
        value = params.get(field)
        if value is None:
            continue
        if field == "path":
            resolved |= find_among(value, console)
            roots.append(resolved["workspace"])
        elif field == "anchor":
            memories = find_memories([value], console)
            resolved["anchor"] = memories["anchors"][0]
            roots.append(memories["workspace"])
        else:
            root, note = find_workspace_note(value, console.cwd, list(console.roots.values()))
            resolved[field] = note
            roots.append(root)
    return {**resolved, "workspace": _choose_root(roots)} if resolved else {}


# --- targets of history -------------------------------------------------------------------------


def find_named(text: str | None, console: Console) -> dict[str, Any]:
    """Return the parameter `path` or `anchor` for a note or a section, and the parameter
    `workspace`, None if unknown. Without a text, return no parameter. Raises BadRequest.
    """
    if text is None:
        return {}
    if not text:
        raise BadRequest(
            "the name of the note is empty",
            hint="name a section, a note or a folder; a dot means the whole workspace",
        )
    target = parse_target(text)
    root, path = find_workspace_note(target.path, console.cwd, list(console.roots.values()))
    if target.start_line is not None:
        # The daemon knows which section has these lines.
        return {"anchor": f"{path}:{target.start_line}-{target.end_line}", "workspace": root}
    named = {"path": path} if target.heading is None else {"anchor": f"{path}#{target.heading}"}
    return {**named, "workspace": root}


def find_revision(args: Args, console: Console) -> dict[str, Any]:
    """Return the parameters that name a change set, or a note or section. A number alone names a
    change set.
    """
    target: str | None = args.target
    if target is not None and target.isdecimal() and args.change_set is None:
        return {"change_set": int(target)}
    return find_named(target, console)
