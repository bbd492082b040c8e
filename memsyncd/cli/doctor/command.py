"""`memsyncd doctor`: run all checks and print the findings.

The daemon checks what only it can open; without one, all other checks still run. Exit status: 0 if
no finding needs action, 1 if one does, 3 if no daemon answers.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace

import memsyncd
from memsyncd.cli.doctor import (
    Finding,
    count_levels,
    is_healthy,
    read_findings,
    render_examination,
)
from memsyncd.cli.doctor.daemon_checks import (
    check_daemon,
    check_inotify,
    check_named_socket,
    check_open_files,
    check_other_daemons,
    check_service,
    check_socket,
    find_daemon_pid,
    list_processes,
    ping_sockets,
    read_inotify,
    read_service,
)
from memsyncd.cli.doctor.folder_checks import (
    RegisteredWorkspace,
    check_config_mode,
    check_config_path,
    check_database,
    check_disk_space,
    check_notes_storage,
    check_obstacle,
    check_own_storage,
    check_permissions,
    check_root,
    describe_unresponsive,
    find_last_error,
    find_obstacle,
    find_storage,
    find_unresponsive,
    measure_disk_space,
    read_workspace_list,
    resolve_path,
    stat_entry,
)
from memsyncd.cli.git_merges import find_missing, is_tracked
from memsyncd.cli.other_daemons import find_other_daemons
from memsyncd.client.connection import find_sockets
from memsyncd.dirs import find_user_dirs, has_named_socket
from memsyncd.errors import MemsyncdError, WorkspaceNotFound
from memsyncd.terminal.parser import JSON, Argument, Command, Option
from memsyncd.terminal.terminal import clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.cli.doctor.daemon_checks import PingResult, Process
    from memsyncd.dirs import Dirs
    from memsyncd.terminal.console import Console

FINDINGS_EXIT = 1
NO_DAEMON = 3
STATUS_S = 10.0
EXAMINE_S = 300.0
VERIFY_S = 3600.0


def _doctor(args: Args, console: Console) -> int:
    dirs = find_user_dirs(console.env)
    answers = ping_sockets(find_sockets(console.env), dirs.lock_paths)
    daemon = next((answer for answer in answers if answer.pid is not None), None)
    if daemon is None:
        workspaces, findings = _examine_without_daemon(args, console, dirs)
    else:
        workspaces, findings = _examine_with_daemon(args, console, dirs)
    processes = list_processes([os.path.realpath(dirs.state_dir), os.path.realpath(dirs.cache_dir)])
    found = [
        *_examine_program(console, dirs, answers, processes),
        *_examine_machine(dirs, workspaces, processes, find_daemon_pid(answers, processes)),
        *_examine_others(console, answers),
        *check_service(read_service(console), daemon_pid=daemon.pid if daemon else None),
        *findings,
    ]
    findings = list(
        dict.fromkeys(found)
    )  # a finding about the installation comes with each workspace
    _show(findings, workspaces, daemon, args, console)
    if daemon is None:
        return NO_DAEMON
    return 0 if is_healthy(findings) else FINDINGS_EXIT


# --- checks -------------------------------------------------------------------------------------


def _examine_program(
    console: Console, dirs: Dirs, answers: list[PingResult], processes: list[Process]
) -> list[Finding]:
    """Check the daemon, its socket and its configuration."""
    is_answered = any(answer.pid is not None for answer in answers)
    is_held = any(answer.is_listening for answer in answers)
    path = next((answer.path for answer in answers if answer.pid is not None), answers[0].path)
    found = [
        *check_daemon(answers, processes, version=memsyncd.__version__, protocol=memsyncd.PROTOCOL),
        *check_socket(
            stat_entry(path), stat_entry(os.path.dirname(path)), uid=os.geteuid(), is_held=is_held
        ),
        *_examine_config(console, dirs),
    ]
    if is_answered and has_named_socket(console.env) and path != dirs.socket_path:
        found += check_named_socket(dirs.socket_path, path)
    last_error = "" if is_answered else find_last_error(dirs.log_file)
    if last_error:
        what = f"the last background daemon logged: {last_error}"
        found.append(Finding("info", "log", what, where=dirs.log_file))
    return found


def _examine_others(console: Console, answers: list[PingResult]) -> list[Finding]:
    answering = {answer.pid for answer in answers}
    pid = next((answer.pid for answer in answers if answer.pid is not None), 0)
    others = find_other_daemons(console.env, pid)
    return check_other_daemons([other for other in others if other.pid not in answering])


def _examine_config(console: Console, dirs: Dirs) -> list[Finding]:
    from memsyncd.config.load import load_config

    found = check_config_mode(stat_entry(dirs.config_file), uid=os.geteuid())
    try:
        loaded = load_config(dirs.config_file, console.env)
    except MemsyncdError as error:
        what = f"the configuration is refused: {' '.join(error.message.split())}"
        remedy = error.hint or "see memsyncd config check"
        return [
            *found,
            Finding("error", "config", what, remedy, where=dirs.config_file),
        ]
    found += [
        Finding("warning", "config", warning, "memsyncd config check", where=dirs.config_file)
        for warning in loaded.warnings
    ]
    return found or [Finding("ok", "config", "the configuration is valid", where=dirs.config_file)]


def _examine_machine(
    dirs: Dirs,
    workspaces: list[RegisteredWorkspace],
    processes: list[Process],
    daemon_pid: int | None,
) -> list[Finding]:
    """Check disks, file systems, permissions, and the user's other processes."""
    uid = os.geteuid()
    kept = [
        f"{folder}/{each.id}" for folder in (dirs.state_dir, dirs.cache_dir) for each in workspaces
    ]
    files = [f"{dirs.state_dir}/{each.id}/records.db" for each in workspaces]
    files += [f"{dirs.cache_dir}/{each.id}/index.db" for each in workspaces]
    obstacles = {folder: find_obstacle(folder) for folder in (dirs.state_dir, dirs.cache_dir)}
    usable = [folder for folder, obstacle in obstacles.items() if obstacle is None]
    entries = [stat_entry(path) for path in (*usable, *kept, *files)]
    state, cache = find_storage([dirs.state_dir, dirs.cache_dir])
    silent = find_unresponsive([each.root for each in workspaces])
    found = [
        replace(describe_unresponsive(each.root), workspace=each.id)
        for each in workspaces
        if each.root in silent
    ]
    workspaces = [each for each in workspaces if each.root not in silent]
    found += [
        *check_obstacle(dirs.state_dir, obstacles[dirs.state_dir], variable="XDG_STATE_HOME"),
        *check_obstacle(dirs.cache_dir, obstacles[dirs.cache_dir], variable="XDG_CACHE_HOME"),
        *check_permissions(entries, uid=uid),
        *check_disk_space(
            measure_disk_space(
                [dirs.state_dir, dirs.cache_dir, *(each.root for each in workspaces)]
            )
        ),
        *check_own_storage(
            state, contents="history is", variable="XDG_STATE_HOME", is_lasting=True
        ),
        *check_own_storage(
            cache, contents="indexes are", variable="XDG_CACHE_HOME", is_lasting=False
        ),
        *check_open_files(processes, daemon_pid=daemon_pid),
        *check_inotify(read_inotify(), processes, daemon_pid=daemon_pid),
    ]
    storages = find_storage([each.root for each in workspaces])
    for workspace, storage in zip(workspaces, storages, strict=True):
        own = [*check_notes_storage(storage), *_check_merges(workspace.root)]
        found += [replace(finding, workspace=workspace.id) for finding in own]
    if state.mount is not None and not any(
        finding.check in ("filesystem", "cloud") for finding in found
    ):
        found.append(Finding("ok", "filesystem", "notes, index and records are on local disks"))
    return found


