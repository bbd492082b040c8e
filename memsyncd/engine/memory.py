"""What do the six commands of the memory tool do to this workspace?

`view` reads, in any thread; each of the others is decided from what stands on the disk when its
turn comes, and carried out by `edit`. The words of the answers are `core.writing`'s. A writer that
says what it had read is refused when the note is another by now, unless what it wants already
stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing import memory_tool
from memsyncd.core.editing.memory_path import (
    MEMORIES,
    MemoryPath,
    parse_memory_path,
    show_memory_path,
)
from memsyncd.core.editing.memory_tool import Dialect, EditResult, FolderEntry
from memsyncd.core.notepath import MEMORY_FOLDER, NotePath
from memsyncd.engine.edit import Act, Decide, Delete, Operation, Put, Rename, find_history
from memsyncd.engine.policies import SyncPolicy
from memsyncd.engine.workspace import Workspace
from memsyncd.errors import BadRequest, Conflict, PathRefused
from memsyncd.files.listing import find_files, is_folder, list_folder
from memsyncd.files.read import TextFile, check_size, read_text_file, resolve
from memsyncd.files.scope import Scope

SHOWN_LEVELS = 2
NO_FILE = ""
"""The digest that a writer names who had seen that there is no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One command with its parameters; which of them it takes depends on the command."""

    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"]
    path: str | None = None
    view_range: tuple[int, int] | None = None
    file_text: str | None = None
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None
    insert_text: str | None = None
    old_path: str | None = None
    new_path: str | None = None
    if_digest: str | None = None
    dialect: Dialect = "docs"
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The command's words, and the digest of the file as it stands now; None for a folder and for
    what is gone.
    """

    text: str
    digest: str | None = None


def view(workspace: Workspace, asked: Asked) -> Answer:
    """Show a folder or a file. Raises BadRequest, PathRefused, NoteNotFound, TooLarge,
    EditRefused.
    """
    check(asked)
    path = parse_memory_path(asked.path or "")
    _check_place(workspace.scope, path)
    if path.note is None or is_folder(workspace.scope, path.note):
        return Answer(
            text=memory_tool.view_folder(path.text, _list(workspace.scope, path), asked.dialect)
        )
    file = read_text_file(workspace.scope, path.note)
    if file is None:
        raise memory_tool.refuse_missing("view", path.text, asked.dialect)
    return Answer(
        text=memory_tool.view_text(path.text, file.data, asked.view_range, asked.dialect),
        digest=file.digest,
    )


def find_decision(workspace: Workspace, policy: SyncPolicy, asked: Asked) -> Decide[Answer]:
    """What `edit_workspace` shall do for any command but `view`. Raises BadRequest and PathRefused
    at once.
    """
    check(asked)
    if asked.command == "rename":
        old, new = parse_memory_path(asked.old_path or ""), parse_memory_path(asked.new_path or "")
        return partial(_rename, workspace.scope, asked, old, new)
    path = parse_memory_path(asked.path or "")
    if asked.command == "delete":
        return partial(_delete, workspace.scope, asked, path)
    return partial(_change, workspace, policy, asked, path)


_NEEDED = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
_OPTIONAL = {"view": ("view_range",), "str_replace": ("new_str",)}
_PARAMETERS = tuple(
    dict.fromkeys(name for names in (*_NEEDED.values(), *_OPTIONAL.values()) for name in names)
)


def check(asked: Asked) -> None:
    """Raise BadRequest if a parameter is missing that the command needs, or there that it does not
    take.
    """
    needed = _NEEDED[asked.command]
    known = (*needed, *_OPTIONAL.get(asked.command, ()))
    for name in _PARAMETERS:
        is_given = getattr(asked, name) is not None
        if name in needed and not is_given:
            raise BadRequest(
                f"{asked.command}: `{name}` is missing",
                hint=f"{asked.command} takes {', '.join(known)}",
            )
        if is_given and name not in known:
            raise BadRequest(
                f"{asked.command} takes no `{name}`", hint=f"it takes {', '.join(known)}"
            )


def _check_place(scope: Scope, *paths: MemoryPath) -> None:
    """Refuse, in the tool's own words, a path that a link takes elsewhere. Whoever opens it looks
    once more.
    """
    for path in paths:
        try:
            if path.note is not None:
                resolve(scope, path.note)
        except PathRefused as error:
            raise PathRefused(
                f"Path {path.text} would escape {MEMORIES} directory", hint=error.hint
            ) from error


def _change(
    workspace: Workspace, policy: SyncPolicy, asked: Asked, path: MemoryPath
) -> tuple[Act, Answer]:
    """Decide a create, str_replace or insert."""
    scope = workspace.scope
    _check_place(scope, path)
    if path.note is None or is_folder(scope, path.note):
        if asked.command == "create":
            raise memory_tool.refuse_existing("create", path.text, asked.dialect)
        raise memory_tool.refuse_folder(asked.command, path.text, asked.dialect)
    was = read_text_file(scope, path.note)
    edited = _edit_as_seen(workspace, policy, asked, path, was)
    answer = Answer(text=edited.text, digest=digest_bytes(edited.data))
    if was is not None and edited.data == was.data:
        return _act(asked, path), answer
    check_size(scope, path.text, edited.data, way_out="begin another note")
    return _act(
        asked, path, Put(path=was.path if was else path.note, data=edited.data, was=was)
    ), answer


