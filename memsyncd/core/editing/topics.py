"""Make the note of a topic, and change its metadata, summary and relations.

A topic is a note: its front matter has the metadata, the text below its title the summary, and list
items there its relations, which are typed links. Only what is asked for is changed; a note of
another form is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memsyncd.core.editing.additions import (
    CONTENT_LIMIT_CHARS,
    Addition,
    find_faults,
    render_metadata,
)
from memsyncd.core.editing.notetext import open_text, unify_line_ends
from memsyncd.core.editing.sections import (
    contain,
    make_heading_line,
    split_note_sections,
)
from memsyncd.core.editing.topic_fields import add_field, find_title, split_raw_lines
from memsyncd.core.markdown.frontmatter import find_front_matter, parse_meta
from memsyncd.core.markdown.links import Mention, find_mentions
from memsyncd.core.markdown.notenames import make_key
from memsyncd.core.markdown.scanner import HEADING, HTML, ITEM, split_blocks
from memsyncd.core.markdown.sections import RawSection, make_slug
from memsyncd.core.model import OTHER_KEYS, Meta
from memsyncd.errors import BadRequest, EditRefused

_RELATION = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NO_TARGET = re.compile(r"[\[\]|\x00-\x1f\x7f\u2028\u2029]")
_TARGET_LIMIT_CHARS = 500
_KEY_LINE = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]|$)")
_GOES_ON = re.compile(r"[ \t]|-[ \t]|$")
_ITEM_OF_LINK = re.compile(
    r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?[a-z][a-z0-9_]{0,63}:?[ \t]+\S.*"
)

Identify = Callable[[str], str]
"""Names the note that a link's target leads to, so that two targets for one note are equal."""


class RelationLink(NamedTuple):
    """A typed link of a note; `to` is as written, without the brackets."""

    kind: str
    to: str


# --- faults ---------------------------------------------------------------------------------------


def find_topic_faults(
    metadata: Addition,
    fields: Mapping[str, str],
    relations: Sequence[RelationLink],
    *,
    most_chars: int = CONTENT_LIMIT_CHARS,
) -> Iterator[BadRequest]:
    """Yield one error for each invalid field of a topic. `metadata` has the title as its summary,
    and the summary as its content.
    """
    has_summary = bool(metadata.content.strip())
    if not metadata.summary.strip():
        yield BadRequest("title: is empty", hint="name the topic")
    for fault in find_faults(metadata, most_chars=most_chars):
        if fault.message.startswith("summary: "):
            yield _rename(fault, "summary", "title")
        elif not fault.message.startswith("content: ") or has_summary:
            yield _rename(fault, "content", "summary")
    lines = unify_line_ends(metadata.content).split("\n")
    if has_summary and any(one.kind == HEADING for one in split_blocks(lines)):
        yield BadRequest("summary: holds a heading", hint="give what is below it as a field")
    for name, value in fields.items():
        place = f"fields.{name.strip()[:40]}"
        if not name.strip():
            yield BadRequest("fields: hold one without a name", hint="name it, or leave it out")
        one = Addition(content=value, summary=name)
        for fault in find_faults(one, most_chars=most_chars):
            yield _rename(_rename(fault, "summary", place), "content", place)
    yield from find_relation_faults("relations", relations)


def _rename(fault: BadRequest, old: str, new: str) -> BadRequest:
    if not fault.message.startswith(f"{old}: "):
        return fault
    return type(fault)(f"{new}{fault.message.removeprefix(old)}", hint=fault.hint)


def find_relation_faults(name: str, relations: Sequence[RelationLink]) -> Iterator[BadRequest]:
    for one in relations:
        if not _RELATION.fullmatch(one.kind):
            hint = "lower-case letters, digits and _, such as resolved_by"
            yield BadRequest(f"{name}: hold a kind that is not one word", hint=hint)
        to = clean_target(one.to)
        if not to or _NO_TARGET.search(to) or len(to) > _TARGET_LIMIT_CHARS:
            yield BadRequest(
                f"{name}: lead to what no link can name", hint="name a note, or note#heading"
            )


def clean_target(to: str) -> str:
    """A target without the brackets of a link."""
    return to.strip().removeprefix("[[").removesuffix("]]").strip()


# --- a new note -----------------------------------------------------------------------------------


