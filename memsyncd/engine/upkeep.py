"""Archives, restores and promotes memories, and cleans up those past their time, by a plan.

A memory is a section of the first or second level without others of the second level beneath it,
with all sections beneath it. A plan names the memories that change, those that stay and those that
cannot change, and has a digest. It is computed from the index and the notes; carried out, it is one
change set, refused if it is no longer the plan whose digest the client names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.additions import Addition
from memsyncd.core.editing.kinds import find_kind
from memsyncd.core.editing.sections import SECTION_LEVEL, find_sections_bytes
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import ARCHIVED, Meta
from memsyncd.core.notepath import NotePath
from memsyncd.core.search.query import EVERYTHING, Filters
from memsyncd.core.upkeep import (
    archive_note,
    archive_sections,
    find_promoted,
    make_promotion,
    restore_note,
    restore_sections,
)
from memsyncd.engine.additions import append_additions, choose_note
from memsyncd.engine.edit import Decide, Edit, Put, make_put
from memsyncd.engine.metadata import (
    Valuation,
    find_stored_moment_s,
    is_expired,
)
from memsyncd.engine.search import complete_filters
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, Conflict, NoteNotFound, TooLarge
from memsyncd.files.read import read_text_file, resolve
from memsyncd.operations import sections
from memsyncd.operations.upkeep.declare import (
    ArchiveParams,
    CleanupParams,
    PromotedMemory,
    PromoteParams,
    UpkeepItem,
    UpkeepPlan,
)
from memsyncd.store.lookup import StoredNote, StoredSection, by_path, stream_notes, stream_sections

PLAN_LIMIT_S = 10.0
PROJECT = "project"
NO_FILTERS = sections.Filters()

Act = Literal["archive", "restore", "cleanup", "topic.archive", "topic.restore"]
_RESTORING = frozenset(("restore", "topic.restore"))
Verdict = tuple[Literal["change", "retain", "skip"], str]
"""What becomes of a memory, and why."""


class Memory(msgspec.Struct, frozen=True):
    """A section with those beneath it, in a note as indexed."""

    note: StoredNote
    sections: tuple[StoredSection, ...]
    is_whole: bool = False
    """All of the note."""

    @property
    def head(self) -> StoredSection:
        return self.sections[0]


Judge = Callable[[Memory], Verdict | None]
"""Decides about a memory; None if it is not asked for."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for the client, and the new bytes of each note."""

    plan: UpkeepPlan
    puts: tuple[Put, ...]


# --- acts ---------------------------------------------------------------------------------------


def plan_archive(
    workspace: Workspace, config: Config, params: ArchiveParams, valuation: Valuation
) -> Planned:
    """Plan to archive the memories that are named, that pass the filters, or whose decay is below a
    limit; without any of these, those whose decay is below the configured limit.
    """
    selected = _select_anchors(workspace, config, params, valuation)
    below = params.below
    if below is None and not _is_selecting(params):
        below = config.memory.archive_below

    def judge(memory: Memory) -> Verdict | None:
        if selected is not None and memory.head.anchor not in selected:
            return None
        refusal = _find_protection(memory, config)
        if refusal:
            return "skip", refusal
        if below is None:
            return "change", "named"
        score = value_memory(memory, valuation)
        return ("change", "decay") if score < below else ("retain", "decay")

    among = find_paths(params.anchors or selected)
    return _make_plan(workspace, "archive", judge, valuation, _select(params.anchors), among)


def plan_restore(
    workspace: Workspace, config: Config, params: ArchiveParams, valuation: Valuation
) -> Planned:
    """Plan to restore the archived memories that are named or pass the filters."""
    if not _is_selecting(params):
        hint = "name anchors, a path or filters; undo takes a whole change set back"
        raise BadRequest("no memory to restore is selected", hint=hint)
    if params.below is not None:
        raise BadRequest("restore takes no `below`", hint="name anchors, a path or filters")
    selected = _select_anchors(workspace, config, params, valuation)

    def judge(memory: Memory) -> Verdict | None:
        has_archived = any(one.status == ARCHIVED for one in memory.sections)
        is_selected = selected is None or memory.head.anchor in selected
        return ("change", "named") if has_archived and is_selected else None

    among = find_paths(params.anchors or selected)
    return _make_plan(workspace, "restore", judge, valuation, _select(params.anchors), among)


