"""Which words do a note's path and a section's headings add to its text?"""

from __future__ import annotations

import re

_JOINTS = re.compile(r"[/_.\-\s]+")
_SUFFIX = re.compile(r"\.(md|markdown|txt)$")


def path_words(path: str) -> str:
    """The words of a path: `.memories/api-notes.md` → `memories api notes`."""
    return _JOINTS.sub(" ", _SUFFIX.sub("", path)).strip()


def title_words(words: str, heading: tuple[str, ...]) -> str:
    """The words of a path and a breadcrumb: `memories api notes`, `("Auth", "Tokens")` → `memories api notes Auth Tokens`."""
    return " ".join((words, *heading))
