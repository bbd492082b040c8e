"""Name a section by the title of its note and its headings: `Note › Heading`.

The daemon and the command line name sections alike; this module loads nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BETWEEN_HEADINGS = " › "


def join_headings(headings: Iterable[str]) -> str:
    """Return the headings that lead to a section as one text; empty ones are left out."""
    return BETWEEN_HEADINGS.join(filter(None, headings))


def name_section(title: str, heading: Sequence[str]) -> str:
    """Return `Note › Heading`; the note is not named if the first heading says the same."""
    note, first = (list_letters(text) for text in (title, heading[0] if heading else ""))
    is_same = bool(first) and (first.startswith(note) or note.startswith(first))
    return join_headings(heading if is_same else [title, *heading])


def list_letters(text: str) -> str:
    """Return the letters and digits of a text, by which names are compared."""
    return "".join(filter(str.isalnum, text.lower()))
