"""Rank candidates: compute raw scores and boosts, join neighbours into passages, normalize scores.

Candidates come with the bm25 of each retriever. Neighbours of a note join into passages, but
neighbours of different sections only where neither section is a memory of its own. Equal raw scores
order by path and line, so that the same question on the same index has the same answer. A score is
in (0, 1], monotone in rank and comparable within one answer.

Boosts multiply the raw score, together by at most 1.1 either way. Importance is the value that a
section states or that its kind has; recency depends on the time at which its note was saved; decay
depends on its stated day, else on the same time. All are off by default, because the measured
quality does not include them. Ages count in whole days (UTC), so the same question on the same
index has the same answer all day; on the next day the answer may differ if recency or decay is on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple, Protocol

import msgspec

from memsyncd.core.editing.kinds import KindDefaults, find_importance
from memsyncd.core.model import Span
from memsyncd.core.search.dates import NamedDate, fit_dates
from memsyncd.core.search.words import IDENTIFIER_WEIGHT

# --- Fusion of scores by words and by vectors -----------------------------------------------------
# The fused score is 0.6 × lexical / highest lexical + 0.4 × (cosine - median) / (highest - median);
# `weight` may replace 0.4. Its second part, times a constant, is a chunk's gain in bm25 from its
# vector. So note, neighbours and date count as they do for words alone, and without cosines nothing
# changes. A chunk whose vector is not made yet gains by its words instead. While many vectors are
# missing, the words of all chunks count more, because the nearest of a few chunks are seldom the
# nearest of all.
#
# Scores are added, not ranks, because ranks do not tell how far the best is ahead (Bruch, S., Gai,
# S. and Ingber, A. (2023): An analysis of fusion functions for hybrid retrieval). Cosines of
# unrelated texts lie around the median, which depends on the model and on the notes.

# The unit where no chunk has any of the words.
_ALONE = 1.0
_SMALLEST_SPREAD = 1e-6
_SMALLEST_SCORE = 1e-9
NO_COSINES: Mapping[int, float] = {}


class SemanticGains(NamedTuple):
    """The gains of chunks from their vectors, by chunk, in the unit of the lexical scores.

    `spread` is the distance from the median to the highest cosine, and `unit` is the lexical score
    that counts as 1: they make gains of several indexes comparable.
    """

    of: Mapping[int, float] = NO_COSINES
    spread: float = 0.0
    unit: float = _ALONE


NO_SEMANTIC_GAINS = SemanticGains()


def compute_semantic_gains(
    cosines: Mapping[int, float],
    *,
    median: float,
    highest: float,
    lexical: Mapping[int, float],
    highest_lexical: float,
    weight: float,
    coverage: float = 1.0,
) -> SemanticGains:
    """Return the gains of chunks from their cosines; chunks without a cosine gain by their words.

    `weight` (from 0, and below 1) is the share of the cosines in the fused score. `median` and
    `highest` are taken over all chunks that a search may find. A cosine below the median gains
    nothing; the gain of the highest makes its share of the fused score `weight`.

    `lexical` are the scores of the chunks with words of the question, at most `highest_lexical`.
    Where a chunk has no cosine, its lexical score relative to the highest takes its place.
    `coverage` is the share of the chunks of the index that have vectors: as far as it is below 1,
    the lexical scores of all chunks count beside their cosines.
    """
    spread = highest - median
    if weight <= 0.0 or spread < _SMALLEST_SPREAD:
        return NO_SEMANTIC_GAINS
    unit = highest_lexical if highest_lexical > _SMALLEST_SCORE else _ALONE
    most = unit * weight / (1.0 - weight)
    gains = {
        chunk: most * ((cosine - median) / spread) if cosine < highest else most
        for chunk, cosine in cosines.items()
        if cosine > median
    }
    if coverage < 1.0:
        gains = {chunk: coverage * gain for chunk, gain in gains.items()}
    elif lexical.keys() <= cosines.keys():
        return SemanticGains(gains, spread, unit)
    for chunk, score in lexical.items():
        share = 1.0 - coverage if chunk in cosines else 1.0
        if share and score > 0.0:
            gains[chunk] = gains.get(chunk, 0.0) + share * most * min(1.0, score / unit)
    return SemanticGains(gains, spread, unit)


# --- Raw scores -----------------------------------------------------------------------------------

# With fewer, evidence is lost; more only take time, because only notes that may be in the answer
# are ranked.
N_CANDIDATES = 600
MIN_SCORE = 0.0001


class RankingPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The weights in a candidate's raw score.

    The defaults were measured on chats and on developers' documents. `exact` is the weight of exact
    words relative to their stems; `semantic` is the share of cosines in the fused score, where
    there are vectors; `note` is the share of the note's best chunk that each of its
    chunks gets; `neighbour_bonus` is the share of the best chunk that touches it; `day` is the gain
    of a note whose day the question names, and `later` is the share of it that notes of the
    next days keep; `fused_day` and `fused_later` take their place for fused scores.
    """

    exact: float = 0.5
    semantic: float = 0.4
    note: float = 0.2
    neighbour_bonus: float = 0.2
    day: float = 0.4
    later: float = 1.0
    # To a model one day is like another, so the named day must outweigh any cosine, also against
    # the days after it. A cosine adds at most semantic / (1 - semantic), which is two thirds.
    fused_day: float = 1.5
    fused_later: float = 0.5


