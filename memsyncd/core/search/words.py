"""Fold texts and queries, and split both into the words of the index in the same way.

`fold` makes one spelling of the many in which programs and people write one word. FTS5's tokenizer
then splits the folded text. It makes one word of touching letters and digits, so it would lose the
subwords of `camelCase`, any two adjacent characters of scripts without spaces, names such as C++,
emoji, the number in `v1.2`, and words as people spell them without hyphens and without umlauts and
other letters of a language. This module finds these, and the index has them as words of their own
next to the text. In the text itself each character of a script without spaces is a word, so that a
phrase is a row of words.

Words that share a beginning are a family. Names of code in a question count for more where a text
writes them as code. A word that the index does not have is compared with similar words.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

# --- Folding --------------------------------------------------------------------------------------
# Spellings differ in composed and decomposed characters, in forms of full and half width, in
# points, accents and hamza, and in invisible signs inside a word. FTS5's tokenizer folds case and
# the accents of Latin letters. `fold` keeps `ü`, because the index has `ue` for it, too.
# Each line is folded by itself and keeps its line end. A text of ASCII stays as it is.


def _list_alphanumeric(*blocks: tuple[int, int]) -> str:
    """The letters and digits of these blocks, for a class of a pattern."""
    return "".join(
        chr(c) for first, last in blocks for c in range(first, last + 1) if chr(c).isalnum()
    )


# Marks over, beneath and within letters of Latin, Greek, Cyrillic, Hebrew and Arabic, and the sign
# that lengthens an Arabic word.
_ACCENTS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08d3-\u08ff"
    "\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f"
)
# Invisible signs, which join or part letters, direct the writing, or select a glyph.
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef"
)
# Letters that are other letters with marks; the few Latin ones are not folded by the tokenizer.
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
# Further characters that compose with the characters before them, or are composed of others.
_COMPOSING = (
    "\u093c\u09bc\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0c56\u0cc2\u0cd5\u0cd6\u0d3e\u0d57"
    "\u0dca\u0dcf\u0ddf\u102e\u1161-\u11ff\u3099\u309a\ud7b0-\ud7ff\uff9e\uff9f"
)
_COMPOSED = (
    "\u0374\u037e\u0387\u0958-\u095f\u09dc-\u09df\u0a33\u0a36\u0a59-\u0a5e\u0b5c\u0b5d\u0f43-\u0fb9"
    "\u2000\u2001\u2329\u232a\u2adc\uf900-\ufad9\U0002f800-\U0002fa1d"
)
_FOLDED = re.compile(f"[{_ACCENTS}{_UNSEEN}{_MARKED}{_FORMS}]+")
# A character with the characters that may compose with it, and a character that is folded alone.
_FOLLOWING = f"{_ACCENTS}{_UNSEEN}{_COMPOSING}"
_CLUSTER = re.compile(f".?[{_FOLLOWING}]+|[{_MARKED}{_FORMS}{_COMPOSED}][{_FOLLOWING}]*", re.DOTALL)
_DROPPED = re.compile(f"[{_ACCENTS}{_UNSEEN}]+")
# A fraction is a number of its own.
_FRACTIONS = {
    c: f" {unicodedata.normalize('NFKC', chr(c))}"
    for c in (*range(0xBC, 0xBF), *range(0x2150, 0x2160), 0x2189)
}
_PLAIN_LETTERS = {0x0671: "\u0627", 0x02BB: "'", 0x02BC: "'", 0x2010: "-", 0x2011: "-"}
_ASCII_BYTES = bytes(range(128))


def fold(text: str) -> str:
    """The text in the spelling in which its words are indexed, except for case and the accents of
    Latin letters.
    """
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    # Most texts have few such characters, and a search of these alone is faster.
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
    letters = unicodedata.normalize("NFD", composed.translate(_PLAIN_LETTERS))
    plain = _DROPPED.sub("", letters)
    return unicodedata.normalize("NFC", plain)


class FoldedText(NamedTuple):
    """A folded text, with the places of its characters in the original.

    `ends` has the end, in the folded text, of each piece that folding replaced; `pieces` has start
    and end of each piece in the folded text, and in the original.
    """

    text: str
    ends: list[int]
    pieces: list[tuple[int, int, int, int]]

    def find_original(self, start: int, end: int) -> tuple[int, int]:
        """Start and end in the original of the characters from `start` to `end`, which are in the
        folded text. A replaced piece counts as a whole.
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


# --- Words ----------------------------------------------------------------------------------------
# All texts below are folded.

# A longer run is not a name composed of words.
NAME_LIMIT_CHARACTERS = 80

