"""Keep in records.db what hooks and tools have answered to agents.

An answer has a row in `agent_answers`, and a row in `answer_sections` for each section that was
given, written or left out. The names of notes and headings stay as they were at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from memsyncd.operations.agents.declare import AgentAnswer, AgentSession, AnswerSection
from memsyncd.store.connection import transaction, translating_errors

DAY_US = 86_400_000_000
_ADD = """
INSERT OR IGNORE INTO agent_answers(
  id, client, agent, session, call, tokens, unlisted, left_out, signals, change_set, failure, query
) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)
"""
_ADD_SECTION = "INSERT OR IGNORE INTO answer_sections VALUES(?,?,?,?,?,?,?,?,?,?,?)"
_TRIM = """
DELETE FROM agent_answers WHERE id < ?1 OR id <= (
  SELECT id FROM agent_answers ORDER BY id DESC LIMIT 1 OFFSET ?2
)
"""
_PASSES = """
(:session IS NULL OR substr(session, 1, length(:session)) = :session)
AND (
  :agent IS NULL OR substr(agent, 1, length(:agent)) = :agent
  OR substr(client, 1, length(:agent)) = :agent
)
AND (:since IS NULL OR id >= :since)
"""
_COLUMNS = """
id, client, agent, session, call, tokens, unlisted, left_out, signals, change_set, failure, query
"""
_FIND = f"""
SELECT {_COLUMNS} FROM agent_answers WHERE {_PASSES} AND (:before IS NULL OR id < :before)
ORDER BY id DESC LIMIT :limit
"""
# With `max`, SQLite takes the other columns from the row of the maximum.
_SESSIONS = f"""
SELECT client, agent, session, min(id), max(id), count(*), sum(tokens), count(change_set)
FROM agent_answers WHERE {_PASSES} GROUP BY client, session ORDER BY max(id) DESC LIMIT :limit
"""
_LAST_CALLS = "SELECT client, max(id) FROM agent_answers GROUP BY client"
_SECTIONS = """
SELECT act, workspace, path, section, heading, start_line, end_line, tokens, reason
FROM answer_sections WHERE answer = ? ORDER BY position
"""
_OF_PLACE = """
(?1 IS NULL OR path = ?1 OR path >= ?1 || '/' AND path < ?1 || '0') AND
(?2 IS NULL OR section = ?2 OR section >= ?2 || '/' AND section < ?2 || '0')
"""


class AnswerFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which answers are meant; `since` is in microseconds since 1970."""

    session: str | None = None
    agent: str | None = None
    since: int | None = None

    def passes(self, answer: AgentAnswer) -> bool:
        """True if an answer that is not stored passes, as `find` decides for stored answers."""
        return (
            answer.session.startswith(self.session or "")
            and any(name.startswith(self.agent or "") for name in (answer.agent, answer.client))
            and (self.since is None or answer.id >= self.since)
        )


