"""Carries out the requests of clients: limits, fair order, answers, counters, log lines.

Each request gets one answer. If the method has the result at once, the answer is sent at once;
otherwise the request runs as a task. The number of tasks is limited, and clients take turns. An
exception ends its own request only. `server` reads and writes the lines.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from memsyncd.core.turns import FairQueue, Flow, Started
from memsyncd.errors import (
    AlreadyExists,
    AmbiguousWorkspace,
    Conflict,
    EditRefused,
    NoteNotFound,
    NotFound,
    ShuttingDown,
    WorkspaceNotFound,
    make_reply_error,
)
from memsyncd.logs import Event, get_log, is_debugging
from memsyncd.operations.agents.declare import AgentAnswer
from memsyncd.operations.daemon import ServerCounters
from memsyncd.operations.fields import Written
from memsyncd.protocol.jsonrpc import (
    ErrorBody,
    Fault,
    Id,
    MessageParser,
    RpcRequest,
    describe_error,
    encode_error,
    encode_result,
)
from memsyncd.server.session import Dispatch, Limits, RequestOrigin, Session, current_request
from memsyncd.store.connection import find_shortage, short_read

if TYPE_CHECKING:
    from memsyncd.server.hooks import HookSessions

ROUND_S = 0.004
"""How long the event loop works on lines that it has read before it reads new lines."""
NO_METHOD = "invalid"
"""Invalid requests are counted as this method."""
ABANDONED = "client_gone"
"""The code of a request whose client left before the answer."""
CANCELLED = "cancelled"
"""The code of a request that its client cancelled."""


# --- limits and order ---


class QueuedRequest(msgspec.Struct, frozen=True):
    """A request that waits to run. Either `start` or `drop` is called, once.

    `start` gets a callback that it must call when the request is done.
    """

    start: Callable[[Callable[[], None]], None]
    drop: Callable[[], None]


class RequestQueue:
    """Starts requests in the order of a fair queue, at most `max_running` at once."""

    __slots__ = ("_queue",)

    def __init__(self, max_running: int) -> None:
        self._queue: FairQueue[QueuedRequest] = FairQueue(max_running, n_slow_slots=max_running)

    @property
    def n_running(self) -> int:
        return self._queue.n_running

    @property
    def n_waiting(self) -> int:
        return self._queue.n_waiting

    def submit(self, flow: Flow[QueuedRequest], request: QueuedRequest) -> None:
        """Start the request now, or later when a slot is free."""
        self._queue.push(flow, request)
        self._start_waiting()

    def remove(self, flow: Flow[QueuedRequest], request: QueuedRequest) -> None:
        """Drop one waiting request."""
        if self._queue.remove(flow, request):
            request.drop()

    def clear(self, flow: Flow[QueuedRequest]) -> None:
        """Drop the waiting requests of one client."""
        for request in self._queue.clear(flow):
            request.drop()

    def clear_all(self) -> None:
        for request in self._queue.clear_all():
            request.drop()

    def _start_waiting(self) -> None:
        for started in iter(self._queue.start_next, None):
            started.job.start(partial(self._finish, started))

    def _finish(self, started: Started[QueuedRequest]) -> None:
        self._queue.finish(started)
        self._start_waiting()


class HasLines(Protocol):
    """A connection with lines to process."""

    def process_lines(self) -> None: ...


class LineScheduler:
    """Processes the lines that were read, one connection after the other (round-robin).

    Between rounds the event loop reads new bytes, so a client that sends one line does not wait for
    the thousands of lines of other clients.
    """

    __slots__ = ("_is_scheduled", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[HasLines, None] = {}
        self._is_scheduled = False

    def add(self, connection: HasLines) -> None:
        """Queue the connection behind the others; a connection in the queue keeps its place."""
        self._waiting.setdefault(connection)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_round)

    def _run_round(self) -> None:
        self._is_scheduled = False
        until_s = self._loop.time() + ROUND_S
        while self._waiting and self._loop.time() < until_s:
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            connection.process_lines()
        self._schedule()


# --- counters ---


class CompletedRequest(NamedTuple):
    """How one request ended.

    `took_s` counts from its arrival. `code` is the code of its error, empty for a result. `error`
    is set for an internal error only.
    """

    session: Session
    method: str
    took_s: float
    code: str
    error: Exception | None = None


# --- dispatch ---


class ServerContext(msgspec.Struct, kw_only=True):
    """Values and callbacks that all connections of a server share."""

    dispatch: Dispatch
    limits: Limits
    counters: ServerCounters
    parser: MessageParser
    queue: RequestQueue
    lines: LineScheduler
    loop: asyncio.AbstractEventLoop
    on_answer: Callable[[CompletedRequest], None]
    after_methods: Mapping[str, Callable[[], None]]
    """Functions to call after each request, by its method."""
    on_error: Callable[[Exception, str], None]
    on_drop: Callable[[str], None]
    on_large_buffer: Callable[[], None]
    """Called when the buffers of one client are large: the buffers of all clients are checked."""
    waiting_methods: frozenset[str]
    marks_instructions: Callable[[], bool]
    """Whether a note's text is marked for agents if it tries to instruct its reader."""
    is_watching: Callable[[], bool]
    """Whether events tell of saves, so that a question need not scan the disk."""
    note_answer: Callable[[str, AgentAnswer], None]
    """Notes an answer to an agent in the workspace with this id."""
    hook_sessions: HookSessions | None = None
    """What the hooks of clients have shown; None until the first connection of MCP."""
    tasks: set[asyncio.Future[Any]] = msgspec.field(default_factory=set)
    is_stopping: bool = False