DEFAULT_RANKING = RankingPolicy()


class Candidate(NamedTuple):
    """A chunk that SQLite found, with the negated bm25 of each retriever, 0 where a retriever did
    not find it.

    `stemmed` includes the gain from related words, `family`. `semantic` is the gain from its
    vector, and `run` from words in a row. `n_tokens` is the size of its text, `day` its note's day
    (ISO). It is a tuple of plain values, because each search makes hundreds and shows ten.
    """

    chunk: int
    file: int
    section: int
    path: str
    start_line: int
    end_line: int
    n_tokens: int
    day: str | None
    stemmed: float
    exact: float
    family: float = 0.0
    semantic: float = 0.0
    run: float = 0.0

    @property
    def span(self) -> Span:
        return Span(self.start_line, self.end_line)

    @property
    def own_stems(self) -> float:
        """The score of the stems of the query's words alone."""
        return self.stemmed - self.family - self.semantic - self.run

    @property
    def has_words(self) -> bool:
        """False if its vector alone found it."""
        return not self.semantic or self.stemmed > self.semantic

    @property
    def semantic_share(self) -> float:
        """The share of its score before bonuses that its vector gives."""
        whole = self.stemmed + DEFAULT_RANKING.exact * self.exact
        return self.semantic / whole if whole > 0.0 else 0.0


_make_candidate = partial(tuple.__new__, Candidate)  # half the time of a call of the class
# The row of a chunk, which SQLite reads at once: chunk, file, section, first and last line, tokens,
# and the negated bm25 by stems, with the gain from related words.
ChunkRow = tuple[int, int, int, int, int, int, float]
# The path and the day of a file.
FileRow = tuple[str, str | None]


NO_GAINS: Mapping[int, float] = {}
NO_RELATED: Mapping[int, Mapping[int, float]] = {}
NO_CHUNK_IDS: frozenset[int] = frozenset()


class FoundChunks(NamedTuple):
    """The chunks that SQLite found: their rows, and functions that read the rest of some of them.

    `read_exact` returns the negated bm25 by exact words, for the chunks that hold any; `read_files`
    returns the path and the day of files, and `find_apart` returns the sections whose chunks join
    with chunks of no other section. The time of each grows with the number that it reads. `gains`
    are the gains of chunks from related words; `related` has these for each term, by its index in
    the query. `read_stems` returns the negated bm25 by stems of chunks that are not among the rows,
    if any can have one. `semantic` are the gains from vectors, and `wordless` are the chunks that
    have no word of the query. `exact` and `files` are the results of `read_exact` and `read_files`
    for all rows, if they were read already. `runs` are the gains from words in a row.
    """

    rows: Sequence[ChunkRow]
    read_exact: Callable[[Sequence[int]], Mapping[int, float]]
    read_files: Callable[[Collection[int]], Mapping[int, FileRow]]
    gains: Mapping[int, float] = NO_GAINS
    related: Mapping[int, Mapping[int, float]] = NO_RELATED
    semantic: Mapping[int, float] = NO_GAINS
    read_stems: Callable[[Sequence[int]], Mapping[int, float]] = lambda _: {}
    wordless: frozenset[int] = NO_CHUNK_IDS
    exact: Mapping[int, float] | None = None
    find_apart: Callable[[Collection[int]], Collection[int]] = lambda _: ()
    runs: Mapping[int, float] = NO_GAINS
    files: Mapping[int, FileRow] | None = None

    def add_runs(self, runs: Mapping[int, float]) -> FoundChunks:
        """Add the gains from words in a row, by chunk, to the scores of chunks."""
        if not runs:
            return self
        rows = [(*row[:6], row[6] + runs[row[0]]) if row[0] in runs else row for row in self.rows]
        return self._replace(rows=rows, runs=runs)

    def make_candidates(self) -> list[Candidate]:
        """Make candidates of all rows, in their order."""
        if not self.rows:
            return []
        exact = self.exact
        if exact is None:
            exact = self.read_exact([row[0] for row in self.rows])
        files = self.files or self.read_files({row[1] for row in self.rows})
        return self.make_candidates_of(self.rows, files, exact)

    def make_candidates_of(
        self, rows: Iterable[ChunkRow], files: Mapping[int, FileRow], exact: Mapping[int, float]
    ) -> list[Candidate]:
        """Make candidates of some rows; `exact` has the scores by exact words of some chunks."""
        find_exact, find_gain, find_near = exact.get, self.gains.get, self.semantic.get
        find_run = self.runs.get
        candidates = []
        for chunk, number, section, start, end, n_tokens, stemmed in rows:
            path, day = files[number]
            fields = (chunk, number, section, path, start, end, n_tokens, day, stemmed)
            scores = (find_exact(chunk, 0.0), find_gain(chunk, 0.0), find_near(chunk, 0.0))
            candidates.append(_make_candidate((*fields, *scores, find_run(chunk, 0.0))))
        return candidates


