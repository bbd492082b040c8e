from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from memsyncd.core.digest import digest_bytes
from memsyncd.errors import StoreFull
from memsyncd.store import history as history_module
from memsyncd.store.history import History, Intended, ObservedNote, Revision
from memsyncd.store.records import Records
from tests.programs import succeeds

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
    for one in opened:
        one.close()


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
    """One finished act on one note."""
    change = Intended(path=path, old_path=moved_from, old=old, new=new)
    act = history.begin(
        at_s=at_s,
        client=client,
        command="edit",
        path=moved_from or path,
        new_path=path,
        changes=[change],
    )
    history.finish(act)
    return act


def places(revisions: list[Revision]) -> list[tuple[str, str | None]]:
    return [(one.path, one.old_path) for one in revisions]


def count_rows(records: Records) -> tuple[int, ...]:
    tables = ("blobs", "heads", "acts", "revisions")
    return tuple(
        int(records._writer.execute(f"SELECT count(*) FROM {table}").get) for table in tables
    )


def test_a_revision_says_who_changed_what_and_when(history: History) -> None:
    change = Intended(path="f/b.md", old_path="a.md", old=b"one\n", new=b"two\n\n")
    act = history.begin(
        at_s=12.5, client="claude", command="rename", path="a.md", new_path="f", changes=[change]
    )
    history.finish(act)
    [found] = history.find_revisions()
    assert found == Revision(
        id=found.id,
        act=act,
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


def test_what_is_only_intended_is_no_history_yet(history: History) -> None:
    act = history.begin(
        at_s=1,
        client="",
        command="create",
        path="a.md",
        changes=[Intended(path="a.md", old=None, new=b"x")],
    )
    assert history.find_revisions() == []
    assert history.heads() == {}
    [(intended, [revision])] = history.find_intended()
    assert (intended, revision.path, revision.new_digest) == (act, "a.md", digest_bytes(b"x"))


def test_what_is_taken_back_leaves_nothing(records: Records) -> None:
    before = count_rows(records)
    act = records.history.begin(
        at_s=1,
        client="",
        command="edit",
        path="a.md",
        changes=[Intended(path="a.md", old=b"x", new=b"y")],
    )
    records.history.take_back(act)
    assert count_rows(records) == before
    assert records.history.find_intended() == []


def test_the_number_of_an_act_or_revision_is_never_given_twice(history: History) -> None:
    act = history.begin(
        at_s=1,
        client="",
        command="edit",
        path="a.md",
        changes=[Intended(path="a.md", old=None, new=b"y")],
    )
    [(_, [revision])] = history.find_intended()
    history.take_back(act)
    assert write(history, "a.md", None, b"z") > act
    assert history.find_revisions()[0].id > revision.id


def test_of_an_act_on_several_notes_what_happened_is_history_and_the_rest_is_not(
    history: History,
) -> None:
    changes = [Intended(path=f"{number}.md", old=b"%d" % number, new=None) for number in range(3)]
    act = history.begin(at_s=1, client="", command="delete", path="", changes=changes)
    [(_, revisions)] = history.find_intended()
    history.settle(act, [revisions[2].id, revisions[0].id])
    assert [one.path for one in history.find_revisions(act=act)] == ["2.md", "0.md"]
    assert history.read_text(digest_bytes(b"1")) is None
    assert history.find_intended() == []


def test_what_is_settled_stays_so(history: History) -> None:
    act = write(history, "a.md", None, b"x")
    history.take_back(act)
    assert len(history.find_revisions(act=act)) == 1
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
def test_a_process_that_is_killed_leaves_what_it_was_told(
    when: str, tmp_path: Path, open_records: Callable[[], Records]
) -> None:
    path = tmp_path / "state" / "records.db"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, path, when], stdout=subprocess.PIPE, check=False, timeout=30
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"1\n")
    history = open_records().history
    intended = [
        (act, [one.path for one in revisions]) for act, revisions in history.find_intended()
    ]
    assert intended == ([(1, ["a.md"])] if when == "begun" else [])
    assert [one.path for one in history.find_revisions()] == ([] if when == "begun" else ["a.md"])
    assert history.read_text(digest_bytes(b"before")) == b"before"
    assert history.read_text(digest_bytes(b"after")) == b"after"


