"""Dispatches methods to the functions that carry them out, and answers the methods that read.

What can be answered at once is; what waits or reads runs as a coroutine. A search may take a few
milliseconds of the event loop, which is nearly always enough, and moves to a thread if it needs
more, so that one heavy query does not hold up other clients. Other reads run in a thread at once.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from msgspec.structs import asdict
from msgspec.structs import replace as replace_fields

from memsyncd import __version__
from memsyncd.engine import browse
from memsyncd.engine.clock import Clock
from memsyncd.engine.context import build_context
from memsyncd.engine.search import RunOptions, search
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import NoteNotFound, NotFresh, StoreFailed
from memsyncd.protocol.fields import Freshness, Params, WorkspaceParams
from memsyncd.protocol.methods import describe_methods
from memsyncd.protocol.search import (
    ContextParams,
    ContextResult,
    GetParams,
    Got,
    Links,
    LinksParams,
    Listing,
    ListParams,
    MemoryStats,
    Problems,
    SearchAnswer,
    SearchParams,
    SearchResult,
    StatsParams,
)
from memsyncd.server.operations import Facts, Operations, choose_workspaces, describe_freshness
from memsyncd.server.reads import LoopAdmission, PathLookup, Reads, overdue_error, request_arrival_s
from memsyncd.server.session import Outcome, Session
from memsyncd.server.subscriptions import Subscriptions
from memsyncd.server.waits import (
    OPEN_S,
    WAIT_S,
    wait_for_disk,
    wait_for_work,
    wait_until_done,
    wait_until_open,
)

# What a search may take of the event loop before it moves to a thread.
LOOP_BUDGET_S = 0.004
# A search for more hits runs in a thread at once: reading each hit takes time, however fast it was
# found.
LOOP_LIMIT = 20
# How long a search waits for a save that is being indexed. It would compete with that for the
# interpreter's lock, and miss it.
SAVE_WAIT_S = 0.005
ALL_WORKSPACES = "*"
# The last two are those of MCP that call the others.
WAITING_METHODS = frozenset({"sync", "search", "context", "tools/call", "prompts/get"})


class Handlers:
    """Carries out methods for sessions: the server calls `dispatch`."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        reads: Reads,
        facts: Facts,
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._places = PathLookup(workspaces, reads.threads, facts.socket)
        self._in_thread = reads.run
        self._loop_turns = LoopAdmission(clock)
        self._subscriptions = Subscriptions(workspaces)
        self._facts = facts
        operations = Operations(workspaces, clock, self._places, facts, lambda: reads.n_pending)
        self._table: dict[str, Callable[[Session, Any], Outcome]] = {
            "rpc.discover": lambda _session, _params: describe_methods(__version__),
            "search": self._search,
            "context": self._context,
            "get": self._get,
            "list": self._list,
            "stats": self._stats,
            "links": self._links,
            "problems": self._problems,
            "subscribe": self._subscriptions.subscribe,
            "unsubscribe": self._subscriptions.unsubscribe,
            **operations.methods,
        }

    def dispatch(self, session: Session, method: str, params: Params) -> Outcome:
        if self._places.needs_disk(getattr(params, "workspace", None)):
            return self._dispatch_by_path(session, method, params)
        return self._find(method)(session, params)

    async def _dispatch_by_path(self, session: Session, method: str, params: Any) -> Any:
        workspace = await self._places.find(params.workspace)
        outcome = self._find(method)(session, replace_fields(params, workspace=workspace.id))
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _find(self, method: str) -> Callable[[Session, Any], Outcome]:
        if method not in self._table:
            self._add_late_methods()
        return self._table[method]

    def _add_late_methods(self) -> None:
        # To import these, with the editing of notes, takes longer than the first answer may.
        from memsyncd.server.doctor import Doctor
        from memsyncd.server.writes import Writes

        facts = self._facts
        doctor = Doctor(
            self._workspaces,
            self._clock,
            self._in_thread,
            lambda: (facts.socket, facts.find_socket_problem()),
        )
        self._table["doctor"] = doctor.examine
        self._table |= Writes(self._workspaces, self._clock, self._in_thread).methods

    # --- search ---

    def _search(self, session: Session, params: SearchParams) -> Outcome:
        arrived_s = request_arrival_s(self._clock)
        chosen = self._choose_for_search(params)
        options = RunOptions(now_s=self._clock.wall_s())
        generation = max((workspace.condition.generation for workspace in chosen), default=0)
        if params.wait == "disk" or (params.min_generation or 0) > generation:
            return self._search_fresh(chosen, params, options, arrived_s)
        if any(workspace.readers is None for workspace in chosen):
            return self._search_once_open(chosen, params, options, arrived_s)
        if saves := self._find_saves(chosen):
            return self._search_after(saves, session, chosen, params, arrived_s)
        return self._search_now(session, chosen, params, options, arrived_s)

    def _find_saves(self, chosen: Sequence[Workspace]) -> list[Future[SyncDone]]:
        found = map(self._workspaces.scheduler.find_save, chosen)
        return [save for save in found if save is not None]

    async def _search_after(
        self,
        saves: Sequence[Future[SyncDone]],
        session: Session,
        chosen: Sequence[Workspace],
        params: SearchParams,
        arrived_s: float,
    ) -> SearchResult:
        """Search once the saves are indexed, or SAVE_WAIT_S later."""
        await wait_until_done(saves, SAVE_WAIT_S)
        options = RunOptions(now_s=self._clock.wall_s())
        found = self._search_now(session, chosen, params, options, arrived_s, n_own=1)
        return found if isinstance(found, SearchResult) else await found

    def _search_now(
        self,
        session: Session,
        chosen: Sequence[Workspace],
        params: SearchParams,
        options: RunOptions,
        arrived_s: float,
        *,
        n_own: int = 0,
    ) -> SearchResult | Awaitable[SearchResult]:
        """Search on the event loop or in a thread. `n_own` of the session's pending requests are
        this one.
        """
        end_s = arrived_s + options.limit_s(params, self._workspaces.config)
        if self._clock.now_s() >= end_s:
            raise overdue_error()
        n_hits = params.limit or self._workspaces.config.search.max_results
        is_short = len(chosen) == 1 and n_hits <= LOOP_LIMIT and params.sort == "relevance"
        may_try = is_short and self._loop_turns.may_try(session, n_own)
        answer = self._try_on_loop(session, chosen, params, options) if may_try else None
        if answer is None:
            return self._search_in_thread(chosen, params, options, arrived_s, end_s)
        return self._make_search_result(chosen, answer, arrived_s)

    def _choose_for_search(self, params: SearchParams) -> list[Workspace]:
        is_all = params.workspace == ALL_WORKSPACES
        chosen = self._workspaces.sorted() if is_all else [self._workspaces.find(params.workspace)]
        for workspace in chosen:
            self._workspaces.scheduler.quick_check(workspace)
        return chosen

    def _try_on_loop(
        self,
        session: Session,
        chosen: Sequence[Workspace],
        params: SearchParams,
        options: RunOptions,
    ) -> SearchAnswer | None:
        """Search on the event loop; None if the time for that is not enough."""
        # The limit is for SQLite alone; exceeding it here is no failure yet.
        hurried = RunOptions(now_s=options.now_s, timeout_s=LOOP_BUDGET_S, is_hurried=True)
        try:
            with self._loop_turns.trying(session):
                return search(chosen, params, self._workspaces.config, hurried)
        except NotFresh:
            return None
        except StoreFailed as failure:
            self._workspaces.scheduler.report_damage(failure)
            raise

    async def _search_fresh(
        self,
        chosen: Sequence[Workspace],
        params: SearchParams,
        options: RunOptions,
        arrived_s: float,
    ) -> SearchResult:
        waited = await self._wait_until_fresh(chosen, params, options, arrived_s)
        end_s = arrived_s + waited.limit_s(params, self._workspaces.config)
        return await self._search_in_thread(chosen, params, waited, arrived_s, end_s)

    async def _search_once_open(
        self,
        chosen: Sequence[Workspace],
        params: SearchParams,
        options: RunOptions,
        arrived_s: float,
    ) -> SearchResult:
        timeout_s = options.limit_s(params, self._workspaces.config)
        await wait_until_open(chosen, timeout_s)
        is_open = all(workspace.readers is not None for workspace in chosen)
        # A search of an index that is not open is refused, which takes no time.
        limit_s = timeout_s if is_open else math.inf
        # The time to open an index does not count for the default limit.
        end_s = (arrived_s if params.timeout_ms else self._clock.now_s()) + limit_s
        return await self._search_in_thread(chosen, params, options, arrived_s, end_s)

    async def _search_in_thread(
        self,
        chosen: Sequence[Workspace],
        params: SearchParams,
        options: RunOptions,
        arrived_s: float,
        end_s: float,
    ) -> SearchResult:
        run = partial(search, chosen, params, self._workspaces.config, options)
        answer = await self._in_thread(run, end_s)
        return self._make_search_result(chosen, answer, arrived_s)

    def _make_search_result(
        self, chosen: Sequence[Workspace], answer: SearchAnswer, arrived_s: float
    ) -> SearchResult:
        return SearchResult(
            **asdict(answer),
            freshness=self._describe_freshness(chosen),
            took_ms=self._measure_ms(arrived_s),
        )

    # --- context ---

    async def _context(self, _session: Session, params: ContextParams) -> ContextResult:
        arrived_s = request_arrival_s(self._clock)
        workspace, config = self._workspaces.find(params.workspace), self._workspaces.config
        was_open = workspace.readers is not None
        options = RunOptions(now_s=self._clock.wall_s())
        if params.wait == "disk" or params.min_generation is not None:
            options = await self._wait_until_fresh([workspace], params, options, arrived_s)
            start_s = arrived_s
        else:
            await wait_until_open([workspace], OPEN_S)
            # The time to open an index does not count for the default limit.
            is_counted = was_open or params.timeout_ms
            start_s = arrived_s if is_counted else self._clock.now_s()
        end_s = start_s + options.limit_s(params, config)
        answer = await self._in_thread(
            partial(build_context, workspace, params, config, options), end_s
        )
        return ContextResult(
            **asdict(answer),
            freshness=self._describe_freshness([workspace]),
            took_ms=self._measure_ms(arrived_s),
        )

    # --- get, list, links, problems ---

    async def _get(self, _session: Session, params: GetParams) -> Got:
        workspace = self._workspaces.find(params.workspace)
        await wait_until_open([workspace], OPEN_S)
        kinds = self._workspaces.config.kinds
        read = partial(
            browse.read_place, workspace, params, now_ns=self._clock.wall_ns(), kinds=kinds
        )
        found: tuple[Got, bool] | None = None
        with contextlib.suppress(NoteNotFound):
            found = await self._in_thread(read, disk_of=workspace)
        if found is None or not found[1]:
            # The note may have been saved a moment ago; its anchors and lines are known once it is
            # indexed.
            await self._scan(workspace)
            found = await self._in_thread(read, disk_of=workspace)
        return found[0]

    async def _list(self, _session: Session, params: ListParams) -> Listing:
        workspace = self._workspaces.find(params.workspace)
        await wait_until_open([workspace], OPEN_S)
        config, now_s = self._workspaces.config, self._clock.wall_s()
        read = partial(browse.list_notes, workspace, config, params, now_s=now_s)
        notes = await self._in_thread(read)
        return Listing(
            workspace=workspace.id, notes=notes, freshness=self._describe_freshness([workspace])
        )

    async def _stats(self, _session: Session, params: StatsParams) -> MemoryStats:
        workspace = self._workspaces.find(params.workspace)
        await wait_until_open([workspace], OPEN_S)
        config, now_s = self._workspaces.config, self._clock.wall_s()
        read = partial(browse.compute_stats, workspace, config, params, now_s=now_s)
        counted = await self._in_thread(read)
        freshness = self._describe_freshness([workspace])
        return MemoryStats(workspace=workspace.id, freshness=freshness, **counted)

    async def _links(self, _session: Session, params: LinksParams) -> Links:
        workspace = self._workspaces.find(params.workspace)
        await wait_until_open([workspace], OPEN_S)
        read = partial(browse.find_links, workspace, self._workspaces.config, params)
        try:
            links, n_links = await self._in_thread(read)
        except NoteNotFound:
            await self._scan(workspace)
            links, n_links = await self._in_thread(read)
        return Links(
            workspace=workspace.id,
            links=links,
            n_links=n_links,
            freshness=self._describe_freshness([workspace]),
        )

    async def _problems(self, _session: Session, params: WorkspaceParams) -> Problems:
        found = [
            await self._in_thread(partial(browse.find_problems, workspace))
            for workspace in choose_workspaces(self._workspaces, params.workspace)
        ]
        return Problems(problems=[problem for problems in found for problem in problems])

    # --- shared ---

    async def _scan(self, workspace: Workspace) -> None:
        """Scan the workspace and wait until the changes are indexed."""
        scan = self._workspaces.scheduler.scan(workspace)
        await wait_for_work(self._workspaces, workspace, scan, WAIT_S)

    async def _wait_until_fresh(
        self,
        chosen: Sequence[Workspace],
        params: SearchParams | ContextParams,
        options: RunOptions,
        arrived_s: float,
    ) -> RunOptions:
        """Wait for the generation or the scan that the request names, within its time."""
        timeout_s = params.timeout_ms / 1000 if params.timeout_ms else WAIT_S
        absent = options.absent
        if params.min_generation is not None:
            await wait_until_open(chosen, timeout_s)
            await self._subscriptions.wait_for_generation(chosen, params.min_generation, timeout_s)
        if params.wait == "disk":
            left_s = timeout_s - (self._clock.now_s() - arrived_s)
            absent = await wait_for_disk(self._workspaces, chosen, left_s)
        return RunOptions(now_s=options.now_s, timeout_s=timeout_s, absent=absent)

    def _describe_freshness(self, workspaces: Sequence[Workspace]) -> Freshness:
        return describe_freshness(workspaces, self._workspaces.config, now_s=self._clock.now_s())

    def _measure_ms(self, arrived_s: float) -> float:
        return round((self._clock.now_s() - arrived_s) * 1000, 3)
