"""Connect to the daemon over its socket and call its methods, one JSON value a line.

    with connect() as client:
        for hit in client.call("search", query="redis timeout")["hits"]:
            print(hit["path"], hit["start_line"], hit["snippet"])

Results are plain dictionaries with the keys of the protocol. A failure is raised as an error of
`memsyncd.errors`, with a hint on what to do next. This module imports only little of the standard
library and nothing else, because hooks and shells start it for every prompt. A client belongs to
one thread.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

import memsyncd
from memsyncd.dirs import expand_home, find_socket_paths, find_user_dirs, has_named_socket
from memsyncd.errors import (
    BadConfig,
    BadRequest,
    Busy,
    Conflict,
    MemsyncdError,
    NoDaemon,
    NotFresh,
    Unsafe,
)
from memsyncd.lock import read_holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Any, Self


try:
    # The C engine of `json`, under a name that is private to CPython. `json` itself imports `re`,
    # which takes 6.5 ms: 0.7 times as long as the whole of `python -c pass`.
    from _json import encode_basestring, make_encoder, make_scanner
except ImportError:
    import json

    def encode_json(value: object) -> str:
        """Render the value as one line. Raises TypeError for a value that JSON cannot express."""
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def parse_json(text: str) -> object:
        """Parse exactly one value. Raises ValueError for any other text."""
        value: object = json.loads(text)
        return value

else:

    def encode_json(value: object) -> str:
        """Render the value as one line. Raises TypeError for a value that JSON cannot express."""
        return "".join(_encode(value, 0))

    def parse_json(text: str) -> object:
        """Parse exactly one value. Raises ValueError for any other text."""
        text = text.strip(" \t\n\r")
        try:
            value, end = _scan(text, 0)
        # For most errors the C engine wants a class of `json.decoder`; without it, it fails so.
        except (StopIteration, SystemError):
            raise ValueError("not JSON") from None
        if end != len(text):
            raise ValueError("more than one value")
        return value

    def _refuse(value: object) -> None:
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")

    class _ScannerOptions:
        """The defaults of `json`."""

        strict = True
        object_hook = object_pairs_hook = None
        parse_float = parse_constant = float
        parse_int = int

    _scan = make_scanner(_ScannerOptions)  # type: ignore[arg-type]  # it reads these attributes
    _encode = make_encoder(
        markers=None,
        default=_refuse,
        encoder=encode_basestring,
        indent=None,
        key_separator=":",
        item_separator=",",
        sort_keys=False,
        skipkeys=False,
        allow_nan=True,
    )


TIMEOUT_S = 30.0
READ_BYTES = 65536
# Sizes of C's int and long. `struct` knows them, but its import takes half a millisecond.
INT_BYTES, LONG_BYTES = 4, 8 if sys.maxsize > 2**32 else 4
START_HINT = "start it with `memsyncd start`"
RESTART_HINT = "`memsyncd restart` makes them equal"
VERSION_S = 2.0


class NoAnswer(NotFresh):
    """The client's timeout has passed. The daemon may still answer; `wait` can be called again."""

    code = "no_answer"


class OtherVersion(Conflict):
    """The daemon has another version: it does not understand a request, or its answer lacks a field
    that this version reads.
    """

    code = "other_version"


class CheckedResult(dict[str, "Any"]):
    """A result. Reading a field that it lacks raises OtherVersion if the daemon has another
    version, else KeyError.
    """

    __slots__ = ("_socket_path",)

    def __init__(self, result: dict[str, Any], socket_path: str) -> None:
        super().__init__(result)
        self._socket_path = socket_path

    def __missing__(self, key: str) -> Any:
        check_version(self._socket_path, f"its answer has no `{key}`")
        raise KeyError(key)


def check_version(socket_path: str, reason: str) -> None:
    """Raise OtherVersion if a daemon of another version answers on this socket."""
    try:
        with Client(socket_path, VERSION_S) as client:
            pong = client.receive(client.send("ping"), timeout_s=VERSION_S)
            version = str(pong.get("version", ""))
    except MemsyncdError:
        return
    if version != memsyncd.__version__:
        raise OtherVersion(f"{describe_versions(version)} ({reason})", hint=RESTART_HINT)


def describe_versions(version: str) -> str:
    """Return a clause about a daemon of another version."""
    return f"the daemon is version {version or '?'}, this program {memsyncd.__version__}"


def connect(*, env: Mapping[str, str] | None = None, timeout_s: float | None = TIMEOUT_S) -> Client:
    """Connect to the user's daemon. Raises NoDaemon if no daemon answers, BadConfig if a socket's
    path is not absolute.
    """
    env = os.environ if env is None else env
    for path in _list_sockets(env):
        try:
            return Client(path, timeout_s)
        except NoDaemon:
            continue
    raise NoDaemon(f"no daemon answers on {_list_usual_sockets(env)[0]}", hint=START_HINT)


