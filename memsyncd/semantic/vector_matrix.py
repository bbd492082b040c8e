"""Hold the vectors of a workspace in memory, and compare them with a question.

A row has a signed byte for each dimension, times a scale; so cosines are exact to about 0.005.
Chunks with the same digest share a row. Cosines are computed for blocks of rows, which become
floats in the processor's cache: 100,000 rows of 512 dimensions take 9 ms.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memsyncd.store.vectors import VectorRow

BLOCK_ROWS = 512
PAIR_ROWS = 1024
_LARGEST = 127.0
_versions = count()

Vectors = NDArray[np.float32]
ChunkIds = NDArray[np.int64]


class Compared(NamedTuple):
    """The cosines of a question: a cosine for each id; the ids rise."""

    ids: ChunkIds
    cosines: Vectors

    def choose(
        self, candidates: ChunkIds, allowed: ChunkIds | None, nearest: int
    ) -> tuple[ChunkIds, Vectors, float, float] | None:
        """Return ids and cosines of the candidates and of the nearest chunks among `allowed`.

        The median and the highest cosine of the allowed chunks follow. Among equally near chunks
        the smallest ids are taken. None if no allowed chunk has a vector.
        """
        ids, cosines = self
        if allowed is not None:
            places = np.unique(_find_places(ids, allowed))
            ids, cosines = ids[places], cosines[places]
        if not len(ids):
            return None
        n = len(ids)
        first = max(0, n - nearest)
        # A single partition finds where the nearest begin, and the two cosines in the middle.
        middle = (n - 1) // 2, n // 2
        parted = np.partition(cosines, sorted({min(first, n - 1), *middle}))
        is_chosen = np.zeros(n, bool)
        if first < n:
            is_chosen = cosines > parted[first]
            equal = np.flatnonzero(cosines == parted[first])
            is_chosen[equal[: n - first - np.count_nonzero(is_chosen)]] = True
        is_chosen[_find_places(ids, candidates)] = True
        median = (float(parted[middle[0]]) + float(parted[middle[1]])) / 2
        return ids[is_chosen], cosines[is_chosen], median, float(cosines.max())


def _find_places(ids: ChunkIds, wanted: ChunkIds) -> NDArray[np.int64]:
    """Return the places of the wanted ids in `ids`, which rise; in the order of `wanted`."""
    if not len(ids):
        return np.empty(0, np.int64)
    places = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    matching: NDArray[np.int64] = places[ids[places] == wanted]
    return matching


class Matrix:
    """The vectors of a workspace. Several threads may use it."""

    def __init__(self, dimensions: int, rows: Iterable[VectorRow] = ()) -> None:
        self.dimensions = dimensions
        self.version = next(_versions)
        """A number that changes with each change that may affect a comparison."""
        self._lock = threading.Lock()
        self._row_of: dict[bytes, int] = {}
        self._free: list[int] = []
        # Rows are added singly: a list of all as objects would take three times the memory, and
        # Python would not give all of it back.
        scales, data = array("f"), bytearray()
        for digest, scale, vector in rows:
            self._row_of[digest] = len(scales)
            scales.append(scale)
            data += vector
        self._rows = np.frombuffer(data, np.int8).reshape(-1, dimensions)
        self._scales = np.array(scales)
        self._ids: ChunkIds = np.empty(0, np.int64)
        self._places: NDArray[np.int64] = np.empty(0, np.int64)
        self._chunks: Sequence[tuple[int, bytes]] = ()

    def assign(self, chunks: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Take over the chunks of the index, by id.

        Returns a chunk for each digest that has no vector.
        """
        with self._lock:
            self._chunks = chunks
            self._assign()
            missing = {digest: chunk for chunk, digest in chunks if digest not in self._row_of}
        return [(chunk, digest) for digest, chunk in missing.items()]

    def _assign(self) -> None:
        self.version = next(_versions)
        rows = [
            (chunk, self._row_of[digest])
            for chunk, digest in self._chunks
            if digest in self._row_of
        ]
        pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
        self._ids, self._places = pairs[:, 0].copy(), pairs[:, 1].copy()

    def add(self, digests: Sequence[bytes], vectors: Vectors, *, room: int = 0) -> list[VectorRow]:
        """Add vectors of length 1 or 0; return them as they are stored.

        Room for `room` further vectors is made at the same time.
        """
        scales = np.abs(vectors).max(axis=1) / np.float32(_LARGEST)
        scales[scales == 0] = 1  # for rows of zeros
        rows = np.rint(vectors / scales[:, None]).astype(np.int8)
        with self._lock:
            for digest, row, scale in zip(digests, rows, scales, strict=True):
                place = self._take_place(digest, room)
                self._rows[place], self._scales[place] = row, scale
        stored = zip(digests, scales, rows, strict=True)
        return [(digest, float(scale), row.tobytes()) for digest, scale, row in stored]

    def _take_place(self, digest: bytes, room: int) -> int:
        place = self._row_of.get(digest)
        if place is None and self._free:
            place = self._free.pop()
        if place is None:
            place = len(self._row_of)
            if place >= len(self._rows):
                self._grow(place + 1 + room)
        self._row_of[digest] = place
        return place

    def _grow(self, n_rows: int) -> None:
        rows = np.zeros((n_rows, self.dimensions), np.int8)
        rows[: len(self._rows)] = self._rows
        scales = np.zeros(n_rows, np.float32)
        scales[: len(self._scales)] = self._scales
        self._rows, self._scales = rows, scales

    def drop(self, digests: Iterable[bytes]) -> None:
        """Forget vectors, and overwrite their bytes."""
        with self._lock:
            for digest in digests:
                place = self._row_of.pop(digest, None)
                if place is not None:
                    self._rows[place] = 0
                    self._scales[place] = 0.0
                    self._free.append(place)
            self._assign()

    def compare(self, vector: Vectors) -> Compared:
        """Return the cosines of `vector`, which has length 1, and all chunks that have a vector."""
        with self._lock:
            n = len(self._rows)
            cosines = np.empty(n, np.float32)
            for start in range(0, n, BLOCK_ROWS):
                block = slice(start, start + BLOCK_ROWS)
                cosines[block] = self._rows[block].astype(np.float32) @ vector
            cosines *= self._scales
            return Compared(self._ids, cosines[self._places])

    def mean(self, chunks: ChunkIds) -> Vectors | None:
        """Return the mean of the vectors of chunks, with length 1; None if there are no vectors."""
        with self._lock:
            places = self._places[np.unique(_find_places(self._ids, chunks))]
            if not len(places):
                return None
            mean = (self._rows[places].astype(np.float32) * self._scales[places, None]).mean(axis=0)
        length = np.linalg.norm(mean)
        direction: Vectors | None = (mean / length).astype(np.float32) if length else None
        return direction

    def find_pairs(self, at_least: float, limit: int) -> PairFinder:
        """Return a finder for pairs of chunks with a cosine of at least `at_least`."""
        with self._lock:
            scales = self._scales[self._places]
            return PairFinder(self._ids, self._rows[self._places], scales, at_least, limit)


