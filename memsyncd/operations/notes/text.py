"""The texts of written and edited notes for a model."""

from __future__ import annotations

import re
from typing import Any

from memsyncd.operations.notes import declare as memory
from memsyncd.operations.operation import spread_values
from memsyncd.operations.search.text import TEXT_LIMIT_CHARS, FindWarning, cut_lines, describe_cut
from memsyncd.operations.sections import mark_warning

_FIELDS = {*memory.NewSection.__struct_fields__} - {"content", "metadata", "wu_id"}
_LISTS = frozenset(("tags", "keywords", "relations"))


def spread_fields(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters with values of known fields as fields; other keys stay metadata."""
    return spread_values(params, _FIELDS, _LISTS)


def render_added(added: memory.Added, _find_warning: FindWarning | None = None) -> str:
    place = f"{added.path}:{added.start_line}-{added.end_line}"
    late = "" if added.is_indexed else "; it is not searchable yet"
    similar = ", ".join(
        f"{section.path}:{section.start_line}-{section.end_line}"
        for section in added.similar
        if section.path
    )
    if added.action == "reported":
        return (
            f"Nothing was written: {similar} says nearly this. Call again with on_similar append."
        )
    if added.action == "appended":
        return f"Appended at {place}, which said nearly this{late}"
    also = f". Nearly the same: {similar}; correct what is outdated there" if similar else ""
    kind = added.similar_kind and f". This kind is not known; a similar one is {added.similar_kind}"
    return f"Remembered at {place}{late}{also}{kind or ''}"


def render_memory(result: memory.MemoryResult, find_warning: FindWarning) -> str:
    """Return the answer of the memory tool, marked if it shows text that instructs its reader."""
    text = _cut_view(result.text)
    warning = find_warning(_LINE_NUMBER.sub("", text))
    text = f"{mark_warning(warning, 'the text below')}\n{text}" if warning else text
    if not result.is_searched:
        return f"{text}\n(Kept, but not searched: only names in .md, .markdown and .txt are.)"
    return text if result.is_indexed else f"{text}\n(Written; not searchable yet.)"


_LINE_NUMBER = re.compile(r"^ *(\d+)\t", re.MULTILINE)


def _cut_view(text: str) -> str:
    """Return as much of the tool's text as fits, and a line that says how to see the rest."""
    if len(text) <= TEXT_LIMIT_CHARS:
        return text
    # The first line is a heading.
    excerpt, is_line_cut = cut_lines(text, text.find("\n") + 1)
    numbers = _LINE_NUMBER.findall(excerpt)
    if not numbers:
        return f"{excerpt}\n\n… and more: view one of the folders, or find notes with memory_search"
    last = int(numbers[-1])
    lines = [excerpt, "", *([describe_cut(last)] if is_line_cut else [])]
    if not is_line_cut or "\n" in text[len(excerpt) :]:
        lines.append(f"… continues: view_range [{last + 1}, -1] shows the rest")
    return "\n".join(lines)
