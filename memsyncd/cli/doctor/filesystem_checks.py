"""Check the file systems of notes, index and records, and whether a sync service keeps them.

The file system comes from /proc/self/mounts, and is unknown without it. Sync services are known by
the names of their folders and by the marks that they leave in them.
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
# File systems on which other machines, or this machine's host, change files without an event.
NETWORK_KINDS = frozenset(
    "9p afs beegfs ceph cifs davfs drvfs fuse.glusterfs fuse.gvfsd-fuse fuse.rclone fuse.s3fs"
    " fuse.sshfs gfs2 glusterfs lustre ncpfs nfs nfs4 ocfs2 prl_fs smb3 smbfs vboxsf virtiofs"
    " vmhgfs fuse.vmhgfs-fuse".split()
)
VOLATILE = frozenset({"tmpfs", "ramfs"})

# Entries that a sync service leaves in its folder.
SERVICE_MARKS = {
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
SERVICE_PATHS = (
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
    """One line of the kernel's table of mounts."""

    folder: str
    kind: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The storage of a folder. `mount` is None if unknown, `service` a sync service or empty."""

    path: str
    mount: Mount | None
    service: str = ""


def parse_mounts(text: str) -> list[Mount]:
    """Parse the kernel's table of mounts; special characters in its paths are octal escapes."""
    rows = (line.split(" ") for line in text.splitlines())
    return [
        Mount(folder=_unescape(row[1]), kind=row[2], options=tuple(row[3].split(",")))
        for row in rows
        if len(row) >= 4
    ]


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def find_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount of a real path: the last of the deepest."""
    above = [
        mount
        for mount in mounts
        if path == mount.folder or path.startswith(mount.folder.rstrip("/") + "/")
    ]
    depth = max((len(mount.folder) for mount in above), default=0)
    return next((mount for mount in reversed(above) if len(mount.folder) == depth), None)


def find_service(path: str, has: Callable[[str], bool]) -> str:
    """Return the sync service that keeps this folder, by its path or by a mark in it or a parent;
    empty if none.
    """
    for pattern, service in SERVICE_PATHS:
        if pattern.search(path):
            return service
    folder = path
    while folder not in ("/", ""):
        for mark, service in SERVICE_MARKS.items():
            if has(f"{folder}/{mark}"):
                return service
        folder = os.path.dirname(folder)
    return ""


def find_storage(paths: Sequence[str]) -> list[Storage]:
    """Return the storage of each path, or of its nearest existing parent."""
    mounts = read_mounts()
    reals = [(path, os.path.realpath(path)) for path in paths]
    return [
        Storage(
            path=path, mount=find_mount(real, mounts), service=find_service(real, os.path.lexists)
        )
        for path, real in reals
    ]


def read_mounts() -> list[Mount]:
    """Read the kernel's table of mounts; empty where there is none."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            return parse_mounts(file.read())
    except OSError:
        return []


def check_notes_storage(
    storage: Storage, *, reconcile: str = "every `sync.reconcile_s`"
) -> list[Finding]:
    """Check the storage of a workspace: whether changes cause events, and whether a service syncs
    it.
    """
    found = []
    kind = storage.mount.kind if storage.mount else ""
    if kind in NETWORK_KINDS:
        what = f"the notes lie on a {kind} file system: changes by other machines cause no events"
        remedy = (
            f"a timed scan ({reconcile}) finds them; `search --wait` scans at once;"
            " or keep notes on a local disk"
        )
        found.append(Finding("warning", "filesystem", what, remedy, where=storage.path))
    elif storage.mount and "ro" in storage.mount.options:
        what = "the notes lie on a read-only disk: they are searchable, and cannot be edited"
        found.append(Finding("info", "filesystem", what, where=storage.path))
    if storage.service:
        what = (
            f"{storage.service} syncs this folder: two machines that write at once leave"
            " conflict copies, which are both indexed"
        )
        remedy = (
            "keep its files on this machine (not `online only`);"
            " copies are listed as `sync_conflict`"
        )
        found.append(Finding("info", "cloud", what, remedy, where=storage.path))
    return found


def check_own_storage(
    storage: Storage, *, contents: str, variable: str, is_lasting: bool
) -> list[Finding]:
    """Check the storage of index or records: locks of a network, or a service that copies an open
    database, damage it.
    """
    found = []
    kind = storage.mount.kind if storage.mount else ""
    if kind in NETWORK_KINDS:
        what = f"{contents} on a {kind} file system, whose locks SQLite cannot trust"
        remedy = f"stop the daemon, set {variable} to a folder on a local disk, start it again"
        found.append(Finding("error", "filesystem", what, remedy, where=storage.path))
    elif storage.mount and "ro" in storage.mount.options:
        what = f"{contents} on a read-only disk"
        remedy = f"mount it for writing, or set {variable} to another folder"
        found.append(Finding("error", "filesystem", what, remedy, where=storage.path))
    elif kind in VOLATILE and is_lasting:
        what = f"{contents} in memory ({kind}) and will be lost at a reboot"
        remedy = f"set {variable} to a folder on a disk"
        found.append(Finding("warning", "filesystem", what, remedy, where=storage.path))
    if storage.service:
        what = f"{contents} in a folder that {storage.service} syncs, which damages databases"
        remedy = f"stop the daemon, set {variable} to a folder that is not synced, start it again"
        found.append(Finding("error", "cloud", what, remedy, where=storage.path))
    return found
