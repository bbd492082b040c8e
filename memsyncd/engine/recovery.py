"""What became of a change that was begun and never settled, for the process or its disk came to an end?

The disk says it. What is left under memsyncd's own names is swept up, by the texts that the change was to write or to take away.
Where no history is kept, they were written down for this alone, and are forgotten as soon as it is settled. A text that came out
damaged is taken from the disk, too, if a note still says it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from memsyncd.core.notepath import NotePath
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import MemsyncdError, StoreFailed
from memsyncd.store.history import History, Revision
from memsyncd.workspace.scope import Scope
from memsyncd.workspace.writing import read_text_file, sweep_temporaries

UNKEPT = "unkept"
"""The command of an act of which no history is kept."""


def recover(workspace: Workspace) -> None:
    """Settle what a crash or a full disk left undecided. Raises the classes of `naming_failures`."""
    if workspace.records is None:
        return
    for act, revisions in workspace.records.history.find_intended():
        known = _read_known(workspace.records.history, revisions)
        for revision in revisions:
            sweep_temporaries(workspace.scope, NotePath(revision.path), known)
        if revisions[0].command == UNKEPT:
            workspace.records.history.forget_intended(act)
        else:
            settle(workspace.scope, workspace.records.history, act, revisions, _may_have_happened)


def mend_texts(workspace: Workspace) -> None:
    """Take what came out damaged from the notes that still say it, and with it what stands on that.

    What cannot be read or written now is left for the next time.
    """
    history = workspace.records.history if workspace.records is not None else None
    if history is None or not history.damaged:
        return
    with contextlib.suppress(StoreFailed):
        for path in sorted(history.find_menders()):
            with contextlib.suppress(MemsyncdError):
                if (file := read_text_file(workspace.scope, NotePath(path))) is not None:
                    history.mend(path, file.data)


def read_digest(scope: Scope, path: str) -> str | None:
    """The digest of what stands there now, None for nothing; of what cannot be read an empty one, which equals no other."""
    try:
        file = read_text_file(scope, NotePath(path))
    except MemsyncdError:
        return ""
    return file.digest if file else None


def _read_known(history: History, revisions: list[Revision]) -> list[bytes]:
    """What may be thrown away, wherever it was left, since it is kept here."""
    digests = {digest for one in revisions for digest in (one.old_digest, one.new_digest) if digest is not None}
    return [text for digest in sorted(digests) if (text := history.read_text(digest)) is not None]


def settle(
    scope: Scope, history: History, act: int, revisions: list[Revision], has_happened: Callable[[Scope, Revision], bool]
) -> None:
    history.settle(act, [revision.id for revision in revisions if has_happened(scope, revision)])


def _may_have_happened(scope: Scope, revision: Revision) -> bool:
    """After a crash: what was there before is not there any more. Then it must be in the history, whoever wrote since."""
    if revision.old_path is not None:
        return read_digest(scope, revision.old_path) is None
    return read_digest(scope, revision.path) != revision.old_digest


def has_happened(scope: Scope, revision: Revision) -> bool:
    """After a failure that was reported: what was to be there is."""
    is_moved = revision.old_path is None or read_digest(scope, revision.old_path) is None
    return is_moved and read_digest(scope, revision.path) == revision.new_digest
