"""Types of the parameters and results of `Memsyncd`, for type checkers; unused at run time.

Generated from the protocol by `python -m tests.client.generate_types`; do not edit. Values are
plain dictionaries with the keys of the protocol: lines are 1-based and inclusive, times (`at`,
`_at`) seconds since 1970, digests xxh3-128 in hexadecimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Required, TypedDict

# One word, or several of which any one matches.
Words = str | Sequence[str]


# --- parameters ---


class NewSection(TypedDict, total=False):
    """A section to append: its text and its metadata. An error names every field that is wrong;
    `validate` checks a section without writing it.
    """

    # Markdown; its headings are kept beneath the section's own. At most `max_content_chars` of the
    # configuration, 10,000 by default.
    content: Required[str]
    # The heading, of at most 200 characters; if empty, it is made from the beginning of the
    # content.
    summary: str
    # One word, such as `decision`; `session`, `discovery`, `checkpoint`, `note` and `summary` are
    # kinds, too.
    kind: str | None
    # At most 32.
    tags: Words
    # From 0 to 1; by default that of the kind.
    importance: float | None
    # `P0` to `P3`.
    priority: str | None
    # `ephemeral`, `session`, `task` or `project`.
    lifecycle: str | None
    # Where it comes from: a text, or names with values.
    source: str | dict[str, str] | None
    task: str | None
    # Another name for `task`.
    wu_id: str | None
    session: str | None
    # At most 100 characters.
    topic: str | None
    # At most 20, of 100 characters each.
    keywords: Words
    scope: str | None
    # A day or a time; now by default.
    created: str | None
    updated: str | None
    # A day or a time, from which on searches leave it out.
    expires: str | None
    # Keys of one's own.
    metadata: dict[str, str]
    # The note to append it to, from the workspace's root or beneath `.memories/`, for `note.add`
    # absolute as well; by default the note of its kind.
    note: str | None


class CapturedText(TypedDict, total=False):
    """A text that a step produced."""

    # Markdown; each `## ` heading begins a section of its own.
    content: Required[str]
    # The file it comes from, kept as the source.
    path: str


class ProjectSource(TypedDict, total=False):
    """Files of a project, and the tags of their summaries."""

    # From the project's folder; wildcards may stand in the last part alone.
    path: Required[str]
    tags: Words


class NewRelation(TypedDict, total=False):
    """A typed link from a topic: `- resolved_by [[redis-timeouts]]`."""

    # A word in lower case, such as `caused_by`, `resolved_by`, `part_of`, `contradicts`, `informs`.
    kind: str
    # The note that it leads to, as a link names it, or `note#heading`.
    to: Required[str]


class TopicMetadata(TypedDict, total=False):
    """A new note. Its title, summary, fields and relations are its text; the rest is its front
    matter, which holds for all of its fields. An error names every field that is wrong.
    """

    kind: str | None
    tags: Words
    importance: float | None
    priority: str | None
    lifecycle: str | None
    source: str | None
    task: str | None
    session: str | None
    scope: str | None
    keywords: Words
    expires: str | None
    # Keys of one's own.
    metadata: dict[str, str]


class TopicChanges(TypedDict, total=False):
    """Changes of a topic: what is given is replaced, an empty text or list removes it, and
    `updated` becomes now. The text of its fields stays.
    """

    # Kept in the front matter, so that the anchors of the sections stay.
    title: str | None
    # Replaces the text below the title, but not its relations.
    summary: str | None
    kind: str | None
    tags: Words | None
    importance: float | None
    priority: str | None
    lifecycle: str | None
    source: str | None
    task: str | None
    session: str | None
    scope: str | None
    keywords: Words | None
    expires: str | None
    # Keys of one's own; an empty text removes one.
    metadata: dict[str, str]


class Filters(TypedDict, total=False):
    """Values of one list are alternatives; different filters must all hold."""

    kind: Words
    tag: Words
    # Paths, folders or globs, absolute or from the root; a value that matches nothing from the root
    # is tried beneath `.memories/`. The very name of a note or folder is no glob.
    path: Words
    # Words of a heading, or anchors; sub-sections are included.
    section: Words
    task: Words
    session: Words
    source: Words
    # `P0` to `P3`.
    priority: Words
    # `ephemeral`, `session`, `task` or `project`.
    lifecycle: Words
    status: Words
    # `key=value` for other keys of metadata; of a list, any of its values. With `>=`, `<=`, `>` or
    # `<`, numbers and days are compared: `rating>=7`; all comparisons must hold.
    meta: Words
    # Keys of metadata: sections, or their notes, that state one.
    has: Words
    # Notes, named as links name them: what links to or from them; `resolved_by=note` by one
    # relation only.
    related_to: Words
    # `hot`, `warm` or `cold`: by what a section is worth at its age, as `sort: decay` orders.
    tier: Words
    # Stated, or by its kind.
    min_importance: float | None
    # A day, month or year (`2026-03-01`, `2026-03`, `2026`), or relative to today: `yesterday`,
    # `monday`, `7d`, `last week`: from its first day. A note without a date has the day on which it
    # was saved.
    after: str | None
    # Like `after`: up to the day before.
    before: str | None
    # Search only archived sections instead of only those that are not.
    archived: bool
    # Search only expired sections instead of only those that are not.
    expired: bool
    include_archived: bool
    include_expired: bool


class MemoryCommand(TypedDict, total=False):
    """One command of the memory tool with its own parameters, under their own names. Paths begin
    with `/memories`.
    """

    path: str | None
    # First and last line; -1 for the last line of the note.
    view_range: Sequence[int] | None
    file_text: str | None
    old_str: str | None
    new_str: str | None
    # The line after which the text is inserted; 0 for before the first.
    insert_line: int | None
    insert_text: str | None
    old_path: str | None
    new_path: str | None
    # `rename`: change the links of all notes so that they lead to the same notes as before, in the
    # same change set.
    update_links: bool | None
    # `rename`: change nothing; name the notes whose links would be updated.
    dry_run: bool | None
    # Digest that the writer has read; if the note has another digest, nothing is done. Empty for a
    # note that does not exist.
    if_digest: str | None
    # Wording of the answer: that of Anthropic's documents, or that of its Python SDK where they
    # differ.
    dialect: Literal["docs", "sdk"]


Sort = Literal["relevance", "decay", "importance", "priority", "recency", "file"]

# --- results ---


class Freshness(TypedDict):
    """How current the index was when a request was answered."""

    generation: int
    pending: int
    # Notes that the history has not recorded yet.
    unrecorded: int
    synced_at: float | None
    # `ready` only if no scan is overdue, all folders are watched and all notes could be read.
    state: str
    # Why the state is not `ready`, as `status` says it too; null otherwise.
    reason: str | None


class SectionPlace(TypedDict):
    """Where a section is: its note and its lines, 1-based and inclusive."""

    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]


class SectionMeta(TypedDict):
    """The metadata of a section: its own, else that of its note."""

    kind: str | None
    tags: list[str]
    # From 0 to 1; that of the kind if none is stated.
    importance: float
    is_importance_stated: bool
    priority: str | None
    lifecycle: str | None
    task: str | None
    session: str | None
    source: str | None
    # As written, like `updated`.
    created: str | None
    updated: str | None
    # A day, or a time in local time, or with `Z` in UTC; from then on searches leave it out.
    expires: str | None
    is_expired: bool
    # Any word; `archived` sections are left out of searches.
    status: str | None
    # The ISO day by which `after` and `before` filter.
    day: str
    # True if no date is stated, and the day is that of saving.
    is_day_of_file: bool
    # True if no date is stated, and the day is that in the file's name.
    is_day_of_name: bool
    # All other keys of the front matter and of the section's comment, as text.
    meta: dict[str, str]


class FoundSection(SectionMeta):
    """A section in an answer: its metadata, and where it is, as in `SectionPlace`."""

    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]


class RelatedMeta(FoundSection):
    """A section in an answer, and the contradictions in which it is. Both are anchors of sections,
    or paths of notes, that typed links `contradicts` name.
    """

    contradicts: list[str]
    contradicted_by: list[str]


class RelatedSection(FoundSection):
    """A section, with those beneath it, or a whole note, that a typed link leads to. The anchor of
    a whole note is that of its first section.
    """

    # The relation that was followed, from the section that was found to this one.
    relation: str
    # Plain text of one line: its beginning.
    snippet: str


class Hit(RelatedMeta):
    """A passage of one section, or of neighbouring ones that state no metadata of their own."""

    workspace: str
    # Those of a passage of several, by line; empty for one. Anchor and heading of the hit are those
    # of the snippet.
    sections: list[SectionPlace]
    # Plain text of one line, with matched words between `**` and `**`.
    snippet: str
    # The line to put above the snippet for a model if heading, snippet or `related` try to instruct
    # their reader.
    mark: str
    score: float
    # Digest of the file as indexed.
    digest: str
    # The words of the query that the hit holds, itself or a related one; empty if its meaning alone
    # is near.
    matched: list[str]
    # Those of `matched` of which it holds related words alone, such as `electrician` for
    # `electrics`.
    matched_related: list[str]
    # What the relations to `follow` lead to, at most 20 sections, in order of the links.
    related: list[RelatedSection]
    explain: dict[str, float] | None


class AnsweringWorkspace(TypedDict):
    """A workspace that was asked, and why it is left out of the answer if it is."""

    id: str
    name: str
    # The folder that paths are relative to.
    root: str
    # The folder in a linked git worktree that stands for `root`, if one was named.
    worktree: str | None
    # True for the user-wide workspace, whose parts of a block are labelled `user-wide`.
    user: bool
    # Why the workspace is left out; null if it is not.
    failure: str | None
    # The code of that error.
    code: str | None


class Got(SectionMeta):
    """Lines of a note, and the metadata of the section in which they begin."""

    workspace: str
    anchor: str | None
    path: str
    start_line: int
    end_line: int
    text: str
    digest: str
    heading: list[str]
    # Lines of the whole note.
    n_lines: int
    # Links from the section or note, as `links` lists them; 0 for the file of a worktree.
    n_links: int
    # Links to it.
    n_backlinks: int


class ContextPart(RelatedMeta):
    """Lines of a section that the text includes, and the section's metadata."""

    workspace: str
    # `match`, `MEMORY.md`, `pinned`, `important` (preferences and errors), `project`, `recent` or
    # `related`, if a relation was followed to it.
    reason: str
    # A relation that was followed to it.
    relation: str | None
    # The section from which it was followed.
    related_to: str | None


