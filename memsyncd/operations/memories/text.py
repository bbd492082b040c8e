"""The tool of MCP that changes memories, and the texts of its answers for a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memsyncd.operations.memories import declare as memories
from memsyncd.operations.operation import spread_values
from memsyncd.operations.search.text import FindWarning

_LISTS = frozenset(
    ("tags", "add_tags", "remove_tags", "keywords", "add_keywords", "remove_keywords", "clear")
)
_FIELDS = (
    {*memories.SetParams.__struct_fields__}
    - {*memories.SelectParams.__struct_fields__}
    - {"metadata", "relate", "unrelate", "if_digest"}
)


def spread_update(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters with values of known fields as fields; other keys stay metadata."""
    return spread_values(params, _FIELDS, _LISTS)


def render_set(result: memories.MemoriesSet, _find_warning: FindWarning | None = None) -> str:
    lines = [f"Changed {_cite(result.changed)}"] if result.changed else []
    lines += [f"Says it already: {_cite(result.unchanged)}"] if result.unchanged else []
    lines += [f"Not changed: {_cite([item])}: {item.reason}" for item in result.skipped]
    return "\n".join(lines) or "Nothing was changed."


def render_forgotten(
    result: memories.MemoriesForgotten, _find_warning: FindWarning | None = None
) -> str:
    lines = [f"Forgotten: {_cite(result.forgotten)}"] if result.forgotten else []
    lines += [f"The file {path} is removed" for path in result.removed if result.is_applied]
    lines += [
        f"A link to {link.to} {'is plain text now' if link.is_removed else 'stays'} in {link.path},"
        f" line {', '.join(map(str, link.lines))}"
        for link in result.links
    ]
    return "\n".join(lines) or "Nothing was forgotten."


def render_replaced(
    result: memories.MemoryReplaced, _find_warning: FindWarning | None = None
) -> str:
    place = f"{result.path}:{result.start_line}-{result.end_line}"
    return f"Written at {place}. It supersedes {result.replaced}, which is archived."


def _cite(items: Iterable[memories.MemoryItem]) -> str:
    return ", ".join(f"{item.path}:{item.start_line}-{item.end_line}" for item in items)
