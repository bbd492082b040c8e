"""Convert arguments of a Python program to parameters of the daemon."""

from __future__ import annotations

import os
from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from memsyncd.client.types import Words

    Method = TypeVar("Method", bound=Callable[..., Any])
    WorkspaceNames = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None

NOTE_SUFFIXES = (".md", ".markdown", ".txt")


def split_anchor(target: str) -> tuple[str, str | None]:
    """Return the path, and the heading after the last `#`; the heading is None if the target names
    no section.

    Only the text decides, because the heading in an anchor contains neither a dot nor a `#`:
    `c#.md` is a note, `c#.md#setup` a section of it.
    """
    path, mark, heading = target.rpartition("#")
    is_section = mark and not _is_note(target) and (heading or _is_note(path))
    return (path, heading) if is_section else (target, None)


def _is_note(path: str) -> bool:
    return path.lower().endswith(NOTE_SUFFIXES)


def planned(method: Method) -> Method:
    """Let a method that takes `apply` say so to a caller that gives the former `dry_run`."""

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "dry_run" in kwargs:
            advice = "write apply=True to change something, apply=False for the plan"
            raise TypeError(f"{method.__name__}() takes no `dry_run`: {advice}")
        return method(*args, **kwargs)

    return call  # type: ignore[return-value]


def read_target(target: str | None) -> dict[str, object]:
    """Return the parameter that names a section, a note or a folder."""
    return (
        {} if target is None else {"path" if split_anchor(target)[1] is None else "anchor": target}
    )


def convert_words(words: Words | Iterable[Any]) -> list[Any] | None:
    """Convert one word or several to a list; None for no word."""
    return ([words] if isinstance(words, str) else [*words]) or None


def convert_list(words: Words | None) -> list[str] | None:
    """Convert one word or several to a list, which may be empty; None stays None."""
    return [words] if isinstance(words, str) else None if words is None else [*words]


def convert_items(
    items: Iterable[Mapping[str, Any] | str], field: str
) -> list[dict[str, object]] | None:
    """Convert items to dictionaries. An item may be a text, which becomes this field. None for no
    item.
    """
    return [{field: item} if isinstance(item, str) else dict(item) for item in items] or None


def convert_wait(*, is_wanted: bool) -> dict[str, object]:
    return {"wait": "disk"} if is_wanted else {}


def convert_workspaces(names: WorkspaceNames) -> dict[str, object]:
    """Return the parameter that replaces the connection's workspace; empty if there are no
    names.
    """
    if names is None:
        return {}
    listed = [names] if isinstance(names, str | os.PathLike) else names
    return {"workspace": [name_workspace(name) for name in listed]}


def convert_filters(filters: Mapping[str, object]) -> dict[str, object] | None:
    """Convert filters to parameters of the daemon. A single word becomes a list of one word; other
    sequences become lists.
    """
    return {
        name: _read_filter(name, value) for name, value in filters.items() if value is not None
    } or None


def _read_filter(name: str, value: object) -> object:
    if isinstance(value, str):
        return value if name in ("after", "before") else [value]
    if isinstance(value, bool | float | int):
        return value
    # The daemon refuses wrong types.
    return list(value)  # type: ignore[call-overload]


def name_workspace(workspace: str | os.PathLike[str]) -> str:
    """Return a workspace's name for the daemon. A path becomes absolute, because the daemon does
    not know the current folder.
    """
    text = os.fspath(workspace)
    is_folder = not isinstance(workspace, str) or text.startswith(("/", ".", "~"))
    return os.path.abspath(os.path.expanduser(text)) if is_folder else text
