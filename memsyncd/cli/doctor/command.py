"""`memsyncd doctor`: look at everything that can be wrong, say what is, and what to do about it.

What only the daemon knows it is asked for; without one everything else is looked at all the same. Exit status: 0 if nothing asks
for somebody to act, 1 if something does, 3 if no daemon answers.
"""

from __future__ import annotations

import os
import sys

import memsyncd
from memsyncd.cli.doctor.daemon_checks import (
    ask_daemons,
    ask_supervisor,
    find_daemon_pid,
    judge_answers,
    judge_service,
    judge_socket,
)
from memsyncd.cli.doctor.filesystem_checks import (
    judge_notes_ground,
    judge_own_ground,
    look_at_grounds,
)
from memsyncd.cli.doctor.findings import (
    Finding,
    count_levels,
    is_well,
    read_findings,
    render_examination,
)
from memsyncd.cli.doctor.folder_checks import (
    Registered,
    find_last_words,
    find_silent,
    judge_config_mode,
    judge_config_path,
    judge_database,
    judge_private,
    judge_room,
    judge_root,
    judge_silent,
    look_at,
    measure_room,
    read_registered,
)
from memsyncd.cli.doctor.process_checks import (
    judge_inotify,
    judge_open_files,
    list_processes,
    read_inotify,
)
from memsyncd.cli.parser import JSON, Argument, Command, Option
from memsyncd.cli.terminal import clean_line
from memsyncd.client.connection import find_sockets
from memsyncd.dirs import find_dirs
from memsyncd.errors import MemsyncdError, WorkspaceNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args

    from memsyncd.cli.console import Console
    from memsyncd.cli.doctor.daemon_checks import Answer
    from memsyncd.cli.doctor.process_checks import Process
    from memsyncd.dirs import Dirs

SOMETHING_FOUND = 1
NO_DAEMON = 3
STATUS_S = 10.0
EXAMINE_S = 300.0
VERIFY_S = 3600.0


def _doctor(args: Args, console: Console) -> int:
    home = console.env.get("HOME") or os.path.expanduser("~")
    dirs = find_dirs(console.env, home, sys.platform)
    answers = ask_daemons(find_sockets(console.env))
    daemon = next((answer for answer in answers if answer.pid is not None), None)
    if daemon is None:
        workspaces, findings = _examine_alone(args, console, dirs)
    else:
        workspaces, findings = _have_examined(args, console, dirs)
    processes = list_processes([os.path.realpath(dirs.state_dir), os.path.realpath(dirs.cache_dir)])
    found = [
        *_examine_program(console, dirs, answers, processes),
        *_examine_machine(dirs, workspaces, processes, find_daemon_pid(answers, processes)),
        *judge_service(ask_supervisor(console), daemon_pid=daemon.pid if daemon else None),
        *findings,
    ]
    findings = list(dict.fromkeys(found))  # what concerns all is found with each workspace
    _show(findings, workspaces, daemon, args, console)
    if daemon is None:
        return NO_DAEMON
    return 0 if is_well(findings) else SOMETHING_FOUND


# --- what is looked at ------------------------------------------------------------------------------------------------


def _examine_program(
    console: Console, dirs: Dirs, answers: list[Answer], processes: list[Process]
) -> list[Finding]:
    """The daemon, its socket, its configuration."""
    is_answered = any(answer.pid is not None for answer in answers)
    is_held = any(answer.is_listening for answer in answers)
    path = next((answer.path for answer in answers if answer.pid is not None), answers[0].path)
    found = [
        *judge_answers(
            answers, processes, version=memsyncd.__version__, protocol=memsyncd.PROTOCOL
        ),
        *judge_socket(
            look_at(path), look_at(os.path.dirname(path)), uid=os.geteuid(), is_held=is_held
        ),
        *_examine_config(console, dirs),
    ]
    last_words = "" if is_answered else find_last_words(dirs.log_file)
    if last_words:
        what = f"the last daemon that ran in the background said: {last_words}"
        found.append(Finding(level="info", check="log", what=what, where=dirs.log_file))
    return found


