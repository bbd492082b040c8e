"""Convert what a Python program writes into parameters of the daemon."""

from __future__ import annotations

import os

TYPE_CHECKING = False

NOTE_SUFFIXES = (".md", ".markdown", ".txt")


def split_anchor(target: str) -> tuple[str, str | None]:
    """Return the path and the heading after the last `#`, None if the target names no section.

    The text alone decides: a heading in an anchor contains neither a dot nor a `#`. `c#.md` is a
    note, `c#.md#setup` a section of it.
    """
    path, mark, heading = target.rpartition("#")
    is_section = mark and not _is_note(target) and (heading or _is_note(path))
    return (path, heading) if is_section else (target, None)


def _is_note(path: str) -> bool:
    return path.lower().endswith(NOTE_SUFFIXES)


def read_target(target: str | None) -> dict[str, object]:
    """Return the parameter that names a section, a note or a folder."""
    return (
        {} if target is None else {"path" if split_anchor(target)[1] is None else "anchor": target}
    )


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from memsyncd.client.types import Words

    WorkspaceNames = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None


def convert_words(words: Words | Iterable[Any]) -> list[Any] | None:
    """Convert a word or several to a list, None for none."""
    return ([words] if isinstance(words, str) else [*words]) or None


def convert_list(words: Words | None) -> list[str] | None:
    """Convert a word or several to a list, which may be empty; None for None."""
    return [words] if isinstance(words, str) else None if words is None else [*words]


def convert_items(
    items: Iterable[Mapping[str, Any] | str], field: str
) -> list[dict[str, object]] | None:
    """Convert items that are dictionaries, or only the text of this field; None for none."""
    return [{field: one} if isinstance(one, str) else dict(one) for one in items] or None


def convert_wait(*, is_wanted: bool) -> dict[str, object]:
    return {"wait": "disk"} if is_wanted else {}


def convert_workspaces(names: WorkspaceNames) -> dict[str, object]:
    """Return the parameter that replaces the workspace of a connection, if any is named."""
    if names is None:
        return {}
    listed = [names] if isinstance(names, str | os.PathLike) else names
    return {"workspace": [name_workspace(name) for name in listed]}


def convert_filters(filters: Mapping[str, object]) -> dict[str, object] | None:
    """Convert filters to the parameters of the daemon: a single word becomes a list of one, other
    sequences lists.
    """
    return {
        name: _read_filter(name, value) for name, value in filters.items() if value is not None
    } or None


def _read_filter(name: str, value: object) -> object:
    if isinstance(value, str):
        return value if name in ("after", "before") else [value]
    if isinstance(value, bool | float | int):
        return value
    # The daemon refuses other types.
    return list(value)  # type: ignore[call-overload]


def name_workspace(workspace: str | os.PathLike[str]) -> str:
    """Return a workspace as the daemon takes it: paths become absolute, since the daemon does not
    know the current folder.
    """
    text = os.fspath(workspace)
    is_folder = not isinstance(workspace, str) or text.startswith(("/", ".", "~"))
    return os.path.abspath(os.path.expanduser(text)) if is_folder else text
