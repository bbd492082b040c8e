"""Find the terms of a query in a text, and render a snippet with the matched words marked.

Terms are matched as words of the index: folded and stemmed by its own tokenizer. A snippet is one
window of the text around the densest matches, white space folded, matched words between `**` and
`**`. Stars of the text that could be taken for marks are removed, so a snippet split at `**` has
every second part marked.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, starmap, zip_longest
from operator import eq, itemgetter

import msgspec

from memsyncd.core.search.folding import fold_with_places
from memsyncd.core.search.words import find_spaced_places, find_subword_ranges, space_out

# --- Matches --------------------------------------------------------------------------------------

# Start, end and word, in order of start.
Token = tuple[int, int, str]
TextRange = tuple[int, int]
# Splits a text into the words of the index, with their ranges in bytes of UTF-8.
Tokenize = Callable[[str], Sequence[Token]]


NO_STEMS: frozenset[str] = frozenset()


class TermPattern(msgspec.Struct, frozen=True):
    """One term as the tokenizer sees it: these words in a row, or those of its other spelling; with
    `is_prefix` the last may be a beginning. Each of `related` stands for a single word.
    """

    words: tuple[str, ...]
    is_prefix: bool
    related: frozenset[str] = NO_STEMS
    spelling: tuple[str, ...] = ()


class Matcher:
    """Find a set of terms in texts, in one pass over a text for any number of terms."""

    def __init__(self, patterns: Sequence[TermPattern]) -> None:
        # In order of their terms, and then other spellings.
        spelled = [(index, term.spelling) for index, term in enumerate(patterns) if term.spelling]
        self._patterns = [*patterns, *(TermPattern(words, is_prefix=False) for _, words in spelled)]
        self._terms = [*range(len(patterns)), *(index for index, _ in spelled)]
        self._by_first: dict[str, list[int]] = {}
        self._prefixes: list[tuple[str, int]] = []
        self.has_phrases = False
        for index, term in enumerate(self._patterns):
            if term.is_prefix and len(term.words) == 1:
                self._prefixes.append((term.words[0], index))
            elif term.words:
                self._by_first.setdefault(term.words[0], []).append(index)
                self.has_phrases = self.has_phrases or len(term.words) > 1
                for word in term.related:
                    self._by_first.setdefault(word, []).append(index)

        beginnings = chain(self._by_first, (prefix for prefix, _ in self._prefixes))
        self._beginnings = tuple({word[:2] for word in beginnings})

    def select(self, words: Iterable[str]) -> list[int]:
        """The indices of the words that may match, before they are folded and stemmed, which takes
        longer; if terms have several words, of all, or of none if none may match.
        """
        # A stem begins as its word does; without accents, another letter may.
        begin, words = self._beginnings, [*words]
        found = [
            index
            for index, word in enumerate(words)
            if word.lower().startswith(begin) or not word.isascii()
        ]
        return [*range(len(words))] if found and self.has_phrases else found

    def find(self, tokens: Sequence[Token]) -> dict[int, list[TextRange]]:
        """The ranges of each term in the text, by the term's index."""
        found: dict[int, list[TextRange]] = {}
        by_first, prefixes, terms = self._by_first, self._prefixes, self._terms
        if not prefixes and not self.has_phrases:
            # Few words of a text match: the others are passed over without a step of the loop.
            for start, end, word in [token for token in tokens if token[2] in by_first]:
                for index in by_first[word]:
                    found.setdefault(terms[index], []).append((start, end))
            return found
        for at, token in enumerate(tokens):
            for index in by_first.get(token[2], ()):
                last = self._find_last(tokens, at, self._patterns[index])
                if last is not None:
                    found.setdefault(terms[index], []).append((token[0], last[1]))
            for prefix, index in prefixes:
                if token[2].startswith(prefix):
                    found.setdefault(index, []).append((token[0], token[1]))
        return found

    def find_terms(self, words: Sequence[str]) -> dict[int, None]:
        """The indices of the terms in a text of these words, in the order of `find`: faster."""
        by_first = self._by_first
        if self._prefixes or self.has_phrases:
            return dict.fromkeys(self.find([(0, 0, word) for word in words]))
        found = [word for word in words if word in by_first]
        return {self._terms[index]: None for word in found for index in by_first[word]}

    def _find_last(self, tokens: Sequence[Token], at: int, term: TermPattern) -> Token | None:
        """The last token of a row that begins at `at` and equals the term, else None."""
        words, end = term.words, at + len(term.words) - 1
        if end == at:
            return tokens[at]
        if end >= len(tokens) or any(
            tokens[at + n][2] != word for n, word in enumerate(words[:-1])
        ):
            return None
        last = tokens[end]
        return (
            last
            if last[2] == words[-1] or (term.is_prefix and last[2].startswith(words[-1]))
            else None
        )


def to_character_ranges(text: str, places: Iterable[TextRange]) -> list[TextRange]:
    """Convert ranges in bytes of the text's UTF-8 to ranges in characters."""
    if text.isascii():
        return list(places)
    data = text.encode("utf-8", "replace")
    return [(len(data[:start].decode()), len(data[:end].decode())) for start, end in places]


