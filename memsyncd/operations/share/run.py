"""Sets up, switches, describes and carries out the sharing of memories."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, MemsyncdError, ShareFailed
from memsyncd.operations.daemon import Daemon
from memsyncd.operations.share.declare import (
    Exchanged,
    HeldNote,
    ShareEntry,
    ShareInfo,
    ShareInitParams,
    ShareList,
    ShareLog,
    ShareLogParams,
    ShareNowParams,
    ShareParams,
    SharePlan,
    SwitchParams,
)

if TYPE_CHECKING:
    from memsyncd.operations.share.background import Exchange, Share
    from memsyncd.operations.share.exchange import SharedNotes
    from memsyncd.operations.share.git import Repository
    from memsyncd.operations.share.rules import HeldBack

DEFAULT_BRANCH = "main"
MOST_LISTED = 200
SCAN_S = 60.0


def _find_workspace(daemon: Daemon, params: ShareParams) -> Workspace:
    """Return the workspace that is meant. Raises WorkspaceNotFound and BadRequest."""
    if not params.user:
        workspace = daemon.workspaces.find(params.workspace)
    elif (wide := daemon.workspaces.find_user_wide()) is None:
        hint = "make one: memsyncd init --user"
        raise BadRequest("there is no user-wide memory", hint=hint)
    else:
        workspace = wide
    if workspace.entry.main:
        hint = "name the workspace of the main worktree"
        raise BadRequest("a linked worktree is shared with its main one", hint=hint)
    return workspace


async def _find_share(daemon: Daemon, workspace: Workspace) -> Share:
    """Return the shared memory of a workspace. Raises BadRequest, which says how to begin."""
    share = daemon.sharing.find(workspace)
    if share is not None:
        return share
    repository = daemon.sharing.open(workspace, choose_folder(workspace))
    with contextlib.suppress(ShareFailed):
        tracking = await daemon.sharing.call(workspace, partial(_find_tracking, repository))
        if tracking:
            problem = f"memsyncd shares nothing here: {tracking} tracks the notes"
            raise BadRequest(problem, hint=_advise_project(workspace))
    hint = "begin with: memsyncd share init [REMOTE]"
    raise BadRequest(f"the memory of {workspace.entry.name} is not shared", hint=hint)


def _find_tracking(repository: Repository) -> str:
    """Return the top folder of another repository that tracks the notes; empty for none."""
    if not os.path.isdir(repository.folder) or repository.is_own():
        return ""
    return repository.find_tracking()


def _advise_project(workspace: Workspace) -> str:
    way = f"memsyncd init --merge-driver {shlex.quote(workspace.entry.root)}"
    return f"its git carries the notes (git pull, git push); have it merge them by sections: {way}"


def choose_folder(workspace: Workspace) -> str:
    """Return the folder of the repository, from the root; empty for the root: a vault and the
    user-wide memory are memory as a whole.
    """
    is_whole = workspace.entry.is_vault or workspace.entry.is_user_wide
    return "" if is_whole else workspace.scope.memory_dir


async def _scan(daemon: Daemon, workspace: Workspace) -> None:
    """Wait until the index has everything that is on the disk now. Raises NotFresh."""
    await daemon.finish(workspace, daemon.workspaces.scheduler.scan(workspace), SCAN_S)


# --- init ---------------------------------------------------------------------------------------


def plan_sharing(daemon: Daemon, params: ShareInitParams) -> Awaitable[SharePlan]:
    """Plan to share a memory, or do it. Raises BadRequest, Conflict and ShareFailed."""
    return _initialise(daemon, _find_workspace(daemon, params), params)


class _Findings(msgspec.Struct, kw_only=True):
    """The folder as it is: the repository that tracks it, its branch, and the notes."""

    tracking: str
    is_new: bool
    branch: str
    snapshot: SharedNotes | None
    pushed: dict[str, int] = {}
    """The sizes of the notes that the remote does not have as they are now, in bytes, by path."""
    ahead: int = 0
    """Commits that the remote does not have."""
    former: str = ""
    """The other remote that the repository has now."""
    careless: str = ""
    """The repository around the folder that does not ignore it."""

    @property
    def files(self) -> dict[str, bytes | None]:
        return self.snapshot.files if self.snapshot else {}


async def _initialise(daemon: Daemon, workspace: Workspace, params: ShareInitParams) -> SharePlan:
    from memsyncd.core.digest import digest_bytes
    from memsyncd.operations.plans import check_plan
    from memsyncd.operations.share.rules import find_password

    remote = params.remote or ""
    if remote.startswith("-"):
        hint = "name a folder that begins so by its whole path"
        raise BadRequest(f"{remote} is an option of git and no address", hint=hint)
    if find_password(remote):
        hint = "leave it out, and let git ask its credential helper: git help credentials"
        raise BadRequest("the address contains a password or token", hint=hint)
    await _scan(daemon, workspace)
    sharing, folder = daemon.sharing, choose_folder(workspace)
    repository = sharing.open(workspace, folder)
    await sharing.call(workspace, sharing.open(workspace, "").check_version)
    examine = partial(_examine, daemon, workspace, repository, folder, remote)
    found = await sharing.call(workspace, examine)
    texts = sorted((path, data or b"") for path, data in found.files.items())
    parts = [remote, folder, found.tracking, texts, sorted(found.pushed), found.ahead]
    plan = digest_bytes(msgspec.json.encode(parts))
    is_applied = params.apply and not found.tracking
    if is_applied:
        check_plan(params.plan, plan)
        await _begin(daemon, workspace, repository, found, remote)
    state = await _describe(daemon, workspace)
    if found.tracking:
        state = _describe_project(workspace, state, repository.folder, found.tracking)
    elif not is_applied:
        held = found.snapshot.held if found.snapshot else []
        state = replace(
            state,
            folder=repository.folder,
            remote=remote or state.remote,
            ahead=found.ahead,
            held=_list_held(held),
            n_held=len(held),
            n_held_notes=_count_notes(held),
        )
    return SharePlan(
        is_applied=is_applied,
        plan=plan,
        state=state,
        is_new=found.is_new,
        former=found.former,
        paths=sorted(found.pushed)[:MOST_LISTED],
        n_paths=len(found.pushed),
        bytes=sum(found.pushed.values()),
        advice=_advise(found.careless, folder),
    )


async def _begin(
    daemon: Daemon, workspace: Workspace, repository: Repository, found: _Findings, remote: str
) -> None:
    """Make the repository, and exchange for the first time. If that fails, the state has the
    problem, and the next exchange tries again.
    """
    from memsyncd.operations.share.exchange import ShareState

    sharing, folder = daemon.sharing, choose_folder(workspace)
    # A fresh clone of a project has no notes of its own yet.
    await sharing.call(workspace, partial(os.makedirs, repository.folder, exist_ok=True))
    branch = await sharing.call(workspace, partial(_create, repository, found, remote))
    share, state = sharing.find(workspace), ShareState(folder=folder, branch=branch)
    if share is not None and (share.state.folder, share.state.branch) == (folder, branch):
        # What the other machines have is still known, unless the remote is another one.
        state = replace(share.state, on=True, seen="" if remote else share.state.seen)
    share = sharing.add(workspace, state)
    with contextlib.suppress(MemsyncdError):
        await sharing.exchange(workspace, share)
    sharing.arm(workspace, share)


def _describe_project(
    workspace: Workspace, state: ShareInfo, folder: str, tracking: str
) -> ShareInfo:
    """Describe a folder whose notes another repository tracks."""
    problem, hint = f"{tracking} tracks the notes", _advise_project(workspace)
    return replace(state, way="project", folder=folder, problem=problem, hint=hint)


def _advise(careless: str, folder: str) -> str:
    if not (careless and folder):
        return ""
    return f"add the line {folder}/ to .gitignore of {careless}, which would take it for its own"


def _examine(
    daemon: Daemon, workspace: Workspace, repository: Repository, folder: str, remote: str
) -> _Findings:
    """Look at the folder, and at what a remote would get, on a thread."""
    from memsyncd.operations.share.exchange import ShareState, take_snapshot
    from memsyncd.operations.share.git import hide_user

    is_folder = os.path.isdir(repository.folder)
    is_new = not (is_folder and repository.is_own())
    tracking = _find_tracking(repository)
    if tracking:
        return _Findings(tracking=tracking, is_new=is_new, branch="", snapshot=None)
    branch, commit, theirs, before, tree = "", "", "", "", {}
    if not is_new:
        head = repository.read_head()
        branch, commit = head.branch, head.commit
        tree = repository.list_tree(commit)
        before = repository.find_remote()
        if not (remote or before):
            theirs = commit
        elif remote in ("", before):
            theirs = repository.find_commit(f"refs/remotes/origin/{branch}")
    state = ShareState(folder=folder, branch=branch)
    config = daemon.workspaces.config
    if not is_folder:
        return _Findings(tracking="", is_new=True, branch="", snapshot=None)
    snapshot = take_snapshot(workspace, config, repository, state, tree, {})
    return _Findings(
        tracking="",
        is_new=is_new,
        branch=branch,
        snapshot=snapshot,
        pushed=_measure(repository, tree, theirs, snapshot.files),
        ahead=repository.count_ahead(commit, theirs),
        former=hide_user(before) if remote not in ("", before) else "",
        careless=repository.find_careless(),
    )


def _measure(
    repository: Repository,
    tree: Mapping[str, str],
    theirs: str,
    files: Mapping[str, bytes | None],
) -> dict[str, int]:
    """Return the sizes of the notes that a remote with the commit `theirs` would get, by path."""
    has = repository.list_tree(theirs)
    blobs = {path: blob for path, blob in tree.items() if has.get(path) != blob}
    texts = repository.read_blobs(blobs.values())
    sizes = {path: len(texts[blob]) for path, blob in blobs.items()}
    return sizes | {path: len(data or b"") for path, data in files.items()}


def _create(repository: Repository, found: _Findings, remote: str) -> str:
    """Make the repository, or use the one that is there. Return its branch.

    Raises ShareFailed if another remote would come in the place of the one that it has, and does
    not answer: nothing changes then.
    """
    from memsyncd.operations.share.background import make_driver_command

    if found.former:
        repository.check_remote(remote, found.former)
    if found.is_new:
        repository.create(DEFAULT_BRANCH)
    if remote:
        repository.set_remote(remote)
    repository.use_driver(make_driver_command())
    if not found.is_new:
        return found.branch
    branch = DEFAULT_BRANCH
    if remote:
        try:
            branch = repository.find_remote_branch() or branch
        except ShareFailed:
            return branch
        repository.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    return branch


# --- the others ---------------------------------------------------------------------------------


def switch_sharing(daemon: Daemon, params: SwitchParams) -> Awaitable[ShareList]:
    return _switch(daemon, _find_workspace(daemon, params), params.on)


async def _switch(daemon: Daemon, workspace: Workspace, on: bool) -> ShareList:
    daemon.sharing.switch(workspace, await _find_share(daemon, workspace), on=on)
    return await _describe_all(daemon, [workspace])


def describe_sharing(daemon: Daemon, params: ShareParams) -> Awaitable[ShareList]:
    """Describe one memory, or without a name all that are shared."""
    if params.workspace is not None or params.user:
        return _describe_all(daemon, [_find_workspace(daemon, params)])
    shared = [each for each in daemon.workspaces.sorted() if daemon.sharing.find(each)]
    return _describe_all(daemon, shared)


def exchange_now(daemon: Daemon, params: ShareNowParams) -> Awaitable[Exchanged]:
    return _exchange(daemon, _find_workspace(daemon, params), params)


def list_commits(daemon: Daemon, params: ShareLogParams) -> Awaitable[ShareLog]:
    return _list_commits(daemon, _find_workspace(daemon, params), params.limit)


async def _exchange(daemon: Daemon, workspace: Workspace, params: ShareNowParams) -> Exchanged:
    sharing = daemon.sharing
    if not params.wait:
        is_begun = sharing.begin_session(workspace)
        state = _make_info(daemon, workspace)
        return _make_exchanged(state, None, is_begun=is_begun)
    share = await _find_share(daemon, workspace)
    await _scan(daemon, workspace)
    try:
        done = await sharing.exchange(workspace, share, push=params.push)
    finally:
        sharing.arm(workspace, share)
    return _make_exchanged(await _describe(daemon, workspace), done)


def _make_exchanged(
    state: ShareInfo, done: Exchange | None, *, is_begun: bool = False
) -> Exchanged:
    received = sorted(done.received) if done else []
    return Exchanged(
        state=state,
        committed=done.committed if done else 0,
        received=received[:MOST_LISTED],
        n_received=len(received),
        n_signals=done.n_signals if done else 0,
        is_pushed=bool(done and done.is_pushed),
        is_begun=is_begun,
    )


async def _list_commits(daemon: Daemon, workspace: Workspace, limit: int) -> ShareLog:
    share = await _find_share(daemon, workspace)
    repository = daemon.sharing.open(workspace, share.state.folder)

    def read() -> list[ShareEntry]:
        if not repository.find_commit("HEAD"):
            return []
        return [
            ShareEntry(
                commit=entry.commit,
                at=entry.at_s,
                writer=entry.writer,
                machine=entry.machine,
                subject=entry.subject,
                paths=[share.state.locate(path) for path in entry.paths],
            )
            for entry in repository.list_log("-n", str(limit), "HEAD")
        ]

    return ShareLog(workspace=workspace.id, commits=await daemon.sharing.call(workspace, read))


# --- descriptions -------------------------------------------------------------------------------


async def _describe_all(daemon: Daemon, workspaces: list[Workspace]) -> ShareList:
    return ShareList(shared=[await _describe(daemon, workspace) for workspace in workspaces])


async def _describe(daemon: Daemon, workspace: Workspace) -> ShareInfo:
    """Describe a memory, with what the repository says."""
    info = _make_info(daemon, workspace)
    share = daemon.sharing.find(workspace)
    if share is None:
        return info
    repository = daemon.sharing.open(workspace, share.state.folder)
    branch = share.state.branch

    def read() -> tuple[str, int, list[str]]:
        from memsyncd.operations.share.exchange import list_conflicts
        from memsyncd.operations.share.git import hide_user

        ours = repository.find_commit(f"refs/heads/{branch}")
        theirs = repository.find_commit(f"refs/remotes/origin/{branch}")
        ahead = repository.count_ahead(ours, theirs)
        return hide_user(repository.find_remote()), ahead, list_conflicts(workspace, share.state)

    try:
        remote, ahead, conflicts = await daemon.sharing.call(workspace, read)
    except MemsyncdError as failure:
        return replace(info, problem=info.problem or failure.message, hint=failure.hint)
    return replace(info, remote=remote, ahead=ahead, said=[*info.said, *conflicts])


def _make_info(daemon: Daemon, workspace: Workspace) -> ShareInfo:
    share = daemon.sharing.find(workspace)
    state = share.state if share else None
    held = share.snapshot.held if share and share.snapshot else []
    folder = state.folder if state else choose_folder(workspace)
    return ShareInfo(
        workspace=workspace.id,
        name=workspace.entry.name,
        folder=os.path.join(workspace.entry.root, folder).rstrip("/"),
        way="own" if state else "none",
        on=bool(state and state.on),
        machine=daemon.sharing.machine,
        machines=state.machines if state else [],
        remote="",
        branch=state.branch if state else "",
        ahead=0,
        committed_at=state.committed_at if state else None,
        fetched_at=state.fetched_at if state else None,
        pushed_at=state.pushed_at if state else None,
        failed_since=state.failed_since if state else None,
        problem=state.problem if state else "",
        hint=state.hint if state else "",
        said=state.said if state else [],
        held=_list_held(held),
        n_held=len(held),
        n_held_notes=_count_notes(held),
    )


def _list_held(held: Sequence[HeldBack]) -> list[HeldNote]:
    return [
        HeldNote(path=each.path, line=each.line, heading=each.heading, reason=each.reason)
        for each in held[:MOST_LISTED]
    ]


def _count_notes(held: Sequence[HeldBack]) -> int:
    """Count the notes that stay as a whole."""
    return len({each.path for each in held if not each.heading})
