"""Fold a text to the spelling in which its words are indexed and looked for.

Programs and people write one word in several ways: composed and decomposed, in forms of full and
half width, with or without points, accents and hamza, with signs inside that nobody sees. `fold`
makes one spelling of all of them, for what is indexed and for what is typed. FTS5's tokenizer folds
case and the accents of Latin letters: `ü` stays, because the index has `ue` for it, too.

A line is folded by itself, and keeps its line end. A text of ASCII is as it was.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple


def _list_alphanumeric(*blocks: tuple[int, int]) -> str:
    """The letters and digits of these blocks, for a class of a pattern."""
    return "".join(
        chr(c) for first, last in blocks for c in range(first, last + 1) if chr(c).isalnum()
    )


# Marks over, beneath and within letters of Latin, Greek, Cyrillic, Hebrew and Arabic, and what
# lengthens an Arabic word.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08d3-\u08ff"
    "\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f"
)
# Signs without a form: those that join or part letters, direct the writing, and select a glyph.
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef"
)
# Letters that are others with marks: few of Latin, which the tokenizer does not fold.
_MARKED = (
    "\u01e0-\u01e3\u01ee\u01ef\u01fc-\u01ff\u0386\u0388-\u0390\u03aa-\u03b0\u03ca-\u03ce\u03d3\u03d4"
    "\u0400\u0401\u0403\u0407\u040c-\u040e\u0419\u0439\u0450\u0451\u0453\u0457\u045c-\u045e"
    "\u0476\u0477\u04c1\u04c2\u04d0-\u04d3\u04d6\u04d7\u04da-\u04df\u04e2-\u04e7\u04ea-\u04f5"
    "\u04f8\u04f9\u0622-\u0626\u0671\u06c0\u06c2\u06d3\u1f00-\u1ffe"
)
# Letters, digits and signs of names in another form of themselves, such as `ﬁ`, `２` and `㎏`.
# Compatibility jamo stay: people type them one by one.
_FORMS = (
    "\u00aa\u00b2\u00b3\u00b5\u00b9\u00ba\u00bc-\u00be\u0132\u0133\u013f\u0140\u0149\u017f"
    "\u01c4-\u01cc\u01f1-\u01f3\u02b0-\u02b8\u02bb\u02bc\u02e0-\u02e4\u037a\u03d0-\u03d6"
    "\u03f0-\u03f2\u03f4\u03f5\u03f9\u0587\u0675-\u0678\u0e33\u0eb3\u0edc\u0edd\u1d2c-\u1d6a\u1d78"
    "\u1d9b-\u1dbf\u1e9a\u1e9b\u2010\u2011\u2070-\u2079\u207f-\u2089\u2090-\u209c"
    + _list_alphanumeric((0x2102, 0x2189), (0x2460, 0x249B))
    + "\u24b6-\u24ea\u2c7c\u2c7d\u2e9f\u2ef3\u2f00-\u2fd5\u3038-\u303a\u309f\u30ff\u3251-\u33ff"
    "\u10fc\u2d6f\u3192-\u319f\u3220-\u3229\ua69c\ua69d\ua770\ua7f2-\ua7f4\ua7f8\ua7f9"
    "\uab5c-\uab5f\uab69\ufb00-\ufb06\ufb13-\ufb17\ufb1d\ufb1f-\ufb28\ufb2a-\ufbb1\ufbd3-\ufdfb"
    "\ufe70-\ufefc\uff03\uff0b\uff0d\uff10-\uff19\uff21-\uff3a\uff3f\uff41-\uff5a\uff66-\uff9f"
    "\U00010781-\U000107ba\U0001d400-\U0001d7ff\U0001ee00-\U0001eebb\U0001f100-\U0001f10a"
    "\U0001fbf0-\U0001fbf9"
)
# Further characters that compose with those before them, or are composed of others.
_COMPOSING = (
    "\u093c\u09bc\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0c56\u0cc2\u0cd5\u0cd6\u0d3e\u0d57"
    "\u0dca\u0dcf\u0ddf\u102e\u1161-\u11ff\u3099\u309a\ud7b0-\ud7ff\uff9e\uff9f"
)
_COMPOSED = (
    "\u0374\u037e\u0387\u0958-\u095f\u09dc-\u09df\u0a33\u0a36\u0a59-\u0a5e\u0b5c\u0b5d\u0f43-\u0fb9"
    "\u2000\u2001\u2329\u232a\u2adc\uf900-\ufad9\U0002f800-\U0002fa1d"
)
_FOLDED = re.compile(f"[{_MARKS}{_UNSEEN}{_MARKED}{_FORMS}]+")
# A character with those that may compose with it, and one that is folded alone.
_FOLLOWING = f"{_MARKS}{_UNSEEN}{_COMPOSING}"
_CLUSTER = re.compile(f".?[{_FOLLOWING}]+|[{_MARKED}{_FORMS}{_COMPOSED}][{_FOLLOWING}]*", re.DOTALL)
_DROPPED = re.compile(f"[{_MARKS}{_UNSEEN}]+")
# A fraction is a number of its own.
_FRACTIONS = {
    c: f" {unicodedata.normalize('NFKC', chr(c))}"
    for c in (*range(0xBC, 0xBF), *range(0x2150, 0x2160), 0x2189)
}
_LETTERS = {0x0671: "\u0627", 0x02BB: "'", 0x02BC: "'", 0x2010: "-", 0x2011: "-"}
_ASCII_BYTES = bytes(range(128))


def fold(text: str) -> str:
    """The text in the spelling in which its words are indexed, except for case and the accents of
    Latin letters.
    """
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    # Most texts have few such characters: those alone are searched faster.
    if not _FOLDED.search(keep_non_ascii(text)):
        return text
    return unicodedata.normalize("NFC", _FOLDED.sub(_fold_run, text))


def keep_non_ascii(text: str) -> str:
    """The characters of the text that are not ASCII."""
    return text.encode("utf-8", "replace").translate(None, delete=_ASCII_BYTES).decode()


def _fold_run(run: re.Match[str]) -> str:
    return _fold_characters(run[0])


@lru_cache(maxsize=4096)
def _fold_characters(text: str) -> str:
    composed = unicodedata.normalize("NFKC", text.translate(_FRACTIONS))
    letters = unicodedata.normalize("NFD", composed.translate(_LETTERS))
    plain = _DROPPED.sub("", letters)
    return unicodedata.normalize("NFC", plain)


class FoldedText(NamedTuple):
    """A folded text that tells which characters of the original each of its own stands for.

    `ends` are where the folded characters differ: after each replaced piece, its end in the folded
    text; `pieces` are start and end of the piece in the folded text, and in the original.
    """

    text: str
    ends: list[int]
    pieces: list[tuple[int, int, int, int]]

    def find_original(self, start: int, end: int) -> tuple[int, int]:
        """Start and end in the original of the characters from `start` to `end`, which are in the
        folded text. Of a replaced piece that is the whole.
        """
        if not self.pieces:
            return start, end
        return self._find_edge(start, is_end=False), self._find_edge(end, is_end=True)

    def _find_edge(self, at: int, *, is_end: bool) -> int:
        # The first piece that ends after a start, or at or after an end.
        number = bisect_right(self.ends, at - is_end)
        if number < len(self.pieces):
            first, _, original, original_end = self.pieces[number]
            if at > first:
                return original_end if is_end else original
            if at == first and not is_end:
                return original
        if number == 0:
            return at
        _, end, _, original_end = self.pieces[number - 1]
        return original_end + at - end


def fold_with_places(text: str) -> FoldedText:
    """Fold a text and remember where it differs: slower than `fold`."""
    parts: list[str] = []
    ends: list[int] = []
    pieces: list[tuple[int, int, int, int]] = []
    at = n_folded = 0
    for start, end, folded in _list_pieces(text):
        parts += (text[at:start], folded)
        n_folded += start - at
        pieces.append((n_folded, n_folded + len(folded), start, end))
        n_folded += len(folded)
        ends.append(n_folded)
        at = end
    return FoldedText("".join((*parts, text[at:])), ends, pieces)


def _list_pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and folded text of each piece of a text that differs when it is folded."""
    if fold(text) == text:  # found sooner than each piece
        return
    for cluster in _CLUSTER.finditer(text):
        folded = fold(cluster[0])
        if folded != cluster[0]:
            yield cluster.start(), cluster.end(), folded
