"""Compute the paths of configuration, state, index, log and socket from an environment.

The paths follow the XDG rules: a variable that is empty or relative counts as unset. macOS has no
such variables: there state and index are under `~/Library`, where Time Machine leaves caches out.
`MEMSYNCD_SOCKET` and `MEMSYNCD_CONFIG` take precedence. This module does not touch the disk: its
callers create the folders and check their permissions.
"""

from __future__ import annotations

import os
import sys

from memsyncd.errors import BadConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

APP = "memsyncd"
SOCKET_NAME = "memsyncd.sock"
LOCK_NAME = "daemon.lock"
SOCKET_VARIABLES = ("MEMSYNCD_SOCKET", "MEMSYNCD_SOCKET_PATH")
CONFIG_VARIABLE = "MEMSYNCD_CONFIG"

_MAC_FOLDERS = {
    "XDG_STATE_HOME": "Library/Application Support",
    "XDG_DATA_HOME": "Library/Application Support",
    "XDG_CACHE_HOME": "Library/Caches",
}
_XDG_FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
}


# All variables that decide the paths below. A program that starts memsyncd with a reduced
# environment must pass these on.
VARIABLES = (*_XDG_FOLDERS, "XDG_RUNTIME_DIR", *SOCKET_VARIABLES, CONFIG_VARIABLE)


# This is no dataclass: importing `dataclasses` and `typing` takes a client longer than a request.
class Dirs:
    """Absolute paths, which need not exist.

    `state_dir` and `cache_dir` hold a folder for each workspace id. `lock_paths` are the files in
    them that the daemon locks, the file in `state_dir` first. `user_memory` is the default root of
    the user-wide workspace.
    """

    __slots__ = (
        "cache_dir",
        "config_file",
        "http_token",
        "lock_paths",
        "log_file",
        "panel_port",
        "socket_path",
        "state_dir",
        "user_memory",
    )

    def __init__(
        self,
        *,
        config_file: str,
        state_dir: str,
        cache_dir: str,
        user_memory: str,
        socket_path: str,
    ) -> None:
        self.config_file: Final = config_file
        self.state_dir: Final = state_dir
        self.cache_dir: Final = cache_dir
        self.user_memory: Final = user_memory
        self.socket_path: Final = socket_path
        self.lock_paths: Final = (f"{state_dir}/{LOCK_NAME}", f"{cache_dir}/{LOCK_NAME}")
        self.log_file: Final = f"{state_dir}/daemon.log"
        self.http_token: Final = f"{state_dir}/http-token"
        self.panel_port: Final = f"{state_dir}/panel-port"

    def with_socket(self, path: str) -> Dirs:
        """Return the same paths with another socket."""
        return Dirs(
            config_file=self.config_file,
            state_dir=self.state_dir,
            cache_dir=self.cache_dir,
            user_memory=self.user_memory,
            socket_path=path,
        )


def find_dirs(env: Mapping[str, str], home: str, platform: str) -> Dirs:
    """Return the paths for the user whose home is `home`; `platform` is `sys.platform`.

    Raises BadConfig if `home`, `MEMSYNCD_SOCKET` or `MEMSYNCD_CONFIG` is a relative path.
    """
    if not home.startswith("/"):
        raise BadConfig(
            f"the home folder is not an absolute path: {home!r}",
            hint="set HOME to your home folder",
        )
    state_dir = f"{_find_folder('XDG_STATE_HOME', env, home, platform)}/{APP}"
    return Dirs(
        config_file=_find_config_file(env, home, platform),
        state_dir=state_dir,
        cache_dir=f"{_find_folder('XDG_CACHE_HOME', env, home, platform)}/{APP}",
        user_memory=f"{_find_folder('XDG_DATA_HOME', env, home, platform)}/{APP}/user",
        socket_path=_find_named_socket(env, home) or _find_default_socket(env, state_dir),
    )


def find_user_dirs(env: Mapping[str, str]) -> Dirs:
    """Return the paths for the user of this process. Raises BadConfig as `find_dirs` does."""
    return find_dirs(env, env.get("HOME") or os.path.expanduser("~"), sys.platform)


def find_socket_paths(dirs: Dirs, env: Mapping[str, str], uid: int) -> tuple[str, ...]:
    """Return the paths at which a daemon may listen, in the order to try.

    They are valid unless the configuration names another. A cron job or an agent often lacks the
    `XDG_RUNTIME_DIR` that its daemon had, so there may be several. If the environment names a
    socket, that is the only one.
    """
    if has_named_socket(env):
        return (dirs.socket_path,)
    elsewhere = (f"/run/user/{uid}/{APP}/{SOCKET_NAME}", _find_default_socket({}, dirs.state_dir))
    return tuple(dict.fromkeys((dirs.socket_path, *elsewhere)))


def has_named_socket(env: Mapping[str, str]) -> bool:
    """True if the environment names the socket; then the configuration file has no effect on it."""
    return any(env.get(name) for name in SOCKET_VARIABLES)


def expand_home(path: str, home: str) -> str:
    """Return the path with a leading `~/` replaced by the home folder."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _find_config_file(env: Mapping[str, str], home: str, platform: str) -> str:
    named = _read_path(CONFIG_VARIABLE, env, home)
    return named or f"{_find_folder('XDG_CONFIG_HOME', env, home, platform)}/{APP}/config.toml"


def _find_named_socket(env: Mapping[str, str], home: str) -> str:
    return next((path for name in SOCKET_VARIABLES if (path := _read_path(name, env, home))), "")


def _find_default_socket(env: Mapping[str, str], state_dir: str) -> str:
    # Never a path under /tmp: another user could create it first.
    runtime = env.get("XDG_RUNTIME_DIR", "")
    folder = f"{runtime.rstrip('/')}/{APP}" if runtime.startswith("/") else f"{state_dir}/run"
    return f"{folder}/{SOCKET_NAME}"


def _find_folder(variable: str, env: Mapping[str, str], home: str, platform: str) -> str:
    named = env.get(variable, "")
    if named.startswith("/"):
        return named.rstrip("/")
    folders = _XDG_FOLDERS | _MAC_FOLDERS if platform == "darwin" else _XDG_FOLDERS
    return f"{home.rstrip('/')}/{folders[variable]}"


def _read_path(variable: str, env: Mapping[str, str], home: str) -> str:
    path = expand_home(env.get(variable, ""), home)
    if path and not path.startswith("/"):
        raise BadConfig(
            f"{variable} is not an absolute path: {path!r}",
            hint=f"set {variable} to a path that begins with / or ~/",
        )
    return path