class LeftOutPart(SectionPlace):
    """Lines of a section that the text leaves out."""

    workspace: str
    kind: str | None
    # `no room`, or `the same as ANCHOR`, which the text includes.
    reason: str


class ValueCount(TypedDict):
    # Null for sections without one.
    value: str | None
    sections: int
    notes: int


class MemoryStats(TypedDict):
    """Counts of the sections that pass the filters, and of their notes."""

    workspace: str
    sections: int
    notes: int
    # Of these notes as a whole.
    bytes: int
    # By group; a section counts once for each of its tags.
    counts: dict[str, list[ValueCount]]
    freshness: Freshness


class SectionAccesses(TypedDict):
    anchor: str
    # Each session counts once.
    count: int
    # Sessions among them that are remembered.
    sessions: int
    last_at: float
    # False while no note has such a section: it was deleted, or rewritten with its heading.
    is_indexed: bool


class AccessStats(TypedDict):
    """How often sections were recalled, with accesses that were noted just now."""

    workspace: str
    # With a count, before `limit`.
    sections: int
    accesses: int
    counts: list[SectionAccesses]


class RecordedAccesses(TypedDict):
    workspace: str
    # The named sections and notes that were counted.
    sections: int
    # The anchors of which the index has no section; if it has none at all, the call fails.
    unknown: list[str]


