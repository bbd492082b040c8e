"""Check the folders and files of memsyncd, without a daemon those of its workspaces, and the file
systems and sync services that keep them.

The functions `stat_entry`, `measure_disk_space`, `read_workspace_list` and `find_service` collect
facts; the `check_` functions turn them into findings. The file system comes from
/proc/self/mounts, and is unknown without it. Sync services are known by the names of their folders
and by the marks that they leave in them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import time
from dataclasses import dataclass, replace
from threading import Thread
from typing import TYPE_CHECKING

from memsyncd.cli.doctor import Finding
from memsyncd.terminal.format import render_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from memsyncd.cli.doctor import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStat:
    """A file or folder as lstat sees it, `kind` being socket, folder, link, file, missing or
    unreadable.
    """

    path: str
    kind: str
    mode: int = 0
    uid: int = 0


def stat_entry(path: str) -> PathStat:
    """Return the entry at this path; links are not followed."""
    try:
        found = os.lstat(path)
    except OSError as error:
        kind = (
            "missing" if isinstance(error, FileNotFoundError | NotADirectoryError) else "unreadable"
        )
        return PathStat(path=path, kind=kind)
    kinds = {stat.S_IFSOCK: "socket", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "file")
    return PathStat(path=path, kind=kind, mode=stat.S_IMODE(found.st_mode), uid=found.st_uid)


LOW_BYTES = 200_000_000
NO_BYTES = 20_000_000
LOW_INODES = 1000
# A sleeping disk takes longer to list a folder, but not to say whether it exists.
RESPONSE_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """The free space, for this user, of the disk that holds these paths. `n_inodes` is None where
    there is no such limit.
    """

    device: int
    paths: tuple[str, ...]
    free_bytes: int
    n_inodes: int | None


def find_unresponsive(paths: Iterable[str]) -> frozenset[str]:
    """Return the paths whose existence the system does not report within RESPONSE_TIMEOUT_S."""
    asking = {path: Thread(target=_touch, args=(path,), daemon=True) for path in paths}
    for thread in asking.values():
        thread.start()
    end_s = time.monotonic() + RESPONSE_TIMEOUT_S
    for thread in asking.values():
        thread.join(max(end_s - time.monotonic(), 0))
    return frozenset(path for path, thread in asking.items() if thread.is_alive())


def _touch(path: str) -> None:
    """Access a workspace's folder and its memory, which may be on another disk."""
    if os.path.exists(path):
        os.path.exists(f"{path}/MEMORY.md")
        with contextlib.suppress(OSError), os.scandir(f"{path}/.memories") as entries:
            next(entries, None)


def resolve_path(path: str) -> str:
    """Return the real path, or the absolute path as written if its disk does not answer."""
    found = [os.path.abspath(os.path.expanduser(path))]
    thread = Thread(target=lambda: found.append(os.path.realpath(found[0])), daemon=True)
    thread.start()
    thread.join(RESPONSE_TIMEOUT_S)
    return found[-1]


def describe_unresponsive(path: str) -> Finding:
    """Make the finding for a workspace whose folder does not answer."""
    what = "the disk that holds the folder does not answer; most likely a network disk"
    remedy = "check whether its server can be reached; `umount -l` detaches a disk that is gone"
    return Finding("error", "folder", what, remedy, where=path)


def measure_disk_space(paths: Iterable[str]) -> list[DiskSpace]:
    """Measure each disk that holds these paths, or their nearest existing parent folder, once."""
    disks: dict[int, DiskSpace] = {}
    for path in paths:
        place = find_nearest_folder(path)
        try:
            device = os.stat(place).st_dev
            free_bytes, found = shutil.disk_usage(place).free, os.statvfs(place)
        except OSError:
            continue
        known = disks[device].paths if device in disks else ()
        n_inodes = found.f_favail if found.f_files else None
        disks[device] = DiskSpace(
            device=device, paths=(*known, path), free_bytes=free_bytes, n_inodes=n_inodes
        )
    return list(disks.values())


def find_nearest_folder(path: str) -> str:
    """Return the path if it exists, else its nearest existing parent folder."""
    while not os.path.exists(path) and path not in ("/", ""):
        path = os.path.dirname(path)
    return path or "/"


