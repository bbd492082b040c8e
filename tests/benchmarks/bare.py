"""The least that any index of the same notes does: bare FTS5 tables, a bare walk, a bare watcher.

These are the limits that memsyncd is measured against, in the same run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
from watchdog.events import EVENT_TYPE_CLOSED, FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer, inotify_c

from memsyncd.config import Config
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.paths import NotePath
from memsyncd.core.search.words import find_subwords, fold
from memsyncd.store.rows import make_fts_rows
from memsyncd.store.schema import EXACT_TOKENIZER, TOKENIZER
from tests.benchmarks.corpus import Copy

N_HITS = 10
WATCHED = inotify_c.WATCHDOG_ALL_EVENTS
COLUMNS = ("text", "heading", "tags", "subwords", "properties")

Row = tuple[str, ...]


def make_rows(copies: Sequence[Copy]) -> list[Row]:
    """Return the rows of the FTS5 tables for each chunk of the notes."""
    config, rows = Config(), []
    for copy in copies:
        note = parse_note(NotePath(copy.target), copy.read(), config.chunking, config.guard)
        rows += [
            (
                fold(row.text),
                row.heading,
                row.tags,
                find_subwords(fold(f"{row.heading}\n{row.text}\n{row.properties}")),
                row.properties,
            )
            for row in make_fts_rows(note)
        ]
    return rows


def insert_rows(rows: Sequence[Row], path: Path) -> float:
    """Insert the rows into two FTS5 tables, one with stems and texts and one with words as written;
    return the processor time in seconds.
    """
    path.unlink(missing_ok=True)
    began_s = time.process_time()
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "NORMAL")
    columns = ", ".join(COLUMNS)
    connection.execute(
        f"CREATE VIRTUAL TABLE stems USING fts5({columns}, tokenize='{TOKENIZER}');"
        f"CREATE VIRTUAL TABLE words USING fts5({columns}, content='', contentless_delete=1,"
        f" tokenize='{EXACT_TOKENIZER}')"
    )
    with connection:
        for table in ("stems", "words"):
            connection.executemany(
                f"INSERT INTO {table}(rowid, {columns}) VALUES(?,?,?,?,?,?)",
                ((number, *row) for number, row in enumerate(rows, 1)),
            )
    connection.close()
    return time.process_time() - began_s


class BareSearch:
    """Queries of the table of stems: the ten best rows, then their texts."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)

    def search(self, match: str) -> int:
        """Return how many hits there are, at most ten."""
        found = "SELECT rowid FROM stems WHERE stems MATCH ? ORDER BY rank LIMIT ?"
        ids = [rowid for (rowid,) in self._connection.execute(found, (match, N_HITS))]
        for rowid in ids:
            self._connection.execute(
                "SELECT heading, text FROM stems WHERE rowid=?", (rowid,)
            ).fetchall()
        return len(ids)


def walk_notes(folder: str) -> int:
    """Take the stat of each note beneath a folder; return how many there are."""
    n_notes, folders = 0, [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(".md"):
                    entry.stat(follow_symlinks=False)
                    n_notes += 1
    return n_notes


def watch_notes(folder: str) -> int:
    """The same, with each folder opened, and watched by inotify before it is listed."""
    n_notes, folders = 0, [folder]
    inotify = inotify_c.inotify_init()
    try:
        while folders:
            path = folders.pop()
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            inotify_c.inotify_add_watch(inotify, b"/proc/self/fd/%d" % fd, WATCHED)
            with os.scandir(fd) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{path}/{entry.name}")
                    elif entry.name.endswith(".md"):
                        entry.stat(follow_symlinks=False)
                        n_notes += 1
            os.close(fd)
        return n_notes
    finally:
        os.close(inotify)


class BareWatcher(FileSystemEventHandler):
    """watchdog alone: notes when the first closed file after `arm` is announced."""

    def __init__(self, folder: Path) -> None:
        self._arrived_s = 0.0
        self._observer = Observer()
        self._observer.schedule(self, str(folder), recursive=True)
        self._observer.start()

    def arm(self) -> None:
        self._arrived_s = 0.0

    def wait_s(self, limit_s: float) -> float:
        """Return the time of `time.perf_counter` at which an event arrived. Raises TimeoutError."""
        end_s = time.perf_counter() + limit_s
        while not self._arrived_s:
            if time.perf_counter() > end_s:
                raise TimeoutError(f"watchdog had no event within {limit_s} s")
            time.sleep(0)
        return self._arrived_s

    def dispatch(self, event: FileSystemEvent) -> None:
        # A file is announced as changed while it is still written, which is no finished save.
        if event.event_type == EVENT_TYPE_CLOSED:
            self._arrived_s = self._arrived_s or time.perf_counter()

    def close(self) -> None:
        self._observer.stop()
        self._observer.join()
