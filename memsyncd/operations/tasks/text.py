"""The text of a session for a model."""

from __future__ import annotations

from memsyncd.operations.search.text import FindWarning
from memsyncd.operations.tasks import declare as tasks


def render_session(block: tasks.SessionBlock, _find_warning: FindWarning) -> str:
    """Return what restores an agent, which is marked already."""
    return block.text or "There is nothing to resume yet; keep progress with checkpoint."
