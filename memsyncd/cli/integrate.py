"""`memsyncd integrate`: connect a coding agent by editing its configuration files, and undo it.

All files are read and decided upon before one is written. Each change is shown as a diff and
confirmed; a file that was there is copied first, and `--remove` restores it byte for byte if nobody
has changed it since. A file that cannot be edited safely stays as it is.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from functools import cached_property

import memsyncd
from memsyncd.cli.console import Console, can_ask
from memsyncd.cli.history import render_diff
from memsyncd.cli.parser import Argument, Command, Option
from memsyncd.cli.terminal import clean, clean_line
from memsyncd.client.fastjson import encode_json, parse_json
from memsyncd.errors import BadRequest, EditRefused
from memsyncd.integrations.coding_agents import (
    CLIENTS,
    PROJECT,
    USER,
    AgentClient,
    File,
    Invocation,
    ListItem,
    Member,
    Piece,
    Prose,
    Table,
    install,
    is_installed,
    read_server,
    uninstall,
)
from memsyncd.integrations.config_edit import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import SimpleNamespace as Args
    from typing import Any

LIMIT_BYTES = 4 << 20
ANSWER_S = 30
BACKUP_SUFFIX = ".before-memsyncd"
BOM = "\ufeff"
NOT_INSTALLED = 1


class ClientFile:
    """One file of a client: its pieces of memsyncd, with and without those for capturing."""

    def __init__(self, path: str, pieces: list[Piece], capture: list[Piece]) -> None:
        self.path = path
        self.pieces = pieces
        self.capture = capture

    @cached_property
    def text(self) -> str | None:
        """The text as it was first read, None if there is no file. Raises EditRefused."""
        return _read_config(self.path)

    def install(self, text: str | None, program: Invocation, *, is_capturing: bool) -> str | None:
        """Return the text with the pieces. Raises EditRefused for one that cannot be edited."""
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
        """Return the text without the pieces: that of the backup if nothing else has changed."""
        if self.text is None:
            return None
        bom, body = _split_bom(self.text)
        pieces = [*self.pieces, *self.capture]
        try:
            if not is_installed(body, pieces, program):
                return self.text
            backup = self.read_backup()
            if backup is not None:
                for is_capturing in (False, True):
                    if self.install(backup, program, is_capturing=is_capturing) == self.text:
                        return backup
            before = None if backup is None else _split_bom(backup)[1]
            rest = uninstall(body, pieces, program, before)
        except Unreadable as error:
            raise self._refuse(error) from None
        return bom + (rest or "") if rest is not None or backup is not None else None

    def find_state(self, program: Invocation) -> str:
        """Return missing, outdated or current."""
        _, body = _split_bom(self.text)
        pieces = [*self.pieces, *self.capture]
        try:
            if self.text is None or not is_installed(body, pieces, program):
                return "missing"
        except Unreadable as error:
            raise self._refuse(error) from None
        texts = (self.install(self.text, program, is_capturing=one) for one in (False, True))
        return "current" if self.text in texts else "outdated"

    def needs_backup(self, program: Invocation) -> bool:
        """Whether the file holds what is not memsyncd's, and no copy has that yet."""
        if self.text is None:
            return False
        body, pieces = _split_bom(self.text)[1], [*self.pieces, *self.capture]
        if not is_installed(body, pieces, program):
            return True
        return self.read_backup() is None and uninstall(body, pieces, program) is not None

    def read_backup(self) -> str | None:
        try:
            return _read_config(self.path + BACKUP_SUFFIX)
        except EditRefused:
            return None

    def check_unchanged(self) -> None:
        """Raises EditRefused if another program has written the file since it was read."""
        if _read_config(self.path) != self.text:
            raise EditRefused(
                f"{self.path} has changed meanwhile; nothing was written", hint="run this again"
            )

    def drop_backup(self) -> None:
        """Delete the copy of a file that is restored."""
        with contextlib.suppress(EditRefused, OSError):
            if self.read_backup() == _read_config(self.path):
                os.unlink(self.path + BACKUP_SUFFIX)

    def _refuse(self, error: Unreadable) -> EditRefused:
        return _refuse_file(self.path, str(error))


