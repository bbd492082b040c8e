"""Prepares the data that the rows of the table share: workspaces of each size, indexed by a daemon
of each checkout, and bare tables of the same notes.

All is made on first use and kept until the end of the run. Checkouts take turns at everything, so
that other work on the machine meets all of them alike.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.benchmarks.bare import BareSearch, Row, insert_rows, make_rows
from tests.benchmarks.corpus import (
    Copy,
    Source,
    cut_to_bytes,
    cut_to_notes,
    estimate_chunk_bytes,
    read_texts,
    write_workspace,
)
from tests.benchmarks.figure import Figure, Measured, Target
from tests.benchmarks.home import Checkout, Home
from tests.benchmarks.process import read_rss_mb
from tests.benchmarks.queries import Query, Vocabulary, make_queries

# Timed scans would run beside the measured work; the row about them has daemons of its own.
CONFIG = "[sync]\nreconcile_s = 3600\n"
CALM_S = 9.0
"""After a first index the daemon gives memory back within this time."""
IDLE_S = 1.0
"""A daemon that has just answered is idle after this time."""
SAME_SIZE = 0.1
"""A size that differs by less than this share from the size of all notes stands for all notes."""
N_TEXT_BYTES = 20_000_000
"""Queries are made from so many bytes of notes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often things are repeated; `QUICK` only shows that everything runs."""

    n_rounds: int = 5
    n_queries: int = 20
    n_saves: int = 30
    n_costly_saves: int = 3
    n_commands: int = 40
    n_light: int = 150
    note_bytes: int = 1_000_000
    n_vault_notes: int = 10_000
    n_sections: int = 10_000
    n_panel_sections: int = 55_000
    n_accesses: int = 100_000
    n_reads: int = 3
    n_workspaces: int = 100
    reconcile_s: float = 5.0
    calm_s: float = CALM_S
    settle_s: float = 20.0
    """Until a save has its consequences, such as the maintenance of the index."""


QUICK = Effort(
    n_rounds=1,
    n_queries=2,
    n_saves=2,
    n_costly_saves=1,
    n_commands=2,
    n_light=5,
    note_bytes=20_000,
    n_vault_notes=40,
    n_sections=200,
    n_panel_sections=200,
    n_accesses=400,
    n_reads=1,
    n_workspaces=2,
    reconcile_s=0.5,
    calm_s=0.0,
    settle_s=0.5,
)


@dataclass(slots=True, kw_only=True)
class Indexed:
    """A daemon whose one workspace has the notes of a size, and what its first index took."""

    home: Home
    root: Path
    n_chunks: int
    n_text_bytes: int
    index_bytes: int
    cold_cpu_s: float
    idle_mb: float
    filled_mb: float


@dataclass(slots=True)
class Bench:
    """Shared by all rows. `checkouts` are this one and perhaps another one."""

    checkouts: Sequence[Checkout]
    sources: Sequence[Source]
    sizes: Sequence[int]
    effort: Effort
    folder: Path
    series: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _cache: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    # --- notes ----------------------------------------------------------------------------------

    @property
    def n_all_chunks(self) -> int:
        """About how many chunks all notes have."""
        n_bytes = sum(source.size for source in self.sources)
        return round(n_bytes / self.once("chunk_bytes", self._estimate))

    @property
    def smallest(self) -> int:
        return self.sizes[0]

    @property
    def whole(self) -> int:
        """All notes, or fewer if all sizes are smaller."""
        limit = self.n_all_chunks * (1 + SAME_SIZE)
        return max((size for size in self.sizes if size <= limit), default=self.sizes[0])

    def nearest(self, n_chunks: int) -> int:
        """The size that is nearest to so many chunks."""
        return min(self.sizes, key=lambda size: abs(size - n_chunks))

    def notes(self, n_chunks: int) -> list[Copy]:
        """The notes of a size in chunks."""
        if abs(n_chunks / self.n_all_chunks - 1) <= SAME_SIZE:
            return [Copy(source, 0) for source in self.sources]
        return cut_to_bytes(self.sources, n_chunks * self.once("chunk_bytes", self._estimate))

    def queries(self, n_chunks: int) -> dict[str, list[Query]]:
        def make() -> dict[str, list[Query]]:
            texts, left = [], N_TEXT_BYTES
            for text in read_texts(self.notes(n_chunks)):
                texts.append(text)
                left -= len(text)
                if left < 0:
                    break
            return make_queries(Vocabulary(texts), self.effort.n_queries)

        return self.once(("queries", n_chunks), make)

    # --- daemons and bare tables ----------------------------------------------------------------

    def indexed(self, n_chunks: int) -> list[Indexed]:
        """A daemon of each checkout with the notes of this size."""
        return self.once(("indexed", n_chunks), lambda: self._index(self.notes(n_chunks)))

    def indexed_notes(self, n_notes: int) -> list[Indexed]:
        """A daemon of each checkout with so many notes."""
        if n_notes >= len(self.sources):
            return self.indexed(self.whole)
        name = ("indexed notes", n_notes)
        return self.once(name, lambda: self._index(cut_to_notes(self.sources, n_notes)))

    def rows(self, n_chunks: int) -> list[Row]:
        """The rows of FTS5 tables for the notes of this size."""
        return self.once(("rows", n_chunks), lambda: make_rows(self.notes(n_chunks)))

    def bare_search(self, n_chunks: int) -> BareSearch:
        path = self.folder / f"bare-{n_chunks}.db"
        if not path.exists():
            insert_rows(self.rows(n_chunks), path)
        return self.once(("bare", n_chunks), lambda: BareSearch(path))

    def bare_insert_s(self, n_chunks: int) -> float:
        """Processor time of the bare inserts: the lesser of the times before and after the daemons'
        first index.
        """

        def measure() -> float:
            rows, path = self.rows(n_chunks), self.folder / f"bare-{n_chunks}.db"
            before_s = insert_rows(rows, path)
            self.indexed(n_chunks)
            return min(before_s, insert_rows(rows, path))

        return self.once(("insert", n_chunks), measure)

    def start_home(self, checkout: Checkout, config: str = CONFIG) -> Home:
        """A daemon in a new home, until the end of the run."""
        folder = Path(tempfile.mkdtemp(prefix="home-", dir=self.folder))
        home = Home(folder, config, checkout)
        self._stack.callback(home.stop)
        return home

    def by_turns(self, things: Sequence[T], n_rounds: int | None = None) -> Iterator[tuple[int, T]]:
        """Yield each thing with its number, in so many rounds, each in the other order."""
        for round_number in range(self.effort.n_rounds if n_rounds is None else n_rounds):
            numbered = list(enumerate(things))
            yield from reversed(numbered) if round_number % 2 else numbered

    def once(self, name: Any, make: Callable[[], T]) -> T:
        """Return the value of this name; make it if there is none."""
        if name not in self._cache:
            self._cache[name] = make()
        return self._cache[name]

    def close(self) -> None:
        self._stack.close()

    def _index(self, copies: Sequence[Copy]) -> list[Indexed]:
        made = []
        for checkout in self.checkouts:
            home = self.start_home(checkout)
            root = home.folder / "notes"
            n_bytes = write_workspace(copies, root)
            made.append(self._index_one(home, root, n_bytes))
        return made

    def _index_one(self, home: Home, root: Path, n_bytes: int) -> Indexed:
        time.sleep(min(IDLE_S, self.effort.calm_s))
        idle_mb, before_s = read_rss_mb(home.pid), home.cpu_s()
        home.add(root)
        cold_cpu_s = home.cpu_s() - before_s
        home.wait_until_quiet()
        time.sleep(self.effort.calm_s)
        # Notes that were written shortly before they were read are read once more.
        with home.client() as client:
            client.call("search", query="note", wait="disk", timeout_ms=60_000)
            # As at each reconcile, pages that queries have read are given back.
            client.call("sync")
        return Indexed(
            home=home,
            root=root,
            n_chunks=home.workspace()["chunks"],
            n_text_bytes=n_bytes,
            index_bytes=sum(file.stat().st_size for file in home.index_files()),
            cold_cpu_s=cold_cpu_s,
            idle_mb=idle_mb,
            filled_mb=read_rss_mb(home.pid),
        )

    def _estimate(self) -> float:
        return estimate_chunk_bytes(self.sources)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder on a real disk, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="memsyncd-", dir="/var/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(
    row: str,
    name: str,
    measured: Sequence[Measured],
    *,
    unit: str,
    limit_name: str = "",
    target: Target | None = None,
    note: str = "",
) -> Figure:
    """Make the figure of the values measured with this checkout and perhaps with another."""
    return Figure(
        row=row,
        name=name,
        unit=unit,
        limit_name=limit_name,
        now=measured[0],
        before=measured[1] if len(measured) > 1 else None,
        target=target,
        note=note,
    )
