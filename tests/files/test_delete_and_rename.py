"""Files and folders are deleted and renamed only if they are unchanged, and all or nothing."""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memsyncd.core.paths import NotePath
from memsyncd.errors import AlreadyExists, Conflict, PathRefused, Unwritable
from memsyncd.files import write
from memsyncd.files.listing import find_files
from memsyncd.files.read import TextFile, read_text_file
from memsyncd.files.write import delete_path, remove_temporary_files, rename_path
from tests.files.conftest import before, parse_scope

NOTE = NotePath(".memories/a/one.md")
FOLDER = NotePath(".memories/a")


def read_all(root: Path, path: NotePath) -> dict[NotePath, TextFile]:
    scope = parse_scope(str(root))
    paths = [path] if (root / path.text).is_file() else find_files(scope, path)
    files = {path_inside: read_text_file(scope, path_inside) for path_inside in paths}
    return {path_inside: file for path_inside, file in files.items() if file is not None}


def delete(root: Path, path: NotePath, was: dict[NotePath, TextFile] | None = None) -> None:
    delete_path(parse_scope(str(root)), path, was=read_all(root, path) if was is None else was)


def rename(root: Path, old: str, new: str) -> None:
    rename_path(parse_scope(str(root)), NotePath(old), NotePath(new))


def list_all(root: Path) -> list[str]:
    return sorted(str(place.relative_to(root)) for place in root.rglob("*"))


