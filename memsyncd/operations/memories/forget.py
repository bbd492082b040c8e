"""Forgets memories: removes them from their notes, and from the history if they are purged."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import find_kind
from memsyncd.core.editing.memories import change_links, list_beneath, remove_sections
from memsyncd.core.editing.sections import (
    match_sections,
    split_note_sections,
    trace_sections,
)
from memsyncd.core.markdown.linkgraph import note_of
from memsyncd.core.markdown.links import Mention
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.model import Section
from memsyncd.core.paths import NotePath
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import (
    Decide,
    Delete,
    Edit,
    EditOutcome,
    Put,
    check_digest,
    make_put,
)
from memsyncd.engine.memories import PLAN_LIMIT_S
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import (
    BadRequest,
    ConfirmationNeeded,
    EditRefused,
    NoteNotFound,
    PathRefused,
)
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.operations.call import Call, read_saved
from memsyncd.operations.history.declare import PurgeParams
from memsyncd.operations.memories.declare import (
    ForgetParams,
    LeadingLink,
    MemoriesForgotten,
    MemoryItem,
)
from memsyncd.operations.memories.selection import (
    WAY_OUT,
    Selected,
    describe_memory,
    digest_changes,
    read_selected,
    resolve_mention,
    select_memories,
)
from memsyncd.operations.plans import check_plan
from memsyncd.operations.revisions import (
    CONFIRM_HINT,
    Target,
    iter_revisions,
    list_foreign_texts,
    open_history,
    purge_accesses,
    read_texts,
)
from memsyncd.store.backup import remove_leftovers
from memsyncd.store.history import Purged
from memsyncd.store.links import StoredLinks

COMMAND: Final = "memory.forget"


class ForgetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a removal. `anchors` are the sections to remove by note; an empty list stands for
    the whole note. `reasons` are the reasons to ask somebody first.
    """

    changes: tuple[Put | Delete, ...]
    forgotten: tuple[MemoryItem, ...]
    skipped: tuple[MemoryItem, ...]
    links: tuple[LeadingLink, ...]
    anchors: Mapping[str, Sequence[str]]
    reasons: tuple[str, ...]

    @property
    def digest(self) -> str:
        return digest_changes(self.changes)

    @property
    def removed(self) -> list[str]:
        """The paths of the notes that go as a whole."""
        return [change.path.text for change in self.changes if isinstance(change, Delete)]


class _Going(NamedTuple):
    """A note that is removed as a whole or in part."""

    file: TextFile
    anchors: list[str]
    is_whole: bool
    data: bytes
    """The rest of the note; empty for a note that is removed."""


def plan_forget(
    workspace: Workspace, config: Config, params: ForgetParams, now_s: float
) -> ForgetPlan:
    """Plan the removal of all selected memories.

    Raises EditRefused and PathRefused if a memory that is named cannot be removed.
    """
    selected = select_memories(workspace, config, params, now_s, is_removal=True)
    if params.if_digest is not None and len(selected) > 1:
        raise BadRequest("if_digest is of one note", hint="name memories of one note")
    forgotten: list[MemoryItem] = []
    skipped: list[MemoryItem] = []
    reasons: list[str] = []
    going: dict[str, _Going] = {}
    for path, of_note in selected.items():
        try:
            file = read_selected(workspace, config, path, of_note)
            check_digest(params.if_digest, path, file)
            chosen = _choose(config, params, path, file, of_note)
            left = _remove(path, file.data, chosen)
        except (EditRefused, PathRefused) as refusal:
            if params.anchors:
                raise
            place = MemoryItem(
                anchor=path, path=path, start_line=1, end_line=1, heading=[], kind=None,
                digest="", reason=refusal.message,
            )  # fmt: skip
            skipped.append(place)
            continue
        forgotten += chosen.forgotten
        skipped += chosen.skipped
        reasons += chosen.reasons
        if chosen.anchors or chosen.is_whole:
            going[path] = _Going(file, chosen.anchors, chosen.is_whole, left)
    changes, links = _change_notes(workspace, going, is_unlinking=params.unlink)
    if params.purge:
        reasons.append("no undo brings back what is purged")
    return ForgetPlan(
        changes=tuple(changes),
        forgotten=tuple(forgotten),
        skipped=tuple(skipped),
        links=tuple(links),
        anchors={path: [] if note.is_whole else note.anchors for path, note in going.items()},
        reasons=tuple(reasons),
    )


