"""Can memsyncd's own folders and files be relied on: whose are they, who may read them, is there room?

Facts come in as `Entry` and `Room`; what they mean is decided without looking.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from memsyncd.cli.doctor.findings import Finding
from memsyncd.cli.format import render_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memsyncd.cli.doctor.findings import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file or folder as lstat sees it, `kind` being socket, folder, link, file or missing."""

    path: str
    kind: str
    mode: int = 0
    uid: int = 0


def look_at(path: str) -> Entry:
    """What stands at this path; links are not followed."""
    try:
        found = os.lstat(path)
    except OSError as error:
        kind = (
            "missing" if isinstance(error, FileNotFoundError | NotADirectoryError) else "unreadable"
        )
        return Entry(path=path, kind=kind)
    kinds = {stat.S_IFSOCK: "socket", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "file")
    return Entry(path=path, kind=kind, mode=stat.S_IMODE(found.st_mode), uid=found.st_uid)


LOW_BYTES = 200_000_000
NONE_BYTES = 20_000_000
LOW_INODES = 1000
SILENT_S = 3.0
"""A disk that sleeps takes longer to say what is on it, but not whether something is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is free, for this user, on the disk that holds these places. `n_inodes` is None where there is no such count."""

    device: int
    places: tuple[str, ...]
    free_bytes: int
    n_inodes: int | None


def find_silent(paths: Iterable[str]) -> frozenset[str]:
    """Those of which the system tells nothing within SILENT_S, neither that they are there nor that they are not."""
    asking = {path: Thread(target=os.path.exists, args=(path,), daemon=True) for path in paths}
    for thread in asking.values():
        thread.start()
    end_s = time.monotonic() + SILENT_S
    for thread in asking.values():
        thread.join(max(end_s - time.monotonic(), 0))
    return frozenset(path for path, thread in asking.items() if thread.is_alive())


def judge_silent(path: str) -> Finding:
    """What it means that nothing is told of a workspace's folder."""
    what = "the disk that holds the folder does not answer; a network's, most likely"
    remedy = "see whether what it is mounted from can be reached; `umount -l` lets go of one that never comes back"
    return Finding(level="error", check="folder", what=what, where=path, remedy=remedy)


def measure_room(paths: Iterable[str]) -> list[Room]:
    """The disks that hold these paths, or the nearest folder above that is there, each once."""
    rooms: dict[int, Room] = {}
    for path in paths:
        place = find_nearest_folder(path)
        try:
            device = os.stat(place).st_dev
            free_bytes, found = shutil.disk_usage(place).free, os.statvfs(place)
        except OSError:
            continue
        known = rooms[device].places if device in rooms else ()
        n_inodes = found.f_favail if found.f_files else None
        rooms[device] = Room(
            device=device, places=(*known, path), free_bytes=free_bytes, n_inodes=n_inodes
        )
    return list(rooms.values())


def find_nearest_folder(path: str) -> str:
    """The path itself if it is there, else the nearest folder above it."""
    while not os.path.exists(path) and path not in ("/", ""):
        path = os.path.dirname(path)
    return path or "/"


def judge_room(rooms: Sequence[Room]) -> list[Finding]:
    """Whether there is room for what is indexed, written and kept."""
    found = []
    for room in rooms:
        where = ", ".join(room.places)
        remedy = "free some space on this disk; memsyncd goes on by itself"
        if room.free_bytes < LOW_BYTES:
            level: Level = "error" if room.free_bytes < NONE_BYTES else "warning"
            what = f"{render_size(room.free_bytes)} are free on the disk"
            found.append(Finding(level=level, check="disk", what=what, where=where, remedy=remedy))
        elif room.n_inodes is not None and room.n_inodes < LOW_INODES:
            level = "error" if not room.n_inodes else "warning"
            what = f"the disk has room for {room.n_inodes} more files only, however small"
            remedy = "delete files that nobody needs; memsyncd goes on by itself"
            found.append(Finding(level=level, check="disk", what=what, where=where, remedy=remedy))
    if rooms and not found:
        least = min(room.free_bytes for room in rooms)
        found.append(
            Finding(level="ok", check="disk", what=f"there is room ({render_size(least)} free)")
        )
    return found


def judge_private(entries: Sequence[Entry], *, uid: int) -> list[Finding]:
    """Whether folders and files that hold text of notes, or say what is indexed, are the user's own and closed to others."""
    found = [finding for entry in entries if (finding := _judge_one(entry, uid)) is not None]
    if not found and any(entry.kind != "missing" for entry in entries):
        found.append(
            Finding(level="ok", check="folders", what="only you can read what memsyncd keeps")
        )
    return found


