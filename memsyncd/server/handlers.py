"""Dispatches methods to the functions that carry them out, and answers the methods that read.

What can be answered at once is; what waits or reads runs as a coroutine. A search may take a few
milliseconds of the event loop, which is nearly always enough, and moves to a thread if it needs
more, so that one heavy query does not hold up other clients. Other reads run in a thread at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import asdict
from msgspec.structs import replace as replace_fields

from memsyncd import __version__
from memsyncd.core.paths import MEMORY_FILE, NOTE_SUFFIXES
from memsyncd.engine import browse
from memsyncd.engine.candidates import prepare_vectors
from memsyncd.engine.clock import Clock
from memsyncd.engine.context import ContextOffer, build_context, merge_offers, offer_context
from memsyncd.engine.federation import SearchPart, merge_search_parts
from memsyncd.engine.search import (
    RunOptions,
    describe_query,
    explain_search,
    find_commands,
    lacks_words,
    make_question,
    may_name_commands,
    must_prepare,
    prepare_question,
    search,
    search_part,
)
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest, NoteNotFound, NotFresh, StoreFailed, WorkspaceNotFound
from memsyncd.files.scope import is_within_folder
from memsyncd.operations.daemon import Facts
from memsyncd.operations.fields import Freshness, Params
from memsyncd.operations.notes.declare import (
    GetParams,
    Got,
    Listing,
    ListParams,
    NoteInfo,
    Rendered,
    RenderParams,
)
from memsyncd.operations.operation import Shape
from memsyncd.operations.search.declare import (
    ContextAnswer,
    ContextParams,
    ContextPart,
    ContextResult,
    Hit,
    SearchAnswer,
    SearchParams,
    SearchResult,
    list_anchors,
)
from memsyncd.operations.table import OPERATIONS
from memsyncd.operations.workspace_info import choose_named, measure_freshness, watch_freshness
from memsyncd.protocol.openrpc import describe_methods
from memsyncd.server.federation import (
    WAIT_SHARE,
    Federation,
    PatternFinder,
    WorkspaceRead,
    describe_parts,
    describe_workspace_part,
)
from memsyncd.server.operations import ServerDaemon
from memsyncd.server.reads import (
    LoopAdmission,
    NamedWorkspace,
    PathLookup,
    Reads,
    overdue_error,
    request_arrival_s,
)
from memsyncd.server.session import Limits, MethodCall, Outcome, Session
from memsyncd.server.subscriptions import Subscriptions
from memsyncd.server.waits import (
    OPEN_S,
    WAIT_S,
    wait_for_disk,
    wait_for_work,
    wait_until_done,
    wait_until_open,
)

# How long a search may hold up the event loop before it moves to a thread, if it has to wait for a
# disk or for the processor; its own processor time is limited more.
LOOP_BUDGET_S = 0.02
# A search for more hits runs in a thread at once: reading each hit takes time, however fast it was
# found.
LOOP_LIMIT = 20
NO_WORKTREES: Mapping[str, NamedWorkspace] = {}
# How long a search waits until earlier saves are indexed. Without the wait it would compete with
# their sync for the interpreter's lock, and not find them.
SAVE_WAIT_S = 0.005


T = TypeVar("T")


def _find_absolute(params: Any, fields: Iterable[str]) -> tuple[str, str]:
    """Return the first of the fields that names a note by its absolute path, and that path; empty
    if none does.
    """
    for field in fields:
        value = str(getattr(params, field, None) or "")
        named = value.rpartition("#")[0] if field == "anchor" else value
        if named.startswith("/"):
            from memsyncd.core.editing.memory_tool import MEMORIES

            if not is_within_folder(named, MEMORIES):
                return field, named
    return "", ""


def _replace_path(params: Any, field: str, path: str, workspace: Workspace) -> Any:
    """Return the parameters with the path from the workspace's root."""
    value = path
    if field == "anchor":
        value = f"{value}#{params.anchor.rpartition('#')[2]}"
    elif field == "note":
        value = f"./{value}"  # a name alone would be a note in the memory folder
    return replace_fields(params, workspace=workspace.id, **{field: value})


