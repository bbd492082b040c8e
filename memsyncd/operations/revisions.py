"""Name a note, folder or section whose history is meant, and read its revisions and their texts.

All functions but `parse_target` are for jobs of the worker, which owns records.db.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from memsyncd.config import Config
from memsyncd.core.editing.memory_tool import MEMORIES, parse_memory_path
from memsyncd.core.markdown.sections import make_slug
from memsyncd.core.paths import MEMORY_FOLDER, NotePath, parse_note_path
from memsyncd.engine.accesses import follow_notes, store_noted
from memsyncd.engine.answers import store_answers
from memsyncd.engine.clock import Clock
from memsyncd.engine.edit import find_history
from memsyncd.engine.records import open_records
from memsyncd.engine.recovery import recover
from memsyncd.engine.worker import Job
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, NoteNotFound
from memsyncd.files.read import TextFile
from memsyncd.operations.history.declare import DiffParams, HistoryParams, PurgeParams, UndoParams
from memsyncd.operations.share.rules import OWN_COMMAND
from memsyncd.operations.stats.declare import AccessStatsParams
from memsyncd.store.history import (
    EVERY_REVISION,
    EXTERNAL,
    FIRST_SEEN,
    History,
    Revision,
    RevisionFilter,
)

CONFIRM_HINT = "if it is meant, add confirm: true"
UNDO = "undo"
"""The command that the history records for an undo."""
_FOREIGN = (EXTERNAL, FIRST_SEEN, OWN_COMMAND)
PAGE = 50
"""Revisions that are read at once."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The note or folder whose history is meant, or one section of a note (`heading`: the anchor
    after the `#`); without a path the whole workspace.
    """

    path: str | None = None
    heading: str | None = None

    def __str__(self) -> str:
        if self.path is None:
            return "this workspace"
        return self.path if self.heading is None else f"{self.path}#{self.heading}"


def parse_target(
    params: HistoryParams | DiffParams | UndoParams | PurgeParams | AccessStatsParams,
    folder: str = MEMORY_FOLDER,
) -> Target:
    """Parse the anchor or path of a request, as a path of the workspace or of the memory tool.

    `folder` is the memory folder's path, empty for the root.
    Raises BadRequest and PathRefused.
    """
    anchor, path = params.anchor, params.path
    if anchor is not None and path is not None:
        raise BadRequest(
            "name either an anchor or a path", hint='for example {"anchor": "MEMORY.md#setup"}'
        )
    named, mark, heading = anchor.rpartition("#") if anchor is not None else (path, "", "")
    if anchor is not None and not mark:
        hint = "an anchor is a note's path, `#` and a heading: MEMORY.md#setup"
        raise BadRequest(f"{anchor} is no anchor", hint=hint)
    if named is None or named in ("", "."):
        return Target()
    named = named.rstrip("/")
    is_memory_path = named.startswith(MEMORIES)
    note = parse_memory_path(named, folder).note if is_memory_path else parse_note_path(named)
    return Target(
        path=note.text if note else folder or None,
        heading=heading if anchor is not None else None,
    )


def names_changes(params: PurgeParams) -> bool:
    """True if a purge names a revision or a change set, not all that a note has had."""
    return params.revision is not None or params.change_set is not None


def is_beginning(revision: Revision) -> bool:
    """True if the note did not exist before this revision."""
    is_creation = revision.old_digest is None and revision.old_path is None
    return is_creation and revision.command != FIRST_SEEN


def open_history(workspace: Workspace, config: Config, clock: Clock) -> History:
    """Open the history and settle it. Raises BadRequest if none is kept, StoreFailed if it cannot
    be opened.
    """
    open_records(workspace, clock)
    history = find_history(workspace, config)
    if history is None:
        raise BadRequest(
            "no history is kept", hint="set history.enabled = true in the configuration"
        )
    recover(workspace, clock)
    return history


def iter_revisions(
    history: History,
    target: Target,
    chosen: RevisionFilter = EVERY_REVISION,
) -> Iterator[Revision]:
    """Yield the revisions of a target that pass the filter, newest first; a page is read at a
    time.
    """
    while True:
        page = history.find_revisions(
            path=target.path, limit=PAGE, **msgspec.structs.asdict(chosen)
        )
        yield from page
        if len(page) < PAGE:
            return
        chosen = msgspec.structs.replace(chosen, before=page[-1].id)


def is_own_text(history: History, path: str, digest: str) -> bool:
    """True if memsyncd alone wrote the note with this digest: its revisions lead without a gap,
    also through renames and undos, to the revision that made it, and no other program or machine
    wrote one.
    """
    wanted: str | None = digest
    for revision in iter_revisions(history, Target(path=path)):
        if revision.new_digest != wanted or revision.command in _FOREIGN:
            return False
        # An undo brings back a text that an earlier revision wrote.
        if is_beginning(revision) and revision.command != UNDO:
            return True
        wanted = revision.old_digest
    return False


def list_foreign_texts(
    workspace: Workspace, config: Config, files: Iterable[tuple[NotePath, TextFile]]
) -> list[str]:
    """Return the paths of the files that have text which memsyncd did not write. Without a history,
    this is unknown, and every file counts. For the worker.
    """
    history = find_history(workspace, config)
    return [
        path.text
        for path, file in files
        if history is None or not is_own_text(history, path.text, file.digest)
    ]


def read_texts(history: History, revision: Revision) -> tuple[bytes | None, bytes | None]:
    """Return the texts before and after. Raises NoteNotFound if one is no longer kept."""
    old_digest, new_digest = revision.old_digest, revision.new_digest
    old = history.read_text(old_digest) if old_digest is not None else None
    new = history.read_text(new_digest) if new_digest is not None else None
    if (old is None and old_digest is not None) or (new is None and new_digest is not None):
        raise NoteNotFound(
            f"the texts of revision {revision.id} are not kept any more",
            hint="list what is kept with: memsyncd history",
        )
    return old, new


def purge_accesses(
    workspace: Workspace,
    config: Config,
    *,
    path: str | None,
    slugs: str | None,
    params: PurgeParams,
) -> Job[tuple[int, int]]:
    """Erase the counts of sections whose history is purged, and their names in answers to agents;
    return the numbers of sections and of answers.

    Purging a revision or a change set erases none: the section is still there.
    """
    records = workspace.records
    if records is None:
        return 0, 0
    store_answers(workspace, config.agents)
    store_noted(workspace, config)
    yield from follow_notes(workspace)
    if names_changes(params):
        return 0, 0
    words = () if params.containing is None else (params.containing, make_slug(params.containing))
    n = records.accesses.purge(path=path, slugs=slugs, words=words)
    workspace.accesses.forget_counts()
    n_answers = records.answers.purge(path=path, slugs=slugs, words=words)
    return n, n_answers
