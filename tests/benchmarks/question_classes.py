"""Measure searches of nine classes over the socket, at 10,000 chunks and at all of the corpus.

The classes are a rare word, a word in 1 to 10 % of the chunks, a commoner one, two or three words, a
sentence, twenty words, a phrase, two words within a folder that holds most chunks, and a prefix.
Words and sentences are those of the index, the same ones each run. Each search is measured beside
its limit: the best ten by stems of the same words, in this process, and their texts.

`overlap with ranking everything` is the share of the first ten hits that a search also has if it
ranks every match, of which it takes the best by stems, on a large index by rare words alone.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from memsyncd.client import Client
from memsyncd.config import Config
from memsyncd.core.search.query import STOPWORDS, compile_positive, parse_query
from memsyncd.engine import search as engine
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.errors import MemsyncdError
from memsyncd.protocol.search import SearchParams
from memsyncd.store.index import Counts
from memsyncd.store.pool import ConnectionPool, Reader
from tests.benchmarks.answers import N_CHUNKS, copy_notes
from tests.benchmarks.cold import POLICY
from tests.benchmarks.figure import Figure, find_median, find_percentile
from tests.benchmarks.home import Home, running
from tests.benchmarks.measures import find_mean

N_OF_A_CLASS = 20
N_ROUNDS = 3
N_CONTEXT_TOKENS = 1000
TIMEOUT_MS = 10_000
TARGET_P50_MS, TARGET_P95_MS = 1.5, 6
TARGET_FILTER = 1.5
ALL_CHUNKS = 10**9
FILTERED = "two words in most of the folders"
UNFILTERED = "the same words anywhere"

_SENTENCE = re.compile(r"[A-Z][a-z]+(?: [a-z]+){7,13}(?=[.,;])")
_BEST_TEN = (
    "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?"
    " ORDER BY bm25(chunks_fts, 1.5, 1.0, 1.0, 1.0) LIMIT 10"
)
_LARGEST_FOLDER = (
    "SELECT substr(path, 1, instr(substr(path, 11), '/') + 9) AS folder, count(*) AS n"
    " FROM chunks c JOIN files f ON f.id = c.file WHERE path LIKE '.memories/%/%'"
    " GROUP BY folder ORDER BY n DESC LIMIT 1"
)


def measure(corpus: Path) -> Iterator[Figure]:
    for most in (N_CHUNKS, ALL_CHUNKS):
        with running() as home:
            copy_notes(corpus, home.folder / "notes", most)
            home.add(home.folder / "notes")
            pool = ConnectionPool(str(home.index_path()))
            with pool.acquire(60.0) as reader:
                yield from _measure(home, reader, has_targets=most == N_CHUNKS)
            pool.close()


def _measure(home: Home, reader: Reader, *, has_targets: bool) -> Iterator[Figure]:
    n_chunks = reader.rows("SELECT count(*) FROM chunks")[0][0]
    at = f"at {n_chunks:,} chunks"
    questions = make_questions(reader, n_chunks)
    ways = {name: time_searches(home, reader, chosen) for name, chosen in questions.items()}
    everything = [ms for name, (times, _, _) in ways.items() if name != UNFILTERED for ms in times]
    limits = [ms for name, (_, ms_, _) in ways.items() if name != UNFILTERED for ms in ms_]
    for percent, target in ((50, TARGET_P50_MS), (95, TARGET_P95_MS)):
        limit_ms = find_percentile(limits, percent)
        yield Figure(
            name=f"p{percent} of nine classes {at}",
            value=find_percentile(everything, percent),
            unit="ms",
            target=target if has_targets else None,
            note=f"the same MATCH in process {limit_ms:.2f} ms",
        )
    for name, (times, limit, n_errors) in ways.items():
        yield Figure(
            name=f"of these, {name}",
            value=find_median(times),
            unit="ms",
            note=f"p95 {find_percentile(times, 95):.2f}, MATCH {find_median(limit):.2f} ms,"
            f" errors {n_errors}",
        )
    filtered, unfiltered = (find_median(ways[name][0]) for name in (FILTERED, UNFILTERED))
    name = f"a broad filter / the same words without it {at}"
    yield Figure(name=name, value=filtered / unfiltered, unit="x", target=TARGET_FILTER)
    yield from _measure_contexts(home, questions["a sentence"], at)
    yield _measure_overlap(home, questions, n_chunks, at)


def make_questions(reader: Reader, n_chunks: int) -> dict[str, list[str]]:
    """Questions of each class, made of the words and texts of an index."""
    chance = random.Random(11)
    rows = reader.rows("SELECT term, doc FROM words_exact")
    words = sorted(
        (word, n)
        for word, n in rows
        if len(word) > 3 and word.isalpha() and word.isascii() and word not in STOPWORDS
    )

    def choose(least: float, most: float) -> list[str]:
        return [word for word, n in words if least <= n / n_chunks <= most]

    middle, low = choose(0.01, 0.1), choose(0.0005, 0.01)
    pairs = [" ".join(chance.sample(middle + low, 2)) for _ in range(N_OF_A_CLASS)]
    folder = reader.rows(_LARGEST_FOLDER)[0][0]
    sentences = _find_sentences(reader, chance)
    return {
        "a rare word": chance.sample(choose(0, max(0.0005, 5 / n_chunks)), N_OF_A_CLASS),
        "a word in 1 to 10 %": _sample(chance, middle),
        "a commoner word": _sample(chance, choose(0.1, 1.0)),
        "two or three words": [
            " ".join(chance.sample(middle + low, chance.choice((2, 3))))
            for _ in range(N_OF_A_CLASS)
        ],
        "a sentence": [f"how does {one[0].lower()}{one[1:]}?" for one in sentences],
        "twenty words": [
            " ".join(chance.sample(middle, 10) + chance.sample(low, 10))
            for _ in range(N_OF_A_CLASS)
        ],
        "a phrase": [f'"{" ".join(one.split()[2:5])}"' for one in sentences],
        FILTERED: [f'path:"{folder}" {pair}' for pair in pairs],
        "a prefix": [f"{word[:4]}*" for word in chance.sample(low, N_OF_A_CLASS)],
        UNFILTERED: pairs,
    }


def _sample(chance: random.Random, words: list[str]) -> list[str]:
    return chance.sample(words, min(N_OF_A_CLASS, len(words)))


def _find_sentences(reader: Reader, chance: random.Random) -> list[str]:
    chunks = [row[0] for row in reader.rows("SELECT id FROM chunks ORDER BY id")]
    chance.shuffle(chunks)
    found: list[str] = []
    for chunk in chunks:
        text = reader.rows("SELECT text FROM chunks_fts WHERE rowid = ?", (chunk,))[0][0]
        for sentence in _SENTENCE.findall(text):
            if 4 <= sum(word.lower() not in STOPWORDS for word in sentence.split()) <= 8:
                found.append(sentence)
                break
        if len(found) == N_OF_A_CLASS:
            break
    return found


def time_searches(
    home: Home, reader: Reader, questions: list[str]
) -> tuple[list[float], list[float], int]:
    """Milliseconds of each search and of its limit, by turns, the best of some rounds; and errors."""
    times_ms, limits_ms = [float("inf")] * len(questions), [float("inf")] * len(questions)
    n_errors = 0
    with home.client() as client:
        for _ in range(N_ROUNDS):
            for at, question in enumerate(questions):
                n_failed, ms = _time(lambda question=question: _ask(client, question))
                n_errors += n_failed
                times_ms[at] = min(times_ms[at], ms)
                _, ms = _time(lambda question=question: _match(reader, question))
                limits_ms[at] = min(limits_ms[at], ms)
    return times_ms, limits_ms, n_errors


def _time(call: Callable[[], int]) -> tuple[int, float]:
    began_s = time.perf_counter()
    result = call()
    return result, (time.perf_counter() - began_s) * 1000


def _ask(client: Client, question: str) -> int:
    try:
        client.call("search", query=question)
    except MemsyncdError:
        return 1
    return 0


def _match(reader: Reader, question: str) -> int:
    rows = reader.rows(_BEST_TEN, (compile_positive(parse_query(question)),))
    for (chunk,) in rows:
        reader.rows("SELECT text FROM chunks_fts WHERE rowid = ?", (chunk,))
    return 0


def _measure_contexts(home: Home, questions: list[str], at: str) -> Iterator[Figure]:
    with home.client() as client:
        times_ms = [
            min(_time(lambda one=one: _ask_context(client, one))[1] for _ in range(N_ROUNDS))
            for one in questions
        ]
    yield Figure(
        name=f"p50 of a context of {N_CONTEXT_TOKENS:,} tokens {at}",
        value=find_median(times_ms),
        unit="ms",
        note=f"p95 {find_percentile(times_ms, 95):.2f} ms",
    )


def _ask_context(client: Client, question: str) -> int:
    client.call("context", query=question, max_tokens=N_CONTEXT_TOKENS, timeout_ms=TIMEOUT_MS)
    return 0


def _measure_overlap(home: Home, questions: dict[str, list[str]], n_chunks: int, at: str) -> Figure:
    entry = Entry(id="measured", name="measured", root=str(home.folder))
    workspace = Workspace(entry, POLICY, index_path=home.index_path(), records_path=home.folder)
    workspace.old_readers = ConnectionPool(str(home.index_path()))
    workspace.change(counts=Counts(files=1, chunks=n_chunks))
    shares = []
    for question in (one for chosen in questions.values() for one in chosen):
        found = _find_hits(workspace, question)
        with (
            mock.patch.object(engine, "N_CANDIDATES", n_chunks),
            mock.patch.object(engine, "SELECTING_MATCHES", n_chunks * 100),
        ):
            of_all = _find_hits(workspace, question)
        shares.append(len(found & of_all) / max(1, len(of_all)) if of_all else 1.0)
    workspace.old_readers.close()
    name = f"overlap with ranking everything {at}"
    return Figure(name=name, value=100 * find_mean(shares), unit="%")


def _find_hits(workspace: Workspace, question: str) -> set[tuple[str, int]]:
    params, options = SearchParams(query=question), engine.RunOptions(timeout_s=60.0)
    answer = engine.search([workspace], params, Config(), options)
    return {(hit.path, hit.start_line) for hit in answer.hits}
