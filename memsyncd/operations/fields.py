"""Base structs and constrained field types of the protocol.

Times are seconds since 1970 (`_at`, `at`) or durations with their unit in the name. Lines are
1-based and inclusive.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal
from zlib import crc32

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
Line = Annotated[int, msgspec.Meta(ge=1)]
TimeoutMs = Annotated[int, msgspec.Meta(ge=1, le=600_000)]
Name = Annotated[str, msgspec.Meta(max_length=8192)]
"""The name of a note, section, folder, workspace, kind or tag. No anchor is longer."""
WorkspaceNames = Name | Annotated[list[Name], msgspec.Meta(min_length=1, max_length=200)] | None
"""One workspace, several, or `*` for all; null for the only one."""
ClientName = Annotated[str, msgspec.Meta(max_length=64)]
Word = Annotated[str, msgspec.Meta(max_length=200)]
Keyword = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Value = Annotated[str, msgspec.Meta(max_length=512)]
Values = Annotated[list[Value], msgspec.Meta(max_length=32)]
State = Literal["indexing", "ready", "degraded", "missing", "stalled"]
"""State of a workspace."""


class Params(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Parameters of one method. Unknown fields are refused."""


class NoParams(Params, frozen=True, kw_only=True):
    pass


class WorkspaceParams(Params, frozen=True, kw_only=True):
    workspace: Name | None = None


class TrackedParams(Params, frozen=True, kw_only=True):
    """Parameters of a method that returns sections and counts an access for each of them."""

    track_access: bool = True
    """Count an access for each section that is returned; `access.stats` has the counts."""
    caller_session: Name | None = None
    """The session of the caller: each section counts once for it. Without a session, every access
    counts."""


class WriteParams(WorkspaceParams, frozen=True, kw_only=True):
    """Parameters of a method that writes."""

    client: ClientName | None = None
    """The name of the writer, which `history` shows; by default the connection's."""
    timeout_ms: TimeoutMs | None = None


class PlanParams(WriteParams, frozen=True, kw_only=True):
    """Parameters of a method that chooses the memories or notes to change: it answers with its
    plan, and carries the plan out if it is told so.
    """

    apply: bool = False
    """Carry out the plan; otherwise nothing changes, and the answer has the plan."""
    plan: Name | None = None
    """Carry out only this plan, by the digest that a call without `apply` returned."""


FORMER_NAMES = {
    "dry_run": ("apply", "write `apply: true` to change something, `apply: false` for the plan"),
}
"""Parameters that had other names: the present name, and the advice to a caller."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one method, or a part of one."""


_PATH_DIGITS = 3
_SECTION_DIGITS = 5


def make_short_id(anchor: str) -> str:
    """Return the short id of a section, 8 hexadecimal digits of its anchor; empty for the path of a
    note.

    The first 3 digits are of the note's path, the others of the heading's slugs. So whoever looks
    for an id digests paths, and then the sections of few notes, not of all.
    """
    path, mark, slugs = anchor.rpartition("#")
    # Slugs contain no dot, and the path of a note may contain a `#`.
    if not mark or "." in slugs:
        return ""
    return digest_note_path(path) + _digest(slugs)[:_SECTION_DIGITS]


@lru_cache(maxsize=1024)
def digest_note_path(path: str) -> str:
    """Return the digits with which the short ids of a note's sections begin."""
    return _digest(path)[:_PATH_DIGITS]


