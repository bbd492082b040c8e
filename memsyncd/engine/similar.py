"""Finds sections that say nearly the same as a text, and compares sections by their words."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import accumulate, product
from typing import NamedTuple

from memsyncd.config import Config
from memsyncd.core.editing.topics import split_values
from memsyncd.core.markdown.frontmatter import count_front_lines
from memsyncd.core.search.filters import Filters as StoreFilters
from memsyncd.core.search.ranking import ChunkRow
from memsyncd.core.search.similarity import (
    Features,
    compute_similarity,
    find_features,
    make_similar_query,
)
from memsyncd.engine.metadata import describe_meta, name_note
from memsyncd.engine.plan import complete_filters
from memsyncd.engine.redaction import (
    must_redact,
    redact_section,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.sections import Filters
from memsyncd.operations.similar.declare import (
    SimilarSection,
)
from memsyncd.store.pool import Reader
from memsyncd.store.search import count_matching, find_candidates
from memsyncd.store.sections import (
    SectionLines,
    StoredSection,
    read_digest,
    read_section,
    read_section_lines,
)
from memsyncd.store.texts import NoteLines, read_lines, read_note_text, read_texts

# A text is compared with the chunks that hold any of its rarest words, as many words as match at
# most so many chunks in total. If even the rarest match more, chunks must hold so many of them.
MAX_SHARING, N_HELD = 3_000, 5
# A text that is to be written is compared with fewer: texts that say nearly the same share most of
# their words, and these chunks are found in a tenth of the time.
MAX_NEAR_SHARING = 400
NEAR_CANDIDATES = 20
# A chunk must hold this share of the words of a text, or its section is not read.
NEAR_SHARE = 0.4


def find_nearly_same(
    workspace: Workspace, text: str, config: Config, *, now_s: float, limit: int
) -> list[SimilarSection]:
    """Return the sections that say nearly the same as a text, by the configured similarity;
    archived and expired sections are left out. Raises the errors of `Workspace.acquire`.
    """
    features = find_features(text)
    words = frozenset(feature for feature in features if len(feature) == 1)
    with workspace.acquire(config.search.timeout_s) as reader:
        filters = complete_filters(Filters(), config, now_s)
        rows = find_sharing(reader, text, filters, most=MAX_NEAR_SHARING, limit=NEAR_CANDIDATES)
        texts = read_texts(reader, [row[0] for row in rows])
        near_rows = {
            row[2]
            for row in rows
            if len(words & find_features(texts[row[0]])) >= NEAR_SHARE * len(words)
        }
        compared = compare_sections(reader, near_rows, [features])
        near = [each for each in compared if each.similarity >= config.memory.similar_from]
        return describe_compared(reader, workspace, near[:limit], config, now_s)


def find_sharing(
    reader: Reader, text: str, filters: StoreFilters, *, limit: int, most: int = MAX_SHARING
) -> list[ChunkRow]:
    """Return the rows of the `limit` best chunks that hold any of the rarest words of a text: of as
    many words as match at most `most` chunks in total.
    """
    matches = [f'"{word}"' for word in make_similar_query(text).split() if word.isalnum()]
    counts = count_matching(reader, matches, most=most + 1)
    occurring = sorted((n, match) for n, match in zip(counts, matches, strict=True) if n)
    n_rare = sum(n <= most for n in accumulate(n for n, _ in occurring))
    rare = [match for _, match in occurring[:n_rare]]
    match = " OR ".join(rare) or " AND ".join(match for _, match in occurring[:N_HELD])
    return [*find_candidates(reader, match, filters, limit=limit).rows] if match else []


class Likeness(NamedTuple):
    """A section and its similarity to a text, with three digits."""

    anchor: str
    similarity: float


def compare_sections(
    reader: Reader,
    sections: Iterable[int],
    texts: Sequence[Features],
    without: Container[str] = (),
) -> list[Likeness]:
    """Compare sections, by their ids, with the most similar of the texts, and return them, the most
    similar first, without the anchors `without`: by the similarity of the whole section, or of the
    most similar value of a field.
    """
    lines = [each for each in read_section_lines(reader, sections) if each.anchor not in without]
    places = [NoteLines(each.path, each.start_line, each.end_line) for each in lines]
    compared: list[tuple[float, SectionLines]] = []
    for section, text in zip(lines, read_lines(reader, places), strict=True):
        values = map(find_features, split_values(text))
        similarity = max(compute_similarity(*pair) for pair in product(texts, values))
        compared.append((similarity, section))
    compared.sort(key=lambda pair: (-pair[0], pair[1].path, pair[1].start_line))
    return [Likeness(section.anchor, round(similarity, 3)) for similarity, section in compared]


def describe_compared(
    reader: Reader,
    workspace: Workspace,
    compared: Iterable[Likeness],
    config: Config,
    now_s: float,
) -> list[SimilarSection]:
    """Describe compared sections, which takes several times as long as to compare them."""
    described: list[SimilarSection] = []
    for anchor, similarity in compared:
        if found := read_section(reader, anchor):
            path, section = found
            digest = read_digest(reader, path) or ""
            described.append(
                describe_similar(reader, workspace, section, digest, similarity, config, now_s)
            )
    return described


def describe_similar(
    reader: Reader,
    workspace: Workspace,
    section: StoredSection,
    digest: str,
    similarity: float,
    config: Config,
    now_s: float,
) -> SimilarSection:
    """Describe a section of the index, redacted if need be; `digest` is the digest of its file."""
    if must_redact(reader, config):
        section = redact_section(section)
    return SimilarSection(
        workspace=workspace.id,
        anchor=section.anchor,
        path=section.anchor.rpartition("#")[0],
        start_line=section.span.start,
        end_line=section.span.end,
        title=name_note(section),
        heading=list(section.heading),
        digest=digest,
        similarity=round(similarity, 3),
        **describe_meta(section, config.kinds, now_s),
    )


def read_section_texts(
    reader: Reader, path: str, sections: Iterable[StoredSection]
) -> Iterator[tuple[StoredSection, str]]:
    """Yield these sections of a note with their texts, without front matter and the texts of the
    sections beneath.
    """
    lines = read_note_text(reader, path).split("\n")
    n_front_lines = count_front_lines(path, lines)
    for section in sections:
        first = max(section.span.start - 1, n_front_lines)
        yield section, "\n".join(lines[first : section.span.end])