def fit_policy(policy: RankingPolicy, candidates: FoundChunks) -> RankingPolicy:
    """Return the weights for the found chunks: with vectors, the weights of fused scores."""
    if not candidates.semantic:
        return policy
    return msgspec.structs.replace(policy, day=policy.fused_day, later=policy.fused_later)


NO_CHUNKS = FoundChunks((), lambda _: {}, lambda _: {})
NO_FACTORS: Mapping[str, float] = {}
# The lines between two chunks that touch: a blank line between blocks.
MAX_GAP = 1


class Ranked(NamedTuple):
    """A candidate with its raw score and the parts of the score: `boosts` are factors by name."""

    candidate: Candidate
    raw_score: float
    exact: float
    note: float
    neighbours: float
    day: float
    boosts: Mapping[str, float] = NO_FACTORS

    @property
    def parts(self) -> dict[str, float]:
        """The parts of the score, which `explain` shows."""
        return {
            "stems": self.candidate.own_stems,
            "family": self.candidate.family,
            "run": self.candidate.run,
            **({"semantic": self.candidate.semantic} if self.candidate.semantic else {}),
            "exact": self.exact,
            "note": self.note,
            "beside": self.neighbours,
            "day": self.day,
            **self.boosts,
        }


_make_ranked = partial(tuple.__new__, Ranked)


def rank_found(
    candidates: FoundChunks, named: Sequence[NamedDate], policy: RankingPolicy
) -> list[Ranked]:
    """Rank all chunks that were found, unjoined, the highest raw score first."""
    return rank_candidates(candidates.make_candidates(), named, fit_policy(policy, candidates))


def rank_candidates(
    candidates: Iterable[Candidate], named: Sequence[NamedDate], policy: RankingPolicy
) -> list[Ranked]:
    """All candidates, the highest raw score first; equals in order of path and line.

    The raw score is (stems + exact + note + neighbour bonus) times the fit of the day.
    """
    by_file: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        by_file.setdefault(candidate.file, []).append(candidate)
    ranked: list[Ranked] = []
    for chunks in by_file.values():
        exact = [policy.exact * c.exact for c in chunks]
        words = [c.stemmed + of_exact for c, of_exact in zip(chunks, exact, strict=True)]
        lines = [(c.start_line, c.end_line) for c in chunks]
        raw_scores, note, beside, fit = _score_note(lines, words, chunks[0].day, named, policy)
        ranked += [
            _make_ranked((c, raw_score, of_exact, note, of_neighbour, fit, NO_FACTORS))
            for c, raw_score, of_exact, of_neighbour in zip(
                chunks, raw_scores, exact, beside, strict=True
            )
        ]
    return sort_ranked(ranked)


# First and last line.
_Lines = tuple[int, int]


class _NoteScores(NamedTuple):
    """The raw scores of the candidates of a note, and their parts besides the words: the gain of
    each from the note, the gains from neighbours, and the factor of the day.
    """

    raw: list[float]
    note: float
    beside: list[float]
    fit: float