def _judge_one(entry: Entry, uid: int) -> Finding | None:
    mode = "700" if entry.kind == "folder" else "600"
    if entry.kind in ("missing", "link"):
        return None
    if entry.kind == "unreadable":
        what, remedy = "this cannot be looked at", "see who owns the folders above it"
        return Finding(level="error", check="folders", what=what, where=entry.path, remedy=remedy)
    if entry.uid != uid:
        what = f"this belongs to user {entry.uid}"
        remedy = f"sudo chown -R {uid} {entry.path}" if entry.uid == 0 else "see who made it"
        return Finding(level="error", check="folders", what=what, where=entry.path, remedy=remedy)
    if entry.mode & 0o022:
        what = f"others may write here (mode {entry.mode:04o})"
        return Finding(
            level="error",
            check="folders",
            what=what,
            where=entry.path,
            remedy=f"chmod {mode} {entry.path}",
        )
    if entry.mode & 0o055:
        what = f"others may read here, where text of your notes is kept (mode {entry.mode:04o})"
        return Finding(
            level="warning",
            check="folders",
            what=what,
            where=entry.path,
            remedy=f"chmod {mode} {entry.path}",
        )
    if not entry.mode & 0o200:
        what = f"you may not write here (mode {entry.mode:04o})"
        return Finding(
            level="error",
            check="folders",
            what=what,
            where=entry.path,
            remedy=f"chmod {mode} {entry.path}",
        )
    return None


def judge_config_mode(entry: Entry, *, uid: int) -> list[Finding]:
    """Whether the configuration is the user's own to write. Others may read it."""
    if entry.kind in ("missing", "link"):
        return []
    if entry.uid not in (uid, 0) or entry.mode & 0o022:
        what = f"others may change the configuration (user {entry.uid}, mode {entry.mode:04o})"
        remedy = f"chmod 600 {entry.path}"
        return [Finding(level="error", check="config", what=what, where=entry.path, remedy=remedy)]
    return []


def judge_config_path(told: str, own: str) -> list[Finding]:
    """Whether the daemon, which in `status` has told where its configuration lies, reads the one that is looked at here."""
    path = told.partition(" (")[0]
    if os.path.realpath(path) == os.path.realpath(own):
        return []
    what = f"the daemon reads {path}, and this program another"
    remedy = "give both the same XDG_CONFIG_HOME and MEMSYNCD_CONFIG: memsyncd restart, or memsyncd service install"
    return [Finding(level="warning", check="config", what=what, where=own, remedy=remedy)]


# --- workspaces without a daemon -----------------------------------------------------------------

MAGIC = b"SQLite format 3\0"
HEAD_BYTES = 100
LOG_TAIL_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A workspace as it was registered."""

    id: str
    name: str
    root: str


def read_registered(path: str) -> tuple[list[Registered], str]:
    """The workspaces in the daemon's list, and what is wrong with the list, empty if nothing is."""
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)["workspaces"]
        return [
            Registered(id=str(each["id"]), name=str(each["name"]), root=str(each["root"]))
            for each in entries
        ], ""
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        return [], f"the list of workspaces cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError):
        return (
            [],
            "the list of workspaces is damaged; the daemon sets it aside and begins a new one",
        )


def judge_root(workspace: Registered) -> Finding:
    """Whether the folder is there and can be listed."""
    where = workspace.root
    if find_silent([where]):
        return Finding(**{**judge_silent(where).to_json(), "workspace": workspace.id})
    if not os.path.isdir(where):
        remedy = "bring the folder back, or start the daemon and: memsyncd remove"
        return Finding(
            level="error",
            check="folder",
            what="the folder is missing",
            where=where,
            remedy=remedy,
            workspace=workspace.id,
        )
    if not os.access(where, os.R_OK | os.X_OK):
        what, remedy = "the folder cannot be listed", "make it readable for you"
        return Finding(
            level="error",
            check="folder",
            what=what,
            where=where,
            remedy=remedy,
            workspace=workspace.id,
        )
    what = "the folder is there and can be listed"
    return Finding(level="ok", check="folder", what=what, where=where, workspace=workspace.id)


def judge_database(path: str, *, check: str, workspace: str) -> list[Finding]:
    """Whether a file is a whole database, by its first bytes and its size. One that is missing is made at the next start."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
            size_bytes = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return []
    except OSError as error:
        what = f"it cannot be read: {error.strerror}"
        remedy = "see who owns it"
        return [
            Finding(
                level="error",
                check=check,
                what=what,
                where=path,
                remedy=remedy,
                workspace=workspace,
            )
        ]
    trouble = find_trouble(head, size_bytes)
    if not trouble:
        return []
    remedy = {
        "index": "start the daemon: the index is built anew by itself",
        "records": "keep a copy of it; at its next start the daemon sets it aside and begins an empty one",
    }[check]
    name = os.path.basename(path)
    return [
        Finding(
            level="error",
            check=check,
            what=f"{name} {trouble}",
            where=path,
            remedy=remedy,
            workspace=workspace,
        )
    ]


def find_trouble(head: bytes, size_bytes: int) -> str:
    """What is wrong with a database of these first bytes and this size, by what SQLite's file format says of both."""
    if not size_bytes:
        return ""
    if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
        return "is no database any more"
    page_bytes = int.from_bytes(head[16:18], "big")
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    if not page_bytes or size_bytes % page_bytes:
        return "is cut off"
    return ""


def find_last_words(log_file: str) -> str:
    """The last warning or error that a daemon in the background wrote into its log, empty if there is none."""
    try:
        with open(log_file, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return find_complaint(lines)


def find_complaint(lines: Sequence[str]) -> str:
    """The last line that a daemon wrote as a warning or an error, or that says why it did not start."""
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
            return ": ".join(str(event[key]) for key in ("event", "reason") if event.get(key))
    return ""
