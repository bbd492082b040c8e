"""Find the links, tags, fields and names of blocks in a note's prose, in the syntax of markdown,
Obsidian, Logseq, zk and Foam; and find the note that a link's target names.

These are links:

- `[[note]]`, `[[note#heading]]`, `[[note#^block]]` and `[[note|shown]]`
- markdown links to notes, relative or from the root
- Logseq's `((uuid))`
- references whose link reference definition leads to a note
- typed links: a list item that consists of a lower-case word and a link,
  `- resolved_by [[redis-timeouts]]`; in a to-do, `- [ ] call [[anna]]`, the word is no type

A link after a `!`, or in `{{embed …}}`, embeds the note. Tags are `#words`; colours (`#fff`),
numbers (`#12`), fragments of addresses and heading marks are no tags. Fields are `key:: value`, on
a line of their own or in brackets. Code is skipped. In front matter only `[[note]]` is a link, as
in Obsidian's properties: `up: "[[note]]"`.
"""

from __future__ import annotations

import difflib
import posixpath
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import NamedTuple, Protocol

import msgspec

from memsyncd.core.markdown.scanner import (
    CODE,
    FENCE,
    FRONT_MATTER,
    ITEM,
    QUOTE,
    Block,
)
from memsyncd.core.model import NAME_LINK, PATH_LINK
from memsyncd.core.paths import NOTE_SUFFIXES

# A note is suggested in place of a missing one only above this ratio of `difflib`.
_SIMILARITY = 0.6
# How many targets are remembered with the note that they name. All targets of a vault would take
# 20 MB.
_MAX_REMEMBERED = 4096
_ENCODED = re.compile("(?:%[0-9A-Fa-f]{2})+")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_BLOCK = re.compile(r"\(\([0-9a-f-]{36}\)\)")
# The id at the beginning of a file name: `200911172034 An idea.md`, `x7qk-an-idea.md`.
_ID = re.compile(r"([0-9]{6,}|[a-z0-9]{3,})[-_ ].")
_LETTERS_OF_ID = 4
_DIGITS_OF_ID = 6
_MONTH = re.compile(r"\d{4}[-_]\d\d")
_DAY = re.compile(r"(\d{4})([-_]?)(\d\d)\2(\d\d)")
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()


# The path of a note and one of its names. Only a name that is made of the path begins with a `/`.
NamedNote = tuple[str, str]


class NameIndex(Protocol):
    """Finds names by their keys."""

    def find_named(self, key: str) -> Sequence[NamedNote]:
        """The notes that have a name with this key."""
        ...

    def find_keys(self, key: str) -> Iterable[str]:
        """The keys of names that are made of paths and begin with the same letter as this key: of
        many such keys, its neighbours in the alphabet.
        """
        ...


class NameTable:
    """A `NameIndex` in memory. It is made of triples: a key, the path of the note, and the name."""

    def __init__(self, named: Iterable[tuple[str, str, str]]) -> None:
        self._named: dict[str, list[NamedNote]] = {}
        self._initials: dict[str, dict[str, None]] = {}
        for key, path, name in named:
            self._named.setdefault(key, []).append((path, name))
            if name[:1] == "/":
                self._initials.setdefault(key[:1], {})[key] = None

    def find_named(self, key: str) -> Sequence[NamedNote]:
        return self._named.get(key, ())

    def find_keys(self, key: str) -> Iterable[str]:
        return self._initials.get(key[:1], ())


