"""`memsyncd integrate` on the files of clients, and its check against the real daemon.

The command runs in this process, but where it asks on a terminal.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import memsyncd.__main__
from memsyncd.cli import agent_check
from memsyncd.cli.main import main
from memsyncd.dirs import find_user_dirs
from memsyncd.integrations.coding_agents import CAPTURE, CLIENTS, READ_TOOLS, READS

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home, Place

pytestmark = pytest.mark.shared_daemon

LIMIT_S = 60.0
PROGRAM = [sys.executable, "-m", "memsyncd"]
SCOPES = [(name, scope) for name, client in CLIENTS.items() for scope in client.scopes]
TOML = '# mine\nmodel = "m"  # keep\n\n[features]\nhooks = true\n'
JSON = '{\n    // mine\n    "theme": "dark",\n    "hooks": {"SessionStart": []},\n}\n'
STRICT = (
    '{"mcpServers": {"other": {"command": "a"}}, "mcp": {}, "instructions": ["A.md", "MEMORY.md"]}'
)
MARKDOWN = "# Rules\n\nBe kind."
BROKEN = {".json": '{"mcpServers": ', ".toml": "[mcp_servers\n"}


ask_server = agent_check.ask_server
_ANSWERS: dict[tuple[str, ...], tuple[dict[str, Any], str]] = {}


def ask_once(words: list[str], env: dict[str, str]) -> tuple[dict[str, Any], str]:
    """Ask as the program does, but the same command once for all tests: an answer takes long."""
    key = tuple(words)
    if key not in _ANSWERS:
        _ANSWERS[key] = ask_server(words, env)
    return _ANSWERS[key]


class Agent:
    """A home and a project of their own, for the files of a client."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        dropped = {"CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"}
        kept = {name: value for name, value in env.items() if name not in dropped}
        self.env = {**kept, "HOME": str(self.home)}
        # The state folder is the daemon's, which other tests share.
        self._earlier = set(self._list_records())

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        out, errors = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.project),
            mock.patch.object(
                agent_check, "ask_server", ask_once if "--check" not in words else ask_server
            ),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
            mock.patch.dict(os.environ, self.env, clear=True),
            mock.patch.object(sys, "argv", [memsyncd.__main__.__file__]),
        ):
            status = main(["integrate", *words])
        return subprocess.CompletedProcess(words, status, out.getvalue(), errors.getvalue())

    def read(self) -> dict[str, bytes]:
        """Every file, by its path."""
        root = self.home.parent
        files = (path for path in sorted(root.rglob("*")) if path.is_file())
        return {str(path.relative_to(root)): path.read_bytes() for path in files}

    def list_copies(self) -> dict[str, str]:
        """The copies of files from before, by the name of the file."""
        records = [path for path in self._list_records() if path not in self._earlier]
        copies = [path for path in records if not re.fullmatch(r"\w+\.json", path.name)]
        return {path.name.partition("-")[2]: path.read_text() for path in copies}

    def _list_records(self) -> list[Path]:
        return list((Path(find_user_dirs(self.env).state_dir) / "integrate").glob("*"))

    def list_targets(self, client: str, scope: str) -> list[Path]:
        """The files that the client's integration writes."""
        done = self.run(client, "--scope", scope, "--diff")
        assert done.returncode == 0, done.stderr
        found = re.findall(r"^\+\+\+ (/.*)$", done.stdout, re.MULTILINE)
        return [Path(path) for path in dict.fromkeys(found)]

    def write_own(self, client: str, scope: str) -> None:
        """Files as a user may have them."""
        for path in self.list_targets(client, scope):
            if "skills/memsyncd" in str(path) or path.stem == "memsyncd":
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            texts = {".toml": TOML, ".md": MARKDOWN}
            text = texts.get(path.suffix, STRICT if client == "opencode" else JSON)
            path.write_bytes(text.encode())


@pytest.fixture
def agent(tmp_path: Path, home: Home, daemon: Daemon) -> Agent:
    # The daemon, since a check would start one otherwise.
    assert daemon.process.poll() is None
    return Agent(tmp_path, home.env)


