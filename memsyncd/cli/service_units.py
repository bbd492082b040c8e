"""The units of the service: systemd's units on Linux, launchd's agent on macOS."""

from __future__ import annotations

import operator
import os
import plistlib
import re
import shlex
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

from memsyncd.cli.service_files import (
    KEPT_VARIABLES,
    MARK,
    Program,
    find_home,
    find_socket_path,
    is_ours,
    read_template,
    remove_own,
    write_service_file,
)
from memsyncd.errors import BadRequest, MemsyncdError, NotFresh
from memsyncd.terminal.files import make_private_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


SERVICE, SOCKET = "memsyncd.service", "memsyncd.socket"
# This folder exists exactly if systemd manages the system: sd_booted(3).
BOOTED = "/run/systemd/system"
# A start waits until the daemon is ready, for which systemd allows 90 s and more.
COMMAND_TIMEOUT_S = 150.0
QUESTION_TIMEOUT_S = 15.0
QUESTIONS = frozenset({"show", "is-active", "is-enabled"})
_PROPERTIES = (
    "LoadState ActiveState SubState Result MainPID NRestarts StatusText UnitFileState"
    " ActiveEnterTimestampMonotonic"
).split()
_HEAD = f"# {MARK}\n# Settings of your own belong into a drop-in: systemctl --user edit {{name}}\n"


