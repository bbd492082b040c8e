"""git as tests run it: with an author of its own, and without the settings of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SETTINGS = (
    "user.name=ann",
    "user.email=ann@example.org",
    "init.defaultBranch=main",
    "protocol.file.allow=always",
)
OPTIONS = tuple(word for setting in SETTINGS for word in ("-c", setting))


def try_git(folder: Path, *words: str | Path, text: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder; it may fail."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    command = ["git", *OPTIONS, *words]
    return subprocess.run(
        command, cwd=folder, env=env, input=text.encode(), capture_output=True, check=False
    )


def git(folder: Path, *words: str | Path, text: str = "") -> str:
    """Run git in a folder, and return its output."""
    done = try_git(folder, *words, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode(errors="replace").strip()
