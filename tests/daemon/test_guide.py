"""The guide's example of the life cycle is pasted into a shell, and does what its comments say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.daemon.conftest import REPOSITORY, WAIT_S

if TYPE_CHECKING:
    from tests.daemon.conftest import Daemon, Home

pytestmark = pytest.mark.shared_daemon

FOLDER = "~/lifecycle"


def read_example() -> list[str]:
    """The commands of the example, without its comments; a command may have several lines."""
    text = (REPOSITORY / "memsyncd" / "GUIDE.md").read_text(encoding="utf-8")
    passage = text.partition("## How memories age")[2].partition("\n## ")[0]
    block = re.search(r"^```bash\n(.*?)^```$", passage, flags=re.MULTILINE | re.DOTALL)
    assert block is not None
    return [f"memsyncd {part}".strip() for part in block[1].split("\nmemsyncd ")]


def test_the_example_from_the_first_note_to_the_archive_can_be_pasted_into_a_shell(
    home: Home, daemon: Daemon, tmp_path: Path
) -> None:
    first, *commands = read_example()
    first = first.removeprefix("memsyncd ")
    assert first == f"memsyncd init {FOLDER} && cd {FOLDER}"
    folder = home.make_folder()
    program = tmp_path / "memsyncd"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memsyncd "$@"\n')
    program.chmod(0o755)
    env = {**home.env, "PATH": f"{tmp_path}{os.pathsep}{home.env['PATH']}"}

    def run(command: str) -> str:
        shell = ["sh", "-ec", command.replace(FOLDER, f'"{folder}"')]
        done = subprocess.run(
            shell, cwd=folder, env=env, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    run(first)
    try:
        printed = {command.partition("#")[0].strip(): run(command) for command in commands}
    finally:
        with daemon.client() as client:
            client.call("workspace.remove", workspace=str(folder))

    def find(start: str) -> str:
        [found] = [text for command, text in printed.items() if command.startswith(start)]
        return found

    recalled = find("memsyncd recall redis")
    assert "Redis ran out of sockets." in recalled
    assert (
        ".memories/solutions.md#solutions/limit-the-pool  Solutions › Limit the pool  resolved_by of"
        in recalled
    )
    context = find("memsyncd task context")
    assert "The pool has a limit of 50." in context
    assert "Redis ran out of sockets." in context
    assert ".memories/project.md#" in find("memsyncd promote")
    plan, applied = (
        text for command, text in printed.items() if command.startswith("memsyncd archive")
    )
    for kind in ("checkpoints", "summaries"):
        assert f"would be archived  .memories/{kind}.md#" in plan
        assert f"archived  .memories/{kind}.md#" in applied
    assert "archived  .memories/errors.md" not in applied
    found = find("memsyncd search pool")
    hits = {line.partition(":")[0] for line in found.splitlines() if line[:1] not in ("", " ")}
    assert ".memories/project.md" in hits
    assert not hits & {".memories/summaries.md", ".memories/checkpoints.md"}
    assert find("memsyncd unarchive").count("restored  ") == 2
