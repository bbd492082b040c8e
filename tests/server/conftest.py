"""A real server on a real socket, and clients that are plain sockets."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from memsyncd.errors import Conflict
from memsyncd.operations.changes.declare import Changed, Subscribed
from memsyncd.operations.fields import Params, Written
from memsyncd.operations.status.declare import Pong, Problems
from memsyncd.server.requests import CompletedRequest
from memsyncd.server.server import Server
from memsyncd.server.session import Limits, Session

WAIT_LIMIT_S = 60


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class ScriptedHandlers:
    """Handlers that return, wait, fail or return nonsense, each in its own way."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.notified: list[str] = []
        self.started = 0
        self.cancelled = 0
        self.most_running = 0
        self.n_running = 0
        self.gate = asyncio.Event()
        self.reply_chars = 0
        self.has_changed = True

    def dispatch(self, session: Session, method: str, params: Params) -> Any:
        if session not in self.sessions:
            self.sessions.append(session)
        return getattr(self, method.replace(".", "_"))(session, params)

    def ping(self, session: Session, params: Params) -> Pong:
        return Pong(
            name="x" * self.reply_chars or "memsyncd", version="1", protocol=1, pid=session.peer_pid
        )

    def undo(self, session: Session, params: Params) -> Written:
        return Written(
            workspace="x" * self.reply_chars,
            generation=1,
            is_indexed=True,
            change_set=1 if self.has_changed else None,
        )

    def status(self, session: Session, params: Params) -> Any:
        raise ValueError("the text of a note")

    def get(self, session: Session, params: Params) -> Any:
        raise Conflict("it has changed", hint="read it again", digest="aa")

    def list(self, session: Session, params: Params) -> Any:
        return 42

    def sync(self, session: Session, params: Params) -> Any:
        return self.search(session, params)

    async def search(self, session: Session, params: Params) -> Problems:
        self.started += 1
        self.n_running += 1
        self.most_running = max(self.most_running, self.n_running)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.n_running -= 1
        return Problems(problems=[])

    async def problems(self, session: Session, params: Params) -> Problems:
        await asyncio.sleep(0)
        raise ValueError("the text of a note")

    def subscribe(self, session: Session, params: Params) -> Subscribed:
        session.is_subscribed = True
        session.on_close(lambda: self.notified.append(f"closed {session.id}"))
        return Subscribed(subscription="s", generations={})


def make_changed(n_chars: int = 0) -> Changed:
    return Changed(subscription="s", workspace="w", generation=1, paths=["x" * n_chars], chunks=1)


class Serving:
    """A running server, its reports, and ways to connect to it."""

    def __init__(self, path: Path, handlers: Any, limits: Limits) -> None:
        self.path = path
        self.handlers = handlers
        self.errors: list[tuple[str, str]] = []
        self.answered: list[CompletedRequest] = []
        self.refused: list[str] = []
        self.dropped: list[str] = []
        self._clients: list[Client | socket.socket] = []
        self.server = Server(
            handlers.dispatch,
            limits,
            on_answer=self._note,
            after_methods={},
            on_error=lambda error, place: self.errors.append((type(error).__name__, place)),
            on_refuse=self.refused.append,
            on_drop=self.dropped.append,
            waiting_methods=frozenset({"sync"}),
            marks_instructions=lambda: True,
            is_watching=lambda: True,
            note_answer=lambda _workspace, _answer: None,
        )

    def _note(self, answered: CompletedRequest) -> None:
        self.answered.append(answered)
        if answered.error is not None:
            self.errors.append((type(answered.error).__name__, answered.method))

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_unix_connection(str(self.path), limit=64 * 1024 * 1024)
        client = Client(reader, writer)
        self._clients.append(client)
        return client

    def connect_plainly(self, *, receive_bytes: int | None = None) -> socket.socket:
        """Connect with a plain socket, which neither reads nor writes by itself."""
        sock = socket.socket(socket.AF_UNIX)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.connect(str(self.path))
        sock.settimeout(0)
        self._clients.append(sock)
        return sock

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, method: str, request_id: object = 1, **params: object) -> None:
        parts = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(parts if request_id is None else {**parts, "id": request_id})

    def write(self, value: object) -> None:
        self.writer.write(value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n")

    async def read(self) -> Any:
        return json.loads(await asyncio.wait_for(self.reader.readline(), WAIT_LIMIT_S))

    async def ask(self, method: str, request_id: object = 1, **params: object) -> Any:
        self.send(method, request_id, **params)
        return await self.read()

    async def read_to_end(self) -> bytes:
        try:
            return await asyncio.wait_for(self.reader.read(), WAIT_LIMIT_S)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.writer.close()


@contextlib.asynccontextmanager
async def serve(
    tmp_path: Path, limits: Limits | None = None, handlers: Any = None
) -> AsyncIterator[Serving]:
    path = tmp_path / "s"
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(os.fspath(path))
    serving = Serving(path, handlers or ScriptedHandlers(), limits or Limits())
    loop_errors: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: loop_errors.append(str(context))
    )
    await serving.server.start(sock)
    try:
        yield serving
    finally:
        await serving.server.stop(grace_s=0)
        serving.close_clients()
        await asyncio.sleep(0)
        assert loop_errors == []


async def wait_until(is_true: Callable[[], object], wait_limit_s: float = WAIT_LIMIT_S) -> None:
    async with asyncio.timeout(wait_limit_s):
        while not is_true():  # noqa: ASYNC110 - the code under test signals nothing
            await asyncio.sleep(0.002)


@pytest.fixture(name="serve")
def give_serve(tmp_path: Path) -> Callable[..., contextlib.AbstractAsyncContextManager[Serving]]:
    return lambda limits=None: serve(tmp_path, limits)


@pytest.fixture(name="wait_until")
def give_wait_until() -> Callable[..., Any]:
    return wait_until


@pytest.fixture(name="make_changed")
def give_make_changed() -> Callable[..., Changed]:
    return make_changed


@pytest.fixture(name="serve_at")
def give_serve_at() -> Callable[..., contextlib.AbstractAsyncContextManager[Serving]]:
    return serve
