"""Say what the hits of an answer do not show: how the question was read, and what is left out."""

from __future__ import annotations

from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memsyncd.terminal.console import Console


def report_left_out(answer: dict[str, Any], console: Console) -> None:
    """Name the workspaces that the answer lacks."""
    for one in clean_values(answer["workspaces"]):
        if one["failure"]:
            text = f"without {one['name']}: {one['failure']}"
            console.terminal.warn(text)


def describe_relaxed(hits: list[dict[str, Any]]) -> str:
    """Say what hits contain, none of which contains every word itself."""
    if any(hit["matched"] for hit in hits):
        return "no passage contains every word; these contain some"
    if not any(hit.get("matched_related") for hit in hits):
        return "no passage contains any of these words; these are near in meaning"
    return "no passage contains any of these words; these contain related ones"


def report_query(answer: dict[str, Any], console: Console) -> None:
    """Report what of the query did not count as it was typed, and what it excluded."""
    # A daemon that was started before an update sends none.
    for problem in answer.get("query_problems", ()):
        console.terminal.warn(clean_line(problem))
    console.terminal.note(describe_excluded(answer))


def describe_excluded(answer: Mapping[str, Any]) -> str:
    """Say what the query excluded; empty if nothing."""
    excluded = clean_line(" ".join(answer.get("excluded", ())))
    return f"excluded: {excluded} (in quotes it would be searched for)" if excluded else ""


def describe_semantic(answer: Mapping[str, Any]) -> str:
    """Say why not all was searched by meaning although that is switched on; empty if all was."""
    reason = clean_line(answer.get("semantic_reason") or "")
    how = "by words alone" if answer["semantic"] == "off" else "not all by meaning"
    return f"{how}: {reason}" if reason else ""
