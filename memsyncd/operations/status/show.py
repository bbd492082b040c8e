"""Print the state of the daemon and its workspaces: `memsyncd status`, `problems` and `metrics`."""

from __future__ import annotations

import os
import sys
import time

import memsyncd
from memsyncd.client.connection import RESTART_HINT, describe_versions
from memsyncd.dirs import find_user_dirs, has_named_socket
from memsyncd.lock import read_holder
from memsyncd.terminal.connected_agents import list_connected_agents
from memsyncd.terminal.format import (
    render_age,
    render_count,
    render_duration,
    render_place,
    render_size,
)
from memsyncd.terminal.other_daemons import find_other_daemons
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import SimpleNamespace as Args
    from typing import Any

    from memsyncd.terminal.console import Console
    from memsyncd.terminal.terminal import Paint


# --- status and problems ------------------------------------------------------------------------

STATE_STYLES = {
    "ready": "green",
    "indexing": "cyan",
    "degraded": "yellow",
    "missing": "red",
    "stalled": "red",
}


def show_status(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal = console.terminal
    connected = list_connected_agents(console.env)
    text = render_status(
        clean_values(answer), terminal.paint, now_s=time.time(), connected=connected
    )
    terminal.print(text)
    for warning in list_daemon_warnings(answer, console):
        terminal.warn(clean_line(warning))
    if not answer["workspaces"]:
        terminal.report("no workspace yet; add this folder with `memsyncd add .`")


def list_daemon_warnings(status: Mapping[str, Any], console: Console) -> list[str]:
    """Return warnings about the daemon: it has another version or another socket than expected, or
    other daemons run.
    """
    warnings = []
    if status["version"] != memsyncd.__version__:
        warnings.append(f"{describe_versions(status['version'])}: {RESTART_HINT}")
    if status.get("lock_problem"):
        warnings.append(status["lock_problem"])
    dirs, used = find_user_dirs(console.env), console.client.socket_path
    if has_named_socket(console.env) and used != dirs.socket_path:
        warnings.append(f"nobody answers on {dirs.socket_path}, which MEMSYNCD_SOCKET names")
    elif (
        "lock_problem" in status and not status["lock_problem"]
    ):  # otherwise no lock names the daemon
        holder = read_holder(dirs.lock_paths[0])
        if holder is None or holder.pid != status["pid"]:
            warnings.append(f"this daemon keeps its state elsewhere than in {dirs.state_dir}")
    for other in find_other_daemons(console.env, int(status["pid"])):
        remedy = f"end it: kill {other.pid}" if other.shares_folders else "see memsyncd doctor"
        warnings.append(f"{other.describe()}: {remedy}")
    return warnings


def render_status(
    status: dict[str, Any], paint: Paint, *, now_s: float, connected: Sequence[str] = ()
) -> str:
    """Render the state of the daemon, then of each workspace. `connected` names the agents that
    `memsyncd integrate` has connected.
    """
    facts = [paint("bold", f"memsyncd {status['version']}"), *list_daemon_facts(status)]
    system = os.uname()
    python = ".".join(map(str, sys.version_info[:3]))
    versions = [
        f"SQLite {status['sqlite']}",
        f"Python {python}",
        f"{system.sysname} {system.release}",
        f"protocol {status['protocol']}",
    ]
    lines = [
        " · ".join(facts),
        f"  socket  {status['socket']}",
        *_render_port(status),
        f"  config  {status['config']}",
        f"  runs on {', '.join(versions)}",
        *_render_agents(status, connected, now_s),
    ]
    for workspace in status["workspaces"]:
        lines += ["", *_render_workspace(workspace, paint, now_s)]
    for collection in status.get("collections", ()):
        lines += ["", *_render_collection(collection, paint)]
    return "\n".join(lines)


def _render_agents(status: dict[str, Any], connected: Sequence[str], now_s: float) -> list[str]:
    """Render the agents with the time of their last call, if the daemon keeps it."""
    kept = status.get("agents")
    calls = {agent["name"]: agent["last_call_at"] for agent in kept or ()}
    facts = [f"{name} {render_age(called_at, now_s)}" for name, called_at in calls.items()]
    no_call = " no call in the log" if kept is not None else ""
    facts += [f"{name}{no_call}" for name in connected if name not in calls]
    return [f"  agents  {' · '.join(facts)}"] if facts else []


def _render_collection(collection: dict[str, Any], paint: Paint) -> list[str]:
    is_missing = collection["is_missing"]
    style = "red" if is_missing else "green"
    count = render_count(len(collection["workspaces"]), "workspace")
    state = "cannot be listed: its workspaces stay as they were" if is_missing else count
    name = paint("bold", collection["name"])
    title = f"{paint(style, '●')} {name}  each project's memory: {state}"
    return [title, f"  {collection['root']}  {paint('dim', collection['id'])}"]


def _render_port(status: dict[str, Any]) -> list[str]:
    """Render the port for HTTP, if one is open. The answer of an older daemon has no port."""
    if not status.get("http"):
        return []
    return [f"  http    {status['http']}, with the token in {status['http_token']}"]


def list_daemon_facts(status: Mapping[str, Any]) -> list[str]:
    """Return facts about the daemon's process: `pid 42`, `up 3 h`, `40 MB`, …"""
    failed = f" ({status['failed_requests']:,} failed)" if status["failed_requests"] else ""
    return [
        f"pid {status['pid']}",
        f"up {render_duration(status['uptime_s'])}",
        render_size(status["rss_bytes"]),
        render_count(status["clients"], "client"),
        render_count(status["requests"], "request") + failed,
    ]


def _render_workspace(workspace: dict[str, Any], paint: Paint, now_s: float) -> list[str]:
    style = STATE_STYLES.get(workspace["state"], "yellow")
    state = paint(style, workspace["state"])
    title = f"{paint(style, '●')} {paint('bold', workspace['name'])}  {state}"
    synced = list_sync_facts(workspace, now_s)
    synced += [paint("yellow", text) for text in list_warnings(workspace)]
    reasons = [f"  {paint(style, '!')} {reason}" for reason in workspace["reasons"]]
    return [
        title,
        f"  {workspace['root']}  {paint('dim', workspace['id'])}",
        f"  {' · '.join(list_counts(workspace))}",
        f"  {' · '.join(synced)}",
        *reasons,
    ]


def list_counts(workspace: Mapping[str, Any]) -> list[str]:
    """Return the sizes of the index of a workspace: `8 notes`, `15 sections`, …"""
    return [
        render_count(workspace["files"], "note"),
        render_count(workspace["sections"], "section"),
        render_count(workspace["chunks"], "chunk"),
        render_size(workspace["index_bytes"]),
    ]


def list_sync_facts(workspace: Mapping[str, Any], now_s: float) -> list[str]:
    """Return how fresh the index of a workspace is, and how the folder is watched."""
    watching = {"off": "not watching", "timed": "timed scans"}.get(
        workspace["watcher"], f"watching by {workspace['watcher']}"
    )
    synced = f"synced {render_age(workspace['last_sync_at'], now_s)}"
    return [synced, f"generation {workspace['generation']}", watching]


def list_warnings(workspace: Mapping[str, Any]) -> list[str]:
    """Return the counts that should be zero but are not: `2 problems`."""
    names = {
        "pending": ("pending", "pending"),
        "problems": ("problem", "problems"),
        "missed_events": ("missed event", "missed events"),
        "failed_syncs": ("failed sync", "failed syncs"),
    }
    return [render_count(workspace[key], *name) for key, name in names.items() if workspace[key]]


def show_problems(answer: dict[str, Any], _args: Args, console: Console) -> None:
    """Print each problem, and a hint below the last of the problems in a row that have it."""
    paint = console.terminal.paint
    problems = clean_values(answer)["problems"]
    next_hints = [*(problem["hint"] for problem in problems[1:]), ""]
    for problem, next_hint in zip(problems, next_hints, strict=False):
        root, line = console.roots.get(problem["workspace"], ""), problem["line"]
        # A problem without a path is about the folder itself.
        located = {
            "path": problem["path"] or clean_line(root),
            "start_line": line,
            "end_line": line,
        }
        root = root if problem["path"] else ""
        place = render_place(located, paint, root=root, cwd=console.cwd)
        console.terminal.print(f"{place}  {problem['problem']}")
        if problem["hint"] and problem["hint"] != next_hint:
            console.terminal.print(f"  {paint('cyan', '→')} {problem['hint']}")
    n_problems = answer["n_problems"]
    if n_problems > len(problems):
        more = f"{n_problems - len(problems):,} more"
        console.terminal.report(f"{more}; show them with --limit {n_problems}")
    if not problems:
        console.terminal.report("no problems")


# --- metrics ------------------------------------------------------------------------------------


def print_metrics(args: Args, console: Console) -> int:
    """Print the metrics as Prometheus reads them, or as JSON without that text."""
    terminal = console.terminal
    if args.json:
        terminal.print_json(console.call("metrics"))
    else:
        terminal.print_exactly(console.call("metrics", text=True)["text"].rstrip("\n"))
    return 0
