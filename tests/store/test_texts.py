from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memsyncd.core.digest import digest_bytes
from memsyncd.core.editing.deltas import make_delta
from memsyncd.errors import StoreFailed
from memsyncd.store import texts as texts_module
from memsyncd.store.history import Intended
from memsyncd.store.records import Records
from memsyncd.store.texts import HEIGHT_LIMIT, Texts

WORDS = [f"word{number:x}" for number in range(0, 90_000, 37)]


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    opened = Records(tmp_path / "state" / "records.db", workspace="project-1", root="/home/ada", now_s=1.0)
    yield opened
    opened.close()


@pytest.fixture
def texts(records: Records) -> Texts:
    return records.history._texts


def make_note(size: int) -> bytes:
    chance = random.Random(size)
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        lines.append(" ".join(chance.choices(WORDS, k=12)) + "\n")
    return "".join(lines).encode()


def edit(note: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(note))
    return note[:at] + b" ".join(word.encode() for word in chance.choices(WORDS, k=8)) + note[at + chance.randrange(60) :]


def write(records: Records, versions: list[bytes], path: str = "a.md") -> None:
    for old, new in zip([None, *versions], versions, strict=False):
        change = Intended(path=path, old=old, new=new)
        records.history.finish(records.history.begin(at_s=1, client="", command="edit", path=path, changes=[change]))


def make_versions(n: int, size: int) -> list[bytes]:
    chance = random.Random(n)
    versions = [make_note(size)]
    while len(versions) < n:
        versions.append(edit(versions[-1], chance))
    return versions


def find_bases(records: Records) -> dict[str, str | None]:
    return dict(records._writer.execute("SELECT digest, base FROM texts").fetchall())  # type: ignore[arg-type]


def test_two_hundred_small_edits_of_a_large_note_take_one_and_a_half_hundredths_of_two_hundred_notes(records: Records) -> None:
    versions = make_versions(200, 100_000)
    write(records, versions)
    kept = int(records._writer.execute("SELECT sum(length(data)) FROM texts").get)
    assert kept < 0.015 * sum(map(len, versions))
    assert [records.history.read_text(digest_bytes(version)) for version in versions] == versions


def test_reading_the_oldest_goes_through_so_many_texts_at_most(records: Records) -> None:
    versions = make_versions(150, 2000)
    write(records, versions)
    bases = find_bases(records)
    assert max(count_steps(bases, digest) for digest in bases) == HEIGHT_LIMIT
    assert bases[digest_bytes(versions[-1])] is None


def count_steps(bases: dict[str, str | None], digest: str) -> int:
    base = bases[digest]
    return 0 if base is None else 1 + count_steps(bases, base)


def test_a_text_is_kept_once_however_often_it_is_said(records: Records) -> None:
    note = make_note(5000)
    write(records, [note], "a.md")
    write(records, [note], "b.md")
    assert len(find_bases(records)) == 1


def test_two_texts_that_alternate_do_not_come_to_stand_on_each_other(records: Records) -> None:
    one = make_note(5000)
    other = one + b"and more\n"
    write(records, [one, other] * 10)
    assert records.history.read_text(digest_bytes(one)) == one
    assert records.history.read_text(digest_bytes(other)) == other
    assert None in find_bases(records).values()


def test_what_has_nothing_in_common_stays_whole(records: Records) -> None:
    write(records, [random.Random(1).randbytes(500), b"short"])
    assert set(find_bases(records).values()) == {None}


def test_when_a_text_goes_those_that_stood_on_it_are_put_on_the_next(records: Records) -> None:
    first, second, third = make_versions(3, 20_000)
    write(records, [first], "other.md")
    write(records, [first, second, third])
    one, two, three = map(digest_bytes, (first, second, third))
    assert find_bases(records) == {one: two, two: three, three: None}
    records.history.purge(revisions=[], texts=[two])
    assert find_bases(records) == {one: three, three: None}
    assert records.history.read_text(one) == first


