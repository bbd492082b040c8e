"""Which workspaces are there, and how are their files, as far as the disk alone can tell? For when no daemon can be asked.

The list is the one that the daemon keeps. Databases are not opened, which is the daemon's alone to do: their first bytes say
whether they are databases at all, and whole.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsyncd.cli.doctor.findings import Finding
from memsyncd.cli.doctor.places import find_silent, judge_silent

if TYPE_CHECKING:
    from collections.abc import Sequence

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
