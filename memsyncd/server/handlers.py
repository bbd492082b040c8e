"""Dispatch methods: find the workspaces that a request means, and call the function that answers.

The shape of an operation says how it runs: `asking` carries out questions, `dispatch` reads and
edits of one workspace. Operations about the daemon run here, on the event loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace as replace_fields

from memsyncd import __version__
from memsyncd.engine.browse import name_from_root
from memsyncd.engine.clock import Clock
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest, WorkspaceNotFound
from memsyncd.operations.agents.declare import AgentAnswer
from memsyncd.operations.call import SharedMemory
from memsyncd.operations.daemon import Facts
from memsyncd.operations.fields import Params
from memsyncd.operations.operation import Shape, load_function
from memsyncd.operations.share.background import MemorySharing
from memsyncd.operations.table import OPERATIONS
from memsyncd.protocol.openrpc import describe_methods
from memsyncd.server.asking import Asker, PatternFinder
from memsyncd.server.places import (
    NamedWorkspace,
    PathLookup,
    choose_owner,
    find_absolute,
    replace_path,
)
from memsyncd.server.reads import Reads, wait_for_work
from memsyncd.server.session import Limits, MethodCall, Outcome, Session
from memsyncd.server.subscriptions import Subscriptions

if TYPE_CHECKING:
    from memsyncd.server.dispatch import OperationDispatcher

T = TypeVar("T")


class Handlers:
    """Carries out methods for sessions: the server calls `dispatch`."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        reads: Reads,
        facts: Facts,
        limits: Limits,
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._reads = reads
        self._limits = limits
        self._facts = facts
        self._places = PathLookup(workspaces, reads.threads, facts.socket)
        self._subscriptions = Subscriptions(workspaces)
        self._asker = Asker(workspaces, clock, reads, self._subscriptions)
        self._dispatcher: OperationDispatcher | None = None
        self.sharing = MemorySharing(workspaces, clock, self._subscriptions.notify_signal)
        daemon = ServerDaemon(workspaces, clock, self._places, facts, reads, self.sharing)
        patterns = PatternFinder(workspaces, clock, self._asker.federation, reads.run)
        self._table: dict[str, MethodCall] = {
            "rpc.discover": lambda _session, _params: describe_methods(__version__),
            "patterns": patterns.find,
            "subscribe": self._subscriptions.subscribe,
            "unsubscribe": self._subscriptions.unsubscribe,
            **{
                name: partial(self._asker.ask, operation)
                for name, operation in OPERATIONS.items()
                if operation.shape is Shape.JOIN
            },
            **daemon.methods,
        }

    def dispatch(self, session: Session, method: str, params: Params) -> Outcome:
        if fields := OPERATIONS[method].paths.absolute:
            field, file = find_absolute(params, fields)
            if file:
                return self._dispatch_by_file(session, method, params, field, file)
        return self._dispatch_to_workspace(session, method, params)

    def note_answer(self, workspace: str, answer: AgentAnswer) -> None:
        """Note an answer to an agent, in the workspace with this id."""
        named = self._workspaces.by_id.get(workspace)
        if named is not None:
            at_s = self._clock.wall_s()
            self._subscriptions.note_answer(named, replace_fields(answer, at=at_s))

    def _dispatch_to_workspace(self, session: Session, method: str, params: Any) -> Outcome:
        named = getattr(params, "workspace", None)
        names = named if isinstance(named, list) else [named]
        if any(map(self._places.needs_disk, names)):
            return self._dispatch_by_path(session, method, params, names)
        return self._call(session, method, params)

    def _call(self, session: Session, method: str, params: Any) -> Outcome:
        paths = OPERATIONS[method].paths
        if paths.are_from_root:
            scope = self._workspaces.find(params.workspace).scope
            params = name_from_root(scope, params, may_be_folder=paths.may_be_folder)
        return self._find(method)(session, params)

    async def _dispatch_by_path(
        self, session: Session, method: str, params: Any, names: Sequence[str | None]
    ) -> Any:
        paths = [name for name in names if name and self._places.needs_disk(name)]
        lookups = await asyncio.gather(*map(self._places.find, paths))
        places = dict(zip(paths, lookups, strict=True))
        if OPERATIONS[method].worktree == "join" and not getattr(params, "path", None):
            outcome = self._join_worktrees(session, method, params, names, places)
        else:
            chosen = [
                choose_owner(method, params, name, places[name]).id if name in places else name
                for name in names
            ]
            named = chosen if isinstance(params.workspace, list) else chosen[0]
            outcome = self._call(session, method, replace_fields(params, workspace=named))
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _join_worktrees(
        self,
        session: Session,
        method: str,
        params: Any,
        names: Sequence[str | None],
        places: Mapping[str, NamedWorkspace],
    ) -> Outcome:
        """Search, list or make a context in workspaces. If a linked worktree shares memory of the
        main worktree, that memory is read, too, unless the request names the whole main workspace.
        """
        chosen = [places[name].workspace.id if name and name in places else name for name in names]
        linked = {named.workspace.id: named for named in places.values() if named.worktree}
        for named in places.values():
            main = named.main if named.shared else None
            names_of_main = {main.id, main.entry.name, main.entry.root} if main else set()
            if main is not None and names_of_main.isdisjoint(chosen):
                chosen.append(main.id)
                linked[main.id] = named
        operation, is_several = OPERATIONS[method], len(chosen) > 1
        if operation.shape is not Shape.JOIN:
            [named] = places.values()
            shared = SharedMemory(named.main, named.shared) if named.main and is_several else None
            params = replace_fields(params, workspace=chosen[0])
            return self._find_dispatcher().carry_out(operation, session, params, shared)
        is_several = is_several or isinstance(params.workspace, list)
        params = replace_fields(params, workspace=chosen if is_several else chosen[0])
        return self._asker.ask(operation, session, params, linked)

    async def _dispatch_by_file(
        self, session: Session, method: str, params: Any, field: str, file: str
    ) -> Any:
        """Carry out a method for a note that is named by its absolute path.

        Raises BadRequest if the request names a workspace, too, and the note is in another.
        """
        try:
            workspace, path = await self._places.find_file(file)
        except WorkspaceNotFound:
            if params.workspace is None:
                raise
            outcome = self._dispatch_to_workspace(session, method, params)  # refuses the path
            return await outcome if inspect.isawaitable(outcome) else outcome
        named = params.workspace
        if named is not None and workspace not in await self._find_all(named):
            message = f"the path is in the workspace {workspace.entry.name}"
            raise BadRequest(message, hint="name that workspace, or leave it out")
        params = replace_path(params, field, path, workspace)
        outcome = self.dispatch(session, method, params)  # `promote` may name two notes
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def _find_all(self, name: str) -> list[Workspace]:
        """Return the workspace of a name, and the workspace whose memory it shares, if any."""
        if not self._places.needs_disk(name):
            return [self._workspaces.find(name)]
        named = await self._places.find(name)
        return [named.workspace, *filter(None, [named.main])]

    def _find(self, method: str) -> MethodCall:
        if method not in self._table:
            self._add_late_methods()
        return self._table[method]

    def _add_late_methods(self) -> None:
        dispatcher = self._find_dispatcher()
        self._table |= {
            name: partial(dispatcher.carry_out, operation)
            for name, operation in OPERATIONS.items()
            if operation.shape in (Shape.READ, Shape.STEPS)
        }

    def _find_dispatcher(self) -> OperationDispatcher:
        # Importing it, with the editing of notes, takes longer than the first answer may.
        from memsyncd.server.dispatch import OperationDispatcher
        from memsyncd.server.doctor import Doctor

        if self._dispatcher is None:
            facts = self._facts
            doctor = Doctor(
                self._workspaces,
                self._clock,
                self._reads.run,
                lambda: (facts.socket, facts.find_socket_problem(), facts.find_lock_problem()),
            )
            self._table["doctor"] = doctor.examine
            self._dispatcher = OperationDispatcher(
                self._workspaces,
                self._clock,
                self._reads,
                self._subscriptions,
                self.sharing,
                self._limits.max_reply_bytes,
            )
        return self._dispatcher


# --- the daemon itself ----------------------------------------------------------------------------


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
        sharing: MemorySharing,
    ) -> None:
        self.workspaces = workspaces
        self.sharing = sharing
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
