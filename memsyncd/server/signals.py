"""Answers the methods of signals, and sends signals to the subscriptions that they concern.

A signal is sent to subscribers once it is on the disk. A subscription first gets what its reader
has not acknowledged, so that it misses nothing between an earlier connection and this one.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from memsyncd.engine.job_completions import call_soon
from memsyncd.engine.scheduler import JobFactory
from memsyncd.engine.signals import (
    ack_signals,
    list_addresses,
    name_reader,
    read_inbox,
    read_outbox,
    send_signal,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.protocol.signals import (
    SignalAckParams,
    SignalBox,
    SignalInboxParams,
    SignalOutboxParams,
    SignalReader,
    SignalsAcked,
    SignalSendParams,
    SignalSent,
)
from memsyncd.server.session import MethodCall, Session
from memsyncd.server.subscriptions import Subscriptions
from memsyncd.server.writes import WRITE_S, wait_for_turn

MAX_BACKLOG = 200
T = TypeVar("T")


class SignalMethods:
    """Carries out the methods. Runs on the event loop."""

    def __init__(self, workspaces: Workspaces, subscriptions: Subscriptions) -> None:
        self._workspaces = workspaces
        self._subscriptions = subscriptions
        self.methods: dict[str, MethodCall] = {
            "signal.send": self._send,
            "signal.inbox": self.read_inbox,
            "signal.outbox": self._read_outbox,
            "signal.ack": self._ack,
        }

    async def _send(self, session: Session, params: SignalSendParams) -> SignalSent:
        workspace = self._workspaces.find(params.workspace)
        list_addresses(params)
        job = partial(send_signal, params=params, sender=params.client or session.name)
        sent = await self._run(workspace, job)
        if sent.is_new:
            self._subscriptions.notify_signal(workspace, sent.signal)
        return sent

    async def read_inbox(self, _session: Session, params: SignalInboxParams) -> SignalBox:
        workspace = self._workspaces.find(params.workspace)
        name_reader(params)
        return await self._run(workspace, partial(read_inbox, params=params))

    async def _read_outbox(self, session: Session, params: SignalOutboxParams) -> SignalBox:
        workspace = self._workspaces.find(params.workspace)
        sender = params.client or session.name
        return await self._run(workspace, partial(read_outbox, params=params, sender=sender))

    async def _ack(self, _session: Session, params: SignalAckParams) -> SignalsAcked:
        workspace = self._workspaces.find(params.workspace)
        name_reader(params)
        return await self._run(workspace, partial(ack_signals, params=params))

    async def _run(self, workspace: Workspace, job: JobFactory[T]) -> T:
        future = self._workspaces.scheduler.run(workspace, job)
        return await wait_for_turn(self._workspaces, workspace, future, WRITE_S)

    def send_backlog(self, workspace: Workspace, reader: SignalReader, subscription: str) -> None:
        """Send the unread signals to a subscription that has just begun."""
        loop = asyncio.get_running_loop()
        params = SignalInboxParams(
            agent=reader.agent, session=reader.session, task=reader.task, limit=MAX_BACKLOG
        )
        found = self._workspaces.scheduler.run(workspace, partial(read_inbox, params=params))

        def deliver(done: Future[SignalBox]) -> None:
            if not done.cancelled() and done.exception() is None:
                for signal in done.result().signals:
                    self._subscriptions.notify_signal(workspace, signal, subscription)

        found.add_done_callback(lambda done: call_soon(loop, partial(deliver, done)))
