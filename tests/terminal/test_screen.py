"""The application without a daemon: its message, sizes, colours, many notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("textual", reason="not installed: textual (pip install 'memsyncd[terminal]')")

from memsyncd.cli.tui.notes_view import STEP
from memsyncd.cli.tui.text import build_folders
from tests.terminal.conftest import Screen, show

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.life


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user without a daemon."""
    return {"HOME": str(tmp_path), "MEMSYNCD_SOCKET": str(tmp_path / "none.sock")}


def test_without_a_daemon_it_says_how_to_start_one_and_goes_on(env: dict[str, str]) -> None:
    async def scenario(screen: Screen) -> None:
        await screen.wait_shown("no daemon answers on", "memsyncd start", "● no daemon")
        await screen.type("redis")
        for key in ("tab", "2", "3", "4", "1"):
            await screen.press(key)
        assert screen.app.is_running

    show(env, "", scenario)


def has_ends(screen: Screen, tab: str) -> bool:
    """The first row has the tab, and the last row the keys."""
    first, *_, last = screen.read().splitlines()
    return tab in first and "/ Search" in last


def test_any_width_from_60_on_and_each_change_of_it_shows_every_view(env: dict[str, str]) -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("tab")
        for size in ((60, 20), (140, 50), (60, 24), (110, 30)):
            await screen.pilot.resize_terminal(*size)
            for key, label in (("1", "Search"), ("2", "Notes"), ("3", "History"), ("4", "Status")):
                await screen.press("tab", key)
                tab = f"{key} {label}"
                await screen.wait(lambda tab=tab: has_ends(screen, tab), f"{tab} is not shown")

    show(env, "", scenario)


def test_the_keys_are_named_on_request(env: dict[str, str]) -> None:
    async def scenario(screen: Screen) -> None:
        await screen.press("f1")
        await screen.wait_shown("passages with either word")
        await screen.press("escape")
        await screen.wait_gone("passages with either word")

    show(env, "", scenario)


def test_a_tree_of_ten_thousand_notes_is_filled_as_it_is_opened(env: dict[str, str]) -> None:
    notes = [{"path": f"{at % 3}/{at}.md", "kind": None} for at in range(9000)]
    notes += [{"path": f"{at}.md", "kind": "note"} for at in range(1000)]

    async def scenario(screen: Screen) -> None:
        view = screen.app._notes
        await screen.press("tab", "2")
        view._fill(build_folders(notes))
        await screen.wait_shown("3,000")
        tree = view._tree
        assert len(tree.root.children) == 3 + STEP + 1
        await screen.press("enter")
        await screen.wait(lambda: len(tree.root.children[0].children) == STEP + 1, "not filled")
        await screen.press("end", "enter")
        await screen.wait(lambda: len(tree.root.children) == 3 + 2 * STEP + 1, "no more came")

    show(env, "", scenario)


def test_a_key_that_comes_right_after_the_notes_are_listed_again_moves_from_the_chosen_one(
    env: dict[str, str],
) -> None:
    folders = build_folders([{"path": f"{name}.md", "kind": None} for name in "abcd"])

    async def scenario(screen: Screen) -> None:
        view = screen.app._notes
        await screen.press("tab", "2")
        for chosen in ("b.md", "c.md", "d.md"):
            view._fill(folders)
            view._tree.action_cursor_down()
            await screen.pilot.pause(0.1)
            node = view._tree.cursor_node
            assert node is not None
            assert node.data == chosen
            assert node is view._tree.root.children[node.line]

    show(env, "", scenario)


def test_without_colours_none_is_drawn_and_the_chosen_entry_is_reversed(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    notes = [{"path": "a.md", "kind": None}, {"path": "b.md", "kind": None}]

    async def scenario(screen: Screen) -> None:
        await screen.press("tab", "2")
        screen.app._notes._fill(build_folders(notes))

        def is_reversed(text: str) -> bool:
            segments = [segment for strip in screen.read_strips() for segment in strip]
            return any(
                segment.style.reverse
                for segment in segments
                if segment.style and text in segment.text
            )

        await screen.wait(lambda: is_reversed("a.md") and is_reversed("Notes"), "not reversed")
        for strip in screen.read_strips():
            for segment in strip:
                style = segment.style
                colours = [style.color, style.bgcolor] if style else []
                assert all(colour is None or colour.is_default for colour in colours)

    show({**env, "NO_COLOR": "1"}, "", scenario)
