"""Finds out which programs this machine has, for tests that run programs which not every machine
has."""

from __future__ import annotations

import shutil
import subprocess


def find_missing(*programs: str) -> list[str]:
    """Return those of the programs that are not installed."""
    return [program for program in programs if shutil.which(program) is None]


def succeeds(*command: str) -> bool:
    """Return True if the command is installed and ends with 0."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0
