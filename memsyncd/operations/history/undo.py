"""Undo the recorded changes of notes.

An undo restores the bytes from before the revision. It raises Conflict unless the whole note, or
the named section, is as the revision left it. A change set of many notes is undone as a whole or
not at all. No undo deletes a note that existed when memsyncd first saw it; a note that memsyncd did
not make itself is deleted only with `confirm`. An undo is an edit, which can be undone itself. A
file that it creates again has its former mode and time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.sections import find_sections_bytes, replace_section, split_note_sections
from memsyncd.core.paths import NotePath
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import (
    Decide,
    Delete,
    Edit,
    EditOutcome,
    FileChange,
    Put,
    Rename,
    edit_workspace,
)
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import (
    BadRequest,
    ConfirmationNeeded,
    Conflict,
    EditRefused,
    NoteNotFound,
)
from memsyncd.files.listing import find_files, is_folder
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.files.scope import Scope
from memsyncd.operations.call import Call
from memsyncd.operations.history.declare import (
    PathState,
    RevisionInfo,
    Undone,
    UndoParams,
)
from memsyncd.operations.history.run import (
    MANY_REVISIONS,
    choose_change_set,
    choose_revision,
    cut_section,
    find_changes,
    find_undo_needs,
    make_not_found_error,
    make_revision_info,
)
from memsyncd.operations.revisions import (
    CONFIRM_HINT,
    UNDO,
    Target,
    open_history,
    parse_target,
    read_texts,
)
from memsyncd.store.history import EXTERNAL, Revision, RevisionFilter
from memsyncd.store.history import History as StoredHistory

MOST_OTHERS = 20


class UndoOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions that an undo took back, and the notes after the undo."""

    revisions: list[RevisionInfo]
    paths: list[PathState]
    others: list[str] = []


def undo_revisions(
    workspace: Workspace, config: Config, clock: Clock, target: Target, params: UndoParams
) -> Job[EditOutcome[UndoOutcome]]:
    """Undo a revision, a change set, or the target's latest change; or restore an earlier text.

    Raises NoteNotFound if there is no such change or its texts are not kept, EditRefused for a note
    that was first seen, ConfirmationNeeded, Conflict, and the errors of `edit_workspace`.
    """
    history = open_history(workspace, config, clock)
    if sum(each is not None for each in (params.change_set, params.revision, params.to)) > 1:
        hint = "leave out the others"
        raise BadRequest("name one of: a change set, a revision, `to`", hint=hint)
    if params.to is not None:
        decide = yield from _make_return_decision(
            workspace, config, history, target, params, params.to
        )
        return (yield from edit_workspace(workspace, config, clock, decide))
    if params.change_set is not None:
        chosen = yield from choose_change_set(
            workspace, history, target, params.change_set, limit=MANY_REVISIONS
        )
    else:
        latest = yield from choose_revision(workspace, history, target, params.revision)
        chosen = _widen(history, target, latest, is_named=params.revision is not None)
    _check_undo(chosen, is_confirmed=params.confirm)
    decide = _make_undo_decision(workspace.scope, history, target, chosen, params)
    return (yield from edit_workspace(workspace, config, clock, decide))


def _make_return_decision(
    workspace: Workspace,
    config: Config,
    history: StoredHistory,
    target: Target,
    params: UndoParams,
    number: int,
) -> Job[Decide[UndoOutcome]]:
    """Make the decision to write the text that the note or section had right after a change set.

    Raises BadRequest without a note, NoteNotFound if there is no such change set, or the text is
    not kept, EditRefused if there was none, and Conflict if its place in the note is not known.
    """
    if target.path is None or is_folder(workspace.scope, NotePath(target.path)):
        raise BadRequest(
            "undo: `to` restores one note or section", hint="name it: memsyncd undo NOTE --to N"
        )
    heading, path = target.heading, NotePath(target.path)
    most = config.history.max_revisions
    revision, text = yield from _find_text_after(workspace, history, target, number, most=most)
    wanted = text if heading is None else cut_section(text, revision.path, heading)
    if wanted is None:
        raise EditRefused(
            f"{target} was not there after change {number}, so there is no text to restore",
            hint=f"another change has it: memsyncd history {target.path}",
        )

    def decide() -> tuple[Edit, UndoOutcome]:
        file = None if is_folder(workspace.scope, path) else read_text_file(workspace.scope, path)
        data, now = wanted, file.data if file else None
        if heading is not None:
            place = cut_section(now, path.text, heading)
            if file is None or place is None:
                raise Conflict(
                    f"{target} is not in the note any more, so its place is not known",
                    hint=f"restore the whole note: memsyncd undo {path.text} --to {number}",
                )
            data = replace_section(path.text, file.data, f"{path.text}#{heading}", wanted)
        attributes = None if file else revision.new_attributes
        put = Put(path=path, data=data, was=file, attributes=attributes)
        operations = () if data == now else (put,)
        edit = Edit(command=UNDO, client=params.client or "", path=path.text, operations=operations)
        states = [PathState(path=path.text, digest=digest_bytes(data))]
        return edit, UndoOutcome(revisions=[], paths=states)

    return decide


