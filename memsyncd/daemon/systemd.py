"""The daemon's side of systemd's protocols: inherited socket, notifications, watchdog.

sd_listen_fds(3) hands over a listening socket, sd_notify(3) takes states. `READY=1` is sent once a
search was answered over the socket that clients use; `STATUS=` is a line for people; `WATCHDOG=1`
is sent while writer, watcher and store make progress; `RELOADING=1` and `STOPPING=1` when the
daemon does so. Without `NOTIFY_SOCKET` nothing is probed or sent, and no timer runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from typing import Any

import msgspec

from memsyncd.daemon.display import StatusLine, find_indexing
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadConfig, MemsyncdError
from memsyncd.logs import Event, get_log
from memsyncd.store.sections import read_digest

FIRST_DESCRIPTOR = 3
SOCKET_NAMES = ("memsyncd", "memsyncd.socket")
"""The names that a socket unit may give: its `FileDescriptorName=`, or by default its own."""
LISTEN_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
NOTIFY_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")

SEND_TIMEOUT_S = 1.0
RETRY_S = 0.2
ANSWER_TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 1 << 20
INDEXING_STATUS_S = 1.0
"""How often the status is sent while a workspace is being indexed."""
READ_TIMEOUT_S = 5.0
RETRY_CODES = frozenset({"busy", "timeout"})
"""Error codes after which the readiness search is sent again."""

_SOCKET_HINT = "hand over the one socket that memsyncd.socket describes, or none"
_SEARCH = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "search",
    "params": {"query": "memory", "workspace": "*", "limit": 1},
}

log = get_log("daemon")


# --- inherited socket ---


def inherit_socket(env: Mapping[str, str], pid: int) -> socket.socket | None:
    """Return the socket that systemd hands over to process `pid`; None if there is none.

    The caller checks the socket's path. Raises BadConfig for anything but one listening Unix stream
    socket of a known name: with another one, clients would get no answer.
    """
    if env.get("LISTEN_PID") != str(pid):
        return None
    count, name = env.get("LISTEN_FDS", ""), env.get("LISTEN_FDNAMES", SOCKET_NAMES[0])
    if count == "0":
        return None
    if count != "1" or name not in SOCKET_NAMES:
        raise BadConfig(
            f"expected one inherited socket called {SOCKET_NAMES[0]}, "
            f"got LISTEN_FDS={count} LISTEN_FDNAMES={name}",
            hint=_SOCKET_HINT,
        )
    os.set_inheritable(FIRST_DESCRIPTOR, False)  # noqa: FBT003 - it has no other form
    try:
        sock = socket.socket(fileno=FIRST_DESCRIPTOR)
    except OSError as error:
        message = f"inherited descriptor {FIRST_DESCRIPTOR} is no socket"
        raise BadConfig(message, hint=_SOCKET_HINT) from error
    is_stream = (sock.family, sock.type) == (socket.AF_UNIX, socket.SOCK_STREAM)
    if not (is_stream and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
        sock.detach()
        message = "the inherited socket is no Unix stream socket that listens"
        raise BadConfig(message, hint=_SOCKET_HINT)
    return sock


# --- notifications ---


class NotifySocket(msgspec.Struct, frozen=True):
    """systemd's socket for sd_notify(3).

    It expects `WATCHDOG=1` at least every `watchdog_s`; never if that is None.
    """

    address: str
    watchdog_s: float | None

    def send(self, **states: object) -> None:
        """Send `READY=1`, `STATUS=…` and so on, in one datagram.

        A datagram that cannot be sent is lost: a supervisor that is gone is no reason to end, and
        one that runs notices a missing `WATCHDOG=1` itself.
        """
        lines = (f"{name}={' '.join(str(value).split())}" for name, value in states.items())
        message = "\n".join(lines)
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
        ):
            sock.settimeout(SEND_TIMEOUT_S)
            sock.sendto(message.encode(), self.address)


def find_notify_socket(env: Mapping[str, str], pid: int) -> NotifySocket | None:
    """Return the notify socket for process `pid`; None if `NOTIFY_SOCKET` is not set.

    An address that begins with `@` is an abstract one.
    """
    address = env.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return None
    usec = env.get("WATCHDOG_USEC", "")
    is_for_pid = env.get("WATCHDOG_PID", str(pid)) == str(pid)
    has_watchdog = usec.isdecimal() and int(usec) > 0 and is_for_pid
    return NotifySocket(
        f"\0{address[1:]}" if address[0] == "@" else address,
        int(usec) / 1e6 if has_watchdog else None,
    )


class SystemdReporter:
    """Reports readiness, status and liveness to systemd, on the running loop.

    Without a notify socket all methods do nothing.
    """

    def __init__(
        self,
        notify: NotifySocket | None,
        liveness: Liveness,
        workspaces: Mapping[str, Workspace],
    ) -> None:
        self._notify = notify
        self._liveness = liveness
        self._workspaces = workspaces
        self._status_line = StatusLine()
        self._stalled: tuple[str, ...] = ()
        self.socket_problem = ""
        """Why no new client can connect; empty if one can."""
        self._sent_status = ""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, socket_path: str) -> None:
        """Begin to report: the daemon listens, and is ready as soon as it answers."""
        if self._notify is not None:
            self._report_ready(self._notify, socket_path)
            if self._notify.watchdog_s is not None:
                third_s = self._notify.watchdog_s / 3
                self._start("watchdog", self._send_watchdog(self._notify, third_s))

    def reload(self, socket_path: str) -> None:
        """Report that the configuration is reloaded, and readiness once the daemon answers."""
        if self._notify is not None:
            self._notify.send(RELOADING=1, MONOTONIC_USEC=time.monotonic_ns() // 1000)
            self._report_ready(self._notify, socket_path)

    def report_indexing(self) -> None:
        """Report the progress of indexing, from now on until no workspace is being indexed."""
        if self._notify is not None:
            self._start("indexing", self._send_indexing())

    def report_status(self) -> None:
        """Send the status line if it has changed."""
        if self._notify is None:
            return
        text = self._status_line.render(
            self._workspaces.values(), self._stalled, self.socket_problem
        )
        if text != self._sent_status:
            self._sent_status = text
            self._notify.send(STATUS=text)

    async def stop(self) -> None:
        """Report that the daemon stops, and nothing after that."""
        if self._notify is None:
            return
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._notify.send(STOPPING=1, STATUS="stopping")

    def _report_ready(self, notify: NotifySocket, socket_path: str) -> None:
        self._start("ready", self._send_ready(notify, socket_path))
        self._start("indexing", self._send_indexing())

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        if name in self._tasks:
            self._tasks[name].cancel()
        self._tasks[name] = asyncio.get_running_loop().create_task(work)

    async def _send_ready(self, notify: NotifySocket, socket_path: str) -> None:
        while not await is_answering(socket_path):
            # To open a large index may take long: that is no failed start.
            notify.send(EXTEND_TIMEOUT_USEC=round(3e6 * ANSWER_TIMEOUT_S))
            await asyncio.sleep(RETRY_S)
        notify.send(READY=1)
        self.report_status()

    async def _send_indexing(self) -> None:
        while find_indexing(self._workspaces.values()):
            self.report_status()
            await asyncio.sleep(INDEXING_STATUS_S)
        self.report_status()

    async def _send_watchdog(self, notify: NotifySocket, third_s: float) -> None:
        # A third of the watchdog's time is for the probes and a third for sleep, so that
        # `WATCHDOG=1` is never late.
        while True:
            self._stalled = await self._liveness.find_stalled(third_s)
            self.report_status()
            if self._stalled:
                reason = f"no progress for {third_s:g} s: {', '.join(self._stalled)}"
                log.error(Event.SYNC_FAILED, reason=reason)
            else:
                notify.send(WATCHDOG=1)
                await asyncio.sleep(third_s)


async def is_answering(socket_path: str) -> bool:
    """Whether a search is answered at this path.

    An error that another try would not change is an answer, too.
    """
    try:
        answer = await asyncio.wait_for(_send_search(socket_path), ANSWER_TIMEOUT_S)
    except (OSError, ValueError, TimeoutError):
        return False
    return answer.get("error", {}).get("data", {}).get("code") not in RETRY_CODES


async def _send_search(socket_path: str) -> dict[str, Any]:
    reader, writer = await asyncio.open_unix_connection(socket_path, limit=MAX_ANSWER_BYTES)
    try:
        writer.write(json.dumps(_SEARCH).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await reader.readline())
        return answer
    finally:
        writer.close()


# --- liveness ---

Probe = Callable[[], asyncio.Future[None]]
"""Starts one small task; the future is done when the part has completed it."""


class Liveness:
    """Probes each part of the daemon for progress.

    A part is not probed again before its last probe is done. `counters` belong to the parts that
    may carry out other work before the probe: a counter that grows meanwhile is progress, too.

    The event loop needs no probe: this code runs on it. A part whose probe ends with an error makes
    progress; errors are reported elsewhere.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        counters: Mapping[str, Callable[[], int]],
    ) -> None:
        self._probes = probes
        self._counters = counters
        self._pending: dict[str, asyncio.Future[None]] = {}

    async def find_stalled(self, limit_s: float) -> tuple[str, ...]:
        """Return the parts without progress within `limit_s`; at once if all make progress."""
        before = {name: count() for name, count in self._counters.items()}
        for name, start in self._probes.items():
            if name not in self._pending or self._pending[name].done():
                self._pending[name] = start()
        await asyncio.wait(self._pending.values(), timeout=limit_s)
        for probe in self._pending.values():
            if probe.done() and not probe.cancelled():
                probe.exception()  # retrieved, so that asyncio does not report it
        late = [name for name, probe in self._pending.items() if not probe.done()]
        return tuple(
            name for name in late if name not in before or self._counters[name]() == before[name]
        )


def make_probes(workspaces: Workspaces, threads: Executor) -> dict[str, Probe]:
    """Make the probes of a running daemon.

    They are a heartbeat of the worker and of the watcher's thread, a read of every index, and a
    question whether the disks of the databases answer: the worker goes on without a thread that
    waits.
    """
    loop = asyncio.get_running_loop()

    def probe_store() -> asyncio.Future[None]:
        return loop.run_in_executor(threads, _read_each, tuple(workspaces.by_id.values()))

    return {
        "writer": lambda: asyncio.wrap_future(workspaces.heartbeat()),
        "watcher": lambda: asyncio.wrap_future(workspaces.watching.probe()),
        "store": probe_store,
        "databases": workspaces.stalls.probe_databases,
    }


def _read_each(workspaces: tuple[Workspace, ...]) -> None:
    for workspace in workspaces:
        with contextlib.suppress(MemsyncdError), workspace.acquire(READ_TIMEOUT_S) as reader:
            read_digest(reader, "MEMORY.md")