class _Chosen(msgspec.Struct):
    """The sections of a note to remove, and the reasons to ask somebody first."""

    is_whole: bool = False
    anchors: list[str] = []
    forgotten: list[MemoryItem] = []
    skipped: list[MemoryItem] = []
    reasons: list[str] = []


def _choose(
    config: Config, params: ForgetParams, path: str, file: TextFile, selected: Selected
) -> _Chosen:
    """Choose the sections to remove from a note: each memory with all sections beneath it. Raises
    NoteNotFound.
    """
    note = parse_note(NotePath(path), file.data, config.chunking)
    by_anchor = {section.anchor: section for section in note.sections}
    raw = split_note_sections(path, file.data)
    chosen = _Chosen(is_whole=None in selected.anchors)
    named = [None] if chosen.is_whole else list(selected.anchors)
    for anchor in named:
        own = (
            list(by_anchor)
            if anchor is None
            else [section.anchor for section in list_beneath(raw, anchor)]
        )
        if anchor is not None and not own:
            raise NoteNotFound(f"no section {anchor}", hint="see: memsyncd list --sections")
        sections = [by_anchor[each] for each in own if each not in chosen.anchors]
        protected = _find_protected_kind(config, sections)
        reason = f"the kind of {anchor or path}, {protected}, is protected" if protected else ""
        items = [describe_memory(path, file.data, section, note.n_lines) for section in sections]
        if reason and not params.anchors and not params.confirm:
            chosen.skipped += [
                replace(item, reason=f"its kind, {protected}, is protected") for item in items[:1]
            ]
            continue
        chosen.reasons += [reason] if reason else []
        unnamed = [each for each in own[1:] if each not in selected.anchors]
        if anchor is not None and unnamed and params.anchors:
            chosen.reasons.append(f"{', '.join(unnamed)} would go with {anchor}")
        chosen.anchors += [section.anchor for section in sections]
        chosen.forgotten += items or [describe_memory(path, file.data, None, note.n_lines)]
    return chosen


def _find_protected_kind(config: Config, sections: Collection[Section]) -> str:
    kinds = (section.meta.kind for section in sections)
    return next((kind for kind in kinds if kind and find_kind(config.kinds, kind).protected), "")


def _remove(path: str, data: bytes, chosen: _Chosen) -> bytes:
    if chosen.is_whole or not chosen.anchors:
        return b"" if chosen.is_whole else data
    return remove_sections(path, data, chosen.anchors)


def _change_notes(
    workspace: Workspace, going: Mapping[str, _Going], *, is_unlinking: bool
) -> tuple[list[Put | Delete], list[LeadingLink]]:
    """Return the changes of all notes, and the links to removed sections and notes."""
    left: dict[str, tuple[TextFile, bytes]] = {
        path: (note.file, note.data) for path, note in going.items()
    }
    links: list[LeadingLink] = []
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        stored = StoredLinks(reader)
        for path, note in going.items():
            gone = {path, *note.anchors} if note.is_whole else {*note.anchors}
            for edge in stored.list_incoming(path):
                source = note_of(edge.source)
                is_going = source in going and (
                    going[source].is_whole or edge.source in going[source].anchors
                )
                if edge.to in gone and not is_going:
                    links.append(LeadingLink(path=source, lines=list(edge.lines), to=edge.to or ""))
        places = {link.to for link in links}

        def redirect(source: str, mention: Mention) -> str | None:
            return "" if resolve_mention(stored, source, mention) in places else None

        for source in dict.fromkeys(link.path for link in links) if is_unlinking else ():
            file, data = left.get(source) or (
                read_text_file(workspace.scope, NotePath(source)),
                b"",
            )
            if file is None or workspace.scope.is_read_only(source):
                continue
            data = data if source in left else file.data
            left[source] = file, change_links(source, data, partial(redirect, source))
    changes: list[Put | Delete] = []
    unlinked = {path for path, (file, data) in left.items() if is_unlinking and data != file.data}
    links = [replace(link, is_removed=link.path in unlinked) for link in links]
    for path, (file, data) in left.items():
        # A note without any other text is deleted, so that no empty file stays.
        if not data.strip() and path in going:
            changes.append(Delete(path=file.path, was={file.path: file}))
        elif data != file.data:
            put = make_put(workspace.scope, file.path, data, file, way_out=WAY_OUT)
            changes.append(put if path in going else replace(put, may_be_skipped=True))
    return changes, links