def _find_text_after(
    workspace: Workspace, history: StoredHistory, target: Target, number: int, *, most: int
) -> Job[tuple[Revision, bytes | None]]:
    """Return the text that a note had right after a change set, and the revision that wrote it, or
    the first one after it. `most` revisions of each note are kept.
    """
    yield from choose_change_set(workspace, history, Target(), number, limit=1)
    in_set = RevisionFilter(change_set=number)
    for chosen in (in_set, RevisionFilter(before_change_set=number)):
        revisions = yield from find_changes(history, target, limit=1, chosen=chosen)
        if revisions:
            return revisions[0], read_texts(history, revisions[0])[1]
    later = yield from find_changes(history, target, limit=MANY_REVISIONS)
    if not later:
        raise make_not_found_error(workspace, f"change of {target}")
    n_kept = len(history.find_revisions(path=target.path, limit=most))
    if n_kept >= most:
        raise NoteNotFound(
            f"the text of {target} after change {number} is not kept any more",
            hint=f"list what is kept with: memsyncd history {target.path}",
        )
    first = later[-1]
    old = read_texts(history, first)[0]
    return replace(first, path=first.old_path or first.path), old


def _widen(
    history: StoredHistory, target: Target, latest: Revision, *, is_named: bool
) -> list[Revision]:
    """Return the revisions to undo: for a folder, all revisions of the latest change set in it."""
    if is_named or target.path is None or target.path in (latest.path, latest.old_path):
        return [latest]
    beneath = f"{target.path}/"
    revisions = history.find_revisions(change_set=latest.change_set, limit=MANY_REVISIONS)
    return [
        revision
        for revision in revisions
        if revision.path.startswith(beneath) or (revision.old_path or "").startswith(beneath)
    ]


def _check_undo(chosen: Sequence[Revision], *, is_confirmed: bool) -> None:
    """Raise EditRefused for a note that was first seen, and ConfirmationNeeded for changes of other
    programs to several notes: they are one change set because one scan saw them, and need not be
    one act.
    """
    for revision in chosen:
        if find_undo_needs(revision) == "never":
            raise EditRefused(
                f"{revision.path} was there when memsyncd first saw it, so there is no change to"
                " undo",
                hint="delete the file yourself, if it is to go",
            )
    if len(chosen) > 1 and chosen[0].command == EXTERNAL and not is_confirmed:
        raise ConfirmationNeeded(
            f"other programs made these {len(chosen)} changes, perhaps not together",
            hint=CONFIRM_HINT,
        )


def _check_deletions(
    revision: Revision, planned: Iterable[FileChange], *, is_confirmed: bool
) -> None:
    """Raise ConfirmationNeeded if the undo deletes a note that memsyncd did not make itself."""
    is_deleted = any(isinstance(change, Delete) and change.was for change in planned)
    if is_deleted and not is_confirmed and find_undo_needs(revision) == "confirm":
        made = "an undo brought it back" if revision.command == UNDO else "another program made it"
        raise ConfirmationNeeded(
            f"this undo deletes the file {revision.path}: {made}", hint=CONFIRM_HINT
        )