# A longer run, in a script without spaces, counts as several words.
WORD_CHARACTERS = 3

# The characters of one word of unicode61.
_WORD = re.compile(r"[^\W_]+")
UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
_RUN = re.compile(f"[{UNSPACED}]+")
# All bytes of UTF-8 that do not begin a character of `UNSPACED`.
_SPACED_BYTES = bytes({*range(256)} - {0xE0, 0xE1, *range(0xE3, 0xEE), 0xEF, 0xF0})
_MARKS = re.compile(r"[^\w]|_")
# The class of each byte: `a` for small letters, `A` for capitals, `0` for digits, a blank for the
# rest.
_SORTS = bytes(
    97 if 97 <= c < 123 else 65 if 65 <= c < 91 else 48 if 48 <= c < 58 else 32 for c in range(256)
)
# A hump in classes of characters, from a capital to the end of its word: capitals are rare, and the
# search skips to them.
_SORTED_HUMP = re.compile(rb"A(?:(?<=[a0]A)|(?=Aa))[aA0]*")
_CAMEL_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# The look-behinds follow the sign, so that the search can skip to the next one.
_PLUSES = re.compile(r"\+\+(?<=\b[A-Za-z]\+\+)(?![A-Za-z_#+])")
# The signs that join the parts of a name or number; the rest of the name from its first sign, to
# which the search can skip; and its first part. Before a hyphen the first part must be short,
# because words with a long first part are seldom written without the hyphen.
NAME_PART, HYPHENED_PART, GROUP_DIGITS, MAJOR_DIGITS = NAME_LIMIT_CHARACTERS, 5, 3, 4
_LETTERS, _NUMBER, _NAME = re.compile(r"[^\W\d_]+"), re.compile(r"\d+"), re.compile(r"[^\W_]+")
_JOINED = (
    ("_", re.compile(r"_(?<=[^\W_]_)[^\W_]++(?:_[^\W_]++)*+(?![\w-])"), _NAME, NAME_PART),
    (
        "-",
        # The second look-behind passes over most hyphens that `_find_start` would refuse later.
        re.compile(rf"-(?<=[^\W\d_]-)(?<![^\W_]{{{HYPHENED_PART + 1}}}-)[^\W\d_]++(?![\w-])"),
        _LETTERS,
        HYPHENED_PART,
    ),
    (",", re.compile(r",(?<=\d,)\d{3}(?:,\d{3})*+(?!\d)"), _NUMBER, GROUP_DIGITS),
)
_DOTTED = re.compile(r"\.(?<=\d\.)\d++(?:\.\d++)*+")
_GROUPS = re.compile(r"(?:\.\d{3})+")
_STAMP_TIME = re.compile(r"T(?<=\b\d{4}-\d\d-\d\dT)\d\d:\d\d(?::\d\d)?(?!\d)")
_DATE_CHARACTERS = len("2026-03-01")
_JOINING = ("_", ".", ",")
# Beginnings that nobody writes as a word of its own: `re-index` is `reindex`.
_PREFIXED = re.compile(
    r"\W*(anti|auto|co|de|e|inter|multi|non|pre|re|sub|un)-([^\W\d_]++)\W*",
    re.IGNORECASE,
)
_SHARP = re.compile(r"#(?<=\b[CFJcfj]#)(?![\w#+])")
_SIGNED = re.compile(r"\b([A-Za-z](?=\+)|[CFJcfj](?=#))(\+\+|#)(?![\w#+])")
_SIGNS = {"++": "plusplus", "#": "sharp"}
# Signs that people look for: emoji, arrows and marks such as `§`, without the lines of drawings.
_PICTURED = (
    "\u00a7\u00a9\u00ae\u00b6\u2020\u2021\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f"
    "\u2b00-\u2bff\U0001f000-\U0001faff"
)
_PICTURE = re.compile(f"[{_PICTURED}]")
# A hump as in `_SORTED_HUMP`, a sign within a word, or a character that is not ASCII: a text
# without these has no subwords.
_MAY_HAVE_SUBWORDS = re.compile(
    r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?=[A-Z][a-z]))|[^\x00-\x7f]|\+\+|#|[^\W_][-_.,][^\W_]"
)
# The index folds `ü` to `u` and leaves `ß` and letters with strokes; people write `ue`, `ss` and
# plain letters as well.
_SPELLINGS = str.maketrans(
    {
        "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss",
        "ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d",
        "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ẞ": "SS",
        "Ø": "O", "Æ": "Ae", "Œ": "Oe", "Ł": "L", "Đ": "D",
    }
)  # fmt: skip
_SPELLED_SIGNS = "äöüßøæœłđÄÖÜẞØÆŒŁĐ"  # each search is faster than a search by pattern
_SPELLED_OUT = re.compile(f"[{_SPELLED_SIGNS}]")


