"""Measure what the socket adds to a search: the same questions, by turns, to a daemon and to its
index from this process.

Questions are made of headings of the notes, the same ones each run: a rare word, a few words, a
sentence.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from memsyncd.config import Config
from memsyncd.core.search.query import NO_FILTERS, compile_query, parse_query
from memsyncd.core.search.ranking import N_CANDIDATES
from memsyncd.engine.search import RunOptions, search
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.protocol.search import SearchParams
from memsyncd.store.index import Counts
from memsyncd.store.pool import ConnectionPool
from memsyncd.store.search import find_candidates
from tests.benchmarks.cold import POLICY
from tests.benchmarks.figure import Figure, find_median, find_percentile
from tests.benchmarks.home import running

N_QUESTIONS = 150
SENTENCE = "how do I {} and what is the {} for {}"


def measure(corpus: Path) -> Iterator[Figure]:
    questions = make_questions(corpus)
    with running() as home:
        home.add(corpus)
        entry = Entry(id="measured", name="measured", root=str(corpus))
        workspace = Workspace(entry, POLICY, index_path=home.index_path(), records_path=home.folder)
        workspace.old_readers = ConnectionPool(str(home.index_path()))
        config = Config()

        def search_here(query: str) -> None:
            search([workspace], SearchParams(query=query), config, RunOptions(timeout_s=10.0))

        def match_only(query: str) -> None:
            assert workspace.old_readers is not None
            match = compile_query(parse_query(query))
            with workspace.old_readers.acquire(10.0) as reader:
                find_candidates(reader, match, NO_FILTERS, limit=N_CANDIDATES)

        with home.client() as client:
            status = client.call("status")["workspaces"][0]
            workspace.change(counts=Counts(files=status["files"], chunks=status["chunks"]))

            def search_there(query: str) -> None:
                client.call("search", query=query)

            for kind, chosen in questions.items():
                there, here, match = time_by_turns(chosen, (search_there, search_here, match_only))
                yield Figure(
                    name=f"search over the socket / in process, {kind}",
                    value=find_median(there) / find_median(here),
                    unit="x",
                    target=3,
                    note=f"p50 {find_median(there):.2f} / {find_median(here):.2f} ms, p95 {find_percentile(there, 95):.2f}"
                    f" / {find_percentile(here, 95):.2f} ms",
                )
                yield Figure(
                    name=f"search in process / matching alone, {kind}",
                    value=find_median(here) / find_median(match),
                    unit="x",
                )


def make_questions(corpus: Path) -> dict[str, list[str]]:
    """Questions of three kinds, of words that stand in headings."""
    chance = random.Random(7)
    words = sorted(
        {
            word
            for line in find_headings(corpus)
            for word in line.split()
            if word.isalpha() and len(word) > 3
        }
    )
    pairs = sorted(
        {
            line
            for line in find_headings(corpus)
            if 2 <= len(line.split()) <= 3 and line.replace(" ", "").isalpha()
        }
    )
    return {
        "one word": chance.sample(words, N_QUESTIONS),
        "a heading": chance.sample(pairs, N_QUESTIONS),
        "a sentence": [SENTENCE.format(*chance.sample(words, 3)) for _ in range(N_QUESTIONS)],
    }


def find_headings(corpus: Path) -> Iterator[str]:
    for path in sorted(corpus.rglob("*.md")):
        yield from (
            line.strip("# ")
            for line in path.read_text(errors="replace").splitlines()
            if line.startswith("#")
        )


def time_by_turns(
    questions: list[str], searches: tuple[Callable[[str], None], ...]
) -> list[list[float]]:
    """Milliseconds that each search took for each question, after one that warms up."""
    times_ms: list[list[float]] = [[] for _ in searches]
    for question in questions:
        for at, ask in enumerate(searches):
            ask(question)
            began_s = time.perf_counter()
            ask(question)
            times_ms[at].append((time.perf_counter() - began_s) * 1000)
    return times_ms
