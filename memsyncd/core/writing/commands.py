"""What do the memory tool's commands make of a note? Its bytes become other bytes and the text of the answer, or an error.

The door to this room for `memory`: edits are here, views in `views`, the words of answers and errors in `phrases`. Edits
change what they are asked to and no other byte: line ends, a missing final newline, a byte order mark, invalid UTF-8 all stay.
In the dialect `sdk`, `insert` does as the SDK does: the text goes in as it is, and the note ends with a newline.
"""

from __future__ import annotations

from dataclasses import dataclass

from memsyncd.core.writing.notetext import (
    NoteText,
    UnifiedText,
    check_text,
    count_lines,
    join_texts,
    open_text,
    unify_line_ends,
    write_line_ends,
)
from memsyncd.core.writing.phrases import (
    Command,
    Dialect,
    describe_deleted,
    describe_renamed,
    refuse_edit,
    refuse_existing,
    refuse_folder,
    refuse_missing,
    refuse_root,
    render_phrase,
)
from memsyncd.core.writing.views import FolderEntry, number_lines, split_lines, view_folder, view_text

__all__ = [
    "Command",
    "Dialect",
    "EditResult",
    "FolderEntry",
    "create_text",
    "describe_deleted",
    "describe_renamed",
    "insert_text",
    "refuse_existing",
    "refuse_folder",
    "refuse_missing",
    "refuse_root",
    "replace_text",
    "view_folder",
    "view_text",
]

SNIPPET_CONTEXT_LINES = 2
SNIPPET_LIMIT_LINES = 40
PLACES_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class EditResult:
    """A note's new bytes and the text of the answer."""

    data: bytes
    text: str


def create_text(path: str, data: bytes | None, file_text: str, dialect: Dialect) -> EditResult:
    """A new note with this text. Raises AlreadyExists if another text stands there; the same one is what was asked for."""
    check_text("file_text", file_text)
    created = file_text.encode("utf-8")
    if data is not None and data != created:
        raise refuse_existing("create", path, dialect)
    return EditResult(data=created, text=render_phrase("created", dialect, path=path))


def replace_text(path: str, data: bytes | None, old_str: str, new_str: str, dialect: Dialect) -> EditResult:
    """The note with `new_str` for the one `old_str` in it, whichever line ends the two have; the note's own are written.

    Raises NoteNotFound if there is no note, EditRefused if `old_str` is not in it, is empty, or is in it more than once.
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
    snippet = _make_snippet(split_lines(path, edited, dialect), line, new.count("\n") if dialect == "docs" else 0)
    return EditResult(data=edited, text=render_phrase("replaced", dialect, snippet=snippet).rstrip("\n"))


def insert_text(path: str, data: bytes | None, insert_line: int, text: str, dialect: Dialect) -> EditResult:
    """The note with `text` as lines of their own after line `insert_line`, 0 for the beginning.

    Raises NoteNotFound if there is no note, EditRefused if it has no such line.
    """
    check_text("insert_text", text)
    if data is None:
        raise refuse_missing("insert", path, dialect)
    note = open_text(path, data)
    insert = _insert if dialect == "docs" else _insert_as_sdk
    inserted = note.to_bytes(insert(note, insert_line, text))
    return EditResult(data=inserted, text=render_phrase("inserted", dialect, path=path))


def _find_place(path: str, text: str, old: str, said: str, dialect: Dialect) -> int:
    """The offset of the only place; places that overlap are two, for a guess between them could be wrong."""
    places: list[int] = []
    at = text.find(old) if old else -1
    while at >= 0 and len(places) <= PLACES_LIMIT:
        places.append(at)
        at = text.find(old, at + 1)
    if not places:
        raise refuse_edit("no match", dialect, hint="view the note and copy the words as they are", old_str=said, path=path)
    if len(places) > 1:
        lines = [str(text.count("\n", 0, place) + 1) for place in places[:PLACES_LIMIT]]
        lines += ["…"] if len(places) > PLACES_LIMIT else []
        hint = "take in more of what stands around it"
        raise refuse_edit("several matches", dialect, hint=hint, old_str=said, lines=", ".join(lines))
    return places[0]


def _replace(note: NoteText, unified: UnifiedText, place: int, old: str, new: str) -> str:
    """Only what differs is replaced, so that lines which stand in both keep the ends that they have."""
    n_same = _count_same(old, new)
    n_same_after = _count_same(old[n_same:][::-1], new[n_same:][::-1])
    start = unified.raw_offset(place + n_same)
    end = unified.raw_offset(place + len(old) - n_same_after)
    middle = write_line_ends(new[n_same : len(new) - n_same_after], note.line_end)
    return join_texts(note.text[:start], middle, note.text[end:])


def _count_same(one: str, other: str) -> int:
    """How many characters the two have in common at their beginnings."""
    for at, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return at
    return min(len(one), len(other))


def _insert(note: NoteText, insert_line: int, text: str) -> str:
    """At the end of a note without final newline the text ends the note as it is, so that none is added unasked."""
    unified = UnifiedText(note.text)
    offset = _find_offset(unified.text, insert_line, count_lines(unified.text), "docs")
    lines = unify_line_ends(text)
    if unified.text and offset == len(unified.text) and not unified.text.endswith("\n"):
        lines = "\n" + (lines or "\n")
    else:
        lines = lines.removesuffix("\n") + "\n"
    raw = unified.raw_offset(offset)
    return join_texts(note.text[:raw], write_line_ends(lines, note.line_end), note.text[raw:])


def _insert_as_sdk(note: NoteText, insert_line: int, text: str) -> str:
    ended = note.text if not note.text or note.text.endswith("\n") else f"{note.text}\n"
    offset = _find_offset(ended, insert_line, ended.count("\n"), "sdk")
    return "".join((ended[:offset], text.rstrip("\n"), "\n", ended[offset:]))


def _find_offset(text: str, insert_line: int, n_lines: int, dialect: Dialect) -> int:
    r"""Where the line after `insert_line` begins, if lines end at `\n`."""
    if not 0 <= insert_line <= n_lines:
        hint = "view the note to see its line numbers"
        raise refuse_edit("no such line", dialect, hint=hint, line=insert_line, n_lines=n_lines)
    offset = 0
    for _ in range(insert_line):
        offset = text.find("\n", offset) + 1 or len(text)
    return offset


def _make_snippet(lines: list[str], line: int, n_more: int) -> str:
    """The lines from `line` on that were changed, and some around them."""
    first, last = max(line - SNIPPET_CONTEXT_LINES, 1), min(line + n_more + SNIPPET_CONTEXT_LINES, len(lines))
    snippet = number_lines(lines, first, min(last, first + SNIPPET_LIMIT_LINES - 1))
    return snippet if last - first < SNIPPET_LIMIT_LINES else f"{snippet}\n…"