def test_a_full_disk_stops_a_write_before_it_has_begun(records: Records) -> None:
    history = records.history
    write(history, "a.md", None, NOTE)
    before = count_rows(records), history.heads()
    change = Intended(path="a.md", old=NOTE, new=random.Random(1).randbytes(500_000))
    limit = records._writer.pragma("page_count") + 8
    records._writer.execute(f"PRAGMA max_page_count = {limit}")
    with pytest.raises(StoreFull):
        history.begin(at_s=2, client="", command="edit", path="a.md", changes=[change])
    assert (count_rows(records), history.heads()) == before
    assert history.find_intended() == []
    records._writer.execute("PRAGMA max_page_count = 100000")
    history.finish(history.begin(at_s=2, client="", command="edit", path="a.md", changes=[change]))
    assert history.read_text(history.heads()["a.md"]) == change.new


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "state"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k,mode=700", "none", str(folder)]
    if os.geteuid() != 0 or not succeeds(*mount):
        pytest.skip("only root may mount a small disk, and not everywhere")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_really_full_stops_a_write_too_and_keeps_what_was_there(
    small_disk: Path, records: Records
) -> None:
    history = records.history
    write(history, "a.md", None, NOTE)
    large = Intended(path="a.md", old=NOTE, new=random.Random(1).randbytes(500_000))
    with pytest.raises(StoreFull):
        history.begin(at_s=2, client="", command="edit", path="a.md", changes=[large])
    assert history.find_intended() == []
    assert history.read_text(history.heads()["a.md"]) == NOTE
    write(history, "a.md", NOTE, NOTE + b"still room for this\n")
    assert len(history.find_revisions()) == 2


# --- what others change


def test_a_workspace_seen_for_the_first_time_has_no_history_but_its_texts_are_known(
    history: History,
) -> None:
    assert not history.is_complete
    assert (
        history.record_external(
            [ObservedNote(path="a.md", data=b"one"), ObservedNote(path="b.md", data=b"two")],
            at_s=1,
            is_first=True,
        )
        == []
    )
    history.set_complete()
    assert history.find_revisions() == []
    assert history.record_external(
        [ObservedNote(path="a.md", data=b"three")], at_s=2, is_first=False
    ) == ["a.md"]
    [found] = history.find_revisions()
    assert (found.client, found.command, found.old_digest) == ("", "outside", digest_bytes(b"one"))
    assert history.read_text(digest_bytes(b"one")) == b"one"


def test_that_everything_was_seen_once_is_remembered(open_records: Callable[[], Records]) -> None:
    first = open_records()
    first.history.set_complete()
    first.history.set_complete()
    assert first.history.is_complete
    first.close()
    assert open_records().history.is_complete


def test_what_is_as_it_was_when_last_heard_of_is_no_change(records: Records) -> None:
    write(records.history, "a.md", None, b"x")
    before = count_rows(records)
    seen = [ObservedNote(path="a.md", data=b"x"), ObservedNote(path="gone.md", data=None)]
    assert records.history.record_external(seen, at_s=2, is_first=False) == []
    assert count_rows(records) == before


