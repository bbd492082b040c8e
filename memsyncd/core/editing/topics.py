"""Make and change topics and their fields.

A topic is a note. Its front matter has the metadata. The text below its title is the summary, and
list items there are its relations, which are typed links. Only the requested parts change; a note
of another form is refused.

A field is a section of a note. Its values are list items. Each begins with the time at which it was
appended, and the newest comes first:

    ## Status
    <!-- memory: {created: "2026-11-20T09:00:00Z"} -->
    - 2026-11-23T04:10:00Z Postgres 17 runs in production.
    - 2026-11-20T09:00:00Z Postgres 16.

Other text of the section stays where it is, and is a value without a time. A value is any markdown:
its further lines are indented, so that headings and fences in it stay within its item. The time of
the newest value counts as the time when the section was updated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from memsyncd.core.editing.additions import (
    CONTENT_LIMIT_CHARS,
    Addition,
    append_section,
    find_faults,
    quote_value,
    quote_values,
    render_metadata,
)
from memsyncd.core.editing.fields import find_title, list_fields
from memsyncd.core.editing.metadata import KeyChange, WordsChange, change_front_matter
from memsyncd.core.editing.sections import (
    NoteText,
    contain,
    find_sections_bytes,
    make_heading_line,
    open_text,
    replace_section,
    split_note_sections,
    unify_line_ends,
)
from memsyncd.core.markdown.frontmatter import (
    count_front_lines,
    distinct_tags,
    find_front_matter,
    load_yaml,
    parse_meta,
)
from memsyncd.core.markdown.links import Mention, find_mentions, make_key
from memsyncd.core.markdown.parse import DATED_VALUE
from memsyncd.core.markdown.scanner import HEADING, HTML, ITEM, Block, split_blocks
from memsyncd.core.markdown.sections import RawSection, make_slug
from memsyncd.core.memories import Placed
from memsyncd.core.model import Meta
from memsyncd.errors import BadRequest, EditRefused, NoteNotFound

_ANY_VALUE = re.compile(rf"^{DATED_VALUE.pattern}$", re.MULTILINE)
_COMMENT = re.compile(r"[ \t]*<!--\s*memory:\s*(.*?)\s*-->", re.DOTALL)
_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_LAST_LINE_END = re.compile(r"(?:\r\n|\r|\n)\Z")
# A value is written after its time only if its first line is plain text of a paragraph.
_PLAIN_START = re.compile(r"[^\W_]|[\"'(\[*`$@…„“‘«](?![*`\s])")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_INDENT: Final = "  "


class DatedValue(msgspec.Struct, frozen=True):
    """One value; `at` is its time in ISO 8601, None for other text of the section."""

    at: str | None
    text: str


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """A note after a value was appended to one of its sections."""

    data: bytes
    anchor: str
    n_values: int
    n_dropped: int


# --- The fields of a topic ------------------------------------------------------------------------


class Headed(Placed, Protocol):
    """The properties of a section that `find_field` needs."""

    @property
    def heading(self) -> tuple[str, ...]: ...


S = TypeVar("S", bound=Headed)


def find_field(sections: Sequence[S], name: str) -> S | None:
    """Return the section with this anchor, or the field with this heading or slug of a heading;
    None if there is none.

    Raises BadRequest if several fields have this heading.
    """
    named = next((section for section in sections if section.anchor == name), None)
    if named is not None:
        return named
    fields = [head for head, _ in list_fields(sections)]
    text, slug = " ".join(name.split()).casefold(), make_slug(name)
    matching = [section for section in fields if section.heading[-1].casefold() == text]
    matching = matching or [section for section in fields if make_slug(section.heading[-1]) == slug]
    if len(matching) > 1:
        anchors = ", ".join(section.anchor for section in matching[:3])
        raise BadRequest(f"field: several sections are named {name}", hint=f"name one: {anchors}")
    return matching[0] if matching else None


# --- The values of a field ------------------------------------------------------------------------


class _Layout(msgspec.Struct, frozen=True):
    """The lines of a section: where its text begins, and its dated items."""

    lines: list[str]
    body: int
    comment: Block | None
    items: list[Block]


def _lay_out(lines: list[str]) -> _Layout:
    blocks = split_blocks(lines)
    body, comment = 0, None
    if blocks and blocks[0].kind == HEADING:
        body, blocks = blocks[0].end, blocks[1:]
    if blocks and blocks[0].kind == HTML:
        text = "\n".join(lines[blocks[0].start : blocks[0].end])
        if _COMMENT.match(text) and text.rstrip().endswith("-->"):
            comment, blocks = blocks[0], blocks[1:]
            body = comment.end
    items = [
        block
        for block in blocks
        if block.kind == ITEM and DATED_VALUE.fullmatch(lines[block.start])
    ]
    return _Layout(lines, body, comment, items)


def read_values(own: str) -> list[DatedValue]:
    """Return the values of a section. `own` is its text with its heading. The dated values come in
    their order, then the other text, if there is any.
    """
    layout = _lay_out(unify_line_ends(own).split("\n"))
    values = [_read_value(layout.lines[item.start : item.end]) for item in layout.items]
    within = {at for item in layout.items for at in range(item.start, item.end)}
    others = [layout.lines[at] for at in range(layout.body, len(layout.lines)) if at not in within]
    text = "\n".join(others).strip("\n").rstrip()
    return [*values, DatedValue(None, text)] if text.strip() else values


def _read_value(lines: Sequence[str]) -> DatedValue:
    match = DATED_VALUE.fullmatch(lines[0])
    assert match is not None
    more = [line.removeprefix(_INDENT) for line in lines[1:]]
    while more and not more[-1].strip():
        more.pop()
    return DatedValue(match[1], "\n".join([*([match[2]] if match[2] else []), *more]))


def split_values(own: str) -> list[str]:
    """Return the text of a section, followed by each of its dated values."""
    if not _ANY_VALUE.search(own):
        return [own]
    return [own, *(value.text for value in read_values(own) if value.at is not None)]


def render_value(text: str, at: str) -> list[str]:
    """Return the lines of a value. `read_values` reads it back without blank lines around it."""
    lines = [line if line.strip() else "" for line in trim_text(text).split("\n")]
    is_plain = _PLAIN_START.match(lines[0]) and not (len(lines) > 1 and "|" in lines[0])
    first = f"- {at} {lines.pop(0)}" if is_plain else f"- {at}"
    return [first, *(f"{_INDENT}{line}" if line else "" for line in lines)]


def trim_text(text: str) -> str:
    r"""Return the text in the form that a value keeps: `\n` for line ends, no blank lines around
    it.
    """
    lines = unify_line_ends(text).split("\n")
    while len(lines) > 1 and not lines[0].strip():
        del lines[0]
    while len(lines) > 1 and not lines[-1].strip():
        del lines[-1]
    return "\n".join(line.rstrip() if not line.strip() else line for line in lines).rstrip()


# --- Appending a value ----------------------------------------------------------------------------


def append_value(
    path: str, data: bytes, anchor: str, addition: Addition, *, at: str, keep: int | None
) -> Appended:
    """Append the content of the addition to a section as a value. The other fields of the addition
    go into the section's metadata. `keep` is the number of dated values that stay; None for all.

    Raises NoteNotFound if there is no such section, EditRefused if the note has another form.
    """
    place = find_sections_bytes(path, data).get(anchor)
    if place is None:
        raise NoteNotFound(f"no section {anchor}", hint="see: memsyncd topic get TOPIC")
    note = open_text(path, data)
    own = data[place[0] : place[1]].decode("utf-8", "surrogateescape")
    raw, lines = _split_lines(own, note.line_end)
    layout = _lay_out(lines)
    dropped = layout.items[keep - 1 :] if keep is not None else []
    for item in reversed(dropped):
        start = item.start
        while start > layout.body and not raw[start - 1].strip():
            start -= 1
        del raw[start : item.end]
    value = [f"{line}{note.line_end}" for line in render_value(addition.content, at)]
    _insert(raw, layout, value, note.line_end, n_items=len(layout.items) - len(dropped))
    comment = _update_comment(path, layout, addition)
    if comment is not None:
        head = layout.comment or Block(layout.body, layout.body, HTML, 0)
        raw[head.start : head.end] = [f"{comment}{note.line_end}"]
    by = "".join(raw).encode("utf-8", "surrogateescape")
    written = replace_section(path, data, anchor, by)
    values = read_values(own)
    dated = [old_value for old_value in values if old_value.at is not None][
        : None if keep is None else keep - 1
    ]
    expected = [DatedValue(at, trim_text(addition.content)), *dated]
    others = [old_value for old_value in values if old_value.at is None]
    _check_written(path, data, written, anchor, [*expected, *others])
    return Appended(data=written, anchor=anchor, n_values=len(expected), n_dropped=len(dropped))


def _open_lines(path: str, data: bytes) -> tuple[NoteText, list[str], list[str]]:
    """Return a note, its lines with their line ends, and its lines without line ends."""
    note = open_text(path, data)
    return note, *_split_lines(note.text, note.line_end)


def _split_lines(text: str, line_end: str) -> tuple[list[str], list[str]]:
    """Return the lines of a text with and without their line ends. A last line without a line end
    gets `line_end`.
    """
    raw: list[str] = _LINES.findall(text)
    if raw and not raw[-1].endswith(("\n", "\r")):
        raw[-1] += line_end
    return raw, [line.rstrip("\r\n") for line in raw]


def _insert(raw: list[str], layout: _Layout, value: list[str], end: str, *, n_items: int) -> None:
    """Insert a value above the first dated value, or at the beginning of the section's text."""
    if n_items:
        raw[layout.items[0].start : layout.items[0].start] = value
        return
    at = layout.items[0].start if layout.items else layout.body
    at = min(at, len(raw))
    after = [end] if at < len(raw) and raw[at].strip() else []
    before = [end] if at > layout.body and raw[at - 1].strip() else []
    raw[at:at] = [*before, *value, *after]