class _Request(NamedTuple):
    """The parts of a message that its answer needs."""

    id: Id | UnsetType
    method: str
    batch: BatchReply | None
    arrived_s: float


class BatchReply:
    """Collects the answers to several messages; after the last one `on_answers` gets all of them.

    Notifications have no answer, so the list may be shorter than `n_messages`, or empty.
    """

    __slots__ = ("_answers", "_n_left", "_on_answers", "n_bytes")

    def __init__(self, n_messages: int, on_answers: Callable[[list[bytes]], None]) -> None:
        self._n_left = n_messages
        self._on_answers = on_answers
        self._answers: list[bytes] = []
        self.n_bytes = 0

    def add(self, answer: bytes | None) -> None:
        """Add the answer to one message; None for a notification."""
        self._n_left -= 1
        if answer is not None:
            self._answers.append(answer)
            self.n_bytes += len(answer)
        if not self._n_left:
            self._on_answers(self._answers)


class RequestDispatcher:
    """Carries out the requests of one client.

    `send` gets each answer when it is ready. `on_done` is called after the answer of each request
    that ran as a task.
    """

    __slots__ = (
        "_cancelled",
        "_context",
        "_flow",
        "_on_done",
        "_queued",
        "_send",
        "_session",
        "_tasks",
        "carry_out",
    )

    def __init__(
        self,
        context: ServerContext,
        session: Session,
        *,
        send: Callable[[bytes], None],
        on_done: Callable[[], None],
    ) -> None:
        self._context = context
        self._session = session
        self._send = send
        self._on_done = on_done
        self._tasks: dict[asyncio.Future[Any], _Request] = {}
        # The key is the identity of the request, because a client may use an id twice.
        self._queued: dict[int, tuple[_Request, QueuedRequest]] = {}
        self._cancelled: set[asyncio.Future[Any]] = set()
        self._flow: Flow[QueuedRequest] = Flow()
        self.carry_out = context.dispatch
        """Carries out the methods. Another protocol on the connection replaces it."""

    def dispatch(
        self, message: RpcRequest | Fault, batch: BatchReply | None = None, *, arrived_s: float
    ) -> None:
        """Carry out one message, or start a task for it. `arrived_s` is its arrival in seconds of
        the loop's clock.
        """
        context = self._context
        context.counters.requests += 1
        method = message.method or NO_METHOD
        request = _Request(message.id, method, batch, arrived_s)
        if isinstance(message, Fault):
            self._send_error(request, message.error)
        elif context.is_stopping:
            self._fail(request, _shutting_down())
        else:
            token = current_request.set(RequestOrigin(self._session, arrived_s))
            try:
                outcome = self.carry_out(self._session, method, message.params)
            except Exception as error:  # noqa: BLE001 - a failure ends its own request only
                self._fail(request, error)
            else:
                self._handle_outcome(request, outcome)
            finally:
                current_request.reset(token)

    def close(self) -> None:
        """End the session of a client that is gone, and cancel its requests.

        Running notifications go on, because the client expects no answer to them.
        """
        callbacks = self._session.close()
        self._context.queue.clear(self._flow)
        for task in tuple(self._tasks):
            task.cancel()
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the other callbacks must be called, too
                self._context.on_error(error, "close")

    def cancel_request(self, request_id: Id) -> bool:
        """Cancel a request that waits or runs, so that it gets no answer. False if there is
        none.
        """
        for key, (request, queued) in self._queued.items():
            if request.id == request_id:
                del self._queued[key]
                self._context.queue.remove(self._flow, queued)
                return True
        for task, request in self._tasks.items():
            if request.id == request_id:
                self._cancelled.add(task)
                task.cancel()
                return True
        return False

    # --- tasks

    def _handle_outcome(self, request: _Request, outcome: object) -> None:
        if isinstance(outcome, msgspec.Struct):
            self._succeed(request, outcome)
        elif inspect.isawaitable(outcome):
            self._submit(request, outcome)
        else:
            self._fail(
                request, TypeError(f"{request.method} returned neither a result nor an awaitable")
            )

    def _submit(self, request: _Request, outcome: Any) -> None:
        self._session.n_pending += 1
        if request.method in self._context.waiting_methods:
            self._run(request, outcome, None)
        else:
            queued = QueuedRequest(
                partial(self._start, request, outcome), partial(self._drop, request, outcome)
            )
            if request.id is not UNSET:
                self._queued[id(request)] = request, queued
            self._context.queue.submit(self._flow, queued)

    def _start(self, request: _Request, outcome: Any, release: Callable[[], None]) -> None:
        self._queued.pop(id(request), None)
        self._run(request, outcome, release)

    def _drop(self, request: _Request, outcome: Any) -> None:
        _discard(outcome)
        self._session.n_pending -= 1
        is_cancelled = self._queued.pop(id(request), None) is None and request.id is not UNSET
        if is_cancelled:
            self._send_answer(request, None)
            self._complete(request, CANCELLED)
            self._on_done()
        elif self._session.is_open:
            self._fail(request, _shutting_down())
            self._on_done()
        else:
            self._complete(request, ABANDONED)

    def _run(self, request: _Request, outcome: Any, release: Callable[[], None] | None) -> None:
        # If the end of another request starts this request, the other one's context is still
        # current.
        token = current_request.set(RequestOrigin(self._session, request.arrived_s))
        task = asyncio.ensure_future(outcome)
        current_request.reset(token)
        self._context.tasks.add(task)
        if request.id is not UNSET:
            self._tasks[task] = request
        task.add_done_callback(partial(self._finish, request, release))

    @short_read()
    def _finish(
        self,
        request: _Request,
        release: Callable[[], None] | None,
        task: asyncio.Future[Any],
    ) -> None:
        self._context.tasks.discard(task)
        self._tasks.pop(task, None)
        self._session.n_pending -= 1
        if release is not None:
            release()
        is_cancelled = task in self._cancelled
        self._cancelled.discard(task)
        error = self._find_error(request.method, task)
        if is_cancelled:
            self._send_answer(request, None)
            self._complete(request, CANCELLED)
        elif error is None:
            self._succeed(request, task.result())
        elif self._session.is_open or not task.cancelled():
            self._fail(request, error)
        else:
            self._complete(request, ABANDONED)
        self._on_done()

    def _find_error(self, method: str, task: asyncio.Future[Any]) -> Exception | None:
        if task.cancelled():
            if self._context.is_stopping:
                message = "the daemon stopped before the request was done"
                return ShuttingDown(message, hint="try again in a moment")
            return RuntimeError(f"{method} was cancelled")
        error = task.exception()
        if error is None or isinstance(error, Exception):
            return error
        return RuntimeError(type(error).__name__)

    # --- answers

    def _succeed(self, request: _Request, result: msgspec.Struct) -> None:
        if isinstance(request.id, UnsetType):
            self._send_answer(request, None)
            self._complete(request, "")
            return
        try:
            answer = encode_result(request.id, result)
        except Exception as error:  # noqa: BLE001 - a failure ends its own request only
            self._fail(request, error)
            return
        limit = self._context.limits.max_reply_bytes
        is_too_large = len(answer) + (request.batch.n_bytes if request.batch else 0) > limit
        # The answer to a write that was done is never an error.
        if is_too_large and not (isinstance(result, Written) and result.change_set is not None):
            self._fail(request, make_reply_error(limit))
        else:
            self._send_answer(request, answer)
            self._complete(request, "")

    def _fail(self, request: _Request, error: Exception) -> None:
        if isinstance(error, OSError):
            error = find_shortage(error) or error
        body = describe_error(error)
        self._send_error(request, body, error if body.data["code"] == "internal" else None)

    def _send_error(
        self, request: _Request, body: ErrorBody, error: Exception | None = None
    ) -> None:
        if isinstance(request.id, UnsetType):
            self._send_answer(request, None)
        else:
            self._send_answer(request, encode_error(request.id, body))
        self._complete(request, str(body.data["code"]), error)

    def _send_answer(self, request: _Request, answer: bytes | None) -> None:
        if request.batch is not None:
            request.batch.add(answer)
        elif answer is not None:
            self._send(answer)

    def _complete(self, request: _Request, code: str, error: Exception | None = None) -> None:
        """Count and report a request that has ended; called once for each request."""
        context = self._context
        took_s = context.loop.time() - request.arrived_s
        completed = CompletedRequest(self._session, request.method, took_s, code, error)
        context.counters.add(
            completed.method,
            completed.took_s,
            completed.code,
            is_abandoned=completed.code in (ABANDONED, CANCELLED),
        )
        context.on_answer(completed)
        if (call := context.after_methods.get(request.method)) is not None:
            call()


