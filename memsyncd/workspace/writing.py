"""How is a file of memory put, deleted or renamed so that nothing anybody wrote is lost, and nothing outside is touched?

The rule: the folder is held by its descriptor. New bytes are whole and on the disk before they change places with the old ones
in one step; what was displaced is looked at, and unless it is what the caller had read, it gets its place back. What is deleted
leaves its name first, is looked at, and only then goes for good. What takes a new name never takes one that something has. Where
names cannot be exchanged in one step, the last look is just before the rename.

What should be written, and keeping what was there before, is left to the engine, which also sees to it that one writes at a time.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable, Mapping
from functools import partial

from memsyncd.core.changes.diff import FileStat
from memsyncd.core.notepath import MEMORY_FILE, MEMORY_FOLDER, NotePath
from memsyncd.errors import AlreadyExists, Conflict, Unwritable
from memsyncd.workspace.confine import Target, open_file_in, open_folder_in
from memsyncd.workspace.failures import naming_failures, refuse, say_changed
from memsyncd.workspace.folders import HeldFolder, hold_folder, hold_new_folder
from memsyncd.workspace.handover import Keep, change_back, give_back, holds, set_aside, take_away, take_back
from memsyncd.workspace.listing import Listed, find_files, is_folder, list_folder
from memsyncd.workspace.names import show_name
from memsyncd.workspace.renames import NotPossibleError, exchange, rename_to_free
from memsyncd.workspace.scope import Scope
from memsyncd.workspace.stats import file_stat
from memsyncd.workspace.sweeping import sweep_temporaries
from memsyncd.workspace.temporaries import Temporary, is_temporary, writing_temporary
from memsyncd.workspace.textfiles import TextFile, check_root, find_place, read_text_file, resolve
from memsyncd.workspace.trees import Tree, list_tree, remove_tree

__all__ = (
    "Listed",
    "TextFile",
    "delete_path",
    "find_files",
    "is_folder",
    "list_folder",
    "put_text_file",
    "read_text_file",
    "rename_path",
    "sweep_temporaries",
)

KeepText = Callable[[NotePath, bytes], bool]
"""Records what another program saved under this path in the last instant; True if it can be read there from then on."""
ANY_WRITER = 0o222
ASKS_FOR_EFFECTIVE = os.access in os.supports_effective_ids


def keep_no_text(_path: NotePath, _data: bytes) -> bool:
    """For callers without a history."""
    return False


def put_text_file(scope: Scope, path: NotePath, data: bytes, *, was: TextFile | None, keep: KeepText = keep_no_text) -> FileStat:
    """Give a file these bytes, all or nothing. `was` is what was read of it, None if it must be new: then folders are made, too.

    `keep` gets a text that another program saved in the last instant, before that gets its place back.

    Raises AlreadyExists if it was to be new and something stands there; Conflict if it is not what was read, or its folder went
    away meanwhile; PathRefused, StoreFull, Unwritable. Nothing has changed then, and nothing is left behind.
    """
    place = _find_place_to_change(scope, path, was)
    above, _, name = place.path.rpartition("/")
    hold = hold_new_folder if was is None else hold_folder
    with naming_failures(path), hold(scope.root, above) as folder:
        if was is None:
            return _put_new(folder, name, path, data)
        return _put_instead(folder, name, path, data, was, partial(keep, path))


def delete_path(scope: Scope, path: NotePath, *, was: Mapping[NotePath, TextFile], keep: KeepText = keep_no_text) -> None:
    """Remove a file, or a folder with all that it holds. `was` has every file as it was read, by its path beneath `path`.

    Raises Conflict if a file is not what was read or the folder holds anything else, hidden or not; PathRefused for a link;
    Unwritable. Nothing is deleted then.
    """
    place = _find_own_place(scope, path)
    above, _, name = place.path.rpartition("/")
    with naming_failures(path), hold_folder(scope.root, above) as folder:
        if modes.S_ISDIR(os.lstat(name, dir_fd=folder.fd).st_mode):
            _delete_folder(folder, name, path, was)
        elif path in was:
            _delete_file(folder, name, path, was[path], partial(keep, path))
        else:
            raise say_changed(path)


def rename_path(scope: Scope, old: NotePath, new: NotePath) -> None:
    """Give a file or folder another place; folders on the way to it are made.

    Raises AlreadyExists if something stands there, Conflict if what is to be moved is gone or a folder moved meanwhile,
    PathRefused for links, special files, `.memories` itself and a folder into itself, Unwritable, StoreFull. Nothing has changed
    then.
    """
    from_place, to_place = _find_own_place(scope, old), _find_place_to_change(scope, new, None)
    if old.text == MEMORY_FOLDER or f"{to_place.path}/".startswith(f"{from_place.path}/"):
        raise refuse(new, "it lies in what would be renamed")
    from_above, _, from_name = from_place.path.rpartition("/")
    to_above, _, to_name = to_place.path.rpartition("/")
    with (
        naming_failures(new),
        hold_folder(scope.root, from_above) as from_folder,
        hold_new_folder(scope.root, to_above) as to_folder,
    ):
        _check_movable(from_folder, from_name, old, new)
        try:
            rename_to_free(from_folder.fd, from_name, to_folder.fd, to_name)
        except FileExistsError:
            raise _say_taken(new) from None
        if not (from_folder.is_in_place() and to_folder.is_in_place()):
            rename_to_free(to_folder.fd, to_name, from_folder.fd, from_name)
            raise say_changed(new)
        to_folder.sync()
        from_folder.sync()


# --- where ------------------------------------------------------------------------------------------------------------


def _find_place_to_change(scope: Scope, path: NotePath, was: TextFile | None) -> Target:
    """The real place of a path, which must lie in the workspace and be where it was read."""
    check_root(scope)
    # What was read under a link's path may be put under its own, which by itself need be no place of memory.
    place = resolve(scope, path) if was is not None and was.path == path else find_place(scope, path)
    if place.folder != scope.root:
        raise refuse(path, "it lies outside the workspace, in a folder that is read only")
    if path.text == MEMORY_FOLDER:
        raise refuse(path, "it is the folder of notes")
    if was is None and os.path.islink(f"{scope.root}/{path.text}"):
        raise _say_taken(path)
    if was is not None and was.path.text != place.path:
        raise say_changed(path)
    return place


def _find_own_place(scope: Scope, path: NotePath) -> Target:
    """The real place of what is to be moved or deleted: not of what a link leads to, for the link would stay."""
    place = find_place(scope, path)
    if os.path.islink(f"{scope.root}/{path.text}") or place.folder != scope.root:
        raise refuse(path, "it is a link, or lies behind one that leads out")
    check_root(scope)
    return place


def _check_movable(folder: HeldFolder, name: str, old: NotePath, new: NotePath) -> None:
    mode = os.lstat(name, dir_fd=folder.fd).st_mode
    if not (modes.S_ISREG(mode) or modes.S_ISDIR(mode)):
        raise refuse(old, "it is not a regular file")
    if modes.S_ISDIR(mode) and new.text == MEMORY_FILE:
        raise refuse(new, "it is a note, not a folder")


def _check_writable(stat: os.stat_result, path: NotePath) -> None:
    """The rename would succeed on a read-only file; whoever made it so has meant something by it."""
    if not modes.S_IMODE(stat.st_mode) & ANY_WRITER:
        raise Unwritable(f"{path.text} is read-only", hint="make it writable again: chmod u+w")


def _say_taken(path: NotePath) -> AlreadyExists:
    return AlreadyExists(f"{path.text} already exists", hint="choose another name, or change what is there")


# --- putting ----------------------------------------------------------------------------------------------------------


def _put_new(folder: HeldFolder, name: str, path: NotePath, data: bytes) -> FileStat:
    with writing_temporary(folder.fd, data, like_fd=None) as temporary:
        try:
            rename_to_free(folder.fd, temporary.name, folder.fd, name)
        except FileExistsError:
            raise _say_taken(path) from None
        if not folder.is_in_place():
            take_back(folder.fd, name, data)
            raise say_changed(path)
        folder.sync()
        return file_stat(os.fstat(temporary.fd))


def _put_instead(folder: HeldFolder, name: str, path: NotePath, data: bytes, was: TextFile, keep: Keep) -> FileStat:
    old_fd = open_file_in(folder.fd, name)
    try:
        _check_writable(os.fstat(old_fd), path)
        if not holds(folder.fd, name, was.data):
            raise say_changed(path)
        with writing_temporary(folder.fd, data, like_fd=old_fd) as temporary:
            # Others may have saved while the bytes went to the disk.
            _check_as_read(folder, name, path, was)
            if not _exchange_or_rename(folder, name, path, temporary, was):
                change_back(folder.fd, name, temporary.name, data, keep)
                raise say_changed(path)
            folder.sync()
            return file_stat(os.fstat(temporary.fd))
    finally:
        os.close(old_fd)


def _exchange_or_rename(folder: HeldFolder, name: str, path: NotePath, temporary: Temporary, was: TextFile) -> bool:
    """Let the temporary take the name. False if it displaced what nobody had read: that has the temporary's name then."""
    try:
        exchange(folder.fd, temporary.name, name)
    except NotPossibleError:
        _check_as_read(folder, name, path, was)
        os.rename(temporary.name, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        return True
    if not (holds(folder.fd, temporary.name, was.data) and folder.is_in_place()):
        return False
    os.unlink(temporary.name, dir_fd=folder.fd)
    return True


def _check_as_read(folder: HeldFolder, name: str, path: NotePath, was: TextFile) -> None:
    if not (holds(folder.fd, name, was.data) and folder.is_in_place()):
        raise say_changed(path)


# --- deleting ---------------------------------------------------------------------------------------------------------


def _delete_file(folder: HeldFolder, name: str, path: NotePath, was: TextFile, keep: Keep) -> None:
    if not holds(folder.fd, name, was.data):
        raise say_changed(path)
    _check_writable(os.lstat(name, dir_fd=folder.fd), path)
    if not take_away(folder, name, was.data, keep):
        raise say_changed(path)
    folder.sync()


def _delete_folder(folder: HeldFolder, name: str, path: NotePath, was: Mapping[NotePath, TextFile]) -> None:
    """The folder leaves its name as a whole, so that nobody, and no crash, sees half of it."""
    _check_holds_only(folder, name, path, was)
    aside = set_aside(folder.fd, name)
    try:
        tree = _check_holds_only(folder, aside, path, was)
        if not folder.is_in_place():
            raise say_changed(path)
    except BaseException:
        give_back(folder.fd, aside, name)
        raise
    try:
        remove_tree(folder.fd, aside, tree)
    except OSError as error:
        give_back(folder.fd, aside, name)
        # Somebody who was in there has put something down since: that stays, where it was.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    folder.sync()


def _check_holds_only(folder: HeldFolder, name: str, path: NotePath, was: Mapping[NotePath, TextFile]) -> Tree:
    """Raise Conflict unless the folder holds the files of `was` as they were read, and nothing else but folders."""
    expected = {file.text.removeprefix(f"{path.text}/"): data for file, data in was.items()}
    fd = open_folder_in(folder.fd, name)
    try:
        tree = list_tree(fd)
        own = {file for file in tree.files if is_temporary(file.rpartition("/")[2])}
        for unknown in (*tree.others, *tree.files):
            if unknown not in expected and unknown not in own:
                raise Conflict(
                    f"{path.text} also holds {show_name(unknown)}, which is not known to memsyncd",
                    hint="remove it yourself, or delete the notes one by one",
                )
        for file, read in expected.items():
            if not holds(fd, file, read.data):
                raise say_changed(NotePath(f"{path.text}/{file}"))
            _check_writable(os.lstat(file, dir_fd=fd), NotePath(f"{path.text}/{file}"))
        for inside in ("", *tree.folders):
            if not os.access(inside or ".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=ASKS_FOR_EFFECTIVE):
                raise Unwritable(f"{path.text}: a folder in it may not be changed", hint="make it writable for you: chmod u+w")
        return tree
    finally:
        os.close(fd)
