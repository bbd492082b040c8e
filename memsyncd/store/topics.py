"""Keep in index.db the worth and the time of the last change of each topic, and list topics.

A topic is a markdown note. `files.salience` is its worth as long as nothing was recalled, and
`files.latest` the latest moment of its sections, both without archived sections; NULL if all of its
sections are archived. `salience_all` and `latest_all` are the same with archived sections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import apsw

from memsyncd.core.editing.fields import value_topic
from memsyncd.core.editing.kinds import KindDefaults, find_importance
from memsyncd.core.model import ARCHIVED
from memsyncd.core.paths import is_markdown
from memsyncd.store.pool import Reader, encode_numbers

_NOTE = "SELECT path, mtime_ns FROM files WHERE id = ?"
TOPIC_COLUMNS = ("slugs", "level", "kind", "priority", "importance", "status", "moment")
"""The columns of sections on which the value of a topic depends."""
_SECTIONS = f"SELECT {', '.join(TOPIC_COLUMNS)} FROM sections WHERE file = ? ORDER BY start_line"
_PUT = "UPDATE files SET salience = ?, latest = ?, salience_all = ?, latest_all = ? WHERE id = ?"
_LIST = (
    "SELECT path, salience{all} FROM files WHERE {value}{all} IS NOT NULL {among}"
    " ORDER BY {order} LIMIT :limit"
)
_ORDERS = {
    "worth": "salience{all} DESC, path",
    "recency": "latest{all} DESC, path",
    "file": "path",
}
_COUNT = "SELECT count(*) FROM files WHERE salience{all} IS NOT NULL {among}"
_KEPT = "SELECT {n} FROM counts WHERE field = 'topics'"


TopicRow = tuple[str, int, str | None, str | None, float | None, str | None, int]
"""The columns `TOPIC_COLUMNS` of a section."""


class TopicSection(NamedTuple):
    """The same with names."""

    anchor: str
    level: int
    kind: str | None
    priority: str | None
    importance: float | None
    status: str | None
    moment: int


def value_topics(
    connection: apsw.Connection, files: Iterable[int], kinds: Mapping[str, KindDefaults]
) -> None:
    """Write the values of these files, whose rows are in the database."""
    rows: list[tuple[float | None, ...]] = []
    for file_id in files:
        [(path, mtime_ns)] = connection.execute(_NOTE, (file_id,))
        sections: list[Any] = connection.execute(_SECTIONS, (file_id,)).fetchall()
        rows.append((*value_note(str(path), int(mtime_ns), sections, kinds), file_id))
    connection.executemany(_PUT, rows)


def value_note(
    path: str, mtime_ns: int, sections: Sequence[TopicRow], kinds: Mapping[str, KindDefaults]
) -> tuple[float | None, ...]:
    """Return the columns `salience`, `latest`, `salience_all` and `latest_all` of a note."""
    if not is_markdown(path):
        return None, None, None, None
    saved_s = mtime_ns / 1e9
    visible = [section for section in sections if section[-2] != ARCHIVED]
    whole = _value(sections, kinds, saved_s)
    if len(visible) == len(sections):
        return *whole, *whole
    return *(_value(visible, kinds, saved_s) if visible else (None, None)), *whole


Weight = tuple[int, str | None, float]
"""The level, priority and importance of a section."""
# Many notes of so few sections have the same weights. A longer note would take kilobytes of the
# cache with each section that is appended to it.
MOST_ALIKE = 16


def _value(
    sections: Sequence[TopicRow], kinds: Mapping[str, KindDefaults], saved_s: float
) -> tuple[float, float]:
    latest = max([section[-1] for section in sections], default=saved_s)
    # A first index values each section, so no object is made of it.
    of_kinds: dict[str | None, float] = {}
    weights = []
    for _, level, kind, priority, importance, _, _ in sections:
        weight = of_kinds.get(kind) if importance is None else importance
        if weight is None:
            weight = of_kinds[kind] = find_importance(kinds, kind, None)
        weights.append((level, priority, weight))
    find = _value_alike if len(weights) <= MOST_ALIKE else _value_weights
    return find(tuple(weights)), latest


def _value_weights(weights: tuple[Weight, ...]) -> float:
    """Return the value of a topic from the weights of its sections."""
    # A long note has few different weights. A title is the only section of its level, so no two
    # sections that are told apart are the same object.
    of_weights = {
        weight: TopicSection("", weight[0], None, weight[1], weight[2], None, 0)
        for weight in set(weights)
    }
    return value_topic([*map(of_weights.__getitem__, weights)], {}, {})


_value_alike = lru_cache(maxsize=256)(_value_weights)


class Topics:
    """The topics in one snapshot of an index; those in `files` only, if that is given.

    With `is_all`, archived sections count, and a topic may consist of nothing else.
    """

    def __init__(self, reader: Reader, *, is_all: bool, files: Iterable[int] | None = None) -> None:
        self._reader = reader
        self._all = "_all" if is_all else ""
        self._is_among = files is not None
        self._files = {} if files is None else {"files": encode_numbers(files)}

    def count(self) -> int:
        if self._is_among:
            among = "AND id IN (SELECT value FROM json_each(:files))"
            statement = _COUNT.format(all=self._all, among=among)
        else:
            statement = _KEPT.format(n="n_all" if self._all else "n")
        rows = self._reader.rows(statement, self._files)
        return int(rows[0][0]) if rows else 0

    def list_first(self, order: str, *, limit: int) -> list[tuple[str, float]]:
        """Return the paths of the first topics in an order, `worth`, `recency` or `file`, each
        with its worth as long as nothing was recalled.
        """
        among = "AND id IN (SELECT value FROM json_each(:files))" if self._is_among else ""
        return self._read(order, among, {"limit": limit})

    def read(self, paths: str) -> list[tuple[str, float]]:
        """Return the same for these paths, which are JSON."""
        among = "AND path IN (SELECT value FROM json_each(:paths))"
        if self._is_among:
            among += " AND id IN (SELECT value FROM json_each(:files))"
        return self._read("file", among, {"paths": paths, "limit": -1})

    def _read(self, order: str, among: str, bindings: dict[str, Any]) -> list[tuple[str, float]]:
        statement = _LIST.format(
            all=self._all,
            value="latest" if order == "recency" else "salience",
            among=among,
            order=_ORDERS[order].format(all=self._all),
        )
        return self._reader.rows(statement, {**bindings, **self._files})
