"""`Memsyncd` as programs use it, with a real daemon."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import memsyncd.client
import memsyncd.client.memory
from memsyncd.client import Memsyncd, NoAnswer
from memsyncd.client.memory import ContextBlock, Hits
from memsyncd.client.words import name_workspace
from memsyncd.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    EditRefused,
    NoDaemon,
    NoteNotFound,
    PathRefused,
    WorkspaceNotFound,
)

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

Remember = Callable[..., Memsyncd]


def read_notes(place: Place) -> dict[str, bytes]:
    """Return the bytes of every file of memory, by path."""
    files = [place.root / "MEMORY.md", *(place.root / ".memories").rglob("*")]
    return {
        str(file.relative_to(place.root)): file.read_bytes() for file in files if file.is_file()
    }


# --- writing and recall ---


def test_an_added_section_is_found_by_the_next_search(memory: Memsyncd) -> None:
    added = memory.add(
        "Postgres, because of its row locks.",
        summary="Database",
        kind="decision",
        tags=("db", "auth"),
        importance=0.9,
    )
    assert (added["path"], added["workspace"]) == (".memories/decisions.md", memory.workspace)
    (hit,) = memory.search("row locks", kind="decision", tag=["db"])
    assert (hit["anchor"], sorted(hit["tags"]), hit["importance"]) == (
        added["anchor"],
        ["auth", "db"],
        0.9,
    )
    got = memory.get(added["anchor"])
    assert got is not None
    assert (got["start_line"], got["end_line"], got["digest"]) == (
        added["start_line"],
        added["end_line"],
        added["digest"],
    )
    assert got["text"].splitlines()[0] == "## Database"


def test_a_hash_in_the_name_of_a_note_is_not_a_heading(memory: Memsyncd) -> None:
    added = memory.add("Records are classes.", summary="Records", note="c#.md")
    assert added["anchor"] == ".memories/c#.md#c/records"
    for place in (".memories/c#.md", added["anchor"]):
        got = memory.get(place)
        assert got is not None
        assert "Records are classes." in got["text"]
        assert [revision["path"] for revision in memory.history(place)] == [".memories/c#.md"]
    memory.undo(".memories/c#.md")
    assert memory.get(".memories/c#.md") is None


def test_all_metadata_of_a_section_is_written(memory: Memsyncd, place: Place) -> None:
    text_said = {
        "kind": "error",
        "priority": "P1",
        "lifecycle": "task",
        "source": "ci",
        "task": "WU-12",
        "session": "s-1",
        "created": "2026-03-01",
    }
    memory.add("The pool ran dry.", summary="Pool", note="incidents", **text_said)
    comment = (place.root / ".memories" / "incidents.md").read_text().splitlines()[3]
    assert [
        f"{name}: {value}" for name, value in text_said.items() if f"{name}: {value}" not in comment
    ] == []
    assert [
        hit["heading"][-1]
        for hit in memory.search("pool", task="WU-12", after="2026-03", before="2026-04")
    ] == ["Pool"]


def test_many_sections_are_added_in_order_and_separated(memory: Memsyncd) -> None:
    added = memory.add_many(
        [
            "one",
            {"content": "two", "kind": "decision", "tags": "alone"},
            {"content": "three", "summary": "Third"},
        ]
    )
    texts = [memory.get(section["anchor"]) for section in added]
    assert [text["text"].rstrip().splitlines()[-1] for text in texts if text] == [
        "one",
        "two",
        "three",
    ]
    assert texts[1] is not None
    assert texts[1]["tags"] == ["alone"]
    assert memory.add_many([]) == []


def test_many_sections_are_added_all_or_none(memory: Memsyncd, place: Place) -> None:
    before = read_notes(place)
    with pytest.raises(PathRefused):
        memory.add_many([{"content": "fine"}, {"content": "not fine", "note": "../out.md"}])
    with pytest.raises(BadRequest):
        memory.add_many([{"content": "fine"}, {"content": "  "}])
    assert read_notes(place) == before
    assert memory.history() == []


def test_a_search_without_hits_has_a_reason(memory: Memsyncd) -> None:
    found = memory.search("kepesake")
    assert (list(found), found.did_you_mean) == ([], "keepsake")
    assert "kepesake" in str(found.why_empty)
    assert not found
    assert (
        memory.search("keepsake", limit=1, min_score=0.1, timeout_s=45).freshness["state"]
        == "ready"
    )


def test_a_search_may_wait_for_the_disk(memory: Memsyncd, place: Place) -> None:
    (place.root / ".memories" / "new.md").write_text("# New\n\nfreshly written\n")
    assert [hit["path"] for hit in memory.search("freshly", wait=True, path="new.md")] == [
        ".memories/new.md"
    ]


def test_a_mistyped_filter_is_refused(memory: Memsyncd) -> None:
    with pytest.raises(BadRequest, match="knd") as caught:
        memory.search("x", knd="decision")  # type: ignore[call-arg]  # as a program might
    assert "kind" in caught.value.hint


def test_lines_and_notes_can_be_read_and_missing_ones_are_none(memory: Memsyncd) -> None:
    whole = memory.get("MEMORY.md")
    lines = memory.get("MEMORY.md", start_line=3, end_line=3)
    assert whole is not None
    assert lines is not None
    assert (whole["text"].splitlines()[2], whole["n_lines"]) == (lines["text"].strip(), 3)
    assert memory.get("none.md") is None
    assert memory.get("MEMORY.md#none") is None
    with pytest.raises(PathRefused):
        memory.get("../MEMORY.md")


def test_sections_of_a_kind_come_latest_first_with_their_text(
    memory: Memsyncd, place: Place
) -> None:
    memory.add("first", kind="decision")
    memory.add("second", kind="decision")
    (place.root / ".memories" / "old.md").write_text(
        "## Old\n<!-- memory: {kind: decision, status: archived} -->\nforgotten\n"
    )
    memory.sync()
    memory.add("elsewhere", kind="decision", note="other")
    texts = [got["text"].rstrip().splitlines()[-1] for got in memory.get_by_kind("decision")]
    assert texts == ["elsewhere", "second", "first"]
    assert len(memory.get_by_kind("decision", limit=1)) == 1
    assert memory.get_by_kind("nothing") == []


def test_sections_are_counted(memory: Memsyncd) -> None:
    n_before = memory.count()
    memory.add("one", kind="decision", tags=["x"])
    assert (memory.count(kind="decision"), memory.count(tag="x"), memory.count(kind="none")) == (
        1,
        1,
        0,
    )
    assert memory.count() == n_before + 2


def test_sections_are_counted_by_their_metadata(memory: Memsyncd) -> None:
    memory.add("one", kind="decision", tags=["x", "y"])
    memory.add("two", kind="decision", tags=["x"])
    stats = memory.stats("kind", "tag", kind="decision")
    assert list(stats["counts"]) == ["kind", "tag"]
    assert stats["counts"]["tag"] == [
        {"value": "x", "sections": 2, "notes": 1},
        {"value": "y", "sections": 1, "notes": 1},
    ]
    assert list(memory.stats()["counts"]) == ["kind", "tag", "task", "month", "size"]
    assert len(memory.stats("tag", limit=1)["counts"]["tag"]) == 1


def test_hits_can_be_sorted(memory: Memsyncd) -> None:
    memory.add("The maple is red.", summary="First", note="a", importance=0.2)
    memory.add("The maple is yellow.", summary="Second", note="b", importance=0.7)
    found = memory.search("maple", sort="importance")
    assert [hit["importance"] for hit in found] == [0.7, 0.2]
    assert [hit["importance"] for hit in memory.search("maple", sort="file")] == [0.2, 0.7]


def test_a_context_is_text_with_its_included_sections(memory: Memsyncd) -> None:
    memory.add("Postgres, because of its row locks.", summary="Database", kind="decision")
    block = memory.context("row locks", max_tokens=300, kind="decision")
    assert block.startswith("## Prior Knowledge\n")
    assert block.tokens <= 300
    assert [part["path"] for part in block.included] == [".memories/decisions.md"]
    assert json.loads(json.dumps({"prompt": block + "\n"}))["prompt"] == f"{block}\n"
    nothing = memory.context("zebra")
    assert (str(nothing), bool(nothing), nothing.included) == ("", False, [])
    assert "zebra" in str(nothing.why_empty)
    assert memory.context("row locks", heading="# Known", max_bytes=400, wait=True).startswith(
        "# Known\n"
    )
    assert "keepsake" in memory.context()


# --- the memory tool ---


def test_the_six_commands_answer_with_the_texts_of_the_memory_tool(memory: Memsyncd) -> None:
    path = "/memories/a.md"
    assert (
        memory.memory("create", path=path, file_text="# A\n\nold\n")["text"]
        == f"File created successfully at: {path}"
    )
    edited = memory.memory("str_replace", path=path, old_str="old", new_str="new")
    assert edited["text"].startswith("The memory file has been edited.")
    inserted = memory.memory(
        "insert", path=path, insert_line=1, insert_text="two\n", if_digest=edited["digest"]
    )
    assert inserted["text"] == f"The file {path} has been edited."
    view = memory.memory("view", path=path, view_range=(1, 2))
    assert (
        view["text"] == f"Here's the content of {path} with line numbers:\n     1\t# A\n     2\ttwo"
    )
    assert view["digest"] == inserted["digest"]
    assert "renamed" in memory.memory("rename", old_path=path, new_path="/memories/b.md")["text"]
    deleted = memory.memory("delete", path="/memories/b.md")
    assert (deleted["text"], deleted["digest"]) == ("Successfully deleted /memories/b.md", None)


def test_an_error_of_the_tool_is_raised_with_its_text(memory: Memsyncd) -> None:
    memory.memory("create", path="/memories/a.md", file_text="x x\n")
    with pytest.raises(AlreadyExists) as there:
        memory.memory("create", path="/memories/a.md", file_text="y")
    assert there.value.message == "Error: File /memories/a.md already exists"
    with pytest.raises(AlreadyExists) as there:
        memory.memory("create", path="/memories/a.md", file_text="y", dialect="sdk")
    assert there.value.message == "File /memories/a.md already exists"
    with pytest.raises(NoteNotFound) as missing:
        memory.memory("view", path="/memories/none.md")
    assert (
        missing.value.message
        == "The path /memories/none.md does not exist. Please provide a valid path."
    )
    with pytest.raises(EditRefused, match="Multiple occurrences of old_str `x`"):
        memory.memory("str_replace", path="/memories/a.md", old_str="x", new_str="y")
    with pytest.raises(PathRefused):
        memory.memory("view", path="/memories/../MEMORY.md")
    with pytest.raises(BadRequest, match="file_text"):
        memory.memory("create", path="/memories/b.md")


def test_a_stale_write_is_an_error_with_both_digests(memory: Memsyncd, place: Place) -> None:
    read = memory.memory("view", path="/memories/MEMORY.md")["digest"]
    (place.root / "MEMORY.md").write_text("# Memory\n\nchanged meanwhile\n")
    with pytest.raises(Conflict) as caught:
        memory.memory(
            "str_replace", path="/memories/MEMORY.md", old_str="Memory", new_str="M", if_digest=read
        )
    assert caught.value.data["if_digest"] == read
    assert (
        caught.value.data["digest"] == memory.memory("view", path="/memories/MEMORY.md")["digest"]
    )
    assert (place.root / "MEMORY.md").read_text() == "# Memory\n\nchanged meanwhile\n"


# --- what was before ---


def test_history_names_the_writer_and_an_edit_can_be_undone_and_redone(
    memory: Memsyncd, place: Place
) -> None:
    began_s = time.time()
    before = read_notes(place)
    memory.memory("str_replace", path="/memories/MEMORY.md", old_str="keepsake", new_str="souvenir")
    after = read_notes(place)
    (revision,) = memory.history("MEMORY.md")
    assert (revision["client"], revision["command"], revision["path"]) == (
        "program",
        "str_replace",
        "MEMORY.md",
    )
    assert began_s - 1 <= revision["at"] <= time.time() + 1
    assert (
        "-keepsake of the first hour\n+souvenir of the first hour\n"
        in memory.diff("MEMORY.md")["diff"]
    )
    undone = memory.undo("MEMORY.md")
    assert read_notes(place) == before
    assert (
        [revision["revision"] for revision in undone["undone"]],
        undone["paths"][0]["path"],
    ) == (
        [revision["revision"]],
        "MEMORY.md",
    )
    memory.undo(change_set=undone["change_set"])
    assert read_notes(place) == after
    assert (
        memory.diff(revision=revision["revision"], to_now=True)["diff"]
        == memory.diff(revision=revision["revision"])["diff"]
    )
    assert [revision["command"] for revision in memory.history(limit=2)] == ["undo", "undo"]
    assert [
        revision["revision"]
        for revision in memory.history(before=undone["undone"][0]["revision"] + 1)
    ] == [revision["revision"]]


def test_one_section_is_undone_and_the_others_stay(memory: Memsyncd, place: Place) -> None:
    memory.add("first", summary="One", note="n")
    second = memory.add("second", summary="Two", note="n")
    memory.memory("str_replace", path="/memories/n.md", old_str="second", new_str="SECOND")
    memory.memory("str_replace", path="/memories/n.md", old_str="first", new_str="FIRST")
    assert [revision["command"] for revision in memory.history(second["anchor"])] == [
        "str_replace",
        "note.add",
    ]
    memory.undo(second["anchor"])
    text = (place.root / ".memories" / "n.md").read_text()
    assert "\nFIRST\n" in text
    assert text.endswith("\nsecond\n")


def test_an_undo_of_a_later_changed_text_is_a_conflict(memory: Memsyncd, place: Place) -> None:
    memory.memory("str_replace", path="/memories/MEMORY.md", old_str="keepsake", new_str="souvenir")
    revision = memory.history("MEMORY.md")[0]["revision"]
    (place.root / "MEMORY.md").write_text("# Memory\n\nby hand\n")
    with pytest.raises(Conflict):
        memory.undo(revision=revision)
    assert (place.root / "MEMORY.md").read_text() == "# Memory\n\nby hand\n"


def test_clearing_requires_confirmation_and_can_be_undone(memory: Memsyncd, place: Place) -> None:
    memory.add("kept", note="deep/er")
    before = read_notes(place)
    with pytest.raises(BadRequest):
        memory.clear(confirm=False)
    assert read_notes(place) == before
    cleared = memory.clear(confirm=True)
    assert (cleared["removed"], read_notes(place), memory.count()) == (3, {}, 0)
    memory.undo(change_set=cleared["change_set"])
    assert read_notes(place) == before
    assert memory.search("kept")


def test_a_purge_deletes_texts_and_names_notes_that_still_contain_them(memory: Memsyncd) -> None:
    memory.add("the token is s3cr3t-0451", note="a")
    purged = memory.purge_history(containing="s3cr3t-0451")
    assert (purged["revisions"], purged["still_in"]) == (1, [".memories/a.md"])
    assert memory.history() == []
    memory.memory("delete", path="/memories/a.md")
    assert memory.purge_history(everything=True)["revisions"] == 1
    with pytest.raises(BadRequest):
        memory.purge_history()


# --- the index ---


def test_a_sync_returns_its_changes(memory: Memsyncd, place: Place) -> None:
    assert memory.sync(full=True)["unchanged"] == 2
    (place.root / ".memories" / "new.md").write_text("# New\n")
    memory.sync()
    assert memory.count() == 3


def test_changes_are_notified_as_they_happen(memory: Memsyncd) -> None:
    with memory.subscribe(".memories/decisions.md", timeout_s=45) as changes:
        memory.add("elsewhere", note="other")
        added = memory.add("here", kind="decision")
        change = next(changes)
        assert (change["paths"], change["workspace"]) == (
            [".memories/decisions.md"],
            memory.workspace,
        )
        assert change["generation"] <= added["generation"]
    with pytest.raises(NoDaemon):
        next(changes)


def test_changes_since_a_generation_are_notified_first(memory: Memsyncd) -> None:
    generation = memory.sync()["generation"]
    memory.add("before the subscription", note="early")
    with memory.subscribe(since=generation, timeout_s=45) as changes:
        assert next(iter(changes))["paths"] == [".memories/early.md"]


def test_a_wait_without_changes_ends_with_an_error(memory: Memsyncd) -> None:
    with memory.subscribe(timeout_s=0.1) as changes, pytest.raises(NoAnswer):
        next(changes)


# --- which workspace, and over which connection ---


def test_the_workspace_is_named_by_id_name_or_any_path_in_it(
    memory: Memsyncd, place: Place, remember: Remember
) -> None:
    inside = place.root / ".memories"
    assert {remember(word).root for word in (memory.workspace, str(inside), inside)} == {
        str(place.root)
    }
    assert (memory.root, memory.name) == (str(place.root), "proj")
    with pytest.raises(WorkspaceNotFound):
        remember("nowhere")


def test_without_a_name_the_current_folders_workspace_is_used_or_the_only_workspace(
    place: Place,
    remember: Remember,
    make_place: Callable[..., Place],
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir("/")
    assert remember().root == str(place.root)
    other = home.make_folder()
    (other / "MEMORY.md").write_text("# Other\n")
    make_place(other)
    with pytest.raises(WorkspaceNotFound) as caught:
        remember()
    assert "proj" in caught.value.hint
    monkeypatch.chdir(other)
    assert remember().root == str(other)


def test_a_folder_is_sent_as_an_absolute_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    named = [
        name_workspace(word)
        for word in ("notes", "notes-1a2b3c4d", "~/notes", "./notes", "/w", Path("notes"))
    ]
    assert named == [
        "notes",
        "notes-1a2b3c4d",
        "/home/me/notes",
        f"{tmp_path}/notes",
        "/w",
        f"{tmp_path}/notes",
    ]


def test_without_a_daemon_the_error_has_a_hint(tmp_path: Path) -> None:
    with pytest.raises(NoDaemon) as caught:
        Memsyncd(env={"HOME": str(tmp_path)})
    assert "memsyncd start" in caught.value.hint


def test_a_restarted_daemon_is_found_again(make_home: Callable[[], Home]) -> None:
    home = make_home()
    root = home.make_folder()
    (root / "MEMORY.md").write_text("# Memory\n\nkeepsake\n")
    daemon = home.start()
    with daemon.client() as client:
        client.call("workspace.add", path=str(root))
    with Memsyncd(root, env=home.env, timeout_s=45) as memory:
        memory.add("before")
        daemon.kill()
        with pytest.raises(NoDaemon):
            memory.search("before")
        home.start()
        assert [hit["path"] for hit in memory.search("before", wait=True)] == [".memories/notes.md"]


def test_a_call_after_closing_connects_again(memory: Memsyncd) -> None:
    memory.close()
    assert memory.count() > 0


def test_threads_that_share_an_instance_get_their_own_answers(memory: Memsyncd) -> None:

    def ask(word: str) -> list[str]:
        return [memory.search(f"{word}{n}").why_empty or "" for n in range(20)]

    with ThreadPoolExecutor(4) as pool:
        answers = dict(zip("qwxz", pool.map(ask, "qwxz"), strict=True))
    for word, reasons in answers.items():
        assert all(f"{word}{n}" in reason for n, reason in enumerate(reasons)), reasons


FORKING = """
import os
from memsyncd.client import Memsyncd

