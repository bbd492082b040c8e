r"""How is a note or folder shown to a model? Numbered lines of a note, sizes and paths of a folder.

In the dialect `docs` lines are those that an editor, a search and `insert` count. In `sdk` they end at `\n` alone, keep a `\r`,
and an empty one follows the last line end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memsyncd.core.markdown.lines import decode_note
from memsyncd.core.notepath import show_path
from memsyncd.core.writing.phrases import Dialect, refuse_edit, render_phrase

LINES_LIMIT: Final = 999_999
NUMBER_WIDTH: Final = 6
DEPTH_LIMIT: Final = 2

_UNITS = "KMGT"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    """Something in a folder, or the folder itself. `path` as it is shown, without a slash at the end."""

    path: str
    size_bytes: int
    is_folder: bool


def view_text(path: str, data: bytes, view_range: tuple[int, int] | None, dialect: Dialect) -> str:
    """A note's lines with their numbers. `view_range` is first and last line, 1-based; a last one of -1 means the end.

    Raises EditRefused for a note of too many lines, and in the dialect `docs` for a range that holds none of its lines.
    """
    lines = split_lines(path, data, dialect)
    if len(lines) > LINES_LIMIT:
        raise refuse_edit("too many lines", dialect, hint="split the note", path=path)
    first, last = _find_range(lines, view_range, dialect)
    return "\n".join((render_phrase("file", dialect, path=path), number_lines(lines, first, last)))


def view_folder(path: str, entries: Sequence[FolderEntry], dialect: Dialect) -> str:
    """What is in a folder, two levels deep, each folder before what it holds.

    The size of the folder itself is that of its own entry, or the sum of the files that are shown if it has none.
    """
    own = next((entry.size_bytes for entry in entries if entry.path == path), None)
    deepest = path.count("/") + DEPTH_LIMIT
    shown = [entry for entry in entries if entry.path != path and entry.path.count("/") <= deepest]
    shown.sort(key=lambda entry: entry.path.split("/"))
    if own is None:
        own = sum(entry.size_bytes for entry in shown if not entry.is_folder)
    rows = [(own, path), *((entry.size_bytes, _show_entry(entry, dialect)) for entry in shown)]
    return "\n".join(
        (render_phrase("folder", dialect, path=path), *(f"{show_size(size, dialect)}\t{name}" for size, name in rows))
    )


def split_lines(path: str, data: bytes, dialect: Dialect) -> list[str]:
    """A note's lines as they are shown; what is not valid UTF-8 is shown as U+FFFD."""
    return decode_note(path, data).lines if dialect == "docs" else data.decode("utf-8", "replace").split("\n")


def number_lines(lines: Sequence[str], first: int, last: int) -> str:
    """The lines from `first` to `last` (1-based, inclusive), each behind its number and a tab."""
    return "\n".join(f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines[first - 1 : last], first))


def show_size(size_bytes: int, dialect: Dialect) -> str:
    """A size for people: `docs` as `du -h` rounds up (`0B`, `4.0K`, `53K`), `sdk` as its code has it (`0B`, `4K`, `52.1K`)."""
    return _show_size_as_du(size_bytes) if dialect == "docs" else _show_size_as_sdk(size_bytes)


def _find_range(lines: Sequence[str], view_range: tuple[int, int] | None, dialect: Dialect) -> tuple[int, int]:
    n_lines = len(lines)
    if view_range is None:
        return 1, n_lines
    first, last = max(view_range[0], 1), view_range[1]
    if last == -1:
        last = n_lines
    is_empty = first > last or first > n_lines
    if dialect == "docs" and is_empty and n_lines:
        wanted = {"first": view_range[0], "last": view_range[1]}
        raise refuse_edit("no such range", dialect, hint="view it without a range", n_lines=n_lines, **wanted)
    return (1, 0) if is_empty else (first, last)


def _show_entry(entry: FolderEntry, dialect: Dialect) -> str:
    path = show_path(entry.path)
    return f"{path}/" if entry.is_folder and dialect == "sdk" else path


def _show_size_as_du(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes}B"
    power = 1
    while -(-size_bytes // 1024**power) >= 1024 and power < len(_UNITS):
        power += 1
    tenths = -(-10 * size_bytes // 1024**power)
    shown = f"{tenths // 10}.{tenths % 10}" if tenths < 100 else f"{-(-size_bytes // 1024**power)}"
    return shown + _UNITS[power - 1]


def _show_size_as_sdk(size_bytes: int) -> str:
    power = min(max(size_bytes.bit_length() - 1, 0) // 10, 3)
    size = size_bytes / 1024**power
    return (f"{size:.0f}" if size.is_integer() else f"{size:.1f}") + "BKMG"[power]
