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
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from memsyncd.errors import ShuttingDown, TooLarge
from memsyncd.server.limits import Counts, Job, Limits, Turns
from memsyncd.server.session import Dispatch, Session
from memsyncd.wire.messages import (
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


@dataclass(slots=True, kw_only=True)
class Service:
    """What all connections share."""

    dispatch: Dispatch
    limits: Limits
    counts: Counts
    parser: MessageParser
    turns: Turns
    loop: asyncio.AbstractEventLoop
    on_error: Callable[[Exception, str], None]
    on_drop: Callable[[str], None]
    waiting_methods: frozenset[str]
    tasks: set[asyncio.Future[Any]] = field(default_factory=set)
    is_stopping: bool = False


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

    __slots__ = ("_on_done", "_send", "_service", "_session", "_tasks", "n_pending")

    def __init__(self, service: Service, session: Session, *, send: Callable[[bytes], None], on_done: Callable[[], None]) -> None:
        self._service = service
        self._session = session
        self._send = send
        self._on_done = on_done
        self._tasks: set[asyncio.Future[Any]] = set()
        self.n_pending = 0
        """Requests that wait or run."""

    def take(self, message: Call | Fault, collector: Collector | None = None) -> None:
        """Carry out one message, or begin to."""
        service = self._service
        service.counts.requests += 1
        if isinstance(message, Fault):
            self._refuse(message.id, message.error, collector)
        elif service.is_stopping:
            self._fail(message, ShuttingDown("the daemon is stopping", hint="try again in a moment"), collector)
        else:
            try:
                outcome = service.dispatch(self._session, message.method, message.params)
            except Exception as error:  # noqa: BLE001 - one request's failure ends one request
                self._fail(message, error, collector)
            else:
                self._settle(message, outcome, collector)

    def forget(self) -> None:
        """The client is gone: nobody waits for an answer. Notifications already running were meant to be done, and go on."""
        self._service.turns.forget(self)
        for task in tuple(self._tasks):
            task.cancel()

    # --- what takes a while

    def _settle(self, call: Call, outcome: object, collector: Collector | None) -> None:
        if isinstance(outcome, msgspec.Struct):
            self._succeed(call, outcome, collector)
        elif inspect.isawaitable(outcome):
            self._start(call, outcome, collector)
        else:
            self._fail(call, TypeError(f"{call.method} gave neither a result nor something to await"), collector)

    def _start(self, call: Call, outcome: Any, collector: Collector | None) -> None:
        self.n_pending += 1
        service = self._service
        if call.method in service.waiting_methods:
            self._run(call, outcome, collector, None)
        else:
            run = partial(self._run, call, outcome, collector, service.turns.release)
            service.turns.submit(self, Job(run, partial(self._drop_waiting, call, outcome, collector)))

    def _drop_waiting(self, call: Call, outcome: Any, collector: Collector | None) -> None:
        _discard(outcome)
        self.n_pending -= 1
        if self._session.is_open:
            self._fail(call, ShuttingDown("the daemon is stopping", hint="try again in a moment"), collector)
            self._on_done()

    def _run(self, call: Call, outcome: Any, collector: Collector | None, release: Callable[[], None] | None) -> None:
        task = asyncio.ensure_future(outcome)
        self._service.tasks.add(task)
        if call.id is not UNSET:
            self._tasks.add(task)
        task.add_done_callback(partial(self._finish, call, collector, release))

    def _finish(
        self, call: Call, collector: Collector | None, release: Callable[[], None] | None, task: asyncio.Future[Any]
    ) -> None:
        self._service.tasks.discard(task)
        self._tasks.discard(task)
        self.n_pending -= 1
        if release is not None:
            release()
        error = self._find_failure(call, task)
        if error is None:
            self._succeed(call, task.result(), collector)
        elif self._session.is_open or not task.cancelled():
            self._fail(call, error, collector)
        self._on_done()

    def _find_failure(self, call: Call, task: asyncio.Future[Any]) -> Exception | None:
        if task.cancelled():
            if self._service.is_stopping:
                return ShuttingDown("the daemon stopped before this was done", hint="try again in a moment")
            return RuntimeError(f"{call.method} was cancelled")
        error = task.exception()
        return error if error is None or isinstance(error, Exception) else RuntimeError(type(error).__name__)

    # --- answers

    def _succeed(self, call: Call, result: msgspec.Struct, collector: Collector | None) -> None:
        if isinstance(call.id, UnsetType):
            self._reply(None, collector)
            return
        try:
            answer = encode_result(call.id, result)
        except Exception as error:  # noqa: BLE001 - a result that cannot be written fails its own request alone
            self._fail(call, error, collector)
            return
        limit = self._service.limits.max_reply_bytes
        if len(answer) + (collector.n_bytes if collector else 0) > limit:
            hint = "ask for less: a smaller limit, one folder, fewer lines"
            self._fail(call, TooLarge(f"the answer would be over {limit} bytes", hint=hint), collector)
        else:
            self._reply(answer, collector)

    def _fail(self, call: Call, error: Exception, collector: Collector | None) -> None:
        body = describe_error(error)
        if body.data["code"] == "internal":
            self._service.on_error(error, call.method)
        self._refuse(call.id, body, collector)

    def _refuse(self, request_id: Id | UnsetType, error: ErrorBody, collector: Collector | None) -> None:
        self._service.counts.failed_requests += 1
        self._reply(None if isinstance(request_id, UnsetType) else encode_error(request_id, error), collector)

    def _reply(self, answer: bytes | None, collector: Collector | None) -> None:
        if collector is not None:
            answer = collector.add(answer)
        if answer is not None:
            self._send(answer)


def _discard(outcome: Any) -> None:
    """Let go of what was never started, without a complaint that it was never awaited."""
    if inspect.iscoroutine(outcome):
        outcome.close()
    elif isinstance(outcome, asyncio.Future):
        outcome.cancel()
