from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from memsyncd.core.digest import digest_bytes
from memsyncd.core.model import Attributes
from memsyncd.errors import StoreFull
from memsyncd.store import history as history_module
from memsyncd.store.history import History, Intended, ObservedNote, Revision
from memsyncd.store.records import Records

NOTE = b"".join(b"%d: a line of the note as it stood\n" % number for number in range(100))


@pytest.fixture
def open_records(tmp_path: Path) -> Iterator[Callable[[], Records]]:
    opened: list[Records] = []

    def open_one() -> Records:
        opened.append(
            Records(
                tmp_path / "state" / "records.db",
                workspace="project-1",
                root="/home/ada",
                now_s=1.0,
            )
        )
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def records(open_records: Callable[[], Records]) -> Records:
    return open_records()


@pytest.fixture
def history(records: Records) -> History:
    return records.history


def write(
    history: History,
    path: str,
    old: bytes | None,
    new: bytes | None,
    *,
    moved_from: str | None = None,
    client: str = "ada",
    at_s: float = 1.0,
) -> int:
    """Record a finished change set on a note."""
    change = Intended(path=path, old_path=moved_from, old=old, new=new)
    number = history.begin(
        at_s=at_s,
        client=client,
        command="edit",
        path=moved_from or path,
        new_path=path,
        changes=[change],
    )
    history.finish(number)
    return number


def begin(history: History, *changes: Intended, at_s: float = 1.0) -> int:
    """Record an intended change set."""
    path = changes[0].path
    return history.begin(at_s=at_s, client="ada", command="edit", path=path, changes=changes)


def places(revisions: list[Revision]) -> list[tuple[str, str | None]]:
    return [(revision.path, revision.old_path) for revision in revisions]


def count_rows(records: Records) -> tuple[int, ...]:
    tables = ("blobs", "heads", "change_sets", "revisions")
    return tuple(
        int(records._writer.execute(f"SELECT count(*) FROM {table}").get) for table in tables
    )


def test_a_revision_has_its_writer_its_time_and_its_change(history: History) -> None:
    change = Intended(path="f/b.md", old_path="a.md", old=b"one\n", new=b"two\n\n")
    number = history.begin(
        at_s=12.5, client="claude", command="rename", path="a.md", new_path="f", changes=[change]
    )
    history.finish(number)
    [revision] = history.find_revisions()
    assert revision == Revision(
        id=revision.id,
        change_set=number,
        at_s=12.5,
        client="claude",
        command="rename",
        path="f/b.md",
        old_path="a.md",
        old_digest=digest_bytes(b"one\n"),
        new_digest=digest_bytes(b"two\n\n"),
        old_bytes=4,
        new_bytes=5,
        is_kept=True,
    )
    assert history.heads() == {"f/b.md": digest_bytes(b"two\n\n")}


def test_the_number_of_a_change_set_or_revision_is_never_reused(history: History) -> None:
    number = begin(history, Intended(path="a.md", old=None, new=b"y"))
    [(_, [revision])] = history.find_intended()
    history.discard(number)
    assert write(history, "a.md", None, b"z") > number
    assert history.find_revisions()[0].id > revision.id


def test_a_change_set_takes_further_changes_and_keeps_the_settled_ones(history: History) -> None:
    def go_on(number: int, path: str) -> int:
        change = Intended(path=path, old=None, new=b"x")
        return history.begin(
            at_s=2.0, client="ada", command="edit", path=".", changes=[change], continues=number
        )

    number = write(history, "a.md", None, b"x")
    # A crash rolls back the portion that it interrupted, and nothing before it.
    assert go_on(number, "b.md") == number
    [(intended, [revision])] = history.find_intended()
    assert (intended, revision.path) == (number, "b.md")
    history.discard(number)
    assert go_on(number, "c.md") == number
    history.finish(number)
    assert places(history.find_revisions(change_set=number)) == [("c.md", None), ("a.md", None)]
    assert go_on(number + 1, "d.md") == number + 1


