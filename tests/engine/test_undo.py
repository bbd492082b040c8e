from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from memsyncd.config import HistoryConfig
from memsyncd.core.digest import digest_bytes
from memsyncd.engine.additions import make_addition_decision
from memsyncd.errors import BadRequest, Conflict, EditRefused, MemsyncdError, NoteNotFound
from memsyncd.operations.history.declare import PathState
from memsyncd.operations.notes.declare import NewSection
from memsyncd.operations.notes.run import make_clear_decision

NOTE = "# A\none\n\n# B\ntwo\n"


def test_undoing_an_edit_gives_back_the_same_bytes(bench: Any) -> None:
    bench.write("MEMORY.md", b"\xff# A\r\none\r\nno end")
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="two")
    undone = bench.undo("MEMORY.md").answer
    assert bench.files() == {"MEMORY.md": b"\xff# A\r\none\r\nno end"}
    assert undone.paths == [
        PathState(path="MEMORY.md", digest=digest_bytes(b"\xff# A\r\none\r\nno end"))
    ]
    assert bench.texts() != {}


def test_undoing_an_undo_does_it_again(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="one\n")
    bench.memory("str_replace", "/memories/a.md", old_str="one", new_str="two")
    bench.undo(".memories/a.md")
    bench.undo(".memories/a.md")
    assert bench.files() == {".memories/a.md": b"two\n"}


def test_a_renamed_folder_is_renamed_back_without_the_notes_added_since(bench: Any) -> None:
    for name in ("a", "deep/b"):
        bench.memory("create", f"/memories/d/{name}.md", file_text=f"{name}\n")
    bench.memory("rename", old_path="/memories/d", new_path="/memories/e")
    change_set = bench.past()[0].change_set
    bench.memory("create", "/memories/e/new.md", file_text="new\n")
    bench.write(".memories/e/deep/by-hand.md", "by hand\n")
    bench.undo(change_set=change_set)
    assert bench.files() == {
        ".memories/d/a.md": b"a\n",
        ".memories/d/deep/b.md": b"deep/b\n",
        ".memories/e/deep/by-hand.md": b"by hand\n",
        ".memories/e/new.md": b"new\n",
    }


def test_one_note_of_a_deleted_folder_can_be_restored_alone(bench: Any) -> None:
    for name in ("a", "b"):
        bench.memory("create", f"/memories/d/{name}.md", file_text=f"{name}\n")
    bench.memory("delete", "/memories/d")
    bench.undo(".memories/d/a.md")
    assert bench.files() == {".memories/d/a.md": b"a\n"}


def test_a_note_is_restored_over_an_empty_folder_but_not_over_other_files(bench: Any) -> None:
    bench.memory("create", "/memories/d", file_text="one\n")
    bench.memory("rename", old_path="/memories/d", new_path="/memories/e")
    moved = bench.past()[0].revision
    bench.memory("create", "/memories/d/b.md", file_text="b\n")
    with pytest.raises(Conflict):
        bench.undo(revision=moved)
    bench.undo(".memories/d/b.md")
    bench.undo(revision=moved)
    assert bench.files() == {".memories/d": b"one\n"}
    bench.memory("delete", "/memories/d")
    gone = bench.past()[0].revision
    bench.memory("create", "/memories/d/b.md", file_text="b\n")
    bench.memory("delete", "/memories/d/b.md")
    bench.undo(revision=gone)
    assert bench.files() == {".memories/d": b"one\n"}


def test_a_note_changed_since_is_a_conflict_and_stays(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="one\n")
    bench.memory("str_replace", "/memories/a.md", old_str="one", new_str="two")
    bench.write(".memories/a.md", "three\n")
    with pytest.raises(Conflict) as refused:
        bench.undo(revision=bench.past(".memories/a.md")[0].revision)
    assert refused.value.data == {
        "wanted": digest_bytes(b"two\n"),
        "digest": digest_bytes(b"three\n"),
    }
    assert bench.files() == {".memories/a.md": b"three\n"}


def test_a_change_set_of_many_notes_is_undone_whole_or_not_at_all(bench: Any) -> None:
    for name in ("a", "b"):
        bench.memory("create", f"/memories/d/{name}.md", file_text=f"{name}\n")
    bench.memory("delete", "/memories/d")
    change_set = bench.past(limit=1)[0].change_set
    bench.write(".memories/d/b.md", "another\n")
    with pytest.raises(Conflict):
        bench.undo(change_set=change_set)
    assert bench.files() == {".memories/d/b.md": b"another\n"}
    (bench.root / ".memories/d/b.md").unlink()
    bench.undo(change_set=change_set)
    assert bench.files() == {".memories/d/a.md": b"a\n", ".memories/d/b.md": b"b\n"}


def test_an_undo_to_the_current_text_writes_nothing(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="one\n")
    bench.memory("str_replace", "/memories/a.md", old_str="one", new_str="two")
    revision = bench.past(".memories/a.md")[0].revision
    bench.write(".memories/a.md", "one\n")
    assert bench.undo(revision=revision).change_set is None


# --- one section ------------------------------------------------------------------------------------------------------


