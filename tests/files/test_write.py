"""Files are created and replaced all or nothing, and never over the save of another program."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.model import Attributes
from memsyncd.core.paths import NotePath, is_conflict_copy, parse_note_path
from memsyncd.errors import (
    AlreadyExists,
    Conflict,
    MemsyncdError,
    PathRefused,
    StoreFull,
    Unwritable,
)
from memsyncd.files import write
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.files.scan import scan
from memsyncd.files.write import (
    KeepText,
    OpenFolder,
    delete_path,
    has_content,
    keep_nothing,
    make_copy_name,
    open_folder,
    put_text_file,
    remove_if,
    remove_temporary_files,
    rename_path,
    restore,
)
from tests.files.conftest import before, parse_scope

NOTE = NotePath(".memories/a.md")
IS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root may read a note without read permission"
)


def read(root: Path, path: NotePath = NOTE) -> TextFile:
    file = read_text_file(parse_scope(str(root)), path)
    assert file is not None
    return file


def put(
    root: Path,
    data: bytes,
    *,
    was: TextFile | None,
    path: NotePath = NOTE,
    keep: KeepText = keep_nothing,
) -> None:
    put_text_file(parse_scope(str(root)), path, data, was=was, keep=keep)


def put_over(root: Path, data: bytes, path: NotePath = NOTE) -> None:
    put(root, data, was=read(root, path), path=path)


def list_all(root: Path) -> list[str]:
    """Return every name beneath the root, including hidden names."""
    return sorted(str(place.relative_to(root)) for place in root.rglob("*"))


@pytest.fixture
def note(root: Path) -> Path:
    place = root / NOTE.text
    place.write_bytes(b"old\n")
    return place


Contents = dict[str, bytes | None]


def read_folder(fd: int) -> Contents:
    """Return the content of an open folder by name: the bytes of files, None for a folder."""
    contents: Contents = dict.fromkeys(os.listdir(fd))
    for name in contents:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
            with open(name, "rb", opener=functools.partial(os.open, dir_fd=fd)) as file:
                contents[name] = file.read()
    return contents


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> dict[int, Contents]:
    """The content of each folder at its last sync, by the folder's inode."""
    synced: dict[int, Contents] = {}
    fsync = os.fsync

    def sync_and_record(fd: int) -> None:
        fsync(fd)
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            synced[status.st_ino] = read_folder(fd)

    monkeypatch.setattr(os, "fsync", sync_and_record)
    return synced


# --- creating and replacing ---------------------------------------------------------------------


@pytest.mark.usefixtures("way")
class TestSync:
    """Each change syncs its folder afterwards, so that a power cut does not undo it."""

    def check(self, synced: dict[int, Contents], *folders: Path) -> None:
        for folder in folders:
            fd = os.open(folder, os.O_RDONLY)
            try:
                assert synced[folder.stat().st_ino] == read_folder(fd)
            finally:
                os.close(fd)

    def test_a_new_note(self, root: Path, synced: dict[int, Contents]) -> None:
        put(root, b"new", was=None)
        self.check(synced, root / ".memories")

    def test_a_replaced_note(self, root: Path, note: Path, synced: dict[int, Contents]) -> None:
        put_over(root, b"new")
        self.check(synced, note.parent)
        assert synced[note.parent.stat().st_ino] == {"a.md": b"new"}

    def test_a_deleted_note_and_a_deleted_folder(
        self, root: Path, note: Path, synced: dict[int, Contents]
    ) -> None:
        delete_path(parse_scope(str(root)), NOTE, was={NOTE: read(root)})
        self.check(synced, note.parent)
        inner = NotePath(".memories/in/b.md")
        put(root, b"new", was=None, path=inner)
        delete_path(
            parse_scope(str(root)), NotePath(".memories/in"), was={inner: read(root, inner)}
        )
        self.check(synced, note.parent)

    def test_both_folders_of_a_renamed_note(
        self, root: Path, note: Path, synced: dict[int, Contents]
    ) -> None:
        rename_path(parse_scope(str(root)), NOTE, NotePath(".memories/in/b.md"))
        self.check(synced, note.parent, note.parent / "in")


