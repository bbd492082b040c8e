"""One spelling of a text, whatever its forms, marks and unseen signs."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memsyncd.core.search.folding import fold, fold_with_places

# All letters and digits but compatibility jamo, which people type one by one.
ALPHANUMERIC = [
    chr(c)
    for c in range(0x110000)
    if chr(c).isalnum() and not (0x3131 <= c <= 0x318E or 0xFFA0 <= c <= 0xFFDC)
]
LETTERS = st.sampled_from(
    "aeuÄßñéﬁ２ＡｶﾞがカガｱΆάᾳΈЙйёїאשּהأإآٱةؤﻻ한설설葛㎏Ⅷ½²ŉ\u0300\u0301\u0308\u0345\u05b7\u05c1\u064b\u0654\u0640"
    "\u200b\u200d\u00ad\ufeff\u202e\ufe0f\U000e0100\u3099\uff9e\u0bc6\u0bbe 。,-\n"
)
TEXTS = st.text(LETTERS, max_size=30) | st.text(max_size=30)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("plain text", "plain text"),
        ("Müller, naïve", "Müller, naïve"),  # the tokenizer folds these, and `ue` is indexed, too
        ("Mu\u0308ller", "Müller"),
        ("Βάση Αθήνα ᾠδή", "Βαση Αθηνα ωδη"),
        ("ещё мой Київ", "еще мои Киів"),
        ("הַמַּעֲרֶכֶת", "המערכת"),
        ("כִּתְבֵי־הַקֹּדֶשׁ", "כתבי־הקדש"),
        ("كِتَابُ الـعـربـيـة إلى ٱلله مؤمن", "كتاب العربية الى الله مومن"),
        ("설정", "설정"),
        ("がぎ ﾃﾞｰﾀﾍﾞｰｽ", "がぎ データベース"),
        ("葛\U000e0100城", "葛城"),
        ("ＡＰＩ２ ﬁle oﬃcial Ⅷ x² 5㎏", "API2 file official VIII x2 5kg"),
        ("1½", "1 1\u20442"),
        ("co\u00adoperate zero\u200bwidth می\u200cخواهم", "cooperate zerowidth میخواهم"),
        ("Wi\u2011Fi e\u2010mail", "Wi-Fi e-mail"),
        ("™ 使用，等", "™ 使用，等"),
        ("ㅋㅋ", "ㅋㅋ"),
    ],
)
def test_a_text_is_folded_to(text: str, folded: str) -> None:
    assert fold(unicodedata.normalize("NFC", text)) == folded
    assert fold(unicodedata.normalize("NFD", text)) == folded


def test_any_letter_is_folded_to_the_same_in_all_its_forms() -> None:
    different = [
        letter
        for letter in ALPHANUMERIC
        for form in ("NFC", "NFD", "NFKC", "NFKD")
        if drop_latin_accents(unicodedata.normalize(form, letter)) != drop_latin_accents(letter)
    ]
    assert not different


def drop_latin_accents(text: str) -> str:
    """The folded text without the accents that FTS5's tokenizer folds."""
    plain = unicodedata.normalize("NFD", fold(text).strip())
    return "".join(char for char in plain if not "\u0300" <= char <= "\u036f")


@given(TEXTS)
@example("e\u200d\u0301")
def test_a_folded_text_stays_as_it_is(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(TEXTS, TEXTS)
def test_lines_are_folded_one_by_one(text: str, other: str) -> None:
    assert fold(f"{text}\n{other}") == f"{fold(text)}\n{fold(other)}"


@given(TEXTS, TEXTS)
@example("¼Ö", "")
@example("ｶﾞｷﾞ", "")
def test_a_range_of_a_folded_text_is_that_of_the_text_it_stands_for(text: str, other: str) -> None:
    text = f"{text} {other}"
    folded = fold_with_places(text)
    for start in range(len(folded.text)):
        end = start + 1
        first, after = folded.find_original(start, end)
        assert 0 <= first < after <= len(text)
        assert folded.text[start:end] in fold(text[first:after])
        # As little as can be: a character with the marks and signs on it.
        assert len(fold(text[first:after])) <= 8 or text[first] == "\ufdfa"


@given(st.text(LETTERS, max_size=30))
def test_a_text_is_folded_alike_with_and_without_places(text: str) -> None:
    # An unseen sign between letters that compose is nothing that people write.
    assert len(fold_with_places(text).text) >= len(fold(text))
    if not any(unicodedata.category(char) == "Cf" for char in text):
        assert fold_with_places(text).text == fold(text)
