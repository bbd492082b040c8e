from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.changes.diff import (
    NEVER_SAME,
    KnownStats,
    Snapshot,
    has_ordinary_name,
    hash_stat,
)
from memsyncd.core.paths import RULE_GLOBS
from memsyncd.errors import BadRequest
from memsyncd.files.scan import Walk, scan, stat_root
from tests.files.conftest import parse_scope


def write(root: Path, path: str, text: str = "x") -> Path:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def run_scan(
    root: Path,
    only: list[str] | None = None,
    *,
    include: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
) -> Snapshot:
    return scan(parse_scope(str(root), include=include, exclude=exclude), only)


def find_codes(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in snapshot.problems]


# --- names ----------------------------------------------------------------------------------------


def test_a_note_whose_name_begins_with_a_number_sign_is_found(root: Path) -> None:
    for path in ("#1 idea.md", "#projects/a.md"):
        write(root, path)
    assert sorted(run_scan(root, include=("**",)).files) == ["#1 idea.md", "#projects/a.md"]


@pytest.mark.parametrize(
    "name",
    [
        ".hidden.md",
        "#a.md#",
        ".#a.md",
        "a.md~",
        "a.md.swp",
        "a.md.tmp.1.0a",
        ".git/a.md",
        "4913",
        "sedX",
    ],
)
def test_hidden_names_and_temporary_files_of_tools_are_not_notes(root: Path, name: str) -> None:
    write(root, f".memories/{name}")
    snapshot = run_scan(root)
    assert not snapshot.files
    assert not snapshot.problems


def test_an_include_that_begins_with_a_hidden_folder_is_refused() -> None:
    with pytest.raises(BadRequest, match="hidden"):
        parse_scope("/w", include=[".git/*.md"])


RULES = (
    ".cursorrules",
    ".cursor/rules/a.mdc",
    ".cursor/rules/b/c.mdc",
    ".github/copilot-instructions.md",
    ".github/instructions/d.instructions.md",
)


def test_the_rules_of_agents_are_notes_if_they_are_included(root: Path) -> None:
    others = (".cursor/mcp.json", ".cursor/x.mdc", ".cursor/rules/x.md", ".github/x.md", "x.mdc")
    for path in (*RULES, *others, ".cursor/rules/.y/z.mdc", ".memories/.cursorrules"):
        write(root, path)
    for include in ((), ("**",)):
        assert not run_scan(root, include=include).files, include
        scope = parse_scope(str(root), include=include, read_only=RULE_GLOBS, max_file_bytes=1000)
        assert set(scan(scope).files) == set(RULES), include
        assert set(scan(scope, only=[".cursor"]).files) == set(RULES[1:3]), include
        assert set(scan(scope, only=[".cursor/rules/b"]).files) == {RULES[2]}, include
        assert set(scan(scope, only=[RULES[0], RULES[3]]).files) == {RULES[0], RULES[3]}, include
        assert all(scope.is_read_only(path) and has_ordinary_name(path) for path in RULES), include


def test_names_with_any_character_of_any_script_are_found_unchanged(root: Path) -> None:
    names = [
        "ñandú.md",
        "笔记.md",
        "a b.md",
        "new\nline.md",
        "quote'\".md",
        "-rf.md",
        "*.md",
        "x" * 252 + ".md",
    ]
    for name in names:
        write(root, f".memories/{name}")
    assert sorted(run_scan(root).files) == sorted(f".memories/{name}" for name in names)


# --- problems -------------------------------------------------------------------------------------


def test_a_fifo_a_socket_and_a_folder_in_the_place_of_a_note_are_reported_and_never_opened(
    root: Path,
) -> None:
    os.mkfifo(root / ".memories/fifo.md")
    (root / "MEMORY.md").mkdir()
    write(root, "MEMORY.md/x.md")
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(root / ".memories"):
        listener.bind("sock.md")
        snapshot = run_scan(root)
    assert not snapshot.files
    assert find_codes(snapshot) == [
        (".memories/fifo.md", "not_a_file"),
        (".memories/sock.md", "not_a_file"),
        ("MEMORY.md", "not_a_file"),
    ]


def test_a_file_in_the_place_of_memories_is_reported(root: Path) -> None:
    (root / ".memories").rmdir()
    write(root, ".memories")
    assert find_codes(run_scan(root)) == [(".memories", "not_a_folder")]


