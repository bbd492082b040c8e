"""A records.db is copied while it is written, and files replace it, or are refused."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

from memsyncd.errors import BadRequest, StoreCorrupt, StoreFailed
from memsyncd.store import backup
from memsyncd.store.backup import (
    adopt,
    back_up,
    count_revisions,
    find_staged,
    remove_leftovers,
    swap_in,
)
from memsyncd.store.connection import Durability, open_writer
from memsyncd.store.history import Intended
from memsyncd.store.integrity import find_damage
from memsyncd.store.records import Records, peek_owners
from memsyncd.store.schema import MIGRATIONS, run_migration

Open = Callable[[str], Records]
TEXT = b"".join(b"%d: a line of the note %d\n" % (number, number * 7919) for number in range(300))


@pytest.fixture
def open_records(tmp_path: Path) -> Iterator[Open]:
    opened: list[Records] = []

    def open_one(name: str) -> Records:
        path = tmp_path / name / "records.db"
        opened.append(Records(path, workspace=name, root=f"/{name}", now_s=1.0))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def here(open_records: Open) -> Records:
    records = open_records("here")
    write(records, 0, 3)
    return records


def write(records: Records, *numbers: int) -> None:
    for number in numbers:
        change = Intended(path=f"{number}.md", old=None, new=b"%d\n" % number + TEXT)
        path = f"{number}.md"
        history = records.history
        change_set = history.begin(
            at_s=number, client="ada", command="create", path=path, changes=[change]
        )
        history.finish(change_set)


def take(steps: Iterator[None]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def list_names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def stage(made: Path, records: Path) -> Path:
    records.parent.mkdir(exist_ok=True)
    return Path(shutil.copy(made, find_staged(records)))


def adopt_here(staged: Path) -> None:
    adopt(staged, workspace="here", root="/here", inode=7, now_s=9.0)


def read_paths(path: Path) -> list[str]:
    """Return the notes of all revisions, in order; every text must be readable."""
    assert find_damage(path, is_thorough=True) == []
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = connection.execute("SELECT path FROM revisions ORDER BY id").fetchall()
        return [str(row[0]) for row in rows]
    finally:
        connection.close()


def change(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    try:
        connection.execute(statement)
        connection.pragma("journal_mode", "delete")
    finally:
        connection.close()


# --- backup -------------------------------------------------------------------------------------


def test_a_backup_is_one_file_for_its_owner_alone_that_has_everything(here: Records) -> None:
    made = take(back_up(here.path))
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert made.n_bytes == made.path.stat().st_size
    assert made.n_revisions == 2
    alone = Path(shutil.move(made.path, here.path.parent.parent / "alone.db"))
    assert read_paths(alone) == ["0.md", "3.md"]
    assert list_names(here.path) == ["records.db", "records.db-shm", "records.db-wal"]
    assert list_names(alone) == ["alone.db", "here"]


def test_a_backup_is_consistent_though_the_history_is_written_meanwhile(
    here: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "STEP_PAGES", 1)
    steps = back_up(here.path)
    for number in range(10, 15):
        next(steps)
        write(here, number)
    made = take(steps)
    assert read_paths(made.path) == ["0.md", "3.md", *(f"{n}.md" for n in range(10, 15))]
    kept = Records(made.path, workspace="here", root="/here", now_s=1.0)
    try:
        revisions = kept.history.find_revisions(limit=50)
        texts = [kept.history.read_text(str(revision.new_digest)) for revision in revisions]
    finally:
        kept.close()
    assert len(texts) == 7
    assert None not in texts


def test_a_cancelled_backup_leaves_no_file_behind(
    here: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "STEP_PAGES", 1)
    steps = back_up(here.path)
    next(steps)
    steps.close()
    assert [name for name in list_names(here.path) if ".backup-" in name] == []
    for name in ("records.db.backup-1", "records.db.backup-1-journal", "records.db.restore"):
        here.path.with_name(name).write_bytes(b"x")
    made = take(back_up(here.path))
    left = [name for name in list_names(here.path) if ".backup-" in name or ".restore" in name]
    assert left == [made.path.name]


def test_a_damaged_history_is_not_backed_up(here: Records) -> None:
    write(here, *range(20, 40))
    here.close()
    data = bytearray(here.path.read_bytes())
    data[5 * 4096 : 7 * 4096] = bytes(2 * 4096)
    here.path.write_bytes(data)
    with pytest.raises(StoreCorrupt) as caught:
        take(back_up(here.path))
    assert caught.value.hint
    assert [name for name in list_names(here.path) if ".backup-" in name] == []


def test_a_backup_contains_no_purged_text_though_the_file_still_does(
    here: Records,
) -> None:
    secret = os.urandom(16).hex()
    connection = apsw.Connection(str(here.path))
    connection.execute("PRAGMA secure_delete = 0")
    connection.execute("INSERT INTO meta VALUES(?, 'x')", (secret * 200,))
    connection.execute("DELETE FROM meta WHERE key GLOB ?", (f"{secret}*",))
    connection.execute("INSERT INTO meta VALUES('is_unwiped', 'yes')")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert secret.encode() in here.path.read_bytes()
    made = take(back_up(here.path))
    assert secret.encode() not in made.path.read_bytes()
    with_key = "SELECT count(*) FROM meta WHERE key = 'is_unwiped'"
    reading = apsw.Connection(str(made.path), flags=apsw.SQLITE_OPEN_READONLY)
    assert reading.execute(with_key).get == 0
    reading.close()


# --- what is refused ----------------------------------------------------------------------------


def refuse(staged: Path, match: str) -> BadRequest:
    with pytest.raises(BadRequest, match=match) as caught:
        adopt_here(staged)
    assert caught.value.hint
    return caught.value


def make_other_database(path: Path) -> None:
    change(path, "CREATE TABLE notes(id INTEGER PRIMARY KEY); PRAGMA user_version = 2")


def test_files_that_are_not_a_history_are_refused(here: Records, tmp_path: Path) -> None:
    staged = find_staged(here.path)
    refuse(staged, "there is no file")
    staged.mkdir()
    refuse(staged, "not a regular file")
    staged.rmdir()
    staged.symlink_to("/etc/passwd")
    refuse(staged, "not a regular file")
    staged.unlink()
    for data in (b"", b"# Note\n", b"SQLite format 3\0"):
        staged.write_bytes(data)
        refuse(staged, "cannot be restored")
    staged.unlink()
    make_other_database(tmp_path / "other.db")
    stage(tmp_path / "other.db", here.path)
    refuse(staged, "not a history of memsyncd")


def test_a_history_with_unknown_schema_objects_is_refused(here: Records) -> None:
    made = take(back_up(here.path)).path
    change(made, "CREATE TRIGGER t AFTER INSERT ON change_sets BEGIN DELETE FROM heads; END")
    refuse(stage(made, here.path), "not a history of memsyncd")


def test_every_truncation_of_a_backup_is_refused(here: Records) -> None:
    made = take(back_up(here.path)).path
    size = made.stat().st_size
    for n_bytes in (16, 100, 4096, size // 2, size - 4096, size - 1):
        staged = stage(made, here.path)
        os.truncate(staged, n_bytes)
        refuse(staged, "cannot be restored")


def test_a_backup_whose_pages_are_damaged_is_refused(here: Records) -> None:
    write(here, *range(20, 40))
    staged = stage(take(back_up(here.path)).path, here.path)
    data = bytearray(staged.read_bytes())
    data[5 * 4096 : 7 * 4096] = b"\xff" * (2 * 4096)
    staged.write_bytes(data)
    refuse(staged, "cannot be restored")


def test_a_backup_of_a_newer_program_is_refused_with_a_hint(here: Records) -> None:
    made = take(back_up(here.path)).path
    change(made, "PRAGMA user_version = 99")
    refusal = refuse(stage(made, here.path), "version 99, newer than this program's")
    assert "pip install --upgrade" in refusal.hint


# --- restore ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_a_backup_of_an_older_version_is_migrated(tmp_path: Path, version: int) -> None:
    old = open_writer(str(tmp_path / "old.db"), Durability.LASTING)
    for migration in MIGRATIONS[:version]:
        run_migration(old, migration)
    old.pragma("user_version", version)
    old.execute("INSERT INTO workspace(id, root, created_at) VALUES('a', '/a', 5.0)")
    old.execute("INSERT INTO moves(old_path, new_path, digest, seen_at) VALUES('a', 'b', 'd', 1.0)")
    old.pragma("journal_mode", "delete")
    old.close()
    staged = stage(tmp_path / "old.db", tmp_path / "here" / "records.db")
    adopt_here(staged)
    connection = apsw.Connection(str(staged))
    assert connection.pragma("user_version") == len(MIGRATIONS)
    rows = connection.execute("SELECT id, root, created_at, inode FROM workspace").fetchall()
    assert rows == [("here", "/here", 5.0, "7")]
    assert connection.execute("SELECT count(*) FROM moves").get == 1
    connection.close()


def test_a_backup_of_another_workspace_is_adopted(here: Records, open_records: Open) -> None:
    there = open_records("there")
    write(there, 1, 2, 3)
    there.remember_disk(77)
    change = Intended(path="half.md", old=None, new=b"half\n")
    there.history.begin(at_s=9.0, client="", command="create", path="half.md", changes=[change])
    staged = stage(take(back_up(there.path)).path, here.path)
    adopt_here(staged)
    assert [(owner.id, owner.root) for owner in peek_owners(staged, newest_version=99)] == [
        ("here", "/here")
    ]
    here.close()
    assert swap_in(staged, here.path, now_s=9.0, is_kept=False) is None
    again = open_records("here")
    assert (again.foreign, again.set_aside, again.disk) == (None, None, None)
    # Whether the intended change has happened is not known here.
    assert again.history.find_intended() == []
    assert read_paths(again.path) == ["1.md", "2.md", "3.md"]
    assert [name for name in list_names(again.path) if "." in name.removeprefix("records.db")] == []


def test_wal_files_beside_a_staged_file_are_not_merged_into_it(here: Records) -> None:
    staged = stage(take(back_up(here.path)).path, here.path)
    write(here, 4)
    shutil.copy(f"{here.path}-wal", f"{staged}-wal")
    adopt_here(staged)
    assert read_paths(staged) == ["0.md", "3.md"]


@pytest.mark.parametrize("has_links", [True, False])
def test_the_former_history_is_kept_beside_the_new_one(
    here: Records, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", refuse_links)
    staged = stage(take(back_up(here.path)).path, here.path)
    write(here, 4)
    adopt_here(staged)
    here.close()
    first = swap_in(staged, here.path, now_s=9.0, is_kept=True)
    assert first is not None
    assert read_paths(first) == ["0.md", "3.md", "4.md"]
    assert read_paths(here.path) == ["0.md", "3.md"]
    staged = stage(first, here.path)
    adopt_here(staged)
    second = swap_in(staged, here.path, now_s=9.0, is_kept=True)
    assert second not in (None, first)
    remove_leftovers(here.path)
    assert list_names(here.path) == sorted(["records.db", first.name, str(second and second.name)])


def refuse_links(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


def test_a_history_that_another_program_has_open_is_not_replaced(
    here: Records, open_records: Open
) -> None:
    staged = stage(take(back_up(here.path)).path, here.path)
    write(here, 4)
    adopt_here(staged)
    here.close()
    other = apsw.Connection(str(here.path))
    other.execute("BEGIN; SELECT * FROM change_sets").fetchall()
    with pytest.raises(StoreFailed, match="another program") as caught:
        swap_in(staged, here.path, now_s=9.0, is_kept=True)
    assert "close it" in caught.value.hint
    other.close()
    again = open_records("here")
    assert len(again.history.find_revisions(limit=9)) == 3


@pytest.mark.life
def test_a_kill_at_any_line_of_a_restore_leaves_the_old_or_the_new_history_whole(
    here: Records, tmp_path: Path
) -> None:
    made = Path(shutil.move(take(back_up(here.path)).path, tmp_path / "made.db"))
    write(here, 4)
    former, seen = ["0.md", "3.md", "4.md"], set()
    here.close()
    shutil.copytree(here.path.parent, tmp_path / "before")
    for n_lines in range(1, 500):
        shutil.rmtree(here.path.parent)
        shutil.copytree(tmp_path / "before", here.path.parent)
        is_killed = restore_and_kill(stage(made, here.path), here.path, n_lines)
        aside = list(here.path.parent.glob("*.replaced-*"))
        remove_leftovers(here.path)
        assert here.path.exists()
        again = Records(here.path, workspace="here", root="/here", now_s=1.0)
        again.close()
        assert again.set_aside is None
        assert again.foreign is None
        names = {file.name for file in here.path.parent.iterdir()}
        paths = read_paths(here.path)
        assert paths in (former, ["0.md", "3.md"]), n_lines
        is_new = paths != former
        seen.add((is_killed, is_new, bool(aside)))
        kept = [file for file in aside if file.exists()]
        assert [read_paths(file) for file in kept] == ([former] if is_new else []), n_lines
        assert names == {"records.db", "records.db-check", *(file.name for file in kept)}
        if not is_killed:
            break
    # Killed before the file is kept, after that, after the rename, and not at all.
    assert seen == {
        (True, False, False),
        (True, False, True),
        (True, True, True),
        (False, True, True),
    }


def restore_and_kill(staged: Path, records: Path, n_lines: int) -> bool:
    """Restore in a process that kills itself before a line of backup.py.

    Returns false if the process ran to its end.
    """
    child = os.fork()
    if child == 0:
        try:
            sys.settrace(make_killer(n_lines))
            adopt_here(staged)
            swap_in(staged, records, now_s=9.0, is_kept=True)
            sys.settrace(None)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return os.WIFSIGNALED(status)


def make_killer(n_lines: int) -> Callable[[FrameType, str, object], Any]:
    left = n_lines

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != backup.__file__ or "schema" in frame.f_code.co_qualname:
            return None  # the schema is only read
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def test_the_revisions_of_a_file_are_counted(here: Records) -> None:
    assert count_revisions(here.path) == 2
