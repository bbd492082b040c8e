"""List, show and purge the recorded changes of notes; `undo` undoes them.

Reads and changes of records.db are jobs of the worker. The history of a section consists of the
revisions of its note that change the section's own lines. A renamed note is followed under its old
names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import msgspec

from memsyncd.config import Config
from memsyncd.core.editing.sections import find_sections_bytes
from memsyncd.core.editing.unified_diff import render_diff
from memsyncd.core.paths import NotePath
from memsyncd.engine.browse import require_place
from memsyncd.engine.clock import Clock, parse_since, parse_until
from memsyncd.engine.records import FOREIGN_FAULT
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import (
    BadRequest,
    MemsyncdError,
    NoteNotFound,
)
from memsyncd.files.read import read_text_file
from memsyncd.files.scope import Scope
from memsyncd.operations.call import Call
from memsyncd.operations.history.declare import (
    Diff,
    DiffParams,
    History,
    HistoryParams,
    Purged,
    PurgeParams,
    RevisionInfo,
    SetAside,
    UndoNeeds,
)
from memsyncd.operations.revisions import (
    UNDO,
    Target,
    is_beginning,
    iter_revisions,
    names_changes,
    open_history,
    parse_target,
    purge_accesses,
    read_texts,
)
from memsyncd.store.backup import (
    remove_leftovers,
)
from memsyncd.store.history import (
    EVERY_REVISION,
    EXTERNAL,
    FIRST_SEEN,
    Revision,
    RevisionFilter,
)
from memsyncd.store.history import History as StoredHistory
from memsyncd.store.records import PurgeTarget, search_set_aside

FILES_PER_STEP = 16
MANY_REVISIONS = 100_000

# --- list ---------------------------------------------------------------------------------------


def list_revisions(
    workspace: Workspace,
    config: Config,
    clock: Clock,
    target: Target,
    params: HistoryParams,
) -> Job[list[RevisionInfo]]:
    """List the newest revisions of the target that pass the filters.

    Raises BadRequest if no history is kept, or a filter names no time, and NoteNotFound if there is
    neither a revision nor such a section, note or folder.
    """
    now_s = clock.wall_s()
    chosen = RevisionFilter(
        change_set=params.change_set,
        before=params.before,
        before_change_set=params.before_change_set,
        writer=params.writer,
        since_s=None if params.since is None else parse_since(params.since, now_s),
        until_s=None if params.until is None else parse_until(params.until, now_s),
    )
    history = open_history(workspace, config, clock)
    revisions = yield from find_changes(history, target, limit=params.limit, chosen=chosen)
    is_page = params.before is not None or params.before_change_set is not None
    if not revisions and params.change_set is not None and not is_page:
        raise make_not_found_error(workspace, name_change(params.change_set, target))
    if not revisions and not is_page and target.path is not None:
        require_place(workspace, target.path, target.heading)
    return [make_revision_info(revision) for revision in revisions]


def find_changes(
    history: StoredHistory,
    target: Target,
    *,
    limit: int,
    chosen: RevisionFilter = EVERY_REVISION,
) -> Job[list[Revision]]:
    """Return the newest revisions of the target that pass the filter."""
    revisions: list[Revision] = []
    for revision in iter_revisions(history, target, chosen):
        if target.heading is None or _changes_section(history, revision, target.heading):
            revisions.append(revision)
        if len(revisions) == limit:
            break
        yield
    return revisions


def make_revision_info(revision: Revision) -> RevisionInfo:
    return RevisionInfo(
        revision=revision.id,
        change_set=revision.change_set,
        at=revision.at_s,
        client=revision.client,
        command=revision.command,
        path=revision.path,
        old_path=revision.old_path,
        old_digest=revision.old_digest,
        new_digest=revision.new_digest,
        old_bytes=revision.old_bytes,
        new_bytes=revision.new_bytes,
        is_kept=revision.is_kept,
        undo=find_undo_needs(revision),
    )


def find_undo_needs(revision: Revision) -> UndoNeeds:
    """Return whether the undo of a whole revision needs a confirmation."""
    if revision.command == FIRST_SEEN:
        return "never"
    is_made_here = revision.command not in (EXTERNAL, UNDO)
    return "confirm" if is_beginning(revision) and not is_made_here else "nothing"


def choose_revision(
    workspace: Workspace, history: StoredHistory, target: Target, number: int | None
) -> Job[Revision]:
    """Return the revision with this number, or the latest revision of the target.

    Raises NoteNotFound, also for a revision of another note than the target's.
    """
    if number is None:
        revisions = yield from find_changes(history, target, limit=1)
    else:
        revisions = history.find_revisions(path=target.path, revision=number, limit=1)
    if revisions:
        return revisions[0]
    of_target = f" of {target}" if number is None or target.path is not None else ""
    what = f"{'change' if number is None else f'revision {number}'}{of_target}"
    failure = make_not_found_error(workspace, what)
    is_known = number is None and target.path is not None and history.find_heads([target.path])
    if is_known and FOREIGN_FAULT not in workspace.condition.faults:
        failure = NoteNotFound(
            f"{target} has not changed since memsyncd first saw it", hint=failure.hint
        )
    raise failure


def choose_change_set(
    workspace: Workspace, history: StoredHistory, target: Target, number: int, *, limit: int
) -> Job[list[Revision]]:
    """Return the revisions of a change set that concern the target, the latest first. Raises
    NoteNotFound if there is none.
    """
    chosen = RevisionFilter(change_set=number)
    revisions = yield from find_changes(history, target, limit=limit, chosen=chosen)
    if not revisions:
        raise make_not_found_error(workspace, name_change(number, target))
    return revisions


def name_change(number: int, target: Target) -> str:
    return f"change {number}{f' of {target}' if target.path is not None else ''}"


def make_not_found_error(workspace: Workspace, what: str) -> NoteNotFound:
    """Make the error for a missing revision or change set, with the reason if it is known."""
    if FOREIGN_FAULT in workspace.condition.faults:
        why = "records.db came from another workspace and was set aside"
        hint = "see the remedy in: memsyncd status"
        return NoteNotFound(f"there is no {what}: {why}", hint=hint)
    return NoteNotFound(f"there is no {what}", hint="list the changes: memsyncd history")


# --- texts --------------------------------------------------------------------------------------


def cut_section(data: bytes | None, path: str, heading: str) -> bytes | None:
    """Return a section's own lines; None if there is no such section, or no note."""
    if data is None:
        return None
    place = find_sections_bytes(path, data).get(f"{path}#{heading}")
    return data[place[0] : place[1]] if place else None