class SignalReceipt(TypedDict):
    # `agent:NAME`, `session:ID` or `task:ID`.
    reader: str
    at: float


class Signal(TypedDict):
    """One signal. Its ids grow in the order of sending."""

    id: int
    at: float
    sender: str
    type: str
    content: str
    # `agent:NAME`, `session:ID` and `task:ID`.
    to: list[str]
    expires_at: float
    # When the reader acknowledged it; null if it is unread, and in an outbox.
    acked_at: float | None
    # In an outbox: who has acknowledged it.
    receipts: list[SignalReceipt]


class SignalSent(TypedDict):
    workspace: str
    signal: Signal
    # False if the sender has sent a signal with this `key` before, which is the one returned.
    is_new: bool


class SignalsAcked(TypedDict):
    workspace: str
    # Acknowledged now for the first time.
    acked: list[int]
    already: list[int]
    # Expired, erased, or addressed to others.
    unknown: list[int]


class Written(TypedDict):
    """Common part of every answer to a write."""

    workspace: str
    # The index holds the write from this generation on.
    generation: int
    # False if the write is on the disk and could not be indexed yet; `status` gives the reason.
    is_indexed: bool
    # The change set that `undo` takes; None if nothing was changed, or no history is kept.
    change_set: int | None


class MemoryResult(Written):
    # The answer in the wording of the memory tool.
    text: str
    # Digest of the note after the command; None for a folder and for a deleted note.
    digest: str | None
    # False if the command has written a file that is no note, such as `deploy` or `a.json`: it is
    # kept, and searches do not read it.
    is_searched: bool
    # The notes whose links a rename has changed, by their paths before it.
    updated_links: list[str]
    # The notes whose links stay as they are: memsyncd may only read them, or another program has
    # changed them meanwhile.
    skipped_links: list[str]


