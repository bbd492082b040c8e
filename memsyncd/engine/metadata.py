"""Describes the metadata of a section for an answer, with the defaults of its kind and its day, and
computes its worth and its tier.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import KindDefaults, find_importance, find_kind
from memsyncd.core.model import (
    IMPORTANCE_BY_PRIORITY,
    USUAL_IMPORTANCE,
    WORTH_ORDERS,
    Tier,
    Worth,
    compute_worth,
    find_tier,
)
from memsyncd.core.search.filters import Filters, WorthFinder
from memsyncd.core.search.words import suggest_words
from memsyncd.engine.clock import find_local_day
from memsyncd.operations.notes.declare import SectionInfo
from memsyncd.operations.sections import FoundSection, Sort
from memsyncd.store.sections import (
    HitSection,
    MemoryLines,
    OutlinedSection,
    StoredMeta,
    StoredSection,
)

NO_META = StoredMeta(
    kind=None, tags=(), importance=None, priority=None, lifecycle=None, task=None, session=None,
    source=None, created=None, updated=None, expires=None, status=None, day=None,
    is_day_of_name=False, mtime_ns=0, note="",
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


_STATED = ("status", "priority", "lifecycle", "task", "session", "source", "created", "expires")


def list_stated(meta: StoredMeta) -> dict[str, str]:
    """Return the metadata that a section or its note states in keys of memsyncd, as text."""
    return {name: value for name in _STATED if (value := getattr(meta, name))}


def name_note(section: HitSection | StoredSection) -> str:
    """Return the title of a section's note. A note without a stated title is named by its first
    heading of level 1, which is no name of what is below another one: there the heading is.
    """
    title, extra = section.note, section.extra
    path = section.anchor.rpartition("#")[0]
    is_named = title in (extra.get("title", "").strip(), extra.get("name", "").strip())
    if is_named or not section.heading or title == path.rpartition("/")[2].rpartition(".")[0]:
        return title
    return section.heading[0]


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


# --- worth --------------------------------------------------------------------------------------

NO_ACCESSES: Final[Mapping[str, int]] = MappingProxyType({})


class Valuation(msgspec.Struct, frozen=True, kw_only=True):
    """Computes the worth and the tiers of memories at one time. `accesses` has the counts of
    sections by their anchors.
    """

    kinds: Mapping[str, KindDefaults]
    now_s: float
    hot_from: float
    warm_from: float
    accesses: Mapping[str, int]

    def compute(
        self, section: FoundSection | SectionInfo | StoredSection | OutlinedSection
    ) -> Worth:
        """Compute the worth of a section, of an answer or of the index."""
        day = (
            find_stored_day(section)
            if isinstance(section, StoredSection | OutlinedSection)
            else section.day
        )
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
    ) -> Worth:
        """Compute the worth of a section with this metadata. Its age counts from its last update,
        else from its creation, else from its day.
        """
        return compute_worth(
            age_s=self.now_s - find_moment_s(updated, created, day),
            half_life=find_kind(self.kinds, kind).half_life,
            n_accesses=n_accesses,
            priority=priority,
            importance=find_importance(self.kinds, kind, importance),
        )

    def find_tier(self, worth: float) -> Tier:
        return find_tier(worth, hot_from=self.hot_from, warm_from=self.warm_from)

    def explain(self, section: FoundSection | SectionInfo) -> dict[str, float]:
        """Return the worth and its factors for an answer; `decay_score` is its former name."""
        worth = self.compute(section)
        parts = {
            "worth": worth.value,
            "decay_score": worth.value,
            "decay_recency": worth.recency,
            "decay_accesses": worth.accesses,
            "decay_importance": worth.importance,
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


def complete_worth(filters: Filters, valuation: Valuation) -> Filters:
    """Add to filters by worth or tier the function that computes the worth of a section, and the
    worth from which on sections are warm and hot.
    """
    exclude = filters.exclude
    if not filters.needs_worth and not (exclude and exclude.needs_worth):
        return filters
    own: dict[str, Any] = {
        "find_worth": make_worth_finder(valuation),
        "tiers_from": (valuation.warm_from, valuation.hot_from),
    }
    return replace(filters, **own, exclude=replace(exclude, **own) if exclude else None)


# The most times that are remembered: most sections of a workspace share few days.
N_MOMENTS = 4_096
# The most worths that are remembered while sections are read: most sections of a note have the same
# metadata.
N_WORTHS = 1_024


def make_worth_finder(valuation: Valuation) -> WorthFinder:
    """Return a function that computes the worth of a section of the index."""

    @lru_cache(maxsize=N_WORTHS)
    def find_stated(*stated: Any) -> float:
        return valuation.compute_stated(*stated).value

    count = valuation.accesses.get

    def find(anchor: str, *stated: Any) -> float:
        return find_stated(*stated, count(anchor, 0))

    return find


Dated = StoredMeta | MemoryLines | OutlinedSection


class _OfDay(Protocol):
    """The parts of a section on which its day depends."""

    @property
    def day(self) -> str | None: ...
    @property
    def mtime_ns(self) -> int: ...


def find_stored_day(section: _OfDay) -> str:
    """Return the day of a section, else the day on which its note was saved."""
    return section.day or str(find_local_day(section.mtime_ns / 1e9))


def find_stored_moment_s(section: Dated) -> float:
    """Return when a section was updated, else created, since 1970."""
    return find_moment_s(section.updated, section.created, find_stored_day(section))


def find_moment_s(updated: str | None, created: str | None, day: str) -> float:
    """Return the first of these texts that is a time, in seconds since 1970; 0 if none is."""
    for text in (updated, created, day):
        moment_s = _read_moment_s(text) if text else None
        if moment_s is not None:
            return moment_s
    return 0.0


@lru_cache(maxsize=N_MOMENTS)
def _read_moment_s(text: str) -> float | None:
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.fromisoformat(text.strip()).timestamp()
    return None


# --- order --------------------------------------------------------------------------------------

Order = Callable[[FoundSection | SectionInfo], tuple[object, ...]]

_ORDERS: dict[Sort, Order] = {
    "importance": lambda section: (-section.importance,),
    "priority": lambda section: (section.priority or "P9", -section.importance),
    "recency": lambda section: (-date.fromisoformat(section.day).toordinal(),),
}


def find_order(sort: Sort, valuation: Valuation) -> Order | None:
    """Return the key that sorts sections; None for the order that they have without sorting."""
    if sort in WORTH_ORDERS:
        return lambda section: (-valuation.compute(section).value,)
    return _ORDERS.get(sort)


def bind_sort_keys(valuation: Valuation) -> dict[str, Any]:
    """Return the bindings of the keys by which sections are sorted."""
    kinds, rest = valuation.kinds, find_kind({}, None)
    return {
        "now": valuation.now_s,
        "ranks": json.dumps({name: kind.importance for name, kind in kinds.items()}),
        "rest": rest.importance,
        "half_lives": json.dumps({name: kind.half_life for name, kind in kinds.items()}),
        "half_life": rest.half_life,
        "priorities": json.dumps(IMPORTANCE_BY_PRIORITY),
        "usual": USUAL_IMPORTANCE,
        "accesses": json.dumps(dict(valuation.accesses)),
    }
