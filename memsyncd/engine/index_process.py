"""Have an index filled by another process, and follow it: the daemon's side of `index_worker`.

In the daemon this work would share the interpreter's lock with the event loop, and leave freed
memory behind that the system does not get back.

One process runs at a time, like the daemon, which would index one workspace after another. A thread
for each starts it, reads its messages and waits for its end, so that none is left behind. A process
that sends nothing for long loses its turn to other workspaces, then it is killed. A process that
dies is started once more and goes on from the last commit; after a second death the daemon indexes
by itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import msgspec
from msgspec.structs import replace

import memsyncd
from memsyncd.config import Config
from memsyncd.engine.clock import read_busy_s
from memsyncd.engine.index_worker import Filled, FillFailed, FillProgress, FillRequest, Message
from memsyncd.engine.worker import Job, Pause
from memsyncd.engine.workspace import Workspace, index_fingerprint, make_removed_error
from memsyncd.errors import IndexUnfit, StoreCorrupt, StoreFailed, StoreFull
from memsyncd.logs import Event, get_log

# Starting the process takes as long as indexing some hundred kilobytes here.
BULK_BYTES = 2 * 1024 * 1024
# Silence after which other workspaces need not wait for it, and after which it is killed.
SILENT_S, KILL_AFTER_S = 10.0, 30.0
STARTS = 2
END_S = 0.5
READ_BYTES = 65_536

log = get_log("engine")

_FAILURES: dict[str, type[StoreFailed]] = {
    failure.code: failure for failure in (StoreFailed, StoreCorrupt, IndexUnfit, StoreFull)
}
_BLOCKED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PIDS: set[int] = set()


def running_pids() -> list[int]:
    """The processes that fill an index now."""
    return list(_PIDS)


class IndexProcess:
    """One process that fills an index. `on_progress` is called on its thread."""

    def __init__(self, request: FillRequest, on_progress: Callable[[FillProgress], None]) -> None:
        self.ended: Future[Filled | FillFailed] = Future()
        self._request = request
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._progress_s = time.monotonic()
        self._busy_s = 0.0
        self._has_turn = self._is_killed = False
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, name="memsyncd-fill", daemon=True)
        self._thread.start()

    def pause(self) -> Pause:
        """Return the pause that a job yields to wait for the end."""
        return Pause(self.ended, self._read_progress_s)

    def cancel(self) -> None:
        """Kill the process, if it runs; from any thread."""
        with self._lock:
            self._is_cancelled = True
            if self._process is not None:
                self._process.kill()
        _TURNS.wake()

    def _read_progress_s(self) -> float:
        """Return the time of the last progress; later by the time for which the process has run
        since, or has waited for a processor, because it has the lowest priority.
        """
        now_s, process = time.monotonic(), self._process
        if process is None:
            return now_s
        busy_s = max(0.0, read_busy_s(process.pid) - self._busy_s)
        return min(self._progress_s + busy_s, now_s)

    # --- on the thread ---

    def _run(self) -> None:
        # The process inherits this: a signal to all processes of the terminal or of the service
        # reaches the daemon, too, which ends this one once it stops.
        signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED_SIGNALS)
        outcome: Filled | FillFailed = FillFailed(message="was cancelled")
        self._has_turn = _TURNS.take(lambda: self._is_cancelled)
        try:
            if self._has_turn:
                outcome = self._start()
        except OSError as error:
            outcome = FillFailed(message=f"could not be started: {error.strerror}")
        finally:
            self._give_back_turn()
            self.ended.set_result(outcome)

    def _start(self) -> Filled | FillFailed:
        with self._lock:
            if self._is_cancelled:
                return FillFailed(message="was cancelled")
            process = self._process = _start_process(self._request)
            self._note_progress(process)
        _PIDS.add(process.pid)
        with process:
            last = self._listen(process)
        _PIDS.discard(process.pid)
        return last or FillFailed(message=self._describe_end(process.returncode))

    def _listen(self, process: subprocess.Popen[bytes]) -> Filled | FillFailed | None:
        """Read messages until the process ends; return its last one, if that is a result."""
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both are pipes")
        with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(msgspec.json.encode(self._request))
        last: Message | None = None
        lines, fd = bytearray(), process.stdout.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while True:
            if not poll.poll(self._left_ms()):
                if self._left_ms() == 0.0:
                    self._note_silence(process)
            elif data := os.read(fd, READ_BYTES):
                lines += data
                *whole, rest = lines.split(b"\n")
                lines = rest
                try:
                    last = [self._accept(bytes(line)) for line in whole][-1] if whole else last
                except msgspec.DecodeError:  # another version was installed meanwhile
                    process.kill()
            else:
                return None if isinstance(last, FillProgress) else last

    def _accept(self, line: bytes) -> Message:
        message: Message = msgspec.json.decode(line, type=Message)
        if self._process is not None:
            self._note_progress(self._process)
        if isinstance(message, FillProgress):
            self._on_progress(message)
        return message

    def _note_progress(self, process: subprocess.Popen[bytes]) -> None:
        self._progress_s = time.monotonic()
        self._busy_s = read_busy_s(process.pid)

    def _left_ms(self) -> float | None:
        if self._is_killed:
            return None  # a process that waits for a disk ends once that answers
        limit_s = SILENT_S if self._has_turn else KILL_AFTER_S
        return max(0.0, self._read_progress_s() + limit_s - time.monotonic()) * 1000

    def _note_silence(self, process: subprocess.Popen[bytes]) -> None:
        if self._has_turn:
            self._give_back_turn()
        else:
            self._is_killed = True
            process.kill()

    def _give_back_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            _TURNS.give_back()

    def _describe_end(self, status: int) -> str:
        if self._is_killed:
            return f"made no progress for {KILL_AFTER_S:.0f} s and was killed"
        return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _start_process(request: FillRequest) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "memsyncd.engine.index_worker", request.entry.id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # `-m` searches the current folder first: it must be this package, and no workspace.
        cwd=Path(memsyncd.__file__).resolve().parents[1],
    )


class _Turns:
    """Lets one process run at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_taken = False

    def take(self, is_cancelled: Callable[[], bool]) -> bool:
        """Wait for the turn. False if the waiting was cancelled."""
        with self._changed:
            self._changed.wait_for(lambda: is_cancelled() or not self._is_taken)
            if is_cancelled():
                return False
            self._is_taken = True
            return True

    def give_back(self) -> None:
        with self._changed:
            self._is_taken = False
            self._changed.notify_all()

    def wake(self) -> None:
        """Let those that wait see that they were cancelled."""
        with self._changed:
            self._changed.notify_all()


