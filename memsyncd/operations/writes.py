"""Fields that the answers of all writes have, and places that they name."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Result,
    Word,
)

Heading = Annotated[str, msgspec.Meta(max_length=200)]


Tags = Annotated[list[Word], msgspec.Meta(max_length=32)]


RevisionId = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


Place = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
"""The name of a note, folder or section. An empty name is refused: it is a program's mistake and
does not mean all notes."""


OnSimilar = Literal["add", "append", "report"]
"""The act if a section says nearly the same as the new text."""


WriteAction = Literal["added", "appended", "changed", "reported", "unchanged"]
"""The act that was done; after `reported` and `unchanged` nothing is written."""


class Written(Result, frozen=True, kw_only=True):
    """Common part of every answer to a write."""

    workspace: str
    generation: int
    """The index holds the write from this generation on."""
    is_indexed: bool
    """False if the write is on the disk and could not be indexed yet; `status` gives the reason."""
    change_set: int | None
    """The change set that `undo` takes; None if nothing was changed, or no history is kept."""


class AddedSection(Result, frozen=True, kw_only=True):
    anchor: str
    path: str
    start_line: int
    end_line: int
    digest: str
    """Digest of the note as written."""


class WrittenSection(Written, frozen=True, kw_only=True):
    """An answer with the place of a section, as in `AddedSection`."""

    anchor: str
    path: str
    start_line: int
    end_line: int
    digest: str
    """Digest of the note as written."""
