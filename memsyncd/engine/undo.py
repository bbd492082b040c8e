"""How is a change taken back? The bytes that stood before come back, or it is a conflict; nothing
is guessed.

What is undone must stand as the revision left it: the whole note, or the one section that is asked
for. An act of many notes is taken back whole or not at all. An undo is itself an act, and can be
undone in its turn; so is clearing a workspace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.sections import find_section_bytes, replace_section, split_note_sections
from memsyncd.core.notepath import NotePath
from memsyncd.engine.edit import Act, Decide, Delete, Edited, Operation, Put, Rename, edit_workspace
from memsyncd.engine.history import (
    Subject,
    choose_revision,
    explain_not_found,
    find_section,
    open_history,
    read_texts,
)
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import Conflict
from memsyncd.files.listing import find_files, is_folder
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.files.scope import Scope
from memsyncd.store.history import History, Revision

MANY_REVISIONS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """Which revisions were taken back, and each note's digest now, None for one that is not
    there.
    """

    revisions: tuple[Revision, ...]
    digests: tuple[tuple[str, str | None], ...]


def undo(
    workspace: Workspace,
    policy: SyncPolicy,
    clock: Clock,
    subject: Subject,
    *,
    revision: int | None,
    act: int | None,
    client: str,
) -> Job[Edited[Undone]]:
    """Take back a revision, a whole act, or the subject's latest change.

    Raises NoteNotFound if there is none or its texts are gone, Conflict, and as `edit_workspace`.
    """
    history = open_history(workspace, policy, clock)
    if act is not None:
        chosen = history.find_revisions(act=act, limit=MANY_REVISIONS)
        if not chosen:
            raise explain_not_found(workspace, f"act {act}")
    else:
        latest = yield from choose_revision(workspace, policy, clock, subject, revision)
        chosen = _widen(history, subject, latest, is_named=revision is not None)
    decide = _find_decision(workspace.scope, history, subject, chosen, client)
    return (yield from edit_workspace(workspace, policy, clock, decide))


def clear(workspace: Workspace, *, client: str) -> Decide[int]:
    """Decide to take every note of memory away; the answer is how many. Other files and included
    notes stay.
    """

    def decide() -> tuple[Act, int]:
        scope = workspace.scope
        paths = [path for path in find_files(scope, None) if scope.is_note(path.text)]
        files = [
            (path, file) for path in paths if (file := read_text_file(scope, path)) is not None
        ]
        operations = tuple(Delete(path=path, was={path: file}) for path, file in files)
        return Act(command="clear", client=client, path=".", operations=operations), len(operations)

    return decide


def _widen(
    history: History, subject: Subject, latest: Revision, *, is_named: bool
) -> list[Revision]:
    """Whoever names a folder means all that was done to it at once."""
    if is_named or subject.path is None or subject.path in (latest.path, latest.old_path):
        return [latest]
    beneath = f"{subject.path}/"
    revisions = history.find_revisions(act=latest.act, limit=MANY_REVISIONS)
    return [
        one
        for one in revisions
        if one.path.startswith(beneath) or (one.old_path or "").startswith(beneath)
    ]


def _find_decision(
    scope: Scope, history: History, subject: Subject, chosen: Sequence[Revision], client: str
) -> Decide[Undone]:
    texts = {revision.id: read_texts(history, revision) for revision in chosen}
    named = subject.path or chosen[0].path

    def decide() -> tuple[Act, Undone]:
        operations: list[Operation] = []
        for revision in chosen:
            old, new = texts[revision.id]
            if subject.heading is None:
                operations += _undo_note(scope, revision, old)
            else:
                operations += _undo_section(scope, revision, old, new, subject.heading)
        folder = _find_folder_move(scope, chosen) if len(operations) == len(chosen) > 1 else None
        act = Act(
            command="undo",
            client=client,
            path=named,
            operations=tuple(operations) if folder is None else (folder,),
        )
        digests = tuple(state for operation in operations for state in _find_states(operation))
        return act, Undone(revisions=tuple(chosen), digests=digests or _find_old_states(chosen))

    return decide


def _undo_note(scope: Scope, revision: Revision, old: bytes | None) -> Iterator[Operation]:
    """What gives a note back as it was; nothing if it is already so."""
    path = NotePath(revision.path)
    file = _read_file(scope, path)
    digest = file.digest if file else None
    if revision.old_path is not None:
        origin = NotePath(revision.old_path)
        there = _read_file(scope, origin)
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


def _read_file(scope: Scope, path: NotePath) -> TextFile | None:
    """None also where a folder is."""
    return None if is_folder(scope, path) else read_text_file(scope, path)


def _make_room(scope: Scope, path: NotePath, revision: Revision) -> Iterator[Operation]:
    """A folder that holds nothing any more, such as one that was made for a note, gives way to the
    note that stood there.
    """
    if is_folder(scope, path):
        if find_files(scope, path):
            raise _conflict(revision, None)
        yield Delete(path=path, was={})


def _undo_section(
    scope: Scope, revision: Revision, old: bytes | None, new: bytes | None, heading: str
) -> Iterator[Operation]:
    """What gives one section back as it was, whatever has become of the others."""
    path = NotePath(revision.path)
    file = _read_file(scope, path)
    before = find_section(old, revision.old_path or revision.path, heading)
    after = find_section(new, revision.path, heading)
    now = find_section(file.data if file else None, revision.path, heading)
    if now == before:
        return
    if file is None or now != after:
        raise _conflict(revision, file.digest if file else None)
    anchor = f"{revision.path}#{heading}"
    if old is not None and file.data == new and _is_all(revision.path, anchor, old, new, before):
        yield Put(path=path, data=old, was=file)
    elif now is not None:
        data = replace_section(path.text, file.data, anchor, before or b"")
        if before is not None and find_section(data, path.text, heading) != before:
            # A fence or comment that it leaves open would swallow what has come after it since.
            raise _conflict(revision, file.digest)
        yield Put(path=path, data=data, was=file)
    else:
        raise Conflict(
            f"where {anchor} stood cannot be told any more",
            hint=f"take back the whole revision: memsyncd undo {revision.path}",
        )


def _is_all(path: str, anchor: str, old: bytes, new: bytes, before: bytes | None) -> bool:
    """True if a revision changed this section alone, so that giving it back gives back the whole
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
    """One rename instead of many, if these are all files of a folder that was renamed."""
    moves = {
        revision.path: revision.old_path for revision in chosen if revision.old_path is not None
    }
    if len(moves) < len(chosen):
        return None
    for old, new in _find_folders(*next(iter(moves.items()))):
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


def _find_folders(new_path: str, old_path: str) -> Iterator[tuple[str, str]]:
    """The folders, old and new and each with its slash, by whose renaming alone one path becomes
    the other; the deepest first.
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


def _find_states(operation: Operation) -> Iterator[tuple[str, str | None]]:
    match operation:
        case Put():
            yield operation.path.text, digest_bytes(operation.data)
        case Delete():
            yield from ((path.text, None) for path in operation.was)
        case Rename():
            yield from (
                (operation.find_new(path).text, file.digest) for path, file in operation.was.items()
            )


def _find_old_states(chosen: Sequence[Revision]) -> tuple[tuple[str, str | None], ...]:
    return tuple((one.old_path or one.path, one.old_digest) for one in chosen)


def _conflict(revision: Revision, digest: str | None) -> Conflict:
    return Conflict(
        f"{revision.path} has changed since revision {revision.id}",
        hint="take back what came after it first, or see: memsyncd diff",
        wanted=revision.new_digest,
        digest=digest,
    )
