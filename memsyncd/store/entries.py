"""What are records made of, when they are handed from one records.db to another? Revisions, texts, tips and moves, one by one.

None of them bears a number of its own: a revision is known by when, by whom and to what it happened, a text by its digest.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A note that reappeared under another path with the same bytes: its history goes on there."""

    old_path: str
    new_path: str
    digest: str
    seen_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """One revision with its act. `named` and `new_named` are the paths that whoever asked for the act had named."""

    at_s: float
    client: str
    command: str
    named: str
    new_named: str | None
    path: str
    old_path: str | None
    old_digest: str | None
    new_digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPiece:
    """Some bytes of a text, from `offset` on; `size` is that of all of it."""

    digest: str
    size: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """What a note said when last heard of."""

    path: str
    digest: str


Entry = PastChange | TextPiece | Tip | Move
