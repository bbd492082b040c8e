"""A daemon as in tests/daemon, and a scripted model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon.conftest import *  # noqa: F403  its fixtures
from tests.integrations import providers

if TYPE_CHECKING:
    from memsyncd.integrations.anthropic import AsyncMemsyncdMemoryTool, MemsyncdMemoryTool
    from tests.daemon.conftest import Home

LAST_WORDS = "That is all."

Wish = dict[str, Any] | tuple[str, dict[str, Any]]


class Model(ThreadingHTTPServer):
    """The APIs of several providers on loopback, without a model: a list of calls of the memory
    tool, or of tools by name, one a turn.

    `requests` has the body of every request, `results` the block with which each call was answered.
    """

    def __init__(self, wishes: Sequence[Wish]) -> None:
        super().__init__(("127.0.0.1", 0), Turn)
        self._wishes = wishes
        self.requests: list[dict[str, Any]] = []
        self.loses_threads = False
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def results(self) -> list[dict[str, Any]]:
        return [request["messages"][-1]["content"][0] for request in self.requests[1:]]

    def answer(self, path: str, request: dict[str, Any]) -> tuple[str, bytes]:
        """Return the type and the bytes of the reply, in the form of the path's API."""
        number = len(self.requests)
        self.requests.append(request)
        is_over = number >= len(self._wishes)
        wish: Any = None if is_over else self._wishes[number]
        name, arguments = wish if isinstance(wish, tuple) else ("memory", wish)
        call = None if is_over else (f"toolu_{number}", name, arguments)
        return providers.render_reply(path, request, f"msg_{number}", call, LAST_WORDS)

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class Turn(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_lost = self.server.loses_threads and request["thread"]["type"] == "continue"
        if is_lost:
            kind, answer = "application/json", providers.render_lost_thread()
        else:
            kind, answer = self.server.answer(self.path, request)
        self.send_response(404 if is_lost else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def make_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Model]]:
    """A model with these calls. `url` points the SDK to it, without any proxy."""
    models: list[Model] = []
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def make(*wishes: Wish) -> Model:
        models.append(Model(wishes))
        return models[-1]

    yield make
    for model in models:
        model.close()


@pytest.fixture
def socket(home: Home, monkeypatch: pytest.MonkeyPatch) -> str:
    """The daemon's socket, named in this process's environment, where a program finds it."""
    monkeypatch.setenv("MEMSYNCD_SOCKET", home.socket_path)
    return home.socket_path


# The SDK takes two seconds to import, so only these tests import it.


@pytest.fixture
def make_tool() -> type[MemsyncdMemoryTool]:
    from memsyncd.integrations.anthropic import MemsyncdMemoryTool

    return MemsyncdMemoryTool


@pytest.fixture
def make_async_tool() -> type[AsyncMemsyncdMemoryTool]:
    from memsyncd.integrations.anthropic import AsyncMemsyncdMemoryTool

    return AsyncMemsyncdMemoryTool
