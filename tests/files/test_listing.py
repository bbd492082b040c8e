from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.paths import NotePath, find_refusal
from memsyncd.errors import PathRefused, Unwritable
from memsyncd.files.listing import find_files, is_folder, is_plain_entry, list_folder
from memsyncd.files.scope import Scope
from tests.files.conftest import parse_scope


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def show(scope: Scope, path: str | None, *, depth: int = 2) -> list[tuple[str, int]]:
    listing = list_folder(scope, None if path is None else NotePath(path), depth=depth)
    return [(each.path.text + "/" * each.is_folder, each.size_bytes) for each in listing.entries]


def find(scope: Scope, path: str | None) -> list[str]:
    return [file.text for file in find_files(scope, None if path is None else NotePath(path))]


def test_a_listing_has_files_of_any_suffix_to_the_given_depth_and_sizes_of_whole_folders(
    root: Path,
) -> None:
    write(
        root,
        ".memories/a.md",
        ".memories/b/c.xml",
        ".memories/b/d/e",
        ".memories/b/d/f/g.md",
        "MEMORY.md",
    )
    scope = parse_scope(str(root))
    n_bytes = len(".memories/b/c.xml") + len(".memories/b/d/e") + len(".memories/b/d/f/g.md")
    assert show(scope, ".memories", depth=1) == [(".memories/a.md", 14), (".memories/b/", n_bytes)]
    assert [path for path, _ in show(scope, ".memories")] == [
        ".memories/a.md",
        ".memories/b/",
        ".memories/b/c.xml",
        ".memories/b/d/",
    ]
    assert [path for path, _ in show(scope, ".memories/b/d")] == [
        ".memories/b/d/e",
        ".memories/b/d/f/",
        ".memories/b/d/f/g.md",
    ]


@pytest.mark.parametrize("is_measured", [True, False])
def test_a_large_folder_has_only_the_levels_that_are_not_too_large(
    root: Path, is_measured: bool
) -> None:
    texts = [f".memories/{path}" for path in ("b/c/e.md", "b/c/picture.png", "b/d.md", "a.md")]
    write(root, *texts, ".memories/MEMORY.md", "MEMORY.md", ".memories/only/picture.png")
    scope = parse_scope(str(root))
    n_notes = sum(len(path) for path in texts if path.endswith(".md"))

    def measure(folders: Sequence[str]) -> dict[str, int]:
        sizes = {".memories": n_notes, ".memories/b": n_notes - len(texts[-1])}
        sizes[".memories/b/c"] = len(texts[0])
        return {path: sizes[path] for path in folders if path in sizes} if is_measured else {}

    size_c = len(texts[0]) + (0 if is_measured else len(texts[1]))
    expected = [
        (".memories/a.md", len(texts[3])),
        (".memories/b/", size_c + len(texts[2])),
        (".memories/b/c/", size_c),
        (".memories/b/d.md", len(texts[2])),
        (".memories/only/", len(".memories/only/picture.png")),
        (".memories/only/picture.png", len(".memories/only/picture.png")),
        ("MEMORY.md", len("MEMORY.md")),
    ]
    first = [entry for entry in expected if entry[0].strip("/").count("/") < 2]
    for most, entries in ((7, expected), (6, first), (4, first), (3, [*first[:2], first[3]])):
        listing = list_folder(scope, None, depth=2, most=most, measure=measure)
        listed = [
            (each.path.text + "/" * each.is_folder, each.size_bytes) for each in listing.entries
        ]
        assert (listed, listing.is_cut) == (entries, most < 7)
        if most > 3:
            assert listing.size_bytes == sum(size for _, size in first)


def test_all_memory_is_memory_md_and_the_content_of_memories_except_a_memory_md_there(
    root: Path,
) -> None:
    write(root, ".memories/a.md", ".memories/MEMORY.md", "MEMORY.md", "README.md")
    scope = parse_scope(str(root))
    assert show(scope, None) == [(".memories/a.md", 14), ("MEMORY.md", 9)]
    assert find(scope, None) == [".memories/MEMORY.md", ".memories/a.md", "MEMORY.md"]


def test_hidden_excluded_and_special_files_and_names_that_are_not_utf8_are_omitted(
    root: Path,
) -> None:
    write(
        root,
        ".memories/.git/x.md",
        ".memories/.x.md",
        ".memories/drafts/y.md",
        ".memories/node_modules/z/w.md",
    )
    os.mkfifo(root / ".memories/fifo.md")
    Path(os.fsdecode(os.fsencode(root) + b"/.memories/\xff.md")).write_text("x")
    scope = parse_scope(str(root), exclude=["drafts"])
    assert show(scope, ".memories") == []
    assert find(scope, ".memories") == [".memories/node_modules/z/w.md"]


