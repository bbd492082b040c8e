"""Find the notes of a page of a list, in the order of the list.

The key by which a section is sorted depends on its kind, its importance and its priority, which
make its class, and its worth depends on its moment, too. Time changes the worth of sections, but in
each class the latest sections always come first. So the groups of sections with equal keys are
visited in the order of the index `sections_by_class`, class by class, until no further group can
have a note of the page.
"""

from __future__ import annotations

import heapq
import json
import math
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

from memsyncd.core.search.filters import Filters
from memsyncd.store.counts import TOTAL, KeptCounts
from memsyncd.store.filters import compile_stated_filters, find_file_ids, require_chunks
from memsyncd.store.lookup import DAY, has_classes
from memsyncd.store.pool import Reader, encode_numbers
from memsyncd.store.sections import ANCHOR, FROM_SECTIONS

# If so many sections pass filters, all of their notes are sorted. If more pass, notes are tried in
# order.
MAX_SORTED = 2_000
_IS_DIVIDED = "EXISTS(SELECT 1 FROM sections WHERE file = f.id AND status = 'archived')"
_PASSES = (
    "EXISTS(SELECT 1 FROM sections s INDEXED BY sections_by_anchor WHERE s.file = f.id{allowed})"
)
_N_SECTIONS = "SELECT count(*) FROM (SELECT 1 {source}{where} LIMIT :most)"
_RANK = "coalesce(s.importance, :ranks ->> s.kind, :rest)"
OrderName = Literal["importance", "priority", "recency", "worth"]
# The formula of `compute_worth`.
_WORTH = (
    "-exp(min(0, s.moment - :now) / (coalesce(:half_lives ->> s.kind, :half_life) * 86400.0))"
    f" * (1 + ln(1 + {{n}}) / 10) * coalesce(:priorities ->> s.priority, {_RANK} / :usual)"
)
# The keys of sections, the smallest first; a statement with them needs the two parts below. The key
# of a note is the smallest one of its sections.
SORT_KEYS: Mapping[OrderName, str] = {
    "importance": f"-{_RANK}",
    "priority": f"10 * coalesce(substr(s.priority, 2), 9) - {_RANK}",
    "recency": f"-julianday({DAY})",
    "worth": _WORTH.format(n="coalesce(accessed.n, 0)"),
}
WITH_ACCESSES = (
    "WITH accessed(anchor, n) AS MATERIALIZED (SELECT key, value FROM json_each(:accesses)) "
)
# A join, because SQLite makes no index for a subquery in an expression.
JOIN_ACCESSES = " LEFT JOIN accessed ON accessed.anchor = f.path || '#' || s.slugs"
# The key of notes without sections, if it depends on a time: they come first.
_FIRST_KEY = -1e9


class PageOrder(NamedTuple):
    """The order of a page: the name of a key in `SORT_KEYS`, the bindings of these keys, and the
    place after which the page begins: the key and the path of a note. Without a name, by path.
    """

    name: OrderName | None = None
    bindings: Mapping[str, Any] = {}
    after: tuple[float, str] | None = None


def find_page(
    reader: Reader, filters: Filters, order: PageOrder, *, path: str | None, limit: int
) -> list[tuple[str, float]]:
    """Return the paths of the notes that `stream_notes` would yield, in this order, at most
    `limit`; each with its key.
    """
    stated, named = compile_stated_filters(reader, filters)
    condition = require_chunks(stated)
    is_narrow = bool(condition) and not filters.is_hiding_alone
    bindings: dict[str, Any] = {**named, **order.bindings, "limit": limit}
    limits = []
    if path is not None:
        limits.append("f.id IN (SELECT value FROM json_each(:of_files))")
        bindings["of_files"] = encode_numbers(find_file_ids(reader, [path]))
    after = ""
    if order.after is not None:
        bindings["after_key"], bindings["after"] = order.after
        after = "(k, f.path) > (:after_key, :after)" if order.name else "f.path > :after"
    # Nearly all sections have a chunk, and to count these takes several times as long.
    counted = [*limits, stated] if stated else limits
    passing = [*limits, condition] if condition else limits
    if order.name:
        # Only archived sections may be hidden: a note whose sections have all expired has no key.
        is_streamable = order.name in _CLASS_KEYS and (is_narrow or filters.includes_expired)
        is_limited = is_narrow or path is not None
        if (
            is_streamable
            and has_classes(reader)
            and not (is_limited and _are_few(reader, counted, bindings))
        ):
            page = _Page(reader, order, passing, bindings, limit)
            return page.read(None if is_narrow else limits)
        source = FROM_SECTIONS
        limits += [condition] if is_narrow else []
        if not is_narrow:
            joined = f" AND {condition}" if condition else ""
            source = f"FROM files f LEFT JOIN sections s ON s.file = f.id{joined}"
            limits += [f"(s.id IS NOT NULL OR NOT {_IS_DIVIDED})"] if condition else []
        key = f"coalesce(min({SORT_KEYS[order.name]}), {_FIRST_KEY})"
        statement = (
            f"{WITH_ACCESSES}SELECT f.path, {key} AS k"
            f" {source}{JOIN_ACCESSES}{_where(limits)} GROUP BY f.id"
            f" {f'HAVING {after}' if after else ''} ORDER BY k, f.path LIMIT :limit"
        )
        return reader.rows(statement, bindings)
    is_sortable = is_narrow and _are_few(reader, [stated], bindings)
    limits += [after] if after else []
    if is_sortable:
        limits.append(condition)
        statement = f"SELECT DISTINCT f.path {FROM_SECTIONS}{_where(limits)}"
    else:
        passes = _PASSES.format(allowed=f" AND {condition}" if condition else "")
        if condition:
            limits.append(passes if is_narrow else f"({passes} OR NOT {_IS_DIVIDED})")
        statement = f"SELECT f.path FROM files f{_where(limits)}"
    rows = reader.rows(f"{statement} ORDER BY f.path LIMIT :limit", bindings)
    return [(path, 0.0) for (path,) in rows]


