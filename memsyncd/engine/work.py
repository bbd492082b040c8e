"""Reads the memories of tasks, sessions and projects: whole sections with their texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.editing.kinds import KindDefaults, find_importance
from memsyncd.core.guard.secrets import redact
from memsyncd.core.markdown.frontmatter import count_front_lines
from memsyncd.core.model import SECTION_COMMENT, has_text
from memsyncd.core.paths import has_wildcard, is_note_name
from memsyncd.core.search.context import ContextChunk
from memsyncd.core.search.filters import EVERYTHING, NO_FILTERS
from memsyncd.core.search.filters import Filters as Conditions
from memsyncd.core.search.tasks import (
    ItemValue,
    TaskItem,
    find_ready,
    list_memory_parts,
    make_memory_chunks,
)
from memsyncd.core.upkeep import DISCOVERED_FROM
from memsyncd.engine.accesses import count_accesses
from memsyncd.engine.metadata import (
    NO_ACCESSES,
    bind_sort_keys,
    describe_meta,
    make_valuation,
    name_note,
)
from memsyncd.engine.plan import complete_filters
from memsyncd.engine.redaction import must_redact, redact_notes
from memsyncd.engine.relations import find_relations
from memsyncd.engine.workspace import Workspace
from memsyncd.operations.sections import Filters, describe_conflict
from memsyncd.operations.tasks.declare import TaskSection
from memsyncd.store.lookup import (
    StoredNote,
    by_path,
    find_named_places,
    stream_notes,
)
from memsyncd.store.pages import OrderName
from memsyncd.store.pool import Reader
from memsyncd.store.sections import find_notes_with_relation, has_relation, read_digest
from memsyncd.store.texts import read_note_text
from memsyncd.store.work import (
    GroupCounts,
    OutlinedWork,
    ProjectSections,
    WaitingSections,
    count_open_work,
    find_first_groups,
    find_open_work,
    has_key,
    stream_work,
)

READ_LIMIT_S = 5.0
BLOCKED_BY, CHECKPOINT = "blocked_by", "checkpoint"
# Of so many open sections of tasks, each is judged, whether it is ready.
MAX_JUDGED = 2_000
# So many sections of the project are read for a block at least; a longer block has room for one in
# so many bytes.
LEAST_OF_PROJECT, ENTRY_BYTES = 50, 80
# How many values one filter takes.
MAX_VALUES = 32
_NAMES = re.compile(r"[\s,\[\]]+")


class WorkSection(NamedTuple):
    """A section as a reader of tasks sees it, and as an answer describes it."""

    item: TaskItem
    section: TaskSection


WorkSections = Mapping[str, WorkSection]
"""Sections by their anchors, in file order."""


@contextmanager
def reading_work(workspace: Workspace, config: Config, now_s: float) -> Iterator[WorkReader]:
    """Open a reader of one snapshot of the index."""
    with workspace.acquire(READ_LIMIT_S) as reader:
        yield WorkReader(reader, config, now_s)


class WorkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The project, task and session that a block is about. `list_memory_parts` says which parts it
    has. The most valuable of each part comes first by worth, else the latest. Its sections pass
    `base`, too; what blocks them need not.
    """

    task: str | None = None
    session: str | None = None
    has_profile: bool = False
    is_resuming: bool = False
    is_whole: bool = False
    is_by_worth: bool = False
    include_archived: bool = False
    base: Conditions = NO_FILTERS


class WorkMemories(NamedTuple):
    """The memories of a request as chunks of a block, in the order of filling, with the sections as
    an answer describes them, and the task, which the session may have named.
    """

    chunks: Sequence[ContextChunk]
    sections: WorkSections
    task: str | None = None
    n_further: int = 0
    """How many sections of the project come after those in `chunks`."""


