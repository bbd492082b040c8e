"""The smallest program that makes saved notes searchable: watchdog, two FTS5 tables, and a socket.

`python -m tests.benchmarks.least FOLDER DATABASE SOCKET` watches a folder, indexes each note whose
save has ended in one transaction, and answers `search` in memsyncd's protocol. It parses nothing,
ranks by bm25 and keeps no history: what a save takes until it is found is the limit of any daemon
that uses the same libraries.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
from watchdog.events import EVENT_TYPE_CLOSED, FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from memsyncd.client import Client
from memsyncd.errors import NoDaemon
from memsyncd.store.schema import EXACT_TOKENIZER, TOKENIZER

START_S = 30.0
N_HITS = 10
_TABLES = {"stems": TOKENIZER, "words": EXACT_TOKENIZER}


class Indexer(FileSystemEventHandler):
    """Writes each saved note into both tables, on watchdog's thread."""

    def __init__(self, database: str) -> None:
        self._writer = apsw.Connection(database)
        self._writer.pragma("journal_mode", "wal")
        self._writer.pragma("synchronous", "NORMAL")
        for table, tokenizer in _TABLES.items():
            options = f"contentless_delete=1, tokenize='{tokenizer}'"
            self._writer.execute(
                f"CREATE VIRTUAL TABLE {table} USING fts5(text, content='', {options})"
            )
        self._ids: dict[str, int] = {}

    def dispatch(self, event: FileSystemEvent) -> None:
        if event.event_type == EVENT_TYPE_CLOSED and str(event.src_path).endswith(".md"):
            self._index(str(event.src_path))

    def _index(self, path: str) -> None:
        row = self._ids.setdefault(path, len(self._ids) + 1), Path(path).read_text()
        with self._writer:
            for table in _TABLES:
                self._writer.execute(f"DELETE FROM {table} WHERE rowid = ?", row[:1])
                self._writer.execute(f"INSERT INTO {table}(rowid, text) VALUES(?, ?)", row)


async def serve(folder: str, database: str, socket: str) -> None:
    observer = Observer()
    observer.schedule(Indexer(database), folder, recursive=True)
    observer.start()
    reader = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
    match = "SELECT rowid FROM stems WHERE stems MATCH ? ORDER BY rank LIMIT ?"

    async def answer(lines: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        while line := await lines.readline():
            request = json.loads(line)
            query = request["params"].get("query", "")
            rows = reader.execute(match, (query, N_HITS)) if query else ()
            hits = [{"row": row, "matched": [query]} for (row,) in rows]
            result: dict[str, Any] = {"hits": hits}
            response = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            out.write(json.dumps(response).encode() + b"\n")

    async with await asyncio.start_unix_server(answer, socket) as server:
        await server.serve_forever()


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run the program for a folder of notes; yield the path of its socket."""
    with tempfile.TemporaryDirectory(prefix="least-", dir="/var/tmp") as home:
        socket = f"{home}/socket"
        command = [sys.executable, "-m", "tests.benchmarks.least", str(folder)]
        process = subprocess.Popen([*command, f"{home}/least.db", socket])
        try:
            _wait_until_it_answers(socket)
            yield socket
        finally:
            process.kill()
            process.wait()


def _wait_until_it_answers(socket: str) -> None:
    end_s = time.monotonic() + START_S
    while True:
        with contextlib.suppress(NoDaemon), Client(socket, START_S) as client:
            client.call("ping")
            return
        if time.monotonic() > end_s:
            raise TimeoutError("the smallest program did not start")
        time.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
