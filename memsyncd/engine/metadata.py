"""Describes the metadata of a section for an answer, with the defaults of its kind and its day, and
values memories: their decay and their tier.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.decay import Decay, Tier, compute_decay, find_tier
from memsyncd.core.editing.kinds import KindDefaults, find_kind
from memsyncd.core.search.query import Filters, TierFinder
from memsyncd.engine.clock import find_local_day
from memsyncd.protocol.search import ContextPart, Hit, SectionInfo, Sort
from memsyncd.store.lookup import StoredSection
from memsyncd.store.metadata import StoredMeta

NO_META = StoredMeta(
    kind=None, tags=(), importance=None, priority=None, lifecycle=None, task=None, session=None,
    source=None, created=None, updated=None, expires=None, status=None, day=None,
    is_day_of_name=False, mtime_ns=0,
    extra={},
)  # fmt: skip


def describe_meta(
    meta: StoredMeta, kinds: Mapping[str, KindDefaults], now_s: float
) -> dict[str, Any]:
    """Return the fields of `protocol.search.SectionMeta`."""
    importance = meta.importance
    if importance is None:
        importance = find_kind(kinds, meta.kind).importance
    return {
        "kind": meta.kind,
        "tags": list(meta.tags),
        "importance": importance,
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
    }


def is_expired(expires: str | None, now_s: float) -> bool:
    """True from the day or time on that `parse_expiry` returned."""
    if expires is None:
        return False
    zone = UTC if expires.endswith("Z") else None
    return expires <= datetime.fromtimestamp(now_s, zone).isoformat()


# --- decay --------------------------------------------------------------------------------------

NO_ACCESSES: Final[Mapping[str, int]] = MappingProxyType({})


class Valued(Protocol):
    """What the decay of a section depends on: the fields of a hit or a listed section."""

    @property
    def anchor(self) -> str: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def priority(self) -> str | None: ...
    @property
    def importance(self) -> float: ...
    @property
    def updated(self) -> str | None: ...
    @property
    def created(self) -> str | None: ...
    @property
    def day(self) -> str: ...


class Valuation(msgspec.Struct, frozen=True, kw_only=True):
    """Computes what memories are worth at one time. `accesses` has the counts of sections by their
    anchors.
    """

    kinds: Mapping[str, KindDefaults]
    now_s: float
    hot_from: float
    warm_from: float
    accesses: Mapping[str, int]

    def compute(self, one: Valued) -> Decay:
        """Compute the decay of a section. Its age is that of its last update, else of its creation,
        else of its day.
        """
        return compute_decay(
            age_s=self.now_s - find_moment_s(one.updated, one.created, one.day),
            half_life=find_kind(self.kinds, one.kind).half_life,
            n_accesses=self.accesses.get(one.anchor, 0),
            priority=one.priority,
            importance=one.importance,
        )

    def compute_stored(self, one: StoredSection) -> Decay:
        """Compute the decay of a section as indexed."""
        importance = one.importance
        if importance is None:
            importance = find_kind(self.kinds, one.kind).importance
        day = find_stored_day(one)
        return self.compute(
            _StoredValue(
                one.anchor, one.kind, one.priority, importance, one.updated, one.created, day
            )
        )

    def find_tier(self, score: float) -> Tier:
        return find_tier(score, hot_from=self.hot_from, warm_from=self.warm_from)

    def explain(self, one: Valued) -> dict[str, float]:
        """Return the decay and its factors for an answer."""
        decay = self.compute(one)
        parts = {
            "decay_score": decay.score,
            "decay_recency": decay.recency,
            "decay_accesses": decay.accesses,
            "decay_importance": decay.importance,
        }
        return {name: round(part, 4) for name, part in parts.items()}


class _StoredValue(msgspec.Struct, frozen=True):
    """The fields that `Valuation.compute` needs, of a section as indexed."""

    anchor: str
    kind: str | None
    priority: str | None
    importance: float
    updated: str | None
    created: str | None
    day: str


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
    """Add to filters of tiers what tells the tier of a section."""
    exclude = filters.exclude
    if not filters.tiers and not (exclude and exclude.tiers):
        return filters
    find = _make_tier_finder(valuation)
    return replace(
        filters, find_tier=find, exclude=replace(exclude, find_tier=find) if exclude else None
    )


# Tiers that are remembered while sections are read: those of a note mostly state the same.
N_TIERS = 1_024


def _make_tier_finder(valuation: Valuation) -> TierFinder:
    @lru_cache(maxsize=N_TIERS)
    def find_stated(
        kind: str | None,
        priority: str | None,
        importance: float | None,
        updated: str | None,
        created: str | None,
        day: str,
        n_accesses: int,
    ) -> str:
        decay = compute_decay(
            age_s=valuation.now_s - find_moment_s(updated, created, day),
            half_life=find_kind(valuation.kinds, kind).half_life,
            n_accesses=n_accesses,
            priority=priority,
            importance=find_kind(valuation.kinds, kind).importance
            if importance is None
            else importance,
        )
        return valuation.find_tier(decay.score)

    count = valuation.accesses.get

    def find(anchor: str, *stated: Any) -> str:
        return find_stated(*stated, count(anchor, 0))

    return find


class Dated(Protocol):
    """What the time of a section depends on."""

    @property
    def updated(self) -> str | None: ...
    @property
    def created(self) -> str | None: ...
    @property
    def day(self) -> str | None: ...
    @property
    def mtime_ns(self) -> int: ...


def find_stored_day(one: Dated) -> str:
    """Return the day of a section, else that on which its note was saved."""
    return one.day or str(find_local_day(one.mtime_ns / 1e9))


def find_stored_moment_s(one: Dated) -> float:
    """Return when a section was updated, else created, since 1970."""
    return find_moment_s(one.updated, one.created, find_stored_day(one))


def find_moment_s(updated: str | None, created: str | None, day: str) -> float:
    """Return the time since 1970 that the first of these texts names that can be read."""
    for text in (updated, created, day):
        if text:
            with contextlib.suppress(ValueError, OverflowError, OSError):
                return datetime.fromisoformat(text.strip()).timestamp()
    return 0.0


# --- order --------------------------------------------------------------------------------------

Order = Callable[[Hit | SectionInfo | ContextPart], tuple[object, ...]]

_ORDERS: dict[Sort, Order] = {
    "importance": lambda one: (-one.importance,),
    "priority": lambda one: (one.priority or "P9", -one.importance),
    "recency": lambda one: (-date.fromisoformat(one.day).toordinal(),),
}


def find_order(sort: Sort, valuation: Valuation) -> Order | None:
    """Return the key that sorts sections; None for an order that they are in anyway."""
    if sort == "decay":
        return lambda one: (-valuation.compute(one).score,)
    return _ORDERS.get(sort)