def make_topic(
    path: str,
    metadata: Addition,
    fields: Mapping[str, str],
    relations: Sequence[RelationLink],
    *,
    at: str,
) -> tuple[bytes, list[str]]:
    """Return the text of a new note, and the anchors of its fields. All must be valid."""
    stated = render_metadata(metadata, at)
    lines = ["---", *(f"{key}: {value}" for key, value in stated.items()), "---", ""]
    lines.append(make_heading_line(1, metadata.summary))
    if metadata.content.strip():
        lines += ["", *contain(unify_line_ends(metadata.content).strip("\n").split("\n"))]
    data = "\n".join((*lines, "")).encode()
    data = merge_relations(path, data, relations, (), identify=make_key)
    anchors = []
    for name, value in fields.items():
        added = add_field(path, data, name, Addition(content=value), at=at)
        data = added.data
        anchors.append(added.anchor)
    return data, anchors


# --- front matter ---------------------------------------------------------------------------------


def patch_front_matter(path: str, data: bytes, changes: Mapping[str, str]) -> bytes:
    """Return the note with these keys of its front matter, which are values of YAML; an empty one
    removes the key. All other lines stay as they are.

    Raises EditRefused for front matter of a form in which that is not possible.
    """
    note = open_text(path, data)
    raw = split_raw_lines(note.text, note.line_end)
    lines = [line.rstrip("\r\n") for line in raw]
    front = find_front_matter(path, lines)
    n_front = front.n_lines
    if n_front:
        head, inner, rest = raw[:1], raw[1 : n_front - 1], raw[n_front - 1 :]
    else:
        fence = f"---{note.line_end}"
        gap = [note.line_end] if lines and lines[0].strip() else []
        head, inner, rest = [fence], [], [fence, *gap, *raw]
    for key, value in changes.items():
        inner = _set_key(inner, key, f"{key}: {value}{note.line_end}" if value else "")
    written = note.to_bytes("".join((*head, *inner, *rest)))
    after_lines = [line.rstrip("\r\n") for line in (*head, *inner, *rest)]
    after = find_front_matter(path, after_lines)
    if after.meta != _expect(path, front.meta, changes) or after.problems != front.problems:
        hint = "change it with your editor or the memory tool"
        raise EditRefused(f"{path}: its front matter has another form", hint=hint)
    return written


def _set_key(inner: list[str], key: str, line: str) -> list[str]:
    """Replace the lines of a key, or append the line; without a line the key is removed."""
    kept: list[str] = []
    is_within, is_done = False, not line
    for one in inner:
        found = _KEY_LINE.match(one.rstrip("\r\n"))
        if found or not _GOES_ON.match(one.rstrip("\r\n")):
            name = found[1].lower() if found else ""
            is_within = OTHER_KEYS.get(name, name) == key.lower()
            if is_within and not is_done:
                kept.append(line)
                is_done = True
        if not is_within:
            kept.append(one)
    return kept if is_done else [*kept, line]


def _expect(path: str, before: Meta, changes: Mapping[str, str]) -> Meta:
    """The metadata after the changes."""
    text = "\n".join(f"{key}: {value}" for key, value in changes.items() if value)
    stated = parse_meta(path, text, 1)[0] if text else Meta()
    known = {
        key: getattr(stated, key)
        for key in changes
        if key in Meta.__struct_fields__ and key != "extra"
    }
    names = {key.lower() for key in changes}
    new = {key.lower(): (key, value) for key, value in stated.extra}
    extra: dict[str, str] = {}
    for key, value in before.extra:  # a key keeps its place
        if key.lower() not in names:
            extra[key] = value
        elif key.lower() in new:
            extra |= dict([new.pop(key.lower())])
    extra |= dict(new.values())
    return replace(before, **known, extra=tuple(extra.items()))


# --- summary and relations ------------------------------------------------------------------------


def read_summary(path: str, data: bytes) -> str:
    """The text below the title, without its comment and the relations at its end."""
    note = open_text(path, data)
    lines = unify_line_ends(note.text).split("\n")
    first, after, relations = _find_summary(path, data, lines)
    kept = [line for at, line in enumerate(lines[first:after], first) if at not in relations]
    return "\n".join(kept).strip("\n").rstrip()


def replace_summary(path: str, data: bytes, summary: str) -> bytes:
    """Return the note with this text below its title; its relations there stay."""
    note = open_text(path, data)
    raw = split_raw_lines(note.text, note.line_end)
    lines = [line.rstrip("\r\n") for line in raw]
    first, after, relations = _find_summary(path, data, lines)
    text = (
        [*contain(trimmed)]
        if (trimmed := unify_line_ends(summary).strip("\n").split("\n")) != [""]
        else []
    )
    blocks = [text, [lines[at] for at in sorted(relations)]]
    new: list[str] = []
    for block in blocks:
        if block:
            new += ["", *block] if first or new else block
    if after < len(raw):
        new.append("")
    end = note.line_end
    return note.to_bytes("".join((*raw[:first], *(f"{line}{end}" for line in new), *raw[after:])))


