"""Sends, lists and acknowledges signals between agents, in jobs of the worker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import partial

import msgspec

from memsyncd.config import Config
from memsyncd.core.guard.secrets import find_secrets
from memsyncd.engine.clock import Clock
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest
from memsyncd.operations.call import Call
from memsyncd.operations.inbox import (
    describe_signal,
    make_box,
    name_reader,
    read_inbox,
)
from memsyncd.operations.signals.declare import (
    EVERYONE,
    SignalAckParams,
    SignalBox,
    SignalInboxParams,
    SignalOutboxParams,
    SignalsAcked,
    SignalSendParams,
    SignalSent,
)
from memsyncd.operations.travel import ALONE, Machines, route_signal
from memsyncd.store.records import NewSignal

# The share of equal characters with which another name is suggested.
SIMILAR_NAMES = 0.75


async def send(call: Call, params: SignalSendParams) -> SignalSent:
    """Send a signal, and notify subscriptions once it is on the disk."""
    list_addresses(params)
    machines = call.sharing.list_machines(call.workspace)
    job = partial(send_signal, params=params, sender=call.writer, machines=machines)
    sent = await call.run_job(job, is_write=True)
    if sent.is_new:
        call.notify_signal(sent.signal)
        if sent.signal.travel:
            call.sharing.note_changed(call.workspace)
    return sent


async def list_inbox(call: Call, params: SignalInboxParams) -> SignalBox:
    name_reader(params)
    return await call.run_job(partial(read_inbox, params=params), is_write=True)


async def list_outbox(call: Call, params: SignalOutboxParams) -> SignalBox:
    job = partial(read_outbox, params=params, sender=call.writer)
    return await call.run_job(job, is_write=True)


async def ack(call: Call, params: SignalAckParams) -> SignalsAcked:
    name_reader(params)
    return await call.run_job(partial(ack_signals, params=params), is_write=True)


# --- jobs of the worker -------------------------------------------------------------------------


def list_addresses(params: SignalSendParams) -> tuple[str, ...]:
    """Return the addresses of a new signal. Raises BadRequest if there are none, or for `*`."""
    if "*" in (*params.agents, *params.sessions, *params.tasks):
        raise BadRequest("`*` is nobody's name", hint="a signal to all is sent with `everyone`")
    named = (("agent", params.agents), ("session", params.sessions), ("task", params.tasks))
    addresses = tuple(f"{kind}:{name}" for kind, names in named for name in names if name)
    if params.everyone:
        addresses += (EVERYONE,)
    if not addresses:
        # An agent reads it, too, and its tool has no options of a terminal.
        hint = "name an agent, a session, a task, or everyone (all)"
        raise BadRequest("the signal has no addressee", hint=hint)
    return addresses


def send_signal(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    params: SignalSendParams,
    *,
    sender: str,
    machines: Machines = ALONE,
) -> Job[SignalSent]:
    """Store a signal, unless its sender has sent one with its key before. Raises Busy, StoreFailed,
    and BadRequest for another machine that it cannot go to.
    """
    signals = require_records(workspace, clock).signals
    now_s = clock.wall_s()
    lifetime_s = config.signal.max_age_s if params.expires_s is None else params.expires_s
    readers = signals.list_readers()
    route = route_signal(list_addresses(params), machines, readers)
    if route.elsewhere and config.guard.has_secrets:
        texts = [sender, *route.elsewhere, params.type, params.content, params.key or ""]
        # It leaves as JSON, and a push is checked once more.
        check_secrets([*texts, msgspec.json.encode(texts).decode()])
    new = NewSignal(
        sender=sender,
        key=params.key,
        type=params.type,
        content=params.content,
        addresses=route.addresses,
        at_s=now_s,
        expires_at_s=now_s + lifetime_s,
        line=os.urandom(12).hex(),
        elsewhere=route.elsewhere,
    )
    stored, is_new = signals.send(new, max_signals=config.signal.max_signals)
    here = [address for address in route.addresses if address not in route.elsewhere]
    warnings = find_strangers(here, readers, machines.others)
    yield
    signal = describe_signal(stored, config, has_receipts=False)
    return SignalSent(workspace=workspace.id, signal=signal, is_new=is_new, warnings=warnings)


def check_secrets(texts: Iterable[str]) -> None:
    """Raise BadRequest if the guard finds a secret in a text that would leave the machine."""
    for text in texts:
        secret = next((each.what for each in find_secrets(text) if not each.is_example), "")
        if secret:
            hint = "leave it out; a signal to this machine alone may have it"
            raise BadRequest(f"the signal stays here: it has a secret, {secret}", hint=hint)


def find_strangers(
    addresses: Sequence[str], readers: Sequence[str], machines: Sequence[str] = ()
) -> list[str]:
    """Return a sentence for each agent and session that nobody has read signals as, with the most
    similar address that somebody has, and the other machines. A task has readers of other names.
    """
    used, sentences = set(readers), []
    for address in addresses:
        if address in used or address.startswith("task:") or address == EVERYONE:
            continue
        similar = get_close_matches(address, readers, n=1, cutoff=SIMILAR_NAMES)
        hint = f", did you mean {similar[0]}?" if similar else ""
        if machines:
            kind, _, name = address.partition(":")
            names = ", ".join(machines)
            hint += f"; for the {kind} on another machine write {name}@MACHINE: {names}"
        sentences.append(f"nobody has read signals as {address} yet{hint}")
    return sentences


def read_outbox(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    params: SignalOutboxParams,
    *,
    sender: str,
) -> Job[SignalBox]:
    """List the signals that a sender has sent, with their receipts. Raises StoreFailed."""
    signals = require_records(workspace, clock).signals
    sent = signals.find_sent(None if params.everyone else sender, limit=params.limit)
    yield
    return make_box(workspace, config, sent, has_receipts=True)


def ack_signals(
    workspace: Workspace, _config: Config, clock: Clock, params: SignalAckParams
) -> Job[SignalsAcked]:
    """Acknowledge signals for a reader, all in one commit. Raises StoreFailed."""
    signals, now_s, reader = (
        require_records(workspace, clock).signals,
        clock.wall_s(),
        name_reader(params),
    )
    signals.note_readers(params.addresses)
    done = signals.ack(
        params.signals, params.addresses, reader=reader, now_s=now_s, is_claim=params.claim
    )
    yield
    handled = {*done.acked, *done.already, *done.claimed}
    return SignalsAcked(
        workspace=workspace.id,
        acked=done.acked,
        already=done.already,
        claimed=done.claimed,
        claimed_by=done.claimed_by,
        unknown=[number for number in dict.fromkeys(params.signals) if number not in handled],
    )