with Memsyncd(client="forks") as memory:
    pid = os.fork()
    name = "parent" if pid else "child"
    reasons = [memory.search(f"{name}{n}").why_empty or "" for n in range(100)]
    if not all(f"{name}{n}" in reason for n, reason in enumerate(reasons)):
        os._exit(1)
    if not pid:
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    memory.search("parent")
    os._exit(status)
"""


def test_a_fork_gets_its_own_answers(place: Place, home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        env={**os.environ, **home.env},
        cwd=place.root,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0


def find_examples() -> dict[str, str]:
    """Return the examples of `Memsyncd` in the documents, by document."""
    readme = (Path(memsyncd.client.__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^ *```python\n(.*?)^ *```$", readme, flags=re.MULTILINE | re.DOTALL)
    found = {"README.md": textwrap.dedent(block)}
    for module in (memsyncd.client, memsyncd.client.memory):
        text = inspect.cleandoc(str(module.__doc__)) + "\n"
        found[module.__name__] = textwrap.dedent(
            "".join(re.findall(r"^    .*\n|^\n", text, flags=re.MULTILINE))
        )
    return found


@pytest.mark.parametrize(("where", "code"), find_examples().items(), ids=find_examples())
def test_the_examples_of_the_documents_work(
    place: Place,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: str,
    code: str,
) -> None:
    monkeypatch.setenv("MEMSYNCD_SOCKET", home.socket_path)
    names = {"Memsyncd": Memsyncd, "question": "which database?"}
    exec(re.sub(r'"~/[^"]*"', repr(str(place.root)), code), names)
    assert capsys.readouterr().out.startswith(".memories/decisions.md 3")


def test_a_section_is_checked_before_it_is_added_and_notes_by_their_path(memory: Memsyncd) -> None:
    section = {"content": "x" * 10_001, "topic": "t" * 101, "importance": "much"}
    checked = memory.validate(section)
    assert not checked["is_valid"]
    assert {fault["field"] for fault in checked["faults"]} == {"content", "topic", "importance"}
    with pytest.raises(BadRequest, match=r"content: .*; topic: "):
        memory.add(str(section["content"]), topic=str(section["topic"]))
    source = {"client": "acme"}
    added = memory.add("Ask twice.", topic="redis", keywords=["cache"], source=source)
    got = memory.get(added["anchor"])
    assert got is not None
    assert got["source"] == "client: acme"
    assert got["meta"] == {"topic": "redis", "keywords": "cache"}
    assert memory.validate(path=added["path"])["is_valid"]


def test_archival_is_shown_then_done_and_taken_back(memory: Memsyncd, place: Place) -> None:
    old = memory.add("The old build took an hour.", kind="tool_run", created="2020-01-01")
    kept = memory.add(
        "We chose Postgres.", kind="decision", lifecycle="project", created="2020-01-01"
    )
    before = read_notes(place)
    plan = memory.archive(path=".memories/*.md", below=0.1)
    assert (plan["is_applied"], plan["change_set"], read_notes(place)) == (False, None, before)
    assert [section["anchor"] for section in plan["archived"]] == [old["anchor"]]
    assert [section["anchor"] for section in plan["skipped"]] == [kept["anchor"]]
    done = memory.archive(path=".memories/*.md", below=0.1, apply=True, plan=plan["plan"])
    assert done["archived"] == plan["archived"]
    assert memory.search("old build") == []
    assert memory.search("old build", include_archived=True)
    with pytest.raises(Conflict):
        memory.archive(path=".memories/*.md", below=0.1, apply=True, plan=plan["plan"])
    assert memory.unarchive(old["anchor"], apply=True)["restored"]
    assert read_notes(place) == before
    flash = memory.add("For today only.", lifecycle="ephemeral", created="2020-01-01")
    assert [section["anchor"] for section in memory.cleanup()["archived"]] == [flash["anchor"]]


def test_a_tasks_summaries_are_promoted_and_recalled_by_their_keywords(memory: Memsyncd) -> None:
    added = memory.add(
        "Retry three times.", kind="summary", task="WU-1", keywords=["retry"], topic="redis"
    )
    [promoted] = memory.promote(task="WU-1", tag="decision", apply=True)["promoted"]
    assert (promoted["source"], promoted["is_new"]) == (added["anchor"], True)
    [again] = memory.promote(added["anchor"], tag="decision", apply=True)["promoted"]
    assert (again["anchor"], again["is_new"]) == (promoted["anchor"], False)
    found = memory.recall("retry", kind="summary")
    assert found["stage"] == "keywords"
    assert [section["anchor"] for section in found["memories"]] == [added["anchor"]]
    with pytest.raises(BadRequest, match="no criterion"):
        memory.recall()


def test_an_access_raises_the_worth_by_which_answers_are_sorted(memory: Memsyncd) -> None:
    # Two notes, because short sections that touch become one hit.
    never, often = (
        memory.add("A short text.", kind="note", note=name)["anchor"]
        for name in ("never.md", "often.md")
    )
    connection = memory._connection
    for _ in range(3):
        connection.ask("access.record", {"anchors": [often]})
    connection.ask("access.stats", {"anchor": often})  # so that the accesses are stored
    hits = memory.search("kind:note", sort="worth")
    assert [hit["anchor"] for hit in hits] == [often, never]
    listed = connection.ask("list", {"kind": "note", "sort": "worth", "explain": True})["notes"]
    first, second = (note["sections"][0] for note in listed)
    assert first["anchor"] == often
    assert first["explain"]["decay_accesses"] > second["explain"]["decay_accesses"] == 1.0
    one, other = memory.archive(never, often)["archived"]
    assert (one["anchor"], other["anchor"]) == (never, often)
    assert one["worth"] < other["worth"]


def test_one_undo_takes_back_a_rename_with_the_links_that_it_changed(
    memory: Memsyncd, place: Place
) -> None:
    for name, text in (("old", "# Old\n"), ("other", "# Other\n\nSee [[old]].\n")):
        memory.memory("create", path=f"/memories/{name}.md", file_text=text)
    before = place.notes()
    renamed = memory.memory(
        "rename", old_path="/memories/old.md", new_path="/memories/new.md", update_links=True
    )
    assert renamed["updated_links"] == [".memories/other.md"]
    assert place.notes() != before
    memory.undo(change_set=renamed["change_set"])
    assert place.notes() == before


def test_an_answer_of_a_daemon_from_before_an_update_is_read() -> None:
    both: dict[str, Any] = {"workspaces": [], "why_empty": None, "freshness": {}}
    hits = Hits({**both, "hits": [], "relaxed": False, "did_you_mean": None})
    block = ContextBlock({**both, "text": "", "tokens": 0, "included": [], "left_out": []})
    assert hits.query_problems == block.query_problems == []
