"""Writes one log line for each request: method, client, duration and error code, never the content.

Results are logged at `debug`, and so are errors that are ordinary answers: the note does not exist,
or it is not the version that the writer has read. Other errors are warnings, at most `MAX_WARNINGS`
a minute, so that a client that only fails does not fill a disk; the next warning says how many were
omitted. An internal error is always logged with its traceback.
"""

from __future__ import annotations

from collections.abc import Callable

from memsyncd.errors import (
    AlreadyExists,
    Conflict,
    EditRefused,
    NoteNotFound,
    NotFound,
    WorkspaceNotFound,
)
from memsyncd.logs import Event, get_log, is_debugging
from memsyncd.server.requests import ABANDONED, CANCELLED, CompletedRequest

MAX_WARNINGS = 60
MAX_CLIENT_WARNINGS = 10
"""Of refused clients, and of dropped clients. `metrics` counts all of them."""
WINDOW_S = 60.0
ORDINARY_CODES = frozenset(
    error.code
    for error in (NotFound, WorkspaceNotFound, NoteNotFound, Conflict, AlreadyExists, EditRefused)
) | {ABANDONED, CANCELLED}

log = get_log("server")


class WarningLimit:
    """Writes at most `most` warnings a minute; the next one says how many were omitted."""

    def __init__(self, now_s: Callable[[], float], most: int = MAX_WARNINGS) -> None:
        self._now_s = now_s
        self._most = most
        self._window_from_s = float("-inf")
        self._n_warnings = 0
        self._n_omitted = 0

    def warn(self, event: Event, **values: object) -> None:
        if not self._may_warn():
            self._n_omitted += 1
            return
        omitted, self._n_omitted = {"omitted": self._n_omitted} if self._n_omitted else {}, 0
        log.warning(event, **values, **omitted)

    def _may_warn(self) -> bool:
        now_s = self._now_s()
        if now_s - self._window_from_s >= WINDOW_S:
            self._window_from_s, self._n_warnings = now_s, 0
        self._n_warnings += 1
        return self._n_warnings <= self._most


class RequestLog:
    """Logs completed requests. `now_s` is a monotonic clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._limit = WarningLimit(now_s)

    def add(self, request: CompletedRequest) -> None:
        if request.error is not None:
            reason = type(request.error).__name__
            log.error(
                Event.REQUEST_FAILED, **_fields(request), reason=reason, exc_info=request.error
            )
        elif not request.code or request.code in ORDINARY_CODES:
            if is_debugging():
                log.debug(Event.REQUEST_DONE, **_fields(request))
        else:
            self._limit.warn(Event.REQUEST_FAILED, **_fields(request))


def make_client_log(event: Event, now_s: Callable[[], float]) -> Callable[[str], None]:
    """Make a function that logs `event` for a client with a reason, at a limited rate."""
    limit = WarningLimit(now_s, MAX_CLIENT_WARNINGS)
    return lambda reason: limit.warn(event, reason=reason)


def _fields(request: CompletedRequest) -> dict[str, object]:
    return {
        "method": request.method,
        "client": request.session.name,
        "duration_ms": round(request.took_s * 1000, 1),
        **({"code": request.code} if request.code else {}),
    }
