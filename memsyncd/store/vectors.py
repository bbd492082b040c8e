"""Keep the vectors of chunks in a file of their own, and read the texts to embed from index.db.

`vectors.db` has a row for each distinct chunk, by the chunk's digest in index.db, so a rebuilt
index finds its vectors again. A vector has a signed byte for each dimension, times the scale of its
row. The file belongs to a single embedder: vectors of any other are deleted. Everything in it can
be made again, so a damaged file is set aside. Deleted rows are overwritten.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import apsw

from memsyncd.core.guard.secrets import redact
from memsyncd.core.model import path_words
from memsyncd.errors import StoreCorrupt
from memsyncd.store.connection import Durability, open_writer, transaction, translating_errors
from memsyncd.store.pool import Reader, encode_numbers
from memsyncd.store.texts import ChunkSecrets, read_chunk_secrets, read_texts

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE meta(
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE vectors(
  id INTEGER PRIMARY KEY,
  digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 16),
  scale REAL NOT NULL,
  vector BLOB NOT NULL
) STRICT;
"""
_DIGESTS = "SELECT id, digest FROM chunks ORDER BY id"
_TITLES = (
    "SELECT c.id, c.digest, f.path, s.heading,"
    " iif(c.front_lines, f.extra ->> '$.description', NULL)"
    " FROM chunks c JOIN files f ON f.id = c.file"
    " JOIN sections s ON s.id = c.section WHERE c.id IN (SELECT value FROM json_each(?))"
)
_ADD = "INSERT OR REPLACE INTO vectors(digest, scale, vector) VALUES(?, ?, ?)"
_DROP = "DELETE FROM vectors WHERE digest = ?"
_SET = "INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)"
# The name of the folder of all memories says nothing about a memory.
_FOLDER_WORD = "memories"

# The digest of a chunk, the scale of its vector, and the vector.
VectorRow = tuple[bytes, float, bytes]


# --- index.db -----------------------------------------------------------------------------------


def read_chunk_digests(reader: Reader) -> list[tuple[int, bytes]]:
    """Return the id and digest of all chunks, by id."""
    return cast("list[tuple[int, bytes]]", reader.rows(_DIGESTS))


def read_embedded_texts(reader: Reader, chunks: Sequence[int]) -> dict[int, tuple[bytes, str]]:
    """Return the digest and the text to embed of each chunk, by id.

    The text has the words of the titles, the description in the front matter, and the chunk's
    text, without secrets, because a vector reveals something about its text.
    """
    texts = read_texts(reader, chunks)
    secrets = read_chunk_secrets(reader, chunks)
    embedded = {}
    rows = reader.rows(_TITLES, (encode_numbers(chunks),))
    for chunk, digest, path, heading, description in rows:
        words = " ".join(word for word in path_words(path).split() if word != _FOLDER_WORD)
        text = texts.get(chunk, "")
        if chunk in secrets:
            text = _leave_out(text, secrets[chunk])
        titles = " ".join(filter(None, (words, *json.loads(heading), description)))
        embedded[chunk] = digest, redact(f"{titles}\n{text}")
    return embedded


def _leave_out(text: str, secrets: ChunkSecrets) -> str:
    """Leave out the lines of secrets that have several lines.

    A piece of a giant line is left out completely, because it may be cut within a secret.
    """
    if secrets.is_partial:
        return ""
    secret_lines = {
        line
        for secret in secrets.secrets
        if secret.span.n_lines > 1
        for line in range(secret.span.start, secret.span.end + 1)
    }
    lines = enumerate(text.split("\n"), secrets.span.start)
    return "\n".join(line for number, line in lines if number not in secret_lines)


# --- vectors.db ---------------------------------------------------------------------------------


class VectorFile:
    """The vectors of a workspace. Only one thread may use it.

    Its creation raises the classes of `translating_errors`: StoreCorrupt if the file is no such
    database.
    """

    def __init__(self, path: Path) -> None:
        self._connection = open_writer(str(path), Durability.REBUILDABLE)
        try:
            with translating_errors():
                self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        version = self._connection.pragma("user_version")
        if version == _SCHEMA_VERSION and self._connection.table_exists(None, "vectors"):
            return
        if version or self._connection.table_exists(None, "vectors"):
            raise StoreCorrupt("vectors.db has another form", hint="memsyncd makes it again")
        with transaction(self._connection):
            self._connection.execute(_SCHEMA)
            self._connection.pragma("user_version", _SCHEMA_VERSION)

    @property
    def embedder(self) -> str:
        """The identity of the embedder that made the vectors; empty if there are none."""
        return self._read("embedder")

    @property
    def dimensions(self) -> int:
        """The length of a vector; 0 if there are none."""
        return int(self._read("dimensions") or 0)

    def _read(self, key: str) -> str:
        with translating_errors():
            value = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).get
        return str(value or "")

    def reset(self, embedder: str, dimensions: int) -> None:
        """Delete all vectors; vectors that are added later belong to this embedder."""
        with transaction(self._connection):
            self._connection.execute("DELETE FROM vectors")
            rows = [("embedder", embedder), ("dimensions", str(dimensions))]
            self._connection.executemany(_SET, rows)

    def read_digests(self) -> set[bytes]:
        with translating_errors():
            return {row[0] for row in self._connection.execute("SELECT digest FROM vectors")}

    def read_all(self) -> Iterator[VectorRow]:
        """Yield all rows. Raises StoreCorrupt for a vector of another length."""
        n_bytes = self.dimensions
        with translating_errors():
            for row in self._connection.execute("SELECT digest, scale, vector FROM vectors"):
                if len(row[2]) != n_bytes:
                    raise StoreCorrupt(
                        "a vector has another length", hint="memsyncd makes it again"
                    )
                yield row

    def add(self, rows: Iterable[VectorRow]) -> None:
        with transaction(self._connection):
            self._connection.executemany(_ADD, rows)

    def drop(self, digests: Iterable[bytes]) -> None:
        """Delete vectors for good: their bytes are overwritten in the file and its log."""
        with transaction(self._connection):
            self._connection.executemany(_DROP, [(digest,) for digest in digests])
        with translating_errors():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        # If the last checkpoint fails, nothing is lost: the log is read when the file is opened.
        with contextlib.suppress(apsw.Error):
            self._connection.close()


def set_vectors_aside(path: Path) -> None:
    """Move a damaged file out of the way; replace a file that was moved before."""
    with contextlib.suppress(FileNotFoundError):
        os.replace(path, path.with_name(f"{path.name}.damaged"))
    _unlink(path, "-wal", "-shm")


def delete_vectors(path: Path) -> None:
    """Delete a file of vectors that no process has open, and a file that was set aside."""
    _unlink(path, "", "-wal", "-shm", ".damaged")


def _unlink(path: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