class NoteNames:
    """Find the note that a link's target names. It remembers the targets it has looked up."""

    def __init__(self, index: NameIndex) -> None:
        self._index = index
        self._named: dict[str, Sequence[NamedNote]] = {}
        self._resolved: dict[tuple[str, str, bool], Sequence[str]] = {}

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
        """The path of the note that a link to `target` in the note `source` leads to; None if there
        is none. An empty target leads to `source` itself.

        With `is_path`, the target can only be a path.
        """
        paths = self.find_candidates(source, target, is_path=is_path) if target else (source,)
        return paths[0] if paths else None

    def find_candidates(self, source: str, target: str, *, is_path: bool = False) -> Sequence[str]:
        """The paths of the notes to which a link to `target` in the note `source` may lead, the
        nearest first: `find` takes the first. A target that is a path has one candidate.
        """
        folder = source.rpartition("/")[0]
        key = folder, target, is_path
        if key not in self._resolved:  # the notes of a folder repeat their links
            if len(self._resolved) >= _MAX_REMEMBERED:
                self._resolved.clear()
            self._resolved[key] = self._find(folder, target, is_path=is_path)
        return self._resolved[key]

    def count_others(self, source: str, target: str, kind: str) -> int:
        """How many further notes have the name to which a link leads; 0 if none has it."""
        is_path = kind == PATH_LINK
        paths = self.find_candidates(source, target, is_path=is_path) if target else ()
        return max(0, len(paths) - 1)

    def find_all(self, name: str) -> list[str]:
        """The paths of the notes with a name that a user wrote: the end of a path, a title or an
        alias. The path itself, also without its suffix if it has a folder, is the name of this note
        alone.
        """
        named = self._look_up(make_key(name))
        paths = {path for path, _ in named}
        texts = (name, decode_target(name))
        exact = [text for text in texts if text in paths]
        if not exact and "/" in name:
            exact = [*filter(None, (_find_path("", text, paths) for text in texts))]
        return exact[:1] or sorted({path for text in texts for path in _list_named(text, named)})

    def find_similar(self, target: str) -> str | None:
        """The path of the note with the most similar name; None if none is similar."""
        name = make_key(target)
        keys = self._index.find_keys(name) if name else ()
        similar = difflib.get_close_matches(name, keys, n=1, cutoff=_SIMILARITY)
        named = self._look_up(similar[0]) if similar else ()
        return min((path for path, of_path in named if of_path[:1] == "/"), default=None)

    def _find(self, folder: str, target: str, *, is_path: bool) -> Sequence[str]:
        named = self._look_up(make_key(target))
        if not named:
            return ()
        paths = {path for path, _ in named}
        texts = dict.fromkeys((target, decode_target(target)))
        by_path = next(filter(None, (_find_path(folder, text, paths) for text in texts)), None)
        if by_path or is_path:
            return (by_path,) if by_path else ()
        return next(filter(None, (_find_named(folder, text, named) for text in texts)), ())

    def _look_up(self, key: str) -> Sequence[NamedNote]:
        if key not in self._named:
            if len(self._named) >= _MAX_REMEMBERED:
                self._named.clear()
            self._named[key] = self._index.find_named(key)
        return self._named[key]


def list_names(path: str, title: str, others: Iterable[str] = ()) -> tuple[str, ...]:
    """The names of a note, folded, each once: the name made of its path, its title, and `others`.

    If the file's name is a day, the day in the form of Logseq's journals is a name as well. If the
    file's name begins with an id, the id alone is a name as well.
    """
    name = _cut_suffixes(_spell_out(path)).rpartition("/")[2]
    texts = (title, *others, *_list_days(name), *_list_ids(name, title))
    folded = (fold_name(text.strip().lstrip("/")) for text in texts)
    return tuple(dict.fromkeys((make_path_name(path), *filter(None, folded))))


def make_path_name(path: str) -> str:
    """The name made of a note's path: a slash, then the folded path without suffixes."""
    return f"/{fold_name(_cut_suffixes(_spell_out(path)))}"


@lru_cache(maxsize=4096)
def make_key(text: str) -> str:
    """The key of a name or target: its last part, folded, without suffixes. The key of a reference
    to a block is the reference itself.
    """
    if text[:2] == "((":
        return text.lower()
    last = _spell_out(text).replace("\\", "/").strip("/ ").rpartition("/")[2]
    if last in (".", ".."):
        return _make_end(text).rpartition("/")[2].strip()
    return fold_name(_cut_suffixes(last)).strip()


def make_id_key(text: str) -> str:
    """The key of the id of a section; empty for a path or a block, which are no ids."""
    key = make_key(text)
    return "" if "/" in text or key[:1] in ("", "^", "(") else key


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
        lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), target
    )


