"""Finds patterns: sections of the same kind and topic with similar texts, in several workspaces.

Each workspace first counts its sections by kind and topic. Then it reads the sections of those
kinds and topics that other workspaces have as well. The time is bounded: only the sections that
were saved last in each workspace are compared, by the beginnings of their texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from memsyncd.config import Config
from memsyncd.core.search.filters import EQUAL, is_passing
from memsyncd.core.search.passages import highlight, strip_title
from memsyncd.core.search.similarity import (
    Features,
    find_features,
    group_similar,
)
from memsyncd.engine.metadata import describe_meta, is_expired
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.redaction import (
    read_redacted_chunks,
    read_redacted_sections,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.similar.declare import (
    Pattern,
    PatternSection,
    PatternsParams,
)
from memsyncd.store.connection import is_cancelled, make_timeout_error
from memsyncd.store.lookup import count_categories, find_category_sections

# The sections that one request compares: at most, of all workspaces; at least, of each workspace.
MAX_PATTERN_SECTIONS = 2_000
MIN_PATTERN_SECTIONS = 20
# The part of a text that is compared, which takes 0.3 ms per section.
COMPARED_CHARACTERS = 1_000
# Texts of less than four words are not compared, because many notes have the same headings.
MIN_PATTERN_FEATURES = 7
Category = tuple[str | None, str | None]
"""A kind and a topic; one of them may be None."""


class ReadSection(NamedTuple):
    """A section with its features for the comparison, and its description for the answer."""

    category: Category
    features: Features
    described: PatternSection


class ReadSections(msgspec.Struct, frozen=True, kw_only=True):
    """The sections of one workspace to compare, and how many were left out."""

    sections: Sequence[ReadSection]
    n_left_out: int


def read_categories(
    workspace: Workspace, params: PatternsParams, limit_s: float
) -> dict[Category, int]:
    """Count the sections of a workspace by kind and topic. Sections that state neither do not
    count.
    """
    with workspace.acquire(limit_s) as reader:
        counts = count_categories(reader, has_titles=params.topic is not None)
    return {
        category: n_sections
        for category, n_sections in counts.items()
        if (not params.kind or category[0] in params.kind)
        and (params.topic is None or is_passing(category[1] or "", EQUAL, params.topic))
    }


def find_shared_categories(
    counts: Sequence[Mapping[Category, int]], min_workspaces: int
) -> set[Category]:
    """Return the categories that at least `min_workspaces` workspaces have."""
    n_by_category = Counter(category for own_counts in counts for category in own_counts)
    return {
        category
        for category, n_workspaces in n_by_category.items()
        if n_workspaces >= min_workspaces
    }


def read_category_sections(
    workspace: Workspace,
    categories: Collection[Category],
    n_sections: int,
    config: Config,
    options: RunOptions,
    *,
    most: int,
    has_titles: bool = False,
) -> ReadSections:
    """Read the sections of these kinds and topics that were saved last, at most `most`. With
    `has_titles`, the title of a note is the topic of sections that state none.

    `n_sections` is the number of all such sections. Raises the errors of `Workspace.acquire`.
    """
    with workspace.acquire(options.timeout_s or config.search.timeout_s) as reader:
        rows = find_category_sections(reader, categories, limit=most, has_titles=has_titles)
        metas = read_redacted_sections(reader, [row.section for row in rows], config)
        texts = read_redacted_chunks(reader, [row.chunk for row in rows], config)
    read = []
    for row in rows:
        section = metas[row.section]
        whole, heading = texts[row.chunk], section.heading
        text = strip_title(whole, heading[-1] if heading else "") or whole
        features = find_features(text[:COMPARED_CHARACTERS])
        if len(features) >= MIN_PATTERN_FEATURES and not is_expired(section.expires, options.now_s):
            described = PatternSection(
                workspace=workspace.id,
                anchor=section.anchor,
                path=row.path,
                start_line=row.span.start,
                end_line=row.span.end,
                heading=list(section.heading),
                snippet=highlight(text, {}),
                **describe_meta(section, config.kinds, options.now_s),
            )
            read.append(ReadSection((row.kind, row.topic), features, described))
    return ReadSections(sections=read, n_left_out=max(0, n_sections - len(rows)))


def find_patterns(parts: Sequence[ReadSections], params: PatternsParams) -> list[Pattern]:
    """Group similar sections of each kind and topic. Patterns of the most workspaces come first."""
    by_category: dict[Category, list[ReadSection]] = {}
    for section in (section for part in parts for section in part.sections):
        by_category.setdefault(section.category, []).append(section)
    patterns: list[Pattern] = []
    for sections in by_category.values():
        if is_cancelled():
            raise make_timeout_error()
        items = [(section.described.workspace, section.features) for section in sections]
        for group in group_similar(items, params.min_similarity):
            members = [sections[number].described for number in group.members]
            n_workspaces = len({section.workspace for section in members})
            if n_workspaces >= params.min_workspaces:
                patterns.append(
                    Pattern(
                        kind=members[0].kind,
                        topic=members[0].meta.get("topic"),
                        similarity=round(group.similarity, 3),
                        n_workspaces=n_workspaces,
                        sections=members,
                    )
                )
    patterns.sort(key=_order_pattern)
    return patterns


def _order_pattern(pattern: Pattern) -> tuple[int, int, float, str, str]:
    first = pattern.sections[0]
    return (
        -pattern.n_workspaces,
        -len(pattern.sections),
        -pattern.similarity,
        first.workspace,
        first.anchor,
    )