def _check_written(
    path: str, old: bytes, new: bytes, anchor: str, expected: Sequence[DatedValue]
) -> None:
    """Raise EditRefused unless the section of the new note has the expected values, and every other
    section has the same bytes as before.
    """
    texts = [
        {name: data[slice(*place)] for name, place in find_sections_bytes(path, data).items()}
        for data in (old, new)
    ]
    own = texts[1].pop(anchor, b"").decode("utf-8", "surrogateescape")
    texts[0].pop(anchor, None)
    if texts[0] != texts[1] or read_values(own) != expected:
        hint = "append to another field, or change the note with the memory tool"
        raise EditRefused(f"no value can be added at the beginning of {anchor}", hint=hint)


def add_field(path: str, data: bytes, name: str, addition: Addition, *, at: str) -> Appended:
    """Append a section for a new field with its first value.

    Raises EditRefused for a note to which no section can be added.
    """
    content = "\n".join(render_value(addition.content, at))
    first = replace(addition, content=content, summary=name, created=at)
    written, _, [anchor] = append_section(path, data, [first], at=at)
    # The text above the new field differs from the old note: `append_section` has added a missing
    # line end, and closed an open fence.
    above = written[: find_sections_bytes(path, written)[anchor][0]]
    _check_written(path, above, written, anchor, [DatedValue(at, trim_text(addition.content))])
    return Appended(data=written, anchor=anchor, n_values=1, n_dropped=0)


