"""Changes memories: their metadata, relations and titles.

A change is a plan that is computed from the notes as they are on the disk; it is carried out as one
change set. Memories that are named are changed or refused. Memories that filters select are
skipped, with a reason, if they cannot be changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.additions import Addition, find_faults, raise_faults
from memsyncd.core.editing.fields import find_title
from memsyncd.core.editing.memories import (
    change_links,
    list_beneath,
    merge_section_relations,
    rename_section,
)
from memsyncd.core.editing.metadata import (
    KeyChange,
    WordsChange,
    change_comment,
    change_front_matter,
    read_note_meta,
    read_section_meta,
)
from memsyncd.core.editing.sections import split_note_sections
from memsyncd.core.editing.topics import (
    RelationLink,
    find_relation_faults,
    merge_relations,
)
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.linkgraph import find_section, note_of
from memsyncd.core.markdown.links import Mention
from memsyncd.core.markdown.parse import make_sections
from memsyncd.core.model import ARCHIVED, Meta
from memsyncd.core.paths import NotePath
from memsyncd.core.search.tasks import BLOCKED, FINISHED
from memsyncd.core.upkeep import FORMER_STATUS, archive_note, restore_sections
from memsyncd.engine.edit import EditOutcome, Put, check_digest, make_put
from memsyncd.engine.memories import PLAN_LIMIT_S, list_memories
from memsyncd.engine.places import NO_LINK, name_relations
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import (
    BadRequest,
    EditRefused,
    PathRefused,
    TooLarge,
)
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.operations.call import Call, read_saved
from memsyncd.operations.memories.declare import (
    DoneParams,
    LeadingLink,
    MemoriesSet,
    MemoryItem,
    RelateParams,
    SelectParams,
    SetParams,
)
from memsyncd.operations.memories.selection import (
    WAY_OUT,
    Selected,
    archive_memory,
    describe_memory,
    digest_changes,
    identify_place,
    read_selected,
    resolve_mention,
    select_memories,
)
from memsyncd.operations.plans import carry_out, find_protection
from memsyncd.operations.topics.declare import NewRelation
from memsyncd.store.links import StoredLinks
from memsyncd.store.sections import read_outlines

DONE: Final = "done"
# The statuses with a meaning, which are written in lower case.
_KNOWN_STATUSES: Final = FINISHED | {ARCHIVED, BLOCKED, "open", "doing"}
_TEXT_FIELDS: Final = (
    "status", "priority", "kind", "task", "session", "topic", "lifecycle", "expires", "source",
)  # fmt: skip
_LIST_FIELDS: Final = ("tags", "keywords")
_CLEARED: Final = (*_TEXT_FIELDS, *_LIST_FIELDS, "importance")

# --- the changes of a request -------------------------------------------------------------------


class Wanted(NamedTuple):
    """Changes of one memory."""

    metadata: Mapping[str, KeyChange]
    status: str | None
    relate: Sequence[RelationLink]
    unrelate: Sequence[RelationLink]
    title: str | None


def read_wanted(config: Config, params: SetParams) -> Wanted:
    """Return the changes of a request. Raises BadRequest that names all faults."""
    texts: dict[str, str | None] = {name: getattr(params, name) for name in _TEXT_FIELDS}
    stated: dict[str, Any] = {name: text for name, text in texts.items() if text}
    words = {
        name: WordsChange(
            only=None if getattr(params, name) is None else tuple(getattr(params, name)),
            add=tuple(getattr(params, f"add_{name}")),
            remove=tuple(getattr(params, f"remove_{name}")),
        )
        for name in _LIST_FIELDS
    }
    new: dict[str, Any] = {
        name: (*(change.only or ()), *change.add) for name, change in words.items()
    }
    addition = Addition(
        content="x",
        summary=params.title or "x",
        importance=params.importance,
        metadata={key: text or "x" for key, text in params.metadata.items()},
        **new,
        **stated,
    )
    faults = [
        _rename_fault(fault)
        for fault in find_faults(addition, most_chars=config.memory.max_content_chars)
    ]
    faults += _find_own_faults(params)
    raise_faults(faults)
    metadata: dict[str, KeyChange] = {
        name: _fold(name, text.strip()) for name, text in texts.items() if text is not None
    }
    metadata |= {name: change for name, change in words.items() if change != WordsChange()}
    if params.importance is not None:
        metadata["importance"] = repr(float(params.importance))
    metadata |= {key: text.strip() for key, text in params.metadata.items()}
    metadata |= {
        name: WordsChange(only=()) if name in _LIST_FIELDS else "" for name in params.clear
    }
    status = metadata.pop("status", None)
    new_status = status if isinstance(status, str) else None
    relate, unrelate = (
        [RelationLink(relation.kind, relation.to) for relation in relations]
        for relations in (params.relate, params.unrelate)
    )
    return Wanted(metadata, new_status, relate, unrelate, params.title)


def _fold(name: str, text: str) -> str:
    if name == "status" and text.lower() in _KNOWN_STATUSES:
        return text.lower()
    return text.upper() if name == "priority" else text.lower() if name in _FOLDED else text


_FOLDED: Final = ("kind", "lifecycle")


def _rename_fault(fault: BadRequest) -> BadRequest:
    if not fault.message.startswith("summary: "):
        return fault
    return type(fault)(f"title{fault.message.removeprefix('summary')}", hint=fault.hint)


def _find_own_faults(params: SetParams) -> list[BadRequest]:
    faults: list[BadRequest] = []
    for name in ("relate", "unrelate"):
        relations = [
            RelationLink(relation.kind, "x" * bool(relation.to))
            for relation in getattr(params, name)
        ]
        faults += find_relation_faults(name, relations)
    for name in params.clear:
        if name not in _CLEARED:
            hint = f"one of {', '.join(_CLEARED)}; own metadata goes with KEY="
            faults.append(BadRequest(f"clear: {name[:40]} is no field", hint=hint))
        elif getattr(params, name) is not None:
            hint = "leave one of the two out"
            faults.append(BadRequest(f"clear: {name} is also given", hint=hint))
    if params.title is not None and not params.title.strip():
        faults.append(BadRequest("title: is empty", hint="a section needs a heading"))
    is_asking = any(
        getattr(params, name) not in (None, [], {})
        for name in params.__struct_fields__
        if name not in (*SelectParams.__struct_fields__, "if_digest")
    )
    if not is_asking:
        hint = "name a new value, such as status or priority"
        faults.append(BadRequest("nothing to change is named", hint=hint))
    return faults


# --- the change of one note ---------------------------------------------------------------------


class NoteChange(msgspec.Struct, frozen=True):
    """A note after the change of one of its memories; `anchors` has new anchors by old anchors."""

    data: bytes
    anchors: Mapping[str, str] = {}


def change_memory(
    workspace: Workspace, path: str, data: bytes, anchor: str | None, wanted: Wanted
) -> NoteChange:
    """Return the note with one memory changed, for None the note itself. Raises EditRefused."""
    metadata = dict(wanted.metadata)
    if wanted.status is not None:
        before = _read_meta(path, data, anchor)
        if wanted.status != ARCHIVED:
            metadata = {"status": wanted.status, **metadata}
            if before.status == ARCHIVED:
                data = _restore_beneath(path, data, anchor)
                if FORMER_STATUS in dict(before.extra):
                    metadata[FORMER_STATUS] = ""
    if metadata:
        data = (
            change_front_matter(path, data, metadata)
            if anchor is None
            else change_comment(path, data, anchor, metadata)
        )
    if wanted.status == ARCHIVED:
        data = _archive(path, data, anchor)
    if wanted.relate or wanted.unrelate:
        data = _relate(workspace, path, data, anchor, wanted)
    if wanted.title is None:
        return NoteChange(data)
    return _rename(path, data, anchor, wanted.title)


def _read_meta(path: str, data: bytes, anchor: str | None) -> Meta:
    return read_note_meta(path, data) if anchor is None else read_section_meta(path, data, anchor)


def _archive(path: str, data: bytes, anchor: str | None) -> bytes:
    """Archive a memory with all sections beneath it, as `archive` does."""
    if anchor is None:
        if read_note_meta(path, data).status == ARCHIVED:
            return data
        archived = archive_note(path, data)
        if isinstance(archived, str):
            raise EditRefused(f"{path}: {archived}")
        return archived
    return archive_memory(path, data, list_beneath(split_note_sections(path, data), anchor))


def _restore_beneath(path: str, data: bytes, anchor: str | None) -> bytes:
    """Restore the sections that were archived with the memory above them."""
    beneath = [] if anchor is None else list_beneath(split_note_sections(path, data), anchor)[1:]
    own = [section.anchor for section in beneath]
    archived = [each for each in own if read_section_meta(path, data, each).status == ARCHIVED]
    return restore_sections(path, data, archived)[0]


def _relate(
    workspace: Workspace, path: str, data: bytes, anchor: str | None, wanted: Wanted
) -> bytes:
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        name = partial(name_relations, workspace, reader)
        relate = name(wanted.relate, must_exist=True)
        unrelate = name(wanted.unrelate, must_exist=False)
        identify = partial(identify_place, StoredLinks(reader), path)
        if (anchor or path) in [identify(relation.to) for relation in relate]:
            hint = "name another note or section, as in resolves=NOTE"
            raise EditRefused("a memory cannot be related to itself", hint=hint)
        if anchor is None:
            return merge_relations(path, data, relate, unrelate, identify=identify)
        return merge_section_relations(path, data, anchor, relate, unrelate, identify=identify)


def _rename(path: str, data: bytes, anchor: str | None, title: str) -> NoteChange:
    """Change the heading of a section, or the title of a note, which its front matter states, else
    its heading.
    """
    if anchor is None:
        top = find_title(split_note_sections(path, data))
        if top is None or "title" in dict(read_note_meta(path, data).extra):
            return NoteChange(change_front_matter(path, data, {"title": title.strip()}))
        anchor = top.anchor
    return NoteChange(*rename_section(path, data, anchor, title))


# --- the plan -----------------------------------------------------------------------------------


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    puts: tuple[Put, ...]
    changed: tuple[MemoryItem, ...]
    unchanged: tuple[MemoryItem, ...]
    skipped: tuple[MemoryItem, ...]
    links: tuple[LeadingLink, ...] = ()

    @property
    def digest(self) -> str:
        return digest_changes(self.puts)


def plan_set(
    workspace: Workspace, config: Config, params: SetParams, wanted: Wanted, now_s: float
) -> MemoryPlan:
    """Plan the change of all selected memories."""
    selected = select_memories(workspace, config, params, now_s)
    n_memories = sum(len(memories.anchors) for memories in selected.values())
    if wanted.title is not None and n_memories > 1:
        raise BadRequest("one title is of one memory", hint="name one memory")
    if params.if_digest is not None and len(selected) > 1:
        raise BadRequest("if_digest is of one note", hint="name memories of one note")
    is_retiring = wanted.status == ARCHIVED and not params.anchors
    protected = _find_protected(workspace, config, selected) if is_retiring else set()
    puts: list[Put] = []
    links: list[LeadingLink] = []
    items: dict[str, list[MemoryItem]] = {"changed": [], "unchanged": [], "skipped": []}
    for path, of_note in selected.items():
        note = _change_note(workspace, config, params, wanted, path, of_note, protected)
        data = note.data
        if note.moved:
            others, changed_links, data = move_links(workspace, path, data, note.moved)
            puts += others
            links += changed_links
        if note.file is not None and data != note.file.data:
            put = make_put(workspace.scope, note.file.path, data, note.file, way_out=WAY_OUT)
            puts.append(put)
        for name, item in _describe(path, data, note):
            items[name].append(item)
    return MemoryPlan(
        puts=tuple(puts),
        links=tuple(links),
        **{name: tuple(several) for name, several in items.items()},
    )


class _ChangedNote(msgspec.Struct):
    """A note while its memories are changed one by one. `states` has for each True if it has
    changed, False if it stated the values already, or the reason why it cannot be changed.
    """

    data: bytes = b""
    file: TextFile | None = None
    moved: dict[str, str] = {}
    states: dict[str | None, bool | str] = {}


def _change_note(
    workspace: Workspace,
    config: Config,
    params: SetParams,
    wanted: Wanted,
    path: str,
    selected: Selected,
    protected: Collection[str | None],
) -> _ChangedNote:
    note = _ChangedNote()
    for anchor in selected.anchors:
        try:
            if note.file is None:
                note.file = read_selected(workspace, config, path, selected)
                check_digest(params.if_digest, path, note.file)
                note.data = note.file.data
            if anchor in protected:
                raise EditRefused("its kind or its lifecycle protects it")
            change = change_memory(workspace, path, note.data, anchor, wanted)
            make_put(workspace.scope, note.file.path, change.data, note.file, way_out=WAY_OUT)
        except (EditRefused, PathRefused, TooLarge) as refusal:
            if params.anchors:
                raise
            note.states[anchor] = refusal.message
        else:
            note.states[anchor] = change.data != note.data
            note.data = change.data
            note.moved |= change.anchors
    return note


def _find_protected(
    workspace: Workspace, config: Config, selected: Mapping[str, Selected]
) -> set[str | None]:
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        notes = read_outlines(reader, selected)
    return {
        memory.head.anchor for memory in list_memories(notes) if find_protection(memory, config)
    }


def _describe(path: str, data: bytes, changed: _ChangedNote) -> Iterator[tuple[str, MemoryItem]]:
    """Yield the memories of a note, each with the name of its list in the answer."""
    anchors = {
        anchor: changed.moved.get(anchor, anchor) for anchor in changed.states if anchor is not None
    }
    lines = decode_note(path, data).lines
    own = [each for each in split_note_sections(path, data) if each.anchor in anchors.values()]
    meta = read_note_meta(path, data)
    sections = {section.anchor: section for section in make_sections(path, lines, own, meta, ())[0]}
    for anchor, state in changed.states.items():
        section = sections.get(anchors[anchor]) if anchor is not None else None
        item = describe_memory(path, data, section, len(lines))
        if isinstance(state, str):
            yield "skipped", replace(item, reason=state)
        else:
            yield "changed" if state else "unchanged", item


def move_links(
    workspace: Workspace, path: str, data: bytes, moved: Mapping[str, str]
) -> tuple[list[Put], list[LeadingLink], bytes]:
    """Change the links to the sections of a note whose anchors have changed: in the note itself,
    and in all other notes that may be written.
    """
    sections = split_note_sections(path, data)
    after = [section.anchor for section in sections]
    words = {section.anchor: section.heading[-1] for section in sections if section.heading}
    puts: list[Put] = []
    links: list[LeadingLink] = []
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        stored = StoredLinks(reader)

        def redirect(source: str, mention: Mention) -> str | None:
            if not mention.heading or mention.heading.startswith("^"):
                return None
            old = resolve_mention(stored, source, mention)
            new = moved.get(old) if old is not None else None
            if new is None or find_section(path, mention.heading, after) == new:
                return None
            word = words.get(new, "")
            is_clear = NO_LINK.isdisjoint(word) and find_section(path, word, after) == new
            return word if word and is_clear else new.rpartition("#")[2]

        for edge in stored.list_incoming(path):
            source = note_of(edge.source)
            if edge.to is not None and moved.get(edge.to, edge.to) != edge.to:
                links.append(LeadingLink(path=source, lines=list(edge.lines), to=edge.to))
        for source in dict.fromkeys(link.path for link in links):
            note = NotePath(source)
            if source == path:
                data = change_links(path, data, partial(redirect, path))
                continue
            file = read_text_file(workspace.scope, note)
            if file is None or workspace.scope.is_read_only(source):
                continue
            changed = change_links(source, file.data, partial(redirect, source))
            if changed != file.data:
                put = make_put(workspace.scope, note, changed, file, way_out=WAY_OUT)
                puts.append(replace(put, may_be_skipped=True))
    return puts, links, data


# --- the operations -----------------------------------------------------------------------------


async def set_memories(call: Call, params: SetParams, command: str) -> MemoriesSet:
    """Answer with the plan of a change, or carry it out."""
    workspace, config = await call.open(), call.config
    wanted = read_wanted(config, params)
    plan = partial(plan_set, workspace, config, params, wanted, call.now_s)
    is_applied = bool(params.anchors) if params.apply is None else params.apply
    if is_applied:
        # A memory that was saved a moment ago is found after a scan.
        await read_saved(call, partial(select_memories, workspace, config, params, call.now_s))
    outcome = await carry_out(call, command, plan, is_applied=is_applied, digest=params.plan)
    return answer_set(call, outcome, is_applied=is_applied)


def answer_set(call: Call, outcome: EditOutcome[MemoryPlan], *, is_applied: bool) -> MemoriesSet:
    """Make the answer of a plan, or of a plan that was carried out."""
    return MemoriesSet(
        is_applied=is_applied,
        plan=outcome.answer.digest,
        changed=list(outcome.answer.changed),
        unchanged=list(outcome.answer.unchanged),
        skipped=list(outcome.answer.skipped),
        links=list(outcome.answer.links),
        **call.describe_write(outcome),
    )


async def change(call: Call, params: SetParams) -> MemoriesSet:
    return await set_memories(call, params, "memory.set")


async def finish(call: Call, params: DoneParams) -> MemoriesSet:
    set_params = _make_set(params, anchors=params.anchors, status=DONE)
    return await set_memories(call, set_params, "memory.done")


async def relate(call: Call, params: RelateParams) -> MemoriesSet:
    relation = NewRelation(kind=params.relation, to=params.to)
    name = "unrelate" if params.remove else "relate"
    set_params = _make_set(params, anchors=[params.anchor], **{name: [relation]})
    return await set_memories(call, set_params, "memory.relate")


def _make_set(params: DoneParams | RelateParams, **fields: Any) -> SetParams:
    return SetParams(
        if_digest=params.if_digest,
        workspace=params.workspace,
        client=params.client,
        timeout_ms=params.timeout_ms,
        **fields,
    )
