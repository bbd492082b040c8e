"""Ask one or several workspaces: carries out the operations that are questions.

A question to a single workspace may be tried on the event loop, which is enough for nearly all. If
it needs more time, it moves to a thread, so that a heavy question does not hold up other clients.

Several workspaces are asked at once; a workspace that fails or is slow does not affect the others.
In the first round each read gets such a share of the time that all together need half of it; late
reads get the rest in a second round. If a workspace does not answer in time, or its disk or index
fails, the answer names it with the reason, and has the parts of the others.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.engine.candidates import prepare_vectors
from memsyncd.engine.clock import Clock
from memsyncd.engine.plan import RunOptions, must_prepare
from memsyncd.engine.scheduler import JobFactory, Scheduler
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest, Busy, MemsyncdError, NotFresh, StoreFailed
from memsyncd.operations.call import Questions, WorkspacePart
from memsyncd.operations.fields import Freshness
from memsyncd.operations.operation import Operation, load_function
from memsyncd.operations.search.declare import AnsweringWorkspace
from memsyncd.operations.similar.declare import Patterns, PatternsParams
from memsyncd.operations.workspace_info import (
    choose_named,
    describe_freshness,
    measure_freshness,
    watch_freshness,
)
from memsyncd.server.places import NamedWorkspace
from memsyncd.server.reads import (
    OPEN_S,
    WAIT_S,
    LoopAdmission,
    Reads,
    overdue_error,
    request_arrival_s,
    wait_for_disk,
    wait_until_done,
    wait_until_open,
)
from memsyncd.server.session import InThread, Outcome, Session
from memsyncd.server.subscriptions import Subscriptions

if TYPE_CHECKING:
    from memsyncd.operations.similar import patterns

# How long a question may hold up the event loop before it moves to a thread, if it has to wait for
# a disk or for the processor; its own processor time is limited more.
LOOP_BUDGET_S = 0.02
NO_WORKTREES: Mapping[str, NamedWorkspace] = {}
# How long a question waits until earlier saves are indexed. Without the wait it would compete with
# their sync for the interpreter's lock, and not find them.
SAVE_WAIT_S = 0.005
NO_ERRORS: Mapping[str, MemsyncdError | None] = {}
T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a question, as `operations.call.JoinedCall` describes it."""

    operation: Operation
    session: Session
    params: Any
    workspaces: Sequence[Workspace]
    user_wide: Workspace | None
    linked: Mapping[str, NamedWorkspace]
    """The linked worktrees that the request names, by the workspace that is read for them."""
    config: Config
    options: RunOptions
    arrived_s: float
    scheduler: Scheduler
    accessed: list[tuple[str, str]] = msgspec.field(default_factory=list)

    @property
    def asked(self) -> list[Workspace]:
        """All workspaces that are read."""
        return [*self.workspaces, *filter(None, [self.user_wide])]

    @property
    def is_several(self) -> bool:
        return len(self.asked) > 1

    @property
    def query(self) -> str:
        """The words that vectors may be needed for; empty if that depends on the index."""
        return getattr(self.params, "query", "")

    @property
    def limit_s(self) -> float:
        return self.options.limit_s(self.params, self.config)

    def is_linked(self, workspace: Workspace) -> bool:
        return workspace.id in self.linked

    def list_shared(self, workspace: Workspace) -> tuple[str, ...]:
        named = self.linked.get(workspace.id)
        return named.shared if named is not None and named.main is workspace else ()

    def note_accesses(self, sections: Iterable[tuple[str, str]]) -> None:
        self.accessed.extend(sections)

    def run_job(self, workspace: Workspace, job: JobFactory[T]) -> T:
        future = self.scheduler.run(workspace, job)
        try:
            return future.result(self.limit_s)
        except TimeoutError:
            future.cancel()
            hint = "retry in a moment; see the running work: memsyncd status"
            raise Busy("the signals could not be read in time", hint=hint) from None


