"""Send `changed`, `signal` and `answered` notifications to subscribed sessions.

After each sync that changed something, every subscription whose workspace and paths match gets one
notification. A subscription that names an older generation first gets the changes since then, or a
notice that older changes are no longer known. The end of a sync is notified some time after its
changes are written, so a subscription notes the generation up to which it has the changes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from weakref import WeakKeyDictionary

import msgspec

from memsyncd.core.paths import Globs
from memsyncd.engine.job_completions import call_soon
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import BadRequest, NotFound, NotFresh
from memsyncd.operations.agents.declare import AgentAnswer, AnswerNotice
from memsyncd.operations.changes.declare import (
    Changed,
    Subscribed,
    SubscribeParams,
    Unsubscribed,
    UnsubscribeParams,
)
from memsyncd.operations.signals.declare import (
    EVERYONE,
    Signal,
    SignalBox,
    SignalInboxParams,
    SignalNotice,
    SignalReader,
)
from memsyncd.server.session import Session

MAX_PER_SESSION = 64
MAX_BACKLOG = 200


class ResumeParams(SubscribeParams, frozen=True, kw_only=True):
    """A client's subscriptions, with the last generation it has seen per workspace."""

    known: Mapping[str, int]


class _Subscription(msgspec.Struct, kw_only=True, eq=False):
    """A subscription of a session. `caught_up` has, by workspace, the generation up to which
    changes were sent at its beginning or are known to the client; None until they are sent. A
    folder that is added again is another Workspace, whose generations begin again.
    """

    id: str
    session: Session
    workspace: str | None
    globs: Globs | None
    caught_up: WeakKeyDictionary[Workspace, int | None] = msgspec.field(
        default_factory=WeakKeyDictionary
    )

    addresses: frozenset[str] = frozenset()
    """The addressees whose signals are sent, instead of changes, if there are any."""
    has_answers: bool = False
    """True if answers to agents are sent, instead of changes."""
    signals: set[int] = msgspec.field(default_factory=set)
    """The signals that were sent."""

    def has_caught_up_with(self, workspace: Workspace, generation: int) -> bool:
        """True if the changes of this generation were sent, or will be sent as missed changes."""
        reached = self.caught_up.get(workspace, 0)
        return reached is None or generation <= reached

    def is_addressed(self, signal: Signal) -> bool:
        """True if the signal is for one of the addresses, or for all and from another agent."""
        is_to_all = EVERYONE in signal.to and f"agent:{signal.sender}" not in self.addresses
        return bool(self.addresses) and (is_to_all or not self.addresses.isdisjoint(signal.to))

    def matching_paths(self, workspace: Workspace, paths: Iterable[str]) -> list[str]:
        is_other = self.has_answers or bool(self.addresses)
        if is_other or self.workspace not in (None, workspace.id):
            return []
        return [path for path in paths if self.globs is None or self.globs.matches(path)]


