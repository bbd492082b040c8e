"""Answers of simpler programs to the same questions, for comparison.

`Fts` cuts notes into chunks of 1,600 characters with 320 of overlap, at line ends, and queries
SQLite's FTS5 for all words of a question, quoted, as many tools do, or for any of them but
stopwords. `Ripgrep` returns whole notes, by how many of the question's words it finds in them.
"""

from __future__ import annotations

import collections
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw

from memsyncd.core.search.query import STOPWORDS
from tests.benchmarks.questions import Lines, QuestionSet

CHUNK_CHARACTERS, OVERLAP_CHARACTERS = 1600, 320
N_RESULTS = 50
_WORD = re.compile(r"\w+")


class Fts:
    """Chunks of lines in FTS5, a table for each scope."""

    def __init__(self, question_set: QuestionSet, *, tokenizer: str, is_any: bool) -> None:
        self._is_any = is_any
        self._connection = apsw.Connection(":memory:")
        self._tables = {scope: f"notes_{number}" for number, scope in enumerate(question_set.notes)}
        for scope, table in self._tables.items():
            columns = "path UNINDEXED, first UNINDEXED, last UNINDEXED, text"
            self._connection.execute(
                f'CREATE VIRTUAL TABLE {table} USING fts5({columns}, tokenize="{tokenizer}")'
            )
            for path, lines in question_set.notes[scope].items():
                rows = [
                    (path, first, last, "\n".join(lines[first - 1 : last]))
                    for first, last in find_chunks(lines)
                ]
                self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", rows)

    def ask(self, scope: str, text: str) -> list[Lines]:
        words = find_words(text) if self._is_any else _WORD.findall(text)
        if not words:
            return []
        match = (" OR " if self._is_any else " ").join(f'"{word}"' for word in words)
        table = self._tables[scope]
        statement = f"SELECT path, first, last FROM {table} WHERE {table} MATCH ? ORDER BY rank, path, first LIMIT ?"
        rows = self._connection.execute(statement, (match, N_RESULTS))
        return [Lines(path=path, start=first, end=last) for path, first, last in rows]


class Ripgrep:
    """ripgrep over the files as they are."""

    def __init__(self, question_set: QuestionSet, program: str) -> None:
        self._question_set, self._program = question_set, program

    def ask(self, scope: str, text: str) -> list[Lines]:
        words = find_words(text)
        if not words:
            return []
        found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for path, word in self._find(self._question_set.folder / scope, words):
            found[path][word.lower()] += 1
        ordered = sorted(found, key=lambda path: (-len(found[path]), -found[path].total(), path))
        return [
            Lines(path=path, start=1, end=len(self._question_set.notes[scope][path]))
            for path in ordered[:N_RESULTS]
        ]

    def _find(self, folder: Path, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Path and word of each match."""
        patterns = [argument for word in words for argument in ("-e", word)]
        command = [
            self._program,
            "-o",
            "-i",
            "-w",
            "-F",
            "-H",
            "-0",
            "--no-heading",
            "--no-line-number",
            "-g",
            "*.md",
            *patterns,
            ".",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            path, _, word = line.partition("\0")
            yield path.removeprefix("./"), word


def find_ripgrep() -> str | None:
    return shutil.which("rg")


def find_words(text: str) -> list[str]:
    """The words of a question, without stopwords unless there are no others."""
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))
    return [word for word in words if word not in STOPWORDS] or words


def find_chunks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First and last line of chunks, each as long as may be, and each beginning within the end of
    the one before."""
    first = 1
    while first <= len(lines):
        last, n_characters = first, len(lines[first - 1]) + 1
        while last < len(lines) and n_characters + len(lines[last]) + 1 <= CHUNK_CHARACTERS:
            n_characters += len(lines[last]) + 1
            last += 1
        yield first, last
        if last == len(lines):
            return
        overlap, first_of_next = 0, last + 1
        while (
            first_of_next - 1 > first
            and overlap + len(lines[first_of_next - 2]) + 1 <= OVERLAP_CHARACTERS
        ):
            first_of_next -= 1
            overlap += len(lines[first_of_next - 1]) + 1
        first = first_of_next
