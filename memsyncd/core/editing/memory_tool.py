r"""Apply the memory tool's commands to a note: compute its new bytes and the text of the answer, or
raise an error.

Edits change the requested text and no other byte: line ends, a missing final newline, a byte order
mark and invalid UTF-8 stay. Views show the numbered lines of a note, or the sizes and paths of a
folder. The answers have the wording of `memory_20250818`, which models have learned.

There are two dialects: `docs`, as in Anthropic's documents, and `sdk`, as in its Python SDK's
`BetaLocalFilesystemMemoryTool`. In `docs` lines are counted as an editor and a search count them.
In `sdk` lines end at `\n` alone and keep a `\r`, and an empty line follows the last line end;
`insert` adds the text as it is, and the note ends with a newline.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, NoReturn

import msgspec

from memsyncd.core.editing.sections import (
    NoteText,
    UnifiedText,
    check_text,
    count_lines,
    join_texts,
    open_text,
    unify_line_ends,
    write_line_ends,
)
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.paths import (
    MEMORY_FILE,
    MEMORY_FOLDER,
    PATH_LIMIT_BYTES,
    NotePath,
    find_refusal,
    parse_note_path,
    show_path,
)
from memsyncd.errors import AlreadyExists, EditRefused, MemsyncdError, NoteNotFound, PathRefused

MEMORIES: Final = "/memories"
SHOWN_PATH_CHARS: Final = 200

_ENCODED = re.compile(r"%(?:25)*(?:2e|2f|5c|00|c0|c1)", re.IGNORECASE)
_SEPARATORS = "./\\"
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_HINT = "name a note by its path beneath /memories, such as /memories/decisions.md"


class MemoryPath(msgspec.Struct, frozen=True):
    """A path of the memory tool in its only spelling, without a slash at the end.

    `note` is None for `/memories` itself. Only `parse_memory_path` makes one.
    """

    text: str
    note: NotePath | None


def parse_memory_path(text: str, folder: str = MEMORY_FOLDER) -> MemoryPath:
    """Convert text to a MemoryPath. Raises PathRefused, which names the rule that the text breaks.

    `folder` is the memory folder's path from the root; empty if it is the root.
    """
    if text != MEMORIES and not text.startswith(f"{MEMORIES}/"):
        raise PathRefused(f"Path must start with {MEMORIES}, got: {_shorten(text)}", hint=_HINT)
    reason = _find_refusal(text)
    if reason:
        _refuse(text, reason)
    parts = [part for part in text[len(MEMORIES) :].split("/") if part not in ("", ".")]
    if ".." in parts or "\\" in text:
        raise PathRefused(f"Path {_shorten(text)} would escape {MEMORIES} directory", hint=_HINT)
    if not parts:
        return MemoryPath(MEMORIES, None)
    return MemoryPath("/".join((MEMORIES, *parts)), _parse_parts(text, parts, folder))


def parse_file_path(text: str, folder: str = MEMORY_FOLDER) -> MemoryPath:
    """Convert the path of a file that is to be made. Raises PathRefused also for a slash at the
    end, which names a folder.
    """
    path = parse_memory_path(text, folder)
    if path.note is not None and text.endswith("/"):
        _refuse(text, "the slash at its end names a folder, and this would be a file")
    return path


def show_memory_path(path: NotePath, folder: str = MEMORY_FOLDER) -> str:
    """The path by which the memory tool names a note or folder.

    Raises PathRefused for a path that is not beneath `/memories`. `.memories/MEMORY.md` gets the
    same path as the workspace's MEMORY.md, because it has no path of its own.
    """
    if folder == MEMORY_FOLDER and path.text == MEMORY_FILE:
        return f"{MEMORIES}/{MEMORY_FILE}"
    inside = path.text.removeprefix(f"{folder}/") if folder else path.text
    if folder and inside == path.text:
        raise PathRefused(f"path refused: it is not beneath {MEMORIES}", hint=_HINT)
    return f"{MEMORIES}/{inside}"


def _parse_parts(text: str, parts: list[str], folder: str) -> NotePath:
    if folder == MEMORY_FOLDER and parts == [MEMORY_FILE]:
        return NotePath(MEMORY_FILE)
    if folder in ("", MEMORY_FOLDER) and parts[0] == MEMORY_FILE and len(parts) > 1:
        _refuse(text, f"{MEMORY_FILE} is a note, not a folder")
    within = "/".join((folder, *parts)) if folder else "/".join(parts)
    reason = find_refusal(within)
    if reason:
        _refuse(text, reason)
    return parse_note_path(within)


def _find_refusal(text: str) -> str:
    if len(text) > PATH_LIMIT_BYTES:
        return f"it is over {PATH_LIMIT_BYTES} bytes"
    if any(unicodedata.category(char) in _UNPRINTABLE for char in text):
        return "it holds a control character"
    if _ENCODED.search(text):
        return "it holds an encoded dot, slash or NUL"
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text)
        if any(plain.count(mark) != text.count(mark) for mark in _SEPARATORS):
            return "it contains a character that looks like a dot or slash"
    return ""


def _refuse(text: str, reason: str) -> NoReturn:
    raise PathRefused(f"Path {_shorten(text)} refused: {reason}", hint=_HINT)


def _shorten(text: str) -> str:
    """The received text in a form that can be sent back."""
    received = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return received if len(received) <= SHOWN_PATH_CHARS else received[:SHOWN_PATH_CHARS] + "…"


Dialect = Literal["docs", "sdk"]
Command = Literal["view", "create", "str_replace", "insert", "delete", "rename"]

# --- Edits ----------------------------------------------------------------------------------------

SNIPPET_CONTEXT_LINES = 2
SNIPPET_LIMIT_LINES = 40
PLACES_LIMIT = 100


class EditResult(msgspec.Struct, frozen=True, kw_only=True):
    """A note's new bytes and the text of the answer."""

    data: bytes
    text: str


