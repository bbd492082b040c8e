from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsyncd.semantic.transformer import WordPiece

PIECES = "[PAD] [UNK] [CLS] [SEP] un ##believ ##able cafe , ! 東 京 Cafe".split()
VOCABULARY = {piece: number for number, piece in enumerate(PIECES)}


def cut(text: str, most: int = 99, *, is_lower: bool = True) -> list[str]:
    return [PIECES[one] for one in WordPiece(VOCABULARY, is_lower=is_lower).encode(text, most)]


def test_a_word_is_cut_into_the_longest_pieces_from_the_left() -> None:
    assert cut("unbelievable") == ["[CLS]", "un", "##believ", "##able", "[SEP]"]
    assert cut("unknown") == ["[CLS]", "[UNK]", "[SEP]"]


def test_case_accents_punctuation_and_ideographs_are_handled_as_by_bert() -> None:
    assert cut("CAFÉ,un!") == ["[CLS]", "cafe", ",", "un", "!", "[SEP]"]
    assert cut("Cafe cafe", is_lower=False) == ["[CLS]", "Cafe", "cafe", "[SEP]"]
    assert cut("東京") == ["[CLS]", "東", "京", "[SEP]"]
    assert cut("un\u200b\u0000believable\tun\u00a0un") == cut("unbelievable un un")


def test_a_long_text_keeps_its_beginning_and_its_last_piece() -> None:
    assert cut("un " * 50, most=4) == ["[CLS]", "un", "un", "[SEP]"]
    assert cut("unbelievable", most=3) == ["[CLS]", "un", "[SEP]"]


@given(st.text(max_size=60), st.integers(2, 20))
def test_any_text_gives_known_pieces_within_the_limit(text: str, most: int) -> None:
    pieces = WordPiece(VOCABULARY, is_lower=True).encode(text, most)
    assert 2 <= len(pieces) <= most
    assert pieces[0] == VOCABULARY["[CLS]"]
    assert pieces[-1] == VOCABULARY["[SEP]"]
    assert set(pieces) <= set(VOCABULARY.values())
