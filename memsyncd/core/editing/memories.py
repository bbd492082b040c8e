"""Change one memory of a note: its relations and its heading; remove it; change links to it.

A memory is a section with all sections beneath it. Its relations are typed links, in a list at the
end of its own text. A change of one section that would alter the bytes of another section raises
EditRefused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from memsyncd.core.editing.metadata import check_others
from memsyncd.core.editing.sections import (
    find_heading_end,
    find_sections_bytes,
    make_heading_line,
    open_text,
    replace_section,
    split_note_sections,
    unify_line_ends,
)
from memsyncd.core.editing.topics import (
    ITEM_OF_LINK,
    RelationLink,
    clean_target,
    list_typed,
    make_relation,
)
from memsyncd.core.markdown.frontmatter import find_front_matter
from memsyncd.core.markdown.links import Mention, find_link_spans, find_mentions
from memsyncd.core.markdown.scanner import ITEM, split_blocks
from memsyncd.core.markdown.sections import RawSection, make_slug
from memsyncd.errors import EditRefused, NoteNotFound

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_END = re.compile(r"(?:\r\n|\r|\n)\Z")
_ATX = re.compile(r"([ ]{0,3}#{1,6}[ \t]+)(.*?)([ \t]+#+[ \t]*)?(\r\n|\r|\n|\Z)", re.DOTALL)
_LABEL = re.compile(r"\[\[[^\[\]]*?\\?\|([^\[\]]*)\]\]|\[([^\[\]]*)\]\(")


def list_beneath(sections: Sequence[RawSection], anchor: str) -> list[RawSection]:
    """Return the section with this anchor and the sections beneath it; empty if it is missing."""
    at = next((at for at, section in enumerate(sections) if section.anchor == anchor), None)
    if at is None:
        return []
    head, after = sections[at], at + 1
    while after < len(sections) and sections[after].level > head.level > 0:
        after += 1
    return list(sections[at:after])


# --- relations ----------------------------------------------------------------------------------

IdentifyPlace = Callable[[str], str]
"""Returns a name for the place that a link's target leads to. `note#heading` and the anchor of that
section get the same name."""


def merge_section_relations(
    path: str,
    data: bytes,
    anchor: str,
    relate: Sequence[RelationLink],
    unrelate: Sequence[RelationLink],
    *,
    identify: IdentifyPlace,
) -> bytes:
    """Remove the typed links `unrelate` from a section, and add the typed links `relate` at the end
    of its own text, each once. Return the note.

    Raises NoteNotFound if the section is missing, EditRefused if no list can follow its text.
    """
    note = open_text(path, data)
    lines = unify_line_ends(note.text).split("\n")
    sections = split_note_sections(path, data)
    section = next((relation for relation in sections if relation.anchor == anchor), None)
    if section is None:
        raise NoteNotFound(f"no section {anchor}", hint="list them with: memsyncd list --sections")
    gone = {_identify(relation, identify) for relation in unrelate}
    present: set[tuple[str, str]] = set()
    removed: set[int] = set()
    for mention in list_typed(path, lines):
        if not section.start < mention.line <= section.end:
            continue
        key = _identify(make_relation(mention), identify)
        if key in gone and ITEM_OF_LINK.fullmatch(lines[mention.line - 1]):
            removed.add(mention.line - 1 - section.start)
        else:
            present.add(key)
    new: dict[tuple[str, str], str] = {}
    for relation in relate:
        key = _identify(relation, identify)
        if key not in present:
            new.setdefault(key, f"- {relation.kind} [[{clean_target(relation.to)}]]")
    if not (removed or new):
        return data
    start, end = find_sections_bytes(path, data)[anchor]
    own = data[start:end].decode("utf-8", "surrogateescape")
    changed = _append_items(_cut_items(own, removed), list(new.values()), note.line_end)
    written = data[:start] + changed.encode("utf-8", "surrogateescape") + data[end:]
    check_others(path, data, written, anchor)
    after = {
        _identify(make_relation(mention), identify) for mention in list_typed(path, _split(written))
    }
    if not after.issuperset(new):
        hint = "close its fence or comment, or write the link with your editor"
        raise EditRefused(f"no list of links can be added at the end of {anchor}", hint=hint)
    return written


def _split(data: bytes) -> list[str]:
    return unify_line_ends(data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")).split(
        "\n"
    )


def _identify(relation: RelationLink, identify: IdentifyPlace) -> tuple[str, str]:
    return relation.kind, identify(clean_target(relation.to))


def _cut_items(own: str, removed: Collection[int]) -> str:
    """Return the text of a section without these lines. If they are the last lines, the blank lines
    above them are removed, too.
    """
    raw = _LINE.findall(own)
    if not removed:
        return own
    is_ended = _is_ended(own)
    kept = [line for at, line in enumerate(raw) if at not in removed]
    while max(removed) == len(raw) - 1 and len(kept) > 1 and not kept[-1].strip():
        kept.pop()
    text = "".join(kept)
    return text if is_ended else _END.sub("", text)


def _append_items(own: str, items: Sequence[str], line_end: str) -> str:
    if not items:
        return own
    is_ended = _is_ended(own)
    lines = unify_line_ends(own).removesuffix("\n").split("\n")
    blocks = split_blocks(lines)
    is_list = bool(blocks) and blocks[-1].kind == ITEM and blocks[-1].end == len(lines)
    between = "" if is_ended else line_end
    gap = "" if is_list else line_end
    added = line_end.join(items) + (line_end if is_ended else "")
    return f"{own}{between}{gap}{added}"


# --- the heading --------------------------------------------------------------------------------


def rename_section(path: str, data: bytes, anchor: str, title: str) -> tuple[bytes, dict[str, str]]:
    """Change the heading of a section. Return the note, and the new anchor of each section by its
    old anchor. The level and the marks of the heading stay.

    Raises NoteNotFound if the section is missing, EditRefused if it has no heading.
    """
    note = open_text(path, data)
    before = split_note_sections(path, data)
    place = find_sections_bytes(path, data).get(anchor)
    if place is None:
        raise NoteNotFound(f"no section {anchor}", hint="list them with: memsyncd list --sections")
    own = data[slice(*place)]
    end = find_heading_end(path, own)
    if end is None:
        raise EditRefused(f"{anchor} has no heading", hint=f"name the whole note instead: {path}")
    at = [section.anchor for section in before].index(anchor)
    heading = own[:end].decode("utf-8", "surrogateescape")
    new = _write_heading(heading, before[at].level, title, note.line_end)
    written = data[: place[0]] + new.encode("utf-8", "surrogateescape") + data[place[0] + end :]
    after = split_note_sections(path, written)
    is_kept = len(after) == len(before) and after[at].heading[-1:] == (" ".join(title.split()),)
    bodies = [
        [data[slice(*places[each.anchor])] for number, each in enumerate(sections) if number != at]
        for data, sections, places in (
            (data, before, find_sections_bytes(path, data)),
            (written, after, find_sections_bytes(path, written)),
        )
    ]
    if not is_kept or bodies[0] != bodies[1]:
        raise EditRefused(f"{title!r} cannot be the heading of {anchor}", hint="use plain words")
    return written, {
        old.anchor: new_section.anchor for old, new_section in zip(before, after, strict=True)
    }


def _write_heading(heading: str, level: int, title: str, line_end: str) -> str:
    text = make_heading_line(level, title).lstrip("#").strip()
    atx = _ATX.fullmatch(heading)
    if atx:
        return f"{atx[1]}{text}{atx[3] or ''}{atx[4]}"
    lines = _LINE.findall(heading)
    if len(lines) > 1:
        # The underline of a setext heading stays.
        end = _END.search(lines[0])
        return f"{' '.join(title.split())}{end[0] if end else line_end}{lines[-1]}"
    end = _END.search(heading)
    return make_heading_line(level, title) + (end[0] if end else "")


# --- removal ------------------------------------------------------------------------------------


def remove_sections(path: str, data: bytes, anchors: Iterable[str]) -> bytes:
    """Return the note without these sections. The anchors must include all sections beneath them.

    Raises EditRefused if any other section would change.
    """
    sections = split_note_sections(path, data)
    named = set(anchors)
    open_text(path, data)  # raises EditRefused for a note that cannot be edited
    left = data
    # The last section is removed first, so that the anchors of the sections before it stay.
    for section in reversed(sections):
        if section.anchor in named:
            left = replace_section(path, left, section.anchor, b"")
    texts = find_sections_bytes(path, data)
    kept = [data[slice(*texts[each.anchor])] for each in sections if each.anchor not in named]
    after = [left[start:end] for start, end in find_sections_bytes(path, left).values()]
    if [text.rstrip() for text in after if text.strip()] != [
        text.rstrip() for text in kept if text.strip()
    ]:
        hint = "remove the section with your editor or the memory tool"
        raise EditRefused(f"{path}: other sections would change", hint=hint)
    return left


# --- links --------------------------------------------------------------------------------------

Redirect = Callable[[Mention], str | None]
"""Returns the new heading of a link, an empty text to remove the link, or None to keep it."""


def change_links(path: str, data: bytes, redirect: Redirect) -> bytes:
    """Change or remove the links of a note, as `redirect` says. A typed link is removed with its
    line. Any other removed link becomes plain text: its label, or the name of its target.
    """
    note = open_text(path, data)
    raw = _LINE.findall(note.text)
    lines = [line.rstrip("\r\n") for line in raw]
    front = find_front_matter(path, lines).n_lines
    mentions = find_mentions("\n".join(lines), lines, split_blocks(lines, front))
    places = sorted({mention.line - 1 for mention in mentions if mention.is_link}, reverse=True)
    for place in places:
        at, line = place, lines[place]
        changed = _change_line(line, place + 1, redirect)
        if changed is None:
            del raw[at]
            is_apart = at == len(raw) or not raw[at].strip()
            if at and is_apart and not raw[at - 1].strip():
                del raw[at - 1]
                at -= 1
            # If the note had no final line end, its new last line must have none, too.
            if at == len(raw) and raw and not _is_ended(note.text):
                raw[-1] = _END.sub("", raw[-1])
        elif changed != line:
            raw[at] = changed + raw[at][len(line) :]
    return note.to_bytes("".join(raw))


def _is_ended(text: str) -> bool:
    return _END.search(text) is not None


def _change_line(line: str, number: int, redirect: Redirect) -> str | None:
    """Return the line after the change; None to remove it."""
    for mention, start, end in reversed([*find_link_spans(line, number)]):
        heading = redirect(mention)
        if heading is None:
            continue
        if not heading and mention.relation and ITEM_OF_LINK.fullmatch(line):
            return None
        written = line[start:end]
        if heading:
            is_wiki = written.startswith("[[")
            name = heading if is_wiki or "/" in heading else make_slug(heading)
            by = written.replace(f"#{mention.heading}", f"#{name}", 1)
        else:
            label = _LABEL.match(written)
            name = next((text for text in label.groups() if text), "") if label else ""
            by = name or mention.heading.rpartition("#")[2] or mention.target
        is_embedded = mention.kind == "embed" and not heading and line[:start].endswith("!")
        line = line[: start - is_embedded] + by + line[end:]
    return line
