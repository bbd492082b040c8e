"""What does a note become when somebody adds a memory? The same bytes, a blank line, and a section of its own.

What stands is not rewritten; only a missing final newline is added, and the end of a fence or comment that was left open, or it
would swallow all that follows. What a section may say of itself is checked here and written by `comment`; that its content stays
within it is the affair of `containment`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memsyncd.core.markdown.frontmatter import find_front_matter
from memsyncd.core.markdown.lines import decode_note
from memsyncd.core.notepath import MARKDOWN_SUFFIXES, MEMORY_FILE, is_markdown
from memsyncd.core.span import Span
from memsyncd.core.titles import path_words
from memsyncd.core.writing.addition import Addition, check_addition, make_heading
from memsyncd.core.writing.comment import render_comment
from memsyncd.core.writing.containment import SECTION_LEVEL, contain, find_closing_lines, make_heading_line
from memsyncd.core.writing.kinds import DEFAULT_KINDS, OTHER_KINDS, KindDefaults
from memsyncd.core.writing.notetext import count_lines, join_texts, open_text, unify_line_ends, write_line_ends
from memsyncd.core.writing.sections import split_note_sections
from memsyncd.errors import BadRequest, EditRefused

__all__ = ["DEFAULT_KINDS", "OTHER_KINDS", "Addition", "KindDefaults", "append_section", "check_addition"]

_BLANK_END = re.compile(r"(?:\A|\n)[ \t]*\n\Z")


def append_section(path: str, data: bytes | None, additions: Sequence[Addition], *, at: str) -> tuple[bytes, tuple[Span, ...]]:
    """The note with a section for each addition at its end, and the lines of each, from its heading to its last.

    `at` is the time now as ISO text, for additions that do not say when they were made. A note that is not there or is empty
    begins with its name as a title. Raises BadRequest for an addition that cannot be, and EditRefused for a note to which no
    section can be added.
    """
    if not is_markdown(path):
        raise BadRequest("note: only markdown has sections", hint=f"name a note that ends with {' or '.join(MARKDOWN_SUFFIXES)}")
    for addition in additions:
        check_addition(addition)
    if not additions:
        return data or b"", ()
    note = open_text(path, data or b"")
    text = note.text + _end_note(path, data, note.line_end) if data else f"{_make_title(path)}\n"
    unified = unify_line_ends(text)
    is_apart = _BLANK_END.search(unified) is not None
    lines, spans = _stack([_render_section(addition, at) for addition in additions], count_lines(unified), is_apart=is_apart)
    added = note.to_bytes(join_texts(text, write_line_ends("\n".join((*lines, "")), note.line_end)))
    _check_added(path, data, added, spans)
    return added, spans


def _stack(sections: Sequence[list[str]], n_above: int, *, is_apart: bool) -> tuple[list[str], tuple[Span, ...]]:
    """The lines of all sections beneath `n_above` others, a blank one above each that needs it, and where each section is."""
    lines: list[str] = []
    spans: list[Span] = []
    for section in sections:
        if lines or not is_apart:
            lines.append("")
        start = n_above + len(lines) + 1
        lines += section
        spans.append(Span(start, n_above + len(lines)))
    return lines, tuple(spans)


def _end_note(path: str, data: bytes, line_end: str) -> str:
    """What must follow a note so that a section can: the end of its last line, and of what it left open."""
    lines = decode_note(path, data).lines
    closing = find_closing_lines(lines, find_front_matter(path, lines).n_lines)
    missing = "" if data.endswith((b"\n", b"\r")) else line_end
    return missing + "".join(f"{line}{line_end}" for line in closing)


def _make_title(path: str) -> str:
    name = path.rpartition("/")[2]
    words = "memory" if name == MEMORY_FILE else path_words(name)
    return f"# {words[:1].upper()}{words[1:]}" if words else "# Notes"


def _render_section(addition: Addition, at: str) -> list[str]:
    """The lines of a section: its heading, its comment, its content."""
    lines = unify_line_ends(addition.content).split("\n")
    while not lines[0].strip():
        del lines[0]
    while not lines[-1].strip():
        del lines[-1]
    return [make_heading_line(SECTION_LEVEL, make_heading(addition)), render_comment(addition, at), *contain(lines)]


def _check_added(path: str, data: bytes | None, added: bytes, spans: Sequence[Span]) -> None:
    """Read the note as it would be: each section must be found where it was put, and those before it be called as they were."""
    before = [section.anchor for section in split_note_sections(path, data)] if data else []
    after = split_note_sections(path, added)
    starts = {section.start + 1 for section in after if section.level == SECTION_LEVEL}
    if [section.anchor for section in after[: len(before)]] != before or not all(span.start in starts for span in spans):
        hint = "look for front matter, a fence or a comment that is never closed"
        raise EditRefused(f"{path} takes no section at its end", hint=hint)