def find_subwords(text: str) -> str:
    """Words to index next to `text`, separated by blanks; empty for most texts.

    The same words as `find_subword_ranges`, faster.
    """
    subwords = [word for _, words in _find_composed(text) for word in words]
    subwords += [subword[2] for subword in _other_subword_ranges(text)]
    return " ".join(subwords)


def space_out(text: str) -> str:
    """The text with blanks between the characters of scripts without spaces: as it is indexed."""
    return _RUN.sub(_space_run, text) if _may_be_unspaced(text) else text


def _space_run(run: re.Match[str]) -> str:
    return f" {' '.join(run[0])} "


def find_spaced_places(text: str) -> list[int]:
    """For each character of the text as `space_out` returns it, where it is in the text; a blank
    between has the place of the character after it.
    """
    places: list[int] = []
    at = 0
    for run in _RUN.finditer(text):
        start, end = run.span()
        places += range(at, start)
        places += [place for place in range(start, end) for _ in (0, 1)]
        places.append(end)
        at = end
    return [*places, *range(at, len(text))]


# --- Marks that are no words ----------------------------------------------------------------------

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# Each mark with a text that it always holds, to which the search skips: the sort of a callout
# (`> [!note]- Title`), references to blocks, the names of blocks, and the properties by which
# Logseq shows a block. Signs of one or two characters are found soonest.
_PROGRAM_MARKS = tuple(
    (sign, re.compile(pattern, re.MULTILINE))
    for sign, pattern in (
        ("[!", r"\[![\w-]{1,40}(?:\|[^\]\n]{0,40})?\][-+]?"),
        ("((", rf"\(\({_UUID}\)\)"),
        ("^", r"\^(?<=\s\^)[A-Za-z0-9-]{1,100}[ \t]*$"),
        ("::", rf"id:: {_UUID}|collapsed:: (?:true|false)\b"),
    )
)


def blank_marks(text: str) -> str:
    """The text with blanks in place of marks for programs, which are no words of a note."""
    return MarkBlanker(text).whole


class MarkBlanker:
    """Blank the marks of a text, and of its pieces: only of the sorts that the text has."""

    def __init__(self, text: str) -> None:
        self.whole = text
        self._found: list[tuple[str, re.Pattern[str]]] = []
        for sign, pattern in _PROGRAM_MARKS:
            if sign in text and (sign != "::" or ":: " in text):
                blanked, n_found = pattern.subn(_blank, self.whole)
                if n_found:
                    self.whole = blanked
                    self._found.append((sign, pattern))

    @property
    def has_marks(self) -> bool:
        return bool(self._found)

    def blank(self, piece: str) -> str:
        for sign, pattern in self._found:
            if sign in piece:
                piece = pattern.sub(_blank, piece)
        return piece


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


class SubwordFinder:
    """Find the subwords of many pieces of one text, each beneath titles, as `find_subwords` does.

    The pieces are whole lines and overlap: the text is scanned once, and each title once.
    """

    def __init__(self, text: str) -> None:
        """`text` has LF for every line end."""
        self._text = text
        found_by_sort = _find_by_sort(text)
        self._starts = [[start for start, _ in subwords] for subwords in found_by_sort]
        self._words = [[words for _, words in subwords] for subwords in found_by_sort]
        self._sorts = [sort for sort, starts in enumerate(self._starts) if starts]
        self._titles: dict[str, Sequence[Sequence[str]]] = {}
        # Without the line ends before each line.
        self._line_starts = list(accumulate(map(len, text.split("\n")), initial=0))

    def find(self, titles: Sequence[str], piece: str, line: int) -> str:
        """Return the subwords of the titles, joined by blanks, and of `piece`, which begins at line
        `line`, 1-based.
        """
        start = self._line_starts[line - 1] + line - 1
        end = start + len(piece)
        # A part of a line may end within a name.
        if self._text[end : end + 1] not in _LINE_ENDS or not self._text.startswith(piece, start):
            return find_subwords(f"{' '.join(titles)}\n{piece}")
        of_titles: list[Sequence[Sequence[str]]] = []
        for title in titles:
            words_by_sort = self._titles.get(title)
            if words_by_sort is None:
                words_by_sort = self._add_title(title)
            if words_by_sort:
                of_titles.append(words_by_sort)
        subwords: list[str] = []
        for sort in range(len(self._starts)) if of_titles else self._sorts:
            for of_title in of_titles:
                subwords += of_title[sort]
            starts = self._starts[sort]
            if starts:
                first = bisect_left(starts, start)
                after = bisect_left(starts, end, first)
                for words in self._words[sort][first:after]:
                    subwords += words
        return " ".join(subwords)

    def _add_title(self, title: str) -> Sequence[Sequence[str]]:
        """The subwords of a title by sort; empty if it has none."""
        words: Sequence[Sequence[str]] = ()
        if _MAY_HAVE_SUBWORDS.search(title):
            words = [[word for _, some in sort for word in some] for sort in _find_by_sort(title)]
        self._titles[title] = words
        return words


