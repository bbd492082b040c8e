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
    """A section to be written: its text, and what it says of itself."""

    # Markdown; its headings are kept beneath the section's own.
    content: Required[str]
    # The heading; left out, it is made from what the content begins with.
    summary: str
    kind: str | None
    tags: Words
    importance: float | None
    priority: str | None
    lifecycle: str | None
    source: str | None
    task: str | None
    session: str | None
    # A day or a time; left out, now.
    created: str | None
    # The note to append it to, from the workspace's root or beneath `.memories/`; left out, that of
    # its kind.
    note: str | None


class Filters(TypedDict, total=False):
    """Each list means any of; different keys mean all of."""

    kind: Words
    tag: Words
    # Paths, folders or globs; what names nothing from the root on is looked for beneath
    # `.memories/`.
    path: Words
    # Words of a heading, or anchors; what is beneath counts too.
    section: Words
    task: Words
    # A day, month or year (`2026-03-01`, `2026-03`, `2026`): from its first day on. Only what has a
    # date is found.
    after: str | None
    # Likewise: up to the day before.
    before: str | None
    # Only what is archived, instead of only what is not.
    archived: bool


class MemoryCommand(TypedDict, total=False):
    """One command of the memory tool with its own parameters, named and meant as there. Paths begin
    with `/memories`.
    """

    path: str | None
    # First and last line; -1 for the note's last one.
    view_range: Sequence[int] | None
    file_text: str | None
    old_str: str | None
    new_str: str | None
    # The line after which the text goes; 0 for before the first.
    insert_line: int | None
    insert_text: str | None
    old_path: str | None
    new_path: str | None
    # What the writer had read; if the note is another by now, nothing is done. Empty for a note
    # that is not there.
    if_digest: str | None
    # Whose words to answer in: those of Anthropic's documents, or those of its Python SDK where
    # they differ.
    dialect: Literal["docs", "sdk"]


# --- results ---


class Freshness(TypedDict):
    generation: int
    pending: int
    unrecorded: int
    synced_at: float | None
    # `ready` only if nothing is known that no scan has looked at, and no scan is overdue.
    state: str
    # Why scans are overdue or a disk does not answer; null if neither is so. `status` says the
    # rest.
    reason: str | None


class Hit(TypedDict):
    workspace: str
    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]
    # Plain text of one line, matched words between `**` and `**`.
    snippet: str
    score: float
    kind: str | None
    tags: list[str]
    importance: float | None
    # Of the file as indexed.
    digest: str
    matched: list[str]
    explain: dict[str, float] | None


class Got(TypedDict):
    workspace: str
    anchor: str | None
    path: str
    start_line: int
    end_line: int
    text: str
    digest: str
    heading: list[str]
    kind: str | None
    tags: list[str]
    importance: float | None
    # Of the whole note.
    n_lines: int


class ContextPart(TypedDict):
    """Lines of a section."""

    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]
    kind: str | None
    # Of what is included: `match`, `pinned`, `MEMORY.md`, `project` or `recent`; of what is not:
    # `no room`.
    reason: str


class Written(TypedDict):
    """What every answer to a write says."""

    workspace: str
    # The index holds the write from this one on.
    generation: int
    # False if the write stands on the disk and the index could not take it in yet; `status` then
    # says why.
    is_indexed: bool


class MemoryResult(Written):
    # The answer as the memory tool words it.
    text: str
    # Of the note as it stands now; None for a folder, and for what is gone.
    digest: str | None


class AddedSection(TypedDict):
    anchor: str
    path: str
    start_line: int
    end_line: int
    # Of the note as written.
    digest: str


class Added(Written):
    anchor: str
    path: str
    start_line: int
    end_line: int
    # Of the note as written.
    digest: str


class Diff(TypedDict):
    workspace: str
    path: str
    revision: int
    old_digest: str | None
    new_digest: str | None
    # Unified, with three lines around each change; empty if both texts are the same.
    diff: str


class RevisionInfo(TypedDict):
    """One change of one note."""

    revision: int
    # What was done in one go has one number: a rename of a folder is one act with a revision for
    # each note.
    act: int
    at: float
    # Who wrote; empty for a change that was seen from outside.
    client: str
    # `create`, `str_replace`, `add`, `undo`, …; `outside` for a change that was seen from outside.
    command: str
    path: str
    # Where the note was before, if it was moved.
    old_path: str | None
    old_digest: str | None
    new_digest: str | None
    old_bytes: int | None
    new_bytes: int | None
    # Whether the texts before and after are still there, so that it can be shown and undone.
    is_kept: bool


class PathState(TypedDict):
    path: str
    digest: str | None


class Undone(Written):
    # The new one, which can be undone in its turn; None if everything stood as it should already.
    act: int | None
    undone: list[RevisionInfo]
    # How the notes stand now.
    paths: list[PathState]


class Purged(TypedDict):
    workspace: str
    revisions: int
    texts: int
    # False while another program that reads records.db keeps traces in the file; they go as soon as
    # it lets them.
    is_clean: bool
    # Notes whose text holds `containing` today: history no longer has it, they do.
    still_in: list[str]
    # Files, damaged or another workspace's, set aside beside records.db: nobody looks into them,
    # and they may hold it, too.
    set_aside: list[str]


class Cleared(Written):
    # What `undo` takes to bring them back; None if there was nothing to remove, or no history is
    # kept.
    act: int | None
    # Notes.
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
    """The parameters of the notification `changed`."""

    subscription: str
    workspace: str
    generation: int
    paths: list[str]
    # How many chunks were written or deleted.
    chunks: int
    # False if older changes were forgotten: list or search again.
    complete: bool
