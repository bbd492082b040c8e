"""Carries out the operations about the daemon and its workspaces, which are functions of their
folders, with what the server knows.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from memsyncd.engine.clock import Clock
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.operations.daemon import Facts
from memsyncd.operations.operation import Shape, load_function
from memsyncd.operations.table import OPERATIONS
from memsyncd.server.reads import PathLookup, Reads
from memsyncd.server.session import MethodCall, Outcome, Session
from memsyncd.server.waits import wait_for_work

T = TypeVar("T")


class ServerDaemon:
    """The daemon, as `operations.daemon.Daemon` describes it; `methods` carries out its operations.

    Their modules are imported at once: after an update of the package on the disk, a daemon that
    still runs must answer `ping` and `status` by its own code.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        places: PathLookup,
        facts: Facts,
        reads: Reads,
    ) -> None:
        self.workspaces = workspaces
        self.clock = clock
        self.places = places
        self.facts = facts
        self._reads = reads
        self.methods: dict[str, MethodCall] = {
            name: partial(self._carry_out, load_function(operation.run))
            for name, operation in OPERATIONS.items()
            if operation.shape is Shape.DAEMON
        }

    def count_reads(self) -> int:
        return self._reads.n_pending

    async def read(self, read: Callable[[], T]) -> T:
        return await self._reads.run(read)

    async def finish(self, workspace: Workspace, work: Future[T], limit_s: float) -> T:
        return await wait_for_work(self.workspaces, workspace, work, limit_s)

    def _carry_out(self, run: Callable[..., Outcome], _session: Session, params: Any) -> Outcome:
        return run(self, params)