def leads_outside(source: str, target: str) -> bool:
    """True if a target leads from the note `source` out of the workspace."""
    folder, written = source.rpartition("/")[0], decode_target(target).replace("\\", "/")
    return f"{posixpath.normpath(posixpath.join(folder, written))}/".startswith("../")


def _list_days(name: str) -> Iterator[str]:
    match = _DAY.fullmatch(name)
    if not match:
        return
    year, month, day = int(match[1]), int(match[3]), int(match[4])
    try:
        yield date(year, month, day).isoformat()
    except ValueError:
        return
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day // 10 != 1 else 0, "th")
    yield f"{_MONTHS[month - 1]} {day}{ending}, {year}"


def _list_ids(name: str, title: str) -> Iterator[str]:
    """Yield the id that begins a file's name, if there is one. The first word of the title is no
    id.
    """
    match = _ID.match(name)
    if not match:
        return
    first = match[1]
    if len(first) == _LETTERS_OF_ID or any(map(str.isdigit, first)):
        is_day = first.isdecimal() and _MONTH.match(name)
        is_long = first.isdecimal() and len(first) >= _DIGITS_OF_ID
        if is_long or (title and not is_day and not fold_name(title).startswith(first)):
            yield first


def _find_path(folder: str, target: str, paths: set[str]) -> str | None:
    written = target.replace("\\", "/")
    for base in ("",) if written.startswith("/") else (folder, ""):
        path = posixpath.normpath(posixpath.join(base, written.lstrip("/")))
        for suffix in ("", *NOTE_SUFFIXES):
            if path + suffix in paths:
                return path + suffix
    return None


def _find_named(folder: str, target: str, named: Sequence[NamedNote]) -> Sequence[str]:
    end, title = f"/{_make_end(target)}", fold_name(target.strip())
    matching = [path for path, name in named if name[:1] == "/" and name.endswith(end)]
    matching = matching or [path for path, name in named if name == title]
    return sorted({*matching}, key=lambda path: _distance(folder, path))


def _list_named(target: str, named: Sequence[NamedNote]) -> list[str]:
    end, title = f"/{_make_end(target)}", fold_name(target.strip())
    return [
        path for path, name in named if name == title or (name[:1] == "/" and name.endswith(end))
    ]


def _make_end(target: str) -> str:
    """A target as the end of a path: folded, without suffix, without `../` at its start."""
    path = _spell_out(target).replace("\\", "/").strip("/ ")
    if "/" in path or path[:1] == ".":
        path = posixpath.normpath(path)
        while path.startswith("../"):
            path = path[3:]
    return fold_name(_cut_suffixes(path))


def _spell_out(path: str) -> str:
    """Decode a path: Logseq's `___` is a slash, and encoded characters are decoded."""
    return decode_target(path).replace("___", "/")


