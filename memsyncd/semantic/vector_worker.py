"""Make the vectors of chunks and compare them with questions, in a process of its own.

`semantic.vector_client` starts `python -m memsyncd.semantic.vector_worker`. The process reads
requests from stdin and writes replies to stdout, as frames (`semantic.messages`). The main thread
answers questions. Another thread embeds chunks in batches; it has the lowest priority, if threads
have priorities. Each batch is committed to vectors.db before the next, so a process that is killed
loses only one batch. The thread pauses while a question is answered, because both threads need the
interpreter's lock. The process reads index.db and never writes it. It ends with the daemon.
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
# After so many chunks it is the turn of another workspace.
TURN_CHUNKS = 512
REPORT_S = 0.5
READ_LIMIT_S = 30.0
# After a failure the embedder is not used for so long. Otherwise each question would wait for it.
RETRY_S = 30.0
# At most so many questions wait for their selection: a cancelled search never sends it.
MAX_BEGUN = 32
# The number of questions whose vectors are kept, and the number whose cosines are kept. Cosines
# take 400 KB for 100,000 chunks.
MAX_EMBEDDED, MAX_COMPARED = 16, 2
# The question that is tried after a failure.
PROBE = "memory"
# How long the embedding thread may keep the interpreter's lock while the other thread waits.
SWITCH_S = 0.001
# A slice of text waits at most so long for questions, so that many questions do not stop it.
GIVE_WAY_S = 0.05
# The same as for the process that indexes.
OOM_SCORE = "500"
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15

SendReply = Callable[[Reply], None]
ChunkDigest = tuple[int, bytes]


class IndexChanged(Exception):
    """index.db cannot be read now; the daemon asks again when it can be read."""


class _Workspace:
    """The vectors of a workspace. `opening` belongs to the index whose chunks they are."""

    def __init__(self, refresh: RefreshRequest) -> None:
        self.refresh = refresh
        self.matrix: Matrix | None = None
        self.opening: int | None = None
        self.n_total = self.n_pending = 0
        self.fault = ""
        self.is_useless = False
        self.is_released = False


class VectorWorker:
    """The vectors of all workspaces. Both threads send replies."""

    def __init__(self, config: SemanticConfig, send: SendReply) -> None:
        self._config = config
        self._send = send
        self._embedder = make_embedder(config)
        self._by_id: dict[str, _Workspace] = {}
        self._begun: dict[int, Compared | None] = {}
        self._embedded: dict[str, Vectors] = {}
        """The vectors of the last questions: several workspaces get the same question, and some
        questions come twice."""
        self._compared: dict[tuple[int, str], Compared] = {}
        """The cosines of the last questions, by version of a matrix and text: after a search an
        agent often asks for a context with the same question."""
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
        """Carry out a request. The other thread pauses from a question until its answer."""
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
        """Queue the refresh of a workspace; several requests lead to one refresh."""
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
            workspace = self._by_id.setdefault(request.workspace, _Workspace(request))
            workspace.refresh = request
            self._jobs.append(request)
            self._changed.notify()

    def _load(self) -> None:
        """Load the model with the priority of questions; the other thread reports a failure."""
        with contextlib.suppress(Exception):
            self._embedder.load()

    def _release(self, workspace_id: str) -> None:
        with self._changed:
            workspace = self._by_id.pop(workspace_id, None)
            if workspace is not None:
                workspace.is_released = True

    def _prepare(self, text: str) -> None:
        if time.monotonic() - self._failed_s < RETRY_S:
            return
        self._failure = None
        try:
            self._embed_question(text)
        except EmbedderFailed as failure:
            self._failure = text, failure  # the question that follows raises it

    def _begin(self, question: EmbedRequest) -> None:
        workspace = self._by_id.get(question.workspace)
        matrix = self._find_matrix(question)
        if workspace is None or matrix is None:
            return
        if time.monotonic() - self._failed_s < RETRY_S:
            return
        try:
            vector = self._embed_question(question.text)
            _check_dimensions(vector.shape[0], matrix)
        except EmbedderFailed as failure:
            self._embedded.pop(question.text, None)
            self._failed_s = time.monotonic()
            workspace.fault, workspace.is_useless = str(failure), True
            self._report(workspace)
            return
        if self._failed_s > 0:
            self._failed_s = float("-inf")
            self._queue(workspace.refresh)
        self._begun[question.number] = self._compare(matrix, question.text, vector)
        while len(self._begun) > MAX_BEGUN:
            del self._begun[next(iter(self._begun))]

    def _compare(self, matrix: Matrix, text: str, vector: Vectors) -> Compared:
        place = matrix.version, text  # taken before the rows are read: they may change meanwhile
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
        vector = self._embedded.pop(text, None)
        if vector is None:
            vector = self._embed_one(text)
        self._embedded[text] = vector  # the question that was used last is at the end
        while len(self._embedded) > MAX_EMBEDDED:
            del self._embedded[next(iter(self._embedded))]
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
        """Return the vectors of a workspace if they belong to the requested index."""
        workspace = self._by_id.get(request.workspace)
        return (
            workspace.matrix
            if workspace is not None and workspace.opening == request.opening
            else None
        )

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
        """Wait until no question is being answered.

        A search may end without its last request. Then only the first slice waits in vain.
        """
        if not self._no_question.wait(GIVE_WAY_S):
            self._no_question.set()

    def _run(self) -> None:
        lower_thread_priority()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs)
                job = self._jobs.popleft()
                workspace = self._by_id.get(job.workspace)
            try:
                if isinstance(job, PairsRequest):
                    self._find_pairs(job)
                elif workspace is not None:
                    self._refresh(workspace, job)
            except BrokenPipeError:
                os._exit(0)  # the daemon has ended

    def _refresh(self, workspace: _Workspace, job: RefreshRequest) -> None:
        fault, notice, is_useless, is_over = "", "", False, True
        try:
            try:
                is_over = self._update(workspace, job)
            except StoreCorrupt as failure:
                notice = f"vectors.db was set aside ({failure.message}); its vectors are made again"
                workspace.matrix = None
                set_vectors_aside(Path(job.vectors_path))
                is_over = self._update(workspace, job)
            self._prepare_questions(workspace, job)
        except EmbedderFailed as failure:
            fault, is_useless = str(failure), True
            self._failed_s = time.monotonic()
        except IndexChanged:
            pass
        except MemsyncdError as failure:
            fault = f"vectors cannot be stored: {failure.message}: {failure.hint}"
        except OSError as failure:
            fault = f"vectors cannot be stored: {failure.strerror}: see {job.vectors_path}"
        except Exception as failure:  # noqa: BLE001 - searches continue without vectors
            fault = _describe_failure(failure)
            is_useless = True
        else:
            self._failed_s = float("-inf")
        workspace.fault, workspace.is_useless = fault, is_useless
        self._report(workspace, notice=notice, is_over=is_over)
        if not is_over:
            self._queue_rest(workspace, job)

    def _prepare_questions(self, workspace: _Workspace, job: RefreshRequest) -> None:
        # Without new chunks no model is read into memory until there is a question.
        if job.is_asked:
            self._embedder.load()
            self._is_loaded = True
        # After a failure a question is tried: without new chunks nothing else would show whether
        # the failure persists.
        if self._failed_s == float("-inf"):
            return
        vector = self._embed_one(PROBE)
        if workspace.matrix is not None:
            _check_dimensions(vector.shape[0], workspace.matrix)

    def _queue_rest(self, workspace: _Workspace, job: RefreshRequest) -> None:
        """Continue a workspace after the others, unless it is already in the queue."""
        with self._changed:
            is_queued = any(
                isinstance(queued, RefreshRequest) and queued.workspace == job.workspace
                for queued in self._jobs
            )
        if not is_queued and not workspace.is_released:
            self._queue(replace(workspace.refresh, is_again=False))

    def _update(self, workspace: _Workspace, job: RefreshRequest) -> bool:
        """Make the vectors of a turn. Return False if more are missing."""
        with contextlib.closing(VectorFile(Path(job.vectors_path))) as file:
            chunks = self._read_chunks(job)
            workspace.n_total = workspace.n_pending = len(chunks)
            if job.is_complete:
                _prune(workspace, file, chunks)
            identity = self._embedder.identify()
            if identity != self._identity or job.is_again:
                # With --again, an endpoint may have another model of the same name.
                self._identity = identity
                self._embedded = {}
            if job.is_again:
                file.reset("", 0)
            # Vectors of another embedder are deleted when this embedder has made some.
            if file.embedder != identity:
                workspace.matrix = None
            elif workspace.matrix is None:
                workspace.matrix = Matrix(file.dimensions, file.read_all())
            matrix = workspace.matrix
            missing = chunks if matrix is None else matrix.assign(chunks)
            workspace.opening = job.opening
            self._note_missing(workspace, chunks, missing)
            self._report(workspace)
            return self._embed_missing(workspace, job, file, identity, chunks, missing)

    def _note_missing(
        self, workspace: _Workspace, chunks: Sequence[ChunkDigest], missing: Sequence[ChunkDigest]
    ) -> None:
        lacking = {digest for _, digest in missing}
        workspace.n_total = len(chunks)
        workspace.n_pending = sum(digest in lacking for _, digest in chunks) if lacking else 0

    @staticmethod
    def _read_chunks(job: RefreshRequest) -> list[ChunkDigest]:
        with _reading(job.index_path) as reader:
            return read_chunk_digests(reader)

    def _embed_missing(
        self,
        workspace: _Workspace,
        job: RefreshRequest,
        file: VectorFile,
        identity: str,
        chunks: Sequence[ChunkDigest],
        missing: Sequence[ChunkDigest],
    ) -> bool:
        reported_s = time.monotonic()
        for start in range(0, min(len(missing), TURN_CHUNKS), BATCH_CHUNKS):
            if workspace.is_released or workspace.refresh is not job:
                return False
            batch = _read_batch(job.index_path, missing[start : start + BATCH_CHUNKS])
            if not batch:
                continue
            texts = [text for _, text in batch]
            limit_s = self._config.request_s
            vectors = embed_texts(self._embedder, texts, limit_s, self._give_way)
            if workspace.matrix is None:
                file.reset(identity, vectors.shape[1])
                workspace.matrix = Matrix(vectors.shape[1])
            _check_dimensions(vectors.shape[1], workspace.matrix)
            digests = [digest for digest, _ in batch]
            file.add(workspace.matrix.add(digests, vectors, room=len(missing)))
            workspace.fault, workspace.is_useless = "", False
            self._is_loaded = True
            if time.monotonic() - reported_s >= REPORT_S:
                reported_s = time.monotonic()
                self._note_missing(workspace, chunks, workspace.matrix.assign(chunks))
                self._report(workspace)
        if missing and workspace.matrix is not None:
            self._note_missing(workspace, chunks, workspace.matrix.assign(chunks))
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
        workspace: _Workspace,
        *,
        notice: str = "",
        is_over: bool = False,
    ) -> None:
        self._send(
            Report(
                workspace=workspace.refresh.workspace,
                pending=workspace.n_pending,
                total=workspace.n_total,
                embedder=self._embedder.name,
                loaded=self._find_loaded(workspace),
                fault=workspace.fault,
                is_useless=workspace.is_useless,
                notice=notice,
                is_over=is_over,
            )
        )

    def _find_loaded(self, workspace: _Workspace) -> int | None:
        """Return the opening whose chunks can be compared now, or None.

        Without chunks no vectors need to be in memory.
        """
        is_loaded = self._is_loaded and (workspace.matrix is not None or not workspace.n_total)
        return workspace.opening if is_loaded else None


def _prune(workspace: _Workspace, file: VectorFile, chunks: Sequence[ChunkDigest]) -> None:
    """Delete the vectors of texts that no note has any more."""
    gone = file.read_digests() - {digest for _, digest in chunks}
    if gone:
        file.drop(gone)
        if workspace.matrix is not None:
            workspace.matrix.drop(gone)


def _read_batch(index_path: str, chunks: Sequence[ChunkDigest]) -> list[tuple[bytes, str]]:
    """Return digests and texts of chunks; chunks that have changed meanwhile are omitted."""
    with _reading(index_path) as reader:
        embedded = read_embedded_texts(reader, [chunk for chunk, _ in chunks])
    return [embedded[chunk] for chunk, digest in chunks if embedded.get(chunk, (b"",))[0] == digest]


@contextlib.contextmanager
def _reading(index_path: str) -> Iterator[Reader]:
    """Yield a reader for a snapshot of index.db. A long snapshot would prevent WAL truncation."""
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
            f"the model returns vectors of {n} dimensions, and the vectors of the notes have"
            f" {matrix.dimensions}: make them again with `memsyncd semantic warm --again`"
        )


def _read_ids(data: bytes) -> ChunkIds:
    return np.frombuffer(data, np.int64)


# --- the process --------------------------------------------------------------------------------


def main() -> NoReturn:
    # The daemon sets the variables of BLAS: with `-m`, modules are already imported here.
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
    """Yield the requests until the daemon closes the pipe or has ended."""
    decoder = msgspec.msgpack.Decoder(Request)
    stdin = sys.stdin.buffer
    while len(head := stdin.read(LENGTH_BYTES)) == LENGTH_BYTES:
        n_bytes = int.from_bytes(head, "big")
        data = stdin.read(n_bytes)
        if len(data) < n_bytes:
            return
        yield decoder.decode(data)


def _take_stdout() -> SendReply:
    """Keep stdout for frames: output of a library must not come between them."""
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
    """Make this process end when the daemon ends, and before the daemon if memory runs out."""
    sys.setswitchinterval(SWITCH_S)
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_NAME, b"memsyncd-vector")
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    else:  # threads have no priority of their own on this system
        with contextlib.suppress(OSError):
            os.nice(10)
    if os.getppid() != parent_pid:
        os._exit(0)  # the daemon ended before this process asked for the signal
    gc.freeze()


if __name__ == "__main__":
    main()
