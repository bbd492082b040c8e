"""Streamable HTTP in front of the daemon's socket, for foreign test suites that need a URL.

A connection to the daemon for each session of a client with a handshake, and for each request of a
stateless one. Only what these suites need of HTTP is here.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SESSION = "Mcp-Session-Id"
VERSION_ERRORS = {-32022, -32602}


class Bridge(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, socket_path: str) -> None:
        super().__init__(("127.0.0.1", 0), BridgeHandler)
        self.socket_path = socket_path
        self.sessions: dict[str, socket.socket] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.socket_path)
        return connection


class BridgeHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Bridge

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        message = json.loads(data)
        session = self.headers.get(SESSION)
        if session is not None and session not in self.server.sessions:
            self._answer(404, b"")
            return
        is_new = isinstance(message, dict) and message.get("method") == "initialize"
        connection = self.server.connect() if session is None else self.server.sessions[session]
        if is_new:
            session = uuid.uuid4().hex
            self.server.sessions[session] = connection
        connection.sendall(json.dumps(message).encode() + b"\n")
        if not isinstance(message, dict) or "id" not in message or "method" not in message:
            self._answer(202, b"")
        elif message["method"] == "subscriptions/listen":
            self._stream(connection)
        else:
            self._answer_message(connection, message, session if is_new else None)
        if session is None:
            connection.close()

    def do_GET(self) -> None:
        self._answer(405, b"")

    def do_DELETE(self) -> None:
        connection = self.server.sessions.pop(self.headers.get(SESSION, ""), None)
        if connection is not None:
            connection.close()
        self._answer(200, b"")

    def _answer_message(
        self, connection: socket.socket, message: dict[str, Any], session: str | None
    ) -> None:
        for line in _read_lines(connection):
            answer = json.loads(line)
            if answer.get("id") == message["id"] and "method" not in answer:
                code = answer.get("error", {}).get("code")
                is_modern = "_meta" in (message.get("params") or {}) or session is None
                status = 400 if code in VERSION_ERRORS and is_modern else 200
                status = 404 if code == -32601 and is_modern else status
                self._answer(status, line, session)
                return

    def _stream(self, connection: socket.socket) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):
            for line in _read_lines(connection):
                self.wfile.write(b"event: message\ndata: " + line + b"\n\n")
                self.wfile.flush()
        self.close_connection = True

    def _answer(self, status: int, data: bytes, session: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if session is not None:
            self.send_header(SESSION, session)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _read_lines(connection: socket.socket) -> Iterator[bytes]:
    with connection.makefile("rb") as file:
        for line in file:
            yield line.rstrip(b"\n")


@contextlib.contextmanager
def serve_http(socket_path: str) -> Iterator[str]:
    """The URL of a bridge to the daemon."""
    bridge = Bridge(socket_path)
    thread = threading.Thread(target=bridge.serve_forever, daemon=True)
    thread.start()
    try:
        yield bridge.url
    finally:
        bridge.shutdown()
        bridge.server_close()
        for connection in bridge.sessions.values():
            connection.close()
