"""Topics and fields against the real daemon: notes are made, appended to, archived and restored."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client.memory import Memsyncd
from memsyncd.errors import AlreadyExists, BadRequest, Conflict, EditRefused, NoteNotFound

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon

AUTH = ".memories/auth-service.md"
POOL = "Redis gives up after 30 s, so the connection pool must not wait longer than that."


def create(memory: Memsyncd, **more: Any) -> Any:
    return memory.create_topic(
        "Auth service",
        "Sessions live in Redis.",
        fields={"Status": "Redis 7 runs.", "Owner": "The infra team."},
        relations=[{"kind": "resolved_by", "to": "redis-timeouts"}],
        tags=["auth"],
        importance=0.6,
        **more,
    )


def test_the_life_of_a_topic(place: Place, memory: Memsyncd) -> None:
    # create_topic() writes the note with its first field values.
    created = create(memory)
    assert (created["path"], created["action"], created["similar"]) == (AUTH, "added", [])
    note = place.root / AUTH
    assert note.read_text().startswith("---\ntags: [auth]\nimportance: 0.6\ncreated: ")
    # append_field_history() prepends a revision, caps them, and syncs the salience.
    for n in (8, 9, 10):
        appended = memory.append_field("auth-service", "Status", f"Redis {n} runs.", keep=2)
    assert (appended["n_values"], appended["n_dropped"]) == (2, 1)
    memory.append_field("auth-service", "Owner", "The platform team.", importance=1.0)
    topic = memory.topic("Auth service", track_access=False)
    assert topic["summary"] == "Sessions live in Redis."
    fields = {
        field["name"]: [value["text"] for value in field["values"]] for field in topic["fields"]
    }
    assert fields == {
        "Status": ["Redis 10 runs.", "Redis 9 runs."],
        "Owner": ["The platform team.", "The infra team."],
    }
    assert topic["worth"] == pytest.approx((0.6 + 1.0) / 2 / 0.7, abs=1e-3)
    assert topic["salience"] == topic["worth"]
    # Its history has each value.
    past = memory.field_history("auth-service", "status")
    assert {revision["text"]: revision["is_current"] for revision in past} == {
        "Redis 10 runs.": True,
        "Redis 9 runs.": True,
        "Redis 8 runs.": False,
        "Redis 7 runs.": False,
    }
    assert {(revision["client"], revision["command"]) for revision in past} == {
        ("builder", "field.append"),
        ("builder", "topic.create"),
    }
    # update_topic_meta() patches what is given, and `updated`.
    before = note.read_bytes()
    memory.patch_topic("auth-service", priority="P1", tags=["auth", "redis"])
    kept = before.replace(b"tags: [auth]\n", b"tags: [auth, redis]\n")
    stamp = note.read_text().partition("updated: ")[2].partition("\n")[0]
    added = f"updated: {stamp}\npriority: P1\n".encode()
    parts = sorted(note.read_bytes().splitlines())
    assert parts == sorted((kept + added).splitlines())
    # add_related_edge() merges on (from, to, kind).
    again = memory.patch_topic(
        AUTH, relate=[{"kind": "resolved_by", "to": ".memories/redis-timeouts.md"}]
    )
    assert (again["action"], again["change_set"]) == ("unchanged", None)
    memory.patch_topic(
        AUTH, relate=["platform"], unrelate=[{"kind": "resolved_by", "to": "redis-timeouts"}]
    )
    assert memory.topic(AUTH)["relations"] == [{"kind": "related", "to": "platform"}]


def test_recalls_raise_a_topic_in_the_list(memory: Memsyncd) -> None:
    for name in ("One", "Two"):
        memory.create_topic(name, fields={"State": f"{name} is as it was."}, importance=0.5)
    for _ in range(3):
        memory.topic("Two")
    memory.access_stats()  # stores the noted accesses
    listed = {topic["title"]: topic for topic in memory.topics(".memories")}
    assert listed["Two"]["worth"] > listed["One"]["worth"] == pytest.approx(0.5 / 0.7, abs=1e-3)
    assert listed["Two"]["accesses"] == 3
    titles = [
        topic["title"] for topic in memory.topics(".memories") if topic["title"] in ("One", "Two")
    ]
    assert titles == ["Two", "One"]


def test_a_topic_is_archived_by_its_plan_and_restored_to_the_same_bytes(
    place: Place, memory: Memsyncd
) -> None:
    create(memory)
    memory.create_topic("Billing", fields={"Status": "Invoices go out by mail."})
    before = {path: (place.root / path).read_bytes() for path in (AUTH, ".memories/billing.md")}
    plan = memory.archive_topic("Auth service", "billing")
    assert not plan["is_applied"]
    assert [archived["path"] for archived in plan["archived"]] == [*before]
    memory.append_field("billing", "Status", "Invoices go out twice.")
    with pytest.raises(Conflict, match="notes have changed since this was planned"):
        memory.archive_topic("Auth service", "billing", apply=True, plan=plan["plan"])
    before[".memories/billing.md"] = (place.root / ".memories/billing.md").read_bytes()
    plan = memory.archive_topic("Auth service", "billing")
    done = memory.archive_topic("Auth service", "billing", apply=True, plan=plan["plan"])
    assert done["archived"] == plan["archived"]
    for query in ("auth redis sessions", "invoices"):
        assert {hit["path"] for hit in memory.search(query)}.isdisjoint(before)
    assert {topic["path"] for topic in memory.topics(include_archived=True)} >= before.keys()
    assert {topic["path"] for topic in memory.topics()}.isdisjoint(before)
    with pytest.raises(EditRefused, match="is archived"):
        memory.append_field("billing", "Status", "no")
    memory.undo(change_set=done["change_set"])
    assert {path: (place.root / path).read_bytes() for path in before} == before
    memory.archive_topic("billing", apply=True)
    restored = memory.restore_topic("billing", apply=True)
    assert [topic["path"] for topic in restored["restored"]] == [".memories/billing.md"]
    assert {path: (place.root / path).read_bytes() for path in before} == before
    memory.add("It must not fail.", kind="error", note="errors")
    (skipped,) = memory.archive_topic("errors")["skipped"]
    assert skipped["reason"] == "its kind, error, is protected"


def test_what_nearly_exists_is_named_and_can_be_appended_to(place: Place, memory: Memsyncd) -> None:
    first = memory.add(POOL, summary="Redis timeouts", kind="error")
    assert (first["action"], first["similar"]) == ("added", [])
    again = POOL.replace(", so", "; so")
    reported = memory.add(again, kind="decision", on_similar="report")
    assert (reported["action"], reported["anchor"]) == ("reported", first["anchor"])
    assert not (place.root / ".memories" / "decisions.md").exists()
    appended = memory.add(again, summary="Pool", kind="decision", tags=["db"], on_similar="append")
    assert (appended["action"], appended["anchor"]) == ("appended", first["anchor"])
    got = memory.get(first["anchor"])
    assert got is not None
    assert got["text"].count("Redis gives up") == 2
    assert "Pool\n\n  Redis gives up" in got["text"]
    assert (got["kind"], got["tags"]) == ("error", ["db"])
    added = memory.add(again, kind="decision")
    assert added["action"] == "added"
    assert added["similar"][0]["anchor"] == first["anchor"]
    # With nothing similar there is nothing to append to, and nothing is lost.
    other = memory.add("Apples are harvested in September.", on_similar="append")
    assert (other["action"], other["similar"]) == ("added", [])
    text = "Apples are harvested in September, mostly."
    appended_field = memory.append_field(added["path"], "Fruit", text, on_similar="append")
    assert appended_field["anchor"] == other["anchor"]
    assert appended_field["action"] == "appended"


def test_a_topic_that_is_there_is_refused_reported_or_appended_to(memory: Memsyncd) -> None:
    create(memory)
    with pytest.raises(AlreadyExists, match="is there already"):
        create(memory)
    assert create(memory, on_similar="report")["action"] == "reported"
    again = memory.create_topic(
        "Auth service", "Tokens expire.", fields={"Status": "Redis 8"}, on_similar="append"
    )
    assert (again["action"], again["path"]) == ("appended", AUTH)
    fields = {field["name"]: field["values"] for field in memory.topic(AUTH)["fields"]}
    assert [field["text"] for field in fields["Status"]] == ["Redis 8", "Redis 7 runs."]
    assert fields["Auth service"][0]["text"] == "Tokens expire."


def test_every_fault_is_named_and_nothing_is_written(place: Place, memory: Memsyncd) -> None:
    with pytest.raises(BadRequest) as caught:
        memory.create_topic("", fields={"a": " "}, priority="P9", relations=["x]]y"])
    assert [fault["field"] for fault in caught.value.data["faults"]] == [
        "title",
        "priority",
        "fields.a",
        "relations",
    ]
    assert not (place.root / AUTH).exists()
    with pytest.raises(NoteNotFound, match="no topic nowhere"):
        memory.append_field("nowhere", "a", "b")
    create(memory)
    with pytest.raises(Conflict, match="is not what it was"):
        memory.patch_topic(AUTH, title="x", if_digest="0")
    with pytest.raises(NoteNotFound, match="no field"):
        memory.field_history(AUTH, "Absent")


def test_agents_that_append_to_one_field_at_once_lose_no_value(
    place: Place, memory: Memsyncd
) -> None:
    create(memory)

    def append(agent: int) -> None:
        with Memsyncd(str(place.root), env=place.home.env, client=f"agent-{agent}") as own:
            for n in range(4):
                own.append_field(AUTH, "Log", f"Agent {agent} has done step {n}.")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    texts = {value["text"] for value in memory.field_history(AUTH, "Log")}
    assert texts == {f"Agent {agent} has done step {n}." for agent in range(4) for n in range(4)}


def test_an_edit_by_hand_is_a_value_of_the_history(place: Place, memory: Memsyncd) -> None:
    create(memory)
    note = place.root / AUTH
    note.write_text(note.read_text() + "\n## Notes\n\nWritten by hand.\n")
    memory.sync()
    note.write_text(note.read_text().replace("Written by hand.", "Written again."))
    memory.sync()
    past = memory.field_history(AUTH, "Notes")
    assert {revision["text"]: revision["is_current"] for revision in past} == {
        "Written again.": True,
        "Written by hand.": False,
    }
    appended = memory.append_field(AUTH, "Notes", "Appended.")
    assert appended["n_values"] == 1
    assert "Appended.\n\nWritten again.\n" in note.read_text()


def test_the_commands_print_what_the_methods_answer(place: Place) -> None:
    def run(*words: str, status: int = 0) -> str:
        done = place.home.run("topic", *words, cwd=place.root)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    assert run("create", "Auth service", "Who you are.", "--field", "Status=Redis 7") == f"{AUTH}\n"
    assert run("append", "auth-service", "Status", "Redis", "8").startswith(f"{AUTH}:")
    shown = run("get", "auth-service")
    assert "Redis 8\n" in shown
    assert shown.index("Redis 8") < shown.index("Redis 7")
    assert "earlier" not in run("history", "auth-service", "Status")
    # `get` counts as an access, which may be stored by now.
    assert re.match(rf"0\.7\d  {re.escape(AUTH)}  Auth service  Status\n", run("list", AUTH))
    assert "says that already" in run("patch", "auth-service", "--summary", "Who you are.")
    assert run("patch", "auth-service", "--relate", "part_of=platform") == f"{AUTH}\n"
    assert "do it with: memsyncd topic archive auth-service --apply --plan" in run(
        "archive", "auth-service"
    )
    assert "1 archived" in run("archive", "auth-service", "--apply")
    assert run("get", "auth-service").split("\n")[0].endswith("archived")
    assert "1 restored" in run("restore", "auth-service", "--apply")
    assert json.loads(run("get", "auth-service", "--json"))["path"] == AUTH
    assert "COMMAND is missing" in run(status=2)