class AddedSection(TypedDict):
    anchor: str
    path: str
    start_line: int
    end_line: int
    # Digest of the note as written.
    digest: str


class WrittenSection(Written):
    """An answer with the place of a section, as in `AddedSection`."""

    anchor: str
    path: str
    start_line: int
    end_line: int
    # Digest of the note as written.
    digest: str


class SimilarSection(FoundSection):
    workspace: str
    # Digest of the file as indexed.
    digest: str
    similarity: float


class Added(WrittenSection):
    """The place of the new section; of the similar one if that was appended to or reported."""

    action: Literal["added", "appended", "changed", "reported", "unchanged"]
    # Sections that said nearly the same before, the most similar first.
    similar: list[SimilarSection]
    # A configured kind that is similar to the given one, which is not configured.
    similar_kind: str | None


class TaskSection(FoundSection):
    """A section of a task, with its text without heading and comment."""

    text: str


class TaskReady(TypedDict):
    workspace: str
    # Open ones, P0 first and then the oldest; records of what has happened (sessions, checkpoints,
    # summaries) are no work.
    items: list[TaskSection]
    # Before `limit`.
    n_ready: int
    # Left out: their status is `blocked`, or `blocked_by`, as metadata or a typed link, names a
    # task, section or note that is not done.
    blocked: int


class TaskContext(TypedDict):
    """Profile, summaries, task and discoveries, in this order; the same notes give one text."""

    workspace: str
    # Empty if there is nothing.
    text: str
    bytes: int
    # Anchors.
    included: list[str]
    # Anchors of what found no room.
    left_out: list[str]


class TaskSummary(TypedDict):
    workspace: str
    text: str
    # Anchors.
    sources: list[str]
    # Null for a dry run, without anything to summarise, and if the task has this summary.
    added: AddedSection | None


class SessionStarted(Written):
    # The section that says so.
    added: AddedSection
    # As of `session.resume`.
    text: str


