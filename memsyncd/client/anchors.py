"""Split an anchor, `path#heading`, into the path of a note and the heading of a section; name a
target in a request.
"""

from __future__ import annotations

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
