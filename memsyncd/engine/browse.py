"""Find places that requests name in the index, suggest similar places, and list problems."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar
from unicodedata import normalize

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.core.editing.kinds import DEFAULT_KINDS, KindDefaults
from memsyncd.core.guard.injection import PURGE
from memsyncd.core.guard.secrets import redact
from memsyncd.core.model import Problem
from memsyncd.core.paths import NOTE_SUFFIXES
from memsyncd.core.search.filters import EVERYTHING
from memsyncd.engine.checks import find_remedy
from memsyncd.engine.metadata import (
    advise_unknown_kind,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.files.scope import Scope, is_within_folder
from memsyncd.operations.status.declare import ProblemInfo
from memsyncd.store.counts import MAX_AMBIGUOUS, find_places_of_kinds
from memsyncd.store.lookup import stream_notes
from memsyncd.store.pool import Reader
from memsyncd.store.sections import (
    StoredSection,
    read_anchors,
    read_digest,
    read_problems,
    read_section,
)

READ_LIMIT_S = 2.0
LIST_NOTES = "list notes with: memsyncd list --notes"
"""The hint for a note that is not there."""
NamingParams = TypeVar("NamingParams", bound=msgspec.Struct)
LINKS_LIMIT_S = 10.0
"""For reading and resolving all links of a workspace: 0.5 s for 30,000 notes."""


def name_from_root(scope: Scope, params: NamingParams, *, may_be_folder: bool) -> NamingParams:
    """Return the parameters with paths of the memory tool as paths from the root, and without a
    path if it names the memory folder and this is the root. Raises PathRefused, and BadRequest for
    a folder unless `may_be_folder`.
    """
    changes: dict[str, Any] = {}
    if path := getattr(params, "path", None):
        changes["path"] = _name_from_root(scope, path, "", may_be_folder=may_be_folder) or None
    if anchor := getattr(params, "anchor", None):
        changes["anchor"] = _name_anchor(scope, anchor)
    if anchors := getattr(params, "anchors", None):
        changes["anchors"] = [_name_anchor(scope, each) for each in anchors]
    return replace(params, **changes)


def _name_anchor(scope: Scope, anchor: str) -> str:
    path, mark, heading = anchor.partition("#")
    return _name_from_root(scope, path, f"{mark}{heading}", may_be_folder=False)


def _name_from_root(scope: Scope, path: str, end: str, *, may_be_folder: bool) -> str:
    if not path.startswith("/"):
        return f"{path}{end}"
    from memsyncd.core.editing.memory_tool import MEMORIES, parse_memory_path

    if not is_within_folder(path, MEMORIES):
        return f"{path}{end}"
    note = parse_memory_path(path, scope.memory_dir).note
    if note is None and may_be_folder:
        return scope.memory_dir
    if note is None:
        raise BadRequest("a folder is no note", hint="name a note in it, such as /memories/a.md")
    return f"{note.text}{end}"


def find_stored_section(reader: Reader, anchor: str) -> tuple[str, StoredSection]:
    """Return a note's path and its section. Raises NoteNotFound with the nearest anchor."""
    note, mark, heading = anchor.rpartition("#")
    section = read_section(reader, f"{find_spelling(reader, note)}{mark}{heading}")
    if section is None:
        raise make_missing_error(anchor, read_anchors(reader, anchor.rpartition("#")[0]))
    return section


def require_place(workspace: Workspace, path: str, heading: str | None) -> None:
    """Raise NoteNotFound, with the most similar name, if the index has no such section, note or
    folder. While there is no index, nothing is raised.
    """
    if workspace.readers is None:
        return
    with workspace.acquire(READ_LIMIT_S) as reader:
        spelling = find_spelling(reader, path)
        # A path that does not exist is looked up in the memory folder, too.
        stored = stream_notes(reader, path=spelling, filters=EVERYTHING, has_sections=False)
        is_stored = any(is_within_folder(note.path, spelling) for note in stored)
        if is_stored and heading:
            find_stored_section(reader, f"{path}#{heading}")
    if not is_stored:
        hint = advise_missing(workspace, path)
        raise NoteNotFound(f"there is no note at {path}", hint=hint)


def has_note(workspace: Workspace, path: str) -> bool:
    """True if the index has this note, or if there is no index."""
    if workspace.readers is None:
        return True
    with workspace.acquire(READ_LIMIT_S) as reader:
        return read_digest(reader, path) is not None


def find_spelling(reader: Reader, path: str) -> str:
    """Return the path as the index has it: macOS stores accents decomposed, and people type them
    composed.
    """
    spellings = [path, *(normalize(form, path) for form in ("NFC", "NFD") if not path.isascii())]
    return next((text for text in spellings if read_digest(reader, text) is not None), path)


