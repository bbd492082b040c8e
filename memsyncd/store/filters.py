"""Which rows of the index do filters let through? Filters to SQL: conditions on the section that a chunk belongs to."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from memsyncd.core.globs import Globs, has_wildcard
from memsyncd.core.markdown.sections import make_slug
from memsyncd.core.notepath import MEMORY_FOLDER
from memsyncd.core.search.query import Filters
from memsyncd.store.readers import Reader

Bindings = dict[str, str]

# The plus keeps SQLite from asking FTS5 once for each id of the set, which is what it does with a bare rowid.
_AMONG = "AND +rowid IN (SELECT id FROM chunks WHERE section IN (SELECT s.id FROM sections s WHERE {conditions}))"
_IS_ANY_ARCHIVED = "SELECT 1 FROM sections WHERE status = 'archived' LIMIT 1"
_NOT_ARCHIVED = "AND +rowid NOT IN (SELECT id FROM chunks WHERE section IN (SELECT id FROM sections WHERE status = 'archived'))"

_VALUES = "(SELECT value FROM json_each({values}))"
_KIND = f"s.kind IN {_VALUES}"
_TAG = f"s.id IN (SELECT section FROM tags WHERE tag COLLATE NOCASE IN {_VALUES})"
_FILE = f"s.file IN {_VALUES}"
_ALL_TAGS = "SELECT DISTINCT tag FROM tags"
_ALL_TASKS = "SELECT DISTINCT task FROM sections WHERE task IS NOT NULL"
_BENEATH = "SELECT id FROM files WHERE path = ? OR (path >= ? AND path < ?)"
_DAY = "coalesce(s.day, (SELECT day FROM files WHERE id = s.file))"
_TASK = f"s.task COLLATE NOCASE IN {_VALUES}"
# The slugs of a section and of those above it stand in its anchor; between dashes, so that only whole words are met.
_SLUGS = "'-' || replace(substr(s.anchor, (SELECT length(path) FROM files WHERE id = s.file) + 2), '/', '-/-') || '-'"
_SECTION = (
    "EXISTS (SELECT 1 FROM json_each({values}) WHERE"
    f" iif(instr(value, '#'), s.anchor = value OR (s.anchor > value || '/' AND s.anchor < value || '0'), instr({_SLUGS}, value)))"
)


def compile_filters(reader: Reader, filters: Filters) -> tuple[str, Bindings]:
    """What a row of an FTS5 table must meet besides its match, as SQL that begins with AND, and what that is bound to; empty for
    nothing.

    Raises BadRequest for a glob that cannot be.
    """
    conditions: list[str] = []
    bindings: Bindings = {}
    for one in filters.chain():
        conditions += _compile(reader, one, bindings)
        if one.exclude is not None:
            conditions += [f"NOT coalesce({condition}, 0)" for condition in _compile(reader, one.exclude, bindings)]
    if any(one.is_archived for one in filters.chain()):
        conditions.append("s.status = 'archived'")
    elif conditions:
        conditions.append("s.status IS NOT 'archived'")
    else:
        # Asking first is cheap, and looking each match up in an empty set is not.
        return _NOT_ARCHIVED if reader.rows(_IS_ANY_ARCHIVED) else "", {}
    return _AMONG.format(conditions=" AND ".join(conditions)), bindings


def find_files(reader: Reader, paths: Iterable[str]) -> list[int]:
    """Ids of the files that are one of `paths`, lie beneath one, or match one that is a glob.

    What names nothing from the root on is looked for beneath `.memories/`. Raises BadRequest for a glob that cannot be.
    """
    found: set[int] = set()
    for path in paths:
        text = path.removeprefix("./")
        if text.strip("/"):
            found.update(_find_files(reader, text) or _find_files(reader, f"{MEMORY_FOLDER}/{text}"))
    return sorted(found)


def _compile(reader: Reader, filters: Filters, bindings: Bindings) -> list[str]:
    """The conditions of one set of filters; adds what they are bound to."""
    files = find_files(reader, filters.paths)
    lists: tuple[tuple[str, tuple[str, ...], Iterable[object]], ...] = (
        (_KIND, filters.kinds, (kind.lower() for kind in filters.kinds)),
        (_TAG, filters.tags, _find_alike(reader, _ALL_TAGS, [tag.lstrip("#") for tag in filters.tags])),
        (_FILE, filters.paths, files),
        (_TASK, filters.tasks, _find_alike(reader, _ALL_TASKS, filters.tasks)),
        (_SECTION, filters.sections, (value for section in filters.sections for value in _find_section_values(section))),
    )
    conditions = [
        condition.format(values=_bind(json.dumps(list(values)), bindings)) for condition, asked, values in lists if asked
    ]
    if filters.after is not None:
        conditions.append(f"{_DAY} >= {_bind(filters.after, bindings)}")
    if filters.before is not None:
        conditions.append(f"{_DAY} < {_bind(filters.before, bindings)}")
    return conditions


def _bind(value: str, bindings: Bindings) -> str:
    name = f"filter_{len(bindings)}"
    bindings[name] = value
    return f":{name}"


def _find_alike(reader: Reader, everything: str, asked: Sequence[str]) -> list[str]:
    """Values of a column that are the asked ones but for case and the composing of accents; SQLite's NOCASE knows ASCII alone."""
    if all(map(str.isascii, asked)):
        return [*asked]
    folded = set(map(_fold, asked))
    return [value for (value,) in reader.rows(everything) if _fold(value) in folded]


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _find_forms(text: str) -> set[str]:
    """The text as it may be written: with accents composed, as people type, or not, as some file systems keep names."""
    return {text} if text.isascii() else {text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)}


def _find_section_values(asked: str) -> set[str]:
    """An anchor as it is; words as slugs between dashes, as `_SLUGS` has them. A `/` may stand between headings, or in one."""
    words = asked.lstrip("#")
    if "#" in words:
        return _find_forms(asked)
    forms = _find_forms(words)
    nested = ("-/-".join(map(make_slug, form.split("/"))) for form in forms)
    return {f"-{slug}-" for slug in (*map(make_slug, forms), *nested)}


def _find_files(reader: Reader, path: str) -> list[int]:
    if has_wildcard(path):
        globs = _parse_glob(path)
        return [row[0] for row in reader.rows("SELECT id, path FROM files") if globs.matches(row[1])]
    found: list[int] = []
    for folder in _find_forms(path.rstrip("/")):
        found += (row[0] for row in reader.rows(_BENEATH, (folder, f"{folder}/", f"{folder}0")))
    return found


@lru_cache(maxsize=64)
def _parse_glob(pattern: str) -> Globs:
    """Kept, because an answer that finds nothing tries each filter by itself."""
    return Globs.parse([pattern])
