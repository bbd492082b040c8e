"""Answer with a plan or carry it out; plan to archive or restore memories.

A plan to archive or restore counts the memories that change, that stay and that cannot change,
names a page of each, and has a digest. It is computed from the index alone, some notes at a time,
so that it may take long: it ends when its client leaves, and saves and other reads go on meanwhile.
A plan by a rule that is only shown is made from counts and the notes of its page, as a short read
if that takes few steps (`upkeep/rules`).
Only the notes of the page that is shown are read from the disk, to tell which of their memories
cannot be changed.

A plan is carried out in portions of NOTES_PER_EDIT notes, and saves are indexed between them. All
portions are one change set, so that one undo takes the plan back. It is refused if the client names
a digest and the plan, computed again, has another.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.kinds import find_kind
from memsyncd.core.memories import Outlook, find_outlook
from memsyncd.core.model import ARCHIVED
from memsyncd.core.paths import NotePath
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
    UpkeepItem,
    UpkeepParams,
    UpkeepPlan,
    Upkept,
)
from memsyncd.store.lookup import read_note_paths
from memsyncd.store.outlooks import mark_section
from memsyncd.store.sections import OutlinedNote, read_outlines

Act = Literal["archive", "restore", "cleanup", "topic.archive", "topic.restore"]
_RESTORING = frozenset(("restore", "topic.restore"))
Verdict = tuple[Literal["change", "retain", "skip"], str]
"""Whether a memory changes, stays or cannot change, and the reason."""
Judge = Callable[[Memory], Verdict | None]
"""Judges a memory; returns None if the request does not select it."""


class NotesPlan(Protocol):
    """The new bytes of each note, and a digest by which a client names the plan."""

    @property
    def digest(self) -> str: ...
    @property
    def puts(self) -> tuple[Put, ...]: ...


P = TypeVar("P", bound=NotesPlan)


async def carry_out(
    call: Call, command: str, make: Callable[[], P], *, is_applied: bool, digest: str | None = None
) -> EditOutcome[P]:
    """Return the plan that `make` computes, and carry it out if `is_applied`. Raises Conflict if
    notes have changed so that it has another digest than the plan that the client names.
    """
    if is_applied:
        decide = make_planned_decision(make, command, client=call.writer, digest=digest)
        return await call.edit(decide)
    return EditOutcome(answer=await call.read(make, on_disk=True))


def make_planned_decision(
    plan: Callable[[], P], command: str, *, client: str, digest: str | None
) -> Decide[P]:
    """Make the decision to carry out a plan, which is computed again when its turn comes. It raises
    Conflict if `digest` is not None and the plan has another digest by then.
    """

    def decide() -> tuple[Edit, P]:
        try:
            planned = plan()
        except NoteNotFound:
            # The notes have also changed if a planned section is gone.
            check_plan(digest, None)
            raise
        check_plan(digest, planned.digest)
        paths = {put.path.text for put in planned.puts}
        path = next(iter(paths)) if len(paths) == 1 else "."
        return Edit(command=command, client=client, path=path, operations=planned.puts), planned

    return decide


def check_plan(wanted: str | None, digest: str | None) -> None:
    """Raise Conflict if the client wants the plan of a digest, and the plan has another now."""
    if wanted is not None and wanted != digest:
        raise _make_conflict(wanted, digest, is_name=_is_digest(wanted))


def _is_digest(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{32}", text) is not None


def _make_conflict(wanted: str, digest: str | None, *, is_name: bool) -> Conflict:
    """Make the error that the plan is not the `wanted` one. `is_name` says whether this can be the
    name of a plan of the same method.
    """
    if is_name:
        message = f"the plan of this request is not {wanted} now: notes have changed since this was"
        message += " planned, or another request has shown that plan"
    else:
        message = f"{wanted} is not the name of a plan that this request has shown"
    return Conflict(
        f"{message}; nothing was changed",
        hint="see the plan again, with --dry-run or without --apply, and apply it by its name",
        wanted=wanted,
        digest=digest,
    )


# --- archive and restore --------------------------------------------------------------------------

NOTES_PER_READ, NOTES_PER_EDIT = 100, 50
"""So many notes are judged in one read of the index, and changed in one portion."""


class LongPlan(Exception):
    """A plan would read more than a short read may."""


class Page(NamedTuple):
    """The part of each list of a plan that an answer shows."""

    offset: int = 0
    limit: int = 100

    def has(self, at: int) -> bool:
        return self.offset <= at < self.offset + self.limit


class MemoryChange(msgspec.Struct, frozen=True):
    """A memory that changes: its anchor, the anchors of its sections that change, and its item if
    the page has it.
    """

    anchor: str
    sections: tuple[str, ...]
    item: UpkeepItem | None


class NotePlan(msgspec.Struct, frozen=True):
    """The changes of one note, which has this digest in the index since a generation."""

    path: NotePath
    digest: str
    generation: int
    memories: list[MemoryChange]

    @property
    def is_shown(self) -> bool:
        return any(memory.item for memory in self.memories)


class Planned(msgspec.Struct, kw_only=True):
    """A plan: the notes that it changes, and the items of the page that stay or cannot change. A
    plan by a rule that is only shown has the notes of the page alone.
    """

    name: str
    """Names the plan for the client: the digest; before it, if a rule made the plan, the generation
    of the index and a dash."""
    act: Act
    notes: list[NotePlan]
    retained: list[UpkeepItem]
    skipped: list[UpkeepItem]
    n_changed: int
    n_retained: int
    n_skipped: int

    def check(self, wanted: str | None) -> None:
        """Raise Conflict if the client wants a plan that is out of date, or another plan."""
        if wanted is None:
            return
        generation, dash, digest = wanted.rpartition("-")
        _, own_dash, own_digest = self.name.rpartition("-")
        is_name = _is_digest(digest) and dash == own_dash
        is_name = is_name and (not dash or generation.isdecimal())
        is_current = is_name and digest == own_digest
        if is_current and dash:
            is_current = all(note.generation <= int(generation) for note in self.notes)
        if not is_current:
            raise _make_conflict(wanted, self.name, is_name=is_name)
        self.name = wanted

    def list_portions(self) -> Iterator[Sequence[NotePlan]]:
        """Yield the notes of each portion; one without notes if nothing changes."""
        yield self.notes[:NOTES_PER_EDIT]
        for at in range(NOTES_PER_EDIT, len(self.notes), NOTES_PER_EDIT):
            yield self.notes[at : at + NOTES_PER_EDIT]

    def describe(self, refused: Mapping[str, str]) -> UpkeepPlan:
        """Return the plan for the client. `refused` has the reasons why some of the memories cannot
        change, by anchor.
        """
        memories = [memory for note in self.notes for memory in note.memories]
        changed = [
            each.item for each in memories if each.item is not None and each.anchor not in refused
        ]
        late = [
            replace(each.item, reason=refused[each.anchor])
            for each in memories
            if each.item is not None and each.anchor in refused
        ]
        n_changed, is_restored = self.n_changed - len(refused), self.act in _RESTORING
        return UpkeepPlan(
            plan=self.name,
            archived=[] if is_restored else changed,
            restored=changed if is_restored else [],
            retained=self.retained,
            skipped=[*self.skipped, *late],
            n_archived=0 if is_restored else n_changed,
            n_restored=n_changed if is_restored else 0,
            n_retained=self.n_retained,
            n_skipped=self.n_skipped + len(refused),
        )


def plan_notes(
    workspace: Workspace,
    config: Config,
    act: Act,
    paths: Collection[str],
    valuation: Valuation,
    page: Page = Page(),  # noqa: B008  it cannot be changed
) -> Planned:
    """Plan to archive whole notes, or to restore notes that were archived as a whole. Archiving
    skips a note with a protected memory.
    """

    def judge(memory: Memory) -> Verdict:
        if act == "topic.restore":
            return "change", "named"
        refusal = find_protection(memory, config)
        return ("skip", refusal) if refusal else ("change", "named")

    def list_whole(notes: Sequence[OutlinedNote], _: Collection[str]) -> Iterator[Memory]:
        for note in notes:
            if note.sections:
                yield Memory(note.path, note.digest, note.generation, note.sections, is_whole=True)

    return make_plan(workspace, act, judge, valuation, list_whole, paths, page)


def make_upkeep_decision(
    workspace: Workspace,
    act: Act,
    notes: Sequence[NotePlan],
    *,
    client: str,
    command: str,
    continues: int | None,
) -> Decide[dict[str, str]]:
    """Make the decision to change these notes of a plan, in the change set `continues` of the
    portions before them. It answers with the reasons why some of the memories cannot change, by
    anchor, and raises Conflict if a note differs from the plan.
    """

    def decide() -> tuple[Edit, dict[str, str]]:
        puts: list[Put] = []
        refused: dict[str, str] = {}
        for note in notes:
            put, reasons = _change_note(workspace, act, note)
            puts += [put] if put else []
            refused |= reasons
        operations = tuple(puts)
        edit = Edit(
            command=command, client=client, path=".", operations=operations, continues=continues
        )
        return edit, refused

    return decide


def preview(workspace: Workspace, planned: Planned) -> UpkeepPlan:
    """Return the plan for the client, once the notes of the page have been tried."""
    refused: dict[str, str] = {}
    for note in planned.notes:
        if note.is_shown:
            refused |= _change_note(workspace, planned.act, note)[1]
    return planned.describe(refused)


def find_protection(memory: Memory, config: Config) -> str:
    """Return why a memory is not archived: it is protected, or archived already. Empty if it may be
    archived.
    """
    return explain_protection(find_outlook(memory.sections), config)


def explain_protection(outlook: Outlook, config: Config) -> str:
    """As `find_protection`, by the memory's outlook."""
    if outlook.is_project:
        return "its lifecycle is project"
    for kind in outlook.kinds:
        if find_kind(config.kinds, kind).protected:
            return f"its kind, {kind}, is protected"
    return "it is archived already" if outlook.is_archived else ""