def fold_name(text: str) -> str:
    """The text without a difference of case, or of how its accents are encoded."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text).casefold()


def _cut_suffixes(path: str) -> str:
    while path.lower().endswith(NOTE_SUFFIXES):
        path = path[: path.rindex(".")]
    return path


def _distance(folder: str, path: str) -> tuple[int, int, str]:
    """A sort key: the number of folders between a folder and a note, then the shorter path."""
    parts, other_parts = [*filter(None, folder.split("/"))], path.split("/")[:-1]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(parts, other_parts, strict=False))
    return len(parts) + len(other_parts) - 2 * sum(1 for _ in same), len(path), path


TEXT_LIMIT_CHARS = 500

_WIKI = r"\[\[(?P<wiki>[^\[\]\n]{1,500})\]\]"
# Brackets that match, or are escaped, belong to an address.
_RELATIVE = (
    r"\]\([ \t]*(?:<(?P<angle>[^<>\n]{1,500})>"
    r"|(?P<plain>(?!\[\[)(?:\\[()]|\([^\s()<>]{0,100}\)|[^\s()<>]){1,500}+))"
)
_LINK = re.compile(f"{_WIKI}|{_RELATIVE}")
# The look-behind follows the `#`, so that the search can skip to the next `#`.
_TAG = re.compile(r"#(?<![^\s(\[{,;]#)([^\W\d_][\w/-]{0,99})")
_COLOUR = re.compile(r"[0-9a-fA-F]{3}(?:[0-9a-fA-F]{3})?|(?=[a-fA-F]*[0-9])(?:[0-9a-fA-F]{4}){1,2}")
_RELATION = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+([a-z][a-z0-9_]{0,63}):?[ \t]+\Z")
_AFTER_TYPED = re.compile(r"[ \t]*(?:\([^)\n]*\)[ \t]*)?\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_MAYBE_RELATIVE = re.compile(rf"\]\([ \t]*+<?+(?!{_SCHEME.pattern})")
_BACKTICKS = re.compile(r"`+")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}\Z")
_ATTACHMENT = re.compile(
    r"\.(?:avif|bmp|gif|jpe?g|png|svg|webp|ico|tiff?|heic|flac|m4a|mp3|ogg|opus|wav|3gp|mkv|mov|"
    r"mp4|ogv|webm|pdf|canvas|base|docx?|xlsx?|pptx?|odt|epub|zip|excalidraw|drawio)\Z",
    re.IGNORECASE,
)
# Suffixes of text files. A page may be named like such a file: `custom.css.md`.
_TEXT_FILE = re.compile(
    r"\.(?:csv|json|ya?ml|toml|html?|org|tex|edn|js|ts|css|py|sh)\Z", re.IGNORECASE
)
_TEMPLATE = re.compile(r"\{\{|<%|://")
_EMBEDDING = re.compile(r"(?:!|\{\{embed[ \t]+)\Z", re.IGNORECASE)
# `note^block`; `note#^block` has its mark behind a `#`.
_BLOCK_PART = re.compile(r"(.*)\^([A-Za-z0-9-]+)\Z")
_OUTLINE = re.compile(r"\t+[-*] ")
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_BLOCK_REFERENCE = re.compile(rf"\(\(({_UUID})\)\)")
# The name of a block at its end, and Logseq's property that names one.
_BLOCK_NAME = re.compile(r"\^(?<![^\s]\^)([A-Za-z0-9-]{1,100})[ \t]*$", re.MULTILINE)
_BLOCK_ID = re.compile(rf"[ \t]*(?:[-*+][ \t]+)?id::[ \t]+({_UUID})[ \t]*")
# A link reference definition that may lead to a note. `[^1]:` is a footnote.
_DEFINES = re.compile(rf"\]:[ \t]++<?+(?!{_SCHEME.pattern}|#)\S")
_DEFINITION = re.compile(
    rf" {{0,3}}\[(?!\^)([^\[\]\n]{{1,200}})\]:[ \t]++(?!<?{_SCHEME.pattern}|#)"
    r"(?:<([^<>\n]{1,500})>|([^\s<>]{1,500}))"
)
_REFERENCE = re.compile(r"\[([^\[\]\n]{1,200})\](?:\[([^\[\]\n]{1,200})\])?(?![(:\[])")
# Matches the inside of a YAML list, and seldom the name of a note.
_IN_LIST = re.compile(r",|\A[\d. ]+\Z")
_KEY = r"[^\W\d_][\w /-]{0,48}"
_FIELD = re.compile(
    rf"[ \t>]*(?:(?:[-*+]|\d{{1,9}}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?"
    rf"(?:\*\*|__)?({_KEY})(?:\*\*|__)?::[ \t]+(\S.*)"
)
_FIELD_IN_BRACKETS = re.compile(
    rf"\[({_KEY})::[ \t]+((?:[^\[\]]|\[\[[^\[\]]*\]\]|\[[^\[\]]*\]){{0,500}})\]"
    rf"|\(({_KEY})::[ \t]+([^()]{{0,500}})\)"
)
_FIELD_LIMIT = 200
_TAG_LIMIT = 100


class Mention(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A link, a tag, a field or the name of a block on a line (1-based).

    A tag has only `tag`, a field only `field`, the name of a block only `block`. A link within its
    own note has an empty `target`. `kind` has the values of `Link.kind`.
    """

    line: int
    target: str = ""
    heading: str = ""
    relation: str = ""
    kind: str = "link"
    tag: str = ""
    block: str = ""
    field: tuple[str, str] | None = None

    @property
    def is_link(self) -> bool:
        return not self.tag and not self.block and self.field is None


