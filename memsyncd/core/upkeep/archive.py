"""Write `status: archived` into sections of a note, and take it out again.

The status goes into the section's `memory:` comment, or into a new one beneath its heading. A
status that is there becomes `former_status`. Nothing else changes, so taking it out again gives the
same bytes; a section for which that is not so stays as it is, with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from msgspec.structs import replace

from memsyncd.core.editing.sections import find_sections_bytes
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.frontmatter import find_section_meta
from memsyncd.core.markdown.scanner import HEADING, split_blocks
from memsyncd.core.model import ARCHIVED, Meta

FORMER_STATUS = "former_status"

_COMMENT = re.compile(rb"((?:[ \t]*\r?\n)*[ \t]*<!--\s*memory:\s*)(.*?)(\s*-->)", re.DOTALL)
_OTHER_FORM = "its metadata has another form: change its status by hand"
_STATUS = b"status: archived"
_OWN_COMMENT = re.compile(rb"<!-- memory: \{status: archived\} -->(?:\r\n|\r|\n|\Z)")
_KEY = re.compile(rb"(?<![\w.-])status:(?=\s)")
_BOTH = re.compile(rb"status: archived(, |\r?\n[ \t]*)former_status:")
_IN_FLOW = re.compile(rb", status: archived(?=\s*\}\Z)|(?<=\{)status: archived,\s*")
_IN_LINES = re.compile(rb"\r?\n[ \t]*status: archived(?=\s*\Z)|\Astatus: archived\r?\n")

_Change = Callable[[bytes, int], bytes | None]


def archive_sections(
    path: str, data: bytes, anchors: Collection[str]
) -> tuple[bytes, dict[str, str]]:
    """Return the note with these sections archived, and why the others of them stay."""
    return _change_sections(path, data, anchors, _archive, _restore, is_archived=True)


def restore_sections(
    path: str, data: bytes, anchors: Collection[str]
) -> tuple[bytes, dict[str, str]]:
    """Return the note with these sections no longer archived, and why the others of them stay."""
    return _change_sections(path, data, anchors, _restore, None, is_archived=False)


def _change_sections(
    path: str,
    data: bytes,
    anchors: Collection[str],
    change: _Change,
    inverse: _Change | None,
    *,
    is_archived: bool,
) -> tuple[bytes, dict[str, str]]:
    places = find_sections_bytes(path, data)
    refused = {anchor: "the note no longer has it" for anchor in anchors if anchor not in places}
    # From the last section on, so that the places of those before it stay.
    for anchor in sorted(set(anchors) & places.keys(), key=places.__getitem__, reverse=True):
        start, end = places[anchor]
        own = data[start:end]
        changed = _change_one(path, own, change, inverse, is_archived=is_archived)
        if isinstance(changed, str):
            refused[anchor] = changed
        else:
            data = data[:start] + changed + data[end:]
    return data, refused


def _change_one(
    path: str,
    own: bytes,
    change: _Change,
    inverse: _Change | None,
    *,
    is_archived: bool,
) -> bytes | str:
    """Return the bytes of a section after the change, or why it cannot be done."""
    head = _find_heading_end(path, own)
    if head is None:
        return "it has no heading that a status could be written below"
    before = _read_meta(path, own)
    if (before.status == ARCHIVED) is is_archived:
        return "it is archived already" if is_archived else "its note or its heading archives it"
    changed = change(own, head)
    if changed is None:
        return _OTHER_FORM
    after = _read_meta(path, changed)
    former = dict(after.extra).get(FORMER_STATUS) if is_archived else None
    expected = replace(after, status=former, extra=_without_former(after))
    if is_archived and expected != replace(before, extra=_without_former(before)):
        return _OTHER_FORM
    if (after.status == ARCHIVED) is not is_archived:
        return _OTHER_FORM
    if inverse is not None and inverse(changed, _find_heading_end(path, changed) or 0) != own:
        return _OTHER_FORM
    return changed


def _without_former(meta: Meta) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in meta.extra if pair[0] != FORMER_STATUS)


def _find_heading_end(path: str, own: bytes) -> int | None:
    """Return the offset after the heading of a section; None without a heading."""
    lines = decode_note(path, own).lines
    blocks = split_blocks(lines)
    if not blocks or blocks[0].kind != HEADING or blocks[0].start:
        return None
    ends = [found.end() for found in re.finditer(rb"\r\n|\r|\n|\Z", own)]
    return ends[blocks[0].end - 1]


def _read_meta(path: str, own: bytes) -> Meta:
    lines = decode_note(path, own).lines
    blocks = split_blocks(lines)
    first = blocks[0].end if blocks else 0
    return find_section_meta(path, lines, first, len(lines))[0]


def _archive(own: bytes, head: int) -> bytes | None:
    found = _COMMENT.match(own, head)
    line_end = b"\r\n" if b"\r\n" in own else b"\n"
    if found is None:
        comment = b"<!-- memory: {" + _STATUS + b"} -->"
        is_ended = own[:head].endswith((b"\n", b"\r"))
        added = comment + line_end if is_ended else line_end + comment
        return own[:head] + added + own[head:]
    inner = found[2]
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
    return own[: found.start(2)] + inner + own[found.end(2) :]


def _restore(own: bytes, head: int) -> bytes | None:
    own_comment = _OWN_COMMENT.match(own, head)
    if own_comment is not None:
        # It was added below the last line of a note that ends without a newline.
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
