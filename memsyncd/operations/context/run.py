"""`context`: ask one or several workspaces for their offers, and build one block of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from memsyncd.core.model import QUARTERS_PER_TOKEN
from memsyncd.engine.context import ContextOffer, merge_offers, offer_context
from memsyncd.engine.plan import (
    RunOptions,
    add_accesses,
    describe_query,
    find_commands,
    may_name_commands,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import WorkspaceNotFound
from memsyncd.operations.call import JoinedCall, Questions
from memsyncd.operations.context.declare import ContextAnswer, ContextParams
from memsyncd.operations.inbox import read_inbox, render_news
from memsyncd.operations.signals.declare import Signal, SignalInboxParams


def answer_context(
    call: JoinedCall, params: ContextParams
) -> Questions[ContextOffer, ContextAnswer]:
    """Make the offer of each workspace, and build one block of all offers."""
    if not call.workspaces:
        hint = "add a folder with: memsyncd add PATH"
        raise WorkspaceNotFound("there is no workspace yet", hint=hint)
    commands: frozenset[str] | None = None
    is_merged, user_wide = len(call.workspaces) > 1, call.user_wide
    if call.is_several and may_name_commands(params.query):
        workspaces = [*call.workspaces, *filter(None, [user_wide])]
        commands = find_commands(workspaces, params, call.config, call.options)

    def read(workspace: Workspace, options: RunOptions) -> ContextOffer:
        is_user_wide = workspace is user_wide
        return offer_context(
            workspace,
            replace(params, task=None, session=None, profile=False) if is_user_wide else params,
            call.config,
            replace(
                add_accesses(workspace, params, options),
                within=call.list_shared(workspace),
                commands=commands,
            ),
            is_merged=is_merged,
            is_user_wide=is_user_wide,
            is_elsewhere=call.is_linked(workspace),
        )

    parts = yield read
    own = [part for part in parts if part.workspace is not user_wide]
    errors = [part.error for part in own if part.error is not None]
    if errors and len(errors) == len(own):
        raise errors[0]
    added = next((part.value for part in parts if part.workspace is user_wide), None)
    offers = [part.value for part in own if part.value is not None]
    signals = _read_signals(call, params, offers)
    max_bytes = params.max_bytes or params.max_tokens * QUARTERS_PER_TOKEN
    answer = merge_offers(offers, params, call.config, added, render_news(signals, max_bytes))
    if params.track_access:
        call.note_accesses([(part.workspace, part.anchor) for part in answer.included])
    return replace(
        answer,
        signals=[signal.id for signal in signals],
        **describe_query(params, call.options.now_s),
    )


def _read_signals(
    call: JoinedCall, params: ContextParams, offers: Sequence[ContextOffer]
) -> Sequence[Signal]:
    """Return the unread signals to the agent, the session and the task of a single workspace."""
    if len(call.workspaces) != 1 or not offers:
        return ()
    inbox = SignalInboxParams(
        agent=params.agent, session=params.session, task=offers[0].memories.task
    )
    if not inbox.addresses:
        return ()
    return call.run_job(call.workspaces[0], partial(read_inbox, params=inbox)).signals
