"""The texts of the first notes of a new memory, which say nothing about the project."""

from __future__ import annotations

# The texts by path in a workspace. A context leaves out their lines while they are unchanged.
FIRST_NOTES = {
    "MEMORY.md": """\
# Memory

What is worth knowing next time, in plain words: decisions with their reasons, preferences, errors
and how they were solved. A heading for each topic; a longer note goes into `.memories/`.
""",
    ".memories/context.md": """\
# Context

What this is about, who takes part, and what is under way.
""",
}


def is_first_text(path: str, start_line: int, lines: list[str]) -> bool:
    """True if the first note at `path` has exactly these lines from `start_line` on."""
    first = FIRST_NOTES.get(path, "").split("\n")
    return first[start_line - 1 : start_line - 1 + len(lines)] == lines
