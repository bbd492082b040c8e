"""A note that was there before memsyncd saw it is a base: no undo deletes it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from msgspec import structs

from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.errors import ConfirmationNeeded, Conflict, EditRefused, NoteNotFound
from memsyncd.files import read as read_module
from tests.engine.conftest import POLICY, Bench

LONG_AGO_S = 1_600_000_000


def age(place: Path) -> None:
    os.utime(place, (LONG_AGO_S, LONG_AGO_S))


def widen(bench: Bench, **settings_: Any) -> None:
    """Open the workspace with other settings, as `add` does."""
    before = bench.workspace
    before.close()
    entry = structs.replace(before.entry, **settings_)
    paths = {"index_path": before.index_path, "records_path": before.records_path}
    bench.workspace = Workspace(entry, bench.config, **paths)
    bench.update()
    bench.see()


def commands(bench: Bench) -> list[tuple[str, str]]:
    return [(revision.path, revision.command) for revision in bench.past()]


@pytest.fixture
def watched(bench: Bench) -> Bench:
    """A workspace that has been scanned and recorded."""
    bench.update()
    bench.see()
    return bench


def follow(bench: Bench, *only: str) -> None:
    """Sync, and forget the events that it has covered, as the scheduler does."""
    done = bench.follow(*only)
    bench.workspace.note_scanned(only or None, done.began_s)


# --- a creation ---


def test_a_note_that_was_created_while_it_was_watched_is_deleted_only_with_a_confirmation(
    watched: Bench,
) -> None:
    watched.write(".memories/a.md", "one\n")
    follow(watched, ".memories/a.md")
    [created] = watched.past()
    assert (created.command, created.undo) == ("external", "confirm")
    for selected in ({"path": ".memories/a.md"}, {"revision": 1}, {"change_set": 1}):
        with pytest.raises(ConfirmationNeeded, match=r"deletes the file \.memories/a\.md"):
            watched.undo(**selected)
    watched.undo(".memories/a.md", confirm=True)
    assert watched.files() == {}


def test_a_note_saved_by_a_rename_was_created(watched: Bench) -> None:
    watched.write(".memories/.a.md.swp", "one\n").rename(watched.root / ".memories/a.md")
    watched.announce(".memories/a.md")
    follow(watched, ".memories/a.md")
    assert commands(watched) == [(".memories/a.md", "external")]


def test_a_note_in_a_new_folder_was_created(watched: Bench) -> None:
    watched.write(".memories/new/a.md", "one\n")
    watched.workspace.note_scanned(None, watched.now_s)
    watched.announce(".memories/new")
    follow(watched)
    assert commands(watched) == [(".memories/new/a.md", "external")]


def test_ones_own_notes_are_undone_without_a_question(watched: Bench) -> None:
    watched.memory("create", "/memories/a.md", file_text="one\n")
    watched.undo(".memories/a.md")
    assert watched.files() == {}
    watched.undo(".memories/a.md")
    assert watched.files() == {".memories/a.md": b"one\n"}
    # The file was there again: whoever undoes once more may not know that this deletes it.
    with pytest.raises(ConfirmationNeeded, match="an undo brought it back"):
        watched.undo(".memories/a.md")


def test_changes_of_other_programs_in_one_step_are_undone_together_only_with_a_confirmation(
    watched: Bench,
) -> None:
    for name in "ab":
        watched.write(f".memories/{name}.md", "one\n")
    follow(watched)
    for name in "ab":
        watched.write(f".memories/{name}.md", "two\n")
    follow(watched)
    number = watched.past()[0].change_set
    for selected in ({"change_set": number}, {"path": ".memories"}):
        with pytest.raises(ConfirmationNeeded, match="these 2 changes, perhaps not together"):
            watched.undo(**selected)
    watched.undo(change_set=number, confirm=True)
    assert watched.files() == {".memories/a.md": b"one\n", ".memories/b.md": b"one\n"}
    # Each alone needs no confirmation, because no file is deleted.
    watched.write(".memories/a.md", "three\n")
    follow(watched)
    watched.undo(".memories/a.md")
    assert watched.files()[".memories/a.md"] == b"one\n"


# --- a first sight ---


def check_first_seen(bench: Bench, path: str, data: bytes) -> None:
    """The note has a history from now on, and cannot be undone away."""
    assert (path, "external") not in commands(bench)
    seen = [revision for revision in bench.past(path) if revision.command == "first_seen"]
    for selected in ({"path": path}, *({"revision": revision.revision} for revision in seen)):
        with pytest.raises((EditRefused, NoteNotFound), match=r"was there|has not changed"):
            bench.undo(**selected, confirm=True)
    for revision in seen:
        assert revision.undo == "never"
        with pytest.raises(EditRefused):
            bench.undo(change_set=revision.change_set, confirm=True)
    bench.write(path, "changed\n")
    follow(bench)
    bench.undo(path)
    assert (bench.root / path).read_bytes() == data


@pytest.mark.parametrize("is_young", [True, False])
@pytest.mark.parametrize(
    "settings_", [{"preset": "vault"}, {"include": ("*.md",)}], ids=["preset", "include"]
)
def test_a_wider_selection_shows_notes_that_were_there(
    watched: Bench, settings_: Any, is_young: bool
) -> None:
    place = watched.write("old.md", "old\n")
    if not is_young:
        age(place)
    widen(watched, **settings_)
    assert watched.past() == []
    check_first_seen(watched, "old.md", b"old\n")


def test_a_limit_that_was_raised_shows_notes_that_were_there(watched: Bench) -> None:
    watched.config = structs.replace(POLICY, sync=structs.replace(POLICY.sync, max_file_bytes=100))
    widen(watched)
    watched.write(".memories/large.md", "x" * 200)
    follow(watched)
    watched.config = POLICY
    widen(watched)
    check_first_seen(watched, ".memories/large.md", b"x" * 200)


def test_a_note_over_the_limit_that_became_smaller_was_there(watched: Bench) -> None:
    watched.config = structs.replace(POLICY, sync=structs.replace(POLICY.sync, max_file_bytes=100))
    widen(watched)
    watched.write(".memories/large.md", "x" * 200)
    follow(watched)
    watched.write(".memories/large.md", "small\n")
    follow(watched, ".memories/large.md")
    assert commands(watched) == [(".memories/large.md", "first_seen")]
    check_first_seen(watched, ".memories/large.md", b"small\n")


def test_an_ignored_folder_that_is_shown_was_there(make_bench: Any) -> None:
    bench: Bench = make_bench(preset="vault")
    (bench.root / ".gitignore").write_text("private/\n")
    bench.update()
    bench.see()
    bench.write("private/a.md", "one\n")
    follow(bench)
    assert bench.paths() == []
    (bench.root / ".gitignore").write_text("")
    bench.workspace.note_unscanned("", bench.now_s, is_own=False)
    follow(bench)
    assert commands(bench) == [("private/a.md", "first_seen")]
    check_first_seen(bench, "private/a.md", b"one\n")


def test_a_note_that_came_while_memsyncd_did_not_run_is_first_seen(watched: Bench) -> None:
    watched.workspace.close()
    watched.write(".memories/a.md", "one\n")
    widen(watched)
    assert commands(watched) == [(".memories/a.md", "first_seen")]
    check_first_seen(watched, ".memories/a.md", b"one\n")


@pytest.mark.parametrize("how", ["moved", "folder", "copied", "link"])
def test_an_older_file_that_comes_into_the_workspace_was_there(
    watched: Bench, tmp_path: Path, how: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("one\n")
    age(outside / "a.md")
    path = ".memories/in/a.md" if how == "folder" else ".memories/a.md"
    place = watched.root / path
    if how == "moved":
        (outside / "a.md").rename(place)
    elif how == "folder":
        outside.rename(watched.root / ".memories/in")
    elif how == "copied":
        shutil.copy2(outside / "a.md", place)
    else:
        os.link(outside / "a.md", place)
    watched.announce(path.removesuffix("/a.md") if how == "folder" else path)
    follow(watched)
    assert commands(watched) == [(path, "first_seen")]
    check_first_seen(watched, path, b"one\n")


def test_a_file_that_was_written_just_now_and_is_older_than_that_was_there(
    watched: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    born_ns = time.time_ns() - 3600 * 10**9
    real = read_module._read_birth_ns(str(tmp_path), os.stat(tmp_path))
    if real is None:
        pytest.skip("the file system does not tell the time of birth")
    assert abs(real - os.stat(tmp_path).st_ctime_ns) < 3600 * 10**9
    monkeypatch.setattr(read_module, "_read_birth_ns", lambda *_: born_ns)
    watched.write(".memories/draft.md", "one\n")
    follow(watched)
    check_first_seen(watched, ".memories/draft.md", b"one\n")


def test_an_edit_of_a_note_that_nobody_has_noticed_yet_does_not_make_it_a_creation(
    watched: Bench,
) -> None:
    watched.write(".memories/a.md", "one\n")
    watched.memory("str_replace", "/memories/a.md", old_str="one", new_str="two")
    assert commands(watched) == [
        (".memories/a.md", "str_replace"),
        (".memories/a.md", "first_seen"),
    ]
    watched.undo(revision=watched.past()[0].revision)
    with pytest.raises(EditRefused):
        watched.undo(revision=watched.past()[-1].revision, confirm=True)
    assert watched.files() == {".memories/a.md": b"one\n"}


# --- modes and times ---


@pytest.mark.parametrize(
    ("by", "mode"), [("external", 0o600), ("delete", 0o640), ("clear_folder", 0o664)]
)
def test_a_note_that_an_undo_creates_again_has_its_former_mode_and_time(
    watched: Bench, by: str, mode: int
) -> None:
    place = watched.write(".memories/f/a.md", "one\n")
    age(place)
    place.chmod(mode)
    before = place.stat()
    follow(watched)
    if by == "external":
        place.unlink()
        follow(watched)
    else:
        watched.memory("delete", f"/memories/{'f/a.md' if by == 'delete' else 'f'}")
    watched.undo(".memories/f/a.md")
    watched.undo(".memories/f/a.md", confirm=True)
    watched.undo(".memories/f/a.md")
    after = place.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    follow(watched)
    assert [revision.command for revision in watched.past()[:3]] == ["undo", "undo", "undo"]


# --- any sequence ---

PATHS = ("MEMORY.md", ".memories/a.md", ".memories/b.md", "docs/c.md", "docs/d.md")
FOLDER: list[Path] = []
names = st.sampled_from(PATHS)
texts = st.sampled_from(("", "one\n", "two\n", "# A\n\ntext\n"))
modes = st.sampled_from((0o600, 0o640, 0o644, 0o664))


class FirstSightMachine(RuleBasedStateMachine):
    """Other programs create, edit and delete notes, scopes widen and narrow, and undos are asked
    for. `theirs` are the files that another program put where they are, `old` the files that were
    older at that time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=FOLDER[0]))
        self.root = self.folder / "project"
        (self.root / ".memories").mkdir(parents=True)
        (self.root / "docs").mkdir()
        self.include: tuple[str, ...] = ()
        self.theirs: set[str] = set()
        self.old: set[str] = set()
        self.bench = self.open()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(read_module, "_read_birth_ns", self.read_birth_ns)

    def open(self) -> Bench:
        entry = Entry(id="p-1", name="p", root=str(self.root), include=self.include)
        paths = {
            "index_path": self.folder / "index.db",
            "records_path": self.folder / "state" / "records.db",
        }
        bench = Bench(root=self.root, workspace=Workspace(entry, POLICY, **paths))
        bench.update()
        bench.see()
        return bench

    def read_birth_ns(self, path: str, stat: os.stat_result) -> int:
        is_old = os.path.relpath(path, self.root) in self.old
        return LONG_AGO_S * 10**9 if is_old else stat.st_ctime_ns

    def teardown(self) -> None:
        self.patch.undo()
        self.bench.workspace.close()
        shutil.rmtree(self.folder)

    @rule(path=names, text=texts, mode=modes, is_old=st.booleans(), is_heard=st.booleans())
    def save(self, path: str, text: str, mode: int, is_old: bool, is_heard: bool) -> None:
        place = self.root / path
        if is_old and not place.exists():
            self.old.add(path)
        place.write_text(text)
        place.chmod(mode)
        if is_old:
            age(place)
        if is_heard and self.bench.workspace.scope.is_note(path):
            self.bench.announce(path)
        self.theirs.add(path)

    @rule(path=names)
    def delete(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)
        self.forget(path)

    def forget(self, *paths: str) -> None:
        self.theirs.difference_update(paths)
        self.old.difference_update(paths)

    @rule(path=names, text=texts)
    def write(self, path: str, text: str) -> None:
        if path.startswith(".memories/") and not (self.root / path).exists():
            name = path.removeprefix(".memories/")
            self.bench.memory("create", f"/memories/{name}", file_text=text)
            self.forget(path)

    @rule()
    def sync(self) -> None:
        follow(self.bench)

    @rule(include=st.sampled_from(((), ("docs/*.md",), ("docs/c.md",))))
    def reopen(self, include: tuple[str, ...]) -> None:
        self.bench.workspace.close()
        self.include = include
        self.bench = self.open()

    def read(self) -> dict[str, tuple[bytes, int]]:
        places = ((path, self.root / path) for path in PATHS)
        return {
            path: (place.read_bytes(), place.stat().st_mode)
            for path, place in places
            if place.exists()
        }

    @rule(number=st.integers(0, 5), is_confirmed=st.booleans(), is_set=st.booleans())
    def undo(self, number: int, is_confirmed: bool, is_set: bool) -> None:
        past = self.bench.past(limit=6)
        if number >= len(past):
            return
        chosen = past[number]
        selected = {"change_set": chosen.change_set} if is_set else {"revision": chosen.revision}
        before = self.read()
        try:
            outcome = self.bench.undo(**selected, confirm=is_confirmed)
        except (ConfirmationNeeded, Conflict, EditRefused):
            assert self.read() == before
            return
        after = self.read()
        gone = before.keys() - after.keys()
        moves = {
            revision.path: revision.old_path
            for revision in outcome.answer.revisions
            if revision.old_path
        }
        assert not (gone - moves.keys()) & self.old
        if not is_confirmed:
            # Whoever has not been asked loses no file that another program has put there.
            assert not (gone - moves.keys()) & self.theirs
        if outcome.change_set is not None:
            self.bench.undo(change_set=outcome.change_set, confirm=True)
            assert self.read() == before
        self.forget(*(gone - moves.keys()))


@pytest.mark.life
def test_no_sequence_lets_an_undo_delete_a_file_that_was_there(tmp_path: Path) -> None:
    FOLDER[:] = [tmp_path]
    run_state_machine_as_test(
        FirstSightMachine,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
