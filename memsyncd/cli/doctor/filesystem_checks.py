"""On what kind of file system do notes, index and records lie, and does something copy them about?

The kind comes from /proc/self/mounts (no such file: nothing is known). Sync services are known by the folders that they
keep and the marks that they leave in them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsyncd.cli.doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOUNTS = "/proc/self/mounts"
NETWORK = frozenset(
    "9p afs beegfs ceph cifs davfs drvfs fuse.glusterfs fuse.gvfsd-fuse fuse.rclone fuse.s3fs fuse.sshfs gfs2 glusterfs lustre"
    " ncpfs nfs nfs4 ocfs2 prl_fs smb3 smbfs vboxsf virtiofs vmhgfs fuse.vmhgfs-fuse".split()
)
"""Where other machines, or the host of this one, change files of which this kernel tells nothing."""
FLEETING = frozenset({"tmpfs", "ramfs"})

MARKS = {
    ".stfolder": "Syncthing",
    ".dropbox": "Dropbox",
    ".dropbox.cache": "Dropbox",
    ".sync_journal.db": "Nextcloud or ownCloud",
    ".nextcloudsync.log": "Nextcloud",
    ".owncloudsync.log": "ownCloud",
    ".sync": "Resilio Sync",
    ".tmp.drivedownload": "Google Drive",
    ".tmp.driveupload": "Google Drive",
}
"""What a sync service leaves in the folder that it keeps."""
NAMES = (
    (re.compile(r"/Library/Mobile Documents(/|$)"), "iCloud Drive"),
    (re.compile(r"/Library/CloudStorage/([A-Za-z]+)"), "a cloud service"),
    (re.compile(r"/Dropbox( \([^/]*\))?(/|$)"), "Dropbox"),
    (re.compile(r"/OneDrive( - [^/]*)?(/|$)"), "OneDrive"),
    (re.compile(r"/(Google ?Drive|My Drive)(/|$)"), "Google Drive"),
    (re.compile(r"/(Nextcloud|ownCloud)(/|$)"), "Nextcloud or ownCloud"),
    (re.compile(r"/(pCloudDrive|MEGA|Box Sync|SynologyDrive)(/|$)"), "a sync service"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of the kernel's table."""

    folder: str
    kind: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a folder stands on. `mount` is None where that cannot be known, `service` is empty if none is known."""

    path: str
    mount: Mount | None
    service: str = ""


def parse_mounts(text: str) -> list[Mount]:
    """The kernel's table of mounts, in whose paths a blank is its octal number after a backslash."""
    rows = (line.split(" ") for line in text.splitlines())
    return [
        Mount(folder=_unescape(row[1]), kind=row[2], options=tuple(row[3].split(",")))
        for row in rows
        if len(row) >= 4
    ]


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def find_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that a real path lies on: the last of the deepest."""
    above = [
        mount
        for mount in mounts
        if path == mount.folder or path.startswith(mount.folder.rstrip("/") + "/")
    ]
    depth = max((len(mount.folder) for mount in above), default=0)
    return next((mount for mount in reversed(above) if len(mount.folder) == depth), None)


def find_service(path: str, has: Callable[[str], bool]) -> str:
    """The sync service that keeps this folder, by its name or by a mark in it or above; empty if there is none."""
    for pattern, service in NAMES:
        if pattern.search(path):
            return service
    folder = path
    while folder not in ("/", ""):
        for mark, service in MARKS.items():
            if has(f"{folder}/{mark}"):
                return service
        folder = os.path.dirname(folder)
    return ""


def look_at_grounds(paths: Sequence[str]) -> list[Ground]:
    """What each of these paths stands on, or would if it were there."""
    mounts = read_mounts()
    reals = [(path, os.path.realpath(path)) for path in paths]
    return [
        Ground(
            path=path, mount=find_mount(real, mounts), service=find_service(real, os.path.lexists)
        )
        for path, real in reals
    ]


def read_mounts() -> list[Mount]:
    """The kernel's table, empty where there is none."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            return parse_mounts(file.read())
    except OSError:
        return []


def judge_notes_ground(
    ground: Ground, *, reconcile: str = "every `sync.reconcile_s`"
) -> list[Finding]:
    """What a workspace's folder stands on: whether changes are heard there, and notes may vanish or split."""
    found = []
    kind = ground.mount.kind if ground.mount else ""
    if kind in NETWORK:
        what = (
            f"the notes lie on a {kind} file system: what other machines change there is not heard"
        )
        remedy = f"it is found by the timed look ({reconcile}); `search --wait` looks at once; or keep notes on a local disk"
        found.append(
            Finding(
                level="warning", check="filesystem", what=what, where=ground.path, remedy=remedy
            )
        )
    elif ground.mount and "ro" in ground.mount.options:
        what = (
            "the notes lie on a disk that cannot be written: they are found, and cannot be edited"
        )
        found.append(Finding(level="info", check="filesystem", what=what, where=ground.path))
    if ground.service:
        what = (
            f"{ground.service} syncs this folder: two machines that write at once leave"
            " conflict copies, which are both indexed"
        )
        remedy = "keep its files on this machine (no `online only`); copies show up here as `sync_conflict`"
        found.append(
            Finding(level="info", check="cloud", what=what, where=ground.path, remedy=remedy)
        )
    return found


def judge_own_ground(
    ground: Ground, *, what_lies_there: str, variable: str, is_lasting: bool
) -> list[Finding]:
    """What index or records stand on. A network's locks, or a service that copies a database while it is written, damage it."""
    found = []
    kind = ground.mount.kind if ground.mount else ""
    if kind in NETWORK:
        what = f"{what_lies_there} on a {kind} file system, whose locks SQLite cannot trust"
        remedy = f"stop the daemon, set {variable} to a folder on a local disk, start it again"
        found.append(
            Finding(level="error", check="filesystem", what=what, where=ground.path, remedy=remedy)
        )
    elif ground.mount and "ro" in ground.mount.options:
        what = f"{what_lies_there} on a disk that cannot be written"
        remedy = f"mount it for writing, or set {variable} to another folder"
        found.append(
            Finding(level="error", check="filesystem", what=what, where=ground.path, remedy=remedy)
        )
    elif kind in FLEETING and is_lasting:
        what = (
            f"{what_lies_there} in memory ({kind}) and will be gone after a restart of the machine"
        )
        remedy = f"set {variable} to a folder on a disk"
        found.append(
            Finding(
                level="warning", check="filesystem", what=what, where=ground.path, remedy=remedy
            )
        )
    if ground.service:
        what = f"{what_lies_there} in a folder that {ground.service} copies about, which damages databases"
        remedy = f"stop the daemon, set {variable} to a folder that is not synced, start it again"
        found.append(
            Finding(level="error", check="cloud", what=what, where=ground.path, remedy=remedy)
        )
    return found