def _score_note(
    lines: Sequence[_Lines],
    words: Sequence[float],
    day: str | None,
    named: Sequence[NamedDate],
    policy: RankingPolicy,
) -> _NoteScores:
    """The scores of the candidates of a note with this day, in their order, from their scores by
    `words`.
    """
    fit = 1.0 + policy.day * _fit_day(named, day, policy.later) if named else 1.0
    note = policy.note * max(0.0, *words)
    if len(lines) == 1:
        return _NoteScores([(words[0] + note) * fit], note, [0.0], fit)
    bonus = policy.neighbour_bonus
    beside = [bonus * best for best in _best_neighbours(lines, words)]
    raw = [(word + note + more) * fit for word, more in zip(words, beside, strict=True)]
    return _NoteScores(raw, note, beside, fit)


def _fit_day(named: Sequence[NamedDate], day: str | None, later: float) -> float:
    fit = fit_dates(named, day)
    return fit if fit == 1.0 else later * fit


def _best_neighbours(lines: Sequence[_Lines], words: Sequence[float]) -> list[float]:
    """The best score by words among the chunks that touch each chunk of a note, else 0."""
    best = [0.0] * len(lines)
    in_line = sorted([(start, end, at) for at, (start, end) in enumerate(lines)])
    n_lines = len(in_line)
    for number, (_, end, at) in enumerate(in_line, 1):
        last, worth, next_ = end + MAX_GAP + 1, words[at], number
        # They begin in order of line: after the first that does not touch, none does.
        while next_ < n_lines and in_line[next_][0] <= last:
            other = in_line[next_][2]
            if words[other] > best[at]:  # noqa: PLR1730 - `max` takes five times as long
                best[at] = words[other]
            if worth > best[other]:  # noqa: PLR1730
                best[other] = worth
            next_ += 1
    return best


def sort_ranked(ranked: Iterable[Ranked]) -> list[Ranked]:
    """The highest raw score first; equals in order of path and line."""
    return sorted(ranked, key=_order)


def _order(chunk: Ranked) -> tuple[float, str, int, int, int]:
    c = chunk.candidate
    return (-chunk.raw_score, c.path, c.start_line, c.end_line, c.chunk)


# --- Passages -------------------------------------------------------------------------------------

