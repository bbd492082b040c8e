"""What do `records.export` and `records.import` take and give? Entries, which are also the lines of an exported file.

A revision comes before the texts that it names and that did not come yet. Times are seconds since 1970, digests those of texts.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from memsyncd.protocol.fields import Name, Params, Result
from memsyncd.protocol.memory import ClientName

FORMAT_VERSION = 1
"""Grows when an older program could not take an entry for what it is."""

Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$", max_length=32)]
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
At = Annotated[float, msgspec.Meta(ge=0.0, le=253_402_300_799.0)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=256 * 1024 * 1024)]


class _Entry(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="entry",
    omit_defaults=True,
):
    pass


class RevisionEntry(_Entry, frozen=True, kw_only=True, tag="revision"):
    """One change of one note. A revision is the same as another if all of this is."""

    at: At
    client: Name
    """Who wrote; empty for a change that was seen from outside."""
    command: Name
    named: Name
    """The path that was asked for, empty for several; of a rename the old one."""
    new_named: Name | None = None
    path: Path
    old_path: Path | None = None
    """Where the note was before, if it was moved."""
    old_digest: Digest | None = None
    """Null where no note was."""
    new_digest: Digest | None = None


class TextEntry(_Entry, frozen=True, kw_only=True, tag="text"):
    """A text, or a piece of it if it is long: pieces come one after another."""

    digest: Digest
    """Of the whole text."""
    size: Bytes
    """Of the whole text."""
    offset: Bytes = 0
    text: str | None = None
    data: bytes | None = None
    """In base64, where it is no UTF-8; exactly one of the two is there."""


class TipEntry(_Entry, frozen=True, kw_only=True, tag="tip"):
    """What a note said when last heard of."""

    path: Path
    digest: Digest


class MoveEntry(_Entry, frozen=True, kw_only=True, tag="move"):
    """A note that was seen to move, by its digest."""

    at: At
    old_path: Path
    new_path: Path
    digest: Digest


Entry = RevisionEntry | TextEntry | TipEntry | MoveEntry


class ExportParams(Params, frozen=True, kw_only=True):
    after: Annotated[str, msgspec.Meta(max_length=4200)] | None = None
    """Where the page before ended, as that said; left out, the first page."""
    workspace: Name | None = None


class ImportParams(Params, frozen=True, kw_only=True):
    version: Annotated[int, msgspec.Meta(ge=1)]
    """The `version` of the export."""
    entries: Annotated[list[Entry], msgspec.Meta(max_length=10_000)]
    """Some of an export, in its order. What is there already is passed over."""
    client: ClientName | None = None
    workspace: Name | None = None


class ExportPage(Result, frozen=True, kw_only=True):
    workspace: str
    root: str
    version: int
    entries: list[Entry]
    after: str | None
    """What the next page is asked for with; null if this is the last one."""
    damaged: int
    """Texts that are kept, cannot be read any more, and are left out of this page."""


class Imported(Result, frozen=True, kw_only=True):
    """What was not there before."""

    workspace: str
    revisions: int
    texts: int
    moves: int
    is_renumbered: bool
    """Whether revisions that were there come after one that was not, and so have other numbers now."""
