#!/usr/bin/env python3
"""The program `memsyncd`, as it is installed, and `python -m memsyncd`: the command line."""

import os
import sys


def leave(code: int) -> None:
    """End the process. A command without threads has nothing left to do: freeing its memory would
    take a fifth of its time.
    """
    if "threading" not in sys.modules:
        try:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except (OSError, ValueError):
            pass  # Python reports it at the end
        else:
            os._exit(code)
    sys.exit(code)


def _run() -> int:
    """Run the command line. An interrupt while it is being imported has the status of any other."""
    try:
        from memsyncd.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    leave(_run())
