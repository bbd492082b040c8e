"""The steps of an exchange that read and merge notes. They run on a thread of their own.

The branch of the repository has the notes as they were when both were last the same. An exchange
commits the differences, merges the commits of the remote into a new commit, writes the differences
to the notes, and only then moves the branch. So whatever ends an exchange half way, the next one
finds the notes, compares them with the branch, and loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.merge import MergedNote, merge_notes
from memsyncd.core.guard.secrets import find_secrets, redact
from memsyncd.core.model import CONFLICT_KEY
from memsyncd.core.paths import Globs, NotePath, parse_note_path
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import Delete, Edit, FileChange, Put, Rename, find_history
from memsyncd.engine.records import open_records
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import Conflict, EditRefused, MemsyncdError, PathRefused, ShareFailed
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.files.scope import Scope
from memsyncd.operations.revisions import Target, iter_revisions
from memsyncd.operations.share.git import (
    Author,
    Head,
    LogEntry,
    NewCommit,
    Repository,
    hash_blob,
)
from memsyncd.operations.share.rules import (
    MACHINE_KEY,
    OWN_COMMAND,
    CommitPlan,
    HeldBack,
    Policy,
    RecordedChange,
    name_origin,
    plan_commits,
    select_text,
)
from memsyncd.operations.share.trees import Sides, merge_links, merge_trees
from memsyncd.operations.travel import SIGNALS_FILE, merge_files
from memsyncd.store.lookup import read_note_digests
from memsyncd.store.sections import read_problems

READ_S = 10.0
REWRITTEN = "the history of the remote was rewritten; the memories of this machine stay"
MOST_READ = 500
"""So many objects are looked at together."""
MOST_CHANGES = 2000
"""The writers of so many changes are looked up."""


class ShareState(msgspec.Struct, kw_only=True):
    """The state of a shared memory that is kept between runs, in the folder of its records.

    `folder` is the repository's, from the root of the workspace; empty for the root. `revision` is
    the last one that was committed, `seen` the last commit of the remote. `unwritten` has the notes
    of the branch that could not be written here, with the ids of their bytes.
    """

    folder: str
    branch: str
    on: bool = True
    revision: int = 0
    seen: str = ""
    unwritten: dict[str, str] = {}
    committed_at: float | None = None
    fetched_at: float | None = None
    pushed_at: float | None = None
    failed_since: float | None = None
    kind: str = ""
    problem: str = ""
    hint: str = ""
    said: list[str] = []
    said_at: float = 0.0
    machines: list[str] = []
    """The machines that share the memory, with this one."""
    clock: str = ""
    """The fault of another machine's clock, empty for none."""

    @property
    def begin(self) -> str:
        """How the paths of the repository begin, from the root of the workspace."""
        return f"{self.folder}/" if self.folder else ""

    def locate(self, path: str) -> str:
        """Return the path from the root of a path from the repository's folder."""
        return self.begin + path


class KnownNote(msgspec.Struct, frozen=True, kw_only=True):
    """A note when it was last compared: the digest of its file, the id of its text on the branch
    (empty if it is not there), and what stays back. `is_whole` is true if both texts are the same.
    """

    digest: str
    blob: str
    held: tuple[HeldBack, ...] = ()
    is_whole: bool = True


class SharedNotes(msgspec.Struct, kw_only=True):
    """The notes of the folder, by their path in the repository, and their differences from the
    branch: bytes, or None for a note that is gone.
    """

    notes: dict[str, KnownNote]
    files: dict[str, bytes | None]
    unread: tuple[HeldBack, ...] = ()

    @property
    def held(self) -> list[HeldBack]:
        of_notes = [held for _, note in sorted(self.notes.items()) for held in note.held]
        return [*self.unread, *of_notes]


# --- what is here -------------------------------------------------------------------------------


def make_policy(config: Config) -> Policy:
    """Return the settings that decide what leaves. Raises BadRequest for a bad glob."""
    globs = Globs.parse_excludes(config.share.exclude_globs)
    return Policy(chunking=config.chunking, guard=config.guard, exclude=globs)


def find_writable(scope: Scope, path: str) -> NotePath | None:
    """Return the path of a note that memsyncd may write; None for any other file."""
    try:
        note = parse_note_path(path)
    except PathRefused:
        return None
    return note if scope.is_note(path) and not scope.is_read_only(path) else None


