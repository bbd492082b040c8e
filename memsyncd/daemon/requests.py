"""Which line does the log get for each request? One, with method, client, duration and the error's code; never what was asked.

Results are told to those who debug, and so are errors that are ordinary answers: what was asked for is not there, what stands
is not what the writer had seen. Other errors are warnings, but no more than so many a minute: a client that does nothing but err
must not fill a disk. How many were left out stands in the next line. An error of ours that has no name always comes with its
traceback.
"""

from __future__ import annotations

from collections.abc import Callable

from memsyncd.errors import AlreadyExists, Conflict, EditRefused, NoteNotFound, NotFound, WorkspaceNotFound
from memsyncd.logs import Event, get_log, is_debugging
from memsyncd.server.counts import ABANDONED, Answered

MAX_WARNINGS = 60
MAX_CLIENT_WARNINGS = 10
"""Of clients that were refused, and of clients that were dropped. `metrics` counts all of them."""
WINDOW_S = 60.0
ORDINARY = frozenset(
    error.code for error in (NotFound, WorkspaceNotFound, NoteNotFound, Conflict, AlreadyExists, EditRefused)
) | {ABANDONED}

log = get_log("server")


class WarningLimit:
    """Writes at most so many warnings a minute; the next one tells how many it left out."""

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
    """Takes every request that has ended. `now_s` is a clock that never goes back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._limit = WarningLimit(now_s)

    def note(self, answered: Answered) -> None:
        if answered.error is not None:
            reason = type(answered.error).__name__
            log.error(Event.REQUEST_FAILED, **_describe(answered), reason=reason, exc_info=answered.error)
        elif not answered.code or answered.code in ORDINARY:
            if is_debugging():
                log.debug(Event.REQUEST_DONE, **_describe(answered))
        else:
            self._limit.warn(Event.REQUEST_FAILED, **_describe(answered))


def make_client_log(event: Event, now_s: Callable[[], float]) -> Callable[[str], None]:
    """What warns of clients by the reason, a bounded number of times a minute."""
    limit = WarningLimit(now_s, MAX_CLIENT_WARNINGS)
    return lambda reason: limit.warn(event, reason=reason)


def _describe(answered: Answered) -> dict[str, object]:
    return {
        "method": answered.method,
        "client": answered.session.name,
        "duration_ms": round(answered.took_s * 1000, 1),
        **({"code": answered.code} if answered.code else {}),
    }
