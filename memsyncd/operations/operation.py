"""The types of a declaration: an `Operation` says all that any surface needs to know of a method.

The JSON-RPC parser and dispatcher, the routes of HTTP, OpenRPC and OpenAPI, the tools of MCP, the
commands with their options and help, and the client's methods are derived from the declarations.
`table` lists all operations. The docstring of a field is the help of its option, its description in
schemas and its line in the docstring of the client's method.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from importlib import import_module
from typing import Any, Literal, NamedTuple

import msgspec

from memsyncd.errors import (
    AlreadyExists,
    AmbiguousWorkspace,
    BadRequest,
    Busy,
    Conflict,
    EditRefused,
    IndexUnfit,
    MemsyncdError,
    NoteNotFound,
    NotFresh,
    PathRefused,
    ShuttingDown,
    StoreCorrupt,
    StoreFailed,
    StoreFull,
    TooLarge,
    Unsafe,
    Unwritable,
    WorkspaceNotFound,
)
from memsyncd.operations.fields import Params

Errors = tuple[type[MemsyncdError], ...]
Group = Literal["Find", "Write", "Set up", "Run", "Maintain"]
"""A heading of the first help screen."""

EVERY_METHOD: Errors = (BadRequest, TooLarge, ShuttingDown, MemsyncdError)
"""The errors that every method may raise; the last stands for an internal error."""
FINDS: Errors = (WorkspaceNotFound, AmbiguousWorkspace, NotFresh, Busy)
"""The errors of a method that looks up its workspace."""
READS: Errors = (*FINDS, StoreFailed, StoreCorrupt, IndexUnfit, StoreFull)
"""The errors of a method that reads a database."""
OPENS: Errors = (*READS, NoteNotFound, PathRefused, Unwritable, Unsafe)
"""The errors of a method that opens notes."""
WRITES: Errors = (*OPENS, Conflict, AlreadyExists, EditRefused)
"""The errors of a method that writes notes."""


class Shape(Enum):
    """How the dispatcher carries out an operation."""

    SERVER = "by a method of the server itself"
    READ = "`run(call, params)` runs in a thread: it reads, and returns the result"
    DAEMON = "`run(daemon, params)` runs on the event loop, for the daemon and all workspaces"
    STEPS = "`await run(call, params)` reads and edits by methods of `call`, and returns the result"
    JOIN = (
        "`run(call, params)` is a generator for a question to one or several workspaces. It yields"
        " the function that reads one workspace, gets the parts of all, and returns the answer. A"
        " single workspace is read in a thread, or on the event loop if the question is quick"
    )


class Paths(msgspec.Struct, frozen=True, kw_only=True):
    """Which parameters name a note or a folder."""

    absolute: tuple[str, ...] = ()
    """Fields that may have an absolute path, which then chooses the workspace."""
    are_from_root: bool = False
    """True if `path` and `anchor` become paths from the root when they begin with `/memories`."""
    may_be_folder: bool = False
    """True if they may name a folder as well as a note."""
    resolved: tuple[str, ...] = ()
    """Fields that may also be lines of a note, or the title of a note or section, as commands print
    them: the operation gets the anchor, or the path."""
    may_be_gone: bool = False
    """True if an anchor may name a section that is gone: it stays as it is."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a command line that call an operation.

    Each field of the parameters becomes an option, except the fields in `arguments` and `omit`. The
    docstring of the field is the help of the option. `usages` and `OPTIONS` name the options that
    are not written `--field-name TEXT`.
    """

    words: str
    """The command, such as `topic append`."""
    group: Group | Literal[""] = ""
    """The heading under which the first help screen lists the command; empty for a command of a
    `CommandGroup`."""
    summary: str = ""
    """The line in help; by default the summary of the operation."""
    arguments: tuple[str, ...] = ()
    """Fields that are positional arguments, each as `field USAGE`, such as `content [TEXT…]`."""
    usages: dict[str, str] = {}
    """How options are written, by field, such as `--apply`."""
    help: dict[str, str] = {}
    """Help by field, where a command line needs other words than the docstring."""
    omit: tuple[str, ...] = ()
    """Fields that the command does not offer."""
    extra: tuple[Extra, ...] = ()
    """Arguments and options that are no field; `prepare` or `action` reads them."""
    stdin: str = ""
    """The field whose text is read from stdin if there is no text, if it is `-`, or by
    `--stdin`."""
    fixed: dict[str, Any] = {}
    """Values of fields that the command sets itself."""
    parse: dict[str, str] = {}
    """Names of functions in `show`, by field, that parse the text of an option."""
    prepare: str = ""
    """The function in `show` that makes parameters of words which are not parameters themselves."""
    show: str = ""
    """The function in `show` that prints the answer for people; by default each field is
    printed."""
    found: str = ""
    """Fields of the answer, separated by spaces; the command returns 1 if all of them are empty."""
    is_long: bool = False
    """True if it may take minutes: it has no time limit of its own, and draws the progress that
    `status` tells. Ctrl-C ends the work."""
    action: str = ""
    """The function in `show` that carries out the command, if it is more than one call."""
    filter_prefix: str = ""
    """Begins the options of `filters` where the parameters have fields of the same names:
    `--where-kind`."""
    lists: str = ""
    """Fields of the answer, separated by spaces, that are lists of things, which `--format` and
    `-l` print; of several, the first that is not empty."""
    has_ids: bool = False
    """True if it prints places, and takes `--ids` to print their short ids, too."""
    keeps_exclusions: bool = False
    """True if a word such as `-draft` excludes this word from a search, and is no mistyped
    option."""
    is_first: bool = False
    """True for one of the ten verbs of the first help screen."""
    gone: dict[str, str] = {}
    """Advice by former option, or by option with a former value, such as `--format svg`."""
    examples: tuple[str, ...] = ()


class Extra(msgspec.Struct, frozen=True, kw_only=True):
    """An argument or option that is no field of the parameters."""

    usage: str
    """An option such as `--open N`; or an argument such as `[TARGET…]`, which needs a `name`."""
    help: str
    name: str = ""
    is_argument: bool = False
    bare: Any = None
    """The value if the option is given without a value."""
    field: str = ""
    """The field that becomes `value` if the option is given: `--last` sets `sort`."""
    value: Any = True
    parse: str = ""
    choices: tuple[str, ...] = ()


ALL_BY_DEFAULT = Extra(usage="--all", help="all workspaces, which is the default")
"""For a command that is about all workspaces unless one is named."""


class CommandGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A word that begins several commands, such as `topic`."""

    words: str
    group: Group
    summary: str
    examples: tuple[str, ...]