def test_it_is_known_to_be_settled_only_after_a_look(open_records: Callable[[], Records]) -> None:
    history = open_records().history
    assert not history.is_settled
    assert history.find_intended() == []
    assert history.is_settled
    number = begin(history, Intended(path="MEMORY.md", old=None, new=b"new\n"))
    assert not history.is_settled
    assert len(history.find_intended()) == 1
    assert not history.is_settled
    history.finish(number)
    assert history.is_settled
    assert history.find_intended() == []
    assert not open_records().history.is_settled


def test_a_settled_change_set_stays_settled(history: History) -> None:
    number = write(history, "a.md", None, b"x")
    history.discard(number)
    assert len(history.find_revisions(change_set=number)) == 1
    assert history.heads() == {"a.md": digest_bytes(b"x")}


KILLED = """
import os, signal, sys
from pathlib import Path
from memsyncd.store.history import Intended
from memsyncd.store.records import Records
records = Records(Path(sys.argv[1]), workspace="project-1", root="/home/ada", now_s=1.0)
change = Intended(path="a.md", old=b"before", new=b"after")
print(records.history.begin(at_s=5, client="ada", command="create", path="a.md", changes=[change]), flush=True)
if sys.argv[2] == "finished":
    records.history.finish(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["begun", "finished"])
def test_a_killed_process_leaves_its_intended_change_set(
    when: str, tmp_path: Path, open_records: Callable[[], Records]
) -> None:
    path = tmp_path / "state" / "records.db"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, path, when], stdout=subprocess.PIPE, check=False, timeout=30
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"1\n")
    history = open_records().history
    intended = [
        (number, [revision.path for revision in revisions])
        for number, revisions in history.find_intended()
    ]
    assert intended == ([(1, ["a.md"])] if when == "begun" else [])
    assert [revision.path for revision in history.find_revisions()] == (
        [] if when == "begun" else ["a.md"]
    )
    assert history.read_text(digest_bytes(b"before")) == b"before"
    assert history.read_text(digest_bytes(b"after")) == b"after"


def test_a_full_disk_refuses_a_write_before_it_begins(records: Records) -> None:
    history = records.history
    write(history, "a.md", None, NOTE)
    before = count_rows(records), history.heads()
    change = Intended(path="a.md", old=NOTE, new=random.Random(1).randbytes(500_000))
    limit = records._writer.pragma("page_count") + 8
    records._writer.execute(f"PRAGMA max_page_count = {limit}")
    with pytest.raises(StoreFull):
        begin(history, change)
    assert (count_rows(records), history.heads()) == before
    assert history.find_intended() == []
    records._writer.execute("PRAGMA max_page_count = 100000")
    history.finish(begin(history, change))
    assert history.read_text(history.heads()["a.md"]) == change.new


# --- what others change


def test_the_first_recording_of_a_workspace_stores_texts_without_revisions(
    history: History,
) -> None:
    assert not history.is_complete("all")
    assert (
        history.record_external(
            [ObservedNote(path="a.md", data=b"one"), ObservedNote(path="b.md", data=b"two")],
            at_s=1,
            is_first=True,
        )
        == []
    )
    history.set_complete("all")
    assert history.find_revisions() == []
    assert history.record_external(
        [ObservedNote(path="a.md", data=b"three")], at_s=2, is_first=False
    ) == ["a.md"]
    [revision] = history.find_revisions()
    assert (revision.client, revision.command) == ("", "external")
    assert revision.old_digest == digest_bytes(b"one")
    assert history.read_text(digest_bytes(b"one")) == b"one"


def test_the_end_of_the_first_recording_is_stored(open_records: Callable[[], Records]) -> None:
    first = open_records()
    first.history.set_complete("some")
    first.history.set_complete("all")
    assert first.history.is_complete("all")
    first.close()
    second = open_records().history
    assert (second.is_complete("all"), second.is_complete("some")) == (True, False)


def test_a_note_that_was_there_before_it_was_noticed_is_first_seen(history: History) -> None:
    attributes = Attributes(mode=0o640, mtime_ns=7)
    seen = [
        ObservedNote(path="old.md", data=b"old", attributes=attributes),
        ObservedNote(path="new.md", data=b"new", is_new=True),
    ]
    assert history.record_external(seen, at_s=1, is_first=False) == ["new.md", "old.md"]
    revisions = {
        revision.path: (revision.change_set, revision.client, revision.command)
        for revision in history.find_revisions()
    }
    assert revisions == {"new.md": (1, "", "external"), "old.md": (2, "", "first_seen")}
    history.record_external([ObservedNote(path="old.md", data=None)], at_s=2, is_first=False)
    [gone, _, _] = history.find_revisions()
    assert (gone.command, gone.old_attributes) == ("external", attributes)


def test_the_attributes_of_a_file_follow_it_through_edits_and_renames(history: History) -> None:
    first, second = Attributes(0o600, 5), Attributes(0o644, 9)
    seen = [ObservedNote(path="a.md", data=b"one", attributes=first)]
    history.record_external(seen, at_s=1, is_first=True)
    write(history, "b.md", b"one", b"one", moved_from="a.md")
    edit = Intended(path="b.md", old=b"one", new=b"two", old_attributes=first)
    history.finish(begin(history, edit), {"b.md": second})
    history.record_external([ObservedNote(path="b.md", data=None)], at_s=4, is_first=False)
    assert [revision.old_attributes for revision in history.find_revisions()] == [
        second,
        first,
        None,
    ]


def test_a_change_during_the_first_recording_is_a_revision(
    history: History,
) -> None:
    history.record_external(
        [ObservedNote(path="a.md", data=b"one"), ObservedNote(path="gone.md", data=b"x")],
        at_s=1,
        is_first=True,
    )
    later = [
        ObservedNote(path="a.md", data=b"two"),
        ObservedNote(path="gone.md", data=None),
        ObservedNote(path="new.md", data=b"new", is_new=True),
        ObservedNote(path="old.md", data=b"old"),
    ]
    assert history.record_external(later, at_s=2, is_first=True) == ["a.md", "gone.md", "new.md"]
    assert {(revision.path, revision.old_digest) for revision in history.find_revisions()} == {
        ("a.md", digest_bytes(b"one")),
        ("gone.md", digest_bytes(b"x")),
        ("new.md", None),
    }
    assert history.read_text(digest_bytes(b"one")) == b"one"
    assert history.find_heads(["a.md", "gone.md", "old.md"]) == {
        "a.md": digest_bytes(b"two"),
        "old.md": digest_bytes(b"old"),
    }


def test_a_note_moved_by_another_program_keeps_its_history(history: History) -> None:
    write(history, "a.md", None, b"x")
    seen = [
        ObservedNote(path="a.md", data=None),
        ObservedNote(path="f/b.md", data=b"x", moved_from="a.md"),
    ]
    assert history.record_external(seen, at_s=2, is_first=False) == ["f/b.md"]
    assert places(history.find_revisions(path="f/b.md")) == [("f/b.md", "a.md"), ("a.md", None)]
    assert history.heads() == {"f/b.md": digest_bytes(b"x")}
    assert (
        history.record_external([ObservedNote(path="a.md", data=None)], at_s=3, is_first=False)
        == []
    )


def test_notes_that_swapped_paths_are_two_moves(history: History) -> None:
    write(history, "a.md", None, b"x")
    write(history, "b.md", None, b"y")
    seen = [
        ObservedNote(path="a.md", data=b"y", moved_from="b.md"),
        ObservedNote(path="b.md", data=b"x", moved_from="a.md"),
    ]
    history.record_external(seen, at_s=2, is_first=False)
    assert places(history.find_revisions(limit=2)) == [("b.md", "a.md"), ("a.md", "b.md")]
    assert history.heads() == {"a.md": digest_bytes(b"y"), "b.md": digest_bytes(b"x")}


def test_a_note_that_another_was_moved_over_is_recorded_as_deleted(history: History) -> None:
    write(history, "a.md", None, b"x")
    write(history, "b.md", None, b"y")
    history.record_external(
        [ObservedNote(path="b.md", data=b"x", moved_from="a.md")], at_s=2, is_first=False
    )
    moved, went = history.find_revisions(limit=2)
    assert (moved.path, moved.old_path) == ("b.md", "a.md")
    assert (went.path, went.old_digest, went.new_digest) == ("b.md", digest_bytes(b"y"), None)


def test_a_note_moved_from_an_unknown_path_is_new(history: History) -> None:
    seen = [
        ObservedNote(path="b.md", data=b"x", moved_from="a.md"),
        ObservedNote(path="c.md", data=b"y", moved_from="c.md"),
    ]
    history.record_external(seen, at_s=2, is_first=False)
    assert places(history.find_revisions()) == [("c.md", None), ("b.md", None)]


def test_one_of_two_copies_of_a_moved_note_continues_its_history_and_the_other_is_new(
    history: History,
) -> None:
    write(history, "a.md", None, b"x")
    seen = [
        ObservedNote(path="b.md", data=b"x", moved_from="a.md"),
        ObservedNote(path="c.md", data=b"x", moved_from="a.md"),
    ]
    history.record_external(seen, at_s=2, is_first=False)
    assert sorted(places(history.find_revisions(limit=2)), key=str) == [
        ("b.md", None),
        ("c.md", "a.md"),
    ]
    assert set(history.heads()) == {"b.md", "c.md"}


# --- finding


def test_revisions_come_newest_first_page_by_page(history: History) -> None:
    for number in range(7):
        write(history, "a.md", b"%d" % number if number else None, b"%d" % (number + 1))
    everything = history.find_revisions()
    assert [revision.id for revision in everything] == sorted(
        (revision.id for revision in everything), reverse=True
    )
    first = history.find_revisions(limit=3)
    second = history.find_revisions(limit=3, before=first[-1].id)
    assert first + second + history.find_revisions(limit=3, before=second[-1].id) == everything
    assert history.find_revisions(revision=second[0].id) == second[:1]
    assert history.find_revisions(change_set=second[0].change_set, path="other.md") == []


def test_history_continues_under_former_paths(history: History) -> None:
    write(history, "a.md", None, b"1")
    write(history, "b.md", b"1", b"1", moved_from="a.md")
    write(history, "b.md", b"1", b"2")
    write(history, "f/c.md", b"2", b"2", moved_from="b.md")
    expected = [("f/c.md", "b.md"), ("b.md", None), ("b.md", "a.md"), ("a.md", None)]
    assert places(history.find_revisions(path="f/c.md")) == expected
    assert (
        places(
            history.find_revisions(path="f/c.md", limit=9, before=history.find_revisions()[1].id)
        )
        == expected[2:]
    )


def test_a_new_note_at_a_former_path_has_its_own_history(history: History) -> None:
    write(history, "a.md", None, b"1")
    write(history, "b.md", b"1", b"1", moved_from="a.md")
    write(history, "a.md", None, b"another")
    assert places(history.find_revisions(path="b.md")) == [("b.md", "a.md"), ("a.md", None)]
    assert history.find_revisions(path="b.md")[1].new_digest == digest_bytes(b"1")


def test_a_note_that_was_renamed_back_and_forth_is_listed_once(history: History) -> None:
    write(history, "a.md", None, b"1")
    for old, new in (("a.md", "b.md"), ("b.md", "a.md"), ("a.md", "b.md")):
        write(history, new, b"1", b"1", moved_from=old)
    assert len(history.find_revisions(path="b.md")) == 4


def test_a_folder_has_the_history_of_its_notes_from_before_its_rename_too(
    history: History,
) -> None:
    write(history, "f/a.md", None, b"1")
    write(history, "f0/other.md", None, b"1")
    write(history, "f.md", None, b"1")
    changes = [Intended(path="g/a.md", old_path="f/a.md", old=b"1", new=b"1")]
    history.finish(
        history.begin(at_s=1, client="", command="rename", path="f", new_path="g", changes=changes)
    )
    assert places(history.find_revisions(path="g")) == [("g/a.md", "f/a.md"), ("f/a.md", None)]
    assert places(history.find_revisions(path="f")) == [("g/a.md", "f/a.md"), ("f/a.md", None)]


def test_no_query_scans_all_revisions(records: Records) -> None:
    requested: list[tuple[str, object]] = []
    records._writer.exec_trace = lambda cursor, statement, bindings: (
        requested.append((statement, bindings)) is None
    )
    records.history.find_revisions(path="a.md", before=5)
    records.history.find_revisions(change_set=1)
    records.history.find_intended()
    records._writer.exec_trace = None
    assert len(requested) == 3
    for statement, bindings in requested:
        plan = [
            row[3] for row in records._writer.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)
        ]  # type: ignore[arg-type]
        assert not [
            step
            for step in plan
            if step.startswith("SCAN revisions") and "revisions_intended" not in step
        ]


# --- dropping


def test_many_revisions_are_dropped_in_steps(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "PRUNE_STEP", 2)
    for number in range(5):
        write(history, f"{number}.md", None, b"x")
    steps = [history.prune(max_revisions=9, max_age_s=1, now_s=100) for _ in range(4)]
    assert steps == [2, 2, 1, 0]


def test_an_intended_change_set_is_not_dropped_whatever_its_age(history: History) -> None:
    begin(history, Intended(path="a.md", old=b"x", new=b"y"))
    assert history.prune(max_revisions=1, max_age_s=1, now_s=100) == 0
    assert len(history.find_intended()) == 1


def test_no_byte_of_a_purged_text_remains_in_the_files(records: Records) -> None:
    """Random bytes are stored unchanged, so the test can search for them.

    SQLite's own zeroing leaves some of these.
    """
    chance, history = random.Random(2), records.history
    records._writer.pragma("synchronous", "OFF")
    notes: dict[str, bytes] = {}
    sizes = (20, 100, 200, 400)
    for number in range(400):
        path = f"{chance.randrange(10)}.md"
        text = notes.get(path, b"")
        at = chance.randrange(len(text) + 1)
        notes[path] = (
            text[:at] + chance.randbytes(chance.choice(sizes)) + text[at + chance.choice(sizes) :]
        )
        write(history, path, text or None, notes[path])
        if number % 10 == 0:
            history.prune(max_revisions=20, max_age_s=100, now_s=1)
    revisions = history.find_revisions(limit=1000)
    digests = {
        digest
        for revision in revisions
        for digest in (revision.old_digest, revision.new_digest)
        if digest is not None
    }
    texts = {digest: history.read_text(digest) or b"" for digest in digests}
    history.purge(revisions=[revision.id for revision in chance.sample(revisions, 100)])
    stays = {
        piece for digest, data in texts.items() if history.read_text(digest) for piece in cut(data)
    }
    gone = {piece for data in texts.values() for piece in cut(data)} - stays
    assert len(gone) > 1000
    assert not gone & {piece for data in read_files(records.path) for piece in cut(data)}


def cut(data: bytes) -> set[bytes]:
    return {data[at : at + 16] for at in range(len(data) - 15)}


def read_files(path: Path) -> list[bytes]:
    return [file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")]


def test_wiping_that_another_program_prevents_is_reported_and_done_later(
    records: Records,
) -> None:
    history, secret = records.history, random.Random(2).randbytes(300)
    write(history, "a.md", None, secret)
    write(history, "a.md", secret, b"none")
    other = apsw.Connection(str(records.path), flags=apsw.SQLITE_OPEN_READONLY)
    reading = other.execute("SELECT data FROM blobs")
    next(reading)
    done = history.purge(revisions=[revision.id for revision in history.find_revisions()])
    assert (done.n_revisions, done.n_texts, done.is_clean) == (2, 1, False)
    assert any(cut(secret) & cut(data) for data in read_files(records.path))
    other.close()
    history.prune(max_revisions=9, max_age_s=100, now_s=1)
    assert not any(cut(secret) & cut(data) for data in read_files(records.path))
    assert history.purge(revisions=[]).is_clean


def test_an_interrupted_purge_is_completed_after_the_next_start(
    open_records: Callable[[], Records], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, secret = open_records(), random.Random(2).randbytes(300)
    write(first.history, "a.md", None, secret)
    write(first.history, "a.md", secret, b"none")
    with monkeypatch.context() as patch:
        patch.setattr(History, "_wipe", lambda self: None)
        first.history.purge(revisions=[revision.id for revision in first.history.find_revisions()])
    first.close()
    second = open_records()
    assert second._writer.execute("SELECT value FROM meta WHERE key = 'is_unwiped'").get
    second.history.prune(max_revisions=9, max_age_s=100, now_s=1)
    assert second._writer.execute("SELECT value FROM meta WHERE key = 'is_unwiped'").get is None
    assert not any(cut(secret) & cut(data) for data in read_files(second.path))