# --- The metadata of a field ----------------------------------------------------------------------


def _update_comment(path: str, layout: _Layout, addition: Addition) -> str | None:
    """Return the section's comment with the metadata of the addition; None if it has no metadata.

    Raises EditRefused if the addition has metadata, and the comment has another form.
    """
    changes = render_metadata(addition, None)
    if not changes:
        return None
    old = _read_comment(layout)
    pairs = read_pairs(old)
    if pairs is not None:
        before = parse_meta(path, old, 1)[0]
        tags = distinct_tags((*before.tags, *addition.tags))
        if tags:
            changes["tags"] = quote_values(tags)
        names = {key.strip().lower(): key for key in pairs}
        pairs |= {names.get(key, key): value for key, value in changes.items()}
        inner = "{" + ", ".join(f"{key}: {value}" for key, value in pairs.items()) + "}"
        after, problems = parse_meta(path, inner, 1)
        if not problems and _is_kept(before, after, changes):
            return f"<!-- memory: {inner} -->"
    hint = "leave out what is not content, or change the comment by hand"
    raise EditRefused("the metadata of the section has another form", hint=hint)


def _read_comment(layout: _Layout) -> str:
    if layout.comment is None:
        return ""
    text = "\n".join(layout.lines[layout.comment.start : layout.comment.end])
    match = _COMMENT.match(text)
    return match[1] if match else ""


