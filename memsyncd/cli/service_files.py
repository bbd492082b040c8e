"""Describe the running program to a supervisor, and write and remove the service's files.

systemd's units and launchd's agents are made from the templates in `systemd/` and `launchd/`. Each
begins with a mark. A file with another text is replaced only on request. A file without the mark is
never removed.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import memsyncd
from memsyncd.dirs import find_dirs, has_named_socket
from memsyncd.errors import BadRequest, MemsyncdError, Unwritable
from memsyncd.terminal.files import make_private_folders

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "Written by `memsyncd service install`, which replaces it only when asked."
KEPT_VARIABLES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
OWN_PREFIX = "MEMSYNCD_"
# Variables for a single command, not for the daemon.
CLIENT_ONLY = frozenset({"MEMSYNCD_TRACEBACK"})

# Characters that no unit or property list can contain, even quoted: line ends, other controls,
# bytes that are not text.
_UNWRITABLE = re.compile("[\0-\x1f\x7f\ud800-\udfff\ufffe\uffff]")

_PACKAGE = os.path.dirname(os.path.abspath(memsyncd.__file__))
_PROBE = "import memsyncd; print(memsyncd.__file__)"


class Program(NamedTuple):
    """The command that starts the daemon, and the environment variables that the daemon needs. All
    paths are absolute.
    """

    words: tuple[str, ...]
    env: dict[str, str]


def find_program(env: Mapping[str, str]) -> Program:
    """Return the command of the running program and the variables that configure the daemon.

    Raises BadRequest if a supervisor's file cannot contain the command or a variable.
    """
    kept = {name: env[name] for name in KEPT_VARIABLES if env.get(name, "").startswith("/")}
    kept |= {
        name: value
        for name, value in sorted(env.items())
        if name.startswith(OWN_PREFIX) and name not in CLIENT_ONLY
    }
    # -P: otherwise a folder named `memsyncd` in the current folder would be imported.
    words = (sys.executable, "-P", "-m", "memsyncd", "run")
    if not _is_importable():
        kept["PYTHONPATH"] = os.path.dirname(_PACKAGE)
    refuse_unwritable(*words, *kept.values())
    return Program(words, kept)


def refuse_unwritable(*texts: str) -> None:
    """Raise BadRequest for a path or value that no supervisor's file can contain."""
    for text in texts:
        if _UNWRITABLE.search(text):
            escaped = os.fsencode(text).decode("ascii", "backslashreplace")
            message = f"a service's file cannot contain {escaped!r}"
            raise BadRequest(
                message,
                hint="rename the file or change the variable: use text without control characters",
            )


def _is_importable() -> bool:
    """Return whether this interpreter finds the package without PYTHONPATH. It does not find a
    checkout that is not installed.
    """
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    probe = subprocess.run(
        [sys.executable, "-P", "-c", _PROBE], env=bare, capture_output=True, text=True, check=False
    )
    return os.path.realpath(os.path.dirname(probe.stdout.strip())) == os.path.realpath(_PACKAGE)


def is_temporary(path: str, env: Mapping[str, str]) -> bool:
    """Return whether the program is in a cache or a temporary folder, which the system may empty
    before the next start.
    """
    home = env.get("HOME") or os.path.expanduser("~")
    caches = (
        env.get("XDG_CACHE_HOME") or f"{home}/.cache",
        f"{home}/Library/Caches",
        "/tmp",  # noqa: S108  no file is made there
        "/var/tmp",  # noqa: S108
    )
    return any(os.path.abspath(path).startswith(f"{folder}/") for folder in caches)


def find_home(env: Mapping[str, str]) -> str:
    """Return the user's home folder. Raises BadConfig if it is unknown."""
    home = env.get("HOME") or os.path.expanduser("~")
    find_dirs(env, home, sys.platform)
    return home


def find_socket_path(program: Program, env: Mapping[str, str], runtime: str) -> str:
    """Return the socket path of the daemon when the service runs it. `runtime` is its runtime
    folder, or empty.

    Raises BadConfig if the daemon would refuse the configuration, BadRequest if a supervisor's file
    cannot contain the path.
    """
    from memsyncd.config.load import load_config

    home = find_home(env)
    own = program.env | ({"XDG_RUNTIME_DIR": runtime} if runtime else {})
    dirs = find_dirs(own, home, sys.platform)
    configured = load_config(dirs.config_file, own).config.socket.path
    path = configured if configured and not has_named_socket(own) else dirs.socket_path
    refuse_unwritable(path)
    return path


def read_template(folder: str, name: str) -> str:
    """Return the text of a template. A wheel has the templates inside the package, a checkout has
    them beside the package. Raises MemsyncdError if the template is missing.
    """
    for place in (
        f"{_PACKAGE}/service-templates/{folder}",
        f"{os.path.dirname(_PACKAGE)}/{folder}",
    ):
        with (
            contextlib.suppress(FileNotFoundError),
            open(f"{place}/{name}", encoding="utf-8") as file,
        ):
            return file.read()
    raise MemsyncdError(f"the template {folder}/{name} is missing", hint="reinstall memsyncd")


# --- files --------------------------------------------------------------------------------------


def is_ours(path: str) -> bool:
    """Return whether `write_service_file` wrote the file; False for a link."""
    return not os.path.islink(path) and MARK in (_read(path) or "")[:400]


def is_current(path: str, text: str) -> bool:
    """Return whether the file contains exactly this text."""
    return _read(path) == text


def render_difference(path: str, text: str) -> str:
    """Return the unified diff from an existing file to `text`; empty if the file is missing or has
    this text.
    """
    if not os.path.lexists(path) or is_current(path, text):
        return ""
    before = (_read(path) or "").splitlines()
    lines = difflib.unified_diff(before, text.splitlines(), path, f"{path} (new)", lineterm="")
    return "\n".join(lines)


def write_service_file(path: str, text: str) -> bool:
    """Write a file and its folders, or replace the file. Return False if it has this text already.

    Raises Unwritable if the system refuses.
    """
    if is_current(path, text):
        return False
    try:
        make_private_folders(os.path.dirname(path))
        fresh = f"{path}.new"
        # 0600: an environment variable in it may be private.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(fresh, path)
    except OSError as error:
        raise Unwritable(
            f"cannot write {path}: {error.strerror}", hint="check who owns its folder"
        ) from None
    return True


def remove_own(path: str) -> bool:
    """Remove one of our files. Return False if it is missing or not ours."""
    if not is_ours(path):
        return False
    os.unlink(path)
    return True


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
