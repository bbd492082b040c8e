from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import memsyncd

SORTS = ["relevance", "worth", "importance", "priority", "recency", "file", "decay"]
PACKAGE_HOME = str(Path(memsyncd.__file__).parents[1])


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "PYTHONPATH": PACKAGE_HOME,
        "PATH": os.environ["PATH"],
        "PYTHONUTF8": "1",
    }


@functools.cache
def write_script(shell: str) -> str:
    """Return the script that `memsyncd completion` prints for the shell."""
    env = {
        "HOME": os.devnull,
        "PYTHONPATH": PACKAGE_HOME,
        "PATH": os.environ["PATH"],
        "PYTHONUTF8": "1",
    }
    command = [sys.executable, "-m", "memsyncd", "completion", shell]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


COMPLETED = {
    "memsyncd sta": ["stats", "start", "status"],
    "memsyncd search --expl": ["--explain"],
    "memsyncd config ": ["show", "check", "path"],
    "memsyncd completion z": ["zsh"],
    "memsyncd memory str": ["str_replace"],
    "memsyncd memory create --cl": ["--client"],
    "memsyncd history p": ["purge"],
    "memsyncd hook i": ["instructions"],
    "memsyncd get ": [],
    "memsyncd remove ": ["my\\ notes", "other", "\\$\\(touch\\ ran\\)"],
    "memsyncd list -w o": ["other"],
    "memsyncd status --color a": ["auto", "always"],
    "memsyncd status --color = n": ["never"],
    "memsyncd search --sort =": SORTS,
    "memsyncd search redis --sort w": ["worth"],
}


@pytest.mark.needs("bash")
def test_bash_completes(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "script").write_text(write_script("bash"))
    shell_script = f"""
        source {tmp_path}/script
        memsyncd() {{ printf 'my notes\\nother\\n$(touch ran)\\n'; }}
        while IFS= read -r COMP_LINE; do
            read -ra COMP_WORDS <<< "$COMP_LINE"
            [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=("")
            COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )) COMPREPLY=()
            _memsyncd < /dev/null
            printf '%s\\n' "${{COMPREPLY[@]}}" =
        done
    """
    answer = subprocess.run(
        ["bash", "-c", shell_script],
        env=env,
        cwd=tmp_path,
        input="".join(f"{line}\n" for line in COMPLETED),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [part.split("\n") for part in answer.stdout.split("=\n")[:-1]]
    assert {
        line: [word for word in words if word]
        for line, words in zip(COMPLETED, answers, strict=True)
    } == COMPLETED
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "shell", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("zsh", "fish")]
)
def test_the_other_shells_accept_the_script(
    env: dict[str, str], tmp_path: Path, shell: str
) -> None:
    (tmp_path / "script").write_text(write_script(shell))
    assert (
        subprocess.run([shell, "-n", str(tmp_path / "script")], env=env, check=False).returncode
        == 0
    )


@pytest.mark.needs("fish")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("memsyncd sta", ["stats", "start", "status"]),
        ("memsyncd search --expl", ["--explain"]),
        ("memsyncd completion z", ["zsh"]),
        ("memsyncd status --color a", ["always", "auto"]),
    ],
)
def test_fish_completes(env: dict[str, str], tmp_path: Path, line: str, found: list[str]) -> None:
    (tmp_path / "script").write_text(write_script("fish"))
    shell_script = f"source {tmp_path}/script; complete -C '{line}'"
    answer = subprocess.run(
        ["fish", "--no-config", "-c", shell_script],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [each.partition("\t")[0] for each in answer.stdout.splitlines()] == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_knows_every_command_and_option(env: dict[str, str], shell: str) -> None:
    script = write_script(shell)
    for word in ("search", "reindex", "completion", "explain", "timeout-ms", "sections"):
        assert word in script
