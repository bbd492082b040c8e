"""Replaces memories: writes a new memory, relates it to the former, and archives the former."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from memsyncd.config import Config
from memsyncd.core.editing.additions import (
    Addition,
    append_section,
    check_addition,
    find_faults,
    make_heading,
)
from memsyncd.core.editing.memories import list_beneath
from memsyncd.core.editing.metadata import read_section_meta
from memsyncd.core.editing.sections import (
    add_links,
    find_heading_end,
    find_sections_bytes,
    split_note_sections,
)
from memsyncd.core.markdown.frontmatter import list_tags
from memsyncd.core.memories import SECTION_LEVEL
from memsyncd.core.model import SECTION_COMMENT, Meta
from memsyncd.core.upkeep import FORMER_STATUS
from memsyncd.engine.additions import choose_note, place_added
from memsyncd.engine.edit import Decide, Edit, Put, check_digest, make_put
from memsyncd.engine.memories import PLAN_LIMIT_S
from memsyncd.engine.places import NamedPlace, find_named_place, name_target
from memsyncd.engine.relations import SUPERSEDES, find_newest
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, EditRefused, NoteNotFound
from memsyncd.files.read import read_text_file
from memsyncd.operations.call import Call, read_saved
from memsyncd.operations.fields import AddedSection
from memsyncd.operations.memories.declare import MemoryReplaced, ReplaceParams
from memsyncd.operations.memories.selection import (
    WAY_OUT,
    Selected,
    archive_memory,
    read_selected,
)
from memsyncd.store.sections import read_digest

COMMAND: Final = "memory.replace"
# Metadata that the new memory does not take from the former.
_LEFT_BEHIND: Final = frozenset((FORMER_STATUS, "id", "discovered_from", "title"))
_TEXTS: Final = (
    "kind", "importance", "priority", "lifecycle", "source", "task", "session", "topic",
)  # fmt: skip


class Replacement(msgspec.Struct, frozen=True):
    added: AddedSection
    replaced: str


def make_replace_decision(
    workspace: Workspace, config: Config, params: ReplaceParams, *, client: str, at: str
) -> Decide[Replacement]:
    """Make the decision to replace a memory.

    Raises BadRequest at once for text or metadata that no memory may have.
    """
    check_addition(_make_addition(params, Meta(), "x"), most_chars=config.memory.max_content_chars)

    def decide() -> tuple[Edit, Replacement]:
        place, target, digest = _find_former(workspace, params.anchor)
        anchor = place.anchor or ""
        file = read_selected(workspace, config, place.path, Selected((anchor,), digest))
        check_digest(params.if_digest, place.path, file)
        if anchor not in find_sections_bytes(place.path, file.data):
            raise NoteNotFound(f"no section {anchor}", hint="see: memsyncd list --sections")
        addition = _inherit(place, file.data, params, target)
        archived = _archive_former(place.path, file.data, anchor)
        note = choose_note(workspace.scope, config, note=params.note or f"./{place.path}")
        is_same = note.text == place.path
        was = file if is_same else read_text_file(workspace.scope, note)
        old = archived if is_same else was.data if was else None
        appended = append_section(note.text, old, [addition], at=at)
        data, [added] = appended.data, place_added(note, appended)
        puts: list[Put] = [make_put(workspace.scope, note, data, was, way_out=WAY_OUT)]
        if not is_same:
            puts.insert(0, make_put(workspace.scope, file.path, archived, file, way_out=WAY_OUT))
        edit = Edit(command=COMMAND, client=client, path=place.path, operations=tuple(puts))
        return edit, Replacement(added, anchor)

    return decide


def _find_former(workspace: Workspace, name: str) -> tuple[NamedPlace, str, str | None]:
    """Return the memory with this name, the target of a link to it, and the digest of its note if
    its name is lines.

    Raises BadRequest for a note, EditRefused for a memory that another supersedes already.
    """
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        place = find_named_place(reader, workspace.scope, name)
        if place.anchor is None or place.anchor.endswith("#"):
            hint = "name a section of it; the memory tool replaces the text of a note"
            raise BadRequest(f"{place.path} is a whole note", hint=hint)
        newest = find_newest(reader, [place.anchor]).get(place.anchor)
        if newest is not None:
            message = f"{place.anchor} is superseded already"
            raise EditRefused(message, hint=f"replace the newest: {newest}")
        digest = read_digest(reader, place.path) if place.is_by_lines else None
        return place, name_target(reader, place), digest


def _inherit(place: NamedPlace, data: bytes, params: ReplaceParams, target: str) -> Addition:
    """Make the new memory, with the metadata that the former memory states itself."""
    anchor = place.anchor or ""
    meta = read_section_meta(place.path, data, anchor)
    body = _read_body(place.path, data, anchor)
    made = make_heading(Addition(content=body, kind=meta.kind)) if body.strip() else ""
    kept = "" if made == place.heading else place.heading
    addition = _make_addition(params, meta, kept)
    text = add_links(params.content, [f"- {SUPERSEDES} [[{target}]]"])
    return msgspec.structs.replace(addition, content=text)


def _read_body(path: str, data: bytes, anchor: str) -> str:
    own = data[slice(*find_sections_bytes(path, data)[anchor])]
    text = own[find_heading_end(path, own) or 0 :].decode("utf-8", "replace")
    return SECTION_COMMENT.sub("", text, count=1)


def _make_addition(params: ReplaceParams, meta: Meta, heading: str) -> Addition:
    extra = {key.lower(): value for key, value in meta.extra}
    former: dict[str, Any] = {name: getattr(meta, name, None) for name in _TEXTS}
    former["topic"] = extra.get("topic")
    chosen = {
        name: getattr(params, name) if getattr(params, name) is not None else former[name]
        for name in _TEXTS
    }
    keywords = tuple(filter(None, list_tags(extra.get("keywords", ""))))
    return Addition(
        content=params.content,
        summary=params.summary or heading,
        tags=meta.tags if params.tags is None else tuple(params.tags),
        keywords=keywords if params.keywords is None else tuple(params.keywords),
        expires=params.expires,
        scope=extra.get("scope"),
        metadata=_find_own_metadata(meta.extra),
        **chosen,
    )


def _find_own_metadata(extra: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return the metadata of the user's own keys that a new section may state, too."""
    return {
        key: value
        for key, value in extra
        if key.lower() not in _LEFT_BEHIND
        and not find_faults(Addition(content="x", metadata={key: value}))
    }


def _archive_former(path: str, data: bytes, anchor: str) -> bytes:
    """Archive a memory with all sections beneath it. Raises EditRefused."""
    memory = list_beneath(split_note_sections(path, data), anchor)
    if any(section.level <= SECTION_LEVEL for section in memory[1:]):
        raise EditRefused(f"{anchor} is the title of several memories", hint="name one of them")
    return archive_memory(path, data, memory, hint="change the memory where it is")


async def replace_memory(call: Call, params: ReplaceParams) -> MemoryReplaced:
    workspace = await call.open()
    decide = make_replace_decision(workspace, call.config, params, **call.stamp)
    # A memory that was saved a moment ago is found after a scan.
    await read_saved(call, partial(_find_former, workspace, params.anchor))
    outcome = await call.edit(decide)
    return MemoryReplaced(
        **asdict(outcome.answer.added),
        replaced=outcome.answer.replaced,
        **call.describe_write(outcome),
    )
