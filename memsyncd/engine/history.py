"""What was changed, by whom, and what did it say before?

Jobs for the lane, which owns records.db. A section's history are those revisions of its note in
which its own lines differ; a note that was renamed is followed under its old names. What is to be
forgotten for good is chosen here and taken out by the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memsyncd.core.editing.memory_path import MEMORIES, parse_memory_path
from memsyncd.core.editing.sections import find_section_bytes
from memsyncd.core.notepath import NotePath, parse_note_path
from memsyncd.engine.edit import find_history
from memsyncd.engine.opening import FOREIGN_FAULT, open_records
from memsyncd.engine.policies import Clock, SyncPolicy
from memsyncd.engine.rebuild import check_open
from memsyncd.engine.recovery import recover
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, MemsyncdError, NoteNotFound
from memsyncd.files.read import read_text_file
from memsyncd.files.scope import Scope
from memsyncd.store.backup import remove_leftovers
from memsyncd.store.history import History, Revision

PAGE = 50
STEP_FILES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose history: a note's or folder's, that of one section of a note (`heading`, what follows
    the `#`), or everything's.
    """

    path: str | None = None
    heading: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One revision with its texts, None for no file; of a section these are its own lines alone.
    `new_digest` is the file's.
    """

    revision: Revision
    old: bytes | None
    new: bytes | None
    new_digest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What a purge took out; `still_in` are notes that say today what was to be forgotten.

    `is_clean` is False while another program that reads the file keeps traces in it: they go as
    soon as it lets them. `set_aside` names files that were damaged once and are not looked into;
    they may hold it, too.
    """

    n_revisions: int
    n_texts: int
    is_clean: bool
    still_in: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()


def parse_subject(*, anchor: str | None, path: str | None) -> Subject:
    """Read what was named, as the workspace's paths or the memory tool's. Raises BadRequest and
    PathRefused.
    """
    if anchor is not None and path is not None:
        raise BadRequest(
            "name either an anchor or a path", hint='for example {"anchor": "MEMORY.md#setup"}'
        )
    named, mark, heading = anchor.rpartition("#") if anchor is not None else (path, "", "")
    if anchor is not None and not mark:
        raise BadRequest(
            f"{anchor} is no anchor",
            hint="an anchor is a note's path, `#` and a heading: MEMORY.md#setup",
        )
    if named is None or named in ("", "."):
        return Subject()
    named = named.rstrip("/")
    found = parse_memory_path(named).note if named.startswith(MEMORIES) else parse_note_path(named)
    return Subject(
        path=found.text if found else ".memories", heading=heading if anchor is not None else None
    )


def list_revisions(
    workspace: Workspace,
    policy: SyncPolicy,
    clock: Clock,
    subject: Subject,
    *,
    limit: int,
    before: int | None = None,
) -> Job[list[Revision]]:
    """The newest `limit` revisions, of those older than `before`. Raises BadRequest if no history
    is kept.
    """
    history = open_history(workspace, policy, clock)
    found: list[Revision] = []
    for revision in iter_revisions(history, subject, before=before):
        if subject.heading is None or _touches(history, revision, subject.heading):
            found.append(revision)
        if len(found) == limit:
            break
        yield
    return found


def read_change(
    workspace: Workspace,
    policy: SyncPolicy,
    clock: Clock,
    subject: Subject,
    *,
    revision: int | None,
    is_to_now: bool,
) -> Job[Change]:
    """A revision's texts: the named one, or the latest of the subject. Raises NoteNotFound if there
    is none or it is not kept.
    """
    history = open_history(workspace, policy, clock)
    found = yield from choose_revision(workspace, policy, clock, subject, revision)
    old, new = read_texts(history, found)
    new_digest = found.new_digest
    if is_to_now:
        file = read_text_file(workspace.scope, NotePath(found.path))
        new, new_digest = (file.data, file.digest) if file else (None, None)
    if subject.heading is not None:
        old, new = (
            find_section(old, found.old_path or found.path, subject.heading),
            find_section(new, found.path, subject.heading),
        )
    return Change(revision=found, old=old, new=new, new_digest=new_digest)


def choose_revision(
    workspace: Workspace, policy: SyncPolicy, clock: Clock, subject: Subject, number: int | None
) -> Job[Revision]:
    """The revision of this number, or the subject's latest. Raises NoteNotFound."""
    if number is None:
        latest = yield from list_revisions(workspace, policy, clock, subject, limit=1)
    else:
        latest = open_history(workspace, policy, clock).find_revisions(revision=number, limit=1)
    if latest:
        return latest[0]
    what = f"revision {number}" if number is not None else f"revision of {_name(subject)}"
    raise explain_not_found(workspace, what)