def _make_undo_decision(
    scope: Scope,
    history: StoredHistory,
    target: Target,
    chosen: Sequence[Revision],
    params: UndoParams,
) -> Decide[UndoOutcome]:
    texts = {revision.id: read_texts(history, revision) for revision in chosen}
    infos = [make_revision_info(revision) for revision in chosen]
    named = target.path or chosen[0].path
    others = _find_others(history, chosen)

    def decide() -> tuple[Edit, UndoOutcome]:
        operations: list[FileChange] = []
        files = PlannedFiles(scope)
        for revision in chosen:
            old, new = texts[revision.id]
            if target.heading is None:
                planned = list(_undo_note(files, revision, old))
                _check_deletions(revision, planned, is_confirmed=params.confirm)
            else:
                planned = list(_undo_section(files, revision, old, new, target.heading))
            files.plan(planned)
            operations += planned
        is_whole = len(operations) == len(chosen) > 1
        folder = _find_folder_move(scope, chosen) if is_whole else None
        all_operations = tuple(operations) if folder is None else (folder,)
        edit = Edit(command=UNDO, client=params.client or "", path=named, operations=all_operations)
        states = _list_states(operations) or [
            PathState(path=revision.old_path or revision.path, digest=revision.old_digest)
            for revision in chosen
        ]
        return edit, UndoOutcome(revisions=infos, paths=states, others=others)

    return decide


def _find_others(history: StoredHistory, chosen: Sequence[Revision]) -> list[str]:
    """Return notes that the same act has changed, and that are not undone with it. Changes of other
    programs that one scan saw are no act.
    """
    ids = {revision.id for revision in chosen}
    limit = len(chosen) + MOST_OTHERS
    every = (
        history.find_revisions(change_set=chosen[0].change_set, limit=limit)
        if chosen[0].command != EXTERNAL
        else ()
    )
    return [revision.path for revision in every if revision.id not in ids][:MOST_OTHERS]


class PlannedFiles:
    """The files as they will be after the planned operations, because a change set may change a
    note and rename it.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._planned: dict[NotePath, TextFile | None] = {}

    def read(self, path: NotePath) -> TextFile | None:
        """Read a file; return None for a folder or if nothing is there."""
        if path in self._planned:
            return self._planned[path]
        return None if is_folder(self.scope, path) else read_text_file(self.scope, path)

    def plan(self, operations: Iterable[FileChange]) -> None:
        for operation in operations:
            match operation:
                case Put() if operation.was is not None:
                    digest = digest_bytes(operation.data)
                    file = replace(operation.was, data=operation.data, digest=digest)
                    self._planned[operation.path] = file
                case Rename():
                    for path, file in operation.was.items():
                        new = operation.new_path(path)
                        self._planned |= {path: None, new: replace(file, path=new)}


def _undo_note(files: PlannedFiles, revision: Revision, old: bytes | None) -> Iterator[FileChange]:
    """Yield the operations that restore a note; none if it has its old text already."""
    path, scope = NotePath(revision.path), files.scope
    file = files.read(path)
    digest = file.digest if file else None
    if revision.old_path is not None:
        origin = NotePath(revision.old_path)
        at_origin = files.read(origin)
        if file is None and at_origin is not None and at_origin.digest == revision.old_digest:
            return
        if file is None or digest != revision.new_digest or at_origin is not None:
            raise _conflict(revision, digest)
        yield from _make_room(scope, origin, revision)
        yield Rename(old=path, new=origin, was={path: file})
        return
    if digest == revision.old_digest:
        return
    if digest != revision.new_digest:
        raise _conflict(revision, digest)
    if old is not None:
        yield from _make_room(scope, path, revision)
        yield Put(path=path, data=old, was=file, attributes=revision.old_attributes)
    elif file is not None:
        yield Delete(path=path, was={path: file})


def _make_room(scope: Scope, path: NotePath, revision: Revision) -> Iterator[FileChange]:
    """Delete an empty folder at the note's path, which may have been made for another note."""
    if is_folder(scope, path):
        if find_files(scope, path):
            raise _conflict(revision, None)
        yield Delete(path=path, was={})


def _undo_section(
    files: PlannedFiles, revision: Revision, old: bytes | None, new: bytes | None, heading: str
) -> Iterator[FileChange]:
    """Yield the operations that restore one section; other sections may have changed."""
    path = NotePath(revision.path)
    file = files.read(path)
    before = cut_section(old, revision.old_path or revision.path, heading)
    after = cut_section(new, revision.path, heading)
    now = cut_section(file.data if file else None, revision.path, heading)
    if now == before:
        return
    if file is None or now != after:
        raise _conflict(revision, file.digest if file else None)
    anchor = f"{revision.path}#{heading}"
    if (
        old is not None
        and file.data == new
        and _changed_only(revision.path, anchor, old, new, before)
    ):
        yield Put(path=path, data=old, was=file)
    elif now is not None:
        data = replace_section(path.text, file.data, anchor, before or b"")
        if before is not None and cut_section(data, path.text, heading) != before:
            # A fence or comment that the section leaves open would take in the sections after it.
            raise _conflict(revision, file.digest)
        yield Put(path=path, data=data, was=file)
    else:
        raise Conflict(
            f"the former position of {anchor} is not known any more",
            hint=f"undo the whole revision: memsyncd undo {revision.path}",
        )


