"""Parameters and results of the methods that write notes, of those that archive, restore, clean up
and promote memories, and of those that read and undo their history.

A digest is None where no file exists. `client` is the name that the writer gives itself; `history`
shows it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from memsyncd.protocol.fields import (
    ClientName,
    Limit,
    Name,
    Params,
    Result,
    SectionPlace,
    TimeoutMs,
    Word,
    WorkspaceParams,
    WriteParams,
)
from memsyncd.protocol.search import Filters, SimilarSection

Heading = Annotated[str, msgspec.Meta(max_length=200)]
Tags = Annotated[list[Word], msgspec.Meta(max_length=32)]
RevisionId = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Place = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
"""The name of a note, folder or section. An empty name is refused: it is a program's mistake and
does not mean all notes."""
OnSimilar = Literal["add", "append", "report"]
"""What is done if a section says nearly the same as what is to be written."""
UndoNeeds = Literal["nothing", "confirm", "never"]
"""What an undo of a change needs."""
WriteAction = Literal["added", "appended", "changed", "reported", "unchanged"]
"""What was done; after `reported` and `unchanged` nothing is written."""
Searched = Annotated[str, msgspec.Meta(min_length=4, max_length=4096)]


class Written(Result, frozen=True, kw_only=True):
    """Common part of every answer to a write."""

    workspace: str
    generation: int
    """The index holds the write from this generation on."""
    is_indexed: bool
    """False if the write is on the disk and could not be indexed yet; `status` gives the reason."""
    change_set: int | None
    """The change set that `undo` takes; None if nothing was changed, or no history is kept."""


# --- memory tool ------------------------------------------------------------------------------


class MemoryParams(WriteParams, frozen=True, kw_only=True):
    """One command of the memory tool with its own parameters, under their own names. Paths begin
    with `/memories`.
    """

    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"]
    path: str | None = None
    view_range: tuple[int, int] | None = None
    """First and last line; -1 for the last line of the note."""
    file_text: str | None = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None
    """The line after which the text is inserted; 0 for before the first."""
    insert_text: str | None = None
    old_path: str | None = None
    new_path: str | None = None
    update_links: bool | None = None
    """`rename`: change the links of all notes so that they lead to the same notes as before, in the
    same change set."""
    dry_run: bool | None = None
    """`rename`: change nothing; name the notes whose links would be updated."""
    if_digest: Name | None = None
    """Digest that the writer has read; if the note has another digest, nothing is done. Empty for a
    note that does not exist."""
    dialect: Literal["docs", "sdk"] = "docs"
    """Wording of the answer: that of Anthropic's documents, or that of its Python SDK where they
    differ."""


class MemoryResult(Written, frozen=True, kw_only=True):
    text: str
    """The answer in the wording of the memory tool."""
    digest: str | None
    """Digest of the note after the command; None for a folder and for a deleted note."""
    is_searched: bool = True
    """False if the command has written a file that is no note, such as `deploy` or `a.json`: it is
    kept, and searches do not read it."""
    updated_links: list[str] = msgspec.field(default_factory=list)
    """The notes whose links a rename has changed, by their paths before it."""
    skipped_links: list[str] = msgspec.field(default_factory=list)
    """The notes whose links stay as they are: memsyncd may only read them, or another program has
    changed them meanwhile."""


class ClearParams(WriteParams, frozen=True, kw_only=True):
    confirm: bool
    """Must be true: every note of memory is removed; `undo` restores them."""


class Cleared(Written, frozen=True, kw_only=True):
    removed: int
    """Removed notes."""


# --- new sections -----------------------------------------------------------------------------


class NewSection(Params, frozen=True, kw_only=True):
    """A section to append: its text and its metadata. An error names every field that is wrong;
    `validate` checks a section without writing it.
    """

    content: str
    """Markdown; its headings are kept beneath the section's own. At most `max_content_chars` of
    the configuration, 10,000 by default."""
    summary: str = ""
    """The heading, of at most 200 characters; if empty, it is made from the beginning of the
    content."""
    kind: str | None = None
    """One word, such as `decision`; `session`, `discovery`, `checkpoint`, `note` and `summary` are
    kinds, too."""
    tags: list[str] = msgspec.field(default_factory=list)
    """At most 32."""
    importance: float | None = None
    """From 0 to 1; by default that of the kind."""
    priority: str | None = None
    """`P0` to `P3`."""
    lifecycle: str | None = None
    """`ephemeral`, `session`, `task` or `project`."""
    source: str | dict[str, str] | None = None
    """Where it comes from: a text, or names with values."""
    task: str | None = None
    wu_id: str | None = None
    """Another name for `task`."""
    session: str | None = None
    topic: str | None = None
    """At most 100 characters."""
    keywords: list[str] = msgspec.field(default_factory=list)
    """At most 20, of 100 characters each."""
    scope: str | None = None
    created: str | None = None
    """A day or a time; now by default."""
    updated: str | None = None
    expires: str | None = None
    """A day or a time, from which on searches leave it out."""
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    """Keys of one's own."""
    note: Name | None = None
    """The note to append it to, from the workspace's root or beneath `.memories/`, for `note.add`
    absolute as well; by default the note of its kind."""


