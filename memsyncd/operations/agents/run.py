"""Lists what agents were answered, from records.db, in jobs of the worker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from memsyncd.config import Config
from memsyncd.engine.answers import store_answers
from memsyncd.engine.clock import Clock, parse_since
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import Busy, StoreFailed
from memsyncd.operations.agents.declare import (
    AgentAnswer,
    AgentLog,
    AgentSession,
    LogAgentsParams,
)
from memsyncd.operations.call import Call
from memsyncd.store.answers import AnswerFilter

MOST_SESSIONS = 200


def read_log(
    workspace: Workspace, config: Config, clock: Clock, params: LogAgentsParams
) -> Job[AgentLog]:
    """List the stored answers, and those which cannot be stored now, as on a full disk. Raises
    StoreFailed if records.db cannot be opened, and BadRequest.
    """
    since_s = None if params.since is None else parse_since(params.since, clock.wall_s())
    since = None if since_s is None else round(since_s * 1e6)
    chosen = AnswerFilter(session=params.session, agent=params.agent, since=since)
    answers = require_records(workspace, clock).answers
    noted: list[AgentAnswer] = []
    try:
        store_answers(workspace, config.agents)
    except (StoreFailed, Busy):
        with workspace.answers.lock:
            noted = [*workspace.answers.noted]
    yield
    passing = [answer for answer in reversed(noted) if chosen.passes(answer)]
    sessions = join_sessions(passing, answers.find_sessions(chosen, limit=MOST_SESSIONS))
    latest = [each for each in passing if params.before is None or each.id < params.before]
    latest += answers.find(chosen, before=params.before, limit=params.limit + 1)
    return AgentLog(
        workspace=workspace.id,
        sessions=sessions[:MOST_SESSIONS],
        answers=latest[: params.limit],
        has_more=len(latest) > params.limit,
    )


def join_sessions(
    noted: Sequence[AgentAnswer], stored: Sequence[AgentSession]
) -> list[AgentSession]:
    """Return the stored sessions with the answers that are not stored yet, which are later."""
    joined = {(session.client, session.session): session for session in reversed(stored)}
    for answer in reversed(noted):
        before = joined.pop((answer.client, answer.session), None)
        joined[answer.client, answer.session] = AgentSession(
            client=answer.client,
            agent=answer.agent,
            session=answer.session,
            first_at=before.first_at if before else answer.at,
            last_at=answer.at,
            answers=(before.answers if before else 0) + 1,
            tokens=(before.tokens if before else 0) + answer.tokens,
            writes=(before.writes if before else 0) + (answer.change_set is not None),
        )
    return [*reversed(joined.values())]


async def list_answers(call: Call, params: LogAgentsParams) -> AgentLog:
    return await call.run_job(partial(read_log, params=params))