class Answers:
    """The answers in a records.db, for the writer's thread; `last_calls` for any thread.

    Methods raise the classes of `translating_errors`.
    """

    def __init__(self, writer: apsw.Connection) -> None:
        self._writer = writer
        with translating_errors():
            rows: list[Any] = writer.execute(_LAST_CALLS).fetchall()
        self.last_calls: Mapping[str, int] = dict(rows)
        """The id of the last kept answer to each client. Each change replaces the mapping."""

    def add(self, answers: Sequence[AgentAnswer], *, max_answers: int, max_age_days: float) -> None:
        """Store answers; then drop the oldest, so that `max_answers` remain, and those which are so
        many days older than the newest of these.
        """
        if not answers:
            return
        oldest = answers[-1].id - int(max_age_days * DAY_US)
        rows = (row for answer in answers for row in _make_section_rows(answer))
        with transaction(self._writer):
            self._writer.executemany(_ADD, map(_make_row, answers))
            self._writer.executemany(_ADD_SECTION, rows)
            self._writer.execute(_TRIM, (oldest, max_answers))
            first = self._writer.execute("SELECT min(id) FROM agent_answers").get or 0
        latest = {**self.last_calls, **{answer.client: answer.id for answer in answers}}
        self.last_calls = {client: id_ for client, id_ in latest.items() if id_ >= first}

    def find(
        self, chosen: AnswerFilter, *, before: int | None = None, limit: int = -1
    ) -> list[AgentAnswer]:
        """Return the answers that pass the filter, the latest first."""
        bindings = {**msgspec.structs.asdict(chosen), "before": before, "limit": limit}
        with translating_errors():
            rows: list[Any] = self._writer.execute(_FIND, bindings).fetchall()
            return [self._read(row) for row in rows]

    def _read(self, row: Sequence[Any]) -> AgentAnswer:
        id_, client, agent, session, call, tokens, unlisted, left_out, *others = row
        signals, change_set, failure, query = others
        rows: list[Any] = self._writer.execute(_SECTIONS, (id_,)).fetchall()
        answer = AgentAnswer(
            id=id_,
            at=id_ / 1e6,
            client=client,
            agent=agent,
            session=session,
            call=call,
            tokens=tokens,
            summary="",
            sections=[_read_section(section) for section in rows],
            unlisted=unlisted,
            left_out=msgspec.json.decode(left_out, type=dict[str, int]),
            signals=signals,
            change_set=change_set,
            failure=failure,
            query=query,
        )
        return msgspec.structs.replace(answer, summary=answer.sum_up())

    def find_sessions(self, chosen: AnswerFilter, *, limit: int) -> list[AgentSession]:
        """Return the sessions of the answers that pass the filter, the latest first."""
        bindings = {**msgspec.structs.asdict(chosen), "limit": limit}
        with translating_errors():
            rows: list[Any] = self._writer.execute(_SESSIONS, bindings).fetchall()
        return [
            AgentSession(
                client=client,
                agent=agent,
                session=session,
                first_at=first / 1e6,
                last_at=last / 1e6,
                answers=n,
                tokens=tokens,
                writes=n_writes,
            )
            for client, agent, session, first, last, n, tokens, n_writes in rows
        ]

    def purge(
        self, *, path: str | None = None, slugs: str | None = None, words: Sequence[str] = ()
    ) -> int:
        """Erase the names of a place from the answers; without a place, all answers. Return the
        number of answers that have lost something.

        With `words`, erase the sections whose path or headings contain one of them, and the
        queries.
        """
        with transaction(self._writer):
            if not words and path is None:
                n = int(self._writer.execute("SELECT count(*) FROM agent_answers").get)
                self._writer.execute("DELETE FROM agent_answers")
                self.last_calls = {}
                return n
            found: set[int] = set()
            if not words:
                delete = f"DELETE FROM answer_sections WHERE {_OF_PLACE} RETURNING answer"
                found.update(row[0] for row in self._writer.execute(delete, (path, slugs)))
            for word in filter(None, words):
                delete = (
                    "DELETE FROM answer_sections WHERE instr(path, ?1) OR instr(section, ?1)"
                    " OR instr(heading, ?1) OR instr(reason, ?1) RETURNING answer"
                )
                found.update(row[0] for row in self._writer.execute(delete, (word,)))
                forget = "UPDATE agent_answers SET query = NULL WHERE instr(query, ?) RETURNING id"
                found.update(row[0] for row in self._writer.execute(forget, (word,)))
        return len(found)


def _make_row(answer: AgentAnswer) -> tuple[Any, ...]:
    return (
        answer.id,
        answer.client,
        answer.agent,
        answer.session,
        answer.call,
        answer.tokens,
        answer.unlisted,
        msgspec.json.encode(answer.left_out).decode(),
        answer.signals,
        answer.change_set,
        answer.failure,
        answer.query,
    )


def _make_section_rows(answer: AgentAnswer) -> Iterable[tuple[Any, ...]]:
    for position, section in enumerate(answer.sections):
        has_heading = section.anchor != section.path
        yield (
            answer.id,
            position,
            section.act,
            section.workspace,
            section.path,
            section.anchor.removeprefix(f"{section.path}#") if has_heading else None,
            section.heading,
            section.start_line,
            section.end_line,
            section.tokens,
            section.reason,
        )


def _read_section(row: Sequence[Any]) -> AnswerSection:
    act, workspace, path, slugs, heading, start_line, end_line, tokens, reason = row
    return AnswerSection(
        act=act,
        workspace=workspace,
        anchor=path if slugs is None else f"{path}#{slugs}",
        path=path,
        heading=heading,
        start_line=start_line,
        end_line=end_line,
        tokens=tokens,
        reason=reason,
    )