def create_text(path: str, data: bytes | None, file_text: str, dialect: Dialect) -> EditResult:
    """Make a new note with this text.

    Raises AlreadyExists if the note exists with another text. The same text is a success.
    """
    check_text("file_text", file_text)
    created = file_text.encode("utf-8")
    if data is not None and data != created:
        raise refuse_existing("create", path, dialect)
    return EditResult(data=created, text=render_phrase("created", dialect, path=path))


def replace_text(
    path: str, data: bytes | None, old_str: str, new_str: str, dialect: Dialect
) -> EditResult:
    """Replace the only `old_str` of the note by `new_str`. Their line ends do not matter; the
    note's own line ends are written.

    Raises NoteNotFound if there is no note. Raises EditRefused if `old_str` is empty, or if the
    note holds it not at all or more than once.
    """
    check_text("old_str", old_str)
    check_text("new_str", new_str)
    if data is None:
        raise refuse_missing("str_replace", path, dialect)
    note = open_text(path, data)
    unified, old, new = UnifiedText(note.text), unify_line_ends(old_str), unify_line_ends(new_str)
    place = _find_place(path, unified.text, old, old_str, dialect)
    edited = note.to_bytes(_replace(note, unified, place, old, new))
    line = unified.text.count("\n", 0, place) + 1
    snippet = _make_snippet(
        split_lines(path, edited, dialect), line, new.count("\n") if dialect == "docs" else 0
    )
    return EditResult(
        data=edited, text=render_phrase("replaced", dialect, snippet=snippet).rstrip("\n")
    )


def insert_text(
    path: str, data: bytes | None, insert_line: int, text: str, dialect: Dialect
) -> EditResult:
    """Insert `text` as new lines after line `insert_line`; 0 is the beginning of the note.

    Raises NoteNotFound if there is no note, EditRefused if it has no such line.
    """
    check_text("insert_text", text)
    if data is None:
        raise refuse_missing("insert", path, dialect)
    note = open_text(path, data)
    insert = _insert if dialect == "docs" else _insert_as_sdk
    inserted = note.to_bytes(insert(note, insert_line, text))
    return EditResult(data=inserted, text=render_phrase("inserted", dialect, path=path))