def check_disk_space(disks: Sequence[DiskSpace]) -> list[Finding]:
    """Check that the disks have room for index and records."""
    found = []
    for disk in disks:
        if disk.free_bytes < LOW_BYTES:
            is_full, remedy = disk.free_bytes < NO_BYTES, "free some space on this disk"
            what = f"{render_size(disk.free_bytes)} are free on the disk"
        elif disk.n_inodes is not None and disk.n_inodes < LOW_INODES:
            is_full, remedy = not disk.n_inodes, "delete unneeded files"
            what = f"the disk has inodes for only {disk.n_inodes} more files"
        else:
            continue
        level: Level = "error" if is_full else "warning"
        remedy += "; memsyncd continues by itself"
        found.append(Finding(level, "disk", what, remedy, where=", ".join(disk.paths)))
    if disks and not found:
        least = min(disk.free_bytes for disk in disks)
        found.append(Finding("ok", "disk", f"there is enough space ({render_size(least)} free)"))
    return found


def check_permissions(entries: Sequence[PathStat], *, uid: int) -> list[Finding]:
    """Check that folders and files with text of notes, or with paths, belong to the user and are
    closed to others.
    """
    found = [finding for entry in entries if (finding := _check_entry(entry, uid)) is not None]
    if not found and any(entry.kind != "missing" for entry in entries):
        found.append(Finding("ok", "folders", "only you can read what memsyncd keeps"))
    return found


def _check_entry(entry: PathStat, uid: int) -> Finding | None:
    level: Level = "error"
    remedy = f"chmod {'700' if entry.kind == 'folder' else '600'} {entry.path}"
    if entry.kind in ("missing", "link"):
        return None
    if entry.kind == "unreadable":
        what, remedy = "this cannot be read", "check who owns the folders above it"
    elif entry.uid != uid:
        what = f"this belongs to user {entry.uid}"
        remedy = f"sudo chown -R {uid} {entry.path}" if entry.uid == 0 else "check who created it"
    elif entry.mode & 0o022:
        what = f"others may write here (mode {entry.mode:04o})"
    elif entry.mode & 0o055:
        level = "warning"
        what = f"others may read here, where text of your notes is kept (mode {entry.mode:04o})"
    elif not entry.mode & 0o200:
        what = f"you may not write here (mode {entry.mode:04o})"
    else:
        return None
    return Finding(level, "folders", what, remedy, where=entry.path)


def find_obstacle(path: str) -> PathStat | None:
    """Return what keeps this user from creating the folder at `path`: the nearest entry at or above
    it, if that is no folder or may not be written. None if nothing does.
    """
    place = path
    while not os.path.lexists(place) and place != "/":
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        return stat_entry(place)
    is_usable = place == path or os.access(place, os.W_OK | os.X_OK)
    return None if is_usable else stat_entry(os.path.realpath(place))


def check_obstacle(folder: str, obstacle: PathStat | None, *, variable: str) -> list[Finding]:
    """Check that a folder of memsyncd is one, or can be created."""
    if obstacle is None:
        return []
    instead = f"or set {variable} to a folder of your own"
    if obstacle.kind == "folder":
        what = f"{folder} cannot be created: you may not write here (mode {obstacle.mode:04o})"
        remedy = f"make this folder writable for you, {instead}"
    else:
        what = f"{folder} cannot be used: this {obstacle.kind} is in the place of a folder"
        remedy = f"see what it is and move it away, {instead}"
    return [Finding("error", "folders", what, remedy, where=obstacle.path)]


def check_config_mode(entry: PathStat, *, uid: int) -> list[Finding]:
    """Check that only the user can write the configuration. Others may read it."""
    if entry.kind in ("missing", "link"):
        return []
    if entry.uid not in (uid, 0) or entry.mode & 0o022:
        what = f"others may change the configuration (user {entry.uid}, mode {entry.mode:04o})"
        remedy = f"chmod 600 {entry.path}"
        return [Finding("error", "config", what, remedy, where=entry.path)]
    return []


def check_config_path(daemon_path: str, own_path: str) -> list[Finding]:
    """Check that the daemon, by the path in its `status`, reads the same configuration as this
    program.
    """
    path = daemon_path.partition(" (")[0]
    if os.path.realpath(path) == os.path.realpath(own_path):
        return []
    what = f"the daemon reads {path}, this program another file"
    remedy = (
        "set the same XDG_CONFIG_HOME and MEMSYNCD_CONFIG for both:"
        " memsyncd restart, or memsyncd service install"
    )
    return [Finding("warning", "config", what, remedy, where=own_path)]