@pytest.mark.parametrize(("client", "scope"), SCOPES)
@pytest.mark.parametrize("extra", ["", CAPTURE, READS])
def test_integrate_and_remove_leave_each_byte(
    agent: Agent, client: str, scope: str, extra: str
) -> None:
    more = {"": [], CAPTURE: ["--capture"], READS: ["--allow-reads"]}[extra]
    if extra and scope not in CLIENTS[client].extras.get(extra, {}):
        assert agent.run(client, "--scope", scope, "--yes", *more).returncode == 2
        return
    agent.write_own(client, scope)
    before = agent.read()
    words = (client, "--scope", scope, "--yes", *more)
    done = agent.run(*words)
    assert done.returncode == 0, done.stderr
    assert "✓ memsyncd answers" in done.stdout
    after = agent.read()
    assert after != before
    assert agent.run(*words).stderr == "nothing to change: connected\n"
    # A renewal keeps the extras.
    assert agent.run(client, "--scope", scope, "--yes").stderr == "nothing to change: connected\n"
    assert agent.read() == after
    assert agent.run(client, "--scope", scope, "--remove", "--yes").returncode == 0
    assert agent.read() == before
    assert agent.run(client, "--scope", scope, "--remove", "--yes").returncode == 0
    assert agent.read() == before


@pytest.mark.parametrize(("client", "scope"), SCOPES)
def test_in_an_empty_home_everything_goes_again(agent: Agent, client: str, scope: str) -> None:
    assert agent.run(client, "--scope", scope, "--yes").returncode == 0
    assert agent.read()
    assert agent.run(client, "--scope", scope, "--remove", "--yes").returncode == 0
    assert agent.read() == {}
    assert sorted(path.name for path in agent.home.parent.iterdir()) == ["home", "project"]
    assert not any(agent.project.iterdir())


def test_a_server_that_the_user_configured_comes_back(agent: Agent) -> None:
    path = agent.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    text = '{"theme": "dark", "mcpServers": {"memsyncd": {"command": "nc", "args": ["-U", "/s"]}}}'
    path.write_text(text)
    assert agent.run("gemini", "--yes").returncode == 0
    assert '"nc"' not in path.read_text()
    assert agent.run("gemini", "--remove", "--yes").returncode == 0
    assert path.read_text() == text


def test_an_update_keeps_the_copy_of_the_first_time(agent: Agent) -> None:
    agent.write_own("gemini", "user")
    before = agent.read()
    assert agent.run("gemini", "--yes").returncode == 0
    path = agent.home / ".gemini" / "settings.json"
    path.write_text(path.read_text().replace("hook user-prompt", "hook old-name"))
    assert "outdated" in agent.run("gemini", "--check").stdout
    assert agent.run("gemini", "--yes").returncode == 0
    assert agent.run("gemini", "--remove", "--yes").returncode == 0
    assert agent.read() == before


CODEX = '# mine\nmodel = "m"\n\n[mcp_servers.other]\ncommand = "true"\nenabled = false\n'


def test_what_codex_writes_stays_and_so_does_the_copy_from_before(agent: Agent) -> None:
    path = agent.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(CODEX)
    assert agent.run("codex", "--yes").returncode == 0
    own = path.read_text().removeprefix(CODEX)
    tui = '\n[tui]\nn = 1\n\n[projects."/p"]\ntrust_level = "trusted"\n'
    path.write_text(CODEX + own.rstrip("\n") + "\n" + tui)
    assert "current" in agent.run("codex", "--check").stdout
    done = agent.run("codex", "--remove", "--yes")
    assert done.returncode == 0
    assert path.read_text() == CODEX + tui
    assert agent.list_copies() == {"config.toml": CODEX}
    assert "a copy of the earlier text stays here: " in done.stderr
    # A later connection begins anew, from what is there then.
    assert agent.run("codex", "--yes").returncode == 0
    assert agent.run("codex", "--remove", "--yes").returncode == 0
    assert path.read_text() == CODEX + tui
    assert not agent.list_copies()


def test_a_renewal_never_brings_back_a_text_that_others_have_changed(agent: Agent) -> None:
    path = agent.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"theme": "dark"}')
    assert agent.run("gemini", "--yes").returncode == 0
    changed = json.loads(path.read_text()) | {"theme": "light"}
    changed["mcpServers"]["memsyncd"]["command"] = "/old/memsyncd"
    path.write_text(json.dumps(changed))
    assert agent.run("gemini", "--yes").returncode == 0
    assert agent.run("gemini", "--remove", "--yes").returncode == 0
    assert json.loads(path.read_text()) == {"theme": "light"}
    assert agent.list_copies() == {"settings.json": '{"theme": "dark"}'}