def _examine_config(console: Console, dirs: Dirs) -> list[Finding]:
    from memsyncd.config import load_config

    found = judge_config_mode(look_at(dirs.config_file), uid=os.geteuid())
    try:
        loaded = load_config(dirs.config_file, console.env)
    except MemsyncdError as error:
        what = f"the configuration is refused: {' '.join(error.message.split())}"
        remedy = error.hint or "memsyncd config check says where"
        return [
            *found,
            Finding(
                level="error", check="config", what=what, where=dirs.config_file, remedy=remedy
            ),
        ]
    found += [
        Finding(
            level="warning",
            check="config",
            what=warning,
            where=dirs.config_file,
            remedy="memsyncd config check",
        )
        for warning in loaded.warnings
    ]
    return found or [
        Finding(
            level="ok", check="config", what="the configuration is fine", where=dirs.config_file
        )
    ]


def _examine_machine(
    dirs: Dirs, workspaces: list[Registered], processes: list[Process], daemon_pid: int | None
) -> list[Finding]:
    """Disks, file systems, rights, and the user's other processes."""
    uid = os.geteuid()
    kept = [
        f"{folder}/{each.id}" for folder in (dirs.state_dir, dirs.cache_dir) for each in workspaces
    ]
    files = [f"{dirs.state_dir}/{each.id}/records.db" for each in workspaces]
    files += [f"{dirs.cache_dir}/{each.id}/index.db" for each in workspaces]
    entries = [look_at(path) for path in (dirs.state_dir, dirs.cache_dir, *kept, *files)]
    state, cache = look_at_grounds([dirs.state_dir, dirs.cache_dir])
    silent = find_silent([each.root for each in workspaces])
    found = [_of(each, judge_silent(each.root)) for each in workspaces if each.root in silent]
    workspaces = [each for each in workspaces if each.root not in silent]
    found += [
        *judge_private(entries, uid=uid),
        *judge_room(
            measure_room([dirs.state_dir, dirs.cache_dir, *(each.root for each in workspaces)])
        ),
        *judge_own_ground(
            state, what_lies_there="history lies", variable="XDG_STATE_HOME", is_lasting=True
        ),
        *judge_own_ground(
            cache, what_lies_there="indexes lie", variable="XDG_CACHE_HOME", is_lasting=False
        ),
        *judge_open_files(processes, daemon_pid=daemon_pid),
        *judge_inotify(read_inotify(), processes, daemon_pid=daemon_pid),
    ]
    grounds = look_at_grounds([each.root for each in workspaces])
    for workspace, ground in zip(workspaces, grounds, strict=True):
        found += [_of(workspace, finding) for finding in judge_notes_ground(ground)]
    if state.mount is not None and not any(
        finding.check in ("filesystem", "cloud") for finding in found
    ):
        found.append(
            Finding(
                level="ok", check="filesystem", what="notes, index and records lie on local disks"
            )
        )
    return found


def _of(workspace: Registered, finding: Finding) -> Finding:
    return Finding(**{**finding.to_json(), "workspace": workspace.id})


# --- workspaces, with the daemon and without --------------------------------------------------------------------------


def _have_examined(
    args: Args, console: Console, dirs: Dirs
) -> tuple[list[Registered], list[Finding]]:
    """The workspaces that are meant, and what the daemon finds in them. Raises WorkspaceNotFound."""
    try:
        chosen, findings = _ask_what_is_there(args, console, dirs)
    except WorkspaceNotFound:
        raise
    except (MemsyncdError, LookupError, TypeError) as error:
        why = error.message if isinstance(error, MemsyncdError) else "it tells less than it should"
        what = f"the daemon answers, but not when asked how it is: {why}"
        remedy = "memsyncd restart; if it does not stop, the answer to that says what does"
        workspaces, found = _examine_alone(args, console, dirs)
        return workspaces, [
            Finding(level="error", check="daemon", what=what, remedy=remedy),
            *found,
        ]
    terminal = console.terminal
    console.client.timeout_s = VERIFY_S if args.verify else EXAMINE_S
    for number, workspace in enumerate(chosen.values(), 1):
        doing = "comparing the notes of" if args.verify else "looking at"
        terminal.draw(f"{doing} {clean_line(workspace.name)} ({number} of {len(chosen)})")
        try:
            findings += read_findings(
                console.call("doctor", workspace=workspace.id, verify=args.verify)
            )
        except WorkspaceNotFound:
            continue  # it was removed meanwhile
        except (MemsyncdError, LookupError, TypeError) as error:
            why, hint = (
                (error.message, error.hint)
                if isinstance(error, MemsyncdError)
                else ("its answer is another version's", "")
            )
            what, remedy = f"the daemon could not look at this: {why}", hint or "memsyncd restart"
            findings.append(
                Finding(
                    level="error", check="daemon", what=what, remedy=remedy, workspace=workspace.id
                )
            )
    terminal.clear()
    if not chosen:
        what = "no folder is indexed"
        findings.append(
            Finding(level="info", check="workspaces", what=what, remedy="memsyncd add PATH")
        )
    return list(chosen.values()), findings