class Subscriptions:
    """The subscriptions of all sessions. Runs on the event loop."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces
        self._ids = itertools.count(1)
        self._subscriptions: dict[str, _Subscription] = {}
        self._changed = asyncio.Event()
        workspaces.listen(self._notify)

    def subscribe(self, session: Session, params: SubscribeParams) -> Subscribed:
        """Add a subscription. Raises BadRequest for an invalid glob, for `since` without a
        workspace, and for too many subscriptions.
        """
        if params.since is not None and params.workspace is None:
            raise BadRequest(
                "since needs a workspace: each has its own generations",
                hint="name the workspace too",
            )
        earlier = self._list_ids(session)
        if len(earlier) >= MAX_PER_SESSION:
            raise BadRequest(
                f"one connection can have {MAX_PER_SESSION} subscriptions",
                hint="unsubscribe from some",
            )
        workspace = (
            self._workspaces.find(params.workspace) if params.workspace is not None else None
        )
        addresses = frozenset(params.signals.addresses)
        if addresses and workspace is None:
            workspace = self._workspaces.find(None)
        globs = Globs.parse(params.paths) if params.paths else None
        subscription = _Subscription(
            id=f"s{next(self._ids)}",
            session=session,
            workspace=workspace.id if workspace else None,
            globs=globs,
            addresses=addresses,
            has_answers=params.agents,
        )
        if not earlier:
            session.on_close(lambda: self._drop(session))
        self._subscriptions[subscription.id] = subscription
        session.is_subscribed = True
        if workspace is not None and addresses:
            self._send_backlog(workspace, params.signals, subscription.id)
        is_other = params.agents or bool(addresses)
        for missed, since in () if is_other else self._find_missed(params, workspace):
            subscription.caught_up[missed] = None
            # After the answer, which has the subscription's id.
            asyncio.get_running_loop().call_soon(self._catch_up, subscription, missed, since)
        chosen = [workspace] if workspace else list(self._workspaces.by_id.values())
        return Subscribed(
            subscription=subscription.id, generations={w.id: w.condition.generation for w in chosen}
        )

    def _find_missed(
        self, params: SubscribeParams, workspace: Workspace | None
    ) -> list[tuple[Workspace, int]]:
        """Return the workspaces of which the client names the last generation that it has seen."""
        generations: dict[str, int] = {}
        if isinstance(params, ResumeParams):
            generations |= params.known
        if workspace is not None:
            since = generations.get(workspace.id, params.since)
            generations = {} if since is None else {workspace.id: since}
        by_id = self._workspaces.by_id
        return [(by_id[name], since) for name, since in generations.items() if name in by_id]

    def unsubscribe(self, session: Session, params: UnsubscribeParams) -> Unsubscribed:
        subscription = self._subscriptions.get(params.subscription)
        if subscription is None or subscription.session is not session:
            raise NotFound(
                "this connection has no such subscription",
                hint="send the id that subscribe returned",
            )
        del self._subscriptions[params.subscription]
        session.is_subscribed = bool(self._list_ids(session))
        return Unsubscribed(subscription=params.subscription)

    async def wait_for_generation(
        self, workspaces: Sequence[Workspace], generation: int, timeout_s: float
    ) -> None:
        """Return once one of the workspaces has reached `generation`; raises NotFresh after
        `timeout_s`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while (
                    max((workspace.condition.generation for workspace in workspaces), default=0)
                    < generation
                ):
                    await self._changed.wait()
        except TimeoutError:
            raise NotFresh(
                f"generation {generation} was not reached in {timeout_s:.1f} s",
                hint='ask with wait "disk", or a longer timeout_ms',
            ) from None

    def _send_backlog(self, workspace: Workspace, reader: SignalReader, subscription: str) -> None:
        """Send the unread signals to a subscription that has just begun, so that its reader misses
        nothing between an earlier connection and this one.
        """
        # This imports the records, which no start needs.
        from memsyncd.operations.inbox import read_inbox

        loop = asyncio.get_running_loop()
        params = SignalInboxParams(
            agent=reader.agent, session=reader.session, task=reader.task, limit=MAX_BACKLOG
        )
        reading = self._workspaces.scheduler.run(workspace, partial(read_inbox, params=params))

        def deliver(done: Future[SignalBox]) -> None:
            if not done.cancelled() and done.exception() is None:
                for signal in done.result().signals:
                    self.notify_signal(workspace, signal, subscription)

        reading.add_done_callback(lambda done: call_soon(loop, partial(deliver, done)))

    def notify_signal(self, workspace: Workspace, signal: Signal, only: str | None = None) -> None:
        """Send a signal to the subscriptions of its addressees, or to one of them, each once."""
        for subscription in list(self._subscriptions.values()):
            is_meant = subscription.workspace == workspace.id and only in (None, subscription.id)
            if (
                is_meant
                and subscription.is_addressed(signal)
                and signal.id not in subscription.signals
            ):
                subscription.signals.add(signal.id)
                notice = SignalNotice(
                    subscription=subscription.id, workspace=workspace.id, signal=signal
                )
                subscription.session.notify("signal", notice)

    def note_answer(self, workspace: Workspace, answer: AgentAnswer) -> None:
        """Note an answer to an agent, and send it to the subscriptions that ask for answers."""
        kept = self._workspaces.note_answer(workspace, answer)
        if kept is None:
            return
        for subscription in list(self._subscriptions.values()):
            if subscription.has_answers and subscription.workspace in (None, workspace.id):
                notice = AnswerNotice(
                    subscription=subscription.id, workspace=workspace.id, answer=kept
                )
                subscription.session.notify("answered", notice)

    def _notify(self, workspace: Workspace, done: SyncDone) -> None:
        if not done.paths:
            return
        self._changed.set()
        self._changed = asyncio.Event()
        for subscription in list(self._subscriptions.values()):
            paths = subscription.matching_paths(workspace, done.paths)
            if paths and not subscription.has_caught_up_with(workspace, done.generation):
                self._send(
                    subscription,
                    workspace,
                    done.generation,
                    paths,
                    done.n_upserted + done.n_deleted,
                    is_listing=bool(done.added or done.moved or done.removed),
                )

    def _catch_up(self, subscription: _Subscription, workspace: Workspace, since: int) -> None:
        if subscription.id not in self._subscriptions:
            return
        # The generation is read first, because the worker adds changes before it raises it.
        generation = workspace.condition.generation
        written_since = [
            written for written in list(workspace.changes) if written.generation > since
        ]
        first = written_since[0].generation if written_since else generation + 1
        if written_since:
            generation = max(generation, written_since[-1].generation)
        # A generation in the future belongs to an index that has been rebuilt since.
        is_complete = first <= since + 1 and since <= generation
        subscription.caught_up[workspace] = generation
        paths = subscription.matching_paths(
            workspace, dict.fromkeys(path for written in written_since for path in written.paths)
        )
        if paths or not is_complete:
            n_chunks = sum(written.upserted + written.deleted for written in written_since)
            self._send(
                subscription, workspace, generation, paths, n_chunks, is_complete=is_complete
            )

    def _send(
        self,
        subscription: _Subscription,
        workspace: Workspace,
        generation: int,
        paths: list[str],
        n_chunks: int,
        *,
        is_complete: bool = True,
        is_listing: bool = False,
    ) -> None:
        changed = Changed(
            subscription=subscription.id,
            workspace=workspace.id,
            generation=generation,
            paths=paths,
            chunks=n_chunks,
            complete=is_complete,
            listing=is_listing or not is_complete,
        )
        subscription.session.notify("changed", changed)

    def _drop(self, session: Session) -> None:
        for key in self._list_ids(session):
            del self._subscriptions[key]

    def _list_ids(self, session: Session) -> list[str]:
        return [
            key
            for key, subscription in self._subscriptions.items()
            if subscription.session is session
        ]
