"""What do the methods that write take and give, and those that tell what was written before?

As in `params` and `results`: one struct each; times are seconds since 1970 (`_at`, `at`), lines 1-based and inclusive. A
digest is None where there is no file. `client` is the writer's own name, which `history` shows.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.wire.params import Limit, Name, Params, TimeoutMs
from memsyncd.wire.results import Result

ClientName = Annotated[str, msgspec.Meta(max_length=64)]
Heading = Annotated[str, msgspec.Meta(max_length=200)]
Word = Annotated[str, msgspec.Meta(max_length=200)]
Tags = Annotated[list[Word], msgspec.Meta(max_length=32)]
Importance = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
RevisionId = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Place = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
"""The name of a note, folder or section. An empty one is a program's mistake, and does not stand for everything."""
Searched = Annotated[str, msgspec.Meta(min_length=4, max_length=4096)]

# --- parameters ---


class MemoryParams(Params, frozen=True, kw_only=True):
    """One command of the memory tool with its own parameters, named and meant as there. Paths begin with `/memories`."""

    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"]
    path: str | None = None
    view_range: tuple[int, int] | None = None
    """First and last line; -1 for the note's last one."""
    file_text: str | None = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None
    """The line after which the text goes; 0 for before the first."""
    insert_text: str | None = None
    old_path: str | None = None
    new_path: str | None = None
    if_digest: Name | None = None
    """What the writer had read; if the note is another by now, nothing is done. Empty for a note that is not there."""
    dialect: Literal["docs", "sdk"] = "docs"
    """Whose words to answer in: those of Anthropic's documents, or those of its Python SDK where they differ."""
    client: ClientName | None = None
    workspace: Name | None = None
    timeout_ms: TimeoutMs | None = None


class NewSection(Params, frozen=True, kw_only=True):
    """A section to be written: its text, and what it says of itself."""

    content: str
    """Markdown; its headings are kept beneath the section's own."""
    summary: Heading = ""
    """The heading; left out, it is made from what the content begins with."""
    kind: Word | None = None
    tags: Tags = msgspec.field(default_factory=list)
    importance: Importance | None = None
    priority: Word | None = None
    lifecycle: Word | None = None
    source: Word | None = None
    task: Word | None = None
    session: Word | None = None
    created: Word | None = None
    """A day or a time; left out, now."""
    note: Name | None = None
    """The note to append it to, from the workspace's root or beneath `.memories/`; left out, that of its kind."""


class NoteAddParams(NewSection, frozen=True, kw_only=True):
    client: ClientName | None = None
    workspace: Name | None = None
    timeout_ms: TimeoutMs | None = None


class NoteAddManyParams(Params, frozen=True, kw_only=True):
    items: Annotated[list[NewSection], msgspec.Meta(min_length=1, max_length=500)]
    """All of them are written or none."""
    client: ClientName | None = None
    workspace: Name | None = None
    timeout_ms: TimeoutMs | None = None


class HistoryParams(Params, frozen=True, kw_only=True):
    anchor: Place | None = None
    path: Place | None = None
    """A note, or a folder with all that is in it; left out with `anchor`, the whole workspace."""
    limit: Limit = 20
    before: RevisionId | None = None
    """Only revisions older than this one."""
    workspace: Name | None = None


class DiffParams(Params, frozen=True, kw_only=True):
    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    """Left out, the latest one of the note or section."""
    to_now: bool = False
    """From what stood before the revision to what stands now, instead of to what the revision made of it."""
    workspace: Name | None = None


class UndoParams(Params, frozen=True, kw_only=True):
    """What to take back: a revision, all revisions of an act, or the latest one of a note or section."""

    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    act: RevisionId | None = None
    client: ClientName | None = None
    workspace: Name | None = None
    timeout_ms: TimeoutMs | None = None


class PurgeParams(Params, frozen=True, kw_only=True):
    """Which revisions are to leave `records.db` for good: at least one of these says which, several must all hold."""

    anchor: Place | None = None
    path: Place | None = None
    revision: RevisionId | None = None
    containing: Searched | None = None
    """Those whose text before or after holds this."""
    all: bool = False
    """Every revision of the workspace."""
    workspace: Name | None = None