def _integrate(args: Args, console: Console) -> int:
    client = CLIENTS[args.client]
    scope = args.scope or next(iter(client.scopes))
    if scope not in client.scopes:
        raise BadRequest(
            f"{client.title} has no scope {scope}", hint=f"use {' or '.join(client.scopes)}"
        )
    if sum((args.print, args.remove, args.check)) > 1:
        raise BadRequest("--print, --remove and --check do not go together", hint="use one of them")
    if args.capture and not client.capture:
        raise BadRequest(f"{client.title} has no hooks to capture with", hint="leave --capture out")
    program = Invocation(find_invocation(scope), memsyncd.__version__)
    targets = _find_targets(client, scope, console)
    if args.check:
        return _check(args, client, scope, targets, program, console)
    changes = {target.path: _plan_change(target, args, program, console) for target in targets}
    changes = {path: change for path, change in changes.items() if change[0] != change[1]}
    _show_changes(changes, console)
    if args.print:
        return 0
    if not changes:
        console.terminal.report("nothing to change: " + ("removed" if args.remove else "connected"))
        return 0
    _confirm(args, console)
    backups = {
        target.path for target in targets if not args.remove and target.needs_backup(program)
    }
    for target in targets:
        target.check_unchanged()
    _write_changes(changes, backups)
    if args.remove:
        for target in targets:
            target.drop_backup()
    _report_done(args, client, scope, console)
    return 0


def _plan_change(
    target: ClientFile, args: Args, program: Invocation, console: Console
) -> tuple[str | None, str | None]:
    """Return the text of a file before and after. Of one that cannot be edited, `--print` shows
    what belongs into it.
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


def _report_done(args: Args, client: AgentClient, scope: str, console: Console) -> None:
    terminal = console.terminal
    words = f"memsyncd integrate {args.client} --scope {scope}"
    if args.remove:
        terminal.report(f"{client.title} is disconnected ({scope})")
        return
    terminal.report(f"{client.title} is connected ({scope})")
    terminal.report(f"  verify: {words} --check, and {client.verify}")
    if client.note:
        terminal.report(f"  {client.note}")
    if args.capture:
        terminal.report("  [capture] of memsyncd's configuration says what its hooks may write")
    terminal.report(f"  undo: {words} --remove")


# --- the files of a client ----------------------------------------------------------------------


def _find_targets(client: AgentClient, scope: str, console: Console) -> list[ClientFile]:
    if scope == PROJECT and not console.cwd:
        raise BadRequest("the current folder was deleted", hint="change to the project's folder")
    pieces: dict[str, list[Piece]] = {}
    capture: dict[str, list[Piece]] = {}
    for table, found in ((client.scopes, pieces), (client.capture, capture)):
        for piece in table.get(scope, ()):
            path = _follow_link(_find_path(piece, console), scope, console)
            found.setdefault(path, []).append(piece)
    paths = dict.fromkeys((*pieces, *capture))
    return [ClientFile(path, pieces.get(path, []), capture.get(path, [])) for path in paths]


def _find_path(piece: File | Member | ListItem | Table | Prose, console: Console) -> str:
    path, home = piece.path, console.env.get("HOME") or os.path.expanduser("~")
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
    # opencode reads either name.
    if path.endswith("opencode.json") and not os.path.exists(path) and os.path.exists(path + "c"):
        return path + "c"
    return path


def _follow_link(path: str, scope: str, console: Console) -> str:
    """Return where a symbolic link leads, if it may be followed: any of the user's own files, such
    as into a folder of dotfiles, and of a project's files one that stays within it.
    """
    real, project = os.path.realpath(path), os.path.realpath(console.cwd)
    is_own = scope == USER or real.startswith(f"{project}/")
    return real if is_own and os.path.islink(path) else path


def find_invocation(scope: str) -> list[str]:
    """Return the command that a client starts: a path, since programs with windows have no PATH of
    a shell; the bare name where the file is shared with others.
    """
    if scope == PROJECT and shutil.which("memsyncd"):
        return ["memsyncd"]
    called = os.path.abspath(sys.argv[0]) if sys.argv and "/" in sys.argv[0] else ""
    if os.path.basename(called) == "memsyncd" and os.access(called, os.X_OK):
        return [called]
    found = shutil.which("memsyncd")
    return [os.path.abspath(found)] if found else [sys.executable, "-m", "memsyncd"]


def _read_config(path: str) -> str | None:
    """Return the text of a file, None if there is none. Raises EditRefused for a file that cannot
    be edited.
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