# Multiplies the raw scores of some candidates by their boosts.
Boost = Callable[[Sequence["Ranked"]], Iterable["Ranked"]]
# Allows for rounding: a bound is added up in another order than the score that it bounds.
_ROUNDING = 1.0 + 1e-9
_RATIO_MARGIN = 1.02
_SMALL_IDF = 0.1
# The number of candidates to read at first; ten passages have about a hundred.
FIRST_READ = 128


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring chunks of a note as one answer.

    `best` is the strongest chunk. `chunks` are all of them, the strongest first, and `sections` the
    section of each. `spans` are the lines of each section, by line, if there are several.
    """

    best: Ranked
    chunks: tuple[int, ...]
    sections: tuple[int, ...]
    span: Span
    spans: Mapping[int, Span] = msgspec.field(default_factory=dict)


def list_semantic_shares(passages: Iterable[Passage]) -> list[float]:
    """Return for each passage the share of the score of its best chunk that the vector gives."""
    return [passage.best.candidate.semantic_share for passage in passages]


class _Group(msgspec.Struct):
    """The rows of one passage by their numbers, the strongest first, and their union. `apart` is
    the section of all of them if it is one apart, else 0.
    """

    members: list[int]
    start: int
    end: int
    n_tokens: float
    apart: int

    def count_tokens(self, start: int, end: int, n_tokens: int) -> float:
        """The size of the union with a chunk, each line counted once: a chunk's tokens count by the
        share of its lines that are new.
        """
        n_new = 0
        if start < self.start:
            n_new = min(end + 1, self.start) - start
        if end > self.end:
            n_new += end - max(start - 1, self.end)
        return self.n_tokens + n_tokens * n_new / (end - start + 1)

    def add(self, member: int, start: int, end: int, n_tokens: float) -> None:
        """Join a chunk; `n_tokens` is the size of the union with it."""
        self.n_tokens = n_tokens
        self.members.append(member)
        self.start = min(self.start, start)
        self.end = max(self.end, end)


def _join_rows(
    rows: Sequence[ChunkRow],
    raw_scores: Sequence[float],
    apart: Collection[int],
    *,
    limit: int,
    passage_tokens: int,
    least: float,
) -> list[_Group]:
    """Join rows of a note that touch, the stronger absorbing the weaker, up to `passage_tokens` a
    passage. Rows of sections `apart` join only with rows of their own section. No passage has a raw
    score below `least`.
    """
    # Equals in order of line, as `_order`.
    in_order = sorted(
        [
            (-raw_score, row[3], row[4], row[0], at)
            for at, (raw_score, row) in enumerate(zip(raw_scores, rows, strict=True))
        ]
    )
    groups: list[_Group] = []
    for negated, start, end, _, at in in_order:
        first, last, own = start - MAX_GAP - 1, end + MAX_GAP + 1, rows[at][5]
        section = rows[at][2] if rows[at][2] in apart else 0
        for group in groups:
            if group.start > last or group.end < first or group.apart != section:
                continue
            n_tokens = group.count_tokens(start, end, own)
            # A chunk that adds no line joins a passage of any size: a giant line is many chunks,
            # and one answer.
            if n_tokens <= passage_tokens or n_tokens <= group.n_tokens:
                group.add(at, start, end, n_tokens)
                break
        else:
            # A passage beyond the limit takes no chunk from the passages of the answer.
            if len(groups) < limit and -negated >= least:
                groups.append(_Group([at], start, end, own, section))
    return groups


def fill_passages(
    passages: Sequence[Passage], more: Sequence[Passage], *, limit: int
) -> list[Passage]:
    """Return all `passages`, and after them, up to `limit`, the passages of `more` that share no
    line with them.
    """
    taken = [(passage.best.candidate.file, passage.span) for passage in passages]
    fresh = [
        passage
        for passage in more
        if not any(
            file == passage.best.candidate.file
            and span.start <= passage.span.end
            and passage.span.start <= span.end
            for file, span in taken
        )
    ]
    return [*passages, *fresh[: max(0, limit - len(passages))]]


def fill_ranked(ranked: Sequence[Ranked], more: Sequence[Ranked]) -> list[Ranked]:
    """Return all of `ranked`, and after them the new chunks of `more`, none of which has a
    higher raw score.
    """
    taken = {chunk.candidate.chunk for chunk in ranked}
    fresh = [each for each in more if each.candidate.chunk not in taken]
    if not ranked or not fresh:
        return [*ranked, *fresh]
    least, best = ranked[-1].raw_score, fresh[0].raw_score
    factor = least / best if 0 < least < best else 1.0
    return [
        *ranked,
        *(each._replace(raw_score=min(least, factor * each.raw_score)) for each in fresh),
    ]


def rank_passages(
    candidates: FoundChunks,
    named: Sequence[NamedDate],
    policy: RankingPolicy,
    *,
    limit: int,
    passage_tokens: int,
    find_exact_ratio: Callable[[], float] | None = None,
    boost: Boost | None = None,
) -> tuple[Passage, ...]:
    """Rank and boost the chunks, and join chunks of a note that touch, the stronger absorbing the
    weaker, up to `passage_tokens` a passage. Return the best `limit` passages, the strongest first.

    Only notes that may hold such a passage are read and ranked. Chunks join within their note, so
    the passages of a note depend on no other note, and a bound of its raw scores tells which notes
    come first. A chunk's score by exact words is at most its score by stems times the result of
    `find_exact_ratio`; without this function, the exact words of all chunks are read first.
    """
    boosted = MAX_FACTOR * _ROUNDING if boost else 1.0
    policy = fit_policy(policy, candidates)
    candidates, ratio = _bound_exact(candidates, find_exact_ratio)
    gain = (1.0 + policy.day if named else 1.0) * boosted * _ROUNDING
    # Passages by the `_order` of their strongest chunk. Candidates are made only for these.
    best: list[tuple[tuple[float, str, int, int, int], _RankedNote, _Group]] = []

    def find_least() -> float:
        return -best[-1][0][0] if len(best) >= limit else -math.inf

    for exact, notes in _read_by_bound(candidates, policy, gain, ratio, find_least):
        files = candidates.files or candidates.read_files([rows[0][1] for _, rows, _ in notes])
        apart = _find_apart(candidates, [rows for _, rows, _ in notes])
        for bound, rows, words in notes:
            least = find_least()
            if gain * bound < least:
                break
            lines = [(row[3], row[4]) for row in rows]
            path, day = files[rows[0][1]]
            scores = _score_note(lines, words, day, named, policy)
            if max(scores.raw) * boosted < least:
                continue

            make_candidates = partial(candidates.make_candidates_of, files=files, exact=exact)
            ranked = _RankedNote(rows, scores, policy.exact, make_candidates)
            if boost:
                ranked = ranked.boost(boost)
            raw_scores = ranked.raw_scores
            groups = _join_rows(
                rows, raw_scores, apart, limit=limit, passage_tokens=passage_tokens, least=least
            )
            for group in groups:
                at = group.members[0]
                chunk, _, _, start, end, _, _ = rows[at]
                best.append(((-raw_scores[at], path, start, end, chunk), ranked, group))
            best.sort(key=itemgetter(0))
            del best[limit:]
    return tuple(ranked.make_passage(group) for _, ranked, group in best)


def _bound_exact(
    candidates: FoundChunks, find_exact_ratio: Callable[[], float] | None
) -> tuple[FoundChunks, float]:
    """Return the bound of scores by exact words over scores by stems, or no bound and the
    candidates with their exact words read.
    """
    if candidates.exact is not None:
        return candidates, math.inf
    ratio = math.inf
    if find_exact_ratio is not None and len(candidates.rows) > FIRST_READ:
        ratio = find_exact_ratio()
    if math.isinf(ratio):
        exact = candidates.read_exact([row[0] for row in candidates.rows])
        candidates = candidates._replace(exact=exact)
    return candidates, ratio


def _find_apart(candidates: FoundChunks, notes: Iterable[Sequence[ChunkRow]]) -> frozenset[int]:
    """Return the sections that are apart, among sections with a row that touches another section's
    row.
    """
    joining: set[int] = set()
    for rows in notes:
        end, section = -MAX_GAP, 0
        for row in sorted(rows, key=itemgetter(3)) if len(rows) > 1 else ():
            if row[2] != section and row[3] <= end + MAX_GAP + 1:
                joining |= {section, row[2]}
            if row[4] >= end:
                end, section = row[4], row[2]
    return frozenset(candidates.find_apart(joining)) if joining else NO_CHUNK_IDS


# An upper bound of the raw scores of a note's chunks before the day and the boosts, its rows, and
# their scores by words.
_BoundNote = tuple[float, Sequence[ChunkRow], list[float]]


class _RankedNote(NamedTuple):
    """A note whose rows are ranked: their scores, and with boosts the chunks after these."""

    rows: Sequence[ChunkRow]
    scores: _NoteScores
    exact_weight: float
    make_candidates: Callable[[Iterable[ChunkRow]], list[Candidate]]
    boosted: Sequence[Ranked] = ()

    @property
    def raw_scores(self) -> list[float]:
        return [chunk.raw_score for chunk in self.boosted] if self.boosted else self.scores.raw

    def boost(self, boost: Boost) -> _RankedNote:
        candidates = self.make_candidates(self.rows)
        ranked = [self._make_ranked(chunk, at) for at, chunk in enumerate(candidates)]
        boosted = {chunk.candidate.chunk: chunk for chunk in boost(ranked)}
        return self._replace(boosted=[boosted[row[0]] for row in self.rows])

    def make_passage(self, group: _Group) -> Passage:
        first = group.members[0]
        if self.boosted:
            best = self.boosted[first]
        else:
            [candidate] = self.make_candidates([self.rows[first]])
            best = self._make_ranked(candidate, first)
        chunks, _, sections, *_ = zip(*[self.rows[at] for at in group.members], strict=True)
        span = Span(group.start, group.end)
        spans = _span_sections([self.rows[at] for at in group.members])
        return Passage(best=best, chunks=chunks, sections=sections, span=span, spans=spans)

    def _make_ranked(self, candidate: Candidate, at: int) -> Ranked:
        raw, note, beside, fit = self.scores
        of_exact = self.exact_weight * candidate.exact
        return _make_ranked((candidate, raw[at], of_exact, note, beside[at], fit, NO_FACTORS))


def _span_sections(rows: Sequence[ChunkRow]) -> dict[int, Span]:
    """Return the lines of each section, by line; empty if all rows are of the same section."""
    if len({row[2] for row in rows}) == 1:
        return {}
    spans: dict[int, Span] = {}
    for _, _, section, start, end, *_ in sorted(rows, key=itemgetter(3)):
        lines = Span(start, end)
        spans[section] = spans[section].join(lines) if section in spans else lines
    return spans


def _bound_notes(
    notes: Iterable[Sequence[ChunkRow]], exact: Mapping[int, float], policy: RankingPolicy
) -> list[_BoundNote]:
    """Bound the scores of notes whose scores by exact words are known, the highest bound first."""
    find, weight = exact.get, policy.exact
    bounded: list[_BoundNote] = []
    for rows in notes:
        words = [row[6] + weight * find(row[0], 0.0) for row in rows]
        if len(rows) == 1:
            bound = _bound_scores(words[0], 0.0, policy)
        else:
            *_, second, best = sorted(words)
            bound = _bound_scores(best, second, policy)
        bounded.append((bound, rows, words))
    bounded.sort(key=itemgetter(0), reverse=True)
    return bounded


def _read_by_bound(
    candidates: FoundChunks,
    policy: RankingPolicy,
    gain: float,
    ratio: float,
    find_least: Callable[[], float],
) -> Iterator[tuple[Mapping[int, float], list[_BoundNote]]]:
    """Yield the scores by exact words of chunks, and the notes of these chunks that may be in the
    answer. It yields at most twice, because each time takes a statement; the second time the score
    that a note has to exceed is known.
    """
    by_file: defaultdict[int, list[ChunkRow]] = defaultdict(list)
    for row in sorted(candidates.rows, key=itemgetter(6), reverse=True):
        by_file[row[1]].append(row)
    notes = [*by_file.values()]  # by the highest score of their rows
    if candidates.exact is not None:
        bounded = _bound_notes(notes, candidates.exact, policy)
        n_first = _count_first([rows for _, rows, _ in bounded])
        yield candidates.exact, bounded[:n_first]
        left = [bound for bound in bounded[n_first:] if gain * bound[0] >= find_least()]
        if left:
            yield candidates.exact, left
        return
    n_first = _count_first(notes)
    exact = candidates.read_exact([row[0] for rows in notes[:n_first] for row in rows])
    yield exact, _bound_notes(notes[:n_first], exact, policy)
    more = _choose_notes(
        notes[n_first:], policy, find_least() / (gain * (1 + policy.exact * ratio))
    )
    if more:
        exact = candidates.read_exact([row[0] for rows in more for row in rows])
        yield exact, _bound_notes(more, exact, policy)


def _count_first(notes: Sequence[Sequence[ChunkRow]]) -> int:
    """Return the number of notes to read first: the notes of FIRST_READ rows."""
    n_rows = accumulate(map(len, notes))
    return next((at for at, n in enumerate(n_rows, 1) if n >= FIRST_READ), len(notes))


def _choose_notes(
    notes: Sequence[Sequence[ChunkRow]], policy: RankingPolicy, least: float
) -> list[Sequence[ChunkRow]]:
    """Return the notes that may score at least `least` by stems alone; `notes` are in order of the
    highest score of their rows.
    """
    chosen = []
    for rows in notes:
        best, second = rows[0][6], rows[1][6] if len(rows) > 1 else 0.0
        if _bound_scores(best, best, policy) < least:
            break
        if _bound_scores(best, second, policy) >= least:
            chosen.append(rows)
    return chosen


def _bound_scores(best: float, second: float, policy: RankingPolicy) -> float:
    """Return an upper bound of the raw scores of a note's chunks before the day and the boosts.
    `best` and `second` bound its two best scores by words; `second` is 0 for a single chunk.
    """
    if best <= 0.0:
        return 0.0
    # The neighbour of the best chunk scores at most `second`, the neighbour of any other `best`.
    beside = policy.neighbour_bonus * max(0.0, second)
    return max(best + beside, second + policy.neighbour_bonus * best) + policy.note * best


def bound_exact_ratio(n_chunks: int, by_stems: Sequence[int], by_words: Sequence[int]) -> float:
    """The most points that a chunk may score by exact words for each point by their stems.

    `by_stems` and `by_words` are the numbers of chunks that contain each word. A word occurs no
    more often than its stem, and in texts of the same length, so in bm25 only its rarity counts for
    more. The bound is infinite if a stem is in so many chunks that it scores next to nothing.
    """
    rarities = [
        (_idf(n_chunks, n), _idf(n_chunks, n_exact))
        for n, n_exact in zip(by_stems, by_words, strict=True)
        if n_exact
    ]
    if any(idf < _SMALL_IDF for idf, _ in rarities):
        return math.inf
    # The index may have a few chunks more or less than `n_chunks`.
    return _RATIO_MARGIN * max((exact / idf for idf, exact in rarities), default=1.0)


def _idf(n_chunks: int, n_holding: int) -> float:
    """The rarity of a word as FTS5 computes it, 0 for a word in half of the chunks."""
    return max(0.0, math.log(max(1.0, n_chunks - n_holding + 0.5) / (n_holding + 0.5)))


def normalize_scores(raw_scores: Sequence[float], *, coverage: float) -> tuple[float, ...]:
    """Scores in (0, 1] for raw scores in descending order, each relative to the first.

    All are multiplied by `coverage` (0-1), the largest share of the query's words in a hit.
    """
    # bm25 is 0 or a little below for words that are in half of all chunks; such a hit is still a
    # hit.
    first = raw_scores[0] if raw_scores and raw_scores[0] > 0 else 1.0
    return tuple(
        min(1.0, max(MIN_SCORE, round(coverage * raw_score / first, 4))) for raw_score in raw_scores
    )


# --- Boosts ---------------------------------------------------------------------------------------

# The largest factor of all boosts together; the smallest is its inverse. With a larger one, boosts
# would outweigh the matched words.
MAX_BOOST = 1.1
# Boosts, and the gain from names of code.
MAX_FACTOR = MAX_BOOST * (1.0 + IDENTIFIER_WEIGHT)
FULL_WEIGHT = 0.1
DAY_S = 86_400
_DAY_0 = date(1970, 1, 1).toordinal()


class Boosts(Protocol):
    """The weight of each boost, from 0, which is off, to 0.1, which allows a factor of up to 1.1.
    All together have a factor of at most 1.1.

    After `half_life_days` the effect of age has halved.
    """

    @property
    def importance(self) -> float: ...
    @property
    def recency(self) -> float: ...
    @property
    def decay(self) -> float: ...
    @property
    def half_life_days(self) -> float: ...


class RankingFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of the boosts.

    `importance` (0-1), `kind` and `day` (ISO) are None where a section states none; `saved_s` is
    since 1970.
    """

    importance: float | None
    kind: str | None = None
    day: str | None
    saved_s: float