# The targets of link reference definitions, by label in lower case.
Definitions = Mapping[str, str]


class LinkTarget(NamedTuple):
    """The target of a link as it is written, without query, heading and label.

    `start` and `end` are offsets in the note's text. `is_encoded`: the target is in a markdown link
    without `<>`, where some characters must be percent-encoded. `is_path`: the target has no suffix
    or begins with a slash, and can only be a path. `is_property`: the target is in front matter.
    """

    start: int
    end: int
    text: str
    is_wiki: bool
    is_encoded: bool
    is_path: bool
    is_property: bool = False


def find_link_targets(
    text: str, lines: Sequence[str], blocks: Sequence[Block]
) -> Iterator[LinkTarget]:
    """The targets of the links in the blocks, in order, without links within their own note."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    mentions = find_mentions(text, lines, blocks)
    places = {mention.line - 1 for mention in mentions if mention.is_link}
    defined = dict(_list_definitions(text))
    is_fronted = bool(blocks) and blocks[0].kind == FRONT_MATTER
    for at in sorted(places | defined.keys()):
        line = lines[at]
        if is_fronted and at < blocks[0].end:
            yield from _list_property_targets(line, at, starts[at])
            continue
        if at in defined:
            yield _make_defined_target(defined[at], starts[at])
            continue
        prose = _blank_out(line, _find_code_spans(line)) if "`" in line else line
        for match in _LINK.finditer(prose):
            mention = _make_link(line, at + 1, match, {})
            if mention is None or not mention.target:
                continue
            group_name = match.lastgroup or ""
            start = starts[at] + line.index(mention.target, match.start(group_name))
            yield LinkTarget(
                start=start,
                end=start + len(mention.target),
                text=mention.target,
                is_wiki=group_name == "wiki",
                is_encoded=group_name == "plain",
                is_path=mention.kind == PATH_LINK,
            )


def _list_property_targets(line: str, at: int, offset: int) -> Iterator[LinkTarget]:
    for mention, match in _find_in_property(line, at + 1):
        if mention.target:
            start = offset + line.index(mention.target, match.start("wiki"))
            yield LinkTarget(
                start=start,
                end=start + len(mention.target),
                text=mention.target,
                is_wiki=True,
                is_encoded=False,
                is_path=False,
                is_property=True,
            )


def _make_defined_target(definition: re.Match[str], offset: int) -> LinkTarget:
    group = 2 if definition[2] is not None else 3
    text, _ = _split_address(definition[group])
    start = offset + definition.start(group)
    is_path = _may_lead_elsewhere(text)
    return LinkTarget(
        start, start + len(text), text, is_wiki=False, is_encoded=group == 3, is_path=is_path
    )


def find_definitions(text: str) -> Definitions:
    """The link reference definitions of a note that may lead to a note."""
    definitions: dict[str, str] = {}
    for _, definition in _list_definitions(text):
        definitions.setdefault(definition[1].lower(), definition[2] or definition[3])
    return definitions


def _list_definitions(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield the index of the line of each definition, and the match."""
    sign = text.find("]:") if _DEFINES.search(text) else -1
    n_lines = counted = 0
    while sign >= 0:
        start, end = text.rfind("\n", 0, sign) + 1, text.find("\n", sign)
        end = end if end >= 0 else len(text)
        match = _DEFINITION.match(text[start:end])
        if match and _is_note_path(_split_address(match[2] or match[3])[0]):
            n_lines, counted = n_lines + text.count("\n", counted, start), start
            yield n_lines, match
        sign = text.find("]:", end)


# A `?` that belongs to the name is escaped.
_QUERY_MARK = re.compile(r"(?<!\\)\?")


