"""One connection to the daemon for all views, which opens again by itself.

It runs on the event loop. It sends requests at once, and the daemon answers them in any order; a
caller that is cancelled gets no answer. A lost connection is opened again, with the subscription
to changes, until the application ends.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from memsyncd.client import Client, NoAnswer, connect
from memsyncd.client.connection import START_HINT, make_error, parse_message, render_request
from memsyncd.errors import MemsyncdError, NoDaemon
from memsyncd.terminal.console import GRACE_S

# A daemon accepts a connection at once; otherwise the client tries again.
CONNECT_S = 5.0
RETRY_S = 0.5
ANSWER_S = 30.0
# Room for a note of 2 MiB in which every character is escaped.
MAX_LINE_BYTES = 64 * 1024 * 1024


class DaemonGone(NoDaemon):
    """The connection is lost, and the client tries to connect again."""

    code = "daemon_gone"


class SharedClient:
    """The connection. `on_changed` gets the parameters of each `changed` notification; `on_state`
    gets None after connecting, and the error if that fails or the connection is lost.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        on_changed: Callable[[dict[str, Any]], None],
        on_state: Callable[[MemsyncdError | None], None],
    ) -> None:
        self._env = env
        self._on_changed = on_changed
        self._on_state = on_state
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last_id = 0

    async def run(self) -> None:
        """Keep the connection until the task is cancelled."""
        while True:
            try:
                client = await asyncio.to_thread(connect, env=self._env, timeout_s=CONNECT_S)
                await self._serve(client)
            except MemsyncdError as error:
                self._on_state(error)
            await asyncio.sleep(RETRY_S)

    async def call(
        self, method: str, *, timeout_ms: int | None = None, **params: object
    ) -> dict[str, Any]:
        """Call a method and return its result. Parameters that are None are not sent.

        Raises the daemon's error, DaemonGone without a connection, NoAnswer without an answer.
        """
        timeout_s = ANSWER_S if timeout_ms is None else timeout_ms / 1000 + GRACE_S
        params["timeout_ms"] = timeout_ms
        if self._writer is None:
            raise _gone()
        self._last_id += 1
        number = self._last_id
        sent = {name: value for name, value in params.items() if value is not None}
        line = render_request({"jsonrpc": "2.0", "id": number, "method": method, "params": sent})
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(line)
            return await asyncio.wait_for(answer, timeout_s)
        except TimeoutError:
            raise NoAnswer(
                f"the daemon did not answer within {timeout_s:g} s",
                hint="try again, or see what is wrong with `memsyncd doctor`",
            ) from None
        finally:
            self._answers.pop(number, None)

    async def _serve(self, client: Client) -> None:
        """Read until the daemon closes the connection, then raise DaemonGone."""
        stream = socket.socket(fileno=client.detach().detach())
        reader, self._writer = await asyncio.open_unix_connection(sock=stream, limit=MAX_LINE_BYTES)
        reading = asyncio.create_task(self._read(reader))
        try:
            await self.call("subscribe")
            self._on_state(None)
            await reading
        finally:
            reading.cancel()
            writer, self._writer = self._writer, None
            writer.close()
            self._fail_all()
            with suppress(OSError):
                await writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await reader.readline()
            except (OSError, ValueError):
                line = b""
            if not line.endswith(b"\n"):
                self._fail_all()
                raise _gone()
            if line.strip():
                self._take(parse_message(line))

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("method") == "changed":
            self._on_changed(dict(message.get("params") or {}))
            return
        answer = self._answers.get(message.get("id") or 0)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(make_error(message["error"]))
        else:
            answer.set_result(dict(message.get("result") or {}))

    def _fail_all(self) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(_gone())


def _gone() -> DaemonGone:
    return DaemonGone("the daemon does not answer; trying again", hint=START_HINT)
