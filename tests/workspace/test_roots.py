from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.errors import BadRequest, Unsafe
from memsyncd.workspace.roots import (
    find_identity,
    find_nearest_root,
    find_owner,
    find_root_refusal,
    has_memory,
    name_root,
)


def test_a_root_is_the_real_path_however_it_is_reached(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    assert name_root(str(root.parent / "link")) == name_root(f"{root}/") == name_root(f"{root}/.memories/..")
    assert name_root(str(root)).path == str(root)


def test_an_id_depends_on_the_path_alone_and_the_name_is_the_folders_unless_given(root: Path) -> None:
    plain, named = name_root(str(root)), name_root(str(root), name="My Work")
    assert plain.id == named.id
    assert (plain.name, named.name) == ("workspace", "My Work")
    assert name_root(str(root.parent)).id != plain.id


@pytest.mark.parametrize(
    ("folder", "slug"),
    [
        ("My Project", "my-project"),
        ("caf\u00e9", "cafe"),
        ("笔记", "workspace"),
        ("../etc", "etc"),
        ("x" * 99, "x" * 40),
    ],
)
def test_an_id_is_fit_to_be_a_folders_name_whatever_the_root_is_called(folder: str, slug: str) -> None:
    found = name_root(f"/nowhere/{folder}").id
    assert found.startswith(f"{slug}-")
    assert len(found) == len(slug) + 9


@given(st.text())
def test_any_name_makes_an_id_of_plain_letters_digits_and_dashes(name: str) -> None:
    text = name_root("/nowhere/" + name.replace("\0", "")).id
    assert text.isascii()
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_the_root_of_all_the_home_folder_and_those_above_it_are_refused(tmp_path: Path) -> None:
    home = tmp_path / "users/me"
    home.mkdir(parents=True)
    (home / "project").mkdir()
    for path in ("/", str(home), str(home.parent), str(tmp_path)):
        assert isinstance(find_root_refusal(os.path.realpath(path), home=str(home), uid=os.geteuid()), BadRequest)
    assert find_root_refusal(os.path.realpath(home / "project"), home=str(home), uid=os.geteuid()) is None
    assert find_root_refusal(os.path.realpath(tmp_path / "users"), home="/nowhere", uid=os.geteuid()) is None


def test_a_file_nothing_and_another_users_folder_are_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in ("file", "gone"):
        refusal = find_root_refusal(str(tmp_path / path), home="/nowhere", uid=os.geteuid())
        assert isinstance(refusal, BadRequest)
        assert refusal.hint
    assert isinstance(find_root_refusal(str(tmp_path), home="/nowhere", uid=os.geteuid() + 1), Unsafe)


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


def test_a_path_that_does_not_exist_yet_and_one_through_a_link_have_an_owner(root: Path) -> None:
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


def test_a_root_that_no_answer_could_name_is_refused(root: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(root) + b"/odd\xff"))
    odd.mkdir()
    (root / "link").symlink_to(odd)
    for path in (odd, root / "link"):
        with pytest.raises(BadRequest) as failure:
            name_root(str(path))
        assert failure.value.hint
