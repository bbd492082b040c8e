"""Which words of the index may somebody have meant who typed one that it has not?

Near is what a slip of the hand makes of a word: letters too many, missing, wrong or turned round, few of them for its length.
So is what goes on where the word stops, and what stops where it goes on: `auth` and `authentication`. Numbers are no typos.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

N_SUGGESTIONS = 3
_MIN_CHARS, _MAX_CHARS = 3, 40
"""Shorter words are near to too many others; longer ones are pasted, and pasting makes no typos."""
_PREFIX_MIN = 4
_COMPLETION_EDITS, _TRUNCATION_EDITS = 0.5, 1.5
"""Edits that a longer word, or a shorter one, stands for: the first before words that differ by a letter, the second after."""
_LEEWAY = 0.5
"""By how many edits others may be further off than the nearest; what is further yet was hardly meant."""


def fold_word(word: str) -> str:
    """The word without case and accents, as the index has it."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word.casefold())
    return unicodedata.normalize("NFC", "".join(char for char in plain if not unicodedata.combining(char)))


def suggest_words(word: str, known: Iterable[tuple[str, int]], *, limit: int = N_SUGGESTIONS) -> tuple[str, ...]:
    """The nearest of `known` (folded words, each with how many chunks hold it), the likeliest first; the word itself is none."""
    word = fold_word(word)
    max_edits = max_edit_distance(word)
    if not max_edits:
        return ()
    letters, digits = set(word), _digits_of(word)
    found: set[tuple[float, bool, int, str]] = set()
    for other, n_chunks in known:
        edits = _prefix_distance(word, other)
        if edits > 1 and abs(len(other) - len(word)) <= max_edits:
            # Letters that only one of the two has: no fewer edits can do, and they are quickly counted.
            theirs = set(other)
            if len(letters - theirs) <= max_edits and len(theirs - letters) <= max_edits:
                edits = min(edits, edit_distance(word, other, max_edits))
        if 0 < edits <= max(max_edits, _TRUNCATION_EDITS) and _digits_of(other) == digits:
            found.add((edits, other[0] != word[0], -n_chunks, other))
    nearest = min(found, default=(0.0,))[0]
    return tuple(other for edits, *_, other in sorted(found)[:limit] if edits <= nearest + _LEEWAY)


def max_edit_distance(word: str) -> int:
    """By how many letters a word may differ and still be near; 0 for what is no typo: too short, too long, a number."""
    if not _MIN_CHARS <= len(word) <= _MAX_CHARS or word.isdigit():
        return 0
    return 1 if len(word) < 6 else 2 if len(word) < 12 else 3


def edit_distance(one: str, other: str, max_edits: int) -> int:
    """Letters to insert, delete, replace, or turn round with their neighbour; `most` + 1 if it is more than `most`."""
    before: Sequence[int] = ()
    row: Sequence[int] = range(len(other) + 1)
    for i, letter in enumerate(one, 1):
        new = [i]
        for j, theirs in enumerate(other, 1):
            edits = min(row[j] + 1, new[-1] + 1, row[j - 1] + (letter != theirs))
            if i > 1 < j and letter == other[j - 2] and one[i - 2] == theirs:
                edits = min(edits, before[j - 2] + 1)
            new.append(edits)
        if min(new) > max_edits and min(row) > max_edits:
            return max_edits + 1
        before, row = row, new
    return min(row[-1], max_edits + 1)


def _prefix_distance(word: str, other: str) -> float:
    """Edits that it stands for if one of the two begins with all of the other, and that is enough to mean the same."""
    if len(word) >= _PREFIX_MIN and other.startswith(word):
        return _COMPLETION_EDITS if other != word else 0.0
    if len(other) >= _PREFIX_MIN and 2 * len(other) >= len(word) and word.startswith(other):
        return _TRUNCATION_EDITS
    return float("inf") if other != word else 0.0


def _digits_of(word: str) -> str:
    return "" if word.isalpha() else "".join(char for char in word if char.isdigit())
