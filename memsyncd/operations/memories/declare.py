"""Parameters, results and operations: change, finish, relate, replace and forget memories.

A memory is a section, or a whole note. Its name is any form that a command prints: an anchor, lines
of a note, a path, or the title of a note or section.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.errors import ConfirmationNeeded
from memsyncd.operations.fields import (
    Name,
    Place,
    Result,
    SectionPlace,
    WriteParams,
    Written,
    WrittenSection,
)
from memsyncd.operations.memories.update_tool import UPDATE_TOOL
from memsyncd.operations.operation import (
    WRITES,
    Command,
    Extra,
    Operation,
    Paths,
    Python,
    Shape,
    ToolAction,
)
from memsyncd.operations.sections import Filters
from memsyncd.operations.topics.declare import NewRelation

MemoryNames = Annotated[list[Place], msgspec.Meta(max_length=10_000)]


class SelectParams(WriteParams, frozen=True, kw_only=True):
    """Memories by their names, which are changed at once; or all memories that pass the filters,
    whose plan is shown first.
    """

    anchors: MemoryNames = msgspec.field(default_factory=list)
    """Memories: anchors, notes, lines of notes such as `MEMORY.md:12-18`, or titles."""
    filters: Filters = Filters()
    apply: bool | None = None
    """Carry out the plan. By default, memories that are named are changed at once, and for filters
    only the plan is shown."""
    plan: Name | None = None
    """Only if the plan still has this digest, which a call without `apply` returns as `plan`."""


class SetParams(SelectParams, frozen=True, kw_only=True):
    """Changes of the metadata of memories. A field that is set is replaced, an empty text or list
    removes it, and all others stay as they are written. A section states its metadata in its
    comment, a note in its front matter.
    """

    status: str | None = None
    """The status: open, doing, blocked, done, archived, or a word of your own."""
    priority: str | None = None
    """`P0` to `P3`."""
    importance: float | None = None
    """From 0 to 1."""
    kind: str | None = None
    """The kind of memory, one word such as decision; the memory stays in its note."""
    tags: list[str] | None = None
    """A tag of the memory; all others are removed."""
    add_tags: list[str] = msgspec.field(default_factory=list)
    """A tag to add."""
    remove_tags: list[str] = msgspec.field(default_factory=list)
    """A tag to remove."""
    keywords: list[str] | None = None
    """A keyword of the memory; all others are removed."""
    add_keywords: list[str] = msgspec.field(default_factory=list)
    """A keyword to add."""
    remove_keywords: list[str] = msgspec.field(default_factory=list)
    """A keyword to remove."""
    task: str | None = None
    """The task, such as `WU-123`."""
    session: str | None = None
    """The session of an agent."""
    topic: str | None = None
    """The topic."""
    lifecycle: str | None = None
    """`ephemeral`, `session`, `task` or `project`."""
    expires: str | None = None
    """A day or a time; from then on searches leave the memory out."""
    source: str | None = None
    """The origin of the memory."""
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    """Metadata of your own, by key; an empty text removes a key."""
    relate: list[NewRelation] = msgspec.field(default_factory=list)
    """A relation to add, such as `resolves=MEMORY.md#setup`; an existing relation stays."""
    unrelate: list[NewRelation] = msgspec.field(default_factory=list)
    """A relation to remove."""
    title: str | None = None
    """The heading of the section; links to it are changed with it."""
    clear: list[str] = msgspec.field(default_factory=list)
    """The name of a field to remove, such as `expires` or `importance`."""
    if_digest: Name | None = None


class MemoryItem(SectionPlace, frozen=True, kw_only=True):
    """A memory, with its lines after the change; a whole note has its path as anchor."""

    kind: str | None
    digest: str
    """Digest of the note after the change."""
    reason: str = ""
    """Why it is skipped."""


class LeadingLink(Result, frozen=True, kw_only=True):
    """Lines of a note with a link to a memory."""

    path: str
    lines: list[int]
    to: str
    """The anchor or the path to which the link leads before the change."""
    is_removed: bool = False
    """True if `forget` has made plain text of the link, or would."""


class MemoriesSet(Written, frozen=True, kw_only=True):
    is_applied: bool
    plan: str
    """A digest of the changes."""
    changed: list[MemoryItem]
    unchanged: list[MemoryItem]
    """Memories that state it already."""
    skipped: list[MemoryItem]
    """Memories that cannot be changed."""
    links: list[LeadingLink]
    """Links that are changed with a title; other changes change no links."""


class DoneParams(WriteParams, frozen=True, kw_only=True):
    anchors: Annotated[list[Place], msgspec.Meta(min_length=1, max_length=10_000)]
    """Memories: anchors, notes, lines of notes such as `MEMORY.md:12-18`, or titles."""
    if_digest: Name | None = None


class RelateParams(WriteParams, frozen=True, kw_only=True):
    anchor: Place
    """The memory: an anchor, a note, lines of a note, or a title."""
    relation: str
    """One word such as `resolves`, `caused_by`, `contradicts`, `supersedes`."""
    to: Place
    """The memory to which the relation leads, named like the first."""
    remove: bool = False
    """Remove the relation instead."""
    if_digest: Name | None = None


class ChooseParams(WriteParams, frozen=True, kw_only=True):
    """A choice between two texts of a memory that two machines or branches have changed. A merge
    keeps both: the second is a section with `conflict` in its comment, below the first.
    """

    anchor: Place
    """One of the two sections: an anchor, lines of a note, or a title."""
    keep: Literal["this", "other", "both"]
    """The text to keep: `this`, the text of the section that is named; the `other`; or `both`, as
    two memories. One text stays in the place and with the metadata of the first section."""
    if_digest: Name | None = None


class ForgetParams(SelectParams, frozen=True, kw_only=True):
    """Memories to remove from their notes, each with all sections beneath it. History keeps them,
    and undo restores the same bytes, unless they are purged.
    """

    purge: bool = False
    """Remove them from the history, too, with every earlier text of their notes that holds them: no
    undo brings them back."""
    unlink: bool = False
    """Remove the links to them, too; by default the answer only names these links."""
    confirm: bool = False
    """Agree, instead of a question, to forget memories of protected kinds, sections beneath a named
    memory, or a named note that others have written, and to purge."""
    if_digest: Name | None = None


class MemoriesForgotten(Written, frozen=True, kw_only=True):
    is_applied: bool
    plan: str
    """A digest of the changes."""
    forgotten: list[MemoryItem]
    """Every removed section, with its lines before the change."""
    skipped: list[MemoryItem]
    """Memories that cannot be removed, or are protected."""
    links: list[LeadingLink]
    """Links to removed sections, with their lines before the change."""
    removed: list[str]
    """Notes whose file is removed, because no text is left in it."""
    purged: int
    """The number of revisions that were removed from the history."""
    is_clean: bool
    """False while traces of purged texts stay, because another program reads records.db."""


class ReplaceParams(WriteParams, frozen=True, kw_only=True):
    """A memory that takes the place of a former memory. It has the former metadata, unless the
    request sets other values, and a relation `supersedes` to the former memory, which is archived
    with all sections beneath it.
    """

    anchor: Place
    """The memory to replace: an anchor, lines of a note, or a title. There are no filters and no
    plan, because several memories with one text would be copies: `memory.set` archives several."""
    content: str
    """The new text, in markdown."""
    summary: str = ""
    """The heading; by default the former heading, or, if that was the beginning of the former text,
    the beginning of the new text."""
    kind: str | None = None
    """The kind; by default the kind of the former memory, and so are all further fields."""
    tags: list[str] | None = None
    """A tag; the tags of the former memory are left out."""
    keywords: list[str] | None = None
    """A keyword; the keywords of the former memory are left out."""
    importance: float | None = None
    priority: str | None = None
    lifecycle: str | None = None
    source: str | None = None
    task: str | None = None
    session: str | None = None
    topic: str | None = None
    expires: str | None = None
    """A day or a time; from then on searches leave the memory out; by default none."""
    note: Name | None = None
    """The note for the new memory; by default the note of the former memory."""
    if_digest: Name | None = None


class MemoryReplaced(WrittenSection, frozen=True, kw_only=True):
    """The place of the new memory."""

    replaced: str
    """The anchor of the former memory, which is archived."""


# --- the operations ---------------------------------------------------------------------------

_DRY_RUN = Extra(
    usage="--dry-run", help="show the plan only, of named memories too", field="apply", value=False
)

_PATHS = Paths(are_from_root=True)
_PARSE = {
    "metadata": "topics:parse_pair_or_name",
    "relate": "topics:parse_relation",
    "unrelate": "topics:parse_relation",
}
_NAMES = "anchors ANCHOR…"

OPERATIONS = (
    Operation(
        name="memory.set",
        params=SetParams,
        result=MemoriesSet,
        summary="Change the metadata, the relations or the title of memories; the rest stays.",
        shape=Shape.STEPS,
        run="memories.run:change",
        errors=WRITES,
        route="POST /v1/memories/set",
        worktree="wide",
        paths=_PATHS,
        command=Command(
            words="set",
            group="Write",
            summary="change status, metadata, relations or title of a memory; '' removes one",
            arguments=("anchors [ANCHOR…]",),
            usages={
                "relate": "--relate KIND=ANCHOR…",
                "unrelate": "--unrelate KIND=ANCHOR…",
                "title": "--title T",
                "add_tags": "--add-tag T…",
                "remove_tags": "--remove-tag T…",
                "add_keywords": "--add-keyword K…",
                "remove_keywords": "--remove-keyword K…",
                "clear": "--clear FIELD…",
            },
            help={
                "metadata": "metadata of your own; KEY= removes it",
                "apply": "do it for all that pass the filters; otherwise their plan is shown",
            },
            extra=(_DRY_RUN,),
            filter_prefix="where",
            parse=_PARSE,
            prepare="make_set",
            show="show_set",
            found="changed unchanged",
            examples=(
                "memsyncd set '.memories/errors.md#errors/pool' --status done",
                "memsyncd set MEMORY.md:12-18 --priority P0 --add-tag redis --clear expires",
                "memsyncd set 'Pool waits' --relate 'resolves=.memories/errors.md#errors/pool'",
                "memsyncd set --where-task PAY-7 --where-kind discovery --status done --apply",
            ),
        ),
        python=Python(
            name="set",
            positional=("*anchors",),
            doc="Memories that are named are changed at once; of filters only the plan is returned"
            " without `apply=True`. Raises Conflict for a stale `if_digest` or `plan`.",
        ),
        tool=ToolAction(
            tool=UPDATE_TOOL, name="set", fields={"memory": "anchors", "values": "metadata"}
        ),
        text="memories.text:render_set",
        content="answers:list_set",
    ),
    Operation(
        name="memory.done",
        params=DoneParams,
        result=MemoriesSet,
        summary="Set the status of memories to done: what is ready or blocked shrinks.",
        shape=Shape.STEPS,
        run="memories.run:finish",
        errors=WRITES,
        route="POST /v1/memories/done",
        worktree="wide",
        paths=_PATHS,
        command=Command(
            words="done",
            group="Write",
            summary="finish a memory: its status becomes done",
            arguments=(_NAMES,),
            prepare="upkeep:name_memories",
            show="show_set",
            examples=("memsyncd done '.memories/discoveries.md#discoveries/pool'",),
        ),
        python=Python(name="done", positional=("*anchors",)),
        tool=ToolAction(
            tool=UPDATE_TOOL,
            name="done",
            fields={"memory": "anchors"},
        ),
        text="memories.text:render_set",
        content="answers:list_set",
    ),
    Operation(
        name="memory.relate",
        params=RelateParams,
        result=MemoriesSet,
        summary="Relate a memory to another by a typed link, or remove the link.",
        shape=Shape.STEPS,
        run="memories.run:relate",
        errors=WRITES,
        route="POST /v1/memories/relate",
        worktree="wide",
        paths=_PATHS,
        command=Command(
            words="relate",
            group="Write",
            summary="relate a memory to another, such as `resolves`",
            arguments=("anchor ANCHOR", "relation RELATION", "to ANCHOR"),
            prepare="name_related",
            show="show_set",
            examples=(
                "memsyncd relate .memories/decisions.md:3-9 resolves '.memories/errors.md#pool'",
            ),
        ),
        python=Python(name="relate", positional=("anchor", "relation", "to")),
        tool=ToolAction(
            tool=UPDATE_TOOL,
            name="relate",
            fields={"memory": "anchor", "relation": "relation", "to": "to"},
        ),
        text="memories.text:render_set",
        content="answers:list_set",
    ),
    Operation(
        name="memory.choose",
        params=ChooseParams,
        result=MemoriesSet,
        summary="Keep one of two texts that a merge has left of a memory, or both.",
        shape=Shape.STEPS,
        run="memories.choose:choose",
        errors=WRITES,
        route="POST /v1/memories/choose",
        worktree="wide",
        paths=_PATHS,
        command=Command(
            words="choose",
            group="Write",
            summary="keep one of two texts that a merge has left of a memory, or both",
            arguments=("anchor ANCHOR",),
            usages={"keep": "--keep WHICH"},
            prepare="name_memory",
            show="show_set",
            examples=(
                "memsyncd choose '.memories/decisions.md#decisions/pool-2' --keep this",
                "memsyncd choose MEMORY.md:20-24 --keep both",
            ),
        ),
        python=Python(name="choose", positional=("anchor", "keep")),
    ),
    Operation(
        name="memory.forget",
        params=ForgetParams,
        result=MemoriesForgotten,
        summary="Remove memories from their notes; history keeps them unless they are purged.",
        shape=Shape.STEPS,
        run="memories.forget:forget",
        errors=(*WRITES, ConfirmationNeeded),
        route="POST /v1/memories/forget",
        worktree="wide",
        paths=_PATHS,
        command=Command(
            words="forget",
            group="Write",
            summary="remove a memory from its note; undo restores it",
            arguments=("anchors [ANCHOR…]",),
            help={
                "confirm": "do not ask about protected kinds, sections beneath, notes, or purging",
                "apply": "do it for all that pass the filters; otherwise their plan is shown",
            },
            extra=(_DRY_RUN,),
            action="ask_and_forget",
            examples=(
                "memsyncd forget '.memories/preferences.md#preferences/mail-hours'",
                "memsyncd forget MEMORY.md:12-18 --unlink",
                "memsyncd forget --task PAY-7 --kind tool_run --apply",
                "memsyncd forget 'Pasted token' --purge --yes",
            ),
        ),
        python=Python(
            name="forget",
            positional=("*anchors",),
            doc="Memories that are named go at once; of filters only the plan is returned without"
            " `apply=True`. Raises ConfirmationNeeded without `confirm=True` if a kind is"
            " protected, if sections beneath would go too, or for `purge=True`.",
        ),
        tool=ToolAction(
            tool=UPDATE_TOOL, name="forget", fields={"memory": "anchors", "confirm": "confirm"}
        ),
        text="memories.text:render_forgotten",
        content="answers:list_forgotten",
    ),
    Operation(
        name="memory.replace",
        params=ReplaceParams,
        result=MemoryReplaced,
        summary="Write a memory in place of another, which it supersedes and which is archived.",
        shape=Shape.STEPS,
        run="memories.replace:replace_memory",
        errors=WRITES,
        route="POST /v1/memories/replace",
        worktree="wide",
        paths=_PATHS,
        command=Command(
            words="replace",
            group="Write",
            summary="write a memory in place of an outdated one, which is archived",
            arguments=("anchor ANCHOR", "content [TEXT…]"),
            usages={"summary": "--summary S"},
            help={
                "anchor": "one memory; there are no filters, because one text replaces one memory."
                " Archive several with: memsyncd set --where-task T --status archived",
                "content": "the new text; - or none to read it from stdin",
            },
            stdin="content",
            prepare="name_memory",
            show="show_replaced",
            examples=(
                "memsyncd replace 'Pool size' 'The pool has 20 connections since March.'",
                "memsyncd replace .memories/decisions.md:3-9 - < decision.md",
            ),
        ),
        python=Python(name="replace", positional=("anchor", "content")),
        tool=ToolAction(
            tool=UPDATE_TOOL,
            name="replace",
            fields={"memory": "anchor", "content": "content"},
        ),
        text="memories.text:render_replaced",
    ),
)
