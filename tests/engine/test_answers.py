"""Answers to agents are kept within bounds, without their queries, whatever records.db does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.config import AgentsConfig
from memsyncd.engine.accesses import store_accesses
from memsyncd.engine.answers import MOST_SECTIONS, find_last_calls, note_answer
from memsyncd.engine.workspace import NOTED_MOST
from memsyncd.operations.agents.declare import AgentAnswer, AgentLog, AnswerSection, LogAgentsParams
from memsyncd.operations.agents.run import read_log
from memsyncd.operations.answers import AnswerContent, AnswerSource, make_answer
from memsyncd.operations.history.declare import PurgeParams
from memsyncd.operations.history.run import purge
from memsyncd.operations.revisions import parse_target
from memsyncd.store.answers import Answers
from tests.engine.conftest import Bench, take

DAY_S = 86_400.0
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
REDIS = AnswerSection(
    act="given", anchor=".memories/redis.md#redis/ports", path=".memories/redis.md",
    heading="Redis › Ports", start_line=3, end_line=5, tokens=7,
)  # fmt: skip


def make(
    call: str = "memory_search",
    *,
    at_s: float = 1.0,
    session: str = "s-1",
    client: str = "codex",
    sections: tuple[AnswerSection, ...] = (REDIS,),
    **more: object,
) -> AgentAnswer:
    source = AnswerSource(client=client, agent=client, session=session)
    return replace(make_answer(source, call, "x" * 40, AnswerContent(sections), **more), at=at_s)


def log(bench: Bench, **params: object) -> AgentLog:
    asked = LogAgentsParams(**{"limit": 200, **params})
    return take(read_log(bench.workspace, bench.config, bench.clock, asked))


def check_last_calls(bench: Bench) -> None:
    """The last calls that `status` reports are in the log, also when records.db is opened anew."""
    answers, last = log(bench).answers, find_last_calls(bench.workspace)
    assert last == {answer.client: answer.id for answer in reversed(answers)}
    if not bench.workspace.answers.noted:
        assert Answers(bench.workspace.records._writer).last_calls == last


def store(bench: Bench) -> None:
    take(store_accesses(bench.workspace, bench.config, bench.clock))


@pytest.fixture
def bench(bench: Bench) -> Bench:
    bench.write(".memories/redis.md", "# Redis\n\n## Ports\n\n6379.\n")
    bench.update()
    bench.see()
    return bench


ANSWERS = st.lists(
    st.tuples(
        st.floats(min_value=0.0, max_value=3 * DAY_S),
        st.sampled_from(["s-1", "s-10", ""]),
        st.sampled_from(["codex", "gemini"]),
        st.booleans(),
    ),
    max_size=30,
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ANSWERS, st.integers(1, 12), st.floats(0.1, 2.0))
def test_the_newest_answers_are_kept_and_found(
    bench: Bench, planned: list[tuple[float, str, str, bool]], most: int, days: float
) -> None:
    config = replace(bench.config, agents=AgentsConfig(max_answers=most, max_age_days=days))
    bench.config = config
    bench.workspace.records.answers.purge()
    bench.workspace.answers.last_id = 0
    kept: list[AgentAnswer] = []
    for at_s, session, client, is_stored in sorted(planned):
        noted = note_answer(
            bench.workspace, config.agents, make(at_s=at_s + 1, session=session, client=client)
        )
        kept.append(noted)
        if is_stored:
            store(bench)
            check_last_calls(bench)
            kept = [each for each in kept if each.id >= noted.id - days * DAY_S * 1e6][-most:]
    answers = log(bench).answers
    # The last answers were stored by the question.
    last = kept[-1].id if kept else 0
    kept = [each for each in kept if each.id >= last - days * DAY_S * 1e6][-most:]
    assert answers == kept[::-1]
    check_last_calls(bench)
    count = "SELECT count(*) FROM answer_sections"
    assert bench.workspace.records._writer.execute(count).get == len(kept)
    for session in ("s-1", "s-10"):
        found = log(bench, session=session, agent="codex").answers
        expected = [x for x in kept if x.session.startswith(session) and x.client == "codex"]
        assert found == expected[::-1]
    sessions = log(bench).sessions
    assert sum(each.answers for each in sessions) == len(kept)
    assert sum(each.tokens for each in sessions) == sum(each.tokens for each in kept)
    assert [each.last_at for each in sessions] == sorted(
        (each.last_at for each in sessions), reverse=True
    )
    older = log(bench, limit=1, before=answers[0].id) if answers else None
    assert older is None or older.answers == answers[1:2]
    assert older is None or older.has_more == (len(answers) > 2)


@pytest.fixture(params=["PRAGMA query_only = 1", "full"])
def failing(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A records.db that SQLite refuses to write: read-only, or its disk is full."""
    writer = bench.workspace.records._writer
    pages = writer.execute("PRAGMA page_count").get
    is_full = request.param == "full"
    writer.execute(f"PRAGMA max_page_count = {pages}" if is_full else request.param)
    yield bench
    writer.execute("PRAGMA query_only = 0")
    writer.execute("PRAGMA max_page_count = 1000000")
    store(bench)
    stored = bench.workspace.records._writer.execute("SELECT count(*) FROM agent_answers").get
    assert stored == NOTED_MOST
    assert not bench.workspace.answers.noted


