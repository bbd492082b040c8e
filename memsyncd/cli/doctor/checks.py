"""A table of check, finding and remedy for a user's machine, and the facts that select its rows.

The functions `ping`, `read_…`, `find_…` and `stat_…` collect facts; the `check_` functions select
the findings. The state of a process and the file systems come from /proc; without it they are
unknown. The names of folders, and the marks in them, reveal sync services.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import time
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from memsyncd.cli.doctor import Finding
from memsyncd.client.connection import Client, NoAnswer
from memsyncd.errors import Busy, MemsyncdError
from memsyncd.findings import parse_rows
from memsyncd.terminal.format import render_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from memsyncd.findings import Level
    from memsyncd.terminal.console import Console
    from memsyncd.terminal.other_daemons import OtherDaemon

OTHER_OWNER = "do not trust it; set MEMSYNCD_SOCKET, or XDG_…_HOME, to a path of your own"
_ROWS = """
answers: ok daemon
  the daemon answers (pid {pid})
absent: error daemon
  no daemon runs
  → memsyncd start runs it in the background; memsyncd service install has the system run it
stopped: error daemon
  the daemon (pid {pid}) is stopped, by a signal or a debugger
  → resume it: kill -CONT {pid}
hung: error daemon
  the daemon (pid {pid}) holds the socket and does not answer: {failure}
  → end it: kill -KILL {pid}; then start it again: it repairs its index
full: error daemon
  the daemon (pid {pid}) accepts no more clients: {failure}
  → end some of the programs that are connected to it, or raise max_clients under [socket]
foreign: error daemon
  another program answers on the socket: {failure}
  → find it with `ss -xlp` or `lsof -U`, end it, and: memsyncd start
no_status: error daemon
  the daemon answers `ping`, but not `status`: {reason}
  → memsyncd restart; if the daemon does not stop, follow the hint of this command
unexamined: error daemon
  the daemon could not check this: {reason}
  → {hint}
unasked: info daemon
  only the daemon checks index, records, watcher and notes
  → start it, then run this again
same_version: ok version
  both are version {own}
other_version: warning version
  the daemon is version {version}, this program {own}
  → memsyncd restart makes them equal
single: ok two_daemons
  no other daemon runs
other_daemon: info two_daemons
  {other}
  → unless that is meant, end it: kill {pid}
log: info log
  the last background daemon logged: {line}
socket_private: ok socket
  only you can reach the socket
socket_unused: info socket
  the socket of an ended daemon remains; the next daemon removes it
socket_named: warning socket
  nobody answers on this socket, which MEMSYNCD_SOCKET names; a daemon does on {used}
  → unset MEMSYNCD_SOCKET, or have the daemon listen there: memsyncd restart
socket_folder: error socket
  the socket's folder cannot be reached
  → see who owns the folders above it; `su` and `sudo` may keep the XDG_RUNTIME_DIR of another
  user: unset it
private: ok folders
  only you can read what memsyncd keeps
other_kind: error
  this {kind} is in the place of a {wanted}
  → see what it is and move it away, or set MEMSYNCD_SOCKET to a path in a folder of your own
other_owner: error
  this belongs to user {owner}
  → {remedy}
writable: error
  others may write here (mode {mode})
  → chmod {right} {path}
readable: warning
  others may read here (mode {mode})
  → chmod {right} {path}
closed: error
  you may not write here (mode {mode})
  → chmod {right} {path}
unreachable: error
  this cannot be read
  → check who owns the folders above it
no_folder: error folders
  {folder} cannot be created: you may not write here (mode {mode})
  → make this folder writable for you, or set {variable} to a folder of your own
no_place: error folders
  {folder} cannot be used: this {kind} is in the place of a folder
  → see what it is and move it away, or set {variable} to a folder of your own
config: ok config
  the configuration is valid
config_refused: error config
  the configuration is refused: {reason}
  → {hint}
config_warning: warning config
  {warning}
  → memsyncd config check
config_other: warning config
  the daemon reads {other}, this program another file
  → set the same XDG_CONFIG_HOME and MEMSYNCD_CONFIG for both: memsyncd restart, or memsyncd
  service install
service: ok service
  the system runs the daemon
