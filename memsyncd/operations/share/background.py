"""Shares memories by itself: commits after a quiet time, and asks the remote now and then.

`MemorySharing` lives on the event loop. It sleeps until a change, a session of an agent or the next
interval; while nothing is shared, it does nothing. Git runs on threads of its own, and notes are
written by edits of the worker like the edits of any client, so nobody waits for git or the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from memsyncd.engine.clock import Clock, find_local_day
from memsyncd.engine.job_completions import Timers
from memsyncd.engine.sync import SyncDone
from memsyncd.engine.worker import WorkerPool
from memsyncd.engine.workspace import Workspace
from memsyncd.engine.workspaces import Workspaces
from memsyncd.errors import MemsyncdError, ShareFailed
from memsyncd.operations.signals.declare import Signal

if TYPE_CHECKING:
    from memsyncd.operations.share.exchange import (
        Committing,
        KnownNote,
        MergePlan,
        SharedNotes,
        ShareState,
    )
    from memsyncd.operations.share.git import Head, Processes, Repository
    from memsyncd.operations.travel import Machines, SignalLines
    from memsyncd.store.records import SentSignal

T = TypeVar("T")

STATE_FILE = "share.json"
POWER_FOLDER = "/sys/class/power_supply"
NEXT = "share"
"""The purpose of the timer."""
MOST_SAID = 3
SAID_S = 86_400.0
"""`share status` tells so long what a merge has found, if the user exchanges nothing meanwhile."""
N_THREADS = 2
STOP_S = 0.5
MOST_PUSHES = 5
"""How often a push is tried again because another machine was faster."""
MOST_AHEAD_S = 300.0
"""A commit may be from so far in the future."""
RECENT_S = 5.0
"""A session that begins within this time after an exchange has nothing new to fetch."""
NOTICES = (
    "share_away share_refused share_diverged share_git share_busy share_folder share_clock"
    " share_unwritten"
).split()
NOTICE_KINDS = {
    "unreachable": "share_away",
    "refused": "share_refused",
    "diverged": "share_diverged",
    "git": "share_git",
}


class Post(msgspec.Struct, kw_only=True):
    """The signals of one shared memory that travel, while the daemon runs.

    `blob` is the id of their file on the branch, `read` of the file that `lines` has, `received` of
    the file whose signals this machine has received, and `copied` of the file in the folder.
    """

    blob: str | None = None
    read: str | None = None
    lines: SignalLines | None = None
    received: str | None = None
    copied: str | None = None
    sent: list[SentSignal] = msgspec.field(default_factory=list)
    """This machine's own signals to others that have not expired."""


class Share:
    """One shared memory while the daemon runs."""

    def __init__(self, state: ShareState) -> None:
        from memsyncd.operations.share.rules import Times

        self.state = state
        self.times = Times()
        self.lock = asyncio.Lock()
        self.known: dict[str, KnownNote] = {}
        self.policy: object = None
        """The settings with which the notes were compared."""
        self.n_busy = 0
        """How often in a row the user was in the middle of something."""
        self.is_checked = False
        """True once git is known to be new enough."""
        self.network = ""
        """The routes of the network when the remote was asked last."""
        self.head: Head | None = None
        """The branch when it was last the same here and on the remote."""
        self.snapshot: SharedNotes | None = None
        """The notes as they were last compared."""
        self.post = Post()
        self.task: asyncio.Task[None] | None = None

    def say(self, text: str) -> None:
        """Let `share status` tell this, once."""
        self.state.said = [*dict.fromkeys((*self.state.said, text))]


class Exchange(msgspec.Struct, kw_only=True):
    """The work that one exchange has done."""

    committed: int = 0
    received: list[str] = msgspec.field(default_factory=list)
    n_signals: int = 0
    """Signals of other machines that this machine received."""
    is_pushed: bool = False
    is_fetched: bool = False
    """True if the news of the remote are here although the commit was refused."""


