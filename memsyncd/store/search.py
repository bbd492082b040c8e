"""Search index.db: find candidates, and read the rows of hits.

A search takes two steps. The first reads the row ids of the best `limit` chunks with their bm25:
SQLite keeps a short list and reads no text. The second reads rows and texts of the few chunks of
the answer. A single statement for both would fetch the text of every match.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, cast

from memsyncd.core.model import path_words
from memsyncd.core.search.filters import Filters
from memsyncd.core.search.plan import NOTHING_EXCLUDED, Excluded
from memsyncd.core.search.ranking import ChunkRow, FileRow, FoundChunks, RankingFeatures
from memsyncd.core.search.words import (
    WordFamily,
    blank_marks,
    compute_gains,
    find_subwords,
    fold,
    is_related,
    space_out,
)
from memsyncd.store.filters import (
    MatchFilters,
    compile_filters,
    compile_match_filters,
    limit_to_range,
    read_last_chunk,
)
from memsyncd.store.pool import MEMO_LIMIT, Reader, encode_numbers
from memsyncd.store.sections import decode_texts
from memsyncd.store.texts import read_front_matter

# --- Candidates -----------------------------------------------------------------------------------

HEADING_WEIGHT, TEXT_WEIGHT, TAGS_WEIGHT, SUBWORDS_WEIGHT = 1.5, 1.0, 1.0, 1.0
# With 1.0 a note that a property describes ranks below others; the answers to 1,500 questions gain
# nothing with 3.0.
PROPERTIES_WEIGHT = 2.0
# Rows that tie with the last row within the limit count as well, if they are no more than this;
# else the first by path fill the limit.
N_TIES = 100
# The most rows that tie with the last and are put in order: in a large index nearly all chunks may
# tie for a word.
MAX_TIED = 300
# Up to this number, all matches are read: SQLite puts rows to limit into a b-tree, which takes
# longer. If there are more, SQLite returns only the best.
MAX_SORTED = 1_600
# If filters let at least this share of chunks pass, they are checked for the best matches only:
# scoring a match takes less than checking it. So many times the rows that are likely to be needed
# are checked at a time. The share is that of a sample of so many chunks.
LEAST_PASSING, SPARE_ROWS, N_SAMPLED = 0.5, 1.3, 64

_WEIGHTS = f"{TEXT_WEIGHT}, {HEADING_WEIGHT}, {TAGS_WEIGHT}, {SUBWORDS_WEIGHT}, {PROPERTIES_WEIGHT}"
# Columns in the order of a row's fields; each score is computed once, for the order.
_CHUNK = "c.id, c.file, c.section, c.start_line, c.end_line, c.tokens"
_SCORED = (
    "SELECT rowid AS id, -bm25(chunks_fts, {weights}) AS raw_score FROM chunks_fts"
    " WHERE chunks_fts MATCH :match {allowed}"
)
_MATCHING = (
    f"SELECT {_CHUNK}, scored.raw_score FROM ({_SCORED}) scored CROSS JOIN chunks c"
    " ON c.id = scored.id"
)
_BEST = f"{_SCORED} ORDER BY raw_score DESC LIMIT :most"
_ROWS = f"SELECT {_CHUNK} FROM json_each(?) v CROSS JOIN chunks c ON c.id = v.value"
_IN_ORDER = (
    "SELECT c.id FROM json_each(?) v CROSS JOIN chunks c ON c.id = v.value"
    " JOIN files f ON f.id = c.file ORDER BY f.path, c.start_line, c.end_line, c.digest LIMIT ?"
)
# The filters call a chunk `c`, so its number has another name outside of them.
_N_PASSING = (
    "SELECT count(*), total({passes}) FROM json_each(:sample) v CROSS JOIN chunks c"
    " ON c.id = v.value"
)
_PASSING = "SELECT value FROM json_each(:checked) v WHERE {passes}"
# The plus is needed as in the filters: with a bare rowid SQLite would ask FTS5 for each id.
_SCORES = (
    "SELECT rowid, -bm25({table}, {weights}) FROM {table} WHERE {table} MATCH ?"
    " {range} AND +rowid IN (SELECT value FROM json_each(?))"
)
_FILES = "SELECT id, path, day FROM files WHERE id IN (SELECT value FROM json_each(?))"
_FILTERED = (
    f"SELECT {_CHUNK}, 0.0 FROM chunks c JOIN files f ON f.id = c.file"
    " WHERE c.id IN (SELECT rowid FROM chunks WHERE 1 {allowed}) {must_not}"
    " ORDER BY f.path, c.start_line, c.id LIMIT :limit"
)
_SELECTED = "AND +rowid IN (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH :selecting)"
_MUST_NOT = (
    "AND ({id} NOT IN (SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH :must_not)"
    " OR {id} IN (SELECT value FROM json_each(:spared)))"
)
_BEST_MATCHING = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rank LIMIT ?"
_MATCHING_AMONG = (
    "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?"
    " AND +rowid IN (SELECT value FROM json_each(?))"
)
_IS_MATCHING = "SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH ? LIMIT 1"
# One statement for all terms: each takes longer to start than to find the matches of most words.
_COUNT_ONE = "(SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT {most}))"
_HOLDING = (
    "SELECT rowid, held_phrases(chunks_fts) FROM chunks_fts WHERE chunks_fts MATCH ?"
    " AND +rowid IN (SELECT value FROM json_each(?))"
)
# FTS5 looks up a run of rows in the time of a single row: for words in many chunks that is cheaper
# than passing over all of them.
_HOLDING_RUNS = (
    "SELECT f.rowid, held_phrases(f.chunks_fts) FROM json_each(?2) run CROSS JOIN chunks_fts f"
    " WHERE f.chunks_fts MATCH ?1 AND f.rowid >= run.value ->> 0 AND f.rowid <= run.value ->> 1"
)
# The number of matches that are passed over in the time of looking up a phrase in a run.
MATCHES_PER_LOOKUP = 60


NO_FAMILIES: Mapping[int, FoundFamily] = {}


def _bind_excluded(excluded: Excluded) -> dict[str, str]:
    if not excluded.match:
        return {}
    return {"must_not": excluded.match, "spared": encode_numbers(excluded.spared)}


def find_candidates(  # noqa: PLR0913 - all but three are optional
    reader: Reader,
    match: str,
    filters: Filters,
    *,
    limit: int,
    must_not: Excluded = NOTHING_EXCLUDED,
    selecting: str = "",
    families: Mapping[int, FoundFamily] = NO_FAMILIES,
    is_filling: bool = True,
    n_matching: float = math.inf,
) -> FoundChunks:
    """Return the `limit` best chunks for an FTS5 expression by the stems of its words, and the
    chunks that tie with the last, in no particular order. About `n_matching` match it, or fewer.

    Chunks that match `must_not` are excluded. With an expression `selecting`, chunks that do not
    match it are excluded, too: passing over a match takes a tenth of the time of its score. A chunk
    that holds an exact word holds its stem, so exact words select nothing that stems do not.
    """
    allowed = compile_match_filters(reader, filters, n_matching)
    bound = {"match": match, **allowed.bindings}
    if selecting:
        allowed = allowed._replace(listed=f"{_SELECTED} {allowed.listed}")
        bound["selecting"] = selecting
    if must_not.match:
        allowed = allowed._replace(listed=f"{allowed.listed} {_MUST_NOT.format(id='+rowid')}")
        bound |= _bind_excluded(must_not)
    rows = _find_best(reader, allowed, bound, limit, n_matching)
    candidates = FoundChunks(
        rows,
        read_exact=partial(_read_scores, reader, "chunks_exact", match),
        read_files=partial(read_files, reader),
    )
    if selecting or len(rows) >= limit:
        candidates = candidates._replace(
            read_stems=partial(_read_scores, reader, "chunks_fts", match)
        )
    if not families:
        return candidates
    related = _read_gains(reader, families)
    gains: dict[int, float] = {}
    for of_word in related.values():
        for chunk, gain in of_word.items():
            gains[chunk] = gains.get(chunk, 0.0) + gain
    rows = [(*row[:6], row[6] + gains[row[0]]) if row[0] in gains else row for row in rows]
    if is_filling:
        rows += _read_related(reader, match, gains, rows, allowed.allowed, bound, limit)
    return candidates._replace(rows=rows, gains=gains, related=related)


def _read_related(
    reader: Reader,
    match: str,
    gains: Mapping[int, float],
    rows: Sequence[ChunkRow],
    allowed: str,
    bound: Mapping[str, Any],
    limit: int,
) -> list[ChunkRow]:
    """Return the rows of the chunks that have related words and are not among `rows`."""
    more = [*gains.keys() - {row[0] for row in rows}]
    if not more:
        return []
    # All chunks with the words themselves were found, unless there are too many.
    scores = _read_scores(reader, "chunks_fts", match, more) if len(rows) >= limit else {}
    statement = _RELATED.format(allowed=allowed.replace(_SELECTED, ""))
    named = {name: value for name, value in bound.items() if name not in ("match", "selecting")}
    related = reader.many_rows(6, statement, {**named, "more": encode_numbers(more)})
    return [(*row, gains[row[0]] + scores.get(row[0], 0.0)) for row in related]


# --- Chunks found by their vectors ----------------------------------------------------------------

# If no more chunks than this pass the filters, they are listed; else chunks that do not pass are
# left out of the found chunks.
MAX_ALLOWED = 10_000
_ALLOWED = "SELECT id FROM chunks WHERE 1 {allowed} LIMIT :most"


def list_allowed(
    reader: Reader, filters: Filters, must_not: Excluded = NOTHING_EXCLUDED
) -> list[int] | None:
    """Return the chunks that pass the filters and are not excluded; None if all do, or more than
    MAX_ALLOWED.
    """
    allowed, bound = _add_excluded(*compile_filters(reader, filters), must_not)
    if not allowed:
        return None
    remembered: dict[Any, list[int] | None] = reader.memo.setdefault("allowed", {})
    key = (allowed, *bound.values())
    if key not in remembered:
        statement = _ALLOWED.format(allowed=allowed)
        rows = reader.many_rows(1, statement, {**bound, "most": MAX_ALLOWED + 1})
        remembered.clear()  # such a list takes much memory
        remembered[key] = [row[0] for row in rows] if len(rows) <= MAX_ALLOWED else None
    return remembered[key]


def find_rows(
    reader: Reader,
    chunks: Sequence[int],
    filters: Filters,
    must_not: Excluded = NOTHING_EXCLUDED,
) -> list[ChunkRow]:
    """Return the rows of the `chunks` that pass the filters and are not excluded, with a score
    of 0.
    """
    if not chunks:
        return []
    passing = compile_match_filters(reader, filters, len(chunks))
    allowed, bound = _add_excluded(passing.allowed, passing.bindings, must_not)
    bound = {**bound, "more": encode_numbers(chunks)}
    return [(*row, 0.0) for row in reader.many_rows(6, _RELATED.format(allowed=allowed), bound)]


def _add_excluded(
    allowed: str, bindings: dict[str, str], must_not: Excluded
) -> tuple[str, dict[str, str]]:
    if not must_not.match:
        return allowed, bindings
    return f"{allowed} {_MUST_NOT.format(id='+rowid')}", {**bindings, **_bind_excluded(must_not)}


# --- Exact words ----------------------------------------------------------------------------------

_EXACT = "SELECT rowid FROM chunks_exact WHERE chunks_exact MATCH ? LIMIT ?"


def find_exact(reader: Reader, match: str, *, most: int) -> list[int]:
    """Return the chunks that match an FTS5 expression by exact words; none if there are more than
    `most`, because the order in which notes were indexed must not choose among them.
    """
    rows = reader.many_rows(1, _EXACT, (match, most + 1))
    return [row[0] for row in rows] if len(rows) <= most else []


# --- Families of words ----------------------------------------------------------------------------

# A beginning that more words share has no meaning.
MAX_FAMILY_WORDS = 400
# Up to this number, related words are looked up one by one, without the word's own forms.
MAX_SINGLE_WORDS = 8

_LONGER_WORDS = "SELECT term, doc FROM words_exact WHERE term >= ? AND term < ? LIMIT ?"
_WORDS = "SELECT term, doc FROM words_exact WHERE term IN (SELECT value FROM json_each(?))"
_SCORES_OF = "SELECT {number}, rowid, -bm25({table}, {weights}) FROM {table} WHERE {table} MATCH ?"
_GAINS = (
    "WITH related(number, id, score) AS MATERIALIZED ({related})"
    " SELECT * FROM related UNION ALL {own}"
)
_AMONG_RELATED = (
    " AND +rowid IN (SELECT id FROM related WHERE number >= {first} AND number < {end})"
)
# The filters call the table that they limit `chunks_fts`.
_RELATED = (
    "SELECT id, file, section, start_line, end_line, tokens FROM chunks AS chunks_fts"
    " WHERE id IN (SELECT value FROM json_each(:more)) {allowed}"
)


class FoundFamily(NamedTuple):
    """The words of an index that are related to a word of a query.

    `match` finds the word itself, which `n_own` chunks have. Each of `related` finds a word as
    written; if there are many related words, the first finds all words with the same beginning,
    with `has_own` the word's own forms, too. `stems` are the stems of the related words, and
    `n_related` is about the number of chunks that have any.
    """

    match: str
    n_own: int
    related: tuple[str, ...]
    has_own: bool
    stems: frozenset[str]
    n_related: int


def read_family(reader: Reader, family: WordFamily | None, match: str) -> FoundFamily | None:
    """Return the words of the index in a word's family; None if the index has none.

    `match` is the FTS5 expression of the word.
    """
    if family is None:
        return None
    remembered: dict[WordFamily, FoundFamily | None] = reader.memo.setdefault("families", {})
    if family not in remembered:
        if len(remembered) >= MEMO_LIMIT:
            remembered.clear()
        remembered[family] = _read_family(reader, family, match)
    return remembered[family]


def _read_family(reader: Reader, family: WordFamily, match: str) -> FoundFamily | None:
    first, last = family.beginning, f"{family.beginning}\U0010ffff"
    longer = reader.many_rows(2, _LONGER_WORDS, (first, last, MAX_FAMILY_WORDS + 1))
    if len(longer) > MAX_FAMILY_WORDS:
        return None
    shorter = reader.rows(_WORDS, (json.dumps(family.shorter),)) if family.shorter else []
    words = [word for word, _ in (*longer, *shorter)]
    stems = reader.split(" ".join(words))
    if len(stems) != len(words):
        return None
    related = {
        word: (token, n)
        for token, (word, n) in zip(stems, (*longer, *shorter), strict=True)
        if is_related(family, token)
    }
    if not related:
        return None
    has_own = len(related) > MAX_SINGLE_WORDS
    single = [word for word, _ in shorter if word in related] if has_own else related
    return FoundFamily(
        match=match,
        n_own=0,
        related=(*([f'"{first}" *'] if has_own else []), *(f'"{word}"' for word in single)),
        has_own=has_own,
        stems=frozenset(token for token, _ in related.values()),
        n_related=sum(n for _, n in related.values()),
    )


def _read_gains(reader: Reader, families: Mapping[int, FoundFamily]) -> dict[int, dict[int, float]]:
    """Return the gains of chunks from the families, by the families' numbers and chunk."""
    related: list[str] = []
    own: list[str] = []
    for family in families.values():
        first = len(related)
        related += [
            _SCORES_OF.format(number=first + n, table="chunks_exact", weights=_WEIGHTS)
            for n in range(len(family.related))
        ]
        own.append(
            _SCORES_OF.format(number=-len(own) - 1, table="chunks_fts", weights=_WEIGHTS)
            + _AMONG_RELATED.format(first=first, end=len(related))
        )
    matches = [match for family in families.values() for match in family.related]
    matches += [family.match for family in families.values()]
    statement = _GAINS.format(related=" UNION ALL ".join(related), own=" UNION ALL ".join(own))
    # Scores of related words by number, and from the end scores of the words themselves.
    scores: list[dict[int, float]] = [{} for _ in matches]
    for number, chunk, score in reader.many_rows(3, statement, tuple(matches)):
        scores[number][chunk] = score
    n_chunks, lists = count_chunks(reader), iter(scores)
    return {
        number: compute_gains(
            n_chunks,
            family.n_own,
            scores[-at],
            [next(lists) for _ in family.related],
            has_own=family.has_own,
        )
        for at, (number, family) in enumerate(families.items(), 1)
    }


