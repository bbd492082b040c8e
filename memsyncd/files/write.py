"""Create, replace, delete and rename files of memory without losing saves of other programs.

Every change is all or nothing and stays within the workspace, whose folders are kept open by
descriptor:

- Replacing is compare-and-swap: the new bytes are synced first, then exchanged with the note in
  one step. If the displaced file does not have the content that the caller had read, the two are
  exchanged back and Conflict is raised; the caller decides again. Where the system cannot exchange
  names in one step, the note is compared immediately before the rename.
- Deleting renames first, then compares, then removes the file or restores the name.
- A new name never replaces anything.

The engine decides on the change, records the old texts, and lets one job write at a time.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import re
import stat as modes
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

import msgspec

from memsyncd.core.changes.diff import FileStat
from memsyncd.core.digest import digest_bytes
from memsyncd.core.model import Attributes
from memsyncd.core.paths import MEMORY_FILE, MEMORY_FOLDER, NAME_LIMIT_BYTES, NotePath
from memsyncd.errors import AlreadyExists, Conflict, PathRefused, Unwritable
from memsyncd.files.confined import (
    FILE_FLAGS,
    LIST_FLAGS,
    ConfinedPath,
    closing_fd,
    open_file_in,
    open_folder_beneath,
    open_folder_in,
)
from memsyncd.files.listing import Tree, list_tree, remove_tree
from memsyncd.files.read import (
    TextFile,
    check_root,
    file_stat,
    find_place,
    make_conflict,
    make_refusal,
    read_bounded,
    resolve,
    translating_errors,
)
from memsyncd.files.scope import Scope, show_name

# --- temporary files ----------------------------------------------------------------------------

TEMPORARY_NAME = re.compile(r"\.memsyncd-[0-9a-f]{16}\.tmp")
FILE_MODE = 0o600
READ_WRITE = 0o666
PERMISSIONS = 0o777
NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFile(msgspec.Struct, frozen=True, kw_only=True):
    """A new file that is complete on the disk; `fd` is open for reading only."""

    name: str
    fd: int


def make_temporary_name() -> str:
    """Make an unused name: it has 64 random bits."""
    # `secrets` would import all of OpenSSL: 3.5 MB.
    return f".memsyncd-{os.urandom(8).hex()}.tmp"


def is_temporary(name: str) -> bool:
    return TEMPORARY_NAME.fullmatch(name) is not None


@contextlib.contextmanager
def write_temporary(
    folder_fd: int, data: bytes, *, like_fd: int | None, attributes: Attributes | None = None
) -> Iterator[TemporaryFile]:
    """Write and sync a new file, with the mode, owner and attributes of the open file `like_fd`.

    Without `like_fd` the file gets the mode and time of `attributes`; without both, the permissions
    of its folder. At the end the temporary name is removed if it still names this new file.
    """
    name = make_temporary_name()
    with contextlib.ExitStack() as cleanup:
        write_fd = os.open(name, NEW_FLAGS, FILE_MODE, dir_fd=folder_fd)
        cleanup.callback(_remove_own, folder_fd, name, os.fstat(write_fd))
        with closing_fd(write_fd):
            _write_all(write_fd, data)
            if like_fd is not None:
                _copy_metadata(write_fd, like_fd)
            else:
                _set_attributes(write_fd, folder_fd, attributes)
            os.fsync(write_fd)
        fd = os.open(name, FILE_FLAGS, dir_fd=folder_fd)
        cleanup.callback(os.close, fd)
        yield TemporaryFile(name=name, fd=fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _set_attributes(fd: int, folder_fd: int, attributes: Attributes | None) -> None:
    # Some file systems, such as FAT, have neither modes nor all times.
    with contextlib.suppress(OSError):
        mode = os.fstat(folder_fd).st_mode & READ_WRITE if attributes is None else attributes.mode
        os.fchmod(fd, mode & PERMISSIONS)
    if attributes is not None:
        with contextlib.suppress(OSError, OverflowError):
            os.utime(fd, ns=(os.fstat(fd).st_atime_ns, attributes.mtime_ns))


def _copy_metadata(fd: int, like_fd: int) -> None:
    """Copy owner, mode and attributes as far as the system allows it."""
    stat, own = os.fstat(like_fd), os.fstat(fd)
    # The owner comes first: a change of owner may clear permissions.
    if (stat.st_uid, stat.st_gid) != (own.st_uid, own.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(fd, stat.st_uid, stat.st_gid)
    os.fchmod(fd, modes.S_IMODE(stat.st_mode) & PERMISSIONS)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            _copy_attributes(fd, like_fd)


def _copy_attributes(fd: int, like_fd: int) -> None:
    """Copy extended attributes, which include access control lists."""
    attributes = os.listxattr(like_fd)
    # The access control list that a new file inherits from its folder must not remain.
    for attribute in set(os.listxattr(fd)).difference(attributes):
        with contextlib.suppress(OSError):
            os.removexattr(fd, attribute)
    for attribute in attributes:
        with contextlib.suppress(OSError):
            os.setxattr(fd, attribute, os.getxattr(like_fd, attribute))


def _remove_own(folder_fd: int, name: str, own: os.stat_result) -> None:
    with contextlib.suppress(OSError):
        if os.path.samestat(os.lstat(name, dir_fd=folder_fd), own):
            os.unlink(name, dir_fd=folder_fd)


# --- renames ------------------------------------------------------------------------------------
#
# `renameat2` (Linux) and `renameatx_np` (macOS) exchange two names, or rename without replacing
# anything. Where the system or the file system cannot, a hard link gets the new name; this fails
# just as reliably if the name is taken. An exchange is refused then, because a plain rename could
# not restore the file that it replaced.

# The function of the C library, its flag for not replacing, and its flag for exchanging.
RENAME_FLAGS = {"linux": ("renameat2", 1, 2), "darwin": ("renameatx_np", 4, 2)}
# Errors of old kernels, and of file systems that do not know the flag.
UNSUPPORTED_ERRORS = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
# Errors for a folder, which can have no second name, and of file systems without hard links.
UNLINKABLE_ERRORS = UNSUPPORTED_ERRORS | {errno.EPERM, errno.EMLINK}

RenameAt = Callable[[int, str, int, str, int], None]
"""Renames between two open folders, with a flag."""


class ExchangeUnsupportedError(OSError):
    """The system or the file system cannot exchange two names in one step."""


def exchange(folder_fd: int, name: str, other: str) -> None:
    """Exchange two names of a folder in one step. Raises ExchangeUnsupportedError."""
    try:
        _rename_with_flag(_rename_flags()[1], folder_fd, name, folder_fd, other)
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRORS:
            raise
        raise ExchangeUnsupportedError(error.errno, error.strerror) from error


def rename_noreplace(old_fd: int, old: str, new_fd: int, new: str) -> None:
    """Rename without replacing anything. Raises FileExistsError if the new name is taken."""
    try:
        _rename_with_flag(_rename_flags()[0], old_fd, old, new_fd, new)
    except OSError as error:
        if error.errno not in UNSUPPORTED_ERRORS:
            raise
        _rename_by_link(old_fd, old, new_fd, new)


def _rename_by_link(old_fd: int, old: str, new_fd: int, new: str) -> None:
    try:
        os.link(old, new, src_dir_fd=old_fd, dst_dir_fd=new_fd, follow_symlinks=False)
    except OSError as error:
        if error.errno not in UNLINKABLE_ERRORS:
            raise
        _rename_after_check(old_fd, old, new_fd, new)
        return
    try:
        os.unlink(old, dir_fd=old_fd)
    except OSError:
        os.unlink(new, dir_fd=new_fd)
        raise


def _rename_after_check(old_fd: int, old: str, new_fd: int, new: str) -> None:
    """Rename if the new name is free now.

    Another program may take the name in between; a renamed folder replaces only an empty folder.
    """
    try:
        os.lstat(new, dir_fd=new_fd)
    except FileNotFoundError:
        os.rename(old, new, src_dir_fd=old_fd, dst_dir_fd=new_fd)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _rename_with_flag(flag: int, old_fd: int, old: str, new_fd: int, new: str) -> None:
    rename_at = choose_rename()
    if rename_at is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    rename_at(old_fd, old, new_fd, new, flag)


def _rename_flags() -> tuple[int, int]:
    _, noreplace, swap = RENAME_FLAGS.get(sys.platform, ("", 0, 0))
    return noreplace, swap


@functools.cache
def choose_rename() -> RenameAt | None:
    """Return the C library's rename with flags; None if it has no such function."""
    name = RENAME_FLAGS.get(sys.platform, ("", 0, 0))[0]
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None) if name else None
    if function is None:
        return None
    c_int, c_char_p = ctypes.c_int, ctypes.c_char_p
    function.argtypes = (c_int, c_char_p, c_int, c_char_p, ctypes.c_uint)

    def rename_at(old_fd: int, old: str, new_fd: int, new: str, flag: int) -> None:
        if function(old_fd, os.fsencode(old), new_fd, os.fsencode(new), flag) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    return rename_at


