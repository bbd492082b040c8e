"""Render a context as text for a model."""

from __future__ import annotations

from memsyncd.operations.context.declare import ContextResult
from memsyncd.operations.search.text import (
    FindWarning,
    cite,
    render_query,
    render_semantic,
    render_state,
    render_workspaces,
)


def render_context(answer: ContextResult, _find_warning: FindWarning | None = None) -> str:
    """Return a block of memory, already marked, with the citations of its parts."""
    lines = [*render_state(answer.freshness), *render_workspaces(answer.workspaces)]
    lines += render_semantic(answer)
    lines += render_query(answer)
    if not answer.text:
        why = f": {answer.why_empty}" if answer.why_empty else "."
        return "\n".join([*lines, f"Memory holds nothing on this{why}"])
    lines.append(answer.text.rstrip("\n"))
    omitted = [cite(part) for part in answer.left_out if part.reason == "no room"][:5]
    if omitted:
        lines += ["", f"No room for: {', '.join(omitted)}"]
    return "\n".join(lines)
