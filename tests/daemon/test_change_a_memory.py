"""One memory is changed, finished and related, from Python, the command line, JSON-RPC and HTTP."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from memsyncd.client.memory import Memsyncd
from memsyncd.core.editing.merge import merge_notes
from memsyncd.errors import (
    BadRequest,
    ConfirmationNeeded,
    Conflict,
    EditRefused,
    NoteNotFound,
    PathRefused,
)
from memsyncd.operations.fields import make_short_id
from tests.daemon.test_mcp import connect

if TYPE_CHECKING:
    from tests.daemon.conftest import Place

pytestmark = pytest.mark.shared_daemon

ERRORS = ".memories/errors.md"
WORK = ".memories/discoveries.md"
NOTES = {
    ERRORS: "# Errors\r\n\r\n## Pool\r\n<!-- memory: {kind: error, tags: [a, 'b'], x: 1} -->\r\nIt waits."
    "\r\n\r\n### Cause\r\n\r\nOne socket.\r\n\r\n## Twin\r\n\r\nFirst.\r\n\r\n## Twin\r\n\r\nSecond.",
    WORK: "---\ntitle: 'Work'  # ours\n---\n\n## Retry\n<!-- memory: {kind: discovery, task: PAY-7,"
    " priority: P1} -->\nSee [[errors#Pool]].\n\nSetext\n------\n\n```\n# no heading\n```\n",
}


@pytest.fixture
def memory(place: Place) -> Iterator[Memsyncd]:
    for path, text in NOTES.items():
        (place.root / path).parent.mkdir(exist_ok=True)
        (place.root / path).write_bytes(text.encode())
    with Memsyncd(str(place.root), env=place.home.env, client="builder") as connected:
        connected.sync()
        yield connected


def run(place: Place, *words: str, stdin: str = "", status: int = 0) -> Any:
    done = place.home.run(*words, "--json", cwd=place.root, text=stdin)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def read(place: Place) -> dict[str, bytes]:
    return {path: (place.root / path).read_bytes() for path in NOTES}


BEFORE = {path: text.encode() for path, text in NOTES.items()}


def test_a_memory_is_changed_where_it_states_it_and_taken_back(
    place: Place, memory: Memsyncd
) -> None:
    done = memory.set(
        f"{ERRORS}#errors/pool",
        status="blocked",
        importance=0.9,
        add_tags=["c"],
        remove_tags=["A"],
        metadata={"x": "", "owner": "Bob: him"},
        relate=[{"kind": "resolves", "to": f"{WORK}#retry"}],
    )
    [item] = done["changed"]
    assert (item["anchor"], item["path"], done["is_applied"]) == (
        f"{ERRORS}#errors/pool",
        ERRORS,
        True,
    )
    expected = BEFORE[ERRORS].replace(
        b"tags: [a, 'b'], x: 1} -->\r\nIt waits.\r\n",
        b"tags: ['b', c], status: blocked, importance: 0.9, owner: \"Bob: him\"} -->\r\nIt waits."
        b"\r\n\r\n- resolves [[.memories/discoveries.md#Retry]]\r\n",
    )
    assert read(place) == BEFORE | {ERRORS: expected}
    got = memory.get(f"{ERRORS}#errors/pool")
    assert got is not None
    assert (got["status"], got["importance"], got["tags"]) == ("blocked", 0.9, ["b", "c"])
    [link] = memory.links(f"{WORK}#retry", relation="resolves", direction="in")["links"]
    assert link["source"] == f"{ERRORS}#errors/pool"
    again = memory.set(f"{ERRORS}#errors/pool", status="Blocked")
    assert (again["changed"], again["change_set"]) == ([], None)
    assert [memory["anchor"] for memory in again["unchanged"]] == [f"{ERRORS}#errors/pool"]
    assert done["change_set"] is not None
    memory.undo(change_set=done["change_set"])
    assert read(place) == BEFORE


def test_finished_work_is_no_longer_ready_and_is_reopened_to_the_same_bytes(
    place: Place, memory: Memsyncd
) -> None:
    ready = memory.ready("PAY-7")["items"]
    assert [item["anchor"] for item in ready] == [f"{WORK}#retry"]
    # By the lines that `task ready` prints.
    place_of = f"{ready[0]['path']}:{ready[0]['start_line']}-{ready[0]['end_line']}"
    run(place, "done", place_of)
    assert memory.ready("PAY-7")["items"] == []
    assert run(place, "set", place_of, "--clear", "status")["changed"]
    assert read(place) == BEFORE
    # A whole note has its front matter changed.
    run(place, "set", "Work", "--status", "done", "--add-tag", "pay")
    text = (place.root / WORK).read_text()
    assert text.startswith("---\ntitle: 'Work'  # ours\nstatus: done\ntags: [pay]\n---\n")
    run(place, "set", WORK, "--status", "", "--remove-tag", "pay")
    assert read(place) == BEFORE


def test_archived_by_a_status_is_archived_with_all_beneath_and_comes_back(
    place: Place, memory: Memsyncd
) -> None:
    memory.set("Pool", status="archived")
    assert memory.search("sockets waits") == []
    memory.unarchive(f"{ERRORS}#errors/pool", apply=True)
    assert read(place) == BEFORE
    for title in ("Pool", "Errors"):
        memory.set(title, status="archived")
        memory.set(title, status="")
        assert read(place) == BEFORE
    memory.set("Retry", status="open")
    opened = read(place)
    memory.set("Retry", status="archived")
    memory.set("Retry", status="open")
    assert read(place) == opened


def test_several_by_filter_are_planned_first_and_changed_at_once(
    place: Place, memory: Memsyncd
) -> None:
    memory.add("Another.", kind="discovery", task="PAY-7")
    memory.add("Of another task.", kind="discovery", task="PAY-8")
    before = (place.root / WORK).read_bytes()
    planned = memory.set(filters={"task": "PAY-7"}, status="done")
    assert not planned["is_applied"]
    assert [memory["heading"][-1] for memory in planned["changed"]] == ["Retry", "Another"]
    assert (place.root / WORK).read_bytes() == before
    stale = planned["plan"]
    memory.add("A third.", kind="discovery", task="PAY-7")
    with pytest.raises(Conflict, match="notes have changed since this was planned"):
        memory.set(filters={"task": "PAY-7"}, status="done", apply=True, plan=stale)
    planned = run(place, "set", "--where-task", "PAY-7", "--status", "done")
    done = run(
        place, "set", "--where-task", "PAY-7", "--status", "done",
        "--apply", "--plan", planned["plan"],
    )  # fmt: skip
    assert done["changed"] == planned["changed"]
    assert [item["heading"][-1] for item in memory.ready()["items"]] == ["Of another task"]


def test_a_title_changes_with_the_links_to_it(place: Place, memory: Memsyncd) -> None:
    done = run(place, "set", f"{ERRORS}#errors/pool", "--title", "Pool of sockets")
    assert [memory["anchor"] for memory in done["changed"]] == [f"{ERRORS}#errors/pool-of-sockets"]
    assert [(link["path"], link["lines"]) for link in done["links"]] == [(WORK, [7])]
    assert read(place) == {
        ERRORS: BEFORE[ERRORS].replace(b"## Pool\r\n", b"## Pool of sockets\r\n"),
        WORK: BEFORE[WORK].replace(b"[[errors#Pool]]", b"[[errors#Pool of sockets]]"),
    }
    memory.undo(change_set=done["change_set"])
    assert read(place) == BEFORE
    # By the file's name alone, and as a link that was copied.
    for name in ("errors.md", "[[errors]]"):
        assert run(place, "links", name)["links"] == run(place, "links", ERRORS)["links"]
    for name in ("[[errors#Pool]]", "[[Errors#Pool|the pool]]"):
        assert run(place, "get", name)["anchor"] == POOL
    assert run(place, "get", "errors.md:7-8")["text"].startswith("### Cause")


@pytest.mark.parametrize("name", ["Notizen", "[[plan]]", "notizen#step", "notizen.md"])
def test_a_name_that_several_notes_have_is_refused_whatever_it_is_for(
    place: Place, memory: Memsyncd, name: str
) -> None:
    plans = [f".memories/{path}.md" for path in ("a/Notizen", "b/notizen")]
    for path in plans:
        (place.root / path).parent.mkdir()
        (place.root / path).write_text("# Plan\n\n## Step\n\nlarch\n")
    with (place.root / plans[0]).open("a") as note:
        note.write("\n## Only here\n\nSee [[errors]].\n")
    memory.sync()
    # A heading that only one of them has tells which is meant.
    own = name.strip("[]").removesuffix("#step") + "#Only here"
    assert memory.get(own)["path"] == plans[0]
    assert memory.search("pool", related_to=own)
    before = [(place.root / path).read_bytes() for path in plans]
    for act in (
        lambda: memory.get(name),
        lambda: memory.links(name),
        lambda: memory.set(name, status="done"),
        lambda: memory.done(name),
        lambda: memory.forget(name, confirm=True),
        lambda: memory.relate(name, "cites", ERRORS),
        lambda: memory.relate(ERRORS, "cites", name),
        lambda: memory.topic(name),
        lambda: memory.add("larch", note=name),
        lambda: memory.search("larch", related_to=name.strip("[]")),
        lambda: memory.undo(name.removesuffix(".md")),
    ):
        with pytest.raises(BadRequest, match="several notes have the name") as refused:
            act()
        assert refused.value.data["candidates"] == plans
        assert ", ".join(plans) in refused.value.hint
    assert [(place.root / path).read_bytes() for path in plans] == before
    assert memory.done(plans[1])["changed"]
    # The first name is a title, the others are names of files.
    (place.root / plans[0]).unlink()
    memory.sync()
    if "#" in name:
        with pytest.raises(BadRequest, match="is a section"):
            memory.add("larch", note=name)
    else:
        assert memory.add("larch", note=name)["path"] == plans[1]


POOL = f"{ERRORS}#errors/pool"


def test_a_memory_is_forgotten_with_all_beneath_and_comes_back_to_the_same_bytes(
    place: Place, memory: Memsyncd
) -> None:
    # Without its subsections it would not go: both reasons are named.
    with pytest.raises(
        ConfirmationNeeded, match=r"error, is protected; .*pool/cause would go with"
    ):
        memory.forget(POOL)
    assert read(place) == BEFORE
    refused = run(place, "forget", POOL, status=6)
    assert "--yes" in refused
    planned = memory.forget(POOL, apply=False)
    assert (planned["is_applied"], planned["change_set"]) == (False, None)
    assert [memory["anchor"] for memory in planned["forgotten"]] == [POOL, f"{POOL}/cause"]
    assert [(link["path"], link["lines"]) for link in planned["links"]] == [(WORK, [7])]
    done = run(place, "forget", POOL, "--yes", "--plan", planned["plan"])
    assert {**done, **dict.fromkeys(("is_applied", "generation", "change_set"))} == {
        **planned,
        **dict.fromkeys(("is_applied", "generation", "change_set")),
    }
    own = BEFORE[ERRORS].partition(b"## Pool")[2].partition(b"## Twin")[0]
    assert read(place) == BEFORE | {ERRORS: BEFORE[ERRORS].replace(b"## Pool" + own, b"")}
    assert memory.get(POOL) is None
    memory.undo(change_set=done["change_set"])
    assert read(place) == BEFORE


def test_links_to_what_is_forgotten_go_with_it_if_that_is_asked_for(
    place: Place, memory: Memsyncd
) -> None:
    memory.relate("Retry", "resolves", POOL)
    memory.relate(f"{ERRORS}#errors/twin", "caused_by", POOL)
    before = read(place)
    done = memory.forget(POOL, confirm=True, unlink=True)
    assert [(link["path"], link["lines"]) for link in done["links"]] == [
        (WORK, [7]),
        (WORK, [9]),
        (ERRORS, [15]),
    ]
    assert read(place)[WORK] == BEFORE[WORK].replace(b"[[errors#Pool]]", b"Pool")
    assert b"caused_by" not in read(place)[ERRORS]
    assert memory.links(dangling=True)["links"] == []
    assert done["change_set"] is not None
    memory.undo(change_set=done["change_set"])
    assert read(place) == before


def test_a_note_is_forgotten_and_what_filters_select_by_a_plan(
    place: Place, memory: Memsyncd
) -> None:
    # A note stays the user's after changes of a field, an undo, a rename, and when it came back.
    changed = memory.set("Work", status="done")["change_set"]
    for change in (
        lambda: None,
        lambda: memory.undo(change_set=changed),
        lambda: memory.forget("Work", confirm=True),
    ):
        change()
        if not (place.root / WORK).exists():
            memory.undo(WORK)
        with pytest.raises(ConfirmationNeeded, match=f"{WORK} goes, which others have written"):
            memory.forget("Work")
    place.client.call(
        "memory", workspace=place.id, command="rename",
        old_path=f"/memories/{WORK.rpartition('/')[2]}", new_path="/memories/moved.md",
    )  # fmt: skip
    with pytest.raises(ConfirmationNeeded, match="others have written"):
        memory.forget("Work")
    memory.undo(".memories/moved.md")
    assert read(place) == BEFORE
    done = memory.forget("Work", confirm=True)
    assert done["removed"] == [WORK]
    assert not (place.root / WORK).exists()
    with pytest.raises(NoteNotFound) as refused:
        memory.done(WORK)
    assert "if it was removed: memsyncd undo NOTE" in refused.value.hint
    own = memory.add("Mine.", note="own")
    memory.set(own["anchor"], status="done")
    assert memory.forget(own["path"])["removed"] == [own["path"]]
    memory.undo(own["path"])
    assert memory.forget(own["path"])["removed"] == [own["path"]]
    assert done["change_set"] is not None
    memory.undo(change_set=done["change_set"])
    assert read(place) == BEFORE
    planned = memory.forget(filters={"path": [ERRORS, WORK]})
    assert [memory["reason"] for memory in planned["skipped"]] == ["its kind, error, is protected"]
    assert [memory["heading"][-1] for memory in planned["forgotten"]] == [
        "Retry", "Setext", "Twin", "Twin",
    ]  # fmt: skip
    assert read(place) == BEFORE
    done = memory.forget(filters={"path": [ERRORS, WORK]}, apply=True, plan=planned["plan"])
    assert done["forgotten"] == planned["forgotten"]
    assert (place.root / WORK).read_bytes() == b"---\ntitle: 'Work'  # ours\n---\n"
    assert done["change_set"] is not None
    memory.undo(change_set=done["change_set"])
    assert read(place) == BEFORE


def test_what_is_purged_is_in_no_file_any_more(place: Place, memory: Memsyncd) -> None:
    secret = "the-word-that-nobody-should-keep"
    added = memory.add(f"Pasted: {secret}.", summary="Token", note="pasted")
    memory.add("Another thing.", summary="Other", note="pasted")
    memory.set("Token", title="Pasted token", status="done")
    anchor = f"{added['path']}#pasted/pasted-token"
    with pytest.raises(ConfirmationNeeded, match="no undo brings back"):
        memory.forget(anchor, purge=True)
    done = memory.forget(anchor, purge=True, confirm=True)
    assert (done["change_set"], done["is_clean"]) == (None, True)
    # The note was made with it, got a section beside it, another title, and lost it.
    assert done["purged"] == 4
    assert (place.root / added["path"]).read_text().endswith("Another thing.\n")
    assert memory.history(added["path"]) == []
    assert memory.search(secret) == []
    files = [path for path in place.home.folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]


def test_a_memory_is_replaced_and_the_newest_of_the_chain_is_found(
    place: Place, memory: Memsyncd
) -> None:
    first = memory.add(
        "The pool has ten connections.",
        kind="decision", tags=["db"], keywords=["pool"], topic="redis", task="PAY-7",
        importance=0.9, priority="P1", source="Bob", metadata={"owner": "Eve"},
    )  # fmt: skip
    note = place.root / first["path"]
    before = note.read_bytes()
    second = memory.replace(first["anchor"], "The pool has twenty connections.")
    third = run(place, "replace", "The pool has twenty connections", "-", "--importance", "0.5",
                "--tag", "sized", stdin="It has thirty connections, as a pool.")  # fmt: skip
    assert (second["replaced"], third["replaced"]) == (first["anchor"], second["anchor"])
    got = memory.get(third["anchor"])
    assert got is not None
    assert [got[name] for name in ("kind", "tags", "task", "priority", "source")] == [
        "decision", ["sized"], "PAY-7", "P1", "Bob",
    ]  # fmt: skip
    assert (got["importance"], got["status"]) == (0.5, None)
    assert got["meta"] == {"keywords": "pool", "topic": "redis", "owner": "Eve"}
    # Searches, contexts and recall give the newest, and say of what and since when.
    [hit] = memory.search("pool connections", kind="decision")
    assert (hit["anchor"], hit["supersedes"]) == (third["anchor"], [second["anchor"]])
    assert hit["since"] == got["created"][:10] if got["created"] else None
    assert [each["anchor"] for each in memory.recall("pool")["memories"]] == [third["anchor"]]
    label = f"[supersedes {second['anchor']} since {hit['since']}]"
    block = memory.context("pool connections")
    assert label in block
    assert "ten connections" not in block
    # A superseded memory names the newest of the chain.
    answer = memory.search("pool connections", kind="decision", include_archived=True)
    assert {result["anchor"]: result["superseded_by"] for result in answer} == {
        first["anchor"]: [third["anchor"]],
        second["anchor"]: [third["anchor"]],
        third["anchor"]: [],
    }
    with pytest.raises(EditRefused, match="is superseded already") as refusal:
        memory.replace(first["anchor"], "No.")
    assert third["anchor"] in refusal.value.hint
    # A link to a superseded memory names the newest, and so does the memory when it is read.
    [own] = memory.links(second["anchor"], relation="supersedes", direction="out")["links"]
    assert (own["to"], own["superseded_by"]) == (first["anchor"], None)
    citing = memory.add(f"As [[{own['target']}#{own['heading']}]] says.", note="others")
    [cited] = memory.links(citing["anchor"], direction="out")["links"]
    assert (cited["to"], cited["superseded_by"]) == (first["anchor"], third["anchor"])
    newest = [memory.get(each["anchor"])["superseded_by"] for each in (first, second, third)]
    assert newest == [third["anchor"], third["anchor"], None]
    for done in (citing, third, second):
        memory.undo(change_set=done["change_set"])
    assert note.read_bytes() == before
    # A heading that is no beginning of the text stays; links lead to the memory that they named.
    kept = memory.replace(f"{ERRORS}#errors/twin-2", "Third.", note="others")
    assert kept["path"] == ".memories/others.md"
    assert kept["anchor"].endswith("/twin")
    [link] = memory.links(kept["anchor"], relation="supersedes", direction="out")["links"]
    assert link["to"] == f"{ERRORS}#errors/twin-2"
    assert kept["change_set"] is not None
    memory.undo(change_set=kept["change_set"])
    assert read(place) == BEFORE
    with pytest.raises(EditRefused, match="is the title of several memories"):
        memory.replace(f"{ERRORS}#errors", "All of them.")
    with pytest.raises(BadRequest, match="is a whole note"):
        memory.replace(ERRORS, "All of it.")


def test_what_is_wrong_is_named_and_nothing_is_written(place: Place, memory: Memsyncd) -> None:
    with pytest.raises(BadRequest) as refusal:
        memory.set("Pool", importance=3.0, priority="P9", kind="two words", clear=["colour"])
    assert {fault["field"] for fault in refusal.value.data["faults"]} == {
        "importance", "priority", "kind", "clear",
    }  # fmt: skip
    with pytest.raises(BadRequest, match="several sections have the title Twin") as ambiguous:
        memory.done("Twin")
    assert f"{ERRORS}#errors/twin-2" in ambiguous.value.hint
    assert ambiguous.value.data["candidates"] == [
        f"{ERRORS}#errors/{n}" for n in ("twin", "twin-2")
    ]
    for name in ("Nothing of this name", f"{ERRORS}#errors/none", f"{ERRORS}:999"):
        with pytest.raises(NoteNotFound):
            memory.done(name)
    with pytest.raises(NoteNotFound):
        memory.relate("Pool", "resolves", "nothing-of-this-name")
    with pytest.raises(NoteNotFound) as without_note:
        memory.set("Pool", relate=[{"to": "resolves"}])
    assert without_note.value.hint.endswith("with a kind: resolves=NOTE")
    for itself in ("Pool", POOL):
        with pytest.raises(EditRefused, match="related to itself"):
            memory.relate("Pool", "resolves", itself)
    with pytest.raises(BadRequest, match="no memory is named"):
        memory.set(status="done")
    with pytest.raises(BadRequest, match="nothing to change is named"):
        memory.set("Pool")
    with pytest.raises(Conflict, match="is not what it was"):
        memory.set("Pool", status="done", if_digest="0" * 32)
    assert read(place) == BEFORE
    place.save("AGENTS.md", "# Rules\n\n## Build\n\nmake\n")
    with pytest.raises(PathRefused, match="read-only"):
        memory.done("AGENTS.md#rules/build")


def test_an_agent_lives_with_its_memories_over_mcp(place: Place, memory: Memsyncd) -> None:
    with connect(place.home.socket_path) as agent:
        agent.send("notifications/memsyncd/bind", is_notice=True, workspace=str(place.root))

        def use(tool: str, *, fails: bool = False, **arguments: Any) -> str:
            text, is_error = agent.use(tool, **arguments)
            assert is_error is fails, text
            return text

        added = use(
            "memory_remember",
            content="The adapter loses sockets.",
            kind="discovery",
            values={
                "task": "PAY-9", "priority": "p0", "keywords": "adapter, sockets", "owner": "Eve",
                "relations": f"caused_by={ERRORS}#errors/pool",
            },
        ).removeprefix("Remembered at ")  # fmt: skip
        use("memory_remember", content="Named as fields.", task="PAY-9", session="s-1")
        ready = {item["heading"][-1]: item for item in memory.ready("PAY-9")["items"]}
        assert ready["The adapter loses sockets"]["priority"] == "P0"
        [link] = memory.links(POOL, relation="caused_by", direction="in")["links"]
        assert link["source"].startswith(WORK)
        # A memory is named in the form in which a tool has printed it.
        assert use("memory_update", action="set", memory=added, values={
            "status": "blocked", "add_tags": "adapter, tcp", "importance": "0.8", "owner": "",
        }).startswith("Changed .memories/discoveries.md:")  # fmt: skip
        got = memory.get(next(iter(ready.values()))["anchor"])
        assert got is not None
        assert (got["status"], got["tags"], got["importance"]) == (
            "blocked",
            ["adapter", "tcp"],
            0.8,
        )
        assert "owner" not in got["meta"]
        assert memory.ready("PAY-9")["blocked"] == 1
        use("memory_update", action="done", memory="The adapter loses sockets")
        assert [item["heading"][-1] for item in memory.ready("PAY-9")["items"]] == [
            "Named as fields"
        ]
        use("memory_update", action="relate", memory="Retry", relation="informs", to="Pool")
        written = use("memory_update", action="replace", memory="Pool", content="It waits no more.")
        assert f"It supersedes {POOL}, which is archived." in written
        hint = use("memory_update", action="forget", memory="Pool", fails=True)
        assert "is protected" in hint
        assert use("memory_update", action="forget", memory="Named as fields").startswith(
            "Forgotten: "
        )
        assert use("memory_update", action="set", memory="Retry", values={"priority": "P9"},
                   fails=True).startswith("priority: is none of P0")  # fmt: skip
        assert use("memory_update", action="set", memory="Retry", values={}, fails=True).endswith(
            "What to do: name a new value, such as status or priority"
        )
    clients = {
        revision["client"]
        for revision in memory.history()
        if revision["command"].startswith("memory.")
    }
    assert clients == {"test-agent"}


SHORT = make_short_id(POOL)


@pytest.mark.parametrize(
    "name",
    [
        POOL, f"{ERRORS}:4-6", "pool", SHORT, SHORT[:6].upper(), "errors.md#Pool", "Errors › pool",
    ],
)  # fmt: skip
def test_each_command_takes_what_another_prints(place: Place, memory: Memsyncd, name: str) -> None:
    if ":" not in name:  # lines are text to print, and no section
        got = memory.get(name)
        assert got is not None
        assert (got["anchor"], got["start_line"]) == (POOL, 3)
        assert run(place, "get", name)["anchor"] == POOL
    assert run(place, "set", name, "--priority", "P1")["changed"][0]["id"] == SHORT
    assert run(place, "history", name)["revisions"][0]["command"] == "memory.set"
    links = run(place, "links", name, "--backlinks")["links"]
    assert [link["source"] for link in links] == [f"{WORK}#retry"]
    assert run(place, "similar", name, "--min-similarity", "1", status=1)["sections"] == []
    memory.record_access(name)
    assert run(place, "accesses", name)["counts"][0]["anchor"] == POOL
    promoted = run(place, "promote", name, "--tag", "pitfall")["promoted"]
    assert [link["source"] for link in promoted] == [POOL]
    [skipped] = run(place, "archive", name, status=1)["skipped"]
    assert skipped["anchor"] == POOL
    with pytest.raises(EditRefused, match=f"{POOL} is in no conflict"):
        memory.choose(name, "this")
    assert memory.forget(name, apply=False)["forgotten"][0]["anchor"] == POOL
    run(place, "undo", name)
    assert read(place) == BEFORE
    for done in (memory.relate(name, "informs", "Retry"), memory.relate("Retry", "informs", name)):
        assert done["changed"]
    memory.undo(WORK)
    memory.undo(ERRORS)
    assert memory.replace(name, "Ten sockets.")["replaced"] == POOL
    memory.undo(ERRORS)
    assert read(place) == BEFORE


def test_a_short_id_is_printed_on_request_and_several_are_refused(
    place: Place, memory: Memsyncd
) -> None:
    for words in (["search", "waits"], ["list", "--notes"], ["task", "ready", "PAY-7"]):
        answer = json.dumps(run(place, *words))
        printed = subprocess.run(
            [sys.executable, "-m", "memsyncd", *words, "--ids"],
            cwd=place.root, env=place.home.env, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        name = make_short_id(f"{WORK}#retry") if "task" in words else SHORT
        assert f'"id": "{name}"' in answer
        assert f"{name}  " in printed
    # Two sections of one note whose ids begin alike.
    by_name: dict[str, str] = {}
    for number in range(10_000):
        first = by_name.setdefault(make_short_id(f"{WORK}#n{number}")[:6], f"n{number}")
        if first != f"n{number}":
            break
    text = (place.root / WORK).read_text()
    (place.root / WORK).write_text(f"{text}\n## {first}\n\nx\n\n## n{number}\n\ny\n")
    memory.sync()
    anchors = [f"{WORK}#{first}", f"{WORK}#n{number}"]
    with pytest.raises(BadRequest, match="several sections have a short id") as refused:
        memory.done(make_short_id(anchors[0])[:6])
    assert refused.value.data["candidates"] == anchors
    assert all(anchor in refused.value.hint for anchor in anchors)


def test_a_path_may_be_absolute_or_one_of_the_memory_tool(place: Place, memory: Memsyncd) -> None:
    for name in (
        f"{place.root}/{POOL}",
        "/memories/errors.md#errors/pool",
        "/memories/errors.md:4",
    ):
        [item] = memory.done(name)["changed"]
        assert item["anchor"] == POOL
        memory.set(name, clear=["status"])
        assert read(place) == BEFORE
    run(place, "relate", f"{place.root}/{POOL}", "caused_by", "/memories/discoveries.md:6")
    [link] = memory.links(POOL, relation="caused_by", direction="out")["links"]
    assert link["to"] == f"{WORK}#retry"


def test_a_text_that_leaves_a_fence_open_does_not_swallow_its_relations(
    place: Place, memory: Memsyncd
) -> None:
    added = memory.add("```py\nrun()", summary="Call", relations=["caused_by=Pool"])
    replaced = memory.replace(added["anchor"], "```py\nrun(1)")
    for anchor, relation, to in (
        (added["anchor"], "caused_by", POOL),
        (replaced["anchor"], "supersedes", added["anchor"]),
    ):
        [link] = memory.links(anchor, relation=relation, direction="out")["links"]
        assert link["to"] == to


def test_what_is_remembered_may_have_a_status_and_relations(place: Place, memory: Memsyncd) -> None:
    run(place, "remember", "Wait for Bob.", "--task", "PAY-8", "--status", "blocked",
        "--relate", f"caused_by={POOL}", "--relate", "informs=Retry")  # fmt: skip
    assert memory.ready("PAY-8")["blocked"] == 1
    added = memory.get("Wait for Bob")
    assert added is not None
    assert added["text"].endswith(
        "Wait for Bob.\n\n- caused_by [[.memories/errors.md#Pool]]\n"
        "- informs [[.memories/discoveries.md#Retry]]"
    )
    with pytest.raises(NoteNotFound):
        memory.add("No.", relations=["caused_by=nothing-of-this-name"])
    with pytest.raises(BadRequest, match="relations: "):
        memory.add("No.", relations=["Pool"])


def test_a_note_is_named_by_its_title_or_path_and_a_topic_by_lines(
    place: Place, memory: Memsyncd
) -> None:
    for name in ("Work", WORK):
        planned = run(place, "archive", name)
        assert [memory["anchor"] for memory in planned["archived"]] == [
            f"{WORK}#retry",
            f"{WORK}#setext",
        ]
    assert memory.topic(f"{WORK}:6")["path"] == WORK
    assert run(place, "history", "Work")["revisions"]
    # A title of several is refused with all of them.
    refused = run(place, "archive", "Twin", status=2)
    assert f"{ERRORS}#errors/twin, {ERRORS}#errors/twin-2" in refused
    # The path of a note that is gone is not the name of another.
    (place.root / ".memories" / "sub").mkdir()
    place.save(".memories/sub/gone.md", "# Other\n")
    assert "there is no note at gone.md" in run(place, "history", "gone.md", status=4)


def test_of_two_texts_that_a_merge_has_left_one_is_chosen(place: Place, memory: Memsyncd) -> None:
    ours, theirs = (BEFORE[ERRORS].replace(b"Pool", name) for name in (b"Sockets", b"Connections"))
    merged = merge_notes(ERRORS, BEFORE[ERRORS], ours, theirs)
    [second] = merged.conflicts
    assert second == f"{ERRORS}#errors/connections"
    linked = BEFORE | {ERRORS: merged.data, WORK: BEFORE[WORK].replace(b"Pool", b"Sockets")}
    for path, data in linked.items():
        (place.root / path).write_bytes(data)
    memory.sync()

    def list_conflicts() -> list[dict[str, Any]]:
        problems = place.client.call("problems", workspace=place.id)["problems"]
        return [problem for problem in problems if problem["code"] == "conflict"]

    [problem] = list_conflicts()
    assert problem["path"] == ERRORS
    pasted = shlex.split(problem["hint"].partition(": ")[2])
    assert pasted == ["memsyncd", "choose", second, "--keep", "this"]
    refused = run(place, "choose", "Errors", "--keep", "this", status=6)
    assert f"{ERRORS} has no text above its headings" in refused
    with connect(place.home.socket_path) as agent:
        agent.send("notifications/memsyncd/bind", is_notice=True, workspace=str(place.root))
        for tool, params in (
            ("memory_search", {"query": "waits"}),
            ("memory_context", {"query": "waits"}),
            ("memory_context", {}),
            ("memory_context", {"query": "waits", "profile": True}),
            ("memory_agent", {"action": "recall", "keywords": ["waits"]}),
        ):
            text, _ = agent.use(tool, **params)
            assert text.count("conflict with errors/sockets") == 1, (tool, params, text)
    prompt = json.dumps({"prompt": "what waits?", "cwd": str(place.root)})
    hook = place.home.run("hook", "user-prompt", cwd=place.root, text=prompt)
    assert "conflict with errors/sockets" in hook.stdout
    # One text stays, with links to it; undo brings both back.
    chosen = memory.choose(second, "this")
    assert read(place) == BEFORE | {
        ERRORS: theirs,
        WORK: BEFORE[WORK].replace(b"Pool", b"Connections"),
    }
    assert not list_conflicts()
    assert chosen["change_set"] is not None
    memory.undo(change_set=chosen["change_set"])
    assert read(place) == linked
    for which, data in (
        ("other", ours),
        ("both", merged.data.replace(b", conflict: errors/sockets", b"")),
    ):
        done = run(place, "choose", second, "--keep", which)
        assert read(place) == linked | {ERRORS: data}
        memory.undo(change_set=done["change_set"])
        assert read(place) == linked
    assert "one of this, other, both" in run(place, "choose", second, "--keep", "none", status=2)
