"""List folders from the paths of the notes in index.db, and find notes by their names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from memsyncd.core.markdown.links import fold_name
from memsyncd.store.pool import Reader
from memsyncd.store.sections import decode_texts

MOST_COUNTED = 100
"""The notes of a folder are counted up to so many, so that a listing reads no more of a large
folder than of a small one."""

# Each step looks up the first path that is neither the entry before nor, if that is a folder,
# beneath it. `0` follows `/`, and no text is between a path and the path with the sign 1.
_SLASH = "instr(substr(e.path, length(:folder) + 1), '/')"
_ENTRY = f"substr(e.path, 1, length(:folder) + {_SLASH} - 1)"
_ENTRIES = f"""
WITH RECURSIVE entries(path) AS (
  SELECT min(path) FROM files WHERE path >= :begin AND path < :end
  UNION ALL
  SELECT (
    SELECT min(f.path) FROM files f
    WHERE f.path >= iif({_SLASH}, {_ENTRY} || '0', e.path || char(1)) AND f.path < :end
  )
  FROM entries e WHERE e.path IS NOT NULL LIMIT :limit
)
SELECT
  iif({_SLASH}, {_ENTRY}, e.path), {_SLASH} > 0,
  iif({_SLASH}, (SELECT count(*) FROM (
    SELECT 1 FROM files f WHERE f.path >= {_ENTRY} || '/' AND f.path < {_ENTRY} || '0' LIMIT :most
  )), 0)
FROM entries e WHERE e.path IS NOT NULL
"""
# A word is in the path, the title or another name of the note, or it is its kind; `#word` begins
# a tag of its front matter. SQL's `lower` folds only the letters of ASCII.
_HAS_WORD = (
    "(instr({fold}(f.path), :word_{n}) OR instr({fold}(f.title), :word_{n})"
    " OR {fold}(ifnull(f.kind, '')) = :word_{n} OR EXISTS("
    "SELECT 1 FROM names m WHERE m.file = f.id AND instr(m.key, :word_{n})))"
)
_HAS_TAG = (
    "EXISTS(SELECT 1 FROM json_each(iif(f.tags = '', '[]', f.tags)) t"
    " WHERE instr({fold}(t.value), :word_{n}) = 1)"
)
_FOLD_FUNCTION = "fold_name"
_NOTES = "SELECT f.path, f.title, f.kind, f.tags FROM {source} ORDER BY f.path LIMIT :limit"
_AMONG = _NOTES.format(source="json_each(:paths) v CROSS JOIN files f ON f.path = v.value")


_IS_FOLDER = "SELECT 1 FROM files WHERE path >= ? AND path < ? LIMIT 1"


class ListedEntry(NamedTuple):
    """A folder, with its number of notes up to `MOST_COUNTED`, or a note, with 0."""

    path: str
    is_folder: bool
    n_notes: int


class NoteName(NamedTuple):
    """A note as lists name it."""

    path: str
    title: str
    kind: str | None
    tags: tuple[str, ...]


def list_entries(reader: Reader, folder: str, *, after: str = "", limit: int) -> list[ListedEntry]:
    """Return the folders and notes right in a folder, by path, at most `limit`, from the first that
    follows the entry `after`. The root is the empty path.
    """
    prefix = f"{folder}/" if folder else ""
    bindings = {
        "folder": prefix,
        "begin": after + "\x01" if after else prefix,
        "end": f"{folder}0" if folder else "\U0010ffff",
        "most": MOST_COUNTED,
        "limit": limit,
    }
    if after and reader.rows(_IS_FOLDER, (f"{after}/", f"{after}0")):
        bindings["begin"] = f"{after}0"
    rows = reader.rows(_ENTRIES, bindings)
    return [ListedEntry(path, bool(is_folder), n_notes) for path, is_folder, n_notes in rows]


def read_names(reader: Reader, paths: Sequence[str]) -> list[NoteName]:
    """Return the notes at these paths, by path."""
    return _read(reader, _AMONG, {"paths": json.dumps(paths), "limit": len(paths)})


def find_by_name(reader: Reader, words: Sequence[str], *, after: str, limit: int) -> list[NoteName]:
    """Return the notes that have each of the words in their path, in a name, as their kind, or as
    the beginning of a tag (`#tag`); by path, at most `limit` that follow the path `after`.
    """
    bindings: dict[str, Any] = {"after": after, "limit": limit}
    conditions = ["f.path > :after"]
    for n, word in enumerate(words):
        text = word.removeprefix("#")
        bindings[f"word_{n}"] = fold_name(text)
        name = "lower"
        if not text.isascii():
            name = _FOLD_FUNCTION
            folding: Any = fold_name
            reader.connection.create_scalar_function(name, folding, 1, deterministic=True)
        conditions.append((_HAS_TAG if word[:1] == "#" else _HAS_WORD).format(n=n, fold=name))
    statement = _NOTES.format(source=f"files f WHERE {' AND '.join(conditions)}")
    return _read(reader, statement, bindings)


def _read(reader: Reader, statement: str, bindings: dict[str, Any]) -> list[NoteName]:
    return [
        NoteName(path, title, kind, decode_texts(tags) if tags else ())
        for path, title, kind, tags in reader.rows(statement, bindings)
    ]
