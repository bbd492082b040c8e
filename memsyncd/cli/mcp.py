"""`memsyncd mcp`: connect an agent's stdin and stdout to the daemon, which speaks MCP itself.

It copies lines, starts a daemon if none runs, and outlives the daemon. After a restart of the
daemon it connects again, repeats the handshake and the subscriptions, and repeats requests that
only read; any other request gets an error that says so. If a daemon ends, it waits for a successor;
for the client's next line it starts a daemon. If no daemon can be reached, a request gets an error,
and the next request tries again. It ends with its stdin. It remembers only lines that it may have
to repeat.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import select
import time

import memsyncd
from memsyncd.client.connection import RESTART_HINT, describe_versions, encode_json, parse_json
from memsyncd.errors import (
    Busy,
    MemsyncdError,
    NoDaemon,
    ShuttingDown,
    TooLarge,
)
from memsyncd.terminal._generated import READING_TOOLS
from memsyncd.terminal.parser import Command, Option, make_workspace_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console

READ_BYTES = 65536
UNSENT_BYTES = 1 << 20
START_S, RESTART_S = 20.0, 5.0
"""The wait for a daemon that was just started, and for the successor of a daemon that ended."""
NO_WAIT = getattr(_socket, "MSG_DONTWAIT", 0)
POLL_S = 0.05
UNAVAILABLE = -32010
BINDING = "notifications/memsyncd/bind"
# Methods that may be sent twice, because they change nothing.
READING = frozenset(
    """
    initialize ping server/discover tools/list resources/list resources/templates/list
    resources/read resources/subscribe resources/unsubscribe prompts/list prompts/get
    completion/complete logging/setLevel subscriptions/listen
    """.split()
)
# Methods that each new connection repeats, because they set the state of a connection.
STATE = frozenset({"initialize", "notifications/initialized", "logging/setLevel"})
REPLAY_PREFIX = "memsyncd-replay-"


class Pump:
    """Copies lines between stdin, stdout and the daemon.

    `connect` returns a connected socket; its argument says whether it may start a daemon and wait.
    `warn` shows a text to a person.
    """

    def __init__(
        self,
        connect: Callable[[bool], _socket.socket],
        binding: bytes,
        warn: Callable[[str], None],
    ) -> None:
        self._connect = connect
        self._warn = warn
        self._warned = ""
        self._binding = binding
        self._socket: _socket.socket | None = None
        self._unfinished = bytearray()
        self._received = bytearray()
        self._unsent = bytearray()
        # By id: the line of a request that has no answer yet, and whether it may be sent again.
        self._pending: dict[Any, tuple[bytes, bool]] = {}
        self._state: dict[str, bytes] = {}
        self._subscribed: dict[str, bytes] = {}
        self._n_replayed = 0
        self._has_received = False
        self._failure = ("", "")
        self._awaited_until_s = 0.0  # above 0 while it waits for the successor of a daemon

    def run(self) -> None:
        """Copy until stdin has ended and the requests before its end have their answers."""
        has_ended = False
        while not has_ended or self._has_unanswered():
            has_ended = self._copy(has_ended=has_ended)

    def _has_unanswered(self) -> bool:
        if self._socket is None:
            return bool(self._pending) and self._awaited_until_s > 0
        return bool(self._pending or self._unsent)

    def _copy(self, *, has_ended: bool) -> bool:
        """Wait for data and copy it; return whether stdin has ended."""
        daemon = [] if self._socket is None else [self._socket.fileno()]
        # While the daemon does not read, nothing is read from the client, but answers are copied.
        client = [] if has_ended or len(self._unsent) > UNSENT_BYTES else [0]
        readable, writable, _ = select.select(
            client + daemon,
            daemon if self._unsent else [],
            [],
            POLL_S if self._awaited_until_s else None,
        )
        if self._socket is not None and writable:
            self._send_some()
        if self._socket is not None and self._socket.fileno() in readable:
            self._read_daemon()
        if 0 in readable:
            data = os.read(0, READ_BYTES)
            self._read_client(data or b"\n")
            has_ended = not data
        elif self._awaited_until_s:
            self._reconnect(may_start=False)
        if has_ended and self._socket is not None and not self._unsent:
            # The daemon ends streams, answers the other requests and closes. A request without an
            # answer by then gets none.
            with contextlib.suppress(OSError):
                self._socket.shutdown(_socket.SHUT_WR)
        return has_ended

    # --- from the client

    def _read_client(self, data: bytes) -> None:
        self._unfinished += data
        if b"\n" not in data:
            return
        *lines, rest = bytes(self._unfinished).split(b"\n")
        self._unfinished = bytearray(rest)
        for line in lines:
            if line.strip():
                self._forward(line)

    def _forward(self, line: bytes) -> None:
        messages = _parse_all(line)
        # Connect first: a line that is noted already would be repeated on the new connection.
        has_connected = self._socket is not None or self._reconnect(may_start=True)
        for message in messages:
            # A request of a batch is repeated by itself.
            self._note(message, line if len(messages) == 1 else _encode(message))
        if has_connected:
            self._unsent += line + b"\n"
            return
        for message in messages:
            if _is_id(message.get("id")):
                self._refuse(message["id"], *self._failure)

    def _note(self, message: dict[str, Any], line: bytes) -> None:
        """Remember a message that may have to be repeated."""
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            return
        if method in STATE:
            self._state[method] = line
        elif method == "resources/subscribe":
            self._subscribed[str(params.get("uri"))] = line
        elif method == "resources/unsubscribe":
            self._subscribed.pop(str(params.get("uri")), None)
        elif method == "notifications/cancelled":
            self._pending.pop(params.get("requestId"), None)
        request_id = message.get("id")
        if _is_id(request_id):
            is_reading = method in READING or (
                method == "tools/call" and params.get("name") in READING_TOOLS
            )
            self._pending[request_id] = (line, is_reading)

    # --- to the daemon

    def _send_some(self) -> None:
        assert self._socket is not None
        try:
            n_sent = self._socket.send(self._unsent, NO_WAIT)
        except BlockingIOError:
            return
        except OSError:
            self._on_lost()
        else:
            del self._unsent[:n_sent]

    def _reconnect(self, *, may_start: bool) -> bool:
        """Connect. Repeat the state of a connection and the requests without an answer.

        Return False if no daemon can be reached. Then each request without an answer gets an error,
        unless there is still time to wait for a successor.
        """
        self._drop()
        try:
            self._socket = self._connect(may_start)
        except (OSError, MemsyncdError) as error:
            if not may_start and time.monotonic() < self._awaited_until_s:
                return False
            self._awaited_until_s = 0.0
            message = error.message if isinstance(error, MemsyncdError) else str(error)
            hint = error.hint if isinstance(error, MemsyncdError) else ""
            self._failure = message, hint or "start it with `memsyncd start`"
            for request_id in tuple(self._pending):
                self._refuse(request_id, *self._failure)
            return False
        self._awaited_until_s = 0.0
        self._has_received = False
        repeated = [*self._state.values(), *self._subscribed.values()]
        for line in (self._binding, *map(self._repeat, repeated)):
            self._unsent += line + b"\n" if line else b""
        for request_id, (line, _) in tuple(self._pending.items()):
            self._pending[request_id] = (line, False)  # not a third time
            self._unsent += line + b"\n"
        return True

    def _repeat(self, line: bytes) -> bytes:
        """Return the line to repeat; empty for a request that is still without an answer."""
        message = _parse(line)
        if "id" not in message:
            return line
        return b"" if message["id"] in self._pending else self._rename(line)

    def _rename(self, line: bytes) -> bytes:
        """Return an answered request with a new id, so that its second answer is discarded."""
        self._n_replayed += 1
        return _encode({**_parse(line), "id": f"{REPLAY_PREFIX}{self._n_replayed}"})

    # --- from the daemon

    def _read_daemon(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._on_lost()
            return
        self._has_received = True
        self._received += data
        if b"\n" in data:
            *lines, rest = bytes(self._received).split(b"\n")
            self._received = bytearray(rest)
            _write(b"".join(map(self._note_answers, lines)))

    def _note_answers(self, line: bytes) -> bytes:
        """Return the line for the client; nothing for the answer to a repeated request."""
        if not self._pending and not self._n_replayed:
            return line + b"\n"
        for message in _parse_all(line):
            request_id = message.get("id")
            if "method" in message:
                continue
            self._note_version(message)
            if isinstance(request_id, str) and request_id.startswith(REPLAY_PREFIX):
                return b""
            if self._pending and _is_of_long_line(message):
                # The daemon has not read the id of the longest line; the client waits for this id.
                longest = max(
                    self._pending, key=lambda request_id: len(self._pending[request_id][0])
                )
                del self._pending[longest]
                return _encode({**message, "id": longest}) + b"\n"
            if _is_id(request_id):
                if self._is_read_at_stop(message) and not line.startswith(b"["):
                    return b""  # the request goes to the successor
                self._pending.pop(request_id, None)
        return line + b"\n"

    def _note_version(self, message: dict[str, Any]) -> None:
        """Warn if an answer names another version of the daemon, but not twice in a row."""
        result = message.get("result")
        about = result.get("serverInfo") if isinstance(result, dict) else None
        version = about.get("version") if isinstance(about, dict) else None
        if version not in (None, memsyncd.__version__):
            text = f"{describe_versions(str(version))}: {RESTART_HINT}"
            if text != self._warned:
                with contextlib.suppress(OSError, ValueError):  # stderr may be closed
                    self._warn(text)
            self._warned = text

    def _is_read_at_stop(self, message: dict[str, Any]) -> bool:
        """Return whether a stopping daemon has refused a request that may be sent again."""
        _, is_reading = self._pending.get(message["id"], (b"", False))
        return is_reading and _read_code(message) == ShuttingDown.code

    def _on_lost(self) -> None:
        """Wait for the successor of the daemon. Start none, because a user may have stopped it."""
        for request_id, (_, is_reading) in tuple(self._pending.items()):
            if not is_reading:
                message = "the daemon was restarted, and may not have carried this out"
                self._refuse(request_id, message, "look whether it was, then call it again")
        self._drop()
        if not self._has_received:
            # The daemon closed the connection at once. The client's next line tries again.
            for request_id in tuple(self._pending):
                self._refuse(request_id, "the daemon closed the connection", "see: memsyncd status")
            return
        self._awaited_until_s = time.monotonic() + RESTART_S

    def _refuse(self, request_id: object, message: str, hint: str) -> None:
        self._pending.pop(request_id, None)
        data = {"code": "no_daemon", "hint": hint, "retryable": True}
        error = {"code": UNAVAILABLE, "message": f"{message}: {hint}", "data": data}
        _write(_encode({"jsonrpc": "2.0", "id": request_id, "error": error}) + b"\n")

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._received.clear()
        self._unsent.clear()


def _is_id(value: object) -> bool:
    """Return whether the daemon repeats this id in its answer. For Python `True` is a number."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_of_long_line(message: dict[str, Any]) -> bool:
    """Return whether this is the answer to a line that was too long for the daemon."""
    return message.get("id") is None and _read_code(message) == TooLarge.code


