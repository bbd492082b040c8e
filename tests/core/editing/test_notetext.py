from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.editing.sections import (
    UnifiedText,
    check_text,
    count_lines,
    join_texts,
    open_text,
    unify_line_ends,
)
from memsyncd.core.markdown.decode import decode_note
from memsyncd.errors import BadRequest, EditRefused

pieces = st.lists(
    st.sampled_from(["\n", "\r\n", "\r", "a", "é", "\udcff", ""]) | st.text("ab\r\n", max_size=3),
    max_size=12,
)


@given(
    st.binary(max_size=40).filter(
        lambda data: not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    )
)
def test_bytes_become_text_and_the_same_bytes(data: bytes) -> None:
    for given_data in (data, codecs.BOM_UTF8 + data):
        note = open_text("n.md", given_data)
        assert note.to_bytes(note.text) == given_data


def test_a_byte_order_mark_is_kept_apart() -> None:
    assert open_text("n.md", codecs.BOM_UTF8 + b"a").text == "a"


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_utf16_is_not_edited(mark: bytes) -> None:
    with pytest.raises(EditRefused, match=r"n\.md is UTF-16"):
        open_text("n.md", mark + "abc".encode("utf-16-le"))


def test_a_notes_line_end_is_the_one_that_most_lines_have() -> None:
    for text, line_end in (
        ("", "\n"),
        ("a", "\n"),
        ("a\nb\n", "\n"),
        ("a\r\nb", "\r\n"),
        ("a\rb", "\r"),
        ("a\r\nb\r\nc\n", "\r\n"),
        ("a\r\nb\n", "\n"),
    ):
        assert open_text("n.md", text.encode()).line_end == line_end, text


@given(pieces)
def test_places_in_unified_text_are_places_in_the_text_as_it_is(texts: list[str]) -> None:
    raw = "".join(texts)
    unified = UnifiedText(raw)
    assert unified.text == unify_line_ends(raw)
    for offset in range(len(unified.text) + 1):
        at = unified.raw_offset(offset)
        assert unify_line_ends(raw[:at]) == unified.text[:offset]
        assert unify_line_ends(raw[at:]) == unified.text[offset:]


@given(pieces)
def test_joined_texts_keep_their_line_ends_apart(texts: list[str]) -> None:
    assert unify_line_ends(join_texts(*texts)) == "".join(unify_line_ends(text) for text in texts)


@given(pieces)
def test_lines_are_counted_as_they_are_when_read(texts: list[str]) -> None:
    raw = "".join(texts)
    data = raw.encode("utf-8", "surrogateescape")
    assert count_lines(unify_line_ends(raw)) == len(decode_note("n.md", data).lines)


def test_half_a_surrogate_pair_is_not_text() -> None:
    check_text("new_str", "é𝄞")
    with pytest.raises(BadRequest, match="new_str"):
        check_text("new_str", "a\ud834")
