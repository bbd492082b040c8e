"""Render recalled memories as text for a model."""

from __future__ import annotations

from memsyncd.headings import name_section
from memsyncd.operations.recall import declare as recall
from memsyncd.operations.search.text import (
    FindWarning,
    render_query,
    render_state,
    render_workspaces,
)
from memsyncd.operations.sections import describe_conflict, describe_contradictions


def render_recalled(recalled: recall.Recalled, _find_warning: FindWarning) -> str:
    """Return the memories with their citations and dates; a text that tries to instruct its reader
    has its mark.
    """
    notes = [*render_state(recalled.freshness), *render_workspaces(recalled.workspaces)]
    notes += render_query(recalled)
    if not recalled.memories:
        return "\n".join([*notes, "Memory holds nothing on this."])
    names = {workspace.id: workspace.name for workspace in recalled.workspaces}
    parts = ["\n".join([*notes, f"Found by {recalled.stage}; true when it was written:"])]
    for memory in recalled.memories:
        where = f"[{names[memory.workspace]}] " if len(names) > 1 else ""
        led = f"{memory.relation} of {memory.related_to}" if memory.relation else ""
        conflict = describe_conflict(memory.meta)
        facts = (memory.kind, memory.updated or memory.created, memory.status, led, conflict)
        described = ", ".join(filter(None, facts))
        name = name_section(memory.title, memory.heading)
        label = f"{where}{memory.path}:{memory.start_line}-{memory.end_line}  {name}"
        disputed = describe_contradictions(
            memory.contradicts,
            memory.contradicted_by,
            memory.supersedes,
            memory.superseded_by,
            memory.since,
        )
        lines = (f"{label} ({described})" if described else label, memory.mark, disputed)
        parts.append("\n".join([*filter(None, lines), memory.text.rstrip("\n")]))
    if recalled.left_out:
        parts.append(f"No room for {recalled.left_out} more; name a kind or other keywords.")
    return "\n\n".join(parts)