def _edit_as_seen(
    workspace: Workspace, policy: SyncPolicy, asked: Asked, path: MemoryPath, was: TextFile | None
) -> EditResult:
    """The edit of what stands there. Raises Conflict if the writer had read something else and what
    it wants does not stand.
    """
    edit = _find_edit(asked, path.text)
    digest, data = (was.digest, was.data) if was else (NO_FILE, None)
    if asked.if_digest is None or asked.if_digest == digest:
        return edit(data)
    history = find_history(workspace, policy)
    seen = history.read_text(asked.if_digest) if history is not None and asked.if_digest else None
    if seen is not None or asked.if_digest == NO_FILE:
        wanted = edit(seen)
        if wanted.data == data:
            return wanted
    raise _conflict(path.text, asked.if_digest, digest)


def _find_edit(asked: Asked, path: str) -> Callable[[bytes | None], EditResult]:
    def edit(data: bytes | None) -> EditResult:
        match asked.command:
            case "create":
                return memory_tool.create_text(path, data, asked.file_text or "", asked.dialect)
            case "str_replace":
                return memory_tool.replace_text(
                    path, data, asked.old_str or "", asked.new_str or "", asked.dialect
                )
            case _:
                return memory_tool.insert_text(
                    path, data, asked.insert_line or 0, asked.insert_text or "", asked.dialect
                )

    return edit


def _delete(scope: Scope, asked: Asked, path: MemoryPath) -> tuple[Act, Answer]:
    if path.note is None:
        raise memory_tool.refuse_root("delete", asked.dialect)
    _check_place(scope, path)
    answer = Answer(text=memory_tool.describe_deleted(path.text, asked.dialect))
    was = read_all(scope, path.note)
    if was is None:
        if asked.if_digest:
            return _act(asked, path), answer
        raise memory_tool.refuse_missing("delete", path.text, asked.dialect)
    _check_seen(asked, path.text, was.get(path.note))
    return _act(asked, path, Delete(path=path.note, was=was)), answer


def _rename(scope: Scope, asked: Asked, old: MemoryPath, new: MemoryPath) -> tuple[Act, Answer]:
    if old.note is None or new.note is None:
        raise memory_tool.refuse_root("rename", asked.dialect)
    _check_place(scope, old, new)
    was = read_all(scope, old.note)
    stands = read_all(scope, new.note)
    there = stands.get(new.note) if stands else None
    answer = Answer(text=memory_tool.describe_renamed(old.text, new.text, asked.dialect))
    if was is None:
        if there is not None and there.digest == asked.if_digest:
            return _act(asked, old, new_path=new.note), Answer(
                text=answer.text, digest=there.digest
            )
        raise memory_tool.refuse_missing("rename", old.text, asked.dialect)
    if stands is not None:
        raise memory_tool.refuse_existing("rename", new.text, asked.dialect)
    if new.text.startswith(f"{old.text}/"):
        raise PathRefused(
            f"path refused: {new.text} lies in {old.text} itself",
            hint="choose a place outside of it",
        )
    moved = was.get(old.note)
    _check_seen(asked, old.text, moved)
    answer = Answer(text=answer.text, digest=moved.digest if moved else None)
    return _act(asked, old, Rename(old=old.note, new=new.note, was=was), new_path=new.note), answer


def read_all(scope: Scope, path: NotePath) -> dict[NotePath, TextFile] | None:
    """Every file of a file or folder; None if nothing is there."""
    if not is_folder(scope, path):
        file = read_text_file(scope, path)
        return {path: file} if file else None
    files = ((found, read_text_file(scope, found)) for found in find_files(scope, path))
    return {found: file for found, file in files if file is not None}


def _check_seen(asked: Asked, path: str, file: TextFile | None) -> None:
    digest = file.digest if file else NO_FILE
    if asked.if_digest is not None and asked.if_digest != digest:
        raise _conflict(path, asked.if_digest, digest)


def _conflict(path: str, if_digest: str, digest: str) -> Conflict:
    return Conflict(
        f"{path} is not what it was when you read it",
        hint="view it again and decide anew",
        if_digest=if_digest,
        digest=digest,
    )


def _act(
    asked: Asked, path: MemoryPath, *operations: Operation, new_path: NotePath | None = None
) -> Act:
    return Act(
        command=asked.command,
        client=asked.client,
        path=path.note.text if path.note else MEMORY_FOLDER,
        new_path=new_path.text if new_path else None,
        operations=operations,
    )


def _list(scope: Scope, path: MemoryPath) -> list[FolderEntry]:
    """What is in a folder; in `/memories` the workspace's MEMORY.md beside what lies in
    `.memories`.
    """
    return [
        FolderEntry(
            path=show_memory_path(listed.path),
            size_bytes=listed.size_bytes,
            is_folder=listed.is_folder,
        )
        for listed in list_folder(scope, path.note, depth=SHOWN_LEVELS)
    ]
