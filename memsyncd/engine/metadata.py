"""Describes the metadata of a section for an answer, with the defaults of its kind and its day, and
computes its decay and its tier.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import KindDefaults, find_importance, find_kind
from memsyncd.core.model import Decay, Tier, compute_decay, find_tier
from memsyncd.core.search.filters import Filters, TierFinder
from memsyncd.core.search.words import suggest_words
from memsyncd.engine.clock import find_local_day
from memsyncd.operations.notes.declare import SectionInfo
from memsyncd.operations.sections import FoundSection, Sort
from memsyncd.store.lookup import OutlinedWork
from memsyncd.store.sections import MemoryLines, StoredMeta, StoredSection

NO_META = StoredMeta(
    kind=None, tags=(), importance=None, priority=None, lifecycle=None, task=None, session=None,
    source=None, created=None, updated=None, expires=None, status=None, day=None,
    is_day_of_name=False, mtime_ns=0,
    extra={},
)  # fmt: skip


def describe_meta(
    meta: StoredMeta, kinds: Mapping[str, KindDefaults], now_s: float
) -> dict[str, Any]:
    """Return the fields of `SectionMeta` of one section."""
    return describe_metas([meta], kinds, now_s)[0]


def describe_metas(
    metas: Sequence[StoredMeta], kinds: Mapping[str, KindDefaults], now_s: float
) -> list[dict[str, Any]]:
    """Return the fields of `SectionMeta` of several sections."""
    return [
        {
            "kind": meta.kind,
            "tags": list(meta.tags),
            "is_importance_stated": meta.importance is not None,
            "priority": meta.priority,
            "lifecycle": meta.lifecycle,
            "task": meta.task,
            "session": meta.session,
            "source": meta.source,
            "created": meta.created,
            "updated": meta.updated,
            "expires": meta.expires,
            "is_expired": is_expired(meta.expires, now_s),
            "status": meta.status,
            "day": find_stored_day(meta),
            "is_day_of_file": meta.day is None,
            "is_day_of_name": meta.is_day_of_name,
            "meta": meta.extra,
            "importance": find_importance(kinds, meta.kind, meta.importance),
        }
        for meta in metas
    ]


def is_expired(expires: str | None, now_s: float) -> bool:
    """True from the day or time on that `expires` states."""
    if expires is None:
        return False
    zone = UTC if expires.endswith("Z") else None
    return expires <= datetime.fromtimestamp(now_s, zone).isoformat()


def find_similar_kind(kinds: Mapping[str, KindDefaults], kind: str | None) -> str | None:
    """Return the configured kind that is most similar to an unknown kind, None without any."""
    if not kind or kind.lower() in kinds:
        return None
    return next(iter(suggest_words(kind, [(name, 0) for name in kinds])), None)


def advise_unknown_kind(kinds: Mapping[str, KindDefaults], kind: str) -> str:
    """Return advice about a kind that is not configured."""
    similar = find_similar_kind(kinds, kind)
    word = f"write {similar}" if similar else "correct the word"
    return f"{word}, or add [kinds.NAME] to the configuration"


# --- decay --------------------------------------------------------------------------------------

NO_ACCESSES: Final[Mapping[str, int]] = MappingProxyType({})


class Valuation(msgspec.Struct, frozen=True, kw_only=True):
    """Computes the decay and the tiers of memories at one time. `accesses` has the counts of
    sections by their anchors.
    """

    kinds: Mapping[str, KindDefaults]
    now_s: float
    hot_from: float
    warm_from: float
    accesses: Mapping[str, int]

    def compute(self, section: FoundSection | SectionInfo | StoredSection) -> Decay:
        """Compute the decay of a section, of an answer or of the index."""
        day = find_stored_day(section) if isinstance(section, StoredSection) else section.day
        stated = (
            section.kind,
            section.priority,
            section.importance,
            section.updated,
            section.created,
            day,
        )
        return self.compute_stated(*stated, self.accesses.get(section.anchor, 0))

    def compute_stated(
        self,
        kind: str | None,
        priority: str | None,
        importance: float | None,
        updated: str | None,
        created: str | None,
        day: str,
        n_accesses: int,
    ) -> Decay:
        """Compute the decay of a section with this metadata. Its age counts from its last update,
        else from its creation, else from its day.
        """
        return compute_decay(
            age_s=self.now_s - find_moment_s(updated, created, day),
            half_life=find_kind(self.kinds, kind).half_life,
            n_accesses=n_accesses,
            priority=priority,
            importance=find_importance(self.kinds, kind, importance),
        )

    def find_tier(self, score: float) -> Tier:
        return find_tier(score, hot_from=self.hot_from, warm_from=self.warm_from)

    def explain(self, section: FoundSection | SectionInfo) -> dict[str, float]:
        """Return the decay and its factors for an answer."""
        decay = self.compute(section)
        parts = {
            "decay_score": decay.score,
            "decay_recency": decay.recency,
            "decay_accesses": decay.accesses,
            "decay_importance": decay.importance,
        }
        return {name: round(part, 4) for name, part in parts.items()}


def make_valuation(
    config: Config, now_s: float, accesses: Mapping[str, int] = NO_ACCESSES
) -> Valuation:
    memory = config.memory
    return Valuation(
        kinds=config.kinds,
        now_s=now_s,
        hot_from=memory.hot_from,
        warm_from=memory.warm_from,
        accesses=accesses,
    )


def complete_tiers(filters: Filters, valuation: Valuation) -> Filters:
    """Add to filters of tiers the function that finds the tier of a section."""
    exclude = filters.exclude
    if not filters.tiers and not (exclude and exclude.tiers):
        return filters
    find = _make_tier_finder(valuation)
    return replace(
        filters, find_tier=find, exclude=replace(exclude, find_tier=find) if exclude else None
    )


# The most tiers that are remembered while sections are read: most sections of a note have the same
# metadata.
N_TIERS = 1_024


def _make_tier_finder(valuation: Valuation) -> TierFinder:
    @lru_cache(maxsize=N_TIERS)
    def find_stated(*stated: Any) -> Tier:
        return valuation.find_tier(valuation.compute_stated(*stated).score)

    count = valuation.accesses.get

    def find(anchor: str, *stated: Any) -> str:
        return find_stated(*stated, count(anchor, 0))

    return find


Dated = StoredMeta | MemoryLines


def find_stored_day(section: Dated | OutlinedWork) -> str:
    """Return the day of a section, else the day on which its note was saved."""
    return section.day or str(find_local_day(section.mtime_ns / 1e9))


def find_stored_moment_s(section: Dated) -> float:
    """Return when a section was updated, else created, since 1970."""
    return find_moment_s(section.updated, section.created, find_stored_day(section))


def find_moment_s(updated: str | None, created: str | None, day: str) -> float:
    """Return the first of these texts that is a time, in seconds since 1970; 0 if none is."""
    for text in (updated, created, day):
        if text:
            with contextlib.suppress(ValueError, OverflowError, OSError):
                return datetime.fromisoformat(text.strip()).timestamp()
    return 0.0


# --- order --------------------------------------------------------------------------------------

Order = Callable[[FoundSection | SectionInfo], tuple[object, ...]]

_ORDERS: dict[Sort, Order] = {
    "importance": lambda section: (-section.importance,),
    "priority": lambda section: (section.priority or "P9", -section.importance),
    "recency": lambda section: (-date.fromisoformat(section.day).toordinal(),),
}


def find_order(sort: Sort, valuation: Valuation) -> Order | None:
    """Return the key that sorts sections; None for the order that they have without sorting."""
    if sort == "decay":
        return lambda section: (-valuation.compute(section).score,)
    return _ORDERS.get(sort)
