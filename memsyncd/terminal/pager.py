"""Show a long text with the user's pager: `MEMSYNCD_PAGER`, else `PAGER`, else `less -FRX`."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT = "less -FRX"
_VARIABLES = ("MEMSYNCD_PAGER", "PAGER")


def find_pager(env: Mapping[str, str]) -> str:
    """Return the command of the pager; empty if the user wants none."""
    named = next((env[name] for name in _VARIABLES if name in env), DEFAULT).strip()
    return "" if named == "cat" else named


def run_pager(command: str, text: str, env: Mapping[str, str]) -> str:
    """Show the text until the user leaves the pager. Return why it could not be shown; empty if it
    was.
    """
    # Late, because few answers are longer than a screen.
    import shlex
    import signal
    import subprocess

    try:
        words = shlex.split(command)
        # As git does: less keeps colours, and leaves short texts on the screen.
        pager = subprocess.Popen(
            words, stdin=subprocess.PIPE, env={**os.environ, **env, "LESS": env.get("LESS", "FRX")}
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return f"the pager {command} cannot be started: {reason}"
    # Ctrl-C is for the pager.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pager.communicate(text.encode(errors="replace"))
    finally:
        signal.signal(signal.SIGINT, before)
    return ""
