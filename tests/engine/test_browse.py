from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memsyncd.config import Config
from memsyncd.engine.browse import find_problems, list_notes, read_place
from memsyncd.errors import BadRequest, Busy, NoteNotFound, PathRefused
from memsyncd.protocol.search import GetParams, Got, ListParams


@pytest.fixture
def filled(bench: Any) -> Any:
    bench.write("MEMORY.md", "# Cache\nredis is hot\n\n# Disk\nthe disk is cold\n")
    bench.write(".memories/b.md", "plain")
    bench.write("README.md", "not memory")
    bench.sync()
    return bench


def read(bench: Any, **place: Any) -> Got:
    return read_place(bench.workspace, GetParams(**place), now_ns=1)[0]


def is_current(bench: Any, **place: Any) -> bool:
    return read_place(bench.workspace, GetParams(**place), now_ns=1)[1]


def test_a_section_is_read_by_its_anchor(filled: Any) -> None:
    found = read(filled, anchor="MEMORY.md#disk")
    assert (found.path, found.start_line, found.end_line, found.text) == (
        "MEMORY.md",
        4,
        5,
        "# Disk\nthe disk is cold",
    )
    assert found.heading == ["Disk"]
    assert is_current(filled, anchor="MEMORY.md#disk")


@pytest.mark.parametrize(
    ("place", "span", "text"),
    [
        ({"path": "MEMORY.md", "start_line": 2, "end_line": 2}, (2, 2), "redis is hot"),
        ({"path": "MEMORY.md", "start_line": 5}, (5, 5), "the disk is cold"),
        ({"path": "MEMORY.md", "end_line": 1}, (1, 1), "# Cache"),
        (
            {"path": "MEMORY.md", "start_line": 4, "end_line": 999},
            (4, 5),
            "# Disk\nthe disk is cold",
        ),
        ({"path": "./.memories/b.md"}, (1, 1), "plain"),
    ],
)
def test_lines_are_read_as_an_editor_counts_them_and_cut_at_the_end(
    filled: Any, place: dict[str, Any], span: tuple[int, int], text: str
) -> None:
    found = read(filled, **place)
    assert ((found.start_line, found.end_line), found.text) == (span, text)


def test_lines_that_begin_after_the_end_are_refused(filled: Any) -> None:
    with pytest.raises(BadRequest, match="5 lines"):
        read(filled, path="MEMORY.md", start_line=6)


def test_lines_name_the_section_in_which_they_begin(filled: Any) -> None:
    assert read(filled, path="MEMORY.md", start_line=5).anchor == "MEMORY.md#disk"


def test_text_comes_from_the_disk_and_a_note_changed_since_is_reported(filled: Any) -> None:
    filled.write("MEMORY.md", "changed\n")
    found = read(filled, path="MEMORY.md")
    assert (found.text, is_current(filled, path="MEMORY.md")) == ("changed", False)
    filled.sync()
    assert is_current(filled, path="MEMORY.md")


def test_an_empty_note_has_one_empty_line(filled: Any) -> None:
    filled.write("MEMORY.md", "")
    found = read(filled, path="MEMORY.md")
    assert (found.start_line, found.end_line, found.text) == (1, 1, "")


@pytest.mark.parametrize(
    "path", ["../outside.md", "/etc/passwd", ".git/config", ".memories/../../x.md", "a\0.md"]
)
def test_no_path_leaves_the_workspace(filled: Any, path: str) -> None:
    with pytest.raises(PathRefused):
        read(filled, path=path)


@pytest.mark.parametrize("path", ["README.md", ".memories", ".memories/none.md", ".memories/x.py"])
def test_a_file_that_is_not_a_note_is_not_read(filled: Any, path: str) -> None:
    with pytest.raises(NoteNotFound):
        read(filled, path=path)


def test_a_link_that_leads_out_is_not_read(filled: Any) -> None:
    (filled.root / ".memories/out.md").symlink_to("/etc/hostname")
    with pytest.raises(NoteNotFound, match="cannot be read"):
        read(filled, path=".memories/out.md")


def test_an_unknown_anchor_is_refused_with_the_nearest(filled: Any) -> None:
    with pytest.raises(NoteNotFound) as caught:
        read(filled, anchor="MEMORY.md#dsk")
    assert "MEMORY.md#disk" in caught.value.hint


def test_a_place_is_an_anchor_or_a_path(filled: Any) -> None:
    for place in ({}, {"anchor": "MEMORY.md#disk", "path": "MEMORY.md"}):
        with pytest.raises(BadRequest):
            read(filled, **place)


def test_notes_are_listed(filled: Any) -> None:
    assert [note.path for note in list_notes(filled.workspace, Config(), ListParams())] == [
        ".memories/b.md",
        "MEMORY.md",
    ]


def test_problems_come_from_the_workspace_the_scan_and_the_notes(filled: Any) -> None:
    (filled.root / ".memories/out.md").symlink_to("/etc/hostname")
    filled.write(".memories/z.md", "```\nopen")
    filled.sync()
    filled.workspace.set_fault("watch", "out of watches")
    found = [(problem.path, problem.code) for problem in find_problems(filled.workspace)]
    assert found == [
        ("", "watch"),
        (".memories/out.md", "link_outside"),
        (".memories/z.md", "unclosed_fence"),
    ]


def test_a_workspace_that_is_being_opened_is_busy(make_bench: Callable[..., Any]) -> None:
    bench = make_bench("unopened")
    with pytest.raises(Busy):
        read(bench, path="MEMORY.md")
    assert find_problems(bench.workspace) == []
