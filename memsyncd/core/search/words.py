"""Split texts and queries into words beyond those of FTS5's tokenizer, in the same way for both.

unicode61 takes touching letters and digits for one word. So it would lose the subwords of
`camelCase`, any two adjacent characters of scripts without spaces, names such as C++, and words as
people spell them without German umlauts and Russian `ё`; they are indexed as words of their own
next to the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

# A longer run is not a name composed of words.
NAME_LIMIT_CHARACTERS = 80

# A longer run, in a script without spaces, counts as several words.
WORD_CHARACTERS = 3

# The characters of one word of unicode61: letters and digits, and the accents that follow them in a
# decomposed text.
_WORD = re.compile(r"[^\W_](?:[^\W_]|[\u0300-\u036f])*")
_UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
_RUN = re.compile(f"[{_UNSPACED}]+")
# All bytes of UTF-8 but those that begin a character of `_UNSPACED`.
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
_PLUSES = re.compile(r"\+\+(?<=\b[A-Za-z]\+\+)(?![\w#+])")
_SHARP = re.compile(r"#(?<=\b[CFJcfj]#)(?![\w#+])")
_SIGNED = re.compile(r"\b([A-Za-z](?=\+)|[CFJcfj](?=#))(\+\+|#)(?![\w#+])")
_SIGNS = {"++": "plusplus", "#": "sharp"}
# A hump as in `_SORTED_HUMP`, a sign, or what is not ASCII: a text without these has no subwords.
_MAY_HAVE_SUBWORDS = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?=[A-Z][a-z]))|[^\x00-\x7f]|\+\+|#")
# The index folds `ü` to `u` and leaves `ß` and `ё`; people write `ue`, `ss` and `е` as well.
_SPELLINGS = str.maketrans(
    {
        "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ё": "е",
        "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ẞ": "SS", "Ё": "Е",
    }
)  # fmt: skip
_SPELLED_OUT = re.compile("[äöüßÄÖÜẞёЁ]|[aouAOUеЕ]\u0308")


def find_subwords(text: str) -> str:
    """Words to index next to `text`, separated by blanks; empty for most texts.

    The same words as `find_subword_ranges`, faster.
    """
    subwords = [word for _, words in _find_composed(text) for word in words]
    subwords += [subword[2] for subword in _other_subword_ranges(text)]
    return " ".join(subwords)


# --- Marks that are no words ----------------------------------------------------------------------

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# Each with the text that shows that there may be one, and that the search skips to: the sort of a
# callout (`> [!note]- Title`), references to blocks, the names of blocks, and what says how Logseq
# shows a block. Signs of one or two characters are found soonest.
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

    def blank(self, piece: str) -> str:
        for sign, pattern in self._found:
            if sign in piece:
                piece = pattern.sub(_blank, piece)
        return piece


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


class SubwordFinder:
    """Find the subwords of many pieces of one text, each beneath titles, as `find_subwords` does.

    The pieces are whole lines and overlap: the text is scanned once, and each title once.
    """

    def __init__(self, text: str) -> None:
        """`text` has LF for every line end."""
        self._text = text
        self._found = _find_by_sort(text)
        self._starts = [[start for start, _ in found] for found in self._found]
        self._sorts = [sort for sort, found in enumerate(self._found) if found]
        self._titles: dict[str, Sequence[Sequence[str]]] = {}
        lengths = (len(line) + 1 for line in text.split("\n"))
        self._line_starts = list(accumulate(lengths, initial=0))

    def find(self, titles: Sequence[str], piece: str, line: int) -> str:
        """Return the subwords of the titles, joined by blanks, and of `piece`, which begins at line
        `line`, 1-based.
        """
        start = self._line_starts[line - 1]
        if not self._is_at(start, piece):
            return find_subwords(f"{' '.join(titles)}\n{piece}")
        of_titles: list[Sequence[Sequence[str]]] = []
        for title in titles:
            words_by_sort = self._titles.get(title)
            if words_by_sort is None:
                words_by_sort = self._add_title(title)
            if words_by_sort:
                of_titles.append(words_by_sort)
        subwords: list[str] = []
        for sort in _ALL_SORTS if of_titles else self._sorts:
            for of_title in of_titles:
                subwords += of_title[sort]
            starts = self._starts[sort]
            if starts:
                first = bisect_left(starts, start)
                after = bisect_left(starts, start + len(piece), first)
                for _, words in self._found[sort][first:after]:
                    subwords += words
        return " ".join(subwords)

    def _add_title(self, title: str) -> Sequence[Sequence[str]]:
        """The subwords of a title by sort; empty if it has none."""
        words: Sequence[Sequence[str]] = ()
        if _MAY_HAVE_SUBWORDS.search(title):
            words = [[word for _, some in found for word in some] for found in _find_by_sort(title)]
        self._titles[title] = words
        return words

    def _is_at(self, start: int, piece: str) -> bool:
        """False for a part of a line, which may end within a name."""
        end = start + len(piece)
        return self._text.startswith(piece, start) and self._text[end : end + 1] in ("", "\n")


# Where a name or a run begins, and its subwords.
_Found = list[tuple[int, list[str]]]
_ALL_SORTS = range(4)


def _find_by_sort(text: str) -> tuple[_Found, _Found, _Found, _Found]:
    """The subwords of names composed of words, of names with signs, of scripts without spaces, and
    the spellings without umlauts.
    """
    humped = _find_composed(text)
    signed = [(start, [word]) for start, _, word in _signed_ranges(text)]
    spelled = [(start, [word]) for start, _, word in _spelling_ranges(text)]
    if not _may_be_unspaced(text):
        return humped, signed, [], spelled
    runs = [
        (run.start(), [place[2] for place in _pair_ranges(run[0], run.start())])
        for run in _RUN.finditer(text)
    ]
    return humped, signed, runs, spelled


def _find_composed(text: str) -> _Found:
    """The place and the subwords of each name composed of words."""
    return [(start, _CAMEL_WORD.findall(text, start, end)) for start, end in _find_humped(text)]


def find_subword_ranges(text: str) -> list[tuple[int, int, str]]:
    """Start, end and word of each subword, in characters of the text; a pair's end is that of its
    second character.
    """
    subwords: list[tuple[int, int, str]] = []
    for start, end in _find_humped(text):
        subwords += [(p.start(), p.end(), p[0]) for p in _CAMEL_WORD.finditer(text, start, end)]
    return subwords + _other_subword_ranges(text)


def _find_humped(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each word with a hump, in characters of the text."""
    sorts = text.encode("ascii", "replace").translate(_SORTS)
    for hump in _SORTED_HUMP.finditer(sorts):
        start, end = sorts.rfind(b" ", 0, hump.start()) + 1, hump.end()
        if end - start <= NAME_LIMIT_CHARACTERS:
            yield start, end