# --- the history --------------------------------------------------------------------------------


def purge_memories(
    workspace: Workspace, config: Config, clock: Clock, anchors: Mapping[str, Sequence[str]]
) -> Job[Purged]:
    """Erase the revisions whose texts hold these sections, under all headings that they had. If a
    note has no sections here, all of its revisions are erased.
    """
    history = open_history(workspace, config, clock)
    # A copy that a client has not fetched would keep the purged texts.
    remove_leftovers(workspace.records_path)
    chosen: list[int] = []
    for path, several in anchors.items():
        slugs = {anchor.rpartition("#")[2] for anchor in several}
        names_now: list[str | None] = [*slugs] or [None]
        for name in names_now:
            yield from purge_accesses(
                workspace, config, path=path, slugs=name, params=PurgeParams(path=path)
            )
        for revision in iter_revisions(history, Target(path=path)):
            yield
            if not several:
                chosen.append(revision.id)
                continue
            try:
                old, new = read_texts(history, revision)
            except NoteNotFound:
                continue
            before = trace_sections(revision.old_path or revision.path, old)
            after = trace_sections(revision.path, new)
            names = {section.slugs for section in after}
            is_in_new = not slugs.isdisjoint(names)
            former = match_sections(before, after).slugs if new is not None else {}
            if is_in_new:
                slugs = {section for section, to in former.items() if to in slugs}
            is_in_old = not slugs.isdisjoint(section.slugs for section in before)
            if is_in_new or is_in_old:
                chosen.append(revision.id)
    done = history.purge(revisions=chosen)
    if workspace.index is not None:
        workspace.index.purge()
    return done


# --- the operation ------------------------------------------------------------------------------


def make_forget_decision(
    workspace: Workspace, config: Config, params: ForgetParams, *, client: str, now_s: float
) -> Decide[ForgetPlan]:
    """Make the decision to forget. It raises ConfirmationNeeded if somebody must agree, and
    Conflict if the plan is not the plan that the client names.
    """

    def decide() -> tuple[Edit, ForgetPlan]:
        plan = plan_forget(workspace, config, params, now_s)
        check_plan(params.plan, plan.digest)
        going = (change.was for change in plan.changes if isinstance(change, Delete))
        files = (pair for was in going for pair in was.items())
        foreign = list_foreign_texts(workspace, config, files) if params.anchors else []
        reasons = [*plan.reasons, *(f"{path} goes, which others have written" for path in foreign)]
        if reasons and not params.confirm:
            raise ConfirmationNeeded("; ".join(reasons), hint=CONFIRM_HINT)
        path = next(iter(plan.anchors), ".") if len(plan.anchors) == 1 else "."
        edit = Edit(command=COMMAND, client=client, path=path, operations=plan.changes)
        return edit, plan

    return decide


async def forget(call: Call, params: ForgetParams) -> MemoriesForgotten:
    workspace, config = await call.open(), call.config
    is_applied = bool(params.anchors) if params.apply is None else params.apply
    outcome: EditOutcome[ForgetPlan]
    erased: dict[str, Any] = {"purged": 0, "is_clean": True}
    if is_applied:
        select = partial(select_memories, workspace, config, params, call.now_s, is_removal=True)
        await read_saved(call, select)
        decide = make_forget_decision(
            workspace, config, params, client=call.writer, now_s=call.now_s
        )
        outcome = await call.edit(decide)
        if params.purge and outcome.answer.anchors:
            job = partial(purge_memories, anchors=outcome.answer.anchors)
            done = await call.run_job(job, is_write=True)
            call.tidy_later()
            erased = {"purged": done.n_revisions, "is_clean": done.is_clean}
            outcome = replace(outcome, change_set=None)
    else:
        plan = partial(plan_forget, workspace, config, params, call.now_s)
        outcome = EditOutcome(answer=await call.read(plan, on_disk=True))
    return MemoriesForgotten(
        is_applied=is_applied,
        plan=outcome.answer.digest,
        forgotten=list(outcome.answer.forgotten),
        skipped=list(outcome.answer.skipped),
        links=[
            replace(link, is_removed=link.is_removed and link.path not in outcome.skipped)
            for link in outcome.answer.links
        ],
        removed=outcome.answer.removed,
        **erased,
        **call.describe_write(outcome),
    )
