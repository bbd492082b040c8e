"""Parameters, results and operations: archive, restore, clean up and promote memories."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Name,
    Place,
    PlanParams,
    Result,
    SectionPlace,
    Word,
    Written,
)
from memsyncd.operations.operation import (
    WRITES,
    Command,
    Operation,
    Paths,
    Python,
    Shape,
)
from memsyncd.operations.sections import (
    Filters,
)


class UpkeepParams(PlanParams, frozen=True, kw_only=True):
    """Parameters of a method that plans changes of many memories, or carries them out."""

    limit: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 100
    """Name at most so many memories of each list; the plan has all of them."""
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Leave out the first so many memories of each list."""


class ArchiveParams(UpkeepParams, frozen=True, kw_only=True):
    """The memories to archive or restore. They are named by anchors, or lie at a path and pass the
    filters. A memory is a section with all sections beneath it.
    """

    anchors: Annotated[list[Place], msgspec.Meta(max_length=10_000)] = msgspec.field(
        default_factory=list
    )
    """Memories by their anchors."""
    path: Place | None = None
    """Only this note, folder or glob."""
    filters: Filters = Filters()
    below: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] | None = None
    """Only memories whose worth is below this; if nothing else selects memories, by default
    `memory.archive_below` of the configuration, 0.1. Only `archive` takes it."""


class CleanupParams(UpkeepParams, frozen=True, kw_only=True):
    below: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] | None = None
    """Also archive memories whose worth is below this."""


class UpkeepItem(SectionPlace, frozen=True, kw_only=True):
    """A memory of a plan, with the lines of all its sections before the change."""

    worth: float
    decay: float
    """The former name of `worth`."""
    tier: Literal["hot", "warm", "cold"]
    reason: str
    """`worth`, `named`, `expired`, `ephemeral`, `session`, `in time`, or the reason why the memory
    is skipped."""


class UpkeepPlan(Result, frozen=True, kw_only=True):
    """The changes that a request makes, by path and line. `offset` and `limit` choose which
    memories of each list are named.
    """

    plan: str
    """The digest of the plan, for the parameter `plan`."""
    archived: list[UpkeepItem]
    restored: list[UpkeepItem]
    retained: list[UpkeepItem]
    """Selected memories that stay: their worth is not below the limit, or their time is not
    over."""
    skipped: list[UpkeepItem]
    """Selected memories that cannot be changed, each with the reason."""
    n_archived: int
    """How many memories change in all. A memory that is not named may turn out to be one that
    cannot be changed, because its note has not been tried yet."""
    n_restored: int
    n_retained: int
    n_skipped: int


class Upkept(Written, frozen=True, kw_only=True):
    """A plan, and whether it was carried out; `offset` and `limit` choose which memories of each
    list are named.
    """

    is_applied: bool
    plan: str
    """The digest of the plan, for the parameter `plan`."""
    archived: list[UpkeepItem]
    restored: list[UpkeepItem]
    retained: list[UpkeepItem]
    """Selected memories that stay: their worth is not below the limit, or their time is not
    over."""
    skipped: list[UpkeepItem]
    """Selected memories that cannot be changed, each with the reason."""
    n_archived: int
    """How many memories change in all. A memory that is not named may turn out to be one that
    cannot be changed, because its note has not been tried yet."""
    n_restored: int
    n_retained: int
    n_skipped: int


class PromoteParams(PlanParams, frozen=True, kw_only=True):
    """The memories to promote: one memory, or all summaries of a task, which are sections of the
    kind `summary`.
    """

    anchor: Place | None = None
    """A memory by its anchor."""
    task: Word | None = None
    """All summaries of this task instead."""
    tag: Word
    """`decision`, `convention`, `pattern`, `pitfall`, `interface`, `invariant`, `faq`, or the tags
    that the configuration names."""
    note: Name | None = None
    """The note to promote to; by default the configured note, `.memories/project.md`. It is named
    as in `note.add`."""


