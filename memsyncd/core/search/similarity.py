"""Compare texts by their words, to find a text that nearly exists already.

The similarity of two texts is the Dice coefficient of their features: distinct words, and pairs of
words that follow each other, so that the same words in another order are less than the same text.
Upper and lower case, punctuation, markup and typed links do not count. A text in a script without
spaces has the pairs of its characters for words.

Dice, L. R. (1945): Measures of the amount of ecologic association between species.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Final, NamedTuple

from memsyncd.core.search.words import split_words

Feature = tuple[str, ...]
Features = frozenset[Feature]

QUERY_WORDS: Final = 24
"""More words do not find other candidates, and cost time."""
_QUERY_CHARACTERS: Final = 600
# For groups: the features by which an item finds others, the items that a feature finds, and
# the items with which an item is compared.
N_PROBES: Final = 24
MAX_POSTINGS: Final = 64
MAX_COMPARISONS: Final = 16
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# A relation, as memsyncd writes it below a text: an item that is a word and a link alone.
_RELATION = re.compile(r"^- [a-z][a-z0-9_]{0,63} \[\[[^\[\]\n]*\]\][ \t]*$", re.MULTILINE)
_LINK_TARGET = re.compile(r"\]\([^()\s]*\)")


def find_features(text: str) -> Features:
    """Return the distinct words of a text and its pairs of adjacent words."""
    words = _list_words(text)
    return frozenset(chain(zip(words), pairwise(words)))


def compute_similarity(features: Features, other: Features) -> float:
    """Return the share of features in common, from 0 to 1; 0 if either has none."""
    n_all = len(features) + len(other)
    return 2 * len(features & other) / n_all if features and other else 0.0


# --- Near copies --------------------------------------------------------------------------------

# A text with fewer features is a heading or a label, and many of these are the same.
MIN_FEATURES: Final = 12


class SimilarGroup(NamedTuple):
    """Items by their positions; the similarity of each to another item of the group is at least
    `similarity`.
    """

    members: tuple[int, ...]
    similarity: float


# A feature finds so many texts, the first that have it: otherwise each copy of a template would be
# compared with each.
MAX_HOLDING: Final = 32
# The texts that have a feature are listed in several passes, so that the lists never take more
# memory than for so many texts, before they are packed.
TEXTS_A_PASS: Final = 2_000
# The places in which features are counted: a byte each.
_N_COUNTERS: Final = 1 << 22
_MOST_COUNTED: Final = 255
# So many texts are compared between two calls of `note_progress`, and so many features looked up.
TEXTS_A_STEP: Final = 20
FEATURES_A_STEP: Final = 1_000
# A sketch has so many bits. Two texts of up to some hundred features whose sketches are alike are
# nearly always alike themselves, so hardly any other texts need be compared.
_SKETCH_BYTES: Final = 32
_BITS: Final = tuple(1 << at for at in range(8 * _SKETCH_BYTES))
# The highest bits of a feature's 32 bits choose its bit, the lowest its counter.
_SKETCH_SHIFT: Final = 32 - 8


class _Numbers:
    """Lists of 32-bit numbers, one after another in a single array: freed memory between many small
    arrays would never go back to the system.
    """

    __slots__ = ("_ends", "numbers")

    def __init__(self) -> None:
        self.numbers = array("I")
        """The numbers of all lists."""
        self._ends = array("I", [0])

    def append(self, numbers: Iterable[int]) -> None:
        self.numbers.extend(numbers)
        self._ends.append(len(self.numbers))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, at: int) -> array[int]:
        return self.numbers[self._ends[at] : self._ends[at + 1]]

    def find_list(self, place: int) -> int:
        """Return which list has the number at this place of `numbers`."""
        return bisect_right(self._ends, place) - 1

    def count(self, at: int) -> int:
        """Return the length of a list."""
        return self._ends[at + 1] - self._ends[at]


class CopyFinder:
    """Finds groups of texts whose similarity is at least `least` (above 0). Each text of a group is
    so similar to another one of it. Texts with fewer features than MIN_FEATURES are in no group.

    It keeps 4 bytes for each feature of a text. Two similar texts have at least one feature in
    common among the `_count_prefix` rarest of each, so only texts that share a rare feature are
    compared (Bayardo, R. J., Ma, Y. and Srikant, R. (2007): Scaling up all pairs similarity
    search). Their sketches are compared before: a sketch is the parity of its text's features in
    each of its bits, so two sketches differ in at most as many bits as the texts in features.
    """

    def __init__(self, least: float) -> None:
        self._least = least
        self._texts = _Numbers()
        self._counters = bytearray(_N_COUNTERS)
        self._sketches = bytearray()
        self._parents = array("I")
        self._lowest: dict[int, float] = {}

    def add(self, features: Features) -> None:
        """Add a text. Texts are named by their positions."""
        numbers = {hash(feature) & 0xFFFFFFFF for feature in features}
        counters = self._counters
        sketch = 0
        for number in numbers:
            place = number % _N_COUNTERS
            if counters[place] < _MOST_COUNTED:
                counters[place] += 1
            sketch ^= _BITS[number >> _SKETCH_SHIFT]
        self._sketches += sketch.to_bytes(_SKETCH_BYTES, "little")
        self._parents.append(len(self._texts))
        self._texts.append(numbers)

    def compare(self, first: int, second: int) -> float:
        """Return the similarity of two texts, as `compute_similarity`."""
        return _compare(frozenset(self._texts[first]), self._texts[second])

    def join(self, first: int, second: int, similarity: float) -> None:
        """Put two texts and their groups into one group."""
        group, other = self._find_group(first), self._find_group(second)
        lowest = self._lowest.get(group, 1.0)
        if group != other:
            lowest = min(lowest, self._lowest.pop(other, 1.0))
            self._parents[other] = group
        self._lowest[group] = min(lowest, similarity)

    def find(self, note_progress: Callable[[int], None]) -> None:
        """Compare all texts, and join near copies. `note_progress` is called again and again, with
        the number of compared texts.
        """
        probes = _Numbers()
        n_passes = 1 + len(self._texts) // TEXTS_A_PASS
        parts = [array("I") for _ in range(n_passes)]
        for at in range(len(self._texts)):
            if at % TEXTS_A_STEP == 0:
                note_progress(0)
            chosen = self._choose_probes(self._texts[at])
            for place, number in enumerate(chosen, len(probes.numbers)):
                parts[number % n_passes].append(place)
            probes.append(chosen)
        holders = _Numbers()
        holders.append(())
        while parts:
            _list_holders(probes, parts.pop(), holders, partial(note_progress, 0))
        for at in range(len(self._texts)):
            if at % TEXTS_A_STEP == 0:
                note_progress(at)
            numbers = frozenset(probes[at])
            self._compare_all(at, frozenset().union(*map(holders.__getitem__, numbers)))

    def _compare_all(self, at: int, others: Iterable[int]) -> None:
        """Compare a text with the earlier ones of these texts."""
        texts, least = self._texts, self._least
        sketch, n_features = self._read_sketch(at), texts.count(at)
        features = frozenset(texts[at])
        for other in others:
            if other < at:
                n_all = n_features + texts.count(other)
                # Two similar texts differ in at most such a share of all their features.
                if (sketch ^ self._read_sketch(other)).bit_count() > (1.0 - least) * n_all + 1e-6:
                    continue
                similarity = _compare(features, texts[other])
                if similarity >= least:
                    self.join(other, at, similarity)

    def _read_sketch(self, at: int) -> int:
        start = at * _SKETCH_BYTES
        return int.from_bytes(self._sketches[start : start + _SKETCH_BYTES], "little")

    def list_groups(self) -> list[SimilarGroup]:
        """Return the groups, the largest first."""
        members: dict[int, list[int]] = {}
        for at in range(len(self._parents)):
            group = self._find_group(at)
            if group in self._lowest:
                members.setdefault(group, []).append(at)
        groups = [SimilarGroup(tuple(own), self._lowest[at]) for at, own in members.items()]
        return sorted(groups, key=lambda group: (-len(group.members), group.members))

    def _find_group(self, at: int) -> int:
        parents = self._parents
        while parents[at] != at:
            parents[at] = parents[parents[at]]
            at = parents[at]
        return at

    def _choose_probes(self, text: array[int]) -> list[int]:
        """Return the rarest features of a text, the rarest first, without features that no other
        text has.
        """
        if len(text) < MIN_FEATURES:
            return []
        counters = self._counters
        ordered = sorted([counters[number % _N_COUNTERS] << 32 | number for number in text])
        prefix = ordered[: _count_prefix(len(text), self._least)]
        return [place & 0xFFFFFFFF for place in prefix if place >> 32 > 1]


def _list_holders(
    probes: _Numbers, places: Sequence[int], holders: _Numbers, note_progress: Callable[[], None]
) -> None:
    """Add the list of the first texts that have a feature, for each of the features at these places
    of `probes`, and put the number of its list in place of the feature; 0 if no other text has it.
    """
    numbers = probes.numbers
    holding: dict[int, list[int]] = {}
    for n_done, place in enumerate(places):
        if n_done % FEATURES_A_STEP == 0:
            note_progress()
        own = holding.setdefault(numbers[place], [])
        if len(own) < MAX_HOLDING:
            own.append(probes.find_list(place))
    lists: dict[int, int] = {}
    for number, own in holding.items():
        if len(own) > 1:
            lists[number] = len(holders)
            holders.append(own)
    for place in places:
        numbers[place] = lists.get(numbers[place], 0)


def _compare(features: frozenset[int], other: array[int]) -> float:
    n_all = len(features) + len(other)
    return 2 * len(features.intersection(other)) / n_all if n_all else 0.0


def _count_prefix(n_features: int, least: float) -> int:
    # The smallest text that is similar enough has n × least / (2 - least) features, all in common.
    # A larger text needs even more features in common.
    n_common = math.ceil(n_features * least / (2.0 - least) - 1e-9)
    return n_features - max(1, n_common) + 1


def group_pairs(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the groups that pairs make, each in order, the largest group first."""
    group_of: dict[int, list[int]] = {}
    for first, other in pairs:
        into, of_other = group_of.setdefault(first, [first]), group_of.setdefault(other, [other])
        if into is not of_other:
            # The larger keeps its place, so that no chain of merges is quadratic.
            into, of_other = sorted((into, of_other), key=len, reverse=True)
            into += of_other
            group_of.update(dict.fromkeys(of_other, into))
    groups = {id(group): sorted(group) for group in group_of.values()}
    return sorted(groups.values(), key=lambda group: (-len(group), group))