service_unknown: info service
  no supervisor restarts the daemon: {absence}
service_missing: info service
  no service is installed: after a reboot no daemon runs
  → memsyncd service install
service_failed: error service
  the service has failed ({result}) and is not restarted
  → see memsyncd service logs; then: memsyncd service restart
service_ended: error service
  the service does not run ({state})
  → memsyncd service restart
service_beside: warning service
  the daemon that answers (pid {pid}) is not the service's: no supervisor restarts it
  → memsyncd service restart replaces it
service_differs: warning service
  the service's files do not match this program and environment
  → replace them: memsyncd service install{options} --replace
service_disabled: warning service
  the service does not start by itself
  → memsyncd service install{options}
service_restarted: info service
  the system restarted the daemon {n} times
  → see memsyncd service logs
no_workspace: info workspaces
  no folder is indexed
  → memsyncd add PATH
folder_silent: error folder
  the disk that holds the folder does not answer; most likely a network disk
  → check whether its server can be reached; `umount -l` detaches a disk that is gone
collection_missing: warning folder
  the projects of {name} cannot be listed: new ones are not found
  → restore the folder, or: memsyncd remove {name}
git_merges: info git_merges
  {what}
  → memsyncd init --merge-driver {root}
space: ok disk
  there is enough space ({free} free)
low: warning disk
  {free} are free on the disk
  → free some space on this disk; memsyncd continues by itself
local: ok filesystem
  notes, index and records are on local disks
notes_network: warning filesystem
  the notes are on a {kind} file system: changes by other machines cause no events
  → a timed scan (every `sync.reconcile_s`) finds them; `search --wait` scans at once; or keep
  notes on a local disk
notes_synced: info cloud
  {service} syncs this folder: two machines that write at once leave conflict copies, which are
  both indexed
  → keep its files on this machine (not `online only`); copies are listed as `sync_conflict`
own_network: error filesystem
  {contents} on a {kind} file system, whose locks SQLite cannot trust
  → stop the daemon, set {variable} to a folder on a local disk, start it again
own_fixed: error filesystem
  {contents} on a read-only disk
  → mount it for writing, or set {variable} to another folder
own_volatile: warning filesystem
  {contents} in memory ({kind}) and will be lost at a reboot
  → set {variable} to a folder on a disk
own_synced: error cloud
  {contents} in a folder that {service} syncs, which damages databases
  → stop the daemon, set {variable} to a folder that is not synced, start it again
"""


TABLE = parse_rows(_ROWS)


def find_row(
    row: str,
    *,
    check: str = "",
    level: Level | None = None,
    where: str = "",
    workspace: str | None = None,
    **facts: Any,
) -> Finding:
    """Make the finding of a row of the table. `facts` fill the braces of its texts."""
    template = TABLE[row]
    return Finding(
        level=level or template.level,
        check=check or template.check,
        what=template.what.format(**facts),
        remedy=template.remedy.format(**facts),
        where=where,
        workspace=workspace,
    )


# --- the daemon ---------------------------------------------------------------------------------

ANSWER_S = 5.0
LOG_TAIL_BYTES = 16_384


class PingResult(NamedTuple):
    """The answer to `ping` on one socket. If a program listens there but does not answer as a
    daemon should, `fault` is the name of a row of the table, and `failure` says why.
    """

    path: str
    pid: int | None = None
    version: str = ""
    protocol: int = 0
    fault: str = ""
    failure: str = ""


def ping(path: str) -> PingResult:
    """Call `ping` on a socket."""
    is_connected = False
    try:
        with Client(path, ANSWER_S) as client:
            is_connected = True
            pong = client.call("ping")
        return PingResult(path, int(pong["pid"]), str(pong["version"]), int(pong["protocol"]))
    except (LookupError, TypeError, ValueError):
        failure = "its answer is not from memsyncd"
        return PingResult(path, fault="foreign", failure=failure)
    except MemsyncdError as error:
        is_busy = isinstance(error, Busy)
        if is_busy and is_connected:
            fault = "full"
        elif is_busy or isinstance(error, NoAnswer):
            fault = "hung"
        else:
            fault = "foreign" if is_connected else ""
        return PingResult(path, fault=fault, failure=error.message)


def is_stopped(pid: int) -> bool:
    """Return whether a signal or a debugger has stopped the process; False without /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(") ")[2][:1] in ("T", "t")
    except OSError:
        return False