def _changed_only(path: str, anchor: str, old: bytes, new: bytes, before: bytes | None) -> bool:
    """True if a revision changed this section alone, so that restoring it restores the whole
    note.
    """
    if before is None:
        added = [part.anchor for part in split_note_sections(path, new)][
            len(split_note_sections(path, old)) :
        ]
        return new.startswith(old) and all(
            f"{each}/".startswith(f"{anchor}/") or anchor.startswith(f"{each}/") for each in added
        )
    if anchor in find_sections_bytes(path, new):
        return replace_section(path, new, anchor, before) == old
    return replace_section(path, old, anchor, b"") == new


def _find_folder_move(scope: Scope, chosen: Sequence[Revision]) -> Rename | None:
    """Return one rename of a folder, if the revisions renamed all of its files; else None."""
    moves = {
        revision.path: revision.old_path for revision in chosen if revision.old_path is not None
    }
    if len(moves) < len(chosen):
        return None
    for old, new in _possible_folders(*next(iter(moves.items()))):
        if all(
            path.startswith(new) and moves[path] == old + path.removeprefix(new) for path in moves
        ):
            from_folder, to_folder = NotePath(new[:-1]), NotePath(old[:-1])
            if is_folder(scope, to_folder) or not _is_whole_folder(scope, from_folder, chosen):
                return None
            files = {path: read_text_file(scope, path) for path in find_files(scope, from_folder)}
            return Rename(
                old=from_folder,
                new=to_folder,
                was={path: file for path, file in files.items() if file is not None},
            )
    return None


def _possible_folders(new_path: str, old_path: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of an old and a new folder, each with a slash, whose rename alone turns one path
    into the other; the deepest first.
    """
    old, new = old_path.split("/"), new_path.split("/")
    for n_tail in range(1, min(len(old), len(new))):
        if old[-n_tail:] != new[-n_tail:]:
            return
        yield "/".join(old[:-n_tail]) + "/", "/".join(new[:-n_tail]) + "/"


def _is_whole_folder(scope: Scope, folder: NotePath, chosen: Sequence[Revision]) -> bool:
    return is_folder(scope, folder) and {path.text for path in find_files(scope, folder)} == {
        revision.path for revision in chosen
    }


def _list_states(operations: Iterable[FileChange]) -> list[PathState]:
    """Return the notes after the operations; a renamed note is listed by its new path only."""
    digests: dict[str, str | None] = {}
    for operation in operations:
        match operation:
            case Put():
                digests[operation.path.text] = digest_bytes(operation.data)
            case Delete():
                digests |= dict.fromkeys(path.text for path in operation.was)
            case Rename():
                for path, file in operation.was.items():
                    digests.pop(path.text, None)
                    digests[operation.new_path(path).text] = file.digest
    return [PathState(path=path, digest=digest) for path, digest in digests.items()]


def _conflict(revision: Revision, digest: str | None) -> Conflict:
    return Conflict(
        f"{revision.path} has changed since change {revision.change_set}",
        hint=(
            f"undo the later changes first, see: memsyncd history {revision.path}; or restore the"
            f" note as it was after change N: memsyncd undo {revision.path} --to N"
        ),
        wanted=revision.new_digest,
        digest=digest,
    )


async def undo_changes(call: Call, params: UndoParams) -> Undone:
    named = (params.revision, params.change_set, params.to, params.path, params.anchor)
    if all(selector is None for selector in named):
        raise BadRequest(
            "undo: nothing is selected", hint="name a path, an anchor, a change set or a revision"
        )
    target = parse_target(params, call.workspace.scope.memory_dir)
    params = replace(params, client=call.writer)
    outcome = await call.run_edit(partial(undo_revisions, target=target, params=params))
    return Undone(
        undone=outcome.answer.revisions,
        paths=outcome.answer.paths,
        others=outcome.answer.others,
        **call.describe_write(outcome),
    )