def find_sockets(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the socket paths to try, in this order: the path that the environment names; the
    socket of the daemon that owns the state folder; the path in the configuration file, else the
    default paths; the socket of the daemon that owns the folder of the indexes.
    """
    return tuple(_list_sockets(env))


def _list_sockets(env: Mapping[str, str]) -> Iterator[str]:
    """Yield each path once. A file that names a later path is read only if no daemon answers on the
    earlier paths.
    """
    seen = set()
    for path in _list_all_sockets(env):
        if path not in seen:
            seen.add(path)
            yield path


def _list_all_sockets(env: Mapping[str, str]) -> Iterator[str]:
    dirs = find_user_dirs(env)
    of_state, of_cache = dirs.lock_paths
    if has_named_socket(env):
        yield dirs.socket_path
    if holder := read_holder(of_state):
        yield holder.socket_path
    yield from _list_usual_sockets(env)
    if holder := read_holder(of_cache):
        yield holder.socket_path


def _list_usual_sockets(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths where a daemon of this environment would listen."""
    dirs = find_user_dirs(env)
    if not has_named_socket(env):
        configured = _read_configured_socket(dirs.config_file)
        if configured:
            return (expand_home(configured, env.get("HOME") or os.path.expanduser("~")),)
    return find_socket_paths(dirs, env, os.getuid())


class Closing:
    """A context manager that ends with `close`."""

    __slots__ = ()

    if TYPE_CHECKING:

        def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Client(Closing):
    """One connection. `timeout_s` limits the wait for each answer; None means no limit.

    Raises NoDaemon if no program listens on the socket, Unsafe if another user listens there.
    """

    __slots__ = (
        "_buffer",
        "_last_id",
        "_lines",
        "_notifications",
        "_socket",
        "socket_path",
        "timeout_s",
    )

    def __init__(self, socket_path: str, timeout_s: float | None = TIMEOUT_S) -> None:
        self.socket_path = socket_path
        self.timeout_s = timeout_s
        self._last_id = 0
        self._buffer = bytearray()
        self._lines: list[bytes] = []
        self._notifications: list[tuple[str, dict[str, Any]]] = []
        self._socket = _open_socket(socket_path, timeout_s)

    def close(self) -> None:
        self._socket.close()

    def detach(self) -> _socket.socket:
        """Return the connected socket in blocking mode; the caller closes it."""
        self._socket.settimeout(None)
        return self._socket

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method and return its result. Parameters that are None are not sent.

        Raises the daemon's error; NoAnswer if the daemon does not answer in time; NoDaemon if it
        closes the connection.
        """
        return self.wait(self.send(method, **params), timeout_s=self.timeout_s)

    def send(self, method: str, **params: object) -> int:
        """Send a request and return its id for `wait`.

        Raises BadRequest for text that is not valid UTF-8. Raises NoAnswer, and closes the
        connection, if the daemon does not read the request in time.
        """
        self._last_id += 1
        values = {name: value for name, value in params.items() if value is not None}
        line = render_request(
            {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": values}
        )
        try:
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(line)
        except TimeoutError as error:
            self.close()  # the next request would begin in the middle of this request
            raise _timed_out(self.timeout_s) from error
        except OSError:
            # A daemon that refuses a client sends the reason before it closes: read the reason
            # first.
            self._drain()
        return self._last_id

    def wait(self, request_id: int, *, timeout_s: float | None) -> dict[str, Any]:
        """Return the result of the request. Raises NoAnswer after the timeout; `wait` can be called
        again then. Raises OtherVersion if a daemon of another version refuses the request.
        """
        try:
            return self.receive(request_id, timeout_s=timeout_s)
        except BadRequest as error:
            if type(error) is BadRequest:
                check_version(self.socket_path, error.message)
            raise

    def receive(self, request_id: int, *, timeout_s: float | None) -> dict[str, Any]:
        """Wait like `wait`, without a check of the daemon's version."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            message = self._read_message(deadline_s, timeout_s)
            if "method" in message:
                self._keep_notification(message)
            elif "error" in message and message.get("id") in (request_id, None):
                raise make_error(message["error"])
            elif message.get("id") == request_id:
                return CheckedResult(message.get("result") or {}, self.socket_path)

    def notifications(
        self, *, timeout_s: float | None = None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the daemon's notifications as (method, parameters), without end.

        Raises NoAnswer after `timeout_s` without a notification, NoDaemon when the daemon closes
        the connection.
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
                self._socket.settimeout(
                    None if deadline_s is None else max(deadline_s - time.monotonic(), 1e-6)
                )
                data = self._socket.recv(READ_BYTES)
            except (TimeoutError, BlockingIOError) as error:
                raise _timed_out(timeout_s) from error
            except OSError:
                data = b""
            self._feed(data)
        return parse_message(self._lines.pop(0))

    def _feed(self, data: bytes) -> None:
        if not data:
            raise NoDaemon(
                "the daemon closed the connection",
                hint="see whether it still runs with `memsyncd status`",
            )
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
        # A daemon that hangs accepts no connection. When its queue is full, `connect` would block
        # forever.
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
    # `settimeout` makes a socket non-blocking, and then `connect` fails at once while the queue is
    # full.
    limit = _pack(int(timeout_s), LONG_BYTES) + _pack(int(timeout_s % 1 * 1e6), LONG_BYTES)
    connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, limit)


def _pack(number: int, n_bytes: int) -> bytes:
    return number.to_bytes(n_bytes, sys.byteorder)


def _check_peer(connection: _socket.socket, path: str) -> None:
    # Requests are private, so they must not reach a socket of another user.
    if hasattr(_socket, "SO_PEERCRED"):
        # The data holds process, user and group.
        data = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 3 * INT_BYTES)
        uid = int.from_bytes(data[INT_BYTES : 2 * INT_BYTES], sys.byteorder)
    else:
        uid = os.stat(path).st_uid
    if uid != os.geteuid():
        raise Unsafe(
            f"another user listens on {path}",
            hint="run memsyncd as the user whose daemon it is, or unset MEMSYNCD_SOCKET",
        )


