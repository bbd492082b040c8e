"""Which answer does each message of a client get, and when? One each, at once if the method has its result at once.

What takes longer runs as a task, at most so many for all clients together. Whatever a method raises ends that one request.
Lines and bytes are left to `connection`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from memsyncd.core.fairqueue import Flow
from memsyncd.errors import ShuttingDown, TooLarge
from memsyncd.protocol.jsonrpc import (
    Call,
    ErrorBody,
    Fault,
    Id,
    MessageParser,
    describe_error,
    encode_batch,
    encode_error,
    encode_result,
)
from memsyncd.server.counts import ABANDONED, NO_METHOD, Answered, Counts
from memsyncd.server.limits import Backlog, Job, Limits, Turns
from memsyncd.server.session import Dispatch, RequestOrigin, Session, current_request


@dataclass(slots=True, kw_only=True)
class Service:
    """What all connections share."""

    dispatch: Dispatch
    limits: Limits
    counts: Counts
    parser: MessageParser
    turns: Turns
    backlog: Backlog
    loop: asyncio.AbstractEventLoop
    on_answer: Callable[[Answered], None]
    on_error: Callable[[Exception, str], None]
    on_drop: Callable[[str], None]
    on_held: Callable[[], None]
    """Called when a client holds much, to see what all of them do."""
    waiting_methods: frozenset[str]
    tasks: set[asyncio.Future[Any]] = field(default_factory=set)
    is_stopping: bool = False


class _Request(NamedTuple):
    """What is kept of a message until it is answered."""

    id: Id | UnsetType
    method: str
    collector: Collector | None
    arrived_s: float


class Collector:
    """Gathers the answers to one batch, which leave as one line."""

    __slots__ = ("_answers", "_n_left", "n_bytes")

    def __init__(self, n_messages: int) -> None:
        self._n_left = n_messages
        self._answers: list[bytes] = []
        self.n_bytes = 0

    def add(self, answer: bytes | None) -> bytes | None:
        """Take one answer, or None for a notification; give the whole line once there is nothing left to wait for."""
        self._n_left -= 1
        if answer is not None:
            self._answers.append(answer)
            self.n_bytes += len(answer)
        return encode_batch(self._answers) if self._answers and not self._n_left else None


class Answers:
    """The requests of one client and their answers.

    `send` takes the lines in the order in which they are ready; `on_done` hears of each task that has ended, after its line.
    """

    __slots__ = ("_flow", "_on_done", "_send", "_service", "_session", "_tasks")

    def __init__(self, service: Service, session: Session, *, send: Callable[[bytes], None], on_done: Callable[[], None]) -> None:
        self._service = service
        self._session = session
        self._send = send
        self._on_done = on_done
        self._tasks: set[asyncio.Future[Any]] = set()
        self._flow: Flow[Job] = Flow()

    def take(self, message: Call | Fault, collector: Collector | None = None, *, arrived_s: float) -> None:
        """Carry out one message that arrived then, or begin to."""
        service = self._service
        service.counts.requests += 1
        method = message.method or NO_METHOD
        request = _Request(message.id, method, collector, arrived_s)
        if isinstance(message, Fault):
            self._refuse(request, message.error)
        elif service.is_stopping:
            self._fail(request, ShuttingDown("the daemon is stopping", hint="try again in a moment"))
        else:
            token = current_request.set(RequestOrigin(self._session, arrived_s))
            try:
                outcome = service.dispatch(self._session, method, message.params)
            except Exception as error:  # noqa: BLE001 - one request's failure ends one request
                self._fail(request, error)
            else:
                self._settle(request, outcome)
            finally:
                current_request.reset(token)

    def forget(self) -> None:
        """The client is gone: nobody waits for an answer. Notifications already running were meant to be done, and go on."""
        self._service.turns.forget(self._flow)
        for task in tuple(self._tasks):
            task.cancel()

    # --- what takes a while

    def _settle(self, request: _Request, outcome: object) -> None:
        if isinstance(outcome, msgspec.Struct):
            self._succeed(request, outcome)
        elif inspect.isawaitable(outcome):
            self._start(request, outcome)
        else:
            self._fail(request, TypeError(f"{request.method} gave neither a result nor something to await"))

    def _start(self, request: _Request, outcome: Any) -> None:
        self._session.n_pending += 1
        service = self._service
        if request.method in service.waiting_methods:
            self._run(request, outcome, None)
        else:
            job = Job(partial(self._run, request, outcome), partial(self._drop_waiting, request, outcome))
            service.turns.submit(self._flow, job)

    def _drop_waiting(self, request: _Request, outcome: Any) -> None:
        _discard(outcome)
        self._session.n_pending -= 1
        if self._session.is_open:
            self._fail(request, ShuttingDown("the daemon is stopping", hint="try again in a moment"))
            self._on_done()
        else:
            self._end(request, ABANDONED)

    def _run(self, request: _Request, outcome: Any, release: Callable[[], None] | None) -> None:
        # What another request's end has started runs in the context of that one until here.
        token = current_request.set(RequestOrigin(self._session, request.arrived_s))
        task = asyncio.ensure_future(outcome)
        current_request.reset(token)
        self._service.tasks.add(task)
        if request.id is not UNSET:
            self._tasks.add(task)
        task.add_done_callback(partial(self._finish, request, release))

    def _finish(self, request: _Request, release: Callable[[], None] | None, task: asyncio.Future[Any]) -> None:
        self._service.tasks.discard(task)
        self._tasks.discard(task)
        self._session.n_pending -= 1
        if release is not None:
            release()
        error = self._find_failure(request.method, task)
        if error is None:
            self._succeed(request, task.result())
        elif self._session.is_open or not task.cancelled():
            self._fail(request, error)
        else:
            self._end(request, ABANDONED)
        self._on_done()

    def _find_failure(self, method: str, task: asyncio.Future[Any]) -> Exception | None:
        if task.cancelled():
            if self._service.is_stopping:
                return ShuttingDown("the daemon stopped before this was done", hint="try again in a moment")
            return RuntimeError(f"{method} was cancelled")
        error = task.exception()
        return error if error is None or isinstance(error, Exception) else RuntimeError(type(error).__name__)

    # --- answers

    def _succeed(self, request: _Request, result: msgspec.Struct) -> None:
        if isinstance(request.id, UnsetType):
            self._reply(request, None)
            self._end(request, "")
            return
        try:
            answer = encode_result(request.id, result)
        except Exception as error:  # noqa: BLE001 - a result that cannot be written fails its own request alone
            self._fail(request, error)
            return
        limit, collector = self._service.limits.max_reply_bytes, request.collector
        if len(answer) + (collector.n_bytes if collector else 0) > limit:
            hint = "ask for less: a smaller limit, one folder, fewer lines"
            self._fail(request, TooLarge(f"the answer would be over {limit} bytes", hint=hint))
        else:
            self._reply(request, answer)
            self._end(request, "")

    def _fail(self, request: _Request, error: Exception) -> None:
        body = describe_error(error)
        self._refuse(request, body, error if body.data["code"] == "internal" else None)

    def _refuse(self, request: _Request, body: ErrorBody, error: Exception | None = None) -> None:
        self._reply(request, None if isinstance(request.id, UnsetType) else encode_error(request.id, body))
        self._end(request, str(body.data["code"]), error)

    def _reply(self, request: _Request, answer: bytes | None) -> None:
        if request.collector is not None:
            answer = request.collector.add(answer)
        if answer is not None:
            self._send(answer)

    def _end(self, request: _Request, code: str, error: Exception | None = None) -> None:
        """Each request comes here once: it is counted, and whoever wants to know is told."""
        service = self._service
        answered = Answered(self._session, request.method, service.loop.time() - request.arrived_s, code, error)
        service.counts.note(answered)
        service.on_answer(answered)


def _discard(outcome: Any) -> None:
    """Let go of what was never started, without a complaint that it was never awaited."""
    if inspect.iscoroutine(outcome):
        outcome.close()
    elif isinstance(outcome, asyncio.Future):
        outcome.cancel()