def take_snapshot(
    workspace: Workspace,
    config: Config,
    repository: Repository,
    state: ShareState,
    tree: Mapping[str, str],
    known: Mapping[str, KnownNote],
) -> SharedNotes:
    """Compare the notes with the tree of the branch. Notes that are `known` are not read again.

    Raises ShareFailed if the workspace's folder is away, and the errors of reading the index.
    """
    if workspace.condition.root_state != "present":
        raise ShareFailed("the workspace's folder is not there", kind="busy")
    with workspace.acquire(READ_S) as reader:
        digests = read_note_digests(reader)
    paths = {path.removeprefix(state.begin) for path in digests if path.startswith(state.begin)}
    snapshot = SharedNotes(notes={}, files={})
    read: dict[str, TextFile] = {}
    unread: list[HeldBack] = []
    like = next(iter(tree.values()), "")
    for path in sorted(paths | tree.keys()):
        full = state.locate(path)
        note, blob = find_writable(workspace.scope, full), tree.get(path, "")
        if note is None or (blob and state.unwritten.get(path) == blob):
            continue
        last = known.get(path)
        if last and last.blob == blob and last.digest == digests.get(full):
            snapshot.notes[path] = last
            continue
        try:
            file = read_text_file(workspace.scope, note)
        except MemsyncdError as error:
            unread.append(HeldBack(path=full, reason=error.message))
            continue
        if file is None:
            if blob:
                snapshot.files[path] = None
        elif file.path != note:
            unread.append(HeldBack(path=full, reason="it is a link"))
        elif hash_blob(file.data, like) == blob:
            snapshot.notes[path] = KnownNote(digest=file.digest, blob=blob)
        else:
            read[path] = file
    snapshot.unread = tuple(unread)
    _select_changed(snapshot, make_policy(config), repository, state, tree, read)
    return snapshot


def _select_changed(
    snapshot: SharedNotes,
    policy: Policy,
    repository: Repository,
    state: ShareState,
    tree: Mapping[str, str],
    read: Mapping[str, TextFile],
) -> None:
    """Add the notes that differ from the branch to the snapshot."""
    shared = repository.read_blobs([tree.get(path, "") for path in read])
    like = next(iter(tree.values()), "")
    for path, file in read.items():
        blob, full = tree.get(path, ""), state.locate(path)
        if policy.exclude.matches(path) or policy.exclude.matches(full):
            held = (HeldBack(path=full, reason="share.exclude"),)
            snapshot.notes[path] = _keep_back(file, blob, held)
            continue
        selected = select_text(full, file.data, shared.get(blob), policy)
        if selected.data is None:
            snapshot.notes[path] = _keep_back(file, blob, selected.held)
            continue
        new = hash_blob(selected.data, like)
        if new != blob:
            snapshot.files[path] = selected.data
        snapshot.notes[path] = KnownNote(
            digest=file.digest, blob=new, held=selected.held, is_whole=not selected.held
        )


def _keep_back(file: TextFile, blob: str, held: tuple[HeldBack, ...]) -> KnownNote:
    return KnownNote(digest=file.digest, blob=blob, held=held, is_whole=False)


def read_changes(
    workspace: Workspace, config: Config, clock: Clock, *, since: int
) -> Job[tuple[int, list[RecordedChange]]]:
    """Return the number of the last revision, and the changes after the revision `since`, newest
    first.
    """
    open_records(workspace, clock)
    history = find_history(workspace, config)
    changes: list[RecordedChange] = []
    if history is None:
        return 0, changes
    last = history.last_revision
    for revision in iter_revisions(history, Target()):
        if revision.id <= since or len(changes) == MOST_CHANGES:
            break
        changes.append(RecordedChange(revision.path, revision.client, revision.command))
        if len(changes) % 50 == 0:
            yield
    return last, changes


class Committing(msgspec.Struct, frozen=True, kw_only=True):
    """Who commits, when and where."""

    identity: Author
    machine: str
    at_s: float


def commit_changes(
    repository: Repository,
    state: ShareState,
    head: Head,
    snapshot: SharedNotes,
    changes: Iterable[RecordedChange],
    who: Committing,
) -> tuple[Head, int]:
    """Commit the differences, one commit for each writer. Return the new head and their number."""
    if not snapshot.files:
        return head, 0
    within = [
        replace(change, path=change.path.removeprefix(state.begin))
        for change in changes
        if change.path.startswith(state.begin)
    ]
    plans = plan_commits(snapshot.files.keys(), within, who.machine)
    new = [_make_commit(plan, snapshot.files, who) for plan in plans]
    commit = repository.extend(head.branch, head.commit, new, who.identity, who.at_s)
    return replace(head, commit=commit), len(new)


