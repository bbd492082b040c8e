"""Parameters and results of the methods for topics and their fields.

A topic is a note, its fields are the sections of the note. The values of a field are dated items of
a list, the newest first.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Limit,
    Name,
    Params,
    Result,
    TrackedParams,
    WorkspaceParams,
    WriteParams,
)
from memsyncd.operations.operation import OPENS, READS, WRITES, Operation, Paths
from memsyncd.operations.sections import SectionMeta
from memsyncd.operations.similar.declare import SimilarSection
from memsyncd.operations.upkeep.declare import PlanParams, Upkept
from memsyncd.operations.writes import (
    OnSimilar,
    Place,
    RevisionId,
    WriteAction,
    Written,
    WrittenSection,
)

TopicName = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
"""The path of a note, or its name in the memory folder, with or without `.md`, its title or an
alias. To read, the anchor of a section names its note as well."""
FieldName = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
"""The heading of a section of the topic, or its anchor."""
KeptValues = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class NewRelation(Params, frozen=True, kw_only=True):
    """A typed link from a topic: `- resolved_by [[redis-timeouts]]`."""

    kind: str = "related"
    """A word in lower case, such as `caused_by`, `resolved_by`, `part_of`, `contradicts`,
    `informs`."""
    to: str
    """The note that it leads to, as a link names it, or `note#heading`."""


class TopicListParams(WorkspaceParams, frozen=True, kw_only=True):
    path: Place | None = None
    """Only notes at this path, folder or glob."""
    sort: Literal["salience", "recency", "file"] = "salience"
    include_archived: bool = False
    limit: Limit = 50


class TopicInfo(SectionMeta, frozen=True, kw_only=True):
    """A topic: its note, and the metadata of the note."""

    path: str
    title: str
    digest: str
    """Digest of the note as indexed."""
    modified_at: float
    fields: list[str]
    """The headings of its fields."""
    salience: float
    """From 0 to 1: the mean of its fields'. A field's is its importance, raised by accesses."""
    accesses: int


class TopicList(Result, frozen=True, kw_only=True):
    workspace: str
    topics: list[TopicInfo]
    n_topics: int
    """Before `limit`."""


class TopicGetParams(TrackedParams, frozen=True, kw_only=True):
    topic: TopicName
    include_archived: bool = False
    """Archived fields too."""
    workspace: Name | None = None


class FieldValue(Result, frozen=True, kw_only=True):
    at: str | None
    """When it was appended; null for text of a section that is no dated item."""
    text: str


class FieldInfo(SectionMeta, frozen=True, kw_only=True):
    anchor: str
    name: str
    start_line: int
    end_line: int
    values: list[FieldValue]
    """The newest first; what was there before is in `field.history`."""
    salience: float
    accesses: int


class TopicRelation(Result, frozen=True, kw_only=True):
    kind: str
    to: str
    """As written in the link."""


class Topic(SectionMeta, frozen=True, kw_only=True):
    workspace: str
    path: str
    title: str
    summary: str
    """The text below the title."""
    digest: str
    salience: float
    accesses: int
    fields: list[FieldInfo]
    relations: list[TopicRelation]
    """The typed links of the note."""


class TopicCreateParams(WriteParams, frozen=True, kw_only=True):
    """A new note. Its title, summary, fields and relations are its text; the rest is its front
    matter, which holds for all of its fields. An error names every field that is wrong.
    """

    title: str
    """At most 200 characters."""
    summary: str = ""
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    """Names with their first values."""
    relations: list[NewRelation] = msgspec.field(default_factory=list)
    kind: str | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    importance: float | None = None
    priority: str | None = None
    lifecycle: str | None = None
    source: str | None = None
    task: str | None = None
    session: str | None = None
    scope: str | None = None
    keywords: list[str] = msgspec.field(default_factory=list)
    expires: str | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    """Keys of one's own."""
    note: Name | None = None
    """By default a note of the memory folder that is named after the title."""
    on_similar: OnSimilar = "add"
    """If a topic or section says nearly the same: `add` creates the topic, `append` appends summary
    and fields to the topic that is there, `report` writes nothing."""


class TopicPatchParams(WriteParams, frozen=True, kw_only=True):
    """Changes of a topic: what is given is replaced, an empty text or list removes it, and
    `updated` becomes now. The text of its fields stays.
    """

    topic: TopicName
    title: str | None = None
    """Kept in the front matter, so that the anchors of the sections stay."""
    summary: str | None = None
    """Replaces the text below the title, but not its relations."""
    kind: str | None = None
    tags: list[str] | None = None
    importance: float | None = None
    priority: str | None = None
    lifecycle: str | None = None
    source: str | None = None
    task: str | None = None
    session: str | None = None
    scope: str | None = None
    keywords: list[str] | None = None
    expires: str | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    """Keys of one's own; an empty text removes one."""
    relate: list[NewRelation] = msgspec.field(default_factory=list)
    """Relations to add; one that is there already stays as it is."""
    unrelate: list[NewRelation] = msgspec.field(default_factory=list)
    """Relations to remove."""
    if_digest: Name | None = None
    """Digest that the writer has read; if the note has another digest, nothing is done."""


