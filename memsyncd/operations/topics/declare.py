"""Parameters and results of the methods for topics and their fields.

A topic is a note, and its fields are the sections of the note. The values of a field are dated
items of a list, the newest first.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.operations.fields import (
    Limit,
    Name,
    OnSimilar,
    Params,
    Place,
    Result,
    RevisionId,
    TrackedParams,
    WorkspaceParams,
    WriteAction,
    WriteParams,
    Written,
    WrittenSection,
)
from memsyncd.operations.operation import (
    OPENS,
    READS,
    WRITES,
    Command,
    CommandGroup,
    Operation,
    Paths,
    Python,
    Shape,
)
from memsyncd.operations.sections import SectionMeta
from memsyncd.operations.similar.declare import SimilarSection
from memsyncd.operations.upkeep.declare import UpkeepParams, Upkept

TopicName = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
"""The path of a note; its name in the memory folder, with or without `.md`; its title; or an alias.
A request that only reads may also name a note by the anchor of one of its sections."""
FieldName = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
"""The heading of a section of the topic, or its anchor."""
KeptValues = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class NewRelation(Params, frozen=True, kw_only=True):
    """A typed link from a topic: `- resolved_by [[redis-timeouts]]`."""

    kind: str = "related"
    """A word in lower case, such as `caused_by`, `resolved_by`, `part_of`, `contradicts`,
    `informs`."""
    to: str
    """The target: a note, named as in a link, or `note#heading`."""


class TopicListParams(WorkspaceParams, frozen=True, kw_only=True):
    path: Place | None = None
    """Only notes at this path, folder or glob."""
    sort: Literal["worth", "recency", "file", "salience"] = "worth"
    """The worthiest first, the latest first, or by path (`file`); `salience` is the former name of
    `worth`."""
    include_archived: bool = False
    limit: Limit = 50


class TopicInfo(SectionMeta, frozen=True, kw_only=True):
    """A topic: its note, and the metadata of the note."""

    path: str
    title: str
    digest: str
    """The digest of the note when it was indexed."""
    modified_at: float
    fields: list[str]
    """The headings of its fields."""
    worth: float
    """The mean worth of its fields, as if they were new: a topic does not age. Accesses of the
    sections beneath a field count for the field."""
    salience: float
    """The former name of `worth`."""
    accesses: int


class TopicList(Result, frozen=True, kw_only=True):
    workspace: str
    topics: list[TopicInfo]
    n_topics: int
    """How many topics there are, also beyond `limit`."""


class TopicGetParams(TrackedParams, frozen=True, kw_only=True):
    topic: TopicName
    """A note by its path, its name in the memory folder, its title or an alias."""
    include_archived: bool = False
    """Archived fields too."""
    workspace: Name | None = None


class FieldValue(Result, frozen=True, kw_only=True):
    at: str | None
    """When it was appended; null for text of the section that is not a dated item."""
    text: str


class FieldInfo(SectionMeta, frozen=True, kw_only=True):
    anchor: str
    name: str
    start_line: int
    end_line: int
    values: list[FieldValue]
    """The newest first. `field.history` also has the values that the note no longer has."""
    worth: float
    salience: float
    """The former name of `worth`."""
    accesses: int


class TopicRelation(Result, frozen=True, kw_only=True):
    kind: str
    to: str
    """The target as the link writes it."""


class Topic(SectionMeta, frozen=True, kw_only=True):
    workspace: str
    path: str
    title: str
    summary: str
    """The text below the title."""
    digest: str
    worth: float
    """The mean worth of its fields."""
    salience: float
    """The former name of `worth`."""
    accesses: int
    fields: list[FieldInfo]
    relations: list[TopicRelation]
    """The typed links of the note."""


class TopicCreateParams(WriteParams, frozen=True, kw_only=True):
    """A new note. Its title, summary, fields and relations become its text. All other parameters
    become its front matter, which holds for all fields. An error names every parameter that is
    wrong.
    """

    title: str
    """Its title, at most 200 characters long."""
    summary: str = ""
    """The text below the title."""
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    """A field by its name, with its first value."""
    relations: list[NewRelation] = msgspec.field(default_factory=list)
    """A relation, such as `resolved_by=redis-timeouts`."""
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
    note: Name | None = None
    """The note to create; by default a note in the memory folder, named after the title."""
    on_similar: OnSimilar = "add"
    """If a topic or section says nearly the same: `add` creates the topic, `append` appends summary
    and fields to the topic that exists, `report` writes nothing."""


class TopicPatchParams(WriteParams, frozen=True, kw_only=True):
    """Changes of a topic. Each parameter replaces what the topic had; an empty text or list removes
    it. `updated` becomes now. The text of the fields stays.
    """

    topic: TopicName
    """The note by its path, its name in the memory folder, its title or an alias."""
    title: str | None = None
    """The title; it is kept in the front matter, so that the anchors of the sections stay."""
    summary: str | None = None
    """The text below the title; its relations stay."""
    kind: str | None = None
    tags: list[str] | None = None
    """A tag that it is to have; tags that are not named are removed."""
    importance: float | None = None
    """From 0 to 1; by default it stays as it is."""
    priority: str | None = None
    lifecycle: str | None = None
    source: str | None = None
    task: str | None = None
    session: str | None = None
    scope: str | None = None
    keywords: list[str] | None = None
    expires: str | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    """Keys of your own; an empty text removes a key."""
    relate: list[NewRelation] = msgspec.field(default_factory=list)
    """A relation to add, such as `resolved_by=redis-timeouts`; an existing one stays as it is."""
    unrelate: list[NewRelation] = msgspec.field(default_factory=list)
    """A relation to remove."""
    if_digest: Name | None = None


class TopicWritten(Written, frozen=True, kw_only=True):
    path: str
    digest: str
    """The digest of the note after the request."""
    action: WriteAction
    """`unchanged` if nothing had to change."""
    fields: list[str]
    """The anchors of the fields that were written."""
    similar: list[SimilarSection]
    """Sections that say nearly the same, the most similar first."""


class TopicArchiveParams(UpkeepParams, frozen=True, kw_only=True):
    topics: Annotated[list[TopicName], msgspec.Meta(min_length=1, max_length=1000)]
    """Notes by their path, their name in the memory folder, their title or an alias."""


class FieldAppendParams(WriteParams, frozen=True, kw_only=True):
    """Append a value to a field, above the earlier values. A missing section is created."""

    topic: TopicName
    """The note by its path, its name in the memory folder, its title or an alias."""
    field: FieldName
    """The heading of a section, or its anchor."""
    content: str
    """The value, in markdown."""
    kind: str | None = None
    """The kind of the field; by default it stays as it is."""
    tags: list[str] = msgspec.field(default_factory=list)
    """A tag that the field gets in addition to its tags."""
    importance: float | None = None
    """From 0 to 1; by default it stays as it is."""
    source: str | None = None
    keep: KeptValues | None = None
    """So many values stay in the note, by default `memory.field_values` of the configuration;
    `field.history` has the others."""
    on_similar: OnSimilar = "add"
    """If a section says nearly the same: `add` appends to the named field, `append` appends to that
    section, `report` writes nothing."""
    if_digest: Name | None = None


class FieldAppended(WrittenSection, frozen=True, kw_only=True):
    """The section with the new value; after `reported`, the most similar section."""

    action: WriteAction
    n_values: int
    """How many values the field has in the note now."""
    n_dropped: int
    """How many values left the note. The history keeps them as long as `history.max_age_days` and
    `history.max_revisions`, which counts changes of the note, allow."""
    similar: list[SimilarSection]


class FieldHistoryParams(WorkspaceParams, frozen=True, kw_only=True):
    topic: TopicName
    """The note by its path, its name in the memory folder, its title or an alias."""
    field: FieldName
    """The heading of a section, or its anchor."""
    limit: Limit = 50
    before: RevisionId | None = None
    """Only values of revisions older than this one."""


class FieldVersion(Result, frozen=True, kw_only=True):
    at: str | None
    text: str
    is_current: bool
    """True if the note has the value now."""
    revision: int | None
    """The revision that added it; null if the history does not reach back so far."""
    change_set: int | None
    recorded_at: float | None
    client: str
    """The writer; empty for a change by another program."""
    command: str


class FieldHistory(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    field: str
    values: list[FieldVersion]
    """The newest first."""
    is_complete: bool
    """False if there may be earlier values: beyond this page, dropped by the limits of the history,
    or from before memsyncd first saw the note."""


# --- the operations ---------------------------------------------------------------------------

_PARSE = {
    "fields": "parse_pair_or_name",
    "metadata": "parse_pair_or_name",
    "relations": "parse_relation",
    "relate": "parse_relation",
    "unrelate": "parse_relation",
}
COMMAND_GROUPS = (
    CommandGroup(
        words="topic",
        group="Write",
        summary="notes as topics with fields: append, history, archive",
        examples=(
            "memsyncd topic list",
            "memsyncd topic append auth-service Status 'Redis 8'",
        ),
    ),
)
OPERATIONS = (
    Operation(
        name="topic.list",
        params=TopicListParams,
        result=TopicList,
        summary="List topics, which are notes, with their fields and their worth.",
        shape=Shape.READ,
        run="topics.run:list_all",
        errors=READS,
        route="GET /v1/topics",
        reads=True,
        paths=Paths(are_from_root=True, may_be_folder=True),
        command=Command(
            words="topic list",
            lists="topics",
            arguments=("path [PATH]",),
            show="show_topics",
            found="topics",
            examples=(
                "memsyncd topic list",
                "memsyncd topic list .memories/services --sort recency",
            ),
        ),
        python=Python(name="topics", positional=("path",), returns="topics"),
    ),
    Operation(
        name="topic.get",
        params=TopicGetParams,
        result=Topic,
        summary="Read a topic: its summary, its fields with their values, and its relations.",
        shape=Shape.STEPS,
        run="topics.run:get",
        errors=OPENS,
        route="GET /v1/topics/get",
        reads=True,
        command=Command(
            words="topic get",
            arguments=("topic TOPIC",),
            show="show_topic",
            examples=(
                "memsyncd topic get auth-service",
                "memsyncd topic get 'Auth service' --json",
            ),
        ),
        python=Python(name="topic", positional=("topic",)),
    ),
    Operation(
        name="topic.create",
        params=TopicCreateParams,
        result=TopicWritten,
        summary="Create a note for a topic, with fields and relations.",
        shape=Shape.STEPS,
        run="topics.run:create",
        errors=WRITES,
        route="POST /v1/topics/create",
        command=Command(
            words="topic create",
            arguments=("title TITLE", "summary [TEXT]"),
            usages={"fields": "--field NAME=TEXT…", "relations": "--relate KIND=NOTE…"},
            parse=_PARSE,
            show="show_written",
            examples=(
                "memsyncd topic create 'Auth service' 'Who you are.' --field 'Status=Redis 7'",
            ),
        ),
        python=Python(name="create_topic", positional=("title", "summary")),
    ),
    Operation(
        name="topic.patch",
        params=TopicPatchParams,
        result=TopicWritten,
        summary="Change title, summary, metadata and relations of a topic; its fields stay.",
        shape=Shape.STEPS,
        run="topics.run:patch",
        errors=WRITES,
        route="POST /v1/topics/patch",
        command=Command(
            words="topic patch",
            summary="change title, summary, metadata or relations; '' removes one",
            arguments=("topic TOPIC",),
            usages={"relate": "--relate KIND=NOTE…", "unrelate": "--unrelate KIND=NOTE…"},
            parse=_PARSE,
            prepare="make_patch",
            show="show_written",
            examples=(
                "memsyncd topic patch auth-service --importance 0.9 --relate part_of=platform",
            ),
        ),
        python=Python(name="patch_topic", positional=("topic",)),
    ),
    Operation(
        name="topic.archive",
        params=TopicArchiveParams,
        result=Upkept,
        summary="Archive whole topics: searches leave them out then.",
        shape=Shape.STEPS,
        run="topics.run:archive",
        errors=WRITES,
        command=Command(
            words="topic archive",
            summary="archive whole topics; its plan first",
            arguments=("topics TOPIC…",),
            show="upkeep:show_plan",
            found="archived restored",
            examples=("memsyncd topic archive auth-service --apply",),
        ),
        python=Python(name="archive_topic", positional=("*topics",)),
    ),
    Operation(
        name="topic.restore",
        params=TopicArchiveParams,
        result=Upkept,
        summary="Restore archived topics, byte for byte.",
        shape=Shape.STEPS,
        run="topics.run:restore",
        errors=WRITES,
        command=Command(
            words="topic restore",
            arguments=("topics TOPIC…",),
            show="upkeep:show_plan",
            found="archived restored",
            examples=("memsyncd topic restore auth-service --apply",),
        ),
        python=Python(name="restore_topic", positional=("*topics",)),
    ),
    Operation(
        name="field.append",
        params=FieldAppendParams,
        result=FieldAppended,
        summary="Append a value to a field of a topic, above the earlier ones.",
        shape=Shape.STEPS,
        run="topics.run:append",
        errors=WRITES,
        route="POST /v1/topics/append",
        command=Command(
            words="topic append",
            arguments=("topic TOPIC", "field FIELD", "content [TEXT…]"),
            help={"content": "the value; - or none to read it from stdin"},
            stdin="content",
            show="show_written",
            examples=("memsyncd topic append auth-service Status 'Redis 8 runs in production.'",),
        ),
        python=Python(name="append_field", positional=("topic", "field", "content")),
    ),
    Operation(
        name="field.history",
        params=FieldHistoryParams,
        result=FieldHistory,
        summary="List the present and earlier values of a field, the newest first.",
        shape=Shape.STEPS,
        run="topics.run:list_history",
        errors=OPENS,
        route="GET /v1/topics/history",
        reads=True,
        command=Command(
            words="topic history",
            lists="values",
            arguments=("topic TOPIC", "field FIELD"),
            usages={"before": "--before N"},
            show="show_history",
            found="values",
            examples=("memsyncd topic history auth-service Status",),
        ),
        python=Python(name="field_history", positional=("topic", "field"), returns="values"),
    ),
)
