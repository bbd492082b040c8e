"""Which folders does a command make for its user? Those that are missing, for that user alone, whatever the umask."""

from __future__ import annotations

import os

PRIVATE_UMASK = 0o077


def make_folders(path: str) -> None:
    """Make the folder and what is missing above it: who may write to one of those may put another in its place."""
    before = os.umask(PRIVATE_UMASK)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(before)
