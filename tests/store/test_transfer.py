"""Records that go from one records.db to another, and come again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing import pieces
from memsyncd.errors import BadRequest
from memsyncd.store.arrivals import COMMAND, Taken
from memsyncd.store.entries import Entry, PastChange, TextPiece, Tip
from memsyncd.store.export import Place
from memsyncd.store.history import Intended, ObservedNote, Revision
from memsyncd.store.records import Move, Records

NOTE = b"".join(b"%d: a line of the note as it stood\n" % number for number in range(100))
NOTHING = Taken()
Open = Callable[[str], Records]


@pytest.fixture
def open_records(tmp_path: Path) -> Iterator[Open]:
    opened: list[Records] = []

    def open_one(name: str) -> Records:
        opened.append(Records(tmp_path / name / "records.db", workspace=name, root=f"/{name}", now_s=1.0))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def here(open_records: Open) -> Records:
    return open_records("here")


@pytest.fixture
def there(open_records: Open) -> Records:
    return open_records("there")


def write(
    records: Records, path: str, old: bytes | None, new: bytes | None, *, at_s: float, moved_from: str | None = None
) -> None:
    change = Intended(path=path, old_path=moved_from, old=old, new=new)
    named = moved_from or path
    act = records.history.begin(at_s=at_s, client="ada", command="edit", path=named, new_path=path, changes=[change])
    records.history.finish(act)


def see(records: Records, path: str, data: bytes | None, *, at_s: float = 1.0, is_first: bool = False) -> None:
    records.history.record_external([ObservedNote(path=path, data=data)], at_s=at_s, is_first=is_first)


def entries_of(records: Records) -> list[Entry]:
    return [entry for _, entry in records.export().iter_entries(Place())]


def carry(source: Records, target: Records, *, at_s: float = 1000.0) -> Taken:
    return target.arrivals.take(entries_of(source), at_s=at_s, client="importer")


def told(records: Records) -> list[tuple[object, ...]]:
    """The history without its numbers, the newest first, with its texts."""

    def text(digest: str | None) -> bytes | None:
        return None if digest is None else records.history.read_text(digest)

    def tell(one: Revision) -> tuple[object, ...]:
        return one.at_s, one.client, one.command, one.path, one.old_path, text(one.old_digest), text(one.new_digest), one.is_kept

    return [tell(one) for one in records.history.find_revisions(limit=1000)]


def live(records: Records) -> None:
    """Some history, with all that there can be."""
    see(records, "c.md", b"what was there at first", is_first=True)
    write(records, "a.md", None, NOTE, at_s=10.0)
    write(records, "a.md", NOTE, NOTE + b"more\n", at_s=11.0)
    write(records, "b.md", NOTE + b"more\n", NOTE + b"more\n", at_s=12.5, moved_from="a.md")
    see(records, "b.md", b"\xff\0 no text", at_s=13.0)
    write(records, "b.md", b"\xff\0 no text", b"", at_s=14.0)
    records.add_moves([Move(old_path="a.md", new_path="b.md", digest="d" * 32, seen_at_s=12.5)])


def test_all_that_is_known_comes_along(here: Records, there: Records) -> None:
    live(there)
    see(here, "b.md", b"", is_first=True)
    see(here, "c.md", b"what was there at first", is_first=True)
    taken = carry(there, here)
    assert told(here) == told(there)
    assert all(revision.is_kept for revision in here.history.find_revisions())
    assert here.find_moves("b.md") == there.find_moves("b.md")
    # The two texts that the notes say today were here already.
    assert taken == Taken(n_revisions=5, n_texts=3, n_moves=1)


def test_what_comes_again_changes_nothing(here: Records, there: Records) -> None:
    live(there)
    carry(there, here)
    before = here.history.find_revisions()
    assert carry(there, here) == NOTHING
    assert carry(here, here) == NOTHING
    assert here.history.find_revisions() == before


def test_versions_take_as_little_room_as_where_they_came_from(here: Records, there: Records) -> None:
    for number in range(30):
        old = None if number == 0 else NOTE + b"%d" % (number - 1)
        write(there, "a.md", old, NOTE + b"%d" % number, at_s=float(number))
    carry(there, here)
    sizes = [one._writer.execute("SELECT sum(length(data)) FROM blobs").get for one in (here, there)]
    assert sizes[0] == sizes[1]


def test_histories_are_joined_by_time_and_no_number_comes_to_mean_something_else(here: Records, there: Records) -> None:
    for at_s, path in ((10.0, "a.md"), (30.0, "b.md"), (50.0, "c.md")):
        write(here, path, None, b"here", at_s=at_s)
    for at_s, path in ((20.0, "d.md"), (40.0, "e.md")):
        write(there, path, None, b"there", at_s=at_s)
    before = {one.id: one for one in here.history.find_revisions()}
    taken = carry(there, here)
    revisions = here.history.find_revisions(limit=5)
    # The two notes from there are not here: that, too, is history.
    assert [one.path for one in revisions] == ["c.md", "e.md", "b.md", "d.md", "a.md"]
    assert taken.n_renumbered == 2
    assert revisions[-1] == before[1]
    assert not [one for one in revisions[:-1] if one.id in before]
    write(here, "f.md", None, b"f", at_s=60.0)
    [newest] = here.history.find_revisions(limit=1)
    assert newest.path == "f.md"
    assert newest.id > max(one.id for one in revisions)


def test_numbers_stay_where_everything_new_is_later(here: Records, there: Records) -> None:
    write(here, "a.md", None, b"here", at_s=10.0)
    write(there, "b.md", None, b"there", at_s=20.0)
    before = here.history.find_revisions()
    assert carry(there, here).n_renumbered == 0
    assert here.history.find_revisions()[-1:] == before


def test_a_clock_that_was_set_back_does_not_turn_a_history_round(here: Records, there: Records) -> None:
    for at_s, old, new in ((100.0, None, b"1"), (5.0, b"1", b"2"), (6.0, b"2", b"3")):
        write(there, "a.md", old, new, at_s=at_s)
    write(here, "b.md", None, b"b", at_s=50.0)
    carry(there, here)
    revisions = [one for one in here.history.find_revisions() if one.path == "a.md"]
    assert [one.at_s for one in revisions] == [6.0, 5.0, 100.0]


def test_what_a_note_said_there_and_never_here_is_not_lost(here: Records, there: Records) -> None:
    see(there, "a.md", b"there", is_first=True)
    see(there, "gone.md", NOTE, is_first=True)
    see(here, "a.md", b"here", is_first=True)
    carry(there, here)
    assert sorted(told(here), key=str) == [
        (1000.0, "importer", COMMAND, "a.md", None, b"there", b"here", True),
        (1000.0, "importer", COMMAND, "gone.md", None, NOTE, None, True),
    ]
    assert here.history.heads() == {"a.md": digest_bytes(b"here")}
    see(here, "a.md", b"changed since", at_s=2000.0)
    assert carry(there, here) == NOTHING


def test_what_was_pruned_partly_comes_back_into_its_act(here: Records) -> None:
    changes = [Intended(path=path, old=None, new=path.encode()) for path in ("a.md", "b.md")]
    here.history.finish(here.history.begin(at_s=1.0, client="ada", command="edit", path="", changes=changes))
    exported, act = entries_of(here), here.history.find_revisions()[0].act
    here.history.purge(revisions=[here.history.find_revisions()[0].id])
    assert here.arrivals.take(exported, at_s=2.0, client="").n_revisions == 1
    assert {(one.act, one.path) for one in here.history.find_revisions()} == {(act, "a.md"), (act, "b.md")}


def test_a_text_that_was_damaged_here_is_mended(here: Records, there: Records) -> None:
    live(there)
    carry(there, here)
    here._writer.execute("UPDATE blobs SET data = x'00' WHERE digest = ?", (digest_bytes(NOTE),))
    assert here.history.read_text(digest_bytes(NOTE)) is None
    assert carry(there, here).n_texts >= 1
    assert told(here)[-1] == told(there)[-1]
    assert not here.history.damaged


def test_a_text_that_cannot_be_read_is_left_out_and_counted(there: Records) -> None:
    write(there, "a.md", None, NOTE, at_s=1.0)
    there._writer.execute("UPDATE blobs SET data = x'00'")
    export = there.export()
    assert not [entry for _, entry in export.iter_entries(Place()) if isinstance(entry, TextPiece)]
    assert export.n_damaged == 1


def test_what_is_only_intended_is_not_exported(there: Records) -> None:
    there.history.begin(at_s=1.0, client="", command="edit", path="a.md", changes=[Intended(path="a.md", old=None, new=b"a")])
    assert entries_of(there) == []


def test_a_text_that_nothing_here_names_is_not_kept(here: Records) -> None:
    assert here.arrivals.take([TextPiece(digest=digest_bytes(b"x"), size=1, offset=0, data=b"x")], at_s=1.0, client="") == NOTHING
    assert here._writer.execute("SELECT count(*) FROM blobs").get == 0


@pytest.mark.parametrize("spoil", ["data", "offset"])
def test_a_text_that_is_not_itself_is_refused_and_nothing_of_the_page_is_kept(here: Records, there: Records, spoil: str) -> None:
    write(there, "a.md", None, NOTE, at_s=1.0)
    wrong = {"data": b"other" + NOTE[5:]} if spoil == "data" else {"offset": 1}
    entries = [replace(one, **wrong) if isinstance(one, TextPiece) else one for one in entries_of(there)]  # type: ignore[arg-type]
    with pytest.raises(BadRequest):
        here.arrivals.take(entries, at_s=1.0, client="")
    assert told(here) == []
    assert carry(there, here).n_texts == 1


def test_pieces_come_in_requests_of_their_own(here: Records, there: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces.cut_pieces, "__defaults__", (64,))
    live(there)
    for entry in entries_of(there):
        here.arrivals.take([entry], at_s=1000.0, client="importer")
    assert told(here)[-5:] == told(there)
    assert carry(there, here) == NOTHING


def test_an_export_goes_on_from_every_place(there: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces.cut_pieces, "__defaults__", (640,))
    live(there)
    placed = list(there.export().iter_entries(Place()))
    assert {type(entry) for _, entry in placed} == {PastChange, TextPiece, Tip, Move}
    for at, (place, _) in enumerate(placed):
        assert list(there.export().iter_entries(place)) == placed[at:]


def test_what_is_forgotten_while_it_is_exported_takes_no_text_of_others_along(here: Records, there: Records) -> None:
    live(there)
    placed = list(there.export().iter_entries(Place()))
    first = [entry for _, entry in placed[:1]]
    there.history.purge(revisions=[there.history.find_revisions()[-1].id], texts=[])
    rest = [entry for _, entry in there.export().iter_entries(placed[1][0])]
    here.arrivals.take([*first, *rest], at_s=1000.0, client="")
    assert told(here)[-5:-1] == told(there)
    assert all(one.is_kept for one in here.history.find_revisions())


PATHS = ("a.md", "b.md")
changes = st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from([None, b"", b"one\n", NOTE, NOTE + b"!"])), max_size=8)


@given(first=changes, second=changes, cut=st.integers(min_value=1, max_value=5))
def test_two_histories_become_one_that_has_all_of_both(
    first: list[tuple[str, bytes | None]], second: list[tuple[str, bytes | None]], cut: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        both = [Records(Path(folder) / name / "records.db", workspace=name, root="/", now_s=1.0) for name in ("here", "there")]
        here, there = both
        for start, (records, story) in enumerate(zip(both, (first, second), strict=True)):
            for number, (path, data) in enumerate(story):
                see(records, path, data, at_s=float(number * 2 + start))
        expected = sorted(told(here) + told(there), key=lambda one: float(str(one[0])))[::-1]
        tips = here.history.heads()
        entries = entries_of(there)
        for start in range(0, len(entries), cut):
            here.arrivals.take(entries[start : start + cut], at_s=1000.0, client="importer")
        assert [one for one in told(here) if one[2] != COMMAND] == expected
        assert all(one.is_kept for one in here.history.find_revisions(limit=1000))
        assert here.history.heads() == tips
        assert carry(there, here) == NOTHING
        for one in both:
            one.close()