def _find_notes(params: Any, memory_dir: str) -> list[str]:
    """Return the paths, from the root, of the notes and folders that the parameters name."""
    from memsyncd.core.editing.memory_tool import MEMORIES, parse_memory_path

    texts = [getattr(params, field, None) for field in ("path", "old_path", "new_path")]
    anchors = [getattr(params, "anchor", None), *getattr(params, "anchors", ())]
    texts += [_find_note_of(anchor) for anchor in anchors if anchor]
    note = getattr(params, "note", None) or ""
    # A name alone is a note in the memory folder.
    texts.append(note if "/" in note or note == MEMORY_FILE else note and f"{memory_dir}/{note}")
    if getattr(params, "topic", None) == MEMORY_FILE:
        texts.append(MEMORY_FILE)
    found = []
    for text in filter(None, texts):
        if is_within_folder(text, MEMORIES):
            parsed = parse_memory_path(text, memory_dir).note
            found.append(memory_dir if parsed is None else parsed.text)
        else:
            found.append(posixpath.normpath(text))
    return found


def _find_note_of(anchor: str) -> str:
    """Return the path in an anchor, in lines of a note or alone; empty for a title."""
    # It imports YAML, which a daemon that only answers searches does without.
    from memsyncd.engine.places import NAMED_LINES

    note, mark, _ = anchor.rpartition("#")
    lines = NAMED_LINES.fullmatch(anchor)
    path = note if mark else lines["path"] if lines else anchor
    return path if path.lower().endswith(NOTE_SUFFIXES) else ""


def _choose_owner(method: str, params: Any, name: str, named: NamedWorkspace) -> Workspace:
    """Return the workspace that a method is about in a linked worktree.

    Raises BadRequest for notes of both workspaces, and for a `wide` operation without a note, as a
    number of a revision, unless the workspace is named by its name or id.
    """
    if named.main is None or not named.shared:
        return named.workspace
    both = f"{named.workspace.entry.name} or {named.main.entry.name}"
    memory_dir = named.workspace.scope.memory_dir
    paths = _find_notes(params, memory_dir)
    if len({named.choose_owner(path).id for path in paths}) > 1:
        message = "these notes are in two workspaces: the git worktree shares a part of its memory"
        raise BadRequest(message, hint=f"name notes of one at a time: {both}")
    if paths:
        return named.choose_owner(paths[0])
    worktree = OPERATIONS[method].worktree
    if worktree == "wide" and name.startswith(("/", "~")):
        message = "the git worktree shares a part of its memory: two workspaces may be meant"
        raise BadRequest(message, hint=f"name the workspace: {both}")
    return named.choose_owner(memory_dir) if worktree == "writes" else named.workspace


