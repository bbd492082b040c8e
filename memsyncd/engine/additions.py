"""Appends new sections to notes, and checks them before that.

Sections are appended to the notes that are named, or to the notes of their kinds. Existing text is
not rewritten. Sections for several notes are one edit: all are written, or none.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import (
    Addition,
    AppendedSections,
    append_section,
    check_addition,
)
from memsyncd.core.editing.capture import find_new
from memsyncd.core.editing.kinds import find_kind
from memsyncd.core.editing.memory_tool import MEMORIES, parse_memory_path
from memsyncd.core.model import OutlineSection
from memsyncd.core.paths import MEMORY_FILE, MEMORY_FOLDER, NotePath, is_markdown, parse_note_path
from memsyncd.engine.edit import Decide, Edit, Put, make_put
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, PathRefused, StoreFailed
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.files.scope import Scope
from memsyncd.operations.fields import AddedSection, Params
from memsyncd.operations.notes.declare import NewSection

_SECTION = re.compile(r"(?P<note>.+\.(?:md|markdown|txt))#", re.IGNORECASE)


def make_addition_decision(
    workspace: Workspace,
    config: Config,
    sections: Sequence[NewSection],
    *,
    command: str,
    client: str,
    at: str,
) -> Decide[list[AddedSection]]:
    """Make the decision to append sections. `at` is the time, in ISO 8601.

    Raises BadRequest and PathRefused at once.
    """
    additions = [make_addition(section) for section in sections]
    for addition in additions:
        check_addition(addition, most_chars=config.memory.max_content_chars)
    scope = workspace.scope
    paths = [
        choose_note(scope, config, note=section.note, kind=section.kind) for section in sections
    ]

    def decide() -> tuple[Edit, list[AddedSection]]:
        puts, added = append_additions(workspace, additions, paths, at)
        return Edit(command=command, client=client, path=paths[0].text, operations=puts), added

    return decide


def make_addition(section: NewSection) -> Addition:
    """Make the addition of a section, unchecked. Raises BadRequest if two fields contradict."""
    if section.task and section.wu_id and section.task != section.wu_id:
        raise BadRequest("wu_id: is not the task", hint="give one of the two")
    return copy_fields(section, task=section.wu_id if section.task is None else section.task)


def copy_fields(params: Params, **own: str | None) -> Addition:
    """Make an addition from the fields of a request that additions have as well, and from `own`."""
    return msgspec.convert({**asdict(params), **own}, Addition)


def choose_note(
    scope: Scope, config: Config, *, note: str | None = None, kind: str | None = None
) -> NotePath:
    """Choose the note for a section: the named note, or the note of the section's kind.

    A name alone is a note in the memory folder; without a suffix it is markdown. The notes of
    kinds are in the memory folder, too.
    """
    named = note or _place_kind(scope, find_kind(config.kinds, kind).append_to)
    if named.startswith(MEMORIES):
        path = parse_memory_path(named, scope.memory_dir).note
        if path is None:
            hint = "name a note in it, such as /memories/decisions.md"
            raise BadRequest("a folder is no note", hint=hint)
    else:
        path = _parse_name(scope, named)
    # The name of a file may contain the mark of an anchor.
    if (section := _SECTION.match(named)) and read_text_file(scope, path) is None:
        hint = f"name the note alone: {section['note']}"
        raise BadRequest(f"{named} is a section, and this needs a note", hint=hint)
    if scope.is_read_only(path.text):
        hint = "change it with your editor, or name another note"
        raise PathRefused(f"{path.text} is a read-only note of this workspace", hint=hint)
    if not is_markdown(path.name):
        raise BadRequest(f"{path.text} cannot hold sections", hint="name a note that ends in .md")
    if not scope.is_note(path.text):
        raise PathRefused(
            f"path refused: {path.text} is no note of this workspace",
            hint="name MEMORY.md or a note beneath .memories/",
        )
    return path


def _place_kind(scope: Scope, note: str) -> str:
    """Return the note of a kind as configured: `.memories` stands for the memory folder."""
    inside = note.removeprefix(f"{MEMORY_FOLDER}/")
    if inside == note or scope.memory_dir == MEMORY_FOLDER:
        return note
    return f"./{scope.memory_dir}/{inside}" if scope.memory_dir else f"./{inside}"


def _parse_name(scope: Scope, named: str) -> NotePath:
    has_suffix = "." in named.removeprefix(MEMORY_FOLDER).rpartition("/")[2]
    text = named if has_suffix else f"{named}.md"
    is_path = text == MEMORY_FILE or text.startswith((f"{MEMORY_FOLDER}/", "./", "/"))
    # In a vault a path with a folder begins at the root; a name alone is a note in the memory
    # folder.
    includes = scope.includes
    is_included = includes.named_globs.matches(text) or (
        "/" in text and includes.whole.matches(text)
    )
    is_whole = is_path or is_included or not scope.memory_dir
    return parse_note_path(text if is_whole else f"{scope.memory_dir}/{text}")


def append_additions(
    workspace: Workspace,
    additions: Sequence[Addition],
    paths: Sequence[NotePath],
    at: str,
    *,
    is_once: bool = False,
) -> tuple[tuple[Put, ...], list[AddedSection]]:
    """Append each addition to the note of the same position in `paths`; with `is_once`, only the
    additions that the note does not hold yet.
    """
    puts: list[Put] = []
    added: dict[int, AddedSection] = {}
    for path in dict.fromkeys(paths):
        numbers = [number for number, other in enumerate(paths) if other == path]
        was = read_text_file(workspace.scope, path)
        old = was.data if was else None
        if is_once:
            new = find_new(path.text, old, [additions[number] for number in numbers])
            numbers = [numbers[position] for position in new]
        if not numbers:
            continue
        chosen = [additions[number] for number in numbers]
        known = _find_sections(workspace, path, was) if was is not None else None
        appended = append_section(path.text, old, chosen, at=at, known=known)
        data = appended.data
        puts.append(make_put(workspace.scope, path, data, was, way_out="name another note"))
        added |= dict(zip(numbers, place_added(path, appended), strict=True))
    return tuple(puts), [added[number] for number in sorted(added)]


def _find_sections(
    workspace: Workspace, path: NotePath, file: TextFile
) -> Sequence[OutlineSection] | None:
    """Return the sections of a note if the index has them as they are on the disk, so that a long
    note need not be parsed.
    """
    if workspace.index is None:
        return None
    # A write needs no index, and must not fail with it.
    with contextlib.suppress(StoreFailed):
        return workspace.index.read_headings(path.text, file.digest)
    return None


def place_added(path: NotePath, appended: AppendedSections) -> list[AddedSection]:
    """Say where sections are that were appended to a note."""
    digest = digest_bytes(appended.data)
    return [
        AddedSection(
            anchor=anchor,
            path=path.text,
            start_line=span.start,
            end_line=span.end,
            digest=digest,
        )
        for span, anchor in zip(appended.spans, appended.anchors, strict=True)
    ]
