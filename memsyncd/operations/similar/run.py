"""Finds sections that are similar to a text or to other sections, and groups of near copies.

With vectors, similar sections are found by the cosines of their chunks. Without vectors, the rarest
words of the text select candidates, and the words of each are compared with the text; a field is
also compared value by value.

Near copies are found by their words: sections that share rare words are compared. With vectors,
they are also found by their cosines, if they have some words in common, because the cosine of
copies depends on the model.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.frontmatter import count_front_lines
from memsyncd.core.search.filters import Filters as StoreFilters
from memsyncd.core.search.filters import fold_value, split_list
from memsyncd.core.search.similarity import (
    MIN_FEATURES,
    CopyFinder,
    SimilarGroup,
    compute_similarity,
    find_features,
)
from memsyncd.engine.browse import find_spelling, find_stored_section
from memsyncd.engine.candidates import VECTORS_SHARE, uses_vectors
from memsyncd.engine.plan import RunOptions, complete_filters
from memsyncd.engine.redaction import (
    must_redact,
)
from memsyncd.engine.similar import (
    compare_sections,
    describe_compared,
    describe_similar,
    find_sharing,
    read_section_texts,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.operations.call import Call, read_saved
from memsyncd.operations.sections import Filters
from memsyncd.operations.semantic.declare import SemanticState
from memsyncd.operations.similar.declare import (
    Copy,
    DuplicateGroup,
    Duplicates,
    DuplicatesParams,
    SimilarParams,
    SimilarSection,
    SimilarSections,
    SimilarTopic,
)
from memsyncd.semantic import Cosines
from memsyncd.store.connection import pause_or_end
from memsyncd.store.lookup import by_path, read_topics, stream_notes
from memsyncd.store.pages import PageOrder, find_page
from memsyncd.store.pool import Reader
from memsyncd.store.search import find_rows, list_allowed
from memsyncd.store.sections import (
    read_anchors_of,
    read_chunks_of,
    read_digest,
    read_outlines,
    read_sections,
    read_sections_of,
)
from memsyncd.store.texts import read_note_text

CANDIDATES = 80
LEAST_BY_WORDS = 0.3
# A cosine is clearly above the usual one, the median, if it has gone this part of the way from the
# median to 1. The median of a few chunks means nothing.
CLEAR_PART, MIN_CHUNKS = 0.3, 20
# A topic is compared by so much of the text of its sections.
TOPIC_CHARACTERS = 20_000
# The longest so many sections of a note are compared: each is searched for.
N_PARTS = 20
NOTES_HINT = "name a section as PATH#heading, or a note; see: memsyncd list --notes"


def find_similar(
    workspace: Workspace, params: SimilarParams, config: Config, options: RunOptions
) -> SimilarSections:
    """Return the sections that are as similar as wanted, the most similar first, without the named
    sections themselves.

    Raises BadRequest, NoteNotFound, NotFresh, and the errors of `Workspace.acquire`.
    """
    subjects = [params.anchor, params.text, params.topic]
    if sum(subject is not None for subject in subjects) != 1:
        raise BadRequest(
            "similar: name one of anchor, text and topic",
            hint="the section, text or topic to compare with",
        )
    if params.nearest is not None and params.min_similarity is not None:
        hint = "leave min_similarity out, or give limit in place of nearest"
        raise BadRequest("similar: the nearest have no least similarity", hint=hint)
    with workspace.acquire(config.search.timeout_s) as reader:
        subject = _read_subject(reader, params, config, options)
        by_vectors = _find_near(reader, workspace, subject, params, config, options)
    similar = by_vectors or _find_by_words(workspace, subject, params, config, options)
    topics = []
    if params.topic is not None:
        with workspace.acquire(config.search.timeout_s) as reader:
            topics = _find_topics(reader, subject, similar, params, config, options)
    most = params.nearest or params.limit
    least = _find_least_by_words(params) if by_vectors is None else 0.0
    return replace(
        similar,
        sections=[each for each in similar.sections if each.similarity >= least][:most],
        topics=[each for each in topics if each.similarity >= least][:most],
    )


# --- the text that others are compared with -------------------------------------------------------


class _Subject(NamedTuple):
    """The text that sections are compared with, and the anchors of the sections that it is from.
    Words are compared with each of the `parts`, and the most similar part counts.
    """

    text: str
    anchors: frozenset[str]
    parts: tuple[str, ...]


def _read_subject(
    reader: Reader, params: SimilarParams, config: Config, options: RunOptions
) -> _Subject:
    if params.text is not None:
        return _Subject(params.text, frozenset(), (params.text,))
    if params.anchor is not None:
        return _read_named(reader, params.anchor)
    by_anchor = _read_topics(reader, [params.topic or ""], params, config, options)
    if not by_anchor:
        raise NoteNotFound(
            f"no section has the topic {params.topic}",
            hint="a topic is the key `topic`, or the title of a note; see: memsyncd topic list",
        )
    text = "\n\n".join(by_anchor.values())[:TOPIC_CHARACTERS]
    return _Subject(text, frozenset(by_anchor), (text,))


def _read_named(reader: Reader, name: str) -> _Subject:
    """Return a section by its anchor, or all sections of a note by its path."""
    path = find_spelling(reader, name)
    if read_digest(reader, path) is not None:
        sections = read_sections_of(reader, path)
    elif "#" in name:
        path, section = find_stored_section(reader, name)
        sections = [section]
    else:
        raise NoteNotFound(f"there is no note at {name}", hint=NOTES_HINT)
    texts = {section.anchor: text for section, text in read_section_texts(reader, path, sections)}
    every = tuple(texts.values())
    # A heading alone is like many others.
    parts = tuple(text for text in every if len(find_features(text)) >= MIN_FEATURES) or every
    return _Subject("\n\n".join(every), frozenset(texts), parts)


def _read_topics(
    reader: Reader,
    topics: Sequence[str],
    params: SimilarParams,
    config: Config,
    options: RunOptions,
) -> dict[str, str]:
    """Return the texts of the sections of any of these topics, by anchor."""
    of_topics = Filters(topic=[*topics], include_archived=params.include_archived)
    filters = complete_filters(of_topics, config, options.now_s)
    return {
        section.anchor: text
        for note in sorted(stream_notes(reader, filters=filters), key=by_path)
        for section, text in read_section_texts(reader, note.path, note.sections)
    }


# --- topics ---------------------------------------------------------------------------------------

# The most topics that are compared: the topics of the most similar sections.
N_TOPICS = 32


def _find_topics(
    reader: Reader,
    subject: _Subject,
    similar: SimilarSections,
    params: SimilarParams,
    config: Config,
    options: RunOptions,
) -> list[SimilarTopic]:
    """Return the topics of similar sections, the most similar first."""
    own = fold_value(params.topic or "")
    names = read_topics(reader, [section.anchor for section in similar.sections])
    best: dict[str, tuple[str, SimilarSection]] = {}
    for section in similar.sections:
        for name in split_list(names.get(section.anchor, "")):
            if fold_value(name) != own and len(best) < N_TOPICS:
                best.setdefault(fold_value(name), (name, section))
    if not best:
        return []
    texts = _read_topics(reader, [name for name, _ in best.values()], params, config, options)
    texts_of: dict[str, list[str]] = {key: [] for key in best}
    for anchor, topic in read_topics(reader, texts).items():
        for name in split_list(topic):
            if fold_value(name) in texts_of:
                texts_of[fold_value(name)].append(texts[anchor])
    features = find_features(subject.text)
    is_by_words = similar.semantic == "off"
    topics = []
    for key, (name, section) in best.items():
        words = find_features("\n\n".join(texts_of[key])[:TOPIC_CHARACTERS])
        topics.append(
            SimilarTopic(
                topic=name,
                similarity=round(compute_similarity(features, words), 3)
                if is_by_words
                else section.similarity,
                n_sections=len(texts_of[key]),
                anchor=section.anchor,
                path=section.path,
            )
        )
    return sorted(topics, key=lambda topic: (-topic.similarity, topic.topic))


# --- by vectors -----------------------------------------------------------------------------------

# How many of the nearest chunks are read; filters leave some of them out.
N_NEAREST = 300


def _find_near(
    reader: Reader,
    workspace: Workspace,
    subject: _Subject,
    params: SimilarParams,
    config: Config,
    options: RunOptions,
) -> SimilarSections | None:
    """Find the sections with the nearest vectors, as near as wanted; return None if words must be
    compared instead.
    """
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
    least = -1.0 if params.nearest else _find_least(cosines, params.min_similarity, status.total)
    near_rows = [section for section, cosine in best.items() if cosine >= least]
    stored = read_sections(reader, near_rows)
    by_anchor = {
        stored[section].anchor: (cosine, stored[section].digest)
        for section, cosine in sorted(best.items(), key=lambda scored: (-scored[1], scored[0]))
        if section in stored and stored[section].anchor not in subject.anchors
    }
    # The sections of one topic must not hide other topics.
    most = len(by_anchor) if params.topic else params.nearest or params.limit
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
        for anchor, (cosine, digest) in [*by_anchor.items()][:most]
    ]
    return SimilarSections(
        sections=sections,
        semantic="ready" if status.state == "ready" else "partial",
        semantic_pending=status.pending,
    )


def _find_least(cosines: Cosines, min_similarity: float | None, n_chunks: int) -> float:
    if min_similarity is not None:
        return min_similarity
    if n_chunks < MIN_CHUNKS:
        return LEAST_BY_WORDS
    return max(LEAST_BY_WORDS, cosines.median + CLEAR_PART * (1.0 - cosines.median))


# --- by words -------------------------------------------------------------------------------------


def _find_by_words(
    workspace: Workspace,
    subject: _Subject,
    params: SimilarParams,
    config: Config,
    options: RunOptions,
) -> SimilarSections:
    """Compare the sections that have the rarest words of the text, the most similar first."""
    parts = sorted(subject.parts, key=len, reverse=True)[:N_PARTS]
    hiding = Filters(include_archived=params.include_archived)
    filters = complete_filters(hiding, config, options.now_s)
    limit = max(CANDIDATES, params.nearest or 0)
    with workspace.acquire(config.search.timeout_s) as reader:
        rows = [row for part in parts for row in find_sharing(reader, part, filters, limit=limit)]
        sections = dict.fromkeys(row[2] for row in rows)
        texts = [*map(find_features, parts)]
        compared = compare_sections(reader, sections, texts, subject.anchors)
        # The sections of one topic must not hide other topics.
        if params.topic is None:
            least = _find_least_by_words(params)
            compared = [each for each in compared if each.similarity >= least]
            del compared[params.nearest or params.limit :]
        described = describe_compared(reader, workspace, compared, config, options.now_s)
    return SimilarSections(sections=described)


def _find_least_by_words(params: SimilarParams) -> float:
    if params.nearest is not None:
        return 0.0
    return LEAST_BY_WORDS if params.min_similarity is None else params.min_similarity


# --- near copies ----------------------------------------------------------------------------------

# Vectors find a copy in other words if its cosine and its share of words in common are so high.
LEAST_COSINE, LEAST_SHARED = 0.9, 0.3
MAX_PAIRS = 2_000
# The time limit of one read of the index, and the number of notes of which it reads the sections.
COPIES_LIMIT_S = 10.0
NOTES_PER_READ = 50
# The sections of a group that are described.
MAX_COPIES = 100
HOW_TO_MERGE = (
    "read the sections of a group, add to the first what only the others say, then take the others"
    " out of searches with: memsyncd archive ANCHOR …"
)
PLAN_NOTICE = "plan"


def find_duplicates(
    workspace: Workspace, params: DuplicatesParams, config: Config, options: RunOptions
) -> Duplicates:
    """Return groups of sections that are near copies. Some notes are read at a time, so that saves
    and other reads go on meanwhile.

    Raises BadRequest for a filter that cannot be read, NotFresh when the client leaves, and the
    errors of `Workspace.acquire`.
    """
    state: SemanticState = "off"
    # To compare all vectors may take longer than a reader may be held.
    near_chunks = (
        workspace.vectors.pairs(LEAST_COSINE, MAX_PAIRS) if uses_vectors(workspace) else None
    )
    filters = complete_filters(params.filters, config, options.now_s)
    finder = CopyFinder(params.min_similarity)
    try:
        sections = _collect_sections(workspace, filters, finder)
        finder.find(partial(_note_progress, workspace, "comparing", len(sections)))
    finally:
        workspace.set_notice(PLAN_NOTICE, "")
    cosines: dict[_Pair, float] = {}
    with workspace.acquire(COPIES_LIMIT_S) as reader:
        show = redact if must_redact(reader, config) else str
        near_pairs = _find_near_pairs(reader, near_chunks, sections)
        if near_pairs is not None:
            state = "ready" if workspace.vectors.status().state == "ready" else "partial"
            for pair, cosine in near_pairs.items():
                similarity = finder.compare(*pair)
                if similarity >= min(LEAST_SHARED, params.min_similarity):
                    cosines[pair] = cosine
                    finder.join(*pair, similarity)
        groups = finder.list_groups()
        described = [
            _describe_group(reader, group, sections, finder, cosines, show)
            for group in groups[: params.limit]
        ]
    return Duplicates(
        workspace=workspace.id,
        groups=described,
        n_groups=len(groups),
        how_to_merge=HOW_TO_MERGE,
        semantic=state,
        semantic_pending=workspace.vectors.status().pending if near_pairs is not None else 0,
    )


_Pair = tuple[int, int]


class _Compared(NamedTuple):
    """A section that is compared with all others, and the number of characters of its text."""

    anchor: str
    n_characters: int


class _AllCompared(Sequence[_Compared]):
    """The compared sections, which take the memory of their letters alone."""

    def __init__(self) -> None:
        self._anchors = bytearray()
        self._ends = array("Q", [0])
        self._lengths = array("Q")

    def append(self, anchor: str, n_characters: int) -> None:
        self._anchors += anchor.encode()
        self._ends.append(len(self._anchors))
        self._lengths.append(n_characters)

    def __len__(self) -> int:
        return len(self._lengths)

    def __getitem__(self, at: Any) -> Any:
        anchor = self._anchors[self._ends[at] : self._ends[at + 1]].decode()
        return _Compared(anchor, self._lengths[at])


def _collect_sections(
    workspace: Workspace, filters: StoreFilters, finder: CopyFinder
) -> _AllCompared:
    """Add the texts of the sections that pass the filters, by path and line."""
    with workspace.acquire(COPIES_LIMIT_S) as reader:
        paths = [path for path, _ in find_page(reader, filters, PageOrder(), path=None, limit=-1)]
    sections = _AllCompared()
    for at in range(0, len(paths), NOTES_PER_READ):
        _note_progress(workspace, "reading notes", len(paths), at)
        several = paths[at : at + NOTES_PER_READ]
        with workspace.acquire(COPIES_LIMIT_S) as reader:
            for note in sorted(stream_notes(reader, filters=filters, among=several), key=by_path):
                lines = read_note_text(reader, note.path).split("\n")
                n_front_lines = count_front_lines(note.path, lines)
                for section in note.sections:
                    first = max(section.span.start - 1, n_front_lines)
                    text = "\n".join(lines[first : section.span.end])
                    sections.append(section.anchor, len(text))
                    finder.add(find_features(text))
    return sections


def _note_progress(workspace: Workspace, word: str, n_all: int, n_done: int) -> None:
    """Let `status` tell how far the comparison is, and let other reads go first. Raises NotFresh
    when the client has left.
    """
    pause_or_end()
    if n_all > NOTES_PER_READ:
        workspace.set_notice(PLAN_NOTICE, f"{word}: {n_done:,} of {n_all:,}")


def _find_near_pairs(
    reader: Reader,
    pairs: Sequence[tuple[int, int, float]] | None,
    sections: Sequence[_Compared],
) -> dict[_Pair, float] | None:
    """Return the cosine of each pair of sections with near vectors, by positions in `sections`;
    None without vectors.
    """
    if pairs is None:
        return None
    anchors = read_anchors_of(reader, {chunk for pair in pairs for chunk in pair[:2]})
    near = {*anchors.values()}
    places = {
        compared.anchor: at for at, compared in enumerate(sections) if compared.anchor in near
    }
    near_pairs: dict[_Pair, float] = {}
    for first_chunk, second_chunk, cosine in pairs:
        first, second = (
            places.get(anchors.get(chunk, ""), -1) for chunk in (first_chunk, second_chunk)
        )
        pair = min(first, second), max(first, second)
        if -1 not in pair and first != second:
            near_pairs[pair] = max(cosine, near_pairs.get(pair, -1.0))
    return near_pairs


def _describe_group(
    reader: Reader,
    group: SimilarGroup,
    sections: Sequence[_Compared],
    finder: CopyFinder,
    cosines: Mapping[_Pair, float],
    show: Callable[[str], str],
) -> DuplicateGroup:
    """Describe the sections of a group that are still there."""
    compared = {at: sections[at] for at in group.members}
    ordered = sorted(compared, key=lambda at: (-compared[at].n_characters, compared[at].anchor))
    ordered = ordered[:MAX_COPIES]
    within = compared.keys()
    group_cosines = [cosine for pair, cosine in cosines.items() if within >= {*pair}]
    paths = {compared[at].anchor.rpartition("#")[0] for at in ordered}
    notes = read_outlines(reader, paths)
    stored = {section.anchor: (note, section) for note in notes for section in note.sections}
    copies = []
    for at in ordered:
        if compared[at].anchor in stored:
            note, section = stored[compared[at].anchor]
            copies.append(
                Copy(
                    anchor=section.anchor,
                    path=note.path,
                    start_line=section.start_line,
                    end_line=section.end_line,
                    heading=[*map(show, section.heading)],
                    digest=note.digest,
                    similarity=round(finder.compare(ordered[0], at), 3),
                )
            )
    return DuplicateGroup(
        sections=copies,
        n_sections=len(group.members),
        similarity=round(group.similarity, 3),
        cosine=round(min(1.0, *group_cosines), 3) if group_cosines else None,
    )


# --- the operations -------------------------------------------------------------------------------


async def find(call: Call, params: SimilarParams) -> SimilarSections:
    workspace = await call.open()
    options = RunOptions(now_s=call.now_s)
    read_freshness = call.watch_freshness()
    similar = await read_saved(call, partial(find_similar, workspace, params, call.config, options))
    return replace(similar, freshness=read_freshness())


async def plan_merging(call: Call, params: DuplicatesParams) -> Duplicates:
    workspace = await call.open()
    options = RunOptions(now_s=call.now_s)
    read_freshness = call.watch_freshness()
    find = partial(find_duplicates, workspace, params, call.config, options)
    duplicates = await call.read(find, is_long=True)
    return replace(duplicates, freshness=read_freshness())
