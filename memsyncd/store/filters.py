"""Compile the filters of a search to conditions in SQL.

A filter limits chunks by the metadata and places of their sections and notes. If few chunks pass,
SQL lists them once; if many pass, it looks up each chunk that matches the words.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from memsyncd.core.model import ARCHIVED
from memsyncd.core.paths import MEMORY_FILE, MEMORY_FOLDER, Globs, has_wildcard
from memsyncd.core.search.filters import (
    EQUAL,
    NO_FILTERS,
    Filters,
    PropertyCondition,
    fold_value,
    parse_condition,
)
from memsyncd.store.pool import MEMO_LIMIT, META_FUNCTION, Reader, encode_numbers

Bindings = dict[str, str]

# The plus keeps SQLite from asking FTS5 for each id of the set, as it would for a bare rowid.
_AMONG = "AND +rowid IN (SELECT c.id FROM {source} WHERE {conditions})"
_PASSING = "SELECT c.id FROM {source} WHERE {conditions}"
_LISTED = "AND +rowid IN (SELECT value FROM json_each({chunks}))"
# Conditions on the chunk of a match. This is a scalar, because SQLite may turn EXISTS into a
# join, and then asks FTS5 for each chunk of the set.
_CHECKED = "(SELECT {conditions} FROM {source} WHERE c.id = {{id}})"
_SOURCE = "chunks c"
_JOINS = {"s.": " JOIN sections s ON s.id = c.section", "f.": " JOIN files f ON f.id = c.file"}
# Listing a set of up to this number of chunks is faster than checking conditions for each match of
# a common word.
MAX_LISTED_CHUNKS = 2_000
# The same of hidden sections, which are checked for the best matches only.
MAX_LISTED_HIDDEN = 500
# Longer conditions are not remembered.
MAX_KEY_CHARACTERS = 500
_N_PASSING = "SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {condition} LIMIT :most)"
# The first comparison limits the walk of an index.
HAS_EXPIRED = (
    "{s}expires <= max(:now_utc, :now_local)"
    " AND {s}expires <= iif({s}expires LIKE '%Z', :now_utc, :now_local)"
)
_IS_ARCHIVED = "status = 'archived'"
_IS_EXPIRED = f"expires IS NOT NULL AND {HAS_EXPIRED.format(s='')}"
_WHAT_EXISTS = (
    f"SELECT EXISTS(SELECT 1 FROM sections WHERE {_IS_ARCHIVED}),"
    f" EXISTS(SELECT 1 FROM sections WHERE {_IS_EXPIRED})"
)
_WHAT_MAY_EXIST = (
    f"SELECT EXISTS(SELECT 1 FROM sections WHERE {_IS_ARCHIVED}),"
    " EXISTS(SELECT 1 FROM sections WHERE expires IS NOT NULL)"
)
_N_HIDDEN = "SELECT count(*) FROM (SELECT 1 FROM sections WHERE {condition} LIMIT :most)"
# The conditions of sections that are not hidden, in a join. Most sections do not state when they
# expire, and need no comparison.
_IS_SHOWN = {
    _IS_ARCHIVED: "s.status IS NOT 'archived'",
    _IS_EXPIRED: f"(s.expires IS NULL OR NOT ({HAS_EXPIRED.format(s='s.')}))",
}
# The front matter of a note, whose words find another chunk, is a section as well.
_HAS_CHUNKS = "(s.level = 0 OR EXISTS (SELECT 1 FROM chunks WHERE section = s.id))"
_HAS_TEXT = "s.is_empty IS NULL"
_NOT_IN = (
    "AND +rowid NOT IN (SELECT id FROM chunks WHERE section IN"
    " (SELECT id FROM sections WHERE {condition}))"
)

_VALUES = "(SELECT value FROM json_each({values}))"
WORTH_FUNCTION = "memory_worth"
_KIND = f"s.kind IN {_VALUES}"
# A tag also stands for a keyword, and for the tags nested in it: `db` for `db/sql`. A `0` is the
# character after a `/`.
_TAG = (
    "s.id IN (SELECT t.section FROM json_each({values}) v CROSS JOIN tags t"
    " WHERE t.tag COLLATE NOCASE = v.value UNION ALL"
    " SELECT t.section FROM json_each({values}) v CROSS JOIN tags t WHERE"
    " t.tag COLLATE NOCASE > v.value || '/' AND t.tag COLLATE NOCASE < v.value || '0' UNION ALL"
    " SELECT k.section FROM json_each({values}) v CROSS JOIN keywords k"
    " WHERE k.keyword COLLATE NOCASE = v.value)"
)
_FILE = f"c.file IN {_VALUES}"
_IDS = "SELECT id FROM files WHERE path IN (SELECT value FROM json_each(?)) ORDER BY id"
_ALL_TAGS = "SELECT tag FROM tags UNION SELECT keyword FROM keywords"
# A folder's files are not listed: they may be nearly all.
_BELOW = "(f.path = {path} OR (f.path >= {first} AND f.path < {after}))"
_FILES_BELOW = "SELECT id FROM files WHERE path = ? OR (path >= ? AND path < ?)"
_DAY = "coalesce(s.day, (SELECT day FROM files WHERE id = s.file))"
# A note without a date has the day on which it was saved.
_IS_DAY = f"coalesce({_DAY} {{sign}} {{day}}, f.mtime_ns {{sign}} {{began_ns}})"
_IS_EQUAL = {
    column: f"s.{column} COLLATE NOCASE IN {_VALUES}"
    for column in ("task", "session", "source", "status", "priority", "lifecycle")
}
# A part of a nested source, which is stored as `client: acme; date: 2026-03-01`.
_IS_PART_OF_SOURCE = (
    f"(s.source IS NOT NULL AND ({_IS_EQUAL['source']} OR EXISTS (SELECT 1 FROM"
    " json_each({values}) WHERE instr(value, '=') AND instr(lower('; ' || s.source || ';'),"
    " lower('; ' || replace(value, '=', ': ') || ';')))))"
)
# The topic of a section `s` of a file `f`: its key, else its note's, else the note's title.
STATED_TOPIC = "coalesce(s.topic, f.topic)"
TOPIC = f"coalesce(nullif({STATED_TOPIC}, ''), f.title)"
_TOPIC_OF_FILE = "coalesce(f.topic, f.title)"
_HAS_TOPIC = (
    f"EXISTS (SELECT 1 FROM json_each({{{{values}}}}) WHERE {META_FUNCTION}({{topic}}, '=', value))"
)
# A topic may be a list of topics. Few topics have a comma, and few sections state an empty topic.
_IS_TOPIC = (
    "s.id IN (SELECT s.id FROM json_each({values}) v CROSS JOIN sections s"
    " WHERE s.topic COLLATE NOCASE = v.value AND s.topic <> '' UNION ALL"
    " SELECT s.id FROM json_each({values}) v CROSS JOIN files f CROSS JOIN sections s"
    f" WHERE {_TOPIC_OF_FILE} = v.value COLLATE NOCASE AND s.file = f.id AND s.topic IS NULL"
    " UNION ALL SELECT s.id FROM sections s JOIN files f ON f.id = s.file"
    " WHERE s.topic COLLATE NOCASE = '' AND (f.title COLLATE NOCASE IN"
    f" (SELECT value FROM json_each({{values}})) OR {_HAS_TOPIC.format(topic='f.title')})"
    " UNION ALL SELECT s.id FROM sections s"
    f" WHERE instr(s.topic, ',') AND {_HAS_TOPIC.format(topic='s.topic')}"
    " UNION ALL SELECT s.id FROM files f CROSS JOIN sections s"
    f" WHERE instr({_TOPIC_OF_FILE}, ',') AND {_HAS_TOPIC.format(topic=_TOPIC_OF_FILE)}"
    " AND s.file = f.id AND s.topic IS NULL)"
)
_ALL_TOPICS = (
    f"SELECT {_TOPIC_OF_FILE} FROM files f UNION"
    " SELECT topic FROM sections WHERE topic IS NOT NULL UNION"
    " SELECT f.title FROM sections s JOIN files f ON f.id = s.file"
    " WHERE s.topic COLLATE NOCASE = ''"
)
_ALL_VALUES = "SELECT DISTINCT {column} FROM sections WHERE {column} IS NOT NULL"
# A section's own value hides the value of its note.
_PAIRS = """(
  SELECT e.key AS key, e.value AS value FROM (SELECT 1 AS own UNION ALL SELECT 0) p,
    json_each(coalesce(iif(p.own, s.extra, f.extra), '{}')) e
  WHERE p.own OR NOT EXISTS (
    SELECT 1 FROM json_each(coalesce(s.extra, '{}')) o WHERE o.key = e.key
  )
)""".replace("{", "{{").replace("}", "}}")
_META = (
    f"EXISTS (SELECT 1 FROM json_each({{values}}) w, {_PAIRS} e WHERE e.key IN"
    f" (SELECT value FROM json_each(w.value ->> 0)) AND {META_FUNCTION}(e.value, w.value ->> 1,"
    " w.value ->> 2))"
)
_HAS_KEY = (
    f"EXISTS (SELECT 1 FROM json_each({{values}}) w, {_PAIRS} e WHERE e.value <> ''"
    " AND e.key = w.value COLLATE NOCASE)"
)
# Keys that have columns, by which `has:` finds sections too.
_OWN_KEYS = {
    name: f"s.{name} IS NOT NULL"
    for name in (
        "kind importance priority lifecycle status task session source created updated expires"
    ).split()
}
_OWN_KEYS |= dict.fromkeys(("tag", "tags"), "EXISTS (SELECT 1 FROM tags WHERE section = s.id)")
_IMPORTANCE = (
    "coalesce(s.importance,"
    " (SELECT value ->> 1 FROM json_each({kinds}) WHERE value ->> 0 = s.kind),"
    " json_extract({kinds}, '$[#-1][1]')) >= CAST({least} AS REAL)"
)
_WORTH = (
    f"{WORTH_FUNCTION}((SELECT path FROM files WHERE id = s.file) || '#' || s.slugs, s.kind,"
    " s.priority, s.importance, s.updated, s.created,"
    f" coalesce({_DAY}, date(f.mtime_ns / 1000000000, 'unixepoch', 'localtime')))"
)
_IS_WORTH = f"{_WORTH} >= CAST({{least}} AS REAL)"
# The place of the tier is the number of limits that the worth reaches.
_TIER = (
    f"(WITH v(worth) AS MATERIALIZED (SELECT {_WORTH})"
    f" SELECT (worth >= {{warm}}) + (worth >= {{hot}}) FROM v) IN {_VALUES}"
)
_TIERS = ("cold", "warm", "hot")
# The slugs of the section and of all above it. They are compared between dashes, so that only
# whole words match.
_SLUGS = "'-' || replace(s.slugs, '/', '-/-') || '-'"
WHOLE = "**"
_ANCHOR = "((SELECT path FROM files WHERE id = s.file) || '#' || s.slugs)"
_SECTION = (
    "EXISTS (SELECT 1 FROM json_each({values}) WHERE iif(instr(value, '#'),"
    f" {_ANCHOR} = value OR ({_ANCHOR} > value || '/' AND {_ANCHOR} < value || '0'),"
    f" instr({_SLUGS}, value)))"
)

# The beginnings of conditions for which there is an index.
_INDEXED = tuple(
    condition.partition("{")[0]
    for condition in (_KIND, _TAG, _FILE, _BELOW, _IS_TOPIC, *_IS_EQUAL.values())
)
_INDEXED += tuple(f"({beginning}" for beginning in _INDEXED)
_BINDING = re.compile(r":(filter_\d+)")
_JOINED_COLUMN = re.compile(r"\b[sf]\.")


def compile_filters(reader: Reader, filters: Filters) -> tuple[str, Bindings]:
    """Compile filters to SQL that limits rows of `chunks` or an FTS5 table, and its bindings.

    The SQL begins with AND, and is empty if there is nothing to limit. Raises BadRequest for an
    invalid glob.
    """
    conditions, bindings = _compile_conditions(reader, filters)
    return _limit_to_listed(reader, filters, conditions, bindings)


NO_BINDINGS: Bindings = {}


class MatchFilters(NamedTuple):
    """SQL that limits matches of `chunks_fts`, and its bindings; empty if there is nothing to
    limit.

    `listed` begins with AND, and limits the matches at once. `checked` is a condition on a chunk
    `{id}`, which takes longer for each chunk; it is true if the chunk passes.
    """

    listed: str = ""
    checked: str = ""
    bindings: Bindings = NO_BINDINGS

    @property
    def allowed(self) -> str:
        """Both as conditions on each match."""
        checked = f"AND {self.check('chunks_fts.rowid')}" if self.checked else ""
        return f"{self.listed} {checked}".strip()

    def check(self, chunk: str) -> str:
        return self.checked.replace("{id}", chunk)


def compile_match_filters(
    reader: Reader, filters: Filters, n_matching: float = math.inf
) -> MatchFilters:
    """Compile filters to SQL that limits matches of `chunks_fts`, as `compile_filters`; faster.

    The time of listing the chunks that pass, or that are hidden, grows with their number. If they
    are many, each match is looked up instead. There are about `n_matching` matches, or fewer.
    """
    conditions, bindings = _compile_conditions(reader, filters)
    if not conditions:
        hidden = _find_hidden(reader, filters)
        bindings = _bind_now(hidden, filters)
        if not hidden or not _are_more(reader, hidden, bindings, n_matching):
            return MatchFilters(_exclude_listed(hidden), bindings=bindings)
        conditions = _exclude_hidden(hidden)
    elif _is_narrow(reader, conditions, bindings):
        return _list_passing(reader, conditions, bindings)
    return MatchFilters(checked=_CHECKED.format(**_join_conditions(conditions)), bindings=bindings)


def _list_passing(reader: Reader, conditions: Sequence[str], bindings: Bindings) -> MatchFilters:
    rows = reader.many_rows(1, _PASSING.format(**_join_conditions(conditions)), bindings)
    chunks, bound = [chunk for (chunk,) in rows], Bindings()
    listed = _LISTED.format(chunks=_bind(encode_numbers(chunks), bound))
    return MatchFilters(f"{limit_to_range(reader, chunks)} {listed}".strip(), bindings=bound)


def limit_to_range(reader: Reader, chunks: Sequence[int]) -> str:
    """Return SQL that limits matches to the range of these chunks, if it is a small part of all:
    FTS5 passes over matches outside of it at once. The chunks of a folder lie together.
    """
    if not chunks:
        return "AND 0"  # no match is passed over
    first, last = min(chunks), max(chunks)
    # A range makes each match within it dearer.
    is_small = (last - first) * 2 < read_last_chunk(reader)
    return f"AND rowid >= {first} AND rowid <= {last}" if is_small else ""


def read_last_chunk(reader: Reader) -> int:
    """Return the highest id of a chunk, 0 if there is none."""
    memo = reader.memo
    if "last_chunk" not in memo:
        memo["last_chunk"] = reader.rows("SELECT max(id) FROM chunks")[0][0] or 0
    last: int = memo["last_chunk"]
    return last


def compile_section_filters(
    reader: Reader, filters: Filters, *, have_text: bool = False
) -> tuple[str, Bindings]:
    """Compile filters to a condition on sections `s` of files `f`, and its bindings. The sections
    must have a chunk that `compile_filters` lets pass. It is empty if there is nothing to limit.
    With `have_text`, the sections must also have a text, which takes less to tell.

    Sections are checked once each, however many chunks they have.
    """
    condition, bindings = compile_stated_filters(reader, filters)
    if have_text:
        condition = f"{condition} AND {_HAS_TEXT}" if condition else _HAS_TEXT
    return condition if have_text else require_chunks(condition), bindings


def compile_stated_filters(reader: Reader, filters: Filters) -> tuple[str, Bindings]:
    """As `compile_section_filters`, but sections without a chunk pass, too, and an index may have
    all that is compared.
    """
    conditions, bindings = _compile_conditions(reader, filters)
    if not conditions:
        hidden = _find_hidden(reader, filters)
        conditions, bindings = _exclude_hidden(hidden), _bind_now(hidden, filters)
    # All chunks of a section are of its file.
    return " AND ".join(conditions).replace("c.file", "s.file"), bindings


def require_chunks(condition: str) -> str:
    """Return the condition of `compile_stated_filters` for the sections alone that have a chunk."""
    return condition and f"{condition} AND {_HAS_CHUNKS}"


def compile_hidden(reader: Reader, filters: Filters) -> tuple[str, Bindings]:
    """Compile a condition on sections `s` that leaves out those that filters hide, and its
    bindings. It is empty if there are none.
    """
    hidden = _find_hidden(reader, filters)
    return " AND ".join(_exclude_hidden(hidden)), _bind_now(hidden, filters)


def _are_more(reader: Reader, hidden: Sequence[str], bindings: Bindings, n_matching: float) -> bool:
    """True if more sections are hidden than passages match, or than are listed."""
    most = int(min(n_matching, MAX_LISTED_HIDDEN)) + 1
    counted = (
        reader.rows(_N_HIDDEN.format(condition=condition), {**bindings, "most": most})[0][0]
        for condition in hidden
    )
    return any(n == most for n in counted)


def _exclude_hidden(hidden: Iterable[str]) -> list[str]:
    return [_IS_SHOWN[each] for each in hidden]


def _limit_to_listed(
    reader: Reader, filters: Filters, conditions: Sequence[str], bindings: Bindings
) -> tuple[str, Bindings]:
    if conditions:
        return _AMONG.format(**_join_conditions(conditions)), bindings
    hidden = _find_hidden(reader, filters)
    return _exclude_listed(hidden), _bind_now(hidden, filters)


def _exclude_listed(hidden: Sequence[str]) -> str:
    return _NOT_IN.format(condition=" OR ".join(hidden)) if hidden else ""


def _join_conditions(conditions: Sequence[str]) -> dict[str, str]:
    joined = " AND ".join(conditions)
    return {"conditions": joined, "source": _find_source(joined)}


def _find_source(condition: str) -> str:
    used = set(_JOINED_COLUMN.findall(condition))
    return _SOURCE + "".join(join for alias, join in _JOINS.items() if alias in used)


def _is_narrow(reader: Reader, conditions: Sequence[str], bindings: Bindings) -> bool:
    """True if an index tells that few chunks pass one of the conditions."""
    return any(
        _is_narrow_one(reader, condition, {name: bindings[name] for name in used})
        for condition in conditions
        if condition.startswith(_INDEXED)
        for used in [_BINDING.findall(condition)]
    )


def _is_narrow_one(reader: Reader, condition: str, bindings: Bindings) -> bool:
    remembered: dict[tuple[str, ...], bool] = reader.memo.setdefault("narrow", {})
    key = (condition, *bindings.values())
    if key in remembered:
        return remembered[key]
    statement = _N_PASSING.format(source=_find_source(condition), condition=condition)
    most = MAX_LISTED_CHUNKS + 1
    is_narrow: bool = reader.rows(statement, {**bindings, "most": most})[0][0] < most
    # A list of thousands of files takes much memory.
    if sum(map(len, key)) <= MAX_KEY_CHARACTERS and len(remembered) < MEMO_LIMIT:
        remembered[key] = is_narrow
    return is_narrow


def _compile_conditions(reader: Reader, filters: Filters) -> tuple[list[str], Bindings]:
    """Return conditions on chunks `c` and sections `s`, and their bindings; none for no filters."""
    conditions: list[str] = []
    bindings: Bindings = {}
    # Most searches have no filter: the first test is faster.
    if replace(filters, now_s=0.0) == NO_FILTERS or filters.is_empty:
        return conditions, bindings
    for each in filters.chain():
        conditions += _compile(reader, each, bindings)
        if each.exclude is not None:
            excluded = _compile(reader, each.exclude, bindings)
            conditions += [f"NOT coalesce({condition}, 0)" for condition in excluded]
    chain = [*filters.chain()]
    if any(each.is_archived for each in chain):
        conditions.append("s.status = 'archived'")
    if any(each.is_expired for each in chain):
        conditions.append(HAS_EXPIRED.format(s="s."))
        bindings |= _bind_now([_IS_EXPIRED], filters)
    if conditions:
        hidden = _find_hidden(reader, filters)
        conditions += _exclude_hidden(hidden)
        bindings |= _bind_now(hidden, filters)
    return conditions, bindings


def _find_hidden(reader: Reader, filters: Filters) -> list[str]:
    """Return the conditions of sections that searches leave out, if there are such sections.

    This query is cheap; looking each match up in an empty set would not be.
    """
    if not _may_be_hidden(reader):
        return []
    chain = [*filters.chain()]
    statuses = {status.lower() for joined in chain for status in joined.statuses}
    is_shown_by = {
        _IS_ARCHIVED: ARCHIVED in statuses
        or any(joined.is_archived or joined.includes_archived for joined in chain),
        _IS_EXPIRED: any(joined.is_expired or joined.includes_expired for joined in chain),
    }
    if all(is_shown_by.values()):
        return []
    [exists] = reader.rows(_WHAT_EXISTS, _bind_now([_IS_EXPIRED], filters))
    return [
        each
        for (each, is_shown), is_any in zip(is_shown_by.items(), exists, strict=True)
        if is_any and not is_shown
    ]


def _may_be_hidden(reader: Reader) -> bool:
    """False if no section is archived or states when it expires, as in most indexes."""
    memo = reader.memo
    if "may_be_hidden" not in memo:
        memo["may_be_hidden"] = any(reader.rows(_WHAT_MAY_EXIST)[0])
    may_be: bool = memo["may_be_hidden"]
    return may_be


def _bind_now(conditions: Iterable[str], filters: Filters) -> Bindings:
    """Return the bindings that conditions need for the time of the request."""
    if _IS_EXPIRED not in conditions:
        return {}
    now_s = max(each.now_s for each in filters.chain())
    now_utc = datetime.fromtimestamp(now_s, UTC).replace(tzinfo=None)
    now_local = datetime.fromtimestamp(now_s)  # noqa: DTZ006  days and times of people
    return {
        "now_utc": f"{now_utc.isoformat(timespec='seconds')}Z",
        "now_local": now_local.isoformat(timespec="seconds"),
    }


def find_file_ids(reader: Reader, paths: Iterable[str]) -> list[int]:
    """Return the ids of files that are at or below any of `paths`, or match any that is a glob.

    A path with wildcards that is the exact name of a note or folder stands only for this. A path
    that matches nothing from the root is looked up below `.memories/`. Raises BadRequest for an
    invalid glob.
    """
    files: set[int] = set()
    for path in paths:
        text = _name_from_root(reader, path)
        if text.strip("/"):
            files.update(
                _find_files(reader, text) or _find_files(reader, f"{MEMORY_FOLDER}/{text}")
            )
    return sorted(files)


def _name_from_root(reader: Reader, path: str) -> str:
    """Return the path from the root, `**` for the root itself. A path that begins with `/memories`
    is a path of the memory tool; other paths may begin with the path of the root.
    """
    if f"{path}/".startswith("/memories/"):
        inside, folder = path.removeprefix("/memories").strip("/"), reader.memory_folder
        if folder == MEMORY_FOLDER and inside == MEMORY_FILE:
            return MEMORY_FILE
        return f"{folder}/{inside}".strip("/") or WHOLE
    if reader.root and f"{path}/".startswith(f"{reader.root}/"):
        return path.removeprefix(reader.root).strip("/") or WHOLE
    return path.removeprefix("./")


def find_ids(reader: Reader, paths: Iterable[str]) -> list[int]:
    """Return the ids of the files at these paths, sorted."""
    return [file_id for (file_id,) in reader.rows(_IDS, (json.dumps(list(paths)),))]


def _compile(reader: Reader, filters: Filters, bindings: Bindings) -> list[str]:
    """Return the conditions of one set of filters, and add their bindings."""
    tags = [tag.lstrip("#").rstrip("/") for tag in filters.tags]
    sections = (value for section in filters.sections for value in _find_section_values(section))
    metas = [condition_ for text in filters.metas if (condition_ := parse_condition(text))]
    equal = tuple(_spell_keys(meta) for meta in metas if meta.sign == EQUAL)
    # Each comparison must hold: `year>=1980 year<1990` is a span.
    compared = tuple((_spell_keys(meta),) for meta in metas if meta.sign != EQUAL)
    columns = [_OWN_KEYS[key.lower()] for key in filters.keys if key.lower() in _OWN_KEYS]
    keys = tuple(form for key in filters.keys for form in _spell(key))
    lists: tuple[tuple[str, Sequence[object], Iterable[object]], ...] = (
        (_KIND, filters.kinds, (kind.lower() for kind in filters.kinds)),
        (_TAG, filters.tags, _find_equal_folded(reader, _ALL_TAGS, tags)),
        *(
            (_IS_EQUAL[column], values, _find_values(reader, column, values))
            for column, values in (
                ("task", filters.tasks),
                ("session", filters.sessions),
                ("status", filters.statuses),
                ("priority", filters.priorities),
                ("lifecycle", filters.lifecycles),
            )
        ),
        (_choose_source(filters.sources), filters.sources, _find_sources(reader, filters.sources)),
        (_IS_TOPIC, filters.topics, _find_equal_folded(reader, _ALL_TOPICS, filters.topics)),
        (_META, equal, equal),
        *((_META, comparison, comparison) for comparison in compared),
        (_SECTION, filters.sections, sections),
        (_HAS_KEY, keys, keys),
    )
    conditions = [
        condition.format(values=_bind(json.dumps(list(values)), bindings))
        for condition, filtered, values in lists
        if filtered
    ]
    if columns:
        has_key = conditions.pop()
        conditions.append(f"({' OR '.join((has_key, *columns))})")
    if filters.min_importance is not None:
        kinds = _bind(json.dumps(filters.kind_importance or [["", 0.5]]), bindings)
        least = _bind(str(filters.min_importance), bindings)
        conditions.append(_IMPORTANCE.format(kinds=kinds, least=least))
    if filters.needs_worth:
        conditions += _compile_worth(reader, filters, bindings)
    if filters.related_to:
        files = encode_numbers(_find_related_files(reader, filters.related_to))
        conditions.append(_FILE.format(values=_bind(files, bindings)))
    if filters.paths:
        conditions.append(_compile_paths(reader, filters.paths, bindings))
    for sign, day in ((">=", filters.after), ("<", filters.before)):
        if day is not None:
            began_ns = _bind(str(_find_start_ns(day)), bindings)
            conditions.append(
                _IS_DAY.format(sign=sign, day=_bind(day, bindings), began_ns=began_ns)
            )
    return conditions


def _compile_worth(reader: Reader, filters: Filters, bindings: Bindings) -> Iterator[str]:
    """Yield the conditions on the worth of sections."""
    if filters.find_worth:
        find_worth: Any = filters.find_worth
        reader.connection.create_scalar_function(WORTH_FUNCTION, find_worth, 7)
    if filters.min_worth is not None:
        yield _IS_WORTH.format(least=_bind(str(filters.min_worth), bindings))
    if filters.tiers:
        places = [_TIERS.index(tier.lower()) for tier in filters.tiers if tier.lower() in _TIERS]
        warm, hot = filters.tiers_from
        values = _bind(json.dumps(places), bindings)
        yield _TIER.format(warm=float(warm), hot=float(hot), values=values)


def _find_start_ns(day: str) -> int:
    """Return when an ISO day began in local time, in nanoseconds since 1970."""
    try:
        began = datetime.fromisoformat(day).timestamp()
    except (OverflowError, ValueError):  # in the first or the last year, in some time zones
        began = (date.fromisoformat(day).toordinal() - _DAY_0) * 86_400
    return int(began) * 1_000_000_000


_DAY_0 = date(1970, 1, 1).toordinal()


def _find_values(reader: Reader, column: str, values: Sequence[str]) -> list[str]:
    return _find_equal_folded(reader, _ALL_VALUES.format(column=column), values)


def _choose_source(values: Sequence[str]) -> str:
    """Return the condition for sources: looking up parts of sources takes longer."""
    return _IS_PART_OF_SOURCE if any(EQUAL in each for each in values) else _IS_EQUAL["source"]


def _find_sources(reader: Reader, values: Sequence[str]) -> list[str]:
    """Return the stored sources that equal one of the values, and the values that name a part of a
    source.
    """
    parts = [value for value in values if EQUAL in value]
    return [*_find_values(reader, "source", values), *parts] if values else []


def _spell_keys(condition: PropertyCondition) -> tuple[tuple[str, ...], str, str]:
    return _spell(condition.key), condition.sign, condition.value


def _spell(key: str) -> tuple[str, ...]:
    """Return a key in every case in which people write it, with accents composed and decomposed."""
    cases = (key, key.lower(), key.upper(), key.title(), key.capitalize())
    return tuple({form: None for case in cases for form in sorted(_find_forms(case))})


def _bind(value: str, bindings: Bindings) -> str:
    name = f"filter_{len(bindings)}"
    bindings[name] = value
    return f":{name}"


def _find_equal_folded(reader: Reader, statement: str, values: Sequence[str]) -> list[str]:
    """Return the stored values that equal any of `values` except for case and composed accents;
    nested tags count as equal.

    SQLite's NOCASE folds only ASCII.
    """
    if all(map(str.isascii, values)):
        return [*values]
    folded = set(map(fold_value, values))
    nested = tuple(f"{value}/" for value in folded) if statement == _ALL_TAGS else ()
    return [
        value
        for (value,) in reader.rows(statement)
        if (text := fold_value(value)) in folded or text.startswith(nested)
    ]


def _find_forms(text: str) -> set[str]:
    """Return the text with accents composed, as people type, and decomposed, as some file systems
    store names.
    """
    if text.isascii():
        return {text}
    return {text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)}


def _find_section_values(text: str) -> set[str]:
    """Return an anchor as it is, and words as slugs between dashes, to compare with `_SLUGS`.

    A `/` may separate headings or be part of one.
    """
    # Few questions name a section, and this imports the scanner of markdown.
    from memsyncd.core.markdown.sections import make_slug

    words = text.lstrip("#")
    if "#" in words:
        return _find_forms(text)
    forms = _find_forms(words)
    nested = ("-/-".join(map(make_slug, form.split("/"))) for form in forms)
    return {f"-{slug}-" for slug in (*map(make_slug, forms), *nested)}


def _find_related_files(reader: Reader, values: Iterable[str]) -> list[int]:
    """Return the ids of the files that link to or from a note: `note`, or `relation=note`."""
    # Few questions ask for links, and this imports the scanner of markdown.
    from memsyncd.store.links import StoredLinks

    links = StoredLinks(reader)
    related: set[str] = set()
    for value in values:
        relation, mark, name = value.rpartition("=")
        related |= links.find_related(name, relation if mark else None)
    return find_ids(reader, related)


def _find_files(reader: Reader, path: str) -> list[int]:
    files: list[int] = []
    for folder in _find_forms(path.rstrip("/")):
        files += (row[0] for row in reader.rows(_FILES_BELOW, _bound_folder(folder)))
    if files or not has_wildcard(path):
        return files
    globs = _parse_glob(path)
    rows = reader.rows("SELECT id, path FROM files")
    return [row[0] for row in rows if globs.matches(row[1])]


def _bound_folder(folder: str) -> tuple[str, str, str]:
    """Return a path, the first text below it, and the first text after all texts below it."""
    return folder, f"{folder}/", f"{folder}0"


def _compile_paths(reader: Reader, paths: Iterable[str], bindings: Bindings) -> str:
    """Return a condition for the files that `find_file_ids` returns."""
    texts = [_name_from_root(reader, path) for path in paths]
    plain = [text for text in texts if text.strip("/") and not has_wildcard(text)]
    globs = [text for text in texts if has_wildcard(text)]
    either = [
        _BELOW.format(path=path, first=first, after=after)
        for text in plain
        for folder in _find_forms(_find_folder(reader, text))
        for path, first, after in [[_bind(bound, bindings) for bound in _bound_folder(folder)]]
    ]
    if globs or not either:
        files = encode_numbers(find_file_ids(reader, globs))
        either.append(_FILE.format(values=_bind(files, bindings)))
    return either[0] if len(either) == 1 else f"({' OR '.join(either)})"


def _find_folder(reader: Reader, text: str) -> str:
    """Return the path without slashes at its end; below `.memories/` if not found in the root."""
    statement = f"{_FILES_BELOW} LIMIT 1"
    folder = text.rstrip("/")
    forms = map(_bound_folder, _find_forms(folder))
    is_at_root = any(reader.rows(statement, bounds) for bounds in forms)
    return folder if is_at_root else f"{MEMORY_FOLDER}/{folder}"


# A search without hits tries each filter by itself.
@lru_cache(maxsize=64)
def _parse_glob(pattern: str) -> Globs:
    return Globs.parse([pattern])