def _make_commit(plan: CommitPlan, files: Mapping[str, bytes | None], who: Committing) -> NewCommit:
    return NewCommit(
        author=Author(plan.writer or who.identity.name, who.identity.email),
        message=plan.message,
        parents=(),
        files={path: files[path] for path in plan.paths},
    )


def check_history(
    repository: Repository, workspace: Workspace, config: Config, seen: str, commit: str
) -> None:
    """Look for secrets in everything that a push of `commit` would bring to the remote, whose
    commit is `seen`, whoever has committed it. A secret that the note has there, too, has left
    already. Raises ShareFailed.
    """
    if not config.guard.has_secrets:
        return
    paths = repository.list_new(commit, seen)
    for path in paths.values():
        for what, _ in _list_secrets(path.encode("utf-8", "replace")):
            raise _make_secret(f"the name of {redact(path)}", what)
    tree = repository.list_tree(seen)
    ids = sorted(paths)
    for at in range(0, len(ids), MOST_READ):
        some = repository.read_blobs(ids[at : at + MOST_READ], workspace.scope.max_file_bytes)
        for blob, data in some.items():
            secrets = _list_secrets(data)
            if secrets:
                earlier = tree.get(paths[blob], "")
                former = repository.read_blobs([earlier]).get(earlier, b"")
                left = former.decode("utf-8", "replace")
                secrets = [(what, text) for what, text in secrets if text not in left]
            if secrets:
                place = paths[blob] or f"the message of {blob[:8]}"
                raise _make_secret(place, secrets[0][0])


def _make_secret(place: str, what: str) -> ShareFailed:
    hint = "take it out of the history with git rebase, or push it yourself: git push"
    message = f"nothing is pushed: a commit has a secret, {what}, in {place}"
    return ShareFailed(message, hint=hint, kind="refused")


def _list_secrets(data: bytes) -> list[tuple[str, str]]:
    """Return the secrets in a file or commit: their sorts and texts."""
    if b"\0" in data:
        return []
    if data.startswith(b"tree "):
        data = data.partition(b"\n\n")[2]
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return [
        (each.what, text[each.start : each.end])
        for each in find_secrets(text)
        if not each.is_example
    ]


# --- merging ------------------------------------------------------------------------------------


class NoteWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A note to write: the digest of its file before (None if there must be none), its new bytes
    (None to delete it), and the writer for the history. `moved_to` is its new path.
    """

    path: str
    before: str | None
    data: bytes | None
    moved_to: str = ""
    origin: str = ""


class MergePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A merge: the branch moves to `commit` once all notes are written."""

    commit: str
    writes: tuple[NoteWrite, ...]
    unwritten: dict[str, str]
    said: tuple[str, ...]


Text = bytes | str
"""Bytes, or their id in the repository."""


class _Result(msgspec.Struct, kw_only=True):
    """The merged tree: the id of the bytes of each file, new bytes by their ids, and messages.
    `links` has what is no file.
    """

    tree: dict[str, str]
    links: dict[str, str] = {}
    new: dict[str, bytes]
    said: list[str]


def plan_merge(
    repository: Repository,
    workspace: Workspace,
    state: ShareState,
    head: Head,
    theirs: str,
    snapshot: SharedNotes,
    who: Committing,
) -> MergePlan | None:
    """Merge the remote's commit in the repository; None if the branch has it. The branch and the
    notes stay as they are. Raises ShareFailed.
    """
    ours, base = head.commit, ""
    if ours:
        base = repository.find_ancestor(ours, theirs)
    if theirs == ours:
        return None
    is_rewritten = _is_rewritten(repository, state, theirs)
    if theirs == base:
        if not is_rewritten:
            return None
        return MergePlan(commit=ours, writes=(), unwritten=state.unwritten, said=(REWRITTEN,))
    our_tree = repository.list_tree(ours)
    said = _describe_history(base, ours, is_rewritten=is_rewritten)
    if base == ours:
        commit, result = theirs, _Result(tree=repository.list_tree(theirs), new={}, said=[])
    else:
        result = _merge_commits(repository, state, base, ours, theirs)
        # A rewritten history may have left something out for good, so it gets none of the old one.
        parents = (theirs,) if is_rewritten else (ours, theirs)
        commit = _commit_merge(repository, result, parents, who)
    moves = repository.find_moves(ours, commit)
    entries = _list_entries(repository, ours, theirs)
    if not is_rewritten:
        said += _describe_names(entries, who.machine)
    origins = _find_origins(entries)
    writes, unwritten = _plan_writes(
        _Writer(repository, workspace, state, snapshot, result, our_tree), moves, origins
    )
    return MergePlan(
        commit=commit,
        writes=tuple(writes),
        unwritten=unwritten,
        said=(*said, *result.said),
    )


