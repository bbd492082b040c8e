"""Measure how long a search takes at 10,000 chunks: questions of all kinds over the socket, of a
corpus cut to that size.

The selection of notes is the same in each run. Where others use the cores, the daemon's processor
time is the figure to trust.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from memsyncd.config import ChunkingConfig
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.notepath import NotePath
from tests.benchmarks.figure import Figure, find_median, find_percentile
from tests.benchmarks.home import Home, running
from tests.benchmarks.process import read_cpu_s
from tests.benchmarks.searches import make_questions

N_CHUNKS = 10_000
N_ROUNDS = 3
N_LONG = 150
LONG = "what did we decide about the {} of {} when the {} was changed and why is {} not {} in {}"
TARGET_MS = 15


def measure(corpus: Path) -> Iterator[Figure]:
    with running() as home:
        n_chunks = copy_notes(corpus, home.folder / "notes")
        home.add(home.folder / "notes")
        questions = make_questions(home.folder / "notes")
        questions["a long question"] = make_long(questions["one word"])
        times_ms = {kind: time_searches(home, chosen) for kind, chosen in questions.items()}
        before_s = read_cpu_s(home.pid)
        everything = [one for times in times_ms.values() for one in times]
        n_questions = N_ROUNDS * sum(
            len(time_searches(home, chosen)) for chosen in questions.values()
        )
        cpu_ms = (read_cpu_s(home.pid) - before_s) * 1000 / n_questions
    yield Figure(
        name=f"p95 of search at {n_chunks:,} chunks",
        value=find_percentile(everything, 95),
        unit="ms",
        target=TARGET_MS,
        note=f"p50 {find_median(everything):.2f} ms, CPU of the daemon {cpu_ms:.2f} ms a search",
    )
    for kind, times in times_ms.items():
        note = f"p50 {find_median(times):.2f} ms"
        yield Figure(
            name=f"of these, {kind}",
            value=find_percentile(times, 95),
            unit="ms",
            target=TARGET_MS,
            note=note,
        )


def copy_notes(corpus: Path, root: Path, most: int = N_CHUNKS) -> int:
    """Copy notes until there are so many chunks; returns how many."""
    paths = sorted((corpus / ".memories").rglob("*.md"))
    random.Random(7).shuffle(paths)
    n_chunks = 0
    for path in paths:
        if n_chunks >= most:
            break
        target = root / path.relative_to(corpus)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        note = NotePath(path.relative_to(corpus).as_posix())
        n_chunks += len(parse_note(note, path.read_bytes(), ChunkingConfig()).chunks)
    return n_chunks


def make_long(words: list[str]) -> list[str]:
    """Questions of six significant words, about as many as people who ask an agent use."""
    chance = random.Random(7)
    return [LONG.format(*chance.sample(words, 6)) for _ in range(N_LONG)]


def time_searches(home: Home, questions: list[str]) -> list[float]:
    """Milliseconds of each question, the best of some rounds, to exclude other work of the machine."""
    times_ms = [float("inf")] * len(questions)
    with home.client() as client:
        for _ in range(N_ROUNDS):
            for at, question in enumerate(questions):
                began_s = time.perf_counter()
                client.call("search", query=question)
                times_ms[at] = min(times_ms[at], (time.perf_counter() - began_s) * 1000)
    return times_ms