def _split_address(address: str) -> tuple[str, str]:
    """The path and the fragment of a markdown link's address, without a query."""
    path, _, fragment = address.partition("#")
    mark = _QUERY_MARK.search(path)
    before = path[: mark.start()] if mark else ""
    is_name = path.lower().endswith(NOTE_SUFFIXES) and not before.lower().endswith(NOTE_SUFFIXES)
    return (before if before and not is_name else path), fragment


def _may_lead_elsewhere(target: str) -> bool:
    """True for a path that may lead to something else than a note: it has no suffix of a note, or
    it begins at a root, which may be the root of a site or a disk.
    """
    return target.startswith("/") or not target.lower().endswith(NOTE_SUFFIXES)


def _is_note_path(target: str) -> bool:
    """True for a path with the suffix of a note, or with no suffix. A path from the root without a
    suffix leads to a page of a site.
    """
    is_page = target.startswith("/") or _SUFFIX.search(target)
    return target.lower().endswith(NOTE_SUFFIXES) or not is_page


def find_mentions(text: str, lines: Sequence[str], blocks: Sequence[Block]) -> list[Mention]:
    """All mentions in the blocks, in order of lines.

    `text` is the whole note. It is searched first, because most texts have no mentions.
    """
    definitions = find_definitions(text)
    if not definitions and not _may_mention(text):
        return []
    # The blocks may be a small part of a large note.
    start, end = (blocks[0].start, blocks[-1].end) if blocks else (0, 0)
    numbered = enumerate(lines[start:end], start)
    if definitions or _may_have_names(text):  # few notes
        # Most lines have none of these signs.
        places = [
            at
            for at, line in numbered
            if (
                "[" in line
                or "](" in line
                or "#" in line
                or "^" in line
                or "::" in line
                or "((" in line
            )
            and _may_mention_or_refer(definitions, line)
        ]
    else:
        places = [
            at
            for at, line in numbered
            if ("#" in line or "](" in line or "[[" in line) and _may_link(line)
        ]
    mentions: list[Mention] = []
    for block, in_block in _group_by_block(blocks, places) if places else ():
        if _is_prose(lines, block):
            is_fencing = block.kind in (ITEM, QUOTE, CODE)
            of_block = _leave_out_fences(lines, block, in_block) if is_fencing else in_block
            if block.kind == FRONT_MATTER:
                for at in of_block:
                    mentions += (mention for mention, _ in _find_in_property(lines[at], at + 1))
                continue
            for at in of_block:
                mentions += _find_in_line(lines[at], at + 1, definitions)
    return mentions


def _group_by_block(
    blocks: Sequence[Block], places: Sequence[int]
) -> Iterator[tuple[Block, list[int]]]:
    """Yield the blocks that hold any of these lines, each with its lines. All are in order."""
    starts = [block.start for block in blocks]
    first = 0
    while first < len(places):
        at = bisect_right(starts, places[first]) - 1
        # A line between two blocks is in neither.
        end = blocks[at].end if at >= 0 else places[first]
        after = max(first + 1, bisect_left(places, end, first))
        if places[first] < end:
            yield blocks[at], [*places[first:after]]
        first = after


def _is_prose(lines: Sequence[str], block: Block) -> bool:
    """False for code. A Logseq outline, indented by tabs, is prose even if no list precedes it."""
    if block.kind == CODE:
        return bool(_OUTLINE.match(lines[block.start]))
    return block.kind != FENCE


def _may_mention_or_refer(definitions: Definitions, line: str) -> bool:
    return bool(definitions and "[" in line) or _may_mention(line)


def _may_mention(text: str) -> bool:
    """False if a text certainly has no link to a note, no tag, no field and no name of a block.

    Most links of a note lead to the web; this check is fast for them.
    """
    return _may_link(text) or _may_have_names(text)


def _may_link(text: str) -> bool:
    return (
        "[[" in text
        or ("](" in text and bool(_MAYBE_RELATIVE.search(text)))
        or ("#" in text and bool(_TAG.search(text)))
    )


def _may_have_names(text: str) -> bool:
    """False if a text has no field, no name of a block and no reference to a block."""
    return (
        # A search for a rare sign is fast.
        ("::" in text and ":: " in text)
        or ("((" in text and bool(_BLOCK_REFERENCE.search(text)))
        or ("^" in text and bool(_BLOCK_NAME.search(text)))
    )


