"""What does a command get to work with? The terminal, the environment, and the daemon: asked only if the command asks.

A question about "the" workspace means the one named with -w, else that of the current folder, else the only one.
"""

from __future__ import annotations

import os

from memsyncd.client import TIMEOUT_S, connect
from memsyncd.errors import MemsyncdError, WorkspaceNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memsyncd.cli.terminal import Terminal
    from memsyncd.client import Client

# What bounds an answer that may take long is the question's own `timeout_ms`; the client then waits a little longer.
GRACE_S = 2.0


class Console:
    """`cwd` is the current folder, empty if it is gone."""

    __slots__ = ("_client", "cwd", "env", "terminal")

    def __init__(self, terminal: Terminal, env: Mapping[str, str]) -> None:
        self.terminal = terminal
        self.env = env
        self.cwd = _find_cwd()
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The connection, made when first asked for. Raises NoDaemon."""
        if self._client is None:
            self._client = self.connect()
        return self._client

    def connect(self) -> Client:
        """One more connection."""
        return connect(env=self.env, timeout_s=TIMEOUT_S)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def wait_for(self, timeout_ms: int | None) -> None:
        """Let answers take as long as this question may."""
        if timeout_ms is not None:
            self.client.timeout_s = timeout_ms / 1000 + GRACE_S

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Ask the daemon, of no workspace in particular."""
        return self.client.call(method, **params)

    def ask_about(self, workspace: str | None, method: str, **params: object) -> dict[str, Any]:
        """Ask about the workspace that was named, or else about the one that is meant here."""
        if workspace is not None:
            return self.client.call(method, workspace=self.name_workspace(workspace), **params)
        try:
            return self.client.call(method, workspace=self.cwd or None, **params)
        except WorkspaceNotFound:
            return self._ask_the_only_one(method, params)

    def find_workspace(self, workspace: str | None) -> dict[str, Any]:
        """The status of the workspace that was named, or else of the one that is meant here."""
        answer = self.ask_about(workspace, "status")
        infos: list[dict[str, Any]] = answer["workspaces"]
        if len(infos) != 1:
            # Asked of no workspace, `status` tells of all of them instead of saying that this is no choice.
            raise _find_choice([str(info["name"]) for info in infos], MemsyncdError("no such workspace"))
        return infos[0]

    def name_workspace(self, text: str) -> str:
        """A workspace as the daemon takes it, which knows nothing of our current folder: folders become absolute."""
        if text.startswith(("/", ".", "~")):
            return os.path.abspath(os.path.expanduser(text))
        return text

    def _ask_the_only_one(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.client.call(method, **params)
        except WorkspaceNotFound as error:
            names = [str(info["name"]) for info in self.ask("workspace.list")["workspaces"]]
            raise _find_choice(names, error) from error


def _find_choice(names: list[str], error: MemsyncdError) -> MemsyncdError:
    if not names:
        return WorkspaceNotFound("there is no workspace yet", hint="add a folder with `memsyncd add PATH`")
    if len(names) == 1:
        return error
    shown = ", ".join(sorted(names)[:8]) + (", …" if len(names) > 8 else "")
    return WorkspaceNotFound("the current folder lies in no workspace", hint=f"name one with -w: {shown}")


def _find_cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""