class TopicWritten(Written, frozen=True, kw_only=True):
    path: str
    digest: str
    """Digest of the note as it is now."""
    action: WriteAction
    """`unchanged` if nothing had to change."""
    fields: list[str]
    """The anchors of the fields that were written."""
    similar: list[SimilarSection]
    """Sections that say nearly the same, the most similar first."""


class TopicArchiveParams(PlanParams, frozen=True, kw_only=True):
    topics: Annotated[list[TopicName], msgspec.Meta(min_length=1, max_length=1000)]


class FieldAppendParams(WriteParams, frozen=True, kw_only=True):
    """Append a value to a field, above the earlier ones; the section is made if it is missing."""

    topic: TopicName
    field: FieldName
    content: str
    """Markdown, as for `note.add`."""
    kind: str | None = None
    """Of the field, like the following ones; what is not given stays as it is."""
    tags: list[str] = msgspec.field(default_factory=list)
    """Added to those that it has."""
    importance: float | None = None
    source: str | None = None
    keep: KeptValues | None = None
    """How many values stay in the note, by default `memory.field_values` of the configuration;
    the others are in `field.history`."""
    on_similar: OnSimilar = "add"
    """If a section says nearly the same: `add` appends to the field that is named, `append` to the
    section that is there, `report` writes nothing."""
    if_digest: Name | None = None


class FieldAppended(WrittenSection, frozen=True, kw_only=True):
    """The section that has the value; with `report`, the similar one."""

    action: WriteAction
    n_values: int
    """Values that the field has in the note now."""
    n_dropped: int
    """Values that went from the note to the history, which keeps them for `history.max_age_days`
    and the note's last `history.max_revisions` changes."""
    similar: list[SimilarSection]


class FieldHistoryParams(WorkspaceParams, frozen=True, kw_only=True):
    topic: TopicName
    field: FieldName
    limit: Limit = 50
    before: RevisionId | None = None
    """Only values of revisions older than this one."""


class FieldVersion(Result, frozen=True, kw_only=True):
    at: str | None
    text: str
    is_current: bool
    """Whether the note has it now."""
    revision: int | None
    """The change of the note that brought it; null if the history does not reach back so far."""
    change_set: int | None
    recorded_at: float | None
    client: str
    """The writer; empty for another program."""
    command: str


class FieldHistory(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    field: str
    values: list[FieldVersion]
    """The newest first."""
    is_complete: bool
    """False if there may have been earlier values: older than this page, or dropped by the limits
    of the history, or from before memsyncd saw the note."""


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="topic.list",
        params=TopicListParams,
        result=TopicList,
        summary="List topics, which are notes, with their fields and their salience.",
        errors=READS,
        route="GET /v1/topics",
        reads=True,
        paths=Paths(are_from_root=True, may_be_folder=True),
    ),
    Operation(
        name="topic.get",
        params=TopicGetParams,
        result=Topic,
        summary="Read a topic: its summary, its fields with their values, its relations.",
        errors=OPENS,
        route="GET /v1/topics/get",
        reads=True,
    ),
    Operation(
        name="topic.create",
        params=TopicCreateParams,
        result=TopicWritten,
        summary="Create a note for a topic, with fields and relations.",
        errors=WRITES,
        route="POST /v1/topics/create",
    ),
    Operation(
        name="topic.patch",
        params=TopicPatchParams,
        result=TopicWritten,
        summary="Change metadata, summary and relations of a topic; the rest stays.",
        errors=WRITES,
        route="POST /v1/topics/patch",
    ),
    Operation(
        name="topic.archive",
        params=TopicArchiveParams,
        result=Upkept,
        summary="Archive whole topics: searches leave them out then.",
        errors=WRITES,
    ),
    Operation(
        name="topic.restore",
        params=TopicArchiveParams,
        result=Upkept,
        summary="Restore archived topics, byte for byte.",
        errors=WRITES,
    ),
    Operation(
        name="field.append",
        params=FieldAppendParams,
        result=FieldAppended,
        summary="Append a value to a field of a topic, above the earlier ones.",
        errors=WRITES,
        route="POST /v1/topics/append",
    ),
    Operation(
        name="field.history",
        params=FieldHistoryParams,
        result=FieldHistory,
        summary="List the values that a field has and had, the newest first.",
        errors=OPENS,
        route="GET /v1/topics/history",
        reads=True,
    ),
)
