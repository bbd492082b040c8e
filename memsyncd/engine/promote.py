"""Promotes a memory, or the summaries of a task, to lasting knowledge in the project's note."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import Addition
from memsyncd.core.editing.sections import find_sections_bytes
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import Meta
from memsyncd.core.notepath import NotePath
from memsyncd.core.search.query import Filters
from memsyncd.core.upkeep import find_promoted, make_promotion
from memsyncd.engine.edit import Decide, Edit
from memsyncd.engine.memory_tool import append_additions, choose_note
from memsyncd.engine.upkeep import EVERYTHING, PLAN_LIMIT_S, Memory, list_memories, list_named
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.files.read import read_text_file
from memsyncd.protocol.memory import NewSection
from memsyncd.protocol.upkeep import PromotedMemory, PromoteParams
from memsyncd.store.lookup import StoredSection, read_notes

SUMMARY = "summary"


def make_promote_decision(
    workspace: Workspace, config: Config, params: PromoteParams, *, client: str, at: str
) -> Decide[list[PromotedMemory]]:
    """Make the decision to promote; what is promoted with the same tag already stays as it is.

    Raises BadRequest and PathRefused at once.
    """
    tag = params.tag.strip().lstrip("#").casefold()
    if tag not in config.memory.promotion_tags:
        tags = ", ".join(config.memory.promotion_tags)
        raise BadRequest(f"tag: is none of {tags}", hint="use one of these, or configure others")
    if (params.anchor is None) == (params.task is None):
        raise BadRequest("name either an anchor or a task", hint="leave one of the two out")
    named = params.note or config.memory.promote_to
    path = choose_note(workspace.scope, config, NewSection(content="", note=named))

    def decide() -> tuple[Edit, list[PromotedMemory]]:
        memories = _find_memories(workspace, params)
        file = read_text_file(workspace.scope, path)
        known = parse_note(path, file.data, config.chunking).sections if file else ()
        promoted: list[PromotedMemory] = []
        additions: list[Addition] = []
        for memory in memories:
            source, heading = memory.head.anchor, memory.head.heading
            anchor = find_promoted(known, source, tag)
            if anchor is None:
                additions.append(_make_addition(workspace, memory, tag))
            promoted.append(
                PromotedMemory(
                    source=source,
                    heading=heading[-1] if heading else "",
                    anchor=anchor,
                    path=path.text,
                    is_new=anchor is None,
                )
            )
        paths = [path] * len(additions)
        puts, added = append_additions(workspace, config, additions, paths, at)
        new = iter(added)
        answer = [
            _place(one, next(new).anchor) if one.is_new and not params.dry_run else one
            for one in promoted
        ]
        operations = () if params.dry_run else puts
        edit = Edit(command="promote", client=client, path=path.text, operations=operations)
        return edit, answer

    return decide


def _place(promoted: PromotedMemory, anchor: str) -> PromotedMemory:
    return replace(promoted, anchor=anchor)


def _find_memories(workspace: Workspace, params: PromoteParams) -> Sequence[Memory]:
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        notes = read_notes(reader, path=None, filters=EVERYTHING)
        passing: set[str] = set()
        if params.task is not None:
            filters = Filters(kinds=(SUMMARY,), tasks=(params.task,))
            found = read_notes(reader, path=None, filters=filters)
            passing = {one.anchor for note in found for one in note.sections}
    if params.anchor is not None:
        return [*list_named(notes, [params.anchor])]
    memories = [one for one in list_memories(notes) if one.head.anchor in passing]
    if not memories:
        hint = "see its memories with: memsyncd list --task ID"
        raise NoteNotFound(f"task {params.task} has no summaries", hint=hint)
    return memories


def _make_addition(workspace: Workspace, memory: Memory, tag: str) -> Addition:
    head, path = memory.head, memory.note.path
    text = read_memory(workspace, memory)
    if text is None:
        hint = "try again once it is indexed"
        raise NoteNotFound(f"{path} no longer has {head.anchor}", hint=hint)
    heading = head.heading[-1] if head.heading else ""
    return make_promotion(path, head.anchor, heading, text.split("\n"), _make_meta(head), tag)


def read_memory(workspace: Workspace, memory: Memory) -> str | None:
    """Read the text of a memory from the disk as it is now; None if it is not there any more."""
    path = memory.note.path
    file = read_text_file(workspace.scope, NotePath(path))
    if file is None:
        return None
    if digest_bytes(file.data) == memory.note.digest:
        lines = decode_note(path, file.data).lines
        return "\n".join(lines[memory.head.span.start - 1 : memory.sections[-1].span.end])
    places = find_sections_bytes(path, file.data)
    found = [places[one.anchor] for one in memory.sections if one.anchor in places]
    if not found:
        return None
    return "\n".join(decode_note(path, file.data[found[0][0] : found[-1][1]]).lines)


def _make_meta(section: StoredSection) -> Meta:
    return Meta(
        kind=section.kind,
        tags=section.tags,
        importance=section.importance,
        priority=section.priority,
        source=section.source,
        extra=tuple(section.extra.items()),
    )
