"""How does systemd's user manager run the daemon? Units from the templates, and what `systemctl --user` is told and tells."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from memsyncd.cli.servicefiles import (
    MARK,
    Program,
    find_home,
    find_socket_path,
    is_foreign,
    is_ours,
    read_template,
    remove_own,
    write_own,
)
from memsyncd.errors import AlreadyExists, BadRequest, MemsyncdError, NotFresh

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE, SOCKET = "memsyncd.service", "memsyncd.socket"
BOOTED = "/run/systemd/system"
"""Is there exactly where systemd is the system's manager: sd_booted(3)."""
COMMAND_TIMEOUT_S = 150.0
"""A start waits until the daemon answers, for which systemd gives 90 s and more."""
QUESTION_TIMEOUT_S = 15.0
QUESTIONS = frozenset({"show", "is-active", "is-enabled"})
_PROPERTIES = (
    "LoadState ActiveState SubState Result MainPID NRestarts StatusText UnitFileState ActiveEnterTimestampMonotonic".split()
)
_HEAD = f"# {MARK}\n# Settings of your own belong into a drop-in: systemctl --user edit {{name}}\n"


class Systemd:
    """The user manager of whoever runs this. `is_on_demand`: started by its first client and not at login."""

    def __init__(self, env: Mapping[str, str]) -> None:
        if shutil.which("systemctl") is None:
            raise BadRequest(
                "this system has no systemd",
                hint="`memsyncd start` runs it in the background; a supervisor should call `memsyncd run`",
            )
        self._env = env
        self.runtime = _find_runtime(env)
        config_home = env.get("XDG_CONFIG_HOME", "")
        home = find_home(env)
        self._folder = f"{config_home if config_home.startswith('/') else f'{home}/.config'}/systemd/user"

    # --- files ---

    def path_of(self, unit: str) -> str:
        return f"{self._folder}/{unit}"

    def render(self, program: Program, *, is_on_demand: bool) -> dict[str, str]:
        """Path and text of every unit."""
        files = {self.path_of(SERVICE): render_service(program)}
        if is_on_demand:
            runtime = self.runtime or f"/run/user/{os.geteuid()}"
            files[self.path_of(SOCKET)] = render_socket(find_socket_path(program, self._env, runtime), runtime)
        return files

    def is_installed(self) -> bool:
        return is_ours(self.path_of(SERVICE))

    def find_files(self) -> list[str]:
        """The units of ours that are there."""
        return [path for unit in (SERVICE, SOCKET) if is_ours(path := self.path_of(unit))]

    @property
    def is_on_demand(self) -> bool:
        return is_ours(self.path_of(SOCKET))

    # --- what is done ---

    def install(self, files: Mapping[str, str]) -> list[str]:
        """Write the units and have them started from now on at login, or by a client. Returns what was written or had to go.

        Raises AlreadyExists, before anything is done, if another has a unit of that name; Unwritable.
        """
        for path in (self.path_of(SERVICE), self.path_of(SOCKET)):
            if is_foreign(path):
                raise AlreadyExists(f"{path} was not written by memsyncd", hint=f"see what it does; if it may go: rm {path}")
        wanted, other = (SOCKET, SERVICE) if self.path_of(SOCKET) in files else (SERVICE, SOCKET)
        changed = [path for path, text in files.items() if write_own(path, text)]
        self._let_go(other)
        if self.path_of(other) not in files and remove_own(self.path_of(other)):
            changed.append(self.path_of(other))
        if self.is_there():
            self._tell("daemon-reload")
        self._enable("enable", wanted)
        return changed

    def start(self, *, is_changed: bool) -> None:
        """Bring what is installed to life and wait until it is; what runs goes on, unless its unit `is_changed`."""
        self._forget_failures()
        if self.is_on_demand:
            if is_changed:
                self._tell("stop", SOCKET, SERVICE)
            self._tell("start", SOCKET)
        else:
            self._tell("restart" if is_changed else "start", SERVICE)

    def restart(self) -> None:
        """Stop the daemon and start it again, and wait until it is ready. Raises MemsyncdError if it does not get so far."""
        self._forget_failures()
        if self.is_on_demand:
            self._tell("start", SOCKET)
        self._tell("restart", SERVICE)

    def uninstall(self) -> list[str]:
        """Stop it, forget it, remove our files. Returns their paths."""
        own = [unit for unit in (SOCKET, SERVICE) if is_ours(self.path_of(unit))]
        is_there = self.is_there()
        for unit in own:
            if is_there:
                self._tell("stop", unit)
            self._enable("disable", unit)
        removed = [self.path_of(unit) for unit in own if remove_own(self.path_of(unit))]
        if is_there and removed:
            self._tell("daemon-reload")
            self._call("reset-failed", *own)
        return removed

    def _forget_failures(self) -> None:
        """What has failed too often is not started again for a while, whoever asks, unless that is forgotten first."""
        self._call("reset-failed", SERVICE, *([SOCKET] if self.is_on_demand else []))

    def _let_go(self, unit: str) -> None:
        """It is not to be started by itself any more, if it ever was."""
        if is_ours(self.path_of(unit)):
            if self.is_there() and unit == SOCKET:
                self._tell("stop", unit)
            self._enable("disable", unit)

    # --- what is known ---

    def is_there(self) -> bool:
        """True if a user manager runs that can be told anything."""
        return self._call("show", "--property=Version").returncode == 0

    def say_absence(self) -> str:
        """Why none does, and what to do instead."""
        if not os.path.isdir(BOOTED):
            return "systemd does not run this system, as in a container; have it run in the background instead: memsyncd start"
        return f"no systemd manager runs for you; log in on this machine, or: sudo loginctl enable-linger {_name_user(self._env)}"

    def say_limits(self) -> str:
        """What a person may not expect of it; empty if there is nothing of the kind."""
        user = _name_user(self._env)
        if os.path.exists(f"/var/lib/systemd/linger/{user}"):
            return ""
        return f"it runs while you are logged in; to have it run from boot on: loginctl enable-linger {user}"

    def read_state(self) -> dict[str, Any]:
        """What the manager knows; nothing but the files where there is no manager."""
        shown = self._call("show", SERVICE, f"--property={','.join(_PROPERTIES)}").stdout
        told = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        pid = int(told.get("MainPID", "0")) or None
        is_waiting = self.is_on_demand and self._call("is-active", SOCKET).stdout.strip() == "active"
        return {
            "supervisor": "systemd",
            "state": told.get("ActiveState", "unknown"),
            "detail": told.get("SubState", ""),
            "is_waiting": is_waiting,
            "enabled": self._is_enabled(SOCKET if self.is_on_demand else SERVICE),
            "pid": pid,
            "restarts": int(told.get("NRestarts", "0") or 0),
            "result": told.get("Result", ""),
            "says": told.get("StatusText", "") if pid else "",
        }

    def say_unlogged(self) -> str:
        """How to see how it is where nothing shows the journal."""
        return f"see what it says now with: systemctl --user status {SERVICE}"

    def find_log_command(self, *, n_lines: int, is_followed: bool) -> list[str]:
        # Not --user: where the journal lies in memory, all users share a file, which that leaves out.
        return ["journalctl", f"--user-unit={SERVICE}", f"--lines={n_lines}", *(["--follow"] if is_followed else [])]

    # --- systemctl ---

    def _enable(self, verb: str, unit: str) -> None:
        """Enable or disable, with the manager or without."""
        done = self._call(verb, "--quiet", unit, **self._do_without())
        if done.returncode:
            raise _failed(verb, unit, done.stderr)

    def _is_enabled(self, unit: str) -> bool:
        return self._call("is-enabled", unit, **self._do_without()).stdout.strip() == "enabled"

    def _do_without(self) -> dict[str, str]:
        return {} if self.is_there() else {"SYSTEMD_OFFLINE": "1"}

    def _tell(self, verb: str, *units: str) -> None:
        done = self._call(verb, *units)
        if done.returncode:
            raise _failed(verb, " ".join(units), done.stderr)

    def _call(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {**self._env, **({"XDG_RUNTIME_DIR": self.runtime} if self.runtime else {}), "LC_ALL": "C", **variables}
        command = ["systemctl", "--user", "--no-pager", "--no-ask-password", *words]
        limit_s = QUESTION_TIMEOUT_S if words[0] in QUESTIONS else COMMAND_TIMEOUT_S
        try:
            return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=limit_s)
        except subprocess.TimeoutExpired:
            what = f"`systemctl --user {' '.join(words)}` is not done after {limit_s:g} s"
            raise NotFresh(what, hint="see what systemd is at: systemctl --user list-jobs") from None


