"""Find the chunks for the start of a session: without a query, and without reading all sections.

The mark, kind, importance and status of a section decide whether it is worth knowing without a
question. `standings` has each combination of these values that any section has, and
`standing_files` the files that have such sections, with the time at which each file was saved. So
the best sections are found in their order: the combinations by importance, and the files of each
from the newest on. The configuration says how important a kind is, so it is applied here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from memsyncd.core.model import Span
from memsyncd.core.paths import MEMORY_FILE
from memsyncd.core.search.filters import Filters
from memsyncd.core.search.passages import START_REASONS, StartChunk, StartReason, sort_start_chunks
from memsyncd.store.filters import MAX_LISTED_CHUNKS, compile_section_filters
from memsyncd.store.pool import Reader, encode_numbers
from memsyncd.store.rows import PINNED_TAG

N_RECENT_NOTES = 20
# The most combinations in one statement: SQLite allows 500 in a compound SELECT.
MAX_STANDINGS = 100
# If the sections of too few files pass the filters, the files are read again, this many times more.
MORE_FILES = 8

_MARK = f"""CASE
  WHEN EXISTS (SELECT 1 FROM tags WHERE section = s.id AND tag = '{PINNED_TAG}' COLLATE NOCASE)
    THEN 'pinned'
  WHEN s.lifecycle = 'project' THEN 'project' ELSE '' END"""
_COLUMNS = (
    "c.id, c.section, f.path, c.start_line, c.end_line, c.tokens, f.mtime_ns, s.kind, s.importance"
)
_OF_FILES = (
    "CROSS JOIN sections s INDEXED BY sections_by_anchor ON s.file = f.id"
    " CROSS JOIN chunks c ON c.section = s.id"
)
_IN_ORDER = "ORDER BY f.mtime_ns DESC, f.path, c.start_line, c.id LIMIT :limit"
_STANDINGS = "SELECT id, mark, kind, importance FROM standings"
_TIMES = "SELECT mtime_ns FROM standing_files WHERE standing = {}"
# The times are merged in their order, so SQLite reads no more of them than `n_files`. All files
# saved at the last of these times are read, because their paths decide between them.
_OF_STANDINGS = f"""
SELECT {_COLUMNS}, d.mark FROM standings d CROSS JOIN standing_files x ON x.standing = d.id
  AND x.mtime_ns >= (
    SELECT min(mtime_ns) FROM ({{times}} ORDER BY mtime_ns DESC LIMIT :n_files)
  )
CROSS JOIN files f ON f.id = x.file {_OF_FILES}
WHERE d.id IN (SELECT value FROM json_each(:standings)) AND f.path <> :passed_over
  AND s.kind IS d.kind AND s.importance IS d.importance
  AND (s.status IS 'archived') = d.is_archived AND {_MARK} = d.mark {{condition}} {_IN_ORDER}
"""
_N_FILES = """
SELECT count(*) FROM (
  SELECT 1 FROM standing_files WHERE standing IN (SELECT value FROM json_each(:standings))
  LIMIT :most
)
"""
_IS_PINNED = f"coalesce(s.importance >= :pin_at, 0) OR {_MARK} = 'pinned'"
_OF_MEMORY = f"""
SELECT {_COLUMNS}, '' FROM files f {_OF_FILES}
WHERE f.path = :memory AND NOT ({_IS_PINNED}) {{condition}} {_IN_ORDER}
"""
_OF_RECENT = f"""
SELECT {_COLUMNS}, '' FROM files f {_OF_FILES}
WHERE f.id IN (SELECT value FROM json_each(:files)) AND f.path <> :memory AND {_MARK} = ''
  AND NOT coalesce(s.importance >= :pin_at, 0)
  AND (s.kind IS NULL OR s.kind NOT IN (SELECT value FROM json_each(:important)))
  {{condition}} {_IN_ORDER}
"""
_RECENT = """
SELECT f.id FROM files f WHERE EXISTS (
  SELECT 1 FROM sections s INDEXED BY sections_by_anchor CROSS JOIN chunks c ON c.section = s.id
  WHERE s.file = f.id {condition}
) ORDER BY f.mtime_ns DESC, f.path LIMIT :n_notes
"""
_FROM_ALL = "FROM sections s JOIN files f ON f.id = s.file"
_N_PASSING = f"SELECT count(*) FROM (SELECT 1 {_FROM_ALL} WHERE 1 {{condition}} LIMIT :most)"
_PASSING = (
    f"SELECT {_COLUMNS}, {_MARK} {_FROM_ALL} JOIN chunks c ON c.section = s.id"
    " WHERE 1 {condition}"
)


class StartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The importance of sections that state none: by kind in `kinds`, else `other`. A section whose
    stated importance is at least `pin_at` is pinned; a kind with this importance is important.
    """

    kinds: Mapping[str, float]
    other: float
    pin_at: float

    def find_reason(
        self, path: str, mark: str, kind: str | None, importance: float | None
    ) -> StartReason:
        if mark == "pinned" or (importance is not None and importance >= self.pin_at):
            return "pinned"
        if path == MEMORY_FILE:
            return "MEMORY.md"
        if self.kinds.get(kind or "", -1) >= self.pin_at:
            return "important"
        return "project" if mark == "project" else "recent"

    def find_weight(self, kind: str | None, importance: float | None) -> float:
        return self.kinds.get(kind or "", self.other) if importance is None else importance