def _read_code(message: dict[str, Any]) -> object:
    error = message.get("error")
    data = error.get("data") if isinstance(error, dict) else None
    return data.get("code") if isinstance(data, dict) else None


def _parse(line: bytes) -> dict[str, Any]:
    return next(iter(_parse_all(line)), {})


def _parse_all(line: bytes) -> list[dict[str, Any]]:
    """Return the message of a line, or the messages of a batch; none for any other line."""
    try:
        parsed = parse_json(line.decode())
    except (ValueError, RecursionError):
        return []
    messages = parsed if isinstance(parsed, list) else [parsed]
    return [message for message in messages if isinstance(message, dict)]


def _encode(message: dict[str, Any]) -> bytes:
    return encode_json(message).encode("utf-8", "replace")


def _write(data: bytes) -> None:
    """Write lines of JSON. Escape U+2028 and U+2029, at which some readers end a line."""
    data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    while data:
        data = data[os.write(1, data) :]


def _connect(console: Console, *, may_start: bool) -> _socket.socket:
    """Return a socket to the daemon. If none runs and `may_start`, start a daemon and wait for it.

    Raises MemsyncdError if no daemon can be reached.
    """
    try:
        return console.connect().detach()
    except (NoDaemon, Busy):
        if not may_start:
            raise
    from memsyncd.cli.daemon import connect_or_start

    return connect_or_start(console, START_S).detach()


def _mcp(args: Args, console: Console) -> int:
    workspace = console.name_workspace(args.workspace) if args.workspace else console.cwd
    names = {name: console.env.get(f"MEMSYNCD_{name.upper()}") for name in ("task", "session")}
    named = {name: value for name, value in names.items() if value}
    params = {
        "workspace": workspace,
        "readOnly": args.read_only,
        "host": os.getppid(),
        **named,
    }
    line = _encode({"jsonrpc": "2.0", "method": BINDING, "params": params})
    pump = Pump(
        lambda may_start: _connect(console, may_start=may_start), line, console.terminal.warn
    )
    pump.run()
    return 0


COMMANDS = {
    "mcp": Command(
        _mcp,
        options=(
            make_workspace_option("the workspace that tools use by default"),
            Option("--read-only", "offer no tool that writes"),
        ),
        examples=("memsyncd mcp", "memsyncd mcp --workspace ~/notes --read-only"),
    )
}