@pytest.mark.parametrize("is_renewed", [False, True])
def test_files_of_an_earlier_memsyncd_are_taken_over(agent: Agent, is_renewed: bool) -> None:
    path = agent.home / ".codex" / "config.toml"
    path.parent.mkdir()
    own = '[mcp_servers.memsyncd]\ncommand = "/old/memsyncd"\nargs = ["mcp"]\n'
    marks = "# memsyncd: begin (memsyncd integrate)\n", "# memsyncd: end\n"
    path.write_text(f"{CODEX}\n{marks[0]}{own}{marks[1]}")
    path.with_name("config.toml.before-memsyncd").write_text(CODEX)
    if is_renewed:
        assert agent.run("codex", "--yes").returncode == 0
        assert "# memsyncd" not in path.read_text()
        assert not path.with_name("config.toml.before-memsyncd").exists()
    assert agent.run("codex", "--remove", "--yes").returncode == 0
    assert path.read_text() == CODEX
    assert [path.name for path in path.parent.iterdir()] == ["config.toml"]
    assert not agent.list_copies()


def test_a_file_of_memsyncds_own_that_the_user_has_changed_leaves_a_copy(agent: Agent) -> None:
    assert agent.run("claude-code", "--yes").returncode == 0
    skill = agent.home / ".claude" / "skills" / "memsyncd" / "skills" / "memory" / "SKILL.md"
    for words in (("--yes",), ("--remove", "--yes")):
        mine = skill.read_text() + "\nAsk me first.\n"
        skill.write_text(mine)
        assert agent.run("claude-code", *words).returncode == 0
        assert agent.list_copies() == {"SKILL.md": mine}
    assert not (agent.home / ".claude").exists()


def test_a_section_that_another_client_reads_stays_until_that_is_removed(agent: Agent) -> None:
    rules = agent.project / "AGENTS.md"
    rules.write_text(MARKDOWN)
    for client in ("codex", "vscode"):
        assert agent.run(client, "--scope", "project", "--yes").returncode == 0
    assert agent.run("codex", "--scope", "project", "--remove", "--yes").returncode == 0
    assert "memory_search" in rules.read_text()
    assert "missing" not in agent.run("vscode", "--check").stdout
    assert agent.run("vscode", "--remove", "--yes").returncode == 0
    assert rules.read_text() == MARKDOWN


@pytest.mark.parametrize("client", CLIENTS)
def test_an_empty_folder_that_was_there_stays(agent: Agent, client: str) -> None:
    scope = next(iter(CLIENTS[client].scopes))
    folders = {path.parent for path in agent.list_targets(client, scope)}
    first = min(folders, key=lambda folder: len(folder.parts))
    first.mkdir(parents=True, exist_ok=True)
    before = sorted(agent.home.parent.rglob("*"))
    assert agent.run(client, "--yes").returncode == 0
    # A renewal does not take its own folders for the user's.
    assert agent.run(client, "--yes", *(["--capture"] if CAPTURE in CLIENTS[client].extras else []))
    assert agent.run(client, "--remove", "--yes").returncode == 0
    state = Path(find_user_dirs(agent.env).state_dir)
    own = {state, *state.parents}
    assert [path for path in sorted(agent.home.parent.rglob("*")) if path not in own] == before


# --- confirmation ---


def test_nothing_is_written_without_a_terminal_or_yes(agent: Agent) -> None:
    path = agent.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(CODEX)
    before = agent.read()
    done = agent.run("codex")
    assert done.returncode == 6
    assert "  change    ~/.codex/config.toml\n  create    ~/.codex/hooks.json\n" in done.stdout
    assert "to do this: memsyncd integrate codex --yes" in done.stderr
    shown = agent.run("codex", "--diff").stdout
    assert "+[mcp_servers.memsyncd]" in shown
    assert "hook session-start --client codex" in shown
    assert agent.read() == before


