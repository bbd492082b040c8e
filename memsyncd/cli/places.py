"""Which note is meant, and how is its place shown? Paths are typed and read from the current folder, asked for by workspace."""

from __future__ import annotations

import os

from memsyncd.client.anchors import split_anchor
from memsyncd.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final


class Target:
    """What `get` was asked for. `path` is from the current folder, from the root, or absolute; lines are None for all."""

    __slots__ = ("end_line", "heading", "path", "start_line")

    def __init__(
        self, path: str, *, heading: str | None = None, start_line: int | None = None, end_line: int | None = None
    ) -> None:
        self.path: Final = path
        self.heading: Final = heading
        self.start_line: Final = start_line
        self.end_line: Final = end_line


def parse_target(text: str) -> Target:
    """Read `PATH`, `PATH:A`, `PATH:A-B` or `PATH#heading/sub-heading`. A file that is called `a:1` stays out of reach."""
    path, _, lines = text.rpartition(":")
    first, dash, last = lines.partition("-")
    if path and first.isdecimal() and (last.isdecimal() or not dash) and split_anchor(path)[1] is None:
        return Target(path, start_line=int(first), end_line=int(last or first))
    path, heading = split_anchor(text)
    return Target(path, heading=heading)


def find_note(path: str, cwd: str, roots: Sequence[str]) -> tuple[str | None, str]:
    """The root that the path lies beneath and the path from there; None and the path as it is if it names no file here.

    The nearest root wins. A relative path that names nothing in the current folder is left to mean one from the root.
    """
    full = os.path.join(cwd, os.path.expanduser(path))
    if not os.path.isabs(full) or not (os.path.isabs(path) or path.startswith("~") or os.path.lexists(full)):
        return None, path
    folder, name = os.path.split(os.path.normpath(full))
    real = os.path.join(os.path.realpath(folder), name)
    owners = [root for root in roots if real.startswith(root.rstrip("/") + "/")]
    if not owners:
        return None, path
    root = max(owners, key=len)
    return root, real[len(root.rstrip("/")) + 1 :]


def find_own_note(path: str, cwd: str, roots: Sequence[str]) -> tuple[str | None, str]:
    """As `find_note`. Raises BadRequest for a path that is no workspace's."""
    root, found = find_note(path, cwd, roots)
    if root is None and found.startswith(("/", "~")):
        raise BadRequest(f"{found} lies in no workspace", hint="see `memsyncd list` for the folders that are indexed")
    return root, found


def find_roots(workspaces: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Id to root, from an answer to `workspace.list`."""
    return {str(info["id"]): str(info["root"]) for info in workspaces}


def show_path(path: str, root: str, cwd: str) -> str:
    """The path as a person here would type it: from the current folder if that lies in the workspace, else in full."""
    if not root:
        return path
    full = os.path.join(root, path)
    is_inside = cwd == root or cwd.startswith(root.rstrip("/") + "/")
    return os.path.relpath(full, cwd) if is_inside else full


def show_span(path: str, start_line: int, end_line: int) -> str:
    """`path:12` or `path:12-18`."""
    return f"{path}:{show_lines(start_line, end_line)}"


def show_lines(start_line: int, end_line: int) -> str:
    """`12` or `12-18`."""
    return str(start_line) if start_line == end_line else f"{start_line}-{end_line}"