def explain_not_found(workspace: Workspace, what: str) -> NoteNotFound:
    """That there is no such revision or act, and why, where that is known."""
    if FOREIGN_FAULT in workspace.condition.faults:
        why = "records.db came from another workspace and was set aside"
        return NoteNotFound(
            f"there is no {what}: {why}", hint="see what can be done about it: memsyncd status"
        )
    return NoteNotFound(f"there is no {what}", hint="list what there is with: memsyncd history")


def purge(
    workspace: Workspace,
    policy: SyncPolicy,
    clock: Clock,
    subject: Subject,
    *,
    revision: int | None,
    containing: str | None,
) -> Job[Forgotten]:
    """Forget revisions for good: those of the subject, or this one, of these only those whose text
    held `containing`.
    """
    history = open_history(workspace, policy, clock)
    searched = containing.encode() if containing is not None else None
    chosen: list[int] = []
    texts: set[str] = set()
    for found in iter_revisions(history, subject, revision=revision):
        if subject.heading is None or _touches(history, found, subject.heading):
            held = _find_held(history, found, searched)
            chosen += [found.id] if held or searched is None else []
            texts |= held
        yield
    # A copy that a client has not fetched would keep what is purged.
    remove_leftovers(workspace.records_path)
    done = history.purge(revisions=chosen, texts=texts if searched is not None else None)
    still_in: list[str] = []
    for at, path in enumerate(sorted(history.heads()) if searched is not None else ()):
        if searched is not None and _says(workspace.scope, path, searched):
            still_in.append(path)
        if at % STEP_FILES == 0:
            yield
    return Forgotten(
        n_revisions=done.n_revisions,
        n_texts=done.n_texts,
        is_clean=done.is_clean,
        still_in=tuple(still_in),
        set_aside=tuple(workspace.records.find_set_aside())
        if workspace.records is not None
        else (),
    )


def open_history(workspace: Workspace, policy: SyncPolicy, clock: Clock) -> History:
    """The open history, settled. Raises BadRequest if none is kept, StoreFailed if it cannot be
    opened.
    """
    check_open(workspace)
    open_records(workspace, clock)
    history = find_history(workspace, policy)
    if history is None:
        raise BadRequest(
            "no history is kept", hint="set history.enabled = true in the configuration"
        )
    recover(workspace, clock)
    return history


def iter_revisions(
    history: History, subject: Subject, *, before: int | None = None, revision: int | None = None
) -> Iterator[Revision]:
    """Newest first, a page at a time."""
    while True:
        page = history.find_revisions(
            path=subject.path, revision=revision, before=before, limit=PAGE
        )
        yield from page
        if len(page) < PAGE:
            return
        before = page[-1].id


def read_texts(history: History, revision: Revision) -> tuple[bytes | None, bytes | None]:
    """What stood before and after. Raises NoteNotFound if a text is not kept any more."""
    old = history.read_text(revision.old_digest) if revision.old_digest is not None else None
    new = history.read_text(revision.new_digest) if revision.new_digest is not None else None
    if (old is None and revision.old_digest is not None) or (
        new is None and revision.new_digest is not None
    ):
        raise NoteNotFound(
            f"the texts of revision {revision.id} are not kept any more",
            hint="list what is kept with: memsyncd history",
        )
    return old, new


def find_section(data: bytes | None, path: str, heading: str) -> bytes | None:
    """A section's own lines; None if there is no such section, or no note."""
    if data is None:
        return None
    place = find_section_bytes(path, data, f"{path}#{heading}")
    return data[place[0] : place[1]] if place else None


def _touches(history: History, revision: Revision, heading: str) -> bool:
    try:
        old, new = read_texts(history, revision)
    except NoteNotFound:
        return False
    return find_section(old, revision.old_path or revision.path, heading) != find_section(
        new, revision.path, heading
    )


def _find_held(history: History, revision: Revision, searched: bytes | None) -> set[str]:
    """Which of a revision's two texts, by digest, hold what is searched."""
    if searched is None:
        return set()
    texts = {
        digest: history.read_text(digest)
        for digest in (revision.old_digest, revision.new_digest)
        if digest is not None
    }
    return {digest for digest, text in texts.items() if text is not None and searched in text}


def _says(scope: Scope, path: str, searched: bytes) -> bool:
    try:
        file = read_text_file(scope, NotePath(path))
    except MemsyncdError:
        return False
    return file is not None and searched in file.data


def _name(subject: Subject) -> str:
    if subject.path is None:
        return "this workspace"
    return subject.path if subject.heading is None else f"{subject.path}#{subject.heading}"