def test_when_the_whole_text_goes_what_stood_on_it_becomes_whole(records: Records) -> None:
    first, second = make_versions(2, 20_000)
    write(records, [first, second])
    write(records, [b"something else"])
    records.history.purge(revisions=[], texts=[digest_bytes(second)])
    assert find_bases(records) == {digest_bytes(first): None, digest_bytes(b"something else"): None}
    assert records.history.read_text(digest_bytes(first)) == first


def damage(records: Records, digest: str, data: bytes) -> None:
    records._writer.execute("UPDATE texts SET data = ? WHERE digest = ?", (data, digest))


@pytest.mark.parametrize("kind", ["another text", "nonsense", "nothing", "a byte"])
def test_a_damaged_text_is_said_and_never_given(records: Records, kind: str) -> None:
    first, second, third = make_versions(3, 3000)
    write(records, [first, second, third])
    one, two, three = map(digest_bytes, (first, second, third))
    data = bytearray(records._writer.execute("SELECT data FROM texts WHERE digest = ?", (two,)).get)
    data[-1] ^= 1
    damage(records, two, {"another text": make_delta(third, b"x"), "nonsense": b"\x09", "nothing": b""}.get(kind, bytes(data)))
    history = records.history
    assert history.read_text(two) is None
    assert history.read_text(one) is None
    assert history.read_text(three) == third
    assert history.damaged == {one, two}
    assert [one.is_kept for one in history.find_revisions()] == [False, False, False]


def test_texts_whose_bases_go_in_a_circle_are_damaged(records: Records) -> None:
    first, second = make_versions(2, 3000)
    write(records, [first, second])
    records._writer.execute("UPDATE texts SET base = ? WHERE digest = ?", (digest_bytes(first), digest_bytes(second)))
    assert records.history.read_text(digest_bytes(first)) is None
    assert records.history.damaged == {digest_bytes(first)}


def test_a_damaged_text_is_mended_when_it_is_said_again(records: Records) -> None:
    first, second, third = make_versions(3, 3000)
    write(records, [first, second])
    damage(records, digest_bytes(second), b"nonsense")
    assert records.history.read_text(digest_bytes(first)) is None
    assert not all(one.is_kept for one in records.history.find_revisions())
    write(records, [second, third], "b.md")
    assert all(one.is_kept for one in records.history.find_revisions())
    assert [records.history.read_text(digest_bytes(version)) for version in (first, second, third)] == [first, second, third]
    assert records.history.damaged == frozenset()


def test_what_can_only_be_read_through_a_damaged_text_goes_with_it(records: Records) -> None:
    first, second, third = make_versions(3, 3000)
    write(records, [first, second, third])
    damage(records, digest_bytes(second), b"nonsense")
    assert records.history.read_text(digest_bytes(first)) is None
    assert records.history.purge(revisions=[], texts=[digest_bytes(second)]).n_texts == 2
    assert find_bases(records) == {digest_bytes(third): None}
    assert records.history.damaged == frozenset()
    assert records._writer.execute("PRAGMA foreign_key_check").fetchall() == []


def test_two_texts_with_one_digest_are_refused_rather_than_mixed_up(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_module, "digest_bytes", lambda data: "0" * 32)
    texts.keep(b"one")
    with pytest.raises(StoreFailed, match="one digest"):
        texts.keep(b"other")


def test_a_note_as_large_as_may_be_configured_can_be_kept(records: Records) -> None:
    """SQLite's own limit on a value is lower than what `sync.max_file_bytes` allows."""
    large = random.Random(1).randbytes(18 * 1024 * 1024)
    write(records, [large])
    assert records.history.read_text(digest_bytes(large)) == large


def test_the_database_itself_refuses_to_drop_what_another_text_stands_on(records: Records) -> None:
    first, second = make_versions(2, 3000)
    write(records, [first, second])
    with pytest.raises(apsw.ConstraintError):
        records._writer.execute("DELETE FROM texts WHERE digest = ?", (digest_bytes(second),))