def read_pairs(comment: str) -> dict[str, str] | None:
    """Return the keys of a comment with their values as YAML; None if the comment cannot be read,
    or its values cannot be written again.
    """
    try:
        loaded = load_yaml(comment)
    except ValueError:
        return None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        return None
    pairs: dict[str, str] = {}
    for key, value in loaded.items():
        rendered = _render_loaded(value)
        if rendered is None or not _KEY.fullmatch(key):
            return None
        pairs[key] = rendered
    return pairs


def _render_loaded(value: object) -> str | None:
    if isinstance(value, str):
        return quote_value(value) or '""'
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return quote_values(value) or "[]"
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        return "{" + ", ".join(f"{key}: {quote_value(item)}" for key, item in value.items()) + "}"
    return None


def _is_kept(before: Meta, after: Meta, changes: Mapping[str, str]) -> bool:
    """True if no other keys than these differ."""
    fields = [name for name in Meta.__struct_fields__ if name not in ("extra", *changes)]
    extra = [
        {key: value for key, value in meta.extra if key.lower() not in changes}
        for meta in (before, after)
    ]
    same = all(getattr(before, name) == getattr(after, name) for name in fields)
    return same and extra[0] == extra[1]


# --- Faults of a topic ----------------------------------------------------------------------------

_RELATION = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NO_TARGET = re.compile(r"[\[\]|\x00-\x1f\x7f\u2028\u2029]")
_TARGET_LIMIT_CHARS = 500
KEY_LINE = re.compile(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]|$)")
ITEM_OF_LINK = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+[a-z][a-z0-9_]{0,63}:?[ \t]+\S.*")

Identify = Callable[[str], str]
"""Returns a name for the note that a link's target leads to: equal for two targets of one note."""


class RelationLink(NamedTuple):
    """A typed link of a note; `to` is as written, without the brackets."""

    kind: str
    to: str


