"""Undoes recorded changes of notes.

An undo restores the bytes from before, or raises Conflict: the whole note, or the named section,
must be as the revision left it. A change set of many notes is undone whole or not at all. An undo
is itself an edit and can be undone in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from memsyncd.config import Config
from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.sections import find_section_bytes, replace_section, split_note_sections
from memsyncd.core.notepath import NotePath
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import (
    Decide,
    Delete,
    Edit,
    EditOutcome,
    Operation,
    Put,
    Rename,
    edit_workspace,
)
from memsyncd.engine.history import (
    MANY_REVISIONS,
    Target,
    choose_revision,
    cut_section,
    make_not_found_error,
    make_revision_info,
    open_history,
    read_texts,
)
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import Conflict
from memsyncd.files.listing import find_files, is_folder
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.files.scope import Scope
from memsyncd.protocol.memory import (
    PathState,
    RevisionInfo,
    UndoParams,
)
from memsyncd.store.history import History, Revision


class UndoOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions that an undo took back, and the notes after it."""

    revisions: list[RevisionInfo]
    paths: list[PathState]


def undo(
    workspace: Workspace, config: Config, clock: Clock, target: Target, params: UndoParams
) -> Job[EditOutcome[UndoOutcome]]:
    """Undo a revision, a whole change set, or the target's latest change.

    Raises NoteNotFound if there is none or its texts are not kept, Conflict, and what
    `edit_workspace` raises.
    """
    history = open_history(workspace, config, clock)
    if params.change_set is not None:
        chosen = history.find_revisions(change_set=params.change_set, limit=MANY_REVISIONS)
        if not chosen:
            raise make_not_found_error(workspace, f"change set {params.change_set}")
    else:
        latest = yield from choose_revision(workspace, history, target, params.revision)
        chosen = _widen(history, target, latest, is_named=params.revision is not None)
    decide = _make_undo_decision(workspace.scope, history, target, chosen, params.client or "")
    return (yield from edit_workspace(workspace, config, clock, decide))


def _widen(history: History, target: Target, latest: Revision, *, is_named: bool) -> list[Revision]:
    """For a folder, all revisions in it of the latest change set."""
    if is_named or target.path is None or target.path in (latest.path, latest.old_path):
        return [latest]
    beneath = f"{target.path}/"
    revisions = history.find_revisions(change_set=latest.change_set, limit=MANY_REVISIONS)
    return [
        one
        for one in revisions
        if one.path.startswith(beneath) or (one.old_path or "").startswith(beneath)
    ]


def _make_undo_decision(
    scope: Scope, history: History, target: Target, chosen: Sequence[Revision], client: str
) -> Decide[UndoOutcome]:
    texts = {revision.id: read_texts(history, revision) for revision in chosen}
    infos = [make_revision_info(revision) for revision in chosen]
    named = target.path or chosen[0].path

    def decide() -> tuple[Edit, UndoOutcome]:
        operations: list[Operation] = []
        files = PlannedFiles(scope)
        for revision in chosen:
            old, new = texts[revision.id]
            if target.heading is None:
                planned = list(_undo_note(files, revision, old))
            else:
                planned = list(_undo_section(files, revision, old, new, target.heading))
            files.plan(planned)
            operations += planned
        is_whole = len(operations) == len(chosen) > 1
        folder = _find_folder_move(scope, chosen) if is_whole else None
        all_operations = tuple(operations) if folder is None else (folder,)
        edit = Edit(command="undo", client=client, path=named, operations=all_operations)
        states = _list_states(operations) or _list_old_states(chosen)
        return edit, UndoOutcome(revisions=infos, paths=states)

    return decide


class PlannedFiles:
    """The files as they will be after the planned operations: a change set may change a note and
    rename it.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._planned: dict[NotePath, TextFile | None] = {}

    def read(self, path: NotePath) -> TextFile | None:
        """Read a file; None for a folder too."""
        if path in self._planned:
            return self._planned[path]
        return None if is_folder(self.scope, path) else read_text_file(self.scope, path)

    def plan(self, operations: Iterable[Operation]) -> None:
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


def _undo_note(files: PlannedFiles, revision: Revision, old: bytes | None) -> Iterator[Operation]:
    """The operations that restore a note; none if it has its old text already."""
    path, scope = NotePath(revision.path), files.scope
    file = files.read(path)
    digest = file.digest if file else None
    if revision.old_path is not None:
        origin = NotePath(revision.old_path)
        there = files.read(origin)
        if file is None and there is not None and there.digest == revision.old_digest:
            return
        if file is None or digest != revision.new_digest or there is not None:
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
        yield Put(path=path, data=old, was=file)
    elif file is not None:
        yield Delete(path=path, was={path: file})


def _make_room(scope: Scope, path: NotePath, revision: Revision) -> Iterator[Operation]:
    """Delete an empty folder at the note's path, such as one that was made for another note."""
    if is_folder(scope, path):
        if find_files(scope, path):
            raise _conflict(revision, None)
        yield Delete(path=path, was={})


def _undo_section(
    files: PlannedFiles, revision: Revision, old: bytes | None, new: bytes | None, heading: str
) -> Iterator[Operation]:
    """The operations that restore one section, whatever has changed in the others."""
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
            f"{one}/".startswith(f"{anchor}/") or anchor.startswith(f"{one}/") for one in added
        )
    if find_section_bytes(path, new, anchor) is not None:
        return replace_section(path, new, anchor, before) == old
    return replace_section(path, old, anchor, b"") == new


def _find_folder_move(scope: Scope, chosen: Sequence[Revision]) -> Rename | None:
    """One rename instead of many, if these are all files of a renamed folder."""
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
    """The old and new folders, with their slashes, whose rename alone turns one path into the
    other; the deepest first.
    """
    old, new = old_path.split("/"), new_path.split("/")
    for n_tail in range(1, min(len(old), len(new))):
        if old[-n_tail:] != new[-n_tail:]:
            return
        yield "/".join(old[:-n_tail]) + "/", "/".join(new[:-n_tail]) + "/"


def _is_whole_folder(scope: Scope, folder: NotePath, chosen: Sequence[Revision]) -> bool:
    return is_folder(scope, folder) and {path.text for path in find_files(scope, folder)} == {
        one.path for one in chosen
    }


def _list_states(operations: Iterable[Operation]) -> list[PathState]:
    """The notes after the operations; of a rename only the new path."""
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


def _list_old_states(chosen: Sequence[Revision]) -> list[PathState]:
    return [PathState(path=one.old_path or one.path, digest=one.old_digest) for one in chosen]


def _conflict(revision: Revision, digest: str | None) -> Conflict:
    return Conflict(
        f"{revision.path} has changed since revision {revision.id}",
        hint="undo the later changes first, or see: memsyncd diff",
        wanted=revision.new_digest,
        digest=digest,
    )