class NoteAddParams(NewSection, frozen=True, kw_only=True):
    on_similar: OnSimilar = "add"
    """If a section says nearly the same: `add` writes a new one and names it, `append` appends the
    text to it, as `field.append` does, `report` writes nothing."""
    client: ClientName | None = None
    workspace: Name | None = None
    timeout_ms: TimeoutMs | None = None


class NoteAddManyParams(WriteParams, frozen=True, kw_only=True):
    items: Annotated[list[NewSection], msgspec.Meta(min_length=1, max_length=500)]
    """All of them are written, or none."""


class ValidateParams(WorkspaceParams, frozen=True, kw_only=True):
    """A section to check before it is written, or notes that are there."""

    section: dict[str, Any] | None = None
    """The fields of `note.add`."""
    path: Place | None = None
    """A note, folder or glob; without `section` and `path`, every note."""


class FieldFault(Result, frozen=True, kw_only=True):
    """One thing that is wrong; `field` is empty for a problem of a note's text."""

    field: str
    problem: str
    hint: str
    path: str = ""
    line: int = 0


class Validation(Result, frozen=True, kw_only=True):
    workspace: str
    """Empty for a section that is not written."""
    is_valid: bool
    faults: list[FieldFault]
    """All of them, by path and line."""
    checked: int
    """Sections that were checked."""


class AddedSection(Result, frozen=True, kw_only=True):
    anchor: str
    path: str
    start_line: int
    end_line: int
    digest: str
    """Digest of the note as written."""


class WrittenSection(Written, frozen=True, kw_only=True):
    """An answer with the place of a section, as in `AddedSection`."""

    anchor: str
    path: str
    start_line: int
    end_line: int
    digest: str
    """Digest of the note as written."""


class Added(WrittenSection, frozen=True, kw_only=True):
    """The place of the new section; of the similar one if that was appended to or reported."""

    action: WriteAction = "added"
    similar: list[SimilarSection] = msgspec.field(default_factory=list)
    """Sections that said nearly the same before, the most similar first."""
    similar_kind: str | None = None
    """A configured kind that is similar to the given one, which is not configured."""


class AddedMany(Written, frozen=True, kw_only=True):
    added: list[AddedSection]
    """In the order of the request."""


# --- capture ------------------------------------------------------------------------------------


class CapturedText(Params, frozen=True, kw_only=True):
    """A text that a step produced."""

    content: str
    """Markdown; each `## ` heading begins a section of its own."""
    path: Word = ""
    """The file it comes from, kept as the source."""


class CaptureParams(WriteParams, frozen=True, kw_only=True):
    """What one step of a run produced: artifacts, an error, answers. Secrets in it are masked, and
    what the notes hold already of the same run is not written again.
    """

    step: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    """The step's name; `[[step]]` of the configuration names its kind."""
    artifacts: Annotated[list[CapturedText], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=list
    )
    error: str | None = None
    """Why the step failed; written as kind tool_run with the tag failure."""
    answers: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=dict
    )
    """Questions of an interview with their answers, written as one section."""
    run_id: Word | None = None
    kind: Word | None = None
    """By default that of the step."""
    tags: Tags = msgspec.field(default_factory=list)
    """Besides the step's name."""
    overview: Heading = "Overview"
    """The heading for the text before the first `## `; if empty, it is made from that text."""
    trigger: Literal["failure", "decision", "summary", "interview"] | None = None
    """Sent by hooks: nothing is written unless `[capture]` of the configuration allows it."""


class Captured(Written, frozen=True, kw_only=True):
    added: list[AddedSection]
    """The sections that are new."""
    is_allowed: bool
    """False if the configuration does not let hooks write this."""


# --- summaries of a project's files -------------------------------------------------------------


class ProjectSource(Params, frozen=True, kw_only=True):
    """Files of a project, and the tags of their summaries."""

    path: Place
    """From the project's folder; wildcards may stand in the last part alone."""
    tags: Tags = msgspec.field(default_factory=list)