def _show_changes(changes: Mapping[str, tuple[str | None, str | None]], console: Console) -> None:
    for path, (before, after) in changes.items():
        old, new = (os.devnull if text is None else clean_line(path) for text in (before, after))
        lines = difflib.unified_diff(
            _split_lines(before or ""), _split_lines(after or ""), old, new, lineterm=""
        )
        console.terminal.print(render_diff(clean("\n".join(lines)), console.terminal.paint))


def _split_lines(text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _confirm(args: Args, console: Console) -> None:
    """Raises EditRefused unless the user agrees."""
    if args.yes:
        return
    console.terminal.out.flush()
    if not can_ask():
        raise EditRefused("nothing was changed", hint="add --yes to write the changes above")
    if not console.confirm("Write these changes?"):
        raise EditRefused("nothing was changed", hint="answer y to write them, or use --yes")


def _write_changes(changes: Mapping[str, tuple[str | None, str | None]], backups: set[str]) -> None:
    for path, (before, after) in changes.items():
        try:
            if path in backups and before is not None:
                write_file(path + BACKUP_SUFFIX, before, like=path)
            if after is None:
                os.unlink(path)
                _remove_empty_folders(os.path.dirname(path))
            else:
                write_file(path, after, like=path)
        except OSError as error:
            raise EditRefused(
                f"{path} cannot be written: {error.strerror}",
                hint="make its folder writable, then run this again; other files may be changed",
            ) from error


def write_file(path: str, text: str, *, like: str) -> None:
    """Replace a file in one step, with the mode of `like` if that exists."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".memsyncd-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            mode = os.stat(like).st_mode & 0o777 if os.path.exists(like) else _default_mode()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _remove_empty_folders(folder: str) -> None:
    home = os.path.expanduser("~")
    while folder not in ("/", home, os.getcwd()):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


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
    command: list[str] = []
    for target in targets:
        if target.text and states.get(target.path, "missing") != "missing":
            server = read_server(_split_bom(target.text)[1], target.pieces)
            command = command or (server.command if server is not None else [])
    answer, error = _ask_server(command, console) if command else ({}, "no server is configured")
    is_fine = not error and all(state == "current" for state in states.values())
    if args.json:
        console.terminal.print_json(
            {
                "client": args.client,
                "scope": scope,
                "is_connected": is_fine,
                "files": [{"path": path, "state": state} for path, state in states.items()],
                "command": command,
                "server": answer.get("version"),
                "tools": answer.get("tools", []),
                "error": error or None,
            }
        )
        return 0 if is_fine else NOT_INSTALLED
    terminal = console.terminal
    terminal.print(f"{client.title} ({scope})")
    for path, state in states.items():
        terminal.print(f"  {state:<9} {clean_line(path)}")
    if command:
        tools = ", ".join(answer.get("tools", []))
        said = error or f"memsyncd {answer['version']} answers: {tools}"
        terminal.print(f"  {'server':<9} {clean_line(' '.join(command))}")
        terminal.print(f"  {'answer':<9} {clean_line(said)}")
    if not is_fine:
        terminal.report(f"  → memsyncd integrate {args.client} --scope {scope}")
    return 0 if is_fine else NOT_INSTALLED


def _ask_server(command: list[str], console: Console) -> tuple[dict[str, Any], str]:
    """Run the configured command as the client would; return what it answers, or what is wrong."""
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
            env=dict(console.env),
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
    found: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        with contextlib.suppress(ValueError, TypeError, KeyError):
            message: Any = parse_json(line.decode())
            if "error" in message:
                return {}, str(message["error"]["message"])
            if message.get("id") == 1:
                found["version"] = message["result"]["serverInfo"]["version"]
            elif message.get("id") == 2:
                found["tools"] = [tool["name"] for tool in message["result"]["tools"]]
    if len(found) < 2:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return {}, f"it ended with status {done.returncode}" + "".join(f": {one}" for one in last)
    return found, ""


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
            Option("-y --yes", "write without asking; needed without a terminal"),
            Option("--print", "print the changes as a diff and write nothing"),
            Option("--remove", "take out what was put in"),
            Option("--check", "say whether it is connected and whether the daemon answers"),
            Option("--capture", "also install the hooks that capture; see [capture]"),
            Option("--json", "with --check: print the result as JSON"),
        ),
        examples=(
            "memsyncd integrate claude-code",
            "memsyncd integrate codex --yes && memsyncd integrate codex --check",
            "memsyncd integrate cursor --scope project --print",
        ),
    ),
}
