"""Define the events and keys of the daemon's log, and write its lines.

Lines are JSON for programs and short `key=value` text for people. If the stream fails (closed, full
disk), the daemon gets no error: the line is lost and counted. There is no key for a note's text or
a query, so neither is logged.
"""

from __future__ import annotations

import json
import logging
import select
import sys
from collections import deque
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from structlog.stdlib import BoundLogger
    from structlog.typing import EventDict, WrappedLogger

ROOT = "memsyncd"
_FIELDS = "memsyncd_fields"
_OWN = logging.getLogger(ROOT)
# A writable pipe has room for PIPE_BUF bytes; a character has at most four bytes.
WRITE_CHARACTERS = select.PIPE_BUF // 4
KEPT_LINES, KEPT_CHARACTERS = 200, 500
"""The number of lines that are kept in memory, and the characters that are kept of each."""
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class Event(StrEnum):
    """The events of the log."""

    DAEMON_STARTED = "daemon_started"
    """The process has started; it serves nothing yet."""
    DAEMON_READY = "daemon_ready"
    """The socket answers; first indexes may still be running."""
    DAEMON_STOPPING = "daemon_stopping"
    """The daemon stops; it answers running requests first."""
    DAEMON_STOPPED = "daemon_stopped"
    """The last line of a clean stop."""
    WORKSPACE_ADDED = "workspace_added"
    WORKSPACE_REMOVED = "workspace_removed"
    WORKSPACE_MISSING = "workspace_missing"
    """The folder does not exist; its index is kept and searched."""
    WORKSPACE_BACK = "workspace_back"
    """The missing folder exists again."""
    WORKSPACE_STALLED = "workspace_stalled"
    """The disk of the folder does not answer."""
    WORKSPACE_RECOVERED = "workspace_recovered"
    SYNC_DONE = "sync_done"
    """A sync has ended; logged at debug if it found no change."""
    SYNC_FAILED = "sync_failed"
    """The index is unchanged; the next event or reconcile tries again."""
    RECORDS_RESTORED = "records_restored"
    """A backup replaced the history of a workspace."""
    INDEX_REBUILT = "index_rebuilt"
    INDEX_WORKER_FAILED = "index_worker_failed"
    """The process that fills an index has died: another process continues, or the daemon itself."""
    INDEX_CORRUPT = "index_corrupt"
    """The file is damaged and will be rebuilt."""
    SEMANTIC_FAILED = "semantic_failed"
    """Vectors cannot be made, stored or compared: searches use words alone."""
    SEMANTIC_READY = "semantic_ready"
    """All chunks have vectors; logged at debug."""
    STORE_FULL = "store_full"
    """The disk is full: searches work, changes wait."""
    EVENTS_LOST = "events_lost"
    """File events may have been lost: a full scan follows."""
    WATCH_REBUILT = "watch_rebuilt"
    WATCH_DEGRADED = "watch_degraded"
    """No file events arrive; changes are found by reconciles."""
    MISSED_EVENTS = "missed_events"
    """A scan found a change without a file event."""
    REQUEST_DONE = "request_done"
    """A request was answered, perhaps with an error (`note_not_found`), or its client left."""
    REQUEST_FAILED = "request_failed"
    """A request was refused or failed; an internal error is logged with its traceback."""
    SOCKET_REBOUND = "socket_rebound"
    """The socket's file was removed: the daemon listens again at the same path."""
    LOCK_PROBLEM = "lock_problem"
    """A folder cannot be locked, or its lock file cannot be written: a second daemon may start."""
    SOCKET_BLOCKED = "socket_blocked"
    """The socket cannot be bound again: no new client can connect."""
    SOCKET_LOST = "socket_lost"
    """Another daemon listens at the socket's path, or has a folder's lock: this daemon stops."""
    CLIENT_REFUSED = "client_refused"
    """The client belongs to another user, or there are too many."""
    CLIENT_DROPPED = "client_dropped"
    """The client sent too much, or read too slowly."""
    CONFIG_RELOADED = "config_reloaded"
    CONFIG_REFUSED = "config_refused"
    """The changed configuration is invalid; the old one stays in force."""
    CONFIG_WARNING = "config_warning"
    """A part of the configuration is ignored."""
    LIBRARY_MESSAGE = "library_message"
    """A warning of a library or of Python."""


KEYS = frozenset(
    """workspace workspaces root generation added modified moved removed unchanged failed upserted
    deleted method client code omitted reason hint watcher count keys socket config version pid
    duration_ms logger message exception exc_info""".split()
)
"""The keys of events. A key of a quantity ends with its unit. `exc_info` is not shown: it adds
`exception`, the traceback."""


def is_debugging() -> bool:
    """True if the daemon logs at debug. Ask before making frequent lines."""
    return _OWN.isEnabledFor(logging.DEBUG)


def count_lost_lines() -> int:
    """Return how many lines could not be written since the logs were set up."""
    return sum(
        handler.n_lost_lines
        for handler in logging.getLogger().handlers
        if isinstance(handler, LineHandler)
    )


