"""The application on a screen of its own: tests press keys and read rows. Its daemon is real."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from tests.daemon.conftest import *  # noqa: F403  its fixtures
from tests.daemon.conftest import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.pilot import Pilot
    from textual.strip import Strip

    from memsyncd.cli.tui.app import TerminalApp


class Screen:
    """The application as a person sees it."""

    def __init__(self, app: TerminalApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    def read(self) -> str:
        """Return the rows of the screen."""
        return "\n".join(strip.text for strip in self.read_strips())

    def read_joined(self) -> str:
        """Return the words of the screen on one line."""
        return join_rows(self.read())

    def read_strips(self) -> list[Strip]:
        """Return the drawn rows with their styles."""
        return self.app.screen._compositor.render_strips()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        self.app.screen.query_one("#query").insert_text_at_cursor(text)  # type: ignore[attr-defined]
        await self.pilot.pause()

    async def wait(self, is_so: Callable[[], bool], complaint: str) -> None:
        began_s = time.monotonic()
        while not is_so():
            assert time.monotonic() - began_s < WAIT_S, f"{complaint}:\n{self.read()}"
            await self.pilot.pause(0.05)

    async def wait_shown(self, *texts: str) -> None:
        await self.wait(lambda: self._shows(texts), f"{texts} was not shown")

    def _shows(self, texts: tuple[str, ...]) -> bool:
        # One drawing serves all texts, because it takes some ten milliseconds.
        rows = self.read()
        words = join_rows(rows)
        return all(text in rows or text in words for text in texts)

    async def wait_gone(self, text: str) -> None:
        await self.wait(lambda: text not in self.read(), f"{text!r} stayed")


def join_rows(rows: str) -> str:
    return " ".join(rows.replace("│", " ").split())


Scenario = Callable[[Screen], Awaitable[Any]]


def show(
    env: Mapping[str, str], workspace: str, scenario: Scenario, size: tuple[int, int] = (80, 24)
) -> None:
    """Run the application and the scenario of a person."""
    # Late, because without Textual the test modules are skipped, but this module is loaded.
    from memsyncd.cli.tui.app import TerminalApp

    async def run() -> None:
        app = TerminalApp(env, workspace)
        async with app.run_test(size=size) as pilot:
            screen = Screen(app, pilot)
            # The query gets the focus a moment after the start; an earlier Tab would lead into it.
            await screen.wait(lambda: app.focused is not None, "nothing has the focus")
            await scenario(screen)

    asyncio.run(run())
