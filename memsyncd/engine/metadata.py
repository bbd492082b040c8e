"""Describes the metadata of a section for an answer: with the defaults of its kind, and its day."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from memsyncd.core.editing.kinds import KindDefaults, find_kind
from memsyncd.engine.clock import find_local_day
from memsyncd.protocol.search import SectionMeta, Sort
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
        "day": meta.day or str(find_local_day(meta.mtime_ns / 1e9)),
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


# --- order --------------------------------------------------------------------------------------

Order = Callable[[SectionMeta], tuple[object, ...]]

_ORDERS: dict[Sort, Order] = {
    "importance": lambda one: (-one.importance,),
    "priority": lambda one: (one.priority or "P9", -one.importance),
    "recency": lambda one: (-date.fromisoformat(one.day).toordinal(),),
}


def find_order(sort: Sort) -> Order | None:
    """Return the key that sorts sections; None for an order that they are in anyway."""
    return _ORDERS.get(sort)