def count_chunks(reader: Reader) -> int:
    """Return the number of chunks, from which FTS5 computes the rarity of a word."""
    memo = reader.memo
    if "n_chunks" not in memo:
        memo["n_chunks"] = reader.rows("SELECT count(*) FROM chunks")[0][0]
    n: int = memo["n_chunks"]
    return n


def _find_best(
    reader: Reader, allowed: MatchFilters, bound: dict[str, Any], limit: int, n_matching: float
) -> list[ChunkRow]:
    """Return rows with their raw scores. Among chunks with equal scores, the order in which SQLite
    finds them must not decide, unless more than MAX_TIED are equal.
    """
    if n_matching <= MAX_SORTED:
        statement = _MATCHING.format(weights=_WEIGHTS, allowed=allowed.allowed)
        rows = reader.many_rows(7, statement, bound)
        rows.sort(key=itemgetter(6), reverse=True)
        return cast("list[ChunkRow]", _cut(reader, rows, limit))
    scores = dict(_cut(reader, _score_best(reader, allowed, bound, limit), limit))
    rows = reader.many_rows(6, _ROWS, (encode_numbers(scores),))
    return [(*row, scores[row[0]]) for row in cast("list[Any]", rows)]


def _cut(reader: Reader, rows: list[tuple[Any, ...]], limit: int) -> list[tuple[Any, ...]]:
    """Return the first `limit` rows, and rows that tie with the last. Rows begin with the chunk,
    end with the score, and are in the order of these.
    """
    if len(rows) <= limit:
        return rows
    least = rows[limit - 1][-1]
    end = next((at for at in range(limit, len(rows)) if rows[at][-1] < least), len(rows))
    if end <= limit + N_TIES:
        return rows[:end]
    better = [row for row in rows[:limit] if row[-1] > least]
    tied = {row[0]: row for row in rows[len(better) : end]}
    in_order = reader.many_rows(1, _IN_ORDER, (encode_numbers(tied), limit - len(better)))
    return [*better, *(tied[chunk] for (chunk,) in in_order)]