def test_a_note_over_the_limit_is_reported_and_one_at_the_limit_is_found(root: Path) -> None:
    write(root, ".memories/at.md", "x" * 10)
    write(root, ".memories/over.md", "x" * 11)
    snapshot = scan(parse_scope(str(root), max_file_bytes=10))
    assert list(snapshot.files) == [".memories/at.md"]
    assert find_codes(snapshot) == [(".memories/over.md", "too_large")]


def test_a_name_that_is_not_utf8_is_reported_in_text_that_can_be_encoded(root: Path) -> None:
    for name in (b"\xff.md", b"folder\xfe"):
        place = os.fsencode(root) + b"/.memories/" + name
        if name.endswith(b".md"):
            Path(os.fsdecode(place)).write_text("x")
        else:
            os.mkdir(place)
    snapshot = run_scan(root)
    assert not snapshot.files
    assert find_codes(snapshot) == [
        (".memories/folder\ufffd", "bad_name"),
        (".memories/\ufffd.md", "bad_name"),
    ]


@pytest.mark.parametrize(
    "name", ["new\nline.md", "esc\x1b[31mred.md", "bell\x07.md", "txt\u202edm.md", "fold\ner/x.md"]
)
def test_a_name_with_control_characters_is_found_and_reported(root: Path, name: str) -> None:
    write(root, f".memories/{name}")
    write(root, ".memories/Família 👩\u200d💻.md")
    snapshot = run_scan(root)
    assert f".memories/{name}" in snapshot.files
    assert find_codes(snapshot) == [(f".memories/{name}", "odd_name")]


def test_twins_that_differ_in_how_accents_are_written_are_both_found_and_reported(
    root: Path,
) -> None:
    names = ["caf\u00e9.md", "cafe\u0301.md"]
    for name in names:
        write(root, f".memories/{name}")
    snapshot = run_scan(root)
    if len(snapshot.files) == 1:
        pytest.skip("this file system treats both names as one")
    assert sorted(snapshot.files) == sorted(f".memories/{name}" for name in names)
    assert {code for _, code in find_codes(snapshot)} == {"twin_names"}
    assert len(snapshot.problems) == 2
    assert len(run_scan(root, [f".memories/{names[0]}"]).problems) == 1


def test_a_conflict_copy_of_a_sync_tool_is_found_and_reported(root: Path) -> None:
    path = ".memories/a (Ann's conflicted copy 2024-01-01).md"
    write(root, path)
    snapshot = run_scan(root)
    assert list(snapshot.files) == [path]
    assert find_codes(snapshot) == [(path, "sync_conflict")]


def test_files_of_other_suffixes_beside_notes_are_reported_in_one_problem(root: Path) -> None:
    for path in (
        ".memories/b/c.json",
        ".memories/a.py",
        ".memories/notes",
        ".memories/z/d.xml",
        ".memories/a.md",
        "src/x.py",
    ):
        write(root, path)
    snapshot = run_scan(root)
    (problem,) = snapshot.problems
    assert (problem.path, problem.code) == (".memories", "not_indexed")
    assert problem.problem.endswith("(4: a.py, b/c.json, notes, ...)")
    assert list(snapshot.files) == [".memories/a.md"]


def test_the_case_of_a_suffix_does_not_matter(root: Path) -> None:
    for path in (".memories/A.MD", ".memories/b.Markdown", ".memories/C.TXT", "README.MD"):
        write(root, path)
    snapshot = run_scan(root, include=("*.MD",))
    assert sorted(snapshot.files) == [
        ".memories/A.MD",
        ".memories/C.TXT",
        ".memories/b.Markdown",
        "README.MD",
    ]
    assert not snapshot.problems


def test_only_a_scan_of_all_memory_reports_files_that_are_not_indexed(root: Path) -> None:
    write(root, ".memories/a/b.json")
    for only in ([".memories/a"], [".memories/a/b.json"], ["MEMORY.md"]):
        assert not run_scan(root, only).problems
    for only in ([".memories"], [""], [".memories", ".memories/a"]):
        assert [
            problem.problem.rpartition("(")[2] for problem in run_scan(root, only).problems
        ] == ["1: a/b.json)"]


