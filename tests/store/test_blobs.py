from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.digest import digest_bytes
from memsyncd.errors import StoreFailed
from memsyncd.store import blobs as blobs_module
from memsyncd.store.blobs import (
    BLOCK_BYTES,
    Blobs,
    compress,
    count_damaged_blobs,
    decompress,
)
from memsyncd.store.history import Intended
from memsyncd.store.records import Records

WORDS = [f"word{number:x}" for number in range(0, 90_000, 37)]


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    path = tmp_path / "state" / "records.db"
    opened = Records(path, workspace="project-1", root="/home/ada", now_s=1.0)
    opened._writer.pragma("synchronous", "OFF")
    yield opened
    opened.close()


@pytest.fixture
def blobs(records: Records) -> Blobs:
    return records.history._blobs


def make_note(size: int) -> bytes:
    chance = random.Random(size)
    lines: list[str] = []
    while sum(map(len, lines)) < size:
        lines.append(" ".join(chance.choices(WORDS, k=12)) + "\n")
    return "".join(lines).encode()


def edit(note: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(note))
    words = b" ".join(word.encode() for word in chance.choices(WORDS, k=8))
    return note[:at] + words + note[at + chance.randrange(60) :]


def write(records: Records, versions: list[bytes], path: str = "a.md") -> None:
    for old, new in zip([None, *versions], versions, strict=False):
        change = Intended(path=path, old=old, new=new)
        number = records.history.begin(
            at_s=1, client="", command="edit", path=path, changes=[change]
        )
        records.history.finish(number)


def make_versions(n: int, size: int) -> list[bytes]:
    chance = random.Random(n)
    versions = [make_note(size)]
    while len(versions) < n:
        versions.append(edit(versions[-1], chance))
    return versions


def find_bases(records: Records) -> dict[str, str | None]:
    # type: ignore[arg-type]
    return dict(records._writer.execute("SELECT digest, base FROM blobs").fetchall())


def sum_bytes(records: Records) -> int:
    return int(records._writer.execute("SELECT sum(length(data)) FROM blobs").get)


def damage(records: Records, digest: str, data: bytes) -> None:
    records._writer.execute("UPDATE blobs SET data = ? WHERE digest = ?", (data, digest))


