"""Vectors of which each number is a concept: texts with words of the same concept are near."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from memsyncd.engine.workspace import Workspace
from memsyncd.operations.semantic.declare import SemanticStatus
from memsyncd.semantic import Cosines
from memsyncd.store.texts import read_texts

CONCEPTS = (
    {"car", "automobile", "vehicle", "driving"},
    {"doctor", "physician", "clinic"},
    {"money", "budget", "invoice", "payment"},
    {"database", "sqlite", "postgres"},
)
Vector = tuple[float, ...]


def embed(text: str) -> Vector:
    words = [word.strip('.,:#"').lower() for word in text.split()]
    counts = [sum(word in concept for word in words) for concept in CONCEPTS]
    # Texts without a concept differ a little from one another, and from all others.
    vector = [*counts, 0.2, 0.1 * math.sin(len(text))]
    length = math.hypot(*vector)
    return tuple(part / length for part in vector)


class ConceptVectors:
    """The vectors of all chunks that a workspace has when this is made, or of `only` some."""

    def __init__(self, workspace: Workspace, only: Collection[str] | None = None) -> None:
        with workspace.acquire(10.0) as reader:
            ids = [row[0] for row in reader.rows("SELECT id FROM chunks")]
            texts = read_texts(reader, ids)
        self.total = len(ids)
        self.of = {
            chunk: embed(text)
            for chunk, text in texts.items()
            if only is None or any(word in text for word in only)
        }
        self.is_late = False

    def status(self) -> SemanticStatus:
        pending = self.total - len(self.of)
        state = "partial" if pending else "ready"
        return SemanticStatus(state=state, pending=pending, total=self.total, embedder="concepts")  # type: ignore[arg-type]

    def prepare(self, question: str) -> None:
        pass

    def begin(self, question: str) -> PendingQuestion:
        return PendingQuestion(self, embed(question))

    def of_chunks(
        self, chunks: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> Cosines | None:
        known = [self.of[chunk] for chunk in chunks if chunk in self.of]
        if not known:
            return None
        mean = tuple(map(statistics.fmean, zip(*known, strict=True)))
        length = math.hypot(*mean)
        others = {*(self.of if allowed is None else allowed)} - {*chunks}
        return self.compare(tuple(part / length for part in mean), (), others, nearest)

    def pairs(self, at_least: float, limit: int) -> list[tuple[int, int, float]] | None:
        found = [
            (first, other, _dot(self.of[first], self.of[other]))
            for first, other in combinations(sorted(self.of), 2)
        ]
        near = sorted((pair for pair in found if pair[2] >= at_least), key=lambda pair: -pair[2])
        return near[:limit]

    def compare(
        self, vector: Vector, asked: Iterable[int], allowed: Collection[int] | None, nearest: int
    ) -> Cosines | None:
        cosines = {
            chunk: _dot(vector, of_chunk)
            for chunk, of_chunk in self.of.items()
            if allowed is None or chunk in allowed
        }
        if not cosines:
            return None
        best = sorted(cosines, key=lambda chunk: -cosines[chunk])[:nearest]
        of = {chunk: cosines[chunk] for chunk in (*asked, *best) if chunk in cosines}
        return Cosines(of, statistics.median(cosines.values()), max(cosines.values()))


class PendingQuestion:
    def __init__(self, vectors: ConceptVectors, vector: Vector) -> None:
        self.reason = "it is late" if vectors.is_late else ""
        self._vectors = vectors
        self._vector = vector
        self._found: Cosines | None = None

    def select(
        self, candidates: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> None:
        if not self._vectors.is_late:
            self._found = self._vectors.compare(self._vector, candidates, allowed, nearest)

    def finish(self, deadline_s: float) -> Cosines | None:
        del deadline_s
        return self._found


def _dot(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
