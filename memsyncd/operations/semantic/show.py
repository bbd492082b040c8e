"""Print the state of semantic search, switch it on or off, and wait for vectors: `memsyncd
semantic`.

A switch changes or adds one line of the configuration file, which the daemon reads at once.
"""

from __future__ import annotations

import os
import re
import signal
import time

from memsyncd.dirs import find_user_dirs
from memsyncd.errors import BadConfig, BadRequest, MemsyncdError, NotFresh
from memsyncd.terminal.format import render_bar, render_count, render_size
from memsyncd.terminal.terminal import clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, Final

    from memsyncd.terminal.console import Console

POLL_S: Final = 0.3
# The daemon reads its configuration within this time after SIGHUP.
RELOAD_S: Final = 10.0
_TABLE: Final = "[semantic]"
_HEADER: Final = re.compile(r"\s*\[")
_ENABLED: Final = re.compile(r"(\s*enabled\s*=\s*)(true|false)\b(.*)", re.DOTALL)


# --- switching ----------------------------------------------------------------------------------


def switch(text: str, *, is_on: bool) -> str:
    """Return the text of a configuration file with `enabled` of `[semantic]` set."""
    value = "true" if is_on else "false"
    lines = text.splitlines(keepends=True)
    start = next((at for at, line in enumerate(lines) if _is_table(line)), None)
    if start is None:
        separator = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{separator}{_TABLE}\nenabled = {value}\n"
    for at in range(start + 1, len(lines)):
        if _HEADER.match(lines[at]):
            break
        if match := _ENABLED.fullmatch(lines[at]):
            lines[at] = f"{match[1]}{value}{match[3]}"
            return "".join(lines)
    if not lines[start].endswith("\n"):
        lines[start] += "\n"
    lines.insert(start + 1, f"enabled = {value}\n")
    return "".join(lines)


def _is_table(line: str) -> bool:
    return line.partition("#")[0].replace(" ", "").strip() == _TABLE


def _switch_file(path: str, *, is_on: bool) -> bool:
    """Change the configuration file. Return False if it needs no change. Raises BadConfig."""
    by_hand = f"write `enabled = {str(is_on).lower()}` below `[semantic]` in it"
    import tomllib

    from memsyncd.terminal.files import write_file

    try:
        path = os.path.realpath(path)
        with open(path, encoding="utf-8") as file:
            before = file.read()
    except FileNotFoundError:
        before = ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}", hint=by_hand) from error
    try:
        wanted = tomllib.loads(before)
        if wanted.get("semantic", {}).get("enabled", False) is is_on:
            return False
        after = switch(before, is_on=is_on)
        wanted.setdefault("semantic", {})["enabled"] = is_on
        is_right = tomllib.loads(after) == wanted
    except (tomllib.TOMLDecodeError, AttributeError):
        after, is_right = "", False
    if not is_right:
        hint = f"see: memsyncd config check; then {by_hand}"
        raise BadConfig(f"{path} cannot be changed safely", hint=hint)
    try:
        write_file(path, after, like=path)
    except OSError as error:
        raise BadConfig(
            f"{path} cannot be written: {error.strerror}",
            hint=f"make it writable, or {by_hand}",
        ) from error
    return True


def switch_on(args: Args, console: Console) -> int:
    """Switch semantic search on in the configuration file, and print how much it covers."""
    return _set(args, console, is_on=True)


def switch_off(args: Args, console: Console) -> int:
    """Switch semantic search off in the configuration file."""
    return _set(args, console, is_on=False)


def _set(args: Args, console: Console, *, is_on: bool) -> int:
    path = find_user_dirs(console.env).config_file
    is_changed = _switch_file(path, is_on=is_on)
    answer = _reload(console, is_on=is_on)
    if answer is not None and answer["reason"] and not is_changed:
        # A missing library or model may have been installed meanwhile.
        answer = console.call("semantic.warm")
    if args.json:
        report = {"path": path, "enabled": is_on, "is_changed": is_changed}
        console.terminal.print_json({**report, "daemon": answer})
        return _find_status(answer) if answer is not None and is_on else 0
    word = "on" if is_on else "off"
    already = "" if is_changed else " already"
    console.terminal.report(f"semantic search is {word}{already}: {clean_line(path)}")
    if answer is None:
        console.terminal.report("no daemon runs; it takes effect when one starts: memsyncd start")
        return 0
    if not is_on:
        return 0
    _print(answer, console)
    if any(not _is_over(workspace["semantic"]) for workspace in answer["workspaces"]):
        console.terminal.report("vectors are being made; see how far: memsyncd semantic warm")
    return _find_status(answer)


