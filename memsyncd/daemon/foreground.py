"""What does a person see who runs the daemon on a terminal? Where it listens, how far a first index is, when it is ready.

A stream that draws one progress line below what is written to it; logs go through it too, so that neither tears the other.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable
from functools import partial
from typing import TextIO

from memsyncd import __version__
from memsyncd.engine.worker import call_within
from memsyncd.engine.workspace import Workspace
from memsyncd.files.scope import has_memory
from memsyncd.logs import escape

DRAW_S = 0.1
DISK_S = 0.5
"""How long a folder is waited for, since a disk may not answer."""
BAR_CELLS = 24
CLEAR = "\r\x1b[2K"


class Screen:
    """Writes to a terminal above a progress line. What cannot be written is lost, never raised."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = ""

    def write(self, text: str) -> int:
        self._put(f"{CLEAR}{text}{self._line}" if self._line else text)
        return len(text)

    def flush(self) -> None:
        """Every write is flushed already."""

    def show(self, line: str) -> None:
        """Draw this line over the last; an empty one clears it."""
        if line != self._line:
            self._line = line
            self._put(f"{CLEAR}{line}")

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._line = ""


class Foreground:
    """Tells a person how the daemon gets on until it is ready. Without a screen it tells nothing."""

    def __init__(self, screen: Screen | None, *, has_colour: bool) -> None:
        self._screen = screen
        self._has_colour = has_colour
        self._totals: dict[str, int] = {}

    def greet(self, socket_path: str, workspaces: Iterable[Workspace]) -> None:
        chosen = list(workspaces)
        self._say(f"{self._paint('1', f'memsyncd {__version__}')}  listens on {_home_short(socket_path)}")
        for workspace in chosen:
            self._say(f"  {self._paint('1', escape(workspace.entry.name))}  {_home_short(workspace.entry.root)}")
            if call_within(DISK_S, partial(_is_without_memory, workspace.entry.root), default=False):
                self._say("    has no memory yet: neither MEMORY.md nor .memories/. Waiting for one to appear;")
                self._say(f"    to begin with one now: memsyncd init {_home_short(workspace.entry.root)}  (or run with --init)")
        if not chosen:
            self._say("  no workspace yet. Add one from another terminal: memsyncd add PATH")

    async def follow(self, workspaces: dict[str, Workspace]) -> None:
        """Draw progress until nothing is being indexed, then say what there is."""
        if self._screen is None:
            return
        began_s = asyncio.get_running_loop().time()
        while busy := [one for one in workspaces.values() if one.condition.state == "indexing"]:
            self._screen.show(self._render_progress(busy))
            await asyncio.sleep(DRAW_S)
        self._screen.show("")
        if workspaces:
            self._say_ready(list(workspaces.values()), asyncio.get_running_loop().time() - began_s)

    def _say_ready(self, workspaces: list[Workspace], seconds: float) -> None:
        n_notes = sum(workspace.condition.counts.files for workspace in workspaces)
        n_chunks = sum(workspace.condition.counts.chunks for workspace in workspaces)
        self._say(f"{self._paint('32', 'ready')}  {n_notes:,} notes, {n_chunks:,} chunks  ({seconds:.1f} s)")
        n_problems = sum(len(workspace.condition.scan_problems) + workspace.condition.counts.problems for workspace in workspaces)
        if n_problems:
            self._say(f"  {n_problems:,} problems, listed by: memsyncd problems")
        self._say('  from another terminal: memsyncd search "…"    Ctrl-C ends')

    def _render_progress(self, busy: list[Workspace]) -> str:
        for workspace in busy:
            self._totals[workspace.id] = max(self._totals.get(workspace.id, 0), workspace.condition.pending)
        total = sum(self._totals[workspace.id] for workspace in busy)
        done = total - sum(workspace.condition.pending for workspace in busy)
        names = escape(", ".join(workspace.entry.name for workspace in busy))[: max(10, shutil.get_terminal_size().columns - 60)]
        n_full = BAR_CELLS * done // total if total else 0
        bar = self._paint("36", "━" * n_full) + self._paint("2", "─" * (BAR_CELLS - n_full))
        return f"indexing {self._paint('1', names)}  {bar}  {done:,}/{total:,} notes"

    def _say(self, line: str) -> None:
        if self._screen is not None:
            self._screen.write(f"{line}\n")

    def _paint(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._has_colour else text


def _is_without_memory(root: str) -> bool:
    return os.path.isdir(root) and not has_memory(root)


def _home_short(path: str) -> str:
    home = os.path.expanduser("~")
    return escape(f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path)