def test_excluded_hidden_included_and_linked_files_are_not_reported_as_not_indexed(
    root: Path,
) -> None:
    for path in (".memories/drafts/a.json", ".memories/.DS_Store", "docs/a.py", "docs/b.md"):
        write(root, path)
    (root / ".memories/linked").symlink_to("../docs")
    assert not run_scan(root, include=("docs/*.md",), exclude=("drafts",)).problems


def test_a_name_that_is_not_utf8_can_be_encoded_among_those_not_indexed(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/.memories/\xff.bin")).write_text("x")
    assert run_scan(root).problems[0].problem.encode().endswith("(1: \ufffd.bin)".encode())


def test_a_memory_md_within_memories_is_reported_as_shadowed(root: Path) -> None:
    write(root, ".memories/MEMORY.md")
    assert find_codes(run_scan(root)) == [(".memories/MEMORY.md", "shadowed")]
    assert find_codes(run_scan(root, [".memories/MEMORY.md"])) == [
        (".memories/MEMORY.md", "shadowed")
    ]
    assert list(run_scan(root).files) == [".memories/MEMORY.md"]


def test_the_stand_in_of_an_evicted_file_makes_the_note_unreadable_and_not_deleted(
    root: Path,
) -> None:
    write(root, ".memories/a/.note.md.icloud")
    snapshot = run_scan(root)
    assert snapshot.unreadable_files == {".memories/a/note.md"}
    assert find_codes(snapshot) == [(".memories/a/note.md", "evicted")]
    assert not snapshot.is_observed(".memories/a/note.md")


def test_evicted_notes_of_the_root_and_of_a_part_are_not_deleted(root: Path) -> None:
    write(root, ".MEMORY.md.icloud")
    write(root, ".b.md.icloud")
    write(root, ".c.md.icloud")
    assert run_scan(root).unreadable_files == {"MEMORY.md"}
    snapshot = run_scan(root, include=("**",), exclude=("c.md",))
    assert snapshot.unreadable_files == {"MEMORY.md", "b.md"}
    part = run_scan(root, ["b.md", "c.md", "d.md"], include=("**",), exclude=("c.md",))
    assert find_codes(part) == [("b.md", "evicted")]
    assert not part.is_observed("b.md")
    assert part.is_observed("d.md")


# --- what cannot be examined ----------------------------------------------------------------------


def test_a_folder_that_cannot_be_listed_is_reported_as_failed_and_the_rest_is_found(
    plain_root: Path,
) -> None:
    write(plain_root, ".memories/a/x.md")
    write(plain_root, ".memories/b.md")
    (plain_root / ".memories/a").chmod(0)
    snapshot = run_scan(plain_root)
    assert list(snapshot.files) == [".memories/b.md"]
    assert snapshot.failed_folders == {".memories/a"}
    assert find_codes(snapshot) == [(".memories/a", "unreadable_folder")]
    assert not run_scan(plain_root, [".memories/a/x.md"]).is_observed(".memories/a/x.md")


def test_files_of_a_folder_that_can_be_listed_but_not_entered_are_unreadable(
    plain_root: Path,
) -> None:
    write(plain_root, ".memories/a/x.md")
    (plain_root / ".memories/a").chmod(0o400)
    snapshot = run_scan(plain_root)
    assert snapshot.unreadable_files == {".memories/a/x.md"}
    assert not snapshot.is_observed(".memories/a/x.md")


def test_notes_of_a_linked_folder_that_cannot_be_reached_are_not_taken_for_deleted(
    plain_root: Path,
) -> None:
    write(plain_root, "docs/notes/x.md")
    (plain_root / ".memories/linked").symlink_to("../docs/notes")
    assert list(run_scan(plain_root).files) == [".memories/linked/x.md"]
    (plain_root / "docs").chmod(0)
    for only in (None, [".memories/linked"], [".memories/linked/x.md"]):
        snapshot = run_scan(plain_root, only)
        assert find_codes(snapshot) == [(".memories/linked", "unreadable_file")]
        assert not snapshot.is_observed(".memories/linked/x.md")


def test_folders_that_are_excluded_or_too_deep_for_the_glob_are_not_entered(
    plain_root: Path,
) -> None:
    for folder in (".memories/drafts", "docs/deep"):
        write(plain_root, f"{folder}/x.md")
        (plain_root / folder).chmod(0)
    scope = parse_scope(str(plain_root), include=["docs/*.md"], exclude=["drafts"])
    for only in (None, ["docs/deep"], ["docs"], [".memories/drafts"]):
        assert not scan(scope, only).failed_folders


def test_a_root_that_is_replaced_during_a_scan_is_scanned_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "MEMORY.md")
    write(root.parent / "next", ".memories/new.md")
    follow_links = Walk.follow_links

    def swap_roots(walk: Walk) -> None:
        if (root.parent / "next").exists():
            root.rename(root.parent / "old")
            (root.parent / "next").rename(root)
        follow_links(walk)

    monkeypatch.setattr(Walk, "follow_links", swap_roots)
    snapshot = run_scan(root)
    assert list(snapshot.files) == [".memories/new.md"]
    assert snapshot.root_identity == stat_root(str(root))[1]