class TestReplacing:
    @pytest.mark.parametrize("data", [b"", b"new\n", b"\xff\x00\r\n", b"x" * 2_000_000])
    def test_a_note_has_the_new_bytes_and_nothing_else_is_left(
        self, root: Path, note: Path, data: bytes
    ) -> None:
        identity = put_text_file(parse_scope(str(root)), NOTE, data, was=read(root)).stat
        assert note.read_bytes() == data
        assert list_all(root) == [".memories", ".memories/a.md"]
        assert scan(parse_scope(str(root))).files[NOTE.text] == identity

    def test_a_new_file_of_any_suffix_is_created_in_missing_folders(self, root: Path) -> None:
        (root / ".memories").rmdir()
        for path in ("MEMORY.md", ".memories/a/b/c.xml", ".memories/noext"):
            put(root, path.encode(), was=None, path=NotePath(path))
            assert (root / path).read_bytes() == path.encode()
        assert list_all(root) == [
            ".memories",
            ".memories/a",
            ".memories/a/b",
            ".memories/a/b/c.xml",
            ".memories/noext",
            "MEMORY.md",
        ]

    @pytest.mark.parametrize("umask", [0, 0o077, 0o022])
    @pytest.mark.parametrize("mode", [0o700, 0o755, 0o750, 0o2775])
    def test_new_files_and_folders_have_the_permissions_of_their_folder(
        self, root: Path, umask: int, mode: int
    ) -> None:
        (root / ".memories").chmod(mode)
        previous = os.umask(umask)
        try:
            put(root, b"x", was=None, path=NotePath(".memories/a/b.md"))
        finally:
            os.umask(previous)
        assert [
            (root / path).stat().st_mode & 0o7777 for path in (".memories/a", ".memories/a/b.md")
        ] == [mode, mode & 0o666]

    def test_a_file_that_is_created_again_has_its_former_mode_and_time(self, root: Path) -> None:
        attributes = Attributes(mode=0o640, mtime_ns=1_700_000_000_123_456_789)
        scope = parse_scope(str(root))
        file = put_text_file(scope, NOTE, b"x", was=None, attributes=attributes)
        status = (root / NOTE.text).stat()
        assert (status.st_mode & 0o777, status.st_mtime_ns) == attributes
        assert file.attributes == read(root).attributes == attributes

    @pytest.mark.parametrize(
        "mode", [0o600, 0o644, 0o664, pytest.param(0o200, marks=IS_ROOT), 0o755]
    )
    def test_a_note_keeps_its_mode(self, root: Path, note: Path, mode: int) -> None:
        was = read(root)
        note.chmod(mode)
        put(root, b"new", was=was)
        assert note.stat().st_mode & 0o7777 == mode

    def test_a_note_that_its_owner_may_not_read_is_not_replaced(self, plain_root: Path) -> None:
        note = plain_root / ".memories/a.md"
        note.write_text("old\n")
        was = read(plain_root)
        note.chmod(0o200)
        with pytest.raises(Unwritable):
            put(plain_root, b"new", was=was)
        note.chmod(0o600)
        assert note.read_bytes() == b"old\n"

    def test_a_note_keeps_its_extended_attributes(self, root: Path, note: Path) -> None:
        try:
            os.setxattr(note, "user.tag", b"red")
        except (AttributeError, OSError):
            pytest.skip("no extended attributes here")
        put_over(root, b"new")
        assert os.getxattr(note, "user.tag") == b"red"

    def test_a_read_only_note_is_not_replaced(self, root: Path, note: Path) -> None:
        note.chmod(0o444)
        with pytest.raises(Unwritable, match="read-only"):
            put_over(root, b"new")
        assert note.read_bytes() == b"old\n"

    def test_another_hard_link_keeps_the_old_bytes(self, root: Path, note: Path) -> None:
        os.link(note, root / "outside.md")
        put_over(root, b"new")
        assert ((root / "outside.md").read_bytes(), note.read_bytes()) == (b"old\n", b"new")

    def test_names_may_have_255_bytes(self, root: Path) -> None:
        path = parse_note_path(".memories/" + "é" * 126 + ".md")
        put(root, b"one", was=None, path=path)
        put_over(root, b"two", path)
        assert (root / path.text).read_bytes() == b"two"

    def test_a_name_that_differs_in_case_alone_is_another_note(
        self, root: Path, note: Path
    ) -> None:
        if (root / ".memories/A.md").exists():
            pytest.skip("this file system treats both names as one")
        put(root, b"upper", was=None, path=NotePath(".memories/A.md"))
        put_over(root, b"new")
        assert ((root / ".memories/A.md").read_bytes(), note.read_bytes()) == (b"upper", b"new")

    def test_no_descriptor_is_left_open(self, root: Path, note: Path) -> None:
        n_before = len(os.listdir("/dev/fd"))
        put_over(root, b"new")
        put(root, b"x", was=None, path=NotePath(".memories/b/c.md"))
        for path in (NOTE, NotePath(".memories/a.md/b.md"), NotePath(".memories/b")):
            with pytest.raises(MemsyncdError):
                put(root, b"x", was=None, path=path)
        assert len(os.listdir("/dev/fd")) == n_before