class SessionBlock(TypedDict):
    workspace: str
    # Task, unread signals, last checkpoint, summary, open discoveries, and what is ready.
    text: str
    task: str | None
    included: list[str]
    left_out: list[str]
    # The unread signals; reading them here does not acknowledge them.
    signals: list[int]


class Triage(TypedDict):
    workspace: str
    open: int
    closed: int
    # Open ones without a task.
    untriaged: int
    # Of the open ones; those without a priority under `none`.
    by_priority: dict[str, int]
    # The open one without a task that comes first: P0 first, then the oldest.
    next: TaskSection | None
    # The open ones, in that order.
    items: list[TaskSection]
    # The new section; null if nothing was promoted now, or before.
    promoted: AddedSection | None


class Profile(TypedDict):
    """What holds for the whole project: the sections with the lifecycle `project`."""

    workspace: str
    # The most important first.
    items: list[TaskSection]
    # Of all of them, the commonest first.
    tags: dict[str, int]
    kinds: dict[str, int]
    # Before `limit`.
    sections: int
    notes: int


class TopicInfo(SectionMeta):
    """A topic: its note, and the metadata of the note."""

    path: str
    title: str
    # Digest of the note as indexed.
    digest: str
    modified_at: float
    # The headings of its fields.
    fields: list[str]
    # From 0 to 1: the mean of its fields'. A field's is its importance, raised by accesses.
    salience: float
    accesses: int


class FieldValue(TypedDict):
    # When it was appended; null for text of a section that is no dated item.
    at: str | None
    text: str


class FieldInfo(SectionMeta):
    anchor: str
    name: str
    start_line: int
    end_line: int
    # The newest first; what was there before is in `field.history`.
    values: list[FieldValue]
    salience: float
    accesses: int


class TopicRelation(TypedDict):
    kind: str
    # As written in the link.
    to: str


class Topic(SectionMeta):
    workspace: str
    path: str
    title: str
    # The text below the title.
    summary: str
    digest: str
    salience: float
    accesses: int
    fields: list[FieldInfo]
    # The typed links of the note.
    relations: list[TopicRelation]


class TopicWritten(Written):
    path: str
    # Digest of the note as it is now.
    digest: str
    # `unchanged` if nothing had to change.
    action: Literal["added", "appended", "changed", "reported", "unchanged"]
    # The anchors of the fields that were written.
    fields: list[str]
    # Sections that say nearly the same, the most similar first.
    similar: list[SimilarSection]


class FieldAppended(WrittenSection):
    """The section that has the value; with `report`, the similar one."""

    action: Literal["added", "appended", "changed", "reported", "unchanged"]
    # Values that the field has in the note now.
    n_values: int
    # Values that went from the note to the history, which keeps them for `history.max_age_days` and
    # the note's last `history.max_revisions` changes.
    n_dropped: int
    similar: list[SimilarSection]


class FieldVersion(TypedDict):
    at: str | None
    text: str
    # Whether the note has it now.
    is_current: bool
    # The change of the note that brought it; null if the history does not reach back so far.
    revision: int | None
    change_set: int | None
    recorded_at: float | None
    # The writer; empty for another program.
    client: str
    command: str


class FieldHistory(TypedDict):
    workspace: str
    path: str
    field: str
    # The newest first.
    values: list[FieldVersion]
    # False if there may have been earlier values: older than this page, or dropped by the limits of
    # the history, or from before memsyncd saw the note.
    is_complete: bool


class SourceChange(TypedDict):
    path: str
    # What is done with the section of this file; it is removed with the file.
    action: Literal["created", "updated", "unchanged", "removed"]


class SkippedSource(TypedDict):
    """A file that cannot be read, and whose section stays, or that has nothing to summarise."""

    path: str
    reason: str


class ProjectIndexed(Written):
    note: str
    sources: list[SourceChange]
    skipped: list[SkippedSource]


class SourceInfo(TypedDict):
    path: str
    tags: list[str]
    # Those that exist now.
    files: list[str]