# Where a name or a run begins, and its subwords.
_Found = list[tuple[int, list[str]]]
# Start, end and word.
_Range = tuple[int, int, str]
_LINE_ENDS = ("", "\n")


def _find_by_sort(text: str) -> Sequence[_Found]:
    """The subwords by sort, in the order of `_other_subword_ranges`."""
    composed = _find_composed(text)
    runs: _Found = []
    if _may_be_unspaced(text):
        runs = [
            (run.start(), [place[2] for place in _pair_ranges(run[0], run.start())])
            for run in _RUN.finditer(text)
        ]
    others = [[(start, [word]) for start, _, word in find(text)] for find in _RANGE_FINDERS]
    return composed, runs, *others


def _find_composed(text: str) -> _Found:
    """The place and the subwords of each name composed of words."""
    return [(start, _split_name(text[start:end])) for start, end in _find_humped(text)]


# Notes repeat names, so the results are kept.
_split_name = lru_cache(maxsize=1024)(_CAMEL_WORD.findall)


def find_subword_ranges(text: str) -> list[_Range]:
    """Start, end and word of each subword, in characters of the text; a pair ends with its
    second character.
    """
    subwords: list[_Range] = []
    for start, end in _find_humped(text):
        at = start
        for word in _split_name(text[start:end]):
            subwords.append((at, at + len(word), word))
            at += len(word)
    return subwords + _other_subword_ranges(text)


