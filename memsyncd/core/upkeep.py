"""Care for memories as they age: archive them, promote them.

Archiving writes `status: archived` into a section's `memory:` comment, or into a new one beneath
its heading. An existing status becomes `former_status`. Nothing else changes, so restoring gives
the same bytes. A section that could not be restored to the same bytes is not archived, and the
reason is returned. A whole note is archived in its front matter, which is made if it has none.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from memsyncd.core.editing.additions import SUMMARY_LIMIT_CHARS, Addition
from memsyncd.core.editing.metadata import read_note_meta
from memsyncd.core.editing.sections import add_links, find_heading_end, find_sections_bytes
from memsyncd.core.markdown.decode import decode_note, is_utf16
from memsyncd.core.markdown.frontmatter import find_front_matter, find_section_meta
from memsyncd.core.markdown.scanner import HEADING, split_blocks
from memsyncd.core.model import ARCHIVED, Meta, Section, strip_section_comment

# --- Archiving ------------------------------------------------------------------------------------

FORMER_STATUS = "former_status"

_COMMENT = re.compile(rb"((?:[ \t]*\r?\n)*[ \t]*<!--\s*memory:\s*)(.*?)(\s*-->)", re.DOTALL)
_OTHER_FORM = "memsyncd cannot edit its metadata in this form: change the status by hand"
_WIDE = "it is UTF-16: save it as UTF-8 first"
_STATUS = b"status: archived"
_OWN_COMMENT = re.compile(rb"<!-- memory: \{status: archived\} -->(?:\r\n|\r|\n|\Z)")
_KEY = re.compile(rb"(?<![\w.-])status:(?=\s)")
_BOTH = re.compile(rb"status: archived(, |\r?\n[ \t]*)former_status:")
_IN_FLOW = re.compile(rb", status: archived(?=\s*\}\Z)|(?<=\{)status: archived,\s*")
_IN_LINES = re.compile(rb"\r?\n[ \t]*status: archived(?=\s*\Z)|\Astatus: archived\r?\n")

_FRONT = re.compile(
    rb"(---[ \t]*(?:\r\n|\r|\n))(.*?)(^(?:---|\.\.\.)[ \t]*(?:[\r\n]|\Z))", re.DOTALL | re.MULTILINE
)
_OWN_FRONT = re.compile(rb"---(\r\n|\r|\n)status: archived\1---(?:\1)?")
_FRONT_KEY = re.compile(rb"^status:(?=[ \t\r\n])", re.MULTILINE)
_FRONT_BOTH = re.compile(rb"^status: archived(?:\r\n|\r|\n)former_status:", re.MULTILINE)
_FRONT_ALONE = re.compile(rb"^status: archived(?:\r\n|\r|\n)", re.MULTILINE)


def archive_sections(
    path: str, data: bytes, anchors: Collection[str]
) -> tuple[bytes, dict[str, str]]:
    """Archive sections of a note. Returns the new bytes, and for each section that could not be
    archived the reason by its anchor.
    """
    return _change_sections(path, data, anchors, is_archived=True)


def restore_sections(
    path: str, data: bytes, anchors: Collection[str]
) -> tuple[bytes, dict[str, str]]:
    """Restore archived sections of a note. Returns the new bytes, and for each section that could
    not be restored the reason by its anchor.
    """
    return _change_sections(path, data, anchors, is_archived=False)


def _change_sections(
    path: str, data: bytes, anchors: Collection[str], *, is_archived: bool
) -> tuple[bytes, dict[str, str]]:
    places = find_sections_bytes(path, data)
    missing = _WIDE if is_utf16(data) else "the note no longer has it"
    refused = {anchor: missing for anchor in anchors if anchor not in places}
    # From the last section backwards, so that the offsets of earlier sections stay right.
    for anchor in sorted(set(anchors) & places.keys(), key=places.__getitem__, reverse=True):
        start, end = places[anchor]
        own = data[start:end]
        changed = _change_section(path, own, is_archived=is_archived)
        if isinstance(changed, str):
            refused[anchor] = changed
        else:
            data = data[:start] + changed + data[end:]
    return data, refused


def _change_section(path: str, own: bytes, *, is_archived: bool) -> bytes | str:
    """Return the bytes of a section after the change, or the reason why it is refused."""
    head = find_heading_end(path, own)
    if head is None:
        return "it has no heading, below which a status is written"
    before = _read_meta(path, own)
    if (before.status == ARCHIVED) is is_archived:
        return "it is archived already" if is_archived else "its note or its heading archives it"
    changed = (_archive if is_archived else _restore)(own, head)
    if changed is None:
        return _OTHER_FORM
    after = _read_meta(path, changed)
    former = dict(after.extra).get(FORMER_STATUS) if is_archived else None
    expected = replace(after, status=former, extra=_without_former(after))
    if is_archived and expected != replace(before, extra=_without_former(before)):
        return _OTHER_FORM
    if (after.status == ARCHIVED) is not is_archived:
        return _OTHER_FORM
    if is_archived and _restore(changed, find_heading_end(path, changed) or 0) != own:
        return _OTHER_FORM
    return changed


def _without_former(meta: Meta) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in meta.extra if pair[0] != FORMER_STATUS)


def _read_meta(path: str, own: bytes) -> Meta:
    lines = decode_note(path, own).lines
    blocks = split_blocks(lines)
    first = blocks[0].end if blocks else 0
    return find_section_meta(path, lines, first, len(lines))[0]


def _archive(own: bytes, head: int) -> bytes | None:
    match = _COMMENT.match(own, head)
    line_end = b"\r\n" if b"\r\n" in own else b"\n"
    if match is None:
        comment = b"<!-- memory: {" + _STATUS + b"} -->"
        is_ended = own[:head].endswith((b"\n", b"\r"))
        added = comment + line_end if is_ended else line_end + comment
        return own[:head] + added + own[head:]
    inner = match[2]
    is_flow = inner.startswith(b"{")
    between = b", " if is_flow else line_end
    if _KEY.search(inner):
        inner = _KEY.sub(_STATUS + between + b"former_status:", inner, count=1)
    elif is_flow and inner.endswith(b"}"):
        body = inner[:-1].rstrip()
        inner = body + between + _STATUS + inner[len(body) :]
    elif inner and not is_flow:
        inner += line_end + _STATUS
    else:
        return None
    return own[: match.start(2)] + inner + own[match.end(2) :]


def _restore(own: bytes, head: int) -> bytes | None:
    own_comment = _OWN_COMMENT.match(own, head)
    if own_comment is not None:
        # The comment was added below the last line of a note that ended without a newline.
        is_last = not own_comment[0].endswith((b"\n", b"\r"))
        return own[:head].rstrip(b"\r\n") if is_last else own[:head] + own[own_comment.end() :]
    comment = _COMMENT.match(own, head)
    if comment is None:
        return None
    inner = comment[2]
    pattern = _IN_FLOW if inner.startswith(b"{") else _IN_LINES
    restored, n_changes = _BOTH.subn(b"status:", inner, count=1)
    if not n_changes:
        restored, n_changes = pattern.subn(b"", inner, count=1)
    if not n_changes:
        return None
    return own[: comment.start(2)] + restored + own[comment.end(2) :]


# --- Whole notes --------------------------------------------------------------------------------


def archive_note(path: str, data: bytes) -> bytes | str:
    """Return the note with `status: archived` in its front matter, or the reason for no change."""
    if is_utf16(data):
        return _WIDE
    before = read_note_meta(path, data)
    if before.status == ARCHIVED:
        return "it is archived already"
    changed = _archive_front(path, data)
    after = read_note_meta(path, changed)
    expected = replace(after, status=before.status, extra=_without_former(after))
    is_kept = after.status == ARCHIVED and expected == replace(
        before, extra=_without_former(before)
    )
    return changed if is_kept and restore_note(path, changed) == data else _OTHER_FORM


def restore_note(path: str, data: bytes) -> bytes | str:
    """Return the note as it was before `archive_note`, or the reason for no change."""
    if read_note_meta(path, data).status != ARCHIVED:
        return "its front matter does not archive it"
    mark, text = _split_mark(data)
    front = _FRONT.match(text)
    if front is None:
        return _OTHER_FORM
    own = _OWN_FRONT.match(text)
    if own is not None and own.end() >= front.end(3):
        return mark + text[own.end() :]
    inner, n_changes = _FRONT_BOTH.subn(b"status:", front[2], count=1)
    if not n_changes:
        inner, n_changes = _FRONT_ALONE.subn(b"", front[2], count=1)
    restored = mark + front[1] + inner + text[front.start(3) :]
    return (
        restored if n_changes and read_note_meta(path, restored).status != ARCHIVED else _OTHER_FORM
    )


def _archive_front(path: str, data: bytes) -> bytes:
    mark, text = _split_mark(data)
    line_end = b"\r\n" if b"\r\n" in text else b"\n"
    front = _FRONT.match(text)
    if front is None or not find_front_matter(path, decode_note(path, data).lines).n_lines:
        return mark + line_end.join((b"---", _STATUS, b"---", text))
    inner, n_changes = _FRONT_KEY.subn(_STATUS + line_end + b"former_status:", front[2], count=1)
    if not n_changes:
        inner = _STATUS + line_end + inner
    return mark + front[1] + inner + text[front.start(3) :]


def _split_mark(data: bytes) -> tuple[bytes, bytes]:
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return mark, data[len(mark) :]


# --- Promotion to lasting knowledge of a project --------------------------------------------------

# The key of the metadata, and the relation of the link, that name the source.
DISCOVERED_FROM: Final = "discovered_from"

_NO_LINK = re.compile(r"[\[\]|#]")


def make_promotion(
    path: str, anchor: str, heading: str, lines: Sequence[str], meta: Meta, tag: str
) -> Addition:
    """Make the addition that promotes a memory with these lines: the memory's text, then a typed
    link to the memory.
    """
    name = f"{path}#{heading}" if heading and not _NO_LINK.search(heading) else path
    text = _find_text(lines) or heading
    return Addition(
        content=add_links(text, [f"- {DISCOVERED_FROM} [[{name}]]"]),
        summary=heading if len(heading) <= SUMMARY_LIMIT_CHARS else "",
        kind=meta.kind,
        importance=meta.importance,
        priority=meta.priority,
        lifecycle="project",
        source=meta.source,
        topic=dict(meta.extra).get("topic"),
        tags=(tag, *(other for other in meta.tags if other.casefold() != tag)),
        metadata={DISCOVERED_FROM: anchor},
    )


def _find_text(lines: Sequence[str]) -> str:
    """Return the text of a memory without its heading and its own comment."""
    blocks = split_blocks(lines)
    first = blocks[0].end if blocks and blocks[0].kind == HEADING else 0
    return strip_section_comment("\n".join(lines[first:])) if first else "\n".join(lines).strip()


def find_promoted(sections: Sequence[Section], anchor: str, tag: str) -> str | None:
    """Return the anchor of the section to which a memory was promoted with this tag."""
    for section in sections:
        tags = {own_tag.casefold() for own_tag in section.meta.tags}
        if dict(section.meta.extra).get(DISCOVERED_FROM) == anchor and tag in tags:
            return section.anchor
    return None