def list_conflicts(workspace: Workspace, state: ShareState) -> list[str]:
    """Describe the notes that are not as on the other machines, and the conflicts that are there
    now. Raises the errors of reading the index.
    """
    texts = list_unwritten(state)
    with workspace.acquire(READ_S) as reader:
        problems = read_problems(reader)
    texts += [
        f"{each.path}:{each.line}: {each.problem}; {each.hint}"
        for each in problems
        if each.code == CONFLICT_KEY and each.path.startswith(state.begin)
    ]
    return texts


def list_unwritten(state: ShareState) -> list[str]:
    """Describe the notes of the other machines that could not be written here."""
    paths = (state.locate(path) for path in sorted(state.unwritten))
    return [f"{path} is too large for this machine: see sync.max_file_bytes" for path in paths]


def _is_rewritten(repository: Repository, state: ShareState, theirs: str) -> bool:
    seen = state.seen
    return bool(seen) and repository.ask("merge-base", seen, theirs) != seen


def _describe_history(base: str, ours: str, *, is_rewritten: bool) -> list[str]:
    if is_rewritten:
        return [REWRITTEN]
    if ours and not base:
        return ["the remote had another history; both memories were joined"]
    return []


def _merge_commits(
    repository: Repository, state: ShareState, base: str, ours: str, theirs: str
) -> _Result:
    """Merge the trees of two commits, and the texts that both have changed."""
    trees = [repository.list_tree(commit) for commit in (base, ours, theirs)]
    posts = [tree.pop(SIGNALS_FILE, "") for tree in trees[1:]]
    moved_ours, moved_theirs = (repository.find_moves(base, side) for side in (ours, theirs))
    merged = merge_trees(trees[0], trees[1], trees[2], moved_ours, moved_theirs)
    both = {path: sides for path, sides in merged.items() if not sides.chosen}
    texts = repository.read_blobs(
        [blob for sides in both.values() for blob in (sides.base, sides.ours, sides.theirs)]
    )
    result = _Result(
        tree={path: sides.chosen for path, sides in merged.items() if sides.chosen},
        links=merge_links(*(repository.list_links(commit) for commit in (base, ours, theirs))),
        new={},
        said=[],
    )
    our_times, their_times = (
        _find_times(repository, base, side) if both else {} for side in (ours, theirs)
    )
    for path, sides in both.items():
        saved_s = our_times.get(path, our_times[""]), their_times.get(path, their_times[""])
        _merge_file(path, state.locate(path), sides, texts, saved_s, result)
    if any(posts):
        _merge_post(repository, posts, result)
    return result


def _find_times(repository: Repository, base: str, side: str) -> dict[str, int]:
    """Return when a side has committed each path last, in seconds since 1970; for the empty path,
    any of them. Both machines see the same commits, and find the same times.
    """
    times = {"": 0}
    for entry in _list_entries(repository, base, side):
        times[""] = max(times[""], int(entry.at_s))
        for path in entry.paths:
            times[path] = max(times.get(path, 0), int(entry.at_s))
    return times


def _merge_post(repository: Repository, posts: Sequence[str], result: _Result) -> None:
    """Merge the signals of both sides, also if one side has lost its file."""
    texts = repository.read_blobs(posts)
    data = merge_files(*(texts.get(blob, b"") for blob in posts))
    blob = hash_blob(data, max(posts))
    result.tree[SIGNALS_FILE], result.new[blob] = blob, data


def _merge_file(
    path: str,
    full: str,
    sides: Sides,
    texts: Mapping[str, bytes],
    saved_s: tuple[int, int],
    result: _Result,
) -> None:
    """Merge the texts of one file, which is the note `full` of the workspace."""
    try:
        note = parse_note_path(full)
    except PathRefused:
        result.tree[path] = max(sides.ours, sides.theirs)
        result.said.append(f"{path} differs on both sides, and is no note: one of both stays")
        return
    old, ours, theirs = (texts.get(blob, b"") for blob in (sides.base, sides.ours, sides.theirs))
    try:
        merged: MergedNote = merge_notes(note.text, old, ours, theirs, saved_s)
    except EditRefused as refusal:
        # Both stay, each in a note of its own; which one does not depend on the machine.
        second, first = sorted((sides.ours, sides.theirs))
        stem, dot, suffix = path.rpartition(".")
        copy = f"{stem}-{second[:8]}{dot}{suffix}"
        result.tree |= {path: first, copy: second}
        result.said.append(f"{refusal.message}; {copy} has the other version")
        return
    blob = hash_blob(merged.data, sides.ours)
    result.tree[path], result.new[blob] = blob, merged.data