def find_topic_faults(
    metadata: Addition,
    fields: Mapping[str, str],
    relations: Sequence[RelationLink],
    *,
    most_chars: int = CONTENT_LIMIT_CHARS,
) -> Iterator[BadRequest]:
    """Yield one error for each invalid field of a topic. The title of the topic is the summary of
    `metadata`, and the summary of the topic is its content.
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
    if has_summary and any(block.kind == HEADING for block in split_blocks(lines)):
        yield BadRequest("summary: holds a heading", hint="give what is below it as a field")
    for name, value in fields.items():
        place = f"fields.{name.strip()[:40]}"
        if not name.strip():
            yield BadRequest("fields: contain a field without a name", hint="name it or remove it")
        block = Addition(content=value, summary=name)
        for fault in find_faults(block, most_chars=most_chars):
            yield _rename(_rename(fault, "summary", place), "content", place)
    yield from find_relation_faults("relations", relations)


def _rename(fault: BadRequest, old: str, new: str) -> BadRequest:
    if not fault.message.startswith(f"{old}: "):
        return fault
    return type(fault)(f"{new}{fault.message.removeprefix(old)}", hint=fault.hint)


def find_relation_faults(name: str, relations: Sequence[RelationLink]) -> Iterator[BadRequest]:
    for relation in relations:
        if not _RELATION.fullmatch(relation.kind):
            hint = "lower-case letters, digits and _, such as resolved_by"
            yield BadRequest(f"{name}: contain a kind that is not one word", hint=hint)
        to = clean_target(relation.to)
        if not to or _NO_TARGET.search(to) or len(to) > _TARGET_LIMIT_CHARS:
            yield BadRequest(
                f"{name}: lead to a place that no link can name",
                hint="name a note, or note#heading",
            )


def clean_target(to: str) -> str:
    """Return a target without the brackets of a link."""
    return to.strip().removeprefix("[[").removesuffix("]]").strip()


# --- The note of a topic --------------------------------------------------------------------------


def make_topic(
    path: str,
    metadata: Addition,
    fields: Mapping[str, str],
    relations: Sequence[RelationLink],
    *,
    at: str,
) -> tuple[bytes, list[str]]:
    """Return the bytes of a new note, and the anchors of its fields. `find_topic_faults` must have
    found no fault.
    """
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


# --- The front matter of a topic ------------------------------------------------------------------


def patch_front_matter(path: str, data: bytes, changes: Mapping[str, str]) -> bytes:
    """Set keys of the note's front matter. The values of `changes` are YAML; an empty value removes
    the key. All other lines stay as they are.

    Raises EditRefused if the form of the front matter does not allow it.
    """
    return change_front_matter(path, data, {key: _read_change(changes[key]) for key in changes})


def _read_change(value: str) -> KeyChange:
    loaded = load_yaml(value) if value else ""
    if isinstance(loaded, list):
        return WordsChange(only=tuple(map(str, loaded)))
    return value if isinstance(loaded, dict) else str(loaded)


# --- The summary and relations of a topic ---------------------------------------------------------


def read_summary(path: str, data: bytes) -> str:
    """Return the text below the title, without its comment and its relations."""
    note = open_text(path, data)
    lines = unify_line_ends(note.text).split("\n")
    first, after, relations = _find_summary(path, data, lines)
    kept = [line for at, line in enumerate(lines[first:after], first) if at not in relations]
    return "\n".join(kept).strip("\n").rstrip()


def replace_summary(path: str, data: bytes, summary: str) -> bytes:
    """Return the note with this text below its title. The relations there stay."""
    note, raw, lines = _open_lines(path, data)
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
    """Return the first line below the title and its comment, the line of the next heading, and the
    lines of relations between them, all 0-based.
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
    first = max(first, count_front_lines(path, lines))
    relations = {
        mention.line - 1
        for mention in list_typed(path, lines)
        if first < mention.line <= after and ITEM_OF_LINK.fullmatch(lines[mention.line - 1])
    }
    return first, after, relations


def _find_top(path: str, data: bytes) -> RawSection | None:
    """Return the section of the title, else the section before the first heading, else None."""
    sections = split_note_sections(path, data)
    title = find_title(sections)
    return title or next((section for section in sections if not section.level), None)


def list_typed(path: str, lines: Sequence[str]) -> list[Mention]:
    """Return the typed links of a note, by line."""
    blocks = split_blocks(lines, find_front_matter(path, lines).n_lines)
    mentions = find_mentions("\n".join(lines), lines, blocks)
    return [mention for mention in mentions if mention.is_link and mention.relation]


def list_relations(path: str, data: bytes) -> list[RelationLink]:
    """Return the typed links of a note, in order."""
    lines = unify_line_ends(open_text(path, data).text).split("\n")
    return [make_relation(mention) for mention in list_typed(path, lines)]


def make_relation(mention: Mention) -> RelationLink:
    """Return a typed link as it is written."""
    return RelationLink(
        mention.relation,
        f"{mention.target}#{mention.heading}" if mention.heading else mention.target,
    )