class IndexProjectParams(WriteParams, frozen=True, kw_only=True):
    """Bring the summaries of a project's files up to date: `project.md` in the memory folder has a
    section for each, with `source_path`, `source_hash` and `indexed_at`.
    """

    sources: Annotated[list[ProjectSource], msgspec.Meta(max_length=100)] = msgspec.field(
        default_factory=list
    )
    """More files, besides those that `sources` lists; they replace a source of the same path."""
    dry_run: bool = False
    """Change nothing; answer what would be done."""


class SourceChange(Result, frozen=True, kw_only=True):
    path: str
    action: Literal["created", "updated", "unchanged", "removed"]
    """What is done with the section of this file; it is removed with the file."""


class SkippedSource(Result, frozen=True, kw_only=True):
    """A file that cannot be read, and whose section stays, or that has nothing to summarise."""

    path: str
    reason: str


class ProjectIndexed(Written, frozen=True, kw_only=True):
    note: str
    sources: list[SourceChange]
    skipped: list[SkippedSource]


class SourceInfo(Result, frozen=True, kw_only=True):
    path: str
    tags: list[str]
    files: list[str]
    """Those that exist now."""


class Sources(Result, frozen=True, kw_only=True):
    workspace: str
    sources: list[SourceInfo]
    """The predefined ones, and those of `[[source]]` in the configuration."""


# --- history ----------------------------------------------------------------------------------


class HistoryParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Place | None = None
    path: Place | None = None
    """A note, or a folder with all notes in it; without `anchor` and `path`, the whole
    workspace."""
    limit: Limit = 20
    before: RevisionId | None = None
    """Only revisions older than this one."""


class RevisionInfo(Result, frozen=True, kw_only=True):
    """One change of one note."""

    revision: int
    change_set: int
    """Revisions of one operation share this number: the rename of a folder has a revision for each
    note."""
    at: float
    client: str
    """The writer; empty for a change by another program."""
    command: str
    """`create`, `str_replace`, `add`, `undo`, …; `external` for a change by another program,
    `first_seen` for a note that was there when memsyncd first saw it."""
    path: str
    old_path: str | None
    """The note's path before, if it was moved."""
    old_digest: str | None
    new_digest: str | None
    old_bytes: int | None
    new_bytes: int | None
    is_kept: bool
    """True while the texts before and after are kept, so that the change can be shown and
    undone."""
    undo: UndoNeeds
    """`confirm` if an undo of it deletes the note, though another program made it or an undo
    brought it back; `never` if the note was there when memsyncd first saw it."""


class History(Result, frozen=True, kw_only=True):
    workspace: str
    revisions: list[RevisionInfo]
    """Newest first."""


class DiffParams(WorkspaceParams, frozen=True, kw_only=True):
    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    """By default the latest one of the note or section."""
    to_now: bool = False
    """Compare the text before the revision with the text on the disk instead of with the text after
    the revision."""


