"""Scan, diff and read together, on a disk that other programs change in every way."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsyncd.core.changes.diff import (
    NOTHING_MISSING,
    Missing,
    NoteChanges,
    Recorded,
    find_suspects,
    plan_changes,
    track_missing,
)
from memsyncd.core.paths import parse_note_path
from memsyncd.files.read import ReadFile, read_note_file
from memsyncd.files.scan import scan
from memsyncd.files.scope import Scope
from tests.files.conftest import parse_scope


class Records:
    """The records of an index, updated by each sync."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.notes: dict[str, Recorded] = {}
        self.missing: Missing = NOTHING_MISSING
        self.pending: list[str] = []
        """The pending deletes of the last sync that left any: the timer is set for these."""

    def sync(self, only: Iterable[str] | None = None, *, grace_s: float = 0.0) -> NoteChanges:
        now_ns = time.time_ns()
        snapshot = scan(self.scope, only)
        suspects = find_suspects(self.notes, snapshot)
        self.missing = track_missing(
            self.missing, self.notes, snapshot, suspects.vanished, now_s=now_ns / 1e9
        )
        results = [
            read_note_file(self.scope, parse_note_path(path), now_ns=now_ns)
            for path in suspects.to_read
        ]
        read = {file.path.text: file.record for file in results if isinstance(file, ReadFile)}
        changes = plan_changes(self.notes, read, self.missing, now_s=now_ns / 1e9, grace_s=grace_s)
        for path in (*changes.gone, *(old for old, _ in changes.moved)):
            del self.notes[path]
        for path in (
            *changes.added,
            *changes.modified,
            *changes.touched,
            *(new for _, new in changes.moved),
        ):
            self.notes[path] = read[path]
        self.pending = list(changes.pending_deletes) or self.pending
        return changes

    def end_grace(self) -> None:
        """Sync pending deletes until there are none, as the timer does."""
        while self.pending:
            pending, self.pending = self.pending, []
            self.sync(pending)

    def digests(self) -> dict[str, str]:
        return {path: note.digest for path, note in self.notes.items()}


def write_in_place(place: Path, text: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text)


def write_by_rename(place: Path, text: bytes) -> None:
    write_in_place(place.with_name(".temp"), text)
    place.with_name(".temp").replace(place)


def write_with_an_old_time(place: Path, text: bytes) -> None:
    write_in_place(place, text)
    os.utime(place, (1, 1))


def write_as_vim(place: Path, text: bytes) -> None:
    if place.is_file():
        place.replace(place.with_name(f"{place.name}~"))
    write_in_place(place, text)


WRITERS = st.sampled_from([write_in_place, write_by_rename, write_with_an_old_time, write_as_vim])
PATHS = st.sampled_from(
    [
        "MEMORY.md",
        ".memories/a.md",
        ".memories/b.md",
        ".memories/d/a.md",
        ".memories/d/e/b.txt",
        "docs/a.md",
    ]
)
PLACES = st.one_of(PATHS, st.sampled_from([".memories", ".memories/d", ".memories/d/e", "docs"]))
Operation = Callable[[Path], list[str]]


def writing(path: str, write: Callable[[Path, bytes], None], text: bytes) -> Operation:
    def run(root: Path) -> list[str]:
        write(root / path, text)
        return [path]

    return run


def removing(path: str) -> Operation:
    def run(root: Path) -> list[str]:
        place = root / path
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
        return [path]

    return run


def moving(old: str, new: str) -> Operation:
    def run(root: Path) -> list[str]:
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / old).replace(root / new)
        return [old, new]

    return run


def linking(path: str, target: str) -> Operation:
    def run(root: Path) -> list[str]:
        (root / path).symlink_to(root / target)
        return [path]

    return run


OPERATIONS = st.one_of(
    st.builds(writing, PATHS, WRITERS, st.sampled_from([b"", b"one", b"two", b"three"])),
    st.builds(removing, PLACES),
    st.builds(moving, PLACES, PLACES),
    st.builds(linking, PLACES, PLACES),
)


@given(operations=st.lists(OPERATIONS, min_size=1, max_size=25))
def test_after_any_changes_of_the_disk_the_records_equal_the_disk(
    tmp_path_factory: pytest.TempPathFactory, operations: list[Operation]
) -> None:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("w")))
    scope = parse_scope(str(root), include=["docs/**/*.md"])
    by_events, by_scans = Records(scope), Records(scope)
    for operation in operations:
        try:
            touched = operation(root)
        except OSError:
            touched = [""]
        by_events.sync(touched)
        by_scans.sync()
        fresh = Records(scope)
        fresh.sync()
        assert by_scans.digests() == fresh.digests()
    by_events.sync()
    assert by_events.digests() == by_scans.digests()
    assert by_events.sync().is_empty
    shutil.rmtree(root)


# --- notes and folders that take each other's names ---

NESTED = (
    *("MEMORY.md", ".memories/a.md", ".memories/a.md/b.md", ".memories/a.md/b.md/c.md"),
    *(".memories/d/a.md", ".memories/d/a.md/b.md", "docs/a.md", "docs/a.md/b.md"),
)
NAMES = st.sampled_from(NESTED)
ABOVE = (".memories", ".memories/d", "docs", "")


