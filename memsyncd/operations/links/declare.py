"""Parameters, results and operations: links between notes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Freshness,
    Name,
    Result,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    OPENS,
    Operation,
    Paths,
)
from memsyncd.operations.sections import (
    RelationName,
    RelationNames,
)

LinkDepth = Annotated[int, msgspec.Meta(ge=1, le=20)]


LinkLimit = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


LinkOffset = Annotated[int, msgspec.Meta(ge=0)]


class LinksParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Name | None = None
    """A section, with those beneath it."""
    path: Name | None = None
    """A note; without a note or section all links of the workspace are listed."""
    direction: Literal["out", "in", "both"] = "both"
    relation: RelationName | RelationNames | None = None
    """Follow only typed links of this relation, or these, such as `resolved_by`; empty: only
    untyped ones."""
    depth: LinkDepth = 1
    """Steps to follow from the note or section."""
    format: Literal["dot"] | None = None
    """Draw the links as well, in the language of Graphviz."""
    dangling: bool = False
    """Only links that lead to no note."""
    limit: LinkLimit = 100
    offset: LinkOffset = 0
    """Links to leave out before the first one: those of the pages before. `freshness.generation`
    tells whether the notes have changed between two pages."""


class LinkInfo(Result, frozen=True, kw_only=True):
    """The links from one section to one place by one relation."""

    source: str
    """The anchor of the section that holds them."""
    lines: list[int]
    relation: str
    """Empty for an untyped link."""
    kind: str
    """`link`, or `embed` for one that shows the note in place."""
    to: str | None
    """The path of a note or the anchor of a section; null if no note has this name."""
    target: str
    """The name as written; empty for a link within its own note."""
    heading: str
    """The heading as written."""
    depth: int
    """Steps from the note or section; 0 in a list of all links."""
    similar: str | None = None
    """The note with the most similar name, for a link that leads to none."""
    is_outside: bool = False
    """True for a link that leads out of the workspace."""


class Links(Result, frozen=True, kw_only=True):
    workspace: str
    links: list[LinkInfo]
    """The nearest first, then by path and line."""
    n_links: int
    """All that were found, before `limit`."""
    drawing: str | None = None
    """The links in the `format` that was asked for: sections if they are those of a section, else
    notes."""
    relations: list[str] = msgspec.field(default_factory=list)
    """The relations that notes have, if one was asked for that none has."""
    freshness: Freshness


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="links",
        params=LinksParams,
        result=Links,
        summary="List the links of a note or section, from it and to it, or the dangling ones.",
        errors=OPENS,
        route="GET /v1/links",
        reads=True,
        paths=Paths(absolute=("path", "anchor", "note"), are_from_root=True),
    ),
)
