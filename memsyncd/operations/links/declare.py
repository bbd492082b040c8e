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
    Command,
    Extra,
    Operation,
    Paths,
    Python,
    Shape,
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
    """A section, with all sections beneath it."""
    path: Name | None = None
    """A note. Without a note or section, all links of the workspace are listed."""
    direction: Literal["out", "in", "both"] = "both"
    relation: RelationName | RelationNames | None = None
    """Only typed links of this relation, such as `resolved_by`. Several relations are alternatives;
    an empty list means only untyped links."""
    depth: LinkDepth = 1
    """Follow links this many steps from the note or section."""
    format: Literal["dot"] | None = None
    """Draw the links as well: `dot`, the language of Graphviz."""
    dangling: bool = False
    """Only links to notes that do not exist, or to headings that their note does not have."""
    sort: Literal["file", "most"] = "file"
    """The order of all links of the workspace: by path and line, or `most`, first the links of the
    notes with the most links."""
    orphans: bool = False
    """List the notes that no link leads to or from, instead of links."""
    limit: LinkLimit = 100
    """At most so many links, or notes without links."""
    offset: LinkOffset = 0
    """Leave out so many links, which earlier pages had. `freshness.generation` tells whether the
    notes have changed between two pages."""


class LinkedElsewhere(Result, frozen=True, kw_only=True):
    """A place in another workspace."""

    workspace: str
    name: str
    to: str
    """The path of a note or the anchor of a section there."""


class LinkInfo(Result, frozen=True, kw_only=True):
    """The links from one section to one place by one relation."""

    source: str
    """The anchor of the section with the links."""
    lines: list[int]
    relation: str
    """Empty for an untyped link."""
    kind: str
    """`link`, or `embed` for a link that shows the note in place."""
    to: str | None
    """The path of a note or the anchor of a section; null if no note of this workspace has this
    name."""
    target: str
    """The name as the link writes it; empty for a link within its own note."""
    heading: str
    """The heading as the link writes it."""
    depth: int
    """Steps from the note or section; 0 in a list of all links."""
    similar: str | None = None
    """The note with the most similar name, if the link leads to no note."""
    elsewhere: LinkedElsewhere | None = None
    """The place to which a link leads whose name begins with the name of another workspace and a
    colon: `[[acme:solutions]]`. It does not dangle."""
    superseded_by: str | None = None
    """The newest memory of the chain, if the link leads to a memory that was replaced; null for the
    link that replaces it."""
    is_outside: bool = False
    """True for a link that leads out of the workspace."""
    is_heading_missing: bool = False
    """True if the note has no such heading or block: the link dangles, and leads to the note."""
    others: list[str] = msgspec.field(default_factory=list)
    """Further notes that have the name in the link, which leads to the nearest; at most 20."""


class Links(Result, frozen=True, kw_only=True):
    workspace: str
    links: list[LinkInfo]
    """The nearest first, then by path and line."""
    n_links: int
    """How many links there are, also beyond `limit`."""
    drawing: str | None = None
    """The links in the requested `format`. It draws sections if the request names a section, else
    notes."""
    relations: list[str] = msgspec.field(default_factory=list)
    """All relations that notes have, if the requested relation is none of them."""
    orphans: list[str] = msgspec.field(default_factory=list)
    """The notes without links, by path, on request."""
    freshness: Freshness


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="links",
        params=LinksParams,
        result=Links,
        summary="List the links of a note or section, from it and to it, or the dangling ones.",
        shape=Shape.STEPS,
        run="links.run:find",
        errors=OPENS,
        route="GET /v1/links",
        reads=True,
        paths=Paths(
            absolute=("path", "anchor", "note"), are_from_root=True, resolved=("anchor", "path")
        ),
        command=Command(
            words="links",
            lists="links",
            group="Find",
            summary="list links between notes, backlinks and dangling links",
            usages={"relation": "--relation R", "format": "--draw D"},
            omit=("anchor", "path", "direction", "sort", "offset"),
            extra=(
                Extra(
                    name="target",
                    usage="[ANCHOR|PATH]",
                    help="a note or section; without one, all links of the workspace",
                    is_argument=True,
                ),
                Extra(usage="--out", help="only links from it"),
                Extra(usage="--backlinks", help="only links to it"),
            ),
            action="list_links",
            examples=(
                "memsyncd links .memories/redis.md",
                "memsyncd links '.memories/errors.md#timeouts' --relation resolved_by --depth 3",
                "memsyncd links --dangling",
                "memsyncd links --orphans",
                "memsyncd links .memories/redis.md --depth 2 --draw dot | dot -Tsvg > redis.svg",
            ),
            gone={
                "--format dot": "to draw the links: --draw dot",
                "--draw svg": "Graphviz makes one: memsyncd links … --draw dot | dot -Tsvg",
            },
        ),
        python=Python(name="links", positional=("target",)),
    ),
)
