"""Find out which programs this machine has, and give Python programs a clock from a file."""

from __future__ import annotations

import shutil
import subprocess

# A Python process with this as `sitecustomize.py` on its path has a clock that a file sets.
FILE_CLOCK = """
import os, time
_time_ns = time.time_ns
def time_ns():
    with open(os.environ["CLOCK_OFFSET_S"]) as file:
        return _time_ns() + int(file.read()) * 10**9
time.time_ns, time.time = time_ns, lambda: time_ns() / 1e9
"""


def find_missing(*programs: str) -> list[str]:
    """Return the programs that are not installed."""
    return [program for program in programs if shutil.which(program) is None]


def succeeds(*command: str) -> bool:
    """Return True if the command is installed and ends with 0."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0