# --- obstacles ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
class TestObstacles:
    def test_no_note_is_created_where_one_was_evicted(self, root: Path) -> None:
        stand_in = root / ".memories" / ".a.md.icloud"
        stand_in.write_bytes(b"plist")
        with pytest.raises(AlreadyExists, match="iCloud"):
            put(root, b"new", was=None)
        assert list_all(root) == [".memories", ".memories/.a.md.icloud"]
        stand_in.rename(root / ".memories" / "a.md")
        put_over(root, b"new")

    def test_a_new_file_replaces_nothing(self, root: Path, note: Path) -> None:
        (root / ".memories/folder").mkdir()
        os.mkfifo(root / ".memories/fifo")
        with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(root / ".memories"):
            listener.bind("sock")
        seen = list_all(root)
        for name in ("a.md", "folder", "fifo", "sock"):
            with pytest.raises(AlreadyExists):
                put(root, b"x", was=None, path=NotePath(f".memories/{name}"))
        assert list_all(root) == seen
        assert note.read_bytes() == b"old\n"

    def test_a_file_where_a_folder_should_be_is_refused_and_stays(
        self, root: Path, note: Path
    ) -> None:
        with pytest.raises(PathRefused, match="not a folder"):
            put(root, b"x", was=None, path=NotePath(".memories/a.md/b/c.md"))
        assert list_all(root) == [".memories", ".memories/a.md"]

    @pytest.mark.parametrize("kind", ["fifo", "folder", "link", "device"])
    def test_a_note_that_has_become_something_else_is_refused(
        self, root: Path, note: Path, kind: str
    ) -> None:
        was = read(root)
        note.unlink()
        if kind == "fifo":
            os.mkfifo(note)
        elif kind == "folder":
            note.mkdir()
        elif kind == "device":
            with contextlib.suppress(PermissionError):
                os.mknod(note, 0o600 | 0o020000, os.makedev(1, 3))
        else:
            note.symlink_to("/etc/passwd")
        with pytest.raises((PathRefused, Conflict)):
            put(root, b"new", was=was)
        assert [name for name in list_all(root) if "memsyncd" in name] == []
        assert not os.path.isfile(note) or note.is_symlink()

    @pytest.mark.parametrize("path", ["README.md", "src/a.md", "MEMORY.md/x", ".memories"])
    def test_a_path_outside_memory_is_refused(self, root: Path, path: str) -> None:
        with pytest.raises(PathRefused):
            put(root, b"x", was=None, path=NotePath(path))
        assert list_all(root) == [".memories"]

    def test_an_included_file_may_be_written_and_an_excluded_one_may_not(self, root: Path) -> None:
        scope = parse_scope(str(root), include=["docs/*.md"], exclude=["drafts"])
        put_text_file(scope, NotePath("docs/a.md"), b"x", was=None)
        for path in ("docs/a.py", "docs/b/c.md", ".memories/drafts/a.md"):
            with pytest.raises(PathRefused):
                put_text_file(scope, NotePath(path), b"x", was=None)
        assert list_all(root) == [".memories", "docs", "docs/a.md"]

    def test_a_missing_workspace_is_not_created(self, root: Path) -> None:
        root.rename(root.parent / "away")
        with pytest.raises(Unwritable, match="is missing"):
            put(root, b"x", was=None)
        assert not root.exists()


