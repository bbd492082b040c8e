"""SQLite's n-th system call fails, for each n: commits stay, and nothing is damaged.

The next attempt does the rest. A failure has its right name: the daemon waits after a full disk,
and sound records are not set aside because a disk could not read them.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pytest

from memsyncd.errors import MemsyncdError, StoreFailed, StoreFull
from memsyncd.store.history import Intended, ObservedNote
from memsyncd.store.index import DropNote, Index
from memsyncd.store.records import Records
from tests.faults.faulty_disk import Fault, FaultyDisk, find_calls
from tests.store.conftest import FINGERPRINT, dump_index, put_note

# Their error classes; SQLite reports damage when the disk cannot read, which is also a kind of
# failure.
ERRORS = {errno.EIO: StoreFailed, errno.ENOSPC: StoreFull}
# In the short run only every n-th call fails, by the work before; prime to the periods of
# SQLite.
STRIDES = {0: 31, 5: 17}
AGE_S = 1e9


class Store(Protocol):
    def close(self) -> None: ...


S = TypeVar("S", bound=Store)
State = object
Step = Callable[[S], object]


pytestmark = pytest.mark.skipif(
    "pwrite64" not in find_calls(), reason="SQLite calls the system by other names here"
)


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with FaultyDisk() as disk:
        yield disk


# --- what is done to an index, a commit a step ---


def text(word: str, number: int) -> str:
    return f"# Note {number}\n\n" + "\n\n".join(
        f"{word} number{number} part{part} of it" for part in range(12)
    )


def search(index: Index) -> None:
    with index.pool.acquire(5) as reader:
        assert reader.rows("SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH 'maple'")


def tidy(index: Index) -> None:
    while index.tidy():
        pass


INDEX_STEPS: tuple[Step[Index], ...] = (
    lambda index: index.apply(
        [put_note(f"{number}.md", text("larch", number)) for number in range(8)]
    ),
    lambda index: index.apply(
        [put_note(f"{number}.md", text("maple", number), tick=2) for number in range(4)]
    ),
    search,
    lambda index: index.apply(
        [DropNote("7.md"), put_note("moved.md", text("larch", 6), moved_from="6.md", tick=3)]
    ),
    tidy,
    lambda index: index.apply([put_note("late.md", text("maple", 9), tick=4)]),
    search,
)


def open_index(folder: Path) -> Index:
    return Index(folder / "index.db", FINGERPRINT)


def describe_index(index: Index) -> State:
    assert not index.find_damage()
    return index.generation, index.counts, dump_index(index.path)


# --- what is done to records ---


OLD, NEW, NEXT = (
    b"what stood there\n" * 200,
    b"what was written\n" * 200,
    b"what others wrote\n" * 200,
)


def begin(old: bytes | None, new: bytes | None, records: Records) -> None:
    change = Intended(path="a.md", old=old, new=new)
    records.history.begin(at_s=5, client="ada", command="edit", path="a.md", changes=[change])


def finish(records: Records) -> None:
    for action, _ in records.history.find_intended():
        records.history.finish(action)


def purge(records: Records) -> None:
    doomed = [
        revision.id for revision in records.history.find_revisions() if revision.old_digest is None
    ]
    records.history.purge(revisions=doomed)


RECORDS_STEPS: tuple[Step[Records], ...] = (
    lambda records: records.history.record_external(
        [ObservedNote(path="b.md", data=OLD)], at_s=1, is_first=True
    ),
    lambda records: records.history.set_complete("all"),
    partial(begin, None, OLD),
    finish,
    partial(begin, OLD, NEW),
    finish,
    lambda records: records.history.record_external(
        [ObservedNote(path="a.md", data=NEXT), ObservedNote(path="b.md", data=None)],
        at_s=9,
        is_first=False,
    ),
    lambda records: records.history.prune(max_revisions=2, max_age_s=AGE_S, now_s=10),
    purge,
)


def open_records(folder: Path) -> Records:
    return Records(folder / "records.db", workspace="w", root="/w", now_s=1.0)


def describe_records(records: Records) -> State:
    """Return everything that can be queried, texts byte for byte."""
    history = records.history
    revisions = history.find_revisions(limit=100)
    digests = {
        digest
        for revision in revisions
        for digest in (revision.old_digest, revision.new_digest)
        if digest
    } | set(history.heads().values())
    texts = {digest: history.read_text(digest) for digest in digests}
    assert not history.damaged
    return revisions, history.find_intended(), history.heads(), texts, history.is_complete("all")


# --- the loop ---


def is_refused(action: Callable[[], object], kind: type[MemsyncdError], disk: FaultyDisk) -> bool:
    """Call the function; return true if it failed with the right name."""
    try:
        action()
    except MemsyncdError as failure:
        assert disk.has_failed
        assert isinstance(failure, kind), failure.message  # noqa: PT017
        return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(Generic[S]):
    """Operations on a store, each a commit, and its content after each."""

    open: Callable[[Path], S]
    describe: Callable[[S], State]
    steps: Sequence[Step[S]]

    def tell(self, folder: Path) -> list[State]:
        store = self.open(folder)
        states = [self.describe(store)]
        for step in self.steps:
            step(store)
            states.append(self.describe(store))
        store.close()
        return states

    def prepare(self, folder: Path, n_steps: int) -> None:
        store = self.open(folder)
        for step in self.steps[:n_steps]:
            step(store)
        store.close()

    def suffer(
        self, folder: Path, disk: FaultyDisk, fault: Fault, states: Sequence[State], n_done: int
    ) -> bool:
        """Continue with a fault ahead, and afterwards to the end.

        Returns false if the end came before the fault.
        """
        kind = ERRORS[fault.error]
        disk.expect(fault)
        opened: list[S] = []
        is_open = not is_refused(lambda: opened.append(self.open(folder)), kind, disk)
        while (
            is_open
            and n_done < len(self.steps)
            and not is_refused(partial(self.steps[n_done], opened[0]), kind, disk)
        ):
            n_done += 1
        has_failed = disk.repair()
        if opened and fault.at % 2:
            # Continue as after a crash; otherwise with the connections that met the fault.
            opened.pop().close()
        store = opened[0] if opened else self.open(folder)
        try:
            stands = self.describe(store)
            assert stands in (states[n_done], *states[n_done + 1 : n_done + 2])
            for step in self.steps[n_done + (stands != states[n_done]) :]:
                step(store)
            assert self.describe(store) == states[-1]
        finally:
            store.close()
        again = self.open(folder)
        assert self.describe(again) == states[-1]
        again.close()
        return has_failed


SCENARIOS: dict[str, Scenario[Any]] = {
    "index": Scenario(open=open_index, describe=describe_index, steps=INDEX_STEPS),
    "records": Scenario(open=open_records, describe=describe_records, steps=RECORDS_STEPS),
}


def run_through(
    scenario: Scenario[Any],
    folder: Path,
    disk: FaultyDisk,
    error: int,
    *,
    n_before: int,
    stride: int,
) -> None:
    """Run once for every n-th call after the first `n_before` steps; each third fault lasts."""
    whole, prepared = folder / "whole", folder / "prepared"
    whole.mkdir()
    states = scenario.tell(whole)
    prepared.mkdir()
    scenario.prepare(prepared, n_before)
    n_reported, is_over = 0, False
    while not is_over:
        n_reported += 1
        place = folder / "place"
        shutil.copytree(prepared, place)
        fault = Fault(at=n_reported * stride, error=error, lasts=n_reported % 3 == 0)
        is_over = not scenario.suffer(place, disk, fault, states, n_before)
        assert not [path for path in place.iterdir() if "damaged" in path.name], (
            "what is sound was set aside"
        )
        shutil.rmtree(place)
    assert n_reported > 2


each_disk = pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
each_scenario = pytest.mark.parametrize("name", SCENARIOS)
each_beginning = pytest.mark.parametrize("n_before", STRIDES)


@each_disk
@each_scenario
@each_beginning
def test_a_failing_disk_loses_no_commit_and_damages_nothing(
    name: str, error: int, n_before: int, tmp_path: Path, disk: FaultyDisk
) -> None:
    run_through(SCENARIOS[name], tmp_path, disk, error, n_before=n_before, stride=STRIDES[n_before])


@pytest.mark.soak
@pytest.mark.timeout(1800)
@each_disk
@each_scenario
@each_beginning
def test_a_failure_of_any_system_call_loses_and_damages_nothing(
    name: str, error: int, n_before: int, tmp_path: Path, disk: FaultyDisk
) -> None:
    run_through(SCENARIOS[name], tmp_path, disk, error, n_before=n_before, stride=1)
