"""How far is the index? One line on a terminal, drawn over until the work is done; nothing anywhere else."""

from __future__ import annotations

import time

from memsyncd.cli.figures import render_bar, shorten
from memsyncd.cli.terminal import clean_line
from memsyncd.client import NoAnswer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memsyncd.cli.console import Console
    from memsyncd.client import Client

POLL_S = 0.2
"""Time between two looks; the daemon answers `status` whatever else it does."""


class Progress:
    """The most that was seen pending is the whole; what is pending no longer is done."""

    __slots__ = ("_console", "_totals")

    def __init__(self, console: Console) -> None:
        self._console = console
        self._totals: dict[str, int] = {}

    def look(self, client: Client) -> bool:
        """Draw how far the workspaces are. Returns whether one still has its first index or a new one made."""
        busy = [info for info in client.call("status")["workspaces"] if info["state"] == "indexing" or info["pending"]]
        if busy:
            self._console.terminal.show(self.render(busy))
        else:
            self._console.terminal.clear()
        return any(info["state"] == "indexing" for info in busy)

    def render(self, busy: list[dict[str, Any]]) -> str:
        """The line for these workspaces."""
        for info in busy:
            self._totals[info["id"]] = max(self._totals.get(info["id"], 0), info["pending"])
        total = sum(self._totals.values())
        done = total - sum(info["pending"] for info in busy)
        names = shorten(clean_line(", ".join(info["name"] for info in busy)), max(self._console.terminal.width - 56, 8))
        paint = self._console.terminal.err_paint
        figures = f"{done:,}/{total:,} notes" if total else "reading"
        return f"indexing {paint('bold', names)}  {paint('cyan', render_bar(done, total) if total else '')}  {figures}"


def show_until_indexed(console: Console) -> None:
    """On a terminal, draw the progress of what is being indexed until nothing is; Ctrl-C ends the drawing, not the work."""
    if not console.terminal.can_draw:
        return
    progress = Progress(console)
    try:
        while progress.look(console.client):
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        console.terminal.say("indexing goes on in the background; see `memsyncd status`")
    console.terminal.clear()


def wait_with_progress(console: Console, request_id: int, *, timeout_s: float | None) -> dict[str, Any]:
    """The answer to a request that may take long; on a terminal its progress is drawn, seen over a second connection."""
    client = console.client
    if not console.terminal.can_draw:
        return client.wait(request_id, timeout_s=timeout_s)
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    progress = Progress(console)
    with console.connect() as onlooker:
        while True:
            try:
                answer = client.wait(request_id, timeout_s=POLL_S)
            except NoAnswer:
                if deadline_s is not None and time.monotonic() > deadline_s:
                    raise
                progress.look(onlooker)
            else:
                console.terminal.clear()
                return answer