def _reload(console: Console, *, is_on: bool) -> dict[str, Any] | None:
    """Have a running daemon read its configuration, and return the state of semantic search; None
    if no daemon runs.
    """
    try:
        pid = int(console.call("ping")["pid"])
    except MemsyncdError:
        return None
    end_s = None
    while True:
        answer = console.call("semantic.status")
        if answer["enabled"] is is_on:
            return answer
        if end_s is None:
            end_s = time.monotonic() + RELOAD_S
            os.kill(pid, signal.SIGHUP)
        elif time.monotonic() > end_s:
            hint = "see what it says of its configuration: memsyncd doctor"
            raise NotFresh("the daemon has not taken the configuration over", hint=hint)
        time.sleep(POLL_S)


# --- status and warming -------------------------------------------------------------------------


def show_coverage(args: Args, console: Console) -> int:
    """Print how much is covered. The exit status is 1 if semantic search is on and fails."""
    answer = console.call("semantic.status", workspace=console.name_workspace(args.workspace))
    return _show(answer, args, console)


def wait_for_vectors(args: Args, console: Console) -> int:
    """Have vectors made and draw the progress. The exit status means the same as in
    `show_coverage`.
    """
    answer = console.call(
        "semantic.warm", workspace=console.name_workspace(args.workspace), again=args.again
    )
    if not answer["enabled"]:
        hint = "switch it on: memsyncd semantic enable"
        raise BadRequest("semantic search is switched off", hint=hint)
    try:
        answer = _wait(args, console)
    except KeyboardInterrupt:
        console.terminal.report("it continues by itself; see: memsyncd semantic status")
        raise
    return _show(answer, args, console)


def _wait(args: Args, console: Console) -> dict[str, Any]:
    """Draw the progress until all vectors are made, or some cannot be."""
    total = 0
    while True:
        time.sleep(POLL_S)  # the process needs time to count the missing vectors
        answer = console.call("semantic.status", workspace=console.name_workspace(args.workspace))
        states = [workspace["semantic"] for workspace in answer["workspaces"]]
        # While vectors are made or loaded, the reason is no failure.
        if all(map(_is_over, states)):
            console.terminal.clear()
            return answer
        n_all = sum(state["total"] for state in states)
        n_left = sum(state["pending"] for state in states)
        total = max(total, n_all)
        bar = render_bar(n_all - n_left, total) if total else ""
        console.terminal.draw(f"embedding  {bar}  {n_all - n_left:,}/{n_all:,} chunks")


def _is_over(state: dict[str, Any]) -> bool:
    return state["state"] != "partial" or bool(state["failed"])


def _list_reasons(answer: dict[str, Any]) -> dict[str, bool]:
    """Return the reasons why not everything is covered; the value is True for a failure."""
    reasons: dict[str, bool] = {}
    if answer["reason"]:
        reasons[answer["reason"]] = True
    if not answer["workspaces"]:
        reasons["there is no workspace yet: memsyncd add FOLDER"] = False
    for workspace in answer["workspaces"]:
        state = workspace["semantic"]
        if state["reason"] and (state["failed"] or not state["pending"]):
            reasons.setdefault(state["reason"], state["failed"])
    return reasons


def _find_status(answer: dict[str, Any]) -> int:
    """Return the exit status: 1 if semantic search is on and fails."""
    return 1 if answer["enabled"] and any(_list_reasons(answer).values()) else 0


def _show(answer: dict[str, Any], args: Args, console: Console) -> int:
    """Print the answer, and return the exit status."""
    if args.json:
        console.terminal.print_json(answer)
    else:
        _print(answer, console)
    return _find_status(answer)


def _print(answer: dict[str, Any], console: Console) -> None:
    """Print how much of each workspace is covered, and the reasons why not all is."""
    terminal = console.terminal
    if not answer["enabled"]:
        terminal.print("semantic search is off; switch it on: memsyncd semantic enable")
        return
    rows: list[list[str]] = []
    for workspace in answer["workspaces"]:
        state = workspace["semantic"]
        done = state["total"] - state["pending"]
        covered = f"{done:,} of {render_count(state['total'], 'chunk')}" if state["total"] else ""
        rows.append([workspace["name"], state["state"], covered, state["embedder"] or ""])
    terminal.print_table([[clean_line(cell) for cell in row] for row in rows])
    if (process := answer["process"]) is not None:
        terminal.print(f"process {process['pid']} · {render_size(process['rss_bytes'])}")
    for reason, is_failure in _list_reasons(answer).items():
        terminal.report(terminal.err_paint("yellow" if is_failure else "dim", clean_line(reason)))