def test_a_root_that_is_moved_away_during_a_scan_is_missing_and_not_empty(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Walk, "follow_links", lambda _: root.rename(root.parent / "away"))
    assert run_scan(root).root_state == "missing"


def test_a_folder_that_is_swapped_for_a_link_during_scans_shows_nothing_of_the_links_target(
    root: Path,
) -> None:
    write(root, ".memories/in/inside.md")
    write(root.parent, "out/outside.md")
    (root / "link").symlink_to(root.parent / "out")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for old, new in (
                (".memories/in", "kept"),
                ("link", ".memories/in"),
                (".memories/in", "link"),
                ("kept", ".memories/in"),
            ):
                (root / old).rename(root / new)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen = {path for _ in range(700) for path in run_scan(root).files}
    finally:
        stop.set()
        swapper.join()
    assert seen <= {".memories/in/inside.md"}


def test_a_root_that_cannot_be_entered_is_unreadable_and_not_empty(plain_root: Path) -> None:
    write(plain_root, "MEMORY.md")
    plain_root.chmod(0)
    assert run_scan(plain_root).root_state == "unreadable"


def test_a_root_that_is_absent_or_not_a_folder_is_missing(tmp_path: Path) -> None:
    assert run_scan(tmp_path / "gone").root_state == "missing"
    write(tmp_path, "file")
    assert run_scan(tmp_path / "file").root_state == "missing"
    assert run_scan(tmp_path / "file" / "deeper").root_state == "missing"


def test_a_root_replaced_by_another_folder_has_another_identity(root: Path) -> None:
    before = stat_root(str(root))
    root.rename(root.parent / "old")
    root.mkdir()
    assert stat_root(str(root))[0] == "present"
    assert stat_root(str(root)) != before
    assert run_scan(root).root_identity == stat_root(str(root))[1]


def test_a_workspace_without_memories_is_present_and_empty(root: Path) -> None:
    (root / ".memories").rmdir()
    snapshot = run_scan(root)
    assert (snapshot.root_state, snapshot.files, snapshot.problems) == ("present", {}, ())


@pytest.mark.parametrize(("depth", "is_found"), [(1100, True), (2100, False)])
def test_folders_deeper_than_the_recursion_limit_are_walked_and_those_past_the_path_limit_reported(
    root: Path, depth: int, is_found: bool
) -> None:
    try:
        make_deep_note(root / ".memories", depth)
        snapshot = run_scan(root)
    finally:
        subprocess.run(
            ["rm", "-rf", root / ".memories/d"], check=True
        )  # pytest removes recursively
    assert bool(snapshot.files) is is_found
    assert bool(snapshot.failed_folders) is not is_found


def make_deep_note(top: Path, depth: int) -> None:
    at = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        deeper = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


# --- restricted scans -----------------------------------------------------------------------------


def test_paths_that_no_note_can_have_are_omitted_from_a_restricted_scan(root: Path) -> None:
    write(root, "src/x.md")
    only = ["\udcff.md", ".git/index", "../x", "a\0b", "src/x.md", ".memories/a.md"]
    snapshot = run_scan(root, only, include=("docs/**/*.md",))
    assert snapshot.only == frozenset({"src/x.md", ".memories/a.md"})
    assert not snapshot.files


NAMES = st.sampled_from(["a", "b", "a.md", "b.txt", ".h", "c.py"])
TREE_PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TOPS = st.sampled_from(["", ".memories/", "docs/", "docs/sub/", "flat/"])


