"""Find a workspace, and keep one connection for requests about it.

A connection survives a restart of the daemon and a fork of the process; threads take turns.
"""

from __future__ import annotations

import _thread
import os

from memsyncd.client.connection import Client, NoAnswer, connect
from memsyncd.client.words import name_workspace
from memsyncd.errors import NoDaemon, WorkspaceNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# The client waits so much longer than the daemon, so that it gets the daemon's refusal.
GRACE_S = 2.0
# The longest `timeout_ms` that the daemon accepts.
LONGEST_MS = 600_000


class WorkspaceConnection:
    """A connection for requests about one workspace. `workspace` is its id; `name` and `root` are
    as in `status`.

    Raises NoDaemon if no daemon answers, WorkspaceNotFound if there is no such workspace.
    """

    __slots__ = (
        "_client",
        "_env",
        "_lock",
        "_pid",
        "client_name",
        "name",
        "root",
        "timeout_s",
        "workspace",
    )

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None,
        client_name: str,
        timeout_s: float,
        env: Mapping[str, str] | None,
    ) -> None:
        self.client_name = client_name
        self.timeout_s = timeout_s
        self._env = env
        self._client: Client | None = None
        # `threading` would be one more import. The lock is reentrant, so that a handler of a signal
        # can call the daemon, too.
        self._lock, self._pid = _thread.RLock(), os.getpid()
        try:
            info = self._find_workspace(workspace)
        except BaseException:
            self.close()
            raise
        self.workspace, self.name, self.root = str(info["id"]), str(info["name"]), str(info["root"])

    def connect(self) -> Client:
        """Open another connection."""
        return connect(env=self._env, timeout_s=self.timeout_s)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(self, method: str, params: Mapping[str, object], *, time_s: float | None = None) -> Any:
        """Call a method about the workspace. Parameters that are None are not sent. `time_s` is the
        daemon's time limit.
        """
        params = {"workspace": self.workspace, **params}
        if time_s is None:
            return self._call(method, self.timeout_s, **params)
        timeout_ms = min(max(1, round(time_s * 1000)), LONGEST_MS)
        return self._call(method, time_s + GRACE_S, timeout_ms=timeout_ms, **params)

    def write(self, method: str, params: Mapping[str, object]) -> Any:
        """Call a method that writes, with the writer's name. After the timeout the daemon gives up,
        and its error says so.
        """
        return self.ask(method, {**params, "client": self.client_name}, time_s=self.timeout_s)

    def _call(self, method: str, timeout_s: float, **params: object) -> dict[str, Any]:
        if self._pid != os.getpid():
            # On one connection, a process and its fork would read each other's answers. Also, the
            # fork lacks the thread that may have held the lock.
            self._lock, self._pid = _thread.RLock(), os.getpid()
            self.close()
        with self._lock:
            if self._client is None:
                self._client = self.connect()
            try:
                return self._client.wait(self._client.send(method, **params), timeout_s=timeout_s)
            except (NoDaemon, NoAnswer):
                # The next call connects again, and the daemon ends a read that nobody waits for.
                # This call is not repeated, because the daemon may have executed it.
                self.close()
                raise

    def _find_workspace(self, workspace: str | os.PathLike[str] | None) -> dict[str, Any]:
        if workspace is not None:
            return self._read_status(name_workspace(workspace))
        try:
            return self._read_status(os.getcwd())
        except (WorkspaceNotFound, FileNotFoundError):
            listed = self._call("workspace.list", self.timeout_s)["workspaces"]
            listed = [info for info in listed if not info["user"]] or listed
        if len(listed) == 1:
            return dict(listed[0])
        names = ", ".join(sorted(str(info["name"]) for info in listed))
        raise WorkspaceNotFound(
            "the current folder is in no workspace",
            hint=f"name one of: {names}" if names else "add one: `memsyncd add PATH`",
        )

    def _read_status(self, workspace: str) -> dict[str, Any]:
        return dict(self._call("status", self.timeout_s, workspace=workspace)["workspaces"][0])


def choose_workspace(client: Client, workspace: str | os.PathLike[str] | None) -> str | None:
    """Return a workspace's name for the daemon. Without `workspace` it is the current folder if
    this is in a workspace; else None, which stands for the only workspace.
    """
    if workspace is not None:
        return name_workspace(workspace)
    try:
        folder = os.getcwd()
        client.call("status", workspace=folder)
    except (WorkspaceNotFound, FileNotFoundError):
        return None
    return folder