def _commit_merge(
    repository: Repository, result: _Result, parents: Sequence[str], who: Committing
) -> str:
    first = repository.list_tree(parents[0])
    files: dict[str, bytes | str | None] = {
        path: result.new.get(blob, blob)
        for path, blob in result.tree.items()
        if first.get(path) != blob
    }
    files |= dict.fromkeys(first.keys() - result.tree.keys())
    links = repository.list_links(parents[0])
    for path in {*links, *result.links} - result.tree.keys():
        if links.get(path) != result.links.get(path):
            files[path] = result.links.get(path)
    plan = NewCommit(
        author=who.identity,
        message=f"merge the memories of other machines\n\n{MACHINE_KEY}: {who.machine}\n",
        parents=tuple(parents),
        files=files,
    )
    return repository.commit([plan], who.identity, who.at_s)


def _list_entries(repository: Repository, ours: str, theirs: str) -> list[LogEntry]:
    """Return the commits that only theirs has, without merges."""
    span = f"{ours}..{theirs}" if ours else theirs
    return repository.list_log("--no-merges", "-n", str(MOST_CHANGES), span)


def _describe_names(entries: Iterable[LogEntry], machine: str) -> list[str]:
    """Tell if another machine has the name of this one: `share log` could not tell them apart."""
    if all(entry.machine != machine for entry in entries):
        return []
    way = "set share.machine in the configuration (memsyncd config path)"
    return [f"another machine is named {machine}, too, or was; to tell them apart, {way}"]


def _find_origins(entries: Iterable[LogEntry]) -> dict[str, str]:
    """Return the writer of each path that commits change, with the machine."""
    origins: dict[str, str] = {}
    for entry in entries:
        for path in entry.paths:
            origins.setdefault(path, name_origin(entry.writer, entry.machine))
    return origins


class _Writer(msgspec.Struct, frozen=True):
    """Everything that decides which bytes a note gets."""

    repository: Repository
    workspace: Workspace
    state: ShareState
    snapshot: SharedNotes
    result: _Result
    our_tree: Mapping[str, str]


def _plan_writes(
    writer: _Writer, moves: Mapping[str, str], origins: Mapping[str, str]
) -> tuple[list[NoteWrite], dict[str, str]]:
    """Return the notes to write, and the notes that cannot be written here."""
    tree, our_tree, state = writer.result.tree, writer.our_tree, writer.state
    changed = {path for path in {*tree, *our_tree} if tree.get(path) != our_tree.get(path)}
    changed |= state.unwritten.keys() & tree.keys()
    # A repository may have other files, and a file may be of any size.
    scope = writer.workspace.scope
    changed = {path for path in changed if find_writable(scope, state.locate(path))}
    texts = writer.repository.read_blobs(
        [tree.get(path, "") for path in changed if tree.get(path, "") not in writer.result.new]
        + [our_tree.get(path, "") for path in changed],
        scope.max_file_bytes,
    )
    texts |= writer.result.new
    moved = {
        new: old
        for old, new in moves.items()
        if {old, new} <= changed and _is_movable(writer, old, new)
    }
    writes: list[NoteWrite] = []
    unwritten: dict[str, str] = {}
    for path in sorted(changed - {*moved.values()}):
        write = _plan_write(writer, moved.get(path, path), path, texts)
        if isinstance(write, NoteWrite):
            origin = origins.get(path) or origins.get(moved.get(path, path)) or name_origin("", "")
            writes.append(replace(write, origin=origin))
        elif write:
            unwritten[path] = tree[path]
    return writes, unwritten


def _is_movable(writer: _Writer, old: str, new: str) -> bool:
    """True if a note can be renamed, so that its history and accesses go with it."""
    known, scope = writer.snapshot.notes.get(old), writer.workspace.scope
    is_free = new not in writer.snapshot.notes and new not in writer.our_tree
    places = (find_writable(scope, writer.state.locate(path)) for path in (old, new))
    return known is not None and known.is_whole and is_free and all(places)


