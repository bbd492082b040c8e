"""Keep texts of notes compressed in records.db, each once, by its digest.

A text is compressed with zlib: whole, or with an earlier version of the note as dictionary, which
is called its base. A base is itself whole, so reading takes at most two rows, and damage spreads
only to the texts on the same base. A row is written once; it changes only when its base is dropped.
Every text that is read is checked against its digest.
"""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import apsw

from memsyncd.core.digest import digest_bytes
from memsyncd.errors import StoreFailed
from memsyncd.store.connection import deadline, open_reader

# If a base does not make a text at least so many times smaller, the text is stored whole and
# becomes the base of later texts. Measured on 100 notes of 1 to 20 KB with 50 small edits each,
# which are 44 MB of texts: they take 18.2 MB without dictionaries and 2.3 MB with them (the whole
# records.db takes 23.8 MB and 4.8 MB).
LEAST_SAVING = 6
# The number of texts on one base: when a base is dropped, all of them are rewritten.
MAX_ON_BASE = 100
# Dropping a base of long texts takes seconds, because all texts on it are compressed anew. So many
# bytes of texts take about 50 ms.
REBASE_BYTES = 2 * 1024 * 1024
# Every write of a note waits for the compression. At zlib's best speed a text is a tenth larger
# than by default and takes a fifth of the time. With a dictionary, best speed misses long
# repetitions.
WHOLE_LEVEL = zlib.Z_BEST_SPEED
DICTIONARY_LEVEL = 6
# Deflate finds repetitions within 32 KB. So a long text is compressed in blocks; the dictionary of
# a block is the part of the base around the same place.
WINDOW_BYTES = 32 * 1024
BLOCK_BYTES = 16 * 1024
_RAW_DEFLATE = -15
_LENGTH_BYTES = 4
CHECK_S = 120.0

_PUT = (
    "INSERT INTO blobs(digest, size, base, data) VALUES(?,?,?,?) ON CONFLICT(digest)"
    " DO UPDATE SET size = excluded.size, base = excluded.base, data = excluded.data"
)
_IS_USED = (
    "SELECT EXISTS(SELECT 1 FROM heads WHERE digest = ?1)"
    " OR EXISTS(SELECT 1 FROM revisions WHERE old_digest = ?1)"
    " OR EXISTS(SELECT 1 FROM revisions WHERE new_digest = ?1)"
)


class Blobs:
    """The table `blobs`. Methods that write must be called inside a transaction.

    Methods raise apsw's exceptions.
    """

    def __init__(self, writer: apsw.Connection) -> None:
        self._writer = writer
        self.damaged: set[str] = set()
        self._heirs: dict[str, str] = {}
        """The new base of the texts that `rebase_some` has compressed without their base."""

    def keep(self, data: bytes, *, like: str | None = None) -> str:
        """Store a text and return its digest; `like` is a text that resembles it.

        A stored text that is damaged is replaced.
        """
        digest = digest_bytes(data)
        stored = self.read(digest)
        if stored is None:
            # Other texts may depend on a damaged text, so it is stored whole again.
            base = None if digest in self.damaged else self._choose_dictionary(like)
            self._put(digest, data, base)
            # If the text is a base, the texts on it can be read again.
            self.damaged.clear()
        elif stored != data:
            raise StoreFailed("two different texts have one digest", hint="change one of them")
        return digest

    def read(self, digest: str) -> bytes | None:
        """Return a text; None if it is not stored or damaged. `damaged` records damaged texts."""
        statement = "SELECT size, base, data FROM blobs WHERE digest = ?"
        row = self._writer.execute(statement, (digest,)).fetchone()
        if row is None:
            return None
        size, base, data = row
        dictionary = self._read_dictionary(base)
        text = None if dictionary is None else decompress(data, size, dictionary)
        if text is None or digest_bytes(text) != digest:
            self.damaged.add(digest)
            return None
        self.damaged.discard(digest)
        return text

    def is_used(self, digest: str) -> bool:
        """True if a head or a revision names the text."""
        return bool(self._writer.execute(_IS_USED, (digest,)).get)

    def drop_unused(self, digests: Iterable[str]) -> int:
        """Drop each of these texts that no head and no revision names; return their number."""
        return self.drop([digest for digest in sorted(set(digests)) if not self.is_used(digest)])

    def drop(self, digests: Collection[str]) -> int:
        """Drop texts, and texts that cannot be read without them; return the number dropped."""
        dropped = set(digests)
        for base in sorted(dropped):
            dropped |= self._rebase(base, dropped)[0]
            self._heirs.pop(base, None)
        before = self._writer.total_changes()
        rows = ((digest,) for digest in sorted(dropped))
        self._writer.executemany("DELETE FROM blobs WHERE digest = ?", rows)
        self.damaged -= dropped
        return self._writer.total_changes() - before

    def has_many_dependents(self, digest: str) -> bool:
        """True if more than REBASE_BYTES of texts depend on this one."""
        statement = "SELECT coalesce(sum(size), 0) FROM blobs WHERE base = ?"
        return int(self._writer.execute(statement, (digest,)).get) > REBASE_BYTES

    def rebase_some(self, dropped: Collection[str]) -> bool:
        """Make about REBASE_BYTES of other texts independent of texts that are to be dropped.
        Return True if none is left that depends on them, so that dropping takes little time.
        """
        left: float = REBASE_BYTES
        for base in sorted(dropped):
            left = self._rebase(base, dropped, left)[1]
        return left > 0

    def _rebase(
        self, base: str, dropped: Collection[str], most_bytes: float = math.inf
    ) -> tuple[set[str], float]:
        """Compress the texts on `base` without it, until `most_bytes` of texts are compressed.
        Return the digests of unreadable texts, and how many bytes of `most_bytes` are left.

        The newest text becomes the base of the others. Pruning drops the oldest texts first, so a
        group is rewritten once, and not again with each text that is dropped.
        """
        heir = self._heirs.get(base)
        new_base = None if heir is None or heir in dropped else self._read_whole(heir)
        lost = set()
        for digest in self._find_dependents(base):
            if digest in dropped:
                continue
            if most_bytes <= 0:
                break
            if (text := self.read(digest)) is None:
                lost.add(digest)
                continue
            if self._put(digest, text, new_base) is None and new_base is None:
                new_base = digest, text
                self._heirs[base] = digest
            most_bytes -= len(text)
        return lost, most_bytes

    def _read_whole(self, digest: str) -> tuple[str, bytes] | None:
        """Return the digest and the text of a row without a base; None if it is no such row."""
        text = self._read_dictionary(digest)
        return None if text is None else (digest, text)

    def _find_dependents(self, base: str) -> list[str]:
        statement = "SELECT digest FROM blobs WHERE base = ? ORDER BY rowid DESC"
        return [str(row[0]) for row in self._writer.execute(statement, (base,))]

    def _choose_dictionary(self, like: str | None) -> tuple[str, bytes] | None:
        """Return digest and text of the base of `like`, or of `like` itself if it is whole."""
        if like is None:
            return None
        base = self._writer.execute("SELECT base FROM blobs WHERE digest = ?", (like,)).get or like
        statement = "SELECT count(*) FROM blobs WHERE base = ?"
        if int(self._writer.execute(statement, (base,)).get) >= MAX_ON_BASE:
            return None
        text = self.read(str(base))
        return None if text is None else (str(base), text)

    def _put(self, digest: str, text: bytes, base: tuple[str, bytes] | None) -> str | None:
        """Write a row, with `base` as dictionary if that saves enough; return the base it has."""
        data, base_digest = compress(text), None
        if base is not None and base[0] != digest:
            packed = compress(text, base[1])
            if len(packed) * LEAST_SAVING <= len(data):
                data, base_digest = packed, base[0]
        self._writer.execute(_PUT, (digest, len(text), base_digest, data))
        return base_digest

    def _read_dictionary(self, base: str | None) -> bytes | None:
        """Return the dictionary: empty without a base, None if the base is not a whole text."""
        if base is None:
            return b""
        statement = "SELECT base IS NULL FROM blobs WHERE digest = ?"
        is_whole = self._writer.execute(statement, (base,)).get
        return self.read(base) if is_whole else None