def _shutting_down() -> ShuttingDown:
    return ShuttingDown("the daemon is stopping", hint="try again in a moment")


def _discard(outcome: Any) -> None:
    # Python warns of a coroutine that is never awaited.
    if inspect.iscoroutine(outcome):
        outcome.close()
    elif isinstance(outcome, asyncio.Future):
        outcome.cancel()


# --- log lines ---

MAX_WARNINGS = 60
MAX_CLIENT_WARNINGS = 10
"""Warnings a minute of refused clients, and of dropped clients. `metrics` counts all of them."""
WINDOW_S = 60.0
ORDINARY_CODES = frozenset(
    error.code
    for error in (
        NotFound,
        WorkspaceNotFound,
        AmbiguousWorkspace,
        NoteNotFound,
        Conflict,
        AlreadyExists,
        EditRefused,
    )
) | {ABANDONED, CANCELLED}

log = get_log("server")


class WarningLimit:
    """Writes at most `most` warnings a minute. The next warning says how many were omitted."""

    def __init__(self, now_s: Callable[[], float], most: int = MAX_WARNINGS) -> None:
        self._now_s = now_s
        self._most = most
        self._window_from_s = float("-inf")
        self._n_warnings = 0
        self._n_omitted = 0

    def warn(self, event: Event, **values: object) -> None:
        if not self._may_warn():
            self._n_omitted += 1
            return
        omitted, self._n_omitted = {"omitted": self._n_omitted} if self._n_omitted else {}, 0
        log.warning(event, **values, **omitted)

    def _may_warn(self) -> bool:
        now_s = self._now_s()
        if now_s - self._window_from_s >= WINDOW_S:
            self._window_from_s, self._n_warnings = now_s, 0
        self._n_warnings += 1
        return self._n_warnings <= self._most