def plan_cleanup(
    workspace: Workspace, config: Config, params: CleanupParams, valuation: Valuation
) -> Planned:
    """Plan to archive memories past their time: expired ones, ephemeral ones and those of sessions,
    and on request those whose decay is below a limit.
    """
    limits_s = {"ephemeral": config.memory.ephemeral_s, "session": config.memory.session_s}

    def judge(memory: Memory) -> Verdict | None:
        head = memory.head
        limit_s = limits_s.get(head.lifecycle or "")
        score = value_memory(memory, valuation)
        if is_expired(head.expires, valuation.now_s):
            reason = "expired"
        elif limit_s is not None and valuation.now_s - find_stored_moment_s(head) > limit_s:
            reason = head.lifecycle or ""
        elif params.below is not None and score < params.below:
            reason = "decay"
        else:
            return None if limit_s is None and params.below is None else ("retain", "in time")
        refusal = _find_protection(memory, config)
        return ("skip", refusal) if refusal else ("change", reason)

    among = _find_expiring(workspace) if params.below is None else None
    return _make_plan(workspace, "cleanup", judge, valuation, list_memories, among)


class _Lifetime(NamedTuple):
    """A section as far as it tells how long it lasts."""

    path: str
    lifecycle: str | None
    expires: str | None


def _find_expiring(workspace: Workspace) -> set[str]:
    """Return the paths of the notes with a section whose time is limited."""
    with (
        workspace.acquire(PLAN_LIMIT_S) as reader,
        stream_sections(reader, _Lifetime, filters=EVERYTHING) as sections,
    ):
        return {path for path, lifecycle, expires in sections if lifecycle or expires}


def plan_notes(
    workspace: Workspace,
    config: Config,
    act: Act,
    paths: Collection[str],
    valuation: Valuation,
) -> Planned:
    """Plan to archive these notes as a whole, or to restore those that were archived so. A note
    with a protected memory is skipped.
    """

    def judge(memory: Memory) -> Verdict:
        if act == "topic.restore":
            return "change", "named"
        refusal = _find_protection(memory, config)
        return ("skip", refusal) if refusal else ("change", "named")

    def list_whole(notes: Sequence[StoredNote]) -> Iterator[Memory]:
        for note in notes:
            if note.sections:
                yield Memory(note, note.sections, is_whole=True)

    return _make_plan(workspace, act, judge, valuation, list_whole, paths)


def make_upkeep_decision(
    plan: Callable[[], Planned], act: str, *, client: str, digest: str | None
) -> Decide[UpkeepPlan]:
    """Make the decision to carry out a plan, which is computed again when its turn comes.

    It raises Conflict if `digest` is given and the plan has another one by then.
    """

    def make_conflict(now: str | None) -> Conflict:
        return Conflict(
            f"{act}: notes have changed since this was planned",
            hint="plan again with a dry run, then apply that plan",
            wanted=digest,
            digest=now,
        )

    def decide() -> tuple[Edit, UpkeepPlan]:
        try:
            planned = plan()
        except NoteNotFound as error:
            # A section that was planned and is gone is a change as well.
            raise (make_conflict(None) if digest is not None else error) from error
        if digest is not None and planned.plan.plan != digest:
            raise make_conflict(planned.plan.plan)
        edit = Edit(command=act, client=client, path=".", operations=planned.puts)
        return edit, planned.plan

    return decide


# --- memories -----------------------------------------------------------------------------------


def list_memories(notes: Sequence[StoredNote]) -> Iterator[Memory]:
    """Yield the memories of notes; neither what is before the first heading, nor titles."""
    for note in notes:
        sections = note.sections
        at = 0
        while at < len(sections):
            head, after = sections[at], _find_end(sections, at)
            is_title = any(one.level <= SECTION_LEVEL for one in sections[at + 1 : after])
            if head.level and not is_title:
                yield Memory(note, sections[at:after])
            at = at + 1 if is_title else after


def _find_end(sections: Sequence[StoredSection], at: int) -> int:
    """Return where the sections beneath the one at `at` end."""
    head, beneath = sections[at], f"{sections[at].anchor}/"
    after = at + 1
    while after < len(sections) and (
        sections[after].level > head.level > 0 and sections[after].anchor.startswith(beneath)
    ):
        after += 1
    return after


def list_named(notes: Sequence[StoredNote], anchors: Sequence[str]) -> Iterator[Memory]:
    """Yield the named sections, each with all beneath it. Raises NoteNotFound for one that is not
    there.
    """
    named = set(anchors)
    for note in notes:
        found = [at for at, one in enumerate(note.sections) if one.anchor in named]
        done = 0
        for at in found:
            if at >= done:
                done = _find_end(note.sections, at)
                yield Memory(note, note.sections[at:done])
        named -= {note.sections[at].anchor for at in found}
    if named:
        hint = "list sections with: memsyncd list --sections"
        raise NoteNotFound(f"no section {min(named)}", hint=hint)