@pytest.fixture
def tree(root: Path) -> Path:
    """A workspace with two notes in a folder, the second in a subfolder, and a note beside it."""
    for path in (".memories/a/one.md", ".memories/a/b/two.json", ".memories/three.md"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    return root


TREE = [
    ".memories",
    ".memories/a",
    ".memories/a/b",
    ".memories/a/b/two.json",
    ".memories/a/one.md",
    ".memories/three.md",
]


@pytest.mark.usefixtures("way")
class TestDeleting:
    def test_a_file_is_deleted_and_its_folder_stays(self, tree: Path) -> None:
        delete(tree, NOTE)
        assert list_all(tree) == [path for path in TREE if path != NOTE.text]

    def test_a_folder_is_deleted_with_its_content(self, tree: Path) -> None:
        (tree / ".memories/a/empty/er").mkdir(parents=True)
        delete(tree, FOLDER)
        assert list_all(tree) == [".memories", ".memories/three.md"]

    def test_memories_itself_may_be_deleted(self, tree: Path) -> None:
        delete(tree, NotePath(".memories"))
        assert list_all(tree) == []

    def test_a_file_that_was_changed_replaced_or_deleted_since_is_a_conflict(
        self, tree: Path
    ) -> None:
        was = read_all(tree, NOTE)
        (tree / NOTE.text).write_text("theirs")
        with pytest.raises(Conflict):
            delete(tree, NOTE, was)
        assert list_all(tree) == TREE
        (tree / NOTE.text).unlink()
        with pytest.raises(Conflict):
            delete(tree, NOTE, was)
        with pytest.raises(Conflict):
            delete(tree, NotePath(".memories/three.md"), {})
        os.mkfifo(tree / NOTE.text)
        with pytest.raises(Conflict):
            delete(tree, NOTE, was)
        assert list_all(tree) == TREE

    @pytest.mark.parametrize(
        "name", ["new.md", ".hidden", "b/.git/config", "link.md", "fifo", "b/x\udcff.md"]
    )
    def test_a_folder_that_holds_an_unknown_file_stays_whole_and_the_file_is_named(
        self, tree: Path, name: str
    ) -> None:
        was = read_all(tree, FOLDER)
        place = tree / FOLDER.text / name
        place.parent.mkdir(exist_ok=True)
        if name == "fifo":
            os.mkfifo(place)
        elif name == "link.md":
            place.symlink_to("one.md")
        else:
            place.write_text("theirs")
        seen = list_all(tree)
        with pytest.raises(Conflict) as caught:
            delete(tree, FOLDER, was)
        assert name.replace("\udcff", "\ufffd") in caught.value.message
        assert caught.value.message.encode()
        assert list_all(tree) == seen

    def test_a_folder_in_which_a_note_was_changed_or_deleted_since_stays_whole(
        self, tree: Path
    ) -> None:
        was = read_all(tree, FOLDER)
        (tree / ".memories/a/b/two.json").write_text("theirs")
        with pytest.raises(Conflict, match=r"two\.json"):
            delete(tree, FOLDER, was)
        assert list_all(tree) == TREE
        (tree / ".memories/a/b/two.json").unlink()
        with pytest.raises(Conflict, match=r"two\.json"):
            delete(tree, FOLDER, was)
        assert (tree / NOTE.text).exists()

    @pytest.mark.parametrize("path", [NOTE, FOLDER])
    def test_a_read_only_file_is_not_deleted(self, tree: Path, path: NotePath) -> None:
        (tree / NOTE.text).chmod(0o444)
        with pytest.raises(Unwritable, match=r"one\.md is read-only"):
            delete(tree, path)
        assert list_all(tree) == TREE

    def test_neither_a_link_nor_its_target_is_deleted(self, tree: Path) -> None:
        (tree / "real.md").write_text("x")
        (tree / ".memories/link.md").symlink_to("../real.md")
        (tree / ".memories/folder").symlink_to("a")
        for name in ("link.md", "folder"):
            with pytest.raises(PathRefused, match="link"):
                delete(tree, NotePath(f".memories/{name}"))
        assert (tree / "real.md").exists()
        assert list_all(tree / ".memories/a") == ["b", "b/two.json", "one.md"]

    def test_temporary_files_of_a_killed_process_do_not_keep_a_folder(self, tree: Path) -> None:
        (tree / ".memories/a/.memsyncd-0123456789abcdef.tmp").write_text("x")
        delete(tree, FOLDER)
        assert not (tree / FOLDER.text).exists()

    @pytest.mark.parametrize("path", [NOTE, FOLDER])
    def test_a_save_just_before_the_deletion_is_kept(
        self, tree: Path, path: NotePath, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        function = "remove_if" if path == NOTE else "move_aside"
        before(monkeypatch, function, lambda: (tree / NOTE.text).write_text("theirs"))
        with pytest.raises(Conflict):
            delete(tree, path)
        assert list_all(tree) == TREE
        assert (tree / NOTE.text).read_text() == "theirs"

    @pytest.mark.parametrize("path", [NOTE, FOLDER])
    def test_nothing_is_deleted_from_a_folder_that_is_moved_away_meanwhile(
        self, tree: Path, path: NotePath, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        function = "remove_if" if path == NOTE else "move_aside"
        before(monkeypatch, function, lambda: (tree / ".memories").rename(tree / "away"))
        with pytest.raises(Conflict):
            delete(tree, path)
        assert list_all(tree) == [name.replace(".memories", "away") for name in TREE]

    def test_a_file_created_in_a_folder_while_it_is_emptied_keeps_its_path(
        self, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inside = os.open(tree / ".memories/a/b", os.O_RDONLY)

        def put_down() -> None:
            os.close(os.open("theirs.md", os.O_CREAT | os.O_WRONLY, dir_fd=inside))

        before(monkeypatch, "remove_tree", put_down)
        delete(tree, FOLDER)
        os.close(inside)
        assert list_all(tree) == [
            ".memories",
            ".memories/a",
            ".memories/a/b",
            ".memories/a/b/theirs.md",
            ".memories/three.md",
        ]

    def test_no_descriptor_is_left_open(self, tree: Path) -> None:
        n_before = len(os.listdir("/dev/fd"))
        was = read_all(tree, FOLDER)
        (tree / ".memories/a/new.md").write_text("x")
        with pytest.raises(Conflict):
            delete(tree, FOLDER, was)
        delete(tree, FOLDER)
        assert len(os.listdir("/dev/fd")) == n_before


def test_a_rename_to_another_disk_is_refused_as_such(small_disk: Path) -> None:
    (small_disk.parent / "note.md").write_text("x")
    scope = parse_scope(str(small_disk.parent), include=["**"], memory_dir=".")
    with pytest.raises(PathRefused, match="on another disk"):
        rename_path(scope, NotePath("note.md"), NotePath("small/note.md"))
    assert (small_disk.parent / "note.md").read_text() == "x"


def test_a_deep_folder_is_deleted_without_recursion(root: Path) -> None:
    """The recursion limit is lowered, so that 300 folders exceed it."""
    deep = NotePath(".memories/" + "/".join("d" * 300) + "/a.md")
    at = os.open(root / ".memories", os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=at)
        deeper = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(os.open("a.md", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=at))
    os.close(at)
    recursion_limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 200)
        assert find_files(parse_scope(str(root)), NotePath(".memories/d")) == [deep]
        delete(root, NotePath(".memories/d"))
        assert os.listdir(root / ".memories") == []
    finally:
        sys.setrecursionlimit(recursion_limit)
        subprocess.run(["rm", "-rf", root / ".memories"], check=True)  # pytest removes recursively


@pytest.mark.parametrize(
    "locked", [".memories", ".memories/a", ".memories/a/b", ".memories/a/empty"]
)
def test_a_folder_with_a_part_that_may_not_be_changed_stays_whole(
    plain_root: Path, locked: str
) -> None:
    (plain_root / ".memories/a/b").mkdir(parents=True)
    (plain_root / ".memories/a/empty").mkdir()
    (plain_root / ".memories/a/b/one.md").write_text("x")
    (plain_root / ".memories/a/two.md").write_text("x")
    seen = list_all(plain_root)
    (plain_root / locked).chmod(0o500)
    with pytest.raises(Unwritable):
        delete(plain_root, FOLDER)
    assert list_all(plain_root) == seen


def test_notes_can_be_deleted_on_a_full_disk(small_disk: Path) -> None:
    (small_disk / ".memories/a").mkdir()
    for path in (".memories/a/one.md", ".memories/two.md"):
        (small_disk / path).write_text("x")
    with contextlib.suppress(OSError), open(small_disk / "large", "wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    delete(small_disk, FOLDER)
    delete(small_disk, NotePath(".memories/two.md"))
    assert list_all(small_disk) == [".memories", "large"]


@pytest.mark.usefixtures("way")
class TestRenaming:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (".memories/a/one.md", ".memories/a/uno.md"),
            (".memories/a/one.md", ".memories/x/y/one.xml"),
            (".memories/a/one.md", "MEMORY.md"),
            (".memories/a", ".memories/z"),
            (".memories/a", ".memories/x/y"),
            (".memories/a/b", ".memories/b"),
            (".memories/three.md", ".memories/three.md.md"),
        ],
    )
    def test_files_and_folders_are_renamed(self, tree: Path, old: str, new: str) -> None:
        content = list_all(tree / old)
        text = (tree / old).read_text() if not content else ""
        rename(tree, old, new)
        assert not (tree / old).exists()
        assert list_all(tree / new) == content
        assert not text or (tree / new).read_text() == text

    def test_a_rename_replaces_nothing(self, tree: Path) -> None:
        (tree / ".memories/empty").mkdir()
        (tree / ".memories/link.md").symlink_to("nowhere/at/all.md")
        seen = list_all(tree)
        for old in (".memories/a", ".memories/three.md"):
            for new in (
                ".memories/empty",
                ".memories/a/one.md",
                ".memories/a/b",
                ".memories/three.md",
            ):
                with pytest.raises((AlreadyExists, PathRefused)):
                    rename(tree, old, new)
        assert list_all(tree) == seen

    def test_an_impossible_rename_is_refused_and_changes_nothing(self, tree: Path) -> None:
        os.mkfifo(tree / ".memories/fifo")
        (tree / ".memories/link.md").symlink_to("three.md")
        seen = list_all(tree)
        for old, new in (
            (".memories/a", ".memories/a/b/c"),
            (".memories/a", ".memories/a"),
            (".memories", ".memories/x"),
            (".memories", "MEMORY.md"),
            (".memories/a", "MEMORY.md"),
            (".memories/a", "docs"),
            (".memories/a/one.md", "README.md"),
            (".memories/fifo", ".memories/x"),
            (".memories/link.md", ".memories/x.md"),
            (".memories/three.md", ".memories"),
            (".memories/three.md", ".memories/a/one.md/x.md"),
        ):
            with pytest.raises(PathRefused):
                rename(tree, old, new)
            assert list_all(tree) == seen, (old, new)

    def test_the_rename_of_a_missing_file_is_a_conflict_and_creates_no_folder(
        self, tree: Path
    ) -> None:
        with pytest.raises(Conflict):
            rename(tree, ".memories/gone.md", ".memories/x/y.md")
        assert list_all(tree) == TREE

    def test_no_note_takes_the_name_of_an_evicted_one(self, tree: Path) -> None:
        (tree / ".memories" / ".new.md.icloud").write_bytes(b"plist")
        with pytest.raises(AlreadyExists, match="iCloud"):
            rename(tree, ".memories/three.md", ".memories/new.md")
        assert (tree / ".memories/three.md").exists()

    def test_another_note_whose_name_differs_in_case_alone_stays_even_if_it_is_the_same_file(
        self, tree: Path
    ) -> None:
        os.link(tree / ".memories/three.md", tree / ".memories/THREE.md")
        with pytest.raises(AlreadyExists):
            rename(tree, ".memories/three.md", ".memories/THREE.md")
        assert (tree / ".memories/three.md").exists()

    def test_a_folder_that_is_moved_away_during_a_rename_takes_no_file_along(
        self, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tree / ".memories/to").mkdir()
        before(
            monkeypatch, "rename_noreplace", lambda: (tree / ".memories/to").rename(tree / "away")
        )
        with pytest.raises(Conflict):
            rename(tree, ".memories/three.md", ".memories/to/three.md")
        assert list_all(tree) == [*TREE, "away"]

    def test_a_file_created_just_before_the_rename_is_not_replaced(
        self, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before(
            monkeypatch,
            "rename_noreplace",
            lambda: (tree / ".memories/new.md").write_text("theirs"),
        )
        with pytest.raises(AlreadyExists):
            rename(tree, ".memories/three.md", ".memories/new.md")
        assert (tree / ".memories/new.md").read_text() == "theirs"
        assert (tree / ".memories/three.md").read_text() == ".memories/three.md"


def test_nothing_is_renamed_out_of_or_into_a_read_only_folder(plain_root: Path) -> None:
    for name in ("a", "b"):
        (plain_root / f".memories/{name}").mkdir()
        (plain_root / f".memories/{name}/{name}.md").write_text(name)
    (plain_root / ".memories/a").chmod(0o500)
    for old, new in (
        (".memories/a/a.md", ".memories/b/x.md"),
        (".memories/b/b.md", ".memories/a/x.md"),
    ):
        with pytest.raises(Unwritable):
            rename(plain_root, old, new)
    assert list_all(plain_root) == [
        ".memories",
        ".memories/a",
        ".memories/a/a.md",
        ".memories/b",
        ".memories/b/b.md",
    ]


DELETER = """
import sys
from memsyncd.core.paths import NotePath
from memsyncd.files.scope import parse_scope
from memsyncd.files.listing import find_files
from memsyncd.files.read import read_text_file
from memsyncd.files.write import delete_path, put_text_file
scope, folder = parse_scope(sys.argv[1], max_file_bytes=1 << 21), NotePath(".memories/a")
for number in range(20):
    put_text_file(scope, NotePath(f".memories/a/b/{number}.md"), b"x", was=None)
was = {path: read_text_file(scope, path) for path in find_files(scope, folder)}
print("full", flush=True)
delete_path(scope, folder, was=was)
print("gone", flush=True)
sys.stdin.read()
"""


def test_a_folder_is_deleted_all_or_nothing_whenever_the_process_is_killed(
    root: Path,
) -> None:
    scope = parse_scope(str(root))
    for number in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", DELETER, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as deleter:
            assert deleter.stdout is not None
            assert deleter.stdout.readline() == b"full\n"
            time.sleep(0.001 * number)
            deleter.kill()
            has_finished = deleter.stdout.read() == b"gone\n"
        n_left = len(find_files(scope, FOLDER))
        assert n_left == 0 if has_finished else n_left in (0, 20)
        remove_temporary_files(scope, FOLDER, [b"x"])
        assert not [name for name in list_all(root) if "memsyncd" in name]
        subprocess.run(["rm", "-rf", root / ".memories/a"], check=True)


# --- read-only notes ------------------------------------------------------------------------------


def test_a_read_only_note_is_neither_replaced_deleted_nor_renamed_by_any_path(root: Path) -> None:
    (root / "rules").mkdir()
    for path in ("AGENTS.md", "rules/one.md"):
        (root / path).write_text(path)
    (root / ".memories" / "link.md").symlink_to(root / "AGENTS.md")
    options = {"read_only": ["AGENTS.md", "rules/*.md"], "include": ["rules/**"]}
    scope = parse_scope(str(root), **options)

    def read(path: str) -> TextFile:
        file = read_text_file(scope, NotePath(path))
        assert file is not None
        return file

    agents, rules, rule = NotePath("AGENTS.md"), NotePath("rules"), NotePath("rules/one.md")
    linked = read(".memories/link.md")
    for attempt in (
        lambda: write.put_text_file(scope, agents, b"x", was=read("AGENTS.md")),
        lambda: write.put_text_file(scope, linked.path, b"x", was=linked),
        lambda: delete_path(scope, agents, was={agents: read("AGENTS.md")}),
        lambda: delete_path(scope, rules, was={rule: read("rules/one.md")}),
        lambda: rename_path(scope, agents, NotePath(".memories/x.md")),
        lambda: rename_path(scope, rules, NotePath(".memories/rules")),
        lambda: rename_path(scope, NotePath(".memories/link.md"), agents),
    ):
        with pytest.raises(PathRefused):
            attempt()
    assert (root / "AGENTS.md").read_text() == "AGENTS.md"
    assert (root / "rules/one.md").read_text() == "rules/one.md"
