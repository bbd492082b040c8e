"""`memsyncd doctor`: run all checks and print the findings.

The daemon checks index, records, watcher and notes, because only it can open them. Without a daemon
all other checks still run. Exit status: 0 if no finding needs action, 1 if a finding does, 3 if no
daemon answers.
"""

from __future__ import annotations

import glob
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
from memsyncd.cli.doctor.checks import (
    RegisteredWorkspace,
    check_creatable,
    check_daemon,
    check_disk_space,
    check_entry,
    check_notes_storage,
    check_own_storage,
    check_permissions,
    check_service,
    check_socket,
    find_last_error,
    find_row,
    find_storage,
    find_unresponsive,
    ping,
    read_service,
    stat_entry,
)
from memsyncd.cli.git_merges import find_missing, is_tracked
from memsyncd.client.connection import find_sockets
from memsyncd.dirs import find_user_dirs, has_named_socket
from memsyncd.errors import MemsyncdError, NoDaemon, WorkspaceNotFound
from memsyncd.lock import is_held, read_holder
from memsyncd.terminal.other_daemons import find_other_daemons
from memsyncd.terminal.parser import JSON, Argument, Command, Option, make_workspace_option
from memsyncd.terminal.terminal import clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.cli.doctor.checks import PingResult
    from memsyncd.dirs import Dirs
    from memsyncd.terminal.console import Console

FINDINGS_EXIT = 1
NO_DAEMON = 3
STATUS_S = 10.0
EXAMINE_S = 300.0
VERIFY_S = 3600.0


def _doctor(args: Args, console: Console) -> int:
    dirs = find_user_dirs(console.env)
    answers = [ping(path) for path in find_sockets(console.env)]
    daemon = next((answer for answer in answers if answer.pid is not None), None)
    workspaces: list[RegisteredWorkspace] = []
    of_workspaces = [find_row("unasked")]
    if daemon is not None:
        workspaces, of_workspaces = _examine_workspaces(args, console, dirs)
    elif args.workspaces or args.workspace:
        what = "no daemon answers, and it alone examines workspaces"
        raise NoDaemon(what, hint="see what is wrong: memsyncd doctor")
    daemon_pid = daemon.pid if daemon else None
    of_machine = [
        *_examine_program(console, dirs, answers, daemon),
        *_examine_machine(dirs, workspaces),
        *check_service(read_service(console), daemon_pid=daemon_pid),
    ]
    # The daemon repeats a finding about the installation for each workspace.
    findings = list(dict.fromkeys([*of_machine, *of_workspaces]))
    _show(findings, workspaces, daemon, args, console)
    if daemon is None:
        return NO_DAEMON
    return 0 if is_healthy(findings) else FINDINGS_EXIT


# --- checks -------------------------------------------------------------------------------------


def _examine_program(
    console: Console, dirs: Dirs, answers: list[PingResult], daemon: PingResult | None
) -> list[Finding]:
    """Check the daemon, its socket and its configuration."""
    holders = [read_holder(path) for path in dirs.lock_paths if is_held([path])]
    holder_pid = next((holder.pid for holder in holders if holder is not None), None)
    others = find_other_daemons(console.env, (daemon and daemon.pid) or 0)
    path = daemon.path if daemon else answers[0].path
    is_used = any(answer.pid is not None or answer.fault for answer in answers)
    findings = [
        *check_daemon(
            answers,
            holder_pid,
            others,
            version=memsyncd.__version__,
            protocol=memsyncd.PROTOCOL,
        ),
        *check_socket(path, uid=os.geteuid(), is_held=is_used),
        *_examine_config(console, dirs),
    ]
    if daemon and has_named_socket(console.env) and path != dirs.socket_path:
        findings.append(find_row("socket_named", where=dirs.socket_path, used=path))
    if daemon is None and (line := find_last_error(dirs.log_file)):
        findings.append(find_row("log", where=dirs.log_file, line=line))
    return findings


def _examine_config(console: Console, dirs: Dirs) -> list[Finding]:
    from memsyncd.config.load import load_config

    where = dirs.config_file
    findings = check_entry(stat_entry(where), "config", uid=os.geteuid(), is_public=True)
    try:
        loaded = load_config(where, console.env)
    except MemsyncdError as error:
        reason = " ".join(error.message.split())
        hint = error.hint or "see memsyncd config check"
        return [*findings, find_row("config_refused", where=where, reason=reason, hint=hint)]
    warnings = loaded.warnings
    findings += [find_row("config_warning", where=where, warning=warning) for warning in warnings]
    return findings or [find_row("config", where=where)]