def _digest(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def fill_id(section: Any) -> None:
    """Give a section of an answer its short id."""
    if not section.id:
        msgspec.structs.force_setattr(section, "id", make_short_id(section.anchor))


class SectionPlace(Result, frozen=True, kw_only=True):
    """The place of a section: its note and its lines, 1-based and inclusive."""

    def __post_init__(self) -> None:
        fill_id(self)

    id: str = ""
    """A short name of the anchor, which every command takes: 8 hexadecimal digits, of which 6 are
    enough if no other section has them. Empty for a whole note."""
    anchor: str
    path: str
    start_line: int
    end_line: int
    heading: list[str]


class Freshness(Result, frozen=True, kw_only=True):
    """How current the index was when a request was answered."""

    generation: int
    pending: int
    unrecorded: int
    """Notes that the history has not recorded yet."""
    synced_at: float | None
    state: str
    """`ready` only if no scan is overdue, all folders are watched and all notes could be read."""
    reason: str | None
    """Why the state is not `ready`, in the words of `status`; null if it is `ready`."""


FIELD_DOCS: dict[str, str] = {
    "query": "Words to find, with filters.",
    "filters": "Only sections that pass these.",
    "wait": "With `disk`, everything that is on the disk now is indexed first.",
    "min_generation": "Wait until the index has reached this generation.",
    "timeout_ms": "How long the answer may take.",
    "client": "The name of the writer, which `history` shows.",
    "anchor": "A section: `path#heading`.",
    "path": "A note, by its path from the root or an absolute one.",
    "start_line": "The first line, from 1.",
    "end_line": "The last line, inclusive.",
    "content": "The text, in markdown.",
    "signals": "The numbers of signals.",
    "anchors": "Sections by their anchors, or notes by their paths.",
    "agents": "Names of the agents that get it.",
    "sessions": "Sessions that get it.",
    "tasks": "Tasks whose agents get it.",
    "subscription": "The number of the subscription.",
    "workspace": "A workspace by its name, its id or a path in it; null for the only one.",
    "kind": "The kind of memory, one word such as `decision`.",
    "tags": "A word to filter by. At most 32.",
    "tag": "Only with one of these tags or keywords.",
    "importance": "From 0 to 1; by default the importance of the kind.",
    "priority": "`P0` to `P3`.",
    "lifecycle": "`ephemeral`, `session`, `task` or `project`.",
    "source": "Where the memory comes from.",
    "task": "The task, such as `WU-123`.",
    "session": "The session of an agent.",
    "agent": "The name of an agent.",
    "scope": "`session` reads as the lifecycle; any other scope is your own.",
    "topic": "The topic.",
    "keywords": "A word that recall finds it by; at most 20.",
    "created": "The day or time of its creation, if it is not now.",
    "updated": "The day or time of the last change.",
    "expires": "A day or a time: from then on, searches leave it out.",
    "metadata": "Keys of your own.",
    "limit": "At most so many results.",
    "before": "Only older revisions than this one.",
    "include_archived": "Archived ones too.",
    "if_digest": "Write only if the note still has this digest; otherwise nothing is done.",
    "on_similar": "If a section says nearly the same: `add`, `append` to it, or only `report` it.",
    "revision": "The number of a revision.",
    "change_set": "All revisions of this change set.",
    "apply": "Carry out the plan; otherwise nothing changes, and the answer has the plan.",
    "plan": "Carry out only this plan, by the digest that a call without `apply` returned.",
    "min_similarity": "From 0 to 1; from 0.7 of the words in common, texts say nearly the same.",
    "max_tokens": "At most so many tokens, from 100 to 50,000.",
    "max_bytes": "At most so many bytes.",
}
"""The meaning of a field by its name, in every struct whose declaration gives it no docstring."""


Heading = Annotated[str, msgspec.Meta(max_length=200)]


TaskName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
"""The name of a task or a session."""


Tags = Annotated[list[Word], msgspec.Meta(max_length=32)]


RevisionId = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


Place = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]
"""The name of a note, folder or section. An empty name is refused, because it is a program's
mistake and must not mean all notes."""


OnSimilar = Literal["add", "append", "report"]
"""The act to choose if a section says nearly the same as the new text."""


WriteAction = Literal["added", "appended", "changed", "reported", "unchanged"]
"""The act that was done; `reported` and `unchanged` mean that nothing was written."""


class Written(Result, frozen=True, kw_only=True):
    """The fields that every answer to a write has."""

    workspace: str
    generation: int
    """The index holds the write from this generation on."""
    is_indexed: bool
    """False if the write is on the disk and could not be indexed yet; `status` gives the reason."""
    change_set: int | None
    """The change set that `undo` takes; null if nothing was changed, or no history is kept."""


class AddedSection(Result, frozen=True, kw_only=True):
    def __post_init__(self) -> None:
        fill_id(self)

    id: str = ""
    """A short name of the anchor: of its 8 digits 6 are enough if no other section has them."""
    anchor: str
    path: str
    start_line: int
    end_line: int
    digest: str
    """The digest of the note after the write."""


class WrittenSection(Written, frozen=True, kw_only=True):
    """An answer to a write, with the place of the written section as in `AddedSection`."""

    def __post_init__(self) -> None:
        fill_id(self)

    id: str = ""
    """A short name of the anchor: of its 8 digits 6 are enough if no other section has them."""
    anchor: str
    path: str
    start_line: int
    end_line: int
    digest: str
    """The digest of the note after the write."""