def _find_place(path: str, text: str, old: str, received: str, dialect: Dialect) -> int:
    """The offset of the only match. Overlapping matches count as two, because the choice between
    them could be wrong.
    """
    places: list[int] = []
    at = text.find(old) if old else -1
    while at >= 0 and len(places) <= PLACES_LIMIT:
        places.append(at)
        at = text.find(old, at + 1)
    if not places:
        raise refuse_edit(
            "no match",
            dialect,
            hint="view the note and copy the words as they are" if old else "add text with insert",
            old_str=received,
            path=path,
        )
    if len(places) > 1:
        lines = [str(text.count("\n", 0, place) + 1) for place in places[:PLACES_LIMIT]]
        lines += ["…"] if len(places) > PLACES_LIMIT else []
        hint = "include more of the text around it"
        raise refuse_edit(
            "several matches", dialect, hint=hint, old_str=received, lines=", ".join(lines)
        )
    return places[0]


def _replace(note: NoteText, unified: UnifiedText, place: int, old: str, new: str) -> str:
    """Replace only the part that differs, so that lines of both texts keep their line ends."""
    n_same = _count_same(old, new)
    n_same_after = _count_same(old[n_same:][::-1], new[n_same:][::-1])
    start = unified.raw_offset(place + n_same)
    end = unified.raw_offset(place + len(old) - n_same_after)
    middle = write_line_ends(new[n_same : len(new) - n_same_after], note.line_end)
    return join_texts(note.text[:start], middle, note.text[end:])


def _count_same(text: str, other: str) -> int:
    """The length of the common beginning, in characters."""
    for at, (first, second) in enumerate(zip(text, other, strict=False)):
        if first != second:
            return at
    return min(len(text), len(other))


def _insert(note: NoteText, insert_line: int, text: str) -> str:
    """Insert lines. At the end of a note without a final newline, the text ends the note as it is,
    so that no newline is added that was not requested.
    """
    unified = UnifiedText(note.text)
    offset = _offset_after_line(unified.text, insert_line, count_lines(unified.text), "docs")
    lines = unify_line_ends(text)
    if unified.text and offset == len(unified.text) and not unified.text.endswith("\n"):
        lines = "\n" + (lines or "\n")
    else:
        lines = lines.removesuffix("\n") + "\n"
    raw = unified.raw_offset(offset)
    return join_texts(note.text[:raw], write_line_ends(lines, note.line_end), note.text[raw:])


def _insert_as_sdk(note: NoteText, insert_line: int, text: str) -> str:
    ended = note.text if not note.text or note.text.endswith("\n") else f"{note.text}\n"
    offset = _offset_after_line(ended, insert_line, ended.count("\n"), "sdk")
    return "".join((ended[:offset], text.rstrip("\n"), "\n", ended[offset:]))


def _offset_after_line(text: str, insert_line: int, n_lines: int, dialect: Dialect) -> int:
    r"""The offset of the line after `insert_line`. `text` has `\n` for every line end."""
    if not 0 <= insert_line <= n_lines:
        hint = "view the note to see its line numbers"
        raise refuse_edit("no such line", dialect, hint=hint, line=insert_line, n_lines=n_lines)
    offset = 0
    for _ in range(insert_line):
        offset = text.find("\n", offset) + 1 or len(text)
    return offset


def _make_snippet(lines: list[str], line: int, n_more: int) -> str:
    """The numbered lines from `line` to `n_more` lines below it, and some lines around them."""
    first, last = (
        max(line - SNIPPET_CONTEXT_LINES, 1),
        min(line + n_more + SNIPPET_CONTEXT_LINES, len(lines)),
    )
    snippet = number_lines(lines, first, min(last, first + SNIPPET_LIMIT_LINES - 1))
    return snippet if last - first < SNIPPET_LIMIT_LINES else f"{snippet}\n…"


# --- Views ----------------------------------------------------------------------------------------