def _leave_out_fences(lines: Sequence[str], block: Block, places: list[int]) -> list[int]:
    """The line indices of `places` that are in no fence within the block."""
    fence, fenced = "", set()
    for at in range(block.start, block.end):
        line = lines[at]
        if fence or "```" in line or "~~~" in line:
            fence, is_code = _follow_fence(line, fence)
            if is_code:
                fenced.add(at)
    return [at for at in places if at not in fenced] if fenced else places


def _follow_fence(line: str, fence: str) -> tuple[str, bool]:
    """Follow fences within a list item or quote. Returns the mark of the fence that is open after
    the line, and whether the line belongs to a fence.
    """
    mark = line.lstrip(" \t>-+*.)0123456789")
    run = mark[: len(mark) - len(mark.lstrip(mark[0]))] if mark[:3] in ("```", "~~~") else ""
    if not fence:
        is_opening = bool(run) and not (run[0] == "`" and "`" in mark[len(run) :])
        return (run, True) if is_opening else ("", False)
    is_closing = run.startswith(fence) and not mark[len(run) :].strip()
    return ("" if is_closing else fence), True


def _find_in_line(line: str, number: int, definitions: Definitions) -> Iterator[Mention]:
    prose = _blank_out(line, _find_code_spans(line)) if "`" in line else line
    links = list(_LINK.finditer(prose))
    for match in links:
        mention = _make_link(line, number, match, definitions)
        if mention:
            yield mention
            if match["wiki"] and line[: match.start()].endswith("#") and mention.target:
                yield Mention(line=number, tag=mention.target[:_TAG_LIMIT])
    if definitions or "((" in prose:
        yield from _find_references(_blank_links(prose, links), number, definitions)
    if ":: " in prose or "^" in prose:
        yield from _find_names(line, prose, number)
    if "#" not in prose:
        return
    for match in _TAG.finditer(_blank_links(prose, links)):
        tag = match[1].rstrip("-/")
        if not _COLOUR.fullmatch(tag):
            yield Mention(line=number, tag=tag)


def find_link_spans(line: str, number: int) -> Iterator[tuple[Mention, int, int]]:
    """Yield the links that stand in a line of prose, each with its offsets: from its first bracket
    to its last.
    """
    prose = _blank_out(line, _find_code_spans(line)) if "`" in line else line
    for match in _LINK.finditer(prose):
        mention = _make_link(line, number, match, {})
        if mention is None:
            continue
        start, end = match.span()
        if match["wiki"] is None:
            start = prose.rfind("[", 0, start)
            end = prose.find(")", end) + 1
        if start >= 0 and end > start:
            yield mention, start, end


def _find_in_property(line: str, number: int) -> Iterator[tuple[Mention, re.Match[str]]]:
    """Yield the links of a line of front matter. Without quotes `[[1, 2]]` is a YAML list."""
    if line.lstrip().startswith("#"):
        return
    for match in _LINK.finditer(line):
        if match["wiki"] is None:
            continue
        is_quoted = '"' in line[: match.start()] or "'" in line[: match.start()]
        mention = _make_wiki_link(line, number, match, {})
        if mention and (is_quoted or not _IN_LIST.search(match["wiki"])):
            yield msgspec.structs.replace(mention, relation=""), match


def _blank_links(prose: str, links: Sequence[re.Match[str]]) -> str:
    return _blank_out(prose, [link.span() for link in links]) if links else prose


def _find_references(prose: str, number: int, definitions: Definitions) -> Iterator[Mention]:
    """Yield references to blocks of any note, and links through a definition of this note."""
    for match in _BLOCK_REFERENCE.finditer(prose):
        yield Mention(line=number, target=match[0].lower(), kind=_find_kind(prose, match.start()))
    for match in _REFERENCE.finditer(prose) if definitions else ():
        target = definitions.get((match[2] or match[1]).lower())
        if target:
            yield _make_path_link(number, target)


