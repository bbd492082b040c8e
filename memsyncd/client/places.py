"""Does a place name a section, or a note or folder? Its text decides: no heading of an anchor holds a dot or a `#`."""

from __future__ import annotations

NOTE_SUFFIXES = (".md", ".markdown", ".txt")


def split_place(place: str) -> tuple[str, str | None]:
    """The path, and what follows the last `#` if that is a heading: `c#.md` is a note, `c#.md#setup` a section of it."""
    path, mark, heading = place.rpartition("#")
    is_section = mark and not place.endswith(NOTE_SUFFIXES) and (heading or path.endswith(NOTE_SUFFIXES))
    return (path, heading) if is_section else (place, None)
