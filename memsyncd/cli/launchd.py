"""How does launchd run the daemon on macOS? An agent from the template, and what `launchctl` is told and tells."""

from __future__ import annotations

import operator
import os
import plistlib
import re
import shlex
import subprocess
import time
from typing import TYPE_CHECKING, Any

from memsyncd.cli.folders import make_folders
from memsyncd.cli.servicefiles import MARK, Program, find_home, find_socket_path, is_ours, read_template, remove_own, write_own
from memsyncd.errors import BadRequest, MemsyncdError, NotFresh

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LABEL = "org.memsyncd.agent"
TEMPLATE_PROGRAM = '"$HOME/.local/bin/memsyncd" run'
COMMAND_TIMEOUT_S = 60.0
GONE_S = 20.0
"""`bootout` may return before what it stops has ended, which may take ExitTimeOut; until then nothing can be loaded anew."""
LOOK_S = 0.1
IN_PROGRESS = 36
_HEAD_END = "\n<plist"


class Launchd:
    """The agents of whoever runs this. It knows no start by a client: launchd would want other calls than the daemon has."""

    is_on_demand = False

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._home = find_home(env)
        self._domain = f"gui/{os.geteuid()}"
        self._path = f"{self._home}/Library/LaunchAgents/{LABEL}.plist"
        self.log_file = f"{self._home}/Library/Logs/memsyncd.log"

    # --- files ---

    def render(self, program: Program, *, is_on_demand: bool) -> dict[str, str]:
        """Path and text of the agent. Raises BadRequest for `is_on_demand`, BadConfig as `find_socket_path`."""
        if is_on_demand:
            raise BadRequest("launchd starts memsyncd at login", hint="leave --on-demand out")
        find_socket_path(program, self._env, "")
        return {self._path: render_agent(program)}

    def is_installed(self) -> bool:
        return is_ours(self._path)

    def find_files(self) -> list[str]:
        """The agent, if it is there."""
        return [self._path] if self.is_installed() else []

    # --- what is done ---

    def install(self, files: Mapping[str, str]) -> list[str]:
        """Write the agent. Returns its path if that said something else before. Raises AlreadyExists, Unwritable."""
        make_folders(os.path.dirname(self.log_file))
        return [path for path, text in files.items() if write_own(path, text)]

    def start(self, *, is_changed: bool) -> None:
        """Load the agent; what runs goes on, unless its agent `is_changed`."""
        is_loaded = self._is_loaded()
        if is_loaded and is_changed:
            self._unload()
        if is_changed or not is_loaded:
            self._tell("bootstrap", self._domain, self._path)

    def restart(self) -> None:
        """Stop the daemon and start it again. Raises MemsyncdError if launchd will not."""
        if self._is_loaded():
            self._tell("kickstart", "-k", f"{self._domain}/{LABEL}")
        else:
            self._tell("bootstrap", self._domain, self._path)

    def uninstall(self) -> list[str]:
        """Stop it, forget it, remove our file. Returns its path."""
        if not is_ours(self._path):
            return []
        if self._is_loaded():
            self._unload()
        return [self._path] if remove_own(self._path) else []

    # --- what is known ---

    def is_there(self) -> bool:
        """True if somebody is logged in at the screen, whose agents can be told anything."""
        return self._call("print", self._domain).returncode == 0

    def say_absence(self) -> str:
        return "nobody is logged in at the screen, so no agent runs; it starts with the next login there"

    def say_limits(self) -> str:
        return ""

    def read_state(self) -> dict[str, Any]:
        """What launchd knows; nothing but the file where it knows nothing."""
        shown = self._call("print", f"{self._domain}/{LABEL}")
        return {"supervisor": "launchd", "is_waiting": False, "enabled": self.is_installed(), **read_print(shown.stdout)}

    def say_unlogged(self) -> str:
        return f"see {self.log_file}"

    def find_log_command(self, *, n_lines: int, is_followed: bool) -> list[str]:
        return ["tail", "-n", str(n_lines), *(["-F"] if is_followed else []), self.log_file]

    # --- launchctl ---

    def _is_loaded(self) -> bool:
        return self._call("print", f"{self._domain}/{LABEL}").returncode == 0

    def _unload(self) -> None:
        """Stop the agent and wait until launchd has forgotten it. Raises NotFresh if it takes longer than GONE_S."""
        self._tell("bootout", f"{self._domain}/{LABEL}", is_done=lambda status: status in {0, IN_PROGRESS})
        end_s = time.monotonic() + GONE_S
        while self._is_loaded():
            if time.monotonic() > end_s:
                raise NotFresh(f"the agent did not end within {GONE_S:g} s", hint=f"see: launchctl print {self._domain}/{LABEL}")
            time.sleep(LOOK_S)

    def _tell(self, *words: str, is_done: Callable[[int], bool] = operator.not_) -> None:
        done = self._call(*words)
        if not is_done(done.returncode):
            reason = " ".join(done.stderr.split()) or "it says no more"
            raise MemsyncdError(f"launchctl {' '.join(words)} failed: {reason}", hint="its last words: memsyncd service logs")

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                ["launchctl", *words], env=dict(self._env), capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S
            )
        except FileNotFoundError:
            raise BadRequest("this system has no launchctl", hint="a supervisor should call `memsyncd run`") from None


def render_agent(program: Program) -> str:
    """The agent, from its template: our head, this program, its environment; the rest as it stands there."""
    agent = plistlib.loads(read_template("launchd", f"{LABEL}.plist").encode())
    agent["ProgramArguments"][-1] = agent["ProgramArguments"][-1].replace(TEMPLATE_PROGRAM, shlex.join(program.words))
    if program.env:
        agent["EnvironmentVariables"] = program.env
    text = plistlib.dumps(agent, sort_keys=False).decode()
    return text.replace(_HEAD_END, f"\n<!-- {MARK} -->{_HEAD_END}", 1)


def read_print(text: str) -> dict[str, Any]:
    """What `launchctl print` says of the agent, in the words of `Systemd.read_state`."""
    told = dict(re.findall(r"^\t(state|pid|runs|last exit code) = (.*)$", text, flags=re.MULTILINE))
    state = told.get("state", "unknown")
    runs = told.get("runs", "")
    return {
        "state": "active" if state == "running" else "inactive" if told else "unknown",
        "detail": state,
        "pid": int(told["pid"]) if told.get("pid", "").isdecimal() else None,
        "restarts": max(0, int(runs) - 1) if runs.isdecimal() else 0,
        "result": told.get("last exit code", ""),
        "says": "",
    }