def apply_boosts(
    ranked: Sequence[Ranked],
    features: Mapping[int, RankingFeatures],
    boosts: Boosts,
    kinds: Mapping[str, KindDefaults],
    now_s: float,
) -> list[Ranked]:
    """Multiply raw scores by their boosts, add the boosts to the parts, and sort, the highest
    first.

    `features` are by chunk; `now_s` is since 1970.
    """
    factors = {
        chunk.candidate.chunk: compute_boosts(features[chunk.candidate.chunk], boosts, kinds, now_s)
        for chunk in ranked
    }
    return sort_ranked(_boost(chunk, factors[chunk.candidate.chunk]) for chunk in ranked)


def apply_factors(
    ranked: Sequence[Ranked], name: str, factors: Mapping[int, float]
) -> list[Ranked]:
    """Multiply the raw scores of some chunks by their factors, add these to the parts by `name`,
    and sort, the highest first.
    """
    return sort_ranked(
        _boost(chunk, {name: factors[chunk.candidate.chunk]})
        if chunk.candidate.chunk in factors
        else chunk
        for chunk in ranked
    )


def _boost(chunk: Ranked, factors: Mapping[str, float]) -> Ranked:
    return chunk._replace(
        raw_score=chunk.raw_score * math.prod(factors.values()), boosts={**chunk.boosts, **factors}
    )