def count_damaged_blobs(path: Path) -> int:
    """Count the texts of a records.db whose data does not match their digest.

    SQLite's own checks do not notice that. Raises the classes of `translating_errors`.
    """
    with (
        contextlib.closing(open_reader(str(path))) as connection,
        deadline(connection, CHECK_S),
    ):
        blobs = Blobs(connection)
        digests = [str(row[0]) for row in connection.execute("SELECT digest FROM blobs")]
        return sum(blobs.read(digest) is None for digest in digests)


def compress(text: bytes, dictionary: bytes = b"") -> bytes:
    """Compress a text, block by block if there is a dictionary."""
    if not dictionary:
        return zlib.compress(text, WHOLE_LEVEL)
    return b"".join(
        len(block).to_bytes(_LENGTH_BYTES, "big") + block
        for block in _compress_blocks(text, dictionary)
    )


def decompress(data: bytes, size: int, dictionary: bytes = b"") -> bytes | None:
    """Return the text of `size` bytes from the result of `compress`; None if it is damaged."""
    try:
        if not dictionary:
            return _inflate(zlib.decompressobj(), data, size)
        text = bytearray()
        at = 0
        while at < len(data):
            start = at + _LENGTH_BYTES
            at = start + int.from_bytes(data[at:start], "big")
            window = _find_window(dictionary, len(text))
            unpacker = zlib.decompressobj(wbits=_RAW_DEFLATE, zdict=window)
            text += _inflate(unpacker, data[start:at], BLOCK_BYTES)
        return bytes(text)
    except zlib.error:
        return None


def _compress_blocks(text: bytes, dictionary: bytes) -> Iterator[bytes]:
    for at in range(0, len(text), BLOCK_BYTES):
        window = _find_window(dictionary, at)
        packer = zlib.compressobj(level=DICTIONARY_LEVEL, wbits=_RAW_DEFLATE, zdict=window)
        yield packer.compress(text[at : at + BLOCK_BYTES]) + packer.flush()


def _find_window(dictionary: bytes, at: int) -> bytes:
    """Return the part of the base around the block that begins at `at`, or the end of the base.

    A block that has not moved then repeats bytes at most 24 KB back; zlib does not quite reach
    32 KB.
    """
    margin = (WINDOW_BYTES - BLOCK_BYTES) // 2
    start = max(0, min(at - margin, len(dictionary) - WINDOW_BYTES))
    return dictionary[start : max(at, start) + BLOCK_BYTES + margin]


def _inflate(unpacker: zlib._Decompress, data: bytes, limit: int) -> bytes:
    # One byte more than expected already fails the digest, so a zip bomb is not unpacked.
    text = unpacker.decompress(data, limit + 1)
    if not unpacker.eof and len(text) <= limit:
        raise zlib.error("the data ends too soon")
    return text
