"""Save the history of a workspace to a file and put it back: `memsyncd backup` and `restore`.

The daemon makes and reads only files in its own state folder; this module copies them to and from
the file that is named.
"""

from __future__ import annotations

import os
import shutil
import sys

from memsyncd.errors import AlreadyExists, BadRequest, Unwritable
from memsyncd.terminal.console import CLIENT, DASH, show_answer
from memsyncd.terminal.format import render_count, render_size
from memsyncd.terminal.terminal import clean_line, clean_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import SimpleNamespace as Args
    from typing import Any, BinaryIO

    from memsyncd.terminal.console import Console

# A large history takes long to copy and to check. The daemon reports earlier if it takes too long.
ANSWER_S = 600.0
USE_FORCE = "name another file, or use --force to overwrite it"


# --- backup -------------------------------------------------------------------------------------


def save_backup(args: Args, console: Console) -> int:
    """Save the history to a file, or write it to stdout."""
    is_stdout = args.file == DASH
    target = "" if is_stdout else os.path.abspath(os.path.expanduser(args.file))
    if is_stdout:
        _check_stdout(args, console)
    else:
        _check_target(target, is_forced=args.force)
    console.client.timeout_s = ANSWER_S
    answer = console.call_on(args.workspace, "records.backup")
    try:
        with _open_made(answer["path"]) as made:
            if is_stdout:
                shutil.copyfileobj(made, sys.stdout.buffer)
                sys.stdout.buffer.flush()
            else:
                _save(made, target, is_forced=args.force)
    finally:
        _remove(answer["path"])
    if args.json:
        console.terminal.print_json({**answer, "path": target})
    else:
        n_revisions = render_count(answer["revisions"], "revision")
        where = "stdout" if is_stdout else clean_line(args.file)
        console.terminal.report(f"saved {n_revisions} ({render_size(answer['bytes'])}) to {where}")
    return 0


def _check_stdout(args: Args, console: Console) -> None:
    if args.json:
        raise BadRequest("backup: --json needs a file", hint="name a file instead of -")
    if console.terminal.is_out_terminal:
        raise BadRequest(
            "backup: a backup is not text for a terminal", hint="name a file, or redirect stdout"
        )


def _check_target(target: str, *, is_forced: bool) -> None:
    """Refuse a target before the backup is made, if it would be refused then."""
    if os.path.isdir(target):
        raise BadRequest(
            f"{target} is a folder", hint=f"name a file: {os.path.join(target, 'history.db')}"
        )
    if os.path.lexists(target) and not is_forced:
        raise AlreadyExists(f"{target} exists already", hint=USE_FORCE)
    if not os.path.isdir(os.path.dirname(target)):
        raise BadRequest(
            f"there is no folder {os.path.dirname(target)}", hint="create it, or name another file"
        )


def _open_made(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise Unwritable(
            f"the daemon's copy cannot be read: {path}: {error.strerror}",
            hint="run memsyncd backup again, on the machine and as the user of the daemon",
        ) from error


def _save(source: BinaryIO, target: str, *, is_forced: bool) -> None:
    """Write the file whole or not at all, readable by its owner only."""
    part = f"{target}.{os.getpid()}.part"
    try:
        try:
            _write_new(source, part)
            if is_forced:
                os.replace(part, target)
            else:
                _name_new(part, target)
        finally:
            _remove(part)
        _sync_folder(os.path.dirname(target))
    except FileExistsError as error:
        raise AlreadyExists(
            f"{error.filename2 or target} exists already", hint=USE_FORCE
        ) from error
    except OSError as error:
        raise Unwritable(
            f"{target} cannot be written: {error.strerror}",
            hint="make room or name a file in a folder that you can write to",
        ) from error


def _name_new(part: str, target: str) -> None:
    """Rename a file to a name that nothing has. Raises FileExistsError."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no links.
        if os.path.lexists(target):
            raise FileExistsError(target) from None
        os.rename(part, target)


def _write_new(source: BinaryIO, path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        shutil.copyfileobj(source, file)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        # The daemon's next backup removes files that are left in its folder.
        return


# --- restore ------------------------------------------------------------------------------------


def restore_backup(args: Args, console: Console) -> int:
    """Put the history of a file back, by way of the daemon's folder."""
    console.client.timeout_s = ANSWER_S
    requested = {"adopt": args.adopt, "client": CLIENT}
    with _open_backup(args.file) as source:
        prepared = console.call_on(args.workspace, "records.restore", prepare=True, **requested)
        staged = prepared["path"]
        try:
            _stage(source, staged)
            answer = console.call("records.restore", workspace=prepared["workspace"], **requested)
        finally:
            _remove(staged)
    return show_answer(answer, args, console, _show_restored)


def _open_backup(name: str) -> BinaryIO:
    if name == DASH:
        return open(os.dup(sys.stdin.fileno()), "rb")
    path = os.path.expanduser(name)
    if os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
        raise BadRequest(
            f"{name} is not a backup: a part of it is in {name}-wal",
            hint=f"make one file of both: sqlite3 {name} '.backup FILE'; then restore FILE",
        )
    try:
        return open(path, "rb")
    except OSError as error:
        raise BadRequest(
            f"{name}: {error.strerror}", hint="name a file written by `memsyncd backup`, or -"
        ) from error


def _stage(source: BinaryIO, staged: str) -> None:
    part = f"{staged}.{os.getpid()}.part"
    try:
        try:
            _write_new(source, part)
            os.rename(part, staged)
        finally:
            _remove(part)
    except OSError as error:
        raise Unwritable(
            f"the backup cannot be copied to {staged}: {error.strerror}",
            hint="run memsyncd restore again, on the machine and as the user of the daemon",
        ) from error


def _show_restored(answer: dict[str, Any], _args: Args, console: Console) -> None:
    terminal, answer = console.terminal, clean_values(answer)
    terminal.report(f"restored {render_count(answer['revisions'], 'revision')}")
    if answer["recorded"]:
        terminal.report(
            f"recorded {render_count(answer['recorded'], 'change')} of notes since the backup"
        )
    if answer["dropped"]:
        n_dropped = render_count(answer["dropped"], "revision")
        terminal.warn(f"{n_dropped} dropped: [history] keeps no more")
    if answer["set_aside"]:
        terminal.report(f"the former history is kept as {answer['set_aside']}")
