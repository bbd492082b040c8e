"""Suggest words of the index for a word that it does not hold.

Similar words differ by typing errors: inserted, missing, replaced or swapped letters, few relative
to the length. A word that continues the typed one, or that the typed one continues, is similar as
well: `auth` and `authentication`. Numbers are not taken for typing errors.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence

N_SUGGESTIONS = 3
# Shorter words are similar to too many others; longer words are pasted, not typed.
_MIN_CHARS, _MAX_CHARS = 3, 40
_PREFIX_MIN = 4
# The number of edits that a longer, or a shorter, word counts as: the longer ranks before words
# that differ by a letter, the shorter after.
_COMPLETION_EDITS, _TRUNCATION_EDITS = 0.5, 1.5
# The number of edits by which others may be further off than the nearest; words further off are
# improbable.
_LEEWAY = 0.5


def fold_word(word: str) -> str:
    """The word without case and accents, as in the index."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word.casefold())
    return unicodedata.normalize(
        "NFC", "".join(char for char in plain if not unicodedata.combining(char))
    )


def suggest_words(word: str, known: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """The nearest of `known` (folded words, each with the number of chunks that hold it), the
    likeliest first, without the word itself.
    """
    word = fold_word(word)
    max_edits = max_edit_distance(word)
    if not max_edits:
        return ()
    letters, digits = set(word), _digits_of(word)
    shortest, longest = len(word) - max_edits, len(word) + max_edits
    most = max(max_edits, _TRUNCATION_EDITS)
    found: set[tuple[float, bool, int, str]] = set()
    for other, n_chunks in known:
        begins_alike = other.startswith(word) or word.startswith(other)
        edits = _prefix_distance(word, other) if begins_alike else math.inf
        if edits > 1 and shortest <= len(other) <= longest:
            # The letters that only one of the two has are quick to count, and a lower bound of the
            # edits.
            theirs = set(other)
            if len(letters - theirs) <= max_edits and len(theirs - letters) <= max_edits:
                edits = min(edits, edit_distance(word, other, max_edits))
        if 0 < edits <= most and _digits_of(other) == digits:
            found.add((edits, other[0] != word[0], -n_chunks, other))
    nearest = min(found, default=(0.0,))[0]
    likely = [other for edits, *_, other in sorted(found) if edits <= nearest + _LEEWAY]
    return tuple(likely[:N_SUGGESTIONS])


def max_edit_distance(word: str) -> int:
    """The largest edit distance of a similar word; 0 for a word that is too short, too long, or a
    number.
    """
    if not _MIN_CHARS <= len(word) <= _MAX_CHARS or word.isdigit():
        return 0
    return 1 if len(word) < 6 else 2 if len(word) < 12 else 3


def edit_distance(one: str, other: str, max_edits: int) -> int:
    """The number of letters to insert, delete, replace or swap with a neighbour; `max_edits` + 1 if
    there are more.
    """
    one, other = _trim_shared(one, other)
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


def _trim_shared(one: str, other: str) -> tuple[str, str]:
    """Both words without the letters at their beginning and end that they share."""
    first, last = 0, min(len(one), len(other))
    while first < last and one[first] == other[first]:
        first += 1
    n_after = 0
    while n_after < last - first and one[-1 - n_after] == other[-1 - n_after]:
        n_after += 1
    return one[first : len(one) - n_after], other[first : len(other) - n_after]


def _prefix_distance(word: str, other: str) -> float:
    """The number of edits that the shorter word counts as with which the other begins, if it is
    long enough.
    """
    if len(word) >= _PREFIX_MIN and other.startswith(word):
        return _COMPLETION_EDITS if other != word else 0.0
    if len(other) >= _PREFIX_MIN and 2 * len(other) >= len(word) and word.startswith(other):
        return _TRUNCATION_EDITS
    return math.inf if other != word else 0.0


def _digits_of(word: str) -> str:
    return "" if word.isalpha() else "".join(char for char in word if char.isdigit())
