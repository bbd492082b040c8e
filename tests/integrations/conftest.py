"""A daemon as in tests/daemon, and a scripted model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon.conftest import (
    daemon,
    home,
    make_home,
    make_place,
    place,
    pytest_runtest_makereport,
    root,
)

if TYPE_CHECKING:
    from memsyncd.integrations.anthropic import AsyncMemsyncdMemoryTool, MemsyncdMemoryTool
    from tests.daemon.conftest import Home

__all__ = [
    "daemon",
    "home",
    "make_home",
    "make_place",
    "place",
    "pytest_runtest_makereport",
    "root",
]

LAST_WORDS = "That is all."


class Model(ThreadingHTTPServer):
    """An Anthropic API on loopback, without a model: a list of calls of the memory tool, one a
    turn.

    `requests` has the body of every request, `results` the block with which each call was answered.
    """

    def __init__(self, wishes: Sequence[dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), Turn)
        self._wishes = wishes
        self.requests: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def results(self) -> list[dict[str, Any]]:
        return [request["messages"][-1]["content"][0] for request in self.requests[1:]]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        number = len(self.requests)
        self.requests.append(request)
        is_over = number == len(self._wishes)
        block: dict[str, Any] = {"type": "text", "text": LAST_WORDS}
        if not is_over:
            block = {
                "type": "tool_use",
                "id": f"toolu_{number}",
                "name": "memory",
                "input": self._wishes[number],
            }
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [block],
            "stop_reason": "end_turn" if is_over else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class Turn(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(self.server.answer(request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
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

    def make(*wishes: dict[str, Any]) -> Model:
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


# The SDK takes two seconds to import, which only these tests should pay.


@pytest.fixture
def make_tool() -> type[MemsyncdMemoryTool]:
    from memsyncd.integrations.anthropic import MemsyncdMemoryTool

    return MemsyncdMemoryTool


@pytest.fixture
def make_async_tool() -> type[AsyncMemsyncdMemoryTool]:
    from memsyncd.integrations.anthropic import AsyncMemsyncdMemoryTool

    return AsyncMemsyncdMemoryTool