def _select(anchors: Sequence[str]) -> Callable[[Sequence[StoredNote]], Iterator[Memory]]:
    """Select the named sections, or every memory."""
    return (lambda notes: list_named(notes, anchors)) if anchors else list_memories


def value_memory(memory: Memory, valuation: Valuation) -> float:
    return round(valuation.compute(memory.head).score, 4)


def _find_protection(memory: Memory, config: Config) -> str:
    """Return why a memory is never archived, or why it need not be; empty if it may be."""
    if any(one.lifecycle == PROJECT for one in memory.sections):
        return "its lifecycle is project"
    for section in memory.sections:
        if find_kind(config.kinds, section.kind).protected:
            return f"its kind, {section.kind}, is protected"
    if all(one.status == ARCHIVED for one in memory.sections):
        return "it is archived already"
    return ""


def _is_selecting(params: ArchiveParams) -> bool:
    return bool(params.anchors or params.path is not None or params.filters != NO_FILTERS)


def _select_anchors(
    workspace: Workspace, config: Config, params: ArchiveParams, valuation: Valuation
) -> set[str] | None:
    """Return the sections that the path and the filters select, None without either."""
    if params.path is None and params.filters == NO_FILTERS:
        return None
    if params.filters.include_archived or params.filters.include_expired:
        hint = "leave include_archived and include_expired out"
        raise BadRequest("archived and expired memories are looked at anyway", hint=hint)
    if params.anchors:
        hint = "leave out the anchors, or the path and the filters"
        raise BadRequest("name either anchors or a path and filters", hint=hint)
    filters = complete_filters(params.filters, config, valuation.now_s, valuation.accesses)
    filters = replace(filters, includes_archived=True, includes_expired=True)
    return find_anchors(workspace, filters, path=params.path)


class _Anchor(NamedTuple):
    anchor: str


def find_anchors(workspace: Workspace, filters: Filters, *, path: str | None = None) -> set[str]:
    """Return the anchors of the sections that pass filters."""
    with (
        workspace.acquire(PLAN_LIMIT_S) as reader,
        stream_sections(reader, _Anchor, filters=filters, path=path) as sections,
    ):
        return {one.anchor for one in sections}


def find_paths(anchors: Iterable[str] | None) -> set[str] | None:
    """Return the paths of the notes of sections; None for none given, which stands for all."""
    return None if anchors is None else {anchor.rpartition("#")[0] for anchor in anchors}


# --- plans --------------------------------------------------------------------------------------


def _make_plan(
    workspace: Workspace,
    act: Act,
    judge: Judge,
    valuation: Valuation,
    select: Callable[[Sequence[StoredNote]], Iterator[Memory]],
    among: Collection[str] | None,
) -> Planned:
    """Judge the memories that are selected in the notes `among`, None for all."""
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        notes = sorted(stream_notes(reader, among=among, filters=EVERYTHING), key=by_path)
    listed: dict[str, list[UpkeepItem]] = {"change": [], "retain": [], "skip": []}
    wanted: dict[NotePath, list[_Wanted]] = {}
    for memory in select(notes):
        verdict = judge(memory)
        if verdict is None:
            continue
        item = _describe(memory, verdict[1], valuation)
        if verdict[0] == "change":
            path = NotePath(memory.note.path)
            wanted.setdefault(path, []).append(_Wanted(item, memory))
        else:
            listed[verdict[0]].append(item)
    puts: list[Put] = []
    for path, several in wanted.items():
        put, refused = _change_note(workspace, act, path, several)
        puts += [put] if put else []
        for one in several:
            reason = refused.get(one.item.anchor)
            item = replace(one.item, reason=reason) if reason else one.item
            listed["skip" if reason else "change"].append(item)
    plan = UpkeepPlan(
        plan=_digest_plan(act, puts),
        archived=listed["change"] if act not in _RESTORING else [],
        restored=listed["change"] if act in _RESTORING else [],
        retained=listed["retain"],
        skipped=listed["skip"],
    )
    return Planned(plan=plan, puts=tuple(puts))


class _Wanted(msgspec.Struct, frozen=True):
    item: UpkeepItem
    memory: Memory

    def list_anchors(self, act: Act) -> list[str]:
        """Return the anchors of the sections that the act changes."""
        if self.memory.is_whole:
            return [self.memory.head.anchor]
        is_from_archive = act == "restore"
        sections = self.memory.sections
        return [one.anchor for one in sections if (one.status == ARCHIVED) is is_from_archive]


