"""What does the daemon say of itself, and in which form? Each event has one name, each key one meaning; both stand here.

Lines are JSON for programs and short `key=value` text for people. Whatever becomes of the stream (closed, full disk), nothing is
raised into the daemon: the line is lost and counted. A key for a note's text or a query does not exist, so neither is logged.
"""

from __future__ import annotations

import json
import logging
import select
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

import structlog
from structlog.stdlib import BoundLogger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from structlog.typing import EventDict, WrappedLogger

ROOT = "memsyncd"
_FIELDS = "memsyncd_fields"
_OWN = logging.getLogger(ROOT)
PIECE_CHARACTERS = select.PIPE_BUF // 4
"""A pipe that has room at all has room for so many, whatever they are."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Event(StrEnum):
    """What may happen. The sentence is for whoever reads the log."""

    DAEMON_STARTED = "daemon_started"
    """A process has begun; nothing is served yet."""
    DAEMON_READY = "daemon_ready"
    """The socket answers; first indexes may still be running."""
    DAEMON_STOPPING = "daemon_stopping"
    """Asked to end; requests that run are answered first."""
    DAEMON_STOPPED = "daemon_stopped"
    """The last line of an orderly end."""
    WORKSPACE_ADDED = "workspace_added"
    WORKSPACE_REMOVED = "workspace_removed"
    WORKSPACE_MISSING = "workspace_missing"
    """The folder is not there; its index is kept and searched."""
    WORKSPACE_BACK = "workspace_back"
    WORKSPACE_STALLED = "workspace_stalled"
    WORKSPACE_RECOVERED = "workspace_recovered"
    SYNC_DONE = "sync_done"
    """A sync is over; one that found nothing new is told to those who debug alone."""
    SYNC_FAILED = "sync_failed"
    """The index is as before; the next event or reconcile tries again."""
    INDEX_REBUILT = "index_rebuilt"
    RECORDS_RESTORED = "records_restored"
    """A backup took the place of a workspace's history."""
    INDEX_CORRUPT = "index_corrupt"
    """The file is damaged and will be built anew."""
    STORE_FULL = "store_full"
    """No space on the disk: searches go on, changes wait."""
    WATCH_DOUBT = "watch_doubt"
    """Events may have been lost: a full scan follows."""
    WATCH_REBUILT = "watch_rebuilt"
    WATCH_DEGRADED = "watch_degraded"
    """Events do not arrive; timed scans see changes."""
    MISSED_EVENTS = "missed_events"
    """A scan found a change that no event had announced."""
    REQUEST_DONE = "request_done"
    """A request was answered, if only with what is not there, or nobody waits for its answer any more."""
    REQUEST_FAILED = "request_failed"
    """A request could not be carried out; an error with a traceback if that is our fault, not the caller's."""
    SOCKET_REBOUND = "socket_rebound"
    """Its file was taken away: the daemon listens anew at the same place."""
    SOCKET_BLOCKED = "socket_blocked"
    """Something that is no socket has its place, or it cannot be bound: no new client can connect."""
    SOCKET_LOST = "socket_lost"
    """Another daemon has the socket's place: this one ends."""
    CLIENT_REFUSED = "client_refused"
    """Another user's process, or one client too many."""
    CLIENT_DROPPED = "client_dropped"
    """A client that sent too much, or read too slowly."""
    CONFIG_RELOADED = "config_reloaded"
    CONFIG_REFUSED = "config_refused"
    """A changed configuration is wrong; the old one stays."""
    CONFIG_WARNING = "config_warning"
    """Something in the configuration is ignored."""
    LIBRARY_MESSAGE = "library_message"
    """What a library or Python itself had to say."""


class Key(StrEnum):
    """What an event may tell. Units stand in the name."""

    WORKSPACE = "workspace"
    ROOT = "root"
    GENERATION = "generation"
    ADDED = "added"
    MODIFIED = "modified"
    MOVED = "moved"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    UPSERTED = "upserted"
    DELETED = "deleted"
    WORKSPACES = "workspaces"
    METHOD = "method"
    CLIENT = "client"
    CODE = "code"
    OMITTED = "omitted"
    REASON = "reason"
    HINT = "hint"
    WATCHER = "watcher"
    COUNT = "count"
    KEYS = "keys"
    SOCKET = "socket"
    CONFIG = "config"
    VERSION = "version"
    PID = "pid"
    DURATION_MS = "duration_ms"
    LOGGER = "logger"
    MESSAGE = "message"
    EXCEPTION = "exception"
    EXC_INFO = "exc_info"
    """Not shown itself: asks for `exception`, the traceback."""


def is_debugging() -> bool:
    """Whether debug lines of our own are heard: to be asked where so many are made that making them costs too much."""
    return _OWN.isEnabledFor(logging.DEBUG)


