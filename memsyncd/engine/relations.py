"""Finds the sections that typed links lead to, and contradictions.

A typed link belongs to the memory that holds it. A memory is a section of the second level, or a
section of the first level without sections of the second, with all sections beneath it. A link to a
whole note concerns each of its sections.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.model import ARCHIVED
from memsyncd.core.search.passages import highlight, strip_title
from memsyncd.engine.browse import LINKS_LIMIT_S
from memsyncd.engine.elsewhere import find_elsewhere
from memsyncd.engine.metadata import describe_meta, find_stored_day, is_expired, name_note
from memsyncd.engine.redaction import read_redacted_chunks, read_redacted_sections
from memsyncd.errors import MemsyncdError
from memsyncd.operations.search.declare import Hit, RelatedSection
from memsyncd.store.pool import Reader
from memsyncd.store.sections import (
    has_relation,
    read_levels,
    read_section,
    read_section_titles,
)

if TYPE_CHECKING:
    from memsyncd.core.markdown.linkgraph import Edge
    from memsyncd.core.search.filters import Filters
    from memsyncd.core.search.plan import SearchPlan
    from memsyncd.core.search.ranking import Candidate
    from memsyncd.engine.workspace import Workspace
    from memsyncd.store.links import StoredLinks
    from memsyncd.store.sections import HitSection

CONTRADICTS = "contradicts"
SUPERSEDES = "supersedes"
_PAIRS = (
    ("resolved_by", "resolves"),
    ("caused_by", "causes"),
    ("blocked_by", "blocks"),
    ("superseded_by", SUPERSEDES),
)
INVERSES = dict((*_PAIRS, *((active, passive) for passive, active in _PAIRS)))
"""Relations that say the same in the other direction."""
# The most related sections of a hit, and the most chunks that are read of such a section.
MAX_RELATED = 20
MAX_CHUNKS = 50
# The most steps to the newest memory of a chain.
MAX_SUPERSEDED = 100
DAY_CHARS = 10
# The level of a memory's heading: deeper headings are within the memory.
MEMORY_LEVEL = 2


class Relation(NamedTuple):
    """A typed link: its relation, and the section or note that it leads to, in another workspace if
    the link names one.
    """

    name: str
    to: str
    other: Workspace | None = None


class Contradictions(NamedTuple):
    """The places that a section contradicts, and the places that contradict it, by their links; the
    memories that it supersedes, since which day, and the newest memories that supersede it.
    """

    contradicts: list[str]
    contradicted_by: list[str]
    supersedes: list[str]
    superseded_by: list[str]
    since: str


class RelatedChunks(NamedTuple):
    """The chunks of a section, or note, that a typed link leads to, with their sections."""

    relation: Relation
    reader: Reader
    chunks: Sequence[Candidate]
    sections: Mapping[int, HitSection]

    def list_anchors(self) -> list[str]:
        """The sections, by line; the section that the link names comes first."""
        named = [self.relation.to] if "#" in self.relation.to else []
        anchors = (self.sections[chunk.section].anchor for chunk in self.chunks)
        return list(dict.fromkeys([*named, *anchors]))


def find_contradictions(reader: Reader, anchors: Iterable[str]) -> dict[str, Contradictions]:
    """Return the contradictions of the sections that have any, and the memories that supersede
    them, by anchor. This costs nothing if no note states such a relation.
    """
    names = [name for name in (CONTRADICTS, SUPERSEDES) if has_relation(reader, name)]
    if not names:
        return {}
    from memsyncd.store.links import StoredLinks

    links = StoredLinks(reader, names)
    contradictions: dict[str, Contradictions] = {}
    for path, several in _group_by_note(anchors).items():
        outgoing, incoming = links.list_outgoing(path), links.list_incoming(path)
        if not outgoing and not incoming:
            continue
        heads = find_heads(read_levels(reader, path))
        for anchor in several:
            own = [edge for edge in outgoing if _is_own(edge, anchor, heads)]
            others = [edge for edge in incoming if _concerns(edge.to, anchor, path, heads)]
            newer = _list_once(edge.source for edge in others if edge.relation == SUPERSEDES)
            former = _list_once(edge.to for edge in own if edge.relation == SUPERSEDES)
            standing = Contradictions(
                _list_once(edge.to for edge in own if edge.relation == CONTRADICTS),
                _list_once(edge.source for edge in others if edge.relation == CONTRADICTS),
                former,
                _list_once(_find_newest(reader, links, place) for place in newer),
                _find_day(reader, anchor) if former else "",
            )
            if any(standing):
                contradictions[anchor] = standing
    return contradictions


def find_newest(reader: Reader, anchors: Iterable[str]) -> dict[str, str]:
    """Return the newest memory of the chain for each of the sections that another supersedes."""
    standings = find_contradictions(reader, [anchor for anchor in anchors if "#" in anchor])
    return {
        anchor: standing.superseded_by[0]
        for anchor, standing in standings.items()
        if standing.superseded_by
    }


def _find_day(reader: Reader, anchor: str) -> str:
    """Return the day on which a section was written."""
    stored = read_section(reader, anchor)
    return "" if stored is None else (stored[1].created or find_stored_day(stored[1]))[:DAY_CHARS]


def _find_newest(reader: Reader, links: StoredLinks, anchor: str) -> str:
    """Return the memory at the end of a chain of memories that supersede each other."""
    seen = {anchor}
    for _ in range(MAX_SUPERSEDED):
        path = anchor.rpartition("#")[0]
        heads = find_heads(read_levels(reader, path))
        newer = (
            edge.source
            for edge in links.list_incoming(path)
            if edge.relation == SUPERSEDES and _concerns(edge.to, anchor, path, heads)
        )
        after = next((source for source in newer if source not in seen), None)
        if after is None:
            break
        seen.add(after)
        anchor = after
    return anchor


def find_relations(
    reader: Reader,
    anchors: Iterable[str],
    names: Iterable[str],
    workspace: Workspace | None = None,
) -> dict[str, list[Relation]]:
    """Return, by anchor, the places to which the typed links of each section's memory lead: in
    order of lines, each once, and none within that memory. Then come the memories with links of the
    inverse relation to this one: a solution that `resolves` an error is what resolved it.

    With the `workspace` of the reader, links lead to other workspaces, too.
    """
    from memsyncd.store.links import StoredLinks

    names = [*names]
    inverses = [INVERSES[name] for name in names if name in INVERSES]
    links = StoredLinks(reader, names)
    leading = StoredLinks(reader, [name for name in inverses if has_relation(reader, name)])
    relations: dict[str, list[Relation]] = {}
    for path, several in _group_by_note(anchors).items():
        outgoing = links.list_outgoing(path)
        incoming = leading.list_incoming(path)
        heads = find_heads(read_levels(reader, path)) if outgoing or incoming else {}
        for anchor in several:
            own = [
                relation
                for edge in outgoing
                if _is_own(edge, anchor, heads)
                for relation in _lead(edge, workspace)
            ]
            own += [
                Relation(INVERSES[edge.relation], _find_head(reader, edge.source))
                for edge in incoming
                if _concerns(edge.to, anchor, path, heads)
            ]
            relations[anchor] = list(
                dict.fromkeys(
                    relation
                    for relation in own
                    if heads.get(relation.to, relation.to) != heads.get(anchor)
                )
            )
    return relations


def _lead(edge: Edge, workspace: Workspace | None) -> Iterator[Relation]:
    """Yield the place to which a link leads, if there is one."""
    if edge.to is not None:
        yield Relation(edge.relation, edge.to)
    elif workspace is not None and ":" in edge.target:
        elsewhere = find_elsewhere(workspace, edge.target, edge.heading)
        if elsewhere is not None and elsewhere.to is not None:
            yield Relation(edge.relation, elsewhere.to, elsewhere.workspace)


def _find_head(reader: Reader, anchor: str) -> str:
    """Return the first section of the memory that has a section."""
    return find_heads(read_levels(reader, anchor.rpartition("#")[0])).get(anchor, anchor)


def find_heads(levels: Iterable[tuple[str, int]]) -> dict[str, str]:
    """Return for each section of a note the first section of its memory."""
    heads: dict[str, str] = {}
    head = ""
    for anchor, level in levels:
        if not (head and level > MEMORY_LEVEL and anchor.startswith(f"{head}/")):
            head = anchor
        heads[anchor] = head
    return heads


def _group_by_note(anchors: Iterable[str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for anchor in dict.fromkeys(anchors):
        grouped.setdefault(anchor.rpartition("#")[0], []).append(anchor)
    return grouped


def _is_own(edge: Edge, anchor: str, heads: Mapping[str, str]) -> bool:
    """True if a link is in the memory of a section."""
    return anchor in heads and heads.get(edge.source) == heads[anchor]


def _concerns(to: str | None, anchor: str, path: str, heads: Mapping[str, str]) -> bool:
    return to == path or (to is not None and anchor in heads and heads[anchor] == heads.get(to))


def _list_once(places: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(place for place in places if place is not None))


# --- texts --------------------------------------------------------------------------------------


def _is_never_absent(_path: str) -> bool:
    return False


class RelatedReader(NamedTuple):
    """Reads the sections to which relations lead and that the answer may show: no section that the
    filters hide as archived or expired, and no absent note.
    """

    reader: Reader
    config: Config
    filters: Filters
    now_s: float
    is_absent: Callable[[str], bool] = _is_never_absent

    def read(self, relations: Iterable[Relation]) -> Iterator[RelatedChunks]:
        """Yield the chunks of each place that may be shown."""
        from memsyncd.store.links import find_chunks_of

        for relation in relations:
            if relation.other is not None:
                yield from self._read_elsewhere(relation, relation.other)
                continue
            chunks = find_chunks_of(self.reader, relation.to, limit=MAX_CHUNKS)
            ids = dict.fromkeys(chunk.section for chunk in chunks)
            sections = read_redacted_sections(self.reader, ids, self.config)
            visible = [chunk for chunk in chunks if self._may_show(chunk, sections)]
            if visible:
                yield RelatedChunks(relation, self.reader, visible, sections)

    def _read_elsewhere(self, relation: Relation, other: Workspace) -> Iterator[RelatedChunks]:
        """Yield the chunks of a place in another workspace; its reader is open until the next."""
        with contextlib.suppress(MemsyncdError), other.acquire(LINKS_LIMIT_S) as reader:
            own = self._replace(reader=reader, is_absent=_is_never_absent)
            for related in own.read([relation._replace(other=None)]):
                yield related._replace(relation=relation)

    def _may_show(self, chunk: Candidate, sections: Mapping[int, HitSection]) -> bool:
        section, filters = sections[chunk.section], self.filters
        return (
            not self.is_absent(chunk.path)
            and (section.status != ARCHIVED or filters.is_archived or filters.includes_archived)
            and (
                not is_expired(section.expires, self.now_s)
                or filters.is_expired
                or filters.includes_expired
            )
        )

    def describe(self, related: RelatedChunks) -> RelatedSection:
        first = related.chunks[0]
        section = related.sections[first.section]
        text = read_redacted_chunks(related.reader, [first.chunk], self.config)[first.chunk]
        title = section.heading[-1] if section.heading else ""
        return RelatedSection(
            relation=related.relation.name,
            workspace=other.id if (other := related.relation.other) else None,
            workspace_name=other.entry.name if other else None,
            anchor=section.anchor,
            path=first.path,
            start_line=first.start_line,
            end_line=max(chunk.end_line for chunk in related.chunks),
            title=name_note(section),
            heading=list(section.heading),
            snippet=highlight(strip_title(text, title) or text, {}),
            **describe_meta(section, self.config.kinds, self.now_s),
        )


def make_related_reader(
    reader: Reader, config: Config, plan: SearchPlan, workspace_id: str, now_s: float
) -> RelatedReader:
    """Make the reader of the related sections of a workspace that the answer may show."""
    is_absent = partial(plan.is_absent, workspace_id)
    return RelatedReader(reader, config, plan.filters, now_s, is_absent)


def complete_hits(
    reader: Reader,
    hits: Sequence[Hit],
    sections: Sequence[Sequence[int]],
    follow: Sequence[str],
    related: RelatedReader,
    workspace: Workspace,
) -> list[Hit]:
    """Add contradictions to hits, and the sections to which the relations in `follow` lead.
    `sections` has the numbers of all sections of each hit's passage.
    """
    is_related = has_relation(reader, CONTRADICTS) or has_relation(reader, SUPERSEDES)
    if not follow and not is_related:
        return list(hits)
    titles = read_section_titles(reader, {section for several in sections for section in several})
    anchors = {section: title.anchor for section, title in titles.items()}
    contradictions = find_contradictions(reader, anchors.values())
    relations = find_relations(reader, anchors.values(), follow, workspace) if follow else {}
    return [
        replace(
            hit,
            **_join([contradictions.get(anchor, _NO_CONTRADICTIONS) for anchor in own])._asdict(),
            related=[*map(related.describe, related.read(_list_related(relations, own)))],
        )
        for hit, several in zip(hits, sections, strict=True)
        for own in [[anchors[section] for section in dict.fromkeys(several)]]
    ]


_NO_CONTRADICTIONS = Contradictions([], [], [], [], "")


def _join(several: Sequence[Contradictions]) -> Contradictions:
    return Contradictions(
        _list_once(place for part in several for place in part.contradicts),
        _list_once(place for part in several for place in part.contradicted_by),
        _list_once(place for part in several for place in part.supersedes),
        _list_once(place for part in several for place in part.superseded_by),
        next((part.since for part in several if part.since), ""),
    )


def _list_related(
    relations: Mapping[str, Sequence[Relation]], anchors: Iterable[str]
) -> Sequence[Relation]:
    every = (relation for anchor in anchors for relation in relations.get(anchor, ()))
    return list(dict.fromkeys(every))[:MAX_RELATED]
