"""No option of any command is accepted and ignored.

The tests walk all commands by their definitions. An option that takes one value is refused the
second time. An option changes the requests of its command, or `ELSEWHERE` names its other effect.
All parameters that are sent are parameters of the method.
"""

from __future__ import annotations

import ast
import io
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import memsyncd
from memsyncd.cli.commands import ENTRIES, load_command
from memsyncd.cli.main import main
from memsyncd.errors import BadRequest
from memsyncd.operations.table import OPERATIONS
from memsyncd.terminal.parser import (
    EVERYWHERE,
    TAKES_SEVERAL,
    Argument,
    Command,
    Option,
    parse_command,
)


def list_commands() -> Iterator[tuple[str, Command]]:
    for name in ENTRIES:
        command = load_command(name)
        if not any(argument.choices and command.commands for argument in command.arguments):
            yield name, command
        for word, subcommand in command.commands.items():
            yield f"{name} {word}", subcommand


COMMANDS = dict(list_commands())
OPTIONS = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in command.options
    if option not in EVERYWHERE
]

# Values by the flag, or by their name in the help.
VALUES = {
    "--max-tokens": "500",
    "--max-bytes": "4000",
    "N": "3",
    "MS": "4000",
    "WS": "other",
    "S": "0.5",
    "I": "0.5",
    "D": "2026-01-31",
    "DAY": "2026-01-31",
    "TIME": "12h",
    "A-B": "2-4",
    "KEY=VALUE": "owner=infra",
    "QUESTION=ANSWER": "why=because",
    "KIND=NOTE": "part_of=platform",
    "NAME=TEXT": "status=done",
    "PATH[=TAG,TAG]": "docs/rules.md=index:rules",
}


def make_words(option: Option) -> list[str]:
    if not option.metavar:
        return [option.flags[-1]]
    flag = option.flags[-1]
    if option.metavar == "TEMPLATE":
        # Its help has an example, whose fields the command knows.
        return [f"{flag}={option.help.split(chr(39))[1]}"]
    value = VALUES.get(flag, VALUES.get(option.metavar, "word"))
    return [f"{flag}={option.choices[-1] if option.choices else value}"]


def make_argument(argument: Argument) -> str:
    return argument.choices[0] if argument.choices else ARGUMENTS.get(argument.usage, "a.md#b")


# Arguments by their form in the help.
ARGUMENTS = {
    "NUMBER…": "12",
    "LINE": "3",
    "NOTE": "/memories/a.md",
    "[NOTE]": "/memories/a.md",
    "OLD": "/memories/a.md",
    "NEW": "/memories/b.md",
    "[SESSION]": "s-1",
    "PATH": ".",
    "WS": "other",
}


def test_an_option_that_takes_one_value_is_refused_the_second_time() -> None:
    for name, option in OPTIONS:
        command = COMMANDS[name]
        words = [*map(make_argument, command.arguments), *make_words(option), *make_words(option)]
        if option.is_repeated:
            assert len(getattr(parse_command(name, command, words), option.name)) == 2
            continue
        with pytest.raises(BadRequest) as caught:
            parse_command(name, command, words)
        assert f"{option.flags[-1]} is given twice" in caught.value.message, name


def test_the_error_names_the_commands_that_take_several_workspaces() -> None:
    names = [name for name, option in OPTIONS if option.name == "workspace" and option.is_repeated]
    assert set(names) == {*TAKES_SEVERAL.replace(" and ", ", ").split(", ")}


def test_a_letter_and_its_option_mean_the_same_in_every_command() -> None:
    meanings: dict[str, set[str]] = {}
    for _, option in [*OPTIONS, *(("", option) for option in EVERYWHERE)]:
        *letters, flag = option.flags
        meanings.setdefault(flag, set()).add("".join(letters))
        for letter in letters:
            meanings.setdefault(letter, set()).add(flag)
    # Hits of a list, or lines of a log.
    assert meanings.pop("-n") == {"--limit", "--lines"}
    # A log, or a relation.
    assert meanings.pop("--follow") == {"-f", ""}
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def test_an_option_takes_a_value_in_every_command_or_in_none() -> None:
    kinds: dict[str, set[bool]] = {}
    for _, option in OPTIONS:
        kinds.setdefault(option.flags[-1], set()).add(bool(option.metavar))
    # A relation or a log is followed; a glob or a session is read only; a plan is shown, or done.
    known = {"--follow", "--read-only", "--plan"}
    assert {flag for flag, found in kinds.items() if len(found) > 1} == known