def _ask_what_is_there(
    args: Args, console: Console, dirs: Dirs
) -> tuple[dict[str, Registered], list[Finding]]:
    """The workspaces that are meant, by their ids, and whether the daemon reads the configuration that is meant."""
    chosen: dict[str, Registered] = {}
    console.client.timeout_s = STATUS_S
    named = [
        console.call("status", workspace=console.name_workspace(name)) for name in args.workspaces
    ]
    for answer in named or [console.call("workspace.list")]:
        for info in answer["workspaces"]:
            chosen[info["id"]] = Registered(id=info["id"], name=info["name"], root=info["root"])
    return chosen, judge_config_path(str(console.call("status")["config"]), dirs.config_file)


def _examine_alone(
    args: Args, console: Console, dirs: Dirs
) -> tuple[list[Registered], list[Finding]]:
    """The workspaces that are meant, and what can be seen of them without a daemon. Raises WorkspaceNotFound."""
    list_file = f"{dirs.state_dir}/workspaces.json"
    known, trouble = read_registered(list_file)
    known += _read_configured(console, dirs)
    chosen = [_find_registered(name, known) for name in args.workspaces] or known
    findings = [
        Finding(
            level="error",
            check="workspaces",
            what=trouble,
            where=list_file,
            remedy="see what stands in it",
        )
    ] * bool(trouble)
    for workspace in chosen:
        findings.append(judge_root(workspace))
        for check, folder in (("index", dirs.cache_dir), ("records", dirs.state_dir)):
            path = f"{folder}/{workspace.id}/{check}.db"
            findings += judge_database(path, check=check, workspace=workspace.id)
    what = "index, records, watcher and notes are looked at by the daemon only"
    findings.append(
        Finding(level="info", check="daemon", what=what, remedy="once one answers, ask again")
    )
    return chosen, findings


def _read_configured(console: Console, dirs: Dirs) -> list[Registered]:
    """Those of the configuration; their ids are the daemon's to make."""
    from memsyncd.config import load_config

    try:
        configured = load_config(dirs.config_file, console.env).config.workspace
    except MemsyncdError:
        return []
    roots = [(os.path.realpath(os.path.expanduser(each.path)), each.name) for each in configured]
    return [
        Registered(id=root, name=name or os.path.basename(root), root=root) for root, name in roots
    ]


def _find_registered(name: str, known: list[Registered]) -> Registered:
    path = os.path.realpath(os.path.expanduser(name))
    for workspace in known:
        if (
            name in (workspace.id, workspace.name)
            or path == workspace.root
            or path.startswith(f"{workspace.root}/")
        ):
            return workspace
    names = ", ".join(sorted(each.name for each in known)) or "none"
    raise WorkspaceNotFound(f"no such workspace: {name}", hint=f"those that were added: {names}")


# --- what is shown ----------------------------------------------------------------------------------------------------


def _show(
    findings: list[Finding],
    workspaces: list[Registered],
    daemon: Answer | None,
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
        said = [finding.to_json() for finding in findings]
        terminal.print_json({"daemon": about, "findings": said, "counts": count_levels(findings)})
        return
    names = {workspace.id: workspace.name for workspace in workspaces}
    width = terminal.width if terminal.is_out_terminal else 0
    for line in render_examination(findings, names, terminal.paint, width=width, has_all=args.all):
        terminal.print(line)


COMMANDS = {
    "doctor": Command(
        _doctor,
        arguments=(
            Argument(
                "workspaces", "WS", "names, ids or folders; by default all workspaces", many="any"
            ),
        ),
        options=(
            Option("--verify", "read every note and prove that the index equals the disk"),
            Option("-a --all", "show what is well, too"),
            JSON,
        ),
        examples=("memsyncd doctor", "memsyncd doctor --verify notes", "memsyncd doctor --json"),
    )
}
