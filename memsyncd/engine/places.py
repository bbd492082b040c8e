"""Find the note or section that a text names, in each form that a command prints.

A text may be an anchor, `path#heading`; the path, title or alias of a note; lines of a note,
`path:12-18`, which stand for the section in which they begin; the id that a section has in another
system; the title of a section, also with its note, `Note › Heading`; or a short id that was
printed. A section that is not archived comes before archived sections of the same title.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import msgspec
from msgspec.structs import replace

from memsyncd.core.editing.memory_tool import MEMORIES, parse_memory_path
from memsyncd.core.editing.topics import RelationLink, clean_target
from memsyncd.core.markdown.linkgraph import find_section, note_of
from memsyncd.core.markdown.links import NoteNames, is_block_reference
from memsyncd.core.markdown.sections import make_slug
from memsyncd.core.paths import NOTE_SUFFIXES
from memsyncd.core.search.filters import EVERYTHING
from memsyncd.engine.browse import (
    LIST_NOTES,
    READ_LIMIT_S,
    advise_undo,
    find_spelling,
    make_missing_error,
)
from memsyncd.engine.elsewhere import split_prefix
from memsyncd.engine.metadata import name_note
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NoteNotFound, StoreFailed, make_several_error
from memsyncd.files.scope import Scope, is_within_folder
from memsyncd.headings import BETWEEN_HEADINGS, name_section
from memsyncd.operations.fields import digest_note_path, make_short_id
from memsyncd.store.links import StoredLinks
from memsyncd.store.lookup import read_note_paths, stream_notes
from memsyncd.store.pool import Reader
from memsyncd.store.sections import (
    find_titled_sections,
    read_anchors,
    read_digest,
    read_section,
    read_sections_of,
)

ParamsT = TypeVar("ParamsT", bound=msgspec.Struct)
NAMED_LINES = re.compile(r"(?P<path>.+):(?P<first>\d+)(?:-\d+)?")
"""Lines of a note as commands print them."""
_SHORT_ID = re.compile(r"[0-9a-f]{6,8}")


class NamedPlace(NamedTuple):
    """A note by its path, or a section of it by its anchor."""

    path: str
    anchor: str | None
    heading: str = ""
    """The words of the section's heading."""
    is_by_lines: bool = False


def find_named_place(
    reader: Reader, scope: Scope, text: str, *, is_removal: bool = False
) -> NamedPlace:
    """Return the note or section that a text names; a path may be absolute, or a path of the memory
    tool. For a removal, a path stands for no note of this name in another folder.

    Raises NoteNotFound, with the most similar name, and BadRequest that names the candidates if
    several notes or sections have this name.
    """
    text, memory_dir = _name_from_root(scope, strip_brackets(text)), scope.memory_dir
    names = StoredLinks(reader).names
    place = (
        _find_anchor(reader, names, text, memory_dir)
        or _find_note(reader, names, text, memory_dir)
        or _find_lines(reader, names, text, memory_dir)
        or _find_section(reader, text)
    )
    if place is not None and is_removal:
        _check_folder(text, place, memory_dir)
    return place or _refuse(reader, names, text, memory_dir)


def _check_folder(text: str, place: NamedPlace, memory_dir: str) -> None:
    """Raise NoteNotFound if the text is the path of a note, and the place is in another folder."""
    lines = NAMED_LINES.fullmatch(text)
    path = (lines["path"] if lines else note_of(text)).removeprefix("./").casefold()
    folders = {posixpath.dirname(each) for each in (path, f"{memory_dir.casefold()}/{path}")}
    if path.endswith(NOTE_SUFFIXES) and posixpath.dirname(place.path.casefold()) not in folders:
        hint = f"if {place.anchor or place.path} is meant, name it so"
        raise NoteNotFound(f"no note is at {text}", hint=hint)


def _name_from_root(scope: Scope, text: str) -> str:
    if text.startswith(f"{scope.root}/"):
        return text[len(scope.root) + 1 :]
    path, mark, rest = text.partition("#")
    note = parse_memory_path(path, scope.memory_dir).note if path.startswith(MEMORIES) else None
    return text if note is None else f"{note.text}{mark}{rest}"


