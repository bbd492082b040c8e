"""Make the vectors of chunks and compare them with questions, in a process of its own.

`python -m memsyncd.semantic.vector_worker` is started by `semantic.vector_client`. It reads
requests from stdin and writes replies to stdout, as frames (`semantic.messages`). The main thread
answers questions. Another one, with the lowest priority where threads have their own, embeds chunks
in batches: each is committed to vectors.db before the next, so a process that is killed loses one.
It pauses while a question is answered, since both threads need the interpreter's lock.
It reads index.db and never writes it. It ends with the daemon.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np
from msgspec.structs import replace

from memsyncd.config import SemanticConfig
from memsyncd.errors import MemsyncdError, NotFresh, StoreCorrupt, StoreFailed
from memsyncd.semantic.embedders import EmbedderFailed, embed_texts, make_embedder, normalise
from memsyncd.semantic.messages import (
    LENGTH_BYTES,
    CosinesReply,
    CosinesRequest,
    EmbedRequest,
    NeighboursRequest,
    PairsReply,
    PairsRequest,
    PrepareRequest,
    RefreshRequest,
    ReleaseRequest,
    Reply,
    Report,
    Request,
    StartRequest,
    encode_frame,
)
from memsyncd.semantic.vector_matrix import ChunkIds, Compared, Matrix, Vectors
from memsyncd.store.integrity import lower_thread_priority
from memsyncd.store.pool import ConnectionPool, Reader
from memsyncd.store.vectors import (
    VectorFile,
    read_chunk_digests,
    read_embedded_texts,
    set_vectors_aside,
)

BATCH_CHUNKS = 32
# After so many, another workspace has its turn.
TURN_CHUNKS = 512
REPORT_S = 0.5
READ_LIMIT_S = 30.0
# After a failure the embedder is left alone for so long, or each question would wait for it.
RETRY_S = 30.0
# Questions that wait for their selection; a search that was cancelled never sends one.
MAX_BEGUN = 32
# Questions whose vectors are kept, and whose cosines, which take 400 KB for 100,000 chunks.
MAX_KNOWN, MAX_COMPARED = 16, 2
# The question that is tried after a failure.
PROBE = "memory"
# How long a thread that embeds keeps the interpreter from one that answers.
SWITCH_S = 0.001
# How long a slice of text waits for questions at most, so that many of them do not stop it.
GIVE_WAY_S = 0.05
# As of the process that indexes.
OOM_SCORE = "500"
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15

SendReply = Callable[[Reply], None]
ChunkDigest = tuple[int, bytes]


class IndexChanged(Exception):
    """index.db cannot be read now; the daemon asks again once it can."""


class _Vectors:
    """The vectors of one workspace. `opening` is that of the index that the chunks belong to."""

    def __init__(self, refresh: RefreshRequest) -> None:
        self.refresh = refresh
        self.matrix: Matrix | None = None
        self.opening: int | None = None
        self.n_total = self.n_pending = 0
        self.fault = ""
        self.is_useless = False
        self.is_released = False


class VectorWorker:
    """All workspaces. Replies are sent from both threads."""

    def __init__(self, config: SemanticConfig, send: SendReply) -> None:
        self._config = config
        self._send = send
        self._embedder = make_embedder(config)
        self._by_id: dict[str, _Vectors] = {}
        self._begun: dict[int, Compared | None] = {}
        self._known: dict[str, Vectors] = {}
        """The vectors of the last questions: several workspaces are asked the same, and some
        questions come twice."""
        self._compared: dict[tuple[int, str], Compared] = {}
        """The cosines of the last questions, by version of a matrix and text: an agent asks for a
        context of what it has searched for."""
        self._failure: tuple[str, EmbedderFailed] | None = None
        self._identity = ""
        self._jobs: deque[RefreshRequest | PairsRequest] = deque()
        self._changed = threading.Condition()
        self._no_question = threading.Event()
        """Set unless a question is being answered."""
        self._no_question.set()
        self._failed_s = float("-inf")
        self._is_loaded = False
        threading.Thread(target=self._run, name="memsyncd-embed", daemon=True).start()

    # --- on the main thread ---

    def accept(self, request: Request) -> None:
        """Do what is requested. The other thread pauses from a question to its answer."""
        if isinstance(request, PrepareRequest | EmbedRequest | NeighboursRequest):
            self._no_question.clear()
        self._dispatch(request)
        if isinstance(request, CosinesRequest | NeighboursRequest):
            self._no_question.set()

    def _dispatch(self, request: Request) -> None:
        match request:
            case RefreshRequest():
                self._queue(request)
                if request.is_asked:
                    self._load()
            case ReleaseRequest():
                self._release(request.workspace)
            case PrepareRequest():
                self._prepare(request.text)
            case EmbedRequest():
                self._begin(request)
            case CosinesRequest():
                compared = self._begun.pop(request.number, None)
                self._answer(request, compared, _read_ids(request.candidates))
            case NeighboursRequest():
                self._find_neighbours(request)
            case PairsRequest():
                with self._changed:
                    self._jobs.append(request)
                    self._changed.notify()
            case StartRequest():
                raise AssertionError("it was read first")

    def _queue(self, request: RefreshRequest) -> None:
        """Have a workspace refreshed, once, however often that was asked for."""
        with self._changed:
            queued = [
                job
                for job in self._jobs
                if isinstance(job, RefreshRequest) and job.workspace == request.workspace
            ]
            for job in queued:
                self._jobs.remove(job)
            is_again = request.is_again or any(job.is_again for job in queued)
            request = replace(request, is_again=is_again)
            known = self._by_id.setdefault(request.workspace, _Vectors(request))
            known.refresh = request
            self._jobs.append(request)
            self._changed.notify()

    def _load(self) -> None:
        """Load the model with the priority of questions; the other thread reports a failure."""
        with contextlib.suppress(Exception):
            self._embedder.load()

    def _release(self, workspace: str) -> None:
        with self._changed:
            known = self._by_id.pop(workspace, None)
            if known is not None:
                known.is_released = True

    def _prepare(self, text: str) -> None:
        if time.monotonic() - self._failed_s < RETRY_S:
            return
        self._failure = None
        try:
            self._embed_question(text)
        except EmbedderFailed as failure:
            self._failure = text, failure  # for the question that follows

    def _begin(self, question: EmbedRequest) -> None:
        known = self._by_id.get(question.workspace)
        matrix = self._find_matrix(question)
        if known is None or matrix is None:
            return
        if time.monotonic() - self._failed_s < RETRY_S:
            return
        try:
            vector = self._embed_question(question.text)
            _check_dimensions(vector.shape[0], matrix)
        except EmbedderFailed as failure:
            self._known.pop(question.text, None)
            self._failed_s = time.monotonic()
            known.fault, known.is_useless = str(failure), True
            self._report(known)
            return
        if self._failed_s > 0:
            self._failed_s = float("-inf")
            self._queue(known.refresh)
        self._begun[question.number] = self._compare(matrix, question.text, vector)
        while len(self._begun) > MAX_BEGUN:
            del self._begun[next(iter(self._begun))]

    def _compare(self, matrix: Matrix, text: str, vector: Vectors) -> Compared:
        place = matrix.version, text  # before the rows are read, which may change meanwhile
        compared = self._compared.pop(place, None)
        if compared is None:
            compared = matrix.compare(vector)
        self._compared[place] = compared
        while len(self._compared) > MAX_COMPARED:
            del self._compared[next(iter(self._compared))]
        return compared

    def _embed_question(self, text: str) -> Vectors:
        failed, self._failure = self._failure, None
        if failed is not None and failed[0] == text:
            raise failed[1]
        vector = self._known.pop(text, None)
        if vector is None:
            vector = self._embed_one(text)
        self._known[text] = vector  # the last one used is the last one
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]
        return vector

    def _embed_one(self, text: str) -> Vectors:
        try:
            embedded = self._embedder.embed([text], "question", self._config.question_s)
            vector: Vectors = normalise(embedded, 1)[0]
        except EmbedderFailed:
            raise
        except Exception as failure:
            raise EmbedderFailed(_describe_failure(failure)) from failure
        return vector

    def _find_matrix(
        self, request: EmbedRequest | NeighboursRequest | PairsRequest
    ) -> Matrix | None:
        """Return the vectors of a workspace if they are those of this index."""
        known = self._by_id.get(request.workspace)
        return known.matrix if known is not None and known.opening == request.opening else None

    def _find_neighbours(self, request: NeighboursRequest) -> None:
        matrix = self._find_matrix(request)
        chunks = _read_ids(request.chunks)
        mean = None if matrix is None else matrix.mean(chunks)
        if matrix is None or mean is None:
            self._send(CosinesReply(number=request.number))
            return
        compared = matrix.compare(mean)
        is_other = ~np.isin(compared.ids, chunks)
        others = Compared(compared.ids[is_other], compared.cosines[is_other])
        self._answer(request, others, np.empty(0, np.int64))

    def _answer(
        self,
        request: CosinesRequest | NeighboursRequest,
        compared: Compared | None,
        candidates: ChunkIds,
    ) -> None:
        allowed = None if request.allowed is None else _read_ids(request.allowed)
        chosen = None if compared is None else compared.choose(candidates, allowed, request.nearest)
        if chosen is None:
            self._send(CosinesReply(number=request.number))
            return
        ids, cosines, median, highest = chosen
        self._send(
            CosinesReply(
                number=request.number,
                ids=ids.tobytes(),
                cosines=cosines.tobytes(),
                median=median,
                highest=highest,
            )
        )

    # --- on the thread that embeds ---

    def _give_way(self) -> None:
        """Wait until no question is being answered. A search may end without its last request: then
        the first slice that has waited in vain is the last one that does.
        """
        if not self._no_question.wait(GIVE_WAY_S):
            self._no_question.set()

    def _run(self) -> None:
        lower_thread_priority()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs)
                job = self._jobs.popleft()
                known = self._by_id.get(job.workspace)
            try:
                if isinstance(job, PairsRequest):
                    self._find_pairs(job)
                elif known is not None:
                    self._refresh(known, job)
            except BrokenPipeError:
                os._exit(0)  # the daemon has ended

    def _refresh(self, known: _Vectors, job: RefreshRequest) -> None:
        fault, notice, is_useless, is_over = "", "", False, True
        try:
            try:
                is_over = self._update(known, job)
            except StoreCorrupt as failure:
                notice = f"vectors.db was set aside ({failure.message}); its vectors are made again"
                known.matrix = None
                set_vectors_aside(Path(job.vectors_path))
                is_over = self._update(known, job)
            self._prepare_questions(known, job)
        except EmbedderFailed as failure:
            fault, is_useless = str(failure), True
            self._failed_s = time.monotonic()
        except IndexChanged:
            pass
        except MemsyncdError as failure:
            fault = f"vectors cannot be stored: {failure.message}: {failure.hint}"
        except OSError as failure:
            fault = f"vectors cannot be stored: {failure.strerror}: see {job.vectors_path}"
        except Exception as failure:  # noqa: BLE001 - searches go on without vectors
            fault = _describe_failure(failure)
            is_useless = True
        else:
            self._failed_s = float("-inf")
        known.fault, known.is_useless = fault, is_useless
        self._report(known, notice=notice, is_over=is_over)
        if not is_over:
            self._queue_rest(known, job)

    def _prepare_questions(self, known: _Vectors, job: RefreshRequest) -> None:
        # Without new chunks, no model is read into memory until somebody asks.
        if job.is_asked:
            self._embedder.load()
            self._is_loaded = True
        # After a failure a question is tried: without new chunks nothing else would notice one.
        if self._failed_s == float("-inf"):
            return
        vector = self._embed_one(PROBE)
        if known.matrix is not None:
            _check_dimensions(vector.shape[0], known.matrix)

    def _queue_rest(self, known: _Vectors, job: RefreshRequest) -> None:
        """Go on with a workspace after the others, unless it waits for its turn already."""
        with self._changed:
            is_queued = any(
                isinstance(one, RefreshRequest) and one.workspace == job.workspace
                for one in self._jobs
            )
        if not is_queued and not known.is_released:
            self._queue(replace(known.refresh, is_again=False))

    def _update(self, known: _Vectors, job: RefreshRequest) -> bool:
        """Make the vectors of one turn. False if more are missing."""
        with contextlib.closing(VectorFile(Path(job.vectors_path))) as file:
            chunks = self._read_chunks(job)
            known.n_total = known.n_pending = len(chunks)
            if job.is_complete:
                _prune(known, file, chunks)
            identity = self._embedder.identify()
            if identity != self._identity or job.is_again:
                # With --again, an endpoint may have another model of the same name.
                self._identity = identity
                self._known = {}
            if job.is_again:
                file.reset("", 0)
            # Vectors of another embedder are deleted once this one has made some.
            if file.embedder != identity:
                known.matrix = None
            elif known.matrix is None:
                known.matrix = Matrix(file.dimensions, file.read_all())
            matrix = known.matrix
            missing = chunks if matrix is None else matrix.assign(chunks)
            known.opening = job.opening
            self._note_missing(known, chunks, missing)
            self._report(known)
            return self._embed_missing(known, job, file, identity, chunks, missing)

    def _note_missing(
        self, known: _Vectors, chunks: Sequence[ChunkDigest], missing: Sequence[ChunkDigest]
    ) -> None:
        lacking = {digest for _, digest in missing}
        known.n_total = len(chunks)
        known.n_pending = sum(digest in lacking for _, digest in chunks) if lacking else 0

    @staticmethod
    def _read_chunks(job: RefreshRequest) -> list[ChunkDigest]:
        with _reading(job.index_path) as reader:
            return read_chunk_digests(reader)

    def _embed_missing(
        self,
        known: _Vectors,
        job: RefreshRequest,
        file: VectorFile,
        identity: str,
        chunks: Sequence[ChunkDigest],
        missing: Sequence[ChunkDigest],
    ) -> bool:
        reported_s = time.monotonic()
        for start in range(0, min(len(missing), TURN_CHUNKS), BATCH_CHUNKS):
            if known.is_released or known.refresh is not job:
                return False
            batch = _read_batch(job.index_path, missing[start : start + BATCH_CHUNKS])
            if not batch:
                continue
            texts = [text for _, text in batch]
            limit_s = self._config.request_s
            vectors = embed_texts(self._embedder, texts, limit_s, self._give_way)
            if known.matrix is None:
                file.reset(identity, vectors.shape[1])
                known.matrix = Matrix(vectors.shape[1])
            _check_dimensions(vectors.shape[1], known.matrix)
            digests = [digest for digest, _ in batch]
            file.add(known.matrix.add(digests, vectors, room=len(missing)))
            known.fault, known.is_useless = "", False
            self._is_loaded = True
            if time.monotonic() - reported_s >= REPORT_S:
                reported_s = time.monotonic()
                self._note_missing(known, chunks, known.matrix.assign(chunks))
                self._report(known)
        if missing and known.matrix is not None:
            self._note_missing(known, chunks, known.matrix.assign(chunks))
        return len(missing) <= TURN_CHUNKS

    def _find_pairs(self, job: PairsRequest) -> None:
        matrix = self._find_matrix(job)
        if matrix is None:
            self._send(PairsReply(number=job.number, is_found=False))
            return
        end_s = time.monotonic() + job.limit_s
        finder = matrix.find_pairs(job.at_least, job.limit)
        is_found = True
        while is_found and finder.step():
            self._give_way()
            is_found = time.monotonic() < end_s
        first, second, cosines = finder.result()
        self._send(
            PairsReply(
                number=job.number,
                first=first.tobytes(),
                second=second.tobytes(),
                cosines=cosines.tobytes(),
                is_found=is_found,
            )
        )

    def _report(
        self,
        known: _Vectors,
        *,
        notice: str = "",
        is_over: bool = False,
    ) -> None:
        self._send(
            Report(
                workspace=known.refresh.workspace,
                pending=known.n_pending,
                total=known.n_total,
                embedder=self._embedder.name,
                loaded=self._find_loaded(known),
                fault=known.fault,
                is_useless=known.is_useless,
                notice=notice,
                is_over=is_over,
            )
        )

    def _find_loaded(self, known: _Vectors) -> int | None:
        """Return the opening whose chunks can be compared now; without chunks nothing has to be."""
        is_loaded = self._is_loaded and (known.matrix is not None or not known.n_total)
        return known.opening if is_loaded else None


def _prune(known: _Vectors, file: VectorFile, chunks: Sequence[ChunkDigest]) -> None:
    """Delete the vectors of texts that are in no note any more."""
    gone = file.read_digests() - {digest for _, digest in chunks}
    if gone:
        file.drop(gone)
        if known.matrix is not None:
            known.matrix.drop(gone)


def _read_batch(index_path: str, chunks: Sequence[ChunkDigest]) -> list[tuple[bytes, str]]:
    """Return digests and texts, without the chunks that have changed meanwhile."""
    with _reading(index_path) as reader:
        found = read_embedded_texts(reader, [chunk for chunk, _ in chunks])
    return [found[chunk] for chunk, digest in chunks if found.get(chunk, (b"",))[0] == digest]


@contextlib.contextmanager
def _reading(index_path: str) -> Iterator[Reader]:
    """Yield a reader for one snapshot of index.db. A snapshot that lasts would keep its WAL."""
    try:
        with (
            contextlib.closing(ConnectionPool(index_path)) as pool,
            pool.acquire(READ_LIMIT_S) as reader,
        ):
            yield reader
    except (StoreFailed, NotFresh) as failure:
        raise IndexChanged from failure


def _describe_failure(failure: Exception) -> str:
    return f"vectors cannot be made ({type(failure).__name__}: {failure})"


def _check_dimensions(n: int, matrix: Matrix) -> None:
    if n != matrix.dimensions:
        raise EmbedderFailed(
            f"the model returns vectors of {n} dimensions, and those of the notes have"
            f" {matrix.dimensions}: make them again with `memsyncd semantic warm --again`"
        )


def _read_ids(data: bytes) -> ChunkIds:
    return np.frombuffer(data, np.int64)


# --- the process --------------------------------------------------------------------------------


def main() -> NoReturn:
    # With `-m` the modules are imported already: the daemon sets the variables of BLAS.
    send, frames = _take_stdout(), _read_frames()
    start = next(frames, None)
    if isinstance(start, StartRequest):
        _prepare(start.parent_pid)
        worker = VectorWorker(start.config, send)
        with contextlib.suppress(BrokenPipeError):
            for request in frames:
                worker.accept(request)
    os._exit(0)


def _read_frames() -> Iterator[Request]:
    """Yield the requests until the daemon closes the pipe, or has ended."""
    decoder = msgspec.msgpack.Decoder(Request)
    stdin = sys.stdin.buffer
    while len(head := stdin.read(LENGTH_BYTES)) == LENGTH_BYTES:
        n_bytes = int.from_bytes(head, "big")
        data = stdin.read(n_bytes)
        if len(data) < n_bytes:
            return
        yield decoder.decode(data)


def _take_stdout() -> SendReply:
    """Keep stdout for frames: what a library prints must not get between them."""
    pipe = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    lock = threading.Lock()

    def send(reply: Reply) -> None:
        frame = memoryview(encode_frame(reply))
        with lock:
            while frame:
                frame = frame[os.write(pipe, frame) :]

    return send


def _prepare(parent_pid: int) -> None:
    """End when the daemon ends, and before it if memory runs out."""
    sys.setswitchinterval(SWITCH_S)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_NAME, b"memsyncd-vector")
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    else:  # threads have no priority of their own
        with contextlib.suppress(OSError):
            os.nice(10)
    if os.getppid() != parent_pid:
        os._exit(0)  # it ended before this process asked for the signal
    gc.freeze()


if __name__ == "__main__":
    main()
