"""Render a resumed session as text for a model."""

from __future__ import annotations

from memsyncd.operations.search.text import FindWarning
from memsyncd.operations.tasks import declare as tasks


def render_session(block: tasks.SessionBlock, _find_warning: FindWarning) -> str:
    """Return the block that restores an agent. It has its warning already, if it needs one."""
    return block.text or "There is nothing to resume yet; keep progress with checkpoint."
