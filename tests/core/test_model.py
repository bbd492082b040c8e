from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.core.model import count_quarters, count_tokens


def test_four_characters_make_a_token_and_one_where_no_spaces_are_written() -> None:
    for text, n_tokens in (
        ("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("été!", 1), ("記憶", 2), ("メモリ", 3), ("기억", 2),
        ("ความ", 4), ("記憶 abc", 3), ("\U00020000", 1), ("a" * 4000, 1000),
    ):  # fmt: skip
        assert count_tokens(text) == n_tokens, text


@given(st.text(), st.text())
def test_quarters_add_up_over_concatenation(left: str, right: str) -> None:
    assert count_quarters(left + right) == count_quarters(left) + count_quarters(right)
