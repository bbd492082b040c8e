"""Describe what an answer to an agent holds: the sections that it was given, the sections that it
has written, and the sections that were left out.

`Operation.content` names the function for the results of an operation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.core.model import count_tokens
from memsyncd.core.paths import show_path
from memsyncd.headings import join_headings
from memsyncd.operations.agents.declare import (
    NO_ROOM,
    REPEATED,
    UNANSWERED,
    UNRANKED,
    AgentAnswer,
    AnswerSection,
)
from memsyncd.operations.context.declare import ContextParams, ContextResult, LeftOutPart
from memsyncd.operations.fields import AddedSection, SectionPlace, WrittenSection
from memsyncd.operations.memories.declare import MemoriesForgotten, MemoriesSet
from memsyncd.operations.notes.declare import GetParams, Got, MemoryParams, MemoryResult
from memsyncd.operations.recall.declare import Recalled, RecallParams
from memsyncd.operations.search.declare import Hit, RelatedSection, SearchParams, SearchResult
from memsyncd.operations.tasks.declare import MemoryBlock, SessionStarted


class AnswerContent(NamedTuple):
    """The sections of an answer, and how many others were left out, by reason."""

    sections: Sequence[AnswerSection] = ()
    more_left_out: Mapping[str, int] = {}

    def count_left_out(self) -> dict[str, int]:
        """Count all sections that were left out, by reason."""
        reasons = (section.reason for section in self.sections if section.act == "left out")
        counts = Counter(reasons) + Counter(self.more_left_out)
        return dict(counts.most_common())


class AnswerSource(NamedTuple):
    """The agent that gets an answer: its client, its own name, and its session."""

    client: str
    agent: str
    session: str


def make_answer(
    source: AnswerSource,
    call: str,
    text: str,
    content: AnswerContent,
    change_set: int | None = None,
    **more: Any,
) -> AgentAnswer:
    """Describe an answer with this text. `more` has further fields; the time follows later."""
    answer = AgentAnswer(
        id=1,
        at=0.0,
        call=call,
        tokens=count_tokens(text),
        summary="",
        sections=[*content.sections],
        left_out=content.count_left_out(),
        change_set=change_set,
        **source._asdict(),
        **more,
    )
    return replace(answer, summary=answer.sum_up())


def describe_lines(
    place: Any,
    act: Literal["given", "written", "left out"],
    *,
    tokens: int | None = None,
    reason: str = "",
) -> AnswerSection:
    """Describe a section by the struct that has its place."""
    return AnswerSection(
        act=act,
        anchor=place.anchor or place.path,
        path=place.path,
        heading=join_headings(getattr(place, "heading", None) or ()),
        start_line=place.start_line,
        end_line=place.end_line,
        workspace=getattr(place, "workspace", None),
        tokens=tokens,
        reason=reason,
    )


def describe_anchor(
    anchor: str, act: Literal["given", "left out"], *, reason: str = ""
) -> AnswerSection:
    """Describe a section of which only the anchor is known."""
    return AnswerSection(
        act=act, anchor=anchor, path=anchor.rpartition("#")[0] or anchor, reason=reason
    )


def list_written(_params: Any, result: Any) -> AnswerContent:
    """List the section that a write has written, if it has written one."""
    if getattr(result, "change_set", None) is None or not isinstance(result, WrittenSection):
        return AnswerContent()
    return AnswerContent([describe_lines(result, "written")])


def list_changed(places: Iterable[AddedSection | SectionPlace]) -> AnswerContent:
    """List several sections that a write has changed."""
    return AnswerContent([describe_lines(place, "written") for place in places])


def count_unanswered(workspaces: Iterable[Any]) -> dict[str, int]:
    """Count the workspaces that an answer leaves out, because they failed."""
    n = sum(bool(workspace.failure) for workspace in workspaces)
    return {UNANSWERED: n} if n else {}


# --- the results of operations --------------------------------------------------------------------


def list_hits(_params: SearchParams, answer: SearchResult) -> AnswerContent:
    """List the hits, and the sections to which relations led, with the tokens of their snippets."""
    return AnswerContent(
        [
            describe_lines(section, "given", tokens=count_tokens(section.snippet))
            for section in _list_snippets(answer.hits)
        ],
        count_unanswered(answer.workspaces),
    )


def _list_snippets(hits: Sequence[Hit]) -> Iterator[Hit | RelatedSection]:
    for hit in hits:
        yield hit
        yield from hit.related


def list_lines(_params: GetParams, got: Got) -> AnswerContent:
    """List the lines of a note that were read."""
    return AnswerContent([describe_lines(got, "given", tokens=count_tokens(got.text))])


_LINE_NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)


def list_note(params: MemoryParams, result: MemoryResult) -> AnswerContent:
    """List the note that was viewed or written, by the path that the request names."""
    path = params.new_path or params.path
    is_view = params.command == "view"
    if path is None or (result.digest if is_view else result.change_set) is None:
        return AnswerContent()
    tokens = count_tokens(_LINE_NUMBER.sub("", result.text)) if is_view else None
    act: Literal["given", "written"] = "given" if is_view else "written"
    return AnswerContent([AnswerSection(act=act, anchor=path, path=path, tokens=tokens)])


def list_recalled(_params: RecallParams, recalled: Recalled) -> AnswerContent:
    """List the memories, with their tokens."""
    no_room = {NO_ROOM: recalled.left_out} if recalled.left_out else {}
    return AnswerContent(
        [describe_lines(memory, "given", tokens=memory.tokens) for memory in recalled.memories],
        {**no_room, **count_unanswered(recalled.workspaces)},
    )


def list_block(_params: Any, block: MemoryBlock) -> AnswerContent:
    """List the sections of a block. A section without room may also repeat another's text."""
    sections = [
        *(describe_anchor(anchor, "given") for anchor in block.included),
        *(describe_anchor(anchor, "left out", reason=NO_ROOM) for anchor in block.left_out),
    ]
    n_more = block.n_left_out - len(block.left_out)
    return AnswerContent(sections, {NO_ROOM: n_more} if n_more > 0 else {})