def count_lost_lines() -> int:
    """How many lines could not be written since the logs were set up."""
    return sum(one.n_lost_lines for one in logging.getLogger().handlers if isinstance(one, LineHandler))


class LineStream(Protocol):
    """Where lines go: `sys.stderr`, a file, or a screen that keeps its progress line below them."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


def get_log(room: str) -> BoundLogger:
    """The log of one room (`watch`, `server`, …): `log.info(Event.SYNC_DONE, workspace=…, duration_ms=…)`."""
    log: BoundLogger = structlog.get_logger(f"{ROOT}.{room}")
    return log


def set_up_logs(
    *,
    level: Literal["debug", "info", "warning", "error"],
    format: Literal["auto", "json", "console"],  # noqa: A002 - the key's name in the configuration
    stream: LineStream | None,
    is_terminal: bool,
) -> LineHandler:
    """Send everything to `stream` (None: stderr), from now on and in this form; a later call replaces an earlier one.

    Libraries are heard from warnings up, whatever the level: watchdog's debug lines would outnumber ours a thousand to one.
    """
    is_console = format == "console" or (format == "auto" and is_terminal)
    handler = LineHandler(stream)
    handler.setFormatter(_ConsoleFormatter() if is_console else _JsonFormatter())
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, LineHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(_LEVELS[level], logging.WARNING))
    logging.getLogger(ROOT).setLevel(_LEVELS[level])
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, _hand_over],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=True,
    )
    return handler


class LineHandler(logging.StreamHandler[LineStream]):
    """Writes lines, and loses them quietly when the stream is gone or has no room: `n_lost_lines` counts them."""

    def __init__(self, stream: LineStream | None) -> None:
        super().__init__(sys.stderr if stream is None else stream)
        self.n_lost_lines = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Nobody may be reading the pipe, and a log is not worth waiting for: a line that was begun may stay unfinished."""
        try:
            line = f"{self.format(record)}\n"
            for start in range(0, len(line), PIECE_CHARACTERS):
                if not _has_room(self.stream):
                    raise BlockingIOError
                self.stream.write(line[start : start + PIECE_CHARACTERS])
                self.stream.flush()
        except Exception:  # noqa: BLE001 - nothing that a log cannot do concerns those who wrote to it
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - logging's name and signature
        self.n_lost_lines += 1


def _has_room(stream: LineStream) -> bool:
    """True if a piece can be written without waiting, or if that cannot be told."""
    try:
        fd: int = stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return True
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))


def _hand_over(_log: WrappedLogger, _name: str, event: EventDict) -> tuple[tuple[str], Mapping[str, object]]:
    """Turn structlog's event into the arguments of a standard logger; it is rendered only if a handler wants it."""
    name = event.pop("event")
    exc_info = event.pop(Key.EXC_INFO, None)
    # In one key, since `extra` raises when a field is called as one of a record's own: name, args, message, …
    return (str(name),), {"exc_info": exc_info, "extra": {_FIELDS: event}}


def _find_fields(record: logging.LogRecord) -> dict[str, object]:
    """Event, fields and traceback of our own records, and of libraries' messages."""
    own: dict[str, object] | None = getattr(record, _FIELDS, None)
    if own is None:
        fields: dict[str, object] = {
            "event": Event.LIBRARY_MESSAGE,
            Key.LOGGER: record.name,
            Key.MESSAGE: record.getMessage(),
        }
    else:
        fields = {"event": record.msg, **own}
    if record.exc_info and record.exc_info[0]:
        fields[Key.EXCEPTION] = logging.Formatter().formatException(record.exc_info)
    return fields


class _JsonFormatter(logging.Formatter):
    """One JSON object a line, pure ASCII: no stream's encoding and no file's odd name can spoil it."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        head = {"at": at.replace("+00:00", "Z"), "level": record.levelname.lower()}
        return json.dumps({**head, **_find_fields(record)}, default=str)


class _ConsoleFormatter(logging.Formatter):
    """`22:38:46 warning watch_doubt reason="queue overflow"`, local time, a traceback indented beneath."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _find_fields(record)
        event, trace = fields.pop("event"), fields.pop(Key.EXCEPTION, "")
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        words = [at, f"{record.levelname.lower():<7}", str(event)]
        words += [f"{key}={_render_value(value)}" for key, value in fields.items() if value is not None]
        lines = [" ".join(words), *(f"    {escape(line)}" for line in str(trace).split("\n") if line)]
        return "\n".join(lines)


def _render_value(value: object) -> str:
    text = f"{value:.1f}" if isinstance(value, float) else str(value)
    if text and not any(mark in text for mark in ' "='):
        return escape(text)
    return '"' + escape(text).replace('"', '\\"') + '"'


def escape(text: str) -> str:
    """The text with line ends, control and other invisible characters as escapes: a file's name must not steer a terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
