"""Reads the lines of one client and writes its answers.

Lines are taken in bounded turns, and the answers of a turn leave with one write.

A client that does not read its answers is not read from, and in the end dropped; so is one that does not finish its line.
What a line is answered is left to `answers`, who may connect to `unix`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from memsyncd.errors import BadRequest, MemsyncdError, TooLarge
from memsyncd.protocol.jsonrpc import Batch, Call, Fault, LineSplitter, TooLong, describe_error, encode_error, join_lines
from memsyncd.server.answers import Answers, Collector, Service
from memsyncd.server.peer import is_gone
from memsyncd.server.session import Session

TURN_S = 0.001
"""How long one client's lines are worked on before others have their turn."""
LEAVE_S = 1.0
"""How often it is asked whether a client that is not read from is still there, while it waits for an answer."""

MUCH_BYTES = 256 * 1024
"""What a client may hold without anybody looking at what all of them do."""

Admit = Callable[["Connection", asyncio.Transport, Callable[[bytes], bool]], Session | None]


class Connection(asyncio.Protocol):
    """One client's connection. `admit` gives it a session, or sends it away and gives None; `leave` is called when it is lost."""

    def __init__(self, service: Service, *, admit: Admit, leave: Callable[[Connection], None]) -> None:
        self._service = service
        self._admit = admit
        self._leave = leave
        self._splitter = LineSplitter(service.limits.max_line_bytes)
        # What is not carried out yet, with the time of its arrival.
        self._todo: deque[tuple[float, bytes | TooLong | tuple[Call | Fault, Collector]]] = deque()
        self._out: list[bytes] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._transport: Any = None  # asyncio has no type for what the transports of sockets can do
        self._session: Session | None = None
        self._answers: Answers | None = None
        self._is_paused = self._has_asked = self._has_ended = False
        self._is_writable = True
        self._n_unsent_bytes = 0
        self.active_at_s = self.opened_at_s = service.loop.time()

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._session = self._admit(self, self._transport, self._tell)
        if self._session is not None:
            limits = self._service.limits
            self._answers = Answers(self._service, self._session, send=self._out_append, on_done=self._go_on)
            self._transport.set_write_buffer_limits(high=limits.max_write_buffer_bytes // 8)
            self._arm("idle", limits.idle_timeout_s, self._on_idle)

    def data_received(self, data: bytes) -> None:
        lines = self._splitter.push(data)
        if lines:
            self._has_asked = True
            self._add_lines(lines)
            self._work()
        self._watch_line(has_finished=bool(lines))
        self._look_at_held()

    def eof_received(self) -> bool:
        """The client sends no more. True keeps the connection open for answers, if there is anybody to read them."""
        self._has_ended = True
        self._disarm("line")
        if is_gone(self._transport.get_extra_info("socket")):
            return False
        self._add_lines(self._splitter.end())
        self._work()
        return not self._transport.is_closing()

    def pause_writing(self) -> None:
        self._is_writable = False
        self._n_unsent_bytes = self._transport.get_write_buffer_size()
        self._arm("write", self._service.limits.write_timeout_s, self._on_unread)

    def resume_writing(self) -> None:
        self._is_writable = True
        self._disarm("write")
        self._steer()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # why it is lost changes nothing
        for name in tuple(self._timers):
            self._disarm(name)
        self._todo.clear()
        closers = self._session.take_closers() if self._session is not None else []
        if self._answers is not None:
            self._answers.forget()
        for callback in closers:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the other callbacks must not suffer
                self._service.on_error(error, "close")
        self._leave(self)

    # --- called by the server

    def work_on(self) -> None:
        """Take more of the lines that are here."""
        if not self._transport.is_closing():
            self._work()

    @property
    def is_expendable(self) -> bool:
        """True if closing this one hurts nobody much: it has never asked, or asks no more and has all its answers."""
        return not self._has_asked or (self._has_ended and not self._n_pending)

    @property
    def n_held_bytes(self) -> int:
        """What is kept for this client alone: its unfinished line, and what it has not read yet."""
        return self._splitter.n_held_bytes * (not self._transport.is_closing()) + int(self._transport.get_write_buffer_size())

    def drop(self, reason: str) -> None:
        """Cut the connection now, whatever is still unsent."""
        if not self._transport.is_closing():
            self._service.counts.dropped += 1
            self._service.on_drop(reason)
        self._transport.abort()

    def refuse(self, error: MemsyncdError) -> None:
        """Say one thing that nobody asked for, and close."""
        self._write(encode_error(None, describe_error(error)) + b"\n")
        self.close()

    def close(self) -> None:
        """Close once what was written has been read, or is left unread for too long."""
        self._n_unsent_bytes = self._transport.get_write_buffer_size()
        if self._n_unsent_bytes:
            self._arm("write", self._service.limits.write_timeout_s, self._on_unread)
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # --- lines

    @property
    def _n_pending(self) -> int:
        return self._session.n_pending if self._session is not None else 0

    def _can_work(self) -> bool:
        return self._is_writable and self._n_pending < self._service.limits.max_pending_per_client

    def _add_lines(self, lines: Iterable[bytes | TooLong]) -> None:
        arrived_s = self._service.loop.time()
        self._todo.extend((arrived_s, line) for line in lines)

    def _work(self) -> None:
        """Take lines for one turn."""
        time, todo = self._service.loop.time, self._todo
        self.active_at_s = time()
        until_s = self.active_at_s + TURN_S
        while todo and self._can_work():
            self._take(*todo.popleft())
            if time() > until_s:
                break
        self._go_on()

    def _take(self, arrived_s: float, item: bytes | TooLong | tuple[Call | Fault, Collector]) -> None:
        assert self._answers is not None  # only an admitted client is read from
        if isinstance(item, bytes):
            message = self._service.parser.parse_line(item)
            if isinstance(message, Batch):
                collector = Collector(len(message.items))
                self._todo.extendleft((arrived_s, (part, collector)) for part in reversed(message.items))
            else:
                self._answers.take(message, arrived_s=arrived_s)
        elif isinstance(item, TooLong):
            limit = self._service.limits.max_line_bytes
            hint = "send it in parts, or raise max_line_bytes under [socket]"
            fault = Fault(describe_error(TooLarge(f"the request is over {limit} bytes", hint=hint)))
            self._answers.take(fault, arrived_s=arrived_s)
        else:
            self._answers.take(*item, arrived_s=arrived_s)

    def _go_on(self) -> None:
        self._flush()
        self._steer()

    def _steer(self) -> None:
        """Decide what comes next: more lines that are here already, more bytes, nothing for now, or the end."""
        if self._transport.is_closing():
            return
        can_work = self._can_work()
        if self._todo and can_work:
            self._service.backlog.add(self)
        if self._has_ended:
            self._end_if_done()
        elif self._is_paused != (bool(self._todo) or not can_work):
            self._is_paused = not self._is_paused
            (self._transport.pause_reading if self._is_paused else self._transport.resume_reading)()
        self._watch_leaving()

    def _end_if_done(self) -> None:
        is_listening = self._session is not None and self._session.is_listening
        if not (self._todo or self._n_pending or is_listening):
            self.close()

    # --- writing

    def _out_append(self, answer: bytes) -> None:
        self._out.append(answer)

    def _flush(self) -> None:
        if self._out:
            data = join_lines(self._out)
            self._out.clear()
            self._write(data)

    def _tell(self, line: bytes) -> bool:
        self._flush()
        return self._write(line + b"\n")

    def _write(self, data: bytes) -> bool:
        transport = self._transport
        if transport.is_closing():
            return False
        if transport.get_write_buffer_size() > self._service.limits.max_write_buffer_bytes:
            self.drop("it leaves too much unread")
            return False
        transport.write(data)
        self._look_at_held()
        return not transport.is_closing()

    def _look_at_held(self) -> None:
        if self.n_held_bytes > MUCH_BYTES:
            self._service.on_held()

    # --- time: no timer runs unless something is unfinished

    def _arm(self, name: str, after_s: float, callback: Callable[[], None]) -> None:
        self._disarm(name)
        if after_s:
            self._timers[name] = self._service.loop.call_later(after_s, callback)

    def _disarm(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _watch_line(self, *, has_finished: bool) -> None:
        if not self._splitter.is_inside_line or self._transport.is_closing():
            self._disarm("line")
        elif has_finished or "line" not in self._timers:
            self._arm("line", self._service.limits.line_timeout_s, self._on_unfinished)

    def _on_unfinished(self) -> None:
        timeout_s = self._service.limits.line_timeout_s
        if self._is_paused:  # the rest of the line may well be there, unread by us
            self._arm("line", timeout_s, self._on_unfinished)
            return
        self._service.counts.dropped += 1
        self._service.on_drop("it does not finish its line")
        self.refuse(BadRequest(f"the request was not finished within {timeout_s:g} s", hint="end each request with a newline"))

    def _watch_leaving(self) -> None:
        """Whoever is read from is heard leaving; whoever is not has to be asked after."""
        if not self._n_pending or not (self._has_ended or self._is_paused) or self._transport.is_closing():
            self._disarm("leave")
        elif "leave" not in self._timers:
            self._arm("leave", LEAVE_S, self._on_unheard)

    def _on_unheard(self) -> None:
        self._disarm("leave")
        if is_gone(self._transport.get_extra_info("socket")):
            self.abort()
        else:
            self._watch_leaving()

    def _on_unread(self) -> None:
        n_unsent_bytes = self._transport.get_write_buffer_size()
        if n_unsent_bytes >= self._n_unsent_bytes:
            self.drop("it does not read")
        else:
            self._n_unsent_bytes = n_unsent_bytes
            self._arm("write", self._service.limits.write_timeout_s, self._on_unread)

    def _on_idle(self) -> None:
        timeout_s = self._service.limits.idle_timeout_s
        quiet_s = self._service.loop.time() - self.active_at_s
        is_busy = self._todo or self._n_pending or (self._session is not None and self._session.is_listening)
        if is_busy or quiet_s < timeout_s:
            self._arm("idle", timeout_s if is_busy else timeout_s - quiet_s, self._on_idle)
        else:
            self.close()
