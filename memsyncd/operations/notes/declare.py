"""Parameters, results and operations: write, check, read and list notes.

A digest is None if no file exists. `client` is the name that the writer gives itself; `history`
shows it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from memsyncd.errors import ConfirmationNeeded
from memsyncd.operations.fields import (
    AddedSection,
    ClientName,
    Freshness,
    Line,
    Name,
    OnSimilar,
    Params,
    Place,
    Result,
    TimeoutMs,
    TrackedParams,
    WorkspaceParams,
    WriteAction,
    WriteParams,
    Written,
    WrittenSection,
    fill_id,
)
from memsyncd.operations.operation import (
    OPENS,
    READS,
    TOOL_WORKSPACE,
    WRITES,
    Command,
    CommandGroup,
    Extra,
    Operation,
    Paths,
    Python,
    Shape,
    Tool,
    ToolArgument,
)
from memsyncd.operations.sections import (
    Filters,
    SectionMeta,
    Sort,
)
from memsyncd.operations.similar.declare import (
    SimilarSection,
)

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
    """The line after which the text is inserted; 0 for the beginning of the note."""
    insert_text: str | None = None
    old_path: str | None = None
    new_path: str | None = None
    update_links: bool | None = None
    """`rename`: change the links of all notes so that they lead to the same notes as before, in the
    same change set."""
    apply: bool = True
    """`rename`: if false, change nothing, and name the notes whose links would be updated."""
    confirm: bool | None = None
    """`delete`: if false, refuse to delete text that memsyncd did not write."""
    if_digest: Name | None = None
    """Digest of the note as the writer has read it; if the note has another digest, nothing is
    done. Empty for a note that does not exist."""
    dialect: Literal["docs", "sdk"] = "docs"
    """The wording of the answer: `docs` as in Anthropic's documents, or `sdk` as in its Python SDK
    where the two differ."""


class MemoryResult(Written, frozen=True, kw_only=True):
    text: str
    """The answer in the wording of the memory tool."""
    digest: str | None
    """Digest of the note after the command; None for a folder and for a deleted note."""
    is_searched: bool = True
    """False if the command has written a file that is no note, such as `deploy` or `a.json`: the
    file is kept, and searches do not read it."""
    updated_links: list[str] = msgspec.field(default_factory=list)
    """The notes whose links a rename has changed, by their paths before it."""
    skipped_links: list[str] = msgspec.field(default_factory=list)
    """The notes whose links stay as they are, because memsyncd may only read them, or another
    program has changed them meanwhile."""


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
    """The tags, at most 32."""
    importance: float | None = None
    """From 0 to 1; by default the importance of the kind."""
    priority: str | None = None
    """`P0` to `P3`."""
    lifecycle: str | None = None
    """`ephemeral`, `session`, `task` or `project`."""
    status: str | None = None
    """The status, such as open, doing, blocked or done; a section without status counts as open."""
    source: str | dict[str, str] | None = None
    """The origin of the section: a text, or names with values."""
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
    """A day or a time; from then on searches leave the section out."""
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    """Metadata of your own, by key."""
    relations: list[str] = msgspec.field(default_factory=list)
    """A relation to another memory, such as `resolves=MEMORY.md#setup`: a typed link at the end of
    the text."""
    note: Name | None = None
    """The note to which the section is appended, from the workspace's root or beneath `.memories/`,
    for `note.add` also absolute; by default the note of its kind. A name alone that no note beneath
    `.memories/` has is the name or title of another note, or of a new note."""


class NoteAddParams(NewSection, frozen=True, kw_only=True):
    on_similar: OnSimilar = "add"
    """If a section says nearly the same: `add` writes a new section and names the similar one,
    `append` appends the text to it, as `field.append` does, `report` writes nothing."""
    client: ClientName | None = None
    workspace: Name | None = None
    timeout_ms: TimeoutMs | None = None


class NoteAddManyParams(WriteParams, frozen=True, kw_only=True):
    items: Annotated[list[NewSection], msgspec.Meta(min_length=1, max_length=500)]
    """The sections; all of them are written, or none."""


class ValidateParams(WorkspaceParams, frozen=True, kw_only=True):
    """A section to check before it is written, or existing notes."""

    section: dict[str, Any] | None = None
    """The fields of `note.add`."""
    path: Place | None = None
    """A note, folder or glob; without `section` and `path`, every note."""


class FieldFault(Result, frozen=True, kw_only=True):
    """A fault; `field` is empty for a problem of a note's text."""

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
    """All faults, by path and line."""
    checked: int
    """The number of checked sections."""


