"""Is a workspace's disk away, so that an empty folder stands where its notes are?

The index knows on which disk each note lies. One that is made anew knows nothing, so the records, which outlive it, are told.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from memsyncd.core.changes.diff import Recorded, Snapshot, is_disk_away
from memsyncd.engine.workspaces import Workspace
from memsyncd.errors import StoreFailed
from memsyncd.files.scope import find_identity, has_memory


def is_away(workspace: Workspace, recorded: Mapping[str, Recorded], snapshot: Snapshot) -> bool:
    """As `is_disk_away`, of what the index has recorded."""
    devices = {record.stat.device for record in recorded.values()}
    if not devices and snapshot.only is None and workspace.records is not None and workspace.records.disk is not None:
        devices = {workspace.records.disk}
    return is_disk_away(devices, snapshot) and not has_memory(workspace.scope.root)


def is_root_away(workspace: Workspace) -> bool:
    """True if the folder is not there, or an empty one of another disk stands where the notes are. Reads no index."""
    identity = find_identity(workspace.scope.root)
    if identity is None or workspace.condition.root_state == "missing":
        return True
    disk = workspace.records.disk if workspace.records is not None else None
    return disk not in (None, identity[0]) and not has_memory(workspace.scope.root)


def remember_disk(workspace: Workspace, snapshot: Snapshot) -> None:
    """Tell the records after a full look. That they cannot be told now stops nothing: the next look tries again."""
    if workspace.records is not None and snapshot.root_state == "present" and snapshot.root_identity is not None:
        with contextlib.suppress(StoreFailed):
            device, inode = snapshot.root_identity
            workspace.records.remember_disk(device if snapshot.files else None)
            workspace.records.remember_inode(inode)