class MemorySharing:
    """The shared memories of all workspaces. Make it on the running loop."""

    def __init__(
        self,
        workspaces: Workspaces,
        clock: Clock,
        notify_signal: Callable[[Workspace, Signal], None],
    ) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._notify_signal = notify_signal
        self._shares: dict[str, Share | None] = {}
        """By the id of a workspace; None for one that is known not to be shared."""
        self._timers = Timers()
        self._pool: WorkerPool | None = None
        self._processes: Processes | None = None
        self._is_stopped = False

    # --- from the daemon ---

    def note_synced(self, workspace: Workspace, done: SyncDone) -> None:
        """Plan a commit after changes. The first sync of a workspace tells that it is open."""
        if self._workspaces.by_id.get(workspace.id) is not workspace:
            return
        is_new = workspace.id not in self._shares
        share = self.find(workspace)
        if share is None or not share.state.on:
            return
        if is_new or done.paths:
            self.note_changed(workspace)

    def note_changed(self, workspace: Workspace) -> None:
        """Plan an exchange after a quiet time, if the memory is shared."""
        share = self.find(workspace)
        if share is None or not share.state.on:
            return
        now_s = self._clock.now_s()
        if share.times.changed_s is None:
            share.times.changed_s = now_s
        share.times.latest_s = now_s
        self.arm(workspace, share)

    def list_machines(self, workspace: Workspace) -> Machines:
        """Return the machines that share the memory of a workspace."""
        from memsyncd.operations.travel import Machines

        share = self.find(workspace)
        if share is None:
            return Machines(own=self.machine)
        others = tuple(name for name in share.state.machines if name != self.machine)
        return Machines(own=self.machine, others=others, state="on" if share.state.on else "off")

    def begin_session(self, workspace: Workspace) -> bool:
        """Begin an exchange for a session of an agent, and do not wait for it. Returns whether one
        has begun.
        """
        share = self.find(workspace)
        if share is None or not share.state.on or share.times.n_failures:
            return False
        asked_s = share.times.asked_s
        if asked_s is not None and self._clock.now_s() - asked_s < RECENT_S:
            return False
        return self._begin(workspace, share)

    def stop(self) -> bool:
        """End the processes of git. Returns False if a thread has not ended in time."""
        self._is_stopped = True
        for workspace_id in self._shares:
            self._timers.cancel_all(workspace_id)
        for share in self._shares.values():
            if share is not None and share.task is not None:
                share.task.cancel()
        if self._processes is not None:
            self._processes.stop()
        return self._pool is None or self._pool.stop(STOP_S)

    # --- shares ---

    def find(self, workspace: Workspace) -> Share | None:
        """Return the shared memory of a workspace, None if it has none."""
        if workspace.id not in self._shares:
            state = _read_state(_find_state_file(workspace))
            self._shares[workspace.id] = None if state is None else Share(state)
        return self._shares[workspace.id]

    def add(self, workspace: Workspace, state: ShareState) -> Share:
        """Remember a memory as shared."""
        share = Share(state)
        self._shares[workspace.id] = share
        self.save(workspace, share)
        return share

    def save(self, workspace: Workspace, share: Share) -> None:
        """Keep the state, and let `status` and `doctor` tell what is wrong."""
        path = _find_state_file(workspace)
        part = f"{path}.part"
        with contextlib.suppress(OSError):
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(share.state))
            os.replace(part, path)
        self._report(workspace, share.state)

    def _report(self, workspace: Workspace, state: ShareState) -> None:
        from memsyncd.operations.share.exchange import list_unwritten
        from memsyncd.operations.share.rules import find_synced_folder

        texts: dict[str, str] = {}
        if state.on and state.problem:
            code = NOTICE_KINDS.get(state.kind, "share_busy")
            since = f" since {find_local_day(state.failed_since)}" if state.failed_since else ""
            hint = f"; {state.hint}" if state.hint else ""
            texts[code] = f"memory is not shared{since}: {state.problem}{hint}"
        synced = find_synced_folder(workspace.entry.root)
        if state.on and synced:
            texts["share_folder"] = f"another service copies the repository: it is in {synced}"
        if state.on and state.clock:
            texts["share_clock"] = state.clock
        if state.on and state.unwritten:
            texts["share_unwritten"] = "; ".join(list_unwritten(state)[:MOST_SAID])
        for code in NOTICES:
            workspace.set_notice(code, texts.get(code, ""))

    def switch(self, workspace: Workspace, share: Share, *, on: bool) -> None:
        share.state.on = on
        self.save(workspace, share)
        if on:
            share.times.changed_s = share.times.latest_s = self._clock.now_s()
            share.times.n_failures = 0
            self._begin(workspace, share)
        else:
            self._timers.cancel_all(workspace.id)

    @property
    def machine(self) -> str:
        return self._workspaces.config.share.machine or socket.gethostname().partition(".")[0]

    def open(self, workspace: Workspace, folder: str) -> Repository:
        """Return the repository in a folder of a workspace; it need not exist."""
        from memsyncd.operations.share.git import Processes, Repository

        if self._processes is None:
            self._processes = Processes()
        path = os.path.join(workspace.entry.root, folder) if folder else workspace.entry.root
        limit_s = self._workspaces.config.share.network_s
        return Repository(path, os.environ, self._processes, network_s=limit_s)

    async def call(self, workspace: Workspace, function: Callable[[], T]) -> T:
        """Call a function that runs git, on a thread of sharing. Raises ShareFailed, also if the
        disk fails.
        """
        if self._pool is None:
            self._pool = WorkerPool("memsyncd-share", N_THREADS)
        try:
            return await asyncio.wrap_future(self._pool.call(function, workspace.id))
        except OSError as error:
            hint = "free some space, or repair the folder; memsyncd tries again by itself"
            message = f"{error.filename or workspace.entry.root}: {error.strerror}"
            raise ShareFailed(message, hint=hint, kind="busy") from error

    # --- when ---

    def arm(self, workspace: Workspace, share: Share) -> None:
        """Wake up when the next thing is due."""
        from memsyncd.operations.share.rules import find_commit_time, find_fetch_time

        if self._is_stopped or not share.state.on:
            return
        pace = self._workspaces.config.share
        due_s = find_fetch_time(share.times, pace, os.urandom(1)[0] / 255)
        commit_s = find_commit_time(share.times, pace)
        if commit_s is not None:
            due_s = min(due_s, commit_s)
        delay_s = max(0.0, due_s - self._clock.now_s())
        self._timers.set(workspace.id, NEXT, delay_s, partial(self._begin, workspace, share))

    def _begin(self, workspace: Workspace, share: Share) -> bool:
        if self._is_stopped or (share.task is not None and not share.task.done()):
            return False
        share.task = asyncio.get_running_loop().create_task(self._work(workspace.id, share))
        return True

    async def _work(self, workspace_id: str, share: Share) -> None:
        workspace = self._workspaces.by_id.get(workspace_id)
        if workspace is None or not share.state.on:
            return
        from memsyncd.operations.share.rules import find_fetch_time

        pace = self._workspaces.config.share
        is_asking = find_fetch_time(share.times, pace, 0.0) <= self._clock.now_s()
        is_asking = is_asking or not share.times.n_failures
        network = _read_network()
        if share.times.changed_s is None and _is_on_battery() and network == share.network:
            share.times.asked_s = self._clock.now_s()
            self.arm(workspace, share)
            return
        share.network = network
        try:
            with contextlib.suppress(MemsyncdError):
                done = await self.exchange(workspace, share, is_asking=is_asking, is_full=False)
                if done.committed or done.received:
                    pack = self.open(workspace, share.state.folder).pack
                    await self.call(workspace, pack)
        finally:
            self.arm(workspace, share)

    # --- an exchange ---

    async def exchange(
        self,
        workspace: Workspace,
        share: Share,
        *,
        is_asking: bool = True,
        push: bool = True,
        is_full: bool = True,
    ) -> Exchange:
        """Commit, and if the remote is asked, fetch, merge and push. Raises ShareFailed and the
        errors of edits; the state has the problem, too.
        """
        async with share.lock:
            # Nothing but the branch of the remote is looked at if no note has changed.
            if is_full and share.times.changed_s is None:
                share.times.changed_s = share.times.latest_s = self._clock.now_s()
            done, state = Exchange(), share.state
            if is_full:
                state.said = []
            now_s = self._clock.now_s()
            try:
                try:
                    await self._exchange(workspace, share, done, is_asking=is_asking, push=push)
                except MemsyncdError:
                    with contextlib.suppress(MemsyncdError):
                        await self._deliver(workspace, share, done)
                    raise
                await self._deliver(workspace, share, done)
            except MemsyncdError as failure:
                self._note_failure(share, failure, is_fetched=done.is_fetched)
                self.save(workspace, share)
                raise
            share.n_busy = 0
            if is_asking:
                share.times.asked_s, share.times.n_failures = now_s, 0
                state.kind = state.problem = state.hint = ""
                state.failed_since = None
            self.save(workspace, share)
            return done

    def _note_failure(self, share: Share, failure: MemsyncdError, *, is_fetched: bool) -> None:
        state = share.state
        state.kind = str(failure.data.get("kind", "busy"))
        state.problem, state.hint = failure.message, failure.hint
        now_s = self._clock.now_s()
        if state.kind == "busy":
            share.n_busy += 1
            pace = self._workspaces.config.share
            # The user may take long to end a merge.
            wait_s = min((share.n_busy - 1) * pace.quiet_s, pace.fetch_s)
            share.times.changed_s = share.times.latest_s = now_s + wait_s
            return
        share.times.asked_s = now_s
        share.times.n_failures = 0 if is_fetched else share.times.n_failures + 1
        if state.failed_since is None and state.kind in ("unreachable", "refused"):
            state.failed_since = self._clock.wall_s()

    async def _exchange(
        self, workspace: Workspace, share: Share, done: Exchange, *, is_asking: bool, push: bool
    ) -> None:
        repository = self.open(workspace, share.state.folder)
        last, share.head = share.head, None
        if last is not None and is_asking and share.times.changed_s is None:
            theirs = await self.call(workspace, partial(repository.fetch, last.branch))
            share.state.fetched_at = self._clock.wall_s()
            if theirs == last.commit:
                share.head = last
                return
        if not share.is_checked:
            await self.call(workspace, repository.check_version)
            share.is_checked = True
        who = await self._identify(workspace, repository)
        has_remote = bool(await self.call(workspace, repository.find_remote))
        try:
            head = await self._commit(workspace, share, repository, done, who)
        except ShareFailed as failure:
            if failure.data.get("kind") == "refused" and has_remote and is_asking:
                # A hook of the user refuses the commit. News come, except of the same notes.
                with contextlib.suppress(ShareFailed):
                    head = await self.call(workspace, repository.read_head)
                    await self._receive(workspace, share, repository, head, done, who)
                    done.is_fetched = True
            raise
        if not has_remote and head.commit:
            await self._post(workspace, share, repository, head, done, who)
        if has_remote and is_asking:
            await self._exchange_with_remote(workspace, share, repository, head, done, who, push)

    async def _exchange_with_remote(
        self,
        workspace: Workspace,
        share: Share,
        repository: Repository,
        head: Head,
        done: Exchange,
        who: Committing,
        push: bool,
    ) -> None:
        """Fetch, merge and push, again if another machine was faster."""
        from memsyncd.operations.share.exchange import check_history

        for _ in range(MOST_PUSHES):
            head = await self._receive(workspace, share, repository, head, done, who)
            if push:
                # A machine without any commit takes the commits of the others first.
                head = await self._post(workspace, share, repository, head, done, who)
            if head.commit == share.state.seen:
                share.head = head
                return
            if not push:
                return
            config, seen = self._workspaces.config, share.state.seen
            check = partial(check_history, repository, workspace, config, seen, head.commit)
            await self.call(workspace, check)
            try:
                await self.call(workspace, partial(repository.push, head.commit, head.branch))
            except ShareFailed as failure:
                if failure.data.get("kind") != "behind":
                    raise
                # Notes may have been saved since the last merge.
                head = await self._commit(workspace, share, repository, done, who)
                continue
            share.head, share.state.seen, done.is_pushed = head, head.commit, True
            share.state.pushed_at = self._clock.wall_s()
            return
        raise ShareFailed("other machines push all the time", kind="busy")

    async def _commit(
        self,
        workspace: Workspace,
        share: Share,
        repository: Repository,
        done: Exchange,
        who: Committing,
    ) -> Head:
        from memsyncd.operations.share.exchange import commit_changes, read_changes

        state = share.state
        job = partial(read_changes, since=state.revision)
        revision, changes = await asyncio.wrap_future(
            self._workspaces.scheduler.run(workspace, job)
        )
        share.times.changed_s = share.times.latest_s = None
        head = await self.call(workspace, repository.read_head)
        if head.branch != state.branch:
            hint = f"git switch {state.branch}, in {repository.folder}"
            raise ShareFailed(
                f"the repository is on the branch {head.branch}", hint=hint, kind="busy"
            )
        snapshot = await self._compare(workspace, share, repository, head)
        if snapshot.files and await self.call(workspace, repository.read_head) != head:
            share.known = {}
            raise ShareFailed("the branch changed while the notes were read", kind="busy")
        work = partial(commit_changes, repository, state, head, snapshot, changes, who)
        head, n_committed = await self.call(workspace, work)
        done.committed += n_committed
        if n_committed:
            state.committed_at = self._clock.wall_s()
        state.revision = revision
        return head

    async def _compare(
        self, workspace: Workspace, share: Share, repository: Repository, head: Head
    ) -> SharedNotes:
        from memsyncd.operations.share.exchange import take_snapshot

        config = self._workspaces.config
        policy = (config.share.exclude, config.guard, config.chunking)
        if share.policy != policy:
            share.known, share.policy = {}, policy
        known, state = share.known, share.state

        def compare() -> SharedNotes:
            from memsyncd.operations.travel import SIGNALS_FILE

            tree = repository.list_tree(head.commit)
            share.post.blob = tree.get(SIGNALS_FILE, "")
            return take_snapshot(workspace, config, repository, state, tree, known)

        snapshot = await self.call(workspace, compare)
        share.known, share.snapshot = snapshot.notes, snapshot
        return snapshot

    async def _identify(self, workspace: Workspace, repository: Repository) -> Committing:
        from memsyncd.operations.share.exchange import Committing

        fallback = f"{os.environ.get('USER') or 'memsyncd'}@{self.machine}"
        identity = await self.call(workspace, partial(repository.find_author, fallback))
        return Committing(identity=identity, machine=self.machine, at_s=self._clock.wall_s())

    async def _receive(
        self,
        workspace: Workspace,
        share: Share,
        repository: Repository,
        head: Head,
        done: Exchange,
        who: Committing,
    ) -> Head:
        """Fetch, merge, write the notes, and move the branch. Return the new head."""
        from memsyncd.operations.share.exchange import plan_merge

        state, snapshot = share.state, share.snapshot
        assert snapshot is not None, "the notes were compared before"
        theirs = await self.call(workspace, partial(repository.fetch, head.branch))
        state.fetched_at = self._clock.wall_s()
        if self._clock.wall_s() - state.said_at > SAID_S:
            state.said = []
        if theirs in ("", head.commit):
            state.seen = theirs
            return head
        plan = await self.call(
            workspace,
            partial(plan_merge, repository, workspace, state, head, theirs, snapshot, who),
        )
        state.clock = await self._check_clock(workspace, repository, theirs)
        if plan is None:
            state.seen = theirs
            return head
        await self._write(workspace, plan, done)
        move = partial(repository.move, head.branch, plan.commit, head.commit)
        await self.call(workspace, move)
        state.seen, state.unwritten = theirs, plan.unwritten
        if plan.said:
            # The remote may have news several times in one exchange.
            state.said = list(dict.fromkeys((*state.said, *plan.said)))
            state.said_at = self._clock.wall_s()
        head = msgspec.structs.replace(head, commit=plan.commit)
        self.save(workspace, share)
        await self._compare(workspace, share, repository, head)
        return head

    # --- signals ---

    async def _post(
        self,
        workspace: Workspace,
        share: Share,
        repository: Repository,
        head: Head,
        done: Exchange,
        who: Committing,
    ) -> Head:
        """Commit the signals to other machines, if there are new ones. Return the new head."""
        from memsyncd.operations.share.post import commit_signals, read_sent

        post = share.post
        post.sent = await asyncio.wrap_future(self._workspaces.scheduler.run(workspace, read_sent))
        lines = await self._read_lines(workspace, share, repository)
        if lines is None:
            return head
        work = partial(commit_signals, repository, head, lines, post.sent, who)
        commit, post.lines, blob = await self.call(workspace, work)
        if commit == head.commit:
            return head
        post.blob = post.read = blob
        done.committed += 1
        share.state.committed_at = self._clock.wall_s()
        return msgspec.structs.replace(head, commit=commit)

    async def _read_lines(
        self, workspace: Workspace, share: Share, repository: Repository
    ) -> SignalLines | None:
        """Return the lines of the branch; None if their file is too large."""
        from memsyncd.operations.share.post import read_post

        post = share.post
        if post.lines is None or post.read != post.blob:
            read = partial(read_post, repository, post.blob or "")
            post.lines, post.read = await self.call(workspace, read), post.blob
        return post.lines

    async def _deliver(self, workspace: Workspace, share: Share, done: Exchange) -> None:
        """Receive the signals to this machine, each once, and note how far its own have come."""
        from memsyncd.operations.inbox import describe_signal
        from memsyncd.operations.share.post import AHEAD, NO_ROOM, TOO_LARGE, deliver, list_ahead
        from memsyncd.operations.travel import SIGNALS_FILE, render_file

        post = share.post
        if post.blob is None:
            return
        repository = self.open(workspace, share.state.folder)
        lines = await self._read_lines(workspace, share, repository)
        if lines is None:
            share.say(TOO_LARGE)
            return
        share.state.machines = sorted(lines.machines)
        for name in list_ahead(lines, self.machine, post.sent, self._clock.wall_s()):
            share.say(AHEAD.format(name))
        here = [each for each in post.sent if each.line in lines.signals]
        if here or post.received != post.blob:
            is_pushed = share.head is not None
            new = lines if post.received != post.blob else None
            job = partial(deliver, lines=new, machine=self.machine, here=here, is_pushed=is_pushed)
            run = self._workspaces.scheduler.run(workspace, job)
            received, is_whole = await asyncio.wrap_future(run)
            post.received = post.blob if is_whole else None
            if not is_whole:
                share.say(NO_ROOM)
            done.n_signals += len(received)
            for stored in received:
                signal = describe_signal(stored, self._workspaces.config, has_receipts=False)
                self._notify_signal(workspace, signal)
        if post.blob and post.copied != post.blob:
            data = render_file(lines)
            copy = partial(repository.copy_to_folder, SIGNALS_FILE, data)
            # The branch has the lines, so a failure loses nothing.
            with contextlib.suppress(ShareFailed):
                await self.call(workspace, copy)
            post.copied = post.blob

    async def _check_clock(self, workspace: Workspace, repository: Repository, theirs: str) -> str:
        """Tell of a commit from the future: of two clocks, one is wrong."""
        at = await self.call(
            workspace, partial(repository.ask, "log", "-1", "--format=%ct", theirs)
        )
        ahead_s = float(at or 0) - self._clock.wall_s()
        if ahead_s < MOST_AHEAD_S:
            return ""
        return f"the clock of another machine is {ahead_s / 60:.0f} minutes ahead of this one's"

    async def _write(self, workspace: Workspace, plan: MergePlan, done: Exchange) -> None:
        from memsyncd.engine.edit import edit_workspace
        from memsyncd.operations.share.exchange import group_writes, make_share_decision

        for writes in group_writes(plan.writes):
            decide = make_share_decision(workspace, writes)
            job = partial(edit_workspace, decide=decide)
            await asyncio.wrap_future(self._workspaces.scheduler.edit(workspace, job))
            done.received += [write.moved_to or write.path for write in writes]


def make_driver_command() -> str:
    """Return the command of the merge driver, for a git of the user that merges by hand."""
    import shlex

    return f"{shlex.join([sys.executable, '-m', 'memsyncd'])} merge-driver %O %A %B %P"


def _is_on_battery() -> bool:
    """True if the system says that no other power is there."""
    states = [
        _read(f"{POWER_FOLDER}/{name}/online")
        for name in _list(POWER_FOLDER)
        if _read(f"{POWER_FOLDER}/{name}/type") in ("Mains", "USB")
    ]
    return "0" in states and "1" not in states


def _read_network() -> str:
    """Return the default routes, where the system tells them: another text is another network."""
    routes = (line.split() for line in _read("/proc/net/route").splitlines())
    return " ".join(f"{row[0]}-{row[2]}" for row in routes if row[1:2] == ["00000000"])


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _find_state_file(workspace: Workspace) -> str:
    return str(workspace.records_path.parent / STATE_FILE)


def _read_state(path: str) -> ShareState | None:
    if not os.path.exists(path):
        return None
    from memsyncd.operations.share.exchange import ShareState

    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=ShareState)
    except (OSError, msgspec.DecodeError):
        return None