# --- workspaces without a daemon ----------------------------------------------------------------

MAGIC = b"SQLite format 3\0"
HEAD_BYTES = 100
LOG_TAIL_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredWorkspace:
    """A workspace in the daemon's list."""

    id: str
    name: str
    root: str


def read_workspace_list(path: str) -> tuple[list[RegisteredWorkspace], str]:
    """Return the workspaces in the daemon's list, and the error in the list, empty if there is
    none.
    """
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)["workspaces"]
        return [
            RegisteredWorkspace(id=str(each["id"]), name=str(each["name"]), root=str(each["root"]))
            for each in entries
        ], ""
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        return [], f"the list of workspaces cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError):
        return (
            [],
            "the list of workspaces is damaged; the daemon sets it aside and starts a new one",
        )


def check_root(workspace: RegisteredWorkspace) -> Finding:
    """Check that the folder exists and can be listed."""
    where = workspace.root
    if find_unresponsive([where]):
        return replace(describe_unresponsive(where), workspace=workspace.id)
    if not os.path.isdir(where):
        remedy = f"restore the folder, or start the daemon and: memsyncd remove {workspace.name}"
        return Finding(
            "error", "folder", "the folder is missing", remedy, where=where, workspace=workspace.id
        )
    if not os.access(where, os.R_OK | os.X_OK):
        what, remedy = "the folder cannot be listed", "make it readable for you"
        return Finding("error", "folder", what, remedy, where=where, workspace=workspace.id)
    what = "the folder exists and can be listed"
    return Finding("ok", "folder", what, where=where, workspace=workspace.id)


def check_database(path: str, *, check: str, workspace: str) -> list[Finding]:
    """Check that a file is a whole database, by its first bytes and its size; the daemon creates a
    missing one.

    Databases are not opened here, since only the daemon may open them.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
            size_bytes = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return []
    except OSError as error:
        what = f"it cannot be read: {error.strerror}"
        remedy = "check who owns it"
        return [Finding("error", check, what, remedy, where=path, workspace=workspace)]
    damage = find_damage(head, size_bytes)
    if not damage:
        return []
    remedy = {
        "index": "start the daemon: it rebuilds the index",
        "records": "keep a copy; at its next start the daemon sets it aside and creates a new one",
    }[check]
    name = os.path.basename(path)
    return [Finding("error", check, f"{name} {damage}", remedy, where=path, workspace=workspace)]


def find_damage(head: bytes, size_bytes: int) -> str:
    """Return what is wrong with a database of this header and size, by SQLite's file format."""
    if not size_bytes:
        return ""
    if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
        return "is not a database any more"
    page_bytes = int.from_bytes(head[16:18], "big")
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    if not page_bytes or size_bytes % page_bytes:
        return "is truncated"
    return ""


def find_last_error(log_file: str) -> str:
    """Return the last warning or error in a background daemon's log, empty if there is none."""
    try:
        with open(log_file, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return find_error_line(lines)


def find_error_line(lines: Sequence[str]) -> str:
    """Return the last line that is a warning or an error, or that says why the daemon did not
    start.
    """
    for line in reversed(lines):
        if line.startswith("memsyncd: "):
            return line.removeprefix("memsyncd: ")
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("level") in ("warning", "error", "critical"):
            return ": ".join(
                str(event[key]) for key in ("event", "reason", "message") if event.get(key)
            )
    return ""


# --- file systems and sync services ---

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


def check_notes_storage(storage: Storage) -> list[Finding]:
    """Check the storage of a workspace: whether changes cause events, and whether a service syncs
    it.
    """
    found = []
    kind = storage.mount.kind if storage.mount else ""
    if kind in NETWORK_KINDS:
        what = f"the notes are on a {kind} file system: changes by other machines cause no events"
        remedy = (
            "a timed scan (every `sync.reconcile_s`) finds them; `search --wait` scans at once;"
            " or keep notes on a local disk"
        )
        found.append(Finding("warning", "filesystem", what, remedy, where=storage.path))
    elif storage.mount and "ro" in storage.mount.options:
        what = "the notes are on a read-only disk: they are searchable, and cannot be edited"
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
