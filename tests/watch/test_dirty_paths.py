"""Which paths does an event make dirty, and whose are they?"""

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
    FileSystemEvent,
)

from memsyncd.watch.watcher import DirtyPath, Route, dirty_paths, to_workspace_path

ROUTE = Route(workspace_id="ws", root="/home/ada/proj", is_link_target=False)
LINK_ROUTE = Route(workspace_id="ws", root="/home/ada/proj", is_link_target=True)
WHOLE = DirtyPath(path="", is_finished=False, is_folder=True)


def ring(path: str, *, is_finished: bool = False, is_folder: bool = False) -> DirtyPath:
    return DirtyPath(path=path, is_finished=is_finished, is_folder=is_folder)


@pytest.mark.parametrize(
    ("event", "rings"),
    [
        (FileClosedEvent("/a.md"), [ring("/a.md", is_finished=True)]),
        (FileAttribEvent("/a.md"), [ring("/a.md", is_finished=True)]),
        (FileCreatedEvent("/a.md"), [ring("/a.md")]),
        (FileModifiedEvent("/a.md"), [ring("/a.md")]),
        (FileDeletedEvent("/a.md"), [ring("/a.md")]),
        (
            FileMovedEvent("/a.md", "/b.md"),
            [ring("/a.md", is_finished=True), ring("/b.md", is_finished=True)],
        ),
        (FileMovedEvent("/a.md", "/a.md~"), [ring("/a.md"), ring("/a.md~", is_finished=True)]),
        (FileMovedEvent("/.a.swp", "/a.md"), [ring("/.a.swp"), ring("/a.md", is_finished=True)]),
        (FileMovedEvent("", "/b.md"), [ring("/b.md", is_finished=True)]),
        (FileMovedEvent(b"/a.md", b""), [ring("/a.md")]),
        (DirCreatedEvent("/d"), [ring("/d", is_folder=True)]),
        (DirMovedEvent("/d", "/e"), [ring("/d", is_folder=True), ring("/e", is_folder=True)]),
    ],
)
def test_each_path_rings_and_only_what_is_in_place_is_finished(
    event: FileSystemEvent, rings: list[DirtyPath]
) -> None:
    assert list(dirty_paths(event)) == rings


def test_a_link_rings_as_a_folder_unless_its_name_is_a_notes(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to("nowhere")
    (tmp_path / "note.md").symlink_to("nowhere")
    assert list(dirty_paths(FileCreatedEvent(f"{tmp_path}/linked"))) == [
        ring(f"{tmp_path}/linked", is_folder=True)
    ]
    assert list(dirty_paths(FileCreatedEvent(f"{tmp_path}/note.md"))) == [
        ring(f"{tmp_path}/note.md")
    ]


def test_a_path_beneath_the_root_is_written_from_it() -> None:
    placed = to_workspace_path(ring("/home/ada/proj/docs/a.md", is_finished=True), ROUTE)
    assert placed == ring("docs/a.md", is_finished=True)


@pytest.mark.parametrize("path", ["/home/ada/proj", "/home/ada", "/home"])
def test_the_root_and_what_is_above_it_ring_for_the_whole(path: str) -> None:
    assert to_workspace_path(ring(path), ROUTE) == WHOLE


@pytest.mark.parametrize("path", ["/home/ada/proj2/a.md", "/home/ada/other", "/etc"])
def test_a_path_beside_the_root_is_not_the_workspaces(path: str) -> None:
    assert to_workspace_path(ring(path, is_folder=True), ROUTE) is None


def test_a_links_target_rings_for_the_whole_if_it_could_be_a_note() -> None:
    assert to_workspace_path(ring("/elsewhere/a.md", is_finished=True), LINK_ROUTE) == WHOLE
    assert to_workspace_path(ring("/elsewhere/d", is_folder=True), LINK_ROUTE) == WHOLE
    assert to_workspace_path(ring("/elsewhere/a.py"), LINK_ROUTE) is None