def resolve_names(
    workspace: Workspace, params: ParamsT, fields: Iterable[str], *, may_be_gone: bool = False
) -> ParamsT:
    """Return the parameters with an anchor or a path in each field that held another name of a
    section or note. Anchors and paths stay; with `may_be_gone`, also the anchors of sections that
    are gone. Text that names nothing stays, too: the operation says what is missing.

    Raises BadRequest that names the candidates if several notes or sections have a name.
    """
    values = {field: getattr(params, field) for field in fields}
    every = (text for value in values.values() for text in _list_texts(value))
    texts = [text for text in every if _may_name(text, may_be_gone=may_be_gone)]
    if not texts or workspace.readers is None:
        return params
    # An operation that needs no index, such as an undo, must not fail with it.
    with contextlib.suppress(StoreFailed), workspace.acquire(READ_LIMIT_S) as reader:
        memory_dir = workspace.scope.memory_dir
        places = {text: _resolve(reader, text, memory_dir) for text in texts}
        changes: dict[str, Any] = {}
        for field, value in values.items():
            changes |= _make_change(params, field, value, places)
        return replace(params, **changes)
    return params


def _list_texts(value: str | list[str] | None) -> list[str]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _may_name(text: str, *, may_be_gone: bool) -> bool:
    """False for a path or an anchor if the note or section may be gone: it names itself."""
    if NAMED_LINES.fullmatch(text) is not None:
        return True
    note, mark, heading = text.rpartition("#")
    if mark and not text.lower().endswith(NOTE_SUFFIXES):
        slugs = "/".join(map(make_slug, heading.split("/"))) if heading else ""
        return not (may_be_gone and heading == slugs and note.lower().endswith(NOTE_SUFFIXES))
    is_path = may_be_gone and text.lower().endswith(NOTE_SUFFIXES)
    return not (is_path or text in ("", "."))


def _make_change(
    params: msgspec.Struct,
    field: str,
    value: str | list[str] | None,
    places_by_text: Mapping[str, NamedPlace | None],
) -> dict[str, Any]:
    if isinstance(value, list):
        places = [places_by_text.get(text) for text in value]
        named = [place and (place.anchor or place.path) for place in places]
        return {field: [name or text for name, text in zip(named, value, strict=True)]}
    place = places_by_text.get(value or "")
    if place is None:
        return {}
    # The field for a note may name a section, and the other way round.
    other = "path" if place.anchor is None else "anchor"
    if field not in ("anchor", "path") or not hasattr(params, other):
        return {field: place.anchor or place.path}
    return {field: None, other: place.anchor or place.path}


def _resolve(reader: Reader, written: str, memory_dir: str) -> NamedPlace | None:
    """Return the place of lines, a heading, a title or a link; None for an anchor, a path, or a
    text without place.
    """
    text, names = strip_brackets(written), StoredLinks(reader).names
    if by_lines := _find_lines(reader, names, text, memory_dir):
        return by_lines
    is_place = _is_path(reader, text) or read_section(reader, text) is not None
    if is_place and text == written:
        return None
    if heading := _find_anchor(reader, names, text, memory_dir):
        return heading
    note = _find_note(reader, names, text, memory_dir)
    # The path of a note that is gone is not the name of a note in another folder.
    if note is not None and "/" in text and not note.path.startswith(text):
        note = None
    return note or _find_section(reader, text)


def strip_brackets(text: str) -> str:
    """Return a name without the brackets and the label of a link, which people copy from notes."""
    name = clean_target(text)
    return name if name == text.strip() else name.partition("|")[0].rstrip()


def _is_path(reader: Reader, text: str) -> bool:
    """True for the path of a note or folder from the root."""
    notes = stream_notes(reader, path=text, filters=EVERYTHING, has_sections=False)
    # A path that does not exist is looked up in the memory folder, too.
    return any(is_within_folder(note.path, text) for note in islice(notes, 1))


def _find_anchor(reader: Reader, names: NoteNames, text: str, memory_dir: str) -> NamedPlace | None:
    note, mark, heading = text.rpartition("#")
    if not mark or heading.lower().endswith(NOTE_SUFFIXES):
        return None
    spelling = find_spelling(reader, note)
    if read_section(reader, f"{spelling}#{heading}") is not None:
        return _make_section(reader, f"{spelling}#{heading}")
    if not heading.strip():
        return None
    # A link names a section by its heading, by the last of its slugs, or by a block in it. If
    # several notes have the name, the heading tells which is meant.
    paths = _find_note_paths(reader, names, note, _list_inside(note, memory_dir))
    find_part = StoredLinks(reader).resolver.find_part
    places = ((path, find_part(path, heading.strip())) for path in paths)
    anchors = [anchor for path, anchor in places if anchor != path]
    if len(anchors) > 1:
        raise make_several_error([*map(note_of, anchors)], f"several notes have the name {note}")
    return _make_section(reader, anchors[0]) if anchors else None


