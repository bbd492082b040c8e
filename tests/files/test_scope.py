from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.errors import BadRequest, Unsafe
from memsyncd.files.scope import (
    find_identity,
    find_nearest_root,
    find_owner,
    find_root_refusal,
    has_memory,
    is_leftover,
    make_root,
    show_name,
)

# --- file names ---------------------------------------------------------------------------------


def test_temporary_files_of_tools_are_leftovers() -> None:
    for name in (
        "4913", "sedAb12cD", "a.md~", "a.md.swp", ".a.md.swo", "#a.md#", ".#a.md",
        "MEMORY.md.tmp.123.0123456789ab", "a.tmp", "a.vsctmp", "a.md___jb_tmp___",
        "a.md___jb_old___", ".syncthing.a.md.tmp", ".goutputstream-X1", "a.part",
    ):  # fmt: skip
        assert is_leftover(name), name


def test_files_that_a_person_may_have_written_are_not_leftovers() -> None:
    for name in (
        "a.json",
        "notes",
        "a.xml",
        "template.py",
        "sed.txt.bak",
        "49130",
        "swp",
        "tmpfs",
        "a.md.orig",
    ):
        assert not is_leftover(name), name


def test_any_name_can_be_encoded_once_it_is_shown() -> None:
    assert show_name("a\udcffb.md") == "a\ufffdb.md"
    assert show_name("ñ.md") == "ñ.md"


# --- roots --------------------------------------------------------------------------------------


def test_a_root_is_the_real_path_of_any_path_to_it(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    assert (
        make_root(str(root.parent / "link"))
        == make_root(f"{root}/")
        == make_root(f"{root}/.memories/..")
    )
    assert make_root(str(root)).path == str(root)


def test_an_id_depends_on_the_path_alone_and_the_name_is_the_folders(root: Path) -> None:
    plain = make_root(str(root))
    assert plain.name == "workspace"
    assert make_root(str(root.parent)).id != plain.id


def test_an_id_is_a_valid_folder_name_for_any_name_of_the_root() -> None:
    for folder, slug in (
        ("My Project", "my-project"),
        ("caf\u00e9", "cafe"),
        ("笔记", "workspace"),
        ("../etc", "etc"),
        ("x" * 99, "x" * 40),
    ):
        id_ = make_root(f"/nowhere/{folder}").id
        assert id_.startswith(f"{slug}-"), folder
        assert len(id_) == len(slug) + 9, folder


@given(st.text())
def test_an_id_has_only_ascii_letters_digits_and_dashes(name: str) -> None:
    text = make_root("/nowhere/" + name.replace("\0", "")).id
    assert text.isascii()
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_the_file_system_root_the_home_folder_and_folders_above_it_are_refused(
    tmp_path: Path,
) -> None:
    home = tmp_path / "users/me"
    home.mkdir(parents=True)
    (home / "project").mkdir()
    for path in ("/", str(home), str(home.parent), str(tmp_path)):
        assert isinstance(
            find_root_refusal(os.path.realpath(path), home=str(home), uid=os.geteuid()), BadRequest
        )
    assert (
        find_root_refusal(os.path.realpath(home / "project"), home=str(home), uid=os.geteuid())
        is None
    )
    assert (
        find_root_refusal(os.path.realpath(tmp_path / "users"), home="/nowhere", uid=os.geteuid())
        is None
    )


def test_a_file_a_missing_path_and_another_users_folder_are_refused_with_a_hint(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("x")
    for path in ("file", "gone"):
        refusal = find_root_refusal(str(tmp_path / path), home="/nowhere", uid=os.geteuid())
        assert isinstance(refusal, BadRequest)
        assert refusal.hint
    assert isinstance(
        find_root_refusal(str(tmp_path), home="/nowhere", uid=os.geteuid() + 1), Unsafe
    )


@pytest.mark.parametrize("path", ["/proc", "/proc/self/fd", "/sys/kernel", "/dev"])
def test_a_folder_that_the_system_makes_is_no_root(path: str) -> None:
    refusal = find_root_refusal(path, home="/nowhere", uid=0)
    assert isinstance(refusal, BadRequest)
    assert "the system makes" in refusal.message
    assert "disk" in refusal.hint


def test_a_folder_in_shared_memory_or_with_such_a_name_may_be_a_root(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    for path in ("/dev/shm/none", str(tmp_path / "proc")):
        refusal = find_root_refusal(path, home="/nowhere", uid=os.geteuid())
        assert refusal is None or "the system makes" not in refusal.message


def test_memory_is_a_memory_file_or_a_memories_folder(tmp_path: Path) -> None:
    assert not has_memory(str(tmp_path))
    (tmp_path / "a/.memories").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/MEMORY.md").write_text("")
    assert has_memory(str(tmp_path / "a"))
    assert has_memory(str(tmp_path / "b"))


def test_the_nearest_root_above_a_path_owns_it() -> None:
    roots = ["/w", "/w/inner", "/wide"]
    assert find_nearest_root("/w/inner/a.md", roots) == "/w/inner"
    assert find_nearest_root("/w/inner", roots) == "/w/inner"
    assert find_nearest_root("/w/innermost/a.md", roots) == "/w"
    assert find_nearest_root("/elsewhere", roots) is None


def test_a_missing_path_and_one_through_a_link_have_an_owner(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    assert find_owner(f"{root}/new/a.md", [str(root)]) == str(root)
    assert find_owner(str(root.parent / "link/.memories"), [str(root)]) == str(root)
    assert find_owner(str(root.parent), [str(root)]) is None


def test_the_identity_changes_with_the_folder_and_is_none_without_one(root: Path) -> None:
    before = find_identity(str(root))
    root.rename(root.parent / "old")
    assert find_identity(str(root)) is None
    root.mkdir()
    assert find_identity(str(root)) not in (before, None)


def test_a_root_whose_path_is_not_utf8_is_refused(root: Path) -> None:
    unusual = Path(os.fsdecode(os.fsencode(root) + b"/odd\xff"))
    unusual.mkdir()
    (root / "link").symlink_to(unusual)
    for path in (unusual, root / "link"):
        with pytest.raises(BadRequest) as failure:
            make_root(str(path))
        assert failure.value.hint
