from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.editing.pieces import cut_pieces

limits = st.integers(min_value=4, max_value=12)


@given(data=st.binary(max_size=80), limit=limits)
def test_the_pieces_are_the_text_and_none_is_too_long(data: bytes, limit: int) -> None:
    pieces = list(cut_pieces(data, limit))
    assert b"".join(piece for _, piece in pieces) == data
    assert [offset for offset, _ in pieces] == [
        sum(len(piece) for _, piece in pieces[:at]) for at in range(len(pieces))
    ]
    assert all(len(piece) <= limit for _, piece in pieces)
    assert all(piece for _, piece in pieces) or pieces == [(0, b"")]


@given(text=st.text(max_size=60), limit=limits)
def test_no_character_is_cut(text: str, limit: int) -> None:
    assert "".join(piece.decode() for _, piece in cut_pieces(text.encode(), limit)) == text