class Added(WrittenSection, frozen=True, kw_only=True):
    """The place of the new section, or of the similar section that was extended or reported."""

    action: WriteAction = "added"
    similar: list[SimilarSection] = msgspec.field(default_factory=list)
    """Sections that said nearly the same before, the most similar first."""
    is_kind_unknown: bool = False
    """True if the kind of the request is not configured; it is written all the same."""
    similar_kind: str | None = None
    """A configured kind that is similar to the kind of the request, if that is not configured."""


class AddedMany(Written, frozen=True, kw_only=True):
    added: list[AddedSection]
    """The sections, in the order of the request."""


# --- reading ----------------------------------------------------------------------------------


class GetParams(TrackedParams, frozen=True, kw_only=True):
    anchor: Name | None = None
    path: Name | None = None
    """From the workspace's root, or absolute; an absolute path in a linked worktree is its file."""
    start_line: Line | None = None
    end_line: Line | None = None
    workspace: Name | None = None


class Got(SectionMeta, frozen=True, kw_only=True):
    """Lines of a note, and the metadata of the section in which they begin."""

    workspace: str
    anchor: str | None
    path: str
    start_line: int
    end_line: int
    text: str
    digest: str
    heading: list[str]
    n_lines: int
    """The number of lines of the whole note."""
    n_links: int
    """The number of links from the section or note, as `links` lists them; 0 for the file of a
    worktree."""
    n_backlinks: int
    """The number of links to the section or note."""
    superseded_by: str | None = None
    """The newest memory of the chain, if the section was replaced."""


class RenderParams(WorkspaceParams, frozen=True, kw_only=True):
    path: Name
    line: Line = 1
    """A line of a long note: the window of some thousand lines around it is rendered."""


class Rendered(Result, frozen=True, kw_only=True):
    """A note, or a window of a long one, as HTML without any of its own tags. Each block names its
    line as `data-line`, and a link to another note its target as `data-note`.
    """

    workspace: str
    path: str
    digest: str
    n_lines: int
    start_line: int
    end_line: int
    """The first and the last line that are rendered."""
    html: str


class RenderTextsParams(WorkspaceParams, frozen=True, kw_only=True):
    texts: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=100_000)]], msgspec.Meta(max_length=200)
    ]
    """Markdown that is no whole note, such as the values of a field."""


class RenderedTexts(Result, frozen=True, kw_only=True):
    workspace: str
    htmls: list[str]
    """The HTML of each text, as in the result of `render`; lines count from 1 in each."""


MOST_NOTES = 1000
NoteLimit = Annotated[int, msgspec.Meta(ge=1, le=MOST_NOTES)]


class ListParams(WorkspaceParams, frozen=True, kw_only=True):
    path: Name | None = None
    kind: Name | None = None
    tag: Name | None = None
    filters: Filters = Filters()
    """Expired sections are listed, too; archived sections with `archived` or
    `include_archived`."""
    sort: Sort = "file"
    """Sections within their notes, and notes by their first section."""
    explain: bool = False
    """Show the worth of each section with its factors, and its tier."""
    sections: bool = True
    """False leaves the sections out of the notes."""
    limit: NoteLimit = 100
    """The most notes of one answer. An answer of several megabytes has fewer."""
    cursor: Name | None = None
    """The `cursor` of an answer, to get the notes that follow."""


class SectionInfo(SectionMeta, frozen=True, kw_only=True):
    def __post_init__(self) -> None:
        fill_id(self)

    id: str = ""
    """A short name of the anchor: of its 8 digits 6 are enough if no other section has them."""
    anchor: str
    heading: list[str]
    level: int
    start_line: int
    end_line: int
    explain: dict[str, float] | None = None
    """On request: `worth`, and its factors `decay_recency`, `decay_accesses`, `decay_importance`;
    `decay_score` is the former name of `worth`."""
    worth: float | None = None
    """The worth, on request."""
    tier: Literal["hot", "warm", "cold"] | None = None
    """The tier, on request."""