def _changes_section(history: StoredHistory, revision: Revision, heading: str) -> bool:
    try:
        old, new = read_texts(history, revision)
    except NoteNotFound:
        return False
    before = cut_section(old, revision.old_path or revision.path, heading)
    return before != cut_section(new, revision.path, heading)


# --- diff ---------------------------------------------------------------------------------------


MOST_DIFFS = 100


class ComparedTexts(msgspec.Struct, frozen=True, kw_only=True):
    """A revision, and the texts before and after it, None for no file.

    If a section is compared, the texts are its own lines. `new_digest` is the digest of the whole
    file.
    """

    revision: Revision
    old: bytes | None
    new: bytes | None
    new_digest: str | None


def read_compared(
    workspace: Workspace, config: Config, clock: Clock, target: Target, params: DiffParams
) -> Job[tuple[list[ComparedTexts], int]]:
    """Read the texts of the named revision or change set, or of the latest revision of the target.
    Return them with the number of further revisions.

    Raises NoteNotFound if there is no such revision, or its texts are not kept.
    """
    history = open_history(workspace, config, clock)
    if params.change_set is None:
        revision = yield from choose_revision(workspace, history, target, params.revision)
        return [_read_compared(workspace, history, target, params, revision)], 0
    if params.revision is not None:
        hint = "leave out the revision or the change set"
        raise BadRequest("a revision is a part of its change set", hint=hint)
    revisions = yield from choose_change_set(
        workspace, history, target, params.change_set, limit=MANY_REVISIONS
    )
    compared: list[ComparedTexts] = []
    for revision in revisions[:MOST_DIFFS]:
        compared.append(_read_compared(workspace, history, target, params, revision))
        yield
    return compared, len(revisions) - len(compared)


def _read_compared(
    workspace: Workspace,
    history: StoredHistory,
    target: Target,
    params: DiffParams,
    revision: Revision,
) -> ComparedTexts:
    old, new = read_texts(history, revision)
    new_digest = revision.new_digest
    if params.to_now:
        file = read_text_file(workspace.scope, NotePath(revision.path))
        new, new_digest = (file.data, file.digest) if file else (None, None)
    if target.heading is not None:
        old = cut_section(old, revision.old_path or revision.path, target.heading)
        new = cut_section(new, revision.path, target.heading)
    return ComparedTexts(revision=revision, old=old, new=new, new_digest=new_digest)


def render_change(workspace: Workspace, compared: Sequence[ComparedTexts], n_more: int) -> Diff:
    """Compare the texts. This may take long and needs no database, so it does not run on the
    worker.
    """
    revision = compared[0].revision
    return Diff(
        workspace=workspace.id,
        path=revision.path,
        revision=revision.id,
        old_digest=revision.old_digest,
        new_digest=compared[0].new_digest,
        diff="".join(
            render_diff(
                each.old,
                each.new,
                old_name=each.revision.old_path or each.revision.path,
                new_name=each.revision.path,
            )
            for each in compared
        ),
        n_more=n_more,
    )


# --- purge --------------------------------------------------------------------------------------


