"""The files of coding agents: what memsyncd adds to them, and what they were before.

A file is copied into the state folder before memsyncd first writes it; a removal restores the file
byte for byte if nobody has changed it since. A file that cannot be edited safely stays as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
from functools import cached_property

from memsyncd.client.connection import encode_json, parse_json
from memsyncd.errors import BadRequest, EditRefused
from memsyncd.integrations.coding_agents import (
    PROJECT,
    USER,
    AgentClient,
    ConfiguredServer,
    File,
    Invocation,
    Piece,
    Prose,
    has_extra,
    install,
    is_installed,
    read_server,
    uninstall,
)
from memsyncd.integrations.config_edit import Unreadable, has_same_values, take_back
from memsyncd.terminal.connected_agents import find_integrate_dir
from memsyncd.terminal.files import make_private_folders, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memsyncd.terminal.console import Console

LIMIT_BYTES = 4 << 20
# An earlier memsyncd kept its copy beside the file, under this suffix.
OLD_COPY_SUFFIX = ".before-memsyncd"
BOM = "\ufeff"


class Record:
    """A file as it was before memsyncd wrote it: a copy of its text, and beside the copy a JSON
    file with the digest of the written text and the folders that were made for it.

    Both files are in the state folder, so that no repository contains them.
    """

    def __init__(self, path: str, env: Mapping[str, str]) -> None:
        name = hashlib.sha256(path.encode()).hexdigest()[:16]
        folder = find_integrate_dir(env)
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
        self.text: str | None = facts.get("text") if self.exists else None
        """The text that memsyncd has written; an earlier memsyncd kept only its digest."""
        self.is_exact: bool = self.exists and facts.get("is_exact") is True
        self.folders: list[str] = facts.get("folders", []) if self.exists else []

    @cached_property
    def before(self) -> str | None:
        """The text before memsyncd wrote the file, None if there was no file."""
        for path in (self.copy_path, self.path + OLD_COPY_SUFFIX):
            with contextlib.suppress(EditRefused):
                text = read_config(path)
                if text is not None:
                    return text
        return None

    def save(self, agent: str, before: str | None, written: str, *, is_exact: bool) -> None:
        """Write the copy and the facts, with the name of the agent for `memsyncd status`.
        `is_exact` says that the written text is the earlier text with memsyncd's pieces and no
        other change. Raises OSError.
        """
        folders = [*self.folders, *_list_missing_folders(self.path)]
        make_private_folders(os.path.dirname(self.copy_path))
        if before is None:
            self._unlink(self.copy_path)
        else:
            write_file(self.copy_path, before, like=self.path)
        self._unlink(self.path + OLD_COPY_SUFFIX)
        facts = {
            "agent": agent,
            "path": self.path,
            "written": _digest(written),
            "text": written,
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
    """One file of a client. It gets `pieces`, and the pieces of the extras that are wanted or
    that it has already.
    """

    def __init__(
        self,
        path: str,
        pieces: list[Piece],
        extras: dict[str, list[Piece]],
        env: Mapping[str, str],
    ) -> None:
        self.path = path
        self.pieces = pieces
        self.extras = extras
        self.record = Record(path, env)

    @cached_property
    def text(self) -> str | None:
        """The text as it was first read, None without a file. Raises EditRefused."""
        return read_config(self.path)

    def install(
        self, text: str | None, program: Invocation, extras: frozenset[str] = frozenset()
    ) -> str | None:
        """Return the text with the pieces, also of these extras. Raises EditRefused if it cannot be
        edited.
        """
        bom, body = split_bom(text)
        pieces = [*self.pieces]
        try:
            for name, own in self.extras.items():
                if name in extras or has_extra(body, own, program):
                    pieces += own
            if not pieces:
                return text
            is_renewal, before = self.record.exists, split_bom(self.record.before)[1]
            return bom + install(body, pieces, program, before, is_renewal=is_renewal)
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
        bom, body = split_bom(self.text)
        before = None if self.record.before is None else split_bom(self.record.before)[1]
        if self._is_own:
            before = None
        try:
            rest = uninstall(body, self.all_pieces, program, before)
        except Unreadable as error:
            raise self._refuse(error) from None
        return None if rest is None else self._keep_layout(bom + rest)

    def _keep_layout(self, rest: str) -> str:
        """Return the text without the pieces as others have laid it out, if it has the same
        values.
        """
        record = self.record
        is_prose = any(isinstance(piece, Prose) for piece in self.pieces)
        if is_prose or not record.is_exact or not (record.before and record.text and self.text):
            return rest
        text = take_back(record.before, record.text, self.text)
        return text if text is not None and has_same_values(text, rest) else rest

    def is_installed(self, program: Invocation) -> bool:
        """Return whether the file contains any of the pieces. Raises EditRefused."""
        if self.text is None:
            return False
        try:
            return is_installed(
                split_bom(self.text)[1],
                self.all_pieces,
                program,
                counts_shared=self.record.exists,
            )
        except Unreadable as error:
            raise self._refuse(error) from None

    def lacks_extra(self, name: str, program: Invocation) -> bool:
        """Return whether an extra would change the file. Raises EditRefused."""
        with_extra = self.install(self.text, program, frozenset({name}))
        return name in self.extras and with_extra != self.install(self.text, program)

    def find_state(self, program: Invocation) -> str:
        """Return `missing`, `outdated` or `current`."""
        if not self.is_installed(program):
            return "missing"
        return "current" if self.text == self.install(self.text, program) else "outdated"

    def is_edited(self, program: Invocation) -> bool:
        """Return whether somebody has changed a file that belongs to memsyncd alone."""
        if self.text is None or not self._is_own:
            return False
        is_known = self.record.written == _digest(self.text)
        return not is_known and self.text != self.install(self.text, program)

    def save_record(
        self, agent: str, new: str, program: Invocation, extras: frozenset[str]
    ) -> None:
        """Save the text that the file had, or would have, without memsyncd. Raises OSError."""
        is_edited = self.is_installed(program) and self.is_edited(program)
        if is_edited or not self.is_installed(program) or self._has_other_server():
            before = self.text
        elif self.record.exists or self.record.before is not None:
            before = self.record.before
        else:
            before = self.uninstall(program)
        had = {
            name
            for name, own in self.extras.items()
            if has_extra(split_bom(self.text)[1], own, program)
        }
        is_exact = self.install(before, program, extras | had) == new
        self.record.save(agent, before, new, is_exact=is_exact and not is_edited)

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

    def read_server(self) -> ConfiguredServer | None:
        """Return the server that the file configures; None if it has none. Raises Unreadable."""
        return read_server(split_bom(self.text)[1], self.pieces)

    @property
    def all_pieces(self) -> list[Piece]:
        return [*self.pieces, *(piece for own in self.extras.values() for piece in own)]

    @property
    def is_prose(self) -> bool:
        """Whether memsyncd adds nothing but a section to the file."""
        return all(isinstance(piece, Prose) for piece in self.all_pieces)

    @property
    def _is_own(self) -> bool:
        """Whether the file belongs to memsyncd alone."""
        return any(isinstance(piece, File) for piece in self.all_pieces)

    def _has_other_server(self) -> bool:
        """Return whether the file names a server `memsyncd` that starts another program."""
        server = self.read_server()
        return server is not None and not any("memsyncd" in word for word in server.command)

    def check_unchanged(self) -> None:
        """Raise EditRefused if another program has written the file since it was read."""
        if read_config(self.path) != self.text:
            raise EditRefused(
                f"{self.path} has changed meanwhile; nothing was written", hint="run this again"
            )

    def _refuse(self, error: Unreadable) -> EditRefused:
        return _refuse_file(self.path, str(error))


# --- the files of a client ----------------------------------------------------------------------


def find_targets(client: AgentClient, scope: str, console: Console) -> list[ClientFile]:
    """Return the files of a client in a scope. Raises BadRequest."""
    if scope == PROJECT and not console.cwd:
        raise BadRequest("the current folder was deleted", hint="change to the project's folder")
    pieces: dict[str, list[Piece]] = {}
    extras: dict[str, dict[str, list[Piece]]] = {}

    def find(piece: Piece) -> str:
        return _follow_link(find_path(piece.path, console), scope, console)

    for piece in client.scopes.get(scope, ()):
        pieces.setdefault(find(piece), []).append(piece)
    for name, by_scope in client.extras.items():
        for piece in by_scope.get(scope, ()):
            extras.setdefault(find(piece), {}).setdefault(name, []).append(piece)
    return [
        ClientFile(path, pieces.get(path, []), extras.get(path, {}), console.env)
        for path in dict.fromkeys((*pieces, *extras))
    ]


def is_found(client: AgentClient, console: Console) -> bool:
    """Return whether the client is installed: its program is on the PATH, or its folder exists."""
    path = console.env.get("PATH")
    return any(shutil.which(program, path=path) for program in client.programs) or any(
        os.path.isdir(find_path(folder, console)) for folder in client.folders
    )


def find_path(path: str, console: Console) -> str:
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


def read_config(path: str) -> str | None:
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


def split_bom(text: str | None) -> tuple[str, str]:
    text = text or ""
    return (BOM, text[1:]) if text.startswith(BOM) else ("", text)


def _list_missing_folders(path: str) -> list[str]:
    """Return the folders above a path that do not exist, the deepest first."""
    folders = []
    while not os.path.exists(path := os.path.dirname(path)):
        folders.append(path)
    return folders


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