class PromotedMemory(Result, frozen=True, kw_only=True):
    source: str
    """The anchor of the memory, which stays as it is."""
    heading: str
    anchor: str | None
    """The section in the project's note; null in a plan that would create it."""
    path: str
    is_new: bool
    """False if it was promoted with this tag before."""


class Promoted(Written, frozen=True, kw_only=True):
    is_applied: bool
    plan: str
    """The digest of the plan, for the parameter `plan`."""
    promoted: list[PromotedMemory]


# --- the operations ---------------------------------------------------------------------------

_PATHS = Paths(
    absolute=("path", "anchor", "note"),
    are_from_root=True,
    may_be_folder=True,
    resolved=("anchors",),
)
_PARSE = {"below": "parse_worth"}

OPERATIONS = (
    Operation(
        name="archive",
        params=ArchiveParams,
        result=Upkept,
        summary="Archive memories by name, by filters or by worth: searches leave them out then.",
        shape=Shape.STEPS,
        run="upkeep.run:archive",
        errors=WRITES,
        worktree="wide",
        paths=_PATHS,
        command=Command(
            words="archive",
            group="Maintain",
            summary="archive memories by name, filters or worth; its plan first",
            arguments=("anchors [ANCHOR…]",),
            omit=("path",),
            parse=_PARSE,
            prepare="name_memories",
            show="show_plan",
            found="n_archived n_restored",
            is_long=True,
            examples=(
                "memsyncd archive",
                "memsyncd archive --kind tool_run --before 30d --apply",
                "memsyncd archive '.memories/runs.md#runs/build' --apply",
            ),
        ),
        python=Python(
            name="archive",
            positional=("*anchors",),
            doc="Without `apply=True`, nothing changes. With the `plan` of an earlier answer, it"
            " raises Conflict if notes have changed since.",
        ),
    ),
    Operation(
        name="archive.restore",
        params=ArchiveParams,
        result=Upkept,
        summary="Restore archived memories, byte for byte.",
        shape=Shape.STEPS,
        run="upkeep.run:restore",
        errors=WRITES,
        worktree="wide",
        paths=_PATHS,
        command=Command(
            words="unarchive",
            group="Maintain",
            arguments=("anchors [ANCHOR…]",),
            omit=("path", "below"),
            prepare="name_memories",
            show="show_plan",
            found="n_archived n_restored",
            is_long=True,
            examples=(
                "memsyncd unarchive --kind tool_run",
                "memsyncd unarchive --path '**' --apply",
            ),
        ),
        python=Python(name="unarchive", positional=("*anchors",), omit=("below",)),
    ),
    Operation(
        name="cleanup",
        params=CleanupParams,
        result=Upkept,
        summary="Archive memories past their time: expired, ephemeral and session memories.",
        shape=Shape.STEPS,
        run="upkeep.run:clean_up",
        errors=WRITES,
        worktree="wide",
        command=Command(
            words="cleanup",
            group="Maintain",
            summary="archive memories past their time; its plan first",
            parse=_PARSE,
            show="show_plan",
            found="n_archived n_restored",
            is_long=True,
            examples=("memsyncd cleanup", "memsyncd cleanup --below 0.1 --apply"),
        ),
        python=Python(name="cleanup"),
    ),
    Operation(
        name="promote",
        params=PromoteParams,
        result=Promoted,
        summary="Copy a memory, or a task's summaries, to the project's note, unless it is there.",
        shape=Shape.STEPS,
        run="upkeep.run:promote",
        errors=WRITES,
        paths=Paths(absolute=("path", "anchor", "note"), are_from_root=True, resolved=("anchor",)),
        command=Command(
            words="promote",
            group="Write",
            summary="copy a memory to the project's note, as lasting knowledge",
            arguments=("anchor [ANCHOR]",),
            usages={"tag": "--tag T"},
            show="show_promoted",
            examples=(
                "memsyncd promote '.memories/summaries.md#summaries/retries' --tag pattern",
                "memsyncd promote --task WU-123 --tag decision --apply",
            ),
        ),
        python=Python(name="promote", positional=("anchor",)),
    ),
)