def _score_best(
    reader: Reader, allowed: MatchFilters, bound: dict[str, Any], limit: int
) -> list[tuple[Any, ...]]:
    """Return the best chunks that pass, with their raw scores, the best first: `limit` at least if
    there are as many, and chunks that tie with the last.
    """

    def score(conditions: str, n_needed: int) -> tuple[list[tuple[Any, ...]], bool]:
        """Return the best, and whether there are no more."""
        statement, most = _BEST.format(weights=_WEIGHTS, allowed=conditions), n_needed + MAX_TIED
        rows = reader.many_rows(2, statement, {**bound, "most": most})
        return rows, len(rows) < most

    share = estimate_passing(reader, allowed) if allowed.checked else 0.0
    if not share or share < LEAST_PASSING:
        return score(allowed.allowed, limit)[0]
    portion = max(limit, int(limit / share * SPARE_ROWS))
    scored, are_all = score(allowed.listed, portion)
    passing = list[tuple[Any, ...]]()
    statement = _PASSING.format(passes=allowed.check("v.value"))
    for at in range(0, len(scored), portion):
        checked = scored[at : at + portion]
        numbers = encode_numbers([row[0] for row in checked])
        chunks = {row[0] for row in reader.many_rows(1, statement, {**bound, "checked": numbers})}
        passing += [row for row in checked if row[0] in chunks]
        if len(passing) >= limit and checked[-1][1] < passing[limit - 1][1]:
            return passing
    is_enough = are_all or len(passing) >= limit
    return passing if is_enough else score(allowed.allowed, limit)[0]


