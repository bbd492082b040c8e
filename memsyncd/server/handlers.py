"""Which act does each method stand for? A table of methods, and between the wire's values and the
engine's the smallest step.

What can be answered at once is; what waits or reads runs as a coroutine. A search gets a few
milliseconds on the loop, which is nearly always enough, and a thread if it needs more, so that one
heavy query holds up nobody; other reading goes to one at once.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from memsyncd import PROTOCOL, __version__
from memsyncd.engine import browse, recall
from memsyncd.engine.policies import Clock, SearchPolicy
from memsyncd.engine.workspace import Workspace, read_freshness
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest, NoteNotFound, NotFresh, StoreFailed
from memsyncd.protocol import operations
from memsyncd.protocol import search as search_protocol
from memsyncd.protocol.fields import NoParams, Params, WorkspaceParams
from memsyncd.protocol.methods import describe_methods
from memsyncd.protocol.metrics import ProcessMetrics
from memsyncd.protocol.operations import AddParams, RemoveParams, SyncParams
from memsyncd.protocol.search import GetParams, ListParams, SearchParams
from memsyncd.server import convert
from memsyncd.server.asked import read_filters
from memsyncd.server.contexts import Contexts
from memsyncd.server.doctor import Doctor
from memsyncd.server.freshness import OPEN_S, WAIT_S, wait_for_disk, wait_for_work, wait_until_open
from memsyncd.server.metrics import Load, Metrics
from memsyncd.server.reads import LoopAdmission, PathLookup, Reads, overdue_error, request_arrival_s
from memsyncd.server.session import Outcome, Session
from memsyncd.server.subscriptions import Subscriptions
from memsyncd.server.writing import Writing

LOOP_BUDGET_S = 0.004
"""What a query may take of the event loop before it goes to a thread."""
LOOP_LIMIT = 20
"""Hits that are read on the loop at most: each takes time whatever it took to find them."""
ALL_WORKSPACES = "*"
SYNC_S = 600.0
WAITING_METHODS = frozenset({"sync", "search", "context"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the daemon tells of itself in `status`; the callables are asked each time."""

    pid: int
    socket: str
    config: str
    sqlite: str
    started_at_s: float
    read_process: Callable[[], ProcessMetrics]
    read_load: Callable[[], Load]
    find_socket_problem: Callable[[], str] = lambda: ""