class Asker:
    """Carries out the questions of sessions."""

    def __init__(
        self, workspaces: Workspaces, clock: Clock, reads: Reads, subscriptions: Subscriptions
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._in_thread = reads.run
        self._subscriptions = subscriptions
        self.federation = Federation(reads.run, clock)
        self._loop_turns = LoopAdmission(clock)

    def ask(
        self,
        operation: Operation,
        session: Session,
        params: Any,
        linked: Mapping[str, NamedWorkspace] = NO_WORKTREES,
    ) -> Outcome:
        """Return the result of one call, or an awaitable for it."""
        chosen = choose_named(self._workspaces, params.workspace)
        for workspace in chosen:
            self._workspaces.scheduler.reopen(workspace)
        user_wide = self._workspaces.find_user_wide() if getattr(params, "user", False) else None
        call = Asked(
            operation=operation,
            session=session,
            params=params,
            workspaces=chosen,
            user_wide=None if user_wide in chosen else user_wide,
            linked=linked,
            config=self._workspaces.config,
            options=RunOptions(now_s=self._clock.wall_s()),
            arrived_s=request_arrival_s(self._clock),
            scheduler=self._workspaces.scheduler,
        )
        if call.is_several:
            return self._ask_several(call)
        generation = max((workspace.condition.generation for workspace in chosen), default=0)
        if params.wait == "disk" or (params.min_generation or 0) > generation:
            return self._ask_fresh(call)
        if any(workspace.readers is None for workspace in chosen):
            return self._ask_once_open(call)
        unhandled = self._workspaces.watching.find_unhandled()
        if unhandled is not None or self._find_saves(chosen):
            return self._ask_after(unhandled, call)
        return self._ask_now(call)

    # --- one workspace ---

    def _find_saves(self, chosen: Sequence[Workspace]) -> list[Future[None]]:
        saves = map(self._workspaces.scheduler.find_save, chosen)
        return [save for save in saves if save is not None]

    def _follow_saves(
        self, unhandled: Future[None] | None, chosen: Sequence[Workspace]
    ) -> Future[None]:
        """A future that is done once all saves with an event, handled or not, are indexed. The loop
        is not woken in between: it would compete with the sync for the interpreter's lock.
        """
        indexed: Future[None] = Future()

        def finish(_: Future[None] | None = None) -> None:
            indexed.set_result(None)

        def follow(_: Future[None] | None = None) -> None:
            if saves := self._find_saves(chosen):
                [save] = saves  # questions to several workspaces do not wait for saves
                save.add_done_callback(finish)
            else:
                finish()

        if unhandled is None:
            follow()
        else:
            unhandled.add_done_callback(follow)
        return indexed

    async def _ask_after(self, unhandled: Future[None] | None, call: Asked) -> msgspec.Struct:
        """Ask when all saves with an event, handled or not, are indexed, or after SAVE_WAIT_S.
        Events that are not handled by then count as pending.
        """
        prepare_vectors(call.workspaces, call.query, self._clock.wall_s())
        await wait_until_done([self._follow_saves(unhandled, call.workspaces)], SAVE_WAIT_S)
        n_unread = int(unhandled is not None and not unhandled.done())
        n_pending = max(n_unread, sum(workspace.pending for workspace in call.workspaces))
        options = RunOptions(now_s=self._clock.wall_s())
        outcome = self._ask_now(replace(call, options=options), n_own=1)
        result: Any = await outcome if inspect.isawaitable(outcome) else outcome
        if result.freshness.pending >= n_pending:
            return result  # type: ignore[no-any-return]
        # Changes that were pending may have been indexed after the index was read.
        return replace(result, freshness=replace(result.freshness, pending=n_pending))  # type: ignore[no-any-return]

    def _ask_now(self, call: Asked, *, n_own: int = 0) -> Outcome:
        """Ask on the event loop or in a thread. `n_own` is the number of the session's pending
        requests that stand for this question, 0 or 1.
        """
        end_s = call.arrived_s + call.limit_s
        if self._clock.now_s() >= end_s:
            raise overdue_error()
        is_embedded = prepare_vectors(call.workspaces, call.query, call.options.now_s)
        may_try = (
            bool(call.workspaces)
            and not is_embedded  # the vector process may take milliseconds
            and _is_quick(call)
            and self._loop_turns.may_try(call.session, n_own)
        )
        if not may_try:
            return self._ask_in_thread(call, end_s)
        answer = self._try_on_loop(call)
        if isinstance(answer, _Begun):
            return self._ask_in_thread(call, end_s, answer.finish)
        return self._make_result(call, answer, self._describe_freshness(call))

    def _try_on_loop(self, call: Asked) -> msgspec.Struct | _Begun:
        """Answer a question to one workspace on the event loop. If there is too much to look up
        for this, return the question as far as it was read.
        """
        steps = _start(call)
        read, answer = _begin(steps)
        if read is None:
            return answer  # type: ignore[no-any-return]
        [workspace] = call.workspaces
        begun = _Begun(call, steps, read, workspace)
        # The limit is only for SQLite; exceeding it here is no failure yet.
        hurried = RunOptions(now_s=call.options.now_s, timeout_s=LOOP_BUDGET_S, is_hurried=True)
        try:
            with self._loop_turns.trying(call.session):
                part = WorkspacePart(workspace=workspace, value=read(workspace, hurried))
                begun.has_found = True
                return _finish(steps, [part])
        except NotFresh:
            return begun
        except StoreFailed as failure:
            self._workspaces.scheduler.report_damage(failure)
            raise

    async def _ask_fresh(self, call: Asked) -> msgspec.Struct:
        """Ask when the generation or the scan that the request demands is done, in its time."""
        params, chosen = call.params, call.workspaces
        prepare_vectors(chosen, call.query, call.options.now_s)
        timeout_s = params.timeout_ms / 1000 if params.timeout_ms else WAIT_S
        absent = call.options.absent
        if params.min_generation is not None:
            await wait_until_open(chosen, timeout_s)
            await self._subscriptions.wait_for_generation(chosen, params.min_generation, timeout_s)
        if params.wait == "disk":
            left_s = timeout_s - (self._clock.now_s() - call.arrived_s)
            absent = await wait_for_disk(self._workspaces, chosen, left_s)
        options = RunOptions(now_s=call.options.now_s, timeout_s=timeout_s, absent=absent)
        read_freshness = self._watch_freshness(call)
        outcome = self._ask_now(replace(call, options=options), n_own=1)
        result: Any = await outcome if inspect.isawaitable(outcome) else outcome
        return replace(result, freshness=read_freshness())  # type: ignore[no-any-return]

    async def _ask_once_open(self, call: Asked) -> msgspec.Struct:
        await wait_until_open(call.workspaces, call.limit_s)
        is_open = all(workspace.readers is not None for workspace in call.workspaces)
        # A read of an index that is not open is refused, which takes no time.
        limit_s = call.limit_s if is_open else math.inf
        # The time to open an index does not count for the default limit.
        start_s = call.arrived_s if call.params.timeout_ms else self._clock.now_s()
        return await self._ask_in_thread(call, start_s + limit_s)

    async def _ask_in_thread(
        self, call: Asked, end_s: float, answer_begun: Callable[[], msgspec.Struct] | None = None
    ) -> msgspec.Struct:
        read_freshness = self._watch_freshness(call)
        answer = await self._in_thread(answer_begun or partial(_answer_alone, call), end_s)
        return self._make_result(call, answer, read_freshness())

    # --- several workspaces ---

    async def _ask_several(self, call: Asked) -> msgspec.Struct:
        workspaces, params = call.asked, call.params
        steps = _start(call)
        begin = partial(_begin, steps)
        # This reads notes if the meaning of the query depends on them.
        read, answer = await self._in_thread(begin) if must_prepare(call.query) else begin()
        if read is None:
            return self._make_result(call, answer, self._describe_freshness(call))
        prepare_vectors(workspaces, call.query, call.options.now_s)
        is_open = all(workspace.readers is not None for workspace in call.workspaces)
        is_watching = is_open and params.wait != "disk" and params.min_generation is None
        read_freshness = self._watch_freshness(call) if is_watching else None
        parts = await self._ask_each(call, read)
        answer = await self._in_thread(partial(_finish, steps, parts))
        freshness = read_freshness() if read_freshness else self._describe_freshness(call)
        errors = {part.workspace.id: part.error for part in parts}
        return self._make_result(call, answer, freshness, errors)

    async def _ask_each(
        self, call: Asked, read: Callable[[Workspace, RunOptions], T]
    ) -> list[WorkspacePart[T]]:
        """Read all workspaces, each as soon as it is as fresh as the request demands."""
        params, workspaces = call.params, call.asked
        is_fresh = params.wait == "disk"
        if params.min_generation is not None:
            timeout_s = params.timeout_ms / 1000 if params.timeout_ms else WAIT_S
            await self._subscriptions.wait_for_generation(
                workspaces, params.min_generation, timeout_s
            )
        is_open = all(workspace.readers is not None for workspace in workspaces)
        waited_s = 0.0 if params.timeout_ms else is_fresh * WAIT_S + (not is_open) * OPEN_S
        end_s = max(call.arrived_s, self._clock.now_s() - call.limit_s) + waited_s + call.limit_s
        wait_s = WAIT_SHARE * (end_s - self._clock.now_s())

        async def prepare(workspace: Workspace) -> RunOptions:
            await wait_until_open([workspace], wait_s)
            if not is_fresh:
                return replace(call.options)
            absent = await wait_for_disk(self._workspaces, [workspace], wait_s)
            return replace(call.options, absent=absent)

        return await self.federation.ask_each(workspaces, prepare, read, end_s)

    # --- results ---

    def _make_result(
        self,
        call: Asked,
        answer: msgspec.Struct,
        freshness: Freshness,
        errors: Mapping[str, MemsyncdError | None] = NO_ERRORS,
    ) -> msgspec.Struct:
        self._note_accesses(call)
        return call.operation.result(
            **asdict(answer),
            workspaces=[
                describe_workspace_part(workspace, call.linked, errors.get(workspace.id))
                for workspace in call.asked
            ],
            freshness=freshness,
            took_ms=round((self._clock.now_s() - call.arrived_s) * 1000, 3),
        )

    def _note_accesses(self, call: Asked) -> None:
        anchors: dict[str, list[str]] = {}
        for workspace_id, anchor in call.accessed:
            anchors.setdefault(workspace_id, []).append(anchor)
        for workspace_id, several in anchors.items():
            workspace = self._workspaces.by_id.get(workspace_id)
            if workspace is not None:  # the workspace may have been removed meanwhile
                session = call.params.caller_session
                self._workspaces.note_accesses(workspace, several, session=session)

    def _watch_freshness(self, call: Asked) -> Callable[[], Freshness]:
        return watch_freshness(self._workspaces, call.workspaces, self._clock)

    def _describe_freshness(self, call: Asked) -> Freshness:
        return measure_freshness(self._workspaces, call.workspaces, self._clock)


def _start(call: Asked) -> Questions[Any, msgspec.Struct]:
    steps: Questions[Any, msgspec.Struct] = load_function(call.operation.run)(call, call.params)
    return steps


def _begin(
    steps: Questions[Any, msgspec.Struct],
) -> tuple[Callable[[Workspace, RunOptions], Any] | None, Any]:
    """Return the function that reads a workspace, or None and the answer without any read."""
    try:
        return next(steps), None
    except StopIteration as end:
        return None, end.value


def _finish(
    steps: Questions[Any, msgspec.Struct], parts: Sequence[WorkspacePart[Any]]
) -> msgspec.Struct:
    try:
        steps.send(parts)
    except StopIteration as end:
        answer: msgspec.Struct = end.value
        return answer
    raise AssertionError("a question asks each workspace once")


class _Begun(msgspec.Struct, eq=False):
    """A question to one workspace that was begun on the event loop and needs more time.

    With `has_found` the read has ended, but the answer takes longer: there is no hit, and finding
    out why takes milliseconds.
    """

    call: Asked
    steps: Questions[Any, msgspec.Struct]
    read: Callable[[Workspace, RunOptions], Any]
    workspace: Workspace
    has_found: bool = False

    def finish(self) -> msgspec.Struct:
        """Answer the question, in a thread."""
        if self.has_found:
            return _answer_alone(self.call)
        value = self.read(self.workspace, self.call.options)
        return _finish(self.steps, [WorkspacePart(workspace=self.workspace, value=value)])


def _answer_alone(call: Asked) -> msgspec.Struct:
    """Answer a question to one workspace, or to none, in this thread."""
    steps = _start(call)
    read, answer = _begin(steps)
    if read is None:
        return answer  # type: ignore[no-any-return]
    parts = [
        WorkspacePart(workspace=workspace, value=read(workspace, call.options))
        for workspace in call.asked
    ]
    return _finish(steps, parts)


def _is_quick(call: Asked) -> bool:
    quick = call.operation.quick
    return bool(quick) and bool(load_function(quick)(call.params, call.config))


# --- several workspaces at once ------------------------------------------------------------------

# Reads of a request that run at once; further reads of a client wait in its own turn.
N_CONCURRENT = 2
MIN_SHARE_S = 0.02
# How long after its limit a read may return, before its thread counts as blocked.
GRACE_S = 0.25
# The share of a request's time that waiting for the disk may take.
WAIT_SHARE = 0.75

Prepare = Callable[[Workspace], Awaitable[RunOptions]]
"""Waits until a workspace can be read."""
Read = Callable[[Workspace, RunOptions], T]


class Federation:
    """Asks workspaces by `run`, which is `Reads.run`: it takes a read and the time of its end."""

    def __init__(self, run: Callable[[Any, float], Awaitable[Any]], clock: Clock) -> None:
        self._run = run
        self._clock = clock

    async def ask_each(
        self, chosen: Sequence[Workspace], prepare: Prepare, read: Read[T], end_s: float
    ) -> list[WorkspacePart[T]]:
        """Return the parts of all workspaces, in their order. If all have failed, raises the error
        of one.
        """
        semaphore = asyncio.Semaphore(N_CONCURRENT)
        options: dict[str, RunOptions] = {}

        async def ask_first(workspace: Workspace) -> T:
            options[workspace.id] = await prepare(workspace)
            async with semaphore:
                share_s = self._share(end_s, 2 * len(chosen))
                return await self._ask(workspace, read, options[workspace.id], share_s)

        async def ask_again(workspace: Workspace) -> T:
            async with semaphore:
                share_s = self._share(end_s, n_late)
                return await self._ask(workspace, read, options[workspace.id], share_s)

        parts = await asyncio.gather(
            *(_catch(ask_first(workspace), workspace) for workspace in chosen)
        )
        late = {part.workspace.id for part in parts if isinstance(part.error, _LateError)}
        n_late = len(late)
        again = [
            _catch(ask_again(part.workspace), part.workspace)
            for part in parts
            if part.workspace.id in late and end_s > self._clock.now_s()
        ]
        answered = {part.workspace.id: part for part in await asyncio.gather(*again)}
        parts = [answered.get(part.workspace.id, part) for part in parts]
        errors = [part.error for part in parts if part.error is not None]
        if errors and len(errors) == len(parts):
            raise errors[0]
        return parts

    def _share(self, end_s: float, n_reads: int) -> float:
        left_s = end_s - self._clock.now_s()
        return max(MIN_SHARE_S, left_s / math.ceil(n_reads / N_CONCURRENT))

    async def _ask(
        self, workspace: Workspace, read: Read[T], options: RunOptions, limit_s: float
    ) -> T:
        limited = replace(options, timeout_s=limit_s)
        try:
            async with asyncio.timeout(limit_s + GRACE_S):
                end_s = self._clock.now_s() + limit_s
                value: T = await self._run(partial(read, workspace, limited), end_s)
                return value
        except (TimeoutError, NotFresh) as error:
            raise _LateError(
                "the workspace had no time to answer", hint="ask again, or with a longer timeout_ms"
            ) from error


class _LateError(NotFresh):
    """A read took longer than its share of the time."""


async def _catch(read: Awaitable[T], workspace: Workspace) -> WorkspacePart[T]:
    try:
        return WorkspacePart(workspace=workspace, value=await read)
    except MemsyncdError as error:
        return WorkspacePart(workspace=workspace, error=error)


def describe_workspace_part(
    workspace: Workspace,
    worktrees: Mapping[str, NamedWorkspace],
    error: MemsyncdError | None = None,
) -> AnsweringWorkspace:
    entry, named = workspace.entry, worktrees.get(workspace.id)
    return AnsweringWorkspace(
        id=entry.id,
        name=entry.name,
        root=entry.root,
        worktree=None if named is None else named.worktree or named.workspace.entry.root,
        user=entry.is_user_wide,
        failure=None if error is None else f"{error.message}: {error.hint}".rstrip(": "),
        code=None if error is None else error.code,
    )


# --- patterns ------------------------------------------------------------------------------------


PATTERNS_S = 20.0


class PatternFinder:
    """Finds patterns: asks workspaces in two rounds, and compares the sections that they read.

    Each round has half of the time. The answer names a workspace that fails or is late in either
    round, and leaves it out, as in a search of several. `in_thread` runs computations off the event
    loop.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        federation: Federation,
        in_thread: InThread,
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._federation = federation
        self._in_thread = in_thread

    async def find(self, _session: Session, params: PatternsParams) -> Patterns:
        # Few requests need it, and its import takes a millisecond.
        from memsyncd.operations.similar import patterns

        start_s = self._clock.now_s()
        chosen = choose_named(self._workspaces, params.workspace)
        are_named = params.workspace not in (None, "*")
        if len(chosen) < params.min_workspaces and are_named and params.by is None:
            raise BadRequest(
                f"patterns: fewer are named than min_workspaces, {params.min_workspaces}",
                hint="name more workspaces, or * for all, or a key such as source.client as `by`",
            )
        limit_s = params.timeout_ms / 1000 if params.timeout_ms else PATTERNS_S
        end_s = start_s + limit_s
        # Too few workspaces have no pattern, so that nothing has to be counted.
        may_recur = params.by is not None or len(chosen) >= params.min_workspaces
        counted = await self._federation.ask_each(
            chosen,
            self._prepare,
            lambda workspace, options: (
                patterns.read_categories(workspace, params, options.timeout_s or limit_s)
                if may_recur
                else {}
            ),
            start_s + limit_s / 2,
        )
        read = await self._read(counted, params, end_s)
        rounds: tuple[Sequence[WorkspacePart[Any]], ...] = (counted, read)
        errors = {part.workspace.id: part.error for parts in rounds for part in parts}
        values = [part.value for part in read if part.value is not None]
        recurring = await self._in_thread(partial(patterns.find_patterns, values, params), end_s)
        return Patterns(
            patterns=recurring[: params.limit],
            n_patterns=len(recurring),
            compared=sum(len(value.sections) for value in values),
            left_out=sum(value.n_left_out for value in values),
            semantic=patterns.join_states(values),
            workspaces=[
                describe_workspace_part(workspace, {}, errors.get(workspace.id))
                for workspace in chosen
            ],
            freshness=describe_freshness(
                chosen, self._workspaces.config, now_s=self._clock.now_s()
            ),
            took_ms=round((self._clock.now_s() - start_s) * 1000, 3),
        )

    async def _prepare(self, workspace: Workspace) -> RunOptions:
        await wait_until_open([workspace], OPEN_S)
        return RunOptions(now_s=self._clock.wall_s())

    async def _read(
        self,
        counted: list[WorkspacePart[dict[patterns.Category, dict[str, int]]]],
        params: PatternsParams,
        end_s: float,
    ) -> list[WorkspacePart[patterns.ReadSections]]:
        """Read the sections of the kinds and topics that several workspaces have."""
        from memsyncd.operations.similar import patterns

        counts = {part.workspace.id: part.value for part in counted if part.value}
        common = patterns.find_shared_categories([*counts.values()], params.min_workspaces)
        chosen = [
            part.workspace
            for part in counted
            if not common.isdisjoint(counts.get(part.workspace.id, ()))
        ]
        most = max(
            patterns.MIN_PATTERN_SECTIONS, patterns.MAX_PATTERN_SECTIONS // max(1, len(chosen))
        )
        config = self._workspaces.config

        def read(workspace: Workspace, options: RunOptions) -> patterns.ReadSections:
            own = {
                category: sum(by_owner.values())
                for category, by_owner in counts[workspace.id].items()
                if category in common
            }
            return patterns.read_category_sections(
                workspace,
                own.keys(),
                sum(own.values()),
                config,
                options,
                params,
                most=most,
            )

        return await self._federation.ask_each(chosen, self._prepare, read, end_s)
