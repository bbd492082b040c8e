"""Finds sections of a workspace that say nearly what a text, or another section, says.

A search by the text's longest words selects candidates; their texts are compared with it, those of
a field also value by value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.fields import split_values
from memsyncd.core.model import Span
from memsyncd.core.search.similarity import (
    Features,
    compute_similarity,
    find_features,
    make_similar_query,
)
from memsyncd.engine.browse import find_stored_section
from memsyncd.engine.metadata import describe_meta
from memsyncd.engine.redaction import must_redact, redact_section
from memsyncd.engine.search import RunOptions, complete_filters, search
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest
from memsyncd.protocol.search import (
    Filters,
    Hit,
    SearchParams,
    SimilarParams,
    SimilarSection,
)
from memsyncd.store.lookup import StoredSection, read_digest, read_sections_of
from memsyncd.store.pool import Reader
from memsyncd.store.search import count_matching, find_candidates, read_section_titles
from memsyncd.store.texts import read_note_text, read_texts

CANDIDATES = 50


def find_similar(
    workspace: Workspace, params: SimilarParams, config: Config, options: RunOptions
) -> list[SimilarSection]:
    """Return the sections whose similarity is at least `min_similarity`, the most similar first;
    never the named section itself.

    Raises BadRequest, NoteNotFound, NotFresh, and what `Workspace.acquire` raises.
    """
    if (params.anchor is None) == (params.text is None):
        raise BadRequest("similar: give either an anchor or a text", hint="leave one of them out")
    limit_s = config.search.timeout_s
    text = params.text or ""
    if params.anchor is not None:
        with workspace.acquire(limit_s) as reader:
            path, section = find_stored_section(reader, params.anchor)
            text = _read_sections(reader, path).get(section.anchor, _NOTHING)[0]
    wanted = find_features(text)
    request = SearchParams(
        query=make_similar_query(text),
        limit=CANDIDATES,
        min_score=0.0,
        filters=Filters(include_archived=params.include_archived),
    )
    hits = search([workspace], request, config, options).hits if request.query else []
    sections: dict[str, _Section] = {}
    with workspace.acquire(limit_s) as reader:
        for path in dict.fromkeys(hit.path for hit in hits):
            sections |= _read_sections(reader, path)
    found: dict[str, tuple[float, Hit]] = {}
    for hit in hits:
        if hit.anchor != params.anchor:
            text, span = sections.get(hit.anchor, _NOTHING)
            # A passage may go on to the neighbours of its section.
            lines = {"start_line": span.start, "end_line": span.end} if span else {}
            similarity = _compare(wanted, text)
            found[hit.anchor] = similarity, replace(hit, **lines)
    ordered = sorted(found.values(), key=lambda one: (-one[0], one[1].path, one[1].start_line))
    return [
        _describe(similarity, hit)
        for similarity, hit in ordered[: params.limit]
        if similarity >= params.min_similarity
    ]


# What is to be written is compared with the chunks that hold one of its rarest words, found
# in a tenth of the time: texts that say nearly the same share most of their words.
N_RAREST = 5
RARE_CHUNKS = 200
NEAR_CANDIDATES = 20
# Of the words of a text, the share that a chunk must hold for its section to be read.
NEAR_SHARE = 0.4


def find_nearly_same(
    workspace: Workspace, text: str, config: Config, *, now_s: float, limit: int
) -> list[SimilarSection]:
    """Return the sections that say nearly what a text says, by the configured similarity; archived
    and expired ones are left out. Raises what `Workspace.acquire` raises.
    """
    wanted = find_features(text)
    words = frozenset(one for one in wanted if len(one) == 1)
    found: dict[str, SimilarSection] = {}
    with workspace.acquire(config.search.timeout_s) as reader:
        match = _match_rarest(reader, make_similar_query(text).split())
        if not match:
            return []
        filters = complete_filters(Filters(), config, now_s)
        rows = find_candidates(reader, match, filters, limit=NEAR_CANDIDATES).rows
        texts = read_texts(reader, [row[0] for row in rows])
        near = {
            row[2]
            for row in rows
            if len(words & find_features(texts[row[0]])) >= NEAR_SHARE * len(words)
        }
        titles = read_section_titles(reader, near)
        paths = {title.anchor.rpartition("#")[0] for title in titles.values()}
        for path in sorted(paths):
            anchors = {one.anchor for one in titles.values()}
            for one in _compare_note(reader, workspace, path, anchors, wanted, config, now_s):
                found[one.anchor] = one
    ordered = sorted(found.values(), key=lambda one: (-one.similarity, one.path, one.start_line))
    return [one for one in ordered if one.similarity >= config.memory.similar_from][:limit]


def _match_rarest(reader: Reader, words: Sequence[str]) -> str:
    """Return the FTS5 expression for chunks with one of the rarest words; empty without words."""
    matches = [f'"{word}"' for word in words if word.isalnum()]
    counts = count_matching(reader, matches, most=RARE_CHUNKS)
    held = sorted((n, match) for n, match in zip(counts, matches, strict=True) if n)
    rare = [match for n, match in held if n < RARE_CHUNKS][:N_RAREST]
    return " OR ".join(rare) or " AND ".join(match for _, match in held[:N_RAREST])


def _compare_note(
    reader: Reader,
    workspace: Workspace,
    path: str,
    anchors: Collection[str],
    wanted: Features,
    config: Config,
    now_s: float,
) -> Iterator[SimilarSection]:
    """Compare these sections of a note."""
    lines = read_note_text(reader, path).split("\n")
    digest = read_digest(reader, path) or ""
    show = redact_section if must_redact(reader, config) else _show_whole
    for section in read_sections_of(reader, path):
        if section.anchor in anchors:
            own = "\n".join(lines[section.span.start - 1 : section.span.end])
            meta = describe_meta(show(section), config.kinds, now_s)
            similarity = _compare(wanted, own)
            yield describe_similar(workspace.id, path, digest, show(section), meta, similarity)


def _show_whole(section: StoredSection) -> StoredSection:
    return section


def _compare(wanted: Features, own: str) -> float:
    """The similarity of a section, or of the most similar value of a field."""
    return max(compute_similarity(wanted, find_features(one)) for one in split_values(own))


_Section = tuple[str, Span | None]
_NOTHING: _Section = ("", None)
_OF_A_HIT = [name for name in SimilarSection.__struct_fields__ if name in Hit.__struct_fields__]


def _read_sections(reader: Reader, path: str) -> dict[str, _Section]:
    """The text and the lines of each section of a note, without the sections beneath it."""
    lines = read_note_text(reader, path).split("\n")
    return {
        one.anchor: ("\n".join(lines[one.span.start - 1 : one.span.end]), one.span)
        for one in read_sections_of(reader, path)
    }


def _describe(similarity: float, hit: Hit) -> SimilarSection:
    return SimilarSection(
        similarity=round(similarity, 3), **{name: getattr(hit, name) for name in _OF_A_HIT}
    )


def describe_similar(
    workspace: str,
    path: str,
    digest: str,
    section: StoredSection,
    meta: Mapping[str, Any],
    similarity: float,
) -> SimilarSection:
    """Describe a section as indexed; `meta` is what `describe_meta` returns for it."""
    return SimilarSection(
        workspace=workspace,
        anchor=section.anchor,
        path=path,
        start_line=section.span.start,
        end_line=section.span.end,
        heading=list(section.heading),
        digest=digest,
        similarity=round(similarity, 3),
        **meta,
    )
