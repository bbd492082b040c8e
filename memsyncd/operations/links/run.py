"""Finds the links of notes and sections, and draws them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from memsyncd.config import Config
from memsyncd.core.guard.secrets import redact
from memsyncd.core.paths import parse_note_path
from memsyncd.engine.browse import LINKS_LIMIT_S, LIST_NOTES, find_stored_section
from memsyncd.engine.elsewhere import Elsewhere, find_elsewhere, may_lead_elsewhere
from memsyncd.engine.relations import SUPERSEDES, find_newest
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.operations.call import Call, read_saved
from memsyncd.operations.links.declare import LinkedElsewhere, LinkInfo, Links, LinksParams
from memsyncd.store.connection import is_cancelled, make_timeout_error
from memsyncd.store.pool import Reader
from memsyncd.store.sections import read_digest, read_relation_names

if TYPE_CHECKING:
    from memsyncd.core.markdown.linkgraph import Edge
    from memsyncd.core.markdown.links import NoteNames

MOST_OTHERS = 20


def find_links(
    workspace: Workspace, config: Config, params: LinksParams
) -> tuple[list[LinkInfo], int]:
    """Find the links of a note or section, or of the workspace, the nearest first. Return one page
    of them, and the number of all.

    Raises BadRequest if both a note and a section are named, NoteNotFound if the place is not
    indexed.
    """
    if params.anchor is not None and params.path is not None:
        raise BadRequest("name either an anchor or a path", hint="leave one of the two out")
    # Late, because it loads the scanner of markdown, which no start needs.
    from memsyncd.store.links import StoredLinks

    is_everywhere = params.anchor is None and params.path is None
    if not is_everywhere and params.sort != "file":
        hint = "leave out the order, or the place"
        raise BadRequest("this order is for all links of the workspace", hint=hint)
    if is_everywhere and (params.direction != "both" or params.depth != 1):
        hint = "name a note or a section to begin at, or leave out direction and depth"
        raise BadRequest("direction and depth need a place to begin at", hint=hint)
    relation = params.relation
    relations = [relation] if isinstance(relation, str) else relation
    with workspace.acquire(LINKS_LIMIT_S) as reader:
        links = StoredLinks(reader, relations)
        start = _find_start(reader, params)
        page: Iterable[Edge]
        if start is not None or (
            params.dangling and may_lead_elsewhere(workspace, links.list_prefixes())
        ):
            every = (
                links.stream(is_dangling=True)
                if start is None
                else links.walk(start, direction=params.direction, max_depth=params.depth)
            )
            found = [edge for edge in every if not params.dangling or _is_dangling(workspace, edge)]
            n_edges, page = len(found), found[params.offset : params.offset + params.limit]
        else:
            n_edges = links.count(is_dangling=params.dangling)
            edges = links.stream(
                is_dangling=params.dangling,
                offset=params.offset,
                is_most_first=params.sort == "most",
            )
            page = islice(edges, params.limit)
        page = list(page)
        newest = find_newest(reader, {edge.to for edge in page if edge.to is not None})
        infos = []
        for edge in page:
            # A search for a similar name takes milliseconds. No time limit of SQLite ends it.
            if is_cancelled():
                raise make_timeout_error()
            infos.append(
                _make_link_info(
                    workspace, edge, links.names, newest, is_masking=config.guard.is_masking
                )
            )
    return infos, n_edges


def list_other_relations(workspace: Workspace, params: LinksParams) -> list[str]:
    """List all relations that notes have, if the requested relation is none of them."""
    named = [params.relation] if isinstance(params.relation, str) else params.relation or []
    if not named:
        return []
    with workspace.acquire(LINKS_LIMIT_S) as reader:
        stored = read_relation_names(reader)
    return [] if {*named} & {*stored} else stored


def list_orphans(workspace: Workspace, params: LinksParams) -> list[str]:
    """List the notes that no link leads to or from. Raises BadRequest if a place is named, too."""
    if params.anchor is not None or params.path is not None:
        raise BadRequest("a place has links or none", hint="leave out either orphans or the place")
    # Late, because it loads the scanner of markdown, which no start needs.
    from memsyncd.store.links import find_orphans

    with workspace.acquire(LINKS_LIMIT_S) as reader:
        return find_orphans(reader, limit=params.limit)


def _find_start(reader: Reader, params: LinksParams) -> str | None:
    if params.anchor is not None:
        find_stored_section(reader, params.anchor)
        return params.anchor
    if params.path is None:
        return None
    path = parse_note_path(params.path).text
    if read_digest(reader, path) is None:
        raise NoteNotFound(f"{path} is not indexed", hint=LIST_NOTES)
    return path


def draw_links(links: Sequence[LinkInfo], params: LinksParams) -> str | None:
    """Draw links, if the request names a format."""
    if params.format is None:
        return None
    from memsyncd.core.markdown.linkgraph import render_dot

    return render_dot(links, params.anchor or params.path)


def _is_dangling(workspace: Workspace, edge: Edge) -> bool:
    if edge.to is not None:
        return edge.is_part_missing
    elsewhere = find_elsewhere(workspace, edge.target, edge.heading)
    return elsewhere is None or elsewhere.to is None


def _describe_elsewhere(elsewhere: Elsewhere | None) -> LinkedElsewhere | None:
    if elsewhere is None or elsewhere.to is None:
        return None
    entry = elsewhere.workspace.entry
    return LinkedElsewhere(workspace=entry.id, name=entry.name, to=elsewhere.to)


def _make_link_info(
    workspace: Workspace,
    edge: Edge,
    names: NoteNames,
    newest: Mapping[str, str],
    *,
    is_masking: bool,
) -> LinkInfo:
    # Late, because few requests ask for links.
    from memsyncd.core.markdown.linkgraph import note_of
    from memsyncd.core.markdown.links import leads_outside

    show = redact if is_masking else str
    is_outside = edge.to is None and leads_outside(note_of(edge.source), edge.target)
    is_own = edge.to is not None or is_outside
    elsewhere = None if is_own else find_elsewhere(workspace, edge.target, edge.heading)
    return LinkInfo(
        source=edge.source,
        lines=list(edge.lines),
        relation=edge.relation,
        to=edge.to,
        target=show(edge.target),
        heading=show(edge.heading),
        kind=edge.kind,
        depth=edge.depth,
        similar=None if is_own or elsewhere else names.find_similar(edge.target),
        elsewhere=_describe_elsewhere(elsewhere),
        superseded_by=None if edge.relation == SUPERSEDES else newest.get(edge.to or ""),
        is_outside=is_outside,
        is_heading_missing=edge.is_part_missing,
        others=[
            path
            for path in names.find_candidates(note_of(edge.source), edge.target)[1:]
            if edge.n_others
        ][:MOST_OTHERS],
    )


# --- the operation ------------------------------------------------------------------------------


async def find(call: Call, params: LinksParams) -> Links:
    workspace = await call.open()
    read_freshness = call.watch_freshness()
    if params.orphans:
        orphans = await read_saved(call, partial(list_orphans, workspace, params))
        return Links(
            workspace=workspace.id,
            links=[],
            n_links=0,
            orphans=orphans,
            freshness=read_freshness(),
        )
    links, n_links = await read_saved(call, partial(find_links, workspace, call.config, params))
    list_others = partial(list_other_relations, workspace, params)
    return Links(
        workspace=workspace.id,
        links=links,
        n_links=n_links,
        relations=[] if n_links else await call.read(list_others),
        drawing=draw_links(links, params),
        freshness=read_freshness(),
    )