class PatternSection(FoundSection):
    workspace: str
    # Plain text of one line: its beginning.
    snippet: str


class Pattern(TypedDict):
    """Sections of several workspaces that have the same kind and topic, and similar texts."""

    kind: str | None
    topic: str | None
    # Each section is at least so similar to another one.
    similarity: float
    n_workspaces: int
    sections: list[PatternSection]


class Patterns(TypedDict):
    patterns: list[Pattern]
    # All that were found, before `limit`.
    n_patterns: int
    # Sections that were compared: those with a kind or topic that several workspaces have.
    compared: int
    # Sections that were too many to be compared: the notes saved last come first.
    left_out: int
    workspaces: list[AnsweringWorkspace]
    freshness: Freshness
    took_ms: float


class LinkInfo(TypedDict):
    """The links from one section to one place by one relation."""

    # The anchor of the section that holds them.
    source: str
    lines: list[int]
    # Empty for an untyped link.
    relation: str
    # `link`, or `embed` for one that shows the note in place.
    kind: str
    # The path of a note or the anchor of a section; null if no note has this name.
    to: str | None
    # The name as written; empty for a link within its own note.
    target: str
    # The heading as written.
    heading: str
    # Steps from the note or section; 0 in a list of all links.
    depth: int
    # The note with the most similar name, for a link that leads to none.
    similar: str | None
    # True for a link that leads out of the workspace.
    is_outside: bool


class Links(TypedDict):
    workspace: str
    # The nearest first, then by path and line.
    links: list[LinkInfo]
    # All that were found, before `limit`.
    n_links: int
    # The links in the `format` that was asked for: sections if they are those of a section, else
    # notes.
    drawing: str | None
    freshness: Freshness


class Copy(SectionPlace):
    """A section of which there are near copies."""

    # Digest of the file as indexed.
    digest: str
    # Words in common with the first of the group.
    similarity: float


class DuplicateGroup(TypedDict):
    # The longest first: it is likely to hold what the others say.
    sections: list[Copy]
    # The lowest by words of the pairs that make the group.
    similarity: float
    # The lowest of vectors; null where vectors did not find a pair.
    cosine: float | None


class Duplicates(TypedDict):
    """A plan: nothing is changed."""

    workspace: str
    # The largest first.
    groups: list[DuplicateGroup]
    # All that were found, before `limit`.
    n_groups: int
    how_to_merge: str
    # Whether copies in other words were looked for, too.
    semantic: Literal["off", "partial", "ready"]
    semantic_pending: int
    freshness: Freshness | None


class Captured(Written):
    # The sections that are new.
    added: list[AddedSection]
    # False if the configuration does not let hooks write this.
    is_allowed: bool


class FieldFault(TypedDict):
    """One thing that is wrong; `field` is empty for a problem of a note's text."""

    field: str
    problem: str
    hint: str
    path: str
    line: int


class Validation(TypedDict):
    # Empty for a section that is not written.
    workspace: str
    is_valid: bool
    # All of them, by path and line.
    faults: list[FieldFault]
    # Sections that were checked.
    checked: int


class UpkeepItem(SectionPlace):
    """A memory of a plan: the lines of its section and of those beneath it, before the change."""

    decay: float
    tier: Literal["hot", "warm", "cold"]
    # `decay`, `named`, `expired`, `ephemeral`, `session`, `in time`, or why it is skipped.
    reason: str


class Upkept(Written):
    """A plan, and whether it was carried out."""

    is_applied: bool
    # A digest of the changes.
    plan: str
    archived: list[UpkeepItem]
    restored: list[UpkeepItem]
    # Selected, and worth more than the limit or not past their time.
    retained: list[UpkeepItem]
    # Selected, and not to be changed.
    skipped: list[UpkeepItem]


class PromotedMemory(TypedDict):
    # The anchor of the memory, which stays as it is.
    source: str
    heading: str
    # The section in the project's note; null for a new one of a dry run.
    anchor: str | None
    path: str
    # False if it was promoted with this tag before.
    is_new: bool