def test_what_changes_while_a_workspace_is_seen_for_the_first_time_is_a_revision(
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
    assert {(one.path, one.old_digest) for one in history.find_revisions()} == {
        ("a.md", digest_bytes(b"one")),
        ("gone.md", digest_bytes(b"x")),
        ("new.md", None),
    }
    assert history.read_text(digest_bytes(b"one")) == b"one"
    assert history.find_heads(["a.md", "gone.md", "old.md"]) == {
        "a.md": digest_bytes(b"two"),
        "old.md": digest_bytes(b"old"),
    }


def test_a_note_moved_outside_keeps_its_history(history: History) -> None:
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


def test_notes_that_changed_places_are_two_moves(history: History) -> None:
    write(history, "a.md", None, b"x")
    write(history, "b.md", None, b"y")
    seen = [
        ObservedNote(path="a.md", data=b"y", moved_from="b.md"),
        ObservedNote(path="b.md", data=b"x", moved_from="a.md"),
    ]
    history.record_external(seen, at_s=2, is_first=False)
    assert places(history.find_revisions(limit=2)) == [("b.md", "a.md"), ("a.md", "b.md")]
    assert history.heads() == {"a.md": digest_bytes(b"y"), "b.md": digest_bytes(b"x")}


def test_a_note_that_another_was_moved_over_is_not_forgotten(history: History) -> None:
    write(history, "a.md", None, b"x")
    write(history, "b.md", None, b"y")
    history.record_external(
        [ObservedNote(path="b.md", data=b"x", moved_from="a.md")], at_s=2, is_first=False
    )
    moved, went = history.find_revisions(limit=2)
    assert (moved.path, moved.old_path) == ("b.md", "a.md")
    assert (went.path, went.old_digest, went.new_digest) == ("b.md", digest_bytes(b"y"), None)


def test_a_note_that_comes_from_where_none_was_is_new(history: History) -> None:
    seen = [
        ObservedNote(path="b.md", data=b"x", moved_from="a.md"),
        ObservedNote(path="c.md", data=b"y", moved_from="c.md"),
    ]
    history.record_external(seen, at_s=2, is_first=False)
    assert places(history.find_revisions()) == [("c.md", None), ("b.md", None)]


def test_of_two_copies_of_a_note_that_went_one_is_it_and_the_other_is_new(history: History) -> None:
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
    assert [one.id for one in everything] == sorted((one.id for one in everything), reverse=True)
    first = history.find_revisions(limit=3)
    second = history.find_revisions(limit=3, before=first[-1].id)
    assert first + second + history.find_revisions(limit=3, before=second[-1].id) == everything
    assert history.find_revisions(revision=second[0].id) == second[:1]
    assert history.find_revisions(act=second[0].act, path="other.md") == []


def test_history_goes_on_under_the_names_before(history: History) -> None:
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


def test_another_note_that_takes_an_old_name_has_a_history_of_its_own(history: History) -> None:
    write(history, "a.md", None, b"1")
    write(history, "b.md", b"1", b"1", moved_from="a.md")
    write(history, "a.md", None, b"another")
    assert places(history.find_revisions(path="b.md")) == [("b.md", "a.md"), ("a.md", None)]
    assert history.find_revisions(path="b.md")[1].new_digest == digest_bytes(b"1")


def test_the_old_name_tells_where_a_note_went(history: History) -> None:
    write(history, "a.md", None, b"1")
    write(history, "b.md", b"1", b"1", moved_from="a.md")
    write(history, "b.md", b"1", b"2")
    assert places(history.find_revisions(path="a.md")) == [("b.md", "a.md"), ("a.md", None)]


def test_a_note_that_was_there_and_back_again_is_followed_once(history: History) -> None:
    write(history, "a.md", None, b"1")
    for old, new in (("a.md", "b.md"), ("b.md", "a.md"), ("a.md", "b.md")):
        write(history, new, b"1", b"1", moved_from=old)
    assert len(history.find_revisions(path="b.md")) == 4


def test_a_folder_has_the_history_of_its_notes_even_from_before_it_was_renamed(
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


def test_no_search_goes_through_all_that_ever_happened(records: Records) -> None:
    asked: list[tuple[str, object]] = []
    records._writer.exec_trace = lambda cursor, statement, bindings: (
        asked.append((statement, bindings)) is None
    )
    records.history.find_revisions(path="a.md", before=5)
    records.history.find_revisions(act=1)
    records.history.find_intended()
    records._writer.exec_trace = None
    assert len(asked) == 3
    for statement, bindings in asked:
        plan = [
            row[3] for row in records._writer.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)
        ]  # type: ignore[arg-type]
        assert not [
            step
            for step in plan
            if step.startswith("SCAN revisions") and "revisions_intended" not in step
        ]


# --- dropping


def test_only_so_many_revisions_of_a_note_are_kept(records: Records) -> None:
    history = records.history
    for number in range(10):
        write(
            history, "a.md", NOTE + b"%d" % (number - 1) if number else None, NOTE + b"%d" % number
        )
    write(history, "b.md", None, b"b")
    assert history.prune(max_revisions=3, max_age_s=100, now_s=1) == 7
    assert history.prune(max_revisions=3, max_age_s=100, now_s=1) == 0
    assert [one.path for one in history.find_revisions()] == ["b.md", "a.md", "a.md", "a.md"]
    assert all(one.is_kept for one in history.find_revisions())
    assert count_rows(records) == (5, 2, 4, 4)


def test_what_is_too_old_is_dropped_but_never_what_a_note_says_now(records: Records) -> None:
    history = records.history
    write(history, "a.md", None, b"one", at_s=10)
    write(history, "a.md", b"one", b"two", at_s=20)
    assert history.prune(max_revisions=9, max_age_s=15, now_s=30) == 1
    assert history.prune(max_revisions=9, max_age_s=15, now_s=100) == 1
    assert count_rows(records) == (1, 1, 0, 0)
    assert history.read_text(history.heads()["a.md"]) == b"two"


def test_a_great_deal_is_dropped_in_steps(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "PRUNE_STEP", 2)
    for number in range(5):
        write(history, f"{number}.md", None, b"x")
    steps = [history.prune(max_revisions=9, max_age_s=1, now_s=100) for _ in range(4)]
    assert steps == [2, 2, 1, 0]


def test_of_one_note_the_oldest_are_dropped_first(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "PRUNE_STEP", 2)
    for number in range(6):
        write(history, "a.md", b"%d" % (number - 1) if number else None, b"%d" % number)
    kept = [one.id for one in history.find_revisions()]
    assert history.prune(max_revisions=2, max_age_s=100, now_s=1) == 2
    assert [one.id for one in history.find_revisions()] == kept[:4]


def test_what_is_intended_is_not_dropped_however_old(history: History) -> None:
    history.begin(
        at_s=1,
        client="",
        command="edit",
        path="a.md",
        changes=[Intended(path="a.md", old=b"x", new=b"y")],
    )
    assert history.prune(max_revisions=1, max_age_s=1, now_s=100) == 0
    assert len(history.find_intended()) == 1


def test_a_purged_revision_is_gone_and_those_beside_it_say_that_a_text_is_missing(
    history: History,
) -> None:
    for old, new in ((None, b"1"), (b"1", b"2 secret"), (b"2 secret", b"3"), (b"3", b"4")):
        write(history, "a.md", old, new)
    fourth, third, second, first = history.find_revisions()
    done = history.purge(revisions=[second.id], texts=[digest_bytes(b"2 secret")])
    assert (done.n_revisions, done.n_texts, done.is_clean) == (1, 1, True)
    assert [(one.id, one.is_kept) for one in history.find_revisions()] == [
        (fourth.id, True),
        (third.id, False),
        (first.id, True),
    ]
    assert history.find_revisions(revision=third.id)[0].old_bytes is None
    assert history.read_text(digest_bytes(b"2 secret")) is None


def test_a_purge_that_names_no_texts_takes_all_that_its_revisions_held(history: History) -> None:
    for old, new in ((None, b"1"), (b"1", b"2"), (b"2", b"3"), (b"3", b"4")):
        write(history, "a.md", old, new)
    assert history.purge(revisions=[history.find_revisions()[2].id]).n_texts == 2
    assert [one.is_kept for one in history.find_revisions()] == [True, False, False]


def test_a_purge_does_not_take_what_a_note_says_today(history: History) -> None:
    write(history, "a.md", None, b"today")
    assert (
        history.purge(
            revisions=[history.find_revisions()[0].id], texts=[digest_bytes(b"today")]
        ).n_texts
        == 0
    )
    assert history.find_revisions() == []
    assert history.read_text(history.heads()["a.md"]) == b"today"


def test_no_byte_of_a_purged_text_stays_in_the_files(records: Records) -> None:
    """Random bytes are stored as they are, so that they can be searched for. SQLite's own zeroing
    leaves some of this story."""
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
        for one in revisions
        for digest in (one.old_digest, one.new_digest)
        if digest is not None
    }
    held = {digest: history.read_text(digest) or b"" for digest in digests}
    history.purge(revisions=[one.id for one in chance.sample(revisions, 100)])
    stays = {
        piece for digest, data in held.items() if history.read_text(digest) for piece in cut(data)
    }
    gone = {piece for data in held.values() for piece in cut(data)} - stays
    assert len(gone) > 1000
    assert not gone & {piece for data in read_files(records.path) for piece in cut(data)}


