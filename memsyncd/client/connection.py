"""How does a program ask the daemon? Over its socket, one JSON value a line, waiting for each answer.

    with connect() as client:
        for hit in client.call("search", query="redis timeout")["hits"]:
            print(hit["path"], hit["start_line"], hit["snippet"])

Answers are plain dictionaries, shaped as `memsyncd.wire.methods` says. A failure is one of `memsyncd.errors`, with a hint of
what to do next. Only the standard library is imported, and little of that: hooks and shells call this for every prompt. One
client is for one thread.
"""

from __future__ import annotations

import _socket
import os
import struct
import sys
import time

from memsyncd.dirs import expand_home, find_dirs, find_socket_paths, has_named_socket
from memsyncd.errors import BadConfig, BadRequest, Busy, MemsyncdError, NoDaemon, NotFresh, Unsafe
from memsyncd.quickjson import parse_json, render_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Any, Self

TIMEOUT_S = 30.0
READ_BYTES = 65536
START_HINT = "start it with `memsyncd start`"


class NoAnswer(NotFresh):
    """The time to wait is up on this side; the daemon may still answer, and can be waited for again."""

    code = "no_answer"


def connect(*, env: Mapping[str, str] | None = None, timeout_s: float | None = TIMEOUT_S) -> Client:
    """Connect to the user's daemon, wherever it listens. Raises NoDaemon if none answers, BadConfig if a path is off."""
    paths = find_sockets(os.environ if env is None else env)
    for path in paths[:-1]:
        try:
            return Client(path, timeout_s)
        except NoDaemon:
            continue
    try:
        return Client(paths[-1], timeout_s)
    except NoDaemon as error:
        raise NoDaemon(f"no daemon answers on {paths[0]}", hint=START_HINT) from error


def find_sockets(env: Mapping[str, str]) -> tuple[str, ...]:
    """The sockets to try, in order: the one that the environment names, or the configuration file, or the usual ones."""
    home = env.get("HOME") or os.path.expanduser("~")
    dirs = find_dirs(env, home, sys.platform)
    if not has_named_socket(env):
        named = _read_configured_socket(dirs.config_file)
        if named:
            return (expand_home(named, home),)
    return find_socket_paths(dirs, env, os.getuid())