class LineStream(Protocol):
    """The target of lines: `sys.stderr`, a file, or a terminal with a progress line."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


def get_log(room: str) -> Log:
    """Return the log of a package (`watch`, `server`, …).

    Use it as `log.info(Event.SYNC_DONE, workspace=…, duration_ms=…)`.
    """
    return Log(f"{ROOT}.{room}")


class Log:
    """The log of a package. The first line that is written imports structlog.

    A daemon that starts and finds nothing new writes no line; the import takes 12 ms and 1 MB.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._logger = logging.getLogger(name)
        self._bound: BoundLogger | None = None

    def debug(self, event: str, **fields: Any) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._bind().debug(event, **fields)

    def info(self, event: str, **fields: Any) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._bind().info(event, **fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._bind().warning(event, **fields)

    def error(self, event: str, **fields: Any) -> None:
        self._bind().error(event, **fields)

    def _bind(self) -> BoundLogger:
        if self._bound is None:
            import structlog

            _configure_structlog()
            self._bound = structlog.get_logger(self._name)
        return self._bound


def set_up_logs(
    *,
    level: Literal["debug", "info", "warning", "error"],
    format: Literal["auto", "json", "console"],  # noqa: A002 - the key's name in the configuration
    stream: LineStream | None,
    is_terminal: bool,
) -> LineHandler:
    """Write all lines to `stream` (None: stderr) in this format. A later call replaces this one.

    Messages of libraries are logged only from warnings up, whatever the level: for each line of the
    daemon watchdog would write a thousand debug lines.
    """
    is_console = format == "console" or (format == "auto" and is_terminal)
    handler = LineHandler(stream)
    handler.setFormatter(_ConsoleFormatter() if is_console else _JsonFormatter())
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, LineHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(_LEVELS[level], logging.WARNING))
    logging.getLogger(ROOT).setLevel(_LEVELS[level])
    logging.captureWarnings(capture=True)
    return handler


def read_recent_lines() -> list[str]:
    """Return the last lines of the log, the oldest first."""
    root = logging.getLogger()
    handlers = (handler for handler in root.handlers if isinstance(handler, LineHandler))
    return [line for handler in handlers for line in handler.recent]


def _configure_structlog() -> None:
    import structlog

    if not structlog.is_configured():
        structlog.configure(
            processors=[structlog.stdlib.filter_by_level, _to_logger_arguments],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=True,
        )


class LineHandler(logging.StreamHandler[LineStream]):
    """Writes lines, and counts the lines that are lost because the stream is closed or full."""

    def __init__(self, stream: LineStream | None) -> None:
        super().__init__(sys.stderr if stream is None else stream)
        self.n_lost_lines = 0
        self.recent: deque[str] = deque(maxlen=KEPT_LINES)
        """The last lines, including lines that could not be written."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line without waiting for the reader of a pipe. A part of the line may be lost."""
        try:
            line = f"{self.format(record)}\n"
            self.recent.append(line[:KEPT_CHARACTERS].rstrip("\n"))
            for start in range(0, len(line), WRITE_CHARACTERS):
                if not _has_room(self.stream):
                    raise BlockingIOError
                self.stream.write(line[start : start + WRITE_CHARACTERS])
                self.stream.flush()
        except Exception:  # noqa: BLE001 - a failure of the log must not reach its callers
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - logging's
        self.n_lost_lines += 1


def _has_room(stream: LineStream) -> bool:
    """True if a piece of a line can be written without waiting, or if that is unknown."""
    try:
        fd: int = stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return True
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))


def _to_logger_arguments(
    _log: WrappedLogger, _name: str, event: EventDict
) -> tuple[tuple[str], Mapping[str, object]]:
    """Turn structlog's event into the arguments of a standard logger, which renders it later."""
    name = event.pop("event")
    exc_info = event.pop("exc_info", None)
    # All fields are in a single key: `extra` raises for a field that has the name of a field of the
    # record itself, such as name, args or message.
    return (str(name),), {"exc_info": exc_info, "extra": {_FIELDS: event}}


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return event, fields and traceback of a record of the daemon or of a library."""
    own: dict[str, object] | None = getattr(record, _FIELDS, None)
    if own is None:
        fields: dict[str, object] = {
            "event": Event.LIBRARY_MESSAGE,
            "logger": record.name,
            "message": record.getMessage(),
        }
    else:
        fields = {"event": record.msg, **own}
    if record.exc_info and record.exc_info[0]:
        fields["exception"] = logging.Formatter().formatException(record.exc_info)
    return fields


class _JsonFormatter(logging.Formatter):
    """A JSON object for each line, in ASCII, so that it suits every encoding and file name."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        head = {"at": at.replace("+00:00", "Z"), "level": record.levelname.lower()}
        return json.dumps({**head, **_fields_of(record)}, default=str)


class _ConsoleFormatter(logging.Formatter):
    """`22:38:46 warning events_lost reason="queue overflow"`: local time, traceback indented."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields_of(record)
        event, trace = fields.pop("event"), fields.pop("exception", "")
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        words = [at, f"{record.levelname.lower():<7}", str(event)]
        words += [
            f"{key}={_render_value(value)}" for key, value in fields.items() if value is not None
        ]
        lines = [
            " ".join(words),
            *(f"    {escape(line)}" for line in str(trace).split("\n") if line),
        ]
        return "\n".join(lines)


def _render_value(value: object) -> str:
    text = f"{value:.1f}" if isinstance(value, float) else str(value)
    if text and not any(mark in text for mark in ' "='):
        return escape(text)
    return '"' + escape(text).replace('"', '\\"') + '"'


def escape(text: str) -> str:
    """Return the text with line ends, control and other invisible characters escaped.

    A file's name must not control a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