class Handlers:
    """Carries methods out for sessions: `dispatch` is what the server calls."""

    def __init__(
        self,
        house: Workspaces,
        search_policy: SearchPolicy,
        clock: Clock,
        reads: Reads,
        facts: Facts,
    ) -> None:
        self._house = house
        self.search_policy = search_policy
        self._clock = clock
        self._facts = facts
        self._places = PathLookup(house, reads.threads, facts.socket)
        self._in_thread = reads.run
        self._loop_turns = LoopAdmission(clock)
        self._subscriptions = Subscriptions(house)
        metrics = Metrics(
            house,
            clock,
            started_at_s=facts.started_at_s,
            read_process=facts.read_process,
            read_load=facts.read_load,
            count_reads=lambda: reads.n_pending,
        )
        contexts = Contexts(
            house, self._subscriptions, clock, self._in_thread, lambda: self.search_policy
        )
        self._table: dict[str, Callable[[Session, Any], Outcome]] = {
            "ping": self._ping,
            "rpc.discover": lambda _session, _params: describe_methods(__version__),
            "status": self._status,
            "metrics": metrics.tell,
            "workspace.add": self._add,
            "workspace.remove": self._remove,
            "workspace.list": self._list_workspaces,
            "sync": self._sync,
            "search": self._search,
            "context": contexts.build,
            "get": self._get,
            "list": self._list,
            "problems": self._problems,
            "doctor": Doctor(
                house, clock, self._in_thread, lambda: (facts.socket, facts.find_socket_problem())
            ).examine,
            "subscribe": self._subscriptions.subscribe,
            "unsubscribe": self._subscriptions.unsubscribe,
            **Writing(house, clock, self._in_thread).methods,
        }

    def dispatch(self, session: Session, method: str, params: Params) -> Outcome:
        if self._places.needs_disk(getattr(params, "workspace", None)):
            return self._dispatch_by_path(session, method, params)
        return self._table[method](session, params)

    async def _dispatch_by_path(self, session: Session, method: str, params: Any) -> Any:
        workspace = await self._places.find(params.workspace)
        outcome = self._table[method](
            session, msgspec.structs.replace(params, workspace=workspace.id)
        )
        return await outcome if inspect.isawaitable(outcome) else outcome

    # --- the daemon itself ---

    def _ping(self, _session: Session, _params: NoParams) -> operations.Pong:
        return operations.Pong(
            name="memsyncd", version=__version__, protocol=PROTOCOL, pid=self._facts.pid
        )

    def _status(self, _session: Session, params: WorkspaceParams) -> operations.Status:
        facts, load = self._facts, self._facts.read_load()
        chosen = self._glance_at(
            self._all() if params.workspace is None else [self._house.find(params.workspace)]
        )
        return operations.Status(
            version=__version__,
            protocol=PROTOCOL,
            pid=facts.pid,
            uptime_s=round(self._clock.now_s() - facts.started_at_s, 3),
            rss_bytes=facts.read_process().rss_bytes,
            clients=load.n_clients,
            requests=load.counts.requests,
            failed_requests=load.counts.failed_requests,
            socket=facts.socket,
            socket_problem=facts.find_socket_problem() or None,
            config=facts.config,
            sqlite=facts.sqlite,
            workspaces=[self._tell_workspace(workspace) for workspace in chosen],
        )

    def _tell_workspace(self, workspace: Workspace) -> operations.WorkspaceStatus:
        fresh = read_freshness(workspace, self._house.policy, now_s=self._clock.now_s())
        return convert.to_workspace_status(workspace, self._house.watching.health(workspace), fresh)

    # --- workspaces ---

    def _add(self, _session: Session, params: AddParams) -> Outcome:
        path = os.path.expanduser(params.path)
        if not path.startswith("/") or "\0" in path:
            raise BadRequest("this is not an absolute path", hint="send the folder's absolute path")
        return self._add_at(path, params)

    async def _add_at(self, path: str, params: AddParams) -> operations.Workspaces:
        seen = await self._places.check_new(path)
        added = self._house.add(
            path, name=params.name or "", include=params.include, exclude=params.exclude, seen=seen
        )
        await self._places.detect_memory([added])
        return operations.Workspaces(workspaces=[convert.to_info(added)])

    def _remove(self, _session: Session, params: RemoveParams) -> operations.Workspaces:
        workspace = self._house.find(params.workspace)
        info = convert.to_info(workspace)
        self._house.remove(workspace)
        return operations.Workspaces(workspaces=[info])

    async def _list_workspaces(self, _session: Session, _params: NoParams) -> operations.Workspaces:
        await self._places.detect_memory(self._all())
        return operations.Workspaces(
            workspaces=[convert.to_info(workspace) for workspace in self._all()]
        )

    async def _sync(self, _session: Session, params: SyncParams) -> operations.SyncReport:
        workspace = self._house.find(params.workspace)
        rounds = self._house.scheduler
        future = (
            rounds.rebuild(workspace)
            if params.rebuild
            else rounds.sync(workspace, is_full=params.full)
        )
        timeout_s = params.timeout_ms / 1000 if params.timeout_ms else SYNC_S
        return convert.to_report(
            workspace, await wait_for_work(self._house, workspace, future, timeout_s)
        )

    # --- recall ---

    def _search(self, session: Session, params: SearchParams) -> Outcome:
        began_s = request_arrival_s(self._clock)
        chosen = self._glance_at(
            self._all()
            if params.workspace == ALL_WORKSPACES
            else [self._house.find(params.workspace)]
        )
        asked = self._read_search(params)
        generation = max((workspace.condition.generation for workspace in chosen), default=0)
        if params.wait == "disk" or (params.min_generation or 0) > generation:
            return self._search_fresh(chosen, asked, params, began_s)
        if any(workspace.readers is None for workspace in chosen):
            return self._search_once_open(chosen, asked, params, began_s)
        if self._clock.now_s() >= (end_s := began_s + asked.timeout_s):
            raise overdue_error()
        if len(chosen) != 1 or asked.limit > LOOP_LIMIT or not self._loop_turns.may_try(session):
            return self._search_in_thread(chosen, asked, params, began_s, end_s)
        try:
            # The time given is for SQLite alone; on the loop, running out of it is no failure yet.
            hurried = replace(asked, timeout_s=LOOP_BUDGET_S, is_hurried=True)
            with self._loop_turns.trying(session):
                found = recall.search(chosen, hurried, self.search_policy)
        except NotFresh:
            return self._search_in_thread(chosen, asked, params, began_s, end_s)
        except StoreFailed as failure:
            self._house.scheduler.report_damage(failure)
            raise
        return self._to_result(chosen, found, params, began_s)

    async def _search_fresh(
        self, chosen: Sequence[Workspace], asked: recall.Asked, params: SearchParams, began_s: float
    ) -> search_protocol.SearchResult:
        timeout_s = params.timeout_ms / 1000 if params.timeout_ms else WAIT_S
        if params.min_generation is not None:
            await wait_until_open(chosen, timeout_s)
            await self._subscriptions.wait_for_generation(chosen, params.min_generation, timeout_s)
        if params.wait == "disk":
            left_s = timeout_s - (self._clock.now_s() - began_s)
            absent = await wait_for_disk(self._house, chosen, left_s)
            asked = replace(asked, hidden=absent)
        end_s = began_s + timeout_s
        return await self._search_in_thread(
            chosen, replace(asked, timeout_s=timeout_s), params, began_s, end_s
        )

    async def _search_once_open(
        self, chosen: Sequence[Workspace], asked: recall.Asked, params: SearchParams, began_s: float
    ) -> search_protocol.SearchResult:
        await wait_until_open(chosen, asked.timeout_s)
        is_open = all(workspace.readers is not None for workspace in chosen)
        # One that is not open is refused for that, which takes no time.
        limit_s = asked.timeout_s if is_open else math.inf
        # To open an index is no part of a search's default limit.
        end_s = (began_s if params.timeout_ms else self._clock.now_s()) + limit_s
        return await self._search_in_thread(chosen, asked, params, began_s, end_s)

    async def _search_in_thread(
        self,
        chosen: Sequence[Workspace],
        asked: recall.Asked,
        params: SearchParams,
        began_s: float,
        end_s: float,
    ) -> search_protocol.SearchResult:
        found = await self._in_thread(
            partial(recall.search, chosen, asked, self.search_policy), end_s
        )
        return self._to_result(chosen, found, params, began_s)

    def _read_search(self, params: SearchParams) -> recall.Asked:
        policy = self.search_policy
        return recall.Asked(
            query=params.query,
            filters=read_filters(params.filters),
            limit=params.limit or policy.max_results,
            min_score=policy.min_score if params.min_score is None else params.min_score,
            timeout_s=params.timeout_ms / 1000 if params.timeout_ms else policy.timeout_s,
            now_s=self._clock.wall_s(),
        )

    def _to_result(
        self, chosen: Sequence[Workspace], found: recall.Found, params: SearchParams, began_s: float
    ) -> search_protocol.SearchResult:
        return search_protocol.SearchResult(
            hits=[convert.to_hit(hit, is_explained=params.explain) for hit in found.hits],
            relaxed=found.is_relaxed,
            why_empty=found.why_empty,
            did_you_mean=found.did_you_mean,
            freshness=convert.to_freshness_of(
                chosen, self._house.policy, now_s=self._clock.now_s()
            ),
            took_ms=round((self._clock.now_s() - began_s) * 1000, 3),
        )

    # --- reading ---

    async def _get(self, _session: Session, params: GetParams) -> search_protocol.Got:
        workspace = self._house.find(params.workspace)
        await wait_until_open([workspace], OPEN_S)
        place = browse.Place(
            anchor=params.anchor,
            path=params.path,
            start_line=params.start_line,
            end_line=params.end_line,
        )
        read_place = partial(browse.read_place, workspace, place, now_ns=self._clock.wall_ns())
        try:
            read = await self._in_thread(read_place, disk_of=workspace)
        except NoteNotFound:
            read = None
        if read is None or not read.is_current:
            # The note may have been saved a moment ago: its anchors and lines are known once it is
            # indexed.
            await wait_for_work(
                self._house, workspace, self._house.scheduler.scan(workspace), WAIT_S
            )
            read = await self._in_thread(read_place, disk_of=workspace)
        return convert.to_got(workspace, read)

    async def _list(self, _session: Session, params: ListParams) -> search_protocol.Listing:
        workspace = self._house.find(params.workspace)
        await wait_until_open([workspace], OPEN_S)
        asked = {"path": params.path, "kind": params.kind, "tag": params.tag}
        notes = await self._in_thread(
            partial(browse.list_notes, workspace, self.search_policy, **asked)
        )
        return search_protocol.Listing(
            workspace=workspace.id,
            notes=[convert.to_note_info(note) for note in notes],
            freshness=convert.to_freshness_of(
                [workspace], self._house.policy, now_s=self._clock.now_s()
            ),
        )

    async def _problems(
        self, _session: Session, params: WorkspaceParams
    ) -> search_protocol.Problems:
        chosen = self._all() if params.workspace is None else [self._house.find(params.workspace)]
        found = [
            (workspace, await self._in_thread(partial(browse.find_problems, workspace)))
            for workspace in chosen
        ]
        return search_protocol.Problems(
            problems=[
                convert.to_problem_info(workspace, problem)
                for workspace, problems in found
                for problem in problems
            ]
        )

    def _glance_at(self, workspaces: list[Workspace]) -> list[Workspace]:
        for workspace in workspaces:
            self._house.scheduler.quick_check(workspace)
        return workspaces

    def _all(self) -> list[Workspace]:
        return sorted(
            self._house.by_id.values(), key=lambda workspace: (workspace.entry.name, workspace.id)
        )
