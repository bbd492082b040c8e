"""`Memsyncd` as programs use it, with a real daemon.

Most methods are generated from the declarations, and `test_types.py` compares them; these tests show
the methods that are written by hand, the connection, and one story of each kind of call.
"""

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
    NoDaemon,
    NoteNotFound,
    PathRefused,
    WorkspaceNotFound,
)

if TYPE_CHECKING:
    from tests.daemon.conftest import Home, Place

Remember = Callable[..., Memsyncd]

pytestmark = pytest.mark.life


def test_sections_are_added_found_read_and_counted(memory: Memsyncd, place: Place) -> None:
    n_before = memory.count()
    added = memory.add(
        "Postgres, because of its row locks.", summary="Database", kind="decision",
        tags=("db", "auth"), importance=0.9, task="WU-12", created="2026-03-01",
    )  # fmt: skip
    assert (added["path"], added["workspace"]) == (".memories/decisions.md", memory.workspace)
    (hit,) = memory.search("row locks", kind="decision", tag=["db"], after="2026-03")
    assert (hit["anchor"], sorted(hit["tags"])) == (added["anchor"], ["auth", "db"])
    got = memory.get(added["anchor"])
    assert got is not None
    assert (got["start_line"], got["end_line"], got["digest"], got["importance"]) == (
        added["start_line"],
        added["end_line"],
        added["digest"],
        0.9,
    )
    # Many are added in order; the latest of a kind comes first, without archived ones.
    many = memory.add_many(["one", {"content": "two", "kind": "decision", "tags": "alone"}])
    texts = [memory.get(section["anchor"]) for section in many]
    assert [text["text"].rstrip().splitlines()[-1] for text in texts if text] == ["one", "two"]
    assert texts[1] is not None
    assert texts[1]["tags"] == ["alone"]
    assert memory.add_many([]) == []
    archived = "## Old\n<!-- memory: {kind: decision, status: archived} -->\nforgotten\n"
    (place.root / ".memories" / "old.md").write_text(archived)
    assert [hit["path"] for hit in memory.search("forgotten", wait=True, archived=True)]
    latest = [got["text"].rstrip().splitlines()[-1] for got in memory.get_by_kind("decision")]
    assert latest == ["two", "Postgres, because of its row locks."]
    assert len(memory.get_by_kind("decision", limit=1)) == 1
    assert memory.get_by_kind("nothing") == []
    assert (memory.count(kind="decision"), memory.count(tag="db"), memory.count(kind="none")) == (
        2,
        1,
        0,
    )
    assert memory.count() > n_before
    assert memory.sync(full=True)["unchanged"] == 5


def test_a_context_is_text_with_its_included_sections(memory: Memsyncd) -> None:
    memory.add("Postgres, because of its row locks.", summary="Database", kind="decision")
    block = memory.context("row locks", max_tokens=300, kind="decision")
    assert block.startswith("## Prior Knowledge\n")
    assert [part["path"] for part in block.included] == [".memories/decisions.md"]
    assert json.loads(json.dumps({"prompt": block + "\n"}))["prompt"] == f"{block}\n"
    nothing = memory.context("zebra")
    assert (str(nothing), bool(nothing), nothing.included) == ("", False, [])
    assert "zebra" in str(nothing.why_empty)
    assert memory.context("row locks", heading="# Known", max_bytes=400, wait=True).startswith(
        "# Known\n"
    )
    assert "keepsake" in memory.context()


def test_a_missing_place_is_none_and_other_faults_are_errors(memory: Memsyncd) -> None:
    found = memory.search("kepesake")
    assert (list(found), bool(found), found.did_you_mean) == ([], False, "keepsake")
    assert "kepesake" in str(found.why_empty)
    whole, lines = memory.get("MEMORY.md"), memory.get("MEMORY.md", start_line=3, end_line=3)
    assert whole is not None
    assert lines is not None
    assert whole["text"].splitlines()[2] == lines["text"].strip()
    assert memory.get("none.md") is None
    assert memory.get("MEMORY.md#none") is None
    with pytest.raises(PathRefused):
        memory.get("../MEMORY.md")
    with pytest.raises(BadRequest, match="knd") as caught:
        memory.search("x", knd="decision")  # type: ignore[call-arg]  # as a program might
    assert "kind" in caught.value.hint
    with pytest.raises(BadRequest):
        memory.clear(confirm=False)
    with pytest.raises(BadRequest):
        memory.purge_history()


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


