"""The dirty paths of an event, and the workspaces to which they belong."""

from __future__ import annotations

from pathlib import Path

import pytest
from watchdog.events import (
    DirCreatedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
)

from memsyncd.watch.watcher import (
    DirtyPath,
    Route,
    check_link,
    dirty_paths,
    to_workspace_path,
)

ROUTE = Route(workspace_id="ws", root="/home/ada/proj", is_link_target=False, is_pruned=None)
LINK_ROUTE = Route(workspace_id="ws", root="/home/ada/proj", is_link_target=True, is_pruned=None)
WHOLE = DirtyPath(path="", is_finished=False, is_folder=True)


def dirty(path: str, *, is_finished: bool = False, is_folder: bool = False) -> DirtyPath:
    return DirtyPath(path=path, is_finished=is_finished, is_folder=is_folder)


def test_each_path_is_dirty_and_finished_only_if_the_file_is_in_place() -> None:
    for event, expected in (
        (FileClosedEvent("/a.md"), [dirty("/a.md", is_finished=True)]),
        (FileAttribEvent("/a.md"), [dirty("/a.md", is_finished=True)]),
        (FileCreatedEvent("/a.md"), [dirty("/a.md")]),
        (FileModifiedEvent("/a.md"), [dirty("/a.md")]),
        (FileDeletedEvent("/a.md"), [dirty("/a.md")]),
        (
            FileMovedEvent("/a.md", "/b.md"),
            [dirty("/a.md", is_finished=True), dirty("/b.md", is_finished=True)],
        ),
        (FileMovedEvent("/a.md", "/a.md~"), [dirty("/a.md"), dirty("/a.md~", is_finished=True)]),
        (FileMovedEvent("/.a.swp", "/a.md"), [dirty("/.a.swp"), dirty("/a.md", is_finished=True)]),
        (FileMovedEvent("", "/b.md"), [dirty("/b.md", is_finished=True)]),
        (FileMovedEvent(b"/a.md", b""), [dirty("/a.md")]),
        (DirCreatedEvent("/d"), [dirty("/d", is_folder=True)]),
        (DirMovedEvent("/d", "/e"), [dirty("/d", is_folder=True), dirty("/e", is_folder=True)]),
    ):
        assert list(dirty_paths(event)) == expected, event


def test_a_link_counts_as_a_folder_unless_it_has_the_name_of_a_note(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to("nowhere")
    (tmp_path / "note.md").symlink_to("nowhere")
    (tmp_path / "file").write_text("x")

    def check(name: str) -> list[tuple[bool, DirtyPath]]:
        created = dirty_paths(FileCreatedEvent(f"{tmp_path}/{name}"))
        return [
            (dirty.may_be_link, check_link(dirty) if dirty.may_be_link else dirty)
            for dirty in created
        ]

    assert check("linked") == [(True, dirty(f"{tmp_path}/linked", is_folder=True))]
    assert check("note.md") == [(False, dirty(f"{tmp_path}/note.md"))]
    assert check("file") == [(True, dirty(f"{tmp_path}/file"))]


def test_only_a_path_that_is_new_and_no_note_may_be_a_link() -> None:
    for event, may_be_link in (
        (FileMovedEvent("/a.md", "/a.md~"), [False, True]),
        (FileMovedEvent("/.a.swp", "/a.md"), [False, False]),
        (FileModifiedEvent("/a"), [False]),
        (FileDeletedEvent("/a"), [False]),
        (DirCreatedEvent("/a"), [False]),
    ):
        assert [dirty.may_be_link for dirty in dirty_paths(event)] == may_be_link, event


def test_a_path_beneath_the_root_is_relative_to_it() -> None:
    placed = to_workspace_path(dirty("/home/ada/proj/docs/a.md", is_finished=True), ROUTE)
    assert placed == dirty("docs/a.md", is_finished=True)


@pytest.mark.parametrize("path", ["/home/ada/proj", "/home/ada", "/home"])
def test_an_event_on_the_root_or_above_it_concerns_the_whole_workspace(path: str) -> None:
    assert to_workspace_path(dirty(path), ROUTE) == WHOLE


@pytest.mark.parametrize("path", ["/home/ada/proj2/a.md", "/home/ada/other", "/etc"])
def test_a_path_beside_the_root_does_not_concern_the_workspace(path: str) -> None:
    assert to_workspace_path(dirty(path, is_folder=True), ROUTE) is None


def test_an_event_on_a_link_target_that_may_be_a_note_concerns_the_whole_workspace() -> None:
    assert to_workspace_path(dirty("/elsewhere/a.md", is_finished=True), LINK_ROUTE) == WHOLE
    assert to_workspace_path(dirty("/elsewhere/d", is_folder=True), LINK_ROUTE) == WHOLE
    assert to_workspace_path(dirty("/elsewhere/a.py"), LINK_ROUTE) is None
