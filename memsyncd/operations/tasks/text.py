"""Render a session as text for a model."""

from __future__ import annotations

from memsyncd.operations.search.text import FindWarning
from memsyncd.operations.tasks import declare as tasks


def render_memories(block: tasks.MemoryBlock, _find_warning: FindWarning) -> str:
    """Return the block of a task or session. It has its warning already, if it needs one."""
    return block.text or "There is nothing to resume yet; keep progress with checkpoint."


def render_started(started: tasks.SessionStarted, _find_warning: FindWarning) -> str:
    """Return the place of the section that records the beginning, and the session's block."""
    place = f"{started.added.path}:{started.added.start_line}-{started.added.end_line}"
    return "\n\n".join(filter(None, (f"The session is recorded at {place}", started.text)))
