"""Find other daemons beside the daemon that answers: of an old version that knows no lock, or of
the same home with another state folder.

The processes in /proc, if there is one, and the sockets that a client would try reveal them.
"""

from __future__ import annotations

import os
import sys

from memsyncd.client.connection import Client, find_sockets
from memsyncd.dirs import find_dirs, find_user_dirs
from memsyncd.errors import MemsyncdError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROC = "/proc"
ANSWER_S = 1.0


class OtherDaemon:
    """A daemon beside ours. `state_dir` is empty if only its socket was found. If it
    `shares_folders`, it writes the same history or the same indexes.
    """

    __slots__ = ("pid", "shares_folders", "state_dir", "version")

    def __init__(self, pid: int, version: str, state_dir: str, *, shares_folders: bool) -> None:
        self.pid = pid
        self.version = version
        self.state_dir = state_dir
        self.shares_folders = shares_folders

    def describe(self) -> str:
        """Return its pid and version, and what it writes."""
        name = f"daemon (pid {self.pid}, version {self.version})"
        if self.shares_folders:
            return f"a second {name} writes the same history and indexes"
        place = f" with its state in {self.state_dir}" if self.state_dir else ""
        return f"another {name} runs{place}"


def find_other_daemons(
    env: Mapping[str, str], own_pid: int, *, proc: str = PROC
) -> list[OtherDaemon]:
    """Return this user's other daemons with the same home or the same folders that answer.

    A daemon that does not answer may have just been started, and will find our lock in a moment.
    """
    others: dict[int, OtherDaemon] = {}
    home = env.get("HOME") or os.path.expanduser("~")
    dirs = find_user_dirs(env)
    for pid, its_env in _list_daemons(proc):
        its_home = its_env.get("HOME", home)
        try:
            its_dirs = find_dirs(its_env, its_home, sys.platform)
        except MemsyncdError:
            continue
        is_sharing = its_dirs.state_dir == dirs.state_dir or its_dirs.cache_dir == dirs.cache_dir
        if pid != own_pid and (is_sharing or its_home == home):
            versions = dict(_ping_each(find_sockets(its_env)))
            if pid in versions:
                place = its_dirs.state_dir
                others[pid] = OtherDaemon(pid, versions[pid], place, shares_folders=is_sharing)
    for pid, version in _ping_each(find_sockets(env)):
        if pid != own_pid and pid not in others:
            others[pid] = OtherDaemon(pid, version, "", shares_folders=False)
    return list(others.values())


def is_daemon(words: Sequence[str]) -> bool:
    """Return whether the words of a process look like `memsyncd run`."""
    return "run" in words and any(
        os.path.basename(word) in ("memsyncd", "__main__.py") for word in words
    )


def _list_daemons(proc: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the pid and the environment of each daemon of this user in this container."""
    try:
        pids = [name for name in os.listdir(proc) if name.isdecimal()]
    except OSError:
        return
    for pid in pids:
        try:
            if os.stat(f"{proc}/{pid}").st_uid != os.geteuid():
                continue
            # A program such as `timeout` has the words of the daemon that it runs.
            is_python = "python" in os.path.basename(os.readlink(f"{proc}/{pid}/exe"))
            words = _read_words(f"{proc}/{pid}/cmdline") if is_python else []
            if is_daemon(words) and _is_in_container(proc, pid):
                words = _read_words(f"{proc}/{pid}/environ")
                yield int(pid), dict(word.split("=", 1) for word in words if "=" in word)
        except OSError:
            continue  # it has ended


def _read_words(path: str) -> list[str]:
    with open(path, "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0") if word]


def _is_in_container(proc: str, pid: str) -> bool:
    """Return whether the process is in our mount namespace; True if the system does not say."""
    try:
        return os.readlink(f"{proc}/{pid}/ns/mnt") == os.readlink(f"{proc}/self/ns/mnt")
    except OSError:
        return True


def _ping_each(paths: Sequence[str]) -> Iterator[tuple[int, str]]:
    for path in paths:
        try:
            with Client(path, ANSWER_S) as client:
                pong = client.call("ping")
            yield int(pong["pid"]), str(pong["version"])
        except (MemsyncdError, LookupError, TypeError, ValueError):
            continue
