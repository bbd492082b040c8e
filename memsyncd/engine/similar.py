"""Finds sections that say nearly what a text, or other sections, say, and what workspaces share.

With vectors the nearest chunks are found by their cosines. Without, a search by the text's longest
words selects candidates, whose texts are compared with it, those of a field also value by value.

Near copies are found by their words, all sections with all, and with vectors also by their cosines,
if they have some words in common: the cosine that copies have depends on the model.

A pattern is sections of the same kind and topic with similar texts, in several workspaces. First
each workspace counts its sections by kind and topic; then it reads those of the kinds and topics
that others have as well. So the time depends on what may recur, and is bounded: of each workspace
the sections saved last are compared, by their beginnings.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from memsyncd.config import Config
from memsyncd.core.editing.topics import split_values
from memsyncd.core.guard.secrets import redact
from memsyncd.core.search.highlight import highlight, strip_title
from memsyncd.core.search.query import Filters as StoreFilters
from memsyncd.core.search.similarity import (
    Features,
    compute_similarity,
    find_features,
    find_near_copies,
    group_pairs,
    group_similar,
    make_similar_query,
)
from memsyncd.engine.browse import find_stored_section
from memsyncd.engine.candidates import VECTORS_SHARE, uses_vectors
from memsyncd.engine.metadata import describe_meta, is_expired
from memsyncd.engine.redaction import (
    must_redact,
    read_redacted_chunks,
    read_redacted_sections,
    redact_section,
)
from memsyncd.engine.search import RunOptions, complete_filters, search
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound, TooLarge
from memsyncd.operations.search.declare import SearchParams
from memsyncd.operations.sections import Filters
from memsyncd.operations.semantic.declare import SemanticState
from memsyncd.operations.similar.declare import (
    Copy,
    DuplicateGroup,
    Duplicates,
    DuplicatesParams,
    Pattern,
    PatternSection,
    PatternsParams,
    SimilarParams,
    SimilarSection,
    SimilarSections,
)
from memsyncd.semantic import Cosines
from memsyncd.store.connection import is_cancelled, make_timeout_error
from memsyncd.store.lookup import (
    StoredSection,
    by_path,
    read_anchors_of,
    read_chunks_of,
    read_digest,
    read_sections_of,
    stream_notes,
)
from memsyncd.store.metadata import (
    count_categories,
    count_sections,
    find_category_sections,
)
from memsyncd.store.pool import Reader
from memsyncd.store.search import (
    count_matching,
    find_candidates,
    find_rows,
    list_allowed,
    read_section_titles,
    read_sections,
)
from memsyncd.store.texts import read_note_text, read_texts

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
            "similar: name one of anchor, text and topic",
            hint="the section, text or topic to compare with",
        )
    with workspace.acquire(config.search.timeout_s) as reader:
        subject = _read_subject(reader, params, config, options)
        near = _find_near(reader, workspace, subject, params, config, options)
    if near is not None:
        return near
    sections = _find_by_words(workspace, subject, params, config, options)
    return SimilarSections(sections=sections)


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
        anchors = {title.anchor for title in read_section_titles(reader, near).values()}
        found = _compare_sections(reader, workspace, anchors, wanted, config, now_s)
    return [one for one in found if one.similarity >= config.memory.similar_from][:limit]


def _match_rarest(reader: Reader, words: Sequence[str]) -> str:
    """Return the FTS5 expression for chunks with one of the rarest words; empty without words."""
    matches = [f'"{word}"' for word in words if word.isalnum()]
    counts = count_matching(reader, matches, most=RARE_CHUNKS)
    held = sorted((n, match) for n, match in zip(counts, matches, strict=True) if n)
    rare = [match for n, match in held if n < RARE_CHUNKS][:N_RAREST]
    return " OR ".join(rare) or " AND ".join(match for _, match in held[:N_RAREST])


def _compare_sections(
    reader: Reader,
    workspace: Workspace,
    anchors: Collection[str],
    wanted: Features,
    config: Config,
    now_s: float,
) -> list[SimilarSection]:
    """Describe these sections with their similarity, the most similar first: that of the whole, or
    of the most similar value of a field.
    """
    found: list[tuple[float, SimilarSection]] = []
    for path in sorted({anchor.rpartition("#")[0] for anchor in anchors}):
        digest = read_digest(reader, path) or ""
        for section, text in _read_sections(reader, path):
            if section.anchor in anchors:
                values = map(find_features, split_values(text))
                similarity = max(compute_similarity(wanted, one) for one in values)
                shown = describe_similar(
                    reader, workspace, section, digest, similarity, config, now_s
                )
                found.append((similarity, shown))
    found.sort(key=lambda one: (-one[0], one[1].path, one[1].start_line))
    return [one for _, one in found]


def describe_similar(
    reader: Reader,
    workspace: Workspace,
    section: StoredSection,
    digest: str,
    similarity: float,
    config: Config,
    now_s: float,
) -> SimilarSection:
    """Describe a section as indexed, as it may be shown; `digest` is that of its file."""
    if must_redact(reader, config):
        section = redact_section(section)
    return SimilarSection(
        workspace=workspace.id,
        anchor=section.anchor,
        path=section.anchor.rpartition("#")[0],
        start_line=section.span.start,
        end_line=section.span.end,
        heading=list(section.heading),
        digest=digest,
        similarity=round(similarity, 3),
        **describe_meta(section, config.kinds, now_s),
    )


# --- what is compared ---------------------------------------------------------------------------


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
        path, _ = find_stored_section(reader, params.anchor)
        texts = [text for one, text in _read_sections(reader, path) if one.anchor == params.anchor]
        return _Subject("".join(texts), frozenset([params.anchor]))
    of_topic = Filters(meta=[f"topic={params.topic}"], include_archived=params.include_archived)
    filters = complete_filters(of_topic, config, options.now_s)
    notes = sorted(stream_notes(reader, filters=filters), key=by_path)
    anchors = frozenset(section.anchor for note in notes for section in note.sections)
    if not anchors:
        raise NoteNotFound(
            f"no section has the topic {params.topic}",
            hint="see which topics there are with: memsyncd list --json, in `meta`",
        )
    texts = [
        text
        for note in notes
        for section, text in _read_sections(reader, note.path)
        if section.anchor in anchors
    ]
    return _Subject("\n\n".join(texts)[:TOPIC_CHARACTERS], anchors)


def _read_sections(reader: Reader, path: str) -> Iterator[tuple[StoredSection, str]]:
    """Yield the sections of a note with their texts, without those of the sections beneath."""
    lines = read_note_text(reader, path).split("\n")
    for one in read_sections_of(reader, path):
        yield one, "\n".join(lines[one.span.start - 1 : one.span.end])


# --- by vectors ---------------------------------------------------------------------------------

# So many of the nearest chunks are read, of which the filters leave out some.
N_NEAREST = 300


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
    allowed = list_allowed(reader, filters)
    own = read_chunks_of(reader, subject.anchors)
    if own:
        cosines = workspace.vectors.of_chunks(own, allowed, N_NEAREST + len(own))
    else:
        end_s = time.monotonic() + VECTORS_SHARE * config.search.timeout_s
        pending = workspace.vectors.begin(subject.text)
        pending.select((), allowed, N_NEAREST)
        cosines = pending.finish(end_s)
    if cosines is None:
        return None
    status, rows = workspace.vectors.status(), find_rows(reader, [*cosines.of], filters)
    best: dict[int, float] = {}
    for chunk, _, section, *_ in rows:
        best[section] = max(best.get(section, -1.0), cosines.of[chunk])
    least = _find_least(cosines, params.min_similarity, status.total)
    near = [section for section, cosine in best.items() if cosine >= least]
    found = read_sections(reader, near)
    by_anchor = {
        found[section].anchor: (cosine, found[section].digest)
        for section, cosine in sorted(best.items(), key=lambda one: (-one[1], one[0]))
        if section in found and found[section].anchor not in subject.anchors
    }
    sections = [
        describe_similar(
            reader,
            workspace,
            find_stored_section(reader, anchor)[1],
            digest,
            min(1.0, max(0.0, cosine)),
            config,
            options.now_s,
        )
        for anchor, (cosine, digest) in [*by_anchor.items()][: params.limit]
    ]
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
    anchors = {hit.anchor for hit in hits} - subject.anchors
    with workspace.acquire(config.search.timeout_s) as reader:
        found = _compare_sections(reader, workspace, anchors, wanted, config, options.now_s)
    least = LEAST_BY_WORDS if params.min_similarity is None else params.min_similarity
    return [one for one in found[: params.limit] if one.similarity >= least]


# --- near copies --------------------------------------------------------------------------------

# More sections take longer to compare than a request may hold up others.
MAX_COMPARED = 20_000
# Vectors find a copy in other words from this cosine on, if it has this share of words in common.
LEAST_COSINE, LEAST_SHARED = 0.9, 0.3
MAX_PAIRS = 2_000
# For reading the sections, which takes a fifth of a second for 14,000 of them.
COPIES_LIMIT_S = 10.0
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
    # Comparing all vectors may take longer than a statement may.
    near_chunks = (
        workspace.vectors.pairs(LEAST_COSINE, MAX_PAIRS) if uses_vectors(workspace) else None
    )
    with workspace.acquire(COPIES_LIMIT_S) as reader:
        filters = complete_filters(params.filters, config, options.now_s)
        sections = [*_read_compared(reader, filters)]
        show = redact if must_redact(reader, config) else str
        near = _find_near_pairs(reader, near_chunks, sections)
    # To compare them takes longer than a statement may.
    features = [find_features(one.text) for one in sections]
    copies = find_near_copies(features, params.min_similarity)
    shared = {(pair.one, pair.other): pair.similarity for pair in copies}
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
            _describe_group(group, sections, features, shared, cosines, show)
            for group in groups[: params.limit]
        ],
        n_groups=len(groups),
        how_to_merge=HOW_TO_MERGE,
        semantic=state,
        semantic_pending=workspace.vectors.status().pending if near is not None else 0,
    )


def _read_compared(reader: Reader, filters: StoreFilters) -> Iterator[_Compared]:
    n_sections = count_sections(reader, filters, (), most=0).n_sections
    if n_sections > MAX_COMPARED:
        raise TooLarge(
            f"{n_sections} sections are too many to compare",
            hint=f"name a folder with --path, so that there are at most {MAX_COMPARED}",
        )
    for note in sorted(stream_notes(reader, filters=filters), key=by_path):
        lines = read_note_text(reader, note.path).split("\n")
        for one in note.sections:
            text = "\n".join(lines[one.span.start - 1 : one.span.end])
            yield _Compared(note.path, note.digest, one, text)


def _find_near_pairs(
    reader: Reader,
    pairs: Sequence[tuple[int, int, float]] | None,
    sections: Sequence[_Compared],
) -> dict[_Pair, float] | None:
    """Return the pairs of sections with near vectors, by their positions; None without vectors."""
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
    show: Callable[[str], str],
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
                heading=[*map(show, sections[at].section.heading)],
                digest=sections[at].digest,
                similarity=round(compute_similarity(features[ordered[0]], features[at]), 3),
            )
            for at in ordered
        ],
        similarity=round(min(one for pair, one in shared.items() if within.issuperset(pair)), 3),
        cosine=round(min(1.0, *near), 3) if near else None,
    )


# --- patterns -------------------------------------------------------------------------------------

# Sections that one request compares, of all workspaces together, and of each at least.
MAX_PATTERN_SECTIONS = 2_000
MIN_PATTERN_SECTIONS = 20
# The beginning of a text that is compared: 0.3 ms each.
COMPARED_CHARACTERS = 1_000
# Less than four words are too few to compare: headings of many notes are the same.
MIN_PATTERN_FEATURES = 7

Category = tuple[str | None, str | None]
"""A kind and a topic, of which one may be None."""


class ReadSection(NamedTuple):
    """A section as it is compared, and as the answer shows it."""

    category: Category
    features: Features
    shown: PatternSection


class ReadSections(msgspec.Struct, frozen=True, kw_only=True):
    """The sections of one workspace, and how many were left out of the comparison."""

    sections: Sequence[ReadSection]
    n_left_out: int


def read_categories(
    workspace: Workspace, params: PatternsParams, limit_s: float
) -> dict[Category, int]:
    """Count the sections of a workspace by kind and topic, those that state neither left out."""
    with workspace.acquire(limit_s) as reader:
        counts = count_categories(reader)
    return {
        category: n_sections
        for category, n_sections in counts.items()
        if (not params.kind or category[0] in params.kind)
        and (params.topic is None or category[1] == params.topic)
    }


def find_shared_categories(
    counts: Sequence[Mapping[Category, int]], min_workspaces: int
) -> set[Category]:
    """Return what so many workspaces have."""
    found = Counter(category for one in counts for category in one)
    return {category for category, n_workspaces in found.items() if n_workspaces >= min_workspaces}


def read_category_sections(
    workspace: Workspace,
    categories: Collection[Category],
    n_sections: int,
    config: Config,
    options: RunOptions,
    *,
    most: int,
) -> ReadSections:
    """Read the sections of these kinds and topics that were saved last, at most `most` of the
    `n_sections` that there are. Raises what `Workspace.acquire` raises.
    """
    with workspace.acquire(options.timeout_s or config.search.timeout_s) as reader:
        rows = find_category_sections(reader, categories, limit=most)
        metas = read_redacted_sections(reader, [row.section for row in rows], config)
        texts = read_redacted_chunks(reader, [row.chunk for row in rows], config)
    found = []
    for row in rows:
        section = metas[row.section]
        whole, heading = texts[row.chunk], section.heading
        text = strip_title(whole, heading[-1] if heading else "") or whole
        features = find_features(text[:COMPARED_CHARACTERS])
        if len(features) >= MIN_PATTERN_FEATURES and not is_expired(section.expires, options.now_s):
            shown = PatternSection(
                workspace=workspace.id,
                anchor=section.anchor,
                path=row.path,
                start_line=row.span.start,
                end_line=row.span.end,
                heading=list(section.heading),
                snippet=highlight(text, {}),
                **describe_meta(section, config.kinds, options.now_s),
            )
            found.append(ReadSection((row.kind, row.topic), features, shown))
    return ReadSections(sections=found, n_left_out=max(0, n_sections - len(rows)))


def find_patterns(parts: Sequence[ReadSections], params: PatternsParams) -> list[Pattern]:
    """Group the sections of each kind and topic that are similar; those that most workspaces have
    come first.
    """
    by_category: dict[Category, list[ReadSection]] = {}
    for one in (section for part in parts for section in part.sections):
        by_category.setdefault(one.category, []).append(one)
    found: list[Pattern] = []
    for sections in by_category.values():
        if is_cancelled():
            raise make_timeout_error()
        items = [(one.shown.workspace, one.features) for one in sections]
        for group in group_similar(items, params.min_similarity):
            shown = [sections[number].shown for number in group.members]
            n_workspaces = len({one.workspace for one in shown})
            if n_workspaces >= params.min_workspaces:
                found.append(
                    Pattern(
                        kind=shown[0].kind,
                        topic=shown[0].meta.get("topic"),
                        similarity=round(group.similarity, 3),
                        n_workspaces=n_workspaces,
                        sections=shown,
                    )
                )
    found.sort(key=_order_pattern)
    return found


def _order_pattern(pattern: Pattern) -> tuple[int, int, float, str, str]:
    first = pattern.sections[0]
    return (
        -pattern.n_workspaces,
        -len(pattern.sections),
        -pattern.similarity,
        first.workspace,
        first.anchor,
    )