class Promoted(Written):
    is_applied: bool
    promoted: list[PromotedMemory]


class RecalledMemory(RelatedMeta):
    """A section with those beneath it."""

    # A relation that was followed to it.
    relation: str | None
    # The memory from which it was followed.
    related_to: str | None
    # The line to put above the text for a model if it tries to instruct its reader.
    mark: str
    # Without the section's comment. That of the most important memory, or with words of the best
    # match, is cut, with `…`, if it is larger than the budget.
    text: str
    tokens: int


class Recalled(TypedDict):
    workspace: str
    # The stage that found them; null if none did.
    stage: Literal["keywords", "topic and kind", "words"] | None
    # The most important first, then the last accessed or updated.
    memories: list[RecalledMemory]
    tokens: int
    # Memories that were found, and for which the budget has no room.
    left_out: int
    freshness: Freshness | None


class Diff(TypedDict):
    workspace: str
    path: str
    revision: int
    old_digest: str | None
    new_digest: str | None
    # Unified, with three lines around each change; empty if both texts are equal.
    diff: str


class RevisionInfo(TypedDict):
    """One change of one note."""

    revision: int
    # Revisions of one operation share this number: the rename of a folder has a revision for each
    # note.
    change_set: int
    at: float
    # The writer; empty for a change by another program.
    client: str
    # `create`, `str_replace`, `add`, `undo`, …; `external` for a change by another program,
    # `first_seen` for a note that was there when memsyncd first saw it.
    command: str
    path: str
    # The note's path before, if it was moved.
    old_path: str | None
    old_digest: str | None
    new_digest: str | None
    old_bytes: int | None
    new_bytes: int | None
    # True while the texts before and after are kept, so that the change can be shown and undone.
    is_kept: bool
    # `confirm` if an undo of it deletes the note, though another program made it or an undo brought
    # it back; `never` if the note was there when memsyncd first saw it.
    undo: Literal["nothing", "confirm", "never"]


class PathState(TypedDict):
    path: str
    digest: str | None


class Undone(Written):
    """`change_set` can be undone in turn."""

    undone: list[RevisionInfo]
    # The notes after the undo.
    paths: list[PathState]


class SetAside(TypedDict):
    """A records.db that was set aside: damaged, of another workspace, or replaced by a restore."""

    path: str
    # True if it was searched and has what was purged; False if it cannot be searched, because it is
    # damaged or of an older version, and may have it.
    is_searched: bool


class Purged(TypedDict):
    workspace: str
    revisions: int
    texts: int
    # Sections whose count of accesses was erased.
    access_counts: int
    # Erased signals between agents: all, or those with the text `containing`.
    signals: int
    # False while traces stay: `is_read`, in notes or in files that were set aside.
    is_clean: bool
    # Another program that reads records.db keeps traces in the file; they go when it ends.
    is_read: bool
    # Notes whose current text contains `containing`.
    still_in: list[str]
    # Files beside records.db that have it, too, or may have it; a purge never changes them.
    set_aside: list[SetAside]


class Cleared(Written):
    # Removed notes.
    removed: int


class Failed(TypedDict):
    path: str
    problem: str


class ChunkCounts(TypedDict):
    upserted: int
    deleted: int
    kept: int
    moved: int


class SyncReport(TypedDict):
    workspace: str
    generation: int
    added: int
    modified: int
    moved: int
    removed: int
    unchanged: int
    failed: list[Failed]
    chunks: ChunkCounts
    duration_ms: float


class Changed(TypedDict):
    """Parameters of the notification `changed`."""

    subscription: str
    workspace: str
    generation: int
    paths: list[str]
    # Chunks written or deleted.
    chunks: int
    # False if older changes are no longer known: list or search again.
    complete: bool
    # True if notes were added, removed or moved, so that a list of notes has changed.
    listing: bool
