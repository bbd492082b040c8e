"""Parameters, results and operations: one memory on several machines, by git."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from memsyncd.errors import Conflict, ShareFailed
from memsyncd.operations.fields import (
    Limit,
    Name,
    Result,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    READS,
    Command,
    CommandGroup,
    Extra,
    Operation,
    Python,
    Shape,
)

Remote = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class ShareParams(WorkspaceParams, frozen=True, kw_only=True):
    user: bool = False
    """The user-wide memory."""


class ShareInitParams(ShareParams, frozen=True, kw_only=True):
    """Make the memory folder a git repository of its own, and share it from then on. Without
    `apply`, the answer says what would be pushed.
    """

    remote: Remote | None = None
    """The address of the other repository, as git takes it. Without one, changes are only
    committed."""
    apply: bool = False
    """Do it; otherwise nothing changes, and the answer has the plan."""
    plan: Name | None = None
    """Carry out only this plan, by the digest that a call without `apply` returned."""


class SwitchParams(ShareParams, frozen=True, kw_only=True):
    on: bool
    """Whether changes are committed, fetched and pushed by themselves."""


class ShareNowParams(ShareParams, frozen=True, kw_only=True):
    push: bool = True
    """Also push; otherwise only commit, fetch and merge."""
    wait: bool = True
    """Wait for the end. If false, the work only begins, unless it is off or was done a moment
    ago."""


class ShareLogParams(ShareParams, frozen=True, kw_only=True):
    limit: Limit = 20


class HeldNote(Result, frozen=True, kw_only=True):
    """A section that stays on this machine; the whole note if `heading` is empty."""

    path: str
    line: int
    """The line where it begins; 0 for the whole note."""
    heading: str
    reason: str


class ShareInfo(Result, frozen=True, kw_only=True):
    """The state of one shared memory."""

    workspace: str
    name: str
    folder: str
    """The folder of the repository."""
    way: Literal["own", "project", "none"]
    """`own`: the folder is a repository of its own. `project`: the project's git tracks the notes,
    so memsyncd commits nothing. `none`: it is not shared."""
    on: bool
    machine: str
    machines: list[str]
    """All that share the memory, with this one, as the last exchange found them."""
    remote: str
    branch: str
    ahead: int
    """Commits that the remote does not have."""
    committed_at: float | None
    fetched_at: float | None
    pushed_at: float | None
    failed_since: float | None
    """When the remote could not be reached, or refused, for the first time; null if it answers."""
    problem: str
    hint: str
    said: list[str]
    """Findings of merges since the user exchanged last, for a day, and the conflicts that are there
    now."""
    held: list[HeldNote]
    """Sections and notes that stay on this machine, at most 200."""
    n_held: int
    n_held_notes: int
    """Notes that stay as a whole: the other machines get nothing that is new in them."""


class ShareList(Result, frozen=True, kw_only=True):
    shared: list[ShareInfo]


class SharePlan(Result, frozen=True, kw_only=True):
    """The plan of `share.init`, and what it did."""

    is_applied: bool
    plan: str
    state: ShareInfo
    is_new: bool
    """True if the folder was, or is, no repository before."""
    former: str
    """The remote in whose place the new one comes; empty if it had none, or the same."""
    paths: list[str]
    """Notes, and the file of signals, that the remote would get, at most 200; without a remote,
    notes to commit."""
    n_paths: int
    bytes: int
    advice: str
    """Something else to do, empty for nothing."""


class Exchanged(Result, frozen=True, kw_only=True):
    """The work that one exchange with the remote did."""

    state: ShareInfo
    committed: int
    """New commits of this machine."""
    received: list[str]
    """Notes that changed here, at most 200."""
    n_received: int
    n_signals: int
    """Signals of other machines that this machine received."""
    is_pushed: bool
    is_begun: bool = False
    """True if the work has only begun."""


class ShareEntry(Result, frozen=True, kw_only=True):
    """One commit: who changed which notes on which machine."""

    commit: str
    at: float
    writer: str
    machine: str
    subject: str
    paths: list[str]


class ShareLog(Result, frozen=True, kw_only=True):
    workspace: str
    commits: list[ShareEntry]
    """Newest first."""


# --- the operations ---------------------------------------------------------------------------

COMMAND_GROUPS = (
    CommandGroup(
        words="share",
        group="Set up",
        summary="share memory with your other machines, by git",
        examples=(
            "memsyncd share init git@example.org:me/memory.git",
            "memsyncd share status",
            "memsyncd share pull --once",
        ),
    ),
)
_USER = {"user": "--user"}
_HELP = {"user": "the user-wide memory"}
_ERRORS = (*READS, ShareFailed)
OPERATIONS = (
    Operation(
        name="share.init",
        params=ShareInitParams,
        result=SharePlan,
        summary="Make the memory folder a git repository, and share it.",
        shape=Shape.DAEMON,
        run="share.run:plan_sharing",
        errors=(*_ERRORS, Conflict),
        command=Command(
            words="share init",
            summary="make the memory folder a repository, show what would be pushed, and ask",
            arguments=("remote [REMOTE]",),
            usages=_USER,
            omit=("apply", "plan"),
            help=_HELP | {"remote": "the address of the other repository, as git takes it"},
            extra=(
                Extra(usage="-y --yes", help="do it without a question"),
                Extra(usage="--plan", help="only show what would be pushed"),
            ),
            action="set_up_sharing",
            examples=(
                "memsyncd share init git@example.org:me/memory.git",
                "memsyncd share init --user ~/backup/memory.git --yes",
            ),
        ),
        python=Python(name="share_init", positional=("remote",)),
    ),
    Operation(
        name="share.switch",
        params=SwitchParams,
        result=ShareList,
        summary="Begin or stop to share a memory by itself.",
        shape=Shape.DAEMON,
        run="share.run:switch_sharing",
        errors=_ERRORS,
        command=(
            Command(
                words="share on",
                summary="commit, fetch and push by itself",
                omit=("on",),
                usages=_USER,
                help=_HELP,
                action="begin_sharing",
                examples=("memsyncd share on",),
            ),
            Command(
                words="share off",
                summary="stop; the repository stays as it is",
                omit=("on",),
                usages=_USER,
                help=_HELP,
                action="end_sharing",
                examples=("memsyncd share off",),
            ),
        ),
        python=Python(name="share_switch", positional=("on",), returns="shared"),
    ),
    Operation(
        name="share.status",
        params=ShareParams,
        result=ShareList,
        summary="Report what is shared, what stays back, and since when the remote is away.",
        shape=Shape.DAEMON,
        run="share.run:describe_sharing",
        errors=_ERRORS,
        reads=True,
        command=Command(
            words="share status",
            summary="show what is shared, what stays back, and when the remote answered last",
            usages=_USER,
            help=_HELP,
            action="show_shared",
            examples=("memsyncd share status",),
        ),
        python=Python(name="share_status", returns="shared"),
    ),
    Operation(
        name="share.now",
        params=ShareNowParams,
        result=Exchanged,
        summary="Commit, fetch, merge and push now.",
        shape=Shape.DAEMON,
        run="share.run:exchange_now",
        errors=_ERRORS,
        waits=True,
        command=(
            Command(
                words="share now",
                summary="commit, fetch, merge and push now",
                omit=("push", "wait"),
                usages=_USER,
                help=_HELP,
                action="share_now",
                examples=("memsyncd share now",),
            ),
            Command(
                words="share pull",
                summary="commit, fetch and merge now, and push nothing",
                omit=("push", "wait"),
                usages=_USER,
                help=_HELP,
                extra=(Extra(usage="--once", help="leave no daemon behind"),),
                action="share_pull",
                examples=("memsyncd share pull --once",),
            ),
        ),
        python=Python(name="share_now"),
    ),
    Operation(
        name="share.log",
        params=ShareLogParams,
        result=ShareLog,
        summary="List the commits: which machine and writer changed which notes.",
        shape=Shape.DAEMON,
        run="share.run:list_commits",
        errors=_ERRORS,
        reads=True,
        command=Command(
            words="share log",
            summary="list what came from which machine and writer",
            usages=_USER,
            help=_HELP,
            action="show_log",
            examples=("memsyncd share log -n 5",),
        ),
        python=Python(name="share_log", returns="commits"),
    ),
)