class NoteInfo(Result, frozen=True, kw_only=True):
    path: str
    title: str
    digest: str
    size_bytes: int
    modified_at: float
    n_lines: int
    kind: str | None
    tags: list[str]
    sections: list[SectionInfo]
    worth: float | None = None
    """The worth of its section that has the most, on request."""


class Listing(Result, frozen=True, kw_only=True):
    workspace: str
    notes: list[NoteInfo]
    cursor: str | None
    """Send it to get the notes that follow; null if there are none."""
    freshness: Freshness


FolderWords = Annotated[str, msgspec.Meta(max_length=200)]
FolderLimit = Annotated[int, msgspec.Meta(ge=1, le=500)]


class FolderParams(WorkspaceParams, frozen=True, kw_only=True):
    """A folder to list, or words to find notes by their names."""

    folder: Name = ""
    """From the root; empty for the root."""
    words: FolderWords = ""
    """Only notes, in any folder, that have each of these words in their path, their title or
    another name, or as their kind; `#word` begins a tag of their front matter."""
    limit: FolderLimit = 200
    cursor: Name | None = None
    """The `cursor` of an answer, to get what follows."""


class FolderInfo(Result, frozen=True, kw_only=True):
    path: str
    n_notes: int
    """The notes beneath it, counted up to 100."""


class NoteNameInfo(Result, frozen=True, kw_only=True):
    path: str
    title: str
    kind: str | None
    tags: list[str]
    """The kind and the tags that its front matter states."""


class FolderListing(Result, frozen=True, kw_only=True):
    workspace: str
    folders: list[FolderInfo]
    notes: list[NoteNameInfo]
    """The folders and the notes of one page, each by path."""
    cursor: str | None
    """Send it to get what follows; null if nothing does."""


# --- the commands of the memory tool ----------------------------------------------------------

_NOTE = "path NOTE"
_STDIN = Extra(usage="--stdin", help="read the text from stdin, like TEXT -")
_TEXT_HELP = "the text; - or none to read it from stdin"
_TOOL_HELP = {
    "path": "a path that begins with /memories; /memories/MEMORY.md is the workspace's MEMORY.md",
    "file_text": _TEXT_HELP,
    "old_str": "the present text; - to read it from stdin",
    "new_str": "the new text, '' for none; - or none to read it from stdin",
    "insert_line": "after this line",
    "insert_text": _TEXT_HELP,
    "old_path": "its path, /memories/…",
    "new_path": "its new path",
    "update_links": "change the links of all notes so that they stay right",
    "apply": "only name the notes whose links would be updated",
    "confirm": "delete text that others have written without a question",
    "if_digest": "only if the note still has this digest, as shown by --json",
    "dialect": "answer as Anthropic's documents say (docs) or as its SDK does (sdk)",
}


def _make_tool_command(
    command: str, *arguments: str, summary: str, options: tuple[str, ...] = (), **more: Any
) -> Command:
    """Make `memsyncd memory COMMAND`, with the options that only this command has."""
    taken = {*options, *(argument.partition(" ")[0] for argument in arguments), "dialect"}
    taken |= {"if_digest", "client"} if command != "view" else set()
    left_out = (
        field
        for field in MemoryParams.__struct_fields__
        if field not in taken | {"command", "workspace", "timeout_ms"}
    )
    return Command(
        words=f"memory {command}",
        summary=summary,
        arguments=arguments,
        omit=tuple(left_out),
        usages={"dialect": "--dialect D", "view_range": "--range A-B", "apply": "--dry-run"},
        help=_TOOL_HELP | more.pop("help", {}),
        fixed={"command": command},
        show=more.pop("show", "show_memory"),
        **more,
    )


