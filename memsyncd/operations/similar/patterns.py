"""Finds patterns: sections of the same kind and topic with similar texts, in several workspaces, or
with several values of a key, such as the client in `source.client`. A workspace or a value is the
*owner* of its sections.

Each workspace first counts its sections by kind and topic. Then it reads the sections of those
kinds and topics that other workspaces have as well. The time is bounded: only the sections that
were saved last in each workspace are compared, by the beginnings of their texts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from memsyncd.config import Config
from memsyncd.core.guard.secrets import redact
from memsyncd.core.search.filters import EQUAL, find_nested_value, fold_value, is_passing
from memsyncd.core.search.passages import highlight, strip_title
from memsyncd.core.search.similarity import (
    Features,
    find_features,
    group_similar,
)
from memsyncd.engine.candidates import uses_vectors
from memsyncd.engine.metadata import describe_meta, is_expired, name_note
from memsyncd.engine.plan import RunOptions
from memsyncd.engine.redaction import (
    must_redact,
    read_redacted_chunks,
    read_redacted_sections,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.semantic.declare import SemanticState
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
    owner: str
    features: Features
    described: PatternSection


class ReadSections(msgspec.Struct, frozen=True, kw_only=True):
    """The sections of one workspace to compare, how many were left out, and the sections that are
    near by their vectors: pairs of anchors, each with its cosine.
    """

    sections: Sequence[ReadSection]
    n_left_out: int
    near: Mapping[tuple[str, str], float] = msgspec.field(default_factory=dict)
    semantic: SemanticState = "off"


CategoryCounts = Mapping[Category, Mapping[str, int]]
"""The numbers of sections by kind and topic, and by owner."""


def read_categories(
    workspace: Workspace, params: PatternsParams, limit_s: float
) -> dict[Category, dict[str, int]]:
    """Count the sections of a workspace by kind and topic, and by owner. Sections that state
    neither kind nor topic, or lack the key, do not count.
    """
    has_titles, key = params.topic is not None, _find_key(params)
    with workspace.acquire(limit_s) as reader:
        counts = count_categories(reader, has_titles=has_titles, key=key)
    by_category: dict[Category, dict[str, int]] = {}
    for (kind, topic, value), n_sections in counts.items():
        owner = workspace.id if params.by is None else _find_owner(value, params.by)
        if (
            owner
            and (not params.kind or kind in params.kind)
            and (params.topic is None or is_passing(topic or "", EQUAL, params.topic))
        ):
            owners = by_category.setdefault((kind, topic), {})
            owners[owner] = owners.get(owner, 0) + n_sections
    return by_category


def _find_key(params: PatternsParams) -> str:
    return (params.by or "").partition(".")[0]


def _find_owner(value: str, by: str) -> str:
    """Return the owner of sections with this value of a key; empty for none."""
    return fold_value(_find_value(value, by) or "")


def _find_value(value: str, by: str) -> str | None:
    part = by.partition(".")[2]
    return find_nested_value(value, part) if part else value


def find_shared_categories(counts: Sequence[CategoryCounts], min_owners: int) -> set[Category]:
    """Return the categories that at least `min_owners` owners have."""
    owners: dict[Category, set[str]] = {}
    for own_counts in counts:
        for category, by_owner in own_counts.items():
            owners.setdefault(category, set()).update(by_owner)
    return {category for category, several in owners.items() if len(several) >= min_owners}


# How far above the usual cosine, the median, a pair must be: this part of the way to 1. With the
# default model, sections that say the same in other words are at half of the way.
NEAR_PART, N_SAMPLES = 0.4, 5
MAX_NEAR_PAIRS = 2_000


def _find_near_chunks(
    workspace: Workspace, chunks: Sequence[int]
) -> Sequence[tuple[int, int, float]] | None:
    """Return the pairs of chunks that are near by their vectors; None without vectors."""
    if not chunks or not uses_vectors(workspace):
        return None
    samples = chunks[:: max(1, len(chunks) // N_SAMPLES)][:N_SAMPLES]
    cosines = [workspace.vectors.of_chunks([chunk], None, 1) for chunk in samples]
    usual = [each.median for each in cosines if each is not None]
    if not usual:
        return None
    least = median(usual)
    return workspace.vectors.pairs(least + NEAR_PART * (1.0 - least), MAX_NEAR_PAIRS)


def read_category_sections(
    workspace: Workspace,
    categories: Collection[Category],
    n_sections: int,
    config: Config,
    options: RunOptions,
    params: PatternsParams,
    *,
    most: int,
) -> ReadSections:
    """Read the sections of these kinds and topics that were saved last, at most `most`.

    `n_sections` is the number of all such sections. Raises the errors of `Workspace.acquire`.
    """
    with workspace.acquire(options.timeout_s or config.search.timeout_s) as reader:
        has_titles, key = params.topic is not None, _find_key(params)
        rows = find_category_sections(
            reader, categories, limit=most, has_titles=has_titles, key=key
        )
        metas = read_redacted_sections(reader, [row.section for row in rows], config)
        texts = read_redacted_chunks(reader, [row.chunk for row in rows], config)
        show = redact if must_redact(reader, config) else str
    read = []
    for row in rows:
        section = metas[row.section]
        whole = texts[row.chunk]
        text = strip_title(whole, (section.heading or ("",))[-1]) or whole
        features = find_features(text[:COMPARED_CHARACTERS])
        value = None if params.by is None else _find_value(row.value, params.by)
        if params.by is not None and not value:
            continue
        if len(features) >= MIN_PATTERN_FEATURES and not is_expired(section.expires, options.now_s):
            described = PatternSection(
                workspace=workspace.id,
                value=value and show(value),
                anchor=section.anchor,
                path=row.path,
                start_line=row.span.start,
                end_line=row.span.end,
                title=name_note(section),
                heading=list(section.heading),
                snippet=highlight(text, {}),
                **describe_meta(section, config.kinds, options.now_s),
            )
            owner = fold_value(value) if value else workspace.id
            read.append(ReadSection((row.kind, row.topic), owner, features, described))
    # Sections of one workspace have one owner unless the request names a key. To compare all
    # vectors may take longer than a reader may be held.
    chunks = {row.chunk: metas[row.section].anchor for row in rows}
    pairs = _find_near_chunks(workspace, [*chunks]) if params.by is not None else None
    near = {
        (chunks[first], chunks[other]): cosine
        for first, other, cosine in pairs or ()
        if first in chunks and other in chunks
    }
    state: SemanticState = "off" if pairs is None else workspace.vectors.status().state
    n_left_out = max(0, n_sections - len(rows))
    return ReadSections(sections=read, n_left_out=n_left_out, near=near, semantic=state)


def find_patterns(parts: Sequence[ReadSections], params: PatternsParams) -> list[Pattern]:
    """Group similar sections of each kind and topic. Patterns of the most owners come first."""
    by_category: dict[Category, list[ReadSection]] = {}
    for section in (section for part in parts for section in part.sections):
        by_category.setdefault(section.category, []).append(section)
    near = {
        (part_id, *pair): cosine
        for part in parts
        for part_id in {section.described.workspace for section in part.sections}
        for pair, cosine in part.near.items()
    }
    patterns: list[Pattern] = []
    for sections in by_category.values():
        if is_cancelled():
            raise make_timeout_error()
        items = [(section.owner, section.features) for section in sections]
        places = {
            (each.described.workspace, each.described.anchor): number
            for number, each in enumerate(sections)
        }
        pairs = [
            (places[workspace, first], places[workspace, other], cosine)
            for (workspace, first, other), cosine in near.items()
            if (workspace, first) in places and (workspace, other) in places
        ]
        for group in group_similar(items, params.min_similarity, pairs):
            if len({sections[number].owner for number in group.members}) < params.min_workspaces:
                continue
            members = [sections[number].described for number in group.members]
            values = {fold_value(each.value): each.value for each in members if each.value}
            patterns.append(
                Pattern(
                    kind=members[0].kind,
                    topic=members[0].meta.get("topic"),
                    similarity=round(min(1.0, group.similarity), 3),
                    n_workspaces=len({section.workspace for section in members}),
                    values=sorted(values.values()),
                    sections=members,
                )
            )
    patterns.sort(key=_order_pattern)
    return patterns


def join_states(parts: Sequence[ReadSections]) -> SemanticState:
    """Say whether vectors of all workspaces took part."""
    states = {part.semantic for part in parts} or {"off"}
    return states.pop() if len(states) == 1 else "partial"


def _order_pattern(pattern: Pattern) -> tuple[int, int, float, str, str]:
    first = pattern.sections[0]
    return (
        -(len(pattern.values) or pattern.n_workspaces),
        -len(pattern.sections),
        -pattern.similarity,
        first.workspace,
        first.anchor,
    )
