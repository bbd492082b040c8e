"""Plan to archive or restore memories, and answer with the plan or carry it out.

A plan names the memories that change, that stay and that cannot change, and it has a digest. It is
computed from the index and the notes. To carry out a plan makes one change set. It is refused if
the client names a digest and the plan, computed again, has another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.kinds import find_kind
from memsyncd.core.model import ARCHIVED
from memsyncd.core.paths import NotePath
from memsyncd.core.search.filters import EVERYTHING
from memsyncd.core.upkeep import (
    archive_note,
    archive_sections,
    restore_note,
    restore_sections,
)
from memsyncd.engine.accesses import count_accesses
from memsyncd.engine.edit import Decide, Edit, EditOutcome, Put, make_put
from memsyncd.engine.memories import PLAN_LIMIT_S, Memory
from memsyncd.engine.metadata import (
    Valuation,
    make_valuation,
)
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import Conflict, NoteNotFound, TooLarge
from memsyncd.files.read import read_text_file, resolve
from memsyncd.operations.call import Call
from memsyncd.operations.upkeep.declare import (
    PlanParams,
    UpkeepItem,
    UpkeepPlan,
    Upkept,
)
from memsyncd.store.lookup import StoredNote, by_path, stream_notes
from memsyncd.store.sections import StoredSection

Act = Literal["archive", "restore", "cleanup", "topic.archive", "topic.restore"]
_RESTORING = frozenset(("restore", "topic.restore"))
PROJECT = "project"
Verdict = tuple[Literal["change", "retain", "skip"], str]
"""Whether a memory changes, stays or cannot change, and the reason."""
Judge = Callable[[Memory[StoredSection]], Verdict | None]
"""Judges a memory; returns None if the request does not select it."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for the client, and the new bytes of each note."""

    plan: UpkeepPlan
    puts: tuple[Put, ...]


def plan_notes(
    workspace: Workspace,
    config: Config,
    act: Act,
    paths: Collection[str],
    valuation: Valuation,
) -> Planned:
    """Plan to archive whole notes, or to restore notes that were archived as a whole. Archiving
    skips a note with a protected memory.
    """

    def judge(memory: Memory[StoredSection]) -> Verdict:
        if act == "topic.restore":
            return "change", "named"
        refusal = find_protection(memory, config)
        return ("skip", refusal) if refusal else ("change", "named")

    def list_whole(notes: Sequence[StoredNote]) -> Iterator[Memory[StoredSection]]:
        for note in notes:
            if note.sections:
                yield Memory(note.path, note.digest, note.sections, is_whole=True)

    return make_plan(workspace, act, judge, valuation, list_whole, paths)