Select = Callable[[Sequence[OutlinedNote], Collection[str]], Iterator[Memory]]
"""Takes the memories to judge from notes; the second argument has the paths that were looked up."""


def make_plan(
    workspace: Workspace,
    act: Act,
    judge: Judge,
    valuation: Valuation,
    select: Select,
    among: Collection[str] | None,
    page: Page,
) -> Planned:
    """Make a plan of the memories that `select` takes from the notes `among`; None means all notes.

    `judge` decides which of them change. `reason` of an item is the reason of its verdict. Raises
    NotFresh when the client leaves.
    """
    with workspace.acquire(PLAN_LIMIT_S) as reader:
        paths = read_note_paths(reader) if among is None else sorted(among)
    maker = PlanMaker(act, judge, valuation)
    for several, notes in read_notes(workspace, paths):
        maker.add(select(notes, several), lambda _kind, _memory, at: page.has(at))
    return maker.finish()


class PlanMaker:
    """Collects the judged memories of a plan, in any order of notes."""

    def __init__(self, act: Act, judge: Judge, valuation: Valuation) -> None:
        self._act = act
        self._judge = judge
        self._valuation = valuation
        self.counts = {"change": 0, "retain": 0, "skip": 0}
        self.total = 0
        """The sum of the marks of the first sections of the memories that change."""
        self._listed: dict[str, list[UpkeepItem]] = {"retain": [], "skip": []}
        self._changes: list[NotePlan] = []

    def add(self, memories: Iterable[Memory], has: Callable[[str, Memory, int], bool]) -> None:
        """Judge the memories of whole notes. `has` tells whether the page has a memory, from its
        verdict, and from how many memories with this verdict came before it.
        """
        changes = self._changes
        for memory in memories:
            verdict = self._judge(memory)
            if verdict is None:
                continue
            kind, reason = verdict
            is_shown = has(kind, memory, self.counts[kind])
            self.counts[kind] += 1
            item = _describe(memory, reason, self._valuation) if is_shown else None
            if kind != "change":
                self._listed[kind] += [item] if item else []
                continue
            self.total += mark_section(memory.head.section)
            if not changes or changes[-1].path.text != memory.path:
                path = NotePath(memory.path)
                changes.append(NotePlan(path, memory.digest, memory.generation, []))
            sections = _list_changing(memory, self._act)
            changes[-1].memories.append(MemoryChange(memory.head.anchor, sections, item))

    def finish(self, name: str = "", counts: Mapping[str, int] | None = None) -> Planned:
        """Return the plan. A plan by a rule has a name and counts; without a name, the digest is
        the name.
        """
        counts = counts or self.counts
        self._changes.sort(key=lambda note: note.path.text)
        for items in self._listed.values():
            items.sort(key=lambda item: (item.path, item.start_line))
        return Planned(
            name=name or self._make_digest(),
            act=self._act,
            notes=self._changes,
            retained=self._listed["retain"],
            skipped=self._listed["skip"],
            n_changed=counts["change"],
            n_retained=counts["retain"],
            n_skipped=counts["skip"],
        )

    def _make_digest(self) -> str:
        """Return the digest of the notes as they are and of the sections that change."""
        changes = [
            (note.path.text, note.digest, [memory.sections for memory in note.memories])
            for note in self._changes
        ]
        return digest_bytes(msgspec.json.encode([self._act, changes]))