class SearchCall(NamedTuple):
    """One search: who asks for what, in which workspaces."""

    session: Session
    chosen: Sequence[Workspace]
    params: SearchParams
    linked: Mapping[str, NamedWorkspace]
    """The linked worktrees that were named, by the workspace that is read for them."""
    options: RunOptions
    arrived_s: float


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
        self._in_thread = reads.run
        self._reads = reads
        self._limits = limits
        self._places = PathLookup(workspaces, reads.threads, facts.socket)
        self._federation = Federation(reads.run, clock)
        self._loop_turns = LoopAdmission(clock)
        self._subscriptions = Subscriptions(workspaces)
        self._facts = facts
        daemon = ServerDaemon(workspaces, clock, self._places, facts, reads)
        self._table: dict[str, MethodCall] = {
            "rpc.discover": lambda _session, _params: describe_methods(__version__),
            "search": self._search,
            "context": self._context,
            "get": self._get,
            "render": self._render,
            "list": self._list,
            "patterns": PatternFinder(workspaces, clock, self._federation, reads.run).find,
            "subscribe": self._subscriptions.subscribe,
            "unsubscribe": self._subscriptions.unsubscribe,
            **daemon.methods,
        }

    def dispatch(self, session: Session, method: str, params: Params) -> Outcome:
        if fields := OPERATIONS[method].paths.absolute:
            field, file = _find_absolute(params, fields)
            if file:
                return self._dispatch_by_file(session, method, params, field, file)
        return self._dispatch_to_workspace(session, method, params)

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
            params = browse.name_from_root(scope, params, may_be_folder=paths.may_be_folder)
        return self._find(method)(session, params)

    async def _dispatch_by_path(
        self, session: Session, method: str, params: Any, names: Sequence[str | None]
    ) -> Any:
        paths = [name for name in names if name and self._places.needs_disk(name)]
        found = dict(zip(paths, await asyncio.gather(*map(self._places.find, paths)), strict=True))
        if OPERATIONS[method].worktree == "join" and not getattr(params, "path", None):
            outcome = self._join_worktrees(session, method, params, names, found)
        else:
            chosen = [
                _choose_owner(method, params, name, found[name]).id if name in found else name
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
        found: Mapping[str, NamedWorkspace],
    ) -> Outcome:
        """Search, list or make a context in workspaces; for a linked worktree that shares memory of
        the main one also in that, unless all of it is asked.
        """
        chosen = [found[name].workspace.id if name and name in found else name for name in names]
        linked = {one.workspace.id: one for one in found.values() if one.worktree}
        for one in found.values():
            main = one.main if one.shared else None
            names_of_main = {main.id, main.entry.name, main.entry.root} if main else set()
            if main is not None and names_of_main.isdisjoint(chosen):
                chosen.append(main.id)
                linked[main.id] = one
        is_several = isinstance(params.workspace, list) or len(chosen) > 1
        if method == "list":
            shared = next(iter(found.values())) if is_several else None
            return self._list(session, replace_fields(params, workspace=chosen[0]), shared)
        params = replace_fields(params, workspace=chosen if is_several else chosen[0])
        read = self._search if method == "search" else self._context
        return read(session, params, linked)

    async def _dispatch_by_file(
        self, session: Session, method: str, params: Any, field: str, file: str
    ) -> Any:
        """Carry out a method for a note that is named by its absolute path.

        Raises BadRequest if it is not in the workspace that is named as well.
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
        params = _replace_path(params, field, path, workspace)
        outcome = self.dispatch(session, method, params)  # `promote` may name two notes
        return await outcome if inspect.isawaitable(outcome) else outcome

    async def _find_all(self, name: str) -> list[Workspace]:
        """Return the workspace of a name, and that whose memory it shares, if any."""
        if not self._places.needs_disk(name):
            return [self._workspaces.find(name)]
        found = await self._places.find(name)
        return [found.workspace, *filter(None, [found.main])]

    def _find(self, method: str) -> MethodCall:
        if method not in self._table:
            self._add_late_methods()
        return self._table[method]

    def _add_late_methods(self) -> None:
        # To import these, with the editing of notes, takes longer than the first answer may.
        from memsyncd.server.dispatch import OperationDispatcher
        from memsyncd.server.doctor import Doctor

        facts = self._facts
        doctor = Doctor(
            self._workspaces,
            self._clock,
            self._in_thread,
            lambda: (facts.socket, facts.find_socket_problem(), facts.find_lock_problem()),
        )
        self._table["doctor"] = doctor.examine
        dispatcher = OperationDispatcher(
            self._workspaces, self._clock, self._reads, self._subscriptions
        )
        self._table |= {
            name: partial(dispatcher.carry_out, operation)
            for name, operation in OPERATIONS.items()
            if operation.shape in (Shape.READ, Shape.STEPS)
        }

    async def _find_open(self, name: str | None) -> Workspace:
        """Return a workspace, once it can be read unless that takes too long. Raises
        WorkspaceNotFound.
        """
        workspace = self._workspaces.find(name)
        await wait_until_open([workspace], OPEN_S)
        return workspace

    # --- search ---

    def _search(
        self,
        session: Session,
        params: SearchParams,
        linked: Mapping[str, NamedWorkspace] = NO_WORKTREES,
    ) -> Outcome:
        """`linked` is as in `SearchCall`."""
        if params.track_access:
            return self._search_tracked(session, params, linked)
        arrived_s = request_arrival_s(self._clock)
        chosen = self._choose(params.workspace)
        options = RunOptions(now_s=self._clock.wall_s())
        call = SearchCall(session, chosen, params, linked, options, arrived_s)
        if len(chosen) > 1:
            return self._search_several(call)
        generation = max((workspace.condition.generation for workspace in chosen), default=0)
        if params.wait == "disk" or (params.min_generation or 0) > generation:
            return self._search_fresh(call)
        if any(workspace.readers is None for workspace in chosen):
            return self._search_once_open(call)
        unhandled = self._workspaces.watching.find_unhandled()
        if unhandled is not None or self._find_saves(chosen):
            return self._search_after(unhandled, call)
        return self._search_now(call)

    def _find_saves(self, chosen: Sequence[Workspace]) -> list[Future[SyncDone]]:
        found = map(self._workspaces.scheduler.find_save, chosen)
        return [save for save in found if save is not None]

    async def _search_after(self, unhandled: Future[None] | None, call: SearchCall) -> SearchResult:
        """Search once all saves with an event, handled or not, are indexed, but no later than after
        SAVE_WAIT_S. Events that are not handled by then count as pending.
        """
        end_s = self._clock.now_s() + SAVE_WAIT_S
        prepare_vectors(call.chosen, call.params.query, self._clock.wall_s())
        if unhandled is not None:
            await wait_until_done([unhandled], SAVE_WAIT_S)
        await wait_until_done(self._find_saves(call.chosen), end_s - self._clock.now_s())
        n_unread = int(unhandled is not None and not unhandled.done())
        n_pending = max(n_unread, sum(workspace.pending for workspace in call.chosen))
        options = RunOptions(now_s=self._clock.wall_s())
        found = self._search_now(call._replace(options=options), n_own=1)
        result = found if isinstance(found, SearchResult) else await found
        if result.freshness.pending >= n_pending:
            return result
        # What was pending before may have been indexed after the search has read the index.
        freshness = replace_fields(result.freshness, pending=n_pending)
        return replace_fields(result, freshness=freshness)

    def _search_now(
        self, call: SearchCall, *, n_own: int = 0
    ) -> SearchResult | Awaitable[SearchResult]:
        """Search on the event loop or in a thread. `n_own` says how many of the session's pending
        requests are this one.
        """
        params, config = call.params, self._workspaces.config
        end_s = call.arrived_s + call.options.limit_s(params, config)
        if self._clock.now_s() >= end_s:
            raise overdue_error()
        n_hits = params.limit or config.search.max_results
        is_short = len(call.chosen) == 1 and n_hits <= LOOP_LIMIT and params.sort == "relevance"
        is_short = is_short and not _needs_accesses(params) and not params.follow
        may_try = is_short and self._loop_turns.may_try(call.session, n_own)
        answer = self._try_on_loop(call) if may_try else None
        if not may_try:
            prepare_vectors(call.chosen, params.query, call.options.now_s)
        if answer is None:
            return self._search_in_thread(call, end_s)
        return self._make_search_result(call, answer)

    async def _search_tracked(
        self, session: Session, params: SearchParams, linked: Mapping[str, NamedWorkspace]
    ) -> SearchResult:
        """Search, and count an access for each section that is found."""
        outcome = self._search(session, replace_fields(params, track_access=False), linked)
        result = await outcome if inspect.isawaitable(outcome) else outcome
        assert isinstance(result, SearchResult)
        self._note_shown(result.hits, params)
        return result

    def _choose(self, names: str | list[str] | None) -> list[Workspace]:
        chosen = choose_named(self._workspaces, names)
        for workspace in chosen:
            self._workspaces.scheduler.reopen(workspace)
        return chosen

    def _try_on_loop(self, call: SearchCall) -> SearchAnswer | None:
        """Search on the event loop; None if the time for that is not enough."""
        # The limit is for SQLite alone; exceeding it here is no failure yet.
        hurried = RunOptions(now_s=call.options.now_s, timeout_s=LOOP_BUDGET_S, is_hurried=True)
        try:
            with self._loop_turns.trying(call.session):
                return search(call.chosen, call.params, self._workspaces.config, hurried)
        except NotFresh:
            return None
        except StoreFailed as failure:
            self._workspaces.scheduler.report_damage(failure)
            raise

    async def _search_fresh(self, call: SearchCall) -> SearchResult:
        prepare_vectors(call.chosen, call.params.query, call.options.now_s)
        waited = await self._wait_until_fresh(
            call.chosen, call.params, call.options, call.arrived_s
        )
        end_s = call.arrived_s + waited.limit_s(call.params, self._workspaces.config)
        return await self._search_in_thread(call._replace(options=waited), end_s)

    async def _search_once_open(self, call: SearchCall) -> SearchResult:
        timeout_s = call.options.limit_s(call.params, self._workspaces.config)
        await wait_until_open(call.chosen, timeout_s)
        is_open = all(workspace.readers is not None for workspace in call.chosen)
        # A search of an index that is not open is refused, which takes no time.
        limit_s = timeout_s if is_open else math.inf
        # The time to open an index does not count for the default limit.
        start_s = call.arrived_s if call.params.timeout_ms else self._clock.now_s()
        return await self._search_in_thread(call, start_s + limit_s)

    async def _search_in_thread(self, call: SearchCall, end_s: float) -> SearchResult:
        params, config = call.params, self._workspaces.config

        def run() -> SearchAnswer:
            # Several are searched by `_search_several`; without any the answer explains it.
            given = _count_accesses(call.chosen[0], params) if call.chosen else {}
            options = replace_fields(call.options, accesses=given)
            return search(call.chosen, params, config, options)

        return self._make_search_result(call, await self._in_thread(run, end_s))

    def _make_search_result(self, call: SearchCall, answer: SearchAnswer) -> SearchResult:
        return SearchResult(
            **asdict(answer),
            **describe_query(call.params, self._clock.wall_s()),
            workspaces=[describe_workspace_part(one, call.linked) for one in call.chosen],
            freshness=self._describe_freshness(call.chosen),
            took_ms=self._measure_ms(call.arrived_s),
        )

    async def _search_several(self, call: SearchCall) -> SearchResult:
        config, now_s = self._workspaces.config, self._clock.wall_s()
        params, chosen = call.params, call.chosen
        prepared = RunOptions(now_s=now_s)
        if must_prepare(params):
            prepare = partial(prepare_question, chosen, params, config, prepared)
            params, prepared = await self._in_thread(prepare)
        prepare_vectors(chosen, params.query, now_s)
        question = make_question(params, config, prepared)

        def read(workspace: Workspace, options: RunOptions) -> SearchPart:
            given = _count_accesses(workspace, params)
            within = _list_shared(workspace, call.linked)
            options = replace_fields(
                options, accesses=given, within=within, commands=prepared.commands
            )
            asked = make_question(params, config, options)
            return search_part(workspace, asked, params, config, options, is_merged=True)

        read_freshness = self._watch_several(chosen, params)
        parts = await self._ask_each(chosen, params, now_s, call.arrived_s, read)
        found = [part.value for part in parts if part.value is not None]
        answer = merge_search_parts(found, question.query, params, config)
        if answer is None or lacks_words(answer, question):
            answered = [
                part.workspace
                for part in parts
                if part.error is None and not _list_shared(part.workspace, call.linked)
            ]
            explain = partial(explain_search, answered, question, answer, found)
            answer = await self._in_thread(explain)
        return SearchResult(
            **asdict(answer),
            **describe_query(params, self._clock.wall_s()),
            workspaces=describe_parts(parts, call.linked),
            freshness=read_freshness(),
            took_ms=self._measure_ms(call.arrived_s),
        )

    async def _ask_each(
        self,
        chosen: Sequence[Workspace],
        params: SearchParams | ContextParams,
        now_s: float,
        arrived_s: float,
        read: Callable[[Workspace, RunOptions], T],
    ) -> list[WorkspaceRead[T]]:
        """Read all workspaces, each as soon as it is as fresh as the request demands."""
        options = RunOptions(now_s=now_s)
        is_fresh = params.wait == "disk"
        if params.min_generation is not None:
            timeout_s = params.timeout_ms / 1000 if params.timeout_ms else WAIT_S
            generation = params.min_generation
            await self._subscriptions.wait_for_generation(chosen, generation, timeout_s)
        is_open = all(workspace.readers is not None for workspace in chosen)
        waited_s = 0.0 if params.timeout_ms else is_fresh * WAIT_S + (not is_open) * OPEN_S
        limit_s = options.limit_s(params, self._workspaces.config)
        end_s = max(arrived_s, self._clock.now_s() - limit_s) + waited_s + limit_s
        wait_s = WAIT_SHARE * (end_s - self._clock.now_s())

        async def prepare(workspace: Workspace) -> RunOptions:
            await wait_until_open([workspace], wait_s)
            if not is_fresh:
                return options
            absent = await wait_for_disk(self._workspaces, [workspace], wait_s)
            return replace_fields(options, absent=absent)

        return await self._federation.ask_each(chosen, prepare, read, end_s)

    # --- context ---

    async def _context(
        self,
        _session: Session,
        params: ContextParams,
        linked: Mapping[str, NamedWorkspace] = NO_WORKTREES,
    ) -> ContextResult:
        arrived_s = request_arrival_s(self._clock)
        chosen = self._choose(params.workspace)
        user_wide = self._workspaces.find_user_wide() if params.user else None
        if user_wide in chosen:
            user_wide = None
        if user_wide is not None or len(chosen) != 1 or linked:
            return await self._join_contexts(chosen, params, user_wide, linked, arrived_s)
        [workspace], config = chosen, self._workspaces.config
        was_open = workspace.readers is not None
        options = RunOptions(now_s=self._clock.wall_s())
        prepare_vectors(chosen, params.query, options.now_s)
        if params.wait == "disk" or params.min_generation is not None:
            options = await self._wait_until_fresh([workspace], params, options, arrived_s)
            start_s = arrived_s
        else:
            await wait_until_open([workspace], OPEN_S)
            # The time to open an index does not count for the default limit.
            is_counted = was_open or params.timeout_ms
            start_s = arrived_s if is_counted else self._clock.now_s()
        end_s = start_s + options.limit_s(params, config)
        read_freshness = self._watch_freshness([workspace])

        def run() -> ContextAnswer:
            given = _count_accesses(workspace, params)
            return build_context(workspace, params, config, replace_fields(options, accesses=given))

        answer = await self._in_thread(run, end_s)
        self._note_shown(answer.included, params)
        return ContextResult(
            **asdict(answer),
            **describe_query(params, self._clock.wall_s()),
            workspaces=[describe_workspace_part(workspace, linked)],
            freshness=read_freshness(),
            took_ms=self._measure_ms(arrived_s),
        )

    async def _join_contexts(
        self,
        chosen: Sequence[Workspace],
        params: ContextParams,
        user_wide: Workspace | None,
        linked: Mapping[str, NamedWorkspace],
        arrived_s: float,
    ) -> ContextResult:
        config, now_s = self._workspaces.config, self._clock.wall_s()
        asked = [*chosen, user_wide] if user_wide else list(chosen)
        commands: frozenset[str] = frozenset()
        if may_name_commands(params):
            find = partial(find_commands, asked, params, config, RunOptions(now_s=now_s))
            commands = await self._in_thread(find)

        def read(workspace: Workspace, options: RunOptions) -> ContextOffer:
            return offer_context(
                workspace,
                params,
                config,
                replace_fields(
                    options,
                    accesses=_count_accesses(workspace, params),
                    within=_list_shared(workspace, linked),
                    commands=commands,
                ),
                is_merged=len(chosen) > 1,
                is_user_wide=workspace is user_wide,
                is_elsewhere=workspace.id in linked,
            )

        if not chosen:
            self._workspaces.find(None)  # raises: there is no workspace yet
        read_freshness = self._watch_several(chosen, params)
        parts = await self._ask_each(asked, params, now_s, arrived_s, read)
        failed = [one.error for one in parts if one.workspace is not user_wide and one.error]
        if failed and len(failed) == len(chosen):
            raise failed[0]
        added = next((one.value for one in parts if one.workspace is user_wide), None)
        offers = [one.value for one in parts if one.value and one.workspace is not user_wide]
        answer = merge_offers(offers, params, config, added)
        self._note_shown(answer.included, params)
        return ContextResult(
            **asdict(answer),
            **describe_query(params, self._clock.wall_s()),
            workspaces=describe_parts(parts, linked),
            freshness=read_freshness(),
            took_ms=self._measure_ms(arrived_s),
        )

    # --- get, list, problems ---

    async def _get(self, _session: Session, params: GetParams) -> Got:
        workspace = await self._find_open(params.workspace)
        kinds = self._workspaces.config.kinds
        read = partial(browse.read_place, now_ns=self._clock.wall_ns(), kinds=kinds)
        read = partial(read, workspace, params)
        found: tuple[Got, bool] | None = None
        with contextlib.suppress(NoteNotFound):
            found = await self._in_thread(read, disk_of=workspace)
        if found is None:
            from memsyncd.engine.places import resolve_names

            resolve = partial(resolve_names, workspace, params, ("anchor", "path"))
            named = await self._in_thread(resolve)
            if named != params:
                return await self._get(_session, named)
        if found is None or not found[1]:
            # The note may have been saved a moment ago; its anchors and lines are known once it is
            # indexed.
            await self._scan(workspace)
            found = await self._in_thread(read, disk_of=workspace)
        self._note_accesses(workspace, [found[0].anchor or found[0].path], params)
        return found[0]

    async def _render(self, session: Session, params: RenderParams) -> Rendered:
        # A daemon whose panel nobody opens never renders.
        from memsyncd.core.markdown.render import find_window, render_html

        place = GetParams(path=params.path, workspace=params.workspace, track_access=False)
        got = await self._get(session, place)
        lines = got.text.split("\n")
        first, last = find_window(lines, params.line)
        html = await self._in_thread(lambda: render_html(lines[first - 1 : last], first))
        return Rendered(
            workspace=got.workspace,
            path=got.path,
            digest=got.digest,
            n_lines=got.n_lines,
            start_line=first,
            end_line=min(last, got.n_lines),
            html=html,
        )

    async def _list(
        self, session: Session, params: ListParams, worktree: NamedWorkspace | None = None
    ) -> Listing:
        """List notes; in a linked worktree also the notes that it shares, by absolute paths."""
        if worktree is not None and worktree.main is not None:
            return await self._list_with_shared(session, params, worktree, worktree.main)
        workspace = await self._find_open(params.workspace)
        config, now_s = self._workspaces.config, self._clock.wall_s()

        def read() -> list[NoteInfo]:
            given = _count_accesses(workspace, params)
            return browse.list_notes(
                workspace,
                config,
                params,
                now_s=now_s,
                accesses=given,
                max_bytes=self._limits.max_reply_bytes,
            )

        read_freshness = self._watch_freshness([workspace])
        notes = await self._in_thread(read)
        return Listing(workspace=workspace.id, notes=notes, freshness=read_freshness())

    async def _list_with_shared(
        self, session: Session, params: ListParams, worktree: NamedWorkspace, main: Workspace
    ) -> Listing:
        own = await self._list(session, params)
        shared = await self._list(session, replace_fields(params, workspace=main.id))
        notes = [
            browse.name_absolutely(main.entry.root, note)
            for note in shared.notes
            if worktree.choose_owner(note.path) is main
        ]
        freshness = self._describe_freshness([worktree.workspace, main])
        return Listing(workspace=own.workspace, notes=[*own.notes, *notes], freshness=freshness)

    # --- accesses ---

    def _note_shown(
        self, shown: Iterable[Hit | ContextPart], params: SearchParams | ContextParams
    ) -> None:
        anchors: dict[str, list[str]] = {}
        for one in shown:
            own = list_anchors(one) if isinstance(one, Hit) else [one.anchor]
            anchors.setdefault(one.workspace, []).extend(own)
        for workspace_id, found in anchors.items():
            workspace = self._workspaces.by_id.get(workspace_id)
            if workspace is not None:  # it may have been removed meanwhile
                self._note_accesses(workspace, found, params)

    def _note_accesses(
        self,
        workspace: Workspace,
        anchors: Sequence[str],
        params: SearchParams | ContextParams | GetParams,
    ) -> None:
        """Count an access of these sections after the answer, which then waits for no database."""
        if params.track_access:
            self._workspaces.note_accesses(workspace, anchors, session=params.caller_session)

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

    def _watch_freshness(self, workspaces: Sequence[Workspace]) -> Callable[[], Freshness]:
        return watch_freshness(self._workspaces, workspaces, self._clock)

    def _watch_several(
        self, workspaces: Sequence[Workspace], params: SearchParams | ContextParams
    ) -> Callable[[], Freshness]:
        """Watch the freshness of workspaces that are read now, or describe it after the reads if
        each waits first until it is open or fresh.
        """
        is_open = all(workspace.readers is not None for workspace in workspaces)
        if is_open and params.wait != "disk" and params.min_generation is None:
            return self._watch_freshness(workspaces)
        return partial(self._describe_freshness, workspaces)

    def _describe_freshness(self, workspaces: Sequence[Workspace]) -> Freshness:
        return measure_freshness(self._workspaces, workspaces, self._clock)

    def _measure_ms(self, arrived_s: float) -> float:
        return round((self._clock.now_s() - arrived_s) * 1000, 3)


def _list_shared(workspace: Workspace, linked: Mapping[str, NamedWorkspace]) -> tuple[str, ...]:
    """Return the files and folders of a workspace that are asked for a linked worktree; all if
    there are none.
    """
    named = linked.get(workspace.id)
    return named.shared if named is not None and named.main is workspace else ()


def _needs_accesses(params: SearchParams | ListParams | ContextParams) -> bool:
    """True if the answer depends on the decay of sections."""
    if params.sort == "decay":
        return True
    if isinstance(params, SearchParams | ListParams) and params.explain:
        return True
    query = params.query.lower() if isinstance(params, SearchParams | ContextParams) else ""
    return bool(params.filters.tier) or "tier:" in query


def _count_accesses(
    workspace: Workspace, params: SearchParams | ListParams | ContextParams
) -> dict[str, int]:
    """The accesses of the sections of a workspace, if the answer depends on them."""
    if not _needs_accesses(params):
        return {}
    # It imports the editing of notes, which no start needs.
    from memsyncd.engine.accesses import count_accesses

    return count_accesses(workspace)