# --- Queries ------------------------------------------------------------------------------------


def make_similar_query(text: str) -> str:
    """Return a query for the texts that may be similar: the longest words of the text, which need
    not all occur. Most long words are rare.
    """
    words = sorted(dict.fromkeys(_list_words(text)), key=len, reverse=True)
    return " ".join(_limit(words[:QUERY_WORDS]))


def group_similar(
    items: Sequence[tuple[str, Features]],
    min_similarity: float,
    near: Iterable[tuple[int, int, float]] = (),
) -> list[SimilarGroup]:
    """Group items of different owners (`items`: owner and features) whose similarity is at least
    `min_similarity`; items that are similar to a third one are in one group.

    Unlike `CopyFinder` it may miss a pair, takes texts of any length, and counts only pairs
    of different owners. An item is compared with the items that share most of its rarest features;
    texts that are nearly the same do. So the work grows with the number of items, and not with the
    number of pairs, even if `min_similarity` is very low.

    `near` are further pairs that are similar, each with its similarity.
    """
    nearest = [0.0] * len(items)
    pairs = []
    others = (pair for pair in near if items[pair[0]][0] != items[pair[1]][0])
    for first, other, similarity in chain(_find_similar_pairs(items, min_similarity), others):
        pairs.append((first, other))
        nearest[first] = max(nearest[first], similarity)
        nearest[other] = max(nearest[other], similarity)
    return [
        SimilarGroup(tuple(members), min(nearest[number] for number in members))
        for members in group_pairs(pairs)
    ]