def check_daemon(
    answers: Sequence[PingResult],
    holder_pid: int | None,
    others: Sequence[OtherDaemon],
    *,
    version: str,
    protocol: int,
) -> list[Finding]:
    """Check that one daemon answers and has this version. `holder_pid` is the pid of the daemon
    that has locked the folders, None if it is unknown.
    """
    daemon = next((answer for answer in answers if answer.pid is not None), None)
    findings = [
        find_row(
            "other_daemon",
            level="error" if other.shares_folders else None,
            other=other.describe(),
            pid=other.pid,
        )
        for other in others
    ]
    if daemon is None:
        faulty = next((answer for answer in answers if answer.fault), None)
        row, place = (faulty.fault, faulty.path) if faulty else ("absent", answers[0].path)
        if holder_pid is not None and is_stopped(holder_pid):
            row = "stopped"
        failure = faulty.failure if faulty else ""
        pid = "PID" if holder_pid is None else holder_pid
        return [find_row(row, where=place, pid=pid, failure=failure), *findings]
    is_same = (daemon.version, daemon.protocol) == (version, protocol)
    return [
        find_row("answers", where=daemon.path, pid=daemon.pid),
        find_row(
            "same_version" if is_same else "other_version",
            level=None if daemon.protocol == protocol else "error",
            version=daemon.version,
            own=version,
        ),
        *(findings or [find_row("single")]),
    ]