def test_a_command_that_reads_a_workspace_takes_w_and_all_unless_it_names_a_place() -> None:
    for name, command in COMMANDS.items():
        flags = {flag for option in command.options for flag in option.flags}
        assert "--all" not in flags or "-w" in flags, name
        if command.lists and name != "discover":
            needs_place = any(argument.is_needed for argument in command.arguments)
            is_query = name == "search"
            assert (needs_place and not is_query) or flags >= {"-w", "--all"}, name
    every = [option for _, option in OPTIONS if "--all" in option.flags]
    assert all("all workspaces" in option.help and not option.metavar for option in every)


def test_a_command_reads_only_what_some_command_declares() -> None:
    declared = {
        item.name
        for command in COMMANDS.values()
        for item in (*command.arguments, *command.options)
    }
    declared |= {item.name for name in ENTRIES for item in load_command(name).arguments}
    declared |= {"params", "typed"}
    package = Path(memsyncd.__file__).parent
    for module in (*package.glob("cli/**/*.py"), *package.glob("operations/*/show.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "args":
                assert node.attr in declared, f"{module.name}:{node.lineno}: args.{node.attr}"


# --- what is sent ---------------------------------------------------------------------------------

# Other words than those from `ARGUMENTS` for a command, or for a command with one option: an option
# may need another option, or exclude an argument.
WORDS = {
    "choose": "a.md#b --keep this",
    "choose --keep": "a.md#b",
    "get": "a.md",
    "search": "redis",
    "context": "redis",
    "recall": "redis",
    "links": "a.md",
    "links --dangling": "",
    "list --paths": "--notes",
    "list --format": "--notes",
    "list --names": "",
    "similar --text": "",
    "similar --stdin": "",
    "similar --topic": "",
    "similar --duplicates": "",
    "similar --path": "--duplicates",
    "promote": "a.md#b --tag rule",
    "promote --tag": "a.md#b",
    "promote --task": "--tag rule",
    "capture": "build --error failed",
    "capture --error": "build --answer a=b",
    "capture --stdin": "build --answer a=b",
    "index-project": "",
    "triage --task": "--promote a.md#b",
    "triage --priority": "--promote a.md#b --task T-1",
    "task checkpoint": "Half. --task T-1",
    "task checkpoint --task": "Half. --session s-1",
    "signal inbox": "--agent ann",
    "signal inbox --agent": "--task T-1",
    "signal watch": "--agent ann",
    "signal watch --agent": "--task T-1",
    "signal ack": "12 --agent ann",
    "signal ack --agent": "12 --task T-1",
    "history purge": "a.md",
    "history purge --everything": "--yes",
    "history purge --containing": "",
    "diff": "a.md",
    "undo": "a.md",
    "undo --change-set": "",
    "history purge --change-set": "",
    "diff --change-set": "",
    "clear": "--yes",
    "clear --yes": "",
    "watch --all": "",
    "remember --stdin": "",
    "memory create --stdin": "/memories/a.md",
    "memory str_replace": "/memories/a.md old new",
    "memory str_replace --stdin": "/memories/a.md old",
    "memory insert --stdin": "/memories/a.md 3",
    "topic append --stdin": "auth status",
}
# Filters stand in place of names.
for _name in ("archive", "unarchive"):
    for _option in COMMANDS[_name].options:
        WORDS[f"{_name} {_option.flags[-1]}"] = "" if _option.name != "json" else "a.md#b"
    for _flag in ("--apply", "--plan", "--workspace", "--client", "--timeout-ms"):
        WORDS[f"{_name} {_flag}"] = "a.md#b"

# Effects of options that change no request.
ELSEWHERE = {
    "export --jsonl": "is the default",
    "--json": "prints the answer as it came",
    "--paths": "prints parts of the answer; tests/cli/transcripts/lists.txt",
    "--format": "prints parts of the answer; tests/cli/transcripts/lists.txt",
    **dict.fromkeys(("status --all", "problems --all", "patterns --all"), "is the default"),
    "history purge --yes": "answers the question of --everything; tests/cli/transcripts",
    "list --names": "prints the names alone",
    "signal inbox --ack": "acknowledges what the answer lists, with a request that follows it",
    "signal watch --ack": "acknowledges each signal once it is printed",
    "signal watch --type": "prints the signals of this type alone",
    "hook --timeout-ms": "limits how long the command waits",
    "hook --verbose": "says on stderr what is printed, or why nothing is",
    **dict.fromkeys(
        (f"{name} --ids" for name in ("search", "similar", "triage", "task")),
        "prints short ids as well; tests/daemon/test_change_a_memory.py",
    ),
    **dict.fromkeys(
        (f"{name} --stdin" for name in ("remember", "memory", "topic")),
        "names the source of the text, which is stdin anyway if no text is given",
    ),
}
SENT = {"metrics --json"}
# Commands that send no request, or do something else first.
LOCAL = {
    "init": "makes files; tests/cli/test_workspaces.py",
    "config": "tests/cli/test_main.py",
    "integrate": "writes files of other programs; tests/daemon/test_integrate.py",
    "completion": "prints a script",
    "run": "is the daemon",
    "start": "starts the daemon; tests/cli/test_transcripts.py",
    "stop": "",
    "restart": "",
    "service": "calls systemd or launchd; tests/service",
    "semantic": "changes the configuration; tests/cli/test_semantic.py",
    "doctor": "examines the machine first; tests/cli/test_doctor.py",
    "backup": "writes a file; tests/daemon/test_backup.py",
    "restore": "reads a file; tests/daemon/test_backup.py",
    "mcp": "copies lines; tests/daemon/test_mcp.py",
    "discover": "adds what the answer lists; tests/cli/test_workspaces.py",
    "ui": "opens a browser; tests/daemon/test_panel.py",
    "share": "starts a daemon where none runs; tests/daemon/test_share.py",
}
WALKED = [(name, option) for name, option in OPTIONS if name.split()[0] not in LOCAL]


# The JSON of a client, with which each hook sends a request.
HOOKED = {
    "prompt": "redis",
    "tool_name": "Bash",
    "error": "failed",
    "last_assistant_message": "We have decided to keep Redis. " * 9,
}


class Recorder:
    """A socket that answers like a daemon with one workspace, and refuses all other requests."""

    def __init__(self, path: str) -> None:
        self.requests: list[tuple[str, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            # A client asks for the version over a second connection while the first is open.
            threading.Thread(target=self._answer_all, args=(connection,), daemon=True).start()

    def _answer_all(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                method = request["method"]
                if method != "ping":
                    self.requests.append((method, request.get("params")))
                answer = {"jsonrpc": "2.0", "id": request["id"], **self._answer(method)}
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, method: str) -> dict[str, Any]:
        if method == "ping":
            return {"result": {"version": memsyncd.__version__, "pid": 1}}
        if method in ("workspace.list", "status"):
            workspace = {"id": "w1", "name": "notes", "root": "/nowhere", "state": "ready"}
            return {"result": {"workspaces": [{**workspace, "pending": 0}], "collections": []}}
        error = {"code": -32602, "message": "refused", "data": {"code": "bad_request"}}
        return {"error": error}

    def close(self) -> None:
        self._listener.close()


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        made = Recorder(f"{folder}/s")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", "/nowhere")
            patch.setenv("MEMSYNCD_SOCKET", f"{folder}/s")
            patch.chdir(folder)
            yield made
        made.close()


def run(words: list[str]) -> tuple[int, str, str]:
    """Run a command with text on stdin. Return its exit status, stdout and stderr."""
    reading, writing = os.pipe()
    os.write(writing, json.dumps(HOOKED).encode())
    os.close(writing)
    out, err = io.StringIO(), io.StringIO()
    with open(reading) as stdin, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        return main(words), out.getvalue(), err.getvalue()


def list_requests(recorder: Recorder, words: list[str]) -> list[tuple[str, Any]]:
    """Run a command and return its requests."""
    recorder.requests.clear()
    run(words)
    return list(recorder.requests)


def find_words(name: str, flag: str = "") -> list[str]:
    """Return the words of a command that is complete, or would be with this option."""
    for key in (f"{name} {flag}", name):
        if key in WORDS:
            return [*name.split(), *WORDS[key].split()]
    return [*name.split(), *map(make_argument, COMMANDS[name].arguments)]


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in WALKED))
def test_an_option_changes_what_is_sent_or_says_what_it_does_instead(
    recorder: Recorder, name: str
) -> None:
    for option in (option for command, option in WALKED if command == name):
        flag = option.flags[-1]
        words = find_words(name, flag)
        without = list_requests(recorder, words)
        sent = list_requests(recorder, [*words, *make_words(option)])
        assert without or sent, flag
        for method, params in sent:
            # A hook calls a tool of MCP.
            if method in OPERATIONS:
                msgspec.convert(params or {}, OPERATIONS[method].params)
        names = {f"{name} {flag}", f"{name.split(maxsplit=1)[0]} {flag}", flag}
        is_elsewhere = not names.isdisjoint(ELSEWHERE) and names.isdisjoint(SENT)
        assert (sent == without) is is_elsewhere, flag


@pytest.mark.parametrize(
    "name", dict.fromkeys(name for name, _ in WALKED if not name.startswith("hook "))
)
def test_without_a_daemon_a_command_exits_with_3_and_a_hint(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMSYNCD_SOCKET", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    status, out, err = run(find_words(name))
    assert (status, out) == (3, ""), err
    assert err.endswith("  → start it with `memsyncd start`\n")
