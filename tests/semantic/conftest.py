"""An index on the real disk, and a server of embeddings."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from memsyncd.config import SemanticConfig
from memsyncd.semantic import Cosines, PendingCosines
from memsyncd.semantic.messages import Report
from memsyncd.semantic.vector_client import IndexState, VectorService, WorkspaceVectors
from memsyncd.store.index import DropNote, Index
from tests.store.conftest import FINGERPRINT, put_note

# Vectors are made with the lowest priority, so on a busy machine they take long.
LIMIT_S = 150.0
CONCEPTS = (
    ("car", "cars", "automobile", "vehicle"),
    ("dog", "dogs", "puppy", "hound"),
    ("bread", "loaf", "bakery"),
    ("storm", "thunder", "rain"),
)


def wait_until(is_so: Callable[[], object], complaint: str) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end_s, complaint
        time.sleep(0.01)


def embed(text: str) -> list[float]:
    """Return how often each concept is named, and a constant, so that no vector is zero."""
    words = text.lower().replace("#", " ").split()
    return [*(float(sum(word in concept for word in words)) for concept in CONCEPTS), 0.1]


class EmbeddingServer:
    """The API of OpenAI on a loopback port. A test may replace `answer` by a faulty one."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.paths: list[str] = []
        self.answer: Callable[[list[str]], bytes] = self.answer_well
        self.delay_s = 0.0
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                texts = json.loads(self.rfile.read(size))["input"]
                server.texts += texts
                server.paths.append(self.path)
                time.sleep(server.delay_s)
                data = server.answer(texts)
                self.send_response(200 if data else 500)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *words: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # a client that has not waited

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/embeddings"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @staticmethod
    def answer_well(texts: list[str]) -> bytes:
        return answer_with([embed(text) for text in texts])

    def hang(self, texts: list[str]) -> bytes:
        self.released.wait(LIMIT_S)
        return self.answer_well(texts)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(LIMIT_S)


def answer_with(vectors: list[list[float]]) -> bytes:
    data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return json.dumps({"data": data}).encode()


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer()
    yield server
    server.close()


def finish(
    pending: PendingCosines,
    deadline_s: float,
    candidates: Sequence[int] = (),
    allowed: Collection[int] | None = None,
    nearest: int = 100,
) -> Cosines | None:
    """Ask for cosines and wait for them."""
    pending.select(candidates, allowed, nearest)
    return pending.finish(deadline_s)


class Notes:
    """An index, its vectors and the service that makes them."""

    def __init__(self, folder: Path) -> None:
        self.index_path = folder / "index.db"
        self.vectors_path = folder / "vectors.db"
        self.index = Index(self.index_path, FINGERPRINT)
        self.reports: list[Report] = []
        self.services: list[VectorService] = []
        self.is_complete = True

    def put(self, **texts: str) -> None:
        self.index.apply([put_note(f".memories/{name}.md", text) for name, text in texts.items()])

    def drop(self, name: str) -> None:
        self.index.apply([DropNote(f".memories/{name}.md")])

    def rebuild(self, **texts: str) -> None:
        """Replace the file by another, with other ids."""
        self.index.close()
        self.index_path.unlink()
        self.index = Index(self.index_path, FINGERPRINT)
        self.put(first="# Filler\n\nnothing that matters here")
        self.put(**texts)

    def chunks(self) -> dict[int, str]:
        """The note of each chunk, by id."""
        with self.index.pool.acquire(5) as reader:
            rows = reader.rows("SELECT c.id, f.path FROM chunks c JOIN files f ON f.id = c.file")
        return {chunk: path.removeprefix(".memories/").removesuffix(".md") for chunk, path in rows}

    def serve(self, config: SemanticConfig) -> WorkspaceVectors:
        service = VectorService(config, self.reports.append)
        self.services.append(service)
        return service.add("w", self.index_path, self.read_state)

    def read_state(self) -> IndexState:
        return IndexState(self.index.opening, self.index.counts.chunks, self.is_complete)

    @property
    def service(self) -> VectorService:
        return self.services[-1]

    def refresh(self, **options: Any) -> Report:
        """Make vectors, and wait for the last report."""
        self.reports.clear()
        self.service.refresh("w", **options)
        wait_until(lambda: any(report.is_over for report in self.reports), "it is not over")
        return next(report for report in self.reports if report.is_over)

    def refresh_until_complete(self) -> None:
        """Refresh after a failure, whose report may still come and be taken for the last one."""
        wait_until(lambda: self.refresh().pending == 0, "vectors are missing")

    def ask(self, vectors: WorkspaceVectors, question: str, **options: Any) -> dict[str, float]:
        """Ask until there is an answer, and return the cosine of each note."""
        found: list[Any] = []

        def is_answered() -> bool:
            pending = vectors.begin(question)
            found.append(finish(pending, time.monotonic() + LIMIT_S, **options))
            return found[-1] is not None

        wait_until(is_answered, f"no answer: {vectors.status()}")
        names = self.chunks()
        return {names[chunk]: cosine for chunk, cosine in found[-1].of.items() if chunk in names}

    def close(self) -> None:
        for service in self.services:
            service.stop()
        self.index.close()


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    notes = Notes(tmp_path)
    yield notes
    notes.close()


@pytest.fixture
def endpoint(server: EmbeddingServer) -> SemanticConfig:
    return make_config(server)


def make_config(server: EmbeddingServer, **fields: Any) -> SemanticConfig:
    defaults = {"enabled": True, "embedder": "endpoint", "url": server.url, "model": "tiny"}
    return SemanticConfig(**{**defaults, "question_ms": 20_000, **fields})