def _other_subword_ranges(text: str) -> list[tuple[int, int, str]]:
    """The subwords from signed names and from scripts without spaces, and the spellings without
    umlauts; few texts have any.
    """
    subwords = _signed_ranges(text)
    if _may_be_unspaced(text):
        for run in _RUN.finditer(text):
            subwords += _pair_ranges(run[0], run.start())
    return subwords + _spelling_ranges(text)


def _spelling_ranges(text: str) -> list[tuple[int, int, str]]:
    if text.isascii() or not _SPELLED_OUT.search(text):
        return []
    spelled = [(m.start(), m.end(), spell_out(m[0])) for m in _WORD.finditer(text)]
    return [(start, end, word) for start, end, word in spelled if word]


def spell_out(word: str) -> str:
    """A German word without umlauts and ß, as in `Mueller` and `Strasse`, or a Russian one without
    `ё`; empty if it has none.
    """
    if word.isascii() or len(word) > NAME_LIMIT_CHARACTERS:
        return ""
    composed = unicodedata.normalize("NFC", word)
    spelled = composed.translate(_SPELLINGS)
    return spelled if spelled != composed else ""


def _signed_ranges(text: str) -> list[tuple[int, int, str]]:
    if "++" not in text and "#" not in text:
        return []
    found = [m for sign in (_PLUSES, _SHARP) for m in sign.finditer(text)]
    return sorted((m.start() - 1, m.end(), f"{text[m.start() - 1]}{_SIGNS[m[0]]}") for m in found)


def _may_be_unspaced(text: str) -> bool:
    """False if no character of a script without spaces is in the text."""
    return not text.isascii() and bool(
        text.encode("utf-8", "replace").translate(None, delete=_SPACED_BYTES)
    )


def character_pairs(run: str) -> tuple[str, ...]:
    """Any two adjacent characters of a run without spaces, then the last alone.

    For example, `日本語` gives 日本, 本語, 語.
    """
    return tuple(place[2] for place in _pair_ranges(run, 0))


def _pair_ranges(run: str, start: int) -> list[tuple[int, int, str]]:
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

    `snake_case` is one sequence of two words; C++ is its indexed name. A short run of a script
    without spaces is a word and one sequence of its pairs; so is any run if `is_strict`. A longer
    run is a sentence: each pair is a sequence, since a text need not hold all of them.
    """
    signed = _SIGNED.fullmatch(text)
    if signed:
        return [WordSequence(text, (f"{signed[1]}{_SIGNS[signed[2]]}",))]
    if text.isascii() or not _RUN.search(text):
        words = tuple(_WORD.findall(text))
        return [WordSequence(text, words)] if words else []
    rows: list[WordSequence] = []
    at = 0
    for run in _RUN.finditer(text):
        rows += split_words(text[at : run.start()], is_strict=is_strict)
        rows += _split_run(run[0], is_strict=is_strict)
        at = run.end()
    return rows + split_words(text[at:], is_strict=is_strict)


def _split_run(run: str, *, is_strict: bool) -> list[WordSequence]:
    pairs = character_pairs(run)
    if len(pairs) > WORD_CHARACTERS and not is_strict:
        return [WordSequence(pair, (pair,)) for pair in pairs[:-1]]
    return [WordSequence(run, pairs[:-1] or pairs)] if pairs else []


def is_unspaced(text: str) -> bool:
    """True if the text is of a script without spaces."""
    return _RUN.match(text) is not None