class Client:
    """One connection. `timeout_s` bounds the wait for each answer; None waits as long as it takes.

    Raises NoDaemon if nobody listens on the socket, Unsafe if somebody else does.
    """

    __slots__ = ("_buffer", "_last_id", "_lines", "_notifications", "_socket", "socket_path", "timeout_s")

    def __init__(self, socket_path: str, timeout_s: float | None = TIMEOUT_S) -> None:
        self.socket_path = socket_path
        self.timeout_s = timeout_s
        self._last_id = 0
        self._buffer = bytearray()
        self._lines: list[bytes] = []
        self._notifications: list[tuple[str, dict[str, Any]]] = []
        self._socket = _open_socket(socket_path, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Ask and wait for the answer. Parameters that are None are left out.

        Raises what the daemon says went wrong, NoAnswer if it does not answer in time, NoDaemon if it goes away.
        """
        return self.wait(self.send(method, **params), timeout_s=self.timeout_s)

    def send(self, method: str, **params: object) -> int:
        """Ask, and leave the answer to `wait`. Returns the request's id. Raises BadRequest for text that is no UTF-8."""
        self._last_id += 1
        given = {name: value for name, value in params.items() if value is not None}
        line = _render_request({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": given})
        try:
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(line)
        except TimeoutError as error:
            raise _timed_out(self.timeout_s) from error
        except OSError:
            # A daemon that refuses says why before it closes; what it said still waits to be read.
            self._drain()
        return self._last_id

    def wait(self, request_id: int, *, timeout_s: float | None) -> dict[str, Any]:
        """The answer to this request. Raises NoAnswer when the time is up; then it can be waited for again."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            message = self._read_message(deadline_s, timeout_s)
            if "method" in message:
                self._keep_notification(message)
            elif "error" in message and message.get("id") in (request_id, None):
                raise _find_error(message["error"])
            elif message.get("id") == request_id:
                return dict(message.get("result") or {})

    def notifications(self, *, timeout_s: float | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """What the daemon says unasked, as (method, parameters), for ever.

        Raises NoAnswer if it is silent for `timeout_s`, NoDaemon when it goes away.
        """
        while True:
            deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
            while not self._notifications:
                message = self._read_message(deadline_s, timeout_s)
                if "method" in message:
                    self._keep_notification(message)
            yield self._notifications.pop(0)

    def _keep_notification(self, message: dict[str, Any]) -> None:
        self._notifications.append((str(message["method"]), dict(message.get("params") or {})))

    def _read_message(self, deadline_s: float | None, timeout_s: float | None) -> dict[str, Any]:
        while not self._lines:
            try:
                self._socket.settimeout(None if deadline_s is None else max(deadline_s - time.monotonic(), 1e-6))
                data = self._socket.recv(READ_BYTES)
            except (TimeoutError, BlockingIOError) as error:
                raise _timed_out(timeout_s) from error
            except OSError:
                data = b""
            self._feed(data)
        return _parse_message(self._lines.pop(0))

    def _feed(self, data: bytes) -> None:
        if not data:
            raise NoDaemon("the daemon closed the connection", hint="see whether it still runs with `memsyncd status`")
        self._buffer += data
        if b"\n" in data:
            *lines, rest = bytes(self._buffer).split(b"\n")
            self._buffer[:] = rest
            self._lines.extend(line for line in lines if line.strip())

    def _drain(self) -> None:
        try:
            self._socket.settimeout(1.0)
            while data := self._socket.recv(READ_BYTES):
                self._feed(data)
        except OSError:
            return


def _open_socket(path: str, timeout_s: float | None) -> _socket.socket:
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        # A daemon that stands still takes no client from the queue, and who comes when that is full would wait for ever.
        _limit_connecting(connection, timeout_s or 0)
        connection.connect(path)
        _limit_connecting(connection, 0)
        _check_peer(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, OSError):
            raise _find_connect_error(error, path) from error
        raise
    return connection


def _limit_connecting(connection: _socket.socket, timeout_s: float) -> None:
    # Not by `settimeout`, with which the system would not wait at all where the queue is full.
    limit = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))
    connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, limit)


def _check_peer(connection: _socket.socket, path: str) -> None:
    # What is asked is private; a socket that somebody else put there must not hear it.
    if hasattr(_socket, "SO_PEERCRED"):
        _, uid, _ = struct.unpack("3i", connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, struct.calcsize("3i")))
    else:
        uid = os.stat(path).st_uid
    if uid != os.geteuid():
        raise Unsafe(
            f"another user listens on {path}", hint="run memsyncd as the user whose daemon it is, or unset MEMSYNCD_SOCKET"
        )


def _find_connect_error(error: OSError, path: str) -> MemsyncdError:
    if isinstance(error, BlockingIOError):
        return Busy(f"the daemon on {path} takes no more clients now", hint="try again in a moment")
    if isinstance(error, PermissionError):
        return Unsafe(f"the socket {path} belongs to somebody else", hint="run memsyncd as the user whose daemon it is")
    if "too long" in str(error):
        return BadConfig(f"the socket's path is too long: {path}", hint="name a shorter one with MEMSYNCD_SOCKET")
    return NoDaemon(f"no daemon answers on {path}", hint=START_HINT)


def _render_request(request: dict[str, Any]) -> bytes:
    try:
        return render_json(request).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise BadRequest(
            "a text or path in the question is not valid UTF-8", hint="memsyncd speaks UTF-8 alone: rename the file"
        ) from error


def _timed_out(timeout_s: float | None) -> NoAnswer:
    return NoAnswer(
        f"the daemon did not answer within {timeout_s:g} s", hint="see what it does with `memsyncd status`, or allow more time"
    )


def _parse_message(line: bytes) -> dict[str, Any]:
    try:
        message = parse_json(line.decode())
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise MemsyncdError(
            "what listens on the socket does not speak JSON-RPC", hint="see who it is: MEMSYNCD_SOCKET may name another program"
        )
    return message


def _find_error(answer: Any) -> MemsyncdError:
    """Turn the `error` of an answer into the exception of the same code; what is unknown is as wrong as an internal error."""
    given = answer if isinstance(answer, dict) else {}
    data = given.get("data")
    known = dict(data) if isinstance(data, dict) else {}
    code, hint = known.pop("code", ""), str(known.pop("hint", ""))
    kinds = {kind.code: kind for kind in _find_kinds(MemsyncdError)}
    kind = kinds.get(code, BadRequest if given.get("code") in (-32600, -32601, -32602) else MemsyncdError)
    error = kind(str(given.get("message", "the daemon failed without saying why")), hint=hint)
    error.data.update(known)
    return error


def _find_kinds(kind: type[MemsyncdError]) -> Iterator[type[MemsyncdError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _find_kinds(child)


def _read_configured_socket(config_file: str) -> str:
    """`socket.path` of the configuration file; empty if it says none or cannot be read, since the daemon reports that."""
    try:
        with open(config_file, "rb") as file:
            text = file.read()
    except OSError:
        return ""
    if b"socket" not in text:
        return ""
    # Few files name a socket, and the parser costs more than the whole question.
    import tomllib

    try:
        path = tomllib.loads(text.decode()).get("socket", {}).get("path", "")
    except (ValueError, AttributeError):
        return ""
    return path if isinstance(path, str) and path.startswith(("/", "~/")) else ""
