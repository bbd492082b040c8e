"""Which workspace does a program mean, and over which connection does it ask? Found once, and kept while the daemon answers."""

from __future__ import annotations

import os

from memsyncd.client.connection import Client, connect
from memsyncd.errors import NoDaemon, WorkspaceNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

GRACE_S = 2.0
"""What is added to the time that the daemon has for an answer, so that its own refusal arrives."""
LONGEST_MS = 600_000
"""The daemon takes no longer time for an answer."""


class Link:
    """A connection about one workspace: `workspace` is its id, `name` and `root` are what `status` calls so.

    Raises NoDaemon if no daemon answers, WorkspaceNotFound if there is no such workspace.
    """

    __slots__ = ("_connection", "_env", "client_name", "name", "root", "timeout_s", "workspace")

    def __init__(
        self, workspace: str | os.PathLike[str] | None, client_name: str, timeout_s: float, env: Mapping[str, str] | None
    ) -> None:
        self.client_name = client_name
        self.timeout_s = timeout_s
        self._env = env
        self._connection: Client | None = None
        try:
            info = self._find_workspace(workspace)
        except BaseException:
            self.close()
            raise
        self.workspace, self.name, self.root = str(info["id"]), str(info["name"]), str(info["root"])

    def connect(self) -> Client:
        """One more connection."""
        return connect(env=self._env, timeout_s=self.timeout_s)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, method: str, params: Mapping[str, object], *, time_s: float | None = None) -> Any:
        """The answer about the workspace. Parameters that are None are left out; `time_s` is what the daemon may take."""
        if time_s is None:
            return self._call(method, self.timeout_s, workspace=self.workspace, **params)
        timeout_ms = min(max(1, round(time_s * 1000)), LONGEST_MS)
        return self._call(method, time_s + GRACE_S, workspace=self.workspace, timeout_ms=timeout_ms, **params)

    def write(self, method: str, params: Mapping[str, object]) -> Any:
        """The answer to a write, which bears the writer's name; the daemon gives it up when the time is up, and says so."""
        return self.ask(method, {**params, "client": self.client_name}, time_s=self.timeout_s)

    def _call(self, method: str, timeout_s: float, **params: object) -> dict[str, Any]:
        if self._connection is None:
            self._connection = self.connect()
        try:
            return self._connection.wait(self._connection.send(method, **params), timeout_s=timeout_s)
        except NoDaemon:
            # It may be back for the next question. This one is not put again: it may have been carried out.
            self.close()
            raise

    def _find_workspace(self, workspace: str | os.PathLike[str] | None) -> dict[str, Any]:
        if workspace is not None:
            return self._read_status(name_workspace(workspace))
        try:
            return self._read_status(os.getcwd())
        except (WorkspaceNotFound, FileNotFoundError):
            known = self._call("workspace.list", self.timeout_s)["workspaces"]
        if len(known) == 1:
            return dict(known[0])
        names = ", ".join(sorted(str(info["name"]) for info in known))
        raise WorkspaceNotFound(
            "the current folder lies in no workspace", hint=f"name one of: {names}" if names else "add one: `memsyncd add PATH`"
        )

    def _read_status(self, workspace: str) -> dict[str, Any]:
        return dict(self._call("status", self.timeout_s, workspace=workspace)["workspaces"][0])


def name_workspace(workspace: str | os.PathLike[str]) -> str:
    """A workspace as the daemon takes it, which knows nothing of our current folder: folders become absolute."""
    text = os.fspath(workspace)
    is_folder = not isinstance(workspace, str) or text.startswith(("/", ".", "~"))
    return os.path.abspath(os.path.expanduser(text)) if is_folder else text