class ClearParams(Params, frozen=True, kw_only=True):
    confirm: bool
    """Must be true: every note of memory is removed; `undo` brings them back."""
    client: ClientName | None = None
    workspace: Name | None = None


# --- results ---


class Written(Result, frozen=True, kw_only=True):
    """What every answer to a write says."""

    workspace: str
    generation: int
    """The index holds the write from this one on."""
    is_indexed: bool
    """False if the write stands on the disk and the index could not take it in yet; `status` then says why."""


class MemoryResult(Written, frozen=True, kw_only=True):
    text: str
    """The answer as the memory tool words it."""
    digest: str | None
    """Of the note as it stands now; None for a folder, and for what is gone."""


class AddedSection(Result, frozen=True, kw_only=True):
    anchor: str
    path: str
    start_line: int
    end_line: int
    digest: str
    """Of the note as written."""


class Added(Written, frozen=True, kw_only=True):
    anchor: str
    path: str
    start_line: int
    end_line: int
    digest: str
    """Of the note as written."""


class AddedMany(Written, frozen=True, kw_only=True):
    added: list[AddedSection]
    """In the order asked for."""


class RevisionInfo(Result, frozen=True, kw_only=True):
    """One change of one note."""

    revision: int
    act: int
    """What was done in one go has one number: a rename of a folder is one act with a revision for each note."""
    at: float
    client: str
    """Who wrote; empty for a change that was seen from outside."""
    command: str
    """`create`, `str_replace`, `add`, `undo`, …; `outside` for a change that was seen from outside."""
    path: str
    old_path: str | None
    """Where the note was before, if it was moved."""
    old_digest: str | None
    new_digest: str | None
    old_bytes: int | None
    new_bytes: int | None
    is_kept: bool
    """Whether the texts before and after are still there, so that it can be shown and undone."""


class History(Result, frozen=True, kw_only=True):
    workspace: str
    revisions: list[RevisionInfo]
    """Newest first."""


class Diff(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    revision: int
    old_digest: str | None
    new_digest: str | None
    diff: str
    """Unified, with three lines around each change; empty if both texts are the same."""


class PathState(Result, frozen=True, kw_only=True):
    path: str
    digest: str | None


class Undone(Written, frozen=True, kw_only=True):
    act: int | None
    """The new one, which can be undone in its turn; None if everything stood as it should already."""
    undone: list[RevisionInfo]
    paths: list[PathState]
    """How the notes stand now."""


class Purged(Result, frozen=True, kw_only=True):
    workspace: str
    revisions: int
    texts: int
    is_clean: bool
    """False while another program that reads records.db keeps traces in the file; they go as soon as it lets them."""
    still_in: list[str]
    """Notes whose text holds `containing` today: history no longer has it, they do."""
    set_aside: list[str]
    """Files, damaged or another workspace's, set aside beside records.db: nobody looks into them, and they may hold it, too."""


class Cleared(Written, frozen=True, kw_only=True):
    act: int | None
    """What `undo` takes to bring them back; None if there was nothing to remove, or no history is kept."""
    removed: int
    """Notes."""


# --- backup and restore ---


class BackupParams(Params, frozen=True, kw_only=True):
    workspace: Name | None = None


class Backup(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    """A temporary file with the whole history; move it, for the next backup deletes it."""
    revisions: int
    bytes: int


class RestoreParams(Params, frozen=True, kw_only=True):
    prepare: bool = False
    """Only say where the file has to be put, as `path`, or refuse as the restore would."""
    replace: bool = False
    """Replace a history that has revisions; it is set aside, not deleted."""
    client: ClientName | None = None
    workspace: Name | None = None


class Restored(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    """Where the daemon looks for the file to be restored; it is moved from there."""
    revisions: int
    """Of the file; 0 if it was only prepared."""
    recorded: int
    """Revisions that were added since notes differ from what they said last in the file."""
    dropped: int
    """Revisions beyond what the configuration keeps."""
    set_aside: str | None
    """The file with the former history, if that had revisions."""
