"""`memsyncd integrate`: connect a coding agent by editing its configuration files, and undo it.

The command reads all files and decides on all changes before it writes a file. It shows each change
as a diff and asks for a yes. First it copies an existing file into the state folder; `--remove`
restores the file byte for byte if nobody has changed it since. A file that cannot be edited safely
stays as it is.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from functools import cached_property

import memsyncd
from memsyncd.client.connection import encode_json, parse_json
from memsyncd.dirs import VARIABLES, find_user_dirs
from memsyncd.errors import BadRequest, EditRefused, MemsyncdError
from memsyncd.integrations.coding_agents import (
    CLIENTS,
    PROJECT,
    USER,
    AgentClient,
    ConfiguredServer,
    File,
    Invocation,
    Piece,
    Prose,
    install,
    is_installed,
    list_untrusted_hooks,
    read_server,
    uninstall,
)
from memsyncd.integrations.config_edit import Unreadable
from memsyncd.operations.history.show import render_diff
from memsyncd.operations.status.show import list_daemon_warnings
from memsyncd.terminal.console import Console, can_ask
from memsyncd.terminal.files import make_private_folders, write_file
from memsyncd.terminal.format import render_count
from memsyncd.terminal.parser import Argument, Command, Option
from memsyncd.terminal.terminal import clean, clean_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace as Args
    from typing import Any

    Changes = Mapping[str, tuple[str | None, str | None]]
    """By path: the text of a file before and after, None for no file."""

LIMIT_BYTES = 4 << 20
ANSWER_S = 30
# An earlier memsyncd kept its copy beside the file, under this suffix.
OLD_COPY_SUFFIX = ".before-memsyncd"
BOM = "\ufeff"
NOT_INSTALLED = 1


class Record:
    """A file as it was before memsyncd wrote it: a copy of its text, and beside the copy a JSON
    file with the digest of the written text and the folders that were made for it.

    Both files are in the state folder, so that no repository contains them.
    """

    def __init__(self, path: str, env: Mapping[str, str]) -> None:
        name = hashlib.sha256(path.encode()).hexdigest()[:16]
        folder = f"{find_user_dirs(env).state_dir}/integrate"
        self.path = path
        self.copy_path = f"{folder}/{name}-{os.path.basename(path)}"
        self._facts_path = f"{folder}/{name}.json"
        facts: Any = {}
        with (
            contextlib.suppress(OSError, ValueError),
            open(self._facts_path, encoding="utf-8") as file,
        ):
            facts = parse_json(file.read())
        self.exists = facts.get("path") == path
        self.written: str = facts.get("written", "") if self.exists else ""
        self.is_exact: bool = self.exists and facts.get("is_exact") is True
        self.folders: list[str] = facts.get("folders", []) if self.exists else []

    @cached_property
    def before(self) -> str | None:
        """The text before memsyncd wrote the file, None if there was no file."""
        for path in (self.copy_path, self.path + OLD_COPY_SUFFIX):
            with contextlib.suppress(EditRefused):
                text = _read_config(path)
                if text is not None:
                    return text
        return None

    def save(self, before: str | None, written: str, *, is_exact: bool) -> None:
        """Write the copy and the facts. `is_exact` says that the written text is the earlier text
        with memsyncd's pieces and no other change. Raises OSError.
        """
        folders = [*self.folders, *_list_missing_folders(self.path)]
        make_private_folders(os.path.dirname(self.copy_path))
        if before is None:
            self._unlink(self.copy_path)
        else:
            write_file(self.copy_path, before, like=self.path)
        self._unlink(self.path + OLD_COPY_SUFFIX)
        facts = {
            "path": self.path,
            "written": _digest(written),
            "is_exact": is_exact,
            "folders": list(dict.fromkeys(folders)),
        }
        write_file(self._facts_path, encode_json(facts), like=self.copy_path)

    def keep(self, text: str) -> None:
        """Write this text as the copy. Raises OSError."""
        make_private_folders(os.path.dirname(self.copy_path))
        write_file(self.copy_path, text, like=self.path)

    def forget(self, *, is_copy_kept: bool) -> None:
        """Delete the facts, and the copies too unless `is_copy_kept`."""
        self._unlink(self._facts_path)
        if not is_copy_kept:
            self._unlink(self.copy_path)
            self._unlink(self.path + OLD_COPY_SUFFIX)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(self.copy_path))

    def find_copy(self) -> str:
        """Return the path of the copy from which `before` was read."""
        is_old = not os.path.exists(self.copy_path)
        return self.path + OLD_COPY_SUFFIX if is_old else self.copy_path

    def _unlink(self, path: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(path)


class ClientFile:
    """One file of a client. It gets `pieces`, and with `--capture` the pieces `capture` as well."""

    def __init__(
        self, path: str, pieces: list[Piece], capture: list[Piece], env: Mapping[str, str]
    ) -> None:
        self.path = path
        self.pieces = pieces
        self.capture = capture
        self.record = Record(path, env)

    @cached_property
    def text(self) -> str | None:
        """The text as it was first read, None without a file. Raises EditRefused."""
        return _read_config(self.path)

    def install(self, text: str | None, program: Invocation, *, is_capturing: bool) -> str | None:
        """Return the text with the pieces. Raises EditRefused if it cannot be edited."""
        bom, body = _split_bom(text)
        own = [piece for piece in self.capture if not isinstance(piece, File)]
        try:
            if not is_capturing and own and body and is_installed(body, own, program):
                body = uninstall(body, own, program) or ""
            pieces = [*self.pieces, *(self.capture if is_capturing else ())]
            return bom + install(body, pieces, program) if pieces else text
        except Unreadable as error:
            raise self._refuse(error) from None

    def uninstall(self, program: Invocation) -> str | None:
        """Return the text without the pieces, None for no file. If nothing else has changed, it is
        the text that the file had before memsyncd wrote it. Raises EditRefused.
        """
        if self.text is None or not self.is_installed(program):
            return self.text
        if self.record.is_exact and self.record.written == _digest(self.text):
            return self.record.before
        bom, body = _split_bom(self.text)
        before = None if self.record.before is None else _split_bom(self.record.before)[1]
        if any(isinstance(piece, File) for piece in self.pieces):
            before = None
        try:
            rest = uninstall(body, [*self.pieces, *self.capture], program, before)
        except Unreadable as error:
            raise self._refuse(error) from None
        return None if rest is None else bom + rest

    def is_installed(self, program: Invocation) -> bool:
        """Return whether the file contains any of the pieces. Raises EditRefused."""
        if self.text is None:
            return False
        try:
            pieces = [*self.pieces, *self.capture]
            return is_installed(_split_bom(self.text)[1], pieces, program)
        except Unreadable as error:
            raise self._refuse(error) from None

    def find_state(self, program: Invocation) -> str:
        """Return `missing`, `outdated` or `current`."""
        if not self.is_installed(program):
            return "missing"
        return "current" if self.text in self._list_texts(program) else "outdated"

    def is_edited(self, program: Invocation) -> bool:
        """Return whether somebody has changed a file that belongs to memsyncd alone."""
        if self.text is None or not any(isinstance(piece, File) for piece in self.pieces):
            return False
        is_known = self.record.written == _digest(self.text)
        return not is_known and self.text not in self._list_texts(program)

    def save_record(self, new: str, program: Invocation, *, is_capturing: bool) -> None:
        """Save the text that the file had, or would have, without memsyncd. Raises OSError."""
        is_edited = self.is_installed(program) and self.is_edited(program)
        if is_edited or not self.is_installed(program) or self._has_other_server():
            before = self.text
        elif self.record.exists or self.record.before is not None:
            before = self.record.before
        else:
            before = self.uninstall(program)
        is_exact = self.install(before, program, is_capturing=is_capturing) == new
        self.record.save(before, new, is_exact=is_exact and not is_edited)

    def close_record(self, rest: str | None, program: Invocation) -> str:
        """Delete the record of a file. `rest` is its text now, without memsyncd's pieces. The copy
        is kept if it contains text that the file lacks; then return its path, else an empty text.
        """
        if self.is_edited(program):
            self.record.keep(self.text or "")
            is_kept = True
        else:
            is_kept = self.record.before not in {None, rest}
        copy = self.record.find_copy() if is_kept else ""
        self.record.forget(is_copy_kept=is_kept)
        return copy

    def _has_other_server(self) -> bool:
        """Return whether the file names a server `memsyncd` that starts another program."""
        server = read_server(_split_bom(self.text)[1], self.pieces)
        return server is not None and not any("memsyncd" in word for word in server.command)

    def _list_texts(self, program: Invocation) -> list[str | None]:
        """Return the text with the pieces, first without and then with the pieces for capturing."""
        return [
            self.install(self.text, program, is_capturing=is_capturing)
            for is_capturing in (False, True)
        ]

    def check_unchanged(self) -> None:
        """Raise EditRefused if another program has written the file since it was read."""
        if _read_config(self.path) != self.text:
            raise EditRefused(
                f"{self.path} has changed meanwhile; nothing was written", hint="run this again"
            )

    def _refuse(self, error: Unreadable) -> EditRefused:
        return _refuse_file(self.path, str(error))


def _integrate(args: Args, console: Console) -> int:
    client, scope = _choose(args, console)
    program = Invocation(find_invocation(scope), memsyncd.__version__)
    targets = _find_targets(client, scope, console)
    if args.check:
        return _check(args, client, scope, targets, program, console)
    if args.remove:
        targets = [
            target for target in targets if not _is_shared(target, args, scope, program, console)
        ]
    changes = {target.path: _plan_change(target, args, program, console) for target in targets}
    changes = {path: change for path, change in changes.items() if change[0] != change[1]}
    _show_changes(changes, console, is_whole=args.print)
    if args.print:
        return 0
    if not changes:
        console.terminal.report("nothing to change: " + ("removed" if args.remove else "connected"))
        return _install_service(console) if args.service else 0
    is_service_missing = not args.remove and not args.service and _lacks_service(console)
    with_service = _confirm(args, console, is_service_offered=is_service_missing)
    changed = [target for target in targets if target.path in changes]
    for target in targets:
        target.check_unchanged()
    if not args.remove:
        _save_records(changed, changes, args, program)
    _write_changes(changes)
    _report_done(args, client, scope, program, console)
    if args.remove:
        _close_records(changed, changes, program, console)
    if with_service:
        return _install_service(console)
    if is_service_missing:
        console.terminal.report("  start memsyncd at each login: memsyncd service install")
    return 0


def _choose(args: Args, console: Console) -> tuple[AgentClient, str]:
    """Return the client and the scope. Raises BadRequest."""
    client = CLIENTS[args.client]
    scope = args.scope or next(iter(client.scopes))
    if scope not in client.scopes:
        raise BadRequest(
            f"{client.title} has no scope {scope}", hint=f"use {' or '.join(client.scopes)}"
        )
    _refuse_together(args)
    if args.capture and not client.capture:
        raise BadRequest(f"{client.title} has no hooks to capture with", hint="leave --capture out")
    if args.service:
        _lacks_service(console, is_needed=True)
    return client, scope


# Options that choose an action, and the other options that each action accepts.
_ACTS = {"print": ("capture",), "remove": ("yes",), "check": ("json",)}
_OPTIONS = ("yes", "capture", "service", "json")


def _refuse_together(args: Args) -> None:
    """Raise BadRequest if an option would be ignored."""
    acts = [name for name in _ACTS if getattr(args, name)]
    if len(acts) > 1:
        raise BadRequest("--print, --remove and --check do not go together", hint="use one of them")
    taken = _ACTS[acts[0]] if acts else ("yes", "capture", "service")
    for option in _OPTIONS:
        if getattr(args, option) and option not in taken:
            where = f"with --{acts[0]}" if acts else "without --check"
            raise BadRequest(f"--{option} has no effect {where}", hint=f"leave --{option} out")


def _lacks_service(console: Console, *, is_needed: bool = False) -> bool:
    """Return whether the system could run memsyncd as a service, and no service is installed.

    Raises BadRequest if the service `is_needed` and the system cannot run one.
    """
    # Imported late, because --check and --print do not need it.
    from memsyncd.cli.service import find_supervisor

    try:
        supervisor = find_supervisor(console)
    except BadRequest:
        if is_needed:
            raise
        return False
    return supervisor.is_available() and not supervisor.is_installed()


def _install_service(console: Console) -> int:
    from memsyncd.cli.service import install_service

    return install_service(console)


def _save_records(
    changed: list[ClientFile], changes: Changes, args: Args, program: Invocation
) -> None:
    for target in changed:
        try:
            new = changes[target.path][1] or ""
            target.save_record(new, program, is_capturing=args.capture)
        except OSError as error:
            raise EditRefused(
                f"{target.record.copy_path} cannot be written: {error.strerror}; nothing was done",
                hint="make its folder writable: memsyncd keeps copies of the earlier files there",
            ) from error


def _close_records(
    changed: list[ClientFile], changes: Changes, program: Invocation, console: Console
) -> None:
    folders = {folder for target in changed for folder in target.record.folders}
    for target in changed:
        copy = target.close_record(changes[target.path][1], program)
        if copy:
            console.terminal.report(f"  another program had changed {clean_line(target.path)};")
            console.terminal.report(f"  a copy of the earlier text stays here: {clean_line(copy)}")
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _is_shared(
    target: ClientFile, args: Args, scope: str, program: Invocation, console: Console
) -> bool:
    """Return whether the section in this file also serves another client that is connected."""
    if not all(isinstance(piece, Prose) for piece in target.pieces):
        return False
    for name, other in CLIENTS.items():
        other_targets = _find_targets(other, scope, console) if name != args.client else []
        # A file that cannot be read does not connect the other client.
        with contextlib.suppress(EditRefused):
            if any(other_target.path == target.path for other_target in other_targets) and any(
                other_target.is_installed(program)
                for other_target in other_targets
                if other_target.path != target.path
            ):
                return True
    return False


def _plan_change(
    target: ClientFile, args: Args, program: Invocation, console: Console
) -> tuple[str | None, str | None]:
    """Return the text of a file before and after the change. If the file cannot be edited,
    `--print` shows the text that belongs in it. Raises EditRefused.
    """
    try:
        if args.remove:
            return target.text, target.uninstall(program)
        return target.text, target.install(target.text, program, is_capturing=args.capture)
    except EditRefused as error:
        if not args.print:
            raise
        console.terminal.report(error.message)
        return None, target.install(None, program, is_capturing=args.capture)


def _report_done(
    args: Args, client: AgentClient, scope: str, program: Invocation, console: Console
) -> None:
    terminal = console.terminal
    words = f"memsyncd integrate {args.client} --scope {scope}"
    if args.remove:
        terminal.report(f"{client.title} is disconnected ({scope})")
        return
    terminal.report(f"{client.title} is connected ({scope})")
    terminal.report(f"  verify: {words} --check, and {client.verify}")
    if client.note:
        terminal.report(f"  {client.note}")
    if scope == PROJECT and program.command != ["memsyncd"]:
        path = clean_line(" ".join(program.command))
        terminal.report(f"  memsyncd is not on the PATH, so the files call it by its path: {path}")
        terminal.report("  Other people who share the files may not have this path.")
    if args.capture:
        terminal.report("  the hooks write what [capture] in memsyncd's configuration allows")
    terminal.report(f"  undo: {words} --remove")


# --- the files of a client ----------------------------------------------------------------------


def _find_targets(client: AgentClient, scope: str, console: Console) -> list[ClientFile]:
    if scope == PROJECT and not console.cwd:
        raise BadRequest("the current folder was deleted", hint="change to the project's folder")
    pieces: dict[str, list[Piece]] = {}
    capture: dict[str, list[Piece]] = {}
    for table, pieces_by_path in ((client.scopes, pieces), (client.capture, capture)):
        for piece in table.get(scope, ()):
            path = _follow_link(_find_path(piece.path, console), scope, console)
            pieces_by_path.setdefault(path, []).append(piece)
    paths = dict.fromkeys((*pieces, *capture))
    return [
        ClientFile(path, pieces.get(path, []), capture.get(path, []), console.env) for path in paths
    ]


def _find_path(path: str, console: Console) -> str:
    """Return the absolute path of a piece on this system."""
    home = console.env.get("HOME") or os.path.expanduser("~")
    if path.startswith("$"):
        name, _, other = path[1:].partition("|")
        folder = console.env.get(name, "")
        # `$NAME|~/.folder/rest`: the variable replaces `~/.folder`.
        path = other
        if folder.startswith("/"):
            path = os.path.join(folder, *other.split("/")[2:])
    if path.startswith("~/"):
        path = home + path[1:]
    path = os.path.join(console.cwd, path)
    # opencode reads opencode.json and opencode.jsonc.
    if path.endswith("opencode.json") and not os.path.exists(path) and os.path.exists(path + "c"):
        return path + "c"
    return path


def _follow_link(path: str, scope: str, console: Console) -> str:
    """Return the target of a symbolic link that may be followed, else the path itself. A user's own
    file may be a link to anywhere, such as a folder of dotfiles; a project's file may be a link
    within the project.
    """
    real, project = os.path.realpath(path), os.path.realpath(console.cwd)
    is_own = scope == USER or real.startswith(f"{project}/")
    return real if is_own and os.path.islink(path) else path


def find_invocation(scope: str) -> list[str]:
    """Return the command that a client starts. It is an absolute path, because graphical programs
    do not have the PATH of a shell. In a file that people share it is the name `memsyncd` alone.
    """
    if scope == PROJECT and shutil.which("memsyncd"):
        return ["memsyncd"]
    called = os.path.abspath(sys.argv[0]) if sys.argv and "/" in sys.argv[0] else ""
    if os.path.basename(called) == "memsyncd" and os.access(called, os.X_OK):
        return [called]
    path = shutil.which("memsyncd")
    return [os.path.abspath(path)] if path else [sys.executable, "-m", "memsyncd"]


def _read_config(path: str) -> str | None:
    """Return the text of a file, None if there is no file. Raises EditRefused if it cannot be
    edited.
    """
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            target = os.path.realpath(path)
            raise _refuse_file(path, f"it is a symbolic link out of the project, to {target}")
        if not stat.S_ISREG(status.st_mode):
            raise _refuse_file(path, "it is not a regular file")
        if not status.st_mode & stat.S_IWUSR or not os.access(path, os.W_OK):
            raise _refuse_file(path, "it is read-only")
        if status.st_size > LIMIT_BYTES:
            raise _refuse_file(path, f"it has more than {LIMIT_BYTES:,} bytes")
        with open(path, "rb") as file:
            return file.read().decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise _refuse_file(path, "it is not valid UTF-8") from None
    except OSError as error:
        raise _refuse_file(path, str(error.strerror)) from error


def _refuse_file(path: str, why: str) -> EditRefused:
    return EditRefused(
        f"{path} stays as it is: {why}",
        hint="correct that, or add by hand what this command shows with --print",
    )


def _split_bom(text: str | None) -> tuple[str, str]:
    text = text or ""
    return (BOM, text[1:]) if text.startswith(BOM) else ("", text)


# --- diff, confirmation, writing ----------------------------------------------------------------


def _show_changes(changes: Changes, console: Console, *, is_whole: bool) -> None:
    """Print a diff of each file; for a new or deleted file only its name, unless `is_whole`."""
    for path, (before, after) in changes.items():
        if not is_whole and (before is None or after is None):
            verb, text = ("delete", before) if after is None else ("create", after)
            size = render_count(len(_split_lines(text or "")), "line")
            console.terminal.print(f"{verb} {clean_line(path)} ({size})")
            continue
        old, new = (os.devnull if text is None else clean_line(path) for text in (before, after))
        lines = difflib.unified_diff(
            _split_lines(before or ""), _split_lines(after or ""), old, new, lineterm=""
        )
        console.terminal.print(render_diff(clean("\n".join(lines)), console.terminal.paint))


def _split_lines(text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _confirm(args: Args, console: Console, *, is_service_offered: bool) -> bool:
    """Ask whether to write the changes. Return whether the user also wants the service. Raises
    EditRefused unless the user agrees.
    """
    if args.yes:
        return bool(args.service)
    console.terminal.out.flush()
    if not can_ask():
        raise EditRefused("nothing was changed", hint="add --yes to write the changes above")
    question = "Write these changes? [y/N]"
    if args.service:
        question = "Write these changes and install the service? [y/N]"
    elif is_service_offered:
        console.terminal.report(
            "memsyncd is not a service yet: the first session after a login may have no memory."
        )
        question = "Write these changes? [y/N, s: yes, and start memsyncd at each login]"
    answer = console.ask(question)
    is_service_wanted = is_service_offered and answer in {"s", "service"}
    if not is_service_wanted and answer not in {"y", "yes"}:
        raise EditRefused("nothing was changed", hint="answer y to write them, or use --yes")
    return is_service_wanted or bool(args.service)


def _write_changes(changes: Changes) -> None:
    for path, (_, after) in changes.items():
        try:
            if after is None:
                os.unlink(path)
            else:
                write_file(path, after, like=path)
        except OSError as error:
            raise EditRefused(
                f"{path} cannot be written: {error.strerror}",
                hint="make its folder writable, then run this again; others may already be written",
            ) from error


def _list_missing_folders(path: str) -> list[str]:
    """Return the folders above a path that do not exist, the deepest first."""
    folders = []
    while not os.path.exists(path := os.path.dirname(path)):
        folders.append(path)
    return folders


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- check --------------------------------------------------------------------------------------


def _check(
    args: Args,
    client: AgentClient,
    scope: str,
    targets: list[ClientFile],
    program: Invocation,
    console: Console,
) -> int:
    states = {target.path: target.find_state(program) for target in targets if target.pieces}
    server: ConfiguredServer | None = None
    for target in targets:
        if target.text and states.get(target.path, "missing") != "missing":
            server = server or read_server(_split_bom(target.text)[1], target.pieces)
    command = server.command if server is not None else []
    untrusted = _list_untrusted_hooks(client, targets, program, console)
    env = _find_server_env(client, server, console)
    lost = [name for name in VARIABLES if console.env.get(name) and name not in env]
    answer, error = (
        _ask_server(command, env, console) if command else ({}, "no server is configured")
    )
    is_fine = not error and all(state == "current" for state in states.values())
    warnings = _list_warnings(console)
    if args.json:
        console.terminal.print_json(
            {
                "client": args.client,
                "scope": scope,
                "is_connected": is_fine,
                "files": [{"path": path, "state": state} for path, state in states.items()],
                "command": command,
                "lost_variables": lost,
                "untrusted_hooks": untrusted,
                "server": answer.get("version"),
                "tools": answer.get("tools", []),
                "error": error or None,
                "warnings": warnings,
            }
        )
        return 0 if is_fine else NOT_INSTALLED
    terminal = console.terminal
    terminal.print(f"{client.title} ({scope})")
    for path, state in states.items():
        terminal.print(f"  {state:<9} {clean_line(path)}")
    if untrusted:
        hooks = f"hooks on {', '.join(untrusted)}: {client.title} skips them silently"
        terminal.print(f"  untrusted {hooks}")
        terminal.print(f"  {'':<9} until you trust them: start {client.title} and enter /hooks")
    if command:
        tools = ", ".join(answer.get("tools", []))
        said = error or f"memsyncd {answer['version']} answers: {tools}"
        terminal.print(f"  {'server':<9} {clean_line(' '.join(command))}")
        if lost:
            terminal.print(f"  {'dropped':<9} {client.title} does not pass on {', '.join(lost)}")
        terminal.print(f"  {'answer':<9} {clean_line(said)}")
    for warning in warnings:
        terminal.warn(f"  {clean_line(warning)}")
    if not is_fine:
        terminal.report(f"  → memsyncd integrate {args.client} --scope {scope}")
    return 0 if is_fine else NOT_INSTALLED


def _list_warnings(console: Console) -> list[str]:
    """Return warnings about the daemon; none if it does not answer: `_ask_server` reports that."""
    try:
        return list_daemon_warnings(console.call("status"), console)
    except MemsyncdError:
        return []


def _list_untrusted_hooks(
    client: AgentClient, targets: list[ClientFile], program: Invocation, console: Console
) -> list[str]:
    """Return the events of the hooks that the client skips until the user trusts them."""
    if not client.trust_file:
        return []
    events: list[str] = []
    # The check has already named each file that cannot be read. Only a user's own file in the scope
    # of a project is passed over.
    with contextlib.suppress(EditRefused, Unreadable):
        trust = _split_bom(_read_config(_find_path(client.trust_file, console)))[1]
        for target in targets:
            if target.path.endswith("hooks.json"):
                text, pieces = _split_bom(target.text)[1], [*target.pieces, *target.capture]
                events += list_untrusted_hooks(trust, target.path, text, pieces, program)
    return events


def _find_server_env(
    client: AgentClient, server: ConfiguredServer | None, console: Console
) -> dict[str, str]:
    """Return the environment that the client gives its server."""
    if server is None:
        return dict(console.env)
    names = {*client.passes, *server.names} if client.passes else set(console.env)
    passed = {name: value for name, value in console.env.items() if name in names}
    return {**passed, **server.variables}


def _ask_server(
    command: list[str], env: dict[str, str], console: Console
) -> tuple[dict[str, Any], str]:
    """Run the command as the client would. Return the server's version and tools, and an error."""
    words = [word.replace("${workspaceFolder}", console.cwd) for word in command]
    about = {"name": "memsyncd integrate --check", "version": memsyncd.__version__}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    sent = "".join(encode_json(line) + "\n" for line in lines)
    try:
        done = subprocess.run(
            words,
            input=sent.encode(),
            env=env,
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
        )
    except OSError as error:
        return {}, f"it cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return {}, f"it does not answer within {ANSWER_S} s"
    return _read_server(done)