def _find_humped(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each word with a hump, in characters of the text."""
    sorts = text.encode("ascii", "replace").translate(_SORTS)
    for hump in _SORTED_HUMP.finditer(sorts):
        start, end = sorts.rfind(b" ", 0, hump.start()) + 1, hump.end()
        if end - start <= NAME_LIMIT_CHARACTERS:
            yield start, end


def _other_subword_ranges(text: str) -> list[_Range]:
    """The subwords of other sorts than names composed of words; few texts have any."""
    subwords: list[_Range] = []
    if _may_be_unspaced(text):
        for run in _RUN.finditer(text):
            subwords += _pair_ranges(run[0], run.start())
    for find in _ASCII_RANGE_FINDERS if text.isascii() else _RANGE_FINDERS:
        subwords += find(text)
    return subwords


def _joined_ranges(text: str) -> list[_Range]:
    """The words of `snake_case`, `re-index` and `12,480` without signs, the numbers of `v1.2`,
    which the index has as `v1` and 2, and of `2026-03-01T10:20:30Z`, which it has with letters.
    """
    ranges: list[_Range] = []
    for sign, rest, part, most in _JOINED:
        if sign in text:
            for m in rest.finditer(text):
                ranges += _join(text, _find_start(text, m.start(), part, most), m)
    if "." in text:
        for m in _DOTTED.finditer(text):
            ranges += _dotted_ranges(text, m)
    if ":" in text:
        for m in _STAMP_TIME.finditer(text):
            ranges += _number_ranges(text, m.start() - _DATE_CHARACTERS, m.end())
    return sorted(ranges) if len(ranges) > 1 else ranges


def _dotted_ranges(text: str, rest: re.Match[str]) -> list[_Range]:
    start = _find_start(text, rest.start(), _NUMBER, MAJOR_DIGITS)
    if text[start - 1 : start].isalpha():
        return _number_ranges(text, start, rest.end())
    if _GROUPS.fullmatch(rest[0]) and rest.start() - start <= GROUP_DIGITS:
        return _join(text, start, rest)
    return []


def _find_start(text: str, end: int, part: re.Pattern[str], most: int) -> int:
    """The start of the part before `end`, which is `end` if it has more characters."""
    # Backwards: only a match at the start needs no search.
    match = part.match(text[max(0, end - most - 1) : end][::-1])
    n_characters = len(match[0]) if match else 0
    return end - n_characters if n_characters <= most else end


def _join(text: str, start: int, rest: re.Match[str]) -> list[_Range]:
    """The word from `start` to the end of `rest` without signs; none if it is only a part of a
    longer name or number.
    """
    first, end = rest.span()
    before = text[start - 1 : start]
    if start == first or end - start > NAME_LIMIT_CHARACTERS or before.isalnum():
        return []
    # An option begins with a hyphen.
    if before in _JOINING or (before == "-" and text[start - 2 : start - 1].isalnum()):
        return []
    return [(start, end, text[start:end].replace(text[first], ""))]


def _number_ranges(text: str, start: int, end: int) -> list[_Range]:
    if end - start > NAME_LIMIT_CHARACTERS:
        return []
    return [(start + m.start(), start + m.end(), m[0]) for m in _NUMBER.finditer(text[start:end])]


def _spelling_ranges(text: str) -> list[_Range]:
    ranges: list[_Range] = []
    if text.isascii() or not any(sign in text for sign in _SPELLED_SIGNS):
        return ranges
    sign = _SPELLED_OUT.search(text)
    while sign:  # few lines have one
        start, end = text.rfind("\n", 0, sign.start()) + 1, text.find("\n", sign.end())
        end = end if end >= 0 else len(text)
        spelled = [(m.start(), m.end(), spell_out(m[0])) for m in _WORD.finditer(text, start, end)]
        ranges += [place for place in spelled if place[2]]
        sign = _SPELLED_OUT.search(text, end)
    return ranges


def spell_out(word: str) -> str:
    """A German word without umlauts and ß, as in `Mueller` and `Strasse`; empty if it has none."""
    if word.isascii() or len(word) > NAME_LIMIT_CHARACTERS:
        return ""
    spelled = word.translate(_SPELLINGS)
    return spelled if spelled != word else ""


def respell(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of another spelling of a typed text with these `words`; empty if it has none.

    `v1.2` is also written 1.2, and some languages have words that are also written with other
    letters. The index has the words of both spellings.
    """
    if len(words) == 1:
        spelled = spell_out(words[0])
        return (spelled,) if spelled else ()
    numbers = (words[0][1:], *words[1:])
    return numbers if words[0][:1] in "vV" and all(map(str.isdecimal, numbers)) else ()


def _signed_ranges(text: str) -> list[_Range]:
    if "++" not in text and "#" not in text:
        return []
    signs = [m for sign in (_PLUSES, _SHARP) for m in sign.finditer(text)]
    return sorted((m.start() - 1, m.end(), f"{text[m.start() - 1]}{_SIGNS[m[0]]}") for m in signs)


def _picture_ranges(text: str) -> list[_Range]:
    if text.isascii():
        return []
    return [(m.start(), m.end(), _name_picture(m[0])) for m in _PICTURE.finditer(text)]


def _name_picture(sign: str) -> str:
    return f"sign{ord(sign)}"


def split_pictures(text: str) -> list[WordSequence]:
    """The signs of a typed text as one sequence of their indexed names; none if it has none."""
    names = tuple(map(_name_picture, _PICTURE.findall(text)))
    return [WordSequence(text, names)] if names else []


def _may_be_unspaced(text: str) -> bool:
    """False if no character of a script without spaces is in the text."""
    return not text.isascii() and bool(
        text.encode("utf-8", "replace").translate(None, delete=_SPACED_BYTES)
    )


# The finders of subwords of each sort, besides composed names and scripts without spaces.
_ASCII_RANGE_FINDERS: tuple[Callable[[str], list[_Range]], ...] = (_signed_ranges, _joined_ranges)
_RANGE_FINDERS = (*_ASCII_RANGE_FINDERS, _spelling_ranges, _picture_ranges)


def character_pairs(run: str) -> tuple[str, ...]:
    """Any two adjacent characters of a run without spaces, then the last alone.

    For example, `日本語` gives 日本, 本語, 語.
    """
    return tuple(place[2] for place in _pair_ranges(run, 0))


def _pair_ranges(run: str, start: int) -> list[_Range]:
    letters = [(at, letter) for at, letter in enumerate(run, start) if not _MARKS.match(letter)]
    following: list[tuple[int, str] | None] = [*letters[1:], None][: len(letters)]
    return [
        (at, at + 1, letter) if after is None else (at, after[0] + 1, letter + after[1])
        for (at, letter), after in zip(letters, following, strict=True)
    ]


class WordSequence(NamedTuple):
    """A part of a typed text; another text matches it if it holds `words` one after another."""

    text: str
    words: tuple[str, ...]


def split_words(text: str, *, is_strict: bool = False) -> list[WordSequence]:
    """Split one typed word or phrase into sequences of words.

    `snake_case` is one sequence of two words; C++ is its indexed name. With `is_strict` the whole
    text is one sequence of the words of a text that is spaced out. Otherwise a short run of a
    script without spaces is a word and one sequence of its pairs. A longer run is a sentence: each
    pair is a sequence, since a text need not hold all of them.
    """
    signed = _SIGNED.fullmatch(text)
    if signed:
        return [WordSequence(text, (f"{signed[1]}{_SIGNS[signed[2]]}",))]
    if is_strict or text.isascii() or not _RUN.search(text):
        if not is_strict and (joined := _PREFIXED.fullmatch(text)):
            return [WordSequence(text, (joined[1] + joined[2],))]
        words = tuple(_WORD.findall(space_out(text)))
        return [WordSequence(text, words)] if words else []
    rows: list[WordSequence] = []
    at = 0
    for run in _RUN.finditer(text):
        rows += split_words(text[at : run.start()])
        rows += _split_run(run[0])
        at = run.end()
    return rows + split_words(text[at:])


def _split_run(run: str) -> list[WordSequence]:
    pairs = character_pairs(run)
    if len(pairs) > WORD_CHARACTERS:
        return [WordSequence(pair, (pair,)) for pair in pairs[:-1]]
    return [WordSequence(run, pairs[:-1] or pairs)] if pairs else []


def is_unspaced(text: str) -> bool:
    """True if the text is of a script without spaces."""
    return _RUN.match(text) is not None


# --- Families: words that share a beginning -------------------------------------------------------
# Relate words that share a beginning: `configure`, `configuration` and `reconfigured` are not one
# stem, the first two are one family.
#
# A stem's family has the stems that begin with the same letters, and the stems with which it
# begins. Each of their occurrences counts as a share of an occurrence of the word itself, within
# the word's own saturation and with its rarity: a chunk gains from them as from a few more
# occurrences of the word. This also serves languages without a stemmer, whose words differ in their
# endings.

# The value of an occurrence of a related word, beside an occurrence of the word itself.
FAMILY_WEIGHT = 0.4
# Related stems share at least this number of letters and this share of the stem; or a stem begins
# with the other, which has at least this number of letters and is at least half as long.
SHARED_LETTERS, SHARED_PART = 5, 0.6
MIN_LETTERS = 4
# FTS5's bm25 multiplies a word's rarity by (K1 + 1) × r / (1 + r), where r grows with occurrences.
K1 = 1.2
MIN_IDF = 1e-6
# Differences below are rounding.
_LEAST = 1e-9


class WordFamily(NamedTuple):
    """The words to look up that are related to one stem.

    `beginning` begins longer words, the stem's own among them; `shorter` are the words with
    which the stem begins.
    """

    stem: str
    beginning: str
    shorter: tuple[str, ...]


def make_family(stem: str) -> WordFamily | None:
    """Return the family of a stem; None if it is too short or not of letters alone."""
    if len(stem) < MIN_LETTERS or not stem.isalpha():
        return None
    n_shared = max(SHARED_LETTERS, math.ceil(SHARED_PART * len(stem)))
    least = max(MIN_LETTERS, math.ceil(len(stem) / 2))
    return WordFamily(
        stem, stem[:n_shared], tuple(stem[:n] for n in range(least, min(n_shared, len(stem))))
    )


def make_families(stems: Sequence[Sequence[str]]) -> list[WordFamily | None]:
    """Return the family of each word, given by its stems in the index; None for a word with another
    number of stems than one, or without a family.
    """
    return [make_family(some[0]) if len(some) == 1 else None for some in stems]


def is_related(family: WordFamily, stem: str) -> bool:
    """True if another stem belongs to the family."""
    if stem == family.stem:
        return False
    return stem.startswith(family.beginning) or stem in family.shorter


def compute_gains(
    n_chunks: int,
    n_own: int,
    own: Mapping[int, float],
    related: Sequence[Mapping[int, float]],
    *,
    has_own: bool,
) -> dict[int, float]:
    """Return the gains of chunks in bm25 from the family of a word.

    `n_own` of `n_chunks` chunks have the word itself; `own` are their scores by chunk, at least for
    the chunks that have related words, too. `related` are the scores of related words; with
    `has_own` the first of them counts the word's own occurrences, too. A word that no chunk has is
    as rare as its family.
    """
    if not FAMILY_WEIGHT:
        return {}
    occurrences: dict[int, float] = {}
    for scores in related:
        most = (K1 + 1) * compute_idf(n_chunks, len(scores))
        for chunk, score in scores.items():
            occurrences[chunk] = occurrences.get(chunk, 0.0) + score / (most - score)
    most_own = (K1 + 1) * compute_idf(n_chunks, n_own)
    most = (K1 + 1) * compute_idf(n_chunks, n_own or len(occurrences))
    gains: dict[int, float] = {}
    for chunk, n_found in occurrences.items():
        score = own.get(chunk, 0.0)
        of_word = score / (most_own - score)
        n_related = n_found - of_word if has_own else n_found
        if n_related > _LEAST:
            whole = of_word + FAMILY_WEIGHT * n_related
            gains[chunk] = most * (whole / (1 + whole) - of_word / (1 + of_word))
    return gains


def compute_idf(n_chunks: int, n_matching: int) -> float:
    """Return the rarity of a word as FTS5's bm25 computes it."""
    return max(MIN_IDF, math.log((n_chunks - n_matching + 0.5) / (n_matching + 0.5)))


# --- Identifiers: names of code in a question -----------------------------------------------------
# An index has `tool.uv.sources` as three words, which it finds in `tool.uv.sources.extra`, too. Of
# two sections that hold a name, the section that writes it as code explains it. On 1,461 questions
# about documentation a weight of 0.2 raises R@5 by 0.5 and MRR by 0.6 points, chats keep theirs;
# twice the weight gains no more. A gain for names in headings does not help either: words in
# headings already weigh more.

# The gain of a text that holds all names of the question.
IDENTIFIER_WEIGHT = 0.2
MIN_IDENTIFIER_CHARACTERS = 3
# Further names of one question are ignored.
MAX_IDENTIFIERS = 8

_IDENTIFIER = re.compile(
    r"`(?P<quoted>[^`\n]+)`"
    r"|(?<![\w-])(?P<bare>--?[A-Za-z][\w-]*"  # an option
    r"|[A-Za-z_]\w*(?:[-.:/]+\w+)+"  # a.b, a-b, a/b, a::b
    r"|[A-Za-z_]\w*_\w+"  # snake_case, CONSTANT_CASE
    r"|[a-z]+[A-Z]\w*)"  # camelCase
)
# Every such name has one of these.
_MAY_HAVE_IDENTIFIERS = re.compile(r"[`_.:/-]|[a-z][A-Z]")
# Marks around a name that are not part of it.
_IDENTIFIER_MARKS = "-.:/=<>[]{}()\"' `"
# Runs are possessive: a line of thousands of backticks takes no longer than other text.
_CODE = re.compile(
    r"^[ \t>]*+(?P<fence>`{3,}+|~{3,}+)[^\n]*+\n(?P<block>.*?)(?:^[ \t>]*(?P=fence)|\Z)"
    r"|(?<!`)(?P<ticks>`++)(?P<span>.+?)(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)


def find_identifiers(text: str) -> tuple[str, ...]:
    """Return the names of code in a typed text, each once: quoted by backticks, options, and words
    that are joined by marks or capitals.
    """
    if not _MAY_HAVE_IDENTIFIERS.search(text):
        return ()
    identifiers = (match["quoted"] or match["bare"] for match in _IDENTIFIER.finditer(text))
    names = dict.fromkeys(name.strip(_IDENTIFIER_MARKS).lower() for name in identifiers)
    return tuple(name for name in names if len(name) >= MIN_IDENTIFIER_CHARACTERS)[:MAX_IDENTIFIERS]


class IdentifierMatcher:
    """Find the names that a text holds in its code, whole and not as a part of a longer name, or
    that are the name of its file.
    """

    def __init__(self, identifiers: Sequence[str]) -> None:
        self._names = identifiers
        self._patterns = [
            re.compile(rf"(?<!\w)(?<!\w[.\-]){re.escape(name)}(?![\w]|[-.]\w)")
            for name in identifiers
        ]

    def compute_factor(self, text: str, path: str) -> float:
        """Return the factor for the score of a text, from 1 to 1 + IDENTIFIER_WEIGHT."""
        text, file_name = text.lower(), path.lower().rpartition("/")[2]
        if file_name not in self._names and not any(name in text for name in self._names):
            return 1.0
        code = "\n".join([match["span"] or match["block"] or "" for match in _CODE.finditer(text)])
        n_found = sum(
            name == file_name or pattern.search(code) is not None
            for name, pattern in zip(self._names, self._patterns, strict=True)
        )
        return 1.0 + IDENTIFIER_WEIGHT * n_found / len(self._patterns)


# --- Spelling -------------------------------------------------------------------------------------
# Similar words differ by typing errors: inserted, missing, replaced or swapped letters, few
# relative to the length. A word that continues the typed word, or that the typed word continues, is
# similar as well: `auth` and `authentication`. Numbers are never taken for typing errors.

N_SUGGESTIONS = 3
# Shorter words are similar to too many others; longer words are pasted, not typed.
_MIN_CHARS, _MAX_CHARS = 3, 40
_PREFIX_MIN = 4
# The edits that count for a word that continues the typed word, and for a word that the typed word
# continues: the first ranks before words that differ by a letter, the second after them.
_COMPLETION_EDITS, _TRUNCATION_EDITS = 0.5, 1.5
# The number of edits by which a word may differ more than the nearest word does; words that differ
# more are improbable.
_LEEWAY = 0.5


def fold_word(word: str) -> str:
    """The word without case and accents, as in the index."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word.casefold())
    return unicodedata.normalize(
        "NFC", "".join(char for char in plain if not unicodedata.combining(char))
    )


def suggest_words(word: str, candidates: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """The nearest of `candidates` (folded words, each with the number of chunks that hold it), the
    likeliest first, without the word itself.
    """
    word = fold_word(word)
    max_edits = max_edit_distance(word)
    if not max_edits:
        return ()
    letters, digits = set(word), _digits_of(word)
    shortest, longest = len(word) - max_edits, len(word) + max_edits
    most = max(max_edits, _TRUNCATION_EDITS)
    similar: set[tuple[float, bool, int, str]] = set()
    for other, n_chunks in candidates:
        begins_alike = other.startswith(word) or word.startswith(other)
        edits = _prefix_distance(word, other) if begins_alike else math.inf
        if edits > 1 and shortest <= len(other) <= longest:
            # The letters of only one of the two words are a lower bound of the edits, and are
            # counted quickly.
            theirs = set(other)
            if len(letters - theirs) <= max_edits and len(theirs - letters) <= max_edits:
                edits = min(edits, edit_distance(word, other, max_edits))
        if 0 < edits <= most and _digits_of(other) == digits:
            similar.add((edits, other[0] != word[0], -n_chunks, other))
    nearest = min(similar, default=(0.0,))[0]
    likely = [other for edits, *_, other in sorted(similar) if edits <= nearest + _LEEWAY]
    return tuple(likely[:N_SUGGESTIONS])


def max_edit_distance(word: str) -> int:
    """The largest edit distance of a similar word; 0 for a word that is too short, too long, or a
    number.
    """
    if not _MIN_CHARS <= len(word) <= _MAX_CHARS or word.isdigit():
        return 0
    return 1 if len(word) < 6 else 2 if len(word) < 12 else 3


def edit_distance(word: str, other: str, max_edits: int) -> int:
    """The number of letters to insert, delete, replace or swap with a neighbour; `max_edits` + 1 if
    there are more.
    """
    word, other = _trim_shared(word, other)
    before: Sequence[int] = ()
    row: Sequence[int] = range(len(other) + 1)
    for i, letter in enumerate(word, 1):
        new = [i]
        for j, theirs in enumerate(other, 1):
            edits = min(row[j] + 1, new[-1] + 1, row[j - 1] + (letter != theirs))
            if i > 1 < j and letter == other[j - 2] and word[i - 2] == theirs:
                edits = min(edits, before[j - 2] + 1)
            new.append(edits)
        if min(new) > max_edits and min(row) > max_edits:
            return max_edits + 1
        before, row = row, new
    return min(row[-1], max_edits + 1)


def _trim_shared(word: str, other: str) -> tuple[str, str]:
    """Both words without the letters at their beginning and end that they share."""
    first, last = 0, min(len(word), len(other))
    while first < last and word[first] == other[first]:
        first += 1
    n_after = 0
    while n_after < last - first and word[-1 - n_after] == other[-1 - n_after]:
        n_after += 1
    return word[first : len(word) - n_after], other[first : len(other) - n_after]


def _prefix_distance(word: str, other: str) -> float:
    """The edits that count if a word begins with the other, which must be long enough; infinite if
    neither does.
    """
    if len(word) >= _PREFIX_MIN and other.startswith(word):
        return _COMPLETION_EDITS if other != word else 0.0
    if len(other) >= _PREFIX_MIN and 2 * len(other) >= len(word) and word.startswith(other):
        return _TRUNCATION_EDITS
    return math.inf if other != word else 0.0


def _digits_of(word: str) -> str:
    return "" if word.isalpha() else "".join(char for char in word if char.isdigit())