# --- open folders -------------------------------------------------------------------------------
#
# A folder beneath the root is kept open by its descriptor, and files are changed by name within
# that descriptor. `is_in_place` says whether the path of the folder still leads to it.

FOLDER_MODE = 0o700


class OpenFolder(msgspec.Struct, frozen=True, kw_only=True):
    """An open folder: `path` beneath the real folder `root`, empty for `root` itself."""

    root: str
    path: str
    fd: int

    def is_in_place(self) -> bool:
        """False if the folder was moved, deleted or replaced since it was opened."""
        try:
            fd = open_folder_beneath(self.root, self.path)
        except OSError:
            return False
        with closing_fd(fd):
            return os.path.sameopenfile(fd, self.fd)

    def sync(self) -> None:
        """Sync the names in this folder to the disk."""
        _sync_folder(self.fd)


@contextlib.contextmanager
def open_folder(root: str, path: str) -> Iterator[OpenFolder]:
    """Open an existing folder. Raises OSError as `open_folder_beneath` does."""
    with closing_fd(open_folder_beneath(root, path)) as fd:
        yield OpenFolder(root=root, path=path, fd=fd)


@contextlib.contextmanager
def create_folder(root: str, path: str) -> Iterator[OpenFolder]:
    """Open a folder; create it and missing folders above it, each with its parent's permissions.

    If the body fails, created folders that are still empty are removed again.
    """
    created: list[str] = []
    try:
        with closing_fd(_open_or_create(root, path, created)) as fd:
            yield OpenFolder(root=root, path=path, fd=fd)
    except BaseException:
        for folder in reversed(created):
            _remove_if_empty(root, folder)
        raise