def cut(data: bytes) -> set[bytes]:
    return {data[at : at + 16] for at in range(len(data) - 15)}


def read_files(path: Path) -> list[bytes]:
    return [file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm")]


def test_what_another_program_keeps_from_being_wiped_is_said_and_wiped_later(
    records: Records,
) -> None:
    history, secret = records.history, random.Random(2).randbytes(300)
    write(history, "a.md", None, secret)
    write(history, "a.md", secret, b"none")
    other = apsw.Connection(str(records.path), flags=apsw.SQLITE_OPEN_READONLY)
    reading = other.execute("SELECT data FROM blobs")
    next(reading)
    done = history.purge(revisions=[one.id for one in history.find_revisions()])
    assert (done.n_revisions, done.n_texts, done.is_clean) == (2, 1, False)
    assert any(cut(secret) & cut(data) for data in read_files(records.path))
    other.close()
    history.prune(max_revisions=9, max_age_s=100, now_s=1)
    assert not any(cut(secret) & cut(data) for data in read_files(records.path))
    assert history.purge(revisions=[]).is_clean


def test_a_purge_that_was_cut_short_is_made_up_for_after_the_next_start(
    open_records: Callable[[], Records], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, secret = open_records(), random.Random(2).randbytes(300)
    write(first.history, "a.md", None, secret)
    write(first.history, "a.md", secret, b"none")
    with monkeypatch.context() as patch:
        patch.setattr(History, "_wipe", lambda self: None)
        first.history.purge(revisions=[one.id for one in first.history.find_revisions()])
    first.close()
    second = open_records()
    assert second._writer.execute("SELECT value FROM meta WHERE key = 'is_unwiped'").get
    second.history.prune(max_revisions=9, max_age_s=100, now_s=1)
    assert second._writer.execute("SELECT value FROM meta WHERE key = 'is_unwiped'").get is None
    assert not any(cut(secret) & cut(data) for data in read_files(second.path))
