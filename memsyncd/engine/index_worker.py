"""Fill one index in a process of its own, so that the daemon goes on answering.

`python -m memsyncd.engine.index_worker ID` is started by `engine.index_process`. It reads a
FillRequest as JSON from stdin, writes the changes of one workspace's notes to one index file, and
prints a message a line: FillProgress several times a second, then Filled or FillFailed. While it
runs nothing else writes the file. It runs with low priority and ends with the daemon.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from memsyncd.config import Config
from memsyncd.engine.clock import Clock
from memsyncd.engine.sync import SyncDone, SyncRequest, sync_workspace
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Entry, Workspace, index_fingerprint
from memsyncd.errors import StoreFailed
from memsyncd.store.index import Counts, Index

PROGRESS_S = 0.1
# How long a step of merging should take: nobody waits for it.
MERGE_S = 0.5
# A tenth of a core beside other work, and less than the daemon gets: the last of nice values would
# let an index wait for hours on a machine that is never idle.
NICE = 10
# The system kills this process before the daemon if memory runs out.
OOM_SCORE = "500"
# In a first index few objects are cycles, and visiting all others takes a tenth of the time. The
# threshold is above the number of objects of a batch, which are freed by their references.
GC_THRESHOLD = 1_000_000
# From linux/prctl.h and linux/ioprio.h.
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_IOPRIO_WHO_PROCESS, _IOPRIO_IDLE = 1, 3 << 13


# --- messages -----------------------------------------------------------------------------------


class FillRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The index to fill. It is created with `generation` if it does not exist."""

    parent_pid: int
    index_path: str
    fingerprint: str
    generation: int
    entry: Entry
    config: Config


class FillProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """The present content of the index, and how many of all notes are still to be read."""

    pending: int
    total: int
    generation: int
    counts: Counts
    index_bytes: int


class Filled(msgspec.Struct, frozen=True, kw_only=True, tag="filled"):
    """The index has been filled and closed. The fields are named as in SyncDone."""

    duration_ms: float
    added: list[str]
    modified: list[str]
    moved: list[tuple[str, str]]
    n_upserted: int
    n_deleted: int


class FillFailed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The store has failed, with this code of `memsyncd.errors`; without one, the process has ended
    without a result, and `message` continues "the process".
    """

    code: str = ""
    message: str
    hint: str = ""


Message = FillProgress | Filled | FillFailed
Send = Callable[[Message], None]


# --- the process --------------------------------------------------------------------------------


def main() -> NoReturn:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=FillRequest)
    send = _take_stdout()
    _prepare(request.parent_pid)
    try:
        send(_fill(request, send))
    except BrokenPipeError:
        pass  # the daemon has ended
    except StoreFailed as failure:
        send(FillFailed(code=failure.code, message=failure.message, hint=failure.hint))
    except BaseException as failure:  # noqa: BLE001 - the daemon indexes by itself and reports it
        send(FillFailed(message=f"failed: {type(failure).__name__}"))
    # The interpreter's own end would visit all objects.
    os._exit(0)


def _take_stdout() -> Send:
    """Keep stdout for messages: the output of a library must not get between them."""
    pipe = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(message: Message) -> None:
        line = memoryview(msgspec.json.encode(message) + b"\n")
        while line:
            line = line[os.write(pipe, line) :]

    return send


def _prepare(parent_pid: int) -> None:
    """Let everything else go first, and end when the daemon ends: on Linux at once, by a signal;
    elsewhere with the next write to the closed pipe.
    """
    with contextlib.suppress(OSError, AttributeError):  # where there are policies
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    if sys.platform == "linux":
        _prepare_linux()
    if os.getppid() != parent_pid:
        os._exit(0)  # it ended before this process asked for the signal
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def _prepare_linux() -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(_PR_SET_NAME, b"memsyncd-index")
    if (number := _IOPRIO_SET.get(os.uname().machine)) is not None:
        libc.syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)


def _fill(request: FillRequest, send: Send) -> Filled | FillFailed:
    if index_fingerprint(request.config) != request.fingerprint:
        return FillFailed(message="failed: another version of memsyncd has been installed")
    path = Path(request.index_path)
    workspace = Workspace(request.entry, request.config, index_path=path, records_path=path)
    clock = Clock(now_s=time.monotonic, wall_ns=time.time_ns)
    generation = request.generation
    workspace.index = index = Index(
        path,
        request.fingerprint,
        kinds=request.config.kinds,
        generation=generation,
        is_sound=True,
        is_filling=True,
    )
    try:
        # A note that vanishes is left to the daemon, which knows since when.
        job = sync_workspace(workspace, request.config, clock, SyncRequest(grace_s=float("inf")))
        done = _run(job, workspace, index, send)
        while index.tidy(MERGE_S):
            _report(workspace, index, send)
        index.index_rows()
    finally:
        index.close()
    return msgspec.convert(done, Filled, from_attributes=True)


def _run(job: Job[SyncDone], workspace: Workspace, index: Index, send: Send) -> SyncDone:
    reported_s = 0.0
    while True:
        try:
            next(job)
        except StopIteration as end:
            done: SyncDone = end.value
            return done
        if time.monotonic() - reported_s >= PROGRESS_S:
            _report(workspace, index, send)
            reported_s = time.monotonic()


def _report(workspace: Workspace, index: Index, send: Send) -> None:
    send(
        FillProgress(
            pending=workspace.condition.pending,
            total=workspace.condition.n_to_sync,
            generation=index.generation,
            counts=index.counts,
            index_bytes=index.size_bytes(),
        )
    )


if __name__ == "__main__":
    main()
