r"""Change the metadata of a section or a note where it is written, and no other byte.

A section's metadata is its `memory:` comment, a note's its front matter. The order of the keys,
their quotes, the other keys and the line ends stay. A new key is appended. A comment or front
matter in the form that this module writes is removed with its last key, so that setting a key and
removing it gives the same bytes:

    ## Retries                                    ## Retries
    Three times.          status=done →           <!-- memory: {status: done} -->
                                                  Three times.

The new text is read again: if its metadata differs from the expected metadata, or any other section
differs, the note is refused and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from memsyncd.core.editing.additions import quote_value, quote_values
from memsyncd.core.editing.sections import (
    NoteText,
    find_heading_end,
    find_sections_bytes,
    open_text,
    unify_line_ends,
)
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import (
    YamlEntry,
    YamlItem,
    YamlMapping,
    distinct_tags,
    find_entries,
    find_front_matter,
    find_section_meta,
    list_tags,
    parse_meta,
)
from memsyncd.core.markdown.scanner import HEADING, HTML, split_blocks
from memsyncd.core.model import OTHER_KEYS, Meta, Problem
from memsyncd.core.paths import is_plain
from memsyncd.errors import EditRefused, NoteNotFound

_COMMENT = re.compile(
    r"(?P<before>(?:[ \t]*(?:\r\n|\r|\n))*[ \t]*<!--\s*memory:\s*)(?P<yaml>.*?)\s*-->", re.DOTALL
)
_OWN_COMMENT = re.compile(r"<!-- memory: \{\} -->(?:\r\n|\r|\n|\Z)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_ITEM = re.compile(r"[ \t]*-[ \t]+")
_FENCE: Final = "---"
_HINT: Final = "correct its metadata, or change it with your editor"


class WordsChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a list of words: `only`, unless None, replaces the list; then `remove` is removed
    and `add` is added. Words are compared without case.
    """

    only: tuple[str, ...] | None = None
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()

    def apply(self, words: Sequence[str]) -> tuple[str, ...]:
        kept = words if self.only is None else self.only
        gone = {word.casefold() for word in distinct_tags(self.remove)}
        return tuple(
            word for word in distinct_tags((*kept, *self.add)) if word.casefold() not in gone
        )


KeyChange = str | WordsChange
"""The new value of a key as text, empty to remove the key; or the change of its list."""


def change_comment(path: str, data: bytes, anchor: str, changes: Mapping[str, KeyChange]) -> bytes:
    """Return the note with these keys changed in the comment of one section.

    Raises NoteNotFound without this section, EditRefused for a section without a heading, or with a
    comment in a form that cannot be changed.
    """
    note = open_text(path, data)
    place = find_sections_bytes(path, data).get(anchor)
    if place is None:
        hint = "list sections with: memsyncd list --sections"
        raise NoteNotFound(f"no section {anchor}", hint=hint)
    own = data[slice(*place)]
    head = find_heading_end(path, own)
    if head is None:
        hint = f"name the note, {path}, to change its front matter"
        raise EditRefused(f"{anchor} has no heading with metadata below it", hint=hint)
    at = len(_decode(own[:head]))
    changed = _change_own(anchor, _decode(own), at, changes, note.line_end)
    written = data[: place[0]] + _encode(changed) + data[place[1] :]
    _check_meta(anchor, _read_own(path, own), _read_own(path, _encode(changed)), changes)
    check_others(path, data, written, anchor)
    return written


def read_section_meta(path: str, data: bytes, anchor: str) -> Meta:
    """Return the metadata that a section states itself; empty without such a section."""
    place = find_sections_bytes(path, data).get(anchor, (0, 0))
    return _read_own(path, data[slice(*place)])[0]