# --- units ----------------------------------------------------------------------------------------------------------


def render_service(program: Program) -> str:
    """The service's unit, from its template: our head, this program, its environment; the rest as it stands there."""
    lines = []
    for line in _drop_head(read_template("systemd", SERVICE)):
        if line.startswith("ExecStart="):
            lines += [f"Environment={_quote(f'{name}={value}')}" for name, value in program.env.items()]
            line = f"ExecStart={_render_command(program.words)}"  # noqa: PLW2901
        lines.append(line)
    return _HEAD.format(name=SERVICE) + "\n" + "\n".join(lines) + "\n"


def render_socket(path: str, runtime: str) -> str:
    """The socket's unit, listening at `path`; what lies in the runtime folder is named by it."""
    shown = path.replace("%", "%%")
    if path.startswith(f"{runtime}/"):
        shown = "%t" + path[len(runtime) :].replace("%", "%%")
    lines = (
        f"ListenStream={shown}" if line.startswith("ListenStream=") else line
        for line in _drop_head(read_template("systemd", SOCKET))
    )
    return _HEAD.format(name=SOCKET) + "\n" + "\n".join(lines) + "\n"


def _render_command(words: tuple[str, ...]) -> str:
    """As ExecStart= takes it, which can have no quote, backslash or dollar in the program's own path: a shell starts that."""
    through = ("/bin/sh", "-c", 'exec "$0" "$@"') if set(words[0]) & set("'\"\\$") else ()
    return " ".join(_quote(word).replace("$", "$$") for word in (*through, *words))


def _drop_head(template: str) -> list[str]:
    """Without the comment at its top, which is for those who install by hand."""
    lines = template.splitlines()
    return lines[lines.index("[Unit]") :]


def _quote(word: str) -> str:
    """As systemd.syntax(7) reads it: no specifier, no variable, one word."""
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%")):
        word = word.replace(char, escaped)
    return f'"{word}"' if not word or set(word) & set(" \t'\\\";#") else word


def _find_runtime(env: Mapping[str, str]) -> str:
    """The runtime folder; cron and `su` leave the variable out, and the folder is there all the same."""
    named, usual = env.get("XDG_RUNTIME_DIR", "").rstrip("/"), f"/run/user/{os.geteuid()}"
    return named if named.startswith("/") else usual if os.path.isdir(usual) else ""


def _name_user(env: Mapping[str, str]) -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return env.get("USER", str(os.geteuid()))


def _failed(verb: str, unit: str, said: str) -> MemsyncdError:
    reason = " ".join(said.split()) or "it says no more"
    return MemsyncdError(f"systemctl --user {verb} {unit} failed: {reason}", hint="its last words: memsyncd service logs")
