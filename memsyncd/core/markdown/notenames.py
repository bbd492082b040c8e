"""Name notes as links do, and find the note that a link names.

A target is looked up as people write it: relative to the folder of the linking note, from the root,
as the end of a path without its suffix (`[[redis]]` for `.memories/redis.md`), as a title or alias,
and as the id at the beginning of a file's name. Of several notes that match, the one nearest to the
linking note is chosen, as Obsidian does.

Every name and every target has a key, under which names are stored: a link can only lead to a note
that has a name with the key of its target. So the links to a note are found by its keys.
"""

from __future__ import annotations

import difflib
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import lru_cache
from itertools import takewhile
from typing import Protocol

from memsyncd.core.notepath import NOTE_SUFFIXES

# The least ratio of `difflib` for a note that is suggested in place of a missing one.
_SIMILARITY = 0.6
# Targets that are remembered with what they name: all of a vault's would take 20 MB.
_MAX_FOUND = 4096
_ENCODED = re.compile("(?:%[0-9A-Fa-f]{2})+")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_BLOCK = re.compile(r"\(\([0-9a-f-]{36}\)\)")
# Of file names such as `200911172034 An idea.md` and `x7qk-an-idea.md`, the id.
_ID = re.compile(r"([0-9]{6,}|[a-z0-9]{3,})[-_ ].")
_LETTERS_OF_ID = 4
_DIGITS_OF_ID = 6
_MONTH = re.compile(r"\d{4}[-_]\d\d")
_DAY = re.compile(r"(\d{4})([-_]?)(\d\d)\2(\d\d)")
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()


# The path of a note and one of its names. The names of paths begin with a `/`, others do not.
NamedNote = tuple[str, str]


class NameIndex(Protocol):
    """Finds names by their keys."""

    def find_named(self, key: str) -> Sequence[NamedNote]:
        """The notes that have a name with this key."""
        ...

    def find_keys(self, initial: str) -> Iterable[str]:
        """The keys of paths that begin with this letter."""
        ...


class NameTable:
    """The names of notes, in memory: each with its key, the path and the name."""

    def __init__(self, named: Iterable[tuple[str, str, str]]) -> None:
        self._named: dict[str, list[NamedNote]] = {}
        self._initials: dict[str, dict[str, None]] = {}
        for key, path, name in named:
            self._named.setdefault(key, []).append((path, name))
            if name[:1] == "/":
                self._initials.setdefault(key[:1], {})[key] = None

    def find_named(self, key: str) -> Sequence[NamedNote]:
        return self._named.get(key, ())

    def find_keys(self, initial: str) -> Iterable[str]:
        return self._initials.get(initial, ())


class NoteNames:
    """The names of all notes, by which links name them."""

    def __init__(self, index: NameIndex) -> None:
        self._index = index
        self._named: dict[str, Sequence[NamedNote]] = {}
        self._found: dict[tuple[str, str, bool], str | None] = {}

    @classmethod
    def of(cls, notes: Iterable[tuple[str, str]]) -> NoteNames:
        """The names of notes with these paths and titles."""
        return cls(
            NameTable(
                (make_key(name), path, name)
                for path, title in notes
                for name in list_names(path, title)
            )
        )

    def find(self, source: str, target: str, *, is_path: bool = False) -> str | None:
        """The path of the note that the note `source` calls `target`; None if there is none.

        With `is_path`, a target is a path and nothing else.
        """
        if not target:
            return source
        folder = source.rpartition("/")[0]
        key = folder, target, is_path
        if key not in self._found:  # the notes of a folder repeat their links
            if len(self._found) >= _MAX_FOUND:
                self._found.clear()
            self._found[key] = self._find(folder, target, is_path=is_path)
        return self._found[key]

    def find_similar(self, target: str) -> str | None:
        """The path of the note with the most similar name; None if none is similar."""
        name = make_key(target)
        known = self._index.find_keys(name[:1]) if name else ()
        near = difflib.get_close_matches(name, known, n=1, cutoff=_SIMILARITY)
        named = self._look_up(near[0]) if near else ()
        return min((path for path, of_path in named if of_path[:1] == "/"), default=None)

    def _find(self, folder: str, target: str, *, is_path: bool) -> str | None:
        named = self._look_up(make_key(target))
        if not named:
            return None
        paths = {path for path, _ in named}
        texts = dict.fromkeys((target, decode_target(target)))
        found = next(filter(None, (_find_path(folder, text, paths) for text in texts)), None)
        if found or is_path:
            return found
        return next(filter(None, (_find_name(folder, text, named) for text in texts)), None)

    def _look_up(self, key: str) -> Sequence[NamedNote]:
        if key not in self._named:
            if len(self._named) >= _MAX_FOUND:
                self._named.clear()
            self._named[key] = self._index.find_named(key)
        return self._named[key]