class PairFinder:
    """Finds the nearest pairs. Each step compares a block of rows with another block."""

    def __init__(
        self, ids: ChunkIds, rows: NDArray[np.int8], scales: Vectors, at_least: float, limit: int
    ) -> None:
        self._ids, self._rows, self._scales = ids, rows, scales
        self._at_least, self._limit = at_least, limit
        starts = range(0, len(ids), PAIR_ROWS)
        self._steps = [(first, other) for first in starts for other in starts if first <= other]
        self._found: list[tuple[ChunkIds, ChunkIds, Vectors]] = []

    def step(self) -> bool:
        """Compare two blocks. Return False if none are left."""
        if not self._steps:
            return False
        first, other = self._steps.pop()
        cosines = self._read(first) @ self._read(other).T
        if first == other:
            cosines = np.triu(cosines, 1) - np.tril(np.full_like(cosines, 2.0))
        left, right = np.nonzero(cosines >= self._at_least)
        ids = self._ids
        self._found.append((ids[left + first], ids[right + other], cosines[left, right]))
        if sum(len(cosines) for _, _, cosines in self._found) > 8 * self._limit + PAIR_ROWS:
            self._found = [self.result()]
        return True

    def result(self) -> tuple[ChunkIds, ChunkIds, Vectors]:
        """Return the pairs that were found so far, the nearest first: two ids and their cosine."""
        if not self._found:
            return self._ids[:0], self._ids[:0], np.empty(0, np.float32)
        first, other, cosines = (
            np.concatenate([block[part] for block in self._found]) for part in range(3)
        )
        best = np.argsort(-cosines, kind="stable")[: self._limit]
        return first[best], other[best], np.minimum(cosines[best], np.float32(1.0))

    def _read(self, start: int) -> Vectors:
        block = slice(start, start + PAIR_ROWS)
        vectors: Vectors = self._rows[block].astype(np.float32) * self._scales[block, None]
        return vectors