@given(text=st.binary(max_size=200), repeat=st.integers(1, 400), dictionary=st.binary())
def test_compressed_text_is_decompressed_to_the_same_bytes(
    text: bytes, repeat: int, dictionary: bytes
) -> None:
    text *= repeat
    for base in (dictionary, dictionary + text, text[len(text) // 2 :]):
        assert decompress(compress(text, base), len(text), base) == text


@given(data=st.binary(), dictionary=st.binary())
def test_any_bytes_are_decompressed_or_reported_as_damaged(data: bytes, dictionary: bytes) -> None:
    text = decompress(data, 1000, dictionary)
    assert text is None or isinstance(text, bytes)


@pytest.mark.life
@pytest.mark.parametrize(("size", "share"), [(2000, 0.12), (5000, 0.08), (70_000, 0.04)])
def test_two_hundred_small_edits_take_a_small_share_of_two_hundred_notes(
    records: Records, size: int, share: float
) -> None:
    versions = make_versions(200, size)
    write(records, versions)
    assert sum_bytes(records) < share * sum(map(len, versions))
    read = [records.history.read_text(digest_bytes(version)) for version in versions]
    assert read == versions


def test_a_base_is_stored_whole_and_has_a_limited_number_of_dependents(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs_module, "MAX_ON_BASE", 4)
    write(records, make_versions(12, 50_000))
    bases = find_bases(records)
    on_base = [base for base in bases.values() if base is not None]
    assert {bases[base] for base in on_base} == {None}
    assert sorted(on_base.count(base) for base in set(on_base)) == [1, 4, 4]


def test_pruning_rewrites_the_texts_on_a_long_base_some_at_a_time(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs_module, "REBASE_BYTES", 90_000)
    versions = make_versions(12, 50_000)
    write(records, versions)
    before, n_rewritten = find_bases(records), []
    while records.history.prune(max_revisions=10, max_age_s=10**9, now_s=1):
        after = find_bases(records)
        n_rewritten.append(sum(after.get(digest) != base for digest, base in before.items()))
        before = after
    assert n_rewritten[:-1] == [2, 2, 2, 2, 2]
    digests = [*map(digest_bytes, versions)]
    assert before == {digests[-1]: None} | dict.fromkeys(digests[1:-1], digests[-1])
    assert [*map(records.history.read_text, digests)] == [None, *versions[1:]]


def test_a_text_is_kept_once_however_many_notes_contain_it(records: Records) -> None:
    note = make_note(5000)
    write(records, [note], "a.md")
    write(records, [note], "b.md")
    assert len(find_bases(records)) == 1


def test_two_texts_that_alternate_are_kept_once_each(records: Records) -> None:
    text = make_note(5000)
    other = text + b"and more\n"
    write(records, [text, other] * 10)
    assert find_bases(records) == {
        digest_bytes(text): None,
        digest_bytes(other): digest_bytes(text),
    }
    assert records.history.read_text(digest_bytes(text)) == text
    assert records.history.read_text(digest_bytes(other)) == other


def test_texts_with_nothing_in_common_are_stored_whole(records: Records) -> None:
    write(records, [random.Random(1).randbytes(500), b"short"])
    assert set(find_bases(records).values()) == {None}


def test_a_text_longer_than_the_window_is_compressed_with_the_parts_of_its_base(
    records: Records,
) -> None:
    first, second = make_versions(2, BLOCK_BYTES * 9)
    write(records, [first, second])
    assert sum_bytes(records) < len(compress(first)) * 1.05


def test_when_a_base_is_dropped_its_newest_dependent_becomes_the_base(records: Records) -> None:
    versions = make_versions(5, 20_000)
    write(records, versions)
    first, *middle, last = map(digest_bytes, versions)
    assert find_bases(records) == {first: None, **dict.fromkeys([*middle, last], first)}
    records.history.purge(revisions=[], texts=[first])
    assert find_bases(records) == {**dict.fromkeys(middle, last), last: None}
    for version in versions[1:]:
        assert records.history.read_text(digest_bytes(version)) == version


def test_when_a_dependent_is_dropped_the_others_stay_unchanged(records: Records) -> None:
    versions = make_versions(3, 20_000)
    write(records, versions)
    one, two, three = map(digest_bytes, versions)
    records.history.purge(revisions=[], texts=[two])
    assert find_bases(records) == {one: None, three: one}


@pytest.mark.parametrize("kind", ["another text", "nonsense", "nothing", "a byte"])
def test_a_damaged_text_is_reported_and_never_returned(records: Records, kind: str) -> None:
    first, second, third = make_versions(3, 3000)
    write(records, [first, second, third])
    one, two, three = map(digest_bytes, (first, second, third))
    data = bytearray(records._writer.execute("SELECT data FROM blobs WHERE digest = ?", (two,)).get)
    data[-1] ^= 1
    wrong = {"another text": compress(third, first), "nonsense": b"\x09", "nothing": b""}
    damage(records, two, wrong.get(kind, bytes(data)))
    history = records.history
    assert history.read_text(two) is None
    assert [history.read_text(one), history.read_text(three)] == [first, third]
    assert history.damaged == {two}
    assert [revision.is_kept for revision in history.find_revisions()] == [False, False, True]
    assert count_damaged_blobs(records.path) == 1


def test_dependents_of_a_damaged_base_are_damaged_too(records: Records) -> None:
    first, second, third = make_versions(3, 3000)
    write(records, [first, second, third])
    damage(records, digest_bytes(first), b"nonsense")
    assert records.history.read_text(digest_bytes(third)) is None
    assert records.history.damaged == {digest_bytes(first), digest_bytes(third)}
    assert count_damaged_blobs(records.path) == 3


def test_texts_whose_bases_form_a_circle_are_damaged(records: Records) -> None:
    first, second = make_versions(2, 3000)
    write(records, [first, second])
    statement = "UPDATE blobs SET base = ? WHERE digest = ?"
    records._writer.execute(statement, (digest_bytes(second), digest_bytes(first)))
    assert records.history.read_text(digest_bytes(first)) is None
    assert records.history.damaged == {digest_bytes(first)}


def test_a_damaged_base_is_repaired_from_a_note_that_contains_it_and_its_dependents_with_it(
    records: Records,
) -> None:
    first, second, third = make_versions(3, 3000)
    write(records, [first, second])
    damage(records, digest_bytes(first), b"nonsense")
    assert records.history.read_text(digest_bytes(second)) is None
    assert not all(revision.is_kept for revision in records.history.find_revisions())
    write(records, [first, third], "b.md")
    assert all(revision.is_kept for revision in records.history.find_revisions())
    for version in (first, second, third):
        assert records.history.read_text(digest_bytes(version)) == version
    assert records.history.damaged == frozenset()


def test_the_damaged_text_of_a_head_is_repaired_from_its_note(records: Records) -> None:
    first, second = make_versions(2, 3000)
    write(records, [first, second])
    history = records.history
    damage(records, digest_bytes(second), b"nonsense")
    assert history.find_damaged_heads() == set()
    assert history.read_text(digest_bytes(second)) is None
    assert history.find_damaged_heads() == {"a.md"}
    history.restore_text("a.md", b"another text")
    assert history.damaged == {digest_bytes(second)}
    history.restore_text("a.md", second)
    assert (history.read_text(digest_bytes(second)), history.damaged) == (second, frozenset())


def test_dependents_of_a_damaged_base_are_dropped_with_it(records: Records) -> None:
    first, second, third = make_versions(3, 3000)
    write(records, [first, second, third])
    write(records, [b"something else"])
    damage(records, digest_bytes(first), b"nonsense")
    assert records.history.read_text(digest_bytes(second)) is None
    assert records.history.purge(revisions=[], texts=[digest_bytes(first)]).n_texts == 3
    assert find_bases(records) == {digest_bytes(b"something else"): None}
    assert records.history.damaged == frozenset()
    assert records._writer.execute("PRAGMA foreign_key_check").fetchall() == []


def test_two_texts_with_one_digest_are_refused(
    blobs: Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs_module, "digest_bytes", lambda data: "0" * 32)
    blobs.keep(b"one")
    with pytest.raises(StoreFailed, match="one digest"):
        blobs.keep(b"other")


@pytest.mark.life
def test_the_largest_note_that_can_be_configured_can_be_stored(records: Records) -> None:
    # SQLite's default limit of a value is lower than the largest `sync.max_file_bytes`.
    large = random.Random(1).randbytes(18 * 1024 * 1024)
    write(records, [large])
    assert records.history.read_text(digest_bytes(large)) == large


def test_the_database_refuses_to_drop_a_base_with_dependents(records: Records) -> None:
    first, second = make_versions(2, 3000)
    write(records, [first, second])
    with pytest.raises(apsw.ConstraintError):
        records._writer.execute("DELETE FROM blobs WHERE digest = ?", (digest_bytes(first),))