LINES_LIMIT: Final = 999_999
NUMBER_WIDTH: Final = 6
# This many entries are 50 KB, or 15,000 tokens.
ENTRIES_LIMIT: Final = 1000

_UNITS = "KMGT"


class FolderEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A folder or an entry in it. `path` is the displayed path, without a slash at the end."""

    path: str
    size_bytes: int
    is_folder: bool


def view_text(path: str, data: bytes, view_range: tuple[int, int] | None, dialect: Dialect) -> str:
    """A note's lines with their numbers.

    `view_range` is the first and the last line, 1-based; a last line of -1 means the end. Raises
    EditRefused for a note with too many lines, and in the dialect `docs` for a range that holds
    none of its lines.
    """
    lines = split_lines(path, data, dialect)
    if len(lines) > LINES_LIMIT:
        raise refuse_edit("too many lines", dialect, hint="split the note", path=path)
    first, last = _clamp_range(lines, view_range, dialect)
    return "\n".join((render_phrase("file", dialect, path=path), number_lines(lines, first, last)))


def view_folder(
    path: str,
    size_bytes: int,
    entries: Sequence[FolderEntry],
    dialect: Dialect,
    *,
    is_cut: bool = False,
) -> str:
    """A folder with its size and its entries, each folder before its entries. `is_cut` adds a line
    that says that there are more.
    """
    listed = sorted(entries, key=lambda entry: entry.path.split("/"))
    rows = [(size_bytes, path), *((each.size_bytes, _show_entry(each, dialect)) for each in listed)]
    return "\n".join(
        (
            render_phrase("folder", dialect, path=path),
            *(f"{show_size(size, dialect)}\t{name}" for size, name in rows),
            *(
                [f"… over {ENTRIES_LIMIT} entries: view a folder in it, or search"]
                if is_cut
                else ()
            ),
        )
    )


def split_lines(path: str, data: bytes, dialect: Dialect) -> list[str]:
    """A note's lines as the dialect counts them; invalid UTF-8 becomes U+FFFD."""
    return (
        decode_note(path, data).lines
        if dialect == "docs"
        else data.decode("utf-8", "replace").split("\n")
    )


def number_lines(lines: Sequence[str], first: int, last: int) -> str:
    """The lines from `first` to `last` (1-based, inclusive), each after its number and a tab."""
    return "\n".join(
        f"{number:>{NUMBER_WIDTH}}\t{line}"
        for number, line in enumerate(lines[first - 1 : last], first)
    )


def show_size(size_bytes: int, dialect: Dialect) -> str:
    """A readable size. `docs` rounds up as `du -h` does (`0B`, `4.0K`, `53K`); `sdk` writes the
    SDK's form (`0B`, `4K`, `52.1K`).
    """
    return _show_size_as_du(size_bytes) if dialect == "docs" else _show_size_as_sdk(size_bytes)


def _clamp_range(
    lines: Sequence[str], view_range: tuple[int, int] | None, dialect: Dialect
) -> tuple[int, int]:
    n_lines = len(lines)
    if view_range is None:
        return 1, n_lines
    first, last = max(view_range[0], 1), view_range[1]
    if last == -1:
        last = n_lines
    is_empty = first > last or first > n_lines
    if dialect == "docs" and is_empty and n_lines:
        bounds = {"first": view_range[0], "last": view_range[1]}
        raise refuse_edit(
            "no such range", dialect, hint="view it without a range", n_lines=n_lines, **bounds
        )
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
    number = f"{tenths // 10}.{tenths % 10}" if tenths < 100 else f"{-(-size_bytes // 1024**power)}"
    return number + _UNITS[power - 1]


