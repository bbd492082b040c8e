"""Look up and count the sections of tasks, sessions and projects in index.db, without their texts.

SQL counts and orders these sections, so that only the sections of an answer become values.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from memsyncd.core.search.filters import Filters
from memsyncd.core.search.tasks import BLOCKED, CLOSED, FINISHED, LAST_PRIORITY, RECORDS
from memsyncd.store.counts import (
    KIND_OF_PROJECT,
    META,
    OF_PROJECT,
    TAG_OF_PROJECT,
    TOTAL,
    WORK,
    KeptCounts,
    Moment,
    find_span,
    read_counted_moment,
)
from memsyncd.store.filters import compile_hidden, compile_section_filters
from memsyncd.store.groups import GroupTimes, compute_times
from memsyncd.store.pages import JOIN_ACCESSES, SORT_KEYS, WITH_ACCESSES, OrderName
from memsyncd.store.pool import Reader, encode_numbers
from memsyncd.store.schema import HAS_NO_TASK, OPEN_WORK
from memsyncd.store.sections import ANCHOR, FROM_SECTIONS


class OutlinedWork(NamedTuple):
    """A section that has a text, without this text: the values that order tasks and sessions. `at`
    is when it was created, else its day, else the day of its note, else the local day on which the
    note was saved. `blocked_by` is the value of this key of metadata, which the section or its note
    states.
    """

    anchor: str
    path: str
    start_line: int
    end_line: int
    kind: str | None
    importance: float | None
    priority: str | None
    lifecycle: str | None
    status: str | None
    task: str | None
    session: str | None
    at: str
    blocked_by: str | None

    @property
    def place(self) -> tuple[str, int]:
        return self.path, self.start_line


_WORK_COLUMNS = (
    f"{ANCHOR}, f.path, s.start_line, s.end_line, s.kind, s.importance, s.priority, s.lifecycle,"
    " s.status, s.task, s.session, s.at,"
    " coalesce(s.extra ->> 'blocked_by', f.extra ->> 'blocked_by')"
)
_WORK = f"SELECT {_WORK_COLUMNS} {FROM_SECTIONS} WHERE {{allowed}} ORDER BY f.path, s.start_line"
_HAS_NO_TASK = HAS_NO_TASK.format(s="s.")
_IS_OPEN = (
    f"{_HAS_NO_TASK} = 0 AND {OPEN_WORK.format(s='s.')} AND NOT"
    f" coalesce(s.kind IN ({', '.join(map(repr, sorted(RECORDS)))}), 0){{allowed}}"
)
_N_OPEN = (
    "SELECT count(*), coalesce(sum(lower(s.status) IS 'blocked'), 0) FROM sections s WHERE"
    f" {_IS_OPEN}"
)


@contextlib.contextmanager
def stream_work(
    reader: Reader, filters: Filters, *, has: Sequence[str] = ()
) -> Iterator[Iterator[OutlinedWork]]:
    """Yield the sections that pass the filters and have a text, by path and line, if they have
    values in all columns of `has`.
    """
    condition, bindings = compile_section_filters(reader, filters, have_text=True)
    allowed = " AND ".join((condition, *(f"s.{column} IS NOT NULL" for column in has)))
    with reader.stream(_WORK.format(allowed=allowed), bindings) as rows:
        yield map(OutlinedWork._make, rows)


def count_open_work(reader: Reader, filters: Filters) -> tuple[int, int]:
    """Count the sections of tasks that are open and no records, without those that the filters
    hide; and the sections among them whose status is `blocked`.
    """
    if kept := _open_counts(reader, filters):
        n_blocked, _ = kept.read(WORK, BLOCKED)
        return kept.read(WORK)[0] + n_blocked, n_blocked
    hidden, bindings = compile_hidden(reader, filters)
    allowed = f" AND {hidden}" if hidden else ""
    [(n_open, n_blocked)] = reader.rows(_N_OPEN.format(allowed=allowed), bindings)
    return n_open, n_blocked


def _open_counts(reader: Reader, filters: Filters) -> KeptCounts | None:
    """Return the counts that commits keep, if they hold for these filters."""
    hides_all = not filters.includes_archived and not filters.includes_expired
    return KeptCounts(reader, filters.now_s) if hides_all and filters.is_hiding_alone else None


def has_key(reader: Reader, key: str) -> bool:
    """True if a section states a value of this key of free metadata."""
    return any(KeptCounts(reader).read(META, key))


def find_open_work(reader: Reader, filters: Filters, *, most: int) -> list[OutlinedWork]:
    """Return the first `most` sections that `count_open_work` counts, without blocked ones: P0
    first, then the oldest, then by path and line.
    """
    hidden, bindings = compile_hidden(reader, filters)
    passing = _IS_OPEN.format(allowed=f" AND {hidden}" if hidden else "")
    passing += " AND lower(s.status) IS NOT 'blocked'"
    return _read_in_order(reader, passing, bindings, most)


# The index `sections_of_work` has this order, but for sections of the same time.
_PRIORITY = f"coalesce(s.priority, '{LAST_PRIORITY}')"
_TIMES_IN_ORDER = (
    f"SELECT {_PRIORITY}, s.at FROM sections s WHERE {{passing}} ORDER BY {{times}} LIMIT :most"
)
_N_TIED = "SELECT count(*) FROM (SELECT 1 FROM sections s WHERE {passing} LIMIT :enough)"
_IN_ORDER = (
    f"SELECT {_WORK_COLUMNS} FROM sections s CROSS JOIN files f ON f.id = s.file WHERE {{passing}}"
    " ORDER BY {times}, f.path, s.start_line LIMIT :most"
)
_TIED = (
    f"SELECT {_WORK_COLUMNS} FROM files f CROSS JOIN sections s INDEXED BY sections_by_anchor"
    " ON s.file = f.id WHERE {passing} ORDER BY f.path, s.start_line LIMIT :most"
)


def _read_in_order(
    reader: Reader, passing: str, bindings: Mapping[str, Any], most: int
) -> list[OutlinedWork]:
    """Return the first `most` of the open sections that pass: P0 first, then the oldest, then by
    path and line. If very many have the time of the last one, notes are tried by path. All have
    the priority that the bindings name, if any.
    """
    bound = {**bindings, "most": most}
    # SQLite sorts all sections if the order names an expression whose value is fixed. Then it also
    # does not stop by itself after the last one.
    is_fixed = "priority" in bindings
    order = "s.at" if is_fixed else f"{_PRIORITY}, s.at"
    times = reader.rows(_TIMES_IN_ORDER.format(passing=passing, times=order), bound)
    limited = passing
    if len(times) == most:
        _, n_notes = KeptCounts(reader).read(TOTAL)
        # Of so many, one in as many notes as this is found by path.
        enough = 1 + math.isqrt(most * n_notes)
        bound |= {"priority_of_last": times[-1][0], "last": times[-1][1], "enough": enough}
        tied = f"s.at = :last AND {_PRIORITY} = :priority_of_last AND {passing}"
        [(n_tied,)] = reader.rows(_N_TIED.format(passing=tied), bound)
        if n_tied == enough:
            n_before = sum(each != times[-1] for each in times)
            before = _read_in_order(reader, passing, bindings, n_before) if n_before else []
            rows = reader.rows(_TIED.format(passing=tied), {**bound, "most": most - n_before})
            return [*before, *map(OutlinedWork._make, rows)]
        limited = f"s.at <= :last AND {passing}" if is_fixed else passing
    rows = reader.rows(_IN_ORDER.format(passing=limited, times=order), bound)
    return [*map(OutlinedWork._make, rows)]


# --- the project ----------------------------------------------------------------------------------

_FINISHED, _CLOSED, _RECORDS = (
    f"({', '.join(map(repr, sorted(names)))})" for names in (FINISHED, CLOSED, RECORDS)
)
# The index `sections_of_project` has all columns of sections that are compared here.
_IS_OF_PROJECT = (
    "s.lifecycle = 'project' AND {allowed}"
    f" AND NOT coalesce(lower(s.status) IN {_FINISHED}, 0) AND s.task IS NOT :other_than"
)
_OF_PROJECT = f"{{source}} WHERE {_IS_OF_PROJECT}"
_N_OF_TASK = (
    "SELECT count(*) {source} WHERE s.task COLLATE NOCASE = :task AND s.task = :task AND"
    f" {_IS_OF_PROJECT}"
)
_FIRST_OF_PROJECT = (
    f"{WITH_ACCESSES}SELECT {_WORK_COLUMNS} {FROM_SECTIONS}{JOIN_ACCESSES} WHERE {_IS_OF_PROJECT}"
    f" ORDER BY {{key}}, s.at DESC, f.path, s.start_line LIMIT :most"
)
_N_OF_PROJECT = f"SELECT count(*), count(DISTINCT s.file) {_OF_PROJECT}"
_FEW_OF_PROJECT = f"SELECT count(*) FROM (SELECT 1 {_OF_PROJECT} LIMIT :few)"
# So many sections are all sorted. If there are more, the first are read in the order of the index,
# by kind and stated importance.
MAX_SORTED = 1_000
_RANKS_OF_PROJECT = "SELECT DISTINCT kind, importance FROM standings WHERE mark <> ''"
_FIRST_OF_RANK = (
    f"SELECT {_WORK_COLUMNS} {FROM_SECTIONS} WHERE {_IS_OF_PROJECT} AND s.kind {{kind}}"
    " AND s.importance {importance} AND s.at >= :since"
    " ORDER BY s.at DESC, f.path, s.start_line LIMIT :most"
)
MOST_KINDS = 100_000
_COUNTS_OF_PROJECT = f"""
WITH project AS MATERIALIZED (SELECT s.id AS id, coalesce(s.kind, 'none') AS kind {_OF_PROJECT})
SELECT 'kind', kind, count(*) FROM project GROUP BY kind
UNION ALL
SELECT 'tag', tag, count(*) FROM project CROSS JOIN tags ON section = project.id GROUP BY tag
ORDER BY 3 DESC, 2
"""


class ProjectSections:
    """The sections of the lifecycle `project` that pass filters, have a text and are not finished,
    without the sections of the task `other_than`.
    """

    def __init__(self, reader: Reader, filters: Filters, *, other_than: str | None = None) -> None:
        self._reader = reader
        self._filters = filters
        self._other_than = other_than
        self._allowed, bindings = compile_section_filters(reader, filters, have_text=True)
        self._source = FROM_SECTIONS if "f." in self._allowed else "FROM sections s"
        # No section has a task of no letter.
        self._bindings: dict[str, Any] = {**bindings, "other_than": other_than or ""}

    def count_sections(self) -> int:
        kept = _open_counts(self._reader, self._filters)
        if kept is None:
            return self.count()[0]
        n_sections, _ = kept.read(OF_PROJECT)
        if self._other_than:
            rows = self._rows(_N_OF_TASK, task=self._other_than, other_than="")
            n_sections -= rows[0][0]
        return n_sections

    def count(self) -> tuple[int, int]:
        """Return the numbers of sections and of notes."""
        if not self._other_than and (kept := _open_counts(self._reader, self._filters)):
            return kept.read(OF_PROJECT)
        [(n_sections, n_notes)] = self._rows(_N_OF_PROJECT)
        return n_sections, n_notes

    def count_values(self, *, most_tags: int) -> tuple[dict[str, int], dict[str, int]]:
        """Return the numbers of sections by kind, which may be `none`, and by the `most_tags`
        commonest tags; the commonest first.
        """
        counts: dict[str, dict[str, int]] = {"kind": {}, "tag": {}}
        if not self._other_than and (kept := _open_counts(self._reader, self._filters)):
            kinds = kept.list(KIND_OF_PROJECT, most=MOST_KINDS)
            tags = kept.list(TAG_OF_PROJECT, most=most_tags)
            return {str(kind): n for kind, n, _ in kinds}, {str(tag): n for tag, n, _ in tags}
        for field, value, n in self._rows(_COUNTS_OF_PROJECT):
            if field == "kind" or len(counts["tag"]) < most_tags:
                counts[field][value] = n
        return counts["kind"], counts["tag"]

    def find_first(
        self, key: OrderName, keys: Mapping[str, Any], *, most: int
    ) -> list[OutlinedWork]:
        """Return the first sections by a key, then the latest, then by path and line. `keys` has
        the bindings of the keys.
        """
        if key == "importance" and not self._are_few():
            return self._find_most_important(keys, most)
        parts = {"key": SORT_KEYS[key]}
        rows = self._rows(_FIRST_OF_PROJECT, parts, **keys, most=most)
        return [*map(OutlinedWork._make, rows)]

    def _are_few(self) -> bool:
        if self._filters.is_hiding_alone:
            return False  # by rank, no section is read in vain
        [(n_few,)] = self._rows(_FEW_OF_PROJECT, few=MAX_SORTED + 1)
        return bool(n_few <= MAX_SORTED)

    def _find_most_important(self, keys: Mapping[str, Any], most: int) -> list[OutlinedWork]:
        ranks, rest = json.loads(keys["ranks"]), keys["rest"]
        by_rank: dict[float, list[tuple[str | None, float | None]]] = {}
        for kind, importance in self._rows(_RANKS_OF_PROJECT):
            rank = ranks.get(kind, rest) if importance is None else importance
            by_rank.setdefault(rank, []).append((kind, importance))
        first: list[OutlinedWork] = []
        for rank in sorted(by_rank, reverse=True):
            n_left = most - len(first)
            if not n_left:
                break
            of_rank: list[OutlinedWork] = []
            for kind, importance in by_rank[rank]:
                # No earlier section can be among the first.
                since = of_rank[-1].at if len(of_rank) == n_left else ""
                of_rank += self._read_of_rank(kind, importance, since, n_left)
                of_rank.sort(key=lambda work: work.place)
                of_rank.sort(key=lambda work: work.at, reverse=True)
                del of_rank[n_left:]
            first += of_rank
        return first

    def _read_of_rank(
        self, kind: str | None, importance: float | None, since: str, most: int
    ) -> Iterator[OutlinedWork]:
        parts = {
            "kind": "IS NULL" if kind is None else "= :kind",
            "importance": "IS NULL" if importance is None else "= :importance",
        }
        bound = {"kind": kind, "importance": importance, "since": since, "most": most}
        rows = self._rows(_FIRST_OF_RANK, parts, **bound)
        return map(OutlinedWork._make, rows)

    def _rows(self, statement: str, parts: Mapping[str, str] = {}, **bindings: Any) -> list[Any]:
        bound = {**self._bindings, **bindings}
        sql = statement.format(allowed=self._allowed, source=self._source, **parts)
        return self._reader.rows(sql, bound)


# --- by priority ----------------------------------------------------------------------------------

_TAGGED = (
    f"{FROM_SECTIONS} WHERE {{allowed}} AND s.id NOT IN (SELECT value FROM json_each(:without))"
)
_N_BY_PRIORITY = (
    f"SELECT s.priority, NOT coalesce(lower(s.status) IN {_CLOSED}, 0) AS is_open,"
    f" coalesce(s.task, '') = '' AS is_waiting, count(*) {_TAGGED} GROUP BY 1, 2, 3"
)
_FIRST_BY_PRIORITY = (
    f"SELECT {_WORK_COLUMNS} {_TAGGED} AND NOT coalesce(lower(s.status) IN {_CLOSED}, 0)"
    " AND (coalesce(s.task, '') = '' OR NOT :is_waiting)"
    f" ORDER BY coalesce(s.priority, 'P9'), s.at, f.path, s.start_line LIMIT :most"
)
# As long as only a tag is asked for, the first sections are looked for in the order of an index.
_HAS_TAG = (
    f"{_HAS_NO_TASK} = :has_no_task AND {_PRIORITY} = :priority"
    f" AND {OPEN_WORK.format(s='s.')} AND s.status IS NOT 'archived'"
    " AND s.id NOT IN (SELECT value FROM json_each(:without)) AND EXISTS (SELECT 1 FROM tags t"
    " WHERE t.section = s.id AND (t.tag = :tag COLLATE NOCASE OR"
    " t.tag COLLATE NOCASE > :tag || '/' AND t.tag COLLATE NOCASE < :tag || '0')){allowed}"
)
_OF_NUMBERS = (
    f"SELECT s.priority, NOT coalesce(lower(s.status) IN {_CLOSED}, 0), {_HAS_NO_TASK}, count(*)"
    " FROM sections s WHERE s.id IN (SELECT value FROM json_each(:without)) GROUP BY 1, 2, 3"
)
_IS_KEYWORD = "SELECT 1 FROM keywords WHERE keyword = ? COLLATE NOCASE LIMIT 1"
# The sections with typed links, and what these name: a note, and a heading of it.
_NAMING = (
    "SELECT DISTINCT s.id, l.target, l.heading FROM linking k CROSS JOIN files f ON f.path = k.path"
    " CROSS JOIN sections s ON s.file = f.id CROSS JOIN links l ON l.section = s.id"
    " WHERE k.relation = :relation AND k.relation <> '' AND l.relation = :relation AND {allowed}"
)
_NAMED = (
    "SELECT v.value ->> 0, v.value ->> 1, s.id FROM json_each(:names) v"
    " CROSS JOIN files f ON f.path = v.value ->> 0 CROSS JOIN sections s ON s.file = f.id"
    " WHERE coalesce(json_extract(s.heading, '$[#-1]'), f.path) = v.value ->> 1 AND {allowed}"
)


def _find_tag(reader: Reader, filters: Filters) -> str | None:
    """Return the tag if the filters ask for nothing else, and no section has it as a keyword."""
    if len(filters.tags) != 1 or not filters.tags[0].isascii():
        return None
    others = replace(filters, tags=())
    if not others.is_hiding_alone or filters.includes_archived or filters.includes_expired:
        return None
    tag = filters.tags[0].lstrip("#").rstrip("/")
    return None if reader.rows(_IS_KEYWORD, (tag,)) else tag


class PriorityCount(NamedTuple):
    """How many sections have a priority, are open or closed, and have a task or wait for one."""

    priority: str | None
    is_open: int
    is_waiting: int
    n: int


class WaitingSections:
    """The sections that pass filters and have a text, without the sections that became tasks: the
    task has their tags, and a typed link that names their heading.

    If several sections of a note have the same heading, nobody knows which of them is named, so
    none is left out.
    """

    def __init__(self, reader: Reader, filters: Filters, relation: str) -> None:
        self._reader = reader
        self._allowed, self._bindings = compile_section_filters(reader, filters, have_text=True)
        self._without = encode_numbers(sorted(self._find_named(relation)))
        self._filters = filters
        self._tag = _find_tag(reader, filters)

    def count(self) -> list[PriorityCount]:
        if self._tag is None:
            rows = self._rows(_N_BY_PRIORITY, without=self._without)
            return [*map(PriorityCount._make, rows)]
        kept = KeptCounts(self._reader, self._filters.now_s).list_work_of_tag(self._tag)
        for *of_section, n in self._reader.rows(_OF_NUMBERS, {"without": self._without}):
            kept[of_section[0], of_section[1], of_section[2]] -= n
        return [PriorityCount(*of_section, n) for of_section, n in kept.items() if n]

    def find_first(self, *, most: int, is_waiting: bool = False) -> list[OutlinedWork]:
        """Return the first open sections, or the first that wait for a task: P0 first, then the
        oldest, then by path and line.
        """
        if self._tag is not None:
            counts = [
                each
                for each in self.count()
                if each.is_open and (each.is_waiting or not is_waiting)
            ]
            n_open = sum(each.n for each in counts)
            if not n_open:
                return []
            n_all, _ = KeptCounts(self._reader, self._filters.now_s).read(TOTAL)
            # One of so many sections is passed over for each that is returned.
            if n_open * n_open > most * n_all:
                return self._find_in_order(counts, most)
        bound = {"without": self._without, "most": most, "is_waiting": is_waiting}
        return [*map(OutlinedWork._make, self._rows(_FIRST_BY_PRIORITY, **bound))]

    def _find_in_order(self, counts: Iterable[PriorityCount], most: int) -> list[OutlinedWork]:
        hidden, bindings = compile_hidden(self._reader, self._filters)
        passing = _HAS_TAG.format(allowed=f" AND {hidden}" if hidden else "")
        first: list[OutlinedWork] = []
        by_priority = sorted(counts, key=lambda each: each.priority or LAST_PRIORITY)
        for priority, several in groupby(by_priority, lambda each: each.priority or LAST_PRIORITY):
            n_left = most - len(first)
            if not n_left:
                break
            bound = {"without": self._without, "tag": self._tag, "priority": priority}
            of_priority = [
                work
                for each in several
                for work in _read_in_order(
                    self._reader,
                    passing,
                    {**bindings, **bound, "has_no_task": each.is_waiting},
                    n_left,
                )
            ]
            of_priority.sort(key=lambda work: (work.at, work.place))
            first += of_priority[:n_left]
        return first

    def _find_named(self, relation: str) -> set[int]:
        naming: dict[tuple[str, str], set[int]] = {}
        for section, *name in self._rows(_NAMING, relation=relation):
            naming.setdefault((name[0], name[1]), set()).add(section)
        if not naming:
            return set()
        named: dict[tuple[str, str], set[int]] = {}
        for path, heading, section in self._rows(_NAMED, names=json.dumps([*naming])):
            if section not in naming[path, heading]:
                named.setdefault((path, heading), set()).add(section)
        return {section for several in named.values() if len(several) == 1 for section in several}

    def _rows(self, statement: str, **bindings: Any) -> list[Any]:
        bound = {**self._bindings, **bindings}
        return self._reader.rows(statement.format(allowed=self._allowed), bound)


# --- groups ---------------------------------------------------------------------------------------

_FIRST_GROUPS = (
    "SELECT value, {last}, is_ended FROM counts WHERE field = :field AND {condition}"
    " ORDER BY {last} DESC, value LIMIT :most"
)
_N_GROUPS = "SELECT count(*) FROM counts WHERE field = :field AND {condition}"
# The groups with a section that expires between two times.
_EXPIRING_GROUPS = (
    "SELECT DISTINCT {field} FROM sections WHERE expires > :first AND expires <= :last"
    " AND {field} <> ''"
)
_NAMED_GROUPS = (
    "SELECT c.value, c.last, c.last_all, c.is_ended FROM json_each(:names) v"
    " CROSS JOIN counts c ON c.field = :field AND c.value = v.value"
)
_GROUPS = (
    f"SELECT s.{{field}}, count(*), sum(NOT coalesce(lower(s.status) IN {_CLOSED}, 0)"
    f" AND NOT coalesce(s.kind IN {_RECORDS}, 0)), min(s.at), json_group_array(DISTINCT s.task)"
    " FROM json_each(:names) v CROSS JOIN sections s ON s.{field} COLLATE NOCASE = v.value"
    " AND s.{field} = v.value WHERE s.is_empty IS NULL{allowed} GROUP BY s.{field}"
)


class GroupCounts(NamedTuple):
    """A task or a session: the numbers of its sections and of its open ones, the times of its first
    and last, and its tasks by name.
    """

    name: str
    n_sections: int
    n_open: int
    first: str
    last: str
    is_ended: int
    tasks: tuple[str, ...]


def find_first_groups(
    reader: Reader,
    filters: Filters,
    field: Literal["task", "session"],
    *,
    has_ended: bool = True,
    most: int,
) -> tuple[list[GroupCounts], int]:
    """Group the sections that have a text by task or session, without those that the filters hide,
    and without expired ones; return the latest groups, and the number of all. A session has ended
    if its last section, which may be archived, says so; without `has_ended`, such are left out, and
    archived sections count.
    """
    is_all = filters.includes_archived or not has_ended
    rows, n_groups = _find_latest(
        reader, field, filters.now_s, is_all=is_all, has_ended=has_ended, most=most
    )
    hidden, bindings = compile_hidden(reader, filters)
    parts = {"field": field, "allowed": f" AND {hidden}" if hidden else ""}
    bound = {**bindings, "names": json.dumps([row[0] for row in rows])}
    details = {row[0]: row[1:] for row in reader.rows(_GROUPS.format(**parts), bound)}
    groups = []
    for name, last, is_ended in rows:
        if name not in details:
            continue  # a wrong time of one group must not cost the list
        n_sections, n_open, first, tasks = details[name]
        named = tuple(sorted(filter(None, json.loads(tasks))))
        groups.append(GroupCounts(name, n_sections, n_open, first, last, int(is_ended or 0), named))
    return groups, n_groups


def _find_latest(
    reader: Reader, field: str, now_s: float, *, is_all: bool, has_ended: bool, most: int
) -> tuple[list[tuple[str, str, int | None]], int]:
    """Return the latest groups with the time of their last section and whether they have ended, and
    the number of all.
    """
    last = "last_all" if is_all else "last"
    going_on = "" if has_ended else " AND is_ended IS NULL"
    parts = {"last": last, "condition": f"{last} IS NOT NULL{going_on}"}
    corrections = _correct_times(reader, field, now_s)
    bound = {"field": field, "most": most + len(corrections)}
    rows = reader.rows(_FIRST_GROUPS.format(**parts), bound)
    [(n_groups,)] = reader.rows(_N_GROUPS.format(**parts), bound)
    if corrections:

        def list_passing(at: int) -> list[Any]:
            """List the groups that pass, by their stored times (0) or their own times (1)."""
            all_times = ((name, pair[at]) for name, pair in corrections.items())
            listed = (
                (name, times.last_all if is_all else times.last, times.is_ended)
                for name, times in all_times
            )
            return [row for row in listed if row[1] and (has_ended or not row[2])]

        n_groups += len(list_passing(1)) - len(list_passing(0))
        rows = [row for row in rows if row[0] not in corrections] + list_passing(1)
        rows.sort(key=lambda row: row[0])
        rows.sort(key=lambda row: row[1], reverse=True)
    return rows[:most], n_groups


def _correct_times(
    reader: Reader, field: str, now_s: float
) -> dict[str, tuple[GroupTimes, GroupTimes]]:
    """Return the groups with sections that expire between the moment of the stored times and now:
    their stored times, and their times now.
    """
    counted, now = read_counted_moment(reader), Moment.at(now_s)
    if counted == now:
        return {}
    first, last = find_span(counted, now)
    bound: dict[str, Any] = {"first": first, "last": last}
    names = [row[0] for row in reader.rows(_EXPIRING_GROUPS.format(field=field), bound)]
    bound = {"field": field, "names": json.dumps(names)}
    stored = {name: GroupTimes(*times) for name, *times in reader.rows(_NAMED_GROUPS, bound)}
    return {
        name: (stored.get(name, GroupTimes()), compute_times(reader.rows, (field, name), *now))
        for name in names
    }