def sort_ranges(places: Iterable[TextRange]) -> list[TextRange]:
    """Each range once, by start, the longest first among those with the same start."""
    return sorted(sorted(set(places), key=itemgetter(1), reverse=True), key=itemgetter(0))


# --- Snippets -------------------------------------------------------------------------------------

MARK = "**"
WINDOW_CHARACTERS = 240
_ELLIPSIS = "…"
_SPACE = re.compile(r"\s+")
_UNDERLINE = re.compile(r"\A[ ]{0,3}(?:=+|-+)[ \t]*(?:\n|$)")
_COMMENT = re.compile(r"\A\s*<!--\s*memory:.*?-->", re.DOTALL)
_STARS = re.compile(r"\*{2,}")


def find_matches(text: str, matcher: Matcher, tokenize: Tokenize) -> dict[int, list[TextRange]]:
    """The ranges of each term that is in the text, in characters, by the term's index: of the
    tokenizer's words, and of subwords, which are indexed too.
    """
    folded = fold_with_places(text)
    text = folded.text
    spaced = space_out(text)
    found = matcher.find(tokenize(spaced))
    if not text.isascii():
        found = {index: to_character_ranges(spaced, ranges) for index, ranges in found.items()}
    if spaced != text:
        places = find_spaced_places(text)
        found = {
            index: [(places[start], places[end - 1] + 1) for start, end in ranges]
            for index, ranges in found.items()
        }
    every = find_subword_ranges(text)
    subwords = [every[at] for at in matcher.select([word for _, _, word in every])]
    if subwords:
        stems = tokenize(" ".join(subword[2] for subword in subwords))
        if len(stems) == len(subwords):
            pairs = zip(subwords, stems, strict=True)
            tokens = [(start, end, stem[2]) for (start, end, _), stem in pairs]
            for index, ranges in matcher.find(tokens).items():
                found[index] = found.get(index, []) + ranges
    if not folded.pieces:
        return found
    return {index: list(starmap(folded.find_original, ranges)) for index, ranges in found.items()}


def highlight(text: str, found: Mapping[int, Sequence[TextRange]]) -> str:
    """Render a snippet of `text` around what `find_matches` found in it."""
    return render_snippet(text, sort_ranges(chain.from_iterable(found.values())))


def render_snippet(text: str, matches: Sequence[tuple[int, int]]) -> str:
    """Cut `text` to about WINDOW_CHARACTERS around `matches`, (start, end) pairs in characters, in
    order of start.

    Matches that overlap or touch are marked together.
    """
    start, end = _choose_window(text, matches)
    parts, at = [], start
    for first, after in _join(matches):
        if first < start or after > end:
            continue
        parts += [_plain(text[at:first]), MARK, _plain(text[first:after]), MARK]
        at = after
    parts.append(_plain(text[at:end]))
    body = " ".join("".join(parts).split())
    return f"{_ELLIPSIS if start > 0 else ''}{body}{_ELLIPSIS if end < len(text) else ''}"


def _join(ranges: Iterable[TextRange]) -> list[TextRange]:
    """The ranges, which are in order of start, with those in one that overlap or touch."""
    joined: list[TextRange] = []
    for start, end in ranges:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def strip_title(text: str, heading: str) -> str:
    """A chunk's text without its heading and `memory` comment, which an answer shows separately;
    empty if nothing else is left.
    """
    first, _, rest = text.partition("\n")
    if not heading or not _is_title(first, heading):
        return text
    if not first.lstrip().startswith("#"):
        rest = _UNDERLINE.sub("", rest, count=1)
    return _COMMENT.sub("", rest, count=1).strip("\n")


def _is_title(line: str, heading: str) -> bool:
    # Of most headings the line is the plain text; most other lines differ in the first letter.
    letters = zip_longest(filter(str.isalnum, line), filter(str.isalnum, heading))
    return line.strip("# \t") == heading or all(starmap(eq, letters))


def _choose_window(text: str, matches: Sequence[tuple[int, int]]) -> tuple[int, int]:
    window = WINDOW_CHARACTERS
    if len(text) <= window:
        return 0, len(text)
    starts, ends = [first for first, _ in matches], sorted([after for _, after in matches])
    best, best_count = 0, -1
    for first in starts:
        # The matches that end within the window, minus those that began before it: a long line may
        # hold thousands.
        count = bisect_right(ends, first + window) - bisect_left(starts, first)
        if count > best_count:
            best, best_count = first, count
    start = _next_word_start(text, max(0, min(best - window // 5, len(text) - window)))
    end = min(len(text), start + window)
    space = text.rfind(" ", start, end) if end < len(text) else end
    return start, space if space > start + window // 2 else end


def _next_word_start(text: str, at: int) -> int:
    if at == 0:
        return 0
    space = _SPACE.search(text, at, at + 30)
    return space.end() if space else at


def _plain(text: str) -> str:
    """The text without stars in a row, and without stars at its ends, which would lengthen the mark
    next to them.
    """
    return _STARS.sub("", text).strip("*") if "*" in text else text
