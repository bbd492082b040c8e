"""Which changes are there of a note, a folder, an act? Rows of `revisions` with their acts, newest first.

A note's history goes on under the path it was renamed from, as it was until then, and so does a folder's, note by note. What is
only intended is no history yet.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import apsw

_COLUMNS = """
SELECT revisions.id, act, at, client, command, revisions.path, old_path, old_digest, new_digest, old.size, new.size
FROM revisions JOIN acts ON acts.id = act
LEFT JOIN texts AS old ON old.digest = old_digest
LEFT JOIN texts AS new ON new.digest = new_digest
"""
_TRAIL = """
WITH RECURSIVE steps(path, before) AS (
  SELECT :path, :end
  UNION
  SELECT path, :end FROM revisions WHERE path >= :path || '/' AND path < :path || '0'
  UNION
  SELECT old_path, :end FROM revisions WHERE old_path >= :path || '/' AND old_path < :path || '0'
  UNION
  SELECT old_path, id FROM steps CROSS JOIN revisions
  WHERE revisions.path = steps.path AND id < before AND old_path IS NOT NULL AND state = 'done'
), trail(path, before) AS (
  SELECT path, max(before) FROM steps GROUP BY path
)
"""
_OF_TRAIL = """revisions.id IN (
  SELECT id FROM trail CROSS JOIN revisions WHERE revisions.path = trail.path AND id < before
  UNION SELECT id FROM trail CROSS JOIN revisions WHERE old_path = trail.path AND id < before
)"""
_IS_INTENDED = "revisions.id IN (SELECT id FROM revisions INDEXED BY revisions_intended WHERE state = 'intended')"
_STANDING = """
SELECT command FROM acts WHERE id = ?1 AND EXISTS(
  SELECT 1 FROM revisions AS part WHERE part.act = ?1 AND NOT EXISTS(
    SELECT 1 FROM revisions AS later JOIN acts AS other ON other.id = later.act
    WHERE part.path IN (later.path, later.old_path) AND later.id > part.id AND other.command <> ?2
  )
)
"""
_END = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One change of one note. A digest is None where no note was, or is; `old_path` is where it was moved from.

    `old_bytes` and `new_bytes` are sizes, None without a text: there was none, or it is no longer kept. `is_kept`: every text
    there was can still be read, as far as anybody has looked. `client` is empty for a change that was seen from outside.
    """

    id: int
    act: int
    at_s: float
    client: str
    command: str
    path: str
    old_path: str | None
    old_digest: str | None
    new_digest: str | None
    old_bytes: int | None
    new_bytes: int | None
    is_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which revisions: all that are given must hold. `path` is a note or folder, `before` a revision that is not among them."""

    path: str | None = None
    act: int | None = None
    revision: int | None = None
    before: int | None = None
    limit: int = 20


def select_revisions(connection: apsw.Connection, wanted: Wanted, damaged: set[str]) -> list[Revision]:
    """What `wanted` names, newest first, at most its `limit`."""
    tests = {
        _OF_TRAIL: wanted.path,
        "revisions.id < :before": wanted.before,
        "act = :act": wanted.act,
        "revisions.id = :revision": wanted.revision,
    }
    where = " AND ".join(["state = 'done'", *(test for test, value in tests.items() if value is not None)])
    with_trail = _TRAIL if wanted.path is not None else ""
    rows = connection.execute(
        f"{with_trail}{_COLUMNS} WHERE {where} ORDER BY revisions.id DESC LIMIT :limit",
        {
            "path": wanted.path,
            "act": wanted.act,
            "revision": wanted.revision,
            "before": wanted.before,
            "end": _END,
            "limit": wanted.limit,
        },
    ).fetchall()
    return [_read_row(row, damaged) for row in rows]


def select_intended(connection: apsw.Connection, damaged: set[str]) -> list[Revision]:
    """Those of acts that nobody has finished or taken back, in the order in which they were begun."""
    rows = connection.execute(f"{_COLUMNS} WHERE {_IS_INTENDED} ORDER BY revisions.id").fetchall()
    return [_read_row(row, damaged) for row in rows]


def select_standing(connection: apsw.Connection, acts: Collection[int], *, apart_from: str) -> list[tuple[int, str]]:
    """Number and command of those acts that have a note which no later act has changed, apart from those of one command."""
    found = [(act, connection.execute(_STANDING, (act, apart_from)).get) for act in sorted(acts)]
    return [(act, str(command)) for act, command in found if command is not None]


def _read_row(row: Any, damaged: set[str]) -> Revision:
    id_, act, at_s, client, command, path, old_path, old_digest, new_digest, old_bytes, new_bytes = row
    sides = ((old_digest, old_bytes), (new_digest, new_bytes))
    return Revision(
        id=id_,
        act=act,
        at_s=at_s,
        client=client,
        command=command,
        path=path,
        old_path=old_path,
        old_digest=old_digest,
        new_digest=new_digest,
        old_bytes=old_bytes,
        new_bytes=new_bytes,
        is_kept=all(digest is None or (size is not None and digest not in damaged) for digest, size in sides),
    )