def _make_section(reader: Reader, anchor: str, *, is_by_lines: bool = False) -> NamedPlace:
    section = read_section(reader, anchor)
    heading = section[1].heading[-1] if section and section[1].heading else ""
    return NamedPlace(anchor.rpartition("#")[0], anchor, heading, is_by_lines)


def _find_note(reader: Reader, names: NoteNames, text: str, memory_dir: str) -> NamedPlace | None:
    path = _find_path(reader, names, text, memory_dir)
    return None if path is None else NamedPlace(path, None)


def _find_path(reader: Reader, names: NoteNames, text: str, memory_dir: str) -> str | None:
    return find_note_path(reader, names, text, _list_inside(text, memory_dir))


def _list_inside(text: str, memory_dir: str) -> list[str]:
    return [f"{memory_dir}/{text}", f"{memory_dir}/{text}.md"]


def find_note_path(
    reader: Reader, names: NoteNames, text: str, inside: Sequence[str] = ()
) -> str | None:
    """Return the path of the note that a text names, as `_find_note_paths`; None if there is none.

    Raises BadRequest that names the candidates if several notes have this name.
    """
    paths = _find_note_paths(reader, names, text, inside)
    if len(paths) > 1:
        raise make_several_error(paths, f"several notes have the name {text}")
    return paths[0] if paths else None


def _find_note_paths(
    reader: Reader, names: NoteNames, text: str, inside: Sequence[str]
) -> list[str]:
    """Return the paths of the notes that a text names: by its path, a name in the memory folder
    (the paths `inside` are its readings), the name of its file, its title or an alias.
    """
    spelling = find_spelling(reader, text.removeprefix("./"))
    if not text or read_digest(reader, spelling) is not None:
        return [spelling] if spelling else []
    spellings = (find_spelling(reader, path.removeprefix("./")) for path in inside)
    in_memory = [path for path in spellings if read_digest(reader, path) is not None]
    return [*dict.fromkeys((*in_memory, *names.find_all(text)))]


def _find_lines(reader: Reader, names: NoteNames, text: str, memory_dir: str) -> NamedPlace | None:
    lines = NAMED_LINES.fullmatch(text)
    path = _find_path(reader, names, lines["path"], memory_dir) if lines else None
    if lines is None or path is None:
        return None
    first = int(lines["first"])
    sections = read_sections_of(reader, path)
    within = (
        section.anchor for section in sections if section.span.start <= first <= section.span.end
    )
    anchor = next(within, None)
    if anchor is None:
        last = max((section.span.end for section in sections), default=0)
        raise NoteNotFound(f"{path} has no line {first}", hint=f"it has {last} lines")
    return _make_section(reader, anchor, is_by_lines=True)


def _find_section(reader: Reader, text: str) -> NamedPlace | None:
    """Find the section that a text names without its note."""
    if is_block_reference(text):
        anchor = StoredLinks(reader).find_block(text.lower())
        return _make_section(reader, anchor) if anchor else None
    return (
        _find_id(reader, text)
        or _find_titled(reader, text)
        or _find_printed(reader, text)
        or _find_short(reader, text)
    )


def _find_short(reader: Reader, text: str) -> NamedPlace | None:
    wanted = text.lower()
    if not _SHORT_ID.fullmatch(wanted):
        return None
    paths = (path for path in read_note_paths(reader) if wanted.startswith(digest_note_path(path)))
    every = (anchor for path in paths for anchor in read_anchors(reader, path))
    anchors = [anchor for anchor in every if make_short_id(anchor).startswith(wanted)]
    if len(anchors) > 1:
        raise make_several_error(
            anchors, f"several sections have a short id that begins with {text}"
        )
    return _make_section(reader, anchors[0]) if anchors else None


def _find_id(reader: Reader, text: str) -> NamedPlace | None:
    """Find the section that has an id of another system."""
    anchors = StoredLinks(reader).find_ids(text)
    if len(anchors) > 1:
        raise make_several_error(anchors, f"several sections have the id {text}")
    return _make_section(reader, anchors[0]) if anchors else None


def _find_titled(reader: Reader, text: str) -> NamedPlace | None:
    titled = find_titled_sections(reader, text, make_slug(text)) if text else []
    return _choose_titled(reader, titled, text)


def _choose_titled(
    reader: Reader, titled: Sequence[tuple[str, bool]], text: str
) -> NamedPlace | None:
    current = [anchor for anchor, is_archived in titled if not is_archived]
    anchors = current or [anchor for anchor, _ in titled]
    if len(anchors) > 1:
        raise make_several_error(anchors, f"several sections have the title {text}")
    return _make_section(reader, anchors[0]) if anchors else None


