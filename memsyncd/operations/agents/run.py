"""Lists what agents were answered, from records.db, in jobs of the worker."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from memsyncd.config import Config
from memsyncd.core.search.dates import DAY_FORM, parse_day
from memsyncd.engine.answers import store_answers
from memsyncd.engine.clock import Clock, find_local_day
from memsyncd.engine.rebuild import require_records
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, Busy, StoreFailed
from memsyncd.operations.agents.declare import (
    AgentAnswer,
    AgentLog,
    AgentSession,
    LogAgentsParams,
)
from memsyncd.operations.call import Call
from memsyncd.store.answers import AnswerFilter

MOST_SESSIONS = 200
_AGO = re.compile(r"(\d{1,6})\s*(s|min|h)")
_UNITS_S = {"s": 1, "min": 60, "h": 3600}


def parse_since(text: str, now_s: float) -> int:
    """Return a time in microseconds since 1970: `90s`, `30min` or `12h` ago, or the beginning of a
    day as filters name it. Raises BadRequest.
    """
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return round((now_s - int(ago[1]) * _UNITS_S[ago[2]]) * 1e6)
    day = parse_day(text, find_local_day(now_s))
    if day is None:
        raise BadRequest(f"since: {text!r} is no time", hint=f"write 30min or 12h, or {DAY_FORM}")
    # People mean their own days.
    return round(datetime.fromisoformat(day).timestamp() * 1e6)


def read_log(
    workspace: Workspace, config: Config, clock: Clock, params: LogAgentsParams
) -> Job[AgentLog]:
    """List the stored answers, and those which cannot be stored now, as on a full disk. Raises
    StoreFailed if records.db cannot be opened, and BadRequest.
    """
    since = None if params.since is None else parse_since(params.since, clock.wall_s())
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
