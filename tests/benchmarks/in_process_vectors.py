"""Vectors of a workspace that is asked in this process: the real model's, without the process that
memsyncd runs for them.

Only a Python with `memsyncd[semantic]` can import this module.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

# Small products take longer on several threads, above all where other programs run.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from memsyncd.config import SemanticConfig
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.semantic.declare import SemanticStatus
from memsyncd.semantic import Cosines
from memsyncd.semantic.embedders import Purpose, make_embedder, normalise
from memsyncd.semantic.vector_matrix import ChunkIds, Compared, Matrix, Vectors
from memsyncd.store.vectors import read_chunk_digests, read_embedded_texts

BATCH_TEXTS = 32
LIMIT_S = 60.0


class Model(Protocol):
    def embed(self, texts: Sequence[str], purpose: Purpose, limit_s: float) -> Vectors: ...


def load_model(config: SemanticConfig) -> Model:
    """Return the embedder of a configuration, with its model loaded. Raises EmbedderFailed."""
    embedder = make_embedder(config)
    embedder.identify()
    embedder.load()
    return embedder


class InProcessVectors:
    """The vectors of all chunks that a workspace has when this is made: a `VectorSearch`. Each
    question is embedded once.
    """

    def __init__(self, workspace: Workspace, model: Model) -> None:
        self._model = model
        self._asked: dict[str, Compared] = {}
        with workspace.acquire(LIMIT_S) as reader:
            chunks = read_chunk_digests(reader)
            read = read_embedded_texts(reader, [chunk for chunk, _ in chunks])
        texts = dict(read.values())
        self._matrix: Matrix | None = None
        for batch in _cut(list(texts), BATCH_TEXTS):
            vectors = self._embed([texts[digest] for digest in batch], "text")
            self._matrix = self._matrix or Matrix(vectors.shape[1])
            self._matrix.add(batch, vectors, room=len(texts))
        if self._matrix is not None:
            self._matrix.assign(chunks)
        self._status = SemanticStatus(state="ready", total=len(chunks), embedder="in process")

    def status(self) -> SemanticStatus:
        return self._status

    def prepare(self, question: str) -> None:
        self.begin(question)

    def begin(self, question: str) -> PendingAnswer:
        if question not in self._asked and self._matrix is not None:
            self._asked[question] = self._matrix.compare(self._embed([question], "question")[0])
        return PendingAnswer(self._asked.get(question))

    def of_chunks(
        self, chunks: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> Cosines | None:
        raise NotImplementedError("the questions of a set ask for no neighbours")

    def pairs(self, at_least: float, limit: int) -> list[tuple[int, int, float]] | None:
        raise NotImplementedError("the questions of a set ask for no pairs")

    def _embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        return normalise(self._model.embed(texts, purpose, LIMIT_S), len(texts))


class PendingAnswer:
    reason = ""

    def __init__(self, compared: Compared | None) -> None:
        self._compared = compared
        self._chosen: Cosines | None = None

    def select(
        self, candidates: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> None:
        if self._compared is None:
            return
        chosen = self._compared.choose(
            _to_ids(candidates), None if allowed is None else _to_ids(allowed), nearest
        )
        if chosen is not None:
            ids, cosines, median, highest = chosen
            of = dict(zip(ids.tolist(), cosines.tolist(), strict=True))
            self._chosen = Cosines(of, median, highest)

    def finish(self, deadline_s: float) -> Cosines | None:
        del deadline_s
        return self._chosen


def _to_ids(chunks: Collection[int]) -> ChunkIds:
    return np.fromiter(chunks, np.int64, len(chunks))


def _cut(digests: Sequence[bytes], n: int) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(digests), n):
        yield digests[start : start + n]