def _find_similar_pairs(
    items: Sequence[tuple[str, Features]], min_similarity: float
) -> Iterator[tuple[int, int, float]]:
    probes = _choose_probes(items)
    # By feature and owner, so that the copies of one owner do not crowd out another.
    most = max(1, MAX_POSTINGS // max(1, len({owner for owner, _ in items})))
    postings: dict[Feature, dict[str, list[int]]] = {}
    for number, (owner, _) in enumerate(items):
        for feature in probes[number]:
            of_owner = postings.setdefault(feature, {}).setdefault(owner, [])
            if len(of_owner) < most:
                of_owner.append(number)
    for number, (owner, features) in enumerate(items):
        n_common = Counter(
            other
            for feature in probes[number]
            for other_owner, others in postings[feature].items()
            if other_owner != owner
            for other in others
        )
        ordered = sorted(n_common, key=lambda other: (-n_common[other], other))
        for other in ordered[:MAX_COMPARISONS]:
            similarity = compute_similarity(features, items[other][1])
            if similarity >= min_similarity:
                yield number, other, similarity


def _choose_probes(items: Sequence[tuple[str, Features]]) -> list[list[Feature]]:
    """Return the rarest features of each item among the features that another owner has, too."""
    counts: Counter[Feature] = Counter()
    owners: dict[Feature, str] = {}
    shared: set[Feature] = set()
    for owner, features in items:
        counts.update(features)
        shared.update(feature for feature in features if owners.setdefault(feature, owner) != owner)
    return [
        sorted(features & shared, key=lambda feature: (counts[feature], feature))[:N_PROBES]
        for _, features in items
    ]


def _limit(words: Iterable[str]) -> Iterator[str]:
    n_characters = 0
    for word in words:
        n_characters += len(word.encode()) + 1
        if n_characters > _QUERY_CHARACTERS:
            return
        yield word


def _list_words(text: str) -> list[str]:
    plain = _LINK_TARGET.sub("]", _RELATION.sub(" ", _COMMENT.sub(" ", text))).casefold()
    words: list[str] = []
    for part in plain.split():
        if part.isalnum() and part.isascii():  # most parts are plain words
            words.append(part)
        else:
            for sequence in split_words(part):
                words += sequence.words
    return words