def test_links_to_allowed_targets_are_listed_as_their_targets_and_not_found_as_files(
    root: Path, tmp_path: Path
) -> None:
    write(root, "docs/real.md", ".memories/sub/own.md")
    write(tmp_path, "out/secret.md", "shared/team.md")
    shared = os.path.realpath(tmp_path / "shared")
    for name, target in (
        ("docs", "../docs"),
        ("file.md", "../docs/real.md"),
        ("out", tmp_path / "out"),
        ("out.md", tmp_path / "out/secret.md"),
        ("team", shared),
        ("broken", "nowhere"),
        ("loop", "."),
        ("self", "self"),
    ):
        (root / ".memories" / name).symlink_to(target)
    scope = parse_scope(str(root), allow_links_to=[shared])
    paths = [path for path, _ in show(scope, ".memories", depth=9)]
    assert ".memories/docs/real.md" in paths
    assert ".memories/file.md" in paths
    assert ".memories/team/team.md" in paths
    assert not [
        path
        for path in paths
        if "secret" in path or "broken" in path or "out" in path or "self" in path
    ]
    assert not [path for path in paths if path.startswith(".memories/loop")]
    assert find(scope, ".memories") == [".memories/sub/own.md"]


def test_a_missing_folder_is_empty_and_one_that_leads_out_is_refused(root: Path) -> None:
    scope = parse_scope(str(root))
    (root / ".memories/etc").symlink_to("/etc")
    write(root, ".memories/file.md")
    for path in (".memories/gone", ".memories/file.md", ".memories/file.md/x"):
        assert show(scope, path) == []
        assert find(scope, path) == []
        assert not is_folder(scope, NotePath(path))
    for action in (is_folder, find_files):
        with pytest.raises(PathRefused):
            action(scope, NotePath(".memories/etc"))
    (root / ".memories").rename(root / "away")
    assert show(scope, None) == []


def test_a_link_to_a_folder_of_the_workspace_is_a_folder(root: Path) -> None:
    scope = parse_scope(str(root))
    write(root, "docs/a.md", ".memories/a.md")
    (root / ".memories/docs").symlink_to("../docs")
    os.mkfifo(root / ".memories/fifo")
    is_folder_by_name = {
        name: is_folder(scope, NotePath(f".memories/{name}"))
        for name in ("docs", "a.md", "fifo", "gone")
    }
    assert is_folder_by_name == {"docs": True, "a.md": False, "fifo": False, "gone": False}
    assert is_folder(scope, NotePath(".memories"))


def test_an_unreadable_folder_fails_find_files_and_is_empty_in_a_listing(
    plain_root: Path,
) -> None:
    write(plain_root, ".memories/a/b.md", ".memories/c.md")
    (plain_root / ".memories/a").chmod(0)
    scope = parse_scope(str(plain_root))
    assert show(scope, ".memories") == [(".memories/a/", 0), (".memories/c.md", 14)]
    with pytest.raises(Unwritable, match=r"\.memories/a: "):
        find_files(scope, NotePath(".memories"))
    with pytest.raises(Unwritable):
        list_folder(scope, NotePath(".memories/a"), depth=1)


def test_a_missing_workspace_is_not_an_empty_one(root: Path) -> None:
    scope = parse_scope(str(root))
    root.rename(root.parent / "away")
    with pytest.raises(Unwritable, match="is missing"):
        list_folder(scope, None, depth=2)
    with pytest.raises(Unwritable):
        find_files(scope, None)
    with pytest.raises(Unwritable):
        is_folder(scope, NotePath(".memories"))


NAMES = st.text("ab.\x01é\udc80 ", min_size=1, max_size=4) | st.sampled_from(
    [".memories", ".cursor", "rules", "a.mdc", "a" * 256, "b" * 255]
)


@given(st.lists(NAMES, max_size=3), NAMES)
def test_a_plain_name_in_a_listed_folder_is_never_refused(folders: list[str], name: str) -> None:
    folder = "/".join(folders)
    path = f"{folder}/{name}" if folder else name
    if (not folder or not find_refusal(folder)) and is_plain_entry(path, name):
        assert not find_refusal(path)
