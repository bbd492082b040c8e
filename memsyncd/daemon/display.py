"""The output of a running daemon for people: on a terminal, and the one-line status."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TextIO

from memsyncd import __version__
from memsyncd.core.editing.kinds import KindDefaults
from memsyncd.engine.checks import name_places, render_count
from memsyncd.engine.worker import call_within
from memsyncd.engine.workspace import Workspace
from memsyncd.logs import escape

REDRAW_S = 0.1
FOLDER_TIMEOUT_S = 0.5
"""How long to wait for a folder: its disk may not answer."""
BAR_CELLS = 24
CLEAR_LINE = "\r\x1b[2K"


# --- terminal ---


class ProgressStream:
    """Writes to a terminal above one progress line; lost output raises nothing.

    Log lines go through it, too, so that they and the progress line do not overwrite each other.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = ""

    def write(self, text: str) -> int:
        self._put(f"{CLEAR_LINE}{text}{self._line}" if self._line else text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: `write` flushes."""

    def draw(self, line: str) -> None:
        """Replace the progress line; an empty text clears it."""
        if line != self._line:
            self._line = line
            self._put(f"{CLEAR_LINE}{line}")

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._line = ""


class StartupDisplay:
    """Shows on a terminal where the daemon listens and how far the first index is.

    Without a stream it shows nothing.
    """

    def __init__(self, stream: ProgressStream | None, *, has_colour: bool) -> None:
        self._stream = stream
        self._has_colour = has_colour
        self._progress = IndexingProgress()

    def show_listening(self, socket_path: str, workspaces: Iterable[Workspace]) -> None:
        """Print the socket and the workspaces, with the next step where there is no memory yet."""
        chosen = list(workspaces)
        name = self._paint("1", f"memsyncd {__version__}")
        self._print(f"{name}  listens on {_abbreviate_home(socket_path)}")
        for workspace in chosen:
            self._print_workspace(workspace)
        if not chosen:
            self._print("  no workspace yet. Add one from another terminal: memsyncd add PATH")

    def _print_workspace(self, workspace: Workspace) -> None:
        root = workspace.entry.root
        path = _abbreviate_home(root)
        self._print(f"  {self._paint('1', escape(workspace.entry.name))}  {path}")
        if call_within(FOLDER_TIMEOUT_S, partial(_lacks_memory, workspace), default=False):
            self._print(
                "    has no memory yet: neither MEMORY.md nor .memories/. It is indexed once"
            )
            self._print(f"    one exists. Create one: memsyncd init {path}  (or run with --init)")

    async def show_indexing(
        self, workspaces: dict[str, Workspace], kinds: Callable[[], Mapping[str, KindDefaults]]
    ) -> None:
        """Draw the progress until no workspace is being indexed, then print a summary.

        `kinds` returns the configured kinds, which may change meanwhile.
        """
        if self._stream is None:
            return
        began_s = asyncio.get_running_loop().time()
        while busy := find_indexing(workspaces.values()):
            self._stream.draw(self._render_progress(busy))
            await asyncio.sleep(REDRAW_S)
        self._stream.draw("")
        if workspaces:
            took_s = asyncio.get_running_loop().time() - began_s
            self._print_summary(list(workspaces.values()), kinds(), took_s)

    def _print_summary(
        self, workspaces: list[Workspace], kinds: Mapping[str, KindDefaults], took_s: float
    ) -> None:
        conditions = [workspace.condition for workspace in workspaces]
        n_notes = sum(condition.counts.files for condition in conditions)
        n_chunks = sum(condition.counts.chunks for condition in conditions)
        ready = self._paint("32", "ready")
        self._print(f"{ready}  {n_notes:,} notes, {n_chunks:,} chunks  ({took_s:.1f} s)")
        n_problems = sum(condition.count_problems(kinds) for condition in conditions)
        if n_problems:
            self._print(f"  {render_count(n_problems, 'problem')}, listed by: memsyncd problems")
        self._print('  from another terminal: memsyncd search "…"    Ctrl-C ends')

    def _render_progress(self, busy: list[Workspace]) -> str:
        done, total = self._progress.update(busy)
        width = max(10, shutil.get_terminal_size().columns - 60)
        names = escape(", ".join(workspace.entry.name for workspace in busy))[:width]
        n_full = BAR_CELLS * done // total if total else 0
        bar = self._paint("36", "━" * n_full) + self._paint("2", "─" * (BAR_CELLS - n_full))
        return f"indexing {self._paint('1', names)}  {bar}  {done:,}/{total:,} notes"

    def _print(self, line: str) -> None:
        if self._stream is not None:
            self._stream.write(f"{line}\n")

    def _paint(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._has_colour else text


def _lacks_memory(workspace: Workspace) -> bool:
    workspace.detect_memory()
    return os.path.isdir(workspace.entry.root) and not workspace.has_memory


def _abbreviate_home(path: str) -> str:
    home = os.path.expanduser("~")
    return escape(f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path)


# --- status line ---


class StatusLine:
    """Renders the state of the daemon as one line: workspaces, notes, indexing, faults."""

    def __init__(self) -> None:
        self._progress = IndexingProgress()

    def render(
        self, workspaces: Collection[Workspace], stalled: Collection[str], socket_problem: str = ""
    ) -> str:
        """Return the line. `stalled` are the parts of the daemon that make no progress.

        `socket_problem` says why no new client can connect; it is empty if one can.
        """
        n_notes = sum(workspace.condition.counts.files for workspace in workspaces)
        parts = [f"{render_count(len(workspaces), 'workspace')}, {render_count(n_notes, 'note')}"]
        if busy := find_indexing(workspaces):
            done, total = self._progress.update(busy)
            parts.append(f"indexing {done:,}/{total:,}" if total else "indexing")
        else:
            self._progress.clear()
        for state in ("degraded", "missing", "stalled"):
            names = sorted(
                workspace.entry.name
                for workspace in workspaces
                if workspace.condition.state == state
            )
            if names:
                parts.append(f"{state}: {name_places(names)}")
        if stalled:
            parts.append(f"no progress: {', '.join(stalled)}")
        if socket_problem:
            parts.append(f"no new client can connect: {socket_problem}")
        return "; ".join(parts)


class IndexingProgress:
    """Computes how many notes are indexed: a workspace reports only how many are left."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}

    def update(self, busy: Collection[Workspace]) -> tuple[int, int]:
        """Return the number of indexed notes and of all notes of these workspaces."""
        for workspace in busy:
            seen = self._totals.get(workspace.id, 0)
            self._totals[workspace.id] = max(seen, workspace.condition.n_pending)
        total = sum(self._totals[workspace.id] for workspace in busy)
        return total - sum(workspace.condition.n_pending for workspace in busy), total

    def clear(self) -> None:
        self._totals.clear()


def find_indexing(workspaces: Iterable[Workspace]) -> list[Workspace]:
    """Return the workspaces that are being indexed."""
    return [workspace for workspace in workspaces if workspace.condition.state == "indexing"]