def test_answers_are_listed_although_they_cannot_be_stored(failing: Bench) -> None:
    many = tuple(replace(REDIS, anchor=f"a.md#{n}", heading="x" * 500) for n in range(130))
    for number in range(NOTED_MOST + 5):
        note_answer(failing.workspace, failing.config.agents, make(f"call {number}", sections=many))
        if number % 500 == 0:
            store(failing)
    check_last_calls(failing)
    answers = log(failing, limit=3).answers
    assert [each.call for each in answers] == [f"call {NOTED_MOST + 4 - n}" for n in range(3)]
    assert len(answers[0].sections) == MOST_SECTIONS
    assert answers[0].unlisted == len(many) - MOST_SECTIONS
    assert answers[0].summary == "1+ notes, 10 tokens"
    [session] = log(failing).sessions
    assert (session.answers, session.tokens) == (NOTED_MOST, 10 * NOTED_MOST)


def test_a_query_is_kept_only_if_the_user_wants_it_and_never_with_a_secret(bench: Bench) -> None:
    for has_prompts in (False, True):
        config = AgentsConfig(prompts=has_prompts)
        note_answer(bench.workspace, config, make(query=f"why {TOKEN}?"))
    store(bench)
    with_query, without = log(bench).answers
    assert without.query is None
    assert with_query.query is not None
    assert with_query.query.startswith("why ")
    assert TOKEN not in with_query.query


def test_a_purge_erases_the_names_and_the_queries(bench: Bench) -> None:
    def erase(**named: object) -> int:
        params = PurgeParams(**named)
        target = parse_target(params)
        return take(purge(bench.workspace, bench.config, bench.clock, target, params)).answers

    other = replace(REDIS, anchor="MEMORY.md#tea", path="MEMORY.md", heading="Tea")
    prompts = AgentsConfig(prompts=True)
    note_answer(bench.workspace, prompts, make(query="which ports?", sections=(REDIS, other)))
    note_answer(bench.workspace, prompts, make(sections=(other,)))
    assert erase(containing="ports") == 1
    check_last_calls(bench)
    last, first = log(bench).answers
    assert (first.query, [each.path for each in first.sections]) == (None, ["MEMORY.md"])
    assert erase(path="MEMORY.md") == 2
    assert [each.sections for each in log(bench).answers] == [[], []]
    assert last.sections == [other]
    assert erase() == 2
    check_last_calls(bench)
    assert log(bench) == AgentLog(
        workspace=bench.workspace.id, sessions=[], answers=[], has_more=False
    )