def _read_server(done: subprocess.CompletedProcess[bytes]) -> tuple[dict[str, Any], str]:
    facts: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            message: Any = parse_json(line.decode())
            if "error" in message:
                return {}, str(message["error"]["message"])
            if message.get("id") == 1:
                facts["version"] = message["result"]["serverInfo"]["version"]
            elif message.get("id") == 2:
                facts["tools"] = [tool["name"] for tool in message["result"]["tools"]]
    version = facts.get("version")
    if version not in {None, memsyncd.__version__}:
        message = f"a daemon of version {version} answers, but this is {memsyncd.__version__}"
        return facts, f"{message}: memsyncd restart"
    if len(facts) < 2:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return {}, f"it ended with status {done.returncode}" + "".join(f": {line}" for line in last)
    return facts, ""


COMMANDS = {
    "integrate": Command(
        _integrate,
        arguments=(Argument("client", "CLIENT", ", ".join(CLIENTS), choices=tuple(CLIENTS)),),
        options=(
            Option(
                "--scope SCOPE",
                "user: in all projects; project: in the current folder, to be shared",
                choices=(USER, PROJECT),
            ),
            Option("-y --yes", "write without asking; required if there is no terminal"),
            Option("--print", "print all changes as a diff and write nothing"),
            Option("--remove", "remove from the files all that memsyncd has added"),
            Option("--check", "say whether it is connected and whether the daemon answers"),
            Option(
                "--service", "also start memsyncd at each login: runs `memsyncd service install`"
            ),
            Option("--capture", "also install hooks that write memories; see [capture]"),
            Option("--json", "with --check: print the result as JSON"),
        ),
        examples=(
            "memsyncd integrate claude-code",
            "memsyncd integrate codex --yes && memsyncd integrate codex --check",
            "memsyncd integrate cursor --scope project --print",
        ),
    ),
}