def merge_relations(
    path: str,
    data: bytes,
    relate: Sequence[RelationLink],
    unrelate: Sequence[RelationLink],
    *,
    identify: Identify,
) -> bytes:
    """Return the note without the relations `unrelate` and with the relations `relate`, each once.
    Two relations are the same if they have the same kind and lead to the same place.

    Raises EditRefused if no list can follow the text below the title.
    """
    note, _, lines = _open_lines(path, data)
    gone = {_identify(relation, identify) for relation in unrelate}
    kept: set[tuple[str, str, str]] = set()
    removed: list[int] = []
    for mention in list_typed(path, lines):
        key = _identify(make_relation(mention), identify)
        if key in gone and ITEM_OF_LINK.fullmatch(lines[mention.line - 1]):
            removed.append(mention.line - 1)
        else:
            kept.add(key)
    new: dict[tuple[str, str, str], str] = {}
    for relation in relate:
        key = _identify(relation, identify)
        if key not in kept:
            new.setdefault(key, f"- {relation.kind} [[{clean_target(relation.to)}]]{note.line_end}")
    left = _cut_relations(path, data, sorted({*removed})) if removed else data
    return _insert_relations(path, left, [*new.values()]) if new else left


def _identify(relation: RelationLink, identify: Identify) -> tuple[str, str, str]:
    target, _, heading = clean_target(relation.to).partition("#")
    return relation.kind, identify(target), make_slug(heading) if heading else ""


def _cut_relations(path: str, data: bytes, removed: Sequence[int]) -> bytes:
    """Remove these lines, and each blank line that `_insert_relations` has put beside them."""
    note, raw, lines = _open_lines(path, data)
    heads = {section.start for section in split_note_sections(path, data) if section.level}
    while removed:
        *removed, last = removed
        first = last
        while removed and removed[-1] == first - 1:
            *removed, first = removed
        end = last + 1
        is_below_blank = first > 0 and not lines[first - 1].strip()
        is_above_blank = end < len(lines) and not lines[end].strip()
        if is_below_blank and (end == len(lines) or is_above_blank or end in heads):
            first -= 1
        elif (
            not is_below_blank
            and is_above_blank
            and _is_underlined(lines, end + 1, heads)
            and not _is_list(path, lines[:first])
        ):
            end += 1
        del raw[first:end]
        # Lines above stay where they are, so the places of other items do, too.
    return note.to_bytes(_end_like(note.text, "".join(raw)))


def _insert_relations(path: str, data: bytes, new: Sequence[str]) -> bytes:
    """Insert these lines at the end of the text below the title. Raises EditRefused."""
    note, raw, lines = _open_lines(path, data)
    top = _find_top(path, data)
    sections = split_note_sections(path, data)
    heads = {section.start for section in sections if section.level}
    end = top.end if top else (sections[0].start if sections else len(lines))
    while end > 0 and not lines[end - 1].strip():
        end -= 1
    is_list = _is_list(path, lines[:end])
    # The underline of the next heading would make a heading of the list.
    is_tight = _is_underlined(lines, end, heads)
    before = [note.line_end] if end and not is_list and not is_tight else []
    after = [note.line_end] if is_tight else []
    text = _end_like(note.text, "".join((*raw[:end], *before, *new, *after, *raw[end:])))
    written = note.to_bytes(text)
    _, _, after_lines = _open_lines(path, written)
    n_more = len(list_typed(path, after_lines)) - len(list_typed(path, lines))
    if n_more != len(new) or _list_headed(path, written) != _list_headed(path, data):
        hint = "close its fence or comment, or write the link with your editor"
        raise EditRefused(f"no list of links can be added to {path}", hint=hint)
    return written


def _is_list(path: str, lines: Sequence[str]) -> bool:
    """Return whether the last of these lines is in a list."""
    blocks = split_blocks(lines, find_front_matter(path, lines).n_lines)
    return bool(blocks) and blocks[-1].kind == ITEM and blocks[-1].end == len(lines)


def _list_headed(path: str, data: bytes) -> list[str]:
    return [section.anchor for section in split_note_sections(path, data) if section.level]


def _is_underlined(lines: Sequence[str], at: int, heads: Collection[int]) -> bool:
    """Return whether this line begins a heading that a line beneath it underlines."""
    return at in heads and not lines[at].lstrip().startswith("#")


def _end_like(before: str, text: str) -> str:
    """Return the text with a line end at its end if the text before has one, or is empty."""
    is_ended = not before or before.endswith(("\n", "\r"))
    return text if is_ended else _LAST_LINE_END.sub("", text)