@given(
    paths=st.lists(st.tuples(TOPS, TREE_PATHS).map("".join), max_size=12),
    requested=st.lists(st.just("") | st.tuples(TOPS, TREE_PATHS).map("".join), max_size=3),
)
def test_a_scan_finds_the_notes_of_the_scope_and_a_restricted_one_its_part_of_them(
    tmp_path_factory: pytest.TempPathFactory, paths: list[str], requested: list[str]
) -> None:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("w")))
    for path in paths:
        try:
            write(root, path)
        except OSError:
            continue
    scope = parse_scope(str(root), include=["docs/**/*.md", "flat/*.md", "a.md"], exclude=["b"])
    files = [place.relative_to(root).as_posix() for place in root.rglob("*") if place.is_file()]
    whole = scan(scope)
    assert sorted(whole.files) == sorted(path for path in files if scope.is_note(path))
    part = scan(scope, requested)
    assert dict(part.files) == {
        path: stat for path, stat in whole.files.items() if part.is_in_scope(path)
    }


# --- known stats ----------------------------------------------------------------------------------

KNOWN_NAMES = ("MEMORY.md", ".memories/a.md", ".memories/b/c.md", ".memories/caf\u00e9.md",
               ".memories/MEMORY.md", ".memories/a (conflicted copy).md", "docs/d.md")  # fmt: skip
KNOWLEDGE = st.sampled_from(["same", "other", "never", "unknown", "gone"])


@given(st.fixed_dictionaries(dict.fromkeys(KNOWN_NAMES, KNOWLEDGE)), st.booleans())
def test_a_scan_that_knows_some_stats_sees_the_same_notes_and_problems(
    knowledge: dict[str, str], excludes_some: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        for path in KNOWN_NAMES:
            write(root, path)
        exclude = (".memories/b/*",) if excludes_some else ()
        scope = parse_scope(str(root), include=("docs/**", "docs/*.md"), exclude=exclude)
        stats = {path: make_known(root / path, how) for path, how in knowledge.items()}
        for path in (path for path, how in knowledge.items() if how == "gone"):
            (root / path).unlink()
            with contextlib.suppress(OSError):  # another note is in it
                (root / path).parent.rmdir()
        plain = scan(scope)
        stats = {path: stat for path, stat in stats.items() if stat is not None}
        stats = {path: stats[path] if has_ordinary_name(path) else NEVER_SAME for path in stats}
        snapshot = scan(scope, known=KnownStats(stats))
    # MEMORY.md is not found by listing a folder: it is examined by itself.
    same = {path for path, how in knowledge.items() if how == "same" and has_ordinary_name(path)}
    same.discard("MEMORY.md")
    unchanged = same & plain.files.keys()
    assert set(snapshot.not_skipped) == stats.keys() - unchanged
    assert snapshot.n_unchanged == len(unchanged)
    assert snapshot.files == {p: stat for p, stat in plain.files.items() if p not in same}
    assert (snapshot.problems, snapshot.failed_folders) == (plain.problems, plain.failed_folders)


def make_known(place: Path, how: str) -> int | None:
    stat = place.stat()
    same = hash_stat((stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))
    return {"unknown": None, "other": same + 1, "never": NEVER_SAME}.get(how, same)


def test_a_known_note_that_is_too_large_by_now_is_reported(root: Path) -> None:
    stat = write(root, ".memories/a.md", "12345").stat()
    stats = {".memories/a.md": hash_stat((5, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))}
    assert scan(parse_scope(str(root)), known=KnownStats(stats)).n_unchanged == 1
    snapshot = scan(parse_scope(str(root), max_file_bytes=4), known=KnownStats(stats))
    assert (snapshot.n_unchanged, find_codes(snapshot)) == (0, [(".memories/a.md", "too_large")])


def test_a_link_in_the_place_of_a_known_note_is_not_taken_for_it(
    root: Path, tmp_path: Path
) -> None:
    stat = write(root, "MEMORY.md").stat()
    stats = {"MEMORY.md": hash_stat((1, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))}
    stats[".memories/a.md"] = stats["MEMORY.md"]
    (root / "MEMORY.md").rename(tmp_path / "outside.md")
    for path in ("MEMORY.md", ".memories/a.md"):
        (root / path).symlink_to(tmp_path / "outside.md")
    snapshot = scan(parse_scope(str(root)), known=KnownStats(stats))
    assert not snapshot.has_notes
    assert {code for _, code in find_codes(snapshot)} == {"link_outside"}