def change_front_matter(path: str, data: bytes, changes: Mapping[str, KeyChange]) -> bytes:
    """Return the note with these keys of its front matter changed; a note without front matter gets
    some.

    Raises EditRefused for front matter in a form that cannot be changed.
    """
    note = open_text(path, data)
    if is_plain(path):
        raise EditRefused(f"{path} is no markdown, and states nothing", hint="name a note of .md")
    before = _read_front(path, note)
    raw = _LINE.findall(note.text)
    n_front = before[2]
    # The line ends of the fences, and the last line end of the keys, are no part of the YAML.
    inner = "".join(raw[1 : n_front - 1]) if n_front else ""
    end = re.search(r"(?:\r\n|\r|\n)?\Z", inner)
    assert end is not None
    yaml, closing = inner[: end.start()], end[0] or note.line_end
    changed = _change_yaml(path, yaml, changes, note.line_end)
    if changed == yaml:
        return data
    if n_front:
        rest = "".join(raw[n_front:])
        fences = raw[0], raw[n_front - 1]
        text = f"{fences[0]}{changed}{closing}{fences[1]}{rest}" if changed else rest
    else:
        fence = f"{_FENCE}{note.line_end}"
        text = f"{fence}{changed}{closing}{fence}{note.text}"
    written = note.to_bytes(text)
    _check_meta(path, before, _read_front(path, open_text(path, written)), changes)
    check_others(path, data, written, f"{path}#")
    return written


def read_note_meta(path: str, data: bytes) -> Meta:
    """Return the metadata that a note's front matter and properties state."""
    return find_front_matter(path, decode_note(path, data).lines).meta


_Read = tuple[Meta, Sequence[Problem], int]
"""Stated metadata, the problems of its text, and its lines."""


def _read_own(path: str, own: bytes) -> _Read:
    lines = decode_note(path, own).lines
    blocks = split_blocks(lines)
    if blocks and blocks[0].kind == HEADING:
        blocks = blocks[1:]
    if not blocks or blocks[0].kind != HTML:
        return Meta(), (), 0
    return *find_section_meta(path, lines, blocks[0].start, len(lines)), 0


def _read_front(path: str, note: NoteText) -> _Read:
    front = find_front_matter(path, decode_note(path, note.to_bytes(note.text)).lines)
    return front.meta, front.problems, front.n_lines


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# --- the comment of a section -------------------------------------------------------------------


def _change_own(
    anchor: str, own: str, head: int, changes: Mapping[str, KeyChange], line_end: str
) -> str:
    comment_match = _COMMENT.match(own, head)
    blocks = split_blocks(unify_line_ends(own).split("\n"))
    # A comment that is indented so far that it is code counts as text.
    if comment_match is None or blocks[1].kind != HTML:
        yaml = _change_yaml(anchor, "{}", changes, line_end)
        if yaml == "{}":
            return own
        # Without blanks in its braces, the comment is removed with its last key.
        comment = f"<!-- memory: {{{yaml[1:-1].strip()}}} -->"
        is_ended = own[:head].endswith(("\n", "\r"))
        added = f"{comment}{line_end}" if is_ended else f"{line_end}{comment}"
        return own[:head] + added + own[head:]
    yaml = _change_yaml(anchor, comment_match["yaml"], changes, line_end)
    changed = own[: comment_match.start("yaml")] + yaml + own[comment_match.end("yaml") :]
    gone = _OWN_COMMENT.match(changed, head)
    if (
        gone is None
        or yaml == comment_match["yaml"]
        or own[comment_match.start("yaml") :][:2] == "{ "
    ):
        return changed
    # The comment may have been added below the last line of a note that ends without a newline.
    is_last = not gone[0].endswith(("\n", "\r"))
    return own[:head].rstrip("\r\n") if is_last else changed[:head] + changed[gone.end() :]


# --- YAML ---------------------------------------------------------------------------------------


