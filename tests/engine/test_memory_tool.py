"""The effects of the six commands on files, index and history; their answers are tested in
tests/core/editing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memsyncd.core.digest import digest_bytes
from memsyncd.core.paths import NotePath
from memsyncd.engine import edit as edit_module
from memsyncd.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    EditRefused,
    NoteNotFound,
    PathRefused,
    TooLarge,
    Unwritable,
)
from memsyncd.operations.notes.declare import MemoryParams
from memsyncd.operations.notes.run import Answer, check_parameters, make_decision


def test_the_memory_file_of_the_root_is_listed_in_memories(bench: Any) -> None:
    bench.memory("create", "/memories/MEMORY.md", file_text="one\n")
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="two")
    assert bench.files() == {"MEMORY.md": b"two\n"}
    assert "two" in bench.memory("view", "/memories/MEMORY.md").text
    assert "/memories/MEMORY.md" in bench.memory("view", "/memories").text


def test_memories_can_be_viewed_before_there_are_any(make_bench: Any) -> None:
    bench = make_bench()
    (bench.root / ".memories").rmdir()
    bench.open()
    assert bench.memory("view", "/memories").text.startswith(
        "Here're the files and directories up to 2 levels deep in /memories"
    )
    bench.memory("create", "/memories/a.md", file_text="a\n")
    assert bench.files() == {".memories/a.md": b"a\n"}


def test_a_folder_shows_what_is_on_the_disk_and_sizes_of_notes_that_the_index_has(
    bench: Any,
) -> None:
    bench.fill({".memories/a/b/c/note.md": "x" * 3000, ".memories/top.md": "x" * 10})
    bench.write(".memories/a/b/c/more.md", "x" * 500)
    bench.write(".memories/a/b/c/picture.png", "x" * 700)
    bench.write(".memories/a/new.md", "x" * 90)
    bench.write(".memories/pictures/of/kites/red.png", "x" * 2000)

    def view() -> dict[str, str]:
        lines = bench.memory("view", "/memories").text.splitlines()[1:]
        return {path: size for size, path in (line.split("\t") for line in lines)}

    # An index that is being made lacks notes, so all files are measured on the disk.
    bench.workspace.change(is_indexing=True)
    shown = {
        "/memories": "6.2K",
        "/memories/a": "4.2K",
        "/memories/a/b": "4.2K",
        "/memories/a/new.md": "90B",
        "/memories/pictures": "2.0K",
        "/memories/pictures/of": "2.0K",
        "/memories/top.md": "10B",
    }
    assert view() == shown
    bench.workspace.change(is_indexing=False)
    assert view() == shown | {"/memories": "5.0K", "/memories/a": "3.1K", "/memories/a/b": "3.0K"}
    bench.sync()
    assert view() == shown | {"/memories": "5.5K", "/memories/a": "3.6K", "/memories/a/b": "3.5K"}
    bench.memory("rename", old_path="/memories/a/b", new_path="/memories/b")
    assert view()["/memories/b/c"] == view()["/memories/b"] == "3.5K"
    assert "/memories/a/b" not in view()


def test_no_file_is_made_at_the_path_of_a_folder(bench: Any) -> None:
    with pytest.raises(PathRefused, match="names a folder"):
        bench.memory("create", "/memories/plans/", file_text="a\n")
    bench.memory("create", "/memories/a.md", file_text="a\n")
    with pytest.raises(PathRefused, match="names a folder"):
        bench.memory("rename", old_path="/memories/a.md", new_path="/memories/plans/")
    assert bench.files() == {".memories/a.md": b"a\n"}
    bench.memory("create", "/memories/old/b.md", file_text="b\n")
    bench.memory("rename", old_path="/memories/old/", new_path="/memories/new/")
    assert set(bench.files()) == {".memories/a.md", ".memories/new/b.md"}


def test_a_note_and_a_folder_can_be_renamed(bench: Any) -> None:
    bench.memory("create", "/memories/d/a.md", file_text="a\n")
    bench.memory("rename", old_path="/memories/d/a.md", new_path="/memories/new/b.md")
    assert bench.paths() == [".memories/new/b.md"]
    bench.memory("rename", old_path="/memories/new", new_path="/memories/newer")
    assert bench.paths() == [".memories/newer/b.md"]
    with pytest.raises(PathRefused):
        bench.memory("rename", old_path="/memories/newer", new_path="/memories/newer/inside")


def test_a_missing_path_is_an_error(bench: Any) -> None:
    none = "/memories/none.md"
    for command, parameters in (
        ("view", {"path": none}),
        ("str_replace", {"path": none, "old_str": "a", "new_str": "b"}),
        ("insert", {"path": none, "insert_line": 0, "insert_text": "a"}),
        ("delete", {"path": none}),
        ("rename", {"old_path": none, "new_path": "/memories/b.md"}),
    ):
        with pytest.raises(NoteNotFound, match=r"/memories/none\.md does not exist"):
            bench.memory(command, **parameters)
    assert bench.files() == {}
    assert bench.past() == []


def test_an_overwriting_command_is_refused(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="a\n")
    bench.memory("create", "/memories/b.md", file_text="b\n")
    with pytest.raises(AlreadyExists):
        bench.memory("create", "/memories/a.md", file_text="other\n")
    with pytest.raises(AlreadyExists):
        bench.memory("rename", old_path="/memories/a.md", new_path="/memories/b.md")
    with pytest.raises(EditRefused):
        bench.memory("str_replace", "/memories/a.md", old_str="nowhere", new_str="b")
    assert bench.files() == {".memories/a.md": b"a\n", ".memories/b.md": b"b\n"}
    assert len(bench.past()) == 2


@pytest.mark.parametrize("command", ["delete", "rename"])
def test_the_root_itself_cannot_be_deleted_or_renamed(bench: Any, command: str) -> None:
    parameters = (
        {"path": "/memories"}
        if command == "delete"
        else {"old_path": "/memories", "new_path": "/memories/a"}
    )
    with pytest.raises(BadRequest, match="/memories directory itself"):
        bench.memory(command, **parameters)


def test_an_old_digest_is_a_conflict_whether_or_not_the_command_fits_the_text(bench: Any) -> None:
    """Each command fails on the text that was read, on the text that is there, or on both."""
    seen = bench.memory("create", "/memories/a.md", file_text="one\n").digest
    bench.memory("create", "/memories/b.md", file_text="b\n")
    bench.memory("str_replace", "/memories/a.md", old_str="one", new_str="two\nthree")
    a = "/memories/a.md"
    for command, parameters in (
        ("str_replace", {"path": a, "old_str": "two", "new_str": "x"}),
        ("str_replace", {"path": a, "old_str": "one", "new_str": "x"}),
        ("str_replace", {"path": a, "old_str": "neither", "new_str": "x"}),
        ("insert", {"path": a, "insert_line": 2, "insert_text": "x"}),
        ("insert", {"path": a, "insert_line": 9, "insert_text": "x"}),
        ("create", {"path": a, "file_text": "x"}),
        ("delete", {"path": a}),
        ("rename", {"old_path": a, "new_path": "/memories/b.md"}),
    ):
        for digest in (seen, "never read"):
            with pytest.raises(Conflict) as refused:
                bench.memory(command, if_digest=digest, **parameters)
            assert refused.value.data["digest"] == digest_bytes(b"two\nthree\n")
    gone = {"path": "/memories/none.md"}
    for command, parameters in (
        ("str_replace", {**gone, "old_str": "a", "new_str": "x"}),
        ("insert", {**gone, "insert_line": 0, "insert_text": "x"}),
        ("rename", {"old_path": "/memories/none.md", "new_path": "/memories/c.md"}),
    ):
        with pytest.raises(Conflict):
            bench.memory(command, if_digest=seen, **parameters)
    with pytest.raises(Conflict):
        bench.memory("create", a, file_text="x", if_digest="")


def test_a_repeated_write_succeeds(bench: Any) -> None:
    first = bench.memory("create", "/memories/a.md", file_text="one\n", if_digest="")
    again = bench.memory("create", "/memories/a.md", file_text="one\n", if_digest="")
    assert again == first
    edit = {"path": "/memories/a.md", "old_str": "one", "new_str": "two", "if_digest": first.digest}
    assert (
        bench.memory("str_replace", **edit).digest
        == bench.memory("str_replace", **edit).digest
        == digest_bytes(b"two\n")
    )
    bench.memory("delete", "/memories/a.md", if_digest=digest_bytes(b"two\n"))
    bench.memory("delete", "/memories/a.md", if_digest=digest_bytes(b"two\n"))
    assert [revision.command for revision in bench.past()] == ["delete", "str_replace", "create"]


def test_a_delete_of_a_note_that_never_was_or_held_another_text_fails(bench: Any) -> None:
    with pytest.raises(NoteNotFound):
        bench.memory("delete", "/memories/a.md", if_digest=digest_bytes(b"one\n"))
    bench.memory("create", "/memories/a.md", file_text="one\n")
    bench.memory("delete", "/memories/a.md")
    with pytest.raises(NoteNotFound):
        bench.memory("delete", "/memories/a.md", if_digest=digest_bytes(b"two\n"))


def test_a_note_over_the_limit_is_refused_and_one_at_it_is_not(bench: Any) -> None:
    limit = bench.workspace.scope.max_file_bytes
    bench.memory("create", "/memories/a.md", file_text="x" * limit)
    with pytest.raises(TooLarge):
        bench.memory("insert", "/memories/a.md", insert_line=1, insert_text="y")
    with pytest.raises(TooLarge):
        bench.memory("create", "/memories/b.md", file_text="x" * (limit + 1))
    assert list(bench.files()) == [".memories/a.md"]


def test_other_files_may_be_written_and_are_not_indexed(bench: Any) -> None:
    bench.memory("create", "/memories/state.json", file_text="{}\n")
    assert bench.paths() == []
    bench.memory("str_replace", "/memories/state.json", old_str="{}", new_str="[]")
    bench.undo(".memories/state.json")
    assert bench.files() == {".memories/state.json": b"{}\n"}


def test_a_write_tells_whether_searches_read_the_file(bench: Any) -> None:
    names = iter(("state", "state.md", "state.json", "s.txt"))
    old = next(names)
    assert not bench.memory("create", f"/memories/{old}", file_text="x\n").is_searched
    for new, is_searched in zip(names, (True, False, True), strict=True):
        paths = {"old_path": f"/memories/{old}", "new_path": f"/memories/{new}"}
        assert bench.memory("rename", **paths).is_searched is is_searched
        old = new
    assert bench.memory("delete", f"/memories/{old}").is_searched


def test_excluded_paths_cannot_be_read_or_written(make_bench: Any) -> None:
    bench = make_bench(exclude=(".memories/private/**",))
    bench.open()
    bench.write(".memories/private/a.md", "secret\n")
    for command, parameters in (("view", {}), ("create", {"file_text": "a"}), ("delete", {})):
        with pytest.raises(PathRefused):
            bench.memory(command, "/memories/private/a.md", **parameters)


def test_a_link_out_of_the_workspace_is_neither_read_nor_written(bench: Any, tmp_path: Any) -> None:
    (tmp_path / "outside.md").write_text("outside\n")
    os.symlink(tmp_path / "outside.md", bench.root / ".memories/link.md")
    for command, parameters in (
        ("view", {}),
        ("str_replace", {"old_str": "outside", "new_str": "in"}),
        ("delete", {}),
    ):
        with pytest.raises((PathRefused, NoteNotFound)):
            bench.memory(command, "/memories/link.md", **parameters)
    assert (tmp_path / "outside.md").read_text() == "outside\n"


def test_a_link_within_the_workspace_leads_to_the_note(bench: Any) -> None:
    bench.write(".memories/real.md", "one\n")
    os.symlink(".memories/real.md", bench.root / "MEMORY.md")
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="two")
    assert (bench.root / "MEMORY.md").is_symlink()
    assert (bench.root / ".memories/real.md").read_text() == "two\n"


@pytest.mark.parametrize(
    ("command", "parameters", "word"),
    [
        ("view", {}, "path"),
        ("create", {"path": "/memories/a.md"}, "file_text"),
        ("view", {"path": "/memories", "old_str": "a"}, "old_str"),
        ("rename", {"old_path": "/memories/a.md"}, "new_path"),
        ("insert", {"path": "/memories/a.md", "insert_text": "a"}, "insert_line"),
    ],
)
def test_parameters_that_do_not_fit_the_command_are_refused(
    command: Any, parameters: dict[str, Any], word: str
) -> None:
    with pytest.raises(BadRequest, match=word):
        check_parameters(MemoryParams(command=command, **parameters))


# --- links to a renamed note ---

LINKING = {
    "MEMORY.md": "# M\n[[redis]] and [r](.memories/redis.md#limits)\r\n`[[redis]]`\n",
    ".memories/redis.md": "# Redis\n[up](../MEMORY.md) [[redis]]\n",
    ".memories/other.md": "nothing\n",
}
LINKED_ANEW = {
    "MEMORY.md": "# M\n[[valkey]] and [r](.memories/ops/valkey.md#limits)\r\n`[[redis]]`\n",
    ".memories/ops/valkey.md": "# Redis\n[up](../../MEMORY.md) [[valkey]]\n",
    ".memories/other.md": "nothing\n",
}


def rename_linked(bench: Any, **more: Any) -> Answer:
    answer: Answer = bench.memory(
        "rename",
        old_path="/memories/redis.md",
        new_path="/memories/ops/valkey.md",
        update_links=True,
        **more,
    )
    return answer


def read_texts(bench: Any) -> dict[str, str]:
    return {path: data.decode() for path, data in bench.files().items()}


def find_digests(bench: Any) -> dict[str, str]:
    return {path: digest_bytes(data) for path, data in bench.files().items()}


@pytest.fixture
def linking(bench: Any) -> Any:
    for path, text in LINKING.items():
        bench.write(path, text.encode())
    bench.sync()
    bench.see()
    return bench


def test_a_rename_updates_the_links_and_one_undo_restores_all(linking: Any) -> None:
    answer = rename_linked(linking)
    assert answer.updated_links == (".memories/redis.md", "MEMORY.md")
    assert read_texts(linking) == LINKED_ANEW
    assert answer.digest == digest_bytes(LINKED_ANEW[".memories/ops/valkey.md"].encode())
    change_set = linking.past()[0].change_set
    assert {revision.change_set for revision in linking.past()[:3]} == {change_set}
    linking.undo(change_set=change_set)
    assert read_texts(linking) == LINKING
    assert linking.workspace.records.history.heads() == find_digests(linking)
    linking.undo(change_set=linking.past()[0].change_set)
    assert read_texts(linking) == LINKED_ANEW
    assert linking.workspace.records.history.heads() == find_digests(linking)


N_LINKING = 5
ACTS_OF_OTHERS = st.sampled_from(["nothing", "save", "delete"])


def begin_rename(bench: Any) -> None:
    for path in bench.files():
        (bench.root / path).unlink()
    bench.write(".memories/old.md", "# Old\n[up](../MEMORY.md) [[old]]\n")
    for number in range(N_LINKING):
        bench.write(f".memories/n{number}.md", f"# Note {number}\n[[old]]\n")
    bench.sync()
    bench.see()


def rename_overtaken(bench: Any, acts: list[str], at: int) -> tuple[Any, set[str]]:
    """Rename a note while others change notes: while the links of the note number `at` are changed,
    or at the rename itself. Return the outcome, and the notes that were written.
    """
    put, rename = edit_module.put_text_file, edit_module.rename_path
    written: set[str] = set()

    def change_notes() -> None:
        for number, act in enumerate(acts):
            note = bench.root / f".memories/n{number}.md"
            if act == "delete":
                note.unlink(missing_ok=True)
            elif act == "save":
                note.write_text(note.read_text() + "theirs\n")

    def put_overtaken(scope: Any, path: NotePath, *rest: Any, **named: Any) -> Any:
        if path.text == f".memories/n{at}.md":
            change_notes()
        file = put(scope, path, *rest, **named)
        written.add(path.text)
        return file

    def rename_overtaken(*arguments: Any) -> Any:
        if at == N_LINKING:
            change_notes()
        return rename(*arguments)

    params = {"old_path": "/memories/old.md", "new_path": "/memories/new.md", "update_links": True}
    decide = make_decision(bench.workspace, bench.config, MemoryParams(command="rename", **params))
    with pytest.MonkeyPatch.context() as overtaking:
        overtaking.setattr(edit_module, "put_text_file", put_overtaken)
        overtaking.setattr(edit_module, "rename_path", rename_overtaken)
        return bench.edit(decide), written


@given(st.lists(ACTS_OF_OTHERS, min_size=N_LINKING, max_size=N_LINKING), st.integers(0, N_LINKING))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(["save"] * N_LINKING, N_LINKING)
@example(["nothing"] * N_LINKING, 0)
def test_notes_that_others_change_during_a_rename_are_named_and_the_rest_goes_through(
    bench: Any, acts: list[str], at: int
) -> None:
    begin_rename(bench)
    before = bench.files()
    outcome, written = rename_overtaken(bench, acts, at)
    overtaken = range(N_LINKING) if at == N_LINKING else range(at, N_LINKING)
    assert outcome.skipped == {
        f".memories/n{number}.md" for number in overtaken if acts[number] != "nothing"
    }
    assert set(outcome.answer.updated_links) == {*outcome.skipped, *written}
    after = bench.files()
    assert after.pop(".memories/new.md") == b"# Old\n[up](../MEMORY.md) [[new]]\n"
    for number, act in enumerate(acts):
        path = f".memories/n{number}.md"
        link = "[[old]]" if path in outcome.skipped else "[[new]]"
        text = f"# Note {number}\n{link}\n" + "theirs\n" * (act == "save")
        assert after.get(path) == (None if act == "delete" else text.encode())
    assert bench.workspace.records.history.find_intended() == []
    assert bench.workspace.condition.notices == {}
    changed = {
        revision.path for revision in bench.past() if revision.change_set == outcome.change_set
    }
    assert changed == {".memories/new.md", *written}
    if {*acts} == {"nothing"}:
        bench.undo(change_set=outcome.change_set)
        assert bench.files() == before


def test_a_disk_that_fails_after_the_rename_leaves_nothing_of_it(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_rename(bench)
    before, past = bench.files(), bench.past()
    put = edit_module.put_text_file

    def fail(scope: Any, path: NotePath, *rest: Any, **named: Any) -> Any:
        if path.text == ".memories/n3.md":
            raise Unwritable("the disk is read-only")
        return put(scope, path, *rest, **named)

    monkeypatch.setattr(edit_module, "put_text_file", fail)
    with pytest.raises(Unwritable):
        bench.memory(
            "rename", old_path="/memories/old.md", new_path="/memories/new.md", update_links=True
        )
    assert bench.files() == before
    assert bench.past() == past
    assert bench.workspace.condition.notices == {}


def test_a_dry_run_names_the_notes_and_changes_nothing(linking: Any) -> None:
    answer = rename_linked(linking, apply=False)
    assert answer.updated_links == (".memories/redis.md", "MEMORY.md")
    assert read_texts(linking) == LINKING
    assert linking.past() == []


def test_links_stay_unless_their_update_is_requested(linking: Any) -> None:
    answer = linking.memory("rename", old_path="/memories/redis.md", new_path="/memories/v.md")
    assert answer.updated_links == ()
    assert read_texts(linking)["MEMORY.md"] == LINKING["MEMORY.md"]


def test_a_renamed_folder_takes_its_links_along(bench: Any) -> None:
    bench.write(".memories/a/x.md", b"[y](y.md) [z](../z.md)\n")
    bench.write(".memories/a/y.md", b"[[x]]\n")
    bench.write(".memories/z.md", b"[x](a/x.md)\n")
    bench.sync()
    bench.memory("rename", old_path="/memories/a", new_path="/memories/b/c", update_links=True)
    assert read_texts(bench) == {
        ".memories/b/c/x.md": "[y](y.md) [z](../../z.md)\n",
        ".memories/b/c/y.md": "[[x]]\n",
        ".memories/z.md": "[x](b/c/x.md)\n",
    }


def test_a_linking_note_that_is_read_only_is_named_and_stays(
    make_bench: Callable[..., Any], tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "out.md").write_text("[[redis]]\n")
    bench = make_bench("links", allow_links_to=(str(shared),))
    bench.write(".memories/redis.md", b"r\n")
    (bench.root / ".memories/shared").symlink_to(shared)
    bench.open()
    bench.sync()
    answer = rename_linked(bench)
    assert answer.skipped_links == (".memories/shared/out.md",)
    assert (shared / "out.md").read_text() == "[[redis]]\n"


def test_another_command_takes_no_update_of_links(linking: Any) -> None:
    with pytest.raises(BadRequest, match="update_links"):
        linking.memory("delete", "/memories/redis.md", update_links=True)


@pytest.mark.parametrize("given", [{"path": "/memories/a.md"}, {"new_path": "/memories/a.md"}])
def test_a_hint_names_the_parameters_that_models_know(given: dict[str, str]) -> None:
    with pytest.raises(BadRequest) as refused:
        check_parameters(MemoryParams(command="rename", **given))  # type: ignore[arg-type]
    assert refused.value.hint.endswith("takes old_path, new_path")