def _find_names(line: str, prose: str, number: int) -> Iterator[Mention]:
    """Yield the fields of a line, and the name of the block that ends with the line."""
    named = _BLOCK_ID.fullmatch(prose)
    if named:
        yield Mention(line=number, block=f"(({named[1].lower()}))")
        return
    of_block = _BLOCK_NAME.search(prose) if "^" in prose else None
    if of_block:
        yield Mention(line=number, block=f"^{of_block[1].lower()}")
    if ":: " not in prose:
        return
    field = _FIELD.match(prose)
    if field:
        yield _make_field(line, number, field, 1)
        return
    for match in _FIELD_IN_BRACKETS.finditer(prose):
        yield _make_field(line, number, match, 1 if match[1] else 3)


def _make_field(line: str, number: int, match: re.Match[str], group: int) -> Mention:
    """Make a field: its key is in `group`, its value in the next group. `line` still has the code
    spans that the match does not see.
    """
    value = line[match.start(group + 1) : match.end(group + 1)].strip()
    return Mention(line=number, field=(match[group].strip(), value[:_FIELD_LIMIT]))


def _make_link(
    line: str, number: int, match: re.Match[str], definitions: Definitions
) -> Mention | None:
    wiki = match["wiki"]
    if wiki is not None:
        return _make_wiki_link(line, number, match, definitions)
    written = (match["angle"] or match["plain"]).strip()
    if not written or _SCHEME.match(written):
        return None
    target, _ = _split_address(written)
    return _make_path_link(number, written) if not target or _is_note_path(target) else None


def _make_wiki_link(
    line: str, number: int, match: re.Match[str], definitions: Definitions
) -> Mention | None:
    # In a table the `|` before a label is escaped.
    written = match["wiki"].partition("|")[0].rstrip("\\").strip()
    if definitions and written.lower() in definitions:
        return _make_path_link(number, definitions[written.lower()])
    target, _, heading = written.partition("#")
    block = _BLOCK_PART.fullmatch(target) if "^" in target and not heading else None
    if block:
        target, heading = block[1], f"^{block[2]}"
    if not (target or heading) or _ATTACHMENT.search(target) or _TEMPLATE.search(target):
        return None
    kind = _find_kind(line, match.start())
    if _TEXT_FILE.search(target):
        if kind == "embed":
            return None
        kind = NAME_LINK
    return Mention(
        line=number,
        target=target.strip(),
        heading=heading.strip(),
        relation=_find_relation(line, match),
        kind=kind,
    )


def _make_path_link(number: int, written: str) -> Mention:
    target, heading = _split_address(written)
    kind = PATH_LINK if target and _may_lead_elsewhere(target) else "link"
    return Mention(line=number, target=target, heading=heading, kind=kind)


def _find_kind(line: str, start: int) -> str:
    return "embed" if start and _EMBEDDING.search(line, max(0, start - 10), start) else "link"


def _find_relation(line: str, match: re.Match[str]) -> str:
    before = _RELATION.match(line[: match.start()]) if match.start() <= TEXT_LIMIT_CHARS else None
    return before[1] if before and _AFTER_TYPED.match(line[match.end() :]) else ""


def _find_code_spans(line: str) -> list[tuple[int, int]]:
    """The code spans of a line: each extends from a run of backticks to the next run of the same
    length.
    """
    runs = [match.span() for match in _BACKTICKS.finditer(line)]
    next_alike: list[int] = [0] * len(runs)
    latest: dict[int, int] = {}
    for at in range(len(runs) - 1, -1, -1):
        length = runs[at][1] - runs[at][0]
        next_alike[at] = latest.get(length, 0)
        latest[length] = at
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(runs):
        closing = next_alike[at]
        if closing:
            spans.append((runs[at][0], runs[closing][1]))
            at = closing
        at += 1
    return spans


def _blank_out(line: str, spans: Sequence[tuple[int, int]]) -> str:
    """The line with NULs in place of the spans. No decoded note contains a NUL."""
    chars: list[str] = []
    done = 0
    for start, end in spans:
        chars += (line[done:start], "\0" * (end - start))
        done = end
    return "".join((*chars, line[done:]))
