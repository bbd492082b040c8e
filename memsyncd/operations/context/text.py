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

TRUTH = "Memories were true when they were written: check what they name before you act on it."


def render_context(
    answer: ContextResult, _find_warning: FindWarning | None = None, *, is_truth_told: bool = False
) -> str:
    """Return a block of memory, already marked, with the citations of its parts. `is_truth_told` is
    true if the model has been told what memories are.
    """
    lines = [*render_state(answer.freshness), *render_workspaces(answer.workspaces)]
    lines += render_semantic(answer)
    lines += render_query(answer)
    if not answer.text:
        why = f": {answer.why_empty}" if answer.why_empty else "."
        return "\n".join([*lines, f"Memory holds nothing on this{why}"])
    lines += [] if is_truth_told else [TRUTH, ""]
    lines.append(answer.text.rstrip("\n"))
    omitted = [cite(part) for part in answer.left_out if part.reason == "no room"][:5]
    if omitted:
        lines += ["", f"No room for: {', '.join(omitted)}"]
    return "\n".join(lines)