class Diff(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    revision: int
    old_digest: str | None
    new_digest: str | None
    diff: str
    """Unified, with three lines around each change; empty if both texts are equal."""


class UndoParams(WriteParams, frozen=True, kw_only=True):
    """What to undo: a revision, all revisions of a change set, or the latest one of a note or
    section.
    """

    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    change_set: RevisionId | None = None
    confirm: bool = False
    """Without it an undo is refused with `confirmation_needed` if it deletes a note that another
    program made or an undo brought back, or takes back what other programs did to several notes."""


class PathState(Result, frozen=True, kw_only=True):
    path: str
    digest: str | None


class Undone(Written, frozen=True, kw_only=True):
    """`change_set` can be undone in turn."""

    undone: list[RevisionInfo]
    paths: list[PathState]
    """The notes after the undo."""


class PurgeParams(WorkspaceParams, frozen=True, kw_only=True):
    """Which revisions to erase from `records.db`: at least one condition, and all given conditions
    must hold.
    """

    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    containing: Searched | None = None
    """Revisions whose text before or after contains this."""
    all: bool = False
    """Every revision of the workspace."""


class SetAside(Result, frozen=True, kw_only=True):
    """A records.db that was set aside: damaged, of another workspace, or replaced by a restore."""

    path: str
    is_searched: bool
    """True if it was searched and has what was purged; False if it cannot be searched, because it
    is damaged or of an older version, and may have it."""


class Purged(Result, frozen=True, kw_only=True):
    workspace: str
    revisions: int
    texts: int
    access_counts: int
    """Sections whose count of accesses was erased."""
    signals: int
    """Erased signals between agents: all, or those with the text `containing`."""
    is_clean: bool
    """False while traces stay: `is_read`, in notes or in files that were set aside."""
    is_read: bool
    """Another program that reads records.db keeps traces in the file; they go when it ends."""
    still_in: list[str]
    """Notes whose current text contains `containing`."""
    set_aside: list[SetAside]
    """Files beside records.db that have it, too, or may have it; a purge never changes them."""


# --- backup and restore -------------------------------------------------------------------------


class Backup(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    """A temporary file with the whole history; move it, since the next backup deletes it."""
    revisions: int
    bytes: int


class RestoreParams(WorkspaceParams, frozen=True, kw_only=True):
    prepare: bool = False
    """Only return where to put the file, as `path`, or refuse as the restore would."""
    replace: bool = False
    """Replace a history that has revisions; it is set aside, not deleted."""
    adopt: bool = False
    """Restore the history of another workspace, which is refused otherwise. That of this folder at
    a former place is no other."""
    client: ClientName | None = None


class Restored(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    """Where the daemon expects the file to restore; it is moved from there."""
    revisions: int
    """Revisions in the file; 0 if it was only prepared."""
    recorded: int
    """Revisions that were added because notes differ from their last text in the file."""
    dropped: int
    """Revisions beyond the limits of the configuration."""
    set_aside: str | None
    """The file with the former history, if that had revisions."""


# --- archiving, restoring, cleaning up, promoting ------------------------------------------------


class PlanParams(WriteParams, frozen=True, kw_only=True):
    """Parameters of a method that plans a change of many memories, or carries it out."""

    dry_run: bool = True
    """Change nothing, and answer what would change."""
    plan: Name | None = None
    """The digest of a dry run: refused if the plan is another one now."""


class ArchiveParams(PlanParams, frozen=True, kw_only=True):
    """Which memories: those named by anchors, or those at a path that pass the filters. A memory is
    a section with those beneath it.
    """

    anchors: Annotated[list[Place], msgspec.Meta(max_length=10_000)] = msgspec.field(
        default_factory=list
    )
    path: Place | None = None
    """A note, folder or glob."""
    filters: Filters = Filters()
    below: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] | None = None
    """`archive`: only memories whose decay is below this; if nothing else selects memories, that of
    the configuration, 0.1 by default."""


class CleanupParams(PlanParams, frozen=True, kw_only=True):
    below: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] | None = None
    """Also archive memories whose decay is below this."""


class UpkeepItem(SectionPlace, frozen=True, kw_only=True):
    """A memory of a plan: the lines of its section and of those beneath it, before the change."""

    decay: float
    tier: Literal["hot", "warm", "cold"]
    reason: str
    """`decay`, `named`, `expired`, `ephemeral`, `session`, `in time`, or why it is skipped."""


class UpkeepPlan(Result, frozen=True, kw_only=True):
    """What an act changes, in the order of notes and lines."""

    plan: str
    """A digest of the changes."""
    archived: list[UpkeepItem]
    restored: list[UpkeepItem]
    retained: list[UpkeepItem]
    """Selected, and worth more than the limit or not past their time."""
    skipped: list[UpkeepItem]
    """Selected, and not to be changed."""


class Upkept(Written, frozen=True, kw_only=True):
    """A plan, and whether it was carried out."""

    is_applied: bool
    plan: str
    """A digest of the changes."""
    archived: list[UpkeepItem]
    restored: list[UpkeepItem]
    retained: list[UpkeepItem]
    """Selected, and worth more than the limit or not past their time."""
    skipped: list[UpkeepItem]
    """Selected, and not to be changed."""


class PromoteParams(WriteParams, frozen=True, kw_only=True):
    """A memory, or all summaries of a task: sections of the kind `summary`."""

    anchor: Place | None = None
    task: Word | None = None
    tag: Word
    """`decision`, `convention`, `pattern`, `pitfall`, `interface`, `invariant`, `faq`, or as
    configured."""
    note: Name | None = None
    """As for `note.add`; by default the configured one, `.memories/project.md`."""
    dry_run: bool = False
    """Change nothing, and answer what would be promoted."""


class PromotedMemory(Result, frozen=True, kw_only=True):
    source: str
    """The anchor of the memory, which stays as it is."""
    heading: str
    anchor: str | None
    """The section in the project's note; null for a new one of a dry run."""
    path: str
    is_new: bool
    """False if it was promoted with this tag before."""


class Promoted(Written, frozen=True, kw_only=True):
    is_applied: bool
    promoted: list[PromotedMemory]