@pytest.mark.parametrize(
    "words",
    [
        ("--diff", "--remove"),
        ("--json",),
        ("--check", "--yes"),
        ("--check", "--capture"),
        ("--remove", "--capture"),
        ("--remove", "--service"),
        ("--diff", "--service"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(agent: Agent, words: tuple[str, ...]) -> None:
    done = agent.run("codex", *words)
    assert done.returncode == 2
    assert re.search("has no effect|do not go together", done.stderr)
    assert agent.read() == {}


def test_without_a_supervisor_the_service_is_refused_before_a_file_is_written(
    agent: Agent, tmp_path: Path
) -> None:
    agent.env["PATH"] = str(tmp_path / "no programs")
    done = agent.run("codex", "--yes", "--service")
    assert done.returncode == 2
    assert "this system has no systemd" in done.stderr
    assert agent.read() == {}
    assert agent.run("codex", "--yes").returncode == 0


def test_a_project_is_told_that_its_files_name_a_path_of_this_machine(
    agent: Agent, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    agent.env["PATH"] = str(programs)
    words = ("vscode", "--scope", "project", "--yes")
    assert "may not have this path" in agent.run(*words).stderr
    assert agent.run("vscode", "--scope", "project", "--remove", "--yes").returncode == 0
    programs.mkdir()
    (programs / "memsyncd").write_text("#!/bin/sh\n")
    (programs / "memsyncd").chmod(0o755)
    assert "not on the PATH" not in agent.run(*words).stderr


@pytest.mark.parametrize(("answer", "is_written"), [("y", True), ("", False), ("nr", False)])
def test_a_terminal_is_asked(agent: Agent, answer: str, is_written: bool) -> None:
    status, _, errors = answer_question(agent, f"{answer}\n", "codex")
    assert "Write 3 files? [y/N; d: show the text]" in errors
    assert (status == 0) == is_written
    assert bool(agent.read()) == is_written
    if is_written:
        errors = answer_question(agent, "y\n", "codex", "--remove")[2]
        assert "Delete 3 files? [y/N; d: show the text]" in errors
    assert agent.read() == {}


def test_an_agent_is_also_known_by_its_program(agent: Agent) -> None:
    for client, program in (("claude-code", "claude"), ("vscode", "code")):
        texts = [agent.run(name, "--diff").stdout for name in (client, program)]
        assert texts[0] == texts[1] != ""


def test_a_file_that_changes_while_the_user_is_asked_is_left(agent: Agent) -> None:
    path = agent.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(JSON)
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "integrate", "gemini"],
        cwd=agent.project,
        env=agent.env,
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.close(follower)
    assert process.stdout is not None
    # The screen is shown once the file is read.
    assert process.stdout.readline().startswith(b"Gemini CLI ")
    path.write_text("{}")
    os.write(leader, b"y\n")
    _, errors = process.communicate(timeout=LIMIT_S)
    os.close(leader)
    assert process.returncode == 6
    assert b"has changed meanwhile" in errors
    assert path.read_text() == "{}"
    assert not agent.list_copies()


# --- without a name ---


def add_programs(agent: Agent, folder: Path, *names: str) -> None:
    """Put programs of these names on the PATH, beside those that a shell needs."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    agent.env["PATH"] = f"{folder}:/nowhere"


def answer_question(agent: Agent, answer: str, *words: str) -> tuple[int, str, str]:
    """Run the command on a terminal, and answer its question."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "integrate", *words],
        cwd=agent.project,
        env=agent.env,
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(follower)
    os.write(leader, answer.encode())
    out, errors = process.communicate(timeout=LIMIT_S)
    os.close(leader)
    return process.returncode, out, errors


def test_every_agent_of_the_machine_is_connected_by_one_answer_and_disconnected_by_one(
    agent: Agent, tmp_path: Path
) -> None:
    add_programs(agent, tmp_path / "programs", "claude", "gemini", "opencode", "code")
    for client in ("gemini", "codex", "opencode"):
        agent.write_own(client, "user")
    settings = agent.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"model": "m", "permissions": {"allow": ["Read"]}}, indent=2))
    before = agent.read()
    screen = agent.run()
    assert screen.returncode == 6
    assert agent.read() == before
    titles = re.findall(r"^(\S.{12}) connect", screen.stdout, re.MULTILINE)
    # Codex has no program here, but a folder.
    assert [title.strip() for title in titles] == [
        *("Claude Code", "Codex", "Gemini CLI", "opencode", "VS Code")
    ]
    assert "not found     cursor\n" in screen.stdout
    assert max(map(len, screen.stdout.splitlines())) <= 80
    # The letter of an offer alone is no consent.
    assert answer_question(agent, "r\n")[0] == 6
    assert agent.read() == before
    status, out, errors = answer_question(agent, "d\nyr\n")
    assert status == 0, errors
    assert out.count("✓ memsyncd answers") == 5
    assert "+[mcp_servers.memsyncd]" in out  # the text, as the first answer wanted
    allowed = json.loads(settings.read_text())["permissions"]["allow"]
    prefix = "mcp__plugin_memsyncd_memsyncd__"
    assert allowed == ["Read", *(prefix + tool for tool in READ_TOOLS)]
    assert agent.run("--yes").stderr == "nothing to change: connected\n"
    checked = json.loads(agent.run("--check", "--json").stdout)
    assert [found["is_connected"] for found in checked["agents"]] == [True] * 5
    # Each client writes its own file meanwhile.
    edits = {
        settings: ('"m"', '"n"'),
        agent.home / ".codex" / "config.toml": ('model = "m"', 'model = "n"'),
        agent.home / ".gemini" / "settings.json": ('"dark"', '"light"'),
        agent.home / ".config" / "opencode" / "opencode.json": ('"A.md"', '"B.md"'),
    }
    expected = dict(before)
    for path, (old, new) in edits.items():
        name = str(path.relative_to(agent.home.parent))
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        expected[name] = before[name].replace(old.encode(), new.encode())
    assert agent.run("--remove", "--yes").returncode == 0
    left = agent.read()
    assert [name for name in expected if left.get(name) != expected[name]] == []
    assert set(left) == set(expected)
    assert agent.run("--remove", "--yes").stderr == "no agent is connected\n"