def _are_few(reader: Reader, conditions: Sequence[str], bindings: Mapping[str, Any]) -> bool:
    where = _where(conditions)
    source = FROM_SECTIONS if "f." in where else "FROM sections s"
    statement = _N_SECTIONS.format(source=source, where=where)
    [(n_sections,)] = reader.rows(statement, {**bindings, "most": MAX_SORTED + 1})
    return bool(n_sections <= MAX_SORTED)


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


# --- groups of equal sections -------------------------------------------------------------------

# The keys of sections as long as nothing was recalled.
_CLASS_KEYS = {name: SORT_KEYS[name] for name in ("importance", "priority")}
_CLASS_KEYS["worth"] = _WORTH.format(n="0")
_WORTHS = (
    f"{_CLASS_KEYS['worth']}, {_WORTH.format(n=':n_recalls')},"
    " s.kind, s.importance, s.priority, s.moment, s.earliest"
)
_IS_OF_CLASS = "s.kind IS :kind AND s.importance IS :importance AND s.priority IS :priority"
_IS_OF_TIME = f"{_IS_OF_CLASS} AND s.moment BETWEEN :earliest AND :latest"
# In each class, no section with a later moment is worth as little as the key `:from_key`, but for
# roundings.
_LATEST = (
    "iif(s.weight <= :least, 9e18, :now + 1"
    " + 86400.0 * coalesce(:half_lives ->> s.kind, :half_life) * ln(:least / s.weight))"
)
_CLASSES = (
    "WITH kinds AS (SELECT DISTINCT kind, importance FROM standings UNION SELECT NULL, NULL),"
    " priorities(priority) AS (VALUES (NULL), ('P0'), ('P1'), ('P2'), ('P3')),"
    " classes AS (SELECT kind, importance, priority FROM kinds CROSS JOIN priorities)"
)
_HEADS = (
    f"{_CLASSES}, weighed AS (SELECT *, coalesce(:priorities ->> s.priority, {_RANK} / :usual)"
    " AS weight FROM classes s), heads AS (SELECT kind, importance, priority, (SELECT c.moment"
    " FROM sections c WHERE c.kind IS s.kind AND c.importance IS s.importance"
    f" AND c.priority IS s.priority AND c.moment <= {_LATEST}"
    " ORDER BY c.moment DESC LIMIT 1) AS moment FROM weighed s)"
    f" SELECT {_WORTHS} FROM (SELECT *, moment AS earliest FROM heads) s WHERE moment IS NOT NULL"
)
# The next moments of a class with at most `:most` sections; one moment may have more.
_BEFORE = f"FROM sections s WHERE {_IS_OF_CLASS} AND s.moment < :earliest ORDER BY s.moment DESC"
_FIRST_MOMENT = -(2**62)
_NEXT = (
    f"WITH next AS (SELECT kind, importance, priority, moment, min(moment, 1 + coalesce((SELECT"
    f" moment {_BEFORE} LIMIT 1 OFFSET :most), {_FIRST_MOMENT})) AS earliest {_BEFORE} LIMIT 1)"
    f" SELECT {_WORTHS} FROM next s"
)
_LEAST_WORTH = 5e-324
# A class is read in groups of 1, 2, 4, … sections, up to so many.
MOST_IN_GROUP = 128


class SectionGroup(NamedTuple):
    """The sections of a class; for worth, its sections between two moments, which are included."""

    kind: str | None
    importance: float | None
    priority: str | None
    latest: int | None = None
    earliest: int | None = None

    @property
    def condition(self) -> str:
        return _IS_OF_CLASS if self.latest is None else _IS_OF_TIME

    @property
    def has_one_key(self) -> bool:
        """True if all of its sections have the same key; False for few sections with several."""
        return self.latest == self.earliest


