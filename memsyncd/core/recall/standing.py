"""In which order is memory offered to somebody who has not asked anything yet?

First what is pinned, then MEMORY.md, then what is said of the project as a whole, then the notes saved last. All but the last
may take three quarters of the budget before those have had theirs: however much is pinned, the newest is never the first to go.
Which chunks there are is left to the index, and how they read to `context`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from memsyncd.core.span import Span

StartReason = Literal["pinned", "MEMORY.md", "project", "recent"]
START_REASONS: Final[tuple[StartReason, ...]] = ("pinned", "MEMORY.md", "project", "recent")
"""The first ones first."""

LASTING_SHARE = 0.75
LABEL_TOKENS = 25
"""What a label takes, more or less; it is not known before the block is filled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChunk:
    """A chunk that is worth knowing unasked. `weight` is its section's importance, 0-1, and `modified_ns` when its note was."""

    chunk: int
    section: int
    path: str
    span: Span
    n_tokens: int
    reason: StartReason
    weight: float
    modified_ns: int


def order_start_chunks(chunks: Iterable[StartChunk], *, max_tokens: int) -> tuple[StartChunk, ...]:
    """The chunks, those first that must not be missed in a block of so many tokens."""
    ordered = sorted(chunks, key=_find_place)
    lasting = [chunk for chunk in ordered if chunk.reason != "recent"]
    recent = [chunk for chunk in ordered if chunk.reason == "recent"]
    n_first = _count_first(lasting, max_tokens * LASTING_SHARE)
    return (*lasting[:n_first], *recent, *lasting[n_first:])


def _find_place(chunk: StartChunk) -> tuple[object, ...]:
    weight = chunk.weight if chunk.reason == "pinned" else 0.0
    return START_REASONS.index(chunk.reason), -weight, -chunk.modified_ns, chunk.path, chunk.span, chunk.chunk


def _count_first(chunks: Sequence[StartChunk], max_tokens: float) -> int:
    """How many of them fit into so many tokens; one in any case."""
    n_tokens, sections = 0, set[int]()
    for i, chunk in enumerate(chunks):
        n_tokens += chunk.n_tokens + (0 if chunk.section in sections else LABEL_TOKENS)
        sections.add(chunk.section)
        if i and n_tokens > max_tokens:
            return i
    return len(chunks)