def test_an_agent_whose_file_is_broken_does_not_keep_the_others(
    agent: Agent, tmp_path: Path
) -> None:
    add_programs(agent, tmp_path / "programs", "gemini", "codex")
    path = agent.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(BROKEN[".json"])
    done = agent.run("--yes")
    assert done.returncode == 6
    assert (
        "Gemini CLI    cannot be connected\n  ~/.gemini/settings.json stays as it is" in done.stdout
    )
    assert "Codex         ✓ memsyncd answers" in done.stdout
    assert path.read_text() == BROKEN[".json"]


def test_without_any_agent_the_command_names_what_it_looked_for(
    agent: Agent, tmp_path: Path
) -> None:
    add_programs(agent, tmp_path / "programs")
    done = agent.run()
    assert done.returncode == 1
    assert "looked for claude, codex, " in done.stderr
    assert agent.read() == {}


def test_in_the_home_folder_no_file_of_a_project_is_written(agent: Agent, tmp_path: Path) -> None:
    add_programs(agent, tmp_path / "programs", "cursor", "code", "claude")
    agent.project = agent.home
    assert agent.run("claude-code", "--yes").returncode == 0
    screen = agent.run().stdout
    assert "Claude Code   connected in all projects\n" in screen
    assert "Cursor        connect in all projects\n" in screen
    assert "VS Code       connect in all projects\n" in screen


def test_a_renewal_replaces_the_note_that_opencode_read_by_its_plugin(agent: Agent) -> None:
    path = agent.home / ".config" / "opencode" / "opencode.json"
    assert agent.run("opencode", "--yes").returncode == 0
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "instructions": ["MEMORY.md"]}))
    assert "outdated" in agent.run("opencode", "--check").stdout
    assert agent.run("opencode", "--yes").returncode == 0
    assert json.loads(path.read_text()) == settings
    assert agent.run("opencode", "--remove", "--yes").returncode == 0
    # The note that the user has named stays.
    agent.write_own("opencode", "user")
    assert agent.run("opencode", "--yes").returncode == 0
    assert json.loads(path.read_text())["instructions"] == ["A.md", "MEMORY.md"]


# --- files that cannot be edited ---