def _check_merges(root: str) -> list[Finding]:
    what = find_missing(root) if is_tracked(root) else ""
    remedy = f"memsyncd init --merge-driver {root}"
    return [Finding("info", "git_merges", what, remedy, where=root)] if what else []


# --- workspaces, with a daemon and without ------------------------------------------------------


def _examine_with_daemon(
    args: Args, console: Console, dirs: Dirs
) -> tuple[list[RegisteredWorkspace], list[Finding]]:
    """Return the selected workspaces and the daemon's findings. Raises WorkspaceNotFound."""
    try:
        chosen, findings = _find_workspaces(args, console, dirs)
    except WorkspaceNotFound:
        raise
    except (MemsyncdError, LookupError, TypeError) as error:
        what = f"the daemon answers `ping`, but not `status`: {_explain(error)}"
        remedy = "memsyncd restart; if it does not stop, follow the hint of that"
        workspaces, found = _examine_without_daemon(args, console, dirs)
        return workspaces, [Finding("error", "daemon", what, remedy), *found]
    terminal = console.terminal
    console.client.timeout_s = VERIFY_S if args.verify else EXAMINE_S
    for number, workspace in enumerate(chosen.values(), 1):
        doing = "verifying" if args.verify else "checking"
        terminal.draw(f"{doing} {clean_line(workspace.name)} ({number} of {len(chosen)})")
        try:
            findings += read_findings(
                console.call("doctor", workspace=workspace.id, verify=args.verify)
            )
        except WorkspaceNotFound:
            continue  # it was removed
        except (MemsyncdError, LookupError, TypeError) as error:
            what = f"the daemon could not check this: {_explain(error)}"
            remedy = getattr(error, "hint", "") or "memsyncd restart"
            findings.append(Finding("error", "daemon", what, remedy, workspace=workspace.id))
    terminal.clear()
    if not chosen:
        what = "no folder is indexed"
        findings.append(Finding("info", "workspaces", what, "memsyncd add PATH"))
    return list(chosen.values()), findings