def list_started(_params: Any, started: SessionStarted) -> AnswerContent:
    """List the section that records the beginning of a session."""
    return list_changed([started.added])


def list_set(_params: Any, result: MemoriesSet) -> AnswerContent:
    return list_changed(result.changed if result.is_applied else ())


def list_forgotten(_params: Any, result: MemoriesForgotten) -> AnswerContent:
    return list_changed(result.forgotten if result.is_applied else ())


# --- the parts of a context -----------------------------------------------------------------------


class ShownPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a context's text: its label, and the lines below it."""

    text: str
    rank: int
    """Its position in `included`, which has the best first."""
    lines: frozenset[int]
    """A hash of each line with its section; of a heading alone, a hash of its label."""


_LABEL = re.compile(r"###(?P<name> .*?)? (?P<path>\S.*):(?P<start>\d+)(?:-(?P<end>\d+))?(?:, .*)?")


def split_block(block: ContextResult) -> tuple[str, list[ShownPart]]:
    """Return the text above the first part, and the parts in the order of the text.

    A part begins at its label, a heading that ends with path and lines of an included section.
    """
    head: list[str] = []
    pieces: list[tuple[int, list[str]]] = []
    for line in block.text.rstrip("\n").split("\n"):
        rank = _find_rank(line, block)
        if rank is not None:
            pieces.append((rank, [line]))
        else:
            (pieces[-1][1] if pieces else head).append(line)
    parts = [_make_part(block.included[rank].anchor, rank, lines) for rank, lines in pieces]
    return "\n".join(head).strip("\n"), parts


def _find_rank(line: str, block: ContextResult) -> int | None:
    """Return the position of the included section whose label the line is; None if it is none."""
    match = _LABEL.fullmatch(line) if line.startswith("### ") else None
    if match is None:
        return None
    start, end = int(match["start"]), int(match["end"] or match["start"])
    place = line[: match.start("start") - 1]
    for rank, section in enumerate(block.included):
        if section.start_line <= end and start <= section.end_line:
            path = show_path(section.path)
            # In a linked worktree, the path begins with the folder of the shared notes.
            if place.endswith((f" {path}", f"/{path}")):
                return rank
    return None


def _make_part(anchor: str, rank: int, lines: Sequence[str]) -> ShownPart:
    # A label names the lines, which change with each edit above them, and the way to the section.
    texts = [line.strip() for line in lines[1:] if line.strip()] or [lines[0].rpartition(":")[0]]
    return ShownPart(
        text="\n".join(lines).strip("\n"),
        rank=rank,
        lines=frozenset(hash((anchor, text)) for text in texts),
    )


def list_context(_params: ContextParams, answer: ContextResult) -> AnswerContent:
    """List the sections of a block with their tokens, and the others with the reason."""
    _, parts = split_block(answer)
    return AnswerContent(
        [*map(partial(describe_part, answer), parts), *map(describe_left_out, answer.left_out)],
        {**count_more_left_out(answer), **count_unanswered(answer.workspaces)},
    )


def describe_part(answer: ContextResult, part: ShownPart) -> AnswerSection:
    """Describe a part of a block that an agent was given."""
    section = answer.included[part.rank]
    return describe_lines(section, "given", tokens=count_tokens(part.text))


def describe_left_out(part: LeftOutPart) -> AnswerSection:
    reason = part.reason if part.reason == NO_ROOM else REPEATED
    return describe_lines(part, "left out", reason=reason)


def count_more_left_out(answer: ContextResult) -> dict[str, int]:
    """Count the sections that a block leaves out without naming them, by reason."""
    counts = {NO_ROOM: answer.n_left_out - len(answer.left_out), UNRANKED: answer.unranked}
    return {reason: n for reason, n in counts.items() if n > 0}