class WorkReader(NamedTuple):
    """Reads memories from one snapshot of an index."""

    reader: Reader
    config: Config
    now_s: float

    def read(self, filters: Filters, base: Conditions = NO_FILTERS) -> dict[str, WorkSection]:
        """Return the sections that pass the filters and `base`, and have a text."""
        compiled = complete_filters(filters, self.config, self.now_s, base=base)
        return self._describe(stream_notes(self.reader, filters=compiled))

    def read_one(self, filters: Filters, anchor: str) -> WorkSection | None:
        """Return a section if it passes the filters and has a text."""
        compiled = self._complete(filters)
        if not find_named_places(self.reader, compiled, [anchor]):
            return None
        return self._read_named([anchor]).get(anchor)

    def describe(self, rows: Iterable[TaskItem | OutlinedWork]) -> list[TaskSection]:
        """Return the sections of outlined items with their texts."""
        anchors = [row.anchor for row in rows]
        sections = self._read_named(anchors)
        return [sections[anchor].section for anchor in anchors if anchor in sections]

    def _read_named(self, anchors: Sequence[str]) -> dict[str, WorkSection]:
        among = {anchor.rpartition("#")[0] for anchor in anchors}
        stored = stream_notes(self.reader, among=among, filters=EVERYTHING)
        return self._describe(stored, only=frozenset(anchors))

    def outline(self, filters: Filters, *, has: Sequence[str] = ()) -> dict[str, TaskItem]:
        """Return the sections that pass the filters and have a text and values in the columns
        `has`, by anchor, in file order. The items have no heading, no body, no tags and no linked
        blockers.
        """
        with stream_work(self.reader, self._complete(filters), has=has) as rows:
            return self._outline(rows)

    def _complete(self, filters: Filters, base: Conditions = NO_FILTERS) -> Conditions:
        return complete_filters(filters, self.config, self.now_s, base=base)

    def open_project(
        self, filters: Filters, *, base: Conditions = NO_FILTERS, other_than: str | None = None
    ) -> ProjectSections:
        """Open the sections about the whole project that pass the filters and `base`."""
        compiled = self._complete(filters, base)
        return ProjectSections(self.reader, compiled, other_than=other_than)

    def open_waiting(self, filters: Filters) -> WaitingSections:
        """Open the sections that pass the filters, by priority, without those that became tasks."""
        return WaitingSections(self.reader, self._complete(filters), DISCOVERED_FROM)

    def find_first_groups(
        self,
        field: Literal["task", "session"],
        filters: Filters,
        *,
        has_ended: bool = True,
        limit: int,
    ) -> tuple[list[GroupCounts], int]:
        """Return the latest tasks or sessions with sections that pass the filters, and the number
        of all.
        """
        compiled = self._complete(filters)
        groups, n_groups = find_first_groups(
            self.reader, compiled, field, has_ended=has_ended, most=limit
        )
        if must_redact(self.reader, self.config):
            groups = [
                group._replace(name=redact(group.name), tasks=tuple(map(redact, group.tasks)))
                for group in groups
            ]
        return groups, n_groups

    def outline_with_blockers(self, filters: Filters) -> dict[str, TaskItem]:
        """Outline the sections of tasks that pass the filters, with their linked blockers, and the
        sections of everything that blocks them.
        """
        return self._add_blockers(self.outline(filters, has=["task"]))

    def find_first_ready(
        self, *, limit: int, closed: Collection[str], includes_archived: bool
    ) -> tuple[list[TaskItem], int, int]:
        """Return the first `limit` sections of tasks that can be worked on, and how many are ready
        and how many blocked. Of more than MAX_JUDGED open sections, blockers are looked up for
        those alone that are returned; others count as ready unless their status is `blocked`.
        """
        filters = Filters(include_archived=includes_archived)
        compiled = complete_filters(filters, self.config, self.now_s)
        n_open, n_blocked = count_open_work(self.reader, compiled)
        may_block = has_key(self.reader, BLOCKED_BY) or has_relation(self.reader, BLOCKED_BY)
        if may_block and n_open <= MAX_JUDGED:
            items = self.outline_with_blockers(filters)
            ready, n_blocked = find_ready([*items.values()], None, closed=closed)
            return ready[:limit], len(ready), n_blocked
        most = 2 * limit
        while True:
            batch = self._outline(find_open_work(self.reader, compiled, most=most))
            items = self._add_blockers(dict(batch))
            every, _ = find_ready([*items.values()], None, closed=closed)
            ready = [item for item in every if item.anchor in batch][:limit]
            if len(ready) == limit or len(batch) < most:
                return ready, n_open - n_blocked, n_blocked
            most *= 4

    def _outline(self, rows: Iterable[OutlinedWork]) -> dict[str, TaskItem]:
        show: Callable[[str], str] = cache(redact)
        if not must_redact(self.reader, self.config):
            show = str
        return {row.anchor: _outline_item(row, self.config.kinds, show) for row in rows}

    def _add_blockers(self, items: dict[str, TaskItem]) -> dict[str, TaskItem]:
        """Add linked blockers to the items, and the sections of everything that blocks them."""
        items = self._add_linked_blockers(items)
        for of_blockers in self._list_blockers(items):
            items = self.outline(of_blockers) | items
        return items

    def _describe(
        self, stored: Iterable[StoredNote], *, only: Collection[str] | None = None
    ) -> dict[str, WorkSection]:
        memories: dict[str, WorkSection] = {}
        reader, config = self.reader, self.config
        is_masking = must_redact(reader, config)
        notes = sorted((note for note in stored if note.sections), key=by_path)
        for note in redact_notes(reader, notes, config):
            lines = read_note_text(reader, note.path).split("\n")
            n_front_lines = count_front_lines(note.path, lines)
            for section in note.sections:
                if only is not None and section.anchor not in only:
                    continue
                first = max(section.span.start - 1 + bool(section.level), n_front_lines)
                text = "\n".join(lines[first : section.span.end])
                if not has_text(text):
                    continue
                text = SECTION_COMMENT.sub(_keep_lines, text, count=1).rstrip()
                body = text.lstrip()
                described = TaskSection(
                    anchor=section.anchor,
                    path=note.path,
                    start_line=section.span.start,
                    end_line=section.span.end,
                    title=name_note(section),
                    heading=list(section.heading),
                    text=redact(body) if is_masking else body,
                    **describe_meta(section, config.kinds, self.now_s),
                )
                above = text[: len(text) - len(body)].count("\n")
                item = _make_item(described, first + 1 + above)
                memories[described.anchor] = WorkSection(item, described)
        items = self._add_linked_blockers({key: each.item for key, each in memories.items()})
        return {key: each._replace(item=items[key]) for key, each in memories.items()}

    def _list_blockers(self, items: Mapping[str, TaskItem]) -> Iterator[Filters]:
        """Yield filters that select everything that blocks the items."""
        names = sorted({name for item in items.values() for name in item.blocked_by})
        for at in range(0, len(names), MAX_VALUES):
            part = names[at : at + MAX_VALUES]
            anchors = [name for name in part if "#" in name]
            others = [name for name in part if "#" not in name]
            tasks = [name for name in others if not is_note_name(name.rpartition("/")[2])]
            notes = self._list_notes([name for name in others if name not in tasks])
            for filters in (
                Filters(path=notes, include_archived=True),
                Filters(task=tasks, include_archived=True),
                Filters(section=anchors, include_archived=True),
            ):
                if filters.path or filters.task or filters.section:
                    yield filters

    def read_memories(
        self, workspace: Workspace, request: WorkRequest, *, max_bytes: int
    ) -> WorkMemories:
        """Read the memories of a request. Without a task, the latest section of the session that
        states a task names it.
        """
        task, session = request.task, request.session

        def read(**own: Any) -> dict[str, WorkSection]:
            filters = Filters(**own, include_archived=request.include_archived)
            return self.read(filters, request.base)

        sections = read(session=[session]) if session else {}
        if not task:
            latest = max(
                (each.item for each in sections.values() if each.item.task),
                key=lambda item: (item.time, item.path, item.start_line),
                default=None,
            )
            task = latest.task if latest else None
        if task:
            sections = read(task=[task]) | sections
        if request.is_resuming:
            for filters in self._list_blockers({key: each.item for key, each in sections.items()}):
                sections = self.read(filters) | sections
        accesses = count_accesses(workspace) if request.is_by_worth else NO_ACCESSES
        valuation = make_valuation(self.config, self.now_s, accesses)
        lasting: dict[str, WorkSection] = {}
        n_further = 0
        if request.has_profile:
            project = self.open_project(
                Filters(include_archived=request.include_archived),
                base=request.base,
                other_than=task,
            )
            most = max(LEAST_OF_PROJECT, max_bytes // ENTRY_BYTES)
            key: OrderName = "worth" if request.is_by_worth else "importance"
            first = project.find_first(key, bind_sort_keys(valuation), most=most)
            lasting = self._read_named([row.anchor for row in first])
            if len(first) == most:
                n_further = project.count_sections() - most
        every = lasting | sections
        value: ItemValue | None = None
        if request.is_by_worth:
            value = lambda item: valuation.compute(every[item.anchor].section).value  # noqa: E731
        parts = list_memory_parts(
            list_items(sections),
            list_items(lasting),
            task=task,
            session=session,
            is_resuming=request.is_resuming,
            is_whole=request.is_whole,
            value=value,
        )
        chunks = make_memory_chunks(parts, max_bytes=max_bytes)
        return WorkMemories(chunks, every, task, n_further)

    def _add_linked_blockers(self, items: dict[str, TaskItem]) -> dict[str, TaskItem]:
        """Add to each item the sections and notes that block it by its typed links."""
        if not has_relation(self.reader, BLOCKED_BY):
            return items
        paths = find_notes_with_relation(self.reader, BLOCKED_BY)
        linking = [anchor for anchor, item in items.items() if item.path in paths]
        relations = find_relations(self.reader, linking, [BLOCKED_BY])
        for anchor, links in relations.items():
            if links:
                item = items[anchor]
                blocked_by = (*item.blocked_by, *(link.to for link in links))
                items[anchor] = replace(item, blocked_by=blocked_by)
        return items

    def _list_notes(self, names: Sequence[str]) -> list[str]:
        """Leave out names with a wildcard that no note has: a filter would read them as globs."""
        return [
            name
            for name in names
            if not has_wildcard(name) or read_digest(self.reader, name) is not None
        ]


def _keep_lines(comment: re.Match[str]) -> str:
    """Return only the ends of lines of a comment, so that the others keep their numbers."""
    return "\n" * comment[0].count("\n")


def _make_item(section: TaskSection, body_line: int) -> TaskItem:
    kind = (section.kind or "").lower()
    stated = "; ".join(f"{key}: {value}" for key, value in section.meta.items())
    return TaskItem(
        anchor=section.anchor,
        path=section.path,
        start_line=section.start_line,
        end_line=section.end_line,
        body_line=body_line,
        heading=section.heading[-1] if section.heading else section.path,
        # People and agents also read the metadata of a checkpoint.
        body=section.text,
        stated=stated if kind == CHECKPOINT else "",
        source=section.meta.get(DISCOVERED_FROM, ""),
        conflict=describe_conflict(section.meta),
        kind=kind,
        priority=section.priority,
        task=section.task or "",
        session=section.session or "",
        lifecycle=section.lifecycle,
        status=(section.status or "").lower(),
        tags=tuple(section.tags),
        importance=section.importance,
        time=section.created or section.day,
        blocked_by=_split_names(section.meta.get(BLOCKED_BY)),
    )


def _split_names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, _NAMES.split(text))) if text else ()


def _outline_item(
    row: OutlinedWork, kinds: Mapping[str, KindDefaults], show: Callable[[str], str]
) -> TaskItem:
    kind = show(row.kind) if row.kind else None
    return TaskItem(
        anchor=row.anchor,
        path=row.path,
        start_line=row.start_line,
        end_line=row.end_line,
        body_line=row.start_line,
        heading="",
        body="",
        kind=(kind or "").lower(),
        priority=row.priority,
        task=show(row.task) if row.task else "",
        session=show(row.session) if row.session else "",
        lifecycle=row.lifecycle,
        status=show(row.status).lower() if row.status else "",
        tags=(),
        importance=find_importance(kinds, kind, row.importance),
        time=show(row.at),
        blocked_by=_split_names(row.blocked_by and show(row.blocked_by)),
    )


def list_items(memories: WorkSections) -> list[TaskItem]:
    return [memory.item for memory in memories.values()]


def list_sections(memories: WorkSections, items: Iterable[TaskItem]) -> list[TaskSection]:
    """Return the sections of the items, as an answer describes them."""
    return [memories[item.anchor].section for item in items]