def _change_yaml(name: str, yaml: str, changes: Mapping[str, KeyChange], line_end: str) -> str:
    for key, change in changes.items():
        try:
            mapping = find_entries(yaml)
        except ValueError as error:
            raise EditRefused(f"the metadata of {name} is {error}", hint=_HINT) from error
        entries = [entry for entry in mapping.entries if _fold(entry.key) == key.lower()]
        if isinstance(change, WordsChange):
            words = change.apply(_read_words(entries[0]) if entries else ())
            yaml = _write_words(yaml, mapping, entries, key, words, line_end)
        elif not change:
            yaml = _remove(yaml, mapping, entries)
        elif entries:
            yaml = _replace(yaml, entries[0], _quote_as(entries[0].style, change))
        else:
            yaml = _append(yaml, mapping, f"{key}: {quote_value(change)}", line_end)
    return yaml


def _fold(key: str) -> str:
    name = key.lower()
    return OTHER_KEYS.get(name, name)


def _quote_as(style: str, text: str) -> str:
    """Return a value in the quotes of the former value, if these can hold it."""
    value = quote_value(text)
    if value.startswith('"'):
        is_plain_text = all(" " <= char <= "~" for char in text) and "-->" not in text
        return (
            f"'{text.replace(chr(39), chr(39) * 2)}'" if style == "'" and is_plain_text else value
        )
    return f"{style}{value}{style}" if style in ("'", '"') else value


def _replace(yaml: str, entry: YamlEntry, value: str) -> str:
    if not yaml[entry.value_start : entry.end].strip() or entry.style in ("block", "|", ">"):
        return f"{yaml[: entry.key_end]}: {value}{yaml[entry.end :]}"
    return yaml[: entry.value_start] + value + yaml[entry.end :]


def _append(yaml: str, mapping: YamlMapping, pair: str, line_end: str) -> str:
    if mapping.is_flow:
        if not mapping.entries:
            return f"{{ {pair} }}"
        end = mapping.entries[-1].end
        return f"{yaml[:end]}, {pair}{yaml[end:]}"
    if not yaml:
        return pair
    first = mapping.entries[0].start if mapping.entries else 0
    indent = yaml[_find_line_start(yaml, first) : first]
    between = "" if yaml.endswith(("\n", "\r")) else line_end
    return f"{yaml}{between}{indent}{pair}"


def _remove(yaml: str, mapping: YamlMapping, entries: Sequence[YamlEntry]) -> str:
    for entry in reversed(entries):
        at = mapping.entries.index(entry)
        if not mapping.is_flow:
            yaml = _cut_lines(yaml, entry.start, entry.end)
        elif at:
            yaml = yaml[: mapping.entries[at - 1].end] + yaml[entry.end :]
        elif len(mapping.entries) > 1:
            yaml = yaml[: entry.start] + yaml[mapping.entries[1].start :]
        else:
            left = yaml[: entry.start] + yaml[entry.end :]
            yaml = "{}" if left.replace(" ", "") == "{}" else left
    return yaml


def _find_line_start(yaml: str, at: int) -> int:
    return max(yaml.rfind("\n", 0, at), yaml.rfind("\r", 0, at)) + 1


def _cut_lines(yaml: str, start: int, end: int) -> str:
    """Return the text without the lines from `start` to `end`; if they are the last lines, without
    the line end before them.
    """
    line_start = _find_line_start(yaml, start)
    rest = re.compile(r"[^\r\n]*(\r\n|\r|\n)?").match(yaml, end)
    assert rest is not None
    if rest[1] is not None:
        return yaml[:line_start] + yaml[rest.end() :]
    return re.sub(r"(?:\r\n|\r|\n)\Z", "", yaml[:line_start])


# --- lists of words -----------------------------------------------------------------------------


def _read_words(entry: YamlEntry) -> tuple[str, ...]:
    if entry.items is not None:
        return distinct_tags([item.text for item in entry.items])
    return distinct_tags(list_tags(entry.text))