def _find_printed(reader: Reader, text: str) -> NamedPlace | None:
    """Find the section with the name `Note › Heading`. The first words may be left out, and a
    heading may contain the sign itself.
    """
    words = text.split(BETWEEN_HEADINGS)
    wanted = text.casefold()
    exact: list[tuple[str, bool]] = []
    ending: list[tuple[str, bool]] = []
    for at in range(1, len(words)):
        title = BETWEEN_HEADINGS.join(words[at:])
        for anchor, is_archived in find_titled_sections(reader, title, make_slug(title)):
            section = read_section(reader, anchor)
            if section is None or (anchor, is_archived) in ending:
                continue
            note, heading = name_note(section[1]), section[1].heading
            whole = BETWEEN_HEADINGS.join((note, *heading)).casefold()
            if wanted in (whole, name_section(note, heading).casefold()):
                exact.append((anchor, is_archived))
            if f"{BETWEEN_HEADINGS}{whole}".endswith(f"{BETWEEN_HEADINGS}{wanted}"):
                ending.append((anchor, is_archived))
    return _choose_titled(reader, exact or ending, text)


def _refuse(reader: Reader, names: NoteNames, text: str, memory_dir: str) -> NoReturn:
    note, mark, _ = text.rpartition("#")
    path = _find_path(reader, names, note, memory_dir) if mark else None
    if path is not None:
        raise make_missing_error(text, read_anchors(reader, path))
    similar = names.find_similar(note or text)
    hint = f"did you mean {similar}?" if similar else LIST_NOTES
    raise NoteNotFound(f"no note or section is called {text}", hint=f"{hint}{advise_undo(text)}")


# --- relations ----------------------------------------------------------------------------------


def name_relations(
    workspace: Workspace, reader: Reader, relations: Sequence[RelationLink], *, must_exist: bool
) -> list[RelationLink]:
    """Return the relations with each target as a link names it, also a place in another workspace.
    With `must_exist`, raises NoteNotFound for a target that does not exist.
    """
    named: list[RelationLink] = []
    for relation in relations:
        to = clean_target(relation.to)
        try:
            target = _name_place(workspace, reader, to)
        except NoteNotFound as error:
            if must_exist:
                if relation.kind == "related" and to.isidentifier():
                    # The kind alone, without a note, was read as the note.
                    hint = f"{error.hint}; with a kind: {to}=NOTE"
                    raise NoteNotFound(error.message, hint=hint) from None
                raise
            target = to
        named.append(RelationLink(relation.kind, target))
    return named


def _name_place(workspace: Workspace, reader: Reader, text: str) -> str:
    try:
        return name_target(reader, find_named_place(reader, workspace.scope, text))
    except NoteNotFound:
        named = split_prefix(workspace, text)
        if named is None:
            raise
    other, rest = named
    with other.acquire(READ_LIMIT_S) as elsewhere:
        place = find_named_place(elsewhere, other.scope, rest)
        return f"{text.partition(':')[0].strip()}:{name_target(elsewhere, place)}"


def name_elsewhere(workspace: Workspace, params: ParamsT) -> ParamsT:
    """Return the parameters with the workspace and the place that `anchor` or `path` names in
    another workspace, `acme:solutions#Limit the pool`, if no note of this one has this name.

    Raises NoteNotFound if the other workspace has no such place.
    """
    for field in ("anchor", "path"):
        text = getattr(params, field, None)
        text = strip_brackets(text) if isinstance(text, str) else None
        named = split_prefix(workspace, text) if text else None
        if named is None or text is None or _has_note(workspace, text):
            continue
        other, rest = named
        with other.acquire(READ_LIMIT_S) as reader:
            place = find_named_place(reader, other.scope, rest)
        change = _make_change(params, field, rest, {rest: place}) or {field: rest}
        return replace(params, workspace=other.id, **change)
    return params


def _has_note(workspace: Workspace, text: str) -> bool:
    with workspace.acquire(READ_LIMIT_S) as reader:
        path = note_of(text)
        return (
            _find_path(reader, StoredLinks(reader).names, path, workspace.scope.memory_dir)
            is not None
        )


NO_LINK: Final = frozenset("[]|#^")


def name_target(reader: Reader, place: NamedPlace) -> str:
    """Return the target of a link to a place: `path#Heading`, with slugs if these words lead
    elsewhere.
    """
    if place.anchor is None or place.anchor.endswith("#"):
        return place.path
    anchors = StoredLinks(reader).read_anchors(place.path)
    heading = place.heading
    is_clear = bool(heading) and NO_LINK.isdisjoint(heading)
    is_first = is_clear and find_section(place.path, heading, anchors) == place.anchor
    return f"{place.path}#{heading}" if is_first else place.anchor