def read_notes(
    workspace: Workspace, paths: Sequence[str]
) -> Iterator[tuple[Collection[str], list[OutlinedNote]]]:
    """Yield the notes with these paths, which are sorted, some at a time, with the paths that were
    looked up.
    """
    try:
        for at in range(0, len(paths), NOTES_PER_READ):
            _note_progress(workspace, "planning", at, len(paths))
            several = paths[at : at + NOTES_PER_READ]
            with workspace.acquire(PLAN_LIMIT_S) as reader:
                notes = read_outlines(reader, several)
            yield several, notes
    finally:
        workspace.set_notice(PLAN_NOTICE, "")


PLAN_NOTICE = "plan"


def _note_progress(workspace: Workspace, word: str, n_done: int, n_all: int) -> None:
    """Let `status` tell how far a plan of many notes is."""
    if n_all > NOTES_PER_READ:
        workspace.set_notice(PLAN_NOTICE, f"{word}: {n_done:,} of {n_all:,} notes")


def _list_changing(memory: Memory, act: Act) -> tuple[str, ...]:
    """Return the anchors of the sections of a memory that the act changes."""
    if memory.is_whole:
        return (memory.head.anchor,)
    is_from_archive = act == "restore"
    return tuple(
        section.anchor
        for section in memory.sections
        if (section.status == ARCHIVED) is is_from_archive
    )


