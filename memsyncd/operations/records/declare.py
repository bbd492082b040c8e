"""Parameters, results and operations: save and restore a workspace's history."""

from __future__ import annotations

from memsyncd.operations.fields import (
    ClientName,
    Result,
    WorkspaceParams,
)
from memsyncd.operations.operation import (
    WRITES,
    Command,
    Extra,
    Operation,
    Shape,
)


class Backup(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    """A temporary file with the whole history. Move it, because the next backup deletes it."""
    revisions: int
    bytes: int


class RestoreParams(WorkspaceParams, frozen=True, kw_only=True):
    prepare: bool = False
    """Only return the place for the file, as `path`."""
    adopt: bool = False
    """Restore even the history of another workspace, which is refused otherwise."""
    client: ClientName | None = None


class Restored(Result, frozen=True, kw_only=True):
    workspace: str
    path: str
    """The place where the daemon expects the file to restore; a restore moves the file away."""
    revisions: int
    """How many revisions the file has; 0 if the restore was only prepared."""
    recorded: int
    """How many revisions were added because notes differ from their last text in the file."""
    dropped: int
    """How many revisions were dropped because of the limits of the configuration."""
    set_aside: str | None
    """The file with the former history, if it had revisions."""


# --- the operations ---------------------------------------------------------------------------

OPERATIONS = (
    Operation(
        name="records.backup",
        params=WorkspaceParams,
        result=Backup,
        summary="Copy a workspace's history into a temporary file.",
        shape=Shape.STEPS,
        run="records.run:back_up_history",
        errors=WRITES,
        reads=True,
        worktree="own",
        command=Command(
            words="backup",
            group="Maintain",
            summary="save the history of a workspace to a file",
            extra=(
                Extra(
                    name="file",
                    usage="FILE",
                    help="the file to write; - writes it to stdout",
                    is_argument=True,
                ),
                Extra(usage="--force", help="overwrite FILE if it exists"),
            ),
            action="save_backup",
            gone={"-f": "to overwrite the file: --force"},
            examples=(
                "memsyncd backup history.db",
                "memsyncd backup - -w notes | ssh host 'cat > notes.db'",
            ),
        ),
    ),
    Operation(
        name="records.restore",
        params=RestoreParams,
        result=Restored,
        summary="Replace a workspace's history by a backup; its notes stay.",
        shape=Shape.STEPS,
        run="records.run:restore_history",
        errors=WRITES,
        worktree="own",
        command=Command(
            words="restore",
            group="Maintain",
            summary="put a saved history back, here or on another machine",
            omit=("prepare", "client"),
            extra=(
                Extra(
                    name="file",
                    usage="FILE",
                    help=(
                        "a file written by `memsyncd backup`; - reads it from stdin. Notes stay"
                        " unchanged, and the present history is set aside, not deleted. Secrets"
                        " that were purged come back only if the file still has them"
                    ),
                    is_argument=True,
                ),
            ),
            help={"adopt": "restore even the history of another workspace"},
            action="restore_backup",
            examples=(
                "memsyncd restore history.db",
                "ssh host cat notes.db | memsyncd restore - -w notes",
            ),
            gone={"--replace": "leave it out: a restore sets the present history aside by itself"},
        ),
    ),
)