def _plan_write(
    writer: _Writer, old: str, path: str, texts: Mapping[str, bytes]
) -> NoteWrite | bool:
    """Return the write of one note; True if it cannot be written, False if nothing changes."""
    state, scope = writer.state, writer.workspace.scope
    full, blob = state.locate(old), writer.result.tree.get(path, "")
    note, known = find_writable(scope, full), writer.snapshot.notes.get(old)
    if note is None or find_writable(scope, state.locate(path)) is None:
        return False
    if known is not None and known.blob != writer.our_tree.get(old, ""):
        # It was saved after the commit that is merged.
        raise _make_busy(full)
    if blob and blob not in texts:
        return True
    data = texts[blob] if blob else None
    unread = {held.path: held.reason for held in writer.snapshot.unread}
    if full in unread:
        hint = "make the note a file again, or move it away; then: memsyncd share now"
        raise ShareFailed(f"{full} cannot be merged: {unread[full]}", hint=hint, kind="diverged")
    if known is not None and not known.is_whole:
        data = _merge_held(writer, note, known, texts.get(known.blob, b""), data)
    elif known is None and old in state.unwritten:
        file = read_text_file(scope, note)
        if file is not None and data is not None:
            data = _merge_here(full, b"", file.data, data)
        known = KnownNote(digest=file.digest, blob="") if file else None
    if data is not None and len(data) > scope.max_file_bytes:
        return True
    moved_to = state.locate(path) if path != old else ""
    before = known.digest if known else None
    if not moved_to and before == (None if data is None else digest_bytes(data)):
        return False
    return NoteWrite(path=full, before=before, data=data, moved_to=moved_to)


def _merge_held(
    writer: _Writer, note: NotePath, known: KnownNote, shared: bytes, theirs: bytes | None
) -> bytes | None:
    """Merge the other machines' text into a note of which a part stays back."""
    file = read_text_file(writer.workspace.scope, note)
    if file is None or file.digest != known.digest:
        raise _make_busy(note.text)
    data = _merge_here(note.text, shared, file.data, theirs or b"")
    return data if data.strip() or theirs is not None else None


def _merge_here(path: str, shared: bytes, ours: bytes, theirs: bytes) -> bytes:
    try:
        return merge_notes(path, shared, ours, theirs).data
    except EditRefused as refusal:
        raise ShareFailed(refusal.message, hint=refusal.hint, kind="diverged") from refusal


def _make_busy(path: str) -> ShareFailed:
    return ShareFailed(f"{path} is being changed; it is merged after that", kind="busy")


# --- writing ------------------------------------------------------------------------------------


def group_writes(writes: Sequence[NoteWrite]) -> list[list[NoteWrite]]:
    """Return the writes of each writer."""
    groups: dict[str, list[NoteWrite]] = {}
    for write in writes:
        groups.setdefault(write.origin, []).append(write)
    return [*groups.values()]


def make_share_decision(
    workspace: Workspace, writes: Sequence[NoteWrite]
) -> Callable[[], tuple[Edit, None]]:
    """Make the decision to write notes of one writer. It raises Conflict if a note is no longer as
    it was compared.
    """
    return partial(_decide, workspace, writes)


def _decide(workspace: Workspace, writes: Sequence[NoteWrite]) -> tuple[Edit, None]:
    operations: list[FileChange] = []
    for write in writes:
        path = NotePath(write.path)
        file = read_text_file(workspace.scope, path)
        if (file.digest if file else None) != write.before:
            raise Conflict(f"{write.path} was changed meanwhile", hint="try again in a moment")
        operations += _list_operations(path, write, file)
    edit = Edit(
        command=OWN_COMMAND,
        client=writes[0].origin,
        path=writes[0].path if len(writes) == 1 else ".",
        operations=tuple(operations),
    )
    return edit, None


def _list_operations(path: NotePath, write: NoteWrite, file: TextFile | None) -> list[FileChange]:
    if write.data is None:
        return [Delete(path=path, was={path: file})] if file else []
    if not (write.moved_to and file):
        return [Put(path=path, data=write.data, was=file)]
    changed: list[FileChange] = []
    if write.data != file.data:
        changed = [Put(path=path, data=write.data, was=file)]
        file = replace(file, data=write.data, digest=digest_bytes(write.data))
    return [*changed, Rename(old=path, new=NotePath(write.moved_to), was={path: file})]
