"""What does a first index cost? Processor time of a whole sync, against inserting the very same
chunks into a bare FTS5 table.

Both run in this process, by turns, each into a new file, and so does looking for secrets alone.
Then a daemon does the same while it is asked for its status, once between two such inserts, and
goes on until each note's text is kept for the history and the index is merged; its memory is looked
at before, meanwhile and after.
"""

from __future__ import annotations

import contextlib
import gc
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from memsyncd.config import Config, SyncConfig
from memsyncd.core.guard.warnings import find_warnings
from memsyncd.core.markdown.decode import decode_note
from memsyncd.core.markdown.parse import parse_note
from memsyncd.core.notepath import NotePath
from memsyncd.engine.clock import Clock
from memsyncd.engine.rebuild import index_fingerprint
from memsyncd.engine.sync import SyncDone, SyncRequest, sync_workspace
from memsyncd.engine.workspace import Entry, Workspace
from memsyncd.store.index import Index
from memsyncd.store.rows import make_fts_rows
from memsyncd.store.schema import TOKENIZER
from tests.benchmarks.figure import Figure, find_median, find_percentile
from tests.benchmarks.home import Home, running
from tests.benchmarks.process import read_cpu_s, read_rss_mb

N_ROUNDS = 3
POLL_S = 0.01
CALM_S = 9.0
"""After a first index the daemon gives memory back within this time."""
CLOCK = Clock(now_s=time.monotonic, wall_ns=time.time_ns)
POLICY = Config(sync=SyncConfig(max_file_bytes=8 * 1024 * 1024))

Row = tuple[int, str, str, str]


def measure(corpus: Path) -> Iterator[Figure]:
    rows, parse_s = read_chunks(corpus)
    texts = [
        decode_note(path.name, path.read_bytes()).text for path in sorted(corpus.rglob("*.md"))
    ]
    syncs, raws, scans = [], [], []
    for _ in range(N_ROUNDS):
        raws.append(time_cpu(lambda folder: insert_raw(folder, rows)))
        syncs.append(time_cpu(lambda folder: index_workspace(corpus, folder)))
        scans.append(time_cpu(lambda _: search_secrets(texts)))
    sync_s, raw_s = find_median(syncs), find_median(raws)
    n_bytes = sum(len(text) for _, _, text, _ in rows)
    yield Figure(
        name="cold index / bare FTS5, CPU",
        value=sync_s / raw_s,
        unit="x",
        target=8,
        note=f"{len(rows):,} chunks, {n_bytes / 1e6:.0f} MB of text; {sync_s:.2f} / {raw_s:.2f} s",
    )
    yield Figure(name="reading the notes / bare FTS5, CPU", value=parse_s / raw_s, unit="x")
    share = 100 * find_median(scans) / sync_s
    yield Figure(
        name="looking for secrets and instructions, of a cold index, CPU",
        value=share,
        unit="%",
        target=3,
    )
    with running() as home:
        yield from measure_daemon(home, corpus, rows)


def measure_daemon(home: Home, corpus: Path, rows: list[Row]) -> Iterator[Figure]:
    raw_s = time_cpu(lambda folder: insert_raw(folder, rows))
    idle_mb, before_s = read_rss_mb(home.pid), read_cpu_s(home.pid)
    waits_ms = index_and_ask(home, corpus)
    cpu_s = read_cpu_s(home.pid) - before_s
    raw_s = (raw_s + time_cpu(lambda folder: insert_raw(folder, rows))) / 2
    yield Figure(
        name="cold index in the daemon / bare FTS5, CPU",
        value=cpu_s / raw_s,
        unit="x",
        target=8,
        note="and answering",
    )
    note = f"p50 {find_median(waits_ms):.2f}, p99 {find_percentile(waits_ms, 99):.2f}, of {len(waits_ms)}"
    yield Figure(
        name="status during a first index, worst",
        value=max(waits_ms),
        unit="ms",
        target=50,
        note=note,
    )
    peak_mb = read_rss_mb(home.pid, "VmHWM")
    time.sleep(CALM_S)
    calm_mb, all_s = read_rss_mb(home.pid), read_cpu_s(home.pid) - before_s
    yield Figure(
        name="the same with what follows: history, tidying", value=all_s / raw_s, unit="x", target=8
    )
    note = f"{idle_mb:.1f} before, {peak_mb:.1f} at most, {calm_mb:.1f} after"
    yield Figure(
        name="memory after a first index, more than before",
        value=calm_mb - idle_mb,
        unit="MB",
        target=10,
        note=note,
    )


def index_and_ask(home: Home, corpus: Path) -> list[float]:
    """Have the daemon index, request its status all the time, and return how long each answer took."""
    waits_ms: list[float] = []
    with home.client() as client:
        client.call("workspace.add", path=str(corpus))
        while True:
            began_s = time.perf_counter()
            status = client.call("status")
            waits_ms.append((time.perf_counter() - began_s) * 1000)
            workspace = status["workspaces"][0]
            if workspace["state"] == "ready" and not workspace["pending"]:
                return waits_ms
            time.sleep(POLL_S)


def read_chunks(corpus: Path) -> tuple[list[Row], float]:
    """The rows that FTS5 gets for each chunk, and the processor time that reading the notes took."""
    began_s = time.process_time()
    rows: list[Row] = []
    for path in sorted(corpus.rglob("*.md")):
        note = parse_note(
            NotePath(path.relative_to(corpus).as_posix()),
            path.read_bytes(),
            POLICY.chunking,
            POLICY.guard,
        )
        rows += [
            (len(rows) + n, one.heading, one.text, one.tags)
            for n, one in enumerate(make_fts_rows(note), 1)
        ]
    return rows, time.process_time() - began_s


def search_secrets(texts: list[str]) -> None:
    for text in texts:
        find_warnings("", text, POLICY.guard)


def insert_raw(folder: Path, rows: list[Row]) -> None:
    """The least that any index of these chunks must do."""
    connection = apsw.Connection(str(folder / "raw.db"))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "NORMAL")
    connection.execute(
        f"CREATE VIRTUAL TABLE fts USING fts5(heading, text, tags, tokenize='{TOKENIZER}')"
    )
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO fts(rowid, heading, text, tags) VALUES(?,?,?,?)", rows)
    connection.execute("COMMIT")
    connection.close()


def index_workspace(corpus: Path, folder: Path) -> None:
    workspace = open_workspace(corpus, folder)
    run_sync(workspace, SyncRequest())
    workspace.close()


def open_workspace(root: Path, folder: Path) -> Workspace:
    entry = Entry(id="measured", name="measured", root=str(root.resolve()))
    workspace = Workspace(
        entry, POLICY, index_path=folder / "index.db", records_path=folder / "records.db"
    )
    workspace.index = Index(workspace.index_path, index_fingerprint(POLICY))
    return workspace


def run_sync(workspace: Workspace, request: SyncRequest) -> SyncDone:
    steps = sync_workspace(workspace, POLICY, CLOCK, request)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            done: SyncDone = end.value
            return done


def time_cpu(work: Callable[[Path], None]) -> float:
    """Processor seconds of `work`, which is given a new folder."""
    with scratch() as folder:
        gc.collect()
        began_s = time.process_time()
        work(folder)
        return time.process_time() - began_s


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="memsyncd-", dir="/var/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
