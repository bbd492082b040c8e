"""Finds sections of a workspace that say nearly what a text, or another section, says.

A search by the text's longest words selects candidates; their texts are compared with it, those of
a field also value by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.fields import split_values
from memsyncd.core.model import Span
from memsyncd.core.search.similarity import compute_similarity, find_features, make_similar_query
from memsyncd.engine.browse import find_stored_section
from memsyncd.engine.search import RunOptions, search
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest
from memsyncd.protocol.search import (
    Filters,
    Hit,
    SearchParams,
    SimilarParams,
    SimilarSection,
)
from memsyncd.store.lookup import StoredSection, read_sections_of
from memsyncd.store.pool import Reader
from memsyncd.store.texts import read_note_text

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
            similarity = max(
                compute_similarity(wanted, find_features(one)) for one in split_values(text)
            )
            found[hit.anchor] = similarity, replace(hit, **lines)
    ordered = sorted(found.values(), key=lambda one: (-one[0], one[1].path, one[1].start_line))
    return [
        _describe(similarity, hit)
        for similarity, hit in ordered[: params.limit]
        if similarity >= params.min_similarity
    ]


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