def _find_connect_error(error: OSError, path: str) -> MemsyncdError:
    if isinstance(error, BlockingIOError):
        return Busy(
            f"the daemon on {path} accepts no more clients now", hint="try again in a moment"
        )
    if isinstance(error, PermissionError):
        return Unsafe(
            f"the socket {path} is closed to you: it belongs to another user, or you may not use"
            " its folder",
            hint="after `su` or `sudo`, unset XDG_RUNTIME_DIR; else `memsyncd doctor` says which",
        )
    if "too long" in str(error):
        return BadConfig(
            f"the socket's path is too long: {path}", hint="name a shorter one with MEMSYNCD_SOCKET"
        )
    return NoDaemon(f"no daemon answers on {path}", hint=START_HINT)


def render_request(request: dict[str, Any]) -> bytes:
    """Render a request as a line. Raises BadRequest for text that is not valid UTF-8."""
    try:
        return encode_json(request).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise BadRequest(
            "a text or path in the request is not valid UTF-8",
            hint="memsyncd accepts only UTF-8: rename the file",
        ) from error


def _timed_out(timeout_s: float | None) -> NoAnswer:
    return NoAnswer(
        f"the daemon did not answer within {timeout_s:g} s",
        hint="see what is wrong with `memsyncd doctor`, or allow more time; a change may have been"
        " made all the same: `memsyncd history` lists it",
    )


def parse_message(line: bytes) -> dict[str, Any]:
    """Parse a line from the daemon. Raises MemsyncdError if the line is no JSON object."""
    try:
        message = parse_json(line.decode())
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise MemsyncdError(
            "the program that listens on the socket does not speak JSON-RPC",
            hint="check MEMSYNCD_SOCKET: it may name another program's socket",
        )
    return message


def make_error(answer: Any) -> MemsyncdError:
    """Return the exception for the `error` of a response, chosen by its code. An unknown code
    becomes an internal error.
    """
    body = answer if isinstance(answer, dict) else {}
    data = body.get("data")
    extra = dict(data) if isinstance(data, dict) else {}
    code, hint = extra.pop("code", ""), str(extra.pop("hint", ""))
    kinds = {kind.code: kind for kind in _find_kinds(MemsyncdError)}
    kind = kinds.get(
        code, BadRequest if body.get("code") in (-32600, -32601, -32602) else MemsyncdError
    )
    error = kind(str(body.get("message", "the daemon failed without saying why")), hint=hint)
    error.data.update(extra)
    return error


def _find_kinds(kind: type[MemsyncdError]) -> Iterator[type[MemsyncdError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _find_kinds(child)


def _read_configured_socket(config_file: str) -> str:
    """Return `socket.path` of the configuration file. It is empty if the file has none or cannot be
    read; the daemon reports an unreadable file.
    """
    try:
        with open(config_file, "rb") as file:
            text = file.read()
    except OSError:
        return ""
    if b"socket" not in text:
        return ""
    # Few files name a socket, and importing the parser takes longer than a whole request.
    import tomllib

    try:
        path = tomllib.loads(text.decode()).get("socket", {}).get("path", "")
    except (ValueError, AttributeError):
        return ""
    return path if isinstance(path, str) and path.startswith(("/", "~/")) else ""
