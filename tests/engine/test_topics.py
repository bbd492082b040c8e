"""Topics are found by any name, kept by one edit, and their fields have a history."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memsyncd.config import Config, HistoryConfig
from memsyncd.core.editing.topics import trim_text
from memsyncd.core.paths import NotePath
from memsyncd.engine.external_changes import prune_slice
from memsyncd.engine.field_edits import choose_near
from memsyncd.engine.metadata import make_valuation
from memsyncd.errors import BadRequest, Conflict, NoteNotFound, PathRefused
from memsyncd.operations.plans import preview
from memsyncd.operations.topics.declare import (
    FieldAppendParams,
    FieldHistoryParams,
    TopicArchiveParams,
    TopicCreateParams,
    TopicGetParams,
    TopicListParams,
    TopicPatchParams,
)
from memsyncd.operations.topics.run import (
    find_field_topic,
    find_near_topic,
    find_topic,
    list_field_history,
    list_topics,
    make_append_decision,
    make_create_decision,
    make_patch_decision,
    plan_topics,
    read_topic,
)
from tests.engine.conftest import carry_out_plan, take

AT = "2026-11-23T04:10:00Z"
NOW_S = 1_795_000_000.0
REDIS = ".memories/redis.md"


def create(bench: Any, title: str = "Redis", **more: Any) -> Any:
    params = TopicCreateParams(title=title, **more)
    return bench.edit(
        make_create_decision(bench.workspace, bench.config, params, client="t", at=AT)
    )


def append(bench: Any, content: str, field: str = "Log", at: str = AT, **more: Any) -> Any:
    params = FieldAppendParams(topic="redis", field=field, content=content, **more)
    return bench.edit(
        make_append_decision(bench.workspace, bench.config, params, client="t", at=at)
    )


def read(bench: Any, **more: Any) -> Any:
    params = TopicGetParams(topic="redis")
    return read_topic(bench.workspace, bench.config, params, now_s=NOW_S, **more)


def list_past(bench: Any, field: str = "Log", **more: Any) -> list[str]:
    params = FieldHistoryParams(topic="redis", field=field, **more)
    job = list_field_history(bench.workspace, bench.config, bench.clock, NotePath(REDIS), params)
    return [value.text for value in take(job).values]


def apply(bench: Any, act: Any, *topics: str, plan: str | None = None) -> Any:
    params = TopicArchiveParams(topics=list(topics), plan=plan, apply=True)
    make = partial(plan_topics, bench.workspace, bench.config, act, params)
    return carry_out_plan(bench, act, params, make, now_s=NOW_S)


@pytest.fixture
def redis(bench: Any) -> Any:
    bench.sync()
    create(bench, summary="A cache.", fields={"Log": "It runs."})
    return bench


def test_a_topic_is_found_by_path_name_title_or_alias(redis: Any) -> None:
    redis.write(".memories/db.md", "---\naliases: [store]\n---\n# The Database\n")
    redis.write("MEMORY.md", "# Memory\n")
    redis.write(".memories/raw.txt", "plain\n")
    redis.sync()
    find = partial(find_topic, redis.workspace, redis.config)
    for name in (REDIS, "redis", "Redis", f"{REDIS}#redis/log"):
        assert find(name).text == REDIS
    for name in ("db", "The Database", "store"):
        assert find(name).text == ".memories/db.md"
    assert find("MEMORY.md").text == "MEMORY.md"
    with pytest.raises(NoteNotFound, match="no topic rediss") as caught:
        find("rediss")
    assert "redis" in caught.value.hint
    with pytest.raises(NoteNotFound):
        find("../outside")
    with pytest.raises(NoteNotFound, match="no section") as caught:
        find("redis#redis/lug")
    assert "#redis/log" in caught.value.hint


def test_a_section_is_not_changed_as_if_it_were_its_topic(redis: Any) -> None:
    redis.sync()
    before = redis.files()
    for section in (f"{REDIS}#redis/log", "redis#redis/log", "Redis#redis/log", f"{REDIS}#none"):
        patch = TopicPatchParams(topic=section, importance=0.1)
        with pytest.raises(BadRequest, match="is a section, and this changes the whole note"):
            make_patch_decision(redis.workspace, redis.config, patch, client="t", at=AT)
        value = FieldAppendParams(topic=section, field="Log", content="x")
        with pytest.raises(BadRequest, match="is a section"):
            make_append_decision(redis.workspace, redis.config, value, client="t", at=AT)
        for act in ("topic.archive", "topic.restore"):
            with pytest.raises(BadRequest, match="is a section"):
                apply(redis, act, section)
    assert redis.files() == before


def test_a_number_sign_in_a_name_begins_no_anchor(bench: Any) -> None:
    bench.sync()
    create(bench, "Learning C# basics", fields={"C# tips": "one"})
    bench.sync()
    path = find_topic(bench.workspace, bench.config, "Learning C# basics")
    assert (
        find_topic(bench.workspace, bench.config, f"{path.text}#learning-c-basics/c-tips") == path
    )
    for field in ("C# tips", "F# tips"):
        params = FieldAppendParams(topic="Learning C# basics", field=field, content="two")
        made = make_append_decision(bench.workspace, bench.config, params, client="t", at=AT)
        anchor = bench.edit(made).answer.anchor
        for name in (field, anchor):
            past = FieldHistoryParams(topic=path.text, field=name)
            job = list_field_history(bench.workspace, bench.config, bench.clock, path, past)
            assert take(job).values[0].text == "two"
    unknown = replace(params, field=f"{path.text}#none")
    with pytest.raises(NoteNotFound, match="no section"):
        bench.edit(make_append_decision(bench.workspace, bench.config, unknown, client="t", at=AT))


def test_the_history_of_a_field_is_not_asked_of_a_section(redis: Any) -> None:
    assert find_field_topic(redis.workspace, redis.config, "redis") == NotePath(REDIS)
    with pytest.raises(BadRequest, match="is a section"):
        find_field_topic(redis.workspace, redis.config, f"{REDIS}#redis/log")


def test_a_read_only_note_is_listed_and_not_written_to(bench: Any) -> None:
    scope = bench.workspace.scope
    bench.workspace.scope = replace(scope, read_only=scope.read_only.parse([REDIS]))
    bench.fill({REDIS: "# Redis\n\n## Log\n\nx\n"})
    assert [field.name for field in read(bench).fields] == ["Log"]
    with pytest.raises(PathRefused, match="read-only"):
        append(bench, "y")


numbers = count()


@given(st.lists(st.text("ab \n#`-", min_size=1, max_size=12).filter(str.strip), max_size=4))
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_value_that_was_appended_is_in_the_history(bench: Any, values: list[str]) -> None:
    title = f"topic {next(numbers)}"
    create(bench, title, fields={"Log": "first"})
    for n, value in enumerate(values):
        params = FieldAppendParams(topic=title, field="Log", content=value, keep=1)
        at = f"2026-11-23T05:{n:02}:00Z"
        bench.edit(make_append_decision(bench.workspace, bench.config, params, client="t", at=at))
    path = find_topic(bench.workspace, bench.config, title)
    history = FieldHistoryParams(topic=title, field="Log")
    job = list_field_history(bench.workspace, bench.config, bench.clock, path, history)
    found = take(job).values
    assert [value.text for value in found] == [*map(trim_text, reversed(values)), "first"]
    assert [value.is_current for value in found] == [True] + [False] * len(values)


def test_a_field_history_says_whether_earlier_values_may_be_gone(bench: Any) -> None:
    bench.config = replace(bench.config, history=HistoryConfig(max_revisions=3))
    create(bench, "Limits", fields={"Log": "first"})
    path = find_topic(bench.workspace, bench.config, "Limits")

    def read(**page: Any) -> Any:
        params = FieldHistoryParams(topic="Limits", field="Log", **page)
        return take(list_field_history(bench.workspace, bench.config, bench.clock, path, params))

    for n in range(2):
        params = FieldAppendParams(topic="Limits", field="Log", content=f"value {n}", keep=1)
        by = {"client": "t", "at": f"2026-11-23T05:{n:02}:00Z"}
        bench.edit(make_append_decision(bench.workspace, bench.config, params, **by))
        assert read().is_complete
    assert not read(limit=2).is_complete
    bench.edit(make_append_decision(bench.workspace, bench.config, params, **by))
    take(prune_slice(bench.workspace, bench.config, bench.clock))
    pruned = read()
    assert ("first" in {value.text for value in pruned.values}, pruned.is_complete) == (
        False,
        False,
    )
    bench.write(".memories/seen.md", "# Seen\n\n## Log\n\n- a value\n")
    bench.see()
    path = find_topic(bench.workspace, bench.config, ".memories/seen.md")
    assert not read().is_complete


def test_without_a_history_no_value_leaves_its_note(redis: Any) -> None:
    redis.config = replace(redis.config, history=HistoryConfig(enabled=False))
    for n in range(4):
        done = append(redis, f"value {n}", keep=2).answer
    assert (done.n_values, done.n_dropped) == (5, 0)


def test_a_field_history_is_read_in_pages_and_follows_a_renamed_note(redis: Any) -> None:
    for n in range(3):
        append(redis, f"value {n}", at=f"2026-11-23T05:0{n}:00Z")
    assert list_past(redis) == ["value 2", "value 1", "value 0", "It runs."]
    assert list_past(redis, limit=2) == ["value 2", "value 1"]
    params = FieldHistoryParams(topic="redis", field="Log", limit=2)
    job = list_field_history(redis.workspace, redis.config, redis.clock, NotePath(REDIS), params)
    last = take(job).values[-1].revision
    assert list_past(redis, before=last) == ["value 0", "It runs."]
    redis.memory("rename", old_path="/memories/redis.md", new_path="/memories/cache.md")
    path = NotePath(".memories/cache.md")
    job = list_field_history(
        redis.workspace, redis.config, redis.clock, path, FieldHistoryParams(topic="c", field="log")
    )
    assert [value.text for value in take(job).values] == [
        "value 2",
        "value 1",
        "value 0",
        "It runs.",
    ]


def test_a_patch_with_another_digest_is_refused_and_one_of_nothing_changes_nothing(
    redis: Any,
) -> None:
    def patch(**more: Any) -> Any:
        params = TopicPatchParams(topic="redis", **more)
        at = "2026-11-24T00:00:00Z"
        return redis.edit(
            make_patch_decision(redis.workspace, redis.config, params, client="t", at=at)
        )

    digest = read(redis).digest
    with pytest.raises(Conflict, match="is not what it was"):
        patch(summary="x", if_digest="other")
    assert patch(summary="A cache.").change_set is None
    done = patch(
        summary="A fast cache.", importance=0.9, metadata={"owner": "ann"}, if_digest=digest
    )
    assert done.change_set is not None
    topic = read(redis)
    assert (topic.summary, topic.importance, topic.updated) == (
        "A fast cache.", 0.9, "2026-11-24T00:00:00Z",
    )  # fmt: skip
    assert topic.meta == {"owner": "ann"}
    patch(metadata={"owner": ""}, summary="")
    assert (read(redis).summary, read(redis).meta) == ("", {})


def test_the_worth_of_a_topic_is_the_mean_of_its_fields_and_counts_recalls(redis: Any) -> None:
    append(redis, "important", "Facts", importance=1.0)
    topic = read(redis)
    assert topic.worth == topic.salience == pytest.approx((0.5 + 1.0) / 2 / 0.7, abs=1e-4)
    assert topic.worth == pytest.approx(sum(field.worth for field in topic.fields) / 2, abs=1e-4)
    accesses = {f"{REDIS}#redis/log": 5}
    raised = read(redis, accesses=accesses)
    assert raised.worth > topic.worth
    assert [field.accesses for field in raised.fields] == [5, 0]
    create(redis, "Other", fields={"A": "x"}, importance=0.7)
    found = list_topics(
        redis.workspace, redis.config, TopicListParams(limit=1), now_s=NOW_S, accesses=accesses
    )
    assert ([topic.path for topic in found.topics], found.n_topics) == ([REDIS], 2)


DATED = "## One\n<!-- memory: {{updated: '{day}', importance: {importance}}} -->\ntext\n"


def test_topics_are_listed_in_each_order_as_their_sections_state(bench: Any) -> None:
    for name, day, importance in (("a", 10, 0.2), ("b", 12, 0.9), ("c", 11, 0.5)):
        text = DATED.format(day=f"2026-11-{day}T10:00:00Z", importance=importance)
        bench.write(f".memories/{name}.md", text)
    bench.write(".memories/d.md", "")
    bench.write(".memories/e.md", "---\nstatus: archived\n---\n# E\n## One\ntext\n")
    bench.sync(is_full=True)

    def list_names(**more: Any) -> str:
        params = TopicListParams(**more)
        found = list_topics(bench.workspace, bench.config, params, now_s=NOW_S)
        return "".join(topic.path[len(".memories/")] for topic in found.topics)

    assert list_names() == "bcad"
    assert list_names(limit=2) == "bc"
    assert list_names(sort="file") == "abcd"
    assert list_names(sort="file", include_archived=True) == "abcde"
    assert list_names(sort="file", path=".memories/c.md") == "c"
    # An empty note was changed when it was saved.
    assert list_names(sort="recency").replace("d", "") == "bca"


def test_the_topic_of_a_value_is_no_metadata_of_its_field(redis: Any) -> None:
    append(redis, "It stops.")
    append(redis, "A limit of 50.", field="Pool")
    assert "topic:" not in (redis.root / REDIS).read_text()


def test_several_topics_are_archived_by_one_change_set_whole_or_not_at_all(redis: Any) -> None:
    create(redis, "Other", fields={"A": "x"})
    create(redis, "Kept", fields={"A": "x"}, lifecycle="project")
    paths = [".memories/kept.md", ".memories/other.md", REDIS]
    before = {path: (redis.root / path).read_bytes() for path in paths}
    params = TopicArchiveParams(topics=["Redis", "Other", "Kept"])
    valuation = make_valuation(redis.config, NOW_S)
    planned = plan_topics(redis.workspace, redis.config, "topic.archive", params, valuation)
    plan = preview(redis.workspace, planned)
    assert [archived.path for archived in plan.archived] == paths[1:]
    assert [skipped.reason for skipped in plan.skipped] == ["its lifecycle is project"]
    append(redis, "changed since")
    with pytest.raises(Conflict, match="notes have changed since"):
        apply(redis, "topic.archive", "Redis", "Other", "Kept", plan=plan.plan)
    before[REDIS] = (redis.root / REDIS).read_bytes()
    done = apply(redis, "topic.archive", "Redis", "Other", "Kept")
    assert done.change_set is not None
    assert (redis.root / REDIS).read_bytes().startswith(b"---\nstatus: archived\n")
    found = list_topics(redis.workspace, redis.config, TopicListParams(), now_s=NOW_S)
    assert [topic.path for topic in found.topics] == [".memories/kept.md"]
    again = apply(redis, "topic.archive", "Redis")
    assert (again.archived, again.change_set) == ([], None)
    restored = apply(redis, "topic.restore", "Redis", "Other", "Kept")
    assert [section.path for section in restored.restored] == paths[1:]
    assert [skipped.reason for skipped in restored.skipped] == [
        "its front matter does not archive it"
    ]
    assert {path: (redis.root / path).read_bytes() for path in paths} == before


def test_a_topic_with_the_title_of_another_is_near_and_can_be_appended_to(redis: Any) -> None:
    params = TopicCreateParams(title="redis", note="other", fields={"Log": "It stopped."})
    near = find_near_topic(redis.workspace, Config(), params, now_s=NOW_S)
    assert (near[0].anchor, near[0].similarity) == (f"{REDIS}#redis", 1.0)
    assert choose_near(redis.workspace, redis.config, near, "add") is None
    there = choose_near(redis.workspace, redis.config, near, "append")
    assert there is near[0]
    decide = make_create_decision(
        redis.workspace, redis.config, params, client="t", at=AT, into=there.path
    )
    assert redis.edit(decide).answer.fields == (f"{REDIS}#redis/log",)
    assert [field.text for field in read(redis).fields[0].values] == ["It stopped.", "It runs."]


def test_a_topic_with_the_same_name_is_reported_without_its_secrets(bench: Any) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    bench.fill({".memories/redis.md": f"# Redis {token}\n\nA cache.\n"})
    params = TopicCreateParams(title="redis", summary="Something else.")
    [near] = find_near_topic(bench.workspace, Config(), params, now_s=NOW_S)
    assert near.heading == ["Redis [masked: GitHub token]"]