_TOOL_COMMANDS = (
    _make_tool_command(
        "view",
        "path [NOTE]",
        summary="print a note with line numbers, or list a folder",
        options=("view_range",),
        help={
            "path": "a note or folder; by default /memories",
            "view_range": "only lines A to B; A- for all from A on",
        },
        parse={"view_range": "read_range"},
        prepare="make_view",
        examples=(
            "memsyncd memory view",
            "memsyncd memory view /memories/decisions.md --range 1-20",
        ),
    ),
    _make_tool_command(
        "create",
        _NOTE,
        "file_text [TEXT]",
        summary="create a note",
        stdin="file_text",
        examples=(
            "memsyncd memory create /memories/redis.md '# Redis'",
            "memsyncd memory create /memories/redis.md < redis.md",
        ),
    ),
    _make_tool_command(
        "str_replace",
        _NOTE,
        "old_str OLD",
        "new_str [NEW]",
        summary="replace a text that occurs exactly once in a note",
        extra=(_STDIN,),
        prepare="make_replacement",
        examples=("memsyncd memory str_replace /memories/redis.md '30 s' '45 s'",),
    ),
    _make_tool_command(
        "insert",
        _NOTE,
        "insert_line LINE",
        "insert_text [TEXT]",
        summary="insert a text after a line; 0 is before the first",
        extra=(_STDIN,),
        prepare="make_insertion",
        examples=("memsyncd memory insert /memories/redis.md 12 '- a new item'",),
    ),
    _make_tool_command(
        "delete",
        _NOTE,
        summary="delete a note, or a folder with its contents",
        options=("confirm",),
        action="ask_and_delete",
        examples=(
            "memsyncd memory delete /memories/redis.md",
            "memsyncd memory delete /memories/old --yes",
        ),
    ),
    _make_tool_command(
        "rename",
        "old_path OLD",
        "new_path NEW",
        summary="move a note or a folder",
        options=("update_links", "apply"),
        show="show_moved",
        examples=(
            "memsyncd memory rename /memories/draft.md /memories/redis.md",
            "memsyncd memory rename Draft Redis --update-links --dry-run",
        ),
    ),
)

COMMAND_GROUPS = (
    CommandGroup(
        words="memory",
        group="Write",
        summary="view and edit notes with the commands of the memory tool",
        examples=("memsyncd memory view", "memsyncd memory create /memories/redis.md < redis.md"),
    ),
)

_KINDS = (
    "preference, error, solution_approach, decision, research, strategy, procedure, client_pattern,"
    " insight, tool_run, session, discovery, checkpoint, note, summary, or one of [kinds]"
)

# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="note.add",
        params=NoteAddParams,
        result=Added,
        summary="Append a section to a note.",
        shape=Shape.STEPS,
        run="notes.run:add_section",
        current=("task", "session"),
        errors=WRITES,
        route="POST /v1/remember",
        command=Command(
            words="remember",
            is_first=True,
            group="Write",
            summary="append a section to the note of its kind, or to a named note",
            arguments=("content [TEXT…]",),
            omit=("wu_id",),
            usages={"summary": "--summary S", "relations": "--relate KIND=ANCHOR…"},
            help={
                "content": _TEXT_HELP,
                "summary": "the heading; by default the beginning of the text",
                "kind": f"the kind of memory, which selects the note: {_KINDS}",
                "tags": "add this tag",
                "priority": "P0, P1, P2 or P3",
                "source": "the source",
                "keywords": "a keyword; at most 20",
                "topic": "the topic, of at most 100 characters",
                "created": "the day or time, if not now",
                "metadata": "add metadata of your own",
                "note": "append to this note",
                "on_similar": (
                    "if something says nearly the same: add (default), append to it, or only"
                    " report it"
                ),
            },
            stdin="content",
            show="show_added",
            examples=(
                "memsyncd remember 'Redis gives up after 30 s' --kind decision --tag redis",
                "git log -1 --format=%B | memsyncd remember --summary 'Release' --note releases.md",
            ),
        ),
        python=Python(
            name="add",
            positional=("content",),
            omit=("wu_id",),
            doc=(
                "Raises BadRequest for invalid values, all of them named, and PathRefused for a"
                " note that cannot be written."
            ),
        ),
        paths=Paths(absolute=("path", "anchor", "note")),
        tool=Tool(
            name="memory_remember",
            title="Remember",
            description=(
                "Append one fact to memory: a decision with its reason, a preference, an error "
                "with its cure. A few sentences that make sense without this conversation; never "
                "secrets."
            ),
            arguments=(
                ToolArgument("content", "The text, in markdown.", is_required=True),
                ToolArgument("summary", "Its heading, in words to search for."),
                ToolArgument("kind", "Such as decision, preference, error, research, insight."),
                ToolArgument("tags", "Words to filter by.", splits_words=True),
                ToolArgument("importance", "From 0 to 1."),
                ToolArgument("note", "The note to append to; by default the note of its kind."),
                ToolArgument(
                    "on_similar", "If memory says nearly this: add, append to it, report."
                ),
                ToolArgument(
                    "values",
                    "Other fields: status, task, session, priority, topic, keywords, lifecycle,"
                    " expires, source, relations (resolves=MEMORY.md#setup); or keys of your own.",
                    field="metadata",
                ),
                TOOL_WORKSPACE,
            ),
            accepts=(
                "status",
                "task",
                "session",
                "priority",
                "topic",
                "keywords",
                "lifecycle",
                "expires",
                "source",
                "relations",
                "metadata",
            ),
            prepare="notes.text:spread_fields",
        ),
        text="notes.text:render_added",
    ),
    Operation(
        name="memory",
        params=MemoryParams,
        result=MemoryResult,
        summary="Carry out one command of the memory tool.",
        shape=Shape.STEPS,
        run="notes.run:carry_out_command",
        errors=(*WRITES, ConfirmationNeeded),
        paths=Paths(absolute=("path", "old_path", "new_path")),
        reads_if={"command": "view"},
        command=_TOOL_COMMANDS,
        tool=Tool(
            name="memory",
            title="Edit memory",
            description=(
                "View and edit the notes beneath /memories with one command: view (path, "
                "view_range), create (path, file_text), str_replace (path, old_str, new_str), "
                "insert (path, insert_line, insert_text), delete (path), rename (old_path, "
                "new_path). /memories is `.memories/`, /memories/MEMORY.md is MEMORY.md. History "
                "keeps the earlier text."
            ),
            arguments=(
                ToolArgument("command", "The command.", is_required=True),
                ToolArgument("path", "Begins with /memories."),
                ToolArgument("view_range", "First and last line; -1: the last."),
                ToolArgument("file_text", "The new note's text."),
                ToolArgument("old_str", "Occurs exactly once in the note."),
                ToolArgument("new_str", "Replaces it."),
                ToolArgument("insert_line", "Insert after this line; 0: at the beginning."),
                ToolArgument("insert_text", "The lines."),
                ToolArgument("old_path", "The path before."),
                ToolArgument("new_path", "The path after."),
                TOOL_WORKSPACE,
            ),
            is_destructive=True,
        ),
        text="notes.text:render_memory",
        content="answers:list_note",
    ),
    Operation(
        name="memory.clear",
        params=ClearParams,
        result=Cleared,
        summary="Remove every note of memory; `undo` restores them.",
        shape=Shape.STEPS,
        run="notes.run:clear_memory",
        errors=WRITES,
        worktree="wide",
        command=Command(
            words="clear",
            group="Write",
            summary="remove every note of memory, after a question",
            help={
                "confirm": "do not ask",
                "workspace": (
                    "remove the notes of this workspace: a name, an id or a folder in it; by"
                    " default the current folder's"
                ),
            },
            action="clear",
            examples=("memsyncd clear", "memsyncd clear -w scratch --yes"),
        ),
        python=Python(name="clear", doc="The result's `change_set` is what `undo` takes."),
    ),
    Operation(
        name="note.add_many",
        params=NoteAddManyParams,
        result=AddedMany,
        summary="Append several sections, all or none.",
        shape=Shape.STEPS,
        run="notes.run:add_sections",
        errors=WRITES,
    ),
    Operation(
        name="validate",
        params=ValidateParams,
        result=Validation,
        summary="Check a section before it is written, or notes; name everything that is wrong.",
        shape=Shape.STEPS,
        run="notes.run:validate",
        errors=READS,
        reads=True,
        paths=Paths(absolute=("path", "anchor", "note"), are_from_root=True, may_be_folder=True),
        command=Command(
            words="check",
            lists="faults",
            group="Write",
            summary="check notes: metadata, and what is odd about their text",
            arguments=("path [PATH]",),
            omit=("section",),
            help={"path": "a note, folder or glob; by default all"},
            show="show_faults",
            found="is_valid",
            examples=("memsyncd check", "memsyncd check .memories/decisions.md"),
        ),
        python=Python(name="validate", positional=("section",)),
    ),
    Operation(
        name="get",
        params=GetParams,
        result=Got,
        summary="Read a section, a note or some of its lines.",
        shape=Shape.STEPS,
        run="notes.read:read_part",
        errors=OPENS,
        route="GET /v1/get",
        reads=True,
        paths=Paths(absolute=("path", "anchor", "note"), are_from_root=True),
        tool=Tool(
            name="memory_get",
            title="Read memory",
            description=("Read a note, some of its lines, or a section, as another tool cites it."),
            arguments=(
                ToolArgument("path", "`MEMORY.md:12-30`, path, `path#heading`.", is_required=True),
                ToolArgument("start_line", "1 by default."),
                ToolArgument("end_line", "The note's last by default."),
                TOOL_WORKSPACE,
            ),
            prepare="search.text:read_citation",
            is_read_only=True,
        ),
        text="search.text:render_note",
        content="answers:list_lines",
        command=Command(
            words="get",
            is_first=True,
            group="Find",
            summary="print a section, a note or some of its lines",
            omit=("anchor", "path", "start_line", "end_line"),
            extra=(
                Extra(
                    usage="ANCHOR|PATH[:A[-B]]",
                    name="target",
                    is_argument=True,
                    help="a section's anchor, or a note, or some of its lines",
                ),
            ),
            action="get",
            examples=(
                "memsyncd get .memories/redis.md:12-18",
                "memsyncd get '.memories/redis.md#redis/timeouts'",
                "memsyncd get MEMORY.md",
            ),
        ),
    ),
    Operation(
        name="render",
        params=RenderParams,
        result=Rendered,
        summary="Render a note as HTML for a page, with the file's line numbers.",
        shape=Shape.STEPS,
        run="notes.read:render",
        errors=OPENS,
    ),
    Operation(
        name="render.texts",
        params=RenderTextsParams,
        result=RenderedTexts,
        summary="Render pieces of markdown as HTML for a page.",
        shape=Shape.STEPS,
        run="notes.read:render_texts",
        errors=OPENS,
    ),
    Operation(
        name="list.folder",
        params=FolderParams,
        result=FolderListing,
        summary="List the folders and notes right in a folder, or find notes by their names.",
        shape=Shape.STEPS,
        run="notes.read:list_folder",
        errors=OPENS,
        reads=True,
    ),
    Operation(
        name="list",
        params=ListParams,
        result=Listing,
        summary="List notes and sections.",
        shape=Shape.STEPS,
        run="notes.read:list_all",
        errors=READS,
        route="GET /v1/list",
        reads=True,
        worktree="join",
        paths=Paths(absolute=("path", "anchor", "note"), are_from_root=True, may_be_folder=True),
        command=Command(
            words="list",
            lists="notes",
            has_ids=True,
            group="Find",
            summary="list workspaces; notes with --notes, a filter, --sort or -n",
            # Each is one of the filters, which take several.
            omit=("path", "kind", "tag", "sections"),
            help={"sort": "by worth, importance, priority, recency or file"},
            extra=(
                Extra(usage="--names", help="print only the names of the workspaces"),
                Extra(usage="--notes", help="list the notes of a workspace"),
                Extra(usage="--sections", help="list notes with their sections"),
            ),
            action="workspaces:list_workspaces_or_notes",
            examples=(
                "memsyncd list",
                "memsyncd list --notes --kind decision",
                "memsyncd list -w notes --sections",
            ),
        ),
    ),
)
