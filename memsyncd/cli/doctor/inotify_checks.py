"""Check how near the processes of this user come to the limits of inotify.

The limits come from /proc/sys; without it there are no findings.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memsyncd.cli.doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memsyncd.cli.doctor.process_checks import Process

SYSCTLS = "/proc/sys"
NEAR_LIMIT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Inotify:
    """The kernel's limits for one user."""

    max_watches: int
    max_instances: int


def read_inotify(folder: str = SYSCTLS) -> Inotify | None:
    """Return the kernel's limits, None without inotify. A container's own limits may be lower than
    the machine's.
    """
    watches = _read_numbers(
        f"{folder}/fs/inotify/max_user_watches", f"{folder}/user/max_inotify_watches"
    )
    instances = _read_numbers(
        f"{folder}/fs/inotify/max_user_instances", f"{folder}/user/max_inotify_instances"
    )
    return (
        Inotify(max_watches=min(watches), max_instances=min(instances))
        if watches and instances
        else None
    )


def _read_numbers(*paths: str) -> list[int]:
    found = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            found.append(int(file.read()))
    return found


def check_inotify(
    limits: Inotify | None, processes: Sequence[Process], *, daemon_pid: int | None
) -> list[Finding]:
    """Check whether the user's processes come near the limits of inotify."""
    if limits is None:
        return []
    n_watches = sum(process.n_watches for process in processes)
    n_instances = sum(process.n_instances for process in processes)
    own = sum(process.n_watches for process in processes if process.pid == daemon_pid)
    found = []
    for what, used, most, name in (
        ("watches", n_watches, limits.max_watches, "max_user_watches"),
        ("instances", n_instances, limits.max_instances, "max_user_instances"),
    ):
        if used < most * NEAR_LIMIT:
            continue
        largest = max(
            processes,
            key=lambda process: (
                process.n_watches if name == "max_user_watches" else process.n_instances
            ),
        )
        message = (
            f"{used:,} of {most:,} inotify {what} are in use,"
            f" most by {largest.name} (pid {largest.pid})"
        )
        remedy = (
            f"sudo sysctl fs.inotify.{name}={max(most * 4, 1024)};"
            " to make it permanent, write it to /etc/sysctl.d/60-inotify.conf"
        )
        found.append(Finding("warning", "inotify", message, remedy))
    message = (
        f"{n_watches:,} of {limits.max_watches:,} inotify watches are in use, {own:,} by the daemon"
    )
    return found or [Finding("ok", "inotify", message)]