def find_start_chunks(
    reader: Reader, filters: Filters, policy: StartPolicy, *, limit: int
) -> list[StartChunk]:
    """Return chunks for the context of a session start: pinned (by tag or importance), in
    MEMORY.md, of an important kind, of lifecycle `project`, or of the notes saved last. These are
    the best `limit` chunks of each reason, the best first.
    """
    condition, bindings = compile_section_filters(reader, filters)
    condition = f"AND {condition}" if condition else ""
    is_filtered = not filters.is_empty
    search = _StartSearch(reader, policy, condition, bindings, limit, is_filtered=is_filtered)
    is_listed = is_filtered and search.is_narrow()
    by_reason = search.list_passing() if is_listed else search.walk()
    return [chunk for reason in START_REASONS for chunk in by_reason.get(reason, ())]


class _StartSearch:
    """One search, with the condition on sections as SQL, and its bindings."""

    def __init__(
        self,
        reader: Reader,
        policy: StartPolicy,
        condition: str,
        bindings: Mapping[str, Any],
        limit: int,
        *,
        is_filtered: bool,
    ) -> None:
        self._reader = reader
        self._policy = policy
        self._condition = condition
        important = [kind for kind, weight in policy.kinds.items() if weight >= policy.pin_at]
        self._bindings = {
            **bindings,
            "pin_at": policy.pin_at,
            "important": json.dumps(important),
            "memory": MEMORY_FILE,
            "limit": limit,
            "n_notes": N_RECENT_NOTES,
        }
        self._limit = limit
        self._is_filtered = is_filtered

    def is_narrow(self) -> bool:
        """True if few sections pass the filters."""
        [(n_passing,)] = self._rows(_N_PASSING, most=MAX_LISTED_CHUNKS + 1)
        return bool(n_passing <= MAX_LISTED_CHUNKS)

    def list_passing(self) -> dict[StartReason, list[StartChunk]]:
        """Read all sections that pass the filters; they are few."""
        chunks = self._read(_PASSING)
        times = {(-chunk.modified_ns, chunk.path) for chunk in chunks}
        recent = {path for _, path in sorted(times)[:N_RECENT_NOTES]}
        by_reason: dict[StartReason, list[StartChunk]] = {}
        for chunk in sort_start_chunks(chunks):
            if chunk.reason != "recent" or chunk.path in recent:
                by_reason.setdefault(chunk.reason, []).append(chunk)
        return {reason: of_reason[: self._limit] for reason, of_reason in by_reason.items()}

    def walk(self) -> dict[StartReason, list[StartChunk]]:
        """Read the sections of each reason in their order, until there are enough."""
        standings: list[tuple[StartReason, float, int]] = sorted(
            (
                self._policy.find_reason("", mark, kind, importance),
                -self._policy.find_weight(kind, importance),
                standing,
            )
            for standing, mark, kind, importance in self._rows(_STANDINGS)
        )
        files = [row[0] for row in self._rows(_RECENT)]
        by_reason: dict[StartReason, list[StartChunk]] = {
            "MEMORY.md": self._read(_OF_MEMORY),
            "recent": self._read(_OF_RECENT, files=encode_numbers(files)),
        }
        for (reason, _), of_weight in groupby(standings, key=lambda row: row[:2]):
            if reason == "recent":
                continue
            chunks = by_reason.setdefault(reason, [])
            if n_left := self._limit - len(chunks):
                chunks += self._read_best([row[2] for row in of_weight], reason, n_left)
        return by_reason

    def _read_best(
        self, standings: Sequence[int], reason: StartReason, limit: int
    ) -> list[StartChunk]:
        """Read the best chunks of some standings of equal importance."""
        chunks: list[StartChunk] = []
        for start in range(0, len(standings), MAX_STANDINGS):
            chunks += self._read_newest(standings[start : start + MAX_STANDINGS], reason, limit)
        return sort_start_chunks(chunks)[:limit]

    def _read_newest(
        self, standings: Sequence[int], reason: StartReason, limit: int
    ) -> list[StartChunk]:
        """Read the first `limit` chunks of the files saved last that have these standings."""
        numbers, n_files = encode_numbers(standings), limit
        while True:
            chunks = self._read(
                _OF_STANDINGS,
                " UNION ALL ".join(map(_TIMES.format, standings)),
                standings=numbers,
                limit=limit,
                n_files=n_files,
                passed_over="" if reason == "pinned" else MEMORY_FILE,
            )
            # Without filters each of these files has such a section.
            if len(chunks) >= limit or not self._is_filtered:
                return chunks
            [(n_all,)] = self._rows(_N_FILES, standings=numbers, most=n_files + 1)
            if n_all <= n_files:
                return chunks
            n_files *= MORE_FILES

    def _rows(self, statement: str, times: str = "", **bindings: Any) -> Iterable[Any]:
        sql = statement.format(condition=self._condition, times=times)
        return self._reader.rows(sql, {**self._bindings, **bindings})

    def _read(self, statement: str, times: str = "", **bindings: Any) -> list[StartChunk]:
        policy = self._policy
        return [
            StartChunk(
                chunk=chunk,
                section=section,
                path=path,
                span=Span(start, end),
                n_tokens=n_tokens,
                reason=policy.find_reason(path, mark, kind, importance),
                weight=policy.find_weight(kind, importance),
                modified_ns=modified_ns,
            )
            for (
                chunk, section, path, start, end, n_tokens, modified_ns, kind, importance, mark
            ) in self._rows(statement, times, **bindings)
        ]  # fmt: skip