class GroupKey(NamedTuple):
    """The first key of a group as long as nothing was recalled, and with as many recalls as
    possible.
    """

    key: float
    raised: float


def stream_groups(
    reader: Reader,
    name: OrderName,
    keys: Mapping[str, Any],
    *,
    from_key: float = -1e8,
    n_recalls: int = 0,
) -> Iterator[tuple[GroupKey, SectionGroup]]:
    """Yield the groups of sections in the order of their first keys, without those whose keys come
    before `from_key`. `keys` has the bindings of the keys. No section was recalled more than
    `n_recalls` times.
    """
    if name != "worth":
        statement = f"{_CLASSES} SELECT {_CLASS_KEYS[name]} AS k, s.* FROM classes s ORDER BY k"
        for key, kind, importance, priority in reader.rows(statement, {**keys}):
            if key >= from_key:
                yield GroupKey(key, key), SectionGroup(kind, importance, priority)
        return
    bindings = {**keys, "least": max(-from_key, _LEAST_WORTH), "n_recalls": n_recalls}
    heap = [
        (GroupKey(key, raised), number, 1, SectionGroup(*group))
        for number, (key, raised, *group) in enumerate(reader.rows(_HEADS, bindings))
    ]
    heapq.heapify(heap)
    while heap:
        key, number, most, group = heapq.heappop(heap)
        if key.key >= from_key or not group.has_one_key:
            yield key, group
        for row in reader.rows(_NEXT, {**bindings, **group._asdict(), "most": most}):
            next_group = GroupKey(*row[:2]), number, min(2 * most, MOST_IN_GROUP)
            heapq.heappush(heap, (*next_group, SectionGroup(*row[2:])))


# --- pages of groups ----------------------------------------------------------------------------

# So many sections, the most recalled ones, are looked up one by one. Further recalls only raise the
# worth that a section of a group may have, so more groups are read.
MAX_RECALLED = 2_000
_RECALLED = (
    f"SELECT f.id, f.path, {_WORTH.format(n='(v.value ->> 2)')} AS k"
    " FROM json_each(:recalled) v CROSS JOIN files f ON f.path = v.value ->> 0"
    " CROSS JOIN sections s ON s.file = f.id AND s.slugs = v.value ->> 1{where}"
    " ORDER BY k, f.path LIMIT :n"
)
_BLANK_KEY = (
    "SELECT coalesce({key}, " + str(_FIRST_KEY) + ") FROM"
    " (SELECT NULL AS kind, NULL AS importance, NULL AS priority, NULL AS moment) s"
)
_BLANK = "SELECT path FROM files f{where} ORDER BY path LIMIT :limit"
_N_OF_GROUP = "SELECT count(*) FROM (SELECT 1 FROM sections s WHERE {group} LIMIT :most)"
_SORTED = (
    "SELECT DISTINCT f.id, f.path FROM sections s CROSS JOIN files f ON f.id = s.file{where}"
    " ORDER BY f.path LIMIT :n"
)
_TRIED = (
    f"SELECT f.id, f.path FROM files f WHERE f.path > :path AND {_PASSES} ORDER BY f.path LIMIT :n"
)
_ANCHORS = (
    f"SELECT {ANCHOR} FROM json_each(:files) v CROSS JOIN files f ON f.id = v.value"
    " CROSS JOIN sections s ON s.file = f.id"
)
_KEYS = (
    f"{WITH_ACCESSES}SELECT f.path, min({{key}}) FROM json_each(:files) v"
    " CROSS JOIN files f ON f.id = v.value CROSS JOIN sections s ON s.file = f.id"
    f"{JOIN_ACCESSES}{{where}} GROUP BY f.id"
)


def _find_most_sorted(limit: int, n_notes: int) -> int:
    # A note that is tried takes about as long as eight sections that are sorted.
    return max(MAX_SORTED, math.isqrt(8 * limit * n_notes))