def test_the_memory_tool_edits_a_note_and_its_edits_are_undone_and_redone(
    memory: Memsyncd, place: Place
) -> None:
    path, note = "/memories/MEMORY.md", place.root / "MEMORY.md"
    before = note.read_text()
    read = memory.memory("view", path=path, view_range=(1, 3))
    assert read["text"].endswith("3\tkeepsake of the first hour")
    words = {"path": path, "old_str": "keepsake", "new_str": "souvenir"}
    memory.memory("str_replace", **words, if_digest=read["digest"])
    (revision,) = memory.history("MEMORY.md")
    assert (revision["client"], revision["command"]) == ("program", "str_replace")
    assert "-keepsake of the first hour\n+souvenir of" in memory.diff("MEMORY.md")["diff"]
    undone = memory.undo("MEMORY.md")
    assert note.read_text() == before
    memory.undo(change_set=undone["change_set"])
    assert "souvenir" in note.read_text()
    # An error has the text of the tool, in the dialect of the caller, and a stale write both digests.
    for dialect, prefix in ((None, "Error: "), ("sdk", "")):
        with pytest.raises(AlreadyExists) as there:
            memory.memory("create", path=path, file_text="y", dialect=dialect)
        assert there.value.message == f"{prefix}File {path} already exists"
    with pytest.raises(NoteNotFound, match=r"none\.md does not exist"):
        memory.memory("view", path="/memories/none.md")
    with pytest.raises(Conflict) as caught:
        memory.memory(
            "str_replace", path=path, old_str="hour", new_str="day", if_digest=read["digest"]
        )
    assert caught.value.data["if_digest"] == read["digest"]
    assert caught.value.data["digest"] == memory.memory("view", path=path)["digest"]


def test_changes_are_notified_first_those_since_a_generation(memory: Memsyncd) -> None:
    generation = memory.sync()["generation"]
    memory.add("before the subscription", note="early")
    with memory.subscribe(since=generation, timeout_s=45) as changes:
        assert next(iter(changes))["paths"] == [".memories/early.md"]
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
    with memory.subscribe(timeout_s=0.1) as changes, pytest.raises(NoAnswer):
        next(changes)


# --- which workspace, and over which connection ---


def test_the_daemon_ends_a_read_that_the_program_no_longer_waits_for(memory: Memsyncd) -> None:
    connection = memory._connection
    with pytest.raises(NoAnswer):
        connection._call("search", 0.2, query="x", min_generation=1_000_000)
    # The suite limits the time of a test.
    while not any(each["abandoned_total"] for each in connection._call("metrics", 45)["requests"]):
        time.sleep(0.01)
    assert memory.count() > 0


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
    named = {
        "notes": "notes",
        "notes-1a2b3c4d": "notes-1a2b3c4d",
        "~/notes": "/home/me/notes",
        "./notes": f"{tmp_path}/notes",
        "/w": "/w",
        Path("notes"): f"{tmp_path}/notes",
    }
    assert {word: name_workspace(word) for word in named} == named


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
        # So is one whose connection was closed here.
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


# --- documents, and older daemons ---


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


def test_an_answer_of_a_daemon_from_before_an_update_is_read() -> None:
    both: dict[str, Any] = {"workspaces": [], "why_empty": None, "freshness": {}}
    hits = Hits({**both, "hits": [], "relaxed": False, "did_you_mean": None})
    block = ContextBlock({**both, "text": "", "tokens": 0, "included": [], "left_out": []})
    assert hits.query_problems == block.query_problems == []
