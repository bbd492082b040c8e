"""Render searches and notes as text for a model: each passage with its citation.

Clients of MCP show a model either a text or `structuredContent`, and text that cites
`path:start-end` takes the fewest tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from memsyncd.headings import name_section
from memsyncd.operations.context.declare import ContextResult, LeftOutPart
from memsyncd.operations.fields import Freshness
from memsyncd.operations.notes.declare import Got
from memsyncd.operations.search import declare as search
from memsyncd.operations.sections import (
    describe_conflict,
    describe_contradictions,
    mark_warning,
)

if TYPE_CHECKING:
    from memsyncd.operations.recall.declare import Recalled

TEXT_LIMIT_CHARS = 40_000
"""The most text of a note in one result; a model reads the rest by its lines."""

FindWarning = Callable[[str], str]
"""Says how a text tries to instruct its reader; empty if it does not."""


def render_hits(answer: search.SearchResult, _find_warning: FindWarning | None = None) -> str:
    """Return the text of a search: a citation, a heading and a snippet for each hit."""
    lines = [*render_state(answer.freshness), *render_workspaces(answer.workspaces)]
    lines += render_semantic(answer)
    lines += render_query(answer)
    if not answer.hits:
        lines.append("Nothing found" + (f": {answer.why_empty}" if answer.why_empty else "."))
        if answer.did_you_mean:
            lines.append(f"Did you mean: {answer.did_you_mean}")
        return "\n".join(lines)
    if answer.relaxed:
        lines.append(_describe_relaxed(answer.hits))
    names = {workspace.id: workspace.name for workspace in answer.workspaces}
    for hit in answer.hits:
        where = f"[{names.get(hit.workspace, hit.workspace)}] " if len(names) > 1 else ""
        titles = [name_section(hit.title, section.heading) for section in hit.sections]
        title = "; ".join(dict.fromkeys(titles)) or name_section(hit.title, hit.heading)
        kind = _describe_meta(hit)
        lines.append(f"{where}{hit.path}:{hit.start_line}-{hit.end_line}  {title}{kind}")
        snippet = " ".join(hit.snippet.split())
        lines += [hit.mark] if hit.mark else []
        lines += [f"  {snippet}"] if snippet else []
        lines += [f"  ({'; '.join(hit.labels)})"] if hit.labels else []
        disputed = describe_contradictions(
            hit.contradicts, hit.contradicted_by, hit.supersedes, hit.superseded_by, hit.since
        )
        lines += [f"  {disputed}"] if disputed else []
        lines += [
            f"  {related.relation}: {cite(related)}  {related.snippet}" for related in hit.related
        ]
    return "\n".join(lines)


def render_query(answer: search.SearchResult | ContextResult | Recalled) -> list[str]:
    """List the parts of the query that did not count as typed, and its exclusions."""
    lines = [f"Note: {problem}." for problem in answer.query_problems]
    if answer.excluded:
        lines.append(f"Excluded: {' '.join(answer.excluded)} (in quotes it would be searched for).")
    return lines


def _describe_relaxed(hits: Sequence[search.Hit]) -> str:
    if any(hit.matched for hit in hits):
        return "No passage holds every word; these hold some:"
    if any(hit.matched_related for hit in hits):
        return "No passage holds any of these words; these hold related ones:"
    return "No passage holds any of these words; these are near in meaning:"


def render_semantic(answer: search.SearchResult | ContextResult) -> list[str]:
    """Say why not all chunks were searched by meaning although this is switched on."""
    how = "words alone" if answer.semantic == "off" else "not all by meaning"
    return [f"Searched by {how}: {answer.semantic_reason}."] if answer.semantic_reason else []


def _describe_meta(hit: search.Hit) -> str:
    """Describe the metadata of a hit that a model should know, in few tokens."""
    marks = [
        hit.kind or "",
        hit.priority if hit.priority in ("P0", "P1") else "",
        f"task {hit.task}" if hit.task else "",
        hit.status if hit.status not in (None, "active") else "",
        describe_conflict(hit.meta),
        "expired" if hit.is_expired else "",
    ]
    text = ", ".join(filter(None, marks))
    return f" ({text})" if text else ""


def render_note(got: Got, find_warning: FindWarning) -> str:
    """Return the text of lines of a note, with their citation before them."""
    text, is_line_cut = cut_lines(got.text, 0)
    end_line = got.end_line if text == got.text else got.start_line + text.count("\n")
    heading = f"{got.path}:{got.start_line}-{end_line} of {got.n_lines} lines"
    lines = [heading]
    if got.superseded_by is not None:
        lines.append(f"superseded by {got.superseded_by}")
    warning = find_warning(text)
    if warning:
        lines.append(mark_warning(warning, "the note below"))
    lines += ["", text]
    lines += ["", describe_cut(end_line)] if is_line_cut else []
    if end_line < got.end_line:
        lines += ["", f"… continues: read {got.path}:{end_line + 1}-{got.end_line}"]
    return "\n".join(lines)


def cut_lines(text: str, start: int) -> tuple[str, bool]:
    """Return the lines that fit, and True if the line that begins at `start` fits only in part."""
    if len(text) <= TEXT_LIMIT_CHARS:
        return text, False
    end = text.rfind("\n", start, TEXT_LIMIT_CHARS)
    return (text[:end], False) if end > start else (text[:TEXT_LIMIT_CHARS], True)


def describe_cut(line: int) -> str:
    return (
        f"… line {line} is longer than {TEXT_LIMIT_CHARS:,} characters; the rest of it is left out"
    )


def cite(part: LeftOutPart | search.RelatedSection) -> str:
    other = getattr(part, "workspace_name", None)
    return f"{f'{other}:' if other else ''}{part.path}:{part.start_line}-{part.end_line}"


def render_workspaces(workspaces: Sequence[search.AnsweringWorkspace]) -> list[str]:
    """Say which workspaces are left out and why, and where the paths of a linked worktree lead."""
    lines = [
        f"(Without {workspace.name}: {workspace.failure})"
        for workspace in workspaces
        if workspace.failure
    ]
    for workspace in workspaces:
        if workspace.worktree:
            what = (
                "paths"
                if len(workspaces) == 1
                else f"it shares notes of {workspace.name}, whose paths"
            )
            lines.append(
                f"(This is a linked git worktree: {what} are relative to {workspace.root})"
            )
    return lines


def render_state(freshness: Freshness) -> Sequence[str]:
    if freshness.state == "ready":
        return ()
    pending = f", {freshness.pending} changes pending" if freshness.pending else ""
    reason = f": {freshness.reason}" if freshness.reason else ""
    return (f"(The index is {freshness.state}{pending}{reason}; more may exist.)",)


_CITATION = re.compile(r"(?P<path>.+?):(?P<start>\d{1,9})(?:-(?P<end>\d{1,9}))?")


def read_citation(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of `get` whose path may be a path, a citation or an anchor."""
    place = params.get("path")
    if not isinstance(place, str):
        return params
    rest = {name: value for name, value in params.items() if name != "path"}
    match = _CITATION.fullmatch(place)
    named = match["path"] if match else place
    # A heading in an anchor contains no dot: `c#.md` is a note.
    is_anchor = "#" in named and not named.lower().endswith((".md", ".markdown", ".txt"))
    if is_anchor and "start_line" not in rest:
        return {**rest, "anchor": place}
    if match is None or "start_line" in rest:
        return params
    start = int(match["start"])
    end = rest.get("end_line", int(match["end"] or start))
    return {**rest, "path": match["path"], "start_line": start, "end_line": end}