def _show_size_as_sdk(size_bytes: int) -> str:
    power = min(max(size_bytes.bit_length() - 1, 0) // 10, 3)
    size = size_bytes / 1024**power
    return (f"{size:.0f}" if size.is_integer() else f"{size:.1f}") + "BKMG"[power]


# --- Phrases --------------------------------------------------------------------------------------

_MISSING: Final = "The path {path} does not exist"
_MISSING_WITH_REQUEST: Final = f"{_MISSING}. Please provide a valid path."
# The phrases of `docs`. If `sdk` has no phrase of its own, it uses this one without `Error: `.
_PHRASES: Final = {
    "view missing": _MISSING_WITH_REQUEST,
    "str_replace missing": f"Error: {_MISSING_WITH_REQUEST}",
    "insert missing": f"Error: {_MISSING}",
    "delete missing": f"Error: {_MISSING}",
    "rename missing": f"Error: {_MISSING}",
    "create existing": "Error: File {path} already exists",
    "rename existing": "Error: The destination {path} already exists",
    "delete root": "Error: Cannot delete the /memories directory itself",
    "rename root": "Error: Cannot rename the /memories directory itself",
    "no match": (
        "No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}."
    ),
    "several matches": (
        "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines:"
        " {lines}. Please ensure it is unique"
    ),
    "no such line": (
        "Error: Invalid `insert_line` parameter: {line}."
        " It should be within the range of lines of the file: [0, {n_lines}]"
    ),
    "no such range": (
        "Error: Invalid `view_range` parameter: [{first}, {last}]."
        " It should be within the range of lines of the file: [1, {n_lines}]"
    ),
    "too many lines": "File {path} exceeds maximum line limit of 999,999 lines.",
    "created": "File created successfully at: {path}",
    "replaced": "The memory file has been edited.\n{snippet}",
    "inserted": "The file {path} has been edited.",
    "deleted": "Successfully deleted {path}",
    "renamed": "Successfully renamed {old} to {new}",
    "folder": (
        "Here're the files and directories up to 2 levels deep in {path}, excluding hidden items"
        " and node_modules:"
    ),
    "file": "Here's the content of {path} with line numbers:",
}
_SDK_PHRASES: Final = {
    "insert missing": _MISSING_WITH_REQUEST,
    "no such line": (
        "Invalid `insert_line` parameter: {line}. It should be within the range [0, {n_lines}]."
    ),
    "replaced": (
        "The memory file has been edited. Here is the snippet showing the change (with line"
        " numbers):\n{snippet}"
    ),
    "folder": (
        "Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    ),
}


def render_phrase(phrase: str, dialect: Dialect, **words: object) -> str:
    """Return a phrase with its words filled in."""
    text = _PHRASES[phrase]
    if dialect == "sdk":
        text = _SDK_PHRASES.get(phrase, text.removeprefix("Error: "))
    return text.format_map(words)


def refuse_missing(
    command: Literal["view", "str_replace", "insert", "delete", "rename"],
    path: str,
    dialect: Dialect,
) -> NoteNotFound:
    """The error for a path without an entry; for `rename`, `path` is the old path."""
    return NoteNotFound(
        render_phrase(f"{command} missing", dialect, path=path),
        hint="view /memories to see what there is",
    )


def refuse_existing(
    command: Literal["create", "rename"], path: str, dialect: Dialect
) -> AlreadyExists:
    """The error for a path with an entry; for `rename`, `path` is the new path."""
    return AlreadyExists(
        render_phrase(f"{command} existing", dialect, path=path),
        hint="edit what is there, or choose another path",
    )


def refuse_root(command: Literal["delete", "rename"], dialect: Dialect) -> PathRefused:
    """The error for deleting or renaming `/memories` itself."""
    return PathRefused(render_phrase(f"{command} root", dialect), hint="name what is in it")


def refuse_folder(command: Command, path: str, dialect: Dialect) -> MemsyncdError:
    """The error for the path of a folder where a file is needed.

    In `docs` it says that the file is missing; in `sdk` it says that the path is not a file.
    """
    if command == "create":
        return refuse_existing("create", path, dialect)
    if dialect == "docs":
        return refuse_missing(command, path, dialect)
    return PathRefused(f"The path {path} is not a file.", hint="name a file in it")


def refuse_edit(phrase: str, dialect: Dialect, *, hint: str, **words: object) -> EditRefused:
    """The error for an edit or view that does not fit the text of the note."""
    return EditRefused(render_phrase(phrase, dialect, **words), hint=hint)