class RequestLog:
    """Writes one log line for each completed request: method, client, duration and error code,
    never the content. `now_s` is a monotonic clock.

    Results are logged at `debug`. Some errors are ordinary answers, such as a note that does not
    exist or has changed since the writer read it; they are logged at `debug`, too. Other errors are
    warnings, at most `MAX_WARNINGS` a minute, so that a client that always fails does not fill the
    disk. An internal error is always logged, with its traceback.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._limit = WarningLimit(now_s)

    def add(self, request: CompletedRequest) -> None:
        if request.error is not None:
            reason = type(request.error).__name__
            log.error(
                Event.REQUEST_FAILED, **_fields(request), reason=reason, exc_info=request.error
            )
        elif not request.code or request.code in ORDINARY_CODES:
            if is_debugging():
                log.debug(Event.REQUEST_DONE, **_fields(request))
        else:
            self._limit.warn(Event.REQUEST_FAILED, **_fields(request))


def make_client_log(event: Event, now_s: Callable[[], float]) -> Callable[[str], None]:
    """Make a function that logs `event` for a client with a reason, at a limited rate."""
    limit = WarningLimit(now_s, MAX_CLIENT_WARNINGS)
    return lambda reason: limit.warn(event, reason=reason)


def _fields(request: CompletedRequest) -> dict[str, object]:
    return {
        "method": request.method,
        "client": request.session.name,
        "duration_ms": round(request.took_s * 1000, 1),
        **({"code": request.code} if request.code else {}),
    }