def purge(
    workspace: Workspace, config: Config, clock: Clock, target: Target, params: PurgeParams
) -> Job[Purged]:
    """Erase the revisions of the target, or the named revision. If `params.containing` is given,
    only revisions with this text are erased.
    """
    history = open_history(workspace, config, clock)
    n_counts, n_answers = yield from purge_accesses(
        workspace, config, path=target.path, slugs=target.heading, params=params
    )
    n_signals = _purge_signals(workspace, target, params)
    # A copy that a client has not fetched would keep the purged texts.
    remove_leftovers(workspace.records_path)
    searched = params.containing.encode() if params.containing is not None else None
    chosen: list[int] = []
    texts: set[str] = set()
    wanted = RevisionFilter(revision=params.revision, change_set=params.change_set)
    for revision in iter_revisions(history, target, wanted):
        if target.heading is None or _changes_section(history, revision, target.heading):
            matching = _find_texts(history, revision, searched)
            chosen += [revision.id] if matching or searched is None else []
            texts |= matching
        yield
    done = history.purge(revisions=chosen, texts=texts if searched is not None else None)
    if workspace.index is not None:
        workspace.index.purge()
    still_in = yield from _find_notes(workspace.scope, history, searched)
    set_aside = yield from _search_set_aside(workspace, target, params, done.digests)
    return Purged(
        workspace=workspace.id,
        revisions=done.n_revisions,
        texts=done.n_texts,
        access_counts=n_counts,
        signals=n_signals,
        answers=n_answers,
        is_clean=done.is_clean and not (still_in or set_aside),
        is_read=not done.is_clean,
        still_in=still_in,
        set_aside=set_aside,
    )


def _search_set_aside(
    workspace: Workspace, target: Target, params: PurgeParams, digests: Collection[str]
) -> Job[list[SetAside]]:
    """Return the files beside records.db that have a purged text, or cannot be searched."""
    files: list[SetAside] = []
    if workspace.records is None:
        return files
    searched = PurgeTarget(
        text=params.containing,
        path=target.path,
        digests=digests if names_changes(params) else None,
    )
    for path in workspace.records.find_set_aside():
        has_text = yield from search_set_aside(path, searched)
        if has_text is not False:
            files.append(SetAside(path=str(path), is_searched=has_text is not None))
    return files


def _purge_signals(workspace: Workspace, target: Target, params: PurgeParams) -> int:
    """Erase the signals with the text, or all signals if the whole history is erased. Return their
    number.
    """
    is_whole = target.path is None and not names_changes(params)
    if workspace.records is None or not is_whole:
        return 0
    return workspace.records.signals.purge(params.containing)


def _find_texts(history: StoredHistory, revision: Revision, searched: bytes | None) -> set[str]:
    """Return the digests of a revision's texts that contain the searched text."""
    if searched is None:
        return set()
    digests = [*filter(None, (revision.old_digest, revision.new_digest))]
    texts = {digest: history.read_text(digest) for digest in digests}
    return {digest for digest, text in texts.items() if text is not None and searched in text}


def _find_notes(scope: Scope, history: StoredHistory, searched: bytes | None) -> Job[list[str]]:
    """Return the notes whose current text contains the searched text."""
    paths: list[str] = []
    for at, path in enumerate(sorted(history.heads()) if searched is not None else ()):
        if searched is not None and _contains(scope, path, searched):
            paths.append(path)
        if at % FILES_PER_STEP == 0:
            yield
    return paths


def _contains(scope: Scope, path: str, searched: bytes) -> bool:
    try:
        file = read_text_file(scope, NotePath(path))
    except MemsyncdError:
        return False
    return file is not None and searched in file.data


# --- the operations -----------------------------------------------------------------------------


async def list_changes(call: Call, params: HistoryParams) -> History:
    target = parse_target(params, call.workspace.scope.memory_dir)
    job = partial(list_revisions, target=target, params=params)
    return History(workspace=call.workspace.id, revisions=await call.run_job(job))


async def show_change(call: Call, params: DiffParams) -> Diff:
    target = parse_target(params, call.workspace.scope.memory_dir)
    compared, n_more = await call.run_job(partial(read_compared, target=target, params=params))
    return await call.read(partial(render_change, call.workspace, compared, n_more))


async def purge_changes(call: Call, params: PurgeParams) -> Purged:
    named = (params.all, params.anchor, params.path, names_changes(params), params.containing)
    if not any(named):
        raise BadRequest(
            "purge: nothing is selected",
            hint="name a path, an anchor, a change set, a revision, a text (containing), or all",
        )
    if params.all and any(named[1:]):
        hint = "leave `all` out, or the rest"
        raise BadRequest("purge: `all` is every revision, whatever else is named", hint=hint)
    target = parse_target(params, call.workspace.scope.memory_dir)
    purged = await call.run_job(partial(purge, target=target, params=params))
    call.tidy_later()
    return purged