def test_a_section_is_restored_and_others_stay_unchanged(bench: Any) -> None:
    bench.memory("create", "/memories/MEMORY.md", file_text=NOTE)
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="ONE")
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="two", new_str="TWO")
    revisions = bench.past(anchor="MEMORY.md#a")
    assert [revision.command for revision in revisions] == ["str_replace", "create"]
    bench.undo(anchor="MEMORY.md#a")
    assert bench.files() == {"MEMORY.md": b"# A\none\n\n# B\nTWO\n"}


def test_a_section_that_changed_again_is_a_conflict(bench: Any) -> None:
    bench.memory("create", "/memories/MEMORY.md", file_text=NOTE)
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="one", new_str="ONE")
    revision = bench.past(anchor="MEMORY.md#a")[0].revision
    bench.write("MEMORY.md", NOTE.replace("one", "1"))
    with pytest.raises(Conflict):
        bench.undo(anchor="MEMORY.md#a", revision=revision)
    assert bench.files() == {"MEMORY.md": NOTE.replace("one", "1").encode()}


def test_a_section_that_would_take_in_later_text_is_a_conflict(bench: Any) -> None:
    bench.memory("create", "/memories/k.md", file_text="# A\n```\nopen\n")
    bench.memory("str_replace", "/memories/k.md", old_str="open\n", new_str="open\n```\n")
    bench.memory("insert", "/memories/k.md", insert_line=4, insert_text="# B\nb\n")
    with pytest.raises(Conflict):
        bench.undo(anchor=".memories/k.md#a")
    assert bench.files() == {".memories/k.md": b"# A\n```\nopen\n```\n# B\nb\n"}


def test_a_section_whose_position_is_unknown_is_a_conflict(bench: Any) -> None:
    bench.memory("create", "/memories/MEMORY.md", file_text=NOTE)
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="# A\none\n\n", new_str="")
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="two", new_str="TWO")
    with pytest.raises(Conflict):
        bench.undo(anchor="MEMORY.md#a")


def test_a_section_removed_alone_is_restored_at_its_position(bench: Any) -> None:
    bench.memory("create", "/memories/MEMORY.md", file_text=NOTE)
    bench.memory("str_replace", "/memories/MEMORY.md", old_str="# A\none\n\n", new_str="")
    bench.undo(anchor="MEMORY.md#a")
    assert bench.files() == {"MEMORY.md": NOTE.encode()}


def test_an_added_section_is_removed_though_others_were_added_since(bench: Any) -> None:
    bench.memory("create", "/memories/k.md", file_text="# K\n")
    bench.memory("insert", "/memories/k.md", insert_line=1, insert_text="\n## One\n1\n")
    bench.memory("insert", "/memories/k.md", insert_line=4, insert_text="\n## Two\n2\n")
    assert [revision.command for revision in bench.past(anchor=".memories/k.md#k/one")] == [
        "insert"
    ]
    bench.undo(anchor=".memories/k.md#k/one")
    assert bench.files() == {".memories/k.md": b"# K\n\n## Two\n2\n"}


# --- everything -------------------------------------------------------------------------------------------------------


def test_one_of_two_sections_that_were_added_together_is_removed_alone(bench: Any) -> None:
    bench.write(".memories/notes.md", "# Notes\n")
    items = [NewSection(content=word, summary=word, note="notes") for word in ("One", "Two")]
    bench.edit(
        make_addition_decision(
            bench.workspace,
            bench.config,
            items,
            command="note.add_many",
            client="test",
            at="2026-03-14",
        )
    )
    both = bench.files()[".memories/notes.md"]
    bench.undo(anchor=".memories/notes.md#notes/one")
    left = bench.files()[".memories/notes.md"]
    assert b"## One" not in left
    assert left.endswith(both[both.index(b"## Two") :])
    bench.undo(anchor=".memories/notes.md#notes/two")
    assert bench.files() == {".memories/notes.md": b"# Notes\n"}


def test_clearing_removes_every_note_and_can_be_undone(bench: Any) -> None:
    bench.write("MEMORY.md", NOTE)
    bench.write(".memories/deep/a.md", "a\n")
    bench.write(".memories/other.json", "{}\n")
    before = bench.files()
    done = bench.edit(make_clear_decision(bench.workspace, client="test"))
    assert done.answer == 2
    assert bench.files() == {".memories/other.json": b"{}\n"}
    bench.undo(change_set=done.change_set)
    assert bench.files() == before


def test_undo_without_history_is_refused_with_a_reason(make_bench: Any) -> None:

    bench = make_bench()
    bench.config = structs.replace(bench.config, history=HistoryConfig(enabled=False))
    bench.open()
    bench.memory("create", "/memories/a.md", file_text="a\n")
    with pytest.raises(BadRequest, match=r"no history is kept"):
        bench.undo(".memories/a.md")


