"""The kinds of memories that have a note of their own: that note, and their importance; and the
kinds of what the steps of a run produce.

Kinds and steps are open sets; the configuration adds to the tables.
"""

# Apart from `additions`: the configuration needs the table at the start, and no markdown.

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

_KIND = re.compile(r"\w[\w-]*")


class KindDefaults(msgspec.Struct, frozen=True):
    """The note that takes memories of a kind, and their importance, 0-1."""

    note: str
    importance: float


# For a kind that is not in the table, and for no kind.
OTHER_KINDS: Final = KindDefaults(".memories/notes.md", 0.5)

DEFAULT_KINDS: Final[Mapping[str, KindDefaults]] = MappingProxyType(
    {
        "preference": KindDefaults(".memories/preferences.md", 0.95),
        "error": KindDefaults(".memories/errors.md", 0.9),
        "solution_approach": KindDefaults(".memories/solutions.md", 0.85),
        "decision": KindDefaults(".memories/decisions.md", 0.7),
        "procedure": KindDefaults(".memories/procedures.md", 0.65),
        "client_pattern": KindDefaults(".memories/patterns.md", 0.6),
        "strategy": KindDefaults(".memories/strategy.md", 0.6),
        "research": KindDefaults(".memories/research.md", 0.55),
        "insight": KindDefaults(".memories/insights.md", 0.5),
        "tool_run": KindDefaults(".memories/runs.md", 0.3),
    }
)


# For a step that is not in the table.
OTHER_STEPS: Final = "insight"

# The first four are those of FlowState's pipeline, whose planning step is named gsd; the others are
# what hooks capture.
DEFAULT_STEPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "research": "research",
        "strategy": "strategy",
        "gsd": "decision",
        "discipline": "tool_run",
        "interview": "decision",
        "plan": "decision",
        "decision": "decision",
        "summary": "insight",
    }
)


def is_kind(text: str) -> bool:
    """Whether the text is one word, as the name of a kind must be."""
    return _KIND.fullmatch(text.strip().lower()) is not None


def find_kind(kinds: Mapping[str, KindDefaults], kind: str | None) -> KindDefaults:
    """The defaults of a kind; `kinds` has names in lower case."""
    return kinds.get((kind or "").lower(), OTHER_KINDS)