def _examine_machine(dirs: Dirs, workspaces: list[RegisteredWorkspace]) -> list[Finding]:
    """Check disks, file systems and permissions."""
    own = (
        (dirs.state_dir, "records.db", "history is", "XDG_STATE_HOME"),
        (dirs.cache_dir, "index.db", "indexes are", "XDG_CACHE_HOME"),
    )
    silent = find_unresponsive([workspace.root for workspace in workspaces])
    findings = [
        find_row("folder_silent", where=each.root, workspace=each.id)
        for each in workspaces
        if each.root in silent
    ]
    well = [workspace for workspace in workspaces if workspace.root not in silent]
    kept: list[str] = []
    of_storage: list[Finding] = []
    is_known = False
    for folder, file, contents, variable in own:
        obstacles = check_creatable(folder, variable=variable)
        findings += obstacles
        kept += [folder] * (not obstacles)
        for path in glob.glob(f"{glob.escape(folder)}/*/{file}"):
            kept += [os.path.dirname(path), path]
        storage = find_storage(folder)
        is_lasting = folder == dirs.state_dir
        is_known = bool(storage.kind)
        of_storage += check_own_storage(
            storage, contents=contents, variable=variable, is_lasting=is_lasting
        )
    for workspace in well:
        of_storage += check_notes_storage(find_storage(workspace.root), workspace.id)
        merges = _check_merges(workspace)
        findings += [replace(finding, workspace=workspace.id) for finding in merges]
    return [
        *findings,
        *check_permissions(kept, uid=os.geteuid()),
        *check_disk_space([folder for folder, *_ in own] + [each.root for each in well]),
        *(of_storage or [find_row("local")] * is_known),
    ]


def _check_merges(workspace: RegisteredWorkspace) -> list[Finding]:
    root, is_vault = workspace.root, workspace.is_vault
    what = find_missing(root, is_vault=is_vault) if is_tracked(root, is_vault=is_vault) else ""
    return [find_row("git_merges", where=root, what=what, root=root)] if what else []


# --- workspaces ---------------------------------------------------------------------------------


def _examine_workspaces(
    args: Args, console: Console, dirs: Dirs
) -> tuple[list[RegisteredWorkspace], list[Finding]]:
    """Return the selected workspaces and the daemon's findings. Raises WorkspaceNotFound if one is
    unknown.
    """
    try:
        chosen, findings = _find_workspaces(args, console, dirs)
    except WorkspaceNotFound:
        raise
    except (MemsyncdError, LookupError, TypeError) as error:
        return [], [find_row("no_status", reason=_explain(error))]
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
            continue  # the workspace was removed meanwhile
        except (MemsyncdError, LookupError, TypeError) as error:
            hint = getattr(error, "hint", "") or "memsyncd restart"
            reason = _explain(error)
            findings.append(
                find_row("unexamined", workspace=workspace.id, reason=reason, hint=hint)
            )
    terminal.clear()
    if not chosen:
        findings.append(find_row("no_workspace"))
    return list(chosen.values()), findings


def _explain(error: Exception) -> str:
    # The answer of another version may lack a field.
    return error.message if isinstance(error, MemsyncdError) else "its answer is incomplete"


def _find_workspaces(
    args: Args, console: Console, dirs: Dirs
) -> tuple[dict[str, RegisteredWorkspace], list[Finding]]:
    """Return the selected workspaces by id, and findings: collections whose folder is missing, and
    a daemon that reads another configuration than this program.
    """
    console.client.timeout_s = STATUS_S
    names = [*args.workspaces, *args.workspace]
    named = [console.call("status", workspace=console.name_workspace(name)) for name in names]
    chosen = {
        info["id"]: RegisteredWorkspace(
            info["id"], info["name"], info["root"], info.get("preset") == "vault"
        )
        for answer in named or [console.call("workspace.list")]
        for info in answer["workspaces"]
    }
    status = console.call("status")
    # A daemon of an older version does not send this field.
    collections = () if names else status.get("collections", ())
    findings = [
        find_row("collection_missing", where=str(each["root"]), name=str(each["name"]))
        for each in collections
        if each["is_missing"]
    ]
    path = str(status["config"]).partition(" (")[0]
    if os.path.realpath(path) != os.path.realpath(dirs.config_file):
        findings.append(find_row("config_other", where=dirs.config_file, other=path))
    return chosen, findings


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
        listed = [asdict(finding) for finding in findings]
        terminal.print_json({"daemon": about, "findings": listed, "counts": count_levels(findings)})
        return
    names = {workspace.id: workspace.name for workspace in workspaces}
    width = terminal.width if terminal.is_out_terminal else 0
    for line in render_examination(
        findings, names, terminal.paint, width=width, is_complete=args.verbose
    ):
        terminal.print(line)


COMMANDS = {
    "doctor": Command(
        _doctor,
        arguments=(Argument("workspaces", "[WS…]", "the same as -w"),),
        options=(
            Option("--verify", "read every note and compare it with the index"),
            Option("-v --verbose", "show passed checks too"),
            make_workspace_option("only this", default="all workspaces", is_repeated=True),
            JSON,
        ),
        gone=dict.fromkeys(("-a", "--all"), "passed checks, too: -v; it is about all workspaces"),
        examples=("memsyncd doctor", "memsyncd doctor --verify notes", "memsyncd doctor --json"),
    )
}