def find_last_error(log_file: str) -> str:
    """Return the last warning or error in a background daemon's log, or the reason why the daemon
    did not start; empty if there is none.
    """
    try:
        with open(log_file, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        if line.startswith("memsyncd: "):
            return line.removeprefix("memsyncd: ")
        event: Any = None
        if line.startswith("{"):
            with contextlib.suppress(ValueError):
                event = json.loads(line)
        if event and event.get("level") in ("warning", "error", "critical"):
            names = ("event", "reason", "message")
            return ": ".join(str(event[name]) for name in names if event.get(name))
    return ""


# --- the service --------------------------------------------------------------------------------


def read_service(console: Console) -> dict[str, Any]:
    """Return the service's state from systemd or launchd: the keys of `read_state`, `is_current`
    and `is_on_demand`.

    Return only `absence`, the reason, if neither can be asked; nothing if no service is installed.
    """
    from memsyncd.cli.service import are_files_current, find_supervisor

    try:
        supervisor = find_supervisor(console)
        if not supervisor.is_installed():
            return {}
        if not supervisor.is_available():
            return {"absence": supervisor.describe_absence()}
        is_current = are_files_current(supervisor, console) is not False
        own = {"is_current": is_current, "is_on_demand": supervisor.is_on_demand}
        return {**supervisor.read_state(), **own}
    except MemsyncdError as error:
        return {"absence": error.message}
    except (OSError, subprocess.SubprocessError) as error:
        return {"absence": type(error).__name__}


def check_service(service: Mapping[str, Any], *, daemon_pid: int | None) -> list[Finding]:
    """Check that the service runs the daemon that answers."""
    if not service:
        return [find_row("service_missing")]
    if "absence" in service:
        return [find_row("service_unknown", absence=service["absence"])]
    pid, is_waiting = service["pid"], service["is_waiting"]
    is_failed = service["state"] == "failed"
    is_ended = pid is None and not is_waiting and daemon_pid is None
    is_beside = daemon_pid not in (None, pid) and not (is_waiting and pid is None)
    rows = {
        "service_failed": is_failed,
        "service_ended": is_ended and not is_failed,
        "service_beside": is_beside,
        "service_differs": not service["is_current"],
        "service_disabled": not service["enabled"],
        "service_restarted": service["restarts"],
    }
    facts: dict[str, Any] = {
        "result": service["result"],
        "state": service["state"],
        "n": service["restarts"],
        "options": " --on-demand" if service["is_on_demand"] else "",
    }
    findings = [find_row(row, pid=daemon_pid, **facts) for row, holds in rows.items() if holds]
    return findings or [find_row("service")]


# --- sockets, folders and files -----------------------------------------------------------------


class PathStat(NamedTuple):
    """An entry as lstat reports it. `kind` is socket, folder, link, file, missing or unreadable."""

    path: str
    kind: str
    mode: int = 0
    uid: int = 0


def stat_entry(path: str) -> PathStat:
    """Return the entry at this path, without following a link."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return PathStat(path, "missing")
    except OSError:
        return PathStat(path, "unreadable")
    kinds = {stat.S_IFSOCK: "socket", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "file")
    return PathStat(path, kind, stat.S_IMODE(status.st_mode), status.st_uid)


def check_entry(
    entry: PathStat, check: str, *, uid: int, wanted: str = "", is_public: bool = False
) -> list[Finding]:
    """Check that an entry has the `wanted` kind, if it is not empty, belongs to the user, and is
    closed to others. Others may read an entry that `is_public`, and root may own it.
    """

    def find(row: str, **facts: Any) -> list[Finding]:
        return [find_row(row, check=check, where=entry.path, path=entry.path, **facts)]

    if entry.kind == "missing" or (entry.kind == "link" and not wanted):
        return []
    if entry.kind == "unreadable":
        return find("unreachable")
    if wanted and entry.kind != wanted:
        return find("other_kind", kind=entry.kind, wanted=wanted)
    if entry.uid != uid and not (is_public and entry.uid == 0):
        by_root = f"sudo chown -R {uid} {entry.path}"
        return find(
            "other_owner", owner=entry.uid, remedy=by_root if entry.uid == 0 else OTHER_OWNER
        )
    needed = 0o700 if entry.kind == "folder" else 0o600
    facts: dict[str, Any] = {"mode": f"{entry.mode:04o}", "right": f"{needed:o}"}
    if entry.mode & 0o022:
        return find("writable", **facts)
    if is_public:
        return []
    if entry.mode & 0o055:
        return find("readable", **facts)
    return [] if entry.mode & needed == needed else find("closed", **facts)


def check_socket(path: str, *, uid: int, is_held: bool) -> list[Finding]:
    """Check that only the user can reach the socket and its folder. `is_held`: somebody listens."""
    folder, entry = stat_entry(os.path.dirname(path)), stat_entry(path)
    if folder.kind == "unreadable":
        return [find_row("socket_folder", where=folder.path)]
    findings = check_entry(folder, "socket", uid=uid, wanted="folder")
    if entry.kind in ("missing", "unreadable"):
        return findings
    findings += check_entry(entry, "socket", uid=uid, wanted="socket")
    return findings or [find_row("socket_private" if is_held else "socket_unused", where=path)]


def check_permissions(paths: Iterable[str], *, uid: int) -> list[Finding]:
    """Check that folders and files with text or paths of notes are closed to others."""
    entries = [stat_entry(path) for path in paths]
    findings = [finding for entry in entries for finding in check_entry(entry, "folders", uid=uid)]
    is_kept = any(entry.kind != "missing" for entry in entries)
    return findings or [find_row("private")] * is_kept


def check_creatable(folder: str, *, variable: str) -> list[Finding]:
    """Check that a folder of memsyncd exists or can be created. `variable` can move it."""
    place = folder
    while not os.path.lexists(place) and place != "/":
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        entry, row = stat_entry(place), "no_place"
    elif place != folder and not os.access(place, os.W_OK | os.X_OK):
        entry, row = stat_entry(os.path.realpath(place)), "no_folder"
    else:
        return []
    facts: dict[str, Any] = {"kind": entry.kind, "mode": f"{entry.mode:04o}", "variable": variable}
    return [find_row(row, where=entry.path, folder=folder, **facts)]


# --- workspaces ---------------------------------------------------------------------------------

# A sleeping disk needs longer to list a folder, but not to say whether the folder exists.
RESPONSE_TIMEOUT_S = 3.0


class RegisteredWorkspace(NamedTuple):
    """A workspace that the daemon knows."""

    id: str
    name: str
    root: str
    is_vault: bool = False


def find_unresponsive(paths: Iterable[str]) -> frozenset[str]:
    """Return the paths that the system cannot access within RESPONSE_TIMEOUT_S."""
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


# --- disks --------------------------------------------------------------------------------------

LOW_BYTES = 200_000_000
NO_BYTES = 20_000_000
MOUNTS = "/proc/self/mounts"
# On these file systems other machines, or this machine's host, change files without an event.
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
    ".sync": "Resilio Sync",
    ".tmp.drivedownload": "Google Drive",
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


def check_disk_space(paths: Iterable[str], low_bytes: int = LOW_BYTES) -> list[Finding]:
    """Check that the disks of these paths, or of their nearest existing parents, have space."""
    disks: dict[int, list[str]] = {}
    free: dict[int, int] = {}
    for path in paths:
        place = path
        while not os.path.exists(place) and place not in ("/", ""):
            place = os.path.dirname(place)
        with contextlib.suppress(OSError):
            device = os.stat(place).st_dev
            free[device] = shutil.disk_usage(place).free
            disks.setdefault(device, []).append(path)
    findings = [
        find_row(
            "low",
            level="error" if n_bytes < NO_BYTES else None,
            where=", ".join(disks[device]),
            free=render_size(n_bytes),
        )
        for device, n_bytes in free.items()
        if n_bytes < low_bytes
    ]
    if free and not findings:
        findings.append(find_row("space", free=render_size(min(free.values()))))
    return findings


class Storage(NamedTuple):
    """The storage of a folder: the kind and the options of its file system, empty if unknown, and
    the service that syncs it, or empty.
    """

    path: str
    kind: str = ""
    options: tuple[str, ...] = ()
    service: str = ""


def find_storage(path: str) -> Storage:
    """Return the storage of a path, or of its nearest existing parent."""
    real, mounts = os.path.realpath(path), ""
    with contextlib.suppress(OSError), open(MOUNTS, encoding="utf-8", errors="replace") as file:
        mounts = file.read()
    kind, options = find_mount(real, mounts)
    return Storage(path, kind, options, find_service(real, os.path.lexists))


def find_mount(path: str, mounts: str) -> tuple[str, tuple[str, ...]]:
    """Return the kind and the options of the mount of a real path; empty if there is none.

    `mounts` is the kernel's table, with octal escapes for special characters. The deepest mount
    counts, and the last of several on one folder.
    """
    best: tuple[int, str, tuple[str, ...]] = (0, "", ())
    for row in (line.split(" ") for line in mounts.splitlines()):
        if len(row) < 4:
            continue
        folder = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), row[1])
        is_above = path == folder or path.startswith(folder.rstrip("/") + "/")
        if is_above and len(folder) >= best[0]:
            best = (len(folder), row[2], tuple(row[3].split(",")))
    return best[1:]


def find_service(path: str, has: Callable[[str], bool]) -> str:
    """Return the service that syncs this folder, by its path or by a mark in it or in a parent;
    empty if there is none. `has` says whether a path exists.
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


def check_notes_storage(storage: Storage, workspace: str) -> list[Finding]:
    """Check whether changes of notes cause events, and whether a service syncs the notes."""
    rows = {"notes_network": storage.kind in NETWORK_KINDS, "notes_synced": storage.service}
    facts: dict[str, Any] = {"kind": storage.kind, "service": storage.service}
    return [
        find_row(row, where=storage.path, workspace=workspace, **facts)
        for row, holds in rows.items()
        if holds
    ]


def check_own_storage(
    storage: Storage, *, contents: str, variable: str, is_lasting: bool
) -> list[Finding]:
    """Check the storage of index or records. Locks of a network file system, or a service that
    copies an open database, can damage it.
    """
    is_network, is_fixed = storage.kind in NETWORK_KINDS, "ro" in storage.options
    is_volatile = storage.kind in VOLATILE and is_lasting
    rows = {
        "own_network": is_network,
        "own_fixed": is_fixed and not is_network,
        "own_volatile": is_volatile and not is_fixed,
        "own_synced": storage.service,
    }
    facts: dict[str, Any] = {"contents": contents, "variable": variable, "kind": storage.kind}
    return [
        find_row(row, where=storage.path, service=storage.service, **facts)
        for row, holds in rows.items()
        if holds
    ]
