"""Check connected agents: whether their files are current, and whether the daemon answers to the
command that they run, in the environment that they give it.
"""

from __future__ import annotations

import contextlib
import subprocess

import memsyncd
from memsyncd.cli.agent_files import ClientFile, find_path, read_config, split_bom
from memsyncd.client.connection import encode_json, parse_json
from memsyncd.dirs import VARIABLES
from memsyncd.errors import EditRefused, MemsyncdError
from memsyncd.integrations.coding_agents import (
    AgentClient,
    ConfiguredServer,
    Invocation,
    list_untrusted_hooks,
)
from memsyncd.integrations.config_edit import Unreadable
from memsyncd.operations.status.show import list_daemon_warnings
from memsyncd.terminal.terminal import clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memsyncd.terminal.console import Console

ANSWER_S = 30
LABEL_WIDTH = 12
"""Columns of the label of a line."""


class AgentCheck:
    """How an agent is connected: the state of each file by its path, the command of the server,
    its answer or an error, variables that the agent drops, and hooks that it skips.
    """

    def __init__(
        self,
        client: AgentClient,
        targets: list[ClientFile],
        program: Invocation,
        asker: ServerAsker,
        console: Console,
    ) -> None:
        self.client = client
        self.states = {
            target.path: target.find_state(program)
            for target in targets
            if target.pieces or target.is_installed(program)
        }
        server: ConfiguredServer | None = None
        for target in targets:
            if target.text and self.states.get(target.path, "missing") != "missing":
                server = server or target.read_server()
        self.command = server.command if server is not None else []
        self.untrusted = _list_untrusted_hooks(client, targets, program, console)
        env = _find_server_env(client, server, console)
        self.lost = [name for name in VARIABLES if console.env.get(name) and name not in env]
        self.answer: dict[str, Any] = {}
        self.error = "no server is configured"
        if self.command:
            self.answer, self.error = asker.ask(self.command, env)
        self.is_fine = not self.error and {*self.states.values()} <= {"current"}

    def to_json(self) -> dict[str, Any]:
        return {
            "is_connected": self.is_fine,
            "files": [{"path": path, "state": state} for path, state in self.states.items()],
            "command": self.command,
            "lost_variables": self.lost,
            "untrusted_hooks": self.untrusted,
            "server": self.answer.get("version"),
            "tools": self.answer.get("tools", []),
            "error": self.error or None,
        }

    def render(self) -> list[str]:
        """Return all that was found, for `--check`: lines whose text begins at LABEL_WIDTH."""
        lines = [f"  {state:<9} {clean_line(path)}" for path, state in self.states.items()]
        if self.untrusted:
            names, title = ", ".join(self.untrusted), self.client.title
            lines.append(
                f"  {'untrusted':<9} hooks on {names}: {title} skips them silently until you trust"
                f" them: start {title} and enter /hooks"
            )
        if self.command:
            tools = ", ".join(self.answer.get("tools", []))
            said = self.error or f"memsyncd {self.answer['version']} answers: {tools}"
            lines.append(f"  {'server':<9} {clean_line(' '.join(self.command))}")
            if self.lost:
                names = ", ".join(self.lost)
                lines.append(f"  {'dropped':<9} {self.client.title} does not pass on {names}")
            lines.append(f"  {'answer':<9} {clean_line(said)}")
        if self.is_fine:
            lines.append(f"  {'look':<9} {self.client.verify}")
        return lines


class ServerAsker:
    """Runs the commands of agents as the agents would; the same command in the same environment
    once.
    """

    def __init__(self, console: Console) -> None:
        self._cwd = console.cwd
        self._answers: dict[tuple[object, ...], tuple[dict[str, Any], str]] = {}

    def ask(self, command: list[str], env: dict[str, str]) -> tuple[dict[str, Any], str]:
        """Return the server's version and tools, and an error."""
        words = [word.replace("${workspaceFolder}", self._cwd) for word in command]
        key = (*words, *sorted(env.items()))
        if key not in self._answers:
            self._answers[key] = ask_server(words, env)
        return self._answers[key]


def ask_server(words: list[str], env: dict[str, str]) -> tuple[dict[str, Any], str]:
    """Run a command of an MCP server. Return its version and tools, and an error."""
    about = {"name": "memsyncd integrate --check", "version": memsyncd.__version__}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    sent = "".join(encode_json(line) + "\n" for line in lines)
    try:
        done = subprocess.run(
            words,
            input=sent.encode(),
            env=env,
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
        )
    except OSError as error:
        return {}, f"it cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return {}, f"it does not answer within {ANSWER_S} s"
    return _read_server(done)


def read_warnings(console: Console) -> list[str]:
    """Return warnings about the daemon; none if it does not answer: `ask_server` reports that."""
    try:
        return list_daemon_warnings(console.call("status"), console)
    except MemsyncdError:
        return []


def _list_untrusted_hooks(
    client: AgentClient, targets: list[ClientFile], program: Invocation, console: Console
) -> list[str]:
    """Return the events of the hooks that the client skips until the user trusts them."""
    if not client.trust_file:
        return []
    events: list[str] = []
    # The check has already named each file that cannot be read. Only a user's own file in the scope
    # of a project is passed over.
    with contextlib.suppress(EditRefused, Unreadable):
        trust = split_bom(read_config(find_path(client.trust_file, console)))[1]
        for target in targets:
            if target.path.endswith("hooks.json"):
                text, pieces = split_bom(target.text)[1], target.all_pieces
                events += list_untrusted_hooks(trust, target.path, text, pieces, program)
    return events


def _find_server_env(
    client: AgentClient, server: ConfiguredServer | None, console: Console
) -> dict[str, str]:
    """Return the environment that the client gives its server."""
    if server is None:
        return dict(console.env)
    names = {*client.passes, *server.names} if client.passes else set(console.env)
    passed = {name: value for name, value in console.env.items() if name in names}
    return {**passed, **server.variables}


def _read_server(done: subprocess.CompletedProcess[bytes]) -> tuple[dict[str, Any], str]:
    facts: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            message: Any = parse_json(line.decode())
            if "error" in message:
                return {}, str(message["error"]["message"])
            if message.get("id") == 1:
                facts["version"] = message["result"]["serverInfo"]["version"]
            elif message.get("id") == 2:
                facts["tools"] = [tool["name"] for tool in message["result"]["tools"]]
    version = facts.get("version")
    if version not in {None, memsyncd.__version__}:
        message = f"a daemon of version {version} answers, but this is {memsyncd.__version__}"
        return facts, f"{message}: memsyncd restart"
    if len(facts) < 2:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return {}, f"it ended with status {done.returncode}" + "".join(f": {line}" for line in last)
    return facts, ""