def _find_summary(path: str, data: bytes, lines: Sequence[str]) -> tuple[int, int, set[int]]:
    """The first line below the title and its comment, the line of the next heading, and the lines
    of relations between them.
    """
    place = _find_top(path, data)
    if place is None:
        return 0, 0, set()
    first, after = place.start, place.end
    blocks = split_blocks(lines[:after], find_front_matter(path, lines).n_lines)
    for block in blocks:
        if block.start < place.start:
            continue
        text = "\n".join(lines[block.start : block.end])
        is_comment = block.kind == HTML and text.lstrip().startswith("<!-- memory:")
        if block.kind == HEADING or is_comment:
            first = block.end
    first = max(first, find_front_matter(path, lines).n_lines)
    relations = {
        mention.line - 1
        for mention in _list_typed(path, lines)
        if first < mention.line <= after and _ITEM_OF_LINK.fullmatch(lines[mention.line - 1])
    }
    return first, after, relations


def _find_top(path: str, data: bytes) -> RawSection | None:
    """The section of the title, else the lines before the first heading; None without either."""
    sections = split_note_sections(path, data)
    title = find_title(sections)
    return title or next((one for one in sections if not one.level), None)


def _list_typed(path: str, lines: Sequence[str]) -> list[Mention]:
    blocks = split_blocks(lines, find_front_matter(path, lines).n_lines)
    found = find_mentions("\n".join(lines), lines, blocks)
    return [one for one in found if one.is_link and one.relation]


def list_relations(path: str, data: bytes) -> list[RelationLink]:
    """The typed links of a note, in order."""
    lines = unify_line_ends(open_text(path, data).text).split("\n")
    return [
        RelationLink(one.relation, f"{one.target}#{one.heading}" if one.heading else one.target)
        for one in _list_typed(path, lines)
    ]


def merge_relations(
    path: str,
    data: bytes,
    relate: Sequence[RelationLink],
    unrelate: Sequence[RelationLink],
    *,
    identify: Identify,
) -> bytes:
    """Return the note without the relations `unrelate` and with `relate`, each once: two of one
    kind to one place are the same.
    """
    note = open_text(path, data)
    raw = split_raw_lines(note.text, note.line_end)
    lines = [line.rstrip("\r\n") for line in raw]
    gone = {_identify(one, identify) for one in unrelate}
    known: set[tuple[str, str, str]] = set()
    removed: list[int] = []
    for mention in _list_typed(path, lines):
        to = f"{mention.target}#{mention.heading}" if mention.heading else mention.target
        key = _identify(RelationLink(mention.relation, to), identify)
        if key in gone and _ITEM_OF_LINK.fullmatch(lines[mention.line - 1]):
            removed.append(mention.line - 1)
        else:
            known.add(key)
    for at in reversed(removed):
        del raw[at]
    new: list[str] = []
    for one in relate:
        key = _identify(one, identify)
        if key not in known:
            known.add(key)
            new.append(f"- {one.kind} [[{clean_target(one.to)}]]{note.line_end}")
    left = note.to_bytes("".join(raw))
    return _insert_relations(path, left, new) if new else left


def _identify(one: RelationLink, identify: Identify) -> tuple[str, str, str]:
    target, _, heading = clean_target(one.to).partition("#")
    return one.kind, identify(target), make_slug(heading) if heading else ""


def _insert_relations(path: str, data: bytes, new: Sequence[str]) -> bytes:
    """Insert these lines at the end of the text below the title."""
    note = open_text(path, data)
    raw = split_raw_lines(note.text, note.line_end)
    lines = [line.rstrip("\r\n") for line in raw]
    top = _find_top(path, data)
    sections = split_note_sections(path, data)
    end = top.end if top else (sections[0].start if sections else len(lines))
    while end > 0 and not lines[end - 1].strip():
        end -= 1
    blocks = split_blocks(lines[:end], find_front_matter(path, lines).n_lines)
    is_list = bool(blocks) and blocks[-1].kind == ITEM and blocks[-1].end == end
    before = [note.line_end] if end and not is_list else []
    after = [note.line_end] if end < len(lines) and lines[end].strip() else []
    return note.to_bytes("".join((*raw[:end], *before, *new, *after, *raw[end:])))
