"""Checks a section before it is written, and the metadata of notes that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from memsyncd.config import Config
from memsyncd.core.editing.additions import (
    KEYWORD_LIMIT_CHARS,
    KEYWORDS_LIMIT,
    TAGS_LIMIT,
    TOPIC_LIMIT_CHARS,
    WORD_LIMIT_CHARS,
    describe_fault,
    find_faults,
)
from memsyncd.engine.browse import READ_LIMIT_S
from memsyncd.engine.memory_tool import make_addition
from memsyncd.engine.metadata import advise_unknown_kind
from memsyncd.engine.upkeep import EVERYTHING
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.protocol.memory import FieldFault, NewSection, Validation
from memsyncd.store.lookup import StoredSection, read_problems, stream_notes


def validate_section(section: Mapping[str, Any], config: Config) -> Validation:
    """Check the fields of a section as `note.add` takes them."""
    faults = [*_find_type_faults(section)]
    wrong = {fault.field for fault in faults}
    fields = {name: value for name, value in section.items() if name not in wrong}
    # Without its content a section is not even one that can be checked further.
    fields.setdefault("content", "x")
    try:
        addition = make_addition(msgspec.convert(fields, NewSection))
    except BadRequest as error:
        faults.append(_make_fault(error))
    else:
        found = find_faults(addition, most_chars=config.memory.max_content_chars)
        faults += map(_make_fault, found)
    return Validation(workspace="", is_valid=not faults, faults=faults, checked=1)


def _find_type_faults(section: Mapping[str, Any]) -> Iterator[FieldFault]:
    fields = {field.name: field for field in msgspec.structs.fields(NewSection)}
    if "content" not in section:
        yield FieldFault(field="content", problem="is missing", hint="give the text of the memory")
    for name, value in section.items():
        if name not in fields:
            hint = f"the fields are {', '.join(fields)}; others go into metadata"
            yield FieldFault(field=name, problem="is no field of a section", hint=hint)
            continue
        try:
            msgspec.convert(value, fields[name].type)
        except msgspec.ValidationError as error:
            problem = str(error).partition(" - at `$")[0]
            hint = "see the parameters of note.add: memsyncd remember --help"
            yield FieldFault(field=name, problem=problem[:1].lower() + problem[1:], hint=hint)


def _make_fault(error: BadRequest) -> FieldFault:
    return msgspec.convert(describe_fault(error), FieldFault)


def validate_notes(workspace: Workspace, config: Config, path: str | None) -> Validation:
    """Check indexed notes: their problems, and what no section may state.

    Raises NoteNotFound if no note is at the path, so that a mistyped one does not pass.
    """
    with workspace.acquire(READ_LIMIT_S) as reader:
        notes = list(stream_notes(reader, path=path, filters=EVERYTHING))
        problems = read_problems(reader)
    if path is not None and not notes:
        raise NoteNotFound(
            f"no note is indexed at {path}", hint="list notes with: memsyncd list --notes"
        )
    paths = {note.path for note in notes}
    faults = [
        FieldFault(field="", problem=one.problem, hint=one.hint, path=one.path, line=one.line)
        for one in problems
        if one.path in paths
    ]
    for note in notes:
        for section in note.sections:
            faults += [
                msgspec.structs.replace(fault, path=note.path, line=section.span.start)
                for fault in _find_section_faults(section, config)
            ]
    faults.sort(key=lambda fault: (fault.path, fault.line))
    n_sections = sum(len(note.sections) for note in notes)
    return Validation(
        workspace=workspace.id, is_valid=not faults, faults=faults, checked=n_sections
    )


def _find_section_faults(section: StoredSection, config: Config) -> Iterator[FieldFault]:
    if section.kind is not None and section.kind not in config.kinds:
        hint = advise_unknown_kind(config.kinds, section.kind)
        yield FieldFault(field="kind", problem=f"{section.kind!r} is not configured", hint=hint)
    topic = section.extra.get("topic", "")
    keywords = [one for one in section.extra.get("keywords", "").split(", ") if one]
    for field, values, most, most_chars in (
        ("tags", section.tags, TAGS_LIMIT, WORD_LIMIT_CHARS),
        ("topic", [topic], 1, TOPIC_LIMIT_CHARS),
        ("keywords", keywords, KEYWORDS_LIMIT, KEYWORD_LIMIT_CHARS),
    ):
        if len(values) > most:
            yield FieldFault(field=field, problem=f"are more than {most}", hint="leave some out")
        if any(len(value) > most_chars for value in values):
            problem = f"is over {most_chars} characters"
            yield FieldFault(field=field, problem=problem, hint="shorten it")