def _digest_plan(act: Act, puts: Sequence[Put]) -> str:
    """Return a digest of the notes that change, of their present and of their new texts."""
    notes = [
        (put.path.text, put.was.digest if put.was else "", digest_bytes(put.data)) for put in puts
    ]
    return digest_bytes(json.dumps([act, notes]).encode())


def _describe(memory: Memory, reason: str, valuation: Valuation) -> UpkeepItem:
    head, score = memory.head, value_memory(memory, valuation)
    return UpkeepItem(
        anchor=head.anchor,
        path=memory.note.path,
        start_line=head.span.start,
        end_line=memory.sections[-1].span.end,
        heading=list(head.heading),
        decay=score,
        tier=valuation.find_tier(score),
        reason=reason,
    )


def _change_note(
    workspace: Workspace, act: Act, path: NotePath, wanted: Sequence[_Wanted]
) -> tuple[Put | None, dict[str, str]]:
    """Return what writes a note with its memories changed, and why the others of them stay.

    Raises Conflict if the note is not as indexed.
    """
    scope = workspace.scope
    if resolve(scope, path).folder != scope.root or scope.is_read_only(path.text):
        return None, {one.item.anchor: "its note is read only" for one in wanted}
    file = read_text_file(scope, path)
    if file is None or file.digest != wanted[0].memory.note.digest:
        hint = "try again once it is indexed"
        raise Conflict(f"{path.text} was saved a moment ago", hint=hint)
    anchors = {one.item.anchor: one.list_anchors(act) for one in wanted}
    data, reasons = _change_text(act, path, file.data, anchors)
    refused = {
        item: next(reasons[anchor] for anchor in several if anchor in reasons)
        for item, several in anchors.items()
        if not reasons.keys().isdisjoint(several)
    }
    if refused:
        left = {item: several for item, several in anchors.items() if item not in refused}
        data, _ = _change_text(act, path, file.data, left)
    if data == file.data:
        return None, refused
    try:
        return make_put(scope, path, data, file, way_out="split the note"), refused
    except TooLarge as error:
        return None, {one.item.anchor: error.message for one in wanted}


def _change_text(
    act: Act, path: NotePath, data: bytes, anchors: Mapping[str, Sequence[str]]
) -> tuple[bytes, dict[str, str]]:
    if act in ("topic.archive", "topic.restore"):
        changed = (archive_note if act == "topic.archive" else restore_note)(path.text, data)
        named = [anchor for several in anchors.values() for anchor in several]
        if not named:
            return data, {}
        return (data, dict.fromkeys(named, changed)) if isinstance(changed, str) else (changed, {})
    change = restore_sections if act == "restore" else archive_sections
    return change(path.text, data, [anchor for several in anchors.values() for anchor in several])


# --- Promotion to lasting knowledge ---------------------------------------------------------------

TASK_SUMMARY = "summary"


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
    path = choose_note(workspace.scope, config, note=named)
    if params.anchor is not None and params.anchor.rpartition("#")[0] == path.text:
        hint = "name another note, or change its tags and its lifecycle there"
        raise BadRequest(f"{params.anchor} is in {path.text} already", hint=hint)

    def decide() -> tuple[Edit, list[PromotedMemory]]:
        memories = _find_memories(workspace, params)
        file = read_text_file(workspace.scope, path)
        known = parse_note(path, file.data, config.chunking).sections if file else ()
        promoted: list[PromotedMemory] = []
        additions: list[Addition] = []
        for memory in memories:
            source, heading = memory.head.anchor, memory.head.heading
            is_there = memory.note.path == path.text
            anchor = source if is_there else find_promoted(known, source, tag)
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
            replace(one, anchor=next(new).anchor) if one.is_new and not params.dry_run else one
            for one in promoted
        ]
        operations = () if params.dry_run else puts
        edit = Edit(command="promote", client=client, path=path.text, operations=operations)
        return edit, answer

    return decide


def _find_memories(workspace: Workspace, params: PromoteParams) -> Sequence[Memory]:
    if params.anchor is not None:
        passing = {params.anchor}
    else:
        filters = Filters(kinds=(TASK_SUMMARY,), tasks=(params.task or "",))
        passing = find_anchors(workspace, filters)
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        found = stream_notes(reader, among=find_paths(passing), filters=EVERYTHING)
        notes = sorted(found, key=by_path)
    if params.anchor is not None:
        return [*list_named(notes, [params.anchor])]
    memories = [one for one in list_memories(notes) if one.head.anchor in passing]
    if not memories:
        hint = f"see its memories with: memsyncd list --task {params.task}"
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