def advise_missing(workspace: Workspace, path: str) -> str:
    """The hint for the path of a note that does not exist."""
    return suggest_note(workspace, path) or f"{LIST_NOTES}{advise_undo(path)}"


def advise_undo(path: str) -> str:
    """The end of a hint, for a text that is the path of a note; empty for another text."""
    is_note = path.lower().endswith(NOTE_SUFFIXES)
    return "; if it was removed: memsyncd undo NOTE" if is_note else ""


def suggest_note(workspace: Workspace, path: str) -> str:
    """The hint that names the note with this or the most similar name; empty if none is similar."""
    from memsyncd.store.links import StoredLinks

    with workspace.acquire(READ_LIMIT_S) as reader:
        names = StoredLinks(reader).names
        similar = names.find("", path) or names.find_similar(path)
    return f"did you mean {redact(similar)}?" if similar and similar != path else ""


def make_missing_error(anchor: str, anchors: list[str]) -> NoteNotFound:
    """Make the error for a section or a block that a note with these anchors does not have."""
    note, _, heading = anchor.rpartition("#")
    if heading.startswith("^"):
        hint = "a block ends with a space and its id, such as ^locks"
        return NoteNotFound(f"no block {heading.rstrip(']')} in {note.lstrip('[')}", hint=hint)
    return NoteNotFound(f"no section {anchor}", hint=_suggest_anchor(anchor, anchors))


def _suggest_anchor(anchor: str, anchors: list[str]) -> str:
    """Return the hint that names the most similar of these anchors."""
    note, _, slug = anchor.rpartition("#")  # the note is the same, and must not make them similar
    slugs = [each.rpartition("#")[2] for each in anchors]
    similar = difflib.get_close_matches(slug, slugs, n=1, cutoff=0.4)
    hint = "list sections with: memsyncd list --sections"
    return f"did you mean {note}#{similar[0]}?" if similar else hint


# --- problems -----------------------------------------------------------------------------------


def find_problems(
    workspace: Workspace,
    kinds: Mapping[str, KindDefaults] = DEFAULT_KINDS,
    *,
    path: str | None = None,
) -> list[ProblemInfo]:
    """List the faults of the workspace (with an empty path), then the problems of folders and
    notes; with a path, only the problems of this note. A kind that is not in `kinds` is one
    problem, however many sections have it. A link is one if several notes have its name, for the
    first `MAX_AMBIGUOUS` of them.
    """
    condition = workspace.condition
    faults = [
        Problem("", 0, code, text, find_remedy(code, workspace.entry.name))
        for code, text in (*sorted(condition.faults.items()), *sorted(condition.notices.items()))
    ]
    problems = [*condition.scan_problems]
    if workspace.readers is not None:
        with workspace.acquire(READ_LIMIT_S) as reader:
            problems += [*read_problems(reader, path), *_find_unknown_kinds(reader, kinds)]
            problems += _find_ambiguous(reader, path)
    problems.sort(key=lambda problem: (problem.path, problem.line, problem.code))
    # The reader may be in the folder of another workspace.
    purge = f"{PURGE} -w {shlex.quote(workspace.entry.name)}"
    problems = [replace(each, hint=each.hint.replace(PURGE, purge)) for each in problems]
    return [
        ProblemInfo(workspace=workspace.id, **asdict(each))
        for each in (*faults, *problems)
        if path is None or each.path == path
    ]


def _find_ambiguous(reader: Reader, path: str | None) -> Iterator[Problem]:
    # Late, because they load the scanner of markdown, which no start needs.
    from memsyncd.core.markdown.linkgraph import note_of
    from memsyncd.store.links import StoredLinks

    links = StoredLinks(reader)
    for edge in islice(links.stream_ambiguous(path), MAX_AMBIGUOUS):
        source = note_of(edge.source)
        first, *others = links.names.find_candidates(source, edge.target)
        also = f"{others[0]}{f' and {len(others) - 1} more' if len(others) > 1 else ''}"
        link = redact(f"{edge.target}#{edge.heading}" if edge.heading else edge.target)
        what = f"[[{link}]] leads to {first}, and {also} has this name, too"
        hint = "if another note is meant, write its path in the link"
        yield Problem(source, edge.lines[0], "ambiguous_link", what, hint)


def _find_unknown_kinds(reader: Reader, kinds: Mapping[str, KindDefaults]) -> Iterator[Problem]:
    for kind, n_sections, path in find_places_of_kinds(reader):
        if kind not in kinds:
            what = f"kind `{redact(kind)}` is not configured; sections with it: {n_sections}"
            yield Problem(path, 0, "unknown_kind", what, advise_unknown_kind(kinds, kind))
