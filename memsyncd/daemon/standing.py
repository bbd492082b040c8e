"""How does the daemon stand, in one line for people? What it looks after, what is still being indexed, what is amiss."""

from __future__ import annotations

from collections.abc import Collection

from memsyncd.engine.workspace import Workspace

MAX_NAMES = 3


class Standing:
    """Renders the line. It remembers how much there was to index, since a workspace knows only how much is left."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}

    def render(self, workspaces: Collection[Workspace], stalled: Collection[str], socket_problem: str = "") -> str:
        """`stalled` are the parts of the daemon that make no progress.

        `socket_problem` is why no new client can connect, empty if one can.
        """
        n_notes = sum(workspace.condition.counts.files for workspace in workspaces)
        parts = [f"{_count(len(workspaces), 'workspace')}, {_count(n_notes, 'note')}"]
        busy = [workspace for workspace in workspaces if workspace.condition.state == "indexing"]
        if busy:
            parts.append(self._render_indexing(busy))
        else:
            self._totals.clear()
        for state in ("degraded", "missing", "stalled"):
            names = sorted(workspace.entry.name for workspace in workspaces if workspace.condition.state == state)
            if names:
                parts.append(f"{state}: {_name_some(names)}")
        if stalled:
            parts.append(f"no progress: {', '.join(stalled)}")
        if socket_problem:
            parts.append(f"no new client can connect: {socket_problem}")
        return "; ".join(parts)

    def _render_indexing(self, busy: Collection[Workspace]) -> str:
        for workspace in busy:
            self._totals[workspace.id] = max(self._totals.get(workspace.id, 0), workspace.condition.pending)
        total = sum(self._totals[workspace.id] for workspace in busy)
        done = total - sum(workspace.condition.pending for workspace in busy)
        return f"indexing {done:,}/{total:,}" if total else "indexing"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _name_some(names: list[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
