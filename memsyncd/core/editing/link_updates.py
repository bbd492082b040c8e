"""Change the links of a note so that they lead to the same notes after some notes were renamed.

A link is rewritten only if it would lead to another note, or to none. Every other byte of the note
stays.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from memsyncd.core.editing.sections import UnifiedText, open_text
from memsyncd.core.markdown.frontmatter import find_front_matter
from memsyncd.core.markdown.links import (
    LinkTarget,
    NamedNote,
    NameIndex,
    NameTable,
    NoteNames,
    decode_target,
    find_link_targets,
    list_names,
    make_key,
)
from memsyncd.core.markdown.scanner import split_blocks, split_paragraphs
from memsyncd.core.paths import NOTE_SUFFIXES, is_plain
from memsyncd.errors import EditRefused

_UNSAFE = re.compile(r"[ ()<>%#?\\]")
_UNSAFE_IN_ANGLES = re.compile(r"[<>#?\\]|%(?=[0-9A-Fa-f]{2})")
# Signs that may end a YAML text, or escape the next sign.
_QUOTES = re.compile(r"[\"'\\]")


class PathNames:
    """A `NameIndex` of the names that notes have from their paths alone, in a workspace where the
    notes `without` are gone and notes at the paths `added` have come.
    """

    def __init__(self, index: NameIndex, *, without: Collection[str], added: Iterable[str]) -> None:
        self._index = index
        self._without = without
        self._added = NameTable(
            (make_key(name), path, name) for path in added for name in list_names(path, "")
        )

    def find_named(self, key: str) -> Sequence[NamedNote]:
        kept = [
            (path, name)
            for path, name in self._index.find_named(key)
            if path not in self._without and name in list_names(path, "")
        ]
        return [*kept, *self._added.find_named(key)]

    def find_keys(self, key: str) -> Iterable[str]:
        return [*self._index.find_keys(key), *self._added.find_keys(key)]


def update_links(
    path: str,
    data: bytes,
    moved: Mapping[str, str],
    *,
    before: NoteNames,
    after: NoteNames,
) -> bytes:
    """The bytes of the note at `path` with its links updated; the same bytes if no link changes.

    `moved` has the new paths of the renamed notes by their old paths, and may include this note.
    `before` and `after` have the names of all notes before and after the renaming. Raises
    EditRefused for UTF-16, and if no link can lead to a note under its new name.
    """
    note = open_text(path, data)
    unified = UnifiedText(note.text)
    # The text must be the one that is indexed, where a NUL is replaced. Its length stays the same.
    text = unified.text.replace("\0", "\ufffd")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if is_plain(path):
        blocks = split_paragraphs(lines)
    else:
        front = find_front_matter(path, lines)
        blocks = [*front.blocks, *split_blocks(lines, front.n_lines)]
    new_path = moved.get(path, path)
    parts: list[str] = []
    done = 0
    for link in find_link_targets(text, lines, blocks):
        old = before.find(path, link.text, is_path=link.is_path)
        if old is None:
            continue
        # Other programs do not look up a relative link by name, so it must stay an exact path.
        must_be_exact = not link.is_wiki and _is_exact(path, link.text, old)
        target = _choose_target(link, new_path, moved.get(old, old), after, must_be_exact)
        start, end = unified.raw_offset(link.start), unified.raw_offset(link.end)
        parts += (note.text[done:start], target)
        done = end
    return note.to_bytes("".join((*parts, note.text[done:])))


def _choose_target(
    link: LinkTarget, source: str, path: str, names: NoteNames, must_be_exact: bool
) -> str:
    """The first target that leads from the note `source` to the note `path`.

    Raises EditRefused if none does.
    """
    for target in (link.text, *_list_targets(link, source, path)):
        is_usable = not must_be_exact or _is_exact(source, target, path)
        is_usable = is_usable and not (link.is_property and _QUOTES.search(target))
        if is_usable and names.find(source, target, is_path=link.is_path) == path:
            return target
    signs = "[ ] | # ^ \" ' \\" if link.is_property else "[ ] | # ^"
    hint = f"choose a name without any of {signs}, or rename without updating links"
    raise EditRefused(f"no link in {source} can be written as [[{path}]]", hint=hint)


def _is_exact(source: str, target: str, path: str) -> bool:
    """True if a target is exactly the path of a note: relative to the folder of the note `source`,
    or from the root if it begins with a slash.
    """
    folder = source.rpartition("/")[0]
    return posixpath.normpath(posixpath.join("/", folder, decode_target(target))) == f"/{path}"


def _list_targets(link: LinkTarget, source: str, path: str) -> Iterator[str]:
    """Yield targets for the note at `path` in the style of the link, the shortest first."""
    if link.is_wiki:
        has_suffix = link.text.lower().endswith(NOTE_SUFFIXES)
        name = path if has_suffix else path.rpartition(".")[0]
        if not any(mark in name for mark in "[]|#^"):
            if "/" not in link.text:
                yield name.rpartition("/")[2]
            yield from (name, path, f"/{name}", f"/{path}")
        return
    is_from_root = link.text.startswith("/")
    target = (
        f"/{path}" if is_from_root else posixpath.relpath(path, source.rpartition("/")[0] or ".")
    )
    has_suffix = link.text.lower().endswith(NOTE_SUFFIXES)
    unsafe = _UNSAFE if link.is_encoded else _UNSAFE_IN_ANGLES
    for text in (target,) if has_suffix else (target.rpartition(".")[0], target):
        yield unsafe.sub(lambda sign: f"%{ord(sign[0]):02X}", text)
