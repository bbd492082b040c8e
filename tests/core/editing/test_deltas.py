from __future__ import annotations

import contextlib
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.editing.deltas import DeltaBroken, apply_delta, make_delta

texts = st.binary(max_size=300) | st.text(alphabet="ab\n", max_size=300).map(str.encode)


@given(texts, texts)
@example(b"", b"")
@example(b"aaa", b"aaaa")
@example(b"abab", b"ab")
def test_a_delta_leads_from_any_text_to_any_other(base: bytes, target: bytes) -> None:
    assert apply_delta(base, make_delta(base, target)) == target


@given(before=texts, after=texts, was=texts, now=texts)
def test_a_delta_of_an_edit_is_no_larger_than_the_new_text(
    before: bytes, after: bytes, was: bytes, now: bytes
) -> None:
    delta = make_delta(before + was + after, before + now + after)
    assert len(delta) <= len(now) + 7


def test_a_word_changed_in_a_long_note_takes_a_few_bytes() -> None:
    note = b"".join(b"%d: a line of a note that is long\n" % number for number in range(5000))
    edited = note.replace(b"2500: a line", b"2500: the line")
    assert len(make_delta(note, edited)) < 20


def test_words_changed_here_and_there_take_little_as_the_rest_is_known() -> None:
    note = b"".join(
        b"%x is said in line %d\n" % (number * 7919 % 1009, number) for number in range(500)
    )
    edited = (
        note.replace(b"line 3\n", b"line three\n")
        .replace(b"line 250\n", b"")
        .replace(b"line 498\n", b"the end\n")
    )
    assert len(make_delta(note, edited)) < len(edited) / 30


def test_equal_texts_take_next_to_nothing() -> None:
    assert len(make_delta(b"x" * 100_000, b"x" * 100_000)) <= 6


@given(texts, st.binary(max_size=60))
@example(b"", b"")
@example(b"abc", b"\0")
@example(b"abc", b"\0\x80\x80\x80\x80\x80\x80\x80\x80\x80")
@example(b"abc", b"\0\2\2\0")
@example(b"abc", b"\7\0\0\0")
def test_nonsense_is_refused_and_nothing_else_is_raised(base: bytes, nonsense: bytes) -> None:
    with contextlib.suppress(DeltaBroken):
        apply_delta(base, nonsense)


@given(base=texts, target=texts, at=st.integers(0, 400), byte=st.integers(1, 255))
def test_a_damaged_delta_gives_another_text_or_is_refused(
    base: bytes, target: bytes, at: int, byte: int
) -> None:
    delta = bytearray(make_delta(base, target))
    delta[at % len(delta)] ^= byte
    with contextlib.suppress(DeltaBroken):
        assert isinstance(apply_delta(base, bytes(delta)), bytes)


@pytest.mark.parametrize("cut", [1, 2, 3, 10, -1])
def test_a_delta_that_was_cut_short_is_refused(cut: int) -> None:
    delta = make_delta(b"", b"words and words and words and words")
    with pytest.raises(DeltaBroken):
        apply_delta(b"", delta[:cut])


def test_bytes_after_a_packed_text_are_refused() -> None:
    with pytest.raises(DeltaBroken):
        apply_delta(b"", make_delta(b"", b"words and words and words and words") + b"x")


def test_a_delta_cannot_grow_beyond_its_stated_length() -> None:
    packer = zlib.compressobj(wbits=-15)
    bomb = packer.compress(bytes(10_000_000)) + packer.flush()
    with pytest.raises(DeltaBroken, match="length"):
        apply_delta(b"", b"\1\0\0\x10" + bomb)