def list_names(path: str, title: str, others: Iterable[str] = ()) -> tuple[str, ...]:
    """The names of a note, each once: that of its path, its title and `others`, folded.

    A day in place of a name is also a name in the form of Logseq's journals; an id that begins a
    file's name is one without the rest.
    """
    name = _cut_suffixes(_spell_out(path)).rpartition("/")[2]
    texts = (title, *others, *_list_days(name), *_list_ids(name, title))
    folded = (_fold(text.strip().lstrip("/")) for text in texts)
    return tuple(dict.fromkeys((make_path_name(path), *filter(None, folded))))


def make_path_name(path: str) -> str:
    """The name that a note has by its path: folded, without suffixes, with a slash before it."""
    return f"/{_fold(_cut_suffixes(_spell_out(path)))}"


@lru_cache(maxsize=4096)
def make_key(text: str) -> str:
    """The last part of a name or target, folded, without suffixes; that of a reference to a block
    is the reference.
    """
    if text[:2] == "((":
        return text.lower()
    last = _spell_out(text).replace("\\", "/").strip("/ ").rpartition("/")[2]
    if last in (".", ".."):
        return _make_end(text).rpartition("/")[2].strip()
    return _fold(_cut_suffixes(last)).strip()


def is_block_reference(target: str) -> bool:
    """True for Logseq's `((uuid))`, which names a block of any note."""
    return target[:2] == "((" and bool(_BLOCK.fullmatch(target.lower()))


def decode_target(target: str) -> str:
    """The target with its escaped signs and percent-encoded bytes decoded."""
    if "\\" in target:
        target = _ESCAPED.sub(r"\1", target)
    if "%" not in target:
        return target
    return _ENCODED.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"), target
    )


def leads_outside(source: str, target: str) -> bool:
    """True if a target leads from the note `source` out of the workspace."""
    folder, written = source.rpartition("/")[0], decode_target(target).replace("\\", "/")
    return f"{posixpath.normpath(posixpath.join(folder, written))}/".startswith("../")


def _list_days(name: str) -> Iterator[str]:
    found = _DAY.fullmatch(name)
    if not found:
        return
    year, month, day = int(found[1]), int(found[3]), int(found[4])
    try:
        yield date(year, month, day).isoformat()
    except ValueError:
        return
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day // 10 != 1 else 0, "th")
    yield f"{_MONTHS[month - 1]} {day}{ending}, {year}"


def _list_ids(name: str, title: str) -> Iterator[str]:
    """The id that begins a file's name. The first word of a title is none."""
    found = _ID.match(name)
    if not found:
        return
    first = found[1]
    if len(first) == _LETTERS_OF_ID or any(map(str.isdigit, first)):
        is_day = first.isdecimal() and _MONTH.match(name)
        is_long = first.isdecimal() and len(first) >= _DIGITS_OF_ID
        if is_long or (title and not is_day and not _fold(title).startswith(first)):
            yield first


def _find_path(folder: str, target: str, paths: set[str]) -> str | None:
    written = target.replace("\\", "/")
    for base in ("",) if written.startswith("/") else (folder, ""):
        path = posixpath.normpath(posixpath.join(base, written.lstrip("/")))
        for suffix in ("", *NOTE_SUFFIXES):
            if path + suffix in paths:
                return path + suffix
    return None


def _find_name(folder: str, target: str, named: Sequence[NamedNote]) -> str | None:
    end, title = f"/{_make_end(target)}", _fold(target.strip())
    matching = [path for path, name in named if name[:1] == "/" and name.endswith(end)]
    matching = matching or [path for path, name in named if name == title]
    return min(matching, key=lambda path: _distance(folder, path), default=None)


def _make_end(target: str) -> str:
    """A target as the end of a path: folded, without suffix and the steps up at its start."""
    path = _spell_out(target).replace("\\", "/").strip("/ ")
    if "/" in path or path[:1] == ".":
        path = posixpath.normpath(path)
        while path.startswith("../"):
            path = path[3:]
    return _fold(_cut_suffixes(path))


def _spell_out(path: str) -> str:
    """A path with Logseq's signs for a slash, and encoded characters, as what they stand for."""
    return decode_target(path).replace("___", "/")


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text).casefold()


def _cut_suffixes(path: str) -> str:
    while path.lower().endswith(NOTE_SUFFIXES):
        path = path[: path.rindex(".")]
    return path


def _distance(folder: str, path: str) -> tuple[int, int, str]:
    """How many folders lie between a folder and a note; of equals the shorter path is nearer."""
    one, other = [*filter(None, folder.split("/"))], path.split("/")[:-1]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return len(one) + len(other) - 2 * sum(1 for _ in same), len(path), path