class OptionWords(NamedTuple):
    """How an option is written, and its help if the docstring does not fit a command line."""

    usage: str
    help: str = ""
    value: Any = True
    """The value of an option that takes none."""


OPTIONS: dict[str, OptionWords] = {
    "workspace": OptionWords(
        "-w --workspace WS",
        "the workspace: a name, an id or a folder in it; by default the current folder's",
    ),
    "confirm": OptionWords("-y --yes"),
    "client": OptionWords("--client NAME", "the writer's name in the history (default cli)"),
    "timeout_ms": OptionWords("--timeout-ms MS", "give up after this long"),
    "wait": OptionWords("--wait", "first index everything that is on disk now", "disk"),
    "mark": OptionWords("--no-mark", "without the warning about orders in notes", value=False),
    "user": OptionWords("--no-user", "without the user-wide workspace", value=False),
    "apply": OptionWords("--apply", "do it; otherwise only print what would change"),
    "plan": OptionWords("--plan DIGEST"),
    "limit": OptionWords("-n --limit N"),
    "kind": OptionWords("--kind K"),
    "tag": OptionWords("--tag T…"),
    "tags": OptionWords("--tag T…"),
    "keywords": OptionWords("--keyword K…"),
    "task": OptionWords("--task ID"),
    "tasks": OptionWords("--task ID…"),
    "session": OptionWords("--session ID"),
    "sessions": OptionWords("--session ID…"),
    "agent": OptionWords("--agent NAME"),
    "agents": OptionWords("--agent NAME…"),
    "priority": OptionWords("--priority P"),
    "lifecycle": OptionWords("--lifecycle L"),
    "importance": OptionWords("--importance S"),
    "status": OptionWords("--status S"),
    "sort": OptionWords("--sort S"),
    "note": OptionWords("--note PATH"),
    "metadata": OptionWords("--meta KEY=VALUE…"),
    "meta": OptionWords("--meta KEY=VALUE…", "only with this other metadata; 'rating>=7' compares"),
    "has": OptionWords("--has KEY…"),
    "related_to": OptionWords("--related-to NOTE…"),
    "tier": OptionWords("--tier T…"),
    "path": OptionWords("--path P"),
    "after": OptionWords(
        "--after DAY", "only from this day on: 2026-03-01, 2026-03, 7d, 'last week'"
    ),
    "before": OptionWords("--before DAY"),
    "expires": OptionWords("--expires DAY"),
    "created": OptionWords("--created DAY"),
    "updated": OptionWords("--updated DAY"),
    "on_similar": OptionWords("--on-similar DO"),
    "if_digest": OptionWords("--if-digest DIGEST"),
    "follow": OptionWords("--follow R…"),
    "relation": OptionWords("--relation R…"),
    "max_tokens": OptionWords("--max-tokens N"),
    "max_bytes": OptionWords("--max-bytes N"),
}
"""How options are written, by the name of their field, in all commands that offer the field."""
NO_OPTIONS = frozenset({"track_access", "caller_session", "min_generation"})
"""Fields that programs use; no command offers them."""