def estimate_passing(reader: Reader, allowed: MatchFilters) -> float:
    """Return about the share of chunks that pass the filters that are checked, 0 to 1."""
    last = read_last_chunk(reader)
    sample = encode_numbers(range(1, last + 1, max(1, last // N_SAMPLED)))
    statement = _N_PASSING.format(passes=allowed.check("v.value"))
    [(n_chunks, n_passing)] = reader.rows(statement, {**allowed.bindings, "sample": sample})
    return n_passing / n_chunks if n_chunks else 0.0


def _read_scores(reader: Reader, table: str, match: str, chunks: Sequence[int]) -> dict[int, float]:
    """Return the raw scores of the `chunks` that match, by chunk."""
    if not chunks:
        return {}
    limits = limit_to_range(reader, chunks)
    statement = _SCORES.format(table=table, weights=_WEIGHTS, range=limits)
    return dict(reader.many_rows(2, statement, (match, encode_numbers(chunks))))


def read_files(reader: Reader, files: Collection[int]) -> Mapping[int, FileRow]:
    """Return the path and the day of notes, by their numbers."""

    def read(missing: Collection[int]) -> dict[int, FileRow]:
        rows = reader.many_rows(3, _FILES, (encode_numbers(missing),))
        return {file: (path, day) for file, path, day in rows}

    return reader.remember("files", files, read)


def find_filtered(
    reader: Reader, filters: Filters, must_not: Excluded = NOTHING_EXCLUDED, *, limit: int
) -> FoundChunks:
    """Return the first `limit` chunks by path and line that pass the filters and are not
    excluded.
    """
    allowed, bindings = compile_filters(reader, filters)
    excluded = _MUST_NOT.format(id="c.id") if must_not.match else ""
    bound = {"limit": limit, **_bind_excluded(must_not), **bindings}
    rows = reader.many_rows(7, _FILTERED.format(allowed=allowed, must_not=excluded), bound)
    return FoundChunks(
        cast("list[ChunkRow]", rows),
        read_exact=lambda _: {},
        read_files=partial(read_files, reader),
    )


def count_matching(
    reader: Reader, matches: Sequence[str], *, most: int, is_exact: bool = False
) -> list[int]:
    """Return the number of chunks that match each FTS5 expression, by stems or by exact words; it
    counts up to `most`.
    """
    if not matches:
        return []
    table = "chunks_exact" if is_exact else "chunks_fts"
    # By expression: the number of matches, and the limit up to which they were counted.
    remembered: dict[str, tuple[int, int]] = reader.memo.setdefault(table, {})
    if len(remembered) + len(matches) > MEMO_LIMIT:
        remembered.clear()
    new = [match for match in matches if not _is_counted(remembered.get(match), most)]
    if new:
        statement = ", ".join([_COUNT_ONE.format(table=table, most=most)] * len(new))
        counted = reader.rows(f"SELECT {statement}", tuple(new))[0]
        remembered.update((match, (n, most)) for match, n in zip(new, counted, strict=True))
    return [min(most, remembered[match][0]) for match in matches]


def _is_counted(counted: tuple[int, int] | None, most: int) -> bool:
    return counted is not None and (counted[0] < counted[1] or counted[1] >= most)


def find_best_matching(reader: Reader, match: str, *, limit: int) -> list[int]:
    """Return the `limit` chunks that match an FTS5 expression best, by number."""
    return sorted(row[0] for row in reader.many_rows(1, _BEST_MATCHING, (match, limit)))


def find_matching_among(reader: Reader, match: str, chunks: Sequence[int]) -> list[int]:
    """Return the chunks among these that match an FTS5 expression."""
    rows = reader.many_rows(1, _MATCHING_AMONG, (match, encode_numbers(chunks)))
    return [row[0] for row in rows]


def is_matching(reader: Reader, match: str) -> bool:
    """True if any chunk matches an FTS5 expression."""
    return bool(reader.rows(_IS_MATCHING, (match,)))


def find_holding(
    reader: Reader, phrases: Sequence[str], chunks: Collection[int], n_matching: int
) -> dict[int, list[int]]:
    """Return, by chunk, the indices of the phrases that it has, for `chunks` with any of them. Each
    phrase is an FTS5 expression.

    There may be 64 phrases. `n_matching` is about the sum of the chunks that match each phrase: the
    way of looking them up depends on it, but not the result.
    """
    if not phrases or not chunks:
        return {}
    match, runs = " OR ".join(phrases), _find_runs(chunks)
    if n_matching > len(runs) * len(phrases) * MATCHES_PER_LOOKUP:
        rows = reader.many_rows(2, _HOLDING_RUNS, (match, encode_numbers(runs)))
    else:
        rows = reader.many_rows(2, _HOLDING, (match, encode_numbers(chunks)))
    # Most chunks have one of a few sets of phrases.
    numbers = range(len(phrases))
    phrases_by_bits = {
        bits: [at for at in numbers if bits >> at & 1] for bits in {row[1] for row in rows}
    }
    return {chunk: phrases_by_bits[bits] for chunk, bits in rows}


def _find_runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of numbers, in order."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


# --- Words of chunks ------------------------------------------------------------------------------

_NAMED = (
    "SELECT c.id, f.path, f.title, s.heading,"
    " (SELECT group_concat(tag, ' ') FROM tags WHERE section = s.id),"
    " (SELECT group_concat(iif(name = '', key, name), ' ') FROM names WHERE file = f.id)"
    " FROM chunks c JOIN sections s ON s.id = c.section JOIN files f ON f.id = c.file"
    " WHERE c.id IN (SELECT value FROM json_each(?))"
)


class PassageWords(NamedTuple):
    """The words, as stems, by which any chunk of a passage is found, and the words by which a chunk
    may be found.
    """

    certain: set[str]
    possible: set[str]


def read_words(
    reader: Reader, texts: Mapping[int, str], passages: Sequence[Sequence[int]]
) -> list[PassageWords | None]:
    """Return the words of the FTS5 columns of passages, each some chunks of one note; None for
    passages of notes with aliases. `texts` are the texts of the chunks as indexed.
    """
    every = [chunk for chunks in passages for chunk in chunks]
    named = {chunk: columns for chunk, *columns in reader.rows(_NAMED, (encode_numbers(every),))}
    fronts = read_front_matter(reader, every)
    return [_join_words(reader, texts, fronts, named, chunks) for chunks in passages]


def _join_words(
    reader: Reader,
    texts: Mapping[int, str],
    fronts: Mapping[int, str],
    named: Mapping[int, Sequence[str]],
    chunks: Sequence[int],
) -> PassageWords | None:
    # A word ends at the latest with its line, so the words of all texts are found at once.
    lines: dict[str, None] = {}
    stated: set[str] = set()
    for path, _, heading, tags, _ in map(named.__getitem__, chunks):
        lines[" ".join((path_words(path), *decode_texts(heading)))] = None
        stated.update((space_out(fold(tags or "")), find_subwords(fold(path))))
    of_chunks = [text for chunk in chunks for text in (fronts.get(chunk, ""), texts[chunk])]
    whole = fold("\n".join([*lines, *of_chunks]))
    indexed = blank_marks(whole)
    certain = {*reader.split("\n".join((space_out(indexed), *stated, find_subwords(indexed))))}
    # The title is indexed if front matter or an alias states it.
    _, title, _, _, names = named[chunks[0]]
    title = fold(title)
    possible = certain.union(reader.split(f"{space_out(title)} {find_subwords(title)}"))
    # Aliases are stored folded, and indexed as they are written.
    if names and not possible.issuperset(reader.split(space_out(fold(names)))):
        return None
    if indexed != whole:
        possible.update(reader.split(f"{space_out(whole)}\n{find_subwords(whole)}"))
    return PassageWords(certain, possible)


# --- Features -------------------------------------------------------------------------------------

_FEATURES = (
    "SELECT c.id, s.importance, s.kind, coalesce(s.day, f.day), f.mtime_ns"
    " FROM chunks c JOIN sections s ON s.id = c.section JOIN files f ON f.id = c.file"
    " WHERE c.id IN (SELECT value FROM json_each(?))"
)


def read_ranking_features(reader: Reader, chunks: Iterable[int]) -> dict[int, RankingFeatures]:
    """Return the values on which the boosts of a search depend, by chunk."""
    rows = reader.many_rows(5, _FEATURES, (encode_numbers(chunks),))
    return {
        row[0]: RankingFeatures(importance=row[1], kind=row[2], day=row[3], saved_s=row[4] / 1e9)
        for row in rows
    }
