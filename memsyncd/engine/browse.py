"""What stands in a section or a note, which are there, and what is odd about them?

Places come from the index, text from the disk as it is now; `read_place` says when the two have
parted, so that the caller syncs that note and asks again. Nothing here writes.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.model import Problem, Span
from memsyncd.core.notepath import NotePath, parse_note_path
from memsyncd.engine.findings import NOTICE_REMEDIES
from memsyncd.engine.masking import mask_notes
from memsyncd.engine.policies import SearchPolicy
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.files.read import ReadFile, read_note_file
from memsyncd.store.lookup import (
    StoredNote,
    StoredSection,
    read_anchors,
    read_digest,
    read_notes,
    read_problems,
    read_section,
    read_sections_of,
)

READ_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A part of a note, by anchor or by path and lines; an end beyond the note's end is cut."""

    anchor: str | None = None
    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRead:
    """What stands there. `is_current` is False if the note has changed since it was indexed, which
    moves anchors.
    """

    path: str
    span: Span
    text: str
    digest: str
    n_lines: int
    section: StoredSection | None
    is_current: bool


def read_place(workspace: Workspace, place: Place, *, now_ns: int) -> PlaceRead:
    """Read a section or lines. Raises BadRequest, PathRefused, NoteNotFound, and as
    `Workspace.lend`.
    """
    if (place.anchor is None) == (place.path is None):
        raise BadRequest(
            "name either an anchor or a path", hint='for example {"anchor": "MEMORY.md#setup"}'
        )
    if (
        place.start_line is not None
        and place.end_line is not None
        and place.end_line < place.start_line
    ):
        raise BadRequest(
            f"lines {place.start_line} to {place.end_line} end before they begin",
            hint="swap the two",
        )
    with workspace.acquire(READ_LIMIT_S) as reader:
        section = None
        if place.anchor is not None:
            found = read_section(reader, place.anchor)
            if found is None:
                near = _find_near(
                    place.anchor, read_anchors(reader, place.anchor.rpartition("#")[0])
                )
                raise NoteNotFound(f"no section {place.anchor}", hint=near)
            path, section = parse_note_path(found[0]), found[1]
        else:
            path = parse_note_path(place.path or "")
        digest = read_digest(reader, path.text)
        if section is None and place.start_line is not None:
            section = _find_section(read_sections_of(reader, path.text), place.start_line)
    if digest is None and not workspace.scope.is_note(path.text):
        raise NoteNotFound(
            f"{path.text} is not a note of this workspace",
            hint="list them with: memsyncd list --notes",
        )
    return _read_lines(workspace, path, place, section, digest, now_ns)


def list_notes(
    workspace: Workspace,
    policy: SearchPolicy,
    *,
    path: str | None,
    kind: str | None,
    tag: str | None,
) -> list[StoredNote]:
    with workspace.acquire(READ_LIMIT_S) as reader:
        return mask_notes(reader, read_notes(reader, path=path, kind=kind, tag=tag), policy)


def find_problems(workspace: Workspace) -> list[Problem]:
    """What scans and reading found odd, and what is wrong with the workspace itself (an empty
    path).
    """
    condition = workspace.condition
    faults = [
        Problem(
            path="",
            line=0,
            code=word,
            problem=text,
            hint=NOTICE_REMEDIES.get(word, "see: memsyncd status"),
        )
        for word, text in (*sorted(condition.faults.items()), *sorted(condition.notices.items()))
    ]
    noted: list[Problem] = []
    if workspace.readers is not None:
        with workspace.acquire(READ_LIMIT_S) as reader:
            noted = read_problems(reader)
    rest = sorted(
        (*condition.scan_problems, *noted),
        key=lambda problem: (problem.path, problem.line, problem.code),
    )
    return [*faults, *rest]


def _read_lines(
    workspace: Workspace,
    path: NotePath,
    place: Place,
    section: StoredSection | None,
    digest: str | None,
    now_ns: int,
) -> PlaceRead:
    outcome = read_note_file(workspace.scope, path, now_ns=now_ns)
    if not isinstance(outcome, ReadFile):
        problem = outcome.problem
        raise NoteNotFound(
            f"{path.text} cannot be read: {problem.problem}"
            if problem
            else f"{path.text} is not there",
            hint=problem.hint if problem else "list notes with: memsyncd list --notes",
        )
    lines = decode_note(path.text, outcome.data).lines
    n_lines = max(1, len(lines))
    if place.path is not None and (place.start_line or 1) > n_lines:
        raise BadRequest(f"{path.text} has {n_lines} lines", hint=f"ask for lines 1 to {n_lines}")
    by_anchor = (
        section.span if section is not None and place.anchor is not None else Span(1, n_lines)
    )
    start = min(place.start_line or by_anchor.start, n_lines)
    end = max(start, min(place.end_line or by_anchor.end, n_lines))
    return PlaceRead(
        path=path.text,
        span=Span(start, end),
        text="\n".join(lines[start - 1 : end]),
        digest=outcome.record.digest,
        n_lines=n_lines,
        section=section,
        is_current=outcome.record.digest == digest,
    )


def _find_section(sections: list[StoredSection], line: int) -> StoredSection | None:
    return next(
        (section for section in sections if section.span.start <= line <= section.span.end), None
    )


def _find_near(anchor: str, anchors: list[str]) -> str:
    near = difflib.get_close_matches(anchor, anchors, n=1, cutoff=0.4)
    return f"did you mean {near[0]} ?" if near else "list sections with: memsyncd list --notes"