def make_upkeep_decision(
    plan: Callable[[], Planned], act: str, *, client: str, digest: str | None
) -> Decide[UpkeepPlan]:
    """Make the decision to carry out a plan, which is computed again when its turn comes.

    The decision raises Conflict if `digest` is not None and the plan has another digest by then.
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
            # The notes have also changed if a planned section is gone.
            raise (make_conflict(None) if digest is not None else error) from error
        if digest is not None and planned.plan.plan != digest:
            raise make_conflict(planned.plan.plan)
        edit = Edit(command=act, client=client, path=".", operations=planned.puts)
        return edit, planned.plan

    return decide


def value_memory(memory: Memory[StoredSection], valuation: Valuation) -> float:
    return round(valuation.compute(memory.head).score, 4)


def find_protection(memory: Memory[StoredSection], config: Config) -> str:
    """Return why a memory is not archived: it is protected, or archived already. Empty if it may be
    archived.
    """
    if any(section.lifecycle == PROJECT for section in memory.sections):
        return "its lifecycle is project"
    for section in memory.sections:
        if find_kind(config.kinds, section.kind).protected:
            return f"its kind, {section.kind}, is protected"
    if all(section.status == ARCHIVED for section in memory.sections):
        return "it is archived already"
    return ""


def make_plan(
    workspace: Workspace,
    act: Act,
    judge: Judge,
    valuation: Valuation,
    select: Callable[[Sequence[StoredNote]], Iterator[Memory[StoredSection]]],
    among: Collection[str] | None,
) -> Planned:
    """Make a plan of the memories that `select` takes from the notes `among`; None means all notes.

    `judge` decides which of them change. `reason` of an item is the reason of its verdict.
    """
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        notes = sorted(stream_notes(reader, among=among, filters=EVERYTHING), key=by_path)
    listed: dict[str, list[UpkeepItem]] = {"change": [], "retain": [], "skip": []}
    changes: dict[NotePath, list[_MemoryChange]] = {}
    for memory in select(notes):
        verdict = judge(memory)
        if verdict is None:
            continue
        item = _describe(memory, verdict[1], valuation)
        if verdict[0] == "change":
            path = NotePath(memory.path)
            changes.setdefault(path, []).append(_MemoryChange(item, memory))
        else:
            listed[verdict[0]].append(item)
    puts: list[Put] = []
    for path, several in changes.items():
        put, refused = _change_note(workspace, act, path, several)
        puts += [put] if put else []
        for change in several:
            reason = refused.get(change.item.anchor)
            item = replace(change.item, reason=reason) if reason else change.item
            listed["skip" if reason else "change"].append(item)
    plan = UpkeepPlan(
        plan=_digest_plan(act, puts),
        archived=listed["change"] if act not in _RESTORING else [],
        restored=listed["change"] if act in _RESTORING else [],
        retained=listed["retain"],
        skipped=listed["skip"],
    )
    return Planned(plan=plan, puts=tuple(puts))


class _MemoryChange(msgspec.Struct, frozen=True):
    item: UpkeepItem
    memory: Memory[StoredSection]

    def list_anchors(self, act: Act) -> list[str]:
        """Return the anchors of the sections that the act changes."""
        if self.memory.is_whole:
            return [self.memory.head.anchor]
        is_from_archive = act == "restore"
        sections = self.memory.sections
        return [
            section.anchor
            for section in sections
            if (section.status == ARCHIVED) is is_from_archive
        ]


def _digest_plan(act: Act, puts: Sequence[Put]) -> str:
    """Return a digest of the paths, the present texts and the new texts of the notes to change."""
    notes = [
        (put.path.text, put.was.digest if put.was else "", digest_bytes(put.data)) for put in puts
    ]
    return digest_bytes(json.dumps([act, notes]).encode())


def _describe(memory: Memory[StoredSection], reason: str, valuation: Valuation) -> UpkeepItem:
    head, score = memory.head, value_memory(memory, valuation)
    return UpkeepItem(
        anchor=head.anchor,
        path=memory.path,
        start_line=head.span.start,
        end_line=memory.sections[-1].span.end,
        heading=list(head.heading),
        decay=score,
        tier=valuation.find_tier(score),
        reason=reason,
    )


def _change_note(
    workspace: Workspace, act: Act, path: NotePath, changes: Sequence[_MemoryChange]
) -> tuple[Put | None, dict[str, str]]:
    """Return the write that changes the memories of one note, None if nothing changes, and the
    reasons why some of these memories cannot change, by anchor.

    Raises Conflict if the note differs from the index.
    """
    scope = workspace.scope
    if resolve(scope, path).folder != scope.root or scope.is_read_only(path.text):
        return None, {change.item.anchor: "its note is read only" for change in changes}
    file = read_text_file(scope, path)
    if file is None or file.digest != changes[0].memory.digest:
        hint = "try again once it is indexed"
        raise Conflict(f"{path.text} was saved a moment ago", hint=hint)
    anchors = {change.item.anchor: change.list_anchors(act) for change in changes}
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
        return None, {change.item.anchor: error.message for change in changes}


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


async def keep_up(
    call: Call, act: str, params: PlanParams, plan: Callable[[Valuation], Planned]
) -> Upkept:
    """Answer with the plan, or carry it out. `plan` makes it from the present worth of memories."""
    workspace = await call.open()

    def make() -> Planned:
        return plan(make_valuation(call.config, call.now_s, count_accesses(workspace)))

    outcome: EditOutcome[UpkeepPlan]
    if params.dry_run:
        planned = await call.read(make, on_disk=True)
        outcome = EditOutcome(answer=planned.plan)
    else:
        decide = make_upkeep_decision(make, act, client=call.writer, digest=params.plan)
        outcome = await call.edit(decide)
    return Upkept(
        is_applied=not params.dry_run, **asdict(outcome.answer), **call.describe_write(outcome)
    )