# --- links --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
class TestLinks:
    def test_the_target_of_a_link_within_the_workspace_is_changed_and_the_link_stays(
        self, root: Path
    ) -> None:
        (root / "docs").mkdir()
        (root / "docs/real.md").write_text("old")
        (root / ".memories/link.md").symlink_to("../docs/real.md")
        (root / ".memories/docs").symlink_to("../docs")
        for path in (".memories/link.md", ".memories/docs/real.md"):
            file = read(root, NotePath(path))
            assert file.path == NotePath("docs/real.md")
            put(root, path.encode(), was=file, path=NotePath(path))
            assert (root / "docs/real.md").read_bytes() == path.encode()
            put(root, b"by its own path", was=read(root, NotePath(path)), path=file.path)
        put(root, b"new", was=None, path=NotePath(".memories/docs/sub/new.md"))
        assert (root / "docs/sub/new.md").read_bytes() == b"new"
        assert (root / ".memories/link.md").is_symlink()

    def test_nothing_is_written_through_a_link_that_leads_out(
        self, root: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out/real.md").write_text("theirs")
        (root / ".memories/link.md").symlink_to(tmp_path / "out/real.md")
        (root / ".memories/out").symlink_to(tmp_path / "out")
        (root / ".git").mkdir()
        (root / ".memories/git").symlink_to("../.git")
        (root / ".memories/self.md").symlink_to("self.md")
        for path in (
            ".memories/link.md",
            ".memories/out/new.md",
            ".memories/git/config",
            ".memories/self.md",
        ):
            with pytest.raises((PathRefused, AlreadyExists)):
                put(root, b"x", was=None, path=NotePath(path))
        assert list_all(tmp_path / "out") == ["real.md"]
        assert list_all(root / ".git") == []

    def test_a_dangling_link_keeps_its_name_and_its_target_is_not_created(
        self, root: Path, note: Path
    ) -> None:
        (root / ".memories/link.md").symlink_to("../docs.md")
        link = NotePath(".memories/link.md")
        assert read_text_file(parse_scope(str(root)), link) is None
        with pytest.raises(AlreadyExists):
            put(root, b"x", was=None, path=link)
        with pytest.raises(AlreadyExists):
            rename_path(parse_scope(str(root)), NOTE, link)
        assert list_all(root) == [".memories", ".memories/a.md", ".memories/link.md"]

    def test_an_allowed_folder_outside_the_workspace_is_read_and_not_written(
        self, root: Path, tmp_path: Path
    ) -> None:
        shared = Path(os.path.realpath(tmp_path)) / "shared"
        shared.mkdir()
        (shared / "a.md").write_text("shared")
        (root / ".memories/team").symlink_to(shared)
        scope = parse_scope(str(root), allow_links_to=[str(shared)])
        path = NotePath(".memories/team/a.md")
        file = read_text_file(scope, path)
        assert file is not None
        assert (file.data, file.path) == (b"shared", path)
        for was, target in ((file, path), (None, NotePath(".memories/team/new.md"))):
            with pytest.raises(PathRefused, match="read only"):
                put_text_file(scope, target, b"x", was=was)
        assert list_all(shared) == ["a.md"]

    def test_a_link_with_another_target_than_when_it_was_read_is_a_conflict(
        self, root: Path
    ) -> None:
        for name in ("one.md", "two.md"):
            (root / name).write_text("same")
        (root / ".memories/link.md").symlink_to("../one.md")
        was = read(root, NotePath(".memories/link.md"))
        (root / ".memories/link.md").unlink()
        (root / ".memories/link.md").symlink_to("../two.md")
        with pytest.raises(Conflict):
            put(root, b"new", was=was, path=NotePath(".memories/link.md"))
        assert (root / "two.md").read_text() == "same"

    def test_a_folder_that_is_swapped_for_a_link_during_writes_never_leads_out(
        self, root: Path, tmp_path: Path
    ) -> None:
        outside = tmp_path / "out"
        outside.mkdir()
        (outside / "a.md").write_text("outside")
        (root / ".memories/in").mkdir()
        (root / ".memories/in/a.md").write_text("inside")
        (root / "link").symlink_to(outside)
        seen = set()
        with swapping(root / ".memories/in", root / "link", root / "kept"):
            for number in range(100):
                with contextlib.suppress(MemsyncdError):
                    file = read_text_file(parse_scope(str(root)), NotePath(".memories/in/a.md"))
                    if file is not None:
                        seen.add(file.data[:6])
                        put(
                            root,
                            b"inside %d" % number,
                            was=file,
                            path=NotePath(".memories/in/a.md"),
                        )
                with contextlib.suppress(MemsyncdError):
                    put(root, b"inside", was=None, path=NotePath(f".memories/in/{number}/b.md"))
                with contextlib.suppress(MemsyncdError):
                    rename_path(
                        parse_scope(str(root)),
                        NotePath(".memories/in/a.md"),
                        NotePath(f".memories/in/{number}.md"),
                    )
                    rename_path(
                        parse_scope(str(root)),
                        NotePath(f".memories/in/{number}.md"),
                        NotePath(".memories/in/a.md"),
                    )
        assert seen <= {b"inside"}
        assert [(place.name, place.read_text()) for place in outside.rglob("*")] == [
            ("a.md", "outside")
        ]


@contextlib.contextmanager
def swapping(folder: Path, link: Path, kept: Path) -> Iterator[None]:
    """Exchange a folder and a link thousands of times."""
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for old, new in ((folder, kept), (link, folder), (folder, link), (kept, folder)):
                with contextlib.suppress(OSError):
                    old.rename(new)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        stop.set()
        swapper.join()


# --- other programs -----------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
class TestOtherPrograms:
    @pytest.mark.parametrize("theirs", [b"theirs\n", b"OLD\n", b"", b"old\nand more\n"])
    def test_a_note_that_was_changed_since_it_was_read_is_not_replaced(
        self, root: Path, note: Path, theirs: bytes
    ) -> None:
        was = read(root)
        note.write_bytes(theirs)
        os.utime(note, ns=(was.stat.mtime_ns, was.stat.mtime_ns))
        with pytest.raises(Conflict):
            put(root, b"new", was=was)
        assert note.read_bytes() == theirs
        assert list_all(root) == [".memories", ".memories/a.md"]

    def test_a_note_that_was_saved_again_with_the_same_bytes_is_not_a_conflict(
        self, root: Path, note: Path
    ) -> None:
        was = read(root)
        note.unlink()
        note.write_bytes(was.data)
        put(root, b"new", was=was)
        assert note.read_bytes() == b"new"

    def test_a_note_or_folder_that_was_deleted_since_is_not_created_again(
        self, root: Path, note: Path
    ) -> None:
        was = read(root)
        note.unlink()
        with pytest.raises(Conflict):
            put(root, b"new", was=was)
        (root / ".memories").rmdir()
        with pytest.raises(Conflict):
            put(root, b"new", was=was)
        assert list_all(root) == []

    def test_a_folder_moved_away_while_a_note_is_replaced_takes_the_old_note_along(
        self, root: Path, note: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before(monkeypatch, "exchange", lambda: (root / ".memories").rename(root / "away"))
        with pytest.raises(Conflict):
            put_over(root, b"new")
        assert list_all(root) == ["away", "away/a.md"]
        assert (root / "away/a.md").read_bytes() == b"old\n"

    def test_a_folder_moved_away_while_a_note_is_created_takes_no_file_along(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (root / ".memories/b").mkdir()
        before(
            monkeypatch, "rename_noreplace", lambda: (root / ".memories/b").rename(root / "away")
        )
        with pytest.raises(Conflict):
            put(root, b"new", was=None, path=NotePath(".memories/b/c.md"))
        assert list_all(root) == [".memories", "away"]

    def test_a_file_that_another_program_creates_just_before_the_rename_is_not_replaced(
        self, root: Path, note: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        note.unlink()
        before(monkeypatch, "rename_noreplace", lambda: note.write_bytes(b"theirs"))
        with pytest.raises(AlreadyExists):
            put(root, b"new", was=None)
        assert note.read_bytes() == b"theirs"
        assert list_all(root) == [".memories", ".memories/a.md"]


def replace(note: Path, data: bytes) -> None:
    temporary = note.with_name("theirs.tmp")
    temporary.write_bytes(data)
    temporary.rename(note)


@pytest.mark.usefixtures("exchanging")
def test_a_save_just_before_the_exchange_is_restored(
    root: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions: list[Callable[[], object]] = [
        lambda: replace(note, b"theirs"),
        lambda: note.write_bytes(b"theirs"),
        lambda: (note.unlink(), os.mkfifo(note)),
        lambda: (note.unlink(), note.symlink_to("/etc/passwd")),
        lambda: (note.unlink(), note.mkdir(), (note / "x").write_text("theirs")),
    ]
    for action in actions:
        with monkeypatch.context() as patch:
            before(patch, "exchange", action)
            with pytest.raises(Conflict):
                put_over(root, b"new")
        assert [name for name in list_all(root) if "tmp" in name] == []
        is_file = note.is_file() and not note.is_symlink()
        assert (
            note.read_bytes() == b"theirs"
            if is_file
            else note.is_symlink() or note.is_fifo() or list_all(note) == ["x"]
        )
        subprocess.run(["rm", "-rf", note], check=True)
        note.write_bytes(b"old\n")


@pytest.mark.usefixtures("exchanging")
def test_after_two_saves_around_the_exchange_the_last_is_in_place_and_the_first_is_recorded(
    root: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = []

    def keep(path: NotePath, data: bytes) -> bool:
        recorded.append((path, data))
        return True

    before(monkeypatch, "exchange", lambda: replace(note, b"first"))
    before(monkeypatch, "exchange_back", lambda: replace(note, b"second"))
    with pytest.raises(Conflict):
        put(root, b"new", was=read(root), keep=keep)
    assert note.read_bytes() == b"second"
    assert (NOTE, b"first") in recorded
    assert list_all(root) == [".memories", ".memories/a.md"]


@pytest.mark.usefixtures("exchanging")
def test_without_a_history_two_saves_around_the_exchange_both_stay_on_the_disk(
    root: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, "exchange", lambda: replace(note, b"first"))
    before(monkeypatch, "exchange_back", lambda: replace(note, b"second"))
    with pytest.raises(Conflict):
        put_over(root, b"new")
    assert note.read_bytes() == b"second"
    (copy,) = (root / ".memories").glob("a_conflict-*.md")
    assert copy.read_bytes() == b"first"
    assert [problem.code for problem in scan(parse_scope(str(root))).problems] == ["sync_conflict"]


@pytest.mark.usefixtures("exchanging")
def test_a_rename_of_the_new_note_just_after_the_exchange_leaves_the_save_before_it_in_place(
    root: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, "exchange", lambda: replace(note, b"first"))
    before(monkeypatch, "exchange_back", lambda: note.rename(root / "taken"))
    with pytest.raises(Conflict):
        put_over(root, b"new")
    assert (note.read_bytes(), (root / "taken").read_bytes()) == (b"first", b"new")


@pytest.mark.life
@pytest.mark.usefixtures("exchanging")
@pytest.mark.parametrize("has_history", [True, False])
def test_nothing_is_lost_while_another_program_keeps_replacing_the_note(
    root: Path, note: Path, has_history: bool
) -> None:
    """In the end each version is recorded, on the disk, or known to the program that displaced it.

    The other program learns which text it displaces, because it exchanges names too.
    """
    safe, written = set(), {b"old\n"}
    stop = threading.Event()

    def keep(_path: NotePath, data: bytes) -> bool:
        if has_history:
            safe.add(data)
        return has_history

    def replace_often() -> None:
        folder = os.open(root / ".memories", os.O_RDONLY)
        theirs = root / ".memories/theirs.tmp"
        for number in range(100_000):
            if stop.is_set():
                break
            theirs.write_bytes(b"theirs %d" % number)
            with contextlib.suppress(FileNotFoundError):
                write.exchange(folder, "theirs.tmp", "a.md")
                written.add(b"theirs %d" % number)
                safe.add(theirs.read_bytes())
            time.sleep(0.0002 * (number % 7))
        os.close(folder)

    other = threading.Thread(target=replace_often)
    other.start()
    n_done = 0
    try:
        for number in range(2000):
            if n_done == 100:
                break
            was = read(root)
            with contextlib.suppress(Conflict):
                put(root, b"ours %d" % number, was=was, keep=keep)
                written.add(b"ours %d" % number)
                safe.add(was.data)
                n_done += 1
    finally:
        stop.set()
        other.join()
    copies = {place.read_bytes() for place in (root / ".memories").glob("a_*.md")}
    assert n_done > 0
    assert written <= safe | copies | {note.read_bytes()}


# --- displaced files ----------------------------------------------------------------------------


@pytest.fixture
def folder(root: Path) -> Iterator[OpenFolder]:
    with open_folder(str(root), "") as opened:
        yield opened


def test_a_file_has_exactly_its_content(root: Path, folder: OpenFolder) -> None:
    (root / "a").write_bytes(b"text")
    assert has_content(folder.fd, "a", b"text")
    assert not any(has_content(folder.fd, "a", data) for data in (b"", b"tex", b"text\n", b"teXt"))


def test_a_file_that_is_not_regular_or_not_readable_has_no_content(
    root: Path, folder: OpenFolder
) -> None:
    (root / "real").write_bytes(b"")
    (root / "link").symlink_to("real")
    os.mkfifo(root / "fifo")
    names = ("gone", "link", "fifo", ".memories", "real/x")
    assert not any(has_content(folder.fd, name, b"") for name in names)


def test_a_file_is_removed_only_if_it_has_the_given_content(root: Path, folder: OpenFolder) -> None:
    (root / "a").write_bytes(b"text")
    assert not remove_if(folder, "a", b"other", keep_nothing)
    assert (root / "a").read_bytes() == b"text"
    assert remove_if(folder, "a", b"text", keep_nothing)
    assert os.listdir(root) == [".memories"]


def test_a_displaced_file_gets_its_name_back_or_a_name_beside_it(
    root: Path, folder: OpenFolder
) -> None:
    for number in range(3):
        (root / f"aside{number}").write_text(str(number))
        restore(folder.fd, f"aside{number}", "a.md")
    assert (root / "a.md").read_text() == "0"
    copies = [place for place in root.iterdir() if is_conflict_copy(place.name)]
    assert sorted(copy.read_text() for copy in copies) == ["1", "2"]


def test_a_displaced_file_whose_text_is_recorded_leaves_no_copy(
    root: Path, folder: OpenFolder
) -> None:
    for name in ("aside", "a.md"):
        (root / name).write_text(name)
    restore(folder.fd, "aside", "a.md", is_recorded=True)
    assert sorted(os.listdir(root)) == [".memories", "a.md"]
    assert (root / "a.md").read_text() == "a.md"


@given(
    stem=st.text(
        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=255
    )
)
@pytest.mark.parametrize("suffix", ["", ".md", ".markdown"])
def test_the_name_of_a_copy_fits_is_recognized_and_keeps_its_suffix(stem: str, suffix: str) -> None:
    copy = make_copy_name(stem.replace(".", "_") + suffix)
    assert len(copy.encode()) <= 255
    assert is_conflict_copy(copy)
    assert re.search(rf"_conflict-\d{{8}}{re.escape(suffix)}$", copy)


# --- refusals of the system ---------------------------------------------------------------------


def test_a_folder_without_write_permission_is_unwritable_and_nothing_changes(
    plain_root: Path,
) -> None:
    (plain_root / NOTE.text).write_bytes(b"old\n")
    was = read(plain_root)
    (plain_root / ".memories").chmod(0o500)
    for path, read_before in (
        (NOTE, was),
        (NotePath(".memories/new.md"), None),
        (NotePath(".memories/b/c.md"), None),
    ):
        with pytest.raises(Unwritable, match="denied"):
            put(plain_root, b"new", was=read_before, path=path)
    assert list_all(plain_root) == [".memories", ".memories/a.md"]
    assert read(plain_root).data == b"old\n"


@pytest.mark.usefixtures("way")
def test_a_full_disk_is_reported_and_leaves_notes_whole_and_nothing_else(small_disk: Path) -> None:
    (small_disk / NOTE.text).write_bytes(b"old\n")
    seen = list_all(small_disk)
    for path, was in ((NOTE, read(small_disk)), (NotePath(".memories/b/c/d.md"), None)):
        with pytest.raises(StoreFull, match="disk is full"):
            put(small_disk, b"x" * 100_000, was=was, path=path)
        assert list_all(small_disk) == seen
    assert read(small_disk).data == b"old\n"
    put_over(small_disk, b"x" * 1000)
    assert read(small_disk).data == b"x" * 1000


def test_a_disk_without_free_inodes_is_full_too(small_disk: Path) -> None:
    n_put = 0
    with contextlib.suppress(StoreFull):
        for n_put in range(30):
            put(small_disk, b"", was=None, path=NotePath(f".memories/{n_put}/deep/a.md"))
    assert 1 < n_put < 20
    assert not [name for name in list_all(small_disk) if "memsyncd" in name]
    folders = [
        place
        for place in (small_disk / ".memories").iterdir()
        if not (place / "deep/a.md").exists()
    ]
    assert folders == []


def test_a_disk_that_is_mounted_read_only_is_unwritable(small_disk: Path) -> None:
    (small_disk / NOTE.text).write_bytes(b"old\n")
    was = read(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(Unwritable, match="Read-only"):
        put(small_disk, b"new", was=was)


# --- a killed process ---------------------------------------------------------------------------

WRITER = """
import sys
from memsyncd.core.paths import NotePath
from memsyncd.files.scope import parse_scope
from memsyncd.files.read import read_text_file
from memsyncd.files.write import put_text_file
scope, path = parse_scope(sys.argv[1], max_file_bytes=1 << 21), NotePath(".memories/a.md")
print("ready", flush=True)
for number in range(1_000_000):
    put_text_file(scope, path, str(number % 10).encode() * 50_000, was=read_text_file(scope, path))
"""


def test_a_note_is_whole_whenever_the_writer_is_killed_and_its_temporary_files_are_removed(
    root: Path, note: Path
) -> None:
    for number in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(0.02 + 0.0077 * number)
            writer.kill()
        data = note.read_bytes()
        assert data == b"old\n" or (len(data) == 50_000 and len(set(data)) == 1)
        assert not scan(parse_scope(str(root))).problems
        remove_temporary_files(
            parse_scope(str(root)),
            NotePath(".memories/a.md"),
            [b"old\n", *(b"%d" % n * 50_000 for n in range(10))],
        )
        assert list_all(root) == [".memories", ".memories/a.md"]
