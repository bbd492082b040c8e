"""Where does a memory of a kind go, and how much does it matter, unless somebody says otherwise? A table.

Kinds are an open word: one that is not in the table goes where those without a kind go. Configuration adds to the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class KindDefaults:
    """The note that takes memories of a kind, and their importance, 0-1."""

    note: str
    importance: float


OTHER_KINDS: Final = KindDefaults(".memories/notes.md", 0.5)
"""For a kind that no table names, and for no kind."""

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
