"""Where in a text do the terms of a query stand? In words as the index knows them: folded and stemmed by its own tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Token = tuple[int, int, str]
"""Start, end and word, in order of start."""
TextRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TermPattern:
    """One term as the tokenizer sees it: these words in a row, the last perhaps only begun."""

    words: tuple[str, ...]
    is_prefix: bool


class Matcher:
    """Finds the terms it was made of; one pass over a text whatever their number."""

    def __init__(self, patterns: Sequence[TermPattern]) -> None:
        self._patterns = patterns
        self._by_first: dict[str, list[int]] = {}
        self._prefixes: list[tuple[str, int]] = []
        for index, term in enumerate(patterns):
            if term.is_prefix and len(term.words) == 1:
                self._prefixes.append((term.words[0], index))
            elif term.words:
                self._by_first.setdefault(term.words[0], []).append(index)

    def find(self, tokens: Sequence[Token]) -> dict[int, list[TextRange]]:
        """The places of each term that stands in the text, by the term's index."""
        found: dict[int, list[TextRange]] = {}
        by_first, prefixes = self._by_first, self._prefixes
        for at, token in enumerate(tokens):
            for index in by_first.get(token[2], ()):
                last = self._find_last(tokens, at, self._patterns[index])
                if last is not None:
                    found.setdefault(index, []).append((token[0], last[1]))
            for prefix, index in prefixes:
                if token[2].startswith(prefix):
                    found.setdefault(index, []).append((token[0], token[1]))
        return found

    def _find_last(self, tokens: Sequence[Token], at: int, term: TermPattern) -> Token | None:
        """The last token of a row that begins at `at` and is the term, None if there is none."""
        words, end = term.words, at + len(term.words) - 1
        if end == at:
            return tokens[at]
        if end >= len(tokens) or any(tokens[at + n][2] != word for n, word in enumerate(words[:-1])):
            return None
        last = tokens[end]
        return last if last[2] == words[-1] or (term.is_prefix and last[2].startswith(words[-1])) else None


def to_character_ranges(text: str, places: Iterable[TextRange]) -> list[TextRange]:
    """Places in bytes of the text's UTF-8 as places of characters."""
    if text.isascii():
        return list(places)
    data = text.encode("utf-8", "replace")
    return [(len(data[:start].decode()), len(data[:end].decode())) for start, end in places]


def sort_ranges(places: Iterable[TextRange]) -> list[TextRange]:
    """Each once, by start, the longest of those that begin as one first."""
    return sorted(set(places), key=lambda place: (place[0], -place[1]))
