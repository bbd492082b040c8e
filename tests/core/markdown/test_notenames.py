from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.markdown import links
from memsyncd.core.markdown.links import (
    NameTable,
    NoteNames,
    leads_outside,
    list_names,
    make_key,
)

NOTES = [
    ("notes/Über uns.md", "About us", ("Team", "Dec 1st, 2020")),
    ("journals/2020_12_21.md", "", ()),
    ("pages/area___topic.md", "", ()),
    ("pages/a%2Fb.md", "", ()),
    ("zk/200911172034 An idea.md", "An idea", ()),
    ("zk/x7qk-other.md", "Other", ("id-9",)),
    ("zk/todo-list.md", "Todo list", ()),
    ("zk/2021-02-03-walk.md", "Walk", ()),
    ("one/same.md", "", ()),
    ("two/same.md", "", ()),
    ("note.md.txt", "", ()),
]
NAMES = NoteNames(
    NameTable(
        (make_key(name), path, name)
        for path, title, others in NOTES
        for name in list_names(path, title, others)
    )
)


def test_a_note_is_found_by_the_names_that_tools_give_it() -> None:
    for target, path in (
        ("team", "notes/Über uns.md"), ("Dec 1st, 2020", "notes/Über uns.md"),
        ("2020-12-21", "journals/2020_12_21.md"), ("Dec 21st, 2020", "journals/2020_12_21.md"),
        ("area/topic", "pages/area___topic.md"), ("A/B", "pages/a%2Fb.md"),
        ("200911172034", "zk/200911172034 An idea.md"), ("x7qk", "zk/x7qk-other.md"),
        ("id-9", "zk/x7qk-other.md"), ("note.md", "note.md.txt"), ("todo", None), ("2021", None),
        ("x7q", None), ("..", None), (".", None), ("/", None),
    ):  # fmt: skip
        assert NAMES.find("MEMORY.md", target) == path, target


def test_names_are_found_however_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = [(f".memories/{word}.md", "") for word in ("red", "blue", "green")]
    targets = ["red", "blue", "gone", "green", "red", "blue"]
    paths = [NoteNames.of(notes).find("MEMORY.md", target) for target in targets]
    monkeypatch.setattr(links, "_MAX_REMEMBERED", 1)
    names = NoteNames.of(notes)
    assert [names.find("MEMORY.md", target) for target in targets] == paths
    assert paths[:4] == [".memories/red.md", ".memories/blue.md", None, ".memories/green.md"]


def test_the_nearest_of_several_notes_is_found() -> None:
    assert NAMES.find("two/a.md", "same") == "two/same.md"
    assert NAMES.find("one/a.md", "same") == "one/same.md"
    assert NAMES.find("one/a.md", "../two/same") == "two/same.md"


def test_a_path_is_found_by_nothing_but_its_path() -> None:
    assert NAMES.find("two/a.md", "same", is_path=True) == "two/same.md"
    assert NAMES.find("MEMORY.md", "same", is_path=True) is None
    assert NAMES.find("MEMORY.md", "team", is_path=True) is None


PARTS = st.text(alphabet="aÄ%2F_. -/\\\u0308\u00e4mdMD", max_size=8)
NAMED = st.lists(st.tuples(PARTS.map(lambda text: f"{text}.md"), PARTS), min_size=1, max_size=6)


@given(NAMED, PARTS, PARTS)
def test_a_target_and_the_note_that_it_names_share_a_key(
    notes: list[tuple[str, str]], folder: str, target: str
) -> None:
    note = NoteNames.of(notes).find(f"{folder}/x.md", target)
    if note is not None and target:
        names = {name for path, title in notes if path == note for name in list_names(path, title)}
        assert make_key(target) in set(map(make_key, names))


@given(NAMED)
def test_a_note_is_found_by_its_path(notes: list[tuple[str, str]]) -> None:
    paths = {path for path, _ in notes if "/" not in path and "\\" not in path and path[0] != "."}
    names = NoteNames.of(notes)
    assert all(names.find("x.md", path) == path for path in paths if "%" not in path)


def test_a_target_may_lead_out_of_the_workspace() -> None:
    for source, target, is_outside in (
        ("docs/a.md", "../../b.md", True),
        ("docs/a.md", "..%2F..%2Fb", True),
        ("a.md", "..", True),
        ("docs/a.md", "../b.md", False),
        ("docs/a.md", "x/../../b.md", False),
        ("a.md", "..b.md", False),
        ("a.md", "", False),
    ):
        assert leads_outside(source, target) == is_outside, source