def compute_boosts(
    features: RankingFeatures, boosts: Boosts, kinds: Mapping[str, KindDefaults], now_s: float
) -> dict[str, float]:
    """The factor of each boost that is on, by its name; `now_s` is since 1970.

    A section that states no importance has the importance of its kind.

    Importance raises or lowers a score, around 0.5. Recency raises new notes, and old notes less;
    decay lowers old sections.
    """
    today = _DAY_0 + int(now_s // DAY_S)
    saved = _DAY_0 + int(features.saved_s // DAY_S)
    of = date.fromisoformat(features.day).toordinal() if features.day else saved
    importance = find_importance(kinds, features.kind, features.importance)
    pulls = {
        "importance": (boosts.importance, 2.0 * importance - 1.0),
        "recency": (boosts.recency, _fade(today - saved, boosts)),
        "decay": (boosts.decay, _fade(today - of, boosts) - 1.0),
    }
    whole = max(FULL_WEIGHT, boosts.importance + boosts.recency + boosts.decay)
    return {
        name: MAX_BOOST ** (pull * weight / whole)
        for name, (weight, pull) in pulls.items()
        if weight
    }


def _fade(age_days: int, boosts: Boosts) -> float:
    """1 today, half after a half-life; a future date counts as today."""
    return float(0.5 ** (max(0, age_days) / boosts.half_life_days))