def _describe(memory: Memory, reason: str, valuation: Valuation) -> UpkeepItem:
    head, worth = memory.head, round(valuation.compute(memory.head).value, 4)
    return UpkeepItem(
        anchor=head.anchor,
        path=memory.path,
        start_line=head.start_line,
        end_line=memory.sections[-1].end_line,
        heading=list(head.heading),
        worth=worth,
        decay=worth,
        tier=valuation.find_tier(worth),
        reason=reason,
    )


def _change_note(
    workspace: Workspace, act: Act, note: NotePlan
) -> tuple[Put | None, dict[str, str]]:
    """Return the write that changes the memories of one note, None if nothing changes, and the
    reasons why some of these memories cannot change, by anchor.

    Raises Conflict if the note differs from the index.
    """
    scope, path = workspace.scope, note.path
    if resolve(scope, path).folder != scope.root or scope.is_read_only(path.text):
        return None, {memory.anchor: "its note is read only" for memory in note.memories}
    file = read_text_file(scope, path)
    if file is None or file.digest != note.digest:
        hint = "try again once it is indexed"
        raise Conflict(f"{path.text} was saved a moment ago", hint=hint)
    anchors = {memory.anchor: memory.sections for memory in note.memories}
    data, reasons = _change_text(act, path, file.data, anchors)
    refused = {
        memory: next(reasons[anchor] for anchor in several if anchor in reasons)
        for memory, several in anchors.items()
        if not reasons.keys().isdisjoint(several)
    }
    if refused:
        left = {memory: several for memory, several in anchors.items() if memory not in refused}
        data, _ = _change_text(act, path, file.data, left)
    if data == file.data:
        return None, refused
    try:
        return make_put(scope, path, data, file, way_out="split the note"), refused
    except TooLarge as error:
        return None, {memory.anchor: error.message for memory in note.memories}


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
    call: Call,
    command: str,
    params: UpkeepParams,
    plan: Callable[[Valuation], Planned],
    *,
    is_long: bool,
    short_plan: Callable[[Valuation], Planned] | None = None,
) -> Upkept:
    """Answer with the plan, or carry it out. `plan` makes it from the present worth of memories, as
    a long work with `is_long`. `short_plan` is tried before, as a short read, and raises LongPlan
    if it would read too much. The history names the `command`.
    """
    workspace = await call.open()
    try:
        planned = await _read_plan(call, workspace, plan, is_long=is_long, short_plan=short_plan)
    except NoteNotFound:
        # The notes have also changed if a planned section is gone.
        check_plan(params.plan, None)
        raise
    if not params.apply:
        shown = await call.read(partial(preview, workspace, planned), on_disk=True)
        return _answer(call, shown, [EditOutcome(answer={})], is_applied=False)
    planned.check(params.plan)
    refused: dict[str, str] = {}
    outcomes: list[EditOutcome[dict[str, str]]] = []
    n_done, number = 0, None
    try:
        for notes in planned.list_portions():
            n_done = len(outcomes) * NOTES_PER_EDIT
            _note_progress(workspace, "changing", n_done, len(planned.notes))
            decide = make_upkeep_decision(
                workspace,
                planned.act,
                notes,
                client=call.writer,
                command=command,
                continues=number,
            )
            outcomes.append(await call.edit(decide))
            number = outcomes[-1].change_set or number
            refused |= outcomes[-1].answer
    except Conflict as conflict:
        if not outcomes:
            raise
        message = f"{n_done} of {len(planned.notes)} notes were changed; {conflict.message}"
        hint = "repeat it for the others"
        if number is not None:
            hint += f", or take it back with: memsyncd undo {number}"
        raise Conflict(message, hint=hint, **conflict.data) from conflict
    finally:
        workspace.set_notice(PLAN_NOTICE, "")
    return _answer(call, planned.describe(refused), outcomes, is_applied=True)


async def _read_plan(
    call: Call,
    workspace: Workspace,
    plan: Callable[[Valuation], Planned],
    *,
    is_long: bool,
    short_plan: Callable[[Valuation], Planned] | None,
) -> Planned:
    def make(plan: Callable[[Valuation], Planned]) -> Planned:
        return plan(make_valuation(call.config, call.now_s, count_accesses(workspace)))

    if short_plan is not None:
        with contextlib.suppress(LongPlan):
            return await call.read(partial(make, short_plan))
    return await call.read(partial(make, plan), is_long=is_long)


def _answer(
    call: Call,
    plan: UpkeepPlan,
    outcomes: Sequence[EditOutcome[dict[str, str]]],
    *,
    is_applied: bool,
) -> Upkept:
    numbers = [outcome.change_set for outcome in outcomes if outcome.change_set is not None]
    failed = [outcome for outcome in outcomes if outcome.failure is not None]
    written = call.describe_write((failed or outcomes)[-1])
    written |= {"change_set": numbers[-1] if numbers else None}
    return Upkept(is_applied=is_applied, **asdict(plan), **written)
