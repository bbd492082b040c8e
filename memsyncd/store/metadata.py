"""Read the metadata of sections: of hits, of listed notes, of parts of notes.

It is read for the sections that an answer shows, never for candidates of a search.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

# Of sections `s` and files `f`, in the order of the fields of `StoredMeta`.
META_COLUMNS = (
    "s.kind, (SELECT group_concat(tag, char(31) ORDER BY tag) FROM tags WHERE section = s.id),"
    " s.importance, s.priority, s.lifecycle, s.task, s.session, s.source, s.created, s.updated,"
    " s.expires, s.status, coalesce(s.day, f.day), f.mtime_ns, f.extra, s.extra"
)


class StoredMeta(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a section as indexed, its note's included.

    `importance` is None if neither states one. `day` is None for a note without a date; `mtime_ns`
    is the time at which the note was saved. `extra` has the keys that have no field here.
    """

    kind: str | None
    tags: tuple[str, ...]
    importance: float | None
    priority: str | None
    lifecycle: str | None
    task: str | None
    session: str | None
    source: str | None
    created: str | None
    updated: str | None
    expires: str | None
    status: str | None
    day: str | None
    mtime_ns: int
    extra: dict[str, str]


def read_meta_columns(columns: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of `StoredMeta` for the values of `META_COLUMNS`."""
    *values, of_note, own = columns
    fields = dict(zip(_FIELDS, values, strict=False))
    fields["tags"] = tuple(fields["tags"].split("\x1f")) if fields["tags"] else ()
    fields["extra"] = (json.loads(of_note) if of_note else {}) | (json.loads(own) if own else {})
    return fields


_FIELDS = tuple(name for name in StoredMeta.__struct_fields__ if name != "extra")
