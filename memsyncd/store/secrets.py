"""Which chunks hold a secret, and in which lines? Reading index.db before a chunk's text is shown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from memsyncd.core.model import SecretLines, Span
from memsyncd.store.readers import Reader

_ANY = "SELECT EXISTS(SELECT 1 FROM secrets)"
_OF_CHUNKS = (
    "SELECT c.id, c.start_line, c.end_line, s.start_line, s.end_line, s.what, EXISTS("
    "SELECT 1 FROM chunks o WHERE o.file = c.file AND o.start_line = c.start_line AND o.end_line = c.end_line AND o.id <> c.id)"
    " FROM chunks c JOIN secrets s ON s.file = c.file AND s.start_line <= c.end_line AND s.end_line >= c.start_line"
    " WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id, s.start_line, s.end_line"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsHeld:
    """A chunk's lines, whether it is only a piece of them, and the lines of all secrets that share one with it, in order."""

    span: Span
    is_piece: bool
    secrets: list[SecretLines]


def has_secrets(reader: Reader) -> bool:
    """True if any note was found to hold one. An older index that does not know may."""
    if not reader.connection.table_exists(None, "secrets"):
        return True
    return bool(reader.rows(_ANY)[0][0])


def find_secrets_held(reader: Reader, chunks: Iterable[int]) -> dict[int, SecretsHeld]:
    """For each of `chunks` that shares lines with a secret."""
    if not reader.connection.table_exists(None, "secrets"):
        return {}
    found: dict[int, SecretsHeld] = {}
    for chunk, start, end, first, last, what, is_piece in reader.rows(_OF_CHUNKS, (json.dumps(list(chunks)),)):
        held = found.setdefault(chunk, SecretsHeld(span=Span(start, end), is_piece=bool(is_piece), secrets=[]))
        held.secrets.append(SecretLines(span=Span(first, last), what=what))
    return found
