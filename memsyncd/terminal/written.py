"""Report what a write found that says nearly the same."""

from __future__ import annotations

from memsyncd.terminal.format import render_span
from memsyncd.terminal.terminal import clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memsyncd.terminal.console import Console


def report_similar(answer: dict[str, Any], console: Console) -> None:
    """Report what says nearly the same as what was written, or was to be written."""
    for one in clean_values(answer)["similar"]:
        place = render_span(one["path"], one["start_line"], one["end_line"])
        heading = " › ".join(one["heading"])
        was = "appended to" if _is_target(one, answer) else "nearly the same"
        console.terminal.report(f"{was}: {place}  {heading}  {one['similarity']:.2f}")
    if not answer["similar"] or answer["action"] in ("appended", "unchanged"):
        return
    undo = f"memsyncd undo --change-set {answer['change_set']}, then " * bool(answer["change_set"])
    console.terminal.report(f"to append there instead: {undo}--on-similar append")


def _is_target(one: dict[str, Any], answer: dict[str, Any]) -> bool:
    place = answer.get("anchor", answer["path"])
    return answer["action"] == "appended" and place in (one["anchor"], one["path"])