def test_a_revision_is_of_the_note_that_is_named(bench: Any) -> None:
    bench.memory("create", "/memories/a.md", file_text="a\n")
    bench.memory("create", "/memories/b.md", file_text="b\n")
    revision = bench.past(".memories/b.md")[0].revision
    with pytest.raises(NoteNotFound, match=f"no revision {revision} of .memories/a.md"):
        bench.undo(".memories/a.md", revision=revision)
    with pytest.raises(NoteNotFound, match=r"no change 2 of .memories/a.md"):
        bench.undo(".memories/a.md", change_set=2)
    with pytest.raises(BadRequest, match="name one of: a change set, a revision, `to`"):
        bench.undo(None, revision=revision, change_set=1)
    assert bench.files() == {".memories/a.md": b"a\n", ".memories/b.md": b"b\n"}
    bench.undo(".memories/b.md", revision=revision)
    assert bench.files() == {".memories/a.md": b"a\n"}


def test_one_note_of_a_change_set_is_undone_and_the_answer_names_the_others(bench: Any) -> None:
    for name in "ab":
        bench.memory("create", f"/memories/{name}.md", file_text=f"{name}\n")
    before = bench.files()
    number = bench.edit(make_clear_decision(bench.workspace, client="test")).change_set
    done = bench.undo(".memories/a.md", change_set=number)
    assert done.answer.others == [".memories/b.md"]
    assert bench.files() == {".memories/a.md": b"a\n"}
    assert bench.undo(change_set=number).answer.others == []
    assert bench.files() == before


def test_a_note_or_section_is_restored_as_any_change_left_it(bench: Any) -> None:
    texts = ["# N\n\n## A\none\n", "# N\n\n## A\ntwo\n"]
    bench.memory("create", "/memories/n.md", file_text=texts[0])
    bench.memory("str_replace", "/memories/n.md", old_str="one", new_str="two")
    new = "three\n\n## B\nnew"
    bench.memory("str_replace", "/memories/n.md", old_str="two", new_str=new)
    first, second, _ = [each.change_set for each in reversed(bench.past(".memories/n.md"))]
    bench.undo(anchor=".memories/n.md#n/a", to=first)
    assert bench.files()[".memories/n.md"] == b"# N\n\n## A\none\n\n## B\nnew\n"
    bench.undo(".memories/n.md", to=second)
    assert bench.files()[".memories/n.md"] == texts[1].encode()
    assert bench.undo(".memories/n.md", to=second).change_set is None
    bench.memory("delete", "/memories/n.md")
    gone = bench.past()[0].change_set
    bench.undo(".memories/n.md", to=first)
    assert bench.files()[".memories/n.md"] == texts[0].encode()
    with pytest.raises(EditRefused, match=f".memories/n.md was not there after change {gone}"):
        bench.undo(".memories/n.md", to=gone)
    # After a change of another note, also before the first change of this one.
    bench.write(".memories/old.md", "as it was\n")
    bench.follow()
    bench.memory("str_replace", "/memories/n.md", old_str="one", new_str="six")
    between = bench.past()[0].change_set
    bench.memory("str_replace", "/memories/old.md", old_str="as it was", new_str="changed")
    bench.undo(".memories/old.md", to=between)
    assert bench.files()[".memories/old.md"] == b"as it was\n"
    with pytest.raises(NoteNotFound, match="no change 999"):
        bench.undo(".memories/n.md", to=999)
    with pytest.raises(BadRequest, match="`to` restores one note or section"):
        bench.undo(".memories", to=first)


def test_an_unknown_revision_cannot_be_undone(bench: Any) -> None:
    for requested in ({"path": "MEMORY.md"}, {"revision": 7}, {"change_set": 7}):
        with pytest.raises(NoteNotFound):
            bench.undo(**requested)


# --- any sequence of commands --------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["/memories/a.md", "/memories/d/b.md", "/memories/MEMORY.md", "/memories/d"]
)
WORDS = st.sampled_from(["one", "two\n", "# H\n", "\r\n", "", "ü"])
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": NAMES, "file_text": WORDS}),
    st.fixed_dictionaries(
        {"command": st.just("str_replace"), "path": NAMES, "old_str": WORDS, "new_str": WORDS}
    ),
    st.fixed_dictionaries(
        {
            "command": st.just("insert"),
            "path": NAMES,
            "insert_line": st.integers(-1, 3),
            "insert_text": WORDS,
        }
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": NAMES}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": NAMES, "new_path": NAMES}),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=st.lists(COMMANDS, min_size=1, max_size=8))
def test_undoing_every_change_set_from_the_last_on_restores_every_state(
    make_bench: Any, commands: list[Any]
) -> None:
    bench = make_bench(f"project-{next(NUMBERS)}")
    bench.open()
    states = []
    for command in commands:
        before, n_change_sets = (
            bench.files(),
            len({revision.change_set for revision in bench.past()}),
        )
        try:
            bench.memory(**command)
        except MemsyncdError:
            assert bench.files() == before
            continue
        if len({revision.change_set for revision in bench.past()}) > n_change_sets:
            states.append((bench.past(limit=1)[0].change_set, before))
        else:
            assert bench.files() == before
    for change_set, before in reversed(states):
        bench.undo(change_set=change_set)
        assert bench.files() == before
        assert set(bench.paths()) == {path for path in before if path.endswith(".md")}
    bench.workspace.close()


NUMBERS = iter(range(10**9))
