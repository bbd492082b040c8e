"""The kinds of memories, and the kind of memory that each step of a run produces.

A kind says to which note its memories are appended, how important they are and how fast they age.
The configuration can add kinds and steps to the tables.
"""

# This module is separate from `additions`: the configuration needs the tables at the start, and
# must not load the markdown modules.

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final

import msgspec

_KIND = re.compile(r"\w[\w-]*")


class KindDefaults(msgspec.Struct, frozen=True):
    """A kind of memory. Each kind has its own table `[kinds.NAME]`. If a key is left out, the value
    of the predefined kind of this name counts, else the value for memories without a kind.
    """

    # The note to which memories of this kind are appended, relative to a workspace's root. A name
    # without a folder is a note in .memories/.
    append_to: Annotated[str, msgspec.Meta(min_length=1)]
    # The importance of such memories, from 0 to 1, if the writer gives none. A change rebuilds the
    # index.
    importance: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
    # How fast such memories age, in days: a longer time keeps them longer. After this time, 37 % of
    # the recency is left.
    half_life: Annotated[float, msgspec.Meta(ge=0.01, le=36_500)] = 30.0
    # True: such memories are never archived.
    protected: bool = False


# The defaults for a kind that is not in the table, and for a memory without a kind.
OTHER_KINDS: Final = KindDefaults(".memories/notes.md", 0.5)

DEFAULT_KINDS: Final[Mapping[str, KindDefaults]] = MappingProxyType(
    {
        "preference": KindDefaults(".memories/preferences.md", 0.95, 365.0, protected=True),
        "error": KindDefaults(".memories/errors.md", 0.9, 365.0, protected=True),
        "solution_approach": KindDefaults(".memories/solutions.md", 0.85, 180.0),
        "decision": KindDefaults(".memories/decisions.md", 0.7, 180.0),
        "research": KindDefaults(".memories/research.md", 0.7, 90.0),
        "strategy": KindDefaults(".memories/strategy.md", 0.7, 90.0),
        "procedure": KindDefaults(".memories/procedures.md", 0.65, 180.0),
        "client_pattern": KindDefaults(".memories/patterns.md", 0.6, 180.0),
        "insight": KindDefaults(".memories/insights.md", 0.6, 60.0),
        "tool_run": KindDefaults(".memories/runs.md", 0.5, 14.0),
        # The next kinds are the types of nodes in a log of tasks.
        "session": KindDefaults(".memories/sessions.md", 0.4, 14.0),
        "discovery": KindDefaults(".memories/discoveries.md", 0.6, 30.0),
        "checkpoint": KindDefaults(".memories/checkpoints.md", 0.5, 14.0),
        "note": KindDefaults(".memories/notes.md", 0.5, 30.0),
        "summary": KindDefaults(".memories/summaries.md", 0.6, 90.0),
    }
)


# The kind for a step that is not in the table.
OTHER_STEPS: Final = "insight"

# The first four steps belong to FlowState's pipeline, whose planning step is named gsd. Hooks
# capture the others.
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
    """True if the text is one word, as the name of a kind must be."""
    return _KIND.fullmatch(text.strip().lower()) is not None


def find_kind(kinds: Mapping[str, KindDefaults], kind: str | None) -> KindDefaults:
    """The defaults of a kind; `kinds` has names in lower case."""
    return kinds.get((kind or "").lower(), OTHER_KINDS)


def find_importance(
    kinds: Mapping[str, KindDefaults], kind: str | None, stated: float | None
) -> float:
    """The importance of a memory, 0-1: the stated one, else the importance of its kind."""
    return find_kind(kinds, kind).importance if stated is None else stated
