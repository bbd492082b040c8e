"""Run the daemon with launchd on macOS: render the agent and call `launchctl`."""

from __future__ import annotations

import operator
import os
import plistlib
import re
import shlex
import subprocess
import time
from typing import TYPE_CHECKING, Any

from memsyncd.cli.service_files import (
    MARK,
    Program,
    find_home,
    find_socket_path,
    is_ours,
    make_private_folders,
    read_template,
    remove_own,
    write_service_file,
)
from memsyncd.errors import BadRequest, MemsyncdError, NotFresh

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LABEL = "org.memsyncd.agent"
TEMPLATE_PROGRAM = '"$HOME/.local/bin/memsyncd" run'
LAUNCHCTL_TIMEOUT_S = 60.0
# `bootout` may return before the agent has ended, which may take ExitTimeOut; until then it cannot
# be loaded again.
UNLOAD_TIMEOUT_S = 20.0
POLL_S = 0.1
IN_PROGRESS = 36
_HEAD_END = "\n<plist"


class Launchd:
    """The agents of this user. Starting on demand is not supported: launchd passes sockets by other
    calls than the daemon has.
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
        """Return the path and text of the agent. Raises BadRequest for `is_on_demand`, BadConfig
        like `find_socket_path`.
        """
        if is_on_demand:
            raise BadRequest("launchd starts memsyncd at login", hint="leave --on-demand out")
        find_socket_path(program, self._env, "")
        return {self._path: render_agent(program)}

    def is_installed(self) -> bool:
        return is_ours(self._path)

    def find_files(self) -> list[str]:
        """Return the path of the installed agent, if there is one."""
        return [self._path] if self.is_installed() else []

    # --- actions ---

    def install(self, files: Mapping[str, str]) -> list[str]:
        """Write the agent. Return its path if it changed. Raises Unwritable."""
        make_private_folders(os.path.dirname(self.log_file))
        return [path for path, text in files.items() if write_service_file(path, text)]

    def start(self, *, is_changed: bool) -> None:
        """Load the agent; restart a running one only if it `is_changed`."""
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
        """Stop and unload the agent and remove its file. Return its path."""
        if not is_ours(self._path):
            return []
        if self._is_loaded():
            self._unload()
        return [self._path] if remove_own(self._path) else []

    # --- state ---

    def is_available(self) -> bool:
        """Return whether a user is logged in at the screen, so that agents run."""
        return self._call("print", self._domain).returncode == 0

    def describe_absence(self) -> str:
        return "no user is logged in at the screen; the agent starts with the next login there"

    def describe_limits(self) -> str:
        return ""

    def read_state(self) -> dict[str, Any]:
        """Return the state that launchd reports; without a report, only what the file says."""
        shown = self._call("print", f"{self._domain}/{LABEL}")
        return {
            "supervisor": "launchd",
            "is_waiting": False,
            "enabled": self.is_installed(),
            **read_print(shown.stdout),
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
    """Render the agent from its template: our head, this program and its environment; the rest
    unchanged.
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