_TURNS = _Turns()


# --- a job --------------------------------------------------------------------------------------


def fill_index(
    workspace: Workspace,
    config: Config,
    path: Path,
    on_progress: Callable[[FillProgress], None],
    *,
    generation: int,
) -> Job[Filled | None]:
    """Have the index at `path`, which nobody else may write meanwhile, filled by a process.

    Returns None if that is not possible: the caller indexes by itself. Raises what the store raised
    there, and WorkspaceNotFound if the workspace is removed meanwhile.
    """
    request = FillRequest(
        parent_pid=os.getpid(),
        index_path=str(path),
        fingerprint=index_fingerprint(config),
        generation=generation,
        entry=workspace.entry,
        config=replace(config, workspace=()),
    )
    for number in range(1, STARTS + 1):
        if workspace.is_closing:
            raise make_removed_error()
        outcome = yield from _run_once(workspace, request, on_progress)
        if isinstance(outcome, Filled):
            return outcome
        if workspace.is_closing:
            raise make_removed_error()
        if outcome.code:
            raise _FAILURES[outcome.code](outcome.message, hint=outcome.hint)
        then = "it is started again" if number < STARTS else "the daemon indexes by itself"
        log.warning(
            Event.INDEX_WORKER_FAILED,
            workspace=workspace.id,
            reason=f"the process that indexes {outcome.message}; {then}",
        )
    return None


def _run_once(
    workspace: Workspace, request: FillRequest, on_progress: Callable[[FillProgress], None]
) -> Job[Filled | FillFailed]:
    def report(progress: FillProgress) -> None:
        workspace.change(
            n_to_fill=progress.pending, n_to_sync=progress.total, progressed_s=time.monotonic()
        )
        on_progress(progress)

    process = IndexProcess(request, report)
    workspace.cancel_filling = process.cancel
    try:
        yield process.pause()
        return process.ended.result(0)
    finally:
        # Also if the daemon stops: the process must not outlive the job.
        process.cancel()
        with contextlib.suppress(TimeoutError):
            process.ended.result(END_S)
        workspace.cancel_filling = None
        workspace.change(n_to_fill=0, n_to_sync=0)
