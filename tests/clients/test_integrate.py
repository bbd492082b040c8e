"""The commands of memsyncd/integrations/CLIENTS.md, run as written with the real clients."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import memsyncd
from memsyncd.dirs import VARIABLES

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

DOCUMENT = Path(memsyncd.__file__).parent / "integrations" / "CLIENTS.md"
PACKAGE_HOME = str(Path(memsyncd.__file__).parents[1])
HOME = "/home/you"
INSTALL_S, COMMAND_S = 600, 120
PACKAGES = (
    "@anthropic-ai/claude-code@2.1.330",
    "@openai/codex@0.169.0",
    "opencode-ai@1.18.33",
    "@google/gemini-cli@0.61.0",
)
# npm does not run the packages' scripts here, so the programs are called inside the packages.
PROGRAMS = {
    "claude": "@anthropic-ai/claude-code-linux-x64/claude",
    "codex": "@openai/codex-linux-x64/vendor/*/bin/codex",
    "opencode": "opencode-linux-x64/bin/opencode",
    "gemini": "@google/gemini-cli/bundle/gemini.js",
}
SECTIONS = re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", DOCUMENT.read_text("utf-8"))
BLOCKS = {title: "".join(re.findall(r"(?s)```console\n(.*?)```", text)) for title, text in SECTIONS}
# The documents promise nothing about the clients' own warnings and colours.
NOISE = re.compile(r"^(?:(?i:warning): .*)?\n", re.MULTILINE)
COLOURS = re.compile(r"\x1b\[\d*m")


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("npm") is None:
        pytest.skip("not installed: npm")
    named = os.environ.get("MEMSYNCD_CLIENTS")
    folder = (Path(named) if named else tmp_path_factory.mktemp("clients")) / "agents"
    installed = folder / "node_modules"
    if not all(list(installed.glob(place)) for place in PROGRAMS.values()):
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, *PACKAGES]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
        if not all(list(installed.glob(place)) for place in PROGRAMS.values()):
            pytest.skip(f"not installed: {(done.stdout + done.stderr)[-300:]}")
    return installed


class Shell:
    """A home of a user, with memsyncd and the clients as programs."""

    def __init__(self, folder: Path, modules: Path) -> None:
        self.home = folder / "home"
        self.project = self.home / "project"
        programs = self.home / ".local" / "bin"
        programs.mkdir(parents=True)
        self.project.mkdir()
        run = folder / "run"
        run.mkdir(mode=0o700)
        (self.project / "MEMORY.md").write_text(
            "# Memory\n\nWe use apsw, since sqlite3 lacks sessions.\n"
        )
        self._write(programs / "memsyncd", f'exec "{sys.executable}" -m memsyncd "$@"')
        for name, place in PROGRAMS.items():
            path = next(iter(modules.glob(place)))
            self._write(programs / name, f'exec {"node " if path.suffix else ""}"{path}" "$@"')
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": PACKAGE_HOME,
            "XDG_RUNTIME_DIR": str(run),
            "LANG": "C.UTF-8",
            "GEMINI_API_KEY": "none",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def _write(self, path: Path, line: str) -> None:
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def run(self, line: str) -> str:
        """Return the output of a line, with the name of the user's home from the document."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        return COLOURS.sub("", done.stdout).replace(str(self.home), HOME)


@pytest.fixture
def shell(tmp_path: Path, modules: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, modules)
    shell.run("memsyncd start . && memsyncd sync")
    yield shell
    shell.run("memsyncd stop")


@pytest.mark.parametrize("title", [title for title, block in BLOCKS.items() if block])
def test_the_document_says_what_happens(shell: Shell, title: str) -> None:
    shown: list[str] = []
    for line in re.findall(r"(?m)^\$ (.*)$", BLOCKS[title]):
        shown += [f"$ {line}\n", shell.run(line)]
    said = re.sub(r"memsyncd \d+\.\d+\.\d+", f"memsyncd {memsyncd.__version__}", BLOCKS[title])
    assert NOISE.sub("", "".join(shown)) == NOISE.sub("", said)


def test_claude_code_accepts_the_plugin_of_each_scope(shell: Shell) -> None:
    for scope, folder in (("user", "~/.claude"), ("project", ".claude")):
        for more in ("", "--capture"):
            shell.run(f"memsyncd integrate claude-code --scope {scope} --yes {more}")
            output = shell.run(f"claude plugin validate --strict {folder}/skills/memsyncd; echo $?")
            assert output.endswith("✔ Validation passed\n0\n"), output


def test_settings_of_codex_in_its_file_stay(shell: Shell) -> None:
    own = '# mine\nmodel = "m"  # keep\n\n[mcp_servers.other]\ncommand = "true"\nenabled = false\n'
    config = shell.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(own)
    shell.run("memsyncd integrate codex --yes")
    shell.run("codex mcp add added -- /bin/true")
    assert "  current   /home/you/.codex/config.toml" in shell.run(
        "memsyncd integrate codex --check"
    )
    assert "nothing to change" in shell.run("memsyncd integrate codex --yes")
    shell.run("memsyncd integrate codex --remove --yes")
    listed = shell.run("codex mcp list")
    assert "memsyncd" not in listed
    assert "added" in listed
    assert config.read_text() == f'{own}\n[mcp_servers.added]\ncommand = "/bin/true"\n'
    shell.run("memsyncd integrate codex --yes; codex mcp remove added")
    shell.run("memsyncd integrate codex --remove --yes")
    assert config.read_text() == own


def test_codex_shows_the_variables_that_it_hands_on(shell: Shell) -> None:
    shell.run("memsyncd integrate codex --yes")
    output = shell.run("codex mcp get memsyncd")
    for name in VARIABLES:
        assert f"{name}=" in output