class Systemd:
    """The systemd manager of this user. If `is_on_demand`, the daemon starts with its first client,
    not at login.

    Raises BadRequest if the system has no systemd.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        if shutil.which("systemctl") is None:
            raise BadRequest(
                "this system has no systemd",
                hint="use `memsyncd start`; another supervisor should call `memsyncd run`",
            )
        self._env = _drop_unset(env)
        self.runtime = _find_runtime(env)
        home = find_home(env)
        self._folder = f"{self._env.get('XDG_CONFIG_HOME') or f'{home}/.config'}/systemd/user"

    # --- files ---

    def unit_path(self, unit: str) -> str:
        return f"{self._folder}/{unit}"

    def render(self, program: Program, *, is_on_demand: bool) -> dict[str, str]:
        """Return the path and text of every unit."""
        files = {self.unit_path(SERVICE): render_service(program)}
        if is_on_demand:
            runtime = self.runtime or f"/run/user/{os.geteuid()}"
            files[self.unit_path(SOCKET)] = render_socket(
                find_socket_path(program, self._env, runtime), runtime
            )
        return files

    def is_installed(self) -> bool:
        return is_ours(self.unit_path(SERVICE))

    def find_files(self) -> list[str]:
        """Return the paths of the installed units that are ours."""
        return [path for unit in (SERVICE, SOCKET) if is_ours(path := self.unit_path(unit))]

    @property
    def is_on_demand(self) -> bool:
        return is_ours(self.unit_path(SOCKET))

    # --- actions ---

    def install(self, files: Mapping[str, str]) -> list[str]:
        """Write the units and enable them, at login or on demand. Return the paths of the units
        that were written or removed.

        Raises BadRequest before any change if the manager does not read the folder; Unwritable.
        """
        self._check_folder()
        enabled, other = (SOCKET, SERVICE) if self.unit_path(SOCKET) in files else (SERVICE, SOCKET)
        changed = [path for path, text in files.items() if write_service_file(path, text)]
        self._disable(other)
        if self.unit_path(other) not in files and remove_own(self.unit_path(other)):
            changed.append(self.unit_path(other))
        if self.is_available():
            self._run("daemon-reload")
        self._enable("enable", enabled)
        return changed

    def start(self, *, is_changed: bool) -> None:
        """Start the installed units and wait until the daemon is ready. Restart a running daemon
        only if its unit `is_changed`.
        """
        self._reset_failures()
        if self.is_on_demand:
            if is_changed:
                self._run("stop", SOCKET, SERVICE)
            self._run("start", SOCKET)
        else:
            self._run("restart" if is_changed else "start", SERVICE)

    def restart(self) -> None:
        """Restart the daemon and wait until it is ready. Raises MemsyncdError if it fails."""
        self._reset_failures()
        if self.is_on_demand:
            self._run("start", SOCKET)
        self._run("restart", SERVICE)

    def uninstall(self) -> list[str]:
        """Stop, disable and remove our units. Return their paths."""
        own = [unit for unit in (SOCKET, SERVICE) if is_ours(self.unit_path(unit))]
        is_available = self.is_available()
        for unit in own:
            if is_available:
                self._run("stop", unit)
            self._enable("disable", unit)
        removed = [self.unit_path(unit) for unit in own if remove_own(self.unit_path(unit))]
        if is_available and removed:
            self._run("daemon-reload")
            self._call("reset-failed", *own)
        return removed

    def _reset_failures(self) -> None:
        """Reset the count of failures: systemd does not start a unit that failed too often."""
        self._call("reset-failed", SERVICE, *([SOCKET] if self.is_on_demand else []))

    def _check_folder(self) -> None:
        """Raise BadRequest if the manager does not read the folder of the units, because it was
        started with another HOME or XDG_CONFIG_HOME.
        """
        unit_path = self._call("show", "--property=UnitPath", "--value").stdout
        folders = {os.path.realpath(folder) for folder in unit_path.split()}
        # A path with a space is shown in an unknown way.
        is_plain = len(self._folder.split()) == 1
        if folders and is_plain and os.path.realpath(self._folder) not in folders:
            raise BadRequest(
                f"your systemd manager reads no units in {self._folder}: it was started with"
                " another HOME or XDG_CONFIG_HOME",
                hint="run this command with those that `systemctl --user show-environment` prints;"
                " without the service: memsyncd start",
            )

    def _disable(self, unit: str) -> None:
        """Disable the unit if it is ours. Stop it if it is the socket's."""
        if is_ours(self.unit_path(unit)):
            if self.is_available() and unit == SOCKET:
                self._run("stop", unit)
            self._enable("disable", unit)

    # --- state ---

    def is_available(self) -> bool:
        """Return whether the manager of this user runs and answers."""
        return self._call("show", "--property=Version").returncode == 0

    def describe_absence(self) -> str:
        """Say why no manager runs, and what to do instead."""
        if not os.path.isdir(BOOTED):
            return (
                "systemd does not run this system, as in a container; use instead: memsyncd start"
            )
        linger = f"sudo loginctl enable-linger {_name_user(self._env)}"
        return f"no systemd manager runs for you; log in on this machine, or: {linger}"

    def describe_limits(self) -> str:
        """Say when the service does not run; empty if it always runs."""
        user = _name_user(self._env)
        if os.path.exists(f"/var/lib/systemd/linger/{user}"):
            return ""
        linger = f"loginctl enable-linger {user}"
        return f"it runs while you are logged in; to run it from boot on: {linger}"

    def read_state(self) -> dict[str, Any]:
        """Return the state that the manager reports. Without a manager the state is `unknown`."""
        answer = self._call("show", SERVICE, f"--property={','.join(_PROPERTIES)}").stdout
        properties = dict(line.split("=", 1) for line in answer.splitlines() if "=" in line)
        pid = int(properties.get("MainPID", "0")) or None
        is_waiting = (
            self.is_on_demand and self._call("is-active", SOCKET).stdout.strip() == "active"
        )
        return {
            "supervisor": "systemd",
            "state": properties.get("ActiveState", "unknown"),
            "detail": properties.get("SubState", ""),
            "is_waiting": is_waiting,
            "enabled": self._is_enabled(SOCKET if self.is_on_demand else SERVICE),
            "pid": pid,
            "restarts": int(properties.get("NRestarts", "0") or 0),
            "result": properties.get("Result", ""),
            "says": properties.get("StatusText", "") if pid else "",
        }

    def describe_missing_log(self) -> str:
        """Say how to see the state without a program that shows the journal."""
        return f"see its state with: systemctl --user status {SERVICE}"

    def log_command(self, *, n_lines: int, is_followed: bool) -> list[str]:
        # Not --user, which omits the file that all users share while the journal is in memory.
        return [
            "journalctl",
            f"--user-unit={SERVICE}",
            f"--lines={n_lines}",
            *(["--follow"] if is_followed else []),
        ]

    # --- systemctl ---

    def _enable(self, verb: str, unit: str) -> None:
        """Enable or disable the unit, even if no manager runs."""
        done = self._call(verb, "--quiet", unit, **self._offline_env())
        if done.returncode:
            raise _failed(verb, unit, done.stderr)

    def _is_enabled(self, unit: str) -> bool:
        return self._call("is-enabled", unit, **self._offline_env()).stdout.strip() == "enabled"

    def _offline_env(self) -> dict[str, str]:
        return {} if self.is_available() else {"SYSTEMD_OFFLINE": "1"}

    def _run(self, verb: str, *units: str) -> None:
        done = self._call(verb, *units)
        if done.returncode:
            raise _failed(verb, " ".join(units), done.stderr)

    def _call(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {
            **self._env,
            **({"XDG_RUNTIME_DIR": self.runtime} if self.runtime else {}),
            "LC_ALL": "C",
            **variables,
        }
        command = ["systemctl", "--user", "--no-pager", "--no-ask-password", *words]
        limit_s = QUESTION_TIMEOUT_S if words[0] in QUESTIONS else COMMAND_TIMEOUT_S
        try:
            return subprocess.run(
                command, env=env, capture_output=True, text=True, check=False, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            message = f"`systemctl --user {' '.join(words)}` did not finish within {limit_s:g} s"
            raise NotFresh(message, hint="see systemd's jobs: systemctl --user list-jobs") from None


# --- units --------------------------------------------------------------------------------------


def render_service(program: Program) -> str:
    """Render the service's unit from its template, with our head, this program and its environment.
    Other lines stay as they are.
    """
    lines = []
    for line in _drop_head(read_template("systemd", SERVICE)):
        if line.startswith("ExecStart="):
            lines += [
                f"Environment={_quote(f'{name}={value}')}" for name, value in program.env.items()
            ]
            line = f"ExecStart={_render_command(program.words)}"  # noqa: PLW2901
        lines.append(line)
    return _HEAD.format(name=SERVICE) + "\n" + "\n".join(lines) + "\n"


def render_socket(path: str, runtime: str) -> str:
    """Render the socket's unit, which listens at `path`. A path in the folder `runtime` is written
    relative to it, as `%t/…`.
    """
    escaped = path.replace("%", "%%")
    if path.startswith(f"{runtime}/"):
        escaped = "%t" + path[len(runtime) :].replace("%", "%%")
    lines = (
        f"ListenStream={escaped}" if line.startswith("ListenStream=") else line
        for line in _drop_head(read_template("systemd", SOCKET))
    )
    return _HEAD.format(name=SOCKET) + "\n" + "\n".join(lines) + "\n"


def _render_command(words: tuple[str, ...]) -> str:
    """Quote the command for ExecStart=. A shell starts a program whose path has quotes, backslashes
    or dollars, because ExecStart= cannot contain such a path.
    """
    shell = ("/bin/sh", "-c", 'exec "$0" "$@"') if set(words[0]) & set("'\"\\$") else ()
    return " ".join(_quote(word).replace("$", "$$") for word in (*shell, *words))


def _drop_head(template: str) -> list[str]:
    """Drop the comment at the top of the template, which explains how to install it by hand."""
    lines = template.splitlines()
    return lines[lines.index("[Unit]") :]


def _quote(word: str) -> str:
    """Quote a word for systemd.syntax(7): one word without specifiers and variables."""
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%")):
        word = word.replace(char, escaped)
    return f'"{word}"' if not word or set(word) & set(" \t'\\\";#") else word


def _find_runtime(env: Mapping[str, str]) -> str:
    """Return the runtime folder, empty if there is none. cron and `su` do not set its variable."""
    named, usual = env.get("XDG_RUNTIME_DIR", "").rstrip("/"), f"/run/user/{os.geteuid()}"
    return named if named.startswith("/") else usual if os.path.isdir(usual) else ""


def _drop_unset(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without XDG folders that are empty or relative, which count as unset.
    systemctl would read an empty XDG_CONFIG_HOME as the folder `/`.
    """
    return {
        name: value
        for name, value in env.items()
        if name not in KEPT_VARIABLES or value.startswith("/")
    }


def _name_user(env: Mapping[str, str]) -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return env.get("USER", str(os.geteuid()))


def _failed(verb: str, unit: str, stderr: str) -> MemsyncdError:
    reason = " ".join(stderr.split()) or "no reason given"
    return MemsyncdError(
        f"systemctl --user {verb} {unit} failed: {reason}",
        hint="see its log: memsyncd service logs",
    )


LABEL = "org.memsyncd.agent"
TEMPLATE_PROGRAM = '"$HOME/.local/bin/memsyncd" run'
LAUNCHCTL_TIMEOUT_S = 60.0
# `bootout` may return before the agent has ended, which may take ExitTimeOut. Until its end, the
# agent cannot be loaded again.
UNLOAD_TIMEOUT_S = 20.0
POLL_S = 0.1
IN_PROGRESS = 36
_HEAD_END = "\n<plist"


class Launchd:
    """The launchd agent of this user. It cannot start on demand, because launchd passes a socket by
    calls that the daemon does not have.
    """

    is_on_demand = False

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._home = find_home(env)
        self._domain = f"gui/{os.geteuid()}"
        self._path = f"{self._home}/Library/LaunchAgents/{LABEL}.plist"
        self.log_file = f"{self._home}/Library/Logs/memsyncd.log"

    # --- files ---

    def render(self, program: Program, *, is_on_demand: bool) -> dict[str, str]:
        """Return the path and text of the agent. Raises BadRequest for `is_on_demand`; BadConfig
        and BadRequest as `find_socket_path` does.
        """
        if is_on_demand:
            raise BadRequest("launchd starts memsyncd at login", hint="leave --on-demand out")
        find_socket_path(program, self._env, "")
        return {self._path: render_agent(program)}

    def is_installed(self) -> bool:
        return is_ours(self._path)

    def find_files(self) -> list[str]:
        """Return the path of the agent in a list, empty if it is not installed."""
        return [self._path] if self.is_installed() else []

    # --- actions ---

    def install(self, files: Mapping[str, str]) -> list[str]:
        """Write the agent. Return the paths of changed files. Raises Unwritable."""
        make_private_folders(os.path.dirname(self.log_file))
        return [path for path, text in files.items() if write_service_file(path, text)]

    def start(self, *, is_changed: bool) -> None:
        """Load the agent. Restart a running agent only if it `is_changed`."""
        is_loaded = self._is_loaded()
        if is_loaded and is_changed:
            self._unload()
        if is_changed or not is_loaded:
            self._run("bootstrap", self._domain, self._path)

    def restart(self) -> None:
        """Restart the daemon. Raises MemsyncdError if launchd refuses."""
        if self._is_loaded():
            self._run("kickstart", "-k", f"{self._domain}/{LABEL}")
        else:
            self._run("bootstrap", self._domain, self._path)

    def uninstall(self) -> list[str]:
        """Unload the agent and remove its file if it is ours. Return the removed paths."""
        if not is_ours(self._path):
            return []
        if self._is_loaded():
            self._unload()
        return [self._path] if remove_own(self._path) else []

    # --- state ---

    def is_available(self) -> bool:
        """Return whether this user is logged in at the screen; only then agents run."""
        return self._call("print", self._domain).returncode == 0

    def describe_absence(self) -> str:
        return "no user is logged in at the screen; the agent starts with the next login there"

    def describe_limits(self) -> str:
        return ""

    def read_state(self) -> dict[str, Any]:
        """Return the state that launchd reports. Without a report the state is `unknown`."""
        answer = self._call("print", f"{self._domain}/{LABEL}")
        return {
            "supervisor": "launchd",
            "is_waiting": False,
            "enabled": self.is_installed(),
            **read_print(answer.stdout),
        }

    def describe_missing_log(self) -> str:
        return f"see {self.log_file}"

    def log_command(self, *, n_lines: int, is_followed: bool) -> list[str]:
        return ["tail", "-n", str(n_lines), *(["-F"] if is_followed else []), self.log_file]

    # --- launchctl ---

    def _is_loaded(self) -> bool:
        return self._call("print", f"{self._domain}/{LABEL}").returncode == 0

    def _unload(self) -> None:
        """Unload the agent and wait until it is gone. Raises NotFresh after UNLOAD_TIMEOUT_S."""
        self._run(
            "bootout",
            f"{self._domain}/{LABEL}",
            is_success=lambda status: status in {0, IN_PROGRESS},
        )
        end_s = time.monotonic() + UNLOAD_TIMEOUT_S
        while self._is_loaded():
            if time.monotonic() > end_s:
                raise NotFresh(
                    f"the agent did not end within {UNLOAD_TIMEOUT_S:g} s",
                    hint=f"see: launchctl print {self._domain}/{LABEL}",
                )
            time.sleep(POLL_S)

    def _run(self, *words: str, is_success: Callable[[int], bool] = operator.not_) -> None:
        done = self._call(*words)
        if not is_success(done.returncode):
            reason = " ".join(done.stderr.split()) or "no reason given"
            raise MemsyncdError(
                f"launchctl {' '.join(words)} failed: {reason}",
                hint="see its log: memsyncd service logs",
            )

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["launchctl", *words],
                env=dict(self._env),
                capture_output=True,
                text=True,
                check=False,
                timeout=LAUNCHCTL_TIMEOUT_S,
            )
        except FileNotFoundError:
            raise BadRequest(
                "this system has no launchctl", hint="a supervisor should call `memsyncd run`"
            ) from None


def render_agent(program: Program) -> str:
    """Render the agent from its template, with our mark, this program and its environment. Other
    entries stay as they are.
    """
    agent = plistlib.loads(read_template("launchd", f"{LABEL}.plist").encode())
    agent["ProgramArguments"][-1] = agent["ProgramArguments"][-1].replace(
        TEMPLATE_PROGRAM, shlex.join(program.words)
    )
    if program.env:
        agent["EnvironmentVariables"] = program.env
    text = plistlib.dumps(agent, sort_keys=False).decode()
    return text.replace(_HEAD_END, f"\n<!-- {MARK} -->{_HEAD_END}", 1)


def read_print(text: str) -> dict[str, Any]:
    """Parse the output of `launchctl print` into the keys of `Systemd.read_state`."""
    fields = dict(
        re.findall(r"^\t(state|pid|runs|last exit code) = (.*)$", text, flags=re.MULTILINE)
    )
    state = fields.get("state", "unknown")
    runs = fields.get("runs", "")
    return {
        "state": "active" if state == "running" else "inactive" if fields else "unknown",
        "detail": state,
        "pid": int(fields["pid"]) if fields.get("pid", "").isdecimal() else None,
        "restarts": max(0, int(runs) - 1) if runs.isdecimal() else 0,
        "result": fields.get("last exit code", ""),
        "says": "",
    }