# One client for each format; other clients' files are edited by the same code.
@pytest.mark.parametrize("client", ["codex", "gemini", "opencode"])
@pytest.mark.parametrize("fault", ["broken", "read-only", "folder", "latin", "hidden"])
def test_a_file_that_cannot_be_edited_stays_as_it_is(agent: Agent, client: str, fault: str) -> None:
    scope = next(iter(CLIENTS[client].scopes))
    path = agent.list_targets(client, scope)[0]
    path.parent.mkdir(parents=True)
    if fault == "folder":
        path.mkdir()
    elif fault == "latin":
        path.write_bytes(b'{"a": "\xe4"}')
    else:
        path.write_text(BROKEN[path.suffix] if fault == "broken" else "")
        path.chmod(0o444 if fault == "read-only" else 0o644)
    if fault == "hidden":
        path.write_text("# memsyncd: begin (memsyncd integrate)\n{")
    before = agent.read()
    done = agent.run(client, "--yes")
    assert done.returncode == 6, done.stdout
    assert f"{path} stays as it is: " in done.stderr
    assert "→" in done.stderr
    shown = agent.run(client, "--diff")
    assert shown.returncode == 0
    assert f"+++ {path}" in shown.stdout
    assert f"{path} stays as it is: " in shown.stderr
    assert agent.read() == before


@pytest.mark.parametrize("client", ["codex", "gemini", "vscode"])
def test_a_link_of_the_users_own_is_followed(agent: Agent, client: str) -> None:
    scope = next(iter(CLIENTS[client].scopes))
    agent.write_own(client, scope)
    path = agent.list_targets(client, scope)[0]
    real = path.rename(path.with_name("own.txt"))
    path.symlink_to(real.name)
    before = agent.read()
    assert agent.run(client, "--yes").returncode == 0
    assert agent.run(client, "--check").returncode == 0
    assert path.is_symlink()
    assert "own.txt" in agent.list_copies()
    assert agent.run(client, "--remove", "--yes").returncode == 0
    assert path.is_symlink()
    assert agent.read() == before


def test_a_link_out_of_a_project_is_not_followed(agent: Agent) -> None:
    real = agent.home / "own.md"
    real.write_text(MARKDOWN)
    (agent.project / "AGENTS.md").symlink_to(real)
    done = agent.run("vscode", "--yes")
    assert done.returncode == 6
    assert "out of the project" in done.stderr
    assert real.read_text() == MARKDOWN


