"""Which chunks hold a secret, and in which lines? Reading index.db before a chunk's text is shown."""

from __future__ import annotations

import json
from collections.abc import Iterable

from memsyncd.core.note import SecretLines
from memsyncd.core.span import Span
from memsyncd.store.readers import Reader

_ANY = "SELECT EXISTS(SELECT 1 FROM secrets)"
_OF_CHUNKS = (
    "SELECT c.id, c.start_line, c.end_line, s.start_line, s.end_line, s.what FROM chunks c"
    " JOIN secrets s ON s.file = c.file AND s.start_line <= c.end_line AND s.end_line >= c.start_line"
    " WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id, s.start_line, s.end_line"
)


def has_secrets(reader: Reader) -> bool:
    """True if any note was found to hold one. An older index that does not know may."""
    if not reader.connection.table_exists(None, "secrets"):
        return True
    return bool(reader.rows(_ANY)[0][0])


def find_secret_lines(reader: Reader, chunks: Iterable[int]) -> dict[int, tuple[Span, list[SecretLines]]]:
    """For each of `chunks` that shares lines with a secret its own span and the lines of all such secrets, in order."""
    if not reader.connection.table_exists(None, "secrets"):
        return {}
    found: dict[int, tuple[Span, list[SecretLines]]] = {}
    for chunk, start, end, first, last, what in reader.rows(_OF_CHUNKS, (json.dumps(list(chunks)),)):
        _, secrets = found.setdefault(chunk, (Span(start, end), []))
        secrets.append(SecretLines(span=Span(first, last), what=what))
    return found
