"""What does the daemon answer, and what may be said to it, as types for `Memsyncd` and whoever uses it?

Plain dictionaries with the keys of the wire: lines are 1-based and inclusive, times (`at`, `_at`) seconds since 1970, digests
xxh3-128 in hexadecimal. Type checkers read this; at run time nothing here is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired, Required, TypedDict

Words = str | Sequence[str]
"""One word or several, any of which will do."""


# --- what may be said ---


class NewSection(TypedDict, total=False):
    """A section to be written; only `content` must be given. `importance` is from 0 to 1."""

    content: Required[str]
    summary: str
    kind: str | None
    tags: Sequence[str]
    importance: float | None
    priority: str | None
    lifecycle: str | None
    source: str | None
    task: str | None
    session: str | None
    created: str | None
    note: str | None


class Filters(TypedDict, total=False):
    """Where passages may come from. Each takes any of its values, different ones must all hold; days are text, `2026-03-01`."""

    kind: Words
    tag: Words
    path: Words
    section: Words
    task: Words
    after: str
    before: str
    archived: bool


class MemoryCommand(TypedDict, total=False):
    """Parameters of a command of the memory tool, beside its name."""

    path: str
    view_range: Sequence[int]
    file_text: str
    old_str: str
    new_str: str
    insert_line: int
    insert_text: str
    old_path: str
    new_path: str
    if_digest: str | None
    dialect: Literal["docs", "sdk"]


# --- what is answered ---


class Freshness(TypedDict):
    generation: int
    pending: int
    unrecorded: int
    synced_at: float | None
    state: str
    reason: str | None


class Hit(TypedDict):
    """A passage that was found. `snippet` has the matched words between `**` and `**`; `score` is in (0, 1]."""

    workspace: str
    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]
    snippet: str
    score: float
    kind: str | None
    tags: list[str]
    importance: float | None
    digest: str
    matched: list[str]
    explain: NotRequired[dict[str, float] | None]


class Got(TypedDict):
    """Text of a section, a note or some of its lines."""

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
    n_lines: int


class ContextPart(TypedDict):
    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]
    kind: str | None
    reason: str


class Written(TypedDict):
    """What every answer to a write says. Where `is_indexed` is false, it stands on the disk and is not found yet."""

    workspace: str
    generation: int
    is_indexed: bool


class MemoryResult(Written):
    text: str
    digest: str | None


class AddedSection(TypedDict):
    anchor: str
    path: str
    start_line: int
    end_line: int
    digest: str


class Added(Written, AddedSection):
    """Where a section that was added stands, and what every answer to a write says."""


class RevisionInfo(TypedDict):
    """One change of one note. `client` is empty and `command` is `outside` for a change that memsyncd has only seen."""

    revision: int
    act: int
    at: float
    client: str
    command: str
    path: str
    old_path: str | None
    old_digest: str | None
    new_digest: str | None
    old_bytes: int | None
    new_bytes: int | None
    is_kept: bool


class Diff(TypedDict):
    workspace: str
    path: str
    revision: int
    old_digest: str | None
    new_digest: str | None
    diff: str


class PathState(TypedDict):
    path: str
    digest: str | None


class Undone(Written):
    """`act` is the new one; None if everything stood as it should already."""

    act: int | None
    undone: list[RevisionInfo]
    paths: list[PathState]


class Purged(TypedDict):
    workspace: str
    revisions: int
    texts: int
    is_clean: bool
    still_in: list[str]
    set_aside: list[str]


class Cleared(Written):
    """`act` is what `undo` takes to bring the notes back; None if there were none, or no history is kept."""

    act: int | None
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
    """A change of the index. Where `complete` is false, older changes were forgotten: search again."""

    subscription: str
    workspace: str
    generation: int
    paths: list[str]
    chunks: int
    complete: bool
