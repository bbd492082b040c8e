"""Which words do a note's path and a section's headings add to its text?"""

from __future__ import annotations

import re

_JOINTS = re.compile(r"[/_.\-\s]+")
_SUFFIX = re.compile(r"\.(md|markdown|txt)$")


def title_words(path: str, heading: tuple[str, ...]) -> str:
    """Path and breadcrumb as words: `.memories/api-notes.md`, `("Auth", "Tokens")` → `memories api notes Auth Tokens`."""
    words = _JOINTS.sub(" ", _SUFFIX.sub("", path)).strip()
    return " ".join((words, *heading))