class _Page:
    """One page in an order of classes; its notes have sections that meet `conditions`."""

    def __init__(
        self,
        reader: Reader,
        order: PageOrder,
        conditions: Sequence[str],
        bindings: Mapping[str, Any],
        limit: int,
    ) -> None:
        self._reader = reader
        self._name: OrderName = order.name or "worth"
        self._keys = order.bindings
        self._conditions = conditions
        self._bindings = bindings
        self._limit = limit
        self._after = order.after or (2 * _FIRST_KEY, "")
        self._seen: set[int] = set()
        self._best: list[tuple[float, str]] = []
        """The first notes by now, sorted; at most `limit`."""
        accesses: dict[str, int] = {}
        if self._name == "worth":
            accesses = json.loads(order.bindings["accesses"])
        self._accesses = accesses

    @cached_property
    def _most_sorted(self) -> int:
        """If a group has more sections, it takes less time to try notes by path."""
        _, n_notes = KeptCounts(self._reader).read(TOTAL)
        return _find_most_sorted(self._limit, n_notes)

    def read(self, of_blank: Sequence[str] | None) -> list[tuple[str, float]]:
        """Return the paths of the page with their keys. Notes without sections are among them if
        they meet the conditions `of_blank`; none without these.
        """
        if of_blank is not None:
            self._add_blank(of_blank)
        n_recalls = self._add_recalled()
        groups = stream_groups(
            self._reader, self._name, self._keys, from_key=self._after[0], n_recalls=n_recalls
        )
        for key, group in groups:
            if self._is_full_at(key.raised):
                break
            self._add_group(group, key)
        return [(path, key) for key, path in self._best]

    def _add_blank(self, conditions: Sequence[str]) -> None:
        """Add the first notes without sections."""
        [(key,)] = self._reader.rows(_BLANK_KEY.format(key=_CLASS_KEYS[self._name]), {**self._keys})
        path = self._after[1] if key == self._after[0] else ""
        where = _where(["f.is_blank", "f.path > :path", *conditions])
        bound = {**self._bindings, "path": path}
        for (path,) in self._reader.rows(_BLANK.format(where=where), bound):
            self._add(key, path)

    def _add(self, key: float, path: str) -> None:
        if (key, path) > self._after:
            insort(self._best, (key, path))
            del self._best[self._limit :]

    def _is_full_at(self, key: float, path: str = "") -> bool:
        """True if no note that comes after this key and path can be on the page."""
        return len(self._best) == self._limit and self._best[-1] <= (key, path)

    def _add_recalled(self) -> int:
        """Add the notes of the sections recalled most; return how often others were recalled."""
        if not self._accesses:
            return 0
        most = heapq.nlargest(MAX_RECALLED + 1, self._accesses.items(), key=lambda each: each[1])
        recalled = [
            (*anchor.rpartition("#")[::2], n_recalls) for anchor, n_recalls in most[:MAX_RECALLED]
        ]
        key, path = self._after
        bindings: dict[str, Any] = {
            **self._bindings,
            "recalled": json.dumps(recalled),
            "key": key,
            "path": path,
            "n": self._limit,
        }
        where = _where(["(k, f.path) > (:key, :path)", *self._conditions])
        while not self._is_full_at(key, path):
            rows = self._reader.rows(_RECALLED.format(where=where), bindings)
            self._add_files([file_id for file_id, _, _ in rows])
            if len(rows) < bindings["n"]:
                break
            _, path, key = rows[-1]
            bindings |= {"path": path, "key": key, "n": 2 * bindings["n"]}
        return most[-1][1] if len(most) > MAX_RECALLED else 0

    def _add_group(self, group: SectionGroup, key: GroupKey) -> None:
        """Add the notes of a group in the order of their paths."""
        reader = self._reader
        bindings = {**self._bindings, **group._asdict(), "n": self._limit, "path": ""}
        if key.key == self._after[0] and group.has_one_key:
            bindings["path"] = self._after[1]  # the notes of the group before it come before it
        conditions = [group.condition, *self._conditions]
        n_sections = MOST_IN_GROUP
        if group.has_one_key:
            bound = {**bindings, "most": self._most_sorted + 1}
            [(n_sections,)] = reader.rows(_N_OF_GROUP.format(group=group.condition), bound)
        if n_sections <= self._most_sorted:
            statement = _SORTED.format(where=_where(["f.path > :path", *conditions]))
        else:
            statement = _TRIED.format(allowed="".join(f" AND {each}" for each in conditions))
        while not self._is_full_at(key.raised, bindings["path"]):
            rows = reader.rows(statement, bindings)
            self._add_files([file_id for file_id, _ in rows])
            if len(rows) < bindings["n"]:
                return
            bindings["path"] = rows[-1][1]
            bindings["n"] *= 2

    def _add_files(self, files: Sequence[int]) -> None:
        """Add these notes by the keys of all their sections."""
        # A note is listed once for each of its recalled sections.
        new = {each for each in files if each not in self._seen}
        unseen = {"files": encode_numbers(new)}
        self._seen |= new
        accesses = {}
        if self._accesses:
            anchors = (row[0] for row in self._reader.rows(_ANCHORS, unseen))
            accesses = {each: self._accesses[each] for each in anchors if each in self._accesses}
        statement = _KEYS.format(key=SORT_KEYS[self._name], where=_where(self._conditions))
        bound = {**self._bindings, **unseen, "accesses": json.dumps(accesses)}
        for path, key in self._reader.rows(statement, bound):
            self._add(key, path)