class Python(msgspec.Struct, frozen=True, kw_only=True):
    """The method of `Memsyncd` that calls an operation; it is generated."""

    name: str
    positional: tuple[str, ...] = ()
    """Fields that may be given by position. A star before the last one takes several values:
    `*topics`. The name `target` stands for the fields `anchor` and `path`."""
    returns: str = ""
    """The field of the result that the method returns; by default the whole result."""
    omit: tuple[str, ...] = ()
    """Fields that the method does not offer."""
    rename: dict[str, str] = {}
    """Names of parameters, by field, where the names differ."""
    sends: dict[str, str] = {}
    """Expressions, by field, that are sent instead of the parameter itself:
    `session or self._session`."""
    kwargs: str = ""
    """The field whose own fields are keyword arguments of the method: `filters`."""
    doc: str = ""
    """Text of the docstring besides the operation's summary."""


class ToolArgument(msgspec.Struct, frozen=True):
    """An argument of a tool: the field that it becomes, and its description for a model.

    `field` is `filters.kind` for the field of a parameter that is an object.
    """

    name: str
    description: str
    field: str = ""
    is_required: bool = False
    splits_words: bool = False
    """True if a text with commas is a list of words: models write them so."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of MCP that calls an operation, and the hints that clients decide by."""

    name: str
    title: str
    description: str
    arguments: tuple[ToolArgument, ...]
    accepts: tuple[str, ...] = ()
    """Fields that models may give by their own names, although the schema does not list them: it
    says how they are given together, which costs each session fewer tokens."""
    prepare: str = ""
    """The function, `module:function`, that changes the parameters before they are checked."""
    is_always_loaded: bool = True
    """False if clients should load the tool only on demand, if they can."""
    is_read_only: bool = False
    is_destructive: bool = False


TOOL_WORKSPACE = ToolArgument("workspace", "Another one, by name or path.")


class ToolAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a tool with several actions. `fields` maps each argument to its field."""

    tool: Tool
    name: str
    fields: dict[str, str]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method: its parameters, result, purpose and errors, and how each surface offers it."""

    name: str
    params: type[Params]
    result: type[msgspec.Struct]
    summary: str
    shape: Shape = Shape.SERVER
    run: str = ""
    """The function that carries it out, `module:function` beneath `memsyncd.operations`. It is
    imported at the first call."""
    quick: str = ""
    """The function of parameters and configuration, `module:function`, that decides whether the
    event loop may try a question first. Without it, the event loop never tries."""
    errors: Errors = ()
    """The errors that it may raise, besides `EVERY_METHOD`."""
    route: str = ""
    """Its HTTP verb and path, if it has a route of its own besides `POST /rpc`."""

    reads: bool = False
    """True if it changes neither notes nor records: it may be repeated, and a command in a folder
    without a workspace may ask the only one."""
    current: tuple[Literal["task", "session"], ...] = ()
    """Fields that a caller may leave out: clients send the current task and session in them, which
    `MEMSYNCD_TASK` and `MEMSYNCD_SESSION` name."""
    reads_if: dict[str, Any] = {}
    """Parameters with which a call of a writing operation only reads."""
    worktree: Literal["join", "own", "wide", "writes"] = "writes"
    """Which workspace answers in a linked git worktree that shares memory of the main worktree, if
    no note is named. `join`: both; `own`: the linked one; `wide`: the linked one if the request
    names it by its name or id, else none; `writes`: the one with the folder for new memories."""
    paths: Paths = Paths()
    waits: bool = False
    """True if its requests mostly wait, so that they hardly count against the limit of running
    requests."""
    streams: bool = False
    """True if notifications follow its answer."""
    changes_workspaces: bool = False
    """True if it adds or removes workspaces."""

    command: Command | tuple[Command, ...] | None = None
    python: Python | None = None
    tool: Tool | ToolAction | None = None
    text: str = ""
    """The function that renders the result as text for a model, `module:function`."""
    content: str = "answers:list_written"
    """The function of parameters and result that lists the sections which a model gets by the text,
    or which it has written, `module:function`."""

    @property
    def every_error(self) -> Errors:
        return (*EVERY_METHOD, *self.errors)

    @property
    def commands(self) -> tuple[Command, ...]:
        if self.command is None:
            return ()
        return self.command if isinstance(self.command, tuple) else (self.command,)


class Notification(msgspec.Struct, frozen=True):
    """One notification that the daemon sends: its parameters and its purpose."""

    params: type[msgspec.Struct]
    summary: str


def load_function(name: str) -> Callable[..., Any]:
    """Return the function that `module:function` names, beneath `memsyncd.operations`."""
    module, _, function = name.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(f"memsyncd.operations.{module}"), function)
    return loaded


def spread_values(
    params: dict[str, Any], fields: Collection[str], lists: Collection[str]
) -> dict[str, Any]:
    """Return parameters in which the values of `metadata` that are `fields` stand by themselves.
    A text with commas becomes a list for the fields in `lists`.
    """
    values = params.get("metadata")
    if not isinstance(values, dict):
        return params
    moved = {name: value for name, value in values.items() if name in fields}
    for name in lists:
        if isinstance(moved.get(name), str):
            moved[name] = [word.strip() for word in moved[name].split(",") if word.strip()]
    left = {name: value for name, value in values.items() if name not in fields}
    return {**moved, **params, "metadata": left}
