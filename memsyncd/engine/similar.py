"""Finds sections of a workspace that say nearly what a text, or other sections, say.

With vectors the nearest chunks are found by their cosines. Without, a search by the text's longest
words selects candidates, whose texts are compared with it, those of a field also value by value.

Near copies are found by their words, all sections with all, and with vectors also by their cosines,
if they have some words in common: the cosine that copies have depends on the model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.fields import split_values
from memsyncd.core.model import Span
from memsyncd.core.search.query import Filters as StoreFilters
from memsyncd.core.search.similarity import (
    Features,
    compute_similarity,
    find_features,
    find_near_copies,
    group_pairs,
    make_similar_query,
)
from memsyncd.engine.browse import find_stored_section
from memsyncd.engine.candidates import N_NEAREST, VECTORS_SHARE, uses_vectors
from memsyncd.engine.metadata import describe_meta
from memsyncd.engine.redaction import read_redacted_sections, redact_notes
from memsyncd.engine.search import RunOptions, complete_filters, search
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound, TooLarge
from memsyncd.protocol.search import (
    Copy,
    DuplicateGroup,
    Duplicates,
    DuplicatesParams,
    Filters,
    Hit,
    SearchParams,
    SimilarParams,
    SimilarSection,
    SimilarSections,
)
from memsyncd.protocol.semantic import SemanticState
from memsyncd.semantic import Cosines
from memsyncd.store.lookup import (
    StoredSection,
    read_anchors_of,
    read_chunks_of,
    read_notes,
    read_sections_of,
)
from memsyncd.store.pool import Reader
from memsyncd.store.search import find_rows, list_allowed
from memsyncd.store.texts import read_note_text

CANDIDATES = 50
LEAST_BY_WORDS = 0.3
# A cosine is clear from this part of the way between the usual one, the median, and 1 on. Of few
# chunks the median says nothing.
CLEAR_PART, MIN_CHUNKS = 0.3, 20
# A topic is compared by the text of its sections up to this size.
TOPIC_CHARACTERS = 20_000


def find_similar(
    workspace: Workspace, params: SimilarParams, config: Config, options: RunOptions
) -> SimilarSections:
    """Return the sections that are as similar as wanted, the most similar first; never the named
    ones themselves.

    Raises BadRequest, NoteNotFound, NotFresh, and what `Workspace.acquire` raises.
    """
    given = [params.anchor, params.text, params.topic]
    if sum(one is not None for one in given) != 1:
        raise BadRequest(
            "similar: give either an anchor or a text, or a topic", hint="leave the others out"
        )
    with workspace.acquire(config.search.timeout_s) as reader:
        subject = _read_subject(reader, params, config, options)
        near = _find_near(reader, workspace, subject, params, config, options)
    if near is not None:
        return near
    sections = _find_by_words(workspace, subject, params, config, options)
    return SimilarSections(sections=sections)


def find_copies(
    workspace: Workspace, params: SimilarParams, config: Config, options: RunOptions
) -> list[SimilarSection]:
    """Return the sections that are similar to a text by their words: a vector does not tell a copy
    from another text of the same meaning. Raises what `find_similar` raises.
    """
    return _find_by_words(workspace, _Subject(params.text or ""), params, config, options)


# --- what is compared ---------------------------------------------------------------------------

_Section = tuple[str, Span | None]
_NOTHING: _Section = ("", None)


class _Subject(NamedTuple):
    """The text to which others are similar, and the sections that say it."""

    text: str
    anchors: frozenset[str] = frozenset()


def _read_subject(
    reader: Reader, params: SimilarParams, config: Config, options: RunOptions
) -> _Subject:
    if params.text is not None:
        return _Subject(params.text)
    if params.anchor is not None:
        path, section = find_stored_section(reader, params.anchor)
        text = _read_sections(reader, path).get(section.anchor, _NOTHING)[0]
        return _Subject(text, frozenset([params.anchor]))
    of_topic = Filters(meta=[f"topic={params.topic}"], include_archived=params.include_archived)
    notes = read_notes(reader, path=None, filters=complete_filters(of_topic, config, options.now_s))
    anchors = [section.anchor for note in notes for section in note.sections]
    if not anchors:
        raise NoteNotFound(
            f"no section has the topic {params.topic}",
            hint="see which topics there are with: memsyncd list --json, in `meta`",
        )
    texts = [
        text
        for note in notes
        for anchor, (text, _) in _read_sections(reader, note.path).items()
        if anchor in {*anchors}
    ]
    return _Subject("\n\n".join(texts)[:TOPIC_CHARACTERS], frozenset(anchors))


def _read_sections(reader: Reader, path: str) -> dict[str, _Section]:
    """The text and the lines of each section of a note, without the sections beneath it."""
    lines = read_note_text(reader, path).split("\n")
    return {
        one.anchor: ("\n".join(lines[one.span.start - 1 : one.span.end]), one.span)
        for one in read_sections_of(reader, path)
    }


# --- by vectors ---------------------------------------------------------------------------------


def _find_near(
    reader: Reader,
    workspace: Workspace,
    subject: _Subject,
    params: SimilarParams,
    config: Config,
    options: RunOptions,
) -> SimilarSections | None:
    """Find the sections with the nearest vectors; None if words have to be compared."""
    if not uses_vectors(workspace):
        return None
    hiding = Filters(include_archived=params.include_archived)
    filters = complete_filters(hiding, config, options.now_s)
    allowed = list_allowed(reader, filters, "")
    own = read_chunks_of(reader, subject.anchors)
    if own:
        cosines = workspace.vectors.of_chunks(own, allowed, N_NEAREST + len(own))
    else:
        end_s = time.monotonic() + VECTORS_SHARE * config.search.timeout_s
        cosines = workspace.vectors.begin(subject.text).finish((), allowed, N_NEAREST, end_s)
    if cosines is None:
        return None
    status, rows = workspace.vectors.status(), find_rows(reader, [*cosines.of], filters, "")
    best: dict[int, float] = {}
    for chunk, _, section, *_ in rows:
        best[section] = max(best.get(section, -1.0), cosines.of[chunk])
    least = _find_least(cosines, params.min_similarity, status.total)
    found = read_redacted_sections(
        reader, [section for section, cosine in best.items() if cosine >= least], config
    )
    by_anchor = {
        found[section].anchor: (cosine, found[section])
        for section, cosine in sorted(best.items(), key=lambda one: (-one[1], one[0]))
        if section in found and found[section].anchor not in subject.anchors
    }
    sections = []
    for anchor, (cosine, shown) in [*by_anchor.items()][: params.limit]:
        span = find_stored_section(reader, anchor)[1].span
        sections.append(
            SimilarSection(
                workspace=workspace.id,
                anchor=anchor,
                path=anchor.rpartition("#")[0],
                start_line=span.start,
                end_line=span.end,
                heading=list(shown.heading),
                digest=shown.digest,
                similarity=round(min(1.0, max(0.0, cosine)), 3),
                **describe_meta(shown, config.kinds, options.now_s),
            )
        )
    return SimilarSections(
        sections=sections,
        semantic="ready" if status.state == "ready" else "partial",
        semantic_pending=status.pending,
    )


def _find_least(cosines: Cosines, wanted: float | None, n_chunks: int) -> float:
    if wanted is not None:
        return wanted
    if n_chunks < MIN_CHUNKS:
        return LEAST_BY_WORDS
    return max(LEAST_BY_WORDS, cosines.median + CLEAR_PART * (1.0 - cosines.median))


# --- by words -----------------------------------------------------------------------------------


def _find_by_words(
    workspace: Workspace,
    subject: _Subject,
    params: SimilarParams,
    config: Config,
    options: RunOptions,
) -> list[SimilarSection]:
    wanted = find_features(subject.text)
    request = SearchParams(
        query=make_similar_query(subject.text),
        limit=CANDIDATES,
        min_score=0.0,
        filters=Filters(include_archived=params.include_archived),
    )
    hits = search([workspace], request, config, options).hits if request.query else []
    sections: dict[str, _Section] = {}
    with workspace.acquire(config.search.timeout_s) as reader:
        for path in dict.fromkeys(hit.path for hit in hits):
            sections |= _read_sections(reader, path)
    found: dict[str, tuple[float, Hit]] = {}
    for hit in hits:
        if hit.anchor not in subject.anchors:
            text, span = sections.get(hit.anchor, _NOTHING)
            # A passage may go on to the neighbours of its section.
            lines = {"start_line": span.start, "end_line": span.end} if span else {}
            similarity = max(
                compute_similarity(wanted, find_features(one)) for one in split_values(text)
            )
            found[hit.anchor] = similarity, replace(hit, **lines)
    ordered = sorted(found.values(), key=lambda one: (-one[0], one[1].path, one[1].start_line))
    least = LEAST_BY_WORDS if params.min_similarity is None else params.min_similarity
    return [
        _describe(similarity, hit)
        for similarity, hit in ordered[: params.limit]
        if similarity >= least
    ]


_OF_A_HIT = [name for name in SimilarSection.__struct_fields__ if name in Hit.__struct_fields__]


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


# --- near copies --------------------------------------------------------------------------------

# More sections take longer to compare than a request may hold up others.
MAX_COMPARED = 20_000
# Vectors find a copy in other words from this cosine on, if it has this share of words in common.
LEAST_COSINE, LEAST_SHARED = 0.9, 0.3
MAX_PAIRS = 2_000
HOW_TO_MERGE = (
    "read the sections of a group, add to the first what only the others say, then take the others"
    " out of searches with: memsyncd archive ANCHOR …"
)
_Pair = tuple[int, int]


class _Compared(NamedTuple):
    """A section that is compared with all others, and the digest of its file."""

    path: str
    digest: str
    section: StoredSection
    text: str


def find_duplicates(
    workspace: Workspace, params: DuplicatesParams, config: Config, options: RunOptions
) -> Duplicates:
    """Return groups of sections that are near copies.

    Raises BadRequest for a filter that cannot be read, TooLarge, and what `Workspace.acquire`
    raises.
    """
    state: SemanticState = "off"
    with workspace.acquire(config.search.timeout_s) as reader:
        filters = complete_filters(params.filters, config, options.now_s)
        sections = [*_read_compared(reader, filters, config)]
        features = [find_features(one.text) for one in sections]
        copies = find_near_copies(features, params.min_similarity)
        shared = {(pair.one, pair.other): pair.similarity for pair in copies}
        near = _find_near_pairs(reader, workspace, sections)
    cosines: dict[_Pair, float] = {}
    if near is not None:
        state = "ready" if workspace.vectors.status().state == "ready" else "partial"
        for pair, cosine in near.items():
            similarity = compute_similarity(features[pair[0]], features[pair[1]])
            if pair in shared or similarity >= LEAST_SHARED:
                cosines[pair] = cosine
                shared[pair] = similarity
    groups = group_pairs(shared)
    return Duplicates(
        workspace=workspace.id,
        groups=[
            _describe_group(group, sections, features, shared, cosines)
            for group in groups[: params.limit]
        ],
        n_groups=len(groups),
        how_to_merge=HOW_TO_MERGE,
        semantic=state,
        semantic_pending=workspace.vectors.status().pending if near is not None else 0,
    )


def _read_compared(reader: Reader, filters: StoreFilters, config: Config) -> Iterator[_Compared]:
    notes = redact_notes(reader, read_notes(reader, path=None, filters=filters), config)
    n_sections = sum(len(note.sections) for note in notes)
    if n_sections > MAX_COMPARED:
        raise TooLarge(
            f"{n_sections} sections are too many to compare",
            hint=f"name a folder with --path, so that there are at most {MAX_COMPARED}",
        )
    for note in notes:
        lines = read_note_text(reader, note.path).split("\n")
        for one in note.sections:
            text = "\n".join(lines[one.span.start - 1 : one.span.end])
            yield _Compared(note.path, note.digest, one, text)


def _find_near_pairs(
    reader: Reader, workspace: Workspace, sections: Sequence[_Compared]
) -> dict[_Pair, float] | None:
    """Return the pairs of sections with near vectors, by their positions; None without vectors."""
    pairs = workspace.vectors.pairs(LEAST_COSINE, MAX_PAIRS) if uses_vectors(workspace) else None
    if pairs is None:
        return None
    anchors = read_anchors_of(reader, {chunk for pair in pairs for chunk in pair[:2]})
    places = {one.section.anchor: at for at, one in enumerate(sections)}
    found: dict[_Pair, float] = {}
    for one, other, cosine in pairs:
        first, second = (places.get(anchors.get(chunk, ""), -1) for chunk in (one, other))
        pair = min(first, second), max(first, second)
        if -1 not in pair and first != second:
            found[pair] = max(cosine, found.get(pair, -1.0))
    return found


def _describe_group(
    group: Sequence[int],
    sections: Sequence[_Compared],
    features: Sequence[Features],
    shared: Mapping[_Pair, float],
    cosines: Mapping[_Pair, float],
) -> DuplicateGroup:
    ordered = sorted(group, key=lambda at: (-len(sections[at].text), sections[at].section.anchor))
    within = {*group}
    near = [cosine for pair, cosine in cosines.items() if within.issuperset(pair)]
    return DuplicateGroup(
        sections=[
            Copy(
                anchor=sections[at].section.anchor,
                path=sections[at].path,
                start_line=sections[at].section.span.start,
                end_line=sections[at].section.span.end,
                heading=list(sections[at].section.heading),
                digest=sections[at].digest,
                similarity=round(compute_similarity(features[ordered[0]], features[at]), 3),
            )
            for at in ordered
        ],
        similarity=round(min(one for pair, one in shared.items() if within.issuperset(pair)), 3),
        cosine=round(min(1.0, *near), 3) if near else None,
    )