def make_way(place: Path, root: Path) -> list[str]:
    """Remove the note, folder or file that keeps a note from being written at `place`."""
    above = (folder for folder in place.parents if folder.is_relative_to(root))
    ways = [path for path in (place, *above) if path.is_file() or (path == place and path.is_dir())]
    for way in ways:
        if way.is_dir():
            shutil.rmtree(way)
        else:
            way.unlink()
    return [str(way.relative_to(root)) for way in ways]


def replacing(path: str, text: bytes) -> Operation:
    def run(root: Path) -> list[str]:
        removed = make_way(root / path, root)
        write_in_place(root / path, text)
        return [*removed, path]

    return run


def moving_out(path: str) -> Operation:
    def run(root: Path) -> list[str]:
        (root / path).rename(root.with_name(f"{root.name}-{time.monotonic_ns()}"))
        return [path]

    return run


def moving_over(old: str, new: str) -> Operation:
    def run(root: Path) -> list[str]:
        aside = root.with_name(f"{root.name}-aside")
        (root / old).rename(aside)
        removed = make_way(root / new, root)
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        aside.rename(root / new)
        return [old, *removed, new]

    return run


SWAPS = st.one_of(
    st.builds(replacing, NAMES, st.sampled_from([b"one", b"two", b"three"])),
    st.builds(removing, st.sampled_from((*NESTED, *ABOVE[:-1]))),
    st.builds(moving_out, st.sampled_from((*NESTED, *ABOVE[:-1]))),
    st.builds(moving_over, NAMES, NAMES),
)
SCOPES = st.tuples(
    st.sampled_from(["at", "at", "above", "later", "full"]),
    st.lists(st.sampled_from((*NESTED, *ABOVE[1:-1])), max_size=2),
)


@settings(max_examples=settings().max_examples * 4)
@given(steps=st.lists(st.tuples(SWAPS, SCOPES), min_size=2, max_size=20))
def test_partial_scans_follow_notes_and_folders_that_take_each_others_names(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[Operation, tuple[str, list[str]]]],
) -> None:
    """Every change is scanned once: at its path or above, at once or later, alone or with others."""
    root = Path(os.path.realpath(tmp_path_factory.mktemp("w"))) / "root"
    root.mkdir()
    scope = parse_scope(str(root), include=["docs/**/*.md"])
    records, dirty = Records(scope), set[str]()
    records.sync()
    for operation, (how, others) in steps:
        try:
            touched = operation(root)
        except OSError:
            touched = [""]
        dirty |= {path.rpartition("/")[0] if how == "above" else path for path in touched}
        if how == "later":
            records.sync(others, grace_s=60)
        else:
            records.sync(None if how == "full" else {*dirty, *others}, grace_s=60)
            dirty.clear()
    records.sync(dirty, grace_s=60)
    records.end_grace()
    fresh = Records(scope)
    fresh.sync()
    assert records.digests() == fresh.digests()
    assert records.sync().is_empty
    shutil.rmtree(root.parent)


def test_a_note_rewritten_at_once_with_the_same_size_and_time_is_noticed(root: Path) -> None:
    records, note = Records(parse_scope(str(root))), root / "MEMORY.md"
    note.write_bytes(b"one")
    stat = note.stat()
    records.sync()
    for text in (b"two", b"six", b"ten"):
        note.write_bytes(text)
        os.utime(note, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert records.sync(["MEMORY.md"]).modified == ("MEMORY.md",)


def test_a_folder_that_is_moved_moves_its_notes(root: Path) -> None:
    records = Records(parse_scope(str(root)))
    for name in ("a", "b"):
        write_in_place(root / f".memories/old/{name}.md", name.encode())
    records.sync()
    (root / ".memories/old").rename(root / ".memories/new")
    changes = records.sync([".memories/old", ".memories/new"], grace_s=60)
    assert changes.moved == (
        (".memories/old/a.md", ".memories/new/a.md"),
        (".memories/old/b.md", ".memories/new/b.md"),
    )


def test_a_root_that_is_missing_for_a_while_loses_no_records(root: Path) -> None:
    records = Records(parse_scope(str(root)))
    write_in_place(root / ".memories/a.md", b"a")
    records.sync()
    root.rename(root.parent / "away")
    for _ in range(3):
        assert records.sync().is_empty
    (root.parent / "away").rename(root)
    assert records.sync().is_empty
    assert list(records.notes) == [".memories/a.md"]


def test_a_note_that_is_deleted_and_created_again_within_the_grace_time_is_never_gone(
    root: Path,
) -> None:
    records, note = Records(parse_scope(str(root))), root / "MEMORY.md"
    note.write_bytes(b"old")
    records.sync()
    note.unlink()
    assert records.sync(["MEMORY.md"], grace_s=60) == NoteChanges(pending_deletes=("MEMORY.md",))
    note.write_bytes(b"new")
    assert records.sync(["MEMORY.md"], grace_s=60) == NoteChanges(modified=("MEMORY.md",))
