"""Finds patterns: sections of the same kind and topic with similar texts, in several workspaces.

First each workspace counts its sections by kind and topic; then it reads the sections of the kinds
and topics that others have as well. So the time depends on what may recur, and is bounded: of each
workspace the sections saved last are compared, by their beginnings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from memsyncd.config import Config
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
    """Count the sections of a workspace by kind and topic, without sections that state neither."""
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
    """Return the categories that so many workspaces have."""
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
) -> ReadSections:
    """Read the sections of these kinds and topics that were saved last, at most `most` of the
    `n_sections` that there are. Raises what `Workspace.acquire` raises.
    """
    with workspace.acquire(options.timeout_s or config.search.timeout_s) as reader:
        rows = find_category_sections(reader, categories, limit=most)
        metas = read_redacted_sections(reader, [row.section for row in rows], config)
        texts = read_redacted_chunks(reader, [row.chunk for row in rows], config)
    read = []
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
            read.append(ReadSection((row.kind, row.topic), features, shown))
    return ReadSections(sections=read, n_left_out=max(0, n_sections - len(rows)))


def find_patterns(parts: Sequence[ReadSections], params: PatternsParams) -> list[Pattern]:
    """Group similar sections of each kind and topic; the patterns of most workspaces come first."""
    by_category: dict[Category, list[ReadSection]] = {}
    for section in (section for part in parts for section in part.sections):
        by_category.setdefault(section.category, []).append(section)
    patterns: list[Pattern] = []
    for sections in by_category.values():
        if is_cancelled():
            raise make_timeout_error()
        items = [(section.shown.workspace, section.features) for section in sections]
        for group in group_similar(items, params.min_similarity):
            shown = [sections[number].shown for number in group.members]
            n_workspaces = len({section.workspace for section in shown})
            if n_workspaces >= params.min_workspaces:
                patterns.append(
                    Pattern(
                        kind=shown[0].kind,
                        topic=shown[0].meta.get("topic"),
                        similarity=round(group.similarity, 3),
                        n_workspaces=n_workspaces,
                        sections=shown,
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
