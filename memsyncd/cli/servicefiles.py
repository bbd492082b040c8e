"""What must stand in a service's files so that it runs the very program that is running now, and which files are ours to touch?

Units and agents are made from the templates in `systemd/` and `launchd/`. What was made so begins with a mark; a file without it
was written by somebody else and is neither overwritten nor removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import memsyncd
from memsyncd.cli.folders import make_folders
from memsyncd.dirs import find_dirs, has_named_socket
from memsyncd.errors import AlreadyExists, BadRequest, MemsyncdError, Unwritable

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK = "Written by `memsyncd service install`, which writes it anew."
KEPT_VARIABLES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
OWN_PREFIX = "MEMSYNCD_"
SPOKEN_ONLY = frozenset({"MEMSYNCD_TRACEBACK"})
"""Variables of ours that mean one command, and not the daemon."""

_UNWRITABLE = re.compile("[\0-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""What can stand in no unit or property list, however it is quoted: ends of lines, other controls, bytes that are no text."""

_PACKAGE = os.path.dirname(os.path.abspath(memsyncd.__file__))
_PROBE = "import memsyncd; print(memsyncd.__file__)"


class Program(NamedTuple):
    """How a supervisor is to run the daemon: a command of absolute paths, and the environment that makes it this one."""

    words: tuple[str, ...]
    env: dict[str, str]


def find_program(env: Mapping[str, str]) -> Program:
    """The program that is running, by its interpreter, with those variables that say what the daemon should be.

    Raises BadRequest if one of them cannot stand in a supervisor's file.
    """
    kept = {name: env[name] for name in KEPT_VARIABLES if env.get(name, "").startswith("/")}
    kept |= {name: value for name, value in sorted(env.items()) if name.startswith(OWN_PREFIX) and name not in SPOKEN_ONLY}
    # -P: a folder that happens to be called memsyncd where the service starts must not be taken for the package.
    words = (sys.executable, "-P", "-m", "memsyncd", "run")
    if not _is_found_without_help():
        kept["PYTHONPATH"] = os.path.dirname(_PACKAGE)
    refuse_unwritable(*words, *kept.values())
    return Program(words, kept)


def refuse_unwritable(*texts: str) -> None:
    """Raise BadRequest for a path or value that no supervisor's file can hold."""
    for text in texts:
        if _UNWRITABLE.search(text):
            what = f"a service cannot be told of {os.fsencode(text).decode('ascii', 'backslashreplace')!r}"
            raise BadRequest(what, hint="rename or move it, so that its path is text without line ends, tabs and other controls")


def _is_found_without_help() -> bool:
    """Whether this interpreter imports this very package by itself; a checkout that is not installed it does not."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    probe = subprocess.run([sys.executable, "-P", "-c", _PROBE], env=bare, capture_output=True, text=True, check=False)
    return os.path.realpath(os.path.dirname(probe.stdout.strip())) == os.path.realpath(_PACKAGE)


def is_passing(path: str, env: Mapping[str, str]) -> bool:
    """True for a program in a cache or a temporary folder, which may be gone when the service starts next."""
    home = env.get("HOME") or os.path.expanduser("~")
    caches = (env.get("XDG_CACHE_HOME") or f"{home}/.cache", f"{home}/Library/Caches", "/tmp", "/var/tmp")  # noqa: S108 - no file is made there
    return any(os.path.abspath(path).startswith(f"{folder}/") for folder in caches)


def find_home(env: Mapping[str, str]) -> str:
    """The home folder of whoever calls. Raises BadConfig if nobody says where that is."""
    home = env.get("HOME") or os.path.expanduser("~")
    find_dirs(env, home, sys.platform)
    return home


def find_socket_path(program: Program, env: Mapping[str, str], runtime: str) -> str:
    """Where the daemon listens if it runs as this service, with `runtime` as its runtime folder, empty for none.

    Raises BadConfig where its configuration is one that it would not start with, BadRequest as `find_program`.
    """
    from memsyncd.config import load_config

    home = find_home(env)
    own = program.env | ({"XDG_RUNTIME_DIR": runtime} if runtime else {})
    dirs = find_dirs(own, home, sys.platform)
    configured = load_config(dirs.config_file, own).config.socket.path
    path = configured if configured and not has_named_socket(own) else dirs.socket_path
    refuse_unwritable(path)
    return path


def read_template(folder: str, name: str) -> str:
    """A template's text: in a wheel they lie within the package, in a checkout beside it."""
    for place in (f"{_PACKAGE}/service-templates/{folder}", f"{os.path.dirname(_PACKAGE)}/{folder}"):
        with contextlib.suppress(FileNotFoundError), open(f"{place}/{name}", encoding="utf-8") as file:
            return file.read()
    raise MemsyncdError(f"the template {folder}/{name} is missing", hint="install memsyncd anew")


# --- files ----------------------------------------------------------------------------------------------------------


def is_ours(path: str) -> bool:
    """True if the file was written by `write_own`. A link is nobody's but whose it is."""
    return MARK in (_read(path) or "")[:400]


def is_foreign(path: str) -> bool:
    """True if something stands there that somebody else put there."""
    return os.path.lexists(path) and not is_ours(path)


def is_current(path: str, text: str) -> bool:
    """True if this very text stands there."""
    return _read(path) == text


def write_own(path: str, text: str) -> bool:
    """Write one of our files, folders included; False if it says that already.

    Raises AlreadyExists for a file that is not ours, Unwritable if the system refuses.
    """
    if is_foreign(path):
        raise AlreadyExists(f"{path} was not written by memsyncd", hint=f"see what it does; to let it be replaced: rm {path}")
    if is_current(path, text):
        return False
    try:
        make_folders(os.path.dirname(path))
        fresh = f"{path}.new"
        # 0600: a variable that is kept may be nobody else's business.
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(fresh, path)
    except OSError as error:
        raise Unwritable(f"cannot write {path}: {error.strerror}", hint="see who owns that folder") from None
    return True


def remove_own(path: str) -> bool:
    """Remove one of our files; False if there is none, or it is somebody else's."""
    if not is_ours(path):
        return False
    os.unlink(path)
    return True


def _read(path: str) -> str | None:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
