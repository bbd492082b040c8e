"""Check databases in full while the daemon is idle.

A thread that exists only meanwhile, with the lowest priority, checks one part of a database after
another: see `store.check_state`. While the worker has jobs, a check sleeps; a check that has slept
for long is given up, so that its snapshot does not keep the WAL, and begins again in the next idle
time. A part is checked once in each run of the daemon and once a day; the next run skips it if
nothing has written to the file since.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial

from memsyncd.engine.job_completions import call_soon
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import NotFresh, StoreCorrupt, StoreFailed
from memsyncd.store.check_state import check_part, lower_thread_priority
from memsyncd.store.index import Index
from memsyncd.store.records import Records

PAUSE_S = 0.05
MAX_SLEEP_S = 2.0

Database = Index | Records
OnDamage = Callable[[Workspace, Database, str], None]


class IdleChecks:
    """Checks the databases of workspaces, one after another. Make it on the running loop.

    `is_busy()` tells whether anything waits; it is called on the thread. `on_damage(workspace,
    database, finding)` is called on the loop.
    """

    def __init__(self, is_busy: Callable[[], bool], on_damage: OnDamage) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_busy = is_busy
        self._on_damage = on_damage
        self._lock = threading.Lock()
        self._waiting: list[Workspace] = []
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def start(self, workspace: Workspace) -> None:
        """Check what is due in the databases of an idle workspace; on the loop."""
        with self._lock:
            is_due = any(database.checks.due() for database in _databases(workspace))
            if self._is_stopping or workspace in self._waiting or not is_due:
                return
            self._waiting.append(workspace)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="memsyncd-check", daemon=True
                )
                self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Cancel the running check. Returns False if it has not ended within `timeout_s`."""
        with self._lock:
            self._is_stopping, thread = True, self._thread
        if thread is not None:
            thread.join(timeout_s)
        return thread is None or not thread.is_alive()

    # --- on the thread ---

    def _run(self) -> None:
        lower_thread_priority()
        while True:
            with self._lock:
                if self._is_stopping or not self._waiting:
                    self._thread = None
                    return
                workspace = self._waiting[0]
            # A file that cannot be opened or read is reported by those that use it; a check that
            # was given up is due again.
            with contextlib.suppress(StoreFailed, NotFresh):
                for database in _databases(workspace):
                    self._check(workspace, database)
            with self._lock:
                self._waiting.remove(workspace)

    def _check(self, workspace: Workspace, database: Database) -> None:
        for part in database.checks.due():
            must_end = partial(self._wait, workspace, database)
            try:
                found = check_part(database.open_apart(), part, is_cancelled=must_end)
            except StoreCorrupt as failure:
                found = failure.message
            if self._is_over(workspace, database):
                return
            if found:
                call_soon(self._loop, partial(self._on_damage, workspace, database, found))
                return
            database.checks.note_checked(part)

    def _wait(self, workspace: Workspace, database: Database) -> bool:
        """Sleep while the worker is busy. True if the check must end: after MAX_SLEEP_S, too."""
        end_s = time.monotonic() + MAX_SLEEP_S
        while self._is_busy() and not self._is_over(workspace, database):
            if time.monotonic() > end_s:
                return True
            time.sleep(PAUSE_S)
        return self._is_over(workspace, database)

    def _is_over(self, workspace: Workspace, database: Database) -> bool:
        """True if nobody needs the result any more."""
        is_open = database is workspace.index or database is workspace.records
        return self._is_stopping or not is_open


def _databases(workspace: Workspace) -> list[Database]:
    found: list[Database | None] = [workspace.index, workspace.records]
    return [one for one in found if one is not None]