@pytest.mark.parametrize(
    ("client", "name", "text"),
    [
        ("codex", ".codex/config.toml", TOML),
        ("gemini", ".gemini/settings.json", JSON),
        ("codex", ".codex/AGENTS.md", MARKDOWN),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_line_ends_and_byte_order_mark_stay(
    agent: Agent, client: str, name: str, text: str, mark: str, end: str, last: str
) -> None:
    path = agent.home / name
    path.parent.mkdir()
    data = (mark + (text.rstrip("\n").replace("    ", "\t") + last).replace("\n", end)).encode()
    path.write_bytes(data)
    assert agent.run(client, "--yes").returncode == 0
    written = path.read_bytes()
    assert written.startswith(mark.encode())
    assert end == "\n" or b"\n" not in written.replace(b"\r\n", b"")
    assert agent.run(client, "--remove", "--yes").returncode == 0
    assert path.read_bytes() == data


def test_the_mode_of_a_file_stays(agent: Agent) -> None:
    path = agent.home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text(JSON)
    path.chmod(0o600)
    assert agent.run("gemini", "--yes").returncode == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert agent.list_copies() == {"settings.json": JSON}
    folder = Path(find_user_dirs(agent.env).state_dir) / "integrate"
    copy = max(folder.glob("*-settings.json"), key=lambda path: path.stat().st_mtime_ns)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert copy.parent.stat().st_mode & 0o777 == 0o700


# --- check ---


@pytest.mark.parametrize("client", CLIENTS)
def test_the_check_asks_through_the_configured_command(
    place: Place, tmp_path: Path, client: str
) -> None:
    agent = Agent(tmp_path, place.home.env)
    agent.project = place.root
    # The daemon of this home, whatever home the client's files lie in.
    agent.env["MEMSYNCD_SOCKET"] = place.home.socket_path
    done = agent.run(client, "--check")
    assert done.returncode == 1
    assert "missing" in done.stdout
    assert agent.run(client, "--yes").returncode == 0
    done = agent.run(client, "--check", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, found
    assert found["is_connected"] is True
    assert "memory_search" in found["tools"]
    assert found["command"][-1] in ("mcp", "${workspaceFolder}")
    assert {file["state"] for file in found["files"]} == {"current"}
    assert "answers: memory_search" in agent.run(client, "--check").stdout


def test_the_check_runs_the_server_in_the_environment_that_the_client_gives(
    place: Place, tmp_path: Path
) -> None:
    agent = Agent(tmp_path, place.home.env)
    agent.project = place.root
    agent.env["MEMSYNCD_SOCKET"] = place.home.socket_path
    agent.env["MEMSYNCD_CONFIG"] = "/nowhere"
    agent.env["SECRET"] = "1"
    assert agent.run("codex", "--yes").returncode == 0
    path = agent.home / ".codex" / "config.toml"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nenv > "{tmp_path}/env"\nexec {" ".join(PROGRAM)} mcp\n')
    program.chmod(0o755)
    config = tomllib.loads(path.read_text())["mcp_servers"]["memsyncd"]
    own = config["command"]
    path.write_text(path.read_text().replace(f'"{own}"', f'"{program}"', 1) + 'env = { A = "b" }\n')
    found = json.loads(agent.run("codex", "--check", "--json").stdout)
    passed = (tmp_path / "env").read_text().splitlines()
    assert "A=b" in passed
    assert "SECRET=1" not in passed
    assert f"HOME={agent.home}" in passed
    assert f"MEMSYNCD_SOCKET={place.home.socket_path}" in passed
    assert found["error"] is None
    assert found["lost_variables"] == []
    path.write_text(path.read_text().replace('"MEMSYNCD_CONFIG"', '"OTHER"'))
    done = agent.run("codex", "--check")
    assert "Codex does not pass on MEMSYNCD_CONFIG" in done.stdout
    assert "MEMSYNCD_CONFIG=/nowhere" not in (tmp_path / "env").read_text()


def test_the_check_tells_hooks_that_codex_skips(agent: Agent) -> None:
    assert agent.run("codex", "--yes", "--capture").returncode == 0
    hooks, config = agent.home / ".codex" / "hooks.json", agent.home / ".codex" / "config.toml"
    events = ["SessionStart", "UserPromptSubmit", "Stop"]
    done = agent.run("codex", "--check", "--json")
    assert json.loads(done.stdout)["untrusted_hooks"] == events
    assert "untrusted hooks on SessionStart, " in agent.run("codex", "--check").stdout
    # As Codex 0.171 notes it.
    for event in ("session_start", "user_prompt_submit", "stop"):
        with config.open("a") as file:
            file.write(f'[hooks.state."{hooks}:{event}:0:0"]\ntrusted_hash = "sha256:0"\n')
    assert "untrusted" not in agent.run("codex", "--check").stdout
    settings = json.loads(hooks.read_text())
    settings["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "./mine.sh"}]})
    hooks.write_text(json.dumps(settings))
    done = agent.run("codex", "--check", "--json")
    assert json.loads(done.stdout)["untrusted_hooks"] == ["Stop"]
    assert "untrusted" not in agent.run("gemini", "--check").stdout


def test_the_check_tells_a_daemon_of_another_version(agent: Agent) -> None:
    path = agent.home / ".gemini" / "settings.json"
    assert agent.run("gemini", "--yes").returncode == 0
    server = {"result": {"serverInfo": {"version": "0.0.1"}}, "id": 1}
    script = f'echo \'{json.dumps(server)}\'; echo \'{{"id": 2, "result": {{"tools": []}}}}\''
    settings = json.loads(path.read_text())
    settings["mcpServers"]["memsyncd"].update(command="/bin/sh", args=["-c", script])
    path.write_text(json.dumps(settings))
    done = agent.run("gemini", "--check")
    assert done.returncode == 1
    assert "a daemon of version 0.0.1 answers" in done.stdout
    assert "memsyncd restart" in done.stdout


def test_the_check_tells_a_command_that_does_not_start(agent: Agent) -> None:
    assert agent.run("gemini", "--yes").returncode == 0
    path = agent.home / ".gemini" / "settings.json"
    settings = json.loads(path.read_text())
    settings["mcpServers"]["memsyncd"]["command"] = "/nowhere/memsyncd"
    path.write_text(json.dumps(settings))
    done = agent.run("gemini", "--check")
    assert done.returncode == 1
    assert "outdated" in done.stdout
    assert "it cannot be started: No such file" in done.stdout
    settings["mcpServers"]["memsyncd"].update(command="/bin/false", args=[])
    path.write_text(json.dumps(settings))
    assert "it ended with status 1" in agent.run("gemini", "--check").stdout