def _explain(error: Exception) -> str:
    # An answer of another version may lack what is read.
    return error.message if isinstance(error, MemsyncdError) else "its answer is incomplete"


def _find_workspaces(
    args: Args, console: Console, dirs: Dirs
) -> tuple[dict[str, RegisteredWorkspace], list[Finding]]:
    """Return the selected workspaces by id, and whether the daemon reads the same configuration as
    this program.
    """
    chosen: dict[str, RegisteredWorkspace] = {}
    console.client.timeout_s = STATUS_S
    named = [
        console.call("status", workspace=console.name_workspace(name)) for name in args.workspaces
    ]
    for answer in named or [console.call("workspace.list")]:
        for info in answer["workspaces"]:
            chosen[info["id"]] = RegisteredWorkspace(
                id=info["id"], name=info["name"], root=info["root"]
            )
    status = console.call("status")
    # A daemon of an older version has none.
    collections = () if args.workspaces else status.get("collections", ())
    findings = [*map(_describe_missing, (one for one in collections if one["is_missing"]))]
    return chosen, [*findings, *check_config_path(str(status["config"]), dirs.config_file)]


def _describe_missing(collection: dict[str, object]) -> Finding:
    name = str(collection["name"])
    what = f"the projects of {name} cannot be listed: new ones are not found"
    remedy = f"restore the folder, or: memsyncd remove {name}"
    return Finding("warning", "folder", what, remedy, where=str(collection["root"]))


def _examine_without_daemon(
    args: Args, console: Console, dirs: Dirs
) -> tuple[list[RegisteredWorkspace], list[Finding]]:
    """Return the selected workspaces and the findings that need no daemon. Raises
    WorkspaceNotFound.
    """
    list_file = f"{dirs.state_dir}/workspaces.json"
    known, damage = read_workspace_list(list_file)
    known += _read_configured(console, dirs)
    chosen = [_find_registered(name, known) for name in args.workspaces] or known
    findings = [
        Finding(
            "error", "workspaces", damage, "see who owns it, and what is in it", where=list_file
        )
    ] * bool(damage)
    for workspace in chosen:
        findings.append(check_root(workspace))
        for check, folder in (("index", dirs.cache_dir), ("records", dirs.state_dir)):
            path = f"{folder}/{workspace.id}/{check}.db"
            findings += check_database(path, check=check, workspace=workspace.id)
    what = "only the daemon checks index, records, watcher and notes"
    findings.append(Finding("info", "daemon", what, "start it, then run this again"))
    return chosen, findings


def _read_configured(console: Console, dirs: Dirs) -> list[RegisteredWorkspace]:
    """Return the workspaces of the configuration; their ids are unknown, since the daemon makes
    them.
    """
    from memsyncd.config.load import load_config

    try:
        configured = load_config(dirs.config_file, console.env).config.workspace
    except MemsyncdError:
        return []
    roots = [(resolve_path(each.path), each.name) for each in configured]
    return [
        RegisteredWorkspace(id=root, name=name or os.path.basename(root), root=root)
        for root, name in roots
    ]


def _find_registered(name: str, known: list[RegisteredWorkspace]) -> RegisteredWorkspace:
    path = resolve_path(name)
    for workspace in known:
        if (
            name in (workspace.id, workspace.name)
            or path == workspace.root
            or path.startswith(f"{workspace.root}/")
        ):
            return workspace
    names = ", ".join(sorted(each.name for each in known)) or "none"
    raise WorkspaceNotFound(f"no such workspace: {name}", hint=f"added workspaces: {names}")


# --- output -------------------------------------------------------------------------------------


def _show(
    findings: list[Finding],
    workspaces: list[RegisteredWorkspace],
    daemon: PingResult | None,
    args: Args,
    console: Console,
) -> None:
    terminal = console.terminal
    if args.json:
        about = (
            None
            if daemon is None
            else {"pid": daemon.pid, "version": daemon.version, "socket": daemon.path}
        )
        shown = [asdict(finding) for finding in findings]
        terminal.print_json({"daemon": about, "findings": shown, "counts": count_levels(findings)})
        return
    names = {workspace.id: workspace.name for workspace in workspaces}
    width = terminal.width if terminal.is_out_terminal else 0
    for line in render_examination(
        findings, names, terminal.paint, width=width, is_complete=args.all
    ):
        terminal.print(line)


COMMANDS = {
    "doctor": Command(
        _doctor,
        arguments=(
            Argument("workspaces", "[WS…]", "names, ids or folders; by default all workspaces"),
        ),
        options=(
            Option("--verify", "read every note and compare it with the index"),
            Option("-a --all", "show passed checks too"),
            JSON,
        ),
        examples=("memsyncd doctor", "memsyncd doctor --verify notes", "memsyncd doctor --json"),
    )
}