def _write_words(
    yaml: str,
    mapping: YamlMapping,
    entries: Sequence[YamlEntry],
    key: str,
    words: Sequence[str],
    line_end: str,
) -> str:
    if not words:
        return _remove(yaml, mapping, entries)
    if not entries:
        return _append(yaml, mapping, f"{key}: {quote_values(words)}", line_end)
    entry = entries[0]
    before = _read_words(entry)
    if before == tuple(words):
        return yaml
    named = {word.casefold() for word in words}
    kept = [word for word in before if word.casefold() in named]
    if kept != list(words[: len(kept)]) or not kept or not entry.items:
        return _replace(yaml, entry, quote_values(words))
    gone = [item for item in entry.items if _fold_word(item) not in named]
    last = max(entry.items, key=lambda item: item.end)
    for word in reversed(words[len(kept) :]):
        yaml = _append_item(yaml, entry, last, quote_value(word), line_end)
    for item in reversed(gone):
        yaml = _remove_item(yaml, entry, item)
    return yaml


def _fold_word(item: YamlItem) -> str:
    return next(iter(distinct_tags([item.text])), "").casefold()


def _append_item(yaml: str, entry: YamlEntry, last: YamlItem, value: str, line_end: str) -> str:
    if entry.style == "flow":
        return f"{yaml[: last.end]}, {value}{yaml[last.end :]}"
    mark = _ITEM.match(yaml, _find_line_start(yaml, last.start))
    rest = re.compile(r"[^\r\n]*").match(yaml, last.end)
    assert rest is not None
    before = mark[0] if mark else "- "
    return f"{yaml[: rest.end()]}{line_end}{before}{value}{yaml[rest.end() :]}"


def _remove_item(yaml: str, entry: YamlEntry, item: YamlItem) -> str:
    assert entry.items is not None
    at = entry.items.index(item)
    if entry.style == "block":
        return _cut_lines(yaml, item.start, item.end)
    if at:
        return yaml[: entry.items[at - 1].end] + yaml[item.end :]
    return yaml[: item.start] + yaml[entry.items[1].start :]


# --- checks -------------------------------------------------------------------------------------


def _check_meta(name: str, before: _Read, after: _Read, changes: Mapping[str, KeyChange]) -> None:
    """Raise EditRefused unless the keys have their new values, and other keys the former values."""
    if (
        _normalize(after[0]) != _normalize(_expect(name, before[0], changes))
        or len(after[1]) > len(before[1])
    ):  # fmt: skip
        raise EditRefused(f"the metadata of {name} has another form", hint=_HINT)


def _expect(path: str, before: Meta, changes: Mapping[str, KeyChange]) -> Meta:
    pairs: dict[str, str] = {}
    for key, change in changes.items():
        if isinstance(change, str):
            pairs[key] = quote_value(change)
            continue
        extra = {name.lower(): value for name, value in before.extra}
        words = before.tags if key == "tags" else distinct_tags(list_tags(extra.get(key, "")))
        pairs[key] = quote_values(change.apply(words))
    text = "\n".join(f"{key}: {value}" for key, value in pairs.items() if value)
    stated = parse_meta(path, text, 1)[0] if text else Meta()
    fields = {key: getattr(stated, key) for key in pairs if key in Meta.__struct_fields__}
    kept = tuple(pair for pair in before.extra if pair[0].lower() not in pairs)
    return replace(before, **fields, extra=(*kept, *stated.extra))


def _normalize(meta: Meta) -> Meta:
    """Return metadata without the order of its own keys and of its tags."""
    return replace(
        meta,
        tags=tuple(sorted(tag.casefold() for tag in meta.tags)),
        extra=tuple(sorted((key.lower(), value) for key, value in meta.extra)),
    )


def check_others(path: str, old: bytes, new: bytes, *changed: str) -> None:
    """Raise EditRefused unless all sections but the `changed` have the same bytes."""
    before, after = (
        {
            anchor: data[slice(*place)]
            for anchor, place in find_sections_bytes(path, data).items()
            if anchor not in changed
        }
        for data in (old, new)
    )
    if [*before.items()] != [*after.items()]:
        hint = "change it with your editor or the memory tool"
        raise EditRefused(f"{path}: other sections would change", hint=hint)