def _open_or_create(root: str, path: str, created: list[str]) -> int:
    """Return the folder's descriptor; add the paths of created folders to `created`."""
    at = os.open(root, LIST_FLAGS)
    done: list[str] = []
    try:
        for part in path.split("/") if path else ():
            done.append(part)
            deeper = _open_or_create_one(at, part, "/".join(done), created)
            os.close(at)
            at = deeper
    except BaseException:
        os.close(at)
        raise
    return at


def _open_or_create_one(at: int, name: str, path: str, created: list[str]) -> int:
    try:
        return os.open(name, LIST_FLAGS, dir_fd=at)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=at)
            created.append(path)
            _copy_permissions(at, name)
            _sync_folder(at)
    return os.open(name, LIST_FLAGS, dir_fd=at)


def _copy_permissions(folder_fd: int, name: str) -> None:
    """Give the new folder `name` the permissions of the folder in which it lies."""
    with closing_fd(os.open(name, LIST_FLAGS, dir_fd=folder_fd)) as fd:
        special = modes.S_IMODE(os.fstat(fd).st_mode) & ~PERMISSIONS
        with contextlib.suppress(OSError):
            os.fchmod(fd, special | os.fstat(folder_fd).st_mode & PERMISSIONS)


def _sync_folder(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        # Some file systems do not sync folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _remove_if_empty(root: str, path: str) -> None:
    parent, _, name = path.rpartition("/")
    with contextlib.suppress(OSError), open_folder(root, parent) as folder:
        os.rmdir(name, dir_fd=folder.fd)


KeepText = Callable[[NotePath, bytes], bool]
"""Records a text that another program saved meanwhile; True if it can be read again later."""
Keep = Callable[[bytes], bool]
"""`KeepText` for a fixed path."""

KEPT_LIMIT_BYTES = 64 * 1024 * 1024
# How often a displaced file is exchanged back while other programs keep saving.
N_EXCHANGES = 8
ANY_WRITER = 0o222
USES_EFFECTIVE_IDS = os.access in os.supports_effective_ids


def keep_nothing(*_: object) -> bool:
    """A `keep` for callers without a history: it records nothing."""
    return False


def put_text_file(
    scope: Scope,
    path: NotePath,
    data: bytes,
    *,
    was: TextFile | None,
    keep: KeepText = keep_nothing,
    attributes: Attributes | None = None,
) -> TextFile:
    """Create a file and missing folders, or replace a file; return the file after the change.

    If `was` is None the file is created; otherwise `was` is the file that the caller has read. A
    new file gets the mode and time of `attributes`; without them, the permissions of its folder.

    If the exchange displaced a text of another program, `keep` gets that text before the file is
    restored.

    Raises AlreadyExists if a new file's name is taken; Conflict if the file has changed since it
    was read or its folder was moved; PathRefused, StoreFull, Unwritable. Then nothing has changed.
    """
    place = _find_place_to_change(scope, path, was)
    parent, _, name = place.path.rpartition("/")
    open_parent = create_folder if was is None else open_folder
    with translating_errors(path), open_parent(scope.root, parent) as folder:
        if was is None:
            _check_not_evicted(folder, name, path)
            stat = _create(folder, name, path, data, attributes)
        else:
            stat = _replace(folder, name, path, data, was, partial(keep, path))
    return TextFile(
        path=NotePath(place.path),
        data=data,
        digest=digest_bytes(data),
        stat=file_stat(stat),
        mode=stat.st_mode,
    )


def delete_path(
    scope: Scope,
    path: NotePath,
    *,
    was: Mapping[NotePath, TextFile],
    keep: KeepText = keep_nothing,
) -> None:
    """Delete a file, or a folder with its content. `was` has every file in it that was read.

    Raises Conflict if a file has changed since it was read or the folder holds any other file,
    hidden or not; PathRefused for a link; Unwritable. Then nothing is deleted.
    """
    place = _find_own_place(scope, path)
    for inside in was:
        _check_not_read_only(scope, inside.text)
    parent, _, name = place.path.rpartition("/")
    with translating_errors(path), open_folder(scope.root, parent) as folder:
        if modes.S_ISDIR(os.lstat(name, dir_fd=folder.fd).st_mode):
            _delete_folder(folder, name, path, was)
        elif path in was:
            _delete_file(folder, name, path, was[path], partial(keep, path))
        else:
            raise make_conflict(path)


def rename_path(scope: Scope, old: NotePath, new: NotePath) -> FileStat | None:
    """Rename a file or folder, and create missing folders of the new path.

    Returns the new stat of a file, None for a folder. Raises AlreadyExists if the new name is
    taken; Conflict if the old path is gone or a folder was moved meanwhile; PathRefused for links,
    special files, `.memories` itself and a folder into itself; Unwritable, StoreFull. Then nothing
    has changed.
    """
    from_place, to_place = _find_own_place(scope, old), _find_place_to_change(scope, new, None)
    is_inside = f"{to_place.path}/".startswith(f"{from_place.path}/")
    if old.text in (MEMORY_FOLDER, scope.memory_dir) or is_inside:
        raise make_refusal(new, "it is within the path to be renamed")
    if any(pattern.startswith(f"{old.text}/") for pattern in scope.read_only.patterns):
        raise make_refusal(old, "it is the folder of read-only notes")
    from_parent, _, from_name = from_place.path.rpartition("/")
    to_parent, _, to_name = to_place.path.rpartition("/")
    with (
        translating_errors(new),
        open_folder(scope.root, from_parent) as from_folder,
        create_folder(scope.root, to_parent) as to_folder,
    ):
        _check_movable(from_folder, from_name, old, new)
        _check_not_evicted(to_folder, to_name, new)
        try:
            rename_noreplace(from_folder.fd, from_name, to_folder.fd, to_name)
        except FileExistsError:
            raise _make_exists_error(new) from None
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise make_refusal(new, "it is on another disk than the former path") from None
            raise
        if not (from_folder.is_in_place() and to_folder.is_in_place()):
            rename_noreplace(to_folder.fd, to_name, from_folder.fd, from_name)
            raise make_conflict(new)
        to_folder.sync()
        from_folder.sync()
        stat = os.lstat(to_name, dir_fd=to_folder.fd)
        return None if modes.S_ISDIR(stat.st_mode) else file_stat(stat)


# --- checks -------------------------------------------------------------------------------------


def _find_place_to_change(scope: Scope, path: NotePath, was: TextFile | None) -> ConfinedPath:
    """Return the real place of a path; it must be in the workspace, at the place of `was`."""
    check_root(scope)
    # A file that was read through a link may be written under its real path, even if that path is
    # outside memory.
    is_own_path = was is not None and was.path == path
    place = resolve(scope, path) if is_own_path else find_place(scope, path)
    if place.folder != scope.root:
        raise make_refusal(path, "it is outside the workspace, in a folder that is read only")
    if path.text in (MEMORY_FOLDER, scope.memory_dir):
        raise make_refusal(path, "it is the folder of notes")
    _check_not_read_only(scope, place.path)
    if was is None and os.path.islink(f"{scope.root}/{path.text}"):
        raise _make_exists_error(path)
    if was is not None and was.path.text != place.path:
        raise make_conflict(path)
    return place


def _check_not_read_only(scope: Scope, path: str) -> None:
    if scope.is_read_only(path):
        hint = "change it with your editor, or write to another note"
        raise PathRefused(f"{path} is a read-only note of this workspace", hint=hint)


def _find_own_place(scope: Scope, path: NotePath) -> ConfinedPath:
    """Return the place of a path to move or delete. A link is refused, because it would stay."""
    place = find_place(scope, path)
    _check_not_read_only(scope, path.text)
    if os.path.islink(f"{scope.root}/{path.text}") or place.folder != scope.root:
        raise make_refusal(path, "it is a link, or is beneath one, that leads out")
    check_root(scope)
    return place


def _check_movable(folder: OpenFolder, name: str, old: NotePath, new: NotePath) -> None:
    mode = os.lstat(name, dir_fd=folder.fd).st_mode
    if not (modes.S_ISREG(mode) or modes.S_ISDIR(mode)):
        raise make_refusal(old, "it is not a regular file")
    if modes.S_ISDIR(mode) and new.text == MEMORY_FILE:
        raise make_refusal(new, "it is a note, not a folder")


def _check_writable(stat: os.stat_result, path: NotePath) -> None:
    # A rename succeeds even on a read-only file, but its owner did not want it changed.
    if not modes.S_IMODE(stat.st_mode) & ANY_WRITER:
        raise Unwritable(f"{path.text} is read-only", hint="make it writable again: chmod u+w")


def _make_exists_error(path: NotePath) -> AlreadyExists:
    hint = "choose another name, or change the existing file"
    return AlreadyExists(f"{path.text} already exists", hint=hint)


def _check_not_evicted(folder: OpenFolder, name: str, path: NotePath) -> None:
    """Raise AlreadyExists if iCloud has moved the note off this machine and left a stand-in."""
    try:
        os.lstat(f".{name}.icloud", dir_fd=folder.fd)
    except OSError:  # no stand-in, or the name of a stand-in would be too long
        return
    hint = "open it in the Finder, which downloads it, or choose another name"
    raise AlreadyExists(f"{path.text} already exists, and its content is in iCloud", hint=hint)


def has_content(folder_fd: int, path: str, data: bytes) -> bool:
    """True if the path names a regular file with exactly these bytes."""
    try:
        fd = open_file_in(folder_fd, path)
    except OSError:
        return False
    with closing_fd(fd):
        return read_bounded(fd, len(data), limit_bytes=len(data) + 1) == data


# --- creating and replacing ---------------------------------------------------------------------


def _create(
    folder: OpenFolder, name: str, path: NotePath, data: bytes, attributes: Attributes | None
) -> os.stat_result:
    with write_temporary(folder.fd, data, like_fd=None, attributes=attributes) as temporary:
        try:
            rename_noreplace(folder.fd, temporary.name, folder.fd, name)
        except FileExistsError:
            raise _make_exists_error(path) from None
        if not folder.is_in_place():
            _remove_created(folder.fd, name, data)
            raise make_conflict(path)
        folder.sync()
        return os.fstat(temporary.fd)


def _remove_created(folder_fd: int, name: str, data: bytes) -> None:
    """Remove a created file unless another program has changed it."""
    aside = move_aside(folder_fd, name)
    if has_content(folder_fd, aside, data):
        os.unlink(aside, dir_fd=folder_fd)
    else:
        restore(folder_fd, aside, name)


def _replace(
    folder: OpenFolder, name: str, path: NotePath, data: bytes, was: TextFile, keep: Keep
) -> os.stat_result:
    with closing_fd(open_file_in(folder.fd, name)) as old_fd:
        _check_writable(os.fstat(old_fd), path)
        if not has_content(folder.fd, name, was.data):
            raise make_conflict(path)
        with write_temporary(folder.fd, data, like_fd=old_fd) as temporary:
            # The note is compared again: another program may have saved while this one wrote.
            is_unchanged = has_content(folder.fd, name, was.data) and folder.is_in_place()
            if not is_unchanged or not compare_and_swap(
                folder, name, temporary.name, old=was.data, new=data, keep=keep
            ):
                raise make_conflict(path)
            folder.sync()
            return os.fstat(temporary.fd)


def compare_and_swap(
    folder: OpenFolder, name: str, temporary: str, *, old: bytes, new: bytes, keep: Keep
) -> bool:
    """Give `name` to the file `temporary`, which holds `new`; return True if that succeeded.

    It succeeds if `name` holds `old` and the folder is in place. Otherwise the file of the other
    program gets its name back, and False is returned.
    """
    try:
        exchange(folder.fd, temporary, name)
    except ExchangeUnsupportedError:
        if not (has_content(folder.fd, name, old) and folder.is_in_place()):
            return False
        os.rename(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        return True
    # Programs can no longer reach the displaced file by the note's name, so no save under that name
    # comes between the comparison and the removal. A program that opened the note before the
    # exchange and writes after the comparison writes to the removed file; the same happens after
    # any editor's save by rename.
    if has_content(folder.fd, temporary, old) and folder.is_in_place():
        os.unlink(temporary, dir_fd=folder.fd)
        return True
    exchange_back(folder.fd, name, temporary, new, keep)
    return False


def exchange_back(folder_fd: int, name: str, displaced: str, data: bytes, keep: Keep) -> None:
    """Undo an exchange: `displaced` gets `name` back, and the file with `data` is removed.

    `name` holds `data` since the exchange. If another program has replaced it meanwhile, the
    program's file keeps the name.
    """
    ours = data
    for _ in range(N_EXCHANGES):
        # The text is recorded first: as soon as the displaced file has its name back, a program
        # that has read `data` may overwrite it.
        text = record_displaced(folder_fd, displaced, keep)
        try:
            exchange(folder_fd, displaced, name)
        except FileNotFoundError:
            break  # another program has deleted or renamed `data`
        if has_content(folder_fd, displaced, ours):
            os.unlink(displaced, dir_fd=folder_fd)
            return
        if text is None:
            exchange(folder_fd, displaced, name)
            break
        # `displaced` is now the newest file: the next exchange gives it the name, and displaces
        # the file whose text was just recorded.
        ours = text
    restore(folder_fd, displaced, name)


# --- deleting -----------------------------------------------------------------------------------


def _delete_file(folder: OpenFolder, name: str, path: NotePath, was: TextFile, keep: Keep) -> None:
    if not has_content(folder.fd, name, was.data):
        raise make_conflict(path)
    _check_writable(os.lstat(name, dir_fd=folder.fd), path)
    if not remove_if(folder, name, was.data, keep):
        raise make_conflict(path)
    folder.sync()


def remove_if(folder: OpenFolder, name: str, data: bytes, keep: Keep) -> bool:
    """Remove a file if it holds these bytes and its folder is in place; otherwise restore it."""
    aside = move_aside(folder.fd, name)
    if has_content(folder.fd, aside, data) and folder.is_in_place():
        os.unlink(aside, dir_fd=folder.fd)
        return True
    is_recorded = record_displaced(folder.fd, aside, keep) is not None
    restore(folder.fd, aside, name, is_recorded=is_recorded)
    return False


def _delete_folder(
    folder: OpenFolder, name: str, path: NotePath, was: Mapping[NotePath, TextFile]
) -> None:
    """Rename the folder, then empty and remove it, so that no crash leaves half of it in place."""
    _check_content(folder, name, path, was)
    aside = move_aside(folder.fd, name)
    try:
        tree = _check_content(folder, aside, path, was)
        if not folder.is_in_place():
            raise make_conflict(path)
    except BaseException:
        restore(folder.fd, aside, name)
        raise
    try:
        remove_tree(folder.fd, aside, tree)
    except OSError as error:
        restore(folder.fd, aside, name)
        # A program that had a folder open has just created a file in it: that file stays.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    folder.sync()


def _check_content(
    folder: OpenFolder, name: str, path: NotePath, was: Mapping[NotePath, TextFile]
) -> Tree:
    """Raise Conflict unless the folder holds exactly the files of `was`, unchanged.

    Raises Unwritable if a file or folder in it may not be deleted.
    """
    expected = {file.text.removeprefix(f"{path.text}/"): read for file, read in was.items()}
    with closing_fd(open_folder_in(folder.fd, name)) as fd:
        tree = list_tree(fd)
        own = {file for file in tree.files if is_temporary(file.rpartition("/")[2])}
        for unknown in (*tree.others, *tree.files):
            if unknown not in expected and unknown not in own:
                message = (
                    f"{path.text} also holds {show_name(unknown)}, which memsyncd does not know"
                )
                raise Conflict(message, hint="remove it yourself, or delete the notes one by one")
        for file, read in expected.items():
            file_path = NotePath(f"{path.text}/{file}")
            if not has_content(fd, file, read.data):
                raise make_conflict(file_path)
            _check_writable(os.lstat(file, dir_fd=fd), file_path)
        _check_folders_writable(fd, path, tree)
        return tree


def _check_folders_writable(fd: int, path: NotePath, tree: Tree) -> None:
    mode = os.W_OK | os.X_OK
    for inside in ("", *tree.folders):
        if not os.access(inside or ".", mode, dir_fd=fd, effective_ids=USES_EFFECTIVE_IDS):
            message = f"{path.text}: a folder in it may not be changed"
            raise Unwritable(message, hint="make it writable for you: chmod u+w")


# --- displaced files ----------------------------------------------------------------------------


def move_aside(folder_fd: int, name: str) -> str:
    """Rename a file or folder to a temporary name, and return the temporary name."""
    aside = make_temporary_name()
    os.rename(name, aside, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    return aside


def record_displaced(folder_fd: int, displaced: str, keep: Keep) -> bytes | None:
    """Let `keep` record the text of a displaced file; None if it cannot be read or recorded."""
    try:
        with closing_fd(open_file_in(folder_fd, displaced)) as fd:
            size_bytes = os.fstat(fd).st_size
            text = read_bounded(fd, size_bytes, limit_bytes=KEPT_LIMIT_BYTES + 1)
    except OSError:
        return None
    return text if len(text) <= KEPT_LIMIT_BYTES and keep(text) else None


def restore(folder_fd: int, displaced: str, name: str, *, is_recorded: bool = False) -> None:
    """Give a displaced file or folder its name back.

    If another program has taken the name, its file keeps the name. Then the displaced file is
    removed if the history has its text; otherwise it stays beside the other file as a conflict
    copy, and a scan reports it.
    """
    try:
        rename_noreplace(folder_fd, displaced, folder_fd, name)
    except FileExistsError:
        if is_recorded:
            os.unlink(displaced, dir_fd=folder_fd)
        else:
            rename_noreplace(folder_fd, displaced, folder_fd, make_copy_name(name))


def make_copy_name(name: str) -> str:
    """Make an unused name of at most 255 bytes for a copy, with the suffix of `name`."""
    stem, dot, suffix = name.rpartition(".")
    number = int.from_bytes(os.urandom(8)) % 10**8
    mark = f"_conflict-{number:08}" + (f"{dot}{suffix}" if stem else "")
    room = NAME_LIMIT_BYTES - len(mark.encode())
    return (stem or name).encode()[:room].decode(errors="ignore") + mark


# --- temporary files of a killed process --------------------------------------------------------


def remove_temporary_files(
    scope: Scope,
    path: NotePath,
    known_texts: Collection[bytes],
    *,
    put: bytes | None = None,
    keep: Keep = keep_nothing,
) -> None:
    """Remove temporary files beside this note and in the folders above it, up to the root.

    `known_texts` are the texts of the interrupted change: a file that holds one of them, or the
    beginning of one, is removed. Another program saved any other file just before the kill: `keep`
    gets its text, and the file gets its name back unless a newer file has the name. `put` is the
    text that the killed process had put in the note's place, or None.

    No job may write meanwhile. Files that cannot be removed stay. A folder outside the workspace is
    left alone.
    """
    try:
        place = (
            resolve(scope, NotePath(path.folder)) if path.folder else ConfinedPath(scope.root, "")
        )
    except (PathRefused, Conflict):
        return
    parent, name = place.path, path.name
    while place.folder == scope.root:
        with contextlib.suppress(OSError), open_folder(scope.root, parent) as folder:
            for temporary in filter(is_temporary, os.listdir(folder.fd)):
                with contextlib.suppress(OSError):
                    _remove_or_restore(folder.fd, temporary, name, known_texts, put, keep)
        if not parent:
            return
        parent, _, name = parent.rpartition("/")


def _remove_or_restore(
    folder_fd: int,
    temporary: str,
    name: str,
    known_texts: Collection[bytes],
    put: bytes | None,
    keep: Keep,
) -> None:
    if modes.S_ISDIR(os.lstat(temporary, dir_fd=folder_fd).st_mode):
        _remove_or_restore_folder(folder_fd, temporary, name, known_texts)
    elif _is_known(folder_fd, temporary, known_texts):
        os.unlink(temporary, dir_fd=folder_fd)
    elif put is not None and has_content(folder_fd, name, put):
        exchange_back(folder_fd, name, temporary, put, keep)
    else:
        is_recorded = record_displaced(folder_fd, temporary, keep) is not None
        restore(folder_fd, temporary, name, is_recorded=is_recorded)


def _remove_or_restore_folder(
    folder_fd: int, temporary: str, name: str, known_texts: Collection[bytes]
) -> None:
    with closing_fd(open_folder_in(folder_fd, temporary)) as fd:
        tree = list_tree(fd)
        is_known = not tree.others and all(_is_known(fd, file, known_texts) for file in tree.files)
    if is_known:
        remove_tree(folder_fd, temporary, tree)
    else:
        restore(folder_fd, temporary, name)


def _is_known(folder_fd: int, path: str, known_texts: Collection[bytes]) -> bool:
    with closing_fd(open_file_in(folder_fd, path)) as fd:
        limit_bytes = max(map(len, known_texts), default=0) + 1
        data = read_bounded(fd, os.fstat(fd).st_size, limit_bytes=limit_bytes)
    return any(text.startswith(data) for text in known_texts)
